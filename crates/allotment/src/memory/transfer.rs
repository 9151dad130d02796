//! Bytes in and out of any allocation, at once: for tools, tests and start-up code that can wait.
//!
//! Memory that the CPU can reach is written and read directly; other memory through two staging buffers
//! and a queue, chunk by chunk, waiting for each. It is the simplest thing that is right, not the fastest.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::access::check_range;
use super::allocator::{Allocation, Allocator};
use super::resource::{Buffer, Buffers, ResourceError};
use super::{AccessError, AllocationDesc, Dedicated, Intent};
use crate::device::{
    BufferCopy, BufferDesc, Device, DeviceError, QueueIndex, Requirements, Submission, TimelinePoint,
    TimelineValue, Wait,
};

/// Why bytes were not moved. Some chunks of them may have been.
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
/// use allotment::device::host::{HostDevice, Profile};
/// use allotment::memory::Transfer;
/// use allotment::{AllocationDesc, Allocator, AllocatorDesc, Intent, Requirements};
///
/// let device = HostDevice::new(Profile::named("discrete-no-bar").unwrap());
/// let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mut transfer = Transfer::new(&allocator, QueueIndex(2), 1 << 20)?;
///
/// let mesh = AllocationDesc::new(Requirements::new(3 << 20), Intent::Device).named("mesh");
/// let mesh = allocator.allocate(&mesh)?;
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
    /// For the CPU to write and to read. Taken when dropped.
    staging: Option<[Buffer<D>; 2]>,
}

/// Which way the bytes go.
#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

