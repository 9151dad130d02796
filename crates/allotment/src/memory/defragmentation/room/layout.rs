//! The ranges of some blocks, on which a plan is tried out before anything is moved.
//!
//! An allocation stays within its arena. The blocks of several arenas are in one layout where blocks are emptied for a new one,
//! so that the cheapest of all of them go.

use std::collections::{BTreeMap, BTreeSet};

use allotment_suballoc::Alignment;

use crate::memory::defragmentation::pace::Pace;

/// An allocation as a plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Bytes of a block that it takes, wherever it is.
    pub(super) bytes: u64,
    pub(super) alignment: Alignment,
    /// Bytes to copy when it is moved; `None` where it cannot be moved.
    pub(super) cost: Option<u64>,
}

/// Where an allocation is. Blocks are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct At {
    pub(super) block: u32,
    pub(super) offset: u64,
}

/// Where a step moves an allocation to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    At(At),
    /// Into memory of the run's own, since its new place is not free before it has left its old one. A later step moves
    /// it from there.
    Aside,
}

/// Blocks, and what is where in them.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    sizes: Vec<u64>,
    /// Of each block: the number of its arena, within which items move.
    arenas: Vec<u32>,
    items: Vec<Item>,
    /// Of each block: the items by offset.
    blocks: Vec<BTreeMap<u64, u32>>,
    /// Of each item: `None` while it is aside.
    places: Vec<Option<At>>,
    /// Of each arena: the free ranges by size.
    holes: Vec<BTreeSet<(u64, At)>>,
    /// The free bytes of each block.
    free: Vec<u64>,
    /// Items may go aside.
    pub(super) aside: bool,
}

impl Layout {
    /// Creates blocks of some sizes with items in them, which do not overlap.
    #[cfg(test)]
    pub(super) fn new(sizes: Vec<u64>, items: impl IntoIterator<Item = (Item, At)>) -> Self {
        let mut layout = Self::empty(sizes);
        items.into_iter().for_each(|(item, at)| layout.push(item, at));
        layout
    }

    /// Creates blocks of some sizes in one arena.
    #[cfg(test)]
    pub(super) fn empty(sizes: Vec<u64>) -> Self {
        let arenas = vec![0; sizes.len()];
        Self::with_capacity(sizes, arenas, 0)
    }

    /// Creates blocks of some sizes, each in an arena, for a number of items: a list that grows is copied at once.
    pub(super) fn with_capacity(sizes: Vec<u64>, arenas: Vec<u32>, items: usize) -> Self {
        let blocks = vec![BTreeMap::new(); sizes.len()];
        let count = arenas.iter().max().map_or(1, |&last| last as usize + 1);
        let mut holes = vec![BTreeSet::new(); count];
        for (block, (&size, &arena)) in (0..).zip(sizes.iter().zip(&arenas)) {
            holes[arena as usize].insert((size, At { block, offset: 0 }));
        }
        let free = sizes.clone();
        let (items, places) = (Vec::with_capacity(items), Vec::with_capacity(items));
        Self { sizes, arenas, items, blocks, places, holes, free, aside: true }
    }

    /// Returns the layout with its blocks in some arenas.
    #[cfg(test)]
    pub(super) fn in_arenas(&self, arenas: Vec<u32>) -> Self {
        let items = (0..self.item_count()).filter_map(|item| Some((self.item(item), self.place(item)?)));
        let mut layout = Self::with_capacity(self.sizes.clone(), arenas, 0);
        items.for_each(|(item, at)| layout.push(item, at));
        layout
    }

    /// Returns the number of the arena of a block.
    #[cfg(test)]
    pub(super) fn arena(&self, block: u32) -> u32 {
        self.arenas[block as usize]
    }

    /// Adds an item at a free place.
    pub(super) fn push(&mut self, item: Item, at: At) {
        self.items.push(item);
        self.places.push(None);
        self.put(self.item_count() - 1, at);
    }

    /// Adds an item where the survey saw it. Returns false, with nothing changed, where another item is: the survey takes
    /// one lock after the other, and between two of them a thread may have freed one allocation and got its bytes for the
    /// other. Which of them is there shows when a step needs the place.
    pub(super) fn push_surveyed(&mut self, item: Item, at: At) -> bool {
        let free = self.is_free(at, item.bytes);
        if free {
            self.push(item, at);
        }
        free
    }

    /// Copies the layout; without the items that can be moved, if only pinned ones are wanted: these are aside then.
    pub(super) async fn copy(&self, only_pinned: bool, pace: &mut Pace) -> Self {
        let mut copy = Self::with_capacity(self.sizes.clone(), self.arenas.clone(), 0);
        copy.aside = self.aside;
        (copy.items, copy.places) = (self.items.clone(), vec![None; self.places.len()]);
        for (index, (item, place)) in (0..).zip(self.items.iter().zip(&self.places)) {
            let wanted = !only_pinned || item.cost.is_none();
            place.filter(|_| wanted).into_iter().for_each(|at| copy.put(index, at));
            pace.step().await;
        }
        copy
    }

    pub(super) fn block_count(&self) -> u32 {
        self.sizes.len() as u32
    }

    pub(super) fn item_count(&self) -> u32 {
        self.items.len() as u32
    }

    pub(super) fn size(&self, block: u32) -> u64 {
        self.sizes[block as usize]
    }

    pub(super) fn free_bytes(&self, block: u32) -> u64 {
        self.free[block as usize]
    }

