//! The way bytes take: write them, and they are there when the device reads.

use core::fmt;
use core::time::Duration;

use super::error::UploadError;
use super::lane::{Lane, StagedImage, WhenFull};
use crate::device::{
    Device, DeviceError, MemoryProperties, QueueIndex, QueueKind, TexelBlock, TimelinePoint, TransferUsage,
};
use crate::lifetime::{SubmissionTracker, TimelinePoints};
use crate::memory::{AccessError, Allocation, Buffer, Image, MemoryLocation, OwningAllocator};

/// How an [`Uploader`] works.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UploaderDesc {
    /// Bytes of staging memory a queue, got when it is used first. A quarter of them is submitted at a time: 32 MiB
    /// unless said otherwise, of which the copy of a quarter takes longer than its submission on any device.
    pub staging: u64,
    /// The queue that copies to buffers; unless said otherwise the first that is for transfers, where there is one,
    /// else the first.
    pub queue: Option<QueueIndex>,
    /// The queue that copies to images; unless said otherwise the first that can draw, else the first. On Vulkan an
    /// image belongs to a queue family, and it should be the one that uses the image then.
    pub image_queue: Option<QueueIndex>,
    /// What is done when staging memory is full of bytes on their way: wait for a second at most, unless said
    /// otherwise.
    pub when_full: WhenFull,
}

impl Default for UploaderDesc {
    fn default() -> Self {
        Self {
            staging: 32 << 20,
            queue: None,
            image_queue: None,
            when_full: WhenFull::Wait(Duration::from_secs(1)),
        }
    }
}

/// What went through an uploader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploaderStatistics {
    /// Bytes that the CPU wrote where they belong.
    pub direct_bytes: u64,
    /// Bytes that were staged and copied by a queue, padding of rows included.
    pub staged_bytes: u64,
    /// Copies for them. Small writes that follow each other share one.
    pub copies: u64,
    /// Submissions for these.
    pub submissions: u64,
    /// How often staging memory was full and the device was waited for.
    pub waits: u64,
    /// How often it was full and bytes were refused.
    pub refusals: u64,
    /// Bytes that are staged and not submitted now.
    pub open_bytes: u64,
    /// Batches that were submitted and that queues are not done with.
    pub batches_in_flight: u64,
    /// Bytes of these.
    pub bytes_in_flight: u64,
}

/// Which texels of an image are written, and what state its subresource is in before and after.
#[derive(Clone, Copy, Debug)]
pub struct ImageWrite<S> {
    /// The mip level.
    pub mip_level: u32,
    /// The array layer.
    pub array_layer: u32,
    /// The first texel: x, y and z.
    pub origin: [u32; 3],
    /// Width, height and depth in texels.
    pub extent: [u32; 3],
    /// What the image's format packs together.
    pub texel: TexelBlock,
    /// The state that the subresource is in when the copy begins.
    pub before: S,
    /// The state that it shall be in when the copy is done.
    pub after: S,
}

/// Writes bytes into buffers and images: directly where the CPU reaches them and nobody else does yet, else through
/// staging memory and a queue.
///
/// What is staged goes with [`submit`](Self::submit), or before: when a quarter of the staging memory is full (not
/// with [`WhenFull::Refuse`]), when bytes are written a second time, or after 1,024 copies. Dropping an uploader
/// [discards](Self::discard) what is staged and not submitted. One thread uses it at a time; several may have one
/// each. Steady traffic makes no heap allocation and no driver call but one submission a batch.
///
/// Once the device is lost, what is staged is discarded, so that it keeps nothing alive, and every write and
/// submission returns [`DeviceError::Lost`].
///
/// Should a submission panic, its batch is gone, and nobody knows whether the queue has it: write those bytes again.
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
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
/// let mut uploader = Uploader::new(&memory, UploaderDesc::default())?;
///
/// let desc = MemoryUsage::GpuOnly.with_name("mesh");
/// let mesh = memory.create_buffer(&BufferDesc::new(1 << 20), &desc)?;
/// uploader.initialize(&mesh, 0, &vec![7; 1 << 20])?;
/// let there = uploader.submit()?;      // what draws the mesh waits for these points, on the device
/// tracker.wait_all(&there, Duration::from_secs(1))?;
/// assert_eq!(uploader.statistics().staged_bytes, 1 << 20, "this machine's CPU reaches no device memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Uploader<D: Device> {
    memory: OwningAllocator<D>,
    buffers: Lane<D>,
    /// `None` where they go the same way.
    images: Option<Lane<D>>,
    direct_bytes: u64,
    /// The device is gone.
    lost: bool,
}

