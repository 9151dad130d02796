//! What groups needed, against looking at each moment.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{Cursor, Grouping, Growth, Need, Status, Timeline};

/// The most bytes of each group, and of all, over all moments.
fn naive(timeline: &Timeline<'_>, grouping: Grouping) -> (BTreeMap<String, u64>, u64) {
    let mut cursor = Cursor::new(timeline);
    let (mut most, mut all) = (BTreeMap::new(), 0);
    while cursor.step().is_some() {
        let mut now = BTreeMap::<&str, u64>::new();
        for row in cursor.allocations() {
            // What will be a reservation is none of the program's.
            if timeline.status_at(row, timeline.end()) != Status::Reserved {
                *now.entry(grouping.of(timeline, row)).or_default() += timeline.requested(row);
            }
        }
        all = all.max(now.values().sum());
        for (group, bytes) in now {
            let most = most.entry(group.to_owned()).or_insert(0);
            *most = bytes.max(*most);
        }
    }
    (most, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn groups_need_what_looking_at_every_moment_shows(
        old in recordings(Has { aliasing: true, contradictions: true }, 200),
        new in recordings(Has { aliasing: true, contradictions: true }, 200),
    ) {
        let timelines = [Timeline::new(&old), Timeline::new(&new)];
        // Call sites of two recordings are paired; those of one are themselves.
        for grouping in [Grouping::Name, Grouping::NamePrefix, Grouping::Category] {
            let growth = Growth::between(&timelines[0], &timelines[1], grouping);
            for (side, timeline) in timelines.iter().enumerate() {
                let (groups, all) = naive(timeline, grouping);
                let need = |of: &crate::GroupGrowth| if side == 0 { of.old } else { of.new };
                let found: BTreeMap<_, _> = growth
                    .groups
                    .iter()
                    .filter_map(|group| Some((group.key.clone(), need(group)?.peak.bytes)))
                    .collect();
                prop_assert_eq!(found, groups);
                prop_assert_eq!(growth.all[side].peak.bytes, all);
                prop_assert_eq!(growth.all[side], Need::of(timeline));
            }
        }
        for timeline in &timelines {
            let growth = Growth::between(timeline, timeline, Grouping::CallSite);
            prop_assert!(growth.groups.iter().all(|group| group.old == group.new && group.grown() == 0));
        }
    }
}
