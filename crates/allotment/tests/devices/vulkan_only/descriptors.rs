//! Descriptors beyond the trait: every type that Vulkan has, layouts, tables, samplers, and what is refused.

use allotment::descriptor::{
    CpuDescriptorHeap, CpuDescriptorHeapDesc, DescriptorError, TransientDescriptors,
};
use allotment::device::vulkan::{
    Descriptor, DescriptorModel, Device, DeviceDesc, EnabledFeatures, ImageInfo, TexelBuffer,
};
use allotment::device::{
    AddressMode, BorderColor, BufferDesc, BufferUse, CommandDevice as _, Compare, DescriptionError,
    DescriptionLimit, DescriptorDevice as _, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, DescriptorTypeReason, DeviceError, Filter, ImageDesc, QueueIndex, SamplerDesc,
    ShaderVisibleHeapType,
};
use allotment::gpu::GpuDesc;
use allotment::lifetime::SubmissionTracker;
use allotment::memory::reports::LeakHandler;
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use ash::vk;

use super::Vulkan;
use crate::fixture::{Outcome, Test, tests};
use crate::kinds::vulkan::VulkanFixture;
use crate::suite::descriptor_rig::{RESOURCES, Rig, STAGING};

/// Where the device has descriptors of either model.
pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        every_type_is_written_and_copied_and_its_neighbours_stay_what_they_are,
        a_layout_has_the_stride_that_the_limits_say,
        tables_begin_where_the_driver_can_bind_them,
        samplers_of_all_kinds_are_made,
        a_heap_says_how_it_is_bound,
        nulls_of_each_type_are_written,
        a_device_of_one_type_has_smaller_or_equal_slots,
    ]
}

/// Whatever the device has.
pub(super) fn anywhere() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        views_that_are_drawn_to_are_read_back,
        without_anything_enabled_only_staging_heaps_are_made,
        lists_of_types_that_mean_nothing_are_refused,
        queues_that_no_submission_can_name_are_refused,
        a_descriptor_of_a_type_that_the_device_was_created_without_is_refused,
        a_heap_without_the_buffer_that_it_needs_is_refused,
        anisotropy_needs_its_feature,
        static_samplers_are_bound_beside_the_heaps,
    ]
}

const NONE: Outcome = Outcome::DoesNotApply("the device has no descriptors that shaders index");

fn has_none(gpu: &Vulkan) -> bool {
    gpu.device().descriptor_model().is_none()
}

/// Another device over the same handles, with no queues.
fn again(gpu: &Vulkan, change: impl FnOnce(DeviceDesc) -> DeviceDesc) -> Result<Device, DeviceError> {
    let headless = gpu.fixture().headless();
    let (instance, physical, raw) =
        (headless.instance().clone(), headless.physical_device(), headless.raw().clone());
    let desc = DeviceDesc::new(instance, physical, raw)
        .with_api_version(headless.api_version())
        .with_enabled(gpu.device().enabled());
    // SAFETY: the handles are those of a device that outlives this one, and nothing more is named as enabled.
    unsafe { Device::new(change(desc)) }
}

fn wanted() -> AllocationOptions {
    AllocationOptions::new(MemoryUsage::GpuOnly)
}

fn view(gpu: &Vulkan, image: vk::Image, format: vk::Format) -> vk::ImageView {
    let range = vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .level_count(1)
        .layer_count(1);
    let info = vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(format)
        .subresource_range(range);
    // SAFETY: the image is live, and of this format.
    unsafe { gpu.device().raw().create_image_view(&info, None) }.unwrap()
}

