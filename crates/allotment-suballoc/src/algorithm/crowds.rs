//! An index over the free regions of crowded size classes, which answers in bounded time whether one of them has room
//! for an aligned range, and where.
//!
//! Of a class that contains regions both smaller and larger than a request, a search has to look at each. That is
//! nothing while they are few. But programs that free every second of many nearly equal ranges leave classes of
//! thousands of regions, all of them a little too small, or large enough and aligned wrongly.
//!
//! Once a group of classes, a power of two, has more than [`MANY`] regions, it is *crowded*, and remains so until it is
//! empty. For regions of crowded groups, there is a tree of maxima over the indices of nodes, for each alignment that was
//! requested so far. *Room* of a region is the size of the largest range at that alignment:
//!
//! ```text
//!   levels[1]                       [ 96                             ]      one entry per 16 of the level below
//!   levels[0]   [ 48                 0                  96           ]      one entry per 16 nodes
//!   nodes        0: 40   1: used …   16…31: none free   32: 96 33: 7 …      room at this alignment
//! ```
//!
//! Whether there is room, the last level says; where it is, a descent finds.
//!
//! # Invariants
//!
//! 1. `counts` contains the number of regions in the lists of each group. A group that is not crowded has at most
//!    [`MANY`]; a crowded one is not empty.
//! 2. An entry of a tree is the maximum of what is below it: of the entries, or of the rooms of the nodes that are free
//!    and in a crowded group.
//! 3. There is a tree for each alignment in `seen`, and for alignment 1, once a group has been crowded.
//!
//! # Cost
//!
//! Nothing but a count before a group is crowded. From then on a region that enters a list costs a comparison for each
//! alignment, and O(16 log n) where it is the largest of its 16; so does one that leaves its list. A descent is
//! O(16 log n). A tree takes 0.6 bytes a node. The first request at an alignment after a group is crowded costs
//! O(regions), to make the tree.

use alloc::vec::Vec;

use super::bins::class_of;
use super::free_lists::{FreeLists, LISTS_PER_GROUP};
use crate::Alignment;
use crate::chain::Chain;

/// The number of regions that a group has before it is crowded: a search that looks at as many takes a microsecond.
const MANY: u32 = 64;

/// Entries, or nodes, that one entry of the level above covers: a cache line or two of entries.
const FANOUT: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Crowds {
    /// Regions in the lists of each group.
    counts: Vec<u32>,
    /// Bit `g` is set while group `g` is crowded.
    crowded: u64,
    /// Bit `k` is set once a range at alignment 2^k was requested.
    seen: u64,
    /// By alignment.
    trees: Vec<Tree>,
}

/// The maxima for one alignment.
#[derive(Clone, Debug)]
struct Tree {
    alignment: Alignment,
    /// The last has one entry.
    levels: Vec<Vec<u64>>,
}

/// A region that left its list, as it was then. [`Crowds::settle`] must be called once the chain is whole again.
#[must_use = "the index is wrong until it is settled"]
pub(super) struct Left {
    index: u32,
    offset: u64,
    size: u64,
    /// `false` where no tree contains it.
    indexed: bool,
}

fn bit_of(class: usize) -> u64 {
    1 << (class / LISTS_PER_GROUP)
}

/// Returns the size of the largest range at an alignment in a region.
fn room_in(offset: u64, size: u64, alignment: Alignment) -> u64 {
    (offset + size).saturating_sub(alignment.align_up(offset))
}

impl Crowds {
    /// Creates an index over lists that are empty.
    pub(super) fn new(lists: &FreeLists) -> Self {
        let mut crowds = Self { counts: Vec::new(), crowded: 0, seen: 1, trees: Vec::new() };
        crowds.extend(lists);
        crowds
    }

    /// Follows [`FreeLists::extend`].
    pub(super) fn extend(&mut self, lists: &FreeLists) {
        self.counts.resize(lists.groups(), 0);
    }

    /// Returns `true` where the regions of a class are in the trees.
    pub(super) fn is_crowded(&self, class: usize) -> bool {
        self.crowded & bit_of(class) != 0
    }

