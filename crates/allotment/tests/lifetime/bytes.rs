//! Checks the rule by its effect on memory: retired memory is freed, allocated again and overwritten at once, while
//! copies in flight may read it. The copies must have read the original bytes.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::thread::scope;

use allotment::device::simulated::{Profile, SimulatedBuffer, SimulatedGpu};
use allotment::device::{
    BufferCopy, BufferDesc, BufferDevice as _, QueueDevice as _, QueueIndex, Submission, TimelinePoint,
};
use allotment::lifetime::{Recording, ReleaseQueue, SubmissionTracker};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage};

use crate::rig::{Random, scaled};

const QUEUES: usize = 3;
/// Freed memory is filled with this.
const POISON: u8 = 0xee;
/// Per thread: recorded jobs that are not submitted, and submitted jobs that are not verified.
const WAITING: usize = 4;
const RUNNING: usize = 12;

/// An allocation, and a buffer over it for the commands of one recording.
struct Stage {
    memory: Allocation,
    size: u64,
}

struct Scene {
    device: SimulatedGpu,
    allocator: Allocator<SimulatedGpu>,
    tracker: SubmissionTracker,
    memory: ReleaseQueue<Stage>,
    buffers: ReleaseQueue<SimulatedBuffer>,
    /// Jobs, and those with wrong bytes.
    jobs: AtomicU64,
    wrong: AtomicU64,
}

/// One copy, in a recording of its own.
struct Hop {
    recording: Recording,
    size: u64,
    from: SimulatedBuffer,
    to: SimulatedBuffer,
}

/// A sequence of copies: from memory that the CPU has filled, perhaps through device memory, to memory that the CPU
/// reads.
struct Job {
    hops: Vec<Hop>,
    /// Stages that are no longer needed and not retired yet.
    unwanted: Vec<Stage>,
    to: Stage,
    word: u64,
}

struct Running {
    to: Stage,
    word: u64,
    done: TimelinePoint,
}

fn filled(word: u64, size: u64) -> Vec<u8> {
    word.to_le_bytes().into_iter().cycle().take(size as usize).collect()
}

