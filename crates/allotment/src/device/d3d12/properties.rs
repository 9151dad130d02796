//! Properties of a device and its adapter, converted to this crate's types.

use bitflags::bitflags;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::{DXGI_ADAPTER_DESC, IDXGIAdapter3};

use super::budget::{GROUPS, segment};
use super::{host_copies, refused};
use crate::device::{
    Api, DescriptionError, DescriptionLimit, DeviceError, DeviceProperties, Limits, MemoryHeap,
    MemoryHeapIndex, MemoryProperties, MemoryType, MemoryTypeMask, QueueIndex, QueueKind,
};
use allotment_suballoc::Alignment;

/// The default placement alignment of resources.
pub(super) const PLACEMENT: u64 = D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT as u64;

/// The feature and the flag of tight alignment, which the bindings do not name yet (Agility SDK 1.618).
const FEATURE_TIGHT_ALIGNMENT: D3D12_FEATURE = D3D12_FEATURE(54);
pub(super) const USE_TIGHT_ALIGNMENT: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(0x400);

bitflags! {
    /// The classes of resources that a heap supports. On resource heap tier 1, each heap supports exactly one of
    /// them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct ResourceClasses: u8 {
        const BUFFERS = 1;
        /// Textures that can be render targets or depth buffers.
        const TARGETS = 1 << 1;
        /// All other textures.
        const TEXTURES = 1 << 2;
    }
}

impl ResourceClasses {
    /// Returns the flags for `ID3D12Device::CreateHeap`.
    pub(super) fn heap_flags(self) -> D3D12_HEAP_FLAGS {
        // The API denies classes rather than allows them, so that flags of 0 are those of tier 2.
        let denied = [
            (Self::BUFFERS, D3D12_HEAP_FLAG_DENY_BUFFERS),
            (Self::TARGETS, D3D12_HEAP_FLAG_DENY_RT_DS_TEXTURES),
            (Self::TEXTURES, D3D12_HEAP_FLAG_DENY_NON_RT_DS_TEXTURES),
        ];
        let denied = denied.into_iter().filter(|&(kind, _)| !self.contains(kind));
        denied.fold(D3D12_HEAP_FLAG_NONE, |flags, (_, flag)| flags | flag)
    }
}

/// How memory of a type is allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapClass {
    pub(super) properties: D3D12_HEAP_PROPERTIES,
    pub(super) supports: ResourceClasses,
    /// For textures that the CPU writes, and for no others.
    host_written: bool,
}

impl HeapClass {
    /// Returns the properties of a heap with these flags. What is shared or displayed is in no heap that the CPU reaches.
    pub(super) fn heap(&self, flags: D3D12_HEAP_FLAGS) -> D3D12_HEAP_PROPERTIES {
        let others =
            D3D12_HEAP_FLAG_SHARED | D3D12_HEAP_FLAG_SHARED_CROSS_ADAPTER | D3D12_HEAP_FLAG_ALLOW_DISPLAY;
        if self.host_written && (flags & others) != D3D12_HEAP_FLAG_NONE {
            return of_type(D3D12_HEAP_TYPE_DEFAULT);
        }
        self.properties
    }

    /// Returns true for heaps whose resources have a fixed state.
    pub(super) fn is_one_way(&self) -> bool {
        matches!(self.properties.Type, D3D12_HEAP_TYPE_UPLOAD | D3D12_HEAP_TYPE_READBACK)
    }
}

/// Optional features of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) tier: D3D12_RESOURCE_HEAP_TIER,
    /// Whether CPU and GPU share all memory.
    uma: bool,
    /// They share caches as well.
    pub(super) coherent_uma: bool,
    pub(super) gpu_upload: bool,
    pub(super) not_zeroed: bool,
    /// Whether buffers can have addresses without memory.
    pub(super) tiled_resources: bool,
    pub(super) tight_alignment: bool,
    pub(super) enhanced_barriers: bool,
    /// The maximum size of a resource in bytes.
    max_resource_size: u64,
    /// The maximum size of a shader-visible heap of views; 0 if the runtime does not report it.
    pub(super) max_views: u32,
    /// The maximum size of a shader-visible heap of samplers that is used together with static ones; 0 if the
    /// runtime does not report it.
    pub(super) max_samplers: u32,
    /// Whether anisotropic filters can use the nearest mip level.
    pub(super) nearest_mip_with_anisotropy: bool,
}

