//! Generated operations with several movers, against a model of all bytes.

use allotment::memory::defragmentation::Defragmentation;
use std::panic::catch_unwind;

use super::*;
use crate::amount::{first_seed, scaled};
use crate::gains::Random;

/// Four bytes are one operation.
type Op = [u8; 4];

const SETS: usize = 3;

fn limits([_, a, b, c]: Op) -> PassLimits {
    let limits = PassLimits::NONE.with_moves(1 + u32::from(a % 6));
    let limits = if b % 3 == 0 { limits.with_time(Duration::ZERO) } else { limits };
    if c % 16 == 0 { limits.with_bytes(2 * KIB) } else { limits }
}

impl World {
    /// Does what changes the pools, but moves nothing.
    fn change(&mut self, [kind, a, b, c]: Op) {
        match kind % 8 {
            0..4 => {
                let mover = usize::from(a) % (SETS + 2);
                let set = (mover < self.sets.len()).then_some(mover);
                self.create(set, 256 * (1 + u64::from(b) % [4, 16, 64][usize::from(c % 3)]));
            }
            4..7 if !self.live.is_empty() => {
                self.free(usize::from(u16::from_le_bytes([a, b])) % self.live.len());
            }
            _ => self.time.advance(Duration::from_millis(u64::from(b))),
        }
    }

    /// Executes a pass, and ends it in one way or another.
    fn pass_somehow(&mut self, run: &mut Defragmentation<'_, SimulatedGpu>, [_, a, b, _]: Op) -> bool {
        match run.next_pass() {
            NextPass::Moves(mut pass) => {
                pass.moves().iter().for_each(copy);
                if b % 8 == 0 {
                    pass.ignore(usize::from(b / 8) % pass.moves().len());
                }
                match a % 8 {
                    0 => drop(pass),
                    1 => core::mem::forget(pass),
                    2 => {
                        let id = pass.moves()[0].id();
                        let is_it =
                            |held: &Held| matches!(&held.thing, Thing::Allocation(it) if it.id() == id);
                        let at = self.live.iter().position(is_it).expect("what is moved is live");
                        self.free(at);
                        pass.end();
                    }
                    _ => _ = pass.end(),
                }
            }
            NextPass::LimitReached => {}
            NextPass::Done => return false,
        }
        true
    }
}

fn run(ops: &[Op]) {
    let strategies = [
        DefragmentationStrategy::Full,
        DefragmentationStrategy::Fast,
        DefragmentationStrategy::WithinBytes(24 * KIB),
    ];
    let world = &mut World::new(&strategies);
    let memory = world.memory.clone();
    let mut random = Random(9);
    for _ in 0..90 {
        let [a, b, c] = [0; 3].map(|_: u8| random.below(256) as u8);
        world.change([0, a, b, c]);
    }
    for _ in 0..50 {
        world.free(random.below(world.live.len() as u64) as usize);
    }
    let mut passes = None;
    for &op in ops {
        let [kind, a, b, c] = op;
        match (kind / 16, &mut passes) {
            (0..4, _) => world.change(op),
            (4..9, _) => {
                let set = usize::from(a) % world.sets.len();
                world.sets[set].step(limits([kind, b, c, a])).unwrap();
                if c % 3 != 0 {
                    world.settle();
                }
            }
            (9..13, None) => {
                let desc = full().with_limits(limits(op));
                passes = Some(Defragmentation::new(memory.allocator(), None, desc).unwrap());
            }
            (9..13, Some(run)) => {
                if !world.pass_somehow(run, op) && a % 2 == 0 {
                    passes = None;
                }
            }
            (13, _) if a % 8 == 0 => passes = None,
            (13, _) if a % 8 == 1 => world.sets[usize::from(b) % world.sets.len()].stop(),
            (13, _) if a % 32 == 2 && world.sets.len() > 1 => {
                drop(world.sets.remove(usize::from(b) % world.sets.len()));
            }
            (14, _) => memory.allocator().end_frame(),
            _ => world.settle(),
        }
        world.allocator().check_invariants();
        if passes.is_none() {
            world.settle();
            world.check_bytes();
        }
    }
    drop(passes);
    world.sets.iter().for_each(Defragmenter::stop);
    world.check_at_rest();
    // To the end, without a change: no byte is copied for a block that stays.
    let before = world.sums();
    let blocks = world.allocator().statistics().blocks;
    let places = world.blocks();
    let mut by_hand = DefragmentationStatistics::default();
    loop {
        let moves = (world.sums() + by_hand).moves;
        (0..world.sets.len()).for_each(|set| world.step_until_idle(set));
        by_hand = by_hand + world.passes();
        if (world.sums() + by_hand).moves == moves {
            break;
        }
    }
    let sums = world.sums() - before + by_hand;
    assert_eq!(blocks - world.allocator().statistics().blocks, sums.blocks_emptied, "{sums:?}");
    world.assert_whole_blocks_were_left(&places);
    world.sets.iter().for_each(Defragmenter::stop);
    world.check_at_rest();
}

#[test]
fn whatever_several_movers_do_no_byte_is_lost() {
    for case in first_seed()..first_seed() + scaled(1000) {
        let mut random = Random(case.wrapping_mul(0x9e37_79b9) + 1);
        let count = random.below(160);
        let ops: Vec<Op> = (0..count).map(|_| core::array::from_fn(|_| random.below(256) as u8)).collect();
        let fails = |ops: &[Op]| catch_unwind(|| run(ops)).is_err();
        if !fails(&ops) {
            continue;
        }
        let mut ops = ops;
        let mut size = ops.len();
        while size > 0 {
            let mut at = 0;
            while at < ops.len() {
                let mut fewer = ops.clone();
                fewer.drain(at..ops.len().min(at + size));
                if fails(&fewer) { ops = fewer } else { at += size }
            }
            size /= 2;
        }
        eprintln!("case {case}: {ops:?}");
        run(&ops);
    }
}