impl Scene {
    fn new() -> Self {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let tracker = SubmissionTracker::new(device.clone()).unwrap();
        Self {
            allocator: Allocator::new(device.clone(), AllocatorDesc::default()).unwrap(),
            memory: ReleaseQueue::new(&tracker),
            buffers: ReleaseQueue::new(&tracker),
            device,
            tracker,
            jobs: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    fn stage(&self, size: u64, memory_usage: MemoryUsage) -> Stage {
        let needs = self.device.buffer_requirements(&BufferDesc::new(size)).unwrap();
        let memory = self.allocator.allocate(&needs, &memory_usage.into()).unwrap();
        Stage { memory, size }
    }

    fn buffer(&self, stage: &Stage) -> SimulatedBuffer {
        let place = self.allocator.location(&stage.memory).unwrap();
        // SAFETY: the memory was allocated for such a buffer; that it outlives it is what is tested.
        unsafe { self.device.create_buffer(&BufferDesc::new(stage.size), place.memory, place.offset) }
            .unwrap()
    }

    fn write(&self, stage: &Stage, bytes: &[u8]) {
        self.allocator.write(&stage.memory, 0, bytes).unwrap();
    }

    /// Frees memory for others to allocate; overwrites it at once if it is host-visible.
    fn free(&self, stage: Stage) {
        if self.allocator.map(&stage.memory).is_ok() {
            self.write(&stage, &vec![POISON; stage.size as usize]);
            self.allocator.unmap(&stage.memory).unwrap();
        }
        self.allocator.free(stage.memory).unwrap();
    }

    fn reclaim(&self) {
        self.memory.reclaim(|stage| self.free(stage));
        self.buffers.reclaim(|buffer| self.destroy(buffer));
    }

    fn destroy(&self, buffer: SimulatedBuffer) {
        // SAFETY: the recording that it was made for is closed and completed; else the device complains.
        unsafe { self.device.destroy_buffer(buffer) };
    }

    fn hop(&self, from: &Stage, to: &Stage) -> Hop {
        let recording = self.tracker.record("one copy");
        Hop { recording, size: from.size, from: self.buffer(from), to: self.buffer(to) }
    }

    fn record(&self, random: &mut Random) -> Job {
        let size = 8 * (8 + random.next() % 500);
        // No byte of the pattern is similar to the poison.
        let word = random.next() & 0x7f7f_7f7f_7f7f_7f7f;
        let (from, to) = (self.stage(size, MemoryUsage::Upload), self.stage(size, MemoryUsage::Readback));
        self.write(&from, &filled(word, size));
        let mut job = Job { hops: Vec::new(), unwanted: Vec::new(), to, word };
        if random.one_in(2) {
            let between = self.stage(size, MemoryUsage::GpuOnly);
            job.hops.push(self.hop(&from, &between));
            job.hops.push(self.hop(&between, &job.to));
            job.unwanted.push(between);
        } else {
            job.hops.push(self.hop(&from, &job.to));
        }
        job.unwanted.push(from);
        // Recorded and no longer needed: what an engine does with staging memory.
        while random.one_in(2) {
            let Some(stage) = job.unwanted.pop() else { break };
            self.memory.retire(stage);
        }
        job
    }

    /// Submits a job, or drops it.
    fn submit(&self, job: Job, give_up: bool, random: &mut Random) -> Option<Running> {
        let Job { hops, unwanted, to, word } = job;
        let mut before: Option<TimelinePoint> = None;
        for Hop { recording, size, from, to } in hops {
            let id = recording.id();
            if !give_up {
                let queue = QueueIndex(random.below(QUEUES) as u8);
                let copies = [BufferCopy { from: &from, from_offset: 0, to: &to, to_offset: 0, size }];
                let submission =
                    Submission { waits: before.as_slice(), copies: &copies, ..Submission::default() };
                // SAFETY: the buffers are destroyed after this is completed, by the rule that is tested.
                let submit = |_| unsafe { self.device.submit(queue, &submission) };
                before = Some(recording.submit(queue, submit).unwrap());
            }
            for buffer in [from, to] {
                self.buffers.retire_with(id, buffer);
            }
        }
        unwanted.into_iter().for_each(|stage| self.memory.retire(stage));
        match before {
            Some(done) => Some(Running { to, word, done }),
            None => {
                self.memory.retire(to);
                None
            }
        }
    }

    /// Verifies the bytes, if the job has completed.
    fn look(&self, running: Running) -> Option<Running> {
        if !self.tracker.is_reached(running.done) {
            return Some(running);
        }
        let mut bytes = vec![0; running.to.size as usize];
        self.allocator.read(&running.to.memory, 0, &mut bytes).unwrap();
        self.jobs.fetch_add(1, Ordering::Relaxed);
        if bytes != filled(running.word, running.to.size) {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
        self.free(running.to);
        None
    }

    fn work(&self, seed: u64, jobs: usize) -> Vec<Running> {
        let mut random = Random::new(seed);
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for _ in 0..jobs {
            waiting.push(self.record(&mut random));
            if random.one_in(2) {
                self.reclaim();
            }
            if waiting.len() > WAITING {
                let job = waiting.swap_remove(random.below(waiting.len()));
                running.extend(self.submit(job, random.one_in(10), &mut random));
            }
            if running.len() > RUNNING {
                running = running.into_iter().filter_map(|running| self.look(running)).collect();
            }
        }
        running.extend(waiting.into_iter().filter_map(|job| self.submit(job, false, &mut random)));
        running
    }

    /// Verifies the remaining jobs, and that everything was freed.
    fn end(self, running: Vec<Running>) {
        let long = Duration::from_secs(60);
        assert_eq!(self.tracker.wait_idle(long), Ok(()));
        let left: Vec<_> = running.into_iter().filter_map(|running| self.look(running)).collect();
        assert!(left.is_empty(), "everything is completed");
        assert_eq!(self.memory.drain(long, |stage| self.free(stage)).pending, 0);
        assert_eq!(self.buffers.drain(long, |buffer| self.destroy(buffer)).pending, 0);
        let (jobs, wrong) = (self.jobs.into_inner(), self.wrong.into_inner());
        println!("{jobs} jobs, {wrong} wrong");
        assert_eq!(wrong, 0, "of {jobs} jobs have read the bytes of another job");
        assert_eq!(self.allocator.statistics().allocations, 0);
        self.allocator.check_invariants();
        drop((self.memory, self.buffers, self.allocator));
        assert_eq!(self.device.usage().memory_objects, 0);
        assert_eq!(self.device.usage().buffers, 0);
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
    }
}

#[test]
fn a_copy_that_runs_late_reads_what_was_there_when_it_was_recorded() {
    for retired_before_the_submission in [false, true] {
        let scene = Scene::new();
        scene.device.pause_queues();
        let mut random = Random::new(0);
        let (from, to) = (scene.stage(1024, MemoryUsage::Upload), scene.stage(1024, MemoryUsage::Readback));
        scene.write(&from, &filled(7, 1024));
        let place = scene.allocator.location(&from.memory).unwrap();
        let mut job = Job { hops: vec![scene.hop(&from, &to)], unwanted: Vec::new(), to, word: 7 };
        if retired_before_the_submission {
            scene.memory.retire(from);
            scene.reclaim();
        } else {
            job.unwanted.push(from);
        }
        let running = scene.submit(job, false, &mut random).unwrap();
        scene.reclaim();
        // Another user allocates the memory, and writes.
        let other = scene.stage(1024, MemoryUsage::Upload);
        let elsewhere = scene.allocator.location(&other.memory).unwrap();
        scene.write(&other, &[9; 1024]);
        scene.device.resume_queues();
        assert_eq!(scene.tracker.wait(running.done, Duration::from_secs(60)), Ok(()));
        assert!(elsewhere.memory != place.memory || elsewhere.offset != place.offset);
        scene.free(other);
        scene.end(vec![running]);
    }
}

#[test]
fn a_deferred_recording_that_crosses_frames_finds_its_bytes() {
    let scene = Scene::new();
    let mut random = Random::new(3);
    let deletion_queue = scene.record(&mut random);
    let mut running = Vec::new();
    for _frame in 2..=5 {
        running.extend(scene.work(random.next(), 20));
        scene.tracker.wait_idle(Duration::from_secs(60)).unwrap();
        scene.reclaim();
    }
    running.extend(scene.submit(deletion_queue, false, &mut random));
    scene.end(running);
}

#[test]
fn reuse_by_one_thread_shows_in_no_copy() {
    let scene = Scene::new();
    let mut running = Vec::new();
    let mut random = Random::new(4);
    for round in 0..scaled(100) {
        // Unique back for some rounds, then late, then at once.
        match round % 3 {
            0 => scene.device.pause_queues(),
            1 => scene.device.set_latency(Duration::from_micros(200)),
            _ => scene.device.set_latency(Duration::ZERO),
        }
        running.extend(scene.work(random.next(), 40));
        scene.device.resume_queues();
    }
    scene.end(running);
}

#[test]
fn reuse_by_many_threads_shows_in_no_copy() {
    let scene = Scene::new();
    let done = AtomicBool::new(false);
    let running = scope(|scope| {
        let scene = &scene;
        let threads: Vec<_> =
            (0..4).map(|thread| scope.spawn(move || scene.work(10 + thread, scaled(2000)))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                scene.device.pause_queues();
                std::thread::sleep(Duration::from_millis(1));
                scene.device.resume_queues();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let joined: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        joined.into_iter().flat_map(|joined| joined.unwrap()).collect()
    });
    scene.end(running);
}
