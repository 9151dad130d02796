//! A plan for blocks that no allocator has: those of a recording, or of a layout that someone asks about.
//!
//! It is the plan that a run makes: the same selection of blocks, and the same places. Only the survey differs. It is
//! made of a list, where a run reads the pools. Of equally large free ranges, that of the first block in the list is taken;
//! a run takes that of the first shard's blocks, so where the list has another order, its plan may differ.

use super::desc::DefragmentationStrategy;
use super::error::DefragmentationError;
use super::pace::Paced;
use super::plan::{DefragmentationPlan, Planned, plan};
use super::survey::{Arena, Survey, SurveyedArena, SurveyedBlock};
use crate::memory::Movability;
use crate::memory::mover::{MovedBy, MoverId};
use crate::memory::pool::SurveyedAllocation;
use allotment_suballoc::{Algorithm, Alignment};

/// The most bytes that all blocks of a layout have together, and all its allocations: sums of sums still fit 64 bits.
const MOST_BYTES: u64 = 1 << 60;

/// Blocks among which allocations are moved: of one memory type of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutArena {
    /// How the blocks are suballocated. Linear blocks take no moved allocation, and none of them is emptied.
    pub algorithm: Algorithm,
    /// The shared blocks that the pool keeps in any case.
    pub least_blocks: u32,
}

/// A block of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutBlock {
    /// The index of its arena.
    pub arena: u32,
    /// Bytes.
    pub size: u64,
    /// Several allocations share it. The other blocks are dedicated memory, which takes no moved allocation.
    pub shared: bool,
}

/// An allocation of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutAllocation {
    /// The index of its block.
    pub block: u32,
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Bytes of the block that it takes.
    pub occupied: u64,
    /// Bytes that it would ask for in another block: fewer than `occupied` where it has dedicated memory that is larger,
    /// or a cell of the buddy algorithm.
    pub size: u64,
    /// What its offset has to be a multiple of.
    pub alignment: Alignment,
    /// Whether it can be moved, and whether its bytes are copied then.
    pub movability: Movability,
}

/// A move that a plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutMove {
    /// The index of the allocation.
    pub allocation: u32,
    /// The index of the block that it is moved to.
    pub block: u32,
    /// Bytes that it takes there: with the buddy algorithm, a whole cell.
    pub occupied: u64,
    /// Bytes from the start of that block. A run finds the range anew, so the allocation may come to lie
    /// elsewhere in the block, or in another one that stays.
    pub offset: u64,
}

/// Blocks with their allocations, which no allocator has: those of a recording, for example.
///
/// ```
/// use allotment::memory::Movability;
/// use allotment::memory::defragmentation::DefragmentationStrategy;
/// use allotment::memory::defragmentation::layout::{
///     BlockLayout, LayoutAllocation, LayoutArena, LayoutBlock, LayoutMove,
/// };
/// use allotment::{Algorithm, Alignment};
///
/// let allocation = |block, offset| LayoutAllocation {
///     block,
///     offset,
///     occupied: 100,
///     size: 100,
///     alignment: Alignment::ONE,
///     movability: Movability::Copied,
/// };
/// let block = LayoutBlock { arena: 0, size: 1000, shared: true };
/// let layout = BlockLayout {
///     arenas: vec![LayoutArena { algorithm: Algorithm::Tlsf, least_blocks: 0 }],
///     blocks: vec![block, block],
///     allocations: vec![allocation(0, 0), allocation(0, 200), allocation(1, 0)],
/// };
/// let (plan, moves) = layout.plan(DefragmentationStrategy::Fast)?;
/// assert_eq!((plan.bytes_freed(), plan.bytes_moved()), (1000, 100));
/// assert_eq!(moves, [LayoutMove { allocation: 2, block: 0, occupied: 100, offset: 100 }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLayout {
    /// The arenas.
    pub arenas: Vec<LayoutArena>,
    /// The blocks.
    pub blocks: Vec<LayoutBlock>,
    /// The allocations, in any order. Those that share bytes have to be [pinned](Movability::Pinned).
    pub allocations: Vec<LayoutAllocation>,
}

impl BlockLayout {
    /// Plans a defragmentation, as [`Defragmentation::plan`](super::Defragmentation::plan) does for the pools of an
    /// allocator. Returns the plan, and its moves, block by block in the order of its steps. Costs some 0.5 µs and 170
    /// bytes for each allocation.
    ///
    /// # Errors
    ///
    /// [`DefragmentationError::ImpossibleLayout`].
    pub fn plan(
        &self,
        strategy: DefragmentationStrategy,
    ) -> Result<(DefragmentationPlan, Vec<LayoutMove>), DefragmentationError> {
        let (survey, blocks) = self.survey()?;
        // The plan of a run, without its pauses.
        let mut planning = Paced::new(move |mut pace| async move { plan(strategy, survey, &mut pace).await });
        let Some(Planned { plan, evacuations, offsets }) = planning.go_on(None) else {
            unreachable!("a plan that has all the time pauses nowhere")
        };
        let planned = evacuations.iter().flat_map(|evacuation| &evacuation.moves);
        let moves = planned.zip(offsets).filter_map(|(planned, offset)| {
            // The planner knows the block by its arena and its number there, the caller by its index in the list.
            let (arena, block) = planned.to?;
            let block = blocks[arena as usize][block as usize];
            let allocation = &self.allocations[planned.record as usize];
            Some(LayoutMove {
                allocation: planned.record,
                block,
                occupied: self.cell(arena, allocation.size),
                offset,
            })
        });
        let moves = moves.collect();
        Ok((plan, moves))
    }

