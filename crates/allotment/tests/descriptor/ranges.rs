//! `DescriptorRange`: the article's `DescriptorHeapAllocation`.

use core::mem::size_of;

use allotment::descriptor::{DescriptorError, DescriptorFill, ShaderVisibleHeapDesc};
use allotment::device::simulated::SimulatedGpu;
use allotment::lifetime::WaitFor;

use crate::rig::{QUEUE, Range, Rig, numbers_of, value};

#[test]
fn a_range_is_small() {
    assert!(size_of::<allotment::descriptor::CpuDescriptorRange>() <= 32);
    assert!(size_of::<allotment::descriptor::DescriptorSlot>() <= 16);
    assert!(size_of::<Range>() <= 32, "{}", size_of::<Range>());
}

#[test]
fn assigning_over_a_live_range_retires_the_old_one() {
    let rig = Rig::new();
    let heap = rig.resources(0, 64, 0);
    let mut range = heap.allocate(8).unwrap();
    assert_eq!((range.count(), heap.statistics().tables.retiring), (8, 0));
    let recording = rig.record();
    range = heap.allocate(4).unwrap();
    assert_eq!((heap.statistics().tables.retiring, heap.retiring().pending), (8, 1));
    assert_eq!((range.count(), heap.statistics().tables.used), (4, 12));
    drop(recording);
    heap.reclaim();
    assert_eq!((heap.statistics().tables.retiring, heap.statistics().tables.used), (0, 4));
}

#[test]
fn a_descriptor_beyond_the_range_is_refused() {
    let rig = Rig::new();
    let heap = rig.resources(0, 64, 0);
    let mut range = heap.allocate(4).unwrap();
    let refused = DescriptorError::OutOfRange { first: 4, count: 1, available: 4 };
    assert_eq!(range.write(4, &rig.number(0)), Err(refused));
    assert!(range.write(u32::MAX, &rig.number(0)).is_err());
    assert_eq!(range.write(3, &rig.number(0)), Ok(()));
}

#[test]
fn a_range_that_outlives_its_heap_is_inert() {
    let rig = Rig::new();
    let heap = rig.resources(16, 64, 16);
    let mut range = heap.allocate(4).unwrap();
    let slot = heap.insert(&rig.number(1), None).unwrap();
    drop(heap);
    assert_eq!(range.write(0, &rig.number(0)), Err(DescriptorError::HeapGone));
    assert_eq!(range.renew(), Err(DescriptorError::HeapGone));
    drop(range);
    let _ = slot;
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
    rig.assert_no_complaints();
}

#[test]
fn a_recordings_view_that_outlives_its_heap_is_inert() {
    let rig = Rig::new();
    let heap = rig.resources(16, 64, 16);
    let recording = rig.record();
    let mut transient = heap.begin(&recording).unwrap();
    drop(heap);
    assert!(transient.allocate(4).is_ok(), "the recording goes on with the heap that it began with");
    rig.submit(recording);
    drop(transient);
    rig.wait_idle();
    rig.assert_no_complaints();
}

#[test]
fn a_failed_allocation_changes_nothing_but_the_count_of_failures() {
    let rig = Rig::new();
    let heap = rig.resources(2, 16, 16);
    let _held = (heap.allocate(8).unwrap(), heap.insert(&rig.number(0), None).unwrap());
    let before = heap.statistics();
    assert_eq!(numbers_of(heap.allocate(9)), [9, 8, 8, 0]);
    let never = DescriptorError::NeverFits { requested: 17, capacity: 16 };
    assert_eq!(heap.allocate(17).unwrap_err(), never);
    assert_eq!(heap.allocate(0).unwrap_err(), DescriptorError::Empty);
    let mut after = heap.statistics();
    assert_eq!(after.tables.failures, before.tables.failures + 2, "to ask for nothing is not a want of room");
    after.tables.failures = before.tables.failures;
    assert_eq!(after, before);
}

