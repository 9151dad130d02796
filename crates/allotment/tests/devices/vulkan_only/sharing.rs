//! Memory that is shared as file descriptors.

use std::os::fd::{AsFd as _, OwnedFd};

use allotment::device::vulkan::{BufferInfo, EnabledFeatures, ImageInfo, MemoryOptions};
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice as _, DescriptionError, DeviceError, ImageDesc, ImageDevice as _,
    MemoryDesc, MemoryDevice as _, QueueIndex, RangeBinding,
};
use allotment::memory::names::ShortName;
use allotment::memory::{ResourceError, Transfer};
use allotment::{Alignment, AllocationError, MemoryUsage, PoolDesc, Requirements};
use ash::vk;

use super::{Vulkan, allocator, wanted};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture as _, Outcome, Test, tests};
use crate::kinds::vulkan::VulkanFixture;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        memory_that_was_exported_and_imported_shows_the_same_bytes,
        memory_that_was_exported_as_a_dma_buf_shows_the_same_bytes,
        an_image_of_a_description_is_shared_or_refused,
        a_resource_that_was_not_described_for_shared_memory_is_refused_there,
        memory_that_is_shared_is_not_bound_to_a_reserved_buffer,
        descriptors_of_other_than_one_type_are_refused,
        memory_is_not_shared_where_that_is_not_enabled,
        an_import_of_two_handle_types_is_refused,
        an_import_that_fails_leaves_its_descriptor_open,
    ]
}

const OPAQUE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

const DMA_BUF: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;

const NO_SHARING: Outcome = Outcome::DoesNotApply("the device does not share buffers by descriptors");

/// True where buffers can be shared as descriptors of a type that is enabled.
fn shares_buffers(
    gpu: &Vulkan,
    handle_type: vk::ExternalMemoryHandleTypeFlags,
    enabled: EnabledFeatures,
) -> bool {
    let headless = gpu.fixture().headless();
    let info = vk::PhysicalDeviceExternalBufferInfo::default()
        .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST)
        .handle_type(handle_type);
    let mut answer = vk::ExternalBufferProperties::default();
    let device = headless.physical_device();
    // SAFETY: the physical device is of this instance.
    unsafe {
        headless.instance().get_physical_device_external_buffer_properties(device, &info, &mut answer);
    }
    let both = vk::ExternalMemoryFeatureFlags::EXPORTABLE | vk::ExternalMemoryFeatureFlags::IMPORTABLE;
    gpu.device().enabled().contains(enabled)
        && answer.external_memory_properties.external_memory_features.contains(both)
}

fn memory_that_was_exported_and_imported_shows_the_same_bytes(gpu: &Vulkan) -> Outcome {
    if !shares_buffers(gpu, OPAQUE, EnabledFeatures::EXTERNAL_MEMORY_FD) {
        return NO_SHARING;
    }
    const SIZE: u64 = 100_003;
    let allocator = allocator(gpu);
    let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16).unwrap();
    let info = BufferInfo::from(BufferDesc::new(SIZE)).with_external_handle_types(OPAQUE);
    let desc = wanted(MemoryUsage::GpuOnly);
    let exported = MemoryOptions::new().with_export_handle_types(OPAQUE);
    let one = allocator.with_memory_options(&exported).create_buffer(&info, &desc).unwrap();
    transfer.upload_to(&one, 0, &pattern(1, SIZE)).unwrap();

    let memory = allocator.location(one.allocation()).unwrap().memory;
    // SAFETY: live, and made to be exported so.
    let fd = unsafe { gpu.device().export_memory_fd(memory, OPAQUE) }.unwrap();
    // SAFETY: exported by this very device, from memory of the same size and type.
    let imported = unsafe { MemoryOptions::new().with_imported_fd(OPAQUE, fd) };
    let other = allocator.with_memory_options(&imported).create_buffer(&info, &desc).unwrap();
    let mut found = vec![0; SIZE as usize];
    transfer.download_from(&other, 0, &mut found).unwrap();
    assert_same(&found, &pattern(1, SIZE), "what the one has, the other shows");

    transfer.upload_to(&other, 7, &pattern(2, 5000)).unwrap();
    allocator.destroy_buffer(other).unwrap();
    transfer.download_from(&one, 0, &mut found).unwrap();
    assert_same(&found[7..5007], &pattern(2, 5000), "and the other way round, beyond the other's end");
    drop(transfer);
    allocator.destroy_buffer(one).unwrap();
    Outcome::Ran
}

