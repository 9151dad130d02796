//! Checks a contender on a workload before it is measured: no two live ranges overlap, every range is aligned and
//! within the space. Counts what was refused, and which of that would have fitted.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::contender::{Ranges, Space};
use super::workload::{Op, Workload};

/// What a contender did with a workload: its fill and a lap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Requests of the fill, and those of them that were refused.
    pub(super) fill_requests: u64,
    pub(super) fill_refused: u64,
    /// Requests of the lap.
    pub(super) requests: u64,
    /// Requests of the lap that were refused.
    pub(super) refused: u64,
    /// Those of them for which there was a free range that was large enough, aligned.
    pub(super) refused_that_fit: u64,
    /// The end of the highest range at any time.
    pub(super) high_water: u64,
    /// The most bytes requested and live at any time.
    pub(super) peak_bytes: u64,
}

/// Why a contender is not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reject {
    /// It returned a range that it must not return.
    Fault(Fault),
    /// The check did not end in time.
    TooSlow,
}

/// A range that must not be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Overlap { offset: u64, size: u64, other: u64 },
    Misaligned { offset: u64, alignment: u64 },
    Outside { offset: u64, size: u64, space: u64 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { offset, size, other } => {
                write!(f, "{size} bytes at {offset} overlap with the range at {other}")
            }
            Self::Misaligned { offset, alignment } => {
                write!(f, "offset {offset} is not aligned to {alignment}")
            }
            Self::Outside { offset, size, space } => {
                write!(f, "{size} bytes at {offset} end outside of the {space} bytes of the space")
            }
        }
    }
}

/// Plays a workload's fill and a lap, within a limit of time.
pub(super) fn check<C: Ranges>(
    ranges: &mut C,
    workload: &Workload,
    limit: Duration,
) -> Result<Verdict, Reject> {
    let mut slots: Vec<Slot<C>> = Vec::new();
    slots.resize_with(workload.slots as usize, || None);
    let mut shadow = Shadow::new(&workload.space);
    let done = play(ranges, &mut slots, &mut shadow, workload, Instant::now() + limit);
    slots.into_iter().flatten().for_each(|(handle, _)| ranges.free(handle));
    let verdict = done?;
    Ok(Verdict { high_water: shadow.high_water, peak_bytes: shadow.peak_bytes, ..verdict })
}

fn play<C: Ranges>(
    ranges: &mut C,
    slots: &mut [Slot<C>],
    shadow: &mut Shadow,
    workload: &Workload,
    end: Instant,
) -> Result<Verdict, Reject> {
    let mut verdict = Verdict::default();
    for (is_lap, ops) in [(false, &workload.fill), (true, &workload.lap)] {
        if is_lap {
            (verdict.fill_requests, verdict.fill_refused) = (verdict.requests, verdict.refused);
        }
        (verdict.requests, verdict.refused, verdict.refused_that_fit) = (0, 0, 0);
        for (i, op) in ops.iter().enumerate() {
            if i % 64 == 0 && Instant::now() > end {
                return Err(Reject::TooSlow);
            }
            step(ranges, &mut slots[op.slot as usize], op, shadow, &mut verdict)?;
        }
    }
    Ok(verdict)
}

/// A handle with the offset of its range.
type Slot<C> = Option<(<C as Ranges>::Handle, u64)>;

fn step<C: Ranges>(
    ranges: &mut C,
    slot: &mut Slot<C>,
    op: &Op,
    shadow: &mut Shadow,
    verdict: &mut Verdict,
) -> Result<(), Reject> {
    if op.size == 0 {
        if let Some((handle, offset)) = slot.take() {
            shadow.remove(offset);
            ranges.free(handle);
        }
        return Ok(());
    }
    verdict.requests += 1;
    let (size, alignment) = (op.size.into(), op.alignment.into());
    match ranges.allocate(size, alignment) {
        Some((handle, offset)) => {
            shadow.insert(offset, size, alignment).map_err(Reject::Fault)?;
            *slot = Some((handle, offset));
        }
        None => {
            verdict.refused += 1;
            verdict.refused_that_fit += u64::from(shadow.would_fit(size, alignment));
        }
    }
    Ok(())
}

