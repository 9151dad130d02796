//! Requests in a heap that blocks of other pools fill: they are emptied for a new block, where all that they hold fits into
//! fewer of them.

use core::time::Duration;
use std::collections::BTreeMap;

use allotment::device::{MemoryHeapIndex, MemoryTypeIndex};
use allotment::memory::blocks::{BlockSize, BlockSizes, EmptyBlockPolicy};
use allotment::memory::defragmentation::{
    Defragmentation, DefragmentationDesc, DefragmentationError, DefragmentationStrategy, NextPass,
    PassLimits, RequestDefragmentation, RoomError,
};
use allotment::memory::{Dedicated, ExpectedLifetime, Movability};
use allotment::{Algorithm, Alignment, Pool, PoolDesc, ResourceKind};

use crate::gains::{FULL, unlimited};
use crate::model::{HOST, Model, copy, movable};
use crate::rig::{KIB, MIB, Rig, Wanted, empty_blocks, fixed_pool, mapped_in, profile};

/// The other memory type of the heap.
const OTHER: MemoryTypeIndex = MemoryTypeIndex(0);
const BLOCK: u64 = 256 * KIB;
const TILE: u64 = 32 * KIB;
const HEAP: u64 = 4 * MIB;

/// How the memory of the heap is bounded.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Driver,
    Limit,
}

/// A heap of two memory types, which has 16 blocks.
fn rig(bound: Bound, empty: EmptyBlockPolicy) -> Rig {
    let mut profile = profile("integrated");
    profile.limits.buffer_image_granularity = Alignment::new(64 * KIB).unwrap();
    if matches!(bound, Bound::Driver) {
        profile.heaps[0].size = HEAP;
    }
    Rig::with(profile, |desc| {
        (desc.threads, desc.block_sizes, desc.empty_blocks) = (1, BlockSizes::fixed(BLOCK), empty);
        if matches!(bound, Bound::Limit) {
            desc.heap_limits = vec![(MemoryHeapIndex(0), HEAP)];
        }
    })
}

fn default_rig() -> Rig {
    rig(Bound::Limit, EmptyBlockPolicy::NONE)
}

/// A tile for another pool than that of [`movable`], from which it differs in one thing.
fn of_other(at: usize) -> Wanted {
    let tile = movable(TILE);
    match at {
        0 => mapped_in(TILE, OTHER).with_movability(Movability::Copied),
        1 => tile.with_lifetime(ExpectedLifetime::Short),
        2 => tile.with_kind(ResourceKind::OptimalImage),
        _ => tile,
    }
}

/// A custom pool with blocks of its own.
fn own_pool(rig: &Rig, memory_type: MemoryTypeIndex) -> Pool {
    rig.create_pool(fixed_pool(memory_type, BLOCK)).unwrap()
}

/// Fills the heap, and frees each second tile.
fn half_fill(model: &mut Model<'_>, pool: Option<usize>, tile: &Wanted) {
    while model.try_allocate(pool, tile) {}
    assert_eq!(model.bytes(), HEAP);
    model.free_where(|held| held.serial % 2 == 0);
}

impl Model<'_> {
    /// Makes room in a pool with all passes that this needs. Returns the bytes that were copied.
    fn room_for(
        &mut self,
        pool: Option<usize>,
        wanted: &Wanted,
        run: DefragmentationDesc,
    ) -> Result<u64, RoomError> {
        let mut options = wanted.options.clone();
        if let Some(at) = pool {
            options = options.with_pool(&self.pools[at]);
        }
        let (rig, mut copied) = (self.rig, 0);
        let token =
            RequestDefragmentation::new(rig, &wanted.requirements, &options, run).and_then(|room| {
                room.run(|pass| {
                    self.check_places(&pass);
                    pass.moves().iter().for_each(copy);
                    copied += pass.moves().iter().map(|one| one.size()).sum::<u64>();
                    pass.end();
                    self.check();
                })
            })?;
        drop(options);
        self.adopt(pool, wanted, token);
        Ok(copied)
    }

    /// A request that is refused has moved nothing.
    fn refused(&mut self, pool: Option<usize>, wanted: &Wanted, run: DefragmentationDesc) -> RoomError {
        let before = self.ranges();
        let refused = self.room_for(pool, wanted, run).expect_err("there is no room");
        assert_eq!(self.ranges(), before, "{refused}");
        self.check_alone();
        refused
    }
}

