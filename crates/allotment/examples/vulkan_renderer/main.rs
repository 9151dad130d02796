//! A renderer over its own Vulkan device: two textured triangles, one in front of the other, in a swapchain that is
//! resized while frames are in flight. Every picture is read back and compared with what it must be.
//!
//! ```sh
//! cargo run --example vulkan_renderer -p allotment-examples -- --validate --picture triangles.ppm
//! ```
//!
//! `--validate` runs it under the validation layer, and fails if that has a message. It needs no window: the surface is
//! one of `VK_EXT_headless_surface`, and where the instance has none, the program draws to images of its own.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "Vulkan's calls follow each other, as in any program"
)]

mod device;
mod picture;
mod scene;
mod target;

use core::error::Error;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use allotment::device::vulkan::{Device, EnabledFeatures};
use allotment::device::{MemoryDevice as _, QueueIndex, TimelinePoint, TimelineValue};
use allotment::upload::ReadbackTicket;
use allotment::{Alignment, Gpu, GpuDesc};
use ash::vk;

use device::Vulkan;
use scene::Scene;
use target::{Acquired, Target, whole};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const QUEUE: QueueIndex = QueueIndex(0);
const FRAMES: u64 = 60;
const SIZES: [vk::Extent2D; 2] =
    [vk::Extent2D { width: 320, height: 240 }, vk::Extent2D { width: 200, height: 256 }];

/// A picture that the GPU writes to readback memory.
struct Coming {
    frame: u64,
    extent: vk::Extent2D,
    format: vk::Format,
    ticket: ReadbackTicket,
}

