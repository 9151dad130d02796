//! A request for memory: its options, the memory types that suit it, and the path to an allocation and back.

mod candidates;
mod desc;
mod error;
mod name_table;
mod pool;
mod short_name;

// What a caller asks for, and what is asked of the parts above.
pub use self::desc::AllocationOptions;
pub(super) use self::desc::{AllocationRequest, LARGEST_WAITING, Moves, Remembered};

// Which memory types suit.
pub use self::candidates::{MemoryTypeCandidate, Suitability};
pub(super) use self::candidates::{Ranking, judge};

// The handle of a pool, and where its copies and its sets of blocks are.
pub use self::pool::Pool;
pub(super) use self::pool::{MAX_POOL_TYPES, MOST_SHARDS, PoolShards, other_set};

// Why a request is refused, and how the refused are named.
pub use self::error::{AccessError, AllocationError, CreateAllocatorError, WrongAllocator};
pub use self::name_table::NameTable;
pub(crate) use self::short_name::name_in_error;
pub use self::short_name::{CutName, OtherName, ShortName};
