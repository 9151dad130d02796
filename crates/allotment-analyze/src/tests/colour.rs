//! Groups of colours, their pixels and their bands against looking at every allocation at every moment.

use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{
    AllocationIndex, ColourBy, ColourGroups, Cursor, Scope, SeriesAxis, Status, Timeline, bands_within,
    bytes_of_pixel, group_pixels,
};

const ANY: Has = Has { aliasing: true, contradictions: true };

/// What a search of these tests finds.
fn is_found(allocation: AllocationIndex) -> bool {
    allocation.0 % 3 != 0
}

/// The bytes of each band at each position; last, what is not found.
fn at_every_position(timeline: &Timeline<'_>, groups: &ColourGroups, scope: Scope) -> Vec<Vec<u64>> {
    let mut cursor = Cursor::new(timeline);
    let mut all = Vec::new();
    loop {
        let mut bands = vec![0; groups.len() + 1];
        for allocation in cursor.allocations() {
            let position = cursor.position();
            let is_reserved = timeline.status_at(allocation, position) == Status::Reserved;
            let block = timeline.place_at(allocation, position).block;
            if scope.contains(timeline, block) && (!is_reserved || groups.by() == ColourBy::State) {
                let group = groups.of(timeline, allocation, position);
                let band = if is_found(allocation) { group } else { groups.len() };
                bands[band] += timeline.requested(allocation);
            }
        }
        all.push(bands);
        if cursor.step().is_none() {
            return all;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn bands_are_the_bytes_of_each_group_there_and_where_they_were_the_most(
        recording in recordings(ANY, 250),
        by in prop::sample::select(ColourBy::ALL.to_vec()),
        ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        count in 1usize..40,
    ) {
        let timeline = Timeline::new(&recording);
        let groups = ColourGroups::new(&timeline, by);
        let position = |index: prop::sample::Index| index.index(timeline.end() as usize + 1) as u64;
        let (one, other) = (position(ends.0), position(ends.1));
        for part in [0..timeline.end(), one.min(other)..one.max(other)] {
            for (axis, scope) in [
                (SeriesAxis::Events, Scope::All),
                (SeriesAxis::Frames, Scope::All),
                (SeriesAxis::Events, Scope::Heap(1)),
            ] {
                let bands = bands_within(&timeline, &groups, scope, is_found, axis, part.clone(), count);
                let naive = at_every_position(&timeline, &groups, scope);
                prop_assert!(!bands.samples.is_empty());
                let mut from = part.start as usize;
                for sample in &bands.samples {
                    let to = sample.moment.event as usize;
                    prop_assert_eq!(&*sample.last, &*naive[to]);
                    let total = |at: usize| naive[at].iter().sum::<u64>();
                    let most = (from..=to).map(total).max().unwrap_or(0);
                    let first = (from..=to).find(|&at| total(at) == most).expect("it is one of them");
                    prop_assert_eq!(&*sample.peak, &*naive[first]);
                    from = to;
                }
            }
        }
    }

    #[test]
    fn a_legend_has_each_allocation_of_the_moment_once(
        recording in recordings(ANY, 250),
        by in prop::sample::select(ColourBy::ALL.to_vec()),
        at in any::<prop::sample::Index>(),
    ) {
        let timeline = Timeline::new(&recording);
        let groups = ColourGroups::new(&timeline, by);
        let cursor = Cursor::at(&timeline, at.index(timeline.end() as usize + 1) as u64);
        let legend = groups.legend(&cursor, Scope::All);
        let is_counted = |&one: &AllocationIndex| {
            by == ColourBy::State || timeline.status_at(one, cursor.position()) != Status::Reserved
        };
        let counted: Vec<_> = cursor.allocations().filter(is_counted).collect();
        prop_assert_eq!(legend.iter().map(|group| group.count).sum::<u64>(), counted.len() as u64);
        let bytes = counted.iter().map(|&one| timeline.requested(one)).sum::<u64>();
        prop_assert_eq!(legend.iter().map(|group| group.bytes).sum::<u64>(), bytes);
        prop_assert!(legend.len() == groups.len() && legend.len() <= ColourGroups::MOST);
        prop_assert!(legend.iter().all(|group| !group.name.is_empty()));
    }

    #[test]
    fn groups_of_a_recording_that_goes_on_have_a_place_for_what_came_later(
        recording in recordings(ANY, 250),
        by in prop::sample::select(ColourBy::ALL.to_vec()),
        until in any::<prop::sample::Index>(),
    ) {
        let mut early = recording.clone();
        early.events.truncate(until.index(recording.events.len() + 1));
        let groups = ColourGroups::new(&Timeline::new(&early), by);
        prop_assume!(!groups.is_empty());
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, timeline.end());
        let counted = groups.legend(&cursor, Scope::All).iter().map(|group| group.count).sum::<u64>();
        let all = ColourGroups::new(&timeline, by).legend(&cursor, Scope::All);
        prop_assert_eq!(counted, all.iter().map(|group| group.count).sum::<u64>());
    }

    #[test]
    fn a_pixel_shows_the_group_with_the_most_bytes_in_it(
        recording in recordings(ANY, 250),
        part in (0..900u64, 1..900u64),
        pixels in 1..70u32,
    ) {
        let timeline = Timeline::new(&recording);
        let cursor = Cursor::at(&timeline, timeline.end());
        let view = part.0..part.0 + part.1;
        for block in cursor.blocks() {
            let placed = cursor.placed(block);
            // Of six, the last is no group.
            let group = |is: &crate::Placed| Some(is.allocation.0 as usize % 6).filter(|&group| group < 5);
            let shown = group_pixels(&placed, view.clone(), pixels, 5, group);
            prop_assert_eq!(shown.len(), pixels as usize);
            for (pixel, &shown) in (0..).zip(&shown) {
                let covered = bytes_of_pixel(view.clone(), pixels, pixel);
                let mut sums = [0u64; 5];
                for is in &placed {
                    let start = is.offset.max(covered.start);
                    if let Some(group) = group(is) {
                        sums[group] += is.end().min(covered.end).saturating_sub(start);
                    }
                }
                let most = sums.iter().max().copied().unwrap_or(0);
                let expected = sums.iter().position(|&sum| sum == most && most > 0);
                prop_assert_eq!(shown.map(usize::from), expected);
            }
        }
    }
}

#[test]
fn of_many_categories_the_largest_have_their_own_colour_and_the_rest_is_one_group() {
    use allotment::Alignment;
    use allotment::device::{MemoryTypeIndex, ResourceKind};
    use allotment_trace::recording::{
        Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, Recording, TextId,
    };

    let mut recording = Recording::default();
    let (block, pool, memory_type) = (BlockId(0), PoolId(0), MemoryTypeIndex(0));
    let size = 1 << 30;
    recording.events.push(Event::BlockAllocated { block, pool, memory_type, kind: BlockKind::Shared, size });
    for number in 0..30u64 {
        recording.texts.push(format!("category {number}"));
        // The later ones are larger.
        let bytes = (number + 1) << 10;
        recording.events.push(Event::Allocated(Allocated {
            allocation: AllocationKey(number),
            block,
            offset: number << 20,
            requested: bytes,
            occupied: bytes,
            user_data: 0,
            name: TextId::NONE,
            category: TextId(number as u32 + 1),
            alignment: Alignment::new(1).expect("a power of two"),
            usage: None,
            kind: ResourceKind::Buffer,
            placement: Placement::ExistingBlock,
            second_choice: false,
            movable: false,
        }));
    }
    let timeline = Timeline::new(&recording);
    let groups = ColourGroups::new(&timeline, ColourBy::Category);
    let names: Vec<_> = groups.names().collect();
    assert_eq!(names.len(), ColourGroups::MOST);
    assert_eq!((names[0], names[9], names[10]), ("category 29", "category 20", "20 others"));
    assert!(groups.is_others(10) && !groups.is_others(9));
    let legend = groups.legend(&Cursor::at(&timeline, timeline.end()), Scope::All);
    assert_eq!((legend[0].count, legend[0].bytes), (1, 30 << 10));
    assert_eq!((legend[10].count, legend[10].bytes), (20, (1..=20).sum::<u64>() << 10));
}
