// Each public item of the module `d3d12` of one crate, `api`, the same calls, and what it answers.

use core::fmt::Debug;
use core::num::NonZeroU64;
use core::ops::Deref;
use core::ptr;

use api::d3d12::{
    Allocation, AllocationCreateDesc, Allocator, AllocatorCreateDesc, CommittedAllocationStatistics,
    ID3D12DeviceVersion, Resource, ResourceCategory, ResourceCreateDesc, ResourceStateOrBarrierLayout,
    ResourceType,
};
use api::{AllocationError, AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryLocation};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

fn has_traits() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Allocator>();
    shared::<Allocation>();
    shared::<Resource>();
    fn shown<T: Debug>() {}
    shown::<Allocator>();
    shown::<AllocatorCreateDesc>();
    shown::<Allocation>();
    shown::<Resource>();
    shown::<CommittedAllocationStatistics>();
    fn described<T: Clone + Debug>() {}
    described::<AllocationCreateDesc<'_>>();
    described::<ID3D12DeviceVersion>();
    fn plain<T: Copy + Debug + Eq>() {}
    plain::<ResourceCategory>();
    plain::<ResourceStateOrBarrierLayout>();
    fn copied<T: Copy>() {}
    copied::<ResourceCreateDesc<'_>>();
    fn device<T: Deref<Target = ID3D12Device>>() {}
    device::<ID3D12DeviceVersion>();
    fn categorised<'a, T: From<&'a D3D12_RESOURCE_DESC>>() {}
    categorised::<ResourceCategory>();
}

fn has_functions() {
    let _: fn(&AllocatorCreateDesc) -> api::Result<Allocator> = Allocator::new;
    let _: fn(&Allocator) -> &ID3D12DeviceVersion = Allocator::device;
    let _: fn(&mut Allocator, &AllocationCreateDesc<'_>) -> api::Result<Allocation> = Allocator::allocate;
    let _: fn(&mut Allocator, Allocation) -> api::Result<()> = Allocator::free;
    let _: fn(&mut Allocator, &mut Allocation, &str) -> api::Result<()> = Allocator::rename_allocation;
    let _: fn(&Allocator, log::Level) = Allocator::report_memory_leaks;
    let _: fn(&Allocator) -> AllocatorReport = Allocator::generate_report;
    let _: fn(&Allocator) -> u64 = Allocator::capacity;
    let _: fn(&mut Allocator, &ResourceCreateDesc<'_>) -> api::Result<Resource> = Allocator::create_resource;
    let _: fn(&mut Allocator, Resource) -> api::Result<()> = Allocator::free_resource;
    let _: fn(&Allocation) -> Option<NonZeroU64> = Allocation::chunk_id;
    let _: unsafe fn(&Allocation) -> &ID3D12Heap = Allocation::heap;
    let _: fn(&Allocation) -> u64 = Allocation::offset;
    let _: fn(&Allocation) -> u64 = Allocation::size;
    let _: fn(&Allocation) -> bool = Allocation::is_null;
    let _: fn(&Resource) -> &ID3D12Resource = Resource::resource;
    let _: fn(&ID3D12Device, &D3D12_RESOURCE_DESC, &'static str, MemoryLocation) -> AllocationCreateDesc<'static> =
        AllocationCreateDesc::from_d3d12_resource_desc;
}

fn has_fields(
    create: AllocatorCreateDesc,
    allocate: AllocationCreateDesc<'static>,
    resource: ResourceCreateDesc<'static>,
    created: &Resource,
    committed: CommittedAllocationStatistics,
) {
    let AllocatorCreateDesc { device, debug_settings: _, allocation_sizes: _ } = create;
    match device {
        ID3D12DeviceVersion::Device(_) | ID3D12DeviceVersion::Device10(_) | ID3D12DeviceVersion::Device12(_) => {}
    }
    let AllocationCreateDesc { name, location: _, size, alignment, resource_category } = allocate;
    let _: (&str, u64, u64) = (name, size, alignment);
    match resource_category {
        ResourceCategory::Buffer | ResourceCategory::RtvDsvTexture | ResourceCategory::OtherTexture => {}
    }
    let ResourceCreateDesc {
        name,
        memory_location: _,
        resource_category: _,
        resource_desc,
        castable_formats,
        clear_value,
        initial_state_or_layout,
        resource_type,
    } = resource;
    let _: (&str, &D3D12_RESOURCE_DESC) = (name, resource_desc);
    let _: (&[DXGI_FORMAT], Option<&D3D12_CLEAR_VALUE>) = (castable_formats, clear_value);
    match initial_state_or_layout {
        ResourceStateOrBarrierLayout::ResourceState(D3D12_RESOURCE_STATES(_))
        | ResourceStateOrBarrierLayout::BarrierLayout(D3D12_BARRIER_LAYOUT(_)) => {}
    }
    match resource_type {
        ResourceType::Committed { heap_properties, heap_flags } => {
            let _: (&&D3D12_HEAP_PROPERTIES, &D3D12_HEAP_FLAGS) = (heap_properties, heap_flags);
        }
        ResourceType::Placed => {}
    }
    let Resource { allocation, memory_location: MemoryLocation::Unknown | _, size, .. } = created;
    let _: (&Option<Allocation>, &u64) = (allocation, size);
    let CommittedAllocationStatistics { num_allocations, total_size } = committed;
    let _: (usize, u64) = (num_allocations, total_size);
}

const LOCATIONS: [MemoryLocation; 4] =
    [MemoryLocation::Unknown, MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu, MemoryLocation::GpuToCpu];
const CATEGORIES: [ResourceCategory; 3] =
    [ResourceCategory::Buffer, ResourceCategory::RtvDsvTexture, ResourceCategory::OtherTexture];

fn is_mapped(location: MemoryLocation) -> bool {
    matches!(location, MemoryLocation::CpuToGpu | MemoryLocation::GpuToCpu)
}

fn buffer(size: u64) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Width: size,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        ..Default::default()
    }
}

fn texture(flags: D3D12_RESOURCE_FLAGS) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: 300,
        Height: 200,
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Flags: flags,
        ..Default::default()
    }
}

