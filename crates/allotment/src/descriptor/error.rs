//! Errors of descriptor heaps, with the information that helps to resolve them.

use core::error::Error;
use core::fmt;

use crate::device::{DescriptorHeapType, DeviceError};
use crate::lifetime::{WaitFor, WrongTracker};
use crate::memory::ResourceError;

/// A region of a shader-visible heap. Each sort of request is served by one of them.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::descriptor::{DescriptorError, Region, ShaderVisibleHeapDesc};
///
/// let small = ShaderVisibleHeapDesc::resources().with_regions(64, 8, 256);
/// let gpu = Gpu::new(device, GpuDesc::default().with_resource_descriptors(small))?;
/// let tables = gpu.descriptors()?.resources();
/// let first = tables.allocate(8)?;
/// let refused = tables.allocate(1).err();
/// assert!(matches!(refused, Some(DescriptorError::Exhausted { region: Region::Tables, free: 0, .. })));
/// # drop(first);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Region {
    /// Slots with a constant index.
    Slots,
    /// Long-lived ranges.
    Tables,
    /// Chunks for recordings.
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

/// The reason why a descriptor operation was refused. Nothing has changed except a counter of failures.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::descriptor::DescriptorError;
///
/// match gpu.descriptors()?.resources().allocate(1 << 24) {
///     Err(DescriptorError::NeverFits { capacity, .. }) => println!("the region has {capacity}: grow the heap"),
///     Err(DescriptorError::Exhausted { wait, .. }) => println!("once this has happened: {wait:?}"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The request is for no descriptors. Ask for at least one.
    Empty,
    /// Not enough descriptors are free now.
    Exhausted {
        /// The type of the heap.
        heap_type: DescriptorHeapType,
        /// The region that serves the request.
        region: Region,
        /// The requested descriptors.
        requested: u32,
        /// The free descriptors of the region.
        free: u32,
        /// The largest free range of the region. If it is less than `requested` and `free` is not,
        /// [compact](super::ShaderVisibleHeap::compact) the heap.
        largest: u32,
        /// Descriptors that were released and become free once the GPU has finished with them.
        retiring: u32,
        /// The event after which some of these become free. `None` if no release is pending: release some, or
        /// [grow](super::ShaderVisibleHeap::grow) the heap.
        wait: Option<WaitFor>,
    },
    /// The region is too small for this request even when it is empty.
    NeverFits {
        /// The requested descriptors.
        requested: u32,
        /// The size of the region, in descriptors.
        capacity: u32,
    },
    /// Shaders of this device see no descriptor heaps. On Vulkan, enable descriptor indexing or
    /// `VK_EXT_descriptor_buffer`.
    NoHeaps,
    /// The regions exceed the largest heap of the device.
    OverLimit {
        /// The requested descriptors, including those that align the regions.
        requested: u64,
        /// Of these, the descriptors that the driver reserves.
        reserved: u32,
        /// The largest heap of the device, in descriptors.
        limit: u32,
    },
    /// The accessed part exceeds the range.
    OutOfRange {
        /// The first descriptor accessed.
        first: u32,
        /// The number of descriptors accessed.
        count: u32,
        /// The size of the range, in descriptors.
        available: u32,
    },
    /// The descriptor and the heap are of different types.
    WrongKind {
        /// The type of the heap.
        expected: DescriptorHeapType,
        /// The type of the descriptor.
        found: DescriptorHeapType,
    },
    /// The handle is stale: its slot was removed.
    Stale,
    /// The handle belongs to another heap.
    WrongHeap,
    /// The heap, the buffer or the tracker belongs to another device.
    WrongDevice,
    /// The recording, the buffer or the image belongs to another tracker, such as that of another
    /// [`Gpu`](crate::Gpu) over the same device, which does not wait for what uses this heap.
    WrongTracker,
    /// A recording may use the range already, so its descriptors must not change.
    /// [Renew](super::DescriptorRange::renew) it first.
    InUse,
    /// The heap was dropped.
    HeapGone,
    /// The device panicked while descriptors were cleared, so the heap may hold descriptors of destroyed
    /// resources and is not copied any more. Create a new heap.
    Poisoned,
    /// The heap was replaced while this recording was open, and the heap that the recording began with is full.
    /// Submit the recording and begin another.
    Replaced,
    /// The heap was replaced 2<sup>32</sup> - 1 times, the maximum. Create another heap.
    TooManyReplacements,
    /// The allocator's descriptor heaps have taken 2<sup>32</sup> - 1 heaps of the device so far, the maximum. Create
    /// another allocator.
    TooManyHeaps,
    /// Recordings still use the heap that was replaced last. Wait for them first.
    StillReplacing {
        /// The event to wait for.
        wait: Option<WaitFor>,
    },
    /// The recording is [explicit](crate::lifetime::SubmissionTracker::record_explicit), so descriptors that
    /// are released do not wait for it. Use an ordinary recording.
    ExplicitRecording,
    /// The CPU descriptors were not written, so they cannot be copied.
    Unwritten,
    /// The layout has no such binding.
    NoSuchBinding {
        /// The binding in question.
        binding: usize,
    },
    /// The binding has another frequency or type than the operation requires.
    WrongBinding {
        /// The binding in question.
        binding: usize,
    },
    /// The static binding was bound before, and cannot change.
    AlreadySet {
        /// The binding in question.
        binding: usize,
    },
    /// A static binding was not bound.
    Missing {
        /// The binding in question.
        binding: usize,
    },
    /// The range of a buffer is empty, exceeds the buffer, or is not aligned as its use requires.
    BadRange {
        /// The first byte.
        start: u64,
        /// The end of the range, exclusive.
        end: u64,
        /// The size of the buffer, in bytes.
        available: u64,
    },
    /// A parameter of the sampler is out of range; see
    /// [`SamplerDesc::is_valid`](crate::device::SamplerDesc::is_valid).
    InvalidSampler,
    /// The device returned an error.
    Device(DeviceError),
    /// The memory of a descriptor heap could not be allocated.
    Memory(ResourceError),
}

