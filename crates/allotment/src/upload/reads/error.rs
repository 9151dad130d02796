//! Errors of reads.

use core::error::Error;
use core::fmt;

use crate::device::{DeviceError, ImageCopyError, MemoryTypeIndex};
use crate::memory::{AccessError, ResourceError, ShortName, name_in_error};
use crate::upload::UploadError;

/// Why bytes of a buffer or an image are not read.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::AccessError;
/// use allotment::upload::ReadError;
///
/// let mesh = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// match gpu.reads().read_buffer(&mesh, 250, 10) {
///     Err(ReadError::Access(AccessError::OutOfRange { available, .. })) => assert_eq!(available, 256),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The range exceeds the buffer, or the resource belongs to another `Gpu`, is no copy source, or is moved by a pass of
    /// defragmentation.
    Access(AccessError),
    /// The resource's deletion queue has another tracker than the `Gpu`, and would not wait for the copy.
    WrongTracker {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// Queues cannot read this memory type; the CPU can: call [`Buffer::read`](crate::memory::Buffer::read).
    WriteOnly {
        /// The memory type of the buffer.
        memory_type: MemoryTypeIndex,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// The image has no such part, or it cannot be copied.
    ImageCopy {
        /// What is wrong.
        error: ImageCopyError,
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// Nothing was written to a mip level by way of the library, and no state was [set](crate::memory::Image::set_state), since the
    /// image was created or [activated](crate::memory::Resource::activate).
    NoTexels {
        /// The mip level.
        mip_level: u32,
        /// The array layer.
        array_layer: u32,
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// The state of a mip level is not known, and a copy has to name it. [`Image::set_state`](crate::memory::Image::set_state)
    /// says it.
    UnknownState {
        /// The mip level.
        mip_level: u32,
        /// The array layer.
        array_layer: u32,
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// A write of an exclusive image goes on over a queue of another family, to which the mip level belongs until it is over.
    /// Read it then.
    BeingWritten {
        /// The mip level.
        mip_level: u32,
        /// The array layer.
        array_layer: u32,
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// An [`Uploader`](crate::upload::Uploader) of the program's own writes the resource, an image or an exclusive buffer, or
    /// has copies to it on their way. Call its [`submit`](crate::upload::Uploader::submit), for what was streamed again once
    /// it has arrived, or [discard](crate::upload::Uploader::discard) what is staged, and read then.
    OtherUploader {
        /// Name of the image, if it has one.
        name: ShortName,
    },
    /// No bytes were asked for.
    ZeroSize {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The slice has another size than the read.
    Size {
        /// Bytes of the read.
        wanted: u64,
        /// Bytes of the slice.
        found: u64,
    },
    /// The GPU has not written the bytes yet.
    NotYet,
    /// There is no memory to read into.
    Memory(ResourceError),
    /// Pending uploads, which the bytes may come from, could not be submitted.
    Uploads(UploadError),
    /// The queue refused the copy, the device was lost, or it took longer than
    /// [`GpuDesc::timeout`](crate::GpuDesc::timeout).
    Device(DeviceError),
    /// The copy was given up before it was submitted: the `Gpu` was dropped, or the driver panicked.
    GivenUp,
}

name_in_error!(
    ReadError, own: [WrongTracker, WriteOnly, ImageCopy, NoTexels, UnknownState, BeingWritten, OtherUploader, ZeroSize], inner: [Access, Memory, Uploads]
);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => write!(f, "the resource cannot be read: {error}"),
            Self::WrongTracker { name } => {
                name.begin(f)?;
                f.write_str(
                    "the resource belongs to another `Gpu`, or to a deletion queue of another tracker: read it with the \
                     `Gpu` that created it",
                )
            }
            Self::WriteOnly { memory_type, name } => {
                name.begin(f)?;
                write!(f, "queues cannot read memory type {memory_type}, read the buffer with the CPU")
            }
            Self::ImageCopy { error, name } => {
                name.begin(f)?;
                error.fmt(f)
            }
            Self::NoTexels { mip_level, array_layer, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "mip level {mip_level} of array layer {array_layer} has no texels that the library knows of; write it, \
                     or say its state with `Image::set_state`"
                )
            }
            Self::UnknownState { mip_level, array_layer, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "the state of mip level {mip_level} of array layer {array_layer} is not known; say it with \
                     `Image::set_state`"
                )
            }
            Self::BeingWritten { mip_level, array_layer, name } => {
                name.begin(f)?;
                write!(
                    f,
                    "a queue of another family writes mip level {mip_level} of array layer {array_layer}; read it once that \
                     write is over"
                )
            }
            Self::OtherUploader { name } => {
                name.begin(f)?;
                f.write_str("another `Uploader` writes it or has copies to it on their way: call its `submit` first")
            }
            Self::ZeroSize { name } => {
                name.begin(f)?;
                f.write_str("0 bytes are to be read, ask for at least 1")
            }
            Self::Size { wanted, found } => write!(f, "expected room for {wanted} bytes, got {found} bytes"),
            Self::NotYet => f.write_str(
                "the GPU has not written the bytes yet: end a frame, or submit the reads, and look again later",
            ),
            Self::Memory(error) => write!(f, "no memory to read into: {error}"),
            Self::Uploads(error) => write!(f, "pending uploads could not be submitted: {error}"),
            Self::Device(error) if error.is_callers() => error.fmt(f),
            Self::Device(error) => write!(f, "the bytes were not copied: {error}"),
            Self::GivenUp => f.write_str("the copy was given up before it was submitted, read again"),
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::ImageCopy { error, .. } => Some(error),
            Self::Memory(error) => Some(error),
            Self::Uploads(error) => Some(error),
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ImageCopyError> for ReadError {
    fn from(error: ImageCopyError) -> Self {
        Self::ImageCopy { error, name: ShortName::NONE }
    }
}
