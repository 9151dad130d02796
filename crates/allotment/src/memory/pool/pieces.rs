//! Reports read a pool piece by piece: other threads allocate and free in between, and wait for one piece at most.
//!
//! ```text
//!   records    [ 0 … 255 ] [ 256 … 511 ] [ …           an allocation keeps its record as long as it lives
//!   blocks     [ 0 … 63 ]  [ …                         and a block its index
//!   regions    [ 256 of a block ]▼[ 256 ]▼[ …          the next piece begins behind a range of the last one that still lives
//! ```
//!
//! # What a report tells
//!
//! An allocation that lives during the whole call is in it, once, as it was at some moment of the call. What other threads
//! allocate or free meanwhile may be in it or not, and sums of it may be of different moments. Where no other thread changes
//! the pool, the report is exact.
//!
//! # Cost
//!
//! A piece takes some tens of microseconds. What a piece was read for is put together after it, without the lock: a list
//! that grows, or a text, may take longer than a piece.

use std::collections::VecDeque;

use allotment_suballoc::{Handle, Region, RegionKind, Regions};

use crate::device::Device;
use crate::memory::block_set::Block;
use crate::memory::pool::{Detail, PoolSlot, PoolState};

/// The records that are read in a piece.
const RECORDS: u32 = 256;

/// The blocks that are read in a piece.
const BLOCKS: u32 = 64;

/// The regions of a block that are read in a piece.
const REGIONS: usize = 256;

/// The live ranges behind the last of which the next piece may begin. More would be found seldom, and a list that grows with
/// the block is copied, under the lock, for milliseconds.
const ANCHORS: usize = 4 * REGIONS;

/// How often the regions of a block are read from its start where none of the last piece is left; then at once, since a
/// block whose ranges go so fast has few.
const RESTARTS: u32 = 8;

/// A region as a report shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenRegion {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) kind: SeenKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenKind {
    Used,
    Padding,
    Free,
}

/// A live range of a piece.
#[derive(Clone, Copy)]
struct Anchor {
    handle: Handle,
    offset: u64,
}

/// The last live ranges of the pieces so far.
struct Anchors(VecDeque<Anchor>);

impl Anchors {
    fn new() -> Self {
        Self(VecDeque::with_capacity(ANCHORS))
    }

    /// Adds the next one. Allocates no host memory.
    fn push(&mut self, anchor: Anchor) {
        if self.0.len() == ANCHORS {
            self.0.pop_front();
        }
        self.0.push_back(anchor);
    }
}

impl SeenRegion {
    fn of(region: &Region<'_, ()>) -> Self {
        let kind = match region.kind {
            RegionKind::Used { .. } => SeenKind::Used,
            RegionKind::Padding => SeenKind::Padding,
            _ => SeenKind::Free,
        };
        Self { offset: region.offset, size: region.size, kind }
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.size
    }
}

impl<D: Device> PoolSlot<D> {
    /// Calls `read` with the locked pool, again and again until it returns false, and lets other threads have the lock in
    /// between. Ends where there is no pool.
    fn in_pieces<P>(
        &self,
        mut read: impl FnMut(&mut PoolState<D>, &mut Vec<P>) -> bool,
        mut then: impl FnMut(P),
    ) {
        let mut piece = Vec::new();
        loop {
            let more = self.state.look(|state| state.as_mut().is_some_and(|state| read(state, &mut piece)));
            piece.drain(..).for_each(&mut then);
            if !more {
                return;
            }
        }
    }

    /// Calls `read` for each live allocation, with the pool locked, and `then` for each result, without.
    pub(crate) fn each_live<P>(
        &self,
        read: impl Fn(&PoolState<D>, u32, &Detail) -> Option<P>,
        then: impl FnMut(P),
    ) {
        let mut next: u32 = 0;
        let read = |state: &mut PoolState<D>, piece: &mut Vec<P>| {
            let end = next.saturating_add(RECORDS).min(state.records());
            let live = (next..end).filter_map(|record| Some((record, state.detail(record)?)));
            piece.extend(live.filter_map(|(record, detail)| read(state, record, detail)));
            next = end;
            next < state.records()
        };
        self.in_pieces(read, then);
    }

    /// Calls `read` for each block of each set, with the pool locked, and `then` for each result, without. First the ranges
    /// in the quick lists are joined with their neighbours, or they would show as allocations.
    pub(crate) fn each_block<P>(
        &self,
        read: impl Fn(&PoolState<D>, usize, u32, &Block<D>) -> P,
        then: impl FnMut(P),
    ) {
        let (mut set, mut next) = (0, 0);
        let read = |state: &mut PoolState<D>, piece: &mut Vec<P>| {
            if (set, next) == (0, 0) {
                state.flush_quick_lists_and_say_so();
            }
            let Some(blocks) = state.sets.get(set) else { return false };
            let end = (next + BLOCKS).min(blocks.bound());
            let these = (next..end).filter_map(|index| Some((index, blocks.block(index)?)));
            piece.extend(these.map(|(index, block)| read(state, set, index, block)));
            (set, next) = if end == blocks.bound() { (set + 1, 0) } else { (set, end) };
            set < state.sets.len()
        };
        self.in_pieces(read, then);
    }

