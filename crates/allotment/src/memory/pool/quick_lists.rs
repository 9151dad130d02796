//! Quick lists: ranges that were freed a moment ago, kept as they are for the next request of about their size.
//!
//! Joining a freed range with its neighbours, only to split the same range again for the next request, is most of the
//! work of a general allocator. Here a freed range first waits in a short list of its size class, with its record, and
//! a request that fits takes it from there: no search, no split, no join. This is deferred coalescing, as in Weinstock
//! and Wulf's Quick Fit ("An efficient algorithm for heap storage allocation", 1988) and the fast bins of malloc.
//!
//! ```text
//!   class    0   1   …   121        122        …   272
//!   lists    –   –       [r7 r19]   [r2]            –     at most 8 records each, newest last
//! ```
//!
//! A waiting range is free for all purposes: it counts as free, it does not keep a block from being empty, and all
//! lists are flushed into the blocks before a request is refused, before a block is allocated for one, and before the
//! regions are walked. So the lists change where an allocation is placed, never whether.
//!
//! A class is a sixteenth of a power of two. A request takes a range of its own class that is not smaller, or else
//! any of the class above: at most an eighth of the range is lost to rounding, and a range that is too small for the
//! requests of its own class serves those of the class below. 65 bytes a class, allocated at first use.

use allotment_suballoc::Alignment;

/// Ranges up to this size wait. Above it, the search costs little beside the use of the memory, and joining free
/// neighbours matters more.
pub(in crate::memory) const LARGEST_WAITING: u64 = 1 << 20;

/// Classes per power of two, as a power of two.
const MANTISSA_BITS: u32 = 4;

const CLASSES: usize = class_of(LARGEST_WAITING) + 1;

/// Ranges in a class: as many as a cache line holds.
const DEPTH: usize = 8;

/// Returns the size class of a size.
const fn class_of(size: u64) -> usize {
    let mantissa = 1 << MANTISSA_BITS;
    // Below 16 bytes a sixteenth of a power of two is less than a byte, so each size has a class of its own.
    if size < mantissa {
        return size as usize;
    }
    let shift = size.ilog2() - MANTISSA_BITS;
    (((shift as u64) << MANTISSA_BITS) + (size >> shift)) as usize
}

/// A waiting range: its record in the upper 32 bits, below it the size, and the number of trailing zeros of its offset
/// in the lowest [`ALIGNMENT_BITS`].
///
/// Eight bytes, so that a class fits a cache line and a request reads no record before it has found its range.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting(u64);

/// Six bits hold the number of trailing zeros of an offset, as offsets are below 2^48.
const ALIGNMENT_BITS: u32 = 6;

impl Waiting {
    fn new(record: u32, offset: u64, size: u64) -> Self {
        let zeros = u64::from(offset.trailing_zeros().min((1 << ALIGNMENT_BITS) - 1));
        Self(u64::from(record) << 32 | size << ALIGNMENT_BITS | zeros)
    }

    #[inline]
    fn record(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn size(self) -> u64 {
        u64::from(self.0 as u32 >> ALIGNMENT_BITS)
    }

    #[inline]
    fn is_aligned(self, zeros: u32) -> bool {
        self.0 as u32 & ((1 << ALIGNMENT_BITS) - 1) >= zeros
    }
}

/// The waiting ranges of one block set.
#[derive(Debug, Default)]
pub(in crate::memory) struct QuickLists {
    /// The number of ranges in each class. Empty until the first range waits, as is `waiting`.
    counts: Vec<u8>,
    waiting: Vec<[Waiting; DEPTH]>,
    len: usize,
}

impl QuickLists {
    /// Adds a freed range. Returns false if it is too large or its list is full.
    #[inline]
    pub(in crate::memory) fn push(&mut self, record: u32, offset: u64, size: u64) -> bool {
        if size > LARGEST_WAITING {
            return false;
        }
        // 17 KiB a set: sets that free no small range need none.
        if self.counts.is_empty() {
            self.make();
        }
        let class = class_of(size);
        let count = &mut self.counts[class];
        let list = &mut self.waiting[class];
        debug_assert!(
            list[..usize::from(*count)].iter().all(|range| range.record() != record),
            "a range waits once"
        );
        // A full list refuses the range, which is then joined with its neighbours: longer lists would keep more free
        // memory apart.
        let Some(place) = list.get_mut(usize::from(*count)) else { return false };
        *place = Waiting::new(record, offset, size);
        *count += 1;
        self.len += 1;
        true
    }

