//! The uploads over one queue: staging memory that all threads share, and the copies from it.
//!
//! ```text
//!   staging   ▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓ ▒▒▒▒ ╌╌╌╌ ░░░░     two batches in flight, one that is filled, a range that a thread fills
//!   copies    [mesh 0..4096][mesh 8192..9000][sky …]     of the one that is filled, by target and offset
//! ```
//!
//! A batch is a recording: the first staged bytes open it, and it is submitted as a whole, so a target that is
//! dropped meanwhile stays alive until its bytes have arrived. The copies of a batch run in any order, so bytes
//! that overlap others of the same batch begin a new batch. Bytes that follow others both in the target and in
//! staging memory extend their copy.
//!
//! # A write, from many threads
//!
//! ```text
//!   reserve a range        locked, or waits for its turn (`room`)
//!   copy the bytes         unlocked; small ones under the lock
//!   record the copy        locked: the target's handle of now, into the batch that is open now
//! ```
//!
//! A range that is reserved belongs to its writer: a submission in between leaves it alone, and a writer that fails or
//! panics gives it back. A large write does this for each of its pieces, in order, so other writes come in between. No lock
//! is held while a thread waits for the GPU or copies many bytes, so whoever submits holds the lock as long as it takes to
//! hand the batch to the queue, and never waits for a writer.
//!
//! # Locks
//!
//! The lane's lock comes first, then those of `StreamedEnd` and `settled`, or that of opening recordings, then that of a
//! relocatable target. A step of defragmentation holds that of opening recordings while it takes the target's. That of
//! `Writers` comes last.
//!
//! # Cost
//!
//! Staging costs a binary search among the copies of the batch and an insertion, so their number has a
//! [limit](MAX_COPIES). Batches in flight and their targets are kept in lists, oldest first, about 16 bytes a
//! target; a write to host-visible memory searches them.

mod batch;
mod hand_over;
mod room;

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::RingDesc;
use super::completion::Panics;
use super::error::{RingError, UploadError};
use super::handle::UploadHandle;
use super::tracked_buffer::TrackedBuffer;
#[cfg(test)]
use crate::device::Submission;
use crate::device::{BufferDesc, Device, DeviceError, QueueIndex, TimelinePoint, TimelineValue};
use crate::lifetime::{SubmissionTracker, TimelinePoints};
use crate::memory::{AllocationId, MappedBuffer, OwningAllocator};
use crate::sync::{locked, try_locked};
use allotment_suballoc::Alignment;

pub(super) use batch::{LaneState, LaneStatistics, StagedImage, reuse_capacity};
use hand_over::Acquire;
pub(super) use hand_over::{HeldLevels, Level};
pub(super) use room::Reservation;

/// Batches in staging memory, so that one can be filled while others are copied.
pub(super) const BATCHES: u64 = 4;

/// Most pieces of large writes that fit at once, so that no writer has more than its share of the memory.
const PIECES: u64 = 8;

/// Batches of large writes in flight, at most, and where they are there soon: see `room`.
const LARGE_IN_FLIGHT: usize = 1;
const QUICK_IN_FLIGHT: usize = 2;

/// A batch of large writes is quick if it has been completed this soon after its submission: what a frame can spare.
const QUICK: Duration = Duration::from_micros(500);

/// A program that has drawn nothing for so long does not count frames: what is streamed is not limited.
const LONGEST_FRAME: Duration = Duration::from_millis(100);

/// Least bytes of a piece, where there are as many: less is not worth a turn.
const LEAST_PIECE: u64 = 4096;

/// Alignment of staged bytes for buffers.
const STAGED_AT: Alignment = match Alignment::new(64) {
    Ok(alignment) => alignment,
    Err(_) => panic!("64 is a power of two"),
};

