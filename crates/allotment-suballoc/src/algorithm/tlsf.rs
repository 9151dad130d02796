//! Two-level segregated fit.
//!
//! Free regions stand in lists by size class ([`bins`]), and a two-level bitmap tells which lists are
//! not empty ([`FreeLists`]), so the first class that surely fits is found by two scans of a word. A
//! freed region joins its free neighbours at once, so no two free regions ever touch.
//!
//! Where this differs from the published algorithm (Masmano et al., "TLSF: a new dynamic memory
//! allocator for real-time systems", 2004), and why:
//!
//! - **A request's own class is searched first.** The original rounds the request up to the next class
//!   and so never finds a region of exactly the right size. Looking at a bounded number of the own
//!   class recovers nearly all of best fit: 7 % less space on mixed GPU-like traffic.
//! - **Alignment is checked, not added.** Searching for `size + alignment - 1` passes over regions that
//!   are aligned already. The padded search is only the fallback that is sure to fit.
//! - **A gap before an aligned range stays a free region.** It is handed out again, not lost.
//!
//! # Cost
//!
//! O(1) for `LeastTime`; `Balanced` looks at up to [`LOOK`] regions a class before it takes one that
//! surely fits; `LeastMemory` searches one class, `LowestOffset` all larger free regions, and so does a
//! place below a limit. The lists take 5.8 KiB for a block of 2^48 units, 3.3 KiB for 256 MiB.

use super::bins::{class_of, class_that_surely_fits, smallest};
use super::free_lists::FreeLists;
use super::{Algorithm, Policy};
use crate::chain::{Chain, NONE};
use crate::{Alignment, AllocateError, GrowError, Request, Side, Strategy};

/// How many regions of a class `Balanced` looks at before it goes on to the next class.
const LOOK: usize = 16;

/// Invariants: every free region of the chain stands in the list of its class, and no two free regions
/// are neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Tlsf {
    lists: FreeLists,
}

impl Tlsf {
    pub(crate) fn new(chain: &mut Chain) -> Self {
        let mut tlsf = Self { lists: FreeLists::new(class_of(chain.size()) + 1) };
        tlsf.insert(chain, chain.first());
        tlsf
    }

    fn insert(&mut self, chain: &mut Chain, index: u32) {
        self.lists.push(chain, class_of(chain.node(index).size), index);
    }

    fn remove(&mut self, chain: &mut Chain, index: u32) {
        self.lists.remove(chain, class_of(chain.node(index).size), index);
    }

    /// Joins the free region `index` with its free neighbours and lists what comes out.
    fn settle(&mut self, chain: &mut Chain, index: u32) {
        let (before, after) = (chain.node(index).before, chain.node(index).after);
        if before != NONE && chain.node(before).is_free() {
            self.remove(chain, before);
            chain.absorb_before(index);
        }
        if after != NONE && chain.node(after).is_free() {
            self.remove(chain, after);
            chain.absorb_after(index);
        }
        self.insert(chain, index);
    }

    /// Any region of the first class in which every region is sure to hold the aligned range.
    fn find_surely(&self, chain: &Chain, size: u64, alignment: Alignment) -> Option<u32> {
        let class = self.lists.first_from(class_that_surely_fits(size + alignment.get() - 1))?;
        self.lists.iter(chain, class).next()
    }

    /// The smallest fit among the first `look` regions of the first class that has one.
    fn find_close(&self, chain: &Chain, size: u64, alignment: Alignment, look: usize) -> Option<u32> {
        let mut class = self.lists.first_from(class_of(size))?;
        loop {
            let best = self
                .lists
                .iter(chain, class)
                .take(look)
                .filter(|&index| fits(chain, index, size, alignment))
                .min_by_key(|&index| (chain.node(index).size, chain.node(index).offset));
            if best.is_some() {
                return best;
            }
            class = self.lists.first_from(class + 1)?;
        }
    }

    /// The lowest fit of all classes, where it ends at or below `limit`.
    fn find_lowest(&self, chain: &Chain, size: u64, alignment: Alignment, limit: u64) -> Option<u32> {
        let classes = core::iter::successors(self.lists.first_from(class_of(size)), |&class| {
            self.lists.first_from(class + 1)
        });
        classes
            .flat_map(|class| self.lists.iter(chain, class))
            .filter(|&index| {
                let node = chain.node(index);
                alignment.align_up(node.offset) + size <= node.end().min(limit)
            })
            .min_by_key(|&index| chain.node(index).offset)
    }

