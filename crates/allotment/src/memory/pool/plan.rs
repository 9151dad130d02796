//! Step 6 of a request (`allocator/allocate.rs`): which sizes of a new block the driver is asked for.
//!
//! Worked example, with the default `BlockSizes` (4 to 256 MiB, a 32nd of what the pool has; dedicated above a quarter of
//! that), on a heap of 8 GiB:
//!
//! | pool has | request | attempts, in order |
//! |---|---|---|
//! | nothing | 100 KiB | a shared block of 4 MiB, 2 MiB, 1 MiB, 512 KiB; after the other memory types a dedicated one of 100 KiB |
//! | nothing | 1.5 MiB | a shared block of 3 MiB, for two whole requests, or of 1.5 MiB |
//! | 1 GiB | 7 MiB | a shared block of 28 MiB, for four whole requests, 14 MiB, 7 MiB |
//! | 1 GiB | 20 MiB | a dedicated block of 20 MiB, as it exceeds a quarter of the next shared block, 32 MiB |
//!
//! In a pool with blocks of a fixed size there is one attempt, at that size.

use allotment_suballoc::Algorithm;

use super::{PoolState, RoundedRequest, Rules};
use crate::choices::blocks::BlockSize;
use crate::device::{Device, Mapping, MemoryTypeIndex, Priority};
use crate::memory::block_set::{BlockSet, Role};
use crate::memory::driver::Terms;
use crate::memory::pool::dedicated::is_last_resort;
use crate::memory::request::{AllocationRequest, Remembered};
use crate::memory::{AllocationError, BlockSizes, BudgetPolicy, Name, ShortName};

/// How many sizes of a shared block are tried: the wanted one, then halves of it down to an eighth.
///
/// Each attempt may be a driver call that fails; below an eighth, dedicated memory of the request's own size is the
/// better last attempt.
const SIZES: usize = 4;

/// Which sizes of a plan the driver is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanSizes {
    /// The largest that the figures allow.
    Wanted,
    /// Those below what was refused: the figures, by which sizes are left out, may have changed since.
    Below(u64),
    All,
}

/// A plan for a new block: sizes to ask the driver for in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlan {
    pub(super) role: Role,
    sizes: [u64; SIZES],
    count: usize,
    /// Ask for dedicated memory of exactly the request's size after all sizes were refused, by all memory types.
    dedicated_at_last: bool,
    /// All of it is a last resort: the request is small, and gets dedicated memory for want of a larger heap.
    is_last_resort: bool,
}

impl BlockPlan {
    fn exactly(role: Role, size: u64) -> Self {
        let mut sizes = [0; SIZES];
        sizes[0] = size;
        Self { role, sizes, count: 1, dedicated_at_last: false, is_last_resort: false }
    }

    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.sizes[..self.count].iter().copied()
    }

    /// Returns the terms for a size of the plan. Of what was refused before, the driver is asked once more for the least that
    /// serves the request, and for nothing larger.
    pub(crate) fn terms(&self, size: u64, terms: Terms) -> Terms {
        let is_least = self.sizes().last().is_none_or(|least| size <= least);
        Terms { remembered: if is_least { terms.remembered } else { Remembered::Holds }, ..terms }
    }

    /// Returns true where nothing is asked for before all other memory types were.
    pub(super) fn is_last_resort(&self) -> bool {
        self.is_last_resort
    }

    /// Returns the sizes to ask for in turn, and the role of each, where a block should have at most `room` bytes.
    pub(crate) fn attempts(
        &self,
        sizes: PlanSizes,
        room: u64,
        rounded: &RoundedRequest,
    ) -> impl Iterator<Item = (u64, Role)> + use<'_> {
        let least = self.sizes().last().unwrap_or(0);
        let size = rounded.request.size;
        let at_last = self.dedicated_at_last && rounded.at_last && size < least;
        let at_last = at_last.then_some((size, Role::Dedicated));
        // A block beyond the budget or a limit is skipped in favour of a smaller one. The smallest is tried even so:
        // whether a request may go over the budget is its own `BudgetPolicy`, and the refusal has to name a reason.
        let blocks = self.sizes().filter(move |&size| size <= room || size == least);
        let (below, count) = match sizes {
            PlanSizes::Wanted => (u64::MAX, 1),
            PlanSizes::Below(refused) => (refused, usize::MAX),
            PlanSizes::All => (u64::MAX, usize::MAX),
        };
        let all = blocks.map(|size| (size, self.role)).chain(at_last);
        all.filter(move |&(size, _)| size < below).take(count)
    }
}

