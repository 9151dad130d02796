//! A dump that was exported and imported again has the same blocks and allocations.

use std::collections::BTreeMap;

use allotment_trace::export::Format;
use allotment_trace::import;
use allotment_trace::recording::{Recording, State};
use proptest::prelude::*;

use crate::amount::scaled;
use crate::common::recordings::{Shape, recording};
use crate::{exported, state};

/// The blocks of each memory type, by their sizes, as a dump has them: which ranges of them are of which allocation.
fn blocks(recording: &Recording, state: &State) -> BTreeMap<u8, Vec<(u64, Vec<Place>)>> {
    let mut found: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    for block in state.blocks.values() {
        let places = block.allocations.iter().map(|(_, key)| {
            let live = &state.allocations[key];
            let name = recording.text(live.is.name).filter(|_| !live.reservation);
            let name = name.map_or_else(String::new, str::to_owned);
            Place { offset: live.is.offset, occupied: live.is.occupied, user_data: live.is.user_data, name }
        });
        found.entry(block.memory_type.0).or_default().push((block.size, places.collect()));
    }
    found.values_mut().for_each(|blocks| blocks.sort());
    found
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    offset: u64,
    occupied: u64,
    user_data: u64,
    name: String,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(48) as u32))]

    #[test]
    fn a_dump_that_is_imported_again_has_the_same_blocks_and_allocations(seed: u64, lost: bool) {
        let recording = recording(seed, Shape { lost, ..Shape::default() });
        let imported = import::read(exported(&recording, Format::VmaJson).as_bytes()).unwrap();
        let (before, after) = (state(&recording), state(&imported));
        let mut expected = blocks(&recording, &before);
        let mut found = blocks(&imported, &after);
        // A reservation is imported as an allocation that says so.
        for place in found.values_mut().flatten().flat_map(|(_, places)| places) {
            if place.name == "reserved for a move" {
                place.name.clear();
            }
        }
        for blocks in found.values_mut().chain(expected.values_mut()) {
            blocks.sort();
        }
        prop_assert_eq!(found, expected);
        for (index, budget) in &before.budgets {
            prop_assert_eq!(after.budgets.get(index), Some(budget));
        }
    }
}
