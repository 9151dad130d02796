//! Owners that destroy resources and free memory when they are dropped: at once, or once the GPU is done.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use super::{Buffers, Class, Images, RawBuffer, RawImage, RawResource, ResourceError};
use crate::device::{Device, Requirements};
use crate::lifetime::{DeletionQueue, Owned};
use crate::memory::access::check_range;
use crate::memory::allocator::{Allocation, Allocator};
use crate::memory::{
    AccessError, AllocationError, AllocationInfo, AllocationOptions, MemoryLocation, Movability,
    WrongAllocator,
};

/// Buffers, images or plain memory: how an owner destroys its token.
pub trait Kind<D: Device> {
    /// The token of the allocator.
    type Token: fmt::Debug + Send;

    /// Returns the allocation of a token.
    fn allocation(token: &Self::Token) -> &Allocation;

    /// Destroys a token of this allocator.
    fn give_back(allocator: &Allocator<D>, token: Self::Token) -> Result<(), WrongAllocator<Self::Token>>;
}

impl<D: Device> Kind<D> for Buffers {
    type Token = RawBuffer<D>;

    fn allocation(token: &RawBuffer<D>) -> &Allocation {
        token.allocation()
    }

    fn give_back(allocator: &Allocator<D>, token: RawBuffer<D>) -> Result<(), WrongAllocator<RawBuffer<D>>> {
        allocator.destroy_buffer(token)
    }
}

impl<D: Device> Kind<D> for Images {
    type Token = RawImage<D>;

    fn allocation(token: &RawImage<D>) -> &Allocation {
        token.allocation()
    }

    fn give_back(allocator: &Allocator<D>, token: RawImage<D>) -> Result<(), WrongAllocator<RawImage<D>>> {
        allocator.destroy_image(token)
    }
}

/// Memory without a resource of the allocator.
#[derive(Debug)]
pub enum Memory {}

impl<D: Device> Kind<D> for Memory {
    type Token = Allocation;

    fn allocation(token: &Allocation) -> &Allocation {
        token
    }

    fn give_back(allocator: &Allocator<D>, token: Allocation) -> Result<(), WrongAllocator<Allocation>> {
        allocator.free(token)
    }
}

/// A token with its allocator, destroyed at once when dropped: for callers that know that the GPU is done with it, as
/// [`Owned`] does.
///
/// Defragmentation passes do not move it, whatever its options allow: a pass could free memory that the GPU
/// still reads for a dropped resource, and a resource that is bound to the old location would be in use.
/// [`MovableSet`](super::MovableSet) has owners that move.
pub struct Unique<D: Device, K: Kind<D>> {
    allocator: Arc<Allocator<D>>,
    /// A token of this allocator. `None` only after `into_inner` and while dropping.
    token: Option<K::Token>,
}

/// A buffer that is destroyed at once when dropped.
pub type UniqueBuffer<D> = Unique<D, Buffers>;
/// An image that is destroyed at once when dropped.
pub type UniqueImage<D> = Unique<D, Images>;
/// Memory that is freed at once when dropped.
pub type UniqueAllocation<D> = Unique<D, Memory>;

/// A buffer that is destroyed, and its memory freed, once it is dropped and the GPU is done with it.
pub type Buffer<D> = Owned<UniqueBuffer<D>>;
/// An image that is destroyed, and its memory freed, once it is dropped and the GPU is done with it.
pub type Image<D> = Owned<UniqueImage<D>>;
/// Memory that is freed once it is dropped and the GPU is done with it.
pub type OwnedAllocation<D> = Owned<UniqueAllocation<D>>;

impl<D: Device, K: Kind<D>> Unique<D, K> {
    /// Takes ownership of a token of `allocator`.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; the error returns it.
    pub fn new(allocator: &Arc<Allocator<D>>, token: K::Token) -> Result<Self, WrongAllocator<K::Token>> {
        if allocator.owns(K::allocation(&token)) {
            allocator.pin(K::allocation(&token));
            Ok(Self { allocator: Arc::clone(allocator), token: Some(token) })
        } else {
            Err(WrongAllocator(token))
        }
    }

    /// Returns the allocator of the token.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// Returns the token, which the caller destroys.
    #[must_use]
    pub fn into_inner(mut self) -> K::Token {
        match self.token.take() {
            Some(token) => token,
            None => unreachable!("only `into_inner` and `drop` take the token"),
        }
    }

    /// Replaces the handle of the token, whose allocation is in the new memory already. Returns the old handle with the
    /// old memory.
    pub(in crate::memory) fn replace_handle<H>(&mut self, handle: H, old: Allocation) -> RawResource<H>
    where
        K: Kind<D, Token = RawResource<H>>,
    {
        match &mut self.token {
            Some(token) => token.replace_handle(handle, old),
            None => unreachable!("only `into_inner` and `drop` take the token"),
        }
    }

    fn bytes(&self) -> u64 {
        self.allocator.location(K::allocation(self)).map_or(0, |place| place.size)
    }
}

impl<D: Device, K: Class<D> + Kind<D, Token = RawResource<<K as Class<D>>::Handle>>> Unique<D, K> {
    /// Returns everything that is known of the resource's memory: memory object, offset, size, mapped pointer, memory
    /// type, name, block. Locks the pool.
    #[must_use]
    pub fn info(&self) -> AllocationInfo<D> {
        match self.allocator.info(self.allocation()) {
            Ok(info) => info,
            // No token of a resource becomes stale: a pool with resources is not reset.
            Err(_) => unreachable!("memory lives as long as the resource that is bound to it"),
        }
    }

