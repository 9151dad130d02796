//! Single staging slots of a thread's own: what it gives back it takes again, and nobody else looks.
//!
//! A word of 64 slots is taken from the heap at once. As long as there is a free slot among those that the thread has,
//! taking one and giving one back touch no memory that others write: 7 ns together.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::DescriptorError;
use super::free_slots::WORD;
use crate::device::DescriptorDevice;

/// Words that a cache keeps the free slots of; the rest goes back to the heap.
const WORDS: usize = 4;

/// Takes single slots of a [`CpuDescriptorHeap`] and gives them back, for one thread.
///
/// What it has counts as used in the heap's statistics. What is free of it goes back to the heap when it is dropped.
///
/// It goes from thread to thread, and is not shared:
///
/// ```compile_fail
/// fn share<T: Sync>() {}
/// share::<allotment::descriptor::CpuDescriptorCache<allotment::device::simulated::SimulatedGpu>>();
/// ```
pub struct CpuDescriptorCache<D: DescriptorDevice> {
    heap: Arc<CpuDescriptorHeap<D>>,
    /// The first slot of a word, and which of its slots are free and here. Invariant: no two have the same first.
    words: [(u32, u64); WORDS],
    /// Which of them was used last.
    last: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl<D: DescriptorDevice> CpuDescriptorCache<D> {
    /// A cache with nothing in it.
    #[must_use]
    pub fn new(heap: &Arc<CpuDescriptorHeap<D>>) -> Self {
        // No slot has a number with all bits set.
        let words = [(u32::MAX, 0); WORDS];
        Self { heap: Arc::clone(heap), words, last: 0, one_thread: PhantomData }
    }

    /// The heap, which writes and copies what is taken here.
    #[must_use]
    pub fn heap(&self) -> &Arc<CpuDescriptorHeap<D>> {
        &self.heap
    }

    /// A slot.
    ///
    /// # Errors
    ///
    /// The device refuses a new page.
    #[inline]
    pub fn allocate(&mut self) -> Result<CpuDescriptorRange, DescriptorError> {
        if self.words[self.last].1 == 0 {
            self.find_some()?;
        }
        let (first, bits) = &mut self.words[self.last];
        let slot = *first + bits.trailing_zeros();
        *bits &= *bits - 1;
        Ok(self.heap.single(slot))
    }

    /// Makes the last word one with a free slot. It returns no slot, so that one that is made in place stays there.
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

    /// Gives a slot back, of this cache or another way of the same heap.
    ///
    /// # Errors
    ///
    /// As for [`CpuDescriptorHeap::free`], which takes what is not a single slot of the heap.
    #[inline]
    pub fn free(&mut self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        let Some(slot) = self.heap.slot_of(&range) else { return self.heap.free(range) };
        let (word, bit) = (slot / WORD * WORD, slot % WORD);
        if self.words[self.last].0 != word {
            self.last = self.room_for(word);
        }
        let bits = &mut self.words[self.last].1;
        debug_assert_eq!(*bits & 1 << bit, 0, "a range exists once");
        *bits |= 1 << bit;
        Ok(())
    }

    /// Where a word is kept, with nothing of another in it.
    #[cold]
    fn room_for(&mut self, word: u32) -> usize {
        if let Some(at) = self.words.iter().position(|(first, _)| *first == word) {
            return at;
        }
        // An empty one, else the next in turn.
        let at = self.words.iter().position(|(_, bits)| *bits == 0).unwrap_or((self.last + 1) % WORDS);
        self.let_go(at);
        self.words[at] = (word, 0);
        at
    }

    fn let_go(&mut self, at: usize) {
        let (first, bits) = core::mem::replace(&mut self.words[at], (u32::MAX, 0));
        if bits != 0 {
            self.heap.give_back_some(first, bits);
        }
    }
}

impl<D: DescriptorDevice> Drop for CpuDescriptorCache<D> {
    fn drop(&mut self) {
        (0..WORDS).for_each(|at| self.let_go(at));
    }
}

impl<D: DescriptorDevice> fmt::Debug for CpuDescriptorCache<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free: u32 = self.words.iter().map(|(_, bits)| bits.count_ones()).sum();
        f.debug_struct("CpuDescriptorCache").field("free", &free).finish_non_exhaustive()
    }
}
