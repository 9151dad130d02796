//! A table that only grows: an entry never moves, and is read without a lock.
//!
//! ```text
//!   chunks   [ 32 entries ][ 64 entries ][ 128 entries ] …   allocated on first use, never freed
//! ```
//!
//! Entries have interior mutability; the table only finds them. A read costs two loads more than in an array.

use core::fmt;
use std::sync::OnceLock;

/// Entries of the first chunk; each further chunk is twice as large.
const FIRST: u32 = 32;

/// Enough for all 32-bit indices: 32 · (2^27 − 1) entries.
const CHUNKS: usize = 27;

pub(crate) struct AppendTable<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

/// Returns the chunk of an index, and the position in it.
fn locate(index: u32) -> (usize, usize) {
    // Adding `FIRST` makes chunk boundaries powers of two, so that the highest bit names the chunk.
    let shifted = u64::from(index) + u64::from(FIRST);
    let chunk = shifted.ilog2() - FIRST.ilog2();
    (chunk as usize, (shifted - (u64::from(FIRST) << chunk)) as usize)
}

/// Returns the number of entries in a chunk.
const fn size_of_chunk(chunk: usize) -> usize {
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

    /// Returns the entry at `index`, creating its chunk if needed, as [`get_or_make`](Self::get_or_make) does, for a
    /// table that grows by one entry after the other: each call makes a few entries of the chunk after that, so that no
    /// call makes many. `ahead` keeps them, and is of this table alone.
    pub(crate) fn get_or_append(&self, index: u32, ahead: &mut Ahead<T>) -> Option<&T> {
        let (chunk, at) = locate(index);
        let made = self.chunks.get(chunk)?.get_or_init(|| ahead.finish(chunk)).get(at);
        let next = chunk + 1;
        // Begun where half of this chunk is used, so that little is made which is never needed.
        let half = size_of_chunk(chunk) / 2;
        if at >= half && self.chunks.get(next).is_some_and(|next| next.get().is_none()) {
            ahead.go_on(next, AT_ONCE * (at - half + 1));
        }
        made
    }

    /// Returns the entry at `index`, creating its chunk if needed. `None` beyond the last chunk.
    pub(crate) fn get_or_make(&self, index: u32) -> Option<&T> {
        let (chunk, at) = locate(index);
        self.chunks.get(chunk)?.get_or_init(|| Ahead::new().finish(chunk)).get(at)
    }
}

/// Entries of a chunk that does not exist yet.
#[derive(Debug)]
pub(crate) struct Ahead<T> {
    chunk: usize,
    entries: Vec<T>,
}

/// Entries made for each one that is used in the second half of a chunk: the next chunk has four times as many.
const AT_ONCE: usize = 4;

impl<T: Default> Ahead<T> {
    pub(crate) const fn new() -> Self {
        Self { chunk: 0, entries: Vec::new() }
    }

    /// Makes entries of a chunk until there are `count`, though never many at once.
    fn go_on(&mut self, chunk: usize, count: usize) {
        let size = size_of_chunk(chunk);
        if self.chunk != chunk || self.entries.capacity() < size {
            *self = Self { chunk, entries: Vec::with_capacity(size) };
        }
        // Twice as many, to catch up where a call left some out.
        let more = count.min(size).saturating_sub(self.entries.len()).min(2 * AT_ONCE);
        self.entries.extend((0..more).map(|_| T::default()));
    }

    /// Returns all entries of a chunk.
    fn finish(&mut self, chunk: usize) -> Box<[T]> {
        let mut entries = core::mem::take(&mut self.entries);
        if self.chunk != chunk {
            entries = Vec::new();
        }
        entries.resize_with(size_of_chunk(chunk), T::default);
        entries.into_boxed_slice()
    }
}

impl<T> fmt::Debug for AppendTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendTable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
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

    #[test]
    fn a_table_that_grows_by_one_entry_after_the_other_makes_few_at_once() {
        thread_local!(static MADE: Cell<u32> = const { Cell::new(0) });
        struct Counted(AtomicU32);
        impl Default for Counted {
            fn default() -> Self {
                MADE.set(MADE.get() + 1);
                Self(AtomicU32::new(0))
            }
        }
        let (table, mut ahead) = (AppendTable::<Counted>::new(), Ahead::new());
        for index in 0..100_000 {
            MADE.set(0);
            table.get_or_append(index, &mut ahead).unwrap().0.store(index, Ordering::Relaxed);
            let first = if index == 0 { FIRST } else { 0 };
            assert!(MADE.get() <= first + 2 * AT_ONCE as u32, "{} at {index}", MADE.get());
        }
        assert!((0..100_000).all(|index| table.get(index).unwrap().0.load(Ordering::Relaxed) == index));
        // Another owner of the table, which begins again; and one that leaves entries out.
        let mut ahead = Ahead::new();
        assert_eq!(table.get_or_append(70_000, &mut ahead).unwrap().0.load(Ordering::Relaxed), 70_000);
        assert_eq!(table.get_or_append(1_000_000, &mut ahead).unwrap().0.load(Ordering::Relaxed), 0);
        assert!(table.get_or_append(u32::MAX, &mut ahead).is_none(), "beyond the last chunk");
    }
}
