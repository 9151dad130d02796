//! Queues of the simulated device: a thread each, which runs submissions in order, later than told.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::memory::MemoryObject;
use super::{Complaints, DeviceError, QueueIndex, ResourceRange, TimelinePoint, TimelineValue, Wait};
use crate::sync::locked;

/// Bytes to copy, with both ends kept alive until it is done. Offsets are in the memory.
#[derive(Debug)]
pub(super) struct HostCopy {
    pub(super) from: Arc<ResourceRange>,
    pub(super) from_offset: u64,
    pub(super) to: Arc<ResourceRange>,
    pub(super) to_offset: u64,
    pub(super) size: u64,
}

impl HostCopy {
    /// True where a byte would be read and written by the same copy.
    pub(super) fn overlaps(&self) -> bool {
        Arc::ptr_eq(&self.from.memory, &self.to.memory)
            && self.from_offset.abs_diff(self.to_offset) < self.size
    }
}

#[derive(Debug)]
struct Job {
    waits: Vec<TimelinePoint>,
    copies: Vec<HostCopy>,
}

#[derive(Debug, Default)]
struct Timeline {
    submitted: u64,
    /// Behind `submitted` by the jobs that wait and the one that runs.
    completed: u64,
    waiting: VecDeque<Job>,
    /// What the job that runs now uses, so that a free in its time is noticed.
    running: Vec<Arc<MemoryObject>>,
}

#[derive(Debug)]
struct State {
    timelines: Vec<Timeline>,
    paused: bool,
    lost: bool,
    ended: bool,
    latency: Duration,
}

/// What the queue threads and the device share. One lock for all queues, since they wait for each other.
#[derive(Debug)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Queues {
    work: Arc<Work>,
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
    complaints: Complaints,
}

impl Queues {
    pub(super) fn new(count: usize, complaints: Complaints) -> Self {
        let state = State {
            timelines: (0..count).map(|_| Timeline::default()).collect(),
            paused: false,
            lost: false,
            ended: false,
            latency: Duration::ZERO,
        };
        let work = Arc::new(Work { state: Mutex::new(state), changed: Condvar::new() });
        Self { work, threads: Mutex::new((0..count).map(|_| None).collect()), complaints }
    }

    pub(super) fn submit(
        &self,
        queue: QueueIndex,
        waits: Vec<TimelinePoint>,
        copies: Vec<HostCopy>,
    ) -> Result<TimelineValue, DeviceError> {
        let index = usize::from(queue.0);
        self.start(index)?;
        let mut state = locked(&self.work.state);
        if state.lost {
            return Err(DeviceError::Lost);
        }
        for point in &waits {
            let Some(timeline) = state.timelines.get(usize::from(point.queue.0)) else {
                self.complaints.add(format!("submit: there is no {:?} to wait for", point.queue));
                return Err(DeviceError::Unsupported);
            };
            if point.value.0 > timeline.submitted && point.queue == queue {
                self.complaints.add(format!("submit: {queue:?} would wait for itself"));
                return Err(DeviceError::Unsupported);
            }
        }
        let timeline = &mut state.timelines[index];
        timeline.submitted += 1;
        timeline.waiting.push_back(Job { waits, copies });
        let value = TimelineValue(timeline.submitted);
        drop(state);
        self.work.changed.notify_all();
        Ok(value)
    }

    /// Starts the queue's thread, unless it runs already.
    fn start(&self, index: usize) -> Result<(), DeviceError> {
        let mut threads = locked(&self.threads);
        let thread = threads.get_mut(index).ok_or(DeviceError::Unsupported)?;
        if thread.is_none() {
            let work = Arc::clone(&self.work);
            let builder = std::thread::Builder::new().name(format!("host queue {index}"));
            let started = builder.spawn(move || work.run(index));
            *thread = Some(started.map_err(|_| DeviceError::OutOfHostMemory)?);
        }
        Ok(())
    }

