//! Which of the device's memory types a resource may be in.

use allotment::device::d3d12::Device;
use allotment::device::d3d12::windows::Win32::Graphics::Direct3D12::*;
use allotment::device::{MemoryTypeIndex, MemoryTypeMask};

use super::ResourceCategory;
use crate::MemoryLocation;

/// Returns the heaps that the CPU writes to, and those that it reads. In heaps of the types `UPLOAD` and `READBACK` a
/// resource has one state for ever; the programs that gpu-allocator allocates for want to choose.
pub(super) fn mapped_heaps() -> [D3D12_HEAP_PROPERTIES; 2] {
    let heap = |pages| D3D12_HEAP_PROPERTIES {
        Type: D3D12_HEAP_TYPE_CUSTOM,
        CPUPageProperty: pages,
        MemoryPoolPreference: D3D12_MEMORY_POOL_L0,
        ..Default::default()
    };
    [heap(D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE), heap(D3D12_CPU_PAGE_PROPERTY_WRITE_BACK)]
}

/// The memory types of a device by what is placed in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryTypes {
    buffers: MemoryTypeMask,
    targets: MemoryTypeMask,
    textures: MemoryTypeMask,
    /// For buffers alone, as all memory that the CPU reaches.
    written: MemoryTypeMask,
    read: MemoryTypeMask,
}

impl MemoryTypes {
    /// Returns those of a device that was given [`mapped_heaps`].
    pub(super) fn of_device(device: &Device) -> Self {
        Self::new((0..32).map_while(|index| device.heap_properties(MemoryTypeIndex(index))))
    }

    /// Returns those of a device by the heap of each memory type.
    fn new(heaps: impl Iterator<Item = D3D12_HEAP_PROPERTIES>) -> Self {
        let none = MemoryTypeMask(0);
        let (mut default, mut written, mut read) = (Vec::new(), none, none);
        for (index, heap) in heaps.enumerate() {
            let mask = MemoryTypeMask(1 << index);
            match (heap.Type, heap.CPUPageProperty) {
                (D3D12_HEAP_TYPE_DEFAULT, _) => default.push(mask),
                (D3D12_HEAP_TYPE_CUSTOM, D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE) => written = mask,
                (D3D12_HEAP_TYPE_CUSTOM, D3D12_CPU_PAGE_PROPERTY_WRITE_BACK) => read = mask,
                _ => {}
            }
        }
        // On tier 1 there is one for each kind, in this order; on tier 2 one for all.
        let [buffers, targets, textures] = match default[..] {
            [buffers, targets, textures] => [buffers, targets, textures],
            [all] => [all; 3],
            _ => [none; 3],
        };
        Self { buffers, targets, textures, written, read }
    }

    /// Returns the memory types for a kind of resource in a location.
    pub(super) fn of(&self, location: MemoryLocation, category: ResourceCategory) -> MemoryTypeMask {
        match (location, category) {
            (MemoryLocation::Unknown | MemoryLocation::GpuOnly, ResourceCategory::Buffer) => self.buffers,
            (MemoryLocation::Unknown | MemoryLocation::GpuOnly, ResourceCategory::RtvDsvTexture) => {
                self.targets
            }
            (MemoryLocation::Unknown | MemoryLocation::GpuOnly, ResourceCategory::OtherTexture) => {
                self.textures
            }
            (MemoryLocation::CpuToGpu, ResourceCategory::Buffer) => self.written,
            (MemoryLocation::GpuToCpu, ResourceCategory::Buffer) => self.read,
            (MemoryLocation::CpuToGpu | MemoryLocation::GpuToCpu, _) => MemoryTypeMask(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_types(types: &[D3D12_HEAP_TYPE]) -> MemoryTypes {
        let standard = types.iter().map(|heap| D3D12_HEAP_PROPERTIES { Type: *heap, ..Default::default() });
        MemoryTypes::new(standard.chain(mapped_heaps()))
    }

    #[test]
    fn on_tier_2_one_memory_type_is_for_all_resources() {
        let types = of_types(&[
            D3D12_HEAP_TYPE_DEFAULT,
            D3D12_HEAP_TYPE_UPLOAD,
            D3D12_HEAP_TYPE_READBACK,
            D3D12_HEAP_TYPE_GPU_UPLOAD,
        ]);
        for category in
            [ResourceCategory::Buffer, ResourceCategory::RtvDsvTexture, ResourceCategory::OtherTexture]
        {
            assert_eq!(types.of(MemoryLocation::GpuOnly, category), MemoryTypeMask(1));
            assert_eq!(types.of(MemoryLocation::Unknown, category), MemoryTypeMask(1));
        }
        assert_eq!(types.of(MemoryLocation::CpuToGpu, ResourceCategory::Buffer), MemoryTypeMask(1 << 4));
        assert_eq!(types.of(MemoryLocation::GpuToCpu, ResourceCategory::Buffer), MemoryTypeMask(1 << 5));
    }

    #[test]
    fn on_tier_1_each_kind_of_resource_has_a_memory_type() {
        let types = of_types(&[
            D3D12_HEAP_TYPE_DEFAULT,
            D3D12_HEAP_TYPE_DEFAULT,
            D3D12_HEAP_TYPE_DEFAULT,
            D3D12_HEAP_TYPE_UPLOAD,
            D3D12_HEAP_TYPE_READBACK,
        ]);
        assert_eq!(types.of(MemoryLocation::GpuOnly, ResourceCategory::Buffer), MemoryTypeMask(1));
        assert_eq!(
            types.of(MemoryLocation::GpuOnly, ResourceCategory::RtvDsvTexture),
            MemoryTypeMask(1 << 1)
        );
        assert_eq!(types.of(MemoryLocation::Unknown, ResourceCategory::OtherTexture), MemoryTypeMask(1 << 2));
        assert_eq!(types.of(MemoryLocation::CpuToGpu, ResourceCategory::Buffer), MemoryTypeMask(1 << 5));
        assert_eq!(types.of(MemoryLocation::GpuToCpu, ResourceCategory::OtherTexture), MemoryTypeMask(0));
    }
}
