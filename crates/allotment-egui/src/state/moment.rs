//! The blocks at the cursor: what each has is looked at when a pane needs it, and the rest in the time that frames leave.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use allotment_analyze::{
    BlockBytes, BlockIndex, Class, ClassLevels, Cursor, Placed, Scope, Segment, hit_test, padding, segments,
};

use super::wide::Largest;

/// Contents that were made so far, also by threads that make an index.
static MADE: AtomicU64 = AtomicU64::new(1);

/// The contents of a block at a moment.
#[derive(Debug)]
pub(crate) struct Contents {
    /// Another one for each that is made, for what is kept beside it. A block that is as it was stays the same one while the
    /// cursor moves.
    pub(crate) version: u64,
    pub(crate) size: u64,
    pub(crate) placed: Vec<Placed>,
    largest: Largest,
    pub(crate) levels: ClassLevels,
    pub(crate) bytes: BlockBytes,
    pub(crate) largest_free: u64,
}

impl Contents {
    fn of(cursor: &Cursor<'_, '_>, block: BlockIndex) -> Self {
        let size = cursor.timeline().block_size_at(block, cursor.position());
        Self::of_placed(size, cursor.placed(block))
    }

    /// Of a block with some allocations, which are in the order of their offsets.
    pub(crate) fn of_placed(size: u64, placed: Vec<Placed>) -> Self {
        let segments = segments(size, &placed);
        let bytes = BlockBytes::of_segments(size, &placed, &segments);
        let free = segments.iter().filter(|is| is.class == Class::Free);
        let largest_free = free.map(Segment::size).max().unwrap_or(0);
        let largest = Largest::of(&placed);
        let version = MADE.fetch_add(1, Ordering::Relaxed);
        Self { version, size, placed, largest, levels: ClassLevels::new(segments), bytes, largest_free }
    }

    /// Visits the allocations that have some of the bytes of a range, and `least` bytes or more, in the order of their
    /// offsets. Where allocations overlap, it may leave out some that begin before the range.
    pub(crate) fn visit_wide(&self, bytes: Range<u64>, least: u64, visit: impl FnMut(&Placed)) {
        let first = self.placed.partition_point(|placed| placed.offset < bytes.start).saturating_sub(1);
        let end = self.placed.partition_point(|placed| placed.offset < bytes.end).max(first);
        self.largest.visit(&self.placed, first..end, least, visit);
    }

    /// The holes that an alignment made, of those that have some of the bytes of a range. Costs as much as there are
    /// segments in the range.
    pub(crate) fn padding(&self, bytes: Range<u64>) -> impl Iterator<Item = &Segment> {
        padding(&self.placed, &self.levels.segments()[self.segments_in(bytes)])
    }

    /// The number of ranges of one class that have some of the bytes of a range. Costs the logarithm of all of them.
    pub(crate) fn ranges_in(&self, bytes: Range<u64>) -> usize {
        self.segments_in(bytes).len()
    }

    fn segments_in(&self, bytes: Range<u64>) -> Range<usize> {
        let segments = self.levels.segments();
        let first = segments.partition_point(|segment| segment.end <= bytes.start);
        first..segments.partition_point(|segment| segment.start < bytes.end).max(first)
    }

    /// The allocations that may have some of the bytes of a range: all before its end where allocations overlap.
    pub(crate) fn placed_in(&self, bytes: Range<u64>) -> &[Placed] {
        let end = self.placed.partition_point(|placed| placed.offset < bytes.end);
        let first = match self.bytes.aliased {
            0 => self.placed.partition_point(|placed| placed.end() <= bytes.start).min(end),
            _ => 0,
        };
        &self.placed[first..end]
    }

    /// The answer of [`hit_test`] for a range. That function looks at every allocation before the range. This one looks at
    /// those in the range alone, if none overlaps another.
    pub(crate) fn hit(&self, bytes: Range<u64>) -> Vec<Placed> {
        let first = match self.bytes.aliased {
            0 => self.placed.partition_point(|placed| placed.end() <= bytes.start),
            _ => 0,
        };
        hit_test(&self.placed[first..], bytes)
    }
}

/// What is known of blocks at a position.
pub(crate) type KnownBlocks = HashMap<BlockIndex, Contents>;

/// The blocks of a scope at a position.
#[derive(Debug)]
pub(crate) struct MomentView {
    pub(crate) position: u64,
    /// In the order in which they were allocated.
    pub(crate) blocks: Vec<BlockIndex>,
    /// Another one for each moment, for what is kept beside it.
    pub(crate) version: u64,
    contents: KnownBlocks,
    /// Blocks before this one have been looked at and are in the totals.
    counted: usize,
    totals: BlockBytes,
    largest_free: u64,
}

impl MomentView {
    pub(crate) fn new(cursor: &Cursor<'_, '_>, scope: Scope, version: u64) -> Self {
        Self {
            position: cursor.position(),
            blocks: scope.blocks(cursor).collect(),
            version,
            contents: KnownBlocks::new(),
            counted: 0,
            totals: BlockBytes::default(),
            largest_free: 0,
        }
    }

    /// Looks at all blocks where a cursor is: for a thread that makes an index.
    pub(crate) fn look_at_all(cursor: &Cursor<'_, '_>) -> KnownBlocks {
        Scope::All.blocks(cursor).map(|block| (block, Contents::of(cursor, block))).collect()
    }

    /// Takes what is known of blocks at this position, and returns what was known so far.
    pub(crate) fn exchange_known(&mut self, known: KnownBlocks) -> KnownBlocks {
        core::mem::replace(&mut self.contents, known)
    }

    /// Looks at a block that exists. Later calls cost nothing.
    pub(crate) fn look(&mut self, cursor: &Cursor<'_, '_>, block: BlockIndex) -> &Contents {
        self.contents.entry(block).or_insert_with(|| Contents::of(cursor, block))
    }

    /// Returns what is known of a block without looking at it.
    pub(crate) fn known(&self, block: BlockIndex) -> Option<&Contents> {
        self.contents.get(&block)
    }

    /// Looks at further blocks for some time. Returns true once all have been looked at.
    pub(crate) fn work(&mut self, cursor: &Cursor<'_, '_>, time: Duration) -> bool {
        let start = Instant::now();
        while let Some(&block) = self.blocks.get(self.counted) {
            let (bytes, largest) = {
                let contents = self.look(cursor, block);
                (contents.bytes, contents.largest_free)
            };
            self.totals += bytes;
            self.largest_free = self.largest_free.max(largest);
            self.counted += 1;
            if start.elapsed() > time {
                break;
            }
        }
        self.is_complete()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.counted == self.blocks.len()
    }

    /// The bytes of all blocks, and the largest free range; `None` before all have been looked at.
    pub(crate) fn totals(&self) -> Option<(BlockBytes, u64)> {
        self.is_complete().then_some((self.totals, self.largest_free))
    }
}
