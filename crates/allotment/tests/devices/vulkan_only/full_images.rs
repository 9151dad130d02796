//! Copies of whole images that no buffer can be filled from as simply: of depth and stencil, of several samples.

use allotment::MemoryUsage;
use allotment::device::vulkan::{BufferInfo, CommandAllocator, ImageInfo};
use allotment::device::{
    BufferDesc, BufferDevice as _, CommandDevice as _, CopyDirection, CopyError, DeviceError, ImageAspect,
    ImageCopyError, ImageDesc, ImageDevice as _, ImagePart, QueueIndex, Submission, TexelBlock, TexelLayout,
    TransferUsage,
};
use allotment::upload::{ImageWrite, UploadError, Uploader, UploaderDesc};
use ash::vk;

use super::{Vulkan, format};
use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Image, TexelCopy, WholeCopy};
use crate::kinds::vulkan::VulkanFixture;
use crate::suite::stage::Stage;

pub(super) fn all() -> Vec<Test<VulkanFixture>> {
    tests![VulkanFixture:
        depth_and_stencil_are_copied_whole,
        an_image_of_several_samples_is_copied_whole,
        each_plane_of_an_image_is_copied,
        an_image_that_holds_nothing_is_not_copied,
        an_image_is_not_left_in_no_layout,
        an_image_of_a_description_without_copies_is_not_copied,
        texels_that_no_copy_reaches_are_refused_before_they_are_staged,
        images_that_are_more_than_their_texels_are_not_copied_whole,
        a_buffer_says_which_copies_it_was_made_for,
        buffers_that_are_more_than_their_bytes_are_not_moved,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

/// Describes an image of 24 × 20 texels, 2 layers and some mip levels.
fn desc(of: vk::Format, mip_levels: u32, samples: u32, usage: vk::ImageUsageFlags) -> ImageDesc {
    let mut desc = ImageDesc::new(24, 20, format(of));
    (desc.mip_levels, desc.array_layers, desc.samples) = (mip_levels, 2, samples);
    desc.usage = usage.as_raw().into();
    desc
}

/// Runs commands on the first queue, and waits for them.
fn run(gpu: &Vulkan, memory: &mut CommandAllocator, record: impl FnOnce(&ash::Device, vk::CommandBuffer)) {
    let raw = gpu.device().raw();
    let commands = memory.next().unwrap();
    let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    // SAFETY: new.
    unsafe { raw.begin_command_buffer(commands, &begin) }.unwrap();
    record(raw, commands);
    // SAFETY: being recorded.
    unsafe { raw.end_command_buffer(commands) }.unwrap();
    // SAFETY: recorded for the queue, and waited for below.
    let value = unsafe { gpu.device().submit_commands(FIRST, &[], &[commands]) }.unwrap();
    gpu.wait(gpu.submitted(FIRST, value));
}

/// All of an image, for barriers and clears.
fn all_of(aspect_mask: vk::ImageAspectFlags) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask,
        base_mip_level: 0,
        level_count: vk::REMAINING_MIP_LEVELS,
        base_array_layer: 0,
        layer_count: vk::REMAINING_ARRAY_LAYERS,
    }
}

/// A layout, and the accesses of it that a barrier is about.
type Use = (vk::ImageLayout, vk::AccessFlags);

const NEW: Use = (vk::ImageLayout::UNDEFINED, vk::AccessFlags::empty());
const CLEARED: Use = (vk::ImageLayout::TRANSFER_DST_OPTIMAL, vk::AccessFlags::TRANSFER_WRITE);
const READ: Use = (vk::ImageLayout::TRANSFER_SRC_OPTIMAL, vk::AccessFlags::TRANSFER_READ);

