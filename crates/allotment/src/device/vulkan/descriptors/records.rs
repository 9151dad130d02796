//! Heaps of recorded values: CPU heaps for descriptor sets, and heaps of render targets and depth-stencil
//! images, for which Vulkan has no descriptors.
//!
//! 48 bytes per slot.

use core::cell::UnsafeCell;
use core::ops::Range;

use super::descriptor::What;

/// The values of a heap's slots; `None` if never written.
pub(super) struct Records {
    slots: Box<[UnsafeCell<Option<What>>]>,
}

// SAFETY: the values are handles. Code that writes a slot promises that no other thread uses it meanwhile.
unsafe impl Sync for Records {}

impl Records {
    /// Bytes per slot.
    pub(super) const STRIDE: u32 = size_of::<UnsafeCell<Option<What>>>() as u32;

    pub(super) fn new(capacity: u32) -> Self {
        Self { slots: (0..capacity).map(|_| UnsafeCell::new(None)).collect() }
    }

    fn slots(&self, at: Range<u32>) -> &[UnsafeCell<Option<What>>] {
        &self.slots[at.start as usize..at.end as usize]
    }

    /// # Safety
    ///
    /// No other thread uses these slots now.
    pub(super) unsafe fn fill(&self, at: Range<u32>, what: Option<What>) {
        for slot in self.slots(at) {
            // SAFETY: the caller's promise.
            unsafe { slot.get().write(what) };
        }
    }

    /// Returns the values of slots, in order.
    ///
    /// # Safety
    ///
    /// No thread writes these slots while the returned slice lives.
    pub(super) unsafe fn read(&self, at: Range<u32>) -> &[Option<What>] {
        let slots = self.slots(at);
        let first: *const UnsafeCell<Option<What>> = slots.as_ptr();
        // SAFETY: a cell has the layout of its contents, and no thread writes there, by the caller's promise.
        unsafe { core::slice::from_raw_parts(first.cast(), slots.len()) }
    }

    /// # Safety
    ///
    /// No other thread uses the slots that are written, none writes those that are read, and they do not overlap
    /// if the heaps are the same.
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
