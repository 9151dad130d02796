//! The cursor against applying the events one after another.

use allotment_trace::recording::{BlockId, Event, Recording, State};
use proptest::prelude::*;

use super::generated::{Has, record, recordings};
use crate::{BlockBytes, Cursor, Peaks, Scope, Timeline};

/// The state after each number of events, and the numbers of contradictions.
fn forwards(recording: &Recording) -> (Vec<State>, Vec<u64>) {
    let mut state = State::default();
    let (mut states, mut wrong) = (vec![state.clone()], Vec::new());
    for event in &recording.events {
        if let Err(error) = state.apply(event) {
            wrong.push(error.event);
        }
        states.push(state.clone());
    }
    (states, wrong)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn at_every_event_forwards_backwards_and_after_a_seek_the_state_is_that_of_the_events_applied(
        recording in recordings(Has { aliasing: true, contradictions: true }, 250),
        checkpoints in 1usize..60,
        seeks in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        let (states, wrong) = forwards(&recording);
        let timeline = Timeline::with_checkpoints(&recording, checkpoints);
        prop_assert_eq!(timeline.contradictions().iter().map(|at| at.event).collect::<Vec<_>>(), wrong);
        let mut cursor = Cursor::new(&timeline);
        for state in &states {
            prop_assert_eq!(&cursor.state(), state);
            prop_assert_eq!(cursor.allocation_count(), state.allocations.len());
            cursor.step();
        }
        for state in states.iter().rev() {
            prop_assert_eq!(&cursor.state(), state);
            prop_assert_eq!(cursor.allocations().count(), state.allocations.len());
            cursor.step_back();
        }
        for seek in seeks {
            let position = seek.index(states.len());
            cursor.seek(position as u64);
            prop_assert_eq!(&cursor.state(), &states[position]);
        }
    }

    #[test]
    fn blocks_that_did_not_change_between_two_positions_are_the_same(
        recording in recordings(Has { aliasing: true, contradictions: true }, 250),
        positions in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 30),
    ) {
        let timeline = Timeline::new(&recording);
        for (one, other) in positions {
            let [one, other] = [one, other].map(|at| at.index(recording.events.len() + 1) as u64);
            let between = one.min(other)..one.max(other);
            let Some(changed) = timeline.blocks_changed(one, other, u32::MAX) else {
                let lost = recording.events[between.start as usize..between.end as usize].iter();
                prop_assert!(lost.into_iter().any(|event| matches!(event, Event::Lost)));
                continue;
            };
            let (before, after) = (Cursor::at(&timeline, one), Cursor::at(&timeline, other));
            for block in before.blocks().into_iter().chain(after.blocks()) {
                if changed.contains(&block) {
                    continue;
                }
                prop_assert_eq!(before.placed(block), after.placed(block));
                let size = |at| (timeline.block_exists(block, at), timeline.block_size_at(block, at));
                prop_assert_eq!(size(one), size(other));
            }
        }
    }

    #[test]
    fn a_block_is_aliased_exactly_if_two_of_its_allocations_overlap_at_some_event(
        recording in recordings(Has { aliasing: true, contradictions: false }, 120),
    ) {
        let timeline = Timeline::new(&recording);
        let mut cursor = Cursor::new(&timeline);
        let mut aliased = std::collections::BTreeSet::new();
        loop {
            for block in cursor.blocks() {
                let placed = cursor.placed(block);
                let overlap = |a: usize, b: usize| {
                    let (a, b) = (placed[a], placed[b]);
                    a.offset.max(b.offset) < a.end().min(b.end())
                };
                if (0..placed.len()).any(|a| (0..a).any(|b| overlap(a, b))) {
                    aliased.insert(block);
                }
            }
            if cursor.step().is_none() {
                break;
            }
        }
        for block in timeline.blocks() {
            prop_assert_eq!(timeline.block_info(block).aliased, aliased.contains(&block));
        }
    }
}

#[test]
fn a_block_has_the_size_of_each_moment() {
    // Steps 67 allocate a block of 64 + 64 bytes; steps 0 allocate 64 and 40 bytes in it.
    let mut recording =
        record(Has { aliasing: false, contradictions: false }, &[(67, 0, 64), (0, 0, 48), (0, 0, 40)]);
    let block = BlockId(0);
    let resize = |size| Event::BlockResized { block, size };
    // The second would take the last byte of an allocation.
    recording.events.extend([resize(500), resize(103), resize(200)]);
    let timeline = Timeline::new(&recording);
    assert_eq!(timeline.contradictions().iter().map(|at| at.event).collect::<Vec<_>>(), [4]);
    let mut cursor = Cursor::new(&timeline);
    let mut sizes = Vec::new();
    loop {
        sizes.push(BlockBytes::of_scope(&cursor, Scope::All));
        if cursor.step().is_none() {
            break;
        }
    }
    assert_eq!(sizes.iter().map(|bytes| bytes.size).collect::<Vec<_>>(), [0, 128, 128, 128, 500, 500, 200]);
    for bytes in sizes.iter().rev() {
        assert_eq!(BlockBytes::of_scope(&cursor, Scope::All), *bytes);
        cursor.step_back();
    }
    let peak = Peaks::of(&timeline, Scope::All).blocks;
    assert_eq!((peak.bytes, peak.moment.event), (500, 4));
    assert_eq!(timeline.block_size_at(timeline.blocks().next().unwrap(), 5), 500);
}
