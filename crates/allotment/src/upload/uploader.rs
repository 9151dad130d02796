//! Uploads of buffer and image data, direct or through staging.

mod lanes;
mod pause;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use super::completion::Panics;
use super::error::{Interruption, UploadError};
use super::handle::UploadHandle;
use super::image_write::ImageWrite;
use super::lane::{FrameLimits, Lane, LaneState, Piece, Streamed};
use super::uploader_desc::UploaderDesc;
use crate::device::{
    Device, DeviceError, MemoryProperties, QueueIndex, QueueKind, TimelinePoint, TransferUsage, home_queue,
    is_of_home_family,
};
use crate::lifetime::{Owned, SubmissionTracker, TimelinePoints};
use crate::memory::kinds::Buffers;
use crate::memory::{
    Allocation, AllocationId, Buffer, Image, MappedBuffer, MemoryLocation, OwningAllocator, ShortName,
    Unique, WriteMark, WriterId,
};

pub(super) use pause::Stay;

/// Statistics of an [`Uploader`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// gpu.uploads().write_buffer(&mesh, 0, &[7; 256])?;
/// gpu.uploads().write_buffer(&mesh, 256, &[7; 256])?;
/// gpu.wait(gpu.uploads().submit()?)?;
/// let sums = gpu.uploads().statistics();
/// assert_eq!((sums.staged_bytes, sums.copies, sums.submissions), (512, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploaderStatistics {
    /// Bytes that the CPU wrote directly to buffers whose memory it can access.
    pub direct_bytes: u64,
    /// Bytes that the CPU copied directly into images, without staging.
    pub host_copied_bytes: u64,
    /// Bytes that were staged and copied by a queue, including row padding.
    pub staged_bytes: u64,
    /// Copies of staged bytes. Small consecutive writes share one.
    pub copies: u64,
    /// Submissions of these copies.
    pub submissions: u64,
    /// Waits for the device because staging memory was full.
    pub waits: u64,
    /// The longest time that a piece of a write waited for staging memory.
    pub longest_wait: Duration,
    /// Threads that wait for staging memory now.
    pub waiting: u64,
    /// Writes refused because staging memory was full.
    pub refusals: u64,
    /// Bytes staged and not yet submitted.
    pub open_bytes: u64,
    /// Batches submitted and not yet completed.
    pub batches_in_flight: u64,
    /// Bytes of these batches.
    pub bytes_in_flight: u64,
}

