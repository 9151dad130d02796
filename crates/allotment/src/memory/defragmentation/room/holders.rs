//! What holds the ranges of some blocks while allocations move: which allocation is before a place.

use std::collections::BTreeMap;

use allotment_suballoc::Handle;

use crate::device::Device;
use crate::memory::pool::{PoolSlot, PoolState};

/// A record and its generation: an allocation, or a place that is reserved or left.
pub(super) type Holder = (u32, u32);

/// The ranges of some blocks by offset, as far as they are known. One that is gone is forgotten when it is met.
#[derive(Debug)]
pub(super) struct Holders {
    set: usize,
    /// By the index of the block in the plan.
    blocks: Vec<BTreeMap<u64, Holder>>,
}

impl Holders {
    pub(super) fn new(set: usize, blocks: usize) -> Self {
        Self { set, blocks: vec![BTreeMap::new(); blocks] }
    }

    pub(super) fn put(&mut self, block: u32, offset: u64, holder: Holder) {
        self.blocks[block as usize].insert(offset, holder);
    }

    /// Returns the live range that is next before an offset; `None` where there is none before it.
    pub(super) fn before<D: Device>(
        &mut self,
        state: &PoolState<D>,
        slot: &PoolSlot<D>,
        (block, index): (u32, u32),
        offset: u64,
    ) -> Option<Handle> {
        loop {
            let (&start, &(record, generation)) = self.blocks[block as usize].range(..offset).next_back()?;
            let live = slot.records.get(record).is_some_and(|entry| entry.generation() == generation);
            let detail = state.detail(record).filter(|detail| live && usize::from(detail.set) == self.set);
            let range = detail.map(|detail| detail.block_range);
            match range.filter(|range| (range.block, range.offset) == (index, start)) {
                Some(range) => return Some(range.handle),
                None => _ = self.blocks[block as usize].remove(&start),
            }
        }
    }

    /// Returns true when a range that a move left is still held, since its old use has not ended: then places that are
    /// not free yet become free.
    pub(super) fn any_left<D: Device>(slot: &PoolSlot<D>, left: &mut Vec<Holder>) -> bool {
        left.retain(|&(record, generation)| {
            slot.records.get(record).is_some_and(|entry| entry.generation() == generation)
        });
        !left.is_empty()
    }
}
