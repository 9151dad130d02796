//! A simulated GPU like the device of a recording.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{MemoryHeap, MemoryHeapIndex, MemoryProperties, MemoryType};
use allotment::{Alignment, MemoryUsage};
use allotment_trace::recording::{Event, Recording};

/// What a heap holds whose size the recording does not say.
const UNKNOWN_HEAP: u64 = 1 << 40;

/// The most memory objects. A wrong recording may ask for any number, and each takes two mappings of this process, which
/// an operating system limits to some 65,000.
const MOST_OBJECTS: u32 = 16 << 10;

/// Creates a simulated GPU with the heaps, memory types and limits of a recording.
pub(super) fn device_of(recording: &Recording) -> SimulatedGpu {
    let header = &recording.header;
    // Any profile: all of it that matters here is replaced.
    let mut profile = Profile::all().swap_remove(0);
    let heap = |heap: &allotment_trace::recording::Heap| MemoryHeap {
        size: if heap.size == 0 { UNKNOWN_HEAP } else { heap.size },
        device_local: heap.device_local,
    };
    profile.heaps = header.heaps.iter().map(heap).collect();
    let memory_type = |memory_type: &allotment_trace::recording::MemoryType| MemoryType {
        heap: MemoryHeapIndex(memory_type.heap),
        properties: MemoryProperties::from_bits_truncate(memory_type.properties),
    };
    profile.memory_types = header.memory_types.iter().map(memory_type).collect();
    if header.memory_types.is_empty() {
        // The file of another tool, which says nothing of the device. Its blocks name types all the same.
        let types = 1 + last_type(recording);
        profile.heaps = vec![MemoryHeap { size: UNKNOWN_HEAP, device_local: true }];
        let properties = MemoryProperties::DEVICE_LOCAL;
        profile.memory_types = vec![MemoryType { heap: MemoryHeapIndex(0), properties }; types];
    }
    let alignment = |bytes| Alignment::new(bytes).unwrap_or(Alignment::ONE);
    profile.limits.buffer_image_granularity = alignment(header.buffer_image_granularity);
    profile.limits.non_coherent_atom_size = alignment(header.non_coherent_atom_size);
    profile.limits.max_allocation_size = u64::MAX;
    profile.limits.max_allocation_count = match header.max_memory_objects {
        0 => MOST_OBJECTS,
        known => known.min(MOST_OBJECTS),
    };
    SimulatedGpu::new(profile)
}

fn last_type(recording: &Recording) -> usize {
    let types = recording.events.iter().filter_map(|event| match event {
        Event::BlockAllocated { memory_type, .. } => Some(memory_type.get()),
        _ => None,
    });
    // A wrong file may name any; 32 is the most that an API has.
    types.max().unwrap_or(0).min(31)
}

/// Returns the usage whose requests use memory with these properties, for a request whose own usage is not known, or
/// would not use the memory type that it got.
pub(super) fn usage_for(properties: MemoryProperties) -> MemoryUsage {
    let has = |wanted| properties.contains(wanted);
    match (has(MemoryProperties::HOST_VISIBLE), has(MemoryProperties::DEVICE_LOCAL)) {
        (false, _) => MemoryUsage::GpuOnly,
        (true, true) => MemoryUsage::DeviceUpload,
        (true, false) if has(MemoryProperties::HOST_CACHED) => MemoryUsage::Readback,
        (true, false) => MemoryUsage::Upload,
    }
}
