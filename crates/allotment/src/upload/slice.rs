//! A writable range of an upload page or an upload ring.

use core::fmt;

use crate::device::Device;
use crate::memory::{AccessError, MappedBuffer, ShortName};

/// The location of a slice, to be stored beyond the lifetime of the slice.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let frame = gpu.begin_frame()?;
/// let mut arena = frame.upload_arena();
/// let first = arena.allocate(64, Alignment::new(256)?)?.place(); // kept, while the arena goes on
/// let second = arena.allocate(64, Alignment::new(256)?)?.place();
/// assert_eq!((first.page, second.offset - first.offset), (second.page, 256));
/// println!("bind {:?} at {}", arena.buffer(first.page), first.offset);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UploadLocation {
    /// The index of the arena's page; 0 in a ring.
    pub page: u32,
    /// The offset of the first byte in the page's buffer.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

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
    place: UploadLocation,
}

impl<'a, D: Device> UploadSlice<'a, D> {
    /// Creates a slice. `place` lies in the buffer and overlaps no other slice.
    pub(super) fn new(buffer: &'a MappedBuffer<D>, place: UploadLocation) -> Self {
        Self { buffer, place }
    }

    /// Returns the graphics API's handle of the buffer.
    #[must_use]
    pub fn buffer(&self) -> &'a D::Buffer {
        self.buffer.handle_ref()
    }

    /// Returns the offset of the first byte in the buffer.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.place.size
    }

    /// Returns the location of the slice.
    #[must_use]
    pub fn place(&self) -> UploadLocation {
        self.place
    }

    /// Copies `bytes` to offset `at` of the slice, and makes them visible to the device.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`] if they do not fit, and nothing was written; or the driver's error when it
    /// flushes memory that is not host-coherent.
    #[inline]
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (size, available) = (bytes.len() as u64, self.place.size);
        // Two comparisons instead of a sum, which could overflow.
        if at > available || size > available - at {
            return Err(AccessError::OutOfRange { offset: at, size, available, name: ShortName::NONE });
        }
        self.buffer.write(self.place.offset + at, bytes)
    }
}

impl<D: Device> fmt::Debug for UploadSlice<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadSlice").field("buffer", self.buffer()).field("place", &self.place).finish()
    }
}
