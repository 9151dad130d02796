//! Size classes: which list a free region of a given size stands in.
//!
//! Sizes below 32 have a class each. Above, every power of two is cut into 32 classes of equal width, so
//! a class is never wider than 1/32 of the sizes in it:
//!
//! ```text
//!   size   0 1 2 … 31 │ 32 33 … 63 │ 64–65 66–67 … 126–127 │ 128–131 …
//!   class  0 1 2 … 31 │ 32 33 … 63 │ 64    65    … 95      │ 96      …
//! ```
//!
//! This is a floating-point number with five bits of mantissa; the class is its bit pattern.

/// Classes per power of two, as a power of two.
const MANTISSA_BITS: u32 = 5;

const MANTISSA: u64 = 1 << MANTISSA_BITS;

/// The class of a region of `size` units: the last one whose [`smallest`] is not above `size`.
pub(super) fn class_of(size: u64) -> usize {
    if size < MANTISSA {
        return size as usize;
    }
    let shift = size.ilog2() - MANTISSA_BITS;
    // The leading one of the mantissa adds the class of the exponent by itself.
    (((shift as u64) << MANTISSA_BITS) + (size >> shift)) as usize
}

/// The first class in which every region holds `size` units.
pub(super) fn class_that_surely_fits(size: u64) -> usize {
    let class = class_of(size);
    if smallest(class) == size { class } else { class + 1 }
}

/// The smallest size in a class.
pub(super) fn smallest(class: usize) -> u64 {
    let class = class as u64;
    if class < MANTISSA {
        return class;
    }
    let shift = (class >> MANTISSA_BITS) - 1;
    (MANTISSA + (class & (MANTISSA - 1))) << shift
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
