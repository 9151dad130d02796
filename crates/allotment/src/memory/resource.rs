//! Creates buffers and images together with their memory: both, or neither.

use core::error::Error;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::allocator::{Allocation, Allocator};
use super::block_set::Role;
use super::dedicated::DedicatedForResource;
use super::desc::AllocationRequest;
use super::pool::{RoundedRequest, Source};
use super::{
    AccessError, AllocationError, AllocationOptions, Dedicated, Movability, NewBlocks, ShortName,
    WrongAllocator,
};
use crate::device::{
    Device, DeviceError, MemoryDesc, OwnedMemory, Requirements, ResourceKind, TransferUsage,
};
use crate::sync::locked;

/// A resource and the memory that it is bound to, as a token: dropping it leaks both. Destroy both together
/// ([`Allocator::destroy_buffer`], [`Allocator::destroy_image`]).
#[derive(Debug)]
#[must_use = "a resource and its memory are freed by giving it back to its allocator"]
pub struct RawResource<H> {
    // Not public: only resources of the allocator's own device may be destroyed by it, and only once.
    handle: H,
    size: u64,
    /// Copies that safe calls may submit with the buffer; none for an image.
    transfer_usage: TransferUsage,
    allocation: Allocation,
}

impl<H> RawResource<H> {
    /// Returns the API's handle. Never destroy it without its memory.
    pub fn handle(&self) -> &H {
        &self.handle
    }

    /// Returns the size in bytes: of a buffer, as described; of an image, of its memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the memory.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Refuses a copy that the resource was not created for.
    pub(crate) fn check_usage(&self, copy: TransferUsage) -> Result<(), AccessError> {
        check_usage(self.transfer_usage, copy)
    }

    /// Makes a token of a resource and its memory that is only going to be destroyed.
    pub(super) fn of_parts(handle: H, size: u64, allocation: Allocation) -> Self {
        Self { handle, size, transfer_usage: TransferUsage::empty(), allocation }
    }

    /// Replaces the handle. Returns the old handle with the old memory.
    pub(super) fn replace_handle(&mut self, handle: H, old: Allocation) -> Self {
        Self::of_parts(core::mem::replace(&mut self.handle, handle), self.size, old)
    }
}

/// Refuses a copy by a buffer that has other usages.
pub(super) fn check_usage(usage: TransferUsage, copy: TransferUsage) -> Result<(), AccessError> {
    let missing = copy.difference(usage);
    if missing.is_empty() { Ok(()) } else { Err(AccessError::MissingUsage { missing }) }
}

/// A buffer and its memory, as a token: dropping it leaks both. [`Buffer`](super::Buffer) is destroyed by being
/// dropped.
pub type RawBuffer<D> = RawResource<<D as Device>::Buffer>;

/// An image and its memory, as a token: dropping it leaks both. [`Image`](super::Image) is destroyed by being dropped.
pub type RawImage<D> = RawResource<<D as Device>::Image>;

/// Why a resource was not created. Neither a resource nor memory is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The device cannot create such a resource, or the driver refused.
    Device(DeviceError),
    /// Its memory could not be allocated.
    Allocation(AllocationError),
    /// The resource cannot be bound to the allocation, or the CPU cannot map memory that has to be mapped.
    Access(AccessError),
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "the device refused the resource: {error}"),
            Self::Allocation(error) => write!(f, "no memory for the resource: {error}"),
            Self::Access(error) => write!(f, "the resource cannot be bound to the memory: {error}"),
        }
    }
}

impl Error for ResourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Allocation(error) => Some(error),
            Self::Access(error) => Some(error),
        }
    }
}

/// Buffers or images: the functions of the device that differ between the two.
pub trait Class<D: Device> {
    /// The API's description of a resource.
    type Info<'a>: Clone + fmt::Debug + Send + Sync;
    /// The API's handle.
    type Handle: Clone + fmt::Debug + Send + Sync;

