//! The slots of an allocator's pools, by index.

use std::sync::{Arc, OnceLock};

use super::PoolSlot;
use crate::device::Device;
use crate::memory::request::PoolShards;
use crate::memory::token::MemoryObjects;
use crate::table::StableTable;

/// A table of slots that are created one by one, and never move.
///
/// A slot has some KiB, and the indices of the default pools alone are up to 65,536: 32 memory types, each with 32
/// pools of 64 shards. So the table itself has 16 bytes an index, and a slot is created when a pool needs it.
#[derive(Debug)]
pub(crate) struct PoolSlots<D: Device> {
    slots: StableTable<OnceLock<Box<PoolSlot<D>>>>,
    /// The memory objects of all pools.
    objects: Arc<MemoryObjects>,
}

impl<D: Device> PoolSlots<D> {
    pub(super) fn new() -> Self {
        Self { slots: StableTable::new(), objects: MemoryObjects::new() }
    }

    /// Returns the memory objects of all pools.
    pub(super) fn objects(&self) -> &Arc<MemoryObjects> {
        &self.objects
    }

    /// Returns the slot at `index`, or `None` if it was never created.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&PoolSlot<D>> {
        self.slots.get(index)?.get().map(Box::as_ref)
    }

    /// Returns true if the table has an index for each shard of a pool.
    pub(super) fn hold(&self, PoolShards { first, stride, count }: PoolShards) -> bool {
        let last = (count - 1).checked_mul(stride).and_then(|distance| first.checked_add(distance));
        last.is_some_and(StableTable::<OnceLock<Box<PoolSlot<D>>>>::may_have)
    }

    /// Returns the slot at `index`, creating it if needed. `None` where there are no more indices.
    pub(super) fn get_or_make(&self, index: u32) -> Option<&PoolSlot<D>> {
        let new = || Box::new(PoolSlot::new(Arc::clone(&self.objects)));
        Some(self.slots.get_or_make(index)?.get_or_init(new))
    }
}