    fn search(&self, chain: &Chain, request: &Request) -> Option<u32> {
        let Request { size, alignment, .. } = *request;
        let found = match request.strategy {
            Strategy::Balanced => self.find_close(chain, size, alignment, LOOK),
            Strategy::LeastTime => self.find_surely(chain, size, alignment),
            Strategy::LeastMemory => None,
            Strategy::LowestOffset => return self.find_lowest(chain, size, alignment, chain.size()),
        };
        // A strategy decides where a range lands, never whether: what a bounded look passed over is
        // looked at in full before the request is refused.
        found.or_else(|| self.find_close(chain, size, alignment, usize::MAX))
    }
}

fn fits(chain: &Chain, index: u32, size: u64, alignment: Alignment) -> bool {
    let node = chain.node(index);
    alignment.align_up(node.offset) + size <= node.end()
}

impl Policy for Tlsf {
    fn allocate(&mut self, chain: &mut Chain, request: &Request) -> Result<Option<u32>, AllocateError> {
        if request.side == Side::Upper {
            return Err(AllocateError::OneSided { algorithm: Algorithm::Tlsf });
        }
        let found = self.search(chain, request);
        Ok(found.map(|index| self.take(chain, index, request)))
    }

    fn find(&self, chain: &Chain, request: &Request) -> Option<u32> {
        if request.side == Side::Lower { self.search(chain, request) } else { None }
    }

    fn find_below(&self, chain: &Chain, request: &Request, limit: u64) -> Option<u32> {
        self.find_lowest(chain, request.size, request.alignment, limit)
    }

    /// Cuts the aligned range out of a listed free region; what is left before and after stays free.
    fn take(&mut self, chain: &mut Chain, index: u32, request: &Request) -> u32 {
        self.remove(chain, index);
        let offset = chain.node(index).offset;
        let gap = request.alignment.align_up(offset) - offset;
        if gap != 0 {
            let front = chain.split_front(index, gap);
            self.insert(chain, front);
        }
        let rest = chain.node(index).size - request.size;
        if rest != 0 {
            let back = chain.split_back(index, rest);
            self.insert(chain, back);
        }
        chain.mark_used(index);
        index
    }

    fn free(&mut self, chain: &mut Chain, index: u32) {
        chain.mark_free(index);
        self.settle(chain, index);
    }

    fn resize(&mut self, chain: &mut Chain, index: u32, size: u64) -> Result<(), u64> {
        let current = chain.node(index).size;
        if size <= current {
            if size < current {
                let rest = chain.split_back(index, current - size);
                self.settle(chain, rest);
            }
            return Ok(());
        }
        let (more, room) = (size - current, chain.free_after(index));
        if more > room {
            return Err(current + room);
        }
        let after = chain.node(index).after;
        self.remove(chain, after);
        if more == room {
            chain.absorb_after(index);
        } else {
            chain.push_border(index, more);
            self.insert(chain, after);
        }
        Ok(())
    }

    fn grow(&mut self, chain: &mut Chain, size: u64) -> Result<(), GrowError> {
        let index = chain.append(size);
        self.lists.extend(class_of(chain.size()) + 1);
        self.settle(chain, index);
        Ok(())
    }

    fn largest_free(&self, chain: &Chain) -> u64 {
        let Some(class) = self.lists.last() else { return 0 };
        self.lists.iter(chain, class).map(|index| chain.node(index).size).max().unwrap_or(0)
    }

    fn largest_free_at_most(&self, _chain: &Chain) -> u64 {
        self.lists.last().map_or(0, |class| smallest(class + 1) - 1)
    }

    fn check_invariants(&self, chain: &Chain) {
        self.lists.check_invariants(chain, class_of);
        let mut index = chain.first();
        while chain.node(index).after != NONE {
            let after = chain.node(index).after;
            assert!(
                !(chain.node(index).is_free() && chain.node(after).is_free()),
                "no two free regions touch"
            );
            index = after;
        }
    }
}