fn change(
    raw: &ash::Device,
    commands: vk::CommandBuffer,
    image: vk::Image,
    aspects: vk::ImageAspectFlags,
    [before, after]: [Use; 2],
) {
    let barrier = vk::ImageMemoryBarrier::default()
        .image(image)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .old_layout(before.0)
        .new_layout(after.0)
        .src_access_mask(before.1)
        .dst_access_mask(after.1)
        .subresource_range(all_of(aspects));
    let stages = vk::PipelineStageFlags::ALL_COMMANDS;
    let none = vk::DependencyFlags::empty();
    // SAFETY: the commands are being recorded, and the image is live and in that layout.
    unsafe { raw.cmd_pipeline_barrier(commands, stages, stages, none, &[], &[], &[barrier]) };
}

/// Copies a whole image on the first queue.
fn copy_whole(
    gpu: &Vulkan,
    from: &Image<'_, VulkanFixture>,
    to: &Image<'_, VulkanFixture>,
    desc: ImageDesc,
    [before, after]: [vk::ImageLayout; 2],
) -> Result<(), DeviceError> {
    let info = ImageInfo::from(desc);
    let full_images =
        [WholeCopy::<VulkanFixture> { from: from.raw(), to: to.raw(), info: &info, before, after }];
    let work = Submission { full_images: &full_images, ..Submission::default() };
    gpu.wait(gpu.try_submit_all(FIRST, &work)?);
    Ok(())
}

const DEPTH: f32 = 0.25;
const STENCIL: u8 = 0xa7;

/// Clears an image, copies it, and reads an aspect of all texels of the copy's second mip level.
fn assert_depth_arrives(gpu: &Vulkan, of: vk::Format, aspects: vk::ImageAspectFlags) -> bool {
    let desc = desc(of, 3, 1, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT);
    if gpu.device().image_requirements(&desc.into()).is_err() {
        return false;
    }
    assert!(gpu.device().relocatable_image_info(&desc.into()).is_some(), "{of:?}");
    let (from, to) = (gpu.image(desc), gpu.image(desc));
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let attached = vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL;
    let tested = (
        attached,
        vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_READ | vk::AccessFlags::DEPTH_STENCIL_ATTACHMENT_WRITE,
    );
    run(gpu, &mut memory, |raw, commands| {
        change(raw, commands, *from.raw(), aspects, [NEW, CLEARED]);
        let value = vk::ClearDepthStencilValue { depth: DEPTH, stencil: STENCIL.into() };
        let ranges = [all_of(aspects)];
        // SAFETY: being recorded; the image is live and in this layout.
        unsafe { raw.cmd_clear_depth_stencil_image(commands, *from.raw(), CLEARED.0, &value, &ranges) };
        change(raw, commands, *from.raw(), aspects, [CLEARED, tested]);
    });
    let read_only = vk::ImageLayout::DEPTH_STENCIL_READ_ONLY_OPTIMAL;
    copy_whole(gpu, &from, &to, desc, [attached, read_only]).unwrap();
    // And on, so that both layouts are left and entered.
    let last = gpu.image(desc);
    copy_whole(gpu, &to, &last, desc, [read_only, attached]).unwrap();
    for (aspect, expected) in [
        (vk::ImageAspectFlags::DEPTH, DEPTH.to_ne_bytes().as_slice()),
        (vk::ImageAspectFlags::STENCIL, &[STENCIL]),
    ] {
        // Other depths are not the bytes of a number.
        let known = !of_other_depth(of) || aspect == vk::ImageAspectFlags::STENCIL;
        if aspects.contains(aspect) && known {
            let found = read_level(gpu, &mut memory, &last, aspects, aspect, [tested, READ], expected.len());
            let all = expected.iter().copied().cycle().take(found.len()).collect::<Vec<_>>();
            assert_same(&found, &all, (of, aspect));
        }
    }
    true
}

fn of_other_depth(of: vk::Format) -> bool {
    ![vk::Format::D32_SFLOAT, vk::Format::D32_SFLOAT_S8_UINT].contains(&of)
}

