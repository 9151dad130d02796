//! Bytes on their way to the device over one queue: staged in a ring, and the copies that they wait for.
//!
//! ```text
//!   ring     ▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓ ▒▒▒▒░░░░       two batches in flight, one being filled
//!   copies   [mesh 0..4096][mesh 8192..9000][sky …]     of the one being filled, by target and place
//! ```
//!
//! A batch is a recording: it is opened by the first bytes that are staged and submitted as a whole, so a target
//! that is dropped meanwhile stays until its bytes have arrived. Copies of one batch run in any order, so bytes that
//! would overwrite others of the same batch begin a new one. Bytes that follow others both in the target and in the
//! ring join their copy.
//!
//! # Cost
//!
//! Staging is a binary search among the copies of the batch and an insertion, so their number has an
//! [end](MAX_COPIES). What is in flight is known as a list of batches and of their targets, oldest first: 16 bytes or
//! so a target, walked by who wants to write where the CPU reaches.

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
use crate::Alignment;
use crate::device::{
    BufferCopy, CopyDirection, Device, DeviceError, ImageCopy, QueueIndex, Submission, TexelBlock,
    TimelinePoint, TimelineValue,
};
use crate::lifetime::{Recording, Refused, SubmissionTracker};
use crate::memory::{AccessError, AllocationId, OwningAllocator};

/// Batches that a ring is divided into, so that one can be filled while others are copied.
pub(super) const BATCHES: u64 = 4;

/// Where staged bytes begin, at least: what `memcpy` and queues like.
const STAGED_AT: u64 = 64;

/// Copies between buffers that a batch has at most: they are kept sorted, so staging one moves half of the others on
/// average, 25 KB of a full batch or a microsecond. A submission costs ten times that, and each has a thousand of them
/// to share it.
pub(super) const MAX_COPIES: usize = 1024;

/// Buffers that the batches in flight write to, at most times. Room for as many, and for as many batches as the ring
/// expects frames, is there from the start: how many are in flight at once is a matter of how late the queue is, and
/// one that is late for the first time after an hour shall cost a frame nothing. 16 KiB.
const TARGETS: usize = 1024;

/// What is done when the ring is full of bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Wait for the device, at most so long for each batch.
    Wait(Duration),
    /// Refuse, all or nothing, and say what to wait for. A batch that grows large is not submitted by itself then,
    /// but where its copies would overlap or be too many.
    Refuse,
}

/// Bytes of the open batch that go to a buffer.
struct StagedCopy<D: Device> {
    target: AllocationId,
    to: D::Buffer,
    to_offset: u64,
    from_offset: u64,
    size: u64,
}

/// Bytes of the open batch that go to an image.
pub(super) struct StagedImage<D: Device> {
    pub(super) image: D::Image,
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

/// A batch that its queue may not be done with.
struct Batch {
    point: TimelinePoint,
    bytes: u64,
    /// How many of the lane's targets are its own.
    targets: usize,
}

/// One queue, and what is on its way to it.
pub(super) struct Lane<D: Device> {
    queue: QueueIndex,
    capacity: u64,
    when_full: WhenFull,
    /// Made for the first bytes.
    ring: Option<UploadRing<D>>,
    /// Of the open batch; `None` while nothing is staged.
    recording: Option<Recording>,
    /// By target and offset; no two of them overlap.
    copies: Vec<StagedCopy<D>>,
    /// In the order in which they came.
    images: Vec<StagedImage<D>>,
    /// Bytes of the open batch.
    staged: u64,
    /// What the open batch waits for, or the next one: a point a queue at most.
    waits: Vec<TimelinePoint>,
    last: Option<TimelinePoint>,
    /// In flight, oldest first; those that are done go when the next is submitted or somebody asks.
    batches: VecDeque<Batch>,
    /// The buffers that these write to, batch by batch.
    targets: VecDeque<AllocationId>,
    pub(super) statistics: LaneStatistics,
    /// Room for what a submission is described by.
    copy_room: Vec<BufferCopy<'static, D>>,
    image_room: Vec<ImageCopy<'static, D>>,
}

/// What went over a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneStatistics {
    pub(super) staged_bytes: u64,
    pub(super) copies: u64,
    pub(super) submissions: u64,
    pub(super) waits: u64,
    pub(super) refusals: u64,
}

