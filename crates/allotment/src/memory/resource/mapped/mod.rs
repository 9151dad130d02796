//! Buffers that the CPU writes and reads through a persistent mapping.
//!
//! Bytes are copied in and out, and no slice of them is handed out: a queue may use them at the same time, new memory
//! is not initialised, and much of such memory is write-combined, where a read takes hundreds of nanoseconds. So a
//! write is one copy in ascending order that reads nothing, and a caller that forgets to wait for a queue sees wrong
//! bytes, never undefined behaviour.
//!
//! # Cost
//!
//! A write is two comparisons and the copy. Where memory is not host-coherent, a driver call is added.

mod accept;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;

use super::{RawBuffer, ResourceError};
use crate::device::{Device, Mapped, MemoryProperties, MemoryTypeIndex, read_bytes, write_bytes};
use crate::memory::allocator::{Allocator, check_range};
use crate::memory::resource::relocation::Acceptor;
use crate::memory::token::{Allocation, AllocationId};
use crate::memory::{AccessError, AllocationOptions, Buffer, Movability};

/// A buffer that the CPU writes and reads through a persistent mapping. `Send + Sync`.
///
/// | created by | when dropped | place |
/// |---|---|---|
/// | [`new`](Self::new) | destroyed at once, so no queue may use it any more | stays |
/// | [`Gpu::create_mapped_buffer`](crate::Gpu::create_mapped_buffer) | destroyed once the GPU is done with it | stays |
/// | the same, with [`relocatable`](AllocationOptions::relocatable) | the same | moves when the owner [accepts](Self::accept_move) it |
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::BufferDesc;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::MappedBuffer;
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage};
///
/// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// let options = MemoryUsage::Upload.with_name("particles");
/// let particles = MappedBuffer::new(&allocator, &BufferDesc::new(4096), &options)?;
/// particles.write(100, &[1, 2, 3])?;
/// drop(particles);
/// assert_eq!(allocator.statistics().allocations, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MappedBuffer<D: Device> {
    allocator: Arc<Allocator<D>>,
    /// Live until this is dropped. No other owner frees or resets its memory, and only `accept_move` moves it: so the
    /// memory stays mapped, and `first` stays its address, for as long.
    owner: Owner<D>,
    first: Mapped,
    size: u64,
    memory_type: MemoryTypeIndex,
    /// True when the GPU sees writes without a flush.
    coherent: bool,
}

enum Owner<D: Device> {
    /// Destroyed at once.
    Unique(ManuallyDrop<RawBuffer<D>>),
    /// Destroyed once the GPU is done with it.
    Deferred { handle: D::Buffer, buffer: Arc<Buffer<D>> },
    /// The same, and moved when the owner accepts it.
    Relocatable { handle: D::Buffer, acceptor: Acceptor<D> },
}

impl<D: Device> MappedBuffer<D> {
    /// Creates a buffer with memory for it, as [`Allocator::create_buffer`] does. Beside what `options` say,
    /// host-visible memory is required, and the buffer is never moved.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::MappedBuffer;
    ///
    /// // Whatever the usage, the memory is mapped: here in the CPU's own heap.
    /// let lights = MappedBuffer::new(&allocator, &BufferDesc::new(1024), &MemoryUsage::DeviceUpload.into())?;
    /// println!("{:?} in memory type {}", lights.handle(), lights.memory_type());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a buffer nor memory is left behind.
    #[inline(never)]
    #[track_caller]
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Self, ResourceError> {
        let options = Self::mapped(options).with_movability(Movability::Pinned);
        let raw = allocator.create_buffer(info, &options)?;
        let size = raw.size();
        match allocator.mapped_place(raw.allocation()) {
            Ok((first, memory_type)) => {
                // Looked up once: rings and arenas write a few bytes at a time, and ask this at each write.
                let coherent = !allocator.pools.needs_flush(memory_type);
                let (allocator, owner) = (Arc::clone(allocator), Owner::Unique(ManuallyDrop::new(raw)));
                Ok(Self { allocator, owner, first, size, memory_type, coherent })
            }
            Err(error) => {
                // Created just now by this allocator, so it cannot refuse.
                let _ = allocator.destroy_buffer(raw);
                Err(ResourceError::Access(error))
            }
        }
    }

