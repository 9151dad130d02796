//! Errors of uploads and readbacks, with what to wait for.

use core::error::Error;
use core::fmt;

use crate::device::{DeviceError, ImageCopyError, MemoryTypeIndex, QueueIndex, TimelinePoint};
use crate::lifetime::{WaitFor, WrongDevice, WrongTracker};
use crate::memory::{AccessError, OtherWriter, ResourceError, ShortName, name_in_error};

/// An error of a ring. The ring is unchanged, except for its failure count.
///
/// ```
/// use allotment::Alignment;
/// use allotment::upload::{Ring, RingError};
///
/// let mut ring = Ring::new(1024);
/// match ring.allocate(4096, Alignment::ONE) {
///     Err(RingError::NeverFits { capacity, .. }) => println!("{capacity} bytes: in a buffer beside the ring"),
///     Err(RingError::FullForNow { wait, .. }) => println!("once this has happened: {wait:?}"),
///     other => println!("{other:?}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingError {
    /// The allocation size is zero.
    ZeroSize,
    /// The request is larger than the whole ring. Create a larger ring, or allocate such requests elsewhere.
    NeverFits {
        /// Requested bytes.
        requested: u64,
        /// Size of the ring in bytes.
        capacity: u64,
    },
    /// The ring is full until the device has completed more work.
    FullForNow {
        /// Requested bytes, without padding.
        requested: u64,
        /// Free bytes.
        free: u64,
        /// The largest free range in bytes.
        largest: u64,
        /// What to wait for.
        wait: WaitFor,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("allocation size is 0 bytes, ask for at least 1"),
            Self::NeverFits { requested, capacity } => {
                write!(
                    f,
                    "{requested} bytes exceed the ring's capacity of {capacity} bytes, make the ring larger"
                )
            }
            Self::FullForNow { requested, free, largest, wait } => write!(
                f,
                "the ring is full: {requested} bytes requested, {free} bytes free, largest free range {largest} bytes; {wait}"
            ),
        }
    }
}

impl Error for RingError {}

/// An error of a readback. The destination is unchanged.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::upload::{ReadbackError, WaitFor};
///
/// let mut ring = gpu.readback()?;
/// let ticket = ring.allocate(8, Alignment::new(8)?)?;
/// match ring.read(&ticket, &mut [0; 8]) {
///     Err(ReadbackError::NotYet { wait: WaitFor::Point(point) }) => println!("a later frame reads it: {point:?}"),
///     Err(ReadbackError::NotYet { .. }) => println!("the copy is not submitted yet"),
///     other => other?,
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadbackError {
    /// The device has not written the data yet.
    NotYet {
        /// What to wait for.
        wait: WaitFor,
    },
    /// The ticket belongs to another ring, or its frame was [discarded](super::ReadbackRing::discard).
    Stale,
    /// The range exceeds the ticket's, or the driver returned an error.
    Access(AccessError),
    /// The device was lost before it had written the data.
    Device(DeviceError),
}

impl fmt::Display for ReadbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet { wait } => write!(f, "the device has not written the data yet: {wait}"),
            Self::Stale => f.write_str(
                "the ticket belongs to another ring, or its frame was discarded; read it with its own ring",
            ),
            Self::Access(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl Error for ReadbackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::NotYet { .. } | Self::Stale => None,
        }
    }
}

impl From<AccessError> for ReadbackError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

