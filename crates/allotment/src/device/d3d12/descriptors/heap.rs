//! Heaps of descriptors.

use windows::Win32::Graphics::Direct3D12::*;

use super::heap_type;
use crate::device::d3d12::refused;
use crate::device::{
    DescriptorHeapAddress, DescriptorHeapDesc, DescriptorHeapType, DescriptorHeapVisibility, DeviceError,
};

/// A heap of descriptors; what command lists are told with `SetDescriptorHeaps`.
#[derive(Debug)]
pub struct DescriptorHeap {
    raw: ID3D12DescriptorHeap,
    kind: DescriptorHeapType,
    capacity: u32,
    /// Bytes from one descriptor to the next.
    stride: u32,
    /// Of the first descriptor; 0 to the GPU where shaders do not see the heap.
    address: DescriptorHeapAddress,
}

impl DescriptorHeap {
    /// A heap within the limits.
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
        let gpu = if visible {
            // SAFETY: the heap is live, and shaders see it.
            unsafe { raw.GetGPUDescriptorHandleForHeapStart() }.ptr
        } else {
            0
        };
        Ok(Self { raw, kind, capacity: desc.capacity, stride, address: DescriptorHeapAddress { cpu, gpu } })
    }

    /// The runtime's heap.
    #[must_use]
    pub fn raw(&self) -> &ID3D12DescriptorHeap {
        &self.raw
    }

    /// What the descriptors are of.
    #[must_use]
    pub fn kind(&self) -> DescriptorHeapType {
        self.kind
    }

    /// A descriptor as the CPU writes and copies it, and as command lists are told of render targets. `None` beyond the
    /// heap's end.
    #[must_use]
    pub fn cpu_handle(&self, at: u32) -> Option<D3D12_CPU_DESCRIPTOR_HANDLE> {
        (at < self.capacity).then(|| self.slot(at))
    }

    /// A descriptor as command lists are told of tables. `None` beyond the heap's end, and where shaders do not see the
    /// heap.
    #[must_use]
    pub fn gpu_handle(&self, at: u32) -> Option<D3D12_GPU_DESCRIPTOR_HANDLE> {
        let ptr = self.address.gpu + self.bytes_before(at);
        (at < self.capacity && self.address.gpu != 0).then_some(D3D12_GPU_DESCRIPTOR_HANDLE { ptr })
    }

    pub(super) fn address(&self) -> DescriptorHeapAddress {
        self.address
    }

    /// A descriptor whose index is known to be below the capacity.
    pub(super) fn slot(&self, at: u32) -> D3D12_CPU_DESCRIPTOR_HANDLE {
        debug_assert!(at < self.capacity, "descriptor {at} of {}", self.capacity);
        D3D12_CPU_DESCRIPTOR_HANDLE { ptr: (self.address.cpu + self.bytes_before(at)) as usize }
    }

    fn bytes_before(&self, at: u32) -> u64 {
        u64::from(at) * u64::from(self.stride)
    }
}
