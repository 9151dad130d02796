//! Items and their lifetimes, reduced to sections.
//!
//! ```text
//!   time      0   1   2   3   4   5   6
//!   a         ├───────┤
//!   b             ├───────────┤
//!   c                     ├───────┤
//!   d                         ├───────┤
//!   live      a   ab  b   bc  cd  d       Only `ab`, `bc` and `cd` are no part of another set: three sections.
//!                 └0┘     └1┘ └2┘         a: 0..1, b: 0..2, c: 1..3, d: 2..3
//! ```
//!
//! A set of live items is part of no other where something ends next and something began since the last such point. Items share
//! a kept section exactly if their lifetimes intersect: take the later of their starts, and go on to the first end of any item;
//! the last section before that end is kept, and both are live in it.
//!
//! # Invariants
//!
//! 1. `ranges[first_range[i]..first_range[i + 1]]` are the sections of item `i`: at least one range, none empty, ascending, with
//!    a section between two of them.
//! 2. The sum of all sizes and alignments is at most [`MAX_TOTAL`], and each fixed offset at most [`MAX_SIZE`]. In the worst case
//!    all items are on top of the highest pin, so no end in a plan is above 2^60 + 2^49, and no sum of two ends overflows.
//!
//! # Cost
//!
//! O(n log n) for n ranges, and about 90 bytes for an item with one range. [`Problem::assign`] reuses the memory.

use alloc::vec::Vec;
use core::ops::Range;

use super::cliques::Cliques;
use super::floors::Floors;
use super::{Item, ProblemError};
use crate::{Alignment, MAX_SIZE};

/// The largest sum of all sizes and alignments. It is more than [`MAX_SIZE`], since the items of a recording are seldom live at
/// once: a program that runs for hours allocates more than any memory has. The search computes with 2^62 as infinity.
pub(super) const MAX_TOTAL: u64 = 1 << 60;

/// Items with lifetimes, for which a [`Solver`](super::Solver) finds offsets.
///
/// A lifetime is one or more ranges of time, without their ends. The unit of time is the caller's: numbers of passes, events of
/// a trace, seconds. Items conflict if their lifetimes intersect; then their ranges of the memory must not.
///
/// Several ranges serve what one cannot express:
///
/// - An item that is kept for the next frame is live at the end of this frame and at the start of it.
/// - With passes on several queues, what may run at the same time is a partial order. Give each set of passes that may run at
///   the same time a number (enough sets that each pair is in one of them); an item is live at the numbers of the sets that
///   contain one of its passes. A number that nothing is live at costs nothing, and neither does one whose items are all live at
///   another adjacent number.
///
/// ```
/// use allotment_suballoc::plan::{Item, Problem};
///
/// let shadows = (Item::new(16), 0..2);
/// let lighting = (Item::new(64), 1..4);
/// let bloom = (Item::new(16), 3..6);
/// let problem = Problem::from_intervals([shadows, lighting, bloom])?;
/// assert!(problem.conflict(0, 1) && !problem.conflict(0, 2));
/// assert_eq!(problem.total_size(), 96);
/// assert_eq!(problem.lower_bound(), 80, "lighting is live together with either");
///
/// // A history that lives from pass 5 into pass 1 of the next frame, and a target of pass 3.
/// let history = (Item::new(32), vec![5..6, 0..2]);
/// let target = (Item::new(32), vec![3..4]);
/// assert_eq!(Problem::new([history, target])?.lower_bound(), 32);
/// # Ok::<(), allotment_suballoc::plan::ProblemError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Problem {
    items: Vec<Item>,
    /// For each item, how long it lives in the caller's units; at most 2^64 - 1, if it is more.
    durations: Vec<u64>,
    /// For each item the index of its first range, and one more: invariant 1.
    first_range: Vec<u32>,
    /// Of sections: invariant 1. While a problem is assigned, of indices of `times`.
    ranges: Vec<(u32, u32)>,
    sections: u32,
    /// The sum of the sizes of the items of each section.
    loads: Vec<u64>,
    /// The items with fixed offsets, by offset.
    pinned: Vec<u32>,
    total: u64,
    lower_bound: u64,
    scratch: Scratch,
}

