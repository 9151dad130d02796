//! `BindingLayout` and `BindingSet`: the three frequencies.

use std::sync::Arc;

use allotment::descriptor::{
    Binding, BindingLayout, BindingSet, BoundSet, DescriptorError, KeepAlive, TableLocation,
};
use allotment::device::simulated::SimulatedGpu;
use allotment::device::{BufferDesc, BufferUse};
use allotment::{AllocationOptions, MemoryUsage};

use crate::rig::{Heap, Rig, Staging, value};
use allotment::memory::names::ShortName;

const BINDINGS: [Binding; 4] = [
    Binding::mutable("material").array(2),
    Binding::dynamic("instance"),
    Binding::static_("shadow map"),
    Binding::dynamic("light").array(3),
];

struct Scene {
    heap: Arc<Heap>,
    staging: Arc<Staging>,
    layout: BindingLayout<SimulatedGpu>,
}

fn scene(rig: &Rig) -> Scene {
    let (heap, staging) = (Arc::new(rig.resources(0, 64, 256)), rig.staging(64));
    let layout = BindingLayout::new(&heap, &staging, &BINDINGS).unwrap();
    layout.bind_static(2, 0, &rig.number(1000), None).unwrap();
    Scene { heap, staging, layout }
}

fn indices(set: BoundSet) -> Vec<u32> {
    let of =
        |place: Option<TableLocation>| place.map_or(0..0, |place| place.first..place.first + place.count);
    of(set.table).chain(of(set.dynamic)).collect()
}

#[test]
fn a_draw_reads_what_was_bound_when_it_was_committed() {
    let rig = Rig::new();
    let Scene { heap, layout, .. } = scene(&rig);
    let mut set = BindingSet::new(&layout).unwrap();
    set.bind(0, 0, &rig.number(1), None).unwrap();
    set.bind(0, 1, &rig.number(2), None).unwrap();
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    for draw in 0..10 {
        set.bind(1, 0, &rig.number(100 + draw), None).unwrap();
        set.bind(3, draw % 3, &rig.number(200 + draw), None).unwrap();
        all.extend(indices(set.commit(&mut view).unwrap()));
        expected.extend([1000, 1, 2, 100 + draw].map(value));
        let light =
            |at: u32| (0..=draw).rev().find(|draw| draw % 3 == at).map_or(0, |draw| value(200 + draw));
        expected.extend((0..3).map(light));
    }
    assert_eq!(rig.submit_reads(recording, view.heap(), &all).wait(), expected);
}

#[test]
fn to_commit_a_draw_is_one_bump_and_one_bulk_copy() {
    let rig = Rig::new();
    let Scene { heap, layout, .. } = scene(&rig);
    let mut set = BindingSet::new(&layout).unwrap();
    set.bind(1, 0, &rig.number(1), None).unwrap();
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    set.commit(&mut view).unwrap();
    let (before, copies) = (crate::counting::of_this_thread(), rig.device.usage().descriptor_copies);
    let first = set.commit(&mut view).unwrap().dynamic.unwrap().first;
    let second = set.commit(&mut view).unwrap().dynamic.unwrap().first;
    assert_eq!(second, first + 4);
    assert_eq!(rig.device.usage().descriptor_copies - copies, 2, "one copy a draw");
    assert_eq!(crate::counting::of_this_thread() - before, 0);
}

#[test]
fn overwriting_a_binding_in_flight_yields_another_range_and_the_old_bytes_stay() {
    let rig = Rig::new();
    let Scene { heap, layout, .. } = scene(&rig);
    let mut set = BindingSet::new(&layout).unwrap();
    let keep: Arc<u32> = Arc::new(0);
    set.bind(0, 0, &rig.number(1), Some(keep.clone() as KeepAlive)).unwrap();
    set.bind(0, 1, &rig.number(2), None).unwrap();
    rig.device.pause_queues();
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let old = set.commit(&mut view).unwrap();
    let reading = rig.submit_reads(recording, view.heap(), &indices(old));

    set.bind(0, 0, &rig.number(3), None).unwrap();
    let used = heap.statistics().tables.used;
    set.bind(0, 1, &rig.number(4), None).unwrap();
    assert_eq!(
        heap.statistics().tables.used,
        used,
        "one new range for all that is bound before the next draw"
    );
    heap.reclaim();
    assert_eq!(Arc::strong_count(&keep), 2, "what the old range points at is kept");
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let new = set.commit(&mut view).unwrap();
    assert_ne!(old.table.unwrap().first, new.table.unwrap().first);
    let later = rig.submit_reads(recording, view.heap(), &indices(new));
    rig.device.resume_queues();
    assert_eq!(reading.wait()[..3], [1000, 1, 2].map(value));
    assert_eq!(later.wait()[..3], [1000, 3, 4].map(value));
    heap.reclaim();
    assert_eq!((Arc::strong_count(&keep), heap.statistics().tables.used), (1, 3));
}

#[test]
fn a_set_that_is_not_in_flight_is_written_in_place() {
    let rig = Rig::new();
    let Scene { heap, layout, .. } = scene(&rig);
    let mut set = BindingSet::new(&layout).unwrap();
    for i in 0..100 {
        set.bind(0, i % 2, &rig.number(i), None).unwrap();
    }
    assert_eq!((heap.statistics().tables.used, heap.statistics().tables.retiring), (3, 0));
}

