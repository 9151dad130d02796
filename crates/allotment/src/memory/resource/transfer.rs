//! Synchronous copies between the CPU and any allocation: for tools, tests and start-up code that can wait.
//!
//! Memory that the CPU can access is written and read directly. Other memory is copied through two staging buffers and
//! a queue, chunk by chunk, with a wait for each. This is the simplest correct way, not the fastest.

use core::error::Error;
use core::fmt;
use core::mem::ManuallyDrop;
use core::time::Duration;

use super::{RawBuffer, ResourceError, check_usage};
use crate::device::{
    BufferCopy, BufferDesc, Device, DeviceError, MemoryHandle as _, MemoryProperties, MemoryTypeIndex,
    QueueIndex, Submission, TimelinePoint, TimelineValue, TransferUsage,
};
use crate::memory::allocator::{Allocator, check_place, check_range};
use crate::memory::name_in_error;
use crate::memory::token::{Allocation, RawPlace, Traits};
use crate::memory::{AccessError, Dedicated, MemoryUsage, ShortName};

/// Why a transfer failed. The chunks before the failed one were copied.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::{AccessError, Transfer, TransferError};
///
/// let mesh = allocator.allocate(&Requirements::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16)?;
/// let refused = transfer.upload(&mesh, 200, &[7; 100]);
/// assert!(matches!(refused, Err(TransferError::Access(AccessError::OutOfRange { available: 256, .. }))));
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferError {
    /// The range exceeds the allocation, or the allocation belongs to another allocator.
    Access(AccessError),
    /// A buffer for the copy could not be created.
    Buffer(ResourceError),
    /// The queue refused the copy, or the device is lost.
    Device {
        /// The error of the device.
        source: DeviceError,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
}

name_in_error!(TransferError, own: [Device], inner: [Access, Buffer]);

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => error.fmt(f),
            Self::Buffer(error) => error.fmt(f),
            Self::Device { source, name } => {
                name.begin(f)?;
                source.fmt(f)
            }
        }
    }
}

impl Error for TransferError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Buffer(error) => Some(error),
            Self::Device { source, .. } => Some(source),
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
    fn from(source: DeviceError) -> Self {
        Self::Device { source, name: ShortName::NONE }
    }
}

/// Copies bytes between the CPU and allocations, and waits for each copy, however long it takes.
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
    /// For the CPU to write and to read. Taken when dropped, and only then.
    staging: ManuallyDrop<[RawBuffer<D>; 2]>,
}

/// How bytes get in and out of buffers in host-visible memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The CPU accesses the memory directly.
    Shortest,
    /// A queue copies, as for memory that the CPU cannot access.
    Queue,
}

/// The direction of a transfer.
#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// The allocation of a transfer, and its buffer if there is one.
struct Place<'a, D: Device> {
    allocation: &'a Allocation,
    /// Where there is none, one is made for the copy.
    buffer: Option<&'a RawBuffer<D>>,
}

impl<'a, D: Device> Place<'a, D> {
    fn of(buffer: &'a RawBuffer<D>) -> Self {
        Self { allocation: buffer.allocation(), buffer: Some(buffer) }
    }

    /// Refuses bytes that neither the allocation, which has `available` ones, nor the buffer has. What it returns keeps memory that is
    /// bound to them page by page.
    fn hold_bytes(
        &self,
        offset: u64,
        size: u64,
        available: u64,
    ) -> Result<Option<Box<dyn Send>>, AccessError> {
        match self.buffer {
            Some(buffer) => buffer.hold_bytes(offset, size, available),
            None => check_range(offset, size, available).map(|()| None),
        }
    }
}

// Not derived: the derive would require `D: Clone`.
impl<D: Device> Clone for Place<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Place<'_, D> {}

