//! The crate `range-alloc`: best fit by a search of a sorted vector. A handle is the range itself.

use core::ops::Range;

use range_alloc::RangeAllocator;

use super::{Ranges, Space};

pub(in crate::ranges) struct RangeAlloc(RangeAllocator<u64>);

impl Ranges for RangeAlloc {
    type Handle = Range<u64>;

    const NAME: &'static str = "range-alloc";

    fn new(space: &Space) -> Option<Self> {
        Some(Self(RangeAllocator::new(0..space.size)))
    }

    #[inline(always)]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(Range<u64>, u64)> {
        let range = self.0.allocate_range_aligned(size, alignment).ok()?;
        let offset = range.start;
        Some((range, offset))
    }

    #[inline(always)]
    fn free(&mut self, handle: Range<u64>) {
        self.0.free_range(handle);
    }

    fn clear(&mut self) -> bool {
        self.0.reset();
        true
    }
}
