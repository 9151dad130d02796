//! The search for room: which block a request is placed in.
//!
//! Worked example: three shared blocks of 16 MiB have 1, 5 and 9 MiB free, in this order. A request for 64 KiB tries
//! the first block, then the others. A request for 4 MiB skips the first, whose largest free range cannot have more
//! than 1 MiB, without touching the block; of the two others it takes the one whose free range of at least 4 MiB is
//! smallest.

use allotment_suballoc::{
    Algorithm, AllocateError, Allocation, FitStrategy, Request, SizeClasses, StackSide, VirtualBlock,
};

use super::{
    Block, BlockRange, BlockSet, PlacedRange, Role, Sizes, SpareCriteria, UsableBlocks, note_visits,
};
use crate::device::{Device, Priority};

/// Requests up to this size take the first block that has room, the fullest first.
///
/// Larger ones, for which a search of all blocks costs little beside the use of the memory, take the block where they
/// fit most closely: that saves half a percent to a percent of memory at the peaks of the recorded training traces.
const FIRST_FIT: u64 = 256 << 10;

/// The most blocks with room that a larger request is compared with, the fullest first. Each comparison reads a block that
/// is in no cache, so with more the search would take longer than is gained: where as many blocks have room, most of them
/// are nearly empty.
const MOST_FITTING: u32 = 32;

/// The ranges that a search looks at while others wait for the lock, where it has to look at all: less than 100 µs.
const AT_ONCE: usize = 1000;

/// How long a search for room may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Effort {
    /// The regions that it may look at to [prepare](BlockSet::prepare) blocks. `None` where it has to end.
    left: Option<usize>,
    /// Blocks were passed over that are not prepared.
    passed: bool,
}

impl Effort {
    /// Until it is known which block has room.
    pub(crate) const WHOLE: Self = Self { left: None, passed: false };
    /// A block of very many ranges may be passed over, since another one may have room.
    pub(crate) const SMALL: Self = Self { left: Some(AT_ONCE), passed: false };

    /// Returns true where the search has not ended: a block that it passed over may have room.
    pub(crate) fn has_passed(self) -> bool {
        self.passed
    }

    fn allocate(
        &mut self,
        ranges: &mut VirtualBlock<()>,
        request: Request,
    ) -> Result<Option<Allocation>, AllocateError> {
        let Some(left) = self.left else { return ranges.allocate_if_it_fits(request, ()) };
        match ranges.allocate_if_found_soon(request, (), left) {
            Err(AllocateError::Unprepared) => {
                *self = Self { left: Some(0), passed: true };
                Ok(None)
            }
            found => found,
        }
    }
}

/// The part of a shared block that a search for room reads, contiguous in memory with those of the other blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSummary {
    pub(super) block: u32,
    pub(super) free: u64,
    /// An upper bound: a larger request finds no room, a smaller one may find some.
    pub(super) largest_free_at_most: u64,
    /// Which [sizes](LargeSizes) its free ranges have; [`UNKNOWN`](Self::UNKNOWN) where it has changed since it was asked.
    pub(super) sizes: u64,
}

/// Sizes above [`FIRST_FIT`] in 64 classes, eight an octave; those from 60 MiB on are one class.
///
/// Most blocks with room for a request have none that is closer than what was found in others. To ask a block takes some 100
/// instructions, so what it said is remembered until it changes.
#[derive(Clone, Copy, Debug)]
struct LargeSizes;

impl LargeSizes {
    fn class_of(size: u64) -> u32 {
        type Classes = SizeClasses<3>;
        (Classes::class_of(size) - Classes::class_of(FIRST_FIT)).min(63) as u32
    }

    /// Returns the classes of free ranges that have at least `size` bytes and may be smaller than `room`.
    fn closer(size: u64, room: Option<u64>) -> u64 {
        let last = room.map_or(63, |room| Self::class_of(room - 1));
        u64::MAX << Self::class_of(size) & u64::MAX >> (63 - last)
    }

