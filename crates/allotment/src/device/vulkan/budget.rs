//! How much of a heap the process uses, and how much it should.

use ash::vk;

use super::{Enabled, Shared};
use crate::device::{HeapBudget, HeapIndex};

impl Shared {
    /// With `VK_EXT_memory_budget`, what the driver says; else what was got through this device, and 80 %
    /// of the heap, since the desktop and other programs want some too.
    pub(super) fn heap_budget(&self, heap: HeapIndex) -> HeapBudget {
        let Some(size) = self.properties.heaps.get(heap.get()).map(|heap| heap.size) else {
            return HeapBudget::default();
        };
        let own = self.ledger.bytes(heap);
        let estimate = HeapBudget { usage: own, budget: (size / 5 * 4).max(1) };
        if !self.enabled.contains(Enabled::MEMORY_BUDGET) {
            return estimate;
        }
        let mut told = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut answer = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut told);
        // SAFETY: the physical device is of this instance, and the extension is enabled.
        unsafe { self.instance.get_physical_device_memory_properties2(self.physical_device, &mut answer) };
        let (usage, budget) = (told.heap_usage[heap.get()], told.heap_budget[heap.get()]);
        // Some drivers say nothing of some heaps.
        if budget == 0 { estimate } else { HeapBudget { usage, budget: budget.min(size) } }
    }
}
