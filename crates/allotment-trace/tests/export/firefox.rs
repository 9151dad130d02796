//! Profiles, parsed: every table is rectangular, every index leads somewhere, and bytes are those of the state.

use std::collections::HashMap;

use allotment_trace::export::Format;
use allotment_trace::recording::{Event, Live, Recording};
use proptest::prelude::*;
use serde_json::Value;

use crate::amount::scaled;
use crate::common::recordings::{Shape, recording};
use crate::{exported, state};

fn profile(recording: &Recording) -> Value {
    serde_json::from_str(&exported(recording, Format::FirefoxJson)).unwrap()
}

fn column<'a>(table: &'a Value, key: &str) -> &'a Vec<Value> {
    table[key].as_array().unwrap_or_else(|| panic!("no column {key}"))
}

/// Checks that all columns of a table have as many rows as it says.
fn check_table(table: &Value) {
    let length = table["length"].as_u64().unwrap() as usize;
    for (key, column) in table.as_object().unwrap() {
        if let Value::Array(column) = column {
            assert_eq!(column.len(), length, "{key}");
        }
    }
}

fn numbers(table: &Value, key: &str) -> Vec<i64> {
    column(table, key).iter().map(|value| value.as_i64().unwrap()).collect()
}

/// The names of the functions of a stack, from its root.
fn stack(profile: &Value, index: usize) -> Vec<String> {
    let shared = &profile["shared"];
    let (mut names, mut next) = (Vec::new(), Some(index));
    while let Some(index) = next {
        let frame = shared["stackTable"]["frame"][index].as_u64().unwrap() as usize;
        let func = shared["frameTable"]["func"][frame].as_u64().unwrap() as usize;
        let name = shared["funcTable"]["name"][func].as_u64().unwrap() as usize;
        names.push(shared["stringArray"][name].as_str().unwrap().to_owned());
        let prefix = shared["stackTable"]["prefix"][index].as_u64().map(|prefix| prefix as usize);
        assert!(prefix.is_none_or(|prefix| prefix < index), "parents come first");
        next = prefix;
    }
    names.reverse();
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(48) as u32))]

    #[test]
    fn a_profile_has_the_live_bytes_of_the_state_by_call_site(seed: u64, aliasing: bool, lost: bool) {
        let recording = recording(seed, Shape { aliasing, lost, ..Shape::default() });
        let (profile, state) = (profile(&recording), state(&recording));
        let (shared, thread) = (&profile["shared"], &profile["threads"][0]);
        for table in ["sources", "funcTable", "frameTable", "stackTable", "resourceTable", "nativeSymbols"] {
            check_table(&shared[table]);
        }
        for table in ["samples", "nativeAllocations", "markers"] {
            check_table(&thread[table]);
        }

        // What was allocated and not freed, by its number, and then by call site and name.
        let samples = &thread["nativeAllocations"];
        let (weights, stacks) = (numbers(samples, "weight"), numbers(samples, "stack"));
        let mut live: HashMap<i64, (i64, i64)> = HashMap::new();
        for ((number, weight), stack) in numbers(samples, "memoryAddress").into_iter().zip(weights).zip(stacks) {
            if weight > 0 {
                prop_assert!(live.insert(number, (weight, stack)).is_none());
            } else {
                prop_assert_eq!(live.remove(&number), Some((-weight, stack)));
            }
        }
        let mut sums: HashMap<String, i64> = HashMap::new();
        for (weight, index) in live.into_values() {
            let names = stack(&profile, index as usize);
            let site = &names[names.len() - 2];
            prop_assert!(names.len() == 2 || site.starts_with(&names[0]));
            *sums.entry(site.clone()).or_default() += weight;
        }
        let mut expected: HashMap<String, i64> = HashMap::new();
        let own = || state.allocations.values().filter(|live| !live.reservation);
        for live in own() {
            let site = recording.text(live.call_site).unwrap_or("no call site");
            *expected.entry(site.to_owned()).or_default() += live.is.requested as i64;
        }
        prop_assert_eq!(sums, expected);

        let times: Vec<f64> = column(samples, "time").iter().map(|time| time.as_f64().unwrap()).collect();
        prop_assert!(times.is_sorted());

        for counter in profile["counters"].as_array().unwrap() {
            check_table(&counter["samples"]);
            let name = counter["name"].as_str().unwrap();
            let of_heap = |memory_type: usize| {
                name.starts_with(&format!("heap {}:", recording.header.memory_types[memory_type].heap))
            };
            let sum: i64 = numbers(&counter["samples"], "count").into_iter().sum();
            let expected: u64 = if name.ends_with("blocks") {
                let blocks = state.blocks.values().filter(|block| of_heap(block.memory_type.get()));
                blocks.map(|block| block.size).sum()
            } else {
                let memory_type = |live: &&Live| of_heap(state.blocks[&live.is.block].memory_type.get());
                own().filter(memory_type).map(|live| live.is.requested).sum()
            };
            prop_assert_eq!(sum, expected as i64, "{}", name);
        }

        let frames = recording.events.iter().filter(|event| matches!(event, Event::FrameEnd { .. })).count();
        let markers = &thread["markers"];
        let kinds = column(markers, "data").iter().filter(|data| data["type"] == "frame").count();
        prop_assert_eq!(kinds, frames);
        for (name, data) in column(markers, "name").iter().zip(column(markers, "data")) {
            prop_assert_eq!(&shared["stringArray"][name.as_u64().unwrap() as usize], &data["type"]);
        }
    }
}

#[test]
fn whole_stacks_are_the_call_tree_of_the_profile() {
    let path = format!("{}/data/snapshot-calls.pickle", env!("CARGO_MANIFEST_DIR"));
    let recording = allotment_trace::import::open(path).unwrap();
    let profile = profile(&recording);
    for table in ["funcTable", "frameTable", "stackTable"] {
        check_table(&profile["shared"][table]);
    }
    let samples = &profile["threads"][0]["nativeAllocations"];
    let stacks: Vec<_> =
        numbers(samples, "stack").into_iter().map(|at| stack(&profile, at as usize)).collect();
    let depths: Vec<_> = stacks.iter().map(Vec::len).collect();
    assert_eq!(depths, [14, 14, 9, 3], "the calls, and the name");
    assert_eq!(stacks[0][..3], ["_start", "<module> (train.py:28)", "_PyEval_EvalFrameDefault"]);
    assert_eq!(stacks[0][12..], ["torch::unwind::unwind()", "linear"]);
    assert!(stacks[1][4].starts_with("torch::autograd::generated::BmmBackward0::apply"), "{:?}", stacks[1]);
    // Nothing is freed: all weights are sizes.
    assert_eq!(numbers(samples, "weight"), [1, 2, 3, 4].map(|size| size << 16));
}
