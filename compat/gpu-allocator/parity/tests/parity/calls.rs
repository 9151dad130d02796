// The same calls of one crate, `api`, and what it answers.

use api::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};
use api::{AllocationError, AllocationSizes, AllocatorDebugSettings, MemoryLocation};
use ash::vk;
use presser::Slab as _;

type Handles = (ash::Instance, ash::Device, vk::PhysicalDevice);

fn create(
    (instance, device, physical_device): Handles,
    sizes: AllocationSizes,
) -> Result<Allocator, AllocationError> {
    Allocator::new(&AllocatorCreateDesc {
        instance,
        device,
        physical_device,
        debug_settings: AllocatorDebugSettings::default(),
        buffer_device_address: false,
        allocation_sizes: sizes,
    })
}

fn buffer(size: u64, alignment: u64, memory_type_bits: u32, location: MemoryLocation) -> AllocationCreateDesc<'static> {
    AllocationCreateDesc {
        name: "a buffer",
        requirements: vk::MemoryRequirements { size, alignment, memory_type_bits },
        location,
        linear: true,
        allocation_scheme: AllocationScheme::GpuAllocatorManaged,
    }
}

/// What a caller may rely on: not where an allocation is, but that it is aligned, mapped, as large as was asked, and in
/// memory of the location.
fn described(allocation: &Allocation, alignment: u64, location: MemoryLocation) -> String {
    let mapped = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let promised = match location {
        MemoryLocation::Unknown => vk::MemoryPropertyFlags::empty(),
        MemoryLocation::GpuOnly => vk::MemoryPropertyFlags::DEVICE_LOCAL,
        MemoryLocation::CpuToGpu | MemoryLocation::GpuToCpu => mapped,
    };
    let has = allocation.memory_properties();
    assert_eq!(allocation.mapped_ptr().is_some(), has.contains(vk::MemoryPropertyFlags::HOST_VISIBLE));
    format!(
        "size {}, aligned {}, dedicated {}, null {}, numbered {}, as promised {}",
        allocation.size(),
        allocation.offset().is_multiple_of(alignment),
        allocation.is_dedicated(),
        allocation.is_null(),
        allocation.chunk_id().is_some(),
        has.contains(promised),
    )
}

/// The parts of an allocation that are written and read: its ends, since reading memory of a device takes long.
fn ends(bytes: &mut [u8]) -> [&mut [u8]; 2] {
    let half = bytes.len() / 2;
    let (first, last) = bytes.split_at_mut(half);
    let (first_end, last_start) = (half.min(2048), last.len().saturating_sub(2048));
    [&mut first[..first_end], &mut last[last_start..]]
}

