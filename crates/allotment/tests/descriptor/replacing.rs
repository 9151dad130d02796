//! Growth and compaction: another heap of the device, filled from the mirror.

use allotment::descriptor::DescriptorError;
use allotment::lifetime::WaitFor;

use crate::rig::{Range, Rig, value};

fn filled(rig: &Rig, heap: &crate::rig::Heap, count: u32, number: u32) -> Range {
    let mut range = heap.allocate(count).unwrap();
    for at in 0..count {
        range.write(at, &rig.number(number + at)).unwrap();
    }
    range
}

#[test]
fn after_compaction_all_that_is_free_is_one_range_and_tables_are_readable() {
    let rig = Rig::new();
    let heap = rig.resources(8, 128, 64);
    let slot = heap.insert(&rig.number(9), None).unwrap();
    let tables: Vec<_> = (0..32).map(|i| filled(&rig, &heap, 4, i * 10)).collect();
    let kept: Vec<_> = tables.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).collect();
    heap.reclaim();
    let before = heap.statistics().tables;
    assert_eq!((before.free, before.largest_free), (64, 4));
    assert!(before.fragmentation() > 0.9);
    let refused = heap.allocate(5).unwrap_err();
    assert!(
        matches!(refused, DescriptorError::Exhausted { requested: 5, free: 64, largest: 4, .. }),
        "{refused}"
    );

    heap.compact().unwrap();
    let after = heap.statistics().tables;
    assert_eq!((after.free, after.largest_free, after.used), (64, 64, 64));
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let mut indices = vec![slot.index()];
    let mut expected = vec![value(9)];
    for (i, table) in &kept {
        let place = view.place(table).unwrap();
        indices.extend(place.first..place.first + 4);
        expected.extend((0..4).map(|at| value(*i as u32 * 10 + at)));
    }
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), expected);
    drop(view);
    heap.reclaim();
    assert_eq!(rig.device.usage().descriptor_heaps, 2, "the heap and its mirror");
    assert!(heap.allocate(64).is_ok());
    rig.assert_no_complaints();
}

#[test]
fn a_recording_goes_on_with_the_heap_that_it_began_with() {
    let rig = Rig::new();
    let heap = rig.resources(8, 64, 32);
    let (first, second) = (filled(&rig, &heap, 4, 10), filled(&rig, &heap, 4, 20));
    let slot = heap.insert(&rig.number(1), None).unwrap();
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let old = view.place(&second).unwrap();
    let mut table = view.allocate(2).unwrap();
    table.write(0, &rig.number(30)).unwrap();
    table.write(1, &rig.number(31)).unwrap();
    let transient = table.place();
    drop(first);
    {
        // What the first table had may be used again now, for all but the open recording; so it stays where it is.
        heap.grow(16, 64, 64).unwrap();
    }
    assert_eq!(heap.statistics().generation, 1);
    // What is written now is seen by both.
    let late = heap.insert(&rig.number(2), None).unwrap();
    assert_eq!(view.place(&second).unwrap(), old, "for this recording it is where it was");
    let mut more = view.allocate(16).unwrap();
    more.write(0, &rig.number(32)).unwrap();
    let more = more.place();
    assert_eq!(
        view.allocate(17).unwrap_err(),
        DescriptorError::Replaced,
        "its heap is full, and there is another"
    );
    let after = filled(&rig, &heap, 2, 40);
    assert_eq!(view.place(&after), Err(DescriptorError::Replaced));

    let mut indices: Vec<_> = (old.first..old.first + 4).collect();
    indices.extend([slot.index(), late.index(), transient.first, transient.first + 1, more.first]);
    rig.device.pause_queues();
    let reading = rig.submit_reads(recording, view.heap(), &indices);
    drop(view);
    heap.reclaim();
    assert_eq!(rig.device.usage().descriptor_heaps, 3, "the old heap is in flight");
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let place = view.place(&after).unwrap();
    let new =
        rig.submit_reads(recording, view.heap(), &[place.first, place.first + 1, slot.index(), late.index()]);
    rig.device.resume_queues();
    assert_eq!(reading.wait(), [20, 21, 22, 23, 1, 2, 30, 31, 32].map(value));
    assert_eq!(new.wait(), [40, 41, 1, 2].map(value));
    heap.reclaim();
    assert_eq!(rig.device.usage().descriptor_heaps, 2);
    rig.assert_no_complaints();
}

