//! Queues of the simulated GPU: one thread each, which executes submissions in order and asynchronously.

use core::fmt::Debug;
use core::ops::Range;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::hazards::{self, Access, Accessor, History, InOneSubmission};
use super::memory::MemoryObject;
use super::names::Names;
use super::ownership::{self, HandOver, Use};
use super::reads::{DescriptorRead, READS, WRITES, check_memory};
use super::resources::{InUse, ResourceRange};
use super::sample_list::ListedSamples;
use super::samples::TextureSamples;
use super::{SimulatedGpu, ValidationErrors, images};
use crate::device::{
    BufferCopy, CopyDirection, CopyError, DeviceError, OwnedPart, OwnershipTransfer, QueueDevice, QueueIndex,
    Submission, TimelinePoint, TimelineValue, TransferUsage,
};
use crate::sync::locked;

/// A copy of rows of bytes, which keeps both ends alive until it is done. Offsets are relative to the memory. A
/// copy between buffers is one row.
#[derive(Debug)]
pub(super) struct SimulatedCopy {
    pub(super) from: InUse,
    pub(super) from_offset: u64,
    pub(super) from_steps: Steps,
    pub(super) to: InUse,
    pub(super) to_offset: u64,
    pub(super) to_steps: Steps,
    /// Bytes per row.
    pub(super) size: u64,
    /// Rows per slice.
    pub(super) rows: u64,
    pub(super) slices: u64,
    /// The end that is a subresource of an image, whose copies within a submission run in the order given.
    pub(super) texels: Option<CopyDirection>,
}

/// The distance of rows and of slices in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    pub(super) row: u64,
    pub(super) slice: u64,
}

impl SimulatedCopy {
    /// Creates a copy of one row between the memory of two resources.
    pub(super) fn of_bytes(
        from: &ResourceRange,
        from_offset: u64,
        to: &ResourceRange,
        to_offset: u64,
        size: u64,
    ) -> Self {
        Self {
            from: InUse::new(from),
            from_offset,
            from_steps: Steps::default(),
            to: InUse::new(to),
            to_offset,
            to_steps: Steps::default(),
            size,
            rows: 1,
            slices: 1,
            texels: None,
        }
    }

    /// Calls `each` with the ranges that are read and those that are written.
    fn each_access(&self, mut each: impl FnMut(&Arc<MemoryObject>, Range<u64>, Access)) {
        let (read, write) = match self.texels {
            None => (Access::Read, Access::Write),
            Some(CopyDirection::IntoImage) => (Access::Read, Access::WriteTexels),
            Some(CopyDirection::OutOfImage) => (Access::ReadTexels, Access::Write),
        };
        let ends = [(&self.from, self.from_offset, self.from_steps, read)];
        let ends = ends.into_iter().chain([(&self.to, self.to_offset, self.to_steps, write)]);
        for (end, offset, steps, access) in ends {
            // Rows without bytes between them are one range.
            let (size, rows) =
                if steps.row == self.size { (self.size * self.rows, 1) } else { (self.size, self.rows) };
            for slice in 0..self.slices {
                for row in 0..rows {
                    let at = offset + slice * steps.slice + row * steps.row;
                    each(end.memory(), at..at + size, access);
                }
            }
        }
    }

    /// Notes what the copy does with exclusive resources. Returns the first validation error.
    fn note_ownership(&self, point: TimelinePoint, family: u32) -> Option<String> {
        let mut found = None;
        // Most copies are between shared buffers.
        for (end, offset, steps, what) in [
            (&self.from, self.from_offset, self.from_steps, Use::Read),
            (&self.to, self.to_offset, self.to_steps, Use::Write),
        ] {
            if !end.is_exclusive {
                continue;
            }
            let first = offset - end.offset;
            for slice in 0..self.slices {
                for row in 0..self.rows {
                    let at = first + slice * steps.slice + row * steps.row;
                    let wrong = ownership::note(end, &(at..at + self.size), (point, family), what);
                    found = found.or(wrong);
                }
            }
        }
        found
    }