    /// Notes that a range at this alignment is requested. The chain must be whole.
    #[inline]
    pub(super) fn see(&mut self, chain: &Chain, lists: &FreeLists, alignment: Alignment) {
        if self.seen >> alignment.log2() & 1 == 0 {
            self.seen |= 1 << alignment.log2();
            // Before the first crowd there are no trees, and it makes one for each alignment seen until then: early, when
            // there are few regions.
            if !self.trees.is_empty() {
                self.add_tree(chain, lists, alignment);
            }
        }
    }

    #[cold]
    fn add_tree(&mut self, chain: &Chain, lists: &FreeLists, alignment: Alignment) {
        let mut tree = Tree { alignment, levels: Vec::new() };
        tree.cover(chain.capacity());
        for class in lists.classes_from(0).filter(|&class| self.is_crowded(class)) {
            lists.iter(chain, class).for_each(|index| tree.raise(chain, index));
        }
        let at = self.trees.partition_point(|other| other.alignment < alignment);
        self.trees.insert(at, tree);
    }

    /// Notes that a region entered the list of its class.
    #[inline]
    pub(super) fn entered(&mut self, chain: &Chain, lists: &FreeLists, class: usize, index: u32) {
        let count = &mut self.counts[class / LISTS_PER_GROUP];
        *count += 1;
        if self.crowded & bit_of(class) != 0 {
            self.trees.iter_mut().for_each(|tree| tree.raise(chain, index));
        } else if *count > MANY {
            self.begin_crowd(chain, lists, class / LISTS_PER_GROUP);
        }
    }

    #[cold]
    fn begin_crowd(&mut self, chain: &Chain, lists: &FreeLists, group: usize) {
        if self.trees.is_empty() {
            let seen = (0..u64::BITS).filter(|log2| self.seen >> log2 & 1 == 1);
            let alignments = seen.filter_map(|log2| Alignment::new(1 << log2).ok());
            self.trees = alignments.map(|alignment| Tree { alignment, levels: Vec::new() }).collect();
        }
        self.crowded |= 1 << group;
        // The lists, and not the nodes: in the middle of an operation a node may be free and in no list yet.
        let first = group * LISTS_PER_GROUP;
        for class in lists.classes_from(first).take_while(|&class| class < first + LISTS_PER_GROUP) {
            for index in lists.iter(chain, class) {
                self.trees.iter_mut().for_each(|tree| tree.raise(chain, index));
            }
        }
    }

    /// Notes that a region left the list of its class.
    #[inline]
    pub(super) fn left(&mut self, chain: &Chain, class: usize, index: u32) -> Left {
        let count = &mut self.counts[class / LISTS_PER_GROUP];
        *count -= 1;
        let node = chain.node(index);
        let left =
            Left { index, offset: node.offset, size: node.size, indexed: self.crowded & bit_of(class) != 0 };
        // Not before: then each region has left the trees one by one, and a number around the limit costs nothing.
        if *count == 0 {
            self.crowded &= !bit_of(class);
        }
        left
    }

    /// Corrects the trees for a region that left, once each free node of the chain is in its list again.
    #[inline]
    pub(super) fn settle(&mut self, chain: &Chain, left: &Left) {
        if left.indexed {
            self.lower(chain, left);
        }
    }

    fn lower(&mut self, chain: &Chain, left: &Left) {
        let crowded = self.crowded;
        self.trees.iter_mut().for_each(|tree| tree.lower(chain, crowded, left));
    }

    /// Returns the tree for an alignment, or one for a lesser alignment, whose entries are at least as large.
    fn tree(&self, alignment: Alignment) -> Option<&Tree> {
        let at = self.trees.partition_point(|tree| tree.alignment <= alignment);
        self.trees.get(at.checked_sub(1)?)
    }

    /// Returns `false` where no region of a crowded group has room. O(1).
    pub(super) fn may_hold(&self, size: u64, alignment: Alignment) -> bool {
        self.crowded != 0 && self.tree(alignment).is_some_and(|tree| tree.largest() >= size)
    }

