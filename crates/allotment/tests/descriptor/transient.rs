//! `TransientDescriptors`: the article's `DynamicSuballocationsManager`.

use std::collections::HashSet;

use allotment::descriptor::DescriptorError;
use allotment::lifetime::WaitFor;

use crate::rig::{Reading, Rig, value};
use allotment::memory::names::ShortName;

#[test]
fn recordings_have_disjoint_chunks_and_what_they_wrote_is_read() {
    let rig = Rig::new();
    let heap = rig.resources(0, 0, 256);
    let recordings: Vec<_> = (0..4).map(|_| rig.record()).collect();
    let mut views: Vec<_> = recordings.iter().map(|recording| heap.begin(recording).unwrap()).collect();
    let mut tables = vec![Vec::new(); 4];
    for round in 0..8 {
        for (i, view) in views.iter_mut().enumerate() {
            let mut table = view.allocate(3).unwrap();
            for at in 0..3 {
                table.write(at, &rig.number((i * 100 + round * 3) as u32 + at)).unwrap();
            }
            tables[i].push(table.place());
        }
    }
    let all: Vec<_> =
        tables.iter().flatten().flat_map(|place| place.first..place.first + place.count).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "no descriptor is two tables'");
    for (i, (recording, view)) in recordings.into_iter().zip(&views).enumerate() {
        let indices: Vec<_> =
            tables[i].iter().flat_map(|place| place.first..place.first + place.count).collect();
        let expected: Vec<_> = (0..24).map(|at| value(i as u32 * 100 + at)).collect();
        assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), expected);
    }
}

#[test]
fn a_request_larger_than_a_chunk_is_served_and_the_current_chunk_stays() {
    let rig = Rig::new();
    let heap = rig.resources(0, 0, 256);
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let first = view.allocate(4).unwrap().place().first;
    // Another recording's chunk behind it, so that it cannot be extended.
    let other = rig.record();
    let mut others = heap.begin(&other).unwrap();
    others.allocate(1).unwrap();
    let large = view.allocate(40).unwrap().place();
    assert_eq!(large.count, 40);
    let next = view.allocate(4).unwrap().place().first;
    assert_eq!(next, first + 4, "the rest of the chunk was not given up");
    assert_eq!(heap.statistics().transient.used, 16 + 48 + 16);
}

#[test]
fn a_request_beyond_the_region_is_told_both_numbers() {
    let rig = Rig::new();
    let heap = rig.resources(0, 0, 64);
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let refused = view.allocate(65).unwrap_err();
    assert_eq!(refused, DescriptorError::NeverFits { requested: 65, capacity: 64 });
    assert_eq!(view.allocate(0).unwrap_err(), DescriptorError::Empty);
    assert!(view.allocate(64).is_ok());
    assert!(view.allocate(u32::MAX).is_err());
}

#[test]
fn chunks_that_follow_each_other_waste_nothing() {
    let rig = Rig::new();
    let heap = rig.resources(0, 0, 160);
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    // More than half a chunk each: with chunks that are given up, each would cost one.
    for _ in 0..17 {
        view.allocate(9).unwrap();
    }
    assert_eq!(heap.statistics().transient.used, 160);
}

