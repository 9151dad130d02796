//! Threads that allocate, write, read and free, while another defragments under them.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::thread::scope;

use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy, allocate_as_thread};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, EmptiedBlocks, JoinThreads, NextPass,
    PassLimits, RequestDefragmentation, RoomError,
};
use allotment::memory::{AccessError, Movability};
use allotment::{Algorithm, Allocation, AllocationError, Pool};

use crate::amount::scaled;
use crate::gains::Random;
use crate::model::{HOST, copy, movable};
use crate::rig::{AllocateWanted as _, DISCRETE, KIB, Rig, Wanted, fixed_pool, mapped_in, profile};

const THREADS: u64 = 3;

/// Tells other threads to stop, even when the one that works panics.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Unique {
    token: Allocation,
    desc: Wanted,
    byte: u8,
    recreated: bool,
}

/// Where one thread allocates.
#[derive(Clone, Copy)]
struct Home<'a> {
    rig: &'a Rig,
    pool: Option<&'a Pool>,
}

impl Home<'_> {
    /// Allocates; `None` in a pool that is full.
    fn allocate(self, desc: &Wanted) -> Option<Allocation> {
        let allocated = match self.pool {
            Some(pool) => self.rig.allocate_wanted_in(pool, desc),
            None => self.rig.allocate_wanted(desc),
        };
        match allocated {
            Err(AllocationError::PoolFull { .. }) => None,
            allocated => Some(allocated.unwrap()),
        }
    }

    /// Writes all bytes. False where it is being moved.
    fn fill(self, held: &mut Unique, byte: u8) -> bool {
        let bytes = vec![byte; held.desc.requirements.size as usize];
        match self.rig.write(&held.token, 0, &bytes) {
            Ok(()) => {
                held.byte = byte;
                true
            }
            Err(AccessError::Moving { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn check(self, held: &Unique) {
        let mut bytes = vec![0; held.desc.requirements.size as usize];
        self.rig.read(&held.token, 0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&found| found == held.byte), "bytes of another allocation");
    }
}

fn work(thread: u64, rounds: u64, home: Home<'_>, pinned: bool) {
    let rig = home.rig;
    // Each in a shard of its own, which the defragmentation joins with the others at any time.
    allocate_as_thread(thread as u32);
    let mut random = Random(thread * 7919 + 3);
    let mut live: Vec<Unique> = Vec::new();
    for round in 0..rounds {
        let byte = (thread * 41 + round) as u8;
        match random.below(10) {
            0..4 if live.len() < 40 => {
                let most = if random.below(20) == 0 { 12 * KIB } else { 2 * KIB };
                let size = 1 + random.below(most);
                let desc = match random.below(4) {
                    0 if pinned => mapped_in(size, HOST),
                    _ => movable(size),
                };
                let Some(token) = home.allocate(&desc) else { continue };
                let mut held = Unique { token, desc, byte: 0, recreated: false };
                // An allocation that no other thread has written to yet can be moving already.
                held.recreated = !home.fill(&mut held, byte);
                live.push(held);
            }
            // In waves, so that there is something to gain.
            4 if round % 97 > 70 => {
                for at in (0..live.len()).rev().filter(|at| at % 3 != 0) {
                    let held = live.swap_remove(at);
                    rig.free(held.token).unwrap();
                }
            }
            at => {
                let Some(which) = (random.below(1 << 20) as usize).checked_rem(live.len()) else { continue };
                let held = &mut live[which];
                if held.recreated {
                    held.recreated = !home.fill(held, byte);
                    continue;
                }
                home.check(held);
                match at {
                    4 | 5 => {
                        let held = live.swap_remove(which);
                        rig.free(held.token).unwrap();
                    }
                    6 => {
                        home.fill(held, byte);
                    }
                    7 => match rig.map(&held.token) {
                        Ok(address) => {
                            assert_eq!(
                                rig.location(&held.token).unwrap().mapped_ptr,
                                Some(address),
                                "mapped, it stays"
                            );
                            home.check(held);
                            assert_eq!(
                                rig.location(&held.token).unwrap().mapped_ptr,
                                Some(address),
                                "mapped, it stays"
                            );
                            rig.unmap(&held.token).unwrap();
                        }
                        Err(AccessError::Moving { .. }) => {}
                        Err(error) => panic!("{error}"),
                    },
                    _ => {
                        let info = rig.info(&held.token).unwrap();
                        assert_eq!(info.size, held.desc.requirements.size);
                        // The sums promise nothing about an allocation that moves meanwhile, from a shard that is read later to one that
                        // was read before or the other way round.
                        let _ = rig.statistics();
                    }
                }
            }
        }
    }
    for held in live {
        if !held.recreated {
            home.check(&held);
        }
        rig.free(held.token).unwrap();
    }
}

/// Does the work of a thread, again where nothing was moved meanwhile: how soon the thread that moves finds something depends
/// on the scheduler.
fn work_until_moved(thread: u64, home: Home<'_>, pinned: bool, moves: &AtomicU32) {
    for _ in 0..20 {
        work(thread, scaled(40_000), home, pinned);
        if moves.load(Ordering::Relaxed) != 0 {
            break;
        }
    }
}

/// Begins one defragmentation after the other and ends each pass in one way or another. Counts the allocations that move.
fn defragment(home: Home<'_>, done: &AtomicBool, moves: &AtomicU32, seed: u64) {
    let mut random = Random(seed);
    while !done.load(Ordering::Relaxed) {
        let strategy = match random.below(3) {
            0 => DefragmentationStrategy::Fast,
            1 => DefragmentationStrategy::Full,
            _ => DefragmentationStrategy::WithinBytes(random.below(64 * KIB)),
        };
        let release = [EmptiedBlocks::Free, EmptiedBlocks::KeepByPolicy][random.below(2) as usize];
        let mut limits = PassLimits::default().with_moves(1 + random.below(20) as u32);
        // On a loaded machine the time of a pass may be over before its survey is.
        if random.below(2) == 0 {
            limits = limits.with_time(Duration::MAX);
        }
        let join = [JoinThreads::Always, JoinThreads::Never][usize::from(random.below(4) == 0)];
        let desc = DefragmentationDesc::new(strategy).with_limits(limits).with_emptied_blocks(release);
        let desc = desc.with_join_threads(join);
        let mut defragmentation = match home.pool {
            Some(pool) => Defragmentation::new(home.rig, Some(pool), desc).unwrap(),
            None => Defragmentation::new(home.rig, None, desc).unwrap(),
        };
        while let NextPass::Moves(mut pass) = defragmentation.next_pass() {
            if random.below(8) == 0 {
                pass.ignore(0);
            }
            pass.moves().iter().for_each(copy);
            match random.below(10) {
                0 => drop(pass),
                1 => {
                    let mut old = Vec::new();
                    pass.end_with(|place| old.push(place));
                    std::thread::yield_now();
                    home.rig.free_all(old);
                }
                _ => {
                    pass.end();
                }
            }
        }
        moves.fetch_add(defragmentation.statistics().moves, Ordering::Relaxed);
        drop(defragmentation);
        std::thread::yield_now();
    }
}

fn torment(algorithm: Algorithm, empty_blocks: EmptyBlockPolicy, custom: bool, pinned: bool) {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        (desc.algorithm, desc.empty_blocks, desc.threads) = (algorithm, empty_blocks, 3);
        desc.block_sizes = BlockSizes::fixed(16 * KIB);
    });
    let mut desc = fixed_pool(HOST, 16 * KIB);
    (desc.algorithm, desc.empty_blocks, desc.min_blocks) = (algorithm, empty_blocks, 2);
    let pool = rig.create_pool(desc).unwrap();
    let home = Home { rig: &rig, pool: custom.then_some(&pool) };
    let done = AtomicBool::new(false);
    let (at_work, moves) = (AtomicU32::new(THREADS as u32), AtomicU32::new(0));
    scope(|scope| {
        let (done, at_work, moves) = (&done, &at_work, &moves);
        scope.spawn(move || defragment(home, done, moves, 17));
        for thread in 0..THREADS {
            scope.spawn(move || {
                let stop = StopWhenDropped(done);
                work_until_moved(thread, home, pinned, moves);
                if at_work.fetch_sub(1, Ordering::Relaxed) != 1 {
                    core::mem::forget(stop);
                }
            });
        }
    });
    assert!(moves.into_inner() > 0, "something was moved");
    rig.check_invariants();
    assert_eq!(rig.statistics().allocations, 0);
    rig.destroy_pool(pool).unwrap();
}

