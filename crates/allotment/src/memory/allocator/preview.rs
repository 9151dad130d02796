//! Previews of requests: what a request would do, without doing it.

use crate::device::{Device, MemoryHeapIndex, MemoryTypeIndex, Requirements};
use crate::memory::allocator::Allocator;
use crate::memory::pool::{PlanSizes, Pool, WouldPlace, both_sets};
use crate::memory::request::{AllocationRequest, PoolShards};
use crate::memory::{AllocationError, AllocationOptions, ShortName};

/// The effect that a request would have; see [`Allocator::preview`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::preview::AllocationPreview;
///
/// let (tile, options) = (Requirements::new(1 << 20), MemoryUsage::GpuOnly.into());
/// match allocator.preview(&tile, &options)? {
///     AllocationPreview::Fits { memory_type } => println!("into a block of memory type {memory_type}"),
///     AllocationPreview::Grows { heap, bytes, .. } => {
///         println!("{bytes} bytes of heap {heap}: in a loading screen rather than now");
///     }
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationPreview {
    /// The request fits into memory that the allocator already has.
    Fits {
        /// The memory type of that memory.
        memory_type: MemoryTypeIndex,
    },
    /// The allocator would allocate a block from the driver.
    Grows {
        /// The memory type of the block.
        memory_type: MemoryTypeIndex,
        /// The heap of that type.
        heap: MemoryHeapIndex,
        /// The size of the block.
        bytes: u64,
    },
}

impl<D: Device> Allocator<D> {
    /// Returns what serving a request would do now: use free room, or allocate a block of which size.
    ///
    /// Other threads may change the outcome between the preview and the request. A request that is refused destroys what
    /// the GPU has finished with, frees empty blocks and tries once more; the preview does not count on the room that this
    /// makes.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// println!("{:?}", allocator.preview(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.into())?);
    /// assert_eq!(allocator.statistics().blocks, 0, "nothing was allocated");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What [`allocate`](Self::allocate) would be refused with by the allocator's own rules; what the
    /// driver would say, only asking it tells.
    #[inline(never)]
    pub fn preview(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<AllocationPreview, AllocationError> {
        self.would_serve(&AllocationRequest::new(requirements, options), |of, request| {
            let preview = self.preview_shards(of.shards, of.set, request);
            preview.or_else(|refused| match of.pool {
                None => self.preview_among_others(of.memory_type, request, refused),
                Some(pool) => self.preview_in_other_set(pool, of.set, request, refused),
            })
        })
    }

    /// Previews what [`place_in_other_set`](Self::place_in_other_set) does for a request that was refused.
    fn preview_in_other_set(
        &self,
        pool: &Pool,
        set: usize,
        request: &AllocationRequest<'_>,
        refused: AllocationError,
    ) -> Result<AllocationPreview, AllocationError> {
        let Some(other) = pool.other_set(set).filter(|_| refused.falls_through()) else {
            return Err(refused);
        };
        if let Some(memory_type) = self.pools.would_place_in_any(pool.shards(), other, request)? {
            return Ok(AllocationPreview::Fits { memory_type });
        }
        Err(self.pools.with_room_of(both_sets(pool, [set, other]), refused))
    }

    /// Previews an allocation from one memory type of a pool.
    fn preview_shards(
        &self,
        shards: PoolShards,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<AllocationPreview, AllocationError> {
        let own = shards.own();
        self.pools.shard(shards, own)?;
        let preview = self.preview_from_pool(own, set, request);
        if matches!(preview, Ok(AllocationPreview::Fits { .. }))
            || !self.pools.others_have_memory(shards, own)
        {
            return preview;
        }
        // Room in other shards counts where they lend it, and where no block can be allocated, as in `allocate_from_shards`.
        let others = self.pools.would_place_in_others(shards, (own, set), preview.is_err(), request)?;
        if let Some(memory_type) = others {
            return Ok(AllocationPreview::Fits { memory_type });
        }
        preview.map_err(|refused| self.pools.with_room_of(shards.indices().map(|pool| (pool, set)), refused))
    }

    /// Previews what [`place_among_others`](Self::place_among_others) does for a request that was refused.
    fn preview_among_others(
        &self,
        memory_type: MemoryTypeIndex,
        request: &AllocationRequest<'_>,
        refused: AllocationError,
    ) -> Result<AllocationPreview, AllocationError> {
        if !refused.falls_through() {
            return Err(refused);
        }
        for others in self.pools.default_pools_of_others(memory_type, request) {
            if let Some(memory_type) = self.pools.would_place_in_any(others, 0, request)? {
                return Ok(AllocationPreview::Fits { memory_type });
            }
        }
        Err(self.pools.with_room_of_all_groups(memory_type, request, refused))
    }

    /// Previews a request for one memory type of one shard.
    fn preview_from_pool(
        &self,
        pool: u32,
        set: usize,
        request: &AllocationRequest<'_>,
    ) -> Result<AllocationPreview, AllocationError> {
        let slot = self.pools.get(pool).ok_or(AllocationError::WrongPool { name: ShortName::NONE })?;
        let (plan, rounded, (memory_type, heap), terms) = match self.pools.would_place(slot, set, request)? {
            WouldPlace::Fits { memory_type } => return Ok(AllocationPreview::Fits { memory_type }),
            WouldPlace::NeedsBlock { plan, rounded, of, terms } => (plan, rounded, of, terms),
        };
        // From here on without the lock: a check against the budget may query the driver, which can take milliseconds.

        // Never returned: a plan has at least one size.
        let mut refused = AllocationError::ZeroSize { name: ShortName::NONE };
        let mut first = true;
        let room = self.heaps().room_for_block(self.device(), heap);
        for (bytes, _) in plan.attempts(PlanSizes::All, room, &rounded) {
            let terms = plan.terms(bytes, terms);
            if let Some(known) = self.heaps().refused_before(self.device(), memory_type, bytes, terms) {
                request.note_answered();
                // As in `allocate_block`: without a number of bytes, no smaller size is tried after the first.
                if first && known.refused_bytes(request.at_last).is_none() {
                    return Err(known);
                }
                (refused, first) = (known, false);
                continue;
            }
            match self.heaps().check(self.device(), memory_type, bytes, terms.budget) {
                Ok(()) => return Ok(AllocationPreview::Grows { memory_type, heap, bytes }),
                Err(error) if error.falls_through() => (refused, first) = (error, false),
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }
}
