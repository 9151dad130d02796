//! A sequence lock: a few words that are read together without a lock, while one thread may write them.
//!
//! The writer makes the sequence odd, writes, and makes it even again; a reader that saw an odd or a changed sequence reads
//! once more. All words are atomic, so a torn reading is detected and never used.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::checked::{AtomicU32, fence, spin_loop};

/// The sequence of some words. See the [module](self).
///
/// It wraps around, which a reader would miss only if exactly 2^31 writes came between its two loads. The words of a record
/// are written again while their allocation lives by moves alone, each of which takes a microsecond or more: the reader's
/// thread would have to stand still between two loads for half an hour, to the very write. A reader whose allocation
/// has ended finds the record's generation changed, which never wraps.
#[derive(Debug)]
pub(crate) struct Sequence(AtomicU32);

// Not derived: the model checker's atomics are no part of it.
impl Default for Sequence {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Sequence {
    /// Calls `write`, which stores the words, relaxed. The caller ensures that one thread writes at a time.
    #[inline]
    pub(crate) fn write(&self, write: impl FnOnce()) {
        let before = self.0.load(Relaxed);
        // Odd from here on: readers read again.
        self.0.store(before.wrapping_add(1), Relaxed);
        // A reader that sees any of the stores below also sees the odd sequence.
        fence(Release);
        write();
        self.0.store(before.wrapping_add(2), Release);
    }

    /// Calls `read`, which loads the words, relaxed, until no thread wrote meanwhile. Returns what it returned then.
    #[inline]
    pub(crate) fn read<T>(&self, read: impl Fn() -> T) -> T {
        loop {
            // Between two equal, even readings of the sequence there was no writer.
            let before = self.0.load(Acquire);
            let words = read();
            // Orders the loads above before the second load of the sequence.
            fence(Acquire);
            if before & 1 == 0 && self.0.load(Relaxed) == before {
                return words;
            }
            // A writer stores a few words, so waiting takes nanoseconds.
            spin_loop();
        }
    }
}
