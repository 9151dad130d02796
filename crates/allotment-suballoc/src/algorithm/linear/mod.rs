//! A stack, two stacks that grow towards each other, or a ring, depending on how the block is used.
//!
//! Ranges are allocated from one free region, the *gap*: ascending from its start (the lower side) or
//! descending from its end (the upper side). A freed region that touches the gap is merged into it,
//! together with the holes behind it:
//!
//! ```text
//!   stack          │ A │ B │ C │░░░░░ gap ░░░░░░░░░│    free C: its region is merged into the gap
//!   double stack   │ A │ B │░░░░░ gap ░░░░░│ Y │ X │    lower A, B; upper X, Y
//!   ring           │ D │ E │░ gap ░│ B │ C │  hole │    wrapped: free B, the oldest, and the gap grows
//! ```
//!
//! When the gap at the end of the block is too small and the start of the block is free, the gap moves
//! there: the stack has become a ring. That happens only while the upper side is empty. A hole that does
//! not touch the gap is not used until it does.
//!
//! # An example
//!
//! A ring of 100 units, with `A` and `B` of 40 units each:
//!
//! ```text
//!               0                40               80      100
//!   before      │       A        │       B        │░ gap ░│
//!   free A      │      hole      │       B        │░ gap ░│    `B` separates the hole from the gap
//!   allocate 30 │     C     │gap │       B        │ hole  │    20 units are too few: the gap moves to the hole
//!   free B      │     C     │░░░░░░░░░░░ gap ░░░░░░░░░░░░░│    `B` touches the gap and the old gap, so all merge
//! ```
//!
//! # The structure
//!
//! The ranges are in one [`Queue`], in the order of their addresses from the end of the gap round to its start:
//!
//! ```text
//!   stack          A B C                 the first is the lowest
//!   double stack   Y X │ A B             Y is the first one above the gap, X the highest
//!   ring           B C │ D E             B is the oldest, C the highest, E the newest
//! ```
//!
//! So the ranges beside the gap are the two ends of the queue, where ranges are added and removed without a search, for
//! stacks and rings alike. Free regions are not stored: a hole is what lies between two ranges.
//!
//! # Invariants
//!
//! 1. The gap ends where the first entry of the queue begins, or at the end of the block if nothing is above it. It begins
//!    where the last entry ends, or at 0 if nothing is below it. It may be empty.
//! 2. `highest` is the last entry above the gap. Runs of dead entries end there, so that each is one hole or part of one.
//! 3. Either all ranges above the gap are from the upper side (a double stack) or none is (a ring): `uppers` counts them.
//! 4. The counters equal the result of a walk.
//!
//! # Cost
//!
//! O(1) for every operation. A range takes 20 bytes, in a block of 2^32 units or more 32, until it is freed and a range beside
//! it in the queue has become the end: the entry of a hole between live ranges is kept.

mod places;
mod queue;
#[cfg(test)]
mod tests;

use super::tlsf::Width;
use super::{Place, Ranges, Taken};
use crate::algorithm::{NONE, Tally};
use crate::read_ahead::Reach;
use crate::{AllocateError, GrowError, Request, StackSide};
use places::{FIRST_CODE, GAP, hole_before};
use queue::{CHUNK, Entry, Queue};

#[derive(Clone, Debug)]
pub(crate) struct Linear<W> {
    queue: Queue<W>,
    gap_start: u64,
    gap_end: u64,
    /// The entry of the highest range above the gap, or of one behind it that is dead; [`NONE`] if nothing is above the gap.
    highest: u32,
    used_count: u32,
    /// The number of the last allocation.
    serial: u64,
    size: u64,
    padding: u64,
    /// The units of all holes, without the gap.
    hole_units: u64,
    holes: u32,
    uppers: u32,
}

impl<W: Width> Linear<W> {
    pub(crate) const fn new(size: u64) -> Self {
        Self {
            queue: Queue::new(),
            gap_start: 0,
            gap_end: size,
            highest: NONE,
            used_count: 0,
            serial: 0,
            size,
            padding: 0,
            hole_units: 0,
            holes: 0,
            uppers: 0,
        }
    }