    pub(super) fn item(&self, item: u32) -> Item {
        self.items[item as usize]
    }

    pub(super) fn place(&self, item: u32) -> Option<At> {
        self.places[item as usize]
    }

    /// Returns the items of a block with their offsets, in order.
    pub(super) fn in_block(&self, block: u32) -> impl DoubleEndedIterator<Item = (u64, u32)> + '_ {
        self.blocks[block as usize].iter().map(|(&offset, &item)| (offset, item))
    }

    /// Collects the items of a block with their offsets, in order.
    pub(super) async fn items_in(&self, block: u32, pace: &mut Pace) -> Vec<(u64, u32)> {
        pace.collect(self.in_block(block)).await
    }

    /// Drops the layout, which takes as long as a part of a plan.
    pub(super) async fn discard(mut self, pace: &mut Pace) {
        for block in &mut self.blocks {
            while block.pop_first().is_some() {
                pace.step().await;
            }
        }
        for holes in &mut self.holes {
            while holes.pop_first().is_some() {
                pace.step().await;
            }
        }
    }

    /// Returns the free ranges of at least `bytes`, the smallest first, as place and end; those of the only arena.
    pub(super) fn holes_from(&self, bytes: u64) -> impl Iterator<Item = (At, u64)> + '_ {
        debug_assert_eq!(self.holes.len(), 1, "a request is placed within one arena");
        self.holes_in(0, bytes)
    }

    /// Returns the same in the arena of a block.
    pub(super) fn holes_beside(&self, block: u32, bytes: u64) -> impl Iterator<Item = (At, u64)> + '_ {
        self.holes_in(self.arenas[block as usize], bytes)
    }

    fn holes_in(&self, arena: u32, bytes: u64) -> impl Iterator<Item = (At, u64)> + '_ {
        // By size, and then by place: of equal holes the lowest is taken, so that the same blocks always give the same plan.
        let least = (bytes, At { block: 0, offset: 0 });
        self.holes[arena as usize].range(least..).map(|&(size, at)| (at, at.offset + size))
    }

    /// Returns the free range around an offset at which nothing is, as start and end.
    fn gap(&self, At { block, offset }: At) -> (u64, u64) {
        let items = &self.blocks[block as usize];
        let before = items.range(..offset).next_back();
        let start = before.map_or(0, |(&before, &item)| before + self.item(item).bytes);
        let end = items.range(offset..).next().map_or(self.size(block), |(&next, _)| next);
        (start, end)
    }

    /// Returns true where a range is within its block and nothing is in it.
    pub(super) fn is_free(&self, at: At, bytes: u64) -> bool {
        // Asked first, since `gap` takes the offset for one at which nothing is.
        if self.blocks[at.block as usize].contains_key(&at.offset) {
            return false;
        }
        let (start, end) = self.gap(at);
        start <= at.offset && at.offset + bytes <= end
    }

    /// Adds an item that cannot be moved.
    pub(super) fn add(&mut self, bytes: u64, at: At) {
        self.push(Item { bytes, alignment: Alignment::ONE, cost: None }, at);
    }

    /// Moves an item to a free place, or aside. Returns where it was, for [`put_back`](Self::put_back).
    pub(super) fn step(&mut self, item: u32, to: Place) -> Option<At> {
        let from = self.take(item);
        if let Place::At(at) = to {
            self.put(item, at);
        }
        from
    }

    /// Reverts a step.
    pub(super) fn put_back(&mut self, item: u32, from: Option<At>) {
        self.take(item);
        from.into_iter().for_each(|at| self.put(item, at));
    }

    fn take(&mut self, item: u32) -> Option<At> {
        let from = self.places[item as usize].take()?;
        self.blocks[from.block as usize].remove(&from.offset);
        // Up to two holes and the item become one hole; a hole of no bytes is in no list:
        //   before   a ░░ X ░ b      (start, from) and (end, stop)
        //   after    a ░░░░░░ b      (start, stop)
        let end = from.offset + self.item(item).bytes;
        let (start, stop) = self.gap(from);
        self.note_hole(from.block, (start, from.offset), false);
        self.note_hole(from.block, (end, stop), false);
        self.note_hole(from.block, (start, stop), true);
        self.free[from.block as usize] += self.item(item).bytes;
        Some(from)
    }

    fn put(&mut self, item: u32, at: At) {
        debug_assert!(self.is_free(at, self.item(item).bytes), "a step goes to a free place");
        // The reverse: one hole becomes up to two. Read before the item is in the list, where it would be its own neighbour.
        let end = at.offset + self.item(item).bytes;
        let (start, stop) = self.gap(at);
        self.note_hole(at.block, (start, stop), false);
        self.note_hole(at.block, (start, at.offset), true);
        self.note_hole(at.block, (end, stop), true);
        self.free[at.block as usize] -= self.item(item).bytes;
        self.blocks[at.block as usize].insert(at.offset, item);
        self.places[item as usize] = Some(at);
    }

    fn note_hole(&mut self, block: u32, (start, end): (u64, u64), there: bool) {
        let hole = (end - start, At { block, offset: start });
        if start == end {
            return;
        }
        let holes = &mut self.holes[self.arenas[block as usize] as usize];
        let changed = if there { holes.insert(hole) } else { holes.remove(&hole) };
        debug_assert!(changed, "each free range is in the list once");
    }
}
