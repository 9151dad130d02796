//! Teardown: remaining objects, the recordings that hold them, and handles that outlive everything.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Barrier, Mutex};

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    DeviceError, QueueDevice as _, QueueIndex, Submission, TimelinePoint, TimelineValue,
};
use allotment::lifetime::{
    DeletionQueue, ManualTimelines, Owned, Recording, ReleaseQueue, SubmissionTracker, Timelines,
};

use crate::rig::{QUEUE, Rig, scaled};

#[test]
fn drain_reports_what_is_left_and_which_recording_holds_it() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    deletion_queue.retire(rig.spy(1));
    let forgotten = rig.tracker.record("a forgotten recording");
    let _later = rig.tracker.record("a later one");
    deletion_queue.retire_sized(rig.spy(2), 100);
    deletion_queue.retire_sized(rig.spy(3), 20);
    let left = deletion_queue.drain(Duration::from_secs(60));
    assert_eq!((left.pending, left.bytes, left.reclaimed.count), (2, 120, 1));
    let statistics = rig.tracker.statistics();
    assert_eq!(statistics.longest_open.unwrap().label, "a forgotten recording");
    assert_eq!(statistics.open, 2);
    drop(forgotten);
}

#[test]
fn drain_waits_for_the_gpu_and_for_no_recording() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&tracker);
    device.set_latency(Duration::from_millis(30));
    device.pause_queues();
    let recording = tracker.record("takes its time");
    released.retire(rig.spy(1));
    released.retire_with(recording.id(), rig.spy(2));
    let work = Submission::default();
    // SAFETY: there is nothing in it.
    recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) }).unwrap();
    assert_eq!(released.reclaim(drop).count, 0);
    device.resume_queues();
    let _open = tracker.record("open");
    released.retire(rig.spy(3));
    let left = released.drain(Duration::from_secs(60), drop);
    assert_eq!(left.pending, 1);
    assert_eq!(rig.dropped().len(), 2);
}

/// Timelines that run an action during a progress query. Waits succeed at once.
#[derive(Debug)]
struct Eventful {
    timelines: ManualTimelines,
    /// Submitted during the first progress query.
    recording: Arc<Mutex<Option<Recording>>>,
}

impl Timelines for Eventful {
    fn queue_count(&self) -> usize {
        self.timelines.queue_count()
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.timelines.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        let recording = self.recording.lock().unwrap().take();
        if let Some(recording) = recording {
            recording.submit(queue, |_| Ok::<_, ()>(self.timelines.submit(queue))).unwrap();
        }
        self.timelines.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.timelines.complete(point.queue, point.value);
        self.timelines.wait(point, timeout)
    }
}

#[test]
fn drain_misses_nothing_where_a_recording_is_closed_meanwhile() {
    let (timelines, waiting) = (ManualTimelines::new(1), Arc::default());
    let eventful = Eventful { timelines: timelines.clone(), recording: Arc::clone(&waiting) };
    let tracker = SubmissionTracker::new(eventful).unwrap();
    let released = ReleaseQueue::new(&tracker);
    // Work in flight, so that there is progress to query.
    tracker.record("in flight").submit(QUEUE, |_| Ok::<_, ()>(timelines.submit(QUEUE))).unwrap();
    *waiting.lock().unwrap() = Some(tracker.record("closed by another thread"));
    released.retire(7);
    assert_eq!(released.drain(Duration::from_secs(60), drop).pending, 0);
}

#[test]
fn a_retire_queue_that_ends_drops_what_it_may_and_the_rest_when_recordings_close() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    released.retire(rig.spy(1));
    let open = rig.tracker.record("open");
    released.retire(rig.spy(2));
    released.retire_with(open.id(), rig.spy(3));
    drop(released);
    assert_eq!(rig.dropped(), [1]);
    drop(open);
    assert_eq!(rig.dropped(), [1, 2, 3], "the tracker has looked after them");
}

