//! Creates buffers and images, and destroys them.

use super::class::{Buffers, Class, Images};
use super::{RawBuffer, RawImage, RawResource, ResourceError};
use crate::device::Device;
use crate::memory::allocator::{Allocator, FreesTogether};
use crate::memory::mover::MoverId;
use crate::memory::pool::DedicatedForResource;
use crate::memory::request::{AllocationRequest, Moves};
use crate::memory::token::Allocation;
use crate::memory::{AllocationOptions, Movability, WrongAllocator};

/// A resource that was created just now.
#[derive(Debug)]
pub(super) struct New<H> {
    pub(super) resource: RawResource<H>,
    pub(super) moves: Moves,
    /// Bytes of its memory.
    pub(super) bytes: u64,
}

impl<D: Device> Allocator<D> {
    /// Creates a buffer with memory for it, from the default pools or from the custom pool that the options name.
    ///
    /// Where the device requires that the buffer has dedicated memory, or the options ask for that, it is allocated
    /// together with the buffer; in a custom pool it counts as one of the pool's blocks.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind. The cause is
    /// [`AllocationError::DedicatedInFixedPool`](crate::AllocationError::DedicatedInFixedPool) where the buffer is to
    /// have dedicated memory and the pool's blocks have a fixed size.
    ///
    /// ```
    /// use allotment::device::BufferDesc;
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let options = MemoryUsage::Upload.with_name("vertices");
    /// let vertices = allocator.create_buffer(&BufferDesc::new(4096), &options)?;
    /// allocator.write(vertices.allocation(), 0, &[7; 4096])?;
    /// allocator.destroy_buffer(vertices)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaCreateBuffer", "CreateResource"))]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawBuffer<D>, ResourceError> {
        self.create::<Buffers>(info, options, None)
    }

    /// Creates an image with memory for it, as [`create_buffer`](Self::create_buffer) creates a buffer.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither an image nor memory is left behind.
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("albedo");
    /// // On the simulated device a format is its bytes a texel.
    /// let albedo = allocator.create_image(&ImageDesc::new(1024, 1024, 4), &options)?;
    /// assert!(allocator.location(albedo.allocation())?.size >= 4 << 20);
    /// allocator.destroy_image(albedo)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaCreateImage", "CreateResource"))]
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawImage<D>, ResourceError> {
        self.create::<Images>(info, options, None)
    }

    #[track_caller]
    pub(super) fn create<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        memory_options: Option<&D::MemoryOptions>,
    ) -> Result<RawResource<C::Handle>, ResourceError> {
        let moves = Moves::once_bound(options.mover(), options.movability);
        let New { resource, moves, .. } = self.create_new::<C>(info, options, moves, memory_options)?;
        if moves.at_last != Movability::Pinned {
            // Only now that the resource is bound may a pass find it.
            self.allow_moves(resource.allocation(), moves.at_last, MoverId::PASSES);
        }
        Ok(resource)
    }

    /// Creates a resource whose allocation may be moved as `moves` says for the beginning.
    #[track_caller]
    pub(super) fn create_new<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        moves: Moves,
        memory_options: Option<&D::MemoryOptions>,
    ) -> Result<New<C::Handle>, ResourceError> {
        // Not by `map_err` around a closure with all of it: the call site of a call in a closure is the closure.
        let created = self.create_unnamed::<C>(info, options, moves, memory_options);
        created.map_err(|error| error.of(options.short_name()))
    }

    #[track_caller]
    fn create_unnamed<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        mut moves: Moves,
        memory_options: Option<&D::MemoryOptions>,
    ) -> Result<New<C::Handle>, ResourceError> {
        let device = self.device();
        let requirements = C::new_requirements(device, info).map_err(ResourceError::from)?;
        let mut request = AllocationRequest { moves, ..AllocationRequest::new(&requirements, options) };
        let dedicated = self.pools.dedicated_for_resource(&request, memory_options.is_some());
        if dedicated != DedicatedForResource::No {
            // Of memory that is made for one resource the driver decides the size: what the resource needs, and no more.
            let exact = C::exact_requirements(device, info, requirements).map_err(ResourceError::from)?;
            request = AllocationRequest { moves, ..AllocationRequest::new(&exact, options) };
        }
        if dedicated == DedicatedForResource::Required {
            // A resource with dedicated memory cannot be moved into a block.
            moves = Moves { mover: moves.mover, ..Moves::NONE };
            request.moves = moves;
        }
        let request = &request;
        let (handle, allocation) = match dedicated {
            DedicatedForResource::No => self.create_placed::<C>(info, request)?,
            DedicatedForResource::Preferred => {
                // In the memory type that suits best only: a block there is better than dedicated memory elsewhere.
                let best = &AllocationRequest { best_type_only: true, ..*request };
                match self.create_with_dedicated::<C>(info, best, memory_options) {
                    // The driver prefers dedicated memory and does not require it, so a block serves as well.
                    // Only for want of memory: what the driver has against the resource itself, it has in a block as
                    // well.
                    Err(ResourceError::Allocation(_)) => self.create_placed::<C>(info, request)?,
                    made => made?,
                }
            }
            DedicatedForResource::Required => {
                self.create_with_dedicated::<C>(info, request, memory_options)?
            }
        };
        self.note_call_site(allocation.id());
        let bytes = request.requirements.size;
        Ok(New { resource: self.resource_of::<C>(handle, allocation, info, request), moves, bytes })
    }

    /// Creates a resource where room was made for it: `room` gets the request, and returns its allocation.
    #[track_caller]
    pub(super) fn create_in_room<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        moves: Moves,
        room: impl FnOnce(&AllocationRequest<'_>) -> Result<Allocation, ResourceError>,
    ) -> Result<New<C::Handle>, ResourceError> {
        let named = |error: ResourceError| error.of(options.short_name());
        let requirements = C::new_requirements(self.device(), info).map_err(|error| named(error.into()))?;
        let request = &AllocationRequest { moves, ..AllocationRequest::new(&requirements, options) };
        let allocation = room(request).map_err(named)?;
        let (handle, allocation) = self.create_bound::<C>(info, request, allocation).map_err(named)?;
        self.note_call_site(allocation.id());
        let bytes = request.requirements.size;
        Ok(New { resource: self.resource_of::<C>(handle, allocation, info, request), moves, bytes })
    }

    /// Names a new resource, and makes a token of it.
    pub(super) fn resource_of<C: Class<D>>(
        &self,
        handle: C::Handle,
        allocation: Allocation,
        info: &C::Info<'_>,
        request: &AllocationRequest<'_>,
    ) -> RawResource<C::Handle> {
        let device = self.device();
        if let Some(name) = &request.options.name {
            // SAFETY: created just now.
            unsafe { C::name(device, &handle, name.as_str()) };
        }
        let size = C::size(device, info, &request.requirements);
        let (transfer_usage, shared) = (C::transfer_usage(device, info), C::is_shared(device, info));
        let (facts, no_address) = (C::facts(device, info), C::no_address(device, info));
        let view_uses = C::view_uses(device, info);
        RawResource {
            handle,
            size,
            facts,
            transfer_usage,
            view_uses,
            shared,
            no_address,
            allocation,
            ranges: None,
        }
    }

    /// Notes in its pool that a resource is bound to an allocation that the caller [holds](Self::hold). A pool with
    /// resources cannot be reset.
    pub(super) fn note_resource(&self, allocation: &Allocation) {
        self.pools.get(allocation.pool).into_iter().for_each(|slot| slot.note_resource(allocation.record));
    }

    fn create_placed<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        request: &AllocationRequest<'_>,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let allocation = self.allocate_for_request(request).map_err(ResourceError::Allocation)?;
        self.create_bound::<C>(info, request, allocation)
    }

    /// Creates a resource in an allocation that was made for the request, which is freed where that fails.
    fn create_bound<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        request: &AllocationRequest<'_>,
        allocation: Allocation,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let bind = || {
            // Default pools are never reset, so nothing has to be held or noted there.
            if request.options.pool.is_none() {
                return self.bind::<C>(&allocation, 0, info, &request.requirements);
            }
            // Keeps the pool from being reset before the resource is noted in it.
            let _held = self.hold(&allocation).map_err(ResourceError::Access)?;
            let handle = self.bind::<C>(&allocation, 0, info, &request.requirements)?;
            self.note_resource(&allocation);
            Ok(handle)
        };
        match bind() {
            Ok(handle) => Ok((handle, allocation)),
            Err(error) => {
                // This allocator made the allocation, so it cannot refuse to free it.
                let _ = self.free(allocation);
                Err(error)
            }
        }
    }

    /// Destroys a buffer and frees its memory. No queue may use it any more.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mesh = allocator.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// allocator.destroy_buffer(mesh)?; // once the GPU has completed what uses it
    /// assert_eq!(allocator.statistics().allocations, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when the resource is from another allocator; the error returns it.
    #[inline(never)]
    #[doc(alias("vmaDestroyBuffer", "Release"))]
    pub fn destroy_buffer(&self, buffer: RawBuffer<D>) -> Result<(), WrongAllocator<RawBuffer<D>>> {
        self.destroy::<Buffers>(buffer)
    }

    /// Destroys an image and frees its memory. No queue may use it any more.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let albedo = allocator.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("albedo"))?;
    /// allocator.destroy_image(albedo)?; // once the GPU has completed what uses it
    /// assert_eq!(allocator.statistics().allocations, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when the resource is from another allocator; the error returns it.
    #[inline(never)]
    #[doc(alias("vmaDestroyImage", "Release"))]
    pub fn destroy_image(&self, image: RawImage<D>) -> Result<(), WrongAllocator<RawImage<D>>> {
        self.destroy::<Images>(image)
    }

    fn destroy<C: Class<D>>(
        &self,
        resource: RawResource<C::Handle>,
    ) -> Result<(), WrongAllocator<RawResource<C::Handle>>> {
        if !self.owns(&resource.allocation) {
            return Err(WrongAllocator(resource));
        }
        // The resource goes first: once its memory is free, another resource may be bound there.
        let RawResource { handle, allocation, .. } = resource;
        // SAFETY: from this device, as its token is from this allocator; the caller is done with it.
        unsafe { C::destroy(self.device(), handle) };
        // Checked above, so it cannot be refused.
        let _ = self.free(allocation);
        Ok(())
    }

    /// Destroys a resource of this allocator, whose memory is freed among that of others. No queue may use it any more.
    #[inline]
    pub(super) fn destroy_among<C: Class<D>>(
        &self,
        resource: RawResource<C::Handle>,
        frees: &mut FreesTogether<D>,
    ) {
        debug_assert!(self.owns(&resource.allocation), "its owner is of this allocator");
        let RawResource { handle, allocation, .. } = resource;
        // SAFETY: from this device, as its token is from this allocator; the caller is done with it.
        unsafe { C::destroy(self.device(), handle) };
        // Later than the resource, as above.
        frees.add(allocation);
    }
}
