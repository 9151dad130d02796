//! The growth of blocks: the size of the next one, and the threshold for dedicated memory.
//!
//! Block sizes decide about waste far more than the algorithm inside the blocks: the same streaming traffic wastes
//! 8–18 % in blocks of 32 MiB where every resource above an eighth of a block gets dedicated memory, and 50–125 % in
//! blocks of 256 MiB where only those above half of one do. So blocks grow with usage: the next one has about a 32nd of
//! the bytes that the pool has, and a resource larger than a quarter of that gets dedicated memory where no block has
//! room (`request/dedicated.rs`). A block whose first request is no small part of it is cut down to whole requests of
//! that size (`pool/plan.rs`).
//!
//! | a pool has | next block, at most | threshold for dedicated memory |
//! |---|---|---|
//! | up to 128 MiB | 4 MiB | 4 MiB |
//! | 1 GiB | 32 MiB | 8 MiB |
//! | 3 GiB | 128 MiB | 32 MiB |
//! | more than 4 GiB | 256 MiB, the largest | 64 MiB |
//!
//! Both divisors lie on a plateau: smaller blocks and thresholds waste a little less and take more driver calls, larger
//! ones the other way round (`docs/measurements/2026-11-25-reserved.md`).

use allotment_suballoc::MAX_SIZE;

const MIB: u64 = 1 << 20;

/// The sizes of blocks, and the threshold for dedicated memory.
///
/// The defaults were chosen by the waste and the driver calls that they leave on generated traffic, and checked on
/// recorded traces: see `docs/measurements`. They bound what a pool decides from its own traffic, so few programs have a
/// reason to change them.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::BlockSizes;
///
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes.smallest = 1 << 20; // a program with few resources
/// desc.block_sizes.largest = 64 << 20;
/// let allocator = Allocator::new(device, desc)?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// assert_eq!(allocator.statistics().block_bytes, 1 << 20);
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "AllocationSizes")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockSizes {
    /// Bytes of a pool's first block, a power of two. Less where the first request is a large part of it.
    pub smallest: u64,
    /// Bytes that no block exceeds, unless a heap is so small that an eighth of it is less; a power of
    /// two.
    #[doc(alias = "with_max_device_memblock_size")]
    pub largest: u64,
    /// The next block is the pool's bytes divided by this, rounded up to a power of two. One whose first request is a
    /// large part of it has less: room for whole requests of that size.
    pub growth_divisor: u64,
    /// A resource larger than the next block divided by this, and than [`smallest`](Self::smallest), gets dedicated
    /// memory where no block has room.
    pub dedicated_threshold_divisor: u64,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { smallest: 4 * MIB, largest: 256 * MIB, growth_divisor: 32, dedicated_threshold_divisor: 4 }
    }
}

impl BlockSizes {
    /// Creates sizes for blocks that all have one size. Only resources larger than a block get dedicated memory.
    ///
    /// ```
    /// use allotment::memory::BlockSizes;
    ///
    /// let sizes = BlockSizes::fixed(32 << 20); // a power of two
    /// assert_eq!((sizes.smallest, sizes.largest), (32 << 20, 32 << 20));
    /// ```
    #[must_use]
    pub fn fixed(size: u64) -> Self {
        // The growth divisor has no effect: between these bounds there is one size.
        Self { smallest: size, largest: size, growth_divisor: 1, dedicated_threshold_divisor: 1 }
    }

    /// Returns true if the sizes are powers of two in order, and no divisor is zero.
    pub(in crate::memory) fn is_valid(&self) -> bool {
        self.smallest.is_power_of_two()
            && self.largest.is_power_of_two()
            && self.smallest <= self.largest
            && self.largest <= MAX_SIZE
            && self.growth_divisor != 0
            && self.dedicated_threshold_divisor != 0
    }

    /// Returns the bytes of the largest block of a heap.
    pub(in crate::memory) fn largest_in(&self, heap_size: u64) -> u64 {
        // VMA limits the blocks of small heaps to an eighth as well: one block of 256 MiB would fill a 256 MiB heap of
        // mapped device memory.
        let eighth = (heap_size / 8).max(1);
        self.largest.min(1 << eighth.ilog2()).max(1)
    }

    /// Returns the bytes of the next block of a pool that has `reserved` bytes.
    pub(in crate::memory) fn next(&self, reserved: u64, heap_size: u64) -> u64 {
        let largest = self.largest_in(heap_size);
        // A power of two, so that blocks come in few sizes and a freed one is often replaced by one of its size.
        let wanted = (reserved / self.growth_divisor).max(1).next_power_of_two();
        wanted.clamp(self.smallest.min(largest), largest)
    }
}
