//! A second, naive `VirtualBlock` that the real one is held against after every operation.
//!
//! Shared by the property tests, the corpus test and the fuzz target: all three turn bytes into
//! [`Op`]s, eight bytes each, and [`run`] them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(unreachable_pub, reason = "a module of several test programs")]

use std::collections::BTreeMap;

use allotment_suballoc::{
    Algorithm, Alignment, AllocateError, Compaction, CompactionError, FitStrategy, GrowError, Handle,
    HandleError, MAX_SIZE, Region, RegionKind, Request, ResizeError, SizeClasses, StackSide, VirtualBlock,
};

/// One operation. Numbers are folded into a useful range by [`Op::decode`], so that any bytes are a test.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Allocate {
        size: u64,
        alignment: u64,
        strategy: FitStrategy,
        side: StackSide,
    },
    AllocateBelow {
        size: u64,
        alignment: u64,
        limit: u64,
    },
    /// `distance` units behind a live range, or behind the start of the block.
    AllocateAt {
        size: u64,
        alignment: u64,
        which: usize,
        distance: u64,
    },
    /// Ranges of nearly equal sizes, every second of which is freed: more holes than a search looks at.
    Slivers {
        size: u64,
        spread: u64,
        alignment: u64,
        count: u64,
    },
    Free {
        which: usize,
    },
    /// Ranges side by side, upwards or downwards.
    FreeRun {
        which: usize,
        count: usize,
        down: bool,
    },
    FreeAgain,
    FreeForeign,
    Resize {
        which: usize,
        size: u64,
    },
    Grow {
        by: u64,
    },
    Clear,
    /// Frees host memory, and looks at handles of freed ranges.
    Shrink,
    Compact {
        alignment: u64,
    },
}

impl Op {
    /// `[kind, a, b, c, d, …]`: the kind, then what it needs.
    pub fn decode(bytes: [u8; 8]) -> Self {
        let [kind, a, b, c, d, e, ..] = bytes;
        let wide = u64::from(u32::from_le_bytes([a, b, c, d]));
        let strategies = [
            FitStrategy::Balanced,
            FitStrategy::LeastTime,
            FitStrategy::LeastMemory,
            FitStrategy::LowestOffset,
        ];
        let size = match e % 8 {
            0 => wide % 5000,
            1 => MAX_SIZE - wide % 3,
            2 => u64::MAX - wide,
            3 => 1 << (wide % 12),
            _ => wide % 300,
        };
        match kind % 16 {
            0..8 => Self::Allocate {
                size,
                alignment: 1 << ((e / 8) % 10),
                strategy: strategies[usize::from(kind / 16) % 4],
                side: if kind >= 192 { StackSide::Upper } else { StackSide::Lower },
            },
            8..12 => Self::Free { which: wide as usize },
            12 => Self::Resize { which: wide as usize, size: u64::from(d) * u64::from(e % 16 + 1) },
            // To a size that takes more than 32 bits, now and then.
            13 if kind > 240 => Self::Grow { by: (1 << 32) + wide },
            13 => Self::Grow { by: wide % 700 },
            14 if kind > 240 => Self::Clear,
            14 if kind > 208 => Self::Slivers {
                size: 1 + u64::from(a) % 40,
                spread: 1 + u64::from(b) % 8,
                alignment: 1 << (c % 5),
                count: 32 + u64::from(d),
            },
            14 if kind > 192 => Self::Shrink,
            14 => Self::FreeAgain,
            _ if kind < 64 => Self::FreeForeign,
            _ if kind < 128 => Self::Compact { alignment: 1 << (a % 5) },
            _ if kind >= 192 => Self::AllocateAt {
                size,
                alignment: 1 << ((e / 8) % 4),
                which: usize::from(d),
                distance: u64::from(a) % (1 << (b % 9)),
            },
            _ => Self::AllocateBelow { size, alignment: 1 << ((e / 8) % 10), limit: wide >> (c % 32) },
        }
    }
}

/// The model's record of a live range.
#[derive(Clone, Copy, Debug)]
struct Live {
    handle: Handle,
    size: u64,
    upper: bool,
    data: u64,
}

