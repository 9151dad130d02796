//! Memory of the driver: budgets, the size of new blocks, and how they are allocated and freed.

pub(in crate::memory) mod growth;
pub(in crate::memory) mod heaps;
pub(in crate::memory) mod ladder;
pub(in crate::memory) mod new_block;
pub(in crate::memory) mod refusals;
pub(in crate::memory) mod release;
