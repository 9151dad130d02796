//! Options of a memory object besides its type, size and priority.

use std::os::windows::io::OwnedHandle;
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D12::*;

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
    pub(super) heap_flags: D3D12_HEAP_FLAGS,
    /// Kept open for all allocations from it.
    pub(super) import: Option<Arc<OwnedHandle>>,
}

/// Flags that are removed: those for the supported resource classes follow from the memory type, and memory is
/// always created resident, and evicted with a call.
const REMOVED_FLAGS: D3D12_HEAP_FLAGS = D3D12_HEAP_FLAGS(
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
    /// write watch (`…_ALLOW_WRITE_WATCH`). Flags for the supported resource classes are removed, since the
    /// memory type determines them; and so is `…_CREATE_NOT_RESIDENT`: memory is resident until it is
    /// [evicted](super::Device::evict).
    #[must_use]
    pub fn with_heap_flags(mut self, flags: D3D12_HEAP_FLAGS) -> Self {
        self.heap_flags |= D3D12_HEAP_FLAGS(flags.0 & !REMOVED_FLAGS.0);
        self
    }

    /// Returns the flags that were added with [`with_heap_flags`](Self::with_heap_flags).
    #[must_use]
    pub fn heap_flags(&self) -> D3D12_HEAP_FLAGS {
        self.heap_flags
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
