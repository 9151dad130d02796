//! What a transient heap creates, keeps and frees, and what it refuses.

use std::sync::Arc;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, BufferUse, BufferViewDesc, DeviceError, ImageDesc, ImageViewDesc, QueueIndex, SharingMode,
};
use allotment::gpu::{Frame as GpuFrame, TransientHeap, TransientHeapError, TransientObject};
use allotment::lifetime::TimelinePoints;
use allotment::memory::AccessError;
use allotment::transient::{HeapLimits, TransientError, TransientPass};
use allotment::upload::ReadError;
use proptest::prelude::*;

use crate::amount::scaled;
use crate::counting;
use crate::frames::Frame;
use crate::plans::without_overlapping_histories;
use crate::random::frames;
use crate::rig::{QUEUE, Rig, empty_submission, plan_of};

/// Frames one after the other, each described as the one before or otherwise.
fn series() -> impl Strategy<Value = Vec<(Frame, bool)>> {
    let two = (frames(7, 9), frames(7, 9));
    (two, prop::collection::vec((0..5_u8, any::<bool>()), 3..16)).prop_map(|((mut one, mut other), picks)| {
        without_overlapping_histories(&mut one);
        without_overlapping_histories(&mut other);
        // Now and then nothing is drawn.
        let kinds = [one.clone(), other.clone(), one, other, Frame::default()];
        picks
            .into_iter()
            .map(|(kind, noted)| (kinds[usize::from(kind) % kinds.len()].clone(), noted))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(300) as u32, ..ProptestConfig::default() })]

    #[test]
    fn every_pass_finds_what_was_written_and_no_two_race(
        series in series(),
        limits in prop_oneof![Just(HeapLimits::default()), Just(HeapLimits::default().with_heaps(2, 1024))],
    ) {
        let mut rig = Rig::new(limits);
        for (frame, is_noted) in &series {
            // A history is one of the frame before with the same names.
            rig.filled.resize(frame.resources.len(), None);
            rig.execute(frame, *is_noted);
        }
        rig.compare();
        rig.finish();
    }
}

/// Describes a frame of one queue with some targets, one pass after the other. `side` is that of the first.
fn targets<'a>(
    rig: &'a mut TransientHeap<SimulatedGpu>,
    frame: &'a GpuFrame<SimulatedGpu>,
    side: u32,
) -> (allotment::gpu::TransientResources<'a, SimulatedGpu>, Vec<allotment::gpu::TransientImage>) {
    let mut graph = frame.transient(rig).unwrap();
    let passes: Vec<TransientPass> = (0..5).map(|_| graph.pass(QUEUE, &[]).unwrap()).collect();
    let images = ["shadows", "albedo", "lit", "bright"];
    let images = images.iter().enumerate().map(|(at, &name)| {
        let desc = ImageDesc::new(if at == 0 { side } else { 64 }, 64, 4);
        graph.image(name, &desc, &passes[at..at + 2]).unwrap()
    });
    let images = images.collect();
    (graph.plan().unwrap(), images)
}

#[test]
fn a_frame_that_is_as_the_one_before_calls_no_driver_and_takes_no_host_memory() {
    let mut rig = Rig::new(HeapLimits::default());
    let view = ImageViewDesc::render_target();
    let mut before = Vec::new();
    for number in 0..4 {
        let frame = rig.gpu.begin_frame().unwrap();
        let (calls, host) = (rig.device.fallible_calls(), counting::of_this_thread());
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let passes = [(); 5].map(|()| graph.pass(QUEUE, &[]).unwrap());
        let desc = ImageDesc::new(64, 64, 4);
        let images = [(0, "shadows"), (1, "albedo"), (2, "lit"), (3, "bright")]
            .map(|(at, name)| graph.image(name, &desc, &passes[at..at + 2]).unwrap());
        let transient = graph.plan().unwrap();
        let views = images.map(|image| transient.image_view(image, &view).unwrap());
        transient.image_slot(images[2], &ImageViewDesc::sampled()).unwrap();
        assert!(transient.waits(&passes).is_empty());
        let used = (rig.device.fallible_calls() - calls, counting::of_this_thread() - host);
        // The second frame makes room for the description of a frame before.
        if number >= 2 {
            assert_eq!(used, (0, 0), "in frame {number}");
            assert!(views.iter().zip(&before).all(|(now, before)| Arc::ptr_eq(now, before)));
        }
        before = views.to_vec();
        frame.end().unwrap();
    }
    drop(before);
    rig.finish();
}

