//! Bytes, holes and leaks against counting byte by byte.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{
    BlockBytes, Class, Cursor, Grouping, Holes, Leaks, Placed, Scope, Timeline, name_prefix, segments,
};

/// The class of each byte of a block, and how many allocations occupy it.
pub(crate) fn bytes_of(size: u64, placed: &[Placed]) -> Vec<(Class, u32)> {
    let mut bytes = vec![(Class::Free, 0); size as usize];
    for allocation in placed {
        for offset in allocation.offset..allocation.end().min(size) {
            let inside = offset < allocation.offset + allocation.requested;
            let class = match allocation.class() {
                class if inside => class,
                Class::Reserved => Class::Reserved,
                _ => Class::Rounding,
            };
            let byte = &mut bytes[offset as usize];
            *byte = (byte.0.max(class), byte.1 + 1);
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn segments_bytes_and_holes_are_what_counting_each_byte_gives(
        recording in recordings(Has { aliasing: true, contradictions: true }, 300),
        at in any::<prop::sample::Index>(),
    ) {
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, at.index(recording.events.len() + 1) as u64);
        let mut all_holes = Vec::new();
        let mut total = BlockBytes::default();
        for block in cursor.blocks() {
            let size = timeline.block_size_at(block, cursor.position());
            let placed = cursor.placed(block);
            let naive = bytes_of(size, &placed);
            let found = segments(size, &placed);
            let spread: Vec<_> = found
                .iter()
                .flat_map(|segment| (segment.start..segment.end).map(|_| (segment.class, segment.depth)))
                .collect();
            prop_assert_eq!(&spread, &naive);
            prop_assert!(found.iter().all(|segment| segment.start < segment.end));

            let bytes = BlockBytes::of_block(&cursor, block);
            let count = |class| naive.iter().filter(|byte| byte.0 == class).count() as u64;
            prop_assert_eq!(bytes.used, count(Class::Used));
            prop_assert_eq!(bytes.pending, count(Class::Pending));
            prop_assert_eq!(bytes.reserved, count(Class::Reserved));
            prop_assert_eq!(bytes.rounding, count(Class::Rounding));
            prop_assert_eq!(bytes.free, count(Class::Free));
            prop_assert_eq!(bytes.aliased, naive.iter().filter(|byte| byte.1 > 1).count() as u64);
            total += bytes;

            let mut holes: Vec<u64> = naive
                .chunk_by(|a, b| (a.0 == Class::Free) == (b.0 == Class::Free))
                .filter(|run| run[0].0 == Class::Free)
                .map(|run| run.len() as u64)
                .collect();
            holes.sort_unstable_by(|a, b| b.cmp(a));
            let of_block = Holes::of_block(&cursor, block);
            prop_assert_eq!(of_block.sizes(), &holes[..]);
            all_holes.extend(holes);
        }
        prop_assert_eq!(BlockBytes::of_scope(&cursor, Scope::All), total);
        let by_heap: BlockBytes =
            (0..2).map(|heap| BlockBytes::of_scope(&cursor, Scope::Heap(heap))).sum();
        prop_assert_eq!(by_heap, total);

        let holes = Holes::of_scope(&cursor, Scope::All);
        let free: u64 = all_holes.iter().sum();
        prop_assert_eq!(holes.free(), free);
        prop_assert_eq!(holes.largest(), all_holes.iter().copied().max().unwrap_or(0));
        if free > 0 {
            let squares: u64 = all_holes.iter().map(|size| size * size).sum();
            prop_assert!((holes.concentration() - squares as f64 / (free * free) as f64).abs() < 1e-9);
            for size in [1, 16, 100, 333] {
                let large: u64 = all_holes.iter().filter(|&&hole| hole >= size).sum();
                prop_assert!((holes.share_in_holes_of(size) - large as f64 / free as f64).abs() < 1e-9);
                prop_assert_eq!(holes.fitting(size), all_holes.iter().map(|hole| hole / size).sum::<u64>());
            }
        }
    }

    #[test]
    fn leaks_are_the_allocations_of_the_state_that_are_not_released_by_call_site(
        recording in recordings(Has { aliasing: false, contradictions: true }, 400),
    ) {
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, timeline.end());
        let leaks = Leaks::at(&cursor, Grouping::CallSite);
        let mut naive: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for live in cursor.state().allocations.values() {
            if live.free_requested.is_none() && !live.reservation {
                let text = |id| recording.text(id).unwrap_or("");
                let prefix = name_prefix(text(live.is.name));
                let key = if live.call_site.is_none() { prefix } else { text(live.call_site) };
                let sum = naive.entry(key.to_owned()).or_default();
                *sum = (sum.0 + 1, sum.1 + live.is.requested);
            }
        }
        prop_assert_eq!(leaks.count, naive.values().map(|sum| sum.0).sum::<u64>());
        prop_assert_eq!(leaks.bytes, naive.values().map(|sum| sum.1).sum::<u64>());
        let found: BTreeMap<_, _> =
            leaks.groups.iter().map(|group| (group.key.clone(), (group.count, group.bytes))).collect();
        prop_assert_eq!(found, naive);
    }
}
