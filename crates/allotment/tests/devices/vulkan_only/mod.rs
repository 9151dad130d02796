//! The promises of the Vulkan device beyond the trait: sharing, addresses, names, and memory for what the
//! application made itself.

mod commands;
mod descriptors;
mod full_images;
mod rings;
#[cfg(unix)]
mod sharing;
mod sparse;
mod versions;
mod views;

use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures, ImageInfo};
use allotment::device::{
    BufferDesc, BufferDevice as _, DescriptionError, DescriptionLimit, DeviceError, ImageDesc,
    ImageDevice as _, ImageDimension, MemoryDesc, MemoryDevice as _, MemoryTypeMask, Priority, QueueIndex,
    Tiling, TimelineValue,
};
use allotment::memory::names::ShortName;
use allotment::memory::reports::LeakHandler;
use allotment::memory::vulkan::AllocatorExt as _;
use allotment::memory::{Dedicated, ResourceError};
use allotment::{
    Alignment, AllocationError, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements,
    ResourceKind,
};
use ash::vk;

use crate::bytes::Random;
use crate::fixture::{Fixture as _, Outcome, Test, tests};
use crate::gpu::Gpu;
use crate::kinds::vulkan::VulkanFixture;

type Vulkan = Gpu<VulkanFixture>;

pub(crate) fn all() -> Vec<Test<VulkanFixture>> {
    let mut all = own();
    all.extend(commands::all());
    all.extend(descriptors::anywhere());
    all.extend(rings::all());
    all.extend(sparse::all());
    all.extend(full_images::all());
    all.extend(views::all());
    #[cfg(unix)]
    all.extend(sharing::all());
    all
}

/// Those about descriptors of either model.
pub(crate) fn of_descriptors() -> Vec<Test<VulkanFixture>> {
    descriptors::all()
}

/// Those about the version of Vulkan that an application asks for.
pub(crate) fn of_versions() -> Vec<Test<VulkanFixture>> {
    versions::all()
}

fn own() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        a_buffer_anywhere_in_a_block_has_an_address,
        memory_has_the_priority_that_was_asked_for,
        names_reach_the_validation_layer,
        a_name_may_hold_what_c_cannot,
        linear_and_optimal_images_of_the_application_stand_side_by_side,
        an_image_of_the_application_gets_memory_of_its_own,
        memory_for_a_resource_of_the_application_keeps_to_the_request_as_well,
        a_buffer_of_the_application_is_bound_within_an_allocation,
        images_that_no_description_may_ask_for_are_refused,
        images_of_several_planes_have_one_level_layer_sample_and_two_dimensions,
        images_of_rules_that_every_device_has_are_refused_by_name,
        a_number_of_samples_that_a_format_does_not_have_is_refused_with_those_that_it_has,
        usage_flags_reach_the_driver_or_are_refused_by_number,
        whatever_a_description_says_no_rule_is_broken,
        queues_without_timeline_semaphores_are_refused,
        the_application_submits_to_a_queue_that_it_locked,
        a_clone_outlives_what_opened_the_device,
    ]
}

fn allocator(gpu: &Vulkan) -> Allocator<Device> {
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Ignore;
    Allocator::new(gpu.device().clone(), desc).unwrap()
}

fn wanted(memory_usage: MemoryUsage) -> AllocationOptions {
    AllocationOptions::new(memory_usage)
}

fn a_buffer_anywhere_in_a_block_has_an_address(gpu: &Vulkan) -> Outcome {
    if !gpu.device().enabled().contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS) {
        return Outcome::DoesNotApply("the device has no buffer addresses");
    }
    let allocator = allocator(gpu);
    let usage = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS | vk::BufferUsageFlags::STORAGE_BUFFER;
    let info = BufferDesc::new(1000).with_usage(usage.as_raw().into()).into();
    let buffers: Vec<_> = [Dedicated::Never, Dedicated::Never, Dedicated::Always]
        .map(|dedicated| {
            allocator.create_buffer(&info, &wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated)).unwrap()
        })
        .into();
    let address = |buffer: vk::Buffer| {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: live, made for it, and bound.
        unsafe { gpu.device().raw().get_buffer_device_address(&info) }
    };
    let mut addresses: Vec<_> = buffers.iter().map(|buffer| address(*buffer.handle())).collect();
    assert!(addresses.iter().all(|&address| address != 0));
    addresses.sort_unstable();
    assert!(addresses.windows(2).all(|pair| pair[0] + 1000 <= pair[1]), "{addresses:x?}");
    for buffer in buffers {
        allocator.destroy_buffer(buffer).unwrap();
    }
    Outcome::Ran
}

