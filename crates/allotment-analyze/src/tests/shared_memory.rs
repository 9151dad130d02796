//! Resources that share allocations, against the state that the events lead to.

use std::collections::BTreeSet;

use allotment_trace::recording::State;
use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{SharedMemory, Timeline};

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
}
