//! Descriptor heaps.

use windows::Win32::Graphics::Direct3D12::*;

use super::heap_type;
use crate::device::d3d12::refused;
use crate::device::{
    DescriptorHeapAddress, DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility, DeviceError,
};

/// A descriptor heap, for `SetDescriptorHeaps`.
#[derive(Debug)]
pub struct DescriptorHeap {
    raw: ID3D12DescriptorHeap,
    kind: DescriptorHeapType,
    capacity: u32,
    /// Bytes from one descriptor to the next.
    stride: u32,
    /// Address of the first descriptor; the GPU address is 0 if the heap is not shader-visible.
    address: DescriptorHeapAddress,
}

impl DescriptorHeap {
    /// Creates a heap within the limits.
    pub(super) fn new(
        device: &ID3D12Device,
        desc: &DescriptorHeapDesc,
        stride: u32,
    ) -> Result<Self, DeviceError> {
        let visible = matches!(desc.usage, DescriptorHeapVisibility::ShaderVisible(_));
        let kind = desc.usage.kind();
        let wanted = D3D12_DESCRIPTOR_HEAP_DESC {
            Type: heap_type(kind),
            NumDescriptors: desc.capacity,
            // Only visible heaps count against the limits of the hardware; the others are plain memory of the
            // runtime.
            Flags: if visible {
                D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE
            } else {
                D3D12_DESCRIPTOR_HEAP_FLAG_NONE
            },
            NodeMask: 0,
        };
        // SAFETY: the device is live, and the runtime checks the description.
        let raw = unsafe { device.CreateDescriptorHeap(&wanted) };
        let raw: ID3D12DescriptorHeap = raw.map_err(|error| refused(&error))?;
        // SAFETY: the heap is live.
        let cpu = unsafe { raw.GetCPUDescriptorHandleForHeapStart() }.ptr as u64;
        // For a heap that shaders do not see, this call is an error.
        let gpu = if visible {
            // SAFETY: the heap is live and shader-visible.
            unsafe { raw.GetGPUDescriptorHandleForHeapStart() }.ptr
        } else {
            0
        };
        Ok(Self { raw, kind, capacity: desc.capacity, stride, address: DescriptorHeapAddress { cpu, gpu } })
    }

    /// Returns the runtime's heap.
    #[must_use]
    pub fn raw(&self) -> &ID3D12DescriptorHeap {
        &self.raw
    }

    /// Returns the type of the descriptors.
    #[must_use]
    pub fn kind(&self) -> DescriptorHeapType {
        self.kind
    }

    /// Returns a descriptor's CPU handle, for writes and copies, and for binding render targets. `None` if out
    /// of bounds.
    #[must_use]
    pub fn cpu_handle(&self, at: u32) -> Option<D3D12_CPU_DESCRIPTOR_HANDLE> {
        (at < self.capacity).then(|| self.slot(at))
    }

    /// Returns a descriptor's GPU handle, for binding tables. `None` if out of bounds, and if the heap is not
    /// shader-visible.
    #[must_use]
    pub fn gpu_handle(&self, at: u32) -> Option<D3D12_GPU_DESCRIPTOR_HANDLE> {
        let ptr = self.address.gpu + self.bytes_before(at);
        (at < self.capacity && self.address.gpu != 0).then_some(D3D12_GPU_DESCRIPTOR_HANDLE { ptr })
    }

    pub(super) fn address(&self) -> DescriptorHeapAddress {
        self.address
    }

    /// Returns the CPU handle of a descriptor whose index is known to be below the capacity.
    pub(super) fn slot(&self, at: u32) -> D3D12_CPU_DESCRIPTOR_HANDLE {
        debug_assert!(at < self.capacity, "descriptor {at} is out of bounds for a heap of {}", self.capacity);
        D3D12_CPU_DESCRIPTOR_HANDLE { ptr: (self.address.cpu + self.bytes_before(at)) as usize }
    }

    fn bytes_before(&self, at: u32) -> u64 {
        u64::from(at) * u64::from(self.stride)
    }
}
