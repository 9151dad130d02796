//! Size classes: the mapping from the size of a free region to the stack or list that it is in.
//!
//! Sizes below 32 have a class each. Above, every power of two is divided into 32 classes of equal width,
//! so a class is never wider than 1/32 of the sizes in it:
//!
//! ```text
//!   size   0 1 2 … 31 │ 32 33 … 63 │ 64–65 66–67 … 126–127 │ 128–131 …
//!   class  0 1 2 … 31 │ 32 33 … 63 │ 64    65    … 95      │ 96      …
//! ```
//!
//! This is a floating-point number with five bits of mantissa; the class is its bit pattern:
//!
//! ```text
//!   size 724 = 0b10_1101_0100 = 0b1.01101 · 2^9 and a remainder of 4
//!                                 │ ╰──── mantissa 13
//!                                 ╰────── implicit leading one
//!   exponent 9: shift = 9 - 5 = 4;  724 >> 4 = 0b101101 = 32 + 13;  class = 32 · 4 + 45 = 173
//!   smallest(173) = (32 + 13) << 4 = 720,  smallest(174) = 736
//! ```
//!
//! The mapping is monotonic: a larger class holds only larger sizes. A search that moves from one class to
//! the next therefore sees ever larger regions.

/// The binary logarithm of the number of classes per power of two.
const MANTISSA_BITS: u32 = 5;

const MANTISSA: u64 = 1 << MANTISSA_BITS;

/// Returns the class of a region of `size` units: the last class whose [`smallest`] is at most `size`.
#[inline]
pub(super) fn class_of(size: u64) -> usize {
    // Rounds down to six significant bits: the leading one and the mantissa. Sizes with no more than the mantissa's bits
    // cannot be normalized; they are denormal numbers, and a class each. They get a shift of 0 by the same formula, and so
    // without a branch: in a block whose sizes are small multiples of a page, a branch would be predicted wrongly often.
    let shift = (size | MANTISSA).ilog2() - MANTISSA_BITS;
    // `size >> shift` is 32 + mantissa. Its leading one carries into the exponent's bits when it is added,
    // and so turns `shift` into the biased exponent `shift + 1`: neither a mask nor a second addition is
    // needed, and sizes 32 to 63 (shift 0) continue the numbering of the denormal ones.
    (((shift as u64) << MANTISSA_BITS) + (size >> shift)) as usize
}

/// Returns the first class in which every region holds `size` units.
#[inline]
pub(super) fn class_that_surely_fits(size: u64) -> usize {
    // `class_of` rounds down, so regions of the own class may be smaller than `size`, unless `size` is the
    // smallest of them. The published algorithm adds the class width and rounds down instead; that passes
    // over this class even where it fits exactly.
    let class = class_of(size);
    if smallest(class) == size { class } else { class + 1 }
}

/// Returns the smallest size in a class: the inverse of [`class_of`].
#[inline]
pub(super) fn smallest(class: usize) -> u64 {
    let shift = width_log2(class);
    // Removes the exponent, of which the leading one is a part; what remains is the size without its last bits.
    (class as u64 - (u64::from(shift) << MANTISSA_BITS)) << shift
}

/// Returns the binary logarithm of the number of sizes in a class.
#[inline]
pub(super) fn width_log2(class: usize) -> u32 {
    (class as u32 >> MANTISSA_BITS).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_SIZE;

    #[test]
    fn every_size_lies_between_the_smallest_of_its_class_and_of_the_next() {
        let around_powers = (0..=48).flat_map(|log2| {
            let power = 1u64 << log2;
            [power.saturating_sub(1), power, power + 1, power + power / 3]
        });
        for size in (0..5000).chain(around_powers).filter(|&size| size <= MAX_SIZE) {
            let class = class_of(size);
            assert!(smallest(class) <= size, "{size} in class {class}");
            assert!(size < smallest(class + 1), "{size} in class {class}");
            let sure = class_that_surely_fits(size);
            assert!(smallest(sure) >= size && (sure == 0 || smallest(sure - 1) < size), "{size}");
        }
    }

    #[test]
    fn a_class_is_never_wider_than_a_32nd_of_its_sizes() {
        for class in 32..class_of(MAX_SIZE) {
            assert!((smallest(class + 1) - smallest(class)) * MANTISSA <= smallest(class));
        }
    }
}
