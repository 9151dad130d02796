//! One walk over the events that finds the rows: each event is judged as
//! [`State::apply`](allotment_trace::recording::State::apply) judges it, so the index and the state agree on every event
//! that contradicts others.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use allotment_trace::recording::{Allocated, AllocationKey, Event, Inconsistent, ObjectId, Recording};

use super::bound::OpenResources;
use super::grouped::Grouped;
use super::key_hasher::KeyHasher;
use super::live_set::LiveSet;
use super::rows::{AllocationRow, BlockRow, DescriptorRow, Exchange, Move, SpanRow};
use super::{Checkpoint, NONE, Timeline};

/// A checkpoint is made after this many events at least. Walking them takes about a millisecond.
pub(super) const CHECKPOINT_EVENTS: usize = 32 * 1024;

/// Contradictions that are kept; the rest is only counted, because a wrong file can have one in each event.
const KEPT_CONTRADICTIONS: usize = 1000;

/// The tables that the walk needs besides the rows that it makes.
#[derive(Default)]
struct Open {
    /// Allocations and blocks that exist, by the program's own key.
    allocations: HashMap<AllocationKey, u32, KeyHasher>,
    blocks: HashMap<u64, u32, KeyHasher>,
    pools: HashMap<u32, u32>,
    rings: HashMap<ObjectId, u32>,
    heaps: HashMap<ObjectId, u32>,
    /// The allocated ranges of each open descriptor heap's row, by the first slot.
    descriptors: HashMap<u32, BTreeMap<u32, u32>>,
    resources: OpenResources,
    live: LiveSet,
    live_blocks: LiveSet,
    /// How many allocations each block has.
    counts: Vec<u32>,
    /// Bytes of each block: its last size.
    sizes: Vec<u64>,
    /// The occupied ranges of each block, end by start, while none overlaps another. `None` after that.
    ranges: Vec<Option<BTreeMap<u64, u64>>>,
    /// Blocks that ever had an allocation of no bytes. `ranges` has none of those.
    has_empty: HashSet<u32>,
    /// Where the allocations are that have moved.
    moved: HashMap<u32, Move>,
    /// Pairs of rows and events, which become groups at the end.
    emptied: Vec<(u32, u32)>,
    resized: Vec<(u32, u32)>,
    changes: Vec<(u32, u32)>,
    used: Vec<(u32, u32)>,
    descriptions: Vec<(u32, u32)>,
}

/// Indexes a recording, with a checkpoint after some events at least.
pub(super) fn build(recording: &Recording, checkpoint_events: usize) -> Timeline<'_> {
    // The last value is NONE. A recording with that number of events would have 300 GiB.
    let count = recording.events.len().min(NONE as usize - 1);
    let events = &recording.events[..count];
    let mut timeline = Timeline::empty(recording, count as u32);
    let mut open = Open::default();
    let mut since_checkpoint = 0;
    for (number, event) in events.iter().enumerate() {
        let live = open.live.items().len() + open.live_blocks.items().len();
        // With a checkpoint as large as the events before it, all together need at most 4 bytes for each event.
        let lost = matches!(event, Event::Lost);
        if lost || since_checkpoint >= checkpoint_events.max(live) {
            timeline.checkpoints.push(Checkpoint {
                position: number as u32,
                allocations: open.live.items().into(),
                blocks: open.live_blocks.items().into(),
            });
            since_checkpoint = 0;
        }
        since_checkpoint += 1;
        match timeline.add(&mut open, event, number as u32) {
            Ok(target) => timeline.targets.push(target),
            Err(reason) => {
                timeline.targets.push(NONE);
                timeline.contradiction_count += 1;
                if timeline.contradictions.len() < KEPT_CONTRADICTIONS {
                    timeline.contradictions.push(Inconsistent { event: number as u64, reason });
                }
            }
        }
    }
    timeline.finish(open);
    timeline
}

