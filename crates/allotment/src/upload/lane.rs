//! The uploads over one queue: a staging ring, and the copies from it.
//!
//! ```text
//!   ring     ▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓ ▒▒▒▒░░░░       two batches in flight, one being filled
//!   copies   [mesh 0..4096][mesh 8192..9000][sky …]     of the one being filled, by target and offset
//! ```
//!
//! A batch is a recording: the first staged bytes open it, and it is submitted as a whole, so a target that is
//! dropped meanwhile stays alive until its bytes have arrived. The copies of a batch run in any order, so bytes
//! that overlap others of the same batch begin a new batch. Bytes that follow others both in the target and in the
//! ring extend their copy.
//!
//! # Cost
//!
//! Staging costs a binary search among the copies of the batch and an insertion, so their number has a
//! [limit](MAX_COPIES). Batches in flight and their targets are kept in lists, oldest first, about 16 bytes a
//! target; a write to host-visible memory searches them.

use core::mem;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::catch_unwind;

use super::error::{RingError, UploadError};
use super::slice::UploadSlice;
use super::tracked_ring::FRAMES;
use super::upload_ring::UploadRing;
use super::{RingDesc, WaitFor};
use crate::device::{
    BufferCopy, CopyDirection, Device, DeviceError, ImageCopy, QueueIndex, Submission, TexelBlock,
    TimelinePoint, TimelineValue,
};
use crate::lifetime::{NotSubmitted, Recording, SubmissionTracker};
use crate::log::event;
use crate::memory::resource::{SharedStates, SubresourceState};
use crate::memory::{AccessError, AllocationId, OwningAllocator, ShortName};
use crate::sync::locked;
use allotment_suballoc::Alignment;

/// Batches per ring, so that one can be filled while others are copied.
pub(super) const BATCHES: u64 = 4;

/// Minimum alignment of staged bytes: a cache line, for `memcpy` and for copy engines.
const STAGED_AT: u64 = 64;

/// Most buffer copies of a batch. They are kept sorted, so staging one moves half of the others on average: 25 KB
/// of a full batch, or a microsecond. A submission costs ten times that, shared by a thousand copies.
pub(super) const MAX_COPIES: usize = 1024;

/// Usual number of target buffers of the batches in flight. Capacity for them, and for the batches, is reserved at
/// the start: how many are in flight depends on how late the queue is, and a queue that is late for the first time
/// after an hour must not cause an allocation in that frame. 16 KiB.
const TARGETS: usize = 1024;

/// The policy if the ring is full of pending bytes.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::upload::{UploadError, Uploader, UploaderDesc, WhenFull};
///
/// let mut desc = UploaderDesc::default();
/// (desc.staging, desc.when_full) = (4096, WhenFull::Refuse);
/// let mut uploader = Uploader::new(gpu.memory(), desc)?;
/// let mesh = gpu.create_buffer(&BufferDesc::new(8192), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let refused = uploader.update(&mesh, 0, &[7; 8192]);
/// assert!(matches!(refused, Err(UploadError::Full { .. })), "and the thread has not waited");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Wait for the device, at most this long for each batch.
    Wait(Duration),
    /// Refuse the whole write, and name what to wait for. A batch is then not submitted when it grows large, only
    /// if its copies would overlap or be too many.
    Refuse,
}

/// Staged bytes of the open batch for a buffer.
struct StagedCopy<D: Device> {
    target: AllocationId,
    to: D::Buffer,
    to_offset: u64,
    from_offset: u64,
    size: u64,
}

/// Staged bytes of the open batch for an image.
pub(super) struct StagedImage<D: Device> {
    pub(super) image: D::Image,
    /// What is known of the image, and what was known of the subresource before this was staged.
    pub(super) states: SharedStates<D::ImageState>,
    pub(super) was: SubresourceState<D::ImageState>,
    pub(super) from_offset: u64,
    pub(super) row_pitch: u64,
    pub(super) rows: u32,
    pub(super) mip_level: u32,
    pub(super) array_layer: u32,
    pub(super) origin: [u32; 3],
    pub(super) extent: [u32; 3],
    pub(super) texel: TexelBlock,
    pub(super) before: D::ImageState,
    pub(super) after: D::ImageState,
}

impl<D: Device> StagedImage<D> {
    fn set_state(&self, state: SubresourceState<D::ImageState>) {
        let (level, layer) = (self.mip_level, self.array_layer);
        locked(&self.states).set(level..level + 1, layer..layer + 1, state);
    }
}

