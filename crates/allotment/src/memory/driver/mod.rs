//! Memory of the driver: budgets, the size of new blocks, and how they are allocated and freed.

pub(in crate::memory) mod growth;
pub(in crate::memory) mod heaps;
pub(in crate::memory) mod refusals;
