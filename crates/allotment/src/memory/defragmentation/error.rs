//! Errors of a defragmentation that cannot begin, and of a move that is not the one which was meant.

use core::error::Error;
use core::fmt;

use crate::memory::token::Allocation;

/// Why a defragmentation did not begin. The pools are unchanged.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, DefragmentationError};
///
/// let run = Defragmentation::new(&allocator, None, DefragmentationDesc::default())?;
/// let second = Defragmentation::new(&allocator, None, DefragmentationDesc::default()).err();
/// assert_eq!(second, Some(DefragmentationError::AlreadyRunning));
/// drop(run); // ends it
/// assert!(Defragmentation::new(&allocator, None, DefragmentationDesc::default()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefragmentationError {
    /// The blocks of the pool, or of the default pools, use the linear algorithm. It places allocations by the order in
    /// which they come, and leaves no holes that are worth filling. Free the allocations, or use another algorithm.
    LinearPool,
    /// The pool belongs to another allocator.
    WrongPool,
    /// Another defragmentation with passes of the pool, or of the default pools, is running; or a
    /// [`RequestDefragmentation`](crate::memory::RequestDefragmentation) that moves their allocations, maybe for a request in another pool of a full heap.
    /// Drop it first.
    /// [`Defragmenter`](crate::memory::Defragmenter)s may be running as well.
    AlreadyRunning,
}

impl fmt::Display for DefragmentationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinearPool => {
                "pools with the linear algorithm cannot be defragmented, free their allocations instead"
            }
            Self::WrongPool => "the pool belongs to another allocator",
            Self::AlreadyRunning => "a defragmentation of these pools is running, drop it first",
        })
    }
}

impl Error for DefragmentationError {}

/// The allocation is not the one of the move, or the pass has no such move. Nothing has changed, and the handle is in the
/// error.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::Movability;
/// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, NotThisMove, PassLimits};
///
/// let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
/// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
/// allocator.free(tiles.remove(0))?;
/// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
/// let NextPass::Moves(mut pass) = run.next_pass() else { panic!("a block can be emptied") };
/// let NotThisMove { allocation, moves, .. } = pass.destroy(1, tiles.remove(0)).unwrap_err();
/// assert_eq!(moves, 1);
/// allocator.free(allocation)?;
/// # drop(pass);
/// # drop(run);
/// # drop(allocator.free_many(tiles));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotThisMove {
    /// The handle.
    pub allocation: Allocation,
    /// The index that was asked for.
    pub index: usize,
    /// How many moves the pass has.
    pub moves: usize,
}

impl fmt::Display for NotThisMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocation, index, moves } = self;
        if index < moves {
            write!(f, "{:?} is not the allocation of move {index}: compare with Move::id", allocation.id())
        } else {
            write!(f, "there is no move {index}, the pass has {moves}")
        }
    }
}

impl Error for NotThisMove {}
