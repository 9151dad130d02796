//! Applications that ask for some version of Vulkan, and do not say which.

use allotment::device::vulkan::{
    BufferInfo, Device, DeviceDesc, EnabledFeatures, ImageInfo, MemoryOptions, Supported,
};
use allotment::device::{
    BufferDesc, BufferDevice as _, DeviceError, ImageDesc, ImageDevice as _, MemoryDesc, MemoryDevice as _,
    Tiling,
};
use allotment::memory::Dedicated;
use allotment::{MemoryUsage, Requirements};
use ash::vk;

use super::{Vulkan, allocator, wanted};
use crate::bytes::pattern;
use crate::fixture::{Fixture as _, Outcome, Test, tests};
use crate::kinds::vulkan::VulkanFixture;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        the_version_need_not_be_told,
        buffers_and_images_are_created_and_destroyed,
        what_is_written_is_read_back,
        memory_is_shared_from_vulkan_1_1_on,
        a_device_is_created_with_what_is_supported,
        what_is_used_is_merged_into_structures_that_the_application_chains_itself,
        robust_access_that_the_application_enables_is_noticed,
        of_what_is_supported_only_what_is_wanted_is_named,
    ]
}

fn desc(gpu: &Vulkan) -> DeviceDesc {
    let headless = gpu.fixture().headless();
    let (instance, raw) = (headless.instance().clone(), headless.raw().clone());
    DeviceDesc::new(instance, headless.physical_device(), raw)
}

fn the_version_need_not_be_told(gpu: &Vulkan) {
    let asked_for = gpu.fixture().headless().api_version();
    let enabled = gpu.device().enabled();
    // SAFETY: the handles are those of a device that outlives this one, and nothing more is named as enabled.
    let device = unsafe { Device::new(desc(gpu).with_enabled(enabled)) }.unwrap();
    let [found, asked_for] = [device.api_version(), asked_for].map(vk::api_version_minor);
    // NVIDIA's driver returns the functions of later versions, too, unless 1.0 was asked for.
    let raw = gpu.fixture().headless().raw().handle();
    let returns_all = |name: &core::ffi::CStr| {
        // SAFETY: the device is live, and the name ends with a zero.
        unsafe { gpu.fixture().headless().instance().get_device_proc_addr(raw, name.as_ptr()) }.is_some()
    };
    if asked_for != 0 && asked_for < 3 && returns_all(c"vkGetDeviceImageMemoryRequirements") {
        assert_eq!(found, 3);
    } else {
        assert_eq!(found, asked_for.min(3));
    }
    // SAFETY: as above.
    let older = unsafe { Device::new(desc(gpu).with_api_version(vk::API_VERSION_1_0)) }.unwrap();
    assert_eq!(older.api_version(), vk::API_VERSION_1_0);
    let limits = older.properties().limits;
    assert!(limits.max_allocation_size > 0 && limits.max_allocation_count > 0, "{limits:?}");
    assert_eq!(older.properties().heaps, gpu.properties().heaps);
}

fn buffers_and_images_are_created_and_destroyed(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let mut image = ImageDesc::new(64, 32, gpu.fixture().image_format());
    for tiling in [Tiling::Optimal, Tiling::Linear] {
        for dedicated in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
            image.tiling = tiling;
            let wish = wanted(MemoryUsage::GpuOnly).with_dedicated(dedicated);
            let buffer = allocator.create_buffer(&BufferDesc::new(5000).into(), &wish).unwrap();
            let image = allocator.create_image(&image.into(), &wish).unwrap();
            allocator.destroy_buffer(buffer).unwrap();
            allocator.destroy_image(image).unwrap();
        }
    }
}

fn what_is_written_is_read_back(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let allocation = allocator.allocate(&Requirements::new(10_000), &MemoryUsage::Upload.into()).unwrap();
    let bytes = pattern(3, 10_000);
    allocator.write(&allocation, 0, &bytes).unwrap();
    let mut found = vec![0; 10_000];
    allocator.read(&allocation, 0, &mut found).unwrap();
    assert_eq!(found, bytes);
    allocator.free(allocation).unwrap();
}

