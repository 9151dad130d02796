//! What a block asks of its algorithm.

use super::by_address::{ByAddress, MANY};
use super::nodes::{END, FIRST_GENERATION, LAST, Node, USED};
use super::search::Search;
use super::stacks::Choice;
use super::{LAST_EPOCH, Tlsf, Width};
use crate::algorithm::{Place, Ranges, Taken};
use crate::algorithm::{State, Tally, coarse_class};
use crate::read_ahead::Reach;
use crate::{Algorithm, AllocateError, FitStrategy, GrowError, Request, StackSide};

impl<W: Width> Ranges for Tlsf<W> {
    #[inline(always)]
    fn allocate_quickly(&mut self, request: &Request) -> Option<Taken> {
        let Request { size, alignment, strategy, side } = *request;
        // The common request in one straight line, whose result never goes through memory: that took the time among 10^3
        // ranges from 1.34 to 1.10 of offset-allocator's (docs/measurements/2026-11-25-ranges.md). With an index by address
        // there are changes to note, so the request is left to the other way.
        let is_simple = side == StackSide::Lower && !self.by_address.is_used();
        if !is_simple || size.wrapping_sub(1) >= self.size || self.is_full() {
            return None;
        }
        if strategy != FitStrategy::Balanced || !self.is_met(alignment) {
            // Taken apart: the result of a call is in memory, and would keep that of the straight line there.
            let taken = self.allocate_almost_quickly(request)?;
            return Some(taken);
        }
        let Some(class) = self.stacks.first_class(size) else {
            // Nothing that is listed fits, for sure, so the last region is next. Where it is too small, the request is refused, and
            // the other way says why.
            if size > self.last_size() {
                return None;
            }
            let offset = self.nodes.offset(self.last);
            let range = self.take_from_last(offset, size);
            return Some(self.taken(range, offset));
        };
        // Mostly the top chunk of the first class with entries has one, be it the size's own class or a larger one: one
        // way for both, since which of the two it is cannot be predicted.
        let close = self.stacks.take_of_top(&mut self.nodes, class, size, Choice::Closest)?;
        Some(self.take_front(close, size))
    }

    fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        if request.side == StackSide::Upper {
            return Err(AllocateError::OneSided { algorithm: Algorithm::Tlsf });
        }
        let node = match self.search(request) {
            Search::Listed(found) => {
                let taken =
                    self.take_listed(found, |offset| request.alignment.align_up(offset), request.size);
                self.settle();
                return Ok(Some(taken));
            }
            Search::Node(node) => Some(node),
            Search::Nothing => None,
            Search::Ask => {
                let alignment = self.unmet(request.alignment);
                self.by_address.ask(&self.nodes, request.size, alignment, u64::MAX)
            }
        };
        Ok(node.map(|node| self.take(node, request)))
    }

    fn room_for(&self, request: &Request) -> Option<u64> {
        // The region that `allocate` would take, exactly: an allocator over several blocks chooses one by it. The model in
        // tests/shadow compares both for every request; a search that ends elsewhere with an index than without fails there.
        self.find(request).map(|found| self.place(found).size)
    }

    #[inline]
    fn free_size_classes(&self, from_log2: u32) -> u64 {
        // The last region is not listed.
        let last = self.last_size();
        let last = if last >> from_log2 == 0 { 0 } else { 1 << coarse_class(last, from_log2) };
        last | self.stacks.coarse_classes(from_log2)
    }

    fn find_below(&mut self, request: &Request, limit: u64) -> Option<u32> {
        // The lowest of all, and only then a look at the limit: the one below the limit is the lowest, or there is none.
        let alignment = self.unmet(request.alignment);
        if !self.has_index_of_lowest(alignment) {
            return self.find_lowest(request.size, alignment, limit);
        }
        // Every other region with room ends above this one.
        let lowest = self.by_address.ask(&self.nodes, request.size, alignment, limit)?;
        (alignment.align_up(self.nodes.offset(lowest)) + request.size <= limit).then_some(lowest)
    }

    #[inline]
    fn prepare(&mut self, request: &Request, regions: usize) -> bool {
        // Without an alignment only some strategies ask an index, and few regions are looked at one by one; but where there is an
        // index, it is asked however few they are, and may have to pass very many ranges first.
        let is_simple = request.strategy == FitStrategy::Balanced && self.is_met(request.alignment);
        let are_few = self.stacks.len() as usize <= MANY && !self.by_address.is_used();
        is_simple || are_few || self.prepare_index(request, regions)
    }

    #[inline(always)]
    fn take(&mut self, index: u32, request: &Request) -> Taken {
        let taken = self.take_from(index, |offset| request.alignment.align_up(offset), request.size);
        self.settle();
        taken
    }

    fn take_at(&mut self, index: u32, offset: u64, size: u64) -> Option<Taken> {
        let taken = self.take_from(index, |_| offset, size);
        self.settle();
        Some(taken)
    }

    #[inline(always)]
    fn free(&mut self, index: u32) {
        self.release(index);
        self.settle();
    }

    fn resize(&mut self, index: u32, size: u64) -> Result<(), u64> {
        let offset = self.nodes.offset(index);
        let current = self.nodes.end(index) - offset;
        if size < current {
            self.shorten(index, offset + size);
        } else if size > current {
            let after = self.nodes.at(index).after;
            let is_free = self.nodes.at(after).is_free();
            // Behind the last range is `END`, which says that it is used.
            let room = if is_free { self.nodes.end(after) - self.nodes.offset(after) } else { 0 };
            if size - current > room {
                return Err(current + room);
            }
            self.lengthen(index, size - current, room);
        }
        self.settle();
        Ok(())
    }

    fn grow(&mut self, more: u64) -> Result<(), GrowError> {
        //   │ used │░ last* ░│ END    ──►   │ used │░░░░ last* ░░░░│ END      it ends where `END` begins
        //   │ used │ END             ──►   │ used │░ new ░│ END
        let old = self.size;
        self.note_last(false);
        self.size += more;
        self.nodes.at_mut(END).offset = W::narrow(self.size);
        // Sizes that no class is for can only come from the new units, so there is time to make classes before any is freed.
        if !self.stacks.suit(self.size) {
            self.stacks = self.stacks.grown(&mut self.nodes, self.size);
        }
        if self.last == END {
            self.note_offset(old);
            let before = self.nodes.at(END).before;
            let (new, generation) = self.nodes.take();
            *self.nodes.at_mut(new) = Node { offset: W::narrow(old), before, after: END, tag: LAST };
            self.nodes.at_mut(before).after = new;
            self.nodes.at_mut(END).before = new;
            self.set_last(new, generation);
        } else {
            self.note_last(true);
        }
        self.settle();
        Ok(())
    }

    fn clear(&mut self) -> bool {
        // All nodes are thrown away with their generations, which takes no time for each. The epoch in the upper half of each
        // handle tells the old ones apart. Where the epochs are used up, the caller frees one by one.
        if self.epoch == LAST_EPOCH {
            return false;
        }
        self.epoch += 1;
        self.nodes.reset(self.size);
        self.stacks.reset(self.size);
        self.by_address.reset();
        (self.last, self.last_generation) = (1, FIRST_GENERATION);
        (self.used, self.used_count) = (0, 0);
        true
    }

    fn largest_free(&self) -> u64 {
        self.stacks.largest().max(self.last_size())
    }

    #[inline]
    fn largest_free_at_most(&self) -> u64 {
        self.stacks.largest_at_most().max(self.last_size())
    }

    #[inline]
    fn used(&self, index: u32, serial: u64) -> bool {
        // An older epoch, and a newer one, leave bits above those of a tag.
        let generation = serial.wrapping_sub(u64::from(self.epoch) << 32);
        self.nodes.get(index).is_some_and(|node| u64::from(node.tag) == generation | u64::from(USED))
    }

    #[inline]
    fn serial(&self, index: u32) -> u64 {
        self.serial_of(self.nodes.at(index).tag & !USED)
    }

    #[inline]
    fn place(&self, index: u32) -> Place {
        let node = self.nodes.at(index);
        let offset = node.offset.wide();
        let state = match () {
            // The node at the end has no region.
            () if index == END || self.nodes.is_vacant(index) => State::Vacant,
            () if node.is_free() => State::Free,
            () => State::Used,
        };
        let size = if state == State::Vacant { 0 } else { self.nodes.offset(node.after) - offset };
        let (before, after) = (Self::outward(node.before), Self::outward(node.after));
        Place { offset, size, state, before, after }
    }

    fn first(&self) -> u32 {
        self.nodes.at(END).after
    }

    fn last(&self) -> u32 {
        self.nodes.at(END).before
    }

    fn tally(&self) -> Tally {
        Tally {
            used_count: self.used_count,
            free_count: self.stacks.len() + u32::from(self.last != END),
            used: self.used,
            padding: 0,
            free: self.size - self.used,
        }
    }

    #[inline]
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    fn is_full(&self) -> bool {
        // An operation adds at most three nodes, and a free one where a generation came to its end. Slots are below the tags of
        // used regions: there are eight for each free region at most, for each class and for each chunk of one that is divided.
        self.nodes.len() > (USED / 16) as usize
    }

    fn reserve(&mut self, regions: usize) {
        self.nodes.reserve(regions);
        // No two free regions touch, so at most every second region is free.
        self.stacks.reserve(regions / 2 + 1);
    }

    fn shrink(&mut self) {
        // Where no further epoch is left, the nodes go as far as their generations allow.
        if self.used_count == 0 {
            self.clear();
        }
        // Tags are slots in the stacks, so the stacks are made anew after the nodes that they name are settled.
        self.nodes.shrink();
        self.stacks = self.stacks.grown(&mut self.nodes, self.size);
        self.stacks.shrink();
        // Made again by the first search that needs it.
        self.by_address = ByAddress::default();
    }

    fn read_around(&self, index: u32, reach: Reach) -> u64 {
        let node = self.nodes.at(index);
        let beside = [node.before, node.after];
        match reach {
            Reach::Range => node.offset.wide(),
            Reach::Neighbours => beside.iter().fold(0, |sum, &index| sum ^ self.nodes.offset(index)),
            Reach::Lists => {
                let tags = beside.map(|index| self.nodes.at(index).tag).into_iter();
                tags.filter(|tag| tag & USED == 0 && *tag != LAST)
                    .fold(0, |sum, slot| sum ^ self.stacks.entry(slot).size)
            }
        }
    }

    fn check_invariants(&self) {
        self.nodes.check_invariants(self.size);
        self.stacks.check_invariants(&self.nodes);
        self.by_address.check_invariants(&self.nodes);
        let (mut used, mut used_count, mut free_count) = (0, 0, 0);
        let (mut index, mut was_free) = (self.first(), false);
        while index != END {
            let node = self.nodes.at(index);
            assert_eq!(
                node.offset.wide() & self.stacks.grain(),
                0,
                "every region is aligned as far as noted"
            );
            if node.is_free() {
                assert!(!was_free, "no two free regions touch");
                assert_eq!(node.tag == LAST, index == self.last, "the last region knows what it is");
                assert_eq!(index == self.last, node.after == END, "the free region at the end is the last");
                free_count += 1;
            } else {
                used += self.nodes.end(index) - self.nodes.offset(index);
                used_count += 1;
            }
            was_free = node.is_free();
            index = node.after;
        }
        let tally = self.tally();
        assert_eq!((used, used_count, free_count), (tally.used, tally.used_count, tally.free_count));
    }
}
