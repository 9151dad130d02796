//! Series, peaks and latencies against looking at every moment.

use proptest::prelude::*;

use super::generated::{Has, recordings};
use crate::{
    BlockBytes, Cursor, DescriptorHistory, DescriptorOccupancy, Peaks, ReleaseLatency, Scope, SeriesAxis,
    Timeline, series, series_within,
};

const ANY: Has = Has { aliasing: true, contradictions: true };

/// The bytes at each position, without the figures that series leave out.
fn at_every_position(timeline: &Timeline<'_>, scope: Scope) -> Vec<BlockBytes> {
    let mut cursor = Cursor::new(timeline);
    let mut bytes = Vec::new();
    loop {
        bytes.push(BlockBytes { padding: 0, aliased: 0, ..BlockBytes::of_scope(&cursor, scope) });
        if cursor.step().is_none() {
            return bytes;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn samples_of_a_series_are_the_bytes_there_and_their_peaks_are_those_of_every_event_between(
        recording in recordings(ANY, 250),
        count in 1usize..40,
    ) {
        let timeline = Timeline::new(&recording);
        let mut scopes = vec![Scope::All, Scope::Heap(0), Scope::Heap(1)];
        scopes.extend(timeline.pools().map(Scope::Pool));
        for axis in [SeriesAxis::Events, SeriesAxis::Frames] {
            let found = series(&timeline, &scopes, axis, count);
            for (found, &scope) in found.iter().zip(&scopes) {
                let naive = at_every_position(&timeline, scope);
                prop_assert!(found.samples.len() <= count);
                prop_assert_eq!(found.samples.last().expect("one").moment.event, timeline.end());
                let mut from = 0;
                for sample in &found.samples {
                    let to = sample.moment.event as usize;
                    prop_assert_eq!(sample.last, naive[to]);
                    let peak = |of: fn(&BlockBytes) -> u64| naive[from..=to].iter().map(of).max().unwrap_or(0);
                    prop_assert_eq!(sample.peak.used, peak(|bytes| bytes.used));
                    prop_assert_eq!(sample.peak.size, peak(|bytes| bytes.size));
                    prop_assert_eq!(sample.peak.pending, peak(|bytes| bytes.pending));
                    prop_assert_eq!(sample.peak.free, peak(|bytes| bytes.free));
                    prop_assert_eq!(sample.peak.rounding, peak(|bytes| bytes.rounding));
                    prop_assert_eq!(sample.peak.reserved, peak(|bytes| bytes.reserved));
                    from = to;
                }
            }
        }
    }

    #[test]
    fn a_part_of_a_series_has_the_bytes_and_the_peaks_of_its_own_events(
        recording in recordings(ANY, 250),
        ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        count in 1usize..40,
    ) {
        let timeline = Timeline::new(&recording);
        let position = |index: prop::sample::Index| index.index(timeline.end() as usize + 1) as u64;
        let (one, other) = (position(ends.0), position(ends.1));
        let part = one.min(other)..one.max(other);
        for axis in [SeriesAxis::Events, SeriesAxis::Frames] {
            for scope in [Scope::All, Scope::Heap(0)] {
                let naive = at_every_position(&timeline, scope);
                let found = series_within(&timeline, &[scope], axis, part.clone(), count).remove(0);
                prop_assert!(!found.samples.is_empty());
                let mut from = part.start as usize;
                for sample in &found.samples {
                    let to = sample.moment.event as usize;
                    prop_assert!(part.start as usize <= to && to <= part.end as usize);
                    prop_assert_eq!(sample.last, naive[to]);
                    let most = naive[from..=to].iter().map(|bytes| bytes.used).max().unwrap_or(0);
                    prop_assert_eq!(sample.peak.used, most);
                    from = to;
                }
                if axis == SeriesAxis::Events {
                    prop_assert_eq!(found.samples.last().expect("one").moment.event, part.end);
                }
            }
        }
    }

    #[test]
    fn peaks_are_the_first_moments_with_the_most_bytes(recording in recordings(ANY, 250)) {
        let timeline = Timeline::new(&recording);
        let naive = at_every_position(&timeline, Scope::All);
        let peaks = Peaks::of(&timeline, Scope::All);
        let check = |of: &dyn Fn(&BlockBytes) -> u64| {
            let most = naive.iter().map(of).max().unwrap_or(0);
            (most, naive.iter().position(|bytes| of(bytes) == most).unwrap_or(0) as u64)
        };
        prop_assert_eq!((peaks.used.bytes, peaks.used.moment.event), check(&|bytes| bytes.used));
        prop_assert_eq!((peaks.blocks.bytes, peaks.blocks.moment.event), check(&|bytes| bytes.size));
        prop_assert_eq!(
            (peaks.occupied.bytes, peaks.occupied.moment.event),
            check(&|bytes| bytes.used + bytes.pending + bytes.overhead())
        );
    }

    #[test]
    fn release_latency_is_what_the_states_say_of_each_allocation(
        recording in recordings(Has { aliasing: false, contradictions: false }, 400),
    ) {
        let timeline = Timeline::new(&recording);
        let mut state = allotment_trace::recording::State::default();
        let (mut completed, mut immediate, mut frames) = (0, 0, vec![0; 64]);
        for event in &recording.events {
            if let allotment_trace::recording::Event::Freed { allocation } = event {
                match state.allocations[allocation].free_requested {
                    Some(requested) => {
                        completed += 1;
                        frames[(state.now.frame - requested.frame).min(63) as usize] += 1;
                    }
                    None => immediate += 1,
                }
            }
            state.apply(event).expect("no contradictions");
        }
        let waiting = || state.allocations.values().filter(|live| live.free_requested.is_some());
        let latency = ReleaseLatency::at(&timeline, timeline.end());
        prop_assert_eq!((latency.completed, latency.immediate), (completed, immediate));
        prop_assert_eq!(&latency.frames[..], &frames[..]);
        prop_assert_eq!(latency.nanoseconds.iter().sum::<u64>(), completed);
        prop_assert_eq!(latency.pending, waiting().count() as u64);
        prop_assert_eq!(latency.pending_bytes, waiting().map(|live| live.is.requested).sum::<u64>());
        let oldest = waiting().filter_map(|live| live.free_requested).map(|moment| moment.event).min();
        prop_assert_eq!(latency.oldest.map(|(_, moment)| moment.event), oldest);
    }

    #[test]
    fn descriptor_heaps_are_as_full_as_counting_their_slots_says(recording in recordings(ANY, 400)) {
        let timeline = Timeline::new(&recording);
        for heap in timeline.descriptor_heaps() {
            let history = DescriptorHistory::of(&timeline, heap, 20);
            let mut most = 0;
            for position in 0..=timeline.end() {
                let Some((_, found)) = timeline.descriptor_heap_at(heap, position) else { continue };
                let mut slots = vec![false; found.capacity as usize];
                for (&first, &count) in &found.ranges {
                    for slot in first..(first + count).min(found.capacity) {
                        slots[slot as usize] = true;
                    }
                }
                let allocated = slots.iter().filter(|&&slot| slot).count();
                let runs = slots.chunk_by(|a, b| a == b).filter(|run| !run[0]).map(<[bool]>::len);
                let is = DescriptorOccupancy::at(&timeline, heap, position).expect("it exists");
                prop_assert_eq!(is.allocated as usize, allocated);
                prop_assert_eq!(is.longest_free as usize, runs.max().unwrap_or(0));
                if let Some(sample) = history.samples.iter().find(|sample| sample.moment.event == position) {
                    prop_assert_eq!(*sample, is);
                }
                let slots: u64 = found.ranges.values().map(|&count| u64::from(count)).sum();
                most = most.max(slots.min(found.capacity.into()));
            }
            prop_assert_eq!(history.peak.0, most);
        }
    }
}
