//! The library's deferred destruction.

use core::convert::Infallible;
use core::hint::black_box;

use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
use allotment::lifetime::{
    DeletionQueue, ManualTimelines, Recording, RecordingId, ReleaseQueue, SubmissionTracker,
};

use super::deferred::DeferredDestruction;

const QUEUE: QueueIndex = QueueIndex(0);

/// One of its types, with a tracker.
pub(super) struct Ours<W> {
    timelines: ManualTimelines,
    tracker: SubmissionTracker,
    way: W,
}

/// The differences between these types.
pub(super) trait Way<T>: Send + Sync + 'static {
    const NAME: &'static str;

    fn new(tracker: &SubmissionTracker) -> Self;
    fn retire(&self, item: T);
    fn retire_with(&self, recording: RecordingId, item: T);
    fn retire_after(&self, point: TimelinePoint, item: T);
    fn reclaim(&self);
}

impl<T, W: Way<T>> DeferredDestruction<T> for Ours<W> {
    const NAME: &'static str = W::NAME;

    type Recording = Recording;

    fn new() -> Self {
        let timelines = ManualTimelines::new(1);
        let Ok(tracker) = SubmissionTracker::new(timelines.clone()) else {
            unreachable!("one queue is within the limit")
        };
        let way = W::new(&tracker);
        Self { timelines, tracker, way }
    }

    fn record(&self) -> Recording {
        self.tracker.record("a batch")
    }

    #[inline]
    fn retire(&self, item: T) {
        self.way.retire(item);
    }

    #[inline]
    fn retire_with(&self, recording: &Recording, item: T) {
        self.way.retire_with(recording.id(), item);
    }

    #[inline]
    fn retire_after(&self, item: T) {
        let last = self.tracker.submitted().points().next();
        self.way.retire_after(last.unwrap_or(TimelinePoint { queue: QUEUE, value: TimelineValue(0) }), item);
    }

    fn submit(&self, recording: Recording) {
        let submitted = recording.submit(QUEUE, |_| Ok::<_, Infallible>(self.timelines.submit(QUEUE)));
        let _ = black_box(submitted);
    }

    fn submit_other(&self) {
        self.timelines.submit(QUEUE);
    }

    fn complete(&self) {
        self.timelines.complete_all(QUEUE);
    }

    fn reclaim(&self) {
        self.way.reclaim();
    }
}

impl<T: Send + 'static> Way<T> for ReleaseQueue<T> {
    const NAME: &'static str = "allotment ReleaseQueue";

    fn new(tracker: &SubmissionTracker) -> Self {
        Self::new(tracker)
    }

    #[inline]
    fn retire(&self, item: T) {
        self.retire(item);
    }

    #[inline]
    fn retire_with(&self, recording: RecordingId, item: T) {
        self.retire_with(recording, item);
    }

    #[inline]
    fn retire_after(&self, point: TimelinePoint, item: T) {
        self.retire_after(point, item);
    }

    fn reclaim(&self) {
        self.reclaim(drop);
    }
}

impl<T: Send + 'static> Way<T> for DeletionQueue {
    const NAME: &'static str = "allotment DeletionQueue";

    fn new(tracker: &SubmissionTracker) -> Self {
        Self::new(tracker)
    }

    #[inline]
    fn retire(&self, item: T) {
        self.retire(item);
    }

    #[inline]
    fn retire_with(&self, recording: RecordingId, item: T) {
        self.retire_with(recording, item);
    }

    #[inline]
    fn retire_after(&self, point: TimelinePoint, item: T) {
        self.retire_after(point, item);
    }

    fn reclaim(&self) {
        self.reclaim();
    }
}

/// An owner for each object, created and dropped: the only way that includes the cost of the owner.
pub(super) struct Owners(DeletionQueue);

impl<T: Send + 'static> Way<T> for Owners {
    const NAME: &'static str = "allotment Owned";

    fn new(tracker: &SubmissionTracker) -> Self {
        Self(DeletionQueue::new(tracker))
    }

    #[inline]
    fn retire(&self, item: T) {
        drop(black_box(self.0.own(item)));
    }

    #[inline]
    fn retire_with(&self, recording: RecordingId, item: T) {
        // SAFETY: no GPU uses it.
        unsafe { black_box(self.0.own(item)).retire_with(recording) };
    }

    #[inline]
    fn retire_after(&self, point: TimelinePoint, item: T) {
        // An owner has no such way.
        self.0.retire_after(point, item);
    }

    fn reclaim(&self) {
        self.0.reclaim();
    }
}
