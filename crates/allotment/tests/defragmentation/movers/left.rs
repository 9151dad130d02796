//! What movers leave alone: blocks that hold allocations of another one.

use super::*;
use allotment::memory::defragmentation::Defragmentation;

const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;

#[test]
fn a_block_of_a_custom_pool_with_allocations_of_two_movers_stays_and_no_byte_is_copied() {
    let mut world = World::new(&[FULL]);
    world.create(Some(0), SIZE);
    let Thing::Buffer(buffer) = &world.live[0].thing else { panic!("it is one") };
    let memory_type = buffer.info().memory_type;
    world.free(0);
    world.settle();
    let pool = world.allocator().create_pool(crate::rig::fixed_pool(memory_type, BLOCK)).unwrap();
    let desc = options().with_pool(&pool);
    let requirements = allotment::Requirements::new(SIZE);
    let (mut buffers, mut tokens) = (Vec::new(), Vec::new());
    for _ in 0..32 {
        buffers.push(world.sets[0].create_buffer(&BufferDesc::new(SIZE), &desc).unwrap());
        tokens.push(world.allocator().allocate(&requirements, &desc).unwrap());
    }
    // Two of each block stay of either mover, of eight that were in it.
    let stays = |at: usize| at % 8 < 2;
    let mut at = 0;
    buffers.retain(|_| (stays(at), at += 1).0);
    for at in (0..32).rev().filter(|&at| !stays(at)) {
        world.allocator().free(tokens.remove(at)).unwrap();
    }
    world.settle();
    world.step_until_idle(0);
    let mut run = Defragmentation::new(world.allocator(), Some(&pool), full()).unwrap();
    assert_eq!((run.plan().left_to_others, run.plan().blocks_freed()), (4, 0));
    while world.pass(&mut run) {}
    let sums = run.statistics() + world.sums();
    assert_eq!((sums.bytes_moved, sums.blocks_kept), (0, 0));
    assert!(world.sums().blocks_left_to_others >= 4);
    drop(run);
    // Once one mover has nothing in them, the other empties them.
    for token in tokens {
        world.allocator().free(token).unwrap();
    }
    world.settle();
    world.step_until_idle(0);
    assert_eq!(world.sums().blocks_emptied, 3);
    drop((buffers, desc));
    world.settle();
    world.allocator().destroy_pool(pool).unwrap();
    world.finish();
}

#[test]
fn moves_of_a_set_in_a_custom_pool_go_into_no_block_that_is_another_movers_alone() {
    let mut world = World::new(&[FULL]);
    world.create(Some(0), SIZE);
    let Thing::Buffer(buffer) = &world.live[0].thing else { panic!("it is one") };
    let memory_type = buffer.info().memory_type;
    world.free(0);
    world.settle();
    let pool = world.allocator().create_pool(crate::rig::fixed_pool(memory_type, BLOCK)).unwrap();
    let desc = options().with_pool(&pool);
    let requirements = allotment::Requirements::new(SIZE);
    let tokens: Vec<_> = (0..16).map(|_| world.allocator().allocate(&requirements, &desc).unwrap()).collect();
    let create = || world.sets[0].create_buffer(&BufferDesc::new(SIZE), &desc).unwrap();
    let buffers: Vec<_> = (0..32).map(|_| create()).collect();
    // The block of the tokens is the fullest, and its holes are the smallest.
    let (kept, freed): (Vec<_>, Vec<_>) = (0..).zip(tokens).partition(|(at, _)| at % 2 == 0);
    freed.into_iter().for_each(|(_, token)| world.allocator().free(token).unwrap());
    let buffers: Vec<_> = (0..).zip(buffers).filter(|(at, _)| at % 16 < 4).collect();
    world.settle();
    world.step_until_idle(0);
    assert_eq!(world.sums().blocks_emptied, 1);
    let of_tokens = world.allocator().location(&kept[0].1).unwrap().memory;
    assert!(buffers.iter().all(|(_, buffer)| buffer.location().memory != of_tokens));
    kept.into_iter().for_each(|(_, token)| world.allocator().free(token).unwrap());
    drop((buffers, desc));
    world.settle();
    world.allocator().destroy_pool(pool).unwrap();
    world.finish();
}

#[test]
fn a_fourth_set_shares_blocks_with_the_first_and_neither_moves_what_is_the_others() {
    let mut world = World::new(&[FULL; 4]);
    world.interleave(8, &[Some(0), Some(3)], 4);
    let before = world.blocks();
    (0..4).for_each(|set| world.step_until_idle(set));
    assert_eq!((world.sums().bytes_moved, world.blocks()), (0, before));
    // What is left when the fourth is gone belongs to the first.
    for at in (0..world.live.len()).rev().filter(|at| at % 2 == 1) {
        world.free(at);
    }
    world.settle();
    world.step_until_idle(0);
    world.assert_ideal();
    world.finish();
}
