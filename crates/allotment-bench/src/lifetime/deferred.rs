//! The interface of deferred destruction.

use core::hint::black_box;

/// A contender, with a device of one queue that completes on request. Shared by the threads that use it.
pub(super) trait DeferredDestruction<T>: Send + Sync + 'static {
    /// Its name in tables.
    const NAME: &'static str;

    type Recording;

    fn new() -> Self;

    /// Opens a recording.
    fn record(&self) -> Self::Recording;

    /// Keeps an item that any open recording may use.
    fn retire(&self, item: T);

    /// Keeps an item that only this recording uses.
    fn retire_with(&self, recording: &Self::Recording, item: T);

    /// Keeps an item that only the last submission uses.
    fn retire_after(&self, item: T);

    fn submit(&self, recording: Self::Recording);

    /// Submits other work.
    fn submit_other(&self);

    /// Completes everything that was submitted.
    fn complete(&self);

    /// Drops the items that the queue has finished with.
    fn reclaim(&self);
}

/// Drops at once: the cost of the harness and the destructor, which every contender pays.
pub(super) struct AtOnce;

impl<T: 'static> DeferredDestruction<T> for AtOnce {
    const NAME: &'static str = "dropped at once";

    type Recording = ();

    fn new() -> Self {
        Self
    }

    fn record(&self) {}

    fn retire(&self, item: T) {
        drop(black_box(item));
    }

    fn retire_with(&self, (): &(), item: T) {
        drop(black_box(item));
    }

    fn retire_after(&self, item: T) {
        drop(black_box(item));
    }

    fn submit(&self, (): ()) {}

    fn submit_other(&self) {}

    fn complete(&self) {}

    fn reclaim(&self) {}
}
