//! Growth ahead of demand: which requests wait for the driver.

use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{DeviceError, MemoryTypeIndex};
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockGrowth, MaintenanceThread, Watermark};
use allotment::memory::reports::LeakHandler;
use allotment::{Allocation, AllocationError, Allocator, AllocatorDesc, MemoryUsage, PoolDesc};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, MIB, Rig, fixed_pool, profile, small_blocks, wanted,
    wanted_in,
};

fn growing_ahead(change: impl FnOnce(&mut AllocatorDesc)) -> Rig {
    Rig::with(profile(DISCRETE), |desc| {
        desc.block_growth = BlockGrowth::Ahead(Watermark::default());
        change(desc);
    })
}

/// Allocates a frame's worth of tiles, six of 512 KiB to 3 MiB.
fn frame(rig: &Rig, number: u64) -> Vec<Allocation> {
    let tile =
        |i| rig.allocate_wanted(&wanted((1 + (number + i) % 6) * MIB / 2, MemoryUsage::GpuOnly)).unwrap();
    (0..6).map(tile).collect()
}

#[test]
fn who_is_kept_up_waits_in_the_first_frame_only() {
    let rig = growing_ahead(|_| {});
    let mut tiles = frame(&rig, 0);
    let waits = rig.reports().stalls();
    assert!(waits.count > 0, "the first frame cannot be foreseen");
    for number in 1..300 {
        rig.end_frame();
        rig.maintain();
        tiles.extend(frame(&rig, number));
        assert_eq!(rig.reports().stalls(), waits, "frame {number}");
    }
    assert!(rig.statistics().blocks > 10);
    rig.free_all(tiles);
}

#[test]
fn who_is_not_kept_up_waits_for_each_block() {
    let rig = Rig::new(DISCRETE);
    let tiles: Vec<_> = (0..100).flat_map(|number| frame(&rig, number)).collect();
    let objects = rig.statistics().blocks + rig.statistics().dedicated;
    assert_eq!(rig.reports().stalls().count, u64::from(objects));
    assert!(rig.reports().stalls().longest <= rig.reports().stalls().total);
    rig.free_all(tiles);
}

#[test]
fn neither_a_free_nor_the_end_of_a_frame_gives_back_what_upkeep_will() {
    let rig = growing_ahead(|desc| desc.empty_blocks = allotment::memory::blocks::EmptyBlockPolicy::NONE);
    let mut tiles = Vec::new();
    for number in 0..40 {
        tiles.extend(frame(&rig, number));
        rig.end_frame();
    }
    let dedicated = rig.allocate_wanted(
        &wanted(MIB, MemoryUsage::GpuOnly).with_dedicated(allotment::memory::Dedicated::Always),
    );
    let objects = rig.objects();
    rig.free_all(tiles.into_iter().chain(dedicated.ok()));
    (0..40).for_each(|_| rig.end_frame());
    assert_eq!((rig.objects(), rig.reports().device_calls().free), (objects, 0));
    assert!(rig.wait_for_maintenance(core::time::Duration::ZERO), "there is something to do");
    let done = rig.maintain();
    assert!(rig.objects() < objects / 2, "{done:?}");
    assert_eq!(rig.objects() as i64, i64::from(objects) - i64::from(done.returned) + i64::from(done.blocks));
    assert!(!rig.wait_for_maintenance(core::time::Duration::ZERO), "there is nothing left to do");
}

#[test]
fn what_is_got_ahead_is_not_given_back_in_the_same_breath() {
    let rig = growing_ahead(|_| {});
    let tiles = frame(&rig, 0);
    rig.maintain();
    let mut done = Vec::new();
    for _ in 0..500 {
        rig.end_frame();
        done.push(rig.maintain());
    }
    assert!(done.iter().all(|done| done.blocks == 0), "no block is allocated anew");
    assert!(done[200..].iter().all(|done| done.returned == 0), "what a calm scene has, it keeps");
    assert!(rig.statistics().free() >= 2 * MIB, "half a block is there");
    rig.free_all(tiles);
}