    /// Returns the size of the largest region of all crowded groups. O(1).
    pub(super) fn largest(&self) -> u64 {
        self.trees.first().map_or(0, Tree::largest)
    }

    /// Returns a region of a crowded group that has room.
    pub(super) fn find(&self, chain: &Chain, size: u64, alignment: Alignment) -> Option<u32> {
        if !self.may_hold(size, alignment) {
            return None;
        }
        let tree = self.tree(alignment)?;
        tree.find(chain, self.crowded, (size, alignment), tree.levels.len(), 0)
    }

    /// Panics unless the invariants hold.
    pub(super) fn check_invariants(&self, chain: &Chain, lists: &FreeLists) {
        for (group, &count) in self.counts.iter().enumerate() {
            let first = group * LISTS_PER_GROUP;
            let classes = first..first + LISTS_PER_GROUP;
            let listed: usize = classes.map(|class| lists.iter(chain, class).count()).sum();
            assert_eq!(count as usize, listed, "a group's regions are counted");
            let crowded = self.crowded >> group & 1 == 1;
            assert!(if crowded { count > 0 } else { count <= MANY }, "a group with many regions is crowded");
        }
        assert!(self.crowded == 0 || !self.trees.is_empty());
        if !self.trees.is_empty() {
            let logs = self.trees.iter().fold(0, |logs, tree| logs | 1 << tree.alignment.log2());
            assert_eq!(logs, self.seen, "each alignment has a tree");
        }
        self.trees.iter().for_each(|tree| tree.check_invariants(chain, self.crowded));
    }
}

impl Tree {
    fn largest(&self) -> u64 {
        self.levels.last().and_then(|level| level.first()).copied().unwrap_or(0)
    }

    /// Adds entries for that many nodes.
    fn cover(&mut self, nodes: usize) {
        let mut count = nodes.div_ceil(FANOUT).max(1);
        for level in 0.. {
            if level < self.levels.len() {
                self.levels[level].resize(count, 0);
            } else {
                let below = level.checked_sub(1).map(|below| &self.levels[below]);
                let of = |entries: &[u64]| entries.iter().copied().max().unwrap_or(0);
                let entries =
                    below.map_or_else(|| alloc::vec![0; count], |b| b.chunks(FANOUT).map(of).collect());
                self.levels.push(entries);
            }
            if count == 1 {
                break;
            }
            count = count.div_ceil(FANOUT);
        }
    }

    /// Returns the room of a node; 0 where it is none of this tree's.
    fn room(&self, chain: &Chain, crowded: u64, index: u32) -> u64 {
        let node = chain.node(index);
        if node.is_free() && crowded & bit_of(class_of(node.size)) != 0 {
            room_in(node.offset, node.size, self.alignment)
        } else {
            0
        }
    }

    /// Raises the entries above a region that is new.
    #[inline]
    fn raise(&mut self, chain: &Chain, index: u32) {
        let node = chain.node(index);
        let room = room_in(node.offset, node.size, self.alignment);
        let mut at = index as usize / FANOUT;
        if self.levels.first().is_none_or(|level| at >= level.len()) {
            self.cover(chain.capacity());
        }
        for level in &mut self.levels {
            // What is above is at least as large as this entry.
            if level[at] >= room {
                return;
            }
            level[at] = room;
            at /= FANOUT;
        }
    }

    /// Lowers the entries above a region that left.
    fn lower(&mut self, chain: &Chain, crowded: u64, left: &Left) {
        let was = room_in(left.offset, left.size, self.alignment);
        let mut at = left.index as usize / FANOUT;
        if self.levels[0][at] != was {
            return; // Another one is larger.
        }
        let first = at * FANOUT;
        let nodes = first..chain.capacity().min(first + FANOUT);
        let mut is = nodes.map(|index| self.room(chain, crowded, index as u32)).max().unwrap_or(0);
        for level in 0..self.levels.len() {
            if is == was {
                return;
            }
            self.levels[level][at] = is;
            let first = at / FANOUT * FANOUT;
            at /= FANOUT;
            if self.levels.get(level + 1).is_none_or(|above| above[at] != was) {
                return;
            }
            let entries = &self.levels[level];
            is = entries[first..entries.len().min(first + FANOUT)].iter().copied().max().unwrap_or(0);
        }
    }

