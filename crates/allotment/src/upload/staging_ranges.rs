//! Which ranges of staging memory are free, and which batch has the others; integers only.
//!
//! ```text
//!   0                                                                          capacity
//!   │ batch 3 │ reserved │ open │ free │ batch 3 │ … free … │ batch 3 │ open ▓▓▒▒▒▒ │
//!     large writes, from the start                            small ones, from the end
//! ```
//!
//! A range is free, reserved by a writer that copies bytes into it, or part of a batch. Writers are done in any order, so
//! ranges are freed in any order, which a ring could not do. Batches complete in order.
//!
//! Small writes share a chunk, which is filled from front to back, and the next one follows it, as in a ring at the end of the
//! memory: consecutive ones are neighbours, and one copy can have them all. The rest of a chunk is free again when its batch is
//! closed, or when a large write finds no other range.
//!
//! # Fair shares
//!
//! An eighth of the memory is kept for small writes: a large one takes a range only if that much is free afterwards, less
//! what small writes have. A write that is larger than the rest takes the eighth as well.
//!
//! # Cost
//!
//! A small write costs an addition and a comparison. Another one searches the free ranges, of which there is at most one
//! more than there are ranges in use: a few dozen with the default capacity. Nothing is allocated once the most ranges
//! were in use.

use std::collections::VecDeque;

use allotment_suballoc::Alignment;

/// What ranges begin at: a cache line, for `memcpy` and for copy engines.
const ALIGNMENT: Alignment = match Alignment::new(64) {
    Ok(alignment) => alignment,
    Err(_) => panic!("64 is a power of two"),
};

/// Most bytes of a small write, whatever the capacity: it is copied under the lock, which takes a microsecond or two.
const MOST_SMALL: u64 = 16 << 10;

/// Ranges for which host memory is reserved at the start: the batches of a queue that is late for the first time after an
/// hour must not cause an allocation in that frame.
const RANGES: usize = 128;

/// A range of staging memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Range {
    fn end(self) -> u64 {
        self.offset + self.size
    }
}

/// A range of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchRange {
    range: Range,
    /// Small writes are in it.
    is_small: bool,
}

/// The ranges of a lane.
#[derive(Debug)]
pub(super) struct StagingRanges {
    capacity: u64,
    free: FreeRanges,
    /// Of the batches in flight, oldest first, then those of the open batch.
    in_use: VecDeque<BatchRange>,
    /// How many of them are the open batch's.
    open: usize,
    /// For the next small writes of the open batch; what is before `chunk.offset` is used.
    chunk: Range,
    /// Where the bytes of the open batch in this chunk begin.
    chunk_start: u64,
    /// Bytes that writers have reserved.
    reserved: u64,
    /// Bytes of small writes, without the end of the chunk.
    small: u64,
}

impl StagingRanges {
    pub(super) fn new(capacity: u64) -> Self {
        // As if one had ended there: nothing follows it.
        let chunk = Range { offset: capacity, size: 0 };
        let (free, in_use) = (FreeRanges::new(capacity), VecDeque::new());
        Self { capacity, free, in_use, open: 0, chunk, chunk_start: capacity, reserved: 0, small: 0 }
    }

    /// Reserves host memory for the usual number of ranges.
    pub(super) fn expect_ranges(&mut self) {
        self.in_use.reserve(RANGES);
        self.free.ranges.reserve(RANGES);
    }

    /// Returns whether a write of `size` bytes is small: copied under the lock, beside others.
    pub(super) fn is_small(&self, size: u64) -> bool {
        size <= MOST_SMALL && size <= (self.capacity / 64).max(ALIGNMENT.get())
    }

    /// Returns the bytes that are kept for small writes.
    fn kept_for_small(&self) -> u64 {
        self.capacity / 8
    }

    /// Returns whether a large write would take the bytes that are kept for small ones.
    pub(super) fn takes_all(&self, size: u64) -> bool {
        size > self.capacity - self.kept_for_small()
    }

    /// Returns whether small writes have less than what is kept for them, so that one more may go before large ones that
    /// wait.
    pub(super) fn small_have_room(&self, size: u64) -> bool {
        self.small + size <= self.kept_for_small()
    }

    /// Returns the bytes that writers have reserved.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the free bytes.
    pub(super) fn free(&self) -> u64 {
        self.free.bytes + self.chunk.size
    }

    /// Returns the size of the largest free range.
    pub(super) fn largest(&self) -> u64 {
        self.free.largest().max(self.chunk.size)
    }

    /// Returns the offset of the next small write of `size` bytes, which [`use_small`](Self::use_small) takes.
    pub(super) fn small(&mut self, size: u64) -> Option<u64> {
        if self.chunk.size < size {
            self.close_chunk();
            let most = (self.capacity / 32).max(size);
            // Where the last one ended, so that copies go on over chunks; else at the start of the last eighth.
            let next = self.free.take_at(self.chunk.offset, size, most);
            self.chunk = next.or_else(|| self.free.take_last(size, most, self.kept_for_small()))?;
            self.chunk_start = self.chunk.offset;
        }
        Some(self.chunk.offset)
    }

