//! Usage and budget of memory heaps: the driver's last report, or an estimate.

use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use super::ledger::Ledger;
use super::{DeviceProperties, MemoryHeapBudget, MemoryHeapIndex};
use crate::sync::locked;

/// The maximum number of heaps of a device.
pub(crate) const MAX_HEAPS: usize = 16;

/// How long a report of the driver stays valid. An allocator queries all heaps in turn; this makes it one driver
/// call.
const FRESH: Duration = Duration::from_millis(1);

/// The driver's last budget report for all heaps.
#[derive(Debug, Default)]
pub(crate) struct Budgets(Mutex<Option<Report>>);

#[derive(Debug)]
struct Report {
    at: Instant,
    /// [`Ledger::changes`] at the time of the report.
    changes: u64,
    heaps: [MemoryHeapBudget; MAX_HEAPS],
}

impl Budgets {
    /// Returns the driver's report, queried with `ask` unless the last report is younger than [`FRESH`] and
    /// nothing was allocated or freed since. Where the driver reports nothing, usage is what was allocated
    /// through this device, and the budget is 80 % of the heap, since the desktop and other programs need memory
    /// too.
    pub(crate) fn of<E>(
        &self,
        heap: MemoryHeapIndex,
        properties: &DeviceProperties,
        ledger: &Ledger<E>,
        ask: Option<impl FnOnce() -> [MemoryHeapBudget; MAX_HEAPS]>,
    ) -> MemoryHeapBudget {
        // A heap that does not exist has a budget of 0, so nothing is allocated from it.
        let Some(size) = properties.heaps.get(heap.get()).map(|heap| heap.size) else {
            return MemoryHeapBudget::default();
        };
        // Divided first, so that the product cannot overflow; at least 1, since a budget of 0 means that none was
        // reported.
        let estimate = MemoryHeapBudget { usage: ledger.bytes(heap), budget: (size / 5 * 4).max(1) };
        let Some(ask) = ask else { return estimate };
        // Read before the lock: a change after this makes the report old, never the reverse.
        let MemoryHeapBudget { usage, budget } = self.report(heap, ledger.changes(), ask);
        // Some drivers report nothing for some heaps, others report a budget and no usage.
        if budget == 0 {
            return estimate;
        }
        let usage = if usage == 0 { estimate.usage } else { usage };
        // A budget above the heap's size would let the allocator request more than exists.
        MemoryHeapBudget { usage, budget: budget.min(size) }
    }

    /// Returns the driver's report for a heap. The caller reads `changes` first, so that no report seems newer
    /// than it is.
    fn report(
        &self,
        heap: MemoryHeapIndex,
        changes: u64,
        ask: impl FnOnce() -> [MemoryHeapBudget; MAX_HEAPS],
    ) -> MemoryHeapBudget {
        // The lock is held during the query, so that threads that ask at the same time share one driver call.
        let mut last = locked(&self.0);
        let at = Instant::now();
        let is_fresh = |report: &&mut Report| {
            // Saturating, so that a clock that steps back makes a report fresh rather than panics.
            report.changes == changes && at.saturating_duration_since(report.at) < FRESH
        };
        if let Some(report) = last.as_mut().filter(is_fresh) {
            return report.heaps[heap.get()];
        }
        // Errors of the query are zeros in the report, for which the caller falls back to the estimate.
        let heaps = ask();
        *last = Some(Report { at, changes, heaps });
        heaps[heap.get()]
    }
}
