//! Staging heaps that remember what would be written: those of descriptor sets, and those of render targets and
//! depth images, which Vulkan has no descriptors of.
//!
//! 48 bytes a slot.

use core::cell::UnsafeCell;
use core::ops::Range;

use super::view::What;

/// What the slots of a heap are. Nothing, where nobody wrote.
pub(super) struct Records {
    slots: Box<[UnsafeCell<Option<What>>]>,
}

// SAFETY: what is inside are handles. Who writes a slot promises that nobody else uses it meanwhile.
unsafe impl Sync for Records {}

impl Records {
    /// Bytes of a slot.
    pub(super) const STRIDE: u32 = size_of::<UnsafeCell<Option<What>>>() as u32;

    pub(super) fn new(capacity: u32) -> Self {
        Self { slots: (0..capacity).map(|_| UnsafeCell::new(None)).collect() }
    }

    fn slots(&self, at: Range<u32>) -> &[UnsafeCell<Option<What>>] {
        &self.slots[at.start as usize..at.end as usize]
    }

    /// # Safety
    ///
    /// Nobody else uses these slots now.
    pub(super) unsafe fn fill(&self, at: Range<u32>, what: Option<What>) {
        for slot in self.slots(at) {
            // SAFETY: the caller's promise.
            unsafe { slot.get().write(what) };
        }
    }

    /// What slots are, in order.
    ///
    /// # Safety
    ///
    /// Nobody writes these slots while the answer lives.
    pub(super) unsafe fn read(&self, at: Range<u32>) -> &[Option<What>] {
        let slots = self.slots(at);
        let first: *const UnsafeCell<Option<What>> = slots.as_ptr();
        // SAFETY: a cell is laid out as what is in it, and nobody writes there, by the caller's promise.
        unsafe { core::slice::from_raw_parts(first.cast(), slots.len()) }
    }

    /// # Safety
    ///
    /// Nobody else uses the slots that are written, nobody writes those that are read, and they do not overlap where the
    /// heaps are the same.
    pub(super) unsafe fn copy_to(&self, from: Range<u32>, to: &Self, to_at: u32) {
        let to_at = to_at..to_at + (from.end - from.start);
        // SAFETY: the caller's promise.
        let from = unsafe { self.read(from) };
        for (what, slot) in from.iter().zip(to.slots(to_at)) {
            // SAFETY: the caller's promise.
            unsafe { slot.get().write(*what) };
        }
    }
}