/// An error of an upload, or of an [arena](super::UploadArena). The arena is unchanged.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::AccessError;
/// use allotment::upload::UploadError;
///
/// let mesh = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// match gpu.uploads().write_buffer(&mesh, 200, &[7; 100]) {
///     Err(UploadError::Access(AccessError::OutOfRange { available, .. })) => assert_eq!(available, 256),
///     other => panic!("{other:?}"),
/// }
/// let frame = gpu.begin_frame()?;
/// assert_eq!(frame.upload([]).err(), Some(UploadError::ZeroSize));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadError {
    /// The size is zero.
    ZeroSize,
    /// The target is not from this allocator, or has fewer bytes.
    Access(AccessError),
    /// The deletion queue's tracker tracks another device than the allocator's.
    WrongDevice,
    /// The target's deletion queue has another tracker than the uploader's, and would not wait for its recordings.
    WrongTracker {
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// There is no room in staging memory. With [`Refuse`](super::WhenFull::Refuse) nothing of the write is staged then, and the
    /// target is as before: make the write again after what the source says to wait for, or, where it never fits, with fewer
    /// regions or bytes at once.
    Full {
        /// What is free, and what to wait for.
        source: RingError,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// Staging memory could not be allocated.
    Resource(ResourceError),
    /// The queue returned an error. After [`DeviceError::Lost`] only a new device helps.
    Device {
        /// The error of the queue.
        source: DeviceError,
        /// Name of the target of the write that was refused, if it has one; none of a submission, which has many.
        name: ShortName,
    },
    /// The device has no such queue. Use one of its [properties](crate::device::DeviceProperties::queues).
    NoSuchQueue {
        /// The requested queue.
        queue: QueueIndex,
    },
    /// The queue was not given the work of this point yet. What comes before it there may be waiting for the uploads, which
    /// would be a deadlock: submit that work first, and wait for it then.
    NotSubmitted {
        /// The point to wait for.
        point: TimelinePoint,
    },
    /// Queues cannot write to this memory type, and the CPU must not while a queue may read the memory.
    ReadOnly {
        /// The memory type.
        memory_type: MemoryTypeIndex,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// The image does not have these texels, or they cannot be copied.
    ImageCopy {
        /// The rule that the write breaks.
        error: ImageCopyError,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// The number of bytes is not that of the texels.
    Size {
        /// Expected bytes.
        wanted: u64,
        /// Bytes passed by the caller.
        found: u64,
        /// The mip level and the array layer in which the bytes end, if they are too few.
        ends_in: Option<[u32; 2]>,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// A part of a mip level is written whose state is not known, so that its other texels could not be kept. Or the image is a
    /// render target or a depth buffer of Direct3D 12 in [`Memory`](crate::memory::Memory), and new or
    /// [activated](crate::memory::Resource::activate): its first write is one of the whole level.
    UnknownState {
        /// The mip level.
        mip_level: u32,
        /// The array layer.
        array_layer: u32,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// Another [`Uploader`](super::Uploader) writes the resource, an image or an exclusive buffer, or has copies to it on
    /// their way. Call its [`submit`](super::Uploader::submit) first, for what was streamed again once it has arrived; or use
    /// one uploader for a resource.
    OtherUploader {
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// The reader of the texels returned an error. What it had read before may be written: write the image again.
    Read {
        /// The kind of its error; [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) where it has fewer bytes than the
        /// texels.
        kind: std::io::ErrorKind,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// The staging memory stayed full for longer than the timeout, and nothing was written.
    TimedOut {
        /// The point that was waited for.
        point: TimelinePoint,
        /// Name of the target, if it has one.
        name: ShortName,
    },
    /// The write ended before all of its bytes were staged. Write the rest again once the reason is gone. With
    /// [`Refuse`](super::WhenFull::Refuse) too, where the write was cancelled, the uploader stopped or the device lost between two
    /// of its regions; for want of staging memory a write does not end like this then.
    Interrupted {
        /// Why.
        by: Interruption,
        /// Bytes from the start that are written, or staged and will be.
        written: u64,
        /// Bytes behind them. Of these, a piece may be staged as well where the queue refused its submission.
        remaining: u64,
        /// Name of the target, if it has one.
        name: ShortName,
    },
}

/// Why texels were not written by a closure: [`Uploader::write_image_with`](super::Uploader::write_image_with).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::upload::{FillError, ImageWrite};
///
/// let icon = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("icon"))?;
/// let written = gpu.uploads().write_image_with(&icon, &ImageWrite::default(), |rows| {
///     rows.rows_mut().for_each(|row| row.fill(7));
///     Err("the file ends in the middle of a block".into()) // or the `?` of a decoder
/// });
/// match written {
///     Err(FillError::Fill { error, .. }) => assert!(error.to_string().contains("ends in the middle")),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FillError {
    /// The image cannot be written, or staging memory or the queue refused.
    Upload(UploadError),
    /// The closure returned an error. The texels of the calls before may be written: write the image again.
    Fill {
        /// That error.
        error: Box<dyn Error + Send + Sync>,
        /// Name of the target, if it has one.
        name: ShortName,
    },
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upload(error) => error.fmt(f),
            Self::Fill { error, name } => {
                name.begin(f)?;
                write!(f, "the closure that writes the texels failed: {error}")
            }
        }
    }
}

impl Error for FillError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Upload(error) => Some(error),
            Self::Fill { error, .. } => Some(&**error),
        }
    }
}

impl From<UploadError> for FillError {
    fn from(error: UploadError) -> Self {
        Self::Upload(error)
    }
}

/// Why a write ended before all of its bytes were staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interruption {
    /// Its [handle](super::UploadHandle) was cancelled.
    Cancelled,
    /// The uploader was [stopped](super::Uploader::stop).
    Stopped,
    /// Staging memory stayed full for longer than the timeout, until this point. Wait longer, or make it larger.
    TimedOut(TimelinePoint),
    /// The queue or the driver returned an error. After [`DeviceError::Lost`] only a new device helps.
    Device(DeviceError),
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("its handle was cancelled"),
            Self::Stopped => f.write_str("the uploader was stopped, resume it first"),
            Self::TimedOut(point) => write!(
                f,
                "timed out waiting for staging memory: queue {} did not reach {}, wait longer or make it larger",
                point.queue.0, point.value.0
            ),
            Self::Device(error) => write!(f, "the queue refused: {error}"),
        }
    }
}