/// A request of at least this part of the next block gets a block of whole requests.
const WHOLE_REQUESTS_DIVISOR: u64 = 16;
/// The same where the next block is the smallest: what such a pool wastes are few bytes, and small requests of many
/// sizes come first in most programs.
const WHOLE_REQUESTS_DIVISOR_SMALLEST: u64 = 4;
/// Blocks of whole requests have a multiple of this, the page of most drivers for large blocks.
const WHOLE_PAGES: u64 = 64 << 10;

/// Returns the bytes of the block for a request that is no small part of the next block: room for as many such requests
/// as fit the next block, and no more. `None` for other requests.
///
/// Programs ask for the same sizes again and again: layers, tiles, mip levels. Three requests of 5 MiB in a block of
/// 16 MiB leave 1 MiB that hardly any other request fills; in a block of 15 MiB they leave nothing.
fn whole_requests(rounded: &RoundedRequest, sizes: &BlockSizes, algorithm: Algorithm) -> Option<u64> {
    let block_size = rounded.block_size;
    let divisor =
        if block_size > sizes.smallest { WHOLE_REQUESTS_DIVISOR } else { WHOLE_REQUESTS_DIVISOR_SMALLEST };
    let each = rounded.request.alignment.align_up(rounded.request.size);
    // A buddy block has a power of two, and a linear one is filled in the order of the requests, whatever their sizes.
    // Where the application wants one size, blocks have that.
    let one_size = sizes.smallest == sizes.largest;
    if algorithm != Algorithm::Tlsf || one_size || each < block_size / divisor {
        return None;
    }
    Some(((block_size / each).max(1) * each).next_multiple_of(WHOLE_PAGES))
}

/// Where new memory comes from, and on what terms.
#[derive(Debug)]
pub(crate) struct Source<D: Device> {
    pub(crate) memory_type: MemoryTypeIndex,
    pub(crate) terms: Terms,
    /// The residency priority of a block that allocations share.
    pub(crate) priority: Priority,
    /// The residency priority of a dedicated block.
    pub(crate) dedicated_priority: Priority,
    pub(crate) options: Option<D::MemoryOptions>,
    /// The pool's debug name.
    pub(crate) name: Option<Name>,
}