    /// Adds to the options what a mapped buffer needs.
    pub(super) fn mapped(options: &AllocationOptions) -> AllocationOptions {
        let mut options = options.clone();
        // Required, not preferred: without an address there is nothing that this type could offer.
        options.required |= MemoryProperties::HOST_VISIBLE;
        options
    }

    /// Takes a pinned buffer that is destroyed once the GPU is done with it.
    pub(super) fn deferred(allocator: &Arc<Allocator<D>>, buffer: Buffer<D>) -> Result<Self, ResourceError> {
        let owner = Owner::Deferred { handle: buffer.handle(), buffer: Arc::new(buffer) };
        Self::owned(allocator, owner)
    }

    /// Takes a buffer whose moves are accepted.
    pub(super) fn relocatable(
        allocator: &Arc<Allocator<D>>,
        acceptor: Acceptor<D>,
    ) -> Result<Self, ResourceError> {
        Self::owned(allocator, Owner::Relocatable { handle: acceptor.buffer().handle(), acceptor })
    }

    fn owned(allocator: &Arc<Allocator<D>>, owner: Owner<D>) -> Result<Self, ResourceError> {
        let (place, size) =
            owner.with_allocation(|allocation, size| (allocator.mapped_place(allocation), size));
        let (first, memory_type) = place.map_err(ResourceError::Access)?;
        let coherent = !allocator.pools.needs_flush(memory_type);
        Ok(Self { allocator: Arc::clone(allocator), owner, first, size, memory_type, coherent })
    }

    /// Returns the API's handle, for recording, as that of a [`Buffer`]. Never destroy it. That of a relocatable buffer is
    /// valid until [`accept_move`](Self::accept_move) has returned [`Moved`](crate::memory::AcceptedMove::Moved).
    #[must_use]
    pub fn handle(&self) -> D::Buffer {
        self.handle_ref().clone()
    }

    /// Returns the same, for as long as the buffer is borrowed.
    pub(crate) fn handle_ref(&self) -> &D::Buffer {
        match &self.owner {
            Owner::Unique(raw) => raw.handle(),
            Owner::Deferred { handle, .. } | Owner::Relocatable { handle, .. } => handle,
        }
    }

    /// Returns the [device address](Buffer::device_address) of the first byte, which is valid as long as the
    /// [handle](Self::handle).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let instances = gpu.create_mapped_buffer(&BufferDesc::new(4096), &MemoryUsage::Upload.with_name("instances"))?;
    /// println!("the GPU reads what the CPU writes at {:#x}", instances.device_address()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::NoAddress`], with the reason.
    pub fn device_address(&self) -> Result<u64, AccessError> {
        match &self.owner {
            Owner::Unique(raw) => {
                let checked = raw.check_address();
                checked.map_err(|error| error.of(self.allocator.name_of(raw.allocation())))?;
                // SAFETY: the buffer is live, and its description was found to give it an address.
                Ok(unsafe { self.allocator.device().device_address(raw.handle()) })
            }
            Owner::Deferred { buffer, .. } => buffer.device_address(),
            Owner::Relocatable { acceptor, .. } => acceptor.buffer().device_address(),
        }
    }

