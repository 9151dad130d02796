//! The JSON dump of an allocator: in the schema that existing viewers read, and in agreement with the statistics.
//!
//! It is here, and not with the library's other tests, since the export of a recording has the same schema, and what checks it
//! is built of 45 crates.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

#[path = "../../allotment/tests/allocator/rig.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod rig;
mod schema;

use allotment::device::simulated::Profile;
use allotment::device::{BufferDesc, MemoryTypeIndex};
use allotment::memory::blocks::BlockSize;
use allotment::memory::reports::Statistics;
use allotment::memory::{Dedicated, ExpectedLifetime};
use allotment::{Algorithm, Allocation, MemoryUsage, Pool, PoolDesc, ResourceKind};
use schema::{SCHEMA, number, pools};
use serde_json::Value;

use rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, KIB, MIB, MOBILE, Rig, aligned, fixed_pool, small_blocks,
    wanted,
};

/// The dump, if it keeps to the schema.
fn dump(rig: &Rig) -> Value {
    schema::checked(&rig.reports().dump_json())
}

/// Walks the dump as a viewer does, and returns what it adds up to.
fn add_up(dump: &Value) -> Statistics {
    let mut sum = Statistics::default();
    for pool in pools(dump) {
        for block in pool["Blocks"].as_object().unwrap().values() {
            let (mut end, mut free, mut free_ranges, mut count) = (0, 0, 0, 0);
            for range in block["Suballocations"].as_array().unwrap() {
                assert_eq!(number(range, "Offset"), end, "ranges lie side by side");
                let size = number(range, "Size");
                end += size;
                match (range["Type"].as_str().unwrap(), range["Name"].as_str()) {
                    ("FREE", _) => (free, free_ranges) = (free + size, free_ranges + 1),
                    ("UNKNOWN", Some("padding")) => sum.padding += size,
                    _ => (count, sum.allocation_bytes) = (count + 1, sum.allocation_bytes + size),
                }
            }
            assert_eq!((end, free), (number(block, "TotalBytes"), number(block, "UnusedBytes")));
            assert_eq!((count, free_ranges), (number(block, "Allocations"), number(block, "UnusedRanges")));
            sum.blocks += 1;
            sum.allocations += count as u32;
            sum.block_bytes += end;
        }
        for dedicated in pool["DedicatedAllocations"].as_array().unwrap() {
            sum.dedicated += 1;
            sum.allocations += 1;
            sum.block_bytes += number(dedicated, "Size");
            sum.allocation_bytes += number(dedicated, "Size");
        }
    }
    sum
}

/// The dump keeps to the schema, and all its sums are those of the statistics.
fn check(rig: &Rig) -> Value {
    let dump = dump(rig);
    let (total, statistics, walked) = (&dump["Total"], rig.statistics(), add_up(&dump));
    let objects = u64::from(statistics.blocks + statistics.dedicated);
    assert_eq!(number(total, "BlockCount"), objects);
    assert_eq!(number(total, "BlockBytes"), statistics.block_bytes);
    assert_eq!(number(total, "AllocationCount"), u64::from(statistics.allocations));
    assert_eq!(number(total, "AllocationBytes"), statistics.allocation_bytes);
    assert_eq!((walked.allocations, walked.block_bytes), (statistics.allocations, statistics.block_bytes));
    assert_eq!(u64::from(walked.blocks + walked.dedicated), objects);
    let taken = statistics.allocation_bytes + statistics.rounding + statistics.padding;
    assert_eq!(walked.allocation_bytes + walked.padding, taken);

    let mut of_heaps = 0;
    for (i, report) in rig.reports().memory_heaps().iter().enumerate() {
        let heap = &dump["MemoryInfo"][format!("Heap {i}")];
        assert_eq!(number(&heap["Stats"], "BlockBytes"), report.reserved);
        assert_eq!(number(&heap["Budget"], "UsageBytes"), report.usage);
        assert_eq!(number(&heap["Budget"], "BudgetBytes"), report.budget);
        let types = heap["MemoryPools"].as_object().unwrap().values();
        let of_types: u64 = types.map(|of_type| number(&of_type["Stats"], "BlockBytes")).sum();
        assert_eq!(of_types, report.reserved);
        of_heaps += of_types;
    }
    assert_eq!(of_heaps, statistics.block_bytes);
    dump
}