/// Runs a block through the operations in `bytes`. Of a fuzzer's first bytes one names the algorithm, in the cases of the
/// seed corpus, and an order of magnitude; two the size.
pub fn run(bytes: &[u8]) {
    let algorithm = bytes.first().map_or(0, |&first| usize::from(first) % 3);
    run_on(Algorithm::ALL[algorithm], bytes);
}

/// As [`run`], on a block of this algorithm.
pub fn run_on(algorithm: Algorithm, bytes: &[u8]) {
    let Some((&[first, low, high], rest)) = bytes.split_first_chunk::<3>() else { return };
    let size = 1 + u64::from(u16::from_le_bytes([low, high]));
    let size = match first / 3 % 4 {
        0 | 1 => size,
        2 => size << 10,
        // Its numbers take more than 32 bits.
        _ => size << 20 | 1 << 40,
    };
    let ops = rest.chunks_exact(8).map(|op| Op::decode(op.try_into().unwrap()));
    run_ops(algorithm, size, &ops.collect::<Vec<_>>());
}

/// Runs the operations and panics at the first difference between the block and its model.
pub fn run_ops(algorithm: Algorithm, size: u64, ops: &[Op]) {
    let mut pair = Pair {
        block: VirtualBlock::new(size, algorithm).unwrap(),
        live: BTreeMap::new(),
        stale: None,
        gone: Vec::new(),
        gap: (0, size),
        size,
        count: 0,
    };
    for (at, op) in ops.iter().enumerate() {
        pair.step(op);
        // Each look at a block is at all of it, and a fuzzer that fills one with thousands of ranges would do little else.
        if pair.live.len() < 500 || at % 8 == 0 {
            pair.check();
        }
    }
    pair.check();
}

struct Pair {
    block: VirtualBlock<u64>,
    /// Live ranges by their offset.
    live: BTreeMap<u64, Live>,
    stale: Option<Handle>,
    /// The handles of all freed ranges.
    gone: Vec<Handle>,
    /// Where a linear block takes from, by its documented rule.
    gap: (u64, u64),
    size: u64,
    count: u64,
}

impl Pair {
    fn step(&mut self, op: &Op) {
        let before = self.picture();
        let failed = match *op {
            Op::Allocate { size, alignment, strategy, side } => {
                let alignment = Alignment::new(alignment).unwrap();
                self.allocate(Request { size, alignment, strategy, side })
            }
            Op::AllocateBelow { size, alignment, limit } => {
                let alignment = Alignment::new(alignment).unwrap();
                self.allocate_below(Request::new(size).aligned(alignment), limit)
            }
            Op::AllocateAt { size, alignment, which, distance } => {
                let alignment = Alignment::new(alignment).unwrap();
                self.allocate_at(Request::new(size).aligned(alignment), which, distance)
            }
            Op::Slivers { size, spread, alignment, count } => {
                let alignment = Alignment::new(alignment).unwrap();
                let older = self.count;
                for i in 0..count {
                    self.allocate(Request::new(size + i * 5 % spread).aligned(alignment));
                }
                let new = self.live.values().enumerate().filter(|(_, live)| live.data > older);
                let half: Vec<_> = new.map(|(which, _)| which).step_by(2).collect();
                // From the last on: the others keep their numbers.
                half.into_iter().rev().for_each(|which| assert!(!self.free(which)));
                false
            }
            Op::Free { which } => self.free(which),
            Op::FreeRun { which, count, down } => {
                let first = which.checked_rem(self.live.len()).unwrap_or(0);
                for i in (0..count).take(if down { first + 1 } else { self.live.len() - first }) {
                    assert!(!self.free(if down { first - i } else { first }));
                    self.block.check_invariants();
                }
                false
            }
            Op::FreeAgain => {
                let stale = self.stale;
                stale.is_some_and(|handle| {
                    assert_eq!(self.block.free(handle), Err(HandleError::Stale));
                    assert_eq!(self.block.get(handle), Err(HandleError::Stale));
                    assert_eq!(self.block.data_mut(handle), Err(HandleError::Stale));
                    assert_eq!(self.block.resize(handle, 1), Err(ResizeError::Handle(HandleError::Stale)));
                    true
                })
            }
            Op::FreeForeign => {
                let mut other = VirtualBlock::new(8, self.block.algorithm()).unwrap();
                let foreign = other.allocate(Request::new(1), 0).unwrap().handle;
                assert_eq!(self.block.free(foreign), Err(HandleError::WrongBlock));
                true
            }
            Op::Resize { which, size } => self.resize(which, size),
            Op::Grow { by } => self.grow(self.size + by),
            Op::Clear => {
                self.block.clear();
                self.stale = self.live.values().next().map(|live| live.handle).or(self.stale);
                self.gone.extend(self.live.values().map(|live| live.handle));
                self.live.clear();
                self.gap = (0, self.size);
                assert!(self.block.is_empty());
                false
            }
            Op::Shrink => {
                self.block.shrink_to_fit();
                let newest = self.gone.iter().rev().take(500);
                newest.for_each(|&gone| assert_eq!(self.block.get(gone), Err(HandleError::Stale)));
                true
            }
            Op::Compact { alignment } => self.compact(Alignment::new(alignment).unwrap()),
        };
        if failed {
            assert_eq!(self.picture(), before, "a refused call changes nothing, nor does a shrink: {op:?}");
        }
    }

