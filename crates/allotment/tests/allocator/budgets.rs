//! Budgets and limits: refused on every path where that was asked for, and never in the way elsewhere.

use core::sync::atomic::{AtomicU64, Ordering};

use allotment::device::{BufferDesc, MemoryHeapIndex, MemoryTypeIndex};
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::names::ShortName;
use allotment::memory::preview::AllocationPreview;
use allotment::memory::{BudgetPolicy, CreatePoolError, Dedicated, ResourceError};
use allotment::{AllocationError, PoolDesc};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, Wanted, fixed_pool, profile,
    small_blocks, wanted_in,
};

/// A discrete card whose device heap has this budget.
fn rig_with_budget(bytes: u64) -> Rig {
    let rig = Rig::new(DISCRETE);
    rig.device.set_budget(HEAP, bytes);
    rig.refresh_budgets();
    rig
}

fn is_over_budget<T: core::fmt::Debug>(result: Result<T, AllocationError>) -> bool {
    matches!(result, Err(AllocationError::OverBudget { heap: HEAP, .. }))
}

/// A way to memory, by name.
type Way = (&'static str, fn(&Rig) -> bool);

/// Every way to be served, each as a request that 1 MiB of budget is too little for. True when it was
/// refused for the budget's sake.
const PATHS: [Way; 11] = [
    ("in a shared block", |rig| {
        let big_enough_to_share = wanted_in(2 * MIB, DEVICE_TYPE).within_budget();
        is_over_budget(rig.allocate_wanted(&big_enough_to_share))
    }),
    ("large, in dedicated memory", |rig| {
        is_over_budget(rig.allocate_wanted(&wanted_in(64 * MIB, DEVICE_TYPE).within_budget()))
    }),
    ("dedicated", |rig| {
        let desc = wanted_in(2 * MIB, DEVICE_TYPE).within_budget().with_dedicated(Dedicated::Always);
        is_over_budget(rig.allocate_wanted(&desc))
    }),
    ("a buffer", |rig| {
        let made = rig.create_buffer(&BufferDesc::new(2 * MIB), &device_only().within_budget());
        matches!(made, Err(ResourceError::Allocation(AllocationError::OverBudget { .. })))
    }),
    ("a buffer with dedicated memory", |rig| {
        let desc = device_only().within_budget().with_dedicated(Dedicated::Always);
        let made = rig.create_buffer(&BufferDesc::new(2 * MIB), &desc);
        matches!(made, Err(ResourceError::Allocation(AllocationError::OverBudget { .. })))
    }),
    ("in a growing pool", |rig| {
        refused_in(rig, PoolDesc::new([DEVICE_TYPE]), &wanted_in(2 * MIB, DEVICE_TYPE).within_budget())
    }),
    ("large, in a growing pool", |rig| {
        refused_in(rig, PoolDesc::new([DEVICE_TYPE]), &wanted_in(64 * MIB, DEVICE_TYPE).within_budget())
    }),
    ("in a pool of fixed blocks", |rig| {
        let desc = fixed_pool(DEVICE_TYPE, 2 * MIB);
        refused_in(rig, desc, &wanted_in(4 * KIB, DEVICE_TYPE).within_budget())
    }),
    ("in a pool that stays within the budget itself", |rig| {
        let mut desc = fixed_pool(DEVICE_TYPE, 2 * MIB);
        desc.budget = BudgetPolicy::WithinBudget;
        refused_in(rig, desc, &wanted_in(4 * KIB, DEVICE_TYPE))
    }),
    ("a pool's first blocks", |rig| {
        let mut desc = fixed_pool(DEVICE_TYPE, 512 * KIB);
        (desc.min_blocks, desc.budget) = (3, BudgetPolicy::WithinBudget);
        let made = rig.create_pool(desc);
        matches!(made, Err(CreatePoolError::FirstBlocks(AllocationError::OverBudget { .. })))
    }),
    ("a forecast", |rig| {
        is_over_budget(rig.preview_wanted(&wanted_in(2 * MIB, DEVICE_TYPE).within_budget()))
    }),
];

/// For buffers, whose own requirements replace those of the description: what only device memory has.
fn device_only() -> Wanted {
    let mut desc = wanted_in(1, DEVICE_TYPE);
    desc.required = allotment::device::MemoryProperties::DEVICE_LOCAL;
    desc
}

fn refused_in(rig: &Rig, desc: PoolDesc, wanted: &Wanted) -> bool {
    let pool = rig.create_pool(desc).unwrap();
    let refused = is_over_budget(rig.allocate_wanted_in(&pool, wanted));
    rig.destroy_pool(pool).unwrap();
    refused
}

#[test]
fn every_path_refuses_what_would_exceed_the_budget() {
    for (name, refused) in PATHS {
        let rig = rig_with_budget(MIB);
        assert!(refused(&rig), "{name}");
        assert_eq!(rig.objects(), 0, "{name}");
    }
}

#[test]
fn who_does_not_mind_the_budget_exceeds_it() {
    let rig = rig_with_budget(MIB);
    let shared = rig.allocate_wanted(&wanted_in(2 * MIB, DEVICE_TYPE)).unwrap();
    let own = rig.allocate_wanted(&wanted_in(64 * MIB, DEVICE_TYPE)).unwrap();
    let report = rig.reports().memory_heaps()[0];
    assert!(report.usage >= 66 * MIB && report.budget == MIB, "{report:?}");
    rig.free_all([shared, own]);
}

/// With VMA, all 64 succeed and 1 GiB is in use.
#[test]
fn of_64_times_16_mib_a_budget_of_256_mib_lets_16_through() {
    for dedicated in [Dedicated::Automatic, Dedicated::Always, Dedicated::Never] {
        let rig = rig_with_budget(256 * MIB);
        let desc = wanted_in(16 * MIB, DEVICE_TYPE).within_budget().with_dedicated(dedicated);
        let served: Vec<_> = (0..64).map_while(|_| rig.allocate_wanted(&desc).ok()).collect();
        assert!(is_over_budget(rig.allocate_wanted(&desc)));
        assert_eq!((served.len(), rig.taken(HEAP)), (16, 256 * MIB), "{dedicated:?}");
        rig.free_all(served);
    }
}

#[test]
fn small_requests_fill_the_budget_to_the_last_block_and_not_beyond() {
    let rig = rig_with_budget(21 * MIB + 300 * KIB);
    let desc = wanted_in(100 * KIB, DEVICE_TYPE).within_budget();
    let served: Vec<_> = (0..1000).map_while(|_| rig.allocate_wanted(&desc).ok()).collect();
    assert!(is_over_budget(rig.allocate_wanted(&desc)));
    let report = rig.reports().memory_heaps()[0];
    assert!(report.usage <= report.budget);
    assert!(report.budget - report.usage < 100 * KIB, "there was room for one more: {report:?}");
    assert!(served.len() as u64 >= report.budget / (100 * KIB) * 9 / 10);
    rig.free_all(served);
}

#[test]
fn empty_blocks_are_given_back_for_the_budgets_sake_where_that_helps_and_only_there() {
    let rig = rig_with_budget(32 * MIB);
    let idle = rig.allocate_wanted(&wanted_in(8 * MIB, DEVICE_TYPE)).unwrap();
    rig.free(idle).unwrap();
    let kept = rig.objects();
    assert!(is_over_budget(rig.allocate_wanted(&wanted_in(40 * MIB, DEVICE_TYPE).within_budget())));
    assert_eq!(rig.objects(), kept, "what cannot help is not given back");
    let helped = rig.allocate_wanted(&wanted_in(30 * MIB, DEVICE_TYPE).within_budget()).unwrap();
    assert_eq!(rig.taken(HEAP), 30 * MIB);
    rig.free(helped).unwrap();
}

#[test]
fn a_refusal_says_the_usage_and_the_budget() {
    let rig = rig_with_budget(10 * MIB);
    let first = rig.allocate_wanted(&wanted_in(8 * MIB, DEVICE_TYPE)).unwrap();
    let refused = rig.allocate_wanted(&wanted_in(8 * MIB, DEVICE_TYPE).within_budget()).unwrap_err();
    let (requested, usage, budget, name) = (8 * MIB, 8 * MIB, 10 * MIB, ShortName::NONE);
    let expected = AllocationError::OverBudget { heap: HEAP, requested, usage, budget, name };
    assert_eq!(refused, expected);
    rig.free(first).unwrap();
}

#[test]
fn another_process_share_of_the_heap_counts() {
    // Two allocators on one device see each other only through what the driver says.
    let (rig, other) = {
        let rig = rig_with_budget(100 * MIB);
        let other = Rig::over(rig.device.clone(), |_| {});
        (rig, other)
    };
    let theirs = other.allocate_wanted(&wanted_in(90 * MIB, DEVICE_TYPE)).unwrap();
    rig.refresh_budgets();
    assert!(is_over_budget(rig.allocate_wanted(&wanted_in(20 * MIB, DEVICE_TYPE).within_budget())));
    other.free(theirs).unwrap();
    other.trim();
    let ours = rig.allocate_wanted(&wanted_in(20 * MIB, DEVICE_TYPE).within_budget());
    rig.free(ours.expect("no request is refused by an old figure")).unwrap();
    rig.trim();
}

#[test]
fn a_budget_that_falls_while_running_is_noticed_without_being_asked_for() {
    let rig = rig_with_budget(1024 * MIB);
    let desc = wanted_in(4 * MIB, DEVICE_TYPE).within_budget().with_dedicated(Dedicated::Always);
    let first = rig.allocate_wanted(&desc).unwrap();
    rig.device.set_budget(HEAP, 2 * MIB);
    let late: Vec<_> = (0..100).map_while(|_| rig.allocate_wanted(&desc).ok()).collect();
    assert!(late.len() <= 30, "{} requests passed after the budget had fallen", late.len());
    assert!(is_over_budget(rig.allocate_wanted(&desc)));
    rig.device.set_budget(HEAP, 1024 * MIB);
    let risen = rig.allocate_wanted(&desc).expect("a budget that rises is noticed at once");
    rig.free_all(late.into_iter().chain([first, risen]));
}

#[test]
fn the_limit_of_a_heap_holds_on_every_path() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.heap_limits = vec![(HEAP, 100 * MIB)]);
    let is_limit = |error: AllocationError| match error {
        AllocationError::HeapLimit { heap, reserved, limit, requested, .. } => {
            assert_eq!((heap, limit), (HEAP, 100 * MIB));
            reserved + requested > limit
        }
        _ => false,
    };
    assert!(is_limit(rig.allocate_wanted(&wanted_in(101 * MIB, DEVICE_TYPE)).unwrap_err()));
    let large = rig.allocate_wanted(&wanted_in(60 * MIB, DEVICE_TYPE)).unwrap();
    assert!(is_limit(rig.allocate_wanted(&wanted_in(60 * MIB, DEVICE_TYPE)).unwrap_err()));
    let dedicated = wanted_in(60 * MIB, DEVICE_TYPE).with_dedicated(Dedicated::Always);
    assert!(is_limit(rig.allocate_wanted(&dedicated).unwrap_err()));
    let mut desc = fixed_pool(DEVICE_TYPE, 30 * MIB);
    desc.min_blocks = 2;
    match rig.create_pool(desc) {
        Err(CreatePoolError::FirstBlocks(error)) => assert!(is_limit(error)),
        other => panic!("{other:?}"),
    }
    let small = wanted_in(MIB, DEVICE_TYPE);
    let served: Vec<_> = (0..100).map_while(|_| rig.allocate_wanted(&small).ok()).collect();
    assert!(is_limit(rig.allocate_wanted(&small).unwrap_err()));
    assert_eq!(rig.reports().memory_heaps()[0].limit, 100 * MIB);
    assert!(rig.taken(HEAP) <= 100 * MIB && served.len() >= 38, "{}", served.len());
    rig.free_all(served.into_iter().chain([large]));
}

