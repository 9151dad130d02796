//! Recordings that proptest makes: each step is three numbers, of which every combination means something.

use std::collections::BTreeMap;

use allotment::device::{MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask, QueueIndex, ResourceKind};
use allotment::memory::ExpectedLifetime;
use allotment::memory::blocks::BlockSize;
use allotment::{Algorithm, Alignment, MemoryUsage};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, DeletionQueueKind, DescriptorKind, Event,
    Header, Heap, MemoryType, ObjectId, Placement, PoolId, Recording, RefusedRequest, RequestedOptions,
    RingKind, StackFrame, StackId, Stacks, State, TextId,
};
use proptest::prelude::*;

/// The events that a recording may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Has {
    /// Allocations that overlap.
    pub(crate) aliasing: bool,
    /// Events that contradict others, and losses.
    pub(crate) contradictions: bool,
}

/// Recordings of up to some events.
pub(crate) fn recordings(has: Has, events: usize) -> impl Strategy<Value = Recording> {
    prop::collection::vec((0u8..114, any::<u16>(), any::<u16>()), 0..events)
        .prop_map(move |steps| record(has, &steps))
}

pub(crate) fn record(has: Has, steps: &[(u8, u16, u16)]) -> Recording {
    let mut made = Recording {
        header: Header {
            heaps: vec![Heap { size: 1 << 20, device_local: true }; 2],
            memory_types: (0..3).map(|index| MemoryType { heap: index % 2, properties: 0 }).collect(),
            ..Header::default()
        },
        texts: ["tex 1", "tex 2", "mesh", "a.rs:1", "a.rs:2", "b.rs:3", "std::f"].map(String::from).into(),
        stacks: stacks(),
        ..Recording::default()
    };
    let mut state = State::default();
    for &step in steps {
        if let Some(event) = event(has, &state, step) {
            let applied = state.apply(&event);
            assert!(has.contradictions || applied.is_ok(), "{event:?}: {applied:?}");
            made.events.push(event);
        }
    }
    made
}

/// Six calls in two trees; three of them are machinery.
fn stacks() -> Stacks {
    let mut stacks = Stacks::default();
    for (parent, function, place) in [(0, 1, 4), (1, 2, 5), (2, 7, 6), (1, 7, 4), (0, 7, 0), (5, 1, 4)] {
        let frame = StackFrame { parent: StackId(parent), function: TextId(function), place: TextId(place) };
        stacks.push(frame).unwrap();
    }
    stacks
}

