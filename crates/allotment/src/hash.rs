//! The hash of maps whose keys are a few words.
//!
//! ```text
//!   hash ──► (hash ^ word) × odd ──► upper half ^ lower half ──► hash          for each word
//! ```
//!
//! The standard library's hash (`SipHash`) is made for keys of any length, and takes 10 ns more for these. Here a word costs one
//! multiplication of 128 bits, as in `foldhash` and wyhash. The hash begins with a number that is random in each process, since a
//! program may pass on keys that others wrote, as a browser does with descriptions: they cannot know which of them collide.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

/// Where the hashes of a map begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }
}

/// A random one.
impl Default for Seed {
    fn default() -> Self {
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
pub(crate) struct Folded(u64);

/// The golden ratio in 64 bits, which is odd and has set bits all over.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for Folded {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        // The map looks at the lowest bits and at the highest: each half alone lacks the carries of the other one.
        self.0 = product as u64 ^ (product >> u64::BITS) as u64;
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