impl<'a, D: Device> Transfer<'a, D> {
    /// A transfer over a queue, with two staging buffers of `chunk` bytes in memory of their own.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] when there is no memory for them; nothing is left behind.
    pub fn new(allocator: &'a Allocator<D>, queue: QueueIndex, chunk: u64) -> Result<Self, ResourceError> {
        let buffer = |intent, name: &'static str| {
            let desc = AllocationDesc::new(Requirements::new(chunk), intent);
            let desc = desc.named(name).in_category("transfer").dedicated(Dedicated::Always);
            allocator.create_buffer(&BufferDesc::new(chunk).into(), &desc)
        };
        let up = buffer(Intent::Upload, "transfer up")?;
        let down = match buffer(Intent::Readback, "transfer down") {
            Ok(down) => down,
            Err(error) => {
                // Made just now by this allocator, so it is not foreign.
                let _ = allocator.destroy_buffer(up);
                return Err(error);
            }
        };
        Ok(Self { allocator, queue, chunk, usage: 0, staging: Some([up, down]) })
    }

    /// The same with buffers of this API-specific [usage](BufferDesc::usage) over what is transferred.
    #[must_use]
    pub fn with_usage(mut self, usage: u64) -> Self {
        self.usage = usage;
        self
    }

    /// Writes `bytes` into an allocation from byte `offset` on. Returns when they are there.
    ///
    /// # Errors
    ///
    /// [`TransferError`]; after one of the queue, some of the bytes may have been written.
    pub fn upload(
        &mut self,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        let place = self.allocator.place(allocation)?;
        check_range(offset, bytes.len() as u64, place.size)?;
        if place.address.is_some() {
            return Ok(self.allocator.write(allocation, offset, bytes)?);
        }
        let mut done = offset;
        for chunk in bytes.chunks(self.chunk as usize) {
            let [up, _] = self.staging()?;
            self.allocator.write(up.allocation(), 0, chunk)?;
            self.copy(Direction::Up, allocation, done, chunk.len() as u64)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    /// Reads from an allocation, from byte `offset` on, into `bytes`. Returns when they are there.
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
        let place = self.allocator.place(allocation)?;
        check_range(offset, bytes.len() as u64, place.size)?;
        if place.address.is_some() {
            return Ok(self.allocator.read(allocation, offset, bytes)?);
        }
        let mut done = offset;
        for chunk in bytes.chunks_mut(self.chunk as usize) {
            self.copy(Direction::Down, allocation, done, chunk.len() as u64)?;
            let [_, down] = self.staging()?;
            self.allocator.read(down.allocation(), 0, chunk)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    /// Writes `bytes` into a buffer from byte `offset` on, through the queue and the buffer's own handle even
    /// where the CPU could reach its memory. Returns when they are there.
    ///
    /// What the CPU then reads from the memory shows whether the buffer stands where it should.
    ///
    /// # Errors
    ///
    /// [`TransferError`]; after one of the queue, some of the bytes may have been written.
    ///
    /// # Safety
    ///
    /// The range lies in the buffer, of which only the device knows how large it is; that it lies in the
    /// buffer's memory is checked.
    pub unsafe fn upload_buffer(
        &mut self,
        buffer: &Buffer<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        let _held = self.hold_range(buffer, offset, bytes.len() as u64)?;
        let mut done = offset;
        for chunk in bytes.chunks(self.chunk as usize) {
            let [up, _] = self.staging()?;
            self.allocator.write(up.allocation(), 0, chunk)?;
            // SAFETY: a part of the caller's range, in memory that is held.
            unsafe { self.copy_chunk(Direction::Up, buffer.handle(), done, chunk.len() as u64) }?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    /// Reads from a buffer, from byte `offset` on, into `bytes`, through the queue and the buffer's own handle
    /// even where the CPU could reach its memory. Returns when they are there.
    ///
    /// # Errors
    ///
    /// [`TransferError`]; some of `bytes` may have been overwritten.
    ///
    /// # Safety
    ///
    /// As for [`upload_buffer`](Self::upload_buffer).
    pub unsafe fn download_buffer(
        &mut self,
        buffer: &Buffer<D>,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        let _held = self.hold_range(buffer, offset, bytes.len() as u64)?;
        let mut done = offset;
        for chunk in bytes.chunks_mut(self.chunk as usize) {
            // SAFETY: a part of the caller's range, in memory that is held.
            unsafe { self.copy_chunk(Direction::Down, buffer.handle(), done, chunk.len() as u64) }?;
            let [_, down] = self.staging()?;
            self.allocator.read(down.allocation(), 0, chunk)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    /// Checks that a range lies in a buffer's memory, which stays its memory while the result lives.
    fn hold_range(
        &self,
        buffer: &Buffer<D>,
        offset: u64,
        size: u64,
    ) -> Result<impl Sized + use<'a, D>, TransferError> {
        let (place, held) = self.allocator.hold(buffer.allocation())?;
        check_range(offset, size, place.size)?;
        Ok(held)
    }

    fn staging(&self) -> Result<&[Buffer<D>; 2], DeviceError> {
        self.staging.as_ref().ok_or(DeviceError::Unsupported)
    }

    /// Copies one chunk between a staging buffer and the allocation, and waits for it.
    fn copy(
        &self,
        direction: Direction,
        allocation: &Allocation,
        offset: u64,
        size: u64,
    ) -> Result<(), TransferError> {
        let device = self.allocator.device();
        // Over the whole allocation, since a chunk need not begin at a multiple of a buffer's alignment.
        let whole = BufferDesc::new(self.allocator.place(allocation)?.size).with_usage(self.usage).into();
        // Until the copy is over nobody may give the memory back under it.
        let _held = self.allocator.hold(allocation)?;
        let requirements = device.buffer_requirements(&whole)?;
        let target = self.allocator.bind::<Buffers>(allocation, 0, &whole, &requirements)?;
        // SAFETY: the range lies in the allocation, as was checked, and so in a buffer over all of it.
        let copied = unsafe { self.copy_chunk(direction, &target, offset, size) };
        // SAFETY: made here; the queue has passed it, has never seen it, or is lost.
        unsafe { device.destroy_buffer(target) };
        Ok(copied?)
    }

    /// Copies one chunk between a staging buffer and another one, and waits for it.
    ///
    /// # Safety
    ///
    /// The range lies in the buffer, and the caller holds the buffer's memory.
    unsafe fn copy_chunk(
        &self,
        direction: Direction,
        target: &D::Buffer,
        offset: u64,
        size: u64,
    ) -> Result<(), DeviceError> {
        let [up, down] = self.staging()?;
        let copy = match direction {
            Direction::Up => {
                BufferCopy { from: up.handle(), from_offset: 0, to: target, to_offset: offset, size }
            }
            Direction::Down => {
                BufferCopy { from: target, from_offset: offset, to: down.handle(), to_offset: 0, size }
            }
        };
        let submission = Submission { waits: &[], copies: &[copy] };
        // SAFETY: the ranges lie in both buffers, as the staging one is as large as the largest chunk; both
        // live until the wait below is over, or the device is lost.
        let value = unsafe { self.allocator.device().submit(self.queue, &submission) }?;
        self.wait(value)
    }

    /// Waits until the queue has reached a value, or is lost: whatever else a wait is refused with, the
    /// queue still uses the buffers.
    fn wait(&self, value: TimelineValue) -> Result<(), DeviceError> {
        let point = TimelinePoint { queue: self.queue, value };
        loop {
            match self.allocator.device().wait(point, Duration::from_secs(1)) {
                Ok(Wait::Reached) => return Ok(()),
                Err(DeviceError::Lost) => return Err(DeviceError::Lost),
                Ok(Wait::TimedOut) | Err(_) => {}
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
