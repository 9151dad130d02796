//! The history of a replay for the report: every block, every allocation, and the totals over time.

use std::collections::HashMap;

use allotment::device::{Device, MemoryHandle};
use allotment::memory::{BlockInfo, MemoryLocation, Statistics};
use allotment_trace::ResourceIndex;

/// Blocks, allocations and totals, in the order of the events.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) samples: Vec<Sample>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) allocations: Vec<Allocated>,
    /// Maps memory handles, as numbers, to indices into `blocks`; live blocks only.
    live_blocks: HashMap<u64, usize>,
    /// Memory that does not belong to the trace: the staging buffers of the replay.
    hidden: Vec<u64>,
    /// Indices into `allocations`; live allocations only.
    live: HashMap<ResourceIndex, usize>,
    calls: u64,
}

/// The totals after one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) event: usize,
    pub(crate) statistics: Statistics,
    pub(crate) device_calls: u64,
}

/// A memory object.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) pool: String,
    pub(crate) memory_type: u8,
    pub(crate) heap: u8,
    pub(crate) size: u64,
    pub(crate) dedicated: bool,
    /// The event for which the allocator allocated it.
    pub(crate) from: usize,
    /// The event at which the allocator freed it.
    pub(crate) to: Option<usize>,
}

/// An allocation.
#[derive(Clone, Debug)]
pub(crate) struct Allocated {
    pub(crate) resource: ResourceIndex,
    memory: u64,
    /// Index into the blocks.
    pub(crate) block: usize,
    pub(crate) offset: u64,
    /// Requested bytes.
    pub(crate) requested: u64,
    /// Occupied bytes.
    pub(crate) occupied: u64,
    pub(crate) category: &'static str,
    pub(crate) from: usize,
    pub(crate) to: Option<usize>,
}

impl History {
    /// Creates a history without the blocks that exist already.
    pub(super) fn hiding<D: Device>(blocks: &[BlockInfo<D>]) -> Self {
        Self { hidden: blocks.iter().map(|block| block.memory.to_raw()).collect(), ..Self::default() }
    }

    pub(super) fn allocated<D: Device>(
        &mut self,
        event: usize,
        resource: ResourceIndex,
        place: &MemoryLocation<D>,
        requested: u64,
        occupied: u64,
        category: &'static str,
    ) {
        self.live.insert(resource, self.allocations.len());
        self.allocations.push(Allocated {
            resource,
            memory: place.memory.to_raw(),
            // Its block may be new; `observe` adds that after this event.
            block: usize::MAX,
            offset: place.offset,
            requested,
            occupied,
            category,
            from: event,
            to: None,
        });
    }

    pub(super) fn freed(&mut self, event: usize, resource: ResourceIndex) {
        if let Some(index) = self.live.remove(&resource) {
            self.allocations[index].to = Some(event);
        }
    }

    /// Adds the totals after an event, and the blocks that were allocated or freed if the driver was called.
    pub(super) fn observe<D: Device>(
        &mut self,
        event: usize,
        statistics: &Statistics,
        device_calls: u64,
        blocks: impl FnOnce() -> Vec<BlockInfo<D>>,
    ) {
        // Listing all blocks is slow: do so only if the driver was called since the last event.
        if device_calls != self.calls || self.live_blocks.is_empty() {
            self.calls = device_calls;
            self.update_blocks(event, blocks());
        }
        if let Some(latest) = self.allocations.last_mut().filter(|latest| latest.block == usize::MAX) {
            latest.block = self.live_blocks.get(&latest.memory).copied().unwrap_or_default();
        }
        // Samples are stored only when a total changes; frame ends mostly change nothing.
        let same = self
            .samples
            .last()
            .is_some_and(|last| last.statistics == *statistics && last.device_calls == device_calls);
        if !same {
            self.samples.push(Sample { event, statistics: *statistics, device_calls });
        }
    }

    fn update_blocks<D: Device>(&mut self, event: usize, now: Vec<BlockInfo<D>>) {
        let blocks = &mut self.blocks;
        self.live_blocks.retain(|memory, &mut index| {
            // A driver may reuse the handle of freed memory for the next block, usually of another size.
            let same = |block: &BlockInfo<D>| {
                block.memory.to_raw() == *memory && block.ranges.size == blocks[index].size
            };
            let stays = now.iter().any(same);
            if !stays {
                blocks[index].to = Some(event);
            }
            stays
        });
        for block in now.into_iter().filter(|block| !self.hidden.contains(&block.memory.to_raw())) {
            self.live_blocks.entry(block.memory.to_raw()).or_insert_with(|| {
                blocks.push(Block {
                    pool: block.pool.to_string(),
                    memory_type: block.memory_type.0,
                    heap: block.heap.0,
                    size: block.ranges.size,
                    dedicated: block.dedicated,
                    from: event,
                    to: None,
                });
                blocks.len() - 1
            });
        }
    }
}
