//! Size classes: the mapping from a size to the stack, list or mark of its kind.

/// The classes into which sizes are sorted: 2^`BITS` of equal width for each power of two.
///
/// So the sizes of a class differ by less than one part in 2^`BITS`. Sizes below 2^`BITS` have a class each. With 5 bits:
///
/// ```text
///   size   0 1 2 … 31 │ 32 33 … 63 │ 64–65 66–67 … 126–127 │ 128–131 …
///   class  0 1 2 … 31 │ 32 33 … 63 │ 64    65    … 95      │ 96      …
/// ```
///
/// A larger class holds only larger sizes, so a search that moves from one class to the next sees ever larger ones.
/// [`Tlsf`](crate::Algorithm::Tlsf) blocks keep their free regions by class, with 5 bits; an allocator over them can keep what it
/// caches in the same way.
///
/// ```
/// use allotment_suballoc::SizeClasses;
///
/// type Classes = SizeClasses<4>;
/// // From 512 to 1023 in steps of 32.
/// let class = Classes::class_of(1000);
/// assert_eq!((Classes::smallest(class), Classes::smallest(class + 1)), (992, 1024));
/// assert_eq!(Classes::class_of(991), class - 1);
/// ```
///
/// # How it works
///
/// A class is the bit pattern of a floating-point number with `BITS` bits of mantissa:
///
/// ```text
///   size 724 = 0b10_1101_0100 = 0b1.01101 · 2^9 and a remainder of 4
///                                 │ ╰──── mantissa 13
///                                 ╰────── implicit leading one
///   exponent 9: shift = 9 - 5 = 4;  724 >> 4 = 0b101101 = 32 + 13;  class = 32 · 4 + 45 = 173
///   smallest(173) = (32 + 13) << 4 = 720,  smallest(174) = 736
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClasses<const BITS: u32>;

impl<const BITS: u32> SizeClasses<BITS> {
    /// Returns the class of a size: the last class whose [`smallest`](Self::smallest) is at most `size`.
    #[inline]
    #[must_use]
    pub const fn class_of(size: u64) -> usize {
        // Rounds down to the leading one and the mantissa. Sizes with no more than the mantissa's bits cannot be normalized;
        // they are denormal numbers, and a class each. They get a shift of 0 by the same formula, and so without a branch: in
        // a block whose sizes are small multiples of a page, a branch would be predicted wrongly often.
        let shift = (size | 1 << BITS).ilog2() - BITS;
        // With 5 bits, `size >> shift` is 32 + mantissa. Its leading one carries into the exponent's bits when it is added,
        // and so turns `shift` into the biased exponent `shift + 1`: neither a mask nor a second addition is needed, and
        // sizes 32 to 63 (shift 0) continue the numbering of the denormal ones.
        (((shift as u64) << BITS) + (size >> shift)) as usize
    }

    /// Returns the smallest size in a class: the inverse of [`class_of`](Self::class_of).
    #[inline]
    #[must_use]
    pub const fn smallest(class: usize) -> u64 {
        let shift = Self::width_log2(class);
        // Removes the exponent, of which the leading one is a part; what remains is the size without its last bits.
        (class as u64 - ((shift as u64) << BITS)) << shift
    }

    /// Returns the first class in which every size is at least `size`, which is not 0.
    #[inline]
    pub(crate) const fn class_that_surely_fits(size: u64) -> usize {
        // The smallest of the class behind that of `size - 1` is larger than that, and so at least `size`. The published
        // algorithm adds the class width and rounds down instead; that passes over the own class even where `size` is its
        // smallest.
        Self::class_of(size - 1) + 1
    }

    /// Returns the binary logarithm of the number of sizes in a class.
    #[inline]
    pub(crate) const fn width_log2(class: usize) -> u32 {
        (class as u32 >> BITS).saturating_sub(1)
    }
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
            let class = SizeClasses::<BITS>::class_of(size);
            assert!(SizeClasses::<BITS>::smallest(class) <= size, "{size} in class {class}");
            assert!(size < SizeClasses::<BITS>::smallest(class + 1), "{size} in class {class}");
            if size > 0 {
                let sure = SizeClasses::<BITS>::class_that_surely_fits(size);
                let smallest = SizeClasses::<BITS>::smallest;
                assert!(smallest(sure) >= size && smallest(sure - 1) < size, "{size}");
            }
        }
    }

    #[test]
    fn every_size_lies_between_the_smallest_of_its_class_and_of_the_next() {
        every_size_lies_in_its_class::<5>();
        every_size_lies_in_its_class::<4>();
        every_size_lies_in_its_class::<3>();
    }

    #[test]
    fn a_class_is_never_wider_than_a_32nd_of_its_sizes() {
        let smallest = SizeClasses::<5>::smallest;
        for class in 32..SizeClasses::<5>::class_of(MAX_SIZE) {
            assert!((smallest(class + 1) - smallest(class)) << 5 <= smallest(class));
        }
    }
}
