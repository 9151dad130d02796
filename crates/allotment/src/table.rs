//! A table whose entries never move and are read without a lock, and whose unused end can be freed.
//!
//! ```text
//!   chunks   [ 4 entries ][ 8 entries ][ 16 entries ][ none ] …   made on first use
//!                                        ◄──────────── freed by `free_from`, once nothing there is in use
//! ```
//!
//! Entries have interior mutability; the table only finds them. A read costs one load more than in an array, and another one behind
//! the first 16,380 entries.
//!
//! # Invariants
//!
//! A pointer of `near` and `far` is null, or is that of a boxed slice of [`size_of_chunk`] entries that the table owns. It becomes
//! null in [`free_from`](StableTable::free_from) only, whose caller knows that no thread uses the entries.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use crate::sync::checked::AtomicPtr;

/// Entries of the first chunk; each further chunk is twice as large. Few, since a thousand pools may have one allocation each.
const FIRST: u32 = 4;

/// Enough for all 32-bit indices: 4 · (2^30 − 1) entries.
const CHUNKS: usize = 30;

/// Chunks that the table itself has the places of: 16,380 entries, found without a further load. Most tables never have more.
const NEAR: usize = 12;

/// A table of entries that never move. See the [module](self).
pub(crate) struct StableTable<T> {
    /// The first entry of each chunk, up to [`NEAR`].
    near: [AtomicPtr<T>; NEAR],
    /// Those of the others. Made with the first of them: a thousand pools have a table each, and few entries.
    far: OnceLock<Box<[AtomicPtr<T>; CHUNKS - NEAR]>>,
    /// The table owns its entries: threads may share it if they may share these, and drop what another has made.
    owned: PhantomData<OnceLock<Box<[T]>>>,
}

/// Returns the chunk of an index, and the position in it.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    // Adding `FIRST` makes chunk boundaries powers of two, so that the highest bit names the chunk.
    let shifted = u64::from(index) + u64::from(FIRST);
    let chunk = shifted.ilog2() - FIRST.ilog2();
    (chunk as usize, (shifted - (u64::from(FIRST) << chunk)) as usize)
}

/// Returns places without a chunk.
fn no_chunks<T, const N: usize>() -> [AtomicPtr<T>; N] {
    core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()))
}

/// Returns the number of entries in a chunk.
const fn size_of_chunk(chunk: usize) -> usize {
    (FIRST as usize) << chunk
}

impl<T> StableTable<T> {
    pub(crate) fn new() -> Self {
        Self { near: no_chunks(), far: OnceLock::new(), owned: PhantomData }
    }

    /// Returns where the pointer of a chunk is, if there is a place for it.
    #[inline]
    fn place(&self, chunk: usize) -> Option<&AtomicPtr<T>> {
        match self.near.get(chunk) {
            Some(near) => Some(near),
            None => self.far.get()?.get(chunk - NEAR),
        }
    }

    /// Returns the same, making the place if needed. `None` beyond the last chunk.
    #[inline]
    fn place_or_make(&self, chunk: usize) -> Option<&AtomicPtr<T>> {
        match self.near.get(chunk) {
            Some(near) => Some(near),
            None => self.far.get_or_init(|| Box::new(no_chunks())).get(chunk - NEAR),
        }
    }

