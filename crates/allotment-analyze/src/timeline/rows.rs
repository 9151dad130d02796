//! The rows of the index, one for each allocation, block, pool, ring and descriptor heap of a recording: in which events
//! it began and ended.

use super::NONE;

/// An allocation of a recording. Each is an allocation of its own, also where a program used the same key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationIndex(pub u32);

/// A block of a recording. Each is a block of its own, also where a program used the same id again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

/// A pool of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolIndex(pub u32);

/// A descriptor heap of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DescriptorHeapIndex(pub u32);

/// An allocation: 20 bytes, of which a long recording has millions. All else is in the events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationRow {
    /// The event that allocated it.
    pub(crate) allocated: u32,
    /// The event that requested its release, or [`NONE`].
    pub(crate) free_requested: u32,
    /// The event that freed it, or [`NONE`]. An `Event::Lost` where nothing is known of it from there on.
    pub(crate) freed: u32,
    /// The block that it was allocated in.
    pub(crate) block: u32,
    /// Its first move, as an index into the moves, or [`NONE`].
    pub(crate) first_move: u32,
}

/// A block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRow {
    pub(crate) allocated: u32,
    pub(crate) freed: u32,
    /// The event that made it a shared one, or [`NONE`].
    pub(crate) shared: u32,
    /// Its pool, or [`NONE`] where no event created it.
    pub(crate) pool: u32,
    /// Two of its allocations had bytes in common at some moment.
    pub(crate) aliased: bool,
}

/// A pool, a ring, or a descriptor heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanRow {
    pub(crate) created: u32,
    pub(crate) destroyed: u32,
}

/// A range of descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorRow {
    pub(crate) heap: u32,
    pub(crate) allocated: u32,
    pub(crate) freed: u32,
}

/// Where an allocation is from an event on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) allocation: u32,
    pub(crate) event: u32,
    pub(crate) block: u32,
    pub(crate) offset: u64,
    pub(crate) occupied: u64,
}

/// An event that exchanged two allocations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) one: u32,
    pub(crate) other: u32,
}

/// Returns true if what began and ended with two events exists after the first `position` events.
pub(crate) const fn exists(began: u32, ended: u32, position: u32) -> bool {
    began < position && (ended == NONE || ended >= position)
}

/// Returns the number of an event, or `None` where there is none.
pub(crate) const fn event_number(event: u32) -> Option<u64> {
    if event == NONE { None } else { Some(event as u64) }
}