pub(crate) fn answers(handles: Handles) -> Vec<String> {
    const LOCATIONS: [MemoryLocation; 4] =
        [MemoryLocation::Unknown, MemoryLocation::GpuOnly, MemoryLocation::CpuToGpu, MemoryLocation::GpuToCpu];
    let mut answers = Vec::new();
    let (instance, device, _) = handles.clone();
    let null = create((instance, device.clone(), vk::PhysicalDevice::null()), AllocationSizes::default());
    answers.push(format!("{}", matches!(null, Err(AllocationError::InvalidAllocatorCreateDesc(_)))));

    let mut allocator = create(handles, AllocationSizes::new(8 << 20, 4 << 20)).unwrap();
    answers.push(format!("{} {}", allocator.capacity(), allocator.generate_report().blocks.len()));
    let mut live = Vec::new();
    for size in [0, 1, 255, 4096, 1 << 20, 9 << 20, 1 << 45, u64::MAX] {
        for alignment in [0, 1, 3, 64, 65536, 1 << 20] {
            for mask in [0, 1, !0] {
                for location in LOCATIONS {
                    let asked = format!("{size} at {alignment} in {mask:#x} {location:?}");
                    answers.push(match allocator.allocate(&buffer(size, alignment, mask, location)) {
                        Ok(allocation) => {
                            let answer = described(&allocation, alignment, location);
                            live.push(allocation);
                            format!("{asked}: {answer}")
                        }
                        Err(error) => format!("{asked}: {error:?}"),
                    });
                }
            }
        }
    }
    // Bytes, in three ways.
    let mut mapped = 0;
    for (i, allocation) in live.iter_mut().enumerate() {
        if let Some(bytes) = allocation.mapped_slice_mut() {
            ends(bytes).into_iter().for_each(|end| end.fill(i as u8));
            mapped += 1;
        }
    }
    for (i, allocation) in live.iter_mut().enumerate() {
        if allocation.mapped_ptr().is_none() {
            continue;
        }
        let all = ends(allocation.mapped_slice_mut().unwrap()).into_iter().flatten().all(|byte| *byte == i as u8);
        assert!(all, "no two overlap");
        assert_eq!(allocation.mapped_slice().unwrap().len() as u64, allocation.size());
        assert_eq!(allocation.base_ptr(), allocation.mapped_ptr().unwrap().as_ptr().cast());
        let size = allocation.size();
        assert_eq!(allocation.try_as_mapped_slab().unwrap().size() as u64, size);
    }
    assert!(mapped >= live.len() / 3, "two of the four locations are mapped");

    // The report has each once, and none overlaps another in its block.
    let report = allocator.generate_report();
    let bytes: u64 = live.iter().map(Allocation::size).sum();
    // The size that gpu-allocator reports includes what aligns the allocation.
    assert!(report.allocations.len() == live.len() && report.total_allocated_bytes >= bytes);
    assert_eq!(report.blocks.iter().map(|block| block.size).sum::<u64>(), report.total_capacity_bytes);
    assert_eq!(allocator.capacity(), report.total_capacity_bytes);
    let mut reported = 0;
    for block in &report.blocks {
        let mut inside = report.allocations[block.allocations.clone()].to_vec();
        inside.sort_by_key(|one| one.offset);
        assert!(inside.iter().all(|one| one.offset + one.size <= block.size && one.name == "a buffer"));
        assert!(inside.windows(2).all(|two| two[0].offset + two[0].size <= two[1].offset));
        reported += inside.len();
    }
    assert_eq!(reported, live.len());
    answers.push(format!("{} allocations", report.allocations.len()));

    allocator.rename_allocation(&mut live[0], "renamed").unwrap();
    let named = allocator.generate_report().allocations.iter().filter(|one| one.name == "renamed").count();
    answers.push(format!("{named} renamed"));
    let mut null = Allocation::default();
    answers.push(described(&null, 1, MemoryLocation::Unknown));
    answers.push(format!("{:?}", allocator.rename_allocation(&mut null, "null")));
    // SAFETY: the handle is only compared.
    let memory = unsafe { null.memory() };
    answers.push(format!("{:?} {memory:?}", allocator.free(null)));

    // Resources of the driver's: one that shares memory, and one of each kind that has memory of its own.
    let info = vk::BufferCreateInfo::default().size(70_000).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    for dedicated in [false, true] {
        // SAFETY: the device is live, and so are the buffer and its memory until they are destroyed here.
        unsafe {
            let resource = device.create_buffer(&info, None).unwrap();
            let requirements = device.get_buffer_memory_requirements(resource);
            let scheme = AllocationScheme::DedicatedBuffer(resource);
            let allocation = allocator.allocate(&AllocationCreateDesc {
                requirements,
                allocation_scheme: if dedicated { scheme } else { AllocationScheme::GpuAllocatorManaged },
                ..buffer(0, 0, 0, MemoryLocation::CpuToGpu)
            });
            let allocation = allocation.unwrap();
            device.bind_buffer_memory(resource, allocation.memory(), allocation.offset()).unwrap();
            answers.push(format!("buffer: {}, at 0 {}", described(&allocation, requirements.alignment, MemoryLocation::CpuToGpu), dedicated && allocation.offset() == 0));
            device.destroy_buffer(resource, None);
            allocator.free(allocation).unwrap();
        }
    }
    let info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(vk::Format::R8G8B8A8_UNORM)
        .extent(vk::Extent3D { width: 300, height: 200, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(vk::ImageUsageFlags::SAMPLED);
    for dedicated in [false, true] {
        // SAFETY: as above.
        unsafe {
            let resource = device.create_image(&info, None).unwrap();
            let requirements = device.get_image_memory_requirements(resource);
            let scheme = AllocationScheme::DedicatedImage(resource);
            let allocation = allocator.allocate(&AllocationCreateDesc {
                name: "",
                requirements,
                location: MemoryLocation::GpuOnly,
                linear: false,
                allocation_scheme: if dedicated { scheme } else { AllocationScheme::GpuAllocatorManaged },
            });
            let allocation = allocation.unwrap();
            device.bind_image_memory(resource, allocation.memory(), allocation.offset()).unwrap();
            answers.push(format!("image: {}", described(&allocation, requirements.alignment, MemoryLocation::GpuOnly)));
            device.destroy_image(resource, None);
            allocator.free(allocation).unwrap();
        }
    }
    for allocation in live {
        allocator.free(allocation).unwrap();
    }
    let report = allocator.generate_report();
    answers.push(format!("{} {}", report.total_allocated_bytes, report.allocations.len()));
    answers
}
