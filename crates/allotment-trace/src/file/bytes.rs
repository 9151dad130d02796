//! Numbers and texts as bytes: variable-length integers, and a reader that never passes its end.

/// The most bytes of a number.
const MAX_NUMBER_BYTES: usize = 10;

/// Appends a number: seven bits a byte, the lowest first, with the top bit set in all but the last.
#[inline]
pub(super) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference of a number from an earlier one, modulo 2^64. Small differences of either sign are short:
/// 0, -1, 1, -2 and so on become 0, 1, 2, 3.
#[inline]
pub(super) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    put_number(out, zigzag(from, to));
}

/// Returns the difference as [`put_difference`] writes it.
#[inline]
pub(super) const fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Returns the number whose difference from `from` was written.
#[inline]
pub(super) const fn unzigzag(from: u64, coded: u64) -> u64 {
    from.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
}

/// Appends a text: its length in bytes, and the bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// The reason why bytes cannot be read. A few words, for [`Damage`](super::Damage).
pub(super) type Wrong = &'static str;

/// Bytes that are read from their beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Wrong> {
        let (&first, rest) = self.bytes.split_first().ok_or("it ends within a record")?;
        self.bytes = rest;
        Ok(first)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, Wrong> {
        match *self.bytes {
            // Most numbers are small.
            [first, ref rest @ ..] if first < 0x80 => {
                self.bytes = rest;
                Ok(first.into())
            }
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(first & 0x7f) | u64::from(second) << 7)
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Wrong> {
        let mut value = 0;
        for (i, &byte) in self.bytes.iter().take(MAX_NUMBER_BYTES).enumerate() {
            // The tenth byte has the one bit that is left of 64.
            if i == MAX_NUMBER_BYTES - 1 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.bytes.len() < MAX_NUMBER_BYTES {
            "it ends within a number"
        } else {
            "a number has more than 64 bits"
        })
    }

    /// Reads a number of at most 32 bits.
    #[inline]
    pub(super) fn number32(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits")
    }

    /// Reads the difference from an earlier number.
    #[inline]
    pub(super) fn difference(&mut self, from: u64) -> Result<u64, Wrong> {
        Ok(unzigzag(from, self.number()?))
    }

    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Wrong> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("it ends within a record")?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads a text. No memory is allocated.
    pub(super) fn text(&mut self) -> Result<&'a str, Wrong> {
        let count = self.number()?;
        core::str::from_utf8(self.take(count)?).map_err(|_| "a text is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_differences_and_texts_are_read_as_written(a: u64, b: u64, shift in 0_u32..64, text: String) {
            let (a, mut out) = (a >> shift, Vec::new());
            put_number(&mut out, a);
            put_difference(&mut out, a, b);
            put_text(&mut out, &text);
            let mut input = Input::new(&out);
            prop_assert_eq!(input.number(), Ok(a));
            prop_assert_eq!(input.difference(a), Ok(b));
            prop_assert_eq!(input.text(), Ok(&*text));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let mut input = Input::new(&bytes);
            while input.number().is_ok() {}
            let mut input = Input::new(&bytes);
            while input.text().is_ok() {}
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let mut bytes = [0xff; 10];
        assert!(Input::new(&bytes).number().is_err());
        bytes[9] = 2;
        assert!(Input::new(&bytes).number().is_err());
        bytes[9] = 1;
        assert_eq!(Input::new(&bytes).number(), Ok(u64::MAX));
    }
}