    /// Returns true if a byte may be both read and written by the copy. Gaps between rows count as part of the
    /// range.
    pub(super) fn overlaps(&self) -> bool {
        let span = |steps: Steps| (self.slices - 1) * steps.slice + (self.rows - 1) * steps.row + self.size;
        if !Arc::ptr_eq(self.from.memory(), self.to.memory()) || self.is_empty() {
            return false;
        }
        let from = self.from_offset..self.from_offset + span(self.from_steps);
        let to = self.to_offset..self.to_offset + span(self.to_steps);
        from.start < to.end && to.start < from.end
    }

    fn is_empty(&self) -> bool {
        self.size == 0 || self.rows == 0 || self.slices == 0
    }

    pub(super) fn run(&self) {
        for slice in 0..self.slices {
            for row in 0..self.rows {
                // Row by row: the bytes between rows belong to others and must not be touched.
                let at = |offset, steps: Steps| offset + slice * steps.slice + row * steps.row;
                let from_offset = at(self.from_offset, self.from_steps);
                let to_offset = at(self.to_offset, self.to_steps);
                self.from.memory().copy_to(from_offset, self.to.memory(), to_offset, self.size);
            }
        }
    }
}

/// A task of a submission.
#[derive(Debug)]
pub(super) enum Task {
    Copy(SimulatedCopy),
    Read(DescriptorRead),
    Sample(TextureSamples),
    SampleList(ListedSamples),
    HandOver(HandOver),
}

impl Task {
    /// Returns the memory that the task certainly uses. What its descriptors name is not known before it runs.
    fn memories(&self) -> [&Arc<MemoryObject>; 2] {
        match self {
            Self::Copy(copy) => [copy.from.memory(), copy.to.memory()],
            Self::Read(read) => read.memories(),
            Self::Sample(samples) => samples.memories(),
            Self::SampleList(samples) => samples.memories(),
            Self::HandOver(one) => [one.resource.memory(), one.resource.memory()],
        }
    }

    /// Calls `each` with the ranges that the task certainly accesses.
    pub(super) fn each_access(&self, mut each: impl FnMut(&Arc<MemoryObject>, Range<u64>, Access)) {
        match self {
            Self::Copy(copy) => copy.each_access(each),
            Self::Read(read) => {
                let [(indices, read), (to, written)] = read.accesses();
                each(indices, read, Access::Read);
                each(to, written, Access::Write);
            }
            Self::Sample(samples) => {
                let (to, written) = samples.written();
                each(to, written, Access::Write);
            }
            Self::SampleList(samples) => {
                let [(list, read), (to, written)] = samples.accesses();
                each(list, read, Access::Read);
                each(to, written, Access::Write);
            }
            // As the change of a layout would: what uses the bytes on another queue waits for it.
            Self::HandOver(one) => each(one.resource.memory(), one.in_memory(), Access::Write),
        }
    }

    /// Notes what the task does with exclusive resources. Returns the first validation error.
    fn note_ownership(&self, point: TimelinePoint, family: u32) -> Option<String> {
        match self {
            Self::Copy(copy) => copy.note_ownership(point, family),
            Self::HandOver(one) => ownership::note(&one.resource, &one.bytes, (point, family), one.what),
            // The memory that descriptors name is of resources that are not known here.
            Self::Read(_) | Self::Sample(_) | Self::SampleList(_) => None,
        }
    }

    fn run(&self, work: &Work, point: TimelinePoint) {
        // What descriptors name is known only now.
        let reads = |memory: &MemoryObject, range| work.note_read(point, memory, range);
        match self {
            Self::Copy(copy) => copy.run(),
            Self::Read(read) => read.run(&work.names, &work.validation_errors, reads),
            Self::Sample(samples) => samples.run(&work.names, &work.validation_errors, reads),
            Self::SampleList(samples) => samples.run(&work.names, &work.validation_errors, reads),
            Self::HandOver(_) => {}
        }
    }
}

/// A submission: the number of waits and tasks at the front of its queue's lists that belong to it.
#[derive(Clone, Copy, Debug)]
struct Job {
    waits: usize,
    tasks: usize,
}

/// Initial capacities, so that a program with no more in flight makes no heap allocations here: a few frames of
/// submissions, and the copies of a frame with many.
const JOBS: usize = 64;
const TASKS: usize = 1024;

