//! The device fails at each call in turn, or is lost: nothing is left behind, and nothing has changed.

use allotment::descriptor::{DescriptorError, SamplerCache, ShaderVisibleHeap, ShaderVisibleHeapDesc};
use allotment::device::{DeviceError, SamplerDesc};

use crate::rig::{Rig, value};

/// Runs something with each of its calls failing in turn, until it succeeds; and looks after each failure.
fn at_every_call<T>(
    rig: &Rig,
    mut attempt: impl FnMut() -> Result<T, DescriptorError>,
    mut unchanged: impl FnMut(u64),
) -> T {
    for k in 1..100 {
        rig.device.fail_call(k, DeviceError::OutOfDeviceMemory);
        let result = attempt();
        rig.device.clear_faults();
        match result {
            Ok(done) => {
                assert!(k > 1, "it made no call that can fail");
                return done;
            }
            Err(error) => {
                assert!(matches!(error, DescriptorError::Device(_) | DescriptorError::Memory(_)), "{error}");
                unchanged(k);
            }
        }
    }
    panic!("it never succeeds");
}

#[test]
fn a_heap_that_cannot_be_made_leaves_nothing_behind() {
    let rig = Rig::new();
    let desc = ShaderVisibleHeapDesc::resources().with_regions(16, 16, 16);
    let make = || ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, desc);
    let heap = at_every_call(&rig, make, |_| assert_eq!(rig.device.usage().descriptor_heaps, 0));
    drop(heap);
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
}

#[test]
fn a_replacement_that_fails_changes_nothing() {
    let rig = Rig::new();
    let heap = rig.resources(4, 16, 16);
    let slot = heap.insert(&rig.number(3), None).unwrap();
    let mut table = heap.allocate(2).unwrap();
    table.write(0, &rig.number(4)).unwrap();
    let before = heap.statistics();
    at_every_call(
        &rig,
        || heap.grow(8, 32, 32),
        |k| {
            assert_eq!(heap.statistics(), before, "call {k}");
            assert_eq!(rig.device.usage().descriptor_heaps, 2);
        },
    );
    assert_eq!(heap.statistics().generation, 1);
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let indices = [slot.index(), view.place(&table).unwrap().first];
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), [value(3), value(4)]);
}

#[test]
fn a_page_that_cannot_be_made_changes_nothing() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    for count in [1, 5] {
        let before = heap.statistics();
        let mut failures = 0;
        let range = at_every_call(
            &rig,
            || heap.allocate(count),
            |_| {
                failures += 1;
                let mut after = heap.statistics();
                assert_eq!(after.failures, before.failures + failures);
                after.failures = before.failures;
                assert_eq!(after, before);
            },
        );
        heap.free(range).unwrap();
    }
}

#[test]
fn a_sampler_that_cannot_be_made_changes_nothing() {
    let rig = Rig::new();
    let cache = SamplerCache::new(rig.heap(ShaderVisibleHeapDesc::samplers())).unwrap();
    let sampler = at_every_call(
        &rig,
        || cache.get(&SamplerDesc::default()),
        |_| {
            assert_eq!((cache.len(), rig.device.usage().samplers), (0, 0));
        },
    );
    drop(sampler);
}

#[test]
fn a_lost_device_gives_everything_back_once_and_then_says_that_it_is_lost() {
    let rig = Rig::new();
    let heap = rig.resources(8, 64, 64);
    let staging = rig.staging(64);
    rig.device.pause_queues();
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    view.allocate(20).unwrap();
    let keep = std::sync::Arc::new(());
    let slot = heap.insert(&rig.number(1), Some(keep.clone() as allotment::descriptor::KeepAlive)).unwrap();
    let table = heap.allocate(8).unwrap();
    rig.submit(recording);
    heap.remove(slot).unwrap();
    drop((view, table));
    staging.retire(staging.allocate(3).unwrap()).unwrap();
    rig.device.lose_device();
    heap.reclaim();
    staging.reclaim();
    let statistics = heap.statistics();
    assert_eq!((statistics.slots.used, statistics.tables.used, statistics.transient.used), (0, 0, 0));
    assert_eq!((staging.statistics().used, std::sync::Arc::strong_count(&keep)), (0, 1));
    assert_eq!(heap.grow(16, 64, 64), Err(DescriptorError::Device(DeviceError::Lost)));
    let desc = ShaderVisibleHeapDesc::resources();
    let refused = ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, desc).unwrap_err();
    assert_eq!(refused, DescriptorError::Device(DeviceError::Lost));
    drop((heap, staging));
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
}
