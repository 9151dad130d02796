//! What a run leaves to movers that are not at work, and what it counts then.

use super::*;

const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;

#[test]
fn no_byte_is_copied_for_a_block_that_a_mover_which_does_no_steps_shares() {
    let mut world = World::new(&[FULL; 2]);
    world.interleave(4, &[Some(0), None], 4);
    let mut run = world.allocator().defragmentation(full()).unwrap();
    assert_eq!((run.plan().left_to_others, run.plan().blocks_freed()), (4, 0));
    drop(run);
    assert_eq!(world.passes().bytes_moved, 0, "it has not done a step yet");
    world.step_until_idle(0);
    world.sets[0].stop();
    let passes = world.passes();
    assert_eq!((passes.bytes_moved, passes.blocks_left_to_others), (0, 4), "it was stopped");
    world.step_until_idle(0);
    world.time.advance(Duration::from_secs(2));
    assert_eq!(world.passes().bytes_moved, 0, "it stayed away for two seconds");
    world.step(0, PassLimits::NONE);
    let passes = world.passes();
    assert_eq!((passes.blocks_handed_over, passes.bytes_moved), (3, 3 * 2 * SIZE));
    world.step_until_idle(0);
    world.assert_ideal();
    world.finish();
}

#[test]
fn parts_that_a_mover_does_not_take_are_cancelled_and_counted() {
    for how in 0..4 {
        let mut world = World::new(&[FULL; 2]);
        world.interleave(4, &[Some(0), None], 4);
        world.step_until_idle(0);
        let passes = world.passes();
        assert_eq!(passes.blocks_handed_over, 3);
        assert!(world.allocator().statistics().allocations as usize > world.live.len(), "reserved places");
        match how {
            0 => {
                // Away for longer than a second, as far as the allocator can tell at the end of a frame.
                world.time.advance(Duration::from_secs(2));
                world.allocator().end_frame();
                world.check_at_rest();
                world.step(0, PassLimits::NONE);
                assert_eq!(world.sets[0].statistics().blocks_kept, 3);
            }
            1 => {
                world.time.advance(Duration::from_secs(2));
                world.step(1, PassLimits::NONE);
                world.check_at_rest();
            }
            2 => {
                world.sets[0].stop();
                world.check_at_rest();
            }
            _ => {
                drop(world.sets.remove(0));
                world.check_at_rest();
                assert_eq!(world.passes().bytes_moved, 0, "its resources stay where they are for good");
            }
        }
        assert_eq!(world.allocator().statistics().blocks, 4);
        world.finish();
    }
}

#[test]
fn a_request_that_needs_a_closed_block_reopens_it_for_all_movers() {
    let mut world = World::new(&[FULL]);
    world.interleave(2, &[Some(0), None], 4);
    world.step_until_idle(0);
    let passes = world.passes();
    assert_eq!(passes.blocks_handed_over, 1);
    // Ten places of the open block are free, fourteen of the closed one.
    (0..14).for_each(|_| world.create(None, SIZE));
    assert_eq!(world.allocator().statistics().blocks, 2);
    world.step_until_idle(0);
    assert_eq!((world.sums().blocks_kept, world.sums().moves), (1, 0), "its part is not moved for nothing");
    world.check_bytes();
    world.finish();
}

#[test]
fn a_custom_pool_is_destroyed_although_places_in_it_wait_for_a_mover() {
    let mut world = World::new(&[FULL]);
    let memory_type = {
        world.create(Some(0), SIZE);
        let Thing::Buffer(buffer) = &world.live[0].thing else { panic!("it is one") };
        buffer.info().memory_type
    };
    world.free(0);
    world.settle();
    let pool = world.allocator().create_pool(crate::rig::fixed_pool(memory_type, BLOCK)).unwrap();
    let desc = options().with_pool(&pool);
    let requirements = allotment::Requirements::new(SIZE);
    let mut buffers = Vec::new();
    let mut tokens = Vec::new();
    for _ in 0..32 {
        buffers.push(world.sets[0].create_buffer(&BufferDesc::new(SIZE), &desc).unwrap());
        tokens.push(world.allocator().allocate(&requirements, &desc).unwrap());
    }
    // Two of each block stay, eight of each were in it.
    let stays = |at: usize| at % 8 < 2;
    let mut at = 0;
    buffers.retain(|_| (stays(at), at += 1).0);
    for at in (0..32).rev().filter(|&at| !stays(at)) {
        world.allocator().free(tokens.remove(at)).unwrap();
    }
    world.settle();
    world.step_until_idle(0);
    let mut run = world.allocator().defragmentation_in(&pool, full()).unwrap();
    while world.pass(&mut run) {}
    let handed_over = run.statistics().blocks_handed_over;
    drop(run);
    for token in tokens {
        world.allocator().free(token).unwrap();
    }
    drop((buffers, desc));
    world.settle();
    assert!(handed_over > 0);
    world.sets[0].stop();
    world.allocator().destroy_pool(pool).unwrap();
    world.finish();
}
