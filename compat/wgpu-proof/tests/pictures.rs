//! Textures that are written, left unwritten, and drawn to.

use wgpu::TextureUsages as Usage;
use wgpu_proof::texels::{extent, place};
use wgpu_proof::{Gpu, pattern};

const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

fn texture(gpu: &Gpu, size: [u32; 3], mips: u32, usage: Usage) -> wgpu::Texture {
    gpu.device.create_texture(&wgpu::TextureDescriptor {
        label: Some("picture"),
        size: wgpu::Extent3d { width: size[0], height: size[1], depth_or_array_layers: size[2] },
        mip_level_count: mips,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: FORMAT,
        usage,
        view_formats: &[],
    })
}

fn seed(at: usize, mip: u32, layer: u32) -> u64 {
    at as u64 * 100 + u64::from(mip) * 10 + u64::from(layer)
}

fn is_written(mip: u32, layer: u32) -> bool {
    (mip + layer).is_multiple_of(2)
}

/// Creates textures, of which each second level and layer is written.
fn half_written(gpu: &Gpu) -> Vec<wgpu::Texture> {
    let usage = Usage::COPY_SRC | Usage::COPY_DST | Usage::TEXTURE_BINDING;
    let sizes: [[u32; 3]; 5] = [[1, 1, 1], [7, 3, 2], [64, 64, 6], [300, 200, 1], [512, 256, 3]];
    let textures: Vec<_> = sizes
        .map(|size| {
            let mips = size[0].min(size[1]).ilog2() + 1;
            texture(gpu, size, mips, usage)
        })
        .into();
    for (at, texture) in textures.iter().enumerate() {
        for (mip, layer) in levels(texture).filter(|&(mip, layer)| is_written(mip, layer)) {
            let extent = extent(texture, mip);
            let row = 4 * extent.width;
            let bytes = pattern(seed(at, mip, layer), u64::from(row * extent.height));
            let layout =
                wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row), rows_per_image: None };
            gpu.queue.write_texture(place(texture, mip, layer), &bytes, layout, extent);
        }
    }
    textures
}

/// Asserts that the levels and layers that are written or not have these bytes.
fn assert_texels(
    gpu: &Gpu,
    textures: &[wgpu::Texture],
    written: bool,
    expected: impl Fn(u64, usize) -> Vec<u8>,
) {
    for (at, texture) in textures.iter().enumerate() {
        for (mip, layer) in levels(texture).filter(|&(mip, layer)| is_written(mip, layer) == written) {
            let got = gpu.texels(texture, mip, layer);
            let expected = expected(seed(at, mip, layer), got.len());
            let wrong = got.iter().zip(&expected).filter(|(got, expected)| got != expected).count();
            assert_eq!(wrong, 0, "bytes of {} of texture {at}, level {mip}, layer {layer}", got.len());
        }
    }
}

#[test]
fn every_level_and_layer_keeps_its_texels() {
    let gpu = Gpu::open();
    let textures = half_written(&gpu);
    assert_texels(&gpu, &textures, true, |seed, size| pattern(seed, size as u64));
    gpu.report();
    gpu.check();
}

#[test]
fn texels_that_are_not_written_are_zero() {
    let gpu = Gpu::open();
    // What was in memory before must not be seen.
    let dirt = texture(&gpu, [512, 512, 4], 1, Usage::COPY_DST);
    for layer in 0..4 {
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(2048), rows_per_image: None };
        gpu.queue.write_texture(place(&dirt, 0, layer), &[0xdd; 512 * 2048], layout, extent(&dirt, 0));
    }
    gpu.queue.submit([]);
    gpu.wait();
    drop(dirt);
    gpu.wait();
    assert_texels(&gpu, &half_written(&gpu), false, |_, size| vec![0; size]);
    gpu.check();
}

fn levels(texture: &wgpu::Texture) -> impl Iterator<Item = (u32, u32)> {
    let (mips, layers) = (texture.mip_level_count(), texture.depth_or_array_layers());
    (0..mips).flat_map(move |mip| (0..layers).map(move |layer| (mip, layer)))
}

const COMPUTE: &str = "
    @group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) at: vec3<u32>) {
        numbers[at.x] = numbers[at.x] * 3u + at.x;
    }";