fn memory_has_the_priority_that_was_asked_for(gpu: &Vulkan) -> Outcome {
    if !gpu.device().enabled().contains(EnabledFeatures::MEMORY_PRIORITY) {
        return Outcome::DoesNotApply("the device has no memory priorities");
    }
    for priority in [Priority::new(0.0), Priority::NORMAL, Priority::HIGH] {
        let desc = MemoryDesc::new(gpu.types()[0], 1 << 20).with_priority(priority);
        let memory = gpu.device().allocate_memory(&desc).unwrap();
        // SAFETY: live, and used by no other code.
        let again = unsafe { gpu.device().set_memory_priority(memory, Priority::new(0.3)) };
        let pageable = gpu.device().enabled().contains(EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY);
        assert_eq!(again.is_ok(), pageable, "{again:?}");
        // SAFETY: live, and never used.
        unsafe { gpu.device().free_memory(memory) };
    }
    Outcome::Ran
}

fn bare_buffer(gpu: &Vulkan, size: u64) -> vk::Buffer {
    let info = vk::BufferCreateInfo::default().size(size).usage(vk::BufferUsageFlags::TRANSFER_DST);
    // SAFETY: a valid description.
    unsafe { gpu.device().raw().create_buffer(&info, None) }.unwrap()
}

fn names_reach_the_validation_layer(gpu: &Vulkan) -> Outcome {
    if !gpu.device().enabled().contains(EnabledFeatures::DEBUG_UTILS) {
        return Outcome::DoesNotApply("no layer listens to names");
    }
    let allocator = allocator(gpu);
    let buffer = bare_buffer(gpu, 64);
    // SAFETY: the buffer is live.
    unsafe { gpu.device().name_buffer(&buffer, "terrain vertices") };
    let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    // SAFETY: live, not bound, and not used with anything else.
    let allocation = unsafe { allocator.allocate_for_buffer(buffer, &desc) }.unwrap();
    // SAFETY: as above; it goes before its memory.
    unsafe { allocator.bind_buffer(&allocation, 0, buffer) }.unwrap();
    // The layer thinks that so small a buffer should share its memory, and names it.
    let messages = gpu.fixture().headless().messages().all();
    assert!(messages.iter().any(|message| message.text.contains("terrain vertices")), "{messages:#?}");
    // SAFETY: live, and never used.
    unsafe { gpu.device().destroy_buffer(buffer) };
    allocator.free(allocation).unwrap();
    Outcome::Ran
}

fn a_name_may_hold_what_c_cannot(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    for name in ["", "\0", "half\0way", "größer als 😀"] {
        let desc = wanted(MemoryUsage::GpuOnly).with_name(name).with_dedicated(Dedicated::Always);
        let buffer = allocator.create_buffer(&BufferDesc::new(64).into(), &desc).unwrap();
        allocator.destroy_buffer(buffer).unwrap();
    }
}

