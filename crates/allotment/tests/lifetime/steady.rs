//! A frame that repeats the previous one allocates nothing.

use core::num::NonZero;
use core::time::Duration;

use allotment::device::TimelineValue;
use allotment::lifetime::{DeletionQueue, FramesInFlight, Recording, Recycler, ReleaseQueue};

use crate::counting;
use crate::rig::{OTHER, QUEUE, Rig};

const FRAMES: usize = 1000;

/// Frames until the highest number of simultaneous objects is reached; closed recordings are kept for some more.
const FIRST_FRAMES: usize = 200;

/// Completes all queues two frames late, and returns the number of frames that allocated after the first few.
fn cost(rig: &Rig, mut frame: impl FnMut(usize)) -> u64 {
    let mut before = 0;
    let mut late = [[0; 2]; 2];
    for i in 0..FRAMES {
        if i == FIRST_FRAMES {
            before = counting::of_this_thread();
        }
        frame(i);
        for (queue, late) in [QUEUE, OTHER].into_iter().zip(&mut late) {
            rig.timelines.complete(queue, TimelineValue(late[i % 2]));
            late[i % 2] =
                rig.tracker.submitted().points().find(|p| p.queue == queue).map_or(0, |p| p.value.0);
        }
    }
    counting::of_this_thread() - before
}

fn submit(rig: &Rig, recording: Recording, i: usize) {
    rig.submit(recording, if i % 3 == 0 { OTHER } else { QUEUE });
}

#[test]
fn retiring_and_reclaiming_allocate_nothing() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    let spent = cost(&rig, |i| {
        let (first, second) = (rig.tracker.record("first"), rig.tracker.record("second"));
        (0..50).for_each(|item| released.retire(item));
        submit(&rig, first, i);
        (0..50).for_each(|item| released.retire_sized(item, 100));
        submit(&rig, second, i + 1);
        released.reclaim(drop);
    });
    assert_eq!(spent, 0);
    assert!(released.statistics().reclaimed.count > 90 * FRAMES as u64);
}

#[test]
fn retiring_with_a_recording_or_a_point_allocates_nothing() {
    let rig = Rig::new(2);
    let released = ReleaseQueue::new(&rig.tracker);
    let spent = cost(&rig, |i| {
        let mut recording = rig.tracker.record_explicit("a frame");
        (0..20).for_each(|item| released.retire_with(recording.id(), item));
        if i % 5 == 0 {
            recording.submit_and_keep(OTHER, |_| Ok::<_, ()>(rig.timelines.submit(OTHER))).unwrap();
        }
        let done = rig.submit(recording, QUEUE);
        (0..20).for_each(|item| released.retire_after(done, item));
        released.reclaim(drop);
    });
    assert_eq!(spent, 0);
    assert!(released.statistics().reclaimed.count > 30 * FRAMES as u64);
}

#[test]
fn recordings_allocate_nothing() {
    let rig = Rig::new(2);
    let mut together = Vec::with_capacity(8);
    let spent = cost(&rig, |i| {
        together.extend((0..8).map(|_| rig.tracker.record("a list")));
        drop(together.pop());
        Recording::submit_together(&mut together, QUEUE, |_| Ok::<_, ()>(rig.timelines.submit(QUEUE)))
            .unwrap();
        let refused = rig.tracker.record("refused once").submit(QUEUE, |_| Err(())).unwrap_err();
        submit(&rig, refused.recording, i);
        assert!(rig.tracker.statistics().longest_open.is_none());
        rig.tracker.poll();
    });
    assert_eq!(spent, 0);
}

#[test]
fn owners_of_several_types_allocate_nothing_but_what_they_own() {
    let rig = Rig::new(2);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let shared = std::sync::Arc::new(7);
    let spent = cost(&rig, |i| {
        let recording = rig.tracker.record("a frame");
        drop(deletion_queue.own([1_u8; 200]));
        drop(deletion_queue.own_sized(2_u64, 8));
        // SAFETY: a number is used by no recording.
        unsafe { deletion_queue.own(3_u16).retire_with(recording.id()) };
        deletion_queue.keep(&recording, &shared);
        deletion_queue.retire((4_u8, 5_u64));
        submit(&rig, recording, i);
        deletion_queue.reclaim();
    });
    assert_eq!(spent, 0);
    assert!(deletion_queue.statistics().reclaimed.count > 4 * FRAMES as u64);
}

