//! Recycled objects, and frames in flight.

use core::num::NonZero;
use core::time::Duration;

use allotment::device::DeviceError;
use allotment::lifetime::{FramesInFlight, Recycler};

use crate::rig::{OTHER, QUEUE, Rig, point};

#[test]
fn nothing_is_handed_out_before_it_is_completed() {
    let rig = Rig::new(1);
    let lists = Recycler::new(&rig.tracker, 8);
    let (first, second) = (rig.tracker.record("first"), rig.tracker.record("second"));
    lists.release_with(first.id(), 1);
    lists.release_with(second.id(), 2);
    lists.release(3);
    lists.release_after(point(QUEUE, 2), 4);
    lists.release_unused(5);
    assert_eq!(lists.acquire(), Some(5));
    assert_eq!(lists.acquire(), None);
    let first = rig.submit(first, QUEUE);
    assert_eq!(lists.acquire(), None);
    rig.complete(first);
    assert_eq!(lists.acquire(), Some(1));
    assert_eq!(lists.acquire(), None);
    let second = rig.submit(second, QUEUE);
    assert_eq!(lists.acquire(), None);
    rig.complete(second);
    let mut rest: Vec<_> = core::iter::from_fn(|| lists.acquire()).collect();
    rest.sort_unstable();
    assert_eq!(rest, [2, 3, 4]);
}

#[test]
fn as_many_things_are_made_as_are_in_use_at_once() {
    const IN_FLIGHT: usize = 3;
    const A_FRAME: usize = 2;
    let rig = Rig::new(1);
    let lists = Recycler::new(&rig.tracker, 4);
    let (mut made, mut running) = (0, std::collections::VecDeque::new());
    for _ in 0..1000 {
        if running.len() == IN_FLIGHT {
            rig.complete(running.pop_front().unwrap());
        }
        let mut recordings: Vec<_> = (0..A_FRAME).map(|_| rig.tracker.record("a list")).collect();
        for recording in &recordings {
            let list = lists.acquire().unwrap_or_else(|| {
                made += 1;
                made
            });
            lists.release_with(recording.id(), list);
        }
        let submit = |_| Ok::<_, ()>(rig.timelines.submit(QUEUE));
        let submitted = allotment::lifetime::Recording::submit_together(&mut recordings, QUEUE, submit);
        running.push_back(submitted.unwrap());
    }
    assert_eq!(made, IN_FLIGHT * A_FRAME);
}

#[test]
fn what_comes_back_beyond_the_bound_is_dropped() {
    let rig = Rig::new(1);
    let lists = Recycler::new(&rig.tracker, 4);
    for name in 0..100 {
        lists.release(rig.spy(name));
    }
    assert_eq!(lists.statistics().retired.pending, 100);
    lists.collect();
    let statistics = lists.statistics();
    assert_eq!((statistics.free, statistics.dropped, statistics.retired.pending), (4, 96, 0));
    assert_eq!(rig.dropped().len(), 96);
    lists.trim();
    assert_eq!((lists.statistics().free, rig.dropped().len()), (0, 100));
}

#[test]
fn no_more_frames_are_in_flight_than_may_be() {
    let rig = Rig::new(2);
    let mut pacer = FramesInFlight::new(&rig.tracker, NonZero::new(2).unwrap());
    let mut ends = Vec::new();
    for frame in 0..2_u64 {
        assert_eq!(pacer.begin(Duration::ZERO), Ok(()));
        assert_eq!((pacer.frame(), pacer.slot() as u64), (frame, frame));
        ends.push(rig.run(QUEUE));
        pacer.end();
    }
    assert!(pacer.begin(Duration::ZERO).is_err_and(DeviceError::is_timeout));
    assert_eq!((pacer.in_flight(), pacer.frame()), (2, 2));
    rig.complete(ends[0]);
    assert_eq!(pacer.begin(Duration::ZERO), Ok(()));
    assert_eq!((pacer.in_flight(), pacer.slot()), (1, 0));
    // Work submitted in between counts towards the frame that ends next.
    let by_the_way = rig.run(OTHER);
    pacer.end();
    rig.complete(ends[1]);
    assert_eq!(pacer.begin(Duration::ZERO), Ok(()));
    pacer.end();
    assert!(
        pacer.begin(Duration::ZERO).is_err_and(DeviceError::is_timeout),
        "the other queue is in the frame"
    );
    rig.complete(by_the_way);
    assert_eq!(pacer.begin(Duration::ZERO), Ok(()));
    assert_eq!(rig.tracker.timeline(QUEUE).submitted.0, 2, "nothing was submitted to mark an end");
}

#[test]
fn a_wait_that_is_too_short_is_an_error_that_says_what_was_waited_for_and_how_long() {
    let rig = Rig::new(2);
    let mut pacer = FramesInFlight::new(&rig.tracker, NonZero::new(1).unwrap());
    let (first, second) = (rig.run(QUEUE), rig.run(OTHER));
    pacer.end();
    rig.complete(first);
    let timeout = Duration::from_millis(70);
    let error = DeviceError::TimedOut { point: second, timeout };
    assert_eq!(rig.tracker.wait(second, timeout), Err(error));
    assert_eq!(rig.tracker.wait_all(&[first, second].into_iter().collect(), timeout), Err(error));
    assert_eq!(rig.tracker.wait_idle(timeout), Err(error));
    assert_eq!(pacer.begin(timeout), Err(error));
    assert_eq!(
        error.to_string(),
        "queue 1 did not reach 1 within 70ms; wait longer, or submit the work that it waits for"
    );
    rig.complete(second);
    assert_eq!(pacer.begin(timeout), Ok(()), "nothing was changed");
}

#[test]
fn frames_end_with_the_device() {
    let rig = Rig::new(1);
    let mut pacer = FramesInFlight::new(&rig.tracker, NonZero::new(1).unwrap());
    rig.run(QUEUE);
    pacer.end();
    rig.timelines.lose_device();
    assert_eq!(pacer.begin(Duration::from_secs(60)), Err(DeviceError::Lost));
}

#[test]
fn bounds_that_nothing_ever_meets_cost_nothing() {
    let rig = Rig::new(1);
    for most in [1 << 44, usize::MAX] {
        let mut pacer = FramesInFlight::new(&rig.tracker, NonZero::new(most).unwrap());
        for frame in 0..100 {
            assert_eq!(pacer.begin(Duration::ZERO), Ok(()));
            assert_eq!(pacer.slot(), frame);
            pacer.end();
        }
        let lists = Recycler::new(&rig.tracker, most);
        (0..100).for_each(|list| lists.release(list));
        lists.collect();
        assert_eq!((lists.statistics().free, lists.statistics().dropped), (100, 0));
        lists.trim();
        assert_eq!(lists.statistics().free, 0);
    }
}
