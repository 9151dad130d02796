//! The plan for the blocks of a recording is the one that the library makes for the allocator that was recorded.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashMap;

use allotment::device::MemoryHandle as _;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::events::Event;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy, allocate_as_thread};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, JoinThreads, NextPass, PassLimits,
};
use allotment::memory::reports::LeakHandler;
use allotment::memory::{AllocatorDesc, Movability};
use allotment::{
    Algorithm, Alignment, Allocation, AllocationOptions, Allocator, MemoryUsage, Requirements, ResourceKind,
};
use allotment_analyze::{
    BlockFate, Cursor, DefragmentationPreview, DefragmentationVerdict, PreviewOptions, PreviewedMove, Scope,
    Timeline, segments, units,
};
use allotment_trace::Collector;
use allotment_trace::recording::Recording;
use proptest::prelude::*;

/// A program that makes random calls.
struct Program {
    allocator: Allocator<SimulatedGpu>,
    collector: Collector,
    live: Vec<Allocation>,
    made: u64,
}

impl Program {
    fn new(profile: &str, algorithm: Algorithm, shards: u32) -> Self {
        let mut desc = AllocatorDesc::default();
        (desc.algorithm, desc.threads, desc.on_leak) = (algorithm, shards, LeakHandler::Ignore);
        (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(1 << 20), EmptyBlockPolicy::NONE);
        let allocator = Allocator::new(SimulatedGpu::new(Profile::named(profile).unwrap()), desc).unwrap();
        let collector = Collector::new(&allocator).unwrap();
        Self { allocator, collector, live: Vec::new(), made: 0 }
    }

    fn call(&mut self, (what, a, b): (u8, u32, u32)) {
        match what {
            0..60 => {
                let mut request = Requirements::new(u64::from(1 + a % 300_000))
                    .with_alignment(Alignment::new(1 << (b % 9)).unwrap());
                if b % 3 == 0 {
                    request.kind = ResourceKind::OptimalImage;
                }
                let mut options = AllocationOptions::new(MemoryUsage::ALL[a as usize % 3]);
                if b % 5 != 0 {
                    options.movability = Movability::Copied;
                }
                self.made += 1;
                options.user_data = self.made;
                self.live.extend(self.allocator.allocate(&request, &options));
            }
            60..95 if !self.live.is_empty() => {
                let token = self.live.swap_remove(a as usize % self.live.len());
                self.allocator.free(token).unwrap();
            }
            _ => {
                allocate_as_thread(a % 3);
            }
        }
    }
}

fn strategy(number: u32) -> DefragmentationStrategy {
    match number % 3 {
        0 => DefragmentationStrategy::Fast,
        1 => DefragmentationStrategy::Full,
        _ => DefragmentationStrategy::WithinBytes(u64::from(number) % 2_000_000),
    }
}

fn preview_of(recording: &Recording, options: PreviewOptions) -> DefragmentationPreview {
    let timeline = Timeline::new(recording);
    DefragmentationPreview::at(&Cursor::at(&timeline, timeline.end()), Scope::All, options).unwrap()
}

const PROFILES: [&str; 3] = ["discrete-large-bar", "mobile", "d3d12-tier-1"];

