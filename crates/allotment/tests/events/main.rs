//! The events of an allocator: applied one after another they give what the allocator itself lists, whenever the reader
//! came and whatever several threads do.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it should")]

mod descriptors;
mod placed;

use core::sync::atomic::{AtomicBool, Ordering};

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, MemoryTypeIndex, QueueDevice as _, QueueIndex, Submission};
use allotment::events::{
    AlreadySubscribed, Event, EventBatch, EventSubscription, Placement, SubscriptionDesc,
};
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockSizes, ManualTime, TimeSource, allocate_as_thread};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, JoinThreads, NextPass, PassLimits,
};
use allotment::memory::reports::LeakHandler;
use allotment::{
    Algorithm, Allocation, AllocationOptions, Allocator, AllocatorDesc, Gpu, GpuDesc, MemoryUsage, Pool,
    PoolDesc, Requirements,
};
use allotment_trace::recording::State;

type Simulated = Allocator<SimulatedGpu>;

const KIB: u64 = 1 << 10;

fn allocator(shards: u32) -> Simulated {
    let mut desc = AllocatorDesc::default();
    (desc.threads, desc.block_sizes) = (shards, BlockSizes::fixed(256 * KIB));
    (desc.on_leak, desc.time) = (LeakHandler::Ignore, TimeSource::Manual(ManualTime::new()));
    Allocator::new(SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap()), desc).unwrap()
}

/// What a reader makes of the events.
#[derive(Default)]
struct Reader {
    state: State,
    /// The texts of the events, so that those of different batches differ.
    texts: Vec<String>,
    batch: EventBatch,
    lost: u32,
}

impl Reader {
    fn read(&mut self, events: &mut EventSubscription) {
        events.read(&mut self.batch);
        for event in self.batch.events() {
            let event = event.map_texts(|text| {
                self.texts.push(self.batch.text(text).unwrap().into_owned());
                allotment::events::TextId(self.texts.len() as u32)
            });
            self.lost += u32::from(event == Event::Lost);
            self.state.apply(&event).unwrap();
        }
    }

    /// Reads until the reader knows the whole state. What was lost is announced anew at the end of a frame, and is lost
    /// again where the state alone exceeds the limit and the frame frees a block.
    fn catch_up(&mut self, events: &mut EventSubscription, allocator: &Simulated) {
        loop {
            self.read(events);
            let lost = self.lost;
            allocator.end_frame();
            self.read(events);
            if self.lost == lost {
                return;
            }
        }
    }

    fn text(&self, text: allotment::events::TextId) -> &str {
        (text.0 as usize).checked_sub(1).map_or("", |index| &self.texts[index])
    }

    /// Panics unless the state is what the allocator lists.
    fn compare(&self, allocator: &Simulated) {
        let mut listed = allocator.reports().allocations();
        assert_eq!(listed.len(), self.state.allocations.len());
        listed.sort_by_key(|listed| listed.id.key());
        for listed in &listed {
            let live = &self.state.allocations[&listed.id.key()];
            let block = &self.state.blocks[&live.is.block];
            let info = &listed.info;
            let here = (live.is.offset, live.is.requested, live.is.occupied, live.is.user_data);
            assert_eq!(here, (info.offset, info.size, info.occupied, info.user_data), "{live:?}");
            assert_eq!((block.size, block.memory_type), (info.block_size, info.memory_type));
            assert_eq!(self.text(live.is.name), info.name.as_ref().map_or("", |name| name.as_str()));
            assert_eq!(self.text(live.is.category), info.category);
            assert_eq!((live.is.kind, live.maps), (info.kind, info.maps));
            assert_eq!(live.is.movable, info.movability != Movability::Pinned, "{live:?}");
            assert_eq!(live.free_requested.is_some(), listed.released, "{live:?}");
        }
        let mut blocks: Vec<_> =
            allocator.reports().blocks().iter().map(|it| (it.memory_type, it.ranges.size)).collect();
        let mut found: Vec<_> = self.state.blocks.values().map(|it| (it.memory_type, it.size)).collect();
        blocks.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, blocks);
        for block in self.state.blocks.values() {
            assert_eq!(block.allocations.is_empty(), block.empty_since.is_some());
            let mut end = 0;
            for (offset, key) in &block.allocations {
                assert!(*offset >= end, "no two allocations share a byte");
                end = offset + self.state.allocations[key].is.occupied;
            }
        }
    }
}

