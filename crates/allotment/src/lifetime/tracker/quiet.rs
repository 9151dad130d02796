//! Moments at which nothing is recorded that may write to what a defragmenter moves.
//!
//! ```text
//!   quiet moment      no such recording is open: all writes to the old places are submitted
//!   copies            submitted after them
//!   still quiet       none was opened since; none is opened until the new handles are in place
//! ```
//!
//! A recording that is opened in between has the old handles: its write would go to the old place, after the copy. Then
//! the copies are for nothing, and the resources stay.

use std::sync::{PoisonError, RwLockWriteGuard};

use super::SubmissionTracker;
use crate::lifetime::RecordingId;
use crate::sync::checked::locked;

/// How many recordings there were that may write to relocatable resources, at a moment when none was open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietMoment(u64);

/// No recording is opened while this lives.
pub(crate) struct Quiet<'a> {
    _opening: RwLockWriteGuard<'a, ()>,
}

impl SubmissionTracker {
    /// Returns this moment; `None` while a recording is open that may write to relocatable resources.
    pub(crate) fn quiet_moment(&self) -> Option<QuietMoment> {
        let registry = locked(&self.shared.registry);
        (registry.open_writing == 0).then_some(QuietMoment(registry.ever_writing))
    }

    /// Keeps recordings from being opened; `None` where one was opened since the moment that may write to relocatable
    /// resources.
    pub(crate) fn still_quiet(&self, QuietMoment(then): QuietMoment) -> Option<Quiet<'_>> {
        let opening = self.shared.opening.write().unwrap_or_else(PoisonError::into_inner);
        let now = locked(&self.shared.registry).ever_writing;
        (now == then).then_some(Quiet { _opening: opening })
    }

    pub(in crate::lifetime) fn note_only_reads(&self, id: RecordingId) {
        locked(&self.shared.registry).only_reads(id);
    }
}