impl UploadError {
    /// Returns the error of a write of which `written` bytes are written or staged.
    pub(super) fn interrupted(self, written: u64, remaining: u64) -> Self {
        let by = match self {
            Self::Interrupted { by, .. } => by,
            _ if written == 0 => return self,
            Self::TimedOut { point, .. } => Interruption::TimedOut(point),
            Self::Device { source, .. } => Interruption::Device(source),
            // Memory that is not host-coherent could not be flushed.
            Self::Access(AccessError::Device { source, .. }) => Interruption::Device(source),
            // Checks of the target, which come before any byte is written.
            _ => return self,
        };
        Self::Interrupted { by, written, remaining, name: ShortName::NONE }
    }

    pub(super) fn from_interruption(by: Interruption) -> Self {
        Self::Interrupted { by, written: 0, remaining: 0, name: ShortName::NONE }
    }

    /// Returns whether the device is lost.
    pub(super) fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Device { source: DeviceError::Lost, .. }
                | Self::Access(AccessError::Device { source: DeviceError::Lost, .. })
        )
    }
}

impl From<WrongDevice> for UploadError {
    fn from(_: WrongDevice) -> Self {
        Self::WrongDevice
    }
}

impl From<WrongTracker> for UploadError {
    fn from(_: WrongTracker) -> Self {
        Self::WrongTracker { name: ShortName::NONE }
    }
}

name_in_error!(UploadError, own: [WrongTracker, Full, Device, ReadOnly, ImageCopy, Size, UnknownState, OtherUploader, Read, TimedOut, Interrupted], inner: [Access, Resource]);

