//! Lifetime rules, differences, lanes and pixels against naive versions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::generated::{Has, recordings};
use super::metrics::bytes_of;
use crate::{
    AllocationGroups, AllocationIndex, Class, Cursor, Difference, Grouping, Lanes, LifetimeEnd, LifetimeRule,
    Status, Timeline, bytes_of_pixel, hit_test, pixel_runs, segments,
};

const ANY: Has = Has { aliasing: true, contradictions: true };

/// The allocations that exist after each number of events.
fn alive(timeline: &Timeline<'_>) -> Vec<BTreeSet<AllocationIndex>> {
    let mut cursor = Cursor::new(timeline);
    let mut alive = vec![BTreeSet::new()];
    while cursor.step().is_some() {
        alive.push(cursor.allocations().collect());
    }
    alive
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_lifetime_rule_finds_what_the_sets_of_existing_allocations_say(
        recording in recordings(ANY, 250),
        at in prop::collection::vec(any::<prop::sample::Index>(), 4),
    ) {
        let timeline = Timeline::new(&recording);
        let alive = alive(&timeline);
        let mut markers: Vec<usize> = at.iter().map(|at| at.index(alive.len())).collect();
        markers.sort_unstable();
        let [a, b, c, d] = [markers[0], markers[1], markers[2], markers[3]];
        let mut all: BTreeSet<_> = alive.iter().flatten().copied().collect();
        // Reservations are none of the program's allocations.
        all.retain(|&row| timeline.status_at(row, timeline.end()) != Status::Reserved);
        for rule in LifetimeRule::ALL {
            let found: Vec<_> = rule
                .query(&timeline, [a, b, c, d].map(|at| at as u64), LifetimeEnd::Freed)
                .collect();
            let naive: Vec<_> = all
                .iter()
                .filter_map(|row| {
                    let at = |position: usize| alive[position].contains(row);
                    // Whether it was allocated by a position, and whether it was freed by one.
                    let born = |by: usize| alive[..=by].iter().any(|set| set.contains(row));
                    let dead = |by: usize| born(by) && !at(by);
                    let growth = !born(a) && at(b);
                    let decline = at(a) && dead(b);
                    let matches = match rule {
                        LifetimeRule::Active => at(a),
                        LifetimeRule::Before => dead(a),
                        LifetimeRule::After => !born(a),
                        LifetimeRule::Decline => decline,
                        LifetimeRule::Growth => growth,
                        LifetimeRule::GrowthAndDecline => growth || decline,
                        LifetimeRule::Frees => !dead(a) && dead(b),
                        LifetimeRule::Allocations => !born(a) && born(b),
                        LifetimeRule::ShortLiving => !born(a) && dead(b),
                        LifetimeRule::LongLiving => at(a) && at(b),
                        LifetimeRule::Leaks => !born(a) && born(b) && at(c),
                        LifetimeRule::LimitedLifetime => !born(a) && at(b) && dead(c),
                        LifetimeRule::DeclineOfLongLiving => at(a) && at(b) && dead(c),
                        LifetimeRule::SpecificLifetime => !born(a) && born(b) && at(c) && dead(d),
                    };
                    let negative = rule == LifetimeRule::GrowthAndDecline && decline;
                    matches.then_some((*row, if negative { -1 } else { 1 }))
                })
                .collect();
            prop_assert_eq!(found, naive, "{:?}", rule);
        }
    }

    #[test]
    fn groups_have_each_allocation_once_and_the_most_bytes_first(recording in recordings(ANY, 250)) {
        let timeline = Timeline::new(&recording);
        for grouping in [Grouping::CallSite, Grouping::Name, Grouping::NamePrefix, Grouping::Category] {
            let all = AllocationGroups::of(&timeline, grouping, timeline.allocations());
            let mut naive: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
            for row in timeline.allocations() {
                let sum = naive.entry(grouping.of(&timeline, row)).or_default();
                *sum = (sum.0 + 1, sum.1 + timeline.requested(row));
            }
            prop_assert_eq!(all.count, timeline.allocation_count() as u64);
            prop_assert_eq!(all.bytes, naive.values().map(|sum| sum.1).sum::<u64>());
            let found: BTreeMap<_, _> =
                all.groups.iter().map(|group| (&*group.key, (group.count, group.bytes))).collect();
            prop_assert_eq!(found, naive);
            prop_assert!(all.groups.is_sorted_by(|one, next| one.bytes >= next.bytes));
            for group in &all.groups {
                let mut names: BTreeMap<&str, u64> = BTreeMap::new();
                for row in timeline.allocations().filter(|&row| grouping.of(&timeline, row) == group.key) {
                    *names.entry(recording.text(timeline.texts(row).name).unwrap_or("")).or_default() += 1;
                }
                names.remove("");
                prop_assert_eq!(group.name.others, (names.len() as u64).saturating_sub(1));
                prop_assert_eq!(names.get(&*group.name.name), names.values().max());
            }
            prop_assert!(all.groups.iter().all(|group| group.first <= group.last && group.frames <= group.count));
        }
    }

    #[test]
    fn a_difference_of_two_moments_is_the_difference_of_two_sets(
        recording in recordings(ANY, 300),
        at in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let timeline = Timeline::new(&recording);
        let positions = recording.events.len() + 1;
        let a = Cursor::at(&timeline, at.0.index(positions) as u64);
        let b = Cursor::at(&timeline, at.1.index(positions) as u64);
        let rows = |cursor: &Cursor<'_, '_>| -> BTreeSet<_> {
            let used = |row: &_| timeline.status_at(*row, cursor.position()) != Status::Reserved;
            cursor.allocations().filter(used).collect()
        };
        let (in_a, in_b) = (rows(&a), rows(&b));
        let difference = Difference::between(&a, &b, Grouping::Name);
        let sum = |rows: &mut dyn Iterator<Item = &AllocationIndex>| {
            rows.fold((0, 0), |sum, row| (sum.0 + 1, sum.1 + timeline.requested(*row)))
        };
        let both: BTreeSet<_> = in_a.intersection(&in_b).copied().collect();
        prop_assert_eq!((difference.a.count, difference.a.bytes), sum(&mut in_a.iter()));
        prop_assert_eq!((difference.b.count, difference.b.bytes), sum(&mut in_b.iter()));
        prop_assert_eq!((difference.both.count, difference.both.bytes), sum(&mut both.iter()));
        prop_assert_eq!((difference.only_a.count, difference.only_a.bytes), sum(&mut in_a.difference(&in_b)));
        prop_assert_eq!((difference.only_b.count, difference.only_b.bytes), sum(&mut in_b.difference(&in_a)));
        let place = |row, cursor: &Cursor<'_, '_>| {
            let place = timeline.place_at(row, cursor.position());
            (timeline.block_info(place.block).id, place.offset)
        };
        let mut moved = both.iter().filter(|&&row| place(row, &a) != place(row, &b));
        prop_assert_eq!((difference.moved.count, difference.moved.bytes), sum(&mut moved));
        prop_assert_eq!(difference.resized, 0);
        let groups: i128 = difference.groups.iter().map(|group| group.grown()).sum();
        prop_assert_eq!(groups, difference.grown());
    }

    #[test]
    fn a_recording_and_its_copy_do_not_differ_and_two_recordings_differ_by_their_sums(
        one in recordings(ANY, 200),
        other in recordings(ANY, 200),
    ) {
        let (timelines, copy) = ([Timeline::new(&one), Timeline::new(&other)], one.clone());
        let copy = Timeline::new(&copy);
        let end = |timeline| Cursor::at(timeline, u64::MAX);
        let same = Difference::between(&end(&timelines[0]), &end(&copy), Grouping::Name);
        prop_assert_eq!((same.only_a.count, same.only_b.count, same.moved.count, same.resized), (0, 0, 0, 0));
        prop_assert_eq!(same.both, same.a);
        let two = Difference::between(&end(&timelines[0]), &end(&timelines[1]), Grouping::Name);
        prop_assert_eq!(two.only_a.count + two.both.count, two.a.count);
        prop_assert_eq!(two.only_b.count + two.both.count, two.b.count);
        let grown: i128 = two.allocations.iter().map(|pair| pair.grown).sum();
        prop_assert_eq!(grown, two.grown());
        // Of each name, category and call site both sides have as many as the side with fewer.
        let identities = |timeline: &Timeline<'_>, rows: &mut dyn Iterator<Item = AllocationIndex>| {
            let mut keys: Vec<_> = rows
                .map(|row| {
                    let texts = timeline.texts(row);
                    [texts.name, texts.category, texts.call_site]
                })
                .collect();
            keys.sort_unstable();
            keys
        };
        let only_a = identities(&timelines[0], &mut two.allocations.iter().filter(|pair| pair.b.is_none()).filter_map(|pair| pair.a));
        let only_b = identities(&timelines[1], &mut two.allocations.iter().filter(|pair| pair.a.is_none()).filter_map(|pair| pair.b));
        prop_assert!(only_a.iter().all(|key| only_b.binary_search(key).is_err()));
    }

    #[test]
    fn each_pixel_shows_what_matters_most_of_its_bytes_and_a_hit_names_what_it_shows(
        recording in recordings(ANY, 200),
        view in (0u64..1100, 0u64..1100),
        pixels in 1u32..300,
    ) {
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, timeline.end());
        let view = view.0.min(view.1)..view.0.max(view.1);
        for block in cursor.blocks() {
            let placed = cursor.placed(block);
            let size = timeline.block_size_at(block, cursor.position());
            let bytes = bytes_of(size, &placed);
            let runs = pixel_runs(&segments(size, &placed), view.clone(), pixels);
            let shown: Vec<_> =
                runs.iter().flat_map(|run| (run.first..run.first + run.count).map(|pixel| (pixel, run.class))).collect();
            prop_assert_eq!(shown.len(), if view.is_empty() { 0 } else { pixels as usize });
            let mut seen = view.start;
            for (&(pixel, class), expected) in shown.iter().zip(0..) {
                prop_assert_eq!(pixel, expected);
                let covered = bytes_of_pixel(view.clone(), pixels, pixel);
                prop_assert!(!covered.is_empty() && covered.start <= seen && covered.end <= view.end);
                seen = covered.end;
                let classes = covered.clone().filter_map(|byte| bytes.get(byte as usize)).map(|byte| byte.0);
                prop_assert_eq!(class, classes.max().unwrap_or(Class::Free));
                let hits = hit_test(&placed, covered.clone());
                prop_assert_eq!(hits.is_empty(), class == Class::Free);
                if let Some(first) = hits.first() {
                    let shows = first.ranges().into_iter().any(|(start, end, of)| {
                        of == class && start.max(covered.start) < end.min(covered.end)
                    });
                    prop_assert!(shows);
                }
                let naive = placed.iter().filter(|is| is.offset.max(covered.start) < is.end().min(covered.end));
                prop_assert_eq!(hits.len(), naive.count());
            }
            prop_assert!(view.is_empty() || seen == view.end);
        }
    }

    #[test]
    fn lanes_keep_overlapping_allocations_apart_and_are_as_few_as_overlap_at_one_byte(
        recording in recordings(Has { aliasing: true, contradictions: false }, 200),
    ) {
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, timeline.end());
        for block in cursor.blocks() {
            let placed = cursor.placed(block);
            let size = timeline.block_size_at(block, cursor.position());
            let lanes = Lanes::of(&placed);
            for a in 0..placed.len() {
                for b in 0..a {
                    let overlap = placed[a].offset.max(placed[b].offset) < placed[a].end().min(placed[b].end());
                    prop_assert!(!overlap || lanes.lane[a] != lanes.lane[b]);
                }
            }
            let depths: Vec<_> = bytes_of(size, &placed).iter().map(|byte| byte.1).collect();
            let most = depths.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(lanes.count, most.max(u32::from(!placed.is_empty())));
            prop_assert_eq!(lanes.aliased, depths.iter().filter(|&&depth| depth > 1).count() as u64);
            let saved = depths.iter().map(|&depth| u64::from(depth.saturating_sub(1))).sum::<u64>();
            prop_assert_eq!(lanes.saved, saved);
        }
    }
}
