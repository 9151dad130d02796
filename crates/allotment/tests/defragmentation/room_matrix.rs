//! Whatever becomes of the moves that make room for a request: every goal, in every kind of pool, with a driver that
//! refuses or is lost, and given up after every pass.

use allotment::device::{DeviceError, MemoryHeapIndex};
use allotment::memory::NewBlocks;
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass, PassLimits,
    RequestDefragmentation, RoomError,
};
use allotment::{Algorithm, AllocationError, AllocationOptions, Pool, PoolDesc};

use crate::acts::{ACTS, Act};
use crate::amount::{drawn, scaled};
use crate::model::{HOST, Model, movable, movable_aligned};
use crate::rig::{DISCRETE, KIB, Rig, Wanted, empty_blocks, fixed_pool, profile, small_blocks, wanted_in};
use crate::room::make_free_range;

const BLOCK: u64 = 64 * KIB;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    /// A request must fit; all passes in one call.
    Request,
    /// The same, pass by pass.
    PassByPass,
    /// A pool must have a free range.
    FreeRange,
}

const GOALS: [Goal; 3] = [Goal::Request, Goal::PassByPass, Goal::FreeRange];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    Default,
    /// As many blocks as it may have.
    Full,
    /// Blocks of different sizes, and a request that takes no new one.
    Growing,
    /// A default pool, in a heap that the blocks of a custom one fill.
    FullHeap,
}

const HOMES: [Home; 4] = [Home::Default, Home::Full, Home::Growing, Home::FullHeap];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    None,
    /// This call of the driver from now on fails; all that follow do too with `true`.
    Refused(u64, DeviceError, bool),
    /// The device is lost after so many passes.
    LostAfter(u32),
    /// The owner gives up after so many passes.
    GivenUpAfter(u32),
}

impl Trouble {
    fn loses_the_device(self) -> bool {
        matches!(self, Self::LostAfter(_) | Self::Refused(_, DeviceError::Lost, _))
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    goal: Goal,
    act: Act,
    algorithm: Algorithm,
    home: Home,
    trouble: Trouble,
    strategy: DefragmentationStrategy,
    seed: u64,
}

/// What became of the requests of one or more cases.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    served: u32,
    refused: u32,
    moves: u32,
}

impl Case {
    fn rig(&self) -> Rig {
        Rig::with(profile(DISCRETE), |desc| {
            (desc.algorithm, desc.threads) = (self.algorithm, 1);
            (desc.block_sizes, desc.empty_blocks) = (BlockSizes::fixed(BLOCK), EmptyBlockPolicy::NONE);
            if self.home == Home::FullHeap {
                desc.heap_limits = vec![(MemoryHeapIndex(1), self.filled_bytes())];
            }
        })
    }

    fn pool(&self, rig: &Rig) -> Option<Pool> {
        let mut desc = match self.home {
            Home::Default => return None,
            Home::Full | Home::FullHeap => fixed_pool(HOST, BLOCK),
            Home::Growing => {
                let mut sizes = small_blocks(16 * KIB, 64 * KIB);
                (sizes.growth_divisor, sizes.dedicated_threshold_divisor) = (4, 1);
                let mut desc = PoolDesc::new([HOST]);
                desc.sizing = Some(BlockSize::Growing(sizes));
                desc
            }
        };
        if self.home == Home::Full {
            desc.max_blocks = 3;
        }
        desc.algorithm = self.algorithm;
        // Otherwise a free range that is a whole block is gone at once.
        desc.empty_blocks = if self.goal == Goal::FreeRange {
            empty_blocks(1_000_000, 1 << 40)
        } else {
            EmptyBlockPolicy::NONE
        };
        Some(rig.create_pool(desc).unwrap())
    }

    /// Returns the bytes of the blocks that are filled.
    fn filled_bytes(&self) -> u64 {
        // So many that a third of their bytes is some blocks.
        if self.home == Home::FullHeap { 8 * BLOCK } else { 3 * BLOCK }
    }

    /// Returns the pool of the requests.
    fn home(&self) -> Option<usize> {
        matches!(self.home, Home::Full | Home::Growing).then_some(0)
    }

