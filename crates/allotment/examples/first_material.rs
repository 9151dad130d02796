//! A first material: a texture in a table and a sampler, which a dispatch samples through descriptors.
//!
//! ```sh
//! cargo run --example first_material -p allotment-examples            # on the simulated GPU
//! cargo run --example first_material -p allotment-examples -- vulkan  # with descriptor indexing or descriptor buffers
//! cargo run --example first_material -p allotment-examples -- d3d12   # on Windows
//! ```
//!
//! The shader is one of `allotment-readers`. It samples the texture in the middle of each texel, and twice as far as the
//! texture is wide and high, where the sampler repeats it.

#[path = "common/device.rs"]
mod device;
#[path = "common/trace.rs"]
mod trace;

use core::error::Error;
use std::sync::Arc;

use allotment::descriptor::{Binding, BindingSet};
use allotment::device::{DescriptorDevice, ImageViewDesc, QueueIndex, SamplerDesc};
use allotment::{Gpu, GpuDesc, MemoryUsage};
use allotment_readers::{DescriptorReader, Sample};

const QUEUE: QueueIndex = QueueIndex(0);

/// Width and height of the texture, and of the picture: the texture twice in each direction, since samplers repeat.
const TEXTURE: u32 = 16;
const PICTURE: u32 = 2 * TEXTURE;

fn texel(x: u32, y: u32) -> [u8; 4] {
    [x as u8, y as u8, 7, 255]
}

fn texels(size: u32) -> Vec<u8> {
    (0..size * size).flat_map(|i| texel(i % size % TEXTURE, i / size % TEXTURE)).collect()
}

fn first_material<D, R>(device: D, is_read: bool) -> Result<(), Box<dyn Error>>
where
    D: DescriptorDevice + Clone,
    R: DescriptorReader<D>,
{
    let gpu = Gpu::new(device, GpuDesc::default())?;
    trace::record(&gpu)?; // with --trace FILE
    let descriptors = gpu.descriptors()?;
    let shader = R::new(gpu.device(), descriptors.resources().statistics().capacity)?;

    let options = MemoryUsage::GpuOnly.with_name("albedo");
    let image = Arc::new(gpu.create_image(&R::texture_desc([TEXTURE; 2]).into(), &options)?);
    gpu.uploads().write_image(&image, &texels(TEXTURE))?; // shaders sample it from then on
    let albedo = Arc::new(gpu.create_image_view(&image, &ImageViewDesc::sampled())?);
    drop(image); // the view keeps it alive

    // The material: a table with the texture, which keeps the view alive, and a sampler from the cache.
    let layout = descriptors.binding_layout(&[Binding::mutable("albedo")])?;
    let mut material = BindingSet::new(&layout)?;
    material.bind_view(0, 0, &albedo)?;
    let sampler = descriptors.samplers().get(&SamplerDesc::default())?;

    let options = MemoryUsage::GpuOnly.with_name("picture");
    let picture = shader.buffer_info(u64::from(PICTURE * PICTURE * 4), true);
    let picture = gpu.create_buffer(&picture, &options)?;

    let frame = gpu.begin_frame()?;
    let mut resources = frame.transient_descriptors()?; // the heaps as this frame sees them
    let samplers = descriptors.samplers().heap().begin(frame.recording())?;
    let table = material.commit(&mut resources)?.table.ok_or("the material has a table")?;
    let sample = Sample {
        resources: resources.heap(),
        texture: table.first,
        samplers: samplers.heap(),
        sampler: sampler.index(),
        extent: [PICTURE; 2],
        to: &picture.handle(),
    };
    // SAFETY: everything is alive until the GPU has completed the frame, and the picture lies in its buffer.
    frame.submit(QUEUE, |queue, waits| unsafe { shader.sample(queue, waits, &sample) })?;
    drop((resources, samplers));
    frame.end()?;

    let mut found = vec![0; (PICTURE * PICTURE * 4) as usize];
    gpu.read_buffer(&picture, 0, &mut found)?;
    if is_read {
        assert!(found == texels(PICTURE), "the picture is not what the material shows");
        println!("{PICTURE} × {PICTURE} texels, all as they must be");
    } else {
        println!("skipped: shaders see no descriptors here, and nothing was sampled or compared");
    }
    Ok(())
}

device::main!("first_material", first_material);
