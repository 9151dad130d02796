//! The allocator together with a deletion queue: resources that may be dropped at any time.

use core::any::TypeId;
use std::sync::Arc;

use super::create::New;
use super::expandable::AddressRange;
use super::pieces::PieceRange;
use super::placed::Kept;
use super::unique::destroy_together;
use super::{
    Allocations, Buffer, BufferOrImage, Buffers, Image, Images, Kind, MappedBuffer, OwnedAllocation,
    RawBuffer, RawImage, RawResource, Resource, ResourceError, Unique,
};
use crate::device::{Device, Requirements};
use crate::lifetime::{DeletionQueue, Owned, WrongDevice};
use crate::memory::allocator::{Allocator, TypesOfResources, make_known};
use crate::memory::request::{AllocationRequest, Moves};
use crate::memory::token::Allocation;
use crate::memory::{AllocationError, AllocationOptions, WrongAllocator};

/// An allocator whose resources may be dropped at any time: they are destroyed, and their memory is freed, once the GPU
/// is done with them. Clones share the allocator and the deletion queue.
///
/// ```
/// use std::sync::Arc;
/// use allotment::device::BufferDesc;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::lifetime::{DeletionQueue, SubmissionTracker};
/// use allotment::memory::OwningAllocator;
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let deferred = DeletionQueue::new(&tracker);
/// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// let memory = OwningAllocator::new(&allocator, &deferred)?;
///
/// let options = MemoryUsage::GpuOnly.with_name("mesh");
/// let mesh = memory.create_buffer(&BufferDesc::new(65536), &options)?;
/// let recording = tracker.record("a frame");
/// drop(mesh); // the open recording may use it
/// assert_eq!((deferred.statistics().pending, deferred.statistics().bytes), (1, 65536));
/// drop(recording);
/// deferred.reclaim();
/// assert_eq!(allocator.statistics().allocation_bytes, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OwningAllocator<D: Device> {
    allocator: Arc<Allocator<D>>,
    deletion_queue: DeletionQueue,
}

// Not derived, since it is cloned whether or not the device can be.
impl<D: Device> Clone for OwningAllocator<D> {
    fn clone(&self) -> Self {
        Self { allocator: Arc::clone(&self.allocator), deletion_queue: self.deletion_queue.clone() }
    }
}

fn types_of_resources<D: Device>() -> TypesOfResources {
    [
        TypeId::of::<Unique<D, Buffers>>(),
        TypeId::of::<Unique<D, Images>>(),
        TypeId::of::<Unique<D, Allocations>>(),
        TypeId::of::<Arc<Kept<D>>>(),
        TypeId::of::<PieceRange<D>>(),
        TypeId::of::<AddressRange<D>>(),
    ]
}

impl<D: Device> OwningAllocator<D> {
    /// Creates an allocator whose resources go through `deletion_queue` when they are dropped. Before the allocator
    /// allocates more memory from the driver, it destroys those that the GPU has finished with.
    ///
    /// # Errors
    ///
    /// [`WrongDevice`] if the queue's tracker tracks another device than the allocator's.
    pub fn new(allocator: &Arc<Allocator<D>>, deletion_queue: &DeletionQueue) -> Result<Self, WrongDevice> {
        deletion_queue.tracker().check_device(allocator.device())?;
        allocator.reclaimable.add(deletion_queue, types_of_resources::<D>());
        deletion_queue.drop_together(destroy_together::<D, Buffers>);
        deletion_queue.drop_together(destroy_together::<D, Images>);
        make_known(allocator);
        Ok(Self { allocator: Arc::clone(allocator), deletion_queue: deletion_queue.clone() })
    }

    /// Returns the allocator.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// Returns the queue in which dropped resources wait for the GPU.
    #[must_use]
    pub fn deletion_queue(&self) -> &DeletionQueue {
        &self.deletion_queue
    }

