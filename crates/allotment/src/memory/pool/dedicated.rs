//! Dedicated memory: this file alone decides which allocations get it.
//!
//! A dedicated block is a memory object that holds one allocation. It wastes nothing inside, and drivers may
//! prefer or require it for a resource; but each costs a driver call, and Vulkan guarantees no more than 4096
//! memory objects at once (`maxMemoryAllocationCount`).
//!
//! | question | asked by | answered by |
//! |---|---|---|
//! | What kind of block does a request want? | `PoolState::round_request` | [`block_role`] |
//! | May it share a block where one has room? | `PoolState::place_in_existing` | [`PoolState::may_share_block`] |
//! | May it get dedicated memory where the driver refuses a shared block? | `PoolState::plan_block` | [`is_last_resort`] |
//! | Is a resource created together with its memory, so that the API knows? | `create_buffer`, `create_image` | [`Pools::dedicated_for_resource`] |
//!
//! Worked example, with the default [`BlockSizes`] (4 to 256 MiB, a 32nd of what the pool has; dedicated above a quarter
//! of that): a pool has 1 GiB of blocks on a heap of 8 GiB, so its next block has 32 MiB. A texture of 7 MiB shares a
//! block. One of 20 MiB wants a dedicated block. It takes room in a shared block where there is some; else it gets a
//! dedicated block of 20 MiB, which stays cached when it is freed. One of 7 MiB that the driver wants to be dedicated
//! gets a dedicated block as well, unless the request or the pool says [`Dedicated::Never`].
//!
//! What came back before decides about the cached block of 20 MiB (`block_set/history.rs`):
//!
//! - A request of 19 MiB takes it: no more than an eighth of 19 MiB is idle.
//! - A request of 12 MiB whose size was never freed before shares it, as long as the pool wastes little: sizes that change
//!   with every batch would otherwise cost two driver calls each.
//! - A request of 12 MiB whose size was freed lately gets a dedicated block of its own, since it will come again; so do
//!   all once a 16th of the bytes in use is wasted. If the pool then has more than it needed lately, the block of
//!   20 MiB is freed first: at once if 20 MiB did not come back since, else when it has been idle for three frames.

use crate::choices::blocks::BlockSize;
use crate::choices::blocks::BlockSizes;
use crate::device::{DedicatedNeed, Device};
use crate::memory::block_set::Role;
use crate::memory::pool::pools::Pools;
use crate::memory::pool::{PoolState, RoundedRequest};
use crate::memory::request::AllocationRequest;
use crate::memory::{AllocationError, Dedicated, ExpectedLifetime, NewBlocks, Pool, ShortName};

/// Returns what kind of block a request wants, in a pool whose next block has `block_size` bytes.
///
/// `occupied` is the request's size, rounded for its pool. `automatic` is what [`Dedicated::Automatic`] means in the pool, and
/// `scarce` says that few memory objects are left.
///
/// # Errors
///
/// [`AllocationError::DedicatedInFixedPool`] and [`AllocationError::DedicatedRequired`], where the pool or the
/// request rule out what the request or the device require.
pub(super) fn block_role(
    request: &AllocationRequest<'_>,
    occupied: u64,
    (pool, automatic): (BlockSize, Dedicated),
    block_size: u64,
    scarce: bool,
) -> Result<Role, AllocationError> {
    let need = request.requirements.dedicated;
    let wish = wish(request, automatic);
    let required = wish == Dedicated::Always || need == DedicatedNeed::Required;
    let sizes = match pool {
        // A pool with blocks of a fixed size promises that every one of its memory objects has that size.
        BlockSize::Fixed(_) if required => {
            return Err(AllocationError::DedicatedInFixedPool { name: ShortName::NONE });
        }
        BlockSize::Fixed(_) => return Ok(Role::Shared),
        BlockSize::Growing(sizes) => sizes,
    };
    if wish == Dedicated::Never {
        // The API forbids to bind such a resource to shared memory, so the contradiction is an error here rather than
        // undefined behaviour in the driver.
        return match need {
            DedicatedNeed::Required => Err(AllocationError::DedicatedRequired { name: ShortName::NONE }),
            _ => Ok(Role::Shared),
        };
    }
    if required {
        return Ok(Role::DedicatedToAllocation);
    }
    // Near the limit of memory objects a request shares a block wherever it fits one: waste can be afforded, the
    // refusal of every later request cannot.
    let large = if scarce { occupied > block_size } else { sizes.is_dedicated(occupied, block_size) };
    let dedicated = need == DedicatedNeed::Preferred || large;
    Ok(if dedicated { Role::Dedicated } else { Role::Shared })
}

/// Returns what a request wishes, where [`Dedicated::Automatic`] means `automatic`.
fn wish(request: &AllocationRequest<'_>, automatic: Dedicated) -> Dedicated {
    match (request.options.dedicated, request.requirements.dedicated) {
        // A need is a fact about the resource, which only the request itself can contradict.
        (Dedicated::Automatic, DedicatedNeed::None | DedicatedNeed::Preferred) => automatic,
        (own, _) => own,
    }
}

