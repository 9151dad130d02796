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
//!
//! All of this with five bits of mantissa, [`FINE`]; with another number of bits, there are more classes or fewer.

/// The binary logarithm of the number of classes per power of two, for the free regions of TLSF.
pub(super) const FINE: u32 = 5;

/// Returns the class of a region of `size` units: the last class whose [`smallest`] is at most `size`.
#[inline]
pub(super) fn class_of<const BITS: u32>(size: u64) -> usize {
    // Rounds down to six significant bits: the leading one and the mantissa. Sizes with no more than the mantissa's bits
    // cannot be normalized; they are denormal numbers, and a class each. They get a shift of 0 by the same formula, and so
    // without a branch: in a block whose sizes are small multiples of a page, a branch would be predicted wrongly often.
    let shift = (size | 1 << BITS).ilog2() - BITS;
    // `size >> shift` is 32 + mantissa. Its leading one carries into the exponent's bits when it is added,
    // and so turns `shift` into the biased exponent `shift + 1`: neither a mask nor a second addition is
    // needed, and sizes 32 to 63 (shift 0) continue the numbering of the denormal ones.
    (((shift as u64) << BITS) + (size >> shift)) as usize
}

/// Returns the first class in which every region holds `size` units, which are not 0.
#[inline]
pub(super) fn class_that_surely_fits<const BITS: u32>(size: u64) -> usize {
    // The smallest of the class behind that of `size - 1` is larger than that, and so at least `size`. The published algorithm
    // adds the class width and rounds down instead; that passes over the own class even where `size` is its smallest.
    class_of::<BITS>(size - 1) + 1
}

/// Returns the smallest size in a class: the inverse of [`class_of`].
#[inline]
pub(super) fn smallest<const BITS: u32>(class: usize) -> u64 {
    let shift = width_log2::<BITS>(class);
    // Removes the exponent, of which the leading one is a part; what remains is the size without its last bits.
    (class as u64 - (u64::from(shift) << BITS)) << shift
}

/// Returns the binary logarithm of the number of sizes in a class.
#[inline]
pub(super) fn width_log2<const BITS: u32>(class: usize) -> u32 {
    (class as u32 >> BITS).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_SIZE;

    fn every_size_lies_in_its_class<const BITS: u32>() {
        let around_powers = (0..=48).flat_map(|log2| {
            let power = 1u64 << log2;
            [power.saturating_sub(1), power, power + 1, power + power / 3]
        });
        for size in (0..5000).chain(around_powers).filter(|&size| size <= MAX_SIZE) {
            let class = class_of::<BITS>(size);
            assert!(smallest::<BITS>(class) <= size, "{size} in class {class}");
            assert!(size < smallest::<BITS>(class + 1), "{size} in class {class}");
            if size > 0 {
                let sure = class_that_surely_fits::<BITS>(size);
                assert!(smallest::<BITS>(sure) >= size && smallest::<BITS>(sure - 1) < size, "{size}");
            }
        }
    }

    #[test]
    fn every_size_lies_between_the_smallest_of_its_class_and_of_the_next() {
        every_size_lies_in_its_class::<FINE>();
        every_size_lies_in_its_class::<4>();
        every_size_lies_in_its_class::<3>();
    }

    #[test]
    fn a_class_is_never_wider_than_a_32nd_of_its_sizes() {
        for class in 32..class_of::<FINE>(MAX_SIZE) {
            let smallest = smallest::<FINE>;
            assert!((smallest(class + 1) - smallest(class)) << FINE <= smallest(class));
        }
    }
}
