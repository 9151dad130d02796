//! A file of each version that was ever released: every later version of the library reads it.

use std::fs;
use std::path::PathBuf;

use allotment::device::{
    DedicatedNeed, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask, QueueIndex,
    ResourceKind,
};
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::{BudgetPolicy, Dedicated, ExpectedLifetime, NewBlocks};
use allotment::memory::{FitStrategy, StackSide};
use allotment::{Algorithm, Alignment, MemoryUsage};
use allotment_trace::recording::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, DeletionQueueKind, DescriptorKind, Event,
    ObjectId, Placement, PoolId, Recording, RefusalReason, RefusedRequest, RequestedOptions, RingKind,
    StackFrame, StackId, StallKind, TextId, WriterDesc,
};

use crate::events::{header, texts};
use crate::files::file;

pub(crate) fn allocation() -> Event {
    Event::Allocated(Allocated {
        allocation: AllocationKey(7 << 32 | 3),
        block: BlockId(7 << 32 | 1),
        offset: 65536,
        requested: 1000,
        occupied: 1024,
        user_data: 42,
        name: TextId(2),
        category: TextId(3),
        alignment: Alignment::new(256).unwrap(),
        usage: Some(MemoryUsage::DeviceUpload),
        kind: ResourceKind::OptimalImage,
        placement: Placement::NewBlock,
        second_choice: true,
        movable: true,
    })
}

/// Every event of version 1, and allocations that differ in what is short.
fn recording() -> Recording {
    let Event::Allocated(first) = allocation() else { unreachable!() };
    let (pool, block, allocation) = (PoolId(7), first.block, first.allocation);
    let reservation = AllocationKey(7 << 32 | 4);
    let plain = Allocated {
        allocation: AllocationKey(9 << 32),
        offset: 66560,
        requested: 512,
        occupied: 512,
        user_data: 0,
        name: TextId::NONE,
        usage: None,
        kind: ResourceKind::Unknown,
        movable: false,
        ..first
    };
    let odd =
        Allocated { allocation: reservation, offset: 131_072 + 1, requested: 77, occupied: 77, ..first };
    let other = Allocated { allocation: AllocationKey(7 << 32 | 5), offset: 1 << 18, ..first };
    let (heap, queue, ring) = (ObjectId(5), QueueIndex(1), ObjectId(6));
    let events = vec![
        Event::Time { nanoseconds: 123_456_789 },
        Event::PoolCreated { pool, name: TextId(1), algorithm: Some(Algorithm::Buddy), custom: true },
        Event::BlockAllocated {
            block,
            pool,
            memory_type: MemoryTypeIndex(1),
            kind: BlockKind::Dedicated,
            size: 64 << 20,
        },
        Event::BlockShared { block },
        Event::BlockResized { block, size: 48 << 20 },
        Event::Allocated(first),
        Event::CallSite { allocation, site: TextId(4) },
        Event::Allocated(plain),
        Event::Allocated(odd),
        Event::Allocated(other),
        Event::FrameEnd { number: 0 },
        Event::Time { nanoseconds: 140_000_000 },
        Event::Reserved { reservation, allocation },
        Event::Exchanged { allocation, reservation },
        Event::Mapped { allocation, count: 2 },
        Event::Movable { allocation, movable: false },
        Event::Labelled { allocation, name: TextId(1), category: TextId(2), user_data: u64::MAX },
        Event::Budget { heap: MemoryHeapIndex(0), usage: 5 << 20, budget: 7 << 30 },
        Event::Refused {
            reason: RefusalReason::PoolFull,
            requested: 1 << 40,
            available: 1 << 20,
            largest_free: 4096,
            name: TextId(2),
        },
        Event::Stalled { kind: StallKind::Gpu, nanoseconds: 1_500_000 },
        Event::Submitted { queue, value: 10 },
        Event::Completed { queue, value: 9 },
        Event::DescriptorHeapCreated {
            heap,
            kind: DescriptorKind::RenderTargets,
            capacity: 4096,
            name: TextId(3),
        },
        Event::DescriptorsAllocated { heap, first: 100, count: 16 },
        Event::DescriptorsFreed { heap, first: 100, count: 16 },
        Event::RingCreated { ring, kind: RingKind::Staging, capacity: 1 << 25, name: TextId(4) },
        Event::RingUsed { ring, used: 12345 },
        Event::DeletionQueue { queue: ObjectId(1), kind: DeletionQueueKind::Objects, waiting: 17 },
        Event::Mark { text: TextId(1) },
        Event::FrameEnd { number: 1 },
        Event::FreeRequested { allocation },
        Event::Freed { allocation },
        Event::RingDestroyed { ring },
        Event::DescriptorHeapDestroyed { heap },
        Event::Freed { allocation: reservation },
        Event::BlockFreed { block },
        Event::PoolDestroyed { pool },
        Event::Lost,
    ];
    Recording { header: header(), texts: texts(4), events, ..Recording::default() }
}

