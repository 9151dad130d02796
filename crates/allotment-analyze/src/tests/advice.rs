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
    Event::PoolCreated { pool: PoolId(0), name: TextId(1), algorithm: Some(algorithm), custom: true }
}

fn block(id: u64, size: u64) -> Event {
    let (memory_type, kind) = (MemoryTypeIndex(0), BlockKind::Shared);
    Event::BlockAllocated { block: BlockId(id), pool: PoolId(0), memory_type, kind, size }
}

fn allocated(key: u64, offset: u64, requested: u64, occupied: u64) -> Event {
    allocated_in(0, key, offset, requested, occupied)
}

fn allocated_in(block: u64, key: u64, offset: u64, requested: u64, occupied: u64) -> Event {
    Event::Allocated(Allocated {
        allocation: AllocationKey(key),
        block: BlockId(block),
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
    let texts = vec!["textures".to_owned(), "/home/me/game/src/sky.rs:41:9".to_owned()];
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
        // A block that is in use, so that most of the memory is.
        let mut events = vec![pool(Algorithm::Tlsf), block(0, 32 * MIB), block(7, MIB), block(8, 256 * MIB)];
        events.extend([allocated(1, 0, 64, 64), Event::Freed { allocation: AllocationKey(1) }]);
        events.push(allocated_in(8, 2, 0, 256 * MIB, 256 * MIB));
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
fn empty_blocks_that_have_much_of_all_memory_are_told_as_one_sum() {
    let events = |empty: u64| {
        let mut events = vec![pool(Algorithm::Tlsf), block(0, 24 * MIB), allocated(1, 0, 24 * MIB, 24 * MIB)];
        events.extend((1..=empty).map(|id| block(id, 8 * MIB)));
        events.extend(frames(700));
        events
    };
    assert_eq!(
        sentences(events(3)),
        [
            "3 empty blocks of 4 hold 24 MiB of 48 MiB (50 %), the first of them for 700 frames: `trim()` frees them, \
             or an `EmptyBlockPolicy` with fewer frames or bytes"
        ]
    );
    // A program that has freed everything, and ends.
    let mut ended = events(3);
    ended.retain(|event| !matches!(event, Event::FrameEnd { .. }));
    ended.push(Event::Freed { allocation: AllocationKey(1) });
    ended.extend(frames(10));
    assert_eq!(sentences(ended), [""; 0]);
    let few = all(events(1));
    assert!(matches!(few[..], [Advice::EmptyBlock { frames: 700, .. }]), "{few:?}");
}

#[test]
fn stalls_are_told_if_they_took_a_hundredth_of_the_time_or_one_of_them_was_long() {
    let told = |milliseconds: u64, kind, stalls: &[u64]| {
        let mut events: Vec<_> =
            stalls.iter().map(|&nanoseconds| Event::Stalled { kind, nanoseconds }).collect();
        events.push(Event::Time { nanoseconds: milliseconds * 1_000_000 });
        sentences(events)
    };
    let driver = StallKind::DriverCall;
    assert_eq!(told(1000, driver, &[8_000; 12]), [""; 0]);
    assert_eq!(
        told(1000, driver, &[1_000_000; 12]),
        [
            "threads waited 12 times for a driver call, 12.00 ms in all, 1.00 ms at most: reserve memory ahead \
             (`reserve`), let a maintenance thread allocate it, or use larger blocks"
        ]
    );
    assert_eq!(told(1_000_000, driver, &[1_000_000; 12]), [""; 0]);
    assert_eq!(told(1_000_000, driver, &[2_000_000]).len(), 1);
    assert_eq!(told(1000, StallKind::FramesInFlight, &[16_000_000; 12]), [""; 0]);
}

#[test]
fn advice_about_many_allocations_names_the_most_of_them() {
    let sentence = |texts: [TextId; 3]| {
        let mut events = vec![pool(Algorithm::Tlsf), block(0, 4 * MIB)];
        for frame in 0..10 {
            for (key, [name, category, site]) in [(1, texts), (2, texts), (3, [TextId::NONE; 3])] {
                let Event::Allocated(mut is) = allocated(key, 0, 64, 64) else { unreachable!() };
                (is.name, is.category) = (name, category);
                events.push(Event::Allocated(is));
                if !site.is_none() {
                    events.push(Event::CallSite { allocation: is.allocation, site });
                }
                events.push(Event::Freed { allocation: is.allocation });
            }
            events.push(Event::FrameEnd { number: frame });
        }
        let found = all(events);
        assert_eq!(found[0].call_site(), (texts[2] == TextId(2)).then_some("/home/me/game/src/sky.rs:41:9"));
        found[0].to_string()
    };
    let with = |most: &str| {
        format!(
            "30 allocations, 100 % of those that ended, lived for less than a frame, 3.0 a frame{most}: use a ring or \
             a linear pool"
        )
    };
    let none = TextId::NONE;
    let named = with("; 20 of them are \"textures\", from game/src/sky.rs:41");
    assert_eq!(sentence([TextId(1), none, TextId(2)]), named);
    assert_eq!(sentence([none, none, TextId(2)]), named.replace("\"textures\"", "without a name"));
    assert_eq!(sentence([TextId(1), none, none]), with("; 20 of them are \"textures\""));
    assert_eq!(sentence([none, TextId(1), none]), with("; 20 of them are of the category \"textures\""));
    assert_eq!(sentence([none; 3]), with(""));
    let of_one = (0..10).flat_map(|number| {
        let allocation = AllocationKey(1);
        let site = Event::CallSite { allocation, site: TextId(2) };
        [allocated(1, 0, 64, 64), site, Event::Freed { allocation }, Event::FrameEnd { number }]
    });
    let all = sentences([pool(Algorithm::Tlsf), block(0, MIB)].into_iter().chain(of_one).collect());
    assert!(all[0].contains("; all of them are without a name, from game/src/sky.rs:41: use"), "{all:?}");
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
        [
            "one leak a frame at game/src/sky.rs:41: 100 allocations of 100 KiB exist and none of them was freed"
        ]
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
        site: String::new(),
        of_site: [8, 8],
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
fn what_lies_between_the_holes_of_a_pool_is_named() {
    let mut events = vec![pool(Algorithm::Tlsf), block(0, 8 * MIB)];
    events.extend((0..8).map(|n| allocated(n, n * MIB, MIB / 2, MIB / 2)));
    events.extend((1..8).map(|n| Event::CallSite { allocation: AllocationKey(n), site: TextId(2) }));
    let found = sentences(events);
    let said = "of the 8 allocations between them, 7 are of game/src/sky.rs:41";
    assert!(found.iter().any(|sentence| sentence.contains(said)), "{found:?}");
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
            Advice::ShortLived { count: 100, share: 1.0, per_frame: 1.0, most: None },
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

/// `trim()` is no call of PyTorch's.
#[test]
fn advice_names_calls_of_the_library_whose_memory_it_is() {
    use allotment_trace::recording::{Extent, Header, Library};
    let advice = Advice::EmptyBlocks { count: 3, blocks: 4, size: 300, all: 400, frames: 7 };
    let sentence = |library| {
        let header = Header { library, extent: Extent::History, ..Header::default() };
        let recording = Recording { header, ..Recording::default() };
        advice.sentence(&Timeline::new(&recording))
    };
    assert!(sentence(Library::PyTorch).contains("empty_cache()"));
    assert!(sentence(Library::Allotment).contains("trim()"));
    assert!(sentence(Library::Vma).contains("minBlockCount"));
    assert_eq!(sentence(Library::Driver), "3 empty blocks of 4 hold 300 bytes of 400 bytes (75 %)");
    // Without frames, none are told.
    assert!(!sentence(Library::PyTorch).contains("frames"));
    assert!(advice.to_string().contains("7 frames"));
}

#[test]
fn many_empty_blocks_are_told_also_where_they_have_little_of_all_memory() {
    let events = |empty: u64| {
        let mut events = vec![pool(Algorithm::Tlsf)];
        for id in 0..48 {
            events.extend([block(id, 64 * MIB), allocated_in(id, id, 0, 64 * MIB, 64 * MIB)]);
        }
        events.extend((100..100 + empty).map(|id| block(id, 4 * MIB)));
        events
    };
    let told = sentences(events(16));
    assert!(told[0].starts_with("16 empty blocks of 64 hold 64 MiB of 3 GiB (2 %)"), "{told:?}");
    assert_eq!(sentences(events(15)), [""; 0]);
}
