//! Advice about programs whose faults are known.

use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, ResourceKind};
use allotment::{Algorithm, Alignment};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, Recording, RefusalReason,
    StallKind, TextId,
};

use crate::{Advice, AdviceThresholds, Bytes, Cursor, Timeline, advice};

const MIB: u64 = 1 << 20;

fn pool(algorithm: Algorithm) -> Event {
    Event::PoolCreated { pool: PoolId(0), name: TextId(1), algorithm, custom: true }
}

fn block(id: u64, size: u64) -> Event {
    let (memory_type, kind) = (MemoryTypeIndex(0), BlockKind::Shared);
    Event::BlockAllocated { block: BlockId(id), pool: PoolId(0), memory_type, kind, size }
}

fn allocated(key: u64, offset: u64, requested: u64, occupied: u64) -> Event {
    Event::Allocated(Allocated {
        allocation: AllocationKey(key),
        block: BlockId(0),
        offset,
        requested,
        occupied,
        user_data: 0,
        name: TextId::NONE,
        category: TextId::NONE,
        alignment: Alignment::ONE,
        usage: None,
        kind: ResourceKind::Buffer,
        placement: Placement::ExistingBlock,
        second_choice: false,
        movable: false,
    })
}

fn frames(count: u64) -> impl Iterator<Item = Event> {
    (0..count).map(|number| Event::FrameEnd { number })
}

fn all(events: Vec<Event>) -> Vec<Advice> {
    let texts = vec!["textures".to_owned(), "src/sky.rs:41:9".to_owned()];
    let recording = Recording { events, texts, ..Recording::default() };
    let timeline = Timeline::new(&recording);
    assert_eq!(timeline.contradictions(), []);
    advice(&Cursor::at(&timeline, timeline.end()), &AdviceThresholds::default())
}

fn sentences(events: Vec<Event>) -> Vec<String> {
    all(events).iter().map(Advice::to_string).collect()
}

#[test]
fn a_block_that_is_empty_for_600_frames_is_named_and_one_of_599_is_not() {
    let events = |count| {
        let mut events = vec![pool(Algorithm::Tlsf), block(0, 32 * MIB), block(7, MIB)];
        events.extend([allocated(1, 0, 64, 64), Event::Freed { allocation: AllocationKey(1) }]);
        events.extend(frames(count));
        events
    };
    assert_eq!(
        sentences(events(600)),
        [
            "block 0 of 32 MiB has been empty for 600 frames: free it, or let the empty-block policy do so",
            "block 7 of 1 MiB has been empty for 600 frames: free it, or let the empty-block policy do so",
        ]
    );
    assert_eq!(sentences(events(599)), [""; 0]);
}

#[test]
fn what_the_powers_of_two_of_the_buddy_algorithm_waste_is_told_in_percent() {
    let mut events = vec![pool(Algorithm::Buddy), block(0, 8 * MIB)];
    // 59 % of each cell.
    events.extend((0..8).map(|n| allocated(n, n * MIB, MIB * 59 / 100, MIB)));
    assert_eq!(
        sentences(events),
        [
            "power-of-two rounding wastes 41 % of pool \"textures\", 3.2 MiB: use TLSF, or request sizes near powers of two"
        ]
    );
}

#[test]
fn one_allocation_a_frame_that_is_never_freed_is_a_leak_and_a_loading_phase_is_none() {
    let leak = |in_frames: u64, count: u64| {
        let mut events = vec![pool(Algorithm::Tlsf), block(0, 64 * MIB)];
        for key in 0..count {
            events.push(allocated(key, key * 1024, 1024, 1024));
            events.push(Event::CallSite { allocation: AllocationKey(key), site: TextId(2) });
            if key < in_frames {
                events.push(Event::FrameEnd { number: key });
            }
        }
        events.extend(frames(count - in_frames));
        events
    };
    assert_eq!(
        sentences(leak(100, 100)),
        ["one leak a frame at src/sky.rs:41:9: 100 allocations of 100 KiB exist and none of them was freed"]
    );
    assert_eq!(sentences(leak(3, 100)), [""; 0]);
}

#[test]
fn holes_refusals_stalls_and_budgets_have_their_numbers() {
    let mut events = vec![pool(Algorithm::Tlsf), block(0, 8 * MIB)];
    events.extend((0..8).map(|n| allocated(n, n * MIB, MIB / 2, MIB / 2)));
    events.push(Event::Refused {
        reason: RefusalReason::OverBudget,
        requested: 2 * MIB,
        available: 0,
        largest_free: 0,
        name: TextId::NONE,
    });
    let kind = StallKind::DriverCall;
    events.extend([
        Event::Stalled { kind, nanoseconds: 3_000_000 },
        Event::Stalled { kind, nanoseconds: 500_000 },
    ]);
    events.push(Event::Budget { heap: MemoryHeapIndex(1), usage: 3 * MIB, budget: 2 * MIB });
    let found = all(events);
    assert!(found.contains(&Advice::Fragmented {
        pool: "pool \"textures\"".to_owned(),
        free: 4 * MIB,
        largest: MIB / 2,
        holes: 8,
        blocks: 0,
    }));
    assert!(found.contains(&Advice::Refused {
        reason: RefusalReason::OverBudget,
        count: 1,
        largest: 2 * MIB
    }));
    assert!(found.contains(&Advice::Stalled { kind, count: 2, total: 3_500_000, longest: 3_000_000 }));
    assert!(found.iter().any(|is| matches!(is, Advice::OverBudget { heap: 1, bytes: MIB, .. })));
    assert!(found.windows(2).all(|two| two[0].bytes() >= two[1].bytes()));
}

#[test]
fn allocations_that_die_in_their_frame_and_blocks_that_come_and_go_are_named() {
    let mut events = vec![pool(Algorithm::Tlsf)];
    for frame in 0..100 {
        events.extend([block(0, 4 * MIB), allocated(1, 0, 64, 64)]);
        events.extend([
            Event::Freed { allocation: AllocationKey(1) },
            Event::BlockFreed { block: BlockId(0) },
            Event::FrameEnd { number: frame },
        ]);
    }
    assert_eq!(
        all(events),
        [
            Advice::ShortLived { count: 100, share: 1.0, per_frame: 1.0 },
            Advice::BlockChurn { freed: 100, live: 0, frames: 1.0 },
        ]
    );
}

#[test]
fn bytes_are_read_in_the_largest_unit_that_is_not_below_one() {
    for (bytes, text) in [(17, "17 bytes"), (1536, "1.5 KiB"), (32 * MIB, "32 MiB"), (5 << 30, "5 GiB")] {
        assert_eq!(Bytes(bytes).to_string(), text);
    }
    assert_eq!(Bytes(u64::MAX).to_string(), "17179869183.9 GiB");
}
