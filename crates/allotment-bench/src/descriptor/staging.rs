//! `staging`: allocates a slot and frees one, while each thread has many.

use core::hint::black_box;
use std::sync::Arc;

use allotment::descriptor::{CpuDescriptorHeap, CpuDescriptorRange};
use allotment::device::simulated::SimulatedGpu;
use allotment_suballoc::Handle;

use super::bit_pages::BitPages;
use super::locked_ranges::LockedRanges;
use super::rig::Rig;
use super::{BATCH, Dimensions};
use crate::failure::Failure;
use crate::race::Racer;
use crate::rng::Rng;

/// The slot to free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The one just allocated.
    Lifo,
    /// A random one.
    Random,
}

/// An allocator of slots.
trait Slots: Send + 'static {
    type Slot: Send + 'static;

    fn allocate(&mut self) -> Self::Slot;
    fn free(&mut self, slot: Self::Slot);
}

impl Slots for Arc<CpuDescriptorHeap<SimulatedGpu>> {
    type Slot = CpuDescriptorRange;

    #[inline]
    fn allocate(&mut self) -> CpuDescriptorRange {
        let Ok(slot) = CpuDescriptorHeap::allocate(self, 1) else { unreachable!("the device never fails") };
        slot
    }

    #[inline]
    fn free(&mut self, slot: CpuDescriptorRange) {
        let freed = CpuDescriptorHeap::free(self, slot);
        debug_assert!(freed.is_ok(), "it is this heap's");
    }
}

impl Slots for Arc<LockedRanges> {
    type Slot = (Handle, u32);

    #[inline]
    fn allocate(&mut self) -> Self::Slot {
        LockedRanges::allocate(self, 1)
    }

    #[inline]
    fn free(&mut self, (slot, _): Self::Slot) {
        LockedRanges::free(self, slot);
    }
}

impl Slots for Arc<BitPages> {
    type Slot = u32;

    #[inline]
    fn allocate(&mut self) -> u32 {
        BitPages::allocate(self)
    }

    #[inline]
    fn free(&mut self, slot: u32) {
        BitPages::free(self, slot);
    }
}

/// Returns racers whose threads share an allocator.
pub(super) fn racers(threads: u32, dimensions: &Dimensions, order: Order) -> Result<Vec<Racer>, Failure> {
    let heap = Rig::new()?.staging()?;
    let ranges = Arc::new(LockedRanges::new(threads * (dimensions.live + 1)));
    let pages = Arc::new(BitPages::default());
    Ok(vec![
        racer("allotment CpuDescriptorHeap", threads, dimensions, order, || Arc::clone(&heap)),
        racer(LockedRanges::NAME, threads, dimensions, order, || Arc::clone(&ranges)),
        racer(BitPages::NAME, threads, dimensions, order, || Arc::clone(&pages)),
    ])
}

fn racer<S: Slots>(
    contender: &'static str,
    threads: u32,
    dimensions: &Dimensions,
    order: Order,
    slots: impl Fn() -> S,
) -> Racer {
    let pairs = u64::from(dimensions.batches) * BATCH;
    let laps = (0..threads).map(|thread| {
        let mut slots = slots();
        let mut rng = Rng::new(thread.into());
        let mut live: Vec<_> = (0..dimensions.live).map(|_| slots.allocate()).collect();
        let sequence: Vec<u32> = (0..pairs).map(|_| rng.below(dimensions.live)).collect();
        move || {
            match order {
                Order::Lifo => last(&mut slots, pairs),
                Order::Random => any(&mut slots, &mut live, &sequence),
            }
            pairs
        }
    });
    Racer::together(contender, laps)
}

#[inline(never)]
fn last<S: Slots>(slots: &mut S, pairs: u64) {
    for _ in 0..pairs {
        let slot = black_box(slots.allocate());
        slots.free(slot);
    }
}

#[inline(never)]
fn any<S: Slots>(slots: &mut S, live: &mut [S::Slot], sequence: &[u32]) {
    for &at in sequence {
        let new = slots.allocate();
        let old = core::mem::replace(&mut live[at as usize], new);
        slots.free(old);
    }
}