fn every_type_is_written_and_copied_and_its_neighbours_stay_what_they_are(gpu: &Vulkan) -> Outcome {
    if has_none(gpu) {
        return NONE;
    }
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Ignore;
    let allocator = Allocator::new(gpu.device().clone(), desc).unwrap();
    let format = vk::Format::R8G8B8A8_UNORM;
    let mut image = ImageDesc::new(4, 4, format.as_raw().unsigned_abs());
    image.usage = vk::ImageUsageFlags::STORAGE.as_raw().into();
    let image = allocator.create_image(&ImageInfo::from(image), &wanted()).unwrap();
    let shown = view(gpu, *image.handle(), format);
    let usage = vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER
        | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER
        | vk::BufferUsageFlags::UNIFORM_BUFFER
        | vk::BufferUsageFlags::STORAGE_BUFFER
        | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    let buffer = BufferDesc::new(4096).with_usage(usage.as_raw().into()).into();
    let buffer = allocator.create_buffer(&buffer, &wanted()).unwrap();
    let info = vk::BufferViewCreateInfo::default().buffer(*buffer.handle()).format(format).range(256);
    // SAFETY: the buffer is live, and was made for texels.
    let texels = unsafe { gpu.device().raw().create_buffer_view(&info, None) }.unwrap();
    {
        let rig = Rig::new(gpu);
        let of = TexelBuffer { view: texels, buffer: buffer.handle(), range: 0..256, format };
        let device = gpu.device();
        let texture = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
        let others = [
            // SAFETY: all is live until the heaps are gone, was made for this, and no shader looks.
            unsafe { Descriptor::sampled_image(shown, texture) },
            // SAFETY: as above.
            unsafe { Descriptor::storage_image(shown) },
            // SAFETY: as above.
            unsafe { Descriptor::uniform_texel_buffer(device, of.clone()) },
            // SAFETY: as above.
            unsafe { Descriptor::storage_texel_buffer(device, of) },
            // SAFETY: as above.
            unsafe { Descriptor::buffer(device, buffer.handle(), 256..512, BufferUse::Constants) },
            // SAFETY: as above.
            unsafe { Descriptor::buffer(device, buffer.handle(), 512..516, BufferUse::ReadWrite) },
        ];
        let (staging, heap, cells) = (rig.heap(STAGING, 300), rig.heap(RESOURCES, 400), rig.cells(7, 3));
        for at in 0..300 {
            match at % 7 {
                0 => staging.write(at, &cells.descriptor(at % 3)),
                other => staging.write(at, &others[other as usize - 1]),
            }
        }
        staging.copy_to(0, &heap, 50, 300);
        for (at, other) in (0..).zip(&others) {
            heap.write(at, other);
        }
        let named: Vec<u32> = (0..300).step_by(7).map(|at| 50 + at).collect();
        let expected: Vec<u32> = (0..300).step_by(7).map(|at| cells.number(at % 3)).collect();
        assert_eq!(rig.read(&heap, &named), expected);
        // What was of one type becomes one of another, and back.
        staging.copy_to(0, &heap, 51, 1);
        staging.copy_to(1, &heap, 50, 1);
        assert_eq!(rig.read(&heap, &[51, 57]), [cells.number(0), cells.number(1)]);
    }
    // SAFETY: no descriptor names it any more.
    unsafe { gpu.device().raw().destroy_buffer_view(texels, None) };
    // SAFETY: as above.
    unsafe { gpu.device().raw().destroy_image_view(shown, None) };
    allocator.destroy_buffer(buffer).unwrap();
    allocator.destroy_image(image).unwrap();
    Outcome::Ran
}

fn a_layout_has_the_stride_that_the_limits_say(gpu: &Vulkan) -> Outcome {
    let device = gpu.device();
    let Some(functions) = device.descriptor_buffer_functions() else {
        return Outcome::DoesNotApply("the device has no descriptor buffers");
    };
    let limits = device.descriptor_limits();
    for kind in ShaderVisibleHeapType::ALL {
        let stride = u64::from(limits.stride(kind.into()));
        for count in [1, 2, 3, 100, 4096] {
            let layout = device.descriptor_set_layout(kind, count).unwrap();
            // SAFETY: live, and made for descriptor buffers.
            let size = unsafe { functions.get_descriptor_set_layout_size(layout.handle()) };
            // SAFETY: as above.
            let lead = unsafe { functions.get_descriptor_set_layout_binding_offset(layout.handle(), 0) };
            let slots = lead + u64::from(count) * stride;
            assert!(size >= slots, "{kind:?}: {count} descriptors are {size} bytes");
        }
    }
    Outcome::Ran
}

