//! Snapshots: a reader that begins at one has the state that all events before lead to.

use std::io::Cursor;

use allotment_trace::recording::{Event, ReadError, Recording, RecordingReader, State, WriterDesc};
use proptest::prelude::*;

use crate::events::{header, likely_event, texts, with_stacks};
use crate::files::file;

/// The state after events, some of which contradict others.
fn state_after(events: &[Event]) -> State {
    let mut state = State::default();
    for event in events {
        let _ = state.apply(event);
    }
    state
}

proptest! {
    #[test]
    fn each_snapshot_is_the_state_there_and_the_events_continue_it(
        events in proptest::collection::vec(likely_event(9), 0..500),
        chunk in 1_usize..60,
        moment in 0_usize..600,
    ) {
        let recording = Recording { header: header(), texts: texts(9), events, ..with_stacks(9) };
        let file = file(&recording, chunk, &WriterDesc::default().with_snapshot_every(40));
        let mut reader = RecordingReader::new(Cursor::new(&file)).unwrap();
        let whole = state_after(&recording.events);
        prop_assert_eq!(reader.event_count(), recording.events.len() as u64);
        let moment = moment.min(recording.events.len());
        prop_assert_eq!(reader.state_at(moment as u64).unwrap(), state_after(&recording.events[..moment]));
        prop_assert_eq!(&reader.state_at(u64::MAX).unwrap(), &whole);
        for snapshot in 0..reader.snapshots().len() {
            let info = reader.snapshots()[snapshot];
            let mut state = reader.begin_at(snapshot).unwrap();
            prop_assert_eq!(reader.damage(), None);
            prop_assert_eq!(&state, &state_after(&recording.events[..info.moment.event as usize]));
            prop_assert_eq!((state.now, state.allocations.len() as u64), (info.moment, info.allocations));
            let mut rest = Vec::new();
            while reader.read_events(&mut rest).unwrap() {}
            for event in &rest {
                let _ = state.apply(event);
            }
            prop_assert_eq!(&state, &whole);
        }
    }

    #[test]
    fn a_state_as_events_leads_to_the_state_again(events in proptest::collection::vec(likely_event(9), 0..300)) {
        let state = state_after(&events);
        // After an exchange a range may be too small for what it has; the library does no such thing.
        prop_assume!(state.allocations.values().all(|live| live.is.requested <= live.is.occupied));
        let mut again = State::default();
        for event in state.to_events() {
            again.apply(&event).unwrap();
        }
        prop_assert_eq!((again.now.frame, again.now.nanoseconds), (state.now.frame, state.now.nanoseconds));
        prop_assert_eq!(&again.pools, &state.pools);
        prop_assert_eq!(&again.budgets, &state.budgets);
        prop_assert_eq!(&again.queues, &state.queues);
        prop_assert_eq!(&again.rings, &state.rings);
        prop_assert_eq!(&again.descriptor_heaps, &state.descriptor_heaps);
        prop_assert_eq!(&again.deletion_queues, &state.deletion_queues);
        prop_assert_eq!(again.blocks.len(), state.blocks.len());
        for (id, block) in &state.blocks {
            let of = &again.blocks[id];
            prop_assert_eq!((of.size, of.kind, &of.allocations), (block.size, block.kind, &block.allocations));
            let frames = |block: &allotment_trace::recording::Block| block.empty_since.map(|it| it.frame);
            prop_assert_eq!(frames(of), frames(block));
        }
        prop_assert_eq!(&again.memories, &state.memories);
        prop_assert_eq!(again.bound.len(), state.bound.len());
        for (key, bound) in &state.bound {
            let of = &again.bound[key];
            prop_assert_eq!((of.is, of.bound.frame), (bound.is, bound.bound.frame));
        }
        prop_assert_eq!(again.allocations.len(), state.allocations.len());
        for (key, live) in &state.allocations {
            let of = &again.allocations[key];
            prop_assert_eq!((of.is, of.call_site, of.maps), (live.is, live.call_site, live.maps));
            prop_assert_eq!(of.reservation, live.reservation);
            prop_assert_eq!(of.allocated.frame, live.allocated.frame);
            prop_assert_eq!(of.free_requested.map(|it| it.frame), live.free_requested.map(|it| it.frame));
        }
    }
}

#[test]
fn a_snapshot_of_many_allocations_has_several_chunks() {
    use allotment_trace::recording::{AllocationKey, BlockId, BlockKind, PoolId};
    let size = 1 << 30;
    let (block, pool) = (BlockId(1), PoolId(1));
    let memory_type = allotment::device::MemoryTypeIndex(0);
    let mut events = vec![Event::BlockAllocated { block, pool, memory_type, kind: BlockKind::Shared, size }];
    let mut seed = 1_u64;
    for key in 0..200_000_u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let Event::Allocated(mut it) = crate::golden::allocation() else { unreachable!() };
        (it.block, it.allocation, it.user_data) = (block, AllocationKey(key), seed);
        (it.offset, it.requested, it.occupied) = (key * 4096, 4096, 4096);
        events.extend([Event::Time { nanoseconds: seed >> 20 }, Event::Allocated(it)]);
    }
    let recording = Recording { header: header(), texts: texts(3), events, ..with_stacks(3) };
    let file = file(&recording, 400_001, &WriterDesc::default().with_snapshot_every(1 << 20));
    let mut reader = RecordingReader::new(Cursor::new(&file)).unwrap();
    let snapshots = reader.snapshots().to_vec();
    assert!(snapshots.len() >= 2, "{}", snapshots.len());
    let last = snapshots.len() - 1;
    assert!(snapshots[last].allocations > 60_000, "{:?}", snapshots[last]);
    let state = reader.begin_at(last).unwrap();
    assert_eq!(state, state_after(&recording.events[..snapshots[last].moment.event as usize]));
    let error = reader.begin_at(last + 1).unwrap_err();
    assert!(matches!(error, ReadError::NoSnapshot { .. }), "{error}");

    // Its parts end in the middle.
    let cut = file.len() - 5_000_000;
    let mut reader = RecordingReader::new(Cursor::new(&file[..cut])).unwrap();
    assert!(reader.damage().is_some());
    for snapshot in 0..reader.snapshots().len() {
        reader.begin_at(snapshot).unwrap();
    }
}