/// What is used while a problem is assigned only.
#[derive(Clone, Debug, Default)]
struct Scratch {
    /// The ranges of all items, in the caller's units.
    lifetimes: Vec<(u64, u64)>,
    /// All starts and ends, ascending, each once.
    times: Vec<u64>,
    /// For each time: whether a range starts there, and whether one ends.
    edges: Vec<(bool, bool)>,
    /// For each time: the kept sections before it.
    kept_before: Vec<u32>,
    floors: Floors,
    cliques: Cliques,
}

impl Problem {
    /// Creates a problem. Each item has a lifetime of one or more ranges, in any order.
    ///
    /// # Errors
    ///
    /// A [`ProblemError`] that names the item.
    pub fn new<I, R>(items: I) -> Result<Self, ProblemError>
    where
        I: IntoIterator<Item = (Item, R)>,
        R: IntoIterator<Item = Range<u64>>,
    {
        let mut problem = Self::default();
        problem.assign(items)?;
        Ok(problem)
    }

    /// Creates a problem whose items each live for one range.
    ///
    /// # Errors
    ///
    /// A [`ProblemError`] that names the item.
    pub fn from_intervals<I>(items: I) -> Result<Self, ProblemError>
    where
        I: IntoIterator<Item = (Item, Range<u64>)>,
    {
        Self::new(items.into_iter().map(|(item, lifetime)| (item, [lifetime])))
    }

    /// Replaces all items. The memory of the old ones is reused: nothing is allocated for a problem that is not larger than
    /// each one before, unless more of its items conflict at several times.
    ///
    /// # Errors
    ///
    /// A [`ProblemError`] that names the item; then the problem has no items.
    pub fn assign<I, R>(&mut self, items: I) -> Result<(), ProblemError>
    where
        I: IntoIterator<Item = (Item, R)>,
        R: IntoIterator<Item = Range<u64>>,
    {
        self.clear();
        self.first_range.push(0);
        let result = items.into_iter().try_for_each(|(item, lifetime)| self.push(item, lifetime));
        let result = result.and_then(|()| self.reduce());
        if result.is_err() {
            self.clear();
        }
        result
    }

    fn clear(&mut self) {
        self.items.clear();
        self.durations.clear();
        self.first_range.clear();
        self.ranges.clear();
        self.loads.clear();
        self.pinned.clear();
        self.scratch.lifetimes.clear();
        (self.sections, self.total, self.lower_bound) = (0, 0, 0);
    }

