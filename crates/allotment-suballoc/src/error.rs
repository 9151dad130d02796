//! Errors. Each contains what was requested, what is available, and what helps.

use core::error::Error;
use core::fmt;

use crate::{Algorithm, Alignment, MAX_SIZE, Move};

const TOO_MANY_REGIONS: &str = "the block had as many regions at once as its indices can address; clear it";

/// The reason why a block was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateError {
    /// The size is 0. A block has at least one unit.
    ZeroSize,
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The requested size.
        size: u64,
    },
    /// The process has created 2^32 - 1 blocks, and the number that identifies a block is never used again.
    /// [Clear](crate::VirtualBlock::clear) a block and reuse it instead of creating another.
    TooManyBlocks,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBlocks => {
                write!(f, "the process has created 2^32 - 1 blocks, clear and reuse one")
            }
            Self::ZeroSize => write!(f, "block size is zero"),
            Self::TooLarge { size } => write!(f, "block size {size} exceeds the limit of {MAX_SIZE}"),
        }
    }
}

impl Error for CreateError {}

/// The reason why an allocation failed. The block is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocateError {
    /// The size is 0. A range has at least one unit.
    ZeroSize,
    /// The size is above [`MAX_SIZE`]; no block can hold it.
    TooLarge {
        /// The requested size.
        size: u64,
    },
    /// No free region is large enough at this alignment. If `free` would be enough but `largest_free` is not,
    /// the block is fragmented; if neither is, [grow](crate::VirtualBlock::grow) it or free ranges.
    NoSpace {
        /// The requested size, in units.
        size: u64,
        /// The requested alignment.
        alignment: Alignment,
        /// All free units of the block.
        free: u64,
        /// The largest size that can be allocated now, at alignment 1 and on the lower side.
        largest_free: u64,
    },
    /// No free region is large enough at this alignment and ends at or below the limit; there may be one above
    /// the limit. Returned by [`allocate_below`](crate::VirtualBlock::allocate_below) only.
    NoSpaceBelow {
        /// The requested size, in units.
        size: u64,
        /// The requested alignment.
        alignment: Alignment,
        /// The offset at or below which the range had to end.
        limit: u64,
    },
    /// The range is not free at this offset, does not follow the range that was named, or is not at a multiple of its
    /// alignment or of its buddy cell. Returned by [`allocate_at`](crate::VirtualBlock::allocate_at) only.
    NotFree {
        /// The requested offset.
        offset: u64,
        /// The requested size, in units.
        size: u64,
    },
    /// The block is linear: ranges are allocated in order, with no choice of offsets. Returned by
    /// [`allocate_below`](crate::VirtualBlock::allocate_below) and
    /// [`allocate_at`](crate::VirtualBlock::allocate_at) only.
    InOrder,
    /// The request is for [`StackSide::Upper`](crate::StackSide::Upper), and the block's algorithm has one side only.
    OneSided {
        /// The algorithm of the block.
        algorithm: Algorithm,
    },
    /// The request is for [`StackSide::Upper`](crate::StackSide::Upper), and the linear block is used as a ring: it has
    /// wrapped, so the space before its end is not one stack. Free the ring first.
    RingInUse,
    /// The block had as many regions at once as its indices can address: 2^27 with TLSF, 2^30 with linear. Only
    /// [`clear`](crate::VirtualBlock::clear) makes room for others.
    TooManyRegions,
    /// The search has to look at more free regions than [`allocate_if_found_soon`](crate::VirtualBlock::allocate_if_found_soon) may.
    /// [`prepare`](crate::VirtualBlock::prepare) the block for the request, or try another one.
    Unprepared,
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => write!(f, "allocation size is zero"),
            Self::TooLarge { size } => write!(f, "allocation size {size} exceeds the limit of {MAX_SIZE}"),
            Self::NoSpace { size, alignment, free, largest_free } => write!(
                f,
                "no free range of {size} units at alignment {alignment}: {free} units are free, the largest range has {largest_free}"
            ),
            Self::NoSpaceBelow { size, alignment, limit } => {
                write!(
                    f,
                    "no free range of {size} units at alignment {alignment} that ends at or below {limit}"
                )
            }
            Self::NotFree { offset, size } => {
                write!(
                    f,
                    "a range of {size} units cannot be had at offset {offset}: look for a free range there first"
                )
            }
            Self::InOrder => {
                write!(f, "a linear block has no choice of offsets, its ranges are allocated in order")
            }
            Self::OneSided { algorithm } => {
                write!(f, "the {algorithm} algorithm has no upper side, only the linear one has")
            }
            Self::RingInUse => {
                write!(
                    f,
                    "the linear block is used as a ring, its upper side is unavailable until the ring is empty"
                )
            }
            Self::TooManyRegions => f.write_str(TOO_MANY_REGIONS),
            Self::Unprepared => f.write_str(
                "the search has to look at more free regions than it may, prepare the block first",
            ),
        }
    }
}

