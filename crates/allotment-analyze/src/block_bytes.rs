//! The bytes of a block, or of many, by class: used, overhead, pending release, free.
//!
//! `allotment_trace::recording::Usage` counts for the exports of that crate, and says at its top why the two are apart.

use core::iter::Sum;
use core::ops::{Add, AddAssign};

use crate::cursor::Cursor;
use crate::partition_point::partition_point_from;
use crate::scope::Scope;
use crate::segments::{Class, Placed, Segment, segments};
use crate::timeline::BlockIndex;

/// Returns the segments that are padding: each a hole before an allocation that is shorter than the allocation's
/// alignment. The allocations are in the order of their offsets, and the segments are theirs, or those of a part.
pub fn padding<'a>(placed: &'a [Placed], segments: &'a [Segment]) -> impl Iterator<Item = &'a Segment> {
    let mut next = 0;
    segments.iter().filter(|hole| hole.class == Class::Free).filter(move |hole| {
        next = partition_point_from(placed, next, |placed| placed.offset < hole.end);
        let behind = placed.get(next).filter(|behind| behind.offset == hole.end);
        behind.is_some_and(|behind| hole.size() < behind.alignment.get())
    })
}

/// The bytes of a block, or the sum of several. Each byte is counted in one of `used`, `pending`, `reserved`, `rounding`
/// and `free`, whose sum is `size`.
///
/// ```
/// use allotment_analyze::BlockBytes;
///
/// let empty = BlockBytes::of(1024, &[]);
/// assert_eq!((empty.size, empty.free, empty.overhead()), (1024, 1024, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBytes {
    /// All bytes.
    pub size: u64,
    /// Bytes that the program requested and uses.
    pub used: u64,
    /// Bytes that the program released, and that the GPU may still use.
    pub pending: u64,
    /// Overhead: destinations and old ranges of moves.
    pub reserved: u64,
    /// Overhead: bytes that allocations occupy beyond what was requested.
    pub rounding: u64,
    /// Bytes that can be allocated.
    pub free: u64,
    /// Of the free bytes: those in a hole before an allocation that is shorter than the allocation's alignment. The
    /// alignment made the hole, and only a small allocation fits.
    pub padding: u64,
    /// Bytes that two or more allocations occupy.
    pub aliased: u64,
    /// How many allocations there are.
    pub allocations: u64,
}

impl BlockBytes {
    /// Returns the larger of each of the bytes; `padding` and `aliased` are 0, which no series has.
    ///
    /// ```
    /// use allotment_analyze::BlockBytes;
    ///
    /// let (small, large) = (BlockBytes::of(1024, &[]), BlockBytes::of(4096, &[]));
    /// assert_eq!(small.most(large), large);
    /// ```
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            size: self.size.max(other.size),
            used: self.used.max(other.used),
            pending: self.pending.max(other.pending),
            reserved: self.reserved.max(other.reserved),
            rounding: self.rounding.max(other.rounding),
            free: self.free.max(other.free),
            padding: 0,
            aliased: 0,
            allocations: self.allocations.max(other.allocations),
        }
    }

    /// Counts the bytes of a block of `size` bytes, whose allocations are in the order of their offsets.
    #[must_use]
    pub fn of(size: u64, placed: &[Placed]) -> Self {
        Self::of_segments(size, placed, &segments(size, placed))
    }

    /// Counts the bytes of a block, whose segments are known.
    #[must_use]
    pub fn of_segments(size: u64, placed: &[Placed], segments: &[Segment]) -> Self {
        let mut bytes = Self { size, allocations: placed.len() as u64, ..Self::default() };
        for segment in segments {
            let sum = match segment.class {
                Class::Used => &mut bytes.used,
                Class::Pending => &mut bytes.pending,
                Class::Reserved => &mut bytes.reserved,
                Class::Rounding => &mut bytes.rounding,
                Class::Free => &mut bytes.free,
            };
            *sum += segment.size();
            if segment.depth > 1 {
                bytes.aliased += segment.size();
            }
        }
        bytes.padding = padding(placed, segments).map(Segment::size).sum();
        bytes
    }

    /// Counts the bytes of a block where a cursor is. The size is 0 for a block that does not exist there.
    #[must_use]
    pub fn of_block(cursor: &Cursor<'_, '_>, block: BlockIndex) -> Self {
        if cursor.timeline().block_exists(block, cursor.position()) {
            Self::of(cursor.timeline().block_size_at(block, cursor.position()), &cursor.placed(block))
        } else {
            Self::default()
        }
    }

    /// Sums the bytes of each block of a scope where a cursor is.
    #[must_use]
    pub fn of_scope(cursor: &Cursor<'_, '_>, scope: Scope) -> Self {
        scope.blocks(cursor).map(|block| Self::of_block(cursor, block)).sum()
    }

    /// Returns the overhead: reserved bytes and rounding.
    #[must_use]
    pub const fn overhead(&self) -> u64 {
        self.reserved.saturating_add(self.rounding)
    }

    /// Returns the share of a block's occupied bytes that rounding wastes, from 0 to 1. 0 where there are none.
    #[must_use]
    pub fn rounding_share(&self) -> f64 {
        let occupied = self.size - self.free;
        if occupied == 0 { 0.0 } else { self.rounding as f64 / occupied as f64 }
    }
}

impl AddAssign for BlockBytes {
    // Sizes in a wrong recording may be anything, so sums stop at the largest number.
    fn add_assign(&mut self, other: Self) {
        for (sum, add) in [
            (&mut self.size, other.size),
            (&mut self.used, other.used),
            (&mut self.pending, other.pending),
            (&mut self.reserved, other.reserved),
            (&mut self.rounding, other.rounding),
            (&mut self.free, other.free),
            (&mut self.padding, other.padding),
            (&mut self.aliased, other.aliased),
            (&mut self.allocations, other.allocations),
        ] {
            *sum = sum.saturating_add(add);
        }
    }
}

impl Add for BlockBytes {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for BlockBytes {
    fn sum<I: Iterator<Item = Self>>(blocks: I) -> Self {
        blocks.fold(Self::default(), Self::add)
    }
}
