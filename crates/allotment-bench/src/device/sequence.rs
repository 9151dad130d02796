//! The operations of a lap, generated before any timing.

use crate::contender::{Kind, Request, Role};
use crate::rng::Rng;

/// Sizes and offsets are multiples of this.
const UNIT: u64 = 256;

/// The largest size: 2^8 units, 64 KiB.
const OCTAVES: f64 = 8.0;

/// "Churn": a set of live allocations; random ones are freed and replaced by one of another size. Sizes are spread
/// evenly over the octaves from 256 B to 64 KiB.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The sizes of the initial set, in units.
    fill: Vec<u16>,
    pairs: Vec<Pair>,
}

/// Free the allocation in a slot, and allocate this size there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) slot: u32,
    /// In units.
    size: u16,
}

impl Sequence {
    pub(crate) fn churn(seed: u64, live: u32, pairs: u32) -> Self {
        let mut rng = Rng::new(seed);
        let size = |rng: &mut Rng| (OCTAVES * rng.unit()).exp2().round() as u16;
        Self {
            fill: (0..live).map(|_| size(&mut rng)).collect(),
            pairs: (0..pairs).map(|_| Pair { slot: rng.below(live), size: size(&mut rng) }).collect(),
        }
    }

    pub(crate) fn fill(&self) -> impl ExactSizeIterator<Item = Request> {
        self.fill.iter().map(|&size| request(size))
    }

    pub(crate) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Returns the constant number of live allocations.
    pub(crate) fn live(&self) -> usize {
        self.fill.len()
    }

    /// Returns the live bytes at the end of a lap.
    pub(crate) fn live_bytes(&self) -> u64 {
        let mut sizes = self.fill.clone();
        for pair in &self.pairs {
            sizes[pair.slot as usize] = pair.size;
        }
        sizes.iter().map(|&size| u64::from(size) * UNIT).sum()
    }
}

impl Pair {
    pub(crate) fn request(self) -> Request {
        request(self.size)
    }
}

fn request(size: u16) -> Request {
    Request { size: u64::from(size) * UNIT, alignment: UNIT, kind: Kind::Buffer, role: Role::Device }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_spread_evenly_over_the_octaves() {
        let sequence = Sequence::churn(1, 1000, 100_000);
        let mut octaves = [0; 9];
        for pair in sequence.pairs() {
            assert!(pair.slot < 1000);
            let request = pair.request();
            assert!((256..=65536).contains(&request.size) && request.size % 256 == 0);
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
}