impl<D: Device> Lane<D> {
    /// A lane over a queue, with a ring of `capacity` bytes once it is used.
    pub(super) fn new(queue: QueueIndex, capacity: u64, when_full: WhenFull) -> Self {
        Self {
            queue,
            capacity,
            when_full,
            ring: None,
            recording: None,
            copies: Vec::new(),
            images: Vec::new(),
            staged: 0,
            waits: Vec::new(),
            last: None,
            batches: VecDeque::new(),
            targets: VecDeque::new(),
            statistics: LaneStatistics::default(),
            copy_room: Vec::new(),
            image_room: Vec::new(),
        }
    }

    pub(super) fn queue(&self) -> QueueIndex {
        self.queue
    }

    /// Bytes that are staged at once, at most, of more that come together.
    pub(super) fn piece(&self) -> u64 {
        match self.when_full {
            WhenFull::Wait(_) => (self.capacity / BATCHES).max(1),
            // All or nothing.
            WhenFull::Refuse => self.capacity,
        }
    }

    /// Refuses what never fits, where all or nothing is wanted.
    pub(super) fn check(&self, requested: u64) -> Result<(), UploadError> {
        if self.when_full == WhenFull::Refuse && requested > self.capacity {
            return Err(RingError::NeverFits { requested, capacity: self.capacity }.into());
        }
        Ok(())
    }

    pub(super) fn wait_for(&mut self, point: TimelinePoint) {
        // One a queue is enough, and all there is room for in a lane that never has a batch.
        match self.waits.iter_mut().find(|wait| wait.queue == point.queue) {
            Some(wait) => wait.value = wait.value.max(point.value),
            None => self.waits.push(point),
        }
    }

    /// What the last batch is done at.
    pub(super) fn last(&self) -> Option<TimelinePoint> {
        self.last
    }

    /// Stages bytes for a range of a buffer, which the caller has checked.
    pub(super) fn stage(
        &mut self,
        memory: &OwningAllocator<D>,
        (target, to, to_offset): (AllocationId, &D::Buffer, u64),
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        let size = bytes.len() as u64;
        if self.copies.len() >= MAX_COPIES || self.overlaps(target, to_offset, size) {
            self.flush(memory)?;
        }
        let alignment = Alignment::new(STAGED_AT).unwrap_or(Alignment::ONE);
        let from_offset = self.room(memory, size, alignment, |slice| slice.write(0, bytes))?;
        let at = self.place_of(target, to_offset);
        let before = at.checked_sub(1).and_then(|before| self.copies.get_mut(before));
        // What was staged later stands later in the ring, so only the one before can go on here.
        let goes_on = |copy: &&mut StagedCopy<D>| {
            copy.target == target
                && copy.to_offset + copy.size == to_offset
                && copy.from_offset + copy.size == from_offset
        };
        if let Some(before) = before.filter(goes_on) {
            before.size += size;
        } else {
            self.copies.insert(at, StagedCopy { target, to: to.clone(), to_offset, from_offset, size });
            self.statistics.copies += 1;
        }
        self.note(memory, size)
    }