    /// Everything that a caller can see.
    fn picture(&self) -> Vec<(u64, u64, Option<u64>)> {
        let used = |kind| match kind {
            RegionKind::Used { data, .. } => Some(*data),
            RegionKind::Padding => Some(u64::MAX),
            _ => None,
        };
        self.block.regions().map(|region| (region.offset, region.size, used(region.kind))).collect()
    }

    /// Ranges that belong to no live range, in address order, as a naive reader would list them.
    fn holes(&self) -> Vec<(u64, u64)> {
        let mut holes = Vec::new();
        let mut end = 0;
        for (&offset, live) in &self.live {
            if offset > end {
                holes.push((end, offset));
            }
            end = offset + live.size;
        }
        if end < self.size {
            holes.push((end, self.size));
        }
        holes
    }

    /// Checks what the block says of the sizes of its free ranges, one of which has `room`.
    fn check_size_classes(&self, room: u64) {
        // Blocks have up to 2^23 units: of those from 2^16 on, none is beyond the classes.
        for from_log2 in [5, 16] {
            let class = |size| SizeClasses::<3>::class_of(size) - SizeClasses::<3>::class_of(1 << from_log2);
            let mark = |size: u64| if size >> from_log2 == 0 { 0 } else { 1_u64 << class(size).min(63) };
            let classes = self.block.free_size_classes(from_log2);
            if self.block.algorithm() == Algorithm::Tlsf {
                let expected = self.holes().iter().fold(0, |marks, hole| marks | mark(hole.1 - hole.0));
                assert_eq!(classes, expected, "from 2^{from_log2} on");
            }
            assert_eq!(classes & mark(room), mark(room), "a free range has {room}");
        }
    }

