//! Custom pools: the handle and the description.

use allotment_suballoc::{Algorithm, Alignment};

use crate::choices::blocks::BlockSize;
use crate::choices::blocks::EmptyBlockPolicy;
use crate::device::{MemoryTypeIndex, Priority};
use crate::memory::request::MAX_POOL_TYPES;
use crate::memory::{BlockGrowth, BudgetPolicy, Dedicated, Name};

/// The maximum number of block sets in one pool: two of each memory type in a pool that keeps movable allocations apart.
pub(crate) const MAX_POOL_SETS: usize = 2 * MAX_POOL_TYPES;

/// The description of a custom pool.
///
/// # Threads
///
/// As a default pool, a custom pool splits into parts, at most
/// [`AllocatorDesc::threads`](crate::AllocatorDesc::threads), when threads contend for it. A thread that allocates alone
/// uses one part. Statistics, dumps, resets and defragmentation concern all parts together, and
/// [`min_blocks`](Self::min_blocks) holds for all together. The pool stays one, so that threads wait for each other,
/// where parts would change what it promises:
///
/// - with [`max_blocks`](Self::max_blocks), so that no thread is refused while there is room in a block of another;
/// - with [`Algorithm::Linear`], so that allocations follow each other in the order of the calls.
///
/// ```
/// use allotment::device::MemoryTypeIndex;
/// use allotment::memory::blocks::BlockSize;
/// use allotment::{Algorithm, PoolDesc};
///
/// let mut desc = PoolDesc::new([MemoryTypeIndex(1)]);
/// desc.algorithm = Algorithm::Linear;
/// desc.sizing = Some(BlockSize::Fixed(1 << 20));
/// desc.max_blocks = 1;
/// ```
#[doc(alias("VmaPoolCreateInfo", "POOL_DESC", "PoolCreateInfo"))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolDesc {
    /// The memory types of its blocks, in the order in which they are tried; one to four.
    pub memory_types: Vec<MemoryTypeIndex>,
    /// The algorithm that finds room in its blocks.
    #[doc(alias("VMA_POOL_CREATE_LINEAR_ALGORITHM_BIT", "POOL_FLAG_ALGORITHM_LINEAR"))]
    pub algorithm: Algorithm,
    /// The size of its blocks; `None` for the growth of the allocator's default pools
    /// ([`AllocatorDesc::block_sizes`](crate::memory::AllocatorDesc::block_sizes)).
    pub sizing: Option<BlockSize>,
    /// Blocks that are allocated with the pool, each of the first of its memory types of which one can be had. It never has
    /// fewer blocks of these types, until it is destroyed.
    pub min_blocks: u32,
    /// The maximum number of memory objects, of all its memory types together; `u32::MAX` for no maximum. A pool with a
    /// maximum has [one copy](Self#threads).
    pub max_blocks: u32,
    /// The minimum alignment of every allocation in it.
    pub alignment: Alignment,
    /// Do not keep linear and optimal resources apart: the caller guarantees that the pool holds only one of the two.
    #[doc(alias = "VMA_POOL_CREATE_IGNORE_BUFFER_IMAGE_GRANULARITY_BIT")]
    pub ignore_granularity: bool,
    /// Keep allocations that defragmentation may move and pinned ones in different blocks, as the default pools do. One
    /// pinned allocation keeps its block from being emptied, so a pool that mixes them keeps blocks for few bytes.
    ///
    /// A request takes an empty block of the others before the pool allocates one. Where no block can be had, it takes
    /// room among the others: no request is refused for this. Off by default, since a pool then has up to one partly
    /// filled block more; worth it for a pool with both kinds that is defragmented.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
    /// use allotment::memory::Movability;
    ///
    /// let mut desc = PoolDesc::new([best]);
    /// desc.separate_movable = true;
    /// let pool = allocator.create_pool(desc)?;
    /// let options = MemoryUsage::GpuOnly.with_pool(&pool);
    /// let pinned = allocator.allocate(&Requirements::new(1024), &options)?;
    /// let movable = options.with_movability(Movability::Copied);
    /// let tile = allocator.allocate(&Requirements::new(1024), &movable)?;
    /// assert_ne!(allocator.location(&pinned)?.memory, allocator.location(&tile)?.memory);
    /// # drop(allocator.free_many([pinned, tile]));
    /// # drop(movable);
    /// # allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub separate_movable: bool,
    /// When its empty blocks are freed.
    pub empty_blocks: EmptyBlockPolicy,
    /// Which thread allocates its blocks; `None` for the allocator's
    /// ([`AllocatorDesc::block_growth`](crate::memory::AllocatorDesc::block_growth)). Maintenance allocates blocks of
    /// the first memory type, and never more than `max_blocks`.
    pub block_growth: Option<BlockGrowth>,
    /// What [`Dedicated::Automatic`] means for its requests: `Automatic` for what the allocator's
    /// [`dedicated`](crate::AllocatorDesc::dedicated) says. [`Dedicated::Always`] gives each resource its own memory, to find out
    /// whether a fault comes from memory that is shared: in a pool whose blocks have a fixed size, each such request is refused.
    #[doc(alias = "POOL_FLAG_ALWAYS_COMMITTED")]
    pub dedicated: Dedicated,
    /// The budget policy of its blocks. [`BudgetPolicy::WithinBudget`] overrides that of a request.
    pub budget: BudgetPolicy,
    /// The residency priority of its shared blocks.
    pub priority: Priority,
    /// The debug name.
    #[doc(alias("vmaSetPoolName", "SetName"))]
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
            separate_movable: false,
            empty_blocks: EmptyBlockPolicy::default(),
            block_growth: None,
            dedicated: Dedicated::Automatic,
            budget: BudgetPolicy::AllowOverBudget,
            priority: Priority::NORMAL,
            name: None,
        }
    }
}
