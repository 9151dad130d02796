//! Which blocks differ between two positions: what a view that moves a little in time looks at anew.

use std::collections::BTreeSet;

use allotment_trace::recording::Event;

use super::{BlockIndex, NONE, Timeline};

impl Timeline<'_> {
    /// Returns the blocks that differ between two positions, in either order: some of their allocations do, or their
    /// size, or one exists at one position alone. It may return blocks that are the same again. `None` where more than
    /// `most_events` events lie between the positions, or an [`Event::Lost`]: any block may differ then.
    ///
    /// Costs some nanoseconds for each event between.
    ///
    /// ```
    /// use allotment_analyze::Timeline;
    /// use allotment_trace::recording::{Event, Recording};
    ///
    /// let events = vec![Event::FrameEnd { number: 0 }, Event::FrameEnd { number: 1 }];
    /// let recording = Recording { events, ..Recording::default() };
    /// let timeline = Timeline::new(&recording);
    /// assert!(timeline.blocks_changed(0, 2, 10).is_some_and(|blocks| blocks.is_empty()));
    /// assert_eq!(timeline.blocks_changed(0, 2, 1), None);
    /// ```
    #[must_use]
    pub fn blocks_changed(&self, one: u64, other: u64, most_events: u32) -> Option<BTreeSet<BlockIndex>> {
        let (one, other) = (self.clamp(one), self.clamp(other));
        let (first, end) = (one.min(other), one.max(other));
        if end - first > most_events {
            return None;
        }
        let mut changed = BTreeSet::new();
        for number in first..end {
            let target = self.target(number);
            let mut places_of = |row: u32| {
                changed.insert(self.place(row, number).block);
                changed.insert(self.place(row, number + 1).block);
            };
            match self.event(number) {
                Event::Lost => return None,
                _ if target == NONE => {}
                Event::Allocated(_)
                | Event::Freed { .. }
                | Event::FreeRequested { .. }
                | Event::Reserved { .. } => places_of(target),
                Event::Exchanged { .. } => self.exchange_of(target).into_iter().for_each(places_of),
                Event::BlockAllocated { .. }
                | Event::BlockFreed { .. }
                | Event::BlockShared { .. }
                | Event::BlockResized { .. } => _ = changed.insert(BlockIndex(target)),
                _ => {}
            }
        }
        Some(changed)
    }
}
