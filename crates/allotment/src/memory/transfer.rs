//! Bytes in and out of any allocation, at once: for tools, tests and start-up code that can wait.
//!
//! Memory that the CPU can reach is written and read directly; other memory through two staging buffers
//! and a queue, chunk by chunk, waiting for each. It is the simplest thing that is right, not the fastest.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::access::{check_place, check_range};
use super::allocator::{Allocation, Allocator};
use super::record::RawPlace;
use super::resource::{RawBuffer, ResourceError, check_usage};
use super::{AccessError, Dedicated, MemoryUsage};
use crate::device::{
    BufferCopy, BufferDesc, Device, DeviceError, MemoryHandle as _, MemoryProperties, MemoryTypeIndex,
    QueueIndex, Submission, TimelinePoint, TimelineValue, TransferUsage,
};

/// Why bytes were not copied. The chunks before the one that failed were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferError {
    /// The range does not lie in the allocation, or the allocation is foreign.
    Access(AccessError),
    /// A buffer for the copy could not be made.
    Buffer(ResourceError),
    /// The queue refused, or is lost.
    Device(DeviceError),
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => error.fmt(f),
            Self::Buffer(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl Error for TransferError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Buffer(error) => Some(error),
            Self::Device(error) => Some(error),
        }
    }
}

impl From<AccessError> for TransferError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

impl From<ResourceError> for TransferError {
    fn from(error: ResourceError) -> Self {
        Self::Buffer(error)
    }
}

impl From<DeviceError> for TransferError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// Moves bytes between the CPU and allocations, and waits for it.
///
/// ```
/// use allotment::device::QueueIndex;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::Transfer;
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mut transfer = Transfer::new(&allocator, QueueIndex(2), 1 << 20)?;
///
/// let mesh = allocator.allocate(&Requirements::new(3 << 20), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// transfer.upload(&mesh, 0, &vec![42; 3 << 20])?;
/// let mut back = vec![0; 3 << 20];
/// transfer.download(&mesh, 0, &mut back)?;
/// assert!(back.iter().all(|&byte| byte == 42));
/// allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transfer<'a, D: Device> {
    allocator: &'a Allocator<D>,
    queue: QueueIndex,
    chunk: u64,
    usage: u64,
    way: Way,
    /// For the CPU to write and to read. Taken when dropped.
    staging: Option<[RawBuffer<D>; 2]>,
}

/// How bytes get in and out of buffers whose memory the CPU can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the CPU.
    Shortest,
    /// By the queue.
    Queue,
}

/// Which way the bytes go.
#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// The other end of a transfer.
struct Place<'a, D: Device> {
    allocation: &'a Allocation,
    /// Where there is none, one is made for the copy.
    buffer: Option<&'a RawBuffer<D>>,
}

impl<'a, D: Device> Place<'a, D> {
    fn of(buffer: &'a RawBuffer<D>) -> Self {
        Self { allocation: buffer.allocation(), buffer: Some(buffer) }
    }

    /// Bytes that can be moved, where the allocation has `available`: of a buffer, no more than it has.
    fn size(&self, available: u64) -> u64 {
        self.buffer.map_or(available, |buffer| buffer.size().min(available))
    }
}

// Not derived, since it is copied whether or not the device can be.
impl<D: Device> Clone for Place<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Place<'_, D> {}

