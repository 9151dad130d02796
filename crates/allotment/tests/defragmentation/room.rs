//! Requests that get their room by moves.

use allotment::device::simulated::SimulatedGpu;
use allotment::memory::defragmentation::{
    DefragmentationDesc, DefragmentationStrategy, NextPass, Pass, PassLimits, RequestDefragmentation,
    RoomError,
};
use allotment::memory::names::ShortName;
use allotment::memory::{AllocationId, Movability, NewBlocks};
use allotment::{
    Algorithm, AllocationError, AllocationOptions, Allocator, MemoryUsage, Pool, PoolDesc, Requirements,
};

use crate::gains::{FULL, unlimited};
use crate::model::{HOST, Model, copy, movable, movable_aligned};
use crate::rig::{DISCRETE, KIB, Rig, Wanted, fixed_pool, profile, wanted_in};

const MIB: u64 = 1024 * KIB;

/// A pool of so many blocks.
fn pool_of(blocks: u32, block_size: u64, algorithm: Algorithm) -> PoolDesc {
    let mut desc = fixed_pool(HOST, block_size);
    (desc.max_blocks, desc.algorithm) = (blocks, algorithm);
    desc
}

fn rig() -> Rig {
    Rig::with(profile(DISCRETE), |desc| desc.threads = 1)
}

impl Model<'_> {
    fn options_in(&self, pool: usize, desc: &Wanted) -> AllocationOptions {
        desc.options.clone().with_pool(&self.pools[pool])
    }

    /// Allocates it in a pool, with all passes that this needs.
    fn allocate_or_defragment(
        &mut self,
        pool: usize,
        desc: &Wanted,
        run: DefragmentationDesc,
    ) -> Result<(), RoomError> {
        self.make_room(pool, desc, run, |_, pass| _ = pass.end())
    }

    /// The same with something else at the end of each pass.
    fn make_room(
        &mut self,
        pool: usize,
        desc: &Wanted,
        run: DefragmentationDesc,
        mut end: impl FnMut(&mut Self, Pass<'_, SimulatedGpu>),
    ) -> Result<(), RoomError> {
        let options = self.options_in(pool, desc);
        let rig = self.rig;
        let result = RequestDefragmentation::new(rig, &desc.requirements, &options, run).and_then(|room| {
            room.run(|pass| {
                self.check_places(&pass);
                pass.moves().iter().for_each(copy);
                let recreated: Vec<AllocationId> = pass
                    .moves()
                    .iter()
                    .filter(|one| one.contents() == Movability::Recreated)
                    .map(|one| one.id())
                    .collect();
                end(self, pass);
                self.make_anew(&recreated);
                self.check();
            })
        });
        drop(options);
        self.adopt(Some(pool), desc, result?);
        Ok(())
    }

    /// Bytes that are free in the one block of a pool.
    fn free_bytes(&self, pool: usize) -> u64 {
        let statistics = self.rig.reports().pool_statistics(&self.pools[pool]).unwrap();
        statistics.block_bytes - statistics.allocation_bytes
    }
}

/// Every other one of 16 tiles is gone: half of the block is free, in holes of 64 KiB.
#[test]
fn a_request_of_two_holes_fits_into_one_block_that_is_half_free_in_holes() {
    for algorithm in [Algorithm::Tlsf, Algorithm::Buddy] {
        let rig = rig();
        let pools = [rig.create_pool(pool_of(1, MIB, algorithm)).unwrap()];
        let mut model = Model::new(&rig, &pools, 1);
        (0..16).for_each(|_| model.allocate(Some(0), &movable(64 * KIB)));
        model.free_where(|held| held.serial % 2 == 1);
        assert!(!model.try_allocate(Some(0), &movable(128 * KIB)), "{algorithm:?}");
        model.allocate_or_defragment(0, &movable(128 * KIB), unlimited(FULL)).unwrap();
        model.check_alone();
        // All that is free, at last.
        model.allocate_or_defragment(0, &movable(256 * KIB), unlimited(FULL)).unwrap();
        model.allocate_or_defragment(0, &movable(128 * KIB), unlimited(FULL)).unwrap();
        assert_eq!(model.free_bytes(0), 0);
        model.check_alone();
        model.finish();
    }
}

