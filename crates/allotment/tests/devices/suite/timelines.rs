//! When work is done: timelines, waits, and order.

use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};
use core::time::Duration;
use std::time::Instant;

use allotment::device::{DeviceError, QueueDevice as _, QueueIndex, TimelinePoint, TimelineValue};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE, copy};

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        a_timeline_begins_at_0,
        the_value_0_is_always_reached,
        values_count_up_from_1_on_each_queue,
        work_without_copies_reaches_its_value,
        a_wait_without_time_returns_at_once,
        a_wait_times_out,
        a_wait_without_end_is_reached,
        threads_wait_for_the_same_point,
        a_timeline_never_goes_back,
        a_queue_completes_in_the_order_of_submission,
        a_submission_waits_for_an_earlier_one_of_its_queue,
        submissions_wait_for_each_other_across_queues,
        a_submission_may_wait_for_what_is_not_submitted_yet,
        a_submission_waits_for_all_its_points,
        a_wait_for_a_point_that_was_reached_costs_nothing,
        a_wait_for_a_reached_point_needs_nothing_that_is_submitted_meanwhile,
        threads_submit_to_all_queues_at_once,
        many_small_submissions_all_complete,
        a_queue_that_does_not_exist_is_refused,
        what_was_submitted_is_known_before_it_is_done,
        each_thread_finds_its_own_submission_counted,
        nothing_was_submitted_to_a_queue_that_does_not_exist,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);

const ONE_QUEUE: Outcome = Outcome::DoesNotApply("the device has one queue");

fn point(queue: QueueIndex, value: u64) -> TimelinePoint {
    TimelinePoint { queue, value: TimelineValue(value) }
}

fn a_timeline_begins_at_0<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        assert_eq!(gpu.completed(queue), TimelineValue(0));
    }
}

fn the_value_0_is_always_reached<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        assert_eq!(gpu.device().wait(point(queue, 0), Duration::ZERO), Ok(()));
        gpu.wait(gpu.submit(queue, &[point(queue, 0), point(FIRST, 0)], &[]));
        assert_eq!(gpu.device().wait(point(queue, 0), Duration::ZERO), Ok(()));
    }
}

fn values_count_up_from_1_on_each_queue<F: Fixture>(gpu: &Gpu<F>) {
    for value in 1..=20 {
        for queue in gpu.queues() {
            // Completed or not, in turns.
            let submitted = gpu.submit(queue, &[], &[]);
            assert_eq!(submitted, point(queue, value));
            if value % 3 == 0 {
                gpu.wait(submitted);
                assert_eq!(gpu.completed(queue), TimelineValue(value));
            }
        }
    }
}

fn work_without_copies_reaches_its_value<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        for value in 1..=3 {
            let submitted = gpu.submit(queue, &[], &[]);
            assert_eq!(submitted, point(queue, value));
            gpu.wait(submitted);
            assert_eq!(gpu.completed(queue), TimelineValue(value));
        }
    }
}

fn a_wait_without_time_returns_at_once<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        let began = Instant::now();
        assert!(gpu.device().wait(point(queue, 1), Duration::ZERO).is_err_and(DeviceError::is_timeout));
        assert!(began.elapsed() < PATIENCE / 10, "{:?}", began.elapsed());
        gpu.wait(gpu.submit(queue, &[], &[]));
        assert_eq!(gpu.device().wait(point(queue, 1), Duration::ZERO), Ok(()));
    }
}

fn a_wait_times_out<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        gpu.wait(gpu.submit(queue, &[], &[]));
        // This point was not submitted.
        let began = Instant::now();
        let timeout = Duration::from_millis(20);
        assert!(gpu.device().wait(point(queue, 2), timeout).is_err_and(DeviceError::is_timeout));
        let took = began.elapsed();
        // Clocks that drivers wait by are coarser than this one.
        assert!(took > timeout / 2, "gave up after {took:?}");
        assert!(took < PATIENCE / 10, "gave up after {took:?}");
    }
}

fn a_wait_without_end_is_reached<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        let submitted = gpu.submit(queue, &[], &[]);
        for forever in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX)] {
            assert_eq!(gpu.device().wait(submitted, forever), Ok(()));
        }
    }
}