fn main() -> Outcome {
    let (mut validate, mut path) = (false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--validate" => validate = true,
            "--picture" => path = Some(PathBuf::from(arguments.next().ok_or("--picture takes a path")?)),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let (device, vulkan) = device::open(validate)?;
    let messages = Arc::clone(&vulkan.messages);
    let (extent, last) = run(device, &vulkan)?;
    // The instance is destroyed here, after all that was made with it.
    drop(vulkan);
    if let Some(path) = path {
        picture::write(&path, extent, &last)?;
    }
    match messages.load(Relaxed) {
        0 => Ok(()),
        count => Err(format!("the validation layer had {count} messages").into()),
    }
}

/// Draws all frames, checks them, and returns the last picture.
fn run(device: Device, vulkan: &Arc<Vulkan>) -> Outcome<(vk::Extent2D, Vec<[u8; 4]>)> {
    let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    println!(
        "device: {}; {}; names {} the validation layer",
        device.properties().name,
        if vulkan.surface.is_some() { "a swapchain" } else { "images of its own, for want of a surface" },
        if device.enabled().contains(EnabledFeatures::DEBUG_UTILS) { "reach" } else { "do not reach" },
    );
    let mut target = Target::new(&gpu, vulkan, SIZES[0], None)?;
    let scene = Scene::new(&gpu, target.format)?;
    let (mut coming, mut last, mut compared) = (VecDeque::new(), Vec::new(), 0);

    for number in 0..FRAMES {
        // The size changes while three frames are in flight. A program with a window does so when that says so.
        if number == FRAMES / 2 {
            target.resize(&gpu, vulkan, SIZES[1])?;
        }
        let frame = gpu.begin_frame()?; // waits while three frames are in flight
        if coming.len() == gpu.desc().frames_in_flight.get() {
            compared += coming.pop_front().map_or(Ok(0), |oldest| check(&gpu, &oldest, &mut last))?;
        }
        let slot = frame.slot();
        let Some(image) = target.acquire(number, scene.objects.acquired[slot])? else {
            target.resize(&gpu, vulkan, target.extent)?;
            continue;
        };

        // The GPU has completed the frame that read this slot's uniforms.
        let view = picture::view(number, target.extent);
        scene.uniforms[slot].write(0, &view.map(f32::to_ne_bytes).concat())?;
        let mut readback = gpu.readback()?;
        let bytes = 4 * u64::from(target.extent.width * target.extent.height);
        let ticket = readback.allocate(bytes, Alignment::new(16)?)?;

        let commands = frame.command_allocator(QUEUE)?;
        let buffer = commands.next()?;
        // SAFETY: the command buffer is of the device, and what it uses is alive until it has completed.
        unsafe {
            let begin =
                vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            device.raw().begin_command_buffer(buffer, &begin)?;
            draw(device.raw(), buffer, &scene, &target, (image.index, slot));
            copy(device.raw(), buffer, &target, image.index, (*readback.buffer(), ticket.offset()));
            device.raw().end_command_buffer(buffer)?;
        }
        // Submits pending uploads first. The submission waits for them.
        let point = frame.submit(QUEUE, |queue, waits| submit(&device, queue, waits, &image, buffer))?;
        readback.close(point);
        drop(readback);

        let queue = device.lock_queue(QUEUE).ok_or("there is one queue")?;
        let fits = target.present(*queue, &image)?;
        drop(queue);
        coming.push_back(Coming { frame: number, extent: target.extent, format: target.format, ticket });
        frame.end()?; // destroys what was dropped and is no longer in use
        if !fits {
            target.resize(&gpu, vulkan, target.extent)?;
        }
    }

    gpu.wait_idle()?;
    target.finish_presenting(&device)?;
    let extent = target.extent;
    for coming in coming {
        compared += check(&gpu, &coming, &mut last)?;
    }
    println!("{FRAMES} frames, {compared} pixels as they must be");
    Ok((extent, last))
}

/// Submits the commands of a frame, in a way that [`Device::submit_commands`] does not have: with the semaphores of a
/// swapchain.
fn submit(
    device: &Device,
    queue: QueueIndex,
    waits: &[TimelinePoint],
    image: &Acquired,
    commands: vk::CommandBuffer,
) -> Result<TimelineValue, vk::Result> {
    let all = vk::PipelineStageFlags2::ALL_COMMANDS;
    let drawing = vk::PipelineStageFlags2::COLOR_ATTACHMENT_OUTPUT;
    let on = |semaphore, value, stages| {
        vk::SemaphoreSubmitInfo::default().semaphore(semaphore).value(value).stage_mask(stages)
    };
    // Other submissions to the queue wait meanwhile.
    let guard = device.lock_queue(queue).ok_or(vk::Result::ERROR_UNKNOWN)?;
    let timeline = |queue| device.timeline(queue).ok_or(vk::Result::ERROR_UNKNOWN);
    let mut waiting = Vec::new();
    for point in waits {
        waiting.push(on(timeline(point.queue)?, point.value.0, all));
    }
    // Allotment learns from the queue's timeline when the commands are completed.
    let mut signalled = vec![on(timeline(queue)?, guard.next_value().0, all)];
    if let Some((acquired, drawn)) = image.semaphores {
        waiting.push(on(acquired, 0, drawing));
        signalled.push(on(drawn, 0, all));
    }
    let commands = [vk::CommandBufferSubmitInfo::default().command_buffer(commands)];
    let info = vk::SubmitInfo2::default()
        .wait_semaphore_infos(&waiting)
        .command_buffer_infos(&commands)
        .signal_semaphore_infos(&signalled);
    // SAFETY: the commands are recorded, and what they use is alive until they have completed; the timeline is signalled
    // with the next value, once.
    unsafe {
        device.raw().queue_submit2(*guard, &[info], vk::Fence::null())?;
        Ok(guard.submitted())
    }
}

/// Records the drawing of the scene to an image of the target.
///
/// # Safety
///
/// The command buffer is being recorded, and everything is of its device.
unsafe fn draw(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    scene: &Scene,
    target: &Target,
    (index, slot): (usize, usize),
) {
    use vk::{
        AccessFlags2 as Access, ImageAspectFlags as Aspect, ImageLayout as Layout,
        PipelineStageFlags2 as Stage,
    };

    let tests = Stage::EARLY_FRAGMENT_TESTS | Stage::LATE_FRAGMENT_TESTS;
    let barriers = [
        // What it had is not needed. Frames before drew to it, and copied from it.
        barrier(target.images[index], Aspect::COLOR)
            .old_layout(Layout::UNDEFINED)
            .src_stage_mask(Stage::COLOR_ATTACHMENT_OUTPUT | Stage::COPY)
            .new_layout(Layout::COLOR_ATTACHMENT_OPTIMAL)
            .dst_stage_mask(Stage::COLOR_ATTACHMENT_OUTPUT)
            .dst_access_mask(Access::COLOR_ATTACHMENT_WRITE),
        // All frames use the same.
        barrier(target.depth.handle(), Aspect::DEPTH)
            .old_layout(Layout::UNDEFINED)
            .src_stage_mask(tests)
            .src_access_mask(Access::DEPTH_STENCIL_ATTACHMENT_WRITE)
            .new_layout(Layout::DEPTH_ATTACHMENT_OPTIMAL)
            .dst_stage_mask(tests)
            .dst_access_mask(Access::DEPTH_STENCIL_ATTACHMENT_READ | Access::DEPTH_STENCIL_ATTACHMENT_WRITE),
    ];
    let attachment = |view, layout, store, clear_value| {
        vk::RenderingAttachmentInfo::default()
            .image_view(view)
            .image_layout(layout)
            .load_op(vk::AttachmentLoadOp::CLEAR)
            .store_op(store)
            .clear_value(clear_value)
    };
    let (view, depth_view) = (target.objects.views[index], target.objects.depth_view);
    let background = vk::ClearValue { color: vk::ClearColorValue { float32: picture::BACKGROUND } };
    let far = vk::ClearValue { depth_stencil: vk::ClearDepthStencilValue { depth: 1.0, stencil: 0 } };
    let (store, discard) = (vk::AttachmentStoreOp::STORE, vk::AttachmentStoreOp::DONT_CARE);
    let colors = [attachment(view, Layout::COLOR_ATTACHMENT_OPTIMAL, store, background)];
    let depth = attachment(depth_view, Layout::DEPTH_ATTACHMENT_OPTIMAL, discard, far);
    let area = vk::Rect2D { offset: vk::Offset2D::default(), extent: target.extent };
    let rendering = vk::RenderingInfo::default()
        .render_area(area)
        .layer_count(1)
        .color_attachments(&colors)
        .depth_attachment(&depth);
    let (width, height) = (target.extent.width as f32, target.extent.height as f32);
    let viewport = vk::Viewport { width, height, max_depth: 1.0, ..Default::default() };
    let point = vk::PipelineBindPoint::GRAPHICS;
    let sets = [scene.objects.sets[slot]];
    // SAFETY: the caller's promise.
    unsafe {
        device
            .cmd_pipeline_barrier2(commands, &vk::DependencyInfo::default().image_memory_barriers(&barriers));
        device.cmd_begin_rendering(commands, &rendering);
        device.cmd_bind_pipeline(commands, point, scene.objects.pipeline);
        device.cmd_bind_descriptor_sets(commands, point, scene.objects.layout, 0, &sets, &[]);
        device.cmd_set_viewport(commands, 0, &[viewport]);
        device.cmd_set_scissor(commands, 0, &[area]);
        device.cmd_bind_vertex_buffers(commands, 0, &[scene.vertices.handle()], &[0]);
        device.cmd_draw(commands, 6, 1, 0, 0);
        device.cmd_end_rendering(commands);
    }
}

/// Records the copy of the drawn image to readback memory. Afterwards the image can be presented.
///
/// # Safety
///
/// As of [`draw`].
unsafe fn copy(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    target: &Target,
    index: usize,
    (buffer, offset): (vk::Buffer, u64),
) {
    use vk::{AccessFlags2 as Access, ImageLayout as Layout, PipelineStageFlags2 as Stage};

    let image = target.images[index];
    let drawn = [barrier(image, vk::ImageAspectFlags::COLOR)
        .old_layout(Layout::COLOR_ATTACHMENT_OPTIMAL)
        .src_stage_mask(Stage::COLOR_ATTACHMENT_OUTPUT)
        .src_access_mask(Access::COLOR_ATTACHMENT_WRITE)
        .new_layout(Layout::TRANSFER_SRC_OPTIMAL)
        .dst_stage_mask(Stage::COPY)
        .dst_access_mask(Access::TRANSFER_READ)];
    let shown = [barrier(image, vk::ImageAspectFlags::COLOR)
        .old_layout(Layout::TRANSFER_SRC_OPTIMAL)
        .src_stage_mask(Stage::COPY)
        .new_layout(Layout::PRESENT_SRC_KHR)];
    // So that the CPU sees what the GPU wrote.
    let visible = [vk::MemoryBarrier2::default()
        .src_stage_mask(Stage::COPY)
        .src_access_mask(Access::TRANSFER_WRITE)
        .dst_stage_mask(Stage::HOST)
        .dst_access_mask(Access::HOST_READ)];
    let after = vk::DependencyInfo::default().memory_barriers(&visible);
    // A layout for presentation exists only with a swapchain.
    let after = if target.is_presented() { after.image_memory_barriers(&shown) } else { after };
    let layers = vk::ImageSubresourceLayers {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        layer_count: 1,
        ..Default::default()
    };
    let region = vk::BufferImageCopy {
        buffer_offset: offset,
        image_subresource: layers,
        image_extent: vk::Extent3D { width: target.extent.width, height: target.extent.height, depth: 1 },
        ..Default::default()
    };
    // SAFETY: the caller's promise.
    unsafe {
        device.cmd_pipeline_barrier2(commands, &vk::DependencyInfo::default().image_memory_barriers(&drawn));
        device.cmd_copy_image_to_buffer(commands, image, Layout::TRANSFER_SRC_OPTIMAL, buffer, &[region]);
        device.cmd_pipeline_barrier2(commands, &after);
    }
}

fn barrier(image: vk::Image, aspect: vk::ImageAspectFlags) -> vk::ImageMemoryBarrier2<'static> {
    vk::ImageMemoryBarrier2::default()
        .image(image)
        .subresource_range(whole(aspect))
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
}

/// Reads a picture, compares it, and keeps it as the last. Returns the number of pixels that were compared.
fn check(gpu: &Gpu<Device>, coming: &Coming, last: &mut Vec<[u8; 4]>) -> Outcome<usize> {
    let mut bytes = vec![0; coming.ticket.size() as usize];
    gpu.readback()?.read(&coming.ticket, &mut bytes)?;
    let is_reversed = coming.format == vk::Format::B8G8R8A8_UNORM;
    let pixel = |bytes: &[u8]| {
        if is_reversed {
            [bytes[2], bytes[1], bytes[0], bytes[3]]
        } else {
            [bytes[0], bytes[1], bytes[2], bytes[3]]
        }
    };
    *last = bytes.chunks_exact(4).map(pixel).collect();
    picture::check(coming.frame, coming.extent, last)
}
