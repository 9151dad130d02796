//! What an allocator does with the requests of a recording: with the same settings, what it did.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{
    BufferDesc, DedicatedNeed, MemoryDevice as _, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex,
    MemoryTypeMask, ResourceKind,
};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::blocks::{
    BlockSize, BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource, allocate_as_thread,
};
use allotment::memory::defragmentation::{Defragmenter, DefragmenterDesc};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{
    AllocatorDesc, BudgetPolicy, Dedicated, ExpectedLifetime, Movability, NewBlocks, OwningAllocator, Pool,
    PoolDesc,
};
use allotment::memory::{FitStrategy, StackSide};
use allotment::{Algorithm, Alignment, Allocation, AllocationOptions, Allocator, MemoryUsage, Requirements};
use allotment_analyze::{BlockBytes, Cursor, Peaks, Scope, Timeline, recorded_settings, what_if};
use allotment_trace::Collector;
use allotment_trace::recording::{Event, Placement, Recording};
use proptest::prelude::*;

/// A call, as three random numbers.
type Call = (u8, u32, u32);

/// A program that makes random calls of an allocator, and records them.
struct Program {
    allocator: Allocator<SimulatedGpu>,
    time: ManualTime,
    collector: Collector,
    live: Vec<(Allocation, bool)>,
    pool: Option<Pool>,
}

impl Program {
    fn new(profile: &str, mut desc: AllocatorDesc) -> Self {
        let time = ManualTime::new();
        (desc.time, desc.on_leak) = (TimeSource::Manual(time.clone()), LeakHandler::Ignore);
        let allocator = Allocator::new(SimulatedGpu::new(Profile::named(profile).unwrap()), desc).unwrap();
        let collector = Collector::new(&allocator).unwrap();
        Self { allocator, time, collector, live: Vec::new(), pool: None }
    }

    fn call(&mut self, (what, a, b): Call) {
        match what {
            0..50 => self.allocate(a, b),
            50..80 => {
                if !self.live.is_empty() {
                    let (token, _) = self.live.swap_remove(a as usize % self.live.len());
                    self.allocator.free(token).unwrap();
                }
            }
            80..86 => self.allocator.end_frame(),
            86 => drop(self.allocator.reports().blocks()),
            87 => {
                let _ = self.allocator.statistics();
            }
            88 => {
                self.allocator.trim();
            }
            89..92 => {
                allocate_as_thread(a % 3);
            }
            92 => self.time.advance(Duration::from_millis(u64::from(a % 30_000))),
            93 => {
                let options = AllocationOptions::from(MemoryUsage::ALL[b as usize % 3]);
                let request = Requirements::new(u64::from(1 + a % 100_000));
                let _ = self.allocator.reserve(&request, &options, 20 << 20);
            }
            94 => {
                let options = AllocationOptions::from(MemoryUsage::GpuOnly);
                let _ = self.allocator.preview(&Requirements::new(u64::from(1 + a % 10_000_000)), &options);
            }
            95..97 if self.pool.is_none() => self.create_pool(a, b),
            97 => {
                if let Some(pool) = &self.pool {
                    self.allocator.reset_pool(pool).unwrap();
                    self.live.retain(|(_, of_pool)| !of_pool);
                }
            }
            98 if self.live.iter().all(|(_, of_pool)| !of_pool) => {
                if let Some(pool) = self.pool.take() {
                    self.allocator.destroy_pool(pool).unwrap();
                }
            }
            _ => {
                self.allocator.maintain();
            }
        }
    }

    fn create_pool(&mut self, a: u32, b: u32) {
        let types = self.allocator.device().properties().memory_types.len() as u32;
        let mut desc = PoolDesc::new([MemoryTypeIndex((a % types) as u8)]);
        desc.algorithm = Algorithm::ALL[(a / 7) as usize % 3];
        desc.sizing = (b % 2 == 0).then_some(BlockSize::Fixed(8 << 20));
        (desc.min_blocks, desc.max_blocks) = (b / 2 % 2, if b % 3 == 0 { 3 } else { u32::MAX });
        desc.alignment = Alignment::new(1 << (a % 9)).unwrap();
        desc.ignore_granularity = b % 5 == 0;
        desc.separate_movable = b % 16 < 8;
        desc.name = Some("of the program".into());
        self.pool = self.allocator.create_pool(desc).ok();
    }