/// Numbers without a pattern, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One random call, or two.
fn step(allocator: &Simulated, pools: &[Pool], live: &mut Vec<Allocation>, random: &mut Random) {
    allocate_as_thread(random.below(3) as u32);
    match random.below(16) {
        0..7 => {
            let size = match random.below(10) {
                0 => 300 * KIB + random.below(200 * KIB),
                1 | 2 => 1 + random.below(60 * KIB),
                _ => 1 + random.below(3000),
            };
            let usage = if random.below(2) == 0 { MemoryUsage::GpuOnly } else { MemoryUsage::Upload };
            let mut options = AllocationOptions::new(usage);
            if random.below(3) == 0 {
                options = options.with_name(format!("number {}", random.below(100))).with_category("random");
            }
            if random.below(3) == 0 {
                options = options.with_movability(Movability::Copied);
            }
            if random.below(4) == 0 {
                options = options.with_pool(&pools[random.below(pools.len() as u64) as usize]);
            }
            // A request that suits no memory type of the pool is refused.
            live.extend(allocator.allocate(&Requirements::new(size), &options));
        }
        7..12 if !live.is_empty() => {
            let at = random.below(live.len() as u64) as usize;
            allocator.free(live.swap_remove(at)).unwrap();
        }
        12 if !live.is_empty() => {
            let at = random.below(live.len() as u64) as usize;
            allocator.set_name(&live[at], Some(format!("renamed {}", random.below(100)).into())).unwrap();
            allocator.set_user_data(&live[at], random.below(1000)).unwrap();
        }
        13 if !live.is_empty() => {
            let at = random.below(live.len() as u64) as usize;
            // Refused where the memory is not mapped, or the allocation is being moved.
            let _ = allocator.map(&live[at]);
        }
        14 if !live.is_empty() => {
            let at = random.below(live.len() as u64) as usize;
            let _ = allocator.unmap(&live[at]);
        }
        _ => allocator.end_frame(),
    }
}

/// Moves what may move until there is nothing left to move, or for a few passes.
fn defragment(allocator: &Simulated) {
    let desc = DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE);
    // The blocks of shards that are joined hold allocations of one another.
    let desc = desc.with_join_threads(JoinThreads::Always);
    let Ok(mut run) = Defragmentation::new(allocator, None, desc) else { return };
    for _ in 0..4 {
        // No byte is copied: nobody reads the memory here.
        match run.next_pass() {
            NextPass::Moves(pass) => {
                pass.end();
            }
            NextPass::LimitReached => {}
            NextPass::Done => break,
        }
    }
}

fn pools(allocator: &Simulated) -> Vec<Pool> {
    let mut buddy = PoolDesc::new([MemoryTypeIndex(0)]);
    buddy.algorithm = Algorithm::Buddy;
    let mut named = PoolDesc::new([MemoryTypeIndex(1), MemoryTypeIndex(0)]);
    named.name = Some("two types".into());
    [buddy, named].map(|desc| allocator.create_pool(desc).unwrap()).into()
}

#[test]
fn the_events_lead_to_what_the_allocator_lists_after_every_step() {
    for seed in 1..=20 {
        let allocator = allocator(2);
        let pools = pools(&allocator);
        let (mut random, mut live, mut reader) = (Random(seed * 0x9e37_79b9), Vec::new(), Reader::default());
        // The reader comes after a while.
        (0..random.below(300)).for_each(|_| step(&allocator, &pools, &mut live, &mut random));
        if seed % 2 == 0 {
            // And hears first of allocations that are in blocks of other shards.
            defragment(&allocator);
        }
        let mut events = allocator.subscribe(&SubscriptionDesc::default()).unwrap();
        for at in 0..600 {
            step(&allocator, &pools, &mut live, &mut random);
            if at % 100 == 99 {
                defragment(&allocator);
            }
            reader.read(&mut events);
            reader.compare(&allocator);
        }
        live.into_iter().for_each(|allocation| allocator.free(allocation).unwrap());
        pools.into_iter().for_each(|pool| allocator.destroy_pool(pool).unwrap());
        allocator.trim();
        reader.read(&mut events);
        reader.compare(&allocator);
        assert!(reader.state.blocks.is_empty() && reader.lost == 0);
    }
}

