//! The plan: which blocks to empty, in which order, and a place for each allocation in them.
//!
//! ```text
//!   blocks by price   [▓░░░] [▓▓░░] [░▓▓░] [▓▓▓░] [▓▓░▓]
//!                      └── emptied ─┘   └─── stay ────┘
//!   free ranges of the blocks that stay, by size      ░ ░ ░░ …
//! ```
//!
//! The selected blocks are planned by price, and the allocations of each by size, the largest first. Each allocation
//! gets the smallest free range that holds it, among the blocks that stay. If one finds none, its block stays, too, and
//! its free ranges serve the blocks planned after it. So no allocation is moved into a block that is emptied later,
//! each is moved at most once, and no byte is copied for a block that is not emptied. The blocks that stay are tried
//! once more after that (`second_look.rs`).
//!
//! # Cost
//!
//! Surveying n allocations and planning take O(n log n), some 0.5 µs and 170 bytes an allocation. All of it can be
//! interrupted, except the sorting and the selection of blocks.

use core::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::desc::DefragmentationStrategy;
use super::holes::{Cut, Holes};
use super::pace::Pace;
use super::packing::{measure, pack};
use super::second_look::look_again;
use super::selection::{Candidate, candidates, select};
use super::survey::{Arena, Survey, SurveyedArena};
use crate::device::Device;
use crate::memory::allocator::Allocator;
use crate::memory::mover::Mover;

/// The expected gain of a defragmentation, as of its planning.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, DefragmentationStrategy};
///
/// let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
/// let mut run = Defragmentation::new(&allocator, None, full)?;
/// let plan = run.plan();
/// println!("{} of {} blocks, at best {}", plan.blocks - plan.blocks_freed(), plan.blocks, plan.ideal_blocks);
/// println!("{} moves of {} bytes in all", plan.moves(), plan.bytes_moved());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefragmentationPlan {
    /// Memory objects that hold allocations: blocks and dedicated memory.
    pub blocks: u32,
    /// Bytes of these memory objects.
    pub block_bytes: u64,
    /// Bytes of the allocations in them, including rounding and padding.
    pub occupied_bytes: u64,
    /// The least number of them that could hold these bytes, if all allocations could be moved and packed without loss.
    pub ideal_blocks: u32,
    /// The least bytes that any plan must copy to reach [`ideal_blocks`](Self::ideal_blocks), as far as blocks can be
    /// emptied: the sum over the cheapest blocks.
    pub lower_bound_bytes: u64,
    /// The blocks to empty, in order of price. Where blocks are of one size, each prefix of the list is the best plan
    /// for the bytes that it copies.
    pub steps: Vec<PlannedBlock>,
    /// Blocks that the plan leaves to the other movers of the allocator, which are
    /// [`Defragmenter`](crate::memory::Defragmenter)s and runs of passes: they move all or some of the allocations in it.
    pub left_to_others: u32,
}

/// A block that the plan empties.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # use allotment::memory::Movability;
/// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc};
/// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
/// allocator.free(tiles.remove(0))?;
/// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default())?;
/// let cheapest = run.plan().steps[0];
/// assert_eq!((cheapest.size, cheapest.bytes_moved, cheapest.moves), (4 << 20, 1 << 20, 1));
/// # drop(run);
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBlock {
    /// Bytes that it frees.
    pub size: u64,
    /// Bytes that are copied out of it.
    pub bytes_moved: u64,
    /// Allocations that are moved out of it.
    pub moves: u32,
}

impl DefragmentationPlan {
    /// Returns the number of blocks that the plan empties.
    #[must_use]
    pub fn blocks_freed(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Returns the bytes of these blocks.
    #[must_use]
    pub fn bytes_freed(&self) -> u64 {
        self.steps.iter().map(|step| step.size).sum()
    }

    /// Returns the bytes to copy.
    #[must_use]
    pub fn bytes_moved(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes_moved).sum()
    }

    /// Returns the number of allocations to move.
    #[must_use]
    pub fn moves(&self) -> u32 {
        self.steps.iter().map(|step| step.moves).sum()
    }

