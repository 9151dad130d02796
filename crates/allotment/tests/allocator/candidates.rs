//! Which memory type each memory usage gets on each machine, in which order others follow, and why.

use allotment::device::{DedicatedNeed, MemoryProperties, MemoryTypeIndex, MemoryTypeMask};
use allotment::memory::Dedicated;
use allotment::memory::names::ShortName;
use allotment::memory::preview::Suitability;
use allotment::{AllocationError, MemoryUsage, ResourceKind};

use crate::rig::{
    AllocateWanted as _, DISCRETE, FINE, MIB, MOBILE, Rig, Wanted, fixed_pool, profile, wanted,
};

/// For each machine, the memory types that each memory usage tries, in [`MemoryUsage::ALL`]'s order.
const ORDERS: [(&str, [&[u8]; 6]); 10] = [
    ("discrete-large-bar", [&[0, 3, 1, 2], &[1, 2, 3], &[2, 1, 3], &[3, 0, 1, 2], &[0, 3, 1, 2], &[3, 1, 2]]),
    ("discrete-small-bar", [&[0, 3, 1, 2], &[1, 2, 3], &[2, 1, 3], &[3, 0, 1, 2], &[0, 3, 1, 2], &[3, 1, 2]]),
    ("discrete-no-bar", [&[0, 1, 2], &[1, 2], &[2, 1], &[0, 1, 2], &[0, 1, 2], &[1, 2]]),
    ("integrated", [&[0, 1], &[0, 1], &[1, 0], &[0, 1], &[0, 1], &[0, 1]]),
    ("mobile", [&[0, 1], &[0, 1], &[1, 0], &[0, 1], &[2, 0, 1], &[0, 1]]),
    // No resource of the device is where queues only read or only write; no upload where they only
    // write, no readback where they only read.
    ("d3d12-tier-1", [&[0, 1, 2], &[3], &[4], &[0, 1, 2, 3], &[0, 1, 2], &[3]]),
    ("d3d12-tier-2", [&[0, 3], &[1, 3], &[2, 3], &[3, 0, 1], &[0, 3], &[3, 1]]),
    ("d3d12-uma", [&[0], &[1], &[2], &[1, 0], &[0], &[1]]),
    (
        "nvidia-h200",
        [&[1, 4, 0, 2, 3], &[2, 3, 4], &[3, 2, 4], &[4, 1, 2, 3, 0], &[1, 4, 0, 2, 3], &[4, 2, 3]],
    ),
    ("lavapipe", [&[0], &[0], &[0], &[0], &[0], &[0]]),
];

#[test]
fn each_intent_gets_its_memory_type_on_each_machine_and_falls_back_in_order() {
    for (name, orders) in ORDERS {
        for (memory_usage, expected) in MemoryUsage::ALL.into_iter().zip(orders) {
            let rig = Rig::new(name);
            let mut desc = wanted(1024, memory_usage);
            let suits = |verdict| matches!(verdict, Suitability::Suitable { .. });
            let explained: Vec<u8> = rig
                .explain_wanted(&desc)
                .iter()
                .filter(|c| suits(c.suitability))
                .map(|c| c.memory_type.0)
                .collect();
            assert_eq!(explained, expected, "{memory_usage} on {name}");
            for &best in expected {
                let allocation = rig.allocate_wanted(&desc).unwrap();
                assert_eq!(rig.type_of(&allocation).0, best, "{memory_usage} on {name}");
                rig.free(allocation).unwrap();
                // As if the best type had no room left.
                desc.requirements.memory_types.0 &= !(1 << best);
            }
            let none = rig.allocate_wanted(&desc).unwrap_err();
            let allowed = desc.requirements.memory_types;
            assert_eq!(
                none,
                AllocationError::NoMemoryType { allowed, memory_usage, name: ShortName::NONE },
                "{memory_usage} on {name}"
            );
        }
    }
}

fn reasons(name: &str, memory_usage: MemoryUsage) -> Vec<String> {
    Rig::new(name).explain_wanted(&wanted(1, memory_usage)).iter().map(|choice| choice.to_string()).collect()
}

