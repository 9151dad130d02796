//! What a block asks of its algorithm, with deferred coalescing.

use super::super::nodes::{Nodes, USED};
use super::super::{Place, Ranges, Taken, Width};
use super::{COARSE, Deferred, FEW, List, SHARE, Slot, class_of, lists_for, size_of};
use crate::algorithm::bins;
use crate::chain::{NONE, State, Tally};
use crate::read_ahead::Reach;
use crate::{AllocateError, GrowError, Request, Side, Strategy};

impl<W: Width> Ranges for Deferred<W> {
    #[inline(always)]
    fn allocate_quickly(&mut self, request: &Request) -> Option<Taken> {
        let Request { size, alignment, strategy, side } = *request;
        let is_simple = side == Side::Lower && matches!(strategy, Strategy::Balanced | Strategy::LeastTime);
        if !is_simple || size.wrapping_sub(1) >= self.tlsf.size {
            return None;
        }
        let class = bins::class_that_surely_fits::<COARSE>(size);
        let list = self.lists.get_mut(class)?;
        let index = list.head;
        let slot = self.slots.get_mut(index as usize)?;
        let offset = slot.offset.wide();
        if !alignment.is_aligned(offset) {
            return None;
        }
        list.head = slot.link;
        list.len -= 1;
        slot.size = W::narrow(size);
        slot.link = class as u32;
        let generation = slot.tag;
        slot.tag = USED | generation;
        let granted = list.size;
        self.cached -= granted;
        self.cached_count -= 1;
        self.padding += granted - size;
        Some(Taken { index, serial: self.tlsf.serial_of(generation), offset })
    }

    fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        let Request { size, strategy, .. } = *request;
        match strategy {
            Strategy::Balanced | Strategy::LeastTime => {}
            // What they promise is about all that is free.
            Strategy::LeastMemory | Strategy::LowestOffset => {
                self.merge_all();
                return self.take_exactly(request);
            }
        }
        let class = bins::class_that_surely_fits::<COARSE>(size);
        if class < self.lists.len() && self.tlsf.used <= self.ease {
            let rounded = Request { size: size_of(class), ..*request };
            if let Some(taken) = self.take_from_tlsf(&rounded)? {
                return Ok(Some(self.made_live(taken, size, class as u32)));
            }
        }
        match self.take_exactly(request)? {
            None if !self.is_merged() => self.merge_for(request),
            taken => Ok(taken),
        }
    }

    fn room_for(&self, request: &Request) -> Option<u64> {
        let known = self.tlsf.room_for(request);
        if known.is_some() || self.is_merged() || request.side == Side::Upper {
            return known;
        }
        let mut room: Option<u64> = None;
        self.visit_holes(|start, end| {
            let size = end - start;
            let fits = request.alignment.align_up(start) + request.size <= end;
            if fits && room.is_none_or(|room| size < room) {
                room = Some(size);
            }
        });
        room
    }

    fn find_below(&mut self, request: &Request, limit: u64) -> Option<u32> {
        debug_assert!(self.is_merged(), "the block merges before it searches");
        self.tlsf.find_below(request, limit)
    }

    fn take(&mut self, index: u32, request: &Request) -> Taken {
        let taken = self.tlsf.take(index, request);
        self.made_live(taken, request.size, class_of(request.size))
    }

    fn take_at(&mut self, index: u32, offset: u64, size: u64) -> Option<Taken> {
        let taken = self.tlsf.take_at(index, offset, size)?;
        Some(self.made_live(taken, size, class_of(size)))
    }

    #[inline(always)]
    fn free(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let class = slot.link as usize;
        let Some(list) = self.lists.get_mut(class) else {
            return self.free_and_merge(index);
        };
        let (granted, used) = (list.size, self.tlsf.used);
        // Without a branch for each: which of them holds is as good as random.
        let is_little = (list.len < FEW) | (self.cached + granted <= used / SHARE);
        let generation = slot.tag & !USED;
        if !(is_little & (used <= self.ease)) || Nodes::<W>::is_last_generation(generation) {
            return self.free_and_merge(index);
        }
        self.padding -= granted - slot.size.wide();
        slot.link = list.head;
        slot.tag = generation + 1;
        list.head = index;
        list.len += 1;
        if list.len > FEW {
            self.unseen = self.lists.len();
        }
        self.cached += granted;
        self.cached_count += 1;
    }

    fn resize(&mut self, index: u32, size: u64) -> Result<(), u64> {
        // What TLSF has to know of: the range as it was requested, and what is behind it.
        self.trim(index);
        let current = self.slots[index as usize].size.wide();
        self.merge_behind(index, size.saturating_sub(current));
        self.tlsf.resize(index, size)?;
        let slot = &mut self.slots[index as usize];
        slot.size = W::narrow(size);
        slot.link = class_of(size);
        Ok(())
    }

    fn grow(&mut self, more: u64) -> Result<(), GrowError> {
        self.tlsf.grow(more)?;
        self.lists.extend(lists_for(self.tlsf.size).skip(self.lists.len()));
        self.ease = u64::MAX;
        Ok(())
    }

    fn clear(&mut self) -> bool {
        if !self.tlsf.clear() {
            return false;
        }
        self.slots.clear();
        self.lists.iter_mut().for_each(|list| *list = List { head: NONE, len: 0, ..*list });
        (self.cached, self.cached_count, self.padding, self.ease) = (0, 0, 0, u64::MAX);
        true
    }

    fn merge_all(&mut self) {
        self.coalesce(u32::MAX);
        self.trim_all();
    }

    fn largest_free(&self) -> u64 {
        if self.is_merged() {
            return self.tlsf.largest_free();
        }
        let mut largest = 0;
        self.visit_holes(|start, end| largest = largest.max(end - start));
        largest
    }

    #[inline]
    fn largest_free_at_most(&self) -> u64 {
        // Any of what is cached may lie beside any of what is free.
        let known = self.tlsf.largest_free_at_most();
        if self.is_merged() { known } else { self.tlsf.size - self.tlsf.used + self.cached + self.padding }
    }

    #[inline(always)]
    fn used(&self, index: u32, serial: u64) -> bool {
        let generation = serial.wrapping_sub(self.tlsf.serial_of(0));
        self.slots.get(index as usize).is_some_and(|slot| u64::from(slot.tag) == generation | u64::from(USED))
    }

    #[inline]
    fn serial(&self, index: u32) -> u64 {
        self.tlsf.serial_of(self.slots[index as usize].tag & !USED)
    }

    #[inline]
    fn place(&self, index: u32) -> Place {
        let place = self.tlsf.place(index);
        match self.slots.get(index as usize) {
            Some(slot) if slot.is_live() => Place { size: slot.size.wide(), ..place },
            Some(slot) if slot.is_cached() => Place { state: State::Free, ..place },
            _ => place,
        }
    }

    fn first(&self) -> u32 {
        self.tlsf.first()
    }

    fn last(&self) -> u32 {
        self.tlsf.last()
    }

    fn tally(&self) -> Tally {
        let Tally { used_count, free_count, used, free, .. } = self.tlsf.tally();
        Tally {
            used_count: used_count - self.cached_count,
            free_count: free_count + self.cached_count,
            used: used - self.cached - self.padding,
            padding: self.padding,
            free: free + self.cached,
        }
    }

    #[inline]
    fn size(&self) -> u64 {
        self.tlsf.size
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.tlsf.capacity()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.tlsf.is_full()
    }

    fn reserve(&mut self, regions: usize) {
        self.tlsf.reserve(regions);
        let all = self.tlsf.capacity() + regions;
        self.slots.reserve(all.saturating_sub(self.slots.len()));
    }

    fn shrink(&mut self) {
        // A cached range keeps its node.
        self.coalesce(u32::MAX);
        self.tlsf.shrink();
        let used = self.slots.iter().rposition(|slot| slot.tag != 0).map_or(0, |last| last + 1);
        self.slots.truncate(used);
        self.slots.shrink_to_fit();
    }

    fn read_around(&self, index: u32, reach: Reach) -> u64 {
        match reach {
            Reach::Range => self.slots[index as usize].offset.wide(),
            // Only what is merged is looked at further.
            Reach::Neighbours | Reach::Lists => 0,
        }
    }

    fn check_invariants(&self) {
        self.tlsf.check_invariants();
        let (mut cached, mut cached_count) = (0, 0);
        for (class, list) in self.lists.iter().enumerate() {
            let (mut index, mut len) = (list.head, 0);
            while index != NONE {
                let slot = self.slots[index as usize];
                assert!(slot.is_cached(), "what is listed is cached");
                assert_eq!(self.tlsf.place(index).size, size_of(class), "a cached range is one of its class");
                cached += size_of(class);
                len += 1;
                index = slot.link;
            }
            assert_eq!(len, list.len);
            cached_count += len;
        }
        assert_eq!((cached, cached_count), (self.cached, self.cached_count));
        let mut padding = 0;
        for index in 0..self.tlsf.capacity() as u32 {
            let place = self.tlsf.place(index);
            let slot = self.slots.get(index as usize).copied().unwrap_or_else(Slot::vacant);
            assert_eq!(place.state == State::Used, slot.tag != 0, "what is live or cached is used for TLSF");
            if slot.tag != 0 {
                assert_eq!(slot.offset.wide(), place.offset);
            }
            if slot.is_live() {
                assert_eq!(place.size, slot.size.wide() + self.padding_of(index));
                padding += self.padding_of(index);
            }
        }
        assert_eq!(padding, self.padding);
    }
}
