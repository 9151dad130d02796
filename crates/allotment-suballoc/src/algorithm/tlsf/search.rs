//! The search for the free region that serves a request.

use core::ops::ControlFlow;

use super::by_address::MANY;
use super::nodes::END;
use super::stacks::{Found, Next};
use super::{Tlsf, Width};
use crate::algorithm::NONE;
use crate::{Alignment, FitStrategy, Request};

/// The regions of a class that the search for the smallest looks at: no class whose regions differ in size has more.
// (`CROWDED` + 1) · `DEPTH` of the stacks: change them together.
const OF_CLASS: usize = 136;

/// The regions that it looks at in all.
const OF_ALL: usize = 4 * OF_CLASS;

/// The result of a search.
pub(super) enum Search {
    /// The entry of a free region that fits.
    Listed(Found),
    /// The node of a free region that fits: the last one, or one that has an entry.
    Node(u32),
    /// No region fits.
    Nothing,
    /// Only an index by address knows.
    Ask,
}

impl From<Option<u32>> for Search {
    fn from(found: Option<u32>) -> Self {
        found.map_or(Self::Nothing, Self::Node)
    }
}

impl<W: Width> Tlsf<W> {
    #[inline]
    pub(super) fn fits(&self, index: u32, size: u64, alignment: Alignment) -> bool {
        alignment.align_up(self.nodes.offset(index)) + size <= self.nodes.end(index)
    }

    /// Returns the last free region if it fits.
    #[inline]
    pub(super) fn last_if_fits(&self, size: u64, alignment: Alignment) -> Option<u32> {
        (self.last != END && self.fits(self.last, size, alignment)).then_some(self.last)
    }

    /// Makes the index that the search for a request would ask, as far as `regions` further regions. Returns `true` if it needs none,
    /// or no more of it.
    #[inline(never)]
    pub(super) fn prepare_index(&mut self, request: &Request, regions: usize) -> bool {
        let wanted = (request.size, self.unmet(request.alignment));
        !matches!(self.search(request), Search::Ask)
            || self.by_address.ask_some(&self.nodes, wanted, u64::MAX, regions).is_some()
    }

    /// Returns the free region that serves a request.
    #[inline(never)]
    pub(super) fn search(&self, request: &Request) -> Search {
        // In the order of what it costs, and each step only where the one before found nothing:
        //
        //   Balanced       one chunk of the own class, then of the next class ─► the last region
        //   … aligned      two chunks of four classes ─► a region that fits at any offset ─► the last region ─► 128 others ─► index
        //   LeastTime      the first region of a class that surely fits ─► all regions of the own class ─► the last region
        //   LeastMemory    136 regions of the first class that has a fit, and the last region ─► index
        //   LowestOffset   all regions, where they are few ─► index
        //
        // The last region comes late: what is behind the highest range can be given back, or serve a large request.
        let request = &Request { alignment: self.unmet(request.alignment), ..*request };
        let Request { size, alignment, strategy, .. } = *request;
        if strategy != FitStrategy::Balanced {
            return self.search_otherwise(request);
        }
        if alignment != Alignment::ONE {
            return self.search_further(request);
        }
        match self.stacks.close(size) {
            Some(found) => Search::Listed(found),
            // That nothing listed holds the size is certain.
            None => self.last_if_fits(size, alignment).into(),
        }
    }

    /// Searches by a strategy that is not the default.
    fn search_otherwise(&self, request: &Request) -> Search {
        let Request { size, alignment, strategy, .. } = *request;
        if strategy != FitStrategy::LeastTime {
            return self.search_all(request);
        }
        match self.stacks.surely(size) {
            Some(sure) if self.stacks.holds(sure, size, alignment) => Search::Listed(sure),
            // Regions of the size's own class are left.
            _ => self.search_further(request),
        }
    }

    /// Searches by a strategy that looks at all regions of a class, or of the block.
    fn search_all(&self, request: &Request) -> Search {
        let Request { size, alignment, strategy, .. } = *request;
        match strategy {
            FitStrategy::LowestOffset if self.has_index_of_lowest(alignment) => Search::Ask,
            FitStrategy::LowestOffset => self.find_lowest(size, alignment, self.size).into(),
            _ => self.find_smallest(size, alignment),
        }
    }

