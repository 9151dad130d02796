//! The peer: the way of the article "Managing Resource Lifetimes" and of Diligent Engine's
//! `ResourceReleaseQueue`, written down plainly from the description. None of that code is in here.
//!
//! ```text
//!   retire ──► stale: [number, box]… ── submit ──► release: [fence value, box]… ── purge ──► dropped
//!                     a mutex                               a mutex, also while dropping
//! ```
//!
//! What is released is stamped with the number of the command list that is submitted next. When that number
//! is submitted it moves to the release queue, with the value that the queue's fence was given. Each object
//! is put into a box, its type erased.
//!
//! Not equal to ours: it knows of no recordings. The application promises that the last command that uses
//! something was submitted before, or goes with the next submission. So to open a recording costs nothing
//! here, and something cannot be tied to one.
//!
//! Not equal to theirs: there is one queue, so no mask of queues and no count that they share. Rust's deques
//! and mutexes stand for those of C++: these deques keep their room, theirs get and return chunks now and
//! then.

use core::any::Any;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keeper::MaintenanceThread;

/// Things with what they wait for, oldest first.
type Queue = Mutex<VecDeque<(u64, Box<dyn Any + Send>)>>;

pub(super) struct TwoStage {
    /// Of the command list that is submitted next.
    number: AtomicU64,
    /// What the fence is given with the next submission. Unique while something is submitted.
    fence: Mutex<u64>,
    /// What the fence has reached.
    completed: AtomicU64,
    stale: Queue,
    release: Queue,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TwoStage {
    /// Moves what waited for command lists up to a number on to wait for the fence.
    fn discard_stale(&self, number: u64, fence: u64) {
        let (mut stale, mut release) = (locked(&self.stale), locked(&self.release));
        while stale.front().is_some_and(|(stamp, _)| *stamp <= number) {
            let Some((_, object)) = stale.pop_front() else { break };
            release.push_back((fence, object));
        }
    }
}

impl<T: Send + 'static> MaintenanceThread<T> for TwoStage {
    const NAME: &'static str = "two-stage boxed";

    type Recording = ();

    fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            fence: Mutex::new(1),
            completed: AtomicU64::new(0),
            stale: Queue::default(),
            release: Queue::default(),
        }
    }

    fn record(&self) {}

    #[inline]
    fn retire(&self, item: T) {
        let object = Box::new(item);
        let number = self.number.load(Acquire);
        locked(&self.stale).push_back((number, object));
    }

    #[inline]
    fn retire_with(&self, (): &(), item: T) {
        self.retire(item);
    }

    fn submit(&self, (): ()) {
        let mut fence = locked(&self.fence);
        let number = self.number.fetch_add(1, AcqRel);
        let value = *fence;
        *fence += 1;
        drop(fence);
        self.discard_stale(number, value);
    }

    fn submit_other(&self) {
        MaintenanceThread::<T>::submit(self, ());
    }

    fn complete(&self) {
        self.completed.fetch_max(*locked(&self.fence) - 1, Release);
    }

    fn reclaim(&self) {
        let completed = self.completed.load(Acquire);
        let mut release = locked(&self.release);
        while release.front().is_some_and(|(fence, _)| *fence <= completed) {
            // Dropped here, behind the lock.
            release.pop_front();
        }
    }
}