#[test]
fn recycling_and_pacing_allocate_nothing() {
    let rig = Rig::new(2);
    let lists = Recycler::new(&rig.tracker, 4);
    let mut pacer = FramesInFlight::new(&rig.tracker, NonZero::new(3).unwrap());
    let spent = cost(&rig, |i| {
        assert_eq!(pacer.begin(Duration::ZERO), Ok(()));
        let recording = rig.tracker.record("a frame");
        for _ in 0..2 {
            lists.release_with(recording.id(), lists.acquire().unwrap_or_else(|| vec![0; 100]));
        }
        submit(&rig, recording, i);
        pacer.end();
    });
    assert_eq!(spent, 0);
}

/// Returns the allocations of frames after a queue was three frames late, when it is fast for the first time, and
/// when it is late again. `retire` retires an object in a recording, and `reclaim` releases it.
fn cost_of_a_change(rig: &Rig, reclaim: impl Fn(), retire: impl Fn(&Recording)) -> u64 {
    let frame = |late: u64| {
        let recording = rig.tracker.record("a frame");
        retire(&recording);
        let done = rig.submit(recording, QUEUE);
        rig.timelines.complete(QUEUE, TimelineValue(done.value.0.saturating_sub(late)));
        reclaim();
    };
    (0..FIRST_FRAMES).for_each(|_| frame(3));
    let before = counting::of_this_thread();
    for late in [0, 3, 1, 2, 3, 0, 3] {
        (0..10).for_each(|_| frame(late));
    }
    counting::of_this_thread() - before
}

#[test]
fn a_queue_that_is_quick_for_once_and_late_again_makes_no_list_grow() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let reclaim = || _ = released.reclaim(drop);
    let spent = cost_of_a_change(&rig, reclaim, |_| (0..50).for_each(|item| released.retire(item)));
    assert_eq!(spent, 0);
}

#[test]
fn a_queue_that_is_quick_for_once_and_late_again_makes_no_list_of_what_is_tied_grow() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let reclaim = || _ = released.reclaim(drop);
    let spent = cost_of_a_change(&rig, reclaim, |recording| {
        (0..50).for_each(|item| released.retire_with(recording.id(), item));
    });
    assert_eq!(spent, 0);
}

#[test]
fn a_queue_that_is_late_for_the_first_time_makes_no_list_of_what_is_tied_grow() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let frame = |late: u64| {
        let recording = rig.tracker.record("a frame");
        released.retire_with(recording.id(), 0);
        (0..8).for_each(|item| released.retire(item));
        let done = rig.submit(recording, QUEUE);
        rig.timelines.complete(QUEUE, TimelineValue(done.value.0.saturating_sub(late)));
        released.reclaim(drop);
    };
    // It holds back what is not tied: there is never more of that later on.
    let open = rig.tracker.record("open for eight frames");
    (0..8).for_each(|_| frame(0));
    drop(open);
    (0..FIRST_FRAMES).for_each(|_| frame(0));
    let before = counting::of_this_thread();
    (0..10).for_each(|_| frame(3));
    assert_eq!(counting::of_this_thread(), before);
}

#[test]
fn things_that_are_used_again_are_given_back_without_an_allocation_once_a_queue_is_quick() {
    let rig = Rig::new(1);
    let lists = Recycler::new(&rig.tracker, 16);
    let frame = |late: u64| {
        let list: Vec<u32> = lists.acquire().unwrap_or_default();
        let done = rig.run(QUEUE);
        rig.timelines.complete(QUEUE, TimelineValue(done.value.0.saturating_sub(late)));
        lists.release_after(done, list);
    };
    (0..FIRST_FRAMES).for_each(|_| frame(10));
    let before = counting::of_this_thread();
    (0..40).for_each(|_| frame(0));
    (0..40).for_each(|_| frame(10));
    assert_eq!(counting::of_this_thread(), before);
}

#[test]
fn the_counter_does_count() {
    let before = counting::of_this_thread();
    drop(core::hint::black_box(Box::new(7)));
    assert_eq!(counting::of_this_thread(), before + 1);
}