/// A batch that the queue may not have completed.
struct Batch {
    point: TimelinePoint,
    bytes: u64,
    /// The number of its entries in the lane's `targets`.
    targets: usize,
}

/// The uploads over one queue.
pub(super) struct Lane<D: Device> {
    queue: QueueIndex,
    capacity: u64,
    when_full: WhenFull,
    /// Created for the first bytes.
    ring: Option<UploadRing<D>>,
    /// The recording of the open batch; `None` while nothing is staged, unless `keeps_open`.
    recording: Option<Recording>,
    /// A recording is open all the time, from one batch to the next.
    keeps_open: bool,
    /// Sorted by target and offset; no two overlap.
    copies: Vec<StagedCopy<D>>,
    /// In the order in which they were staged.
    images: Vec<StagedImage<D>>,
    /// Bytes of the open batch.
    staged: u64,
    /// The points that the open batch waits for, or the next one: at most one per queue.
    waits: Vec<TimelinePoint>,
    last: Option<TimelinePoint>,
    /// In flight, oldest first; completed ones are removed at the next submission or query.
    batches: VecDeque<Batch>,
    /// The buffers that these write to, batch by batch.
    targets: VecDeque<AllocationId>,
    pub(super) statistics: LaneStatistics,
    /// Scratch space for the description of a submission.
    copy_scratch: Vec<BufferCopy<'static, D>>,
    image_scratch: Vec<ImageCopy<'static, D>>,
}

/// Statistics of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneStatistics {
    pub(super) staged_bytes: u64,
    pub(super) copies: u64,
    pub(super) submissions: u64,
    pub(super) waits: u64,
    pub(super) refusals: u64,
}

impl<D: Device> Lane<D> {
    /// Creates a lane over a queue, with a ring of `capacity` bytes on first use.
    pub(super) fn new(queue: QueueIndex, capacity: u64, when_full: WhenFull) -> Self {
        Self {
            queue,
            capacity,
            when_full,
            ring: None,
            recording: None,
            keeps_open: false,
            copies: Vec::new(),
            images: Vec::new(),
            staged: 0,
            waits: Vec::new(),
            last: None,
            batches: VecDeque::new(),
            targets: VecDeque::new(),
            statistics: LaneStatistics::default(),
            copy_scratch: Vec::new(),
            image_scratch: Vec::new(),
        }
    }

    pub(super) fn queue(&self) -> QueueIndex {
        self.queue
    }

    /// Returns the most bytes that are staged at once; longer writes are split.
    pub(super) fn piece(&self) -> u64 {
        match self.when_full {
            WhenFull::Wait(_) => (self.capacity / BATCHES).max(1),
            // A write is refused as a whole, so it is not split.
            WhenFull::Refuse => self.capacity,
        }
    }

    /// Refuses a write that never fits, if writes are not split.
    pub(super) fn check(&self, requested: u64) -> Result<(), UploadError> {
        // With `Wait` a large write is split into pieces, each of which fits.
        if self.when_full == WhenFull::Refuse && requested > self.capacity {
            return Err(RingError::NeverFits { requested, capacity: self.capacity }.into());
        }
        Ok(())
    }

    pub(super) fn wait_for(&mut self, point: TimelinePoint) {
        // The latest point of each queue is enough, and bounds the list in a lane that never has a batch.
        match self.waits.iter_mut().find(|wait| wait.queue == point.queue) {
            Some(wait) => wait.value = wait.value.max(point.value),
            None => self.waits.push(point),
        }
    }

    /// Returns the point of the last batch.
    pub(super) fn last(&self) -> Option<TimelinePoint> {
        self.last
    }

    /// Stages bytes for a range of a buffer. The caller has checked the range.
    pub(super) fn stage(
        &mut self,
        memory: &OwningAllocator<D>,
        (target, to, to_offset): (AllocationId, &D::Buffer, u64),
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        let size = bytes.len() as u64;
        if self.copies.len() >= MAX_COPIES || self.overlaps(target, to_offset, size) {
            // Copies of one batch run in any order: only a later batch can overwrite these bytes for certain.
            self.flush(memory)?;
        }
        let alignment = Alignment::new(STAGED_AT).unwrap_or(Alignment::ONE);
        let from_offset = self.allocate(memory, size, alignment, |slice| slice.write(0, bytes))?;
        // Staged before the copy is recorded: a failed allocation leaves the batch unchanged.
        let at = self.copy_index(target, to_offset);
        let before = at.checked_sub(1).and_then(|before| self.copies.get_mut(before));
        // Later bytes lie later in the ring, so only the copy before this one can be extended.
        let extends = |copy: &&mut StagedCopy<D>| {
            copy.target == target
                && copy.to_offset + copy.size == to_offset
                && copy.from_offset + copy.size == from_offset
        };
        if let Some(before) = before.filter(extends) {
            before.size += size;
        } else {
            self.copies.insert(at, StagedCopy { target, to: to.clone(), to_offset, from_offset, size });
            self.statistics.copies += 1;
        }
        self.count_staged(memory, size)
    }