/// The policy if staging memory is full of pending bytes.
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
/// let uploader = Uploader::new(gpu.memory(), desc)?;
/// let mesh = gpu.create_buffer(&BufferDesc::new(8192), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let refused = uploader.update(&mesh, 0, &[7; 8192]);
/// assert!(matches!(refused, Err(UploadError::Full { .. })), "and the thread has not waited");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Wait for the device, at most this long for each batch. Only the thread that writes waits, in the order in which
    /// threads came; small writes wait only where many of them are pending.
    Wait(Duration),
    /// Refuse the whole write, and name what to wait for: nothing of it is staged then, and the target, its contents and its
    /// state are as before, however many regions of an image the write has. Room for all of them is one range, and is taken
    /// before the first is staged; so a write that needs more than all of the staging memory is refused always, unless the CPU
    /// writes it at once. A batch is then not submitted when it grows large, only if its copies would overlap or be too many.
    Refuse,
}

/// Bytes that are staged as a whole.
pub(super) struct Piece<'a> {
    pub(super) size: u64,
    /// Of the offset in staging memory.
    pub(super) alignment: Alignment,
    /// The target and the offset in it, for a buffer.
    pub(super) target: Option<(AllocationId, u64)>,
    /// Of the write.
    pub(super) handle: Option<&'a UploadHandle>,
    /// It is filled by code of the caller, so never under the lock.
    pub(super) is_callers: bool,
    /// It is for an exclusive resource, whose family is not the lane's.
    pub(super) is_exclusive: bool,
}

impl Piece<'_> {
    /// Returns whether no submission waits for it.
    fn is_streamed(&self) -> bool {
        self.handle.is_some_and(UploadHandle::is_streamed)
    }

    /// Describes bytes for a buffer.
    pub(super) fn of_buffer(target: AllocationId, to_offset: u64, size: u64) -> Self {
        let target = Some((target, to_offset));
        Self { size, alignment: STAGED_AT, target, is_callers: false, handle: None, is_exclusive: false }
    }
}

/// Most that is streamed in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLimits {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

impl FrameLimits {
    pub(super) const NONE: Self = Self { bytes: u64::MAX, time: Duration::MAX };

    fn are_any(self) -> bool {
        self.bytes < Self::NONE.bytes || self.time < Self::NONE.time
    }
}

/// The last submission of a queue that nothing waits for, and the last one before it that may be waited for.
#[derive(Clone, Copy, Debug, Default)]
struct StreamedEnd {
    last: u64,
    before: u64,
}

/// What a submission does with what is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streamed {
    /// All of it is submitted, and handed over.
    Submitted,
    /// It is left where nothing else is staged with it, until the queue has less to do; and what has arrived is handed over.
    Left,
}

/// What a submission finds that has nothing to submit or to hand over, except what is streamed.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    /// The points that it waits for.
    points: TimelinePoints,
    /// From here on there is something to hand over.
    released: Option<TimelinePoint>,
}

/// The uploads over one queue.
pub(super) struct Lane<D: Device> {
    queue: QueueIndex,
    /// A queue of the family to which exclusive resources belong, where the lane's own queue is of another.
    owner: Option<QueueIndex>,
    capacity: u64,
    when_full: WhenFull,
    limits: FrameLimits,
    /// The frames that have ended.
    frames: AtomicU64,
    /// Locked for moments, also while `state` is.
    streamed: Mutex<StreamedEnd>,
    /// Created for the first bytes.
    staging: OnceLock<TrackedBuffer<D>>,
    /// Locked while it is created, which calls the driver: threads that submit have no need to wait for that.
    creating: Mutex<()>,
    state: Mutex<LaneState<D>>,
    /// Locked for moments, also while `state` is.
    settled: Mutex<Option<Settled>>,
    /// Notified of what threads wait for with `state` unlocked: see `room`.
    changed: Condvar,
}

impl<D: Device> Lane<D> {
    /// Creates a lane over a queue, with staging memory of `capacity` bytes on first use. `owner` is a queue of the family to
    /// which exclusive resources belong, if that is another one than the family of `queue`.
    pub(super) fn new(
        queue: QueueIndex,
        owner: Option<QueueIndex>,
        capacity: u64,
        when_full: WhenFull,
        limits: FrameLimits,
    ) -> Self {
        Self {
            queue,
            owner,
            capacity,
            when_full,
            limits,
            frames: AtomicU64::new(0),
            streamed: Mutex::default(),
            staging: OnceLock::new(),
            creating: Mutex::new(()),
            state: Mutex::new(LaneState::new(capacity)),
            settled: Mutex::new(Some(Settled::default())),
            changed: Condvar::new(),
        }
    }

