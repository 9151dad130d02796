//! The free slots of a heap: a bit per slot, lock-free. Any thread takes or returns a slot by one atomic
//! operation each.
//!
//! ```text
//!   groups   ▓▓░▓░░░░                                       a bit for each of 64 words that may have a free slot
//!   words    ▓▓▓▓▓▓▓▓  ▓▓░▓▓▓▓▓  ░░░░░░░░  ────────         64 slots each; a set bit is a free slot
//!   first    ▲                                              no group before it named a word when it was looked at
//! ```
//!
//! A slot is taken from the first word named by the first group, so the used slots stay together at the front.
//! A word is never removed; to give a page back, its owner takes out whole words by taking all of their slots.
//!
//! Groups are hints. A thread that returns the first free slot of a word sets the word's bit in its group; a
//! thread that finds none there clears it. Before a search reports that no slot is free, it reads all words.
//!
//! Slots are taken and returned in one order that all threads agree on ([`SeqCst`], which costs x86 nothing here): a
//! thread that changes a word and then finds no reader of events knows that the reader, when it comes, finds the change.
//!
//! # Cost
//!
//! Taking a slot is a compare-and-exchange if the word has one, returning it an atomic OR: some 5 ns each
//! without contention. The first slot returned to an empty word, and the first search that finds the word empty
//! again, cost one more atomic operation each; a search reads one word per 4,096 slots that are taken.

use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::sync::checked::AtomicU64;
use crate::table::StableTable;

/// Slots per word.
pub(super) const WORD: u32 = u64::BITS;

#[derive(Default)]
struct Word(AtomicU64);

/// The free slots, by index.
pub(super) struct FreeSlots {
    words: StableTable<Word>,
    /// The words that have a free slot, 64 per group. The bit of a word that has one is set, except between the
    /// moment its first slot is returned and the update of the group, and while two threads change both.
    groups: StableTable<Word>,
    /// The number of words. Only grows.
    count: AtomicU32,
    /// The group to look at first. No earlier group names a word, except for slots that are being returned now.
    first: AtomicU32,
}

impl FreeSlots {
    pub(super) fn new() -> Self {
        Self {
            words: StableTable::new(),
            groups: StableTable::new(),
            count: AtomicU32::new(0),
            first: AtomicU32::new(0),
        }
    }

    /// Adds the slots of a range as free ones: new slots, or slots that were [taken out](Self::take_out).
    /// Called by one thread at a time.
    pub(super) fn add(&self, slots: Range<u32>) {
        let words = slots.start / WORD..slots.end.div_ceil(WORD);
        for at in words.clone() {
            let (from, to) = (slots.start.max(at * WORD) - at * WORD, (slots.end - at * WORD).min(WORD));
            if let Some(Word(word)) = self.words.get_or_make(at) {
                // `from` and `to` lie in the word and differ, so neither shift overflows.
                word.fetch_or(u64::MAX >> (WORD - (to - from)) << from, Release);
                self.announce(at);
            }
        }
        // `Release` after the words are written: a search that reads the new count finds the words.
        if words.end > self.count.load(Relaxed) {
            self.count.store(words.end, Release);
        }
    }

    /// Takes one of the first free slots.
    #[inline]
    pub(super) fn take(&self) -> Option<u32> {
        // The usual case without a loop: the first group that was seen to have free slots has one. `find` does the
        // rest.
        let group = self.first.load(Relaxed);
        let named = self.groups.get(group).map_or(0, |Word(named)| named.load(Relaxed));
        if named != 0 {
            let at = group * WORD + named.trailing_zeros();
            if let Some(bit) = self.words.get(at).and_then(Word::take) {
                return Some(at * WORD + bit);
            }
        }
        self.find(Word::take).map(|(at, bit)| at * WORD + bit)
    }

