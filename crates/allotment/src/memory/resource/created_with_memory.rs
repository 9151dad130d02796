//! Creates resources together with dedicated memory, and dedicated memory with options of the API.

use core::fmt;

use super::class::{Buffers, Class, Images};
use super::{RawBuffer, RawImage, ResourceError};
use crate::device::{Device, DeviceError, MemoryDesc, OwnedMemory, Requirements};
use crate::memory::allocator::{Allocator, IdleBlocks};
use crate::memory::block_set::Role;
use crate::memory::pool::{NeededBlock, RoundedRequest, Source};
use crate::memory::request::{AllocationRequest, PoolShards};
use crate::memory::token::Allocation;
use crate::memory::{
    AllocationError, AllocationOptions, CreatePoolError, Dedicated, NewBlocks, Pool, PoolDesc, ShortName,
};

/// Creates resources, memory and pools with options of the API: export, import, protection.
/// [`Allocator::with_memory_options`] returns it.
///
/// The memory is dedicated, and in a pool each block has the options.
pub struct WithMemoryOptions<'a, D: Device> {
    pub(super) allocator: &'a Allocator<D>,
    pub(super) options: &'a D::MemoryOptions,
}

impl<D: Device> fmt::Debug for WithMemoryOptions<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithMemoryOptions").field("options", self.options).finish_non_exhaustive()
    }
}

impl<D: Device> WithMemoryOptions<'_, D> {
    /// Creates a buffer in a dedicated allocation with options of the API: export, import, protection. Imported
    /// memory has one memory type only: name it in [`AllocationOptions::memory_types`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// // On Vulkan, `MemoryOptions` with the handle types to export; the simulated GPU has no options.
    /// let options = MemoryUsage::GpuOnly.with_name("shared with an encoder");
    /// let frames = allocator.with_memory_options(&()).create_buffer(&BufferDesc::new(4096), &options)?;
    /// assert!(allocator.info(frames.allocation())?.dedicated_to_resource);
    /// allocator.destroy_buffer(frames)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::create_buffer`].
    #[inline(never)]
    #[doc(alias = "vmaCreateDedicatedBuffer")]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawBuffer<D>, ResourceError> {
        self.allocator.create::<Buffers>(info, options, Some(self.options))
    }

    /// Creates an image in a dedicated allocation with options of the API, as
    /// [`create_buffer`](Self::create_buffer) creates a buffer.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("shared with a compositor");
    /// let picture = allocator.with_memory_options(&()).create_image(&ImageDesc::new(640, 480, 4), &options)?;
    /// assert!(allocator.info(picture.allocation())?.dedicated_to_resource);
    /// allocator.destroy_image(picture)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::create_image`].
    #[inline(never)]
    #[doc(alias = "vmaCreateDedicatedImage")]
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawImage<D>, ResourceError> {
        self.allocator.create::<Images>(info, options, Some(self.options))
    }

    /// Allocates dedicated memory with options of the API and no resource in it yet.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("shared with another process");
    /// let memory = allocator.with_memory_options(&()).allocate(&Requirements::new(4096), &options)?;
    /// let buffer = allocator.create_aliasing_buffer(&memory, 0, &BufferDesc::new(4096))?; // what it is for
    /// // SAFETY: it is of this device, and no queue uses it.
    /// unsafe { allocator.device().destroy_buffer(buffer) };
    /// allocator.free(memory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::allocate`].
    #[inline(never)]
    #[doc(alias = "vmaAllocateDedicatedMemory")]
    #[track_caller]
    pub fn allocate(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError> {
        let request = &AllocationRequest::new(requirements, options);
        // Options such as export make the memory dedicated, but to no resource: the caller may bind several to it.
        let allocator = self.allocator;
        let make = |memory: &MemoryDesc<'_, _>| allocator.device().allocate_memory(memory).map(|m| (m, ()));
        let (allocation, ()) =
            allocator.allocate_dedicated(request, Some(self.options), false, make, |()| {})?;
        allocator.note_call_site(allocation.id());
        Ok(allocation)
    }

    /// Creates a custom pool as [`Allocator::create_pool`], whose blocks are allocated with options of the API,
    /// such as export.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// let export = (); // on Vulkan, `MemoryOptions` with the handle types to export; the simulated GPU has none
    /// let pool = allocator.with_memory_options(&export).create_pool(PoolDesc::new([best]))?;
    /// let shared = allocator.allocate(&Requirements::new(1 << 20), &MemoryUsage::GpuOnly.with_pool(&pool))?;
    /// allocator.free(shared)?;
    /// allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::create_pool`].
    #[inline(never)]
    #[doc(alias = "push_next")]
    pub fn create_pool(&self, desc: PoolDesc) -> Result<Pool, CreatePoolError> {
        self.allocator.create_pool_of(desc, Some(self.options.clone()))
    }
}