/// A structure for `CheckFeatureSupport`.
///
/// # Safety
///
/// It is the structure of the feature `ID`, and contains no pointers.
pub(super) unsafe trait FeatureData {
    const ID: D3D12_FEATURE;
}

/// `D3D12_FEATURE_DATA_TIGHT_ALIGNMENT`: the tier, 0 for none.
#[derive(Default)]
#[repr(transparent)]
struct TightAlignment(i32);

macro_rules! features {
    ($($data:ty: $id:expr,)*) => {
        $(
            // SAFETY: as named in `d3d12.h`.
            unsafe impl FeatureData for $data {
                const ID: D3D12_FEATURE = $id;
            }
        )*
    };
}

features! {
    D3D12_FEATURE_DATA_D3D12_OPTIONS: D3D12_FEATURE_D3D12_OPTIONS,
    D3D12_FEATURE_DATA_D3D12_OPTIONS7: D3D12_FEATURE_D3D12_OPTIONS7,
    D3D12_FEATURE_DATA_D3D12_OPTIONS12: D3D12_FEATURE_D3D12_OPTIONS12,
    D3D12_FEATURE_DATA_D3D12_OPTIONS16: D3D12_FEATURE_D3D12_OPTIONS16,
    D3D12_FEATURE_DATA_D3D12_OPTIONS19: D3D12_FEATURE_D3D12_OPTIONS19,
    D3D12_FEATURE_DATA_ARCHITECTURE: D3D12_FEATURE_ARCHITECTURE,
    D3D12_FEATURE_DATA_GPU_VIRTUAL_ADDRESS_SUPPORT: D3D12_FEATURE_GPU_VIRTUAL_ADDRESS_SUPPORT,
    D3D12_FEATURE_DATA_FORMAT_SUPPORT: D3D12_FEATURE_FORMAT_SUPPORT,
    D3D12_FEATURE_DATA_MULTISAMPLE_QUALITY_LEVELS: D3D12_FEATURE_MULTISAMPLE_QUALITY_LEVELS,
    TightAlignment: FEATURE_TIGHT_ALIGNMENT,
}

/// Queries a feature with the inputs in `data`. Returns `None` if the runtime does not know the feature.
pub(super) fn query<T: FeatureData>(device: &ID3D12Device, mut data: T) -> Option<T> {
    let size = size_of::<T>() as u32;
    // SAFETY: `T` is the structure of the feature, with its size.
    let result = unsafe { device.CheckFeatureSupport(T::ID, (&raw mut data).cast(), size) };
    // Older runtimes refuse a feature that they do not know with `E_INVALIDARG`.
    result.is_ok().then_some(data)
}

/// Queries a feature. Returns all zeros for one that the runtime does not know, which means "no" everywhere.
fn query_or_default<T: FeatureData + Default>(device: &ID3D12Device) -> T {
    query(device, T::default()).unwrap_or_default()
}