impl Timeline<'_> {
    /// Adds what an event changes. Returns the row that it is about: of an allocation, a block, an exchange or a
    /// range of descriptors, as the kind of the event says, or [`NONE`].
    fn add(&mut self, open: &mut Open, event: &Event, number: u32) -> Result<u32, &'static str> {
        match *event {
            Event::Time { .. } => self.times.push(number),
            Event::FrameEnd { .. } => self.frames.push(number),
            Event::Lost => self.lose(open, number),
            Event::PoolCreated { pool, .. } => {
                let row = self.pools.len() as u32;
                if let Some(before) = open.pools.insert(pool.0, row) {
                    self.pools[before as usize].destroyed = number;
                }
                self.pools.push(SpanRow { created: number, destroyed: NONE });
            }
            Event::PoolServes { pool, .. }
            | Event::PoolSized { pool, .. }
            | Event::PoolRules { pool, .. } => {
                let row = *open.pools.get(&pool.0).ok_or("it describes a pool that does not exist")?;
                open.descriptions.push((row, number));
            }
            Event::PoolDestroyed { pool } => {
                let row = open.pools.remove(&pool.0).ok_or("it destroys a pool that does not exist")?;
                self.pools[row as usize].destroyed = number;
            }
            Event::BlockAllocated { block, pool, size, .. } => {
                if open.blocks.contains_key(&block.0) {
                    return Err("it allocates a block that exists");
                }
                let row = self.blocks.len() as u32;
                let pool = open.pools.get(&pool.0).copied().unwrap_or(NONE);
                let new = BlockRow { allocated: number, freed: NONE, shared: NONE, pool, aliased: false };
                self.blocks.push(new);
                open.blocks.insert(block.0, row);
                open.live_blocks.insert(row);
                open.counts.push(0);
                open.sizes.push(size);
                open.ranges.push(Some(BTreeMap::new()));
                return Ok(row);
            }
            Event::BlockFreed { block } => {
                let row = *open.blocks.get(&block.0).ok_or("it frees a block that does not exist")?;
                if open.counts[row as usize] != 0 {
                    return Err("it frees a block that has allocations");
                }
                open.blocks.remove(&block.0);
                open.live_blocks.remove(row);
                open.ranges[row as usize] = None;
                self.blocks[row as usize].freed = number;
                return Ok(row);
            }
            Event::BlockShared { block } => {
                let row = *open.blocks.get(&block.0).ok_or("it shares a block that does not exist")?;
                let shared = &mut self.blocks[row as usize].shared;
                *shared = (*shared).min(number);
                return Ok(row);
            }
            Event::BlockResized { block, size } => {
                let row = *open.blocks.get(&block.0).ok_or("it resizes a block that does not exist")?;
                if size < open.sizes[row as usize] && self.open_end(open, row) > size {
                    return Err("it takes memory from a block that an allocation has");
                }
                open.sizes[row as usize] = size;
                open.resized.push((row, number));
                return Ok(row);
            }
            Event::Allocated(is) => return self.allocate(open, is, number),
            Event::Freed { allocation } => return self.free(open, allocation, number),
            Event::FreeRequested { allocation } => {
                let row = open.find(allocation)?;
                let requested = &mut self.allocations[row as usize].free_requested;
                *requested = (*requested).min(number);
                return Ok(row);
            }
            Event::Labelled { allocation, .. }
                if open.find(allocation).is_err() && open.resources.is_bound(allocation) =>
            {
                // It has no row: that of a resource would be taken for one of an allocation.
                open.resources.change(allocation, None, number)?;
            }
            Event::CallSite { allocation, .. }
            | Event::Stack { allocation, .. }
            | Event::Labelled { allocation, .. }
            | Event::Movable { allocation, .. }
            | Event::Requested { allocation, .. }
            | Event::Mapped { allocation, .. } => {
                let row = open.find(allocation)?;
                open.changes.push((row, number));
                return Ok(row);
            }
            Event::Reserved { reservation, .. } => {
                let row = open.find(reservation)?;
                self.reserved.entry(row).or_insert(number);
                return Ok(row);
            }
            Event::Exchanged { allocation, reservation } => {
                return self.exchange(open, allocation, reservation, number);
            }
            Event::Bound(ref is) => {
                let memory = open.allocations.get(&is.memory).copied();
                let memory = memory.map(|row| (row, self.allocated(row).map_or(0, |is| is.requested)));
                return self.bound.bind(&mut open.resources, is, memory, number);
            }
            Event::Unbound { resource } => return self.bound.unbind(&mut open.resources, resource, number),
            Event::Activated { resource } => return open.resources.change(resource, None, number),
            Event::Displaced { resource, by } => return open.resources.change(resource, Some(by), number),
            Event::Budget { heap, .. } => self.budgets.entry(heap.0).or_default().push(number),
            Event::Submitted { queue, .. } => self.queues.entry(queue.0).or_default().0.push(number),
            Event::Completed { queue, .. } => self.queues.entry(queue.0).or_default().1.push(number),
            Event::DeletionQueue { queue, .. } => {
                self.deletion_queues.entry(queue).or_default().push(number);
            }
            Event::RingCreated { ring, .. } => {
                let row = self.rings.len() as u32;
                if let Some(before) = open.rings.insert(ring, row) {
                    self.rings[before as usize].destroyed = number;
                }
                self.rings.push(SpanRow { created: number, destroyed: NONE });
            }
            Event::RingUsed { ring, .. } => {
                let row = *open.rings.get(&ring).ok_or("it names a ring that does not exist")?;
                open.used.push((row, number));
            }
            Event::RingDestroyed { ring } => {
                let row = open.rings.remove(&ring).ok_or("it destroys a ring that does not exist")?;
                self.rings[row as usize].destroyed = number;
            }
            Event::Refused { .. } => self.refusals.push(number),
            Event::Stalled { .. } => self.stalls.push(number),
            Event::Mark { .. } => self.marks.push(number),
            Event::DescriptorHeapCreated { .. }
            | Event::DescriptorHeapDestroyed { .. }
            | Event::DescriptorsAllocated { .. }
            | Event::DescriptorsFreed { .. } => return self.descriptors(open, event, number),
            // A kind of event that changes no state that is known here.
            _ => {}
        }
        Ok(NONE)
    }

    fn allocate(&mut self, open: &mut Open, is: Allocated, number: u32) -> Result<u32, &'static str> {
        let Entry::Vacant(new_key) = open.allocations.entry(is.allocation) else {
            return Err("it allocates an allocation that exists");
        };
        let block = *open.blocks.get(&is.block.0).ok_or("it allocates in a block that does not exist")?;
        if is.requested > is.occupied {
            return Err("an allocation occupies less than was requested");
        }
        let end = is.offset.checked_add(is.occupied).filter(|&end| end <= open.sizes[block as usize]);
        let end = end.ok_or("an allocation reaches beyond its block")?;
        let row = self.allocations.len() as u32;
        let (free_requested, freed) = (NONE, NONE);
        let new = AllocationRow { allocated: number, free_requested, freed, block, first_move: NONE };
        self.allocations.push(new);
        new_key.insert(row);
        open.live.insert(row);
        open.counts[block as usize] += 1;
        if is.occupied == 0 {
            open.has_empty.insert(block);
        }
        let known = &mut open.ranges[block as usize];
        if let Some(ranges) = known {
            // While no two ranges overlap, a new one can only overlap the last that starts before its end.
            let overlaps = ranges.range(..end).next_back().is_some_and(|(_, &last)| last > is.offset);
            if is.occupied > 0 && overlaps {
                self.blocks[block as usize].aliased = true;
                *known = None;
            } else if is.occupied > 0 {
                ranges.insert(is.offset, end);
            }
        }
        Ok(row)
    }

    fn free(&mut self, open: &mut Open, key: AllocationKey, number: u32) -> Result<u32, &'static str> {
        let row = *open.allocations.get(&key).ok_or("it frees an allocation that does not exist")?;
        if open.resources.has(row) {
            return Err("it frees an allocation that resources are bound to");
        }
        open.allocations.remove(&key);
        let place = self.open_place(open, row);
        self.allocations[row as usize].freed = number;
        open.live.remove(row);
        if self.allocations[row as usize].first_move != NONE {
            open.moved.remove(&row);
        }
        if let (Some(ranges), 1..) = (&mut open.ranges[place.block as usize], place.occupied) {
            ranges.remove(&place.offset);
        }
        let count = &mut open.counts[place.block as usize];
        *count -= 1;
        if *count == 0 {
            open.emptied.push((place.block, number));
        }
        Ok(row)
    }

    /// The end of the last range of a block that an allocation has; 0 where it has none.
    fn open_end(&self, open: &Open, block: u32) -> u64 {
        match &open.ranges[block as usize] {
            // No two overlap, so the one that begins last also ends last.
            Some(ranges) if !open.has_empty.contains(&block) => {
                ranges.last_key_value().map_or(0, |(_, &end)| end)
            }
            // Blocks with aliasing are hardly ever made smaller, so looking at all allocations is cheap enough.
            _ => {
                let places = open.live.items().iter().map(|&row| self.open_place(open, row));
                let ends = places.filter(|place| place.block == block);
                ends.map(|place| place.offset + place.occupied).max().unwrap_or(0)
            }
        }
    }

    /// Where an allocation is that exists.
    fn open_place(&self, open: &Open, row: u32) -> Move {
        let is = self.allocations[row as usize];
        if is.first_move != NONE {
            if let Some(&last) = open.moved.get(&row) {
                return last;
            }
        }
        let (offset, occupied) = self.allocated(row).map_or((0, 0), |is| (is.offset, is.occupied));
        Move { allocation: row, event: is.allocated, block: is.block, offset, occupied }
    }

    fn exchange(
        &mut self,
        open: &mut Open,
        one: AllocationKey,
        other: AllocationKey,
        event: u32,
    ) -> Result<u32, &'static str> {
        let missing = "it moves an allocation that does not exist";
        let one = *open.allocations.get(&one).ok_or(missing)?;
        let other = *open.allocations.get(&other).ok_or(missing)?;
        if one != other {
            let (a, b) = (self.open_place(open, one), self.open_place(open, other));
            for to in [Move { allocation: one, event, ..b }, Move { allocation: other, event, ..a }] {
                open.moved.insert(to.allocation, to);
                // The index of the first move is known once the moves are sorted.
                self.allocations[to.allocation as usize].first_move = 0;
                self.moves.push(to);
            }
        }
        self.exchanges.push(Exchange { one, other });
        Ok(self.exchanges.len() as u32 - 1)
    }

    fn descriptors(&mut self, open: &mut Open, event: &Event, number: u32) -> Result<u32, &'static str> {
        match *event {
            Event::DescriptorHeapCreated { heap, .. } => {
                if let Some(before) = open.heaps.remove(&heap) {
                    self.end_heap(open, before, number);
                }
                let row = self.descriptor_heaps.len() as u32;
                open.heaps.insert(heap, row);
                open.descriptors.insert(row, BTreeMap::new());
                self.descriptor_heaps.push(SpanRow { created: number, destroyed: NONE });
                Ok(row)
            }
            Event::DescriptorHeapDestroyed { heap } => {
                let missing = "it destroys a descriptor heap that does not exist";
                let row = open.heaps.remove(&heap).ok_or(missing)?;
                self.end_heap(open, row, number);
                Ok(row)
            }
            Event::DescriptorsAllocated { heap, first, .. } => {
                let row = open.heap(heap)?;
                let range = self.descriptor_ranges.len() as u32;
                let before = open.descriptors.get_mut(&row).and_then(|ranges| ranges.insert(first, range));
                if let Some(before) = before {
                    self.descriptor_ranges[before as usize].freed = number;
                }
                self.descriptor_ranges.push(DescriptorRow { heap: row, allocated: number, freed: NONE });
                Ok(range)
            }
            Event::DescriptorsFreed { heap, first, .. } => {
                let row = open.heap(heap)?;
                let freed = open.descriptors.get_mut(&row).and_then(|ranges| ranges.remove(&first));
                let range = freed.ok_or("it frees descriptors that are not allocated")?;
                self.descriptor_ranges[range as usize].freed = number;
                Ok(range)
            }
            _ => Ok(NONE),
        }
    }

    fn end_heap(&mut self, open: &mut Open, row: u32, number: u32) {
        self.descriptor_heaps[row as usize].destroyed = number;
        for (_, range) in open.descriptors.remove(&row).unwrap_or_default() {
            self.descriptor_ranges[range as usize].freed = number;
        }
    }

    /// Ends every pool, block and allocation: nothing is known of them from here on.
    fn lose(&mut self, open: &mut Open, number: u32) {
        self.losses.push(number);
        for (_, row) in open.pools.drain() {
            self.pools[row as usize].destroyed = number;
        }
        for (_, row) in open.blocks.drain() {
            self.blocks[row as usize].freed = number;
            open.ranges[row as usize] = None;
            open.counts[row as usize] = 0;
        }
        for (_, row) in open.allocations.drain() {
            self.allocations[row as usize].freed = number;
        }
        for (_, row) in core::mem::take(&mut open.heaps) {
            self.end_heap(open, row, number);
        }
        self.bound.lose(&mut open.resources, number);
        open.live.clear();
        open.live_blocks.clear();
        open.moved.clear();
    }

    /// Makes the groups, which need all rows.
    fn finish(&mut self, open: Open) {
        self.moves.sort_unstable_by_key(|to| (to.allocation, to.event));
        for (index, to) in self.moves.iter().enumerate().rev() {
            self.allocations[to.allocation as usize].first_move = index as u32;
        }
        self.changes = Grouped::new(self.allocations.len(), &open.changes);
        self.emptied = Grouped::new(self.blocks.len(), &open.emptied);
        self.resized = Grouped::new(self.blocks.len(), &open.resized);
        self.ring_used = Grouped::new(self.rings.len(), &open.used);
        self.bound.finish(&open.resources);
        self.descriptions = Grouped::new(self.pools.len(), &open.descriptions);
        let heaps = self.descriptor_ranges.iter().zip(0..).map(|(range, row)| (range.heap, row));
        self.ranges_of_heap = Grouped::new(self.descriptor_heaps.len(), &heaps.collect::<Vec<_>>());
    }
}

impl Open {
    fn find(&self, allocation: AllocationKey) -> Result<u32, &'static str> {
        self.allocations.get(&allocation).copied().ok_or("it names an allocation that does not exist")
    }

    fn heap(&self, heap: ObjectId) -> Result<u32, &'static str> {
        self.heaps.get(&heap).copied().ok_or("it names a descriptor heap that does not exist")
    }
}
