//! The tests' common parts: an allocator over a simulated device that is checked when it is dropped, and short
//! ways to say what is asked of it.

#[path = "../common/wanted.rs"]
mod requests;

use core::ops::Deref;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    MemoryDevice as _, MemoryHandle, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask,
};
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource};
use allotment::memory::defragmentation::AllocatorRef;
use allotment::memory::reports::LeakHandler;
use allotment::{Alignment, Allocation, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};

pub(crate) use requests::{AllocateWanted, Wanted};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// A discrete card: type 0 is device memory in heap 0, types 1 and 2 are host memory in heap 1, type 3 is
/// device memory that can be mapped, in heap 0.
pub(crate) const DISCRETE: &str = "discrete-large-bar";
/// Type 1 is mapped but not coherent, with atoms of 64 bytes.
pub(crate) const MOBILE: &str = "mobile";
/// The granularity is 64 KiB, so that optimal images have blocks of their own.
pub(crate) const COARSE: &str = "discrete-no-bar";
/// The granularity is 1 KiB, so that optimal images are rounded up to it.
pub(crate) const FINE: &str = "nvidia-h200";

pub(crate) const DEVICE_TYPE: MemoryTypeIndex = MemoryTypeIndex(0);
pub(crate) const HEAP: MemoryHeapIndex = MemoryHeapIndex(0);

pub(crate) fn profile(name: &str) -> Profile {
    Profile::named(name).unwrap_or_else(|| panic!("there is no profile {name}"))
}

/// An allocator and its device. When it goes, everything must have been freed, agree and be given back,
/// and the device must have had nothing to complain about.
pub(crate) struct Rig {
    pub(crate) device: SimulatedGpu,
    allocator: Option<Allocator<SimulatedGpu>>,
}

impl Rig {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(profile(name), |_| {})
    }

    pub(crate) fn with(profile: Profile, change: impl FnOnce(&mut AllocatorDesc)) -> Self {
        Self::over(SimulatedGpu::new(profile), change)
    }

    pub(crate) fn over(device: SimulatedGpu, change: impl FnOnce(&mut AllocatorDesc)) -> Self {
        let mut desc = AllocatorDesc::default();
        // Who forgets something is found out below; the report would only hide why a test failed.
        desc.on_leak = LeakHandler::Ignore;
        // However slow the machine is, no time passes unless a test says so.
        desc.time = TimeSource::Manual(ManualTime::new());
        change(&mut desc);
        let allocator = Some(Allocator::new(device.clone(), desc).unwrap());
        Self { device, allocator }
    }

    /// Memory objects that the device has.
    pub(crate) fn objects(&self) -> u32 {
        self.device.usage().memory_objects
    }

    /// Bytes of a heap that are taken, as the device counts them.
    pub(crate) fn taken(&self, heap: MemoryHeapIndex) -> u64 {
        self.device.heap_budget(heap).usage
    }

    pub(crate) fn memory_of(&self, allocation: &Allocation) -> u64 {
        self.location(allocation).unwrap().memory.to_raw()
    }

    pub(crate) fn type_of(&self, allocation: &Allocation) -> MemoryTypeIndex {
        self.location(allocation).unwrap().memory_type
    }

    pub(crate) fn block_size_of(&self, allocation: &Allocation) -> u64 {
        self.info(allocation).unwrap().block_size
    }

    pub(crate) fn is_dedicated(&self, allocation: &Allocation) -> bool {
        self.info(allocation).unwrap().dedicated
    }

    pub(crate) fn free_all(&self, allocations: impl IntoIterator<Item = Allocation>) {
        allocations.into_iter().for_each(|allocation| self.free(allocation).unwrap());
    }
}

impl Deref for Rig {
    type Target = Allocator<SimulatedGpu>;

    fn deref(&self) -> &Self::Target {
        self.allocator.as_ref().unwrap()
    }
}

impl<'a> From<&'a Rig> for AllocatorRef<'a, SimulatedGpu> {
    fn from(rig: &'a Rig) -> Self {
        AllocatorRef::Borrowed(rig)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.check_invariants();
        assert_eq!(self.statistics().allocations, 0, "the test has forgotten {:?}", self.reports().leaks());
        self.allocator = None;
        let usage = self.device.usage();
        assert_eq!((usage.memory_objects, usage.memory_bytes, usage.buffers), (0, 0, 0));
        assert_eq!(self.device.validation_errors(), Vec::<String>::new());
    }
}

/// A buffer of `size` bytes that may be in any memory type.
pub(crate) fn wanted(size: u64, memory_usage: MemoryUsage) -> Wanted {
    Wanted::new(Requirements::new(size), memory_usage)
}

/// A buffer of `size` bytes that may be in one memory type only, so that nothing else can be fallen
/// back to.
pub(crate) fn wanted_in(size: u64, memory_type: MemoryTypeIndex) -> Wanted {
    let mut desc = wanted(size, MemoryUsage::GpuOnly);
    // Of what the tests allocate, and of the resources that they create, which have requirements of their own.
    desc.requirements.memory_types = MemoryTypeMask(1 << memory_type.0);
    desc.memory_types = desc.requirements.memory_types;
    desc
}

/// The same for an allocation that the CPU accesses.
pub(crate) fn mapped_in(size: u64, memory_type: MemoryTypeIndex) -> Wanted {
    let mut desc = wanted_in(size, memory_type);
    desc.required |= MemoryProperties::HOST_VISIBLE;
    desc
}

pub(crate) fn aligned(size: u64, alignment: u64) -> Requirements {
    Requirements::new(size).with_alignment(Alignment::new(alignment).unwrap())
}

pub(crate) fn fixed_pool(memory_type: MemoryTypeIndex, block_size: u64) -> PoolDesc {
    let mut desc = PoolDesc::new([memory_type]);
    desc.sizing = Some(BlockSize::Fixed(block_size));
    desc
}

/// Block sizes that are small enough for tests to fill.
pub(crate) fn small_blocks(smallest: u64, largest: u64) -> BlockSizes {
    let mut sizes = BlockSizes::fixed(smallest);
    sizes.largest = largest;
    sizes
}

/// Keeps blocks for this number of ticks, and this number of bytes of them.
pub(crate) fn empty_blocks(ticks: u32, surplus: u64) -> EmptyBlockPolicy {
    let mut empty_blocks = EmptyBlockPolicy::NONE;
    (empty_blocks.frames, empty_blocks.kept_bytes) = (ticks, surplus);
    empty_blocks
}
