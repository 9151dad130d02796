//! Sums of the memory in use: from counters, or from a walk over all regions.

use core::iter::Sum;
use core::ops::Add;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use allotment_suballoc::SizeRange;

/// Memory in use, from counters that the allocator keeps anyway.
///
/// `block_bytes == allocation_bytes + padding + rounding + free()`, always.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let meshes = allocator.allocate_many(&Requirements::new(1000), &MemoryUsage::GpuOnly.into(), 3)?;
/// let now = allocator.statistics();
/// assert_eq!((now.blocks, now.allocations, now.allocation_bytes), (1, 3, 3000));
/// assert_eq!(now.free(), now.block_bytes - 3000 - now.padding - now.rounding);
/// # drop(allocator.free_many(meshes));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaStatistics", "CommittedAllocationStatistics"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Memory objects that several allocations share.
    pub blocks: u32,
    /// Dedicated memory objects: room for one allocation each.
    pub dedicated: u32,
    /// Bytes of all memory objects, shared and dedicated.
    pub block_bytes: u64,
    /// Live allocations.
    pub allocations: u32,
    /// Bytes of live allocations, as requested.
    pub allocation_bytes: u64,
    /// Bytes lost to alignment, until the allocations that caused the loss are freed.
    pub padding: u64,
    /// Bytes lost to rounding sizes up: to the granularity, to the non-coherent atom, to a power of two, and where a
    /// request has at most half of a coarse alignment (4 KiB to 1 MiB) to a sixteenth of that.
    pub rounding: u64,
}

impl Statistics {
    /// Returns the unallocated bytes of all memory objects.
    #[must_use]
    pub const fn free(&self) -> u64 {
        let used = self.allocation_bytes + self.padding + self.rounding;
        // Another thread may allocate between the loads of two counters, so the difference could be negative.
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

/// Memory in use, from a walk over every region.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let small = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let large = allocator.allocate(&Requirements::new(2 << 20), &MemoryUsage::GpuOnly.into())?;
/// let sums = allocator.reports().detailed_statistics()[0]; // of memory type 0
/// println!("allocations: {:?}, free ranges: {:?}", sums.allocation_size, sums.free_size);
/// # drop(allocator.free_many([small, large]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaDetailedStatistics", "VmaTotalStatistics", "TotalStatistics"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetailedStatistics {
    /// The sums that need no walk.
    pub brief: Statistics,
    /// Number of free regions.
    pub free_ranges: u32,
    /// Memory objects that hold no allocation and are kept for later requests.
    pub empty_blocks: u32,
    /// Smallest and largest allocation in bytes; `None` when there is none.
    pub allocation_size: Option<SizeRange>,
    /// Smallest and largest free region in bytes; `None` when there is none.
    pub free_size: Option<SizeRange>,
}

impl DetailedStatistics {
    /// Returns the share of the free bytes that one large request cannot use: 1 − largest free region / free.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let meshes = allocator.allocate_many(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.into(), 3)?;
    /// let [first, second, third]: [_; 3] = meshes.try_into().map_err(|_| "three")?;
    /// allocator.free(second)?; // 1 MiB is free between the others, and 1 MiB after them
    /// assert_eq!(allocator.reports().detailed_statistics()[0].fragmentation(), 0.5);
    /// # drop(allocator.free_many([first, third]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        let largest = self.free_size.map_or(0, |range| range.max);
        if self.brief.free() == 0 { 0.0 } else { 1.0 - largest as f64 / self.brief.free() as f64 }
    }

    pub(super) fn add(&mut self, other: &Self) {
        // A part without allocations has no smallest and largest size.
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

impl Add for DetailedStatistics {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        Self::add(&mut self, &other);
        self
    }
}

impl Sum for DetailedStatistics {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| sum + part)
    }
}

/// The counters of one pool and memory type. The pool writes them under its lock; any thread reads them without it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
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
        // The pool's lock is held, so plain stores suffice: there is one writer.
        self.blocks.store(statistics.blocks, Relaxed);
        self.dedicated.store(statistics.dedicated, Relaxed);
        self.allocations.store(statistics.allocations, Relaxed);
        self.block_bytes.store(statistics.block_bytes, Relaxed);
        self.allocation_bytes.store(statistics.allocation_bytes, Relaxed);
        self.padding.store(statistics.padding, Relaxed);
        self.rounding.store(statistics.rounding, Relaxed);
    }

    /// Returns true when the pool has memory objects of this type.
    pub(super) fn have_memory(&self) -> bool {
        self.block_bytes.load(Relaxed) != 0
    }

    /// Stores the counters that change when no block is added or freed and no range is split or merged.
    #[inline]
    pub(super) fn store_live(&self, statistics: &Statistics) {
        self.allocations.store(statistics.allocations, Relaxed);
        self.allocation_bytes.store(statistics.allocation_bytes, Relaxed);
        self.rounding.store(statistics.rounding, Relaxed);
    }

    /// Stores the counters that change when no block is added or freed.
    #[inline]
    pub(super) fn store_ranges(&self, statistics: &Statistics) {
        self.store_live(statistics);
        self.padding.store(statistics.padding, Relaxed);
    }

    /// Reads the counters one by one. While another thread allocates, two of them may show different moments.
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
