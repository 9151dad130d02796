//! Shared test helpers: timelines under manual control, objects that log their drop, and random numbers.

use std::sync::{Arc, Mutex};

use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
use allotment::lifetime::{ManualTimelines, Recording, SubmissionTracker};

pub(crate) const QUEUE: QueueIndex = QueueIndex(0);
pub(crate) const OTHER: QueueIndex = QueueIndex(1);

/// A tracker with manual timelines, and a log of drops.
pub(crate) struct Rig {
    pub(crate) timelines: ManualTimelines,
    pub(crate) tracker: SubmissionTracker,
    dropped: Arc<Mutex<Vec<u32>>>,
}

/// Logs its name when dropped.
#[derive(Debug)]
pub(crate) struct Spy {
    name: u32,
    dropped: Arc<Mutex<Vec<u32>>>,
}

impl Drop for Spy {
    fn drop(&mut self) {
        self.dropped.lock().unwrap().push(self.name);
    }
}

impl Rig {
    pub(crate) fn new(queues: usize) -> Self {
        let timelines = ManualTimelines::new(queues);
        let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
        Self { timelines, tracker, dropped: Arc::default() }
    }

    pub(crate) fn spy(&self, name: u32) -> Spy {
        Spy { name, dropped: Arc::clone(&self.dropped) }
    }

    /// Returns the names of the dropped objects, in order.
    pub(crate) fn dropped(&self) -> Vec<u32> {
        self.dropped.lock().unwrap().clone()
    }

    pub(crate) fn submit(&self, recording: Recording, queue: QueueIndex) -> TimelinePoint {
        recording.submit(queue, |_| Ok::<_, ()>(self.timelines.submit(queue))).unwrap()
    }

    /// Opens a recording and submits it at once.
    pub(crate) fn run(&self, queue: QueueIndex) -> TimelinePoint {
        self.submit(self.tracker.record("at once"), queue)
    }

    pub(crate) fn complete(&self, point: TimelinePoint) {
        self.timelines.complete(point.queue, point.value);
    }

    pub(crate) fn complete_all(&self) {
        for queue in [QUEUE, OTHER] {
            self.timelines.complete_all(queue);
        }
    }
}

pub(crate) fn point(queue: QueueIndex, value: u64) -> TimelinePoint {
    TimelinePoint { queue, value: TimelineValue(value) }
}

/// Pseudo-random numbers, the same in each run.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns true once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Returns the number of rounds to run: fewer under a sanitizer, which is many times slower.
pub(crate) fn scaled(rounds: usize) -> usize {
    crate::amount::scaled(rounds as u64) as usize
}