    /// Returns the same block with numbers of another width.
    pub(crate) fn with_width<V: Width>(self) -> Linear<V> {
        let Self { gap_start, gap_end, highest, used_count, serial, size, .. } = self;
        let Self { padding, hole_units, holes, uppers, .. } = self;
        let queue = self.queue.with_width();
        Linear {
            queue,
            gap_start,
            gap_end,
            highest,
            used_count,
            serial,
            size,
            padding,
            hole_units,
            holes,
            uppers,
        }
    }

    /// Returns `true` if the gap has wrapped to the start, so that the space before the end is not one stack.
    fn is_ring(&self) -> bool {
        self.uppers == 0 && self.highest != NONE
    }

    /// Returns the end of the hole to which the gap can move: one at the start of the block, while the gap is at its end.
    /// 0 if there is none.
    fn wrapped_end(&self) -> u64 {
        // Nothing is above the gap only if the upper side is empty, so a double stack never wraps. A gap that has wrapped
        // already is not at the end, so it does not move a second time before it has reached the end again.
        if self.highest == NONE && !self.queue.is_empty() {
            self.queue.at(self.queue.first()).from()
        } else {
            0
        }
    }

    /// Moves the gap to the hole at the start of the block.
    fn wrap(&mut self) {
        //   │░ hole ░│ B │ C │░ gap ░│   ──►   │░ gap ░│ B │ C │░ hole ░│
        //
        // Nothing moves in the queue. It begins above the gap, and that is `B` before and after.
        let end = self.wrapped_end();
        let old = self.gap_end - self.gap_start;
        // The old gap becomes an ordinary hole, unless it is empty.
        self.holes = self.holes - 1 + u32::from(old != 0);
        self.hole_units = self.hole_units + old - end;
        (self.gap_start, self.gap_end) = (0, end);
        // All that was below the gap is above it now.
        self.highest = self.queue.last();
    }

    /// Takes the start of the gap until `end`, and returns the entry of the range.
    #[inline(always)]
    fn lower_entry(&mut self, offset: u64, end: u64) -> Entry<W> {
        self.serial += 1;
        self.used_count += 1;
        // Unlike in TLSF, the units before an aligned offset become padding and not a free region: nothing could be
        // allocated there before the range is freed, so they would only count as free.
        let from = core::mem::replace(&mut self.gap_start, end);
        self.padding += offset - from;
        Entry::new(offset, end, from, self.serial)
    }

    /// Allocates on the lower side.
    fn allocate_lower(&mut self, request: &Request) -> Option<Taken> {
        let mut offset = request.alignment.align_up(self.gap_start);
        // The present gap first: a stack wraps only when it has to, since wrapping makes the upper side unusable.
        if offset + request.size > self.gap_end {
            if request.size > self.wrapped_end() {
                return None;
            }
            self.wrap();
            // A multiple of every alignment.
            offset = 0;
        }
        let entry = self.lower_entry(offset, offset + request.size);
        Some(Taken { index: self.queue.push_back(entry), serial: self.serial, offset })
    }

    /// Returns the offset at which a request on the upper side is placed.
    fn find_upper(&self, request: &Request) -> Option<u64> {
        let start = request.alignment.align_down(self.gap_end.checked_sub(request.size)?);
        (start >= self.gap_start).then_some(start)
    }

    fn allocate_upper(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        // An upper range would stand between the gap and the oldest range of the ring, which the gap has to reach next.
        if self.is_ring() {
            return Err(AllocateError::RingInUse);
        }
        let Some(offset) = self.find_upper(request) else { return Ok(None) };
        let end = offset + request.size;
        self.serial += 1;
        self.used_count += 1;
        self.uppers += 1;
        // Padding lies behind the range, between it and the previous upper range.
        self.padding += self.gap_end - end;
        let index = self.queue.push_front(Entry::new(offset, end, self.gap_end, self.serial));
        self.gap_end = offset;
        if self.highest == NONE {
            self.highest = index;
        }
        Ok(Some(Taken { index, serial: self.serial, offset }))
    }

    /// Returns the live entry below `index` on the same side of the gap; `None` if there is none.
    #[inline]
    fn live_below(&self, index: u32) -> Option<u32> {
        self.run_below(index).1
    }

    /// Returns the live entry above `index` on the same side of the gap; `None` if there is none.
    #[inline]
    fn live_above(&self, index: u32) -> Option<u32> {
        self.run_above(index).1
    }

