//! Generated operations on several pools, some of which are defragmented meanwhile, against a model of all bytes.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;

use allotment::device::MemoryHeapIndex;
use allotment::device::simulated::SimulatedGpu;
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy, allocate_as_thread};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStatistics, DefragmentationStrategy, EmptiedBlocks,
    JoinThreads, Move, NextPass, Pass, PassLimits, RequestDefragmentation, RoomError,
};
use allotment::memory::preview::AllocationPreview;
use allotment::memory::{AllocationId, Movability};
use allotment::{Algorithm, PoolDesc};

use crate::amount::{first_seed, scaled};
use crate::gains::Random;
use crate::model::{HOST, Model, copy, movable_aligned};
use crate::rig::{
    AllocateWanted as _, DISCRETE, KIB, Rig, empty_blocks, fixed_pool, profile, small_blocks, wanted_in,
};

/// Five bytes are one operation.
type Op = [u8; 5];

const POOLS: usize = 4;

/// Bytes that the heap of the pools may have: about twice those of the pools that have a maximum.
const HEAP: u64 = 400 * KIB;

/// A defragmentation that is running, and what was heard of it.
struct Running<'a> {
    defragmentation: Defragmentation<'a, SimulatedGpu>,
    planned: bool,
    /// Of the passes that ended.
    sums: DefragmentationStatistics,
    any_cancelled: bool,
    /// Calls of the callback.
    heard: Arc<AtomicU32>,
}

impl<'a> Running<'a> {
    fn new(mut defragmentation: Defragmentation<'a, SimulatedGpu>) -> Self {
        let heard = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&heard);
        defragmentation.on_moved(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
        let sums = DefragmentationStatistics::default();
        Self { defragmentation, planned: false, sums, any_cancelled: false, heard }
    }

    /// Checks that the passes add up to the run.
    fn check_sums(&self) {
        let all = self.defragmentation.statistics();
        // What is found after the last pass is in no pass.
        let rest = all - self.sums;
        assert_eq!(self.sums + rest, all);
        assert_eq!((rest.moves, rest.bytes_moved, self.heard.load(Ordering::Relaxed)), (0, 0, all.moves));
        if !self.any_cancelled {
            assert_eq!((rest.passes, rest.ignored, rest.freed), (0, 0, 0));
        }
    }
}

fn defragmentation_desc([_, a, b, c, d]: Op) -> DefragmentationDesc {
    let strategy = match a % 4 {
        0 => DefragmentationStrategy::Fast,
        1 => DefragmentationStrategy::WithinBytes(u64::from(b) * 64),
        _ => DefragmentationStrategy::Full,
    };
    let mut limits = PassLimits::NONE.with_moves(1 + u32::from(c % 16));
    if c >= 224 {
        limits = limits.with_time(Duration::ZERO);
    }
    if d % 8 == 0 {
        limits = limits.with_bytes(u64::from(d) * 16);
    }
    let release = if d % 3 == 0 { EmptiedBlocks::KeepByPolicy } else { EmptiedBlocks::Free };
    let join = [JoinThreads::WhenIdle, JoinThreads::Always, JoinThreads::Always, JoinThreads::Never];
    let desc = DefragmentationDesc::new(strategy).with_limits(limits).with_emptied_blocks(release);
    desc.with_join_threads(join[usize::from(b % 4)])
}

