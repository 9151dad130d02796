//! A device that is removed: every call says so in the same word, and nothing leaks.

use core::time::Duration;
use std::time::Instant;

use allotment::AllocationError;
use allotment::MemoryUsage;
use allotment::device::d3d12::MemoryOptions;
use allotment::device::{
    BufferCopy, BufferDevice as _, DeviceError, ImageDevice as _, MemoryDesc, MemoryDevice as _,
    MemoryHeapIndex, MemoryTypeIndex, Priority, QueueDevice as _, QueueIndex, Submission, TimelinePoint,
    TimelineValue,
};
use allotment::memory::d3d12::AllocatorExt as _;
use allotment::memory::{Dedicated, ResourceError};
use windows::Win32::Graphics::Dxgi::*;
use windows::core::HRESULT;

use crate::rig::{Config, MIB, Rig, assert_clean, buffer, device, info, runtime, target, wish};
use crate::runtime::faults::Kind;

const REMOVED: HRESULT = DXGI_ERROR_DEVICE_REMOVED;
const QUEUE: QueueIndex = QueueIndex(0);

/// Memory of a type that takes anything.
fn memory<'a>() -> MemoryDesc<'a, MemoryOptions> {
    MemoryDesc::new(MemoryTypeIndex(0), MIB)
}

#[test]
fn each_call_of_a_removed_device_says_that_the_device_is_lost() {
    let Some(runtime) = runtime(Config::usual()) else { return };
    let device = device(&runtime, |desc| desc).unwrap();
    let resource = info(buffer(1000));
    let heap = device.allocate_memory(&memory()).unwrap();
    let upload = MemoryDesc::new(MemoryTypeIndex(1), MIB);
    let mapped = device.allocate_memory(&upload).unwrap();
    // SAFETY: the memory is live, and large enough for the buffer.
    let first = unsafe { device.create_buffer(&resource, heap, 0) }.unwrap();
    // SAFETY: as above.
    let second = unsafe { device.create_buffer(&resource, heap, 64 << 10) }.unwrap();

    let away = device.allocate_memory(&memory()).unwrap();
    // SAFETY: the memory is live, and no queue uses it.
    assert_eq!(unsafe { device.evict(&[away], &[]) }, Ok(()));

    runtime.refuse_from(1, REMOVED);
    let lost = DeviceError::Lost;
    assert_eq!(device.allocate_memory(&memory()).unwrap_err(), lost);
    // SAFETY: the memory is live, and large enough for the buffer.
    assert_eq!(unsafe { device.create_buffer(&resource, heap, 128 << 10) }.unwrap_err(), lost);
    // SAFETY: as above.
    assert_eq!(unsafe { device.create_image(&info(target(64, 64)), heap, 0) }.unwrap_err(), lost);
    assert_eq!(device.create_dedicated_buffer(&resource, &memory()).unwrap_err(), lost);
    assert_eq!(device.create_dedicated_image(&info(target(64, 64)), &memory()).unwrap_err(), lost);
    // SAFETY: the memory is live and not mapped.
    assert_eq!(unsafe { device.map_memory(mapped) }.unwrap_err(), lost);
    // SAFETY: the memory is live, and no queue uses it.
    assert_eq!(unsafe { device.evict(&[heap], &[]) }.unwrap_err(), lost);
    // SAFETY: the memory is live.
    assert_eq!(unsafe { device.make_resident(&[away]) }.unwrap_err(), lost);
    // SAFETY: as above.
    assert_eq!(unsafe { device.make_resident_for(QUEUE, &[away]) }.unwrap_err(), lost);
    // SAFETY: as above.
    assert_eq!(unsafe { device.set_memory_priority(heap, Priority::HIGH) }.unwrap_err(), lost);
    // SAFETY: as above; a removed device gives no handle of what is not shared either.
    assert_eq!(unsafe { device.export_memory(heap) }.unwrap_err(), lost);
    let copies = [BufferCopy { from: &first, from_offset: 0, to: &second, to_offset: 0, size: 100 }];
    let submission = Submission { copies: &copies, ..Submission::default() };
    // SAFETY: the ranges lie in the buffers, which live on.
    assert_eq!(unsafe { device.submit(QUEUE, &submission) }.unwrap_err(), lost);
    // The old budget is of no use; that it cannot be queried is no failure.
    assert!(device.heap_budget(MemoryHeapIndex(0)).budget > 0);

    assert!(runtime.refuse_nothing());
    drop((first, second));
    // SAFETY: no resource is in the memory any more.
    unsafe { device.free_memory(heap) };
    // SAFETY: as above.
    unsafe { device.free_memory(mapped) };
    // SAFETY: as above.
    unsafe { device.free_memory(away) };
    drop(device);
    assert_clean(&runtime);
}

