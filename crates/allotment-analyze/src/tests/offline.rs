//! Plans with all lifetimes known, of generated recordings.

use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{OfflineMemory, Timeline};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_plan_that_is_wanted_no_more_ends_at_the_next_call_and_is_a_plan(
        recording in recordings(Has { aliasing: true, contradictions: false }, 250),
        calls_until in 0_u64..40,
    ) {
        let timeline = Timeline::new(&recording);
        let memories = OfflineMemory::of(&timeline).expect("the sizes are small");
        let mut calls = 0;
        let stop = || {
            calls += 1;
            calls > calls_until
        };
        let plans = OfflineMemory::plan_all_until(&memories, stop);
        prop_assert!(calls <= calls_until + 1, "{calls} calls");
        prop_assert_eq!(plans.len(), memories.len());
        for (memory, plan) in memories.iter().zip(&plans) {
            prop_assert_eq!(plan.not_placed().count(), 0);
            plan.check(&memory.problem).expect("nothing overlaps");
        }
        let whole = OfflineMemory::plan_all(&memories);
        let peaks = whole.iter().zip(&plans).map(|(whole, early)| (whole.peak(), early.peak()));
        for (whole, early) in peaks {
            prop_assert!(whole <= early, "{whole} after all calls, {early} after {calls_until}");
        }
    }
}
