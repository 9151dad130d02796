//! A table that only grows: an entry never moves, and is read without a lock.
//!
//! ```text
//!   chunks   [ 32 entries ][ 64 entries ][ 128 entries ] …   allocated on first use, never freed
//! ```
//!
//! Entries have interior mutability; the table only finds them. A read costs two loads more than in an array.
//! `ShrinkableTable` frees its end, which takes unsafe code.

use core::fmt;
use std::sync::OnceLock;

/// Entries of the first chunk; each further chunk is twice as large.
const FIRST: u32 = 32;

/// Enough for all 32-bit indices: 32 · (2^27 − 1) entries.
pub(crate) const CHUNKS: usize = 27;

pub(crate) struct AppendTable<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

/// Returns the chunk of an index, and the position in it.
#[inline]
pub(crate) fn locate(index: u32) -> (usize, usize) {
    // Adding `FIRST` makes chunk boundaries powers of two, so that the highest bit names the chunk.
    let shifted = u64::from(index) + u64::from(FIRST);
    let chunk = shifted.ilog2() - FIRST.ilog2();
    (chunk as usize, (shifted - (u64::from(FIRST) << chunk)) as usize)
}

/// Returns the number of entries in a chunk.
pub(crate) const fn size_of_chunk(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

impl<T: Default> AppendTable<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// Returns the entry at `index`, or `None` if no entry of its chunk was ever created.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, at) = locate(index);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// Returns the entry at `index`, creating its chunk if needed. `None` beyond the last chunk.
    pub(crate) fn get_or_make(&self, index: u32) -> Option<&T> {
        let (chunk, at) = locate(index);
        self.chunks.get(chunk)?.get_or_init(|| new_chunk(chunk)).get(at)
    }
}

fn new_chunk<T: Default>(chunk: usize) -> Box<[T]> {
    (0..size_of_chunk(chunk)).map(|_| T::default()).collect()
}

impl<T> fmt::Debug for AppendTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendTable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn every_index_has_an_entry_of_its_own_that_never_moves() {
        let table = AppendTable::<AtomicU32>::new();
        assert!(table.get(0).is_none());
        let first: *const AtomicU32 = table.get_or_make(0).unwrap();
        for index in 0..5000 {
            table.get_or_make(index).unwrap().store(index, Ordering::Relaxed);
        }
        for index in 0..5000 {
            assert_eq!(table.get(index).unwrap().load(Ordering::Relaxed), index);
        }
        assert!(core::ptr::eq(first, table.get(0).unwrap()));
        assert!(table.get_or_make(u32::MAX).is_none(), "beyond the last chunk");
    }
}
