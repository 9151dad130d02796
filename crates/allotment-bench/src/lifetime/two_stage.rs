//! The peer: a plain implementation of the article "Managing Resource Lifetimes" and of Diligent Engine's
//! `ResourceReleaseQueue`, from the description. None of its code is used here.
//!
//! ```text
//!   retire ──► stale: [number, box]… ── submit ──► release: [fence value, box]… ── purge ──► dropped
//!                     a mutex                               a mutex, also while dropping
//! ```
//!
//! A released object is stamped with the number of the next command list to be submitted. When that list is
//! submitted, the object moves to the release queue, with the fence value of the submission. Each object is boxed,
//! with its type erased.
//!
//! Differences from ours: it has no recordings. The application promises that the last command that uses an object
//! was submitted before, or belongs to the next submission. So opening a recording costs nothing here, and an
//! object cannot be tied to one.
//!
//! Differences from theirs: there is one queue, so no mask of queues and no shared reference count. Rust's deques
//! and mutexes replace those of C++: these deques keep their capacity, theirs allocate and free chunks now and
//! then.

use core::any::Any;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::deferred::DeferredDestruction;

/// Objects with the number or value that they wait for, oldest first.
type Queue = Mutex<VecDeque<(u64, Box<dyn Any + Send>)>>;

pub(super) struct TwoStage {
    /// The number of the next command list.
    number: AtomicU64,
    /// The fence value of the next submission. Locked during a submission.
    fence: Mutex<u64>,
    /// The value that the fence has reached.
    completed: AtomicU64,
    stale: Queue,
    release: Queue,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TwoStage {
    /// Moves the objects of command lists up to a number to the release queue.
    fn discard_stale(&self, number: u64, fence: u64) {
        let (mut stale, mut release) = (locked(&self.stale), locked(&self.release));
        while stale.front().is_some_and(|(stamp, _)| *stamp <= number) {
            let Some((_, object)) = stale.pop_front() else { break };
            release.push_back((fence, object));
        }
    }
}

impl<T: Send + 'static> DeferredDestruction<T> for TwoStage {
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

    fn retire_after(&self, item: T) {
        self.retire(item);
        self.discard_stale(u64::MAX, *locked(&self.fence) - 1);
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
        DeferredDestruction::<T>::submit(self, ());
    }

    fn complete(&self) {
        self.completed.fetch_max(*locked(&self.fence) - 1, Release);
    }

    fn reclaim(&self) {
        let completed = self.completed.load(Acquire);
        let mut release = locked(&self.release);
        while release.front().is_some_and(|(fence, _)| *fence <= completed) {
            // Dropped under the lock.
            release.pop_front();
        }
    }
}