fn create(device: &ID3D12Device) -> Allocator {
    let allocator = Allocator::new(&AllocatorCreateDesc {
        device: ID3D12DeviceVersion::Device(device.clone()),
        debug_settings: AllocatorDebugSettings::default(),
        allocation_sizes: AllocationSizes::new(8 << 20, 4 << 20),
    });
    allocator.unwrap()
}

/// What a caller may rely on: not where an allocation is, but that it is aligned, as large as was asked, and in a heap of
/// the location's kind.
fn described(allocation: &Allocation, alignment: u64) -> String {
    // SAFETY: the heap is only asked what it is.
    let D3D12_HEAP_DESC { SizeInBytes: heap, Properties: kind, .. } = unsafe { allocation.heap().GetDesc() };
    assert!(allocation.offset() + allocation.size() <= heap);
    format!(
        "size {}, aligned {}, null {}, numbered {}, heap {:?} {:?} {:?}",
        allocation.size(),
        allocation.offset().is_multiple_of(alignment),
        allocation.is_null(),
        allocation.chunk_id().is_some(),
        kind.Type,
        kind.CPUPageProperty,
        kind.MemoryPoolPreference,
    )
}

/// Writes to a buffer that the CPU reaches, and returns what is read from it.
fn bytes_of(resource: &ID3D12Resource, value: u8) -> Vec<u8> {
    // SAFETY: the buffer is mapped from `Map` to `Unmap`, with as many bytes as its width, and nothing else uses them.
    unsafe {
        let mut address = ptr::null_mut();
        resource.Map(0, None, Some(&mut address)).unwrap();
        let bytes = core::slice::from_raw_parts_mut(address.cast::<u8>(), resource.GetDesc().Width as usize);
        bytes.fill(value);
        let read = bytes.to_vec();
        resource.Unmap(0, None);
        read
    }
}

pub(crate) fn categories() -> Vec<String> {
    let _ = (has_traits as fn(), has_functions as fn(), has_fields as fn(_, _, _, &_, _));
    let flags = [
        D3D12_RESOURCE_FLAG_NONE,
        D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET,
        D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL | D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE,
        D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS,
    ];
    let textures = flags.map(|flags| ResourceCategory::from(&texture(flags)));
    let buffers = flags.map(|flags| ResourceCategory::from(&D3D12_RESOURCE_DESC { Flags: flags, ..buffer(1) }));
    textures.iter().chain(&buffers).map(|category| format!("{category:?}")).collect()
}

/// Whether memory that the CPU reaches is allocated for textures.
pub(crate) fn mapped_textures(device: &ID3D12Device) -> Vec<bool> {
    let mut allocator = create(device);
    let mut answers = Vec::new();
    for location in LOCATIONS.into_iter().filter(|location| is_mapped(*location)) {
        for resource_category in CATEGORIES.into_iter().skip(1) {
            let desc =
                AllocationCreateDesc { name: "", location, size: 65536, alignment: 65536, resource_category };
            match allocator.allocate(&desc) {
                Ok(allocation) => {
                    allocator.free(allocation).unwrap();
                    answers.push(true);
                }
                Err(AllocationError::NoCompatibleMemoryTypeFound) => answers.push(false),
                Err(error) => panic!("{error}"),
            }
        }
    }
    answers
}

pub(crate) fn answers(device: &ID3D12Device) -> Vec<String> {
    let mut answers = allocations(device);
    answers.extend(resources(device));
    answers.extend(refusals(device));
    answers
}

