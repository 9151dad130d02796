//! How close resources are placed: the smallest alignment that the runtime allows, and no flag that it does not
//! know.

use allotment::device::ImageDevice as _;
use allotment::device::d3d12::{DeviceDesc, Multisampled, PlacementAlignment};
use allotment::memory::blocks::BlockSizes;
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{Dedicated, RawResource};
use allotment::{AllocationOptions, AllocatorDesc, MemoryUsage, PoolDesc};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use crate::rig::{Config, KIB, MIB, Rig, buffer, depth, info, several_samples, target, texture, wish};
use crate::runtime::TIGHT;
use crate::runtime::calls::{Call, Made};

fn rig(config: Config) -> Option<Rig> {
    Rig::with(config, |desc| desc, |desc| desc.block_sizes = BlockSizes::fixed(64 * MIB))
}

/// A texture of one dimension.
fn line(width: u64) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC { Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE1D, ..texture(width, 1) }
}

fn volume([width, height, depth]: [u16; 3]) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE3D,
        DepthOrArraySize: depth,
        ..texture(width.into(), height.into())
    }
}

/// Makes resources in turn, and says where each was placed, and how it was described.
fn place(
    rig: &Rig,
    descs: impl IntoIterator<Item = D3D12_RESOURCE_DESC>,
) -> (Vec<RawResource<ID3D12Resource>>, Vec<(u64, Made)>) {
    rig.runtime.calls();
    let make = |desc| rig.create_resource(&info(desc), &wish(MemoryUsage::GpuOnly)).unwrap();
    let kept = descs.into_iter().map(make).collect();
    let placed = |call| match call {
        Call::Placed { offset, resource, .. } => Some((offset, resource)),
        _ => None,
    };
    (kept, rig.runtime.calls().into_iter().filter_map(placed).collect())
}

/// Makes resources in turn, each of which begins 4 KiB after another.
fn assert_4_kib_apart(rig: &Rig, descs: impl IntoIterator<Item = D3D12_RESOURCE_DESC>) {
    let (kept, placed) = place(rig, descs);
    assert!(placed.iter().all(|(_, made)| made.desc.Alignment == 4 * KIB), "{placed:?}");
    let mut offsets: Vec<_> = placed.iter().map(|(offset, _)| *offset).collect();
    offsets.sort_unstable();
    assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] == 4 * KIB), "{offsets:?}");
    rig.destroy(kept);
}

#[test]
fn multisampled_targets_stand_at_64_kib_where_they_are_small_and_at_4_mib_where_not() {
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = rig(config) else { return };
        let samples = [several_samples(64, 64), several_samples(512, 512), several_samples(1024, 1024)];
        let (kept, placed) = place(&rig, samples);
        let alignments: Vec<_> = placed.iter().map(|(_, made)| made.desc.Alignment).collect();
        // 512 by 512 texels of four samples are 4 MiB, and the last that are small.
        assert_eq!(alignments, [64 * KIB, 64 * KIB, 0]);
        assert_eq!(placed[1].0 - placed[0].0, 64 * KIB);
        assert_eq!(placed[2].0 % (4 * MIB), 0);
        rig.destroy(kept);
    }
}

#[test]
fn small_textures_stand_4_kib_apart() {
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = rig(config) else { return };
        assert_4_kib_apart(&rig, [texture(16, 16); 8]);
    }
}

#[test]
fn small_textures_of_one_dimension_and_of_three_stand_4_kib_apart() {
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = rig(config) else { return };
        assert_4_kib_apart(&rig, [line(256), volume([8, 8, 8]), line(256), volume([16, 8, 8])]);
    }
}

#[test]
fn a_device_that_is_told_so_places_nothing_closer_than_the_api() {
    let device = |placement| {
        let config = Config::newest();
        Rig::with(
            config,
            |desc| desc.with_placement(placement),
            |desc| {
                desc.block_sizes = BlockSizes::fixed(64 * MIB);
            },
        )
    };
    let all = [buffer(100), texture(16, 16), several_samples(64, 64), line(256), volume([8, 8, 8])];
    for (placement, expected) in [
        (PlacementAlignment::WithoutTight, [0, 4 * KIB, 64 * KIB, 4 * KIB, 4 * KIB]),
        (PlacementAlignment::Standard, [0; 5]),
    ] {
        let Some(rig) = device(placement) else { return };
        let (kept, placed) = place(&rig, all);
        assert!(placed.iter().all(|(_, made)| !made.desc.Flags.contains(TIGHT)), "{placed:?}");
        let alignments: Vec<_> = placed.iter().map(|(_, made)| made.desc.Alignment).collect();
        assert_eq!(alignments, expected, "{placement:?}");
        rig.destroy(kept);
    }
}