pub(super) fn image_info(tiling: vk::ImageTiling) -> vk::ImageCreateInfo<'static> {
    vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(vk::Format::R8G8B8A8_UNORM)
        .extent(vk::Extent3D { width: 37, height: 21, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(tiling)
        .usage(vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED)
}

fn linear_and_optimal_images_of_the_application_stand_side_by_side(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let granularity = gpu.properties().limits.buffer_image_granularity;
    let mut images = Vec::new();
    for _ in 0..12 {
        for tiling in [vk::ImageTiling::LINEAR, vk::ImageTiling::OPTIMAL] {
            // SAFETY: every device has such images.
            let info = unsafe { ImageInfo::from_raw(image_info(tiling)) };
            images.push(allocator.create_image(&info, &wanted(MemoryUsage::GpuOnly)).unwrap());
        }
    }
    let places = images.iter().map(|image| {
        let place = allocator.location(image.allocation()).unwrap();
        let kind = allocator.info(image.allocation()).unwrap().kind;
        (place.memory, place.offset, place.offset + place.size, kind)
    });
    let places: Vec<_> = places.collect();
    for one in &places {
        for other in places.iter().filter(|other| other.0 == one.0 && other.3 != one.3 && other.1 >= one.2) {
            let (last, first) = (granularity.align_down(one.2 - 1), granularity.align_down(other.1));
            assert!(last < first, "{one:?} and {other:?} share a page of {granularity}");
        }
    }
    for image in images {
        allocator.destroy_image(image).unwrap();
    }
}

fn an_image_of_the_application_gets_memory_of_its_own(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    for (tiling, kind) in [
        (vk::ImageTiling::LINEAR, ResourceKind::LinearImage),
        (vk::ImageTiling::OPTIMAL, ResourceKind::OptimalImage),
    ] {
        for dedicated in [Dedicated::Always, Dedicated::Automatic, Dedicated::Never] {
            // SAFETY: every device has such images.
            let image = unsafe { gpu.device().raw().create_image(&image_info(tiling), None) }.unwrap();
            let desc = wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated);
            // SAFETY: live, not bound, tiled as the kind says, and not used with anything else.
            let allocation = unsafe { allocator.allocate_for_image(image, kind, &desc) }.unwrap();
            // SAFETY: as above; it goes before its memory.
            unsafe { allocator.bind_image(&allocation, 0, image) }.unwrap();
            let info = allocator.info(&allocation).unwrap();
            assert!(info.dedicated || dedicated != Dedicated::Always);
            assert_eq!(info.kind, kind);
            // SAFETY: live, and never used.
            unsafe { gpu.device().destroy_image(image) };
            allocator.free(allocation).unwrap();
        }
    }
}

fn memory_for_a_resource_of_the_application_keeps_to_the_request_as_well(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let buffer = bare_buffer(gpu, 4096);
    // SAFETY: every device has such images.
    let image =
        unsafe { gpu.device().raw().create_image(&image_info(vk::ImageTiling::OPTIMAL), None) }.unwrap();
    for dedicated in [Dedicated::Always, Dedicated::Automatic, Dedicated::Never] {
        let mut desc = wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated);
        desc.memory_types = MemoryTypeMask(0);
        let (allowed, memory_usage, name) = (MemoryTypeMask(0), MemoryUsage::GpuOnly, ShortName::NONE);
        let none = AllocationError::NoMemoryType { allowed, memory_usage, name };
        // SAFETY: live, not bound, tiled as the kind says, and not used with anything else.
        let refused = unsafe { allocator.allocate_for_buffer(buffer, &desc) };
        assert_eq!(refused, Err(none));
        // SAFETY: as above.
        let refused = unsafe { allocator.allocate_for_image(image, ResourceKind::OptimalImage, &desc) };
        assert_eq!(refused, Err(none));

        desc.memory_types = MemoryTypeMask::ALL;
        desc.min_alignment = Alignment::new(1 << 16).unwrap();
        // So that the next place is not aligned by chance.
        let filler = allocator.allocate(&Requirements::new(100), &MemoryUsage::GpuOnly.into()).unwrap();
        for _ in 0..2 {
            // SAFETY: as above; what was allocated before is free again and was not bound.
            let allocation = unsafe { allocator.allocate_for_buffer(buffer, &desc) }.unwrap();
            assert_eq!(allocator.location(&allocation).unwrap().offset % (1 << 16), 0);
            allocator.free(allocation).unwrap();
            // SAFETY: as above.
            let allocation =
                unsafe { allocator.allocate_for_image(image, ResourceKind::OptimalImage, &desc) }.unwrap();
            assert_eq!(allocator.location(&allocation).unwrap().offset % (1 << 16), 0);
            allocator.free(allocation).unwrap();
        }
        allocator.free(filler).unwrap();
    }
    // SAFETY: live, and never used.
    unsafe { gpu.device().destroy_buffer(buffer) };
    // SAFETY: as above.
    unsafe { gpu.device().destroy_image(image) };
}

