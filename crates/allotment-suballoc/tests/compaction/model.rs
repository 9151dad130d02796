//! Blocks of real bytes under generated operations, with several runs and several moves open at once.
//!
//! Each range is filled with bytes of its own, which are read again before the range is freed, after it has
//! moved, and after every operation.

use std::collections::{BTreeMap, BTreeSet};

use allotment_suballoc::{
    Algorithm, Alignment, Compaction, Handle, Move, MoveError, RegionKind, Request, ResizeError, VirtualBlock,
};

/// One operation; any bytes decode to one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Allocate { size: u64, log2: u8, pinned: bool },
    Free { which: usize },
    FreePlace { which: usize },
    Resize { which: usize, size: u64 },
    Grow { by: u64 },
    Next { run: usize },
    Finish { which: usize },
    Cancel { which: usize },
    Begin { run: usize },
    Clear,
}

impl Op {
    pub(crate) fn decode([kind, a, b, c]: [u8; 4]) -> Self {
        let which = usize::from(a) * 256 + usize::from(b);
        let size = 1 + u64::from(a) % if c % 8 == 0 { 256 } else { 40 };
        match kind % 32 {
            0..11 => Self::Allocate { size, log2: b % 5, pinned: b >= 224 },
            11..16 => Self::Free { which },
            16 => Self::Resize { which, size: 1 + u64::from(c) % 64 },
            17 if c < 64 => Self::Grow { by: which as u64 % 300 },
            17 if c < 70 => Self::Clear,
            17 if c < 120 => Self::FreePlace { which },
            17..19 => Self::Begin { run: which },
            19..25 => Self::Next { run: which },
            25..31 => Self::Finish { which },
            _ => Self::Cancel { which },
        }
    }
}

/// The data stored with a range: all that a caller needs to move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    id: u64,
    alignment: Alignment,
    pinned: bool,
}

struct Open {
    step: Move,
    id: u64,
    place_freed: bool,
}

/// A run, of which ranges it has asked, and of which it must have asked at its end.
#[derive(Default)]
struct Run {
    compaction: Compaction,
    asked: BTreeSet<u64>,
    /// The ranges live at the first call, except those that were moving at one of the calls.
    to_ask: Option<BTreeMap<u64, Handle>>,
}

struct World {
    block: VirtualBlock<Kept>,
    bytes: Vec<u8>,
    /// Handle and size of each live range by its number, which its bytes are made from.
    live: BTreeMap<u64, (Handle, u64, Kept)>,
    open: Vec<Open>,
    runs: [Run; 2],
    count: u64,
}

pub(crate) fn run(algorithm: Algorithm, size: u64, ops: &[Op]) {
    let mut world = World {
        block: VirtualBlock::new(size, algorithm).unwrap(),
        bytes: vec![0; size as usize],
        live: BTreeMap::new(),
        open: Vec::new(),
        runs: Default::default(),
        count: 0,
    };
    for &op in ops {
        world.step(op);
        world.check();
    }
    // Whatever went before, what is open can be brought to its end and all space comes back.
    while !world.open.is_empty() {
        world.finish(0);
        world.check();
    }
    while !world.live.is_empty() {
        world.free(0);
    }
    assert!(world.block.is_empty());
}

fn byte(id: u64, position: u64) -> u8 {
    (id * 31 + position * 7) as u8
}

impl World {
    fn step(&mut self, op: Op) {
        match op {
            Op::Allocate { size, log2, pinned } => self.allocate(size, log2, pinned),
            Op::Free { which } => self.free(which),
            Op::FreePlace { which } => {
                let Some(which) = which.checked_rem(self.open.len()) else { return };
                let open = &mut self.open[which];
                assert_eq!(self.block.free(open.step.to()).is_err(), open.place_freed);
                open.place_freed = true;
            }
            Op::Resize { which, size } => self.resize(which, size),
            Op::Grow { by } => {
                self.block.grow(self.block.size() + by).unwrap();
                self.bytes.resize(self.block.size() as usize, 0);
            }
            Op::Next { run } => self.next(run % 2),
            Op::Finish { which } => self.finish(which),
            Op::Cancel { which } => {
                let Some(which) = which.checked_rem(self.open.len()) else { return };
                let open = self.open.swap_remove(which);
                self.block.cancel_move(open.step).unwrap();
            }
            Op::Begin { run } => self.runs[run % 2] = Run::default(),
            Op::Clear => {
                self.block.clear();
                self.live.clear();
                self.open.iter_mut().for_each(|open| open.place_freed = true);
            }
        }
    }

    fn write(&mut self, offset: u64, size: u64, id: u64) {
        for position in 0..size {
            self.bytes[(offset + position) as usize] = byte(id, position);
        }
    }

    fn allocate(&mut self, size: u64, log2: u8, pinned: bool) {
        self.count += 1;
        let alignment = Alignment::new(1 << log2).unwrap();
        let kept = Kept { id: self.count, alignment, pinned };
        let Ok(range) = self.block.allocate(Request::new(size).aligned(alignment), kept) else { return };
        self.write(range.offset, size, kept.id);
        self.live.insert(kept.id, (range.handle, size, kept));
    }

    fn pick(&self, which: usize) -> Option<u64> {
        let which = which.checked_rem(self.live.len())?;
        self.live.keys().nth(which).copied()
    }

