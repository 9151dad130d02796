//! Queues that really work later, and on threads of their own.

use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant;

use allotment::device::simulated::SimulatedGpu;
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice as _, DeviceError, MemoryDesc, MemoryDevice as _, MemoryTypeIndex,
    QueueDevice as _, QueueIndex, Submission, TimelinePoint, TimelineValue,
};

use crate::bytes::{assert_same, pattern};
use crate::fixture::{Outcome, Test, tests};
use crate::gpu::{Gpu, PATIENCE, copy};
use crate::kinds::simulated::SimulatedFixture;

type Simulated = Gpu<SimulatedFixture>;

pub(super) fn all() -> Vec<Test<SimulatedFixture>> {
    tests![SimulatedFixture:
        a_paused_queue_changes_nothing_until_it_is_resumed,
        a_source_that_is_reused_too_early_shows_as_wrong_bytes,
        a_target_that_is_read_too_early_shows_as_old_bytes,
        memory_that_is_freed_too_early_is_a_complaint_and_no_crash,
        memory_that_is_freed_while_a_copy_runs_is_a_complaint_too,
        memory_that_is_freed_in_time_is_no_complaint,
        a_buffer_that_is_destroyed_too_early_is_a_complaint,
        submissions_of_one_queue_run_one_after_the_other,
        queues_run_beside_each_other,
        a_latency_is_how_long_work_takes_at_least,
        threads_start_when_their_queue_is_first_used,
        a_clone_is_the_same_device,
        work_outlives_the_clone_that_submitted_it,
        a_device_that_is_dropped_with_work_pending_does_not_hang,
    ]
}

const FIRST: QueueIndex = QueueIndex(0);
const SOON: Duration = Duration::from_millis(20);

fn a_paused_queue_changes_nothing_until_it_is_resumed(gpu: &Simulated) {
    let memory_type = gpu.visible_buffer_types()[0];
    for queue in gpu.queues() {
        let [from, to] = [(); 2].map(|()| gpu.buffer(memory_type, 4096));
        let [source, target] = [from.memory().map(), to.memory().map()];
        source.put(0, &pattern(1, 4096));
        target.put(0, &pattern(2, 4096));
        let before = gpu.completed(queue);

        gpu.device().pause_queues();
        let submitted = gpu.submit(queue, &[], &[copy(&from, 0, &to, 0, 4096)]);
        assert!(gpu.device().wait(submitted, SOON).is_err_and(DeviceError::is_timeout));
        assert_eq!(gpu.completed(queue), before);
        assert_same(&target.get(0..4096), &pattern(2, 4096), "told, and not done");

        gpu.device().resume_queues();
        gpu.wait(submitted);
        assert_same(&target.get(0..4096), &pattern(1, 4096), "done");
    }
}

fn a_source_that_is_reused_too_early_shows_as_wrong_bytes(gpu: &Simulated) {
    let memory_type = gpu.visible_buffer_types()[0];
    let [from, to] = [(); 2].map(|()| gpu.buffer(memory_type, 4096));
    let source = from.memory().map();
    source.put(0, &pattern(1, 4096));
    gpu.device().pause_queues();
    let submitted = gpu.submit(FIRST, &[], &[copy(&from, 0, &to, 0, 4096)]);
    source.put(1000, &pattern(2, 100));
    gpu.device().resume_queues();
    gpu.wait(submitted);
    let mut expected = pattern(1, 4096);
    expected[1000..1100].copy_from_slice(&pattern(2, 100));
    assert_same(&gpu.get(&to), &expected, "what was there when the queue came to it");
}

fn a_target_that_is_read_too_early_shows_as_old_bytes(gpu: &Simulated) {
    // One queue writes, another reads without a wait for it. Paused by a wait of its own, the writer is
    // late for certain.
    let buffers = [(); 3].map(|()| gpu.buffer(gpu.buffer_types()[0], 64));
    for (seed, buffer) in (0..).zip(&buffers) {
        gpu.put(buffer, 0, &pattern(seed, 64));
    }
    let gate = TimelinePoint { queue: QueueIndex(2), value: TimelineValue(1) };
    let write = gpu.submit(FIRST, &[gate], &[copy(&buffers[0], 0, &buffers[1], 0, 64)]);
    gpu.wait(gpu.submit(QueueIndex(1), &[], &[copy(&buffers[1], 0, &buffers[2], 0, 64)]));
    assert_eq!(gpu.submit(QueueIndex(2), &[], &[]), gate);
    gpu.wait(write);
    assert_same(&gpu.get(&buffers[1]), &pattern(0, 64), "written in the end");
    assert_same(&gpu.get(&buffers[2]), &pattern(1, 64), "read before");
}

