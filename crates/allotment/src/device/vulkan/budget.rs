//! Usage and budget of memory heaps, from `VK_EXT_memory_budget`.

use ash::vk;

use super::{EnabledFeatures, Shared};
use crate::device::budget::MAX_HEAPS;
use crate::device::{MemoryHeapBudget, MemoryHeapIndex};

impl Shared {
    pub(super) fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        // Chained only where the application enabled the extension: nothing else tells whether the driver fills
        // the structure.
        let ask = self.enabled.contains(EnabledFeatures::MEMORY_BUDGET).then_some(|| self.query_budgets());
        self.budgets.of(heap, &self.properties, &self.ledger, ask)
    }

    /// Queries usage and budget of all heaps. The extension is enabled.
    fn query_budgets(&self) -> [MemoryHeapBudget; MAX_HEAPS] {
        // One query returns all heaps, which is why the report is cached as a whole.
        let mut budgets = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut answer = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budgets);
        // SAFETY: the physical device is of this instance, and the extension is enabled.
        unsafe { self.instance.get_physical_device_memory_properties2(self.physical_device, &mut answer) };
        core::array::from_fn(|heap| MemoryHeapBudget {
            usage: budgets.heap_usage[heap],
            budget: budgets.heap_budget[heap],
        })
    }
}