#[derive(Debug, Default)]
struct Timeline {
    /// The value of the last completed job; those that wait and the one that runs are not included.
    completed: u64,
    waiting: VecDeque<Job>,
    /// The waits of the waiting jobs, in their order.
    waits: VecDeque<TimelinePoint>,
    /// The tasks of the waiting jobs, in their order.
    tasks: VecDeque<Task>,
    /// The memory that the running job uses, so that a free during that time is detected.
    running: Vec<Arc<MemoryObject>>,
    /// What the host had seen when each of the waiting jobs was submitted, and the running one: a clock for each.
    seen: VecDeque<u64>,
    /// Empty while none runs.
    running_seen: Vec<u64>,
    history: History,
}

#[derive(Debug)]
struct State {
    timelines: Vec<Timeline>,
    paused: bool,
    lost: bool,
    ended: bool,
    latency: Duration,
    /// The clock of the host: what it has seen completed, and what that comes after.
    seen: Vec<u64>,
    /// Space for the clock of the job that is taken, and for what comes before all jobs that are not taken yet.
    clock: Vec<u64>,
    floor: Vec<u64>,
}

/// The state that queue threads and the device share. One lock for all queues, since they wait for each other.
#[derive(Debug)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
    /// The family of each queue.
    families: Vec<u32>,
    names: Arc<Names>,
    validation_errors: ValidationErrors,
}

#[derive(Debug)]
pub(super) struct Queues {
    work: Arc<Work>,
    /// The value of each queue's last submission. Written under the lock of `work`, read without it.
    submitted: Vec<AtomicU64>,
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
}

impl Queues {
    pub(super) fn new(families: Vec<u32>, names: Arc<Names>, validation_errors: ValidationErrors) -> Self {
        let count = families.len();
        let state = State {
            timelines: (0..count).map(|_| Timeline::default()).collect(),
            paused: false,
            lost: false,
            ended: false,
            latency: Duration::ZERO,
            seen: vec![0; count],
            clock: vec![0; count],
            floor: vec![0; count],
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let work = Arc::new(Work { state, changed, families, names, validation_errors });
        let submitted = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { work, submitted, threads: Mutex::new((0..count).map(|_| None).collect()) }
    }

    /// Submits tasks. If one of them is an error, nothing is submitted.
    pub(super) fn submit(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        tasks: impl Iterator<Item = Result<Task, DeviceError>>,
    ) -> Result<TimelineValue, DeviceError> {
        let index = usize::from(queue.0);
        // Threads start with the first submission, so that an unused queue costs none.
        // Before the lock of the state is taken, since `start` takes it as well.
        self.start(index)?;
        let mut state = locked(&self.work.state);
        if state.lost {
            return Err(DeviceError::Lost);
        }
        // All waits are checked before anything is queued, so that a refusal leaves no trace.
        for point in waits {
            if usize::from(point.queue.0) >= self.submitted.len() {
                self.work
                    .validation_errors
                    .add(format!("submit: a wait names {:?}, which does not exist", point.queue));
                return Err(DeviceError::NoSuchQueue { queue: point.queue });
            }
            // On the own queue, only points that were submitted already can be waited for: later ones would never
            // come.
            if point.value > self.submitted(queue) && point.queue == queue {
                self.work
                    .validation_errors
                    .add(format!("submit: {queue:?} would wait for itself, a deadlock"));
                return Err(DeviceError::WaitsForItself { point: *point });
            }
        }
        let State { timelines, seen, .. } = &mut *state;
        let timeline = &mut timelines[index];
        let before = timeline.tasks.len();
        for task in tasks {
            match task {
                Ok(task) => timeline.tasks.push_back(task),
                Err(refused) => {
                    // A refused task takes back those before it: a submission is all or nothing.
                    timeline.tasks.truncate(before);
                    return Err(refused);
                }
            }
        }
        timeline.waits.extend(waits);
        let tasks = timeline.tasks.len() - before;
        timeline.waiting.push_back(Job { waits: waits.len(), tasks });
        timeline.seen.extend(seen.iter());
        let value = TimelineValue(self.submitted(queue).0 + 1);
        self.submitted[index].store(value.0, Release);
        // Unlocked before the wake-up, so that a woken thread does not wait for this lock at once.
        drop(state);
        // All threads share one condition: a submission may be what several queues wait for.
        self.work.changed.notify_all();
        Ok(value)
    }

    /// Starts the queue's thread unless it runs already.
    fn start(&self, index: usize) -> Result<(), DeviceError> {
        let mut threads = locked(&self.threads);
        let thread =
            threads.get_mut(index).ok_or(DeviceError::NoSuchQueue { queue: QueueIndex(index as u8) })?;
        if thread.is_none() {
            let queues = self.submitted.len();
            if let Some(timeline) = locked(&self.work.state).timelines.get_mut(index) {
                timeline.make_room(queues);
            }
            let work = Arc::clone(&self.work);
            let builder = std::thread::Builder::new().name(format!("simulated queue {index}"));
            let started = builder.spawn(move || work.run(index));
            *thread = Some(started.map_err(|_| DeviceError::OutOfHostMemory)?);
        }
        Ok(())
    }

    /// Returns the family of a queue. One that does not exist is of no family.
    pub(super) fn family(&self, queue: QueueIndex) -> u32 {
        self.work.families.get(usize::from(queue.0)).copied().unwrap_or(u32::MAX)
    }

    pub(super) fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        let submitted = self.submitted.get(usize::from(queue.0));
        TimelineValue(submitted.map_or(0, |submitted| submitted.load(Acquire)))
    }

