//! A per-thread cache of single CPU slots.
//!
//! The cache takes the slots of a word, up to 64, from the heap at once. As long as it has a free slot,
//! allocating and freeing one access no memory that other threads write: 7 ns together.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::DescriptorError;
use super::free_slots::WORD;
use crate::device::DescriptorDevice;

/// The number of words whose free slots a cache holds; slots of other words are returned to the heap.
const WORDS: usize = 4;

/// Allocates and frees single slots of a [`CpuDescriptorHeap`], for one thread.
///
/// The slots of the cache count as used in the heap's statistics. Its free slots return to the heap when it is
/// dropped.
///
/// It can be sent to another thread, and is not shared:
///
/// ```compile_fail
/// fn share<T: Sync>() {}
/// share::<allotment::descriptor::CpuDescriptorCache<allotment::device::simulated::SimulatedGpu>>();
/// ```
pub struct CpuDescriptorCache<D: DescriptorDevice> {
    heap: Arc<CpuDescriptorHeap<D>>,
    /// The first slot of each word, and the mask of its free slots in the cache. Invariant: no two have the
    /// same first slot.
    words: [(u32, u64); WORDS],
    /// The word that was used last.
    last: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl<D: DescriptorDevice> CpuDescriptorCache<D> {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(heap: &Arc<CpuDescriptorHeap<D>>) -> Self {
        // No slot has this number, so an empty entry matches no word.
        let words = [(u32::MAX, 0); WORDS];
        heap.count_cache(true);
        Self { heap: Arc::clone(heap), words, last: 0, one_thread: PhantomData }
    }

    /// Returns the heap, which writes and copies the slots of the cache.
    #[must_use]
    pub fn heap(&self) -> &Arc<CpuDescriptorHeap<D>> {
        &self.heap
    }

    /// Allocates a slot.
    ///
    /// # Errors
    ///
    /// The device's error for a new page.
    #[inline]
    #[track_caller]
    pub fn allocate(&mut self) -> Result<CpuDescriptorRange, DescriptorError> {
        // Slots are taken from one word until it is empty, so that what a thread allocates in a row is adjacent.
        if self.words[self.last].1 == 0 {
            self.find_some()?;
        }
        let (first, bits) = &mut self.words[self.last];
        let slot = *first + bits.trailing_zeros();
        *bits &= *bits - 1;
        Ok(self.heap.noted(slot))
    }

    /// Makes the last word one with a free slot. Returns no slot, so that `allocate` constructs its result in
    /// place.
    #[cold]
    fn find_some(&mut self) -> Result<(), DescriptorError> {
        match self.words.iter().position(|(_, bits)| *bits != 0) {
            Some(at) => self.last = at,
            None => {
                let word = self.heap.take_word()?;
                self.last = self.room_for(word.0);
                self.words[self.last].1 |= word.1;
            }
        }
        Ok(())
    }

    /// Frees a slot of this heap, whether or not this cache allocated it.
    ///
    /// # Errors
    ///
    /// Those of [`CpuDescriptorHeap::free`], to which ranges that are not single slots of the heap are passed.
    #[inline]
    pub fn free(&mut self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        let Some(slot) = self.heap.slot_of(&range) else { return self.heap.free(range) };
        self.heap.forget(&range);
        let (word, bit) = (slot / WORD * WORD, slot % WORD);
        // A mask covers one word, so the slot needs the entry of its own.
        if self.words[self.last].0 != word {
            self.last = self.room_for(word);
        }
        let bits = &mut self.words[self.last].1;
        debug_assert_eq!(*bits & 1 << bit, 0, "a range exists once");
        *bits |= 1 << bit;
        Ok(())
    }

    /// Returns the entry of a word; evicts another word if there is none.
    #[cold]
    fn room_for(&mut self, word: u32) -> usize {
        if let Some(at) = self.words.iter().position(|(first, _)| *first == word) {
            return at;
        }
        // An empty entry, else the next in turn: the one used last is the likeliest to be used again.
        let at = self.words.iter().position(|(_, bits)| *bits == 0).unwrap_or((self.last + 1) % WORDS);
        self.let_go(at);
        self.words[at] = (word, 0);
        at
    }

    fn let_go(&mut self, at: usize) {
        let (first, bits) = core::mem::replace(&mut self.words[at], (u32::MAX, 0));
        if bits != 0 {
            self.heap.give_back_word(first, bits);
        }
    }
}

impl<D: DescriptorDevice> Drop for CpuDescriptorCache<D> {
    #[inline(never)]
    fn drop(&mut self) {
        (0..WORDS).for_each(|at| self.let_go(at));
        self.heap.count_cache(false);
    }
}

impl<D: DescriptorDevice> fmt::Debug for CpuDescriptorCache<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free: u32 = self.words.iter().map(|(_, bits)| bits.count_ones()).sum();
        f.debug_struct("CpuDescriptorCache").field("free", &free).finish_non_exhaustive()
    }
}
