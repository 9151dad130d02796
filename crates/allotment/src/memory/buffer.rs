//! A buffer and its memory in one step: all or nothing.

use core::error::Error;
use core::fmt;

use core::sync::atomic::Ordering::Relaxed;

use super::allocate::no_memory_type;
use super::allocator::{Allocation, Allocator};
use super::{AccessError, AllocationDesc, AllocationError, Dedicated, Foreign, Growth, ResourceKind};
use crate::device::{
    BufferDesc, DedicatedNeed, Device, DeviceError, MemoryTypeIndex, OwnedMemory, Requirements,
};

/// A buffer and the memory that it stands in. Give both back with [`Allocator::destroy_buffer`].
#[derive(Debug)]
#[must_use = "a buffer and its memory are freed by `Allocator::destroy_buffer`"]
pub struct Buffer<D: Device> {
    // Not public: only buffers of the allocator's own device may be destroyed by it, and only once.
    buffer: D::Buffer,
    allocation: Allocation,
}

impl<D: Device> Buffer<D> {
    /// The API's buffer. It belongs to this pair: never destroy it alone.
    pub fn buffer(&self) -> &D::Buffer {
        &self.buffer
    }

    /// Its memory.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }
}

/// Why a buffer was not made. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BufferError {
    /// The device cannot make such a buffer, or refused to.
    Device(DeviceError),
    /// There is no memory for it.
    Allocation(AllocationError),
    /// It does not fit the memory that it was to share.
    Access(AccessError),
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "the buffer was refused: {error}"),
            Self::Allocation(error) => write!(f, "no memory for the buffer: {error}"),
            Self::Access(error) => write!(f, "the buffer cannot stand there: {error}"),
        }
    }
}

impl Error for BufferError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Allocation(error) => Some(error),
            Self::Access(error) => Some(error),
        }
    }
}

