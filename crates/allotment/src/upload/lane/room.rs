//! Room in staging memory: who gets it, and who waits for it.
//!
//! ```text
//!   waiting   [ 4: waits for the GPU ][ 6 ][ 7 ][ 9 ]        large pieces, in the order in which they came
//!                  │ point of the oldest batch, unlocked
//!                  ▼
//!             room, or the next oldest ──► 4 leaves, 6 is first
//! ```
//!
//! A piece that finds threads waiting, or no room, queues at the end. Each write queues once for each of its pieces, so
//! threads that upload much take turns, and get equal shares. A small write goes ahead of the queue as long as small ones
//! have less than the eighth of the memory that large ones leave to them: it waits for no large upload. Only where the
//! first of the queue needs that eighth as well, small writes queue, too.
//!
//! The first of the queue waits for the GPU, submits the open batch where nothing else would help, or sleeps until other
//! writers have recorded what they have reserved. The others sleep.
//!
//! A batch of large writes is submitted once the GPU has completed the one before, or by a caller: a small write then has one
//! batch before its own on the queue, and not as many as fit. The next one is filled meanwhile. A second one is submitted ahead
//! where they take less than half a millisecond: the queue would be idle until a thread has seen the end of the first, on a
//! fast one for a quarter of the time.
//!
//! What is streamed never goes ahead of the queue, and joins it only once the frame has room for it: so nobody waits for a
//! writer that waits for the next frame.
//!
//! # No wakeup is lost
//!
//! A thread sleeps only after it has looked, with the lane's lock, and found that it can do nothing; the lock is released
//! by falling asleep (`Condvar::wait`), so no change comes in between. What a sleeping thread waits for changes only
//! under that lock, and each change is followed by a wakeup of all sleepers before the lock is released:
//!
//! | a thread sleeps since | until | woken by |
//! |---|---|---|
//! | it is not the first of the queue | the first leaves: with its range, an error, a time-out or a panic | [`Turn`], `LaneState::leave` |
//! | all memory is reserved by other writers | one of them records its copy, or fails | `Lane::stage`, [`Reservation`] |
//! | as much was streamed as a frame may have | the next frame | `Lane::next_frame`, or itself: it looks every [`SLICE`] |
//! | a step of defragmentation keeps batches from being opened | it is over | `Lane::resume` |
//! | any of these | the device is lost, or the uploader stopped | `Lane::lose`, `Lane::set_stopped` |
//! | any of these | its handle is cancelled | itself: it looks every [`SLICE`] |
//!
//! The first of the queue never sleeps while a batch is in flight or open, so it needs no wakeup by the GPU. It looks for
//! changes every [`SLICE`], beside the GPU's progress.

use core::mem;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use super::batch::FrameUse;
use super::{
    FrameLimits, LARGE_IN_FLIGHT, LONGEST_FRAME, Lane, LaneState, Piece, QUICK, QUICK_IN_FLIGHT, STAGED_AT,
    WhenFull,
};
use crate::device::{Device, DeviceError, TimelinePoint, TimelineValue};
use crate::lifetime::{SubmissionTracker, WaitFor};
use crate::log::event;
use crate::memory::{OwningAllocator, ShortName};
use crate::upload::error::{RingError, UploadError};
use crate::upload::staging_ranges::Range;
use allotment_suballoc::Alignment;

/// How long a thread waits for the GPU before it looks whether anything else has changed.
const SLICE: Duration = Duration::from_millis(10);

/// Room for a piece.
pub(super) enum Room<'a, D: Device> {
    /// At this offset of the open batch's chunk, as long as the lock is held.
    Chunk(MutexGuard<'a, LaneState<D>>, u64),
    /// A range of its own.
    Reserved(Reservation<'a, D>),
}

/// A range that belongs to its writer. When dropped, it is free again.
pub(in crate::upload) struct Reservation<'a, D: Device> {
    lane: &'a Lane<D>,
    range: Range,
    is_small: bool,
}

impl<D: Device> Reservation<'_, D> {
    pub(super) fn offset(&self) -> u64 {
        self.range.offset
    }

    /// Returns the bytes of `total` bytes and of a piece behind them.
    pub(in crate::upload) fn behind(total: u64, size: u64, alignment: Alignment) -> u64 {
        let step = alignment.max(STAGED_AT).get();
        total.div_ceil(step).saturating_mul(step).saturating_add(size)
    }

    /// Takes room for a piece from the front of a range that was [reserved](Lane::reserve) for several.
    pub(super) fn take(&mut self, piece: &Piece<'_>) -> Self {
        // The rest begins where the next piece may.
        let size = Self::behind(piece.size, 0, piece.alignment).min(self.range.size);
        debug_assert!(size >= piece.size, "a piece takes what others have reserved");
        let taken = Range { size, ..self.range };
        self.range = Range { offset: taken.offset + size, size: self.range.size - size };
        Self { lane: self.lane, range: taken, is_small: self.is_small }
    }

    /// Adds the range to the open batch. Returns whether it is small.
    pub(super) fn use_up(self, state: &mut LaneState<D>) -> bool {
        state.ranges.use_reserved(self.range, self.is_small);
        let is_small = self.is_small;
        mem::forget(self);
        is_small
    }
}

