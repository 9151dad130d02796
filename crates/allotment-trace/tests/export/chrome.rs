//! Trace events, parsed: slices are balanced, and counters end at the totals of the state.

use std::collections::{HashMap, HashSet};

use allotment::Alignment;
use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment_trace::export::Format;
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, Event, Placement, PoolId, Recording, Span,
    TextId, Usage, UsageTotals,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::amount::scaled;
use crate::common::recordings::{Shape, recording};
use crate::{exported, state};

fn events(recording: &Recording) -> Vec<Value> {
    let mut trace: Value = serde_json::from_str(&exported(recording, Format::ChromeJson)).unwrap();
    let Value::Array(events) = trace["traceEvents"].take() else { panic!("no events") };
    events
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_else(|| panic!("no text {key} in {event}"))
}

/// What the asynchronous slices are, after a check that they nest in each lane.
#[derive(Default)]
struct Slices {
    blocks: HashSet<String>,
    allocations: usize,
    requested: u64,
    alive: Vec<Value>,
    flows: usize,
}

fn slices(events: &[Value]) -> Slices {
    let mut found = Slices::default();
    let mut lanes: HashMap<(u64, &str), Vec<&Value>> = HashMap::new();
    let (mut outgoing, mut incoming) = (HashSet::new(), HashSet::new());
    for event in events.iter().filter(|event| matches!(text(event, "ph"), "b" | "e" | "n")) {
        let lane = (event["pid"].as_u64().unwrap(), event["id2"]["local"].as_str().unwrap());
        let open = lanes.entry(lane).or_default();
        match text(event, "ph") {
            "b" if open.is_empty() => {
                found.blocks.insert(format!("{} {}", lane.0, lane.1.split_once('.').unwrap().0));
                open.push(event);
            }
            "b" => {
                assert_eq!(open.len(), 1, "one allocation at a time in a lane: {event}");
                found.allocations += 1;
                found.requested += event["args"]["size"].as_u64().unwrap();
                open.push(event);
            }
            "n" => assert_eq!(open.len(), 2, "an instant is in an allocation's slice: {event}"),
            _ => {
                let begin = open.pop().unwrap_or_else(|| panic!("an end without a begin: {event}"));
                assert_eq!(begin["name"], event["name"]);
                assert!(begin["ts"].as_f64().unwrap() <= event["ts"].as_f64().unwrap());
                if event["args"]["alive at the end"] == true {
                    found.alive.push(begin["args"].clone());
                }
            }
        }
        if event["flow_out"] == true {
            assert!(outgoing.insert(text(event, "bind_id")));
        }
        if event["flow_in"] == true {
            assert!(incoming.insert(text(event, "bind_id")));
        }
    }
    assert!(lanes.values().all(Vec::is_empty), "all slices end");
    assert_eq!(outgoing, incoming);
    found.flows = incoming.len();
    found
}

fn totals(args: &Value) -> UsageTotals {
    let number = |key: &str| args[key].as_u64().unwrap();
    UsageTotals {
        used: number("used"),
        overhead: number("overhead"),
        pending: number("pending release"),
        reserved: number("reserved for moves"),
        free: number("free in blocks"),
        ..UsageTotals::default()
    }
}

/// The totals of a memory type, from the state alone.
fn naive(recording: &Recording, memory_type: u8) -> UsageTotals {
    let state = state(recording);
    let mut sum = UsageTotals::default();
    for block in state.blocks.values().filter(|block| block.memory_type.0 == memory_type) {
        (sum.blocks, sum.block_bytes) = (sum.blocks + 1, sum.block_bytes + block.size);
        // Byte by byte, in units of which all generated offsets without aliasing are multiples... of 1 with it.
        let mut taken = vec![false; block.size as usize];
        for (_, key) in &block.allocations {
            let live = &state.allocations[key];
            taken[live.is.offset as usize..][..live.is.occupied as usize].fill(true);
            sum.overhead += live.is.occupied - live.is.requested;
            if live.reservation {
                sum.reserved += live.is.requested;
                continue;
            }
            sum.allocations += 1;
            *(if live.free_requested.is_some() { &mut sum.pending } else { &mut sum.used }) +=
                live.is.requested;
        }
        sum.free += taken.iter().filter(|taken| !**taken).count() as u64;
    }
    sum
}