    pub(super) fn queue(&self) -> QueueIndex {
        self.queue
    }

    /// Returns whether exclusive resources belong to another family than that of the lane's queue.
    pub(super) fn is_foreign(&self) -> bool {
        self.owner.is_some()
    }

    /// Returns the most bytes that are staged at once; longer writes are split.
    pub(super) fn piece(&self) -> u64 {
        match self.when_full {
            // Multiples, so that neighbours in the target can be neighbours in staging memory.
            WhenFull::Wait(_) => {
                STAGED_AT.align_down(self.capacity / PIECES).max(LEAST_PIECE).min(self.capacity).max(1)
            }
            // A write is refused as a whole, so it is not split.
            WhenFull::Refuse => self.capacity,
        }
    }

    /// Returns whether a write is refused as a whole where there is no room for all of it.
    pub(super) fn refuses(&self) -> bool {
        self.when_full == WhenFull::Refuse
    }

    /// Refuses a write that never fits, if writes are not split.
    pub(super) fn check(&self, requested: u64) -> Result<(), UploadError> {
        // With `Wait` a large write is split into pieces, each of which fits.
        if self.when_full == WhenFull::Refuse && requested > self.capacity {
            return Err(RingError::NeverFits { requested, capacity: self.capacity }.into());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, LaneState<D>> {
        locked(&self.state)
    }

    /// Wakes the threads that wait for something, and notes what those may know that find the state locked.
    fn note_changed(&self, state: &LaneState<D>) {
        state.wake(&self.changed);
        *locked(&self.settled) = state.settled();
    }

    /// Locks the state, unless another thread has it, perhaps for a call of the driver, and nothing is to be submitted or handed
    /// over: then it returns the points that submissions wait for.
    fn lock_unless_settled(
        &self,
        tracker: &SubmissionTracker,
    ) -> ControlFlow<TimelinePoints, MutexGuard<'_, LaneState<D>>> {
        if let Some(state) = try_locked(&self.state) {
            return ControlFlow::Continue(state);
        }
        // Unlocked before the state is locked: who has that notes what is settled. Writes that have returned are in it, and
        // those that go on are none of this submission's business.
        let settled = *locked(&self.settled);
        // What was streamed and has arrived may be used by what is submitted, so it is acquired first.
        let is_settled = |it: &Settled| !it.released.is_some_and(|point| tracker.is_reached(point));
        match settled.filter(is_settled) {
            Some(Settled { points, .. }) => ControlFlow::Break(points),
            None => ControlFlow::Continue(self.lock()),
        }
    }

    /// Returns the staging memory, which the first write creates.
    fn staging(&self, memory: &OwningAllocator<D>) -> Result<&MappedBuffer<D>, UploadError> {
        if let Some(staging) = self.staging.get() {
            return Ok(staging.get());
        }
        let _creating = locked(&self.creating);
        if self.staging.get().is_none() {
            let tracker = memory.deletion_queue().tracker();
            // It is only copied from, so it needs no further usage.
            let desc = RingDesc::upload(self.capacity);
            let info = BufferDesc::new(desc.capacity).with_usage(desc.usage).into();
            let buffer = MappedBuffer::new(memory.allocator(), &info, &desc.memory)?;
            let buffer = TrackedBuffer::new(tracker, buffer)?;
            self.lock().expect_batches();
            // Nothing else sets it.
            let _ = self.staging.set(buffer);
        }
        match self.staging.get() {
            Some(staging) => Ok(staging.get()),
            None => unreachable!("created just now, or before"),
        }
    }

    /// Stages a piece: `fill` copies it to an offset of staging memory, and `record` adds its copy from there to the batch,
    /// whose recording is open. No other lock than those of this module's description may be taken by `record`. `room` is what
    /// was reserved for this piece and others, if anything.
    pub(super) fn stage<'a>(
        &'a self,
        memory: &OwningAllocator<D>,
        piece: &Piece<'_>,
        room: Option<&mut Reservation<'a, D>>,
        fill: impl FnOnce(&MappedBuffer<D>, u64) -> Result<(), UploadError>,
        record: impl FnOnce(&mut LaneState<D>, u64) -> Result<(), UploadError>,
    ) -> Result<(), UploadError> {
        let staging = self.staging(memory)?;
        // Dropped after the lock, which it takes: where it is not used up, it gives its range back.
        let reserved;
        let room = match room {
            Some(all) => room::Room::Reserved(all.take(piece)),
            None => self.room(memory, piece)?,
        };
        let (mut state, is_small) = match room {
            room::Room::Chunk(state, offset) => {
                fill(staging, offset)?;
                // After the bytes are written: an open recording holds back what other code releases, and a refused write
                // would leave one without bytes.
                let mut state = state;
                self.take_back(&mut state, memory, piece)?;
                state.record(memory, piece.is_exclusive, |state| record(state, offset))?;
                state.ranges.use_small(piece.size);
                (state, true)
            }
            room::Room::Reserved(reservation) => {
                reserved = reservation;
                let offset = reserved.offset();
                fill(staging, offset)?;
                let mut state = self.unpaused(self.lock());
                // The device may be lost, or the uploader stopped, since the range was reserved.
                state.check(piece.handle)?;
                self.make_way(&mut state, memory, piece)?;
                self.take_back(&mut state, memory, piece)?;
                state.record(memory, piece.is_exclusive, |state| record(state, offset))?;
                let is_small = reserved.use_up(&mut state);
                (state, is_small)
            }
        };
        state.note_handle(piece.handle);
        if piece.is_streamed() {
            state.frame.bytes += piece.size;
        } else {
            state.note_awaited();
        }
        let goes_first = is_small && !piece.is_streamed();
        let submitted = self.count_staged(&mut state, memory, piece.size, goes_first);
        // Whoever waits for the writer of this piece can submit it now.
        self.note_changed(&state);
        submitted
    }

