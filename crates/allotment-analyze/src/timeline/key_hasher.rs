//! Hashes of keys: one multiplication each, since the index asks for one or two keys an event.
//!
//! The keys of programs are dense numbers, but those of a file may be chosen to collide. So a secret number takes part,
//! which is another in each table.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

/// Makes hashers with the secret of a table.
#[derive(Clone, Debug)]
pub(super) struct KeyHasher {
    secret: u64,
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self { secret: RandomState::new().hash_one(0) }
    }
}

impl BuildHasher for KeyHasher {
    type Hasher = KeyHash;

    fn build_hasher(&self) -> KeyHash {
        KeyHash(self.secret)
    }
}

/// The hash so far.
#[derive(Debug)]
pub(super) struct KeyHash(u64);

impl Hasher for KeyHash {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Both halves of the product, so that every bit of the key reaches the low and the high bits, which a table uses.
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64 ^ self.0.rotate_left(23);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
