//! The index of a recording: when each allocation and each block began and ended.
//!
//! With it the state after any number of events is cheap, without applying the events before one after another: what
//! exists then is what began before and ended later. The index does not copy events. Per allocation it has 20 bytes,
//! and per event 4 and at most 4 more for the checkpoints, which list what exists every some ten thousand events, so
//! that a [`Cursor`](crate::Cursor) can start near any moment.

mod at;
mod bound;
mod build;
mod changed;
mod grouped;
mod key_hasher;
mod live_set;
mod moments;
mod other;
mod pool_labels;
mod rows;
mod unread;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use allotment_trace::recording::{Allocated, Event, Extent, Inconsistent, ObjectId, Recording};

use bound::BoundResources;
pub use bound::ResourceIndex;
use grouped::Grouped;
pub(crate) use live_set::LiveSet;
pub use rows::{AllocationIndex, BlockIndex, DescriptorHeapIndex, PoolIndex};
use rows::{AllocationRow, BlockRow, DescriptorRow, Exchange, Move, SpanRow};

pub use at::{BlockInfo, Lifetime, Place, Status, Texts};

/// No event, or no row.
pub(crate) const NONE: u32 = u32::MAX;

/// The state after a number of events.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) position: u32,
    pub(crate) allocations: Box<[u32]>,
    pub(crate) blocks: Box<[u32]>,
}

/// A recording, indexed: every allocation and every block of it, and what exists after any number of events.
///
/// A moment is a *position*: how many events came before, from 0 to [`end`](Self::end).
///
/// ```
/// use allotment_analyze::Timeline;
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let timeline = Timeline::new(&recording);
/// assert_eq!(timeline.end(), 0);
/// assert_eq!(timeline.allocation_count(), 0);
/// ```
#[derive(Debug)]
pub struct Timeline<'a> {
    recording: &'a Recording,
    end: u32,
    /// The object that each event is about; see [`Timeline::target`].
    targets: Vec<u32>,
    allocations: Vec<AllocationRow>,
    blocks: Vec<BlockRow>,
    pools: Vec<SpanRow>,
    /// What each pool is called, once somebody asked.
    pool_labels: OnceLock<Box<[String]>>,
    rings: Vec<SpanRow>,
    descriptor_heaps: Vec<SpanRow>,
    descriptor_ranges: Vec<DescriptorRow>,
    /// Sorted by allocation, then by event.
    moves: Vec<Move>,
    exchanges: Vec<Exchange>,
    /// The event that made an allocation a reservation.
    reserved: HashMap<u32, u32>,
    /// Events that changed an allocation's texts, mappings or movability.
    changes: Grouped,
    /// Events after which a block was empty.
    emptied: Grouped,
    /// Events that gave a block another size.
    resized: Grouped,
    ring_used: Grouped,
    /// Events that say what a pool serves, and its rules.
    descriptions: Grouped,
    ranges_of_heap: Grouped,
    budgets: BTreeMap<u8, Vec<u32>>,
    queues: BTreeMap<u8, (Vec<u32>, Vec<u32>)>,
    deletion_queues: BTreeMap<ObjectId, Vec<u32>>,
    frames: Vec<u32>,
    times: Vec<u32>,
    losses: Vec<u32>,
    refusals: Vec<u32>,
    stalls: Vec<u32>,
    marks: Vec<u32>,
    bound: BoundResources,
    checkpoints: Vec<Checkpoint>,
    contradictions: Vec<Inconsistent>,
    contradiction_count: u64,
}

