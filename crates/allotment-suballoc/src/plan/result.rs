//! What a solver found.

use alloc::vec::Vec;

use super::floors::Floors;
use super::{PlanError, Problem};

/// Stands for an item that was not placed. No offset is as high: invariant 2 of a problem.
pub(super) const NOT_PLACED: u64 = u64::MAX;

/// An offset for each item of a [`Problem`], and a proof of how good they are.
///
/// [`Solver`](super::Solver) fills it in. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) offsets: Vec<u64>,
    /// The end of the highest item that was placed.
    pub(super) peak: u64,
    /// No plan of all items is lower.
    pub(super) lower_bound: u64,
    /// The sum of the sizes of the items that were not placed.
    pub(super) left_out: u64,
}

impl Plan {
    /// Creates an empty plan.
    #[must_use]
    pub const fn new() -> Self {
        Self { offsets: Vec::new(), peak: 0, lower_bound: 0, left_out: 0 }
    }

    /// Returns the offset of an item, or `None` if it was not placed because it would have ended above the limit.
    ///
    /// # Panics
    ///
    /// If `index` is not less than the number of items.
    #[must_use]
    pub fn offset(&self, index: usize) -> Option<u64> {
        Some(self.offsets[index]).filter(|&offset| offset != NOT_PLACED)
    }

    /// Returns the offsets of all items.
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        self.offsets.iter().map(|&offset| Some(offset).filter(|&offset| offset != NOT_PLACED))
    }

    /// Returns the indices of the items that were not placed.
    pub fn not_placed(&self) -> impl Iterator<Item = usize> + '_ {
        self.offsets.iter().enumerate().filter(|&(_, &offset)| offset == NOT_PLACED).map(|(index, _)| index)
    }

    /// Returns the end of the highest item: how much memory the plan takes.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns a height below which no plan of all items can stay, as far as it was proved.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }

    /// Returns `true` if all items were placed, and no plan is lower.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.left_out == 0 && self.peak == self.lower_bound
    }

    /// Returns how much more memory the plan takes than the lower bound: 1.02 if it is 2 % more. No other plan of all items is
    /// better by more than that.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.peak == self.lower_bound { 1.0 } else { self.peak as f64 / self.lower_bound as f64 }
    }

    /// Checks the plan against the problem, by means that no solver uses. O(n log n).
    ///
    /// # Errors
    ///
    /// [`PlanError`], if the plan is for another problem.
    pub fn check(&self, problem: &Problem) -> Result<(), PlanError> {
        if self.offsets.len() != problem.len() {
            return Err(PlanError::OtherProblem { items: problem.len(), planned: self.offsets.len() });
        }
        // Upwards, each item must be above all below it.
        let mut order: Vec<usize> = (0..problem.len()).filter(|&item| self.offset(item).is_some()).collect();
        order.sort_unstable_by_key(|&item| (self.offsets[item], item));
        let mut floors = Floors::default();
        floors.reset(problem.section_count());
        for (count, &index) in order.iter().enumerate() {
            let (item, offset) = (problem.item(index), self.offsets[index]);
            if !item.alignment.is_aligned(offset) {
                return Err(PlanError::Misaligned { item: index });
            }
            if item.pin.is_some_and(|pin| pin != offset) {
                return Err(PlanError::PinMoved { item: index });
            }
            if offset + item.size > self.peak {
                return Err(PlanError::AbovePeak { item: index });
            }
            let ranges = problem.ranges_of(index);
            if floors.highest_of(ranges).0 > offset {
                let overlaps = |&&below: &&usize| {
                    self.offsets[below] + problem.item(below).size > offset && problem.conflict(below, index)
                };
                let first = order[..count].iter().find(overlaps).copied().unwrap_or(index);
                return Err(PlanError::Overlap { first, second: index });
            }
            for &(from, to) in ranges {
                floors.raise(from, to, offset + item.size);
            }
        }
        Ok(())
    }
}