impl<D: Device> Drop for Reservation<'_, D> {
    fn drop(&mut self) {
        let mut state = self.lane.lock();
        state.ranges.give_back(self.range, self.is_small);
        state.wake(&self.lane.changed);
    }
}

/// A thread's place in the queue. When dropped, it leaves.
struct Turn<'a, D: Device> {
    lane: &'a Lane<D>,
    /// `None` until the thread queues.
    number: Option<u64>,
}

impl<D: Device> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.lane.lock();
            state.leave(number);
            state.wake(&self.lane.changed);
        }
    }
}

impl<D: Device> LaneState<D> {
    fn leave(&mut self, number: u64) {
        self.waiting.retain(|waiting| *waiting != number);
        // The next one looks by itself.
        self.first_takes_all = false;
    }
}

impl<D: Device> Lane<D> {
    /// Returns room for a piece. Where there is none, waits or refuses as the policy says, with no lock held.
    pub(super) fn room(
        &self,
        memory: &OwningAllocator<D>,
        piece: &Piece<'_>,
    ) -> Result<Room<'_, D>, UploadError> {
        let tracker = memory.deletion_queue().tracker();
        // Dropped after the lock, which it takes.
        let mut turn = Turn { lane: self, number: None };
        let mut state = self.lock();
        let is_small = state.ranges.is_small(piece.size);
        let in_chunk = is_small && piece.alignment <= STAGED_AT && !piece.is_callers;
        let mut began = None;
        let mut waited_for = None;
        loop {
            state = self.unpaused(state);
            state.check(piece.handle)?;
            if turn.number.is_none() && piece.is_streamed() && self.is_frame_full(&mut state, tracker) {
                state = self.sleep(state, SLICE);
                continue;
            }
            if self.may_take(&mut state, &turn, piece, is_small) {
                if in_chunk || self.when_full == WhenFull::Refuse {
                    // Now, since the chunk is the open batch's; and so that a refusal names the point that helps.
                    self.make_way(&mut state, memory, piece)?;
                }
                let room = loop {
                    let room = match () {
                        () if is_small
                            && piece.is_streamed()
                            && !self.may_stage_more(&mut state, memory)? =>
                        {
                            None
                        }
                        () if in_chunk => state.ranges.small(piece.size).map(|offset| (offset, None)),
                        () if !is_small && !self.may_stage_more(&mut state, memory)? => None,
                        () => {
                            let range = state.ranges.reserve(piece.size, piece.alignment, is_small);
                            range.map(|range| (range.offset, Some(range)))
                        }
                    };
                    // Only where there is no room: this may call the driver.
                    if room.is_some() || !state.forget_done(tracker) {
                        break room;
                    }
                };
                if let Some((offset, range)) = room {
                    if let Some(number) = turn.number.take() {
                        state.leave(number);
                        state.wake(&self.changed);
                        state.note_wait(began);
                    }
                    return Ok(match range {
                        None => Room::Chunk(state, offset),
                        Some(range) => Room::Reserved(Reservation { lane: self, range, is_small }),
                    });
                }
            }
            let WhenFull::Wait(timeout) = self.when_full else {
                state.statistics.refusals += 1;
                return Err(self.refusal(&state, piece).into());
            };
            if turn.number.is_none() {
                turn.number = Some(state.queue_up());
            }
            let began = *began.get_or_insert_with(Instant::now);
            // The GPU has this long for each batch.
            let since = state.progress.map_or(began, |progress| progress.max(began));
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                let none = TimelinePoint { queue: self.queue, value: TimelineValue(0) };
                let point = state.oldest().or(state.last()).unwrap_or(none);
                return Err(UploadError::TimedOut { point, name: ShortName::NONE });
            }
            let is_first = state.waiting.front() == turn.number.as_ref();
            match state.oldest() {
                Some(point) if is_first => {
                    if waited_for.replace(point) != Some(point) {
                        state.statistics.waits += 1;
                    }
                    // Unlocked: neither a thread that submits nor one that uploads waits for this one.
                    drop(state);
                    event!(DEBUG, "upload", ?point, "staging memory is full: waits for the GPU");
                    match tracker.wait(point, left.min(SLICE)) {
                        Ok(()) | Err(DeviceError::TimedOut { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                    state = self.lock();
                }
                None if is_first && state.is_open() => {
                    self.flush_locked(&mut state, memory)?;
                }
                None if is_first && state.ranges.reserved() == 0 => {
                    // All is free, as far as it is not lost: it does not fit now and never will.
                    return Err(
                        RingError::NeverFits { requested: piece.size, capacity: self.capacity }.into()
                    );
                }
                _ => {
                    // Others change first, and wake this thread. A handle that is cancelled does not: it does not know which.
                    let most = if piece.handle.is_some() { left.min(SLICE) } else { left };
                    state = self.sleep(state, most);
                }
            }
        }
    }

    /// Returns room for several pieces, which [take](Reservation::take) it from the front: `piece` is as large as all of them
    /// and what is between them. Where there is none, waits or refuses as the policy says.
    pub(in crate::upload) fn reserve(
        &self,
        memory: &OwningAllocator<D>,
        piece: &Piece<'_>,
    ) -> Result<Reservation<'_, D>, UploadError> {
        self.check(piece.size)?;
        // Whatever can be refused is refused before anything of the write is staged.
        self.staging(memory)?;
        match self.room(memory, piece)? {
            Room::Reserved(reserved) => Ok(reserved),
            Room::Chunk(..) => unreachable!("no piece of a caller is in the chunk"),
        }
    }