    fn push(
        &mut self,
        item: Item,
        lifetime: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<(), ProblemError> {
        let index = self.items.len();
        let lifetimes = &mut self.scratch.lifetimes;
        let first = lifetimes.len();
        for Range { start, end } in lifetime {
            if start > end {
                return Err(ProblemError::ReversedLifetime { item: index, start, end });
            }
            if start < end {
                lifetimes.push((start, end));
            }
        }
        if lifetimes.len() == first {
            return Err(ProblemError::EmptyLifetime { item: index });
        }
        merge(lifetimes, first);
        // There are two times for each range. Their indices are `u32`, and so are twice as many for intermediate results.
        if lifetimes.len() > u32::MAX as usize / 8 {
            return Err(ProblemError::TooManyItems);
        }
        self.total = with_item(self.total, index, item)?;
        let duration =
            lifetimes[first..].iter().fold(0u64, |sum, &(start, end)| sum.saturating_add(end - start));
        self.durations.push(duration);
        self.items.push(item);
        // At most 2^32 / 8, as was checked.
        self.first_range.push(lifetimes.len() as u32);
        Ok(())
    }

    /// Turns times into sections, and computes what depends on them.
    fn reduce(&mut self) -> Result<(), ProblemError> {
        self.total = self.items.iter().map(|item| item.size).sum();
        self.keep_sections();
        self.sum_loads();
        self.sort_pins()
    }

    fn keep_sections(&mut self) {
        let Scratch { lifetimes, times, edges, kept_before, .. } = &mut self.scratch;
        times.clear();
        times.extend(lifetimes.iter().flat_map(|&(start, end)| [start, end]));
        times.sort_unstable();
        times.dedup();

        edges.clear();
        edges.resize(times.len(), (false, false));
        self.ranges.extend(lifetimes.iter().map(|&(start, end)| {
            let from = times.partition_point(|&time| time < start);
            let to = from + times[from..].partition_point(|&time| time < end);
            edges[from].0 = true;
            edges[to].1 = true;
            // There are at most two times for each of 2^32 / 8 ranges.
            (from as u32, to as u32)
        }));

        // The section that ends at a time is kept if something ends there, and something started since the last kept one.
        kept_before.clear();
        let (mut kept, mut started) = (0, false);
        for &(starts, ends) in &*edges {
            kept += u32::from(ends && started);
            started = starts || (started && !ends);
            kept_before.push(kept);
        }
        self.sections = kept;

        for range in &mut self.ranges {
            *range = (kept_before[range.0 as usize], kept_before[range.1 as usize]);
        }
        self.join_adjacent();
    }

    /// Joins the ranges of an item between which no section was kept, so that invariant 1 holds.
    fn join_adjacent(&mut self) {
        let mut write = 0;
        let mut read = 0;
        for item in 0..self.items.len() {
            let start = write;
            let end = self.first_range[item + 1] as usize;
            while read < end {
                let range = self.ranges[read];
                if write > start && self.ranges[write - 1].1 == range.0 {
                    self.ranges[write - 1].1 = range.1;
                } else {
                    self.ranges[write] = range;
                    write += 1;
                }
                read += 1;
            }
            // No more than before.
            self.first_range[item + 1] = write as u32;
        }
        self.ranges.truncate(write);
    }

    /// Sums up the items of each section. The bound is the highest sum, or more where items with several ranges conflict at
    /// several times, and the highest end of a pin.
    fn sum_loads(&mut self) {
        // Where each offset is a multiple of a common alignment, each item but the highest occupies a multiple of it. The highest
        // one may be any, so that what its size lacks does not count.
        let alignment = self.items.iter().map(|item| item.alignment).min().unwrap_or(Alignment::ONE);
        let lack = self.items.iter().map(|item| alignment.align_up(item.size) - item.size).max().unwrap_or(0);
        let aligned = if lack == 0 { 0 } else { self.heaviest(|item| alignment.align_up(item.size)) - lack };
        let plain = self.heaviest(|item| item.size);
        let ends = self.items.iter().filter_map(|item| Some(item.pin? + item.size)).max().unwrap_or(0);
        self.lower_bound = plain.max(aligned).max(ends);
    }

    /// Returns the largest sum of sizes of items that all lie above each other, as far as it was found.
    fn heaviest(&mut self, size: impl Fn(&Item) -> u64) -> u64 {
        self.add_up(&size);
        let mut cliques = core::mem::take(&mut self.scratch.cliques);
        let heaviest = cliques.heaviest(self, &self.loads, |item| size(&self.items[item]));
        self.scratch.cliques = cliques;
        heaviest
    }

    /// Adds a size of each item up in `loads`.
    fn add_up(&mut self, size: impl Fn(&Item) -> u64) {
        self.loads.clear();
        self.loads.resize(self.sections as usize + 1, 0);
        // First the differences between a section and the one before.
        for (index, item) in self.items.iter().enumerate() {
            for &(from, to) in Self::slice(&self.first_range, &self.ranges, index) {
                let (from, to) = (from as usize, to as usize);
                self.loads[from] = self.loads[from].wrapping_add(size(item));
                self.loads[to] = self.loads[to].wrapping_sub(size(item));
            }
        }
        let mut sum = 0u64;
        for load in &mut self.loads {
            sum = sum.wrapping_add(*load);
            *load = sum;
        }
        self.loads.pop();
    }

    fn sort_pins(&mut self) -> Result<(), ProblemError> {
        let items = &self.items;
        // Indices fit: there is at least one range for each.
        self.pinned.extend((0..items.len() as u32).filter(|&item| items[item as usize].pin.is_some()));
        self.pinned.sort_unstable_by_key(|&item| (items[item as usize].pin, item));
        self.scratch.floors.reset(self.sections as usize);
        for (count, &item) in self.pinned.iter().enumerate() {
            let item = item as usize;
            let Some(pin) = self.items[item].pin else { continue };
            let (highest, _) = self.scratch.floors.highest_of(self.ranges_of(item));
            if highest > pin {
                let below = self.pinned[..count].iter().map(|&below| below as usize);
                let first = below
                    .filter(|&below| {
                        self.items[below].pin.is_some_and(|at| at + self.items[below].size > pin)
                    })
                    .find(|&below| self.conflict(below, item));
                return Err(ProblemError::PinsOverlap { first: first.unwrap_or(item), second: item });
            }
            for &(from, to) in Self::slice(&self.first_range, &self.ranges, item) {
                self.scratch.floors.raise(from, to, pin + self.items[item].size);
            }
        }
        Ok(())
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns an item.
    ///
    /// # Panics
    ///
    /// If `index` is not less than the number of items.
    #[must_use]
    pub fn item(&self, index: usize) -> Item {
        self.items[index]
    }

    /// Returns the number of sections: sets of items that are live together. If each lifetime is one range, none is part of
    /// another.
    #[must_use]
    pub fn section_count(&self) -> usize {
        self.sections as usize
    }

    /// Returns the sections of an item: one or more ranges, ascending, which do not touch.
    ///
    /// # Panics
    ///
    /// If `index` is not less than the number of items.
    pub fn sections_of(&self, index: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges_of(index).iter().map(|&(from, to)| from as usize..to as usize)
    }

    /// Returns `true` if the items are live together at some time. An item conflicts with itself.
    ///
    /// # Panics
    ///
    /// If an index is not less than the number of items.
    #[must_use]
    pub fn conflict(&self, first: usize, second: usize) -> bool {
        let (mut first, mut second) = (self.ranges_of(first), self.ranges_of(second));
        while let ([a, ..], [b, ..]) = (first, second) {
            if a.0 < b.1 && b.0 < a.1 {
                return true;
            }
            // The one that ends first has no part of the other's later ranges.
            if a.1 < b.1 {
                first = &first[1..];
            } else {
                second = &second[1..];
            }
        }
        false
    }

    /// Returns a height below which no plan can stay: the largest sum of sizes of items of which each two conflict, and the highest
    /// end of a pin.
    ///
    /// If each item has one range, that sum is the most that is live at once. With several ranges there may be more than a
    /// thousand items to choose from, or too many choices; then it is the largest one that was found, and no less than what is
    /// live at once.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }

    /// Returns the sum of all sizes: what the items take without sharing.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.total
    }

    pub(super) fn ranges_of(&self, index: usize) -> &[(u32, u32)] {
        Self::slice(&self.first_range, &self.ranges, index)
    }

    fn slice<'a>(first_range: &[u32], ranges: &'a [(u32, u32)], index: usize) -> &'a [(u32, u32)] {
        &ranges[first_range[index] as usize..first_range[index + 1] as usize]
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(super) fn durations(&self) -> &[u64] {
        &self.durations
    }