/// The bytes of one aspect of the second mip level, both layers. The image is in the first of the states again.
fn read_level(
    gpu: &Vulkan,
    memory: &mut CommandAllocator,
    image: &Image<'_, VulkanFixture>,
    aspects: vk::ImageAspectFlags,
    aspect_mask: vk::ImageAspectFlags,
    [now, read]: [Use; 2],
    bytes: usize,
) -> Vec<u8> {
    let down = gpu.buffer(gpu.two_way_type(), (12 * 10 * 2 * bytes) as u64);
    run(gpu, memory, |raw, commands| {
        change(raw, commands, *image.raw(), aspects, [now, read]);
        let region = vk::BufferImageCopy {
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask,
                mip_level: 1,
                base_array_layer: 0,
                layer_count: 2,
            },
            image_extent: vk::Extent3D { width: 12, height: 10, depth: 1 },
            ..Default::default()
        };
        // SAFETY: being recorded; both are live, and the image is in this layout.
        unsafe { raw.cmd_copy_image_to_buffer(commands, *image.raw(), read.0, *down.raw(), &[region]) };
        change(raw, commands, *image.raw(), aspects, [read, now]);
    });
    gpu.get(&down)
}

fn depth_and_stencil_are_copied_whole(gpu: &Vulkan) -> Outcome {
    let (depth, stencil) = (vk::ImageAspectFlags::DEPTH, vk::ImageAspectFlags::STENCIL);
    let formats = [
        (vk::Format::D16_UNORM, depth),
        (vk::Format::X8_D24_UNORM_PACK32, depth),
        (vk::Format::D32_SFLOAT, depth),
        (vk::Format::S8_UINT, stencil),
        (vk::Format::D16_UNORM_S8_UINT, depth | stencil),
        (vk::Format::D24_UNORM_S8_UINT, depth | stencil),
        (vk::Format::D32_SFLOAT_S8_UINT, depth | stencil),
    ];
    let ran = formats.map(|(of, aspects)| assert_depth_arrives(gpu, of, aspects));
    if ran.contains(&true) { Outcome::Ran } else { Outcome::DoesNotApply("the device has no depth buffers") }
}

const COLORS: [[u8; 4]; 2] = [[10, 20, 30, 255], [250, 0, 128, 64]];

fn an_image_of_several_samples_is_copied_whole(gpu: &Vulkan) -> Outcome {
    let color = vk::ImageAspectFlags::COLOR;
    let desc_of =
        |samples| desc(vk::Format::R8G8B8A8_UNORM, 1, samples, vk::ImageUsageFlags::COLOR_ATTACHMENT);
    if gpu.device().image_requirements(&desc_of(4).into()).is_err() {
        return Outcome::DoesNotApply("the device has no images of several samples");
    }
    let (from, to, resolved) = (gpu.image(desc_of(4)), gpu.image(desc_of(4)), gpu.image(desc_of(1)));
    let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
    let attached = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
    let drawn = (attached, vk::AccessFlags::COLOR_ATTACHMENT_READ | vk::AccessFlags::COLOR_ATTACHMENT_WRITE);
    run(gpu, &mut memory, |raw, commands| {
        change(raw, commands, *from.raw(), color, [NEW, CLEARED]);
        for (layer, value) in (0..).zip(COLORS) {
            let float32 = value.map(|channel| f32::from(channel) / 255.0);
            let range =
                vk::ImageSubresourceRange { base_array_layer: layer, layer_count: 1, ..all_of(color) };
            let value = vk::ClearColorValue { float32 };
            // SAFETY: being recorded; the image is live and in this layout.
            unsafe { raw.cmd_clear_color_image(commands, *from.raw(), CLEARED.0, &value, &[range]) };
        }
        change(raw, commands, *from.raw(), color, [CLEARED, drawn]);
    });
    copy_whole(gpu, &from, &to, desc_of(4), [attached, READ.0]).unwrap();
    run(gpu, &mut memory, |raw, commands| {
        change(raw, commands, *resolved.raw(), color, [NEW, CLEARED]);
        let part = vk::ImageSubresourceLayers {
            aspect_mask: color,
            mip_level: 0,
            base_array_layer: 0,
            layer_count: 2,
        };
        let region = vk::ImageResolve {
            src_subresource: part,
            dst_subresource: part,
            extent: vk::Extent3D { width: 24, height: 20, depth: 1 },
            ..Default::default()
        };
        let (from, to) = (*to.raw(), *resolved.raw());
        // SAFETY: being recorded; both are live and in these layouts.
        unsafe { raw.cmd_resolve_image(commands, from, READ.0, to, CLEARED.0, &[region]) };
    });
    let down = gpu.buffer(gpu.readback_type(), 2 * 24 * 20 * 4);
    let layer = |array_layer| TexelCopy::<VulkanFixture> {
        buffer: down.raw(),
        buffer_offset: u64::from(array_layer) * 24 * 20 * 4,
        row_pitch: 24 * 4,
        rows: 20,
        image: resolved.raw(),
        mip_level: 0,
        array_layer,
        origin: [0; 3],
        extent: [24, 20, 1],
        aspect: ImageAspect::Color,
        texels: TexelBlock::new(4).into(),
        direction: CopyDirection::OutOfImage,
        before: CLEARED.0,
        after: READ.0,
    };
    gpu.wait(gpu.submit_images(FIRST, &[], &[layer(0), layer(1)]));
    let expected = COLORS.map(|color| color.repeat(24 * 20)).concat();
    assert_same(&gpu.get(&down), &expected, "each sample of each layer");
    Outcome::Ran
}

