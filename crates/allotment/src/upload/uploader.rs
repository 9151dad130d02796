//! Uploads of buffer and image data, direct or through staging.

use core::fmt;
use std::sync::Arc;

use super::error::UploadError;
use super::lane::{Lane, StagedImage};
use super::uploader_desc::UploaderDesc;
use crate::device::{
    Device, DeviceError, ImageCopyError, MemoryProperties, QueueIndex, QueueKind, TexelBlock, TimelinePoint,
    TransferUsage,
};
use crate::lifetime::{Owned, SubmissionTracker, TimelinePoints};
use crate::memory::kinds::{Buffers, Images};
use crate::memory::resource::SharedStates;
use crate::memory::{
    AccessError, Allocation, Buffer, Image, MemoryLocation, OwningAllocator, ShortName, Unique, check_range,
};
use crate::sync::locked;

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
    /// Bytes that the CPU wrote directly to their target.
    pub direct_bytes: u64,
    /// Bytes that were staged and copied by a queue, including row padding.
    pub staged_bytes: u64,
    /// Copies of staged bytes. Small consecutive writes share one.
    pub copies: u64,
    /// Submissions of these copies.
    pub submissions: u64,
    /// Waits for the device because staging memory was full.
    pub waits: u64,
    /// Writes refused because staging memory was full.
    pub refusals: u64,
    /// Bytes staged and not yet submitted.
    pub open_bytes: u64,
    /// Batches submitted and not yet completed.
    pub batches_in_flight: u64,
    /// Bytes of these batches.
    pub bytes_in_flight: u64,
}

/// The texels of an image that are written, and the states of the subresource before and after.
///
/// ```
/// use allotment::device::TexelBlock;
/// use allotment::upload::ImageWrite;
///
/// // The second mip level of a texture of 256 × 256 texels in BC7: blocks of 4 × 4 texels with 16 bytes each.
/// let write = ImageWrite {
///     mip_level: 1,
///     array_layer: 0,
///     origin: [0, 0, 0],
///     extent: [128, 128, 1],
///     texel: TexelBlock { bytes: 16, width: 4, height: 4 },
///     before: (), // `VK_IMAGE_LAYOUT_UNDEFINED`, say
///     after: (),  // `VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL`
/// };
/// let bytes = write.texel.row_bytes(128) * u64::from(write.texel.rows(128));
/// assert_eq!(bytes, 128 * 128); // one byte a texel
/// ```
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
    /// The texel block of the image's format.
    pub texel: TexelBlock,
    /// The state of the subresource when the copy begins: a `VkImageLayout` on Vulkan, `D3D12_RESOURCE_STATES` on
    /// Direct3D 12, `()` on the simulated GPU. The default is that of a newly created image.
    pub before: S,
    /// The state of the subresource when the copy has completed.
    pub after: S,
}

impl<S: Default> ImageWrite<S> {
    /// Describes a write of the whole first mip level of a newly created image, of its first array layer.
    ///
    /// ```
    /// use allotment::device::TexelBlock;
    /// use allotment::upload::ImageWrite;
    ///
    /// let write: ImageWrite<()> = ImageWrite::whole([256, 256, 1], TexelBlock::new(4), ());
    /// assert_eq!((write.mip_level, write.array_layer, write.origin), (0, 0, [0; 3]));
    /// ```
    #[must_use]
    pub fn whole(extent: [u32; 3], texel: TexelBlock, after: S) -> Self {
        Self { mip_level: 0, array_layer: 0, origin: [0; 3], extent, texel, before: S::default(), after }
    }
}

