//! Empty-block policy: which empty blocks a pool keeps, and for how long.
//!
//! A driver takes milliseconds to allocate a block, so a pool must not free a block in one frame and allocate it
//! again in the next. A block that no request needs any more must not stay allocated for ever either.

use crate::memory::pool::time::Moment;

/// When a pool frees its empty blocks to the driver.
///
/// Time is counted in frames: calls of [`Allocator::end_frame`](crate::memory::Allocator::end_frame). In a program that
/// has not called `end_frame` for ten seconds, a frame is a sixtieth of a second of [real
/// time](crate::memory::TimeSource), or 64 frees in a pool, whichever comes first. The allocator reads the clock only
/// inside later calls, on any pool: when it allocates memory from the driver, at every 64th free, and at every fourth
/// free that empties a memory object. A [`MaintenanceThread`](crate::memory::MaintenanceThread) reads the clock as
/// well. A program that makes no more calls should [trim](crate::memory::Allocator::trim) instead.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::EmptyBlockPolicy;
///
/// let mut desc = AllocatorDesc::default();
/// desc.empty_blocks = EmptyBlockPolicy::NONE; // a tool that shares the GPU with others
/// let allocator = Allocator::new(device, desc)?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// allocator.free(mesh)?;
/// assert_eq!(allocator.statistics().block_bytes, 0, "freed to the driver at once");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmptyBlockPolicy {
    /// A pool frees a block once the block has been empty for this number of frames.
    pub frames: u32,
    /// Bytes of empty blocks that a pool keeps beyond its peak usage of the last [`frames`](Self::frames). The pool
    /// frees empty blocks above that as soon as they are empty, or, in a program that ends frames, once they have been
    /// empty for three frames.
    pub kept_bytes: u64,
    /// The pool keeps its peak usage divided by this number in addition to [`kept_bytes`](Self::kept_bytes); 0 adds
    /// nothing.
    pub kept_divisor: u64,
    /// Whether the pool keeps its peak usage of the last [`frames`](Self::frames). If not, it keeps
    /// [`kept_bytes`](Self::kept_bytes) and the divided part beyond what is in use now: less memory, also in a program
    /// that makes no more calls, and more calls of the driver.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let mut desc = AllocatorDesc::default();
    /// desc.empty_blocks.keeps_peak = false; // a service that computes for a second and waits for an hour
    /// let allocator = Allocator::new(device, desc)?;
    /// let request = Requirements::new(1 << 20);
    /// let tensors: Vec<_> = (0..200)
    ///     .map(|_| allocator.allocate(&request, &MemoryUsage::GpuOnly.into()))
    ///     .collect::<Result<_, _>>()?;
    /// for tensor in tensors {
    ///     allocator.free(tensor)?;
    /// }
    /// assert!(allocator.statistics().block_bytes < 32 << 20, "of 200 MiB, without a later call");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub keeps_peak: bool,
}

impl Default for EmptyBlockPolicy {
    /// Two seconds of frames at 60 Hz; one small block and a sixteenth of the peak usage. Twice these bytes left a
    /// tenth more of the recorded training traces' memory idle and saved hardly a driver call.
    fn default() -> Self {
        Self { frames: 120, kept_bytes: 4 << 20, kept_divisor: 16, keeps_peak: true }
    }
}

impl EmptyBlockPolicy {
    /// Frees every block as soon as it is empty.
    pub const NONE: Self = Self { frames: 0, kept_bytes: 0, kept_divisor: 0, keeps_peak: true };

    /// Returns the bytes that may lie idle in a pool whose peak usage is `needed` bytes.
    pub(in crate::memory) fn idle_bytes(&self, needed: u64) -> u64 {
        self.kept_bytes.saturating_add(needed.checked_div(self.kept_divisor).unwrap_or(0))
    }
}

/// Frees after which a pool reads the clock and counts a frame by itself, in a program that ends no frames.
const FREES_PER_TICK: u32 = 64;

/// A free that empties a memory object is slower than others, so each fourth of these can afford to read the clock.
const EMPTIED_PER_LOOK: u32 = 4;

/// A pool's clock, in frames, and the peak usage of the last period.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::memory) struct Clock {
    pub(in crate::memory) now: u64,
    frees: u32,
    /// Frees that emptied a memory object.
    emptied: u32,
    /// The frame number up to which real time was counted.
    real: u64,
    /// The program calls `end_frame`, so frees are no measure of time.
    pub(in crate::memory) has_frames: bool,
    /// The most bytes in use in the current and in the previous period of [`EmptyBlockPolicy::frames`].
    peaks: [u64; 2],
    period_began: u64,
}

impl Clock {
    /// Records that `bytes` are in use now.
    pub(in crate::memory) fn used(&mut self, bytes: u64) {
        self.peaks[0] = self.peaks[0].max(bytes);
    }

    /// Returns the tick at which the current period began.
    pub(in crate::memory) fn period(&self) -> u64 {
        self.period_began
    }

    /// Returns the peak usage of the current and the previous period.
    pub(in crate::memory) fn needed(&self) -> u64 {
        self.peaks[0].max(self.peaks[1])
    }

    /// Counts a free; the 64th free without `end_frame` counts as a frame. Returns true when it did.
    pub(in crate::memory) fn freed(
        &mut self,
        empty_blocks: &EmptyBlockPolicy,
        used: impl FnOnce() -> u64,
    ) -> bool {
        self.frees = self.frees.wrapping_add(1);
        // In a program that ends frames, these alone measure time.
        let ticks = self.frees >= FREES_PER_TICK && !self.has_frames;
        if ticks {
            self.advance(1, empty_blocks, used());
        }
        ticks
    }

    /// Returns true when the next free will count a frame.
    pub(in crate::memory) fn is_about_to_tick(&self) -> bool {
        self.frees >= FREES_PER_TICK - 1 && !self.has_frames
    }

    /// Counts a free that is about to empty a memory object. Returns true when this free should read the clock.
    pub(in crate::memory) fn looks_at_emptied(&mut self) -> bool {
        self.emptied = self.emptied.wrapping_add(1);
        self.emptied % EMPTIED_PER_LOOK == 1
    }

    /// Returns true if real time has passed since it was last counted.
    pub(in crate::memory) fn is_behind(&self, now: Moment) -> bool {
        now.tick > self.real
    }

    /// Advances the clock to `now` of real time. Returns the frames that passed: 0 while the program ends frames
    /// itself.
    pub(in crate::memory) fn pass(&mut self, now: Moment, empty_blocks: &EmptyBlockPolicy, used: u64) -> u64 {
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
    pub(in crate::memory) fn count_free(&mut self) {
        self.frees = self.frees.wrapping_add(1);
    }

    /// Counts the end of frames, during which nothing has changed.
    pub(in crate::memory) fn end_frames(&mut self, frames: u64, empty_blocks: &EmptyBlockPolicy, used: u64) {
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
