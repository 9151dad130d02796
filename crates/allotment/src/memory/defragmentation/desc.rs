//! What a defragmentation is asked for.

use core::time::Duration;

use crate::memory::EmptiedBlocks;

/// What a defragmentation is worth.
///
/// Whole blocks are emptied or left alone, those first that cost least for what they give back: the price of a block is
/// the bytes that must be copied for a byte of it. A block that cannot be emptied as a whole, since something in it is
/// pinned or finds no other place, costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DefragmentationStrategy {
    /// Blocks that give back at least two bytes for one that is copied. The last quarter of what could be given back
    /// takes a third to a half of all copying, and this leaves it.
    #[default]
    Fast,
    /// All blocks that can be emptied, by price: where they are of one size, the fewest are left that hold what is
    /// there. Memory of its own, too, that fits a block.
    Full,
    /// The blocks that give back most for so many bytes copied in all.
    WithinBytes(u64),
}

impl DefragmentationStrategy {
    /// True where a block of `size` bytes is worth copying `cost` of them.
    pub(super) const fn is_worth(self, cost: u64, size: u64) -> bool {
        match self {
            Self::Fast => cost <= size / 2,
            Self::Full | Self::WithinBytes(_) => true,
        }
    }

    /// The same, where of its bytes so many are left.
    pub(super) const fn with_bytes_left(self, left: u64) -> Self {
        match self {
            Self::WithinBytes(_) => Self::WithinBytes(left),
            Self::Fast | Self::Full => self,
        }
    }

    /// Bytes that may be copied in all.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::WithinBytes(bytes) => bytes,
            Self::Fast | Self::Full => u64::MAX,
        }
    }
}

/// What one pass may do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassLimits {
    /// Bytes that are moved, whether they are copied or recreated. An allocation that is larger stays where it is, and
    /// the blocks of such are not emptied.
    pub bytes: u64,
    /// Allocations that are moved; at least one.
    pub moves: u32,
    /// For how long a pass is looked for, copying and ending it not included. Time passes on every thread, so on a
    /// machine that is busy with something else less is done in it. What is not finished goes on in the next pass.
    pub time: Duration,
}

impl PassLimits {
    /// No limits: everything in one pass.
    pub const NONE: Self = Self { bytes: u64::MAX, moves: u32::MAX, time: Duration::MAX };
}

impl Default for PassLimits {
    /// 64 MiB, 256 allocations and half a millisecond: a part of a frame.
    fn default() -> Self {
        Self { bytes: 64 << 20, moves: 256, time: Duration::from_micros(500) }
    }
}

impl PassLimits {
    /// The same with another limit of bytes.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// The same with another limit of allocations.
    #[must_use]
    pub const fn with_moves(mut self, moves: u32) -> Self {
        self.moves = moves;
        self
    }

    /// The same with another limit of time.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

/// A defragmentation that is wanted.
///
/// ```
/// use allotment::memory::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
///
/// let desc = DefragmentationDesc::new(DefragmentationStrategy::WithinBytes(16 << 20))
///     .with_limits(PassLimits::default().with_moves(32));
/// assert_eq!(desc.limits.bytes, 64 << 20);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DefragmentationDesc {
    /// Which blocks are emptied.
    pub strategy: DefragmentationStrategy,
    /// What a pass does at most.
    pub limits: PassLimits,
    /// What becomes of the blocks that are emptied.
    pub emptied_blocks: EmptiedBlocks,
}

impl DefragmentationDesc {
    /// By a strategy, with the defaults for everything else.
    #[must_use]
    pub fn new(strategy: DefragmentationStrategy) -> Self {
        Self { strategy, ..Self::default() }
    }

    /// The same with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: PassLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with another fate of emptied blocks.
    #[must_use]
    pub const fn with_emptied_blocks(mut self, emptied_blocks: EmptiedBlocks) -> Self {
        self.emptied_blocks = emptied_blocks;
        self
    }
}
