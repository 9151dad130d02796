//! A program with its own Vulkan device: uploads a texture, copies a part of it into a picture in each of a hundred
//! frames, and reads every picture back while three frames are in flight.
//!
//! ```sh
//! cargo run --example own_vulkan_device -p allotment-examples  # ALLOTMENT_VULKAN: a part of a device's name
//! ```
//!
//! `own_device` is all that Allotment needs of a program that has an instance and a device already.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "Vulkan's calls follow each other, as in any program"
)]

use core::error::Error;
use core::ffi::CStr;
use std::collections::VecDeque;
use std::sync::Arc;

use allotment::device::vulkan::{Device, DeviceDesc, EnabledFeatures};
use allotment::device::{ImageDesc, MemoryDevice as _, QueueIndex};
use allotment::upload::{ImageWrite, ReadbackTicket};
use allotment::{Alignment, Gpu, GpuDesc, MemoryUsage};
use ash::vk;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const QUEUE: QueueIndex = QueueIndex(0);
const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;
const TEXTURE: u32 = 256;
const PICTURE: u32 = 64;

/// The program's objects. Allotment keeps them alive, and drops them after everything that it created with them.
struct Vulkan {
    device: ash::Device,
    instance: ash::Instance,
    _entry: ash::Entry,
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: Allotment has destroyed what it made, and nothing else was made.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// Opens an instance and a device, and describes them to Allotment.
fn own_device() -> Outcome<Device> {
    // SAFETY: the loader is the system's, the descriptions are valid, and each handle is of the one before.
    unsafe {
        let entry = ash::Entry::load()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&info, None)?;

        let wanted = std::env::var("ALLOTMENT_VULKAN").unwrap_or_default();
        let has_name = |&device: &vk::PhysicalDevice| {
            let properties = instance.get_physical_device_properties(device);
            let name = properties.device_name_as_c_str().map(CStr::to_string_lossy);
            name.is_ok_and(|name| name.to_lowercase().contains(&wanted.to_lowercase()))
        };
        let devices = instance.enumerate_physical_devices()?;
        let physical_device = devices.into_iter().find(has_name).ok_or("there is no such device")?;
        let families = instance.get_physical_device_queue_family_properties(physical_device);
        let draws =
            |family: &vk::QueueFamilyProperties| family.queue_flags.contains(vk::QueueFlags::GRAPHICS);
        let family = families.iter().position(draws).ok_or("the device does not draw")? as u32;

        // All that Allotment can use of this device. Only timeline semaphores are needed; without the others there is
        // less: VK_EXT_memory_budget for what other programs leave, VK_EXT_memory_priority for what is evicted last.
        // An own extension, a swapchain's say, is added to the names, an own feature to `core_features` or the chain.
        let mut supported = EnabledFeatures::supported(&instance, physical_device, vk::API_VERSION_1_3)?;
        let extensions: Vec<_> = supported.extension_names().into_iter().map(CStr::as_ptr).collect();
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let info =
            vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&extensions);
        let device = instance.create_device(physical_device, &supported.push_features(info), None)?;
        let queue = device.get_device_queue(family, 0);

        let owner = Vulkan { device: device.clone(), instance: instance.clone(), _entry: entry };
        let desc = DeviceDesc::new(instance, physical_device, device)
            .with_supported(&supported)
            .with_queue(queue, family)
            .with_keep_alive(Arc::new(owner));
        Ok(Device::new(desc)?)
    }
}

/// The texel of the texture in a row and a column.
fn texel(x: u32, y: u32) -> [u8; 4] {
    [x as u8, y as u8, (x ^ y) as u8, 255]
}

/// The part of the texture that a frame copies.
fn corner(frame: u64) -> u32 {
    (frame * 7 % u64::from(TEXTURE - PICTURE)) as u32
}