    /// Submits the batch where the piece must come after others of it.
    fn make_way(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        piece: &Piece<'_>,
    ) -> Result<(), UploadError> {
        // Copies of one batch run in any order: only a later batch can overwrite these bytes for certain.
        let later = piece.target.is_some_and(|(target, to_offset)| {
            state.is_list_full() || state.overlaps(target, to_offset, piece.size)
        });
        if later { self.flush_locked(state, memory) } else { Ok(()) }
    }

    /// Submits the acquire of what the piece overwrites, where that was streamed and released just now. Directly before its
    /// copy is recorded, since any submission may release something.
    fn take_back(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        piece: &Piece<'_>,
    ) -> Result<(), UploadError> {
        match piece.target {
            Some((target, to_offset))
                if piece.is_exclusive
                    && state.hand_over.has_released_range((target, to_offset, piece.size)) =>
            {
                self.acquire_released(state, memory, None, Acquire::All)
            }
            _ => Ok(()),
        }
    }

    /// Counts staged bytes, and submits a batch that is large enough, so that the device works while the next is
    /// filled.
    fn count_staged(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        size: u64,
        goes_first: bool,
    ) -> Result<(), UploadError> {
        state.count(size);
        // Not with `Refuse`: the caller decides when its writes are submitted.
        if self.when_full != WhenFull::Refuse
            && self.is_batch_full(state)
            && (goes_first || self.has_turn_for_large(state, memory.deletion_queue().tracker()))
        {
            self.flush_locked(state, memory)?;
        }
        Ok(())
    }

    fn is_batch_full(&self, state: &LaneState<D>) -> bool {
        state.open_bytes() >= self.capacity / BATCHES
    }

    /// Makes the open batch, or the next one, wait for a point, which was submitted.
    pub(super) fn wait_for(&self, point: TimelinePoint) {
        self.lock().wait_for(point);
    }

    /// Returns whether bytes for this buffer are staged or pending.
    pub(super) fn writes_to(&self, tracker: &SubmissionTracker, target: AllocationId) -> bool {
        self.lock().writes_to(tracker, target)
    }

