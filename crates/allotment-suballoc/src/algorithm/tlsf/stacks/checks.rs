//! Checks of the invariants at the top of [`stacks`](super).

use super::{Class, DEPTH, Division, GROUP, GUARDED, KEPT, NONE, Stacks};
use crate::algorithm::tlsf::nodes::Nodes;
use crate::algorithm::tlsf::width::Width;

impl<W: Width> Stacks<W> {
    /// Returns the number of chunks for which there is host memory.
    #[cfg(test)]
    pub(in crate::algorithm::tlsf) fn capacity(&self) -> usize {
        self.chunks.capacity()
    }

    /// Panics unless the invariants hold. O(classes and entries).
    pub(in crate::algorithm::tlsf) fn check_invariants(&self, nodes: &Nodes<W>) {
        let mut counted = 0;
        for class in 0..self.whole as usize {
            let has = self.words[class / GROUP] >> (class % GROUP) & 1 != 0;
            assert_eq!(has, self.count(class, nodes, &mut counted), "the bit of a class");
        }
        for (group, &word) in self.words.iter().enumerate() {
            assert_eq!(self.groups >> group & 1 != 0, word != 0, "the bit of a group");
        }
        assert_eq!(counted, self.len, "every entry is counted");
    }

    /// Returns `true` if a class is the one that a chunk of it names, or a part of that.
    fn names(&self, named: usize, class: usize) -> bool {
        core::iter::successors(Some(class), |&class| self.parent_of(class)).any(|class| class == named)
    }

    /// Returns the class that a part is a part of.
    fn parent_of(&self, class: usize) -> Option<usize> {
        let part = class.checked_sub(self.whole as usize)?;
        Some(self.divisions[part / GROUP].parent as usize)
    }

    /// Returns the class, no part, that contains a class.
    fn whole_of(&self, class: usize) -> usize {
        core::iter::successors(Some(class), |&class| self.parent_of(class)).last().unwrap_or(class)
    }

    /// Checks a class and its parts, adds the number of its entries, and returns `true` if there are any.
    fn count(&self, class: usize, nodes: &Nodes<W>, counted: &mut u32) -> bool {
        let top = self.classes.get(class).copied().unwrap_or(Class::UNUSED);
        let Class { mut chunk, len } = top;
        if let Some(division) = top.division() {
            let Division { bits, parent, .. } = self.divisions[division];
            assert_eq!(parent as usize, class, "a division knows its class");
            assert_ne!(bits, 0, "a class without entries is not divided");
            for part in 0..GROUP {
                let has = self.count(self.part(division, part), nodes, counted);
                assert_eq!(bits >> part & 1 != 0, has, "the bit of a part");
            }
            return true;
        }
        if chunk == NONE {
            assert_eq!(len as usize, DEPTH, "nothing is pushed where there is no chunk");
            return false;
        }
        let (smallest, width) = (self.smallest_of(class), 1 << self.width_of(class));
        let is_kept = class < self.whole as usize && self.chunks[chunk as usize].below == NONE;
        assert_eq!(len & KEPT != 0, is_kept, "the last chunk of a class, which is no part, stays with it");
        let is_guarded = len & GUARDED != 0;
        assert_eq!(is_guarded, self.guard(class, self.height(top)) != 0, "a class of one size is guarded");
        let only = if top.len() > 0 { self.only_size(class) } else { None };
        let mut used = top.len() as usize;
        assert!(used > 0 || is_kept, "no other chunk is empty");
        let has = used > 0;
        while chunk != NONE {
            let entries = &self.chunks[chunk as usize];
            assert!(
                self.names(entries.class as usize, class),
                "a chunk knows its class, or what it is a part of"
            );
            let floor = entries.floor.wide();
            assert!(
                floor < smallest.max(1) && floor >= self.floor_of(self.whole_of(class)).wide(),
                "a place without an entry has a size just below the class, or below what it is a part of"
            );
            for at in 0..DEPTH {
                if at >= used {
                    assert_eq!(entries.sizes[at], entries.floor, "a place without an entry");
                    continue;
                }
                let (size, node) = (entries.sizes[at].wide(), entries.nodes[at]);
                assert!(smallest <= size && size - smallest < width, "{size} is in its class");
                assert!(
                    only.is_none_or(|only| size == only),
                    "the sizes of a class with many regions are one"
                );
                assert_eq!(size & self.grain, 0, "a size is a multiple of the grain");
                assert_eq!(nodes.at(node).tag, chunk * DEPTH as u32 + at as u32, "a node knows its slot");
                assert_eq!(nodes.end(node) - nodes.offset(node), size, "an entry has its region's size");
                assert_eq!(
                    nodes.offset(node),
                    entries.offsets[at].wide(),
                    "an entry has its region's offset"
                );
                *counted += 1;
            }
            let below = entries.below;
            let height = if below == NONE { 0 } else { self.chunks[below as usize].height + 1 };
            assert_eq!(entries.height, height, "a chunk knows how many are below it");
            chunk = below;
            used = DEPTH;
        }
        has
    }
}
