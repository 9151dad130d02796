//! Recordings: across frames and threads; submitted late, together, repeatedly or never; and their status.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::catch_unwind;

use allotment::lifetime::{DeletionQueue, Recording, RecordingStatus, ReleaseQueue};

use crate::rig::{OTHER, QUEUE, Rig, point};

#[test]
fn a_deferred_recording_may_cross_frames_recorded_in_frame_1_submitted_in_frame_5() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let deletion_queue = rig.tracker.record("recorded in frame 1");
    released.retire(rig.spy(1));
    for frame in 2..=5 {
        let done = rig.run(QUEUE);
        released.retire(rig.spy(frame));
        rig.complete(done);
        assert_eq!(released.reclaim(drop).count, 0, "frame {frame}");
    }
    let done = std::thread::scope(|scope| scope.spawn(|| rig.submit(deletion_queue, QUEUE)).join().unwrap());
    assert_eq!(released.reclaim(drop).count, 0, "it runs");
    rig.complete(done);
    assert_eq!(released.reclaim(drop).count, 5);
    assert_eq!(rig.dropped(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_deferred_recording_that_is_dropped_lets_go_at_once() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let recording = rig.tracker.record("never submitted");
    released.retire(rig.spy(1));
    drop(recording);
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn a_recording_that_was_opened_later_holds_nothing_back() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    released.retire(rig.spy(1));
    let _later = rig.tracker.record("opened later");
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn a_queue_with_no_work_pins_nothing_and_is_given_none() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    for frame in 0..10 {
        let recording = rig.tracker.record("a frame");
        released.retire(rig.spy(frame));
        let done = rig.submit(recording, QUEUE);
        rig.complete(done);
        assert_eq!(released.reclaim(drop).count, 1, "the other queue is silent");
    }
    assert_eq!(rig.tracker.timeline(OTHER).submitted.0, 0, "no empty submissions");
    assert_eq!(rig.tracker.timeline(QUEUE).submitted.0, 10);
}

#[test]
fn what_is_retired_waits_for_all_queues_whichever_is_done_first() {
    for first in [QUEUE, OTHER] {
        let rig = Rig::new(2);
        let released = ReleaseQueue::new(&rig.tracker);
        let (graphics, compute) = (rig.tracker.record("graphics"), rig.tracker.record("compute"));
        released.retire(rig.spy(1));
        let (graphics, compute) = (rig.submit(graphics, QUEUE), rig.submit(compute, OTHER));
        let (one, two) = if first == QUEUE { (graphics, compute) } else { (compute, graphics) };
        rig.complete(one);
        assert_eq!(released.reclaim(drop).count, 0);
        rig.complete(two);
        assert_eq!(released.reclaim(drop).count, 1);
    }
}

#[test]
fn what_is_tied_goes_with_its_own_queue_whatever_others_do() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    let _open = rig.tracker.record("open all the time");
    let (slow, fast) = (rig.run(QUEUE), rig.run(OTHER));
    released.retire_after(slow, rig.spy(1));
    released.retire_after(fast, rig.spy(2));
    rig.complete(fast);
    assert_eq!(released.reclaim(drop).count, 1);
    assert_eq!(rig.dropped(), [2], "the later of the two points was reached first");
    // A point that is submitted later.
    released.retire_after(point(OTHER, 3), rig.spy(3));
    assert_eq!(released.reclaim(drop).count, 0);
    for _ in 2..=3 {
        let done = rig.run(OTHER);
        assert_eq!(released.reclaim(drop).count, 0);
        rig.complete(done);
    }
    assert_eq!(released.reclaim(drop).count, 1);
    rig.complete(slow);
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn what_is_retired_with_a_recording_goes_with_it_and_with_nothing_else() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let _open = rig.tracker.record("open all the time");

    let discarded = rig.tracker.record("discarded");
    released.retire_with(discarded.id(), rig.spy(1));
    assert_eq!(released.reclaim(drop).count, 0);
    drop(discarded);
    assert_eq!(released.reclaim(drop).count, 1, "no queue has seen it");

    let submitted = rig.tracker.record("submitted");
    released.retire_with(submitted.id(), rig.spy(2));
    let submitted = rig.submit(submitted, QUEUE);
    let later = rig.run(QUEUE);
    assert_eq!(released.reclaim(drop).count, 0);
    rig.complete(submitted);
    assert_eq!(released.reclaim(drop).count, 1, "what was submitted later is not waited for");

    let closed = rig.tracker.record("closed already");
    let id = closed.id();
    drop(closed);
    released.retire_with(id, rig.spy(3));
    assert_eq!(released.reclaim(drop).count, 1);
    rig.complete(later);
    assert_eq!(rig.dropped(), [1, 2, 3]);
}

