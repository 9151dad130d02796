//! Resources and memory that retire by being dropped.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use super::allocator::{Allocation, Allocator};
use super::resource::{Buffers, Class, Images, RawBuffer, RawImage, RawResource, ResourceError};
use super::{AllocationError, AllocationOptions, Movability, WrongAllocator};
use crate::device::{Device, Requirements};
use crate::lifetime::{DeletionQueue, Owned};

/// What is held: how it is given back.
pub trait Kind<D: Device> {
    /// The token.
    type Token: fmt::Debug + Send;

    /// The allocation in it.
    fn allocation(token: &Self::Token) -> &Allocation;

    /// Gives a token of this allocator back.
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

/// Memory with nothing in it that is known here.
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

/// A token with its allocator, to which it is given back at once by being dropped: for who knows that the GPU is
/// done with it, as [`Owned`] does.
///
/// Defragmentation passes do not move it, whatever its allocation was allowed: they could free memory that the GPU
/// still reads for a resource that was dropped, and a resource that is bound to the old place would be in use.
/// [`MovableSet`](super::MovableSet) has owners that move.
pub struct Unique<D: Device, K: Kind<D>> {
    allocator: Arc<Allocator<D>>,
    /// Of this allocator. Taken when dropped.
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
    /// Holds a token of an allocator.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; it comes back with the error.
    pub fn new(allocator: &Arc<Allocator<D>>, token: K::Token) -> Result<Self, WrongAllocator<K::Token>> {
        if allocator.owns(K::allocation(&token)) {
            allocator.pin(K::allocation(&token));
            Ok(Self { allocator: Arc::clone(allocator), token: Some(token) })
        } else {
            Err(WrongAllocator(token))
        }
    }

    /// The allocator that it is from.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// The token, to be given back by hand.
    #[must_use]
    pub fn into_inner(mut self) -> K::Token {
        match self.token.take() {
            Some(token) => token,
            None => unreachable!("taken only by who consumes it"),
        }
    }

    /// Gives the token another handle, whose memory it already names. What it was comes back, with the memory that it
    /// was in.
    pub(super) fn replace_handle<H>(&mut self, handle: H, old: Allocation) -> RawResource<H>
    where
        K: Kind<D, Token = RawResource<H>>,
    {
        match &mut self.token {
            Some(token) => token.replace_handle(handle, old),
            None => unreachable!("taken only by who consumes it"),
        }
    }

    fn bytes(&self) -> u64 {
        self.allocator.location(K::allocation(self)).map_or(0, |place| place.size)
    }
}

impl<D: Device, K: Kind<D>> Deref for Unique<D, K> {
    type Target = K::Token;

    fn deref(&self) -> &K::Token {
        match &self.token {
            Some(token) => token,
            None => unreachable!("taken only by who consumes it"),
        }
    }
}

impl<D: Device, K: Kind<D>> Drop for Unique<D, K> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            // Known not to be foreign.
            let _ = K::give_back(&self.allocator, token);
        }
    }
}

impl<D: Device, K: Kind<D>> fmt::Debug for Unique<D, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unique").field(&self.token).finish()
    }
}

/// An allocator whose resources are dropped wherever one likes: they and their memory go when the GPU is done with
/// them. A clone is the same one.
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
/// drop(mesh); // the recording may use it
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
    /// What `allocator` makes, retired through `deletion_queue`.
    #[must_use]
    pub fn new(allocator: &Arc<Allocator<D>>, deletion_queue: &DeletionQueue) -> Self {
        Self { allocator: Arc::clone(allocator), deletion_queue: deletion_queue.clone() }
    }

    /// The allocator.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// Where resources wait for the GPU.
    #[must_use]
    pub fn deletion_queue(&self) -> &DeletionQueue {
        &self.deletion_queue
    }

    /// As [`Allocator::create_buffer`]. It [stays where it is](Unique).
    ///
    /// # Errors
    ///
    /// As for that.
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create_pinned::<Buffers>(info, options).map(|(buffer, _)| buffer)
    }

    /// As [`Allocator::create_image`]. It [stays where it is](Unique).
    ///
    /// # Errors
    ///
    /// As for that.
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        self.create_pinned::<Images>(info, options).map(|(image, _)| image)
    }

    /// Creates a resource that stays where it is until [`Allocator::allow_moves`] allows what is returned beside it.
    pub(super) fn create_pinned<K>(
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

    /// As [`Allocator::allocate`]. It [stays where it is](Unique).
    ///
    /// # Errors
    ///
    /// As for that.
    pub fn allocate(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<OwnedAllocation<D>, AllocationError> {
        let allocation = self.allocator.allocate(requirements, options)?;
        self.allocator.pin(&allocation);
        Ok(self.own_new::<Memory>(allocation))
    }

    /// Owns a buffer that the allocator made by other means. It [stays where it is](Unique) from now on.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; it comes back with the error.
    pub fn own_buffer(&self, buffer: RawBuffer<D>) -> Result<Buffer<D>, WrongAllocator<RawBuffer<D>>> {
        Unique::new(&self.allocator, buffer).map(|held| self.own(held))
    }

    /// Owns an image that the allocator made by other means.
    ///
    /// # Errors
    ///
    /// As for [`own_buffer`](Self::own_buffer).
    pub fn own_image(&self, image: RawImage<D>) -> Result<Image<D>, WrongAllocator<RawImage<D>>> {
        Unique::new(&self.allocator, image).map(|held| self.own(held))
    }

    /// Owns memory that the allocator got by other means.
    ///
    /// # Errors
    ///
    /// As for [`own_buffer`](Self::own_buffer).
    pub fn own_allocation(
        &self,
        allocation: Allocation,
    ) -> Result<OwnedAllocation<D>, WrongAllocator<Allocation>> {
        Unique::new(&self.allocator, allocation).map(|held| self.own(held))
    }

    /// Retires what is known to be of this allocator.
    pub(super) fn retire<K: Kind<D> + 'static>(&self, token: K::Token) {
        drop(self.own_new::<K>(token));
    }

    /// The same of a resource in parts.
    pub(super) fn retire_parts<K>(&self, handle: K::Handle, size: u64, memory: Allocation)
    where
        K: Class<D> + Kind<D, Token = RawResource<<K as Class<D>>::Handle>> + 'static,
    {
        self.retire::<K>(RawResource::of_parts(handle, size, memory));
    }

    fn own<K: Kind<D> + 'static>(&self, held: Unique<D, K>) -> Owned<Unique<D, K>> {
        let bytes = held.bytes();
        self.deletion_queue.own_sized(held, bytes)
    }

    /// Owns what the allocator made just now.
    fn own_new<K: Kind<D> + 'static>(&self, token: K::Token) -> Owned<Unique<D, K>> {
        self.own(Unique { allocator: Arc::clone(&self.allocator), token: Some(token) })
    }
}