    fn allocate(&mut self, a: u32, b: u32) {
        // As many small ones as large ones.
        let size = 1 + (u64::from(a) & ((1 << (b % 24)) - 1));
        let kinds = [
            ResourceKind::Buffer,
            ResourceKind::OptimalImage,
            ResourceKind::LinearImage,
            ResourceKind::Unknown,
        ];
        let mut requirements = Requirements::new(size)
            .with_alignment(Alignment::new(1 << (b / 24 % 12)).unwrap())
            .with_kind(kinds[(a / 3) as usize % 4]);
        let usage = MemoryUsage::ALL[(b / 300) as usize % 4];
        let mut options = usage.with_name(["", "mesh", "texture"][a as usize % 3]).with_category("test");
        options.user_data = u64::from(a % 5);
        if b % 7 == 0 {
            options.lifetime = ExpectedLifetime::Short;
        }
        match a % 40 {
            0 => options.dedicated = Dedicated::Always,
            1 => options.dedicated = Dedicated::Never,
            2 => options.strategy = FitStrategy::LeastMemory,
            3 => options.strategy = FitStrategy::LowestOffset,
            4 => options.strategy = FitStrategy::LeastTime,
            5 => options.new_blocks = NewBlocks::NeverAllocate,
            6 => options.budget = BudgetPolicy::WithinBudget,
            7 => requirements.dedicated = DedicatedNeed::Preferred,
            8 => requirements.dedicated = DedicatedNeed::Required,
            9 => options.side = StackSide::Upper,
            10 => options.preferred = MemoryProperties::HOST_CACHED,
            12..16 => options.movability = Movability::Copied,
            _ => {}
        }
        let of_pool = self.pool.is_some() && b % 4 == 0;
        options.pool = self.pool.clone().filter(|_| of_pool);
        let made = if a % 40 == 11 {
            self.allocator.with_memory_options(&()).allocate(&requirements, &options)
        } else {
            self.allocator.allocate(&requirements, &options)
        };
        self.live.extend(made.ok().map(|token| (token, of_pool)));
    }
}

/// Returns the recording of random calls.
fn recorded(profile: &str, desc: AllocatorDesc, calls: &[Call]) -> Recording {
    let before = allocate_as_thread(0);
    let mut program = Program::new(profile, desc);
    for &call in calls {
        program.call(call);
    }
    allocate_as_thread(before);
    program.collector.into_recording()
}

fn settings(number: u8) -> AllocatorDesc {
    let mut desc = AllocatorDesc::default();
    desc.threads = 1 + u32::from(number % 3);
    desc.algorithm = if number % 4 == 3 { Algorithm::Buddy } else { Algorithm::Tlsf };
    if number % 5 == 0 {
        desc.block_sizes = BlockSizes::fixed(1 << 20);
    }
    if number % 7 == 0 {
        desc.empty_blocks = EmptyBlockPolicy::NONE;
    }
    desc
}

fn calls(count: usize) -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec((0..100_u8, any::<u32>(), any::<u32>()), 0..count)
}

const PROFILES: [&str; 5] =
    ["discrete-large-bar", "discrete-small-bar", "mobile", "d3d12-tier-1", "nvidia-h200"];

/// What of a recording its allocator decided, in order: where each allocation is, which blocks there are, and when they
/// come and go. Allocations and blocks have the numbers in which they were made: keys are used again, in any order.
fn decisions(recording: &Recording) -> Vec<(&'static str, [u64; 4])> {
    let (mut allocations, mut blocks) = (HashMap::new(), HashMap::new());
    let (mut made_allocations, mut made_blocks) = (0, 0);
    let number = |numbers: &mut HashMap<u64, u64>, count: &mut u64, key: u64| {
        *count += 1;
        numbers.insert(key, *count);
        *count
    };
    let decided = recording.events.iter().filter_map(|event| {
        Some(match *event {
            Event::BlockAllocated { block, size, kind, memory_type, .. } => {
                let block = number(&mut blocks, &mut made_blocks, block.0);
                ("block", [block, size, kind as u64, memory_type.0.into()])
            }
            Event::BlockFreed { block } => ("block freed", [blocks[&block.0], 0, 0, 0]),
            Event::BlockShared { block } => ("block shared", [blocks[&block.0], 0, 0, 0]),
            Event::Allocated(is) => {
                let allocation = number(&mut allocations, &mut made_allocations, is.allocation.0);
                let (block, placement) = (blocks[&is.block.0], is.placement as u64);
                ("allocated", [allocation, block, is.offset, is.occupied << 8 | placement])
            }
            Event::Freed { allocation } => ("freed", [allocations[&allocation.0], 0, 0, 0]),
            _ => return None,
        })
    });
    decided.collect()
}