    /// Allocates the lists.
    #[cold]
    fn make(&mut self) {
        self.counts.resize(CLASSES, 0);
        self.waiting.resize(CLASSES, [Waiting::default(); DEPTH]);
    }

    /// Takes out a range that fits a request. Returns its record and its size.
    #[inline]
    pub(in crate::memory) fn take(&mut self, size: u64, alignment: Alignment) -> Option<(u32, u64)> {
        if self.len == 0 || size > LARGEST_WAITING {
            return None;
        }
        let class = class_of(size);
        // An alignment is a power of two, so comparing trailing zeros tells whether an offset is aligned; no record is
        // read.
        let zeros = alignment.get().trailing_zeros();
        for class in [class, class + 1] {
            let count = usize::from(*self.counts.get(class)?);
            let list = &mut self.waiting[class];
            let fits = |range: &Waiting| range.size() >= size && range.is_aligned(zeros);
            // The newest first: its memory and its record are the likeliest to be in a cache.
            if let Some(at) = list[..count].iter().rposition(fits) {
                let found = list[at];
                debug_assert_eq!(class_of(found.size()), class, "a range waits in the list of its class");
                // The newest fills the gap, so that none has to be shifted.
                list[at] = list[count - 1];
                self.counts[class] -= 1;
                self.len -= 1;
                return Some((found.record(), found.size()));
            }
        }
        None
    }

    /// Takes out any range. Returns its record, or `None` if the lists are empty.
    pub(in crate::memory) fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        // The largest class first: its ranges are the likeliest to make room for a request that found none.
        let class = self.counts.iter().rposition(|&count| count != 0);
        debug_assert!(class.is_some(), "`len` is the sum of the counts");
        let class = class?;
        self.counts[class] -= 1;
        self.len -= 1;
        Some(self.waiting[class][usize::from(self.counts[class])].record())
    }

    /// Returns the number of waiting ranges.
    pub(in crate::memory) fn len(&self) -> usize {
        self.len
    }

    /// Iterates over the records of all waiting ranges, for tests.
    pub(in crate::memory) fn records(&self) -> impl Iterator<Item = u32> + '_ {
        let lists = self.waiting.iter().zip(&self.counts);
        lists.flat_map(|(list, &count)| &list[..usize::from(count)]).map(|range| range.record())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_range_serves_what_fits_and_is_aligned() {
        let mut lists = QuickLists::default();
        assert!(lists.push(7, 256, 1000));
        let aligned = |to| Alignment::new(to).unwrap();
        assert_eq!(lists.take(1001, Alignment::ONE), None, "too small");
        assert_eq!(lists.take(850, Alignment::ONE), None, "two classes above");
        assert_eq!(lists.take(1000, aligned(512)), None, "not aligned");
        assert_eq!(lists.take(995, aligned(256)), Some((7, 1000)), "of the same class");
        assert_eq!(lists.take(995, Alignment::ONE), None, "taken");
        assert!(lists.push(8, 0, 1000));
        assert_eq!(lists.take(970, aligned(1 << 40)), Some((8, 1000)), "of the class above");
        assert_eq!((lists.len(), lists.pop()), (0, None));
    }

    #[test]
    fn a_list_that_is_full_and_a_range_that_is_large_are_refused() {
        let mut lists = QuickLists::default();
        for record in 0..DEPTH as u32 {
            assert!(lists.push(record, 0, 64));
        }
        assert!(!lists.push(99, 0, 64));
        assert!(!lists.push(99, 0, LARGEST_WAITING + 1));
        assert!(lists.push(50, 0, LARGEST_WAITING));
        let mut records: Vec<_> = core::iter::from_fn(|| lists.pop()).collect();
        records.sort_unstable();
        assert_eq!(records, [0, 1, 2, 3, 4, 5, 6, 7, 50]);
    }

    #[test]
    fn what_is_lost_to_rounding_is_at_most_an_eighth() {
        for wanted in 1..5000 {
            for waiting in wanted..wanted + wanted / 4 + 4 {
                let mut lists = QuickLists::default();
                assert!(lists.push(1, 0, waiting));
                if let Some((_, size)) = lists.take(wanted, Alignment::ONE) {
                    let lost = size - wanted;
                    assert!(lost <= 1.max(size / 8), "{lost} of {size} for {wanted}");
                }
            }
        }
    }
}
