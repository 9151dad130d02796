//! What a token of an allocation refers to: its record, its location, and access to its bytes.

pub(in crate::memory) mod id;
pub(in crate::memory) mod location;
pub(in crate::memory) mod memory_objects;
pub(in crate::memory) mod record;
pub(in crate::memory) mod record_table;