impl Features {
    pub(super) fn of(device: &ID3D12Device) -> Self {
        let options: D3D12_FEATURE_DATA_D3D12_OPTIONS = query_or_default(device);
        // Runtimes that know these options know the flag `NOT_ZEROED`; the options' contents are about something
        // else.
        let seventh = D3D12_FEATURE_DATA_D3D12_OPTIONS7::default();
        let not_zeroed = query(device, seventh).is_some();
        let barriers: D3D12_FEATURE_DATA_D3D12_OPTIONS12 = query_or_default(device);
        let upload: D3D12_FEATURE_DATA_D3D12_OPTIONS16 = query_or_default(device);
        let descriptors: D3D12_FEATURE_DATA_D3D12_OPTIONS19 = query_or_default(device);
        let address: D3D12_FEATURE_DATA_GPU_VIRTUAL_ADDRESS_SUPPORT = query_or_default(device);
        let architecture: D3D12_FEATURE_DATA_ARCHITECTURE = query_or_default(device);
        let TightAlignment(tight_alignment_tier) = query_or_default(device);
        // At least 31 on all hardware; a runtime that does not know the feature reports 0.
        let bits = address.MaxGPUVirtualAddressBitsPerResource.clamp(31, 47);
        Self {
            tier: options.ResourceHeapTier,
            uma: architecture.UMA.as_bool(),
            coherent_uma: architecture.UMA.as_bool() && architecture.CacheCoherentUMA.as_bool(),
            gpu_upload: upload.GPUUploadHeapSupported.as_bool(),
            not_zeroed,
            tiled_resources: options.TiledResourcesTier != D3D12_TILED_RESOURCES_TIER_NOT_SUPPORTED,
            tight_alignment: tight_alignment_tier > 0,
            enhanced_barriers: barriers.EnhancedBarriersSupported.as_bool(),
            max_resource_size: 1 << bits,
            max_views: descriptors.MaxViewDescriptorHeapSize,
            max_samplers: descriptors.MaxSamplerDescriptorHeapSizeWithStaticSamplers,
            nearest_mip_with_anisotropy: descriptors.AnisoFilterWithPointMipSupported.as_bool(),
        }
    }
}

/// Returns the properties of a heap of one of the API's types.
fn of_type(heap_type: D3D12_HEAP_TYPE) -> D3D12_HEAP_PROPERTIES {
    // The runtime determines the other properties when it creates the heap.
    D3D12_HEAP_PROPERTIES { Type: heap_type, CreationNodeMask: 1, VisibleNodeMask: 1, ..Default::default() }
}

/// Returns the properties of the device and its adapter, and how memory of each type is allocated. `custom`
/// heaps come after the device's own types, in their order; `host_written` adds the type for textures that the CPU writes.
pub(super) fn describe(
    device: &ID3D12Device,
    adapter: &IDXGIAdapter3,
    features: &Features,
    host_written: bool,
    custom: &[D3D12_HEAP_PROPERTIES],
) -> Result<(DeviceProperties, Vec<HeapClass>), DeviceError> {
    // SAFETY: the adapter is live.
    let adapter_desc = unsafe { adapter.GetDesc() }.map_err(|error| refused(&error))?;
    let mut heaps = heaps(&adapter_desc, features.uma);
    for (heap, group) in heaps.iter_mut().zip(GROUPS).filter(|(heap, _)| heap.size == 0) {
        // Some adapters report neither dedicated memory nor UMA; then the budget is the size.
        heap.size = segment(adapter, group).budget;
    }
    let mut types = Vec::new();
    let mut classes = Vec::new();
    let standard = [
        (D3D12_HEAP_TYPE_DEFAULT, true),
        (D3D12_HEAP_TYPE_UPLOAD, true),
        (D3D12_HEAP_TYPE_READBACK, true),
        (D3D12_HEAP_TYPE_GPU_UPLOAD, features.gpu_upload),
    ];
    let standard =
        standard.into_iter().filter(|&(_, exists)| exists).map(|(heap_type, _)| of_type(heap_type));
    let possible = |heap: &D3D12_HEAP_PROPERTIES| {
        let pool = heap.MemoryPoolPreference;
        // L1 is the memory of a discrete adapter; a UMA adapter has only L0, and creation in L1 fails.
        let exists = pool == D3D12_MEMORY_POOL_L0 || (pool == D3D12_MEMORY_POOL_L1 && !features.uma);
        heap.Type == D3D12_HEAP_TYPE_CUSTOM && exists
    };
    // Refused here with one error, rather than at the first allocation of the type.
    if !custom.iter().all(possible) {
        return Err(DescriptionError::CustomHeap.into());
    }
    if host_written {
        // The first, since the first of types that suit alike is taken. For the allocator nothing there can be mapped: a texture
        // has no bytes at an address.
        types.push(MemoryType { heap: MemoryHeapIndex(0), properties: MemoryProperties::DEVICE_LOCAL });
        let supports = ResourceClasses::TEXTURES;
        classes.push(HeapClass { properties: host_copies::HEAP, supports, host_written });
    }
    for properties in standard.chain(custom.iter().copied()) {
        let memory_type = memory_type(device, &properties, features.uma)?;
        let visible = memory_type.properties.contains(MemoryProperties::HOST_VISIBLE);
        let kinds: &[ResourceClasses] = if visible {
            // Textures that the CPU can map have row-major layout, which shaders access slowly.
            &[ResourceClasses::BUFFERS]
        } else if features.tier == D3D12_RESOURCE_HEAP_TIER_1 {
            &[ResourceClasses::BUFFERS, ResourceClasses::TARGETS, ResourceClasses::TEXTURES]
        } else {
            &[ResourceClasses::all()]
        };
        for &supports in kinds {
            types.push(memory_type);
            classes.push(HeapClass { properties, supports, host_written: false });
        }
    }
    DescriptionLimit::MemoryTypes.check(types.len() as u64, 32)?;
    let properties = DeviceProperties {
        name: name_of(&adapter_desc),
        api: Api::Direct3D12,
        heaps,
        memory_types: types,
        limits: Limits {
            // On tier 1, classes that would need a distance do not share heaps; on tier 2 none need one.
            buffer_image_granularity: Alignment::ONE,
            non_coherent_atom_size: Alignment::ONE,
            max_allocation_count: u32::MAX,
            max_allocation_size: features.max_resource_size,
            image_copy_offset_alignment: alignment(D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT),
            image_copy_row_alignment: alignment(D3D12_TEXTURE_DATA_PITCH_ALIGNMENT),
            buffer_offset_alignment: alignment(D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT),
        },
        queues: Vec::new(),
    };
    Ok((properties, classes))
}

