//! Which memory transient resources have on each device, and what is not kept where that changes.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DeviceError, ImageDesc, MemoryDevice as _, MemoryProperties, QueueIndex, SharingMode,
};
use allotment::gpu::TransientHeapError;
use allotment::lifetime::TimelinePoints;
use allotment::transient::{HeapLimits, TransientPass};

use crate::in_turn::{KINDS, allocated, calls_of};
use crate::rig::{QUEUE, Rig, empty_submission, plan_of};

/// A buffer of any size that any place suits.
fn anywhere(size: u64) -> BufferDesc {
    BufferDesc::new(size).with_usage(SimulatedGpu::ANYWHERE)
}

#[test]
fn on_every_device_each_resource_is_where_it_may_be_and_shares_no_page_with_another_kind() {
    for profile in Profile::all() {
        let page = profile.limits.buffer_image_granularity.get();
        let mut rig = Rig::on(profile.name, HeapLimits::default());
        for round in 0..6 {
            let frame = rig.frame();
            let mut graph = frame.transient(&mut rig.heap).unwrap();
            let pass = graph.pass(QUEUE, &[]).unwrap();
            let mut alone = ImageDesc::new(16, 16, 4);
            alone.usage = SimulatedGpu::REQUIRES_DEDICATED;
            // Not in the order of their sizes, and more in every second frame.
            let images =
                [("small", ImageDesc::new(5, 3, 4)), ("lit", ImageDesc::new(64, 64, 4)), ("alone", alone)];
            let images = images.map(|(name, desc)| graph.image(name, &desc, &[pass]).unwrap());
            let buffers = [("odd", anywhere(101)), ("counters", BufferDesc::new(260))];
            let more = [("more", anywhere(70_001)), ("beside", BufferDesc::new(8200))];
            let buffers = buffers.iter().chain(more.iter().filter(|_| round % 2 == 1));
            let buffers: Vec<_> =
                buffers.map(|(name, desc)| graph.buffer(*name, desc, &[pass]).unwrap()).collect();
            let transient = graph.plan().unwrap();
            let [.., alone] = images;
            assert!(transient.plan().placement(alone.resource()).is_none(), "{}", profile.name);
            for first in transient.first_uses(pass) {
                let is_placed = transient.plan().placement(first.resource).is_some();
                assert_eq!(first.shares_memory, is_placed, "{}: {first:?}", profile.name);
            }
            let images = images.iter().map(|&it| (true, transient.image(it).info()));
            let buffers = buffers.iter().map(|&it| (false, transient.buffer(it).info()));
            let all: Vec<_> = images.chain(buffers).collect();
            for (at, (is_image, one)) in all.iter().enumerate() {
                for (other_is_image, other) in &all[..at] {
                    let unit = if is_image == other_is_image { 1 } else { page };
                    let is_below = |low: u64, size: u64, high: u64| (low + size - 1) / unit < high / unit;
                    let is_apart = one.memory != other.memory
                        || is_below(one.offset, one.size, other.offset)
                        || is_below(other.offset, other.size, one.offset);
                    assert!(is_apart, "{}: {one:?}, {other:?}", profile.name);
                }
            }
            frame.end().unwrap();
        }
        rig.finish();
    }
}

#[test]
fn memory_whose_place_is_not_aligned_for_a_resource_is_not_kept_for_it() {
    let mut rig = Rig::on("d3d12-tier-2", HeapLimits::default());
    // So that what any place suits begins at one that suits no image.
    let before =
        rig.gpu.create_buffer(&anywhere(100), &allotment::MemoryUsage::GpuOnly.with_name("before")).unwrap();
    let desc = ImageDesc::new(192, 256, 4);
    let frame = rig.frame();
    let mut graph = frame.transient(&mut rig.heap).unwrap();
    let pass = graph.pass(QUEUE, &[]).unwrap();
    let odd = graph.buffer("odd", &anywhere(200_000), &[pass]).unwrap();
    let transient = graph.plan().unwrap();
    assert_ne!(transient.buffer(odd).info().offset % (64 << 10), 0);
    frame.end().unwrap();
    let frame = rig.frame();
    let mut graph = frame.transient(&mut rig.heap).unwrap();
    let pass = graph.pass(QUEUE, &[]).unwrap();
    let lit = graph.image("lit", &desc, &[pass]).unwrap();
    let transient = graph.plan().unwrap();
    assert_eq!(transient.image(lit).info().offset % (64 << 10), 0);
    frame.end().unwrap();
    drop(before);
    rig.finish();
}

