//! Buffers and images with their memory in one step: all or nothing.

use core::error::Error;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::allocator::{Allocation, Allocator};
use super::block_set::Role;
use super::dedicated::DedicatedForResource;
use super::pool::{Pool, RoundedRequest, Source};
use super::{
    AccessError, AllocationDesc, AllocationError, Dedicated, Foreign, Movability, NewBlocks, ShortName,
};
use crate::device::{
    DedicatedNeed, Device, DeviceError, MemoryDesc, OwnedMemory, Requirements, ResourceKind, TransferUsage,
};
use crate::sync::locked;

/// A resource and the memory that it stands in. Give both back together
/// ([`Allocator::destroy_buffer`], [`Allocator::destroy_image`]).
#[derive(Debug)]
#[must_use = "a resource and its memory are freed by giving it back to its allocator"]
pub struct Resource<H> {
    // Not public: only resources of the allocator's own device may be destroyed by it, and only once.
    handle: H,
    size: u64,
    /// Which copies safe calls may submit with it; of an image, none.
    transfer_usage: TransferUsage,
    allocation: Allocation,
}

impl<H> Resource<H> {
    /// The API's own handle. It belongs to this pair: never destroy it alone.
    pub fn handle(&self) -> &H {
        &self.handle
    }

    /// Bytes: of a buffer, as it was described; of an image, of its memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its memory.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Refuses a copy that the resource was not created for.
    pub(crate) fn check_usage(&self, copy: TransferUsage) -> Result<(), AccessError> {
        check_usage(self.transfer_usage, copy)
    }

    /// A resource whose memory is known to be its own, which is only to be destroyed.
    pub(super) fn of_parts(handle: H, size: u64, allocation: Allocation) -> Self {
        Self { handle, size, transfer_usage: TransferUsage::empty(), allocation }
    }

    /// Has another handle from now on. What it was comes back, with the memory that it was in.
    pub(super) fn replace_handle(&mut self, handle: H, old: Allocation) -> Self {
        Self::of_parts(core::mem::replace(&mut self.handle, handle), self.size, old)
    }
}

/// Refuses a copy by a buffer that has other usages.
pub(super) fn check_usage(usage: TransferUsage, copy: TransferUsage) -> Result<(), AccessError> {
    let missing = copy.difference(usage);
    if missing.is_empty() { Ok(()) } else { Err(AccessError::MissingUsage { missing }) }
}

/// A buffer and its memory.
pub type Buffer<D> = Resource<<D as Device>::Buffer>;

/// An image and its memory.
pub type Image<D> = Resource<<D as Device>::Image>;

/// Why a resource was not made. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The device cannot make such a resource, or refused to.
    Device(DeviceError),
    /// There is no memory for it.
    Allocation(AllocationError),
    /// It does not fit the memory that it was to share, or the CPU cannot reach the memory that it has to.
    Access(AccessError),
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "the resource was refused: {error}"),
            Self::Allocation(error) => write!(f, "no memory for the resource: {error}"),
            Self::Access(error) => write!(f, "the resource cannot stand there: {error}"),
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

/// What differs between buffers and images: which of the device's functions make them.
pub trait Class<D: Device> {
    /// What the API wants to know of one.
    type Info<'a>: Clone + fmt::Debug + Send + Sync;
    /// The API's own handle.
    type Handle: Clone + fmt::Debug + Send + Sync;

