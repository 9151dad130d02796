//! The growth of blocks: the size of the next one, and the threshold for dedicated memory.
//!
//! Block sizes decide about waste far more than the algorithm inside the blocks: the same streaming traffic wastes
//! 8–18 % in blocks of 32 MiB where every resource above an eighth of a block gets dedicated memory, and 50–125 % in
//! blocks of 256 MiB where only those above half of one do. So blocks grow with usage: the next one has about a 32nd of
//! the bytes that the pool has, and a resource larger than a quarter of that gets dedicated memory where no block has
//! room (`pool/dedicated.rs`). A block whose first request is no small part of it is cut down to whole requests of
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

use crate::choices::blocks::BlockSizes;

impl BlockSizes {
    /// Returns true if the sizes are powers of two in order, and no divisor is zero.
    pub(crate) fn is_valid(&self) -> bool {
        self.smallest.is_power_of_two()
            && self.largest.is_power_of_two()
            && self.smallest <= self.largest
            && self.largest <= MAX_SIZE
            && self.growth_divisor != 0
            && self.dedicated_threshold_divisor != 0
    }

    /// Returns the bytes of the largest block of a heap.
    pub(crate) fn largest_in(&self, heap_size: u64) -> u64 {
        // VMA limits the blocks of small heaps to an eighth as well: one block of 256 MiB would fill a 256 MiB heap of
        // mapped device memory.
        let eighth = (heap_size / 8).max(1);
        self.largest.min(1 << eighth.ilog2()).max(1)
    }

    /// Returns the bytes of the next block of a pool that has `reserved` bytes.
    pub(crate) fn next(&self, reserved: u64, heap_size: u64) -> u64 {
        let largest = self.largest_in(heap_size);
        // A power of two, so that blocks come in few sizes and a freed one is often replaced by one of its size.
        let wanted = (reserved / self.growth_divisor).max(1).next_power_of_two();
        wanted.clamp(self.smallest.min(largest), largest)
    }
}
