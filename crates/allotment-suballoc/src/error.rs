//! Every refusal as a value that says what was asked, what there is, and what helps.

use core::error::Error;
use core::fmt;

use crate::{Algorithm, Alignment, MAX_SIZE, Move};

/// Why a block was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateError {
    /// A block of no units can hold nothing. Ask for at least one.
    ZeroSize,
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The size that was asked for.
        size: u64,
    },
    /// The process has created 2^32 - 1 blocks, and a number that tells a block's handles from others' is never used
    /// again. [Clear](crate::VirtualBlock::clear) a block and use it again rather than create another.
    TooManyBlocks,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBlocks => {
                write!(f, "the process has created as many blocks as 32 bits can number, reuse one")
            }
            Self::ZeroSize => write!(f, "a block of size 0 can hold nothing"),
            Self::TooLarge { size } => write!(f, "block size {size} is above the limit of {MAX_SIZE}"),
        }
    }
}

impl Error for CreateError {}

/// Why a range was not handed out. The block is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocateError {
    /// A range of no units has no place. Ask for at least one.
    ZeroSize,
    /// The size is above [`MAX_SIZE`]; no block can hold it.
    TooLarge {
        /// The size that was asked for.
        size: u64,
    },
    /// No free region is large enough at this alignment. When `free` would do but `largest_free` does
    /// not, the block is fragmented; when neither does, [grow](crate::VirtualBlock::grow) it or free
    /// something.
    NoSpace {
        /// The size that was asked for, in units.
        size: u64,
        /// The alignment that was asked for.
        alignment: Alignment,
        /// All free units of the block.
        free: u64,
        /// The largest range that could be handed out now, at alignment 1 and on the lower side.
        largest_free: u64,
    },
    /// No free region that ends early enough is large enough at this alignment; above the limit there
    /// may be one. Only from [`allocate_below`](crate::VirtualBlock::allocate_below).
    NoSpaceBelow {
        /// The size that was asked for, in units.
        size: u64,
        /// The alignment that was asked for.
        alignment: Alignment,
        /// Where the range would have had to end.
        limit: u64,
    },
    /// A place below a limit was asked of a linear block, whose ranges come and go in order and have no
    /// choice of places. Only from [`allocate_below`](crate::VirtualBlock::allocate_below).
    InOrder,
    /// [`Side::Upper`](crate::Side::Upper) was asked of an algorithm that has only one side.
    OneSided {
        /// The algorithm of the block.
        algorithm: Algorithm,
    },
    /// [`Side::Upper`](crate::Side::Upper) was asked while the linear block is used as a ring: it has
    /// wrapped, so the space before its end is not one stack. Free the ring first.
    RingInUse,
    /// The block already has as many regions as 32 bits can name. Free something.
    TooManyRegions,
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => write!(f, "a range of size 0 has no place"),
            Self::TooLarge { size } => write!(f, "size {size} is above the limit of {MAX_SIZE}"),
            Self::NoSpace { size, alignment, free, largest_free } => write!(
                f,
                "no room for {size} units at alignment {alignment}: {free} are free, the largest range is {largest_free}"
            ),
            Self::NoSpaceBelow { size, alignment, limit } => {
                write!(f, "no room for {size} units at alignment {alignment} that ends at or below {limit}")
            }
            Self::InOrder => write!(f, "the ranges of a linear block come and go in order"),
            Self::OneSided { algorithm } => {
                write!(f, "the {algorithm} algorithm has no upper side, only linear has")
            }
            Self::RingInUse => {
                write!(f, "the block is used as a ring, so its upper side is taken until the ring is empty")
            }
            Self::TooManyRegions => write!(f, "the block has as many regions as 32 bits can name"),
        }
    }
}

impl Error for AllocateError {}

/// A refused allocation together with the user data that came with it, so that nothing is lost.
///
/// Turns into the [`AllocateError`] by itself where a `?` asks for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// Why.
    pub error: AllocateError,
    /// What was to be kept with the range.
    pub data: T,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> Error for Refused<T> {}

impl<T> From<Refused<T>> for AllocateError {
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}

/// Why a handle means nothing here. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandleError {
    /// The range was freed, or the block cleared, since the handle was made.
    Stale,
    /// The handle belongs to another block.
    WrongBlock,
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale => write!(f, "the handle is stale: its range was freed before"),
            Self::WrongBlock => write!(f, "the handle belongs to another block"),
        }
    }
}

