//! A list that grows without moving what it has.
//!
//! ```text
//!   first   [ 512 values ]     rest   [ 512 values ][ 512 val…      32 KiB each
//! ```
//!
//! A vector of 6 MiB that grows is copied, which takes milliseconds: too long under a lock. Here growth allocates one
//! chunk, whatever the length. The pages of a large vector that is dropped go back to the system, up to 0.6 ms at once; here
//! they can go chunk by chunk. An access costs a comparison more than in a vector, and behind the first chunk one load.

use core::ops::{Index, IndexMut};

use crate::sync::prefetch::prefetch_to_write;

/// The bytes of a chunk, at most: a few microseconds to allocate and to write for the first time.
const CHUNK_BYTES: usize = 32 << 10;

/// The size from which a list begins with host memory for one value. A thousand pools may have one allocation each, and a vector
/// begins with four.
const LARGE: usize = 32;

/// Bytes between what is written and what is asked for.
const AHEAD: usize = 512;

/// A list in chunks. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Chunks<T> {
    /// Beside the others, since most lists have no other: a load less.
    first: Vec<T>,
    /// All are full but the last of all chunks that has a value. Behind it may be empty ones, of a list that was longer.
    rest: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Chunks<T> {
    /// Values in a chunk, a power of two.
    const CHUNK: usize = 1 << (CHUNK_BYTES / size_of::<T>()).ilog2();

    pub(crate) const fn new() -> Self {
        Self { first: Vec::new(), rest: Vec::new(), len: 0 }
    }

    /// Creates a list whose first chunk has room for `capacity` values, or for as many as a chunk has.
    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { first: Vec::with_capacity(capacity.min(Self::CHUNK)), ..Self::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, value: T) {
        match self.last_mut() {
            Some(last) => last.push(value),
            None => self.push_first(value),
        }
        self.len += 1;
    }

    /// Adds some values, which need not be in one chunk. For a list that another thread empties: asks for the host memory of
    /// those that will be added later, which the core of that thread had last.
    #[inline]
    pub(crate) fn push_all<const N: usize>(&mut self, values: [T; N]) {
        match self.last_mut() {
            // In one go, which checks the room once.
            Some(last) if last.len() + N <= Self::CHUNK => {
                prefetch_to_write(last.as_ptr().wrapping_add(last.len()).wrapping_byte_add(AHEAD));
                last.extend(values);
                self.len += N;
            }
            _ => self.push_each(values),
        }
    }

    #[cold]
    fn push_each<const N: usize>(&mut self, values: [T; N]) {
        values.into_iter().for_each(|value| self.push(value));
    }

    /// Removes all values. The chunks are kept for the next ones.
    pub(crate) fn clear(&mut self) {
        self.first.clear();
        self.rest.iter_mut().for_each(Vec::clear);
        self.len = 0;
    }

    /// Adds a value in a new chunk.
    #[cold]
    fn push_first(&mut self, value: T) {
        if self.len == 0 {
            // The first chunk grows as a vector does, since most lists are short.
            self.first.reserve_exact(if size_of::<T>() >= LARGE { 1 } else { 4 });
            self.first.push(value);
        } else {
            let mut chunk = Vec::with_capacity(Self::CHUNK);
            chunk.push(value);
            self.rest.push(chunk);
        }
    }

    /// Returns the number of chunks.
    fn chunks(&self) -> usize {
        if self.first.capacity() == 0 { 0 } else { 1 + self.rest.len() }
    }

    #[inline]
    fn chunk(&self, chunk: usize) -> Option<&Vec<T>> {
        if chunk == 0 { Some(&self.first) } else { self.rest.get(chunk - 1) }
    }

    #[inline]
    fn chunk_mut(&mut self, chunk: usize) -> Option<&mut Vec<T>> {
        if chunk == 0 { Some(&mut self.first) } else { self.rest.get_mut(chunk - 1) }
    }

    /// Returns the chunk of the next value; `None` where that is to be made.
    #[inline]
    fn last_mut(&mut self) -> Option<&mut Vec<T>> {
        // Only the first may be without host memory and the one to fill. A later one is, in a clone of a list that was longer.
        match self.len / Self::CHUNK {
            0 => Some(&mut self.first).filter(|first| first.capacity() != 0),
            chunk => self.rest.get_mut(chunk - 1),
        }
    }

    /// Returns the chunks of the values from `len` on, or of most of them, which the list has no longer. All values from
    /// `len` on are removed.
    pub(crate) fn split_off(&mut self, len: usize) -> Vec<Vec<T>> {
        let kept = len.div_ceil(Self::CHUNK);
        let mut removed = self.rest.split_off(kept.saturating_sub(1).min(self.rest.len()));
        if kept == 0 && self.first.capacity() != 0 {
            removed.push(core::mem::take(&mut self.first));
        }
        if len < self.len {
            self.len = len;
            if let (Some(last), false) = (self.chunk_mut(len / Self::CHUNK), len % Self::CHUNK == 0) {
                last.truncate(len % Self::CHUNK);
            }
        }
        self.rest.shrink_to_fit();
        removed
    }

    /// Drops the values of the last chunk. Returns false once no chunk was left.
    pub(crate) fn drop_chunk(&mut self) -> bool {
        let has_any = self.chunks() != 0;
        let last = self.rest.pop().unwrap_or_else(|| core::mem::take(&mut self.first));
        self.len -= last.len();
        has_any
    }

    /// Returns true if [`split_off`](Self::split_off) would return a chunk.
    pub(crate) fn has_chunk_from(&self, len: usize) -> bool {
        len.div_ceil(Self::CHUNK) < self.chunks()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunk(index / Self::CHUNK)?.get(index % Self::CHUNK)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunk_mut(index / Self::CHUNK)?.get_mut(index % Self::CHUNK)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flatten())
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.first.into_iter().chain(self.rest.into_iter().flatten())
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        match self.get(index) {
            Some(value) => value,
            None => out_of_bounds(index, self.len),
        }
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        let len = self.len;
        match self.get_mut(index) {
            Some(value) => value,
            None => out_of_bounds(index, len),
        }
    }
}

