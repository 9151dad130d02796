//! Empty-block policy: which empty blocks a pool keeps, and for how long.
//!
//! A driver takes milliseconds to allocate a block, so a pool must not free a block in one frame and allocate it
//! again in the next. A block that no request needs any more must not stay allocated for ever either.

use crate::choices::blocks::EmptyBlockPolicy;
use crate::memory::time::Moment;

impl EmptyBlockPolicy {
    /// Returns the bytes that may lie idle in a pool whose peak usage is `needed` bytes.
    pub(super) fn idle_bytes(&self, needed: u64) -> u64 {
        self.kept_bytes.saturating_add(needed.checked_div(self.kept_divisor).unwrap_or(0))
    }
}

/// Frees after which a pool reads the clock and counts a frame by itself, in a program that ends no frames.
const FREES_PER_TICK: u32 = 64;

/// A free that empties a memory object is slower than others, so each fourth of these can afford to read the clock.
const EMPTIED_PER_LOOK: u32 = 4;

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
