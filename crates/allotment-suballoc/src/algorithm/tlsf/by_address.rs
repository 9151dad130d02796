//! Indices of the free regions by address, made by the searches that need them: which is the lowest region with room for an
//! aligned range, if there is one.
//!
//! *Room* of a region is the size of the largest range in it at an alignment: a region of the size of a request may be at an
//! offset that leaves less. The [`Index`] of an alignment keeps the most room below each of its pages, so a search looks at
//! no region without room. Two kinds of searches need one:
//!
//! - A search for the lowest region, among more than [`MANY`]: the stacks are sorted by size and not by offset.
//! - A search that looked at [`MANY`] regions which are large enough and aligned wrongly, in vain. Any region with room will do
//!   then. The lowest is the one that a search without an index finds as well, so [`room_for`] can tell it and make none.
//!
//! An index that no search has asked for a while is dropped, since every region that enters or leaves changes it.
//!
//! [`room_for`]: crate::VirtualBlock::room_for
//!
//! # Invariant
//!
//! An [`Index`] is that of the free regions below its frontier. During an operation of the block it lacks what that operation
//! changed so far; [`ByAddress::settle`] ends that.
//!
//! # Why one structure
//!
//! Searches among wrongly aligned regions had trees of their own: maxima over the table of nodes, in 0.6 bytes a node. A tree
//! named a region by its place in that table, neither the lowest nor the closest one, and there was one for each alignment at once.
//! Without them, in instructions an operation (callgrind): a full block of a thousand regions with requests of five alignments takes
//! 2,373 where it took 3,289; with `LeastMemory` among 16,000 it is 8,779 and was 7,759; a hole among 1,000 that is the only aligned
//! one 3,998 and 3,801. `LowestOffset` costs what it did. An index of a million regions takes about twice as long to make as a tree.

mod index;

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::nodes::Nodes;
use super::width::Width;
use crate::Alignment;
use index::Index;

/// The number of regions that a search looks at before it asks for an index. Few in this crate's own tests and in fuzzers,
/// so that there are indices.
pub(super) const MANY: usize = if cfg!(any(test, fuzzing)) { 8 } else { 128 };

/// Regions that the frontier of an index passes before it is asked once more. Few where [`MANY`] is.
const AT_ONCE: usize = 8 * MANY;

/// The regions that enter or leave for each node, before an index that no search asked is dropped: so an index costs at most
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
    fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset + other.size && other.offset < self.offset + self.size
    }
}

/// Returns the size of the largest range at an alignment in a region.
fn room_in(offset: u64, size: u64, alignment: Alignment) -> u64 {
    (offset + size).saturating_sub(alignment.align_up(offset))
}

#[derive(Clone, Debug, Default)]
pub(super) struct ByAddress {
    /// At most one for each alignment: a handful, so they are searched one by one.
    indices: Vec<Index>,
    /// What the operation changed so far.
    changes: Vec<Change>,
}

