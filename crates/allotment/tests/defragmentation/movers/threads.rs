//! Several movers, each on a thread, under the traffic of others.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread::scope;

use allotment::memory::AccessError;
use allotment::memory::defragmentation::Defragmentation;

use super::*;
use crate::amount::scaled;
use crate::gains::Random;

const FULL: DefragmentationStrategy = DefragmentationStrategy::Full;

/// Tells the movers to stop, also when a thread panics.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Creates, reads and drops resources of all movers.
fn traffic(world: &World, seed: u64, rounds: u64) {
    let mut random = Random(seed);
    let mut live: Vec<Held> = Vec::new();
    let check = |held: &Held| {
        let mut found = vec![0; held.bytes.len()];
        let read = match &held.thing {
            Thing::Buffer(buffer) => buffer.read(0, &mut found),
            Thing::Allocation(token) => world.allocator().read(token, 0, &mut found),
        };
        match read {
            Ok(()) => assert!(found == held.bytes, "another allocation's bytes"),
            Err(AccessError::Moving { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    for round in 0..rounds {
        match random.below(8) {
            0..4 if live.len() < 60 => {
                let (size, serial) = (1 + random.below(6 * KIB), seed + round);
                let bytes = pattern(serial, size);
                let set = Some(random.below(3) as usize).filter(|&set| set < world.sets.len());
                let (thing, written) = if let Some(set) = set.map(|set| &world.sets[set]) {
                    let buffer = set.create_buffer(&BufferDesc::new(size), &options()).unwrap();
                    let written = buffer.write(0, &bytes);
                    (Thing::Buffer(buffer), written)
                } else {
                    let token = world.allocator().allocate(&aligned(size, 256), &options()).unwrap();
                    let written = world.allocator().write(&token, 0, &bytes);
                    (Thing::Allocation(token), written)
                };
                match written {
                    Ok(()) => live.push(Held { set, thing, bytes }),
                    // A mover was faster: its bytes are not known.
                    Err(AccessError::Moving { .. }) => release(world, thing),
                    Err(error) => panic!("{error}"),
                }
            }
            // In waves, so that there is something to gain.
            4 if round % 97 > 80 => {
                for at in (0..live.len()).rev().filter(|at| at % 3 != 0) {
                    release(world, live.swap_remove(at).thing);
                }
            }
            5 if !live.is_empty() => {
                let held = live.swap_remove(random.below(live.len() as u64) as usize);
                check(&held);
                release(world, held.thing);
            }
            _ if !live.is_empty() => check(&live[random.below(live.len() as u64) as usize]),
            _ => {}
        }
    }
    for held in live {
        check(&held);
        release(world, held.thing);
    }
}

fn release(world: &World, thing: Thing) {
    match thing {
        Thing::Buffer(buffer) => drop(buffer),
        Thing::Allocation(token) => world.allocator().free(token).unwrap(),
    }
}

#[test]
fn two_sets_and_passes_on_a_thread_each_keep_all_bytes_under_the_traffic_of_two_others() {
    let mut world = World::new(&[FULL; 2]);
    // These stay all the time, in blocks that their mover shares with the traffic.
    for at in 0..96 {
        world.create([Some(0), None, Some(1)][at % 3], SIZE);
    }
    for at in (0..96).rev().filter(|at| at % 16 >= 3) {
        world.free(at);
    }
    let (world, done, left) = (&world, AtomicBool::new(false), Mutex::new(2));
    let by_hand = scope(|scope| {
        let done = &done;
        for set in 0..2 {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let limits = PassLimits::default().with_moves(5);
                    world.sets[set].step(limits).unwrap();
                    world.memory.deletion_queue().reclaim();
                    std::thread::yield_now();
                }
            });
        }
        let passes = scope.spawn(move || {
            let mut moves = 0;
            while !done.load(Ordering::Relaxed) {
                let mut run = Defragmentation::new(world.allocator(), None, full()).unwrap();
                while let NextPass::Moves(pass) = run.next_pass() {
                    pass.moves().iter().for_each(copy);
                    pass.end();
                }
                moves += run.statistics().moves;
                drop(run);
                std::thread::yield_now();
            }
            moves
        });
        for seed in 1..=2 {
            let left = &left;
            scope.spawn(move || {
                let stop = StopWhenDropped(done);
                traffic(world, seed * 1_000_003, scaled(6000));
                let mut left = left.lock().unwrap();
                *left -= 1;
                if *left != 0 {
                    core::mem::forget(stop);
                }
            });
        }
        passes.join().unwrap()
    });
    // Without the traffic they come down to the ideal. What the threads left decides how soon: a set surveys pools in which
    // nothing changes after 256 steps, which is the sixth round.
    let is_ideal = || u64::from(world.allocator().statistics().blocks) == world.ideal();
    for _ in 0..8 {
        for _frame in 0..50 {
            for set in 0..2 {
                world.step(set, PassLimits::NONE);
            }
        }
        world.passes();
        if is_ideal() {
            break;
        }
    }
    (0..2).for_each(|set| world.step_until_idle(set));
    assert!(
        is_ideal(),
        "blocks of the live allocations, a set's and the passes' in turns: {:x?}",
        world.blocks()
    );
    world.assert_ideal();
    assert!(world.sums().moves > 0, "by hand: {by_hand}, {:?}", world.sums());
    world.sets.iter().for_each(Defragmenter::stop);
    world.check_at_rest();
}

#[test]
fn two_sets_on_a_thread_each_come_down_to_the_ideal() {
    for _ in 0..20 {
        let mut world = World::new(&[FULL; 2]);
        world.interleave(8, &[Some(0), Some(1)], 4);
        let shared = &world;
        scope(|scope| {
            for set in 0..2 {
                scope.spawn(move || {
                    let limits = PassLimits::NONE.with_moves(3);
                    for _frame in 0..300 {
                        shared.sets[set].step(limits).unwrap();
                        shared.settle();
                        std::thread::yield_now();
                    }
                });
            }
        });
        (0..2).for_each(|set| world.step_until_idle(set));
        (0..2).for_each(|set| world.step_until_idle(set));
        world.assert_ideal();
        world.finish();
    }
}