    fn of(ranges: &VirtualBlock<()>) -> u64 {
        ranges.free_size_classes(FIRST_FIT.ilog2())
    }
}

impl BlockSummary {
    /// A block may have any size that it was not asked for.
    pub(super) const UNKNOWN: u64 = u64::MAX;

    #[inline]
    pub(super) fn of(block: u32, ranges: &VirtualBlock<()>) -> Self {
        let (free, largest_free_at_most) = ranges.free_and_largest();
        Self { block, free, largest_free_at_most, sizes: Self::UNKNOWN }
    }

    /// Returns true where the sizes are those of the block, or not known, for tests.
    pub(super) fn knows<D: Device>(&self, block: &Block<D>) -> bool {
        self.sizes == Self::UNKNOWN || self.sizes == LargeSizes::of(&block.ranges)
    }
}

/// Returns the lowest bits of a word, at most `count`.
fn lowest_bits(word: u64, count: u32) -> u64 {
    let mut lowest = word;
    while lowest.count_ones() > count {
        lowest &= u64::MAX >> (lowest.leading_zeros() + 1);
    }
    lowest
}

/// Iterates over the positions of the bits of a word that are set, the lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let lowest = (self.0 != 0).then(|| self.0.trailing_zeros() as usize);
        self.0 &= self.0.wrapping_sub(1);
        lowest
    }
}

impl<D: Device> BlockSet<D> {
    /// Places a request in an existing block: with [`SpareCriteria`] in a spare dedicated one, else in a shared one.
    pub(crate) fn place(
        &mut self,
        request: &Request,
        spare: Option<SpareCriteria>,
        usable: UsableBlocks,
        sizes: Sizes,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        if usable.mapped_first {
            // To map a block costs a driver call, and address space.
            let mapped = self.place(request, spare, UsableBlocks::MAPPED, sizes)?;
            let rest = UsableBlocks { mapped_first: false, ..usable };
            return if mapped.is_some() { Ok(mapped) } else { self.place(request, spare, rest, sizes) };
        }
        if let Some(spare) = spare {
            let Some(index) = self.best_spare(request.size, spare, usable) else { return Ok(None) };
            // A spare block may be larger than the request. Its one allocation still begins at offset 0, on whichever
            // side of a shared block it would have been placed.
            let at_start = Request { side: StackSide::Lower, ..*request };
            return self.place_in_block(index, &at_start, sizes);
        }
        self.place_in_shared(request, usable, sizes, &mut { Effort::WHOLE })
    }

    /// Places a request in a shared block. Above [`FIRST_FIT`] the whole search is made, whatever the effort: so large ranges are
    /// never very many.
    pub(crate) fn place_in_shared(
        &mut self,
        request: &Request,
        usable: UsableBlocks,
        sizes: Sizes,
        effort: &mut Effort,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        if request.size > FIRST_FIT && self.algorithm == Algorithm::Tlsf {
            let closest = self.closest_fit(request, usable);
            #[cfg(test)]
            self.check_closest_fit(request, usable, closest);
            return match closest {
                Some(index) => self.place_in_block(index, request, sizes),
                None => Ok(None),
            };
        }
        // The fullest first, so that the emptiest blocks become empty and can be freed.
        let mut from = 0;
        while let Some((at, block)) = self.order.with_room(request.size, from) {
            from = at + 1;
            if !self.is_usable(block, usable) {
                continue;
            }
            let placed = self.place_with(block, sizes, |ranges| effort.allocate(ranges, *request))?;
            if placed.is_some() {
                return Ok(placed);
            }
        }
        Ok(None)
    }

    pub(super) fn is_usable(&self, index: u32, usable: UsableBlocks) -> bool {
        usable == UsableBlocks::ALL || self.block(index).is_some_and(|block| usable.contain(block))
    }

