//! A steady frame allocates nothing.

use allotment::descriptor::{Binding, BindingLayout, BindingSet};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::counting;
use crate::rig::Rig;

#[test]
fn a_steady_frame_takes_nothing_from_the_heap_and_makes_no_heap_of_the_device() {
    let rig = Rig::new();
    let (heap, staging) = (Arc::new(rig.resources(256, 512, 4096)), rig.staging(256));
    let bindings = [Binding::mutable("material").array(2), Binding::dynamic("instance").array(4)];
    let layout = BindingLayout::new(&heap, &staging, &bindings).unwrap();
    let mut sets: Vec<_> = (0..16).map(|_| BindingSet::new(&layout).unwrap()).collect();
    let mut slots: Vec<_> = (0..128).map(|i| heap.insert(&rig.number(i), None).unwrap()).collect();
    let mut cost = 0;
    let mut heaps = 0;
    for frame in 0..200_u32 {
        if frame == 100 {
            heaps = rig.device.usage().descriptor_heaps;
        }
        let before = counting::of_this_thread();
        let recording = rig.record();
        let mut view = heap.begin(&recording).unwrap();
        for draw in 0..200 {
            let set = &mut sets[draw as usize % 16];
            set.bind(1, draw % 4, &rig.number(frame + draw), None).unwrap();
            if draw % 40 == 0 {
                set.bind(0, 0, &rig.number(frame), None).unwrap();
            }
            set.commit(&mut view).unwrap();
        }
        for slot in slots.iter_mut().skip(frame as usize % 8).step_by(8) {
            *slot = heap.replace(*slot, &rig.number(frame), None).unwrap();
        }
        let one = staging.allocate(1).unwrap();
        drop(view);
        rig.submit(recording);
        staging.free(one).unwrap();
        rig.wait_idle();
        heap.reclaim();
        staging.reclaim();
        if frame >= 100 {
            cost += counting::of_this_thread() - before;
        }
    }
    assert_eq!(cost, 0);
    assert_eq!(rig.device.usage().descriptor_heaps, heaps);
}

#[test]
fn what_slots_kept_comes_back_at_once_for_the_first_time_without_an_allocation() {
    const CHANGED: u32 = 300;
    let rig = Rig::new();
    let heap = rig.resources(8 * CHANGED, 0, 0);
    let kept = Arc::new(7);
    let mut slots: Vec<_> =
        (0..CHANGED).map(|i| heap.insert(&rig.number(i % 64), Some(kept.clone())).unwrap()).collect();
    // Three are open at a time, and what is retired with the oldest is released alone.
    let mut open = VecDeque::with_capacity(8);
    for frame in 0..50 {
        open.push_back(rig.record());
        for slot in &mut slots {
            *slot = heap.replace(*slot, &rig.number(frame), Some(kept.clone())).unwrap();
        }
        if open.len() > 3 {
            drop(open.pop_front());
        }
        heap.reclaim();
    }
    let before = counting::of_this_thread();
    open.clear();
    assert_eq!(heap.reclaim().count, 3 * u64::from(CHANGED));
    assert_eq!(counting::of_this_thread(), before);
}
