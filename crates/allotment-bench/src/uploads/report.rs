//! The figures as a table and as JSON.

use serde::Serialize;

use super::frames::Seen;
use super::streams::Streams;
use crate::failure::Failure;
use crate::units::rate;

/// All figures of a run.
#[derive(Default, Serialize)]
pub(super) struct Report {
    pub(super) frames: Option<Seen>,
    pub(super) streams: Option<Streams>,
}

impl Report {
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        if let Some(seen) = &self.frames {
            say!(
                "simulated GPU, 20 ms a submission: 16 MiB through 1 MiB of staging memory, in {:.0} ms",
                seen.large_ms
            );
            say!();
            say!("  longest Frame::submit, of {:6} {:>26.1} us", seen.frames, seen.longest_submit_us);
            say!(
                "  longest small write, of {:6} {:>28.1} us",
                seen.small_writes,
                seen.longest_small_write_us
            );
            say!("  most submissions until a small write is there {:>12}", seen.most_submissions);
        }
        if let Some(streams) = &self.streams {
            say!();
            say!(
                "{}: {} MiB of RGBA8 textures on the {} queue, of {}; medians of {}",
                streams.device,
                streams.mib,
                streams.queue,
                streams.queues.join(", "),
                streams.repetitions
            );
            say!();
            say!(
                "  {:>5} {:14} {:>7} {:>12} {:>6} {:>7} {:>12} {:>12} {:>14} {:>14} {:>12}",
                "side",
                "way",
                "threads",
                "rate",
                "share",
                "frames",
                "late submits",
                "late frames",
                "longest submit",
                "longest frame",
                "median frame"
            );
            for row in &streams.rows {
                say!(
                    "  {:>5} {:14} {:>7} {:>12} {:>6.2} {:>7} {:>12} {:>12} {:>11.1} us {:>11.1} us {:>9.1} us",
                    row.side,
                    row.way,
                    row.threads,
                    rate(row.bytes_per_second),
                    row.share,
                    row.frames,
                    row.late_submits,
                    row.late_frames,
                    row.longest_submit_us,
                    row.longest_frame_us,
                    row.median_frame_us
                );
            }
        }
        Ok(())
    }
}