#[test]
fn slots_keep_their_index_and_there_are_more_of_them() {
    let rig = Rig::new();
    let heap = rig.resources(10, 16, 16);
    let mut slots: Vec<_> = (0..10).map(|i| heap.insert(&rig.number(i), None).unwrap()).collect();
    assert!(heap.insert(&rig.number(10), None).is_err());
    heap.grow(1000, 16, 16).unwrap();
    slots.extend((10..1000).map(|i| heap.insert(&rig.number(i), None).unwrap()));
    let indices: Vec<_> = slots.iter().map(|slot| slot.index()).collect();
    assert_eq!(rig.read(&heap, &indices), (0..1000).map(value).collect::<Vec<_>>());
    let statistics = heap.statistics();
    assert_eq!((statistics.slots.capacity, statistics.slots.used, statistics.capacity), (1000, 1000, 1032));
}

#[test]
fn a_heap_is_not_replaced_while_the_one_before_it_is_used() {
    let rig = Rig::new();
    let heap = rig.resources(4, 16, 16);
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    heap.compact().unwrap();
    assert_eq!(heap.compact(), Err(DescriptorError::StillReplacing { wait: Some(WaitFor::Submission) }));
    rig.device.pause_queues();
    let point = rig.submit(recording);
    drop(view);
    let wait = Some(WaitFor::Point(point));
    assert_eq!(heap.grow(8, 16, 16), Err(DescriptorError::StillReplacing { wait }));
    assert_eq!(heap.statistics().generation, 1);
    rig.device.resume_queues();
    rig.wait(point);
    assert_eq!(heap.grow(8, 16, 16), Ok(()));
}

#[test]
fn a_region_does_not_shrink_and_a_heap_does_not_pass_the_limit() {
    let rig = Rig::new();
    let heap = rig.resources(4, 16, 16);
    let before = heap.statistics();
    assert_eq!(heap.grow(4, 15, 16), Err(DescriptorError::NeverFits { requested: 16, capacity: 15 }));
    assert!(matches!(heap.grow(u32::MAX, 16, 16), Err(DescriptorError::OverLimit { .. })));
    assert_eq!(heap.statistics(), before);
}

#[test]
fn what_was_given_back_before_a_replacement_comes_back_after_it() {
    let rig = Rig::new();
    let heap = rig.resources(4, 64, 32);
    let recording = rig.record();
    let tables: Vec<_> = (0..8).map(|i| filled(&rig, &heap, 8, i)).collect();
    let slot = heap.insert(&rig.number(1), None).unwrap();
    let mut view = heap.begin(&recording).unwrap();
    view.allocate(20).unwrap();
    drop(tables);
    heap.remove(slot).unwrap();
    heap.compact().unwrap();
    drop(view);
    assert_eq!(heap.statistics().tables.used, 64);
    drop(recording);
    heap.reclaim();
    let statistics = heap.statistics();
    assert_eq!((statistics.tables.used, statistics.slots.used, statistics.transient.used), (0, 0, 0));
    assert!(heap.allocate(64).is_ok());
    assert_eq!(rig.device.usage().descriptor_heaps, 2);
}

#[test]
fn a_table_that_is_renewed_after_a_replacement_leaves_recordings_of_the_heap_before_what_they_have() {
    let rig = Rig::new();
    let heap = rig.resources(4, 64, 16);
    let mut table = filled(&rig, &heap, 4, 10);
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let before = view.place(&table).unwrap();
    heap.compact().unwrap();
    table.renew().unwrap();
    (0..4).for_each(|at| table.write(at, &rig.number(50 + at)).unwrap());
    assert_eq!(view.place(&table), Err(DescriptorError::Replaced), "the new range is in the new heap alone");
    let indices: Vec<_> = (before.first..before.first + before.count).collect();
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), [10, 11, 12, 13].map(value));
    drop(view);

    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let first = view.place(&table).unwrap().first;
    let indices: Vec<_> = (first..first + 4).collect();
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), [50, 51, 52, 53].map(value));
    drop(view);
    rig.assert_no_complaints();
}