impl Error for AllocateError {}

/// A failed allocation, with the user data passed to it, so that the caller gets the data back.
///
/// Converts into the [`AllocateError`] with `?`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// The reason.
    pub error: AllocateError,
    /// The user data of the request.
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

/// The reason why a handle is invalid. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandleError {
    /// The range was freed, or the block cleared, since the handle was returned.
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

/// The reason why a range was not resized in place. The range is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// The handle is invalid.
    Handle(HandleError),
    /// The size is 0. Free the range instead.
    ZeroSize,
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The requested size.
        size: u64,
    },
    /// The units behind the range are in use. Allocate a new range and copy the contents.
    NoRoom {
        /// The requested size, in units.
        size: u64,
        /// The largest size that the range can have now at its offset.
        largest: u64,
    },
    /// The block had as many regions at once as its indices can address: 2^27 with TLSF, 2^30 with linear. Only
    /// [`clear`](crate::VirtualBlock::clear) makes room for others.
    TooManyRegions,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle(error) => error.fmt(f),
            Self::ZeroSize => write!(f, "the new size is zero, free the range instead"),
            Self::TooLarge { size } => write!(f, "size {size} exceeds the limit of {MAX_SIZE}"),
            Self::NoRoom { size, largest } => {
                write!(f, "cannot resize to {size} units in place: at most {largest} fit")
            }
            Self::TooManyRegions => f.write_str(TOO_MANY_REGIONS),
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

/// The reason why a block was not grown. The block is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrowError {
    /// The new size is below the present one. A block never shrinks.
    Smaller {
        /// The requested size.
        size: u64,
        /// The size of the block.
        current: u64,
    },
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The requested size.
        size: u64,
    },
    /// Ranges on the upper side occupy the end of the linear block, so units behind them could not be
    /// allocated. Free these ranges first.
    UpperInUse {
        /// The number of these ranges.
        ranges: u32,
    },
    /// The block had as many regions at once as its indices can address: 2^27 with TLSF, 2^30 with linear. Only
    /// [`clear`](crate::VirtualBlock::clear) makes room for others.
    TooManyRegions,
}

impl fmt::Display for GrowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Smaller { size, current } => {
                write!(f, "a block of size {current} cannot shrink to {size}")
            }
            Self::TooLarge { size } => write!(f, "block size {size} exceeds the limit of {MAX_SIZE}"),
            Self::UpperInUse { ranges } => {
                write!(f, "{ranges} ranges on the upper side occupy the end of the block")
            }
            Self::TooManyRegions => f.write_str(TOO_MANY_REGIONS),
        }
    }
}

impl Error for GrowError {}

/// The reason why a compaction does not continue. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionError {
    /// The block is linear: its ranges are allocated in order, so none can move.
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

/// The reason why a move was not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// The move belongs to another block.
    WrongBlock,
    /// The range was freed while it moved: there is nothing left to move. Cancel the move, which frees the
    /// place.
    SourceFreed,
    /// The reserved destination was freed by its handle. The range is at its old offset; cancel the move, so
    /// that the range can be moved again.
    PlaceFreed,
    /// The source and the destination no longer have the same size: one of them was resized. Cancel the move.
    Resized {
        /// The size of the source, in units.
        from: u64,
        /// The size of the destination, in units.
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
                write!(f, "the source has {from} units and the reserved destination {to}")
            }
        }
    }
}

impl Error for MoveError {}

/// A move that was not finished, and the reason. Nothing has changed, and the move is still open.
///
/// Converts into the [`MoveError`] with `?`; that drops the move, and its destination stays allocated.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The reason.
    pub error: MoveError,
    /// The move, for [`cancel_move`](crate::VirtualBlock::cancel_move) of the block it belongs to.
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
