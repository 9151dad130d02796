//! The tables of a shader-visible heap: long-lived ranges, which move when the heap is replaced.
//!
//! The location of a table can be read without a lock for a given generation of the heap: the one that the
//! recording began with. There are at most two generations, so an entry stores two locations.

use core::fmt;
use core::mem;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

use allotment_suballoc::{
    Algorithm, Alignment, Allocation, FitStrategy, Handle, RegionKind, Request, VirtualBlock,
};

use super::error::DescriptorError;
use super::events::RegionEvents;
use super::generation::Chunks;
use super::heap_regions::Regions;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::events::{Announces, EventLog, lock_to_announce};
use crate::slab::Slab;
use crate::sync::locked;
use crate::table::StableTable;

/// The table has no location in the previous generation.
const NOWHERE: u32 = u32::MAX;

/// The locations of a table.
#[derive(Default)]
struct Place {
    /// The generation of the newer location in the upper half, and its first descriptor.
    now: AtomicU64,
    /// The location in the generation before that. Written before `now`.
    before: AtomicU32,
}

impl Place {
    fn set(&self, generation: u32, first: u32, before: u32) {
        // First: a thread that sees the new generation in `now` then also sees where the table was before.
        self.before.store(before, Relaxed);
        self.now.store(u64::from(generation) << 32 | u64::from(first), Release);
    }

    fn first(&self) -> u32 {
        self.now.load(Acquire) as u32
    }

    /// Returns the first descriptor in a generation.
    fn at(&self, generation: u32) -> Option<u32> {
        let now = self.now.load(Acquire);
        // A caller that asks for the older generation keeps it alive, and while it lives there is no generation
        // newer than `now`.
        let first = if u64::from(generation) >= now >> 32 { now as u32 } else { self.before.load(Relaxed) };
        (first != NOWHERE).then_some(first)
    }
}

/// The tables of a heap.
pub(super) struct Tables {
    /// By entry.
    places: StableTable<Place>,
    /// Shared with the list of what announces itself to a reader of events.
    inner: Arc<Mutex<Inner>>,
}

/// The state under the lock.
pub(super) struct Inner {
    /// The allocator of the region; `None` if the region is empty. Each range stores its entry.
    block: Option<VirtualBlock<u32>>,
    region: Range<u32>,
    alignment: Alignment,
    entries: Slab<Entry>,
    run: Run,
    usage: Usage,
    events: RegionEvents,
}

/// The range of a table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    handle: Handle,
    count: u32,
    /// It waits for the GPU, and is not worth a move.
    is_retiring: bool,
}

/// A run of [steps of compaction](Tables::take_lower) over all tables.
#[derive(Debug, Default)]
struct Run {
    /// The first descriptors and the entries of the tables that the run has yet to look at, the highest last.
    tables: Vec<(u32, u32)>,
    /// A table came or went since the run began. Otherwise another run would find none that moves: there are only fewer holes
    /// below the tables that this one passed over.
    is_another_due: bool,
}

/// A table, and a range for it at a lower place, which is that of another entry.
pub(super) struct Lower {
    pub(super) entry: u32,
    pub(super) new: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) count: u32,
}

/// A table that moved: source, destination and size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    entry: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) count: u32,
}

/// The tables as packed for the next heap.
pub(super) struct Packed {
    block: Option<VirtualBlock<u32>>,
    region: Range<u32>,
    handles: Vec<(u32, Handle)>,
    pub(super) moves: Vec<Move>,
}

impl Tables {
    /// Creates the tables of a heap, the first of the driver's heaps that they are in.
    pub(super) fn new(regions: &Regions, log: &EventLog, first: &Arc<Mutex<Chunks>>) -> Self {
        let inner = Inner {
            block: block_of(&regions.tables),
            region: regions.tables.clone(),
            // A power of two, as checked when the device's limits were read.
            alignment: Alignment::new(regions.alignment.into()).unwrap_or(Alignment::ONE),
            entries: Slab::new(),
            run: Run::default(),
            usage: Usage::default(),
            events: RegionEvents::new(log, first),
        };
        let inner = Arc::new(Mutex::new(inner));
        log.parts().add(&inner);
        Self { places: StableTable::new(), inner }
    }

    /// Takes a range, by its entry; `None` if no range is free now.
    pub(super) fn take(&self, count: u32, generation: u32) -> Option<u32> {
        let mut guard = locked(&self.inner);
        let inner = &mut *guard;
        let entry = inner.entries.next_index();
        let request = Request::new(count.into()).aligned(inner.alignment);
        // The entry is stored with the range before it exists, so that a refused range leaves no entry behind.
        let taken = inner.block.as_mut().and_then(|block| block.allocate(request, entry).ok())?;
        let Some(place) = self.places.get_or_make(entry) else {
            unreachable!("there are fewer tables than descriptors")
        };
        let first = inner.insert(taken, count);
        place.set(generation, first, NOWHERE);
        inner.run.is_another_due = true;
        Some(entry)
    }

