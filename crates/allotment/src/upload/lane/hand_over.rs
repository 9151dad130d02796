//! Exclusive resources: a queue of another family than the one that uses them copies to them, and hands over what it wrote.
//!
//! ```text
//!   this queue       copies │ copies │ copies, release ─┐
//!   their family                                        └► acquire │ a submission that waits for the uploads
//!   recording        ├────────── one, open ────────────────┤
//! ```
//!
//! A family that overwrites a range or a subresource owns it from then on: so nothing is acquired before a copy. Batches that
//! submit themselves release nothing. [`Lane::submit`] does, for all of them, and submits the acquire behind it, on a queue of
//! the family to which exclusive resources belong: so no other submission waits for uploads that it does not need.
//!
//! Nobody waits for what is [streamed](UploadHandle::streamed), and an acquire would make its queue wait for the release. So a
//! batch that has nothing else releases what it can when it is submitted, and the first [`Lane::submit`] after the GPU has
//! executed that submits the acquire. What is written again in between is acquired first. A handle has not arrived before that
//! batch: where the last copy to a subresource went with a batch while its writer still held it, the handle joins the next
//! batch, which releases it.
//!
//! The resource has to live until both are executed, also where its owner drops it after the write: a recording of its own is
//! opened with the first copy, goes with what is released, and is submitted with the acquire.
//!
//! # Images
//!
//! A subresource of which some texels are to be kept is copied at home, that is on a queue of the family that owns it. A
//! large one is written piece by piece, in several batches, and frames submit meanwhile: so a write *holds* its subresources
//! from its first piece to its last, and those are not handed over.
//!
//! ```text
//!   not held   ──► a write of all of it, or the first one ──► held here     pieces; handed over by the first `submit` after
//!              └─► a write of a part, later on ────────────► held at home   pieces; until the first `submit` after
//! ```
//!
//! Other writes of the same subresource join those that hold it, so that never two queues write it.

use std::collections::{BTreeMap, VecDeque};

use super::batch::{StagedCopy, StagedImage};
use super::{Lane, LaneState};
use crate::device::{
    Device, OwnedPart, OwnershipTransfer, QueueIndex, Submission, TexelLayout, TimelinePoint,
};
use crate::lifetime::{NotSubmitted, Recording, SubmissionTracker, TimelinePoints};
use crate::memory::{AllocationId, OwningAllocator, WriteMark};
use crate::upload::error::UploadError;
use crate::upload::handle::UploadHandle;

/// A range of a buffer that the lane's queue has written, or is going to.
struct WrittenRange<D: Device> {
    target: AllocationId,
    buffer: D::Buffer,
    offset: u64,
    size: u64,
    /// Until it is acquired.
    mark: Option<WriteMark>,
}

impl<D: Device> WrittenRange<D> {
    fn end(&self) -> u64 {
        self.offset + self.size
    }
}

// Not derived: the derive would require `D: Clone`.
impl<D: Device> Clone for WrittenRange<D> {
    fn clone(&self) -> Self {
        let &Self { target, ref buffer, offset, size, ref mark } = self;
        Self { target, buffer: buffer.clone(), offset, size, mark: mark.clone() }
    }
}

/// Ranges of buffers, by target and offset; no two of them overlap or touch.
struct Ranges<D: Device>(Vec<WrittenRange<D>>);

impl<D: Device> Ranges<D> {
    /// Adds a range, and joins it with those that it meets.
    fn add(&mut self, mut range: WrittenRange<D>) {
        let target = range.target;
        let first = self.0.partition_point(|it| (it.target, it.end()) < (target, range.offset));
        let meets = |it: &&WrittenRange<D>| it.target == target && it.offset <= range.end();
        let count = self.0[first..].iter().take_while(meets).count();
        for it in self.0.drain(first..first + count) {
            let end = range.end().max(it.end());
            range.offset = range.offset.min(it.offset);
            range.size = end - range.offset;
        }
        self.0.insert(first, range);
    }

    fn meets(&self, target: AllocationId, offset: u64, size: u64) -> bool {
        let first = self.0.partition_point(|it| (it.target, it.end()) <= (target, offset));
        self.0.get(first).is_some_and(|it| it.target == target && it.offset < offset + size)
    }
}