fn threads_wait_for_the_same_point<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                // Most of them begin to wait before there is anything to wait for.
                scope.spawn(move || gpu.wait(point(queue, 3)));
            }
            for _ in 0..3 {
                let _ = gpu.submit(queue, &[], &[]);
            }
        });
        assert_eq!(gpu.completed(queue), TimelineValue(3));
    }
}

fn a_timeline_never_goes_back<F: Fixture>(gpu: &Gpu<F>) {
    const SIZE: u64 = 16 << 10;
    let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.two_way_type(), SIZE));
    for queue in gpu.queues() {
        let mut seen = gpu.completed(queue);
        let mut last = point(queue, seen.0);
        for _ in 0..50 {
            last = gpu.submit(queue, &[last], &[copy(&from, 0, &to, 0, SIZE)]);
            let now = gpu.completed(queue);
            assert!(seen <= now && now <= last.value, "{seen:?}, {now:?}, {last:?}");
            seen = now;
        }
        gpu.wait(last);
        assert_eq!(gpu.completed(queue), last.value);
    }
}

fn a_queue_completes_in_the_order_of_submission<F: Fixture>(gpu: &Gpu<F>) {
    const PART: u64 = 16 << 10;
    const PARTS: u64 = 24;
    for queue in gpu.queues() {
        let [from, to] = [gpu.upload_type(), gpu.readback_type()].map(|t| gpu.buffer(t, PARTS * PART));
        let bytes = pattern(1, PARTS * PART);
        gpu.put(&from, 0, &bytes);
        // Large and small by turns, so that one that overtook another would be seen.
        let size = |part: u64| if part % 2 == 0 { PART } else { 256 };
        let submit = |part| gpu.submit(queue, &[], &[copy(&from, part * PART, &to, part * PART, size(part))]);
        let points: Vec<_> = (0..PARTS).map(submit).collect();
        let mapping = to.memory().map();
        for until in [5, 11, 23] {
            gpu.wait(points[until as usize]);
            for part in 0..=until {
                let range = part * PART..part * PART + size(part);
                let expected = &bytes[range.start as usize..range.end as usize];
                assert_same(&mapping.get(range), expected, (queue, until, part));
            }
        }
    }
}

/// Copies a pattern from buffer to buffer, each step on the next of `queues`, after the step before.
fn assert_a_chain_arrives<F: Fixture>(gpu: &Gpu<F>, queues: &[QueueIndex]) {
    const SIZE: u64 = 32 << 10;
    const STEPS: usize = 16;
    let types = gpu.two_way_types();
    let buffers: Vec<_> = (0..=STEPS).map(|i| gpu.buffer(types[i % types.len()], SIZE)).collect();
    gpu.put(&buffers[0], 0, &pattern(1, SIZE));
    let mut last = None;
    for (step, pair) in buffers.windows(2).enumerate() {
        let queue = queues[step % queues.len()];
        last = Some(gpu.submit(queue, last.as_slice(), &[copy(&pair[0], 0, &pair[1], 0, SIZE)]));
    }
    gpu.wait(last.unwrap());
    assert_same(&gpu.get(&buffers[STEPS]), &pattern(1, SIZE), queues);
}

fn a_submission_waits_for_an_earlier_one_of_its_queue<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        assert_a_chain_arrives(gpu, &[queue]);
    }
}

fn submissions_wait_for_each_other_across_queues<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let queues: Vec<_> = gpu.queues().collect();
    if queues.len() < 2 {
        return ONE_QUEUE;
    }
    for &one in &queues {
        for &other in queues.iter().filter(|&&other| other != one) {
            assert_a_chain_arrives(gpu, &[one, other]);
        }
    }
    assert_a_chain_arrives(gpu, &queues);
    Outcome::Ran
}