    /// Returns where the resource is. Takes no lock.
    #[must_use]
    pub fn location(&self) -> MemoryLocation<D> {
        match self.allocator.location(self.allocation()) {
            Ok(location) => location,
            Err(_) => unreachable!("memory lives as long as the resource that is bound to it"),
        }
    }
}

impl<D: Device> Unique<D, Buffers> {
    /// Copies `bytes` into the buffer from byte `offset` on, and makes them visible to the GPU. Writing bytes that the
    /// GPU reads at the same time gives wrong bytes, never undefined behaviour.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`]; [`AccessError::NotHostVisible`] where the CPU cannot reach the memory, which
    /// [`MemoryUsage::Upload`](super::MemoryUsage::Upload) rules out; or the driver refuses to flush. In the first two
    /// cases nothing was written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        check_range(offset, bytes.len() as u64, self.size())?;
        self.allocator.write(self.allocation(), offset, bytes)
    }

    /// Copies bytes out of the buffer from byte `offset` on, with what the GPU wrote. Slow in memory that is not
    /// cached: create buffers that are read with [`MemoryUsage::Readback`](super::MemoryUsage::Readback).
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write), where the driver may refuse to invalidate. `bytes` is unchanged then.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        check_range(offset, bytes.len() as u64, self.size())?;
        self.allocator.read(self.allocation(), offset, bytes)
    }
}

impl<D: Device, K: Kind<D>> Deref for Unique<D, K> {
    type Target = K::Token;

    fn deref(&self) -> &K::Token {
        match &self.token {
            Some(token) => token,
            None => unreachable!("only `into_inner` and `drop` take the token"),
        }
    }
}

impl<D: Device, K: Kind<D>> Drop for Unique<D, K> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            // `new` checked the allocator, so it cannot refuse.
            let _ = K::give_back(&self.allocator, token);
        }
    }
}

impl<D: Device, K: Kind<D>> fmt::Debug for Unique<D, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unique").field(&self.token).finish()
    }
}

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
/// let memory = OwningAllocator::new(&allocator, &deferred);
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

impl<D: Device> OwningAllocator<D> {
    /// Creates an allocator whose resources go through `deletion_queue` when they are dropped.
    #[must_use]
    pub fn new(allocator: &Arc<Allocator<D>>, deletion_queue: &DeletionQueue) -> Self {
        Self { allocator: Arc::clone(allocator), deletion_queue: deletion_queue.clone() }
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
    /// # Errors
    ///
    /// The errors of that call.
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create_pinned::<Buffers>(info, options).map(|(buffer, _)| buffer)
    }

    /// Creates an image as [`Allocator::create_image`] does. It is [never moved](Unique).
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        self.create_pinned::<Images>(info, options).map(|(image, _)| image)
    }

    /// Creates a resource that is pinned until [`Allocator::allow_moves`] sets the movability that is returned beside
    /// it.
    pub(in crate::memory) fn create_pinned<K>(
        &self,
        info: &K::Info<'_>,
        options: &AllocationOptions,
    ) -> Result<(Owned<Unique<D, K>>, Movability), ResourceError>
    where
        K: Class<D> + Kind<D, Token = RawResource<<K as Class<D>>::Handle>> + 'static,
    {
        let (resource, movability) = self.allocator.create_pinned::<K>(info, options, None)?;
        Ok((self.own_new::<K>(resource), movability))
    }

    /// Allocates memory as [`Allocator::allocate`] does. It is [never moved](Unique).
    ///
    /// # Errors
    ///
    /// The errors of that call.
    pub fn allocate(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<OwnedAllocation<D>, AllocationError> {
        let allocation = self.allocator.allocate(requirements, options)?;
        self.allocator.pin(&allocation);
        Ok(self.own_new::<Memory>(allocation))
    }

    /// Takes ownership of a buffer of the allocator. It is [never moved](Unique) from now on.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; the error returns it.
    pub fn own_buffer(&self, buffer: RawBuffer<D>) -> Result<Buffer<D>, WrongAllocator<RawBuffer<D>>> {
        Unique::new(&self.allocator, buffer).map(|unique| self.own(unique))
    }

    /// Takes ownership of an image of the allocator.
    ///
    /// # Errors
    ///
    /// The errors of [`own_buffer`](Self::own_buffer).
    pub fn own_image(&self, image: RawImage<D>) -> Result<Image<D>, WrongAllocator<RawImage<D>>> {
        Unique::new(&self.allocator, image).map(|unique| self.own(unique))
    }

    /// Takes ownership of memory of the allocator.
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
    pub(in crate::memory) fn retire<K: Kind<D> + 'static>(&self, token: K::Token) {
        drop(self.own_new::<K>(token));
    }

    /// Retires a resource that is given as handle and memory.
    pub(in crate::memory) fn retire_parts<K>(&self, handle: K::Handle, size: u64, memory: Allocation)
    where
        K: Class<D> + Kind<D, Token = RawResource<<K as Class<D>>::Handle>> + 'static,
    {
        self.retire::<K>(RawResource::of_parts(handle, size, memory));
    }

    fn own<K: Kind<D> + 'static>(&self, unique: Unique<D, K>) -> Owned<Unique<D, K>> {
        let bytes = unique.bytes();
        self.deletion_queue.own_sized(unique, bytes)
    }

    /// Takes ownership of a token that the allocator made just now.
    fn own_new<K: Kind<D> + 'static>(&self, token: K::Token) -> Owned<Unique<D, K>> {
        self.own(Unique { allocator: Arc::clone(&self.allocator), token: Some(token) })
    }
}