fn destroy(rig: &Rig, pools: impl IntoIterator<Item = Pool>) {
    pools.into_iter().for_each(|pool| rig.destroy_pool(pool).unwrap());
}

#[test]
fn a_heap_that_half_empty_blocks_of_another_pool_fill_has_room_for_a_large_request() {
    for bound in [Bound::Driver, Bound::Limit] {
        for empty in [EmptyBlockPolicy::NONE, empty_blocks(1000, 1 << 40)] {
            for other in 0..4 {
                let rig = rig(bound, empty);
                let custom = (other == 3).then(|| own_pool(&rig, HOST));
                let pools: Vec<_> = custom.into_iter().collect();
                let mut model = Model::new(&rig, &pools, 1);
                half_fill(&mut model, pools.first().map(|_| 0), &of_other(other));
                let copied = model.room_for(None, &movable(MIB), unlimited(FULL));
                assert_eq!(copied, Ok(MIB / 2), "{bound:?}, {other}: four half empty blocks, and no more");
                let refused = model.refused(None, &movable(MIB + TILE), unlimited(FULL));
                assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
                model.room_for(None, &movable(MIB), unlimited(FULL)).unwrap();
                assert_eq!(model.bytes(), HEAP, "all of the heap is in use");
                model.check_alone();
                model.finish();
                destroy(&rig, pools);
            }
        }
    }
}

#[test]
fn a_pinned_request_has_the_room_of_movable_allocations() {
    let rig = default_rig();
    let mut model = Model::new(&rig, &[], 1);
    half_fill(&mut model, None, &movable(TILE));
    for memory_type in [HOST, OTHER] {
        assert_eq!(model.room_for(None, &mapped_in(MIB, memory_type), unlimited(FULL)), Ok(MIB / 2));
    }
    model.check_alone();
    model.finish();
}

#[test]
fn a_custom_pool_has_the_room_of_default_pools_and_of_another_custom_pool() {
    for other in [None, Some(1)] {
        for sizing in [None, Some(BlockSize::Fixed(MIB))] {
            let rig = default_rig();
            let mut desc = PoolDesc::new([OTHER]);
            desc.sizing = sizing;
            let pools = [rig.create_pool(desc).unwrap(), own_pool(&rig, HOST)];
            let mut model = Model::new(&rig, &pools, 1);
            half_fill(&mut model, other, &movable(TILE));
            let wanted = mapped_in(MIB, OTHER);
            assert_eq!(model.room_for(Some(0), &wanted, unlimited(FULL)), Ok(MIB / 2));
            model.check_alone();
            model.finish();
            destroy(&rig, pools);
        }
    }
}

#[test]
fn dedicated_memory_has_the_room_of_other_pools_too() {
    let rig = default_rig();
    let mut model = Model::new(&rig, &[], 1);
    half_fill(&mut model, None, &movable(TILE));
    let wanted = mapped_in(MIB, OTHER).with_dedicated(Dedicated::Always);
    assert_eq!(model.room_for(None, &wanted, unlimited(FULL)), Ok(MIB / 2));
    model.check_alone();
    model.finish();
}

/// Three pools give a part each: none of them could give all of it.
#[test]
fn blocks_of_several_pools_are_emptied_for_one_request() {
    let rig = default_rig();
    let pools = [own_pool(&rig, OTHER)];
    let mut model = Model::new(&rig, &pools, 1);
    let tiles = [(None, movable(TILE)), (Some(0), of_other(0)), (None, of_other(1))];
    for at in 0.. {
        // Whole blocks of each in turn.
        let (pool, tile) = &tiles[at / 8 % 3];
        if !model.try_allocate(*pool, tile) {
            break;
        }
    }
    assert_eq!(model.bytes(), HEAP);
    model.free_where(|held| held.serial % 2 == 0);
    // 6, 5 and 5 half empty blocks: 3, 2 and 2 can be freed.
    let wanted =
        movable(6 * BLOCK).with_lifetime(ExpectedLifetime::Short).with_kind(ResourceKind::OptimalImage);
    let refused = model.refused(None, &movable(8 * BLOCK), unlimited(FULL));
    assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
    assert_eq!(model.room_for(None, &wanted, unlimited(FULL)), Ok(3 * BLOCK));
    model.check_alone();
    model.finish();
    destroy(&rig, pools);
}