#[test]
fn the_bytes_that_are_allocated_are_those_of_the_plan() {
    let mut rig = Rig::new(HeapLimits::default());
    let frame = rig.frame();
    let (transient, images) = targets(&mut rig.heap, &frame, 64);
    let plan = transient.plan();
    assert!(plan.size() < plan.total_size());
    let statistics = rig.gpu.allocator().statistics();
    assert_eq!((statistics.allocations, statistics.allocation_bytes), (1, plan.size()));
    assert!(
        images
            .iter()
            .all(|&image| transient.image(image).info().memory == transient.image(images[0]).info().memory)
    );
    frame.end().unwrap();
    rig.finish();
}

#[test]
fn what_is_resized_is_another_image_and_the_others_stay_with_their_views() {
    let mut rig = Rig::new(HeapLimits::default().with_kept_percent(1000));
    let mut kept = Vec::new();
    for side in [64, 64, 32, 32] {
        let frame = rig.frame();
        let (transient, images) = targets(&mut rig.heap, &frame, side);
        let view = ImageViewDesc::render_target();
        let views: Vec<_> = images.iter().map(|&it| transient.image_view(it, &view).unwrap()).collect();
        kept.push((images.iter().map(|&it| transient.image(it).id()).collect::<Vec<_>>(), views));
        frame.end().unwrap();
    }
    assert_eq!(kept[0].0, kept[1].0);
    assert_ne!(kept[1].0[0], kept[2].0[0]);
    assert_eq!(kept[1].0[1..], kept[2].0[1..]);
    assert!(kept[1].1[1..].iter().zip(&kept[2].1[1..]).all(|(one, other)| Arc::ptr_eq(one, other)));
    assert_eq!(kept[2].0, kept[3].0);
    drop(kept);
    rig.finish();
}

#[test]
fn no_copy_of_the_library_comes_between_the_passes() {
    // Memory that the CPU maps too, so that it is refused in every way.
    for profile in ["discrete-large-bar", "integrated"] {
        let Some(profile) = Profile::named(profile) else { continue };
        let mut rig = Rig::on(profile.name, HeapLimits::default());
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        let buffer = graph.buffer("counters", &BufferDesc::new(256), &[pass]).unwrap();
        let image = graph.image("lit", &ImageDesc::new(64, 64, 4), &[pass]).unwrap();
        let transient = graph.plan().unwrap();
        let (buffer, image) = (transient.buffer(buffer), transient.image(image));
        assert!(!buffer.is_active() && !image.is_active());
        let refused = rig.gpu.uploads().write_buffer(buffer, 0, &[7; 16]).unwrap_err();
        assert!(refused.to_string().contains("\"counters\": it is transient"), "{refused}");
        rig.gpu.uploads().write_image(image, &[7; 64 * 64 * 4]).unwrap_err();
        let refused = rig.gpu.reads().read_buffer(buffer, 0, 16).unwrap_err();
        assert!(matches!(refused, ReadError::Access(AccessError::Transient { .. })), "{refused}");
        assert!(matches!(buffer.activate(), Err(AccessError::Transient { .. })));
        assert!(matches!(image.activate(), Err(AccessError::Transient { .. })));
        frame.end().unwrap();
        rig.finish();
    }
}

