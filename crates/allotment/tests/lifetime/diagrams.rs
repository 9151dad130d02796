//! The two diagrams of the article "Managing Resource Lifetimes" (Diligent Engine): a buffer is released right
//! after the draw that uses it, by the same thread or another. It is destroyed after command list N has completed,
//! never earlier, and at most one submission later.

use std::thread::scope;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferCopy, BufferDesc, QueueDevice as _, Submission, TimelineValue};
use allotment::lifetime::{ReleaseQueue, SubmissionTracker};
use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
use core::time::Duration;

use crate::rig::{QUEUE, Rig, Spy};

#[test]
fn released_right_after_the_draw_by_the_same_thread_it_goes_when_list_n_is_completed() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let before = rig.run(QUEUE);
    let n = rig.tracker.record("list N");
    // The draw is recorded here.
    released.retire(rig.spy(7));
    assert_eq!(released.reclaim(drop).count, 0, "list N may still be submitted");
    let n = rig.submit(n, QUEUE);
    rig.complete(before);
    assert_eq!(released.reclaim(drop).count, 0, "only what came before list N is completed");
    rig.complete(n);
    assert_eq!(rig.dropped(), [], "nothing goes before the queue is purged");
    assert_eq!(released.reclaim(drop).count, 1);
    assert_eq!(rig.dropped(), [7]);
}

#[test]
fn released_by_another_thread_during_list_n_plus_1_it_goes_one_submission_late() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    let n = rig.tracker.record("list N");
    // The draw is recorded here.
    let n = rig.submit(n, QUEUE);
    let after = rig.tracker.record("list N+1");
    scope(|scope| scope.spawn(|| released.retire(rig.spy(7))).join().unwrap());
    rig.complete(n);
    released.reclaim(drop);
    let after = rig.submit(after, QUEUE);
    released.reclaim(drop);
    assert_eq!(rig.dropped(), [], "it is paired with N+1");
    rig.complete(after);
    released.reclaim(drop);
    assert_eq!(rig.dropped(), [7]);
}

/// Events around the draw, in order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Event {
    Drawn,
    NextOpened,
    Submitted,
    NextSubmitted,
}

/// The value of list N is 1, that of list N+1 is 2. Returns the value whose completion releases the buffer.
fn goes_with(events: [Event; 4], released_after: usize, by_another_thread: bool) -> u64 {
    let rig = Rig::new(1);
    let released: ReleaseQueue<Spy> = ReleaseQueue::new(&rig.tracker);
    let (mut list, mut next) = (Some(rig.tracker.record("list N")), None);
    for (i, event) in events.into_iter().enumerate() {
        match event {
            Event::Drawn => {}
            Event::Submitted => drop(rig.submit(list.take().unwrap(), QUEUE)),
            Event::NextOpened => next = Some(rig.tracker.record("list N+1")),
            Event::NextSubmitted => drop(rig.submit(next.take().unwrap(), QUEUE)),
        }
        if i == released_after {
            let release = || released.retire(rig.spy(7));
            if by_another_thread {
                scope(|scope| scope.spawn(release).join().unwrap());
            } else {
                release();
            }
        }
        // The queue is purged all the time; nothing is completed.
        released.reclaim(drop);
        assert_eq!(rig.dropped(), [], "{events:?}, released after {released_after}");
    }
    for value in 1..=2 {
        rig.timelines.complete(QUEUE, TimelineValue(value));
        released.reclaim(drop);
        if rig.dropped() == [7] {
            return value;
        }
    }
    panic!("more than one submission late: {events:?}, released after {released_after}");
}

#[test]
fn whenever_and_by_whomever_it_is_released_it_goes_with_n_or_n_plus_1() {
    use Event::{Drawn, NextOpened, NextSubmitted, Submitted};
    for by_another_thread in [false, true] {
        for events in [
            [Drawn, Submitted, NextOpened, NextSubmitted],
            [Drawn, NextOpened, Submitted, NextSubmitted],
            [NextOpened, Drawn, Submitted, NextSubmitted],
        ] {
            let drawn = events.iter().position(|event| *event == Drawn).unwrap();
            for released_after in drawn..4 {
                let value = goes_with(events, released_after, by_another_thread);
                let next_opened = events.iter().position(|event| *event == NextOpened).unwrap();
                // Paired with N+1 where that was open, as in the second diagram, or there already.
                let expected = if released_after >= next_opened { 2 } else { 1 };
                assert_eq!(value, expected, "{events:?}, released after {released_after}");
            }
        }
    }
}

fn device() -> SimulatedGpu {
    SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap())
}

#[test]
fn the_first_submit_signals_1_and_then_completed_is_1() {
    let device = device();
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let timeline = tracker.timeline(QUEUE);
    assert_eq!((timeline.submitted.0, timeline.completed.0), (0, 0));
    let work = Submission::default();
    // SAFETY: there is nothing in it.
    let submit = |_| unsafe { device.submit(QUEUE, &work) };
    let done = tracker.record("the first").submit(QUEUE, submit).unwrap();
    assert_eq!(done.value, TimelineValue(1));
    tracker.wait(done, Duration::from_secs(10)).unwrap();
    let timeline = tracker.timeline(QUEUE);
    assert_eq!((timeline.submitted.0, timeline.completed.0), (1, 1));
}

#[test]
fn concurrent_submits_on_one_queue_give_strictly_increasing_values_in_queue_order() {
    const THREADS: u64 = 8;
    const EACH: u64 = 100;
    let device = device();
    let allocator = Allocator::new(device.clone(), AllocatorDesc::default()).unwrap();
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let buffer = |size, memory_usage| {
        let desc = AllocationOptions::new(memory_usage);
        allocator.create_buffer(&BufferDesc::new(size), &desc).unwrap()
    };
    // Each submission copies a number of its own to the same place: the last to run is the last to be seen.
    let numbers = buffer(8 * THREADS * EACH, MemoryUsage::Upload);
    let last = buffer(8, MemoryUsage::Readback);
    for i in 0..THREADS * EACH {
        allocator.write(numbers.allocation(), 8 * i, &i.to_le_bytes()).unwrap();
    }
    let submit = |i: u64| {
        let (from, to) = (numbers.handle(), last.handle());
        let copies = [BufferCopy { from, from_offset: 8 * i, to, to_offset: 0, size: 8 }];
        let work = Submission { copies: &copies, ..Submission::default() };
        let recording = tracker.record("one of many");
        // SAFETY: both buffers outlive the device's work, which is waited for below.
        let done = recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) }).unwrap();
        (done.value.0, i)
    };
    for round in 0..10 {
        let mut values: Vec<(u64, u64)> = scope(|scope| {
            let submit = &submit;
            let work = |thread| move || (0..EACH).map(|i| submit(thread * EACH + i)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
            let of_threads = threads.into_iter().map(|thread| thread.join().unwrap());
            of_threads
                .inspect(|values| assert!(values.is_sorted(), "a thread's own order"))
                .flatten()
                .collect()
        });
        values.sort_unstable();
        let first = 1 + round * THREADS * EACH;
        assert!(values.iter().map(|(value, _)| *value).eq(first..first + THREADS * EACH), "each value once");
        tracker.wait_idle(Duration::from_secs(60)).unwrap();
        let mut bytes = [0; 8];
        allocator.read(last.allocation(), 0, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), values.last().unwrap().1, "the highest value ran last");
    }
    allocator.destroy_buffer(numbers).unwrap();
    allocator.destroy_buffer(last).unwrap();
    assert_eq!(device.validation_errors(), Vec::<String>::new());
}