    /// Returns the buffer for calls that take a [`Buffer`], such as
    /// [`BindingSet::bind_buffer`](crate::descriptor::BindingSet::bind_buffer), whose descriptors follow its moves. `None`
    /// for a buffer that is [destroyed at once](Self::new).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::Upload.with_name("lights").relocatable();
    /// let lights = gpu.create_mapped_buffer(&BufferDesc::new(1024), &options)?;
    /// lights.write(0, &[7; 16])?;
    /// let mut bytes = [0; 16];
    /// gpu.read_buffer(lights.buffer().ok_or("of a Gpu")?, 0, &mut bytes)?;
    /// assert_eq!(bytes, [7; 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn buffer(&self) -> Option<&Arc<Buffer<D>>> {
        match &self.owner {
            Owner::Unique(_) => None,
            Owner::Deferred { buffer, .. } => Some(buffer),
            Owner::Relocatable { acceptor, .. } => Some(acceptor.buffer()),
        }
    }

    /// Returns the size in bytes, as the buffer was described.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the id of the memory, which a move does not change.
    pub fn id(&self) -> AllocationId {
        self.owner.with_allocation(|allocation, _| allocation.id())
    }

    /// Returns the memory type.
    pub fn memory_type(&self) -> MemoryTypeIndex {
        self.memory_type
    }

    /// Returns the address of the first byte, which is valid as long as this lives, or until
    /// [`accept_move`](Self::accept_move) has returned [`Moved`](crate::memory::AcceptedMove::Moved). For code that writes
    /// there by itself, such as descriptor heaps: such writes are not flushed, and no slice may be made of the bytes, since a
    /// queue may use them at the same time. Where the memory is not [coherent](Self::is_coherent), flush them before a move is
    /// accepted; what is not flushed may be lost. While a move is accepted, no thread may write there.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::MappedBuffer;
    ///
    /// let ring = MappedBuffer::new(&allocator, &BufferDesc::new(1024), &MemoryUsage::Upload.into())?;
    /// assert!(ring.is_coherent(), "so it needs no flush");
    /// // SAFETY: 1,024 bytes are mapped from there on, and no queue reads them yet.
    /// unsafe { ring.address().as_ptr().write_bytes(0, 1024) };
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn address(&self) -> NonNull<u8> {
        self.first.0
    }

    /// Returns whether the GPU sees writes without a flush, which is one driver call per write.
    pub fn is_coherent(&self) -> bool {
        self.coherent
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        &self.allocator
    }

    /// Copies `bytes` into the buffer from byte `offset` on, and makes them visible to the GPU.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::{AccessError, MappedBuffer};
    ///
    /// let particles = MappedBuffer::new(&allocator, &BufferDesc::new(1024), &MemoryUsage::Upload.into())?;
    /// particles.write(1000, &[7; 24])?;
    /// assert!(matches!(particles.write(1001, &[7; 24]), Err(AccessError::OutOfRange { available: 1024, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`], and nothing was written; or the driver refuses to flush.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (at, range) = self.within(offset, bytes.len())?;
        // SAFETY: the range lies in the buffer, whose memory is mapped as long as `self` lives.
        unsafe { write_bytes(at, bytes) };
        // Coherent memory needs no flush, so the usual write reads no record and takes no lock.
        if self.coherent {
            Ok(())
        } else {
            self.owner.with_allocation(|it, _| self.allocator.flush(it, range))
        }
    }

    /// Calls `work` with `len` bytes of the buffer from byte `offset` on, and makes what it writes visible to the GPU.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write); or `work` was called, and the driver refuses to flush.
    ///
    /// # Safety
    ///
    /// Neither the GPU nor another thread accesses these bytes during the call.
    pub(crate) unsafe fn write_in_place<T>(
        &self,
        offset: u64,
        len: usize,
        work: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, AccessError> {
        let (at, range) = self.within(offset, len)?;
        // SAFETY: the range lies in the buffer, whose memory is mapped as long as `self` lives and has bytes of some value;
        // nothing else accesses it, as the caller promises.
        let done = work(unsafe { core::slice::from_raw_parts_mut(at.as_ptr(), len) });
        if !self.coherent {
            self.owner.with_allocation(|it, _| self.allocator.flush(it, range))?;
        }
        Ok(done)
    }

    /// Copies bytes out of the buffer from byte `offset` on, with what the GPU wrote. Slow in memory that is not
    /// cached: create buffers that are read with [`MemoryUsage::Readback`](crate::MemoryUsage::Readback).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = std::sync::Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// use allotment::memory::MappedBuffer;
    ///
    /// let counters = MappedBuffer::new(&allocator, &BufferDesc::new(16), &MemoryUsage::Readback.into())?;
    /// let mut second = [0; 4];
    /// counters.read(4, &mut second)?; // once the GPU has written it
    /// println!("{}", u32::from_ne_bytes(second));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfRange`], or the driver refuses to invalidate. `bytes` is unchanged then.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        let (at, range) = self.within(offset, bytes.len())?;
        if !self.coherent {
            self.owner.with_allocation(|it, _| self.allocator.invalidate(it, range))?;
        }
        // SAFETY: the range lies in the buffer, whose memory is mapped as long as `self` lives.
        unsafe { read_bytes(at, bytes) };
        Ok(())
    }

    /// Adds the buffer's name.
    #[cold]
    fn named(&self, error: AccessError) -> AccessError {
        error.of(self.owner.with_allocation(|it, _| self.allocator.name_of(it)))
    }

    /// Returns the address of a range of the buffer, and the range.
    #[inline]
    fn within(&self, offset: u64, len: usize) -> Result<(NonNull<u8>, Range<u64>), AccessError> {
        let len = len as u64;
        check_range(offset, len, self.size).map_err(|error| self.named(error))?;
        // SAFETY: `offset` is not beyond the end of the buffer, all of which is mapped.
        let at = unsafe { self.first.0.add(offset as usize) };
        Ok((at, offset..offset + len))
    }
}