#[test]
fn a_call_that_the_driver_refuses_leaves_the_heap_as_it_was() {
    let mut call = 0;
    loop {
        let mut rig = Rig::new(HeapLimits::default());
        let frame = rig.frame();
        let (transient, images) = targets(&mut rig.heap, &frame, 64);
        let ids: Vec<_> = images.iter().map(|&it| transient.image(it).id()).collect();
        frame.end().unwrap();
        let usage = rig.device.usage();
        call += 1;
        rig.device.fail_call(call, DeviceError::OutOfDeviceMemory);
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let passes = [(); 5].map(|()| graph.pass(QUEUE, &[]).unwrap());
        let result = (|| {
            graph.image("shadows", &ImageDesc::new(256, 256, 4), &passes[..2])?;
            graph.buffer("counters", &BufferDesc::new(4096), &passes[2..4])?;
            graph.plan().map(|_| ())
        })();
        let is_reached = result.is_err();
        if let Err(refused) = result {
            assert!(
                matches!(
                    refused,
                    TransientHeapError::Device { .. }
                        | TransientHeapError::Memory(_)
                        | TransientHeapError::Resource(_)
                ),
                "{refused}"
            );
            rig.device.clear_faults();
            frame.end().unwrap();
            rig.gpu.wait_idle().unwrap();
            rig.gpu.reclaim();
            let now = rig.device.usage();
            assert_eq!((now.buffers, now.images), (usage.buffers, usage.images), "at call {call}");
            // The frame as it was finds the resources as they were.
            let frame = rig.frame();
            let (transient, images) = targets(&mut rig.heap, &frame, 64);
            let now: Vec<_> = images.iter().map(|&it| transient.image(it).id()).collect();
            assert_eq!(now, ids);
            frame.end().unwrap();
        } else {
            frame.end().unwrap();
        }
        rig.device.clear_faults();
        rig.finish();
        if !is_reached {
            break;
        }
    }
    assert!(call > 3, "only {call} calls");
}

#[test]
fn what_is_described_wrongly_is_named_and_changes_nothing() {
    let mut rig = Rig::new(HeapLimits::default());
    let other = Rig::new(HeapLimits::default());
    let frame = other.frame();
    assert_eq!(frame.transient(&mut rig.heap).unwrap_err(), TransientHeapError::WrongGpu);
    frame.end().unwrap();
    let frame = rig.frame();
    let mut graph = frame.transient(&mut rig.heap).unwrap();
    let passes = [(); 2].map(|()| graph.pass(QUEUE, &[]).unwrap());
    let desc = BufferDesc::new(256);
    let refused = graph.buffer("counters", &desc, &[]).unwrap_err();
    assert!(matches!(refused, TransientHeapError::Plan { source: TransientError::Unused { .. }, .. }));
    assert!(refused.to_string().starts_with("\"counters\": "), "{refused}");
    // The name is free after that.
    graph.buffer("counters", &desc, &passes).unwrap();
    let refused = graph.image("counters", &ImageDesc::new(1, 1, 4), &passes).unwrap_err();
    assert!(matches!(refused, TransientHeapError::NameUsedTwice { .. }), "{refused}");
    let refused = graph.image("none", &ImageDesc::new(0, 1, 4), &passes).unwrap_err();
    assert!(refused.to_string().starts_with("\"none\": the device refuses the description: "), "{refused}");
    let refused = graph.pass(QueueIndex(15), &[]).unwrap_err();
    assert!(
        refused.to_string().starts_with("the device refuses the description: the device has no queue 15"),
        "{refused}"
    );
    let refused = graph.history_buffer("history", &desc, &[passes[0]], &[]).unwrap_err();
    assert!(matches!(refused, TransientHeapError::Plan { source: TransientError::NotRead { .. }, .. }));
    graph.history_buffer("history", &desc, &[passes[0]], &[passes[1]]).unwrap();
    let refused = graph.plan().unwrap_err();
    assert!(refused.to_string().starts_with("\"history\": "), "{refused}");
    frame.end().unwrap();
    assert_eq!(rig.gpu.allocator().statistics().allocations, 0);
    rig.finish();
    other.finish();
}

#[test]
fn what_a_frame_does_not_need_any_more_waits_for_the_frames_in_flight() {
    let mut rig = Rig::new(HeapLimits::default());
    rig.device.pause_queues();
    let frame = rig.frame();
    let (transient, images) = targets(&mut rig.heap, &frame, 64);
    let held = Arc::clone(transient.image(images[0]));
    frame.submit(QUEUE, empty_submission(&rig.device)).unwrap();
    frame.end().unwrap();
    let images = rig.device.usage().images;
    rig.heap.release();
    rig.gpu.reclaim();
    assert_eq!(rig.device.usage().images, images, "the GPU may use them");
    rig.device.resume_queues();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    assert_eq!(rig.device.usage().images, 1, "the one that the program keeps, with its memory");
    assert_eq!(rig.gpu.allocator().statistics().allocations, 1);
    drop(held);
    rig.finish();
}

