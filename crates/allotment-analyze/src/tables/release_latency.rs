//! How long released allocations waited, as a table.

use super::{Cell, Column, Definition, Table};
use crate::release_latency::ReleaseLatency;
use crate::units::{bytes, count, plural};

const fn columns<'a>() -> [Definition<(&'a ReleaseLatency, usize)>; 3] {
    [
        (Column::number("Waited", "From the release until the memory was free."), |&(_, frames)| {
            frames_of(frames as u64)
        }),
        (Column::number("Allocations", "Allocations that waited so long."), |(latency, frames)| {
            Cell::Count(latency.frames[*frames])
        }),
        (Column::number("Share", "Their share of all that waited and are free."), |(latency, frames)| {
            Cell::Share(latency.frames[*frames], latency.completed)
        }),
    ]
}

fn frames_of(frames: u64) -> Cell {
    let is_last = frames + 1 == ReleaseLatency::FRAMES as u64;
    if is_last { Cell::AtLeast(frames, "frame") } else { Cell::Things(frames, "frame") }
}

impl ReleaseLatency {
    /// What the [`facts`](Self::facts) are called.
    pub const FACTS: [&'static str; 5] =
        ["Waiting now", "Freed after waiting", "Freed at once", "Half within", "99 % within"];

    /// Returns how many allocations waited for each number of frames, as a table; without rows where the recording has no
    /// frames.
    #[must_use]
    pub fn table(&self) -> Table {
        let last = self.frames.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let shown = if self.has_frames { last } else { 0 };
        let rows: Vec<_> = (0..shown).map(|frames| (self, frames)).collect();
        Table::of(&columns(), &rows, |_| None)
    }

    /// Returns the sums. The last two are left out where nothing was freed after waiting, or in no frames.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut values = vec![
            format!("{}, {}", plural(self.pending, "allocation"), bytes(self.pending_bytes)),
            count(self.completed),
            count(self.immediate),
        ];
        if self.completed > 0 && self.has_frames {
            values.extend([0.5, 0.99].map(|share| frames_of(self.frames_at(share)).text()));
        }
        Self::FACTS.into_iter().zip(values).collect()
    }
}
