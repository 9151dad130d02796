//! Messages of validation layers.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A performance problem, or a likely mistake.
    Warning,
    /// An invalid use of the API.
    Error,
}

/// A message of a validation layer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// The severity.
    pub severity: Severity,
    /// The rule's identifier: `VUID-…`, `SYNC-HAZARD-…`, `UNASSIGNED-BestPractices-…`; in Direct3D 12 a number.
    pub id: String,
    /// The full text.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.severity, self.id, self.text)
    }
}

/// The validation and performance messages so far. General messages of the loader are not recorded.
#[derive(Debug, Default)]
pub struct Messages(Mutex<Vec<Message>>);

impl Messages {
    fn locked(&self) -> MutexGuard<'_, Vec<Message>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all messages in their order.
    #[must_use]
    pub fn all(&self) -> Vec<Message> {
        self.locked().clone()
    }

    /// Returns all messages and removes them.
    #[must_use]
    pub fn take(&self) -> Vec<Message> {
        core::mem::take(&mut *self.locked())
    }

    /// Records a message.
    pub(crate) fn add(&self, message: Message) {
        self.locked().push(message);
    }
}
