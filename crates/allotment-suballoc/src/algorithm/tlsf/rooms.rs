//! Indices of the free regions, made by the searches that need them: whether one has room for an aligned range, and where;
//! and which is the lowest that has ([`Lowest`]).
//!
//! A region of the size of a request may be at an offset that leaves no aligned range of that size. Where many are, a
//! search would have to look at each. So the first search that looked at [`MANY`] of them in vain makes an index for its
//! alignment: a tree of maxima over the indices of nodes. *Room* of a region is the size of the largest range at that
//! alignment:
//!
//! ```text
//!   levels[1]                       [ 96                             ]      one entry per 16 of the level below
//!   levels[0]   [ 48                 0                  96           ]      one entry per 16 nodes
//!   nodes        0: 40   1: used …   16…31: none free   32: 96 33: 7 …      room at this alignment
//! ```
//!
//! Whether there is room, the last level says; where it is, a descent finds. A tree that no search has asked for a while
//! is dropped, since every region that enters or leaves has to be compared with it.
//!
//! # Invariant
//!
//! An entry of a tree is the maximum of what is below it: of the entries, or of the rooms of the nodes that are free.
//! During an operation of the block it may lack what that operation changed so far; [`Rooms::settle`] ends that.
//!
//! # Cost
//!
//! Nothing while there is no tree. With one, a comparison for a region that enters or leaves, and O(16 log n) where it is
//! the largest of its 16. A descent is O(16 log n). Making a tree is O(nodes). A tree takes 0.6 bytes a node.

use alloc::vec::Vec;

use core::ops::ControlFlow;

use super::lowest::Lowest;
use super::nodes::{END, Nodes};
use super::width::Width;
use crate::Alignment;

/// The number of regions that a search looks at before it asks for an index. Few in this crate's own tests and in fuzzers,
/// so that there are indices.
pub(super) const MANY: usize = if cfg!(any(test, fuzzing)) { 8 } else { 128 };

/// Regions that the frontier of an index by offset passes before it is asked once more. Few where [`MANY`] is.
const AT_ONCE: usize = 8 * MANY;

/// Entries, or nodes, that one entry of the level above covers: a cache line or two of entries.
const FANOUT: usize = 16;

/// The regions that enter or leave for each node, before a tree that no search asked is dropped: so a tree costs at most
/// as much again as making it did, and is not made and dropped in turn.
const PATIENCE: u64 = 4;

/// A region as it was when it entered a stack or left it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) node: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) entered: bool,
}

impl Change {
    /// Returns `true` if the two regions have a unit in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset + other.size && other.offset < self.offset + self.size
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    /// By alignment.
    trees: Vec<Tree>,
    /// One for alignment 1, and where a search passed over too many regions, one for its alignment.
    lowest: Vec<Lowest>,
    /// What the operation changed so far.
    changes: Vec<Change>,
}

/// The maxima for one alignment.
#[derive(Clone, Debug)]
struct Tree {
    alignment: Alignment,
    /// The last has one entry.
    levels: Vec<Vec<u64>>,
    /// The changes since a search asked.
    idle: u64,
}

/// Returns the size of the largest range at an alignment in a region.
pub(super) fn room_in(offset: u64, size: u64, alignment: Alignment) -> u64 {
    (offset + size).saturating_sub(alignment.align_up(offset))
}

/// Returns the room of a node, 0 where it is not free.
fn room<W: Width>(nodes: &Nodes<W>, node: u32, alignment: Alignment) -> u64 {
    if nodes.is_vacant(node) || !nodes.at(node).is_free() {
        return 0;
    }
    let offset = nodes.offset(node);
    room_in(offset, nodes.end(node) - offset, alignment)
}