    /// Returns the value that a queue has completed, and notes that the host has seen it.
    pub(super) fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        let mut state = locked(&self.work.state);
        let value = state.completed(queue)?;
        state.note_seen(queue, value);
        Ok(value)
    }

    /// Returns the value that a queue has completed, for checks of the device itself.
    pub(super) fn completed_unseen(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        locked(&self.work.state).completed(queue)
    }

    pub(super) fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        // A timeout beyond the clock's range means no timeout.
        let until = Instant::now().checked_add(timeout);
        let mut state = locked(&self.work.state);
        loop {
            // Checked in each round: a wait must end when the device is lost meanwhile.
            if state.completed(point.queue)? >= point.value {
                state.note_seen(point.queue, point.value);
                return Ok(());
            }
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(DeviceError::TimedOut { point, timeout });
            }
            state = self.work.sleep(state, left);
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        locked(&self.work.state).lost
    }

    /// Returns true while an incomplete submission uses the memory. On a lost device nothing is in use, since no
    /// thread could wait for it.
    pub(super) fn uses(&self, object: &Arc<MemoryObject>) -> bool {
        let state = locked(&self.work.state);
        let uses = |task: &Task| task.memories().iter().any(|memory| Arc::ptr_eq(memory, object));
        if state.lost {
            // A caller that frees everything after a loss must not be reported.
            return false;
        }
        state.timelines.iter().any(|timeline| {
            timeline.tasks.iter().any(uses)
                || timeline.running.iter().any(|running| Arc::ptr_eq(running, object))
        })
    }

    /// Returns the validation error of a write by the CPU to bytes that a queue uses, or that the host has not seen it to have
    /// used, if any.
    pub(super) fn check_host_write(&self, memory: &Arc<MemoryObject>, range: Range<u64>) -> Option<String> {
        self.may_use(memory, &range).then(|| {
            format!(
                "hazard: the CPU writes the bytes {range:?} of a memory object, which a queue may be using"
            )
        })
    }

    /// Returns whether a queue uses these bytes, or the host has not seen it to have used them.
    pub(super) fn may_use(&self, memory: &Arc<MemoryObject>, range: &Range<u64>) -> bool {
        let state = locked(&self.work.state);
        if state.lost {
            return false;
        }
        let mut is_used = hazards::is_in_use(memory, range, &state.seen);
        for task in state.timelines.iter().flat_map(|timeline| &timeline.tasks) {
            task.each_access(|other, used, _| {
                let meets = used.start < range.end && range.start < used.end;
                is_used |= meets && Arc::ptr_eq(other, memory);
            });
        }
        is_used
    }

    pub(super) fn set_paused(&self, paused: bool) {
        locked(&self.work.state).paused = paused;
        self.work.changed.notify_all();
    }

    pub(super) fn set_latency(&self, latency: Duration) {
        locked(&self.work.state).latency = latency;
    }

    pub(super) fn lose_device(&self) {
        // The lock makes the loss atomic for the queues: no job starts after it.
        let mut state = locked(&self.work.state);
        state.lost = true;
        let gone = |timeline: &mut Timeline| {
            timeline.waiting.clear();
            timeline.waits.clear();
            timeline.seen.clear();
            core::mem::take(&mut timeline.tasks)
        };
        // Dropped without the lock: dropping a task releases resources, which may take other locks.
        let dropped: Vec<_> = state.timelines.iter_mut().map(gone).collect();
        drop(state);
        drop(dropped);
        self.work.changed.notify_all();
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        locked(&self.work.state).ended = true;
        self.work.changed.notify_all();
        for thread in locked(&self.threads).iter_mut().filter_map(Option::take) {
            // A queue thread does not panic; if it did, the test that runs it has failed.
            let _ = thread.join();
        }
    }
}

