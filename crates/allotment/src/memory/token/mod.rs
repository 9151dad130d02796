//! What a token of an allocation refers to: its record, its location, and access to its bytes.

mod id;
mod location;
mod memory_objects;
mod record;
mod record_table;

// What programs hold, and where the memory of it is.
pub use self::id::{Allocation, AllocationId};
pub use self::location::{AllocationInfo, MemoryLocation};

// What is read without a lock: the record of an allocation, and the memory objects which records name by index.
pub(super) use self::memory_objects::{MemoryObject, MemoryObjects, RegisteredObject};
pub(super) use self::record::{RawPlace, Record, Traits};
pub(super) use self::record_table::RecordTable;