#[test]
fn the_busier_the_frames_the_more_room_there_is_ahead() {
    let room_after = |tiles_a_frame: u64| {
        let rig = growing_ahead(|_| {});
        let mut tiles = Vec::new();
        for number in 0..10 * tiles_a_frame {
            tiles.push(rig.allocate_wanted(&wanted(MIB, MemoryUsage::GpuOnly)).unwrap());
            if number % tiles_a_frame == tiles_a_frame - 1 {
                rig.end_frame();
                rig.maintain();
            }
        }
        let room = rig.statistics().free();
        rig.free_all(tiles);
        room
    };
    assert!(room_after(1) < 20 * MIB);
    assert!(room_after(30) >= 4 * 30 * MIB);
}

#[test]
fn upkeep_never_goes_beyond_the_budget() {
    let rig = growing_ahead(|_| {});
    let tiles = frame(&rig, 0);
    rig.device.set_budget(HEAP, rig.taken(HEAP) + MIB);
    assert_eq!(rig.maintain().blocks, 0);
    rig.device.set_budget(HEAP, 1024 * MIB);
    assert_eq!(rig.maintain().blocks, 0, "it is not asked again in the same frame");
    rig.end_frame();
    assert_ne!(rig.maintain().blocks, 0);
    rig.free_all(tiles);
}

#[test]
fn room_is_reserved_in_the_memory_type_and_among_the_allocations_that_the_request_is_for() {
    let rig = Rig::new(DISCRETE);
    let host = MemoryTypeIndex(1);
    let mut desc = PoolDesc::new([DEVICE_TYPE, host]);
    desc.separate_movable = true;
    let pool = rig.create_pool(desc).unwrap();
    for movability in [Movability::Pinned, Movability::Copied] {
        let mut tile = wanted_in(MIB, host).with_movability(movability);
        tile.options.pool = Some(pool.clone());
        assert!(rig.reserve_wanted(&tile, 8 * MIB).unwrap() >= 8 * MIB);
        let calls = rig.reports().device_calls();
        let tiles: Vec<_> = (0..8).map(|_| rig.allocate_wanted(&tile).unwrap()).collect();
        assert_eq!(rig.reports().device_calls(), calls);
        assert!(tiles.iter().all(|tile| rig.type_of(tile) == host));
        rig.check_invariants();
        rig.free_all(tiles);
        rig.trim();
    }
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn a_pool_that_keeps_movable_allocations_apart_has_room_ahead_for_those_that_it_has() {
    for movability in [Movability::Pinned, Movability::Copied] {
        let rig = growing_ahead(|_| {});
        let mut desc = fixed_pool(DEVICE_TYPE, 4 * MIB);
        desc.separate_movable = true;
        let pool = rig.create_pool(desc).unwrap();
        let tile = wanted_in(MIB, DEVICE_TYPE).with_movability(movability);
        let mut tiles = vec![rig.allocate_wanted_in(&pool, &tile).unwrap()];
        let waits = rig.reports().stalls();
        for _ in 0..40 {
            rig.end_frame();
            rig.maintain();
            tiles.push(rig.allocate_wanted_in(&pool, &tile).unwrap());
        }
        assert_eq!(rig.reports().stalls(), waits);
        rig.check_invariants();
        rig.free_all(tiles);
        rig.destroy_pool(pool).unwrap();
    }
}

#[test]
fn a_driver_that_refuses_upkeep_harms_nobody() {
    let rig = growing_ahead(|_| {});
    let tiles = frame(&rig, 0);
    for error in [DeviceError::OutOfDeviceMemory, DeviceError::TooManyAllocations, DeviceError::MapFailed] {
        rig.device.fail_from(1, error);
        assert_eq!(rig.maintain().blocks, 0);
        assert!(rig.reserve_wanted(&wanted(MIB, MemoryUsage::GpuOnly), 1024 * MIB).is_err());
        rig.device.clear_faults();
        rig.check_invariants();
        rig.end_frame();
    }
    assert_ne!(rig.maintain().blocks, 0, "it is tried again");
    rig.free_all(tiles);
}

#[test]
fn what_was_reserved_serves_small_and_large_without_a_driver_call() {
    for block_growth in [BlockGrowth::OnDemand, BlockGrowth::Ahead(Watermark::default())] {
        let rig = Rig::with(profile(DISCRETE), |desc| desc.block_growth = block_growth);
        let got = rig.reserve_wanted(&wanted(1, MemoryUsage::GpuOnly), 200 * MIB).unwrap();
        assert!((200 * MIB..=512 * MIB).contains(&got), "{got}");
        let calls = rig.reports().device_calls();
        let sizes = [60 * MIB, 30 * MIB, 5 * MIB].into_iter().chain((0..60).map(|_| MIB));
        let tiles: Vec<_> =
            sizes.map(|size| rig.allocate_wanted(&wanted(size, MemoryUsage::GpuOnly)).unwrap()).collect();
        assert_eq!(rig.reports().device_calls().allocate, calls.allocate, "{block_growth:?}");
        assert_eq!(rig.reports().stalls().count, 0);
        rig.free_all(tiles);
    }
}

#[test]
fn a_second_reservation_counts_what_the_first_one_got() {
    let rig = Rig::new(DISCRETE);
    let desc = wanted(1, MemoryUsage::GpuOnly);
    assert!(rig.reserve_wanted(&desc, 100 * MIB).unwrap() >= 100 * MIB);
    assert_eq!(rig.reserve_wanted(&desc, 100 * MIB), Ok(0));
    assert!(rig.reserve_wanted(&desc, 300 * MIB).unwrap() <= 256 * MIB);
}

#[test]
fn a_reservation_beyond_a_limit_is_refused_and_keeps_what_it_got() {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        desc.heap_limits = vec![(HEAP, 64 * MIB)];
        desc.block_sizes = small_blocks(4 * MIB, 8 * MIB);
    });
    let refused = rig.reserve_wanted(&wanted_in(1, DEVICE_TYPE), 100 * MIB);
    assert!(matches!(refused, Err(AllocationError::HeapLimit { .. })), "{refused:?}");
    assert_eq!(rig.reports().memory_heaps()[0].reserved, 64 * MIB);
    assert!(rig.trim());
    assert_eq!(rig.objects(), 0);
}