#[test]
fn what_a_worker_drops_while_the_last_deletion_queue_waits_goes_with_its_recording() {
    let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    device.set_latency(Duration::from_millis(30));
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let (rig, deletion_queue) = (Rig::new(1), DeletionQueue::new(&tracker));
    let (first, second) = (deletion_queue.own(rig.spy(1)), deletion_queue.own(rig.spy(2)));
    let submit = |recording: Recording| {
        let work = Submission::default();
        // SAFETY: there is nothing in it.
        recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) }).unwrap();
    };
    let recording = tracker.record("frame 1");
    drop(first);
    submit(recording);
    let ender = std::thread::spawn(move || drop(deletion_queue));
    // It waits for frame 1 now; a worker goes on for a frame.
    std::thread::sleep(Duration::from_millis(5));
    let recording = tracker.record("frame 2");
    drop(second);
    ender.join().unwrap();
    assert_eq!(rig.dropped(), [1]);
    submit(recording);
    drop(tracker);
    assert_eq!(rig.dropped(), [1, 2]);
}

#[test]
fn a_queue_that_ends_while_another_thread_closes_recordings_loses_nothing() {
    let (rig, rounds) = (Rig::new(1), scaled(30_000));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let recording = rig.tracker.record("another thread's");
                core::hint::spin_loop();
                drop(recording);
            }
        });
        for _ in 0..rounds {
            let released = ReleaseQueue::new(&rig.tracker);
            released.retire(rig.spy(1));
            drop(released);
        }
        over.store(true, Relaxed);
    });
    rig.tracker.poll();
    assert_eq!(rig.dropped().len(), rounds);
}

#[test]
fn what_a_queue_has_left_that_the_gpu_is_late_with_is_looked_at_again() {
    type Look = fn(&Rig);
    let looks: [(&str, Look); 5] = [
        ("poll", |rig| rig.tracker.poll()),
        ("a recording that is closed", |rig| drop(rig.tracker.record("a later one"))),
        ("another retire queue", |rig| _ = ReleaseQueue::<u32>::new(&rig.tracker).reclaim(drop)),
        ("another deletion queue", |rig| _ = DeletionQueue::new(&rig.tracker).reclaim()),
        ("another queue that ends", |rig| {
            let other = ReleaseQueue::new(&rig.tracker);
            let open = rig.tracker.record("closed last");
            other.retire(0);
            drop(other);
            drop(open);
        }),
    ];
    for (name, look) in looks {
        let rig = Rig::new(1);
        let (released, deletion_queue) = (ReleaseQueue::new(&rig.tracker), DeletionQueue::new(&rig.tracker));
        let late = rig.run(QUEUE);
        released.retire(rig.spy(1));
        deletion_queue.retire(rig.spy(2));
        // Time passes at once on these timelines: the GPU is later than the end waits.
        drop(released);
        drop(deletion_queue);
        look(&rig);
        assert_eq!(rig.dropped(), [], "{name}: the queue has it");
        rig.complete(late);
        look(&rig);
        assert_eq!(rig.dropped(), [1, 2], "{name}");
    }
}

/// Timelines of a slow GPU: a wait times out although some work has completed meanwhile; unless the GPU hangs.
#[derive(Debug)]
struct Slow {
    timelines: ManualTimelines,
    hangs: bool,
}

impl Timelines for Slow {
    fn queue_count(&self) -> usize {
        self.timelines.queue_count()
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.timelines.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.timelines.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        if let (Ok(value), false) = (self.completed(point.queue), self.hangs) {
            self.timelines.complete(point.queue, TimelineValue(value.0 + 1));
        }
        self.timelines.wait(point, timeout)
    }
}

#[test]
fn the_last_handle_of_a_tracker_waits_for_a_gpu_that_comes_on_and_for_no_other() {
    for hangs in [false, true] {
        let (rig, timelines) = (Rig::new(1), ManualTimelines::new(1));
        let tracker = SubmissionTracker::new(Slow { timelines: timelines.clone(), hangs }).unwrap();
        let released = ReleaseQueue::new(&tracker);
        let owned = DeletionQueue::new(&tracker).own(rig.spy(2));
        for _ in 0..20 {
            tracker.record("slow").submit(QUEUE, |_| Ok::<_, ()>(timelines.submit(QUEUE))).unwrap();
        }
        released.retire(rig.spy(1));
        drop(released);
        drop(tracker);
        assert_eq!(rig.dropped(), if hangs { vec![] } else { vec![1] });
        // The last object that refers to the tracker is an owner.
        timelines.submit(QUEUE);
        drop(owned);
        assert_eq!(rig.dropped(), if hangs { vec![] } else { vec![1, 2] });
    }
}