    /// Returns the block in which the request fits most closely, of the first [`MOST_FITTING`] that may have room, or else the first
    /// group behind them in which one has.
    pub(super) fn closest_fit(&mut self, request: &Request, usable: UsableBlocks) -> Option<u32> {
        // The simple idea: of each block that may have room, ask for the free range that it would use, and remember the closest.
        // But most blocks have none that is closer than what others have, so those are found first that may, by what is
        // remembered of their sizes; for all blocks of a group without a branch, since the processor would predict one wrongly
        // for every fourth block, and that took more time than all the rest.
        let Self { order, blocks, .. } = self;
        let (mut closest, mut left) = (None, MOST_FITTING);
        let mut closer = LargeSizes::closer(request.size, None);
        for group in order.groups_with_room(request.size) {
            let (mut with_room, mut may_be_closer) = (0_u64, 0_u64);
            for (at, summary) in group.iter().enumerate() {
                with_room |= u64::from(request.size <= summary.largest_free_at_most) << at;
                may_be_closer |= u64::from(summary.sizes & closer != 0) << at;
            }
            // Which of them have room for the request's alignment is not known before they are asked: while none had, all are.
            let with_room = if closest.is_some() { lowest_bits(with_room, left) } else { with_room };
            left = left.saturating_sub(with_room.count_ones());
            for at in Bits(with_room & may_be_closer) {
                let summary = &mut group[at];
                if summary.sizes & closer == 0 {
                    continue;
                }
                let Some(block) = blocks.get(summary.block).filter(|block| usable.contain(block)) else {
                    continue;
                };
                note_visits(1);
                if summary.sizes == BlockSummary::UNKNOWN {
                    summary.sizes = LargeSizes::of(&block.ranges);
                    if summary.sizes & closer == 0 {
                        continue;
                    }
                }
                let Some(room) = block.ranges.room_for(request) else { continue };
                if room == request.size {
                    return Some(summary.block);
                }
                if closest.is_none_or(|(other, _)| room < other) {
                    closest = Some((room, summary.block));
                    closer = LargeSizes::closer(request.size, Some(room));
                }
            }
            if left == 0 && closest.is_some() {
                break;
            }
        }
        closest.map(|(_, index)| index)
    }

    /// Checks what [`closest_fit`](Self::closest_fit) returned against all blocks: there is none that has room, or no closer one among
    /// the first.
    #[cfg(test)]
    fn check_closest_fit(&self, request: &Request, usable: UsableBlocks, closest: Option<u32>) {
        let room = |index: u32| {
            let block = self.block(index).filter(|block| usable.contain(block))?;
            block.ranges.room_for(request)
        };
        let Some(found) = closest.map(|index| room(index).expect("it has room")) else {
            assert!(self.order.iter().all(|summary| room(summary.block).is_none()), "no block has room");
            return;
        };
        let with_room = self.order.iter().filter(|summary| request.size <= summary.largest_free_at_most);
        let first = with_room.take(MOST_FITTING as usize).filter_map(|summary| room(summary.block)).min();
        assert!(first.is_none_or(|first| found <= first), "{found}, where one of the first has {first:?}");
    }

    /// Does a part of what the search for room has to do once in blocks with very many free ranges, up to the first block that has
    /// room. Returns true if nothing is left of it.
    pub(crate) fn prepare(&mut self, request: &Request, usable: UsableBlocks) -> bool {
        let mut from = 0;
        while let Some((at, index)) = self.order.with_room(request.size, from) {
            from = at + 1;
            let Some(block) = self.blocks.get_mut(index).filter(|block| usable.contain(block)) else {
                continue;
            };
            if !block.ranges.prepare(request, AT_ONCE) {
                return false;
            }
            // The bound is at most 1/32 too large. Only where it says nothing is the search worth its time.
            let largest = block.ranges.largest_free_at_most();
            let surely = largest - largest / 32 >= request.size.saturating_add(request.alignment.get());
            if surely || block.ranges.would_fit(request) {
                break;
            }
        }
        true
    }

    /// Places a request in one block. Returns `None` where the block has no room.
    pub(crate) fn place_in_block(
        &mut self,
        index: u32,
        request: &Request,
        sizes: Sizes,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        self.place_with(index, sizes, |ranges| ranges.allocate_if_it_fits(*request, ()))
    }