/// A bit of everything.
fn busy(rig: &Rig) -> (Vec<Allocation>, Vec<Pool>) {
    let mut got = Vec::new();
    for i in 0..40_u64 {
        let mut desc = wanted(100 + i * 777, MemoryUsage::ALL[i as usize % 5]);
        desc.requirements.kind = [
            ResourceKind::Buffer,
            ResourceKind::OptimalImage,
            ResourceKind::LinearImage,
            ResourceKind::Unknown,
        ][i as usize % 4];
        desc.lifetime = [ExpectedLifetime::Long, ExpectedLifetime::Short][i as usize / 4 % 2];
        desc.requirements.alignment = aligned(1, 1 << (i % 12)).alignment;
        desc.name = (i % 3 == 0).then(|| format!("resource {i}").into());
        desc.user_data = i;
        got.push(rig.allocate_wanted(&desc).unwrap());
    }
    got.push(rig.allocate_wanted(&wanted(30 * MIB, MemoryUsage::GpuOnly)).unwrap());
    got.push(
        rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload).with_dedicated(Dedicated::Always)).unwrap(),
    );
    let spare = rig.allocate_wanted(&wanted(50 * MIB, MemoryUsage::Upload)).unwrap();
    rig.free(spare).unwrap();

    let mut pools = Vec::new();
    for algorithm in Algorithm::ALL {
        let mut desc = PoolDesc::new([DEVICE_TYPE]);
        desc.algorithm = algorithm;
        desc.sizing = Some(BlockSize::Growing(small_blocks(64 * KIB, 64 * KIB)));
        let pool = rig.create_pool(desc).unwrap();
        for i in 0..20 {
            let mut desc = wanted(1000 + i * 333, MemoryUsage::GpuOnly);
            desc.requirements = aligned(1000 + i * 333, 1 << (i % 10));
            got.push(rig.allocate_wanted_in(&pool, &desc).unwrap());
        }
        pools.push(pool);
    }
    (got, pools)
}

#[test]
fn a_dump_keeps_to_the_schema_and_adds_up_on_every_machine_empty_and_full() {
    for profile in Profile::all() {
        let rig = Rig::new(profile.name);
        check(&rig);
        let (got, pools) = busy(&rig);
        check(&rig);
        // Every second one gone, so that there are holes.
        let (even, odd): (Vec<_>, Vec<_>) = got.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
        rig.free_all(even.into_iter().map(|(_, allocation)| allocation));
        check(&rig);
        rig.free_all(odd.into_iter().map(|(_, allocation)| allocation));
        check(&rig);
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
        rig.trim();
        let dump = check(&rig);
        assert_eq!(pools_in(&dump), 0);
    }
}

fn pools_in(dump: &Value) -> usize {
    pools(dump).count()
}

#[test]
fn names_and_data_are_shown_whatever_is_in_them() {
    let rig = Rig::new(DISCRETE);
    let name = "a \"quoted\" name\\ with\nlines, \u{1}control\u{1f} and ünïcödé 🎮";
    let mut desc =
        wanted(KIB, MemoryUsage::GpuOnly).with_name(String::from(name)).with_dedicated(Dedicated::Always);
    desc.user_data = 0xabcd;
    let allocation = rig.allocate_wanted(&desc).unwrap();
    let dump = check(&rig);
    let shown = &dump["DefaultPools"]["Type 0"]["DedicatedAllocations"][0];
    assert_eq!((shown["Name"].as_str(), shown["CustomData"].as_str()), (Some(name), Some("abcd")));
    rig.free(allocation).unwrap();
}

