//! What the allocator tells about itself: statistics, dumps, leaks, and where allocations were made.

pub(in crate::memory) mod call_site;
pub(crate) mod descriptors;
pub(in crate::memory) mod dump;
pub mod dump_schema;
pub(in crate::memory) mod inspect;
pub(in crate::memory) mod leaks;
pub(in crate::memory) mod listing;
pub(in crate::memory) mod stalls;
pub(in crate::memory) mod statistics;
pub(in crate::memory) mod subscribe;
