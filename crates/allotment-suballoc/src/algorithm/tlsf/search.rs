//! The search for the free region that serves a request.

use core::ops::ControlFlow;

use super::nodes::END;
use super::rooms::MANY;
use super::stacks::Next;
use super::{Tlsf, Width};
use crate::chain::NONE;
use crate::{Alignment, Request, Strategy};

/// The number of regions of a class that a search looks at before it goes on to the next class, where some are aligned
/// wrongly.
const LOOK: usize = 16;

/// The result of a search.
pub(super) enum Search {
    /// The node of a free region that fits.
    Found(u32),
    /// No region fits.
    Nothing,
    /// Only the [`Rooms`] know.
    Ask,
}

impl From<Option<u32>> for Search {
    fn from(found: Option<u32>) -> Self {
        found.map_or(Self::Nothing, Self::Found)
    }
}

impl<W: Width> Tlsf<W> {
    #[inline]
    fn fits(&self, index: u32, size: u64, alignment: Alignment) -> bool {
        alignment.align_up(self.nodes.offset(index)) + size <= self.nodes.end(index)
    }

    /// Returns the last free region if it fits.
    #[inline]
    fn last_if_fits(&self, size: u64, alignment: Alignment) -> Option<u32> {
        (self.last != END && self.fits(self.last, size, alignment)).then_some(self.last)
    }

    /// Returns the free region that serves a request.
    #[inline(always)]
    pub(super) fn search(&self, request: &Request) -> Search {
        let Request { size, alignment, strategy, .. } = *request;
        if size > self.size {
            return Search::Nothing;
        }
        if strategy != Strategy::Balanced {
            return self.search_otherwise(request);
        }
        let Some(slot) = self.stacks.close(size) else {
            // Without an alignment, that there is none in the stacks is certain.
            let is_aligned = alignment == Alignment::ONE;
            return if is_aligned {
                self.last_if_fits(size, alignment).into()
            } else {
                self.search_further(request)
            };
        };
        let node = self.stacks.node(slot);
        // Offsets need no look where nothing is aligned: the node of a region of 10^6 may be in no cache.
        if alignment == Alignment::ONE || self.fits(node, size, alignment) {
            return Search::Found(node);
        }
        self.search_further(request)
    }

    /// Searches by a strategy that is not the default.
    fn search_otherwise(&self, request: &Request) -> Search {
        let Request { size, alignment, strategy, .. } = *request;
        match strategy {
            Strategy::LowestOffset => return self.find_lowest(size, alignment, self.size).into(),
            Strategy::LeastMemory => return self.find_smallest(size, alignment).into(),
            Strategy::LeastTime | Strategy::Balanced => {}
        }
        let sure = self.stacks.surely(size + (alignment.get() - 1)).map(|slot| self.stacks.node(slot));
        sure.map_or_else(|| self.search_further(request), Search::Found)
    }

    /// Searches where the regions that are the first choice do not fit.
    ///
    /// A strategy decides where a range is placed, never whether: regions that a bounded search passed over are searched
    /// before the request is refused.
    #[inline(never)]
    fn search_further(&self, request: &Request) -> Search {
        let Request { size, alignment, strategy, .. } = *request;
        if alignment == Alignment::ONE {
            let closest = self.stacks.closest(size).map(|slot| self.stacks.node(slot));
            return closest.or_else(|| self.last_if_fits(size, alignment)).into();
        }
        let (close, looked) = match strategy {
            Strategy::LeastTime => (None, 0),
            _ => self.look_at_some(size, alignment, LOOK, MANY),
        };
        let surely = || self.stacks.surely(size + (alignment.get() - 1)).map(|slot| self.stacks.node(slot));
        if let Some(found) = close.or_else(surely).or_else(|| self.last_if_fits(size, alignment)) {
            return Search::Found(found);
        }
        // All that is left are regions that are large enough and aligned wrongly, and perhaps some that fit.
        if looked < MANY && !self.rooms.has(alignment) {
            let (found, looked) = self.look_at_some(size, alignment, MANY, MANY);
            if found.is_some() || looked < MANY {
                return found.into();
            }
        }
        Search::Ask
    }

    /// Returns the smallest fit of all regions, the lowest of equals. Looks at all of a class.
    fn find_smallest(&self, size: u64, alignment: Alignment) -> Option<u32> {
        let (smallest, _) = self.look_at_some(size, alignment, usize::MAX, usize::MAX);
        let is_smaller = |other: u32| self.last_size() < self.nodes.end(other) - self.nodes.offset(other);
        match smallest {
            Some(other) if !is_smaller(other) => smallest,
            _ => self.last_if_fits(size, alignment).or(smallest),
        }
    }

    /// Returns the smallest fit of the first class that has one, of at most `look` regions in a class and `most` in all,
    /// and how many were looked at.
    fn look_at_some(
        &self,
        size: u64,
        alignment: Alignment,
        look: usize,
        most: usize,
    ) -> (Option<u32>, usize) {
        let mut best = None;
        let (mut class, mut in_class, mut in_all) = (NONE, 0, 0);
        let _ = self.stacks.visit(size, &mut |entry| {
            if entry.class != class {
                // Regions of later classes are larger than every region of earlier ones, so the first class that has a
                // fit has the best one.
                if best.is_some() {
                    return Next::End;
                }
                (class, in_class) = (entry.class, 0);
            }
            in_class += 1;
            in_all += 1;
            // The smallest, as best fit does; of equals the lowest, which keeps the end of the block free.
            if entry.size >= size && self.fits(entry.node, size, alignment) {
                let key = (entry.size, self.nodes.offset(entry.node), entry.node);
                best = Some(best.map_or(key, |best| key.min(best)));
            }
            match () {
                () if in_all >= most => Next::End,
                () if in_class >= look => Next::Class,
                () => Next::Entry,
            }
        });
        (best.map(|(_, _, node)| node), in_all)
    }

    /// Returns the lowest fit of all that ends at or below `limit`.
    pub(super) fn find_lowest(&self, size: u64, alignment: Alignment, limit: u64) -> Option<u32> {
        let fits = |node| {
            let offset = self.nodes.offset(node);
            let ends_in_time = alignment.align_up(offset) + size <= self.nodes.end(node).min(limit);
            ends_in_time.then_some((offset, node))
        };
        // The stacks are sorted by size and not by offset, so every region that is large enough is looked at.
        let mut lowest = Some(self.last).filter(|&last| last != END).and_then(fits);
        let _: ControlFlow<()> = self.stacks.visit(size, &mut |entry| {
            if let Some(found) = fits(entry.node) {
                lowest = Some(lowest.map_or(found, |lowest| lowest.min(found)));
            }
            Next::Entry
        });
        lowest.map(|(_, node)| node)
    }
}