/// Viewers draw the pools of a memory type by name: of two with the same one would be lost.
#[test]
fn every_custom_pool_of_a_memory_type_has_a_name_of_its_own() {
    let rig = Rig::new(DISCRETE);
    let make = |name: Option<&'static str>| {
        let mut desc = fixed_pool(DEVICE_TYPE, KIB);
        (desc.name, desc.min_blocks) = (name.map(Into::into), 1);
        rig.create_pool(desc).unwrap()
    };
    let pools = [None, None, Some("terrain"), Some("terrain")].map(make);
    let dump = check(&rig);
    let shown = dump["CustomPools"]["Type 0"].as_array().unwrap();
    let mut names: Vec<_> = shown.iter().map(|pool| pool["Name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.contains("terrain")).count(), 2);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
    pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
}

#[test]
fn a_pool_over_two_memory_types_is_shown_under_both() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([0, 1].map(MemoryTypeIndex));
    (desc.sizing, desc.name) = (Some(BlockSize::Fixed(64 * KIB)), Some("both".into()));
    let pool = rig.create_pool(desc).unwrap();
    let mut wish = wanted(KIB, MemoryUsage::GpuOnly);
    let first = rig.allocate_wanted_in(&pool, &wish).unwrap();
    wish.requirements.memory_types.0 = 0b10;
    let second = rig.allocate_wanted_in(&pool, &wish).unwrap();
    let dump = check(&rig);
    for memory_type in ["Type 0", "Type 1"] {
        let shown = &dump["CustomPools"][memory_type][0];
        assert!(shown["Name"].as_str().unwrap().contains("both"));
        assert_eq!(number(&shown["Blocks"]["0"], "Allocations"), 1);
    }
    rig.free_all([first, second]);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn the_device_its_limits_and_its_flags_are_told() {
    let rig = Rig::new(MOBILE);
    let buffer = rig.create_buffer(&BufferDesc::new(KIB), &wanted(1, MemoryUsage::Upload)).unwrap();
    let dump = check(&rig);
    assert_eq!(dump["General"]["GPU"], "simulated mobile");
    assert_eq!(number(&dump["General"], "nonCoherentAtomSize"), 64);
    let heap = &dump["MemoryInfo"]["Heap 0"];
    assert_eq!((&heap["Flags"][0], number(heap, "Size")), (&Value::from("DEVICE_LOCAL"), 4 << 30));
    let flags = &heap["MemoryPools"]["Type 2"]["Flags"];
    assert_eq!(*flags, Value::from(vec!["DEVICE_LOCAL", "LAZILY_ALLOCATED"]));
    let block = &dump["DefaultPools"]["Type 0"]["Blocks"]["0"];
    assert_eq!(number(block, "MapRefCount"), 1, "mapped once and for all");
    rig.destroy_buffer(buffer).unwrap();
}

/// The schema would be no test if it let everything pass.
#[test]
fn the_schema_refuses_what_a_viewer_would_stumble_over() {
    let rig = Rig::new(DISCRETE);
    let allocation = rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    let good = dump(&rig);
    let validator = jsonschema::draft202012::new(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let range = "/DefaultPools/Type 0/Blocks/0/Suballocations/0";
    let breaks = |pointer: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        !validator.is_valid(&bad)
    };
    assert!(validator.is_valid(&good));
    assert!(breaks("/General/API", "Metal".into()));
    assert!(breaks(&format!("{range}/Type"), "PADDING".into()));
    assert!(breaks(&format!("{range}/Size"), "big".into()));
    assert!(breaks("/Total", Value::Null));
    assert!(breaks("/Total/AllocationCount", 0.into()), "there are extremes of nothing");
    assert!(breaks("/DefaultPools/Type 0/DedicatedAllocations", Value::Null));
    rig.free(allocation).unwrap();
}