proptest! {
    #[test]
    fn the_same_settings_reproduce_every_offset(number: u8, calls in calls(600)) {
        let recording = recorded(PROFILES[usize::from(number) % PROFILES.len()], settings(number), &calls);
        let same = what_if(&recording, &recorded_settings(&recording)).unwrap();
        // Not only the places: also what blocks there are, when they come and go, and every pool.
        let (was, is) = (decisions(&recording), decisions(&same.recording));
        let differ = was.iter().zip(&is).position(|(was, is)| was != is);
        prop_assert_eq!(differ, None, "{:?}\n{:?}", differ.map(|at| &was[at.saturating_sub(3)..=at]),
            differ.map(|at| &is[at.saturating_sub(3)..=at]));
        prop_assert_eq!(was.len(), is.len());
        prop_assert_eq!((same.first_difference, same.refused, same.served_now), (None, 0, 0));
        let refused = recording.events.iter().filter(|event| matches!(event, Event::Refused { .. }));
        prop_assert_eq!(same.refused_before, refused.count() as u64, "refused once more");
        prop_assert_eq!(same.at_the_same_place, same.requests);
        // With all that the original says of each allocation.
        let (a, b) = (Timeline::new(&recording), Timeline::new(&same.recording));
        for (one, other) in a.allocations().zip(b.allocations()) {
            let (one, other) = (a.texts(one), b.texts(other));
            prop_assert_eq!(recording.text(one.name), same.recording.text(other.name));
            prop_assert_eq!(recording.text(one.category), same.recording.text(other.category));
        }
    }

    #[test]
    fn other_settings_make_a_recording_without_contradictions(number: u8, other: u8, calls in calls(300)) {
        let recording = recorded(PROFILES[usize::from(number) % PROFILES.len()], settings(number), &calls);
        let changed = what_if(&recording, &settings(other)).unwrap();
        let (was, is) = (Timeline::new(&recording), Timeline::new(&changed.recording));
        prop_assert_eq!(is.contradiction_count(), 0);
        prop_assert_eq!(is.frame_count(), was.frame_count());
        if changed.refused == 0 {
            let bytes = |timeline: &Timeline<'_>| {
                BlockBytes::of_scope(&Cursor::at(timeline, timeline.end()), Scope::All).used
            };
            prop_assert_eq!(bytes(&is), bytes(&was), "the program has the same bytes in the end");
        }
    }
}

/// Plays a recording again, with its settings. Returns the first of the decisions that is another one.
fn first_difference(recording: &Recording) -> Option<(&'static str, [u64; 4])> {
    let same = what_if(recording, &recorded_settings(recording)).unwrap();
    let (was, is) = (decisions(recording), decisions(&same.recording));
    was.into_iter().zip(is).find(|(was, is)| was != is).map(|(was, _)| was)
}

#[test]
fn a_request_that_names_properties_searches_mapped_blocks_first_only_where_the_cpu_is_among_them() {
    for (named, block) in [(MemoryProperties::DEVICE_LOCAL, 2), (MemoryProperties::HOST_VISIBLE, 1)] {
        let mut desc = AllocatorDesc::default();
        desc.block_sizes = BlockSizes::fixed(1 << 20);
        // A mapped block that is nearly empty, and a full one that is not mapped.
        let mut program = Program::new("mobile", desc);
        let mut make = |size, options: &AllocationOptions| {
            let made = program.allocator.allocate(&Requirements::new(size), options).unwrap();
            program.live.push((made, false));
        };
        make(100 << 10, &MemoryUsage::Upload.into());
        make(950 << 10, &MemoryUsage::GpuOnly.into());
        make(10 << 10, &AllocationOptions::from(MemoryUsage::GpuOnly).with_required(named));
        let recording = program.collector.into_recording();
        assert!(matches!(decisions(&recording).last(), Some((_, [3, at, ..])) if *at == block));
        assert_eq!(first_difference(&recording), None, "{named:?}");
    }
}

#[test]
fn a_request_that_another_memory_type_served_from_a_range_that_waited_there_is_served_so_again() {
    let mut desc = AllocatorDesc::default();
    desc.threads = 1;
    let mut program = Program::new("nvidia-h200", desc);
    let mut make = |options: &AllocationOptions| {
        let made = program.allocator.allocate(&Requirements::new(1024), options).unwrap();
        program.live.push((made, false));
    };
    make(&MemoryUsage::DeviceUpload.into());
    make(&MemoryUsage::DeviceUpload.into());
    let (freed, _) = program.live.pop().unwrap();
    program.allocator.free(freed).unwrap();
    let mut no_block = AllocationOptions::from(MemoryUsage::GpuOnly);
    no_block.new_blocks = NewBlocks::NeverAllocate;
    program.live.push((program.allocator.allocate(&Requirements::new(1024), &no_block).unwrap(), false));
    let recording = program.collector.into_recording();
    let reused = recording.events.iter().rev().find_map(|event| match event {
        Event::Allocated(is) => Some((is.placement, is.second_choice)),
        _ => None,
    });
    assert_eq!(reused, Some((Placement::ReusedRange, true)));
    assert_eq!(first_difference(&recording), None);
}