    /// Returns `true` if the lowest region is found by an index: there is one, or are so many regions that one is made.
    pub(super) fn has_index_of_lowest(&self, alignment: Alignment) -> bool {
        self.stacks.len() as usize > MANY
            || self.by_address.has(alignment)
            || self.by_address.has(Alignment::ONE)
    }

    /// Searches where the regions that are the first choice do not fit.
    ///
    /// A strategy decides where a range is placed, never whether: regions that a bounded search passed over are searched
    /// before the request is refused.
    #[inline(never)]
    fn search_further(&self, request: &Request) -> Search {
        // Without an alignment, a region of the own class that is large enough is found for sure: no class that is not divided
        // has more than a search looks at.
        let Request { size, alignment, strategy, .. } = *request;
        if alignment == Alignment::ONE {
            let closest = self.stacks.closest(size).map(Search::Listed);
            return closest.unwrap_or_else(|| self.last_if_fits(size, alignment).into());
        }
        if strategy == FitStrategy::Balanced {
            if let Some(close) = self.stacks.close_aligned(size, alignment) {
                return Search::Listed(close);
            }
        }
        // Wherever such a region begins, an aligned offset follows within `alignment - 1` units. This is what the published
        // algorithm searches first; here it comes after those that happen to be aligned, which need not be split so much.
        if let Some(sure) = self.stacks.surely(size + (alignment.get() - 1)) {
            return Search::Listed(sure);
        }
        if let Some(last) = self.last_if_fits(size, alignment) {
            return Search::Node(last);
        }
        // All that is left are regions that are large enough and aligned wrongly, and perhaps some that fit.
        // With an index there is nothing to look for here: it answers in the time of a few of these looks.
        if !self.by_address.has(alignment) {
            let (found, is_all) = self.look_at_some(size, alignment, MANY, MANY);
            if found.is_some() || is_all {
                return found.into();
            }
        }
        Search::Ask
    }

    /// Returns the smallest fit, the lowest of equals. Where more are equal than a search looks at, the lowest of these; where
    /// that many are aligned wrongly, only the index knows.
    fn find_smallest(&self, size: u64, alignment: Alignment) -> Search {
        let (smallest, is_all) = self.look_at_some(size, alignment, OF_CLASS, OF_ALL);
        let is_smaller = |other: u32| self.last_size() < self.nodes.end(other) - self.nodes.offset(other);
        match smallest {
            Some(other) if !is_smaller(other) => Search::Node(other),
            // Not where all were looked at: an index costs every change from then on, and this answer is certain.
            None if !is_all => Search::Ask,
            _ => self.last_if_fits(size, alignment).or(smallest).into(),
        }
    }

    /// Returns the smallest fit of the first class that has one, of at most `look` regions in a class and `most` in all,
    /// and whether there are no others.
    fn look_at_some(&self, size: u64, alignment: Alignment, look: usize, most: usize) -> (Option<u32>, bool) {
        let (mut best, mut is_all) = (None, true);
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
            if entry.fits(size, alignment) {
                let key = (entry.size, entry.offset, entry.node);
                best = Some(best.map_or(key, |best| key.min(best)));
            }
            let next = match () {
                () if in_all >= most => Next::End,
                () if in_class >= look => Next::Class,
                () => return Next::Further,
            };
            is_all = false;
            next
        });
        (best.map(|(_, _, node)| node), is_all)
    }

    /// Returns the lowest fit of all that ends at or below `limit`. Looks at all regions that are large enough.
    pub(super) fn find_lowest(&self, size: u64, alignment: Alignment, limit: u64) -> Option<u32> {
        // Every other region with room ends above the lowest one.
        let mut lowest = self.last_if_fits(size, alignment).map(|last| (self.nodes.offset(last), last));
        // The stacks are sorted by size and not by offset, so every region that is large enough is looked at.
        let _: ControlFlow<()> = self.stacks.visit(size, &mut |entry| {
            if entry.fits(size, alignment) {
                let found = (entry.offset, entry.node);
                lowest = Some(lowest.map_or(found, |lowest| lowest.min(found)));
            }
            Next::Further
        });
        lowest.filter(|(offset, _)| alignment.align_up(*offset) + size <= limit).map(|(_, node)| node)
    }
}