#[test]
fn the_events_of_several_threads_with_moves_lead_to_what_the_allocator_lists() {
    for (seed, waiting) in [(1_u64, 1 << 19), (2, 1 << 19), (3, 500), (4, 100)] {
        let allocator = &allocator(3);
        let pools = &pools(allocator);
        let mut desc = SubscriptionDesc::default();
        desc.max_waiting_events = waiting;
        let mut reader = Reader::default();
        let mut events = None;
        let mut kept: Vec<Vec<Allocation>> = (0..3).map(|_| Vec::new()).collect();
        for round in 0..6 {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let workers: Vec<_> = kept
                    .iter_mut()
                    .enumerate()
                    .map(|(thread, live)| {
                        scope.spawn(move || {
                            let mut random = Random(seed << 32 | round << 8 | (thread as u64 + 1));
                            (0..1500).for_each(|_| step(allocator, pools, live, &mut random));
                        })
                    })
                    .collect();
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        defragment(allocator);
                        std::thread::yield_now();
                    }
                });
                // In the midst of it.
                if round == 1 {
                    events = Some(allocator.subscribe(&desc).unwrap());
                }
                let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
                done.store(true, Ordering::Relaxed);
                joined.into_iter().for_each(Result::unwrap);
            });
            if let Some(events) = &mut events {
                reader.catch_up(events, allocator);
                reader.compare(allocator);
            }
        }
        assert_eq!(reader.lost != 0, waiting < 1000, "a small limit loses events, a large one does not");
        kept.into_iter().flatten().for_each(|allocation| allocator.free(allocation).unwrap());
    }
}

#[test]
fn a_released_buffer_waits_for_the_gpu_in_the_events_too() {
    for relocatable in [false, true] {
        let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
        let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
        let create = |name| {
            let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name(name);
            let options = if relocatable { options.relocatable() } else { options };
            gpu.create_buffer(&BufferDesc::new(4096), &options).unwrap()
        };
        let [before, after] = ["released before", "released after"].map(create);
        let recording = gpu.record("uses both");
        drop(before);
        let mut reader = Reader::default();
        let mut events = gpu.allocator().subscribe(&SubscriptionDesc::default()).unwrap();
        reader.read(&mut events);
        reader.compare(gpu.allocator());
        let waiting = |reader: &Reader| {
            reader.state.allocations.values().filter(|live| live.free_requested.is_some()).count()
        };
        assert_eq!((reader.state.allocations.len(), waiting(&reader)), (2, 1));
        drop(after);
        reader.read(&mut events);
        reader.compare(gpu.allocator());
        assert_eq!((reader.state.allocations.len(), waiting(&reader)), (2, 2));
        drop(recording);
        gpu.reclaim();
        reader.read(&mut events);
        reader.compare(gpu.allocator());
        assert_eq!(reader.state.allocations.len(), 0);
    }
}

#[test]
fn the_second_reader_is_refused_and_a_later_one_gets_the_whole_state() {
    let allocator = allocator(1);
    let options = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("kept");
    let kept = allocator.allocate(&Requirements::new(100), &options).unwrap();
    let first = allocator.subscribe(&SubscriptionDesc::default()).unwrap();
    assert_eq!(allocator.subscribe(&SubscriptionDesc::default()).unwrap_err(), AlreadySubscribed);
    drop(first);
    let mut second = allocator.subscribe(&SubscriptionDesc::default()).unwrap();
    let mut reader = Reader::default();
    reader.read(&mut second);
    reader.compare(&allocator);
    let live = reader.state.allocations.values().next().unwrap();
    assert_eq!((live.is.placement, reader.text(live.is.name)), (Placement::Existing, "kept"));
    allocator.free(kept).unwrap();
}

#[test]
fn the_reader_hears_that_the_allocator_is_gone() {
    let allocator = allocator(1);
    let mut events = allocator.subscribe(&SubscriptionDesc::default()).unwrap();
    let mut batch = EventBatch::new();
    assert!(events.read(&mut batch), "it announced itself");
    assert!(events.read(&mut batch), "it may write more");
    drop(allocator);
    assert!(!events.read(&mut batch));
}

