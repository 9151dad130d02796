//! Values by index, where a later value reuses the index of a removed one.
//!
//! ```text
//!   entries   [ a ][ →4 ][ b ][ out of use ][ →6 ][ c ]
//!   next      1 ─► 4 ─► 6, the number of entries            the index that was vacated last is reused first
//! ```
//!
//! Vacant entries link to each other, so a removal allocates nothing. An index can also be taken out of use for good,
//! where old handles of it must never become valid again.
//!
//! # Invariants
//!
//! The list that begins at `next` contains each vacant entry once, except those out of use, and ends with the number of
//! entries.
//!
//! # Cost
//!
//! Every operation is O(1), except iteration; growth moves no entry ([`Chunks`]). Memory is freed when the
//! slab is dropped, or [shrinks](Slab::shrink). An entry has the size of an `Option<T>` where `T` leaves room for the link.
//!
//! # Why not a crate
//!
//! `slab` cannot take an index out of use, and its indices are as wide as a pointer, while handles here store 32 bits.
//! `slotmap` stores a generation in each entry. The generations of this crate's tokens are in tables that threads read
//! without a lock, and another one in each entry would add a cache line to each allocation.

use core::mem;

use crate::chunks::Chunks;

/// Values by index. See the [module](self).
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Chunks<Entry<T>>,
    /// The index of the next value: the first vacant entry, or the number of entries.
    next: u32,
}

#[derive(Debug)]
enum Entry<T> {
    Used(T),
    /// Contains what [`Slab::next`] becomes when this entry is reused.
    Vacant(u32),
}

/// The link of an entry that is out of use, which is the index of none.
const OUT_OF_USE: u32 = u32::MAX;

impl<T> Slab<T> {
    /// The bytes of an entry.
    pub(crate) const ENTRY_SIZE: usize = size_of::<Entry<T>>();