impl From<WrongTracker> for DescriptorError {
    fn from(_: WrongTracker) -> Self {
        Self::WrongTracker
    }
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the number of descriptors is zero"),
            Self::Exhausted { heap_type, region, requested, free, largest, retiring, wait } => {
                write!(
                    f,
                    "no free range of {requested} {heap_type} descriptors ({region}): {free} are free, the largest range \
                     has {largest}, and {retiring} are pending release"
                )?;
                wait.map_or(Ok(()), |wait| write!(f, "; {wait}"))
            }
            Self::NeverFits { requested, capacity } => {
                write!(f, "{requested} descriptors exceed the capacity {capacity}")
            }
            Self::NoHeaps => f.write_str(
                "shaders of this device see no descriptor heaps; on Vulkan, enable descriptor indexing or \
                 VK_EXT_descriptor_buffer (`EnabledFeatures`)",
            ),
            Self::OverLimit { requested, reserved, limit } => write!(
                f,
                "{requested} descriptors, {reserved} of them reserved by the driver, exceed the device's limit {limit}"
            ),
            Self::OutOfRange { first, count, available } => {
                write!(f, "descriptors {first}..+{count} exceed a range of {available}")
            }
            Self::WrongKind { expected, found } => {
                write!(f, "a {found} descriptor cannot be written to a heap of {expected} descriptors")
            }
            Self::Stale => f.write_str("the handle is stale: its slot was removed"),
            Self::WrongHeap => f.write_str("the handle belongs to another heap"),
            Self::WrongDevice => f.write_str("the heap, the buffer or the tracker belongs to another device"),
            Self::WrongTracker => f.write_str("the recording, the buffer or the image belongs to another `Gpu` (another tracker); use one of the heap's own"),
            Self::InUse => f.write_str("a recording may use the range; renew it first"),
            Self::HeapGone => f.write_str("the descriptor heap was dropped"),
            Self::Poisoned => {
                f.write_str("the device panicked while descriptors were cleared; create a new heap")
            }
            Self::Replaced => f.write_str("the heap was replaced; submit the recording and begin another"),
            Self::TooManyHeaps => f.write_str(
                "the allocator has created 4294967295 descriptor heaps of the device, the most it can: create another allocator",
            ),
            Self::TooManyReplacements => {
                f.write_str("the heap was replaced the maximum number of times; create another heap")
            }
            Self::StillReplacing { wait } => {
                f.write_str("recordings still use the heap that was replaced last")?;
                wait.map_or(Ok(()), |wait| write!(f, "; {wait}"))
            }
            Self::ExplicitRecording => f.write_str(
                "explicit recordings do not keep descriptors alive; use SubmissionTracker::record",
            ),
            Self::Unwritten => f.write_str("the CPU descriptors were not written"),
            Self::NoSuchBinding { binding } => write!(f, "the layout has no binding {binding}"),
            Self::WrongBinding { binding } => write!(f, "binding {binding} has another frequency or type"),
            Self::AlreadySet { binding } => write!(f, "the static binding {binding} is already bound"),
            Self::Missing { binding } => write!(f, "the static binding {binding} is not bound"),
            Self::BadRange { start, end, available } => {
                write!(f, "bytes {start}..{end} of a buffer of {available} bytes cannot be bound")
            }
            Self::InvalidSampler => f.write_str("a parameter of the sampler is out of range"),
            Self::Device(_) => f.write_str("the device returned an error"),
            Self::Memory(_) => f.write_str("cannot allocate memory for a descriptor heap"),
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

/// Checks that `count` descriptors from `first` on lie in a range of `available`.
pub(super) fn check_range(first: u32, count: u32, available: u32) -> Result<(), DescriptorError> {
    match first.checked_add(count) {
        Some(end) if end <= available => Ok(()),
        _ => Err(DescriptorError::OutOfRange { first, count, available }),
    }
}