#[test]
fn a_full_region_says_what_is_on_its_way_and_what_to_wait_for() {
    let rig = Rig::new();
    let heap = rig.resources(0, 16, 0);
    rig.device.pause_queues();
    let first = heap.allocate(10).unwrap();
    let point = rig.submit(rig.record());
    drop(first);
    let refused = heap.allocate(12).unwrap_err();
    let DescriptorError::Exhausted { requested, free, retiring, wait, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!((requested, free, retiring), (12, 6, 10));
    assert_eq!(wait, Some(WaitFor::Point(point)));
    assert_eq!(point.queue, QUEUE);
    rig.device.resume_queues();
    rig.wait(point);
    assert_eq!(
        heap.allocate(12).unwrap().count(),
        12,
        "the same request succeeds then, with no call to reclaim"
    );
}

#[test]
fn what_an_open_recording_holds_is_said_to_wait_for_its_submission() {
    let rig = Rig::new();
    let heap = rig.resources(0, 16, 0);
    let recording = rig.record();
    drop(heap.allocate(16).unwrap());
    let refused = heap.allocate(1).unwrap_err();
    assert!(
        matches!(refused, DescriptorError::Exhausted { wait: Some(WaitFor::Submission), .. }),
        "{refused:?}"
    );
    drop(recording);
    assert!(heap.allocate(1).is_ok());
}

#[test]
fn regions_that_do_not_fit_the_device_are_refused_with_the_numbers() {
    let rig = Rig::new();
    let desc = ShaderVisibleHeapDesc::samplers().with_regions(2000, 40, 32);
    let refused =
        allotment::descriptor::ShaderVisibleHeap::new(&rig.allocator, &rig.tracker, desc).unwrap_err();
    assert_eq!(refused, DescriptorError::OverLimit { requested: 2072, reserved: 0, limit: 2048 });
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
}

#[test]
fn a_range_in_use_is_not_written_until_it_is_renewed_and_the_old_bytes_stay() {
    let rig = Rig::new();
    let heap = rig.resources(0, 64, 16);
    let mut range = heap.allocate(2).unwrap();
    range.write(0, &rig.number(1)).unwrap();
    range.write(1, &rig.number(2)).unwrap();
    let recording = rig.record();
    let transient = heap.begin(&recording).unwrap();
    let old = transient.place(&range).unwrap();
    assert_eq!(range.write(0, &rig.number(3)), Err(DescriptorError::InUse));
    rig.device.pause_queues();
    let reading = rig.submit_reads(recording, transient.heap(), &[old.first, old.first + 1]);
    range.renew().unwrap();
    range.write(0, &rig.number(3)).unwrap();
    heap.reclaim();
    let recording = rig.record();
    let transient = heap.begin(&recording).unwrap();
    let new = transient.place(&range).unwrap();
    assert_ne!(old.first, new.first);
    let later = rig.submit_reads(recording, transient.heap(), &[new.first, new.first + 1]);
    rig.device.resume_queues();
    assert_eq!(reading.wait(), [value(1), value(2)]);
    assert_eq!(later.wait(), [value(3), value(2)], "what was not written anew was copied");
}

#[test]
fn a_table_of_poison_is_noticed_by_who_reads_what_was_not_written() {
    let rig = Rig::new();
    let desc = ShaderVisibleHeapDesc::resources().with_regions(4, 16, 16).with_fill(DescriptorFill::Poison);
    let heap = rig.heap(desc);
    // Also where another table's descriptors were before.
    for round in 0..2 {
        let mut table = heap.allocate(16).unwrap();
        table.write(1, &rig.number(8)).unwrap();
        let recording = rig.record();
        let view = heap.begin(&recording).unwrap();
        let first = view.place(&table).unwrap().first;
        let found = rig.submit_reads(recording, view.heap(), &[first, first + 1]).wait();
        assert_eq!(found, [SimulatedGpu::NOT_READ, value(8)]);
        assert_eq!(rig.device.validation_errors().len(), round + 1, "{:?}", rig.device.validation_errors());
        drop((table, view));
        heap.reclaim();
    }
}
