//! Calls of the runtime that fail: whichever it is, nothing is left behind, and the next request is served.

use allotment::device::DeviceError;
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::reports::Statistics;
use allotment::memory::{Dedicated, RawResource, ResourceError};
use allotment::{AllocationError, AllocationOptions, MemoryUsage};
use windows::Win32::Foundation::{E_INVALIDARG, E_OUTOFMEMORY};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::DXGI_ERROR_DEVICE_REMOVED;
use windows::core::HRESULT;

use crate::rig::{Config, Rig, both_ways, buffer, depth, info, target, texture, wish};
use crate::runtime::faults::Kind;

const CODES: [HRESULT; 3] = [E_OUTOFMEMORY, E_INVALIDARG, DXGI_ERROR_DEVICE_REMOVED];

/// Returns the objects in use, without the counters.
fn state(rig: &Rig) -> (Statistics, [u64; 2], u32, u32) {
    let live = rig.runtime.live();
    (rig.statistics(), rig.runtime.bytes(), live.placed, live.committed)
}

/// Returns the device's error, the last of the chain of causes.
fn cause(error: ResourceError) -> Option<DeviceError> {
    match error {
        ResourceError::Device { source: error, .. }
        | ResourceError::Allocation(AllocationError::Device { source: error, .. }) => Some(error),
        ResourceError::Allocation(AllocationError::OutOfMemory { source, .. }) => Some(source),
        _ => None,
    }
}

/// Makes a resource with the first call of its making refused, then the second, and so on, until it is made
/// in spite of that. After each refusal everything is as before. Says how many calls were refused.
fn refuse_each_call(
    rig: &Rig,
    desc: &AllocationOptions,
    described: D3D12_RESOURCE_DESC,
    code: HRESULT,
) -> u64 {
    for k in 1.. {
        let before = state(rig);
        rig.runtime.refuse_from(k, code);
        let made = rig.create_resource(&info(described), desc);
        let happened = rig.runtime.refuse_nothing();
        match made {
            Err(error) => {
                assert_eq!(state(rig), before, "call {k}, {code:?}: {error:?}");
                rig.check_invariants();
                assert!(happened, "refused without a call's refusal: {error:?}");
                if code == DXGI_ERROR_DEVICE_REMOVED {
                    assert_eq!(cause(error), Some(DeviceError::Lost));
                }
            }
            Ok(resource) => {
                rig.destroy([resource]);
                assert_eq!(state(rig), before, "after all was freed");
                // A refusal that came too late for this resource, or of a call that nothing depends on: a budget.
                if !happened {
                    return k - 1;
                }
            }
        }
        assert!(k < 100, "it is never made");
    }
    unreachable!("the loop ends by returning")
}

fn described() -> [D3D12_RESOURCE_DESC; 5] {
    [buffer(1000), buffer(100_000), texture(64, 64), target(256, 256), depth(300, 200)]
}

#[test]
fn whichever_call_fails_nothing_is_left_behind() {
    for config in [Config::oldest(), Config::usual(), Config::newest().integrated()] {
        let Some(rig) = Rig::new(config) else { return };
        for described in described() {
            for desc in both_ways(&wish(MemoryUsage::GpuOnly)) {
                for code in CODES {
                    let refused = refuse_each_call(&rig, &desc, described, code);
                    let needed = if desc.dedicated == Dedicated::Always { 1 } else { 2 };
                    assert!(refused >= needed, "{refused} calls were refused");
                }
            }
        }
    }
}

#[test]
fn placement_that_fails_in_a_block_that_is_there_leaves_the_block_as_it_was() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let desc = wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never);
    let keeps_the_block = rig.create_resource(&info(buffer(1000)), &desc).unwrap();
    for described in described() {
        for code in CODES {
            let before = (state(&rig), rig.runtime.live());
            rig.runtime.refuse(Kind::CreatePlacedResource, 1, code);
            let error = rig.create_resource(&info(described), &desc).unwrap_err();
            assert!(rig.runtime.refuse_nothing());
            let expected = match code {
                E_OUTOFMEMORY => DeviceError::OutOfDeviceMemory,
                E_INVALIDARG => DeviceError::Other { code: E_INVALIDARG.0 },
                _ => DeviceError::Lost,
            };
            assert!(matches!(error, ResourceError::Device { source, .. } if source == expected), "{error:?}");
            assert_eq!((state(&rig), rig.runtime.live()), before);
        }
    }
    rig.destroy([keeps_the_block]);
}

