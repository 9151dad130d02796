//! The sizes of blocks, and which empty ones are kept. What follows from them is in `memory/driver/growth.rs` and
//! `memory/pool/empty.rs`.

const MIB: u64 = 1 << 20;

/// The sizes of blocks, and the threshold for dedicated memory.
///
/// The defaults were chosen by the waste and the driver calls that they leave on generated traffic, and checked on
/// recorded traces: see `docs/measurements`. They bound what a pool decides from its own traffic, so few programs have a
/// reason to change them.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::blocks::BlockSizes;
///
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes.smallest = 1 << 20; // a program with few resources
/// desc.block_sizes.largest = 64 << 20;
/// let allocator = Allocator::new(device, desc)?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// assert_eq!(allocator.statistics().block_bytes, 1 << 20);
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "AllocationSizes")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockSizes {
    /// Bytes of a pool's first block, a power of two. Less where the first request is a large part of it.
    pub smallest: u64,
    /// Bytes that no block exceeds, unless a heap is so small that an eighth of it is less; a power of
    /// two.
    #[doc(alias = "with_max_device_memblock_size")]
    pub largest: u64,
    /// The next block is the pool's bytes divided by this, rounded up to a power of two. One whose first request is a
    /// large part of it has less: room for whole requests of that size.
    pub growth_divisor: u64,
    /// A resource larger than the next block divided by this, and than [`smallest`](Self::smallest), gets dedicated
    /// memory where no block has room.
    pub dedicated_threshold_divisor: u64,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { smallest: 4 * MIB, largest: 256 * MIB, growth_divisor: 32, dedicated_threshold_divisor: 4 }
    }
}

impl BlockSizes {
    /// Creates sizes for blocks that all have one size. Only resources larger than a block get dedicated memory.
    ///
    /// ```
    /// use allotment::memory::blocks::BlockSizes;
    ///
    /// let sizes = BlockSizes::fixed(32 << 20); // a power of two
    /// assert_eq!((sizes.smallest, sizes.largest), (32 << 20, 32 << 20));
    /// ```
    #[must_use]
    pub fn fixed(size: u64) -> Self {
        // The growth divisor has no effect: between these bounds there is one size.
        Self { smallest: size, largest: size, growth_divisor: 1, dedicated_threshold_divisor: 1 }
    }
}

/// The size of a pool's blocks.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
/// use allotment::AllocationError;
/// use allotment::memory::blocks::BlockSize;
///
/// let mut desc = PoolDesc::new([best]);
/// desc.sizing = Some(BlockSize::Fixed(1 << 20)); // bytes: every block, and so the largest request
/// let pool = allocator.create_pool(desc)?;
/// let refused = allocator.allocate(&Requirements::new(2 << 20), &MemoryUsage::GpuOnly.with_pool(&pool));
/// assert!(matches!(refused, Err(AllocationError::TooLargeForBlock { block_size: 0x10_0000, .. })));
/// # allocator.destroy_pool(pool)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// Block size grows with usage; resources larger than the threshold get dedicated memory.
    Growing(BlockSizes),
    /// Every block has this many bytes; no resource gets dedicated memory.
    Fixed(u64),
}

/// When a pool frees its empty blocks to the driver.
///
/// Time is counted in frames: calls of [`Allocator::end_frame`](crate::memory::Allocator::end_frame). In a program that
/// has not called `end_frame` for ten seconds, a frame is a sixtieth of a second of [real
/// time](crate::memory::blocks::TimeSource), or 64 frees in a pool, whichever comes first. The allocator reads the clock only
/// inside later calls, on any pool: when it allocates memory from the driver, at every 64th free, and at every fourth
/// free that empties a memory object. A [`MaintenanceThread`](crate::memory::MaintenanceThread) reads the clock as
/// well. A program that makes no more calls should [trim](crate::memory::Allocator::trim) instead.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::blocks::EmptyBlockPolicy;
///
/// let mut desc = AllocatorDesc::default();
/// desc.empty_blocks = EmptyBlockPolicy::NONE; // a tool that shares the GPU with others
/// let allocator = Allocator::new(device, desc)?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// allocator.free(mesh)?;
/// assert_eq!(allocator.statistics().block_bytes, 0, "freed to the driver at once");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmptyBlockPolicy {
    /// A pool frees a block once the block has been empty for this number of frames.
    pub frames: u32,
    /// Bytes of empty blocks that a pool keeps beyond its peak usage of the last [`frames`](Self::frames). The pool
    /// frees empty blocks above that as soon as they are empty, or, in a program that ends frames, once they have been
    /// empty for three frames.
    pub kept_bytes: u64,
    /// The pool keeps its peak usage divided by this number in addition to [`kept_bytes`](Self::kept_bytes); 0 adds
    /// nothing.
    pub kept_divisor: u64,
    /// Whether the pool keeps its peak usage of the last [`frames`](Self::frames). If not, it keeps
    /// [`kept_bytes`](Self::kept_bytes) and the divided part beyond what is in use now: less memory, also in a program
    /// that makes no more calls, and more calls of the driver.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let mut desc = AllocatorDesc::default();
    /// desc.empty_blocks.keeps_peak = false; // a service that computes for a second and waits for an hour
    /// let allocator = Allocator::new(device, desc)?;
    /// let request = Requirements::new(1 << 20);
    /// let tensors: Vec<_> = (0..200)
    ///     .map(|_| allocator.allocate(&request, &MemoryUsage::GpuOnly.into()))
    ///     .collect::<Result<_, _>>()?;
    /// for tensor in tensors {
    ///     allocator.free(tensor)?;
    /// }
    /// assert!(allocator.statistics().block_bytes < 32 << 20, "of 200 MiB, without a later call");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub keeps_peak: bool,
}

impl Default for EmptyBlockPolicy {
    /// Two seconds of frames at 60 Hz; one small block and a sixteenth of the peak usage. Twice these bytes left a
    /// tenth more of the recorded training traces' memory idle and saved hardly a driver call.
    fn default() -> Self {
        Self { frames: 120, kept_bytes: 4 << 20, kept_divisor: 16, keeps_peak: true }
    }
}

impl EmptyBlockPolicy {
    /// Frees every block as soon as it is empty.
    pub const NONE: Self = Self { frames: 0, kept_bytes: 0, kept_divisor: 0, keeps_peak: true };
}