fn tables_begin_where_the_driver_can_bind_them(gpu: &Vulkan) -> Outcome {
    if gpu.device().descriptor_model() != Some(DescriptorModel::Buffer) {
        return Outcome::DoesNotApply("the device has no descriptor buffers");
    }
    let mut said = vk::PhysicalDeviceDescriptorBufferPropertiesEXT::default();
    let mut answer = vk::PhysicalDeviceProperties2::default().push_next(&mut said);
    let headless = gpu.fixture().headless();
    // SAFETY: the physical device is of the instance, and has the extension.
    unsafe {
        headless.instance().get_physical_device_properties2(headless.physical_device(), &mut answer);
    };
    let alignment = said.descriptor_buffer_offset_alignment;
    let rig = Rig::new(gpu);
    let limits = gpu.device().descriptor_limits();
    for kind in ShaderVisibleHeapType::ALL {
        let heap = rig.heap(DescriptorHeapVisibility::ShaderVisible(kind), 1000);
        let base = heap.raw().binding_info().unwrap().address;
        assert_eq!(base % alignment, 0);
        let step = limits.shader_visible(kind).table_alignment;
        assert!(step.is_power_of_two());
        for table in (0..1000).step_by(step as usize) {
            assert_eq!(heap.raw().table_offset(table) % alignment, 0, "{kind:?}: {table}");
        }
        assert!(base <= gpu.device().descriptor_heap_address(heap.raw()).gpu);
    }
    Outcome::Ran
}

fn samplers_of_all_kinds_are_made(gpu: &Vulkan) -> Outcome {
    if has_none(gpu) {
        return NONE;
    }
    let rig = Rig::new(gpu);
    let usage = DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Sampler);
    let (staging, heap) =
        (rig.heap(DescriptorHeapVisibility::CpuOnly(DescriptorHeapType::Sampler), 64), rig.heap(usage, 64));
    let modes = [
        AddressMode::Repeat,
        AddressMode::MirroredRepeat,
        AddressMode::ClampToEdge,
        AddressMode::ClampToBorder,
    ];
    let compares = [
        Compare::Never,
        Compare::Less,
        Compare::Equal,
        Compare::LessOrEqual,
        Compare::Greater,
        Compare::NotEqual,
        Compare::GreaterOrEqual,
        Compare::Always,
    ];
    let borders = [BorderColor::TransparentBlack, BorderColor::OpaqueBlack, BorderColor::OpaqueWhite];
    let made: Vec<_> = (0..64)
        .map(|i| SamplerDesc {
            mag_filter: [Filter::Nearest, Filter::Linear][i % 2],
            min_filter: [Filter::Nearest, Filter::Linear][i / 2 % 2],
            mip_filter: [Filter::Nearest, Filter::Linear][i / 4 % 2],
            address: [modes[i % 4], modes[i / 4 % 4], modes[i / 16 % 4]],
            lod_bias: i as f32 / 64.0 - 0.5,
            min_lod: i as f32 / 8.0,
            max_lod: if i % 2 == 0 { 1000.0 } else { 10.0 },
            max_anisotropy: 1,
            compare: (i % 3 == 0).then_some(compares[i % 8]),
            border: borders[i % 3],
        })
        .map(|desc| gpu.device().create_sampler(&desc).unwrap())
        .collect();
    for (at, sampler) in (0..).zip(&made) {
        assert_ne!(sampler.handle(), vk::Sampler::null());
        // SAFETY: of this device, and destroyed after the heaps.
        staging.write(at, &unsafe { gpu.device().sampler_descriptor(sampler) });
    }
    staging.copy_to(0, &heap, 0, 64);
    heap.poison(10..20);
    heap.write_null(20..30);
    drop((staging, heap));
    for sampler in made {
        // SAFETY: no work reads through it.
        unsafe { gpu.device().destroy_sampler(sampler) };
    }
    Outcome::Ran
}

