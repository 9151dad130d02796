//! Errors of problems and plans. Each names the item by its index.

use core::error::Error;
use core::fmt;

use super::problem::MAX_TOTAL;
use crate::{Alignment, MAX_SIZE};

/// The reason why a problem was not created. `item` is the index of the item among those passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemError {
    /// The size is 0. Leave the item out.
    ZeroSize {
        /// The item.
        item: usize,
    },
    /// The size is above [`MAX_SIZE`].
    TooLarge {
        /// The item.
        item: usize,
        /// Its size.
        size: u64,
    },
    /// The item is never live. Leave it out.
    EmptyLifetime {
        /// The item.
        item: usize,
    },
    /// A range of the lifetime ends before it starts. Split one that wraps around in two.
    ReversedLifetime {
        /// The item.
        item: usize,
        /// The start of the range.
        start: u64,
        /// The end of the range.
        end: u64,
    },
    /// The fixed offset is not a multiple of the alignment.
    PinMisaligned {
        /// The item.
        item: usize,
        /// Its fixed offset.
        offset: u64,
        /// Its alignment.
        alignment: Alignment,
    },
    /// The fixed offset is above [`MAX_SIZE`].
    PinTooHigh {
        /// The item.
        item: usize,
        /// Its fixed offset.
        offset: u64,
    },
    /// Two items with fixed offsets are live at the same time and overlap.
    PinsOverlap {
        /// The one with the lower offset.
        first: usize,
        /// The other one.
        second: usize,
    },
    /// With this item, the sum of all sizes and alignments is above 2^60. Count in larger units.
    TotalTooLarge {
        /// The item that passed the limit.
        item: usize,
    },
    /// There are more than 2^29 ranges.
    TooManyItems,
}

impl ProblemError {
    /// Returns the item that the error names, the second one of two; `None` where it is about all of them.
    #[must_use]
    pub const fn item(&self) -> Option<usize> {
        match *self {
            Self::ZeroSize { item }
            | Self::TooLarge { item, .. }
            | Self::EmptyLifetime { item }
            | Self::ReversedLifetime { item, .. }
            | Self::PinMisaligned { item, .. }
            | Self::PinTooHigh { item, .. }
            | Self::TotalTooLarge { item } => Some(item),
            Self::PinsOverlap { second, .. } => Some(second),
            Self::TooManyItems => None,
        }
    }
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize { item } => write!(f, "the size of item {item} is zero"),
            Self::TooLarge { item, size } => {
                write!(f, "size {size} of item {item} exceeds the limit of {MAX_SIZE}")
            }
            Self::EmptyLifetime { item } => write!(f, "item {item} is never live"),
            Self::ReversedLifetime { item, start, end } => {
                write!(f, "the lifetime {start}..{end} of item {item} ends before it starts")
            }
            Self::PinMisaligned { item, offset, alignment } => write!(
                f,
                "the fixed offset {offset} of item {item} is not a multiple of its alignment {}",
                alignment.get()
            ),
            Self::PinTooHigh { item, offset } => {
                write!(f, "the fixed offset {offset} of item {item} exceeds the limit of {MAX_SIZE}")
            }
            Self::PinsOverlap { first, second } => {
                write!(f, "items {first} and {second} are live together and overlap at their fixed offsets")
            }
            Self::TotalTooLarge { item } => write!(
                f,
                "with item {item}, the sum of all sizes and alignments exceeds the limit of {MAX_TOTAL}"
            ),
            Self::TooManyItems => write!(f, "the lifetimes have more than 2^29 ranges"),
        }
    }
}

impl Error for ProblemError {}

/// What is wrong with a plan for a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The plan was made for another number of items.
    OtherProblem {
        /// The items of the problem.
        items: usize,
        /// The offsets of the plan.
        planned: usize,
    },
    /// Two items are live at the same time and overlap.
    Overlap {
        /// The one with the lower offset.
        first: usize,
        /// The other one.
        second: usize,
    },
    /// The offset is not a multiple of the alignment.
    Misaligned {
        /// The item.
        item: usize,
    },
    /// The offset is not the fixed one.
    PinMoved {
        /// The item.
        item: usize,
    },
    /// The item ends above the peak of the plan.
    AbovePeak {
        /// The item.
        item: usize,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherProblem { items, planned } => {
                write!(f, "the problem has {items} items, and the plan was made for {planned}")
            }
            Self::Overlap { first, second } => {
                write!(f, "items {first} and {second} are live together and overlap")
            }
            Self::Misaligned { item } => write!(f, "the offset of item {item} is not aligned"),
            Self::PinMoved { item } => write!(f, "item {item} is not at its fixed offset"),
            Self::AbovePeak { item } => write!(f, "item {item} ends above the peak"),
        }
    }
}

impl Error for PlanError {}
