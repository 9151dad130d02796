//! What keeps things until the GPU is done with them.

use core::hint::black_box;

/// A contender, with a device of one queue that is done when it is told so. Shared by the threads that use it.
pub(super) trait MaintenanceThread<T>: Send + Sync + 'static {
    /// What tables call it.
    const NAME: &'static str;

    type Recording;

    fn new() -> Self;

    /// Opens a recording.
    fn record(&self) -> Self::Recording;

    /// Keeps something that whatever is recorded now may use.
    fn retire(&self, item: T);

    /// Keeps something that one recording uses, and nobody else.
    fn retire_with(&self, recording: &Self::Recording, item: T);

    fn submit(&self, recording: Self::Recording);

    /// Submits something that was not recorded here.
    fn submit_other(&self);

    /// The queue is done with all that was submitted.
    fn complete(&self);

    /// Drops what the queue is done with.
    fn reclaim(&self);
}

/// Drops at once: what the harness and the destructor cost, which all the others pay too.
pub(super) struct AtOnce;

impl<T: 'static> MaintenanceThread<T> for AtOnce {
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

    fn submit(&self, (): ()) {}

    fn submit_other(&self) {}

    fn complete(&self) {}

    fn reclaim(&self) {}
}