    fn allocate(&mut self, request: Request) -> bool {
        self.count += 1;
        let data = self.count;
        let expected = self.expected_offset(&request);
        let would_fit = self.block.would_fit(&request);
        let holes = (self.block.algorithm() == Algorithm::Tlsf)
            .then(|| (self.holes(), self.block.room_for(&request)));
        if let Some(room) = self.block.room_for(&request) {
            self.check_size_classes(room);
        }
        if self.count % 3 == 0 {
            // A part of an index changes no choice.
            self.block.prepare(&request, self.count as usize % 16);
        }
        match self.block.allocate(request, data) {
            Ok(allocation) => {
                if let Some((holes, room)) = holes {
                    let used = holes.iter().find(|hole| (hole.0..hole.1).contains(&allocation.offset));
                    assert_eq!(
                        room,
                        used.map(|(from, to)| to - from),
                        "{request:?} at {}",
                        allocation.offset
                    );
                }
                let Request { size, alignment, .. } = request;
                let offset = allocation.offset;
                assert_eq!(allocation.size, size);
                assert!(would_fit, "{request:?}");
                assert!(alignment.is_aligned(offset), "{request:?} at {offset}");
                assert!(offset + size <= self.size, "{request:?} at {offset}");
                match expected {
                    Expected::At(place) => assert_eq!(offset, place, "{request:?}"),
                    Expected::Somewhere => {}
                    Expected::Nowhere => panic!("{request:?} cannot fit, yet is at {offset}"),
                }
                let upper = request.side == StackSide::Upper;
                let live = Live { handle: allocation.handle, size, upper, data };
                assert!(self.live.insert(offset, live).is_none(), "two ranges at {offset}");
                if self.block.algorithm() == Algorithm::Linear {
                    self.linear_took(offset, size, upper);
                }
                false
            }
            Err(refused) => {
                assert_eq!(refused.data, data);
                assert!(!would_fit, "{request:?}");
                match refused.error {
                    AllocateError::ZeroSize => assert_eq!(request.size, 0),
                    AllocateError::TooLarge { size } => assert!(size == request.size && size > MAX_SIZE),
                    AllocateError::OneSided { algorithm } => {
                        assert!(request.side == StackSide::Upper && algorithm != Algorithm::Linear);
                    }
                    AllocateError::RingInUse => assert!(self.gap.1 < self.size && !self.has_uppers()),
                    AllocateError::NoSpace { size, alignment, free, largest_free } => {
                        assert!(matches!(expected, Expected::Nowhere), "{request:?} would fit");
                        assert_eq!((size, alignment), (request.size, request.alignment));
                        assert!(largest_free <= free && free <= self.size);
                        let plain = alignment == Alignment::ONE && request.side == StackSide::Lower;
                        assert!(!plain || largest_free < size);
                    }
                    error => panic!("unexpected: {error}"),
                }
                true
            }
        }
    }

    fn allocate_below(&mut self, request: Request, limit: u64) -> bool {
        self.count += 1;
        let data = self.count;
        let lowest = self.lowest_below(&request, limit);
        match self.block.allocate_below(request, limit, data) {
            Ok(allocation) => {
                assert_eq!((Some(allocation.offset), allocation.size), (lowest, request.size));
                let live = Live { handle: allocation.handle, size: request.size, upper: false, data };
                assert!(self.live.insert(allocation.offset, live).is_none());
                false
            }
            Err(refused) => {
                assert_eq!(refused.data, data);
                let Request { size, alignment, .. } = request;
                match refused.error {
                    AllocateError::InOrder => assert_eq!(self.block.algorithm(), Algorithm::Linear),
                    AllocateError::ZeroSize => assert_eq!(size, 0),
                    AllocateError::TooLarge { .. } => assert!(size > MAX_SIZE),
                    error => {
                        assert_eq!(error, AllocateError::NoSpaceBelow { size, alignment, limit });
                        assert_eq!(lowest, None);
                    }
                }
                true
            }
        }
    }

    fn allocate_at(&mut self, request: Request, which: usize, distance: u64) -> bool {
        self.count += 1;
        let data = self.count;
        let after = if which % 5 == 0 { None } else { self.pick(which) };
        let start = after.map_or(0, |(offset, live)| offset + live.size);
        let mut offset = start + distance;
        if which % 2 == 0 && request.size <= MAX_SIZE {
            // A place that a buddy block can have, more often than by chance.
            offset = offset.next_multiple_of(request.size.max(1).next_power_of_two());
        }
        let there = self.is_free_for(&request, offset) && !self.live.range(start..offset).any(|_| true);
        match self.block.allocate_at(request, offset, after.map(|(_, live)| live.handle), data) {
            Ok(allocation) => {
                assert!(there, "{request:?} at {offset} behind {start}");
                assert_eq!((allocation.offset, allocation.size), (offset, request.size));
                let live = Live { handle: allocation.handle, size: request.size, upper: false, data };
                assert!(self.live.insert(offset, live).is_none());
                false
            }
            Err(refused) => {
                assert_eq!(refused.data, data);
                let size = request.size;
                match refused.error {
                    AllocateError::InOrder => assert_eq!(self.block.algorithm(), Algorithm::Linear),
                    AllocateError::ZeroSize => assert_eq!(size, 0),
                    AllocateError::TooLarge { .. } => assert!(size > MAX_SIZE),
                    error => {
                        assert_eq!(error, AllocateError::NotFree { offset, size });
                        assert!(!there, "{request:?} at {offset} behind {start}");
                    }
                }
                true
            }
        }
    }

