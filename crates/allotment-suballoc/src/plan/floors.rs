//! The heights of all sections: a range is raised, and the highest of a range found.
//!
//! ```text
//!   heights   3 3 3 5 5 5 5 9 │ 9 9 9 2 2 2 2 2 │ …       one of each section
//!   blocks         9 at 7     │      9 at 8     │ …       the highest of each 64, and where it is
//! ```
//!
//! A range is only raised to more than each of its heights. To raise it fills the heights, a few nanoseconds for 100 sections;
//! finding the highest looks at the heights of at most two blocks in part, and at the others as a whole. A segment tree does both in
//! O(log sections), and is slower up to 10^5 items: most ranges are short, and a fill is fast.
//!
//! # Invariant
//!
//! A block has the height of its highest section, and one that is that high.

use alloc::vec::Vec;

/// The sections of a block.
const BLOCK: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Floors {
    heights: Vec<u64>,
    blocks: Vec<(u64, u32)>,
}

impl Floors {
    /// Sets all of `sections` heights to 0. Allocates only if there were never as many sections.
    pub(super) fn reset(&mut self, sections: usize) {
        self.heights.clear();
        self.heights.resize(sections, 0);
        self.blocks.clear();
        self.blocks.extend((0..sections.div_ceil(BLOCK)).map(|block| (0, (block * BLOCK) as u32)));
    }

    /// Raises the sections `from..to` to `height`, which is more than each of theirs. The range is not empty.
    pub(super) fn raise(&mut self, from: u32, to: u32, height: u64) {
        self.heights[from as usize..to as usize].fill(height);
        let (first, last) = (from as usize / BLOCK, (to as usize - 1) / BLOCK);
        for (block, highest) in (first..).zip(&mut self.blocks[first..=last]) {
            if highest.0 < height {
                *highest = (height, from.max((block * BLOCK) as u32));
            }
        }
    }

    /// Returns the height of one section.
    pub(super) fn height(&self, section: u32) -> u64 {
        self.heights[section as usize]
    }

    /// Returns the height of the highest of the sections `from..to`, and that section. The range is not empty.
    pub(super) fn highest(&self, from: u32, to: u32) -> (u64, u32) {
        let (from, to) = (from as usize, to as usize);
        let (first, last) = (from.div_ceil(BLOCK), to / BLOCK);
        let mut highest = (0, from as u32);
        if first >= last {
            self.look(from, to, &mut highest);
            return highest;
        }
        self.look(from, first * BLOCK, &mut highest);
        for &block in &self.blocks[first..last] {
            if block.0 > highest.0 {
                highest = block;
            }
        }
        self.look(last * BLOCK, to, &mut highest);
        highest
    }

    fn look(&self, from: usize, to: usize, highest: &mut (u64, u32)) {
        for (section, &height) in (from as u32..).zip(&self.heights[from..to]) {
            if height > highest.0 {
                *highest = (height, section);
            }
        }
    }

    /// Returns about how long it takes to find the highest of several ranges, in [steps](super::work::Work).
    pub(super) fn highest_cost(ranges: &[(u32, u32)]) -> usize {
        // Parts of two blocks, of which a step compares some heights at once, and the blocks between, one or two in a step.
        let one = |&(from, to): &(u32, u32)| {
            let sections = (to - from) as usize;
            1 + sections.min(2 * BLOCK) / 8 + sections / BLOCK / 2
        };
        ranges.iter().map(one).sum()
    }

    /// Returns the height of the highest of several ranges, and that section.
    pub(super) fn highest_of(&self, ranges: &[(u32, u32)]) -> (u64, u32) {
        let highest = ranges.iter().map(|&(from, to)| self.highest(from, to));
        // Not `max`: of several as high ones, the first.
        highest.reduce(|best, next| if next.0 > best.0 { next } else { best }).unwrap_or((0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_a_range_is_found_in_whole_blocks_and_parts_of_them() {
        let sections = 5 * BLOCK + 7;
        let mut floors = Floors::default();
        floors.reset(sections);
        let mut naive = alloc::vec![0; sections];
        let mut random = 1u64;
        let mut range = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let from = (random >> 33) as usize % sections;
            (from, from + 1 + (random >> 13) as usize % (sections - from))
        };
        for _ in 0..2000 {
            let (from, to) = range();
            let height = naive[from..to].iter().max().unwrap() + 1;
            floors.raise(from as u32, to as u32, height);
            naive[from..to].fill(height);
            let (from, to) = range();
            let (highest, at) = floors.highest(from as u32, to as u32);
            assert_eq!(Some(&highest), naive[from..to].iter().max());
            assert!((from..to).contains(&(at as usize)) && naive[at as usize] == highest);
            assert_eq!(floors.height(at), highest);
        }
    }
}
