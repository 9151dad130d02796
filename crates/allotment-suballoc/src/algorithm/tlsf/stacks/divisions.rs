//! Classes with many regions, which are divided into parts.

use super::super::nodes::Nodes;
use super::super::width::{DEPTH, Width};
use super::{CROWDED, Chunk, Class, Classes, DIVIDED, Found, GROUP, Listed, NONE, Stacks};

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

    /// Removes an entry whose chunk names a class that was divided since.
    #[cold]
    pub(super) fn remove_from_part(&mut self, nodes: &mut Nodes<W>, found: Found) -> Listed {
        let Found { mut class, chunk, at } = found;
        let size = self.chunks[chunk as usize].sizes[at % DEPTH].wide();
        while let Some(division) = self.classes[class].division() {
            class = self.part(division, self.part_of(division, size));
        }
        self.chunks[chunk as usize].class = class as u32;
        self.remove_found(nodes, Found { class, ..found })
    }

    /// Divides a class into parts, and moves its entries there. All of its chunks are full, or all entries have one size.
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
        let top = self.classes[class];
        let Class { chunk, .. } = top;
        self.classes[class] = Class { chunk: DIVIDED | index, len: DEPTH as u32 };
        let Chunk { height, sizes, .. } = &self.chunks[chunk as usize];
        if *height > CROWDED {
            // All have one size, and there may be any number of chunks: each goes on naming this class until an entry is removed
            // from it by its slot.
            let part = self.part_of(index as usize, sizes[0].wide());
            self.divisions[index as usize].bits = 1 << part;
            let part = self.part(index as usize, part);
            self.classes[part] = Class { chunk, len: top.len() };
            return;
        }
        let (least, most) = self.sizes_from(chunk);
        let part = self.part_of(index as usize, least);
        if part == self.part_of(index as usize, most) {
            return self.hand_down(index as usize, part, chunk);
        }
        self.distribute(nodes, class, chunk);
    }

    /// Returns the smallest and the largest size in a full chunk and those below it.
    fn sizes_from(&self, mut chunk: u32) -> (u64, u64) {
        let (mut least, mut most) = (u64::MAX, 0);
        while chunk != NONE {
            let entries = &self.chunks[chunk as usize];
            for size in entries.sizes.map(W::wide) {
                (least, most) = (least.min(size), most.max(size));
            }
            chunk = entries.below;
        }
        (least, most)
    }

    /// Makes all chunks of a class that was divided those of one part.
    fn hand_down(&mut self, division: usize, part: usize, top: u32) {
        // Regions of one size are the most common reason for a crowded class. Their entries would be moved once for each level
        // down to that size; as they are, not even their slots change. The chunks turn round, as they do where entries are moved:
        // the oldest regions are used first, which leaves fewer small ones.
        self.divisions[division].bits = 1 << part;
        let class = self.part(division, part);
        let floor = self.floor_of(class);
        let (mut chunk, mut below, mut height) = (top, NONE, 0);
        while chunk != NONE {
            let entries = &mut self.chunks[chunk as usize];
            (entries.class, entries.floor, entries.height) = (class as u32, floor, height);
            (below, chunk) = (chunk, core::mem::replace(&mut entries.below, below));
            height += 1;
        }
        self.classes[class] = Class { chunk: below, len: DEPTH as u32 };
    }

    /// Pushes the entries of a full chunk and those below it to the parts of a class. Their nodes get new tags.
    fn distribute(&mut self, nodes: &mut Nodes<W>, class: usize, mut chunk: u32) {
        // A chunk is dropped once it is read, so the parts take the chunks of the class, and a division needs little more host
        // memory than the class did.
        while chunk != NONE {
            let entries = self.chunks[chunk as usize];
            for at in 0..DEPTH {
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