impl<D: Device> Uploader<D> {
    /// An uploader to what `memory` makes.
    ///
    /// # Errors
    ///
    /// [`UploadError::NoSuchQueue`]; [`UploadError::WrongDevice`] where the tracker of `memory`'s deletion queue tracks
    /// another device than the allocator's.
    pub fn new(memory: &OwningAllocator<D>, desc: UploaderDesc) -> Result<Self, UploadError> {
        // Or what is submitted here would be unknown to whoever says when targets may go.
        if !memory.deletion_queue().tracker().tracks(memory.allocator().device()) {
            return Err(UploadError::WrongDevice);
        }
        let queues = &memory.allocator().device().properties().queues;
        let first =
            |kind| (0..).zip(queues).find(|(_, queue)| queue.kind == kind).map(|(i, _)| QueueIndex(i));
        let queue = desc.queue.or_else(|| first(QueueKind::Transfer)).unwrap_or(QueueIndex(0));
        let image_queue = desc.image_queue.or_else(|| first(QueueKind::Graphics)).unwrap_or(QueueIndex(0));
        for queue in [queue, image_queue] {
            if usize::from(queue.0) >= queues.len() {
                return Err(UploadError::NoSuchQueue { queue });
            }
        }
        let lane = |queue| Lane::new(queue, desc.staging, desc.when_full);
        let images = (image_queue != queue).then(|| lane(image_queue));
        Ok(Self { memory: memory.clone(), buffers: lane(queue), images, direct_bytes: 0, lost: false })
    }

    /// Writes bytes that nothing uses yet: the device reads them only in what is submitted from now on. Where the CPU
    /// reaches the buffer they are there at once; else they are staged, and there when what
    /// [`submit`](Self::submit) returns is reached.
    ///
    /// Should the device use them nevertheless, it sees the old bytes or the new ones. Where bytes of this uploader are
    /// still on their way to the same buffer, these are staged too, and come after those.
    ///
    /// # Errors
    ///
    /// [`UploadError`]. Where staging memory is [waited](WhenFull::Wait) for, some of the bytes may have been written
    /// or be on their way; else nothing is.
    pub fn initialize(&mut self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.while_alive(|this| {
            let place = this.check_buffer(to, offset, bytes)?;
            let tracker = this.memory.deletion_queue().tracker();
            if place.mapped_ptr.is_none() || this.buffers.writes_to(tracker, to.allocation().id()) {
                return this.stage(to, &place, offset, bytes);
            }
            this.memory.allocator().write(to.allocation(), offset, bytes)?;
            this.direct_bytes += bytes.len() as u64;
            Ok(())
        })
    }

    /// Writes bytes that the device may be using: they are staged, and change after all that the queue was given
    /// before, and after what [`wait_for`](Self::wait_for) was told.
    ///
    /// # Errors
    ///
    /// As for [`initialize`](Self::initialize), and [`UploadError::ReadOnly`].
    pub fn update(&mut self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.while_alive(|this| {
            let place = this.check_buffer(to, offset, bytes)?;
            this.stage(to, &place, offset, bytes)
        })
    }