    /// Adds the sums of a survey.
    fn add_survey(&mut self, arena: &SurveyedArena) {
        let mut blocks: Vec<_> = arena.blocks.iter().filter(|block| !block.is_empty()).collect();
        let occupied: u64 = blocks.iter().map(|block| block.occupied).sum();
        self.blocks += blocks.len() as u32;
        self.left_to_others += blocks.iter().filter(|block| block.is_left_to_others()).count() as u32;
        self.block_bytes += blocks.iter().map(|block| block.size).sum::<u64>();
        self.occupied_bytes += occupied;
        // Bounds for the reader of a plan, to compare it with; the plan itself does not use them.
        // The fewest blocks that hold the bytes are the largest ones.
        blocks.sort_by_key(|block| Reverse(block.size));
        // Of blocks of 8, 8 and 4 with 10 bytes in all, the two large ones would do, so one is too many. To get rid of
        // one costs at least what the cheapest of the three does.
        let mut held = 0;
        let ideal = blocks.iter().take_while(|block| {
            let more = held < occupied;
            held += block.size;
            more
        });
        let ideal = ideal.count();
        self.ideal_blocks += ideal as u32;
        let too_many = blocks.len() - ideal;
        // Not a plan, only a bound: it ignores whether the allocations fit, so no real plan copies less.
        blocks.retain(|block| !block.pinned && !block.moved_by.are_others());
        blocks.sort_by_key(|block| block.cost);
        let cheapest = blocks.iter().take(too_many);
        self.lower_bound_bytes += cheapest.map(|block| block.cost).sum::<u64>();
    }
}

/// An allocation, and the block in which the plan found a place for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedMove {
    /// The shard of its record.
    pub(super) pool: u32,
    pub(super) record: u32,
    pub(super) generation: u32,
    /// The shard that has the block, and the block; `None` for an allocation that came after the survey.
    pub(super) to: Option<(u32, u32)>,
}

/// A block that the plan empties, with its moves.
#[derive(Debug)]
pub(super) struct PlannedEvacuation {
    pub(super) arena: Arena,
    pub(super) block: u32,
    pub(super) size: u64,
    /// Bytes that are copied out of it.
    pub(super) cost: u64,
    /// The largest allocation first.
    pub(super) moves: Vec<PlannedMove>,
    /// The shards whose blocks are joined, each with the requests that it had served; none where it is one.
    pub(super) joined: Arc<[(u32, u32)]>,
    /// The owners of its allocations accept the moves.
    pub(super) by_owners: bool,
}

impl PlannedEvacuation {
    /// Claims the block for a run. Returns false if another run has claimed or closed it.
    pub(super) fn claim<D: Device>(&self, allocator: &Allocator<D>, mover: Mover) -> bool {
        let slot = allocator.pools.get(self.arena.pool);
        slot.is_some_and(|slot| slot.claim((self.arena.set.into(), self.block), mover.key))
    }
}

impl Arena {
    /// Ends the claim of a run to a block, if it has one.
    pub(super) fn disclaim<D: Device>(self, allocator: &Allocator<D>, block: u32, mover: Mover) {
        let slot = allocator.pools.get(self.pool);
        slot.into_iter().for_each(|slot| slot.disclaim((self.set.into(), block), mover.key));
    }
}

/// A plan that is complete.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: DefragmentationPlan,
    pub(super) evacuations: Vec<PlannedEvacuation>,
    /// The offset of each move's place, in the order of the evacuations. A run finds the places anew when it reserves them.
    pub(super) offsets: Vec<u64>,
}

/// The blocks that a plan empties.
#[derive(Debug, Default)]
pub(super) struct EmptiedByPlan {
    pub(super) candidates: Vec<Candidate>,
    /// What the plan says of each.
    steps: Vec<PlannedBlock>,
    evacuations: Vec<PlannedEvacuation>,
    /// Of each block of each arena, whether the plan moves something into it. No set: there is an entry for each move.
    filled: Vec<Vec<bool>>,
    /// The offset of each move's place, in the order of the evacuations.
    offsets: Vec<u64>,
}

impl EmptiedByPlan {
    /// Adds a block for all of whose allocations places were found.
    pub(super) fn add(
        &mut self,
        arena: &SurveyedArena,
        candidate: &Candidate,
        placed: Vec<(PlannedMove, Cut)>,
    ) {
        self.note_filled(candidate.arena, &placed);
        // In the order of `evacuations`, and of the moves in each: `BlockLayout::plan` zips the two lists.
        self.offsets.extend(placed.iter().map(|(_, cut)| cut.offset));
        // In a vector of its own: one that is collected in place would keep the bytes of the cuts.
        let mut moves = Vec::with_capacity(placed.len());
        moves.extend(placed.into_iter().map(|(planned, _)| planned));
        let &Candidate { size, cost, .. } = candidate;
        let (home, block) = arena.block(candidate.block);
        self.steps.push(PlannedBlock { size, bytes_moved: cost, moves: moves.len() as u32 });
        let by_owners = arena.blocks[candidate.block].moved_by.are_owners();
        let (arena, joined) = (home, arena.joined_shards());
        self.evacuations.push(PlannedEvacuation { arena, block, size, cost, moves, joined, by_owners });
        self.candidates.push(*candidate);
    }

