//! Why there are no descriptors, and what helps.

use core::error::Error;
use core::fmt;

use crate::device::{DescriptorHeapType, DeviceError};
use crate::lifetime::WaitFor;
use crate::memory::ResourceError;

/// A part of a shader-visible heap that requests of one sort are served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Region {
    /// Slots whose index never changes.
    Slots,
    /// Ranges that live long.
    Tables,
    /// Chunks that recordings take.
    Transient,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slots => "slots",
            Self::Tables => "tables",
            Self::Transient => "transient",
        })
    }
}

/// Why something about descriptors was refused. Nothing but a count of failures has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorError {
    /// A range of no descriptors has no place. Ask for at least one.
    Empty,
    /// There is no room now.
    Exhausted {
        /// Of what.
        heap_type: DescriptorHeapType,
        /// Where it was looked for.
        region: Region,
        /// Descriptors asked for.
        requested: u32,
        /// Descriptors that are free there.
        free: u32,
        /// The largest range among them. Where it is less than `requested` and `free` is not, to
        /// [compact](super::ShaderVisibleHeap::compact) helps.
        largest: u32,
        /// Descriptors that come back when the GPU is done with them.
        retiring: u32,
        /// What has to happen before some of them do. `None` where none are on their way: free some, or
        /// [grow](super::ShaderVisibleHeap::grow).
        wait: Option<WaitFor>,
    },
    /// The region is too small for this request even when it is empty.
    NeverFits {
        /// Descriptors asked for.
        requested: u32,
        /// Descriptors of the region.
        capacity: u32,
    },
    /// The regions do not fit into a heap of the device.
    OverLimit {
        /// Descriptors asked for, those that keep regions at their alignment included.
        requested: u64,
        /// Of these, what the driver keeps for itself.
        reserved: u32,
        /// Descriptors that a heap can have.
        limit: u32,
    },
    /// A part of a range is beyond its end.
    OutOfRange {
        /// The first descriptor that was named.
        first: u32,
        /// How many were named.
        count: u32,
        /// Descriptors of the range.
        available: u32,
    },
    /// The descriptor is of something else than the heap.
    WrongKind {
        /// What the heap is of.
        expected: DescriptorHeapType,
        /// What the descriptor is of.
        found: DescriptorHeapType,
    },
    /// The slot was given back: its handle is of the past.
    Stale,
    /// The handle, the recording or the tracker is another heap's or device's.
    Foreign,
    /// Somebody may use the range already: what is in it must stay. [Renew](super::DescriptorRange::renew) it first.
    InUse,
    /// The heap is gone.
    HeapGone,
    /// The device panicked while descriptors were cleared, so the heap may hold some of destroyed resources, and is not
    /// copied to another one. Make a new heap.
    Poisoned,
    /// The heap was replaced while this recording was open, and the one that it began with has no room. Submit it,
    /// and begin another.
    Replaced,
    /// The heap was replaced 2<sup>32</sup> - 1 times, which is as often as can be counted. Make another heap.
    TooManyReplacements,
    /// The heap that was replaced last is still used. Wait for that first.
    StillReplacing {
        /// What has to happen first.
        wait: Option<WaitFor>,
    },
    /// The recording is [owning](crate::lifetime::SubmissionTracker::record_explicit): descriptors that are given back
    /// do not wait for it. Record with an ordinary one.
    Owning,
    /// A staging range was not written, so there is nothing to copy.
    Unwritten,
    /// There is no such binding.
    NoSuchBinding {
        /// The binding that was named.
        binding: usize,
    },
    /// The binding is of another frequency or kind than what was asked of it.
    WrongBinding {
        /// The binding that was named.
        binding: usize,
    },
    /// A static binding was set before, and stays.
    AlreadySet {
        /// The binding.
        binding: usize,
    },
    /// A static binding was not set.
    Missing {
        /// The binding.
        binding: usize,
    },
    /// A range of a buffer is empty, is not in the buffer, or does not begin and end where it has to.
    BadRange {
        /// The first byte.
        start: u64,
        /// The first byte behind it.
        end: u64,
        /// Bytes of the buffer.
        available: u64,
    },
    /// The sampler's numbers are out of range; see [`SamplerDesc::is_valid`](crate::device::SamplerDesc::is_valid).
    InvalidSampler,
    /// The device refused.
    Device(DeviceError),
    /// There was no memory for a heap.
    Memory(ResourceError),
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a range of no descriptors has no place"),
            Self::Exhausted { heap_type, region, requested, free, largest, retiring, wait } => {
                write!(
                    f,
                    "no room for {requested} {heap_type} descriptors ({region}): {free} are free, the largest range is \
                     {largest}, and {retiring} are on their way back"
                )?;
                wait.map_or(Ok(()), |wait| write!(f, "; {wait}"))
            }
            Self::NeverFits { requested, capacity } => {
                write!(f, "{requested} descriptors never fit a region of {capacity}")
            }
            Self::OverLimit { requested, reserved, limit } => write!(
                f,
                "regions of {requested} descriptors, {reserved} of them the driver's, do not fit into a heap of {limit}"
            ),
            Self::OutOfRange { first, count, available } => {
                write!(f, "{count} descriptors from {first} on reach beyond a range of {available}")
            }
            Self::WrongKind { expected, found } => {
                write!(f, "a {found} descriptor does not go into a heap of {expected} descriptors")
            }
            Self::Stale => f.write_str("the slot was given back"),
            Self::Foreign => f.write_str("the handle or the recording is of another heap or tracker"),
            Self::InUse => f.write_str("the range may be in use; renew it first"),
            Self::HeapGone => f.write_str("the heap is gone"),
            Self::Poisoned => {
                f.write_str("the device panicked while descriptors were cleared; make a new heap")
            }
            Self::Replaced => f.write_str("the heap was replaced; submit the recording and begin another"),
            Self::TooManyReplacements => {
                f.write_str("the heap was replaced as often as can be counted; make another heap")
            }
            Self::StillReplacing { wait } => {
                f.write_str("the heap that was replaced last is still used")?;
                wait.map_or(Ok(()), |wait| write!(f, "; {wait}"))
            }
            Self::Owning => f.write_str("descriptors do not wait for a recording that is owning"),
            Self::Unwritten => f.write_str("the staging range was not written"),
            Self::NoSuchBinding { binding } => write!(f, "there is no binding {binding}"),
            Self::WrongBinding { binding } => write!(f, "binding {binding} is of another frequency or kind"),
            Self::AlreadySet { binding } => write!(f, "the static binding {binding} is set already"),
            Self::Missing { binding } => write!(f, "the static binding {binding} is not set"),
            Self::BadRange { start, end, available } => {
                write!(f, "bytes {start} to {end} of a buffer of {available} cannot be bound")
            }
            Self::InvalidSampler => f.write_str("the sampler's numbers are out of range"),
            Self::Device(_) => f.write_str("the device refused"),
            Self::Memory(_) => f.write_str("there is no memory for a descriptor heap"),
        }
    }
}

impl Error for DescriptorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Memory(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DeviceError> for DescriptorError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// Whether `count` descriptors from `first` on lie in a range of so many.
pub(super) fn check_range(first: u32, count: u32, available: u32) -> Result<(), DescriptorError> {
    match first.checked_add(count) {
        Some(end) if end <= available => Ok(()),
        _ => Err(DescriptorError::OutOfRange { first, count, available }),
    }
}
