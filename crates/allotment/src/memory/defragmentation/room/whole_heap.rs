//! Room in a heap that the blocks of other pools fill: which pools take part, and how many bytes they have to give back.
//!
//! ```text
//!   heap of 16 blocks     pool of memory type 0: a request for 4 blocks, and none of its own to empty
//!                         pool of memory type 1: │▓░│ │▓░│ │▓░│ │▓░│ │▓░│ │▓░│ │▓░│ │▓░│ … half empty, all 16 of them
//!   survey, plan          four of these are emptied into others, two blocks' bytes are copied
//!   execution             they are freed, and the request gets a new block from what the heap has then
//! ```
//!
//! The last way of all, since it copies what the pool of the request has no use of. All blocks of one kind take part, whoever
//! fills them: other memory types of the heap, other lifetimes, pinned and movable ones, optimal images, custom pools. Each
//! allocation stays within its pool. Whether the sum is enough is known before the first byte is copied (`replace.rs`).
//!
//! A run with passes marks the pools as its own, as one that defragments them does: a pool that another run with passes has is
//! left out.

use std::collections::HashSet;

use super::run::RoomRun;
use crate::device::{Device, MemoryHeapIndex};
use crate::memory::allocator::Allocator;
use crate::memory::defragmentation::survey::{Arena, Scope, SurveyedPool};

/// Bytes that a heap has to give back.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissingInHeap {
    pub(super) heap: MemoryHeapIndex,
    pub(super) bytes: u64,
}

impl RoomRun {
    /// Returns the heaps in which a new block would serve the request, and what each of them has to give back for it: that of
    /// the memory type that suits best first.
    pub(super) fn missing_in_heaps<D: Device>(&self, allocator: &Allocator<D>) -> Vec<MissingInHeap> {
        let request = self.request();
        let mut missing: Vec<MissingInHeap> = Vec::new();
        for &(shards, set) in self.pools() {
            let in_shard = |index| allocator.pools.missing_in(index, set.into(), &request);
            // The request has asked one of them for a block.
            let Some((heap, bytes)) = shards.indices().find_map(in_shard) else { continue };
            // Where a plan for fewer bytes fails, one for more does.
            let known = |known: &MissingInHeap| known.heap == heap && known.bytes <= bytes;
            if !missing.iter().any(known) {
                missing.push(MissingInHeap { heap, bytes });
            }
        }
        let mut empty_bytes = EmptyBytes::default();
        for missing in &mut missing {
            missing.bytes = empty_bytes.but(allocator, missing.heap, missing.bytes);
        }
        missing
    }

    /// Returns the pools over some heaps whose allocations the run may move, each by its block sets there.
    pub(super) fn pools_over<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        heaps: &[MissingInHeap],
        own: Scope,
    ) -> Vec<SurveyedPool> {
        let mut seen = HashSet::new();
        let mut pools = Vec::new();
        for (index, slot) in allocator.settled().indexed_slots() {
            // The blocks of a linear pool take new ranges at their ends only.
            let Some((shards, of_sets)) = slot.heaps_of_sets().filter(|_| !slot.is_linear()) else {
                continue;
            };
            let is_over = |of: &MemoryHeapIndex| heaps.iter().any(|missing| missing.heap == *of);
            let sets = (0_u8..).zip(&of_sets).filter(|(_, heap)| is_over(heap)).map(|(set, _)| set);
            let sets: Vec<_> = sets.collect();
            let is_default = index < allocator.pools.default_pool_count();
            let scope = if is_default { Scope::DefaultPools } else { Scope::Pool(shards) };
            if !sets.is_empty() && seen.insert(shards.first) && self.takes(allocator, scope, own) {
                pools.extend(sets.into_iter().map(|set| SurveyedPool { shards, set: Some(set) }));
            }
        }
        pools
    }

    /// Returns whether the run may move allocations of some pools, from now on until it ends.
    fn takes<D: Device>(&mut self, allocator: &Allocator<D>, scope: Scope, own: Scope) -> bool {
        // A `Defragmenter` moves what is its own wherever it is.
        if self.mover().id.is_defragmenter() || scope == own || self.other_scopes.contains(&scope) {
            return true;
        }
        let begun = allocator.begin_passes(scope, self.mover());
        if begun {
            self.other_scopes.push(scope);
        }
        begun
    }
}

/// The bytes of the empty blocks of each heap that was asked for. To add them up locks each pool in turn.
#[derive(Default)]
pub(super) struct EmptyBytes(Vec<(MemoryHeapIndex, u64)>);

impl EmptyBytes {
    /// Returns the bytes of a heap that are still missing once its empty blocks are freed.
    pub(super) fn but<D: Device>(
        &mut self,
        allocator: &Allocator<D>,
        heap: MemoryHeapIndex,
        missing: u64,
    ) -> u64 {
        let known = self.0.iter().find(|(of, _)| *of == heap).map(|&(_, bytes)| bytes);
        let empty = known.unwrap_or_else(|| {
            // Most often there is none, and no pool has to be locked to find that.
            let any = allocator.pools.objects().idle_in(heap.get()) != 0;
            let bytes = if any { allocator.empty_bytes(heap, None) } else { 0 };
            self.0.push((heap, bytes));
            bytes
        });
        missing.saturating_sub(empty)
    }
}

impl<D: Device> Allocator<D> {
    /// Returns the heap of a block set.
    pub(super) fn heap_of_arena(&self, Arena { pool, set }: Arena) -> Option<MemoryHeapIndex> {
        self.pools.get(pool)?.heaps_of_sets()?.1.get(usize::from(set)).copied()
    }
}
