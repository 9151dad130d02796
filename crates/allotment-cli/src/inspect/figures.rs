//! Blocks and bytes of a pool, of a heap or of all at a moment.

use allotment_analyze::{BlockBytes, BlockIndex, Cursor, Holes};
use allotment_trace::recording::BlockKind;

/// Blocks and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) blocks: u64,
    /// Of the blocks: those that have, or had, one large allocation alone.
    pub(super) dedicated: u64,
    /// Of the blocks: those without allocations.
    pub(super) empty: u64,
    pub(super) bytes: BlockBytes,
    pub(super) holes: u64,
    pub(super) largest_hole: u64,
    /// The sum of the largest hole of each block.
    largest_of_each: u64,
}

impl Figures {
    /// Returns the figures of all blocks where a cursor is.
    pub(super) fn of_all(cursor: &Cursor<'_, '_>) -> Self {
        let mut figures = Self::default();
        for block in cursor.blocks() {
            figures.add(cursor, block);
        }
        figures
    }

    pub(super) fn add(&mut self, cursor: &Cursor<'_, '_>, block: BlockIndex) {
        let holes = Holes::of_block(cursor, block);
        let kind = cursor.timeline().block_kind_at(block, cursor.position());
        self.blocks += 1;
        self.dedicated += u64::from(kind != BlockKind::Shared);
        self.empty += u64::from(cursor.count_in(block) == 0);
        self.bytes += BlockBytes::of_block(cursor, block);
        self.holes += holes.sizes().len() as u64;
        self.largest_hole = self.largest_hole.max(holes.largest());
        self.largest_of_each = self.largest_of_each.saturating_add(holes.largest());
    }

    /// Returns the share of the free bytes that are not in the largest hole of their block, from 0 to 1: several blocks
    /// with one hole each are not fragmented. For one block it is [`Holes::fragmentation`].
    pub(super) fn fragmentation(&self) -> f64 {
        let free = self.bytes.free;
        if free == 0 { 0.0 } else { (free.saturating_sub(self.largest_of_each)) as f64 / free as f64 }
    }
}