#[test]
fn the_reasons_say_what_is_missing_what_is_unwanted_and_what_must_be_asked_for() {
    assert_eq!(
        reasons(MOBILE, MemoryUsage::GpuOnly),
        [
            "type 0 (device-local, host-visible, host-coherent; heap 0): suitable at cost 2, \
             has unwanted host-visible",
            "type 1 (device-local, host-visible, host-cached; heap 0): suitable at cost 6, \
             has unwanted host-visible, host-cached",
            "type 2 (device-local, lazily-allocated; heap 0): is lazily-allocated, which a request must \
             require explicitly",
        ]
    );
    assert_eq!(
        reasons(MOBILE, MemoryUsage::Readback)[0],
        "type 1 (device-local, host-visible, host-cached; heap 0): suitable at cost 9, lacks \
         host-coherent, has unwanted device-local"
    );
    assert_eq!(
        reasons(FINE, MemoryUsage::Upload)[3..],
        [
            "type 0 (no properties; heap 0): lacks required host-visible",
            "type 1 (device-local; heap 1): lacks required host-visible",
        ]
    );
}

#[test]
fn a_type_that_the_resource_or_the_allocator_rules_out_is_explained_as_such() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.memory_types = MemoryTypeMask(0b0111));
    let mut desc = wanted(1, MemoryUsage::DeviceUpload);
    desc.requirements.memory_types = MemoryTypeMask(0b1110);
    let verdicts: Vec<_> =
        rig.explain_wanted(&desc).iter().map(|c| (c.memory_type.0, c.suitability)).collect();
    assert!(verdicts[2..].iter().all(|&(_, verdict)| verdict == Suitability::NotAllowed), "{verdicts:?}");
    assert_eq!(
        rig.explain_wanted(&desc)[2].suitability.to_string(),
        "not allowed by the resource's memory type bits"
    );
    let allocation = rig.allocate_wanted(&desc).unwrap();
    assert_eq!(rig.type_of(&allocation), MemoryTypeIndex(1));
    rig.free(allocation).unwrap();
}

#[test]
fn required_preferred_and_avoided_properties_override_the_intent() {
    let rig = Rig::new(DISCRETE);
    let type_of = |change: fn(&mut Wanted)| {
        let mut desc = wanted(1024, MemoryUsage::GpuOnly);
        change(&mut desc);
        rig.allocate_wanted(&desc).map(|allocation| {
            let memory_type = rig.type_of(&allocation).0;
            rig.free(allocation).unwrap();
            memory_type
        })
    };
    assert_eq!(type_of(|_| {}), Ok(0));
    assert_eq!(type_of(|desc| desc.required = MemoryProperties::HOST_VISIBLE), Ok(3));
    assert_eq!(type_of(|desc| desc.required = MemoryProperties::HOST_CACHED), Ok(2));
    assert_eq!(type_of(|desc| desc.preferred = MemoryProperties::HOST_VISIBLE), Ok(3));
    assert_eq!(type_of(|desc| desc.avoided = MemoryProperties::DEVICE_LOCAL), Ok(1));
    const REQUIRED: MemoryProperties = MemoryProperties::PROTECTED;
    let none = type_of(|desc| desc.required = REQUIRED).unwrap_err();
    assert!(matches!(none, AllocationError::NoTypeWithProperties { required: REQUIRED, .. }));
}

#[test]
fn a_refusal_blames_what_rules_all_memory_types_out() {
    let rig = Rig::new("discrete-no-bar");
    let refused = |change: &dyn Fn(&mut Wanted)| {
        let mut desc = wanted(MIB, MemoryUsage::Upload);
        change(&mut desc);
        let refused = rig.allocate_wanted(&desc).unwrap_err();
        assert_eq!(rig.reserve_wanted(&desc, MIB).unwrap_err(), refused);
        refused.to_string()
    };
    let protected = refused(&|desc| desc.required = MemoryProperties::PROTECTED);
    assert!(protected.contains("is protected") && !protected.contains("memory_usage"), "{protected}");
    // There is device-local memory, but none that the CPU can write.
    let local = refused(&|desc| desc.required = MemoryProperties::DEVICE_LOCAL);
    assert!(local.contains("memory usage \"upload\""), "{local}");
    let nowhere = refused(&|desc| desc.requirements.memory_types = MemoryTypeMask(0));
    assert!(nowhere.contains("allowed by both the resource and the request"), "{nowhere}");
    let device_only = refused(&|desc| desc.requirements.memory_types = MemoryTypeMask(1));
    assert!(device_only.contains("memory usage \"upload\""), "{device_only}");
}