#[test]
fn a_keeper_works_beside_the_frames_and_leaves_nothing_behind() {
    let device = SimulatedGpu::new(profile(DISCRETE));
    let mut desc = AllocatorDesc::default();
    desc.on_leak = LeakHandler::Ignore;
    desc.block_growth = BlockGrowth::Ahead(Watermark::default());
    let allocator = Arc::new(Allocator::new(device.clone(), desc).unwrap());
    let keeper = MaintenanceThread::spawn(Arc::clone(&allocator)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let allocator = &allocator;
            scope.spawn(move || {
                let mut live = Vec::new();
                for i in 0..400_u64 {
                    let size = 1 + (i * 7919 + thread) % (3 * MIB);
                    live.push(allocator.allocate_wanted(&wanted(size, MemoryUsage::GpuOnly)).unwrap());
                    if i % 3 == 0 {
                        allocator.free(live.swap_remove(i as usize % live.len())).unwrap();
                    }
                    allocator.end_frame();
                }
                live.into_iter().for_each(|allocation| allocator.free(allocation).unwrap());
            });
        }
    });
    drop(keeper);
    allocator.check_invariants();
    drop(allocator);
    assert_eq!((device.usage().memory_objects, device.validation_errors().len()), (0, 0));
}

#[test]
fn a_reservation_holds_against_a_request_that_finds_no_room_in_it() {
    for block_growth in [BlockGrowth::OnDemand, BlockGrowth::Ahead(Watermark::default())] {
        let rig = Rig::with(profile(DISCRETE), |desc| desc.block_growth = block_growth);
        let mesh = wanted(MIB, MemoryUsage::GpuOnly);
        rig.reserve_wanted(&mesh, 100 * MIB).unwrap();
        let large = rig.allocate_wanted(&wanted(300 * MIB, MemoryUsage::GpuOnly)).unwrap();
        (0..10).for_each(|_| rig.end_frame());
        let calls = rig.reports().device_calls().allocate;
        let meshes: Vec<_> = (0..100).map(|_| rig.allocate_wanted(&mesh).unwrap()).collect();
        assert_eq!(rig.reports().device_calls().allocate, calls, "{block_growth:?}");
        rig.free_all(meshes.into_iter().chain([large]));
    }
}

