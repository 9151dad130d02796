//! The memory of the solvers.

use super::greedy::Greedy;
use super::search::Searches;

/// Finds offsets for the items of a [`Problem`](super::Problem).
///
/// It keeps the memory that it works in, so a second problem of the same size costs no allocation.
#[derive(Clone, Debug, Default)]
pub struct Solver {
    pub(super) greedy: Greedy,
    pub(super) searches: Searches,
}

impl Solver {
    /// Creates a solver, which has no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}
