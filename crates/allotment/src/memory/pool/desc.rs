//! Custom pools: the handle and the description.

use allotment_suballoc::{Algorithm, Alignment};

use crate::device::{MemoryTypeIndex, Priority};
use crate::memory::empty_blocks::EmptyBlockPolicy;
use crate::memory::growth::BlockSizes;
use crate::memory::{BudgetPolicy, Name};

/// The maximum number of memory types in one pool.
pub const MAX_POOL_TYPES: usize = 4;

/// The handle of a custom pool. It is neither [`Clone`] nor [`Copy`]; destroying the pool consumes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pool that is dropped can be neither used nor destroyed"]
pub struct Pool {
    pub(in crate::memory) allocator: u32,
    pub(in crate::memory) index: u32,
}

/// The size of a pool's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// Block size grows with usage; resources larger than the threshold get dedicated memory.
    Growing(BlockSizes),
    /// Every block has this many bytes; no resource gets dedicated memory.
    Fixed(u64),
}

/// The description of a custom pool.
///
/// ```
/// use allotment::device::MemoryTypeIndex;
/// use allotment::memory::BlockSize;
/// use allotment::{Algorithm, PoolDesc};
///
/// let mut desc = PoolDesc::new([MemoryTypeIndex(1)]);
/// desc.algorithm = Algorithm::Linear;
/// desc.sizing = Some(BlockSize::Fixed(1 << 20));
/// desc.max_blocks = 1;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolDesc {
    /// The memory types of its blocks, in the order in which they are tried; one to four.
    pub memory_types: Vec<MemoryTypeIndex>,
    /// The algorithm that finds room in its blocks.
    pub algorithm: Algorithm,
    /// The size of its blocks; `None` for the growth of the allocator's default pools
    /// ([`AllocatorDesc::block_sizes`](crate::memory::AllocatorDesc::block_sizes)).
    pub sizing: Option<BlockSize>,
    /// Blocks of the first memory type that are allocated with the pool and never freed before it.
    pub min_blocks: u32,
    /// The maximum number of memory objects, of all its memory types together.
    pub max_blocks: u32,
    /// The minimum alignment of every allocation in it.
    pub alignment: Alignment,
    /// Do not keep linear and optimal resources apart: the caller guarantees that the pool holds only one of the two.
    pub ignore_granularity: bool,
    /// When its empty blocks are freed.
    pub empty_blocks: EmptyBlockPolicy,
    /// The budget policy of its blocks. [`BudgetPolicy::WithinBudget`] overrides that of a request.
    pub budget: BudgetPolicy,
    /// The residency priority of its shared blocks.
    pub priority: Priority,
    /// The debug name.
    pub name: Option<Name>,
}

impl PoolDesc {
    /// Creates a description with these memory types and defaults for everything else.
    #[must_use]
    pub fn new(memory_types: impl IntoIterator<Item = MemoryTypeIndex>) -> Self {
        Self {
            memory_types: memory_types.into_iter().collect(),
            algorithm: Algorithm::Tlsf,
            sizing: None,
            min_blocks: 0,
            max_blocks: u32::MAX,
            alignment: Alignment::ONE,
            ignore_granularity: false,
            empty_blocks: EmptyBlockPolicy::default(),
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            name: None,
        }
    }
}