    /// What kind of resource it is to memory.
    fn kind(device: &D, info: &Self::Info<'_>) -> ResourceKind;
    /// Its bytes.
    fn size(device: &D, info: &Self::Info<'_>, requirements: &Requirements) -> u64;
    /// Which copies between buffers it may be named in.
    fn transfer_usage(device: &D, info: &Self::Info<'_>) -> TransferUsage;
    /// What memory it needs.
    fn requirements(device: &D, info: &Self::Info<'_>) -> Result<Requirements, DeviceError>;
    /// Makes one over memory.
    ///
    /// # Safety
    ///
    /// As for [`Device::create_buffer`].
    unsafe fn create(
        device: &D,
        info: &Self::Info<'_>,
        memory: D::Memory,
        offset: u64,
    ) -> Result<Self::Handle, DeviceError>;
    /// Makes one together with memory for it alone.
    fn create_dedicated(
        device: &D,
        info: &Self::Info<'_>,
        memory: &MemoryDesc<'_, D::MemoryOptions>,
    ) -> Result<(D::Memory, Self::Handle), DeviceError>;
    /// Destroys one.
    ///
    /// # Safety
    ///
    /// As for [`Device::destroy_buffer`].
    unsafe fn destroy(device: &D, handle: Self::Handle);
    /// Tells the API's own tools what it is called.
    ///
    /// # Safety
    ///
    /// `handle` is live and from this device.
    unsafe fn name(device: &D, handle: &Self::Handle, name: &str);
}

/// Buffers, as a class.
#[derive(Debug)]
pub enum Buffers {}

impl<D: Device> Class<D> for Buffers {
    type Info<'a> = D::BufferInfo<'a>;
    type Handle = D::Buffer;

    fn kind(_: &D, _: &D::BufferInfo<'_>) -> ResourceKind {
        ResourceKind::Buffer
    }

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

/// Images, as a class.
#[derive(Debug)]
pub enum Images {}

impl<D: Device> Class<D> for Images {
    type Info<'a> = D::ImageInfo<'a>;
    type Handle = D::Image;

    fn kind(device: &D, info: &D::ImageInfo<'_>) -> ResourceKind {
        device.image_kind(info)
    }

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
    /// Makes a buffer with memory for it. Of `desc`, the requirements are replaced by the buffer's own, save that
    /// memory types that they rule out stay ruled out, and that the buffer stands at a multiple of their alignment too.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind.
    ///
    /// ```
    /// use allotment::device::BufferDesc;
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::Upload).with_name("vertices");
    /// let vertices = allocator.create_buffer(&BufferDesc::new(4096), &desc)?;
    /// allocator.write(vertices.allocation(), 0, &[7; 4096])?;
    /// allocator.destroy_buffer(vertices)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        desc: &AllocationDesc,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create::<Buffers>(info, desc, None)
    }

    /// Makes an image with memory for it. Of `desc`, the requirements and the kind are replaced by the
    /// image's own, save that memory types that they rule out stay ruled out, and that the image stands at a multiple of
    /// their alignment too.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither an image nor memory is left behind.
    ///
    /// ```
    /// use allotment::device::ImageDesc;
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::GpuOnly).with_name("albedo");
    /// // On the simulated device a format is its bytes a texel.
    /// let albedo = allocator.create_image(&ImageDesc::new(1024, 1024, 4), &desc)?;
    /// assert!(allocator.place(albedo.allocation())?.size >= 4 << 20);
    /// allocator.destroy_image(albedo)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        desc: &AllocationDesc,
    ) -> Result<Image<D>, ResourceError> {
        self.create::<Images>(info, desc, None)
    }

    /// Creates a buffer with memory for it from a custom pool, as [`create_buffer`](Self::create_buffer) does from the
    /// default pools. The pool's memory types are tried in its order; the memory usage has no say.
    ///
    /// Where the device requires that the buffer has dedicated memory, or `desc` asks for that, it is allocated together
    /// with the buffer, and counts as one of the pool's blocks.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind. [`AllocationError::DedicatedInFixedPool`] where the
    /// buffer is to have dedicated memory and the pool's blocks have a fixed size.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::device::{BufferDesc, MemoryTypeIndex};
    /// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let pool = allocator.create_pool(PoolDesc::new([MemoryTypeIndex(0)]))?;
    /// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::GpuOnly).with_name("particles");
    /// let particles = allocator.create_buffer_in_pool(&pool, &BufferDesc::new(4096), &desc)?;
    /// assert_eq!(allocator.pool_statistics(&pool)?.allocation_bytes, 4096);
    /// allocator.destroy_buffer(particles)?;
    /// allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_buffer_in_pool(
        &self,
        pool: &Pool,
        info: &D::BufferInfo<'_>,
        desc: &AllocationDesc,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create_in_pool::<Buffers>(pool, info, desc)
    }