impl fmt::Display for UploadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize => f.write_str("allocation size is 0 bytes, ask for at least 1"),
            Self::Access(error) => write!(f, "the target cannot be written: {error}"),
            Self::WrongDevice => WrongDevice.fmt(f),
            Self::WrongTracker { name } => {
                name.begin(f)?;
                f.write_str(
                    "the target belongs to another `Gpu`, or to a deletion queue of another tracker than the uploader's: \
                     upload with the one that created it",
                )
            }
            Self::Full { source, name } => {
                name.begin(f)?;
                write!(f, "no room in staging memory: {source}")
            }
            Self::Resource(error) => write!(f, "no staging memory: {error}"),
            Self::Device { source, name } => {
                name.begin(f)?;
                if source.is_callers() { source.fmt(f) } else { write!(f, "the queue refused: {source}") }
            }
            Self::NoSuchQueue { queue } => DeviceError::NoSuchQueue { queue: *queue }.fmt(f),
            Self::NotSubmitted { point } => write!(
                f,
                "queue {} was not given the work of value {} yet, submit it before uploads wait for it",
                point.queue.0, point.value.0
            ),
            Self::ReadOnly { memory_type, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "queues cannot write to memory type {}; initialize it before its first use, or use another type",
                    memory_type.0
                )
            }
            Self::ImageCopy { error, name } => {
                name.begin(f)?;
                error.fmt(f)
            }
            Self::Size { wanted, found, ends_in, name } => {
                name.begin(f)?;
                write!(f, "expected {wanted} bytes of texel data, got {found} bytes")?;
                if let Some([mip_level, array_layer]) = ends_in {
                    write!(f, ", which end in mip level {mip_level} of array layer {array_layer}")?;
                }
                f.write_str("; pass all rows of blocks without padding, or choose a part of the image")
            }
            Self::UnknownState { mip_level, array_layer, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "the state of mip level {mip_level} of array layer {array_layer} is not known, and a part of its texels would have to be kept; say it with `Image::set_state`, or write the whole level"
                )
            }
            Self::OtherUploader { name } => {
                name.begin(f)?;
                f.write_str(
                    "another uploader writes it or has copies to it on their way: call its `submit` first, or use one uploader for it",
                )
            }
            Self::Read { kind, name } => {
                name.begin(f)?;
                write!(f, "the texels could not be read: {kind}")
            }
            Self::TimedOut { point, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "timed out waiting for staging memory: queue {} did not reach {}, wait longer or make it larger",
                    point.queue.0, point.value.0
                )
            }
            Self::Interrupted { by, written, remaining, name } => {
                name.begin(f)?;
                write!(f, "{written} bytes are written and {remaining} are not, write those again: {by}")
            }
        }
    }
}

impl Error for UploadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Full { source, .. } => Some(source),
            Self::Resource(error) => Some(error),
            Self::Device { source, .. } => Some(source),
            Self::ImageCopy { error, .. } => Some(error),
            Self::Interrupted { by, .. } => match by {
                Interruption::Device(error) => Some(error),
                _ => None,
            },
            Self::ZeroSize
            | Self::WrongDevice
            | Self::WrongTracker { .. }
            | Self::NoSuchQueue { .. }
            | Self::NotSubmitted { .. }
            | Self::ReadOnly { .. }
            | Self::Size { .. }
            | Self::UnknownState { .. }
            | Self::OtherUploader { .. }
            | Self::Read { .. }
            | Self::TimedOut { .. } => None,
        }
    }
}

impl From<ImageCopyError> for UploadError {
    fn from(error: ImageCopyError) -> Self {
        Self::ImageCopy { error, name: ShortName::NONE }
    }
}

impl From<OtherWriter> for UploadError {
    fn from(OtherWriter: OtherWriter) -> Self {
        Self::OtherUploader { name: ShortName::NONE }
    }
}

impl From<AccessError> for UploadError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

impl From<RingError> for UploadError {
    fn from(error: RingError) -> Self {
        Self::Full { source: error, name: ShortName::NONE }
    }
}

impl From<ResourceError> for UploadError {
    fn from(error: ResourceError) -> Self {
        Self::Resource(error)
    }
}

impl From<DeviceError> for UploadError {
    fn from(error: DeviceError) -> Self {
        Self::Device { source: error, name: ShortName::NONE }
    }
}
