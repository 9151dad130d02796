//! Growth and compaction: another heap of the device, filled from the mirror.

use allotment::descriptor::DescriptorError;
use allotment::lifetime::WaitFor;

use crate::model::Random;
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

/// Reads tables in a recording of its own, and compares them with the numbers that they were filled with.
fn check(rig: &Rig, heap: &crate::rig::Heap, tables: &[(u32, Range)]) {
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let (mut indices, mut expected) = (Vec::new(), Vec::new());
    for (number, table) in tables {
        let place = view.place(table).unwrap();
        indices.extend(place.first..place.first + place.count);
        expected.extend((0..place.count).map(|at| value(number + at)));
    }
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), expected);
}

#[test]
fn steps_of_compaction_bring_what_is_free_together_and_move_no_more_than_they_may() {
    let rig = Rig::new();
    let heap = rig.resources(8, 1024, 64);
    let tables: Vec<_> = (0..200).map(|i| (i * 10, filled(&rig, &heap, 1 + i % 9, i * 10))).collect();
    let kept: Vec<_> = tables.into_iter().enumerate().filter(|(i, _)| i % 3 != 0).map(|(_, it)| it).collect();
    heap.reclaim();
    let before = heap.statistics();
    assert!(before.tables.largest_free < before.tables.free / 2, "{before:?}");
    let mut moved = 0;
    loop {
        let step = heap.compact_step(20).unwrap();
        assert!(step.descriptors < 20 + 9, "the last table may pass the limit: {step:?}");
        check(&rig, &heap, &kept);
        moved += step.tables;
        if step.tables == 0 {
            break;
        }
    }
    let after = heap.statistics();
    assert!(moved > 20, "{moved}");
    assert_eq!(after.tables.used, before.tables.used);
    // Holes that are smaller than each table above them stay.
    assert!(after.tables.largest_free > after.tables.free / 4 * 3, "{after:?}");
    assert_eq!((after.generation, rig.device.usage().descriptor_heaps), (0, 2), "without another heap");
    assert_eq!(heap.compact_step(0).unwrap().tables, 0);
    drop(kept);
    heap.reclaim();
    assert_eq!((heap.statistics().tables.used, heap.statistics().tables.largest_free), (0, 1024));
    rig.assert_no_complaints();
}

#[test]
fn a_step_that_moves_nothing_leaves_no_table_that_a_lower_hole_would_hold() {
    let rig = Rig::new();
    let heap = rig.resources(8, 2048, 64);
    let mut random = Random(5);
    // The first of all is where tables begin.
    let mut tables = vec![heap.allocate(1).unwrap()];
    let recording = rig.record();
    let start = heap.begin(&recording).unwrap().place(&tables[0]).unwrap().first;
    drop(recording);
    let (mut steps, mut moved) = (0, 0);
    for round in 0..60 {
        // Nearly full, so that most holes fit few tables.
        while let Ok(table) = heap.allocate(1 + random.below(15)) {
            tables.push(table);
        }
        for _ in 0..random.below(30) {
            tables.swap_remove(random.below(tables.len() as u32) as usize);
        }
        heap.reclaim();
        // Frees between the steps of one run, too.
        let mut between = random.below(3);
        loop {
            let step = heap.compact_step(1 + random.below(80)).unwrap();
            (steps, moved) = (steps + 1, moved + step.tables);
            if step.tables == 0 {
                break;
            }
            if between > 0 {
                between -= 1;
                tables.swap_remove(random.below(tables.len() as u32) as usize);
                heap.reclaim();
            }
        }
        assert_eq!(heap.compact_step(1000).unwrap().tables, 0, "round {round}: nothing has changed");
        let recording = rig.record();
        let view = heap.begin(&recording).unwrap();
        let mut places: Vec<_> = tables.iter().map(|table| view.place(table).unwrap()).collect();
        places.sort_unstable_by_key(|place| place.first);
        let (mut end, mut largest) = (start, 0);
        for place in &places {
            largest = largest.max(place.first - end);
            assert!(place.count > largest, "round {round}: {place:?} would fit a lower hole of {largest}");
            end = place.first + place.count;
        }
    }
    assert!(steps > 200 && moved > 500, "{steps} {moved}");
    rig.assert_no_complaints();
}

#[test]
fn a_recording_in_flight_reads_a_table_where_it_was_before_a_step() {
    let rig = Rig::new();
    let heap = rig.resources(8, 64, 16);
    let first = filled(&rig, &heap, 8, 10);
    let second = filled(&rig, &heap, 8, 20);
    drop(first);
    heap.reclaim();
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let before = view.place(&second).unwrap();
    assert_eq!(heap.compact_step(100).unwrap().tables, 1);
    let after = view.place(&second).unwrap();
    assert!(after.first < before.first, "the recording is given the new place as well");
    // Nothing else may have the old range meanwhile.
    let others: Vec<_> = core::iter::from_fn(|| heap.allocate(8).ok()).collect();
    let place_of_others = others.iter().map(|other| view.place(other).unwrap().first);
    assert!(place_of_others.into_iter().all(|first| first != before.first && first != after.first));
    let indices: Vec<_> = [before.first, after.first].into_iter().flat_map(|at| at..at + 8).collect();
    rig.device.pause_queues();
    let reading = rig.submit_reads(recording, view.heap(), &indices);
    drop(view);
    heap.reclaim();
    assert_eq!(heap.statistics().tables.retiring, 8);
    rig.device.resume_queues();
    assert_eq!(reading.wait(), (20..28).chain(20..28).map(value).collect::<Vec<_>>());
    heap.reclaim();
    assert_eq!(heap.statistics().tables.retiring, 0);
    check(&rig, &heap, &[(20, second)]);
    drop(others);
    rig.assert_no_complaints();
}

#[test]
fn steps_and_a_replacement_move_the_same_tables_one_after_the_other() {
    let rig = Rig::new();
    let heap = rig.resources(8, 256, 16);
    let tables: Vec<_> = (0..60).map(|i| (i * 10, filled(&rig, &heap, 4, i * 10))).collect();
    let mut kept: Vec<_> =
        tables.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, it)| it).collect();
    heap.reclaim();
    let recording = rig.record();
    let view = heap.begin(&recording).unwrap();
    let places: Vec<_> = kept.iter().map(|(_, table)| view.place(table).unwrap()).collect();
    assert!(heap.compact_step(40).unwrap().tables >= 10);
    heap.compact().unwrap();
    kept.truncate(20);
    assert_eq!(
        heap.compact_step(1000).unwrap().tables,
        0,
        "all are at the start, or the recording may use the rest"
    );
    // The recording goes on with the heap before, where the steps have copied nothing over what it has.
    let indices: Vec<_> = places[..20].iter().flat_map(|place| place.first..place.first + 4).collect();
    let expected: Vec<_> = kept.iter().flat_map(|(number, _)| *number..number + 4).map(value).collect();
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), expected);
    drop(view);
    while heap.compact_step(12).unwrap().tables > 0 {
        check(&rig, &heap, &kept);
    }
    check(&rig, &heap, &kept);
    rig.wait_idle();
    heap.reclaim();
    assert_eq!(heap.statistics().tables.largest_free, 256 - 80);
    drop(kept);
    rig.assert_no_complaints();
}
