//! Usage and budget of memory heaps, from `IDXGIAdapter3::QueryVideoMemoryInfo`.

use windows::Win32::Graphics::Dxgi::{
    DXGI_MEMORY_SEGMENT_GROUP, DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL,
    DXGI_QUERY_VIDEO_MEMORY_INFO, IDXGIAdapter3,
};

use super::Shared;
use crate::device::budget::MAX_HEAPS;
use crate::device::{MemoryHeapBudget, MemoryHeapIndex};

/// Heap 0 is the local segment group (video memory), heap 1 the non-local one (system memory).
pub(super) const GROUPS: [DXGI_MEMORY_SEGMENT_GROUP; 2] =
    [DXGI_MEMORY_SEGMENT_GROUP_LOCAL, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL];

impl Shared {
    pub(super) fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.budgets.of(heap, &self.properties, &self.ledger, Some(|| self.query_budgets()))
    }

    /// Queries usage and budget of both segment groups; zeros if the query fails.
    fn query_budgets(&self) -> [MemoryHeapBudget; MAX_HEAPS] {
        let mut heaps = [MemoryHeapBudget::default(); MAX_HEAPS];
        // A UMA adapter has the local group alone, so only as many groups are queried as there are heaps.
        for (heap, group) in heaps.iter_mut().zip(GROUPS).take(self.properties.heaps.len()) {
            *heap = segment(&self.adapter, group);
        }
        heaps
    }
}

/// Queries usage and budget of a segment group; zeros if the query fails.
pub(super) fn segment(adapter: &IDXGIAdapter3, group: DXGI_MEMORY_SEGMENT_GROUP) -> MemoryHeapBudget {
    let mut info = DXGI_QUERY_VIDEO_MEMORY_INFO::default();
    // SAFETY: the adapter is live, and node 0 exists.
    match unsafe { adapter.QueryVideoMemoryInfo(0, group, &mut info) } {
        Ok(()) => MemoryHeapBudget { usage: info.CurrentUsage, budget: info.Budget },
        // Zeros make `Budgets` fall back to its estimate: a failed query is no reason to refuse an allocation.
        Err(_) => MemoryHeapBudget::default(),
    }
}