    /// Calls `then` for each region of a block in address order, without the lock. Where ranges at the end of a piece were
    /// freed meanwhile, it is called for regions from a lower offset on once more. Ends where the block is gone.
    pub(crate) fn each_region(&self, (set, index, object): (usize, u32, u32), then: impl FnMut(SeenRegion)) {
        let (mut anchors, mut began, mut restarts) = (Anchors::new(), false, 0);
        let read = |state: &mut PoolState<D>, piece: &mut Vec<SeenRegion>| {
            // The index may be that of another block by now.
            let block = state.sets.get(set).and_then(|blocks| blocks.block(index));
            let Some(block) = block.filter(|block| block.object() == object) else { return false };
            let behind = |anchor: Anchor| -> Option<Regions<'_, ()>> {
                let range = block.ranges.get(anchor.handle).ok()?;
                if range.offset != anchor.offset {
                    return None;
                }
                block.ranges.regions_behind(anchor.handle).ok()
            };
            let resumed = core::iter::from_fn(|| anchors.0.pop_back()).find_map(behind);
            restarts += u32::from(resumed.is_none() && began);
            began = true;
            let regions = resumed.unwrap_or_else(|| block.ranges.regions());
            let most = if restarts > RESTARTS { usize::MAX } else { REGIONS };
            for region in regions.take(most) {
                piece.push(SeenRegion::of(&region));
                if let RegionKind::Used { handle, .. } = region.kind {
                    anchors.push(Anchor { handle, offset: region.offset });
                }
            }
            piece.len() == most
        };
        self.in_pieces(read, then);
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::memory::BlockSizes;
    use crate::sync::{locked, try_locked};
    use crate::{Allocation, Allocator, AllocatorDesc, MemoryUsage, Requirements};

    const SIZE: u64 = 512;

    struct World {
        allocator: Allocator<SimulatedGpu>,
    }

    impl World {
        fn new(block: u64) -> Self {
            let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
            let desc = AllocatorDesc { block_sizes: BlockSizes::fixed(block), ..AllocatorDesc::default() };
            Self { allocator: Allocator::new(device, desc).unwrap() }
        }

        fn allocate(&self, count: usize, size: u64) -> Vec<Allocation> {
            let one = |_| self.allocator.allocate(&Requirements::new(size), &MemoryUsage::GpuOnly.into());
            (0..count).map(one).collect::<Result<_, _>>().unwrap()
        }

        /// The only pool.
        fn slot(&self) -> &PoolSlot<SimulatedGpu> {
            self.allocator.settled().slots().find(|slot| slot.has_memory()).unwrap()
        }

        /// The first block.
        fn block(&self) -> (usize, u32, u32) {
            let mut found = None;
            self.slot().each_block(
                |_, set, index, block| (set, index, block.object()),
                |block| _ = found.get_or_insert(block),
            );
            found.unwrap()
        }
    }

    /// Counts what is read under one lock.
    #[derive(Default)]
    struct Pieces {
        now: Cell<usize>,
        largest: Cell<usize>,
        count: Cell<usize>,
    }

    impl Pieces {
        fn read(&self) {
            self.now.set(self.now.get() + 1);
        }

        /// Notes that a piece is over, where the first of its results is at hand; and that the lock is free then.
        fn then(&self, slot: &PoolSlot<SimulatedGpu>) {
            assert!(
                try_locked(&slot.state).is_some(),
                "nothing is done with a result while the pool is locked"
            );
            if self.now.get() != 0 {
                self.largest.set(self.largest.get().max(self.now.take()));
                self.count.set(self.count.get() + 1);
            }
        }
    }

    #[test]
    fn records_and_blocks_are_read_some_at_a_time_with_the_lock_free_in_between() {
        let world = World::new(64 << 10);
        let held = world.allocate(3000, 32 << 10);
        let (slot, records, blocks) = (world.slot(), Pieces::default(), Pieces::default());
        let mut live = 0;
        slot.each_live(
            |_, _, _| {
                records.read();
                Some(())
            },
            |()| {
                records.then(slot);
                live += 1;
            },
        );
        assert_eq!((live, records.largest.get(), records.count.get()), (3000, RECORDS as usize, 12));
        slot.each_block(|_, _, _, _| blocks.read(), |()| blocks.then(slot));
        assert_eq!((blocks.largest.get(), blocks.count.get()), (BLOCKS as usize, 1500_usize.div_ceil(64)));
        drop(world.allocator.free_many(held));
    }