#[test]
fn a_device_that_is_told_so_commits_each_texture_of_several_samples() {
    let told = |desc: DeviceDesc| desc.with_multisampled(Multisampled::Committed);
    let Some(rig) = Rig::with(Config::usual(), told, |_| {}) else { return };
    let make = |desc| rig.create_resource(&info(desc), &wish(MemoryUsage::GpuOnly)).unwrap();
    let kept = [several_samples(64, 64), target(64, 64), several_samples(1024, 1024)].map(make);
    let statistics = rig.statistics();
    assert_eq!((statistics.dedicated, statistics.blocks), (2, 1));
    rig.destroy(kept);
}

#[test]
fn an_allocator_or_a_pool_that_is_told_so_commits_each_resource() {
    let all = [buffer(100), texture(16, 16), target(64, 64), several_samples(64, 64)];
    let committed = |rig: &Rig, options: &AllocationOptions| {
        rig.runtime.calls();
        let kept = all.map(|desc| rig.create_resource(&info(desc), options).unwrap());
        let calls = rig.runtime.calls();
        rig.destroy(kept);
        calls.iter().filter(|call| matches!(call, Call::Committed { .. })).count()
    };
    let always = |desc: &mut AllocatorDesc| desc.dedicated = Dedicated::Always;
    let Some(rig) = Rig::with(Config::usual(), |desc| desc, always) else { return };
    assert_eq!(committed(&rig, &wish(MemoryUsage::GpuOnly)), all.len());
    drop(rig);
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let [default] = rig.types(|heap| heap.Type == D3D12_HEAP_TYPE_DEFAULT)[..] else { panic!() };
    let mut desc = PoolDesc::new([default]);
    desc.dedicated = Dedicated::Always;
    let pool = rig.create_pool(desc).unwrap();
    assert_eq!(committed(&rig, &wish(MemoryUsage::GpuOnly)), 0);
    assert_eq!(committed(&rig, &wish(MemoryUsage::GpuOnly).with_pool(&pool)), all.len());
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn nothing_asks_for_a_small_alignment_that_is_not_small() {
    // The checks of the runtime complain about each that does.
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = rig(config) else { return };
        let formats = [
            DXGI_FORMAT_R8_UNORM,
            DXGI_FORMAT_R8G8_UNORM,
            DXGI_FORMAT_R8G8B8A8_UNORM,
            DXGI_FORMAT_R16G16B16A16_FLOAT,
            DXGI_FORMAT_R32G32B32A32_FLOAT,
            DXGI_FORMAT_BC1_UNORM,
            DXGI_FORMAT_BC7_UNORM,
        ];
        let sides = [4, 8, 64, 124, 128, 132, 252, 256, 260, 512, 516, 1024, 4096];
        let mut small = 0;
        for format in formats {
            for width in sides {
                for height in sides {
                    let desc = D3D12_RESOURCE_DESC { Format: format, ..texture(width.into(), height) };
                    let requirements = rig.device().image_requirements(&info(desc)).unwrap();
                    small += u32::from(requirements.alignment.get() == 4 * KIB);
                }
            }
        }
        assert!(small > 100, "{small} are small");
        for format in formats {
            for side in [1, 4, 8, 12, 16, 17, 32, 33, 64, 65, 256] {
                for depth in [1, 4, 5, 8, 9, 16, 17, 256] {
                    let desc = D3D12_RESOURCE_DESC { Format: format, ..volume([side, side, depth]) };
                    let _ = rig.device().image_requirements(&info(desc));
                }
            }
            for width in [1, 4096, 4097, 8192, 8193, 16384] {
                let _ = rig
                    .device()
                    .image_requirements(&info(D3D12_RESOURCE_DESC { Format: format, ..line(width) }));
            }
        }
        for (width, height) in [(16, 16), (128, 128), (512, 512), (516, 512), (2048, 1024)] {
            for samples in [2, 4, 8] {
                let mut desc = several_samples(width, height);
                desc.SampleDesc.Count = samples;
                let _ = rig.device().image_requirements(&info(desc));
            }
        }
        for desc in [target(16, 16), depth(16, 16)] {
            let requirements = rig.device().image_requirements(&info(desc)).unwrap();
            assert_eq!(requirements.alignment.get(), 64 * KIB, "a target is never small");
        }
    }
}