    fn free(&mut self, which: usize) {
        let Some(id) = self.pick(which) else { return };
        let (handle, _, kept) = self.live.remove(&id).unwrap();
        assert_eq!(self.block.free(handle), Ok(kept));
    }

    fn resize(&mut self, which: usize, size: u64) {
        let Some(id) = self.pick(which) else { return };
        let (handle, old, _) = self.live[&id];
        match self.block.resize(handle, size) {
            Ok(()) => {
                let offset = self.block.get(handle).unwrap().offset;
                if size > old {
                    self.write(offset, size, id);
                }
                self.live.get_mut(&id).unwrap().1 = size;
            }
            Err(error) => assert!(matches!(error, ResizeError::NoRoom { .. })),
        }
    }

    /// The lowest place below the limit, by a walk over the free regions.
    fn lowest_below(free: &[(u64, u64)], algorithm: Algorithm, kept: &Kept, from: (u64, u64)) -> Option<u64> {
        let (limit, size) = from;
        let cell = if algorithm == Algorithm::Buddy { size.next_power_of_two() } else { size };
        free.iter().find_map(|&(start, end)| {
            let place = kept.alignment.align_up(start);
            (place + cell <= end.min(limit)).then_some(place)
        })
    }

    fn next(&mut self, run: usize) {
        let algorithm = self.block.algorithm();
        let picture = self.block.regions();
        let free: Vec<_> = picture
            .filter(|region| matches!(region.kind, RegionKind::Free))
            .map(|region| (region.offset, region.offset + region.size))
            .collect();
        let Run { compaction, asked, to_ask } = &mut self.runs[run];
        let to_ask =
            to_ask.get_or_insert_with(|| self.live.iter().map(|(&id, &(handle, ..))| (id, handle)).collect());
        to_ask.retain(|id, _| !self.open.iter().any(|open| open.id == *id));
        let mut seen = Vec::new();
        let step = self.block.next_move(compaction, |kept| {
            assert!(asked.insert(kept.id), "{kept:?} is asked about twice in a run");
            seen.push(*kept);
            (!kept.pinned).then_some(kept.alignment)
        });
        let step = step.unwrap();
        if step.is_none() {
            for (id, handle) in to_ask {
                let is_there = self.live.get(id).is_some_and(|live| live.0 == *handle);
                assert!(!is_there || asked.contains(id), "{id} was passed over");
            }
        }
        let moving = step.is_some().then(|| seen.pop()).flatten();
        let mut above = u64::MAX;
        for kept in &seen {
            let (handle, size, _) = self.live[&kept.id];
            let offset = self.block.get(handle).unwrap().offset;
            assert!(offset < above, "ranges are looked at from the end to the start");
            above = offset;
            assert!(!self.open.iter().any(|open| open.step.from() == handle), "{kept:?} moves already");
            let place = Self::lowest_below(&free, algorithm, kept, (offset, size));
            assert!(kept.pinned || place.is_none(), "{kept:?} could go to {place:?}");
        }
        let (Some(step), Some(kept)) = (step, moving) else { return };
        let (handle, size, _) = self.live[&kept.id];
        assert_eq!((step.from(), step.size()), (handle, size));
        assert_eq!(step.from_offset(), self.block.get(handle).unwrap().offset);
        assert_eq!(self.block.get(step.to()).unwrap().offset, step.to_offset());
        let place = Self::lowest_below(&free, algorithm, &kept, (step.from_offset(), size));
        assert_eq!(Some(step.to_offset()), place, "the lowest place is taken");
        self.open.push(Open { step, id: kept.id, place_freed: false });
    }

    fn finish(&mut self, which: usize) {
        let Some(which) = which.checked_rem(self.open.len()) else { return };
        let Open { step, id, place_freed } = self.open.swap_remove(which);
        let (from, to, handle) = (step.from(), step.to(), self.live.get(&id).map(|live| live.0));
        let (size, offset) = (step.size(), step.to_offset());
        if !place_freed {
            let start = step.from_offset() as usize;
            self.bytes.copy_within(start..start + size as usize, offset as usize);
        }
        let source = handle.filter(|&handle| handle == from).map(|_| self.live[&id].1);
        let expected = match source {
            None => Err(MoveError::SourceFreed),
            Some(_) if place_freed => Err(MoveError::PlaceFreed),
            Some(now) if now != size => Err(MoveError::Resized { from: now, to: size }),
            Some(_) => Ok(to),
        };
        match self.block.finish_move(step) {
            Ok(handle) => {
                assert_eq!(Ok(handle), expected);
                self.live.get_mut(&id).unwrap().0 = handle;
            }
            Err(unfinished) => {
                assert_eq!(Err(unfinished.error), expected);
                self.block.cancel_move(unfinished.moved).unwrap();
            }
        }
    }

    fn check(&self) {
        self.block.check_invariants();
        let places = self.open.iter().filter(|open| !open.place_freed).count();
        assert_eq!(self.block.statistics().allocation_count as usize, self.live.len() + places);
        for (&id, &(handle, size, kept)) in &self.live {
            let info = self.block.get(handle).unwrap();
            assert_eq!((info.size, *info.data), (size, kept));
            assert!(kept.alignment.is_aligned(info.offset));
            let bytes = &self.bytes[info.offset as usize..][..size as usize];
            assert!(bytes.iter().zip(0..).all(|(&is, position)| is == byte(id, position)), "bytes of {id}");
        }
        assert!(self.block.largest_free() <= self.block.largest_free_at_best());
    }
}
