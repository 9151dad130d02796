//! Bytes to write, and their comparison.

/// Numbers that look random and are the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // The generator never leaves 0, so no seed may lead there.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Bytes by which one place can be told from another.
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len as usize + 8);
    while bytes.len() < len as usize {
        bytes.extend_from_slice(&random.next().to_ne_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

/// Compares bytes, and says where they differ rather than printing them all.
#[track_caller]
#[allow(dead_code, reason = "not all of it is used by each program of tests")]
pub(crate) fn assert_same(found: &[u8], expected: &[u8], what: impl core::fmt::Debug) {
    assert_eq!(found.len(), expected.len(), "{what:?}: length");
    // First as a whole: without optimisation, byte by byte is a hundred times slower.
    if found == expected {
        return;
    }
    if let Some(at) = (0..found.len()).find(|&i| found[i] != expected[i]) {
        let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
        panic!("{what:?}: {wrong} of {} bytes are wrong, the first at {at}", found.len());
    }
}
