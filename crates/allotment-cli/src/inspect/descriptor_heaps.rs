//! Descriptor heaps at a moment: how full each is, and the longest table that it can still give.

use allotment_analyze::{Cursor, DescriptorHistory, DescriptorOccupancy};
use allotment_trace::recording::Moment;
use serde::Serialize;

use super::json::MomentJson;
use super::table::{Align, Table, name_or_none};
use crate::units::{count, percent};

/// A descriptor heap that exists at the moment.
pub(super) struct DescriptorHeap {
    /// Empty where the program gave none.
    name: String,
    kind: String,
    occupancy: DescriptorOccupancy,
    /// The most slots that were allocated at once in the whole recording, and when.
    peak: (u64, Moment),
}

impl DescriptorHeap {
    /// Returns the descriptor heaps where a cursor is, in the order in which they were created. `None` where the
    /// recording has none at any moment.
    pub(super) fn all(cursor: &Cursor<'_, '_>) -> Option<Vec<Self>> {
        let timeline = cursor.timeline();
        let heaps = timeline.descriptor_heaps();
        if heaps.len() == 0 {
            return None;
        }
        let at_moment = heaps.filter_map(|index| {
            let (_, heap) = timeline.descriptor_heap_at(index, cursor.position())?;
            Some(Self {
                name: timeline.recording().text(heap.name).unwrap_or("").to_owned(),
                kind: heap.kind.to_string(),
                occupancy: DescriptorOccupancy::of(cursor.moment(), heap.capacity, &heap.ranges),
                // The peak needs no samples between the first event and the last.
                peak: DescriptorHistory::of(timeline, index, 1).peak,
            })
        });
        Some(at_moment.collect())
    }
}

pub(super) fn print(heaps: &[DescriptorHeap]) {
    let mut columns = ["Descriptor heap", "Type"].map(|title| (title, Align::Left)).to_vec();
    let titles =
        ["Slots", "Allocated", "", "Ranges", "Longest free run", "Fragmentation", "Peak", "in frame"];
    columns.extend(titles.map(|title| (title, Align::Right)));
    let mut table = Table::new(&columns);
    for heap in heaps {
        let (is, (peak, at)) = (&heap.occupancy, heap.peak);
        let [capacity, allocated, ranges, longest] =
            [is.capacity, is.allocated, is.ranges, is.longest_free].map(u64::from);
        table.row([
            name_or_none(&heap.name),
            heap.kind.clone(),
            count(capacity),
            count(allocated),
            percent(allocated, capacity),
            count(ranges),
            count(longest),
            format!("{:.3}", is.fragmentation()),
            count(peak),
            count(at.frame),
        ]);
    }
    table.print();
}

/// A descriptor heap in the JSON output.
#[derive(Serialize)]
pub(super) struct DescriptorHeapJson<'a> {
    name: &'a str,
    kind: &'a str,
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
    at: MomentJson,
}

impl<'a> From<&'a DescriptorHeap> for DescriptorHeapJson<'a> {
    fn from(heap: &'a DescriptorHeap) -> Self {
        let (is, (allocated, at)) = (&heap.occupancy, heap.peak);
        Self {
            name: &heap.name,
            kind: &heap.kind,
            capacity: is.capacity,
            allocated: is.allocated,
            ranges: is.ranges,
            longest_free: is.longest_free,
            fragmentation: is.fragmentation(),
            peak: PeakJson { allocated, at: at.into() },
        }
    }
}