impl<D: Device> Allocator<D> {
    /// Returns what creates resources, memory and pools with options of the API, such as export to another process.
    #[doc(alias = "push_next")]
    #[must_use]
    pub const fn with_memory_options<'a>(
        &'a self,
        options: &'a D::MemoryOptions,
    ) -> WithMemoryOptions<'a, D> {
        WithMemoryOptions { allocator: self, options }
    }

    pub(super) fn create_with_dedicated<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        request: &AllocationRequest<'_>,
        memory_options: Option<&D::MemoryOptions>,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let device = self.device();
        let make = |memory: &MemoryDesc<'_, _>| C::create_dedicated(device, info, memory);
        // SAFETY: created just now, and no queue has seen it.
        let unmake = |handle| unsafe { C::destroy(device, handle) };
        let made = self.allocate_dedicated(request, memory_options, true, make, unmake);
        let (allocation, handle) = made.map_err(ResourceError::Allocation)?;
        if request.options.pool.is_some() {
            // Another thread may have reset the pool since, and freed the memory.
            let noted = self.hold(&allocation).map(|_held| self.note_resource(&allocation));
            if let Err(error) = noted {
                // The reset has freed the memory already, so only the resource is left to destroy.
                unmake(handle);
                return Err(ResourceError::Access(error));
            }
        }
        Ok((handle, allocation))
    }

    /// Allocates dedicated memory that is never shared or reused, together with its resource, from the memory types
    /// that suit in turn. `dedicated_to_resource` says that no other resource can be bound to it.
    pub(super) fn allocate_dedicated<H>(
        &self,
        request: &AllocationRequest<'_>,
        memory_options: Option<&D::MemoryOptions>,
        dedicated_to_resource: bool,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(Allocation, H), AllocationError> {
        // So that the pool ties the memory to its resource, instead of reusing it later.
        let options = request.options.clone().with_dedicated(Dedicated::Always);
        let request = &AllocationRequest { with_resource: true, ..request.with_options(&options) };
        // Any shard would do, since no other request uses the memory. The thread's own is the one whose lock it usually finds
        // free.
        self.serve(request, |of, request| {
            let of = (of.shards, of.set);
            self.make_dedicated(of, request, memory_options, dedicated_to_resource, &make, &unmake)
        })
    }

    /// Allocates dedicated memory from one memory type of one pool.
    fn make_dedicated<H>(
        &self,
        (shards, set): (PoolShards, usize),
        request: &AllocationRequest<'_>,
        memory_options: Option<&D::MemoryOptions>,
        dedicated_to_resource: bool,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(Allocation, H), AllocationError> {
        let pool = shards.own();
        // Checked first: dedicated memory is always a new memory object, so no existing one can serve the request.
        if request.options.new_blocks == NewBlocks::NeverAllocate {
            let requested = request.requirements.size;
            return Err(AllocationError::WouldGrow {
                requested,
                free: 0,
                largest_free: 0,
                name: ShortName::NONE,
            });
        }
        let needed = self.begin_dedicated_block((shards, pool), set, request)?;
        let NeededBlock { pending, rounded, source, .. } = needed;
        // The options of a custom pool hold for its dedicated memory as well, unless the caller passes others.
        let memory_options = memory_options.or(source.options.as_ref());
        let got =
            self.waiting(|| self.allocate_with_resource(request, &source, memory_options, &make, &unmake));
        let (got, handle) = match got {
            Ok((memory, handle)) => (Ok((memory, Role::DedicatedToAllocation)), Some(handle)),
            Err(error) => (Err(error), None),
        };
        // Also after a refusal: the pool counts the object as pending until then, and threads may wait for that.
        let settled = self.insert_block(
            pending,
            pool,
            got,
            &RoundedRequest { dedicated_to_resource, ..rounded },
            request,
        );
        match (settled, handle) {
            (Ok(allocation), Some(handle)) => Ok((allocation, handle)),
            (Err(error), handle) => {
                // After `insert_block`, which freed the memory: no queue uses the resource, so the APIs allow either
                // order.
                handle.into_iter().for_each(unmake);
                Err(error)
            }
            (Ok(_), None) => unreachable!("memory that was not allocated is not taken in"),
        }
    }

    /// Allocates memory together with its resource from the driver.
    fn allocate_with_resource<H>(
        &self,
        request: &AllocationRequest<'_>,
        source: &Source<D>,
        memory_options: Option<&D::MemoryOptions>,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(OwnedMemory<D>, H), AllocationError> {
        let (device, of) = (self.device(), (source.memory_type, request.requirements.size));
        let desc =
            MemoryDesc::new(of.0, of.1).with_priority(request.options.priority).with_options(memory_options);
        let make = || {
            let (raw, handle) = make(&desc)?;
            // SAFETY: created just now, with this type and size, and known to no other code.
            match unsafe { OwnedMemory::adopt(device, raw, &desc, source.terms.mapping) } {
                Ok(memory) => Ok((memory, handle)),
                Err(error) => {
                    // The memory could not be mapped, and `adopt` has freed it: the resource must not outlive this call
                    // either.
                    unmake(handle);
                    Err(error)
                }
            }
        };
        if self.heaps().refused_before(device, of.0, of.1, source.terms).is_some() {
            request.note_answered();
        }
        let made = self.memory_of_driver(of, source.terms, IdleBlocks::Free, make)?;
        if let Some(name) = &request.options.name {
            // SAFETY: created just now, and no other code can free it yet.
            unsafe { device.name_memory(made.0.handle(), name.as_str()) };
        }
        Ok(made)
    }
}
