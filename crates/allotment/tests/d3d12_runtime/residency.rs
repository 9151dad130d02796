//! Residency: memory that is evicted, made resident again, or evicted last.

use core::time::Duration;

use allotment::MemoryUsage;
use allotment::device::{
    DeviceError, MemoryDevice as _, Priority, QueueDevice as _, QueueIndex, Submission, TimelinePoint,
    TimelineValue,
};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{AccessError, Dedicated, RawResource};
use windows::Win32::Graphics::Direct3D12::*;

use crate::rig::{Config, MIB, Rig, buffer, info, target, wish};

/// Returns what the device refused, whatever the name of the resource.
fn source_of(refused: Result<(), AccessError>) -> Option<DeviceError> {
    match refused {
        Err(AccessError::Device { source, .. }) => Some(source),
        _ => None,
    }
}
use crate::runtime::calls::Call;
use crate::runtime::faults::Kind;
use crate::runtime::live::id;

const DRAWS: QueueIndex = QueueIndex(0);
const COPIES: QueueIndex = QueueIndex(1);
const LONG: Duration = Duration::from_secs(20);

/// Hands a queue nothing but waits, and says when they are over.
fn submit(rig: &Rig, queue: QueueIndex, waits: &[TimelinePoint]) -> TimelinePoint {
    // SAFETY: nothing is copied.
    let value =
        unsafe { rig.device().submit(queue, &Submission { waits, ..Submission::default() }) }.unwrap();
    TimelinePoint { queue, value }
}

fn identity(rig: &Rig, resource: &RawResource<ID3D12Resource>) -> usize {
    let memory = rig.location(resource.allocation()).unwrap().memory;
    // SAFETY: the memory lives as long as the resource, and is this device's.
    id(&unsafe { rig.device().pageable(memory) })
}

fn alone(rig: &Rig) -> RawResource<ID3D12Resource> {
    let desc = wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    rig.create_resource(&info(buffer(MIB)), &desc).unwrap()
}

fn evict(
    rig: &Rig,
    resource: &RawResource<ID3D12Resource>,
    used_until: &[TimelinePoint],
) -> Result<(), AccessError> {
    // SAFETY: nothing of these tests is used by a queue.
    unsafe { rig.evict(resource.allocation(), used_until) }
}

fn make_resident(
    rig: &Rig,
    resource: &RawResource<ID3D12Resource>,
    queue: QueueIndex,
) -> Result<(), AccessError> {
    // SAFETY: nothing of these tests is used by a queue.
    unsafe { rig.make_resident(resource.allocation(), queue) }
}

#[test]
fn committed_resources_get_their_priority_unless_it_is_the_normal_one() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    for (priority, expected) in [
        (Priority::new(0.0), Some(D3D12_RESIDENCY_PRIORITY_MINIMUM)),
        (Priority::new(0.3), Some(D3D12_RESIDENCY_PRIORITY_LOW)),
        (Priority::NORMAL, None),
        (Priority::new(0.7), Some(D3D12_RESIDENCY_PRIORITY_HIGH)),
        (Priority::HIGH, Some(D3D12_RESIDENCY_PRIORITY_MAXIMUM)),
    ] {
        for described in [buffer(MIB), target(64, 64)] {
            let mut desc = wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
            desc.priority = priority;
            let made = rig.create_resource(&info(described), &desc).unwrap();
            let said: Vec<_> = rig
                .runtime
                .calls()
                .into_iter()
                .filter_map(|call| match call {
                    Call::Priority(said) => Some(said),
                    _ => None,
                })
                .flatten()
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|&priority| (identity(&rig, &made), priority)).collect();
            assert_eq!(said, expected);
            rig.destroy([made]);
        }
    }
}

#[test]
fn an_old_runtime_takes_resources_without_their_priority() {
    let Some(rig) = Rig::new(Config::oldest()) else { return };
    let mut desc = wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    desc.priority = Priority::HIGH;
    let made = rig.create_resource(&info(buffer(MIB)), &desc).unwrap();
    let memory = rig.location(made.allocation()).unwrap().memory;
    // SAFETY: the memory lives as long as the resource, and is this device's.
    let said = unsafe { rig.device().set_memory_priority(memory, Priority::HIGH) };
    assert_eq!(said, Err(DeviceError::Unsupported));
    rig.destroy([made]);
}

#[test]
fn a_priority_that_is_refused_is_no_reason_to_refuse_the_resource() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    rig.runtime.refuse_all(Kind::SetResidencyPriority, windows::Win32::Foundation::E_INVALIDARG);
    let mut desc = wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Always);
    desc.priority = Priority::HIGH;
    let made = rig.create_resource(&info(buffer(MIB)), &desc).unwrap();
    rig.destroy([made]);
}

#[test]
fn what_shares_a_heap_is_not_evicted() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let made = rig
        .create_resource(&info(buffer(1000)), &wish(MemoryUsage::GpuOnly).with_dedicated(Dedicated::Never))
        .unwrap();
    rig.runtime.calls();
    for refused in [evict(&rig, &made, &[]), make_resident(&rig, &made, DRAWS)] {
        assert!(matches!(refused, Err(AccessError::NotDedicated { .. })), "{refused:?}");
    }
    assert!(rig.runtime.calls().is_empty());
    rig.destroy([made]);
}