/// True where a request for a shared block may get a dedicated one when the driver refuses every size of a block.
///
/// A dedicated block is the smallest memory object that can serve the request. Only [`Dedicated::Never`] rules
/// it out, of the request or of its pool; then the request fails.
pub(super) fn is_last_resort(request: &AllocationRequest<'_>, automatic: Dedicated) -> bool {
    wish(request, automatic) != Dedicated::Never
}

impl BlockSize {
    /// Returns the size up to which a request shares blocks whatever the pool has, unless it asks for dedicated memory or its
    /// resource needs that.
    pub(super) fn always_shared(&self, heap_size: u64, automatic: Dedicated) -> u64 {
        match self {
            _ if automatic == Dedicated::Always => 0,
            Self::Fixed(_) => u64::MAX,
            // The next block never has less. The second where memory objects are scarce, in a small heap.
            Self::Growing(sizes) => sizes.smallest.min(sizes.largest_in(heap_size)),
        }
    }
}

impl BlockSizes {
    /// Returns the size above which no request shares a block, unless it asks for that.
    pub(in crate::memory) fn most_shared(&self) -> u64 {
        (self.largest / self.dedicated_threshold_divisor).max(self.smallest)
    }

    /// True when `size` bytes are too large for a block of `block_size`, so that the request gets dedicated memory.
    ///
    /// The threshold is a part of the block, since few requests that are nearly as large as a block fill it well:
    /// `docs/measurements/2026-11-25-reserved.md` compares parts.
    fn is_dedicated(&self, size: u64, block_size: u64) -> bool {
        // Up to `smallest` bytes a driver call for each request would cost more than the waste that it saves.
        size > (block_size / self.dedicated_threshold_divisor).max(self.smallest)
    }
}

impl<D: Device> PoolState<D> {
    /// True where a request of `size` shares blocks, unless it asks for dedicated memory or its resource needs that. Where memory
    /// objects are scarce, larger ones share blocks as well.
    #[inline]
    pub(super) fn shares_blocks(&self, set: usize, size: u64) -> bool {
        size <= self.sets[set].always_shared || self.is_part_of_next_block(set, size)
    }

    #[inline(never)]
    fn is_part_of_next_block(&self, set: usize, size: u64) -> bool {
        let BlockSize::Growing(sizes) = self.rules.sizing else { return false };
        let automatic = self.rules.dedicated == Dedicated::Automatic;
        automatic && size <= self.next_block_size(set) / sizes.dedicated_threshold_divisor
    }

    /// True where a request that wants a block of this role may use room in a shared block.
    ///
    /// A large request takes room that is there: memory of its own would be added to that room, which often no other
    /// request fills. Where the driver prefers dedicated memory for a resource, the resource shares a block only to save
    /// a frame from waiting for the driver: blocks that a reservation or a watermark allocated ahead of demand exist for
    /// such requests too, and while the application counts frames a driver call would fall into one.
    pub(super) fn may_share_block(&self, rounded: &RoundedRequest) -> bool {
        !rounded.prefers_dedicated
            || self.rules.ahead.is_some()
            || self.clock.has_frames
            || self.holds_reserve()
    }
}

/// Whether a resource is created together with dedicated memory, so that the API knows that it is dedicated
/// (`VkMemoryDedicatedAllocateInfo`, a committed resource).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DedicatedForResource {
    /// The resource is bound to an allocation that is made first; that may share a block.
    No,
    /// Dedicated memory first; where that is refused, any other.
    Preferred,
    /// Dedicated memory or none.
    Required,
}

impl<D: Device> Pools<D> {
    /// Decides whether a resource is created together with its memory.
    ///
    /// `has_options` says that the caller passed options of the API for this memory.
    pub(crate) fn dedicated_for_resource(
        &self,
        request: &AllocationRequest<'_>,
        has_options: bool,
    ) -> DedicatedForResource {
        let pool = request.options.pool.as_ref();
        let wish = wish(request, pool.map_or(self.desc.dedicated, Pool::dedicated));
        match (wish, request.requirements.dedicated) {
            // Options are properties of a memory object: export, import, protection. A shared block has its pool's.
            _ if has_options => DedicatedForResource::Required,
            (Dedicated::Always, _) => DedicatedForResource::Required,
            // Where the device requires dedicated memory, `block_role` refuses the request with the reason.
            (Dedicated::Never, _) => DedicatedForResource::No,
            (Dedicated::Automatic, DedicatedNeed::Required) => DedicatedForResource::Required,
            // A custom pool exists so that its resources share its blocks; only what must be dedicated is.
            _ if request.options.pool.is_some() => DedicatedForResource::No,
            (Dedicated::Automatic, DedicatedNeed::Preferred) if self.may_prefer_dedicated(request) => {
                DedicatedForResource::Preferred
            }
            _ => DedicatedForResource::No,
        }
    }

    /// True where the driver's preference for dedicated memory is followed.
    fn may_prefer_dedicated(&self, request: &AllocationRequest<'_>) -> bool {
        // A resource that lives for a few frames does not repay the driver calls that allocate and free its memory.
        request.options.lifetime == ExpectedLifetime::Long
            && request.options.new_blocks == NewBlocks::Allowed
            // Nothing allocates dedicated memory ahead of demand, so the thread that records a frame would wait.
            && !self.grows_ahead()
            && !self.heaps.objects_are_scarce(self.device())
    }
}