fn a_buffer_of_the_application_is_bound_within_an_allocation(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let buffers = [(); 3].map(|()| bare_buffer(gpu, 4096));
    // SAFETY: live.
    let needs = unsafe { gpu.device().requirements_of_buffer(buffers[0]) };
    let shift = needs.alignment.align_up(needs.size);
    let whole = Requirements { size: 2 * shift, ..needs };
    let allocation = allocator.allocate(&whole, &MemoryUsage::GpuOnly.into()).unwrap();
    // SAFETY: live and not bound; they go before their memory.
    unsafe { allocator.bind_buffer(&allocation, 0, buffers[0]) }.unwrap();
    // SAFETY: as above.
    unsafe { allocator.bind_buffer(&allocation, shift, buffers[1]) }.unwrap();
    // SAFETY: as above.
    let refused = unsafe { allocator.bind_buffer(&allocation, 2 * shift, buffers[2]) };
    assert!(matches!(refused, Err(ResourceError::Access(_))), "{refused:?}");
    // SAFETY: as above.
    unsafe { allocator.bind_buffer(&allocation, shift, buffers[2]) }.unwrap();
    for buffer in buffers {
        // SAFETY: live, and never used.
        unsafe { gpu.device().destroy_buffer(buffer) };
    }
    allocator.free(allocation).unwrap();
}

fn images_that_no_description_may_ask_for_are_refused(gpu: &Vulkan) {
    let usage = |flags: vk::ImageUsageFlags| u64::from(flags.as_raw());
    let desc = |flags| {
        let mut desc = ImageDesc::new(64, 64, format(vk::Format::R8G8B8A8_UNORM));
        desc.usage = usage(flags);
        desc
    };
    let (transient, color) =
        (vk::ImageUsageFlags::TRANSIENT_ATTACHMENT, vk::ImageUsageFlags::COLOR_ATTACHMENT);
    let needs = |desc: ImageDesc| gpu.device().image_requirements(&desc.into());
    for good in [color, transient | color] {
        assert!(needs(desc(good)).is_ok(), "{good:?}");
    }
    for bad in [transient, transient | color | vk::ImageUsageFlags::SAMPLED] {
        let rule = DescriptionError::TransientUsage;
        assert_eq!(needs(desc(bad)), Err(DeviceError::InvalidDescription(rule)), "{bad:?}");
    }
    for bad in [0, 185, 999_999_999, 1_000_000_000, 1_000_054_000, 1_000_156_034, u32::MAX] {
        let refused = needs(ImageDesc::new(64, 64, bad));
        let known =
            matches!(refused, Err(DeviceError::InvalidDescription(DescriptionError::UnknownFormat { .. })));
        assert!(known, "format {bad}: {refused:?}");
    }
    // Core formats that few devices have are asked about; a device may have them.
    for rare in [vk::Format::G8_B8R8_2PLANE_420_UNORM, vk::Format::G8_B8R8_2PLANE_444_UNORM] {
        let _ = needs(ImageDesc::new(64, 64, format(rare)));
    }
    let odd = [
        (vk::Format::G8_B8R8_2PLANE_420_UNORM, [63, 64], [2, 2]),
        (vk::Format::G8_B8R8_2PLANE_420_UNORM, [64, 63], [2, 2]),
        (vk::Format::G16B16G16R16_422_UNORM, [63, 63], [2, 1]),
    ];
    for (rare, [width, height], multiple) in odd {
        let rule = DescriptionError::BlockExtent { extent: [width, height], multiple };
        let refused = needs(ImageDesc::new(width, height, format(rare)));
        assert_eq!(refused, Err(DeviceError::InvalidDescription(rule)), "{rare:?}");
    }
}

fn images_of_several_planes_have_one_level_layer_sample_and_two_dimensions(gpu: &Vulkan) {
    let planar = [
        vk::Format::G8_B8_R8_3PLANE_420_UNORM,
        vk::Format::G8_B8R8_2PLANE_422_UNORM,
        vk::Format::G10X6_B10X6_R10X6_3PLANE_444_UNORM_3PACK16,
        vk::Format::B16G16R16G16_422_UNORM,
        vk::Format::G8_B8R8_2PLANE_444_UNORM,
    ];
    for planar in planar {
        let plain = ImageDesc::new(64, 64, format(planar));
        let mut wrong = [plain; 4];
        wrong[0].mip_levels = 2;
        wrong[1].array_layers = 2;
        wrong[2].extent[2] = 2;
        wrong[3].samples = 4;
        for desc in wrong {
            let refused = gpu.device().image_requirements(&desc.into());
            let rule = DescriptionError::Planar;
            assert_eq!(refused, Err(DeviceError::InvalidDescription(rule)), "{desc:?}");
        }
    }
}

