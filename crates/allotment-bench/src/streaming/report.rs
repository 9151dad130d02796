//! The waits of frames, as a table and as JSON.

use core::time::Duration;

use serde::Serialize;

use super::player::Played;
use super::scene::Scene;
use super::set_up::SetUp;
use crate::args::StreamingArgs;
use crate::failure::Failure;
use crate::units::bytes;
use crate::vulkan::Gpu;

/// The longest acceptable wait of a frame.
const LONG: Duration = Duration::from_micros(500);

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    device: String,
    notes: Vec<String>,
    frames: usize,
    frame_ms: f64,
    resident_bytes: u64,
    rows: Vec<Row>,
}

/// Frames after the first, in microseconds of wall time inside the allocator.
#[derive(Serialize)]
struct Row {
    set_up: SetUp,
    first_frame_us: f64,
    median_us: f64,
    p99_us: f64,
    worst_us: f64,
    worst_call_us: f64,
    worst_call: &'static str,
    frames_above_500_us: usize,
    /// Of 50 us of spinning beside each frame: the effect of preemption on any thread.
    spins_above_500_us: usize,
    worst_spin_us: f64,
    waits: u64,
    waited_us: f64,
    driver_calls_in_frames: u64,
    /// By other threads, and before the second frame.
    driver_calls_ahead: u64,
    peak_reserved_bytes: u64,
}

impl Report {
    pub(super) fn new(gpu: &Gpu, args: &StreamingArgs, scene: &Scene) -> Self {
        Self {
            device: gpu.info.name.clone(),
            notes: gpu.info.notes(),
            frames: scene.frames.len(),
            frame_ms: args.frame_ms,
            resident_bytes: scene.resident,
            rows: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, set_up: SetUp, played: Played) {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let mut sorted = played.frames;
        sorted.sort_unstable();
        // The smallest time that this share of the frames does not exceed.
        let quantile = |part: f64| {
            let index = (sorted.len() as f64 * part).ceil() as usize;
            us(sorted.get(index.saturating_sub(1)).copied().unwrap_or_default())
        };
        let long = |times: &[Duration]| times.iter().filter(|&&time| time > LONG).count();
        self.rows.push(Row {
            set_up,
            first_frame_us: us(played.first),
            median_us: quantile(0.5),
            p99_us: quantile(0.99),
            worst_us: quantile(1.0),
            worst_call_us: us(played.worst_call.0),
            worst_call: played.worst_call.1,
            frames_above_500_us: long(&sorted),
            spins_above_500_us: long(&played.spins),
            worst_spin_us: us(played.spins.iter().copied().max().unwrap_or_default()),
            waits: played.waits,
            waited_us: us(played.waited),
            driver_calls_in_frames: played.driver_calls_in_frames,
            driver_calls_ahead: played.driver_calls_ahead,
            peak_reserved_bytes: played.peak_reserved,
        });
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        say!("{}", self.device);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        say!();
        say!(
            "{} frames, {} ms each, {} resident; microseconds of wall time inside the allocator",
            self.frames,
            self.frame_ms,
            bytes(self.resident_bytes)
        );
        say!(
            "  {:16} {:>10} {:>8} {:>8} {:>9} {:>9}  {:16} {:>8} {:>11} {:>9}",
            "set-up",
            "1st frame",
            "median",
            "p99",
            "worst",
            "call",
            "which",
            "> 0.5 ms",
            "long spins",
            "worst"
        );
        for row in &self.rows {
            say!(
                "  {:16} {:>10.1} {:>8.1} {:>8.1} {:>9.1} {:>9.1}  {:16} {:>8} {:>11} {:>9.1}",
                row.set_up.name(),
                row.first_frame_us,
                row.median_us,
                row.p99_us,
                row.worst_us,
                row.worst_call_us,
                row.worst_call,
                row.frames_above_500_us,
                row.spins_above_500_us,
                row.worst_spin_us
            );
        }
        say!();
        say!("Long spins: 50 us of spinning beside each frame that took above 0.5 ms, due to preemption.");
        say!(
            "After the first frame; driver calls are vkAllocateMemory, \"ahead\": by other threads or beforehand."
        );
        say!(
            "  {:16} {:>6} {:>12} {:>16} {:>12} {:>14}",
            "set-up",
            "waits",
            "waited",
            "calls in frames",
            "calls ahead",
            "peak reserved"
        );
        for row in &self.rows {
            say!(
                "  {:16} {:>6} {:>9.1} us {:>16} {:>12} {:>14}",
                row.set_up.name(),
                row.waits,
                row.waited_us,
                row.driver_calls_in_frames,
                row.driver_calls_ahead,
                bytes(row.peak_reserved_bytes)
            );
        }
        Ok(())
    }
}