fn memory_that_is_freed_too_early_is_a_complaint_and_no_crash(gpu: &Simulated) {
    for (count, source) in [(1, true), (2, false)] {
        let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.buffer_types()[0], 4096));
        gpu.put(&from, 0, &pattern(1, 4096));
        gpu.device().pause_queues();
        let submitted = gpu.submit(FIRST, &[], &[copy(&from, 0, &to, 0, 4096)]);
        let memory = if source { from.memory().disown() } else { to.memory().disown() };
        // SAFETY: live; that a queue uses it is what the device shall say.
        unsafe { gpu.device().free_memory(memory) };
        assert_eq!(gpu.fixture().complaints_about("free: "), count);
        gpu.device().resume_queues();
        gpu.wait(submitted);
    }
}

fn memory_that_is_freed_while_a_copy_runs_is_a_complaint_too(gpu: &Simulated) {
    let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.buffer_types()[0], 4096));
    // Long enough for the queue to have begun, and not to be done.
    gpu.device().set_latency(Duration::from_secs(2));
    let submitted = gpu.submit(FIRST, &[], &[copy(&from, 0, &to, 0, 4096)]);
    std::thread::sleep(SOON);
    // SAFETY: live; that a queue uses it is what the device shall say.
    unsafe { gpu.device().free_memory(to.memory().disown()) };
    assert_eq!(gpu.fixture().complaints_about("free: "), 1);
    gpu.wait(submitted);
}

fn memory_that_is_freed_in_time_is_no_complaint(gpu: &Simulated) {
    for _ in 0..100 {
        let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.buffer_types()[0], 4096));
        gpu.run(&[copy(&from, 0, &to, 0, 4096)]);
        for buffer in [from, to] {
            let memory = buffer.memory().disown();
            drop(buffer);
            // SAFETY: live, and the queue is done.
            unsafe { gpu.device().free_memory(memory) };
            assert_eq!(gpu.device().validation_errors(), [""; 0]);
        }
    }
}

fn a_buffer_that_is_destroyed_too_early_is_a_complaint(gpu: &Simulated) {
    for (count, source) in [(1, true), (2, false)] {
        let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.buffer_types()[0], 4096));
        gpu.put(&from, 0, &pattern(1, 4096));
        gpu.device().pause_queues();
        let submitted = gpu.submit(FIRST, &[], &[copy(&from, 0, &to, 0, 4096)]);
        let memory = [from.memory().clone(), to.memory().clone()];
        let (early, late) = if source { (from, to) } else { (to, from) };
        // SAFETY: from this device; that a queue uses it is what the device shall say.
        unsafe { gpu.device().destroy_buffer(early.disown()) };
        assert_eq!(gpu.fixture().complaints_about("destroy_buffer: "), count);
        gpu.device().resume_queues();
        gpu.wait(submitted);
        drop((late, memory));
    }
}

fn submissions_of_one_queue_run_one_after_the_other(gpu: &Simulated) {
    // The trait promises the order of completion only. Here it is the order of the copies too.
    const SIZE: u64 = 100_000;
    for queue in gpu.queues() {
        let buffers: Vec<_> = (0..8).map(|_| gpu.buffer(gpu.buffer_types()[0], SIZE)).collect();
        gpu.put(&buffers[0], 0, &pattern(1, SIZE));
        let submit = |pair: &[_]| gpu.submit(queue, &[], &[copy(&pair[0], 0, &pair[1], 0, SIZE)]);
        gpu.wait(buffers.windows(2).map(submit).last().unwrap());
        assert_same(&gpu.get(&buffers[7]), &pattern(1, SIZE), queue);
    }
}

fn queues_run_beside_each_other(gpu: &Simulated) {
    // A queue that waits holds no other one up.
    let [one, other] = [FIRST, QueueIndex(1)];
    let gate = TimelinePoint { queue: other, value: TimelineValue(10) };
    let waiting = gpu.submit(one, &[gate], &[]);
    for _ in 0..10 {
        assert!(gpu.device().wait(waiting, Duration::ZERO).is_err_and(DeviceError::is_timeout));
        gpu.wait(gpu.submit(other, &[], &[]));
    }
    gpu.wait(waiting);
}

fn a_latency_is_how_long_work_takes_at_least(gpu: &Simulated) {
    let latency = Duration::from_millis(15);
    gpu.device().set_latency(latency);
    let began = Instant::now();
    let points = [(); 3].map(|()| gpu.submit(FIRST, &[], &[]));
    for (count, point) in (1..).zip(points) {
        gpu.wait(point);
        assert!(began.elapsed() >= count * latency, "{count} after {:?}", began.elapsed());
    }
    gpu.device().set_latency(Duration::ZERO);
    gpu.wait(gpu.submit(FIRST, &[], &[]));
}