fn a_number_of_samples_that_a_format_does_not_have_is_refused_with_those_that_it_has(
    gpu: &Vulkan,
) -> Outcome {
    let mut desc = ImageDesc::new(64, 64, gpu.fixture().image_format());
    desc.samples = 64;
    match gpu.device().image_requirements(&desc.into()) {
        Ok(_) => return Outcome::DoesNotApply("the device has all numbers of samples"),
        Err(DeviceError::InvalidDescription(
            rule @ DescriptionError::SampleCount { samples: 64, supported },
        )) => {
            assert_eq!(supported & 65, 1, "one sample is always possible, and 64 are not");
            assert!(rule.to_string().contains("choose 1"), "{rule}");
        }
        Err(error) => panic!("{error}"),
    }
    Outcome::Ran
}

fn images_of_rules_that_every_device_has_are_refused_by_name(gpu: &Vulkan) {
    let plain = ImageDesc::new(64, 64, gpu.fixture().image_format());
    let refused = |change: fn(&mut ImageDesc)| {
        let mut desc = plain;
        change(&mut desc);
        match gpu.device().image_requirements(&desc.into()) {
            Err(DeviceError::InvalidDescription(rule)) => rule,
            other => panic!("{desc:?}: {other:?}"),
        }
    };
    assert_eq!(refused(|desc| desc.samples = 3), DescriptionError::Samples { samples: 3 });
    assert_eq!(refused(|desc| (desc.samples, desc.mip_levels) = (4, 2)), DescriptionError::Multisampled);
    assert_eq!(
        refused(|desc| (desc.samples, desc.tiling) = (4, Tiling::Linear)),
        DescriptionError::Multisampled
    );
    assert_eq!(refused(|desc| (desc.samples, desc.extent[2]) = (4, 2)), DescriptionError::Multisampled);
    let storage = |desc: &mut ImageDesc| {
        desc.samples = 4;
        desc.usage = vk::ImageUsageFlags::STORAGE.as_raw().into();
    };
    assert_eq!(refused(storage), DescriptionError::MultisampledStorage);
    assert_eq!(refused(|desc| (desc.array_layers, desc.extent[2]) = (2, 2)), DescriptionError::ArrayOf3d);
    let limit = |change| match refused(change) {
        DescriptionError::AboveLimit { limit, .. } => limit,
        other => panic!("{other}"),
    };
    assert_eq!(limit(|desc| desc.mip_levels = 8), DescriptionLimit::MipLevels);
    assert_eq!(limit(|desc| desc.extent[0] = u32::MAX), DescriptionLimit::ImageWidth);
    assert_eq!(limit(|desc| desc.extent[1] = u32::MAX), DescriptionLimit::ImageHeight);
    assert_eq!(limit(|desc| desc.array_layers = u32::MAX), DescriptionLimit::ArrayLayers);
}