#[test]
fn the_blocks_of_other_pools_that_cost_least_go_and_within_the_bytes_that_may_be_copied() {
    let rig = default_rig();
    let mut model = Model::new(&rig, &[], 1);
    while model.try_allocate(None, &of_other(0)) {}
    // Of each block one tile more than of the one before it, up to all but one; and then of the next eight the same.
    model.free_where(|held| (held.serial - 1) % 8 < (held.serial - 1) / 8 % 8);
    let within = |bytes| unlimited(DefragmentationStrategy::WithinBytes(bytes));
    // The two with one tile each, and the two with two.
    let least = 6 * TILE;
    let refused = model.refused(None, &movable(MIB), within(least - 1));
    assert!(matches!(refused, RoomError::TooManyBytes { bytes, .. } if bytes == least), "{refused}");
    assert_eq!(model.room_for(None, &movable(MIB), within(least)), Ok(least));
    model.check_alone();
    model.finish();
}

#[test]
fn pinned_allocations_of_other_pools_stay_and_their_blocks_with_them() {
    let rig = default_rig();
    let mut model = Model::new(&rig, &[], 1);
    while model.try_allocate(None, &of_other(0)) {}
    model.free_where(|held| held.serial % 2 == 0);
    // One tile in each of thirteen blocks is mapped.
    let blocks: BTreeMap<_, _> =
        (0..model.live.len()).map(|at| (rig.memory_of(&model.live[at].token), at)).collect();
    assert_eq!(blocks.len(), 16);
    let mapped: Vec<_> = blocks.into_values().take(13).collect();
    for &at in &mapped {
        rig.map(&model.live[at].token).unwrap();
        model.live[at].maps = 1;
    }
    let refused = model.refused(None, &movable(MIB), unlimited(FULL));
    assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
    for &at in &mapped[..1] {
        rig.unmap(&model.live[at].token).unwrap();
        model.live[at].maps = 0;
    }
    assert_eq!(model.room_for(None, &movable(MIB), unlimited(FULL)), Ok(MIB / 2));
    for &at in &mapped[1..] {
        rig.unmap(&model.live[at].token).unwrap();
        model.live[at].maps = 0;
    }
    model.check_alone();
    model.finish();
}

