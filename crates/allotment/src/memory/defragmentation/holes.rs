//! The free ranges of blocks, ordered by size, from which a plan takes the places of moved allocations.
//!
//! The plan takes the smallest range that holds an allocation (best fit). A tree holds the ranges by size, block and
//! offset: O(log n) to find a range, to cut a place out of it and to undo the cut.

use std::collections::BTreeSet;

use allotment_suballoc::Alignment;

/// The free ranges of the blocks that stay.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// Size, block, offset.
    by_size: BTreeSet<(u64, u32, u64)>,
}

/// A place that was cut out of a free range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) block: u32,
    pub(super) offset: u64,
    size: u64,
    /// Offset and size of the free range that it was cut out of.
    hole: (u64, u64),
}

/// Ranges tried before the search takes one that is large enough for any alignment. Bounds the search where many ranges
/// of the right size have the wrong offset.
const MAX_CANDIDATES: usize = 32;

impl Holes {
    /// Adds a free range, unless it is empty.
    pub(super) fn add(&mut self, block: u32, offset: u64, size: u64) {
        if size != 0 {
            self.by_size.insert((size, block, offset));
        }
    }

    /// Drops a small piece. Returns false once nothing is left.
    pub(super) fn drop_piece(&mut self) -> bool {
        self.by_size.pop_first().is_some()
    }

    /// Removes a free range.
    pub(super) fn remove(&mut self, block: u32, offset: u64, size: u64) {
        self.by_size.remove(&(size, block, offset));
    }

    /// Cuts a place out of the smallest range that holds it.
    pub(super) fn cut(&mut self, size: u64, alignment: Alignment) -> Option<Cut> {
        // Best fit: the smallest hole that is large enough. The tree has them by size, so those that are large enough
        // begin at one point, and only the alignment is to be tried. Among many holes of one size at odd offsets that
        // may go on for long; after some tries it takes one that is larger by the alignment, and so holds the place for
        // sure.
        let fits =
            |&&(hole, _, offset): &&(u64, u32, u64)| alignment.align_up(offset) + size <= offset + hole;
        let close = self.by_size.range((size, 0, 0)..).take(MAX_CANDIDATES).find(fits);
        // Any range of this size holds the request wherever it begins.
        let sure = || self.by_size.range((size + alignment.get() - 1, 0, 0)..).next();
        let &(hole, block, start) = close.or_else(sure)?;
        let offset = alignment.align_up(start);
        //   hole    start ├───────┬──────────┬─────────┤ start + hole
        //           left  │       │  place   │         │ right
        //                         └ offset   └ offset + size
        // The cut remembers the hole, not the remainders: these follow from it.
        // The remainders on both sides stay available for smaller allocations.
        self.remove(block, start, hole);
        self.add(block, start, offset - start);
        self.add(block, offset + size, start + hole - (offset + size));
        Some(Cut { block, offset, size, hole: (start, hole) })
    }

    /// Undoes a cut. Cuts are undone in the opposite order, so the remainders on both sides are still whole.
    pub(super) fn undo(&mut self, cut: &Cut) {
        let (start, hole) = cut.hole;
        // Brittle: a remainder that was cut again since is not in the tree, and to remove it does nothing. The whole
        // hole would be added beside what is left of it, and its bytes be planned twice. Hence the opposite order.
        // (`the_smallest_range_that_holds_a_place_is_cut_and_given_back_whole`)
        let end = cut.offset + cut.size;
        self.remove(cut.block, start, cut.offset - start);
        self.remove(cut.block, end, start + hole - end);
        self.add(cut.block, start, hole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_range_that_holds_a_place_is_cut_and_given_back_whole() {
        let mut holes = Holes::default();
        holes.add(0, 100, 50);
        holes.add(1, 10, 40);
        holes.add(1, 1000, 500);
        let cut = holes.cut(35, Alignment::ONE).unwrap();
        assert_eq!((cut.block, cut.offset), (1, 10));
        let aligned = holes.cut(32, Alignment::new(64).unwrap()).unwrap();
        assert_eq!((aligned.block, aligned.offset), (1, 1024), "the first that fits where it is aligned");
        assert_eq!(holes.cut(477, Alignment::ONE), None);
        holes.undo(&aligned);
        holes.undo(&cut);
        let all: Vec<_> = holes.by_size.iter().copied().collect();
        assert_eq!(all, [(40, 1, 10), (50, 0, 100), (500, 1, 1000)]);
    }
}
