//! Description of a defragmentation: strategy and limits.

use core::time::Duration;

use crate::memory::EmptiedBlocks;

/// Which blocks are worth emptying.
///
/// A block is emptied completely or not at all. The price of a block is the number of bytes to copy per byte that it
/// frees; cheaper blocks come first. No byte is copied for a block that cannot be emptied completely, since an
/// allocation in it is pinned or finds no other place.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # use allotment::memory::Movability;
/// use allotment::memory::defragmentation::{
///     Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationStrategy,
/// };
///
/// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 7)?; // two blocks of 4 MiB
/// drop(allocator.free_many(tiles.drain(..3))); // one tile is left in the first, three in the second
/// let freed = |strategy| -> Result<u64, DefragmentationError> {
///     Ok(Defragmentation::new(&allocator, None, DefragmentationDesc::new(strategy))?.plan().bytes_freed())
/// };
/// assert_eq!(freed(DefragmentationStrategy::Fast)?, 4 << 20); // 1 MiB is copied for it
/// assert_eq!(freed(DefragmentationStrategy::WithinBytes(1000))?, 0); // a tile is larger
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DefragmentationStrategy {
    /// Empties blocks that free at least two bytes for each byte copied. The last quarter of the bytes that could be
    /// freed takes a third to a half of all copying; this strategy leaves it.
    #[doc(alias(
        "VMA_DEFRAGMENTATION_FLAG_ALGORITHM_FAST_BIT",
        "VMA_DEFRAGMENTATION_FLAG_ALGORITHM_BALANCED_BIT",
        "DEFRAGMENTATION_FLAG_ALGORITHM_FAST",
        "DEFRAGMENTATION_FLAG_ALGORITHM_BALANCED"
    ))]
    #[default]
    Fast,
    /// Empties all blocks that can be emptied, by price. Where blocks are of one size, the fewest that hold the
    /// allocations remain. Also empties dedicated memory whose allocation fits a block.
    #[doc(alias(
        "VMA_DEFRAGMENTATION_FLAG_ALGORITHM_FULL_BIT",
        "VMA_DEFRAGMENTATION_FLAG_ALGORITHM_EXTENSIVE_BIT",
        "DEFRAGMENTATION_FLAG_ALGORITHM_FULL"
    ))]
    Full,
    /// Empties the blocks that free most for this number of copied bytes in total.
    WithinBytes(u64),
}

impl DefragmentationStrategy {
    /// Returns true when copying `cost` bytes is worth freeing a block of `size` bytes.
    pub(super) const fn is_worth(self, cost: u64, size: u64) -> bool {
        match self {
            Self::Fast => cost <= size / 2,
            Self::Full | Self::WithinBytes(_) => true,
        }
    }

    /// Returns the strategy with `left` as the remaining bytes to copy.
    pub(super) const fn with_bytes_left(self, left: u64) -> Self {
        match self {
            Self::WithinBytes(_) => Self::WithinBytes(left),
            Self::Fast | Self::Full => self,
        }
    }

    /// Returns the bytes that may be copied in total.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::WithinBytes(bytes) => bytes,
            Self::Fast | Self::Full => u64::MAX,
        }
    }
}

/// Limits of one pass.
///
/// ```
/// use core::time::Duration;
/// use allotment::memory::defragmentation::PassLimits;
///
/// // A tenth of a frame to plan, and copies that a transfer queue completes meanwhile.
/// let limits = PassLimits::default().with_time(Duration::from_millis(1)).with_bytes(16 << 20).with_moves(64);
/// assert_eq!((limits.bytes, limits.moves), (16 << 20, 64));
/// assert_eq!(PassLimits::NONE.bytes, u64::MAX); // a loading screen
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassLimits {
    /// Bytes that are moved, whether copied or recreated. A larger allocation is not moved, and its block is not
    /// emptied.
    pub bytes: u64,
    /// Allocations that are moved. At least one is moved even if this is 0.
    pub moves: u32,
    /// Time to find the moves of a pass, without the time to copy and to end it. It is wall-clock time, so on a busy
    /// machine a pass does less. The next pass continues the unfinished work.
    pub time: Duration,
}

impl PassLimits {
    /// No limits: everything in one pass.
    pub const NONE: Self = Self { bytes: u64::MAX, moves: u32::MAX, time: Duration::MAX };
}

/// What the passes of a step have used of its limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(super) moves: u32,
    pub(super) bytes: u64,
    pub(crate) time: Duration,
}

