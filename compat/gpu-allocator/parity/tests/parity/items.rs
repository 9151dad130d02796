// Each public item of one crate, `api`, with its traits and its signature.

use core::fmt::{Debug, Display};
use core::num::NonZeroU64;
use core::ops::Range;
use core::ptr::NonNull;

use api::vulkan::{
    Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc, MappedAllocationSlab,
};
use api::{
    AllocationError, AllocationReport, AllocationSizes, AllocatorDebugSettings, AllocatorReport,
    MemoryBlockReport, MemoryLocation,
};
use ash::vk;

fn has_traits() {
    fn shared<T: Send + Sync + 'static>() {}
    fn plain<T: Copy + Debug>() {}
    shared::<Allocator>();
    shared::<Allocation>();
    shared::<AllocationError>();
    shared::<AllocatorReport>();
    fn error<T: std::error::Error>() {}
    error::<AllocationError>();
    plain::<MemoryLocation>();
    plain::<AllocationScheme>();
    plain::<AllocatorDebugSettings>();
    plain::<AllocationSizes>();
    fn equal<T: Eq + core::hash::Hash>() {}
    equal::<MemoryLocation>();
    fn comparable<T: Eq>() {}
    comparable::<AllocationScheme>();
    fn shown<T: Debug>() {}
    shown::<Allocator>();
    shown::<Allocation>();
    fn described<T: Clone + Debug>() {}
    described::<AllocationCreateDesc<'_>>();
    described::<AllocationReport>();
    described::<AllocatorReport>();
    fn cloned<T: Clone>() {}
    cloned::<MemoryBlockReport>();
    fn defaulted<T: Default>() {}
    defaulted::<Allocation>();
    defaulted::<AllocatorDebugSettings>();
    defaulted::<AllocationSizes>();
    fn slab<T: presser::Slab>() {}
    slab::<Allocation>();
    slab::<MappedAllocationSlab<'_>>();
}

fn has_functions() {
    let _: fn(u64, u64) -> AllocationSizes = AllocationSizes::new;
    let _: fn(AllocationSizes, u64) -> AllocationSizes = AllocationSizes::with_max_device_memblock_size;
    let _: fn(AllocationSizes, u64) -> AllocationSizes = AllocationSizes::with_max_host_memblock_size;
    let _: fn(&AllocatorCreateDesc) -> api::Result<Allocator> = Allocator::new;
    let _: fn(&mut Allocator, &AllocationCreateDesc<'_>) -> api::Result<Allocation> = Allocator::allocate;
    let _: fn(&mut Allocator, Allocation) -> api::Result<()> = Allocator::free;
    let _: fn(&mut Allocator, &mut Allocation, &str) -> api::Result<()> = Allocator::rename_allocation;
    let _: fn(&Allocator, log::Level) = Allocator::report_memory_leaks;
    let _: fn(&Allocator) -> AllocatorReport = Allocator::generate_report;
    let _: fn(&Allocator) -> u64 = Allocator::capacity;
    let _: for<'a> fn(&'a mut Allocation) -> Option<MappedAllocationSlab<'a>> = Allocation::try_as_mapped_slab;
    let _: fn(&Allocation) -> Option<NonZeroU64> = Allocation::chunk_id;
    let _: fn(&Allocation) -> vk::MemoryPropertyFlags = Allocation::memory_properties;
    let _: unsafe fn(&Allocation) -> vk::DeviceMemory = Allocation::memory;
    let _: fn(&Allocation) -> bool = Allocation::is_dedicated;
    let _: fn(&Allocation) -> u64 = Allocation::offset;
    let _: fn(&Allocation) -> u64 = Allocation::size;
    let _: fn(&Allocation) -> Option<NonNull<core::ffi::c_void>> = Allocation::mapped_ptr;
    let _: fn(&Allocation) -> Option<&[u8]> = Allocation::mapped_slice;
    let _: fn(&mut Allocation) -> Option<&mut [u8]> = Allocation::mapped_slice_mut;
    let _: fn(&Allocation) -> bool = Allocation::is_null;
}

fn has_fields(create: AllocatorCreateDesc, allocate: AllocationCreateDesc<'_>, report: AllocatorReport) {
    let AllocatorCreateDesc {
        instance: _,
        device: _,
        physical_device: _,
        debug_settings,
        buffer_device_address: bool,
        allocation_sizes: _,
    } = create;
    let _: bool = bool;
    let AllocatorDebugSettings {
        log_memory_information: _,
        log_leaks_on_shutdown: _,
        store_stack_traces: _,
        log_allocations: _,
        log_frees: _,
        log_stack_traces: _,
        ..
    } = debug_settings;
    let AllocationCreateDesc { name, requirements: _, location, linear, allocation_scheme } = allocate;
    let _: (&str, bool) = (name, linear);
    match location {
        MemoryLocation::Unknown
        | MemoryLocation::GpuOnly
        | MemoryLocation::CpuToGpu
        | MemoryLocation::GpuToCpu => {}
    }
    match allocation_scheme {
        AllocationScheme::DedicatedBuffer(_)
        | AllocationScheme::DedicatedImage(_)
        | AllocationScheme::GpuAllocatorManaged => {}
    }
    // Exactly these, since programs name them all.
    let AllocatorReport { allocations, blocks, total_allocated_bytes, total_capacity_bytes } = report;
    let _: (u64, u64) = (total_allocated_bytes, total_capacity_bytes);
    for AllocationReport { name, offset, size, .. } in allocations {
        let _: (String, u64, u64) = (name, offset, size);
    }
    for MemoryBlockReport { size, allocations } in blocks {
        let _: (u64, Range<usize>) = (size, allocations);
    }
}

/// The functions above are compiled; what they are called with does not matter.
pub(crate) fn default_debug_settings() -> String {
    let _ = (has_traits as fn(), has_functions as fn(), has_fields as fn(_, AllocationCreateDesc<'static>, _));
    format!("{:?}", AllocatorDebugSettings::default())
}

pub(crate) fn displayed_errors() -> Vec<String> {
    fn show(error: impl Display + Debug) -> String {
        format!("{error} / {error:?}")
    }
    use AllocationError::*;
    let all = [
        OutOfMemory,
        FailedToMap("why".into()),
        NoCompatibleMemoryTypeFound,
        InvalidAllocationCreateDesc,
        InvalidAllocatorCreateDesc("why".into()),
        Internal("why".into()),
        BarrierLayoutNeedsDevice10,
        CastableFormatsRequiresEnhancedBarriers,
        CastableFormatsRequiresAtLeastDevice12,
    ];
    for error in &all {
        // No other variant, since programs match them all.
        match error {
            OutOfMemory
            | FailedToMap(_)
            | NoCompatibleMemoryTypeFound
            | InvalidAllocationCreateDesc
            | InvalidAllocatorCreateDesc(_)
            | Internal(_)
            | BarrierLayoutNeedsDevice10
            | CastableFormatsRequiresEnhancedBarriers
            | CastableFormatsRequiresAtLeastDevice12 => {}
        }
    }
    all.into_iter().map(show).collect()
}

pub(crate) fn displayed_reports() -> String {
    let report = AllocatorReport {
        allocations: Vec::new(),
        blocks: vec![MemoryBlockReport { size: 3 << 20, allocations: 0..0 }],
        total_allocated_bytes: 1023,
        total_capacity_bytes: 3 << 30,
    };
    format!("{report:?} {report:.3?}")
}
