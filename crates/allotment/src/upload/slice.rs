//! Bytes of a page or a ring that are the caller's until the frame is closed.

use core::fmt;

use crate::device::Device;
use crate::memory::{AccessError, MappedBuffer};

/// Where a slice is, to be kept beyond the slice itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UploadLocation {
    /// Which of its arena's pages; 0 in a ring.
    pub page: u32,
    /// The first byte in the buffer of that page.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// Bytes that were just allocated, to be written now. What the device reads of it is named by
/// [`buffer`](Self::buffer) and [`offset`](Self::offset).
///
/// It borrows what it was allocated from, so nobody writes there once that was closed or has gone.
pub struct UploadSlice<'a, D: Device> {
    buffer: &'a MappedBuffer<D>,
    place: UploadLocation,
}

impl<'a, D: Device> UploadSlice<'a, D> {
    /// `place` lies in the buffer, and is nobody else's.
    pub(super) fn new(buffer: &'a MappedBuffer<D>, place: UploadLocation) -> Self {
        Self { buffer, place }
    }

    /// The API's own handle of the buffer that the bytes are in.
    #[must_use]
    pub fn buffer(&self) -> &'a D::Buffer {
        self.buffer.handle()
    }

    /// The first byte in the buffer.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.place.size
    }

    /// Where it is, to be kept.
    #[must_use]
    pub fn place(&self) -> UploadLocation {
        self.place
    }

    /// Copies `bytes` into the slice from its byte `at` on, and makes them visible to the device.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`] where they reach beyond the slice, and nothing was written; or the driver
    /// refuses to flush memory that is not host-coherent.
    #[inline]
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (size, available) = (bytes.len() as u64, self.place.size);
        if at > available || size > available - at {
            return Err(AccessError::OutOfRange { offset: at, size, available });
        }
        self.buffer.write(self.place.offset + at, bytes)
    }
}

impl<D: Device> fmt::Debug for UploadSlice<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadSlice").field("buffer", self.buffer()).field("place", &self.place).finish()
    }
}
