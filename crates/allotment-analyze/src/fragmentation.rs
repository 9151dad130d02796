//! How fragmented free memory is, as numbers that say what they mean.
//!
//! A count of holes says little: one hole of a KiB counts as much as one of 100 MiB. Three numbers here do better.
//! [`largest_share`](Holes::largest_share) is the share of the free bytes that one allocation could have.
//! [`concentration`](Holes::concentration) is Σ free² ÷ (Σ free)²: the share that a random free byte finds in its own
//! hole, 1 for one hole and 1/n for n equal ones. The curve, [`share_in_holes_of`](Holes::share_in_holes_of), answers
//! the question that a program has: how much can be allocated in pieces of S bytes without a new block?

use crate::block_bytes::BlockBytes;
use crate::cursor::Cursor;
use crate::scope::Scope;
use crate::segments::{Class, segments};
use crate::timeline::{BlockIndex, Timeline};
use allotment_trace::recording::Moment;

/// The free ranges of some blocks, by size.
///
/// ```
/// use allotment_analyze::Holes;
///
/// let holes = Holes::from_sizes(vec![100, 300]);
/// assert_eq!(holes.free(), 400);
/// assert_eq!(holes.largest_share(), 0.75);
/// assert_eq!(holes.concentration(), 0.625);
/// assert_eq!(holes.share_in_holes_of(200), 0.75);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// Largest first.
    sizes: Vec<u64>,
}

impl Holes {
    /// Creates them from sizes in bytes, in any order.
    #[must_use]
    pub fn from_sizes(mut sizes: Vec<u64>) -> Self {
        sizes.retain(|&size| size > 0);
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        Self { sizes }
    }

    /// Returns the free ranges of a block where a cursor is. An empty block is one.
    #[must_use]
    pub fn of_block(cursor: &Cursor<'_, '_>, block: BlockIndex) -> Self {
        let mut sizes = Vec::new();
        add_holes(cursor, block, &mut sizes);
        Self::from_sizes(sizes)
    }

    /// Returns the free ranges of all blocks of a scope where a cursor is.
    #[must_use]
    pub fn of_scope(cursor: &Cursor<'_, '_>, scope: Scope) -> Self {
        let mut sizes = Vec::new();
        for block in scope.blocks(cursor) {
            add_holes(cursor, block, &mut sizes);
        }
        Self::from_sizes(sizes)
    }

    /// Returns the sizes in bytes, largest first.
    #[must_use]
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns all free bytes.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.bytes(0)
    }

    /// Returns the bytes of the largest hole; 0 where there is none.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.sizes.first().copied().unwrap_or(0)
    }

    /// Returns the largest hole's share of the free bytes, from 0 to 1. 1 where nothing is free, since nothing is
    /// fragmented then.
    #[must_use]
    pub fn largest_share(&self) -> f64 {
        share(self.largest(), self.free())
    }

    /// Returns 1 − [`largest_share`](Self::largest_share): the share of the free bytes that a request of all of them
    /// could not have. 0 for one hole.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        1.0 - self.largest_share()
    }

    /// Returns Σ free² ÷ (Σ free)²: 1 for one hole, 1/n for n equal ones, and 1 where nothing is free.
    #[must_use]
    pub fn concentration(&self) -> f64 {
        let free = self.free() as f64;
        if free == 0.0 {
            return 1.0;
        }
        self.sizes.iter().map(|&size| (size as f64 / free).powi(2)).sum()
    }

    /// Returns the share of the free bytes that is in holes of at least some bytes, from 0 to 1.
    #[must_use]
    pub fn share_in_holes_of(&self, at_least: u64) -> f64 {
        share(self.bytes(at_least), self.free())
    }

    /// Returns the sizes of the holes of at least some bytes, largest first.
    #[must_use]
    pub fn of_at_least(&self, at_least: u64) -> &[u64] {
        &self.sizes[..self.sizes.partition_point(|&size| size >= at_least)]
    }

    /// Returns the bytes of the holes of at least some bytes.
    #[must_use]
    pub fn bytes(&self, at_least: u64) -> u64 {
        self.of_at_least(at_least).iter().fold(0, |sum, &size| sum.saturating_add(size))
    }

    /// Returns the curve: for each power of two up to the largest hole, the share of the free bytes in holes of
    /// at least that size. At most 64 points, from 1 at the smallest size downwards.
    #[must_use]
    pub fn curve(&self) -> Vec<(u64, f64)> {
        let powers = (0..u64::BITS).map(|power| 1 << power).take_while(|&size| size <= self.largest());
        powers.map(|size| (size, self.share_in_holes_of(size))).collect()
    }

    /// Returns how many allocations of some bytes fit without a new block, when alignment is ignored.
    #[must_use]
    pub fn fitting(&self, size: u64) -> u64 {
        self.sizes.iter().map(|hole| hole.checked_div(size).unwrap_or(0)).fold(0, u64::saturating_add)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

fn add_holes(cursor: &Cursor<'_, '_>, block: BlockIndex, sizes: &mut Vec<u64>) {
    if cursor.timeline().block_exists(block, cursor.position()) {
        let size = cursor.timeline().block_size_at(block, cursor.position());
        let segments = segments(size, &cursor.placed(block));
        sizes.extend(segments.iter().filter(|is| is.class == Class::Free).map(|is| is.size()));
    }
}

/// Fragmentation at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FragmentationSample {
    /// When.
    pub moment: Moment,
    /// Bytes of the blocks.
    pub bytes: BlockBytes,
    /// Free ranges.
    pub holes: u64,
    /// Bytes of the largest.
    pub largest: u64,
    /// See [`Holes::fragmentation`].
    pub fragmentation: f64,
    /// See [`Holes::concentration`].
    pub concentration: f64,
}

/// Returns the fragmentation of a scope at evenly spaced positions of a recording, its end the last of them.
///
/// Each sample costs as much as looking at every allocation that exists there; what happens between two samples is
/// not seen.
#[must_use]
pub fn fragmentation_over_time(
    timeline: &Timeline<'_>,
    scope: Scope,
    samples: usize,
) -> Vec<FragmentationSample> {
    let mut cursor = Cursor::new(timeline);
    let count = samples.max(1) as u64;
    let mut positions: Vec<u64> = (1..=count)
        .map(|n| (u128::from(timeline.end()) * u128::from(n) / u128::from(count)) as u64)
        .collect();
    positions.dedup();
    positions
        .into_iter()
        .map(|position| {
            cursor.seek(position);
            let holes = Holes::of_scope(&cursor, scope);
            FragmentationSample {
                moment: cursor.moment(),
                bytes: BlockBytes::of_scope(&cursor, scope),
                holes: holes.sizes().len() as u64,
                largest: holes.largest(),
                fragmentation: holes.fragmentation(),
                concentration: holes.concentration(),
            }
        })
        .collect()
}