#[test]
fn a_limit_on_one_heap_sends_requests_to_the_next() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.heap_limits = vec![(HEAP, 10 * MIB)]);
    let desc = crate::rig::wanted(8 * MIB, allotment::MemoryUsage::GpuOnly);
    let (first, second) = (rig.allocate_wanted(&desc).unwrap(), rig.allocate_wanted(&desc).unwrap());
    assert_eq!((rig.type_of(&first), rig.type_of(&second)), (DEVICE_TYPE, MemoryTypeIndex(1)));
    rig.free_all([first, second]);
}

/// With VMA, a heap over its budget serves 1,000 small requests with 1,000 device allocations.
#[test]
fn over_the_budget_a_thousand_small_requests_still_share_blocks() {
    let rig = rig_with_budget(MIB);
    let first = rig.allocate_wanted(&wanted_in(2 * MIB, DEVICE_TYPE)).unwrap();
    let desc = wanted_in(4 * KIB, DEVICE_TYPE);
    let served: Vec<_> = (0..1000).map(|_| rig.allocate_wanted(&desc).unwrap()).collect();
    let calls = rig.reports().device_calls().allocate;
    assert!(calls <= 10, "{calls} device allocations for 1,000 times 4 KiB");
    rig.free_all(served.into_iter().chain([first]));
}

