//! Which empty blocks are kept, and for how long.
//!
//! A driver takes milliseconds to hand out a block, so a block that will be wanted again in the next
//! frame must not be given back in this one; and a block that nobody wants must not be kept for ever.

use super::time::Moment;

/// When empty blocks are given back to the driver.
///
/// Time is counted in ticks: calls of [`Allocator::end_frame`](super::Allocator::end_frame), or, where nobody has
/// called that for ten seconds, sixtieths of a second of [real time](super::TimeSource), or 64 frees in a pool where those
/// come faster. Real time is noticed by later calls, of whichever pool: where memory is got from the driver, at every 64th
/// free, and at every fourth that empties a memory object; and by a [`MaintenanceThread`](super::MaintenanceThread), where there is one. A
/// program that calls nothing any more [trims](super::Allocator::trim) instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmptyBlockPolicy {
    /// A block is given back once it has been empty for so many ticks.
    pub ticks: u32,
    /// A pool keeps at most so many bytes more than it has needed at once within the last
    /// [`ticks`](Self::ticks); what is above that is given back when it is empty, or, where frames are
    /// told, once it has been empty for three of them.
    pub surplus: u64,
    /// Beside [`surplus`](Self::surplus), it keeps what it has needed at once divided by this; 0 for
    /// nothing.
    pub surplus_divisor: u64,
}

impl Default for EmptyBlockPolicy {
    /// Two seconds of frames at 60 Hz; a surplus of one small block and a sixteenth. Twice that left a tenth
    /// more of the recorded training traces' memory idle and saved hardly a driver call.
    fn default() -> Self {
        Self { ticks: 120, surplus: 4 << 20, surplus_divisor: 16 }
    }
}

impl EmptyBlockPolicy {
    /// Gives every block back as soon as it is empty.
    pub const NONE: Self = Self { ticks: 0, surplus: 0, surplus_divisor: 0 };

    /// Bytes that may lie idle in a pool that has needed so many at once.
    pub(super) fn idle_bytes(&self, needed: u64) -> u64 {
        self.surplus.saturating_add(needed.checked_div(self.surplus_divisor).unwrap_or(0))
    }
}

/// Frees after which a pool looks at the time and counts a tick by itself, as long as nobody tells it of frames.
const FREES_PER_TICK: u32 = 64;

/// Of frees that empty a memory object, which are slower, every so many-th looks at the time.
const EMPTIED_PER_LOOK: u32 = 4;

/// A pool's clock, and the most bytes that it needed lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    pub(super) now: u64,
    frees: u32,
    /// Frees that emptied a memory object.
    emptied: u32,
    /// The tick up to which real time has passed.
    real: u64,
    /// Somebody calls `end_frame`, so frees are no measure of time.
    pub(super) has_frames: bool,
    /// The most bytes in use in the running and in the previous period of [`EmptyBlockPolicy::ticks`].
    peaks: [u64; 2],
    period_began: u64,
}

impl Clock {
    /// Notes how much is in use now.
    pub(super) fn used(&mut self, bytes: u64) {
        self.peaks[0] = self.peaks[0].max(bytes);
    }

    /// The most that was in use at once lately.
    pub(super) fn needed(&self) -> u64 {
        self.peaks[0].max(self.peaks[1])
    }

    /// Counts a free, and a tick where there were many without one. True when it ticked.
    pub(super) fn freed(&mut self, empty_blocks: &EmptyBlockPolicy, used: impl FnOnce() -> u64) -> bool {
        self.frees = self.frees.wrapping_add(1);
        let ticks = self.frees >= FREES_PER_TICK && !self.has_frames;
        if ticks {
            self.go_on(1, empty_blocks, used());
        }
        ticks
    }

    /// True when the next free will tick.
    pub(super) fn is_about_to_tick(&self) -> bool {
        self.frees >= FREES_PER_TICK - 1 && !self.has_frames
    }

    /// Counts a free that is about to empty a memory object. True when it should look at the time.
    pub(super) fn looks_at_emptied(&mut self) -> bool {
        self.emptied = self.emptied.wrapping_add(1);
        self.emptied % EMPTIED_PER_LOOK == 1
    }

    /// Lets real time pass. Returns the ticks that it counts: none while there are frames.
    pub(super) fn pass(&mut self, now: Moment, empty_blocks: &EmptyBlockPolicy, used: u64) -> u64 {
        let passed = now.tick.saturating_sub(self.real);
        self.real = self.real.max(now.tick);
        if passed == 0 || now.in_frames {
            return 0;
        }
        self.has_frames = false;
        self.go_on(passed, empty_blocks, used);
        passed
    }

    /// Counts a free that does not tick.
    pub(super) fn count_free(&mut self) {
        self.frees = self.frees.wrapping_add(1);
    }

    /// Counts the end of a frame.
    pub(super) fn end_frame(&mut self, empty_blocks: &EmptyBlockPolicy, used: u64) {
        self.has_frames = true;
        self.go_on(1, empty_blocks, used);
    }

    /// However many ticks: what was needed before them is forgotten in two steps, as some of it may be of a moment ago.
    fn go_on(&mut self, ticks: u64, empty_blocks: &EmptyBlockPolicy, used: u64) {
        self.now = self.now.saturating_add(ticks);
        self.frees = 0;
        if self.now - self.period_began >= u64::from(empty_blocks.ticks.max(1)) {
            self.period_began = self.now;
            self.peaks = [used, self.peaks[0]];
        }
    }
}