fn a_heap_says_how_it_is_bound(gpu: &Vulkan) -> Outcome {
    let Some(model) = gpu.device().descriptor_model() else { return NONE };
    let rig = Rig::new(gpu);
    for kind in ShaderVisibleHeapType::ALL {
        let usage = DescriptorHeapVisibility::ShaderVisible(kind);
        let (heap, staging) =
            (rig.heap(usage, 10), rig.heap(DescriptorHeapVisibility::CpuOnly(kind.into()), 10));
        let (heap, staging) = (heap.raw(), staging.raw());
        assert_eq!((heap.usage(), heap.capacity()), (usage, 10));
        assert_eq!(heap.binding_info().is_some(), model == DescriptorModel::Buffer);
        assert_eq!(heap.set().is_some(), model == DescriptorModel::Sets);
        assert!(heap.layout().is_some());
        assert!(staging.binding_info().is_none() && staging.set().is_none() && staging.layout().is_none());
        let most = gpu.device().descriptor_limits().shader_visible(kind).max_capacity;
        for wrong in [0, most.saturating_add(1)].into_iter().filter(|&count| count == 0 || count > most) {
            let refused = gpu.device().descriptor_set_layout(kind, wrong).err();
            let limit = DescriptionLimit::DescriptorHeapCapacity;
            let why = if wrong == 0 {
                DescriptionError::ZeroDescriptors
            } else {
                DescriptionError::AboveLimit { limit, requested: wrong.into(), most: most.into() }
            };
            assert_eq!(refused, Some(why.into()), "{kind:?}: {wrong}");
        }
    }
    Outcome::Ran
}

fn nulls_of_each_type_are_written(gpu: &Vulkan) -> Outcome {
    if has_none(gpu) {
        return NONE;
    }
    let rig = Rig::new(gpu);
    let (staging, heap, cells) = (rig.heap(STAGING, 20), rig.heap(RESOURCES, 20), rig.cells(1, 1));
    let types = gpu.device().descriptor_types();
    let nulls: Vec<_> = types.iter().map(|&ty| Descriptor::null(ty).unwrap()).collect();
    assert!(nulls.iter().all(|null| gpu.device().can_write(null)));
    for (at, null) in (0..).zip(&nulls) {
        staging.write(at, null);
        heap.write(10 + at, null);
    }
    staging.copy_to(0, &heap, 0, nulls.len() as u32);
    heap.write(19, &cells.descriptor(0));
    if gpu.device().enabled().contains(EnabledFeatures::NULL_DESCRIPTOR) {
        // Storage buffers are the first type, and what the reader reads.
        assert_eq!(rig.read(&heap, &[0, 10, 19]), [0, 0, 1]);
    }
    Outcome::Ran
}

fn a_device_of_one_type_has_smaller_or_equal_slots(gpu: &Vulkan) -> Outcome {
    if has_none(gpu) {
        return NONE;
    }
    let all = gpu.device().descriptor_limits().stride(DescriptorHeapType::Resource);
    for ty in gpu.device().descriptor_types() {
        let model = gpu.device().descriptor_model().unwrap();
        let one = again(gpu, |desc| desc.with_descriptor_types([*ty]).with_descriptor_model(model)).unwrap();
        assert_eq!(one.descriptor_types(), [*ty]);
        for other in gpu.device().descriptor_types() {
            let null = Descriptor::null(*other).unwrap();
            assert_eq!(one.can_write(&null), other == ty, "{ty:?}: {other:?}");
        }
        let limits = one.descriptor_limits();
        assert!(limits.stride(DescriptorHeapType::Resource) <= all, "{ty:?}");
        assert!(limits.resources.max_capacity > 0);
    }
    Outcome::Ran
}