/// A subresource of an image: the image, array layer and mip level.
pub(in crate::upload) type Level = (AllocationId, u32, u32);

/// A subresource that was written on the lane's queue, and the state in which the last copy leaves it.
struct WrittenLevel<D: Device> {
    image: D::Image,
    texels: TexelLayout,
    state: D::ImageState,
    mark: WriteMark,
}

impl<D: Device> WrittenLevel<D> {
    fn of(staged: &StagedImage<D>) -> Self {
        let (image, mark) = (staged.image.clone(), staged.mark.clone());
        Self { image, texels: staged.texels, state: staged.after, mark }
    }
}

impl<D: Device> Clone for WrittenLevel<D> {
    fn clone(&self) -> Self {
        Self { image: self.image.clone(), mark: self.mark.clone(), ..*self }
    }
}

/// A subresource that is being written, or was and is not handed over.
struct HeldLevel<D: Device> {
    /// The writes that go on.
    writers: usize,
    /// The queue of the family that owns it copies, not the lane's.
    is_at_home: bool,
    /// No submission waits for these writes.
    is_streamed: bool,
    /// By copies of the open batch.
    staged: Option<WrittenLevel<D>>,
    /// By copies of batches that were submitted.
    submitted: Option<WrittenLevel<D>>,
}

/// What is handed over together.
struct Parts<D: Device> {
    ranges: Ranges<D>,
    levels: Vec<(Level, WrittenLevel<D>)>,
    /// No submission waits for any of it.
    is_streamed: bool,
}

/// Parts that the lane's queue has released, or is going to, and no queue has acquired.
struct Released<D: Device> {
    parts: Parts<D>,
    at: TimelinePoint,
    /// It has been open since the first copy to one of them.
    recording: Recording,
}

/// Which of the released parts are acquired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Acquire {
    /// Those that submissions wait for: a queue refused to acquire them before.
    Awaited,
    /// Those as well that were streamed and are there.
    Arrived,
    /// All, for which the queue waits.
    All,
}

impl<D: Device> Parts<D> {
    fn is_empty(&self) -> bool {
        self.ranges.0.is_empty() && self.levels.is_empty()
    }

    fn transfers(&self, from: QueueIndex, to: QueueIndex) -> Vec<OwnershipTransfer<'_, D>> {
        let ranges = self.ranges.0.iter().map(|it| OwnedPart::Buffer {
            buffer: &it.buffer,
            offset: it.offset,
            size: it.size,
        });
        let levels = self.levels.iter().map(|&((_, array_layer, mip_level), ref it)| OwnedPart::Image {
            image: &it.image,
            texels: it.texels,
            mip_level,
            array_layer,
            state: it.state,
        });
        ranges.chain(levels).map(|part| OwnershipTransfer { part, from, to }).collect()
    }
}

/// What a lane whose queue is of another family has written of exclusive resources, and not handed over.
pub(super) struct HandOver<D: Device> {
    /// Of batches that were submitted.
    ranges: Ranges<D>,
    levels: BTreeMap<Level, HeldLevel<D>>,
    released: Vec<Released<D>>,
    /// The open batch copies to exclusive buffers.
    has_copies: bool,
    /// Submissions wait for some of these ranges, and do not for others.
    has_awaited_ranges: bool,
    has_streamed_ranges: bool,
    /// Open while there is any of it that no write holds, and while the open batch copies to exclusive buffers.
    recording: Option<Recording>,
    /// Ranges whose acquires may not have completed, oldest first.
    acquiring: VecDeque<(Ranges<D>, TimelinePoint)>,
    /// The points of the acquires.
    pub(super) acquired_at: TimelinePoints,
}

impl<D: Device> Default for HandOver<D> {
    fn default() -> Self {
        Self {
            ranges: Ranges(Vec::new()),
            levels: BTreeMap::new(),
            released: Vec::new(),
            has_copies: false,
            has_awaited_ranges: false,
            has_streamed_ranges: false,
            recording: None,
            acquiring: VecDeque::new(),
            acquired_at: TimelinePoints::EMPTY,
        }
    }
}

