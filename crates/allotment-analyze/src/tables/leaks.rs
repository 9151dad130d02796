//! The table of leaks.

use super::{Table, groups};
use crate::grouping::Grouping;
use crate::leaks::Leaks;
use crate::timeline::Timeline;
use crate::units::{bytes, plural};

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
        let mut table = groups::table(timeline, grouping, self.at, self.bytes, &self.groups);
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