/// Writes data into buffers and images: directly if the CPU can access the memory and the device does not use it
/// yet, otherwise through staging memory and a queue.
///
/// Staged data is submitted by [`submit`](Self::submit), or earlier: when a quarter of the staging memory is full
/// (except with [`Refuse`](super::WhenFull::Refuse)), when a staged range is written again, or after 1,024 copies.
/// Dropping an uploader [discards](Self::discard) staged data that was not submitted. One thread at a time uses an
/// uploader; several threads may have one each. In steady state, the only heap allocation or driver call is one
/// submission per batch.
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
/// let mut uploader = Uploader::new(&memory, UploaderDesc::default())?;
///
/// let desc = MemoryUsage::GpuOnly.with_name("mesh");
/// let mesh = memory.create_buffer(&BufferDesc::new(1 << 20), &desc)?;
/// uploader.initialize(&mesh, 0, &vec![7; 1 << 20])?;
/// let uploaded = uploader.submit()?;   // work that draws the mesh waits for these points, on the device
/// tracker.wait_all(&uploaded, Duration::from_secs(1))?;
/// assert_eq!(uploader.statistics().staged_bytes, 1 << 20, "this device has no host-visible device memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Uploader<D: Device> {
    memory: OwningAllocator<D>,
    buffers: Lane<D>,
    /// `None` if images use the same queue as buffers.
    images: Option<Lane<D>>,
    direct_bytes: u64,
    /// The device is lost.
    lost: bool,
    /// Others look at orphans after a call.
    leaves_orphans: bool,
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
        let queues = &memory.allocator().device().properties().queues;
        let first = |kind| (0..).zip(queues).find(|(_, queue)| **queue == kind).map(|(i, _)| QueueIndex(i));
        // Transfer queues copy beside rendering; images stay on the graphics queue, as Vulkan would need a queue
        // family ownership transfer otherwise.
        let queue = desc.queue.or_else(|| first(QueueKind::Transfer)).unwrap_or(QueueIndex(0));
        let image_queue = desc.image_queue.or_else(|| first(QueueKind::Graphics)).unwrap_or(QueueIndex(0));
        for queue in [queue, image_queue] {
            if usize::from(queue.0) >= queues.len() {
                return Err(UploadError::NoSuchQueue { queue });
            }
        }
        let lane = |queue| Lane::new(queue, desc.staging, desc.when_full);
        // Each lane has a ring of its own; one queue needs no second one.
        let images = (image_queue != queue).then(|| lane(image_queue));
        Ok(Self {
            memory: memory.clone(),
            buffers: lane(queue),
            images,
            direct_bytes: 0,
            lost: false,
            leaves_orphans: false,
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
    /// let mut uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
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
    pub fn initialize(&mut self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        let written = self.visiting_orphans(|this| {
            let written = match this.write_directly(to, offset, bytes) {
                Err(UploadError::Access(AccessError::Moving { .. })) if to.is_relocatable() => {
                    let shared = to.with_owned(|to, _| to.is_shared());
                    this.beside_steps(shared, |this| this.write_directly(to, offset, bytes))
                }
                written => written,
            };
            if written? { Ok(()) } else { this.write_staged(to, offset, bytes) }
        });
        written.map_err(|error| error.of(to.short_name()))
    }

    /// Writes through the mapping. Returns false, with nothing written, where the bytes have to be staged.
    fn write_directly(&mut self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<bool, UploadError> {
        to.with_contents(|to, moved_at| {
            self.while_alive(|this| {
                this.check_buffer(to, offset, bytes)?;
                let tracker = this.memory.deletion_queue().tracker();
                // The copy of a move would overwrite what the CPU writes before it.
                let lane = lane_of(&mut this.buffers, &mut this.images, to.is_shared());
                let is_staged = moved_at.is_some() || lane.writes_to(tracker, to.allocation().id());
                // Memory of the GPU's alone is mapped here where it can be: a write in place is cheaper than any staging.
                if is_staged || !this.memory.allocator().is_reachable(to.allocation()) {
                    return Ok(false);
                }
                this.memory.allocator().write(to.allocation(), offset, bytes)?;
                this.direct_bytes += bytes.len() as u64;
                Ok(true)
            })
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
    /// let mut uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
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
    pub fn update(&mut self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        let staged = self.visiting_orphans(|this| this.write_staged(to, offset, bytes));
        staged.map_err(|error| error.of(to.short_name()))
    }

    fn write_staged(&mut self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        let stage = |this: &mut Self| {
            to.with_contents(|to, moved_at| {
                this.while_alive(|this| {
                    let place = this.check_buffer(to, offset, bytes)?;
                    this.stage(to, moved_at, &place, offset, bytes)
                })
            })
        };
        if !to.is_relocatable() {
            return stage(self);
        }
        let shared = to.with_owned(|to, _| to.is_shared());
        self.beside_steps(shared, stage)
    }

    /// Calls `write` with a recording open, so that no step moves the target meanwhile. `write` takes the target's lock.
    fn beside_steps<T>(
        &mut self,
        shared: bool,
        mut write: impl FnMut(&mut Self) -> Result<T, UploadError>,
    ) -> Result<T, UploadError> {
        let memory = self.memory.clone();
        lane_of(&mut self.buffers, &mut self.images, shared).keep_open(&memory);
        let written = match write(self) {
            // A step has a place for the target. It ends without a move when it sees the recording, and no other begins.
            Err(UploadError::Access(AccessError::Moving { .. })) => {
                memory.deletion_queue().tracker().wait_for_passes();
                write(self)
            }
            written => written,
        };
        lane_of(&mut self.buffers, &mut self.images, shared).end_keep_open();
        written
    }

    /// Calls `work`, which may close recordings, and looks at orphans afterwards, unless the caller does.
    fn visiting_orphans<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let done = work(self);
        if !self.leaves_orphans {
            self.memory.deletion_queue().tracker().visit_orphans();
        }
        done
    }

    /// Leaves orphans to the caller, who holds a lock during the calls.
    pub(crate) fn leaving_orphans(mut self) -> Self {
        self.leaves_orphans = true;
        self
    }

    /// Calls `work` unless the device is lost. If the device turns out to be lost, discards the staged data, which
    /// would otherwise keep its targets alive forever.
    fn while_alive<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, UploadError>,
    ) -> Result<T, UploadError> {
        // Asked before the work as well: on a lost device a direct write would seem to succeed, though no queue reads
        // it any more.
        let done = if self.lost || self.memory.deletion_queue().tracker().is_lost() {
            Err(UploadError::from(DeviceError::Lost))
        } else {
            work(self)
        };
        let is_lost = |error: &UploadError| {
            matches!(
                error,
                UploadError::Device { source: DeviceError::Lost, .. }
                    | UploadError::Access(AccessError::Device { source: DeviceError::Lost, .. })
            )
        };
        if done.as_ref().is_err_and(is_lost) {
            self.lost = true;
            self.lanes_mut().for_each(Lane::discard);
        }
        done
    }

    fn check_buffer(
        &self,
        to: &Owned<Unique<D, Buffers>>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<MemoryLocation<D>, UploadError> {
        let place = self.check_owner(to.tracker(), to.allocation())?;
        // The smaller of both sizes: a buffer may be smaller than its allocation.
        check_range(offset, bytes.len() as u64, to.size().min(place.size))?;
        Ok(place)
    }

    /// Checks that the target's owner waits for this uploader's recordings, and returns its location.
    fn check_owner(
        &self,
        tracker: &SubmissionTracker,
        allocation: &Allocation,
    ) -> Result<MemoryLocation<D>, UploadError> {
        self.memory.deletion_queue().tracker().check_same(tracker)?;
        Ok(self.memory.allocator().place_of_bound(allocation)?)
    }

    fn stage(
        &mut self,
        to: &Owned<Unique<D, Buffers>>,
        moved_at: Option<TimelinePoint>,
        place: &MemoryLocation<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        let found = self.memory.allocator().device().properties().memory_type(place.memory_type);
        if found.is_some_and(|found| found.properties.contains(MemoryProperties::DEVICE_READ_ONLY)) {
            return Err(UploadError::ReadOnly { memory_type: place.memory_type, name: ShortName::NONE });
        }
        to.check_usage(TransferUsage::DST)?;
        if bytes.is_empty() {
            // Vulkan does not allow copies of size 0.
            return Ok(());
        }
        lane_of(&mut self.buffers, &mut self.images, to.is_shared()).check(bytes.len() as u64)?;
        self.wait_for_move(moved_at);
        let lane = lane_of(&mut self.buffers, &mut self.images, to.is_shared());
        let target = to.allocation().id();
        let mut done = offset;
        // A piece larger than a `usize` is larger than every slice.
        let piece = usize::try_from(lane.piece()).unwrap_or(usize::MAX);
        for bytes in bytes.chunks(piece) {
            lane.stage(&self.memory, (target, to.handle(), done), bytes)?;
            done += bytes.len() as u64;
        }
        Ok(())
    }

    /// Writes texels. `bytes` has them row by row, slice by slice, without padding; for a compressed format, rows
    /// of blocks. They are always staged.
    ///
    /// # Errors
    ///
    /// [`UploadError`], as for [`initialize`](Self::initialize); [`UploadError::ImageCopy`] if the image has no such mip
    /// level, array layer or box, if the box cuts blocks of a compressed format, or if such an image cannot be written or
    /// left in such a state; [`UploadError::Size`] if the number of bytes does not match the extent. Nothing is written then.
    ///
    /// # Safety
    ///
    /// As for an [`ImageCopy`](crate::device::ImageCopy) of [`submit`](crate::device::QueueDevice::submit): the
    /// subresource is in the state `before` when the copy begins, and on Vulkan the image belongs to the family of the
    /// uploader's [image queue](UploaderDesc::image_queue). `texel` is that of the image's format, if the format is one
    /// of an extension, which this library does not know.
    #[inline(never)]
    pub unsafe fn write_image(
        &mut self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        let staged = self.visiting_orphans(|this| {
            let states = to.with_states(Arc::clone);
            let stage = |this: &mut Self| {
                let staged = to.with_owned(|to, moved_at| {
                    this.while_alive(|this| this.stage_image(to, moved_at, &states, write, bytes))
                });
                // Before a step can come: the recording is open that keeps it away. Also where only a part was staged.
                to.with_states(|_| ());
                staged
            };
            if to.is_relocatable() { this.beside_steps(false, stage) } else { stage(this) }
        });
        staged.map_err(|error| error.of(to.short_name()))
    }

    /// Makes staged data wait for the copy by which defragmentation moved its target: another queue executes it.
    fn wait_for_move(&mut self, moved_at: Option<TimelinePoint>) {
        moved_at.into_iter().for_each(|point| self.lanes_mut().for_each(|lane| lane.wait_for(point)));
    }

    fn stage_image(
        &mut self,
        to: &Owned<Unique<D, Images>>,
        moved_at: Option<TimelinePoint>,
        states: &SharedStates<D::ImageState>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.check_owner(to.tracker(), to.allocation())?;
        let &ImageWrite { mip_level, array_layer, texel, origin, extent, .. } = write;
        // Only a texture has a shape: on Direct3D 12 a token may be of a buffer.
        let shape = to.shape().ok_or(ImageCopyError::NotColor)?;
        // The offsets of pieces and the bytes of the box are sums and products of these numbers: checked first.
        shape.check_copy(mip_level, array_layer, origin, extent, texel, TransferUsage::DST)?;
        let (device, [_, queue]) = (self.memory.allocator().device(), self.queues());
        let kind = device.properties().queues[usize::from(queue.0)];
        // The queue would refuse the whole batch, also what others wrote.
        if !device.can_copy_between_states(kind, write.before, write.after) {
            return Err(ImageCopyError::States { queue }.into());
        }
        let [width, height, depth] = extent;
        // Counted in rows of blocks: the APIs copy whole blocks, so a write of a compressed image is split only between
        // these.
        let rows = texel.rows(height);
        let row = texel.row_bytes(width);
        let wanted = u128::from(row) * u128::from(rows) * u128::from(depth);
        if wanted != bytes.len() as u128 {
            return Err(UploadError::Size { wanted, found: bytes.len() as u64, name: ShortName::NONE });
        }
        if bytes.is_empty() {
            // As for buffers: no copy of size 0.
            return Ok(());
        }
        let pitch = texel.row_pitch(width, &self.memory.allocator().device().properties().limits);
        let lane = self.images.as_ref().unwrap_or(&self.buffers);
        lane.check(pitch.saturating_mul(u64::from(rows)).saturating_mul(u64::from(depth)))?;
        self.wait_for_move(moved_at);
        let limits = &self.memory.allocator().device().properties().limits;
        let lane = self.images.as_mut().unwrap_or(&mut self.buffers);
        // Rows are padded to the device's pitch in staging memory.
        // Rows that are staged at once: of one slice, or of all slices if the whole box fits.
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
                let was = locked(states).of(mip_level, array_layer);
                let piece = |from_offset| StagedImage {
                    image: to.handle().clone(),
                    states: Arc::clone(states),
                    was,
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
                // If the offset alignment is not a power of two, the aligned offset may lie further in: request
                // that many bytes more.
                let size = pitch * u64::from(count) * u64::from(slices) + texel.offset(1, limits);
                lane.stage_image(&self.memory, (size, limits.image_copy_offset_alignment), piece, |slice| {
                    let at = texel.offset(slice.offset(), limits) - slice.offset();
                    if pitch == row {
                        // Without padding the rows are contiguous: one copy instead of one per row.
                        return slice.write(at, now);
                    }
                    let mut rows = (0..).zip(now.chunks(row as usize));
                    rows.try_for_each(|(i, row)| slice.write(at + i * pitch, row))
                })?;
                // The first piece changes the state; the following ones find the subresource in the new one.
                before = write.after;
            }
        }
        Ok(())
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
    /// let mut uploader = Uploader::new(gpu.memory(), UploaderDesc::default())?;
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
    /// [`UploadError::NoSuchQueue`]; [`UploadError::WaitsForItself`] if the point lies on a queue of this uploader
    /// and was not submitted yet. The uploader is unchanged then.
    #[inline(never)]
    pub fn wait_for(&mut self, point: TimelinePoint) -> Result<(), UploadError> {
        self.visiting_orphans(|this| this.wait_for_point(point))
    }

    fn wait_for_point(&mut self, point: TimelinePoint) -> Result<(), UploadError> {
        self.while_alive(|this| {
            let device = this.memory.allocator().device();
            let queue = point.queue;
            if usize::from(queue.0) >= device.properties().queues.len() {
                return Err(UploadError::NoSuchQueue { queue });
            }
            if this.queues().contains(&queue) && point.value > device.submitted(queue) {
                // A batch submitted to the same queue would wait for work behind it: a deadlock.
                return Err(UploadError::WaitsForItself { point });
            }
            this.lanes_mut().for_each(|lane| lane.wait_for(point));
            Ok(())
        })
    }

    /// Submits the staged data. Returns the points at which all data written so far is in place: one on the queue
    /// for buffers and one on the queue for images. Work that reads the data waits for them. Does nothing if
    /// nothing is staged.
    ///
    /// # Errors
    ///
    /// [`UploadError::Device`]; the staged data is kept, and can be submitted again or [discarded](Self::discard).
    /// After [`DeviceError::Lost`] it is discarded.
    #[inline(never)]
    pub fn submit(&mut self) -> Result<TimelinePoints, UploadError> {
        self.visiting_orphans(|this| this.while_alive(Self::flush))
    }

    fn flush(&mut self) -> Result<TimelinePoints, UploadError> {
        let mut points = TimelinePoints::EMPTY;
        for lane in [Some(&mut self.buffers), self.images.as_mut()].into_iter().flatten() {
            lane.flush(&self.memory)?;
            // Also where this call submitted nothing: a batch that grew large has submitted itself before.
            lane.last().into_iter().for_each(|point| points.insert(point));
        }
        Ok(points)
    }

    /// Discards staged data that was not submitted, and releases its targets; images keep the states that they were
    /// in before. Submitted data still arrives, perhaps the first pieces of a large write among it. Data staged
    /// from now on still waits for the points of [`wait_for`](Self::wait_for).
    pub fn discard(&mut self) {
        self.visiting_orphans(|this| this.lanes_mut().for_each(Lane::discard));
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane<D>> {
        [Some(&mut self.buffers), self.images.as_mut()].into_iter().flatten()
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

    /// Returns the bytes that are staged or in flight, where queues have reached these points. Asks no driver, for a caller
    /// that holds a lock.
    pub(crate) fn bytes_in_use(&self, is_reached: impl Fn(TimelinePoint) -> bool + Copy) -> u64 {
        let lanes = [Some(&self.buffers), self.images.as_ref()].into_iter().flatten();
        lanes.map(|lane| lane.bytes_in_use(is_reached)).sum()
    }
}

/// Returns the lane that writes a buffer. One that is exclusive to a queue family belongs to that of the images' queue, as
/// images do: written on another queue, its bytes would be undefined there.
fn lane_of<'a, D: Device>(
    buffers: &'a mut Lane<D>,
    images: &'a mut Option<Lane<D>>,
    shared: bool,
) -> &'a mut Lane<D> {
    if shared { buffers } else { images.as_mut().unwrap_or(buffers) }
}

impl<D: Device> Drop for Uploader<D> {
    fn drop(&mut self) {
        self.lanes_mut().for_each(Lane::discard);
        // No lock is held: one that is shared behind a lock is dropped with it.
        self.memory.deletion_queue().tracker().visit_orphans();
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