impl<D: Device> HandOver<D> {
    /// Opens the recording that keeps exclusive resources alive until they are handed over.
    pub(super) fn open(&mut self, tracker: &SubmissionTracker) {
        if self.recording.is_none() {
            self.recording = Some(tracker.record("uploads to hand over").leaving_orphans());
        }
    }

    /// Closes that recording where there is nothing to hand over.
    pub(super) fn close_if_empty(&mut self) {
        // An image that is being written lives by that.
        let waits = |it: &HeldLevel<D>| it.writers == 0 && (it.staged.is_some() || it.submitted.is_some());
        let has_ranges = self.has_copies || !self.ranges.0.is_empty();
        if !has_ranges && !self.levels.values().any(waits) {
            self.recording = None;
        }
    }

    /// Returns whether submissions wait for anything that is to be released.
    pub(super) fn has_awaited(&self) -> bool {
        self.has_awaited_ranges || self.has_levels(false)
    }

    /// Returns whether there is nothing to release or to acquire that submissions wait for.
    pub(super) fn is_settled(&self) -> bool {
        // Where a queue refused an acquire, it is tried again.
        !self.has_awaited() && self.released.iter().all(|it| it.parts.is_streamed)
    }

    /// Returns the point from which on something that was streamed can be acquired.
    pub(super) fn first_released(&self) -> Option<TimelinePoint> {
        self.released.iter().map(|it| it.at).min_by_key(|at| at.value)
    }

    /// Returns whether anything is to be released for which no submission waits.
    pub(super) fn has_streamed(&self) -> bool {
        self.has_streamed_ranges || self.has_levels(true)
    }

    /// Returns whether subresources are to be released that were streamed, or were not.
    fn has_levels(&self, is_streamed: bool) -> bool {
        let is_written = |it: &HeldLevel<D>| it.staged.is_some() || it.submitted.is_some();
        self.levels.values().any(|it| it.writers == 0 && it.is_streamed == is_streamed && is_written(it))
    }

    /// Returns whether anything of a resource was streamed, and was not acquired.
    pub(super) fn is_streaming(&self, target: AllocationId) -> bool {
        let is_released = |it: &Released<D>| {
            it.parts.ranges.meets(target, 0, u64::MAX)
                || it.parts.levels.iter().any(|((image, ..), _)| *image == target)
        };
        self.has_streamed_ranges && self.ranges.meets(target, 0, u64::MAX)
            || self.levels.iter().any(|((image, ..), it)| *image == target && it.is_streamed)
            || self.released.iter().any(|it| it.parts.is_streamed && is_released(it))
    }

    /// Returns whether a range was released and not acquired.
    pub(super) fn has_released_range(&self, (target, offset, size): (AllocationId, u64, u64)) -> bool {
        self.released.iter().any(|it| it.parts.ranges.meets(target, offset, size))
    }

    /// Returns whether a subresource was released and not acquired.
    fn has_released_level(&self, level: Level) -> bool {
        self.released.iter().any(|it| it.parts.levels.iter().any(|(other, _)| *other == level))
    }

    /// Returns the points after which a range may be written again.
    fn acquires_of(&self, (target, offset, size): (AllocationId, u64, u64)) -> TimelinePoints {
        let meets = |(ranges, _): &&(Ranges<D>, _)| ranges.meets(target, offset, size);
        self.acquiring.iter().filter(meets).map(|(_, point)| *point).collect()
    }

    /// Notes that the open batch copies to an exclusive buffer.
    pub(super) fn stage_copy(&mut self, is_streamed: bool) {
        self.has_copies = true;
        self.has_awaited_ranges |= !is_streamed;
        self.has_streamed_ranges |= is_streamed;
    }

    /// Notes that the open batch writes a subresource.
    pub(super) fn stage_level(&mut self, level: Level, staged: &StagedImage<D>) {
        if let Some(held) = self.levels.get_mut(&level) {
            held.staged = Some(WrittenLevel::of(staged));
        }
    }