fn memory_is_shared_from_vulkan_1_1_on(gpu: &Vulkan) -> Outcome {
    const OPAQUE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
    if gpu.device().api_version() >= vk::API_VERSION_1_1 {
        return Outcome::DoesNotApply("the device is of a later version than Vulkan 1.0");
    }
    // Even where the extension is named as enabled: nothing tells what may be shared.
    let desc = desc(gpu).with_enabled(EnabledFeatures::EXTERNAL_MEMORY_FD);
    // SAFETY: the handles are those of a device that outlives this one; the extension is never used.
    let device = unsafe { Device::new(desc) }.unwrap();
    let missing = DeviceError::ExternalMemoryNotEnabled;
    let buffer = BufferInfo::from(BufferDesc::new(64)).with_external_handle_types(OPAQUE);
    assert_eq!(device.buffer_requirements(&buffer), Err(missing));
    let image = ImageInfo::from(ImageDesc::new(8, 8, gpu.fixture().image_format()))
        .with_external_handle_types(OPAQUE);
    assert_eq!(device.image_requirements(&image), Err(missing));
    let options = MemoryOptions::new().with_export_handle_types(OPAQUE);
    let memory = MemoryDesc::new(gpu.buffer_types()[0], 64).with_options(Some(&options));
    assert_eq!(device.allocate_memory(&memory), Err(missing));
    Outcome::Ran
}

/// Returns what the fixture's physical device supports, in the version that was asked for.
fn supported(gpu: &Vulkan) -> Supported {
    let headless = gpu.fixture().headless();
    let (instance, version) = (headless.instance(), headless.api_version());
    // SAFETY: the physical device is of the instance, which was created for this version.
    unsafe { EnabledFeatures::supported(instance, headless.physical_device(), version) }.unwrap()
}