fn event(has: Has, state: &State, (op, a, b): (u8, u16, u16)) -> Option<Event> {
    let (a64, b64) = (u64::from(a), u64::from(b));
    let mut keys: Vec<_> = state.allocations.keys().copied().collect();
    keys.sort_unstable();
    let some_key = |number: u16| {
        if has.contradictions && number % 16 == 0 {
            return Some(AllocationKey(u64::from(number / 16) % 8));
        }
        keys.get(usize::from(number) % keys.len().max(1)).copied()
    };
    let mut blocks: Vec<_> = state.blocks.keys().copied().collect();
    blocks.sort_unstable();
    let text = |number: u16| TextId(u32::from(number % 7));
    Some(match op {
        0..30 => {
            let block = *blocks.get(usize::from(a) % blocks.len().max(1))?;
            let allocation = (0..).map(AllocationKey).find(|key| !state.allocations.contains_key(key))?;
            // Allocations of no bytes are rare in programs, and wrong files have them.
            let requested = if b % 8 == 1 { 0 } else { b64 % 200 };
            let occupied = if b % 3 == 0 { requested.next_power_of_two() } else { requested };
            let alignment = Alignment::new(1 << (a / 64 % 6)).expect("a power of two");
            let offset = if has.aliasing {
                alignment.align_up(a64 / 64 % 700)
            } else {
                first_fit(state, block, alignment, occupied)?
            };
            if offset + occupied > state.blocks[&block].size && !has.contradictions {
                return None;
            }
            Event::Allocated(Allocated {
                allocation,
                block,
                offset,
                requested,
                occupied,
                user_data: a64,
                name: text(a),
                category: text(b),
                alignment,
                usage: None,
                kind: ResourceKind::Buffer,
                placement: Placement::ExistingBlock,
                second_choice: a % 5 == 0,
                movable: b % 2 == 0,
            })
        }
        30..46 => {
            let allocation = some_key(a)?;
            if state.memories.contains_key(&allocation) && !has.contradictions {
                return None;
            }
            Event::Freed { allocation }
        }
        46..54 => Event::FreeRequested { allocation: some_key(a)? },
        54..58 => Event::Exchanged { allocation: some_key(a)?, reservation: some_key(b)? },
        58..60 => Event::Reserved { reservation: some_key(a)?, allocation: some_key(b)? },
        60..62 => Event::CallSite { allocation: some_key(a)?, site: text(b) },
        62 => Event::Stack { allocation: some_key(a)?, stack: StackId(u32::from(b % 7)) },
        63..65 => {
            let (name, category, user_data) = (text(b), text(a / 7), b64);
            let resource = state.bound.keys().min().filter(|_| a % 3 == 1);
            Event::Labelled { allocation: resource.copied().or(some_key(a))?, name, category, user_data }
        }
        65 => Event::Movable { allocation: some_key(a)?, movable: b % 2 == 0 },
        66 => Event::Mapped { allocation: some_key(a)?, count: u32::from(b) },
        67..74 => {
            let block = (0..).map(BlockId).find(|id| !state.blocks.contains_key(id))?;
            let kind = BlockKind::ALL[usize::from(a) % BlockKind::ALL.len()];
            let (pool, memory_type) = (PoolId(u32::from(a % 3)), MemoryTypeIndex((b % 3) as u8));
            Event::BlockAllocated { block, pool, memory_type, kind, size: 64 + b64 % 1000 }
        }
        74..77 => {
            let empty = blocks.iter().filter(|id| state.blocks[id].allocations.is_empty());
            let choices: Vec<_> = if has.contradictions { blocks.clone() } else { empty.copied().collect() };
            Event::BlockFreed { block: *choices.get(usize::from(a) % choices.len().max(1))? }
        }
        77 => Event::BlockShared { block: *blocks.get(usize::from(a) % blocks.len().max(1))? },
        78..80 => {
            let (pool, algorithm) =
                (PoolId(u32::from(a % 3)), Algorithm::ALL.get(usize::from(b % 4)).copied());
            Event::PoolCreated { pool, name: text(a), algorithm, custom: b % 2 == 0 }
        }
        80 => {
            let pools: Vec<_> = state.pools.keys().copied().collect();
            Event::PoolDestroyed { pool: *pools.get(usize::from(a) % pools.len().max(1))? }
        }
        81..86 => Event::FrameEnd { number: state.now.frame },
        86..88 => Event::Time { nanoseconds: state.now.nanoseconds + a64 },
        88 => Event::Budget { heap: MemoryHeapIndex((a % 2) as u8), usage: a64, budget: b64 },
        89 => Event::Submitted { queue: QueueIndex((a % 2) as u8), value: b64 },
        90 => Event::Completed { queue: QueueIndex((a % 2) as u8), value: b64 },
        91 => match b % 4 {
            0 => Event::RingCreated {
                ring: ObjectId(u32::from(a % 2)),
                kind: RingKind::Upload,
                capacity: b64,
                name: text(a),
            },
            1 if has.contradictions => Event::RingDestroyed { ring: ObjectId(u32::from(a % 2)) },
            2 if has.contradictions => Event::RingUsed { ring: ObjectId(u32::from(a % 2)), used: b64 },
            _ => Event::DeletionQueue {
                queue: ObjectId(u32::from(a % 2)),
                kind: DeletionQueueKind::Resources,
                waiting: u32::from(b),
            },
        },
        92..95 => descriptors(state, a, b)?,
        95..98 => {
            let (&heap, found) = state.descriptor_heaps.iter().nth(usize::from(a % 2))?;
            let ranges: Vec<_> = found.ranges.iter().collect();
            let &(&first, &count) = ranges.get(usize::from(b) % ranges.len().max(1))?;
            Event::DescriptorsFreed { heap, first, count }
        }
        99 => {
            let block = *blocks.get(usize::from(a) % blocks.len().max(1))?;
            let ends = state.allocations.values().filter(|live| live.is.block == block);
            let least = ends.map(|live| live.is.offset + live.is.occupied).max().unwrap_or(0);
            // Now and then smaller than what its allocations need.
            let least = if has.contradictions && b % 4 == 0 { 0 } else { least };
            Event::BlockResized { block, size: least + b64 % 1000 }
        }
        98 if has.contradictions && a % 8 == 0 => Event::Lost,
        98 => Event::Mark { text: text(a) },
        100..112 => bound(has, state, some_key(a), (op, a, b))?,
        _ => described(state, some_key(a), a, b)?,
    })
}