    /// True where nothing of a place is in use, by a look at all regions.
    fn is_free_for(&self, request: &Request, offset: u64) -> bool {
        if request.size == 0 || request.size > self.size {
            return false;
        }
        let cell = match self.block.algorithm() {
            Algorithm::Buddy => request.size.next_power_of_two(),
            _ => request.size,
        };
        let buddy = self.block.algorithm() == Algorithm::Buddy;
        let aligned = request.alignment.is_aligned(offset) && (!buddy || offset % cell == 0);
        aligned
            && offset + cell <= self.size
            && self.extents().all(|(from, to)| to <= offset || offset + cell <= from)
    }

    /// The lowest place of the request that ends at or below the limit, by a walk over the free regions.
    fn lowest_below(&self, request: &Request, limit: u64) -> Option<u64> {
        if request.size > self.size {
            return None;
        }
        let cell = match self.block.algorithm() {
            Algorithm::Buddy => request.size.next_power_of_two(),
            _ => request.size,
        };
        let is_free = |region: &Region<'_, u64>| matches!(region.kind, RegionKind::Free);
        let free = match self.block.algorithm() {
            // What it shows need not be merged yet.
            Algorithm::Tlsf => self.holes(),
            _ => {
                let regions = self.block.regions().filter(is_free);
                regions.map(|region| (region.offset, region.offset + region.size)).collect()
            }
        };
        free.into_iter().find_map(|(start, end)| {
            let place = request.alignment.align_up(start);
            (place + cell <= end && place + cell <= limit).then_some(place)
        })
    }

    /// Runs until no range can go lower. True where the block refuses.
    fn compact(&mut self, alignment: Alignment) -> bool {
        if self.block.algorithm() == Algorithm::Linear {
            let refused = self.block.next_move(&mut Compaction::new(), |_| Some(alignment));
            assert_eq!(refused, Err(CompactionError::InOrder));
            return true;
        }
        let at_best = self.block.largest_free_at_best();
        loop {
            let (mut run, mut moves) = (Compaction::new(), 0);
            while let Some(step) = self.block.next_move(&mut run, |_| Some(alignment)).unwrap() {
                let (from, to) = (step.from_offset(), step.to_offset());
                assert!(to + step.size() <= from && alignment.is_aligned(to), "{step:?}");
                self.block.check_invariants();
                let live = self.live.remove(&from).unwrap();
                assert_eq!((step.from(), step.size()), (live.handle, live.size));
                self.stale = Some(live.handle);
                self.gone.push(live.handle);
                let handle = self.block.finish_move(step).unwrap();
                assert!(self.live.insert(to, Live { handle, ..live }).is_none());
                moves += 1;
            }
            if moves == 0 {
                break;
            }
        }
        for (&offset, live) in &self.live {
            let request = Request::new(live.size).aligned(alignment);
            assert_eq!(self.lowest_below(&request, offset), None, "{live:?} at {offset} could go lower");
        }
        assert_eq!(self.block.largest_free_at_best(), at_best);
        assert!(self.block.largest_free() <= at_best);
        false
    }

    fn expected_offset(&self, request: &Request) -> Expected {
        if request.size == 0 || request.size > self.size {
            return Expected::Nowhere;
        }
        match self.block.algorithm() {
            Algorithm::Tlsf if request.side == StackSide::Lower => self.expected_of_tlsf(request),
            Algorithm::Buddy if request.side == StackSide::Lower => self.expected_of_buddy(request),
            Algorithm::Linear => self.expected_of_linear(request),
            _ => Expected::Nowhere,
        }
    }

