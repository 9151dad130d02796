//! Where choices come from.

/// Bytes of a call and of what it chooses: so that one more or less of a call does not make others of those behind it.
pub(crate) const CHUNK: usize = 24;

/// A source of choices: random ones from a seed, which never end, or a fuzzer's bytes, which do. Of bytes, each call has
/// a chunk for itself; after the last of its chunk, everything that is chosen is the first of what there is.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    /// The state of an xorshift64*, never 0.
    Seed(u64),
    /// What is left of the chunk, and the chunks behind it.
    Bytes(&'a [u8], &'a [u8]),
}

impl<'a> Input<'a> {
    /// Random choices, the same ones for the same seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        // Seeds that are close to each other must not have much in common.
        Self { source: Source::Seed(mixed(seed).max(1)) }
    }

    /// The choices that these bytes are.
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        let mut input = Self { source: Source::Bytes(&[], bytes) };
        input.next_chunk();
        input
    }

    /// Goes on with the next chunk, where the source has chunks.
    pub fn next_chunk(&mut self) {
        if let Source::Bytes(chunk, rest) = &mut self.source {
            (*chunk, *rest) = rest.split_at(CHUNK.min(rest.len()));
        }
    }

    /// Whether there are no more chunks. Never so of a seed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.source, Source::Bytes(_, []))
    }

    /// A number below `n`, or 0. Takes as many bytes as such numbers have: one up to 256, then two, then eight.
    pub fn below(&mut self, n: u64) -> u64 {
        match &mut self.source {
            Source::Seed(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8) % n.max(1)
            }
            Source::Bytes(bytes, _) => {
                let wanted = match n {
                    0..=1 => 0,
                    2..=0x100 => 1,
                    0x101..=0x1_0000 => 2,
                    _ => 8,
                };
                let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
                *bytes = rest;
                let number = taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
                number % n.max(1)
            }
        }
    }

    /// One of so many, by its index.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// True once in `n` times, and never of bytes that have ended.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}

/// A number that has nothing in common with those of the numbers beside it (splitmix64's last step).
pub(crate) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_as_they_are_needed_and_end_in_zeros() {
        let mut bytes = [0; CHUNK + 1];
        (bytes[0], bytes[1], bytes[2], bytes[3], bytes[CHUNK]) = (3, 1, 1, 7, 9);
        let mut input = Input::of_bytes(&bytes);
        assert_eq!((input.below(8), input.below(1000), input.is_over()), (3, 257, false));
        assert_eq!((input.below(1 << 20), input.once_in(2), input.is_over()), (7, false, false));
        input.next_chunk();
        assert_eq!((input.below(256), input.below(256), input.is_over()), (9, 0, true));
    }

    #[test]
    fn a_seed_makes_the_same_choices_again() {
        let choices = |seed| {
            let mut input = Input::of_seed(seed);
            [0; 8].map(|_| input.below(1 << 40))
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
    }
}