    /// Notes that the open batch was submitted, or may have been.
    pub(super) fn submitted(&mut self, copies: &[StagedCopy<D>]) {
        for copy in copies.iter().filter(|copy| copy.is_exclusive) {
            self.ranges.add(range_of(copy));
        }
        self.has_copies = false;
        for held in self.levels.values_mut() {
            if let Some(staged) = held.staged.take() {
                held.submitted = Some(staged);
            }
        }
    }

    /// Notes that the open batch was dropped.
    pub(super) fn discarded(&mut self) {
        self.has_copies = false;
        self.has_awaited_ranges &= !self.ranges.0.is_empty();
        self.has_streamed_ranges &= !self.ranges.0.is_empty();
        self.levels.values_mut().for_each(|held| held.staged = None);
        // A write that goes on begins anew where nothing of it was submitted.
        self.levels.retain(|_, held| held.writers > 0 || held.is_at_home || held.submitted.is_some());
        self.close_if_empty();
    }

    /// Returns what is handed over with the open batch: all that no write holds.
    fn parts(&self, copies: &[StagedCopy<D>]) -> Parts<D> {
        let mut ranges = Ranges(self.ranges.0.clone());
        for copy in copies.iter().filter(|copy| copy.is_exclusive) {
            ranges.add(range_of(copy));
        }
        let free = self.levels.iter().filter(|(_, held)| held.writers == 0);
        let levels = free.filter_map(|(level, held)| {
            let written = held.staged.as_ref().or(held.submitted.as_ref())?;
            Some((*level, written.clone(), held.is_streamed))
        });
        let mut is_streamed = ranges.0.is_empty() || !self.has_awaited_ranges;
        let levels = levels.map(|(level, written, level_is_streamed)| {
            is_streamed &= level_is_streamed;
            (level, written)
        });
        let levels = levels.collect();
        Parts { ranges, levels, is_streamed }
    }

    /// Notes that a queue has released these parts.
    fn note_released(&mut self, parts: Parts<D>, at: TimelinePoint) {
        self.ranges.0.clear();
        (self.has_awaited_ranges, self.has_streamed_ranges) = (false, false);
        self.levels.retain(|_, held| held.writers > 0 || held.is_at_home);
        if let Some(recording) = self.recording.take() {
            self.released.push(Released { parts, at, recording });
        }
    }

    /// Begins a write of a subresource. Returns true where its copies have to be made at home.
    fn hold(&mut self, level: Level, may_be_here: bool, is_streamed: bool) -> bool {
        let held = self.levels.entry(level).or_insert(HeldLevel {
            writers: 0,
            is_at_home: !may_be_here,
            is_streamed: true,
            staged: None,
            submitted: None,
        });
        held.writers += 1;
        held.is_streamed &= is_streamed;
        held.is_at_home
    }

    /// Ends a write of a subresource, whose image lives. Returns true where all its copies were submitted, and a later batch
    /// is to release it.
    fn let_go(&mut self, level: Level, tracker: &SubmissionTracker) -> bool {
        let Some(held) = self.levels.get_mut(&level) else { return false };
        held.writers -= 1;
        if held.writers > 0 || held.is_at_home {
            return false;
        }
        let is_staged = held.staged.is_some();
        if !is_staged && held.submitted.is_none() {
            self.levels.remove(&level);
            return false;
        }
        // So far its writer has kept it alive.
        self.open(tracker);
        !is_staged
    }
}

fn range_of<D: Device>(copy: &StagedCopy<D>) -> WrittenRange<D> {
    let &StagedCopy { target, ref to, to_offset, size, ref mark, .. } = copy;
    WrittenRange { target, buffer: to.clone(), offset: to_offset, size, mark: mark.clone() }
}

impl<D: Device> LaneState<D> {
    /// Returns true where the next copy to a subresource that a write holds here keeps nothing of what it had before.
    pub(in crate::upload) fn is_first_copy(&self, level: Level) -> bool {
        let held = self.hand_over.levels.get(&level);
        held.is_some_and(|held| !held.is_at_home && held.staged.is_none() && held.submitted.is_none())
    }

    /// Makes the open batch, which copies to this range of an exclusive buffer, wait for earlier acquires of it.
    pub(in crate::upload) fn wait_for_acquires(&mut self, range: (AllocationId, u64, u64)) {
        let points = self.hand_over.acquires_of(range);
        points.points().for_each(|point| self.wait_for(point));
    }
}