#[test]
fn a_resource_that_cannot_be_made_over_shared_memory_leaves_the_others_alone() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let large = rig.create_resource(&info(target(256, 256)), &wish(MemoryUsage::GpuOnly)).unwrap();
    for code in CODES {
        let before = (state(&rig), rig.runtime.live());
        rig.runtime.refuse(Kind::CreatePlacedResource, 1, code);
        let refused = rig.create_aliasing_resource(large.allocation(), 0, &info(target(128, 128)));
        assert!(matches!(refused, Err(ResourceError::Device { .. })), "{refused:?}");
        assert!(rig.runtime.refuse_nothing());
        assert_eq!((state(&rig), rig.runtime.live()), before);
    }
    let beside = rig.create_aliasing_resource(large.allocation(), 0, &info(target(128, 128))).unwrap();
    drop(beside);
    rig.destroy([large]);
}

#[test]
fn mapping_that_fails_leaves_nothing_mapped_and_can_be_tried_again() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    for desc in both_ways(&wish(MemoryUsage::Upload)) {
        for k in 1..10 {
            let before = state(&rig);
            rig.runtime.refuse(Kind::CreatePlacedResource, k, E_OUTOFMEMORY);
            let made = rig.create_resource(&info(buffer(1000)), &desc);
            let written = made.as_ref().map(|made| rig.write(made.allocation(), 0, &[7; 1000]));
            let happened = rig.runtime.refuse_nothing();
            if let Ok(Err(_)) = written {
                let made = made.as_ref().unwrap();
                rig.write(made.allocation(), 0, &[7; 1000]).unwrap();
                let mut read = [0; 1000];
                rig.read(made.allocation(), 0, &mut read).unwrap();
                assert_eq!(read, [7; 1000]);
            }
            rig.destroy(made);
            assert_eq!(state(&rig), before);
            if !happened {
                break;
            }
        }
    }
}

#[test]
fn a_device_that_cannot_be_made_leaves_nothing() {
    let Some(runtime) = crate::rig::runtime(Config::usual()) else { return };
    for code in CODES {
        for k in 1..20 {
            runtime.refuse_from(k, code);
            let made = crate::rig::device(&runtime, |desc| desc);
            let happened = runtime.refuse_nothing();
            assert!(made.is_ok() || happened);
            drop(made);
            crate::rig::assert_clean(&runtime);
            if !happened {
                break;
            }
        }
    }
}

#[test]
fn a_thousand_resources_with_a_call_failing_now_and_then_leave_nothing() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let mut kept: Vec<RawResource<ID3D12Resource>> = Vec::new();
    let all = described();
    let kinds = [Kind::CreateHeap, Kind::CreatePlacedResource, Kind::CreateCommittedResource];
    let mut refusals = 0;
    for i in 0..1000_usize {
        let dedicated = [Dedicated::Automatic, Dedicated::Automatic, Dedicated::Always][i % 3];
        rig.runtime.refuse(kinds[i % 3], 1 + i as u64 % 2, CODES[i % 2]);
        match rig
            .create_resource(&info(all[i % all.len()]), &wish(MemoryUsage::GpuOnly).with_dedicated(dedicated))
        {
            Ok(made) => kept.push(made),
            Err(_) => refusals += 1,
        }
        rig.runtime.refuse_nothing();
        if i % 7 == 0 && !kept.is_empty() {
            let gone = kept.swap_remove(i % kept.len());
            rig.destroy([gone]);
        }
    }
    assert!(refusals > 100 && kept.len() > 100, "{refusals} refused, {} made", kept.len());
    let live = rig.runtime.live();
    assert_eq!((live.placed + live.committed) as usize, kept.len());
    rig.check_invariants();
    rig.destroy(kept);
}

#[test]
fn threads_that_make_and_destroy_at_the_same_time_leave_nothing() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let work = &|thread: usize| {
        let all = described();
        let mut kept: Vec<RawResource<ID3D12Resource>> = Vec::new();
        for i in 0..150 {
            let dedicated = [Dedicated::Automatic, Dedicated::Always][(i + thread) % 2];
            let desc = wish(MemoryUsage::GpuOnly).with_dedicated(dedicated);
            kept.push(rig.create_resource(&info(all[i % all.len()]), &desc).unwrap());
            if kept.len() > 20 {
                rig.destroy([kept.swap_remove(i % kept.len())]);
            }
        }
        rig.destroy(kept);
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || work(thread));
        }
    });
    // A thread that finds a lock taken leaves its free to the one that has it, and whoever looks at all pools takes it.
    rig.check_invariants();
    assert_eq!(rig.runtime.live(), Default::default());
}
