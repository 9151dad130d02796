//! The open batch of a lane, and those in flight.

use core::mem;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::Condvar;
use std::time::Instant;

use super::hand_over::{Acquire, HandOver, Level};
use super::{BATCHES, Lane, Piece, Settled, lost};
use crate::device::{
    BufferCopy, CopyDirection, Device, DeviceError, ImageAspect, ImageCopy, QueueIndex, Submission,
    TexelLayout, TimelinePoint, TimelineValue,
};
use crate::lifetime::{NotSubmitted, Recording, SubmissionTracker, TimelinePoints};
use crate::memory::resource::{SharedStates, SubresourceState};
use crate::memory::{AllocationId, MappedBuffer, OwningAllocator, WriteMark};
use crate::sync::locked;
use crate::upload::error::{Interruption, UploadError};
use crate::upload::handle::UploadHandle;
use crate::upload::staging_ranges::StagingRanges;

/// Most buffer copies of a batch. They are kept sorted, so staging one moves half of the others on average: 25 KB
/// of a full batch, or a microsecond. A submission costs ten times that, shared by a thousand copies.
const MAX_COPIES: usize = 1024;

/// Usual number of batches in flight and of their target buffers. Capacity for them is reserved at the start: how many are
/// in flight depends on how late the queue is, and a queue that is late for the first time after an hour must not cause an
/// allocation in that frame. 16 KiB.
const IN_FLIGHT: usize = 16;
const TARGETS: usize = 1024;

/// Staged bytes of the open batch for a buffer.
pub(super) struct StagedCopy<D: Device> {
    pub(super) target: AllocationId,
    pub(super) to: D::Buffer,
    pub(super) to_offset: u64,
    from_offset: u64,
    pub(super) size: u64,
    /// The buffer is exclusive, and of another family than that of the lane's queue.
    pub(super) is_exclusive: bool,
    /// Of an exclusive buffer.
    pub(super) mark: Option<WriteMark>,
}

/// Staged bytes of the open batch for an image.
pub(in crate::upload) struct StagedImage<D: Device> {
    /// The subresource, if a write holds it: the image is exclusive, and of another family than that of the lane's queue.
    pub(in crate::upload) held: Option<Level>,
    pub(in crate::upload) image: D::Image,
    pub(in crate::upload) mark: WriteMark,
    /// What is known of the image, and what was known of the subresource before this was staged.
    pub(in crate::upload) states: SharedStates<D::ImageState>,
    pub(in crate::upload) was: SubresourceState<D::ImageState>,
    pub(in crate::upload) from_offset: u64,
    pub(in crate::upload) row_pitch: u64,
    pub(in crate::upload) rows: u32,
    pub(in crate::upload) mip_level: u32,
    pub(in crate::upload) array_layer: u32,
    pub(in crate::upload) aspect: ImageAspect,
    pub(in crate::upload) origin: [u32; 3],
    pub(in crate::upload) extent: [u32; 3],
    pub(in crate::upload) texels: TexelLayout,
    pub(in crate::upload) before: D::ImageState,
    pub(in crate::upload) after: D::ImageState,
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
    /// The number of its entries in the lane's `targets`, of resources.
    targets: usize,
    /// The number of its ranges of staging memory.
    ranges: usize,
    /// The number of its entries in the lane's `handles`.
    handles: usize,
    submitted: Instant,
    /// No submission waits for it.
    is_streamed: bool,
}

