//! Textures that the CPU writes, on a device that was asked for them: which textures those are, and what is staged nevertheless.

use allotment::device::d3d12::{Device, ResourceInfo};
use allotment::device::{
    BufferDesc, BufferDevice as _, ImageDesc, ImageDevice as _, ImagePart, MemoryProperties, MemoryTypeIndex,
    MemoryTypeMask,
};
use allotment::gpu::GpuDesc;
use allotment::memory::{Dedicated, Image};
use allotment::upload::ImageWrite;
use allotment::{AllocationOptions, Gpu, MemoryUsage};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::{D3d12, texture};
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::kinds::d3d12::D3d12Fixture;

/// For a device with [host-written textures](allotment::device::d3d12::DeviceDesc::with_host_written_textures).
pub(crate) fn all() -> Vec<Test<D3d12Fixture>> {
    tests![D3d12Fixture:
        only_textures_that_the_cpu_writes_are_in_memory_for_it,
        a_texture_that_the_cpu_wrote_stays_in_the_common_state,
        textures_beside_each_other_keep_their_texels,
        what_the_cpu_cannot_write_is_staged,
    ]
}

const NONE: Outcome = Outcome::DoesNotApply("CPU and GPU share no caches here");

fn desc() -> ImageDesc {
    ImageDesc::new(64, 64, DXGI_FORMAT_R8G8B8A8_UNORM.0.unsigned_abs())
}

/// The memory type of such textures: the first, where there is one.
fn written_type(gpu: &D3d12) -> Option<MemoryTypeIndex> {
    let first = MemoryTypeIndex(0);
    let heap = gpu.device().heap_properties(first)?;
    (heap.CPUPageProperty == D3D12_CPU_PAGE_PROPERTY_WRITE_BACK).then_some(first)
}

