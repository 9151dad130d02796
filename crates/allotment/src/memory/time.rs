//! The clock of a program that does not call `end_frame`.
//!
//! ```text
//!   free, growth, reserve, maintain ── some calls ──▶ now()         sixtieths of a second since the allocator was created
//!                                                      │
//!             the clock of that pool advances ◀────────┤
//!      first such call in a sixtieth ──▶ the clocks of all pools advance, and blocks that were empty for too long are freed
//! ```
//!
//! Reading the system's clock costs 25 ns, as much as a small free. So a pool reads it only at every 64th free, at
//! every fourth free that empties a memory object, and whenever it calls the driver.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

/// The clock of an allocator. It counts while the program does not call
/// [`end_frame`](crate::memory::Allocator::end_frame); see [`EmptyBlockPolicy`](crate::memory::blocks::EmptyBlockPolicy).
///
/// ```
/// use allotment::AllocatorDesc;
/// use allotment::memory::blocks::{ManualTime, TimeSource};
///
/// let time = ManualTime::new();
/// let mut desc = AllocatorDesc::default();
/// desc.time = TimeSource::Manual(time.clone()); // a replay advances `time` by its recording
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum TimeSource {
    /// The system's monotonic clock.
    #[default]
    System,
    /// A clock that the caller advances: for tests, and for replays that must not depend on the machine's speed.
    Manual(ManualTime),
}

/// A clock that the caller [advances](Self::advance). Clones share the same time.
///
/// ```
/// use core::time::Duration;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::blocks::{ManualTime, TimeSource};
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let time = ManualTime::new();
/// let mut desc = AllocatorDesc::default();
/// desc.time = TimeSource::Manual(time.clone());
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let allocator = Allocator::new(device, desc)?;
/// let image = Requirements::new(200 << 20);
/// allocator.free(allocator.allocate(&image, &MemoryUsage::GpuOnly.into())?)?;
/// assert_eq!(allocator.statistics().block_bytes, 200 << 20, "it may be wanted again");
///
/// // Five seconds later a call on any pool frees it to the driver.
/// time.advance(Duration::from_secs(5));
/// let staging = Requirements::new(256);
/// allocator.free(allocator.allocate(&staging, &MemoryUsage::Upload.into())?)?;
/// assert!(allocator.statistics().block_bytes < 5 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTime {
    nanoseconds: Arc<AtomicU64>,
}

impl ManualTime {
    /// Creates a clock at time 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock. It stops for good after 584 years.
    ///
    /// ```
    /// use core::time::Duration;
    /// use allotment::memory::blocks::ManualTime;
    ///
    /// let time = ManualTime::new();
    /// time.clone().advance(Duration::from_millis(16));
    /// assert_eq!(time.now(), Duration::from_millis(16), "clones share the time");
    /// ```
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let later = |now: u64| Some(now.saturating_add(by));
        let _ = self.nanoseconds.fetch_update(Relaxed, Relaxed, later);
    }

    /// Returns the time that has passed since the clock was created.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Relaxed))
    }
}

/// A frame of real time has the length of a frame on most screens, so that
/// [`EmptyBlockPolicy::frames`](crate::memory::blocks::EmptyBlockPolicy::frames) means much the same with `end_frame` and
/// without.
const TICKS_PER_SECOND: u64 = 60;

/// Ten seconds: after that time without `end_frame`, the program is taken to have stopped ending frames.
const FRAMES_ARE_OVER: u64 = 10 * TICKS_PER_SECOND;

/// The clock of an allocator, and when it last advanced its pools.
#[derive(Debug)]
pub(super) struct Time {
    source: TimeSource,
    began: Instant,
    /// The tick at which the clocks of all pools advance next.
    due: AtomicU64,
    /// The tick until which `end_frame` counts as in use; 0 when it was never called.
    frames_until: AtomicU64,
}

/// A reading of the clock, and whether it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Sixtieths of a second since the allocator was created.
    pub(super) tick: u64,
    /// A frame ended recently, so frames count and real time does not.
    pub(super) in_frames: bool,
}

impl Time {
    pub(super) fn new(source: TimeSource) -> Self {
        Self { source, began: Instant::now(), due: AtomicU64::new(1), frames_until: AtomicU64::new(0) }
    }

    /// Reads the clock, which takes 25 ns.
    pub(super) fn now(&self) -> Moment {
        let passed = match &self.source {
            TimeSource::System => self.began.elapsed(),
            TimeSource::Manual(time) => time.now(),
        };
        let in_second = u64::from(passed.subsec_nanos()) * TICKS_PER_SECOND / 1_000_000_000;
        let tick = passed.as_secs().saturating_mul(TICKS_PER_SECOND).saturating_add(in_second);
        Moment { tick, in_frames: tick < self.frames_until.load(Relaxed) }
    }

    /// Returns true for one caller in each tick that counts.
    pub(super) fn is_due(&self, Moment { tick, in_frames }: Moment) -> bool {
        // Relaxed, here and below: these numbers are compared with each other only, and guard no data.
        let due = self.due.load(Relaxed);
        // The next visit is due in the next tick, however many ticks have passed since the last one.
        let next = tick.saturating_add(1);
        // One of several threads wins the exchange, so the pools are visited once a tick.
        !in_frames && tick >= due && self.due.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    /// Records the end of a frame. Returns when it is, if time has passed since the last one.
    pub(super) fn note_frame(&self) -> Option<Moment> {
        let now = self.now();
        let until = now.tick.saturating_add(FRAMES_ARE_OVER);
        let before = self.frames_until.swap(until, Relaxed);
        // The first frame of all ends in the first tick, as far as anybody can tell.
        (until != before.max(FRAMES_ARE_OVER)).then_some(now)
    }
}
