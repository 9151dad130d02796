//! Descriptors of relocatable resources, when a step moves those: with failures at every call, without room, with several
//! heaps and owners, and in many threads.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use allotment::descriptor::{Binding, BindingLayout, BindingSet, DescriptorSlot};
use allotment::device::simulated::{SimulatedGpu, SimulatedImageUse};
use allotment::device::{BufferDesc, BufferUse, DeviceError, ImageDesc};
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationError, DefragmentationStrategy, Defragmenter, DefragmenterDesc,
    PassLimits, StepOutcome,
};
use allotment::memory::{Buffer, Image};
use allotment::{AllocationOptions, MemoryUsage};

use crate::rig::{Heap, Rig, Staging};

const MIB: u64 = 1 << 20;

/// Five buffers of 1 MiB of which the first was dropped: the blocks have 4 MiB, so a step moves the last one into the
/// first block, and frees the second.
struct Scene {
    defragmenter: Defragmenter<SimulatedGpu>,
    buffers: Vec<Arc<Buffer<SimulatedGpu>>>,
    heap: Arc<Heap>,
    staging: Arc<Staging>,
}

fn options() -> AllocationOptions {
    AllocationOptions::new(MemoryUsage::DeviceUpload).with_name("followed")
}

fn scene(rig: &Rig, tables: u32) -> Scene {
    let desc = DefragmenterDesc::new(DefragmentationDesc::new(DefragmentationStrategy::Full));
    let defragmenter = Defragmenter::new(&rig.memory, desc).unwrap();
    let mut buffers: Vec<_> = (0..5_u32).map(|i| numbered(&defragmenter, MIB, i)).collect();
    drop(buffers.remove(0));
    rig.memory.deletion_queue().reclaim();
    let (heap, staging) = (Arc::new(rig.resources(16, tables, 64)), rig.staging(64));
    Scene { defragmenter, buffers, heap, staging }
}

/// A buffer that holds 100 times a number, and the next one at byte 256.
fn numbered(defragmenter: &Defragmenter<SimulatedGpu>, size: u64, number: u32) -> Arc<Buffer<SimulatedGpu>> {
    let buffer = defragmenter.create_buffer(&BufferDesc::new(size), &options()).unwrap();
    buffer.write(0, &(100 * number).to_le_bytes()).unwrap();
    buffer.write(256, &(100 * number + 1).to_le_bytes()).unwrap();
    Arc::new(buffer)
}

impl Scene {
    /// The buffer that a step moves.
    fn moving(&self) -> &Arc<Buffer<SimulatedGpu>> {
        &self.buffers[3]
    }

    fn layout(&self, bindings: &[Binding]) -> BindingLayout<SimulatedGpu> {
        BindingLayout::new(&self.heap, &self.staging, bindings).unwrap()
    }

    /// A set of the first buffer that stays and the one that moves.
    fn set(&self) -> BindingSet<SimulatedGpu> {
        let mut set = BindingSet::new(&self.layout(&[Binding::mutable("numbers").array(3)])).unwrap();
        bind(&mut set, 0, &self.buffers[0], 0);
        bind(&mut set, 1, self.moving(), 0);
        bind(&mut set, 2, self.moving(), 256);
        set
    }

    fn slot(&self) -> DescriptorSlot {
        self.heap.insert_buffer(self.moving(), 0..256, BufferUse::ReadOnly).unwrap()
    }

    fn step(&self) -> u32 {
        self.defragmenter.step(PassLimits::NONE).unwrap().statistics.moves
    }
}

fn bind(set: &mut BindingSet<SimulatedGpu>, at: u32, buffer: &Arc<Buffer<SimulatedGpu>>, start: u64) {
    set.bind_buffer(0, at, buffer, start..start + 256, BufferUse::ReadOnly).unwrap();
}

/// Reads through a set, and through slots.
fn read(
    rig: &Rig,
    heap: &Heap,
    set: Option<&BindingSet<SimulatedGpu>>,
    slots: &[DescriptorSlot],
) -> Vec<u32> {
    let recording = rig.record();
    let mut view = heap.begin(&recording).unwrap();
    let mut indices = Vec::new();
    if let Some(set) = set {
        let draw = set.commit(&mut view).unwrap();
        for table in [draw.table, draw.dynamic].into_iter().flatten() {
            indices.extend(table.first..table.first + table.count);
        }
    }
    indices.extend(slots.iter().map(|slot| slot.index()));
    let reading = rig.submit_reads(recording, view.heap(), &indices);
    drop(view);
    reading.wait()
}