fn a_submission_may_wait_for_what_is_not_submitted_yet<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    if gpu.properties().queues.len() < 2 {
        return ONE_QUEUE;
    }
    let [early, late] = [QueueIndex(1), FIRST];
    let buffers = [(); 3].map(|()| gpu.buffer(gpu.two_way_type(), 4096));
    gpu.put(&buffers[0], 0, &pattern(1, 4096));
    gpu.put(&buffers[1], 0, &pattern(2, 4096));
    gpu.put(&buffers[2], 0, &pattern(3, 4096));
    let awaited = point(late, gpu.completed(late).0 + 1);

    let second = gpu.submit(early, &[awaited], &[copy(&buffers[1], 0, &buffers[2], 0, 4096)]);
    let soon = Duration::from_millis(20);
    assert!(
        gpu.device().wait(second, soon).is_err_and(DeviceError::is_timeout),
        "what it waits for was not submitted"
    );
    let first = gpu.submit(late, &[], &[copy(&buffers[0], 0, &buffers[1], 0, 4096)]);
    assert_eq!(first, awaited);
    gpu.wait(second);
    assert_same(&gpu.get(&buffers[2]), &pattern(1, 4096), "the second copied what the first had copied");
    Outcome::Ran
}

fn a_submission_waits_for_all_its_points<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    let queues: Vec<_> = gpu.queues().collect();
    let Some((&last, others)) = queues.split_last().filter(|(_, others)| !others.is_empty()) else {
        return ONE_QUEUE;
    };
    const SIZE: u64 = 128 << 10;
    let memory_type = gpu.two_way_type();
    let whole = gpu.buffer(memory_type, SIZE * others.len() as u64);
    let end = gpu.buffer(memory_type, SIZE * others.len() as u64);
    let sources: Vec<_> = others.iter().map(|_| gpu.buffer(memory_type, SIZE)).collect();
    let mut expected = Vec::new();
    for (seed, source) in (1..).zip(&sources) {
        let bytes = pattern(seed, SIZE);
        gpu.put(source, 0, &bytes);
        expected.extend(bytes);
    }
    let parts = others.iter().zip(&sources).zip(0..);
    let points: Vec<_> = parts
        .map(|((&queue, source), part)| gpu.submit(queue, &[], &[copy(source, 0, &whole, part * SIZE, SIZE)]))
        .collect();
    gpu.wait(gpu.submit(last, &points, &[copy(&whole, 0, &end, 0, expected.len() as u64)]));
    assert_same(&gpu.get(&end), &expected, "all parts were there before the last copy");
    Outcome::Ran
}

fn a_wait_for_a_point_that_was_reached_costs_nothing<F: Fixture>(gpu: &Gpu<F>) {
    let reached: Vec<_> = gpu.queues().map(|queue| gpu.submit(queue, &[], &[])).collect();
    for &point in &reached {
        gpu.wait(point);
    }
    for queue in gpu.queues() {
        gpu.wait(gpu.submit(queue, &reached, &[]));
    }
}

/// A thread submits to one queue, and another has each other queue wait for what the first has last submitted: often a point
/// that was reached, while the next submission is on its way. A driver that mixes the two up stops both queues.
fn a_wait_for_a_reached_point_needs_nothing_that_is_submitted_meanwhile<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    const COUNT: u64 = 3000;
    if gpu.properties().queues.len() < 2 {
        return ONE_QUEUE;
    }
    for busy in gpu.queues() {
        let (last, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..COUNT {
                    last.store(gpu.submit(busy, &[], &[]).value.0, Release);
                }
                is_done.store(true, Release);
            });
            while !is_done.load(Acquire) {
                for queue in gpu.queues().filter(|&queue| queue != busy) {
                    gpu.submit(queue, &[point(busy, last.load(Acquire))], &[]);
                }
            }
        });
        for queue in gpu.queues() {
            gpu.wait(gpu.submit(queue, &[], &[]));
        }
    }
    Outcome::Ran
}

