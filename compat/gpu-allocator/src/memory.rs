//! What the allocators of all APIs have in common.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::HashMap;

use allotment::Alignment;
use allotment::device::{Device, MemoryHandle as _, MemoryProperties, MemoryTypeMask};
use allotment::memory::blocks::EmptyBlockPolicy;
use allotment::memory::names::NameTable;
use allotment::memory::reports::{CallSites, LeakHandler, ListedAllocation};
use allotment::memory::{AccessError, AllocationInfo, Dedicated, MemoryLocation as Place};
use allotment::{Allocation, AllocationOptions, Allocator, AllocatorDesc, Requirements, ResourceKind};
use log::Level;

use crate::location::AllowedTypes;
use crate::{
    AllocationError, AllocationReport, AllocationSizes, AllocatorDebugSettings, AllocatorReport,
    MemoryLocation, Result,
};

static CREATED: AtomicUsize = AtomicUsize::new(0);

/// Returns how many allocators the process has created: how a test tells that a patch is in force.
pub fn allocators_created() -> usize {
    // Relaxed, since the number guards no data.
    CREATED.load(Relaxed)
}

/// An allocator of Allotment, as gpu-allocator's are used: by one thread at a time, with names that are borrowed.
pub(crate) struct Memory<D: Device> {
    allocator: Allocator<D>,
    allowed: AllowedTypes,
    /// Programs name most of their allocations with few texts.
    names: NameTable,
    debug: AllocatorDebugSettings,
}

/// A request, in what all APIs have in common.
pub(crate) struct Request<'a, M> {
    pub(crate) name: &'a str,
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    pub(crate) memory_types: MemoryTypeMask,
    pub(crate) location: MemoryLocation,
    pub(crate) kind: ResourceKind,
    /// Memory with room for this allocation alone, with these options.
    pub(crate) dedicated: Option<M>,
}

impl<D: Device> Memory<D> {
    pub(crate) fn new(device: D, sizes: &AllocationSizes, debug: AllocatorDebugSettings) -> Result<Self> {
        let properties = device.properties();
        if debug.log_memory_information {
            for (index, found) in properties.indexed_types() {
                log::debug!("memory type {index}: {}, heap {}", found.properties, found.heap);
            }
            for (index, heap) in properties.heaps.iter().enumerate() {
                log::debug!("heap {index}: {} MiB", heap.size >> 20);
            }
        }
        let mut desc = AllocatorDesc::default();
        (desc.block_sizes, desc.block_sizes_of_types) = sizes.block_sizes(properties);
        // Threads take turns.
        desc.threads = 1;
        desc.empty_blocks = empty_blocks();
        // They are logged here.
        desc.on_leak = LeakHandler::Ignore;
        desc.call_sites = if debug.stores_backtraces() { CallSites::Backtrace } else { CallSites::None };
        let allowed = AllowedTypes::new(properties);
        let allocator = Allocator::new(device, desc)
            .map_err(|error| AllocationError::InvalidAllocatorCreateDesc(error.to_string()))?;
        CREATED.fetch_add(1, Relaxed);
        Ok(Self { allocator, allowed, names: NameTable::new(), debug })
    }

    pub(crate) fn allocate(&self, request: Request<'_, D::MemoryOptions>) -> Result<(Allocation, Place<D>)> {
        let Request { name, size, alignment, memory_types, location, kind, dedicated } = request;
        self.debug.note_allocation(name, size, alignment);
        let alignment =
            Alignment::new(alignment).map_err(|_| AllocationError::InvalidAllocationCreateDesc)?;
        let memory_types = self.allowed.of(location, memory_types);
        // In the order of gpu-allocator, which looks for a memory type before it looks at the size.
        if size != 0 && memory_types.0 == 0 {
            return Err(AllocationError::NoCompatibleMemoryTypeFound);
        }
        let requirements =
            Requirements::new(size).with_alignment(alignment).with_memory_types(memory_types).with_kind(kind);
        let mut options = AllocationOptions::new(location.usage());
        if !name.is_empty() {
            options = options.with_name(self.names.name(name));
        }
        let allocated = match dedicated {
            None => self.allocator.allocate(&requirements, &options),
            Some(memory) => {
                let options = options.with_dedicated(Dedicated::Always);
                self.allocator.with_memory_options(&memory).allocate(&requirements, &options)
            }
        };
        let allocation = allocated.map_err(AllocationError::of_request)?;
        let place = self.place(&allocation);
        Ok((allocation, place.map_err(|error| AllocationError::Internal(error.to_string()))?))
    }