impl Spent {
    /// Returns true where another move of so many bytes is too much. The first one never is, even where it exceeds the
    /// bytes, or a run would never end.
    pub(super) fn exceeds(&self, limits: &PassLimits, size: u64) -> bool {
        self.moves >= limits.moves.max(1)
            || (self.moves != 0 && self.bytes.saturating_add(size) > limits.bytes)
    }

    /// Returns true while the limits leave something to another pass.
    pub(crate) fn leaves_some(&self, limits: &PassLimits) -> bool {
        self.time < limits.time && !self.exceeds(limits, 1)
    }
}

impl Default for PassLimits {
    /// 64 MiB, 256 allocations and half a millisecond: a part of a frame.
    fn default() -> Self {
        Self { bytes: 64 << 20, moves: 256, time: Duration::from_micros(500) }
    }
}

impl PassLimits {
    /// Sets the limit of bytes.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the limit of allocations.
    #[must_use]
    pub const fn with_moves(mut self, moves: u32) -> Self {
        self.moves = moves;
        self
    }

    /// Sets the limit of time.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

/// Whether the blocks of several threads are defragmented as one.
///
/// A pool has several parts, one for each thread that allocates at the same time as others, and each has blocks
/// of its own ([`AllocatorDesc::threads`](crate::memory::AllocatorDesc::threads)). So what eight threads allocated is in
/// eight partly filled blocks at least. Defragmentation may move allocations into the blocks of other threads; their
/// handles stay valid, and any thread may free them as before. Such a free takes the locks of two parts, one after the
/// other, and its range does not wait in the quick lists, so it takes longer than a free of another one.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::Movability;
/// use allotment::memory::blocks::allocate_as_thread;
/// use allotment::memory::defragmentation::{
///     Defragmentation, DefragmentationDesc, DefragmentationStrategy, JoinThreads, NextPass, PassLimits,
/// };
///
/// let mut desc = AllocatorDesc::default();
/// desc.threads = 4;
/// let allocator = Allocator::new(device, desc)?;
/// let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
/// let mut tiles = Vec::new();
/// for thread in 0..4 {
///     allocate_as_thread(thread); // as four threads would
///     tiles.push(allocator.allocate(&Requirements::new(100 << 10), &options)?);
/// }
/// assert_eq!(allocator.statistics().blocks, 4);
///
/// // The level is loaded, and its threads have ended.
/// let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
/// let mut run = Defragmentation::new(&allocator, None, desc.with_join_threads(JoinThreads::Always))?;
/// while let NextPass::Moves(pass) = run.next_pass() {
///     pass.end(); // once the bytes are copied
/// }
/// drop(run);
/// assert_eq!(allocator.statistics().blocks, 1);
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JoinThreads {
    /// Those of threads that have not allocated for a second. Threads at work keep their blocks, which no other thread's
    /// allocations are moved to or from.
    #[default]
    WhenIdle,
    /// All: the caller knows that no other thread allocates at present, or prefers fewer blocks to their speed.
    Always,
    /// None: the blocks of each thread are defragmented by themselves.
    Never,
}

/// Description of a defragmentation.
///
/// ```
/// use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
///
/// let desc = DefragmentationDesc::new(DefragmentationStrategy::WithinBytes(16 << 20))
///     .with_limits(PassLimits::default().with_moves(32));
/// assert_eq!(desc.limits.bytes, 64 << 20);
/// ```
#[doc(alias("VmaDefragmentationInfo", "DEFRAGMENTATION_DESC"))]
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DefragmentationDesc {
    /// Which blocks are worth emptying.
    pub strategy: DefragmentationStrategy,
    /// Limits of each pass.
    pub limits: PassLimits,
    /// Use of the emptied blocks: freed to the driver, or left to the policy of their pool.
    pub emptied_blocks: EmptiedBlocks,
    /// Whether the blocks of several threads are defragmented as one.
    pub join_threads: JoinThreads,
}

impl DefragmentationDesc {
    /// Describes a defragmentation by its strategy, with the defaults for everything else.
    #[must_use]
    pub fn new(strategy: DefragmentationStrategy) -> Self {
        Self { strategy, ..Self::default() }
    }

    /// Sets the limits of each pass.
    #[must_use]
    pub const fn with_limits(mut self, limits: PassLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what happens to emptied blocks.
    #[must_use]
    pub const fn with_emptied_blocks(mut self, emptied_blocks: EmptiedBlocks) -> Self {
        self.emptied_blocks = emptied_blocks;
        self
    }

    /// Sets whether the blocks of several threads are defragmented as one.
    #[must_use]
    pub const fn with_join_threads(mut self, join_threads: JoinThreads) -> Self {
        self.join_threads = join_threads;
        self
    }
}
