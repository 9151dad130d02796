//! A recorded resource while it is live, and the bytes in it.

use allotment::device::{DedicatedNeed, Device};
use allotment::memory::{AccessError, Buffer, Image, ResourceError, Transfer, TransferError};
use allotment::{Allocation, AllocationDesc, Allocator};

use crate::target::Plan;

/// What a recorded resource became.
#[derive(Debug)]
pub(super) enum Live<D: Device> {
    Memory(Allocation),
    Buffer {
        buffer: Buffer<D>,
        /// Bytes that the buffer was made with.
        size: u64,
    },
    Image(Image<D>),
}

impl<D: Device> Live<D> {
    pub(super) fn create(
        allocator: &Allocator<D>,
        plan: &Plan,
        desc: &AllocationDesc,
    ) -> Result<Self, ResourceError> {
        match *plan {
            Plan::Memory { .. } => {
                allocator.allocate(desc).map(Self::Memory).map_err(ResourceError::Allocation)
            }
            Plan::Buffer(info) | Plan::BufferForImage(info) => {
                let buffer = allocator.create_buffer(&info.into(), desc)?;
                Ok(Self::Buffer { buffer, size: info.size })
            }
            Plan::Image(info) => allocator.create_image(&info.into(), desc).map(Self::Image),
        }
    }

    /// Gives everything back; `false` where the allocator does not know it, which a sound replay never sees.
    pub(super) fn destroy(self, allocator: &Allocator<D>) -> bool {
        match self {
            Self::Memory(allocation) => allocator.free(allocation).is_ok(),
            Self::Buffer { buffer, .. } => allocator.destroy_buffer(buffer).is_ok(),
            Self::Image(image) => allocator.destroy_image(image).is_ok(),
        }
    }

    pub(super) fn allocation(&self) -> &Allocation {
        match self {
            Self::Memory(allocation) => allocation,
            Self::Buffer { buffer, .. } => buffer.allocation(),
            Self::Image(image) => image.allocation(),
        }
    }

    /// Writes bytes: of a buffer through its own handle, else into the memory.
    pub(super) fn write(
        &self,
        transfer: &mut Transfer<'_, D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        match self {
            Self::Buffer { buffer, size } => {
                check_range(offset, bytes.len() as u64, *size)?;
                // SAFETY: the range lies in the buffer.
                unsafe { transfer.upload_buffer(buffer, offset, bytes) }
            }
            Self::Memory(_) | Self::Image(_) => transfer.upload(self.allocation(), offset, bytes),
        }
    }

    /// Reads bytes. Those of a buffer are read from its memory where the CPU can reach that, since they were
    /// written through its handle: so both are shown to be in one place.
    pub(super) fn read(
        &self,
        transfer: &mut Transfer<'_, D>,
        mapped: bool,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        match self {
            Self::Buffer { buffer, size } if !mapped => {
                check_range(offset, bytes.len() as u64, *size)?;
                // SAFETY: the range lies in the buffer.
                unsafe { transfer.download_buffer(buffer, offset, bytes) }
            }
            _ => transfer.download(self.allocation(), offset, bytes),
        }
    }
}

fn check_range(offset: u64, size: u64, available: u64) -> Result<(), AccessError> {
    match offset.checked_add(size) {
        Some(end) if end <= available => Ok(()),
        _ => Err(AccessError::OutOfRange { offset, size, available }),
    }
}

/// Whether memory with one resource in it may be its alone, as far as the API is told: then no buffer may
/// be laid over it. What the allocator decided is not told, so this errs on the side of yes.
pub(super) fn may_be_tied<D: Device>(device: &D, plan: &Plan) -> bool {
    match *plan {
        Plan::Image(info) => device
            .image_requirements(&info.into())
            .is_ok_and(|requirements| requirements.dedicated != DedicatedNeed::None),
        _ => false,
    }
}
