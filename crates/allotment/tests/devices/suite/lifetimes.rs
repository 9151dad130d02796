//! A dropped resource lives until the device has completed its use, and is destroyed then.

use allotment::MemoryUsage;
use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
use allotment::lifetime::{Recording, Timeline};

use super::allocator::KIB;
use super::stage::{FIRST, Stage};
use crate::bytes::pattern;
use crate::fixture::{Fixture, Outcome, Test, tests};
use crate::gpu::Gpu;

pub(super) fn all<F: Fixture>() -> Vec<Test<F>> {
    tests![F:
        the_first_submission_signals_1_and_completed_then_reads_1,
        threads_that_submit_to_a_queue_get_values_in_its_order,
        what_is_dropped_right_after_its_submission_stays_until_the_queue_is_done,
        what_another_thread_drops_stays_as_well,
        a_recording_of_frame_1_that_is_submitted_in_frame_5_finds_its_data,
        what_a_discarded_recording_used_goes_at_once,
        a_queue_with_no_work_pins_nothing,
        what_several_queues_use_stays_until_all_are_done,
        recordings_that_are_submitted_together_are_done_together,
        a_recording_that_is_kept_open_holds_what_it_uses_over_all_its_submissions,
        an_explicit_recording_holds_what_it_keeps_and_nothing_else,
    ]
}

const SIZE: u64 = 40 * KIB + 3;

const ONE_QUEUE: Outcome = Outcome::DoesNotApply("the device has one queue");

fn the_first_submission_signals_1_and_completed_then_reads_1<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    for queue in gpu.queues() {
        assert_eq!(stage.tracker.timeline(queue), Timeline::default());
        let point = stage.submit_nothing(queue, stage.tracker.record("first"), &[]);
        assert_eq!(point, TimelinePoint { queue, value: TimelineValue(1) });
        stage.wait(point);
        let timeline = stage.tracker.timeline(queue);
        assert_eq!((timeline.submitted, timeline.completed), (TimelineValue(1), TimelineValue(1)));
        assert!(stage.tracker.is_reached(point) && !timeline.lost);
    }
}

fn threads_that_submit_to_a_queue_get_values_in_its_order<F: Fixture>(gpu: &Gpu<F>) {
    const EACH: u64 = 40;
    let stage = Stage::new(gpu);
    for queue in gpu.queues() {
        let submit = || -> Vec<u64> {
            let one = |_| stage.submit_nothing(queue, stage.tracker.record("thread"), &[]).value.0;
            (0..EACH).map(one).collect()
        };
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(submit)).collect();
            for values in threads.into_iter().map(|thread| thread.join().unwrap()) {
                assert!(values.is_sorted(), "a thread's submissions are in its order");
                all.extend(values);
            }
        });
        all.sort_unstable();
        assert_eq!(all, (1..=4 * EACH).collect::<Vec<_>>(), "each value is one submission's");
    }
    stage.wait_idle();
}

fn what_is_dropped_right_after_its_submission_stays_until_the_queue_is_done<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let mut copies = Vec::new();
    for i in 0..60 {
        let bytes = pattern(i, SIZE + i);
        let source = stage.source(&bytes);
        let target = stage.buffer(SIZE + i, MemoryUsage::Readback);
        let recording = stage.tracker.record("a draw");
        stage.submit_copy(FIRST, recording, &[], [&source.handle(), &target.handle()], SIZE + i);
        // Its memory is the next one's as soon as it may be.
        drop(source);
        stage.deletion_queue.reclaim();
        copies.push((target, bytes));
    }
    stage.wait_idle();
    stage.deletion_queue.reclaim();
    assert_eq!(stage.deletion_queue.statistics().pending, 0, "the queue is done with all of them");
    for (i, (target, bytes)) in copies.iter().enumerate() {
        stage.assert_holds(target, bytes, i);
    }
}