fn allocations(device: &ID3D12Device) -> Vec<String> {
    let mut answers = Vec::new();
    let mut allocator = create(device);
    let same: &ID3D12Device = allocator.device();
    answers.push(format!("{} {}", same == device, matches!(allocator.device(), ID3D12DeviceVersion::Device(_))));
    answers.push(format!("{} {}", allocator.capacity(), allocator.generate_report().blocks.len()));
    let mut live = Vec::new();
    for size in [0, 1, 255, 4096, 1 << 20, 9 << 20, 1 << 45] {
        for alignment in [0, 1, 3, 256, 65536, 1 << 20] {
            for resource_category in CATEGORIES {
                for location in LOCATIONS {
                    // Asked by `mapped_textures`.
                    if is_mapped(location) && resource_category != ResourceCategory::Buffer {
                        continue;
                    }
                    let desc = AllocationCreateDesc { name: "a range", location, size, alignment, resource_category };
                    answers.push(match allocator.allocate(&desc) {
                        Ok(allocation) => {
                            let answer = described(&allocation, alignment);
                            live.push(allocation);
                            format!("{desc:?}: {answer}")
                        }
                        Err(error) => format!("{desc:?}: {error:?}"),
                    });
                }
            }
        }
    }

    // The report has each once, and none overlaps another in its block.
    let report = allocator.generate_report();
    let bytes: u64 = live.iter().map(Allocation::size).sum();
    assert!(report.allocations.len() == live.len() && report.total_allocated_bytes >= bytes);
    assert_eq!(report.blocks.iter().map(|block| block.size).sum::<u64>(), report.total_capacity_bytes);
    assert_eq!(allocator.capacity(), report.total_capacity_bytes);
    for block in &report.blocks {
        let mut inside = report.allocations[block.allocations.clone()].to_vec();
        inside.sort_by_key(|one| one.offset);
        assert!(inside.iter().all(|one| one.offset + one.size <= block.size && one.name == "a range"));
        assert!(inside.windows(2).all(|two| two[0].offset + two[0].size <= two[1].offset));
    }
    answers.push(format!("{} allocations", report.allocations.len()));
    allocator.rename_allocation(&mut live[0], "renamed").unwrap();
    let named = allocator.generate_report().allocations.iter().filter(|one| one.name == "renamed").count();
    answers.push(format!("{named} renamed"));
    for allocation in live {
        allocator.free(allocation).unwrap();
    }
    let report = allocator.generate_report();
    answers.push(format!("{} {}", report.total_allocated_bytes, report.allocations.len()));
    answers
}