/// Waits until the copy has been made and the old places are gone.
fn settle(rig: &Rig, scene: &Scene) {
    rig.wait_idle();
    for _ in 0..2 {
        rig.memory.deletion_queue().reclaim();
        scene.heap.reclaim();
    }
}

#[test]
fn a_set_that_is_followed_costs_another_range_and_no_heap() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let (set, slots) = (scene.set(), scene.heap.statistics().slots.used);
    let allocations = rig.allocator.statistics().allocations;
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [100, 400, 401]);
    assert_eq!(scene.step(), 1);
    let after = scene.heap.statistics();
    assert_eq!((after.generation, after.tables.used, after.slots.used), (0, 6, slots));
    settle(&rig, &scene);
    assert_eq!(scene.heap.statistics().tables.used, 3, "the old range is free");
    assert_eq!(rig.allocator.statistics().allocations, allocations, "and the old place");
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [100, 400, 401]);
    rig.assert_no_complaints();
}

#[test]
fn a_step_that_moves_nothing_of_a_heap_leaves_the_heap_alone() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let mut set = BindingSet::new(&scene.layout(&[Binding::mutable("number")])).unwrap();
    bind(&mut set, 0, &scene.buffers[0], 0);
    let slot = scene.heap.insert_buffer(&scene.buffers[1], 0..256, BufferUse::ReadOnly).unwrap();
    let before = scene.heap.statistics();
    assert_eq!(scene.step(), 1);
    assert_eq!(scene.heap.statistics(), before);
    settle(&rig, &scene);
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[slot]), [100, 200]);
    rig.assert_no_complaints();
}

#[test]
fn a_slot_keeps_its_index_and_recordings_of_before_keep_their_heap() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let (slot, allocations) = (scene.slot(), rig.allocator.statistics().allocations);
    let before = rig.record().only_reads();
    let view = scene.heap.begin(&before).unwrap();
    assert_eq!(scene.step(), 1);
    assert_eq!(scene.heap.statistics().generation, 1);
    rig.wait_idle();
    // Only the new place has this.
    scene.moving().write(0, &7_u32.to_le_bytes()).unwrap();
    assert_eq!(read(&rig, &scene.heap, None, &[slot]), [7]);
    assert_eq!(rig.submit_reads(before, view.heap(), &[slot.index()]).wait(), [400], "not 7");
    drop(view);
    settle(&rig, &scene);
    assert_eq!(rig.allocator.statistics().allocations, allocations);
    rig.assert_no_complaints();
}

#[test]
fn nothing_moves_while_the_previous_heap_is_in_use() {
    let rig = Rig::new();
    let mut scene = scene(&rig, 64);
    let slot = scene.slot();
    let recording = rig.record().only_reads();
    let view = scene.heap.begin(&recording).unwrap();
    assert_eq!(scene.step(), 1);
    // Another hole, for the next run.
    let more = numbered(&scene.defragmenter, MIB, 5);
    scene.buffers.remove(0);
    settle(&rig, &scene);
    let calls = rig.device.fallible_calls();
    for _ in 0..600 {
        assert_eq!(scene.defragmenter.step(PassLimits::NONE).unwrap().outcome, StepOutcome::LimitReached);
    }
    assert_eq!(rig.device.fallible_calls(), calls, "and nothing is created only to be given up");
    drop((recording, view));
    settle(&rig, &scene);
    let moves: u32 = (0..600).map(|_| scene.step()).sum();
    assert!(moves > 0, "the block was not given up meanwhile");
    rig.wait_idle();
    assert_eq!(read(&rig, &scene.heap, None, &[slot]), [400]);
    drop(more);
    rig.assert_no_complaints();
}