    /// Fills the pool, of which a third goes and a tenth of the rest is pinned.
    fn fill(&self, model: &mut Model<'_>, home: Option<usize>) {
        let mut live = 0;
        for number in 0.. {
            let (size, alignment) = (1 + model.random.below(8 * KIB), 1 << model.random.below(9));
            let desc = match number % 20 {
                9 => wanted_in(size, HOST),
                _ => movable_aligned(size, alignment).with_movability(self.act.movability(number)),
            };
            if live + size > self.filled_bytes() || !model.try_allocate(home, &desc) {
                break;
            }
            live += size;
        }
        model.thin_out(35);
        if model.live.is_empty() {
            model.allocate(home, &movable(KIB));
        }
    }

    fn run(self) -> Sums {
        let rig = self.rig();
        let pools: Vec<_> = self.pool(&rig).into_iter().collect();
        let filled = pools.first().map(|_| 0);
        let mut model = Model::new(&rig, &pools, self.seed);
        self.fill(&mut model, filled);
        match self.trouble {
            Trouble::Refused(call, error, true) => rig.device.fail_from(call, error),
            Trouble::Refused(call, error, false) => rig.device.fail_call(call, error),
            _ => {}
        }
        let mut sums = Sums::default();
        for _ in 0..4 {
            let size = 4 * KIB + model.random.below(24 * KIB);
            let result = self.make_room(&mut model, &movable(size), &mut sums);
            match result {
                Ok(()) => sums.served += 1,
                Err(error) => {
                    sums.refused += 1;
                    self.check_error(error);
                }
            }
            model.check_alone();
        }
        rig.device.clear_faults();
        model.finish();
        // Nothing of it is left: what was aside, a place that was reserved, a run that did not end.
        match pools.first() {
            Some(pool) => {
                drop(Defragmentation::new(&rig, Some(pool), DefragmentationDesc::default()).unwrap());
            }
            None => drop(Defragmentation::new(&rig, None, DefragmentationDesc::default()).unwrap()),
        }
        pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
        rig.trim();
        assert_eq!(rig.device.usage().memory_objects, 0);
        sums
    }

    fn options(&self, model: &Model<'_>, wanted: &Wanted) -> AllocationOptions {
        let options = wanted.options.clone();
        if self.home == Home::FullHeap {
            return options;
        }
        let options = options.with_new_blocks(NewBlocks::NeverAllocate);
        match self.home() {
            Some(at) => options.with_pool(&model.pools[at]),
            None => options,
        }
    }

    fn make_room(self, model: &mut Model<'_>, wanted: &Wanted, sums: &mut Sums) -> Result<(), RoomError> {
        let desc = DefragmentationDesc::new(self.strategy)
            .with_limits(PassLimits::NONE.with_moves(2 + self.seed as u32 % 5));
        let (rig, pools) = (model.rig, model.pools);
        let options = self.options(model, wanted);
        let home = self.home();
        let mut passes = 0;
        // Between two passes, where a pass may be given up too.
        let mut between = || {
            passes += 1;
            if self.trouble == Trouble::LostAfter(passes) {
                rig.device.lose_device();
            }
            self.trouble == Trouble::GivenUpAfter(passes)
        };
        let token = match self.goal {
            Goal::Request => RequestDefragmentation::new(rig, &wanted.requirements, &options, desc)
                .and_then(|room| {
                    room.run(|pass| {
                        model.check_places(&pass);
                        sums.moves += pass.moves().len() as u32;
                        _ = if between() { model.act(pass, Act::Dropped) } else { model.act(pass, self.act) };
                    })
                })?,
            Goal::PassByPass => {
                let mut room = RequestDefragmentation::new(rig, &wanted.requirements, &options, desc)?;
                loop {
                    match room.next_pass() {
                        NextPass::Moves(pass) => {
                            model.check_places(&pass);
                            sums.moves += pass.moves().len() as u32;
                            model.act(pass, self.act);
                            if between() {
                                break;
                            }
                        }
                        NextPass::LimitReached => {}
                        NextPass::Done => break,
                    }
                }
                room.finish()?
            }
            Goal::FreeRange => {
                let Some(pool) = pools.first() else { return Ok(()) };
                let bytes = wanted.requirements.size;
                make_free_range(rig, pool, bytes, desc, |pass| {
                    model.check_places(&pass);
                    sums.moves += pass.moves().len() as u32;
                    _ = if between() { model.act(pass, Act::Dropped) } else { model.act(pass, self.act) };
                })?;
                // Nobody else is there to take it.
                rig.allocate(&wanted.requirements, &options).unwrap()
            }
        };
        drop(options);
        model.adopt(home, wanted, token);
        Ok(())
    }

