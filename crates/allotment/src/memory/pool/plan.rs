//! Step 3 in a pool: which sizes of a new block the driver is asked for.

use allotment_suballoc::Algorithm;

use super::{BlockSize, Fitted, PoolState, Rules};
use crate::device::{Device, MemoryTypeIndex, Priority};
use crate::memory::block_set::{BlockSet, Role};
use crate::memory::{AllocationDesc, AllocationError, BudgetPolicy, Dedicated, Name, ShortName};

/// What the driver is to be asked for: sizes to try in turn.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Plan {
    pub(in crate::memory) role: Role,
    sizes: [u64; 4],
    count: usize,
    /// Ask for memory of exactly the request's size when none of the sizes can be had.
    own_memory_at_last: bool,
}

impl Plan {
    fn exactly(role: Role, size: u64) -> Self {
        Self { role, sizes: [size, 0, 0, 0], count: 1, own_memory_at_last: false }
    }

    pub(in crate::memory) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.sizes[..self.count].iter().copied()
    }

    /// What to ask for in turn, and as what, where a block should have no more than `room` bytes. What
    /// has no room is passed over for a smaller one, not for none.
    pub(in crate::memory) fn candidates(
        &self,
        room: u64,
        fitted: &Fitted,
    ) -> impl Iterator<Item = (u64, Role)> + use<'_> {
        let least = self.sizes().last().unwrap_or(0);
        let own = fitted.request.size;
        let at_last = (self.own_memory_at_last && own < least).then_some((own, Role::Own));
        let blocks = self.sizes().filter(move |&size| size <= room || size == least);
        blocks.map(|size| (size, self.role)).chain(at_last)
    }
}

/// Where new memory comes from, and on what terms.
#[derive(Debug)]
pub(in crate::memory) struct Source<D: Device> {
    pub(in crate::memory) memory_type: MemoryTypeIndex,
    pub(in crate::memory) wish: BudgetPolicy,
    /// Of a block that allocations share.
    pub(in crate::memory) priority: Priority,
    /// Of memory of its own.
    pub(in crate::memory) own_priority: Priority,
    pub(in crate::memory) options: Option<D::MemoryOptions>,
    /// Of the pool.
    pub(in crate::memory) name: Option<Name>,
}

impl<D: Device> PoolState<D> {
    pub(in crate::memory) fn next_block_size(&self, set: usize, heap_size: u64) -> u64 {
        match self.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => sizes.next(self.sets[set].statistics.block_bytes, heap_size),
        }
    }

    /// Bytes of the largest block that the pool may have.
    pub(in crate::memory) fn largest_block_size(&self, heap_size: u64) -> u64 {
        match self.rules.sizing {
            BlockSize::Fixed(size) => size,
            BlockSize::Growing(sizes) => sizes.largest_in(heap_size),
        }
    }

    /// What to ask the driver for, so that a request that found no room finds some.
    pub(in crate::memory) fn plan(
        &self,
        set: usize,
        fitted: &Fitted,
        desc: &AllocationDesc,
        heap_size: u64,
    ) -> Result<Plan, AllocationError> {
        // What no block can hold is refused for that, however many blocks there are.
        let plan = self.plan_sizes(set, fitted, desc, heap_size)?;
        let count = self.sets.iter().map(BlockSet::count).sum::<u32>() + self.pending;
        if count >= self.rules.max_blocks {
            let (free, largest_free) = self.sets[set].room();
            let (requested, max_blocks) = (fitted.sizes.requested, self.rules.max_blocks);
            return Err(AllocationError::PoolFull {
                requested,
                max_blocks,
                free,
                largest_free,
                name: ShortName::NONE,
            });
        }
        Ok(plan)
    }

    pub(super) fn plan_sizes(
        &self,
        set: usize,
        fitted: &Fitted,
        desc: &AllocationDesc,
        heap_size: u64,
    ) -> Result<Plan, AllocationError> {
        let requested = fitted.sizes.requested;
        if fitted.own_memory {
            let role = if fitted.tied { Role::Tied } else { Role::Own };
            return Ok(Plan::exactly(role, fitted.request.size));
        }
        let least = self.sets[set].least_block(fitted.request.size);
        let BlockSize::Growing(sizes) = self.rules.sizing else {
            let block_size = self.next_block_size(set, heap_size);
            if least > block_size {
                return Err(AllocationError::TooLargeForBlock {
                    requested,
                    block_size,
                    name: ShortName::NONE,
                });
            }
            return Ok(Plan::exactly(Role::Shared, block_size));
        };
        let block_size = sizes.largest_in(heap_size);
        let own_memory_at_last = desc.dedicated != Dedicated::Never;
        if least > block_size {
            if own_memory_at_last {
                return Ok(Plan::exactly(Role::Own, fitted.request.size));
            }
            return Err(AllocationError::TooLargeForBlock { requested, block_size, name: ShortName::NONE });
        }
        // What is wanted, then less and less of it, where the driver or the budget has not so much.
        let fitting = match self.rules.algorithm {
            Algorithm::Buddy => least,
            _ => least.next_multiple_of(sizes.smallest).min(block_size),
        };
        let wanted = fitted.block_size.max(fitting);
        let mut plan = Plan { role: Role::Shared, sizes: [0; 4], count: 0, own_memory_at_last };
        for shift in 0..4 {
            let size = wanted >> shift;
            if size >= least {
                plan.sizes[plan.count] = size;
                plan.count += 1;
            }
        }
        Ok(plan)
    }

    /// Where the memory comes from that a plan asks for.
    pub(in crate::memory) fn source(&self, set: usize, desc: &AllocationDesc) -> Source<D> {
        let strict = self.rules.budget == BudgetPolicy::WithinBudget;
        Source {
            memory_type: self.sets[set].memory_type,
            wish: if strict { BudgetPolicy::WithinBudget } else { desc.budget },
            priority: self.rules.priority,
            own_priority: desc.priority,
            options: self.rules.options.clone(),
            name: self.rules.name.clone(),
        }
    }

    /// Where a block comes from that is got ahead of need.
    pub(in crate::memory) fn source_ahead(&self, wish: BudgetPolicy) -> Source<D> {
        let memory_type = self.sets[0].memory_type;
        let Rules { priority, options, name, .. } = &self.rules;
        let (priority, options, name) = (*priority, options.clone(), name.clone());
        Source { memory_type, wish, priority, own_priority: priority, options, name }
    }
}
