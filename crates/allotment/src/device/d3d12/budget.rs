//! How much of a heap the process uses, and how much it should: `IDXGIAdapter3::QueryVideoMemoryInfo`.

use windows::Win32::Graphics::Dxgi::{
    DXGI_MEMORY_SEGMENT_GROUP, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL,
    DXGI_QUERY_VIDEO_MEMORY_INFO, IDXGIAdapter3,
};

use super::Shared;
use crate::device::budget::MAX_HEAPS;
use crate::device::{MemoryHeapBudget, MemoryHeapIndex};

/// Heap 0 is the adapter's own segment group, heap 1 the system's.
pub(super) const GROUPS: [DXGI_MEMORY_SEGMENT_GROUP; 2] =
    [DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL];

impl Shared {
    pub(super) fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.budgets.of(heap, &self.properties, &self.ledger, Some(|| self.ask_budgets()))
    }

    /// Usage and budget of both segment groups in the system's words; zeros where it does not answer.
    fn ask_budgets(&self) -> [MemoryHeapBudget; MAX_HEAPS] {
        let mut heaps = [MemoryHeapBudget::default(); MAX_HEAPS];
        for (heap, group) in heaps.iter_mut().zip(GROUPS).take(self.properties.heaps.len()) {
            *heap = segment(&self.adapter, group);
        }
        heaps
    }
}

/// What the system says of a segment group; zeros where it does not answer.
pub(super) fn segment(adapter: &IDXGIAdapter3, group: DXGI_MEMORY_SEGMENT_GROUP) -> MemoryHeapBudget {
    let mut told = DXGI_QUERY_VIDEO_MEMORY_INFO::default();
    // SAFETY: the adapter is live, and node 0 exists.
    match unsafe { adapter.QueryVideoMemoryInfo(0, group, &mut told) } {
        Ok(()) => MemoryHeapBudget { usage: told.CurrentUsage, budget: told.Budget },
        Err(_) => MemoryHeapBudget::default(),
    }
}