    /// Returns the first of the dead entries directly below `index`, `index` itself if there are none, and the live entry
    /// below that.
    #[inline]
    fn run_below(&self, index: u32) -> (u32, Option<u32>) {
        //   live   dead ─ dead   dead   index       two runs that were not joined: one step for each, not for each entry
        //    ▲      ╰──────╯
        let mut run = index;
        loop {
            // What the queue has before the lowest range of the block is the highest one.
            if run == self.queue.first() {
                return (run, None);
            }
            let before = self.queue.before(run);
            if before == self.highest {
                return (run, None);
            }
            if !self.queue.at(before).is_dead() {
                return (run, Some(before));
            }
            run = self.queue.across(before);
        }
    }

    /// Returns the last of the dead entries directly above `index`, `index` itself if there are none, and the live entry
    /// above that.
    #[inline]
    fn run_above(&self, index: u32) -> (u32, Option<u32>) {
        let mut run = index;
        loop {
            if run == self.queue.last() || run == self.highest {
                return (run, None);
            }
            let after = self.queue.after(run);
            if !self.queue.at(after).is_dead() {
                return (run, Some(after));
            }
            run = self.queue.across(after);
        }
    }

    /// Returns `true` if nothing but the gap is above the entry, which is live.
    #[inline]
    fn is_below_gap(&self, index: u32) -> bool {
        index == self.queue.last() && index != self.highest
    }

    /// Returns where the free units or the range above the entry `index` end or begin.
    fn room_end(&self, index: u32) -> u64 {
        if self.is_below_gap(index) {
            return self.gap_end;
        }
        self.live_above(index).map_or(self.size, |above| self.queue.at(above).from())
    }

    /// Adds `units` between two other holes, or beside one, or alone, to the holes.
    #[inline]
    fn add_hole(&mut self, units: u64, before: u64, behind: u64) {
        self.hole_units += units;
        self.holes = self.holes + 1 - u32::from(before != 0) - u32::from(behind != 0);
    }

    /// Merges a hole of so many units, if it has any, into the gap.
    #[inline]
    fn join_gap(&mut self, units: u64) {
        self.hole_units -= units;
        self.holes -= u32::from(units != 0);
    }

    /// Frees a range whose neighbour in the queue is dead, on the other side of the gap or in another chunk, or a range in
    /// the middle.
    #[inline(never)]
    fn free_any(&mut self, index: u32) {
        let entry = self.queue.at(index);
        self.used_count -= 1;
        self.padding -= entry.padding();
        self.uppers -= u32::from(entry.is_upper());
        self.queue.kill(index);
        // The ends of the queue are beside the gap, so the place of the entry there tells the case. An entry can be the last one
        // and the highest: then nothing is below the gap, and the range is above it.
        let (first, last) = (self.queue.first(), self.queue.last());
        if index == last && index != self.highest {
            self.free_below_gap(index, entry);
        } else if index == first && self.highest != NONE {
            self.free_above_gap(index, entry);
        } else {
            self.free_between(index, entry);
        }
    }

    /// Frees the only range.
    #[inline(always)]
    fn free_only(&mut self) {
        self.queue.remove_only();
        self.used_count = 0;
        (self.gap_start, self.gap_end) = (0, self.size);
        self.highest = NONE;
        (self.padding, self.hole_units) = (0, 0);
        (self.holes, self.uppers) = (0, 0);
    }

    /// Frees the newest range of a stack or ring, where that is one step. Returns `false`, with nothing changed, where it is
    /// not.
    #[inline(always)]
    fn free_newest(&mut self, index: u32) -> bool {
        // The entry before is the one of the range below.
        // Everything that is not exactly this takes the way by `free_any`, which gives the same result.
        let before = index - 1;
        if index == self.highest || before == self.highest || before % CHUNK == 0 {
            return false;
        }
        let (below, entry) = (self.queue.at(before), self.queue.at(index));
        // Without a hole between them, which a shorter range below leaves.
        if below.is_dead() || below.end() != entry.from() {
            return false;
        }
        self.used_count -= 1;
        self.padding -= entry.offset() - below.end();
        self.gap_start = below.end();
        self.queue.pop_back();
        true
    }