#[test]
fn a_heap_with_frames_in_flight_outlives_neither_a_lost_device_nor_its_gpu() {
    let mut rig = Rig::new(HeapLimits::default());
    let frame = rig.frame();
    targets(&mut rig.heap, &frame, 64);
    frame.submit(QUEUE, empty_submission(&rig.device)).unwrap();
    frame.end().unwrap();
    rig.device.lose_device();
    let Rig { device, gpu, heap, .. } = rig;
    drop(gpu);
    drop(heap);
    assert_eq!((device.usage().images, device.usage().memory_objects), (0, 0));
}

#[test]
fn an_attachment_has_lazily_allocated_memory_of_its_own_where_the_device_has_some() {
    let mut rig = Rig::on("mobile", HeapLimits::default());
    let frame = rig.frame();
    let mut graph = frame.transient(&mut rig.heap).unwrap();
    let pass = graph.pass(QUEUE, &[]).unwrap();
    let requirements =
        |desc: &ImageDesc| allotment::device::ImageDevice::image_requirements(&rig.device, desc);
    let desc = ImageDesc::new(64, 64, 4);
    let image = graph.image("depth", &desc, &[pass]).unwrap();
    let transient = graph.plan().unwrap();
    let memory_type = transient.image(image).info().memory_type;
    let is_lazy = |it: allotment::device::MemoryTypeIndex| {
        use allotment::device::MemoryDevice as _;
        let properties = rig.device.properties().memory_type(it).unwrap().properties;
        properties.contains(allotment::device::MemoryProperties::LAZILY_ALLOCATED)
    };
    let has_lazy = requirements(&desc).unwrap().memory_types;
    assert_eq!(
        is_lazy(memory_type),
        (0..32).map(allotment::device::MemoryTypeIndex).any(|it| {
            has_lazy.contains(it) && rig.device.profile().memory_types.len() > it.get() && is_lazy(it)
        })
    );
    assert_eq!(transient.plan().placement(image.resource()).is_none(), is_lazy(memory_type));
    frame.end().unwrap();
    rig.finish();
}

#[test]
fn a_slot_of_a_shader_visible_heap_is_given_back_with_its_resource() {
    let mut rig = Rig::new(HeapLimits::default());
    let slots = |rig: &Rig| rig.gpu.descriptors().unwrap().resources().statistics().slots.used;
    for side in [64, 32] {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        let image = graph.image("lit", &ImageDesc::new(side, 64, 4), &[pass]).unwrap();
        let buffer = graph.buffer("counters", &BufferDesc::new(256), &[pass]).unwrap();
        let transient = graph.plan().unwrap();
        let first = transient.image_slot(image, &ImageViewDesc::sampled()).unwrap();
        assert_eq!(transient.image_slot(image, &ImageViewDesc::sampled()).unwrap(), first);
        let view = BufferViewDesc::new(0..256, BufferUse::ReadOnly);
        assert_ne!(transient.buffer_slot(buffer, &view).unwrap(), first);
        frame.end().unwrap();
        rig.gpu.wait_idle().unwrap();
        rig.gpu.reclaim();
        assert_eq!(slots(&rig), 2);
    }
    rig.heap.release();
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    assert_eq!(slots(&rig), 0);
    rig.finish();
}

#[test]
#[should_panic(expected = "one of another frame")]
fn a_handle_of_another_frame_is_told_from_those_of_this_one() {
    let mut rig = Rig::new(HeapLimits::default());
    let frame = rig.frame();
    let (_, images) = targets(&mut rig.heap, &frame, 64);
    let (transient, _) = targets(&mut rig.heap, &frame, 64);
    let _ = transient.image(images[0]);
}

#[test]
fn memory_stays_where_most_of_it_is_needed() {
    let mut rig = Rig::new(HeapLimits::default());
    let allocated = |rig: &mut Rig, side: u32| {
        let frame = rig.frame();
        let (transient, _) = targets(&mut rig.heap, &frame, side);
        let planned = transient.plan().size();
        frame.end().unwrap();
        rig.gpu.wait_idle().unwrap();
        rig.gpu.reclaim();
        (rig.gpu.allocator().statistics().allocation_bytes, planned)
    };
    let (large, planned) = allocated(&mut rig, 4096);
    assert_eq!(large, planned);
    let (kept, planned) = allocated(&mut rig, 3500);
    assert!(kept == large && planned < large);
    let (small, planned) = allocated(&mut rig, 64);
    assert_eq!(small, planned, "a hundredth of the memory is needed");
    rig.finish();
}

