//! How large the next block is, and from which size on a resource gets memory of its own.
//!
//! Block geometry decides over waste far more than the algorithm inside the blocks does: the same
//! streaming traffic wastes 8–18 % in 32 MiB blocks where everything above an eighth of a block gets its
//! own memory, and 50–125 % in 256 MiB blocks where only what is above half of one does. So blocks grow
//! with what is in use: the next one is about a 64th of what the pool has already, and what is larger than
//! that gets its own.

use allotment_suballoc::MAX_SIZE;

const MIB: u64 = 1 << 20;

/// The sizes that blocks have, and what is too large for them.
///
/// The defaults are a compromise between recorded traces and generated streaming traffic, chosen by the
/// waste they leave: see `docs/measurements`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockSizes {
    /// Bytes of a pool's first block; a power of two.
    pub smallest: u64,
    /// Bytes that no block exceeds, unless a heap is so small that an eighth of it is less; a power of
    /// two.
    pub largest: u64,
    /// The next block is the pool's bytes divided by this, rounded up to a power of two.
    pub growth_divisor: u64,
    /// What is larger than the next block divided by this, and than [`smallest`](Self::smallest), gets
    /// memory of its own.
    pub dedicated_threshold_divisor: u64,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { smallest: 4 * MIB, largest: 256 * MIB, growth_divisor: 64, dedicated_threshold_divisor: 1 }
    }
}

impl BlockSizes {
    /// Blocks of one size, whatever is in use. Only what does not fit them gets memory of its own.
    #[must_use]
    pub fn fixed(size: u64) -> Self {
        Self { smallest: size, largest: size, growth_divisor: 1, dedicated_threshold_divisor: 1 }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.smallest.is_power_of_two()
            && self.largest.is_power_of_two()
            && self.smallest <= self.largest
            && self.largest <= MAX_SIZE
            && self.growth_divisor != 0
            && self.dedicated_threshold_divisor != 0
    }

    /// Bytes of the largest block of a heap.
    pub(super) fn largest_in(&self, heap_size: u64) -> u64 {
        let eighth = (heap_size / 8).max(1);
        self.largest.min(1 << eighth.ilog2()).max(1)
    }

    /// Bytes of the next block of a pool that has `reserved` bytes already.
    pub(super) fn next(&self, reserved: u64, heap_size: u64) -> u64 {
        let largest = self.largest_in(heap_size);
        let wanted = (reserved / self.growth_divisor).max(1).next_power_of_two();
        wanted.clamp(self.smallest.min(largest), largest)
    }
}