    /// Returns the entry at `index`, or `None` if its chunk does not exist.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, at) = locate(index);
        self.entries(chunk)?.get(at)
    }

    /// Returns true if a table can have an entry at `index`.
    pub(crate) fn may_have(index: u32) -> bool {
        locate(index).0 < CHUNKS
    }

    #[inline]
    fn entries(&self, chunk: usize) -> Option<&[T]> {
        // Acquire: whoever finds the pointer finds the entries as they were made.
        let first = NonNull::new(self.place(chunk)?.load(Ordering::Acquire))?;
        // SAFETY: a chunk has so many entries, and lives until `free_from`, whose caller promised that no thread has a
        // reference then.
        Some(unsafe { slice::from_raw_parts(first.as_ptr(), size_of_chunk(chunk)) })
    }

    /// Returns the entry at `index`, creating its chunk if needed. `None` beyond the last chunk.
    #[inline]
    pub(crate) fn get_or_make(&self, index: u32) -> Option<&T>
    where
        T: Default,
    {
        let (chunk, at) = locate(index);
        let place = self.place_or_make(chunk)?;
        if place.load(Ordering::Relaxed).is_null() {
            Self::add_default(place, chunk);
        }
        self.entries(chunk)?.get(at)
    }

    /// Returns the entry at `index`, creating its chunk of what `make` returns if needed, for a table that grows by one entry
    /// after the other. Each call makes a few entries of the chunk after that, so that no call makes many. `ahead` keeps them,
    /// and is of this table alone. `None` beyond the last chunk.
    pub(crate) fn get_or_append(&self, index: u32, ahead: &mut Ahead<T>, make: impl Fn() -> T) -> Option<&T> {
        let (chunk, at) = locate(index);
        let place = self.place_or_make(chunk)?;
        if place.load(Ordering::Relaxed).is_null() {
            Self::add(place, chunk, ahead.finish(chunk, &make));
        }
        let next = chunk + 1;
        // Begun where half of this chunk is used, so that little is made which is never needed.
        let half = size_of_chunk(chunk) / 2;
        let is_missing = |next: usize| {
            next < CHUNKS && self.place(next).is_none_or(|next| next.load(Ordering::Relaxed).is_null())
        };
        if at >= half && is_missing(next) {
            ahead.go_on(next, AT_ONCE * (at - half + 1), &make);
        }
        self.entries(chunk)?.get(at)
    }

    #[cold]
    fn add_default(place: &AtomicPtr<T>, chunk: usize)
    where
        T: Default,
    {
        Self::add(place, chunk, (0..size_of_chunk(chunk)).map(|_| T::default()).collect());
    }

    /// Adds a chunk, unless another thread has.
    #[cold]
    fn add(place: &AtomicPtr<T>, chunk: usize, entries: Box<[T]>) {
        debug_assert_eq!(entries.len(), size_of_chunk(chunk), "the length is not stored");
        let entries = Box::into_raw(entries);
        // Release: see `entries`.
        let added =
            place.compare_exchange(ptr::null_mut(), entries.cast(), Ordering::Release, Ordering::Relaxed);
        if added.is_err() {
            // SAFETY: this thread has just made it, and the table has another chunk.
            drop(unsafe { Box::from_raw(entries) });
        }
    }

    /// Takes out the chunks at the end whose entries are all at `from` or above. Chunks for which `may_go` returns false
    /// stay.
    ///
    /// # Safety
    ///
    /// During the call no thread has a reference to an entry at `from` or above, or calls a function of the table for one;
    /// and what other threads did with these entries happened before the call.
    pub(crate) unsafe fn free_from(&self, from: u32, mut may_go: impl FnMut(&[T]) -> bool) -> Vec<Box<[T]>> {
        let (chunk, at) = locate(from);
        let first = if at == 0 { chunk } else { chunk + 1 };
        let mut freed = Vec::new();
        for chunk in first..CHUNKS {
            let Some(place) = self.place(chunk).filter(|_| self.entries(chunk).is_some_and(&mut may_go))
            else {
                continue;
            };
            let entries = place.swap(ptr::null_mut(), Ordering::Relaxed);
            let entries = ptr::slice_from_raw_parts_mut(entries, size_of_chunk(chunk));
            // SAFETY: a boxed slice of this length came in, no thread has a reference to it, as the caller promised, and
            // the table has forgotten it.
            freed.push(unsafe { Box::from_raw(entries) });
        }
        freed
    }
}