    /// Stages texels, which `write` puts into the ring.
    pub(super) fn stage_image(
        &mut self,
        memory: &OwningAllocator<D>,
        (size, alignment): (u64, Alignment),
        image: impl FnOnce(u64) -> StagedImage<D>,
        write: impl FnOnce(&mut UploadSlice<'_, D>) -> Result<(), AccessError>,
    ) -> Result<(), UploadError> {
        let from_offset = self.room(memory, size, alignment, write)?;
        self.images.push(image(from_offset));
        self.statistics.copies += 1;
        self.note(memory, size)
    }

    /// Whether bytes for this buffer are staged, or on their way.
    pub(super) fn writes_to(&mut self, tracker: &SubmissionTracker, target: AllocationId) -> bool {
        let at = self.place_of(target, 0);
        if self.copies.get(at).is_some_and(|copy| copy.target == target) {
            return true;
        }
        // Most are not asked for anything.
        if !self.targets.contains(&target) {
            return false;
        }
        self.forget_done(tracker);
        self.targets.contains(&target)
    }

    /// Bytes of the open batch.
    pub(super) fn open_bytes(&self) -> u64 {
        self.staged
    }

    /// How many batches are in flight, and their bytes.
    pub(super) fn in_flight(&self, tracker: &SubmissionTracker) -> (u64, u64) {
        let batches = self.batches.iter().skip_while(|batch| tracker.is_reached(batch.point));
        batches.fold((0, 0), |(count, bytes), batch| (count + 1, bytes + batch.bytes))
    }

    fn forget_done(&mut self, tracker: &SubmissionTracker) {
        while let Some(batch) = self.batches.front() {
            if !tracker.is_reached(batch.point) {
                break;
            }
            self.targets.drain(..batch.targets);
            self.batches.pop_front();
        }
    }

    /// Where a copy stands among the others.
    fn place_of(&self, target: AllocationId, to_offset: u64) -> usize {
        self.copies.partition_point(|copy| (copy.target, copy.to_offset) < (target, to_offset))
    }

    /// Whether the open batch writes any of these bytes already.
    fn overlaps(&self, target: AllocationId, to_offset: u64, size: u64) -> bool {
        let at = self.place_of(target, to_offset);
        let before = at.checked_sub(1).and_then(|before| self.copies.get(before));
        before.is_some_and(|copy| copy.target == target && copy.to_offset + copy.size > to_offset)
            || self
                .copies
                .get(at)
                .is_some_and(|copy| copy.target == target && copy.to_offset < to_offset + size)
    }

    /// Room in the ring, which `write` fills. Makes room where there is none, if that is wanted.
    fn room(
        &mut self,
        memory: &OwningAllocator<D>,
        size: u64,
        alignment: Alignment,
        write: impl FnOnce(&mut UploadSlice<'_, D>) -> Result<(), AccessError>,
    ) -> Result<u64, UploadError> {
        loop {
            let ring = match &mut self.ring {
                Some(ring) => ring,
                none => {
                    self.batches.reserve(FRAMES);
                    self.targets.reserve(TARGETS);
                    let tracker = memory.deletion_queue().tracker();
                    // It is only copied from.
                    let desc = RingDesc::upload(self.capacity);
                    none.insert(UploadRing::new(memory.allocator(), tracker, &desc)?)
                }
            };
            let (wait, refusal) = match ring.allocate(size, alignment) {
                Ok(mut slice) => {
                    let offset = slice.offset();
                    let written = write(&mut slice);
                    if written.is_err() && self.recording.is_none() {
                        // Else the next submission takes the room along.
                        ring.discard();
                    }
                    written?;
                    self.open(memory);
                    return Ok(offset);
                }
                Err(refusal @ RingError::FullForNow { wait, .. }) => (wait, refusal),
                Err(refusal) => return Err(refusal.into()),
            };
            match (wait, self.when_full) {
                // Nothing is staged, so the open frame is of a write that panicked.
                (WaitFor::Submission, _) if self.recording.is_none() => ring.discard(),
                // An upload has no tickets.
                (_, WhenFull::Refuse) | (WaitFor::Tickets, _) => {
                    self.statistics.refusals += 1;
                    return Err(refusal.into());
                }
                (WaitFor::Submission, WhenFull::Wait(_)) => self.flush(memory)?,
                (WaitFor::Point(point), WhenFull::Wait(timeout)) => {
                    self.statistics.waits += 1;
                    match memory.deletion_queue().tracker().wait(point, timeout) {
                        Err(DeviceError::TimedOut { point, .. }) => {
                            return Err(UploadError::TimedOut { point });
                        }
                        waited => waited?,
                    }
                }
            }
        }
    }

    fn open(&mut self, memory: &OwningAllocator<D>) {
        if self.recording.is_none() {
            self.recording = Some(memory.deletion_queue().tracker().record("uploads"));
        }
    }

    /// After bytes were staged: a batch that is large enough goes, so that the device has something to do while
    /// the next is filled.
    fn note(&mut self, memory: &OwningAllocator<D>, size: u64) -> Result<(), UploadError> {
        self.staged += size;
        self.statistics.staged_bytes += size;
        if self.when_full != WhenFull::Refuse && self.staged >= self.capacity / BATCHES {
            self.flush(memory)?;
        }
        Ok(())
    }

    /// Submits the open batch, if there is one.
    pub(super) fn flush(&mut self, memory: &OwningAllocator<D>) -> Result<(), UploadError> {
        self.flush_by(memory, |device, queue, work| {
            // SAFETY: the ranges were checked when they were staged, and none overlaps another; the targets are
            // owners' whose tracker has known of the recording since then, so they live until its submission is
            // done, as the ring does; of image copies the caller of `write_image` promised the rest.
            unsafe { device.submit(queue, work) }
        })
    }

    /// The same, in a way that a test may choose.
    pub(super) fn flush_by(
        &mut self,
        memory: &OwningAllocator<D>,
        submit: impl FnOnce(&D, QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<(), UploadError> {
        let Some(recording) = self.recording.take() else { return Ok(()) };
        let device = memory.allocator().device();
        let mut ending = Ending { lane: self, device, point: None };
        match ending.lane.give(recording, |queue, work| submit(device, queue, work)) {
            Ok(point) => {
                ending.point = Some(point);
                ending.lane.waits.clear();
                ending.lane.statistics.submissions += 1;
                // Before the batch joins the list, which so stays as short as it can.
                ending.lane.forget_done(memory.deletion_queue().tracker());
                drop(ending);
                self.ring.iter_mut().for_each(|ring| _ = ring.reclaim());
                Ok(())
            }
            Err(refused) => {
                mem::forget(ending);
                // Nothing was lost: it can be tried again.
                self.recording = Some(refused.recording);
                Err(refused.error.into())
            }
        }
    }

    fn give(
        &mut self,
        recording: Recording,
        submit: impl FnOnce(QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<TimelinePoint, Refused<DeviceError>> {
        let mut copies = room_again(mem::take(&mut self.copy_room));
        let mut image_copies = room_again(mem::take(&mut self.image_room));
        // There is one where anything is staged.
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
        let submitted = recording.submit(self.queue, |queue| submit(queue, &work));
        self.copy_room = room_again(copies);
        self.image_room = room_again(image_copies);
        submitted
    }

    /// After the open batch went, or perhaps did: its bytes and its targets are in use until `point`.
    fn went(&mut self, point: TimelinePoint) {
        let before = self.targets.len();
        // They are sorted by target.
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

    /// Drops the open batch, which no queue was given.
    pub(super) fn discard(&mut self) {
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

/// Ends a batch when it is dropped: when the batch was submitted, or when its submission panics. Its recording is gone by
/// then, so it must not be submitted again. Where nobody knows whether the queue has it, its bytes stay until all is done
/// that the queue was given by now; and what it waited for, the next batch waits for as well.
struct Ending<'a, D: Device> {
    lane: &'a mut Lane<D>,
    device: &'a D,
    /// Until when the queue uses it, where that is known.
    point: Option<TimelinePoint>,
}

impl<D: Device> Drop for Ending<'_, D> {
    fn drop(&mut self) {
        let queue = self.lane.queue;
        let ask = || TimelinePoint { queue, value: self.device.submitted(queue) };
        let point = self.point.map_or_else(|| catch_unwind(AssertUnwindSafe(ask)).ok(), Some);
        match point {
            Some(point) => self.lane.went(point),
            None => {
                // The device panics whatever it is asked. The queue may use the ring for ever.
                mem::forget(self.lane.ring.take());
                self.lane.clear();
            }
        }
    }
}

/// The room of a list whose elements borrow from what is gone, for elements that borrow from something else. The
/// standard library collects in place where nothing changes its size; a test counts allocations.
fn room_again<T, U>(mut room: Vec<T>) -> Vec<U> {
    room.clear();
    room.into_iter().map(|_| unreachable!("it is empty")).collect()
}