    fn expected_of_tlsf(&self, request: &Request) -> Expected {
        let fitting = self.holes().into_iter().filter_map(|(start, end)| {
            let place = request.alignment.align_up(start);
            (place + request.size <= end).then_some((start, end, place))
        });
        // Of so many the block does not look at each.
        let are_many = self.holes().iter().filter(|(start, end)| end - start >= request.size).count() > 128;
        let place = match request.strategy {
            FitStrategy::LowestOffset => fitting.min_by_key(|&(start, ..)| start),
            FitStrategy::LeastMemory if !are_many => {
                fitting.min_by_key(|&(start, end, _)| (end - start, start))
            }
            _ => return fitting.map(|_| Expected::Somewhere).next().unwrap_or(Expected::Nowhere),
        };
        place.map_or(Expected::Nowhere, |(.., place)| Expected::At(place))
    }

    fn expected_of_buddy(&self, request: &Request) -> Expected {
        // A cell cannot move, so only the free cells that the block reports count.
        let cell = request.size.next_power_of_two();
        let fits = |offset: u64, size: u64| size >= cell && request.alignment.is_aligned(offset);
        let some = self
            .block
            .regions()
            .any(|region| matches!(region.kind, RegionKind::Free) && fits(region.offset, region.size));
        if some { Expected::Somewhere } else { Expected::Nowhere }
    }

    fn expected_of_linear(&self, request: &Request) -> Expected {
        let Request { size, alignment, side, .. } = *request;
        let (start, end) = self.gap;
        if side == StackSide::Upper {
            if end < self.size && !self.has_uppers() {
                return Expected::Nowhere;
            }
            let place = end.checked_sub(size).map(|place| alignment.align_down(place));
            return match place {
                Some(place) if place >= start => Expected::At(place),
                _ => Expected::Nowhere,
            };
        }
        let place = alignment.align_up(start);
        if place + size <= end {
            return Expected::At(place);
        }
        let lowest = self.extents().map(|(start, _)| start).min().unwrap_or(self.size);
        if end == self.size && size <= lowest && lowest <= start {
            Expected::At(0)
        } else {
            Expected::Nowhere
        }
    }

    fn has_uppers(&self) -> bool {
        self.live.values().any(|live| live.upper)
    }

