//! An allocator over the device: limits and budgets hold, and frames that repeat call no driver.

use allotment::device::{BufferDesc, MemoryDevice as _, MemoryHeapIndex};
use allotment::memory::{Dedicated, ExpectedLifetime};
use allotment::{Algorithm, AllocationError, MemoryUsage, PoolDesc};

use super::allocator::{AllocateWanted as _, KIB, MIB, Rig};
use crate::bytes::{Random, assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        a_heap_limit_refuses_and_leaves_nothing,
        nothing_is_had_beyond_the_budget_by_who_minds_it,
        a_frame_that_repeats_calls_no_driver,
        a_fixed_pool_is_full_when_its_blocks_are,
        buffers_in_a_pool_hold_their_bytes_in_blocks_and_alone,
        every_algorithm_keeps_bytes_apart_in_a_pool,
        a_linear_pool_is_emptied_at_once,
        pages_are_had_all_or_none,
        churn_in_all_memory_keeps_every_byte,
        threads_share_an_allocator,
    ]
}

fn all_limited<F: Fixture>(rig: &Rig<'_, F>, bytes: u64) -> Vec<(MemoryHeapIndex, u64)> {
    (0..rig.heap_count()).map(|heap| (MemoryHeapIndex(heap), bytes)).collect()
}

fn a_heap_limit_refuses_and_leaves_nothing<F: Fixture>(gpu: &Gpu<F>) {
    let free = Rig::new(gpu);
    let rig = Rig::with(gpu, |desc| desc.heap_limits = all_limited(&free, 4 * MIB));
    for memory_usage in MemoryUsage::ALL {
        for dedicated in [Dedicated::Automatic, Dedicated::Always] {
            let refused = rig.allocate_wanted(&rig.wanted(5 * MIB, memory_usage).with_dedicated(dedicated));
            assert!(
                matches!(refused, Err(AllocationError::HeapLimit { limit, .. }) if limit == 4 * MIB),
                "{memory_usage}, {dedicated:?}: {refused:?}"
            );
        }
    }
    assert_eq!(rig.statistics().block_bytes, 0);
    let fits = rig.allocate_wanted(&rig.wanted(3 * MIB, MemoryUsage::GpuOnly)).unwrap();
    rig.free(fits).unwrap();
}

fn nothing_is_had_beyond_the_budget_by_who_minds_it<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let rig = Rig::new(gpu);
    let limits = gpu.properties().limits;
    let largest =
        (0..rig.heap_count()).map(|heap| gpu.device().heap_budget(MemoryHeapIndex(heap)).budget).max();
    // A driver's figure may grow before the request is made.
    let exact = gpu.fixture().budgets_are_exact();
    let beyond = largest.map_or(0, |bytes| if exact { bytes + 1 } else { bytes + bytes / 4 });
    if beyond > limits.max_allocation_size.min(1 << 47) {
        return Outcome::DoesNotApply("no memory object can be larger than the budget");
    }
    // Not what a buffer of that size needs: there may be no such buffer.
    let mut wish = rig.wanted(1, MemoryUsage::GpuOnly).within_budget();
    wish.requirements.size = beyond;
    let refused = rig.allocate_wanted(&wish);
    assert!(matches!(refused, Err(AllocationError::OverBudget { .. })), "{refused:?}");
    assert_eq!(rig.statistics().block_bytes, 0);
    Outcome::Ran
}

fn a_frame_that_repeats_calls_no_driver<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut calls = Vec::new();
    for _ in 0..60 {
        let frame: Vec<_> = (0..6)
            .map(|i| {
                let memory_usage = [MemoryUsage::GpuOnly, MemoryUsage::Upload][i % 2];
                rig.allocate_wanted(
                    &rig.wanted(512 * KIB, memory_usage).with_lifetime(ExpectedLifetime::Short),
                )
                .unwrap()
            })
            .collect();
        for allocation in frame {
            rig.free(allocation).unwrap();
        }
        rig.end_frame();
        calls.push(rig.device_calls_now());
    }
    assert_eq!(calls[5], calls[59], "{calls:?}");
}