/// Which of them can be made is the device's business; the validation layer knows whether one was made that must not be.
fn whatever_a_description_says_no_rule_is_broken(gpu: &Vulkan) {
    const FORMATS: [core::ops::Range<u32>; 6] = [
        1_000_156_000..1_000_156_034,
        1_000_330_000..1_000_330_004,
        1_000_066_000..1_000_066_014,
        1_000_340_000..1_000_340_002,
        120..140,
        1..185,
    ];
    let allocator = allocator(gpu);
    let mut random = Random::new(7);
    let mut made = 0;
    let has = |number: &u64| {
        let desc = ImageDesc::new(128, 128, *number as u32);
        gpu.device().image_requirements(&desc.into()).is_ok()
    };
    let had: Vec<u64> = FORMATS.into_iter().flatten().map(u64::from).filter(has).collect();
    assert!(!had.is_empty());
    for number in 0..1500 {
        let mut pick = |of: &[u64]| of[random.below(of.len() as u64) as usize];
        let formats = &FORMATS[pick(&[0, 1, 2, 3, 4, 5]) as usize];
        // Each second one has a format that the device has, and no more than three numbers that may be wrong.
        let is_plain = number % 2 == 0;
        let numbers = if is_plain { had.clone() } else { formats.clone().map(u64::from).collect() };
        let mut side = || pick(&[1, 2, 4, 16, 16, 64, 100, 128]) as u32;
        let (width, height) = (side(), side());
        let mut desc = ImageDesc::new(width, height, pick(&numbers) as u32);
        desc.extent[2] = pick(&[1, 1, 1, 1, 1, 1, 2, 8]) as u32;
        use ImageDimension::{Cube, D1, D2, D3};
        desc.dimension = [D2, D1, D3, Cube][pick(&[0, 0, 0, 1, 2, 3]) as usize];
        if desc.dimension == D1 && pick(&[0, 0, 1]) == 0 {
            desc.extent = [desc.extent[0], 1, 1];
        }
        if desc.dimension == Cube && pick(&[0, 0, 1]) == 0 {
            desc.extent = [desc.extent[0], desc.extent[0], 1];
        }
        if pick(&[0, 0, 1]) == 1 {
            // Formats next to it are often of the same class.
            desc = desc.with_view_formats([desc.format ^ 1, pick(&[0, 37, 43, 50]) as u32]);
        }
        desc.mip_levels = pick(&[1, 1, 1, 2, 5]) as u32;
        desc.array_layers = pick(&[1, 1, 1, 2, 6, 7]) as u32;
        desc.samples = pick(&[1, 1, 1, 1, 1, 1, 2, 4, 8, 64]) as u32;
        desc.tiling = if pick(&[0, 0, 0, 1]) == 0 { Tiling::Optimal } else { Tiling::Linear };
        desc.usage = pick(&[0, 0x10, 0x40, 0x60, 0x90, 0xff, 1 << 8, 1 << 9, 1 << 19, u64::MAX, 0x20, 8]);
        if is_plain {
            desc.dimension = [D2, Cube][pick(&[0, 0, 0, 1]) as usize];
            (desc.samples, desc.tiling, desc.usage, desc.extent[2]) = (1, Tiling::Optimal, 0, 1);
        }
        let dedicated = if pick(&[0, 1]) == 0 { Dedicated::Automatic } else { Dedicated::Always };
        if let Ok(image) =
            allocator.create_image(&desc.into(), &wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated))
        {
            made += 1;
            allocator.destroy_image(image).unwrap();
        }
        let usage = pick(&[0, 1 << 17, 1 << 20, u64::MAX, 0x1ff, 1 << 40]);
        let buffer = BufferDesc::new(pick(&[1, 3, 4096])).with_usage(usage);
        if let Ok(buffer) = allocator.create_buffer(&buffer.into(), &wanted(MemoryUsage::GpuOnly)) {
            allocator.destroy_buffer(buffer).unwrap();
        }
    }
    assert!(made > 100, "most were refused: {made} images were made");
}

fn usage_flags_reach_the_driver_or_are_refused_by_number(gpu: &Vulkan) {
    let (device, enabled) = (gpu.device(), gpu.device().enabled());
    let mut allowed = 0x1ff;
    if enabled.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS) {
        allowed |= vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw();
    }
    if enabled.contains(EnabledFeatures::DESCRIPTOR_BUFFER) {
        allowed |= vk::BufferUsageFlags::SAMPLER_DESCRIPTOR_BUFFER_EXT.as_raw();
        allowed |= vk::BufferUsageFlags::RESOURCE_DESCRIPTOR_BUFFER_EXT.as_raw();
    }
    let unknown = |flags| Err(DeviceError::InvalidDescription(DescriptionError::UnknownUsage { flags }));
    for flag in (0..u64::BITS).map(|bit| 1 << bit) {
        let buffer = device.buffer_requirements(&BufferDesc::new(64).with_usage(flag | 1).into()).map(drop);
        let expected = if u64::from(allowed) & flag != 0 { Ok(()) } else { unknown(flag) };
        assert_eq!(buffer, expected, "buffer, {flag:#x}");
        let desc = ImageDesc::new(64, 64, gpu.fixture().image_format()).with_usage(flag | 1);
        let image = device.image_requirements(&desc.into()).map(drop);
        // Those of Vulkan 1.0 depend on the format, and some later ones on features that are not enabled here.
        let needs = |feature| {
            matches!(
                image,
                Err(DeviceError::InvalidDescription(DescriptionError::UsageNotEnabled { feature: it, .. })) if it == feature
            )
        };
        match u32::try_from(flag).map_or(vk::ImageUsageFlags::empty(), vk::ImageUsageFlags::from_raw) {
            vk::ImageUsageFlags::FRAGMENT_SHADING_RATE_ATTACHMENT_KHR => {
                assert!(needs("FRAGMENT_SHADING_RATE"));
            }
            vk::ImageUsageFlags::FRAGMENT_DENSITY_MAP_EXT => assert!(needs("FRAGMENT_DENSITY_MAP")),
            vk::ImageUsageFlags::ATTACHMENT_FEEDBACK_LOOP_EXT => assert!(needs("ATTACHMENT_FEEDBACK_LOOP")),
            vk::ImageUsageFlags::HOST_TRANSFER_EXT if enabled.contains(EnabledFeatures::HOST_IMAGE_COPY) => {
                assert!(matches!(image, Ok(()) | Err(DeviceError::Unsupported)), "{image:?}");
            }
            vk::ImageUsageFlags::HOST_TRANSFER_EXT => assert!(needs("HOST_IMAGE_COPY")),
            _ => assert_eq!(image == unknown(flag), flag > 0x80, "image, {flag:#x}: {image:?}"),
        }
    }
    // Nor does a number of a format become another one.
    for format in [3_000_000_000, u32::MAX] {
        let found = device.image_requirements(&ImageDesc::new(64, 64, format).into());
        let unknown = DeviceError::InvalidDescription(DescriptionError::UnknownFormat { format });
        assert_eq!(found.err(), Some(unknown));
    }
}