impl<'a> Timeline<'a> {
    /// Indexes a recording, in one walk over its events: about 0.6 µs each.
    ///
    /// An event that contradicts those before it is left out, as
    /// [`State::apply`](allotment_trace::recording::State::apply) does, and counted. Only the first 2³² − 2 events of a
    /// recording are indexed, which have 300 GiB in memory.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Self {
        build::build(recording, build::CHECKPOINT_EVENTS)
    }

    /// Indexes a recording with checkpoints that are as near to each other as a test needs.
    #[cfg(test)]
    pub(crate) fn with_checkpoints(recording: &'a Recording, events: usize) -> Self {
        build::build(recording, events)
    }

    fn empty(recording: &'a Recording, end: u32) -> Self {
        Self {
            recording,
            end,
            targets: Vec::with_capacity(end as usize),
            allocations: Vec::new(),
            blocks: Vec::new(),
            pools: Vec::new(),
            pool_labels: OnceLock::new(),
            rings: Vec::new(),
            descriptor_heaps: Vec::new(),
            descriptor_ranges: Vec::new(),
            moves: Vec::new(),
            exchanges: Vec::new(),
            reserved: HashMap::new(),
            changes: Grouped::default(),
            emptied: Grouped::default(),
            resized: Grouped::default(),
            ring_used: Grouped::default(),
            descriptions: Grouped::default(),
            ranges_of_heap: Grouped::default(),
            budgets: BTreeMap::new(),
            queues: BTreeMap::new(),
            deletion_queues: BTreeMap::new(),
            frames: Vec::new(),
            times: Vec::new(),
            losses: Vec::new(),
            refusals: Vec::new(),
            stalls: Vec::new(),
            marks: Vec::new(),
            bound: BoundResources::default(),
            checkpoints: Vec::new(),
            contradictions: Vec::new(),
            contradiction_count: 0,
        }
    }

    /// Returns the recording.
    #[must_use]
    pub const fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// Returns true if the recording knows how its moment came about. A dump of one moment does not: it has no curve, no peak,
    /// no lifetimes, no ages and no other moment than [`end`](Self::end).
    #[must_use]
    pub fn has_history(&self) -> bool {
        self.recording.header.extent != Extent::Moment
    }

    /// Returns the last position: the number of events.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end as u64
    }

    /// Returns how many allocations the whole recording has.
    #[must_use]
    pub fn allocation_count(&self) -> usize {
        self.allocations.len()
    }

    /// Returns every allocation of the whole recording, in the order in which they were allocated.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = AllocationIndex> + use<> {
        (0..self.allocations.len() as u32).map(AllocationIndex)
    }

    /// Returns every block of the whole recording, in the order in which they were allocated.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockIndex> + use<> {
        (0..self.blocks.len() as u32).map(BlockIndex)
    }

    /// Returns every pool of the whole recording, in the order in which they were created.
    pub fn pools(&self) -> impl ExactSizeIterator<Item = PoolIndex> + use<> {
        (0..self.pools.len() as u32).map(PoolIndex)
    }

    /// Returns every descriptor heap of the whole recording, in the order in which they were created.
    pub fn descriptor_heaps(&self) -> impl ExactSizeIterator<Item = DescriptorHeapIndex> + use<> {
        (0..self.descriptor_heaps.len() as u32).map(DescriptorHeapIndex)
    }

    /// Returns the first thousand events that contradict the events before them. All are counted by
    /// [`contradiction_count`](Self::contradiction_count).
    #[must_use]
    pub fn contradictions(&self) -> &[Inconsistent] {
        &self.contradictions
    }

    /// Returns how many events contradict the events before them. The index leaves them out.
    #[must_use]
    pub const fn contradiction_count(&self) -> u64 {
        self.contradiction_count
    }

    /// Returns the event after the first `position` events.
    pub(crate) fn event(&self, position: u32) -> &'a Event {
        &self.recording.events[position as usize]
    }

    /// Returns the row that an event is about: of an allocation, of a block, of an exchange, of a descriptor heap or
    /// of a range of descriptors, as the kind of the event says. [`NONE`] for an event that changes none of them, and
    /// for one that contradicts those before.
    pub(crate) fn target(&self, event: u32) -> u32 {
        self.targets[event as usize]
    }

    pub(crate) fn exchange_of(&self, row: u32) -> [u32; 2] {
        let Exchange { one, other } = self.exchanges[row as usize];
        [one, other]
    }

    pub(crate) fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Returns an allocation as it began.
    pub(crate) fn allocated(&self, row: u32) -> Option<&'a Allocated> {
        match self.event(self.allocations[row as usize].allocated) {
            Event::Allocated(is) => Some(is),
            _ => None,
        }
    }
}
