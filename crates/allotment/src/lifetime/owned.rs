//! An owner that retires its value when dropped.

use core::ops::Deref;
use std::sync::Arc;

use super::deletion_queue::Home;
use super::registry::RecordingId;
use super::tracker::SubmissionTracker;
use crate::sync::spread::Counted;

/// Owns a value that the GPU uses. Dropping it, on any thread, retires the value; see
/// [`DeletionQueue`](super::DeletionQueue). Put it in an [`Arc`] to share it.
///
/// ```
/// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
/// # let timelines = ManualTimelines::new(2);
/// # let tracker = SubmissionTracker::new(timelines.clone())?;
/// # let deferred = DeletionQueue::new(&tracker);
/// let pipeline: Owned<String> = deferred.own("anything that has a destructor".into());
/// assert_eq!(pipeline.len(), 30, "used like the value");
/// drop(pipeline); // retired
/// assert_eq!(deferred.reclaim().count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Owned<T: Send + 'static> {
    /// `None` only while being dropped or consumed.
    value: Option<T>,
    bytes: u64,
    home: Arc<Counted<Home>>,
}

impl<T: Send + 'static> Owned<T> {
    pub(super) fn new(value: T, bytes: u64, home: Arc<Counted<Home>>) -> Self {
        Self { value: Some(value), bytes, home }
    }

    /// Returns the tracker that decides when the value may be dropped.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        self.home.value().tracker()
    }

    /// Retires the value together with the only recording that uses it: it is dropped when that recording is
    /// discarded, or submitted and completed, whatever other recordings are open.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// let (long, short) = (tracker.record("stays open"), tracker.record("uses the scratch"));
    /// let scratch = deferred.own(vec![0; 1024]);
    /// // SAFETY: only `short` uses it.
    /// unsafe { scratch.retire_with(short.id()) };
    /// drop(short); // discarded
    /// assert_eq!(deferred.reclaim().count, 1, "it does not wait for the other recording");
    /// # drop(long);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// No other recording uses the value, nor does an uploader that was given it as a target.
    pub unsafe fn retire_with(mut self, recording: RecordingId) {
        // SAFETY: as the caller promises.
        unsafe { self.retire_value_with(recording) };
    }

    /// Retires the value as [`retire_with`](Self::retire_with); the owner is dropped next.
    ///
    /// # Safety
    ///
    /// As for `retire_with`.
    pub(crate) unsafe fn retire_value_with(&mut self, recording: RecordingId) {
        if let Some(value) = self.value.take() {
            self.home.value().retire_owned_with(recording, value, self.bytes);
        }
    }

    /// Sets the bytes that statistics count for the value once it is retired.
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Returns an owner of another value, which retires it to the same queue.
    pub(crate) fn own_beside<U: Send + 'static>(&self, value: U) -> Owned<U> {
        Owned::new(value, 0, Arc::clone(&self.home))
    }

    /// Returns the value, unless it was retired or taken.
    pub(crate) fn value(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Returns the value for modification.
    pub(crate) fn value_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("taken only when consumed or dropped"),
        }
    }

    /// Returns the value at once, without retiring it.
    ///
    /// ```
    /// # use allotment::{device::{DeviceError, QueueIndex, TimelinePoint, TimelineValue}, lifetime::*};
    /// # let timelines = ManualTimelines::new(2);
    /// # let tracker = SubmissionTracker::new(timelines.clone())?;
    /// # let deferred = DeletionQueue::new(&tracker);
    /// let staging = deferred.own(vec![0; 1024]);
    /// // SAFETY: no recording has used it.
    /// let bytes = unsafe { staging.into_inner() };
    /// assert_eq!((bytes.len(), deferred.statistics().pending), (1024, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// No recording that is open or in flight uses the value, nor does an uploader that was given it as a target; or
    /// the caller keeps the value alive until these have finished with it.
    #[must_use]
    pub unsafe fn into_inner(mut self) -> T {
        match self.value.take() {
            Some(value) => value,
            None => unreachable!("taken only when consumed or dropped"),
        }
    }
}

impl<T: Send + 'static> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("taken only when consumed or dropped"),
        }
    }
}

impl<T: Send + 'static> Drop for Owned<T> {
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.home.value().retire_owned(value, self.bytes);
        }
    }
}