#[test]
fn a_forecast_and_a_refused_block_leave_no_trace_in_the_peak() {
    let mut small = profile(DISCRETE);
    small.heaps[0].size = 32 * MIB;
    let rig = Rig::with(small, |_| {});
    let desc = wanted_in(20 * MIB, DEVICE_TYPE);
    assert!(
        matches!(rig.preview_wanted(&desc), Ok(AllocationPreview::Grows { bytes, .. }) if bytes == 20 * MIB)
    );
    assert_eq!(rig.reports().memory_heaps()[0].peak_reserved, 0);
    let first = rig.allocate_wanted(&desc).unwrap();
    assert!(matches!(rig.allocate_wanted(&desc), Err(AllocationError::OutOfMemory { .. })));
    assert_eq!(rig.reports().memory_heaps()[0].peak_reserved, 20 * MIB);
    rig.free(first).unwrap();
    rig.trim();
    assert_eq!(rig.reports().memory_heaps()[0].peak_reserved, 20 * MIB, "a peak stays");
}

/// Frees and allocates from several threads at the edge of the budget, and looks all the while at what the
/// device says is in use.
#[test]
fn threads_that_race_for_the_last_bytes_of_the_budget_never_exceed_it() {
    const THREADS: u32 = 4;
    const BUDGET: u64 = 3 * MIB;
    let rig = Rig::with(profile(DISCRETE), |desc| desc.empty_blocks = EmptyBlockPolicy::NONE);
    rig.device.set_budget(HEAP, BUDGET);
    rig.refresh_budgets();
    let desc = wanted_in(MIB, DEVICE_TYPE).within_budget().with_dedicated(Dedicated::Always);
    let (highest, served) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let pair = [rig.allocate_wanted(&desc), rig.allocate_wanted(&desc)];
                    highest.fetch_max(rig.taken(HEAP), Ordering::Relaxed);
                    served.fetch_add(pair.iter().flatten().count() as u64, Ordering::Relaxed);
                    rig.free_all(pair.into_iter().flatten());
                }
            });
        }
    });
    assert!(highest.into_inner() <= BUDGET);
    // How many depends on who runs when; but each thread begins with nothing of its own in use.
    let served = served.into_inner();
    assert!(served >= 3, "{served}");
    let last: Vec<_> =
        (0..3).map(|_| rig.allocate_wanted(&desc).expect("what was freed is there again")).collect();
    assert!(rig.allocate_wanted(&desc).is_err());
    rig.free_all(last);
}

#[test]
fn a_growing_pool_tries_smaller_blocks_where_the_budget_has_no_room_for_the_next() {
    let rig = rig_with_budget(5 * MIB);
    let mut desc = PoolDesc::new([DEVICE_TYPE]);
    desc.sizing = Some(BlockSize::Growing(small_blocks(4 * MIB, 4 * MIB)));
    let pool = rig.create_pool(desc).unwrap();
    let wanted = wanted_in(MIB, DEVICE_TYPE).within_budget();
    let served: Vec<_> = (0..5).map(|_| rig.allocate_wanted_in(&pool, &wanted).unwrap()).collect();
    assert_eq!(rig.block_size_of(&served[0]), 4 * MIB);
    assert_eq!(rig.block_size_of(&served[4]), MIB);
    assert!(is_over_budget(rig.allocate_wanted_in(&pool, &wanted)));
    rig.free_all(served);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn an_unknown_heap_in_the_limits_changes_nothing() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.heap_limits = vec![(MemoryHeapIndex(9), 1)]);
    let allocation = rig.allocate_wanted(&wanted_in(MIB, DEVICE_TYPE)).unwrap();
    rig.free(allocation).unwrap();
}
