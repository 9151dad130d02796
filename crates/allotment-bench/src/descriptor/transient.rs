//! `transient`: ranges of 1 to 8 descriptors, 10,000 per recording (the draws of a frame), freed with it.

use core::hint::black_box;
use std::sync::Arc;

use allotment::descriptor::TransientDescriptors;
use allotment::device::simulated::SimulatedGpu;
use allotment_suballoc::Handle;

use super::locked_ranges::LockedRanges;
use super::rig::Rig;
use super::sets::{Set, Sets};
use super::{BATCH, Dimensions};
use crate::failure::Failure;
use crate::race::Racer;
use crate::rng::Rng;

/// The largest range.
pub(super) const LARGEST: u32 = 8;

/// Ranges per recording.
pub(super) const RANGES: u32 = 10_000;

/// The code between two requests.
#[derive(Clone, Copy)]
pub(super) enum Between {
    /// None: a compiler may keep state in registers.
    Nothing,
    /// Code that may access the allocator, such as a write to the range.
    Other,
}

/// An allocator of ranges for a recording.
trait Ranges {
    /// Allocates a range, and returns its location.
    fn take(&mut self, count: u32) -> u64;
}

impl Ranges for TransientDescriptors<SimulatedGpu> {
    #[inline]
    fn take(&mut self, count: u32) -> u64 {
        let Ok(table) = self.allocate(count) else { unreachable!("recordings have completed") };
        table.place().gpu
    }
}

struct OfSets<'a>(&'a Sets, &'a mut Vec<Set>);

impl Ranges for OfSets<'_> {
    #[inline]
    fn take(&mut self, count: u32) -> u64 {
        self.0.allocate(count, self.1)
    }
}

struct OfBlock<'a>(&'a LockedRanges, &'a mut Vec<Handle>);

impl Ranges for OfBlock<'_> {
    #[inline]
    fn take(&mut self, count: u32) -> u64 {
        let (range, first) = self.0.allocate(count);
        self.1.push(range);
        first.into()
    }
}

/// The operations of a contender for a recording, given the sizes of its ranges.
type Batch = Box<dyn FnMut(&[u32]) -> u64 + Send>;

/// Returns racers whose threads have recordings of their own.
pub(super) fn racers(threads: u32, dimensions: &Dimensions, between: Between) -> Result<Vec<Racer>, Failure> {
    // As many operations as in other laps, or those of one recording.
    let recordings = (u64::from(dimensions.batches) * BATCH).div_ceil(RANGES.into());
    let sizes: Arc<[u32]> = sizes().into();
    let lap = |batch: Batch| {
        let (sizes, mut batch) = (Arc::clone(&sizes), batch);
        move || {
            (0..recordings).for_each(|_| _ = black_box(batch(&sizes)));
            recordings * u64::from(RANGES)
        }
    };
    let (rig, sets, ranges) =
        (Rig::new()?, Arc::new(Sets::new()), Arc::new(LockedRanges::new(dimensions.transient_region)));
    let ours = || {
        let rig = Arc::clone(&rig);
        lap(Box::new(move |sizes| rig.recording(|transient| fill(transient, sizes, between))))
    };
    let sets = || {
        let (all, mut mine) = (Arc::clone(&sets), Vec::new());
        lap(Box::new(move |sizes| {
            let seen = fill(&mut OfSets(&all, &mut mine), sizes, between);
            all.free_all(&mut mine);
            seen
        }))
    };
    let locked = || {
        let (all, mut mine) = (Arc::clone(&ranges), Vec::new());
        lap(Box::new(move |sizes| {
            let seen = fill(&mut OfBlock(&all, &mut mine), sizes, between);
            all.free_all(&mut mine);
            seen
        }))
    };
    Ok(vec![
        Racer::together("allotment TransientDescriptors", (0..threads).map(|_| ours())),
        Racer::together(Sets::NAME, (0..threads).map(|_| sets())),
        Racer::together(LockedRanges::NAME, (0..threads).map(|_| locked())),
    ])
}

fn sizes() -> Vec<u32> {
    let mut rng = Rng::new(3);
    (0..RANGES).map(|_| 1 + rng.below(LARGEST)).collect()
}

#[inline(never)]
fn fill<R: Ranges>(ranges: &mut R, sizes: &[u32], between: Between) -> u64 {
    let mut seen = 0;
    match between {
        Between::Nothing => sizes.iter().for_each(|&size| seen ^= ranges.take(size)),
        Between::Other => {
            for &size in sizes {
                seen ^= ranges.take(size);
                black_box(&mut *ranges);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_takes_all_ranges_and_gives_them_back() {
        let sizes = sizes();
        assert!(sizes.iter().all(|size| (1..=LARGEST).contains(size)));
        let total: u32 = sizes.iter().sum();
        let rig = Rig::new().unwrap();
        let used = rig.recording(|transient| {
            fill(transient, &sizes, Between::Other);
            rig.heap.statistics().transient.used
        });
        // The last chunk is not full: it has at most a chunk's size, or a 64th of the region.
        let desc = Rig::heap_desc();
        assert!(used >= total && used < total + desc.chunk.max(desc.transient / 64), "{used} for {total}");
        assert_eq!(rig.heap.statistics().transient.used, 0);

        let (ranges, mut mine) = (LockedRanges::new(65_536), Vec::new());
        fill(&mut OfBlock(&ranges, &mut mine), &sizes, Between::Nothing);
        assert_eq!(mine.len(), sizes.len());
        ranges.free_all(&mut mine);
        assert!(ranges.is_empty());

        let (sets, mut mine) = (Sets::new(), Vec::new());
        fill(&mut OfSets(&sets, &mut mine), &sizes, Between::Nothing);
        assert_eq!(mine.len(), sizes.len());
        sets.free_all(&mut mine);
        assert!(mine.is_empty());
    }
}