#[test]
fn idle_blocks_are_freed_again_where_another_heap_kept_a_request_within_the_budget_and_only_there() {
    for (types, freed) in [(MemoryTypeMask::ALL, true), (MemoryTypeMask(1 << 3), false)] {
        let mut program = Program::new("discrete-small-bar", AllocatorDesc::default());
        let mut upload = AllocationOptions::from(MemoryUsage::DeviceUpload);
        upload.memory_types = types;
        let request = Requirements::new(100);
        let idle = program.allocator.allocate(&request, &upload).unwrap();
        assert_eq!(program.allocator.info(&idle).unwrap().memory_type, MemoryTypeIndex(3));
        program.allocator.free(idle).unwrap();
        for heap in 0..program.allocator.device().properties().heaps.len() {
            program.allocator.device().set_budget(MemoryHeapIndex(heap as u8), 4 << 20);
        }
        program.allocator.refresh_budgets();
        // In another pool of the same heap.
        upload.lifetime = ExpectedLifetime::Short;
        program.live.push((program.allocator.allocate(&request, &upload).unwrap(), false));
        let recording = program.collector.into_recording();
        assert_eq!(decisions(&recording).contains(&("block freed", [1, 0, 0, 0])), freed);
        assert_eq!(first_difference(&recording), None);
    }
}

#[test]
fn what_each_mover_moves_has_blocks_of_its_own_again() {
    let device = SimulatedGpu::new(Profile::named("nvidia-h200").unwrap());
    let tracker = SubmissionTracker::new(device.clone()).unwrap();
    let mut desc = AllocatorDesc::default();
    (desc.threads, desc.block_sizes, desc.on_leak) = (1, BlockSizes::fixed(1 << 20), LeakHandler::Ignore);
    let allocator = Arc::new(Allocator::new(device, desc).unwrap());
    let collector = Collector::new(&*allocator).unwrap();
    let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).unwrap();
    // The fourth shares the blocks of the first.
    let sets: Vec<_> =
        (0..4).map(|_| Defragmenter::new(&memory, DefragmenterDesc::default()).unwrap()).collect();
    let pinned = MemoryUsage::Upload.with_name("of all kinds");
    let movable = pinned.clone().with_movability(Movability::Copied);
    let (mut tokens, mut buffers, mut mapped) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        for options in [&pinned, &movable] {
            tokens.push(allocator.allocate(&Requirements::new(1000), options).unwrap());
        }
        for set in &sets {
            buffers.push(set.create_buffer(&BufferDesc::new(1000), &movable).unwrap());
            mapped.push(set.create_mapped_buffer(&BufferDesc::new(1000), &movable).unwrap());
        }
    }
    drop((buffers, mapped));
    tokens.into_iter().for_each(|token| allocator.free(token).unwrap());
    let recording = collector.into_recording();
    let blocks = decisions(&recording).iter().filter(|(what, _)| *what == "block").count();
    assert_eq!(blocks, 8, "two without a Defragmenter, and two of each of three");
    assert_eq!(first_difference(&recording), None);
}

#[test]
fn larger_blocks_are_larger() {
    let calls: Vec<_> = (0..200).map(|i| (0, i * 7919, 20)).collect();
    let recording = recorded("discrete-large-bar", AllocatorDesc::default(), &calls);
    let mut settings = recorded_settings(&recording);
    settings.block_sizes = BlockSizes::fixed(256 << 20);
    let larger = what_if(&recording, &settings).unwrap();
    let peak = |recording| Peaks::of(&Timeline::new(recording), Scope::All).blocks.bytes;
    assert!(peak(&larger.recording) >= 256 << 20 && peak(&recording) < 256 << 20);
    assert_eq!(recorded_settings(&larger.recording).block_sizes, settings.block_sizes, "its header says so");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let mut settings = AllocatorDesc::default();
    settings.block_sizes = BlockSizes::fixed(3);
    assert!(what_if(&Recording::default(), &settings).is_err());
}