    /// Frees a range that ends where the gap begins.
    fn free_below_gap(&mut self, index: u32, entry: Entry<W>) {
        //   │ A │ B │░ hole ░│ R │░ gap ░│ …   ──►   │ A │ B │░░░░░░░░ gap ░░░░░░░░│ …
        //
        // The hole is one with the gap from here on, so it is no hole any more, and its entries leave the queue with that of R.
        let last = match self.live_below(index) {
            Some(below) => {
                self.gap_start = self.queue.at(below).to();
                below
            }
            // Nothing is below the gap any more, so the last entry is the highest one above it.
            None => {
                self.gap_start = 0;
                if self.queue.at(self.highest).is_dead() {
                    // The first entry above the gap is live.
                    self.highest = self.queue.before(self.queue.across(self.highest));
                }
                self.highest
            }
        };
        self.join_gap(entry.from() - self.gap_start);
        self.queue.cut_behind(last);
    }

    /// Frees a range that begins where the gap ends.
    fn free_above_gap(&mut self, index: u32, entry: Entry<W>) {
        //   … │░ gap ░│ R │░ hole ░│ C │ D │   ──►   … │░░░░░░░░ gap ░░░░░░░░│ C │ D │
        //   … │░ gap ░│ R │░ hole ░│           ──►   … │░░░░░░░░ gap ░░░░░░░░│           a ring that is a stack again
        let first = match self.live_above(index) {
            Some(above) => {
                self.gap_end = self.queue.at(above).from();
                above
            }
            // The gap has come to the end of the block, and the first entry is the lowest one below the gap.
            None => {
                self.gap_end = self.size;
                let mut lowest = self.queue.after(core::mem::replace(&mut self.highest, NONE));
                if self.queue.at(lowest).is_dead() {
                    lowest = self.queue.after(self.queue.across(lowest));
                }
                lowest
            }
        };
        self.join_gap(self.gap_end - entry.to());
        self.queue.cut_before(first);
    }

    /// Frees a range that does not touch the gap.
    fn free_between(&mut self, index: u32, entry: Entry<W>) {
        //   │ A │░░ hole ░░│ R │░ hole ░│ B │   ──►   │ A │░░░░░░░ hole ░░░░░░░░│ B │      two holes become one
        //   │ A │ R │░ hole ░│ B │             ──►   │ A │░░░░░ hole ░░░░│ B │             it grows
        //   │ A │ R │ B │                     ──►   │ A │░ hole ░│ B │                    one more
        //
        // The gap cannot use it before the ranges between it and the gap are freed: a linear block allocates in order.
        let ((run_start, below), (run_end, above)) = (self.run_below(index), self.run_above(index));
        let start = below.map_or(0, |below| self.queue.at(below).to());
        let end = above.map_or(self.size, |above| self.queue.at(above).from());
        let (from, to) = (entry.from(), entry.to());
        self.add_hole(to - from, from - start, end - to);
        // An end of the queue is live: with the range goes the run beside it.
        match (below, above) {
            (None, Some(above)) if index == self.queue.first() => self.queue.cut_before(above),
            (Some(below), None) if index == self.queue.last() => {
                self.queue.cut_behind(below);
                self.highest = below;
            }
            _ => self.queue.join(run_start, run_end),
        }
    }
}

impl<W: Width> Ranges for Linear<W> {
    // As nearly every request is served: from the start of the gap, with an entry that is there.
    #[inline(always)]
    fn allocate_quickly(&mut self, request: &Request) -> Option<Taken> {
        if request.side == StackSide::Upper || self.is_full() {
            return None;
        }
        let offset = request.alignment.align_up(self.gap_start);
        // A size of 0 wraps round. One that is too large for any block is too large for this gap.
        if request.size.wrapping_sub(1) >= self.gap_end.saturating_sub(offset) {
            return None;
        }
        let index = self.queue.next()?;
        let entry = self.lower_entry(offset, offset + request.size);
        self.queue.push_next(index, entry);
        Some(Taken { index, serial: self.serial, offset })
    }

    fn allocate(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        match request.side {
            StackSide::Lower => Ok(self.allocate_lower(request)),
            StackSide::Upper => self.allocate_upper(request),
        }
    }

    fn room_for(&self, request: &Request) -> Option<u64> {
        let found = match request.side {
            StackSide::Lower if request.alignment.align_up(self.gap_start) + request.size <= self.gap_end => {
                Some(GAP)
            }
            StackSide::Lower if request.size <= self.wrapped_end() => Some(hole_before(self.queue.first())),
            StackSide::Upper if !self.is_ring() => self.find_upper(request).map(|_| GAP),
            _ => None,
        };
        found.map(|found| self.place(found).size)
    }

