//! A first frame loop: upload, submit and free, with three frames in flight.
//!
//! ```sh
//! cargo run --example first_frame -p allotment-examples            # on the simulated GPU
//! cargo run --example first_frame -p allotment-examples -- vulkan  # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --example first_frame -p allotment-examples -- d3d12   # on Windows
//! ```

#[path = "common/plain_device.rs"]
mod device;
#[path = "common/trace.rs"]
mod trace;

use core::error::Error;

use allotment::device::{BufferCopy, BufferDesc, QueueIndex, Submission};
use allotment::{Device, Gpu, GpuDesc, MemoryUsage};

const QUEUE: QueueIndex = QueueIndex(0);

fn first_frame<D: Device + Clone>(device: D) -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::new(device, GpuDesc::default())?;
    trace::record(&gpu)?; // with --trace FILE
    let options = MemoryUsage::GpuOnly.with_name("picture");
    let picture = gpu.create_buffer(&BufferDesc::new(512).into(), &options)?;
    let options = MemoryUsage::GpuOnly.with_name("mesh");

    for number in 0..100_u8 {
        let frame = gpu.begin_frame()?; // waits while three frames are in flight

        // A buffer of this frame, and constants in transient memory.
        let mesh = gpu.create_buffer(&BufferDesc::new(256).into(), &options)?;
        gpu.uploads().write_buffer(&mesh, 0, &[number; 256])?;
        let constants = frame.upload([number; 256])?;

        // In place of a draw, the GPU copies both into the picture. The copies wait for the upload of the mesh.
        let (mesh_handle, picture) = (mesh.handle(), picture.handle());
        let copies = [
            BufferCopy { from: &mesh_handle, from_offset: 0, to: &picture, to_offset: 0, size: 256 },
            BufferCopy {
                from: &constants.buffer,
                from_offset: constants.offset,
                to: &picture,
                to_offset: 256,
                size: 256,
            },
        ];
        frame.submit(QUEUE, |queue, waits| {
            let work = Submission { waits, copies: &copies, ..Submission::default() };
            // SAFETY: the buffers are alive until the GPU has completed the frame, and the ranges lie in them.
            unsafe { gpu.device().submit(queue, &work) }
        })?;

        drop(mesh); // destroyed once the GPU has completed this frame
        frame.end()?; // reclaims what earlier frames have freed
    }

    let mut found = [0; 512];
    gpu.read_buffer(&picture, 0, &mut found)?;
    assert_eq!(found, [99; 512]);
    let memory = gpu.allocator().statistics();
    println!(
        "100 frames on {}: {} allocations are left:",
        gpu.device().properties().name,
        memory.allocations
    );
    println!("the picture, the last meshes, and the library's own ring and pages");
    Ok(())
}

device::main!("first_frame", first_frame);