    /// Returns whether anything of a resource is on its way that was streamed.
    pub(super) fn is_streaming(&self, tracker: &SubmissionTracker, resource: AllocationId) -> bool {
        self.lock().is_streaming(tracker, resource)
    }

    /// Submits the open batch, if there is one. Returns the point at which everything that was staged has arrived.
    pub(super) fn flush(&self, memory: &OwningAllocator<D>) -> Result<Option<TimelinePoint>, UploadError> {
        let mut state = self.lock();
        state.check_lost()?;
        let submitted = self.flush_locked(&mut state, memory);
        self.note_changed(&state);
        submitted?;
        // Also where this call submitted nothing: a batch that grew large has submitted itself before.
        Ok(state.last())
    }

    /// Submits the open batch, and hands over what was written of exclusive resources: the queue `to` acquires it, which is
    /// of the family of their owner. Returns the points at which everything that was staged has arrived, except what was
    /// streamed; where that is left, it waits for no thread that submits it.
    pub(super) fn submit(
        &self,
        memory: &OwningAllocator<D>,
        to: Option<QueueIndex>,
        home: Option<&Self>,
        streamed: Streamed,
    ) -> Result<TimelinePoints, UploadError> {
        let locked = match streamed {
            Streamed::Left => self.lock_unless_settled(memory.deletion_queue().tracker()),
            Streamed::Submitted => ControlFlow::Continue(self.lock()),
        };
        let mut state = match locked {
            ControlFlow::Continue(state) => state,
            ControlFlow::Break(points) => return Ok(points),
        };
        state.check_lost()?;
        let submitted = match streamed {
            Streamed::Left => self.submit_awaited(&mut state, memory, to, home),
            Streamed::Submitted => self.submit_locked(&mut state, memory, to, home, Acquire::Arrived),
        };
        self.note_changed(&state);
        submitted?;
        Ok(state.awaited_points())
    }

    /// Submits as [`submit_locked`](Self::submit_locked) does what submissions wait for, and what is in a batch with it.
    fn submit_awaited(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
        to: Option<QueueIndex>,
        home: Option<&Self>,
    ) -> Result<(), UploadError> {
        let is_left = !state.has_awaited()
            && !state.hand_over.has_awaited()
            && !self.has_turn_for_large(state, memory.deletion_queue().tracker());
        if is_left {
            self.acquire_released(state, memory, to, Acquire::Arrived)
        } else {
            self.submit_locked(state, memory, to, home, Acquire::Arrived)
        }
    }

    /// Submits all that is staged, and hands over all that was written, also what was streamed.
    pub(super) fn submit_all(
        &self,
        memory: &OwningAllocator<D>,
        home: Option<&Self>,
    ) -> Result<(), UploadError> {
        let mut state = self.lock();
        state.check_lost()?;
        let submitted = self.submit_locked(&mut state, memory, None, home, Acquire::All);
        self.note_changed(&state);
        submitted
    }

    /// Notes a submission that nothing waits for.
    fn note_streamed(&self, at: TimelinePoint) {
        let mut streamed = locked(&self.streamed);
        if at.value.0 > streamed.last + 1 {
            // Others have submitted in between.
            streamed.before = at.value.0 - 1;
        }
        streamed.last = streamed.last.max(at.value.0);
    }

    /// Returns the last submission of the lane's queue up to a point that may be waited for; `None` where there is none.
    pub(super) fn without_streamed(&self, point: TimelinePoint) -> Option<TimelinePoint> {
        let StreamedEnd { last, before } = *locked(&self.streamed);
        let value = if (point.queue, point.value.0) == (self.queue, last) { before } else { point.value.0 };
        (value > 0).then_some(TimelinePoint { value: TimelineValue(value), ..point })
    }

    /// Begins another frame, in which as much may be streamed again. Waits for no lock: a thread may be submitting.
    pub(super) fn next_frame(&self) {
        if self.limits.are_any() {
            self.frames.fetch_add(1, Relaxed);
            // Otherwise they look by themselves.
            if let Some(state) = try_locked(&self.state) {
                self.note_changed(&state);
            }
        }
    }

