//! Step 3 of a request (`allocator/allocate.rs`): it is rounded up to what the pool and its memory need.

use allotment_suballoc::{Algorithm, Alignment, FitStrategy, Request, StackSide};

use super::PoolState;
use crate::choices::blocks::BlockSize;
use crate::device::{DedicatedNeed, Device, Priority, ResourceKind};
use crate::memory::block_set::{Role, Sizes, UsableBlocks, is_aligned_coarsely, round_up};
use crate::memory::pool::dedicated::block_role;
use crate::memory::request::AllocationRequest;
use crate::memory::{AllocationError, Dedicated, NewBlocks, ShortName};

/// A spare block becomes a shared one for a small request if it has at most this many times the bytes of the next block.
const SHARED_SPARE_FACTOR: u64 = 2;

/// A request, rounded for one block set of one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundedRequest {
    pub(crate) request: Request,
    pub(crate) sizes: Sizes,
    /// Bytes of the block that the set would allocate next.
    pub(crate) block_size: u64,
    /// The kind of block that the request wants.
    pub(crate) role: Role,
    /// The driver prefers a dedicated block for the resource, so that it shares one only to save a frame from waiting.
    pub(crate) prefers_dedicated: bool,
    /// Bytes of the largest spare block that may become a shared one for this request.
    pub(crate) largest_spare: u64,
    /// The memory is allocated for one resource, and the API knows it: no other resource may be bound to it. Only with
    /// [`Role::DedicatedToAllocation`].
    pub(crate) dedicated_to_resource: bool,
    /// The residency priority of a dedicated block.
    pub(crate) priority: Priority,
    /// Few memory objects are left.
    pub(crate) scarce: bool,
    /// All memory types have refused the request: a memory object for it alone is better than a refusal.
    pub(crate) at_last: bool,
    /// Of the blocks that exist.
    pub(crate) usable: UsableBlocks,
}

impl<D: Device> PoolState<D> {
    /// Rounds a request up to what the pool and its memory need, and decides which kind of block it wants.
    ///
    /// `scarce` says that few memory objects are left.
    pub(super) fn round_request(
        &self,
        set: usize,
        request: &AllocationRequest<'_>,
        scarce: bool,
    ) -> Result<RoundedRequest, AllocationError> {
        // Only linear blocks have two ends to allocate from.
        if request.options.side == StackSide::Upper && self.rules.algorithm != Algorithm::Linear {
            return Err(AllocationError::UpperSide { name: ShortName::NONE });
        }
        let (occupied, alignment) = self.rounded_size(set, request);
        let block_size = match self.rules.sizing {
            // The number of memory objects is what runs out now, not their bytes: the largest block makes the fewest.
            BlockSize::Growing(sizes) if scarce => sizes.largest_in(self.sets[set].heap_size),
            _ => self.next_block_size(set),
        };
        let role =
            block_role(request, occupied, (self.rules.sizing, self.rules.dedicated), block_size, scarce)?;
        let prefers_dedicated =
            role == Role::Dedicated && request.requirements.dedicated == DedicatedNeed::Preferred;
        let largest_spare = match role {
            // A larger one stays spare: the next request of its size would otherwise allocate such a block again.
            Role::Shared => block_size.saturating_mul(SHARED_SPARE_FACTOR),
            _ if prefers_dedicated => 0,
            // A size that was never freed may not come again: dedicated memory of it would soon be in the way, as the
            // spare block is now. Not while much is wasted already, since parts of a shared block are harder to reuse.
            Role::Dedicated
                if !self.sets[set].history.was_freed(occupied) && self.sets[set].wastes_little() =>
            {
                u64::MAX
            }
            Role::Dedicated | Role::DedicatedToAllocation => 0,
        };
        Ok(RoundedRequest {
            request: Request {
                size: occupied,
                alignment,
                strategy: request.options.strategy,
                side: request.options.side,
            },
            sizes: Sizes { requested: request.requirements.size, occupied },
            block_size,
            role,
            prefers_dedicated,
            largest_spare,
            dedicated_to_resource: false,
            priority: request.options.priority,
            scarce,
            at_last: request.at_last,
            usable: UsableBlocks::ALL,
        })
    }

    /// Returns the size and the alignment of the range that a request gets.
    pub(super) fn rounded_size(&self, set: usize, request: &AllocationRequest<'_>) -> (u64, Alignment) {
        let needs = &request.requirements;
        let multiple = self.size_multiple(set, request.requirements.kind);
        // `check_size` limited the size to `MAX_SIZE`, so that rounding it up stays far below 2^64. Size and offset are
        // both multiples, so that the range shares its last granularity page or atom with no neighbour.
        let (size, alignment) =
            (multiple.align_up(needs.size), needs.alignment.max(self.rules.alignment).max(multiple));
        if is_aligned_coarsely(size, alignment) {
            return (self.rounded_to_parts(set, (size, alignment), request), alignment);
        }
        (size, alignment)
    }

    /// Returns the size of the range for a request that is small beside its alignment. What that adds lies between two places of
    /// the alignment, where there mostly is room.
    #[cold]
    fn rounded_to_parts(
        &self,
        set: usize,
        (size, alignment): (u64, Alignment),
        request: &AllocationRequest<'_>,
    ) -> u64 {
        let rounded = round_up(size, alignment);
        let (needs, options) = (&request.requirements, request.options);
        // Whether a request is served must not depend on it, so it is for pools that get another block, and not once the driver has
        // refused one. The other algorithms keep no ranges.
        let may_grow = matches!(self.rules.sizing, BlockSize::Growing(_))
            && self.rules.max_blocks == u32::MAX
            && options.new_blocks == NewBlocks::Allowed
            && !request.at_last;
        let shares = self.rules.algorithm == Algorithm::Tlsf
            && rounded <= self.sets[set].always_shared
            && needs.dedicated == DedicatedNeed::None
            && options.dedicated != Dedicated::Always;
        // The other strategies look for the place that the exact size fits best, and at no range that waits.
        let reuses = matches!(options.strategy, FitStrategy::Balanced | FitStrategy::LeastTime);
        if may_grow && shares && reuses { rounded } else { size }
    }

    /// Returns what the sizes and offsets of resources of a kind are multiples of.
    pub(super) fn size_multiple(&self, set: usize, kind: ResourceKind) -> Alignment {
        // Linear resources need no rounding: an optimal image that fills whole pages leaves them pages of their own
        // (`bufferImageGranularity`).
        let granularity = if kind.is_optimal() { self.rules.granularity } else { Alignment::ONE };
        // A flush of one allocation writes whole atoms, which must hold no byte of another allocation.
        granularity.max(self.sets[set].flush_multiple)
    }
}
