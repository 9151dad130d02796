//! Owners that destroy resources and free memory at once when they are dropped.

use core::fmt;
use core::ops::Deref;
use std::collections::vec_deque::Drain;
use std::sync::Arc;

use super::{BufferOrImage, Buffers, Images, RawBuffer, RawImage, RawResource};
use crate::device::{Device, MemoryTypeIndex};
use crate::lifetime::Owned;
use crate::memory::allocator::{Allocator, FreesTogether, check_range};
use crate::memory::mover::MoverId;
use crate::memory::token::Allocation;
use crate::memory::{AccessError, AllocationInfo, MemoryLocation, WrongAllocator};

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

/// Marks allocations: memory without a resource of the allocator.
#[derive(Debug)]
pub enum Allocations {}

impl<D: Device> Kind<D> for Allocations {
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
/// A [`Buffer`](super::Buffer) can be relocatable.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// use allotment::memory::Unique;
/// use allotment::memory::kinds::{Allocations, Buffers};
///
/// let raw = allocator.create_buffer(&BufferDesc::new(256), &MemoryUsage::Upload.with_name("staging"))?;
/// let staging = Unique::<_, Buffers>::new(&allocator, raw)?;
/// staging.write(0, &[7; 256])?;
/// drop(staging); // destroyed at once: no queue uses it
///
/// let raw = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("heap"))?;
/// let memory = Unique::<_, Allocations>::new(&allocator, raw)?;
/// println!("at byte {}", allocator.location(&memory)?.offset); // used like the token
/// drop(memory);
/// assert_eq!(allocator.statistics().allocations, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unique<D: Device, K: Kind<D>> {
    allocator: Arc<Allocator<D>>,
    /// A token of this allocator. `None` only after `into_inner` and while dropping.
    token: Option<K::Token>,
}

/// Memory that is freed once it is dropped and the GPU is done with it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::OwnedAllocation;
///
/// struct Heap<D: Device> {
///     memory: OwnedAllocation<D>, // no `Drop` of its own: it waits for the GPU by itself
/// }
/// let options = MemoryUsage::GpuOnly.with_name("heap of a tool");
/// let heap = Heap::<SimulatedGpu> { memory: gpu.memory().allocate(&Requirements::new(4096), &options)? };
/// assert_eq!(gpu.allocator().location(&heap.memory)?.size, 4096);
/// drop(heap);
/// assert_eq!(gpu.reclaim().count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OwnedAllocation<D> = Owned<Unique<D, Allocations>>;

impl<D: Device, K: Kind<D>> Unique<D, K> {
    /// Takes ownership of a token of `allocator`.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; the error returns it.
    pub fn new(allocator: &Arc<Allocator<D>>, token: K::Token) -> Result<Self, WrongAllocator<K::Token>> {
        if allocator.owns(K::allocation(&token)) {
            // A pass that moved it could free the old place before this owner is dropped, while a queue still reads
            // there.
            allocator.pin(K::allocation(&token));
            Ok(Self { allocator: Arc::clone(allocator), token: Some(token) })
        } else {
            Err(WrongAllocator(token))
        }
    }

    /// Takes ownership of a token that the allocator made just now.
    pub(super) fn of_own(allocator: &Arc<Allocator<D>>, token: K::Token) -> Self {
        Self { allocator: Arc::clone(allocator), token: Some(token) }
    }

    /// Returns the size in bytes of the memory that is freed with it.
    pub(super) fn bytes(&self) -> u64 {
        // Those of a placed resource are its memory's.
        if self.allocator.is_placed(K::allocation(self).id()) {
            return 0;
        }
        self.allocator.location(K::allocation(self)).map_or(0, |place| place.size)
    }

    /// Returns the allocator of the token.
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// Returns the token, which the caller destroys.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::{Unique, kinds::Images};
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("albedo");
    /// let image = Unique::<_, Images>::new(&allocator, allocator.create_image(&ImageDesc::new(64, 64, 4), &options)?)?;
    /// let raw = image.into_inner(); // now the caller destroys it
    /// allocator.destroy_image(raw)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_inner(mut self) -> K::Token {
        match self.token.take() {
            Some(token) => token,
            None => unreachable!("only `into_inner` and `drop` take the token"),
        }
    }

    /// Replaces the handle of the token, whose allocation is in the new memory already. Returns the old handle with the
    /// old memory.
    pub(super) fn replace_handle<H>(&mut self, handle: H, old: Allocation) -> RawResource<H>
    where
        K: Kind<D, Token = RawResource<H>>,
    {
        match &mut self.token {
            Some(token) => token.replace_handle(handle, old),
            None => unreachable!("only `into_inner` and `drop` take the token"),
        }
    }
}

