//! Errors of a defragmentation that cannot begin, of steps, and of a move that is not the one which was meant.

use core::error::Error;
use core::fmt;

use crate::device::{DeviceError, QueueIndex};
use crate::memory::token::Allocation;

/// Why a defragmentation did not begin, and the pools are unchanged; or why a step of a
/// [`Defragmenter`](crate::memory::Defragmenter) moved nothing, and all resources stay in their places.
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
    /// [`RequestDefragmentation`](crate::memory::defragmentation::RequestDefragmentation) that moves their allocations, maybe
    /// for a request in another pool of a full heap. Drop it first.
    /// [`Defragmenter`](crate::memory::Defragmenter)s may be running as well.
    AlreadyRunning,
    /// The layout of a [`BlockLayout`](super::layout::BlockLayout) cannot be: an index names nothing, an allocation is
    /// beyond its block, or there are more bytes than any machine has (2⁶⁰).
    ImpossibleLayout,
    /// The device has no such queue. Use one of its [properties](crate::device::DeviceProperties::queues).
    NoSuchQueue {
        /// The queue that was asked for.
        queue: QueueIndex,
    },
    /// The allocator and the tracker belong to different devices.
    WrongDevice,
    /// The allocator has 32,767 [`Defragmenter`](crate::memory::Defragmenter)s, the most that it can tell apart. One that
    /// was dropped counts until the last resource that it created is dropped.
    TooManyDefragmenters,
    /// The copies could not be made or submitted, or a resource for them could not be created.
    Device(DeviceError),
}

impl fmt::Display for DefragmentationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinearPool => {
                "pools with the linear algorithm cannot be defragmented, free their allocations instead"
            }
            Self::WrongPool => "the pool belongs to another allocator",
            Self::AlreadyRunning => "a defragmentation of these pools is running, drop it first",
            Self::ImpossibleLayout => {
                "the layout has an index that names nothing, or more bytes than it has room for"
            },
            Self::NoSuchQueue { queue } => return DeviceError::NoSuchQueue { queue: *queue }.fmt(f),
            Self::WrongDevice => {
                "the tracker belongs to another device than the allocator, create both for one device"
            }
            Self::TooManyDefragmenters => {
                "the allocator has 32767 defragmenters, the most it can have: drop some, and the resources that they created"
            }
            Self::Device(error) => return write!(f, "nothing could be moved: {error}"),
        })
    }
}

impl Error for DefragmentationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

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