/// The old place of what a step moves is gone before the heap reclaims what named it: a range of a table that the step
/// rewrote, or that its set left before; a slot that was removed.
#[test]
fn a_heap_that_a_step_replaces_names_nothing_of_where_resources_were_before() {
    for left in ["the range before the step", "by a plain descriptor", "by another buffer", "a slot"] {
        let rig = Rig::new();
        let mut scene = scene(&rig, 64);
        let mut set = scene.set();
        let mut expected = [100, 400, 401, 500];
        assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), expected[..3]);
        rig.wait_idle();
        match left {
            "by a plain descriptor" => {
                set.bind(0, 1, &rig.number(5), None).unwrap();
                expected[1] = crate::rig::value(5);
            }
            "by another buffer" => {
                bind(&mut set, 0, &scene.buffers[2], 0);
                expected[0] = 300;
            }
            "a slot" => scene.heap.remove(scene.slot()).unwrap(),
            _ => {}
        }
        assert_eq!(scene.step(), 1);
        rig.wait_idle();
        rig.memory.deletion_queue().reclaim();
        let next = numbered(&scene.defragmenter, MIB, 5);
        let slot = scene.heap.insert_buffer(&next, 0..256, BufferUse::ReadOnly).unwrap();
        scene.buffers.remove(1);
        rig.memory.deletion_queue().reclaim();
        assert_eq!((0..600).map(|_| scene.step()).sum::<u32>(), 1, "{left}");
        assert_eq!((next.moves(), scene.heap.statistics().generation), (1, 1), "a slot needs another heap");
        rig.wait_idle();
        assert_eq!(read(&rig, &scene.heap, Some(&set), &[slot]), expected, "{left}");
        settle(&rig, &scene);
        rig.assert_no_complaints();
    }
}

#[test]
fn a_recording_finds_a_table_that_a_step_has_rewritten_in_the_heap_that_it_began_with() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let set = scene.set();
    let recording = rig.record().only_reads();
    let mut view = scene.heap.begin(&recording).unwrap();
    scene.heap.compact().unwrap();
    assert_eq!(scene.step(), 1);
    let place = set.commit(&mut view).unwrap().table.unwrap();
    let indices: Vec<_> = (place.first..place.first + place.count).collect();
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), [100, 400, 401]);
    drop(view);
    settle(&rig, &scene);
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [100, 400, 401]);
    rig.assert_no_complaints();
}

#[test]
fn a_dynamic_binding_that_is_bound_again_lets_go_what_it_was_bound_to() {
    let rig = Rig::new();
    let mut scene = scene(&rig, 64);
    let mut set = BindingSet::new(&scene.layout(&[Binding::dynamic("number")])).unwrap();
    bind(&mut set, 0, scene.moving(), 0);
    let first = Arc::downgrade(scene.moving());
    bind(&mut set, 0, &scene.buffers[0], 0);
    scene.buffers.truncate(1);
    settle(&rig, &scene);
    assert!(first.upgrade().is_none());
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [100]);
    rig.assert_no_complaints();
}

#[test]
fn a_heap_without_room_for_another_range_keeps_the_resource_where_it_is() {
    let rig = Rig::new();
    let scene = scene(&rig, 4);
    let set = scene.set();
    assert_eq!((0..3).map(|_| scene.step()).sum::<u32>(), 0);
    assert_eq!((scene.moving().moves(), scene.heap.statistics().tables.used), (0, 3));
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [100, 400, 401]);
    scene.heap.grow(16, 64, 64).unwrap();
    assert_eq!((0..600).map(|_| scene.step()).sum::<u32>(), 1, "now there is room");
    settle(&rig, &scene);
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [100, 400, 401]);
    rig.assert_no_complaints();
}

