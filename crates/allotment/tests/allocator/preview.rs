//! `allocate` does as `preview` says.

use allotment::device::simulated::Profile;
use allotment::device::{DedicatedNeed, MemoryDevice as _};
use allotment::memory::names::ShortName;
use allotment::memory::preview::AllocationPreview;
use allotment::memory::{Dedicated, ExpectedLifetime};
use allotment::{AllocationError, MemoryUsage, ResourceKind};

use crate::rig::{
    AllocateWanted as _, DEVICE_TYPE, DISCRETE, HEAP, KIB, MIB, Rig, Wanted, wanted, wanted_in,
};

/// Asks, allocates, and compares.
fn check(rig: &Rig, desc: &Wanted) -> allotment::Allocation {
    let forecast = rig.preview_wanted(desc).unwrap();
    let calls = rig.reports().device_calls().allocate;
    let allocation = rig.allocate_wanted(desc).unwrap();
    let expected = match forecast {
        AllocationPreview::Fits { memory_type } => (memory_type, 0, 0),
        AllocationPreview::Grows { memory_type, heap, bytes } => {
            assert_eq!(rig.device.properties().memory_type(memory_type).unwrap().heap, heap);
            (memory_type, 1, bytes)
        }
        other => panic!("{other:?}"),
    };
    // The bytes that were allocated, whichever empty block was freed for them.
    let calls = rig.reports().device_calls().allocate - calls;
    let grown = if calls == 0 { 0 } else { rig.block_size_of(&allocation) };
    let happened = (rig.type_of(&allocation), calls, grown);
    assert_eq!(happened, expected, "{desc:?}");
    allocation
}

#[test]
fn a_forecast_is_exact_on_every_machine_for_every_intent_and_size() {
    for profile in Profile::all() {
        let rig = Rig::new(profile.name);
        let mut got = Vec::new();
        for i in 0..200_u64 {
            // Sizes from a byte to 40 MiB, in no order.
            let size = 1 + (i * i * 7919) % (1 << (i % 26 + 1));
            let mut desc = wanted(size, MemoryUsage::ALL[i as usize % 5]);
            desc.requirements.kind = [ResourceKind::Buffer, ResourceKind::OptimalImage][i as usize / 5 % 2];
            desc.lifetime = [ExpectedLifetime::Long, ExpectedLifetime::Short][i as usize / 10 % 2];
            if i % 31 == 30 {
                desc.requirements.dedicated = DedicatedNeed::Preferred;
            }
            got.push(check(&rig, &desc));
        }
        rig.free_all(got);
    }
}

#[test]
fn what_was_freed_fits_again() {
    let rig = Rig::new(DISCRETE);
    for desc in [wanted_in(KIB, DEVICE_TYPE), wanted_in(50 * MIB, DEVICE_TYPE)] {
        assert!(matches!(rig.preview_wanted(&desc), Ok(AllocationPreview::Grows { .. })));
        rig.free(check(&rig, &desc)).unwrap();
        assert_eq!(rig.preview_wanted(&desc), Ok(AllocationPreview::Fits { memory_type: DEVICE_TYPE }));
        rig.free(check(&rig, &desc)).unwrap();
    }
    let dedicated = wanted_in(KIB, DEVICE_TYPE).with_dedicated(Dedicated::Always);
    rig.free(check(&rig, &dedicated)).unwrap();
    let grows = AllocationPreview::Grows { memory_type: DEVICE_TYPE, heap: HEAP, bytes: KIB };
    assert_eq!(rig.preview_wanted(&dedicated), Ok(grows), "dedicated memory is not kept");
}

#[test]
fn a_forecast_names_the_refusal_and_the_smaller_block_that_the_budget_leads_to() {
    let rig = Rig::new(DISCRETE);
    rig.device.set_budget(HEAP, 3 * MIB);
    rig.refresh_budgets();
    // The first block would be 4 MiB.
    let first = check(&rig, &wanted_in(KIB, DEVICE_TYPE).within_budget());
    assert_eq!(rig.block_size_of(&first), 2 * MIB);
    let desc = wanted_in(3 * MIB, DEVICE_TYPE).within_budget();
    let refused = rig.preview_wanted(&desc).unwrap_err();
    assert!(matches!(refused, AllocationError::OverBudget { usage, .. } if usage == 2 * MIB));
    assert_eq!(rig.allocate_wanted(&desc).unwrap_err(), refused);
    let forbidden = wanted_in(3 * MIB, DEVICE_TYPE).without_new_blocks();
    let refused = rig.preview_wanted(&forbidden).unwrap_err();
    let free = 2 * MIB - KIB;
    assert_eq!(
        refused,
        AllocationError::WouldGrow { requested: 3 * MIB, free, largest_free: free, name: ShortName::NONE }
    );
    assert_eq!(rig.allocate_wanted(&forbidden).unwrap_err(), refused);
    rig.free(first).unwrap();
}

#[test]
fn a_forecast_calls_no_driver_and_leaves_nothing_behind() {
    let rig = Rig::new(DISCRETE);
    for size in [KIB, 10 * MIB, 1000 * MIB] {
        rig.preview_wanted(&wanted(size, MemoryUsage::GpuOnly)).unwrap();
    }
    assert_eq!((rig.reports().device_calls().allocate, rig.device.fallible_calls()), (0, 0));
    assert_eq!(rig.reports().memory_heaps()[0].reserved, 0);
    assert_eq!(rig.device.properties().name, "simulated discrete-large-bar");
}
