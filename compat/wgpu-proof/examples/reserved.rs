//! How much memory wgpu has reserved at the peak of a load, and ten seconds after the load is over.
//!
//! ```sh
//! cargo run --release --manifest-path compat/wgpu-proof/Cargo.toml --example reserved
//! ```
//!
//! In a copy of this package without the lines of the patch, with `--no-default-features`, the same program prints
//! gpu-allocator's numbers.

use std::thread;
use std::time::{Duration, Instant};

use wgpu_proof::{Gpu, Random};

const USAGES: [wgpu::BufferUsages; 3] =
    [wgpu::BufferUsages::VERTEX, wgpu::BufferUsages::STORAGE, wgpu::BufferUsages::UNIFORM];

fn mesh(gpu: &Gpu, random: &mut Random) -> wgpu::Buffer {
    let size = 4 << random.below(19);
    let buffer = gpu.buffer(size, USAGES[random.below(3) as usize] | wgpu::BufferUsages::COPY_DST);
    gpu.queue.write_buffer(&buffer, 0, &vec![1; size as usize]);
    buffer
}

fn texture(gpu: &Gpu, random: &mut Random) -> wgpu::Texture {
    let side = 16 << random.below(7);
    gpu.device.create_texture(&wgpu::TextureDescriptor {
        label: Some("texture"),
        size: wgpu::Extent3d { width: side, height: side, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
        view_formats: &[],
    })
}

fn main() {
    const MIB: f64 = (1 << 20) as f64;
    let gpu = Gpu::open();
    let (mut meshes, mut textures) = (Vec::new(), Vec::new());
    let (mut random, mut reserved, mut allocated) = (Random(1), 0, 0);
    // Frames in which things come, and now and then go.
    for frame in 0..600 {
        meshes.push(mesh(&gpu, &mut random));
        textures.push(texture(&gpu, &mut random));
        if random.below(2) == 0 {
            meshes.swap_remove(random.below(meshes.len() as u64) as usize);
            textures.swap_remove(random.below(textures.len() as u64) as usize);
        }
        gpu.queue.submit([]);
        if frame % 3 == 0 {
            gpu.wait();
        }
        let report = gpu.report();
        reserved = reserved.max(report.total_reserved_bytes);
        allocated = allocated.max(report.total_allocated_bytes);
    }
    println!("peak: {:.1} MiB reserved for {:.1} in use", reserved as f64 / MIB, allocated as f64 / MIB);
    drop((meshes, textures));
    let over = Instant::now();
    while over.elapsed() < Duration::from_secs(10) {
        gpu.queue.submit([]);
        gpu.wait();
        thread::sleep(Duration::from_millis(16));
    }
    let report = gpu.report();
    let (reserved, allocated) = (report.total_reserved_bytes, report.total_allocated_bytes);
    println!(
        "after ten seconds: {:.1} MiB reserved for {:.1} in use",
        reserved as f64 / MIB,
        allocated as f64 / MIB
    );
}
