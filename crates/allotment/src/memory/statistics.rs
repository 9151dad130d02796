//! What is known about the memory in use: cheaply, and by a walk.

use core::iter::Sum;
use core::ops::Add;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use allotment_suballoc::SizeRange;

/// What memory is in use, from counters that are kept anyway.
///
/// `block_bytes == allocation_bytes + padding + rounding + free()`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Memory objects that allocations share.
    pub blocks: u32,
    /// Memory objects with room for one allocation.
    pub dedicated: u32,
    /// Bytes of all of these.
    pub block_bytes: u64,
    /// Live allocations.
    pub allocations: u32,
    /// Bytes in them, as they were asked for.
    pub allocation_bytes: u64,
    /// Bytes lost to alignment while their allocations live.
    pub padding: u64,
    /// Bytes lost to rounding sizes up: to the granularity, to the non-coherent atom, to a power of two.
    pub rounding: u64,
}

impl Statistics {
    /// Bytes handed out to nobody.
    #[must_use]
    pub const fn free(&self) -> u64 {
        let used = self.allocation_bytes + self.padding + self.rounding;
        // Counters read while another thread allocates may be from two moments.
        self.block_bytes.saturating_sub(used)
    }
}

impl Add for Statistics {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            dedicated: self.dedicated + other.dedicated,
            block_bytes: self.block_bytes + other.block_bytes,
            allocations: self.allocations + other.allocations,
            allocation_bytes: self.allocation_bytes + other.allocation_bytes,
            padding: self.padding + other.padding,
            rounding: self.rounding + other.rounding,
        }
    }
}

impl Sum for Statistics {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Self::add)
    }
}

/// What a walk over every region finds out beside the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetailedStatistics {
    /// What is known without a walk.
    pub brief: Statistics,
    /// In how many regions the free bytes lie.
    pub free_ranges: u32,
    /// Memory objects that hold no allocation and are kept for the next.
    pub empty_blocks: u32,
    /// Smallest and largest allocation in bytes; `None` when there is none.
    pub allocation_size: Option<SizeRange>,
    /// Smallest and largest free region in bytes; `None` when there is none.
    pub free_size: Option<SizeRange>,
}

impl DetailedStatistics {
    /// How much of the free space is out of reach of one large request: 1 − largest free region / free.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        let largest = self.free_size.map_or(0, |range| range.max);
        if self.brief.free() == 0 { 0.0 } else { 1.0 - largest as f64 / self.brief.free() as f64 }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let join = |a: Option<SizeRange>, b: Option<SizeRange>| match (a, b) {
            (a, Some(b)) => Some(SizeRange::including(Some(SizeRange::including(a, b.min)), b.max)),
            (a, None) => a,
        };
        self.brief = self.brief + other.brief;
        self.free_ranges += other.free_ranges;
        self.empty_blocks += other.empty_blocks;
        self.allocation_size = join(self.allocation_size, other.allocation_size);
        self.free_size = join(self.free_size, other.free_size);
    }
}

/// The counters of one pool and memory type: written under the pool's lock, read by anybody.
#[derive(Debug, Default)]
pub(super) struct Counters {
    blocks: AtomicU32,
    dedicated: AtomicU32,
    allocations: AtomicU32,
    block_bytes: AtomicU64,
    allocation_bytes: AtomicU64,
    padding: AtomicU64,
    rounding: AtomicU64,
}

impl Counters {
    pub(super) fn store(&self, statistics: &Statistics) {
        self.blocks.store(statistics.blocks, Relaxed);
        self.dedicated.store(statistics.dedicated, Relaxed);
        self.allocations.store(statistics.allocations, Relaxed);
        self.block_bytes.store(statistics.block_bytes, Relaxed);
        self.allocation_bytes.store(statistics.allocation_bytes, Relaxed);
        self.padding.store(statistics.padding, Relaxed);
        self.rounding.store(statistics.rounding, Relaxed);
    }

    /// Whether there are memory objects.
    pub(super) fn have_memory(&self) -> bool {
        self.block_bytes.load(Relaxed) != 0
    }

    /// Stores what changes when no block comes or goes and no range is cut or joined.
    #[inline]
    pub(super) fn store_live(&self, statistics: &Statistics) {
        self.allocations.store(statistics.allocations, Relaxed);
        self.allocation_bytes.store(statistics.allocation_bytes, Relaxed);
        self.rounding.store(statistics.rounding, Relaxed);
    }

    /// The counters one by one: while another thread allocates they may be from two moments.
    pub(super) fn load(&self) -> Statistics {
        Statistics {
            blocks: self.blocks.load(Relaxed),
            dedicated: self.dedicated.load(Relaxed),
            block_bytes: self.block_bytes.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
            allocation_bytes: self.allocation_bytes.load(Relaxed),
            padding: self.padding.load(Relaxed),
            rounding: self.rounding.load(Relaxed),
        }
    }
}