impl<D: Device> Owner<D> {
    /// Calls `work` with the memory and the size. The lock of a relocatable buffer is held meanwhile.
    fn with_allocation<T>(&self, work: impl FnOnce(&Allocation, u64) -> T) -> T {
        match self {
            Self::Unique(raw) => work(raw.allocation(), raw.size()),
            Self::Deferred { buffer, .. } => buffer.with_owned(|raw, _| work(raw.allocation(), raw.size())),
            Self::Relocatable { acceptor, .. } => {
                acceptor.buffer().with_owned(|raw, _| work(raw.allocation(), raw.size()))
            }
        }
    }
}

impl<D: Device> Allocator<D> {
    /// Returns the address of an allocation, and its memory type.
    fn mapped_place(&self, allocation: &Allocation) -> Result<(Mapped, MemoryTypeIndex), AccessError> {
        let (place, _held) = self.hold(allocation)?;
        Ok((Mapped(self.reach(&place)?), place.memory_type()))
    }
}

impl<D: Device> Drop for MappedBuffer<D> {
    #[inline(never)]
    fn drop(&mut self) {
        if let Owner::Unique(raw) = &mut self.owner {
            // SAFETY: not used after this.
            let raw = unsafe { ManuallyDrop::take(raw) };
            // Created by this allocator, so it cannot refuse.
            let _ = self.allocator.destroy_buffer(raw);
        }
    }
}

