//! Bytes that identify their location: a function of resource and offset, distinct for any two locations.

use core::ops::Range;

/// Bytes that are generated and compared at once.
const CHUNK: u64 = 4 << 20;

/// Splits a range of a resource into pieces for one transfer, at multiples of the chunk size.
pub(crate) fn chunks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    core::iter::from_fn(move || {
        let end = (start / CHUNK + 1).saturating_mul(CHUNK).min(range.end);
        let chunk = start..end;
        start = end;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Generates the bytes in reused buffers.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    expected: Vec<u8>,
    back: Vec<u8>,
}

impl Pattern {
    /// Returns the bytes of a part of a resource.
    pub(crate) fn bytes(&mut self, resource: u64, part: Range<u64>) -> &[u8] {
        fill(&mut self.expected, resource, part);
        &self.expected
    }

    /// Returns the bytes of a part of a resource, and a buffer of the same size for reading them back.
    pub(crate) fn bytes_and_room(&mut self, resource: u64, part: Range<u64>) -> (&[u8], &mut [u8]) {
        fill(&mut self.expected, resource, part);
        // Cleared, so that stale bytes cannot pass verification.
        self.back.clear();
        self.back.resize(self.expected.len(), 0);
        (&self.expected, &mut self.back)
    }
}

fn fill(buffer: &mut Vec<u8>, resource: u64, part: Range<u64>) {
    let skip = (part.start % 8) as usize;
    let len = (part.end - part.start) as usize + skip;
    buffer.clear();
    buffer.reserve(len + 8);
    // Appends many words at once: without optimisation, appending eight bytes takes ten times as long as computing them.
    let mut words = [[0; 8]; 512];
    let mut word = part.start / 8;
    while buffer.len() < len {
        let wanted = (len - buffer.len()).div_ceil(8).min(words.len());
        for bytes in &mut words[..wanted] {
            *bytes = mix(resource, word).to_le_bytes();
            word += 1;
        }
        buffer.extend_from_slice(words[..wanted].as_flattened());
    }
    buffer.truncate(len);
    buffer.drain(..skip);
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, 2014): every input bit reaches every output bit.
fn mix(resource: u64, word: u64) -> u64 {
    let mut z = resource.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word.wrapping_add(0x632b_e59b_d9b4_e019);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_bytes_that_the_whole_has_there() {
        let mut pattern = Pattern::default();
        let whole = pattern.bytes(7, 0..100).to_vec();
        for start in 0..100 {
            assert_eq!(pattern.bytes(7, start..100), &whole[start as usize..]);
        }
        assert_ne!(pattern.bytes(8, 0..100), whole);
        // More words than are computed at once.
        let whole = pattern.bytes(7, 0..10_000).to_vec();
        for part in [3..4097, 4090..4100, 4096..8192, 1..10_000, 4095..9999] {
            assert_eq!(pattern.bytes(7, part.clone()), &whole[part.start as usize..part.end as usize]);
        }
        assert!(
            whole.chunks(8).collect::<std::collections::BTreeSet<_>>().len() == 1250,
            "no word is there twice"
        );
        assert_eq!(pattern.bytes_and_room(7, 3..50).1, [0; 47], "the buffer has no stale bytes");
    }

    #[test]
    fn chunks_tile_a_range() {
        let range = 5..3 * CHUNK + 17;
        let chunks: Vec<_> = chunks(range.clone()).collect();
        assert_eq!(chunks.len(), 4);
        assert_eq!((chunks[0].start, chunks[3].end), (range.start, range.end));
        assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(super::chunks(9..9).count(), 0);
    }
}