/// Writes data into buffers and images: directly if the CPU can access the memory, or copy texels, and the device does not
/// use it yet, otherwise through staging memory and a queue.
///
/// Staged data is submitted by [`submit`](Self::submit), or earlier: when a quarter of the staging memory is full
/// (except with [`Refuse`](super::WhenFull::Refuse)), when a staged range is written again, or after 1,024 copies.
/// Dropping an uploader [discards](Self::discard) staged data that was not submitted. In steady state, the only heap
/// allocation or driver call is one submission per batch.
///
/// # Threads
///
/// Any number of threads share an uploader and its staging memory. A write that finds it full waits, and no other call
/// does: [`submit`](Self::submit) hands over what is staged by then, and returns. Large writes go in pieces of an eighth of
/// the memory, and take turns; small ones, up to 16 KiB, go ahead of them. Two writes of one thread to the same bytes arrive
/// in their order; those of several threads do if one began after the other had returned.
///
/// # Several uploaders
///
/// An image has one uploader at a time, and so has an [exclusive](crate::device::SharingMode::Exclusive) buffer. Another one
/// may write it once no write goes on and [`submit`](Self::submit) has submitted the copies, and handed over what is
/// exclusive; what was [streamed](UploadHandle::streamed) is handed over by the first `submit` after it has arrived. Before
/// that, its writes return [`UploadError::OtherUploader`]. On the GPU it waits for the first one's points
/// ([`wait_for`](Self::wait_for)).
///
/// # Queue families
///
/// [Exclusive](crate::device::SharingMode::Exclusive) buffers and images may be written over a queue of another family than
/// that of the first graphics queue, to which they belong afterwards. [`submit`](Self::submit) hands over what was written:
/// the copying queue releases it, and the first graphics queue acquires it, so its later work comes after the uploads. Batches
/// that are submitted earlier hand nothing over.
///
/// Once the device is lost, staged data is discarded, so that it keeps no target alive, and every write and
/// submission returns [`DeviceError::Lost`].
///
/// If a submission panics, its batch is dropped, and may or may not have reached the queue: write its data again.
///
/// ```
/// use core::time::Duration;
/// use std::sync::Arc;
///
/// use allotment::device::BufferDesc;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::lifetime::{DeletionQueue, SubmissionTracker};
/// use allotment::memory::OwningAllocator;
/// use allotment::upload::{Uploader, UploaderDesc};
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker))?;
/// let uploader = Uploader::new(&memory, UploaderDesc::default())?;
///
/// let desc = MemoryUsage::GpuOnly.with_name("mesh");
/// let meshes = [0, 1].map(|_| memory.create_buffer(&BufferDesc::new(1 << 20), &desc).unwrap());
/// std::thread::scope(|scope| {
///     for mesh in &meshes {
///         scope.spawn(|| uploader.initialize(mesh, 0, &vec![7; 1 << 20]));
///     }
/// });
/// let uploaded = uploader.submit()?;   // work that draws the meshes waits for these points, on the device
/// tracker.wait_all(&uploaded, Duration::from_secs(1))?;
/// assert_eq!(uploader.statistics().staged_bytes, 2 << 20, "this device has no host-visible device memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Uploader<D: Device> {
    pub(super) memory: OwningAllocator<D>,
    id: WriterId,
    buffers: Lane<D>,
    /// `None` if images use the same queue as buffers.
    images: Option<Lane<D>>,
    /// Copies to parts of exclusive images that keep the rest of their texels, on a queue of the family that owns them.
    /// `None` if the queue for images is of that family.
    home: Option<Lane<D>>,
    direct_bytes: AtomicU64,
    host_copied_bytes: AtomicU64,
    /// The CPU copies into images where the device can.
    pub(super) copies_from_host: bool,
    /// A call has found that the device is lost.
    is_lost: AtomicBool,
    /// A write had a handle.
    has_handles: AtomicBool,
    /// Writes are refused; the lanes know it as well.
    is_stopped: AtomicBool,
}

/// The writes of an uploader that belong to a handle. Returned by [`Uploader::with_handle`].
#[derive(Debug)]
pub struct HandledWrites<'a, D: Device> {
    uploader: &'a Uploader<D>,
    handle: &'a UploadHandle,
}

impl<D: Device> HandledWrites<'_, D> {
    /// Writes a range as [`Uploader::initialize`] does.
    ///
    /// # Errors
    ///
    /// Those of `initialize`, and [`UploadError::Interrupted`] where the handle was cancelled.
    pub fn initialize(&self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.uploader.initialize_as(Some(self.handle), to, offset, bytes)
    }

    /// Writes a range as [`Uploader::update`] does.
    ///
    /// # Errors
    ///
    /// Those of `update`, and [`UploadError::Interrupted`] where the handle was cancelled.
    pub fn update(&self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.uploader.update_as(Some(self.handle), to, offset, bytes, &TimelinePoints::EMPTY)
    }

    /// Writes texels as [`Uploader::write_image`] does.
    ///
    /// # Errors
    ///
    /// Those of `write_image`, and [`UploadError::Interrupted`] where the handle was cancelled.
    pub fn write_image(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.uploader.write_image_as(Some(self.handle), to, write, bytes)
    }
}

/// A write that runs. When dropped, its handle knows how it ended: as a failure where it panics.
struct Running<'a> {
    handle: Option<&'a UploadHandle>,
    failed: bool,
    cancelled: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.handle.into_iter().for_each(|handle| handle.end_write(self.failed, self.cancelled));
    }
}

/// Most bytes that are written at once to a relocatable buffer that is mapped. Its lock is held meanwhile, and a step of
/// defragmentation that waits for it keeps recordings from being opened: 20 µs.
const DIRECT_PIECE: usize = 256 << 10;