/// Copies bytes between a buffer and all planes of an image of 24 × 20 texels.
fn copy_planes(
    raw: &ash::Device,
    commands: vk::CommandBuffer,
    (buffer, image): (vk::Buffer, vk::Image),
    planes: &[(vk::ImageAspectFlags, [u32; 2], u32)],
    direction: CopyDirection,
) {
    let mut buffer_offset = 0;
    for &(aspect_mask, [width, height], bytes) in planes {
        let region = vk::BufferImageCopy {
            buffer_offset,
            image_subresource: vk::ImageSubresourceLayers {
                aspect_mask,
                mip_level: 0,
                base_array_layer: 0,
                layer_count: 1,
            },
            image_extent: vk::Extent3D { width, height, depth: 1 },
            ..Default::default()
        };
        buffer_offset += u64::from(width * height * bytes);
        match direction {
            // SAFETY: being recorded; both are live, and the image is in this layout.
            CopyDirection::IntoImage => unsafe {
                raw.cmd_copy_buffer_to_image(commands, buffer, image, CLEARED.0, &[region]);
            },
            // SAFETY: as above.
            CopyDirection::OutOfImage => unsafe {
                raw.cmd_copy_image_to_buffer(commands, image, READ.0, buffer, &[region]);
            },
        }
    }
}