    /// Stages texels, which `write` copies into the ring.
    pub(super) fn stage_image(
        &mut self,
        memory: &OwningAllocator<D>,
        (size, alignment): (u64, Alignment),
        image: impl FnOnce(u64) -> StagedImage<D>,
        write: impl FnOnce(&mut UploadSlice<'_, D>) -> Result<(), AccessError>,
    ) -> Result<(), UploadError> {
        let from_offset = self.allocate(memory, size, alignment, write)?;
        let image = image(from_offset);
        // Also where the batch cannot be submitted below: it stays open.
        image.set_state(SubresourceState::Known(image.after));
        self.images.push(image);
        self.statistics.copies += 1;
        self.count_staged(memory, size)
    }

    /// Returns whether bytes for this buffer are staged or pending.
    pub(super) fn writes_to(&mut self, tracker: &SubmissionTracker, target: AllocationId) -> bool {
        let at = self.copy_index(target, 0);
        if self.copies.get(at).is_some_and(|copy| copy.target == target) {
            return true;
        }
        // Most buffers have none in flight: search the list before querying the driver for progress.
        if !self.targets.contains(&target) {
            return false;
        }
        self.forget_done(tracker);
        self.targets.contains(&target)
    }

    /// Returns the bytes of the open batch.
    pub(super) fn open_bytes(&self) -> u64 {
        self.staged
    }

    /// Returns the number of batches in flight and their bytes.
    pub(super) fn in_flight(&self, tracker: &SubmissionTracker) -> (u64, u64) {
        let batches = self.batches.iter().skip_while(|batch| tracker.is_reached(batch.point));
        batches.fold((0, 0), |(count, bytes), batch| (count + 1, bytes + batch.bytes))
    }

    /// Returns the bytes that are staged or in flight, where queues have reached these points. Asks no driver.
    pub(super) fn bytes_in_use(&self, is_reached: impl Fn(TimelinePoint) -> bool) -> u64 {
        let in_flight = self.batches.iter().skip_while(|batch| is_reached(batch.point));
        self.open_bytes() + in_flight.map(|batch| batch.bytes).sum::<u64>()
    }

    fn forget_done(&mut self, tracker: &SubmissionTracker) {
        // A queue completes batches in order: the first pending one ends the search.
        while let Some(batch) = self.batches.front() {
            if !tracker.is_reached(batch.point) {
                break;
            }
            self.targets.drain(..batch.targets);
            self.batches.pop_front();
        }
    }

    /// Returns the index of a copy among the others.
    fn copy_index(&self, target: AllocationId, to_offset: u64) -> usize {
        self.copies.partition_point(|copy| (copy.target, copy.to_offset) < (target, to_offset))
    }

    /// Returns whether the open batch writes any of these bytes already.
    fn overlaps(&self, target: AllocationId, to_offset: u64, size: u64) -> bool {
        // Copies do not overlap one another, so only the neighbours of the new range can overlap it.
        let at = self.copy_index(target, to_offset);
        let before = at.checked_sub(1).and_then(|before| self.copies.get(before));
        before.is_some_and(|copy| copy.target == target && copy.to_offset + copy.size > to_offset)
            || self
                .copies
                .get(at)
                .is_some_and(|copy| copy.target == target && copy.to_offset < to_offset + size)
    }

    /// Allocates from the ring, and fills the range with `write`. If the ring is full, waits or submits as the
    /// policy allows.
    fn allocate(
        &mut self,
        memory: &OwningAllocator<D>,
        size: u64,
        alignment: Alignment,
        write: impl FnOnce(&mut UploadSlice<'_, D>) -> Result<(), AccessError>,
    ) -> Result<u64, UploadError> {
        loop {
            let ring = match &mut self.ring {
                Some(ring) => ring,
                // On first use: an uploader that only writes directly needs no staging memory.
                none => {
                    self.batches.reserve(FRAMES);
                    self.targets.reserve(TARGETS);
                    let tracker = memory.deletion_queue().tracker();
                    // The ring is only copied from, so it needs no further usage.
                    let desc = RingDesc::upload(self.capacity);
                    none.insert(UploadRing::new(memory.allocator(), tracker, &desc)?)
                }
            };
            let (wait, refusal) = match ring.allocate(size, alignment) {
                Ok(mut slice) => {
                    let offset = slice.offset();
                    let written = write(&mut slice);
                    if written.is_err() && self.recording.is_none() {
                        // Otherwise the range is freed with the open batch.
                        ring.discard();
                    }
                    written?;
                    // After the bytes are written: an open recording holds back what other code releases, and a refused
                    // write would leave one without bytes.
                    self.open(memory);
                    return Ok(offset);
                }
                Err(refusal @ RingError::FullForNow { wait, .. }) => (wait, refusal),
                Err(refusal) => return Err(refusal.into()),
            };
            // Full: wait, submit, or refuse. Each wait frees at least one frame, and each submission makes the next
            // attempt wait for a point, so the loop ends.
            match (wait, self.when_full) {
                // Nothing is staged, so the open frame is left over from a write that panicked.
                (WaitFor::Submission, _) if self.copies.is_empty() && self.images.is_empty() => {
                    ring.discard();
                }
                // An upload ring has no tickets.
                (_, WhenFull::Refuse) | (WaitFor::Tickets, _) => {
                    self.statistics.refusals += 1;
                    return Err(refusal.into());
                }
                (WaitFor::Submission, WhenFull::Wait(_)) => self.flush(memory)?,
                (WaitFor::Point(point), WhenFull::Wait(timeout)) => {
                    self.statistics.waits += 1;
                    event!(DEBUG, "upload", ?point, "staging memory is full: waits for the GPU");
                    match memory.deletion_queue().tracker().wait(point, timeout) {
                        Err(DeviceError::TimedOut { point, .. }) => {
                            return Err(UploadError::TimedOut { point, name: ShortName::NONE });
                        }
                        waited => waited?,
                    }
                }
            }
        }
    }

    fn open(&mut self, memory: &OwningAllocator<D>) {
        if self.recording.is_none() {
            self.recording = Some(memory.deletion_queue().tracker().record("uploads").leaving_orphans());
        }
    }

    /// Opens a recording, and keeps one open until [`end_keep_open`](Self::end_keep_open): for writes to a relocatable
    /// target, whose lock is held meanwhile. A step of defragmentation holds up the opening of recordings while it waits
    /// for that lock, but not as long as a recording is open.
    pub(super) fn keep_open(&mut self, memory: &OwningAllocator<D>) {
        self.open(memory);
        self.keeps_open = true;
    }

    pub(super) fn end_keep_open(&mut self) {
        self.keeps_open = false;
        if self.copies.is_empty() && self.images.is_empty() {
            // A recording without a batch would hold back what other code releases.
            self.discard();
        }
    }

    /// Counts staged bytes, and submits a batch that is large enough, so that the device works while the next is
    /// filled.
    fn count_staged(&mut self, memory: &OwningAllocator<D>, size: u64) -> Result<(), UploadError> {
        self.staged += size;
        // Not with `Refuse`: the caller decides when its writes are submitted.
        self.statistics.staged_bytes += size;
        if self.when_full != WhenFull::Refuse && self.staged >= self.capacity / BATCHES {
            self.flush(memory)?;
        }
        Ok(())
    }

    /// Submits the open batch, if there is one.
    pub(super) fn flush(&mut self, memory: &OwningAllocator<D>) -> Result<(), UploadError> {
        self.flush_by(memory, |device, queue, work| {
            // SAFETY: the ranges were checked when they were staged, and no two overlap. The targets belong to owners
            // whose tracker has known of the recording since then, so they live until its submission has completed,
            // and so does the ring. For image copies the caller of `write_image` promised the rest.
            unsafe { device.submit(queue, work) }
        })
    }

    /// Submits the open batch by a closure, which tests replace.
    pub(super) fn flush_by(
        &mut self,
        memory: &OwningAllocator<D>,
        submit: impl FnOnce(&D, QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<(), UploadError> {
        let Some(recording) = self.recording.take() else { return Ok(()) };
        if self.keeps_open {
            // Before this one is closed.
            self.open(memory);
        }
        let device = memory.allocator().device();
        // Ends the batch even if the submission panics.
        let mut ending = Ending { lane: self, device, point: None };
        match ending.lane.submit_batch(recording, |queue, work| submit(device, queue, work)) {
            Ok(point) => {
                ending.point = Some(point);
                ending.lane.waits.clear();
                ending.lane.statistics.submissions += 1;
                // Before the batch joins the list, which stays short this way.
                ending.lane.forget_done(memory.deletion_queue().tracker());
                drop(ending);
                self.ring.iter_mut().for_each(|ring| _ = ring.reclaim());
                Ok(())
            }
            Err(refused) => {
                mem::forget(ending);
                // The batch is unchanged: it can be submitted again.
                self.recording = Some(refused.recording);
                Err(refused.error.into())
            }
        }
    }

    fn submit_batch(
        &mut self,
        recording: Recording,
        submit: impl FnOnce(QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<TimelinePoint, NotSubmitted<DeviceError>> {
        let mut copies = reuse_capacity(mem::take(&mut self.copy_scratch));
        let mut image_copies = reuse_capacity(mem::take(&mut self.image_scratch));
        // There is a ring if anything is staged.
        if let Some(ring) = &self.ring {
            copies.extend(self.copies.iter().map(|copy| BufferCopy {
                from: ring.buffer(),
                from_offset: copy.from_offset,
                to: &copy.to,
                to_offset: copy.to_offset,
                size: copy.size,
            }));
            image_copies.extend(self.images.iter().map(|image| ImageCopy {
                buffer: ring.buffer(),
                buffer_offset: image.from_offset,
                row_pitch: image.row_pitch,
                rows: image.rows,
                image: &image.image,
                mip_level: image.mip_level,
                array_layer: image.array_layer,
                origin: image.origin,
                extent: image.extent,
                texel: image.texel,
                direction: CopyDirection::IntoImage,
                before: image.before,
                after: image.after,
            }));
        }
        let work = Submission {
            waits: &self.waits,
            copies: &copies,
            image_copies: &image_copies,
            ..Submission::default()
        };
        // Inside the recording's submission, which gives the recording back where the queue refuses the batch.
        let submitted = recording.submit(self.queue, |queue| submit(queue, &work));
        self.copy_scratch = reuse_capacity(copies);
        self.image_scratch = reuse_capacity(image_copies);
        submitted
    }

    /// Moves the open batch to those in flight, after it was submitted or may have been: its bytes and targets are
    /// in use until `point`.
    fn mark_submitted(&mut self, point: TimelinePoint) {
        let before = self.targets.len();
        // Copies are sorted by target, so equal targets are neighbours.
        let mut last = None;
        for copy in &self.copies {
            if last != Some(copy.target) {
                self.targets.push_back(copy.target);
            }
            last = Some(copy.target);
        }
        self.batches.push_back(Batch { point, bytes: self.staged, targets: self.targets.len() - before });
        self.ring.iter_mut().for_each(|ring| ring.close(point));
        self.last = Some(point);
        self.clear();
    }

    /// Drops the open batch, which was not submitted.
    pub(super) fn discard(&mut self) {
        // The last write of a subresource is undone first.
        self.images.iter().rev().for_each(|image| image.set_state(image.was));
        self.recording = None;
        self.ring.iter_mut().for_each(UploadRing::discard);
        self.clear();
    }

    fn clear(&mut self) {
        self.copies.clear();
        self.images.clear();
        self.staged = 0;
    }
}

/// Ends a batch when dropped: after its submission, or when its submission panics. Its recording is closed by then,
/// so the batch must not be submitted again. If it is unknown whether the queue has the batch, its bytes stay until
/// everything submitted by now has completed; the points that it waited for carry over to the next batch.
struct Ending<'a, D: Device> {
    lane: &'a mut Lane<D>,
    device: &'a D,
    /// The point of its submission, if known.
    point: Option<TimelinePoint>,
}

impl<D: Device> Drop for Ending<'_, D> {
    fn drop(&mut self) {
        if self.point.is_none() {
            // The queue may or may not have the copies.
            self.lane.images.iter().for_each(|image| image.set_state(SubresourceState::Unknown));
        }
        let queue = self.lane.queue;
        let ask = || TimelinePoint { queue, value: self.device.submitted(queue) };
        let point = self.point.map_or_else(|| catch_unwind(AssertUnwindSafe(ask)).ok(), Some);
        match point {
            Some(point) => self.lane.mark_submitted(point),
            None => {
                // The device panics on this query, too. The queue may use the ring at any time, so the ring is
                // leaked.
                mem::forget(self.lane.ring.take());
                self.lane.clear();
            }
        }
    }
}

/// Returns an empty list with the capacity of another one whose elements have another lifetime. The standard
/// library collects in place if the element size does not change; a test counts allocations.
fn reuse_capacity<T, U>(mut room: Vec<T>) -> Vec<U> {
    room.clear();
    room.into_iter().map(|_| unreachable!("it is empty")).collect()
}