/// The subresources of an image that a write holds. When dropped, it lets them go.
pub(in crate::upload) struct HeldLevels<'a, D: Device> {
    lane: &'a Lane<D>,
    memory: &'a OwningAllocator<D>,
    /// The handle of a streamed write.
    streamed: Option<&'a UploadHandle>,
    /// With whether they are copied at home.
    levels: BTreeMap<Level, bool>,
}

impl<D: Device> HeldLevels<'_, D> {
    /// Holds a subresource. `may_be_here` says whether its copies may be made on the lane's queue, where no write holds it.
    pub(in crate::upload) fn hold(
        &mut self,
        level: Level,
        may_be_here: impl FnOnce() -> bool,
    ) -> Result<(), UploadError> {
        if !self.levels.contains_key(&level) {
            let mut state = self.lane.lock();
            // Those that others held are forgotten then.
            state.check_lost()?;
            if state.hand_over.has_released_level(level) {
                self.lane.acquire_released(&mut state, self.memory, None, Acquire::All)?;
            }
            let is_at_home = state.hand_over.hold(level, may_be_here(), self.streamed.is_some());
            self.levels.insert(level, is_at_home);
        }
        Ok(())
    }

    /// Returns whether a subresource is copied at home.
    pub(in crate::upload) fn is_at_home(&self, level: Level) -> bool {
        self.levels.get(&level).copied().unwrap_or(true)
    }
}

impl<D: Device> Drop for HeldLevels<'_, D> {
    fn drop(&mut self) {
        let mut state = self.lane.lock();
        let tracker = self.memory.deletion_queue().tracker();
        let mut is_released_later = false;
        for level in self.levels.keys() {
            is_released_later |= state.hand_over.let_go(*level, tracker);
        }
        if is_released_later {
            state.note_handle(self.streamed);
        }
        state.hand_over.close_if_empty();
        self.lane.note_changed(&state);
    }
}

impl<D: Device> Lane<D> {
    /// Returns whether a subresource belongs to the family of the lane's queue: a write holds it, or has ended since it was
    /// handed over last.
    pub(in crate::upload) fn is_held(&self, level: Level) -> bool {
        let held = |it: &HeldLevel<D>| !it.is_at_home;
        let is_held =
            |it: &HandOver<D>| it.levels.get(&level).is_some_and(held) || it.has_released_level(level);
        self.is_foreign() && is_held(&self.lock().hand_over)
    }

