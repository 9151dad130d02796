//! Reports of an allocator: leaks, statistics, heaps, blocks.

use std::sync::{Arc, Mutex};

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{MemoryHeapIndex, MemoryTypeIndex};
use allotment::memory::Dedicated;
use allotment::memory::names::Name;
use allotment::memory::reports::{CallSites, LeakHandler, LeakReport, Statistics};
use allotment::{Algorithm, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, ResourceKind};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, FINE, KIB, MIB, Rig, fixed_pool, profile, wanted, wanted_in,
};

/// An allocator that writes down what it reports when it goes.
fn watched() -> (SimulatedGpu, Allocator<SimulatedGpu>, Arc<Mutex<Vec<LeakReport>>>) {
    let device = SimulatedGpu::new(profile(DISCRETE));
    let reports = Arc::new(Mutex::new(Vec::new()));
    let mut desc = AllocatorDesc::default();
    let kept = Arc::clone(&reports);
    desc.call_sites = CallSites::None;
    desc.on_leak =
        LeakHandler::Call(Arc::new(move |report: &LeakReport| kept.lock().unwrap().push(report.clone())));
    (device.clone(), Allocator::new(device, desc).unwrap(), reports)
}

#[test]
fn what_was_forgotten_is_reported_by_name_largest_first_and_given_back_all_the_same() {
    let (device, allocator, reports) = watched();
    let mut desc = fixed_pool(DEVICE_TYPE, MIB);
    desc.name = Some("terrain".into());
    let pool = allocator.create_pool(desc).unwrap();
    let small = wanted(100, MemoryUsage::Upload).with_name("constants").with_category("frame");
    drop(allocator.allocate_wanted(&small).unwrap());
    let large = wanted(30 * MIB, MemoryUsage::GpuOnly).with_kind(ResourceKind::OptimalImage);
    drop(allocator.allocate_wanted(&large).unwrap());
    drop(allocator.allocate_wanted_in(&pool, &wanted(KIB, MemoryUsage::GpuOnly).with_name("tile")).unwrap());
    let freed = allocator.allocate_wanted(&wanted(MIB, MemoryUsage::GpuOnly).with_name("freed")).unwrap();
    allocator.free(freed).unwrap();

    assert_eq!(allocator.reports().leaks().len(), 3);
    drop(allocator);
    assert_eq!(device.usage().memory_objects, 0);
    let reports = reports.lock().unwrap();
    assert_eq!(
        reports[0].to_string(),
        "3 allocations of 31458404 bytes were never freed:\n  \
         (no name): 31457280 bytes of memory type 0\n  \
         \"tile\": 1024 bytes of memory type 0, in pool \"terrain\"\n  \
         \"constants\": 100 bytes of memory type 1, frame\n"
    );
    let tile = &reports[0].leaks[1];
    assert_eq!((tile.name.as_ref(), tile.size), (Some(&Name::Static("tile")), KIB));
    assert_eq!(reports[0].leaks[0].kind, ResourceKind::OptimalImage);
}

#[test]
fn who_forgets_nothing_hears_nothing() {
    let (device, allocator, reports) = watched();
    let kept = allocator.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    allocator.free(kept).unwrap();
    let pool = allocator.create_pool(fixed_pool(DEVICE_TYPE, MIB)).unwrap();
    drop(allocator.allocate_wanted_in(&pool, &wanted_in(KIB, DEVICE_TYPE)).unwrap());
    allocator.reset_pool(&pool).unwrap();
    drop(allocator);
    assert!(reports.lock().unwrap().is_empty());
    assert_eq!(device.usage().memory_objects, 0, "a forgotten pool's blocks are given back too");
}

#[test]
fn of_many_leaks_the_largest_twenty_are_named() {
    let (_, allocator, reports) = watched();
    for i in 1..=50 {
        drop(allocator.allocate_wanted(&wanted(i, MemoryUsage::GpuOnly)).unwrap());
    }
    drop(allocator);
    let text = reports.lock().unwrap()[0].to_string();
    assert!(text.contains("50 bytes of") && text.contains(" 31 bytes of") && !text.contains(" 30 bytes of"));
    assert!(text.ends_with("  and 30 more\n"), "{text}");
}

#[test]
fn statistics_tell_shared_and_dedicated_memory_requests_and_losses_apart() {
    let rig = Rig::new(FINE);
    assert_eq!(rig.statistics(), Statistics::default());
    let image = wanted(1000, MemoryUsage::GpuOnly).with_kind(ResourceKind::OptimalImage);
    let got = [
        rig.allocate_wanted(&wanted(500, MemoryUsage::GpuOnly)).unwrap(),
        rig.allocate_wanted(&image).unwrap(),
        rig.allocate_wanted(&image.clone().with_dedicated(Dedicated::Always)).unwrap(),
    ];
    let statistics = rig.statistics();
    assert_eq!((statistics.blocks, statistics.dedicated, statistics.allocations), (1, 1, 3));
    assert_eq!((statistics.allocation_bytes, statistics.rounding), (2500, 48));
    let used = 2500 + 48 + statistics.padding;
    assert_eq!(statistics.free(), statistics.block_bytes - used);
    rig.free_all(got);
}