/// How many threads this process has, where the system says.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

fn threads_start_when_their_queue_is_first_used(gpu: &Simulated) -> Outcome {
    let Some(before) = threads() else {
        return Outcome::DoesNotApply("the system does not say how many threads there are");
    };
    // Tests beside this one have threads too, so it takes many devices to see what these do.
    let devices: Vec<_> =
        (0..2000).map(|_| Gpu::new(SimulatedFixture::new(gpu.device().profile().clone()))).collect();
    for gpu in &devices {
        drop(gpu.buffer(gpu.buffer_types()[0], 64));
        for queue in gpu.queues() {
            assert_eq!(gpu.completed(queue), TimelineValue(0));
            gpu.wait(TimelinePoint { queue, value: TimelineValue(0) });
        }
    }
    let after = threads().unwrap();
    assert!(after < before + 1500, "{before} threads, and {after} with 2000 unused devices");
    drop(devices);
    Outcome::Ran
}

fn a_clone_is_the_same_device(gpu: &Simulated) {
    let clone = gpu.device().clone();
    let memory = clone.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(0), 4096)).unwrap();
    assert_eq!(gpu.device().usage(), clone.usage());
    assert_eq!(gpu.device().usage().memory_objects, 1);
    // SAFETY: live, and used by nothing.
    unsafe { gpu.device().free_memory(memory) };
    assert_eq!(clone.usage().memory_objects, 0);

    gpu.wait(gpu.submit(FIRST, &[], &[]));
    assert_eq!(clone.completed(FIRST), Ok(TimelineValue(1)));
    clone.pause_queues();
    let held = gpu.submit(FIRST, &[], &[]);
    assert!(gpu.device().wait(held, SOON).is_err_and(DeviceError::is_timeout));
    drop(clone);
    gpu.device().resume_queues();
    gpu.wait(held);
}

fn work_outlives_the_clone_that_submitted_it(gpu: &Simulated) {
    let [from, to] = [(); 2].map(|()| gpu.buffer(gpu.buffer_types()[0], 4096));
    gpu.put(&from, 0, &pattern(1, 4096));
    gpu.device().pause_queues();
    let clone = gpu.device().clone();
    let copies = [copy::<SimulatedFixture>(&from, 0, &to, 0, 4096)];
    // SAFETY: the buffers live until the work is done, which is waited for below.
    let value =
        unsafe { clone.submit(FIRST, &Submission { copies: &copies, ..Submission::default() }) }.unwrap();
    drop(clone);
    gpu.device().resume_queues();
    gpu.wait(TimelinePoint { queue: FIRST, value });
    assert_same(&gpu.get(&to), &pattern(1, 4096), "done all the same");
}

fn a_device_that_is_dropped_with_work_pending_does_not_hang(gpu: &Simulated) {
    type Hold = fn(&SimulatedGpu);
    let never = TimelinePoint { queue: QueueIndex(1), value: TimelineValue(7) };
    let hold: [(&str, Hold, &[TimelinePoint]); 4] = [
        ("nothing", |_| {}, &[]),
        ("paused", SimulatedGpu::pause_queues, &[]),
        ("slow", |device| device.set_latency(SOON), &[]),
        ("waiting for what never comes", |_| {}, &[never]),
    ];
    for (what, hold, waits) in hold {
        let device = SimulatedGpu::new(gpu.device().profile().clone());
        hold(&device);
        let memory = device.allocate_memory(&MemoryDesc::new(MemoryTypeIndex(1), 4096)).unwrap();
        let desc = BufferDesc::new(2048);
        // SAFETY: live, and large enough.
        let from = unsafe { device.create_buffer(&desc, memory, 0) }.unwrap();
        // SAFETY: live, and large enough.
        let to = unsafe { device.create_buffer(&desc, memory, 2048) }.unwrap();
        let copies = [BufferCopy { from: &from, from_offset: 0, to: &to, to_offset: 0, size: 2048 }];
        for _ in 0..5 {
            // SAFETY: nothing goes before the device does.
            unsafe { device.submit(FIRST, &Submission { waits, copies: &copies, ..Submission::default() }) }
                .unwrap();
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            drop(device);
            // The receiver is gone where this comes too late.
            let _ = sender.send(());
        });
        assert!(receiver.recv_timeout(PATIENCE).is_ok(), "a device with work that is {what} hangs");
    }
}