    /// Adds the first bytes of the chunk to the open batch.
    pub(super) fn use_small(&mut self, size: u64) {
        // The next write begins at a multiple, if there is one left in the chunk.
        let used = ALIGNMENT.align_up(size).min(self.chunk.size);
        self.chunk.offset += used;
        self.chunk.size -= used;
        self.small += used;
    }

    /// Adds what is used of the chunk to the ranges of the open batch, and frees the rest.
    fn close_chunk(&mut self) {
        let used = Range { offset: self.chunk_start, size: self.chunk.offset - self.chunk_start };
        self.free.add(self.chunk);
        self.chunk.size = 0;
        self.chunk_start = self.chunk.offset;
        self.add_open(BatchRange { range: used, is_small: true });
    }

    /// Reserves a range for a writer. A large write leaves to small ones what is kept for them.
    pub(super) fn reserve(&mut self, size: u64, alignment: Alignment, is_small: bool) -> Option<Range> {
        if !is_small && !self.takes_all(size) {
            let kept = self.kept_for_small().saturating_sub(self.small);
            if size + kept > self.free() {
                return None;
            }
        }
        let range = self.free.take_first(size, alignment).or_else(|| {
            self.close_chunk();
            self.free.take_first(size, alignment)
        })?;
        self.reserved += range.size;
        self.small += if is_small { range.size } else { 0 };
        Some(range)
    }

    /// Gives a reserved range back.
    pub(super) fn give_back(&mut self, range: Range, is_small: bool) {
        self.reserved -= range.size;
        self.small -= if is_small { range.size } else { 0 };
        self.free.add(range);
    }

    /// Adds a reserved range to the open batch.
    pub(super) fn use_reserved(&mut self, range: Range, is_small: bool) {
        self.reserved -= range.size;
        self.add_open(BatchRange { range, is_small });
    }

    fn add_open(&mut self, added: BatchRange) {
        if added.range.size == 0 {
            return;
        }
        if self.open > 0 {
            // Neighbours in one range, so that the list is as short as can be.
            let last = self.in_use.back_mut();
            let last =
                last.filter(|last| last.is_small == added.is_small && last.range.end() == added.range.offset);
            if let Some(last) = last {
                last.range.size += added.range.size;
                return;
            }
        }
        self.in_use.push_back(added);
        self.open += 1;
    }

    /// Closes the open batch. Returns the number of its ranges.
    pub(super) fn close(&mut self) -> usize {
        self.close_chunk();
        core::mem::take(&mut self.open)
    }

    /// Frees the ranges of the oldest batch, of which there are `count`.
    pub(super) fn free_oldest(&mut self, count: usize) {
        for BatchRange { range, is_small } in self.in_use.drain(..count) {
            self.small -= if is_small { range.size } else { 0 };
            self.free.add(range);
        }
    }

    /// Frees the ranges of the open batch.
    pub(super) fn discard(&mut self) {
        let count = self.close();
        for _ in 0..count {
            let Some(BatchRange { range, is_small }) = self.in_use.pop_back() else { break };
            self.small -= if is_small { range.size } else { 0 };
            self.free.add(range);
        }
    }

    /// Forgets the ranges of the open batch, which a queue may use for ever.
    pub(super) fn abandon(&mut self) {
        let count = self.close();
        let left = self.in_use.len() - count;
        for BatchRange { range, is_small } in self.in_use.drain(left..) {
            self.small -= if is_small { range.size } else { 0 };
            self.capacity -= range.size.min(self.capacity);
        }
    }

    /// Returns how many batches must complete before a request fits, given the numbers of their ranges, oldest first;
    /// `None` where that does not help.
    pub(super) fn batches_to_free(
        &self,
        size: u64,
        alignment: Alignment,
        counts: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        // A copy: this is the way to a refusal, and no frame is steady that is refused.
        let mut free = self.free.clone();
        free.add(self.chunk);
        let mut ranges = self.in_use.iter();
        for (i, count) in counts.enumerate() {
            ranges.by_ref().take(count).for_each(|used| free.add(used.range));
            if free.find_first(size, alignment).is_some() {
                return Some(i);
            }
        }
        None
    }