    /// Live ranges, with the padding that a linear or buddy block shows beside them.
    fn extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let is_tlsf = self.block.algorithm() == Algorithm::Tlsf;
        self.block
            .regions()
            .filter(move |region| match region.kind {
                RegionKind::Free => false,
                RegionKind::Padding => !is_tlsf,
                _ => true,
            })
            .map(|region| (region.offset, region.offset + region.size))
    }

    fn linear_took(&mut self, offset: u64, size: u64, upper: bool) {
        if upper {
            self.gap.1 = offset;
        } else {
            if offset < self.gap.0 {
                // It wrapped: the gap is what lies before the lowest other range.
                let next = self.extents().map(|(start, _)| start).filter(|&start| start > offset).min();
                self.gap.1 = next.unwrap_or(self.size);
            }
            self.gap.0 = offset + size;
        }
    }

    /// The gap reaches from the last live range before it to the first one after it.
    fn linear_gave(&mut self) {
        let (start, end) = self.gap;
        let below = self.extents().map(|(_, e)| e).filter(|&e| e <= start).max().unwrap_or(0);
        let above = self.extents().map(|(s, _)| s).filter(|&s| s >= end).min().unwrap_or(self.size);
        self.gap = (below, above);
    }

    fn pick(&self, which: usize) -> Option<(u64, Live)> {
        let which = which.checked_rem(self.live.len())?;
        self.live.iter().nth(which).map(|(&offset, &live)| (offset, live))
    }

    fn free(&mut self, which: usize) -> bool {
        let Some((offset, live)) = self.pick(which) else { return false };
        let info = self.block.get(live.handle).unwrap();
        assert_eq!((info.offset, info.size, *info.data), (offset, live.size, live.data));
        assert_eq!(self.block.free(live.handle), Ok(live.data));
        self.live.remove(&offset);
        self.stale = Some(live.handle);
        self.gone.push(live.handle);
        self.linear_gave();
        false
    }

    fn resize(&mut self, which: usize, size: u64) -> bool {
        let Some((offset, live)) = self.pick(which) else { return false };
        let behind = self.holes().into_iter().find(|hole| hole.0 == offset + live.size);
        let mut room = live.size + behind.map_or(0, |(start, end)| end - start);
        if self.block.algorithm() == Algorithm::Linear {
            // Padding is no room.
            let behind = self.block.regions().find(|region| region.offset == offset + live.size);
            let free = behind.filter(|region| matches!(region.kind, RegionKind::Free));
            room = live.size + free.map_or(0, |region| region.size);
        }
        match self.block.resize(live.handle, size) {
            Ok(()) => {
                assert!(size <= room, "{live:?} to {size} with room for {room}");
                self.live.get_mut(&offset).unwrap().size = size;
                if self.gap.0 == offset + live.size && size > live.size {
                    self.gap.0 = offset + size;
                }
                self.linear_gave();
                false
            }
            Err(ResizeError::NoRoom { size: asked, largest }) => {
                assert!(asked == size && largest < size && largest >= live.size && largest <= room);
                if self.block.algorithm() != Algorithm::Buddy {
                    assert_eq!(largest, room);
                }
                true
            }
            Err(ResizeError::ZeroSize) => {
                assert_eq!(size, 0);
                true
            }
            Err(error) => panic!("unexpected: {error}"),
        }
    }

    fn grow(&mut self, size: u64) -> bool {
        assert!(matches!(self.block.grow(self.size - 1), Err(GrowError::Smaller { .. })));
        assert!(matches!(self.block.grow(MAX_SIZE + 1), Err(GrowError::TooLarge { .. })));
        match self.block.grow(size) {
            Ok(()) => {
                if self.gap.1 == self.size {
                    self.gap.1 = size;
                }
                self.size = size;
                false
            }
            Err(error) => {
                let ranges = self.live.values().filter(|live| live.upper).count() as u32;
                assert_eq!(error, GrowError::UpperInUse { ranges });
                assert!(ranges > 0);
                true
            }
        }
    }

    /// Checks the conditions that hold after every operation.
    fn check(&self) {
        self.block.check_invariants();
        let statistics = self.block.statistics();
        assert_eq!(statistics.size, self.size);
        assert_eq!(statistics.allocation_count as usize, self.live.len());
        assert_eq!(statistics.allocated, self.live.values().map(|live| live.size).sum::<u64>());
        assert_eq!(statistics.allocated + statistics.padding + statistics.free, self.size);
        assert_eq!(self.block.detailed_statistics().brief, statistics);

        let mut end = 0;
        let (mut used, mut free_ranges) = (0, 0);
        for region in self.block.regions() {
            assert_eq!(region.offset, end, "the regions tile the block");
            end += region.size;
            match region.kind {
                RegionKind::Used { handle, data } => {
                    let live = &self.live[&region.offset];
                    assert_eq!((handle, *data, region.size), (live.handle, live.data, live.size));
                    used += 1;
                }
                RegionKind::Free => free_ranges += 1,
                _ => {}
            }
        }
        assert_eq!(end, self.size);
        let sum = |wanted: fn(&RegionKind<'_, u64>) -> bool| {
            self.block.regions().filter(|region| wanted(&region.kind)).map(|region| region.size).sum::<u64>()
        };
        // A region that is lost would look like padding.
        assert_eq!(sum(|kind| matches!(kind, RegionKind::Padding)), statistics.padding);
        assert_eq!(sum(|kind| matches!(kind, RegionKind::Free)), statistics.free);
        assert_eq!(used, self.live.len());
        assert_eq!(free_ranges, statistics.free_range_count);
        if self.block.algorithm() == Algorithm::Tlsf {
            let largest = self.holes().iter().map(|(start, end)| end - start).max().unwrap_or(0);
            assert_eq!(self.block.largest_free(), largest);
            assert_eq!(statistics.padding, 0, "TLSF loses nothing inside a block");
        }
        assert!(self.block.may_fit(self.block.largest_free()));
    }
}

enum Expected {
    At(u64),
    Somewhere,
    Nowhere,
}