impl Error for HandleError {}

/// Why a range was not resized in place. It is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// The handle means nothing here.
    Handle(HandleError),
    /// A range of no units has no place. Free it instead.
    ZeroSize,
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The size that was asked for.
        size: u64,
    },
    /// What lies behind the range is in use. Allocate a new range and move.
    NoRoom {
        /// The size that was asked for, in units.
        size: u64,
        /// The largest size that the range could take now without moving.
        largest: u64,
    },
    /// The block already has as many regions as 32 bits can name. Free something.
    TooManyRegions,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle(error) => error.fmt(f),
            Self::ZeroSize => write!(f, "a range cannot shrink to size 0, free it instead"),
            Self::TooLarge { size } => write!(f, "size {size} is above the limit of {MAX_SIZE}"),
            Self::NoRoom { size, largest } => {
                write!(f, "no room for {size} units without moving: at most {largest} fit here")
            }
            Self::TooManyRegions => write!(f, "the block has as many regions as 32 bits can name"),
        }
    }
}

impl Error for ResizeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Handle(error) => Some(error),
            _ => None,
        }
    }
}

impl From<HandleError> for ResizeError {
    fn from(error: HandleError) -> Self {
        Self::Handle(error)
    }
}

/// Why a block was not grown. It is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrowError {
    /// The new size is below the present one. A block never shrinks.
    Smaller {
        /// The size that was asked for.
        size: u64,
        /// The size of the block.
        current: u64,
    },
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The size that was asked for.
        size: u64,
    },
    /// Ranges on the upper side hold on to the end of the linear block, so space behind them could not
    /// be reached. Free them first.
    UpperInUse {
        /// How many there are.
        ranges: u32,
    },
    /// The block already has as many regions as 32 bits can name. Free something.
    TooManyRegions,
}

impl fmt::Display for GrowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Smaller { size, current } => {
                write!(f, "a block of size {current} cannot shrink to {size}")
            }
            Self::TooLarge { size } => write!(f, "block size {size} is above the limit of {MAX_SIZE}"),
            Self::UpperInUse { ranges } => {
                write!(f, "{ranges} ranges on the upper side hold the end of the block in place")
            }
            Self::TooManyRegions => write!(f, "the block has as many regions as 32 bits can name"),
        }
    }
}

impl Error for GrowError {}

/// Why a run of moves does not go on. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionError {
    /// The block is linear: its ranges come and go in order, so none can take another's place.
    InOrder,
    /// The [`Compaction`](crate::Compaction) was begun on another block. Begin one for each.
    WrongBlock,
    /// The block already has as many regions as 32 bits can name. Free something.
    TooManyRegions,
}

impl fmt::Display for CompactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InOrder => write!(f, "the ranges of a linear block come and go in order, so none can move"),
            Self::WrongBlock => write!(f, "the compaction was begun on another block"),
            Self::TooManyRegions => write!(f, "the block has as many regions as 32 bits can name"),
        }
    }
}

impl Error for CompactionError {}

/// Why a move was not brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// The move belongs to another block.
    WrongBlock,
    /// The range was freed while it moved: there is nothing left to move. Cancel the move, which frees the
    /// place.
    SourceFreed,
    /// The place was freed, by its handle, while it was reserved. The range is where it was; cancel the
    /// move, so that it can be moved again.
    PlaceFreed,
    /// The range and its place no longer have the same size: one was resized. Cancel the move.
    Resized {
        /// The size of the range, in units.
        from: u64,
        /// The size of the place, in units.
        to: u64,
    },
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongBlock => write!(f, "the move belongs to another block"),
            Self::SourceFreed => write!(f, "the range was freed while it moved"),
            Self::PlaceFreed => write!(f, "the place that was reserved for the range was freed"),
            Self::Resized { from, to } => {
                write!(f, "the range has {from} units now, the place that was reserved for it {to}")
            }
        }
    }
}

impl Error for MoveError {}

/// A move that was not brought to its end, and why. Nothing has changed, and the move is still open.
///
/// Turns into the [`MoveError`] by itself where a `?` asks for one; the move is lost then, and its place
/// stays in use.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Why.
    pub error: MoveError,
    /// To be given to [`cancel_move`](crate::VirtualBlock::cancel_move) of the block it belongs to.
    pub moved: Move,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Unfinished {}

impl From<Unfinished> for MoveError {
    fn from(unfinished: Unfinished) -> Self {
        unfinished.error
    }
}
