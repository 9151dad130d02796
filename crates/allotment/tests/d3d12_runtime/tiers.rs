//! The resources that one heap may contain: on tier 1 buffers, targets and other textures in separate heaps, on
//! tier 2 all of them.

use std::collections::{BTreeMap, BTreeSet};

use allotment::MemoryUsage;
use allotment::memory::RawResource;
use allotment::memory::d3d12::AllocatorExt as _;
use windows::Win32::Graphics::Direct3D12::*;

use crate::rig::{Config, Rig, buffer, depth, info, several_samples, target, texture, wish};
use crate::runtime::calls::{Call, Made};
use crate::runtime::checks::CLASS;

/// Numbers that look random, and are the same every time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn class(made: &Made) -> &'static str {
    let targets = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET.0 | D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0;
    if made.desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER {
        "buffer"
    } else if made.desc.Flags.0 & targets != 0 {
        "target"
    } else {
        "texture"
    }
}

/// Makes and destroys resources of all kinds, and returns which classes each heap contained.
fn classes_by_heap(rig: &Rig, steps: u32) -> BTreeMap<usize, BTreeSet<&'static str>> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut kept: Vec<RawResource<ID3D12Resource>> = Vec::new();
    let mut heaps: BTreeMap<usize, BTreeSet<_>> = BTreeMap::new();
    for _ in 0..steps {
        if kept.len() > 150 {
            let gone = kept.swap_remove(numbers.below(kept.len() as u64) as usize);
            rig.destroy([gone]);
        }
        let [width, height] = [1 + numbers.below(300), 1 + numbers.below(300)];
        let storage = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
        let (described, memory_usage) = match numbers.below(8) {
            0 => (buffer(width * height), MemoryUsage::GpuOnly),
            1 => (buffer(width * height), MemoryUsage::Upload),
            2 => (buffer(width * height), MemoryUsage::Readback),
            3 => (buffer(width), MemoryUsage::DeviceUpload),
            4 => (target(width, height as u32), MemoryUsage::GpuOnly),
            5 => (depth(width, height as u32), MemoryUsage::Transient),
            6 => (
                D3D12_RESOURCE_DESC { Flags: storage, ..texture(width, height as u32) },
                MemoryUsage::GpuOnly,
            ),
            _ => (texture(width, height as u32), MemoryUsage::GpuOnly),
        };
        kept.push(rig.create_resource(&info(described), &wish(memory_usage)).unwrap());
        for call in rig.runtime.calls() {
            if let Call::Placed { heap_id, resource, heap, .. } = call {
                let seen = heaps.entry(heap_id).or_default();
                // An address is another heap's once the first is gone.
                let only = heap.Flags.0 & CLASS;
                seen.insert(class(&resource));
                assert!(only == 0 || seen.len() == 1 || rig.runtime.config.tier.0 == 2, "{seen:?}");
            }
        }
    }
    rig.destroy(kept);
    heaps
}

fn keep_blocks(desc: &mut allotment::AllocatorDesc) {
    // Heaps are identified by their addresses, which must not be reused.
    desc.empty_blocks = allotment::memory::blocks::EmptyBlockPolicy::default();
    desc.empty_blocks.frames = u32::MAX;
    desc.empty_blocks.kept_bytes = u64::MAX;
}

#[test]
fn heaps_of_tier_1_take_one_class_of_resources_each() {
    let Some(rig) = Rig::with(Config::oldest(), |desc| desc, keep_blocks) else { return };
    let heaps = classes_by_heap(&rig, 3000);
    assert!(heaps.values().all(|classes| classes.len() == 1), "{heaps:?}");
    let all: BTreeSet<_> = heaps.values().flatten().copied().collect();
    assert_eq!(all.len(), 3, "{all:?}");
}

#[test]
fn heaps_of_tier_1_take_one_class_each_where_all_memory_is_one() {
    let config = Config::oldest().integrated();
    let Some(rig) = Rig::with(config, |desc| desc, keep_blocks) else { return };
    let heaps = classes_by_heap(&rig, 1000);
    assert!(heaps.values().all(|classes| classes.len() == 1), "{heaps:?}");
}

#[test]
fn heaps_of_tier_2_take_resources_of_all_classes() {
    for config in [Config::usual(), Config::newest()] {
        let Some(rig) = Rig::with(config, |desc| desc, keep_blocks) else { return };
        let heaps = classes_by_heap(&rig, 1000);
        assert!(heaps.values().any(|classes| classes.len() == 3), "{heaps:?}");
    }
}

#[test]
fn a_device_of_tier_2_can_be_kept_to_tier_1() {
    let keep = |desc: allotment::device::d3d12::DeviceDesc| desc.with_max_tier(D3D12_RESOURCE_HEAP_TIER_1);
    let Some(rig) = Rig::with(Config::usual(), keep, keep_blocks) else { return };
    let heaps = classes_by_heap(&rig, 1000);
    assert!(heaps.values().all(|classes| classes.len() == 1), "{heaps:?}");
}

#[test]
fn custom_heaps_of_tier_1_take_one_class_each() {
    let system = D3D12_HEAP_PROPERTIES {
        Type: D3D12_HEAP_TYPE_CUSTOM,
        CPUPageProperty: D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE,
        MemoryPoolPreference: D3D12_MEMORY_POOL_L0,
        CreationNodeMask: 1,
        VisibleNodeMask: 1,
    };
    let Some(rig) = Rig::with(Config::oldest(), |desc| desc.with_custom_heap(system), keep_blocks) else {
        return;
    };
    let custom = rig.types(|heap| heap.Type == D3D12_HEAP_TYPE_CUSTOM);
    assert_eq!(custom.len(), 3, "one a class");
    let kinds = [buffer(1000), target(64, 64), texture(64, 64), depth(64, 64)];
    let mut heaps: BTreeMap<usize, BTreeSet<_>> = BTreeMap::new();
    let mut kept = Vec::new();
    for described in kinds {
        let mut desc = wish(MemoryUsage::GpuOnly);
        desc.memory_types.0 = custom.iter().fold(0, |mask, index| mask | 1 << index.0);
        kept.push(rig.create_resource(&info(described), &desc).unwrap());
    }
    for call in rig.runtime.calls() {
        if let Call::Placed { heap_id, resource, heap, .. } = call {
            assert_eq!(heap.Properties, system);
            heaps.entry(heap_id).or_default().insert(class(&resource));
        }
    }
    assert_eq!(heaps.len(), 3, "{heaps:?}");
    rig.destroy(kept);
}

#[test]
fn multisampled_targets_share_heaps_of_tier_2_with_everything_else() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let kinds = [several_samples(1024, 1024), buffer(1000), texture(64, 64), several_samples(64, 64)];
    let kept: Vec<_> = kinds
        .iter()
        .map(|described| rig.create_resource(&info(*described), &wish(MemoryUsage::GpuOnly)).unwrap())
        .collect();
    rig.destroy(kept);
}
