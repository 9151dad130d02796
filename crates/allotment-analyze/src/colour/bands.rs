//! The bytes of each group over time.

use core::cmp::Reverse;
use core::ops::Range;
use std::collections::BinaryHeap;

use allotment_trace::recording::{Event, Moment};

use super::ColourGroups;
use crate::cursor::Cursor;
use crate::scope::Scope;
use crate::series::{SeriesAxis, borders};
use crate::timeline::{AllocationIndex, NONE, Timeline};

/// The bytes of each group at a moment, and where they were the most since the sample before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandSample {
    /// The moment.
    pub moment: Moment,
    /// The bytes of each group there; last, those of all that is not looked for.
    pub last: Box<[u64]>,
    /// The bytes of each at the first of the moments with the most bytes in all, since the sample before. They are of one moment,
    /// so that they can be stacked.
    pub peak: Box<[u64]>,
}

/// The bytes of groups over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bands {
    /// In the order of time.
    pub samples: Vec<BandSample>,
}

/// Returns the requested bytes of each group over a part of the time, in at most `samples` samples and one for its beginning, as
/// [`series_within`](crate::series_within) has them. An allocation for which `is_found` returns false counts in a band behind those
/// of the groups: it is what a search does not mean.
///
/// Allocations that share bytes count each with all of its own, so the bands may be more together than the blocks are.
/// Costs the way to the nearest checkpoint, and a walk over the events of the part.
#[must_use]
pub fn bands_within(
    timeline: &Timeline<'_>,
    groups: &ColourGroups,
    scope: Scope,
    is_found: impl Fn(AllocationIndex) -> bool,
    axis: SeriesAxis,
    positions: Range<u64>,
    samples: usize,
) -> Bands {
    let end = positions.end.min(timeline.end());
    let start = positions.start.min(end);
    let mut borders = borders(timeline, axis, start..end, samples).into_iter().peekable();
    let mut walk = Walk {
        timeline,
        groups,
        scope,
        is_found,
        counted: vec![None; timeline.allocation_count()],
        sums: vec![0; groups.len() + 1],
        total: 0,
        ages: BinaryHeap::new(),
    };
    for allocation in Cursor::at(timeline, start).allocations() {
        walk.look(allocation.0, start);
    }
    let mut bands = Bands { samples: Vec::with_capacity(borders.len()) };
    let (mut most, mut peak) = (walk.total, walk.bytes());
    let mut position = start;
    loop {
        if walk.total > most {
            (most, peak) = (walk.total, walk.bytes());
        }
        if borders.next_if_eq(&position).is_some() {
            let last = walk.bytes();
            let peak = core::mem::replace(&mut peak, last.clone());
            most = walk.total;
            bands.samples.push(BandSample { moment: timeline.moment(position), last, peak });
        }
        if position == end {
            return bands;
        }
        walk.step(position as u32);
        position += 1;
    }
}

struct Walk<'t, 'a, F> {
    timeline: &'t Timeline<'a>,
    groups: &'t ColourGroups,
    scope: Scope,
    is_found: F,
    /// The band of each allocation that exists, and its bytes there.
    counted: Vec<Option<(u8, u64)>>,
    sums: Vec<u128>,
    total: u128,
    /// The positions at which allocations are of another age, the next first.
    ages: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<F: Fn(AllocationIndex) -> bool> Walk<'_, '_, F> {
    fn bytes(&self) -> Box<[u64]> {
        self.sums.iter().map(|&sum| u64::try_from(sum).unwrap_or(u64::MAX)).collect()
    }

    /// Applies the event at a position.
    fn step(&mut self, event: u32) {
        let target = self.timeline.target(event);
        let after = u64::from(event) + 1;
        match self.timeline.event(event) {
            Event::Lost => {
                self.counted.fill(None);
                self.sums.fill(0);
                self.total = 0;
                self.ages.clear();
            }
            _ if target == NONE => {}
            Event::Allocated(_) | Event::FreeRequested { .. } | Event::Reserved { .. } => {
                self.look(target, after);
            }
            Event::Freed { .. } => self.forget(target),
            Event::Exchanged { .. } => {
                for row in self.timeline.exchange_of(target) {
                    self.look(row, after);
                }
            }
            _ => {}
        }
        let is_past = |Reverse((at, _)): &&Reverse<(u64, u32)>| *at <= after;
        while let Some(&Reverse((_, row))) = self.ages.peek().filter(is_past) {
            self.ages.pop();
            if self.timeline.allocation_exists(AllocationIndex(row), after) {
                self.look(row, after);
            }
        }
    }

    /// Counts an allocation as it is at a position where it exists.
    fn look(&mut self, row: u32, position: u64) {
        self.forget(row);
        let allocation = AllocationIndex(row);
        let Some((group, bytes)) = self.groups.counted(self.timeline, allocation, position, self.scope)
        else {
            return;
        };
        let band = if (self.is_found)(allocation) { group } else { self.groups.len() };
        self.counted[row as usize] = Some((band as u8, bytes));
        self.sums[band] += u128::from(bytes);
        self.total += u128::from(bytes);
        if let Some(next) = self.groups.next_age(self.timeline, allocation, position) {
            self.ages.push(Reverse((next, row)));
        }
    }

    fn forget(&mut self, row: u32) {
        if let Some((band, bytes)) = self.counted[row as usize].take() {
            self.sums[usize::from(band)] -= u128::from(bytes);
            self.total -= u128::from(bytes);
        }
    }
}
