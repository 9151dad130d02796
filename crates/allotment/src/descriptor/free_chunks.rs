//! The free chunks of a heap: a bit per chunk, protected by the owner's lock.
//!
//! ```text
//!   words     ░░░▓░░░░  ░░▓▓▓▓▓▓  ▓▓▓▓▓▓▓▓     64 chunks each; a set bit is a free chunk
//!   lowest       ▲                             no chunk before it is free
//! ```
//!
//! The lowest free chunks are taken, so that the chunks which one recording takes mostly form one range.
//!
//! # Cost
//!
//! A read of each word from the lowest free chunk to the one that fits: most often the first. A recording takes
//! a chunk about every fifty tables, and all of its chunks are returned under one lock.

/// The free chunks, by index.
#[derive(Debug)]
pub(super) struct FreeChunks {
    /// Bits beyond the last chunk are clear.
    words: Vec<u64>,
    count: u32,
    /// No chunk before this one is free.
    lowest: u32,
    /// A set bit is the first chunk of a range that was taken at once. Without it nothing would tell two adjacent ranges
    /// from one.
    starts: Vec<u64>,
}

/// Chunks per word.
const WORD: u32 = u64::BITS;

impl FreeChunks {
    /// Creates a set of `count` chunks, all free.
    pub(super) fn new(count: u32) -> Self {
        let words = vec![0; count.div_ceil(WORD) as usize];
        let mut set = Self { starts: words.clone(), words, count, lowest: 0 };
        set.give_back(0, count);
        set
    }

    /// Takes `count` adjacent chunks, at least one, and returns the first. `None` if there is no free range of
    /// that length.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        // Advanced here and not when chunks are taken: the scan has to find the next free chunk anyway.
        self.lowest = self.next(self.lowest, true);
        let mut first = self.lowest;
        while first < self.count {
            // First fit: the lowest range that is long enough. The rest of a longer range stays free behind it.
            let end = self.next(first, false);
            if end - first >= count {
                self.flip(first, count);
                self.starts[(first / WORD) as usize] |= 1 << (first % WORD);
                return Some(first);
            }
            first = self.next(end, true);
        }
        None
    }

    /// Returns `count` chunks that were taken at once.
    pub(super) fn give_back(&mut self, first: u32, count: u32) {
        debug_assert!(first + count <= self.count, "chunks lie in the region");
        debug_assert_eq!(
            self.next(first, true).min(first + count),
            first + count,
            "chunks are returned once"
        );
        self.flip(first, count);
        if let Some(starts) = self.starts.get_mut((first / WORD) as usize) {
            *starts &= !(1 << (first % WORD));
        }
        self.lowest = self.lowest.min(first);
    }

    /// Returns the length of the longest free range.
    pub(super) fn largest(&self) -> u32 {
        let (mut first, mut largest) = (self.next(0, true), 0);
        while first < self.count {
            let end = self.next(first, false);
            largest = largest.max(end - first);
            first = self.next(end, true);
        }
        largest
    }

    /// Returns the ranges that are taken, each as it was taken: the first chunk and the count.
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let is_set = |words: &[u64], at: u32| words[(at / WORD) as usize] & 1 << (at % WORD) != 0;
        let mut at = 0;
        core::iter::from_fn(move || {
            let first = self.next(at, false);
            let continues = |at: u32| !is_set(&self.words, at) && !is_set(&self.starts, at);
            at = first + 1;
            while at < self.count && continues(at) {
                at += 1;
            }
            (first < self.count).then_some((first, at - first))
        })
    }

    /// Returns the first chunk from `at` on that is free (or, if `free` is false, taken); the count if there is
    /// none.
    fn next(&self, at: u32, free: bool) -> u32 {
        // Inverting the word lets one scan for set bits find either.
        let flip = if free { 0 } else { u64::MAX };
        let (mut word, mut mask) = (at / WORD, u64::MAX << (at % WORD));
        while let Some(&bits) = self.words.get(word as usize) {
            let found = (bits ^ flip) & mask;
            if found != 0 {
                return (word * WORD + found.trailing_zeros()).min(self.count);
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        self.count
    }

    /// Toggles `count` chunks between free and taken.
    fn flip(&mut self, first: u32, count: u32) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let (bit, left) = (at % WORD, end - at);
            let here = left.min(WORD - bit);
            // 1 to 64 bits within one word, so neither shift overflows.
            self.words[(at / WORD) as usize] ^= u64::MAX >> (WORD - here) << bit;
            at += here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lowest run of free ones, found one by one.
    fn lowest(free: &[bool], count: usize) -> Option<usize> {
        (0..(free.len() + 1).saturating_sub(count)).find(|&at| free[at..at + count].iter().all(|&free| free))
    }

    #[test]
    fn the_lowest_chunks_are_taken_that_lie_in_a_row() {
        let mut set = FreeChunks::new(130);
        assert_eq!([1, 2, 60, 3].map(|count| set.take(count)), [0, 1, 3, 63].map(Some));
        set.give_back(1, 2);
        assert_eq!([3, 1, 1].map(|count| set.take(count)), [66, 1, 2].map(Some));
        assert_eq!(set.largest(), 61);
        assert_eq!((set.take(62), set.take(61), set.take(1)), (None, Some(69), None));
        assert_eq!(set.largest(), 0);
        assert_eq!(FreeChunks::new(0).take(1), None);
    }

    #[test]
    fn generated_operations_agree_with_a_search_one_by_one() {
        for size in [1_u32, 63, 64, 65, 200] {
            let (mut set, mut free) = (FreeChunks::new(size), vec![true; size as usize]);
            let (mut held, mut random) = (Vec::new(), u64::from(size));
            for _ in 0..20_000 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if (random >> 63) == 0 {
                    let count = 1 + (random >> 40) as u32 % if random >> 62 == 0 { 3 } else { 80 };
                    let taken = set.take(count);
                    assert_eq!(taken.map(|first| first as usize), lowest(&free, count as usize));
                    if let Some(first) = taken {
                        free[first as usize..][..count as usize].fill(false);
                        held.push((first, count));
                    }
                } else if !held.is_empty() {
                    let (first, count) = held.swap_remove((random >> 20) as usize % held.len());
                    set.give_back(first, count);
                    free[first as usize..][..count as usize].fill(true);
                }
                held.sort_unstable();
                assert_eq!(set.taken().collect::<Vec<_>>(), held);
                let largest = free.split(|&free| !free).map(<[bool]>::len).max();
                assert_eq!(Some(set.largest() as usize), largest);
            }
        }
    }
}