#[test]
fn tight_alignment_is_used_where_it_is_offered() {
    let Some(rig) = rig(Config::newest()) else { return };
    let mut all = vec![buffer(100); 16];
    all.extend([texture(16, 16), target(64, 64), several_samples(64, 64), texture(1000, 1000)]);
    let (kept, placed) = place(&rig, all);
    assert!(placed.iter().all(|(_, made)| made.desc.Flags.contains(TIGHT)), "{placed:?}");
    assert!(placed.iter().all(|(_, made)| made.desc.Alignment == 0));
    let mut offsets: Vec<_> = placed[..16].iter().map(|(offset, _)| *offset).collect();
    offsets.sort_unstable();
    assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] == 256), "{offsets:?}");
    rig.destroy(kept);
}

#[test]
fn committed_resources_are_described_as_tightly_as_placed_ones() {
    let Some(rig) = rig(Config::newest()) else { return };
    let own = wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    for desc in [buffer(100), texture(16, 16), target(64, 64)] {
        let made = rig.create_resource(&info(desc), &own).unwrap();
        let calls = rig.runtime.calls();
        assert!(calls.iter().find_map(Call::resource).unwrap().desc.Flags.contains(TIGHT));
        rig.destroy([made]);
    }
}

#[test]
fn buffers_stand_where_every_view_of_them_may_begin() {
    // A runtime may say 8 bytes, of which the debug layer complains as soon as constants are read there.
    let Some(rig) = rig(Config { tight: Some(8), ..Config::newest() }) else { return };
    let (kept, placed) = place(&rig, [buffer(24), buffer(8), buffer(200), buffer(24)]);
    assert_eq!(placed.len(), 4);
    assert!(placed.iter().all(|(offset, _)| offset % 256 == 0), "{placed:?}");
    rig.destroy(kept);
}

#[test]
fn what_is_between_adapters_or_in_64_kib_tiles_is_not_tight() {
    let Some(rig) = rig(Config::newest()) else { return };
    let between = D3D12_RESOURCE_DESC {
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        Flags: D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER,
        ..texture(64, 64)
    };
    let of_layout = |layout| D3D12_RESOURCE_DESC { Layout: layout, ..texture(64, 64) };
    let tiled = [
        of_layout(D3D12_TEXTURE_LAYOUT_64KB_STANDARD_SWIZZLE),
        of_layout(D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE),
    ];
    for desc in [between].into_iter().chain(tiled) {
        // Not every machine has these layouts; the errors are checked all the same.
        if let Ok(requirements) = rig.device().image_requirements(&info(desc)) {
            assert_eq!(requirements.alignment.get(), 64 * KIB);
        }
    }
}

#[test]
fn a_given_alignment_is_kept() {
    for config in [Config::usual(), Config::newest()] {
        let Some(rig) = rig(config) else { return };
        let given = |desc| D3D12_RESOURCE_DESC { Alignment: 64 * KIB, ..desc };
        let (kept, placed) = place(&rig, [given(texture(16, 16)), given(buffer(100))]);
        for (offset, made) in placed {
            assert_eq!((offset % (64 * KIB), made.desc.Alignment), (0, 64 * KIB));
            assert!(!made.desc.Flags.contains(TIGHT));
        }
        rig.destroy(kept);
    }
}

#[test]
fn a_runtime_without_tight_alignment_never_hears_of_it() {
    for config in [Config::oldest(), Config::usual(), Config::usual().integrated()] {
        let Some(rig) = rig(config) else { return };
        let all = [buffer(100), texture(16, 16), target(64, 64), depth(64, 64), several_samples(64, 64)];
        let (kept, placed) = place(&rig, all);
        assert_eq!(placed.len(), all.len());
        assert!(placed.iter().all(|(_, made)| !made.desc.Flags.contains(TIGHT)));
        rig.destroy(kept);
    }
}