impl<'a, D: Device> Transfer<'a, D> {
    /// A transfer over a queue, with two staging buffers of `chunk` bytes in memory of their own.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] when there is no memory for them; nothing is left behind.
    pub fn new(allocator: &'a Allocator<D>, queue: QueueIndex, chunk: u64) -> Result<Self, ResourceError> {
        let buffer = |usage: MemoryUsage, name: &'static str| {
            let options = usage.with_name(name).with_category("transfer");
            let options = options.with_dedicated(Dedicated::Always);
            allocator.create_buffer(&BufferDesc::new(chunk).into(), &options)
        };
        let up = buffer(MemoryUsage::Upload, "transfer up")?;
        let down = match buffer(MemoryUsage::Readback, "transfer down") {
            Ok(down) => down,
            Err(error) => {
                // Made just now by this allocator, so it is not foreign.
                let _ = allocator.destroy_buffer(up);
                return Err(error);
            }
        };
        Ok(Self { allocator, queue, chunk, usage: 0, way: Way::Shortest, staging: Some([up, down]) })
    }

    /// The same with buffers of this API-specific [usage](BufferDesc::usage) over what is transferred.
    #[must_use]
    pub fn with_usage(mut self, usage: u64) -> Self {
        self.usage = usage;
        self
    }

    /// The same, with the bytes of buffers ([`upload_to`](Self::upload_to),
    /// [`download_from`](Self::download_from)) going through the queue even where the CPU can reach them;
    /// save the way that no queue can go, into memory that queues only read or out of memory that they only
    /// write.
    ///
    /// What the CPU then finds in the memory shows that the buffer stands where it should.
    #[must_use]
    pub fn through_the_queue(mut self) -> Self {
        self.way = Way::Queue;
        self
    }

    /// Writes `bytes` into an allocation from byte `offset` on. Returns when they are there.
    ///
    /// Where the CPU cannot reach the memory, a buffer is made over the whole of it. Memory that was made
    /// together with its resource takes no other: see [`upload_to`](Self::upload_to). Nor does memory that
    /// takes no buffers, as that of textures on Direct3D 12's resource heap tier 1.
    ///
    /// # Errors
    ///
    /// [`TransferError`]. Where the bytes go in chunks, those before the error are written: a queue may
    /// refuse a later chunk, and a defragmentation may move the buffer between two of them
    /// ([`AccessError::Moved`]).
    pub fn upload(
        &mut self,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        self.send(Place { allocation, buffer: None }, offset, bytes)
    }

    /// Writes `bytes` into a buffer from byte `offset` on, which can be copied to. Returns when they are
    /// there.
    ///
    /// # Errors
    ///
    /// As for [`upload`](Self::upload).
    pub fn upload_to(
        &mut self,
        buffer: &RawBuffer<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        self.send(Place::of(buffer), offset, bytes)
    }

    /// Reads from an allocation, from byte `offset` on, into `bytes`. Returns when they are there.
    ///
    /// As for [`upload`](Self::upload), memory that was made together with its resource is read by
    /// [`download_from`](Self::download_from).
    ///
    /// # Errors
    ///
    /// [`TransferError`]; some of `bytes` may have been overwritten.
    pub fn download(
        &mut self,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        self.receive(Place { allocation, buffer: None }, offset, bytes)
    }

    /// Reads from a buffer, which can be copied from, from byte `offset` on, into `bytes`. Returns when they
    /// are there.
    ///
    /// # Errors
    ///
    /// As for [`download`](Self::download).
    pub fn download_from(
        &mut self,
        buffer: &RawBuffer<D>,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        self.receive(Place::of(buffer), offset, bytes)
    }

    fn takes_the_queue(
        &self,
        direction: Direction,
        place: Place<'_, D>,
        memory_type: MemoryTypeIndex,
    ) -> bool {
        let barred = match direction {
            Direction::Up => MemoryProperties::DEVICE_READ_ONLY,
            Direction::Down => MemoryProperties::DEVICE_WRITE_ONLY,
        };
        let found = self.allocator.device().properties().memory_type(memory_type);
        let open = found.is_some_and(|found| !found.properties.contains(barred));
        place.buffer.is_some() && self.way == Way::Queue && open
    }

    /// Where the bytes are.
    fn place(&self, place: Place<'_, D>) -> Result<crate::memory::MemoryLocation<D>, AccessError> {
        match place.buffer {
            Some(_) => self.allocator.place_of_bound(place.allocation),
            None => self.allocator.location(place.allocation),
        }
    }

    fn send(&self, to: Place<'_, D>, offset: u64, bytes: &[u8]) -> Result<(), TransferError> {
        let place = self.place(to)?;
        check_range(offset, bytes.len() as u64, to.size(place.size))?;
        if place.mapped_ptr.is_some() && !self.takes_the_queue(Direction::Up, to, place.memory_type) {
            return Ok(self.allocator.write(to.allocation, offset, bytes)?);
        }
        let mut done = offset;
        for chunk in bytes.chunks(self.chunk_len()) {
            let [up, _] = self.staging.as_ref().ok_or(DeviceError::Unsupported)?;
            self.allocator.write(up.allocation(), 0, chunk)?;
            self.copy(Direction::Up, to, done, chunk.len() as u64)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    fn receive(&self, from: Place<'_, D>, offset: u64, bytes: &mut [u8]) -> Result<(), TransferError> {
        let place = self.place(from)?;
        check_range(offset, bytes.len() as u64, from.size(place.size))?;
        if place.mapped_ptr.is_some() && !self.takes_the_queue(Direction::Down, from, place.memory_type) {
            return Ok(self.allocator.read(from.allocation, offset, bytes)?);
        }
        let mut done = offset;
        for chunk in bytes.chunks_mut(self.chunk_len()) {
            self.copy(Direction::Down, from, done, chunk.len() as u64)?;
            let [_, down] = self.staging.as_ref().ok_or(DeviceError::Unsupported)?;
            self.allocator.read(down.allocation(), 0, chunk)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    /// Bytes of a chunk, at least 1: a buffer of none is never created.
    fn chunk_len(&self) -> usize {
        usize::try_from(self.chunk).unwrap_or(usize::MAX).max(1)
    }

    /// Copies one chunk between a staging buffer and the other place, and waits for it.
    fn copy(
        &self,
        direction: Direction,
        place: Place<'_, D>,
        offset: u64,
        size: u64,
    ) -> Result<(), TransferError> {
        // Until the copy is over nobody may give the memory back under it, or move it.
        let (held, _guard) = match direction {
            Direction::Up => self.allocator.hold_for_writing(place.allocation)?,
            Direction::Down => self.allocator.hold_for_reading(place.allocation)?,
        };
        let usage = match direction {
            Direction::Up => TransferUsage::DST,
            Direction::Down => TransferUsage::SRC,
        };
        if let Some(buffer) = place.buffer {
            held.check_bound()?;
            buffer.check_usage(usage)?;
            return self.copy_buffer(direction, buffer.handle(), offset, size);
        }
        let (around, before) = self.buffer_around(&held, usage)?;
        let copied = self.copy_buffer(direction, &around, before + offset, size);
        // SAFETY: made here; the queue has passed it, has never seen it, or is lost.
        unsafe { self.allocator.device().destroy_buffer(around) };
        copied
    }

    /// A buffer over a whole allocation, and how many bytes of others it begins before it: images may stand
    /// closer than buffers can. None of these bytes are touched.
    fn buffer_around(
        &self,
        held: &RawPlace,
        usage: TransferUsage,
    ) -> Result<(D::Buffer, u64), ResourceError> {
        if held.exclusive {
            return Err(ResourceError::Access(AccessError::Exclusive));
        }
        let device = self.allocator.device();
        let info = |size| BufferDesc::new(size).with_usage(self.usage).into();
        check_usage(device.buffer_transfer_usage(&info(held.size)), usage).map_err(ResourceError::Access)?;
        let needs = |size| device.buffer_requirements(&info(size)).map_err(ResourceError::Device);
        let first = needs(held.size)?.alignment.align_down(held.offset);
        let before = held.offset - first;
        let size = before + held.size;
        check_place(held.memory_type, first, held.memory_size - first, &needs(size)?)
            .map_err(ResourceError::Access)?;
        let memory = D::Memory::from_raw(held.memory);
        // SAFETY: the memory lives while the caller holds the place, and the requirements were just checked.
        let made = unsafe { device.create_buffer(&info(size), memory, first) };
        Ok((made.map_err(ResourceError::Device)?, before))
    }

    fn copy_buffer(
        &self,
        direction: Direction,
        other: &D::Buffer,
        offset: u64,
        size: u64,
    ) -> Result<(), TransferError> {
        let [up, down] = self.staging.as_ref().ok_or(DeviceError::Unsupported)?;
        let copy = match direction {
            Direction::Up => {
                BufferCopy { from: up.handle(), from_offset: 0, to: other, to_offset: offset, size }
            }
            Direction::Down => {
                BufferCopy { from: other, from_offset: offset, to: down.handle(), to_offset: 0, size }
            }
        };
        let submission = Submission { copies: &[copy], ..Submission::default() };
        // SAFETY: the ranges lie in both buffers, as was checked and as chunks are no larger than staging;
        // the buffers live until the wait below is over, or the device is lost.
        let value = unsafe { self.allocator.device().submit(self.queue, &submission) }?;
        Ok(self.wait(value)?)
    }

    /// Waits until the queue has reached a value, or is lost: whatever else a wait is refused with, the
    /// queue still uses the buffers.
    fn wait(&self, value: TimelineValue) -> Result<(), DeviceError> {
        let point = TimelinePoint { queue: self.queue, value };
        loop {
            match self.allocator.device().wait(point, Duration::from_secs(1)) {
                Ok(()) => return Ok(()),
                Err(DeviceError::Lost) => return Err(DeviceError::Lost),
                Err(_) => {}
            }
        }
    }
}

impl<D: Device> Drop for Transfer<'_, D> {
    fn drop(&mut self) {
        for buffer in self.staging.take().into_iter().flatten() {
            // Made by this allocator, so it is not foreign.
            let _ = self.allocator.destroy_buffer(buffer);
        }
    }
}