fn usage(recording: &Recording) -> Usage {
    let mut usage = Usage::default();
    recording.events.iter().for_each(|event| usage.apply(event).unwrap());
    usage
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(48) as u32))]

    #[test]
    fn usage_is_what_a_walk_over_every_byte_of_the_state_finds(seed: u64, aliasing: bool, lost: bool) {
        let recording = recording(seed, Shape { aliasing, lost, ..Shape::default() });
        let usage = usage(&recording);
        for (&index, totals) in usage.memory_types() {
            prop_assert_eq!(*totals, naive(&recording, index));
        }
        let blocks: Vec<BlockId> = usage.state().blocks.keys().copied().collect();
        let mut sum = UsageTotals::default();
        blocks.iter().for_each(|block| sum.add(&usage.block(*block)));
        prop_assert_eq!(sum, usage.total());
    }

    #[test]
    fn spans_cover_a_block_once(seed: u64, aliasing: bool) {
        let recording = recording(seed, Shape { aliasing, ..Shape::default() });
        let state = state(&recording);
        for block in state.blocks.values() {
            let spans: Vec<Span<'_>> = state.spans(block).collect();
            let mut end = 0;
            for span in &spans {
                prop_assert_eq!(span.offset, end);
                end += span.size;
            }
            prop_assert_eq!(end, block.size);
            prop_assert!(!spans.windows(2).any(|pair| pair[0].is_free() && pair[1].is_free()));
            let found: usize = spans.iter().map(|span| span.allocations.len()).sum();
            prop_assert_eq!(found, block.allocations.len());
            prop_assert!(aliasing || spans.iter().all(|span| span.allocations.len() < 2));
        }
    }

    #[test]
    fn slices_are_balanced_and_counters_end_at_the_totals_of_the_state(seed: u64, aliasing: bool, lost: bool) {
        let recording = recording(seed, Shape { aliasing, lost, ..Shape::default() });
        let (events, state, usage) = (events(&recording), state(&recording), usage(&recording));
        let slices = slices(&events);
        let count = |wanted: fn(&Event) -> bool| recording.events.iter().filter(|event| wanted(event)).count();
        let moves = count(|event| matches!(event, Event::Exchanged { .. }));
        prop_assert_eq!(slices.flows, moves);
        // A move begins two slices anew.
        let allocated = count(|event| matches!(event, Event::Allocated(_)));
        prop_assert_eq!(slices.allocations, allocated + 2 * moves);
        prop_assert_eq!(slices.alive.len(), state.allocations.len());
        let alive: u64 = slices.alive.iter().map(|args| args["size"].as_u64().unwrap()).sum();
        prop_assert_eq!(alive, state.allocations.values().map(|live| live.is.requested).sum::<u64>());

        let counts = |phase: &str, name: &str| {
            events.iter().filter(|event| text(event, "ph") == phase && text(event, "name").starts_with(name)).count()
        };
        prop_assert_eq!(counts("X", "frame "), count(|event| matches!(event, Event::FrameEnd { .. })));
        let instants = events.iter().filter(|event| text(event, "ph") == "i").count();
        let expected = count(|event| {
            matches!(event, Event::Mark { .. } | Event::Refused { .. } | Event::Stalled { .. } | Event::Lost)
        });
        prop_assert_eq!(instants, expected);

        let mut last: HashMap<&str, &Value> = HashMap::new();
        for event in events.iter().filter(|event| text(event, "ph") == "C") {
            last.insert(text(event, "name"), &event["args"]);
        }
        for (index, expected) in usage.memory_types() {
            let expected = UsageTotals { blocks: 0, block_bytes: 0, allocations: 0, ..*expected };
            prop_assert_eq!(totals(last[&*format!("memory type {index}")]), expected);
        }
        for (index, budget) in &state.budgets {
            let args = last[&*format!("heap {index} of the driver")];
            prop_assert_eq!(args["budget"].as_u64(), Some(budget.budget));
        }
        for (index, heap) in [(0_u64, 0_usize), (1, 1)] {
            let of_heap = |memory_type: u8| recording.header.memory_types[usize::from(memory_type)].heap as usize == heap;
            let blocks = || state.blocks.values().filter(|block| of_heap(block.memory_type.0));
            let free = |block| state.spans(block).filter(Span::is_free).map(|span| span.size).collect::<Vec<_>>();
            let sizes: Vec<u64> = blocks().flat_map(free).collect();
            if let (Some(largest), sum) = (sizes.iter().max(), sizes.iter().sum::<u64>()) {
                let args = last[&*format!("heap {index} fragmentation")];
                prop_assert_eq!(args["percent"].as_u64(), Some((sum - largest) * 100 / sum));
            }
        }
    }
}

