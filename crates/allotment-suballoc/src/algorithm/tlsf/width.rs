//! The two widths in which a block stores offsets and sizes.
//!
//! A block of fewer than 2^32 units stores them in 32 bits, which makes a region 16 bytes instead of 24. Nearly every
//! block is one: 4 GiB of bytes, or 2^32 elements of a buffer. All arithmetic is done in 64 bits for both.

use core::fmt::Debug;
use core::hash::Hash;

use crate::Alignment;

/// Entries of one chunk of a stack; see [`stacks`](super::stacks).
pub(super) const DEPTH: usize = 8;

/// A stored offset or size.
pub(crate) trait Width: Copy + Default + Debug + PartialEq + Hash {
    /// The largest number that can be stored.
    const MAX: u64;

    /// Stores a number of at most [`MAX`](Self::MAX).
    fn narrow(number: u64) -> Self;

    fn wide(self) -> u64;

    /// Returns the position of the smallest of these sizes that is at least `least`, if there is one.
    ///
    /// All sizes and `least` lie in one class or just below it, so they differ by less than a 2^5th of the largest number.
    fn closest(sizes: &[Self; DEPTH], least: Self) -> Option<usize>;

    /// Returns the position of the smallest of these regions that has at least `wanted.0` units and holds `wanted.1` of them
    /// from an aligned offset, if there is one.
    fn closest_aligned(
        sizes: &[Self; DEPTH],
        offsets: &[Self; DEPTH],
        wanted: (Self, Self),
        alignment: Alignment,
    ) -> Option<usize>;
}

macro_rules! width {
    ($number:ty) => {
        impl Width for $number {
            const MAX: u64 = <$number>::MAX as u64;

            #[inline]
            fn narrow(number: u64) -> Self {
                debug_assert!(number <= Self::MAX as u64, "a block of this width contains the number");
                number as Self
            }

            #[inline]
            fn wide(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn closest(sizes: &[Self; DEPTH], least: Self) -> Option<usize> {
                // Without a branch for each size: which of them is the closest is as good as random, and eight subtractions
                // take less time than one branch that the processor predicted wrongly. The difference and the position
                // make one number, so the smallest number is the closest size. A size that is too small wraps round to a
                // number with its highest bit set, which no difference within a class has.
                const POSITION_BITS: u32 = DEPTH.ilog2();
                // In 64 bits for both widths: of 32 bits, compilers make vectors, whose minimum takes twice as long.
                let key = |at: usize| u64::from(sizes[at].wrapping_sub(least)) << POSITION_BITS | at as u64;
                let of_two = |at| key(at).min(key(at + 1));
                let closest = of_two(0).min(of_two(2)).min(of_two(4).min(of_two(6)));
                // Of 64 bits, the shift has pushed some out.
                let highest = if Self::BITS < 64 { Self::BITS - 1 + POSITION_BITS } else { 63 };
                (closest >> highest == 0).then_some(closest as usize % DEPTH)
            }

            #[inline(always)]
            fn closest_aligned(
                sizes: &[Self; DEPTH],
                offsets: &[Self; DEPTH],
                (least, size): (Self, Self),
                alignment: Alignment,
            ) -> Option<usize> {
                // All in 64 bits, which hold the difference of any two numbers of a block with three bits to spare.
                let (least, size, mask) =
                    (least.wide() as i64, size.wide() as i64, alignment.get() as i64 - 1);
                let key = |at: usize| {
                    let (region, offset) = (sizes[at].wide() as i64, offsets[at].wide() as i64);
                    let gap = offset.wrapping_neg() & mask;
                    // Negative where the region is too small, or too small behind the gap.
                    let lacks = (region - least) | (region - gap - size);
                    ((region as u64) << DEPTH.ilog2() | at as u64) | (lacks as u64 & 1 << 63)
                };
                let of_two = |at| key(at).min(key(at + 1));
                let closest: u64 = of_two(0).min(of_two(2)).min(of_two(4).min(of_two(6)));
                (closest >> 63 == 0).then_some(closest as usize % DEPTH)
            }
        }
    };
}

width!(u32);
width!(u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_size_is_the_smallest_that_is_large_enough() {
        let sizes = [1050, 1023, 1024, 1055, 1040, 1023, 1041, 1040];
        let brute = |least| {
            let fitting = sizes.iter().enumerate().filter(|&(_, &size)| size >= least);
            fitting.min_by_key(|&(position, &size)| (size, position)).map(|(position, _)| position)
        };
        for least in 1024..1060 {
            assert_eq!(u32::closest(&sizes, least), brute(least), "{least}");
            assert_eq!(u64::closest(&sizes.map(u64::from), least.into()), brute(least), "{least}");
        }
    }

    #[test]
    fn the_closest_aligned_region_is_the_smallest_that_holds_the_range() {
        let sizes = [1050, 1023, 1024, 1055, 1040, 1023, 1041, 1040];
        for shift in 0..64 {
            let offsets = [0, 17, 64, 31, 8, 40, 63, 5].map(|offset| offset + shift);
            for (size, align) in (1024..1060).flat_map(|size| [1, 2, 8, 64].map(|align| (size, align))) {
                let alignment = Alignment::new(align).unwrap();
                let holds = |&position: &usize| {
                    let (offset, region) = (u64::from(offsets[position]), u64::from(sizes[position]));
                    alignment.align_up(offset) + size <= offset + region
                };
                let brute = (0..DEPTH).filter(holds).min_by_key(|&position| (sizes[position], position));
                let wanted = (size as u32, size as u32);
                assert_eq!(u32::closest_aligned(&sizes, &offsets, wanted, alignment), brute);
                let (sizes, offsets) = (sizes.map(u64::from), offsets.map(u64::from));
                assert_eq!(u64::closest_aligned(&sizes, &offsets, (size, size), alignment), brute);
            }
        }
    }

    #[test]
    fn sizes_of_the_largest_class_are_compared_without_overflow() {
        let floor = 63 << 26;
        let sizes = [floor - 1, floor, u32::MAX, u32::MAX - 1, floor - 1, floor + 5, floor - 1, floor - 1];
        assert_eq!(u32::closest(&sizes, floor), Some(1));
        assert_eq!(u32::closest(&sizes, floor + 6), Some(3));
        assert_eq!(u32::closest(&sizes, u32::MAX), Some(2));
        assert_eq!(u32::closest(&[floor - 1; DEPTH], floor), None);
        assert_eq!(u32::closest(&[floor - 1; DEPTH], u32::MAX), None);
    }
}
