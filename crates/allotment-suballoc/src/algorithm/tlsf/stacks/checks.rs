//! Checks of the invariants at the top of [`stacks`](super).

use super::{Class, DEPTH, Division, GROUP, KEPT, NONE, Stacks};
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
        assert_eq!(len >= KEPT, is_kept, "the last chunk of a class, which is no part, stays with it");
        let mut used = top.len() as usize;
        assert!(used > 0 || is_kept, "no other chunk is empty");
        let has = used > 0;
        while chunk != NONE {
            let entries = &self.chunks[chunk as usize];
            assert_eq!(entries.class as usize, class, "a chunk knows its class");
            assert_eq!(
                entries.floor,
                self.floor_of(class),
                "a chunk knows what is in a place without an entry"
            );
            for at in 0..DEPTH {
                if at >= used {
                    assert_eq!(entries.sizes[at], entries.floor, "a place without an entry");
                    continue;
                }
                let (size, node) = (entries.sizes[at].wide(), entries.nodes[at]);
                assert!(smallest <= size && size - smallest < width, "{size} is in its class");
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