    /// Sleeps until another thread has changed something, or this long.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, LaneState<D>>,
        most: Duration,
    ) -> MutexGuard<'a, LaneState<D>> {
        state.sleeping += 1;
        let slept = self.changed.wait_timeout(state, most);
        let mut state = slept.unwrap_or_else(PoisonError::into_inner).0;
        state.sleeping -= 1;
        state
    }

    /// Returns whether as much was streamed in this frame as may be. With `Refuse`, the program limits it.
    fn is_frame_full(&self, state: &mut LaneState<D>, tracker: &SubmissionTracker) -> bool {
        let FrameLimits { bytes, time } = self.limits;
        if !self.limits.are_any() || self.when_full == WhenFull::Refuse {
            return false;
        }
        // Its batches may have taken their time by now.
        state.forget_done(tracker);
        let number = self.frames.load(Relaxed);
        if state.frame.number != number || state.frame.began.is_none() {
            state.frame = FrameUse { number, began: Some(Instant::now()), ..FrameUse::default() };
        }
        let is_over = state.frame.began.is_some_and(|began| began.elapsed() > LONGEST_FRAME);
        let FrameUse { bytes: staged, time: taken, .. } = state.frame;
        // At least one piece, whatever the limits are.
        !is_over && (staged > 0 && staged >= bytes || taken > Duration::ZERO && taken >= time)
    }

    /// Returns whether a thread may take room now, before those that wait.
    fn may_take(
        &self,
        state: &mut LaneState<D>,
        turn: &Turn<'_, D>,
        piece: &Piece<'_>,
        is_small: bool,
    ) -> bool {
        let Some(&first) = state.waiting.front() else { return true };
        if turn.number == Some(first) {
            state.first_takes_all = state.ranges.takes_all(piece.size);
            return true;
        }
        is_small && !piece.is_streamed() && !state.first_takes_all && state.ranges.small_have_room(piece.size)
    }

    /// Returns whether a large piece may be staged: not while a whole batch is, and waits for its turn on the queue. Submits
    /// that batch when it is its turn.
    fn may_stage_more(
        &self,
        state: &mut LaneState<D>,
        memory: &OwningAllocator<D>,
    ) -> Result<bool, UploadError> {
        if self.when_full == WhenFull::Refuse || !self.is_batch_full(state) {
            return Ok(true);
        }
        if !self.has_turn_for_large(state, memory.deletion_queue().tracker()) {
            return Ok(false);
        }
        self.flush_locked(state, memory)?;
        Ok(true)
    }

    /// Returns whether a batch of large writes may be submitted now.
    pub(super) fn has_turn_for_large(&self, state: &mut LaneState<D>, tracker: &SubmissionTracker) -> bool {
        state.forget_done(tracker);
        let most = if state.quickest() < QUICK { QUICK_IN_FLIGHT } else { LARGE_IN_FLIGHT };
        state.batches() < most
    }

    fn refusal(&self, state: &LaneState<D>, piece: &Piece<'_>) -> RingError {
        let (requested, ranges) = (piece.size, &state.ranges);
        if requested > self.capacity {
            return RingError::NeverFits { requested, capacity: self.capacity };
        }
        let wait = state.point_for(requested, piece.alignment).map_or(WaitFor::Submission, WaitFor::Point);
        RingError::FullForNow { requested, free: ranges.free(), largest: ranges.largest(), wait }
    }
}

impl<D: Device> LaneState<D> {
    /// Queues a thread. Returns its number.
    fn queue_up(&mut self) -> u64 {
        self.last_number += 1;
        self.waiting.push_back(self.last_number);
        self.last_number
    }

    fn note_wait(&mut self, began: Option<Instant>) {
        let waited = began.map_or(Duration::ZERO, |began| began.elapsed());
        self.statistics.longest_wait = self.statistics.longest_wait.max(waited);
    }
}
