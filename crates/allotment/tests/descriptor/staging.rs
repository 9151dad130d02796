//! `CpuDescriptorHeap`: the article's `CPUDescriptorHeap`.

use std::collections::HashSet;
use std::sync::Arc;

use allotment::descriptor::{
    CpuDescriptorHeap, CpuDescriptorHeapDesc, CpuDescriptorRange, DescriptorError, DescriptorFill,
    DescriptorRange,
};
use allotment::device::DescriptorHeapType;
use allotment::device::simulated::SimulatedGpu;

use crate::amount::scaled;
use crate::rig::{Rig, value};

/// Which page a range is on, and where: by its address.
fn address(heap: &CpuDescriptorHeap<SimulatedGpu>, range: &CpuDescriptorRange) -> u64 {
    heap.address(range).unwrap()
}

#[test]
fn the_articles_example_of_five_then_three_takes_the_page_that_can_serve_and_then_a_new_one() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    // Page 0 is full, page 1 has no more than two in a row, page 2 has five at its end.
    let _page_0 = heap.allocate(64).unwrap();
    let pairs: Vec<_> = (0..32).map(|_| heap.allocate(2).unwrap()).collect();
    let freed: HashSet<_> = pairs.iter().skip(1).step_by(2).map(|pair| address(&heap, pair)).collect();
    let (_kept, odd): (Vec<_>, Vec<_>) = pairs.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
    odd.into_iter().for_each(|(_, pair)| heap.free(pair).unwrap());
    let page_2 = heap.allocate(59).unwrap();
    assert_eq!(heap.statistics().pages, 3);
    let five = heap.allocate(5).unwrap();
    assert_eq!(address(&heap, &five), address(&heap, &page_2) + 59 * 32, "page 2 serves it");
    assert_eq!(heap.statistics().pages, 3);
    let three = heap.allocate(3).unwrap();
    assert_eq!(heap.statistics().pages, 4, "no page can serve three, so there is another");
    let two = heap.allocate(2).unwrap();
    assert!(freed.contains(&address(&heap, &two)), "and the first page that can serve two does");
    heap.free(three).unwrap();
}

#[test]
fn a_freed_slot_is_the_next_one() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    let slots: Vec<_> = (0..100).map(|_| heap.allocate(1).unwrap()).collect();
    let addresses: HashSet<_> = slots.iter().map(|slot| address(&heap, slot)).collect();
    assert_eq!(addresses.len(), 100, "no two are the same");
    let mut slots = slots;
    let freed = slots.swap_remove(17);
    let was = address(&heap, &freed);
    heap.free(freed).unwrap();
    let again = heap.allocate(1).unwrap();
    assert_eq!(address(&heap, &again), was);
}

/// As many frames as it takes until what is empty goes.
fn many_frames(heap: &CpuDescriptorHeap<SimulatedGpu>) {
    for _ in 0..100 {
        heap.reclaim();
    }
}

#[test]
fn pages_that_stay_empty_are_given_back_beyond_the_reserve() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    let singles: Vec<_> = (0..640).map(|_| heap.allocate(1).unwrap()).collect();
    let runs: Vec<_> = (0..10).map(|_| heap.allocate(64).unwrap()).collect();
    assert_eq!((heap.statistics().pages, rig.device.usage().descriptor_heaps), (20, 20));
    for range in runs.into_iter().chain(singles) {
        heap.free(range).unwrap();
    }
    heap.reclaim();
    assert_eq!((heap.statistics().pages, heap.statistics().used), (20, 0), "not at once");
    many_frames(&heap);
    assert_eq!(heap.statistics().pages, 2, "one of each sort is kept");
    heap.trim();
    assert_eq!((heap.statistics().pages, rig.device.usage().descriptor_heaps), (0, 0));
    assert!(heap.allocate(1).is_ok(), "and it grows again");
}

#[test]
fn what_comes_and_goes_with_each_frame_makes_no_heap_of_the_device() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    let mut heaps = 0;
    for frame in 0..300 {
        let before = rig.device.fallible_calls();
        let mut held: Vec<_> = (0..200).map(|_| heap.allocate(1).unwrap()).collect();
        held.extend((0..5).map(|_| heap.allocate(40).unwrap()));
        held.push(heap.allocate(1000).unwrap());
        held.into_iter().for_each(|range| heap.free(range).unwrap());
        heap.reclaim();
        heaps += u64::from(frame > 0) * (rig.device.fallible_calls() - before);
    }
    assert_eq!(heaps, 0, "after the first frame");
}

