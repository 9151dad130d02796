//! The dump keeps to the schema, covers every block, and has the totals of the state.

use allotment_trace::export::{Export, Format};
use allotment_trace::recording::{Api, Live, Recording};
use proptest::prelude::*;
use serde_json::Value;

use crate::amount::scaled;
use crate::common::recordings::{Shape, recording};
use crate::schema::{self, number, pools};
use crate::{exported, state};

/// The dump, if it keeps to the schema.
fn dump(recording: &Recording) -> Value {
    schema::checked(&exported(recording, Format::VmaJson))
}

/// What a walk over a dump adds up to, as a viewer walks.
#[derive(Debug, Default, PartialEq)]
struct Walked {
    objects: u64,
    bytes: u64,
    allocations: u64,
    allocation_bytes: u64,
    padding: u64,
    free: u64,
}

fn walk(dump: &Value) -> Walked {
    let mut sum = Walked::default();
    for pool in pools(dump) {
        for block in pool["Blocks"].as_object().unwrap().values() {
            let (mut end, mut free, mut free_ranges, mut count) = (0, 0, 0, 0);
            for range in block["Suballocations"].as_array().unwrap() {
                assert_eq!(number(range, "Offset"), end, "ranges lie side by side");
                let size = number(range, "Size");
                end += size;
                match (range["Type"].as_str().unwrap(), range["Name"].as_str()) {
                    ("FREE", _) => (free, free_ranges) = (free + size, free_ranges + 1),
                    ("UNKNOWN", Some("padding")) => sum.padding += size,
                    _ => (count, sum.allocation_bytes) = (count + 1, sum.allocation_bytes + size),
                }
            }
            assert_eq!((end, free), (number(block, "TotalBytes"), number(block, "UnusedBytes")));
            assert_eq!((count, free_ranges), (number(block, "Allocations"), number(block, "UnusedRanges")));
            (sum.objects, sum.bytes, sum.free) = (sum.objects + 1, sum.bytes + end, sum.free + free);
            sum.allocations += count;
        }
        for dedicated in pool["DedicatedAllocations"].as_array().unwrap() {
            (sum.objects, sum.bytes) = (sum.objects + 1, sum.bytes + number(dedicated, "Size"));
            (sum.allocations, sum.allocation_bytes) =
                (sum.allocations + 1, sum.allocation_bytes + number(dedicated, "Size"));
        }
    }
    sum
}

fn check(recording: &Recording, aliasing: bool) {
    let (dump, state) = (dump(recording), state(recording));
    let (walked, total) = (walk(&dump), &dump["Total"]);
    let block_bytes: u64 = state.blocks.values().map(|block| block.size).sum();
    assert_eq!((walked.objects, walked.bytes), (state.blocks.len() as u64, block_bytes));
    assert_eq!((number(total, "BlockCount"), number(total, "BlockBytes")), (walked.objects, walked.bytes));
    assert_eq!(number(total, "AllocationCount"), walked.allocations);

    let occupied: u64 = state.allocations.values().map(|live| live.is.occupied).sum();
    if !aliasing {
        let requested: u64 = state.allocations.values().map(|live| live.is.requested).sum();
        assert_eq!(walked.allocations, state.allocations.len() as u64);
        assert_eq!(number(total, "AllocationBytes"), requested);
        assert_eq!(walked.free, block_bytes - occupied);
        assert_eq!(walked.allocation_bytes + walked.padding, occupied);
    }
    // Every name that is not lost in a group of many is in the dump.
    let text = dump.to_string();
    let named = |live: &&Live| !live.reservation && recording.text(live.is.name).is_some();
    for live in state.allocations.values().filter(named).filter(|_| !aliasing) {
        let name = Value::from(recording.text(live.is.name).unwrap()).to_string();
        assert!(text.contains(&format!("\"Name\":{name}")), "{name}");
    }
    for (index, budget) in &state.budgets {
        let heap = &dump["MemoryInfo"][format!("Heap {index}")]["Budget"];
        assert_eq!((number(heap, "BudgetBytes"), number(heap, "UsageBytes")), (budget.budget, budget.usage));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(64) as u32))]

    #[test]
    fn a_dump_keeps_to_the_schema_and_has_the_totals_of_the_state(seed: u64, aliasing: bool, lost: bool, d3d12: bool) {
        let api = if d3d12 { Api::Direct3D12 } else { Api::Vulkan };
        check(&recording(seed, Shape { aliasing, lost, api, ..Shape::default() }), aliasing);
    }
}

#[test]
fn a_dump_of_the_first_events_is_that_of_the_recording_cut_there() {
    let whole = recording(3, Shape::default());
    for count in [0, 1, 50, whole.events.len() - 1, whole.events.len(), usize::MAX] {
        let mut cut = whole.clone();
        cut.events.truncate(count);
        let mut out = Vec::new();
        Export::of(&whole).up_to(count as u64).write(Format::VmaJson, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), exported(&cut, Format::VmaJson));
    }
}

#[test]
fn direct3d_12s_textures_have_a_type_that_its_viewer_knows() {
    let text = exported(&recording(5, Shape { api: Api::Direct3D12, ..Shape::default() }), Format::VmaJson);
    assert!(text.contains("\"API\":\"Direct3D 12\"") && text.contains("TEXTURE2D"));
    assert!(!text.contains("IMAGE_"));
}