    /// Places a range in one block, where `allocate` takes it. Returns `None` where the block has no room.
    // Always, since its wide result would be copied twice.
    #[inline(always)]
    pub(super) fn place_with(
        &mut self,
        index: u32,
        sizes: Sizes,
        allocate: impl FnOnce(&mut VirtualBlock<()>) -> Result<Option<Allocation>, AllocateError>,
    ) -> Result<Option<PlacedRange>, AllocateError> {
        let Some(block) = self.blocks.get_mut(index) else { return Ok(None) };
        let (handle, offset) = match allocate(&mut block.ranges) {
            Ok(Some(Allocation { handle, offset, .. })) => (handle, offset),
            // A linear block in use as a ring has no upper side; another block may have one.
            Ok(None) | Err(AllocateError::RingInUse) => return Ok(None),
            Err(error) => return Err(error),
        };
        if block.is_listed() {
            self.order.update(index, block.ranges.free_and_largest());
        }
        let (dedicated, is_tlsf) = (block.role != Role::Shared, block.is_tlsf);
        let was_empty = block.occupy();
        self.count_begin(sizes);
        if was_empty {
            self.note_in_use(index);
        }
        if !is_tlsf {
            self.count_padding(index);
        }
        let range = BlockRange { home: self.home, dedicated, block: index, handle };
        Ok(Some(PlacedRange { range, offset }))
    }

    /// Returns true if [`place`](Self::place) would find room, in the order in which a pool tries the blocks.
    pub(crate) fn would_place(
        &self,
        request: &Request,
        spare: Option<SpareCriteria>,
        in_blocks: bool,
        usable: UsableBlocks,
        (most_spare, priority): (u64, Option<Priority>),
    ) -> bool {
        // A strategy decides where a range is placed, never whether; and some look at all ranges for the best place.
        let request = &request.with_strategy(FitStrategy::Balanced);
        // In the order of `place_in_existing`, with which a preview has to agree.
        if spare.is_some_and(|spare| self.best_spare(request.size, spare, usable).is_some()) {
            return true;
        }
        if !in_blocks {
            return false;
        }
        if self.shareable_spare(request, most_spare, priority, usable).is_some() {
            return true;
        }
        // A closed block counts, since a request that needs it opens it again.
        let next = |&(at, _): &(usize, u32)| self.order.with_room(request.size, at + 1);
        let open = core::iter::successors(self.order.with_room(request.size, 0), next);
        let mut shared = open.map(|(_, block)| block).chain(self.closed_shared());
        shared.any(|index| {
            let fits = |block: &Block<D>| usable.contain(block) && block.ranges.would_fit(request);
            self.block(index).is_some_and(fits)
        })
    }

    /// Returns the free bytes of the shared blocks, and the bytes of the largest free range among them.
    pub(crate) fn free_and_largest(&self) -> (u64, u64) {
        // Open shared blocks only, for this goes into errors: a request that was refused could not use the others.
        self.order.iter().fold((0, 0), |(free, largest), summary| {
            let may_have_more = summary.largest_free_at_most > largest;
            let block = self.block(summary.block).filter(|_| may_have_more);
            (free + summary.free, block.map_or(largest, |block| largest.max(block.ranges.largest_free())))
        })
    }

    /// Returns the bytes of a memory object of `memory_size`, from an allocation's first byte on, that no other allocation
    /// can get.
    pub(crate) fn bytes_taken(&self, block_range: &BlockRange, occupied: u64, memory_size: u64) -> u64 {
        // Nothing else can be placed in dedicated memory, so the allocation takes all of it. A buddy block allocates a
        // whole cell, a power of two.
        if block_range.dedicated { memory_size } else { self.least_block(occupied) }
    }

    /// Returns the bytes of the smallest block that can serve a request of `size`, which then starts at offset 0.
    pub(crate) fn least_block(&self, size: u64) -> u64 {
        match self.algorithm {
            Algorithm::Buddy => size.next_power_of_two(),
            _ => size,
        }
    }
}