#[test]
fn what_is_retired_with_a_recording_that_is_kept_waits_for_all_that_it_was_submitted_as() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    let mut again = rig.tracker.record("submitted again and again");
    let mut submit =
        |queue| again.submit_and_keep(queue, |_| Ok::<_, ()>(rig.timelines.submit(queue))).unwrap();
    let (first, second) = (submit(QUEUE), submit(OTHER));
    released.retire_with(again.id(), rig.spy(1));
    released.retire(rig.spy(2));
    rig.complete(second);
    rig.complete(first);
    assert_eq!(released.reclaim(drop).count, 0, "it may be submitted once more");
    assert_eq!(rig.tracker.status(again.id()), RecordingStatus::Open);
    let id = again.id();
    let last = rig.submit(again, QUEUE);
    assert_eq!(rig.tracker.status(id), RecordingStatus::Unknown);
    assert_eq!(released.reclaim(drop).count, 0);
    rig.complete(last);
    assert_eq!(released.reclaim(drop).count, 2);
}

#[test]
fn statuses_are_remembered_for_a_while_and_then_forgotten_on_the_safe_side() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    let recording = rig.tracker.record("remembered");
    let id = recording.id();
    assert_eq!(rig.tracker.status(id), RecordingStatus::Open);
    let done = rig.submit(recording, QUEUE);
    let discarded = rig.tracker.record("discarded");
    let discarded_id = discarded.id();
    drop(discarded);
    for _ in 0..63 {
        rig.run(OTHER);
    }
    assert_eq!(rig.tracker.status(id), RecordingStatus::Submitted(done));
    assert_eq!(rig.tracker.status(discarded_id), RecordingStatus::Discarded);
    for _ in 0..100 {
        rig.run(OTHER);
    }
    assert_eq!([id, discarded_id].map(|id| rig.tracker.status(id)), [RecordingStatus::Unknown; 2]);
    released.retire_with(id, rig.spy(1));
    rig.complete(done);
    assert_eq!(released.reclaim(drop).count, 0, "further submissions cannot be excluded");
    rig.complete_all();
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn a_submission_that_fails_leaves_the_recording_as_it_was() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let recording = rig.tracker.record("refused once");
    let id = recording.id();
    released.retire_with(id, rig.spy(1));
    released.retire(rig.spy(2));
    let refused = recording.submit(QUEUE, |_| Err("no memory")).unwrap_err();
    assert_eq!(refused.error, "no memory");
    assert_eq!((refused.recording.id(), rig.tracker.status(id)), (id, RecordingStatus::Open));
    assert_eq!(released.reclaim(drop).count, 0);
    let done = rig.submit(refused.recording, QUEUE);
    assert_eq!(rig.tracker.status(id), RecordingStatus::Submitted(done));
    rig.complete(done);
    assert_eq!(released.reclaim(drop).count, 2);

    let recording = rig.tracker.record("refused and dropped");
    let id = recording.id();
    drop(recording.submit(QUEUE, |_| Err(())));
    assert_eq!(rig.tracker.status(id), RecordingStatus::Discarded);
}

