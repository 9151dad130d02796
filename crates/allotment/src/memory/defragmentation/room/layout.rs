//! The ranges of some blocks, on which a plan is tried out before anything is moved.

use std::collections::BTreeMap;

use allotment_suballoc::Alignment;

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
    /// Into memory of the run's own, since its new place overlaps its old one. The next step moves it from there.
    Aside,
}

/// Blocks, and what is where in them.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    sizes: Vec<u64>,
    items: Vec<Item>,
    /// Of each block: the items by offset.
    blocks: Vec<BTreeMap<u64, u32>>,
    /// Of each item: `None` while it is aside.
    places: Vec<Option<At>>,
}

impl Layout {
    /// Creates blocks of some sizes with items in them, which do not overlap.
    pub(super) fn new(sizes: Vec<u64>, items: impl IntoIterator<Item = (Item, At)>) -> Self {
        let blocks = vec![BTreeMap::new(); sizes.len()];
        let mut layout = Self { sizes, items: Vec::new(), blocks, places: Vec::new() };
        for (index, (item, at)) in (0..).zip(items) {
            layout.items.push(item);
            layout.places.push(Some(at));
            let before = layout.blocks[at.block as usize].insert(at.offset, index);
            debug_assert!(before.is_none(), "items do not overlap");
        }
        layout
    }

    pub(super) fn block_count(&self) -> u32 {
        self.sizes.len() as u32
    }

    pub(super) fn size(&self, block: u32) -> u64 {
        self.sizes[block as usize]
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

    /// Returns the free ranges of a block, as start and end.
    pub(super) fn holes(&self, block: u32) -> Vec<(u64, u64)> {
        let (mut holes, mut end) = (Vec::new(), 0);
        for (offset, item) in self.in_block(block) {
            if offset > end {
                holes.push((end, offset));
            }
            end = offset + self.item(item).bytes;
        }
        if end < self.size(block) {
            holes.push((end, self.size(block)));
        }
        holes
    }

    /// Returns true where a range is within its block and nothing but `but` is in it.
    pub(super) fn is_free(&self, at: At, bytes: u64, but: Option<u32>) -> bool {
        let end = at.offset + bytes;
        let before = self.blocks[at.block as usize].range(..end).rev();
        // Items do not overlap, so at most two can be looked at before one ends too early: `but`, and another.
        let meets =
            |(&offset, &item): (&u64, &u32)| offset + self.item(item).bytes > at.offset && Some(item) != but;
        end <= self.size(at.block) && !before.take(2).any(meets)
    }

    /// Moves an item. Panics, in tests, where the place is not free: a plan has only steps that can be done in their
    /// order.
    pub(super) fn step(&mut self, item: u32, to: Place) {
        if let Some(from) = self.places[item as usize].take() {
            self.blocks[from.block as usize].remove(&from.offset);
        }
        if let Place::At(at) = to {
            debug_assert!(self.is_free(at, self.item(item).bytes, None), "a step goes to a free place");
            self.blocks[at.block as usize].insert(at.offset, item);
            self.places[item as usize] = Some(at);
        }
    }
}