/// The live ranges and the gaps between them, kept by other means than those of the contenders.
#[derive(Debug)]
pub(super) struct Shadow {
    space: u64,
    /// Ends by offset.
    live: BTreeMap<u64, u64>,
    /// Sizes and offsets of the gaps.
    gaps: BTreeSet<(u64, u64)>,
    pub(super) live_bytes: u64,
    peak_bytes: u64,
    high_water: u64,
}

impl Shadow {
    pub(super) fn new(space: &Space) -> Self {
        Self {
            space: space.size,
            live: BTreeMap::new(),
            gaps: BTreeSet::from([(space.size, 0)]),
            live_bytes: 0,
            peak_bytes: 0,
            high_water: 0,
        }
    }

    pub(super) fn insert(&mut self, offset: u64, size: u64, alignment: u64) -> Result<(), Fault> {
        let space = self.space;
        let Some(end) = offset.checked_add(size).filter(|&end| end <= space) else {
            return Err(Fault::Outside { offset, size, space });
        };
        if !offset.is_multiple_of(alignment) {
            return Err(Fault::Misaligned { offset, alignment });
        }
        // The last range that begins before the end of this one is the only one that can reach into it: the live ones
        // do not overlap.
        match self.live.range(..end).next_back() {
            Some((&other, &other_end)) if other_end > offset => {
                return Err(Fault::Overlap { offset, size, other });
            }
            _ => {}
        }
        let (from, to) = self.gap_around(offset, end);
        self.gaps.remove(&(to - from, from));
        self.add_gap(from, offset);
        self.add_gap(end, to);
        self.live.insert(offset, end);
        self.live_bytes += size;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        self.high_water = self.high_water.max(end);
        Ok(())
    }

    /// Removes a live range by its offset.
    pub(super) fn remove(&mut self, offset: u64) {
        let Some(end) = self.live.remove(&offset) else { unreachable!("the range at {offset} is live") };
        self.live_bytes -= end - offset;
        let (from, to) = self.gap_around(offset, end);
        self.gaps.remove(&(offset - from, from));
        self.gaps.remove(&(to - end, end));
        self.add_gap(from, to);
    }

    /// Returns where the range before ends, and where the one behind begins.
    fn gap_around(&self, offset: u64, end: u64) -> (u64, u64) {
        let before = self.live.range(..offset).next_back().map_or(0, |(_, &end)| end);
        (before, self.live.range(end..).next().map_or(self.space, |(&offset, _)| offset))
    }

    fn add_gap(&mut self, from: u64, to: u64) {
        if from < to {
            self.gaps.insert((to - from, from));
        }
    }

    /// Returns `true` if a gap can hold so many bytes. May look at each gap of the size or more: only an alignment
    /// above the unit of the space rules any of these out.
    pub(super) fn would_fit(&self, size: u64, alignment: u64) -> bool {
        self.gaps
            .range((size, 0)..)
            .rev()
            .any(|&(gap, offset)| offset.next_multiple_of(alignment) - offset + size <= gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space { size: 100, unit: 1, peak: 10 };

    #[test]
    fn a_range_that_overlaps_or_is_misaligned_or_outside_is_a_fault() {
        let mut shadow = Shadow::new(&SPACE);
        shadow.insert(10, 20, 10).unwrap();
        for (offset, size) in [(10, 20), (0, 11), (29, 1), (15, 5), (0, 100)] {
            assert_eq!(shadow.insert(offset, size, 1), Err(Fault::Overlap { offset, size, other: 10 }));
        }
        assert_eq!(shadow.insert(35, 5, 10), Err(Fault::Misaligned { offset: 35, alignment: 10 }));
        for (offset, size) in [(90, 11), (100, 1), (u64::MAX, 1)] {
            assert_eq!(shadow.insert(offset, size, 1), Err(Fault::Outside { offset, size, space: 100 }));
        }
        shadow.insert(0, 10, 1).unwrap();
        shadow.insert(30, 70, 1).unwrap();
        assert_eq!((shadow.live_bytes, shadow.high_water), (100, 100));
        shadow.remove(10);
        assert!(shadow.would_fit(20, 2) && !shadow.would_fit(21, 1));
        assert!(shadow.would_fit(14, 16) && !shadow.would_fit(15, 16));
        shadow.remove(0);
        assert!(shadow.would_fit(30, 32) && !shadow.would_fit(31, 1), "gaps merge");
        shadow.remove(30);
        assert_eq!((shadow.gaps, shadow.peak_bytes), (BTreeSet::from([(100, 0)]), 100));
    }
}