impl<'a, D: Device> Transfer<'a, D> {
    /// Creates a transfer for a queue, with two dedicated staging buffers of `chunk` bytes each, at least 1.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] when a staging buffer cannot be created; nothing remains allocated.
    #[inline(never)]
    pub fn new(allocator: &'a Allocator<D>, queue: QueueIndex, chunk: u64) -> Result<Self, ResourceError> {
        let buffer = |usage: MemoryUsage, name: &'static str| {
            let options = usage.with_name(name).with_category("transfer");
            let options = options.with_dedicated(Dedicated::Always);
            allocator.create_buffer(&BufferDesc::new(chunk).into(), &options)
        };
        let up = buffer(MemoryUsage::Upload, "transfer up")?;
        // On failure the first buffer must not leak: dropping its handle frees nothing.
        let down = match buffer(MemoryUsage::Readback, "transfer down") {
            Ok(down) => down,
            Err(error) => {
                // This allocator created the buffer just now, so it accepts the handle.
                let _ = allocator.destroy_buffer(up);
                return Err(error);
            }
        };
        Ok(Self {
            allocator,
            queue,
            chunk,
            usage: 0,
            way: Way::Shortest,
            staging: ManuallyDrop::new([up, down]),
        })
    }

    /// Sets the API-specific [usage](BufferDesc::usage) of the buffers that are created over allocations.
    #[must_use]
    pub fn with_usage(mut self, usage: u64) -> Self {
        self.usage = usage;
        self
    }

    /// Copies the bytes of buffers ([`upload_to`](Self::upload_to), [`download_from`](Self::download_from)) by the
    /// queue even where the CPU can access their memory. Uploads into memory that queues only read, and downloads from
    /// memory that queues only write, still use the CPU.
    ///
    /// A test can then compare the bytes that the CPU finds in the memory with those that the queue wrote, and so check
    /// the buffer's offset.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Transfer;
    ///
    /// let mesh = allocator.create_buffer(&BufferDesc::new(256), &MemoryUsage::Upload.with_name("mesh"))?;
    /// let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16)?.through_the_queue();
    /// transfer.upload_to(&mesh, 0, &[7; 256])?;
    /// let mut found = [0; 256];
    /// allocator.read(mesh.allocation(), 0, &mut found)?; // the CPU finds the bytes that the queue wrote
    /// assert_eq!(found, [7; 256]);
    /// # allocator.destroy_buffer(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn through_the_queue(mut self) -> Self {
        self.way = Way::Queue;
        self
    }

    /// Writes `bytes` into an allocation at byte `offset`. Returns once the bytes are written.
    ///
    /// For memory that the CPU cannot access, the transfer creates a buffer over the whole allocation. That is not
    /// possible for memory that was created together with its resource (see [`upload_to`](Self::upload_to)), nor for
    /// memory in which buffers are not allowed, as that of textures on Direct3D 12's resource heap tier 1.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Transfer;
    ///
    /// let table = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("table"))?;
    /// let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16)?;
    /// transfer.upload(&table, 1024, &[7; 256])?; // memory that the CPU cannot map: by the queue
    /// # allocator.free(table)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransferError`]. The chunks before the error are written: a queue may refuse a later chunk, and a
    /// defragmentation may move the buffer between two chunks ([`AccessError::Moved`]).
    #[inline(never)]
    pub fn upload(
        &mut self,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        self.named(allocation, self.send(Place { allocation, buffer: None }, offset, bytes))
    }

    /// Writes `bytes` into a buffer at byte `offset`. The buffer must be a copy destination. Returns once the bytes are
    /// written.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Transfer;
    ///
    /// let mesh = allocator.create_buffer(&BufferDesc::new(3000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1024)?; // three copies, each waited for
    /// transfer.upload_to(&mesh, 0, &[7; 3000])?;
    /// # allocator.destroy_buffer(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`upload`](Self::upload).
    #[inline(never)]
    pub fn upload_to(
        &mut self,
        buffer: &RawBuffer<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TransferError> {
        self.named(buffer.allocation(), self.send(Place::of(buffer), offset, bytes))
    }

    /// Reads from an allocation at byte `offset` into `bytes`. Returns once the bytes are read.
    ///
    /// Like [`upload`](Self::upload), it cannot read memory that was created together with its resource: use
    /// [`download_from`](Self::download_from).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Transfer;
    ///
    /// let table = allocator.allocate(&Requirements::new(4096), &MemoryUsage::GpuOnly.with_name("table"))?;
    /// let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1 << 16)?;
    /// transfer.upload(&table, 1024, b"bytes")?;
    /// let mut back = [0; 5];
    /// transfer.download(&table, 1024, &mut back)?;
    /// assert_eq!(&back, b"bytes");
    /// # allocator.free(table)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransferError`]; some of `bytes` may have been overwritten.
    #[inline(never)]
    pub fn download(
        &mut self,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        self.named(allocation, self.receive(Place { allocation, buffer: None }, offset, bytes))
    }

    /// Reads from a buffer at byte `offset` into `bytes`. The buffer must be a copy source. Returns once the bytes are
    /// read.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Transfer;
    ///
    /// let mesh = allocator.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let mut transfer = Transfer::new(&allocator, QueueIndex(0), 1024)?;
    /// transfer.upload_to(&mesh, 100, b"vertices")?;
    /// let mut bytes = [0; 8];
    /// transfer.download_from(&mesh, 100, &mut bytes)?;
    /// assert_eq!(&bytes, b"vertices");
    /// # allocator.destroy_buffer(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`download`](Self::download).
    #[inline(never)]
    pub fn download_from(
        &mut self,
        buffer: &RawBuffer<D>,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        self.named(buffer.allocation(), self.receive(Place::of(buffer), offset, bytes))
    }

    fn named(&self, allocation: &Allocation, done: Result<(), TransferError>) -> Result<(), TransferError> {
        done.map_err(|error| error.of(self.allocator.name_of(allocation)))
    }

    /// Returns true if the CPU copies the bytes: because queues cannot, or since it can and nobody asked for a queue.
    fn is_of_the_cpu(&self, direction: Direction, place: Place<'_, D>, memory_type: MemoryTypeIndex) -> bool {
        let barred = match direction {
            Direction::Up => MemoryProperties::DEVICE_READ_ONLY,
            Direction::Down => MemoryProperties::DEVICE_WRITE_ONLY,
        };
        // Direct3D 12's upload heaps cannot be copied to, its readback heaps not from. Where such memory cannot be mapped,
        // nothing reaches it, and the access says why.
        let found = self.allocator.device().properties().memory_type(memory_type);
        if found.is_none_or(|found| found.properties.contains(barred)) {
            return true;
        }
        let wants_queue = place.buffer.is_some() && self.way == Way::Queue;
        let is_one = place.buffer.is_none_or(|buffer| !buffer.has_ranges());
        !wants_queue && is_one && self.allocator.is_reachable(place.allocation)
    }

    /// Where the bytes are.
    fn place(&self, place: Place<'_, D>) -> Result<crate::memory::MemoryLocation<D>, AccessError> {
        match place.buffer {
            // A queue copies through the buffer, which stays bound to its old memory where a pass moved the allocation.
            Some(_) => self.allocator.place_of_bound(place.allocation),
            None => self.allocator.location(place.allocation),
        }
    }

    fn send(&self, to: Place<'_, D>, offset: u64, bytes: &[u8]) -> Result<(), TransferError> {
        let place = self.place(to)?;
        let _held = to.hold_bytes(offset, bytes.len() as u64, place.size)?;
        if self.is_of_the_cpu(Direction::Up, to, place.memory_type) {
            return Ok(self.allocator.write(to.allocation, offset, bytes)?);
        }
        let mut done = offset;
        // One staging buffer serves all chunks, so each copy is waited for before the next chunk overwrites the bytes.
        for chunk in bytes.chunks(self.chunk_len()) {
            let [up, _] = &*self.staging;
            self.allocator.write(up.allocation(), 0, chunk)?;
            self.copy(Direction::Up, to, done, chunk.len() as u64)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    fn receive(&self, from: Place<'_, D>, offset: u64, bytes: &mut [u8]) -> Result<(), TransferError> {
        let place = self.place(from)?;
        let _held = from.hold_bytes(offset, bytes.len() as u64, place.size)?;
        if self.is_of_the_cpu(Direction::Down, from, place.memory_type) {
            return Ok(self.allocator.read(from.allocation, offset, bytes)?);
        }
        let mut done = offset;
        for chunk in bytes.chunks_mut(self.chunk_len()) {
            self.copy(Direction::Down, from, done, chunk.len() as u64)?;
            let [_, down] = &*self.staging;
            self.allocator.read(down.allocation(), 0, chunk)?;
            done += chunk.len() as u64;
        }
        Ok(())
    }

    /// Returns the bytes of a chunk, at least 1: a buffer of 0 bytes is never created.
    fn chunk_len(&self) -> usize {
        usize::try_from(self.chunk).unwrap_or(usize::MAX).max(1)
    }

    /// Copies one chunk between a staging buffer and the allocation, and waits for the copy.
    fn copy(
        &self,
        direction: Direction,
        place: Place<'_, D>,
        offset: u64,
        size: u64,
    ) -> Result<(), TransferError> {
        // Until the copy completes, no other thread may free the memory or move it. The guard ensures that.
        let (held, _guard) = match direction {
            Direction::Up => self.allocator.hold_for_writing(place.allocation)?,
            Direction::Down => self.allocator.hold_for_reading(place.allocation)?,
        };
        let usage = match direction {
            Direction::Up => TransferUsage::DST,
            Direction::Down => TransferUsage::SRC,
        };
        if let Some(buffer) = place.buffer {
            // A pass may have moved the allocation away from under the buffer.
            held.check_bound()?;
            buffer.check_usage(usage)?;
            buffer.check_queue(self.allocator.device(), self.queue)?;
            // The application's own buffer is used where there is one: memory that is dedicated to it takes no second
            // one.
            // What is placed may have its bytes since a moment ago.
            let aliases = self.allocator.is_placed(place.allocation.id());
            return self.copy_buffer(direction, (buffer.handle(), offset), size, aliases);
        }
        let (around, before) = self.buffer_around(&held, usage)?;
        // A buffer over bytes that are those of something else.
        let copied = self.copy_buffer(direction, (&around, before + offset), size, true);
        // SAFETY: created in this function; the queue has completed its copy, has never seen it, or is lost.
        unsafe { self.allocator.device().destroy_buffer(around) };
        copied
    }

    /// Creates a buffer over a whole allocation, and returns how many bytes of its neighbours it begins before it:
    /// images may be closer to each other than a buffer's alignment allows. None of these bytes are copied.
    fn buffer_around(
        &self,
        held: &RawPlace,
        usage: TransferUsage,
    ) -> Result<(D::Buffer, u64), ResourceError> {
        if held.traits.has(Traits::DEDICATED_TO_RESOURCE) {
            return Err(ResourceError::Access(AccessError::Exclusive { name: ShortName::NONE }));
        }
        let device = self.allocator.device();
        let info = |size| BufferDesc::new(size).with_usage(self.usage).into();
        check_usage(device.buffer_transfer_usage(&info(held.size)), usage).map_err(ResourceError::Access)?;
        // The alignment may depend on the size and usage, so the device is asked for this very buffer.
        let needs = |size| device.buffer_requirements(&info(size)).map_err(ResourceError::from);
        // A buffer must begin at its own alignment, so it may begin before the allocation.
        let first = needs(held.size)?.alignment.align_down(held.offset);
        let before = held.offset - first;
        let size = before + held.size;
        check_place(held.memory_type(), first, held.memory_size - first, &needs(size)?)
            .map_err(ResourceError::Access)?;
        let memory = D::Memory::from_raw(held.memory);
        // SAFETY: the memory lives while the caller holds the location, and the requirements were just checked.
        let made = unsafe { device.create_buffer(&info(size), memory, first) };
        Ok((made.map_err(ResourceError::from)?, before))
    }

    fn copy_buffer(
        &self,
        direction: Direction,
        (other, offset): (&D::Buffer, u64),
        size: u64,
        aliases: bool,
    ) -> Result<(), TransferError> {
        let [up, down] = &*self.staging;
        let copy = match direction {
            Direction::Up => {
                BufferCopy { from: up.handle(), from_offset: 0, to: other, to_offset: offset, size }
            }
            Direction::Down => {
                BufferCopy { from: other, from_offset: offset, to: down.handle(), to_offset: 0, size }
            }
        };
        // Other queues may have been given work on the same bytes: a step that moved the buffer, an upload.
        let device = self.allocator.device();
        let others = (0..device.properties().queues.len() as u8).map(QueueIndex);
        let last = |queue| TimelinePoint { queue, value: device.submitted(queue) };
        let waits: Vec<_> = others.filter(|queue| *queue != self.queue).map(last).collect();
        let submission = Submission { waits: &waits, copies: &[copy], aliases, ..Submission::default() };
        // SAFETY: the ranges lie in both buffers, as was checked and as chunks are no larger than staging;
        // the buffers live until the wait below is over, or the device is lost.
        let value = unsafe { self.allocator.device().submit(self.queue, &submission) }?;
        Ok(self.wait(value)?)
    }

    /// Waits until the queue has reached a value, or the device is lost. After any other error of a wait the queue may
    /// still use the buffers, so the wait is repeated.
    fn wait(&self, value: TimelineValue) -> Result<(), DeviceError> {
        let point = TimelinePoint { queue: self.queue, value };
        loop {
            match self.allocator.device().wait(point, Duration::from_secs(1)) {
                Ok(()) => return Ok(()),
                Err(DeviceError::Lost) => return Err(DeviceError::Lost),
                // A timeout, for example: freeing the buffers now would free memory that the queue writes.
                Err(_) => {}
            }
        }
    }
}

impl<D: Device> Drop for Transfer<'_, D> {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: not used after this.
        for buffer in unsafe { ManuallyDrop::take(&mut self.staging) } {
            // This allocator created the buffer, so it accepts the handle.
            let _ = self.allocator.destroy_buffer(buffer);
        }
    }
}
