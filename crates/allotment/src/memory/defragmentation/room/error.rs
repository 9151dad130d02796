//! Why no room was made for a request.

use core::error::Error;
use core::fmt;

use super::run::NoRoom;
use crate::device::DeviceError;
use crate::memory::defragmentation::DefragmentationError;
use crate::memory::name_in_error;
use crate::memory::request::AllocationRequest;
use crate::memory::{AllocationError, ShortName};

/// Why no room was made for a request. What was moved until then stays in its new place.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # let best = allocator.explain(&Requirements::new(1), &MemoryUsage::GpuOnly.into())[0].memory_type;
/// use allotment::memory::blocks::BlockSize;
/// use allotment::memory::defragmentation::{RequestDefragmentation, DefragmentationDesc, RoomError};
///
/// let mut desc = PoolDesc::new([best]);
/// (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(1 << 20)), 1);
/// let pool = allocator.create_pool(desc)?;
/// let options = MemoryUsage::GpuOnly.with_name("level").with_pool(&pool);
/// let pinned = allocator.allocate(&Requirements::new(600 << 10), &options)?;
/// let half = Requirements::new(512 << 10);
/// let run = DefragmentationDesc::default();
/// let refused = RequestDefragmentation::new(&allocator, &half, &options, run).and_then(|room| room.run(|pass| _ = pass.end())).unwrap_err();
/// assert!(matches!(refused, RoomError::NothingHelps { requested: 524_288, .. }));
/// assert!(refused.to_string().starts_with("\"level\": 524288 bytes do not fit"));
/// # allocator.free(pinned)?;
/// # drop(options);
/// # allocator.destroy_pool(pool)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoomError {
    /// The request was refused for a reason that no move changes.
    Refused(AllocationError),
    /// Nothing can be moved now.
    NotBegun {
        /// Bytes that were asked for.
        requested: u64,
        /// The name of the request.
        name: ShortName,
        /// Why.
        reason: DefragmentationError,
    },
    /// The request does not fit wherever the movable allocations are placed: too much is allocated, or pinned
    /// allocations are in the way. Free something.
    NothingHelps {
        /// Bytes that were asked for.
        requested: u64,
        /// The name of the request.
        name: ShortName,
    },
    /// It would fit, after more bytes were copied than
    /// [`WithinBytes`](crate::memory::defragmentation::DefragmentationStrategy::WithinBytes) allows.
    TooManyBytes {
        /// Bytes that were asked for.
        requested: u64,
        /// The name of the request.
        name: ShortName,
        /// Bytes to copy in all.
        bytes: u64,
    },
    /// The pool changed all the time: other threads took the room, or moves were ignored. Try again.
    Changed {
        /// Bytes that were asked for.
        requested: u64,
        /// The name of the request.
        name: ShortName,
    },
    /// The old places of moved resources would not become free: a recording is open that may use them, or the GPU did
    /// not complete its work in time. Submit or drop the recordings, or ask between two frames. Of
    /// [`run`](crate::memory::defragmentation::RequestDefragmentation::run): its `execute` passed old places on by
    /// [`Pass::end_with`](crate::memory::Pass::end_with), and returned before they were free.
    InUse {
        /// Bytes that were asked for.
        requested: u64,
        /// The name of the request.
        name: ShortName,
    },
    /// The moves could not be submitted.
    Device {
        /// The error of the device.
        source: DeviceError,
        /// The name of the request.
        name: ShortName,
    },
    /// The request was given up with passes left: begin anew, and call `finish` once `next_pass` has returned `Done`.
    Unfinished,
}

/// What an error says of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    requested: u64,
    name: ShortName,
}

impl Asked {
    pub(crate) fn of(request: &AllocationRequest<'_>) -> Self {
        let name = ShortName::of(request.options.name.as_ref());
        Self { requested: request.requirements.size, name }
    }

    pub(in crate::memory::defragmentation) fn error(self, reason: NoRoom) -> RoomError {
        let Self { requested, name } = self;
        match reason {
            NoRoom::NothingHelps => RoomError::NothingHelps { requested, name },
            NoRoom::TooManyBytes(bytes) => RoomError::TooManyBytes { requested, name, bytes },
            NoRoom::Changed => RoomError::Changed { requested, name },
            NoRoom::Unfinished => RoomError::Unfinished,
        }
    }

    pub(in crate::memory::defragmentation) fn not_begun(self, reason: DefragmentationError) -> RoomError {
        let Self { requested, name } = self;
        RoomError::NotBegun { requested, name, reason }
    }

    pub(crate) fn in_use(self) -> RoomError {
        let Self { requested, name } = self;
        RoomError::InUse { requested, name }
    }
}

name_in_error!(
    RoomError,
    own: [NotBegun, NothingHelps, TooManyBytes, Changed, InUse, Device],
    inner: [Refused]
);

impl From<DeviceError> for RoomError {
    fn from(source: DeviceError) -> Self {
        Self::Device { source, name: ShortName::NONE }
    }
}

impl fmt::Display for RoomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The inner error begins with the name itself.
        if let Some(name) = self.name().filter(|_| !matches!(self, Self::Refused(_))) {
            write!(f, "{name:?}: ")?;
        }
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::NotBegun { requested, reason, .. } => {
                write!(f, "{requested} bytes do not fit, and nothing can be moved: {reason}")
            }
            Self::NothingHelps { requested, .. } => write!(
                f,
                "{requested} bytes do not fit wherever the movable allocations are placed, free something first"
            ),
            Self::TooManyBytes { requested, bytes, .. } => write!(
                f,
                "{requested} bytes would fit after {bytes} bytes were copied, more than the strategy allows"
            ),
            Self::Changed { requested, .. } => write!(
                f,
                "{requested} bytes do not fit: room was made for them, and other threads took it each time, or moves \
                 were ignored"
            ),
            Self::InUse { requested, .. } => write!(
                f,
                "{requested} bytes do not fit, and what would move is in use: submit or drop the open recordings, ask \
                 between two frames, or free the old places before `execute` returns"
            ),
            Self::Device { source, .. } => {
                write!(f, "no room was made, since nothing could be moved: {source}")
            }
            Self::Unfinished => {
                f.write_str("the request was given up with passes left: call `finish` once `next_pass` has returned `Done`")
            }
        }
    }
}

impl Error for RoomError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::NotBegun { reason, .. } => Some(reason),
            Self::Device { source, .. } => Some(source),
            _ => None,
        }
    }
}
