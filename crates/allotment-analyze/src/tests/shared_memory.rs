//! Resources that share allocations, against the state that the events lead to.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use allotment_trace::recording::{Event, State};
use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{SharedHistory, SharedMemory, Timeline};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn shared_memory_is_what_the_state_has_and_saves_the_bytes_that_several_cover(
        recording in recordings(Has { aliasing: true, contradictions: true }, 250),
    ) {
        let timeline = Timeline::new(&recording);
        let mut state = State::default();
        for position in 0..=timeline.end() {
            let all = SharedMemory::all_at(&timeline, position);
            prop_assert_eq!(all.len(), state.memories.len());
            for shared in &all {
                let live = timeline.allocation_at(shared.allocation, position).expect("its resources keep it");
                prop_assert_eq!(shared.size, live.is.requested);
                let found: BTreeSet<_> = shared.resources.iter().map(|(_, is)| (is.offset, is.resource)).collect();
                prop_assert_eq!(&found, &state.memories[&live.is.allocation]);
                let mut depths = vec![0_u64; shared.size as usize];
                for &(resource, is) in &shared.resources {
                    prop_assert_eq!(is, state.bound[&is.resource].is);
                    // An event counts from the position after it.
                    let is_in = |&(from, to): &(u64, u64)| from < position && position <= to;
                    prop_assert_eq!(timeline.active_spans(resource).iter().any(is_in), is.active);
                    depths[is.offset as usize..][..is.size as usize].iter_mut().for_each(|depth| *depth += 1);
                }
                let covered = depths.iter().filter(|&&depth| depth > 0).count() as u64;
                prop_assert_eq!(shared.covered_bytes, covered);
                prop_assert_eq!(shared.saved_bytes(), depths.iter().sum::<u64>() - covered);
            }
            if let Some(event) = recording.events.get(position as usize) {
                _ = state.apply(event);
            }
        }
    }

    #[test]
    fn the_history_of_shared_memory_is_what_was_seen_at_each_moment(
        recording in recordings(Has { aliasing: true, contradictions: true }, 250),
    ) {
        let timeline = Timeline::new(&recording);
        let mut seen: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for position in 0..=timeline.end() {
            for shared in SharedMemory::all_at(&timeline, position) {
                let peak = seen.entry(shared.allocation).or_default();
                if shared.resource_bytes > peak.0 {
                    *peak = (shared.resource_bytes, position);
                }
            }
        }
        let all = SharedHistory::all(&timeline);
        prop_assert!(all.is_sorted_by_key(|of| Reverse(of.peak_bytes)));
        prop_assert_eq!(all.len(), timeline.shared_allocations().len());
        let (mut activated, mut counted) = (0, 0);
        for of in &all {
            prop_assert_eq!((of.peak_bytes, of.peak_at), seen[&of.allocation]);
            prop_assert_eq!(of.size, timeline.requested(of.allocation));
            let resources: Vec<_> = timeline.resources_of(of.allocation).collect();
            let bytes = resources.iter().map(|&one| timeline.resource_at(one, 0).size);
            prop_assert_eq!((of.resources, of.total_bytes), (resources.len() as u64, bytes.sum()));
            let is_active = |&one: &_| !timeline.active_spans(one).is_empty();
            prop_assert_eq!(of.has_active, resources.iter().any(is_active));
            counted += of.activations;
        }
        let mut state = State::default();
        for event in &recording.events {
            let active = |state: &State, key| state.bound.get(&key).is_some_and(|bound| bound.is.active);
            let before = match event {
                Event::Activated { resource } => !active(&state, *resource),
                _ => false,
            };
            if state.apply(event).is_ok() && before {
                activated += 1;
            }
        }
        prop_assert_eq!(counted, activated);
    }
}