/// Timelines that hang, or complete something while nobody waits. Waits sleep as long as they may.
struct Hung {
    timelines: ManualTimelines,
    slept: Arc<Mutex<Duration>>,
}

impl Timelines for Hung {
    fn queue_count(&self) -> usize {
        self.timelines.queue_count()
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.timelines.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.timelines.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        if let waited @ Ok(()) = self.timelines.wait(point, timeout) {
            return waited;
        }
        std::thread::sleep(timeout);
        *self.slept.lock().unwrap() += timeout;
        Err(DeviceError::TimedOut { point, timeout })
    }
}

#[test]
fn queues_that_end_one_after_the_other_wait_for_a_gpu_that_hangs_as_long_as_one_may() {
    let (rig, timelines, slept) = (Rig::new(1), ManualTimelines::new(2), Arc::default());
    let hung = Hung { timelines: timelines.clone(), slept: Arc::clone(&slept) };
    let tracker = SubmissionTracker::new(hung).unwrap();
    let queues = [(); 3].map(|()| ReleaseQueue::new(&tracker));
    let deletion_queue = DeletionQueue::new(&tracker);
    let owned = deletion_queue.own(rig.spy(9));
    for queue in [QueueIndex(0), QueueIndex(1)] {
        tracker.record("hangs").submit(queue, |queue| Ok::<_, ()>(timelines.submit(queue))).unwrap();
    }
    queues.iter().for_each(|queue| queue.retire(rig.spy(1)));
    deletion_queue.retire(rig.spy(2));
    let total = || *slept.lock().unwrap();
    drop(queues);
    drop((deletion_queue, owned));
    assert!(!total().is_zero() && total() <= Duration::from_secs(5), "{:?}", total());
    assert_eq!(rig.dropped(), []);
    // Closing a recording and the end of the tracker wait no more; and where the queues came on, nothing is lost.
    drop(tracker.record("later"));
    assert!(total() <= Duration::from_secs(5), "{:?}", total());
    for queue in [QueueIndex(0), QueueIndex(1)] {
        timelines.complete(queue, TimelineValue(1));
    }
    drop(tracker);
    let mut dropped = rig.dropped();
    dropped.sort_unstable();
    assert_eq!(dropped, [1, 1, 1, 2, 9]);
    assert!(total() <= Duration::from_secs(5), "{:?}", total());
}

/// Owns the next, and so on.
struct Chain {
    next: Option<Box<Owned<Chain>>>,
}

#[test]
fn a_long_chain_of_owners_that_ends_late_needs_no_deep_stack() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let mut chain = deletion_queue.own(Chain { next: None });
    for _ in 0..20_000 {
        chain = deletion_queue.own(Chain { next: Some(Box::new(chain)) });
    }
    let depth = core::iter::successors(Some(&chain), |chain| chain.next.as_deref()).count();
    assert_eq!(depth, 20_001);
    drop(deletion_queue);
    drop(chain);
}

#[test]
fn queues_of_any_kind_may_go_before_the_recordings_that_use_them() {
    let rig = Rig::new(1);
    let recycler = allotment::lifetime::Recycler::new(&rig.tracker, 4);
    let open = rig.tracker.record("outlives everything");
    recycler.release_with(open.id(), rig.spy(1));
    drop(recycler);
    assert!(rig.dropped().is_empty());
    let submit = |queue| {
        let value = rig.timelines.submit(queue);
        rig.timelines.complete(queue, value);
        Ok::<_, ()>(value)
    };
    open.submit(QUEUE, submit).unwrap();
    assert_eq!(rig.dropped(), [1]);
}

#[test]
fn a_recording_of_another_tracker_is_not_taken_for_one_of_this() {
    let (rig, other) = (Rig::new(1), Rig::new(1));
    // The same slot and number there and here; here it is over.
    let (mine, foreign) = (rig.tracker.record("mine"), other.tracker.record("of another device"));
    let released = ReleaseQueue::new(&rig.tracker);
    released.retire_with(foreign.id(), rig.spy(1));
    drop(mine);
    assert_eq!(released.reclaim(drop).count, 0);
    assert_eq!(rig.tracker.status(foreign.id()), allotment::lifetime::RecordingStatus::WrongTracker);
    // It is never released: this tracker does not know the recording.
    drop(foreign);
    assert_eq!(released.reclaim(drop).count, 0);
    assert_eq!(released.statistics().pending, 1);
}

