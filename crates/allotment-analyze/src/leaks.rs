//! Allocations that nothing freed, by what made them.
//!
//! Allocations that exist at the end of a recording are not wrong by themselves: a program that is recorded while it runs has all its
//! textures. A leak grows. So each group also says in how many frames its survivors were allocated and how many came
//! a frame: a group whose survivors all date from one frame was loaded, one with a survivor in each frame leaks.

use allotment::AllocationOptions;
use allotment_trace::recording::Moment;

use crate::cursor::Cursor;
use crate::grouping::Grouping;
use crate::groups::{AllocationGroup, AllocationGroups};
use crate::timeline::{AllocationIndex, Status};

/// Allocations that exist at a moment and were not released.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaks {
    /// The moment.
    pub at: Moment,
    /// How many allocations exist that the program has not released. No reservations, and none of the library's own.
    pub count: u64,
    /// Bytes that were requested for them.
    pub bytes: u64,
    /// How many the library itself has, such as upload rings: they are freed with their `Gpu`, which a program may well
    /// drop after the recording has ended. By their category, [`AllocationOptions::LIBRARY_CATEGORY`].
    pub library_count: u64,
    /// Bytes that were requested for them.
    pub library_bytes: u64,
    /// The allocations by group, most bytes first.
    pub groups: Vec<AllocationGroup>,
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
        let recording = timeline.recording();
        let of_the_library = |&row: &AllocationIndex| {
            recording.text(timeline.texts(row).category) == Some(AllocationOptions::LIBRARY_CATEGORY)
        };
        let (library, mut rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(of_the_library);
        let library_bytes = library.iter().map(|&row| timeline.requested(row)).sum();
        // In the order of time, as groups need them.
        rows.sort_unstable();
        let AllocationGroups { count, bytes, groups } = AllocationGroups::of(timeline, grouping, rows);
        let library_count = library.len() as u64;
        Self { at: cursor.moment(), count, bytes, library_count, library_bytes, groups }
    }
}
