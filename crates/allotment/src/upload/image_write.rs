//! What of an image an upload writes, the state afterwards, and where the texels come from.

use core::error::Error;
use core::fmt;

use super::error::UploadError;
use crate::device::{ImagePart, ImageRegion};
use crate::memory::ShortName;

/// What of an image is written, the order of the bytes, and the state afterwards. The default is the whole image, which
/// shaders then read.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::ImagePart;
/// use allotment::upload::ImageWrite;
///
/// let desc = ImageDesc::new(64, 64, 4).with_mip_levels(7).with_array_layers(6);
/// let sky = gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("sky"))?;
/// // One level of one face, and a state of its own: a `VkImageLayout` on Vulkan, say.
/// let part = ImagePart::default().with_mip_levels(2..3).with_array_layers(4..5);
/// let write = ImageWrite::new(part).with_after(());
/// gpu.uploads().write_image_part(&sky, &write, &[7; 16 * 16 * 4])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageWrite<S> {
    /// The mip levels, array layers, aspect or box that are written.
    pub part: ImagePart,
    /// The state of what is written, once it is: a `VkImageLayout` on Vulkan, `D3D12_RESOURCE_STATES` on Direct3D 12, `()`
    /// on the simulated GPU. `None` for that in which shaders [read](crate::device::ImageDevice::state_to_read) it.
    pub after: Option<S>,
}

impl<S> Default for ImageWrite<S> {
    fn default() -> Self {
        Self::new(ImagePart::default())
    }
}

impl<S> From<ImagePart> for ImageWrite<S> {
    fn from(part: ImagePart) -> Self {
        Self::new(part)
    }
}

impl<S> ImageWrite<S> {
    /// Describes a write of a part of an image, which shaders then read.
    #[must_use]
    pub const fn new(part: ImagePart) -> Self {
        Self { part, after: None }
    }

    /// Sets the state after the write.
    #[must_use]
    pub fn with_after(self, after: S) -> Self {
        Self { after: Some(after), ..self }
    }
}

/// Rows of blocks in staging memory, for a caller that writes them in place: all of a subresource, or as many as are staged at
/// once.
///
/// The memory may be slow to read: write each byte once, in order.
pub struct ImageRows<'a> {
    region: ImageRegion,
    row_bytes: usize,
    row_pitch: usize,
    bytes: &'a mut [u8],
}

impl<'a> ImageRows<'a> {
    pub(super) fn new(region: ImageRegion, row_bytes: usize, row_pitch: usize, bytes: &'a mut [u8]) -> Self {
        Self { region, row_bytes, row_pitch, bytes }
    }

    /// Returns the box of texels that the rows are of: the aspect, the mip level, the array layer, and origin and extent in
    /// texels.
    #[must_use]
    pub fn region(&self) -> &ImageRegion {
        &self.region
    }

    /// Returns the bytes of a row of blocks, without the padding after it.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Returns the rows of blocks from top to bottom, slice by slice.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let row_bytes = self.row_bytes;
        self.bytes.chunks_mut(self.row_pitch).map(move |row| &mut row[..row_bytes])
    }
}

impl fmt::Debug for ImageRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageRows")
            .field("region", &self.region)
            .field("row_bytes", &self.row_bytes)
            .finish_non_exhaustive()
    }
}

/// Where texels come from, in the order of their bytes.
pub(super) trait TexelSource {
    /// Whether it runs code of the caller, which may take long or call this library: with no lock held.
    const IS_CALLERS: bool;

    /// Writes the next rows.
    fn fill(&mut self, rows: &mut ImageRows<'_>) -> Result<(), UploadError>;

    /// Returns the texels that are left, where they are in memory.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }

    /// Leaves bytes out, which have been read from there.
    fn skip(&mut self, _count: usize) {}
}

/// Bytes in memory, of which those that are left come next.
impl TexelSource for &[u8] {
    const IS_CALLERS: bool = false;

    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn skip(&mut self, count: usize) {
        *self = &self[count..];
    }

    fn fill(&mut self, rows: &mut ImageRows<'_>) -> Result<(), UploadError> {
        if rows.row_pitch == rows.row_bytes {
            // Without padding the rows are contiguous: one copy instead of one per row.
            let (now, later) = self.split_at(rows.bytes.len());
            rows.bytes.copy_from_slice(now);
            *self = later;
            return Ok(());
        }
        for row in rows.rows_mut() {
            let (now, later) = self.split_at(row.len());
            row.copy_from_slice(now);
            *self = later;
        }
        Ok(())
    }
}

/// A reader: a file, or a decompressor.
pub(super) struct Reader<R>(pub(super) R);

impl<R: std::io::Read> TexelSource for Reader<R> {
    const IS_CALLERS: bool = true;

    fn fill(&mut self, rows: &mut ImageRows<'_>) -> Result<(), UploadError> {
        rows.rows_mut().try_for_each(|row| self.0.read_exact(row)).map_err(|error| {
            let (kind, name) = (error.kind(), ShortName::NONE);
            UploadError::Read { kind, name }
        })
    }
}

/// A closure of the caller.
pub(super) struct InPlace<F> {
    fill: F,
    /// Its error, which is of any type. The write ends with one of its own.
    pub(super) error: Option<Box<dyn Error + Send + Sync>>,
}

impl<F> InPlace<F> {
    pub(super) fn new(fill: F) -> Self {
        Self { fill, error: None }
    }
}

impl<F: FnMut(&mut ImageRows<'_>) -> Result<(), Box<dyn Error + Send + Sync>>> TexelSource for InPlace<F> {
    const IS_CALLERS: bool = true;

    fn fill(&mut self, rows: &mut ImageRows<'_>) -> Result<(), UploadError> {
        (self.fill)(rows).map_err(|error| {
            self.error = Some(error);
            UploadError::Read { kind: std::io::ErrorKind::Other, name: ShortName::NONE }
        })
    }
}