    /// Begins a run over all tables, unless one is not at its end, or no table came or went since the last one began.
    pub(super) fn begin_run(&self) -> bool {
        let mut guard = locked(&self.inner);
        let Inner { block, region, run, .. } = &mut *guard;
        if run.tables.is_empty() && mem::take(&mut run.is_another_due) {
            let regions = block.iter().flat_map(VirtualBlock::regions);
            run.tables.extend(regions.filter_map(|it| match it.kind {
                RegionKind::Used { data: &entry, .. } => Some((region.start + it.offset as u32, entry)),
                _ => None,
            }));
        }
        !run.tables.is_empty()
    }

    /// Takes a lower place for the next table of the run that has one: the lowest that holds it. Tables are looked at from the
    /// highest one down. `None` at the end of the run.
    ///
    /// `too_large` is the size from which on no table of the run has a lower place, as far as this call of the program has found:
    /// with it, tables that cannot move cost no search each. That holds during one call, as what it moves becomes free later.
    ///
    /// The caller copies the descriptors, [swaps](Self::swap) the two entries, and retires the one with the old range.
    pub(super) fn take_lower(&self, generation: u32, too_large: &mut u32) -> Option<Lower> {
        let mut guard = locked(&self.inner);
        let inner = &mut *guard;
        while let Some((from, entry)) = inner.run.tables.pop() {
            if *too_large <= 1 {
                // No table has less than one descriptor.
                inner.run.tables.clear();
                break;
            }
            // Since the run began, the table may have been released, and another one may have the entry.
            let is = inner.entries.get(entry).filter(|is| !is.is_retiring && is.count < *too_large);
            let Some(&Entry { count, .. }) = is else { continue };
            if self.places.get(entry).is_none_or(|place| place.first() != from) {
                continue;
            }
            let (block, new) = (inner.block.as_mut()?, inner.entries.next_index());
            let request =
                Request::new(count.into()).aligned(inner.alignment).with_strategy(FitStrategy::LowestOffset);
            let Ok(taken) = block.allocate(request, new) else {
                *too_large = count;
                continue;
            };
            if inner.region.start + taken.offset as u32 > from {
                // No lower table of this size, or of a larger one, has a place below it either.
                let freed = block.free(taken.handle);
                debug_assert!(freed.is_ok(), "it was taken just now");
                *too_large = count;
                continue;
            }
            let Some(place) = self.places.get_or_make(new) else {
                unreachable!("there are fewer tables than descriptors")
            };
            let to = inner.insert(taken, count);
            place.set(generation, to, NOWHERE);
            return Some(Lower { entry, new, from, to, count });
        }
        None
    }

    /// Returns the location of a table in a live generation. `None` if the table was allocated after that one.
    pub(super) fn place(&self, entry: u32, generation: u32) -> Option<u32> {
        self.places.get(entry)?.at(generation)
    }

    /// Returns the number of descriptors of a table.
    pub(super) fn count(&self, entry: u32) -> Option<u32> {
        locked(&self.inner).entries.get(entry).map(|it| it.count)
    }

    /// Exchanges the ranges of two tables of one size, for recordings that have the heap as it is now. In the previous
    /// heap the tables stay where they are.
    pub(super) fn swap(&self, one: u32, other: u32) {
        // Under the lock, so that no replacement of the heap moves only one of them.
        let mut guard = locked(&self.inner);
        let inner = &mut *guard;
        let ranges = [one, other].map(|entry| inner.entries.get(entry).copied());
        let places = [one, other].map(|entry| self.places.get(entry));
        let ([Some(first), Some(second)], [Some(place), Some(other_place)]) = (ranges, places) else {
            return;
        };
        debug_assert_eq!(first.count, second.count, "the tables have one size");
        for (entry, handle) in [(one, second.handle), (other, first.handle)] {
            if let Some(of_entry) = inner.entries.get_mut(entry) {
                of_entry.handle = handle;
            }
            // A run over the block's ranges learns the entries from them.
            let data = inner.block.as_mut().and_then(|block| block.data_mut(handle).ok());
            debug_assert!(data.is_some(), "the range of an entry is live");
            if let Some(data) = data {
                *data = entry;
            }
        }
        // Each store is one location as a whole: a thread that commits meanwhile reads the old or the new one.
        let now = place.now.load(Relaxed);
        place.now.store(other_place.now.load(Relaxed), Release);
        other_place.now.store(now, Release);
    }

    /// Gives a table no place in the previous heap: a recording that has that heap cannot locate it any more.
    pub(super) fn leave_previous(&self, entry: u32) {
        let _no_replacement = locked(&self.inner);
        if let Some(place) = self.places.get(entry) {
            place.before.store(NOWHERE, Relaxed);
        }
    }

    pub(super) fn retiring(&self, entry: u32, count: u32) {
        let mut inner = locked(&self.inner);
        inner.usage.retiring += count;
        if let Some(entry) = inner.entries.get_mut(entry) {
            entry.is_retiring = true;
        }
    }