fn what_another_thread_drops_stays_as_well<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let (to_other, from_one) = std::sync::mpsc::channel();
    let deletion_queue = &stage.deletion_queue;
    let mut copies = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for source in from_one {
                drop(source);
                deletion_queue.reclaim();
            }
        });
        for i in 0..60 {
            let bytes = pattern(i, SIZE + i);
            let (source, target) = (stage.source(&bytes), stage.buffer(SIZE + i, MemoryUsage::Readback));
            let names = [source.handle().clone(), target.handle().clone()];
            let recording = stage.tracker.record("a draw");
            // Recorded; the other thread drops it before, while or after it is submitted.
            to_other.send(source).unwrap();
            stage.submit_copy(FIRST, recording, &[], [&names[0], &names[1]], SIZE + i);
            copies.push((target, bytes));
        }
        drop(to_other);
    });
    stage.wait_idle();
    for (i, (target, bytes)) in copies.iter().enumerate() {
        stage.assert_holds(target, bytes, i);
    }
}

fn a_recording_of_frame_1_that_is_submitted_in_frame_5_finds_its_data<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let bytes = pattern(1, SIZE);
    let target = stage.buffer(SIZE, MemoryUsage::Readback);
    let source = stage.source(&bytes);
    let late = stage.tracker.record("recorded in frame 1");
    let names = [source.handle().clone(), target.handle().clone()];
    drop(source);
    for frame in 2..5 {
        // The resources of these frames would get its memory.
        let other = stage.source(&pattern(frame, SIZE));
        let elsewhere = stage.buffer(SIZE, MemoryUsage::Readback);
        let recording = stage.tracker.record("a frame");
        stage.submit_copy(FIRST, recording, &[], [&other.handle(), &elsewhere.handle()], SIZE);
        stage.wait_idle();
        assert_eq!(stage.deletion_queue.reclaim().count, 0, "the late recording may use anything");
    }
    let open = stage.tracker.statistics().longest_open.unwrap();
    assert_eq!(open.label, "recorded in frame 1");
    let point = stage.submit_copy(FIRST, late, &[], [&names[0], &names[1]], SIZE);
    stage.deletion_queue.reclaim();
    stage.wait(point);
    stage.assert_holds(&target, &bytes, "the data of frame 1");
    stage.deletion_queue.reclaim();
    assert_eq!(stage.deletion_queue.statistics().pending, 0);
}

fn what_a_discarded_recording_used_goes_at_once<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let source = stage.source(&pattern(1, SIZE));
    let recording = stage.tracker.record("never submitted");
    drop(source);
    stage.deletion_queue.reclaim();
    assert_eq!(stage.memory.allocator().statistics().allocations, 1);
    drop(recording);
    stage.deletion_queue.reclaim();
    assert_eq!(stage.memory.allocator().statistics().allocations, 0);
}

fn a_queue_with_no_work_pins_nothing<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    if gpu.queues().count() < 2 {
        return ONE_QUEUE;
    }
    let stage = Stage::new(gpu);
    for queue in gpu.queues() {
        // No other queue is given anything meanwhile, nor ever was in the first round.
        let (source, target) = (stage.source(&pattern(1, SIZE)), stage.buffer(SIZE, MemoryUsage::Readback));
        let recording = stage.tracker.record("the only one");
        let point = stage.submit_copy(queue, recording, &[], [&source.handle(), &target.handle()], SIZE);
        drop((source, target));
        stage.wait(point);
        stage.deletion_queue.reclaim();
        assert_eq!(stage.deletion_queue.statistics().pending, 0, "{queue:?}");
    }
    Outcome::Ran
}