/// What was streamed since the end of the last frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameUse {
    /// The frame's number, and when it was first asked for.
    pub(super) number: u64,
    pub(super) began: Option<Instant>,
    /// Bytes that were staged, and how long the queue took for batches.
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// What the lock of a lane guards.
pub(in crate::upload) struct LaneState<D: Device> {
    capacity: u64,
    pub(super) ranges: StagingRanges,
    /// The recording of the open batch; `None` while nothing is staged.
    recording: Option<Recording>,
    /// Sorted by target and offset; no two overlap.
    copies: Vec<StagedCopy<D>>,
    /// In the order in which they were staged.
    images: Vec<StagedImage<D>>,
    /// Bytes of the open batch.
    staged: u64,
    /// The points that the open batch waits for, or the next one: at most one per queue.
    waits: Vec<TimelinePoint>,
    last: Option<TimelinePoint>,
    /// Of the last batch that submissions wait for.
    last_awaited: Option<TimelinePoint>,
    /// Submissions wait for some bytes of the open batch.
    has_awaited: bool,
    pub(super) frame: FrameUse,
    /// When a batch was last seen to be completed, and about the least time from a submission of many bytes to its end.
    completed: Option<Instant>,
    quickest: Duration,
    /// In flight, oldest first; completed ones are removed at the next submission or query.
    batches: VecDeque<Batch>,
    /// The resources that these write to, batch by batch.
    targets: VecDeque<AllocationId>,
    /// The handles whose bytes these have, batch by batch, then those of the open batch.
    handles: VecDeque<UploadHandle>,
    /// How many of them are the open batch's.
    open_handles: usize,
    /// Those of batches that are over: they are told so once the lock is released.
    over: Vec<UploadHandle>,
    pub(super) statistics: LaneStatistics,
    /// What the queue has written of resources that belong to another family.
    pub(super) hand_over: HandOver<D>,
    /// Scratch space for the description of a submission.
    copy_scratch: Vec<BufferCopy<'static, D>>,
    image_scratch: Vec<ImageCopy<'static, D>>,
    /// The device is lost.
    pub(super) is_lost: bool,
    /// Writes are refused until it is resumed.
    pub(super) is_stopped: bool,
    /// A queue may use some of the ranges for ever.
    is_abandoned: bool,
    /// How many threads keep others from opening a batch.
    pub(super) pauses: u32,
    /// The threads that wait for room, by their numbers, in the order in which they came.
    pub(super) waiting: VecDeque<u64>,
    /// The number of the last one.
    pub(super) last_number: u64,
    /// The first of them needs what is kept for small writes.
    pub(super) first_takes_all: bool,
    /// When the GPU was last seen to complete a batch while a thread waited.
    pub(super) progress: Option<Instant>,
    /// Threads that sleep until `changed` is notified.
    pub(super) sleeping: u32,
}

/// Statistics of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::upload) struct LaneStatistics {
    pub(in crate::upload) staged_bytes: u64,
    pub(in crate::upload) copies: u64,
    pub(in crate::upload) submissions: u64,
    pub(in crate::upload) waits: u64,
    pub(in crate::upload) longest_wait: Duration,
    pub(in crate::upload) refusals: u64,
    pub(in crate::upload) waiting: u64,
}