#[test]
fn a_step_that_fails_at_any_call_leaves_descriptors_that_are_right() {
    let mut calls = 1;
    let mut moved = 0;
    for k in 1..100 {
        let rig = Rig::new();
        let scene = scene(&rig, 64);
        let images: Vec<_> = (0..5_u64).map(|i| Arc::new(image(&scene.defragmenter, 600 + i))).collect();
        let kept = images.last().unwrap().clone();
        drop(images);
        rig.memory.deletion_queue().reclaim();
        let (set, slot) = (scene.set(), scene.slot());
        // SAFETY: images of the simulated device can be used for anything.
        let of_image = unsafe { scene.heap.insert_image(&kept, &SimulatedImageUse::Storage) }.unwrap();
        rig.device.fail_call(k, DeviceError::OutOfDeviceMemory);
        let before = rig.device.fallible_calls();
        match scene.defragmenter.step(PassLimits::NONE) {
            Ok(step) => moved += step.statistics.moves,
            Err(DefragmentationError::Device(DeviceError::OutOfDeviceMemory)) => {}
            Err(error) => panic!("call {k}: {error}"),
        }
        calls = calls.max(rig.device.fallible_calls() - before);
        rig.device.clear_faults();
        settle(&rig, &scene);
        for _ in 0..2 {
            let found = read(&rig, &scene.heap, Some(&set), &[slot, of_image]);
            assert_eq!(found, [100, 400, 401, 400, found[4]], "call {k}");
            // A heap that is a copy of the mirror names nothing that is gone.
            scene.heap.compact().unwrap();
        }
        // Nobody waits for the step that failed.
        drop((scene.set(), scene.slot(), set));
        rig.assert_no_complaints();
        if k > calls {
            assert!(moved > 0 && calls > 4, "{moved} moved, {calls} calls");
            return;
        }
    }
    panic!("it never succeeds");
}

fn image(defragmenter: &Defragmenter<SimulatedGpu>, width: u64) -> Image<SimulatedGpu> {
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("followed");
    let image = defragmenter.create_image(&ImageDesc::new(width as u32, 400, 4), &options).unwrap();
    // SAFETY: the simulated device has one state.
    unsafe { image.set_state(()) };
    image
}

#[test]
fn a_lost_device_ends_a_step_and_no_set() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let (mut set, slot) = (scene.set(), scene.slot());
    rig.device.lose_device();
    let step = scene.defragmenter.step(PassLimits::NONE);
    assert!(
        step.as_ref().map_or_else(
            |error| matches!(error, DefragmentationError::Device(_)),
            |step| step.statistics.moves == 0
        ),
        "{step:?}"
    );
    assert_eq!(scene.moving().moves(), 0);
    bind(&mut set, 0, scene.moving(), 0);
    scene.heap.remove(slot).unwrap();
    let recording = rig.record();
    set.commit(&mut scene.heap.begin(&recording).unwrap()).unwrap();
}

#[test]
fn what_is_dropped_before_a_step_is_not_followed_and_goes() {
    for order in 0..6 {
        let rig = Rig::new();
        let allocations = rig.allocator.statistics().allocations;
        let mut scene = scene(&rig, 64);
        let (mut set, slot) = (scene.set(), scene.slot());
        read(&rig, &scene.heap, Some(&set), &[slot]);
        if order % 2 == 0 {
            bind(&mut set, 0, &scene.buffers[1], 0);
            read(&rig, &scene.heap, Some(&set), &[]);
        }
        let weak = Arc::downgrade(scene.moving());
        match order {
            0 | 1 => {
                drop(set);
                scene.heap.remove(slot).unwrap();
                assert_eq!(scene.step(), 1);
            }
            2 | 3 => {
                // The slot is the only owner.
                let last = scene.buffers.pop();
                drop((set, last));
                assert_eq!(scene.step(), 1);
                rig.wait_idle();
                assert_eq!(read(&rig, &scene.heap, None, &[slot]), [400]);
                scene.heap.remove(slot).unwrap();
            }
            _ => {
                assert_eq!(scene.step(), 1);
                scene.heap.remove(slot).unwrap();
                drop(set);
            }
        }
        scene.buffers.clear();
        settle(&rig, &scene);
        assert!(weak.upgrade().is_none(), "order {order}");
        assert_eq!(scene.heap.statistics().tables.used + scene.heap.statistics().slots.used, 0);
        scene.heap.compact().unwrap();
        settle(&rig, &scene);
        assert_eq!(rig.allocator.statistics().allocations, allocations, "order {order}");
        rig.assert_no_complaints();
    }
}