impl Work {
    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>, at_most: Duration) -> MutexGuard<'a, State> {
        let woken = self.changed.wait_timeout(state, at_most);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Executes a queue's jobs until the device is dropped.
    fn run(&self, index: usize) {
        // Kept between jobs, so that a steady program allocates nothing in this thread.
        let mut tasks = Vec::with_capacity(TASKS);
        let mut in_one = InOneSubmission::default();
        in_one.reserve(TASKS);
        let mut state = locked(&self.state);
        while !state.ended {
            if !self.take_job(&mut state, index, &mut tasks) {
                // Changes are made under the lock and announced, so the time limit only bounds the wait.
                state = self.sleep(state, Duration::from_secs(3600));
                continue;
            }
            let latency = state.latency;
            let value = TimelineValue(state.timelines[index].history.last());
            let point = TimelinePoint { queue: QueueIndex(index as u8), value };
            // Jobs run without the lock: other queues execute at the same time, as on a GPU.
            drop(state);
            if !latency.is_zero() {
                std::thread::sleep(latency);
            }
            in_one.check(&tasks, point).into_iter().for_each(|error| self.validation_errors.add(error));
            tasks.iter().for_each(|task| task.run(self, point));
            // Dropped before the value counts as completed: a thread that saw it may destroy the resources at
            // once.
            tasks.clear();
            state = locked(&self.state);
            state.timelines[index].running.clear();
            state.timelines[index].running_seen.clear();
            // A job that ran while the device was lost never completes, as on a real device.
            if !state.lost {
                state.timelines[index].completed += 1;
            }
            self.changed.notify_all();
        }
    }

    /// Takes the tasks of the next job. Returns false if no job can run.
    fn take_job(&self, state: &mut State, index: usize, tasks: &mut Vec<Task>) -> bool {
        if state.paused || state.lost {
            return false;
        }
        let Some(&job) = state.timelines[index].waiting.front() else { return false };
        let reached = |point: &TimelinePoint| {
            // `submit` has checked that the queue exists.
            state.timelines.get(usize::from(point.queue.0)).is_some_and(|t| t.completed >= point.value.0)
        };
        if !state.timelines[index].waits.range(..job.waits).all(reached) {
            return false;
        }
        state.begin_clock(index, job);
        let timeline = &mut state.timelines[index];
        timeline.waiting.pop_front();
        timeline.waits.drain(..job.waits);
        tasks.extend(timeline.tasks.drain(..job.tasks));
        // Recorded as in use until the job has completed, since its tasks leave the list here.
        let used = tasks.iter().flat_map(Task::memories);
        timeline.running.extend(used.map(Arc::clone));
        let value = TimelineValue(timeline.history.last());
        let point = TimelinePoint { queue: QueueIndex(index as u8), value };
        state.set_floor();
        let by = Accessor { point, clock: &state.clock, floor: &state.floor };
        let mut found = None;
        for task in tasks.iter() {
            // One error is enough for a submission; the accesses are noted all the same.
            task.each_access(|memory, range, access| {
                let unbound = memory.unbound(&range);
                let hazard = hazards::note(memory, range, &by, access);
                found = found.take().or(unbound).or(hazard);
            });
        }
        found.into_iter().for_each(|error| self.validation_errors.add(error));
        let mut found = None;
        for task in tasks.iter() {
            let wrong = task.note_ownership(point, self.families[index]);
            found = found.or(wrong);
        }
        found.into_iter().for_each(|error| self.validation_errors.add(error));
        true
    }

    /// Notes a read of the running job at `point`, and reports a hazard.
    fn note_read(&self, point: TimelinePoint, memory: &MemoryObject, range: Range<u64>) {
        let mut state = locked(&self.state);
        state.set_floor();
        let queues = state.timelines.len();
        let Some(timeline) = state.timelines.get(usize::from(point.queue.0)) else { return };
        let clock = timeline.history.get(point.value.0, queues);
        let by = Accessor { point, clock, floor: &state.floor };
        let unbound = memory.unbound(&range);
        let found = unbound.or(hazards::note(memory, range, &by, Access::Read));
        found.into_iter().for_each(|error| self.validation_errors.add(error));
    }
}

