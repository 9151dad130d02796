//! Plays frames at their pace; each call of the allocator is timed by the wall clock.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use allotment::device::vulkan::Device;
use allotment::{Allocation, AllocationOptions, Allocator, Requirements};

use super::scene::{Scene, UPLOAD_FRAMES};
use super::set_up::SetUp;
use crate::failure::Failure;
use crate::vulkan::{Gpu, Meter, own_allocate_calls};

/// The results of playing a scene. The first frame warms up and is reported separately.
pub(super) struct Played {
    /// The time in the first frame.
    pub(super) first: Duration,
    /// The total time of the calls in each later frame.
    pub(super) frames: Vec<Duration>,
    /// The time of a [`SPIN`] beside each frame: what preemption costs a thread that waits for no other.
    pub(super) spins: Vec<Duration>,
    /// The longest call after the first frame, and its name.
    pub(super) worst_call: (Duration, &'static str),
    /// The allocator's own count, after the first frame.
    pub(super) waits: u64,
    pub(super) waited: Duration,
    /// Driver calls that allocate memory: in frames after the first, and by other threads or before.
    pub(super) driver_calls_in_frames: u64,
    pub(super) driver_calls_ahead: u64,
    pub(super) peak_reserved: u64,
}

/// The time that a frame spends in an allocator that need not wait.
const SPIN: Duration = Duration::from_micros(50);

/// Spins for [`SPIN`], or longer if preempted. Returns the time.
fn spin() -> Duration {
    let start = Instant::now();
    while start.elapsed() < SPIN {
        core::hint::spin_loop();
    }
    start.elapsed()
}

/// Plays the scene once.
pub(super) fn play(gpu: &Arc<Gpu>, set_up: SetUp, scene: &Scene, pace: Duration) -> Result<Played, Failure> {
    let stage = set_up.stage(gpu, scene)?;
    let allocator = &*stage.allocator;
    let mut show = Show { allocator, resident: VecDeque::new(), bytes: 0, uploads: VecDeque::new() };
    let mut clock = Clock::default();
    let mut frames = Vec::with_capacity(scene.frames.len());
    let mut spins = Vec::with_capacity(scene.frames.len());
    let mut begin = (allocator.reports().stalls(), own_allocate_calls());
    let mut next = Instant::now();
    for (i, frame) in scene.frames.iter().enumerate() {
        show.frame(&mut clock, scene, &frame.resources, &frame.upload)?;
        frames.push(core::mem::take(&mut clock.frame));
        spins.push(spin());
        if i == 0 {
            clock.worst = Default::default();
            begin = (allocator.reports().stalls(), own_allocate_calls());
        }
        // A late frame does not shorten the following ones.
        next = (next + pace).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let (waits, calls) = (allocator.reports().stalls(), own_allocate_calls());
    let driver_calls_in_frames = calls - begin.1;
    let played = Played {
        first: frames.first().copied().unwrap_or_default(),
        spins,
        frames: frames.split_off(1.min(frames.len())),
        worst_call: clock.worst,
        waits: waits.count - begin.0.count,
        waited: waits.total - begin.0.total,
        driver_calls_in_frames,
        driver_calls_ahead: Meter::Allotment.read().allocate_calls - driver_calls_in_frames,
        peak_reserved: allocator.reports().memory_heaps().iter().map(|report| report.peak_reserved).sum(),
    };
    show.clear()?;
    Ok(played)
}

/// The times of the calls.
#[derive(Default)]
struct Clock {
    frame: Duration,
    worst: (Duration, &'static str),
}

impl Clock {
    fn time<T>(&mut self, name: &'static str, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        self.frame += took;
        if took > self.worst.0 {
            self.worst = (took, name);
        }
        result
    }
}

/// The part of the scene that is in memory.
struct Show<'a> {
    allocator: &'a Allocator<Device>,
    /// Oldest first.
    resident: VecDeque<(Allocation, u64)>,
    bytes: u64,
    uploads: VecDeque<Allocation>,
}

impl Show<'_> {
    fn frame(
        &mut self,
        clock: &mut Clock,
        scene: &Scene,
        resources: &[(Requirements, AllocationOptions)],
        upload: &(Requirements, AllocationOptions),
    ) -> Result<(), Failure> {
        let allocator = self.allocator;
        let staging = clock.time("allocate upload", || allocator.allocate(&upload.0, &upload.1));
        self.uploads.push_back(staging.map_err(failed)?);
        for (requirements, options) in resources {
            let token =
                clock.time("allocate", || allocator.allocate(requirements, options)).map_err(failed)?;
            self.resident.push_back((token, requirements.size));
            self.bytes += requirements.size;
        }
        while self.bytes > scene.resident {
            let Some((token, size)) = self.resident.pop_front() else { break };
            clock.time("free", || allocator.free(token)).map_err(failed)?;
            self.bytes -= size;
        }
        if self.uploads.len() > UPLOAD_FRAMES
            && let Some(token) = self.uploads.pop_front()
        {
            clock.time("free upload", || allocator.free(token)).map_err(failed)?;
        }
        clock.time("end_frame", || allocator.end_frame());
        Ok(())
    }

    fn clear(self) -> Result<(), Failure> {
        let resident = self.resident.into_iter().map(|(token, _)| token);
        resident.chain(self.uploads).try_for_each(|token| self.allocator.free(token)).map_err(failed)
    }
}

fn failed(error: impl core::fmt::Display) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}