    pub(crate) const fn new() -> Self {
        Self { entries: Chunks::new(), next: 0 }
    }

    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { entries: Chunks::with_capacity(capacity), next: 0 }
    }

    /// Returns the index that the next value gets.
    pub(crate) fn next_index(&self) -> u32 {
        self.next
    }

    /// Returns a bound that all indices so far are below.
    pub(crate) fn bound(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Adds a value. Returns its index.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.enter(Entry::Used(value))
    }

    /// Takes the next index out of use for good.
    pub(crate) fn skip(&mut self) {
        self.enter(Entry::Vacant(OUT_OF_USE));
    }

    fn enter(&mut self, entry: Entry<T>) -> u32 {
        let index = self.next;
        match self.entries.get_mut(index as usize) {
            Some(reused) => match mem::replace(reused, entry) {
                Entry::Vacant(next) => self.next = next,
                Entry::Used(_) => unreachable!("only vacant entries are linked"),
            },
            None => {
                assert!(index < OUT_OF_USE, "indices have 32 bits");
                self.entries.push(entry);
                self.next += 1;
            }
        }
        index
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match self.entries.get(index as usize)? {
            Entry::Used(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.entries.get_mut(index as usize)? {
            Entry::Used(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    /// Removes the value at `index`. Changes nothing if there is none.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let removed = self.vacate(index, self.next)?;
        self.next = index;
        Some(removed)
    }

    /// Removes the value at `index` and takes the index out of use for good. Changes nothing if there is no value.
    pub(crate) fn remove_for_good(&mut self, index: u32) -> Option<T> {
        self.vacate(index, OUT_OF_USE)
    }

    #[inline]
    fn vacate(&mut self, index: u32, link: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize).filter(|entry| matches!(entry, Entry::Used(_)))?;
        match mem::replace(entry, Entry::Vacant(link)) {
            Entry::Used(value) => Some(value),
            Entry::Vacant(_) => None,
        }
    }

    /// Removes the vacant entries at the end, where that frees memory, which is returned to be dropped. Their indices are
    /// those of new entries then. O(entries).
    pub(crate) fn shrink(&mut self) -> Option<impl Sized + use<T>> {
        // An index out of use stays, or it would come back into use.
        let is_vacant = |entry: &Entry<T>| matches!(entry, Entry::Vacant(link) if *link != OUT_OF_USE);
        let mut bound = self.bound();
        while bound != 0 && is_vacant(&self.entries[bound as usize - 1]) {
            bound -= 1;
        }
        if !self.entries.has_chunk_from(bound as usize) {
            return None;
        }
        let removed = self.entries.split_off(bound as usize);
        // The lowest indices are reused first from here on, so that the end becomes vacant again.
        self.next = bound;
        for index in (0..bound).rev() {
            match &mut self.entries[index as usize] {
                Entry::Vacant(link) if *link != OUT_OF_USE => *link = mem::replace(&mut self.next, index),
                _ => {}
            }
        }
        Some(removed)
    }

    /// Iterates over all values, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.entries.iter()).filter_map(|(index, entry)| match entry {
            Entry::Used(value) => Some((index, value)),
            Entry::Vacant(_) => None,
        })
    }

    /// Iterates over all values, by index.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.entries.into_values().filter_map(|entry| match entry {
            Entry::Used(value) => Some(value),
            Entry::Vacant(_) => None,
        })
    }

    /// Checks the invariants and returns the vacant indices in the order in which they are reused, for tests. Takes
    /// time linear in the number of entries.
    ///
    /// # Panics
    ///
    /// Panics if an invariant does not hold.
    pub(crate) fn check_invariants(&self) -> Vec<u32> {
        let mut vacant = Vec::new();
        let mut at = self.next;
        while at != self.bound() {
            vacant.push(at);
            assert!(vacant.len() <= self.entries.len(), "the list has no cycle");
            match self.entries[at as usize] {
                Entry::Vacant(next) => at = next,
                Entry::Used(_) => panic!("the list contains the used entry {at}"),
            }
        }
        let linked = |entry: &&Entry<T>| matches!(entry, Entry::Vacant(link) if *link != OUT_OF_USE);
        assert_eq!(
            self.entries.iter().filter(linked).count(),
            vacant.len(),
            "each vacant entry is in the list"
        );
        vacant
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert,
        Skip,
        Remove(u32),
        RemoveForGood(u32),
        Shrink,
    }

    /// Indices are drawn from a range that is often larger than that of the entries.
    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Insert),
            1 => Just(Step::Skip),
            3 => (0..40_u32).prop_map(Step::Remove),
            1 => (0..40_u32).prop_map(Step::RemoveForGood),
            1 => Just(Step::Shrink),
        ]
    }

    /// A shadow model: a map, and the vacated indices in their order.
    #[derive(Default)]
    struct Model {
        values: BTreeMap<u32, usize>,
        vacant: Vec<u32>,
        out_of_use: BTreeSet<u32>,
        bound: u32,
    }

    impl Model {
        fn next_index(&self) -> u32 {
            self.vacant.last().copied().unwrap_or(self.bound)
        }

        fn take_next(&mut self) -> u32 {
            self.vacant.pop().unwrap_or_else(|| {
                self.bound += 1;
                self.bound - 1
            })
        }
    }

    proptest! {
        #[test]
        fn generated_operations_agree_with_a_map(steps in proptest::collection::vec(step(), 1..200)) {
            let (mut slab, mut model) = (Slab::new(), Model::default());
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert => {
                        let index = model.take_next();
                        model.values.insert(index, value);
                        prop_assert_eq!(slab.insert(value), index);
                    }
                    Step::Skip => {
                        let skipped = model.take_next();
                        model.out_of_use.insert(skipped);
                        slab.skip();
                    }
                    Step::Remove(index) => {
                        let removed = model.values.remove(&index);
                        model.vacant.extend(removed.map(|_| index));
                        prop_assert_eq!(slab.remove(index), removed);
                    }
                    Step::RemoveForGood(index) => {
                        let removed = model.values.remove(&index);
                        model.out_of_use.extend(removed.map(|_| index));
                        prop_assert_eq!(slab.remove_for_good(index), removed);
                    }
                    Step::Shrink => {
                        let shrunk = slab.shrink().is_some();
                        // All are in one chunk, so it is freed where none is left.
                        let is_left = !model.values.is_empty() || !model.out_of_use.is_empty();
                        prop_assert_eq!(shrunk, !is_left && model.bound != 0);
                        if shrunk {
                            model = Model::default();
                        }
                    }
                }
                prop_assert_eq!((slab.next_index(), slab.bound()), (model.next_index(), model.bound));
                prop_assert!(slab.check_invariants().iter().eq(model.vacant.iter().rev()));
                prop_assert!(slab.iter().eq(model.values.iter().map(|(&index, value)| (index, value))));
                for index in 0..=model.bound {
                    prop_assert_eq!(slab.get(index), model.values.get(&index));
                    prop_assert_eq!(slab.get_mut(index).copied(), model.values.get(&index).copied());
                }
            }
            prop_assert!(slab.into_values().eq(model.values.into_values()));
        }
    }

    #[test]
    fn a_slab_of_many_chunks_keeps_those_up_to_the_last_value() {
        let mut slab = Slab::new();
        (0..100_000_u64).for_each(|value| _ = slab.insert(value));
        (0..100_000).filter(|index| ![7, 30_000].contains(index)).for_each(|index| _ = slab.remove(index));
        assert!(slab.shrink().is_some());
        assert_eq!((slab.bound(), slab.next_index(), slab.get(30_000)), (30_001, 0, Some(&30_000)));
        assert!(slab.check_invariants().into_iter().eq((0..30_000).filter(|&index| index != 7)));
        assert!(slab.shrink().is_none(), "as small as can be");
        assert!(slab.remove_for_good(30_000).is_some());
        assert!(slab.shrink().is_none(), "an index out of use stays so");
    }

    #[test]
    fn an_index_out_of_use_is_never_given_out_again() {
        let mut slab = Slab::with_capacity(4);
        let worn_out = slab.insert("worn out");
        assert_eq!(slab.remove_for_good(worn_out), Some("worn out"));
        assert_eq!(slab.remove(worn_out), None, "a removal must not put it back into use");
        slab.skip();
        assert_eq!(slab.insert("new"), 2);
    }

    #[test]
    fn a_slab_that_has_reached_its_peak_allocates_nothing_more() {
        let mut slab = Slab::new();
        (0..100).for_each(|value| assert_eq!(slab.insert(value), value));
        let bound = slab.bound();
        for _ in 0..3 {
            (0..100).for_each(|index| assert!(slab.remove(index).is_some()));
            (0..100).for_each(|value| assert!(slab.insert(value) < 100));
        }
        assert_eq!(slab.bound(), bound);
    }

    #[test]
    fn the_link_takes_no_room_beside_a_value_with_a_spare_bit_pattern() {
        assert_eq!(Slab::<(u64, bool)>::ENTRY_SIZE, size_of::<Option<(u64, bool)>>());
    }
}
