//! Classes with many regions, which are divided into parts.

use super::super::nodes::Nodes;
use super::super::width::{DEPTH, Width};
use super::{Class, Classes, DIVIDED, GROUP, NONE, Stacks};

/// The parts of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// Bit `i` is set exactly if part `i` has entries, or parts that have.
    pub(super) bits: u32,
    /// The class that is divided.
    pub(super) parent: u32,
    /// The smallest size of that class.
    pub(super) smallest: u64,
    /// The binary logarithm of the width of a part.
    pub(super) width_log2: u32,
}

impl<W: Width> Stacks<W> {
    #[cold]
    pub(super) fn part_emptied(&mut self, mut class: usize) {
        let Class { chunk, .. } = core::mem::replace(&mut self.classes[class], Class::UNUSED);
        self.drop_chunk(chunk);
        // Up from part to division to class, which may be a part of another division, until one has other entries.
        while let Some(part) = class.checked_sub(self.whole as usize) {
            let division = part / GROUP;
            self.divisions[division].bits &= !(1 << (part % GROUP));
            if self.divisions[division].bits != 0 {
                return;
            }
            // The last part: the class is whole again. The other parts gave their chunks back when they were emptied.
            class = self.divisions[division].parent as usize;
            self.classes[class] = Class::UNUSED;
            self.vacant_divisions.push(division as u32);
        }
        self.clear_bit_if(true, class);
    }

    /// Divides a class into parts, and moves its entries there.
    #[cold]
    pub(super) fn divide(&mut self, nodes: &mut Nodes<W>, class: usize) {
        // The class 1024 to 1055 in parts of one size each:
        //
        //   before   class ─► chunk ─► chunk ─► … 17 of them       [ 1050 1024 1031 … ]
        //   after    class ─► division ─► part 0 ─► chunk          [ 1024 1024 … ]
        //                              ─► part 1 ─► chunk          [ 1025 … ]
        //                                 …
        //
        // A class with more than 32 sizes gets parts of several, which can be divided in turn: twice down to single sizes where
        // regions have up to 2^16 units, nine times where they have 2^48.
        let parent = class as u32;
        let width_log2 = self.width_of(class).saturating_sub(GROUP.ilog2());
        let division = Division { bits: 0, parent, smallest: self.smallest_of(class), width_log2 };
        let index = match self.vacant_divisions.pop() {
            Some(index) => {
                self.divisions[index as usize] = division;
                index
            }
            None => {
                self.divisions.push(division);
                self.classes.resize(self.classes.len() + GROUP, Class::UNUSED);
                self.divisions.len() as u32 - 1
            }
        };
        let Class { mut chunk, .. } = self.classes[class];
        self.classes[class] = Class { chunk: DIVIDED | index, len: DEPTH as u32 };
        // Every entry is pushed again, by which its node gets a new tag. A chunk is dropped once it is read, so the parts take
        // the chunks of the class, and a division needs little more host memory than the class did.
        while chunk != NONE {
            let entries = self.chunks[chunk as usize];
            // The top chunk may not be full; places without an entry are below the class.
            for at in (0..DEPTH).filter(|&at| entries.sizes[at] != entries.floor) {
                self.len -= 1;
                let region = entries.get(at);
                let slot = self.push_to(nodes, class, region);
                nodes.at_mut(region.node).tag = slot;
            }
            self.drop_chunk(chunk);
            chunk = entries.below;
        }
    }

    /// Returns the part of a division that contains a size.
    pub(super) fn part_of(&self, division: usize, size: u64) -> usize {
        let Division { smallest, width_log2, .. } = self.divisions[division];
        ((size - smallest) >> width_log2) as usize
    }

    /// Returns the class that is a part of a division.
    pub(super) fn part(&self, division: usize, part: usize) -> usize {
        self.whole as usize + division * GROUP + part
    }

    /// Returns the smallest size of a class or part.
    pub(super) fn smallest_of(&self, class: usize) -> u64 {
        match class.checked_sub(self.whole as usize) {
            None => Classes::smallest(class),
            Some(part) => {
                let division = &self.divisions[part / GROUP];
                division.smallest + ((part as u64 % GROUP as u64) << division.width_log2)
            }
        }
    }

    /// Returns the binary logarithm of the number of sizes of a class or part.
    pub(super) fn width_of(&self, class: usize) -> u32 {
        match class.checked_sub(self.whole as usize) {
            None => Classes::width_log2(class),
            Some(part) => self.divisions[part / GROUP].width_log2,
        }
    }
}