#[test]
fn three_threads_do_what_they_like_while_a_fourth_defragments_default_pools() {
    torment(Algorithm::Tlsf, EmptyBlockPolicy::NONE, false, true);
    torment(Algorithm::Tlsf, EmptyBlockPolicy::default(), false, false);
    torment(Algorithm::Buddy, EmptyBlockPolicy::NONE, false, false);
}

#[test]
fn three_threads_do_what_they_like_while_a_fourth_defragments_a_custom_pool() {
    torment(Algorithm::Tlsf, EmptyBlockPolicy::NONE, true, false);
    torment(Algorithm::Buddy, EmptyBlockPolicy::default(), true, true);
}

/// Asks for more than a full pool has in one piece, again and again, and ends each pass in one way or another. Counts
/// the allocations that move for it.
fn ask_for_room(rig: &Rig, pool: &Pool, done: &AtomicBool, moves: &AtomicU32, seed: u64) {
    let mut random = Random(seed);
    let home = Home { rig, pool: Some(pool) };
    let mut live: Vec<Unique> = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let wanted = movable(1 + random.below(10 * KIB));
        let options = wanted.options.clone().with_pool(pool);
        let limits = PassLimits::default().with_moves(1 + random.below(20) as u32);
        let desc = DefragmentationDesc::default().with_limits(limits);
        let served =
            RequestDefragmentation::new(rig, &wanted.requirements, &options, desc).and_then(|room| {
                room.run(|mut pass| {
                    if random.below(8) == 0 {
                        pass.ignore(0);
                    }
                    pass.moves().iter().for_each(copy);
                    moves.fetch_add(pass.moves().len() as u32, Ordering::Relaxed);
                    match random.below(10) {
                        0 => drop(pass),
                        1 => {
                            std::thread::yield_now();
                            pass.end();
                        }
                        _ => _ = pass.end(),
                    }
                })
            });
        match served {
            Ok(token) => {
                let mut held = Unique { token, desc: wanted, byte: 0, recreated: false };
                assert!(home.fill(&mut held, random.below(256) as u8), "only this thread moves anything");
                live.push(held);
            }
            // The pool is full to the last, so that there is something to move.
            Err(RoomError::NothingHelps { .. } | RoomError::Changed { .. }) => {
                for _ in 0..live.len().min(3) {
                    let held = live.swap_remove(random.below(live.len() as u64) as usize);
                    home.check(&held);
                    rig.free(held.token).unwrap();
                }
            }
            Err(error) => panic!("{error}"),
        }
        std::thread::yield_now();
    }
    rig.free_all(live.into_iter().map(|held| held.token));
}