fn threads_submit_to_all_queues_at_once<F: Fixture>(gpu: &Gpu<F>) {
    const THREADS: u64 = 4;
    const EACH: u64 = 40;
    const SIZE: u64 = 64;
    let memory_type = gpu.two_way_type();
    let queues: Vec<_> = gpu.queues().collect();
    let total = THREADS * EACH * SIZE;
    let from = gpu.buffer(memory_type, total);
    gpu.put(&from, 0, &pattern(1, total));
    let before: Vec<_> = queues.iter().map(|&queue| gpu.completed(queue).0).collect();
    let to: Vec<_> = queues.iter().map(|_| gpu.buffer(memory_type, total)).collect();

    let work = |thread: u64| {
        let mut points = Vec::new();
        for at in (0..EACH).map(|i| (thread * EACH + i) * SIZE) {
            for (&queue, to) in queues.iter().zip(&to) {
                points.push(gpu.submit(queue, &[], &[copy(&from, at, to, at, SIZE)]));
            }
        }
        points
    };
    let points: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });

    for ((&queue, &before), to) in queues.iter().zip(&before).zip(&to) {
        let mut values: Vec<_> = points.iter().filter(|p| p.queue == queue).map(|p| p.value.0).collect();
        values.sort_unstable();
        let expected: Vec<_> = (before + 1..=before + THREADS * EACH).collect();
        assert_eq!(values, expected, "each value of {queue:?} was given once");
        gpu.wait(point(queue, before + THREADS * EACH));
        assert_same(&gpu.get(to), &pattern(1, total), queue);
    }
}

fn many_small_submissions_all_complete<F: Fixture>(gpu: &Gpu<F>) {
    const COUNT: u64 = 1000;
    let memory_type = gpu.two_way_type();
    for queue in gpu.queues() {
        let [from, to] = [(); 2].map(|()| gpu.buffer(memory_type, COUNT * 3));
        gpu.put(&from, 0, &pattern(1, COUNT * 3));
        let before = gpu.completed(queue).0;
        for i in 0..COUNT {
            let _ = gpu.submit(queue, &[], &[copy(&from, i * 3, &to, i * 3, 3)]);
        }
        gpu.wait(point(queue, before + COUNT));
        assert_eq!(gpu.completed(queue), TimelineValue(before + COUNT));
        assert_same(&gpu.get(&to), &pattern(1, COUNT * 3), queue);
    }
}

fn a_queue_that_does_not_exist_is_refused<F: Fixture>(gpu: &Gpu<F>) {
    // Safe calls, so the device has to look.
    for queue in [gpu.properties().queues.len() as u8, u8::MAX].map(QueueIndex) {
        assert!(gpu.device().completed(queue).is_err(), "{queue:?}");
        assert!(gpu.device().wait(point(queue, 1), Duration::ZERO).is_err(), "{queue:?}");
    }
}

fn what_was_submitted_is_known_before_it_is_done<F: Fixture>(gpu: &Gpu<F>) {
    for queue in gpu.queues() {
        assert_eq!(gpu.device().submitted(queue), TimelineValue(0), "{queue:?}");
    }
    for round in 1..=20 {
        for queue in gpu.queues() {
            let submitted = gpu.submit(queue, &[], &[]);
            assert_eq!(gpu.device().submitted(queue), submitted.value, "{queue:?}");
            assert_eq!(submitted.value.0, round, "{queue:?}");
        }
    }
    let refused = point(QueueIndex(u8::MAX), 1);
    gpu.fixture().expect_complaints("submit: ");
    for queue in gpu.queues() {
        assert!(gpu.try_submit(queue, &[refused], &[]).is_err());
        assert_eq!(gpu.device().submitted(queue), TimelineValue(20), "a refused submission is not counted");
        gpu.wait(point(queue, 20));
        assert_eq!(gpu.device().submitted(queue), TimelineValue(20), "{queue:?}");
    }
}

fn each_thread_finds_its_own_submission_counted<F: Fixture>(gpu: &Gpu<F>) {
    const THREADS: u64 = 4;
    const EACH: u64 = 100;
    let work = || {
        for _ in 0..EACH {
            for queue in gpu.queues() {
                let before = gpu.device().submitted(queue);
                let submitted = gpu.submit(queue, &[], &[]).value;
                let after = gpu.device().submitted(queue);
                assert!(before < submitted && submitted <= after, "{before:?}, {submitted:?}, {after:?}");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(work)));
    });
    for queue in gpu.queues() {
        assert_eq!(gpu.device().submitted(queue), TimelineValue(THREADS * EACH));
    }
}

fn nothing_was_submitted_to_a_queue_that_does_not_exist<F: Fixture>(gpu: &Gpu<F>) {
    for queue in [gpu.properties().queues.len() as u8, u8::MAX].map(QueueIndex) {
        assert_eq!(gpu.device().submitted(queue), TimelineValue(0), "{queue:?}");
    }
}