    /// Takes all free slots of one of the first words that have any, as a bit mask.
    pub(super) fn take_word(&self) -> Option<(u32, u64)> {
        let (at, bits) = self.find(|Word(word)| {
            // Read first, so that a word without free slots is not written and its cache line stays shared.
            let bits = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, SeqCst) };
            (bits != 0).then_some(bits)
        })?;
        Some((at * WORD, bits))
    }

    /// Applies `take` to the named words in order until it succeeds, then to all words.
    #[cold]
    fn find<T>(&self, take: impl Fn(&Word) -> Option<T>) -> Option<(u32, T)> {
        let (start, count) = (self.first.load(Relaxed), self.count.load(Acquire));
        // A thread that names a word before `start` meanwhile lowers `first` again.
        for group in start..count.div_ceil(WORD) {
            let Some(Word(named)) = self.groups.get(group) else { break };
            let mut bits = named.load(Relaxed);
            while bits != 0 {
                let (at, bit) = (group * WORD + bits.trailing_zeros(), bits & bits.wrapping_neg());
                bits &= !bit;
                let Some(word) = self.words.get(at) else { break };
                if let Some(taken) = take(word) {
                    if group > start {
                        // Only from `start`: another thread may have lowered `first` meanwhile, for slots that it gave
                        // back.
                        let _ = self.first.compare_exchange(start, group, Relaxed, Relaxed);
                    }
                    return Some((at, taken));
                }
                named.fetch_and(!bit, AcqRel);
                // A slot may have been returned before the bit was cleared. Its thread saw the bit set and did
                // not set it.
                if word.0.load(Acquire) != 0 {
                    named.fetch_or(bit, AcqRel);
                }
            }
        }
        // Words before `start`, or free slots that no group names at the moment.
        (0..count).find_map(|at| {
            let taken = take(self.words.get(at)?)?;
            self.announce(at);
            Some((at, taken))
        })
    }

    /// Sets the bit of a word in its group, unless it is set.
    #[inline]
    // Read first: most slots are returned to a word that has free ones, whose bit is set already.
    fn announce(&self, at: u32) {
        let bit = 1 << (at % WORD);
        if let Some(Word(named)) = self.groups.get_or_make(at / WORD) {
            if named.load(Relaxed) & bit == 0 {
                named.fetch_or(bit, AcqRel);
            }
        }
        if at / WORD < self.first.load(Relaxed) {
            self.first.fetch_min(at / WORD, Relaxed);
        }
    }

    /// Returns a slot. Returns `false`, and changes nothing, if the slot is free already or does not exist.
    #[inline]
    pub(super) fn give_back(&self, slot: u32) -> bool {
        self.give_back_some(slot / WORD * WORD, 1 << (slot % WORD))
    }

    /// Returns slots of the word whose first slot is `first`.
    #[inline]
    pub(super) fn give_back_some(&self, first: u32, bits: u64) -> bool {
        debug_assert!(first % WORD == 0 && bits != 0, "some slots of one word");
        let at = first / WORD;
        let Some(Word(word)) = self.words.get(at) else { return false };
        // Releases what this thread did with the slots to the thread that takes them next.
        let before = word.fetch_or(bits, SeqCst);
        if before == 0 {
            self.announce(at);
        }
        before & bits == 0
    }

    /// Takes out `count` slots from index `first` on, both multiples of [`WORD`], if all of them are free.
    pub(super) fn take_out(&self, first: u32, count: u32) -> bool {
        debug_assert!(first % WORD == 0 && count % WORD == 0, "whole words");
        let words = first / WORD..(first + count) / WORD;
        for at in words.clone() {
            let Some(Word(word)) = self.words.get(at) else { return false };
            // All 64 or none: a single exchange cannot take part of a word.
            if word.compare_exchange(u64::MAX, 0, AcqRel, Relaxed).is_err() {
                for taken in words.start..at {
                    self.give_back_some(taken * WORD, u64::MAX);
                }
                return false;
            }
        }
        true
    }

    /// Returns the free slots of a word as a bit mask, after all changes before it in the order of [`SeqCst`].
    pub(super) fn word(&self, at: u32) -> u64 {
        self.words.get(at).map_or(0, |Word(word)| word.load(SeqCst))
    }

    /// Counts the free slots from index `first` on, both multiples of [`WORD`] except the last count. Reads
    /// each word.
    pub(super) fn free(&self, first: u32, count: u32) -> u32 {
        let words = first / WORD..(first + count).div_ceil(WORD);
        words.filter_map(|at| self.words.get(at)).map(|Word(word)| word.load(Relaxed).count_ones()).sum()
    }
}

