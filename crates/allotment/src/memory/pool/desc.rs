//! Custom pools: their tokens and their descriptions.

use allotment_suballoc::{Algorithm, Alignment};

use crate::device::{MemoryTypeIndex, Priority};
use crate::memory::empty_blocks::EmptyBlockPolicy;
use crate::memory::growth::BlockSizes;
use crate::memory::{BudgetPolicy, Name};

/// The most memory types that one pool can take from.
pub const MAX_POOL_TYPES: usize = 4;

/// Names a custom pool. Neither cloned nor copied; destroying the pool takes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pool that is dropped can be neither used nor destroyed"]
pub struct Pool {
    pub(in crate::memory) allocator: u32,
    pub(in crate::memory) index: u32,
}

/// How large the blocks of a pool are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// As large as what is in use suggests; what is large for a block gets memory of its own.
    Growing(BlockSizes),
    /// All of so many bytes; nothing gets memory of its own.
    Fixed(u64),
}

/// A custom pool that is wanted.
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
    /// Where its blocks come from, in the order in which they are tried; one to four.
    pub memory_types: Vec<MemoryTypeIndex>,
    /// How it finds room in its blocks.
    pub algorithm: Algorithm,
    /// How large its blocks are; `None` for growing as the allocator's own pools do
    /// ([`AllocatorDesc::block_sizes`](crate::memory::AllocatorDesc::block_sizes)).
    pub sizing: Option<BlockSize>,
    /// Blocks of the first memory type that it begins with and never goes below.
    pub min_blocks: u32,
    /// Memory objects that it may have in all.
    pub max_blocks: u32,
    /// What every place in it is a multiple of.
    pub alignment: Alignment,
    /// Do not keep linear and optimal resources apart: the user knows that only one of them comes here.
    pub ignore_granularity: bool,
    /// When its empty blocks are given back.
    pub empty_blocks: EmptyBlockPolicy,
    /// Whether its blocks mind the heap's budget, whatever a single request says.
    pub budget: BudgetPolicy,
    /// Whether its blocks go early or late when there is too little.
    pub priority: Priority,
    /// For people.
    pub name: Option<Name>,
}

impl PoolDesc {
    /// A pool over these memory types with defaults for everything else.
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