    /// Returns the size in bytes.
    fn size(device: &D, info: &Self::Info<'_>, requirements: &Requirements) -> u64;
    /// Returns the copies between buffers that it may take part in.
    fn transfer_usage(device: &D, info: &Self::Info<'_>) -> TransferUsage;
    /// Returns the memory requirements.
    fn requirements(device: &D, info: &Self::Info<'_>) -> Result<Requirements, DeviceError>;
    /// Creates a resource bound to existing memory.
    ///
    /// # Safety
    ///
    /// The promises of [`Device::create_buffer`].
    unsafe fn create(
        device: &D,
        info: &Self::Info<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<Self::Handle, DeviceError>;
    /// Creates a resource together with dedicated memory.
    fn create_dedicated(
        device: &D,
        info: &Self::Info<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, Self::Handle), DeviceError>;
    /// Destroys a resource.
    ///
    /// # Safety
    ///
    /// The promises of [`Device::destroy_buffer`].
    unsafe fn destroy(device: &D, handle: Self::Handle);
    /// Sets the debug name for the API's tools.
    ///
    /// # Safety
    ///
    /// `handle` is live and from this device.
    unsafe fn name(device: &D, handle: &Self::Handle, name: &str);
}

/// Marks functions for buffers.
#[derive(Debug)]
pub enum Buffers {}

impl<D: Device> Class<D> for Buffers {
    type Info<'a> = D::BufferInfo<'a>;
    type Handle = D::Buffer;

    fn size(device: &D, info: &D::BufferInfo<'_>, _: &Requirements) -> u64 {
        device.buffer_size(info)
    }

    fn transfer_usage(device: &D, info: &D::BufferInfo<'_>) -> TransferUsage {
        device.buffer_transfer_usage(info)
    }

    fn requirements(device: &D, info: &D::BufferInfo<'_>) -> Result<Requirements, DeviceError> {
        device.buffer_requirements(info)
    }

    unsafe fn create(
        device: &D,
        info: &D::BufferInfo<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<D::Buffer, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { device.create_buffer(info, memory, offset) }
    }

    fn create_dedicated(
        device: &D,
        info: &D::BufferInfo<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, D::Buffer), DeviceError> {
        device.create_dedicated_buffer(info, memory)
    }

    unsafe fn destroy(device: &D, handle: D::Buffer) {
        // SAFETY: the caller's promise.
        unsafe { device.destroy_buffer(handle) };
    }

    unsafe fn name(device: &D, handle: &D::Buffer, name: &str) {
        // SAFETY: the caller's promise.
        unsafe { device.name_buffer(handle, name) };
    }
}

/// Marks functions for images.
#[derive(Debug)]
pub enum Images {}

impl<D: Device> Class<D> for Images {
    type Info<'a> = D::ImageInfo<'a>;
    type Handle = D::Image;

    fn size(_: &D, _: &D::ImageInfo<'_>, requirements: &Requirements) -> u64 {
        requirements.size
    }

    fn transfer_usage(_: &D, _: &D::ImageInfo<'_>) -> TransferUsage {
        TransferUsage::empty()
    }

    fn requirements(device: &D, info: &D::ImageInfo<'_>) -> Result<Requirements, DeviceError> {
        device.image_requirements(info)
    }

    unsafe fn create(
        device: &D,
        info: &D::ImageInfo<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<D::Image, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { device.create_image(info, memory, offset) }
    }

    fn create_dedicated(
        device: &D,
        info: &D::ImageInfo<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, D::Image), DeviceError> {
        device.create_dedicated_image(info, memory)
    }

    unsafe fn destroy(device: &D, handle: D::Image) {
        // SAFETY: the caller's promise.
        unsafe { device.destroy_image(handle) };
    }

    unsafe fn name(device: &D, handle: &D::Image, name: &str) {
        // SAFETY: the caller's promise.
        unsafe { device.name_image(handle, name) };
    }
}

impl<D: Device> Allocator<D> {
    /// Creates a buffer with memory for it, from the default pools or from the custom pool that the options name.
    ///
    /// Where the device requires that the buffer has dedicated memory, or the options ask for that, it is allocated
    /// together with the buffer; in a custom pool it counts as one of the pool's blocks.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind. [`AllocationError::DedicatedInFixedPool`] where
    /// the buffer is to have dedicated memory and the pool's blocks have a fixed size.
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
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawImage<D>, ResourceError> {
        self.create::<Images>(info, options, None)
    }

    /// Creates a buffer in a dedicated allocation with options of the API: export, import, protection. Imported
    /// memory has one memory type only: name it in [`AllocationOptions::memory_types`].
    ///
    /// # Errors
    ///
    /// The errors of [`create_buffer`](Self::create_buffer).
    pub fn create_buffer_with(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
        memory_options: &D::MemoryOptions,
    ) -> Result<RawBuffer<D>, ResourceError> {
        self.create::<Buffers>(info, options, Some(memory_options))
    }

    /// Creates an image in a dedicated allocation with options of the API, as
    /// [`create_buffer_with`](Self::create_buffer_with) creates a buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`create_image`](Self::create_image).
    pub fn create_image_with(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
        memory_options: &D::MemoryOptions,
    ) -> Result<RawImage<D>, ResourceError> {
        self.create::<Images>(info, options, Some(memory_options))
    }

    /// Allocates dedicated memory with options of the API and no resource in it yet.
    ///
    /// # Errors
    ///
    /// The errors of [`allocate`](Self::allocate).
    pub fn allocate_with(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
        memory_options: &D::MemoryOptions,
    ) -> Result<Allocation, AllocationError> {
        let request = &AllocationRequest::new(requirements, options);
        let make = |memory: &MemoryDesc<'_, _>| self.device().allocate_memory(memory).map(|m| (m, ()));
        self.allocate_dedicated(request, Some(memory_options), false, make, |()| {})
            .map(|(allocation, ())| allocation)
    }

    /// Allocates dedicated memory as [`allocate_with`](Self::allocate_with), for one resource that is bound later.
    #[cfg(feature = "vulkan")]
    pub(super) fn allocate_exclusive(
        &self,
        request: &AllocationRequest<'_>,
        memory_options: &D::MemoryOptions,
    ) -> Result<Allocation, AllocationError> {
        let make = |memory: &MemoryDesc<'_, _>| self.device().allocate_memory(memory).map(|m| (m, ()));
        self.allocate_dedicated(request, Some(memory_options), true, make, |()| {})
            .map(|(allocation, ())| allocation)
    }

    /// Creates a buffer bound `offset` bytes into an allocation, which other resources may be bound to as well. Destroy
    /// the buffer with the device, and free the memory after the last of them.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; no buffer is left behind. [`AccessError::DedicatedRequired`] where the device requires that
    /// the buffer has dedicated memory: [`create_buffer`](Self::create_buffer) allocates that.
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
    /// # Errors
    ///
    /// [`ResourceError`]; no image is left behind. [`AccessError::DedicatedRequired`] where the device requires that
    /// the image has dedicated memory: [`create_image`](Self::create_image) allocates that.
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
        let requirements = C::requirements(self.device(), info).map_err(ResourceError::Device)?;
        self.check_kind(allocation, requirements.kind).map_err(ResourceError::Access)?;
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
        let alike = info.kind == ResourceKind::Unknown || info.kind.is_optimal() == kind.is_optimal();
        // A dedicated allocation has no neighbours to keep a distance from.
        if alike || info.dedicated {
            return Ok(());
        }
        Err(AccessError::WrongKind { allocated: info.kind, wanted: kind })
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
        unsafe { C::create(self.device(), info, place.memory, place.offset) }.map_err(ResourceError::Device)
    }

    fn create<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        memory_options: Option<&D::MemoryOptions>,
    ) -> Result<RawResource<C::Handle>, ResourceError> {
        let (resource, movability) = self.create_pinned::<C>(info, options, memory_options)?;
        self.allow_moves(resource.allocation(), movability, false);
        Ok(resource)
    }

    /// Creates a resource that stays where it is until [`allow_moves`](Self::allow_moves) allows what is returned
    /// beside it: a pass that moved it before it is bound would free the memory that it is being bound to.
    pub(super) fn create_pinned<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        memory_options: Option<&D::MemoryOptions>,
    ) -> Result<(RawResource<C::Handle>, Movability), ResourceError> {
        let device = self.device();
        let requirements = C::requirements(device, info).map_err(ResourceError::Device)?;
        let mut movability = options.movability;
        let pinned = options.clone().with_movability(Movability::Pinned);
        let request = &AllocationRequest::new(&requirements, &pinned);
        let (handle, allocation) = match self.dedicated_for_resource(request, memory_options.is_some()) {
            DedicatedForResource::No => self.create_placed::<C>(info, request)?,
            DedicatedForResource::Preferred => {
                match self.create_with_dedicated::<C>(info, request, memory_options) {
                    // The driver prefers dedicated memory and does not require it, so a block serves as well.
                    Err(ResourceError::Allocation(_)) => self.create_placed::<C>(info, request)?,
                    made => made?,
                }
            }
            DedicatedForResource::Required => {
                // A resource with dedicated memory cannot be moved into a block.
                movability = Movability::Pinned;
                self.create_with_dedicated::<C>(info, request, memory_options)?
            }
        };
        Ok((self.resource_of::<C>(handle, allocation, info, request), movability))
    }

    /// Names a new resource, and makes a token of it.
    fn resource_of<C: Class<D>>(
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
        RawResource { handle, size, transfer_usage: C::transfer_usage(device, info), allocation }
    }

    /// Notes in its pool that a resource is bound to an allocation that the caller [holds](Self::hold). A pool with
    /// resources cannot be reset.
    fn note_resource(&self, allocation: &Allocation) {
        let Some(slot) = self.pools.get(allocation.pool) else { return };
        let mut guard = locked(&slot.state);
        if let Some(detail) = guard.as_mut().and_then(|state| state.detail_mut(allocation.record)) {
            detail.has_resource = true;
        }
    }

    fn create_placed<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        request: &AllocationRequest<'_>,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let allocation = self.allocate_for_request(request).map_err(ResourceError::Allocation)?;
        let bind = || {
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

    fn create_with_dedicated<C: Class<D>>(
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
                unmake(handle);
                return Err(ResourceError::Access(error));
            }
        }
        Ok((handle, allocation))
    }

