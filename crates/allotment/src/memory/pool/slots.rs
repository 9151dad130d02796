//! The slots of an allocator's pools, by index.

use std::sync::OnceLock;

use super::PoolSlot;
use crate::device::Device;
use crate::table::AppendTable;

/// A table of slots that are created one by one, and never move.
///
/// A slot has some 2 KiB, and the indices of the default pools alone are up to 16,384: 32 memory types, each with 8
/// pools of 64 shards. So the table itself has 16 bytes an index, and a slot is created when a pool needs it.
#[derive(Debug)]
pub(in crate::memory) struct PoolSlots<D: Device>(AppendTable<OnceLock<Box<PoolSlot<D>>>>);

impl<D: Device> PoolSlots<D> {
    pub(in crate::memory) const fn new() -> Self {
        Self(AppendTable::new())
    }

    /// Returns the slot at `index`, or `None` if it was never created.
    #[inline]
    pub(in crate::memory) fn get(&self, index: u32) -> Option<&PoolSlot<D>> {
        self.0.get(index)?.get().map(Box::as_ref)
    }

    /// Returns the slot at `index`, creating it if needed. `None` where there are no more indices.
    pub(in crate::memory) fn get_or_make(&self, index: u32) -> Option<&PoolSlot<D>> {
        Some(self.0.get_or_make(index)?.get_or_init(Box::default))
    }
}