fn memory_that_was_exported_as_a_dma_buf_shows_the_same_bytes(gpu: &Vulkan) -> Outcome {
    if !shares_buffers(gpu, DMA_BUF, EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF) {
        return Outcome::DoesNotApply("the device does not share buffers as dma-bufs");
    }
    const SIZE: u64 = 100_003;
    let allocator = allocator(gpu);
    let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16).unwrap();
    let info = BufferInfo::from(BufferDesc::new(SIZE)).with_external_handle_types(DMA_BUF);
    let exported = MemoryOptions::new().with_export_handle_types(DMA_BUF);
    let one =
        allocator.with_memory_options(&exported).create_buffer(&info, &wanted(MemoryUsage::GpuOnly)).unwrap();
    transfer.upload_to(&one, 0, &pattern(1, SIZE)).unwrap();

    let memory = allocator.location(one.allocation()).unwrap().memory;
    // SAFETY: live, and made to be exported so.
    let fd = unsafe { gpu.device().export_memory_fd(memory, DMA_BUF) }.unwrap();
    let types = gpu.device().memory_fd_types(DMA_BUF, fd.as_fd()).unwrap();
    let needs = gpu.device().buffer_requirements(&info).unwrap();
    let allowed = gpu.types().into_iter().find(|&t| types.contains(t) && needs.memory_types.contains(t));
    let memory_type = allowed.expect("a type for what this device exported itself");
    // SAFETY: exported by this very device, from memory of the same size, and of a type that it may have.
    let options = unsafe { MemoryOptions::new().with_imported_fd(DMA_BUF, fd) };
    let desc = MemoryDesc::new(memory_type, needs.size).with_options(Some(&options));
    let (memory, other) = gpu.device().create_dedicated_buffer(&info, &desc).unwrap();

    let to = gpu.buffer(gpu.visible_buffer_types()[0], SIZE);
    let copied = BufferCopy { from: &other, from_offset: 0, to: to.raw(), to_offset: 0, size: SIZE };
    gpu.run(&[copied]);
    assert_same(&to.memory().map().get(0..SIZE), &pattern(1, SIZE), "what the one has, the other shows");
    // SAFETY: live, and no queue uses it any more.
    unsafe { gpu.device().destroy_buffer(other) };
    // SAFETY: as above.
    unsafe { gpu.device().free_memory(memory) };
    drop(transfer);
    allocator.destroy_buffer(one).unwrap();
    Outcome::Ran
}

fn an_image_of_a_description_is_shared_or_refused(gpu: &Vulkan) {
    let allocator = allocator(gpu);
    let desc = ImageDesc::new(64, 64, gpu.fixture().image_format());
    for handle_type in [OPAQUE, DMA_BUF, OPAQUE | DMA_BUF] {
        let info = ImageInfo::from(desc).with_external_handle_types(handle_type);
        let options = MemoryOptions::new().with_export_handle_types(handle_type);
        // Whether it can be is the device's business; the validation layer knows whether it was asked.
        if let Ok(image) =
            allocator.with_memory_options(&options).create_image(&info, &wanted(MemoryUsage::GpuOnly))
        {
            allocator.destroy_image(image).unwrap();
        }
    }
}