/// Records the copy of a part of the texture to the picture, and of the picture to the readback buffer.
fn record(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    (texture, picture): (vk::Image, vk::Image),
    corner: u32,
    (readback, offset): (vk::Buffer, u64),
) -> Outcome {
    let layers = vk::ImageSubresourceLayers {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        layer_count: 1,
        ..Default::default()
    };
    let extent = vk::Extent3D { width: PICTURE, height: PICTURE, depth: 1 };
    let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
    let transfer = vk::PipelineStageFlags::TRANSFER;
    let range = vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        level_count: 1,
        layer_count: 1,
        ..Default::default()
    };
    let transition = |from, to, wrote, reads| {
        let barrier = vk::ImageMemoryBarrier::default()
            .image(picture)
            .subresource_range(range)
            .old_layout(from)
            .new_layout(to)
            .src_access_mask(wrote)
            .dst_access_mask(reads)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED);
        // SAFETY: as below.
        unsafe {
            let flags = vk::DependencyFlags::empty();
            device.cmd_pipeline_barrier(commands, transfer, transfer, flags, &[], &[], &[barrier]);
        }
    };
    let (undefined, destination, source) = (
        vk::ImageLayout::UNDEFINED,
        vk::ImageLayout::TRANSFER_DST_OPTIMAL,
        vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
    );
    let (read, write) = (vk::AccessFlags::TRANSFER_READ, vk::AccessFlags::TRANSFER_WRITE);
    // SAFETY: the command buffer is of the device, and what it uses is alive until it has completed.
    unsafe {
        device.begin_command_buffer(commands, &begin)?;
        // The frame before may still read the picture.
        transition(undefined, destination, vk::AccessFlags::empty(), write);
        let from = vk::Offset3D { x: corner as i32, y: corner as i32, z: 0 };
        let copy = vk::ImageCopy {
            src_offset: from,
            src_subresource: layers,
            dst_subresource: layers,
            extent,
            ..Default::default()
        };
        device.cmd_copy_image(commands, texture, source, picture, destination, &[copy]);
        transition(destination, source, write, read);
        let copy = vk::BufferImageCopy {
            buffer_offset: offset,
            image_subresource: layers,
            image_extent: extent,
            ..Default::default()
        };
        device.cmd_copy_image_to_buffer(commands, picture, source, readback, &[copy]);
        // So that the CPU sees what the GPU wrote.
        let visible =
            vk::MemoryBarrier::default().src_access_mask(write).dst_access_mask(vk::AccessFlags::HOST_READ);
        let flags = vk::DependencyFlags::empty();
        device.cmd_pipeline_barrier(
            commands,
            transfer,
            vk::PipelineStageFlags::HOST,
            flags,
            &[visible],
            &[],
            &[],
        );
        device.end_command_buffer(commands)?;
    }
    Ok(())
}

/// Compares a picture with the part of the texture that it was copied from.
fn check(gpu: &Gpu<Device>, (frame, ticket): (u64, ReadbackTicket)) -> Outcome {
    let mut found = vec![0; (PICTURE * PICTURE * 4) as usize];
    gpu.readback()?.read(&ticket, &mut found)?;
    let first = corner(frame);
    let expected = (0..PICTURE * PICTURE).flat_map(|i| texel(first + i % PICTURE, first + i / PICTURE));
    if expected.eq(found) { Ok(()) } else { Err(format!("the picture of frame {frame} is wrong").into()) }
}

fn main() -> Outcome {
    let gpu = Gpu::new(own_device()?, GpuDesc::default())?;
    let device = gpu.device().clone();

    let image = |size| ImageDesc::new(size, size, FORMAT.as_raw() as u32).into();
    let texture = gpu.create_image(&image(TEXTURE), &MemoryUsage::GpuOnly.with_name("texture"))?;
    let picture = gpu.create_image(&image(PICTURE), &MemoryUsage::GpuOnly.with_name("picture"))?;
    println!("device: {}; the texture has {} bytes", device.properties().name, texture.info().size);

    let texels: Vec<u8> = (0..TEXTURE * TEXTURE).flat_map(|i| texel(i % TEXTURE, i / TEXTURE)).collect();
    let write = ImageWrite::default().with_after(vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
    gpu.uploads().write_image_part(&texture, &write, &texels)?;

    let mut pictures = VecDeque::new();
    for _ in 0..100 {
        let frame = gpu.begin_frame()?; // waits while three frames are in flight
        if pictures.len() == gpu.desc().frames_in_flight.get() {
            pictures.pop_front().map_or(Ok(()), |oldest| check(&gpu, oldest))?;
        }

        let commands = frame.command_allocator(QUEUE)?;
        let buffer = commands.next()?;
        let mut readback = gpu.readback()?;
        let ticket = readback.allocate(u64::from(PICTURE * PICTURE * 4), Alignment::new(16)?)?;
        let images = (texture.handle(), picture.handle());
        record(device.raw(), buffer, images, corner(frame.number()), (*readback.buffer(), ticket.offset()))?;
        // The submission waits for the upload of the texture.
        let point = frame.submit(QUEUE, |queue, waits| {
            // SAFETY: recorded above, and what it uses is alive until the GPU has completed it.
            unsafe { device.submit_commands(queue, waits, &[buffer]) }
        })?;
        readback.close(point);
        drop(readback);
        pictures.push_back((frame.number(), ticket));
        frame.end()?; // reclaims what earlier frames have freed
    }
    gpu.wait_idle()?;
    pictures.into_iter().try_for_each(|picture| check(&gpu, picture))?;
    println!("100 pictures, every texel as it must be");
    Ok(())
}
