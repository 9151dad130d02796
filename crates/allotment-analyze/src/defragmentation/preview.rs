//! The preview itself.

use allotment::memory::defragmentation::DefragmentationError;
use allotment::memory::defragmentation::{DefragmentationPlan, DefragmentationStrategy};

use super::layout::Described;
use super::least::LeastBlocks;
use super::verdict::DefragmentationVerdict;
use crate::cursor::Cursor;
use crate::fragmentation::Holes;
use crate::scope::Scope;
use crate::segments::{Class, Placed, Segment, segments};
use crate::timeline::{AllocationIndex, BlockIndex, Place};

/// What is asked of a preview.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PreviewOptions {
    /// Which blocks are worth emptying.
    pub strategy: DefragmentationStrategy,
    /// Every allocation counts as one that can be moved: what a program would gain if it let the library move all of
    /// them. Those that share bytes still stay.
    pub all_movable: bool,
}

/// What a plan does with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFate {
    /// It stays, and may take allocations of others.
    Stays,
    /// All its allocations are moved, and it is freed.
    Freed,
    /// It has no allocation. [`Allocator::trim`](allotment::Allocator::trim) frees it without a move.
    Empty,
}

/// A block before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedBlock {
    /// The block.
    pub block: BlockIndex,
    /// Bytes.
    pub size: u64,
    /// What becomes of it.
    pub fate: BlockFate,
    /// Its allocations now, by offset.
    pub before: Vec<Placed>,
    /// Its allocations after all moves, by offset.
    pub after: Vec<Placed>,
}

/// A move that the plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewedMove {
    /// The allocation.
    pub allocation: AllocationIndex,
    /// Bytes that are copied.
    pub bytes: u64,
    /// Where it is.
    pub from: Place,
    /// Where it is then. A run finds the range anew, so the allocation may come to lie elsewhere in the block, or in
    /// another one that stays.
    pub to: Place,
}

/// What a defragmentation would do with some blocks at a moment.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::Movability;
/// use allotment_analyze::{Cursor, DefragmentationPreview, PreviewOptions, Scope, Timeline};
/// use allotment_trace::Collector;
///
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let collector = Collector::new(&allocator)?;
/// let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
/// allocator.free(tiles.remove(0))?;
///
/// let recording = collector.into_recording();
/// let timeline = Timeline::new(&recording);
/// let cursor = Cursor::at(&timeline, timeline.end());
/// let preview = DefragmentationPreview::at(&cursor, Scope::All, PreviewOptions::default())?;
/// assert_eq!((preview.moves.len(), preview.plan.bytes_freed()), (1, 4 << 20));
/// println!("{}", preview.verdict().sentence(allotment_analyze::units::bytes));
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DefragmentationPreview {
    /// The options.
    pub options: PreviewOptions,
    /// The blocks of the scope, in the order in which they were allocated.
    pub blocks: Vec<PreviewedBlock>,
    /// The moves, in the order in which a run makes them: block by block.
    pub moves: Vec<PreviewedMove>,
    /// The library's plan.
    pub plan: DefragmentationPlan,
    /// Its plan with the strategy [`Full`](DefragmentationStrategy::Full): the most that can be gained.
    pub full: DefragmentationPlan,
    /// The least bytes of blocks that could hold the allocations.
    pub least: LeastBlocks,
    /// Free ranges now.
    pub holes_before: Holes,
    /// Free ranges of the blocks that stay, after all moves.
    pub holes_after: Holes,
    /// Allocations in the blocks.
    pub allocations: u64,
    /// Of these: those that the recording says the library may move.
    pub movable: u64,
}

impl DefragmentationPreview {
    /// Plans a defragmentation of some blocks where a cursor is, as the library would begin one. The copies into which a
    /// pool is split count as one, as they do for a run once their threads are idle.
    ///
    /// Costs about two microseconds for each allocation that exists.
    ///
    /// # Errors
    ///
    /// [`DefragmentationError::ImpossibleLayout`] where the recording contradicts itself: an allocation is beyond its block.
    pub fn at(
        cursor: &Cursor<'_, '_>,
        scope: Scope,
        options: PreviewOptions,
    ) -> Result<Self, DefragmentationError> {
        let Described { layout, blocks, placed, movable } = Described::of(cursor, scope, options);
        let (plan, planned) = layout.plan(options.strategy)?;
        let full = match options.strategy {
            DefragmentationStrategy::Full => plan.clone(),
            _ => layout.plan(DefragmentationStrategy::Full)?.0,
        };
        let all: Vec<Placed> = placed.iter().flatten().copied().collect();
        let mut after = placed.clone();
        let mut moves = Vec::with_capacity(planned.len());
        let mut gone = vec![false; blocks.len()];
        for to in &planned {
            let (was, is) = (all[to.allocation as usize], layout.allocations[to.allocation as usize]);
            gone[is.block as usize] = true;
            after[to.block as usize].push(Placed { offset: to.offset, occupied: to.occupied, ..was });
            moves.push(PreviewedMove {
                allocation: was.allocation,
                bytes: is.size,
                from: Place { block: blocks[is.block as usize], offset: was.offset, occupied: was.occupied },
                to: Place { block: blocks[to.block as usize], offset: to.offset, occupied: to.occupied },
            });
        }
        // A block is emptied whole, so what remains in it is nothing.
        for (after, &gone) in after.iter_mut().zip(&gone) {
            if gone {
                after.clear();
            } else {
                after.sort_unstable_by_key(|one| (one.offset, one.allocation));
            }
        }
        let blocks: Vec<PreviewedBlock> = blocks
            .into_iter()
            .zip(&layout.blocks)
            .zip(placed.into_iter().zip(after))
            .zip(gone)
            .map(|(((block, is), (before, after)), gone)| {
                let fate = match (gone, before.is_empty()) {
                    (true, _) => BlockFate::Freed,
                    (false, true) => BlockFate::Empty,
                    (false, false) => BlockFate::Stays,
                };
                PreviewedBlock { block, size: is.size, fate, before, after }
            })
            .collect();
        let staying = blocks.iter().filter(|block| block.fate != BlockFate::Freed);
        let holes_before = holes(blocks.iter().map(|block| (block.size, &block.before[..])));
        let holes_after = holes(staying.map(|block| (block.size, &block.after[..])));
        let least = LeastBlocks::of(&layout);
        let allocations = all.len() as u64;
        Ok(Self {
            options,
            blocks,
            moves,
            plan,
            full,
            least,
            holes_before,
            holes_after,
            allocations,
            movable,
        })
    }

    /// Returns what the plan gains, or why it gains nothing.
    #[must_use]
    pub fn verdict(&self) -> DefragmentationVerdict {
        let freed = (u64::from(self.plan.blocks_freed()), self.plan.bytes_freed(), self.plan.bytes_moved());
        let used = self.blocks.iter().filter(|block| block.fate != BlockFate::Empty);
        let before = used.map(|block| block.size).fold(0, u64::saturating_add);
        DefragmentationVerdict::of(freed, self.options.strategy, &self.full, before, self.least)
    }
}

fn holes<'a>(blocks: impl Iterator<Item = (u64, &'a [Placed])>) -> Holes {
    let mut sizes = Vec::new();
    for (size, placed) in blocks {
        let segments = segments(size, placed);
        sizes.extend(segments.iter().filter(|is| is.class == Class::Free).map(Segment::size));
    }
    Holes::from_sizes(sizes)
}
