//! The library, on a simulated GPU: plans do not depend on the device.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{MemoryHandle as _, MemoryTypeIndex};
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockSize, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
};
use allotment::{
    Alignment, Allocation, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc,
    Requirements, ResourceKind,
};

use super::contents::Contents;
use super::outcome::{Outcome, OwnBound};
use super::state::{ALIGNMENT, BLOCK, State, Wanted};
use crate::clock::thread_cpu_time;
use crate::failure::Failure;

pub(super) const NAME: &str = "allotment";

/// Wraps an error of the library.
pub(super) fn refused(error: impl core::error::Error) -> Failure {
    Failure::Setup { contender: NAME, error: error.to_string() }
}

/// A pool with blocks of one size, and its allocations.
pub(super) struct Ours {
    pub(super) allocator: Allocator<SimulatedGpu>,
    pub(super) pool: Pool,
    pub(super) live: Vec<Allocation>,
}

/// An allocation that may be moved.
pub(super) fn movable(wanted: Wanted) -> Result<(Requirements, AllocationOptions), Failure> {
    let alignment = Alignment::new(ALIGNMENT).map_err(refused)?;
    let requirements = Requirements::new(wanted.size).with_alignment(alignment);
    let kind = if wanted.optimal { ResourceKind::OptimalImage } else { ResourceKind::Buffer };
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_movability(Movability::Copied);
    Ok((requirements.with_kind(kind), options))
}

impl Ours {
    pub(super) fn empty(granularity: u64, min_blocks: u32) -> Result<Self, Failure> {
        let Some(mut profile) = Profile::named("discrete-large-bar") else {
            unreachable!("a built-in profile")
        };
        profile.limits.buffer_image_granularity = Alignment::new(granularity).map_err(refused)?;
        let allocator =
            Allocator::new(SimulatedGpu::new(profile), AllocatorDesc::default()).map_err(refused)?;
        let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
        desc.sizing = Some(BlockSize::Fixed(BLOCK));
        desc.min_blocks = min_blocks;
        desc.empty_blocks = EmptyBlockPolicy::NONE;
        let pool = allocator.create_pool(desc).map_err(refused)?;
        Ok(Self { allocator, pool, live: Vec::new() })
    }

    pub(super) fn new(state: &State) -> Result<Self, Failure> {
        let mut made = Self::empty(state.granularity, state.min_blocks)?;
        let mut all = Vec::new();
        for &wanted in &state.wanted {
            all.push(Some(made.allocate(wanted)?));
        }
        for &gone in &state.gone {
            all[gone].take().map_or(Ok(()), |gone| made.allocator.free(gone)).map_err(refused)?;
        }
        made.live = all.into_iter().flatten().collect();
        Ok(made)
    }

    pub(super) fn allocate(&self, wanted: Wanted) -> Result<Allocation, Failure> {
        let (requirements, options) = movable(wanted)?;
        self.allocator.allocate(&requirements, &options.clone().with_pool(&self.pool)).map_err(refused)
    }

    fn contents(&self) -> Result<Contents, Failure> {
        let mut places = Vec::new();
        for allocation in &self.live {
            let place = self.allocator.location(allocation).map_err(refused)?;
            places.push((place.memory.to_raw(), place.size));
        }
        Ok(Contents::of(self.allocator.reports().blocks().len() as u32, places))
    }

    /// Returns the bound by the library's own count, which is in ranges rather than requested bytes.
    fn own_bound(&self) -> Result<OwnBound, Failure> {
        let desc = DefragmentationDesc::new(DefragmentationStrategy::Full);
        let mut look = Defragmentation::new(&self.allocator, Some(&self.pool), desc).map_err(refused)?;
        let said = look.plan().lower_bound_bytes;
        let blocks = self.allocator.reports().blocks();
        let in_use: Vec<_> = blocks.iter().map(|block| block.ranges).collect();
        let occupied: u64 = in_use.iter().map(|ranges| ranges.allocated + ranges.padding).sum();
        let mut needed: Vec<_> = in_use
            .iter()
            .filter(|ranges| ranges.allocation_count != 0)
            .map(|ranges| ranges.allocated)
            .collect();
        needed.sort_unstable();
        let beyond = needed.len().saturating_sub(occupied.div_ceil(BLOCK) as usize);
        Ok(OwnBound { said, counted: needed.into_iter().take(beyond).sum() })
    }

    fn free_all(self) -> Result<(), Failure> {
        for allocation in self.live {
            self.allocator.free(allocation).map_err(refused)?;
        }
        self.allocator.destroy_pool(self.pool).map_err(refused)
    }
}

/// Creates a state and defragments it.
pub(super) fn run(
    state: &State,
    strategy: DefragmentationStrategy,
    moves_per_pass: Option<u32>,
) -> Result<Outcome, Failure> {
    let ours = Ours::new(state)?;
    let own_bound = Some(ours.own_bound()?);
    let mut outcome = Outcome { before: ours.contents()?, own_bound, ..Outcome::default() };
    let limits = match moves_per_pass {
        None => PassLimits::NONE,
        Some(moves) => PassLimits::default().with_bytes(u64::MAX).with_moves(moves),
    };
    let desc = DefragmentationDesc::new(strategy).with_limits(limits);
    let mut defragmentation =
        Defragmentation::new(&ours.allocator, Some(&ours.pool), desc).map_err(refused)?;
    loop {
        let start = thread_cpu_time();
        let next = defragmentation.next_pass();
        let found = thread_cpu_time();
        outcome.found.push(found - start);
        match next {
            NextPass::Moves(pass) => {
                pass.end();
                outcome.ended += thread_cpu_time() - found;
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
    let done = defragmentation.statistics();
    drop(defragmentation);
    (outcome.bytes_moved, outcome.moves, outcome.passes) = (done.bytes_moved, done.moves.into(), done.passes);
    outcome.after = ours.contents()?;
    ours.free_all()?;
    Ok(outcome)
}
