//! Buffers whose memory grows and shrinks: which tiles of which heaps are mapped to them, and when they are refused.

use allotment::device::d3d12::{Device, DeviceDesc};
use allotment::device::{BufferDesc, BufferDevice as _, DeviceError};
use allotment::gpu::{Gpu, GpuDesc};
use allotment::memory::{ExpandableBuffer, ResourceError};
use allotment::{Alignment, MemoryUsage};
use windows::Win32::Foundation::E_OUTOFMEMORY;
use windows::Win32::Graphics::Direct3D12::*;

use crate::rig::{Config, KIB, MIB, assert_clean, buffer, device, info, runtime, texture};
use crate::runtime::calls::{Begins, Call};
use crate::runtime::faults::Kind;

/// Of what memory is bound in.
const PAGE: u64 = 2 * MIB;

fn expandable(gpu: &Gpu<Device>) -> Result<ExpandableBuffer<Device>, ResourceError> {
    ExpandableBuffer::new(gpu.memory(), BufferDesc::new(64 * MIB), MemoryUsage::GpuOnly.with_name("tensors"))
}

fn settle(gpu: &Gpu<Device>) {
    gpu.wait_idle().unwrap();
    gpu.reclaim();
}

/// The tiles of these pages.
fn tiles(pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let each = PAGE / (64 * KIB);
    pages.into_iter().flat_map(|page| page * each..(page + 1) * each).collect()
}

#[test]
fn tiles_of_heaps_go_where_pieces_are_and_come_back_from_where_they_were() {
    for config in [
        Config { tiled: true, ..Config::oldest() },
        Config::usual(),
        Config::newest(),
        Config::newest().coherent(),
    ] {
        let Some(runtime) = runtime(config) else { return };
        let gpu = Gpu::new(device(&runtime, |desc| desc).unwrap(), GpuDesc::default()).unwrap();
        runtime.calls();
        let whole = expandable(&gpu).unwrap();
        let calls = runtime.calls();
        assert!(calls.iter().any(|call| matches!(call, Call::Reserved(made) if made.desc.Width == 64 * MIB)));
        let heaps: Vec<_> = calls.iter().filter_map(Call::memory).collect();
        assert!(heaps.iter().all(|(properties, _)| properties.Type == D3D12_HEAP_TYPE_DEFAULT), "{heaps:?}");
        assert_eq!(runtime.mapped_tiles(), tiles([0]));

        let create = |pages: u64| whole.create(pages * PAGE, Alignment::ONE).unwrap();
        let [first, second, third] = [3, 2, 4].map(create);
        assert_eq!(runtime.mapped_tiles(), tiles(0..9));
        drop(second);
        settle(&gpu);
        let fourth = create(4);
        assert_eq!(fourth.offset(), 9 * PAGE);
        assert_eq!(runtime.mapped_tiles(), tiles((0..3).chain(5..13)), "two of its pages are the second's");
        drop(third);
        settle(&gpu);
        assert_eq!(whole.trim().unwrap(), 4 * PAGE);
        assert_eq!(runtime.mapped_tiles(), tiles((0..3).chain(9..13)));
        let fifth = create(5);
        assert_eq!((fifth.offset(), runtime.mapped_tiles()), (3 * PAGE, tiles((0..8).chain(9..13))));

        drop((first, fourth, fifth, whole));
        settle(&gpu);
        assert_eq!((runtime.mapped_tiles(), runtime.live().reserved), (vec![], 0));
        drop(gpu);
        assert_clean(&runtime);
    }
}

#[test]
fn what_the_runtime_refuses_leaves_tiles_as_they_were() {
    let Some(runtime) = runtime(Config::newest()) else { return };
    let gpu = Gpu::new(device(&runtime, |desc| desc).unwrap(), GpuDesc::default()).unwrap();
    for kind in [Kind::CreateReservedResource, Kind::CreateHeap] {
        runtime.refuse_all(kind, E_OUTOFMEMORY);
        assert!(expandable(&gpu).is_err());
        assert!(runtime.refuse_nothing());
        assert_eq!(runtime.live().reserved, 0);
    }
    let whole = expandable(&gpu).unwrap();
    let first = whole.create(PAGE, Alignment::ONE).unwrap();
    runtime.refuse_all(Kind::CreateHeap, E_OUTOFMEMORY);
    assert!(whole.create(3 * PAGE, Alignment::ONE).is_err());
    assert!(runtime.refuse_nothing());
    assert_eq!(runtime.mapped_tiles(), tiles([0]));
    let second = whole.create(3 * PAGE, Alignment::ONE).unwrap();
    assert_eq!(runtime.mapped_tiles(), tiles(0..4));
    drop((first, second, whole, gpu));
    assert_clean(&runtime);
}

#[test]
fn a_device_without_tiled_resources_or_without_queues_has_no_reserved_buffers() {
    let Some(without) = runtime(Config { tiled: false, ..Config::newest() }) else { return };
    let gpu = Gpu::new(device(&without, |desc| desc).unwrap(), GpuDesc::default()).unwrap();
    assert!(!gpu.device().has_reserved_buffers());
    let refused = expandable(&gpu).unwrap_err();
    let unsupported = matches!(refused, ResourceError::Device { source: DeviceError::Unsupported, .. });
    assert!(unsupported && refused.name() == Some("tensors"), "{refused}");
    drop(gpu);
    assert_clean(&without);

    let Some(tiled) = runtime(Config::newest()) else { return };
    let alone = Device::new(DeviceDesc::new(tiled.device(), tiled.adapter())).unwrap();
    assert!(!alone.has_reserved_buffers());
    let refused = alone.create_reserved_buffer(&info(buffer(PAGE))).map(|_| ());
    assert_eq!(refused, Err(DeviceError::Unsupported));
    drop(alone);
    assert_clean(&tiled);
}

#[test]
fn a_reserved_buffer_is_described_as_the_application_did_and_textures_are_refused() {
    let Some(runtime) = runtime(Config::newest()) else { return };
    let device = device(&runtime, |desc| desc).unwrap();
    let written = D3D12_RESOURCE_DESC { Flags: D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS, ..buffer(100) };
    let undefined = D3D12_BARRIER_LAYOUT_UNDEFINED;
    for (info, begins) in [
        (info(written), Begins::State(D3D12_RESOURCE_STATE_COMMON)),
        (info(written).with_initial_layout(undefined), Begins::Layout(undefined)),
    ] {
        let (reserved, requirements) = device.create_reserved_buffer(&info).unwrap();
        let [Call::Reserved(made)] = &runtime.calls()[..] else { panic!() };
        assert_eq!((made.desc, made.begins), (written, begins));
        assert_eq!((requirements.size, requirements.alignment.get()), (64 * KIB, 64 * KIB));
        // SAFETY: no queue uses it.
        unsafe { device.destroy_buffer(reserved) };
    }
    let refused = device.create_reserved_buffer(&info(texture(64, 64))).map(|_| ());
    assert_eq!(refused, Err(DeviceError::Unsupported));
    assert!(device.create_reserved_buffer(&info(buffer(0))).is_err());
    assert!(device.create_reserved_buffer(&info(buffer(1 << 50))).is_err());
    drop(device);
    assert_clean(&runtime);
}