    /// Notes the blocks in which places were found.
    fn note_filled(&mut self, arena: usize, placed: &[(PlannedMove, Cut)]) {
        let filled = &mut self.filled[arena];
        placed.iter().for_each(|(_, cut)| filled[cut.block as usize] = true);
    }

    /// Returns whether the plan moves something into a block.
    pub(super) fn is_filled(&self, candidate: &Candidate) -> bool {
        self.filled[candidate.arena][candidate.block]
    }
}

/// Plans which blocks of a survey to empty, and where their allocations go.
pub(super) async fn plan(strategy: DefragmentationStrategy, mut survey: Survey, pace: &mut Pace) -> Planned {
    let mut plan = DefragmentationPlan::default();
    survey.arenas.iter().for_each(|arena| plan.add_survey(arena));
    let arenas = &mut survey.arenas;
    // What pauses nowhere, here and at the beginning of the second look, works with a few numbers for each block. Work for each
    // allocation has no place there: with many it would be a pause of milliseconds.
    let selected = select(strategy, arenas, &candidates(arenas));
    let filled = arenas.iter().map(|arena| vec![false; arena.blocks.len()]).collect();
    let mut emptied = EmptiedByPlan { filled, ..EmptiedByPlan::default() };
    // Of each arena, since nothing is moved from one to another.
    let mut holes: Vec<_> = arenas.iter().map(|_| Holes::default()).collect();
    // Without a block to empty, the free ranges would be collected for nothing.
    if !selected.is_empty() {
        measure_all(arenas, &selected, &mut holes, pace).await;
        // The cheapest block first, and each with what those before it have left:
        //   1  fits            its places are cut out of the holes
        //   2  does not fit    its places are joined to the holes again, and its own holes are added: it stays
        //   3  is tried with all of that
        // Block 3 may move into block 2, never the other way round: so nothing is moved into a block that is emptied
        // later.
        for candidate in &selected {
            let (arena, holes) = (&mut arenas[candidate.arena], &mut holes[candidate.arena]);
            match pack(arena, candidate, holes, pace).await {
                Some(placed) => emptied.add(arena, candidate, placed),
                None => {
                    let block = &mut arena.blocks[candidate.block];
                    if block.may_take() {
                        // Capacity for the blocks after it, which cost more per byte freed.
                        measure(candidate.block as u32, block, holes, pace).await;
                    }
                }
            }
        }
        look_again(strategy, arenas, &selected, &mut holes, &mut emptied, pace).await;
    }
    // Dropped in pieces, since freeing them takes time as well.
    while survey.drop_piece() {
        pace.step().await;
    }
    for mut holes in holes {
        while holes.drop_piece() {
            pace.step().await;
        }
    }
    let EmptiedByPlan { steps, evacuations, offsets, .. } = emptied;
    Planned { plan: DefragmentationPlan { steps, ..plan }, evacuations, offsets }
}

/// Collects the free ranges of the blocks that stay.
async fn measure_all(
    arenas: &mut [SurveyedArena],
    selected: &[Candidate],
    holes: &mut [Holes],
    pace: &mut Pace,
) {
    let going: HashSet<_> = selected.iter().map(|one| (one.arena, one.block)).collect();
    for (number, (arena, holes)) in arenas.iter_mut().zip(holes).enumerate() {
        // An arena of which no block is emptied needs no places.
        if !selected.iter().any(|one| one.arena == number) {
            continue;
        }
        for (at, block) in arena.blocks.iter_mut().enumerate() {
            // The free ranges of a selected block are added only if it turns out to stay.
            // Those of an empty block never are, which had better be freed, nor those of one that another run empties.
            if block.may_take() && !going.contains(&(number, at)) {
                measure(at as u32, block, holes, pace).await;
            }
            pace.step().await;
        }
    }
}
