//! A preview as the pane draws it: one row for each block that is freed or takes something.

use std::collections::HashMap;

use allotment::memory::defragmentation::DefragmentationError;
use allotment_analyze::{
    AllocationIndex, BlockFate, BlockIndex, Cursor, DefragmentationPreview, PreviewOptions, Scope, Timeline,
};

use super::arrows::{Arrow, merged};
use crate::state::Contents;

/// A plan.
pub(super) struct Plan {
    /// Its lists of allocations are in the rows.
    pub(super) preview: DefragmentationPreview,
    pub(super) rows: Vec<Row>,
    row_of: HashMap<BlockIndex, usize>,
    /// The move of each allocation that has one.
    move_of: HashMap<AllocationIndex, usize>,
    /// The moves as arrows, the one with the most bytes first.
    pub(super) arrows: Vec<Arrow>,
    /// Blocks that stay as they are.
    pub(super) others: u64,
}

/// A block.
pub(super) struct Row {
    pub(super) block: BlockIndex,
    pub(super) freed: bool,
    pub(super) before: Contents,
    pub(super) after: Contents,
}

impl Plan {
    pub(super) fn at(
        timeline: &Timeline<'_>,
        position: u64,
        scope: Scope,
        options: PreviewOptions,
    ) -> Result<Self, DefragmentationError> {
        let mut preview = DefragmentationPreview::at(&Cursor::at(timeline, position), scope, options)?;
        let mut rows = Vec::new();
        let mut others = 0;
        for block in &mut preview.blocks {
            let freed = block.fate == BlockFate::Freed;
            if !freed && block.after.len() == block.before.len() {
                others += 1;
                continue;
            }
            let contents = |placed: &mut Vec<_>| Contents::of_placed(block.size, core::mem::take(placed));
            let before = contents(&mut block.before);
            let after = contents(&mut block.after);
            rows.push(Row { block: block.block, freed, before, after });
        }
        let row_of = rows.iter().enumerate().map(|(row, is)| (is.block, row)).collect();
        let move_of = preview.moves.iter().enumerate().map(|(at, is)| (is.allocation, at)).collect();
        let mut plan = Self { preview, rows, row_of, move_of, arrows: Vec::new(), others };
        plan.arrows = merged(&plan);
        Ok(plan)
    }

    pub(super) fn row_of(&self, block: BlockIndex) -> Option<usize> {
        self.row_of.get(&block).copied()
    }

    pub(super) fn move_of(&self, allocation: AllocationIndex) -> Option<usize> {
        self.move_of.get(&allocation).copied()
    }
}