fn each_plane_of_an_image_is_copied(gpu: &Vulkan) -> Outcome {
    let [first, second, third] =
        [vk::ImageAspectFlags::PLANE_0, vk::ImageAspectFlags::PLANE_1, vk::ImageAspectFlags::PLANE_2];
    let half = [12, 10];
    let formats = [
        (vk::Format::G8_B8R8_2PLANE_420_UNORM, vec![(first, [24, 20], 1), (second, half, 2)]),
        (
            vk::Format::G8_B8_R8_3PLANE_420_UNORM,
            vec![(first, [24, 20], 1), (second, half, 1), (third, half, 1)],
        ),
        (vk::Format::G16_B16R16_2PLANE_422_UNORM, vec![(first, [24, 20], 2), (second, [12, 20], 4)]),
        (
            vk::Format::G8_B8_R8_3PLANE_444_UNORM,
            vec![(first, [24, 20], 1), (second, [24, 20], 1), (third, [24, 20], 1)],
        ),
    ];
    let mut ran = false;
    for (of, planes) in formats {
        let mut desc = desc(of, 1, 1, vk::ImageUsageFlags::SAMPLED);
        desc.array_layers = 1;
        if gpu.device().image_requirements(&desc.into()).is_err() {
            continue;
        }
        ran = true;
        assert!(gpu.device().relocatable_image_info(&desc.into()).is_some(), "{of:?}");
        let size = planes.iter().map(|(_, [width, height], bytes)| u64::from(width * height * bytes)).sum();
        let (from, to) = (gpu.image(desc), gpu.image(desc));
        let [up, down] = [(); 2].map(|()| gpu.buffer(gpu.two_way_type(), size));
        let bytes = pattern(of.as_raw() as u64, size);
        gpu.put(&up, 0, &bytes);
        let mut memory = gpu.device().create_command_allocator(FIRST).unwrap();
        let color = vk::ImageAspectFlags::COLOR;
        run(gpu, &mut memory, |raw, commands| {
            change(raw, commands, *from.raw(), color, [NEW, CLEARED]);
            copy_planes(raw, commands, (*up.raw(), *from.raw()), &planes, CopyDirection::IntoImage);
        });
        copy_whole(gpu, &from, &to, desc, [CLEARED.0, READ.0]).unwrap();
        run(gpu, &mut memory, |raw, commands| {
            copy_planes(raw, commands, (*down.raw(), *to.raw()), &planes, CopyDirection::OutOfImage);
        });
        assert_same(&gpu.get(&down), &bytes, of);
    }
    if ran { Outcome::Ran } else { Outcome::DoesNotApply("the device has no images with planes") }
}

/// A copy from one new image to another, which both hold nothing.
fn copied_between_new_ones(gpu: &Vulkan, states: [vk::ImageLayout; 2]) -> Result<(), DeviceError> {
    let desc = desc(vk::Format::R8G8B8A8_UNORM, 1, 1, vk::ImageUsageFlags::empty());
    copy_whole(gpu, &gpu.image(desc), &gpu.image(desc), desc, states)
}

fn an_image_that_holds_nothing_is_not_copied(gpu: &Vulkan) {
    for nothing in [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED] {
        let refused = copied_between_new_ones(gpu, [nothing, vk::ImageLayout::GENERAL]);
        assert_eq!(refused, Err(CopyError::States.into()), "{nothing:?}");
    }
}

fn an_image_of_a_description_without_copies_is_not_copied(gpu: &Vulkan) {
    let good = desc(vk::Format::R8G8B8A8_UNORM, 1, 1, vk::ImageUsageFlags::empty());
    let mut other = good;
    let usage = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT | vk::ImageUsageFlags::COLOR_ATTACHMENT;
    other.usage = usage.as_raw().into();
    let refused = copy_whole(gpu, &gpu.image(good), &gpu.image(good), other, [vk::ImageLayout::GENERAL; 2]);
    assert_eq!(refused, Err(CopyError::NotCopyable.into()));
}

fn an_image_is_not_left_in_no_layout(gpu: &Vulkan) {
    for none in [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED] {
        let refused = copied_between_new_ones(gpu, [vk::ImageLayout::GENERAL, none]);
        assert_eq!(refused, Err(CopyError::States.into()), "{none:?}");
    }
}