    /// Surveys the layout. Blocks are numbered within their arena, as in a pool; the lists have the numbers that they have
    /// here.
    fn survey(&self) -> Result<(Survey, Vec<Vec<u32>>), DefragmentationError> {
        let mut sums = [0_u64; 2];
        let mut numbers: Vec<Vec<u32>> = self.arenas.iter().map(|_| Vec::new()).collect();
        let mut in_arena = Vec::with_capacity(self.blocks.len());
        let mut blocks: Vec<Vec<SurveyedBlock>> = self.arenas.iter().map(|_| Vec::new()).collect();
        for (index, block) in (0..).zip(&self.blocks) {
            let of_arena =
                blocks.get_mut(block.arena as usize).ok_or(DefragmentationError::ImpossibleLayout)?;
            // Checked once, here: the planner adds up bytes of blocks and of allocations without a check, and no partial sum
            // is more.
            sums[0] = add(sums[0], block.size)?;
            // A block that takes no part uses up no number. It gets one all the same, that of the block after it:
            // nothing looks it up, as its allocations take no part either.
            let number = of_arena.len() as u32;
            in_arena.push(number);
            if self.takes_part(block) {
                numbers[block.arena as usize].push(index);
                of_arena.push(SurveyedBlock::new(number, block.size, block.shared));
            }
        }
        let arenas = (0..).zip(&self.arenas).zip(blocks);
        let mut arenas: Vec<_> = arenas
            .map(|((pool, arena), blocks)| {
                SurveyedArena::of_set(Arena { pool, set: 0 }, arena.least_blocks, blocks)
            })
            .collect();
        for (record, allocation) in (0..).zip(&self.allocations) {
            let block =
                self.blocks.get(allocation.block as usize).ok_or(DefragmentationError::ImpossibleLayout)?;
            let end = allocation
                .offset
                .checked_add(allocation.occupied)
                .ok_or(DefragmentationError::ImpossibleLayout)?;
            sums[1] = add(add(sums[1], allocation.size)?, allocation.occupied)?;
            if end > block.size {
                return Err(DefragmentationError::ImpossibleLayout);
            }
            if self.takes_part(block) {
                let surveyed = self.surveyed(record, block, in_arena[allocation.block as usize], allocation);
                arenas[block.arena as usize].add(0, surveyed, Some(MovedBy::Own));
            }
        }
        Ok((Survey::of_arenas(arenas), numbers))
    }

    fn takes_part(&self, block: &LayoutBlock) -> bool {
        self.arenas.get(block.arena as usize).is_some_and(|arena| arena.algorithm != Algorithm::Linear)
    }

    fn is_buddy(&self, arena: u32) -> bool {
        self.arenas.get(arena as usize).is_some_and(|arena| arena.algorithm == Algorithm::Buddy)
    }

    /// Returns the bytes that a range takes: a buddy block gives away whole cells. Sizes are far below the largest power
    /// of two.
    fn cell(&self, arena: u32, size: u64) -> u64 {
        if self.is_buddy(arena) { size.next_power_of_two() } else { size }
    }

    fn surveyed(
        &self,
        record: u32,
        block: &LayoutBlock,
        number: u32,
        is: &LayoutAllocation,
    ) -> SurveyedAllocation {
        let buddy = self.is_buddy(block.arena);
        let needed = self.cell(block.arena, is.size);
        let of_cell = Alignment::new(needed).ok().filter(|_| buddy).unwrap_or(Alignment::ONE);
        SurveyedAllocation {
            pool: block.arena,
            record,
            generation: 0,
            set: 0,
            home: 0,
            block: number,
            offset: is.offset,
            taken: if block.shared { self.cell(block.arena, is.occupied) } else { is.occupied },
            size: is.size,
            needed,
            needed_alignment: is.alignment.max(of_cell),
            alignment: is.alignment,
            movability: is.movability,
            mover: MoverId::PASSES,
        }
    }
}

/// Adds, up to the most bytes that a layout may have.
fn add(sum: u64, bytes: u64) -> Result<u64, DefragmentationError> {
    sum.checked_add(bytes).filter(|&sum| sum <= MOST_BYTES).ok_or(DefragmentationError::ImpossibleLayout)
}