impl<D: Device> PoolState<D> {
    /// Returns the bytes of the block that a set would allocate next.
    pub(super) fn next_block_size(&self, set: usize) -> u64 {
        match self.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => {
                let BlockSet { heap_size, ref statistics, .. } = self.sets[set];
                sizes.next(statistics.block_bytes, heap_size)
            }
        }
    }

    /// Returns the bytes of the largest block that a set may have.
    pub(super) fn largest_block_size(&self, set: usize) -> u64 {
        match self.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => sizes.largest_in(self.sets[set].heap_size),
        }
    }

    /// Plans the block that a request needs for which the existing ones have no room.
    pub(super) fn plan_block(
        &self,
        set: usize,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<BlockPlan, AllocationError> {
        // First, since a request that no block can hold fails for that reason, however many blocks the pool may have.
        let plan = self.plan_block_sizes(set, rounded, request)?;
        if self.has_all_blocks() { Err(self.full(set, rounded.sizes.requested)) } else { Ok(plan) }
    }

    /// Refuses a request for `requested` bytes, `size` of them with what it is rounded up to, that no block of a pool
    /// with a fixed block size can hold: more blocks would not help it.
    pub(super) fn check_fixed_block(
        &self,
        set: usize,
        size: u64,
        requested: u64,
    ) -> Result<(), AllocationError> {
        match self.rules.sizing {
            // A buddy block serves a request from a whole cell, a power of two.
            BlockSize::Fixed(block_size) if self.sets[set].least_block(size) > block_size => {
                Err(AllocationError::TooLargeForBlock { requested, block_size, name: ShortName::NONE })
            }
            BlockSize::Fixed(_) | BlockSize::Growing(_) => Ok(()),
        }
    }

    /// Returns true when the pool has as many blocks as it may have.
    pub(super) fn has_all_blocks(&self) -> bool {
        // Blocks that other threads are allocating count: `max_blocks` holds for them as well.
        self.sets.iter().map(BlockSet::count).sum::<u32>() + self.pending >= self.rules.max_blocks
    }

    /// Returns the refusal of a request for which a pool with [all its blocks](Self::has_all_blocks) has no room.
    pub(super) fn full(&self, set: usize, requested: u64) -> AllocationError {
        let (free, largest_free) = self.sets[set].free_and_largest();
        let max_blocks = self.rules.max_blocks;
        AllocationError::PoolFull { requested, max_blocks, free, largest_free, name: ShortName::NONE }
    }

    pub(super) fn plan_block_sizes(
        &self,
        set: usize,
        rounded: &RoundedRequest,
        request: &AllocationRequest<'_>,
    ) -> Result<BlockPlan, AllocationError> {
        let requested = rounded.sizes.requested;
        if rounded.role != Role::Shared {
            let mut plan = BlockPlan::exactly(rounded.role, rounded.request.size);
            // A heap of which an eighth is less than such a request: few objects are left, and another heap may have a
            // block for it.
            let small = |sizes: BlockSizes| rounded.request.size <= sizes.smallest;
            let chosen = rounded.role == Role::Dedicated && !rounded.prefers_dedicated;
            plan.is_last_resort = match self.rules.sizing {
                BlockSize::Growing(sizes) => rounded.scarce && chosen && small(sizes),
                BlockSize::Fixed(_) => false,
            };
            return Ok(plan);
        }
        self.check_fixed_block(set, rounded.request.size, requested)?;
        let least = self.sets[set].least_block(rounded.request.size);
        let too_large =
            |block_size| AllocationError::TooLargeForBlock { requested, block_size, name: ShortName::NONE };
        let sizes = match self.rules.sizing {
            BlockSize::Growing(sizes) => sizes,
            BlockSize::Fixed(block_size) => return Ok(BlockPlan::exactly(Role::Shared, block_size)),
        };
        let block_size = sizes.largest_in(self.sets[set].heap_size);
        let dedicated_at_last = is_last_resort(request, self.rules.dedicated);
        if least > block_size {
            // No shared block can ever hold the request.
            return match dedicated_at_last {
                true => {
                    let mut plan = BlockPlan::exactly(Role::Dedicated, rounded.request.size);
                    plan.is_last_resort = rounded.scarce && rounded.request.size <= sizes.smallest;
                    Ok(plan)
                }
                false => Err(too_large(block_size)),
            };
        }
        let fitting = match self.rules.algorithm {
            // Already a power of two.
            Algorithm::Buddy => least,
            // Not the next power of two: a request just above one would leave half of its block idle.
            _ => least.next_multiple_of(sizes.smallest).min(block_size),
        };
        // `fitting` is the larger one for a request that exceeds the next block and rules dedicated memory out.
        let wanted = whole_requests(rounded, &sizes, self.rules.algorithm)
            .unwrap_or(u64::MAX)
            .min(rounded.block_size.max(fitting));
        let mut plan = BlockPlan {
            role: Role::Shared,
            sizes: [0; SIZES],
            count: 0,
            dedicated_at_last,
            is_last_resort: false,
        };
        for shift in 0..SIZES {
            // Halves, since a driver or a budget that refuses the wanted size may allow a smaller one.
            let size = wanted >> shift;
            if size >= least {
                plan.sizes[plan.count] = size;
                plan.count += 1;
            }
        }
        Ok(plan)
    }

    /// Returns the stricter of a request's policy and the pool's: a pool that stays within the budget does so for every
    /// request.
    pub(super) fn budget_policy(&self, of_request: BudgetPolicy) -> BudgetPolicy {
        let strict = self.rules.budget == BudgetPolicy::WithinBudget;
        if strict { BudgetPolicy::WithinBudget } else { of_request }
    }

    /// Returns on what terms a request wants memory.
    pub(super) fn terms(&self, request: &AllocationRequest<'_>) -> Terms {
        let budget = self.budget_policy(request.options.budget);
        Terms { budget, mapping: request.mapping(), remembered: request.remembered, ahead: request.ahead }
    }

    /// Returns where the memory for a request comes from.
    pub(super) fn source(&self, set: usize, request: &AllocationRequest<'_>) -> Source<D> {
        let ahead = self.source_ahead(set, request.options.budget);
        Source { dedicated_priority: request.options.priority, terms: self.terms(request), ..ahead }
    }

    /// Returns where a block comes from that is allocated ahead of demand.
    pub(super) fn source_ahead(&self, set: usize, budget: BudgetPolicy) -> Source<D> {
        let memory_type = self.sets[set].memory_type;
        let Rules { priority, options, name, .. } = &self.rules;
        let (priority, options, name) = (*priority, options.clone(), name.clone());
        // A set whose first block the CPU accesses: the next will be accessed as well.
        let mapping = if self.sets[set].is_mapped() { Mapping::Required } else { Mapping::OnDemand };
        let terms = Terms { mapping, ..self.budget_policy(budget).into() };
        Source { memory_type, terms, priority, dedicated_priority: priority, options, name }
    }
}