    /// Submits the open batch by a closure.
    #[cfg(test)]
    pub(super) fn flush_with(
        &self,
        memory: &OwningAllocator<D>,
        submit: impl FnOnce(&D, QueueIndex, &Submission<'_, D>) -> Result<TimelineValue, DeviceError>,
    ) -> Result<(), UploadError> {
        self.flush_by(&mut self.lock(), memory, submit)
    }

    /// Drops the open batch, which was not submitted.
    pub(super) fn discard(&self) {
        let mut state = self.lock();
        state.discard();
        self.note_changed(&state);
    }

    /// Notes that the device is lost, and drops the open batch: nothing is staged from now on.
    pub(super) fn lose(&self) {
        let mut state = self.lock();
        state.is_lost = true;
        state.discard();
        // No queue executes anything any more.
        state.hand_over = hand_over::HandOver::default();
        self.note_changed(&state);
    }

    /// Refuses writes from now on, or accepts them again. Those that wait for room end.
    pub(super) fn set_stopped(&self, is_stopped: bool) {
        let mut state = self.lock();
        state.is_stopped = is_stopped;
        self.note_changed(&state);
    }

    /// Looks which batches have completed, if any has bytes of a handle, and finishes the handles of those that are over. No
    /// lock is held: this runs callbacks. Where it does not wait, another thread that has the lock keeps it from looking.
    pub(super) fn finish_handles(&self, tracker: &SubmissionTracker, waits: bool, panics: &mut Panics) {
        let lock = || if waits { Some(self.lock()) } else { try_locked(&self.state) };
        while let Some(mut state) = lock() {
            if !state.has_handles() {
                return;
            }
            state.forget_done(tracker);
            let Some(over) = state.pop_over() else { return };
            drop(state);
            over.finish(panics);
        }
    }

    /// Submits the open batch, and keeps threads from staging more until [`resume`](Self::resume): those that write wait, those
    /// that submit do not.
    pub(super) fn pause(
        &self,
        memory: &OwningAllocator<D>,
        home: Option<&Self>,
        streamed: Streamed,
    ) -> Result<(), UploadError> {
        let mut state = self.lock();
        let submitted = match streamed {
            Streamed::Left => self.submit_awaited(&mut state, memory, None, home),
            Streamed::Submitted => self.submit_locked(&mut state, memory, None, home, Acquire::All),
        };
        self.note_changed(&state);
        submitted?;
        state.pauses += 1;
        Ok(())
    }

    pub(super) fn resume(&self) {
        let mut state = self.lock();
        state.pauses -= 1;
        self.note_changed(&state);
    }

    /// Waits until no thread keeps others from staging.
    pub(super) fn until_resumed(&self) {
        drop(self.unpaused(self.lock()));
    }

    /// Waits until no thread keeps others from staging. That takes as long as a step of defragmentation.
    fn unpaused<'a>(&'a self, mut state: MutexGuard<'a, LaneState<D>>) -> MutexGuard<'a, LaneState<D>> {
        while state.pauses > 0 {
            state.sleeping += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
        state
    }

    /// Returns statistics, the bytes of the open batch, and batches in flight with their bytes.
    pub(super) fn statistics(&self, tracker: &SubmissionTracker) -> (LaneStatistics, u64, (u64, u64)) {
        let state = self.lock();
        (state.statistics(), state.open_bytes(), state.in_flight(tracker))
    }

    /// Returns the bytes that are staged or in flight, where queues have reached these points. Asks no driver, and waits for
    /// no lock: `None` where a thread stages right now.
    pub(super) fn bytes_in_use(&self, is_reached: impl Fn(TimelinePoint) -> bool) -> Option<u64> {
        try_locked(&self.state).map(|state| state.bytes_in_use(is_reached))
    }
}

impl<D: Device> Drop for Lane<D> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.discard();
        if state.is_abandoned() {
            // A queue may use the memory at any time.
            core::mem::forget(self.staging.take());
        }
    }
}

/// Returns the error of a lost device.
fn lost() -> UploadError {
    DeviceError::Lost.into()
}
