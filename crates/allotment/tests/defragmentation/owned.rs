//! Defragmentations and rooms that share their allocator, so that a struct keeps both.

use std::sync::Arc;

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::Movability;
use allotment::memory::blocks::{BlockSize, BlockSizes};
use allotment::memory::defragmentation::{
    Defragmentation, NextPass, NotThisMove, PassLimits, RequestDefragmentation,
};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy};
use allotment::memory::{AllocationOptions, DestroyPoolError};
use allotment::{Allocation, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};

use crate::rig::{DISCRETE, KIB, profile};

const BLOCK: u64 = 64 * KIB;

fn allocator() -> Arc<Allocator<SimulatedGpu>> {
    let mut desc = AllocatorDesc::default();
    (desc.block_sizes, desc.threads) = (BlockSizes::fixed(BLOCK), 1);
    Arc::new(Allocator::new(SimulatedGpu::new(profile(DISCRETE)), desc).unwrap())
}

fn movable() -> AllocationOptions {
    MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Recreated)
}

/// Two blocks with half of each in use, in holes of 16 KiB.
fn two_half_blocks(allocator: &Allocator<SimulatedGpu>, options: &AllocationOptions) -> Vec<Allocation> {
    let all = allocator.allocate_many(&Requirements::new(16 * KIB), options, 8).unwrap();
    let (kept, freed): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    freed.into_iter().for_each(|(_, one)| allocator.free(one).unwrap());
    kept.into_iter().map(|(_, one)| one).collect()
}

fn one_move_a_pass() -> DefragmentationDesc {
    DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE.with_moves(1))
}

/// An engine's renderer, whose method is called once a frame.
struct Renderer {
    allocator: Arc<Allocator<SimulatedGpu>>,
    run: Option<Defragmentation<'static, SimulatedGpu>>,
    room: Option<RequestDefragmentation<'static, SimulatedGpu>>,
}

impl Renderer {
    fn new(allocator: Arc<Allocator<SimulatedGpu>>) -> Self {
        Self { allocator, run: None, room: None }
    }

    fn frame(&mut self) -> u32 {
        let Some(run) = &mut self.run else { return 0 };
        let (moves, done) = match run.next_pass() {
            NextPass::Moves(pass) => (pass.end().statistics.moves, false),
            other => (0, matches!(other, NextPass::Done)),
        };
        if done {
            self.run = None;
        }
        moves
    }
}

#[test]
fn a_struct_keeps_a_defragmentation_from_frame_to_frame_beside_its_allocator() {
    let mut renderer = Renderer::new(allocator());
    let kept = two_half_blocks(&renderer.allocator, &movable());
    assert_eq!(renderer.allocator.statistics().blocks, 2);
    renderer.run = Some(Defragmentation::new(&renderer.allocator, None, one_move_a_pass()).unwrap());
    let moves: Vec<u32> = (0..3).map(|_| renderer.frame()).collect();
    assert_eq!(moves, [1, 1, 0], "one a frame, and then it is done");
    assert!(renderer.run.is_none());
    assert_eq!(renderer.allocator.statistics().blocks, 1);
    drop(renderer.allocator.free_many(kept));
}

#[test]
fn a_defragmentation_that_shares_its_allocator_keeps_it_alive_with_a_pass_that_was_forgotten() {
    let shared = allocator();
    let kept = two_half_blocks(&shared, &movable());
    let mut run = Defragmentation::new(&shared, None, one_move_a_pass()).unwrap();
    let weak = Arc::downgrade(&shared);
    drop(shared);
    let NextPass::Moves(pass) = run.next_pass() else { panic!("a block can be emptied") };
    core::mem::forget(pass);
    let shared = weak.upgrade().expect("the run shares the allocator");
    drop(run);
    assert_eq!(shared.statistics().allocations, 4, "the reserved place is free again");
    drop(shared.free_many(kept));
}

#[test]
fn a_pool_is_not_destroyed_while_a_defragmentation_shares_it() {
    let shared = allocator();
    let best = shared.explain(&Requirements::new(KIB), &movable())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    desc.sizing = Some(BlockSize::Fixed(BLOCK));
    let pool = shared.create_pool(desc).unwrap();
    let kept = two_half_blocks(&shared, &movable().with_pool(&pool));
    let mut run = Defragmentation::new(&shared, Some(&pool), one_move_a_pass()).unwrap();
    while let NextPass::Moves(pass) = run.next_pass() {
        pass.end();
    }
    drop(shared.free_many(kept));
    let Err(DestroyPoolError::Cloned { pool, clones: 1 }) = shared.destroy_pool(pool) else {
        panic!("the run has a clone")
    };
    drop(run);
    shared.destroy_pool(pool).unwrap();
}

#[test]
fn a_struct_keeps_what_makes_room_from_frame_to_frame() {
    let mut renderer = Renderer::new(allocator());
    let best = renderer.allocator.explain(&Requirements::new(KIB), &movable())[0].memory_type;
    let mut desc = PoolDesc::new([best]);
    (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(BLOCK)), 2);
    let pool = renderer.allocator.create_pool(desc).unwrap();
    let options = movable().with_pool(&pool);
    let mut kept = two_half_blocks(&renderer.allocator, &options);
    let wanted = Requirements::new(48 * KIB);
    assert!(renderer.allocator.allocate(&wanted, &options).is_err());
    renderer.room =
        Some(RequestDefragmentation::new(&renderer.allocator, &wanted, &options, one_move_a_pass()).unwrap());
    let mut frames = 0;
    while let Some(room) = &mut renderer.room {
        frames += 1;
        let done = match room.next_pass() {
            NextPass::Moves(pass) => {
                pass.end();
                false
            }
            other => matches!(other, NextPass::Done),
        };
        if done {
            kept.extend(renderer.room.take().map(|room| room.finish().unwrap()));
        }
    }
    assert!(frames >= 3, "it takes two moves: {frames}");
    drop(renderer.allocator.free_many(kept));
    drop(options);
    renderer.allocator.destroy_pool(pool).unwrap();
}

#[test]
fn a_handle_that_is_not_the_one_of_the_move_comes_back_with_what_to_compare() {
    let shared = allocator();
    let mut kept = two_half_blocks(&shared, &movable());
    let mut run = Defragmentation::new(&shared, None, one_move_a_pass()).unwrap();
    let NextPass::Moves(mut pass) = run.next_pass() else { panic!("a block can be emptied") };
    let other = kept.iter().position(|one| one.id() != pass.moves()[0].id()).unwrap();
    let refused = pass.destroy(0, kept.remove(other)).unwrap_err();
    assert!(refused.to_string().contains("is not the allocation of move 0"), "{refused}");
    let NotThisMove { allocation, index: 0, moves: 1, .. } = refused else { panic!("{refused:?}") };
    let refused = pass.destroy(1, allocation).unwrap_err();
    assert_eq!(refused.to_string(), "there is no move 1, the pass has 1");
    kept.push(refused.allocation);
    drop(pass);
    drop(run);
    drop(shared.free_many(kept));
}
