//! Which range of a shader-visible heap is whose: tables, which live long and may move when the heap is replaced.
//!
//! Where a table is can be read without a lock, by who says which generation of the heap it means: the one that a
//! recording began with. There are two of them at most, so an entry knows two places.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard};

use allotment_suballoc::{Algorithm, Alignment, Handle, Request, Strategy, VirtualBlock};

use super::error::DescriptorError;
use super::heap_regions::Regions;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::sync::locked;
use crate::table::AppendTable;

/// There is no place in the generation before.
const NOWHERE: u32 = u32::MAX;

/// Where a table is.
#[derive(Default)]
struct Place {
    /// The generation since which, in the upper half, and the first descriptor.
    now: AtomicU64,
    /// Where it was in the generation before that one. Written before `now`.
    before: AtomicU32,
}

impl Place {
    fn set(&self, generation: u32, first: u32, before: u32) {
        self.before.store(before, Relaxed);
        self.now.store(u64::from(generation) << 32 | u64::from(first), Release);
    }

    fn first(&self) -> u32 {
        self.now.load(Acquire) as u32
    }

    /// The first descriptor, as who uses this generation sees it.
    fn at(&self, generation: u32) -> Option<u32> {
        let now = self.now.load(Acquire);
        // Who asks for an older one keeps it alive, and then there is no newer one than `now`.
        let first = if u64::from(generation) >= now >> 32 { now as u32 } else { self.before.load(Relaxed) };
        (first != NOWHERE).then_some(first)
    }
}

/// The tables of a heap.
pub(super) struct Tables {
    /// By entry.
    places: AppendTable<Place>,
    inner: Mutex<Inner>,
}

/// What the lock guards.
pub(super) struct Inner {
    /// Of the region; nothing where that is empty. Each range knows its entry.
    block: Option<VirtualBlock<u32>>,
    region: Range<u32>,
    alignment: Alignment,
    /// By entry; `None` where it is vacant.
    entries: Vec<Option<(Handle, u32)>>,
    vacant: Vec<u32>,
    usage: Usage,
}

/// A table that moved, from and to, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    entry: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) count: u32,
}

/// How the tables of a heap stand in the one that takes its place.
pub(super) struct Packed {
    block: Option<VirtualBlock<u32>>,
    region: Range<u32>,
    handles: Vec<(u32, Handle)>,
    pub(super) moves: Vec<Move>,
}

impl Tables {
    pub(super) fn new(regions: &Regions) -> Self {
        let inner = Inner {
            block: block_of(&regions.tables),
            region: regions.tables.clone(),
            // Checked when the device said it: a power of two.
            alignment: Alignment::new(regions.alignment.into()).unwrap_or(Alignment::ONE),
            entries: Vec::new(),
            vacant: Vec::new(),
            usage: Usage::default(),
        };
        Self { places: AppendTable::new(), inner: Mutex::new(inner) }
    }

    /// A range, by its entry; `None` where there is no room now.
    pub(super) fn take(&self, count: u32, generation: u32) -> Option<u32> {
        let mut guard = locked(&self.inner);
        let inner = &mut *guard;
        let entry = inner.vacant.last().copied().unwrap_or(inner.entries.len() as u32);
        let request = Request::new(count.into()).aligned(inner.alignment);
        let taken = inner.block.as_mut().and_then(|block| block.allocate(request, entry).ok())?;
        let Some(place) = self.places.get_or_make(entry) else {
            unreachable!("there are fewer tables than descriptors")
        };
        if inner.vacant.pop().is_none() {
            inner.entries.push(None);
        }
        inner.entries[entry as usize] = Some((taken.handle, count));
        inner.usage.take(count);
        place.set(generation, inner.region.start + taken.offset as u32, NOWHERE);
        Some(entry)
    }

    /// Where a table is in a generation that somebody keeps alive. `None` where it came after that one.
    pub(super) fn place(&self, entry: u32, generation: u32) -> Option<u32> {
        self.places.get(entry)?.at(generation)
    }

    pub(super) fn retiring(&self, count: u32) {
        locked(&self.inner).usage.retiring += count;
    }

    /// A range that was given back may be used again.
    pub(super) fn make_reusable(&self, entry: u32) {
        let mut guard = locked(&self.inner);
        let inner = &mut *guard;
        let Some((handle, count)) = inner.entries[entry as usize].take() else { return };
        let freed = inner.block.as_mut().map(|block| block.free(handle));
        debug_assert!(matches!(freed, Some(Ok(_))), "a range is given back once");
        inner.vacant.push(entry);
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

    /// The lock, for as long as a heap is replaced.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }

    /// The tables are where they were packed, from this generation on.
    pub(super) fn move_to(&self, inner: &mut Inner, packed: Packed, generation: u32) -> Vec<Move> {
        let Packed { block, region, handles, moves } = packed;
        (inner.block, inner.region) = (block, region);
        for (entry, handle) in handles {
            if let Some((old, _)) = &mut inner.entries[entry as usize] {
                *old = handle;
            }
        }
        for Move { entry, from, to, .. } in &moves {
            if let Some(place) = self.places.get(*entry) {
                place.set(generation, *to, *from);
            }
        }
        moves
    }
}

impl Inner {
    /// Puts all tables side by side into another region, in the order in which they are.
    pub(super) fn pack(&self, tables: &Tables, regions: &Regions) -> Result<Packed, DescriptorError> {
        let region = regions.tables.clone();
        let mut live: Vec<_> = (0_u32..)
            .zip(&self.entries)
            .filter_map(|(entry, table)| {
                let (_, count) = (*table)?;
                Some((tables.places.get(entry)?.first(), entry, count))
            })
            .collect();
        live.sort_unstable();
        let mut block = block_of(&region);
        let (mut handles, mut moves) = (Vec::new(), Vec::new());
        for (from, entry, count) in live {
            let request =
                Request::new(count.into()).aligned(self.alignment).with_strategy(Strategy::LowestOffset);
            let taken = block.as_mut().and_then(|block| block.allocate(request, entry).ok());
            let capacity = region.len() as u32;
            let taken = taken.ok_or(DescriptorError::NeverFits { requested: self.usage.used, capacity })?;
            handles.push((entry, taken.handle));
            moves.push(Move { entry, from, to: region.start + taken.offset as u32, count });
        }
        Ok(Packed { block, region, handles, moves })
    }
}

/// What is refused is a region of nothing.
fn block_of(region: &Range<u32>) -> Option<VirtualBlock<u32>> {
    VirtualBlock::new(region.len() as u64, Algorithm::Tlsf).ok()
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