#[cold]
fn out_of_bounds(index: usize, len: usize) -> ! {
    panic!("index {index} of a list of {len} values");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_moves_once_the_first_chunk_is_full() {
        let mut list = Chunks::new();
        (0..Chunks::<u64>::CHUNK as u64).for_each(|value| list.push(value));
        let first: *const u64 = &list[0];
        (0..100_000).for_each(|value| list.push(value));
        assert!(core::ptr::eq(first, &list[0]));
        assert_eq!(list.first.capacity(), Chunks::<u64>::CHUNK);
        assert!(list.rest.iter().all(|chunk| chunk.capacity() == Chunks::<u64>::CHUNK));
    }

    #[test]
    fn each_chunk_is_dropped_by_itself_from_the_last_on() {
        let mut list = Chunks::new();
        (0..3 * Chunks::<u64>::CHUNK as u64 + 5).for_each(|value| list.push(value));
        for chunks in [3, 2, 1, 0] {
            assert!(list.drop_chunk());
            assert_eq!(list.len(), chunks * Chunks::<u64>::CHUNK);
            assert!(list.iter().copied().eq(0..list.len() as u64));
        }
        assert!(!list.drop_chunk());
        list.push(3);
        assert_eq!((list.len(), list[0]), (1, 3));
    }

    #[test]
    fn a_list_in_chunks_is_like_a_vector() {
        for capacity in [0, 1, 100, 100_000] {
            let mut list = if capacity == 0 { Chunks::new() } else { Chunks::with_capacity(capacity) };
            let mut vector = Vec::new();
            for value in 0..10_000_u64 {
                assert_eq!((list.len(), list.get(vector.len())), (vector.len(), None));
                list.push(value);
                vector.push(value);
            }
            for index in (0..10_000).step_by(7) {
                (list[index], vector[index]) = (1, 1);
                *list.get_mut(index + 1).unwrap() += 5;
                vector[index + 1] += 5;
            }
            assert!(list.iter().eq(&vector));
            assert!((0..10_000).all(|index| list.get(index) == vector.get(index)));
            for len in [9_999, 8_192, 4_097, 4_096, 1, 0, 0] {
                let chunks = list.chunks();
                assert_eq!(list.has_chunk_from(len), len.div_ceil(Chunks::<u64>::CHUNK) < chunks);
                assert_eq!(list.has_chunk_from(len), !list.split_off(len).is_empty());
                vector.truncate(len);
                assert!(list.len() == len && list.iter().eq(&vector) && list.get(len).is_none());
                list.push(3);
                vector.push(3);
                assert_eq!(list[len], 3);
            }
            assert!(list.into_values().eq(vector));
        }
    }

    #[test]
    fn a_clone_of_a_list_that_was_longer_is_filled_as_the_list_is() {
        let mut list = Chunks::new();
        (0..3 * Chunks::<u64>::CHUNK as u64).for_each(|value| list.push(value));
        list.clear();
        let mut clone = list.clone();
        for value in 0..2 * Chunks::<u64>::CHUNK as u64 + 7 {
            clone.push(value);
            assert_eq!(clone.get(value as usize), Some(&value));
        }
        assert!(clone.iter().copied().eq(0..clone.len() as u64));
        assert_eq!(clone.rest.len(), 2);
    }

    #[test]
    fn values_that_are_added_together_and_after_a_clear_are_those_of_a_vector() {
        for capacity in [0, 1, 100, 100_000] {
            let mut list = if capacity == 0 { Chunks::new() } else { Chunks::with_capacity(capacity) };
            let mut vector = Vec::new();
            for round in 0..4 {
                for value in 0..5_000_u64 {
                    list.push_all([value, 1, 2, 3]);
                    list.push(round);
                    vector.extend([value, 1, 2, 3, round]);
                }
                assert!(list.iter().eq(&vector) && list.len() == vector.len());
                assert!((0..vector.len()).all(|index| list[index] == vector[index]));
                assert!(list.rest.iter().all(|chunk| chunk.len() <= Chunks::<u64>::CHUNK));
                let chunks = list.chunks();
                list.clear();
                vector.clear();
                assert_eq!((list.len(), list.iter().next(), list.chunks()), (0, None, chunks));
            }
        }
    }
}