    /// Returns what holds subresources for a write, on a lane whose queue is of another family than their owner.
    pub(in crate::upload) fn holder<'a>(
        &'a self,
        memory: &'a OwningAllocator<D>,
        handle: Option<&'a UploadHandle>,
    ) -> Result<HeldLevels<'a, D>, UploadError> {
        // Subresources that no write holds belong to their family from here on, unless they were streamed just now.
        self.acquire_released(&mut self.lock(), memory, None, Acquire::Awaited)?;
        let streamed = handle.filter(|handle| handle.is_streamed());
        Ok(HeldLevels { lane: self, memory, streamed, levels: BTreeMap::new() })
    }

    /// Submits the open batch, and hands over what it and the batches before wrote of exclusive resources: the queue `to`,
    /// which is of the family of their owner, acquires it, or the first queue of that family. Copies at `home` are submitted
    /// first.
    pub(super) fn submit_locked(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        to: Option<QueueIndex>,
        home: Option<&Lane<D>>,
        which: Acquire,
    ) -> Result<(), UploadError> {
        let Some(owner) = self.owner else { return self.flush_locked(state, memory) };
        let to = to.unwrap_or(owner);
        if let Some(home) = home {
            // Under this lane's lock: what its queue copied, no write of this lane overwrites before it is submitted.
            home.flush(memory)?;
        }
        self.acquire_released(state, memory, Some(to), which)?;
        self.release(state, memory, to)?;
        // Those at home as well: their copies were submitted before.
        state.hand_over.levels.retain(|_, held| held.writers > 0);
        state.hand_over.close_if_empty();
        self.acquire_released(state, memory, Some(to), which)
    }

    /// Submits the open batch, and releases what it and the batches before wrote of exclusive resources, for the family of the
    /// queue `to`.
    pub(super) fn release(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        to: QueueIndex,
    ) -> Result<(), UploadError> {
        let parts = state.hand_over.parts(state.copies());
        if parts.is_empty() {
            return self.flush_plain(state, memory);
        }
        // Before the batch's own recording ends: one of the two has been open since each copy was recorded.
        let tracker = memory.deletion_queue().tracker();
        state.hand_over.open(tracker);
        let releases = parts.transfers(self.queue, to);
        // Others may wait for bytes of the batch.
        let is_streamed = parts.is_streamed && !state.has_awaited();
        let device = memory.allocator().device();
        let submit = |device: &D, queue, work: &Submission<'_, D>| {
            let work = Submission { releases: &releases, ..*work };
            // SAFETY: as for a batch without releases. The queue's family owns the parts: its copies have overwritten them, or
            // were the first to write them, and they are released once. The recording that was opened with the first of these
            // copies keeps the resources alive until they are acquired.
            unsafe { device.submit(queue, &work) }
        };
        let at = if state.is_open() {
            self.flush_by(state, memory, submit)?;
            state.last()
        } else {
            let submit = |queue| submit(device, queue, &Submission::default());
            let recording = state.hand_over.recording.as_mut();
            // Kept open for the acquire.
            let at = recording.map(|recording| recording.submit_and_keep(self.queue, submit)).transpose()?;
            // A batch without bytes, for the handles that wait for the release.
            at.into_iter().for_each(|at| state.mark_submitted(at));
            at
        };
        drop(releases);
        let Some(at) = at else { return Ok(()) };
        if is_streamed {
            self.note_streamed(at);
        }
        state.hand_over.note_released(parts, at);
        self.note_changed(state);
        Ok(())
    }

    /// Submits the acquires of what this queue has released.
    pub(super) fn acquire_released(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        to: Option<QueueIndex>,
        which: Acquire,
    ) -> Result<(), UploadError> {
        let Some(to) = to.or(self.owner) else { return Ok(()) };
        let tracker = memory.deletion_queue().tracker();
        let mut at = 0;
        while let Some(released) = state.hand_over.released.get(at) {
            let is_due = match which {
                Acquire::Awaited => !released.parts.is_streamed,
                Acquire::Arrived => !released.parts.is_streamed || tracker.is_reached(released.at),
                Acquire::All => true,
            };
            if is_due {
                self.acquire(state, memory, to, at)?;
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Submits the acquires of what was released together.
    fn acquire(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        to: QueueIndex,
        index: usize,
    ) -> Result<(), UploadError> {
        let hand_over = &mut state.hand_over;
        let Released { mut parts, at, recording } = hand_over.released.remove(index);
        let tracker = memory.deletion_queue().tracker();
        let device = memory.allocator().device();
        let acquires = parts.transfers(self.queue, to);
        let work = Submission { waits: &[at], acquires: &acquires, ..Submission::default() };
        // SAFETY: the queue has released them by a submission that this one waits for, and the recording has been open since
        // they were copied to.
        let submitted = recording.submit(to, |queue| unsafe { device.submit(queue, &work) });
        drop(acquires);
        match submitted {
            Ok(point) => {
                while hand_over.acquiring.front().is_some_and(|(_, point)| tracker.is_reached(*point)) {
                    hand_over.acquiring.pop_front();
                }
                hand_over.acquired_at.insert(point);
                let is_streamed = parts.is_streamed;
                parts.ranges.0.iter_mut().for_each(|range| range.mark = None);
                hand_over.acquiring.push_back((parts.ranges, point));
                if !is_streamed && state.is_open() {
                    // A queue refused the acquire before, and these copies were staged since.
                    state.wait_for(point);
                }
                self.note_changed(state);
                Ok(())
            }
            Err(NotSubmitted { recording, error }) => {
                // Tried again by the next submission.
                hand_over.released.insert(index, Released { parts, at, recording });
                Err(error.into())
            }
        }
    }
}