fn a_fixed_pool_is_full_when_its_blocks_are<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    for memory_type in gpu.buffer_types() {
        let mut desc = rig.pool(memory_type, Algorithm::Tlsf);
        desc.max_blocks = 2;
        let pool = rig.create_pool(desc).unwrap();
        let half = rig.wanted(600 * KIB, MemoryUsage::GpuOnly);
        let live = [(); 2].map(|()| rig.allocate_wanted_in(&pool, &half).unwrap());
        let refused = rig.allocate_wanted_in(&pool, &half);
        assert!(matches!(refused, Err(AllocationError::PoolFull { max_blocks: 2, .. })), "{refused:?}");
        assert!(live.iter().all(|a| rig.location(a).unwrap().memory_type == memory_type));
        assert!(rig.free_many(live).is_empty());
        rig.destroy_pool(pool).unwrap();
    }
}

fn buffers_in_a_pool_hold_their_bytes_in_blocks_and_alone<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    for memory_type in gpu.buffer_types() {
        let pool = rig.create_pool(PoolDesc::new([memory_type])).unwrap();
        let mut live = Vec::new();
        for (seed, dedicated) in (0..).zip([Dedicated::Automatic, Dedicated::Always, Dedicated::Never]) {
            let desc = rig.wanted(1, MemoryUsage::GpuOnly).with_dedicated(dedicated);
            let buffer =
                rig.create_buffer(&BufferDesc::new(64 * KIB).into(), &desc.clone().with_pool(&pool)).unwrap();
            let alone = rig.info(buffer.allocation()).unwrap().dedicated_to_resource;
            assert!(alone || dedicated != Dedicated::Always);
            assert_eq!(rig.location(buffer.allocation()).unwrap().memory_type, memory_type);
            transfer.upload_to(&buffer, 0, &pattern(seed, 64 * KIB)).unwrap();
            live.push((buffer, pattern(seed, 64 * KIB)));
        }
        assert!(rig.reset_pool(&pool).is_err(), "buffers are in it");
        for (buffer, bytes) in live {
            let mut back = vec![0; bytes.len()];
            transfer.download_from(&buffer, 0, &mut back).unwrap();
            assert!(back == bytes, "type {memory_type}");
            rig.destroy_buffer(buffer).unwrap();
        }
        rig.destroy_pool(pool).unwrap();
    }
    drop(transfer);
}

fn every_algorithm_keeps_bytes_apart_in_a_pool<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    for memory_type in gpu.buffer_types() {
        for algorithm in Algorithm::ALL {
            let pool = rig.create_pool(rig.pool(memory_type, algorithm)).unwrap();
            let mut live = Vec::new();
            for seed in 0..24 {
                let size = 1 + seed * 3001;
                let allocation =
                    rig.allocate_wanted_in(&pool, &rig.wanted(size, MemoryUsage::GpuOnly)).unwrap();
                transfer.upload(&allocation, 0, &pattern(seed, size)).unwrap();
                live.push((allocation, pattern(seed, size)));
            }
            for (allocation, bytes) in live {
                rig.assert_holds(&mut transfer, &allocation, &bytes, (memory_type, algorithm));
                rig.free(allocation).unwrap();
            }
            rig.destroy_pool(pool).unwrap();
        }
    }
    drop(transfer);
}

fn a_linear_pool_is_emptied_at_once<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let pool = rig.create_pool(rig.pool(gpu.buffer_types()[0], Algorithm::Linear)).unwrap();
    for _ in 0..3 {
        let live: Vec<_> = (0..8)
            .map(|_| rig.allocate_wanted_in(&pool, &rig.wanted(100 * KIB, MemoryUsage::GpuOnly)).unwrap())
            .collect();
        rig.reset_pool(&pool).unwrap();
        assert!(live.iter().all(|allocation| rig.location(allocation).is_err()));
    }
    rig.destroy_pool(pool).unwrap();
}