#[test]
fn a_submission_that_fails_halfway_submits_nothing_and_the_next_one_works() {
    let Some(runtime) = runtime(Config::usual()) else { return };
    let device = device(&runtime, |desc| desc).unwrap();
    let heap = device.allocate_memory(&memory()).unwrap();
    // SAFETY: the memory is live, and large enough for the buffer.
    let made = unsafe { device.create_buffer(&info(buffer(1000)), heap, 0) }.unwrap();
    let copies = [BufferCopy { from: &made, from_offset: 0, to: &made, to_offset: 500, size: 100 }];
    let submission = Submission { copies: &copies, ..Submission::default() };
    for kind in [Kind::CreateCommittedResource, Kind::CreateCommandAllocator, Kind::CreateCommandList] {
        runtime.refuse(kind, 1, REMOVED);
        // SAFETY: the ranges lie in the buffer and do not overlap; it lives on.
        assert_eq!(unsafe { device.submit(QUEUE, &submission) }, Err(DeviceError::Lost), "{kind:?}");
        assert!(runtime.refuse_nothing());
        assert_eq!(device.completed(QUEUE), Ok(TimelineValue(0)));
    }
    // SAFETY: as above.
    let value = unsafe { device.submit(QUEUE, &submission) }.unwrap();
    let point = TimelinePoint { queue: QUEUE, value };
    assert_eq!(device.wait(point, Duration::from_secs(20)), Ok(()));
    drop(made);
    // SAFETY: no resource is in the memory any more, and the queue is done.
    unsafe { device.free_memory(heap) };
    drop(device);
    assert_clean(&runtime);
}

#[test]
fn every_way_in_which_a_device_goes_is_a_lost_device() {
    let Some(runtime) = runtime(Config::usual()) else { return };
    let device = device(&runtime, |desc| desc).unwrap();
    for code in [
        DXGI_ERROR_DEVICE_REMOVED,
        DXGI_ERROR_DEVICE_HUNG,
        DXGI_ERROR_DEVICE_RESET,
        DXGI_ERROR_DRIVER_INTERNAL_ERROR,
    ] {
        runtime.refuse(Kind::CreateHeap, 1, code);
        assert_eq!(device.allocate_memory(&memory()), Err(DeviceError::Lost), "{code:?}");
    }
    drop(device);
    assert_clean(&runtime);
}

#[test]
fn a_device_that_is_removed_while_it_is_made_is_lost() {
    let Some(runtime) = runtime(Config::usual()) else { return };
    for kind in [Kind::GetDesc, Kind::CreateFence] {
        for k in 1..=3 {
            runtime.refuse(kind, k, REMOVED);
            let made = device(&runtime, |desc| desc).map(drop);
            if runtime.refuse_nothing() {
                assert_eq!(made, Err(DeviceError::Lost), "{kind:?} {k}");
            }
            assert_clean(&runtime);
        }
    }
}

#[test]
fn an_allocator_of_a_removed_device_can_be_emptied() {
    for config in [Config::oldest(), Config::newest()] {
        let Some(rig) = Rig::new(config) else { return };
        let mut kept = Vec::new();
        for dedicated in [Dedicated::Never, Dedicated::Always] {
            for described in [buffer(1000), target(64, 64)] {
                let desc = wish(MemoryUsage::GpuOnly).with_dedicated(dedicated);
                kept.push(rig.create_resource(&info(described), &desc).unwrap());
            }
        }
        rig.runtime.refuse_from(1, REMOVED);
        for memory_usage in MemoryUsage::ALL {
            let lost = rig.create_resource(&info(buffer(8 * MIB)), &wish(memory_usage)).unwrap_err();
            let source = DeviceError::Lost;
            assert!(
                matches!(lost, ResourceError::Allocation(AllocationError::Device { source: found, .. }) if found == source),
                "{lost:?}"
            );
        }
        rig.destroy(kept);
    }
}

#[test]
fn a_fence_that_says_that_the_device_is_gone_is_believed() {
    let Some(runtime) = runtime(Config::usual()) else { return };
    runtime.remove();
    let device = device(&runtime, |desc| desc).unwrap();
    assert_eq!(device.completed(QUEUE), Err(DeviceError::Lost));
    let point = TimelinePoint { queue: QUEUE, value: TimelineValue(1) };
    assert_eq!(device.wait(point, Duration::from_secs(20)), Err(DeviceError::Lost));
    let heap = device.allocate_memory(&memory()).unwrap();
    // SAFETY: the memory is live, and no queue uses it.
    assert_eq!(unsafe { device.evict(&[heap], &[point]) }, Err(DeviceError::Lost));
    // SAFETY: no resource is in the memory.
    unsafe { device.free_memory(heap) };
    // It waits for no queue of a device that is gone, where it would wait for five seconds.
    let began = Instant::now();
    drop(device);
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_clean(&runtime);
}