#[test]
fn a_point_of_a_queue_that_does_not_exist_is_never_reached() {
    let rig = Rig::new(1);
    let released = ReleaseQueue::new(&rig.tracker);
    for queue in [1, 15, 16, 200] {
        let point = TimelinePoint { queue: QueueIndex(queue), value: TimelineValue(1) };
        released.retire_after(point, rig.spy(1));
    }
    assert_eq!(released.reclaim(drop).count, 0);
    rig.timelines.lose_device();
    assert_eq!(released.reclaim(drop).count, 4, "but on a lost device everything is over");
}

#[test]
fn a_late_handle_is_harmless() {
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&rig.tracker);
    let (first, second) =
        (deletion_queue.own(rig.spy(1)), deletion_queue.own(String::from("of another type")));
    let (with, shared) = (deletion_queue.own(rig.spy(2)), Arc::new(deletion_queue.own(rig.spy(3))));
    drop(deletion_queue.clone());
    drop(deletion_queue);
    drop(first);
    assert_eq!(rig.dropped(), [1], "at once, since nothing is open");
    let recording = rig.tracker.record("opened after the end");
    drop(second);
    // SAFETY: no recording uses the object.
    unsafe { with.retire_with(recording.id()) };
    drop(shared);
    assert_eq!(rig.dropped(), [1], "it may use them");
    drop(recording);
    assert_eq!(rig.dropped(), [1, 2, 3]);
}

#[test]
fn recordings_that_outlive_the_end_let_go_when_they_are_closed() {
    for submitted in [false, true] {
        let rig = Rig::new(1);
        let deletion_queue = DeletionQueue::new(&rig.tracker);
        let (first, second) = (rig.tracker.record("first"), rig.tracker.record_explicit("second"));
        deletion_queue.retire(rig.spy(1));
        deletion_queue.retire_with(second.id(), rig.spy(2));
        drop(deletion_queue);
        assert_eq!(rig.dropped(), []);
        let close = |recording: Recording| {
            if !submitted {
                return drop(recording);
            }
            let submit = |_| {
                let value = rig.timelines.submit(QUEUE);
                rig.timelines.complete_all(QUEUE);
                Ok::<_, ()>(value)
            };
            recording.submit(QUEUE, submit).unwrap();
        };
        close(first);
        assert_eq!(rig.dropped(), [1]);
        close(second);
        assert_eq!(rig.dropped(), [1, 2]);
    }
}

#[test]
fn the_end_waits_for_the_gpu() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let rig = Rig::new(1);
    let deletion_queue = DeletionQueue::new(&tracker);
    device.set_latency(Duration::from_millis(30));
    let recording = tracker.record("takes its time");
    deletion_queue.retire(rig.spy(1));
    let work = Submission::default();
    // SAFETY: there is nothing in it.
    recording.submit(QUEUE, |queue| unsafe { device.submit(queue, &work) }).unwrap();
    drop(deletion_queue);
    assert_eq!(rig.dropped(), [1]);
}

#[test]
fn whoever_comes_last_drops_everything_once() {
    // The teardown, the last recording and the last owners, each on a thread of its own, concurrently.
    for round in 0..scaled(3000) {
        let rig = Rig::new(1);
        let deletion_queue = DeletionQueue::new(&rig.tracker);
        let recordings = [(); 3].map(|()| rig.tracker.record("closed at the end"));
        let explicit = rig.tracker.record_explicit("closed at the end, too");
        deletion_queue.retire(rig.spy(1));
        deletion_queue.retire_with(explicit.id(), rig.spy(2));
        let owner = deletion_queue.own(rig.spy(3));
        let last = deletion_queue.own(rig.spy(4));
        let start = Barrier::new(3);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(deletion_queue);
            });
            scope.spawn(|| {
                start.wait();
                if round % 2 == 0 {
                    drop(owner);
                    drop(last);
                } else {
                    // SAFETY: no recording uses the object.
                    unsafe { last.retire_with(explicit.id()) };
                    drop(owner);
                }
            });
            start.wait();
            drop(recordings);
        });
        drop(explicit);
        let mut dropped = rig.dropped();
        dropped.sort_unstable();
        assert_eq!(dropped, [1, 2, 3, 4]);
    }
}
