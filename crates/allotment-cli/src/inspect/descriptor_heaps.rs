//! Descriptor heaps at a moment, as the JSON output has them.

use allotment_analyze::Timeline;
use allotment_analyze::tables::DescriptorHeapRow;
use serde::Serialize;

use super::json::MomentJson;

/// A descriptor heap in the JSON output.
#[derive(Serialize)]
pub(super) struct DescriptorHeapJson<'a> {
    name: &'a str,
    kind: String,
    capacity: u32,
    allocated: u32,
    ranges: u32,
    longest_free: u32,
    fragmentation: f64,
    peak: PeakJson,
}

#[derive(Serialize)]
struct PeakJson {
    allocated: u64,
    at: Option<MomentJson>,
}

impl<'a> DescriptorHeapJson<'a> {
    pub(super) fn new(timeline: &Timeline<'_>, heap: &'a DescriptorHeapRow) -> Self {
        let (is, (allocated, at)) = (&heap.occupancy, heap.peak);
        Self {
            name: &heap.name,
            kind: heap.heap.kind.to_string(),
            capacity: is.capacity,
            allocated: is.allocated,
            ranges: is.ranges,
            longest_free: is.longest_free,
            fragmentation: is.fragmentation(),
            peak: PeakJson { allocated, at: MomentJson::of(timeline, at) },
        }
    }
}
