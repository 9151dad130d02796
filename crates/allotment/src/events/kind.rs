//! The kinds of events, so that a program that handles each can find out that it forgot one.

use super::Event;

/// Declares a kind for each event. The match is exhaustive here, where [`Event`] is declared: an event without a kind
/// does not compile.
macro_rules! kinds {
    ($($name:ident)*) => {
        /// Which event an [`Event`] is, without its values.
        ///
        /// [`Event`] is `#[non_exhaustive]`, so that every `match` outside this crate has an arm for events that it
        /// does not know, and a compiler cannot say which are missing. A test can: it handles one event of each kind.
        ///
        /// ```
        /// use allotment::events::{Event, EventKind};
        ///
        /// assert_eq!(Event::FrameEnd { number: 7 }.kind(), EventKind::FrameEnd);
        /// assert!(EventKind::ALL.contains(&EventKind::FrameEnd));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $(
                #[doc = concat!("[`Event::", stringify!($name), "`].")]
                $name,
            )*
        }

        impl EventKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }

        impl Event {
            /// Returns which event it is.
            #[must_use]
            pub const fn kind(&self) -> EventKind {
                match self {
                    $(Self::$name { .. } => EventKind::$name,)*
                }
            }
        }
    };
}

kinds! {
    Time FrameEnd Mark Lost
    PoolCreated PoolServes PoolSized PoolRules PoolReset PoolDestroyed
    Joined TimePassed Trimmed Maintained RoomReserved
    BlockAllocated BlockFreed BlockShared BlockResized
    Allocated Requested CallSite Stack Labelled Movable FreeRequested Freed Exchanged Reserved Mapped
    Bound Unbound Displaced Activated
    Budget Refused RefusedRequest Stalled Submitted Completed
    DescriptorHeapCreated DescriptorHeapDestroyed DescriptorsAllocated DescriptorsFreed
    RingCreated RingUsed RingDestroyed DeletionQueue
}