    /// Does something, unless the device is lost. Where it turns out to be, what is staged goes: it would keep its
    /// targets alive for ever.
    fn while_alive<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, UploadError>,
    ) -> Result<T, UploadError> {
        const LOST: UploadError = UploadError::Device(DeviceError::Lost);
        const LOST_AT_A_WRITE: UploadError = UploadError::Access(AccessError::Device(DeviceError::Lost));
        let done = if self.lost || self.memory.deletion_queue().tracker().is_lost() {
            Err(LOST)
        } else {
            work(self)
        };
        if matches!(done, Err(LOST | LOST_AT_A_WRITE)) {
            self.lost = true;
            self.discard();
        }
        done
    }

    fn check_buffer(
        &self,
        to: &Buffer<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<MemoryLocation<D>, UploadError> {
        let place = self.check_owner(to.tracker(), to.allocation())?;
        let (size, available) = (bytes.len() as u64, to.size().min(place.size));
        match offset.checked_add(size) {
            Some(end) if end <= available => Ok(place),
            _ => Err(AccessError::OutOfRange { offset, size, available }.into()),
        }
    }

    /// Who owns a target must wait for this uploader's recordings.
    fn check_owner(
        &self,
        tracker: &SubmissionTracker,
        allocation: &Allocation,
    ) -> Result<MemoryLocation<D>, UploadError> {
        if !tracker.ptr_eq(self.memory.deletion_queue().tracker()) {
            return Err(UploadError::WrongTracker);
        }
        Ok(self.memory.allocator().place_of_bound(allocation)?)
    }

    fn stage(
        &mut self,
        to: &Buffer<D>,
        place: &MemoryLocation<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        let found = self.memory.allocator().device().properties().memory_type(place.memory_type);
        if found.is_some_and(|found| found.properties.contains(MemoryProperties::DEVICE_READ_ONLY)) {
            return Err(UploadError::ReadOnly { memory_type: place.memory_type });
        }
        to.check_usage(TransferUsage::DST)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.buffers.check(bytes.len() as u64)?;
        let target = to.allocation().id();
        let mut done = offset;
        // A piece larger than a `usize` is no piece of a slice.
        let piece = usize::try_from(self.buffers.piece()).unwrap_or(usize::MAX);
        for bytes in bytes.chunks(piece) {
            self.buffers.stage(&self.memory, (target, to.handle(), done), bytes)?;
            done += bytes.len() as u64;
        }
        Ok(())
    }

    /// Writes texels. `bytes` has them row by row, slice by slice, with nothing in between: of a compressed format,
    /// rows of blocks. They are always staged.
    ///
    /// # Errors
    ///
    /// [`UploadError`], as for [`initialize`](Self::initialize); [`UploadError::Size`] where there are more or fewer
    /// bytes than texels.
    ///
    /// # Safety
    ///
    /// As for an [`ImageCopy`](crate::device::ImageCopy) of [`Device::submit`]: the box lies in a subresource of the
    /// image, `texel` is its format's, the subresource is in the state `before` when the copy begins, the image can
    /// be copied to, and on Vulkan it belongs to the family of the uploader's
    /// [image queue](UploaderDesc::image_queue).
    pub unsafe fn write_image(
        &mut self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.while_alive(|this| this.stage_image(to, write, bytes))
    }

    fn stage_image(
        &mut self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.check_owner(to.tracker(), to.allocation())?;
        let ImageWrite { texel, extent: [width, height, depth], origin, .. } = *write;
        let rows = texel.rows(height);
        let row = texel.row_bytes(width);
        let wanted = u128::from(row) * u128::from(rows) * u128::from(depth);
        if wanted != bytes.len() as u128 {
            return Err(UploadError::Size { wanted, found: bytes.len() as u64 });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let limits = &self.memory.allocator().device().properties().limits;
        let pitch = texel.row_pitch(width, limits);
        let lane = self.images.as_mut().unwrap_or(&mut self.buffers);
        lane.check(pitch.saturating_mul(u64::from(rows)).saturating_mul(u64::from(depth)))?;
        // Rows that are staged at once: of one slice, or of all of them where the whole box fits.
        let fit = u32::try_from(lane.piece() / pitch.max(1)).unwrap_or(u32::MAX);
        let whole = u64::from(rows) * u64::from(depth) <= u64::from(fit);
        let (step, slices) = if whole { (rows, depth) } else { (fit.clamp(1, rows), 1) };
        let mut before = write.before;
        let mut rest = bytes;
        for z in (0..depth).step_by(slices as usize) {
            for first in (0..rows).step_by(step as usize) {
                let count = step.min(rows - first);
                let (now, later) = rest.split_at(row as usize * count as usize * slices as usize);
                rest = later;
                let y = first * texel.height;
                let piece = |from_offset| StagedImage {
                    image: to.handle().clone(),
                    from_offset: texel.offset(from_offset, limits),
                    row_pitch: pitch,
                    rows: count,
                    mip_level: write.mip_level,
                    array_layer: write.array_layer,
                    origin: [origin[0], origin[1] + y, origin[2] + z],
                    extent: [width, (count * texel.height).min(height - y), slices],
                    texel,
                    before,
                    after: write.after,
                };
                // Where an offset is a multiple of no power of two there may be less room than asked for.
                let size = pitch * u64::from(count) * u64::from(slices) + texel.offset(1, limits);
                lane.stage_image(&self.memory, (size, limits.image_copy_offset_alignment), piece, |slice| {
                    let at = texel.offset(slice.offset(), limits) - slice.offset();
                    if pitch == row {
                        return slice.write(at, now);
                    }
                    let mut rows = (0..).zip(now.chunks(row as usize));
                    rows.try_for_each(|(i, row)| slice.write(at + i * pitch, row))
                })?;
                before = write.after;
            }
        }
        Ok(())
    }

    /// What is staged from now on, and what is staged and not submitted, waits for a point on some queue's timeline:
    /// for the end of what still reads there.
    ///
    /// # Errors
    ///
    /// [`UploadError::NoSuchQueue`]; [`UploadError::WaitsForItself`] where the point is one of an uploader's own queue
    /// that nothing was submitted for yet. Nothing has changed then.
    pub fn wait_for(&mut self, point: TimelinePoint) -> Result<(), UploadError> {
        self.while_alive(|this| {
            let device = this.memory.allocator().device();
            let queue = point.queue;
            if usize::from(queue.0) >= device.properties().queues.len() {
                return Err(UploadError::NoSuchQueue { queue });
            }
            if this.queues().contains(&queue) && point.value > device.submitted(queue) {
                return Err(UploadError::WaitsForItself { point });
            }
            this.lanes_mut().for_each(|lane| lane.wait_for(point));
            Ok(())
        })
    }

    /// Submits what is staged. Returns the points that all bytes written so far are there at: on the queues for
    /// buffers and for images. What reads them waits for these. Does nothing where nothing is staged.
    ///
    /// # Errors
    ///
    /// [`UploadError::Device`]; what is staged stays so, and can be submitted again, or
    /// [discarded](Self::discard). After [`DeviceError::Lost`] it is gone.
    pub fn submit(&mut self) -> Result<TimelinePoints, UploadError> {
        self.while_alive(|this| {
            let mut points = TimelinePoints::EMPTY;
            for lane in [Some(&mut this.buffers), this.images.as_mut()].into_iter().flatten() {
                lane.flush(&this.memory)?;
                lane.last().into_iter().for_each(|point| points.insert(point));
            }
            Ok(points)
        })
    }

    /// Drops what is staged and not submitted, and lets go of its targets; images stay in the states that they were
    /// in before. What was submitted arrives, the first pieces of a large write perhaps among it. What is staged from
    /// now on still waits for what it was [told to](Self::wait_for).
    pub fn discard(&mut self) {
        self.lanes_mut().for_each(Lane::discard);
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane<D>> {
        [Some(&mut self.buffers), self.images.as_mut()].into_iter().flatten()
    }

    /// The queues for buffers and for images.
    #[must_use]
    pub fn queues(&self) -> [QueueIndex; 2] {
        let buffers = self.buffers.queue();
        [buffers, self.images.as_ref().map_or(buffers, Lane::queue)]
    }

    /// What went through, and what is on its way. Asks the device how far it is.
    #[must_use]
    pub fn statistics(&self) -> UploaderStatistics {
        let mut statistics = UploaderStatistics { direct_bytes: self.direct_bytes, ..Default::default() };
        for lane in [Some(&self.buffers), self.images.as_ref()].into_iter().flatten() {
            statistics.staged_bytes += lane.statistics.staged_bytes;
            statistics.copies += lane.statistics.copies;
            statistics.submissions += lane.statistics.submissions;
            statistics.waits += lane.statistics.waits;
            statistics.refusals += lane.statistics.refusals;
            statistics.open_bytes += lane.open_bytes();
            let (batches, bytes) = lane.in_flight(self.memory.deletion_queue().tracker());
            statistics.batches_in_flight += batches;
            statistics.bytes_in_flight += bytes;
        }
        statistics
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
