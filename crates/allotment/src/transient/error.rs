//! What the planner refuses.

use core::fmt;

use allotment_suballoc::plan::ProblemError;

/// Why passes and their resources make no plan. Nothing was changed: the plan is the one of before.
///
/// ```
/// use allotment::transient::{TransientDesc, TransientError, TransientPlanner};
///
/// let mut planner = TransientPlanner::default();
/// let bloom = TransientDesc::new(7, 1 << 20);
/// assert_eq!(planner.resource(&bloom, &[]), Err(TransientError::Unused { key: 7 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransientError {
    /// A resource that no pass uses. Name the passes that do, or leave it out.
    Unused {
        /// The key of the resource.
        key: u64,
    },
    /// A history that no pass of the next frame reads. Name the passes that do, or add it as a resource of its frame alone.
    NotRead {
        /// The key of the resource.
        key: u64,
    },
    /// A pass that was not added since [`begin`](super::TransientPlanner::begin).
    UnknownPass {
        /// The number of the pass.
        pass: u32,
        /// How many passes there are.
        passes: u32,
    },
    /// The contents of a resource are read in the next frame by a pass that is not before the one that writes it there. Use two
    /// resources that take turns.
    HistoryOverlaps {
        /// The key of the resource.
        key: u64,
        /// The number of the pass that reads what the frame before wrote.
        read: u32,
        /// The number of the pass that writes.
        written: u32,
    },
    /// Two resources of this frame have one key.
    KeyUsedTwice {
        /// The key.
        key: u64,
    },
    /// A size, an alignment or a pin that cannot be placed.
    Impossible {
        /// The key of the resource.
        key: u64,
        /// Why. What it calls an item is the place among the resources that were placed together.
        reason: ProblemError,
    },
}

impl fmt::Display for TransientError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused { key } => {
                write!(out, "no pass uses resource {key}: name the passes that do, or leave it out")
            }
            Self::NotRead { key } => {
                write!(
                    out,
                    "no pass reads in the next frame what fills resource {key}: name those that do, or add it without a history"
                )
            }
            Self::UnknownPass { pass, passes } => {
                write!(out, "there is no pass {pass}: {passes} were added since `begin`")
            }
            Self::HistoryOverlaps { key, read, written } => write!(
                out,
                "pass {read} reads what the frame before wrote to resource {key}, and is not before pass {written}, which writes \
                 it: use two resources that take turns"
            ),
            Self::KeyUsedTwice { key } => write!(out, "two resources have the key {key}"),
            Self::Impossible { key, reason } => write!(out, "resource {key} cannot be placed: {reason}"),
        }
    }
}

impl core::error::Error for TransientError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Impossible { reason, .. } => Some(reason),
            _ => None,
        }
    }
}
