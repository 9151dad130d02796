//! Measures the analyses on a generated recording: `cargo run --release --example ten_million [EVENTS]`.
//!
//! Prints the time and the memory of the index, and the slowest of a thousand seeks to random moments.
//! Times are those on the CPU.

use core::time::Duration;

use allotment::device::{MemoryTypeIndex, ResourceKind};
use allotment::{Algorithm, Alignment};
use allotment_analyze::{
    BlockBytes, Cursor, Grouping, Holes, Leaks, Peaks, ReleaseLatency, Scope, SeriesAxis, Timeline,
    fragmentation_over_time, series,
};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, Event, Placement, PoolId, Recording, TextId,
};

const BLOCKS: u64 = 256;
const BLOCK_SIZE: u64 = 64 << 20;
const SLOT: u64 = 64 << 10;
const SLOTS: u64 = BLOCKS * BLOCK_SIZE / SLOT;

fn main() {
    let events = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000_000);
    let recording = generate(events);
    println!("recording: {} events, {}", recording.events.len(), memory());

    let start = on_cpu();
    let timeline = Timeline::new(&recording);
    println!(
        "index: {:?}, {} allocations, {} contradictions, {}",
        on_cpu() - start,
        timeline.allocation_count(),
        timeline.contradiction_count(),
        memory()
    );

    let start = on_cpu();
    let mut cursor = Cursor::new(&timeline);
    println!("cursor: {:?}, {}", on_cpu() - start, memory());
    let mut random = Random(7);
    let (mut slowest, mut sum) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..1000 {
        let position = random.below(timeline.end() + 1);
        let start = on_cpu();
        cursor.seek(position);
        let took = on_cpu() - start;
        slowest = slowest.max(took);
        sum += took;
    }
    println!("seek: at most {slowest:?}, mean {:?}, with {} live", sum / 1000, cursor.allocation_count());

    cursor.seek(0);
    measure("all events forwards", || while cursor.step().is_some() {});
    measure("all events backwards", || while cursor.step_back().is_some() {});
    cursor.seek(timeline.end());
    measure("bytes of all blocks", || BlockBytes::of_scope(&cursor, Scope::All));
    measure("holes of all blocks", || Holes::of_scope(&cursor, Scope::All));
    measure("leaks", || Leaks::at(&cursor, Grouping::CallSite));
    measure("release latency", || ReleaseLatency::at(&timeline, timeline.end()));
    measure("peaks", || Peaks::of(&timeline, Scope::All));
    measure("series", || series(&timeline, &[Scope::All], SeriesAxis::Frames, 1000));
    measure("fragmentation over time", || fragmentation_over_time(&timeline, Scope::All, 100));
    println!("end: {}", memory());
}

fn measure<T>(what: &str, run: impl FnOnce() -> T) {
    let start = on_cpu();
    core::hint::black_box(run());
    println!("{what}: {:?}", on_cpu() - start);
}

/// The time that the thread has run, as Linux counts it: of a busy machine the time of the others is left out.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// The most memory that the process had, as Linux counts it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not known");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(bound)) >> 64) as u64
    }
}

/// A program with about a hundred thousand allocations in 256 blocks; half of them wait for the GPU when freed.
fn generate(count: usize) -> Recording {
    let mut random = Random(1);
    let mut recording = Recording { events: Vec::with_capacity(count), ..Recording::default() };
    recording.texts = (0..400).map(|n| format!("src/file{}.rs:{n}:9", n % 20)).collect();
    let events = &mut recording.events;
    let (pool, name) = (PoolId(0), TextId::NONE);
    events.push(Event::PoolCreated { pool, name, algorithm: Some(Algorithm::Tlsf), custom: false });
    for block in 0..BLOCKS {
        let (memory_type, kind) = (MemoryTypeIndex((block % 4) as u8), BlockKind::Shared);
        events.push(Event::BlockAllocated {
            block: BlockId(block),
            pool,
            memory_type,
            kind,
            size: BLOCK_SIZE,
        });
    }
    let mut free: Vec<u64> = (0..SLOTS).collect();
    let (mut live, mut waiting) = (Vec::new(), std::collections::VecDeque::new());
    let mut frame = 0;
    while events.len() + 4 < count {
        if events.len() % 1000 < 3 {
            events.push(Event::Time { nanoseconds: events.len() as u64 * 1000 });
            events.push(Event::FrameEnd { number: frame });
            frame += 1;
            while waiting.len() > 2000 {
                let Some(slot) = waiting.pop_front() else { break };
                events.push(Event::Freed { allocation: AllocationKey(slot) });
                free.push(slot);
            }
        }
        let grow = live.len() < 100_000;
        if random.below(100) < if grow { 60 } else { 45 } && !free.is_empty() {
            let slot = free.swap_remove(random.below(free.len() as u64) as usize);
            let requested = 1 + random.below(SLOT);
            let text = TextId(1 + random.below(400) as u32);
            events.push(Event::Allocated(Allocated {
                allocation: AllocationKey(slot),
                block: BlockId(slot % BLOCKS),
                offset: slot / BLOCKS * SLOT,
                requested,
                occupied: requested.next_multiple_of(256),
                user_data: 0,
                name: text,
                category: text,
                alignment: Alignment::ONE,
                usage: None,
                kind: ResourceKind::Buffer,
                placement: Placement::ExistingBlock,
                second_choice: false,
                movable: false,
            }));
            events.push(Event::CallSite { allocation: AllocationKey(slot), site: text });
            live.push(slot);
        } else if !live.is_empty() {
            let slot = live.swap_remove(random.below(live.len() as u64) as usize);
            if slot % 2 == 0 {
                events.push(Event::FreeRequested { allocation: AllocationKey(slot) });
                waiting.push_back(slot);
            } else {
                events.push(Event::Freed { allocation: AllocationKey(slot) });
                free.push(slot);
            }
        }
    }
    recording
}
