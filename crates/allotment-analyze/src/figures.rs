//! Blocks and bytes of a pool, of a heap or of all at a moment.

use allotment_trace::recording::BlockKind;

use crate::block_bytes::BlockBytes;
use crate::cursor::Cursor;
use crate::fragmentation::Holes;
use crate::timeline::BlockIndex;

/// Some blocks and their bytes at a moment.
///
/// ```
/// use allotment_analyze::{Cursor, Figures, Timeline};
/// use allotment_trace::recording::Recording;
///
/// let recording = Recording::default();
/// let timeline = Timeline::new(&recording);
/// assert_eq!(Figures::of_all(&Cursor::new(&timeline)).blocks, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// How many blocks there are.
    pub blocks: u64,
    /// Of the blocks: those that have, or had, one large allocation alone.
    pub dedicated: u64,
    /// Of the blocks: those without allocations.
    pub empty: u64,
    /// Their bytes.
    pub bytes: BlockBytes,
    /// How many free ranges they have.
    pub holes: u64,
    /// Bytes of the largest free range.
    pub largest_hole: u64,
    /// The sum of the largest hole of each block.
    largest_of_each: u64,
}

impl Figures {
    /// Returns the figures of all blocks where a cursor is.
    #[must_use]
    pub fn of_all(cursor: &Cursor<'_, '_>) -> Self {
        let mut figures = Self::default();
        for block in cursor.blocks() {
            figures.add(cursor, block);
        }
        figures
    }

    /// Adds a block that exists where a cursor is.
    pub fn add(&mut self, cursor: &Cursor<'_, '_>, block: BlockIndex) {
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
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        let free = self.bytes.free;
        if free == 0 { 0.0 } else { (free.saturating_sub(self.largest_of_each)) as f64 / free as f64 }
    }
}