impl Model<'_> {
    fn pick(&self, a: u8, b: u8) -> Option<usize> {
        usize::from(u16::from_le_bytes([a, b])).checked_rem(self.live.len())
    }

    /// Operations that are allowed whether or not a pass is open.
    fn step(&mut self, [kind, a, b, c, d]: Op) {
        let at = self.pick(a, b);
        match (kind % 16, at) {
            (0..6, _) => {
                // As another thread would.
                allocate_as_thread(u32::from(d / 16));
                let home = usize::from(a) % (POOLS + 2);
                let home = (home < POOLS).then_some(home);
                let size = 1 + u64::from(b) * [1, 4, 12, 40][usize::from(c % 4)];
                let alignment = 1 << (d % 10);
                let desc = match c / 4 % 32 {
                    0..2 => wanted_in(size, HOST),
                    2..5 => movable_aligned(size, alignment).with_movability(Movability::Recreated),
                    _ => movable_aligned(size, alignment),
                };
                let forecast = home.is_none().then(|| self.rig.preview_wanted(&desc));
                let calls = self.rig.device.usage().allocate_calls;
                // In a nearly full heap a smaller block, or one in the place of idle ones, comes before room in the pool of the
                // other movability.
                let nearly_full = self.rig.reports().memory_heaps()[1].reserved + 32 * KIB > HEAP;
                let served = self.try_allocate(home, &desc);
                if let Some(Ok(AllocationPreview::Fits { .. })) = forecast {
                    let called = self.rig.device.usage().allocate_calls - calls;
                    assert!(
                        served && (called == 0 || nearly_full),
                        "a block that is being emptied is room, too: {desc:?}"
                    );
                }
            }
            (6..10, Some(at)) => self.free(at),
            (10, Some(at)) => self.fill(at),
            (11, Some(at)) => {
                let mapped = self.rig.map(&self.live[at].token).is_ok();
                self.live[at].maps += u32::from(mapped);
            }
            (12 | 13, Some(at)) => {
                let unmapped = self.rig.unmap(&self.live[at].token).is_ok();
                assert_eq!(unmapped, self.live[at].maps > 0);
                self.live[at].maps -= u32::from(unmapped);
            }
            (14, _) => (0..1 + a % 4).for_each(|_| self.rig.end_frame()),
            (15, _) if a % 4 == 0 => {
                self.rig.trim();
            }
            _ => {}
        }
    }

    /// Does what comes until a pass is to end, and ends it. Returns its sums; `None` when it was cancelled.
    fn in_pass(
        &mut self,
        mut pass: Pass<'_, SimulatedGpu>,
        ops: &mut core::slice::Iter<'_, Op>,
    ) -> Option<DefragmentationStatistics> {
        self.check_places(&pass);
        pass.moves().iter().for_each(copy);
        let recreated: Vec<AllocationId> = pass
            .moves()
            .iter()
            .filter(|one| one.contents() == Movability::Recreated)
            .map(|one| one.id())
            .collect();
        for &op in ops.by_ref() {
            let [kind, a, b, ..] = op;
            let which = usize::from(b) % pass.moves().len();
            match (kind / 16, a % 8) {
                (0..4, 0..3) => break,
                (0..4, 3) => {
                    drop(pass);
                    self.after_pass(&recreated);
                    return None;
                }
                (0..4, 4) => {
                    core::mem::forget(pass);
                    return None;
                }
                (4, _) => pass.ignore(which),
                (5, _) => {
                    if let Some(at) = self.position(pass.moves()[which].id()) {
                        let token = self.live.swap_remove(at).token;
                        pass.destroy(which, token).unwrap();
                    }
                }
                _ => self.step(op),
            }
            self.rig.check_invariants();
        }
        let stay = |one: &&Move<_>| !one.is_ignored() && self.position(one.id()).is_some();
        let moved: Vec<_> = pass.moves().iter().filter(stay).map(|one| one.id()).collect();
        let ended = pass.end();
        assert_eq!(ended.moved.iter().map(|one| one.id()).collect::<Vec<_>>(), moved);
        for one in ended.moved {
            let now = self.rig.reports().info(one.id()).unwrap();
            assert_eq!((one.to().memory, one.to().offset), (now.memory, now.offset));
        }
        let sums = ended.statistics;
        self.after_pass(&recreated);
        Some(sums)
    }

    /// Makes room for a request. Whatever happens in its passes, it is served, or nothing is left of it.
    fn make_any_room(&mut self, op: Op, ops: &mut core::slice::Iter<'_, Op>) {
        let [_, a, b, c, _] = op;
        // One of the pools that have a maximum, and are full; or a default pool, in a heap that another pool has filled.
        let home = [None, Some(1), Some(2), Some(3)][usize::from(a) % 4];
        let (filled, count, bytes) = match home {
            Some(home) => (home, 40, u64::from(b) * 24),
            None => (0, HEAP / KIB, u64::from(b) * 96),
        };
        let desc = movable_aligned(1 + bytes, 1 << (c % 10));
        for _ in 0..count {
            let size = 1 + self.random.below(3 * KIB);
            self.try_allocate(Some(filled), &movable_aligned(size, 1 << (size % 10)));
        }
        self.thin_out(25);
        let options = match home {
            Some(home) => desc.options.clone().with_pool(&self.pools[home]),
            None => desc.options.clone(),
        };
        let run = defragmentation_desc(op);
        let rig = self.rig;
        let room = RequestDefragmentation::new(rig, &desc.requirements, &options, run);
        drop(options);
        let Ok(mut room) = room else { return };
        loop {
            match room.next_pass() {
                NextPass::Moves(pass) => _ = self.in_pass(pass, ops),
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
            // Dropped in the middle, now and then.
            if c >= 240 && ops.len() % 3 == 0 {
                return;
            }
        }
        match room.finish() {
            Ok(token) => self.adopt(home, &desc, token),
            Err(RoomError::Unfinished) => panic!("it is finished"),
            Err(_) => {}
        }
        rig.check_invariants();
    }

    fn after_pass(&mut self, recreated: &[AllocationId]) {
        self.make_anew(recreated);
        self.check_bytes();
        self.rig.check_invariants();
    }
}