impl<T> Drop for StableTable<T> {
    fn drop(&mut self) {
        // SAFETY: no thread has a reference to the table, nor to what it owns.
        drop(unsafe { self.free_from(0, |_| true) });
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

impl<T> Ahead<T> {
    pub(crate) const fn new() -> Self {
        Self { chunk: 0, entries: Vec::new() }
    }

    /// Makes entries of a chunk until there are `count`, though never many at once.
    fn go_on(&mut self, chunk: usize, count: usize, make: impl Fn() -> T) {
        let size = size_of_chunk(chunk);
        if self.chunk != chunk || self.entries.capacity() < size {
            *self = Self { chunk, entries: Vec::with_capacity(size) };
        }
        // Twice as many, to catch up where a call left some out.
        let more = count.min(size).saturating_sub(self.entries.len()).min(2 * AT_ONCE);
        self.entries.extend((0..more).map(|_| make()));
    }

    /// Returns all entries of a chunk.
    fn finish(&mut self, chunk: usize, make: impl Fn() -> T) -> Box<[T]> {
        let mut entries = core::mem::take(&mut self.entries);
        if self.chunk != chunk {
            entries = Vec::new();
        }
        entries.resize_with(size_of_chunk(chunk), make);
        entries.into_boxed_slice()
    }
}

impl<T> fmt::Debug for StableTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StableTable").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    type Counters = StableTable<AtomicU32>;

    fn append(table: &Counters, index: u32, ahead: &mut Ahead<AtomicU32>) {
        table.get_or_append(index, ahead, Default::default).unwrap().store(index, Relaxed);
    }

    fn free_from(table: &Counters, from: u32, may_go: impl Fn(&[AtomicU32]) -> bool) -> usize {
        // SAFETY: one thread, which has no reference.
        unsafe { table.free_from(from, may_go) }.iter().map(|entries| entries.len()).sum()
    }

    #[test]
    fn every_index_has_an_entry_of_its_own_that_never_moves() {
        let (table, mut ahead) = (Counters::new(), Ahead::new());
        assert!(table.get(0).is_none());
        append(&table, 0, &mut ahead);
        let first: *const AtomicU32 = table.get(0).unwrap();
        (0..5000).for_each(|index| append(&table, index, &mut ahead));
        for index in 0..5000 {
            assert_eq!(table.get(index).unwrap().load(Relaxed), index);
        }
        assert!(ptr::eq(first, table.get(0).unwrap()));
        assert!(
            table.get_or_append(u32::MAX, &mut ahead, Default::default).is_none(),
            "beyond the last chunk"
        );
    }

    #[test]
    fn threads_that_make_a_chunk_at_the_same_time_get_the_same_entries() {
        for _ in 0..100 {
            let table = Counters::new();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for index in (0..500).step_by(50) {
                            table.get_or_make(index).unwrap().fetch_add(1, Relaxed);
                        }
                    });
                }
            });
            assert!((0..500).step_by(50).all(|index| table.get(index).unwrap().load(Relaxed) == 2));
        }
        assert!(Counters::new().get_or_make(u32::MAX).is_none(), "beyond the last chunk");
    }

    #[test]
    fn chunks_behind_those_that_the_table_has_places_for_are_found_freed_and_made_anew() {
        let first_far = (size_of_chunk(NEAR) - size_of_chunk(0)) as u32;
        let table = Counters::new();
        assert!(table.get(first_far).is_none());
        for index in [first_far - 1, first_far, first_far + 5, 2 * first_far + 7] {
            table.get_or_make(index).unwrap().store(index, Relaxed);
            assert_eq!(table.get(index).unwrap().load(Relaxed), index);
        }
        assert!(table.get(0).is_none(), "each chunk by itself");
        assert_eq!(free_from(&table, first_far, |_| true), size_of_chunk(NEAR) + size_of_chunk(NEAR + 1));
        assert!(table.get(first_far).is_none());
        assert_eq!(table.get(first_far - 1).unwrap().load(Relaxed), first_far - 1);
        assert_eq!(table.get_or_make(first_far).unwrap().load(Relaxed), 0);
    }

    #[test]
    fn the_end_of_a_table_is_freed_and_made_anew() {
        let (table, mut ahead) = (Counters::new(), Ahead::new());
        (0..1000).for_each(|index| append(&table, index, &mut ahead));
        // Chunks begin at 0, 4, 12, 28, 60, 124, 252 and 508.
        assert_eq!(free_from(&table, 125, |entries| entries.len() != 256), 512, "the last one");
        assert!(table.get(252).is_some() && table.get(508).is_none());
        assert_eq!(free_from(&table, 124, |_| true), 128 + 256);
        assert_eq!(table.get(123).unwrap().load(Relaxed), 123);
        assert!(table.get(124).is_none());
        let make = || AtomicU32::new(7);
        assert_eq!(table.get_or_append(300, &mut Ahead::new(), make).unwrap().load(Relaxed), 7);
        assert_eq!(free_from(&table, 0, |_| true), 124 + 256);
        assert_eq!(free_from(&table, 0, |_| true), 0);
    }

    #[test]
    fn a_table_that_grows_by_one_entry_after_the_other_makes_few_at_once() {
        thread_local!(static MADE: Cell<u32> = const { Cell::new(0) });
        let make = || {
            MADE.set(MADE.get() + 1);
            AtomicU32::new(0)
        };
        let (table, mut ahead) = (Counters::new(), Ahead::new());
        for index in 0..100_000 {
            MADE.set(0);
            table.get_or_append(index, &mut ahead, make).unwrap().store(index, Relaxed);
            let first = if index == 0 { size_of_chunk(0) as u32 } else { 0 };
            assert!(MADE.get() <= first + 2 * AT_ONCE as u32, "{} at {index}", MADE.get());
        }
        assert!((0..100_000).all(|index| table.get(index).unwrap().load(Relaxed) == index));
        // Another owner of the table, which begins again; and one that leaves entries out.
        let mut ahead = Ahead::new();
        assert_eq!(table.get_or_append(70_000, &mut ahead, make).unwrap().load(Relaxed), 70_000);
        assert_eq!(table.get_or_append(1_000_000, &mut ahead, make).unwrap().load(Relaxed), 0);
    }
}
