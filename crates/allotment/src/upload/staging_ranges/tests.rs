//! Random requests against the invariants, and the shares.

use super::*;

fn align(value: u64) -> Alignment {
    Alignment::new(value).unwrap()
}

/// The next number of a sequence that looks random.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn ranges_that_are_reserved_used_and_freed_in_any_order_have_each_byte_once() {
    for capacity in [1, 63, 64, 1000, 4096, 100_000] {
        let mut seed = capacity;
        let mut ranges = StagingRanges::new(capacity);
        let mut reserved: Vec<(Range, bool)> = Vec::new();
        let mut batches: VecDeque<usize> = VecDeque::new();
        let mut placed = 0;
        for _ in 0..20_000 {
            match next(&mut seed) % 8 {
                0 | 1 => {
                    let size = 1 + next(&mut seed) % (capacity / 64).max(64);
                    if let Some(offset) = ranges.small(size) {
                        assert!(offset % 64 == 0 && offset + size <= capacity);
                        ranges.use_small(size);
                        placed += 1;
                    }
                }
                2 | 3 => {
                    let (size, is_small) = (1 + next(&mut seed) % capacity, next(&mut seed) % 4 == 0);
                    let alignment = align(1 << (next(&mut seed) % 10));
                    if let Some(range) = ranges.reserve(size, alignment, is_small) {
                        assert!(range.offset % alignment.get() == 0 && range.size >= size);
                        reserved.push((range, is_small));
                        placed += 1;
                    }
                }
                4 if !reserved.is_empty() => {
                    let at = next(&mut seed) as usize % reserved.len();
                    let (range, is_small) = reserved.swap_remove(at);
                    if next(&mut seed) % 4 == 0 {
                        ranges.give_back(range, is_small);
                    } else {
                        ranges.use_reserved(range, is_small);
                    }
                }
                5 => batches.push_back(ranges.close()),
                6 => batches.pop_front().into_iter().for_each(|count| ranges.free_oldest(count)),
                7 if next(&mut seed) % 4 == 0 => ranges.discard(),
                _ => {}
            }
            ranges.check_invariants(&reserved);
        }
        assert!(placed > 100, "{placed} of {capacity}");
        reserved.drain(..).for_each(|(range, is_small)| ranges.give_back(range, is_small));
        ranges.discard();
        batches.drain(..).for_each(|count| ranges.free_oldest(count));
        assert_eq!((ranges.free(), ranges.largest(), ranges.small), (capacity, capacity, 0));
        let all = ranges.reserve(capacity, align(1), false);
        assert_eq!(all, Some(Range { offset: 0, size: capacity }), "a write of all fits where all is free");
    }
}

#[test]
fn large_writes_leave_an_eighth_to_small_ones_less_what_these_have() {
    let mut ranges = StagingRanges::new(64 << 10);
    let piece = || 8 << 10;
    for _ in 0..7 {
        assert!(ranges.reserve(piece(), align(64), false).is_some());
    }
    assert_eq!(ranges.reserve(64, align(64), false), None);
    // Small ones have it.
    for _ in 0..8 {
        assert!(ranges.small_have_room(1 << 10));
        assert!(ranges.small(1 << 10).is_some());
        ranges.use_small(1 << 10);
    }
    assert!(!ranges.small_have_room(64) && ranges.small(64).is_none());
    let batch = ranges.close();
    ranges.free_oldest(batch);
    assert!(ranges.small_have_room(1 << 10));
}

#[test]
fn consecutive_small_writes_are_neighbours_also_after_a_large_one() {
    let mut ranges = StagingRanges::new(64 << 10);
    let mut at = None;
    for i in 0..20 {
        let offset = ranges.small(64).unwrap();
        assert!(at.is_none_or(|at| at == offset));
        ranges.use_small(64);
        at = Some(offset + 64);
        if i == 10 {
            assert!(ranges.reserve(4096, align(64), false).is_some_and(|range| range.offset == 0));
        }
    }
}

#[test]
fn a_refused_request_names_the_batch_that_must_complete() {
    let mut ranges = StagingRanges::new(1024);
    let mut batch = |size| {
        let range = ranges.reserve(size, align(64), false).unwrap();
        ranges.use_reserved(range, false);
        ranges.close()
    };
    let counts = [batch(256), batch(512), batch(128)];
    let after = |size| ranges.batches_to_free(size, align(64), counts.into_iter());
    assert_eq!((after(200), after(257), after(700), after(1000)), (Some(0), Some(1), Some(1), Some(2)));
    assert_eq!(after(1025), None);
    // What a writer has reserved comes back when it is done, and no batch helps.
    assert!(ranges.reserve(64, align(64), true).is_some());
    assert_eq!(ranges.batches_to_free(1000, align(64), counts.into_iter()), None);
}