    /// Makes a retired range reusable.
    pub(super) fn make_reusable(&self, entry: u32) {
        let mut guard = locked(&self.inner);
        let inner = &mut *guard;
        let Some(Entry { handle, count, .. }) = inner.entries.remove(entry) else { return };
        if let Some(Place { now, .. }) = self.places.get(entry) {
            // Of the heap that the tables are in now; under the lock, so that no replacement changes it meanwhile.
            inner.events.freed((now.load(Relaxed) as u32, count));
        }
        let freed = inner.block.as_mut().map(|block| block.free(handle));
        debug_assert!(matches!(freed, Some(Ok(_))), "a range is retired once");
        inner.run.is_another_due = true;
        inner.usage.retiring -= count;
        inner.usage.give_back(count);
    }

    pub(super) fn count_failure(&self) {
        locked(&self.inner).usage.failures += 1;
    }

    pub(super) fn statistics(&self) -> DescriptorHeapStatistics {
        let inner = locked(&self.inner);
        let largest = inner.block.as_ref().map_or(0, VirtualBlock::largest_free);
        inner.usage.statistics(inner.region.len() as u32, largest as u32, 1)
    }

    /// Locks the tables, for the replacement of a heap.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }

    /// Publishes the packed locations, from this generation on, which is another of the driver's heaps.
    pub(super) fn move_to(
        &self,
        inner: &mut Inner,
        packed: Packed,
        generation: u32,
        next: &Arc<Mutex<Chunks>>,
    ) {
        let Packed { block, region, handles, moves } = packed;
        let was_known = inner.events.leave(moves.iter().map(|table| (table.from, table.count)));
        inner.events.enter(next, was_known, moves.iter().map(|table| (table.to, table.count)));
        (inner.block, inner.region) = (block, region);
        // It has the places before.
        inner.run = Run::default();
        for (entry, handle) in handles {
            if let Some(entry) = inner.entries.get_mut(entry) {
                entry.handle = handle;
            }
        }
        // Last: recordings read these without the lock, and the new generation is not known to any of them yet.
        for Move { entry, from, to, .. } in &moves {
            if let Some(place) = self.places.get(*entry) {
                place.set(generation, *to, *from);
            }
        }
    }

    /// Ends the events of the tables, which are in none of the driver's heaps any more.
    pub(super) fn leave(&self) {
        let mut inner = locked(&self.inner);
        let Inner { block, region, events, .. } = &mut *inner;
        events.leave(in_use(block.as_ref(), region.start));
    }
}

impl Announces for Mutex<Inner> {
    fn announce(&self) -> bool {
        let Some(mut inner) = lock_to_announce(self) else { return false };
        let Inner { block, region, events, .. } = &mut *inner;
        events.announce(in_use(block.as_ref(), region.start));
        true
    }
}

impl Inner {
    /// Notes a range that was taken for the next entry. Returns its first descriptor.
    fn insert(&mut self, taken: Allocation, count: u32) -> u32 {
        self.entries.insert(Entry { handle: taken.handle, count, is_retiring: false });
        self.usage.take(count);
        let first = self.region.start + taken.offset as u32;
        self.events.allocated((first, count));
        first
    }

    /// Packs all tables side by side into another region, in their present order.
    pub(super) fn pack(&self, tables: &Tables, regions: &Regions) -> Result<Packed, DescriptorError> {
        let region = regions.tables.clone();
        let place = |(entry, it): (u32, &Entry)| Some((tables.places.get(entry)?.first(), entry, it.count));
        let mut live: Vec<_> = self.entries.iter().filter_map(place).collect();
        // In the present order, no table moves up: the tables fit any region that is at least as large.
        live.sort_unstable();
        let mut block = block_of(&region);
        let (mut handles, mut moves) = (Vec::new(), Vec::new());
        for (from, entry, count) in live {
            // The lowest offset that fits fills the region from its start, without holes except for alignment.
            let request =
                Request::new(count.into()).aligned(self.alignment).with_strategy(FitStrategy::LowestOffset);
            let taken = block.as_mut().and_then(|block| block.allocate(request, entry).ok());
            let capacity = region.len() as u32;
            let taken = taken.ok_or(DescriptorError::NeverFits { requested: self.usage.used, capacity })?;
            handles.push((entry, taken.handle));
            moves.push(Move { entry, from, to: region.start + taken.offset as u32, count });
        }
        Ok(Packed { block, region, handles, moves })
    }
}

/// Returns the tables in use in a region that begins at `start`: the first descriptor and the count.
fn in_use(block: Option<&VirtualBlock<u32>>, start: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    let regions = block.into_iter().flat_map(VirtualBlock::regions);
    regions
        .filter(|region| matches!(region.kind, RegionKind::Used { .. }))
        .map(move |region| (start + region.offset as u32, region.size as u32))
}

/// Returns the allocator of a region; `None` if the region is empty.
fn block_of(region: &Range<u32>) -> Option<VirtualBlock<u32>> {
    // Tables have many sizes and are freed in any order. `None` for a heap without tables.
    VirtualBlock::new(region.len() as u64, Algorithm::Tlsf).ok()
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
