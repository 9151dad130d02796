//! The source of all choices.

/// Bytes of a call with its arguments. Fixed, so that a call that takes more bytes does not change the calls after
/// it.
pub(crate) const CHUNK: usize = 24;

/// A source of choices: random ones from a seed, which never end, or a fuzzer's bytes. Each call has its own chunk
/// of the bytes; after the end of a chunk, every choice is the first option.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    /// The state of an xorshift64*, never 0.
    Seed(u64),
    /// The rest of the chunk, and the chunks after it.
    Bytes(&'a [u8], &'a [u8]),
}

impl<'a> Input<'a> {
    /// Creates a source of random choices, the same for the same seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        // Mixed, so that similar seeds give unrelated choices.
        Self { source: Source::Seed(mixed(seed).max(1)) }
    }

    /// Creates a source that reads choices from bytes.
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        let mut input = Self { source: Source::Bytes(&[], bytes) };
        input.next_chunk();
        input
    }

    /// Advances to the next chunk, if the source has chunks.
    pub fn next_chunk(&mut self) {
        if let Source::Bytes(chunk, rest) = &mut self.source {
            (*chunk, *rest) = rest.split_at(CHUNK.min(rest.len()));
        }
    }

    /// Splits what is left after the current chunk among threads: each gets as many chunks as the others, or one more.
    /// Of a seed, each gets choices of its own.
    #[must_use]
    pub fn split(self, threads: usize) -> Vec<Self> {
        let threads = threads.max(1);
        match self.source {
            Source::Seed(state) => {
                (1..=threads as u64).map(|thread| Self::of_seed(state ^ mixed(thread))).collect()
            }
            Source::Bytes(_, mut rest) => (1..=threads)
                .rev()
                .map(|left| {
                    let chunks = rest.len().div_ceil(CHUNK).div_ceil(left);
                    let (own, others) = rest.split_at((chunks * CHUNK).min(rest.len()));
                    rest = others;
                    Self { source: Source::Bytes(&[], own) }
                })
                .collect(),
        }
    }

    /// Returns whether no chunk is left. Never true for a seed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.source, Source::Bytes(_, []))
    }

    /// Returns a number below `n`, or 0. Takes as many bytes as `n` needs: one up to 256, then two, then eight.
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

    /// Returns an index below `count`.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// Returns true once in `n` times, and never after the end of the bytes.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    /// Returns one of these values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}

/// Returns a hash of the number (the last step of splitmix64), so that neighbours are unrelated.
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
    fn threads_get_all_chunks_and_each_about_as_many() {
        let bytes: Vec<u8> = (0..7 * CHUNK + 1).map(|at| (at / CHUNK) as u8).collect();
        let parts = Input::of_bytes(&bytes).split(3).into_iter().map(|mut input| {
            let mut chunks = Vec::new();
            while !input.is_over() {
                input.next_chunk();
                chunks.push(input.below(256));
            }
            chunks
        });
        assert_eq!(parts.collect::<Vec<_>>(), [vec![1, 2, 3], vec![4, 5], vec![6, 7]]);
        let [mut one, mut other] = <[_; 2]>::try_from(Input::of_seed(7).split(2)).unwrap();
        assert_ne!(one.below(1 << 40), other.below(1 << 40));
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