    /// Returns the place of a new allocation. gpu-allocator maps all memory that the CPU can reach, whatever it is for, and
    /// Allotment when the CPU needs it: the first allocation of a block lets it map the block, for all that follow.
    ///
    /// Where the driver cannot map, memory for the GPU alone stays without an address. gpu-allocator refuses it.
    fn place(&self, allocation: &Allocation) -> Result<Place<D>, AccessError> {
        let place = self.allocator.location(allocation)?;
        let of_type = self.allocator.device().properties().memory_type(place.memory_type);
        let is_reachable =
            of_type.is_some_and(|found| found.properties.contains(MemoryProperties::HOST_VISIBLE));
        if place.mapped_ptr.is_some() || !is_reachable || self.allocator.map(allocation).is_err() {
            return Ok(place);
        }
        // The address stays until the memory is freed.
        self.allocator.unmap(allocation)?;
        self.allocator.location(allocation)
    }

    pub(crate) fn free(&self, allocation: Option<Allocation>) -> Result<()> {
        self.debug.note_free(|| {
            let info = allocation.as_ref().and_then(|allocation| self.allocator.info(allocation).ok());
            info.as_ref().map_or_else(|| "<null>".to_owned(), name_of)
        });
        let Some(allocation) = allocation else { return Ok(()) };
        self.allocator.free(allocation).map_err(|error| AllocationError::Internal(error.to_string()))
    }

    pub(crate) fn rename(&self, allocation: Option<&Allocation>, name: &str) -> Result<()> {
        let Some(allocation) = allocation else { return Ok(()) };
        let renamed = self.allocator.set_name(allocation, Some(self.names.name(name)));
        renamed.map_err(|error| AllocationError::Internal(error.to_string()))
    }

    pub(crate) fn report_leaks(&self, level: Level) {
        for leak in self.allocator.reports().leaks() {
            log::log!(level, "leak: {leak}");
            let backtrace = leak.call_site.as_ref().and_then(|site| site.backtrace());
            if let Some(backtrace) = backtrace {
                log::log!(level, "allocated at\n{backtrace}");
            }
        }
    }

    pub(crate) fn report(&self) -> AllocatorReport {
        let mut inside: HashMap<u64, Vec<AllocationReport>> = HashMap::new();
        for ListedAllocation { info, .. } in self.allocator.reports().allocations() {
            let report = AllocationReport { name: name_of(&info), offset: info.offset, size: info.size };
            inside.entry(info.memory.to_raw()).or_default().push(report);
        }
        AllocatorReport::new(self.allocator.reports().blocks().into_iter().map(|block| {
            let mut reports = inside.remove(&block.memory.to_raw()).unwrap_or_default();
            reports.sort_by_key(|report| report.offset);
            (block.ranges.size, reports)
        }))
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.allocator.statistics().block_bytes
    }

    #[cfg(all(windows, feature = "d3d12"))]
    pub(crate) fn device(&self) -> &D {
        self.allocator.device()
    }

    #[cfg(all(windows, feature = "d3d12"))]
    pub(crate) fn logs_leaks_on_shutdown(&self) -> bool {
        self.debug.log_leaks_on_shutdown
    }
}

impl<D: Device> Drop for Memory<D> {
    fn drop(&mut self) {
        if self.debug.log_leaks_on_shutdown {
            self.report_leaks(Level::Warn);
        }
    }
}

/// Keeps one small block, and a little of what is in use: nobody ends frames here, and memory that is idle must not wait
/// for a later call.
fn empty_blocks() -> EmptyBlockPolicy {
    let mut policy = EmptyBlockPolicy::default();
    policy.keeps_peak = false;
    policy
}

fn name_of<D: Device>(info: &AllocationInfo<D>) -> String {
    info.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default()
}