#[test]
fn a_set_owns_what_it_points_at() {
    let rig = Rig::new();
    let Scene { heap, layout, .. } = scene(&rig);
    let mut set = BindingSet::new(&layout).unwrap();
    let desc = AllocationOptions::new(MemoryUsage::DeviceUpload);
    let buffer = Arc::new(rig.memory.create_buffer(&BufferDesc::new(256), &desc).unwrap());
    set.bind_buffer(0, 0, &buffer, 0..256, BufferUse::ReadOnly).unwrap();
    let beyond = set.bind_buffer(0, 0, &buffer, 0..260, BufferUse::ReadOnly);
    assert_eq!(
        beyond,
        Err(DescriptorError::BadRange {
            start: 0,
            end: 260,
            available: 256,
            most: 1 << 31,
            name: ShortName::NONE,
        })
    );
    // The resource is dropped by everybody else, and reclaimed.
    let weak = Arc::downgrade(&buffer);
    drop(buffer);
    rig.memory.deletion_queue().reclaim();
    assert!(weak.upgrade().is_some());
    // A recording that is opened later reads through the set all the same.
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let draw = set.commit(&mut view).unwrap();
    let reading = rig.submit_reads(recording, view.heap(), &indices(draw));
    drop((set, view));
    reading.wait();
    heap.reclaim();
    assert!(weak.upgrade().is_none());
    rig.memory.deletion_queue().reclaim();
    rig.assert_no_complaints();
}

#[test]
fn static_bindings_are_bound_once_and_before_the_first_set() {
    let rig = Rig::new();
    let (heap, staging) = (Arc::new(rig.resources(0, 64, 256)), rig.staging(64));
    let layout = BindingLayout::new(&heap, &staging, &BINDINGS).unwrap();
    assert_eq!(
        BindingSet::new(&layout).unwrap_err(),
        DescriptorError::Missing { binding: 2, name: "shadow map" }
    );
    assert_eq!(
        layout.bind_static(0, 0, &rig.number(0), None),
        Err(DescriptorError::WrongBinding { binding: 0, name: "material" })
    );
    assert_eq!(
        layout.bind_static(9, 0, &rig.number(0), None),
        Err(DescriptorError::NoSuchBinding { binding: 9, count: BINDINGS.len() })
    );
    layout.bind_static(2, 0, &rig.number(5), None).unwrap();
    assert_eq!(
        layout.bind_static(2, 0, &rig.number(6), None),
        Err(DescriptorError::AlreadySet { binding: 2, name: "shadow map" })
    );
    let mut set = BindingSet::new(&layout).unwrap();
    assert_eq!(
        set.bind(2, 0, &rig.number(6), None),
        Err(DescriptorError::WrongBinding { binding: 2, name: "shadow map" })
    );
    let refused = DescriptorError::NoSuchElement { binding: 3, name: "light", element: 3, count: 3 };
    assert_eq!(set.bind(3, 3, &rig.number(6), None), Err(refused));
    assert_eq!(layout.binding("light"), Some(3));
    assert_eq!((layout.table_size(), layout.dynamic_size()), (3, 4));
}

#[test]
fn everything_comes_back_when_sets_and_layouts_go() {
    let rig = Rig::new();
    let keep: Arc<u32> = Arc::new(0);
    let Scene { heap, staging, layout } = scene(&rig);
    let mut sets: Vec<_> = (0..10).map(|_| BindingSet::new(&layout).unwrap()).collect();
    for set in &mut sets {
        set.bind(0, 0, &rig.number(1), Some(keep.clone() as KeepAlive)).unwrap();
        set.bind(1, 0, &rig.number(1), Some(keep.clone() as KeepAlive)).unwrap();
    }
    assert_eq!((heap.statistics().tables.used, staging.statistics().used), (30, 41));
    drop((sets, layout));
    heap.reclaim();
    assert_eq!((heap.statistics().tables.used, staging.statistics().used), (0, 0));
    assert_eq!(Arc::strong_count(&keep), 1);
}

#[test]
fn a_set_that_finds_no_room_leaves_nothing_behind() {
    let rig = Rig::new();
    let (heap, staging) = (Arc::new(rig.resources(0, 4, 16)), rig.staging(64));
    let layout = BindingLayout::new(&heap, &staging, &[Binding::mutable("a").array(3)]).unwrap();
    let mut set = BindingSet::new(&layout).unwrap();
    assert!(matches!(
        BindingSet::new(&layout),
        Err(DescriptorError::Exhausted { requested: 3, free: 1, .. })
    ));
    set.bind(0, 0, &rig.number(1), None).unwrap();
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    set.commit(&mut view).unwrap();
    // No room for a fresh range: what is bound stays.
    assert!(matches!(set.bind(0, 0, &rig.number(2), None), Err(DescriptorError::Exhausted { .. })));
    let draw = set.commit(&mut view).unwrap();
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices(draw)).wait()[0], value(1));
    drop(view);
    set.bind(0, 0, &rig.number(2), None).unwrap_err();
    drop(set);
    heap.reclaim();
    assert_eq!(heap.statistics().tables.used, 0);
}