#[test]
fn a_shader_computes_in_the_memory_of_a_buffer() {
    let gpu = Gpu::open();
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(COMPUTE.into()),
    });
    let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    });
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let count = 64 * 100;
    let numbers = gpu.buffer(4 * count, usage);
    let bytes = pattern(5, 4 * count);
    gpu.queue.write_buffer(&numbers, 0, &bytes);
    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: numbers.as_entire_binding() }],
    });
    gpu.submit(|encoder| {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(100, 1, 1);
    });
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.chunks(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    };
    let expected: Vec<_> =
        (0..).zip(words(&bytes)).map(|(at, word)| word.wrapping_mul(3).wrapping_add(at)).collect();
    // Thousands of words: not to be shown.
    assert!(words(&gpu.read(&numbers)) == expected);
    gpu.check();
}

const DRAW: &str = "
    @group(0) @binding(0) var<uniform> tint: vec4<f32>;
    @group(0) @binding(1) var image: texture_2d<f32>;
    @vertex fn corner(@location(0) at: vec2<f32>) -> @builtin(position) vec4<f32> { return vec4(at, 0.0, 1.0); }
    @fragment fn colour(@builtin(position) at: vec4<f32>) -> @location(0) vec4<f32> {
        return textureLoad(image, vec2<i32>(at.xy), 0) * tint;
    }";

#[test]
fn a_texture_is_drawn_into_another_with_vertices_indices_and_a_uniform() {
    const SIDE: u32 = 256;
    let gpu = Gpu::open();
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(DRAW.into()),
    });
    let attributes = wgpu::vertex_attr_array![0 => Float32x2];
    let pipeline = gpu.device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: None,
        layout: None,
        vertex: wgpu::VertexState {
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            buffers: &[Some(wgpu::VertexBufferLayout {
                array_stride: 8,
                step_mode: wgpu::VertexStepMode::Vertex,
                attributes: &attributes,
            })],
        },
        primitive: Default::default(),
        depth_stencil: None,
        multisample: Default::default(),
        fragment: Some(wgpu::FragmentState {
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            targets: &[Some(FORMAT.into())],
        }),
        multiview_mask: None,
        cache: None,
    });
    let image = texture(&gpu, [SIDE, SIDE, 1], 1, Usage::TEXTURE_BINDING | Usage::COPY_DST);
    let texels: Vec<u8> =
        (0..SIDE * SIDE).flat_map(|i| [(i % 256) as u8, (i / 256) as u8, 77, 255]).collect();
    let layout =
        wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(4 * SIDE), rows_per_image: None };
    gpu.queue.write_texture(place(&image, 0, 0), &texels, layout, extent(&image, 0));
    let target = texture(&gpu, [SIDE, SIDE, 1], 1, Usage::RENDER_ATTACHMENT | Usage::COPY_SRC);
    let filled = |bytes: &[u8], usage| {
        let buffer = gpu.buffer(bytes.len() as u64, usage | wgpu::BufferUsages::COPY_DST);
        gpu.queue.write_buffer(&buffer, 0, bytes);
        buffer
    };
    let floats =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let corners = filled(&floats(&[-1., -1., 1., -1., 1., 1., -1., 1.]), wgpu::BufferUsages::VERTEX);
    let indices: Vec<u8> = [0_u16, 1, 2, 0, 2, 3].into_iter().flat_map(u16::to_le_bytes).collect();
    let indices = filled(&indices, wgpu::BufferUsages::INDEX);
    let tint = filled(&floats(&[1., 1., 0., 1.]), wgpu::BufferUsages::UNIFORM);
    let view = image.create_view(&Default::default());
    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: tint.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: wgpu::BindingResource::TextureView(&view) },
        ],
    });
    let drawn_to = target.create_view(&Default::default());
    gpu.submit(|encoder| {
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: &drawn_to,
                depth_slice: None,
                resolve_target: None,
                ops: Default::default(),
            })],
            ..Default::default()
        });
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.set_vertex_buffer(0, corners.slice(..));
        pass.set_index_buffer(indices.slice(..), wgpu::IndexFormat::Uint16);
        pass.draw_indexed(0..6, 0, 0..1);
    });
    let expected: Vec<u8> = texels.chunks(4).flat_map(|texel| [texel[0], texel[1], 0, 255]).collect();
    let pixels = gpu.texels(&target, 0, 0);
    let wrong = pixels.chunks(4).zip(expected.chunks(4)).filter(|(got, expected)| got != expected).count();
    assert_eq!(wrong, 0, "of {} pixels", SIDE * SIDE);
    gpu.report();
    gpu.check();
}
