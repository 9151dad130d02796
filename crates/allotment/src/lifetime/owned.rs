//! Owners that retire what they own by being dropped.

use core::ops::Deref;
use std::sync::Arc;

use super::deletion_queue::Home;
use super::registry::RecordingId;
use super::tracker::SubmissionTracker;

/// Owns something that the GPU uses. Dropping it, on whichever thread, retires what it owns; see
/// [`DeletionQueue`](super::DeletionQueue). Put it in an [`Arc`] to share it.
#[derive(Debug)]
pub struct Owned<T: Send + 'static> {
    /// Taken when dropped.
    value: Option<T>,
    bytes: u64,
    home: Arc<Home>,
}

impl<T: Send + 'static> Owned<T> {
    pub(super) fn new(value: T, bytes: u64, home: Arc<Home>) -> Self {
        Self { value: Some(value), bytes, home }
    }

    /// The tracker that says when it may go.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        self.home.tracker()
    }

    /// Retires it with the one recording that uses it: it goes with that submission, whatever else is open.
    ///
    /// # Safety
    ///
    /// No other recording uses it, nor an uploader that was given it as a target.
    pub unsafe fn retire_with(mut self, recording: RecordingId) {
        if let Some(value) = self.value.take() {
            self.home.take_back_with(recording, value, self.bytes);
        }
    }

    /// What it owns, for changing it.
    pub(crate) fn value_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("taken only by who consumes it"),
        }
    }

    /// What it owns, at once: nothing is retired.
    ///
    /// # Safety
    ///
    /// No recording that is open or in flight uses it, nor an uploader that was given it as a target; or whoever has
    /// it from now on sees to it that it stays until they are done.
    #[must_use]
    pub unsafe fn into_inner(mut self) -> T {
        match self.value.take() {
            Some(value) => value,
            None => unreachable!("taken only by who consumes it"),
        }
    }
}

impl<T: Send + 'static> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("taken only by who consumes it"),
        }
    }
}

impl<T: Send + 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.home.take_back(value, self.bytes);
        }
    }
}
