//! The table of leaks.

use super::groups::GroupRow;
use super::{Definition, Table};
use crate::grouping::Grouping;
use crate::leaks::Leaks;
use crate::timeline::Timeline;
use crate::units::{bytes, plural};

/// A leak grows: so there is when the allocations of a group came, and whether they still come.
const fn columns<'a>(grouping: Grouping, has_frames: bool) -> [Definition<GroupRow<'a>>; 9] {
    let [first, last] = GroupRow::first_and_last(has_frames);
    [
        GroupRow::key(grouping),
        GroupRow::NAME,
        GroupRow::COUNT,
        GroupRow::BYTES,
        GroupRow::SHARE,
        first,
        last,
        GroupRow::PER_FRAME,
        GroupRow::GROWTH,
    ]
}

impl Leaks {
    /// Returns the leaks as a table of groups.
    ///
    /// ```
    /// use allotment_analyze::{Cursor, Grouping, Leaks, Timeline};
    /// use allotment_trace::recording::Recording;
    ///
    /// let recording = Recording::default();
    /// let timeline = Timeline::new(&recording);
    /// let table = Leaks::at(&Cursor::new(&timeline), Grouping::Name).table(&timeline, Grouping::Name);
    /// assert_eq!(table.summary, ["No unreleased allocations."]);
    /// ```
    #[must_use]
    pub fn table(&self, timeline: &Timeline<'_>, grouping: Grouping) -> Table {
        let columns = columns(grouping, timeline.frame_count() > 0);
        let mut table = GroupRow::table(&columns, (timeline, grouping, self.at), self.bytes, &self.groups);
        table.summary.push(match self.count {
            0 => "No unreleased allocations.".to_owned(),
            count => format!("{}, {}.", plural(count, "unreleased allocation"), bytes(self.bytes)),
        });
        if self.library_count > 0 {
            table.summary.push(format!(
                "The library itself has {}, {}, until its Gpu is dropped. They are left out.",
                plural(self.library_count, "allocation"),
                bytes(self.library_bytes)
            ));
        }
        table
    }
}