#[test]
fn a_submission_that_panics_counts_as_one_that_a_queue_may_have() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let recording = rig.tracker.record("submitted, and then a panic");
    let id = recording.id();
    released.retire_with(id, rig.spy(1));
    let submit = |_| -> Result<_, ()> {
        rig.timelines.submit(QUEUE);
        panic!("on purpose")
    };
    catch_unwind(AssertUnwindSafe(|| recording.submit(QUEUE, submit))).unwrap_err();
    assert_eq!(rig.tracker.status(id), RecordingStatus::Unknown);
    assert_eq!(rig.tracker.statistics().open, 0);
    assert_eq!(released.reclaim(drop).count, 0, "the queue has it");
    rig.complete_all();
    assert_eq!(released.reclaim(drop).count, 1);
}

#[test]
fn what_a_panic_may_have_submitted_is_not_forgotten_when_the_recording_is_used_on() {
    /// The next step after the panic.
    #[derive(Clone, Copy, Debug)]
    enum Then {
        Refused,
        SubmittedElsewhere,
    }
    for then in [Then::Refused, Then::SubmittedElsewhere] {
        for together in [false, true] {
            let rig = Rig::new(2);
            let released = ReleaseQueue::new(&rig.tracker);
            let mut recordings = vec![rig.tracker.record("used on after a panic")];
            let id = recordings[0].id();
            let submit = |_| -> Result<_, ()> {
                rig.timelines.submit(QUEUE);
                panic!("on purpose")
            };
            let submit = AssertUnwindSafe(|| match together {
                true => Recording::submit_together(&mut recordings, QUEUE, submit),
                false => recordings[0].submit_and_keep(QUEUE, submit),
            });
            catch_unwind(submit).unwrap_err();
            let recording = recordings.pop().unwrap();
            match then {
                Then::Refused => drop(recording.submit(QUEUE, |_| Err(())).unwrap_err()),
                Then::SubmittedElsewhere => rig.complete(rig.submit(recording, OTHER)),
            }
            released.retire_with(id, rig.spy(1));
            assert_eq!(released.reclaim(drop).count, 0, "{then:?}, together: {together}: the queue has it");
            rig.complete_all();
            assert_eq!(released.reclaim(drop).count, 1);
        }
    }
}

#[test]
fn recordings_are_submitted_together_or_not_at_all() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let mut recordings: Vec<_> = (0..3).map(|_| rig.tracker.record("one of three")).collect();
    let ids: Vec<_> = recordings.iter().map(Recording::id).collect();
    ids.iter().zip(1..).for_each(|(id, name)| released.retire_with(*id, rig.spy(name)));
    Recording::submit_together(&mut recordings, QUEUE, |_| Err(())).unwrap_err();
    assert_eq!(recordings.len(), 3);
    assert!(ids.iter().all(|id| rig.tracker.status(*id) == RecordingStatus::Open));
    let submits = AtomicU32::new(0);
    let submit = |_| {
        submits.fetch_add(1, Ordering::Relaxed);
        Ok::<_, ()>(rig.timelines.submit(QUEUE))
    };
    let done = Recording::submit_together(&mut recordings, QUEUE, submit).unwrap();
    assert_eq!((recordings.len(), submits.into_inner()), (0, 1));
    assert!(ids.iter().all(|id| rig.tracker.status(*id) == RecordingStatus::Submitted(done)));
    assert_eq!(released.reclaim(drop).count, 0);
    rig.complete(done);
    assert_eq!(released.reclaim(drop).count, 3);
}

#[test]
fn an_explicit_recording_holds_back_what_it_keeps_and_nothing_else() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let explicit = rig.tracker.record_explicit("open for minutes");
    let shared = std::sync::Arc::new(deletion_queue.own(rig.spy(1)));
    deletion_queue.keep(&explicit, &shared);
    drop(shared);
    deletion_queue.retire(rig.spy(2));
    deletion_queue.reclaim();
    assert_eq!(rig.dropped(), [2]);
    let done = rig.submit(explicit, QUEUE);
    deletion_queue.reclaim();
    assert_eq!(rig.dropped(), [2]);
    rig.complete(done);
    // The owner goes, which retires what it owns.
    deletion_queue.reclaim();
    deletion_queue.reclaim();
    assert_eq!(rig.dropped(), [2, 1]);
}
