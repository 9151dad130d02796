//! Whatever becomes of a move, by every strategy, in every kind of pool.

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationStrategy, EmptiedBlocks,
    NextPass, PassLimits,
};
use allotment::{Algorithm, Pool, PoolDesc};

use crate::acts::{ACTS, Act};
use crate::amount::drawn;
use crate::model::{HOST, Model, movable, movable_aligned};
use crate::rig::{DISCRETE, KIB, MIB, Rig, empty_blocks, fixed_pool, profile, small_blocks};

const STRATEGIES: [DefragmentationStrategy; 6] = [
    DefragmentationStrategy::Fast,
    DefragmentationStrategy::Full,
    DefragmentationStrategy::WithinBytes(0),
    DefragmentationStrategy::WithinBytes(10_000),
    DefragmentationStrategy::WithinBytes(50_000),
    DefragmentationStrategy::WithinBytes(u64::MAX),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    Default { growing: bool },
    Custom { growing: bool, min_blocks: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Case {
    act: Act,
    strategy: DefragmentationStrategy,
    algorithm: Algorithm,
    home: Home,
    /// Empty blocks that are kept; `None` where none is.
    empty: Option<u32>,
    release: EmptiedBlocks,
    seed: u64,
}

impl Case {
    fn empty_blocks(&self) -> EmptyBlockPolicy {
        if self.empty.is_some() { empty_blocks(1_000_000, 1 << 40) } else { EmptyBlockPolicy::NONE }
    }

    fn sizes(growing: bool) -> BlockSizes {
        if growing {
            let mut sizes = small_blocks(16 * KIB, 64 * KIB);
            (sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (4, 1);
            sizes
        } else {
            BlockSizes::fixed(32 * KIB)
        }
    }

    fn rig(&self) -> Rig {
        Rig::with(profile(DISCRETE), |desc| {
            (desc.algorithm, desc.empty_blocks, desc.threads) = (self.algorithm, self.empty_blocks(), 1);
            if let Home::Default { growing } = self.home {
                desc.block_sizes = Self::sizes(growing);
            }
        })
    }

    fn pool(&self, rig: &Rig) -> Option<Pool> {
        let Home::Custom { growing, min_blocks } = self.home else { return None };
        let mut desc = if growing { PoolDesc::new([HOST]) } else { fixed_pool(HOST, 32 * KIB) };
        if growing {
            desc.sizing = Some(BlockSize::Growing(Self::sizes(true)));
        }
        (desc.algorithm, desc.empty_blocks, desc.min_blocks) =
            (self.algorithm, self.empty_blocks(), min_blocks);
        Some(rig.create_pool(desc).unwrap())
    }

    fn begin<'a>(&self, rig: &'a Rig, pools: &'a [Pool]) -> Defragmentation<'a, SimulatedGpu> {
        let desc = DefragmentationDesc::new(self.strategy)
            .with_emptied_blocks(self.release)
            .with_limits(PassLimits::NONE.with_moves(5 + self.seed as u32 % 7));
        match pools.first() {
            Some(pool) => Defragmentation::new(rig, Some(pool), desc).unwrap(),
            None => Defragmentation::new(rig, None, desc).unwrap(),
        }
    }

    fn run(self) {
        let rig = self.rig();
        let pools: Vec<_> = self.pool(&rig).into_iter().collect();
        let home = pools.first().map(|_| 0);
        let mut model = Model::new(&rig, &pools, self.seed);
        for i in 0..50 {
            let (size, alignment) = (1 + model.random.below(8 * KIB), 1 << model.random.below(9));
            let desc = movable_aligned(size, alignment).with_movability(self.act.movability(i));
            model.allocate(home, &desc);
        }
        model.thin_out(60);
        if let Some(count) = self.empty {
            rig.trim();
            // Blocks of which nothing is left.
            let before = model.live.len();
            let blocks = rig.statistics().blocks;
            while rig.statistics().blocks < blocks + count {
                model.allocate(home, &movable(16 * KIB));
            }
            (before..model.live.len()).rev().for_each(|at| model.free(at));
        }
        let mut defragmentation = self.begin(&rig, &pools);
        let refused = match pools.first() {
            Some(pool) => Defragmentation::new(&rig, Some(pool), DefragmentationDesc::default()).err(),
            None => Defragmentation::new(&rig, None, DefragmentationDesc::default()).err(),
        };
        assert_eq!(refused, Some(DefragmentationError::AlreadyRunning));
        let before = model.check_alone();
        let planned = defragmentation.plan().clone();
        let mut freed = 0;
        loop {
            match defragmentation.next_pass() {
                NextPass::Moves(pass) => {
                    model.check_moves(&pass);
                    freed += model.act(pass, self.act);
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        let done = defragmentation.statistics();
        assert_eq!(done.freed, freed, "{done:?}");
        drop(defragmentation);
        let after = model.check_alone();
        if let Home::Custom { min_blocks, .. } = self.home {
            assert!(after.blocks >= min_blocks);
        }
        let least = match self.home {
            Home::Custom { min_blocks, .. } => min_blocks,
            Home::Default { .. } => 0,
        };
        let moves_all = self.act.moves_all();
        if self.empty.is_none() {
            assert_eq!(after.blocks + after.dedicated, model.objects_in_use().max(least));
        } else if moves_all && self.release == EmptiedBlocks::Free {
            let blocks = before.blocks + before.dedicated - done.blocks_emptied;
            assert_eq!(after.blocks + after.dedicated, blocks, "{planned:?} {done:?}");
        } else if self.release == EmptiedBlocks::KeepByPolicy {
            assert_eq!(after.blocks + after.dedicated, before.blocks + before.dedicated);
        }
        if moves_all {
            assert_eq!((done.blocks_kept, done.ignored), (0, 0), "{planned:?} {done:?}");
            assert_eq!((done.blocks_emptied, done.moves), (planned.blocks_freed(), planned.moves()));
            assert_eq!(
                (done.bytes_emptied, done.bytes_moved),
                (planned.bytes_freed(), planned.bytes_moved())
            );
        }
        if let DefragmentationStrategy::WithinBytes(bytes) = self.strategy {
            assert!(done.bytes_moved <= bytes, "{done:?}");
        }
        // The first is gone, so another may begin.
        drop(self.begin(&rig, &pools));
        model.finish();
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
    }
}

fn all(algorithm: Algorithm, homes: &[Home]) {
    let mut seed = 0;
    for &home in homes {
        for empty in [None, Some(0), Some(1), Some(4)] {
            for strategy in STRATEGIES {
                for act in ACTS {
                    seed += 1;
                    if !drawn(seed + 10_000 * u64::from(algorithm == Algorithm::Buddy)) {
                        continue;
                    }
                    let release =
                        if seed % 4 == 0 { EmptiedBlocks::KeepByPolicy } else { EmptiedBlocks::Free };
                    let release = if empty.is_some() { release } else { EmptiedBlocks::Free };
                    let case = Case { act, strategy, algorithm, home, empty, release, seed };
                    let told = std::panic::catch_unwind(|| case.run());
                    if let Err(why) = told {
                        eprintln!("{case:?}");
                        std::panic::resume_unwind(why);
                    }
                }
            }
        }
    }
}

const DEFAULT: [Home; 2] = [Home::Default { growing: false }, Home::Default { growing: true }];

const CUSTOM: [Home; 4] = [
    Home::Custom { growing: false, min_blocks: 0 },
    Home::Custom { growing: false, min_blocks: 6 },
    Home::Custom { growing: true, min_blocks: 0 },
    Home::Custom { growing: true, min_blocks: 3 },
];

#[test]
fn whatever_becomes_of_a_move_no_byte_is_lost_in_default_pools() {
    all(Algorithm::Tlsf, &DEFAULT);
}

#[test]
fn whatever_becomes_of_a_move_no_byte_is_lost_in_custom_pools() {
    all(Algorithm::Tlsf, &CUSTOM);
}

#[test]
fn whatever_becomes_of_a_move_no_byte_is_lost_in_default_pools_of_buddies() {
    all(Algorithm::Buddy, &DEFAULT);
}

#[test]
fn whatever_becomes_of_a_move_no_byte_is_lost_in_custom_pools_of_buddies() {
    all(Algorithm::Buddy, &CUSTOM);
}

#[test]
fn linear_pools_are_refused() {
    let rig = Rig::with(profile(DISCRETE), |desc| desc.algorithm = Algorithm::Linear);
    let mut desc = fixed_pool(HOST, MIB);
    desc.algorithm = Algorithm::Linear;
    let linear = rig.create_pool(desc).unwrap();
    let tlsf = rig.create_pool(fixed_pool(HOST, MIB)).unwrap();
    let desc = DefragmentationDesc::default();
    assert_eq!(Defragmentation::new(&rig, None, desc).err(), Some(DefragmentationError::LinearPool));
    assert_eq!(Defragmentation::new(&rig, Some(&linear), desc).err(), Some(DefragmentationError::LinearPool));
    assert!(Defragmentation::new(&rig, Some(&tlsf), desc).is_ok());
    let other = Rig::new(DISCRETE);
    assert_eq!(Defragmentation::new(&other, Some(&tlsf), desc).err(), Some(DefragmentationError::WrongPool));
    rig.destroy_pool(linear).unwrap();
    rig.destroy_pool(tlsf).unwrap();
}

#[test]
fn pools_are_defragmented_side_by_side_and_each_but_once_at_a_time() {
    let rig = Rig::new(DISCRETE);
    let pools: Vec<_> = (0..2).map(|_| rig.create_pool(fixed_pool(HOST, MIB)).unwrap()).collect();
    let desc = DefragmentationDesc::default();
    let first = Defragmentation::new(&rig, None, desc).unwrap();
    let second = Defragmentation::new(&rig, Some(&pools[0]), desc).unwrap();
    let third = Defragmentation::new(&rig, Some(&pools[1]), desc).unwrap();
    assert_eq!(Defragmentation::new(&rig, None, desc).err(), Some(DefragmentationError::AlreadyRunning));
    assert_eq!(
        Defragmentation::new(&rig, Some(&pools[0]), desc).err(),
        Some(DefragmentationError::AlreadyRunning)
    );
    drop(first);
    assert_eq!(
        Defragmentation::new(&rig, Some(&pools[1]), desc).err(),
        Some(DefragmentationError::AlreadyRunning)
    );
    drop(Defragmentation::new(&rig, None, desc).unwrap());
    drop((second, third));
    drop(Defragmentation::new(&rig, Some(&pools[0]), desc).unwrap());
    pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
}