#[test]
fn one_resource_is_followed_in_several_sets_and_heaps() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let other = Scene {
        heap: Arc::new(rig.resources(4, 64, 16)),
        staging: rig.staging(64),
        buffers: scene.buffers.clone(),
        defragmenter: Defragmenter::new(&rig.memory, DefragmenterDesc::default()).unwrap(),
    };
    let sets = [scene.set(), scene.set(), other.set(), other.set()];
    let slots = [scene.slot(), scene.slot(), other.slot()];
    assert_eq!(scene.step(), 1);
    rig.wait_idle();
    scene.moving().write(0, &7_u32.to_le_bytes()).unwrap();
    for set in &sets[..2] {
        assert_eq!(read(&rig, &scene.heap, Some(set), &slots[..2]), [100, 7, 401, 7, 7]);
    }
    for set in &sets[2..] {
        assert_eq!(read(&rig, &other.heap, Some(set), &slots[2..]), [100, 7, 401, 7]);
    }
    // A heap that is gone keeps no step from moving.
    drop((sets, other));
    settle(&rig, &scene);
    rig.assert_no_complaints();
}

#[test]
fn a_set_that_is_bound_again_after_a_move_does_not_change_what_is_in_flight() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let mut set = scene.set();
    let recording = rig.record().only_reads();
    let mut view = scene.heap.begin(&recording).unwrap();
    let early = set.commit(&mut view).unwrap().table.unwrap();
    assert_eq!(scene.step(), 1);
    rig.wait_idle();
    scene.moving().write(0, &7_u32.to_le_bytes()).unwrap();
    bind(&mut set, 0, &scene.buffers[2], 0);
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [300, 7, 401]);
    bind(&mut set, 1, &scene.buffers[1], 0);
    set.bind(0, 2, &rig.number(5), None).unwrap();
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), [300, 200, crate::rig::value(5)]);
    let indices: Vec<_> = (early.first..early.first + early.count).collect();
    assert_eq!(rig.submit_reads(recording, view.heap(), &indices).wait(), [100, 400, 401]);
    drop(view);
    settle(&rig, &scene);
    rig.assert_no_complaints();
}

#[test]
fn a_dynamic_binding_is_of_the_resource_as_it_is_at_each_commit() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let layout = scene.layout(&[Binding::dynamic("numbers").array(2), Binding::dynamic("texels")]);
    let mut set = BindingSet::new(&layout).unwrap();
    let albedo = Arc::new(image(&scene.defragmenter, 16));
    bind(&mut set, 0, scene.moving(), 0);
    bind(&mut set, 1, &scene.buffers[0], 0);
    // SAFETY: images of the simulated device can be used for anything.
    unsafe { set.bind_image(1, 0, &albedo, &SimulatedImageUse::Storage) }.unwrap();
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[])[..2], [400, 100]);
    assert!(scene.step() >= 1);
    settle(&rig, &scene);
    scene.moving().write(0, &7_u32.to_le_bytes()).unwrap();
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[])[..2], [7, 100]);
    set.bind(0, 0, &rig.number(3), None).unwrap();
    assert_eq!(read(&rig, &scene.heap, Some(&set), &[])[..2], [crate::rig::value(3), 100]);
    rig.assert_no_complaints();
}

#[test]
fn a_dynamic_binding_of_an_image_has_a_view_of_where_the_image_is_at_each_commit() {
    let rig = Rig::new();
    let scene = scene(&rig, 64);
    let mut images: Vec<_> = (0..5).map(|_| Arc::new(image(&scene.defragmenter, 600))).collect();
    let set = |image| {
        let mut set = BindingSet::new(&scene.layout(&[Binding::dynamic("texels")])).unwrap();
        // SAFETY: images of the simulated device can be used for anything.
        unsafe { set.bind_image(0, 0, image, &SimulatedImageUse::Storage) }.unwrap();
        set
    };
    let sets: Vec<_> = images.iter().map(set).collect();
    let before: Vec<_> = sets.iter().map(|set| read(&rig, &scene.heap, Some(set), &[])).collect();
    drop(images.remove(0));
    let mut sets = sets.into_iter();
    drop(sets.next());
    settle(&rig, &scene);
    let moves: u32 = (0..600).map(|_| scene.step()).sum();
    let moved: u32 = images.iter().map(|image| image.moves()).sum();
    assert!(moves > 0 && moved > 0, "{moves} moves, {moved} of images");
    settle(&rig, &scene);
    for (set, before) in sets.zip(&before[1..]) {
        assert_eq!(read(&rig, &scene.heap, Some(&set), &[]), *before);
    }
    rig.assert_no_complaints();
}

