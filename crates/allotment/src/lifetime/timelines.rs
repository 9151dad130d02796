//! The progress of queues: all that this module needs from a device.

use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;

use super::timeline_points::TimelinePoints;
use crate::device::{Device, DeviceError, QueueDevice, QueueIndex, TimelinePoint, TimelineValue};
use crate::sync::checked::{AtomicBool, AtomicU64};

/// The last known state of a queue's timeline.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// timelines.submit(QueueIndex(1));
/// let compute = tracker.timeline(QueueIndex(1));
/// assert_eq!((compute.submitted, compute.completed), (TimelineValue(1), TimelineValue(0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// The value of the last submission: 1 for the first.
    pub submitted: TimelineValue,
    /// The value of the last completed submission.
    pub completed: TimelineValue,
    /// The device is lost.
    pub lost: bool,
}

/// Cannot be named outside of this crate, so a method with an argument of this type can neither be called nor
/// implemented there.
#[derive(Clone, Copy, Debug)]
pub struct Sealed;

/// The timelines of a device's queues. Every [`Device`] has them; an engine with its own fences implements this
/// trait, and tests use [`ManualTimelines`].
///
/// The methods must not call the tracker, which may hold its locks when it calls them.
pub trait Timelines: Send + Sync + 'static {
    /// Returns the number of queues; their indices count up from 0.
    fn queue_count(&self) -> usize;

    /// Returns the value of the last submission to a queue; 0 before the first. It is known at the latest when the
    /// submit call returns. Takes no lock and calls no driver.
    fn submitted(&self, queue: QueueIndex) -> TimelineValue;

    /// Returns the [id](MemoryDevice::id) of the device with these timelines. Only implemented for devices of this
    /// crate's trait: other implementations have no such id.
    #[doc(hidden)]
    fn device_id(&self, _: Sealed) -> Option<u64> {
        None
    }

    /// Returns the value up to which a queue has completed everything. May call the driver.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Lost`] if the device is lost: nothing runs any more. After any other error the progress is unknown,
    /// and nothing more counts as completed.
    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError>;

    /// Waits for a point for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] if the point is not reached in time, [`DeviceError::Lost`] if it will never be
    /// reached.
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
        QueueDevice::submitted(self, queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        QueueDevice::completed(self, queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        QueueDevice::wait(self, point, timeout)
    }
}

/// Timelines that advance when the program says so: for tests, and for engines that count submissions by other
/// means.
///
/// ```
/// use allotment::device::{QueueIndex, TimelineValue};
/// use allotment::lifetime::{ManualTimelines, Timelines};
///
/// let timelines = ManualTimelines::new(1);
/// let queue = QueueIndex(0);
/// assert_eq!(timelines.submit(queue), TimelineValue(1));
/// timelines.complete(queue, TimelineValue(1));
/// assert_eq!(timelines.completed(queue), Ok(TimelineValue(1)));
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
    /// Creates timelines for `queues` queues, at 0. A clone refers to the same timelines.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        let queue = |_| [AtomicU64::new(0), AtomicU64::new(0)];
        let manual = Manual {
            queues: (0..queues.min(TimelinePoints::MAX_QUEUES)).map(queue).collect(),
            lost: AtomicBool::new(false),
        };
        Self { shared: std::sync::Arc::new(manual) }
    }

    fn queue(&self, queue: QueueIndex) -> Option<&[AtomicU64; 2]> {
        self.shared.queues.get(usize::from(queue.0))
    }

    /// Records a submission. Returns its value; 0 if there is no such queue.
    pub fn submit(&self, queue: QueueIndex) -> TimelineValue {
        TimelineValue(self.queue(queue).map_or(0, |[submitted, _]| submitted.fetch_add(1, Release) + 1))
    }

    /// Records that a queue has completed everything up to a value.
    pub fn complete(&self, queue: QueueIndex, value: TimelineValue) {
        if let Some([_, completed]) = self.queue(queue) {
            // Never backwards: a queue completes its submissions in order. Released to the thread that destroys what
            // they used.
            completed.fetch_max(value.0, Release);
        }
    }

    /// Records that a queue has completed everything that was submitted.
    pub fn complete_all(&self, queue: QueueIndex) {
        self.complete(queue, self.submitted(queue));
    }

    /// Marks the device as lost.
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

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        // First: nothing that is pending on a lost device will ever be completed.
        if self.shared.lost.load(Acquire) {
            return Err(DeviceError::Lost);
        }
        Ok(TimelineValue(self.queue(queue).map_or(0, |[_, completed]| completed.load(Acquire))))
    }

    /// Never blocks: fails at once if the point is not reached.
    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        if self.completed(point.queue)? >= point.value {
            return Ok(());
        }
        Err(DeviceError::TimedOut { point, timeout })
    }
}
