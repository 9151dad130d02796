//! What takes the place of memory types and memory heaps in Direct3D 12.

use allotment::device::MemoryProperties;

use crate::recording::Heap;

const HOST: MemoryProperties = MemoryProperties::HOST_VISIBLE.union(MemoryProperties::HOST_COHERENT);

/// The heap types, in the order that D3D12MA has, and their properties in words of memory types.
pub(super) const HEAP_TYPES: [(&str, MemoryProperties); 5] = [
    ("DEFAULT", MemoryProperties::DEVICE_LOCAL),
    ("UPLOAD", HOST.union(MemoryProperties::DEVICE_READ_ONLY)),
    ("READBACK", HOST.union(MemoryProperties::HOST_CACHED).union(MemoryProperties::DEVICE_WRITE_ONLY)),
    (CUSTOM, MemoryProperties::empty()),
    ("GPU_UPLOAD", HOST.union(MemoryProperties::DEVICE_LOCAL)),
];

/// The heap type that is in both heaps.
pub(super) const CUSTOM: &str = "CUSTOM";

/// Returns the memory segment groups L0 and L1 of an adapter, by the bytes of the GPU's memory and of the system's. An
/// integrated GPU has only L0, for all memory.
pub(super) fn heaps_of(video: u64, shared: u64, uma: bool) -> Vec<Heap> {
    let l0 = Heap { size: if uma { video.saturating_add(shared) } else { shared }, device_local: uma };
    if uma { vec![l0] } else { vec![l0, Heap { size: video, device_local: true }] }
}