#[test]
fn a_thousand_submissions_of_five_in_one_frame_stay_within_capacity() {
    let rig = Rig::new();
    // What 1,000 mip generations did to an engine whose chunks come back at the end of the frame: there is room for 64
    // of them at once. What is recorded for the frame itself is open all the time.
    let heap = rig.resources(0, 0, 1024);
    let frame = rig.record();
    let mut flight = std::collections::VecDeque::new();
    let (mut compared, mut refused) = (0, 0);
    for i in 0..1000 {
        let recording = rig.record();
        let mut view = heap.begin(&recording).unwrap();
        let place = loop {
            match view.allocate(5) {
                Ok(mut table) => {
                    for at in 0..5 {
                        table.write(at, &rig.number(i * 3 % 4000 + at)).unwrap();
                    }
                    break table.place();
                }
                // The queue is as far behind as it can be.
                Err(DescriptorError::Exhausted { wait: Some(WaitFor::Point(point)), .. }) => {
                    refused += 1;
                    rig.wait(point);
                }
                Err(DescriptorError::Exhausted { wait: None, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let indices: Vec<_> = (place.first..place.first + 5).collect();
        flight.push_back((rig.submit_reads(recording, view.heap(), &indices), i));
        if flight.len() == 20 {
            let (reading, i): (Reading, u32) = flight.pop_front().unwrap();
            assert_eq!(reading.wait(), (0..5).map(|at| value(i * 3 % 4000 + at)).collect::<Vec<_>>());
            compared += 1;
        }
    }
    assert_eq!((compared, refused), (981, 0), "with 20 in flight there is always room");
    rig.wait_idle();
    heap.reclaim();
    assert_eq!(heap.statistics().transient.used, 0, "though the frame is still open");
    drop(frame);
}

#[test]
fn a_recording_that_holds_nothing_back_is_refused() {
    let rig = Rig::new();
    let heap = rig.resources(4, 4, 16);
    let explicit = rig.tracker.record_explicit("for minutes");
    assert_eq!(heap.begin(&explicit).unwrap_err(), DescriptorError::ExplicitRecording);
}

#[test]
fn chunks_come_back_with_their_own_submission_and_at_once_when_it_is_discarded() {
    let rig = Rig::new();
    let heap = rig.resources(0, 0, 64);
    let used = || heap.statistics().transient.used;
    let late = rig.record();
    let mut kept = heap.begin(&late).unwrap();
    kept.allocate(1).unwrap();

    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    view.allocate(40).unwrap();
    assert_eq!(used(), 64);
    drop((view, recording));
    heap.reclaim();
    assert_eq!(used(), 16, "no queue has ever seen it");

    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    view.allocate(40).unwrap();
    rig.device.pause_queues();
    let point = rig.submit(recording);
    drop(view);
    heap.reclaim();
    assert_eq!((used(), heap.statistics().transient.retiring), (64, 48));
    let refused = kept.allocate(17).unwrap_err();
    let DescriptorError::Exhausted { wait, .. } = refused else { panic!("{refused}") };
    assert_eq!(wait, Some(WaitFor::Point(point)));
    rig.device.resume_queues();
    rig.wait(point);
    assert!(kept.allocate(17).is_ok(), "though another recording is open since before");
}

#[test]
fn what_a_recording_of_a_later_frame_has_stays_until_that_is_over() {
    let rig = Rig::new();
    let heap = rig.resources(0, 0, 64);
    let late = rig.record();
    let mut view = heap.begin(&late).unwrap();
    let mut table = view.allocate(2).unwrap();
    table.write(0, &rig.number(1)).unwrap();
    table.write(1, &rig.number(2)).unwrap();
    let place = table.place();
    for frame in 0..5 {
        let recording = rig.record();
        let mut view = heap.begin(&recording).unwrap();
        let mut table = view.allocate(30).unwrap();
        for at in 0..30 {
            table.write(at, &rig.number(frame + 100)).unwrap();
        }
        let indices = [table.place().first];
        assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), [value(frame + 100)]);
        drop(view);
        heap.reclaim();
    }
    let indices = [place.first, place.first + 1];
    assert_eq!(rig.submit_reads(late, view.heap(), &indices).wait(), [value(1), value(2)]);
}

#[test]
fn a_recording_of_another_tracker_is_refused() {
    let (rig, other) = (Rig::new(), Rig::new());
    let heap = rig.resources(0, 0, 64);
    let recording = other.record();
    assert_eq!(heap.begin(&recording).unwrap_err(), DescriptorError::WrongTracker { name: ShortName::NONE });
    let (mine, foreign) = (rig.record(), other.resources(0, 16, 0));
    let view = heap.begin(&mine).unwrap();
    assert_eq!(view.place(&foreign.allocate(1).unwrap()), Err(DescriptorError::WrongHeap));
}

#[test]
fn tables_stand_at_the_alignment_that_the_device_wants() {
    let rig = Rig::on(allotment::device::simulated::Profile::named("mobile").unwrap());
    let heap = rig.resources(5, 128, 256);
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    for count in [1, 2, 3, 5, 7, 16, 17, 1] {
        let place = view.allocate(count).unwrap().place();
        assert_eq!(place.first % 4, 0, "a table of {count}");
        let range = heap.allocate(count).unwrap();
        assert_eq!(view.place(&range).unwrap().first % 4, 0, "a long-lived one of {count}");
        core::mem::forget(range);
    }
}