#[test]
fn a_large_request_has_a_page_of_its_own_and_others_stay_as_they_are() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    let large = heap.allocate(100_000).unwrap();
    assert_eq!(heap.statistics().capacity, 100_000);
    let small = heap.allocate(2).unwrap();
    assert_eq!(heap.statistics().capacity, 100_064, "the next page is as large as pages are");
    heap.free(large).unwrap();
    let another = heap.allocate(64).unwrap();
    assert_eq!(heap.statistics().capacity, 100_128, "and nothing small keeps the large one");
    many_frames(&heap);
    assert_eq!(heap.statistics().capacity, 128, "so it is freed with its request");
    heap.free(small).unwrap();
    heap.free(another).unwrap();
}

#[test]
fn what_was_not_written_is_not_copied() {
    let rig = Rig::new();
    let heap = rig.resources(0, 64, 64);
    let staging = rig.staging(64);
    let (one, some) = (staging.allocate(1).unwrap(), staging.allocate(3).unwrap());
    let mut table = heap.allocate(4).unwrap();
    assert_eq!(table.copy_from(0, &staging, &one), Err(DescriptorError::Unwritten));
    assert_eq!(table.copy_from(0, &staging, &some), Ok(()), "runs begin with descriptors of nothing");
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let refused = view.allocate(1).unwrap().copy_from(0, &staging, &one);
    assert_eq!(refused, Err(DescriptorError::Unwritten));
    for range in [one, some] {
        staging.free(range).unwrap();
    }
}

#[test]
fn a_range_of_another_heap_is_refused_and_nothing_is_written() {
    let rig = Rig::new();
    let (heap, other, shown) = (rig.staging(64), rig.staging(64), rig.resources(4, 4, 4));
    // The other heap has a range at the same place.
    let (mut range, mut own) = (heap.allocate(1).unwrap(), other.allocate(1).unwrap());
    other.write(&mut own, 0, &rig.number(1)).unwrap();
    let wrong = DescriptorError::WrongHeap;
    assert_eq!(other.write(&mut range, 0, &rig.number(2)), Err(wrong));
    assert_eq!(other.fill(&mut range, DescriptorFill::Null), Err(wrong));
    assert_eq!(other.address(&range), Err(wrong));
    assert_eq!(other.with_heap(&range, |_, _| ()), Err(wrong));
    heap.write(&mut range, 0, &rig.number(3)).unwrap();
    let mut table = shown.allocate(1).unwrap();
    assert_eq!(table.copy_from(0, &other, &range), Err(wrong));
    table.copy_from(0, &other, &own).unwrap();
    let recording = rig.record();
    let view = shown.begin(&recording).unwrap();
    let first = view.place(&table).unwrap().first;
    assert_eq!(rig.submit_reads(recording, view.heap(), &[first]).wait(), [value(1)]);
    heap.free(range).unwrap();
    other.free(own).unwrap();
}

#[test]
fn a_page_of_another_size_is_rounded_up_and_absurd_requests_are_refused() {
    let rig = Rig::new();
    let heap = rig.staging(65);
    let _one = heap.allocate(1).unwrap();
    assert_eq!(heap.statistics().capacity, 128);
    assert_eq!(heap.allocate(0).unwrap_err(), DescriptorError::Empty);
    assert!(matches!(heap.allocate(u32::MAX), Err(DescriptorError::NeverFits { requested: u32::MAX, .. })));
    let other = rig.staging(64);
    assert_eq!(other.free(heap.allocate(1).unwrap()), Err(DescriptorError::WrongHeap));
    assert_eq!(other.free(heap.allocate(2).unwrap()), Err(DescriptorError::WrongHeap));
}

#[test]
fn there_is_one_for_each_of_the_four_kinds_and_kinds_do_not_mix() {
    let rig = Rig::new();
    for kind in DescriptorHeapType::ALL {
        let desc = CpuDescriptorHeapDesc::new(kind).with_page_size(64);
        let heap = CpuDescriptorHeap::new(&rig.allocator, &rig.tracker, desc).unwrap();
        let mut slot = heap.allocate(1).unwrap();
        let written = heap.write(&mut slot, 0, &rig.number(1));
        match kind {
            DescriptorHeapType::Resource => assert_eq!(written, Ok(())),
            other => {
                let wrong =
                    DescriptorError::WrongKind { expected: other, found: DescriptorHeapType::Resource };
                assert_eq!(written, Err(wrong));
            }
        }
        heap.free(slot).unwrap();
    }
    rig.assert_no_complaints();
}