#[test]
fn blocks_that_another_pool_keeps_as_its_minimum_are_not_emptied_for_nothing() {
    let rig = default_rig();
    let mut desc = fixed_pool(OTHER, BLOCK);
    desc.min_blocks = 13;
    let pools = [rig.create_pool(desc).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    half_fill(&mut model, Some(0), &of_other(0));
    let refused = model.refused(None, &movable(4 * BLOCK), unlimited(FULL));
    assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
    model.room_for(None, &movable(3 * BLOCK), unlimited(FULL)).unwrap();
    assert_eq!(rig.reports().pool_statistics(&pools[0]).unwrap().blocks, 13);
    model.check_alone();
    model.finish();
    destroy(&rig, pools);
}

#[test]
fn empty_blocks_count_as_free_beside_those_that_are_emptied() {
    let rig = rig(Bound::Limit, empty_blocks(1000, 1 << 40));
    let mut model = Model::new(&rig, &[], 1);
    while model.try_allocate(None, &of_other(0)) {}
    // Three blocks are empty, the others half empty.
    model.free_where(|held| held.serial <= 3 * 8 || held.serial % 2 == 0);
    assert_eq!(rig.statistics().blocks, 16);
    assert_eq!(model.room_for(None, &movable(4 * BLOCK), unlimited(FULL)), Ok(BLOCK / 2), "one more block");
    model.check_alone();
    model.finish();
}

/// Nothing has to move for it.
#[test]
fn empty_blocks_that_are_enough_are_freed_although_the_wanted_block_would_be_larger() {
    let rig = Rig::with(profile("integrated"), |desc| {
        (desc.threads, desc.empty_blocks) = (1, empty_blocks(1000, 1 << 40));
        desc.block_sizes = BlockSizes::fixed(2 * BLOCK);
        desc.heap_limits = vec![(MemoryHeapIndex(0), HEAP)];
    });
    let pools = [rig.create_pool(fixed_pool(OTHER, BLOCK + TILE)).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    while model.try_allocate(Some(0), &of_other(0)) {}
    let first = rig.memory_of(&model.live[0].token);
    model.free_where(|held| rig.memory_of(&held.token) == first);
    assert_eq!(model.room_for(None, &movable(BLOCK + 1), unlimited(FULL)), Ok(0));
    model.check_alone();
    model.finish();
    destroy(&rig, pools);
}

/// Of 16 objects each is a half empty block, and none is left for the request.
#[test]
fn a_block_of_another_pool_is_emptied_for_a_memory_object_too() {
    let mut profile = profile("integrated");
    profile.limits.max_allocation_count = 16;
    let rig = Rig::with(profile, |desc| (desc.threads, desc.block_sizes) = (1, BlockSizes::fixed(BLOCK)));
    let mut model = Model::new(&rig, &[], 1);
    half_fill(&mut model, None, &of_other(0));
    assert_eq!(model.room_for(None, &movable(MIB), unlimited(FULL)), Ok(BLOCK / 2));
    model.check_alone();
    model.finish();
}

#[test]
fn a_pool_whose_defragmentation_is_open_is_left_alone_and_one_that_makes_room_is_not_defragmented() {
    let desc = DefragmentationDesc::default;
    let rig = default_rig();
    let pools = [own_pool(&rig, OTHER), own_pool(&rig, OTHER)];
    let mut model = Model::new(&rig, &pools, 1);
    half_fill(&mut model, Some(0), &of_other(0));
    let open = Defragmentation::new(&rig, Some(&pools[0]), desc()).unwrap();
    let refused = model.refused(None, &movable(MIB), unlimited(FULL));
    assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
    drop(open);

    let limits = PassLimits::NONE.with_moves(1);
    let wanted = mapped_in(BLOCK, OTHER);
    let options = wanted.options.clone().with_pool(&pools[1]);
    let mut room =
        RequestDefragmentation::new(&rig, &wanted.requirements, &options, desc().with_limits(limits))
            .unwrap();
    let NextPass::Moves(pass) = room.next_pass() else { panic!("blocks of another pool are emptied") };
    for held in
        [Defragmentation::new(&rig, None, desc()), Defragmentation::new(&rig, Some(&pools[0]), desc())]
    {
        assert_eq!(held.err(), Some(DefragmentationError::AlreadyRunning));
    }
    pass.moves().iter().for_each(copy);
    pass.end();
    drop(room);
    drop(options);
    drop(Defragmentation::new(&rig, None, desc()).unwrap());
    drop(Defragmentation::new(&rig, Some(&pools[0]), desc()).unwrap());
    model.room_for(Some(1), &wanted, unlimited(FULL)).unwrap();
    model.check_alone();
    model.finish();
    destroy(&rig, pools);
}

#[test]
fn a_pool_that_is_destroyed_and_created_anew_while_room_is_made_is_not_mistaken_for_the_first() {
    let desc = DefragmentationDesc::default;
    let rig = default_rig();
    let first = own_pool(&rig, OTHER);
    let pools = [first.clone()];
    let mut model = Model::new(&rig, &pools, 1);
    half_fill(&mut model, Some(0), &of_other(0));
    let wanted = movable(MIB);
    let limits = PassLimits::NONE.with_time(Duration::ZERO);
    let mut room =
        RequestDefragmentation::new(&rig, &wanted.requirements, &wanted.options, desc().with_limits(limits))
            .unwrap();
    // One step at a time, until it has looked at the pool.
    while Defragmentation::new(&rig, Some(&pools[0]), desc()).is_ok() {
        assert!(matches!(room.next_pass(), NextPass::LimitReached));
    }
    model.finish();
    drop(pools);
    rig.destroy_pool(first).unwrap();
    let anew = own_pool(&rig, OTHER);
    let open = Defragmentation::new(&rig, Some(&anew), desc()).unwrap();
    drop(room);
    assert_eq!(
        Defragmentation::new(&rig, Some(&anew), desc()).err(),
        Some(DefragmentationError::AlreadyRunning)
    );
    drop(open);
    destroy(&rig, [anew]);
}

#[test]
fn linear_pools_of_the_heap_are_left_alone() {
    let rig = default_rig();
    let mut desc = fixed_pool(OTHER, BLOCK);
    desc.algorithm = Algorithm::Linear;
    let pools = [rig.create_pool(desc).unwrap()];
    let mut model = Model::new(&rig, &pools, 1);
    half_fill(&mut model, Some(0), &of_other(0));
    let refused = model.refused(None, &movable(MIB), unlimited(FULL));
    assert!(matches!(refused, RoomError::NothingHelps { .. }), "{refused}");
    model.finish();
    destroy(&rig, pools);
}
