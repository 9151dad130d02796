//! The handle of a custom pool, and the places of a pool's shards.

use std::sync::Arc;

use crate::choices::Dedicated;
use crate::device::MemoryTypeIndex;
use crate::memory::request::short_name::ShortName;

/// [`Pool::MAX_MEMORY_TYPES`].
pub(crate) const MAX_POOL_TYPES: usize = 4;

/// A custom pool. Clones name the same pool; a request names it by
/// [`AllocationOptions::pool`](crate::AllocationOptions::pool).
///
/// [`Allocator::destroy_pool`](crate::Allocator::destroy_pool) takes the last clone. Options that name the pool hold
/// one, and so do upload rings and upload pages that were created with such options.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
/// let pool = allocator.create_pool(PoolDesc::new([best]))?;
/// let loader = pool.clone(); // the same pool, for another thread
/// let options = MemoryUsage::GpuOnly.with_name("tile").with_pool(&loader);
/// allocator.free(allocator.allocate(&Requirements::new(1024), &options)?)?;
/// drop((loader, options)); // `destroy_pool` takes the last clone
/// allocator.destroy_pool(pool)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaPool", "AllocatorPool"))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a pool that is dropped can be neither used nor destroyed"]
pub struct Pool(Arc<Slot>);

/// Where a pool is. It has no generation: another pool takes the place only after this one was destroyed, and then no
/// clone of it is left.
#[derive(Debug, PartialEq, Eq)]
struct Slot {
    allocator: u32,
    shards: PoolShards,
    /// Not read from the pool itself, whose lock each request would have to take for that.
    memory_types: [Option<MemoryTypeIndex>; MAX_POOL_TYPES],
    separate_movable: bool,
    /// What [`Dedicated::Automatic`] means.
    dedicated: Dedicated,
    /// For errors about the pool.
    name: ShortName,
}

impl Pool {
    /// The most memory types that one pool has.
    pub const MAX_MEMORY_TYPES: usize = MAX_POOL_TYPES;

    /// Creates the handle of a pool with at most [`MAX_POOL_TYPES`] memory types.
    pub(in crate::memory) fn new(
        allocator: u32,
        shards: PoolShards,
        types: &[MemoryTypeIndex],
        (separate_movable, dedicated): (bool, Dedicated),
        name: ShortName,
    ) -> Self {
        let memory_types = core::array::from_fn(|at| types.get(at).copied());
        Self(Arc::new(Slot { allocator, shards, memory_types, separate_movable, dedicated, name }))
    }

    /// Returns what [`Dedicated::Automatic`] means for requests in the pool.
    pub(in crate::memory) fn dedicated(&self) -> Dedicated {
        self.0.dedicated
    }

    /// Returns the debug name of the pool's description, cut.
    pub(in crate::memory) fn name(&self) -> ShortName {
        self.0.name
    }

    /// Returns the id of the pool's allocator.
    pub(in crate::memory) fn allocator(&self) -> u32 {
        self.0.allocator
    }

    /// Returns where the shards of the pool are in its allocator.
    pub(in crate::memory) fn shards(&self) -> PoolShards {
        self.0.shards
    }

    /// Iterates over the memory types of the pool, in its order.
    pub(in crate::memory) fn memory_types(&self) -> impl Iterator<Item = MemoryTypeIndex> {
        self.0.memory_types.into_iter().flatten()
    }

    /// Returns the block set that serves pinned or movable allocations of the memory type at a position.
    ///
    /// ```text
    ///   sets     #0 type a   #1 type b                             as they come
    ///   sets     #0 type a   #1 type b   #2 type a   #3 type b     movable ones in #2 and #3
    /// ```
    pub(in crate::memory) fn set_of(&self, position: usize, movable: bool) -> usize {
        let separate = movable && self.0.separate_movable;
        position + if separate { self.memory_types().count() } else { 0 }
    }

    /// Returns the block set that serves movable allocations where this one serves pinned ones, or the other way round.
    pub(in crate::memory) fn other_set(&self, set: usize) -> Option<usize> {
        other_set(set, self.memory_types().count(), self.0.separate_movable)
    }

    /// Returns the number of other clones. Where it is 0 none can appear, and what was done with the others is visible
    /// to this thread.
    #[expect(clippy::disallowed_methods, reason = "where there is no other clone, `get_mut` says so")]
    pub(in crate::memory) fn other_clones(&mut self) -> usize {
        match Arc::get_mut(&mut self.0) {
            Some(_) => 0,
            None => (Arc::strong_count(&self.0) - 1).max(1),
        }
    }
}

/// The maximum number of shards of a pool. More threads than that share shards.
pub(crate) const MOST_SHARDS: u32 = 64;

/// The places of a pool's shards among the slots of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolShards {
    /// The index of shard 0.
    pub(crate) first: u32,
    /// The distance between the indices of two shards.
    pub(crate) stride: u32,
    /// The number of shards, at least 1.
    pub(crate) count: u32,
}

impl PoolShards {
    /// Returns the index of a shard.
    pub(crate) fn index(self, shard: u8) -> u32 {
        self.first + u32::from(shard) * self.stride
    }

    /// Returns true if a slot holds one of the shards.
    pub(crate) fn contain(self, index: u32) -> bool {
        let Some(distance) = index.checked_sub(self.first) else { return false };
        distance % self.stride == 0 && distance / self.stride < self.count
    }

    /// Iterates over the indices of all shards, in their order.
    pub(crate) fn indices(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |shard| self.index(shard as u8))
    }
}

/// Returns the other block set of the same memory type, of a pool that keeps movable allocations apart.
pub(crate) fn other_set(set: usize, memory_types: usize, separate_movable: bool) -> Option<usize> {
    separate_movable.then(|| if set < memory_types { set + memory_types } else { set - memory_types })
}