    /// Creates a buffer as [`Allocator::create_buffer`] does. It is [never moved](Unique).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let memory = gpu.memory().clone(); // for a layer that creates resources, and knows no `Gpu`
    /// let mesh = memory.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// drop(mesh);
    /// assert_eq!(memory.deletion_queue().reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of that call.
    #[inline(never)]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create::<Buffers>(info, options)
    }

    /// Creates a persistently mapped buffer. It is [never moved](Unique).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::Upload.with_name("lights");
    /// let lights = gpu.memory().create_mapped_buffer(&BufferDesc::new(1024), &options)?;
    /// lights.write(0, &[7; 16])?;
    /// drop(lights); // destroyed after the GPU's last use
    /// assert_eq!(gpu.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`MappedBuffer::new`].
    #[inline(never)]
    #[track_caller]
    pub fn create_mapped_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<MappedBuffer<D>, ResourceError> {
        let buffer = self.create_buffer(info, &MappedBuffer::<D>::mapped(options))?;
        MappedBuffer::deferred(&self.allocator, buffer)
    }

    /// Creates an image as [`Allocator::create_image`] does. It is [never moved](Unique).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("albedo");
    /// let albedo = gpu.memory().create_image(&ImageDesc::new(64, 64, 4), &options)?;
    /// println!("{:?}, {} bytes", albedo.handle(), albedo.size());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of that call.
    #[inline(never)]
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        self.create::<Images>(info, options)
    }

    #[track_caller]
    pub(super) fn create<C: BufferOrImage<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
    ) -> Result<Resource<D, C>, ResourceError> {
        // Whether it may be moved in the end is dropped: only a `Defragmenter` could create the resource again in another
        // place.
        let moves = Moves::once_bound(options.mover(), options.movability);
        self.create_new::<C>(info, options, moves).map(|(resource, _)| Resource::pinned(resource))
    }

    /// Creates a resource whose allocation may be moved as `moves` says for the beginning.
    #[track_caller]
    pub(super) fn create_new<K>(
        &self,
        info: &K::Info<'_>,
        options: &AllocationOptions,
        moves: Moves,
    ) -> Result<(Owned<Unique<D, K>>, Moves), ResourceError>
    where
        K: BufferOrImage<D>,
    {
        let New { resource, moves, bytes } = self.allocator.create_new::<K>(info, options, moves, None)?;
        Ok((self.own_new::<K>(resource, bytes), moves))
    }

    /// Creates a resource where room was made for it.
    #[track_caller]
    pub(super) fn create_in_room<K>(
        &self,
        info: &K::Info<'_>,
        options: &AllocationOptions,
        moves: Moves,
        room: impl FnOnce(&AllocationRequest<'_>) -> Result<Allocation, ResourceError>,
    ) -> Result<(Owned<Unique<D, K>>, Moves), ResourceError>
    where
        K: BufferOrImage<D>,
    {
        let New { resource, moves, bytes } =
            self.allocator.create_in_room::<K>(info, options, moves, room)?;
        Ok((self.own_new::<K>(resource, bytes), moves))
    }

    /// Allocates memory as [`Allocator::allocate`] does, for resources that the program creates and destroys by itself. It is
    /// [never moved](Unique). [`allocate_memory`](Self::allocate_memory) is for resources with an owner.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let memory = gpu.memory().allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("heap"))?;
    /// let buffer = gpu.allocator().create_aliasing_buffer(&memory, 0, &BufferDesc::new(4096))?;
    /// // SAFETY: it is of this device, and no queue uses it.
    /// unsafe { gpu.device().destroy_buffer(buffer) };
    /// drop(memory); // freed once no recording that is open now can use it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of that call.
    #[inline(never)]
    #[track_caller]
    pub fn allocate(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<OwnedAllocation<D>, AllocationError> {
        let allocation = self.allocator.allocate(requirements, options)?;
        // A pass that moved it could free the old place while a queue still reads there.
        self.allocator.pin(&allocation);
        Ok(self.own_new::<Allocations>(allocation, requirements.size))
    }

    /// Takes ownership of a buffer of the allocator. It is [never moved](Unique) from now on.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let raw = gpu.allocator().create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let mesh = gpu.memory().own_buffer(raw)?; // nothing to destroy by hand any more
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 256])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; the error returns it.
    pub fn own_buffer(&self, buffer: RawBuffer<D>) -> Result<Buffer<D>, WrongAllocator<RawBuffer<D>>> {
        Unique::new(&self.allocator, buffer).map(|unique| Resource::pinned(self.own(unique)))
    }

    /// Takes ownership of an image of the allocator. Its [state](Image::state) is not known, since it may have been used: say
    /// it with [`Image::set_state`], or let an upload write whole mip levels.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("shared with a compositor");
    /// let raw = gpu.allocator().with_memory_options(&()).create_image(&ImageDesc::new(640, 480, 4), &options)?;
    /// let picture = gpu.memory().own_image(raw)?; // destroyed after the GPU's last use
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`own_buffer`](Self::own_buffer).
    pub fn own_image(&self, image: RawImage<D>) -> Result<Image<D>, WrongAllocator<RawImage<D>>> {
        let owned = Unique::new(&self.allocator, image)?;
        let image = Resource::pinned(self.own(owned));
        image.forget_state();
        Ok(image)
    }

    /// Takes ownership of memory of the allocator.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let raw = gpu.allocator().allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("heap"))?;
    /// let recording = gpu.record("uses it");
    /// drop(gpu.memory().own_allocation(raw)?); // freed by the deletion queue instead of `Allocator::free`
    /// assert_eq!(gpu.deletion_queue().statistics().pending, 1);
    /// # drop(recording);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`own_buffer`](Self::own_buffer).
    pub fn own_allocation(
        &self,
        allocation: Allocation,
    ) -> Result<OwnedAllocation<D>, WrongAllocator<Allocation>> {
        Unique::new(&self.allocator, allocation).map(|unique| self.own(unique))
    }

    /// Retires a token of this allocator.
    pub(super) fn retire<K: Kind<D> + 'static>(&self, token: K::Token) {
        // Through an owner, so that it waits in the queue of its type, in order with all others.
        drop(self.own(Unique::<D, K>::of_own(&self.allocator, token)));
    }

    /// Retires a resource that is given as handle and memory.
    pub(super) fn retire_parts<K>(&self, handle: K::Handle, size: u64, memory: Allocation)
    where
        K: BufferOrImage<D>,
    {
        self.retire::<K>(RawResource::of_parts(handle, size, memory));
    }

    fn own<K: Kind<D> + 'static>(&self, unique: Unique<D, K>) -> Owned<Unique<D, K>> {
        let bytes = unique.bytes();
        self.deletion_queue.own_sized(unique, bytes)
    }

    /// Takes ownership of a token that the allocator made just now, with so many bytes of memory.
    pub(super) fn own_new<K: Kind<D> + 'static>(&self, token: K::Token, bytes: u64) -> Owned<Unique<D, K>> {
        self.deletion_queue.own_sized(Unique::of_own(&self.allocator, token), bytes)
    }
}
