//! The description of a sampler as a key of a hash map.
//!
//! ```text
//!   hash ──► (hash ^ word) × odd ──► upper half ^ lower half ──► hash          for each of three words
//! ```
//!
//! Finding a sampler and dropping it takes 56 ns, and with the standard library's hash (`SipHash`) 10 ns more: that is made
//! for keys of any length. Here a word costs one multiplication of 128 bits, as in `foldhash` and wyhash. The hash
//! begins with a number that is random in each process, since a program may pass on descriptions that others wrote, as a
//! browser does: they cannot know which of them collide.

use core::hash::{BuildHasher, Hash, Hasher};
use std::hash::RandomState;

use crate::device::SamplerDesc;

/// A description, in words that are equal exactly where the descriptions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SamplerKey([u64; 3]);

impl SamplerKey {
    pub(super) fn new(desc: &SamplerDesc) -> Self {
        Self(desc.key())
    }
}

impl Hash for SamplerKey {
    /// Word by word: an array would be passed on as bytes, with its length.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|&word| state.write_u64(word));
    }
}

/// Where the hashes of a map begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn random() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// The hash of the words so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded(u64);

/// The golden ratio in 64 bits, which is odd and has set bits all over.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for Folded {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        // The map looks at the lowest bits and at the highest: each half alone lacks the carries of the other one.
        self.0 = product as u64 ^ (product >> u64::BITS) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::device::{AddressMode, Compare};

    #[test]
    fn hashes_of_descriptions_that_differ_a_little_differ_at_both_ends() {
        let descs: Vec<_> = (0..64_u8)
            .flat_map(|level| {
                let base = SamplerDesc { min_lod: f32::from(level), ..SamplerDesc::default() };
                let clamped = SamplerDesc { address: [AddressMode::ClampToEdge; 3], ..base };
                let compared = SamplerDesc { compare: Some(Compare::Less), ..base };
                [base, clamped, compared, SamplerDesc { max_anisotropy: 16, ..base }]
            })
            .collect();
        for seed in [Seed::random(), Seed(0), Seed(u64::MAX)] {
            let hashes: Vec<_> = descs.iter().map(|desc| seed.hash_one(SamplerKey::new(desc))).collect();
            // 256 hashes in 65,536 places: half a pair of them is in one place by chance, and never so many.
            for end in [|hash: u64| hash & 0xFFFF, |hash: u64| hash >> 48] {
                let places: HashSet<_> = hashes.iter().map(|&hash| end(hash)).collect();
                assert!(places.len() > descs.len() - 12, "{} places with {seed:?}", places.len());
            }
        }
    }

    #[test]
    fn zeros_of_either_sign_are_one_key_with_one_hash() {
        let seed = Seed::random();
        let keys =
            [0.0, -0.0].map(|min_lod| SamplerKey::new(&SamplerDesc { min_lod, ..SamplerDesc::default() }));
        assert_eq!(keys[0], keys[1]);
        assert_eq!(seed.hash_one(keys[0]), seed.hash_one(keys[1]));
    }
}
