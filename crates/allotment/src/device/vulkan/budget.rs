//! How much of a heap the process uses, and how much it should.

use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use ash::vk;

use super::{Enabled, Shared};
use crate::device::{HeapBudget, HeapIndex};
use crate::sync::locked;

/// How long an answer of the driver's is good. Who asks about all heaps in turn, as allocators do, asks the
/// driver once.
const FRESH: Duration = Duration::from_millis(1);

/// What the driver said last of all heaps.
#[derive(Default)]
pub(super) struct Budgets(Mutex<Option<Told>>);

struct Told {
    at: Instant,
    /// [`Ledger::changes`](super::memory::Ledger::changes) then.
    changes: u64,
    usage: [u64; vk::MAX_MEMORY_HEAPS],
    budget: [u64; vk::MAX_MEMORY_HEAPS],
}

impl Shared {
    /// With `VK_EXT_memory_budget`, what the driver says, or said no longer than [`FRESH`] ago with nothing
    /// got or given back since; else what was got through this device, and 80 % of the heap, since the
    /// desktop and other programs want some too.
    pub(super) fn heap_budget(&self, heap: HeapIndex) -> HeapBudget {
        let Some(size) = self.properties.heaps.get(heap.get()).map(|heap| heap.size) else {
            return HeapBudget::default();
        };
        let own = self.ledger.bytes(heap);
        let estimate = HeapBudget { usage: own, budget: (size / 5 * 4).max(1) };
        if !self.enabled.contains(Enabled::MEMORY_BUDGET) {
            return estimate;
        }
        let (usage, budget) = self.told(heap);
        // Some drivers say nothing of some heaps.
        if budget == 0 { estimate } else { HeapBudget { usage, budget: budget.min(size) } }
    }

    /// Usage and budget of a heap in the driver's words.
    fn told(&self, heap: HeapIndex) -> (u64, u64) {
        let mut last = locked(&self.budgets.0);
        // Both before the driver is asked, so that no answer seems newer than it is.
        let (at, changes) = (Instant::now(), self.ledger.changes());
        let is_fresh =
            |told: &&mut Told| told.changes == changes && at.saturating_duration_since(told.at) < FRESH;
        if let Some(told) = last.as_mut().filter(is_fresh) {
            return (told.usage[heap.get()], told.budget[heap.get()]);
        }
        let mut told = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut answer = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut told);
        // SAFETY: the physical device is of this instance, and the extension is enabled.
        unsafe { self.instance.get_physical_device_memory_properties2(self.physical_device, &mut answer) };
        let (usage, budget) = (told.heap_usage, told.heap_budget);
        *last = Some(Told { at, changes, usage, budget });
        (usage[heap.get()], budget[heap.get()])
    }
}
