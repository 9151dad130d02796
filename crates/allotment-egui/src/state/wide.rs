//! The allocations of a block that are wide enough to be seen one by one, found without a look at the others.

use core::ops::Range;

use allotment_analyze::Placed;

/// Allocations of which the largest is known.
const GROUP: usize = 64;

/// The bytes of the largest of each [`GROUP`] allocations, in the order of their offsets.
#[derive(Debug)]
pub(crate) struct Largest(Box<[u64]>);

impl Largest {
    pub(crate) fn of(placed: &[Placed]) -> Self {
        let of_group = |group: &[Placed]| group.iter().map(|placed| placed.occupied).max().unwrap_or(0);
        Self(placed.chunks(GROUP).map(of_group).collect())
    }

    /// Visits the allocations of a range of the list that have `least` bytes or more. The list is the one that this was
    /// made of. Costs one look at each group in the range, and at each allocation of those groups that have such a one.
    pub(crate) fn visit(
        &self,
        placed: &[Placed],
        range: Range<usize>,
        least: u64,
        mut visit: impl FnMut(&Placed),
    ) {
        let mut next = range.start;
        while next < range.end {
            let group = next / GROUP;
            let end = ((group + 1) * GROUP).min(range.end);
            if self.0[group] >= least {
                placed[next..end].iter().filter(|placed| placed.occupied >= least).for_each(&mut visit);
            }
            next = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use allotment::Alignment;
    use allotment_analyze::{AllocationIndex, Status};

    use super::*;

    #[test]
    fn those_that_are_wide_enough_are_found_in_any_part_of_the_list() {
        let mut random = 1u64;
        let mut offset = 0;
        let mut place = |number: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A few are large.
            let occupied = if random >> 58 == 0 { 1 << 20 } else { 1 + (random >> 40) % 4096 };
            offset += occupied;
            Placed {
                allocation: AllocationIndex(number),
                offset: offset - occupied,
                requested: occupied,
                occupied,
                alignment: Alignment::ONE,
                status: Status::Used,
            }
        };
        let placed: Vec<_> = (0..1000).map(&mut place).collect();
        let largest = Largest::of(&placed);
        for (range, least) in
            [(0..1000, 1 << 20), (0..1000, 4000), (63..65, 0), (70..999, 2048), (500..500, 0)]
        {
            let mut found = Vec::new();
            largest.visit(&placed, range.clone(), least, |placed| found.push(*placed));
            let expected: Vec<_> =
                placed[range].iter().filter(|placed| placed.occupied >= least).copied().collect();
            assert_eq!(found, expected);
        }
    }
}