impl State {
    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        if self.lost {
            return Err(DeviceError::Lost);
        }
        let timeline = self.timelines.get(usize::from(queue.0)).ok_or(DeviceError::NoSuchQueue { queue })?;
        Ok(TimelineValue(timeline.completed))
    }

    /// Notes that the host has seen a queue to have completed a value: what it submits from now on comes after that.
    fn note_seen(&mut self, queue: QueueIndex, value: TimelineValue) {
        let queues = self.seen.len();
        if let Some(timeline) = self.timelines.get(usize::from(queue.0)) {
            hazards::join(&mut self.seen, timeline.history.get(value.0, queues));
        }
    }

    /// Writes to `clock` what the next job of a queue comes after, and keeps it.
    fn begin_clock(&mut self, index: usize, job: Job) {
        let queues = self.seen.len();
        let mut clock = core::mem::take(&mut self.clock);
        clock.clear();
        clock.extend(self.timelines[index].seen.drain(..queues));
        self.timelines[index].running_seen.extend_from_slice(&clock);
        // All of them have completed, so their clocks are known.
        for point in self.timelines[index].waits.range(..job.waits) {
            let history = &self.timelines[usize::from(point.queue.0)].history;
            hazards::join(&mut clock, history.get(point.value.0, queues));
        }
        self.timelines[index].history.push(index, &mut clock);
        self.clock = clock;
    }

    /// Writes to `floor` what all jobs come after that are running, waiting or not yet submitted.
    fn set_floor(&mut self) {
        let Self { timelines, seen, floor, .. } = self;
        floor.copy_from_slice(seen);
        for timeline in timelines {
            // What the host has seen grows, so the first of the jobs has the least.
            let first = timeline.running_seen.iter().chain(&timeline.seen);
            floor.iter_mut().zip(first).for_each(|(floor, seen)| *floor = (*floor).min(*seen));
        }
    }
}

impl Timeline {
    fn make_room(&mut self, queues: usize) {
        self.waiting.reserve(JOBS);
        self.waits.reserve(JOBS);
        self.seen.reserve(JOBS * queues);
        self.running_seen.reserve(queues);
        self.history.reserve(queues);
        self.tasks.reserve(TASKS);
        // Two for each task: both ends of a copy.
        self.running.reserve(2 * TASKS);
    }
}

impl SimulatedGpu {
    /// Returns the task of a copy that was `checked`, or reports the validation error: its own, or one of the memory
    /// that it copies between.
    fn copy_task(
        &self,
        copy: &impl Debug,
        checked: Result<(), DeviceError>,
        host_copy: impl FnOnce() -> SimulatedCopy,
    ) -> Result<Task, DeviceError> {
        let task = checked.and_then(|()| {
            let host_copy = host_copy();
            // Memory is checked at submission, as a validation layer does.
            check_memory(READS, host_copy.from.memory())?;
            check_memory(WRITES, host_copy.to.memory())?;
            if host_copy.overlaps() { Err(CopyError::Overlap.into()) } else { Ok(Task::Copy(host_copy)) }
        });
        task.inspect_err(|wrong| self.report(format!("submit: {copy:?}: {wrong}")))
    }
}

/// Half of a transfer of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Acquire,
    Release,
}