fn resources(device: &ID3D12Device) -> Vec<String> {
    let mut answers = Vec::new();
    let mut allocator = create(device);
    let target = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET;
    let descs = [buffer(300), buffer(70_000), texture(D3D12_RESOURCE_FLAG_NONE), texture(target)];
    let heap = |kind| D3D12_HEAP_PROPERTIES { Type: kind, ..Default::default() };
    let (local, upload, readback) =
        (heap(D3D12_HEAP_TYPE_DEFAULT), heap(D3D12_HEAP_TYPE_UPLOAD), heap(D3D12_HEAP_TYPE_READBACK));
    let mut live = Vec::new();
    for desc in &descs {
        let category = ResourceCategory::from(desc);
        for location in LOCATIONS {
            if is_mapped(location) && category != ResourceCategory::Buffer {
                continue;
            }
            // A placed resource of the caller's, by hand.
            let asked = AllocationCreateDesc::from_d3d12_resource_desc(device, desc, "by hand", location);
            let allocation = allocator.allocate(&asked).unwrap();
            let mut placed: Option<ID3D12Resource> = None;
            // SAFETY: device and heap are live, and the resource is released before the allocation is freed.
            let made = unsafe {
                let (heap, offset, state) = (allocation.heap(), allocation.offset(), D3D12_RESOURCE_STATE_COMMON);
                device.CreatePlacedResource(heap, offset, desc, state, None, &mut placed)
            };
            answers.push(format!("{asked:?}: {}, {made:?}", described(&allocation, asked.alignment)));
            if is_mapped(location) {
                assert!(bytes_of(&placed.unwrap(), 7).iter().all(|byte| *byte == 7));
            }
            allocator.free(allocation).unwrap();

            // A placed and a committed one of the allocator's.
            let (committed_in, state) = match location {
                MemoryLocation::CpuToGpu => (&upload, D3D12_RESOURCE_STATE_GENERIC_READ),
                MemoryLocation::GpuToCpu => (&readback, D3D12_RESOURCE_STATE_COPY_DEST),
                MemoryLocation::Unknown | MemoryLocation::GpuOnly => (&local, D3D12_RESOURCE_STATE_COMMON),
            };
            let committed =
                ResourceType::Committed { heap_properties: committed_in, heap_flags: D3D12_HEAP_FLAG_NONE };
            let clear = D3D12_CLEAR_VALUE { Format: desc.Format, ..Default::default() };
            for (resource_type, state) in [(&ResourceType::Placed, D3D12_RESOURCE_STATE_COMMON), (&committed, state)] {
                let resource = allocator.create_resource(&ResourceCreateDesc {
                    name: "a resource",
                    memory_location: location,
                    resource_category: category,
                    resource_desc: desc,
                    castable_formats: &[],
                    clear_value: (category == ResourceCategory::RtvDsvTexture).then_some(&clear),
                    initial_state_or_layout: ResourceStateOrBarrierLayout::ResourceState(state),
                    resource_type,
                });
                let resource = resource.unwrap();
                // SAFETY: the resource is live.
                let is = unsafe { resource.resource().GetDesc() };
                assert_eq!((is.Dimension, is.Width, is.Height), (desc.Dimension, desc.Width, desc.Height));
                answers.push(format!(
                    "{location:?} {category:?} {}: size {}, {:?}, placed {:?}",
                    desc.Width,
                    resource.size,
                    resource.memory_location,
                    resource.allocation.as_ref().map(|allocation| described(allocation, 65536)),
                ));
                live.push(resource);
            }
        }
    }
    // No two share bytes.
    let mapped = || live.iter().enumerate().filter(|(_, resource)| is_mapped(resource.memory_location));
    for (i, resource) in mapped() {
        bytes_of(resource.resource(), i as u8);
    }
    for (i, resource) in mapped() {
        let mut address = ptr::null_mut();
        // SAFETY: the buffer is mapped until `Unmap`, and has 300 bytes at least.
        unsafe {
            resource.resource().Map(0, None, Some(&mut address)).unwrap();
            let all = core::slice::from_raw_parts(address.cast::<u8>(), 300).iter().all(|byte| *byte == i as u8);
            assert!(all, "the bytes of resource {i}");
            resource.resource().Unmap(0, None);
        }
    }
    answers.push(format!("{} mapped", mapped().count()));
    let report = allocator.generate_report();
    answers.push(format!("{} allocations of {} resources", report.allocations.len(), live.len()));
    // One keeps its memory, which is freed by hand.
    let mut first = live.remove(0);
    let kept = first.allocation.take();
    answers.push(format!("{:?}", allocator.free_resource(first)));
    answers.push(format!("{:?}", allocator.free(kept.unwrap())));
    for resource in live {
        allocator.free_resource(resource).unwrap();
    }
    let report = allocator.generate_report();
    answers.push(format!("{} {}", report.total_allocated_bytes, report.allocations.len()));
    answers
}

fn refusals(device: &ID3D12Device) -> Vec<String> {
    let mut allocator = create(device);
    let local = D3D12_HEAP_PROPERTIES { Type: D3D12_HEAP_TYPE_DEFAULT, ..Default::default() };
    let committed = ResourceType::Committed { heap_properties: &local, heap_flags: D3D12_HEAP_FLAG_NONE };
    let state = ResourceStateOrBarrierLayout::ResourceState(D3D12_RESOURCE_STATE_COMMON);
    let layout = ResourceStateOrBarrierLayout::BarrierLayout(D3D12_BARRIER_LAYOUT_COMMON);
    let good = texture(D3D12_RESOURCE_FLAG_NONE);
    let formats = [DXGI_FORMAT_R8G8B8A8_UNORM_SRGB];
    let mut answers = Vec::new();
    for resource_type in [&ResourceType::Placed, &committed] {
        for (castable_formats, initial_state_or_layout) in
            [(&[][..], layout), (&formats[..], state), (&formats[..], layout)]
        {
            let resource = allocator.create_resource(&ResourceCreateDesc {
                name: "refused",
                memory_location: MemoryLocation::GpuOnly,
                resource_category: ResourceCategory::OtherTexture,
                resource_desc: &good,
                castable_formats,
                clear_value: None,
                initial_state_or_layout,
                resource_type,
            });
            answers.push(format!("{:?}", resource.err()));
        }
    }
    // What Direct3D 12 itself refuses, in words of its own.
    let unlike_a_buffer = D3D12_RESOURCE_DESC { Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN, ..buffer(256) };
    for resource_type in [&ResourceType::Placed, &committed] {
        let resource = allocator.create_resource(&ResourceCreateDesc {
            name: "refused",
            memory_location: MemoryLocation::GpuOnly,
            resource_category: ResourceCategory::Buffer,
            resource_desc: &unlike_a_buffer,
            castable_formats: &[],
            clear_value: None,
            initial_state_or_layout: state,
            resource_type,
        });
        let error = resource.unwrap_err().to_string();
        answers.push(error.split(':').next().unwrap().to_owned());
    }
    answers
}