#[test]
fn of_frames_in_turn_one_needs_the_size_and_another_the_alignment_of_their_memory() {
    let mut rig = Rig::on("d3d12-tier-2", HeapLimits::default());
    let mut calls = Vec::new();
    for number in 0..12 {
        let before = rig.device.fallible_calls();
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        if number % 2 == 0 {
            graph.buffer("odd", &anywhere(200_000), &[pass]).unwrap();
        } else {
            graph.image("lit", &ImageDesc::new(64, 64, 4), &[pass]).unwrap();
        }
        graph.plan().unwrap();
        frame.end().unwrap();
        calls.push(rig.device.fallible_calls() - before);
    }
    assert_eq!(calls[6..], [0; 6]);
    rig.finish();
}

#[test]
fn a_history_is_not_kept_where_its_memory_had_to_grow() {
    let mut rig = Rig::new(HeapLimits::default());
    for (beside, is_kept) in [(64, false), (64, true), (1 << 20, false), (1 << 20, true)] {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let [read, fill] = [(); 2].map(|()| graph.pass(QUEUE, &[]).unwrap());
        let history = graph.history_buffer("exposure", &BufferDesc::new(4096), &[fill], &[read]).unwrap();
        graph.buffer("beside", &BufferDesc::new(beside), &[read, fill]).unwrap();
        let transient = graph.plan().unwrap();
        assert_eq!(transient.is_kept(history.resource()), is_kept, "beside {beside} bytes");
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn a_history_outlives_its_passes_so_its_memory_is_not_allocated_lazily() {
    let mut rig = Rig::on("mobile", HeapLimits::default());
    let desc = ImageDesc::new(64, 64, 4);
    let frame = rig.frame();
    let mut graph = frame.transient(&mut rig.heap).unwrap();
    let [read, fill] = [(); 2].map(|()| graph.pass(QUEUE, &[]).unwrap());
    let history = graph.history_image("accumulated", &desc, &[fill], &[read]).unwrap();
    let depth = graph.image("depth", &desc, &[fill]).unwrap();
    let transient = graph.plan().unwrap();
    let is_lazy = [history, depth].map(|image| {
        let memory_type = transient.image(image).info().memory_type;
        let properties = rig.device.properties().memory_type(memory_type).unwrap().properties;
        properties.contains(MemoryProperties::LAZILY_ALLOCATED)
    });
    assert_eq!(is_lazy, [false, true]);
    frame.end().unwrap();
    rig.finish();
}

#[test]
fn a_pass_waits_for_what_earlier_passes_of_its_queue_wait_for_and_not_for_what_others_do() {
    let mut rig = Rig::new(HeapLimits::default());
    let queues = [QUEUE, QueueIndex(1), QueueIndex(2)];
    let desc = BufferDesc::new(4096).with_sharing_mode(SharingMode::Concurrent);
    for round in 0..3 {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        // Two passes on each queue. The first ones of two queues read what the last one of another has filled.
        let mut passes: Vec<TransientPass> = Vec::new();
        for at in 0..6 {
            let waits_for: &[usize] = [&[][..], &[], &[], &[], &[0], &[1]][at];
            let waits_for: Vec<TransientPass> = waits_for.iter().map(|&other| passes[other]).collect();
            passes.push(graph.pass(queues[at % 3], &waits_for).unwrap());
        }
        graph.history_buffer("for the first", &desc, &[passes[4]], &[passes[0]]).unwrap();
        graph.history_buffer("for the second", &desc, &[passes[5]], &[passes[1]]).unwrap();
        let transient = graph.plan().unwrap();
        let waited = |pass: usize| -> Vec<QueueIndex> {
            transient.waits(&[passes[pass]]).points().map(|point| point.queue).collect()
        };
        if round > 0 {
            assert_eq!((waited(0), waited(3)), (vec![queues[1]], vec![queues[1]]), "the later one as well");
            assert_eq!((waited(1), waited(4)), (vec![queues[2]], vec![queues[2]]));
            assert_eq!((waited(2), waited(5)), (vec![], vec![]));
        }
        for (at, &pass) in passes.iter().enumerate() {
            let waits = transient.waits(&[pass]);
            let mut room = TimelinePoints::ROOM;
            let point = frame
                .submit_after(queues[at % 3], waits.as_slice(&mut room), empty_submission(&rig.device))
                .unwrap();
            transient.submitted(&[pass], point);
        }
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn what_has_less_memory_than_before_follows_nothing_in_it() {
    let mut rig = Rig::new(HeapLimits::default());
    let mut moved = 0;
    for number in 0..24 {
        let size = rig.heap.size();
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        graph.buffer("lit", &BufferDesc::new(4096), &[pass]).unwrap();
        if number < 8 && number % 2 == 1 {
            graph.buffer("clouds", &BufferDesc::new(1 << 20), &[pass]).unwrap();
        }
        let transient = graph.plan().unwrap();
        let first = transient.first_uses(pass).next().unwrap();
        let before = first.before.is_some();
        transient.submitted(&[pass], frame.submit(QUEUE, empty_submission(&rig.device)).unwrap());
        frame.end().unwrap();
        if number > 8 {
            let is_moved = rig.heap.size() < size;
            assert_eq!(before, !is_moved, "in frame {number}");
            moved += u32::from(is_moved);
        }
    }
    assert_eq!(moved, 1);
    rig.finish();
}

#[test]
fn a_release_gives_back_what_frames_in_turn_have_kept() {
    let mut rig = Rig::new(HeapLimits::default());
    for frame in 0..12 {
        plan_of(&mut rig, &[], KINDS[frame % 3].0).unwrap();
    }
    assert!(rig.heap.size() > 0);
    rig.heap.release();
    assert_eq!(rig.heap.size(), 0);
    assert_eq!(allocated(&rig), 0);
    assert_eq!(rig.device.usage().buffers, 0);
    rig.finish();
}

#[test]
fn what_was_kept_for_frames_in_turn_is_given_up_where_memory_is_refused() {
    let mut rig = Rig::new(HeapLimits::default());
    for frame in 0..12 {
        plan_of(&mut rig, &[], KINDS[frame % 3].0).unwrap();
    }
    let buffers = |rig: &Rig| {
        rig.gpu.wait_idle().unwrap();
        rig.gpu.reclaim();
        rig.device.usage().buffers
    };
    assert!(buffers(&rig) > 2);
    // After the requirements of the new one: its memory.
    rig.device.fail_from(2, DeviceError::OutOfDeviceMemory);
    let refused = plan_of(&mut rig, &[], &[("huge", 64 << 20)]).unwrap_err();
    assert!(matches!(refused, TransientHeapError::Memory(_)), "{refused}");
    rig.device.clear_faults();
    assert_eq!(buffers(&rig), 2, "those of the frame before");
    rig.finish();
}

#[test]
fn a_heap_is_no_larger_than_an_allocation_may_be() {
    let mut profile = Profile::named("discrete-large-bar").unwrap();
    profile.limits.max_allocation_size = 64 << 20;
    let mut rig = Rig::of(profile, HeapLimits::default());
    plan_of(&mut rig, &[], &[("one", 40 << 20), ("two", 40 << 20), ("three", 20 << 20)]).unwrap();
    assert_eq!(rig.heap.plan().size(), 60 << 20);
    assert_eq!(allocated(&rig), 100 << 20, "one of them has memory of its own");
    rig.finish();
}

#[test]
fn two_heaps_of_a_plan_are_two_parts_of_memory_whatever_they_were_before() {
    let mut rig = Rig::new(HeapLimits::default().with_heaps(2, 1024 << 10));
    // The second time, each heap would fit the smaller one of before best.
    for sizes in [[1024, 800], [790, 700], [1000, 795]] {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        let buffers = [("one", sizes[0]), ("two", sizes[1])]
            .map(|(name, kib)| graph.buffer(name, &BufferDesc::new(kib << 10), &[pass]).unwrap());
        let transient = graph.plan().unwrap();
        assert_eq!(transient.plan().heaps().len(), 2);
        let [one, two] = buffers.map(|it| transient.buffer(it).info());
        let is_apart = one.memory != two.memory
            || one.offset + one.size <= two.offset
            || two.offset + two.size <= one.offset;
        assert!(is_apart, "{one:?}, {two:?}");
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn one_name_with_two_descriptions_in_turn_stays_two_where_other_names_are_forgotten() {
    let mut rig = Rig::new(HeapLimits::default());
    let mut calls = Vec::new();
    for number in 0..16 {
        if number == 8 {
            let frame = rig.frame();
            let mut graph = frame.transient(&mut rig.heap).unwrap();
            let pass = graph.pass(QUEUE, &[]).unwrap();
            for other in 0..300 {
                graph.buffer(format!("never planned {other}"), &BufferDesc::new(64), &[pass]).unwrap();
            }
            drop(graph);
            frame.end().unwrap();
        }
        calls.push(calls_of(&mut rig, &[("lit", 4096 << (number % 2))]));
    }
    assert_eq!(calls[8..], [0; 8]);
    rig.finish();
}