#[test]
fn lazily_allocated_memory_is_for_who_names_it_or_is_a_transient_attachment() {
    let rig = Rig::new(MOBILE);
    let lazy = MemoryTypeIndex(2);
    let attachment = rig.allocate_wanted(&wanted(MIB, MemoryUsage::Transient)).unwrap();
    let mut desc = wanted(MIB, MemoryUsage::GpuOnly);
    desc.required = MemoryProperties::LAZILY_ALLOCATED;
    let named = rig.allocate_wanted(&desc).unwrap();
    assert_eq!((rig.type_of(&attachment), rig.type_of(&named)), (lazy, lazy));
    let mut desc = wanted(MIB, MemoryUsage::GpuOnly);
    desc.requirements.memory_types = MemoryTypeMask(1 << lazy.0);
    assert!(matches!(rig.allocate_wanted(&desc), Err(AllocationError::NoMemoryType { .. })));
    rig.free_all([attachment, named]);
}

/// The memory types that suit, and what was thought of each. Queues only read type 1, and only write type 2.
fn on_tier_2(change: impl FnOnce(&mut Wanted), memory_usage: MemoryUsage) -> (Vec<u8>, [String; 4]) {
    let rig = Rig::new("d3d12-tier-2");
    let mut desc = wanted(1024, memory_usage);
    change(&mut desc);
    let choices = rig.explain_wanted(&desc);
    let suits = choices.iter().filter(|choice| matches!(choice.suitability, Suitability::Suitable { .. }));
    let verdict = |memory_type| choices.iter().find(|c| c.memory_type.0 == memory_type).unwrap().suitability;
    (suits.map(|choice| choice.memory_type.0).collect(), [0, 1, 2, 3].map(|t| verdict(t).to_string()))
}

const ONLY_READ: &str = "is device-read-only, which a request must require explicitly";
const ONLY_WRITTEN: &str = "is device-write-only, which a request must require explicitly";

#[test]
fn what_queues_cannot_do_costs_nothing_where_the_intent_can_live_with_it_and_is_a_reason_elsewhere() {
    let texts = |memory_usage| {
        let [_, read, written, _] = on_tier_2(|_| {}, memory_usage).1;
        [read, written]
    };
    for memory_usage in [MemoryUsage::GpuOnly, MemoryUsage::Transient] {
        assert_eq!(texts(memory_usage), [ONLY_READ, ONLY_WRITTEN], "{memory_usage}");
    }
    let fits = "suitable";
    assert_eq!(texts(MemoryUsage::Upload), [fits, ONLY_WRITTEN]);
    assert_eq!(texts(MemoryUsage::Readback), [ONLY_READ, fits]);
    let far = "suitable at cost 8, lacks device-local";
    assert_eq!(texts(MemoryUsage::DeviceUpload), [far, ONLY_WRITTEN]);
}

#[test]
fn memory_that_queues_only_read_or_only_write_is_for_who_names_it() {
    let [read, write] = [MemoryProperties::DEVICE_READ_ONLY, MemoryProperties::DEVICE_WRITE_ONLY];
    for memory_usage in [MemoryUsage::GpuOnly, MemoryUsage::Transient] {
        let (suits, texts) = on_tier_2(|desc| desc.preferred = read, memory_usage);
        assert_eq!(suits, [0, 3, 1], "{memory_usage}: allowed, and no reason to leave device memory");
        assert_eq!(texts[2], ONLY_WRITTEN);
        assert_eq!(on_tier_2(|desc| desc.required = read, memory_usage).0, [1]);
        assert_eq!(on_tier_2(|desc| desc.preferred = write, memory_usage).0, [0, 3, 2]);
        assert_eq!(on_tier_2(|desc| desc.required = write, memory_usage).0, [2]);
        assert_eq!(on_tier_2(|desc| desc.preferred = read | write, memory_usage).0, [0, 3, 1, 2]);
    }
    let (_, texts) = on_tier_2(|desc| desc.preferred = read, MemoryUsage::GpuOnly);
    assert_eq!(texts[1], "suitable at cost 10, lacks device-local, has unwanted host-visible");
    assert_eq!(texts[3], "suitable at cost 2, has unwanted host-visible", "a limit is nothing to lack");
}

