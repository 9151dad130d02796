//! The ring, without a thread.

use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment::{Algorithm, Alignment};

use super::ring::Ring;
use crate::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Header, Placement, PoolId, Recording, StackFrame,
    StackId, State, TextId,
};

const POOL: PoolId = PoolId(3);
const BLOCK: BlockId = BlockId(5);
const LIVE: u64 = 100;

/// A program that keeps `LIVE` allocations, each with a name of its own, and frees the oldest for each new one.
fn play(ring: &mut Ring, state: &mut State, names: &mut [String], from: u64, to: u64) {
    let mut put = |ring: &mut Ring, event: Event| {
        state.apply(&event).unwrap();
        ring.composer.event(&event).unwrap();
        ring.forget();
    };
    if from == 0 {
        let pool = ring.composer.text("the pool");
        put(
            ring,
            Event::PoolCreated { pool: POOL, name: pool, algorithm: Some(Algorithm::Tlsf), custom: true },
        );
        let (memory_type, kind) = (MemoryTypeIndex(0), BlockKind::Shared);
        put(ring, Event::BlockAllocated { block: BLOCK, pool: POOL, memory_type, kind, size: 1 << 30 });
    }
    for number in from..to {
        if number >= LIVE {
            put(ring, Event::Freed { allocation: AllocationKey(number % LIVE) });
        }
        names[(number % LIVE) as usize] = format!("allocation number {number}");
        let name = ring.composer.text(&names[(number % LIVE) as usize]);
        put(
            ring,
            Event::Allocated(Allocated {
                allocation: AllocationKey(number % LIVE),
                block: BLOCK,
                offset: (number % LIVE) << 16,
                requested: number % 1000,
                occupied: 1000,
                user_data: number,
                name,
                category: TextId::NONE,
                alignment: Alignment::ONE,
                usage: None,
                kind: ResourceKind::Buffer,
                placement: Placement::ReusedRange,
                second_choice: false,
                movable: false,
            }),
        );
        if number % 10 == 9 {
            put(ring, Event::FrameEnd { number: number / 10 });
            put(ring, Event::Time { nanoseconds: number * 1_600_000 });
        }
    }
}

/// Writes the ring, reads it, and compares where its events lead to. Returns the recording.
fn compare(ring: &mut Ring, state: &State, names: &[String]) -> Recording {
    let mut file = Vec::new();
    ring.write(&mut file).unwrap();
    let (recording, damage) = Recording::read(&*file).unwrap();
    assert_eq!(damage, None);
    let mut read = State::default();
    for event in &recording.events {
        read.apply(event).unwrap();
    }
    assert_eq!((read.now.frame, read.now.nanoseconds), (state.now.frame, state.now.nanoseconds));
    assert_eq!(recording.text(read.pools[&POOL].name), Some("the pool"));
    assert_eq!(read.allocations.len(), state.allocations.len());
    for (key, live) in &state.allocations {
        let of = &read.allocations[key];
        assert_eq!(recording.text(of.is.name), Some(&*names[key.0 as usize]));
        assert_eq!(Allocated { name: live.is.name, ..of.is }, live.is);
        assert_eq!(
            (of.allocated.frame, of.allocated.nanoseconds),
            (live.allocated.frame, live.allocated.nanoseconds)
        );
    }
    recording
}

#[test]
fn a_ring_keeps_the_last_events_and_the_state_before_them() {
    const BYTES: u64 = 1 << 20;
    let mut ring = Ring::new(Header::default(), BYTES);
    let (mut state, mut names) = (State::default(), vec![String::new(); LIVE as usize]);
    play(&mut ring, &mut state, &mut names, 0, 50);
    let all = compare(&mut ring, &state, &names);
    assert_eq!(all.events.len(), 2 + 50 + 10, "nothing is forgotten yet");

    let mut at = 50;
    for step in [1000, 100_000, 7, 300_000] {
        play(&mut ring, &mut state, &mut names, at, at + step);
        at += step;
        let recording = compare(&mut ring, &state, &names);
        assert!(ring.bytes() <= BYTES, "{}", ring.bytes());
        if at > 100_000 {
            assert!(ring.bytes() >= BYTES / 2, "{}", ring.bytes());
            let kept = recording.events.len() as u64;
            assert!((40_000..state.now.event).contains(&kept), "{kept} of {at}");
            // Where the events begin is marked.
            let marks = recording.events.iter().filter(|event| matches!(event, Event::Mark { .. }));
            assert_eq!(marks.count(), 1);
        }
    }
    // Texts that only forgotten events named are forgotten, and their numbers are used again.
    let summary = ring.summary();
    assert!(summary.texts < 200_000, "{summary:?}");
    assert_eq!(summary.events, state.now.event);
}

#[test]
fn a_ring_smaller_than_the_state_keeps_the_state() {
    let mut ring = Ring::new(Header::default(), 100);
    let (mut state, mut names) = (State::default(), vec![String::new(); LIVE as usize]);
    for at in 0..300 {
        play(&mut ring, &mut state, &mut names, at * 50, at * 50 + 50);
        if at % 30 == 0 {
            compare(&mut ring, &state, &names);
        }
    }
    assert!(ring.bytes() < 50_000, "{}", ring.bytes());
}

#[test]
fn a_ring_forgets_no_call_of_a_stack() {
    let mut ring = Ring::new(Header::default(), 1 << 16);
    let frame = |ring: &mut Ring, parent, function: &str| {
        let function = ring.composer.text(function);
        ring.composer.stack(StackFrame { parent, function, place: TextId::NONE })
    };
    let main = frame(&mut ring, StackId::NONE, "main");
    let load = frame(&mut ring, main, "load");
    let (mut state, mut names) = (State::default(), vec![String::new(); LIVE as usize]);
    for at in 0..100 {
        play(&mut ring, &mut state, &mut names, at * 500, at * 500 + 500);
        ring.forget();
    }
    let late = frame(&mut ring, main, "late");
    let allocation = *state.allocations.keys().next().unwrap();
    ring.composer.event(&Event::Stack { allocation, stack: late }).unwrap();
    let mut file = Vec::new();
    ring.write(&mut file).unwrap();
    let (recording, damage) = Recording::read(&*file).unwrap();
    assert_eq!(damage, None);
    let functions = |stack| {
        let calls = recording.stacks.calls(stack);
        calls.filter_map(|call| recording.text(call.function)).collect::<Vec<_>>()
    };
    assert_eq!((functions(load), functions(late)), (vec!["load", "main"], vec!["late", "main"]));
    let mut read = State::default();
    for event in &recording.events {
        read.apply(event).unwrap();
    }
    assert_eq!(read.allocations[&allocation].stack, late);
}
