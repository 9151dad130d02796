//! A request for memory: its options, the memory types that suit it, and the path to an allocation and back.

pub(in crate::memory) mod candidates;
pub(in crate::memory) mod desc;
pub(in crate::memory) mod error;
pub(in crate::memory) mod name_table;
pub(in crate::memory) mod pool;
pub(in crate::memory) mod short_name;