#[test]
fn threads_bind_commit_and_drop_sets_and_slots_while_their_resources_are_moved() {
    let rig = Rig::new();
    let scene = scene(&rig, 2048);
    let (done, moves, writing) = (AtomicU32::new(0), AtomicU32::new(0), RwLock::new(()));
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (rig, scene, done, moves, writing) = (&rig, &scene, &done, &moves, &writing);
            scope.spawn(move || {
                let layout = scene.layout(&[Binding::mutable("numbers").array(2)]);
                let mut live = Vec::new();
                for round in 0.. {
                    // Until something was moved as well, which is certain to happen.
                    if round >= 120 && moves.load(Relaxed) > 0 {
                        break;
                    }
                    let number = thread * 10_000_000 + round;
                    let buffer = created(scene, number);
                    let mut set = BindingSet::new(&layout).unwrap();
                    bind(&mut set, 0, &buffer, 0);
                    bind(&mut set, 1, &scene.buffers[0], 0);
                    let slot = scene.heap.insert_buffer(&buffer, 256..512, BufferUse::ReadOnly);
                    live.push((set, slot.ok(), number, buffer));
                    if live.len() > 12 {
                        // Most of them, so that blocks are worth emptying.
                        for _ in 0..8 {
                            let (set, slot, ..) = live.swap_remove(round as usize * 7 % live.len());
                            drop(set);
                            slot.into_iter().for_each(|slot| scene.heap.remove(slot).unwrap());
                        }
                    }
                    let may_write = (round % 8 == 0).then(|| writing.read().unwrap());
                    let recording = rig.record();
                    let recording = if may_write.is_some() { recording } else { recording.only_reads() };
                    let mut view = scene.heap.begin(&recording).unwrap();
                    let (mut indices, mut expected) = (Vec::new(), Vec::new());
                    for (set, slot, number, _) in &live {
                        // A table that is newer than the heap of the recording has no place in it.
                        let Ok(draw) = set.commit(&mut view) else { continue };
                        indices.extend([draw.table.unwrap().first, draw.table.unwrap().first + 1]);
                        expected.extend([100 * number, 100]);
                        indices.extend(slot.map(DescriptorSlot::index));
                        expected.extend(slot.map(|_| 100 * number + 1));
                    }
                    let found = rig.submit_reads(recording, view.heap(), &indices).wait();
                    assert_eq!(found, expected, "thread {thread}, round {round}");
                    drop(view);
                    scene.heap.reclaim();
                    rig.memory.deletion_queue().reclaim();
                }
                done.fetch_add(1, Relaxed);
                for (set, slot, ..) in live {
                    drop(set);
                    slot.into_iter().for_each(|slot| scene.heap.remove(slot).unwrap());
                }
            });
        }
        // Without a recording that keeps everything in its place, a step empties a block as soon as there are holes.
        let none_writes = writing.write().unwrap();
        let mut scattered = Vec::new();
        while moves.load(Relaxed) == 0 {
            let many: Vec<_> = (0..16).map(|number| created(&scene, number)).collect();
            scattered = many.into_iter().step_by(4).collect();
            // What was dropped goes when the threads' recordings are over.
            rig.memory.deletion_queue().reclaim();
            moves.fetch_add(scene.step(), Relaxed);
            std::thread::yield_now();
        }
        drop((none_writes, scattered));
        while done.load(Relaxed) < 3 {
            moves.fetch_add(scene.step(), Relaxed);
            rig.memory.deletion_queue().reclaim();
            scene.heap.reclaim();
            std::thread::yield_now();
        }
    });
    settle(&rig, &scene);
    rig.allocator.check_invariants();
    rig.assert_no_complaints();
}

/// A buffer with its numbers, which a step may move as soon as it exists.
fn created(scene: &Scene, number: u32) -> Arc<Buffer<SimulatedGpu>> {
    let size = 256 << 10;
    let buffer = scene.defragmenter.create_buffer(&BufferDesc::new(size), &options()).unwrap();
    for (at, value) in [(0, 100 * number), (256, 100 * number + 1)] {
        while buffer.write(at, &value.to_le_bytes()).is_err() {
            std::thread::yield_now();
        }
    }
    Arc::new(buffer)
}
