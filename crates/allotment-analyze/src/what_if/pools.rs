//! The pools of a recording, and those that stand for them.

use std::collections::{HashMap, HashSet};

use allotment::Allocator;
use allotment::device::MemoryTypeIndex;
use allotment::device::simulated::SimulatedGpu;
use allotment::memory::{ExpectedLifetime, Pool, PoolDesc};
use allotment_trace::recording::{Event, PoolId};

/// What a pool of the recording serves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serves {
    /// The first of the copies that it is one of.
    first: PoolId,
    pub(super) shard: u32,
    pub(super) lifetime: ExpectedLifetime,
    pub(super) optimal_images: bool,
    pub(super) movers: u8,
}

/// The pools that exist.
#[derive(Debug, Default)]
pub(super) struct Pools {
    serves: HashMap<PoolId, Serves>,
    /// What is known so far of the program's own pools, by their first copies.
    descriptions: HashMap<PoolId, PoolDesc>,
    custom: HashMap<PoolId, Pool>,
    /// Those of the program's own that keep movable allocations apart, by their first copies.
    separate: HashSet<PoolId>,
}

impl Pools {
    /// Returns what a pool serves: of one that the recording does not describe, what most pools do.
    pub(super) fn serves(&self, pool: PoolId) -> Serves {
        self.serves.get(&pool).copied().unwrap_or_default()
    }

    /// Returns the pool of the program's own that stands for one of the recording.
    pub(super) fn custom(&self, pool: PoolId) -> Option<&Pool> {
        self.custom.get(&self.serves.get(&pool)?.first)
    }

    /// Returns true for a pool of the program's own that keeps movable allocations apart.
    pub(super) fn separates_movable(&self, pool: PoolId) -> bool {
        self.serves.get(&pool).is_some_and(|serves| self.separate.contains(&serves.first))
    }

    /// Destroys all pools of the program's own, which are empty.
    pub(super) fn clear(&mut self, allocator: &Allocator<SimulatedGpu>) {
        for (_, custom) in self.custom.drain() {
            let _ = allocator.destroy_pool(custom);
        }
        self.serves.clear();
        self.descriptions.clear();
        self.separate.clear();
    }

    /// Takes an event that describes, resets or destroys a pool.
    pub(super) fn apply(&mut self, allocator: &Allocator<SimulatedGpu>, event: &Event) {
        match *event {
            Event::PoolCreated { pool, algorithm, custom, .. } => {
                self.serves.remove(&pool);
                if custom {
                    let mut desc = PoolDesc::new([]);
                    desc.algorithm = algorithm.unwrap_or(desc.algorithm);
                    self.descriptions.insert(pool, desc);
                }
            }
            Event::PoolServes {
                pool,
                first,
                shard,
                memory_types,
                first_type,
                lifetime,
                optimal_images,
                movers,
            } => {
                self.serves.insert(pool, Serves { first, shard, lifetime, optimal_images, movers });
                if let Some(desc) = self.descriptions.get_mut(&pool) {
                    // Each request is made of one memory type, so the order of the others does not matter.
                    let types = (0..32).map(MemoryTypeIndex);
                    let others = types.filter(|&other| memory_types.contains(other) && other != first_type);
                    desc.memory_types = core::iter::once(first_type).chain(others).collect();
                }
            }
            Event::PoolSized { pool, sizing, min_blocks, max_blocks } => {
                if let Some(desc) = self.descriptions.get_mut(&pool) {
                    (desc.sizing, desc.min_blocks, desc.max_blocks) = (Some(sizing), min_blocks, max_blocks);
                }
            }
            Event::PoolRules {
                pool,
                empty_blocks,
                alignment,
                budget,
                ignores_granularity,
                separate_movable,
            } => {
                let Some(mut desc) = self.descriptions.remove(&pool) else { return };
                (desc.empty_blocks, desc.alignment) = (empty_blocks, alignment);
                (desc.budget, desc.ignore_granularity) = (budget, ignores_granularity);
                desc.separate_movable = separate_movable;
                if separate_movable {
                    self.separate.insert(pool);
                }
                // The copies are created with the first.
                if self.serves(pool).shard == 0 {
                    // Of a wrong recording a pool may be impossible; its requests then go to the default pools.
                    self.custom.extend(allocator.create_pool(desc).ok().map(|made| (pool, made)));
                }
            }
            // All copies are reset and destroyed with the first.
            Event::PoolReset { pool } => {
                if let Some(custom) = self.custom.get(&pool) {
                    let _ = allocator.reset_pool(custom);
                }
            }
            Event::PoolDestroyed { pool } => {
                if let Some(custom) = self.custom.remove(&pool) {
                    // It stays where something that the recording freed was not freed here.
                    let _ = allocator.destroy_pool(custom);
                }
                self.serves.remove(&pool);
                self.descriptions.remove(&pool);
                self.separate.remove(&pool);
            }
            _ => {}
        }
    }
}