fn a_descriptor_of_a_type_that_the_device_was_created_without_is_refused(gpu: &Vulkan) {
    let (listed, other) = (vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::SAMPLED_IMAGE);
    let device = again(gpu, |desc| desc.with_descriptor_types([listed])).unwrap();
    let allocator = std::sync::Arc::new(Allocator::new(device.clone(), AllocatorDesc::default()).unwrap());
    let tracker = SubmissionTracker::new(device).unwrap();
    let desc = CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource).with_page_size(64);
    let heap = CpuDescriptorHeap::new(&allocator, &tracker, desc).unwrap();
    let mut slot = heap.allocate(1).unwrap();
    let null = |ty| Descriptor::null(ty).unwrap();
    assert_eq!(heap.write(&mut slot, 0, &null(other)), Err(DescriptorError::TypeNotListed));
    assert_eq!(heap.write(&mut slot, 0, &null(listed)), Ok(()));
    heap.free(slot).unwrap();
}

fn views_that_are_drawn_to_are_read_back(gpu: &Vulkan) {
    use ash::vk::Handle as _;
    for kind in [DescriptorHeapType::RenderTarget, DescriptorHeapType::DepthStencil] {
        let desc = DescriptorHeapDesc { usage: DescriptorHeapVisibility::CpuOnly(kind), capacity: 8 };
        assert!(gpu.device().descriptor_heap_buffer(&desc).is_none());
        // SAFETY: it is in no buffer.
        let heap = unsafe { gpu.device().create_descriptor_heap(&desc, None) }.unwrap();
        for at in 0..8 {
            // The device only remembers it.
            let view = vk::ImageView::from_raw(u64::from(at) + 1);
            let descriptor = match kind {
                // SAFETY: never used.
                DescriptorHeapType::RenderTarget => unsafe { Descriptor::render_target(view) },
                // SAFETY: as above.
                _ => unsafe { Descriptor::depth_stencil(view) },
            };
            assert_eq!(Device::descriptor_kind(&descriptor), kind);
            // SAFETY: the slot is the heap's.
            unsafe { gpu.device().write_descriptor(&heap, at, &descriptor) };
        }
        // SAFETY: as above.
        unsafe { gpu.device().copy_descriptors(&heap, 0, &heap, 6, 2) };
        // SAFETY: as above.
        unsafe { gpu.device().write_null_descriptors(&heap, 2..3) };
        // SAFETY: as above.
        let found: Vec<_> = (0..8).map(|at| unsafe { heap.image_view(at) }.as_raw()).collect();
        assert_eq!(found, [1, 2, 0, 4, 5, 6, 1, 2]);
        // SAFETY: nothing uses it.
        unsafe { gpu.device().destroy_descriptor_heap(heap) };
    }
}

