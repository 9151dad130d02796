//! The clock of a pool, in frames, and what the pool needed lately.
//!
//! ```text
//!   frames            end_frame ──────────────────────────┐
//!   or real time      a reading of the allocator's clock ─┼─► now      the age of empty blocks, reservations
//!   or frees          64 of them, between two readings ───┘    │
//!                                                              └─► a period has passed: peaks = [this one, the one before]
//! ```
//!
//! Frames measure where the program ends some. Where it does not, real time does, and frees in between: a pool reads the
//! allocator's clock (`time.rs`) only now and then. What empty blocks stay for how long: `empty.rs`.

use crate::choices::blocks::EmptyBlockPolicy;
use crate::device::Device;
use crate::events::Event;
use crate::memory::pool::{PoolSlot, PoolState};
use crate::memory::time::Moment;
use crate::sync::locked;

/// Frees after which a pool reads the clock and counts a frame by itself, in a program that ends no frames.
const FREES_PER_TICK: u32 = 64;

/// A free that empties a memory object is slower than others, so each fourth of these can afford to read the clock.
const EMPTIED_PER_LOOK: u32 = 4;

/// Frames for each class of quick lists that is looked at. A program uses one to three dozen, so a range that no request needs is
/// joined with its neighbours after seconds; and at once where that makes room.
pub(super) const TICKS_PER_LOOK: u64 = 16;

/// The most classes of quick lists that are looked at in a call that does something else, however much time has passed.
pub(super) const LOOKS: u64 = 4;

/// A pool's clock, in frames, and the peak usage of the last period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(super) now: u64,
    frees: u32,
    /// Frees that emptied a memory object.
    emptied: u32,
    /// The frame number up to which real time was counted.
    real: u64,
    /// The program calls `end_frame`, so frees are no measure of time.
    pub(super) has_frames: bool,
    /// The most bytes in use in the current and in the previous period of [`EmptyBlockPolicy::frames`].
    peaks: [u64; 2],
    period_began: u64,
}

impl Clock {
    /// Records that `bytes` are in use now.
    pub(super) fn used(&mut self, bytes: u64) {
        self.peaks[0] = self.peaks[0].max(bytes);
    }

    /// Returns the tick at which the current period began.
    pub(super) fn period(&self) -> u64 {
        self.period_began
    }

    /// Returns the peak usage of the current and the previous period.
    pub(super) fn needed(&self) -> u64 {
        self.peaks[0].max(self.peaks[1])
    }

    /// Counts a free; the 64th free without `end_frame` counts as a frame. Returns true when it did.
    pub(super) fn freed(&mut self, empty_blocks: &EmptyBlockPolicy, used: impl FnOnce() -> u64) -> bool {
        self.frees = self.frees.wrapping_add(1);
        // In a program that ends frames, these alone measure time.
        let ticks = self.frees >= FREES_PER_TICK && !self.has_frames;
        if ticks {
            self.advance(1, empty_blocks, used());
        }
        ticks
    }

    /// Returns true when the next free will count a frame.
    pub(super) fn is_about_to_tick(&self) -> bool {
        self.frees >= FREES_PER_TICK - 1 && !self.has_frames
    }

    /// Counts a free that is about to empty a memory object. Returns true when this free should read the clock.
    pub(super) fn looks_at_emptied(&mut self) -> bool {
        self.emptied = self.emptied.wrapping_add(1);
        self.emptied % EMPTIED_PER_LOOK == 1
    }

    /// Returns true if real time has passed since it was last counted.
    pub(super) fn is_behind(&self, now: Moment) -> bool {
        now.tick > self.real
    }

    /// Advances the clock to `now` of real time. Returns the frames that passed: 0 while the program ends frames
    /// itself.
    pub(super) fn pass(&mut self, now: Moment, empty_blocks: &EmptyBlockPolicy, used: u64) -> u64 {
        let passed = now.tick.saturating_sub(self.real);
        // Two threads may bring their moments in the wrong order; the clock never goes back.
        self.real = self.real.max(now.tick);
        if passed == 0 || now.in_frames {
            return 0;
        }
        // No frame has ended for ten seconds, so frees and real time measure again.
        self.has_frames = false;
        self.advance(passed, empty_blocks, used);
        passed
    }

    /// Counts a free, which counts no frame.
    pub(super) fn count_free(&mut self) {
        self.frees = self.frees.wrapping_add(1);
    }

    /// Counts the end of frames, during which nothing has changed.
    pub(super) fn end_frames(&mut self, frames: u64, empty_blocks: &EmptyBlockPolicy, used: u64) {
        self.has_frames = true;
        let period = u64::from(empty_blocks.frames.max(1));
        // Frame by frame, a period would have begun at the first frame that is late enough for it.
        let left = self.period_began.saturating_add(period).saturating_sub(self.now);
        let (first, rest) = if frames > left { (left.max(1), frames - left.max(1)) } else { (frames, 0) };
        self.advance(first, empty_blocks, used);
        if rest != 0 {
            self.advance(rest, empty_blocks, used);
            // Whole periods begin one after the other, without a gap.
            self.period_began -= if rest >= period { rest % period } else { 0 };
        }
    }

    /// Advances the clock by any number of frames.
    fn advance(&mut self, ticks: u64, empty_blocks: &EmptyBlockPolicy, used: u64) {
        self.now = self.now.saturating_add(ticks);
        // Frees measure time only since the last frame.
        self.frees = 0;
        // One period is forgotten in a step even after a long pause: part of the previous peak may be a moment old.
        if self.now - self.period_began >= u64::from(empty_blocks.frames.max(1)) {
            self.period_began = self.now;
            self.peaks = [used, self.peaks[0]];
        }
    }
}

impl<D: Device> PoolSlot<D> {
    /// Advances the clock of the pool. Returns true if time has passed.
    pub(crate) fn pass_time(&self, now: Moment) -> bool {
        locked(&self.state).as_mut().is_some_and(|state| state.pass_time(now))
    }
}

impl<D: Device> PoolState<D> {
    /// Counts the real time up to `now`, unless the application counts frames. Returns true if any passed
    /// since the last call, whether it counts or not.
    pub(super) fn pass_time(&mut self, now: Moment) -> bool {
        // Before it catches up: the reader of the events has to know of the time.
        let behind = self.clock.is_behind(now);
        self.wake();
        self.use_of_shard.look(now.tick);
        if behind {
            self.emit_of_pool(|_| Event::TimePassed { sixtieths: now.tick });
        }
        self.pass_time_quietly(now);
        if !now.in_frames {
            self.note_counted();
        }
        self.look_now();
        behind
    }

    /// Does the same without an event: where the reader knows the time already.
    pub(super) fn pass_time_quietly(&mut self, now: Moment) {
        let used = self.used();
        let passed = self.clock.pass(now, &self.rules.empty_blocks, used);
        if passed != 0 {
            self.on_tick(passed);
        }
    }

    /// Does the work that is due after some ticks of frames or real time. Looks at the quick lists are left to whoever has the
    /// time.
    pub(super) fn on_tick(&mut self, ticks: u64) {
        self.on_tick_of_frees(ticks);
        self.look_later(ticks);
    }

    /// Does the work that is due after some ticks, whatever they count.
    pub(super) fn on_tick_of_frees(&mut self, ticks: u64) {
        // After 64 ticks nearly nothing is left of the busiest frame, so a long pause need not cost a long loop.
        (0..ticks.min(64)).for_each(|_| self.flow.tick());
        let period = self.clock.period();
        self.sets.iter_mut().for_each(|set| set.history.begin_period(period));
    }
}
