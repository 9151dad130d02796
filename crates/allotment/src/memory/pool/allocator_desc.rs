//! The description of an allocator, most of which says what its pools do.

use allotment_suballoc::Algorithm;

use super::growth_ahead::BlockGrowth;
use super::shards::default_shards;
use crate::choices::blocks::{BlockSizes, EmptyBlockPolicy};
use crate::choices::call_site::CallSites;
use crate::device::{DeviceProperties, MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask};
use crate::memory::CreateAllocatorError;
use crate::memory::Dedicated;
use crate::memory::leak_report::LeakHandler;
use crate::memory::time::TimeSource;

/// Description of an allocator.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// use allotment::{AllocationError, device::MemoryHeapIndex};
///
/// let mut desc = AllocatorDesc::default();
/// desc.heap_limits = vec![(MemoryHeapIndex(0), 64 << 20)]; // bytes: the program's share of the heap
/// let allocator = Allocator::new(device, desc)?;
/// let refused = allocator.allocate(&Requirements::new(100 << 20), &MemoryUsage::GpuOnly.into());
/// assert!(matches!(refused, Err(AllocationError::HeapLimit { reserved: 0, limit: 0x400_0000, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias(
    "VmaAllocatorCreateInfo",
    "ALLOCATOR_DESC",
    "AllocatorCreateInfo",
    "AllocatorCreateDesc",
    "AllocatorDebugSettings"
))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllocatorDesc {
    /// The algorithm with which default pools suballocate their blocks.
    pub algorithm: Algorithm,
    /// Block sizes of the default pools, and the size from which a request gets a dedicated allocation.
    pub block_sizes: BlockSizes,
    /// Block sizes of single memory types, in place of [`block_sizes`](Self::block_sizes): smaller ones for memory that
    /// is only staged through, say. Of two entries for one type the first counts.
    #[doc(alias = "with_max_host_memblock_size")]
    pub block_sizes_of_types: Vec<(MemoryTypeIndex, BlockSizes)>,
    /// When default pools free their empty blocks.
    pub empty_blocks: EmptyBlockPolicy,
    /// Which thread allocates blocks from the driver and frees them.
    pub block_growth: BlockGrowth,
    /// What [`Dedicated::Automatic`] means for a request. [`Dedicated::Always`] gives each resource its own memory (on Direct3D 12
    /// a committed resource), to find out whether a fault comes from memory that is shared: slow, and it takes more memory.
    /// Custom pools whose blocks have a fixed size are left as they are.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::memory::Dedicated;
    ///
    /// let mut desc = AllocatorDesc::default();
    /// desc.dedicated = Dedicated::Always;
    /// let allocator = Allocator::new(device, desc)?;
    /// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
    /// assert_eq!((allocator.statistics().dedicated, allocator.statistics().blocks), (1, 0));
    /// # allocator.free(mesh)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ALLOCATOR_FLAG_ALWAYS_COMMITTED")]
    pub dedicated: Dedicated,
    /// Bytes that the allocator may allocate from a heap. A heap that is not listed is limited by the driver alone.
    pub heap_limits: Vec<(MemoryHeapIndex, u64)>,
    /// For how many threads a pool has a part each, so that those that allocate at the same time do not wait for each
    /// other's lock: 1 to 64, of a custom pool 1 to 16. Defaults to four times the number of threads that can run at
    /// once, at most 64. A thread that allocates alone uses one part, and parts that no thread uses cost nothing. Some
    /// custom pools have [one part](crate::memory::PoolDesc#threads) alone.
    pub threads: u32,
    /// Memory types that the allocator may use.
    pub memory_types: MemoryTypeMask,
    /// The clock of a program that does not call [`end_frame`](crate::Allocator::end_frame).
    pub time: TimeSource,
    /// Destination of the leak report when the allocator is dropped.
    #[doc(alias = "log_leaks_on_shutdown")]
    pub on_leak: LeakHandler,
    /// Whether the allocator stores where allocations are made, for leak reports: in builds with debug assertions the
    /// line that called the library, in others nothing.
    pub call_sites: CallSites,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Tlsf,
            block_sizes: BlockSizes::default(),
            block_sizes_of_types: Vec::new(),
            empty_blocks: EmptyBlockPolicy::default(),
            block_growth: BlockGrowth::default(),
            dedicated: Dedicated::Automatic,
            heap_limits: Vec::new(),
            threads: default_shards(),
            memory_types: MemoryTypeMask::ALL,
            time: TimeSource::default(),
            on_leak: LeakHandler::default(),
            call_sites: CallSites::default(),
        }
    }
}

impl AllocatorDesc {
    /// Returns the block sizes of a memory type: its [own](Self::block_sizes_of_types) if it has some, else
    /// [`block_sizes`](Self::block_sizes).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::device::{MemoryDevice as _, MemoryProperties};
    /// use allotment::memory::blocks::BlockSizes;
    ///
    /// let mut desc = AllocatorDesc::default();
    /// for (index, memory_type) in device.properties().indexed_types() {
    ///     if memory_type.properties.contains(MemoryProperties::HOST_VISIBLE) {
    ///         desc.block_sizes_of_types.push((index, BlockSizes::fixed(8 << 20)));
    ///     }
    /// }
    /// let allocator = Allocator::new(device, desc)?;
    /// let staging = allocator.allocate(&Requirements::new(1000), &MemoryUsage::Upload.into())?;
    /// assert_eq!(allocator.statistics().block_bytes, 8 << 20);
    /// # let used = allocator.info(&staging)?.memory_type;
    /// # assert_eq!(allocator.desc().block_sizes_of(used).largest, 8 << 20);
    /// # allocator.free(staging)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn block_sizes_of(&self, memory_type: MemoryTypeIndex) -> BlockSizes {
        let own = self.block_sizes_of_types.iter().find(|(index, _)| *index == memory_type);
        own.map_or(self.block_sizes, |&(_, sizes)| sizes)
    }

    /// Checks once that the block sizes computed from these later neither overflow nor divide by zero.
    pub(crate) fn check_block_sizes(
        &self,
        properties: &DeviceProperties,
    ) -> Result<(), CreateAllocatorError> {
        for &(memory_type, _) in &self.block_sizes_of_types {
            if properties.memory_type(memory_type).is_none() {
                return Err(CreateAllocatorError::NoSuchMemoryType { memory_type });
            }
        }
        let of_types = self.block_sizes_of_types.iter().map(|(_, sizes)| sizes);
        match [&self.block_sizes].into_iter().chain(of_types).find(|sizes| !sizes.is_valid()) {
            Some(&BlockSizes { smallest, largest, .. }) => {
                Err(CreateAllocatorError::BlockSizes { smallest, largest })
            }
            None => Ok(()),
        }
    }
}