fn without_anything_enabled_only_staging_heaps_are_made(gpu: &Vulkan) {
    let enabled =
        gpu.device().enabled() - EnabledFeatures::DESCRIPTOR_BUFFER - EnabledFeatures::DESCRIPTOR_INDEXING;
    let change = |mut desc: DeviceDesc| {
        desc.enabled = enabled;
        desc
    };
    let bare = again(gpu, change).unwrap();
    assert_eq!(bare.descriptor_model(), None);
    for model in [DescriptorModel::Buffer, DescriptorModel::Sets] {
        let refused = again(gpu, |desc| change(desc).with_descriptor_model(model)).err();
        assert_eq!(refused, Some(DeviceError::Unsupported), "{model:?}");
    }
    for kind in ShaderVisibleHeapType::ALL {
        assert_eq!(bare.descriptor_limits().shader_visible(kind).max_capacity, 0);
        assert!(bare.descriptor_set_layout(kind, 1).is_err());
        let desc = DescriptorHeapDesc { usage: DescriptorHeapVisibility::ShaderVisible(kind), capacity: 1 };
        assert!(bare.descriptor_heap_buffer(&desc).is_none());
        // SAFETY: it is in no buffer.
        let refused = unsafe { bare.create_descriptor_heap(&desc, None) }.err();
        assert_eq!(refused, Some(DeviceError::Unsupported));
        let desc = DescriptorHeapDesc { usage: DescriptorHeapVisibility::CpuOnly(kind.into()), capacity: 5 };
        // SAFETY: as above.
        let heap = unsafe { bare.create_descriptor_heap(&desc, None) }.unwrap();
        // SAFETY: the slots are the heap's.
        unsafe { bare.write_null_descriptors(&heap, 0..5) };
        // SAFETY: as above.
        unsafe { bare.copy_descriptors(&heap, 0, &heap, 3, 2) };
        // SAFETY: nothing uses it.
        unsafe { bare.destroy_descriptor_heap(heap) };
    }
}

fn static_samplers_are_bound_beside_the_heaps(gpu: &Vulkan) {
    let (device, raw) = (gpu.device(), gpu.device().raw());
    let front = allotment::Gpu::new(device.clone(), GpuDesc::default()).unwrap();
    let nearest = SamplerDesc { mag_filter: Filter::Nearest, ..SamplerDesc::default() };
    let samplers = front.create_static_samplers(&[SamplerDesc::default(), nearest]).unwrap();
    assert_eq!(samplers.set().is_none(), device.descriptor_model() == Some(DescriptorModel::Buffer));
    let refused = front.create_static_samplers(&vec![nearest; 1 << 21]).unwrap_err();
    assert!(refused.to_string().contains("static samplers exceed"), "{refused}");
    let none = front.create_static_samplers(&[]).unwrap();

    let recording = front.record("binds them");
    let heaps = front.descriptors().ok();
    let transient = heaps.map(|heaps| heaps.resources().begin(&recording).unwrap());
    let first = transient.as_ref().map_or(none.layout(), |it| it.heap().layout().unwrap());
    let layouts = [first, samplers.layout(), none.layout()];
    let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
    // SAFETY: the layouts are live.
    let layout = unsafe { raw.create_pipeline_layout(&info, None) }.unwrap();
    let memory = device.create_command_allocator(QueueIndex(0)).unwrap();
    let commands = memory.next().unwrap();
    let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    // SAFETY: new.
    unsafe { raw.begin_command_buffer(commands, &begin) }.unwrap();
    let point = vk::PipelineBindPoint::COMPUTE;
    // SAFETY: recorded for a queue that computes, and the layout has the heap's first.
    unsafe {
        let heaps = transient.as_ref().map(TransientDescriptors::heap);
        device.cmd_bind_descriptor_heaps(commands, point, layout, 0, heaps.as_slice());
    }
    // SAFETY: as above, and then those of the samplers.
    unsafe { device.cmd_bind_static_samplers(commands, point, layout, 1, &samplers) };
    // SAFETY: as above.
    unsafe { device.cmd_bind_static_samplers(commands, point, layout, 2, &none) };
    // SAFETY: as above.
    unsafe { raw.end_command_buffer(commands) }.unwrap();
    let submitted = recording.submit(QueueIndex(0), |queue| {
        // SAFETY: recorded for the queue, and all of it lives until the point is reached.
        unsafe { device.submit_commands(queue, &[], &[commands]) }
    });
    drop(transient);
    drop((samplers, none));
    front.wait(submitted.unwrap()).unwrap();
    front.wait_idle().unwrap();
    assert_eq!(front.deletion_queue().statistics().pending, 0);
    // SAFETY: the queue has completed what used it.
    unsafe { raw.destroy_pipeline_layout(layout, None) };
}

