//! Options of a memory object besides its type, size and priority.

use std::os::windows::io::OwnedHandle;
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D12::*;

use crate::device::DescriptionError;

/// Options of a heap: additional flags, and a shared handle to open it from.
///
/// ```no_run
/// use allotment::device::d3d12::MemoryOptions;
/// use windows::Win32::Graphics::Direct3D12::D3D12_HEAP_FLAG_SHARED;
///
/// let shared = MemoryOptions::new().with_heap_flags(D3D12_HEAP_FLAG_SHARED);
/// # let _ = shared;
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    heap_flags: D3D12_HEAP_FLAGS,
    /// Kept open for all allocations from it.
    pub(super) import: Option<Arc<OwnedHandle>>,
}

/// Flags that are refused: those for the supported resource classes follow from the memory type, and memory is
/// always created resident, and evicted with a call.
const REFUSED_FLAGS: D3D12_HEAP_FLAGS = D3D12_HEAP_FLAGS(
    D3D12_HEAP_FLAG_DENY_BUFFERS.0
        | D3D12_HEAP_FLAG_DENY_RT_DS_TEXTURES.0
        | D3D12_HEAP_FLAG_DENY_NON_RT_DS_TEXTURES.0
        | D3D12_HEAP_FLAG_CREATE_NOT_RESIDENT.0,
);

impl MemoryOptions {
    /// Creates options without flags and without a shared handle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds heap flags: memory that is shared (`D3D12_HEAP_FLAG_SHARED`), displayed (`…_ALLOW_DISPLAY`), or with
    /// write watch (`…_ALLOW_WRITE_WATCH`). An allocation with flags for the supported resource classes is refused
    /// ([`DescriptionError::HeapFlags`]), since the memory type determines them; and so is one with
    /// `…_CREATE_NOT_RESIDENT`: memory is resident until it is [evicted](super::Device::evict).
    #[must_use]
    pub fn with_heap_flags(mut self, flags: D3D12_HEAP_FLAGS) -> Self {
        self.heap_flags |= flags;
        self
    }

    /// Returns the flags that were added with [`with_heap_flags`](Self::with_heap_flags).
    #[must_use]
    pub fn heap_flags(&self) -> D3D12_HEAP_FLAGS {
        self.heap_flags
    }

    /// Returns the flags for a heap. Refuses those that the library sets itself.
    pub(super) fn checked_heap_flags(&self) -> Result<D3D12_HEAP_FLAGS, DescriptionError> {
        let refused = self.heap_flags.0 & REFUSED_FLAGS.0;
        if refused == 0 {
            return Ok(self.heap_flags);
        }
        Err(DescriptionError::HeapFlags { flags: refused.unsigned_abs() })
    }

    /// Opens the heap of `handle` ([`Device::export_memory`](super::Device::export_memory)) instead of creating
    /// one. The allocation fails if the heap is smaller than requested, or of another heap type. Committed
    /// resources cannot be opened in this way.
    #[must_use]
    pub fn with_shared_handle(mut self, handle: OwnedHandle) -> Self {
        self.import = Some(Arc::new(handle));
        self
    }
}