fn pages_are_had_all_or_none<F: Fixture>(gpu: &Gpu<F>) {
    let free = Rig::new(gpu);
    let rig = Rig::with(gpu, |desc| desc.heap_limits = all_limited(&free, 8 * MIB));
    let page = rig.wanted(64 * KIB, MemoryUsage::GpuOnly).with_name("page");
    let pages = rig.allocate_wanted_many(&page, 32).unwrap();
    let mut places: Vec<_> = pages
        .iter()
        .map(|page| {
            let place = rig.location(page).unwrap();
            (format!("{:?}", place.memory), place.offset)
        })
        .collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].1 + 64 * KIB <= pair[1].1, "{pair:?}");
    }
    let before = rig.statistics().allocation_bytes;
    // More than all heaps may give together.
    let too_many = 128 * usize::from(rig.heap_count()) + 1;
    let refused = rig.allocate_wanted_many(&page, too_many);
    assert!(refused.is_err(), "{} pages", refused.map_or(0, |pages| pages.len()));
    assert_eq!(rig.statistics().allocation_bytes, before, "none of them is left");
    assert!(rig.free_many(pages).is_empty());
}

fn churn_in_all_memory_keeps_every_byte<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let mut transfer = rig.transfer();
    let mut random = Random::new(5);
    let mut live = Vec::new();
    for round in 0..400u64 {
        if live.len() < 48 && random.below(5) < 3 {
            let memory_usage = MemoryUsage::ALL[random.below(5) as usize];
            let most = [300, 5000, 90_000][random.below(3) as usize];
            let size = 1 + random.below(most);
            let mut desc = rig.wanted(size, memory_usage);
            if random.below(3) == 0 {
                desc = desc.with_lifetime(ExpectedLifetime::Short);
            }
            let allocation = rig.allocate_wanted(&desc).unwrap();
            let bytes = pattern(round, size);
            transfer.upload(&allocation, 0, &bytes).unwrap();
            live.push((allocation, bytes, round));
        } else if !live.is_empty() {
            let which = random.below(live.len() as u64) as usize;
            let (allocation, bytes, round) = live.swap_remove(which);
            rig.assert_holds(&mut transfer, &allocation, &bytes, round);
            rig.free(allocation).unwrap();
        }
        if round % 100 == 99 {
            rig.check_invariants();
            rig.end_frame();
        }
    }
    for (allocation, bytes, round) in live {
        rig.assert_holds(&mut transfer, &allocation, &bytes, round);
        rig.free(allocation).unwrap();
    }
    drop(transfer);
}

fn threads_share_an_allocator<F: Fixture>(gpu: &Gpu<F>) {
    let rig = Rig::new(gpu);
    let (rig, memory_usages) = (&rig, [MemoryUsage::Upload, MemoryUsage::Readback]);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            scope.spawn(move || {
                let mut random = Random::new(thread + 1);
                let mut live = Vec::new();
                for round in 0..300 {
                    let size = 1 + random.below(20_000);
                    let desc = rig.wanted(size, memory_usages[random.below(2) as usize]);
                    let allocation = rig.allocate_wanted(&desc).unwrap();
                    let bytes = pattern(thread << 32 | round, size);
                    rig.write(&allocation, 0, &bytes).unwrap();
                    live.push((allocation, bytes));
                    if live.len() > 16 {
                        let (old, bytes) = live.swap_remove(random.below(16) as usize);
                        let mut found = vec![0; bytes.len()];
                        rig.read(&old, 0, &mut found).unwrap();
                        assert_same(&found, &bytes, (thread, round));
                        rig.free(old).unwrap();
                    }
                }
                assert!(rig.free_many(live.into_iter().map(|(allocation, _)| allocation)).is_empty());
            });
        }
    });
}