#[test]
fn a_reservation_is_not_kept_for_ever() {
    let rig = Rig::new(DISCRETE);
    rig.reserve_wanted(&wanted(MIB, MemoryUsage::GpuOnly), 100 * MIB).unwrap();
    (0..1000).for_each(|_| rig.end_frame());
    assert_eq!(rig.objects(), 0);
}

#[test]
fn large_memory_that_nobody_wants_goes_back_by_upkeep_too() {
    let rig = growing_ahead(|_| {});
    let tiles = frame(&rig, 0);
    let large = rig.allocate_wanted(&wanted(600 * MIB, MemoryUsage::GpuOnly)).unwrap();
    rig.free(large).unwrap();
    for _ in 0..300 {
        rig.end_frame();
        rig.maintain();
    }
    assert!(rig.statistics().block_bytes < 100 * MIB, "{:?}", rig.statistics());
    rig.free_all(tiles);
}

#[test]
fn one_frame_that_loads_a_level_is_no_reason_to_hoard() {
    let rig = growing_ahead(|desc| desc.block_sizes = small_blocks(4 * MIB, 32 * MIB));
    let level: Vec<_> =
        (0..256).map(|_| rig.allocate_wanted(&wanted(MIB, MemoryUsage::GpuOnly)).unwrap()).collect();
    rig.maintain();
    assert!(rig.statistics().free() <= 3 * 32 * MIB, "{:?}", rig.statistics());
    for _ in 0..300 {
        rig.end_frame();
        rig.maintain();
    }
    assert!(rig.statistics().free() <= 32 * MIB, "{:?}", rig.statistics());
    rig.free_all(level);
}

#[test]
fn what_is_on_its_way_back_makes_room_when_that_is_needed() {
    let rig = growing_ahead(|desc| desc.heap_limits = vec![(HEAP, 64 * MIB)]);
    let alone = wanted_in(40 * MIB, DEVICE_TYPE).with_dedicated(allotment::memory::Dedicated::Always);
    for _ in 0..3 {
        let allocation = rig.allocate_wanted(&alone).unwrap();
        rig.free(allocation).unwrap();
        rig.check_invariants();
    }
}

#[test]
fn a_custom_pool_is_kept_up_too_but_never_beyond_its_blocks() {
    let rig = growing_ahead(|_| {});
    let mut desc = fixed_pool(DEVICE_TYPE, 4 * MIB);
    desc.max_blocks = 3;
    let pool = rig.create_pool(desc.clone()).unwrap();
    let tile = wanted_in(MIB, DEVICE_TYPE);
    let mut tiles = vec![rig.allocate_wanted_in(&pool, &tile).unwrap()];
    let waits = rig.reports().stalls();
    for _ in 1..12 {
        rig.end_frame();
        rig.maintain();
        tiles.push(rig.allocate_wanted_in(&pool, &tile).unwrap());
    }
    assert_eq!(rig.reports().stalls(), waits, "only the first request waited");
    assert_eq!(rig.reports().pool_statistics(&pool).unwrap().blocks, 3);
    assert_eq!(rig.maintain().blocks, 0, "the pool may have no more");
    let full = rig.reserve_wanted(&tile.with_pool(&pool), MIB).unwrap_err();
    assert!(matches!(full, AllocationError::PoolFull { max_blocks: 3, .. }), "{full}");
    rig.free_all(tiles);

    // Unless the pool says otherwise.
    desc.block_growth = Some(BlockGrowth::OnDemand);
    let other = rig.create_pool(desc).unwrap();
    let first = rig.allocate_wanted_in(&other, &wanted_in(4 * MIB, DEVICE_TYPE)).unwrap();
    rig.maintain();
    assert_eq!(rig.reports().pool_statistics(&other).unwrap().blocks, 1);
    rig.free(first).unwrap();
    rig.destroy_pool(other).unwrap();
    rig.destroy_pool(pool).unwrap();
}