fn texels_that_no_copy_reaches_are_refused_before_they_are_staged(gpu: &Vulkan) {
    let stage = Stage::new(gpu);
    let uploader = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap();
    let refused =
        |raw: vk::ImageCreateInfo<'static>, texel: TexelBlock, write: ImageWrite<vk::ImageLayout>| {
            // SAFETY: nothing is pointed at, and each is valid on this device, as is asked below.
            let info = unsafe { ImageInfo::from_raw(raw) };
            let image = stage.memory.create_image(&info, &MemoryUsage::GpuOnly.with_name("image")).unwrap();
            let vk::Extent3D { width, height, depth } = raw.extent;
            let bytes =
                vec![7; (texel.row_bytes(width) * u64::from(texel.rows(height)) * u64::from(depth)) as usize];
            let done = uploader.write_image(&image, &write, &bytes);
            assert_eq!(uploader.statistics().staged_bytes, 0);
            match done {
                Err(UploadError::ImageCopy { error, name }) => {
                    assert_eq!(name.as_str(), "image");
                    error
                }
                other => panic!("{other:?}"),
            }
        };
    let usage = vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED;
    let color = vk::ImageUsageFlags::COLOR_ATTACHMENT;
    let plain = super::image_info(vk::ImageTiling::OPTIMAL).usage(usage);
    let part = ImagePart::default;
    let (rgba, whole) = (TexelBlock::new(4), || part().into());
    let depth = plain.format(vk::Format::D16_UNORM);
    let texels = TexelLayout::DepthStencil { depth: Some(TexelBlock::new(2)), stencil: None };
    let no_color = ImageCopyError::NoSuchAspect { aspect: ImageAspect::Color, texels };
    let color_of_it = part().with_aspect(ImageAspect::Color).into();
    assert_eq!(refused(depth, TexelBlock::new(2), color_of_it), no_color);
    let multisampled = plain.samples(vk::SampleCountFlags::TYPE_4).usage(usage | color);
    assert_eq!(refused(multisampled, rgba, whole()), ImageCopyError::Multisampled { samples: 4 });
    let sampled = plain.usage(vk::ImageUsageFlags::SAMPLED);
    let missing = TransferUsage::DST;
    assert_eq!(refused(sampled, rgba, whole()), ImageCopyError::MissingUsage { missing });
    let wide = TexelBlock::new(16);
    // SAFETY: the library knows the format.
    let wrong = unsafe { part().with_texel(wide) }.into();
    assert_eq!(refused(plain, wide, wrong), ImageCopyError::WrongTexel { expected: Some(rgba), found: wide });
    let queue = Uploader::new(&stage.memory, UploaderDesc::default()).unwrap().queues()[1];
    let undefined = ImageWrite::default().with_after(vk::ImageLayout::UNDEFINED);
    assert_eq!(refused(plain, rgba, undefined), ImageCopyError::States { queue });
    let square = vk::Extent3D { width: 16, height: 16, depth: 1 };
    let cube = plain.extent(square).array_layers(6).flags(vk::ImageCreateFlags::CUBE_COMPATIBLE);
    let seventh = part().with_array_layers(6..7).into();
    assert!(matches!(
        refused(cube, rgba, seventh),
        ImageCopyError::NoSuchSubresource { array_layers: 6, .. }
    ));
    uploader.submit().unwrap();
}

fn images_that_are_more_than_their_texels_are_not_copied_whole(gpu: &Vulkan) {
    let both = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let plain = super::image_info(vk::ImageTiling::OPTIMAL).usage(both);
    // SAFETY: never made; nothing is pointed at but what lives in this function.
    let info = |raw: vk::ImageCreateInfo<'static>| unsafe { ImageInfo::from_raw(raw) };
    let movable = |info: ImageInfo<'_>| gpu.device().relocatable_image_info(&info).is_some();
    let views = vk::ImageCreateFlags::MUTABLE_FORMAT | vk::ImageCreateFlags::CUBE_COMPATIBLE;
    let planes = plain.format(vk::Format::G8_B8R8_2PLANE_420_UNORM);
    for raw in [plain, plain.flags(views), plain.tiling(vk::ImageTiling::LINEAR), planes] {
        assert!(movable(info(raw)), "{raw:?}");
    }
    let transient = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT | vk::ImageUsageFlags::COLOR_ATTACHMENT;
    for raw in [
        plain.usage(vk::ImageUsageFlags::TRANSFER_SRC),
        plain.usage(vk::ImageUsageFlags::TRANSFER_DST),
        plain.usage(both | transient),
        plain.flags(vk::ImageCreateFlags::SPARSE_BINDING),
        plain.flags(vk::ImageCreateFlags::DISJOINT),
        planes.flags(vk::ImageCreateFlags::DISJOINT),
        plain.flags(vk::ImageCreateFlags::ALIAS),
        plain.flags(vk::ImageCreateFlags::PROTECTED),
        plain.format(vk::Format::UNDEFINED),
    ] {
        assert!(!movable(info(raw)), "{raw:?}");
    }
    let mut formats = vk::ImageFormatListCreateInfo::default();
    // SAFETY: never made; the chain lives.
    let chained = unsafe { ImageInfo::from_raw(plain.push_next(&mut formats)) };
    assert!(!movable(chained));
    let shared = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
    assert!(!movable(info(plain).with_external_handle_types(shared)));
    let mut attachment = ImageDesc::new(8, 8, format(vk::Format::R8G8B8A8_UNORM));
    attachment.usage = transient.as_raw().into();
    assert!(!movable(attachment.into()));
}