#[test]
fn nothing_is_evicted_while_a_queue_may_use_it() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let made = alone(&rig);
    rig.runtime.calls();
    // The queue that copies waits for what the other has not been handed yet.
    let later = TimelinePoint { queue: DRAWS, value: TimelineValue(1) };
    let used_until = submit(&rig, COPIES, &[later]);
    let too_early = DeviceError::TimedOut { point: used_until, timeout: Duration::ZERO };
    assert_eq!(source_of(evict(&rig, &made, &[used_until])), Some(too_early));
    assert!(rig.runtime.calls().is_empty(), "nothing is done");
    assert_eq!(submit(&rig, DRAWS, &[]), later);
    // A queue may know of the other's progress before the CPU does, so both are waited for.
    for point in [later, used_until] {
        assert_eq!(rig.device().wait(point, LONG), Ok(()));
    }
    assert_eq!(evict(&rig, &made, &[used_until, later]), Ok(()));
    let evicted = rig.runtime.calls();
    assert!(matches!(&evicted[..], [Call::Evict(ids)] if *ids == [identity(&rig, &made)]), "{evicted:?}");
    make_resident(&rig, &made, DRAWS).unwrap();
    rig.destroy([made]);
}

#[test]
fn a_queue_waits_for_memory_that_comes_back_and_the_caller_does_not() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let made = alone(&rig);
    assert_eq!(evict(&rig, &made, &[]), Ok(()));
    rig.runtime.calls();
    for _ in 0..3 {
        rig.runtime.hold_up();
        make_resident(&rig, &made, DRAWS).unwrap();
        let calls = rig.runtime.calls();
        let expected = identity(&rig, &made);
        assert!(matches!(&calls[..], [Call::EnqueueMakeResident(ids)] if *ids == [expected]), "{calls:?}");
        let after = submit(&rig, DRAWS, &[]);
        let other = submit(&rig, COPIES, &[]);
        assert_eq!(rig.device().wait(other, LONG), Ok(()), "the other queue waits for nothing");
        assert!(rig.device().wait(after, Duration::from_millis(50)).is_err_and(DeviceError::is_timeout));
        rig.runtime.let_back();
        assert_eq!(rig.device().wait(after, LONG), Ok(()));
        assert_eq!(evict(&rig, &made, &[after]), Ok(()));
        rig.runtime.calls();
    }
    rig.destroy([made]);
}

#[test]
fn on_an_old_runtime_memory_is_back_when_the_call_returns() {
    let Some(rig) = Rig::new(Config::oldest()) else { return };
    let made = alone(&rig);
    assert_eq!(evict(&rig, &made, &[]), Ok(()));
    rig.runtime.calls();
    make_resident(&rig, &made, DRAWS).unwrap();
    let calls = rig.runtime.calls();
    assert!(matches!(&calls[..], [Call::MakeResident(ids)] if *ids == [identity(&rig, &made)]), "{calls:?}");
    let after = submit(&rig, DRAWS, &[]);
    assert_eq!(rig.device().wait(after, LONG), Ok(()));
    rig.destroy([made]);
}

#[test]
fn memory_that_cannot_come_back_holds_no_queue_up() {
    let Some(rig) = Rig::new(Config::usual()) else { return };
    let made = alone(&rig);
    assert_eq!(evict(&rig, &made, &[]), Ok(()));
    rig.runtime.refuse(Kind::EnqueueMakeResident, 1, windows::Win32::Foundation::E_OUTOFMEMORY);
    let refused = make_resident(&rig, &made, DRAWS);
    assert_eq!(source_of(refused), Some(DeviceError::OutOfDeviceMemory));
    let after = submit(&rig, DRAWS, &[]);
    assert_eq!(rig.device().wait(after, LONG), Ok(()));
    make_resident(&rig, &made, DRAWS).unwrap();
    let no_queue = make_resident(&rig, &made, QueueIndex(9));
    assert_eq!(source_of(no_queue), Some(DeviceError::NoSuchQueue { queue: QueueIndex(9) }));
    rig.destroy([made]);
}

#[test]
fn what_is_there_or_gone_already_is_not_asked_for_again() {
    for config in [Config::oldest(), Config::usual()] {
        let Some(rig) = Rig::new(config) else { return };
        let made = alone(&rig);
        rig.runtime.calls();
        // The runtime counts: a call too many would make the next one do nothing.
        make_resident(&rig, &made, DRAWS).unwrap();
        assert!(rig.runtime.calls().is_empty(), "it is there");
        assert_eq!(evict(&rig, &made, &[]), Ok(()));
        assert_eq!(rig.runtime.calls().len(), 1);
        assert_eq!(evict(&rig, &made, &[]), Ok(()));
        assert!(rig.runtime.calls().is_empty(), "it is gone");
        make_resident(&rig, &made, DRAWS).unwrap();
        assert_eq!(rig.runtime.calls().len(), 1);
        let after = submit(&rig, DRAWS, &[]);
        assert_eq!(rig.device().wait(after, LONG), Ok(()));
        rig.destroy([made]);
    }
}
