//! Bytes go up to the device, are copied there, come back and are compared.
//!
//! `cargo run --example vulkan_upload -p allotment-examples`; `ALLOTMENT_VULKAN` names a device by a part of its name.
//!
//! The CPU writes memory directly where it can access it; elsewhere it writes a staging buffer that a queue copies.
//! Which of the two it is depends on the memory type that the allocator chose, and it says why.

use core::error::Error;
use core::time::Duration;

use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice as _, QueueDevice as _, QueueIndex, Submission, TimelinePoint,
    vulkan,
};
use allotment::memory::{RawBuffer, Transfer};
use allotment::{Allocator, AllocatorDesc, MemoryUsage};
use allotment_headless::DeviceChoice;
use allotment_headless::vulkan::{Headless, HeadlessDesc};

const SIZE: u64 = 16 << 20;

const QUEUE: QueueIndex = QueueIndex(0);

/// Makes a buffer, and says where it stands and why.
fn buffer(
    allocator: &Allocator<vulkan::Device>,
    memory_usage: MemoryUsage,
    name: &'static str,
) -> Result<RawBuffer<vulkan::Device>, Box<dyn Error>> {
    let info = BufferDesc::new(SIZE).into();
    let requirements = allocator.device().buffer_requirements(&info)?;
    let options = memory_usage.with_name(name);
    let made = allocator.create_buffer(&info, &options)?;
    let place = allocator.location(made.allocation())?;
    println!("{name}, for {memory_usage}: type {} at byte {}", place.memory_type, place.offset);
    for choice in allocator.explain(&requirements, &options) {
        println!("    {choice}");
    }
    Ok(made)
}

fn main() -> Result<(), Box<dyn Error>> {
    let choice = std::env::var("ALLOTMENT_VULKAN").map_or(DeviceChoice::Best, DeviceChoice::Named);
    let headless = Headless::open(&HeadlessDesc::default().with_device(choice))?;
    println!("device: {}", headless.name());
    let allocator = Allocator::new(headless.device().clone(), AllocatorDesc::default())?;

    let mesh = buffer(&allocator, MemoryUsage::GpuOnly, "mesh")?;
    let copy = buffer(&allocator, MemoryUsage::GpuOnly, "copy of the mesh")?;
    let constants = buffer(&allocator, MemoryUsage::DeviceUpload, "constants")?;
    let back = buffer(&allocator, MemoryUsage::Readback, "what comes back")?;

    let bytes: Vec<u8> = (0..SIZE).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let mut transfer = Transfer::new(&allocator, QUEUE, 4 << 20)?;
    for (buffer, name) in [(&mesh, "mesh"), (&constants, "constants")] {
        let direct = allocator.location(buffer.allocation())?.mapped_ptr.is_some();
        transfer.upload_to(buffer, 0, &bytes)?;
        println!("{name}: {SIZE} bytes up, {}", if direct { "directly" } else { "through staging" });
    }
    drop(transfer);

    let whole = |from, to| BufferCopy { from, from_offset: 0, to, to_offset: 0, size: SIZE };
    let device = allocator.device();
    for (from, name) in [(&mesh, "mesh"), (&constants, "constants")] {
        // One copy after the other, each on what the one before left.
        let first = [whole(from.handle(), copy.handle())];
        // SAFETY: the buffers are as large as that, and live until the wait below is over.
        let value = unsafe { device.submit(QUEUE, &Submission { copies: &first, ..Submission::default() }) }?;
        let waits = [TimelinePoint { queue: QUEUE, value }];
        let second = [whole(copy.handle(), back.handle())];
        // SAFETY: as above.
        let value = unsafe {
            device.submit(QUEUE, &Submission { waits: &waits, copies: &second, ..Submission::default() })
        }?;
        let point = TimelinePoint { queue: QUEUE, value };
        device.wait(point, Duration::from_secs(10))?;
        let mut found = vec![0; bytes.len()];
        allocator.read(back.allocation(), 0, &mut found)?;
        if found != bytes {
            return Err(format!("{name}: what came back is not what went up").into());
        }
        println!("{name}: copied twice, and all {SIZE} bytes came back as they were");
    }

    for buffer in [mesh, copy, constants, back] {
        allocator.destroy_buffer(buffer)?;
    }
    println!("{:#?}", allocator.reports().memory_heaps());
    Ok(())
}
