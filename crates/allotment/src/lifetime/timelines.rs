//! How far queues are: what lifetimes know of a device.

use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;

use super::timeline_points::MAX_QUEUES;
use crate::device::{Device, DeviceError, QueueIndex, TimelinePoint, TimelineValue};
use crate::sync::checked::{AtomicBool, AtomicU64};

/// What a queue has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything up to this value.
    Reached(TimelineValue),
    /// The device is gone: nothing runs any more, and nothing will.
    Lost,
}

/// A queue's timeline, as it was seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// The value of the last submission: 1 for the first.
    pub submitted: TimelineValue,
    /// The value of the last submission that is completed.
    pub completed: TimelineValue,
    /// The device is gone.
    pub lost: bool,
}

/// Has no name outside, so that a method which takes one can neither be called nor written there.
#[derive(Clone, Copy, Debug)]
pub struct Sealed;

/// The timelines of some queues. Every [`Device`] has them; an engine that owns its fences implements this,
/// and a test uses [`ManualTimelines`].
///
/// The tracker is asked for nothing by these methods: it may call them with its locks held.
pub trait Timelines: Send + Sync + 'static {
    /// How many queues there are; their indices count up from 0.
    fn queue_count(&self) -> usize;

    /// The value of the last submission to a queue; 0 before there was one. It is known by the time that
    /// whoever submitted is told of it. Takes no lock and calls no driver.
    fn submitted(&self, queue: QueueIndex) -> TimelineValue;

    /// The [number](Device::id) of the device that these are the timelines of. Of a device of this crate's trait only:
    /// nobody else can say so.
    #[doc(hidden)]
    fn device_id(&self, _: Sealed) -> Option<u64> {
        None
    }

    /// What a queue has completed. May call a driver.
    fn completed(&self, queue: QueueIndex) -> Progress;

    /// Waits for a point, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] where the time is up first, [`DeviceError::Lost`] where it will never be reached.
    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError>;
}

impl<D: Device> Timelines for D {
    fn queue_count(&self) -> usize {
        self.properties().queues.len()
    }

    fn device_id(&self, _: Sealed) -> Option<u64> {
        Some(self.id())
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        Device::submitted(self, queue)
    }

    fn completed(&self, queue: QueueIndex) -> Progress {
        match Device::completed(self, queue) {
            Ok(value) => Progress::Reached(value),
            Err(DeviceError::Lost) => Progress::Lost,
            // Nothing is known, so nothing counts as done.
            Err(_) => Progress::Reached(TimelineValue(0)),
        }
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        Device::wait(self, point, timeout)
    }
}

/// Timelines that go on when they are told to: for tests, and for who counts submissions by other means.
///
/// ```
/// use allotment::device::{QueueIndex, TimelineValue};
/// use allotment::lifetime::{ManualTimelines, Progress, Timelines};
///
/// let timelines = ManualTimelines::new(1);
/// let queue = QueueIndex(0);
/// assert_eq!(timelines.submit(queue), TimelineValue(1));
/// timelines.complete(queue, TimelineValue(1));
/// assert_eq!(timelines.completed(queue), Progress::Reached(TimelineValue(1)));
/// ```
#[derive(Clone, Debug)]
pub struct ManualTimelines {
    shared: std::sync::Arc<Manual>,
}

#[derive(Debug)]
struct Manual {
    queues: Vec<[AtomicU64; 2]>,
    lost: AtomicBool,
}

impl ManualTimelines {
    /// Timelines of so many queues, at 0. A clone is the same ones.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        let queue = |_| [AtomicU64::new(0), AtomicU64::new(0)];
        let manual =
            Manual { queues: (0..queues.min(MAX_QUEUES)).map(queue).collect(), lost: AtomicBool::new(false) };
        Self { shared: std::sync::Arc::new(manual) }
    }

    fn queue(&self, queue: QueueIndex) -> Option<&[AtomicU64; 2]> {
        self.shared.queues.get(usize::from(queue.0))
    }

    /// Notes a submission. Returns its value; 0 where there is no such queue.
    pub fn submit(&self, queue: QueueIndex) -> TimelineValue {
        TimelineValue(self.queue(queue).map_or(0, |[submitted, _]| submitted.fetch_add(1, Release) + 1))
    }

    /// Notes that a queue has completed everything up to a value.
    pub fn complete(&self, queue: QueueIndex, value: TimelineValue) {
        if let Some([_, completed]) = self.queue(queue) {
            completed.fetch_max(value.0, Release);
        }
    }

    /// Notes that a queue has completed everything that was submitted.
    pub fn complete_all(&self, queue: QueueIndex) {
        self.complete(queue, self.submitted(queue));
    }

    /// From now on the device is gone.
    pub fn lose_device(&self) {
        self.shared.lost.store(true, Release);
    }
}

impl Timelines for ManualTimelines {
    fn queue_count(&self) -> usize {
        self.shared.queues.len()
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        TimelineValue(self.queue(queue).map_or(0, |[submitted, _]| submitted.load(Acquire)))
    }

    fn completed(&self, queue: QueueIndex) -> Progress {
        if self.shared.lost.load(Acquire) {
            return Progress::Lost;
        }
        Progress::Reached(TimelineValue(
            self.queue(queue).map_or(0, |[_, completed]| completed.load(Acquire)),
        ))
    }

    /// Never blocks: what is not reached now is not waited for.
    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        match self.completed(point.queue) {
            Progress::Lost => Err(DeviceError::Lost),
            Progress::Reached(value) if value >= point.value => Ok(()),
            Progress::Reached(_) => Err(DeviceError::TimedOut { point, timeout }),
        }
    }
}
