//! Errors in copies that are found before a driver is called: drivers need not check copies, and their behaviour is
//! undefined for wrong ones.

use core::error::Error;
use core::fmt;

use super::{ImageAspect, TransferUsage};

/// The rule that a copy of a [`Submission`](super::Submission) breaks. Nothing was submitted.
///
/// Which rules are checked depends on the device: the simulated GPU checks all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyError {
    /// The image has no such mip level or array layer. Both count from 0.
    NoSuchSubresource {
        /// The mip level of the copy.
        mip_level: u32,
        /// The array layer of the copy.
        array_layer: u32,
    },
    /// The box is not inside its mip level. Mip levels get smaller, and so does the depth of three-dimensional ones.
    OutsideLevel {
        /// The mip level.
        mip_level: u32,
    },
    /// The image's format has no such aspect, as far as the copy says how its texels lie in a buffer.
    NoSuchAspect {
        /// The aspect.
        aspect: ImageAspect,
    },
    /// The box is a part of a mip level of depth or stencil, which Direct3D 12 copies as whole mip levels only.
    PartOfLevel {
        /// The mip level.
        mip_level: u32,
    },
    /// The box covers a part of a block of a compressed format.
    PartOfBlock {
        /// The mip level.
        mip_level: u32,
    },
    /// The texel layout is not that of the image's format, or a block has no bytes or no texels.
    WrongTexel,
    /// The rows of the buffer overlap, or the API cannot express their distance. Use
    /// [`TexelBlock::row_pitch`](super::TexelBlock::row_pitch) and [`TexelBlock::rows`](super::TexelBlock::rows).
    Rows {
        /// Bytes from one row to the next.
        row_pitch: u64,
        /// Rows from one slice to the next.
        rows: u32,
    },
    /// The image has several samples per texel, and the copy is to or from a buffer. Resolve it first.
    Multisampled,
    /// The queue cannot find the image in the state before the copy, or leave it in the state after it. On Vulkan no
    /// image is left in the layouts `UNDEFINED` and `PREINITIALIZED`; on a copy queue of Direct3D 12 all states are
    /// `COMMON`.
    States,
    /// The image has depth, stencil or several samples per texel, which only graphics queues copy.
    NeedsGraphicsQueue,
    /// An image of this description cannot be copied as a whole, see
    /// [`relocatable_image_info`](super::ImageDevice::relocatable_image_info).
    NotCopyable,
    /// The two images of a whole copy have different descriptions, or another one than the copy names.
    DifferentImages,
    /// The bytes that are read and those that are written overlap.
    Overlap,
    /// Two copies of the submission use one image, and may run in any order. Submit them one after the other.
    ImageTwice,
    /// A buffer was not created for such copies. Add the usage to its description.
    MissingUsage {
        /// The missing usage.
        missing: TransferUsage,
    },
    /// An [ownership transfer](super::OwnershipTransfer) is submitted to a queue of another family than the one that it names:
    /// release on a queue of the family `from`, and acquire on one of the family `to`.
    OtherFamily,
    /// Queues can only write the memory of the source
    /// ([`DEVICE_WRITE_ONLY`](super::MemoryProperties::DEVICE_WRITE_ONLY)).
    QueueCannotRead,
    /// Queues can only read the memory of the destination
    /// ([`DEVICE_READ_ONLY`](super::MemoryProperties::DEVICE_READ_ONLY)).
    QueueCannotWrite,
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchSubresource { mip_level, array_layer } => write!(
                f,
                "the image has no mip level {mip_level} of array layer {array_layer}, choose one that it has: both count from 0"
            ),
            Self::OutsideLevel { mip_level } => {
                write!(f, "the box exceeds mip level {mip_level} of the image, choose a box inside it")
            }
            Self::NoSuchAspect { aspect } => {
                write!(f, "the image's format has no {aspect} aspect, copy those that it has")
            }
            Self::PartOfLevel { mip_level } => write!(
                f,
                "the box is a part of mip level {mip_level}, and the device copies depth and stencil of whole mip levels only; copy the whole level"
            ),
            Self::PartOfBlock { mip_level } => write!(
                f,
                "the box cuts blocks of mip level {mip_level}, begin and end at whole blocks or at the end of the level"
            ),
            Self::WrongTexel => {
                f.write_str("the texel layout is not that of the image's format, or has empty blocks; pass that of the format")
            }
            Self::Rows { row_pitch, rows } => write!(
                f,
                "rows of {row_pitch} bytes and slices of {rows} rows do not suit the box and the device, use `TexelBlock::row_pitch` and `TexelBlock::rows`"
            ),
            Self::Multisampled => f.write_str(
                "the image has several samples per texel, and only an image of one sample is copied from and to buffers; resolve it, or render to it",
            ),
            Self::States => f.write_str(
                "the queue cannot take the image from the state before the copy to the state after it, choose others",
            ),
            Self::NeedsGraphicsQueue => f.write_str(
                "an image of depth, stencil or several samples per texel is copied by a graphics queue, submit it to one",
            ),
            Self::NotCopyable => f.write_str(
                "an image of this description cannot be copied as a whole, copy images for which `relocatable_image_info` returns a description",
            ),
            Self::DifferentImages => f.write_str(
                "the images have different descriptions, or another one than the copy names: create both from that one",
            ),
            Self::Overlap => f.write_str("the copy would copy bytes onto themselves, choose ranges that do not overlap"),
            Self::ImageTwice => f.write_str(
                "another copy of the submission uses the image, and they run in any order: submit one after the other",
            ),
            Self::MissingUsage { missing } => {
                write!(f, "a buffer was created without the usage {missing}, add it to the description")
            }
            Self::OtherFamily => f.write_str(
                "an ownership transfer names a family that the queue is not of, release on the family `from` and acquire on `to`",
            ),
            Self::QueueCannotRead => f.write_str(
                "queues can only write the memory of the source (DEVICE_WRITE_ONLY), read it with the CPU",
            ),
            Self::QueueCannotWrite => f.write_str(
                "queues can only read the memory of the destination (DEVICE_READ_ONLY), write it with the CPU",
            ),
        }
    }
}

impl Error for CopyError {}