/// The events that came to version 1 later, each record of which has its length.
fn later_recording() -> Recording {
    let Event::Allocated(first) = allocation() else { unreachable!() };
    let (pool, block) = (PoolId(7), first.block);
    let mut empty_blocks = EmptyBlockPolicy::NONE;
    (empty_blocks.frames, empty_blocks.kept_bytes, empty_blocks.kept_divisor) = (120, 4 << 20, 16);
    // Those of the kept file, whatever the defaults are now.
    let mut sizes = BlockSizes::fixed(4 << 20);
    (sizes.largest, sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (256 << 20, 64, 1);
    let events = vec![
        Event::PoolCreated { pool, name: TextId(1), algorithm: Some(Algorithm::Tlsf), custom: true },
        Event::PoolServes {
            pool,
            first: PoolId(5),
            shard: 2,
            memory_types: MemoryTypeMask(0b101),
            first_type: MemoryTypeIndex(2),
            lifetime: ExpectedLifetime::Short,
            optimal_images: true,
            movers: 1,
        },
        Event::PoolSized { pool, sizing: BlockSize::Fixed(1 << 20), min_blocks: 1, max_blocks: u32::MAX },
        Event::PoolSized { pool, sizing: BlockSize::Growing(sizes), min_blocks: 0, max_blocks: 9 },
        Event::PoolRules {
            pool,
            empty_blocks,
            alignment: Alignment::new(256).unwrap(),
            budget: BudgetPolicy::WithinBudget,
            ignores_granularity: true,
            separate_movable: true,
        },
        Event::BlockAllocated {
            block,
            pool,
            memory_type: MemoryTypeIndex(2),
            kind: BlockKind::Shared,
            size: 1 << 20,
        },
        Event::Allocated(first),
        Event::Requested {
            allocation: first.allocation,
            options: RequestedOptions {
                dedicated: Dedicated::Never,
                need: DedicatedNeed::Preferred,
                new_blocks: NewBlocks::NeverAllocate,
                budget: BudgetPolicy::WithinBudget,
                strategy: FitStrategy::LowestOffset,
                side: StackSide::Upper,
                skips_quick_lists: true,
                with_resource: true,
                ..RequestedOptions::default()
            },
        },
        Event::RefusedRequest(RefusedRequest {
            size: 3 << 30,
            alignment: Alignment::new(65536).unwrap(),
            kind: ResourceKind::OptimalImage,
            memory_types: MemoryTypeMask(0x8000_0005),
            usage: MemoryUsage::Readback,
            lifetime: ExpectedLifetime::Short,
            movers: 1,
            pool: Some(pool),
            shard: 7,
            options: RequestedOptions {
                dedicated: Dedicated::Always,
                required: MemoryProperties::HOST_VISIBLE,
                preferred: MemoryProperties::HOST_CACHED,
                avoided: MemoryProperties::DEVICE_LOCAL | MemoryProperties::DEVICE_COHERENT,
                ..RequestedOptions::default()
            },
        }),
        Event::Joined { pool },
        Event::TimePassed { sixtieths: 1234 },
        Event::RoomReserved { pool, memory_type: MemoryTypeIndex(200), requested: 1000, bytes: 1 << 30 },
        Event::Maintained,
        Event::Trimmed,
        Event::PoolReset { pool },
        Event::Freed { allocation: first.allocation },
    ];
    Recording { header: header(), texts: texts(4), events, ..Recording::default() }
}

/// Resources that share an allocation, whose events came later still.
fn shared_recording() -> Recording {
    let Event::Allocated(memory) = allocation() else { unreachable!() };
    let [shadows, bloom] = [AllocationKey(99 << 32), AllocationKey(99 << 32 | 1)];
    let first = BoundResource {
        resource: shadows,
        memory: memory.allocation,
        offset: 0,
        size: 1000,
        name: TextId(1),
        call_site: TextId(4),
        kind: ResourceKind::OptimalImage,
        active: true,
    };
    let second = BoundResource {
        resource: bloom,
        offset: 256,
        size: 300,
        name: TextId(2),
        kind: ResourceKind::Buffer,
        active: false,
        ..first
    };
    let (pool, kind) = (PoolId(7), BlockKind::Shared);
    let events = vec![
        Event::PoolCreated { pool, name: TextId(1), algorithm: Some(Algorithm::Tlsf), custom: true },
        Event::BlockAllocated {
            block: memory.block,
            pool,
            memory_type: MemoryTypeIndex(2),
            kind,
            size: 1 << 20,
        },
        Event::Allocated(memory),
        Event::Bound(first),
        Event::Bound(second),
        Event::Displaced { resource: shadows, by: bloom },
        Event::Activated { resource: bloom },
        Event::Unbound { resource: shadows },
        Event::FrameEnd { number: 0 },
    ];
    Recording { header: header(), texts: texts(4), events, ..Recording::default() }
}

/// Call stacks, which came after those.
fn recording_with_stacks() -> Recording {
    let Event::Allocated(is) = allocation() else { unreachable!() };
    let (pool, block, allocation) = (PoolId(7), is.block, is.allocation);
    let (memory_type, kind, size) = (MemoryTypeIndex(2), BlockKind::Shared, 1 << 20);
    let mut recording = Recording {
        header: header(),
        texts: texts(4),
        events: vec![
            Event::PoolCreated { pool, name: TextId(1), algorithm: Some(Algorithm::Tlsf), custom: true },
            Event::BlockAllocated { block, pool, memory_type, kind, size },
            Event::Allocated(is),
            Event::CallSite { allocation, site: TextId(4) },
            Event::Stack { allocation, stack: StackId(3) },
            Event::FrameEnd { number: 0 },
        ],
        ..Recording::default()
    };
    for (parent, function, place) in [(0, 1, 0), (1, 2, 3), (2, 3, 4), (1, 3, 4)] {
        let frame = StackFrame { parent: StackId(parent), function: TextId(function), place: TextId(place) };
        recording.stacks.push(frame).unwrap();
    }
    recording
}

#[test]
fn the_file_of_version_1_with_call_stacks_is_read() {
    is_read_and_written_as_before("version-1-stacks.altr", &recording_with_stacks());
}

#[test]
fn the_file_of_version_1_with_resources_that_share_memory_is_read() {
    is_read_and_written_as_before("version-1-shared-memory.altr", &shared_recording());
}

#[test]
fn the_file_of_version_1_is_read() {
    is_read_and_written_as_before("version-1.altr", &recording());
}

#[test]
fn the_file_of_version_1_with_later_events_is_read() {
    is_read_and_written_as_before("version-1-later-events.altr", &later_recording());
}

fn is_read_and_written_as_before(name: &str, recording: &Recording) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings").join(name);
    let written = file(recording, 20, &WriterDesc::default().with_snapshot_every(100));
    if std::env::var_os("ALLOTMENT_WRITE_GOLDEN").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let kept = fs::read(&path).unwrap();
    assert_eq!(Recording::read(&*kept).unwrap(), (recording.clone(), None));
    // Of this version, also the bytes are the same.
    assert_eq!(written, kept, "the format has changed: give it another version, and keep this file");
}