impl Rooms {
    /// Returns `true` if there is an index that has to know of changes.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        !self.trees.is_empty() || !self.lowest.is_empty()
    }

    /// Drops all indices.
    pub(super) fn reset(&mut self) {
        self.trees.clear();
        self.lowest.clear();
        self.changes.clear();
    }

    /// Notes that a region entered or left. [`settle`](Self::settle) must follow once the nodes are whole again.
    #[cold]
    pub(super) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Corrects the trees for what the operation changed.
    #[cold]
    pub(super) fn settle<W: Width>(&mut self, nodes: &Nodes<W>) {
        let Self { trees, lowest, changes } = self;
        lowest.iter_mut().for_each(|lowest| lowest.apply(changes));
        for tree in trees.iter_mut() {
            tree.idle += changes.len() as u64;
            // Those that left after those that entered: a node may have left and entered again, and its part of the tree
            // is then looked at as it is now.
            changes.iter().filter(|change| change.entered).for_each(|change| tree.raise(nodes, change));
            changes.iter().filter(|change| !change.entered).for_each(|change| tree.lower(nodes, change));
        }
        changes.clear();
        let patience = PATIENCE * nodes.len() as u64;
        trees.retain(|tree| tree.idle <= patience);
        lowest.retain(|lowest| lowest.idle <= patience);
    }

    /// Returns `true` if there is a tree for an alignment.
    pub(super) fn has(&self, alignment: Alignment) -> bool {
        self.trees.binary_search_by_key(&alignment, |tree| tree.alignment).is_ok()
    }

    /// Makes a tree for an alignment unless there is one, and notes that a search asks for it.
    pub(super) fn ask<W: Width>(&mut self, nodes: &Nodes<W>, alignment: Alignment) {
        let at = self.trees.partition_point(|tree| tree.alignment < alignment);
        if self.trees.get(at).is_none_or(|tree| tree.alignment != alignment) {
            self.trees.insert(at, Tree::new(nodes, alignment));
        }
        self.trees[at].idle = 0;
    }

    /// Returns the closest free region with room, as far as the tree for the alignment tells: the same one whether there is
    /// that tree or not. O(nodes) where not.
    pub(super) fn find<W: Width>(&self, nodes: &Nodes<W>, size: u64, alignment: Alignment) -> Option<u32> {
        match self.trees.binary_search_by_key(&alignment, |tree| tree.alignment) {
            Ok(at) => self.trees[at].find(nodes, size),
            Err(_) => Tree::new(nodes, alignment).find(nodes, size),
        }
    }

    /// Returns `true` if there is an index that tells the lowest region.
    pub(super) fn tells_lowest(&self) -> bool {
        !self.lowest.is_empty()
    }

    /// Returns the pages of the index that tells the lowest region, at any alignment.
    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.lowest[0].pages()
    }

    /// Returns the lowest free region with room, making the index that tells as far as that takes, or up to `limit`.
    pub(super) fn ask_lowest<W: Width>(
        &mut self,
        nodes: &Nodes<W>,
        (size, alignment): (u64, Alignment),
        limit: u64,
    ) -> Option<u32> {
        loop {
            if let Some(found) = self.ask_lowest_for(nodes, (size, alignment), limit, AT_ONCE) {
                return found;
            }
        }
    }

    /// Does the same, moving the frontier of an index up by `regions` at most. The outer `None`: that was too few.
    pub(super) fn ask_lowest_for<W: Width>(
        &mut self,
        nodes: &Nodes<W>,
        (size, alignment): (u64, Alignment),
        limit: u64,
        regions: usize,
    ) -> Option<Option<u32>> {
        let serves = |lowest: &&mut Lowest| [alignment, Alignment::ONE].contains(&lowest.alignment);
        self.lowest.iter_mut().filter(serves).for_each(|lowest| lowest.idle = 0);
        for can_extend in [true, false] {
            match self.lowest(nodes, (size, alignment), limit) {
                Ok(found) => return Some(found),
                Err(missing) if can_extend => {
                    let at = self.lowest.iter().position(|lowest| lowest.alignment == missing);
                    let at = at.unwrap_or_else(|| {
                        self.lowest.push(Lowest::new(missing));
                        self.lowest.len() - 1
                    });
                    self.lowest[at].extend(nodes, regions);
                }
                Err(_) => {}
            }
        }
        None
    }

    /// Returns the lowest free region with room, of those that begin below `limit`; or the alignment of the index that is
    /// missing for it, or does not reach so far.
    pub(super) fn lowest<W: Width>(
        &self,
        nodes: &Nodes<W>,
        (size, alignment): (u64, Alignment),
        limit: u64,
    ) -> Result<Option<u32>, Alignment> {
        let of = |alignment| self.lowest.iter().find(|lowest| lowest.alignment == alignment);
        let nothing = |lowest: &Lowest| if lowest.reaches(limit) { Ok(None) } else { Err(lowest.alignment) };
        if let Some(lowest) = of(alignment) {
            let found = lowest.visit(size, &mut ControlFlow::Break).break_value();
            return found.map_or_else(|| nothing(lowest), |found| Ok(Some(found)));
        }
        let lowest = of(Alignment::ONE).ok_or(Alignment::ONE)?;
        let mut looked = 0;
        let found = lowest.visit(size, &mut |node| {
            let offset = nodes.offset(node);
            looked += 1;
            match room_in(offset, nodes.end(node) - offset, alignment) {
                room if room >= size => ControlFlow::Break(Ok(Some(node))),
                _ if looked == MANY => ControlFlow::Break(Err(alignment)),
                _ => ControlFlow::Continue(()),
            }
        });
        found.break_value().unwrap_or_else(|| nothing(lowest))
    }

    /// Panics unless the invariant holds. O(nodes) for each index.
    pub(super) fn check_invariants<W: Width>(&self, nodes: &Nodes<W>) {
        assert!(self.changes.is_empty(), "an operation settles what it changed");
        self.lowest.iter().for_each(|lowest| lowest.check_invariants(nodes));
        for tree in &self.trees {
            let right = Tree::new(nodes, tree.alignment);
            // It may not reach as far as nodes without room do.
            let (covered, beyond) = right.levels[0].split_at(tree.levels[0].len());
            assert_eq!(tree.levels[0], covered, "an entry is the maximum of what is below it");
            assert!(beyond.iter().all(|&room| room == 0), "every room is below an entry");
            for (below, above) in tree.levels.iter().zip(tree.levels.iter().skip(1)) {
                let largest = below.chunks(FANOUT).map(|entries| entries.iter().copied().max());
                assert!(
                    largest.eq(above.iter().map(|&entry| Some(entry))),
                    "an entry is the maximum of what is below it"
                );
            }
            assert_eq!(tree.levels.last().map(Vec::len), Some(1), "the last level has one entry");
        }
    }
}

