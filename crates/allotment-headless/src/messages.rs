//! What a validation layer says.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Bad for speed, or likely a mistake.
    Warning,
    /// Against the rules.
    Error,
}

/// One thing that was said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule it is about: `VUID-…`, `SYNC-HAZARD-…`, `UNASSIGNED-BestPractices-…`; on Direct3D 12 a number.
    pub id: String,
    /// The whole text.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.severity, self.id, self.text)
    }
}

/// What was said of rules and speed so far. What the loader says of itself is not kept.
#[derive(Debug, Default)]
pub struct Messages(Mutex<Vec<Message>>);

impl Messages {
    fn locked(&self) -> MutexGuard<'_, Vec<Message>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All messages, in the order in which they were said.
    #[must_use]
    pub fn all(&self) -> Vec<Message> {
        self.locked().clone()
    }

    /// All messages, which are forgotten.
    #[must_use]
    pub fn take(&self) -> Vec<Message> {
        core::mem::take(&mut *self.locked())
    }

    /// Keeps what was said.
    pub(crate) fn say(&self, message: Message) {
        self.locked().push(message);
    }
}