/// A buffer that bytes are staged for.
struct Target {
    id: AllocationId,
    is_shared: bool,
}

impl<D: Device> Uploader<D> {
    /// Creates an uploader for resources of `memory`.
    ///
    /// # Errors
    ///
    /// [`UploadError::NoSuchQueue`]; [`UploadError::WrongDevice`] where the tracker of `memory`'s deletion queue tracks
    /// another device than the allocator's.
    #[inline(never)]
    pub fn new(memory: &OwningAllocator<D>, desc: UploaderDesc) -> Result<Self, UploadError> {
        // Otherwise the tracker would not see the uploader's submissions, and targets could be destroyed too early.
        if !memory.deletion_queue().tracker().tracks(memory.allocator().device()) {
            return Err(UploadError::WrongDevice);
        }
        let device = memory.allocator().device();
        let queues = &device.properties().queues;
        let first = |kind| (0..).zip(queues).find(|(_, queue)| **queue == kind).map(|(i, _)| QueueIndex(i));
        // Transfer queues copy beside rendering. Images stay on the graphics queue: it copies all aspects and any box.
        let queue = desc.queue.or_else(|| first(QueueKind::Transfer)).unwrap_or(QueueIndex(0));
        let image_queue = desc.image_queue.or_else(|| first(QueueKind::Graphics)).unwrap_or(QueueIndex(0));
        for queue in [queue, image_queue] {
            if usize::from(queue.0) >= queues.len() {
                return Err(UploadError::NoSuchQueue { queue });
            }
        }
        let owner = home_queue(device);
        let is_foreign = |queue| !is_of_home_family(device, queue);
        let limits = FrameLimits { bytes: desc.streamed_bytes_per_frame, time: desc.streamed_time_per_frame };
        let owner_of = |queue| is_foreign(queue).then_some(owner);
        let lane = |queue| Lane::new(queue, owner_of(queue), desc.staging, desc.when_full, limits);
        // Each lane has staging memory of its own; one queue needs no second one.
        let images = (image_queue != queue).then(|| lane(image_queue));
        Ok(Self {
            memory: memory.clone(),
            id: memory.allocator().writers().new_writer(),
            buffers: lane(queue),
            images,
            home: is_foreign(image_queue).then(|| lane(owner)),
            direct_bytes: AtomicU64::new(0),
            host_copied_bytes: AtomicU64::new(0),
            copies_from_host: desc.copies_from_host,
            is_lost: AtomicBool::new(false),
            has_handles: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// Writes a range that the device does not use yet: only work submitted from now on reads it. If the CPU can
    /// access the buffer, the bytes are written at once; otherwise they are staged, and written when the points
    /// that [`submit`](Self::submit) returns are reached.
    ///
    /// If the device uses the range nevertheless, it sees the old or the new bytes. If earlier bytes of this
    /// uploader for the same buffer are still pending, these are staged too, and are written after them; likewise
    /// where the copy of a [relocatable](crate::AllocationOptions::relocatable) buffer to its current place is. A step of
    /// another thread that is about to move the buffer is waited for, which takes as long as its driver calls.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::DeviceUpload.with_name("mesh"))?;
    /// uploader.initialize(&mesh, 0, &[7; 4096])?;
    /// assert_eq!(uploader.statistics().direct_bytes, 4096, "the CPU can write to the memory of this card");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError`]. Where staging memory is [waited](super::WhenFull::Wait) for, some of the bytes may have been
    /// written or be on their way; else nothing is.
    #[inline(never)]
    pub fn initialize(&self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.initialize_as(None, to, offset, bytes)
    }

    pub(crate) fn initialize_as(
        &self,
        handle: Option<&UploadHandle>,
        to: &Buffer<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.writing(to.short_name(), handle, bytes.len() as u64, |written| {
            let tracker = self.tracker();
            let mut stay = Stay::default();
            // The whole range, before any of it is written.
            let is_shared = to.with_owned(|to, _| {
                self.check_buffer(to, offset, bytes.len() as u64)?;
                Ok::<_, UploadError>(to.is_shared())
            })?;
            // Until the bytes are there: what another uploader has on its way would come after them.
            let _mark = self.mark_exclusive(to.id(), is_shared)?;
            let (mut now, mut rest) = (bytes, &[][..]);
            if to.is_relocatable() && bytes.len() > DIRECT_PIECE {
                (now, rest) = bytes.split_at(DIRECT_PIECE);
                // From the first piece to the last: none of them may be refused once the first is written.
                stay.open(tracker, &self.buffers);
            }
            let mut is_first = true;
            loop {
                let at = offset + *written;
                let write = || self.write_directly(to, at, now, is_first);
                if !stay.beside_steps(tracker, &self.buffers, write)? {
                    return self.write_staged((to, at), bytes, &TimelinePoints::EMPTY, stay, handle, written);
                }
                *written += now.len() as u64;
                if rest.is_empty() {
                    return Ok(());
                }
                (now, rest) = rest.split_at(rest.len().min(DIRECT_PIECE));
                is_first = false;
            }
        })
    }

    /// Writes a piece through the mapping. Returns false, with nothing written, where all of the write has to be staged, which
    /// its first piece decides.
    fn write_directly(
        &self,
        to: &Buffer<D>,
        offset: u64,
        bytes: &[u8],
        is_first: bool,
    ) -> Result<bool, UploadError> {
        // Bytes that another thread stages from here on may arrive before or after this write. Not asked under the lock of the
        // target: who stages bytes takes the lock of the lane first.
        if is_first && self.buffers.writes_to(self.tracker(), to.id()) {
            return Ok(false);
        }
        to.with_contents(|to, moved_at| {
            self.check_buffer(to, offset, bytes.len() as u64)?;
            // The copy of a move would overwrite what the CPU writes before it. Memory of the GPU's alone is mapped here where it
            // can be: a write in place is cheaper than any staging.
            let is_reachable = || !to.has_ranges() && self.memory.allocator().is_reachable(to.allocation());
            if is_first && (moved_at.is_some() || !is_reachable()) {
                return Ok(false);
            }
            self.memory.allocator().write(to.allocation(), offset, bytes)?;
            self.direct_bytes.fetch_add(bytes.len() as u64, Relaxed);
            Ok(true)
        })
    }

    /// Writes a range that the device may be using: the bytes are staged, and written after everything submitted to
    /// the uploader's queue before, and after the points passed to [`wait_for`](Self::wait_for).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let lights = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("lights"))?;
    /// uploader.update(&lights, 64, &[7; 64])?; // a frame may read the buffer now
    /// gpu.wait(uploader.submit()?)?;
    /// assert_eq!(uploader.statistics().staged_bytes, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`initialize`](Self::initialize), and [`UploadError::ReadOnly`].
    #[inline(never)]
    pub fn update(&self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.update_as(None, to, offset, bytes, &TimelinePoints::EMPTY)
    }

    /// Writes as [`update`](Self::update) does, and makes the batches that have the bytes wait for these points as well, which
    /// are submitted.
    pub(crate) fn update_as(
        &self,
        handle: Option<&UploadHandle>,
        to: &Buffer<D>,
        offset: u64,
        bytes: &[u8],
        points: &TimelinePoints,
    ) -> Result<(), UploadError> {
        self.writing(to.short_name(), handle, bytes.len() as u64, |written| {
            self.write_staged((to, offset), bytes, points, Stay::default(), handle, written)
        })
    }

    fn write_staged(
        &self,
        (to, offset): (&Buffer<D>, u64),
        bytes: &[u8],
        points: &TimelinePoints,
        mut stay: Stay,
        handle: Option<&UploadHandle>,
        written: &mut u64,
    ) -> Result<(), UploadError> {
        let tracker = self.tracker();
        let check = || to.with_owned(|to, _| self.check_staged(to, offset, bytes.len() as u64));
        let Target { id, is_shared } = stay.beside_steps(tracker, &self.buffers, check)?;
        if bytes.is_empty() {
            // Vulkan does not allow copies of size 0.
            return Ok(());
        }
        let mark = self.mark_exclusive(id, is_shared)?;
        // After the mark: until then, another resource that is placed there could get the bytes.
        self.memory.allocator().check_settled(id)?;
        let lane = &self.buffers;
        // Another family than that of the lane's queue uses it.
        let is_exclusive = !is_shared && lane.is_foreign();
        lane.check(bytes.len() as u64)?;
        // A piece larger than a `usize` is larger than every slice.
        let most = usize::try_from(lane.piece()).unwrap_or(usize::MAX);
        let mut to_offset = offset;
        for bytes in bytes.chunks(most) {
            let size = bytes.len() as u64;
            let piece = Piece { handle, is_exclusive, ..Piece::of_buffer(id, to_offset, size) };
            let fill = |staging: &MappedBuffer<D>, at| Ok(staging.write(at, bytes)?);
            let record = |batch: &mut LaneState<D>, from_offset| {
                to.with_contents(|owned, moved_at| {
                    if to.is_relocatable() || owned.has_ranges() {
                        // It may have moved since the last look, or the piece may be gone. The recording is open now, so what is
                        // right stays right.
                        self.check_staged(owned, to_offset, size)?;
                    }
                    if is_exclusive {
                        batch.wait_for_acquires((id, to_offset, size));
                    }
                    // Another queue executes the copy by which defragmentation moved the target.
                    moved_at.into_iter().chain(points.points()).for_each(|point| batch.wait_for(point));
                    batch.add_copy(&piece, from_offset, owned.handle(), mark.clone());
                    Ok(())
                })
            };
            stay.beside_steps(tracker, &self.buffers, || {
                lane.stage(&self.memory, &piece, None, fill, record)
            })?;
            to_offset += size;
            *written += size;
        }
        Ok(())
    }

    /// Calls `work`, which writes as many bytes to the resource of this name and counts them, unless the device is lost; and
    /// looks at orphans and handles afterwards.
    pub(super) fn writing(
        &self,
        name: ShortName,
        handle: Option<&UploadHandle>,
        size: u64,
        work: impl FnOnce(&mut u64) -> Result<(), UploadError>,
    ) -> Result<(), UploadError> {
        if let Some(handle) = handle {
            self.has_handles.store(true, Relaxed);
            handle.begin_write();
        }
        let mut running = Running { handle, failed: true, cancelled: false };
        let mut written = 0;
        let done = self.visiting_orphans(true, || {
            self.while_alive(|| {
                // For direct writes; staged ones look again.
                self.check_open(handle)?;
                work(&mut written)
            })
        });
        let done = done.map_err(|error| error.interrupted(written, size - written).of(name));
        running.cancelled = matches!(done, Err(UploadError::Interrupted { by: Interruption::Cancelled, .. }));
        running.failed = done.is_err() && !running.cancelled;
        drop(running);
        done
    }

    /// Returns an error where writes are refused, or this one was cancelled.
    pub(super) fn check_open(&self, handle: Option<&UploadHandle>) -> Result<(), UploadError> {
        let by = match handle {
            _ if self.is_stopped.load(Relaxed) => Interruption::Stopped,
            Some(handle) if handle.is_cancelled() => Interruption::Cancelled,
            _ => return Ok(()),
        };
        Err(UploadError::from_interruption(by))
    }

    pub(super) fn count_host_copy(&self, bytes: u64) {
        self.host_copied_bytes.fetch_add(bytes, Relaxed);
    }

    /// Calls `work`, which may close recordings, and looks at orphans and handles afterwards, with no lock held; `waits` for
    /// threads that submit.
    fn visiting_orphans<T>(&self, waits: bool, work: impl FnOnce() -> T) -> T {
        let done = work();
        self.tracker().visit_orphans();
        self.finish_handles(waits);
        done
    }

    fn finish_handles(&self, waits: bool) {
        if self.has_handles.load(Relaxed) {
            let mut panics = Panics::default();
            self.lanes().for_each(|lane| lane.finish_handles(self.tracker(), waits, &mut panics));
        }
    }

    /// Looks as [`poll`](Self::poll) does, for a frame, which waits for no thread that submits: the next one looks again.
    pub(crate) fn poll_of_frame(&self) {
        self.finish_handles(false);
    }

    /// Looks which uploads have arrived: wakes the tasks that wait for their [handles](UploadHandle), and calls their
    /// callbacks. With a `Gpu`, each end of a frame does this.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{UploadHandle, UploadStatus, Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let handle = UploadHandle::new();
    /// uploader.with_handle(&handle).initialize(&mesh, 0, &[7; 4096])?;
    /// gpu.wait(uploader.submit()?)?;
    /// uploader.poll();
    /// assert_eq!(handle.status(), UploadStatus::Arrived);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll(&self) {
        self.finish_handles(true);
    }

    /// Returns an object whose writes are those of a handle.
    pub fn with_handle<'a>(&'a self, handle: &'a UploadHandle) -> HandledWrites<'a, D> {
        HandledWrites { uploader: self, handle }
    }

    /// Refuses all writes until [`resume`](Self::resume), and wakes the threads that wait for staging memory: their writes
    /// return [`UploadError::Interrupted`]. What is staged can be submitted or discarded.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// uploader.stop(); // the program ends, and joins its loader threads
    /// assert!(uploader.update(&mesh, 0, &[7; 4096]).is_err());
    /// uploader.resume();
    /// uploader.update(&mesh, 0, &[7; 4096])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        self.lanes().for_each(|lane| lane.set_stopped(true));
    }

    /// Accepts writes again after [`stop`](Self::stop).
    pub fn resume(&self) {
        self.is_stopped.store(false, Relaxed);
        self.lanes().for_each(|lane| lane.set_stopped(false));
    }

    pub(super) fn tracker(&self) -> &SubmissionTracker {
        self.memory.deletion_queue().tracker()
    }

    /// Calls `work` unless the device is lost. If the device turns out to be lost, discards the staged data, which
    /// would otherwise keep its targets alive forever.
    fn while_alive<T>(&self, work: impl FnOnce() -> Result<T, UploadError>) -> Result<T, UploadError> {
        // Asked before the work as well: on a lost device a direct write would seem to succeed, though no queue reads
        // it any more.
        let is_known = self.is_lost.load(Relaxed) || self.tracker().is_lost();
        let done = if is_known { Err(UploadError::from(DeviceError::Lost)) } else { work() };
        if done.as_ref().is_err_and(UploadError::is_loss) {
            self.is_lost.store(true, Relaxed);
            self.lanes().for_each(Lane::lose);
        }
        done
    }

    fn check_buffer(
        &self,
        to: &Owned<Unique<D, Buffers>>,
        offset: u64,
        size: u64,
    ) -> Result<MemoryLocation<D>, UploadError> {
        let place = self.check_owner(to.tracker(), to.allocation())?;
        to.check_bytes(offset, size, place.size)?;
        Ok(place)
    }

    /// Checks that the target's owner waits for this uploader's recordings, and returns its location.
    pub(super) fn check_owner(
        &self,
        tracker: &SubmissionTracker,
        allocation: &Allocation,
    ) -> Result<MemoryLocation<D>, UploadError> {
        self.tracker().check_same(tracker)?;
        Ok(self.memory.allocator().place_of_written(allocation)?)
    }

    /// Marks an exclusive buffer as written by this uploader, or one that is placed, whose bytes no other resource gets meanwhile.
    /// One that all queues share may have several writers otherwise.
    fn mark_exclusive(
        &self,
        buffer: AllocationId,
        is_shared: bool,
    ) -> Result<Option<WriteMark>, UploadError> {
        let is_placed = self.memory.allocator().is_placed(buffer);
        if is_shared && !is_placed { Ok(None) } else { self.mark(buffer).map(Some) }
    }

    /// Marks a resource as written by this uploader.
    pub(super) fn mark(&self, resource: AllocationId) -> Result<WriteMark, UploadError> {
        Ok(self.memory.allocator().writers().write(resource, self.id)?)
    }

    /// Returns what tells this uploader from others.
    pub(super) fn id(&self) -> WriterId {
        self.id
    }

    /// Checks that a queue can write a range of a buffer.
    fn check_staged(
        &self,
        to: &Owned<Unique<D, Buffers>>,
        offset: u64,
        size: u64,
    ) -> Result<Target, UploadError> {
        let place = self.check_buffer(to, offset, size)?;
        let found = self.memory.allocator().device().properties().memory_type(place.memory_type);
        if found.is_some_and(|found| found.properties.contains(MemoryProperties::DEVICE_READ_ONLY)) {
            return Err(UploadError::ReadOnly { memory_type: place.memory_type, name: ShortName::NONE });
        }
        to.check_usage(TransferUsage::DST)?;
        Ok(Target { id: to.allocation().id(), is_shared: to.is_shared() })
    }

    /// Makes all data that is staged from now on, and all staged data not yet submitted, wait for a point on a
    /// queue's timeline: for example for the last work that still reads the target.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{Uploader, UploaderDesc};
    ///
    /// let uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let lights = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("lights"))?;
    /// let read = gpu.submit(gpu.record("reads the lights"), QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    /// })?;
    /// uploader.wait_for(read)?; // another queue copies, so it waits on the GPU
    /// uploader.update(&lights, 0, &[7; 64])?;
    /// gpu.wait(uploader.submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError::NoSuchQueue`]; [`UploadError::NotSubmitted`] if the queue was not given the work of the point yet. The
    /// uploader is unchanged then.
    #[inline(never)]
    pub fn wait_for(&self, point: TimelinePoint) -> Result<(), UploadError> {
        self.while_alive(|| {
            let device = self.memory.allocator().device();
            let queue = point.queue;
            if usize::from(queue.0) >= device.properties().queues.len() {
                return Err(UploadError::NoSuchQueue { queue });
            }
            if point.value > device.submitted(queue) {
                // What comes before it on its queue may be waiting for this uploader's batches: the next upload of another
                // uploader, the acquire of an exclusive resource, or a read.
                return Err(UploadError::NotSubmitted { point });
            }
            self.lanes().for_each(|lane| lane.wait_for(point));
            Ok(())
        })
    }

    /// Submits the staged data. Returns the points at which all data written so far is in place, except what was
    /// [streamed](UploadHandle::streamed): one on the queue for buffers and one on the queue for images, and one on the queue
    /// that has taken over exclusive resources from queues of other families. Work that reads the data waits for them. Does
    /// nothing if nothing is staged.
    ///
    /// # Errors
    ///
    /// [`UploadError::Device`]; the staged data is kept, and can be submitted again or [discarded](Self::discard).
    /// After [`DeviceError::Lost`] it is discarded.
    #[inline(never)]
    pub fn submit(&self) -> Result<TimelinePoints, UploadError> {
        self.submit_for(None)
    }

    /// Submits as [`submit`](Self::submit) does. `queue`, which is going to use what was written, takes exclusive resources
    /// over, if it is of the family to which they belong.
    pub(crate) fn submit_for(&self, queue: Option<QueueIndex>) -> Result<TimelinePoints, UploadError> {
        let device = self.memory.allocator().device();
        // A program that submits by itself may not do so again.
        let streamed = if queue.is_some() { Streamed::Left } else { Streamed::Submitted };
        let exists = |queue: &QueueIndex| usize::from(queue.0) < device.properties().queues.len();
        let queue = queue.filter(|queue| exists(queue) && is_of_home_family(device, *queue));
        self.visiting_orphans(streamed == Streamed::Submitted, || {
            self.while_alive(|| {
                let mut points = TimelinePoints::EMPTY;
                for lane in self.lanes() {
                    let of_lane = lane.submit(&self.memory, queue, self.home_of(lane), streamed)?;
                    of_lane.points().for_each(|point| points.insert(point));
                }
                Ok(points)
            })
        })
    }

    /// Submits the staged data, also what is streamed, and hands over all exclusive resources.
    pub(crate) fn submit_all(&self) -> Result<(), UploadError> {
        self.visiting_orphans(true, || {
            let mut lanes = self.lanes();
            self.while_alive(|| lanes.try_for_each(|lane| lane.submit_all(&self.memory, self.home_of(lane))))
        })
    }

    /// Returns the points without what is streamed, where they are the last of their queues.
    pub(crate) fn without_streamed(&self, points: TimelinePoints) -> TimelinePoints {
        // Twice, since two lanes may have one queue, one after the other.
        let once = |point| self.lanes().try_fold(point, |point, lane| lane.without_streamed(point));
        points.points().filter_map(once).filter_map(once).collect()
    }

    /// Ends a frame: as much may be streamed again as
    /// [`UploaderDesc::streamed_bytes_per_frame`](super::UploaderDesc::streamed_bytes_per_frame) and
    /// [`streamed_time_per_frame`](super::UploaderDesc::streamed_time_per_frame) say. With a `Gpu`, each end of a frame does
    /// this for its uploader. Waits for nothing.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use core::time::Duration;
    /// use allotment::upload::{UploadHandle, Uploader, UploaderDesc};
    ///
    /// let mut desc = UploaderDesc::default();
    /// desc.streamed_bytes_per_frame = 8 << 20; // bytes
    /// desc.streamed_time_per_frame = Duration::from_millis(1); // of the queue that copies
    /// let uploader = Uploader::new(gpu.memory(), desc)?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let handle = UploadHandle::streamed();
    /// uploader.with_handle(&handle).initialize(&mesh, 0, &[7; 4096])?;
    /// uploader.submit()?; // once a frame
    /// uploader.next_frame();
    /// # gpu.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_frame(&self) {
        self.lanes().for_each(Lane::next_frame);
    }