impl SimulatedGpu {
    /// Returns the task of half of a transfer of ownership, or reports the validation error.
    fn hand_over_task(
        &self,
        transfer: &OwnershipTransfer<'_, Self>,
        queue: QueueIndex,
        half: Half,
    ) -> Result<Task, DeviceError> {
        let task = self.hand_over(transfer, queue, half);
        task.map(Task::HandOver).inspect_err(|wrong| self.report(format!("submit: {transfer:?}: {wrong}")))
    }

    fn hand_over(
        &self,
        transfer: &OwnershipTransfer<'_, Self>,
        queue: QueueIndex,
        half: Half,
    ) -> Result<HandOver, DeviceError> {
        let family_of = |queue| self.shared.queues.family(queue);
        let (from, to) = (family_of(transfer.from), family_of(transfer.to));
        if family_of(queue) != if half == Half::Acquire { to } else { from } {
            return Err(CopyError::OtherFamily.into());
        }
        let (resource, bytes) = match transfer.part {
            OwnedPart::Buffer { buffer, offset, size } => {
                buffer.range.check(offset, Some(size))?;
                (&buffer.range, offset..offset + size)
            }
            OwnedPart::Image { image, mip_level, array_layer, .. } => {
                let level = image.shape.level_range(mip_level, array_layer);
                (&image.range, level.ok_or(CopyError::NoSuchSubresource { mip_level, array_layer })?)
            }
        };
        resource.check_alive()?;
        let what = match (from == to, half) {
            // Nothing is handed over.
            (true, _) => Use::Read,
            (false, Half::Acquire) => Use::Acquire { from, to },
            (false, Half::Release) => Use::Release { from, to },
        };
        Ok(HandOver { resource: InUse::new(resource), bytes, what })
    }
}

/// Checks a copy of bytes.
fn check_buffer_copy(copy: &BufferCopy<'_, SimulatedGpu>) -> Result<(), DeviceError> {
    let ends =
        [(copy.from, copy.from_offset, TransferUsage::SRC), (copy.to, copy.to_offset, TransferUsage::DST)];
    for (buffer, offset, usage) in ends {
        buffer.range.check(offset, Some(copy.size))?;
        buffer.range.check_alive()?;
        buffer.check_usage(usage)?;
    }
    Ok(())
}

// SAFETY: a submission is counted before its call returns, and completed once its queue has executed it.
unsafe impl QueueDevice for SimulatedGpu {
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        // Before any check: an injected fault must not depend on the arguments.
        self.shared.faults.check()?;
        // Image copies run first. A program that copies bytes to a buffer and from there to an image must
        // separate the two with a wait; without it, the image gets the old bytes here, and undefined ones on a
        // real GPU.
        // A queue that does not exist has no kind; `submit` below refuses it.
        let kind = self.shared.properties.queues.get(usize::from(queue.0)).copied();
        let image_copies = submission
            .image_copies
            .iter()
            .map(|copy| self.copy_task(copy, self.check_image_copy(copy, kind), || images::rows(copy)));
        let full_images = submission.full_images.iter().enumerate().map(|(at, copy)| {
            let checked = images::check_full_image(kind, submission, at);
            self.copy_task(copy, checked, || images::all_bytes(copy))
        });
        let copies = submission.copies.iter().map(|copy| {
            let (from, to) = (&copy.from.range, &copy.to.range);
            let host_copy = || {
                let (read, written) = (from.offset + copy.from_offset, to.offset + copy.to_offset);
                SimulatedCopy::of_bytes(from, read, to, written, copy.size)
            };
            self.copy_task(copy, check_buffer_copy(copy), host_copy)
        });
        let acquires = submission.acquires.iter().map(|it| self.hand_over_task(it, queue, Half::Acquire));
        let releases = submission.releases.iter().map(|it| self.hand_over_task(it, queue, Half::Release));
        let tasks = acquires.chain(image_copies).chain(full_images).chain(copies).chain(releases);
        self.shared.queues.submit(queue, submission.waits, tasks)
    }

    fn queue_family(&self, queue: QueueIndex) -> u32 {
        self.shared.queues.family(queue)
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.shared.queues.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.faults.check()?;
        self.shared.queues.completed(queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.shared.faults.check()?;
        self.shared.queues.wait(point, timeout)
    }
}
