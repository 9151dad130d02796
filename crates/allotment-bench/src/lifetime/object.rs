//! What is retired: 16 bytes and a destructor.

use core::cell::Cell;
use core::hint::black_box;

thread_local! {
    /// A thread's own, so that threads do not meet here.
    static DROPPED: Cell<u64> = const { Cell::new(0) };
}

/// As large as a handle and where its memory is. Its destructor counts, and is opaque as one would be that
/// calls a driver: no loop of them turns into one addition.
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

/// How many the calling thread has dropped so far.
pub(super) fn dropped() -> u64 {
    DROPPED.get()
}