#[test]
fn an_event_says_why_an_allocation_is_where_it_is() {
    let allocator = allocator(1);
    let mut events = allocator.subscribe(&SubscriptionDesc::default()).unwrap();
    let options = AllocationOptions::new(MemoryUsage::GpuOnly);
    let allocate = |size| allocator.allocate(&Requirements::new(size), &options).unwrap();
    let (new, existing, dedicated) = (allocate(1000), allocate(2000), allocate(400 * KIB));
    allocator.free(existing).unwrap();
    let reused = allocate(2000);
    let mut batch = EventBatch::new();
    events.read(&mut batch);
    let placements: Vec<_> = batch
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Allocated(allocated) => Some(allocated.placement),
            _ => None,
        })
        .collect();
    let expected =
        [Placement::NewBlock, Placement::ExistingBlock, Placement::DedicatedBlock, Placement::ReusedRange];
    assert_eq!(placements, expected);
    [new, dedicated, reused].into_iter().for_each(|allocation| allocator.free(allocation).unwrap());
}

#[test]
fn the_events_of_a_gpu_tell_frames_submissions_and_what_waits() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let mut desc = GpuDesc::default();
    desc.frames_in_flight = core::num::NonZero::new(1).unwrap();
    let gpu = Gpu::new(device.clone(), desc).unwrap();
    let mut events = gpu.subscribe(&SubscriptionDesc::default()).unwrap();
    let queue = QueueIndex(0);
    let mut last = 0;
    for _ in 0..3 {
        let frame = gpu.begin_frame().unwrap();
        let mesh = gpu.create_buffer(&BufferDesc::new(64), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
        frame.upload(7_u32.to_ne_bytes()).unwrap();
        let submitted = frame.submit(queue, |queue, waits| {
            // SAFETY: the submission is empty.
            unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
        });
        last = submitted.unwrap().value.0;
        drop(mesh);
        frame.end().unwrap();
    }
    gpu.wait_idle().unwrap();
    gpu.begin_frame().unwrap().end().unwrap();
    let mut reader = Reader::default();
    reader.read(&mut events);
    reader.compare(gpu.allocator());
    let state = &reader.state;
    assert_eq!((state.now.frame, state.queues[&queue.0]), (4, (last, last)));
    assert_eq!(state.deletion_queues.values().map(|queue| queue.waiting).sum::<u32>(), 0);
    assert!(state.rings.values().any(|ring| ring.capacity != 0), "the pages of uploads");
    assert!(state.now.nanoseconds > 0);
    assert!(!state.budgets.is_empty());
}

fn may_move() -> AllocationOptions {
    AllocationOptions::new(MemoryUsage::GpuOnly).with_movability(Movability::Copied)
}

/// Makes an allocation that may move, in a shard.
fn movable(allocator: &Simulated, shard: u32) -> Allocation {
    allocate_as_thread(shard);
    allocator.allocate(&Requirements::new(3 * KIB), &may_move()).unwrap()
}

fn limited_to(max_waiting_events: usize) -> SubscriptionDesc {
    let mut desc = SubscriptionDesc::default();
    desc.max_waiting_events = max_waiting_events;
    desc
}

#[test]
fn a_shard_that_is_new_after_events_were_lost_is_announced_with_the_blocks_of_the_others() {
    let allocator = allocator(2);
    let mut events = allocator.subscribe(&limited_to(100)).unwrap();
    let mut reader = Reader::default();
    reader.read(&mut events);
    let mut live: Vec<_> = (0..60).map(|_| movable(&allocator, 0)).collect();
    // This makes the shard, and is no event by itself.
    allocate_as_thread(1);
    allocator.preview(&Requirements::new(3 * KIB), &may_move()).unwrap();
    reader.read(&mut events);
    live.extend((0..3).map(|_| movable(&allocator, 1)));
    // Into blocks of shard 0, of which the reader has not heard again.
    defragment(&allocator);
    reader.catch_up(&mut events, &allocator);
    reader.compare(&allocator);
    assert_ne!(reader.lost, 0);
    live.into_iter().for_each(|allocation| allocator.free(allocation).unwrap());
}

#[test]
fn a_reader_who_comes_after_another_one_hears_of_the_rings_before_their_use() {
    let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
    drop(gpu.subscribe(&SubscriptionDesc::default()).unwrap());
    let mut events = gpu.allocator().subscribe(&SubscriptionDesc::default()).unwrap();
    let mut reader = Reader::default();
    for size in [1000, 100_000] {
        let frame = gpu.begin_frame().unwrap();
        let buffer = gpu.create_buffer(&BufferDesc::new(size), &MemoryUsage::GpuOnly.into()).unwrap();
        gpu.uploads().write_buffer(&buffer, 0, &vec![1; size as usize]).unwrap();
        frame.end().unwrap();
        reader.read(&mut events);
    }
    assert!(!reader.state.rings.is_empty());
}