impl ByAddress {
    /// Returns `true` if there is an index that has to know of changes.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        !self.indices.is_empty()
    }

    /// Drops all indices.
    pub(super) fn reset(&mut self) {
        self.indices.clear();
        self.changes.clear();
    }

    /// Notes that a region entered or left. [`settle`](Self::settle) must follow once the nodes are whole again.
    #[cold]
    pub(super) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Corrects the indices for what the operation changed, and drops those that no search asks any more.
    #[cold]
    pub(super) fn settle<W: Width>(&mut self, nodes: &Nodes<W>) {
        // At the end of an operation, and not at each change: a node that leaves and enters again is looked at once, as it is
        // then, and pairs of changes are found.
        let patience = PATIENCE * nodes.len() as u64;
        for index in &mut self.indices {
            index.apply(&self.changes);
            index.idle += self.changes.len() as u64;
        }
        self.changes.clear();
        self.indices.retain(|index| index.idle <= patience);
    }

    fn position(&self, alignment: Alignment) -> Option<usize> {
        self.indices.iter().position(|index| index.alignment == alignment)
    }

    /// Returns `true` if there is an index for an alignment.
    pub(super) fn has(&self, alignment: Alignment) -> bool {
        self.position(alignment).is_some()
    }

    /// Returns the pages of the index for an alignment.
    #[cfg(test)]
    pub(super) fn pages(&self, alignment: Alignment) -> Option<usize> {
        Some(self.indices[self.position(alignment)?].pages())
    }

    /// Makes an index for an alignment, of nothing yet, unless there is one.
    fn make(&mut self, alignment: Alignment) -> &mut Index {
        let at = self.position(alignment).unwrap_or_else(|| {
            self.indices.push(Index::new(alignment));
            self.indices.len() - 1
        });
        &mut self.indices[at]
    }

    /// Returns the lowest free region with room, making the index that tells as far as that takes, or up to `limit`.
    #[cold]
    pub(super) fn ask<W: Width>(
        &mut self,
        nodes: &Nodes<W>,
        size: u64,
        alignment: Alignment,
        limit: u64,
    ) -> Option<u32> {
        // Piece by piece, since the lowest region is mostly near the start: a search at the lowest offset then makes an index of a
        // thousand regions in a block of a million.
        loop {
            if let Some(found) = self.ask_some(nodes, (size, alignment), limit, AT_ONCE) {
                return found;
            }
        }
    }

    /// Does the same, moving the frontier of an index up by `regions` at most. The outer `None`: that was too few.
    pub(super) fn ask_some<W: Width>(
        &mut self,
        nodes: &Nodes<W>,
        (size, alignment): (u64, Alignment),
        limit: u64,
        regions: usize,
    ) -> Option<Option<u32>> {
        // Only the index that serves lives on. Where an alignment has one of its own, that of all offsets is dropped in time,
        // unless other requests ask it.
        if let Some(at) = self.position(alignment).or_else(|| self.position(Alignment::ONE)) {
            self.indices[at].idle = 0;
        }
        match self.lowest(nodes, size, alignment, limit) {
            Ok(found) => return Some(found),
            Err(missing) => self.make(missing).extend(nodes, regions),
        }
        self.lowest(nodes, size, alignment, limit).ok()
    }

    /// Returns the lowest free region with room, of those that begin below `limit`; or the alignment of the index that is
    /// missing for it, or does not reach so far.
    pub(super) fn lowest<W: Width>(
        &self,
        nodes: &Nodes<W>,
        size: u64,
        alignment: Alignment,
        limit: u64,
    ) -> Result<Option<u32>, Alignment> {
        let nothing = |index: &Index| if index.reaches(limit) { Ok(None) } else { Err(index.alignment) };
        if let Some(at) = self.position(alignment) {
            let found = self.indices[at].visit(size, &mut ControlFlow::Break).break_value();
            return found.map_or_else(|| nothing(&self.indices[at]), |found| Ok(Some(found)));
        }
        // The index of all offsets serves every alignment as long as few regions are aligned wrongly: one for each would
        // make each change as many times as dear.
        let at = self.position(Alignment::ONE).ok_or(Alignment::ONE)?;
        let mut looked = 0;
        let found = self.indices[at].visit(size, &mut |node| {
            let offset = nodes.offset(node);
            looked += 1;
            match room_in(offset, nodes.end(node) - offset, alignment) {
                room if room >= size => ControlFlow::Break(Ok(Some(node))),
                _ if looked == MANY => ControlFlow::Break(Err(alignment)),
                _ => ControlFlow::Continue(()),
            }
        });
        found.break_value().unwrap_or_else(|| nothing(&self.indices[at]))
    }

    /// Panics unless the invariant holds. O(nodes) for each index.
    pub(super) fn check_invariants<W: Width>(&self, nodes: &Nodes<W>) {
        assert!(self.changes.is_empty(), "an operation settles what it changed");
        self.indices.iter().for_each(|index| index.check_invariants(nodes));
    }
}
