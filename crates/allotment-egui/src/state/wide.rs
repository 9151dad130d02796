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
