//! Recordings that make no sense, played again.

use allotment::memory::AllocatorDesc;
use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{Timeline, recorded_settings, what_if};

proptest! {
    #[test]
    fn a_recording_that_contradicts_itself_is_played_without_a_panic_and_without_contradictions(
        recording in recordings(Has { aliasing: true, contradictions: true }, 300),
    ) {
        for settings in [recorded_settings(&recording), AllocatorDesc::default()] {
            let other = what_if(&recording, &settings).expect("the settings are the default ones");
            prop_assert!(other.at_the_same_place + other.refused <= other.requests);
            let timeline = Timeline::new(&other.recording);
            // What is copied as it is stays wrong: rings and descriptors.
            let of_memory = timeline.contradictions().iter().filter(|wrong| {
                !["ring", "descriptor"].iter().any(|other| wrong.reason.contains(other))
            });
            prop_assert_eq!(of_memory.count(), 0);
        }
    }
}