fn queues_without_timeline_semaphores_are_refused(gpu: &Vulkan) {
    let headless = gpu.fixture().headless();
    let (raw, family) = (headless.raw(), headless.queue_families()[0]);
    // SAFETY: one queue of the family was asked for when the device was opened.
    let queue = unsafe { raw.get_device_queue(family, 0) };
    let (instance, physical) = (headless.instance().clone(), headless.physical_device());
    let desc = DeviceDesc::new(instance, physical, raw.clone()).with_queue(queue, family);
    // SAFETY: the handles belong together; nothing more is named as enabled than is.
    let refused = unsafe { Device::new(desc.clone()) };
    let missing = DeviceError::TimelineSemaphoreNotEnabled;
    assert_eq!(refused.err(), Some(missing));
    assert!(missing.to_string().contains("TIMELINE_SEMAPHORE"), "{missing}");
    // SAFETY: as above; the fixture's own device, which has the queue, does nothing meanwhile.
    assert!(unsafe { Device::new(desc.with_enabled(EnabledFeatures::TIMELINE_SEMAPHORE)) }.is_ok());
}

pub(super) fn format(format: vk::Format) -> u32 {
    format.as_raw().unsigned_abs()
}

fn the_application_submits_to_a_queue_that_it_locked(gpu: &Vulkan) {
    let raw = gpu.device().raw();
    for index in gpu.queues() {
        let point = gpu.submit(index, &[], &[]);
        let (semaphores, values) = ([gpu.device().timeline(index).unwrap()], [point.value.0]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::TRANSFER])
            .push_next(&mut timeline);
        let queue = gpu.device().lock_queue(index).unwrap();
        // SAFETY: the queue is locked, and what is waited for was submitted.
        unsafe { raw.queue_submit(*queue, &[info], vk::Fence::null()) }.unwrap();
        // SAFETY: as above.
        unsafe { raw.queue_wait_idle(*queue) }.unwrap();
        drop(queue);
        assert_eq!(gpu.completed(index), TimelineValue(1));
    }
    assert!(gpu.device().lock_queue(QueueIndex(200)).is_none());
    assert!(gpu.device().timeline(QueueIndex(200)).is_none());
}

fn a_clone_outlives_what_opened_the_device(gpu: &Vulkan) {
    let desc = allotment_headless::vulkan::HeadlessDesc::default();
    let name = gpu.fixture().headless().name();
    let headless = allotment_headless::vulkan::Headless::open(
        &desc.with_device(allotment_headless::DeviceChoice::Named(name.to_owned())).with_validation(),
    );
    // A machine without the layer has told so already.
    let Ok(headless) = headless else { return };
    let (device, messages) = (headless.device().clone(), headless.messages().clone());
    drop(headless);
    let memory = device.allocate_memory(&MemoryDesc::new(gpu.types()[0], 1 << 20)).unwrap();
    // SAFETY: live, and never used.
    unsafe { device.free_memory(memory) };
    drop(device);
    let errors: Vec<_> =
        messages.take().into_iter().filter(|m| m.severity == allotment_headless::Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
