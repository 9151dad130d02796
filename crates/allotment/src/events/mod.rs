//! What happens inside, as events: each change of state of the allocator and of what works with it.
//!
//! A program attaches a reader at any time ([`Allocator::subscribe`](crate::Allocator::subscribe)). The reader gets the
//! whole state first, as events too, and then each change in its order. The crate `allotment-trace` records them to a
//! file. Without a reader, a change costs one branch.
//!
//! Ids are unique among what exists at a moment, and used again later; sizes and offsets are in bytes.
//!
//! Not to be confused with the messages of the feature `tracing`, which are texts.

mod batch;
mod codes;
mod event;
mod kind;
mod log;
mod packed;
mod parts;
mod subscription;

pub use batch::EventBatch;
pub use codes::{
    BlockKind, DeletionQueueKind, DescriptorKind, Placement, RefusalReason, RingKind, StallKind,
};
pub use event::{
    Allocated, AllocationKey, BlockId, Event, ObjectId, PoolId, RefusedRequest, RequestedOptions, TextId,
};
pub use kind::EventKind;
pub(crate) use log::{Announcement, EventLog, EventSource};
pub(crate) use parts::{Announces, Parts};
pub use subscription::{AlreadySubscribed, EventSubscription, Marker, SubscriptionDesc};
