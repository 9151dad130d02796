//! Frames of several kinds that come in turn: what they share, what stays created, and what is given back.

use allotment::device::{BufferDesc, DeviceError, ImageDesc, QueueIndex, SharingMode};
use allotment::gpu::TransientHeapError;
use allotment::transient::HeapLimits;

use crate::rig::{QUEUE, Rig, plan_of};

/// Names and sizes of a frame's buffers.
pub(crate) type Kind = [(&'static str, u64)];

/// Plans a frame, and returns how many calls of the driver that took.
pub(crate) fn calls_of(rig: &mut Rig, kind: &Kind) -> u64 {
    let before = rig.device.fallible_calls();
    plan_of(rig, &[], kind).unwrap();
    rig.device.fallible_calls() - before
}

/// Frames of four kinds: each has a buffer of its own beside one that all have.
pub(crate) const KINDS: [(&Kind, u64); 4] = [
    (&[("lit", 4096), ("clouds", 1 << 20)], 4096 + (1 << 20)),
    (&[("lit", 4096), ("depth", 8192)], 12288),
    (&[("lit", 4096), ("shadows", 65536)], 4096 + 65536),
    (&[("lit", 4096), ("probes", 256)], 4096 + 256),
];

pub(crate) fn allocated(rig: &Rig) -> u64 {
    rig.gpu.wait_idle().unwrap();
    rig.gpu.reclaim();
    let allocated = rig.gpu.allocator().statistics().allocation_bytes;
    assert_eq!(rig.heap.size(), allocated);
    allocated
}

/// All orders of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    (0..count.pow(count as u32))
        .map(|number| (0..count as u32).map(|digit| number / count.pow(digit) % count).collect::<Vec<_>>())
        .filter(|order| (0..count).all(|kind| order.contains(&kind)))
        .collect()
}

#[test]
fn frames_of_several_kinds_that_come_in_turn_share_the_memory_of_the_largest_and_are_created_once() {
    for order in [2, 3, 4].map(orders).concat() {
        let mut rig = Rig::new(HeapLimits::default());
        for frame in 0..5 * order.len() {
            let calls = calls_of(&mut rig, KINDS[order[frame % order.len()]].0);
            assert!(frame < 3 * order.len() || calls == 0, "in frame {frame} of {order:?}");
        }
        let largest = order.iter().map(|&kind| KINDS[kind].1).max();
        assert_eq!(Some(allocated(&rig)), largest, "of {order:?}");
        // Then there are only those of one.
        let (kind, bytes) = KINDS[order[0]];
        for _ in 0..9 {
            plan_of(&mut rig, &[], kind).unwrap();
        }
        assert_eq!(allocated(&rig), bytes, "of {order:?}");
        assert_eq!(rig.device.usage().buffers, 2);
        assert_eq!(calls_of(&mut rig, kind), 0);
        rig.finish();
    }
}

#[test]
fn the_memory_of_the_largest_of_several_kinds_is_given_back_once_it_does_not_come_any_more() {
    let mut rig = Rig::new(HeapLimits::default());
    for frame in 0..12 {
        plan_of(&mut rig, &[], KINDS[frame % 3].0).unwrap();
    }
    assert_eq!(allocated(&rig), KINDS[0].1);
    for frame in 0..16 {
        plan_of(&mut rig, &[], KINDS[1 + frame % 2].0).unwrap();
    }
    assert_eq!(allocated(&rig), KINDS[2].1);
    rig.finish();
}

#[test]
fn a_larger_frame_that_comes_once_leaves_the_others_no_larger() {
    let mut rig = Rig::new(HeapLimits::default());
    for kind in [1, 1, 0, 1] {
        plan_of(&mut rig, &[], KINDS[kind].0).unwrap();
    }
    assert_eq!(allocated(&rig), KINDS[1].1);
    let calls: Vec<u64> = (0..12).map(|_| calls_of(&mut rig, KINDS[1].0)).collect();
    assert_eq!(calls, [0; 12]);
    rig.finish();
}

#[test]
fn a_frame_that_is_described_wrongly_leaves_those_that_come_in_turn_as_they_were() {
    let mut rig = Rig::new(HeapLimits::default());
    for frame in 0..8 {
        plan_of(&mut rig, &[], KINDS[frame % 2].0).unwrap();
    }
    let frame = rig.frame();
    let mut graph = frame.transient(&mut rig.heap).unwrap();
    let passes = [graph.pass(QUEUE, &[]).unwrap(), graph.pass(QueueIndex(1), &[]).unwrap()];
    let desc = ImageDesc::new(64, 64, 4).with_sharing_mode(SharingMode::Concurrent);
    graph.image("bright", &desc, &passes).unwrap();
    let refused = graph.plan().unwrap_err();
    assert!(matches!(refused, TransientHeapError::FirstUsesNotOrdered { .. }), "{refused}");
    frame.end().unwrap();
    let calls: Vec<u64> = (0..4).map(|frame| calls_of(&mut rig, KINDS[frame % 2].0)).collect();
    assert_eq!(calls, [0; 4]);
    rig.finish();
}

#[test]
fn where_there_is_no_memory_for_less_memory_a_frame_goes_on_as_it_is() {
    let mut rig = Rig::new(HeapLimits::default());
    for frame in 0..8 {
        plan_of(&mut rig, &[], KINDS[frame % 2].0).unwrap();
    }
    rig.device.fail_from(0, DeviceError::OutOfDeviceMemory);
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(plan_of(&mut rig, &[], KINDS[1].0).unwrap());
    }
    assert!(ids.iter().all(|it| *it == ids[0]));
    rig.device.clear_faults();
    assert_eq!(allocated(&rig), KINDS[0].1);
    // With the next plan.
    plan_of(&mut rig, &[], KINDS[3].0).unwrap();
    assert_eq!(allocated(&rig), KINDS[3].1);
    rig.finish();
}

#[test]
fn a_history_is_kept_from_one_kind_of_frame_to_the_other() {
    let mut rig = Rig::new(HeapLimits::default());
    let mut kept = Vec::new();
    for number in 0..12 {
        let frame = rig.frame();
        let mut graph = frame.transient(&mut rig.heap).unwrap();
        let [read, other, fill] = [(); 3].map(|()| graph.pass(QUEUE, &[]).unwrap());
        let history = graph.history_buffer("exposure", &BufferDesc::new(4096), &[fill], &[read]).unwrap();
        if number % 2 == 0 {
            graph.buffer("clouds", &BufferDesc::new(2048), &[other]).unwrap();
        }
        let transient = graph.plan().unwrap();
        kept.push(transient.is_kept(history.resource()));
        frame.end().unwrap();
    }
    assert!(!kept[0] && kept[1..].iter().all(|&kept| kept), "{kept:?}");
    rig.finish();
}

#[test]
fn one_name_with_two_descriptions_in_turn_is_two_resources_that_stay() {
    let mut rig = Rig::new(HeapLimits::default());
    let frames: Vec<_> =
        (0..8).map(|frame| plan_of(&mut rig, &[], &[("lit", 4096 << (frame % 2))]).unwrap()).collect();
    assert_ne!(frames[6], frames[7]);
    assert_eq!((&frames[4], &frames[5]), (&frames[6], &frames[7]));
    rig.finish();
}
