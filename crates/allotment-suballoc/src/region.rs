//! A view of the block, region by region.

use core::iter::FusedIterator;

use crate::chain::{NONE, State};
use crate::{Handle, VirtualBlock};

/// One region of a block: `size` units from `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a, T> {
    /// Where the region begins, in units.
    pub offset: u64,
    /// How long it is, in units; never 0.
    pub size: u64,
    /// What it is.
    pub kind: RegionKind<'a, T>,
}

/// What a region of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionKind<'a, T> {
    /// A live range.
    Used {
        /// Its handle.
        handle: Handle,
        /// What its owner keeps with it.
        data: &'a T,
    },
    /// Lost to alignment (linear) or to rounding (buddy) until the live range beside it is freed.
    Padding,
    /// Handed out to nobody.
    Free,
}

/// All regions of a block in address order; they tile it without a gap.
///
/// Made by [`VirtualBlock::regions`].
pub struct Regions<'a, T> {
    block: &'a VirtualBlock<T>,
    next: u32,
}

impl<'a, T> Regions<'a, T> {
    pub(crate) fn new(block: &'a VirtualBlock<T>) -> Self {
        Self { block, next: block.chain.first() }
    }
}

impl<'a, T> Iterator for Regions<'a, T> {
    type Item = Region<'a, T>;

    fn next(&mut self) -> Option<Region<'a, T>> {
        while self.next != NONE {
            let index = self.next;
            let node = self.block.chain.node(index);
            self.next = node.after;
            if node.size == 0 {
                // The linear algorithm's gap, where the block is full.
                continue;
            }
            let kind = match node.state() {
                State::Used => {
                    let handle = self.block.handle_at(index);
                    RegionKind::Used { handle, data: self.block.data_at(index)? }
                }
                State::Padding => RegionKind::Padding,
                State::Free | State::Vacant => RegionKind::Free,
            };
            return Some(Region { offset: node.offset, size: node.size, kind });
        }
        None
    }
}

impl<T> FusedIterator for Regions<'_, T> {}

impl<T> core::fmt::Debug for Regions<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Regions").finish_non_exhaustive()
    }
}