#[test]
fn three_threads_do_what_they_like_in_a_full_pool_while_a_fourth_makes_room_in_it() {
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy] {
        let rig = Rig::with(profile(DISCRETE), |desc| desc.threads = 2);
        let mut desc = fixed_pool(HOST, 16 * KIB);
        (desc.algorithm, desc.max_blocks) = (algorithm, 12);
        let pool = rig.create_pool(desc).unwrap();
        let done = AtomicBool::new(false);
        let (at_work, moves) = (AtomicU32::new(THREADS as u32), AtomicU32::new(0));
        scope(|scope| {
            let (rig, pool, done, at_work, moves) = (&rig, &pool, &done, &at_work, &moves);
            scope.spawn(move || ask_for_room(rig, pool, done, moves, 23));
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let stop = StopWhenDropped(done);
                    let home = Home { rig, pool: Some(pool) };
                    work_until_moved(thread, home, false, moves);
                    if at_work.fetch_sub(1, Ordering::Relaxed) != 1 {
                        core::mem::forget(stop);
                    }
                });
            }
        });
        assert!(moves.into_inner() > 0, "something was moved");
        rig.check_invariants();
        assert_eq!(rig.statistics().allocations, 0);
        rig.destroy_pool(pool).unwrap();
    }
}

/// An allocation that one thread frees while another copies it keeps its range until the pass ends.
#[test]
fn what_is_freed_while_it_is_copied_keeps_both_places_until_the_pass_ends() {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        (desc.empty_blocks, desc.threads) = (EmptyBlockPolicy::NONE, 1);
        desc.block_sizes = BlockSizes::fixed(16 * KIB);
    });
    let mut tokens: Vec<_> = [4, 12, 8]
        .into_iter()
        .map(|kib| {
            Some(rig.allocate_wanted(&movable(kib * KIB).with_movability(Movability::Copied)).unwrap())
        })
        .collect();
    rig.free(tokens[1].take().unwrap()).unwrap();
    let mut defragmentation = Defragmentation::new(
        &rig,
        None,
        DefragmentationDesc::new(DefragmentationStrategy::Full).with_limits(PassLimits::NONE),
    )
    .unwrap();
    let NextPass::Moves(pass) = defragmentation.next_pass() else { panic!("there is something to gain") };
    let blocks = rig.statistics().blocks;
    let id = tokens[0].as_ref().unwrap().id();
    rig.free(tokens[0].take().unwrap()).unwrap();
    assert_eq!(rig.reports().info(id).err(), Some(AccessError::Stale));
    assert_eq!(rig.statistics().blocks, blocks, "its block is there as long as a thread may copy from it");
    // Nor does another allocation get the place.
    let refused = rig.allocate_wanted(&mapped_in(16 * KIB, HOST).without_new_blocks());
    assert!(refused.is_err());
    rig.check_invariants();
    pass.moves().iter().for_each(copy);
    pass.end();
    assert_eq!((rig.statistics().blocks, rig.statistics().allocations), (blocks - 1, 1));
    assert_eq!((defragmentation.statistics().freed, defragmentation.statistics().moves), (1, 0));
    drop(defragmentation);
    rig.check_invariants();
    rig.free_all(tokens.into_iter().flatten());
}
