//! Allocations that nothing freed, by what made them.
//!
//! Allocations that exist at the end of a recording are not wrong by themselves: a program that is recorded while it runs has all its
//! textures. A leak grows. So each group also says in how many frames its survivors were allocated and how many came
//! a frame: a group whose survivors all date from one frame was loaded, one with a survivor in each frame leaks.

use std::collections::HashMap;

use allotment_trace::recording::Moment;

use crate::cursor::Cursor;
use crate::grouping::Grouping;
use crate::timeline::{AllocationIndex, Status, Timeline};

/// Allocations of one group that exist at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakGroup {
    /// The call site, the name or what the allocations were grouped by. Empty where they have none.
    pub key: String,
    /// How many there are.
    pub count: u64,
    /// Bytes that were requested for them.
    pub bytes: u64,
    /// When the first of them was allocated.
    pub first: Moment,
    /// When the last of them was allocated.
    pub last: Moment,
    /// In how many frames one or more of them was allocated.
    pub frames: u64,
    /// Some of them, the oldest first: at most [`LeakGroup::EXAMPLES`].
    pub examples: Vec<AllocationIndex>,
}

impl LeakGroup {
    /// How many allocations a group names.
    pub const EXAMPLES: usize = 16;

    /// Returns how many of them came a frame, from the first to the last.
    #[must_use]
    pub fn per_frame(&self) -> f64 {
        self.count as f64 / (self.last.frame - self.first.frame + 1) as f64
    }

    /// Returns true if they look like a leak that goes on: they came in at least 8 different frames, in a quarter or
    /// more of all frames from the first on, and the last of them not long ago.
    #[must_use]
    pub fn is_steady(&self, now: Moment) -> bool {
        let span = now.frame.saturating_sub(self.first.frame) + 1;
        let quiet = now.frame.saturating_sub(self.last.frame);
        self.frames >= 8 && self.frames.saturating_mul(4) >= span && quiet.saturating_mul(4) <= span
    }
}

/// Allocations that exist at a moment and were not released.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaks {
    /// The moment.
    pub at: Moment,
    /// How many allocations exist that the program has not released. No reservations.
    pub count: u64,
    /// Bytes that were requested for them.
    pub bytes: u64,
    /// The allocations by group, most bytes first.
    pub groups: Vec<LeakGroup>,
}

impl Leaks {
    /// Returns what exists where a cursor is. Linear in the allocations there.
    ///
    /// ```
    /// use allotment_analyze::{Cursor, Grouping, Leaks, Timeline};
    /// use allotment_trace::recording::Recording;
    ///
    /// let recording = Recording::default();
    /// let timeline = Timeline::new(&recording);
    /// let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::CallSite);
    /// assert_eq!(leaks.count, 0);
    /// ```
    #[must_use]
    pub fn at(cursor: &Cursor<'_, '_>, grouping: Grouping) -> Self {
        Self::of(cursor, grouping, |_| true)
    }

    /// Returns what exists where a cursor is and was allocated at or after a position: what a program's own loading
    /// phase made is left out.
    #[must_use]
    pub fn since(cursor: &Cursor<'_, '_>, grouping: Grouping, position: u64) -> Self {
        let timeline = cursor.timeline();
        Self::of(cursor, grouping, |row| timeline.lifetime(row).allocated >= position)
    }

    fn of(
        cursor: &Cursor<'_, '_>,
        grouping: Grouping,
        mut keep: impl FnMut(AllocationIndex) -> bool,
    ) -> Self {
        let timeline = cursor.timeline();
        let mut rows: Vec<_> = cursor.allocations().filter(|&row| keep(row)).collect();
        rows.retain(|&row| timeline.status_at(row, cursor.position()) == Status::Used);
        // In the order of time, so that each group sees its frames one after another.
        rows.sort_unstable();
        let mut leaks = Self { at: cursor.moment(), count: 0, bytes: 0, groups: Vec::new() };
        let mut index = HashMap::new();
        for row in rows {
            let key = grouping.of(timeline, row);
            let (bytes, moment) = (timeline.requested(row), allocated(timeline, row));
            leaks.count += 1;
            leaks.bytes = leaks.bytes.saturating_add(bytes);
            let group = *index.entry(key).or_insert_with(|| {
                leaks.groups.push(LeakGroup {
                    key: key.to_owned(),
                    count: 0,
                    bytes: 0,
                    first: moment,
                    last: moment,
                    frames: 0,
                    examples: Vec::new(),
                });
                leaks.groups.len() - 1
            });
            let group = &mut leaks.groups[group];
            if group.count == 0 || moment.frame != group.last.frame {
                group.frames += 1;
            }
            group.count += 1;
            group.bytes = group.bytes.saturating_add(bytes);
            group.last = moment;
            if group.examples.len() < LeakGroup::EXAMPLES {
                group.examples.push(row);
            }
        }
        leaks.groups.sort_by(|a, b| (b.bytes, b.count, &a.key).cmp(&(a.bytes, a.count, &b.key)));
        leaks
    }
}

fn allocated(timeline: &Timeline<'_>, row: AllocationIndex) -> Moment {
    timeline.moment(timeline.lifetime(row).allocated)
}