fn a_buffer_says_which_copies_it_was_made_for(gpu: &Vulkan) {
    let (src, dst) = (vk::BufferUsageFlags::TRANSFER_SRC, vk::BufferUsageFlags::TRANSFER_DST);
    let plain = vk::BufferCreateInfo::default().size(64).usage(vk::BufferUsageFlags::VERTEX_BUFFER);
    // SAFETY: never made; what is pointed at lives as long as the description.
    let info = |raw: vk::BufferCreateInfo<'static>| unsafe { BufferInfo::from_raw(raw) };
    let copies = |info: BufferInfo<'_>| gpu.device().buffer_transfer_usage(&info);
    assert_eq!(copies(info(plain)), TransferUsage::empty());
    assert_eq!(copies(info(plain.usage(src))), TransferUsage::SRC);
    assert_eq!(copies(info(plain.usage(dst))), TransferUsage::DST);
    assert_eq!(copies(info(plain.usage(src | dst))), TransferUsage::all());
    assert_eq!(copies(BufferDesc::new(64).into()), TransferUsage::all());
    // Chained flags replace the others, wherever in the chain they are.
    let mut flags =
        vk::BufferUsageFlags2CreateInfoKHR::default().usage(vk::BufferUsageFlags2KHR::TRANSFER_DST);
    let mut external = vk::ExternalMemoryBufferCreateInfo {
        p_next: (&raw mut flags).cast_const().cast(),
        ..Default::default()
    };
    let chained = plain.usage(src).push_next(&mut external);
    // SAFETY: as above.
    assert_eq!(copies(unsafe { BufferInfo::from_raw(chained) }), TransferUsage::DST);
}

fn buffers_that_are_more_than_their_bytes_are_not_moved(gpu: &Vulkan) {
    let both = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let plain = vk::BufferCreateInfo::default().size(64).usage(both);
    // SAFETY: never made; nothing is pointed at.
    let info = |raw: vk::BufferCreateInfo<'static>| unsafe { BufferInfo::from_raw(raw) };
    let movable = |info: BufferInfo<'_>| gpu.device().relocatable_buffer_info(&info).is_some();
    let vertices = vk::BufferUsageFlags::VERTEX_BUFFER;
    assert!(movable(info(plain)) && movable(info(plain.usage(both | vertices))));
    assert!(movable(BufferDesc::new(64).with_usage(vertices.as_raw().into()).into()));
    for raw in [
        plain.usage(vk::BufferUsageFlags::TRANSFER_SRC),
        plain.usage(vk::BufferUsageFlags::TRANSFER_DST),
        plain.usage(both | vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR),
        plain.flags(vk::BufferCreateFlags::SPARSE_BINDING),
        plain.flags(vk::BufferCreateFlags::PROTECTED),
    ] {
        assert!(!movable(info(raw)), "{raw:?}");
    }
    assert!(!movable(info(plain).with_external_handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD)));
}