    /// Creates an image with memory for it from a custom pool, as
    /// [`create_buffer_in_pool`](Self::create_buffer_in_pool) creates a buffer.
    ///
    /// # Errors
    ///
    /// As for [`create_buffer_in_pool`](Self::create_buffer_in_pool).
    pub fn create_image_in_pool(
        &self,
        pool: &Pool,
        info: &D::ImageInfo<'_>,
        desc: &AllocationDesc,
    ) -> Result<Image<D>, ResourceError> {
        self.create_in_pool::<Images>(pool, info, desc)
    }

    /// As [`create_buffer`](Self::create_buffer), in memory of its own that the API is told more about: who
    /// else may use it, where it comes from. Memory that comes from elsewhere may have one type only: say
    /// which in the requirements' memory types.
    ///
    /// # Errors
    ///
    /// As for [`create_buffer`](Self::create_buffer).
    pub fn create_buffer_with(
        &self,
        info: &D::BufferInfo<'_>,
        desc: &AllocationDesc,
        options: &D::MemoryOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create::<Buffers>(info, desc, Some(options))
    }

    /// As [`create_image`](Self::create_image), in memory of its own that the API is told more about.
    ///
    /// # Errors
    ///
    /// As for [`create_image`](Self::create_image).
    pub fn create_image_with(
        &self,
        info: &D::ImageInfo<'_>,
        desc: &AllocationDesc,
        options: &D::MemoryOptions,
    ) -> Result<Image<D>, ResourceError> {
        self.create::<Images>(info, desc, Some(options))
    }

    /// Allocates memory of its own that the API is told more about, with nothing in it yet.
    ///
    /// # Errors
    ///
    /// As for [`allocate`](Self::allocate).
    pub fn allocate_with(
        &self,
        desc: &AllocationDesc,
        options: &D::MemoryOptions,
    ) -> Result<Allocation, AllocationError> {
        let make = |memory: &MemoryDesc<'_, _>| self.device().allocate_memory(memory).map(|m| (m, ()));
        self.allocate_alone(desc, Some(options), false, make, |()| {}).map(|(allocation, ())| allocation)
    }

    /// As [`allocate_with`](Self::allocate_with), for one resource that is bound there later.
    #[cfg(feature = "vulkan")]
    pub(super) fn allocate_exclusive(
        &self,
        desc: &AllocationDesc,
        options: &D::MemoryOptions,
    ) -> Result<Allocation, AllocationError> {
        let make = |memory: &MemoryDesc<'_, _>| self.device().allocate_memory(memory).map(|m| (m, ()));
        self.allocate_alone(desc, Some(options), true, make, |()| {}).map(|(allocation, ())| allocation)
    }

    /// Makes a buffer over memory that other resources may stand in as well, `offset` bytes from its
    /// start. Destroy it with the device, and free the memory when nothing stands in it any more.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; no buffer was made. [`AccessError::DedicatedRequired`] where the device requires that the buffer has
    /// dedicated memory: [`create_buffer`](Self::create_buffer) allocates that.
    pub fn create_aliasing_buffer(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &D::BufferInfo<'_>,
    ) -> Result<D::Buffer, ResourceError> {
        self.create_in::<Buffers>(allocation, offset, info)
    }

