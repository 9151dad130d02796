//! Why a custom pool was not created or destroyed.

use core::error::Error;
use core::fmt;

use super::Pool;
use crate::device::MemoryTypeIndex;
use crate::memory::name_in_error;
use crate::memory::{AllocationError, ShortName};

/// Why a pool was not created. Nothing has changed.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::device::MemoryTypeIndex;
/// use allotment::memory::{CreatePoolError, Pool};
///
/// let five = (0..5).map(MemoryTypeIndex);
/// assert!(matches!(allocator.create_pool(PoolDesc::new(five)), Err(CreatePoolError::MemoryTypes { count: 5, .. })));
/// assert_eq!(Pool::MAX_MEMORY_TYPES, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreatePoolError {
    /// The pool names no memory type, or more than four.
    MemoryTypes {
        /// How many the pool names.
        count: usize,
        /// Name of the pool, if it has one.
        name: ShortName,
    },
    /// The device has no such memory type, or the allocator was created without it
    /// ([`AllocatorDesc::memory_types`](crate::AllocatorDesc::memory_types)).
    NoMemoryType {
        /// The memory type that the pool names.
        memory_type: MemoryTypeIndex,
        /// Name of the pool, if it has one.
        name: ShortName,
    },
    /// The block size is 0 or above what one memory object can have.
    BlockSize {
        /// Bytes asked for.
        size: u64,
        /// Name of the pool, if it has one.
        name: ShortName,
    },
    /// The minimum of blocks exceeds the maximum, or the maximum is 0.
    BlockCounts {
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
        /// Name of the pool, if it has one.
        name: ShortName,
    },
    /// The pool's first blocks could not be allocated.
    FirstBlocks(AllocationError),
}

name_in_error!(
    CreatePoolError,
    own: [MemoryTypes, NoMemoryType, BlockSize, BlockCounts],
    inner: [FirstBlocks]
);

impl fmt::Display for CreatePoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemoryTypes { count, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "a pool takes one to {} of the device's memory types, not {count}",
                    Pool::MAX_MEMORY_TYPES
                )
            }
            Self::NoMemoryType { memory_type, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "the device has no memory type {memory_type} that the allocator may use, choose one of `Allocator::explain`"
                )
            }
            Self::BlockSize { size, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "a block cannot have {size} bytes, choose at least 1 byte and at most maxMemoryAllocationSize"
                )
            }
            Self::BlockCounts { min, max, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "a minimum of {min} blocks contradicts a maximum of {max} blocks, lower the minimum"
                )
            }
            Self::FirstBlocks(error) => write!(f, "the pool's first blocks: {error}"),
        }
    }
}

impl Error for CreatePoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::FirstBlocks(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a pool was not destroyed. The error returns the pool unchanged.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
/// use allotment::memory::DestroyPoolError;
///
/// let pool = allocator.create_pool(PoolDesc::new([best]))?;
/// let options = MemoryUsage::GpuOnly.with_pool(&pool); // holds a clone
/// match allocator.destroy_pool(pool) {
///     Err(DestroyPoolError::Cloned { pool, clones: 1 }) => {
///         drop(options);
///         allocator.destroy_pool(pool)?;
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestroyPoolError {
    /// Allocations in the pool are still live. Free them, or [reset](crate::Allocator::reset_pool) the pool.
    InUse {
        /// The pool.
        pool: Pool,
        /// How many allocations are live.
        allocations: u32,
    },
    /// Other clones of the pool exist. Drop them first, and the options, rings and upload pages that hold one;
    /// [stop](super::super::Defragmenter::stop) a defragmenter with relocatable resources in the pool.
    Cloned {
        /// The pool.
        pool: Pool,
        /// How many other clones there are.
        clones: usize,
    },
    /// The pool belongs to another allocator.
    WrongAllocator(Pool),
}

impl fmt::Display for DestroyPoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { pool, allocations } => {
                pool.name().begin(f)?;
                write!(f, "the pool has {allocations} live allocations, free them or reset the pool")
            }
            Self::Cloned { pool, clones } => {
                pool.name().begin(f)?;
                write!(
                    f,
                    "the pool has {clones} other clones, drop them, and the options and rings that hold one"
                )
            }
            Self::WrongAllocator(pool) => {
                pool.name().begin(f)?;
                f.write_str("the pool belongs to another allocator, call the one that created it")
            }
        }
    }
}

impl Error for DestroyPoolError {}
