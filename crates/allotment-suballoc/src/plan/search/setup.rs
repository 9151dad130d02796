//! What a search knows of a problem: items and sections in units, who conflicts with whom, who is live where.

use alloc::vec::Vec;

use super::INFINITE;
use crate::plan::Problem;

/// More conflicts, or more items in sections, take too much memory, and a search would not get far.
const MOST_CONFLICTS: usize = 1 << 23;

/// Invariants: all sizes, alignments and pins are multiples of `unit`, and are stored divided by it.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    pub(super) unit: u64,
    pub(super) sizes: Vec<u64>,
    /// Alignments less 1.
    pub(super) masks: Vec<u64>,
    /// `INFINITE` without a pin.
    pub(super) pins: Vec<u64>,
    pub(super) first_range: Vec<u32>,
    pub(super) ranges: Vec<(u32, u32)>,
    /// For each item, its first entry in the tables of items in sections: one for each section, in order.
    pub(super) first_entry: Vec<u32>,
    /// For each section, its first entry in `live`, and one more.
    pub(super) first_live: Vec<u32>,
    /// The items of each section.
    pub(super) live: Vec<u32>,
    /// For each entry of an item, where it is in `live`. A search exchanges items of a section.
    pub(super) positions: Vec<u32>,
    pub(super) first_near: Vec<u32>,
    /// The items that conflict with each item.
    pub(super) near: Vec<u32>,
    /// For each section, the sum of the sizes.
    pub(super) loads: Vec<u64>,
    /// For each item, the last one for which it was listed.
    listed_for: Vec<u32>,
    /// For each section, the end of its part of `live` as far as it is filled.
    filled: Vec<u32>,
}

impl Setup {
    /// Returns `false` if the problem is too large.
    pub(super) fn assign(&mut self, problem: &Problem) -> bool {
        let items = problem.items();
        let mut unit = 0;
        for item in items {
            // An alignment of 1 holds for everything.
            let alignment = if item.alignment.get() == 1 { 0 } else { item.alignment.get() };
            unit = [item.size, alignment, item.pin.unwrap_or(0)].into_iter().fold(unit, divisor);
        }
        self.unit = unit.max(1);
        let unit = self.unit;
        self.sizes.clear();
        self.sizes.extend(items.iter().map(|item| item.size / unit));
        self.masks.clear();
        self.masks.extend(items.iter().map(|item| (item.alignment.get() / unit).max(1) - 1));
        self.pins.clear();
        self.pins.extend(items.iter().map(|item| item.pin.map_or(INFINITE, |pin| pin / unit)));
        self.loads.clear();
        self.loads.extend(problem.loads().iter().map(|load| load / unit));
        self.list_ranges(problem);
        self.list_live(problem.section_count()) && self.list_near()
    }

    fn list_ranges(&mut self, problem: &Problem) {
        self.ranges.clear();
        self.first_range.clear();
        self.first_range.push(0);
        for item in 0..problem.len() {
            self.ranges.extend_from_slice(problem.ranges_of(item));
            self.first_range.push(self.ranges.len() as u32);
        }
    }

    fn list_live(&mut self, sections: usize) -> bool {
        let count: usize = self.ranges.iter().map(|&(from, to)| (to - from) as usize).sum();
        if count > MOST_CONFLICTS {
            return false;
        }
        // First how many there are in each section: the difference to the one before, then the sums.
        self.first_live.clear();
        self.first_live.resize(sections + 1, 0);
        for &(from, to) in &self.ranges {
            self.first_live[from as usize] = self.first_live[from as usize].wrapping_add(1);
            self.first_live[to as usize] = self.first_live[to as usize].wrapping_sub(1);
        }
        let (mut live, mut sum) = (0u32, 0u32);
        for first in &mut self.first_live {
            live = live.wrapping_add(*first);
            *first = sum;
            sum = sum.wrapping_add(live);
        }
        self.filled.clear();
        self.filled.extend_from_slice(&self.first_live[..sections]);
        self.live.clear();
        self.live.resize(count, 0);
        self.positions.clear();
        self.first_entry.clear();
        for item in 0..self.sizes.len() {
            self.first_entry.push(self.positions.len() as u32);
            for range in self.first_range[item]..self.first_range[item + 1] {
                let (from, to) = self.ranges[range as usize];
                for section in from as usize..to as usize {
                    self.live[self.filled[section] as usize] = item as u32;
                    self.positions.push(self.filled[section]);
                    self.filled[section] += 1;
                }
            }
        }
        true
    }

    fn list_near(&mut self) -> bool {
        self.listed_for.clear();
        self.listed_for.resize(self.sizes.len(), u32::MAX);
        self.near.clear();
        self.first_near.clear();
        self.first_near.push(0);
        for item in 0..self.sizes.len() as u32 {
            self.listed_for[item as usize] = item;
            for range in self.first_range[item as usize]..self.first_range[item as usize + 1] {
                let (from, to) = self.ranges[range as usize];
                for section in from as usize..to as usize {
                    let live = self.first_live[section] as usize..self.first_live[section + 1] as usize;
                    for &other in &self.live[live] {
                        if self.listed_for[other as usize] != item {
                            self.listed_for[other as usize] = item;
                            self.near.push(other);
                        }
                    }
                }
            }
            if self.near.len() > MOST_CONFLICTS {
                return false;
            }
            self.first_near.push(self.near.len() as u32);
        }
        true
    }

    pub(super) fn ranges_of(&self, item: usize) -> &[(u32, u32)] {
        &self.ranges[self.first_range[item] as usize..self.first_range[item + 1] as usize]
    }

    /// Returns the first section of an item, and the end of its last.
    pub(super) fn hull_of(&self, item: usize) -> (u32, u32) {
        let (first, last) = (self.first_range[item] as usize, self.first_range[item + 1] as usize - 1);
        (self.ranges[first].0, self.ranges[last].1)
    }

    pub(super) fn is_live(&self, item: usize, section: u32) -> bool {
        self.ranges_of(item).iter().any(|&(from, to)| from <= section && section < to)
    }

    /// Exchanges an item, which is at `entry` of the positions, with what is at `last` in `live`.
    pub(super) fn exchange(&mut self, item: usize, entry: usize, section: usize, last: u32) {
        let position = self.positions[entry];
        let other = self.live[last as usize] as usize;
        if other == item {
            return;
        }
        let entry_of_other = self.entry(other, section);
        self.live.swap(position as usize, last as usize);
        self.positions[entry] = last;
        self.positions[entry_of_other] = position;
    }

    /// Returns the index of the position of an item in a section.
    fn entry(&self, item: usize, section: usize) -> usize {
        let mut entry = self.first_entry[item] as usize;
        for &(from, to) in self.ranges_of(item) {
            if section < to as usize {
                return entry + section - from as usize;
            }
            entry += (to - from) as usize;
        }
        entry
    }

    pub(super) fn near_of(&self, item: usize) -> core::ops::Range<usize> {
        self.first_near[item] as usize..self.first_near[item + 1] as usize
    }
}

/// Returns the greatest common divisor.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