#[test]
fn what_is_retired_comes_back_with_the_recordings_that_were_open() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    let (slot, run) = (heap.allocate(1).unwrap(), heap.allocate(5).unwrap());
    let recording = rig.record();
    heap.retire(slot).unwrap();
    heap.retire(run).unwrap();
    heap.reclaim();
    assert_eq!((heap.statistics().used, heap.statistics().retiring), (6, 6));
    drop(recording);
    heap.reclaim();
    assert_eq!((heap.statistics().used, heap.statistics().retiring, heap.statistics().peak), (0, 0, 6));
}

#[test]
fn what_is_dropped_comes_back_as_what_is_retired_on_any_thread() {
    let rig = Rig::new();
    let heap = rig.staging(64);
    let recording = rig.record();
    let (slot, run) = (heap.allocate(1).unwrap(), heap.allocate(5).unwrap());
    let was = address(&heap, &slot);
    std::thread::spawn(|| drop((slot, run))).join().unwrap();
    heap.reclaim();
    assert_eq!((heap.statistics().used, heap.statistics().retiring), (6, 6));
    assert_ne!(address(&heap, &heap.allocate(1).unwrap()), was, "the recording may copy it");
    drop(recording);
    heap.reclaim();
    heap.reclaim();
    assert_eq!((heap.statistics().used, heap.statistics().retiring), (0, 0));
    // A range that another heap refuses comes back too, to its own.
    let other = rig.staging(64);
    assert_eq!(other.free(heap.allocate(1).unwrap()), Err(DescriptorError::WrongHeap));
    assert_eq!(other.retire(heap.allocate(2).unwrap()), Err(DescriptorError::WrongHeap));
    assert_eq!((heap.statistics().retiring, other.statistics().retiring), (3, 0));
    heap.reclaim();
    assert_eq!((heap.statistics().used, other.statistics().used), (0, 0));
}

#[test]
fn what_outlives_its_heap_is_dropped_without_it() {
    let rig = Rig::new();
    let before = rig.staging(64);
    let (slot, run) = (before.allocate(1).unwrap(), before.allocate(5).unwrap());
    drop(before);
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
    // Another heap has descriptors at the same places, and keeps them.
    let after = rig.staging(64);
    let kept = (after.allocate(1).unwrap(), after.allocate(5).unwrap());
    drop((slot, run));
    after.reclaim();
    assert_eq!((after.statistics().used, after.statistics().retiring), (6, 0));
    drop(kept);
    after.reclaim();
    assert_eq!(after.statistics().used, 0);
}

#[test]
fn a_million_descriptors_made_and_dropped_need_no_more_pages_than_the_frames_in_flight() {
    let rig = Rig::new();
    let heap = rig.staging(1024);
    let mut frames = std::collections::VecDeque::new();
    for _ in 0..scaled(1000) {
        let recording = rig.record();
        for _ in 0..500 {
            drop(heap.allocate(1).unwrap());
        }
        for _ in 0..125 {
            drop(heap.allocate(4).unwrap());
        }
        frames.push_back(rig.submit(recording));
        if frames.len() == 3 {
            rig.wait(frames.pop_front().unwrap());
        }
        heap.reclaim();
    }
    assert!(heap.statistics().capacity <= 4 * 1024 * 2, "{:?}", heap.statistics());
    rig.wait_idle();
    heap.reclaim();
    assert_eq!((heap.statistics().used, heap.statistics().retiring), (0, 0));
    heap.trim();
    assert_eq!(rig.device.usage().descriptor_heaps, 0);
}

#[test]
fn descriptors_are_copied_from_there_to_where_shaders_see_them() {
    let rig = Rig::new();
    let heap = rig.resources(0, 64, 16);
    let staging = rig.staging(64);
    let mut run = staging.allocate(8).unwrap();
    for i in 0..8 {
        staging.write(&mut run, i, &rig.number(i + 50)).unwrap();
    }
    let mut table: DescriptorRange<_> = heap.allocate(10).unwrap();
    table.copy_from(1, &staging, &run).unwrap();
    let refused = DescriptorError::OutOfRange { first: 3, count: 8, available: 10 };
    assert_eq!(table.copy_from(3, &staging, &run), Err(refused));
    staging.free(run).unwrap();
    let recording = rig.record();
    let transient = heap.begin(&recording).unwrap();
    let first = transient.place(&table).unwrap().first;
    let indices: Vec<_> = (first..first + 10).collect();
    let found = rig.submit_reads(recording, transient.heap(), &indices).wait();
    let mut expected = vec![0];
    expected.extend((50..58).map(value));
    expected.push(0);
    assert_eq!(found, expected, "and what was not written is of nothing");
    let _ = Arc::strong_count(&staging);
}
