//! The crate `offset-allocator`: numbers of 32 bits, no alignment, a fixed number of nodes.

use offset_allocator::{Allocation, Allocator};

use super::{Ranges, Space};

pub(in crate::ranges) struct OffsetAllocator {
    allocator: Allocator<u32>,
    /// Its numbers are multiples of 2^shift bytes.
    shift: u32,
}

impl Ranges for OffsetAllocator {
    type Handle = Allocation<u32>;

    const NAME: &'static str = "offset-allocator";

    fn new(space: &Space) -> Option<Self> {
        let shift = space.unit.ilog2();
        let size = u32::try_from(space.size >> shift).ok()?;
        // A node for each range, and for each gap between two; some to spare, since it splits before it merges.
        let nodes = space.peak.checked_mul(2)?.checked_add(1024)?;
        Some(Self { allocator: Allocator::with_max_allocs(size, nodes), shift })
    }

    #[inline(always)]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(Allocation<u32>, u64)> {
        // It does not align: a range that must be aligned to more than a unit is larger, and is aligned inside.
        let unit = 1 << self.shift;
        let padded = size + (alignment - unit);
        let range = self.allocator.allocate(u32::try_from(padded >> self.shift).ok()?)?;
        let offset = u64::from(range.offset) << self.shift;
        Some((range, offset.next_multiple_of(alignment)))
    }

    #[inline(always)]
    fn free(&mut self, handle: Allocation<u32>) {
        self.allocator.free(handle);
    }

    fn clear(&mut self) -> bool {
        self.allocator.reset();
        true
    }
}