fn run(ops: &[Op], algorithm: Algorithm, kept: EmptyBlockPolicy, shards: u32) {
    let rig = Rig::with(profile(DISCRETE), |desc| {
        (desc.algorithm, desc.empty_blocks, desc.threads) = (algorithm, kept, shards);
        desc.block_sizes = small_blocks(4 * KIB, 32 * KIB);
        desc.block_sizes.growth_divisor = 4;
        desc.heap_limits = vec![(MemoryHeapIndex(1), HEAP)];
    });
    let mut growing = PoolDesc::new([HOST]);
    growing.sizing = Some(BlockSize::Growing(BlockSizes::fixed(8 * KIB)));
    let mut fixed = fixed_pool(HOST, 12 * KIB);
    (fixed.min_blocks, fixed.max_blocks) = (2, 6);
    let mut buddies = fixed_pool(HOST, 8 * KIB);
    (buddies.algorithm, buddies.max_blocks) = (Algorithm::Buddy, 8);
    let mut separate = fixed_pool(HOST, 12 * KIB);
    (separate.min_blocks, separate.max_blocks, separate.separate_movable) = (2, 6, true);
    let pools = [growing, fixed, buddies, separate].map(|mut desc| {
        desc.empty_blocks = kept;
        rig.create_pool(desc).unwrap()
    });
    let mut model = Model::new(&rig, &pools, 1);
    // Something to gain from the start.
    for _ in 0..80 {
        let [a, b, c, d] = [0; 4].map(|_: u8| model.random.below(256) as u8);
        model.step([0, a, b, c, d]);
    }
    model.thin_out(60);
    let mut running: Option<Running<'_>> = None;
    let mut rest = ops.iter();
    while let Some(&op) = rest.next() {
        let [kind, a, ..] = op;
        match (kind / 16, &mut running) {
            (9..14, None) => {
                let desc = defragmentation_desc(op);
                let begun = match usize::from(kind % 16) % (POOLS + 1) {
                    0 => Defragmentation::new(&rig, None, desc),
                    at => Defragmentation::new(&rig, Some(&pools[at - 1]), desc),
                };
                running = Some(Running::new(begun.unwrap()));
            }
            (9..14, Some(run)) => {
                if a % 8 == 0 && !run.planned {
                    run.defragmentation.plan();
                    run.planned = true;
                }
                let done = match run.defragmentation.next_pass() {
                    NextPass::Moves(pass) => {
                        model.check_moves(&pass);
                        let ended = model.in_pass(pass, &mut rest);
                        run.any_cancelled |= ended.is_none();
                        run.sums = run.sums + ended.unwrap_or_default();
                        false
                    }
                    NextPass::LimitReached => false,
                    NextPass::Done => true,
                };
                run.check_sums();
                if done {
                    running = None;
                }
            }
            (8, None) => model.make_any_room(op, &mut rest),
            (14, Some(_)) if a % 4 == 0 => {
                running = None;
                model.check_alone();
            }
            _ => model.step(op),
        }
        rig.check_invariants();
    }
    drop(running);
    model.check_alone();
    // To the end.
    for at in 0..=POOLS {
        let desc = DefragmentationDesc::new(DefragmentationStrategy::Full)
            .with_limits(PassLimits::NONE.with_moves(9));
        let mut defragmentation = match at {
            0 => Defragmentation::new(&rig, None, desc).unwrap(),
            at => Defragmentation::new(&rig, Some(&pools[at - 1]), desc).unwrap(),
        };
        let planned = defragmentation.plan().clone();
        loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    model.check_moves(&pass);
                    pass.moves().iter().for_each(copy);
                    pass.end();
                }
                NextPass::LimitReached => panic!("time was not limited"),
                NextPass::Done => break,
            }
        }
        let done = defragmentation.statistics();
        assert_eq!((done.blocks_kept, done.moves), (0, planned.moves()), "{planned:?} {done:?}");
        drop(defragmentation);
        model.check_alone();
    }
    model.finish();
    pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
}

/// Runs this number of cases. One that fails is shortened by leaving out operations, and printed.
fn run_many(cases: u64, algorithm: Algorithm, kept: EmptyBlockPolicy, shards: u32) {
    for case in first_seed()..first_seed() + scaled(cases) {
        let mut random = Random(case.wrapping_mul(0x9e37_79b9) + 1);
        let count = random.below(160);
        let ops: Vec<Op> = (0..count).map(|_| core::array::from_fn(|_| random.below(256) as u8)).collect();
        let fails = |ops: &[Op]| catch_unwind(|| run(ops, algorithm, kept, shards)).is_err();
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
        run(&ops, algorithm, kept, shards);
    }
}

#[test]
fn over_tlsf_whatever_happens_no_byte_is_lost() {
    run_many(300, Algorithm::Tlsf, empty_blocks(20, 16 << 10), 1);
}

#[test]
fn over_tlsf_that_keeps_nothing_whatever_happens_no_byte_is_lost() {
    run_many(300, Algorithm::Tlsf, EmptyBlockPolicy::NONE, 1);
}

#[test]
fn over_buddy_whatever_happens_no_byte_is_lost() {
    run_many(300, Algorithm::Buddy, EmptyBlockPolicy::NONE, 1);
}

#[test]
fn over_three_shards_that_are_joined_whatever_happens_no_byte_is_lost() {
    run_many(200, Algorithm::Tlsf, EmptyBlockPolicy::NONE, 3);
    run_many(100, Algorithm::Tlsf, empty_blocks(20, 16 << 10), 3);
    run_many(100, Algorithm::Buddy, EmptyBlockPolicy::NONE, 3);
}
