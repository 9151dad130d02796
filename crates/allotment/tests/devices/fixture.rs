//! The facts about a device that the suite needs beside the trait.

use allotment::device::{BufferViewUses, DescriptorDevice, Device, ImageDevice, ImageViewUse, TexelBlock};
use allotment_readers::DescriptorReader;

use crate::gpu::Gpu;

/// A device for one test. Nothing was allocated from it and nothing submitted to it before.
pub(crate) trait Fixture: Send + Sync + Sized + 'static {
    /// The device's type.
    type Device: Device + Clone;

    /// The device.
    fn device(&self) -> &Self::Device;

    /// True where [`heap_budget`](crate::device::MemoryDevice::heap_budget) knows of each byte at once. A driver's is an estimate, and other
    /// programs move it.
    fn budgets_are_exact(&self) -> bool;

    /// The API's number of a format of 4 bytes a texel, of which there are images of each tiling that the
    /// API has.
    fn image_format(&self) -> u32;

    /// True where there are images of linear tiling. Direct3D 12 has none that are good for anything.
    fn has_linear_images(&self) -> bool {
        true
    }

    /// The usage flags by which a buffer has an address, where it needs any.
    fn address_usage(&self) -> u64 {
        0
    }

    /// The usage flags by which a buffer has none, where there are such buffers.
    fn no_address_usage(&self) -> Option<u64>;

    /// The API's number of a format, and the usage flags of a 2D image for views of a use; `None` where there are none.
    fn image_for_views(&self, usage: ImageViewUse) -> Option<(u32, u64)>;

    /// The API's number of a format of which there are texel buffers, and its bytes per texel.
    fn texel_format(&self) -> (u32, u64);

    /// The usage flags of a buffer that shaders see as all of these.
    fn buffer_for_views(&self, uses: BufferViewUses) -> u64;

    /// The usage flags of a buffer that shaders cannot see as this, where there are such buffers.
    fn buffer_without_views(&self, usage: BufferViewUses) -> Option<u64>;

    /// States that the first queue can leave images in, and the first of them any queue. Images in each of
    /// them can be copied again.
    fn image_states(&self) -> &'static [<Self::Device as ImageDevice>::ImageState];

    /// The API's number of a compressed format of colours, and its blocks. Not every device has images of it.
    fn compressed_format(&self) -> Option<(u32, TexelBlock)> {
        None
    }

    /// Formats of each class, of which there are images on some devices of the API.
    fn formats(&self) -> Vec<Format>;

    /// Usage flags of images that the CPU can copy texels into, beside those that are so by themselves.
    fn host_write_usage(&self) -> u64 {
        0
    }

    /// False where the CPU copies no box into a mip level whose last blocks lie in it in part.
    fn host_copies_end_in_parts_of_blocks(&self) -> bool {
        true
    }

    /// False where what watches the device takes the last blocks of a mip level, of which a part lies in it, for texels of the
    /// next layer or level.
    fn parts_of_blocks_are_understood(&self) -> bool {
        true
    }

    /// A test is about to ask for what it must not get, in a call that is safe to make. What watches the
    /// device (a validation layer) may write messages that begin with `about` about it, and no others.
    fn expect_complaints(&self, about: &'static str);

    /// The test is over and has given everything back. Says what is wrong, where something is: a message
    /// of what watches the device, or something left behind.
    fn finish(self) -> Result<(), String>;
}

/// A format whose images are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) class: FormatClass,
    /// The API's number.
    pub(crate) number: u32,
    /// The API's usage flags that such images have on every device.
    pub(crate) usage: u64,
    pub(crate) values: Values,
}

/// What formats have in common that are copied in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatClass {
    /// Colors of single texels.
    Texels,
    Bc,
    Etc2,
    Astc,
    Depth,
    Stencil,
    DepthStencil,
    /// Two or three planes.
    Planes,
}

/// The values that 4 bytes of depth have in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// All that the bytes can be.
    Any,
    /// The lower 24 bits. The upper ones are undefined in what is copied out of an image.
    Low24,
    /// Numbers from 0 to 1.
    Float,
}

impl Values {
    /// Returns a value that comes back from an image as it went up.
    pub(crate) fn settled(self, word: u32) -> u32 {
        match self {
            Self::Any => word,
            Self::Low24 => word & 0x00ff_ffff,
            // A half to one: nothing that a device may round or flush.
            Self::Float => 0x3f00_0000 | (word & 0x007f_ffff),
        }
    }
}

/// A device that can have descriptors, for the suite that is about them.
pub(crate) trait DescriptorFixture: Fixture<Device: DescriptorDevice> {
    /// The reader of descriptors there.
    type Reader: DescriptorReader<Self::Device>;

    /// True where work that reads through a descriptor of nothing reads zeros.
    fn null_reads_zeros(&self) -> bool {
        true
    }
}

/// How a test ended that did not fail.
#[must_use]
pub(crate) enum Outcome {
    /// It ran.
    Ran,
    /// The device lacks what the test is about, and promises nothing there.
    DoesNotApply(&'static str),
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Ran
    }
}

/// A test and its name.
pub(crate) type Test<F> = (&'static str, fn(&Gpu<F>) -> Outcome);

/// Lists the tests of a module. A test that is not listed is dead code, of which the compiler complains.
macro_rules! tests {
    ($fixture:ty: $($name:ident,)*) => {
        vec![$((
            stringify!($name),
            (|gpu| Outcome::from($name(gpu))) as fn(&$crate::gpu::Gpu<$fixture>) -> Outcome,
        ),)*]
    };
}

pub(crate) use tests;