fn what_several_queues_use_stays_until_all_are_done<F: Fixture>(gpu: &Gpu<F>) -> Outcome {
    if gpu.queues().count() < 2 {
        return ONE_QUEUE;
    }
    let stage = Stage::new(gpu);
    let second = QueueIndex(1);
    let bytes = pattern(1, SIZE);
    let source = stage.source(&bytes);
    let targets = [stage.buffer(SIZE, MemoryUsage::Readback), stage.buffer(SIZE, MemoryUsage::Readback)];
    // The second queue waits for what the first is given last.
    let gate = TimelinePoint { queue: FIRST, value: TimelineValue(2) };
    let names = targets.each_ref().map(|target| target.handle());
    let recording = stage.tracker.record("first queue");
    let done = stage.submit_copy(FIRST, recording, &[], [&source.handle(), &names[0]], SIZE);
    let recording = stage.tracker.record("second queue");
    let held = stage.submit_copy(second, recording, &[gate], [&source.handle(), &names[1]], SIZE);
    drop(source);
    stage.wait(done);
    assert_eq!(stage.deletion_queue.reclaim().count, 0, "the second queue has not begun");
    stage.submit_nothing(FIRST, stage.tracker.record("the gate"), &[]);
    stage.wait(held);
    assert_eq!(stage.deletion_queue.reclaim().count, 1);
    for target in &targets {
        stage.assert_holds(target, &bytes, "both copies");
    }
    Outcome::Ran
}

fn recordings_that_are_submitted_together_are_done_together<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let mut recordings: Vec<_> = (0..3).map(|_| stage.tracker.record("one of three")).collect();
    for recording in &recordings {
        // SAFETY: this recording is the only one that uses it.
        unsafe { stage.source(&pattern(1, SIZE)).retire_with(recording.id()) };
    }
    stage.deletion_queue.reclaim();
    assert_eq!(stage.deletion_queue.statistics().pending, 3);
    let nothing = allotment::device::Submission::default();
    let point = Recording::submit_together(&mut recordings, FIRST, |_| {
        // SAFETY: there is nothing in it.
        unsafe { allotment::device::QueueDevice::submit(gpu.device(), FIRST, &nothing) }
    })
    .unwrap();
    assert!(recordings.is_empty());
    stage.wait(point);
    assert_eq!(stage.deletion_queue.reclaim().count, 3);
}

fn a_recording_that_is_kept_open_holds_what_it_uses_over_all_its_submissions<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let bytes = pattern(1, SIZE);
    let source = stage.source(&bytes);
    let target = stage.buffer(SIZE, MemoryUsage::Readback);
    let names = [source.handle().clone(), target.handle().clone()];
    let mut reused = stage.tracker.record("submitted each frame");
    drop(source);
    for _ in 0..3 {
        let copies = [allotment::device::BufferCopy {
            from: &names[0],
            from_offset: 0,
            to: &names[1],
            to_offset: 0,
            size: SIZE,
        }];
        let work = allotment::device::Submission { copies: &copies, ..Default::default() };
        let submitted = reused.submit_and_keep(FIRST, |_| {
            // SAFETY: the open recording holds the source, and the test the target.
            unsafe { allotment::device::QueueDevice::submit(gpu.device(), FIRST, &work) }
        });
        stage.wait(submitted.unwrap());
        assert_eq!(stage.deletion_queue.reclaim().count, 0, "it is submitted once more");
        stage.assert_holds(&target, &bytes, "each time");
    }
    drop(reused);
    assert_eq!(stage.deletion_queue.reclaim().count, 1);
}

fn an_explicit_recording_holds_what_it_keeps_and_nothing_else<F: Fixture>(gpu: &Gpu<F>) {
    let stage = Stage::new(gpu);
    let bytes = pattern(1, SIZE);
    let kept = std::sync::Arc::new(stage.source(&bytes));
    let target = stage.buffer(SIZE, MemoryUsage::Readback);
    let recording = stage.tracker.record_explicit("open for minutes");
    stage.deletion_queue.keep(&recording, &kept);
    let names = [kept.handle().clone(), target.handle().clone()];
    drop(kept);
    drop(stage.source(&bytes));
    assert_eq!(stage.deletion_queue.reclaim().count, 1, "what it does not keep goes");
    let point = stage.submit_copy(FIRST, recording, &[], [&names[0], &names[1]], SIZE);
    stage.wait(point);
    // The recording lets go of the owner, which retires the buffer.
    stage.deletion_queue.reclaim();
    stage.deletion_queue.reclaim();
    assert_eq!(stage.deletion_queue.statistics().pending, 0);
    stage.assert_holds(&target, &bytes, "what it kept");
}