/// Two blocks with 9 tiles of 64 KiB each have 448 KiB free each.
#[test]
fn two_blocks_that_are_half_free_serve_a_request_of_all_that_is_free_in_both() {
    let rig = rig();
    let pools = [rig.create_pool(pool_of(2, MIB, Algorithm::Tlsf)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    (0..32).for_each(|_| model.allocate(Some(0), &movable(64 * KIB)));
    model.free_where(|held| held.serial % 16 < 14 && held.serial % 2 == 0);
    assert_eq!(model.rig.reports().pool_statistics(&pools[0]).unwrap().allocations, 18);
    assert!(!model.try_allocate(Some(0), &movable(896 * KIB)));
    model.allocate_or_defragment(0, &movable(896 * KIB), unlimited(FULL)).unwrap();
    model.check_alone();
    model.finish();
}

/// A place that overlaps the old one is reached through memory that the pool has for this time only.
#[test]
fn what_moves_by_less_than_its_size_goes_aside_meanwhile() {
    let rig = rig();
    let pools = [rig.create_pool(pool_of(1, 64 * KIB, Algorithm::Tlsf)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    for size in [4, 28, 4, 28] {
        model.allocate(Some(0), &movable(size * KIB));
    }
    model.free_where(|held| held.bytes.len() as u64 == 4 * KIB);
    let mut most = 0;
    model
        .make_room(0, &movable(8 * KIB), unlimited(FULL), |model, pass| {
            most = most.max(model.rig.device.usage().memory_objects);
            pass.end();
        })
        .unwrap();
    assert_eq!((most, rig.device.usage().memory_objects), (2, 1), "the second block is gone again");
    model.check_alone();
    model.finish();
}

/// Without memory for that the request is refused, and nothing has moved.
#[test]
fn what_cannot_go_aside_stays() {
    let rig = rig();
    let pools = [rig.create_pool(pool_of(1, 64 * KIB, Algorithm::Tlsf)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    for size in [4, 28, 4, 28] {
        model.allocate(Some(0), &movable(size * KIB));
    }
    model.free_where(|held| held.bytes.len() as u64 == 4 * KIB);
    let before = model.ranges();
    rig.device.fail_from(1, allotment::device::DeviceError::OutOfDeviceMemory);
    let refused = model.allocate_or_defragment(0, &movable(8 * KIB), unlimited(FULL)).unwrap_err();
    assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
    assert_eq!(model.ranges(), before);
    model.check_alone();
    model.finish();
}

#[test]
fn a_request_that_pinned_allocations_are_in_the_way_of_is_refused_and_nothing_moves() {
    let rig = rig();
    let pools = [rig.create_pool(pool_of(1, MIB, Algorithm::Tlsf)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    for at in 0..16 {
        let desc = if at % 4 == 1 { wanted_in(64 * KIB, HOST) } else { movable(64 * KIB) };
        model.allocate(Some(0), &desc);
    }
    model.free_where(|held| held.desc.movability != Movability::Pinned && held.serial % 2 == 1);
    let before = model.ranges();
    // The largest part between two pinned ones has 192 KiB.
    let refused = model.allocate_or_defragment(0, &movable(256 * KIB), unlimited(FULL)).unwrap_err();
    assert!(matches!(refused, RoomError::NothingHelps { requested: 262_144, .. }), "{refused}");
    assert!(refused.to_string().contains("do not fit wherever"), "{refused}");
    assert_eq!(model.ranges(), before);
    model.allocate_or_defragment(0, &movable(192 * KIB), unlimited(FULL)).unwrap();
    model.check_alone();
    model.finish();
}

#[test]
fn no_more_bytes_are_copied_than_the_strategy_allows() {
    let rig = rig();
    let pools = [rig.create_pool(pool_of(1, MIB, Algorithm::Tlsf)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    (0..16).for_each(|_| model.allocate(Some(0), &movable(64 * KIB)));
    model.free_where(|held| held.serial % 2 == 1);
    let before = model.ranges();
    let within = |bytes| unlimited(DefragmentationStrategy::WithinBytes(bytes));
    let refused = model.allocate_or_defragment(0, &movable(128 * KIB), within(64 * KIB - 1)).unwrap_err();
    assert!(matches!(refused, RoomError::TooManyBytes { bytes: 65536, .. }), "{refused}");
    assert_eq!(model.ranges(), before);
    model.allocate_or_defragment(0, &movable(128 * KIB), within(64 * KIB)).unwrap();
    model.check_alone();
    model.finish();
}

#[test]
fn a_request_that_fits_moves_nothing_and_one_that_is_wrong_is_refused_at_once() {
    let rig = rig();
    let pools = [rig.create_pool(pool_of(1, MIB, Algorithm::Tlsf)).unwrap()];
    let linear = rig.create_pool(pool_of(1, MIB, Algorithm::Linear)).unwrap();
    let mut model = Model::new(&rig, &pools, 1);
    (0..4).for_each(|_| model.allocate(Some(0), &movable(64 * KIB)));
    let before = model.ranges();
    model.make_room(0, &movable(128 * KIB), unlimited(FULL), |_, _| panic!("nothing moves")).unwrap();
    assert_eq!(model.ranges()[..4], before);
    let options = movable(KIB).options;
    let nothing = |_: Pass<'_, _>| panic!("nothing moves");
    let zero = Requirements::new(0);
    let refused = RequestDefragmentation::new(&rig, &zero, &options, unlimited(FULL))
        .and_then(|room| room.run(nothing))
        .unwrap_err();
    assert_eq!(refused, RoomError::Refused(AllocationError::ZeroSize { name: ShortName::NONE }));
    let large = Requirements::new(2 * MIB);
    let options = options.with_pool(&linear);
    let refused = RequestDefragmentation::new(&rig, &large, &options, unlimited(FULL))
        .and_then(|room| room.run(nothing))
        .unwrap_err();
    assert!(matches!(refused, RoomError::NotBegun { .. } | RoomError::NothingHelps { .. }), "{refused}");
    drop(options);
    rig.destroy_pool(linear).unwrap();
    model.finish();
}

/// Traffic in a pool that is nearly full. What fits when all is packed is served, each time.
#[test]
fn at_any_occupancy_each_request_is_served_that_fits_when_all_is_packed() {
    for (occupancy, seed) in [(85, 1), (95, 2), (99, 3)] {
        for blocks in [1, 3] {
            let rig = rig();
            let pools = [rig.create_pool(pool_of(blocks, 256 * KIB, Algorithm::Tlsf)).unwrap()];
            let mut model = Model::new(&rig, &pools, seed);
            let capacity = u64::from(blocks) * 256 * KIB;
            let mut made = 0;
            for _ in 0..1500 {
                // Up to an eighth of the pool, and mostly small.
                let small = model.random.below(10) != 0;
                let size = 1 + model.random.below(if small { capacity / 256 } else { capacity / 8 });
                // So full after the request, or less.
                while model.bytes() + size > capacity * occupancy / 100 {
                    let at = model.random.below(model.live.len() as u64) as usize;
                    model.free(at);
                }
                let free = capacity - model.bytes();
                if model.try_allocate(Some(0), &movable(size)) {
                    continue;
                }
                made += 1;
                // With such sizes a packing leaves less than an allocation in each block.
                let done = model.allocate_or_defragment(0, &movable(size), unlimited(FULL));
                assert!(done.is_ok(), "{occupancy} %: {size} of {free} free bytes: {done:?}");
            }
            assert!(made > 20, "{occupancy} %, {blocks} blocks: {made}");
            model.check_alone();
            model.finish();
        }
    }
}

/// Passes that are dropped, moves that are ignored, allocations that are freed and requests of others between the
/// passes: each allocation keeps its bytes, and no place stays reserved.
#[test]
fn whatever_happens_between_the_passes_nothing_is_lost() {
    for seed in 1..60 {
        let rig = rig();
        let algorithm = if seed % 3 == 0 { Algorithm::Buddy } else { Algorithm::Tlsf };
        let pools = [rig.create_pool(pool_of(1 + seed as u32 % 3, 64 * KIB, algorithm)).unwrap()];
        let mut model = Model::new(&rig, &pools, seed);
        let next = |model: &mut Model<'_>| {
            let size = model.random.below(4 * KIB) + 1;
            let mut desc = movable_aligned(size, 1 << (size % 9));
            desc.movability = [Movability::Recreated, Movability::Copied][usize::from(size % 5 != 0)];
            desc
        };
        for wanted in core::iter::repeat_with(|| next(&mut model)).take(200).collect::<Vec<_>>() {
            model.try_allocate(Some(0), &wanted);
        }
        for round in 0..12 {
            model.thin_out(20);
            let mut desc = movable(1 + model.random.below(24 * KIB));
            desc.movability = if round % 3 == 0 { Movability::Recreated } else { Movability::Copied };
            let limits = PassLimits::NONE.with_moves(1 + model.random.below(6) as u32);
            let run = DefragmentationDesc::new(FULL).with_limits(limits);
            let _ = model.make_room(0, &desc, run, |model, mut pass| {
                match model.random.below(6) {
                    0 => pass.ignore(0),
                    1 => return drop(pass),
                    2 => {
                        let at = model.random.below(model.live.len() as u64) as usize;
                        model.free(at);
                    }
                    3 => {
                        let size = 1 + model.random.below(2 * KIB);
                        model.try_allocate(Some(0), &wanted_in(size, HOST));
                    }
                    _ => {}
                }
                pass.end();
            });
            model.check_alone();
        }
        model.finish();
    }
}

/// A run that is dropped between two passes leaves each allocation where it is, and the room is free again.
#[test]
fn a_run_that_is_dropped_leaves_nothing_reserved() {
    for passes in 0..6 {
        let rig = rig();
        let pools = [rig.create_pool(pool_of(2, 64 * KIB, Algorithm::Tlsf)).unwrap()];
        let mut model = Model::new(&rig, &pools, 5);
        (0..32).for_each(|_| model.allocate(Some(0), &movable(4 * KIB)));
        model.free_where(|held| held.serial % 2 == 1);
        let options = model.options_in(0, &movable(32 * KIB));
        let desc = DefragmentationDesc::new(FULL).with_limits(PassLimits::NONE.with_moves(1));
        let mut room =
            RequestDefragmentation::new(&rig, &movable(32 * KIB).requirements, &options, desc).unwrap();
        drop(options);
        for _ in 0..passes {
            match room.next_pass() {
                NextPass::Moves(pass) => {
                    pass.moves().iter().for_each(copy);
                    pass.end();
                }
                NextPass::LimitReached => {}
                NextPass::Done => break,
            }
        }
        if passes % 2 == 0 {
            assert_eq!(room.finish().map(|got| rig.free(got).unwrap()), Err(RoomError::Unfinished));
        } else {
            drop(room);
        }
        model.check_alone();
        model.finish();
    }
}

/// The caller keeps the old places for longer than its closure runs, of moves before the last ones, or of these.
#[test]
fn a_request_whose_room_is_kept_by_old_places_that_were_passed_on_is_refused_rather_than_waited_for() {
    for passes_kept in [1, u32::MAX] {
        let rig = rig();
        let pools = [rig.create_pool(pool_of(1, MIB, Algorithm::Tlsf)).unwrap()];
        let mut model = Model::new(&rig, &pools, 1);
        (0..16).for_each(|_| model.allocate(Some(0), &movable(64 * KIB)));
        model.free_where(|held| held.serial % 2 == 1);
        let desc = DefragmentationDesc::new(FULL).with_limits(PassLimits::NONE.with_moves(1));
        let (mut kept, mut passes) = (Vec::new(), 0);
        let made = model.make_room(0, &movable(512 * KIB), desc, |model, pass| {
            passes += 1;
            if passes <= passes_kept {
                _ = pass.end_with(|place| kept.push(place));
            } else {
                _ = pass.end_with(|place| model.rig.free(place).unwrap());
            }
        });
        assert!(
            matches!(made, Err(RoomError::InUse { requested, .. }) if requested == 512 * KIB),
            "{made:?}"
        );
        assert!(!kept.is_empty());
        kept.into_iter().for_each(|place| rig.free(place).unwrap());
        model.allocate_or_defragment(0, &movable(512 * KIB), unlimited(FULL)).unwrap();
        model.check_alone();
        model.finish();
    }
}

/// Moves allocations of a pool until a free range has so many bytes, and leaves it free.
pub(crate) fn make_free_range(
    allocator: &Allocator<SimulatedGpu>,
    pool: &Pool,
    bytes: u64,
    desc: DefragmentationDesc,
    execute: impl FnMut(Pass<'_, SimulatedGpu>),
) -> Result<(), RoomError> {
    let options = MemoryUsage::GpuOnly.with_pool(pool).with_new_blocks(NewBlocks::NeverAllocate);
    let room = RequestDefragmentation::new(allocator, &Requirements::new(bytes), &options, desc)?;
    allocator.free(room.run(execute)?).unwrap();
    Ok(())
}

/// All that is free in a block, in one piece; nothing is allocated for it, and no block either.
#[test]
fn a_pool_gets_a_free_range_of_all_that_is_free_in_a_block() {
    let rig = rig();
    let mut desc = pool_of(1, MIB, Algorithm::Tlsf);
    desc.max_blocks = u32::MAX;
    let pools = [rig.create_pool(desc).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    (0..16).for_each(|_| model.allocate(Some(0), &movable(64 * KIB)));
    model.free_where(|held| held.serial % 2 == 1);
    let copies = |pass: Pass<'_, SimulatedGpu>| {
        pass.moves().iter().for_each(copy);
        pass.end();
    };
    let too_much = make_free_range(&rig, &pools[0], 512 * KIB + 1, unlimited(FULL), copies).unwrap_err();
    assert!(matches!(too_much, RoomError::NothingHelps { .. }), "{too_much}");
    make_free_range(&rig, &pools[0], 512 * KIB, unlimited(FULL), copies).unwrap();
    assert_eq!(rig.reports().pool_statistics(&pools[0]).unwrap().blocks, 1);
    model.check_alone();
    model.allocate(Some(0), &movable(512 * KIB));
    assert_eq!((rig.reports().pool_statistics(&pools[0]).unwrap().blocks, model.free_bytes(0)), (1, 0));
    model.finish();
}