fn a_resource_that_was_not_described_for_shared_memory_is_refused_there(gpu: &Vulkan) -> Outcome {
    if !shares_buffers(gpu, OPAQUE, EnabledFeatures::EXTERNAL_MEMORY_FD) {
        return NO_SHARING;
    }
    let allocator = allocator(gpu);
    let exported = MemoryOptions::new().with_export_handle_types(OPAQUE);
    let plain = BufferInfo::from(BufferDesc::new(4096));
    let image = ImageInfo::from(ImageDesc::new(8, 8, gpu.fixture().image_format()));
    let rule = DescriptionError::NotShared { memory: OPAQUE.as_raw(), resource: 0 };
    let refused = DeviceError::InvalidDescription(rule);

    let needs = gpu.device().buffer_requirements(&plain).unwrap();
    let image_needs = gpu.device().image_requirements(&image).unwrap();
    let either = Requirements { size: 1 << 16, alignment: Alignment::ONE, ..needs.or(image_needs) };
    let allocation =
        allocator.with_memory_options(&exported).allocate(&either, &MemoryUsage::GpuOnly.into()).unwrap();
    let made = allocator.create_aliasing_buffer(&allocation, 0, &plain);
    assert_eq!(made.err(), Some(ResourceError::Device { source: refused, name: ShortName::NONE }));
    let made = allocator.create_aliasing_image(&allocation, 0, &image);
    assert_eq!(made.err(), Some(ResourceError::Device { source: refused, name: ShortName::NONE }));
    let made =
        allocator.create_aliasing_buffer(&allocation, 0, &plain.with_external_handle_types(OPAQUE)).unwrap();
    // SAFETY: made above, and no queue knows it.
    unsafe { gpu.device().destroy_buffer(made) };
    allocator.free(allocation).unwrap();

    let made = allocator.with_memory_options(&exported).create_buffer(&plain, &wanted(MemoryUsage::GpuOnly));
    assert_eq!(
        made.err(),
        Some(ResourceError::Allocation(AllocationError::Device { source: refused, name: ShortName::NONE })),
        "a dedicated one too"
    );

    let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(OPAQUE);
    let usage = vk::BufferUsageFlags::TRANSFER_SRC;
    let raw = vk::BufferCreateInfo::default().size(64).usage(usage).push_next(&mut external);
    // SAFETY: a valid description, which lives as long as it is used.
    let raw = unsafe { BufferInfo::from_raw(raw) };
    let made =
        allocator.with_memory_options(&exported).create_buffer(&raw, &wanted(MemoryUsage::GpuOnly)).unwrap();
    allocator.destroy_buffer(made).unwrap();

    let memory_type = gpu.buffer_types()[0];
    let pool = allocator.with_memory_options(&exported).create_pool(PoolDesc::new([memory_type])).unwrap();
    let needs = Requirements { size: 4096, ..needs };
    let allocation = allocator.allocate(&needs, &MemoryUsage::GpuOnly.with_pool(&pool)).unwrap();
    let made = allocator.create_aliasing_buffer(&allocation, 0, &plain);
    assert_eq!(
        made.err(),
        Some(ResourceError::Device { source: refused, name: ShortName::NONE }),
        "a pool's memory is shared as well"
    );
    allocator.free(allocation).unwrap();
    allocator.destroy_pool(pool).unwrap();
    Outcome::Ran
}