impl Word {
    #[inline]
    fn take(&self) -> Option<u32> {
        let mut bits = self.0.load(Relaxed);
        while bits != 0 {
            // The lowest slot, which keeps the used ones together. Acquires what the thread that gave it back had done
            // with it.
            match self.0.compare_exchange_weak(bits, bits & (bits - 1), SeqCst, Relaxed) {
                Ok(_) => return Some(bits.trailing_zeros()),
                Err(now) => bits = now,
            }
        }
        None
    }
}

impl core::fmt::Debug for FreeSlots {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FreeSlots").field("words", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn taken(set: &FreeSlots) -> Vec<u32> {
        core::iter::from_fn(|| set.take()).collect()
    }

    #[test]
    fn all_slots_are_handed_out_once_and_in_order() {
        let set = FreeSlots::new();
        assert_eq!(set.take(), None);
        set.add(0..100);
        assert_eq!(set.free(0, 100), 100);
        assert_eq!(taken(&set), (0..100).collect::<Vec<_>>());
        assert_eq!(set.free(0, 100), 0);
    }

    #[test]
    fn a_slot_that_came_back_is_the_next_one_and_comes_back_once() {
        let set = FreeSlots::new();
        set.add(0..70);
        set.add(70..1000);
        let all = taken(&set);
        assert_eq!(all.len(), 1000);
        for slot in [700, 3, 64] {
            assert!(set.give_back(slot));
            assert!(!set.give_back(slot), "it is free already");
        }
        assert!(!set.give_back(1 << 20), "there is no such slot");
        assert_eq!(taken(&set), [3, 64, 700]);
    }

    #[test]
    fn a_page_is_taken_out_only_if_all_of_it_is_free() {
        let set = FreeSlots::new();
        set.add(0..256);
        let slot = set.take().unwrap();
        assert!(!set.take_out(0, 128));
        assert_eq!(set.free(0, 256), 255, "and nothing has changed");
        assert!(set.take_out(128, 128));
        assert!(set.give_back(slot));
        assert!(set.take_out(0, 128));
        assert_eq!(set.take(), None);
        set.add(0..128);
        assert_eq!(taken(&set).len(), 128);
    }

    #[test]
    fn generated_operations_agree_with_a_set() {
        let (set, mut free) = (FreeSlots::new(), BTreeSet::new());
        let (mut held, mut size, mut random) = (Vec::new(), 0, 1_u64);
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match random >> 60 {
                0 if size < 4096 && (random >> 30) % 64 == 0 => {
                    set.add(size..size + 128);
                    free.extend(size..size + 128);
                    size += 128;
                }
                0..8 => {
                    let slot = set.take();
                    assert_eq!(slot.is_some(), !free.is_empty());
                    if let Some(slot) = slot {
                        assert!(free.remove(&slot));
                        held.push(slot);
                    }
                }
                8 => {
                    let word = set.take_word();
                    assert_eq!(word.is_some(), !free.is_empty());
                    if let Some((first, bits)) = word {
                        for slot in (0..WORD).filter(|bit| bits & 1 << bit != 0).map(|bit| first + bit) {
                            assert!(free.remove(&slot));
                            held.push(slot);
                        }
                    }
                }
                _ => {
                    if let Some(at) =
                        (held.len() as u64).checked_sub(1).map(|last| (random >> 20) % (last + 1))
                    {
                        let slot = held.swap_remove(at as usize);
                        assert!(set.give_back(slot));
                        assert!(free.insert(slot));
                    }
                }
            }
            debug_assert_eq!(set.free(0, size), free.len() as u32);
        }
        assert!(held.len() + free.len() == size as usize && size > 0);
    }

    #[test]
    fn threads_never_have_the_same_slot() {
        let set = FreeSlots::new();
        set.add(0..512);
        let owners: Vec<_> = (0..512).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let (set, owners) = (&set, &owners);
                scope.spawn(move || {
                    for round in 0..20_000_usize {
                        let mine: Vec<_> = (0..round % 7).filter_map(|_| set.take()).collect();
                        for &slot in &mine {
                            assert_eq!(owners[slot as usize].swap(thread, Relaxed), 0);
                        }
                        for &slot in &mine {
                            assert_eq!(owners[slot as usize].swap(0, Relaxed), thread);
                            assert!(set.give_back(slot));
                        }
                    }
                });
            }
        });
        assert_eq!(set.free(0, 512), 512);
    }
}
