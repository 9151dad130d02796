//! Pictures that vello draws in compute shaders, whose buffers and textures come and go.

use vello::peniko::Color;
use vello::{AaConfig, AaSupport, RenderParams, Renderer, RendererOptions, wgpu};
use vello_proof::{expected, scene, shapes};
use wgpu_proof::{Gpu, Random};

fn target(gpu: &Gpu, width: u32, height: u32) -> wgpu::Texture {
    gpu.device.create_texture(&wgpu::TextureDescriptor {
        label: Some("target"),
        size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::STORAGE_BINDING | wgpu::TextureUsages::COPY_SRC,
        view_formats: &[],
    })
}

#[test]
fn every_pixel_has_the_colour_of_the_topmost_shape() {
    let gpu = Gpu::open();
    let before = gpu.report().total_allocated_bytes;
    let options = RendererOptions { antialiasing_support: AaSupport::area_only(), ..Default::default() };
    let mut renderer = Renderer::new(&gpu.device, options).expect("vello compiles its shaders");
    let mut random = Random(19);
    // Larger and smaller than the one before, so that vello's buffers come and go.
    for (count, width, height) in [(1, 64, 64), (40, 300, 200), (400, 640, 480), (7, 33, 57), (800, 500, 700)]
    {
        let shapes = shapes(&mut random, count, width, height);
        let target = target(&gpu, width, height);
        let base = [10, 20, 30, 255];
        let params = RenderParams {
            base_color: Color::from_rgba8(base[0], base[1], base[2], base[3]),
            width,
            height,
            antialiasing_method: AaConfig::Area,
        };
        let view = target.create_view(&Default::default());
        renderer
            .render_to_texture(&gpu.device, &gpu.queue, &scene(&shapes), &view, &params)
            .expect("vello draws");
        let pixels = gpu.texels(&target, 0, 0);
        let (mut mixed, mut wrong) = (0, 0);
        for (at, pixel) in pixels.chunks(4).enumerate() {
            let (x, y) = ((at as u32 % width) as f64 + 0.5, (at as u32 / width) as f64 + 0.5);
            match expected(&shapes, base, x, y) {
                // Colours go through floats on their way.
                Some(texel) => wrong += usize::from(texel.iter().zip(pixel).any(|(a, b)| a.abs_diff(*b) > 1)),
                None => mixed += 1,
            }
        }
        let all = (width * height) as usize;
        assert_eq!(wrong, 0, "of {all} pixels, {mixed} of them mixed, with {count} shapes");
        assert!(mixed < all / 2, "{mixed} of {all} pixels show nothing");
        let report = gpu.report();
        assert!(report.total_allocated_bytes > before, "vello's memory is Allotment's");
        gpu.check();
    }
    drop(renderer);
    gpu.queue.submit([]);
    gpu.wait();
    assert!(gpu.report().total_allocated_bytes <= before, "all of it came back");
    gpu.check();
}
