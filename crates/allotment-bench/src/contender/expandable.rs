//! `PyTorch`'s caching allocator with expandable segments, from its description: a model that counts bytes.
//!
//! None of its code runs, and no driver is called. Each segment is a range of addresses that is larger than the memory
//! of the device, to which the allocator maps pages at the end, and none of which it unmaps before memory runs out:
//!
//! ```text
//!   small segment    requests up to 1 MiB      pages of 2 MiB
//!   large segment    all others                pages of 20 MiB
//!
//!   | used | free | used | free, to which pages are added | not mapped ...
//! ```
//!
//! A request is rounded up to 512 bytes and takes the smallest free range that has room; the range at the end counts as
//! endless. Where none has room, pages are mapped after the end. An "allocation call" of the driver is a page that is
//! mapped. All requests share one memory type, whatever their [role](super::Role), as on lavapipe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Contender, Refusal, Request};
use crate::vulkan::Reading;

const MIB: u64 = 1 << 20;
/// Every size is a multiple of this.
const ROUNDING: u64 = 512;
/// The largest request of a small segment.
const SMALL: u64 = MIB;
const SMALL_PAGE: u64 = 2 * MIB;
const LARGE_PAGE: u64 = 20 * MIB;

/// A range of addresses to which pages are mapped at the end.
#[derive(Debug, Default)]
struct Segment {
    /// Mapped bytes.
    mapped: u64,
    /// Size by address. No two of them touch.
    free: BTreeMap<u64, u64>,
    /// Size, then address: the order in which the best fit is found.
    by_size: BTreeSet<(u64, u64)>,
}

impl Segment {
    fn insert(&mut self, at: u64, size: u64) {
        self.free.insert(at, size);
        self.by_size.insert((size, at));
    }

    fn remove(&mut self, at: u64) -> Option<u64> {
        let size = self.free.remove(&at)?;
        self.by_size.remove(&(size, at));
        Some(size)
    }

    /// Returns the address, and how many pages were mapped.
    fn allocate(&mut self, size: u64, page: u64) -> (u64, u64) {
        let end = self.mapped;
        let fitting = self.by_size.range((size, 0)..);
        // The range at the end is the last choice, since it counts as endless.
        let inside = fitting.copied().find(|&(room, at)| at + room != end);
        let last = self.free.last_key_value().filter(|&(at, room)| at + room == end).map(|(&at, _)| at);
        let mut pages = 0;
        let at = match (inside, last) {
            (Some((_, at)), _) => at,
            (None, last) => {
                let at = last.unwrap_or(end);
                let room = last.and_then(|at| self.remove(at)).unwrap_or(0);
                pages = size.saturating_sub(room).div_ceil(page);
                self.mapped += pages * page;
                self.insert(at, room + pages * page);
                at
            }
        };
        let room = self.remove(at).unwrap_or(0);
        if room > size {
            self.insert(at + size, room - size);
        }
        (at, pages)
    }

    fn free(&mut self, at: u64, size: u64) {
        let (mut begin, mut room) = (at, size);
        let before = self.free.range(..at).next_back().map(|(&at, &size)| (at, size));
        if let Some((before, size)) = before.filter(|(before, size)| before + size == at) {
            self.remove(before);
            (begin, room) = (before, room + size);
        }
        room += self.remove(at + size).unwrap_or(0);
        self.insert(begin, room);
    }
}

/// The model.
#[derive(Debug, Default)]
pub(crate) struct ExpandableSegments {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    small: Segment,
    large: Segment,
    reading: Reading,
}

impl State {
    /// Returns the segment for a rounded size, and the bytes of its pages.
    fn segment(&mut self, size: u64) -> (&mut Segment, u64) {
        if size <= SMALL { (&mut self.small, SMALL_PAGE) } else { (&mut self.large, LARGE_PAGE) }
    }
}

impl Contender for ExpandableSegments {
    /// Address and rounded size.
    type Token = (u64, u64);

    fn name(&self) -> &'static str {
        "expandable"
    }

    fn allocate(&self, request: &Request) -> Result<Self::Token, Refusal> {
        // Alignments above the rounding would be met by the sizes of pages; the recorded ones are below it or are met
        // by rounding the size, as other sizes of the segment are multiples too.
        let size = request.size.next_multiple_of(ROUNDING);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (segment, page) = state.segment(size);
        let (at, pages) = segment.allocate(size, page);
        state.reading.allocate_calls += pages;
        state.reading.reserved_bytes += pages * page;
        Ok((at, size))
    }

    fn free(&self, (at, size): Self::Token) -> Result<(), Refusal> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).segment(size).0.free(at, size);
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Kind, Role};

    fn request(size: u64) -> Request {
        Request { size, alignment: 256, kind: Kind::Buffer, role: Role::Device }
    }

    #[test]
    fn expandable_segments_grow_by_pages_of_their_size_and_reuse_the_best_fit() {
        let model = ExpandableSegments::default();
        let small = model.allocate(&request(1000)).unwrap();
        assert_eq!(model.reading().reserved_bytes, 2 * MIB);
        let large: Vec<_> =
            [5, 9, 5].map(|mib| model.allocate(&request(mib * MIB)).unwrap()).into_iter().collect();
        assert_eq!(model.reading().reserved_bytes, 22 * MIB);
        model.free(large[1]).unwrap();
        let (reused, _) = model.allocate(&request(8 * MIB)).unwrap();
        assert_eq!((reused, model.reading().reserved_bytes), (5 * MIB, 22 * MIB));
        // The last MiB of the page and two further pages.
        let (grown, _) = model.allocate(&request(30 * MIB)).unwrap();
        assert_eq!((grown, model.reading().reserved_bytes), (19 * MIB, 62 * MIB));
        model.free(small).unwrap();
        assert_eq!(model.reading().reserved_bytes, 62 * MIB, "no page is unmapped");
    }
}
