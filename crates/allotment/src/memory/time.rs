//! The time that counts while nobody tells of frames.
//!
//! ```text
//!   free, growth, reserve, maintain ── now and then ──▶ now()         sixtieths of a second since the allocator was created
//!                                                        │
//!             the pool's own clock goes on ◀─────────────┤
//!      where no call did so in this tick ──▶ all pools' clocks go on, and what lies empty for too long is given back
//! ```
//!
//! A look at the system's clock costs 25 ns, as much as a small free. So a pool looks at every 64th free, at every fourth
//! that empties a memory object, and whenever it goes to the driver.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::allocator::Allocator;
use crate::device::{Device, OwnedMemory};
use crate::sync::locked;

/// Where an allocator takes the time from. It counts while nobody calls
/// [`end_frame`](super::Allocator::end_frame); see [`EmptyBlockPolicy`](super::EmptyBlockPolicy).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum TimeSource {
    /// The system's clock that never goes back.
    #[default]
    System,
    /// A clock that the caller moves on: for tests, and for replays that should come out the same however fast they are.
    Manual(ManualTime),
}

/// A clock that stands still until it is [told to go on](Self::advance). A clone is the same clock.
///
/// ```
/// use core::time::Duration;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::{ManualTime, TimeSource};
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
/// // Nobody wants it for a while. It goes back to the driver in a later call, of whichever pool.
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
    /// Returns a clock that stands at 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on. It stops for good after 584 years.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let later = |now: u64| Some(now.saturating_add(by));
        let _ = self.nanoseconds.fetch_update(Relaxed, Relaxed, later);
    }

    /// Returns the time that has passed on it.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Relaxed))
    }
}

/// A tick without frames is as long as a frame is on most screens, so that
/// [`EmptyBlockPolicy::ticks`](super::EmptyBlockPolicy::ticks) says much the same to programs with frames and without.
const TICKS_PER_SECOND: u64 = 60;

/// After so many ticks, ten seconds, without the end of a frame the program is taken to have no more of them.
const FRAMES_ARE_OVER: u64 = 10 * TICKS_PER_SECOND;

/// An allocator's time.
#[derive(Debug)]
pub(super) struct Time {
    source: TimeSource,
    began: Instant,
    /// The tick from which on all pools are to be looked at again.
    due: AtomicU64,
    /// The tick before which frames are taken to go on; 0 where none has ended.
    frames_until: AtomicU64,
}

/// What an allocator's time is, and whether it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Sixtieths of a second since the allocator was created.
    pub(super) tick: u64,
    /// A frame ended lately, so that frames count and real time does not.
    pub(super) in_frames: bool,
}

impl Time {
    pub(super) fn new(source: TimeSource) -> Self {
        Self { source, began: Instant::now(), due: AtomicU64::new(1), frames_until: AtomicU64::new(0) }
    }

    /// Looks at the clock, which takes 25 ns.
    pub(super) fn now(&self) -> Moment {
        let passed = match &self.source {
            TimeSource::System => self.began.elapsed(),
            TimeSource::Manual(time) => time.now(),
        };
        let of_second = u64::from(passed.subsec_nanos()) * TICKS_PER_SECOND / 1_000_000_000;
        let tick = passed.as_secs().saturating_mul(TICKS_PER_SECOND).saturating_add(of_second);
        Moment { tick, in_frames: tick < self.frames_until.load(Relaxed) }
    }

    /// True for one caller in each tick that counts.
    fn is_due(&self, Moment { tick, in_frames }: Moment) -> bool {
        let due = self.due.load(Relaxed);
        let next = tick.saturating_add(1);
        !in_frames && tick >= due && self.due.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    /// Notes the end of a frame.
    pub(super) fn note_frame(&self) {
        let until = self.now().tick.saturating_add(FRAMES_ARE_OVER);
        self.frames_until.store(until, Relaxed);
    }
}

impl<D: Device> Allocator<D> {
    /// Lets the clocks of all pools go on to `now`, where no other call did so in its tick. Returns what lies empty for too long,
    /// to be given back with no lock held; nothing where that is block growth's, which is called instead.
    pub(super) fn pass_time(&self, now: Moment) -> Vec<OwnedMemory<D>> {
        let mut unwanted = Vec::new();
        if !self.time.is_due(now) {
            return unwanted;
        }
        for slot in self.slots().filter(|slot| slot.has_memory()) {
            let mut guard = locked(&slot.state);
            let Some(state) = guard.as_mut() else { continue };
            state.pass_time(now);
            if !state.has_empty_blocks() {
                continue;
            }
            if self.is_kept_up() {
                self.to_do.ring();
            } else {
                unwanted.extend(core::iter::from_fn(|| state.take_unwanted()));
                state.store_counters(slot);
            }
        }
        unwanted
    }
}
