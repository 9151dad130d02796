//! The operations of a lap, generated before any timing.

use core::ops::RangeInclusive;

use crate::contender::{Kind, Request, Role};
use crate::rng::Rng;

/// Sizes and offsets are multiples of this.
const UNIT: u64 = 256;

/// Powers of two of units: 256 B to 64 KiB.
const SMALL: RangeInclusive<u8> = 0..=8;

/// 64 KiB to 1 MiB.
const MIDDLE: RangeInclusive<u8> = 8..=12;

/// 1 MiB to 8 MiB.
const LARGE: RangeInclusive<u8> = 12..=15;

/// What a lap does, and what lives before and after it.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The sizes of the initial set, in units.
    fill: Vec<u32>,
    /// The slots of the initial set come first.
    slots: usize,
    ops: Vec<Op>,
}

/// What is done with a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Free what is there, and allocate a size, in units.
    Replace(u32, u32),
    /// Allocate.
    Put(u32, u32),
    /// Free.
    Take(u32),
}

/// The traffic of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A set of live allocations; random ones are freed and replaced by one of another size.
    Churn,
    /// The same, with sizes of 1 to 8 MiB.
    ChurnLarge,
    /// So many are allocated at once, and then freed in random order.
    Waves(u32),
    /// The same, with sizes of 64 KiB to 1 MiB.
    WavesMiddle(u32),
    /// So many are allocated beside a live set, and then freed in their order.
    Bursts(u32),
}

impl Work {
    fn sizes(self) -> RangeInclusive<u8> {
        match self {
            Self::Churn | Self::Waves(_) | Self::Bursts(_) => SMALL,
            Self::ChurnLarge => LARGE,
            Self::WavesMiddle(_) => MIDDLE,
        }
    }

    /// Returns its name in tables, with `live` allocations.
    pub(crate) fn name(self, live: u32) -> String {
        match self {
            Self::Churn => format!("churn-{live}"),
            Self::ChurnLarge => format!("large-{live}"),
            Self::Waves(count) => format!("waves-{count}"),
            Self::WavesMiddle(count) => format!("middle-{count}"),
            Self::Bursts(count) => format!("bursts-{count}"),
        }
    }
}

impl Sequence {
    /// Generates about `operations` operations beside `live` allocations. Sizes are spread evenly over their octaves.
    pub(crate) fn new(work: Work, seed: u64, live: u32, operations: u32) -> Self {
        let mut rng = Rng::new(seed);
        let (least, most) = (f64::from(*work.sizes().start()), f64::from(*work.sizes().end()));
        let size = |rng: &mut Rng| (least + (most - least) * rng.unit()).exp2().round() as u32;
        let fill = (0..live).map(|_| size(&mut rng)).collect();
        let mut ops = Vec::new();
        let count = match work {
            Work::Churn | Work::ChurnLarge => {
                ops.extend((0..operations / 2).map(|_| Op::Replace(rng.below(live), size(&mut rng))));
                0
            }
            Work::Waves(count) | Work::WavesMiddle(count) | Work::Bursts(count) => {
                for _ in 0..(operations / 2 / count).max(1) {
                    let mut slots: Vec<_> = (live..live + count).collect();
                    ops.extend(slots.iter().map(|&slot| Op::Put(slot, size(&mut rng))));
                    if !matches!(work, Work::Bursts(_)) {
                        rng.shuffle(&mut slots);
                    }
                    ops.extend(slots.into_iter().map(Op::Take));
                }
                count
            }
        };
        Self { fill, slots: (live + count) as usize, ops }
    }

    /// [`Work::Churn`] with so many pairs of a free and an allocation.
    pub(crate) fn churn(seed: u64, live: u32, pairs: u32) -> Self {
        Self::new(Work::Churn, seed, live, pairs * 2)
    }

    pub(crate) fn fill(&self) -> impl ExactSizeIterator<Item = Request> {
        self.fill.iter().map(|&size| request(size))
    }

    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the number of allocations and frees of a lap.
    pub(crate) fn operations(&self) -> usize {
        let of = |op: &Op| if matches!(op, Op::Replace(..)) { 2 } else { 1 };
        self.ops.iter().map(of).sum()
    }

    /// Returns the number of allocations that live before a lap and after it.
    pub(crate) fn live(&self) -> usize {
        self.fill.len()
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the live bytes at the end of a lap.
    pub(crate) fn live_bytes(&self) -> u64 {
        let mut sizes = self.fill.clone();
        sizes.resize(self.slots, 0);
        for op in &self.ops {
            match *op {
                Op::Replace(slot, size) | Op::Put(slot, size) => sizes[slot as usize] = size,
                Op::Take(slot) => sizes[slot as usize] = 0,
            }
        }
        sizes.iter().map(|&size| u64::from(size) * UNIT).sum()
    }
}

/// Returns the request for a size in units.
pub(crate) fn request(size: u32) -> Request {
    Request { size: u64::from(size) * UNIT, alignment: UNIT, kind: Kind::Buffer, role: Role::Device }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spread_evenly_over_the_octaves() {
        let sequence = Sequence::churn(1, 1000, 100_000);
        let mut octaves = [0; 9];
        for op in sequence.ops() {
            let Op::Replace(slot, size) = *op else { unreachable!("a churn replaces") };
            assert!(slot < 1000);
            let request = request(size);
            assert!((256..=65536).contains(&request.size) && request.size.is_multiple_of(256));
            octaves[(request.size / 256).ilog2() as usize] += 1;
        }
        // The first octave has the sizes that round to 1 unit, which are fewer; the last only 64 KiB.
        assert!(octaves[1..8].iter().all(|count| (9_000..18_000).contains(count)), "{octaves:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let bytes = |seed| Sequence::churn(seed, 100, 1000).live_bytes();
        assert_eq!(bytes(7), bytes(7));
        assert_ne!(bytes(7), bytes(8));
    }

    #[test]
    fn of_waves_and_bursts_only_the_live_set_is_left() {
        for work in [Work::Waves(50), Work::WavesMiddle(50), Work::Bursts(50)] {
            let sequence = Sequence::new(work, 3, 7, 400);
            assert_eq!((sequence.operations(), sequence.slots()), (400, 57));
            let before: u64 = sequence.fill().map(|request| request.size).sum();
            assert_eq!(sequence.live_bytes(), before);
        }
    }
}