    /// Returns a node with room below entry `at` of `level - 1`, or among the nodes where `level` is 0.
    fn find(
        &self,
        chain: &Chain,
        crowded: u64,
        wanted: (u64, Alignment),
        level: usize,
        at: usize,
    ) -> Option<u32> {
        let (size, alignment) = wanted;
        let Some(level) = level.checked_sub(1) else {
            let nodes = at * FANOUT..chain.capacity().min((at + 1) * FANOUT);
            let fits = |&index: &u32| {
                let node = chain.node(index);
                let indexed = node.is_free() && crowded & bit_of(class_of(node.size)) != 0;
                indexed && room_in(node.offset, node.size, alignment) >= size
            };
            let nodes = nodes.map(|index| index as u32).filter(fits);
            return nodes.min_by_key(|&index| (chain.node(index).size, chain.node(index).offset));
        };
        let entries = &self.levels[level];
        // The last level has one entry, and is above no other.
        let all = if level + 1 == self.levels.len() { 0..1 } else { at * FANOUT..(at + 1) * FANOUT };
        let fitting = (all.start..all.end.min(entries.len())).filter(|&entry| entries[entry] >= size);
        // The closest, as far as entries tell: the largest region of each is no larger than it needs to be.
        let closest = fitting.clone().min_by_key(|&entry| entries[entry])?;
        let found = self.find(chain, crowded, wanted, level, closest);
        if found.is_some() || self.alignment == alignment {
            debug_assert!(
                found.is_some(),
                "a tree of the request's alignment promises nothing that is not there"
            );
            return found;
        }
        // The tree is one of a lesser alignment, whose entries only say where there is none.
        fitting
            .filter(|&entry| entry != closest)
            .find_map(|entry| self.find(chain, crowded, wanted, level, entry))
    }

    fn check_invariants(&self, chain: &Chain, crowded: u64) {
        let rooms: Vec<_> =
            (0..chain.capacity()).map(|index| self.room(chain, crowded, index as u32)).collect();
        let mut below = rooms;
        for level in &self.levels {
            let of = |at: usize| below.iter().skip(at * FANOUT).take(FANOUT).copied().max().unwrap_or(0);
            let counted: Vec<_> = (0..level.len()).map(of).collect();
            assert_eq!(*level, counted, "an entry is the maximum of what is below it");
            assert!(
                level.len() * FANOUT >= below.len()
                    || below.iter().skip(level.len() * FANOUT).all(|&it| it == 0)
            );
            below = counted;
        }
        assert!(self.levels.is_empty() || below.len() == 1, "the last level has one entry");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::{Algorithm, Request, VirtualBlock};

    /// Returns a block with so many holes of 1,024 units, and nothing else that is free.
    fn holes(count: u64) -> VirtualBlock<()> {
        let mut block = VirtualBlock::new(count * 2 * 1024, Algorithm::Tlsf).unwrap();
        let all: Vec<_> = (0..count * 2).map(|_| block.allocate(Request::new(1024), ()).unwrap()).collect();
        all.iter().step_by(2).for_each(|range| block.free(range.handle).unwrap());
        block
    }

    #[test]
    fn a_tree_names_the_largest_hole_after_each_change() {
        let mut block = holes(1000);
        assert_eq!(block.largest_free(), 1024);
        assert_eq!(block.largest_free_at_most(), 1024);
        assert!(!block.may_fit(1025));
        // A range next to a hole makes it larger, and the block's end makes none.
        let beside = block.regions().filter_map(|region| match region.kind {
            crate::RegionKind::Used { handle, .. } => Some(handle),
            _ => None,
        });
        let beside = beside.take(1).next().unwrap();
        block.free(beside).unwrap();
        assert_eq!(block.largest_free(), 3 * 1024);
        assert_eq!(block.allocate(Request::new(1025), ()).unwrap().offset, 0);
        block.check_invariants();
    }
}
