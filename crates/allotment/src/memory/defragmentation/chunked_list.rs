//! A list that grows and is dropped in small pieces.
//!
//! ```text
//!   chunks   [ 512 entries ][ 512 entries ][ 17 entries, room for 512 ]
//! ```
//!
//! A vector of 100,000 entries of 64 bytes copies all of them when it grows, and the system frees its pages when it is
//! dropped: up to 4 ms, and 0.6. Here both are done chunk by chunk. A read costs one load more.

use core::ops::Index;

/// Entries of a chunk: 32 KiB for those of a survey, which are allocated or freed in a few microseconds.
const CHUNK: usize = 512;

#[derive(Debug)]
pub(super) struct ChunkedList<T> {
    /// All are full but the last.
    chunks: Vec<Vec<T>>,
}

impl<T> ChunkedList<T> {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn push(&mut self, entry: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(entry),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
    }

    /// Drops a chunk. Returns false once none was left.
    pub(super) fn drop_chunk(&mut self) -> bool {
        self.chunks.pop().is_some()
    }
}

impl<T> Index<usize> for ChunkedList<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_found_and_each_chunk_is_dropped_by_itself() {
        let mut list = ChunkedList::new();
        for at in 0..3 * CHUNK + 1 {
            assert_eq!(list.len(), at);
            list.push(at);
        }
        assert!((0..list.len()).all(|at| list[at] == at));
        let drops = core::iter::repeat_with(|| list.drop_chunk()).take_while(|&dropped| dropped).count();
        assert_eq!((drops, list.len()), (4, 0));
    }
}
