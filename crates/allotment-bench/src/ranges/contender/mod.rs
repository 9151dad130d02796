//! The compared allocators of ranges, behind one trait. The dispatch is static: a contender's code is inlined into
//! the loop that is timed.
//!
//! ```text
//!   ours               VirtualBlock with each algorithm and strategy
//!   offset_allocator   the crate `offset-allocator`
//!   vma                VirtualBlock of AMD's Vulkan Memory Allocator, through `vk-mem`
//!   range_alloc        the crate `range-alloc`
//!   gpu_alloc          the crate `gpu-alloc`, a whole allocator, over a device that is none
//!   empty              a counter: the cost of the harness
//! ```

mod empty;
mod gpu_alloc;
mod offset_allocator;
mod ours;
mod range_alloc;
mod vma;

use crate::failure::Failure;
use crate::host_heap;

/// An allocator of ranges of the bytes `0..size`.
pub(super) trait Ranges: Send + Sized + 'static {
    /// What the caller keeps in order to free the range.
    type Handle: Send + 'static;

    /// The name in tables.
    const NAME: &'static str;

    /// Whether the ranges must be freed in the order of their allocation or the reverse one: no hole is reused before
    /// it joins the free end of the space.
    const IS_LINEAR: bool = false;

    /// Creates the allocator, all of whose space is free; `None` if it cannot manage this space.
    fn new(space: &Space) -> Option<Self>;

    /// Allocates a range, and returns its handle and its offset in bytes; `None` if it is refused. `size` is a multiple
    /// of the space's unit, `alignment` a power of two and no less than the unit.
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(Self::Handle, u64)>;

    /// Frees a range.
    fn free(&mut self, handle: Self::Handle);

    /// Frees all ranges in one call, after which no handle is used again. Returns `false` if there is no such call.
    fn clear(&mut self) -> bool {
        false
    }

    /// Returns the host memory in use by all that is written in its language; `None` if that is not known. Only
    /// differences matter.
    fn host_bytes() -> Option<u64> {
        Some(host_heap::bytes())
    }
}

/// The space that a workload needs. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) size: u64,
    /// All sizes and alignments are multiples of this power of two. For allocators of numbers of 32 bits.
    pub(super) unit: u64,
    /// The largest number of live ranges. For allocators that must know it.
    pub(super) peak: u32,
}

/// Something to do with each contender.
pub(super) trait Visit {
    fn visit<C: Ranges>(&mut self) -> Result<(), Failure>;
}

/// Visits all contenders. The harness alone is the first.
pub(super) fn visit_all(visit: &mut impl Visit) -> Result<(), Failure> {
    visit.visit::<empty::Empty>()?;
    visit.visit::<ours::Ours<ours::Balanced>>()?;
    visit.visit::<ours::Ours<ours::BalancedInUnits>>()?;
    visit.visit::<ours::Ours<ours::LeastTime>>()?;
    visit.visit::<ours::Ours<ours::LeastMemory>>()?;
    visit.visit::<ours::Ours<ours::LowestOffset>>()?;
    visit.visit::<ours::Ours<ours::Linear>>()?;
    visit.visit::<ours::Ours<ours::Buddy>>()?;
    visit.visit::<offset_allocator::OffsetAllocator>()?;
    visit.visit::<vma::Vma<vma::Default>>()?;
    visit.visit::<vma::Vma<vma::MinTime>>()?;
    visit.visit::<vma::Vma<vma::MinMemory>>()?;
    visit.visit::<vma::Vma<vma::MinOffset>>()?;
    visit.visit::<vma::Vma<vma::Linear>>()?;
    visit.visit::<range_alloc::RangeAlloc>()?;
    visit.visit::<gpu_alloc::GpuAlloc<gpu_alloc::Buddy>>()?;
    visit.visit::<gpu_alloc::GpuAlloc<gpu_alloc::FreeList>>()
}

/// The name of the contender whose times are subtracted.
pub(super) const EMPTY: &str = <empty::Empty as Ranges>::NAME;
/// The name of the contender that the others are compared with.
pub(super) const BASE: &str = <offset_allocator::OffsetAllocator as Ranges>::NAME;