impl<D: Device> LaneState<D> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            ranges: StagingRanges::new(capacity),
            recording: None,
            copies: Vec::new(),
            images: Vec::new(),
            staged: 0,
            waits: Vec::new(),
            last: None,
            last_awaited: None,
            has_awaited: false,
            frame: FrameUse::default(),
            completed: None,
            quickest: Duration::MAX,
            batches: VecDeque::new(),
            targets: VecDeque::new(),
            handles: VecDeque::new(),
            open_handles: 0,
            over: Vec::new(),
            statistics: LaneStatistics::default(),
            hand_over: HandOver::default(),
            copy_scratch: Vec::new(),
            image_scratch: Vec::new(),
            is_lost: false,
            is_stopped: false,
            is_abandoned: false,
            pauses: 0,
            waiting: VecDeque::new(),
            last_number: 0,
            first_takes_all: false,
            progress: None,
            sleeping: 0,
        }
    }

    /// Reserves host memory for the usual number of batches.
    pub(super) fn expect_batches(&mut self) {
        self.batches.reserve(IN_FLIGHT);
        self.targets.reserve(TARGETS);
        self.ranges.expect_ranges();
    }

    /// Returns an error where nothing may be staged any more.
    pub(super) fn check(&self, handle: Option<&UploadHandle>) -> Result<(), UploadError> {
        self.check_lost()?;
        if self.is_stopped {
            return Err(UploadError::from_interruption(Interruption::Stopped));
        }
        if handle.is_some_and(UploadHandle::is_cancelled) {
            return Err(UploadError::from_interruption(Interruption::Cancelled));
        }
        Ok(())
    }

    /// Adds the handle of bytes that were recorded to those of the open batch.
    pub(super) fn note_handle(&mut self, handle: Option<&UploadHandle>) {
        let Some(handle) = handle else { return };
        let last = if self.open_handles > 0 { self.handles.back() } else { None };
        // Once for the pieces of a write, mostly.
        if last.is_none_or(|last| !last.ptr_eq(handle)) {
            handle.staged();
            self.handles.push_back(handle.clone());
            self.open_handles += 1;
        }
    }

    /// Removes a handle whose batch is over, for the caller to finish it without the lock.
    pub(super) fn pop_over(&mut self) -> Option<UploadHandle> {
        self.over.pop()
    }

    /// Returns whether a batch that is not over has bytes of a handle.
    pub(super) fn has_handles(&self) -> bool {
        !self.handles.is_empty() || !self.over.is_empty()
    }

    pub(super) fn check_lost(&self) -> Result<(), UploadError> {
        if self.is_lost { Err(lost()) } else { Ok(()) }
    }

    /// Wakes the threads that sleep: each looks whether what it waits for is there. A system call, so not without any.
    pub(super) fn wake(&self, changed: &Condvar) {
        if self.sleeping > 0 {
            changed.notify_all();
        }
    }

    /// Makes the open batch, or the next one, wait for a point.
    pub(in crate::upload) fn wait_for(&mut self, point: TimelinePoint) {
        // The latest point of each queue is enough, and bounds the list in a lane that never has a batch.
        match self.waits.iter_mut().find(|wait| wait.queue == point.queue) {
            Some(wait) => wait.value = wait.value.max(point.value),
            None => self.waits.push(point),
        }
    }

    /// Notes that bytes were staged for which submissions wait.
    pub(super) fn note_awaited(&mut self) {
        self.has_awaited = true;
    }

    /// Returns whether submissions wait for some bytes of the open batch.
    pub(super) fn has_awaited(&self) -> bool {
        self.has_awaited
    }

    /// Returns what a submission finds, where it has nothing to submit or to hand over, except what is streamed.
    pub(super) fn settled(&self) -> Option<Settled> {
        let is_settled = !self.has_awaited && self.hand_over.is_settled();
        is_settled
            .then(|| Settled { points: self.awaited_points(), released: self.hand_over.first_released() })
    }

    /// Returns the points at which all that submissions wait for has arrived, as far as it was submitted.
    pub(super) fn awaited_points(&self) -> TimelinePoints {
        let mut points = self.hand_over.acquired_at;
        self.last_awaited.into_iter().for_each(|point| points.insert(point));
        points
    }

    /// Returns about the least time from a submission of many bytes to its end, of the last ones.
    pub(super) fn quickest(&self) -> Duration {
        self.quickest
    }

    /// Returns the point of the last batch.
    pub(super) fn last(&self) -> Option<TimelinePoint> {
        self.last
    }

    /// Returns the point of the oldest batch in flight.
    pub(super) fn oldest(&self) -> Option<TimelinePoint> {
        self.batches.front().map(|batch| batch.point)
    }

    /// Returns the number of batches in flight, as far as is known.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Returns the point that must be reached before a request fits; `None` where no batch in flight is in its way.
    pub(super) fn point_for(
        &self,
        size: u64,
        alignment: allotment_suballoc::Alignment,
    ) -> Option<TimelinePoint> {
        let counts = self.batches.iter().map(|batch| batch.ranges);
        let last = self.ranges.batches_to_free(size, alignment, counts)?;
        self.batches.get(last).map(|batch| batch.point)
    }

    /// Returns whether anything is staged.
    pub(super) fn is_open(&self) -> bool {
        !self.copies.is_empty() || !self.images.is_empty()
    }

    /// Returns the copies to buffers.
    pub(super) fn copies(&self) -> &[StagedCopy<D>] {
        &self.copies
    }

    /// Returns whether the batch has as many copies for buffers as it may have.
    pub(super) fn is_list_full(&self) -> bool {
        self.copies.len() >= MAX_COPIES
    }

    /// Opens the recording of the batch, and calls `record`, which adds a copy to it.
    pub(super) fn record(
        &mut self,
        memory: &OwningAllocator<D>,
        is_exclusive: bool,
        record: impl FnOnce(&mut Self) -> Result<(), UploadError>,
    ) -> Result<(), UploadError> {
        if is_exclusive {
            self.hand_over.open(memory.deletion_queue().tracker());
        }
        if self.recording.is_none() {
            // Before the lock of a relocatable target is taken: a step of defragmentation holds up the opening of
            // recordings while it waits for that lock, but not as long as a recording is open.
            self.recording = Some(memory.deletion_queue().tracker().record("uploads").leaving_orphans());
        }
        let recorded = record(self);
        if recorded.is_err() && !self.is_open() {
            // A recording without a batch would hold back what other code releases.
            self.recording = None;
        }
        if recorded.is_err() {
            self.hand_over.close_if_empty();
        }
        recorded
    }

    /// Adds a copy of a piece to its target, the buffer `to`.
    pub(in crate::upload) fn add_copy(
        &mut self,
        piece: &Piece<'_>,
        from_offset: u64,
        to: &D::Buffer,
        mark: Option<WriteMark>,
    ) {
        let &Piece { size, is_exclusive, target, .. } = piece;
        let Some((target, to_offset)) = target else { return };
        if is_exclusive {
            self.hand_over.stage_copy(piece.is_streamed());
        }
        let at = self.copy_index(target, to_offset);
        let before = at.checked_sub(1).and_then(|before| self.copies.get_mut(before));
        let extends = |copy: &&mut StagedCopy<D>| {
            copy.target == target
                && copy.to_offset + copy.size == to_offset
                && copy.from_offset + copy.size == from_offset
        };
        if let Some(before) = before.filter(extends) {
            before.size += size;
        } else {
            let to = to.clone();
            let copy = StagedCopy { target, to, to_offset, from_offset, size, is_exclusive, mark };
            self.copies.insert(at, copy);
            self.statistics.copies += 1;
        }
    }

    /// Adds a copy to an image.
    pub(in crate::upload) fn add_image(&mut self, image: StagedImage<D>) {
        // Also where the batch cannot be submitted later on: it stays open.
        image.set_state(SubresourceState::Known(image.after));
        if let Some(level) = image.held {
            self.hand_over.stage_level(level, &image);
        }
        self.images.push(image);
        self.statistics.copies += 1;
    }

    pub(super) fn count(&mut self, size: u64) {
        self.staged += size;
        self.statistics.staged_bytes += size;
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

    /// Returns whether anything of a resource is on its way that was streamed: staged, not completed, or not handed over.
    pub(super) fn is_streaming(&mut self, tracker: &SubmissionTracker, target: AllocationId) -> bool {
        let is_staged = || {
            let at = self.copy_index(target, 0);
            self.copies.get(at).is_some_and(|copy| copy.target == target)
                || self.images.iter().any(|image| image.mark.resource() == target)
        };
        if self.hand_over.is_streaming(target) || !self.has_awaited && is_staged() {
            return true;
        }
        if !self.targets.contains(&target) {
            return false;
        }
        self.forget_done(tracker);
        let mut targets = self.targets.iter();
        self.batches.iter().any(|batch| {
            let is_target = targets.by_ref().take(batch.targets).filter(|&&it| it == target).count() > 0;
            batch.is_streamed && is_target
        })
    }

    /// Returns the bytes of the open batch.
    pub(super) fn open_bytes(&self) -> u64 {
        self.staged
    }

    pub(super) fn statistics(&self) -> LaneStatistics {
        LaneStatistics { waiting: self.waiting.len() as u64, ..self.statistics }
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

    /// Frees the staging memory of batches that have completed. Returns whether there are any.
    pub(super) fn forget_done(&mut self, tracker: &SubmissionTracker) -> bool {
        let before = self.batches.len();
        let mut now = None;
        // A queue completes batches in order: the first pending one ends the search.
        while let Some(batch) = self.batches.front() {
            if !tracker.is_reached(batch.point) {
                break;
            }
            let now = *now.get_or_insert_with(Instant::now);
            let (bytes, submitted, is_streamed) = (batch.bytes, batch.submitted, batch.is_streamed);
            if is_streamed {
                // A queue executes one after the other.
                let began = self.completed.map_or(submitted, |completed| completed.max(submitted));
                self.frame.time += now.saturating_duration_since(began);
            }
            if bytes >= self.capacity / (2 * BATCHES) {
                // The least of the last ones, since some are seen late.
                let took = now.saturating_duration_since(submitted);
                self.quickest = took.min(self.quickest.saturating_add(self.quickest / 8));
            }
            self.completed = Some(now);
            self.targets.drain(..batch.targets);
            self.ranges.free_oldest(batch.ranges);
            // On a lost device each point counts as reached, though not all was executed.
            let is_lost = tracker.is_lost();
            for handle in self.handles.drain(..batch.handles) {
                handle.completed(is_lost);
                self.over.push(handle);
            }
            self.batches.pop_front();
            if !self.waiting.is_empty() {
                self.progress = Some(now);
            }
        }
        self.batches.len() < before
    }

    /// Returns the index of a copy among the others.
    fn copy_index(&self, target: AllocationId, to_offset: u64) -> usize {
        self.copies.partition_point(|copy| (copy.target, copy.to_offset) < (target, to_offset))
    }

    /// Returns whether the open batch writes any of these bytes already.
    pub(super) fn overlaps(&self, target: AllocationId, to_offset: u64, size: u64) -> bool {
        // Copies do not overlap one another, so only the neighbours of the new range can overlap it.
        let at = self.copy_index(target, to_offset);
        let before = at.checked_sub(1).and_then(|before| self.copies.get(before));
        before.is_some_and(|copy| copy.target == target && copy.to_offset + copy.size > to_offset)
            || self
                .copies
                .get(at)
                .is_some_and(|copy| copy.target == target && copy.to_offset < to_offset + size)
    }

    fn submit_batch(
        &mut self,
        queue: QueueIndex,
        staging: &MappedBuffer<D>,
        recording: Recording,
        is_placed: impl Fn(AllocationId) -> bool,
        submit: impl FnOnce(QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<TimelinePoint, NotSubmitted<DeviceError>> {
        let buffers = self.copies.iter().map(|copy| copy.target);
        let mut targets = buffers.chain(self.images.iter().map(|image| image.mark.resource()));
        // What is placed may have its bytes since a moment ago.
        let aliases = targets.any(is_placed);
        let mut copies = reuse_capacity(mem::take(&mut self.copy_scratch));
        let mut image_copies = reuse_capacity(mem::take(&mut self.image_scratch));
        copies.extend(self.copies.iter().map(|copy| BufferCopy {
            from: staging.handle_ref(),
            from_offset: copy.from_offset,
            to: &copy.to,
            to_offset: copy.to_offset,
            size: copy.size,
        }));
        image_copies.extend(self.images.iter().map(|image| ImageCopy {
            buffer: staging.handle_ref(),
            buffer_offset: image.from_offset,
            row_pitch: image.row_pitch,
            rows: image.rows,
            image: &image.image,
            mip_level: image.mip_level,
            array_layer: image.array_layer,
            aspect: image.aspect,
            origin: image.origin,
            extent: image.extent,
            texels: image.texels,
            direction: CopyDirection::IntoImage,
            before: image.before,
            after: image.after,
        }));
        let work = Submission {
            waits: &self.waits,
            copies: &copies,
            image_copies: &image_copies,
            aliases,
            ..Submission::default()
        };
        // Inside the recording's submission, which gives the recording back where the queue refuses the batch.
        let submitted = recording.submit(queue, |queue| submit(queue, &work));
        self.copy_scratch = reuse_capacity(copies);
        self.image_scratch = reuse_capacity(image_copies);
        submitted
    }

    /// Moves the open batch to those in flight, after it was submitted or may have been: its bytes and targets are
    /// in use until `point`.
    pub(super) fn mark_submitted(&mut self, point: TimelinePoint) {
        let before = self.targets.len();
        // Copies are sorted by target, so equal targets are neighbours. Those of an image mostly are.
        let mut last = None;
        let buffers = self.copies.iter().map(|copy| copy.target);
        for target in buffers.chain(self.images.iter().map(|image| image.mark.resource())) {
            if last != Some(target) {
                self.targets.push_back(target);
            }
            last = Some(target);
        }
        let (targets, ranges) = (self.targets.len() - before, self.ranges.close());
        let handles = mem::take(&mut self.open_handles);
        let first = self.handles.len() - handles;
        self.handles.range(first..).for_each(|handle| handle.submitted(point));
        let (bytes, is_streamed) = (self.staged, !self.has_awaited);
        let submitted = Instant::now();
        self.batches.push_back(Batch { point, bytes, targets, ranges, handles, submitted, is_streamed });
        self.last = Some(point);
        if self.has_awaited {
            self.last_awaited = Some(point);
        }
        self.hand_over.submitted(&self.copies);
        self.clear();
    }

    /// Drops the open batch, which was not submitted.
    pub(super) fn discard(&mut self) {
        // The last write of a subresource is undone first.
        self.images.iter().rev().for_each(|image| image.set_state(image.was));
        self.recording = None;
        self.ranges.discard();
        self.discard_handles();
        self.clear();
        self.hand_over.discarded();
    }

    /// Notes that the bytes of the open batch are lost.
    fn discard_handles(&mut self) {
        let first = self.handles.len() - mem::take(&mut self.open_handles);
        for handle in self.handles.drain(first..) {
            handle.discarded();
            self.over.push(handle);
        }
    }

    fn clear(&mut self) {
        self.copies.clear();
        self.images.clear();
        self.staged = 0;
        self.has_awaited = false;
    }

    /// Returns whether a queue may use some of the ranges for ever.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }
}

impl<D: Device> Lane<D> {
    /// Submits the open batch, if there is one.
    pub(super) fn flush_locked(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
    ) -> Result<(), UploadError> {
        // Before its copies could write to them again.
        self.acquire_released(state, memory, None, Acquire::Awaited)?;
        match self.owner {
            // What is streamed is released by its own batch.
            Some(owner) if state.is_open() && state.hand_over.has_streamed() => {
                self.release(state, memory, owner)
            }
            _ => self.flush_plain(state, memory),
        }
    }

    /// Submits the open batch, if there is one, and releases nothing.
    pub(super) fn flush_plain(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
    ) -> Result<(), UploadError> {
        self.flush_by(state, memory, |device, queue, work| {
            // SAFETY: the ranges were checked when they were staged, and no two overlap. The targets belong to owners
            // whose tracker has known of the recording since then, so they live until its submission has completed,
            // and so does the staging memory. For image copies the caller of `write_image` promised the rest.
            unsafe { device.submit(queue, work) }
        })
    }

    /// Submits the open batch by a closure, which tests replace.
    pub(super) fn flush_by(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        submit: impl FnOnce(&D, QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<(), UploadError> {
        let Some(recording) = state.recording.take() else { return Ok(()) };
        let Some(staging) = self.staging.get().filter(|_| state.is_open()) else {
            // Left by a write that panicked before its copy was recorded.
            return Ok(());
        };
        let device = memory.allocator().device();
        // Ends the batch even if the submission panics.
        let mut ending = Ending { state, queue: self.queue, device, point: None };
        let submit = |queue, work: &Submission<'_, D>| submit(device, queue, work);
        let is_streamed = !ending.state.has_awaited;
        let is_placed = |target| memory.allocator().is_placed(target);
        match ending.state.submit_batch(self.queue, staging.get(), recording, is_placed, submit) {
            Ok(point) => {
                ending.point = Some(point);
                if is_streamed {
                    self.note_streamed(point);
                }
                ending.state.waits.clear();
                ending.state.statistics.submissions += 1;
                // Before the batch joins the list, which stays short this way.
                ending.state.forget_done(memory.deletion_queue().tracker());
                Ok(())
            }
            Err(refused) => {
                // The batch is unchanged: it can be submitted again.
                ending.state.recording = Some(refused.recording);
                mem::forget(ending);
                Err(refused.error.into())
            }
        }
    }
}

/// Ends a batch when dropped: after its submission, or when its submission panics. Its recording is closed by then,
/// so the batch must not be submitted again. If it is unknown whether the queue has the batch, its bytes stay until
/// everything submitted by now has completed; the points that it waited for carry over to the next batch.
struct Ending<'a, D: Device> {
    state: &'a mut LaneState<D>,
    queue: QueueIndex,
    device: &'a D,
    /// The point of its submission, if known.
    point: Option<TimelinePoint>,
}

impl<D: Device> Drop for Ending<'_, D> {
    fn drop(&mut self) {
        if self.point.is_none() {
            // The queue may or may not have the copies.
            self.state.images.iter().for_each(|image| image.set_state(SubresourceState::Unknown));
        }
        let queue = self.queue;
        let ask = || TimelinePoint { queue, value: self.device.submitted(queue) };
        let point = self.point.map_or_else(|| catch_unwind(AssertUnwindSafe(ask)).ok(), Some);
        match point {
            Some(point) => self.state.mark_submitted(point),
            None => {
                // The device panics on this query, too. The queue may use the memory at any time.
                self.state.is_abandoned = true;
                self.state.ranges.abandon();
                self.state.discard_handles();
                self.state.clear();
                self.state.hand_over.discarded();
            }
        }
    }
}

/// Returns an empty list with the capacity of another one whose elements have another lifetime. The standard
/// library collects in place if the element size does not change; a test counts allocations.
pub(in crate::upload) fn reuse_capacity<T, U>(mut room: Vec<T>) -> Vec<U> {
    room.clear();
    room.into_iter().map(|_| unreachable!("it is empty")).collect()
}
