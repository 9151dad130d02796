//! Memory of the driver: budgets, the size of new blocks, and how they are allocated and freed.

mod growth;
mod heaps;
mod refusals;
mod stalls;

// The one path to the driver, and the terms of a call.
pub(super) use self::heaps::{Heaps, heap_of};
pub(super) use self::refusals::Terms;

// How long callers waited for it.
pub(super) use self::stalls::Stalls;

// What programs learn of it.
pub use self::heaps::{DriverCallStatistics, MemoryHeapReport};
pub use self::stalls::StallStatistics;