fn lists_of_types_that_mean_nothing_are_refused(gpu: &Vulkan) {
    let (storage, image) = (vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::SAMPLED_IMAGE);
    for list in [vec![], vec![storage, storage], vec![storage, image, storage]] {
        let refused = again(gpu, |desc| desc.with_descriptor_types(list.clone())).err();
        assert_eq!(refused, Some(DescriptionError::DescriptorTypes.into()), "{list:?}");
    }
    for (ty, reason) in [
        (vk::DescriptorType::SAMPLER, DescriptorTypeReason::Sampler),
        (vk::DescriptorType::COMBINED_IMAGE_SAMPLER, DescriptorTypeReason::CombinedImageSampler),
        (vk::DescriptorType::INPUT_ATTACHMENT, DescriptorTypeReason::InputAttachment),
        (vk::DescriptorType::ACCELERATION_STRUCTURE_KHR, DescriptorTypeReason::AccelerationStructure),
        (vk::DescriptorType::INLINE_UNIFORM_BLOCK, DescriptorTypeReason::InlineUniformBlock),
        (vk::DescriptorType::STORAGE_BUFFER_DYNAMIC, DescriptorTypeReason::DynamicBuffer),
        (vk::DescriptorType::MUTABLE_EXT, DescriptorTypeReason::Unknown),
    ] {
        let refused = again(gpu, |desc| desc.with_descriptor_types([storage, ty])).err();
        let expected = DescriptionError::DescriptorType { ty: ty.as_raw(), reason };
        assert_eq!(refused, Some(expected.into()), "{ty:?}");
    }
}

fn queues_that_no_submission_can_name_are_refused(gpu: &Vulkan) {
    let null = vk::Queue::null();
    // Refused before the handles are used.
    let many = |mut desc: DeviceDesc| {
        desc.queues = vec![(null, 0); 257];
        desc
    };
    let limit = DescriptionLimit::Queues;
    let why = DescriptionError::AboveLimit { limit, requested: 257, most: 256 };
    assert_eq!(again(gpu, many).err(), Some(why.into()));
    let nowhere = again(gpu, |desc| desc.with_queue(null, 0).with_queue(null, 99)).err();
    assert_eq!(nowhere, Some(DeviceError::QueueCannotCopy { queue: QueueIndex(1) }));
}

fn a_heap_without_the_buffer_that_it_needs_is_refused(gpu: &Vulkan) -> Outcome {
    let usage = DescriptorHeapVisibility::ShaderVisible(ShaderVisibleHeapType::Resource);
    let desc = DescriptorHeapDesc { usage, capacity: 4 };
    let Some(model) = gpu.device().descriptor_model() else { return NONE };
    if model == DescriptorModel::Sets {
        return Outcome::DoesNotApply("heaps need no buffer");
    }
    // SAFETY: refused for the buffer that is missing.
    let refused = unsafe { gpu.device().create_descriptor_heap(&desc, None) }.err();
    assert_eq!(refused, Some(DescriptionError::DescriptorHeapBuffer.into()));
    Outcome::Ran
}

fn anisotropy_needs_its_feature(gpu: &Vulkan) {
    let desc = SamplerDesc { max_anisotropy: 2, ..SamplerDesc::default() };
    let made = gpu.device().create_sampler(&desc);
    assert_eq!(made.is_ok(), gpu.device().enabled().contains(EnabledFeatures::SAMPLER_ANISOTROPY));
    if let Ok(sampler) = made {
        // SAFETY: never used.
        unsafe { gpu.device().destroy_sampler(sampler) };
    }
    let plain = again(gpu, |mut desc| {
        desc.enabled -= EnabledFeatures::SAMPLER_ANISOTROPY;
        desc
    });
    let limit = DescriptionLimit::SamplerAnisotropy;
    let why = DescriptionError::AboveLimit { limit, requested: 2, most: 1 };
    assert_eq!(plain.unwrap().create_sampler(&desc).err(), Some(why.into()));
}