    #[test]
    fn what_a_walk_keeps_of_a_block_does_not_grow_with_it() {
        let (mut anchors, allocated) = (Anchors::new(), Anchors::new().0.capacity());
        let world = World::new(4 << 20);
        let held = world.allocate(8000, SIZE);
        let (set, index, _) = world.block();
        let guard = locked(&world.slot().state);
        let block = guard.as_ref().unwrap().sets[set].block(index).unwrap();
        let mut live = 0;
        for region in block.ranges.regions() {
            if let RegionKind::Used { handle, .. } = region.kind {
                anchors.push(Anchor { handle, offset: region.offset });
                live += 1;
            }
        }
        assert!(live > ANCHORS);
        assert_eq!(
            (anchors.0.len(), anchors.0.capacity()),
            (ANCHORS, allocated),
            "nothing is allocated under the lock"
        );
        let last = anchors.0.back().unwrap();
        assert_eq!(block.ranges.get(last.handle).unwrap().offset, last.offset, "the last ones are kept");
        drop(guard);
        drop(world.allocator.free_many(held));
    }

    #[test]
    fn an_allocation_that_lives_throughout_is_listed_once_whatever_others_do() {
        let world = World::new(8 << 20);
        let mut held: Vec<_> = world.allocate(4000, SIZE);
        // What is freed and made while the list is made.
        let mut others = held.split_off(2000);
        let mut listed = Vec::new();
        let of = |slot: &PoolSlot<SimulatedGpu>, record| slot.records.get(record).map(|entry| entry.offset());
        let slot = world.slot();
        slot.each_live(
            |_, record, _| of(slot, record),
            |offset| {
                listed.push(offset);
                if let Some(other) = others.pop().filter(|_| listed.len() % 3 == 0) {
                    world.allocator.free(other).unwrap();
                }
                if listed.len() % 7 == 0 {
                    others.extend(world.allocate(1, SIZE));
                }
            },
        );
        listed.sort_unstable();
        for allocation in &held {
            let offset = world.allocator.location(allocation).unwrap().offset;
            assert_eq!(listed.iter().filter(|&&other| other == offset).count(), 1);
        }
        drop(world.allocator.free_many(held.drain(..).chain(others)));
    }

    #[test]
    fn the_regions_of_a_block_tile_it_whatever_others_free_and_allocate_meanwhile() {
        let world = World::new(4 << 20);
        let mut held = world.allocate(8000, SIZE);
        let slot = world.slot();
        for seed in 1..6_usize {
            let (mut regions, mut seen, mut freed) = (Vec::<SeenRegion>::new(), 0, Vec::new());
            slot.each_region(world.block(), |region| {
                assert!(try_locked(&slot.state).is_some());
                while regions.last().is_some_and(|last| last.end() > region.offset) {
                    regions.pop();
                }
                regions.push(region);
                seen += 1;
                // The ends of pieces as well: the ranges from which the next one would go on.
                if seen % REGIONS > REGIONS - 40 * seed && !held.is_empty() {
                    freed.push(held.swap_remove(seen * seed % held.len()));
                }
                if seen % REGIONS == 0 {
                    freed.drain(..).for_each(|allocation| world.allocator.free(allocation).unwrap());
                    locked(&slot.state).as_mut().unwrap().flush_quick_lists();
                    held.extend(world.allocate(20 * seed, 2 * SIZE));
                }
            });
            assert_eq!(regions.first().map(|region| region.offset), Some(0));
            assert!(regions.windows(2).all(|pair| pair[0].end() == pair[1].offset), "no gap, no overlap");
            assert_eq!(regions.last().map(SeenRegion::end), Some(4 << 20));
            let used = |offset| regions.iter().any(|it| it.offset == offset && it.kind == SeenKind::Used);
            // Those that lived throughout: at the beginning of the list, which grows and shrinks at its end and by swaps.
            let kept = held.iter().filter(|it| world.allocator.location(it).is_ok_and(|it| it.size == SIZE));
            assert!(kept.clone().all(|it| used(world.allocator.location(it).unwrap().offset)));
            freed.into_iter().for_each(|allocation| world.allocator.free(allocation).unwrap());
        }
        world.allocator.check_invariants();
        drop(world.allocator.free_many(held));
    }

    #[test]
    fn of_a_block_that_goes_and_of_one_that_is_emptied_the_walk_comes_to_an_end() {
        let world = World::new(1 << 20);
        let held = Cell::new(world.allocate(2000, SIZE));
        let (slot, mut last) = (world.slot(), 0);
        slot.each_region(world.block(), |region| {
            drop(world.allocator.free_many(held.take()));
            locked(&slot.state).as_mut().unwrap().flush_quick_lists();
            last = region.end();
        });
        assert_eq!(last, 1 << 20, "it is one free region then, seen from its start");
        held.set(world.allocate(2000, SIZE));
        slot.each_region(world.block(), |_| {
            drop(world.allocator.free_many(held.take()));
            world.allocator.trim();
        });
        assert_eq!(world.allocator.statistics().blocks, 0);
    }
}