fn name_of(desc: &DXGI_ADAPTER_DESC) -> String {
    let end = desc.Description.iter().position(|&unit| unit == 0).unwrap_or(desc.Description.len());
    String::from_utf16_lossy(&desc.Description[..end])
}

/// Returns the two segment groups of DXGI, or the single one of a UMA adapter.
fn heaps(desc: &DXGI_ADAPTER_DESC, uma: bool) -> Vec<MemoryHeap> {
    let own = desc.DedicatedVideoMemory as u64;
    let system = desc.DedicatedSystemMemory as u64 + desc.SharedSystemMemory as u64;
    if uma {
        vec![MemoryHeap { size: own + system, device_local: true }]
    } else {
        vec![MemoryHeap { size: own, device_local: true }, MemoryHeap { size: system, device_local: false }]
    }
}

/// Returns the memory type of a heap type, from the equivalent custom heap.
fn memory_type(
    device: &ID3D12Device,
    heap: &D3D12_HEAP_PROPERTIES,
    uma: bool,
) -> Result<MemoryType, DeviceError> {
    // `UPLOAD` heaps have the fixed state `GENERIC_READ` and `READBACK` heaps `COPY_DEST`, so no queue can use
    // them the other way.
    let one_way = match heap.Type {
        D3D12_HEAP_TYPE_UPLOAD => MemoryProperties::DEVICE_READ_ONLY,
        D3D12_HEAP_TYPE_READBACK => MemoryProperties::DEVICE_WRITE_ONLY,
        _ => MemoryProperties::empty(),
    };
    let equal = match heap.Type {
        D3D12_HEAP_TYPE_CUSTOM => *heap,
        // The result of `GetCustomHeapProperties` for this type depends on the runtime's version.
        D3D12_HEAP_TYPE_GPU_UPLOAD => D3D12_HEAP_PROPERTIES {
            CPUPageProperty: D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE,
            MemoryPoolPreference: D3D12_MEMORY_POOL_L1,
            ..*heap
        },
        // SAFETY: node 0 is the whole device, and these types can be queried.
        standard => unsafe { device.GetCustomHeapProperties(0, standard) },
    };
    // Direct3D 12 has no flush: everything that can be mapped is coherent.
    let visible = MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
    let by_cpu = match equal.CPUPageProperty {
        D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE => MemoryProperties::empty(),
        // Write-combined memory is slow for CPU reads, which `HOST_CACHED` being absent says.
        D3D12_CPU_PAGE_PROPERTY_WRITE_COMBINE => visible,
        D3D12_CPU_PAGE_PROPERTY_WRITE_BACK => visible | MemoryProperties::HOST_CACHED,
        _ => return Err(DescriptionError::CustomHeap.into()),
    };
    let local = uma || equal.MemoryPoolPreference == D3D12_MEMORY_POOL_L1;
    let place = if local { MemoryProperties::DEVICE_LOCAL } else { MemoryProperties::empty() };
    Ok(MemoryType { heap: MemoryHeapIndex(u8::from(!local)), properties: place | by_cpu | one_way })
}