impl Tree {
    fn new<W: Width>(nodes: &Nodes<W>, alignment: Alignment) -> Self {
        let largest = |first: usize| {
            let of_nodes = first..nodes.len().min(first + FANOUT);
            of_nodes.map(|node| room(nodes, node as u32, alignment)).max().unwrap_or(0)
        };
        let mut levels = alloc::vec![(0..nodes.len()).step_by(FANOUT).map(largest).collect::<Vec<_>>()];
        while let Some(below) = levels.last().filter(|below| below.len() > 1) {
            let above =
                below.chunks(FANOUT).map(|entries| entries.iter().copied().max().unwrap_or(0)).collect();
            levels.push(above);
        }
        Self { alignment, levels, idle: 0 }
    }

    /// Raises the entries above a region that entered.
    fn raise<W: Width>(&mut self, nodes: &Nodes<W>, change: &Change) {
        let room = room_in(change.offset, change.size, self.alignment);
        let mut at = change.node as usize / FANOUT;
        if at >= self.levels[0].len() {
            self.cover(nodes.len());
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

    /// Adds entries for that many nodes.
    fn cover(&mut self, nodes: usize) {
        let mut count = nodes.div_ceil(FANOUT);
        for level in 0.. {
            if level == self.levels.len() {
                let below = self.levels[level - 1].chunks(FANOUT);
                let above = below.map(|entries| entries.iter().copied().max().unwrap_or(0)).collect();
                self.levels.push(above);
            }
            self.levels[level].resize(count, 0);
            if count == 1 {
                return;
            }
            count = count.div_ceil(FANOUT);
        }
    }

    /// Lowers the entries above a region that left.
    fn lower<W: Width>(&mut self, nodes: &Nodes<W>, change: &Change) {
        let was = room_in(change.offset, change.size, self.alignment);
        let mut at = change.node as usize / FANOUT;
        if self.levels[0].get(at).is_none_or(|&entry| entry > was) {
            return; // Another one is larger.
        }
        let first = at * FANOUT;
        let of_nodes = first..nodes.len().min(first + FANOUT);
        let mut is = of_nodes.map(|node| room(nodes, node as u32, self.alignment)).max().unwrap_or(0);
        for level in 0..self.levels.len() {
            if self.levels[level][at] == is {
                return;
            }
            self.levels[level][at] = is;
            let first = at / FANOUT * FANOUT;
            at /= FANOUT;
            let entries = &self.levels[level];
            is = entries[first..entries.len().min(first + FANOUT)].iter().copied().max().unwrap_or(0);
        }
    }

    /// Returns a node with room, of those that the entries closest to the size are about.
    fn find<W: Width>(&self, nodes: &Nodes<W>, size: u64) -> Option<u32> {
        let (mut level, mut at) = (self.levels.len() - 1, 0);
        if self.levels[level][0] < size {
            return None;
        }
        // The entry that is closest, as far as entries tell: the largest region below it is no larger than it needs to be.
        while let Some(below) = level.checked_sub(1) {
            let entries = &self.levels[below];
            let covered = at * FANOUT..entries.len().min((at + 1) * FANOUT);
            at = covered.filter(|&entry| entries[entry] >= size).min_by_key(|&entry| entries[entry])?;
            level = below;
        }
        let of_nodes = at * FANOUT..nodes.len().min((at + 1) * FANOUT);
        let of_nodes = of_nodes.map(|node| node as u32).filter(|&node| node != END);
        let fitting = of_nodes.filter(|&node| room(nodes, node, self.alignment) >= size);
        fitting.min_by_key(|&node| (nodes.end(node) - nodes.offset(node), nodes.offset(node)))
    }
}
