//! A first program: create a buffer, upload bytes, read them back.
//!
//! ```sh
//! cargo run --example hello_buffer -p allotment-examples            # on the simulated GPU
//! cargo run --example hello_buffer -p allotment-examples -- vulkan  # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --example hello_buffer -p allotment-examples -- d3d12   # on Windows
//! ```

#[path = "common/plain_device.rs"]
mod device;
#[path = "common/trace.rs"]
mod trace;

use core::error::Error;

use allotment::device::BufferDesc;
use allotment::{Device, Gpu, GpuDesc, MemoryUsage};

fn hello_buffer<D: Device + Clone>(device: D) -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::new(device, GpuDesc::default())?;
    trace::record(&gpu)?; // with --trace FILE
    let options = MemoryUsage::GpuOnly.with_name("hello");
    let buffer = gpu.create_buffer(&BufferDesc::new(4096).into(), &options)?;
    gpu.uploads().write_buffer(&buffer, 0, b"hello, GPU")?;

    let mut bytes = [0; 10];
    gpu.read_buffer(&buffer, 0, &mut bytes)?;
    println!("{} says: {}", gpu.device().properties().name, String::from_utf8_lossy(&bytes));
    assert_eq!(&bytes, b"hello, GPU");
    Ok(())
}

device::main!("hello_buffer", hello_buffer);
