//! The harness alone: offsets that only increase.

use core::hint::black_box;

use super::{Ranges, Space};

#[derive(Debug)]
pub(in crate::ranges) struct Empty {
    next: u64,
}

impl Ranges for Empty {
    type Handle = u64;

    const NAME: &'static str = "empty";

    fn new(_: &Space) -> Option<Self> {
        Some(Self { next: 0 })
    }

    #[inline(always)]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(u64, u64)> {
        let offset = self.next;
        self.next = offset.wrapping_add(black_box(size).max(alignment));
        Some((offset, offset))
    }

    #[inline(always)]
    fn free(&mut self, handle: u64) {
        black_box(handle);
    }

    fn clear(&mut self) -> bool {
        self.next = 0;
        true
    }
}
