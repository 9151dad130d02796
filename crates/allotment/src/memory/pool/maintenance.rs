//! What waits for the maintenance thread of an allocator: the wish for blocks, and memory that is to be freed.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::device::{Device, OwnedMemory};
use crate::memory::pool::pools::Pools;
use crate::sync::locked;

/// Work that waits for the next maintenance.
#[derive(Debug)]
pub(super) struct ToDo<D: Device> {
    due: AtomicBool,
    /// Guards no data, only the sleep of the waiting thread.
    sleep: Mutex<()>,
    notification: Condvar,
    /// Memory that is to be freed to the driver.
    returned: Mutex<Vec<OwnedMemory<D>>>,
}

impl<D: Device> Default for ToDo<D> {
    fn default() -> Self {
        Self {
            due: AtomicBool::new(false),
            sleep: Mutex::default(),
            notification: Condvar::new(),
            returned: Mutex::default(),
        }
    }
}

impl<D: Device> Pools<D> {
    /// Requests maintenance. One load when it was requested already.
    pub(crate) fn request_maintenance(&self) {
        self.to_do.ring();
    }

    /// Queues memory to be freed to the driver by the next maintenance, which is requested.
    pub(crate) fn leave_to_maintenance(&self, memory: OwnedMemory<D>) {
        // Before the request, so that the maintenance that answers it finds the memory.
        locked(&self.to_do.returned).push(memory);
        self.to_do.ring();
    }

    /// Notes that maintenance begins. What is requested from here on is for the next one.
    pub(crate) fn begin_maintenance(&self) {
        self.to_do.due.store(false, Relaxed);
    }

    /// Waits until maintenance is requested, for at most `timeout`. Returns true when it is.
    pub(crate) fn wait_for_maintenance(&self, timeout: Duration) -> bool {
        self.to_do.wait(timeout)
    }

    /// Returns the bytes of memory that waits to be freed.
    pub(crate) fn bytes_left_to_maintenance(&self) -> u64 {
        locked(&self.to_do.returned).iter().map(OwnedMemory::size).sum()
    }

    /// Takes the memory that waits to be freed. So no lock is held during the driver calls, and each object is freed by one
    /// thread.
    pub(crate) fn take_left_to_maintenance(&self) -> Vec<OwnedMemory<D>> {
        core::mem::take(&mut *locked(&self.to_do.returned))
    }
}

impl<D: Device> ToDo<D> {
    fn ring(&self) {
        // Relaxed, since the flag passes no data: the work itself is found under other locks.
        if !self.due.load(Relaxed) && !self.due.swap(true, Relaxed) {
            // Locked so that a waiting thread cannot miss the notification between its check and its sleep.
            drop(locked(&self.sleep));
            self.notification.notify_all();
        }
    }

    fn wait(&self, timeout: Duration) -> bool {
        let sleep = locked(&self.sleep);
        let quiet = |(): &mut ()| !self.due.load(Relaxed);
        let waited = self.notification.wait_timeout_while(sleep, timeout, quiet);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.due.load(Relaxed)
    }
}