    /// Checks that the ranges have all bytes, each once. `reserved` are those of writers, and whether they are small.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, reserved: &[(Range, bool)]) {
        let mut all: Vec<Range> = self.free.ranges.clone();
        all.windows(2).for_each(|two| assert!(two[0].end() < two[1].offset, "neighbours are one range"));
        assert_eq!(all.iter().map(|range| range.size).sum::<u64>(), self.free.bytes);
        all.extend(reserved.iter().map(|(range, _)| range));
        assert_eq!(reserved.iter().map(|(range, _)| range.size).sum::<u64>(), self.reserved);
        let reserved_small =
            reserved.iter().filter(|(_, is_small)| *is_small).map(|(range, _)| range.size).sum::<u64>();
        all.extend(self.in_use.iter().map(|used| used.range));
        all.push(self.chunk);
        let used = Range { offset: self.chunk_start, size: self.chunk.offset - self.chunk_start };
        all.push(used);
        let small = self.in_use.iter().filter(|used| used.is_small).map(|used| used.range.size).sum::<u64>();
        assert_eq!(small + reserved_small + used.size, self.small);
        all.retain(|range| range.size > 0);
        all.sort_by_key(|range| range.offset);
        let mut at = 0;
        for range in all {
            assert_eq!(range.offset, at, "no byte is lost, and none is twice there");
            at = range.end();
        }
        assert_eq!(at, self.capacity);
        assert!(self.open <= self.in_use.len());
    }
}

/// Free ranges by offset; no two are neighbours.
#[derive(Clone, Debug)]
struct FreeRanges {
    ranges: Vec<Range>,
    /// The sum of their sizes.
    bytes: u64,
}

impl FreeRanges {
    fn new(size: u64) -> Self {
        let mut free = Self { ranges: Vec::new(), bytes: 0 };
        free.add(Range { offset: 0, size });
        free
    }

    fn largest(&self) -> u64 {
        self.ranges.iter().map(|range| range.size).max().unwrap_or(0)
    }

    /// Returns the index of the first range that has `size` bytes at a multiple of `alignment`, and where.
    fn find_first(&self, size: u64, alignment: Alignment) -> Option<(usize, u64)> {
        self.ranges.iter().enumerate().find_map(|(i, range)| {
            let offset = alignment.align_up(range.offset);
            (size <= range.end().saturating_sub(offset)).then_some((i, offset))
        })
    }

    /// Takes the lowest range of `size` bytes, and of what is left up to the next multiple of [`ALIGNMENT`].
    fn take_first(&mut self, size: u64, alignment: Alignment) -> Option<Range> {
        let alignment = alignment.max(ALIGNMENT);
        let (i, offset) = self.find_first(size, alignment)?;
        let size = ALIGNMENT.align_up(size).min(self.ranges[i].end() - offset);
        Some(self.take(i, Range { offset, size }))
    }

    /// Takes at least `size` and at most `most` bytes, and some up to the next multiple, of the last range that has them:
    /// where at most `back` bytes are left before its end, if that are enough.
    fn take_last(&mut self, size: u64, most: u64, back: u64) -> Option<Range> {
        let i = self.ranges.iter().rposition(|range| range.size >= size)?;
        let found = self.ranges[i];
        // The start of each range is a multiple, so this is not before it.
        let offset = ALIGNMENT.align_down(found.end() - found.size.min(back.max(most)));
        let size = ALIGNMENT.align_up(most).min(found.end() - offset);
        Some(self.take(i, Range { offset, size }))
    }

    /// Takes at least `size` and at most `most` bytes, and some up to the next multiple, at an offset.
    fn take_at(&mut self, offset: u64, size: u64, most: u64) -> Option<Range> {
        let i = self.ranges.binary_search_by_key(&offset, |range| range.offset).ok()?;
        let found = self.ranges[i];
        let size = (found.size >= size).then(|| ALIGNMENT.align_up(most).min(found.size))?;
        Some(self.take(i, Range { offset, size }))
    }

    /// Takes a part of the range at index `i`.
    fn take(&mut self, i: usize, taken: Range) -> Range {
        let found = self.ranges[i];
        let before = Range { offset: found.offset, size: taken.offset - found.offset };
        let after = Range { offset: taken.end(), size: found.end() - taken.end() };
        match (before.size > 0, after.size > 0) {
            (false, false) => drop(self.ranges.remove(i)),
            (true, false) => self.ranges[i] = before,
            (false, true) => self.ranges[i] = after,
            (true, true) => {
                self.ranges[i] = before;
                self.ranges.insert(i + 1, after);
            }
        }
        self.bytes -= taken.size;
        taken
    }

    /// Adds a range that is in none of the others.
    fn add(&mut self, added: Range) {
        if added.size == 0 {
            return;
        }
        self.bytes += added.size;
        let i = self.ranges.partition_point(|range| range.offset < added.offset);
        let joins_next = self.ranges.get(i).is_some_and(|next| added.end() == next.offset);
        let before = i.checked_sub(1).and_then(|before| self.ranges.get_mut(before));
        match before.filter(|before| before.end() == added.offset) {
            Some(before) => {
                before.size += added.size;
                if joins_next {
                    self.ranges[i - 1].size += self.ranges[i].size;
                    self.ranges.remove(i);
                }
            }
            None if joins_next => {
                let next = &mut self.ranges[i];
                *next = Range { offset: added.offset, size: added.size + next.size };
            }
            None => self.ranges.insert(i, added),
        }
    }
}

#[cfg(test)]
mod tests;