    /// Discards staged data that was not submitted, and releases its targets; images keep the states that they were
    /// in before. Submitted data still arrives, perhaps the first pieces of a large write among it. Data staged
    /// from now on still waits for the points of [`wait_for`](Self::wait_for).
    pub fn discard(&self) {
        self.visiting_orphans(true, || self.lanes().for_each(Lane::discard));
    }

    /// Returns the queues for buffers and for images.
    #[must_use]
    pub fn queues(&self) -> [QueueIndex; 2] {
        let buffers = self.buffers.queue();
        [buffers, self.images.as_ref().map_or(buffers, Lane::queue)]
    }

    /// Returns statistics of finished and pending uploads. Queries the progress of the device.
    #[must_use]
    pub fn statistics(&self) -> UploaderStatistics {
        let mut statistics = UploaderStatistics {
            direct_bytes: self.direct_bytes.load(Relaxed),
            host_copied_bytes: self.host_copied_bytes.load(Relaxed),
            ..Default::default()
        };
        for lane in self.lanes() {
            let (of_lane, open_bytes, (batches, bytes)) = lane.statistics(self.tracker());
            statistics.staged_bytes += of_lane.staged_bytes;
            statistics.copies += of_lane.copies;
            statistics.submissions += of_lane.submissions;
            statistics.waits += of_lane.waits;
            statistics.longest_wait = statistics.longest_wait.max(of_lane.longest_wait);
            statistics.waiting += of_lane.waiting;
            statistics.refusals += of_lane.refusals;
            statistics.open_bytes += open_bytes;
            statistics.batches_in_flight += batches;
            statistics.bytes_in_flight += bytes;
        }
        statistics
    }

    /// Returns the bytes that are staged or in flight, where queues have reached these points; `None` where a thread stages
    /// right now. Asks no driver and waits for nothing, for a caller that holds a lock.
    pub(crate) fn bytes_in_use(&self, is_reached: impl Fn(TimelinePoint) -> bool + Copy) -> Option<u64> {
        self.lanes().map(|lane| lane.bytes_in_use(is_reached)).sum()
    }
}

impl<D: Device> Drop for Uploader<D> {
    fn drop(&mut self) {
        self.lanes().for_each(Lane::discard);
        // Hands over what was submitted and arrives: its family would find it undefined otherwise. Where the queues refuse
        // that, nothing more can be done.
        _ = self.submit_all();
        self.tracker().visit_orphans();
        self.finish_handles(true);
    }
}

impl<D: Device> fmt::Debug for Uploader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploader")
            .field("queues", &self.queues())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