#[test]
fn after_a_release_nothing_that_was_before_is_named() {
    let mut rig = Rig::new(HeapLimits::default());
    for is_released in [false, false, true] {
        if is_released {
            rig.heap.release();
        }
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        graph.buffer("counters", &BufferDesc::new(256), &[pass]).unwrap();
        let transient = graph.plan().unwrap();
        let before = transient.first_uses(pass).next().unwrap().before;
        assert_eq!(before.is_some(), frame.number() == 1);
        transient.submitted(&[pass], frame.submit(QUEUE, empty_submission(&rig.device)).unwrap());
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn a_first_use_names_the_only_one_that_had_the_bytes() {
    let mut rig = Rig::new(HeapLimits::default());
    for round in 0..3 {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let passes = [(); 3].map(|()| graph.pass(QUEUE, &[]).unwrap());
        let [large, small, end] = [(0, 8192), (1, 4096), (2, 8192)].map(|(at, size)| {
            graph.buffer(["large", "small", "end"][at], &BufferDesc::new(size), &[passes[at]]).unwrap()
        });
        let transient = graph.plan().unwrap();
        let before = |at: usize| {
            let first = transient.first_uses(passes[at]).next().unwrap();
            first.before.map(|before| match before {
                TransientObject::Buffer(buffer) => buffer.id(),
                TransientObject::Image(image) => image.id(),
            })
        };
        let id = |buffer| transient.buffer(buffer).id();
        assert_eq!(before(1), Some(id(large)));
        assert_eq!(before(2), None, "half of the bytes were those of one, half of another");
        assert_eq!(before(0), (round > 0).then(|| id(end)));
        transient.submitted(&passes, frame.submit(QUEUE, empty_submission(&rig.device)).unwrap());
        frame.end().unwrap();
        let _ = small;
    }
    rig.finish();
}

#[test]
fn a_graph_that_is_dropped_makes_the_heap_forget_no_resource_that_is_there() {
    let mut rig = Rig::new(HeapLimits::default());
    let names: Vec<String> = (0..300).map(|number| format!("target {number}")).collect();
    let mut ids = Vec::new();
    for round in 0..4 {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let pass = graph.pass(QUEUE, &[]).unwrap();
        if round == 1 || round == 2 {
            graph.buffer("another one", &BufferDesc::new(64), &[pass]).unwrap();
            drop(graph);
            frame.end().unwrap();
            continue;
        }
        let buffers: Vec<_> = (names.iter())
            .map(|name| graph.buffer(name.clone(), &BufferDesc::new(256), &[pass]).unwrap())
            .collect();
        let transient = graph.plan().unwrap();
        ids.push(buffers.iter().map(|&it| transient.buffer(it).id()).collect::<Vec<_>>());
        frame.end().unwrap();
    }
    assert_eq!(ids[0], ids[1]);
    rig.finish();
}

#[test]
fn another_description_of_the_same_size_is_another_resource() {
    let mut rig = Rig::new(HeapLimits::default());
    let wide = plan_of(&mut rig, &[("lit", ImageDesc::new(64, 32, 4))], &[]).unwrap();
    let high = plan_of(&mut rig, &[("lit", ImageDesc::new(32, 64, 4))], &[]).unwrap();
    assert_ne!(wide, high);
    let buffer = plan_of(&mut rig, &[], &[("lit", 64 * 32 * 4)]).unwrap();
    assert_ne!(high, buffer);
    rig.finish();
}

#[test]
fn what_becomes_a_history_is_not_kept() {
    let mut rig = Rig::new(HeapLimits::default());
    for (is_history, is_kept) in [(false, false), (false, false), (true, false), (true, true)] {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let [read, fill] = [(); 2].map(|()| graph.pass(QUEUE, &[]).unwrap());
        let desc = BufferDesc::new(256);
        let resource = match is_history {
            true => graph.history_buffer("exposure", &desc, &[fill], &[read]).unwrap(),
            false => graph.buffer("exposure", &desc, &[read]).unwrap(),
        };
        let transient = graph.plan().unwrap();
        assert_eq!(transient.is_kept(resource.resource()), is_kept);
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn after_a_plan_that_could_not_be_created_the_frame_before_is_as_it_was() {
    let mut rig = Rig::new(HeapLimits::default());
    let small = [("a", 4096), ("b", 8192)];
    let before = plan_of(&mut rig, &[], &small).unwrap();
    let calls = rig.device.fallible_calls();
    let number = rig.heap.plan().number();
    // After the requirements of the new one: its memory.
    rig.device.fail_from(2, DeviceError::OutOfDeviceMemory);
    let refused = plan_of(&mut rig, &[], &[("c", 64 << 20), ("a", 4096), ("b", 8192)]).unwrap_err();
    assert!(matches!(refused, TransientHeapError::Memory(_)), "{refused}");
    rig.device.clear_faults();
    assert_eq!(rig.heap.plan().number(), number);
    assert!(rig.device.fallible_calls() > calls);
    let calls = rig.device.fallible_calls();
    assert_eq!(plan_of(&mut rig, &[], &small).unwrap(), before);
    assert_eq!(rig.device.fallible_calls(), calls);
    rig.finish();
}

#[test]
fn a_better_plan_that_cannot_be_created_leaves_the_frame_before_as_it_was() {
    let mut rig = Rig::new(HeapLimits::default().with_kept_percent(1000));
    // What is kept above the large one makes the plan of the small one larger than it must be.
    plan_of(&mut rig, &[], &[("large", 256 << 10), ("small", 4096)]).unwrap();
    let kept = [("large", 65536), ("small", 4096)];
    let before = plan_of(&mut rig, &[], &kept).unwrap();
    let plan = rig.heap.plan().clone();
    assert!(rig.heap.improve(|| false).size() < plan.size());
    rig.device.fail_from(1, DeviceError::OutOfDeviceMemory);
    plan_of(&mut rig, &[], &kept).unwrap_err();
    rig.device.clear_faults();
    assert_eq!(*rig.heap.plan(), plan);
    assert_eq!(plan_of(&mut rig, &[], &kept).unwrap(), before);
    rig.finish();
}

#[test]
fn after_a_frame_without_passes_a_queue_waits_for_the_others_as_before() {
    let mut rig = Rig::new(HeapLimits::default());
    let other = QueueIndex(1);
    // Two passes on two queues, a pass on one, or none.
    let kinds = [2, 1, 2, 0, 1];
    for (number, passes) in kinds.into_iter().enumerate() {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let queues = &[QUEUE, other][..passes];
        let passes: Vec<TransientPass> = queues.iter().map(|&it| graph.pass(it, &[]).unwrap()).collect();
        let name = ["nothing", "lit", "counters"][passes.len()];
        if let Some(&last) = passes.last() {
            graph.buffer(name, &BufferDesc::new(4096), &[last]).unwrap();
        }
        let transient = graph.plan().unwrap();
        let waits_for_other = |waits: TimelinePoints| waits.points().any(|point| point.queue == other);
        for (&pass, &queue) in passes.iter().zip(queues) {
            let waits = transient.waits(&[pass]);
            if number == 4 {
                assert!(waits_for_other(waits), "the other queue may use the bytes");
            }
            let mut room = TimelinePoints::ROOM;
            let point =
                frame.submit_after(queue, waits.as_slice(&mut room), empty_submission(&rig.device)).unwrap();
            transient.submitted(&[pass], point);
        }
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn the_waits_of_a_frame_leave_its_own_submissions_out() {
    let mut rig = Rig::new(HeapLimits::default());
    let other = QueueIndex(1);
    for round in 0..3 {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let [one, two] = [QUEUE, other].map(|queue| graph.pass(queue, &[]).unwrap());
        let desc = BufferDesc::new(4096).with_sharing_mode(SharingMode::Concurrent);
        graph.buffer("lit", &desc, &[one]).unwrap();
        graph.buffer("counters", &desc, &[two]).unwrap();
        let transient = graph.plan().unwrap();
        let first = frame.submit(QUEUE, empty_submission(&rig.device)).unwrap();
        // Only it: so the next frame does not know when the other one was submitted.
        transient.submitted(&[one], first);
        let waits = transient.waits(&[two]);
        let expected = (round > 0).then(|| first.value.0 - 1);
        assert_eq!(waits.points().map(|point| point.value.0).next(), expected);
        frame.submit(other, empty_submission(&rig.device)).unwrap();
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn a_size_that_is_another_one_each_frame_leaves_nothing_of_those_before() {
    let mut rig = Rig::new(HeapLimits::default());
    for size in 1..40 {
        plan_of(&mut rig, &[], &[("lit", size * 4096)]).unwrap();
        rig.gpu.wait_idle().unwrap();
        rig.gpu.reclaim();
        assert_eq!(rig.device.usage().buffers, 1);
        assert_eq!(rig.gpu.allocator().statistics().allocations, 1);
    }
    rig.finish();
}

#[test]
fn an_image_has_one_pass_that_comes_before_all_others_that_use_it() {
    let mut rig = Rig::new(HeapLimits::default());
    let desc = ImageDesc::new(64, 64, 4).with_sharing_mode(SharingMode::Concurrent);
    for is_ordered in [false, true] {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let first = graph.pass(QUEUE, &[]).unwrap();
        let waits_for = is_ordered.then_some(first);
        let other = graph.pass(QueueIndex(1), waits_for.as_slice()).unwrap();
        graph.image("lit", &desc, &[first, other]).unwrap();
        match graph.plan() {
            Ok(_) => assert!(is_ordered),
            Err(refused) => {
                assert!(matches!(refused, TransientHeapError::FirstUsesNotOrdered { .. }), "{refused}");
                assert!(refused.to_string().contains("\"lit\"") && !is_ordered, "{refused}");
            }
        }
        frame.end().unwrap();
    }
    rig.finish();
}

#[test]
fn names_that_no_frame_has_any_more_are_forgotten() {
    let mut rig = Rig::new(HeapLimits::default());
    let host = |rig: &mut Rig, from: u64| {
        for number in from..from + 3000 {
            let frame = rig.frame();
            let mut graph = frame.transient(&mut rig.heap).unwrap();
            let pass = graph.pass(QUEUE, &[]).unwrap();
            // Never planned.
            graph
                .buffer(format!("a rather long name, and number {number}"), &BufferDesc::new(64), &[pass])
                .unwrap();
            drop(graph);
            frame.end().unwrap();
        }
        counting::bytes_of_this_thread()
    };
    let (first, second) = (host(&mut rig, 0), host(&mut rig, 3000));
    assert!(second < first + 64 * 1024, "{first} bytes, then {second}");
    rig.finish();
}

#[test]
fn barriers_and_waits_are_for_all_until_a_frame_of_the_plan_was_noted() {
    let mut rig = Rig::new(HeapLimits::default());
    let other = QueueIndex(1);
    // Is a frame noted, and what the next one is told then.
    for is_noted in [false, true, false] {
        let mut first_waits = None;
        for round in 0..2 {
            let frame = rig.frame();
            let mut graph = frame.transient(&mut rig.heap).unwrap();
            let [one, two] = [graph.pass(QUEUE, &[]).unwrap(), graph.pass(other, &[]).unwrap()];
            let desc = BufferDesc::new(4096).with_sharing_mode(SharingMode::Concurrent);
            graph.buffer("one", &desc, &[one]).unwrap();
            graph.buffer("two", &desc, &[two]).unwrap();
            let transient = graph.plan().unwrap();
            let befores = [one, two].map(|pass| transient.first_uses(pass).next().unwrap().before.is_some());
            if round == 1 {
                // Each follows itself, on its own queue.
                assert_eq!(befores, [is_noted; 2]);
                first_waits = Some(transient.waits(&[two]).is_empty());
            }
            for (pass, queue) in [(one, QUEUE), (two, other)] {
                let waits = transient.waits(&[pass]);
                let mut room = TimelinePoints::ROOM;
                let point = frame
                    .submit_after(queue, waits.as_slice(&mut room), empty_submission(&rig.device))
                    .unwrap();
                if is_noted {
                    transient.submitted(&[pass], point);
                }
            }
            frame.end().unwrap();
        }
        assert_eq!(first_waits, Some(is_noted), "of the other queue");
    }
    rig.finish();
}