    pub(super) fn loads(&self) -> &[u64] {
        &self.loads
    }

    pub(super) fn pinned(&self) -> &[u32] {
        &self.pinned
    }
}

/// Checks an item, and adds to `total` what it can add to the height of a plan.
fn with_item(total: u64, index: usize, item: Item) -> Result<u64, ProblemError> {
    if item.size == 0 {
        return Err(ProblemError::ZeroSize { item: index });
    }
    if item.size > MAX_SIZE {
        return Err(ProblemError::TooLarge { item: index, size: item.size });
    }
    if let Some(offset) = item.pin {
        if !item.alignment.is_aligned(offset) {
            return Err(ProblemError::PinMisaligned { item: index, offset, alignment: item.alignment });
        }
        if offset > MAX_SIZE {
            return Err(ProblemError::PinTooHigh { item: index, offset });
        }
    }
    // The total is at most 2^60 and the others are at most 2^48: no overflow.
    let total = total + item.size + item.alignment.get() - 1;
    if total > MAX_TOTAL { Err(ProblemError::TotalTooLarge { item: index }) } else { Ok(total) }
}

/// Sorts `ranges[first..]`, and joins those that touch or intersect.
fn merge(ranges: &mut Vec<(u64, u64)>, first: usize) {
    if ranges.len() - first == 1 {
        return;
    }
    ranges[first..].sort_unstable();
    let mut last = first;
    for next in first + 1..ranges.len() {
        if ranges[next].0 <= ranges[last].1 {
            ranges[last].1 = ranges[last].1.max(ranges[next].1);
        } else {
            last += 1;
            ranges[last] = ranges[next];
        }
    }
    ranges.truncate(last + 1);
}
