//! A live resource of the trace and the bytes in it.

use allotment::device::Device;
use allotment::memory::{RawBuffer, RawImage, ResourceError, Transfer, TransferError};
use allotment::{Allocation, AllocationOptions, Allocator};

use crate::target::Plan;

/// The object that was created for a recorded resource.
#[derive(Debug)]
pub(crate) enum Live<D: Device> {
    Memory(Allocation),
    Buffer(RawBuffer<D>),
    Image(RawImage<D>),
}

impl<D: Device> Live<D> {
    pub(crate) fn create(
        allocator: &Allocator<D>,
        plan: &Plan,
        options: &AllocationOptions,
    ) -> Result<Self, ResourceError> {
        match *plan {
            Plan::Memory { requirements } => allocator
                .allocate(&requirements, options)
                .map(Self::Memory)
                .map_err(ResourceError::Allocation),
            Plan::Buffer(info) | Plan::BufferForImage(info) => {
                allocator.create_buffer(&info.into(), options).map(Self::Buffer)
            }
            Plan::Image(info) => allocator.create_image(&info.into(), options).map(Self::Image),
        }
    }

    /// Destroys the resource; returns false if the allocator does not know it, which a correct replay never sees.
    pub(crate) fn destroy(self, allocator: &Allocator<D>) -> bool {
        match self {
            Self::Memory(allocation) => allocator.free(allocation).is_ok(),
            Self::Buffer(buffer) => allocator.destroy_buffer(buffer).is_ok(),
            Self::Image(image) => allocator.destroy_image(image).is_ok(),
        }
    }

    pub(crate) fn allocation(&self) -> &Allocation {
        match self {
            Self::Memory(allocation) => allocation,
            Self::Buffer(buffer) => buffer.allocation(),
            Self::Image(image) => image.allocation(),
        }
    }

    /// Writes bytes: into a buffer through its own handle if the transfer uses the queue, otherwise into the
    /// memory.
    pub(crate) fn write(
        &self,
        transfer: &mut Transfer<'_, D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        match self {
            Self::Buffer(buffer) => transfer.upload_to(buffer, offset, bytes),
            Self::Memory(_) | Self::Image(_) => transfer.upload(self.allocation(), offset, bytes),
        }
    }

    /// Reads bytes. Those of a buffer are read from host-visible memory directly, although they were written
    /// through its handle: this proves that both refer to the same bytes.
    pub(crate) fn read(
        &self,
        transfer: &mut Transfer<'_, D>,
        mapped: bool,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        match self {
            Self::Buffer(buffer) if !mapped => transfer.download_from(buffer, offset, bytes),
            _ => transfer.download(self.allocation(), offset, bytes),
        }
    }
}