#[test]
fn a_walk_finds_holes_and_extremes_of_each_memory_type() {
    let rig = Rig::new(DISCRETE);
    let sizes = [KIB, 2 * KIB, 3 * KIB, 4 * KIB];
    let mut got: Vec<_> =
        sizes.iter().map(|&size| rig.allocate_wanted(&wanted_in(size, DEVICE_TYPE)).unwrap()).collect();
    rig.free(got.remove(1)).unwrap();
    let detailed = &rig.reports().detailed_statistics()[0];
    assert_eq!(detailed.brief, rig.statistics());
    assert_eq!(detailed.allocation_size.map(|range| (range.min, range.max)), Some((KIB, 4 * KIB)));
    let rest = rig.statistics().block_bytes - 10 * KIB;
    assert_eq!(detailed.free_size.map(|range| (range.min, range.max)), Some((2 * KIB, rest)));
    assert_eq!((detailed.free_ranges, detailed.empty_blocks), (2, 0));
    let fragmentation = 2.0 * KIB as f64 / (rest + 2 * KIB) as f64;
    assert!((detailed.fragmentation() - fragmentation).abs() < 1e-9);
    let other = &rig.reports().detailed_statistics()[1];
    assert_eq!(
        (other.brief, other.allocation_size, other.fragmentation()),
        (Statistics::default(), None, 0.0)
    );
    rig.free_all(got);
    assert_eq!(rig.reports().detailed_statistics()[0].empty_blocks, 1);
}

/// VMA takes an allocation of a linear block whose user data is null for a freed one.
#[test]
fn allocations_without_user_data_are_counted_in_linear_pools_and_rings() {
    let rig = Rig::new(DISCRETE);
    let mut desc = fixed_pool(DEVICE_TYPE, 100 * KIB);
    (desc.algorithm, desc.max_blocks) = (Algorithm::Linear, 1);
    let pool = rig.create_pool(desc).unwrap();
    let push = || rig.allocate_wanted_in(&pool, &wanted_in(10 * KIB, DEVICE_TYPE)).unwrap();
    let mut ring: Vec<_> = (0..10).map(|_| push()).collect();
    rig.free_all(ring.drain(..5));
    ring.extend((0..3).map(|_| push()));
    let statistics = rig.reports().pool_statistics(&pool).unwrap();
    assert_eq!((statistics.allocations, statistics.allocation_bytes), (8, 80 * KIB));
    assert_eq!(rig.reports().detailed_statistics()[0].brief, statistics);
    rig.free_all(ring);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn heap_reports_follow_what_is_reserved_and_remember_the_peak() {
    let rig = Rig::new(DISCRETE);
    let before = rig.reports().memory_heaps();
    assert_eq!((before.len(), before[0].reserved, before[0].limit), (2, 0, u64::MAX));
    let large = rig.allocate_wanted(&wanted(100 * MIB, MemoryUsage::GpuOnly)).unwrap();
    let report = rig.reports().memory_heaps()[0];
    assert_eq!((report.reserved, report.usage, report.peak_reserved), (100 * MIB, 100 * MIB, 100 * MIB));
    rig.free(large).unwrap();
    rig.trim();
    let report = rig.reports().memory_heaps()[0];
    assert_eq!((report.reserved, report.usage, report.peak_reserved), (0, 0, 100 * MIB));
    assert_eq!(rig.reports().memory_heaps()[1].peak_reserved, 0);
}

#[test]
fn driver_calls_are_counted_refused_ones_too() {
    let rig = Rig::new(DISCRETE);
    let allocation = rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap();
    rig.device.fail_call(1, allotment::device::DeviceError::Lost);
    assert!(rig.allocate_wanted(&wanted(KIB, MemoryUsage::Upload)).is_err());
    rig.free(allocation).unwrap();
    rig.trim();
    let calls = rig.reports().device_calls();
    assert_eq!((calls.allocate, calls.free, calls.memory()), (2, 1, 3));
    let usage = rig.device.usage();
    assert_eq!((usage.allocate_calls, usage.free_calls), (2, 1));
}

#[test]
fn all_memory_objects_are_listed_with_their_pool_and_their_use() {
    let rig = Rig::new(DISCRETE);
    let mut desc = PoolDesc::new([MemoryTypeIndex(1)]);
    (desc.min_blocks, desc.name) = (1, Some("streaming".into()));
    let pool = rig.create_pool(desc).unwrap();
    let got = [
        rig.allocate_wanted(&wanted(KIB, MemoryUsage::GpuOnly)).unwrap(),
        rig.allocate_wanted(&wanted(30 * MIB, MemoryUsage::GpuOnly)).unwrap(),
    ];
    let blocks = rig.reports().blocks();
    assert_eq!(blocks.len(), rig.objects() as usize);
    let bytes: u64 = blocks.iter().map(|block| block.ranges.size).sum();
    assert_eq!(bytes, rig.statistics().block_bytes);
    let used: u64 = blocks.iter().map(|block| block.ranges.allocated).sum();
    assert_eq!(used, rig.statistics().allocation_bytes);
    let streaming = blocks.iter().find(|block| block.pool.as_str() == "streaming").unwrap();
    assert_eq!((streaming.memory_type, streaming.heap), (MemoryTypeIndex(1), MemoryHeapIndex(1)));
    let large = blocks.iter().find(|block| block.dedicated).unwrap();
    assert_eq!(large.memory, rig.location(&got[1]).unwrap().memory);
    rig.free_all(got);
    rig.destroy_pool(pool).unwrap();
}
