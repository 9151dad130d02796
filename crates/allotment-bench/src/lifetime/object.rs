//! The retired objects: 16 bytes and a destructor.

use core::cell::Cell;
use core::hint::black_box;

thread_local! {
    /// Thread-local, so that threads do not contend.
    static DROPPED: Cell<u64> = const { Cell::new(0) };
}

/// As large as a handle with its memory. Its destructor counts, and is opaque like one that calls a driver: a
/// compiler cannot turn a loop of them into one addition.
pub(super) struct Object {
    handle: u64,
    _memory: u64,
}

impl Object {
    #[inline]
    pub(super) fn new(handle: u64) -> Self {
        Self { handle, _memory: handle }
    }
}

impl Drop for Object {
    #[inline]
    fn drop(&mut self) {
        black_box(self.handle);
        DROPPED.set(DROPPED.get() + 1);
    }
}

/// Returns how many objects the calling thread has dropped.
pub(super) fn dropped() -> u64 {
    DROPPED.get()
}