    /// Makes an image over memory that other resources may stand in as well, `offset` bytes from its
    /// start. Destroy it with the device, and free the memory when nothing stands in it any more.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; no image was made. [`AccessError::DedicatedRequired`] where the device requires that the image has
    /// dedicated memory: [`create_image`](Self::create_image) allocates that.
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
        self.check_kind(allocation, C::kind(self.device(), info)).map_err(ResourceError::Access)?;
        let _held = self.hold(allocation).map_err(ResourceError::Access)?;
        self.bind::<C>(allocation, offset, info, &requirements)
    }

    /// Refuses to bring an optimal image and linear resources onto one page, where the device forbids that:
    /// an allocation keeps the distance only for the kind that it was made for.
    pub(super) fn check_kind(&self, allocation: &Allocation, kind: ResourceKind) -> Result<(), AccessError> {
        if self.device().properties().limits.buffer_image_granularity.get() == 1 {
            return Ok(());
        }
        let info = self.info(allocation.id())?;
        let alike = info.kind == ResourceKind::Unknown || info.kind.is_optimal() == kind.is_optimal();
        if alike || info.dedicated {
            return Ok(());
        }
        Err(AccessError::WrongKind { allocated: info.kind, wanted: kind })
    }

    /// Makes a resource over an allocation that the caller [holds](Self::hold).
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
        desc: &AllocationDesc,
        options: Option<&D::MemoryOptions>,
    ) -> Result<Resource<C::Handle>, ResourceError> {
        let (resource, movability) = self.create_pinned::<C>(info, desc, options)?;
        self.allow_moves(resource.allocation(), movability, false);
        Ok(resource)
    }

    /// Creates a resource that stays where it is until [`allow_moves`](Self::allow_moves) allows what is returned beside
    /// it: a pass that moved it before it is bound would free the memory that it is being bound to.
    pub(super) fn create_pinned<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        desc: &AllocationDesc,
        options: Option<&D::MemoryOptions>,
    ) -> Result<(Resource<C::Handle>, Movability), ResourceError> {
        let device = self.device();
        let requirements = C::requirements(device, info).map_err(ResourceError::Device)?;
        let mut movability = desc.movability;
        let kind = C::kind(device, info);
        let desc =
            &AllocationDesc { kind, movability: Movability::Pinned, ..desc.for_resource(requirements) };
        let (handle, allocation) = match self.dedicated_for_resource(desc, options.is_some()) {
            DedicatedForResource::No => self.create_placed::<C>(info, desc)?,
            DedicatedForResource::Preferred => match self.create_alone::<C>(info, desc, options) {
                // The driver would have liked it better so; it works otherwise too.
                Err(ResourceError::Allocation(_)) => self.create_placed::<C>(info, desc)?,
                made => made?,
            },
            DedicatedForResource::Required => {
                // What must be alone in its memory has no other place.
                movability = Movability::Pinned;
                self.create_alone::<C>(info, desc, options)?
            }
        };
        Ok((self.resource_of::<C>(handle, allocation, info, desc), movability))
    }

    /// A resource that was made just now.
    fn resource_of<C: Class<D>>(
        &self,
        handle: C::Handle,
        allocation: Allocation,
        info: &C::Info<'_>,
        desc: &AllocationDesc,
    ) -> Resource<C::Handle> {
        let device = self.device();
        if let Some(name) = &desc.name {
            // SAFETY: made just now.
            unsafe { C::name(device, &handle, name.as_str()) };
        }
        let size = C::size(device, info, &desc.requirements);
        Resource { handle, size, transfer_usage: C::transfer_usage(device, info), allocation }
    }

    fn create_in_pool<C: Class<D>>(
        &self,
        pool: &Pool,
        info: &C::Info<'_>,
        desc: &AllocationDesc,
    ) -> Result<Resource<C::Handle>, ResourceError> {
        let device = self.device();
        let requirements = C::requirements(device, info).map_err(ResourceError::Device)?;
        let mut movability = desc.movability;
        let kind = C::kind(device, info);
        let mut desc =
            AllocationDesc { kind, movability: Movability::Pinned, ..desc.for_resource(requirements) };
        let required =
            desc.dedicated == Dedicated::Automatic && requirements.dedicated == DedicatedNeed::Required;
        let (handle, allocation) = if required || desc.dedicated == Dedicated::Always {
            // What must be alone in its memory has no other place.
            (movability, desc.dedicated) = (Movability::Pinned, Dedicated::Always);
            self.create_alone_in_pool::<C>(pool, info, &desc)?
        } else {
            self.create_placed_in_pool::<C>(pool, info, &desc)?
        };
        let resource = self.resource_of::<C>(handle, allocation, info, &desc);
        self.allow_moves(resource.allocation(), movability, false);
        Ok(resource)
    }

    fn create_placed_in_pool<C: Class<D>>(
        &self,
        pool: &Pool,
        info: &C::Info<'_>,
        desc: &AllocationDesc,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let allocation = self.allocate_in(pool, desc).map_err(ResourceError::Allocation)?;
        let bind = || {
            // The pool is not reset before it knows that there is a resource.
            let _held = self.hold(&allocation).map_err(ResourceError::Access)?;
            let handle = self.bind::<C>(&allocation, 0, info, &desc.requirements)?;
            self.note_resource(&allocation);
            Ok(handle)
        };
        match bind() {
            Ok(handle) => Ok((handle, allocation)),
            Err(error) => {
                // Just allocated here, so it is not foreign.
                let _ = self.free(allocation);
                Err(error)
            }
        }
    }

    fn create_alone_in_pool<C: Class<D>>(
        &self,
        pool: &Pool,
        info: &C::Info<'_>,
        desc: &AllocationDesc,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let device = self.device();
        let make = |memory: &MemoryDesc<'_, _>| C::create_dedicated(device, info, memory);
        // SAFETY: made just now, and no queue has seen it.
        let unmake = |handle| unsafe { C::destroy(device, handle) };
        let made = self.by_pool_types(pool, desc, |set| {
            self.make_alone((pool.index, set), desc, None, true, make, unmake)
        });
        let (allocation, handle) = made.map_err(ResourceError::Allocation)?;
        // The pool may have been reset since.
        let noted = self.hold(&allocation).map(|_held| self.note_resource(&allocation));
        match noted {
            Ok(()) => Ok((handle, allocation)),
            Err(error) => {
                unmake(handle);
                Err(ResourceError::Access(error))
            }
        }
    }

    /// Lets the pool of an allocation that the caller [holds](Self::hold) know that there is a resource in it.
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
        desc: &AllocationDesc,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let allocation = self.allocate(desc).map_err(ResourceError::Allocation)?;
        match self.bind::<C>(&allocation, 0, info, &desc.requirements) {
            Ok(handle) => Ok((handle, allocation)),
            Err(error) => {
                // Just allocated here, so it is not foreign.
                let _ = self.free(allocation);
                Err(error)
            }
        }
    }

    fn create_alone<C: Class<D>>(
        &self,
        info: &C::Info<'_>,
        desc: &AllocationDesc,
        options: Option<&D::MemoryOptions>,
    ) -> Result<(C::Handle, Allocation), ResourceError> {
        let device = self.device();
        let make = |memory: &MemoryDesc<'_, _>| C::create_dedicated(device, info, memory);
        // SAFETY: made just now, and no queue has seen it.
        let unmake = |handle| unsafe { C::destroy(device, handle) };
        let made = self.allocate_alone(desc, options, true, make, unmake);
        made.map(|(allocation, handle)| (handle, allocation)).map_err(ResourceError::Allocation)
    }

    /// Gets memory that nobody else shares or inherits, together with what stands in it. Tries the memory
    /// types that suit in turn. `exclusive` says that it takes no other resource.
    fn allocate_alone<H>(
        &self,
        desc: &AllocationDesc,
        options: Option<&D::MemoryOptions>,
        exclusive: bool,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(Allocation, H), AllocationError> {
        // Said so that the pool ties the memory to its resource.
        let desc = &AllocationDesc { dedicated: Dedicated::Always, ..desc.clone() };
        self.by_ranking(desc, |memory_type, desc| {
            let pool = self.own_shard(self.default_pool_for(memory_type, desc));
            self.make_alone((pool, 0), desc, options, exclusive, &make, &unmake)
        })
    }

    /// The same from one memory type of one pool; where that is refused, once more in place of empty blocks.
    fn make_alone<H>(
        &self,
        from: (u32, usize),
        desc: &AllocationDesc,
        options: Option<&D::MemoryOptions>,
        exclusive: bool,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(Allocation, H), AllocationError> {
        let (pool, set) = from;
        if desc.new_blocks == NewBlocks::NeverAllocate {
            let requested = desc.requirements.size;
            return Err(AllocationError::WouldGrow {
                requested,
                free: 0,
                largest_free: 0,
                name: ShortName::NONE,
            });
        }
        let (getting, fitted, source) = self.begin_dedicated_block(pool, set, desc)?;
        let options = options.or(source.options.as_ref());
        let attempt = || self.get_alone(desc, &source, options, &make, &unmake);
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
            desc,
        );
        match (settled, handle) {
            (Ok(allocation), Some(handle)) => Ok((allocation, handle)),
            (Err(error), handle) => {
                handle.into_iter().for_each(unmake);
                Err(error)
            }
            (Ok(_), None) => unreachable!("what was not made is not settled"),
        }
    }

    /// Gets memory together with what stands in it from the driver.
    fn get_alone<H>(
        &self,
        desc: &AllocationDesc,
        source: &Source<D>,
        options: Option<&D::MemoryOptions>,
        make: impl Fn(&MemoryDesc<'_, D::MemoryOptions>) -> Result<(D::Memory, H), DeviceError>,
        unmake: impl Fn(H),
    ) -> Result<(OwnedMemory<D>, H), AllocationError> {
        let (device, size, memory_type) = (self.device(), desc.requirements.size, source.memory_type);
        let refused = |error| self.heaps.refused(device, memory_type, size, error);
        let memory = MemoryDesc::new(memory_type, size).with_priority(desc.priority).with_options(options);
        let charge = self.heaps.charge(device, memory_type, size, source.budget_policy)?;
        self.heaps.allocate_calls.fetch_add(1, Relaxed);
        let (raw, handle) = make(&memory).map_err(refused)?;
        // SAFETY: made just now, with this type and size, and known to nobody else.
        match unsafe { OwnedMemory::adopt(device, raw, &memory) } {
            Ok(memory) => {
                charge.keep();
                if let Some(name) = &desc.name {
                    // SAFETY: made just now, and nobody else can free it yet.
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
    /// [`Foreign`] when it is from another allocator; it comes back with the error.
    pub fn destroy_buffer(&self, buffer: Buffer<D>) -> Result<(), Foreign<Buffer<D>>> {
        self.destroy::<Buffers>(buffer)
    }

    /// Destroys an image and frees its memory. No queue may use it any more.
    ///
    /// # Errors
    ///
    /// [`Foreign`] when it is from another allocator; it comes back with the error.
    pub fn destroy_image(&self, image: Image<D>) -> Result<(), Foreign<Image<D>>> {
        self.destroy::<Images>(image)
    }

    fn destroy<C: Class<D>>(
        &self,
        resource: Resource<C::Handle>,
    ) -> Result<(), Foreign<Resource<C::Handle>>> {
        if !self.owns(&resource.allocation) {
            return Err(Foreign(resource));
        }
        let Resource { handle, allocation, .. } = resource;
        // SAFETY: from this device, as its token is from this allocator; the caller is done with it.
        unsafe { C::destroy(self.device(), handle) };
        // Known not to be foreign.
        let _ = self.free(allocation);
        Ok(())
    }
}