proptest! {
    #[test]
    fn the_plan_of_a_recording_is_that_of_its_allocator(
        number: u32,
        calls in prop::collection::vec((0..100_u8, any::<u32>(), any::<u32>()), 0..300),
    ) {
        let algorithm = if number % 4 == 3 { Algorithm::Buddy } else { Algorithm::Tlsf };
        // One shard: of equally good blocks and free ranges a run takes those of the first shard first, and a recording does
        // not tell them from those of the others.
        let mut program = Program::new(PROFILES[number as usize % 3], algorithm, 1);
        let before = allocate_as_thread(0);
        calls.into_iter().for_each(|call| program.call(call));
        allocate_as_thread(before);
        let Program { allocator, collector, .. } = program;
        let recording = collector.into_recording();
        let strategy = strategy(number);
        let preview = preview_of(&recording, PreviewOptions { strategy, all_movable: false });

        let desc = DefragmentationDesc::new(strategy)
            .with_limits(PassLimits::NONE)
            .with_join_threads(JoinThreads::Always);
        let mut run = Defragmentation::new(&allocator, None, desc).unwrap();
        let plan = run.plan().clone();
        prop_assert_eq!((preview.plan.blocks, preview.plan.block_bytes), (plan.blocks, plan.block_bytes));
        // Nor does it tell which block has the number of one that was freed: a run sorts equally good ones by that.
        if recording.events.iter().any(|event| matches!(event, Event::BlockFreed { .. })) {
            return Ok(());
        }
        prop_assert_eq!(&preview.plan.steps, &plan.steps);
        prop_assert_eq!(preview.plan.lower_bound_bytes, plan.lower_bound_bytes);

        prop_assert_eq!(plan.moves() as usize, preview.moves.len());

        // A run moves these allocations out of these blocks. It finds the new places anew, and a block for which it finds
        // none it keeps; then it plans anew.
        let mut moved = Vec::new();
        while let NextPass::Moves(pass) = run.next_pass() {
            for one in pass.moves() {
                let from = one.from();
                moved.push((one.user_data(), from.memory.to_raw(), from.offset));
            }
            pass.end();
        }
        if run.statistics().blocks_kept > 0 {
            return Ok(());
        }
        prop_assert_eq!(moved.len(), preview.moves.len());
        let timeline = Timeline::new(&recording);
        let number = |one: &PreviewedMove| {
            timeline.allocation_at(one.allocation, timeline.end()).map(|live| live.is.user_data)
        };
        let planned: HashMap<_, _> = preview.moves.iter().map(|one| (number(one), one)).collect();
        let mut blocks = HashMap::new();
        for (user_data, from, offset) in moved {
            let planned = planned[&Some(user_data)];
            prop_assert_eq!(planned.from.offset, offset);
            prop_assert_eq!(*blocks.entry(from).or_insert(planned.from.block), planned.from.block);
        }
    }

    #[test]
    fn after_all_moves_no_two_allocations_share_a_byte_and_the_planned_blocks_are_empty(
        number: u32,
        all_movable: bool,
        calls in prop::collection::vec((0..100_u8, any::<u32>(), any::<u32>()), 0..300),
    ) {
        let mut program = Program::new(PROFILES[number as usize % 3], Algorithm::Tlsf, 1 + number % 2);
        let before = allocate_as_thread(0);
        calls.into_iter().for_each(|call| program.call(call));
        allocate_as_thread(before);
        let recording = program.collector.into_recording();
        let preview = preview_of(&recording, PreviewOptions { strategy: strategy(number), all_movable });
        let count = |placed: fn(&allotment_analyze::PreviewedBlock) -> usize| -> usize {
            preview.blocks.iter().map(placed).sum()
        };
        prop_assert_eq!(count(|block| block.before.len()), count(|block| block.after.len()));
        for block in &preview.blocks {
            prop_assert!(segments(block.size, &block.after).iter().all(|segment| segment.depth < 2));
            prop_assert!(block.after.iter().all(|one| one.end() <= block.size));
            prop_assert!(block.after.iter().all(|one| one.offset % one.alignment.get() == 0));
            prop_assert_eq!(block.after.is_empty(), block.fate != BlockFate::Stays);
        }
        let freed = preview.blocks.iter().filter(|block| block.fate == BlockFate::Freed).count();
        prop_assert_eq!(freed, preview.plan.blocks_freed() as usize);
        let bytes: u64 = preview.blocks.iter().filter(|is| is.fate != BlockFate::Empty).map(|is| is.size).sum();
        prop_assert!(bytes - preview.plan.bytes_freed() >= preview.least.block_bytes);
    }
}

/// A program with as many meshes of 256 KiB in blocks of 1 MiB, of which every fourth stays.
fn meshes(count: usize, movability: Movability) -> Recording {
    let mut program = Program::new("integrated", Algorithm::Tlsf, 1);
    let options = AllocationOptions::new(MemoryUsage::Upload).with_movability(movability);
    for _ in 0..count {
        program.live.push(program.allocator.allocate(&Requirements::new(256 << 10), &options).unwrap());
    }
    let live = core::mem::take(&mut program.live);
    for (index, mesh) in live.into_iter().enumerate() {
        if index % 4 != 0 {
            program.allocator.free(mesh).unwrap();
        }
    }
    program.collector.into_recording()
}

#[test]
fn a_preview_says_what_moves_where_and_what_is_free_then() {
    let preview = preview_of(&meshes(12, Movability::Copied), PreviewOptions::default());
    assert_eq!(preview.moves.len(), 2);
    assert_eq!(
        preview.verdict(),
        DefragmentationVerdict::Freed { blocks: 2, bytes: 2 << 20, moved: 512 << 10 }
    );
    assert_eq!(preview.verdict().sentence(units::bytes), "2 blocks freed, 2.00 MiB, for 512 KiB copied.");
    assert_eq!((preview.holes_before.sizes().len(), preview.holes_after.sizes()), (3, &[256 << 10][..]));
    assert_eq!(preview.least.block_bytes, 1 << 20);
    let [one, other] = preview.moves[..] else { panic!("{:?}", preview.moves) };
    assert_eq!((one.from.offset, one.to.block), (0, other.to.block));
    assert_ne!(one.to.offset, other.to.offset);
}

#[test]
fn what_cannot_be_moved_stays_unless_one_asks_what_if_it_could() {
    let recording = meshes(12, Movability::Pinned);
    let preview = preview_of(&recording, PreviewOptions::default());
    assert_eq!((preview.moves.len(), preview.movable, preview.allocations), (0, 0, 3));
    let options = PreviewOptions { all_movable: true, ..PreviewOptions::default() };
    assert_eq!(preview_of(&recording, options).plan.bytes_freed(), 2 << 20);
}

#[test]
fn a_scope_plans_its_own_blocks_alone() {
    let recording = meshes(12, Movability::Copied);
    let timeline = Timeline::new(&recording);
    let cursor = Cursor::at(&timeline, timeline.end());
    let block = cursor.blocks()[0];
    let options = PreviewOptions { strategy: DefragmentationStrategy::Full, all_movable: true };
    let preview = DefragmentationPreview::at(&cursor, Scope::Block(block), options).unwrap();
    assert_eq!((preview.blocks.len(), preview.moves.len()), (1, 0));
    assert_eq!(preview.verdict(), DefragmentationVerdict::AlreadyLeast);
}