#[test]
fn who_avoids_memory_that_queues_only_read_or_only_write_gets_none_of_it() {
    let [read, write] = [MemoryProperties::DEVICE_READ_ONLY, MemoryProperties::DEVICE_WRITE_ONLY];
    assert_eq!(on_tier_2(|desc| desc.avoided = read, MemoryUsage::Upload).0, [3]);
    assert_eq!(on_tier_2(|desc| desc.avoided = read, MemoryUsage::DeviceUpload).0, [3, 0]);
    assert_eq!(on_tier_2(|desc| desc.avoided = write, MemoryUsage::Readback).0, [3]);
}

#[test]
fn when_device_memory_is_full_nothing_falls_into_memory_that_queues_only_read_or_only_write() {
    let mut small = profile("d3d12-tier-2");
    small.heaps[0].size = 8 * MIB;
    let rig = Rig::with(small, |_| {});
    let all = rig.allocate_wanted(&wanted(8 * MIB, MemoryUsage::GpuOnly)).unwrap();
    for memory_usage in [MemoryUsage::GpuOnly, MemoryUsage::Transient] {
        assert!(
            rig.allocate_wanted(&wanted(MIB, memory_usage)).is_err(),
            "{memory_usage}: and there is room in the other heap"
        );
    }
    let written = rig.allocate_wanted(&wanted(MIB, MemoryUsage::DeviceUpload)).unwrap();
    assert_eq!(rig.type_of(&written), MemoryTypeIndex(1), "the device only reads it");
    rig.free_all([all, written]);
}

#[test]
fn a_custom_pool_is_where_it_was_told_to_be_whatever_queues_can_do_there() {
    let rig = Rig::new("d3d12-tier-2");
    for memory_type in [1, 2].map(MemoryTypeIndex) {
        let pool = rig.create_pool(fixed_pool(memory_type, MIB)).unwrap();
        let allocation = rig.allocate_wanted_in(&pool, &wanted(1024, MemoryUsage::GpuOnly)).unwrap();
        assert_eq!(rig.type_of(&allocation), memory_type);
        rig.free(allocation).unwrap();
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn on_the_first_heap_tier_buffers_and_images_get_the_types_that_take_them() {
    let rig = Rig::new("d3d12-tier-1");
    let needs = |kind| rig.device.requirements(kind, allotment::Requirements::new(100));
    for (kind, expected) in [(ResourceKind::Buffer, 0), (ResourceKind::OptimalImage, 1)] {
        let mut desc = wanted(1, MemoryUsage::GpuOnly).with_kind(kind);
        desc.requirements = needs(kind);
        let allocation = rig.allocate_wanted(&desc).unwrap();
        assert_eq!(rig.type_of(&allocation).0, expected);
        assert_eq!(
            rig.location(&allocation).unwrap().size,
            65536,
            "resources are rounded to their placement"
        );
        rig.free(allocation).unwrap();
    }
    let mut desc = wanted(1, MemoryUsage::Upload);
    desc.requirements = needs(ResourceKind::OptimalImage);
    assert!(matches!(rig.allocate_wanted(&desc), Err(AllocationError::NoMemoryType { .. })));
}

#[test]
fn what_the_resource_says_of_dedicated_memory_is_heeded() {
    let rig = Rig::new(DISCRETE);
    let with = |need, wish| {
        let mut desc = wanted(1024, MemoryUsage::GpuOnly).with_dedicated(wish);
        desc.requirements.dedicated = need;
        rig.allocate_wanted(&desc).map(|allocation| {
            let dedicated = rig.is_dedicated(&allocation);
            rig.free(allocation).unwrap();
            dedicated
        })
    };
    assert_eq!(with(DedicatedNeed::None, Dedicated::Automatic), Ok(false));
    assert_eq!(with(DedicatedNeed::Preferred, Dedicated::Automatic), Ok(true));
    assert_eq!(with(DedicatedNeed::Required, Dedicated::Automatic), Ok(true));
    assert_eq!(with(DedicatedNeed::None, Dedicated::Always), Ok(true));
    assert_eq!(with(DedicatedNeed::Preferred, Dedicated::Never), Ok(false));
    assert!(with(DedicatedNeed::Required, Dedicated::Never).is_err());
}