fn memory_that_is_shared_is_not_bound_to_a_reserved_buffer(gpu: &Vulkan) -> Outcome {
    if !shares_buffers(gpu, OPAQUE, EnabledFeatures::EXTERNAL_MEMORY_FD) {
        return NO_SHARING;
    }
    let device = gpu.device();
    if !device.has_reserved_buffers() {
        return Outcome::DoesNotApply("the device has no reserved buffers");
    }
    let info = BufferInfo::from(BufferDesc::new(1 << 20));
    let shared = info.with_external_handle_types(OPAQUE);
    assert_eq!(device.create_reserved_buffer(&shared).map(|_| ()), Err(DeviceError::Unsupported));
    let (reserved, needs) = device.create_reserved_buffer(&info).unwrap();
    let memory_type = gpu.buffer_types()[0];
    let exported = MemoryOptions::new().with_export_handle_types(OPAQUE);
    let bind_and_free = |memory, expected| {
        let binding = |memory| RangeBinding { offset: 0, size: needs.alignment.get(), memory };
        // SAFETY: both are live and large enough, and no queue uses them.
        assert_eq!(unsafe { device.bind_ranges(&reserved, &[binding(Some((memory, 0)))]) }, expected);
        // SAFETY: as above.
        unsafe { device.bind_ranges(&reserved, &[binding(None)]) }.unwrap();
        // SAFETY: bound to nothing any more.
        unsafe { device.free_memory(memory) };
    };
    let desc = MemoryDesc::new(memory_type, needs.size);
    bind_and_free(device.allocate_memory(&desc).unwrap(), Ok(()));
    let rule = DescriptionError::NotShared { memory: OPAQUE.as_raw(), resource: 0 };
    let desc = MemoryDesc::new(memory_type, needs.size).with_options(Some(&exported));
    bind_and_free(device.allocate_memory(&desc).unwrap(), Err(DeviceError::InvalidDescription(rule)));
    // SAFETY: created above, and no queue uses it.
    unsafe { device.destroy_buffer(reserved) };
    Outcome::Ran
}

fn descriptors_of_other_than_one_type_are_refused(gpu: &Vulkan) {
    let file = std::fs::File::open("/dev/null").unwrap();
    let none = vk::ExternalMemoryHandleTypeFlags::empty();
    for handle_type in [none, OPAQUE, OPAQUE | DMA_BUF] {
        let refused = gpu.device().memory_fd_types(handle_type, file.as_fd());
        let (handle_types, allowed) = (handle_type.as_raw(), DMA_BUF.as_raw());
        assert_eq!(refused, Err(DeviceError::HandleType { handle_types, allowed }), "{handle_type:?}");
    }
}

fn an_import_of_two_handle_types_is_refused(gpu: &Vulkan) {
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let both = OPAQUE | DMA_BUF;
    // SAFETY: refused before the driver sees it.
    let options = unsafe { MemoryOptions::new().with_imported_fd(both, file) };
    let desc = MemoryDesc::new(gpu.buffer_types()[0], 64).with_options(Some(&options));
    let why = DeviceError::HandleType { handle_types: both.as_raw(), allowed: both.as_raw() };
    assert_eq!(gpu.device().allocate_memory(&desc), Err(why));
}

fn memory_is_not_shared_where_that_is_not_enabled(gpu: &Vulkan) -> Outcome {
    if gpu.device().enabled().contains(EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF) {
        return Outcome::DoesNotApply("everything that could be off is on");
    }
    let allocator = allocator(gpu);
    let options = MemoryOptions::new().with_export_handle_types(DMA_BUF);
    let wanted_options = MemoryUsage::GpuOnly.into();
    assert!(
        allocator.with_memory_options(&options).allocate(&Requirements::new(4096), &wanted_options).is_err()
    );
    let info = BufferInfo::from(BufferDesc::new(64)).with_external_handle_types(DMA_BUF);
    assert!(matches!(
        allocator.create_buffer(&info, &wanted(MemoryUsage::GpuOnly)),
        Err(ResourceError::Device { source: _, name: ShortName::NONE })
    ));
    Outcome::Ran
}

fn an_import_that_fails_leaves_its_descriptor_open(gpu: &Vulkan) -> Outcome {
    if !shares_buffers(gpu, OPAQUE, EnabledFeatures::EXTERNAL_MEMORY_FD) {
        return NO_SHARING;
    }
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    // SAFETY: refused before the driver sees it, since there is no such memory type.
    let options = unsafe { MemoryOptions::new().with_imported_fd(OPAQUE, file) };
    let nowhere = allotment::device::MemoryTypeIndex(31);
    let refused = gpu.device().allocate_memory(&MemoryDesc::new(nowhere, 64).with_options(Some(&options)));
    assert!(
        matches!(refused, Err(DeviceError::WrongMemoryType { memory_type, .. }) if memory_type == nowhere)
    );
    drop(options);
    Outcome::Ran
}
