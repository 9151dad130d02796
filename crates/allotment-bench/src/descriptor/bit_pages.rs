//! The peer: pages of 64 slots with one bit each behind a mutex, and a bit for each page with a free slot. wgpu-hal
//! manages CPU descriptors of Direct3D 12 this way; none of its code is used here.

use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(super) struct BitPages(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// A set bit is a free slot.
    pages: Vec<u64>,
    /// A set bit is a page with a free slot.
    open: Vec<u64>,
}

impl BitPages {
    pub(super) const NAME: &'static str = "mutex + pages of 64 bits";

    #[inline]
    pub(super) fn allocate(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).allocate()
    }

    #[inline]
    pub(super) fn free(&self, slot: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).free(slot);
    }
}

impl Inner {
    #[inline]
    fn allocate(&mut self) -> u32 {
        let found = self.open.iter().position(|&word| word != 0);
        let page = match found {
            Some(at) => at * 64 + self.open[at].trailing_zeros() as usize,
            None => self.add(),
        };
        let bits = &mut self.pages[page];
        let bit = bits.trailing_zeros();
        *bits &= *bits - 1;
        if *bits == 0 {
            self.open[page / 64] &= !(1 << (page % 64));
        }
        page as u32 * 64 + bit
    }

    /// A driver's descriptor heap would be created here.
    #[cold]
    fn add(&mut self) -> usize {
        let page = self.pages.len();
        self.pages.push(u64::MAX);
        self.open.resize(page / 64 + 1, 0);
        self.open[page / 64] |= 1 << (page % 64);
        page
    }

    #[inline]
    fn free(&mut self, slot: u32) {
        let page = slot as usize / 64;
        self.pages[page] |= 1 << (slot % 64);
        self.open[page / 64] |= 1 << (page % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_slot_is_had_once_and_the_first_free_one_is_next() {
        let pages = BitPages::default();
        let slots: Vec<u32> = (0..10_000).map(|_| pages.allocate()).collect();
        assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), slots.len());
        assert!(slots.iter().copied().eq(0..10_000));
        for slot in [9000, 3, 64] {
            pages.free(slot);
        }
        assert_eq!([(); 4].map(|()| pages.allocate()), [3, 64, 9000, 10_000]);
    }
}
