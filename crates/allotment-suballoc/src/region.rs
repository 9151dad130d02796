//! The regions of a block, in address order.

use core::iter::FusedIterator;

use crate::algorithm::Ranges;
use crate::algorithm::{NONE, State};
use crate::{Handle, VirtualBlock};

/// One region of a block: `size` units from `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a, T> {
    /// The offset, in units.
    pub offset: u64,
    /// The size, in units; never 0.
    pub size: u64,
    /// The state of the region.
    pub kind: RegionKind<'a, T>,
}

/// The state of a region of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionKind<'a, T> {
    /// A live range.
    Used {
        /// Its handle.
        handle: Handle,
        /// The user data stored with it.
        data: &'a T,
    },
    /// Lost to alignment (linear) or to rounding (buddy) until the live range beside it is freed.
    Padding,
    /// Not allocated.
    Free,
}

/// An iterator over all regions of a block in address order. The regions tile the block without a gap.
///
/// Returned by [`VirtualBlock::regions`].
pub struct Regions<'a, T> {
    block: &'a VirtualBlock<T>,
    next: u32,
}

impl<'a, T> Regions<'a, T> {
    pub(crate) fn new(block: &'a VirtualBlock<T>) -> Self {
        Self { block, next: block.engine.first() }
    }

    /// The regions behind the live range at an index.
    pub(crate) fn behind(block: &'a VirtualBlock<T>, index: u32) -> Self {
        // Behind a buddy or linear range comes its padding first, which is part of what a reader has to see.
        Self { block, next: block.engine.place(index).after }
    }
}

impl<'a, T> Iterator for Regions<'a, T> {
    type Item = Region<'a, T>;

    fn next(&mut self) -> Option<Region<'a, T>> {
        // Along the links of the algorithm, which keeps every region: used, free or padding.
        while self.next != NONE {
            let index = self.next;
            let place = self.block.engine.place(index);
            self.next = place.after;
            if place.size == 0 {
                // The gap of the linear algorithm in a full block: a position, not a region.
                continue;
            }
            let kind = match place.state {
                State::Used => {
                    let handle = self.block.handle_at(index);
                    RegionKind::Used { handle, data: self.block.data_at(index)? }
                }
                State::Padding => RegionKind::Padding,
                // No region is vacant; the match has to name the state nevertheless.
                State::Free | State::Vacant => RegionKind::Free,
            };
            return Some(Region { offset: place.offset, size: place.size, kind });
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