    pub(super) fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        let state = locked(&self.work.state);
        if state.lost {
            return Err(DeviceError::Lost);
        }
        let timeline = state.timelines.get(usize::from(queue.0)).ok_or(DeviceError::Unsupported)?;
        Ok(TimelineValue(timeline.completed))
    }

    pub(super) fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<Wait, DeviceError> {
        let until = Instant::now().checked_add(timeout);
        let mut state = locked(&self.work.state);
        loop {
            if state.lost {
                return Err(DeviceError::Lost);
            }
            let timeline = state.timelines.get(usize::from(point.queue.0)).ok_or(DeviceError::Unsupported)?;
            if timeline.completed >= point.value.0 {
                return Ok(Wait::Reached);
            }
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(Wait::TimedOut);
            }
            state = self.work.sleep(state, left);
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        locked(&self.work.state).lost
    }

    /// True while a submission that is not completed uses the memory. A lost device counts as done with
    /// everything, since nobody can wait for it.
    pub(super) fn uses(&self, object: &Arc<MemoryObject>) -> bool {
        let state = locked(&self.work.state);
        let ends = |copy: &HostCopy| [&copy.from, &copy.to].map(|range| Arc::as_ptr(&range.memory));
        let uses = |copy: &HostCopy| ends(copy).contains(&Arc::as_ptr(object));
        if state.lost {
            return false;
        }
        state.timelines.iter().any(|timeline| {
            timeline.waiting.iter().flat_map(|job| &job.copies).any(uses)
                || timeline.running.iter().any(|running| Arc::ptr_eq(running, object))
        })
    }

    pub(super) fn set_paused(&self, paused: bool) {
        locked(&self.work.state).paused = paused;
        self.work.changed.notify_all();
    }

    pub(super) fn set_latency(&self, latency: Duration) {
        locked(&self.work.state).latency = latency;
    }

    pub(super) fn lose(&self) {
        let mut state = locked(&self.work.state);
        state.lost = true;
        let dropped: Vec<_> = state.timelines.iter_mut().map(|t| core::mem::take(&mut t.waiting)).collect();
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
            // A queue thread has nothing to panic about; if it did, the test that runs it has failed.
            let _ = thread.join();
        }
    }
}

impl Work {
    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>, at_most: Duration) -> MutexGuard<'a, State> {
        let woken = self.changed.wait_timeout(state, at_most);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The life of a queue's thread.
    fn run(&self, index: usize) {
        let mut state = locked(&self.state);
        while !state.ended {
            let Some(job) = self.next_job(&mut state, index) else {
                state = self.sleep(state, Duration::from_secs(3600));
                continue;
            };
            let latency = state.latency;
            drop(state);
            if !latency.is_zero() {
                std::thread::sleep(latency);
            }
            for copy in &job.copies {
                copy.from.memory.copy_to(copy.from_offset, &copy.to.memory, copy.to_offset, copy.size);
            }
            drop(job);
            state = locked(&self.state);
            state.timelines[index].running.clear();
            if !state.lost {
                state.timelines[index].completed += 1;
            }
            self.changed.notify_all();
        }
    }

    /// Takes the next job that may run.
    fn next_job(&self, state: &mut State, index: usize) -> Option<Job> {
        if state.paused || state.lost {
            return None;
        }
        let job = state.timelines[index].waiting.front()?;
        let reached = |point: &TimelinePoint| {
            // `submit` has looked whether there is such a queue.
            state.timelines.get(usize::from(point.queue.0)).is_some_and(|t| t.completed >= point.value.0)
        };
        if !job.waits.iter().all(reached) {
            return None;
        }
        let timeline = &mut state.timelines[index];
        let job = timeline.waiting.pop_front()?;
        let used = job.copies.iter().flat_map(|copy| [&copy.from.memory, &copy.to.memory]);
        timeline.running.extend(used.map(Arc::clone));
        Some(job)
    }
}