/// Creates a device over an own one with the features of `info`, and destroys both.
fn create(gpu: &Vulkan, supported: &mut Supported, info: vk::DeviceCreateInfo<'_>) {
    let headless = gpu.fixture().headless();
    let (instance, physical) = (headless.instance(), headless.physical_device());
    let names: Vec<_> = supported.extension_names().into_iter().map(core::ffi::CStr::as_ptr).collect();
    let family = headless.queue_families()[0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
    let info = supported.push_features(info.queue_create_infos(&queues).enabled_extension_names(&names));
    // SAFETY: extensions and features are ones that the physical device supports.
    let raw = unsafe { instance.create_device(physical, &info, None) }.unwrap();
    let mut desc = DeviceDesc::new(instance.clone(), physical, raw.clone()).with_supported(supported);
    if supported.enabled().contains(EnabledFeatures::TIMELINE_SEMAPHORE) {
        // SAFETY: one queue of the family was asked for.
        desc = desc.with_queue(unsafe { raw.get_device_queue(family, 0) }, family);
    }
    let queues = desc.queues.len();
    // SAFETY: the handles belong together; what is supported was enabled.
    let device = unsafe { Device::new(desc) }.unwrap();
    assert_eq!(device.properties().queues.len(), queues);
    assert_eq!(device.descriptor_model(), gpu.device().descriptor_model());
    drop(device);
    // SAFETY: created above; nothing of it is left.
    unsafe { raw.destroy_device(None) };
}

fn a_device_is_created_with_what_is_supported(gpu: &Vulkan) {
    create(gpu, &mut supported(gpu), vk::DeviceCreateInfo::default());
}

fn what_is_used_is_merged_into_structures_that_the_application_chains_itself(gpu: &Vulkan) {
    let minor = vk::api_version_minor(gpu.fixture().headless().api_version());
    let mut supported = supported(gpu);
    let uses_timelines = supported.enabled().contains(EnabledFeatures::TIMELINE_SEMAPHORE);
    let mut plain = vk::PhysicalDeviceFeatures::default();
    let mut core = vk::PhysicalDeviceFeatures2::default();
    let mut timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
    let mut vulkan_11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut vulkan_12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut vulkan_13 = vk::PhysicalDeviceVulkan13Features::default();
    // In every version, those of versions that the application did not ask for as well: they stay as they are.
    supported.merge_into(&mut vulkan_11);
    supported.merge_into(&mut vulkan_12);
    supported.merge_into(&mut vulkan_13);
    assert_eq!(vulkan_12.timeline_semaphore == vk::TRUE, minor >= 2 && uses_timelines);
    let mut info = vk::DeviceCreateInfo::default();
    if minor == 0 {
        supported.merge_into(&mut plain);
        info = info.enabled_features(&plain);
    } else {
        supported.merge_into(&mut core);
        info = info.push_next(&mut core);
    }
    match minor {
        0 => {}
        1 if uses_timelines => {
            supported.merge_into(&mut timelines);
            assert_eq!(timelines.timeline_semaphore, vk::TRUE);
            info = info.push_next(&mut timelines);
        }
        1 => {}
        2 => info = info.push_next(&mut vulkan_11).push_next(&mut vulkan_12),
        _ => info = info.push_next(&mut vulkan_11).push_next(&mut vulkan_12).push_next(&mut vulkan_13),
    }
    // The validation layer reports a structure that is there twice, and one beside the structure of a version.
    create(gpu, &mut supported, info);
}

fn robust_access_that_the_application_enables_is_noticed(gpu: &Vulkan) {
    let robust = EnabledFeatures::ROBUST_BUFFER_ACCESS;
    let mut in_core = supported(gpu);
    assert!(!in_core.enabled().contains(robust));
    in_core.core_features().robust_buffer_access = vk::TRUE;
    assert!(in_core.enabled().contains(robust));

    let mut merged = supported(gpu);
    let mut own = vk::PhysicalDeviceFeatures::default().robust_buffer_access(true);
    merged.merge_into(&mut own);
    assert!(merged.enabled().contains(robust));
    assert_eq!(own.sampler_anisotropy, merged.core_features().sampler_anisotropy, "what is used is added");
}

fn of_what_is_supported_only_what_is_wanted_is_named(gpu: &Vulkan) {
    let headless = gpu.fixture().headless();
    let only = |wanted| {
        let (instance, version) = (headless.instance(), headless.api_version());
        // SAFETY: the physical device is of the instance, which was created for this version.
        let supported = unsafe { EnabledFeatures::supported(instance, headless.physical_device(), version) };
        supported.unwrap().only(wanted)
    };
    let nothing = only(EnabledFeatures::empty());
    assert_eq!((nothing.enabled(), nothing.extension_names().len()), (EnabledFeatures::empty(), 0));
    let all = only(EnabledFeatures::all());
    assert!(!all.enabled().contains(EnabledFeatures::DEBUG_UTILS), "that is the instance's");
    let mut names = all.extension_names();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.extension_names().len(), "each is named once");
    // Of no use without what it depends on.
    for dependent in [
        EnabledFeatures::PAGEABLE_DEVICE_LOCAL_MEMORY,
        EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF,
        EnabledFeatures::DESCRIPTOR_BUFFER,
        EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE,
    ] {
        assert_eq!(only(dependent).enabled(), EnabledFeatures::empty(), "{dependent:?}");
    }
    let timelines = only(EnabledFeatures::TIMELINE_SEMAPHORE);
    let named = timelines.enabled().contains(EnabledFeatures::TIMELINE_SEMAPHORE)
        && headless.api_version() < vk::API_VERSION_1_2;
    assert_eq!(timelines.extension_names().contains(&ash::khr::timeline_semaphore::NAME), named);
}