/// A resource that is bound to an allocation, and what becomes of it.
fn bound(
    has: Has,
    state: &State,
    memory: Option<AllocationKey>,
    (op, a, b): (u8, u16, u16),
) -> Option<Event> {
    let mut known: Vec<_> = state.bound.keys().copied().collect();
    known.sort_unstable();
    let some = |number: u16| {
        if has.contradictions && number % 16 == 1 {
            return Some(AllocationKey(100 + u64::from(number / 16) % 4));
        }
        known.get(usize::from(number) % known.len().max(1)).copied()
    };
    Some(match op {
        100..105 => {
            let memory = memory?;
            let room = state.allocations.get(&memory).map_or(100, |live| live.is.requested);
            let offset = u64::from(a / 8) % room.max(1);
            let beyond = u64::from(has.contradictions && b % 8 == 0);
            let free = (100..).map(AllocationKey).find(|key| !state.bound.contains_key(key))?;
            Event::Bound(BoundResource {
                resource: if has.contradictions && b % 16 == 3 { some(a).unwrap_or(free) } else { free },
                memory,
                offset,
                size: u64::from(b) % (room.saturating_sub(offset) + 1) + beyond * room,
                name: TextId(u32::from(a % 7)),
                call_site: TextId(u32::from(a % 5)),
                kind: ResourceKind::Buffer,
                active: a % 2 == 0,
            })
        }
        105..107 => Event::Unbound { resource: some(a)? },
        107..109 => Event::Activated { resource: some(a)? },
        _ => Event::Displaced { resource: some(a)?, by: some(b)? },
    })
}

/// What a pool serves, or what a request asked for.
fn described(state: &State, allocation: Option<AllocationKey>, a: u16, b: u16) -> Option<Event> {
    let pools: Vec<_> = state.pools.keys().copied().collect();
    let pool = *pools.get(usize::from(a) % pools.len().max(1))?;
    Some(match b % 4 {
        3 => Event::RefusedRequest(RefusedRequest {
            size: u64::from(b),
            alignment: Alignment::ONE,
            kind: ResourceKind::Buffer,
            memory_types: MemoryTypeMask(u32::from(b)),
            usage: MemoryUsage::GpuOnly,
            lifetime: ExpectedLifetime::Long,
            movers: 0,
            pool: Some(pool),
            shard: u32::from(a),
            options: RequestedOptions::default(),
        }),
        0 => Event::PoolServes {
            pool,
            first: PoolId(0),
            shard: u32::from(a),
            memory_types: MemoryTypeMask(u32::from(b)),
            first_type: MemoryTypeIndex(1),
            lifetime: ExpectedLifetime::Short,
            optimal_images: a % 2 == 0,
            movers: (b % 8) as u8,
        },
        1 => Event::PoolSized {
            pool,
            sizing: BlockSize::Fixed(u64::from(b)),
            min_blocks: u32::from(a),
            max_blocks: 7,
        },
        _ => Event::Requested {
            allocation: allocation?,
            options: RequestedOptions { skips_quick_lists: b % 2 == 0, ..RequestedOptions::default() },
        },
    })
}

fn descriptors(state: &State, a: u16, b: u16) -> Option<Event> {
    let heap = ObjectId(u32::from(a % 2));
    let known: BTreeMap<_, _> = state.descriptor_heaps.iter().collect();
    Some(match (b % 16, known.contains_key(&heap)) {
        (0, true) => Event::DescriptorHeapDestroyed { heap },
        (1, _) | (_, false) => Event::DescriptorHeapCreated {
            heap,
            kind: DescriptorKind::ShaderVisibleResources,
            capacity: 64,
            name: TextId::NONE,
        },
        _ => {
            let (first, count) = (u32::from(a / 2 % 60), u32::from(b / 16 % 8));
            Event::DescriptorsAllocated { heap, first, count }
        }
    })
}

/// The lowest offset at which an allocation overlaps none.
fn first_fit(state: &State, block: BlockId, alignment: Alignment, occupied: u64) -> Option<u64> {
    let block = &state.blocks[&block];
    let mut offset = 0;
    for &(start, key) in &block.allocations {
        if offset + occupied <= start {
            break;
        }
        offset = alignment.align_up(offset.max(start + state.allocations[&key].is.occupied));
    }
    (offset + occupied <= block.size).then_some(offset)
}