impl<D: Device> Allocator<D> {
    /// Makes a buffer with memory for it. Of `desc`, the requirements are replaced by the buffer's own.
    ///
    /// # Errors
    ///
    /// [`BufferError`]; neither a buffer nor memory is left behind.
    ///
    /// ```
    /// use allotment::device::BufferDesc;
    /// use allotment::device::host::{HostDevice, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, Intent, Requirements};
    ///
    /// let device = HostDevice::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let desc = AllocationDesc::new(Requirements::new(0), Intent::Upload).named("vertices");
    /// let vertices = allocator.create_buffer(&BufferDesc::new(4096), &desc)?;
    /// allocator.write(vertices.allocation(), 0, &[7; 4096])?;
    /// allocator.destroy_buffer(vertices)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_buffer(
        &self,
        buffer: &BufferDesc,
        desc: &AllocationDesc,
    ) -> Result<Buffer<D>, BufferError> {
        let requirements = self.device().buffer_requirements(buffer).map_err(BufferError::Device)?;
        let desc = AllocationDesc { requirements, kind: ResourceKind::Buffer, ..desc.clone() };
        let alone = desc.dedicated == Dedicated::Always || requirements.dedicated == DedicatedNeed::Required;
        if alone && desc.dedicated != Dedicated::Never {
            return self.create_dedicated_buffer(buffer, &desc);
        }
        let allocation = self.allocate(&desc).map_err(BufferError::Allocation)?;
        match self.bind(buffer, &allocation, 0, &requirements) {
            Ok(buffer) => Ok(Buffer { buffer, allocation }),
            Err(error) => {
                // Just allocated here, so it is not foreign.
                let _ = self.free(allocation);
                Err(error)
            }
        }
    }

    /// Makes a buffer over memory that other resources may stand in as well, `offset` bytes from its
    /// start. Destroy it with the device, and free the memory when nothing stands in it any more.
    ///
    /// # Errors
    ///
    /// [`BufferError`]; no buffer was made.
    pub fn create_buffer_in(
        &self,
        allocation: &Allocation,
        offset: u64,
        buffer: &BufferDesc,
    ) -> Result<D::Buffer, BufferError> {
        let requirements = self.device().buffer_requirements(buffer).map_err(BufferError::Device)?;
        self.bind(buffer, allocation, offset, &requirements)
    }

    fn bind(
        &self,
        buffer: &BufferDesc,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<D::Buffer, BufferError> {
        let _held = self.hold(allocation).map_err(BufferError::Access)?;
        self.bind_held(buffer, allocation, offset, requirements)
    }

    /// Makes a buffer over an allocation that the caller [holds](Self::hold).
    pub(super) fn bind_held(
        &self,
        buffer: &BufferDesc,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
    ) -> Result<D::Buffer, BufferError> {
        let place = self.place_within(allocation, offset, requirements).map_err(BufferError::Access)?;
        // SAFETY: the memory lives as long as the token and the guard, and the requirements were just
        // checked.
        unsafe { self.device().create_buffer(buffer, place.memory, place.offset) }
            .map_err(BufferError::Device)
    }

    fn create_dedicated_buffer(
        &self,
        buffer: &BufferDesc,
        desc: &AllocationDesc,
    ) -> Result<Buffer<D>, BufferError> {
        let ranking = self.ranking(desc).map_err(BufferError::Allocation)?;
        let mut first = None;
        for memory_type in ranking.types(desc.requirements.memory_types) {
            let made = self.make_dedicated_buffer(buffer, desc, memory_type).or_else(|refused| {
                if self.make_room(memory_type, refused) {
                    self.make_dedicated_buffer(buffer, desc, memory_type)
                } else {
                    Err(refused)
                }
            });
            match made {
                Err(error) if error.falls_through() => first = first.or(Some(error)),
                result => return result.map_err(BufferError::Allocation),
            }
        }
        Err(BufferError::Allocation(first.unwrap_or_else(|| no_memory_type(desc))))
    }

    fn make_dedicated_buffer(
        &self,
        buffer: &BufferDesc,
        desc: &AllocationDesc,
        memory_type: MemoryTypeIndex,
    ) -> Result<Buffer<D>, AllocationError> {
        let (device, size) = (self.device(), desc.requirements.size);
        if desc.growth == Growth::Forbidden {
            return Err(AllocationError::WouldGrow { requested: size, free: 0, largest_free: 0 });
        }
        let refused = |error| self.heaps.refused(device, memory_type, size, error);
        let charge = self.heaps.charge(device, memory_type, size, desc.budget)?;
        self.heaps.allocate_calls.fetch_add(1, Relaxed);
        let (memory, made) = device.create_dedicated_buffer(buffer, memory_type).map_err(refused)?;
        // SAFETY: made just now, with this type and size, and known to nobody else.
        let owned = unsafe { OwnedMemory::adopt(device, memory, memory_type, size) };
        let adopted = owned.map_err(refused).and_then(|memory| {
            charge.keep();
            self.adopt(self.default_pool_for(memory_type, desc), memory, desc)
        });
        match adopted {
            Ok(allocation) => Ok(Buffer { buffer: made, allocation }),
            Err(error) => {
                // SAFETY: made here, and no queue has seen it.
                unsafe { device.destroy_buffer(made) };
                Err(error)
            }
        }
    }

    /// Destroys a buffer and frees its memory. No queue may use it any more.
    ///
    /// # Errors
    ///
    /// [`Foreign`] when it is from another allocator; it comes back with the error.
    pub fn destroy_buffer(&self, buffer: Buffer<D>) -> Result<(), Foreign<Buffer<D>>> {
        if buffer.allocation.allocator != self.id() {
            return Err(Foreign(buffer));
        }
        let Buffer { buffer, allocation } = buffer;
        // SAFETY: from this device, as its token is from this allocator; the caller is done with it.
        unsafe { self.device().destroy_buffer(buffer) };
        // Known not to be foreign.
        let _ = self.free(allocation);
        Ok(())
    }
}
