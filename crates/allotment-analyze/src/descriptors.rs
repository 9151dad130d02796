//! How full descriptor heaps are, and how long a range they can still give.

use std::collections::BTreeMap;

use allotment_trace::recording::Moment;

use crate::timeline::{DescriptorHeapIndex, Timeline};

/// How full a descriptor heap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorOccupancy {
    /// The moment.
    pub moment: Moment,
    /// Slots.
    pub capacity: u32,
    /// Slots that are allocated.
    pub allocated: u32,
    /// The longest run of free slots: the longest table that can be allocated.
    pub longest_free: u32,
    /// Allocated ranges.
    pub ranges: u32,
}

impl DescriptorOccupancy {
    /// Counts the slots of ranges, the count by the first slot. A slot of two ranges counts once, and none beyond the
    /// capacity count.
    #[must_use]
    pub fn of(moment: Moment, capacity: u32, ranges: &BTreeMap<u32, u32>) -> Self {
        let (mut allocated, mut longest_free, mut end) = (0, 0, 0u32);
        for (&first, &count) in ranges {
            let until = first.saturating_add(count).min(capacity);
            // A range without slots does not split a run of free ones.
            if until <= first {
                continue;
            }
            longest_free = longest_free.max(first.saturating_sub(end));
            allocated += until.saturating_sub(first.max(end));
            end = end.max(until);
        }
        longest_free = longest_free.max(capacity - end);
        let ranges = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        Self { moment, capacity, allocated, longest_free, ranges }
    }

    /// Returns how full a heap is at a position; `None` where it does not exist then.
    #[must_use]
    pub fn at(timeline: &Timeline<'_>, heap: DescriptorHeapIndex, position: u64) -> Option<Self> {
        let (_, found) = timeline.descriptor_heap_at(heap, position)?;
        Some(Self::of(timeline.moment(position), found.capacity, &found.ranges))
    }

    /// Returns the allocated slots' share of all, from 0 to 1; 0 for a heap without slots.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.capacity == 0 { 0.0 } else { f64::from(self.allocated) / f64::from(self.capacity) }
    }

    /// Returns 1 − the longest run of free slots ÷ the free slots: 0 where they are one run, or none is free.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        let free = self.capacity - self.allocated;
        if free == 0 { 0.0 } else { 1.0 - f64::from(self.longest_free) / f64::from(free) }
    }
}

/// A descriptor heap over its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorHistory {
    /// How full it was, at evenly spaced positions of its life, the end the last of them.
    pub samples: Vec<DescriptorOccupancy>,
    /// The most slots that were allocated at once, with the moment. Where ranges overlap, a slot counts once for each, up to
    /// the capacity.
    pub peak: (u64, Moment),
}

impl DescriptorHistory {
    /// Follows a heap from its first event to its last. Linear in its ranges; each sample costs as much as looking at
    /// the ranges that exist there.
    #[must_use]
    pub fn of(timeline: &Timeline<'_>, heap: DescriptorHeapIndex, samples: usize) -> Self {
        let mut history = Self { samples: Vec::new(), peak: (0, Moment::default()) };
        let (created, destroyed, capacity) = timeline.descriptor_heap_span(heap);
        let changes = timeline.descriptor_changes(heap);
        let mut changes = changes.into_iter().peekable();
        let mut ranges = BTreeMap::new();
        let (mut slots, mut peak) = (0u64, (0, created));
        let count = samples.max(1) as u64;
        let span = u128::from(destroyed - created);
        let mut borders: Vec<u64> =
            (1..=count).map(|n| created + (span * u128::from(n) / u128::from(count)) as u64).collect();
        borders.dedup();
        for border in borders {
            while let Some(change) = changes.next_if(|change| change.event < border) {
                if change.allocated {
                    if let Some(before) = ranges.insert(change.first, change.count) {
                        slots -= u64::from(before);
                    }
                    slots += u64::from(change.count);
                } else if let Some(count) = ranges.remove(&change.first) {
                    slots -= u64::from(count);
                }
                let most = slots.min(capacity.into());
                if most > peak.0 {
                    peak = (most, change.event + 1);
                }
            }
            history.samples.push(DescriptorOccupancy::of(timeline.moment(border), capacity, &ranges));
        }
        history.peak = (peak.0, timeline.moment(peak.1));
        history
    }
}