/// Returns the memory types whose heaps support all of `wanted`, and in which resources can change their state
/// if `changes_state`. The one for textures that the CPU writes is there only for those.
pub(super) fn types_that_support(
    classes: &[HeapClass],
    wanted: ResourceClasses,
    changes_state: bool,
    host_writable: bool,
) -> MemoryTypeMask {
    // A resource that has to change its state cannot be placed where the state is fixed.
    let suits = |class: &HeapClass| {
        class.supports.contains(wanted)
            && !(changes_state && class.is_one_way())
            && (host_writable || !class.host_written)
    };
    let suiting = (0..32).zip(classes).filter(|(_, class)| suits(class));
    MemoryTypeMask(suiting.fold(0, |mask, (index, _)| mask | 1 << index))
}

/// Returns the kinds of the queues that the application listed.
pub(super) fn queue_kinds(queues: &[ID3D12CommandQueue]) -> Result<Vec<QueueKind>, DeviceError> {
    let kind = |(index, queue): (u8, &ID3D12CommandQueue)| {
        // SAFETY: the queue is live.
        match unsafe { queue.GetDesc() }.Type {
            D3D12_COMMAND_LIST_TYPE_DIRECT => Ok(QueueKind::Graphics),
            D3D12_COMMAND_LIST_TYPE_COMPUTE => Ok(QueueKind::Compute),
            D3D12_COMMAND_LIST_TYPE_COPY => Ok(QueueKind::Transfer),
            // Video queues cannot copy buffers.
            _ => Err(DeviceError::QueueCannotCopy { queue: QueueIndex(index) }),
        }
    };
    // A device has at most 256 queues.
    (0..=u8::MAX).zip(queues).map(kind).collect()
}

/// Converts one of the API's constants, which are powers of two.
pub(super) fn alignment(bytes: u32) -> Alignment {
    Alignment::new(bytes.into()).unwrap_or(Alignment::ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_flags_deny_what_a_heap_does_not_take() {
        assert_eq!(ResourceClasses::all().heap_flags(), D3D12_HEAP_FLAG_ALLOW_ALL_BUFFERS_AND_TEXTURES);
        assert_eq!(ResourceClasses::BUFFERS.heap_flags(), D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS);
        assert_eq!(ResourceClasses::TARGETS.heap_flags(), D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES);
        assert_eq!(ResourceClasses::TEXTURES.heap_flags(), D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES);
    }

    #[test]
    fn a_discrete_adapter_has_two_heaps_and_an_integrated_one_has_all_in_one() {
        let desc = DXGI_ADAPTER_DESC {
            DedicatedVideoMemory: 8 << 30,
            DedicatedSystemMemory: 1 << 20,
            SharedSystemMemory: 16 << 30,
            ..Default::default()
        };
        let local = MemoryHeap { size: 8 << 30, device_local: true };
        let system = MemoryHeap { size: (16 << 30) + (1 << 20), device_local: false };
        assert_eq!(heaps(&desc, false), [local, system]);
        let all = MemoryHeap { size: local.size + system.size, device_local: true };
        assert_eq!(heaps(&desc, true), [all]);
    }
}