#[test]
fn a_resource_that_shares_memory_is_a_track_with_slices_while_it_is_active() {
    let resource = |number: u64, active| BoundResource {
        resource: AllocationKey(100 + number),
        memory: AllocationKey(7),
        offset: 64 * number,
        size: 128,
        name: TextId(1 + number as u32),
        call_site: TextId::NONE,
        kind: ResourceKind::OptimalImage,
        active,
    };
    let [shadows, bloom] = [resource(0, true), resource(1, false)];
    let (resource, by) = (shadows.resource, bloom.resource);
    let mut recording = of_one_allocation(AllocationKey(7), 4096);
    recording.texts = ["shadows", "bloom", "blur"].map(String::from).into();
    recording.events.extend([
        Event::Bound(shadows),
        Event::Bound(bloom),
        Event::Displaced { resource, by },
        Event::Activated { resource: by },
        Event::Labelled { allocation: by, name: TextId(3), category: TextId::NONE, user_data: 0 },
        Event::Unbound { resource },
    ]);
    let events = events(&recording);
    let track = |number: u64| {
        let id = format!("resource {number}");
        let of_track = events.iter().filter(|event| event["id2"]["local"] == id.as_str());
        of_track.map(|event| format!("{} {}", text(event, "ph"), text(event, "name"))).collect::<Vec<_>>()
    };
    let memory = "in shared memory";
    assert_eq!(
        track(100),
        [&*format!("b shadows {memory}"), "b active", "e active", &*format!("e shadows {memory}")]
    );
    // The second one lives until the end.
    assert_eq!(
        track(101),
        [&*format!("b bloom {memory}"), "b active", "e active", &*format!("e bloom {memory}")]
    );
    // The slices of a track have one name; the last one is in the arguments.
    let last_names = events.iter().filter_map(|event| event["args"]["last name"].as_str());
    assert_eq!(last_names.collect::<Vec<_>>(), ["shadows", "blur"]);
}

/// A recording of a block with one allocation.
fn of_one_allocation(allocation: AllocationKey, size: u64) -> Recording {
    let (block, pool, memory_type) = (BlockId(0), PoolId(0), MemoryTypeIndex(0));
    let events = vec![
        Event::BlockAllocated { block, pool, memory_type, kind: BlockKind::Shared, size },
        Event::Allocated(Allocated {
            allocation,
            block,
            offset: 0,
            requested: size,
            occupied: size,
            user_data: 0,
            name: TextId::NONE,
            category: TextId::NONE,
            alignment: Alignment::ONE,
            usage: None,
            kind: ResourceKind::Unknown,
            placement: Placement::NewBlock,
            second_choice: false,
            movable: false,
        }),
    ];
    Recording { events, ..Recording::default() }
}

#[test]
fn times_are_those_of_the_recording_or_an_event_a_microsecond() {
    let end = |events: &[Value]| events.iter().filter_map(|event| event["ts"].as_f64()).fold(0.0, f64::max);
    let timed = recording(1, Shape::default());
    let nanoseconds = state(&timed).now.nanoseconds;
    assert!((end(&events(&timed)) - nanoseconds as f64 / 1000.0).abs() < 1e-6);
    let mut untimed = timed;
    untimed.events.retain(|event| !matches!(event, Event::Time { .. }));
    assert!((end(&events(&untimed)) - (untimed.events.len() - 1) as f64).abs() < 1e-6);
}

#[test]
fn a_name_cannot_end_the_script_that_a_trace_is_embedded_in() {
    let recording = recording(2, Shape { steps: 2000, ..Shape::default() });
    for format in Format::ALL.into_iter().filter(|format| format.extension() == "json") {
        let text = exported(&recording, format);
        assert!(!text.contains("</"), "{format}");
        assert!(text.contains("<\\/script>"), "{format}");
    }
}

#[test]
fn the_end_of_a_slice_says_which_calls_led_to_the_allocation() {
    let path = format!("{}/data/snapshot-calls.pickle", env!("CARGO_MANIFEST_DIR"));
    let recording = allotment_trace::import::open(path).unwrap();
    let text = exported(&recording, Format::ChromeJson);
    let expected = "\"called by\":\"addmm < linear torch/nn/functional.py:12 < forward train.py:9 < <module> train.py:28\"";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\"called by\":\"bmm < BmmBackward0\""));
}
