//! The lowest peak of few items, by trying all plans in which each item stands on something.

use crate::naive::{self, Set};

/// Returns the lowest peak, if it is lower than `peak`, and otherwise `peak`.
pub(crate) fn lowest_peak(set: &Set, peak: u64) -> u64 {
    let mut offsets: Vec<Option<u64>> = set.iter().map(|(item, _)| item.pin).collect();
    let mut lowest = peak;
    place_all(set, &mut offsets, 0, &mut lowest);
    lowest
}

/// Each order of placing items from below: an item goes to each offset that is 0, or the end of one that was placed, aligned.
fn place_all(set: &Set, offsets: &mut [Option<u64>], low: u64, lowest: &mut u64) {
    let ends = offsets.iter().zip(set).filter_map(|(offset, (item, _))| Some((*offset)? + item.size));
    let peak = ends.clone().max().unwrap_or(0);
    if peak >= *lowest {
        return;
    }
    if offsets.iter().all(Option::is_some) {
        *lowest = peak;
        return;
    }
    let ends: Vec<u64> = ends.chain([0]).collect();
    for index in 0..set.len() {
        if offsets[index].is_some() {
            continue;
        }
        let (item, lifetime) = &set[index];
        let mut candidates: Vec<u64> = ends.iter().map(|&end| item.alignment.align_up(end)).collect();
        candidates.sort_unstable();
        candidates.dedup();
        for at in candidates.into_iter().filter(|&at| at >= low) {
            let free = |(other, (below, other_lifetime)): (&Option<u64>, &(_, Vec<_>))| {
                let below: &allotment_suballoc::plan::Item = below;
                other.is_none_or(|other| other + below.size <= at || at + item.size <= other)
                    || !naive::conflict(lifetime, other_lifetime)
            };
            if offsets.iter().zip(set).all(free) {
                offsets[index] = Some(at);
                place_all(set, offsets, at, lowest);
                offsets[index] = None;
            }
        }
    }
}