    #[inline(always)]
    fn free(&mut self, index: u32) {
        if index == self.queue.last() {
            if index == self.queue.first() {
                return self.free_only();
            }
            if self.free_newest(index) {
                return;
            }
        }
        self.free_any(index);
    }

    fn resize(&mut self, index: u32, size: u64) -> Result<(), u64> {
        let entry = self.queue.at(index);
        let (old, end) = (entry.end(), entry.offset() + size);
        if end == old {
            return Ok(());
        }
        // A range cannot grow into its padding.
        let room_end = if end > old && entry.to() > old { old } else { self.room_end(index) };
        if end > room_end {
            return Err(room_end - entry.offset());
        }
        self.queue.at_mut(index).set_end(end);
        if self.is_below_gap(index) {
            self.gap_start = end;
            return Ok(());
        }
        //   │ range │ padding │ used │   ──►   │ rang │░░ hole ░░│ used │
        // An upper range that is cut short gives up its padding: what is behind it is one hole.
        self.padding -= entry.to() - old;
        self.hole_units = self.hole_units + entry.to() - end;
        self.holes = self.holes + u32::from(end < room_end) - u32::from(entry.to() < room_end);
        Ok(())
    }

    fn grow(&mut self, more: u64) -> Result<(), GrowError> {
        if self.uppers != 0 {
            return Err(GrowError::UpperInUse { ranges: self.uppers });
        }
        // A ring has a hole at its end, or gets one: its gap is at the start, and takes the new units when it comes round.
        if self.highest == NONE {
            self.gap_end += more;
        } else {
            let hole = self.size - self.top();
            self.add_hole(more, hole, 0);
        }
        self.size += more;
        Ok(())
    }

    fn clear(&mut self) -> bool {
        let mut queue = core::mem::replace(&mut self.queue, Queue::new());
        queue.clear();
        // The serial number goes on, so that no older handle matches a new range.
        *self = Self { queue, serial: self.serial, ..Self::new(self.size) };
        true
    }

    fn largest_free(&self) -> u64 {
        (self.gap_end - self.gap_start).max(self.wrapped_end())
    }

    fn largest_free_at_most(&self) -> u64 {
        self.largest_free()
    }

    #[inline]
    fn used(&self, index: u32, serial: u64) -> bool {
        self.queue.get(index).is_some_and(|entry| entry.serial() == serial)
    }

    #[inline]
    fn serial(&self, index: u32) -> u64 {
        self.queue.at(index).serial()
    }

    #[inline]
    fn place(&self, index: u32) -> Place {
        self.place_of(index)
    }

    fn first(&self) -> u32 {
        self.first_place()
    }

    fn last(&self) -> u32 {
        self.last_place()
    }

    fn tally(&self) -> Tally {
        let gap = self.gap_end - self.gap_start;
        let free = gap + self.hole_units;
        Tally {
            used_count: self.used_count,
            free_count: self.holes + u32::from(gap != 0),
            used: self.size - free - self.padding,
            padding: self.padding,
            free,
        }
    }

    #[inline]
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.queue.len()
    }

    fn capacity_with(&self, ranges: usize) -> usize {
        self.queue.len_with(ranges)
    }

    #[inline]
    fn is_full(&self) -> bool {
        // An operation completes a chunk at most and begins another one.
        self.queue.len() > (FIRST_CODE - 2 * CHUNK) as usize
    }

    fn reserve(&mut self, regions: usize) {
        self.queue.reserve(regions);
    }

    fn shrink(&mut self) {
        if self.used_count == 0 {
            self.clear();
        }
        self.queue.shrink();
    }

    fn read_around(&self, index: u32, reach: Reach) -> u64 {
        match reach {
            Reach::Range => self.queue.at(index).offset(),
            Reach::Neighbours => {
                let beside = [index.checked_sub(1), index.checked_add(1)].into_iter().flatten();
                beside.filter_map(|index| self.queue.get(index)).fold(0, |sum, entry| sum ^ entry.offset())
            }
            Reach::Lists => 0,
        }
    }

    fn check_invariants(&self) {
        self.queue.check_invariants();
        self.check_places();
    }
}
