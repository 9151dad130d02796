//! A writable range of an upload page or an upload ring.

use core::fmt;

use crate::device::Device;
use crate::memory::{AccessError, MappedBuffer, ShortName};

/// A range that was just allocated, to be written now. Commands read it at [`offset`](Self::offset) of
/// [`buffer`](Self::buffer).
///
/// It borrows its ring or arena, so it cannot be written after the frame was closed or the arena was dropped.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let frame = gpu.begin_frame()?;
/// let mut arena = frame.upload_arena();
/// let mut lights = arena.allocate(1024, Alignment::new(256)?)?;
/// for light in 0..16 {
///     lights.write(light * 64, &[light as u8; 64])?;
/// }
/// assert!(lights.write(1000, &[0; 64]).is_err(), "beyond its end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UploadSlice<'a, D: Device> {
    buffer: &'a MappedBuffer<D>,
    page: u32,
    offset: u64,
    size: u64,
}

impl<'a, D: Device> UploadSlice<'a, D> {
    /// Creates a slice. The range lies in the buffer and overlaps no other slice.
    pub(super) fn new(buffer: &'a MappedBuffer<D>, page: u32, offset: u64, size: u64) -> Self {
        Self { buffer, page, offset, size }
    }

    /// Returns the graphics API's handle of the buffer.
    #[must_use]
    pub fn buffer(&self) -> &'a D::Buffer {
        self.buffer.handle_ref()
    }

    /// Returns the offset of the first byte in the buffer.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the index of the arena's page, 0 in a ring. A page and an offset in it outlive the slice.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let mut arena = frame.upload_arena();
    /// let lights = arena.allocate(64, Alignment::new(256)?)?;
    /// let (page, offset) = (lights.page(), lights.offset()); // kept, while the arena goes on
    /// assert_eq!(arena.allocate(64, Alignment::new(256)?)?.offset() - offset, 256);
    /// println!("bind {:?} at {offset}", arena.buffer(page));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Copies `bytes` to offset `at` of the slice, and makes them visible to the device.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`] if they do not fit, and nothing was written; or the driver's error when it
    /// flushes memory that is not host-coherent.
    #[inline]
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (size, available) = (bytes.len() as u64, self.size);
        // Two comparisons instead of a sum, which could overflow.
        if at > available || size > available - at {
            return Err(AccessError::OutOfRange { offset: at, size, available, name: ShortName::NONE });
        }
        self.buffer.write(self.offset + at, bytes)
    }
}

impl<D: Device> fmt::Debug for UploadSlice<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadSlice")
            .field("buffer", self.buffer())
            .field("page", &self.page)
            .field("offset", &self.offset)
            .field("size", &self.size)
            .finish()
    }
}