    /// Allocates dedicated memory that is never shared or reused, together with its resource, from the memory types that
    /// suit in turn. `exclusive` says that no other resource can be bound to it.
    fn allocate_dedicated<H>(
        &self,
        request: &AllocationRequest<'_>,
        memory_options: Option<&D::MemoryOptions>,
        exclusive: bool,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(Allocation, H), AllocationError> {
        // So that the pool ties the memory to its resource, instead of reusing it later.
        let options = request.options.clone().with_dedicated(Dedicated::Always);
        let request = &request.with_options(&options);
        if let Some(pool) = &request.options.pool {
            return self.by_pool_types(pool, request, |set| {
                self.make_dedicated((pool.index(), set), request, memory_options, exclusive, &make, &unmake)
            });
        }
        self.by_ranking(request, |memory_type, request| {
            let pool = self.own_shard(self.default_pool_for(memory_type, request));
            self.make_dedicated((pool, 0), request, memory_options, exclusive, &make, &unmake)
        })
    }

    /// Allocates dedicated memory from one memory type of one pool. Where the driver refuses, frees empty blocks and
    /// tries once more.
    fn make_dedicated<H>(
        &self,
        from: (u32, usize),
        request: &AllocationRequest<'_>,
        memory_options: Option<&D::MemoryOptions>,
        exclusive: bool,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(Allocation, H), AllocationError> {
        let (pool, set) = from;
        if request.options.new_blocks == NewBlocks::NeverAllocate {
            let requested = request.requirements.size;
            return Err(AllocationError::WouldGrow {
                requested,
                free: 0,
                largest_free: 0,
                name: ShortName::NONE,
            });
        }
        let (getting, fitted, source) = self.begin_dedicated_block(pool, set, request)?;
        let memory_options = memory_options.or(source.options.as_ref());
        let attempt = || self.allocate_with_resource(request, &source, memory_options, &make, &unmake);
        let got = self.waiting(|| {
            attempt().or_else(|refused| {
                if self.make_room(source.memory_type, refused) { attempt() } else { Err(refused) }
            })
        });
        let (got, handle) = match got {
            Ok((memory, handle)) => (Ok((memory, Role::DedicatedToAllocation)), Some(handle)),
            Err(error) => (Err(error), None),
        };
        let settled = self.insert_block(
            getting,
            pool,
            got,
            &RoundedRequest { dedicated_to_resource: exclusive, ..fitted },
            request,
        );
        match (settled, handle) {
            (Ok(allocation), Some(handle)) => Ok((allocation, handle)),
            (Err(error), handle) => {
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
        let (device, size, memory_type) = (self.device(), request.requirements.size, source.memory_type);
        let refused = |error| self.heaps.refused(device, memory_type, size, error);
        let memory = MemoryDesc::new(memory_type, size)
            .with_priority(request.options.priority)
            .with_options(memory_options);
        let charge = self.heaps.charge(device, memory_type, size, source.budget_policy)?;
        self.heaps.allocate_calls.fetch_add(1, Relaxed);
        let (raw, handle) = make(&memory).map_err(refused)?;
        // SAFETY: created just now, with this type and size, and known to nobody else.
        match unsafe { OwnedMemory::adopt(device, raw, &memory) } {
            Ok(memory) => {
                charge.keep();
                if let Some(name) = &request.options.name {
                    // SAFETY: created just now, and nobody else can free it yet.
                    unsafe { device.name_memory(raw, name.as_str()) };
                }
                Ok((memory, handle))
            }
            Err(error) => {
                unmake(handle);
                Err(refused(error))
            }
        }
    }

    /// Destroys a buffer and frees its memory. No queue may use it any more.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when the resource is from another allocator; the error returns it.
    pub fn destroy_buffer(&self, buffer: RawBuffer<D>) -> Result<(), WrongAllocator<RawBuffer<D>>> {
        self.destroy::<Buffers>(buffer)
    }

    /// Destroys an image and frees its memory. No queue may use it any more.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when the resource is from another allocator; the error returns it.
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
        let RawResource { handle, allocation, .. } = resource;
        // SAFETY: from this device, as its token is from this allocator; the caller is done with it.
        unsafe { C::destroy(self.device(), handle) };
        // Checked above, so it cannot be refused.
        let _ = self.free(allocation);
        Ok(())
    }
}