fn only_textures_that_the_cpu_writes_are_in_memory_for_it(gpu: &D3d12) -> Outcome {
    let Some(written) = written_type(gpu) else { return NONE };
    let found = gpu.properties().memory_type(written).unwrap();
    assert_eq!(found.properties, MemoryProperties::DEVICE_LOCAL, "a texture has no address");
    let with = |flags: D3D12_RESOURCE_FLAGS| desc().with_usage(flags.0.unsigned_abs().into()).into();
    let of_format = |format: DXGI_FORMAT| ImageDesc::new(64, 64, format.0.unsigned_abs()).into();
    let target = D3D12_RESOURCE_STATE_RENDER_TARGET;
    let cases: [(ResourceInfo<'static>, bool); 9] = [
        (desc().into(), true),
        (desc().with_full_mips().with_array_layers(3).into(), true),
        (of_format(DXGI_FORMAT_BC1_UNORM), true),
        (of_format(DXGI_FORMAT_D32_FLOAT), false),
        (with(D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET), false),
        (with(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS), false),
        (with(D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS), false),
        // The application's own description, and one that begins in another state.
        (ResourceInfo::new(texture(64, 64, D3D12_RESOURCE_FLAG_NONE)), false),
        (ResourceInfo::from(desc()).with_initial_state(target), false),
    ];
    for (info, is_written) in cases {
        let types = gpu.device().image_requirements(&info).unwrap().memory_types;
        assert_eq!(types.contains(written), is_written, "{info:?}");
        assert!(types.0 & !(1 << written.0) != 0, "there is memory beside it: {info:?}");
        assert_eq!(gpu.device().image_shape(&info).is_host_writable, is_written, "{info:?}");
    }
    let buffer = gpu.device().buffer_requirements(&BufferDesc::new(65536).into()).unwrap();
    assert!(!buffer.memory_types.contains(written));
    Outcome::Ran
}

fn a_texture_that_the_cpu_wrote_stays_in_the_common_state(gpu: &D3d12) -> Outcome {
    let Some(written) = written_type(gpu) else { return NONE };
    let front = Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let bytes = pattern(1, 64 * 64 * 4);
    for dedicated in [Dedicated::Never, Dedicated::Always] {
        let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_dedicated(dedicated);
        let image: Image<Device> = front.create_image(&desc().into(), &options).unwrap();
        assert_eq!(image.location().memory_type, written, "{dedicated:?}");
        let before = front.uploads().statistics();
        front.uploads().write_image(&image, &bytes).unwrap();
        let sums = front.uploads().statistics();
        assert_eq!(sums.host_copied_bytes - before.host_copied_bytes, bytes.len() as u64);
        assert_eq!(sums.staged_bytes, 0, "{dedicated:?}");
        assert_eq!(image.state(), Some(D3D12_RESOURCE_STATE_COMMON));
        assert_arrived(&front, &image, &bytes);
    }
    Outcome::Ran
}

fn assert_arrived(front: &Gpu<Device>, image: &Image<Device>, bytes: &[u8]) {
    let read = front.reads().read_image(image, &ImagePart::default()).unwrap();
    front.begin_frame().unwrap().end().unwrap();
    front.wait_idle().unwrap();
    assert_same(&read.bytes().unwrap(), bytes, image.location());
}

fn textures_beside_each_other_keep_their_texels(gpu: &D3d12) -> Outcome {
    if written_type(gpu).is_none() {
        return NONE;
    }
    let front = Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let placed = AllocationOptions::new(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never);
    let mut random = Random::new(5);
    let textures: Vec<_> = (0..100)
        .map(|seed| {
            let [width, height] = [1, 1].map(|least| least + random.below(130) as u32);
            let format = [DXGI_FORMAT_R8_UNORM, DXGI_FORMAT_R8G8B8A8_UNORM][seed as usize % 2];
            let desc = ImageDesc::new(width, height, format.0.unsigned_abs()).with_full_mips();
            let image: Image<Device> = front.create_image(&desc.into(), &placed).unwrap();
            let shape = gpu.device().image_shape(&desc.into());
            let bytes = pattern(seed, shape.part_bytes(&ImagePart::default()).unwrap());
            (image, bytes)
        })
        .collect();
    for (image, bytes) in &textures {
        front.uploads().write_image(image, bytes).unwrap();
    }
    assert_eq!(front.uploads().statistics().staged_bytes, 0);
    for (image, bytes) in &textures {
        assert_arrived(&front, image, bytes);
    }
    Outcome::Ran
}

/// In other memory, in another state, and after the GPU was given it.
fn what_the_cpu_cannot_write_is_staged(gpu: &D3d12) -> Outcome {
    let Some(written) = written_type(gpu) else { return NONE };
    let front = Gpu::new(gpu.device().clone(), GpuDesc::default()).unwrap();
    let bytes = pattern(1, 64 * 64 * 4);
    let anywhere = AllocationOptions::new(MemoryUsage::GpuOnly);
    let elsewhere = anywhere.clone().with_memory_types(MemoryTypeMask(!(1 << written.0)));
    let common = ImageWrite::default().with_after(D3D12_RESOURCE_STATE_COMMON);
    let to_copy_from = ImageWrite::default().with_after(D3D12_RESOURCE_STATE_COPY_SOURCE);
    for (options, write) in [(elsewhere, common), (anywhere, to_copy_from)] {
        let image: Image<Device> = front.create_image(&desc().into(), &options).unwrap();
        for round in 1..3 {
            let before = front.uploads().statistics();
            let bytes = pattern(round, bytes.len() as u64);
            front.uploads().write_image_part(&image, &write, &bytes).unwrap();
            let sums = front.uploads().statistics();
            // With what lies between it and the piece before.
            let staged = sums.staged_bytes - before.staged_bytes;
            assert!(staged >= bytes.len() as u64, "{staged}: {write:?}, {round}");
            assert_eq!(sums.host_copied_bytes, 0, "{write:?}, {round}");
            assert_eq!(image.state(), write.after);
            assert_arrived(&front, &image, &bytes);
        }
    }
    Outcome::Ran
}