    fn check_error(&self, error: RoomError) {
        let expected = match error {
            RoomError::NothingHelps { .. } => true,
            RoomError::TooManyBytes { bytes, .. } => {
                matches!(self.strategy, DefragmentationStrategy::WithinBytes(limit) if bytes > limit)
            }
            // What stays where it is, is not in the plan's way only once.
            RoomError::Changed { .. } => !self.act.moves_all() || self.trouble != Trouble::None,
            // It asks the driver for a block.
            RoomError::Refused(AllocationError::Device { source: DeviceError::Lost, .. }) => {
                self.home == Home::FullHeap && self.trouble.loses_the_device()
            }
            RoomError::Unfinished => matches!(self.trouble, Trouble::GivenUpAfter(_)),
            _ => false,
        };
        assert!(expected, "{error:?}");
    }
}

fn all(algorithm: Algorithm, troubles: &[Trouble], strategies: &[DefragmentationStrategy]) -> Sums {
    let mut sums = Sums::default();
    let mut seed = 0;
    for home in HOMES {
        for goal in GOALS {
            if matches!(home, Home::Default | Home::FullHeap) && goal == Goal::FreeRange {
                // It is a call for custom pools.
                continue;
            }
            for act in ACTS {
                for &strategy in strategies {
                    for &trouble in troubles {
                        seed += 1;
                        if !drawn(seed + 10_000 * u64::from(algorithm == Algorithm::Buddy)) {
                            continue;
                        }
                        let case = Case { goal, act, algorithm, home, trouble, strategy, seed };
                        let told = std::panic::catch_unwind(|| case.run());
                        let one = told.unwrap_or_else(|why| {
                            eprintln!("{case:?}");
                            std::panic::resume_unwind(why)
                        });
                        sums.served += one.served;
                        sums.refused += one.refused;
                        sums.moves += one.moves;
                    }
                }
            }
        }
    }
    sums
}

const STRATEGIES: [DefragmentationStrategy; 4] = [
    DefragmentationStrategy::Fast,
    DefragmentationStrategy::Full,
    DefragmentationStrategy::WithinBytes(0),
    DefragmentationStrategy::WithinBytes(20_000),
];

const ALGORITHMS: [Algorithm; 2] = [Algorithm::Tlsf, Algorithm::Buddy];

#[test]
fn whatever_becomes_of_a_move_for_a_request_no_byte_is_lost() {
    for algorithm in ALGORITHMS {
        let sums = all(algorithm, &[Trouble::None; 2], &STRATEGIES);
        assert!(
            sums.served > sums.refused / 4 && u64::from(sums.moves) > scaled(1000),
            "{algorithm:?}: {sums:?}"
        );
    }
}

#[test]
fn whichever_call_fails_while_room_is_made_nothing_leaks() {
    const ERRORS: [DeviceError; 3] =
        [DeviceError::OutOfDeviceMemory, DeviceError::MapFailed, DeviceError::Lost];
    let troubles: Vec<_> = ERRORS
        .into_iter()
        .flat_map(|error| (1..3).map(move |call| (error, call)))
        .flat_map(|(error, call)| [false, true].map(|for_good| Trouble::Refused(call, error, for_good)))
        .collect();
    for algorithm in ALGORITHMS {
        let sums = all(algorithm, &troubles, &STRATEGIES[1..2]);
        assert!(u64::from(sums.moves) > scaled(1000), "{algorithm:?}: {sums:?}");
    }
}

#[test]
fn room_that_is_given_up_after_any_pass_leaves_nothing_behind() {
    let troubles: Vec<_> = (1..4).map(Trouble::GivenUpAfter).collect();
    for algorithm in ALGORITHMS {
        let sums = all(algorithm, &troubles, &STRATEGIES[1..2]);
        assert!(u64::from(sums.moves) > scaled(1000), "{algorithm:?}: {sums:?}");
    }
}

#[test]
fn a_device_that_is_lost_while_room_is_made_takes_no_place_along() {
    let troubles: Vec<_> = (1..4).map(Trouble::LostAfter).collect();
    for algorithm in ALGORITHMS {
        let sums = all(algorithm, &troubles, &STRATEGIES[1..2]);
        assert!(u64::from(sums.moves) > scaled(1000), "{algorithm:?}: {sums:?}");
    }
}
