//! Creates resources in a part of an allocation, beside or above others, as bare handles: for programs with an allocator and no
//! deletion queue, which know themselves when a resource and its memory may go. [`Memory`](crate::memory::Memory) is the same with
//! owners, and knows which of the resources has the bytes.

use super::ResourceError;
use super::class::{Buffers, Class, Images};
use crate::device::{Device, Requirements, ResourceKind};
use crate::memory::allocator::Allocator;
use crate::memory::token::Allocation;
use crate::memory::{AccessError, ShortName};

impl<D: Device> Allocator<D> {
    /// Creates a buffer bound `offset` bytes into an allocation, which other resources may be bound to as well. Destroy
    /// the buffer with the device, and free the memory after the last of them.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let shared = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_name("passes"))?;
    /// let culled = allocator.create_aliasing_buffer(&shared, 0, &BufferDesc::new(1 << 20))?;
    /// let sorted = allocator.create_aliasing_buffer(&shared, 0, &BufferDesc::new(4096))?; // the same bytes, later
    /// for buffer in [culled, sorted] {
    ///     // SAFETY: both are of this device, and no queue uses them.
    ///     unsafe { allocator.device().destroy_buffer(buffer) };
    /// }
    /// allocator.free(shared)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; no buffer is left behind. [`AccessError::DedicatedRequired`] where the device requires that
    /// the buffer has dedicated memory: [`create_buffer`](Self::create_buffer) allocates that.
    #[inline(never)]
    #[doc(alias("vmaCreateAliasingBuffer", "vmaCreateAliasingBuffer2", "CreateAliasingResource"))]
    pub fn create_aliasing_buffer(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &D::BufferInfo<'_>,
    ) -> Result<D::Buffer, ResourceError> {
        self.create_in::<Buffers>(allocation, offset, info)
    }

    /// Creates an image bound `offset` bytes into an allocation, which other resources may be bound to as well. Destroy
    /// the image with the device, and free the memory after the last of them.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let (shadows, bloom) = (ImageDesc::new(512, 512, 4), ImageDesc::new(256, 256, 8));
    /// let device = allocator.device();
    /// let needed = device.image_requirements(&shadows)?.or(device.image_requirements(&bloom)?);
    /// let shared = allocator.allocate(&needed, &MemoryUsage::GpuOnly.with_name("shadows, then bloom"))?;
    /// for desc in [shadows, bloom] {
    ///     let image = allocator.create_aliasing_image(&shared, 0, &desc)?;
    ///     // SAFETY: it is of this device, and no queue uses it.
    ///     unsafe { device.destroy_image(image) };
    /// }
    /// allocator.free(shared)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; no image is left behind. [`AccessError::DedicatedRequired`] where the device requires that
    /// the image has dedicated memory: [`create_image`](Self::create_image) allocates that.
    #[inline(never)]
    #[doc(alias("vmaCreateAliasingImage", "vmaCreateAliasingImage2", "CreateAliasingResource"))]
    pub fn create_aliasing_image(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &D::ImageInfo<'_>,
    ) -> Result<D::Image, ResourceError> {
        self.create_in::<Images>(allocation, offset, info)
    }

    fn create_in<C: Class<D>>(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &C::Info<'_>,
    ) -> Result<C::Handle, ResourceError> {
        let created = self.create_in_unnamed::<C>(allocation, offset, info);
        // The new resource has no name of its own: that of the memory says where it was to be.
        created.map_err(|error| error.of(self.name_of(allocation)))
    }

    fn create_in_unnamed<C: Class<D>>(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &C::Info<'_>,
    ) -> Result<C::Handle, ResourceError> {
        let requirements = C::requirements(self.device(), info).map_err(ResourceError::from)?;
        self.check_kind(allocation, requirements.kind).map_err(ResourceError::Access)?;
        // Held until the resource is bound: no reset of the pool may free the memory, and no pass may move it, in
        // between.
        let _held = self.hold(allocation).map_err(ResourceError::Access)?;
        self.bind::<C>(allocation, offset, info, &requirements)
    }

    /// Refuses an optimal image on a page of linear resources, and the reverse, where the device forbids that: an
    /// allocation keeps the distance of `bufferImageGranularity` only for the kind that it was allocated for.
    pub(super) fn check_kind(&self, allocation: &Allocation, kind: ResourceKind) -> Result<(), AccessError> {
        // With a granularity of one byte every kind may be next to every other.
        if self.device().properties().limits.buffer_image_granularity.get() == 1 {
            return Ok(());
        }
        let info = self.info(allocation)?;
        // Memory for an unknown kind has whole granularity pages to itself, as for an optimal image, so both kinds may
        // alias it.
        let alike = info.kind == ResourceKind::Unknown || info.kind.is_optimal() == kind.is_optimal();
        // A dedicated allocation has no neighbours to keep a distance from.
        if alike || info.dedicated {
            return Ok(());
        }
        Err(AccessError::WrongKind { allocated: info.kind, wanted: kind, name: ShortName::NONE })
    }

    /// Creates a resource bound to an allocation that the caller [holds](Self::hold).
    pub(super) fn bind<C: Class<D>>(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &C::Info<'_>,
        requirements: &Requirements,
    ) -> Result<C::Handle, ResourceError> {
        let place = self.place_within(allocation, offset, requirements).map_err(ResourceError::Access)?;
        // SAFETY: the memory lives as long as the token and what holds it, and the requirements were just
        // checked.
        unsafe { C::create(self.device(), info, place.memory, place.offset) }.map_err(ResourceError::from)
    }
}
