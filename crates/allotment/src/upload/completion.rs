//! Tasks that are woken and callbacks that are called when a transfer is over.
//!
//! Both are code of the program: no lock is held meanwhile, and where one of them panics, the others are run all the same. The
//! first panic goes on afterwards.

use core::any::Any;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::task::{Context, Waker};
use std::panic::{catch_unwind, resume_unwind};
use std::thread;

type Callback<T> = Box<dyn FnOnce(T) + Send>;

/// The tasks and the callbacks of a transfer that is not over. A callback gets a `T`.
pub(super) struct Waiters<T> {
    tasks: Vec<Waker>,
    callbacks: Vec<Callback<T>>,
}

// Not derived: the derive would require `T: Default`.
impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), callbacks: Vec::new() }
    }
}

impl<T> Waiters<T> {
    /// Adds the task that polls, once.
    pub(super) fn add_task(&mut self, context: &Context<'_>) {
        if !self.tasks.iter().any(|task| task.will_wake(context.waker())) {
            self.tasks.push(context.waker().clone());
        }
    }

    pub(super) fn add_callback(&mut self, callback: impl FnOnce(T) + Send + 'static) {
        self.callbacks.push(Box::new(callback));
    }

    pub(super) fn has_callbacks(&self) -> bool {
        !self.callbacks.is_empty()
    }

    /// Returns them all, for the caller to run them once it holds no lock.
    pub(super) fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Wakes the tasks, and calls the callbacks in the order in which they came.
    pub(super) fn run(self, mut value: impl FnMut() -> T, panics: &mut Panics) {
        self.tasks.into_iter().for_each(|task| panics.catch(|| task.wake()));
        for callback in self.callbacks {
            let value = value();
            panics.catch(|| callback(value));
        }
    }
}

/// The first panic of code of the program. It goes on when this is dropped, unless the thread panics already.
#[derive(Default)]
pub(super) struct Panics(Option<Box<dyn Any + Send>>);

impl Panics {
    /// Calls `work`, and keeps its panic.
    pub(super) fn catch(&mut self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.0.get_or_insert(panic);
        }
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        // A second panic while the first unwinds would end the process.
        if let Some(panic) = self.0.take().filter(|_| !thread::panicking()) {
            resume_unwind(panic);
        }
    }
}