/// Returns a number for an allocation, as gpu-allocator gives its chunks numbers.
pub(crate) fn chunk_id(allocation: &Allocation) -> Option<NonZeroU64> {
    NonZeroU64::new(allocation.id().key().0.wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use allotment::device::simulated::{Profile, SimulatedGpu};
    use allotment::device::{MemoryDevice as _, MemoryProperties as P};

    use super::*;

    const LOCATIONS: [MemoryLocation; 4] = [
        MemoryLocation::Unknown,
        MemoryLocation::GpuOnly,
        MemoryLocation::CpuToGpu,
        MemoryLocation::GpuToCpu,
    ];

    /// The properties that gpu-allocator prefers and that it requires.
    fn wanted(location: MemoryLocation) -> [P; 2] {
        let mapped = P::HOST_VISIBLE | P::HOST_COHERENT;
        match location {
            MemoryLocation::Unknown => [P::empty(); 2],
            MemoryLocation::GpuOnly => [P::DEVICE_LOCAL; 2],
            MemoryLocation::CpuToGpu => [mapped | P::DEVICE_LOCAL, mapped],
            MemoryLocation::GpuToCpu => [mapped | P::HOST_CACHED, mapped],
        }
    }

    fn request(location: MemoryLocation, memory_types: MemoryTypeMask) -> Request<'static, ()> {
        let kind = ResourceKind::Buffer;
        Request { name: "one", size: 256, alignment: 16, memory_types, location, kind, dedicated: None }
    }

    #[test]
    fn a_location_has_the_properties_that_gpu_allocator_would_have_found() {
        // Memory that a request must name, which gpu-allocator takes where it comes first.
        let reserved = P::LAZILY_ALLOCATED
            | P::PROTECTED
            | P::DEVICE_COHERENT
            | P::DEVICE_READ_ONLY
            | P::DEVICE_WRITE_ONLY;
        for profile in Profile::all() {
            let name = profile.name;
            let memory = Memory::new(
                SimulatedGpu::new(profile),
                &AllocationSizes::default(),
                AllocatorDebugSettings::default(),
            );
            let memory = memory.unwrap();
            let types = memory.allocator.device().properties().memory_types.clone();
            for location in LOCATIONS {
                for mask in 1..1_u32 << types.len() {
                    let allowed = types.iter().enumerate().filter(|(index, _)| mask >> index & 1 != 0);
                    let allowed: Vec<_> = allowed.map(|(_, found)| found.properties).collect();
                    if allowed.iter().any(|has| has.intersects(reserved)) {
                        continue;
                    }
                    // Its rule: the first type that has what it prefers, else the first that has what it requires.
                    let finds = |wanted: P| allowed.iter().find(|has| has.contains(wanted)).copied();
                    let [preferred, required] = wanted(location);
                    let expected =
                        finds(preferred).map(|_| preferred).or_else(|| finds(required).map(|_| required));
                    let got = memory.allocate(request(location, MemoryTypeMask(mask)));
                    match (expected, got) {
                        (Some(expected), Ok((allocation, place))) => {
                            let has = types[place.memory_type.get()].properties;
                            assert!(mask >> place.memory_type.get() & 1 != 0);
                            assert!(has.contains(expected), "{location:?} of {mask:#b} on {name}: {has}");
                            memory.free(Some(allocation)).unwrap();
                        }
                        (None, Err(AllocationError::NoCompatibleMemoryTypeFound)) => {}
                        (expected, got) => {
                            panic!(
                                "{location:?} of {mask:#b} on {name}: {expected:?}, {:?}",
                                got.map(|got| got.1)
                            )
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn whatever_the_cpu_can_reach_has_an_address_unless_the_driver_cannot_map() {
        let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
        let new = || {
            Memory::new(device.clone(), &AllocationSizes::default(), AllocatorDebugSettings::default())
                .unwrap()
        };
        let allocate = |memory: &Memory<SimulatedGpu>| {
            let (allocation, place) =
                memory.allocate(request(MemoryLocation::GpuOnly, MemoryTypeMask::ALL)).unwrap();
            memory.free(Some(allocation)).unwrap();
            place.mapped_ptr.is_some()
        };
        let memory = new();
        assert!(allocate(&memory) && allocate(&memory));
        assert_eq!(device.usage().map_calls, 1, "once for the block");
        device.set_address_space(0);
        assert!(!allocate(&new()));
    }

    #[test]
    fn memory_that_is_idle_is_given_back_without_a_later_call() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let memory =
            Memory::new(device, &AllocationSizes::default(), AllocatorDebugSettings::default()).unwrap();
        let live: Vec<_> = (0..64)
            .map(|_| {
                let mut large = request(MemoryLocation::GpuOnly, MemoryTypeMask::ALL);
                large.size = 3 << 20;
                memory.allocate(large).unwrap().0
            })
            .collect();
        assert!(memory.capacity() >= 192 << 20);
        live.into_iter().for_each(|allocation| memory.free(Some(allocation)).unwrap());
        assert!(memory.capacity() <= 4 << 20, "{} bytes", memory.capacity());
    }

    #[test]
    fn blocks_are_no_larger_than_was_said_for_the_device_and_for_the_host() {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let sizes = AllocationSizes::new(8 << 20, 4 << 20).with_max_device_memblock_size(24 << 20);
        let memory = Memory::new(device, &sizes, AllocatorDebugSettings::default()).unwrap();
        for (location, largest) in [(MemoryLocation::GpuOnly, 16 << 20), (MemoryLocation::GpuToCpu, 4 << 20)]
        {
            let live: Vec<_> = (0..600)
                .map(|_| {
                    let mut tile = request(location, MemoryTypeMask::ALL);
                    tile.size = 1 << 20;
                    memory.allocate(tile).unwrap().0
                })
                .collect();
            assert_eq!(memory.report().blocks.iter().map(|block| block.size).max(), Some(largest));
            live.into_iter().for_each(|allocation| memory.free(Some(allocation)).unwrap());
        }
    }
}