impl<D: Device, K: BufferOrImage<D>> Unique<D, K> {
    /// Returns everything that is known of the resource's memory: memory object, offset, size, mapped pointer, memory
    /// type, name, block. Locks the pool.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::{Unique, kinds::Buffers};
    ///
    /// let raw = allocator.create_buffer(&BufferDesc::new(256), &MemoryUsage::Upload.with_name("staging"))?;
    /// let info = Unique::<_, Buffers>::new(&allocator, raw)?.info();
    /// println!("{} bytes in block {} of memory type {}", info.size, info.block, info.memory_type);
    /// assert_eq!(info.name.ok_or("named")?.as_str(), "staging");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Returns the memory type, and who may move the resource at present, if anyone does.
    pub(super) fn type_and_mover(&self) -> (MemoryTypeIndex, Option<MoverId>) {
        match self.allocator.type_and_mover(self.allocation()) {
            Ok(found) => found,
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
    /// [`MemoryUsage::Upload`](crate::MemoryUsage::Upload) rules out; or the driver refuses to flush. In the first two
    /// cases nothing was written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // By the buffer's own size, which that of its memory may exceed.
        self.check_range(offset, bytes.len())?;
        self.check_reachable()?;
        self.allocator.write(self.allocation(), offset, bytes)
    }

    /// Copies bytes out of the buffer from byte `offset` on, with what the GPU wrote. Slow in memory that is not
    /// cached: create buffers that are read with [`MemoryUsage::Readback`](crate::MemoryUsage::Readback).
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write), where the driver may refuse to invalidate. `bytes` is unchanged then.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        self.check_range(offset, bytes.len())?;
        self.check_reachable()?;
        self.allocator.read(self.allocation(), offset, bytes)
    }

    /// Returns the [device address](super::Buffer::device_address) of the buffer's first byte.
    ///
    /// # Errors
    ///
    /// [`AccessError::NoAddress`], with the reason.
    pub fn device_address(&self) -> Result<u64, AccessError> {
        let checked = self.check_address();
        checked.map_err(|error| error.of(self.allocator.name_of(self.allocation())))?;
        // SAFETY: the buffer is live, and its description was found to give it an address.
        Ok(unsafe { self.allocator.device().device_address(self.handle()) })
    }

    /// Refuses an access by the CPU to a reserved buffer, whose memory has no order.
    fn check_reachable(&self) -> Result<(), AccessError> {
        if !self.has_ranges() {
            return Ok(());
        }
        let info = self.info();
        let name = self.allocator.name_of(self.allocation());
        Err(AccessError::NotHostVisible { memory_type: info.memory_type, name })
    }

    fn check_range(&self, offset: u64, len: usize) -> Result<(), AccessError> {
        let checked = check_range(offset, len as u64, self.size());
        checked.map_err(|error| error.of(self.allocator.name_of(self.allocation())))
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
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            // `new` checked the allocator, so it cannot refuse.
            let _ = K::give_back(&self.allocator, token);
        }
    }
}

/// Destroys resources that are dropped together, in their order. Locks the pool of their memory once for some of them.
pub(super) fn destroy_together<D: Device, C: BufferOrImage<D>>(ready: &mut Drain<'_, Unique<D, C>>) {
    let mut frees: Option<FreesTogether<D>> = None;
    for mut unique in ready {
        let Some(token) = unique.token.take() else { continue };
        let allocator = &unique.allocator;
        let frees = match &mut frees {
            Some(frees) if Arc::ptr_eq(frees.allocator(), allocator) => frees,
            // Those of another one are freed first.
            frees => frees.insert(FreesTogether::new(allocator)),
        };
        allocator.destroy_among::<C>(token, frees);
    }
}

impl<D: Device, K: Kind<D>> fmt::Debug for Unique<D, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unique").field(&self.token).finish()
    }
}