impl<D: Device> fmt::Debug for MappedBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (handle, size) = (self.handle_ref(), self.size());
        f.debug_struct("MappedBuffer").field("handle", handle).field("size", &size).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::device::{
        BufferCopy, BufferDesc, DeviceError, QueueDevice as _, QueueIndex, Submission, TimelinePoint,
    };
    use crate::{AllocatorDesc, MemoryUsage};

    fn allocator(profile: &str) -> (SimulatedGpu, Arc<Allocator<SimulatedGpu>>) {
        let device = SimulatedGpu::new(Profile::named(profile).unwrap());
        let allocator = Allocator::new(device.clone(), AllocatorDesc::default()).unwrap();
        (device, Arc::new(allocator))
    }

    fn buffer(
        allocator: &Arc<Allocator<SimulatedGpu>>,
        size: u64,
        memory_usage: MemoryUsage,
    ) -> MappedBuffer<SimulatedGpu> {
        let desc = AllocationOptions::new(memory_usage);
        MappedBuffer::new(allocator, &BufferDesc::new(size), &desc).unwrap()
    }

    #[test]
    fn bytes_arrive_through_a_queue_on_every_machine_coherent_or_not() {
        for profile in Profile::all() {
            let (device, allocator) = allocator(profile.name);
            // Something before them, so that neither begins at an atom.
            let before = buffer(&allocator, 13, MemoryUsage::Upload);
            let up = buffer(&allocator, 10_000, MemoryUsage::Upload);
            let down = buffer(&allocator, 10_000, MemoryUsage::Readback);
            let bytes: Vec<u8> = (0..2001).map(|i| (i % 251) as u8).collect();
            up.write(777, &bytes[..70]).unwrap();
            up.write(777 + 70, &bytes[70..]).unwrap();
            let size = bytes.len() as u64;
            let copy =
                BufferCopy { from: &up.handle(), from_offset: 777, to: &down.handle(), to_offset: 5, size };
            let queue = QueueIndex(0);
            let submission = Submission { copies: &[copy], ..Submission::default() };
            // SAFETY: the ranges lie in the buffers, which live until the wait is over.
            let value = unsafe { device.submit(queue, &submission) }.unwrap();
            let waited = device.wait(TimelinePoint { queue, value }, Duration::from_secs(10));
            assert_eq!(waited, Ok(()));
            let mut back = vec![0; bytes.len()];
            down.read(5, &mut back).unwrap();
            assert_eq!(back, bytes, "{}", profile.name);
            let properties = profile.memory_types[down.memory_type().get()].properties;
            assert_eq!(down.is_coherent(), properties.contains(MemoryProperties::HOST_COHERENT));
            drop((before, up, down));
            assert_eq!(allocator.statistics().allocations, 0);
            assert_eq!(device.validation_errors(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_range_beyond_the_buffer_is_refused_though_its_memory_has_more() {
        let (_, allocator) = allocator("integrated");
        let buffer = buffer(&allocator, 1000, MemoryUsage::Upload);
        for (offset, size) in [(1000, 1), (999, 2), (1001, 0), (u64::MAX, 1)] {
            let refused = Err(AccessError::OutOfRange {
                offset,
                size,
                available: 1000,
                name: crate::memory::ShortName::NONE,
            });
            assert_eq!(buffer.write(offset, &vec![0; size as usize]), refused);
            assert_eq!(buffer.read(offset, &mut vec![0; size as usize]), refused);
        }
        assert_eq!(buffer.write(1000, &[]), Ok(()));
    }

    #[test]
    fn memory_that_the_cpu_cannot_reach_is_not_taken_whatever_the_intent() {
        for profile in ["discrete-no-bar", "discrete-large-bar", "mobile"] {
            for memory_usage in
                [MemoryUsage::Upload, MemoryUsage::Readback, MemoryUsage::DeviceUpload, MemoryUsage::GpuOnly]
            {
                let (_, allocator) = allocator(profile);
                buffer(&allocator, 100, memory_usage).write(0, &[1; 100]).unwrap();
            }
        }
        let (_, allocator) = allocator("discrete-no-bar");
        let mut desc = AllocationOptions::new(MemoryUsage::Upload);
        desc.memory_types = crate::device::MemoryTypeMask(1);
        let refused = MappedBuffer::new(&allocator, &BufferDesc::new(64), &desc);
        assert!(matches!(refused, Err(ResourceError::Allocation(_))), "{refused:?}");
        assert_eq!(allocator.statistics().allocations, 0);
    }

    #[test]
    fn what_fails_leaves_nothing_behind() {
        for k in 1..6 {
            let (device, allocator) = allocator("mobile");
            device.fail_call(k, DeviceError::OutOfDeviceMemory);
            let desc = AllocationOptions::new(MemoryUsage::Upload);
            drop(MappedBuffer::new(&allocator, &BufferDesc::new(64), &desc));
            device.clear_faults();
            assert_eq!((allocator.statistics().allocations, device.usage().buffers), (0, 0));
            drop(allocator);
            assert_eq!(device.usage().memory_objects, 0);
            assert_eq!(device.validation_errors(), Vec::<String>::new());
        }
    }
}
