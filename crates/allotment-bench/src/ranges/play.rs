//! The loop that is timed.

use core::hint::black_box;
use std::sync::Arc;

use super::contender::Ranges;
use super::workload::{Op, Workload};

/// The slots of so many operations ahead are prefetched: a miss of the caches there would be the harness's.
const AHEAD: usize = 12;

/// A contender with the slots of its caller.
pub(super) struct Player<C: Ranges> {
    pub(super) ranges: C,
    pub(super) slots: Vec<Option<C::Handle>>,
    pub(super) workload: Arc<Workload>,
}

impl<C: Ranges> Player<C> {
    /// Creates the contender with nothing allocated; `None` if it cannot manage the space.
    pub(super) fn new(workload: &Arc<Workload>) -> Option<Self> {
        let mut slots = Vec::new();
        slots.resize_with(workload.slots as usize, || None);
        Some(Self { ranges: C::new(&workload.space)?, slots, workload: Arc::clone(workload) })
    }

    /// Brings the space to the state before the first lap.
    pub(super) fn fill(&mut self) {
        play(&mut self.ranges, &mut self.slots, &self.workload.fill);
    }

    /// Frees all ranges, one by one.
    pub(super) fn free_all(&mut self) {
        self.slots.iter_mut().filter_map(Option::take).for_each(|handle| self.ranges.free(handle));
    }

    /// Runs a lap, and returns the number of its operations.
    pub(super) fn lap(&mut self) -> u64 {
        play(&mut self.ranges, &mut self.slots, &self.workload.lap);
        self.workload.lap.len() as u64
    }
}

impl<C: Ranges> Drop for Player<C> {
    fn drop(&mut self) {
        // Some contenders report ranges that are left, or rely on there being none.
        self.free_all();
    }
}

/// Executes operations. A free of a slot whose request was refused does nothing.
#[inline(never)]
fn play<C: Ranges>(ranges: &mut C, slots: &mut [Option<C::Handle>], ops: &[Op]) {
    for (i, op) in ops.iter().enumerate() {
        if let Some(later) = ops.get(i + AHEAD) {
            prefetch(&slots[later.slot as usize]);
        }
        step(ranges, &mut slots[op.slot as usize], op);
    }
}

/// Executes an operation.
#[inline(always)]
pub(super) fn step<C: Ranges>(ranges: &mut C, slot: &mut Option<C::Handle>, op: &Op) {
    if op.size == 0 {
        if let Some(handle) = slot.take() {
            ranges.free(handle);
        }
    } else if let Some((handle, offset)) = ranges.allocate(op.size.into(), op.alignment.into()) {
        black_box(offset);
        *slot = Some(handle);
    }
}

#[inline(always)]
fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is allowed, and this one is valid. The instruction is part of the baseline.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(what).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
