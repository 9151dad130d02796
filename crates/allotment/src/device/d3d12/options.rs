//! What a driver can be told about memory beside its type, size and priority.

use std::os::windows::io::OwnedHandle;
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D12::*;

/// What beside resources a heap is for, and where it comes from.
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
    /// Kept open for as many allocations as are made from it.
    pub(super) import: Option<Arc<OwnedHandle>>,
}

/// What says which resources a heap takes, which is a matter of its memory type; and that memory begins
/// evicted, which is done by evicting it.
const LEFT_OUT: D3D12_HEAP_FLAGS = D3D12_HEAP_FLAGS(
    D3D12_HEAP_FLAG_DENY_BUFFERS.0
        | D3D12_HEAP_FLAG_DENY_RT_DS_TEXTURES.0
        | D3D12_HEAP_FLAG_DENY_NON_RT_DS_TEXTURES.0
        | D3D12_HEAP_FLAG_CREATE_NOT_RESIDENT.0,
);

impl MemoryOptions {
    /// Nothing beside type, size and priority.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with flags: memory that is shared (`D3D12_HEAP_FLAG_SHARED`), shown
    /// (`…_ALLOW_DISPLAY`), watched (`…_ALLOW_WRITE_WATCH`). Those that say which resources a heap takes are
    /// left out, since the memory type says so; and so is `…_CREATE_NOT_RESIDENT`: memory is resident until
    /// it is [evicted](super::Device::evict).
    #[must_use]
    pub fn with_heap_flags(mut self, flags: D3D12_HEAP_FLAGS) -> Self {
        self.heap_flags |= D3D12_HEAP_FLAGS(flags.0 & !LEFT_OUT.0);
        self
    }

    /// What was said with [`with_heap_flags`](Self::with_heap_flags).
    #[must_use]
    pub fn heap_flags(&self) -> D3D12_HEAP_FLAGS {
        self.heap_flags
    }

    /// The same, with a heap that `handle` names ([`Device::export_memory`](super::Device::export_memory))
    /// rather than a new one. It is refused where it is smaller than what is asked for, or of another heap
    /// type. A committed resource cannot be got so.
    #[must_use]
    pub fn opened_from(mut self, handle: OwnedHandle) -> Self {
        self.import = Some(Arc::new(handle));
        self
    }
}
