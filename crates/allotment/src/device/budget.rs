//! How much of a heap the process uses, and how much it should: what the driver said last, or an estimate.

use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use super::ledger::Ledger;
use super::{DeviceProperties, MemoryHeapBudget, MemoryHeapIndex};
use crate::sync::locked;

/// As many heaps as a device can have.
pub(crate) const MAX_HEAPS: usize = 16;

/// How long an answer of the driver's is good. Who asks about all heaps in turn, as allocators do, asks the
/// driver once.
const FRESH: Duration = Duration::from_millis(1);

/// What the driver said last of all heaps.
#[derive(Debug, Default)]
pub(crate) struct Budgets(Mutex<Option<Told>>);

#[derive(Debug)]
struct Told {
    at: Instant,
    /// [`Ledger::changes`] then.
    changes: u64,
    heaps: [MemoryHeapBudget; MAX_HEAPS],
}

impl Budgets {
    /// What the driver says when asked by `ask`, or said no longer than [`FRESH`] ago with nothing got or
    /// given back since. Where it does not say: what was got through this device, and 80 % of the heap, since
    /// the desktop and other programs want some too.
    pub(crate) fn of<E>(
        &self,
        heap: MemoryHeapIndex,
        properties: &DeviceProperties,
        ledger: &Ledger<E>,
        ask: Option<impl FnOnce() -> [MemoryHeapBudget; MAX_HEAPS]>,
    ) -> MemoryHeapBudget {
        let Some(size) = properties.heaps.get(heap.get()).map(|heap| heap.size) else {
            return MemoryHeapBudget::default();
        };
        let estimate = MemoryHeapBudget { usage: ledger.bytes(heap), budget: (size / 5 * 4).max(1) };
        let Some(ask) = ask else { return estimate };
        let MemoryHeapBudget { usage, budget } = self.told(heap, ledger.changes(), ask);
        // Some drivers say nothing of some heaps, or know a budget and do not count.
        if budget == 0 {
            return estimate;
        }
        let usage = if usage == 0 { estimate.usage } else { usage };
        MemoryHeapBudget { usage, budget: budget.min(size) }
    }

    /// What the driver says of a heap. `changes` was read before, so that no answer seems newer than it is.
    fn told(
        &self,
        heap: MemoryHeapIndex,
        changes: u64,
        ask: impl FnOnce() -> [MemoryHeapBudget; MAX_HEAPS],
    ) -> MemoryHeapBudget {
        // Unique while the driver is asked, so that many who ask at once ask it once.
        let mut last = locked(&self.0);
        let at = Instant::now();
        let is_fresh =
            |told: &&mut Told| told.changes == changes && at.saturating_duration_since(told.at) < FRESH;
        if let Some(told) = last.as_mut().filter(is_fresh) {
            return told.heaps[heap.get()];
        }
        let heaps = ask();
        *last = Some(Told { at, changes, heaps });
        heaps[heap.get()]
    }
}
