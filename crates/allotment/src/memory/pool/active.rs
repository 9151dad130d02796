//! Which pools the end of a frame visits: those that requests use, and those in which something is to be done with time.
//!
//! ```text
//!   bits   0001000100000…    pools 3 and 7 are active: visited by each end of a frame, and each time that the clock is read
//!                            all others are at rest: nothing would change but their clocks
//! ```
//!
//! A pool comes to rest when a visit finds nothing left to do in it: no range waits in the quick lists, and no block is empty
//! that could be freed some time. Its clock stands still then. The first call that changes the pool wakes it, and its clock
//! catches up before anything else, to where visits would have brought it.
//!
//! # Cost
//!
//! The end of a frame is O(active pools), and a look at a bit for each pool. An allocation or free asks one field of its pool.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use super::PoolState;
use crate::device::Device;
use crate::memory::time::Moment;
use crate::sync::locked;

/// The words of the list that are read at once, on the stack.
const WORDS: usize = 32;

/// The active pools of an allocator, and the time that those at rest catch up with. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct ActivePools {
    /// A bit for each slot. Locked after the lock of a pool: a bit is changed together with what the pool says of itself.
    bits: Mutex<Vec<u64>>,
    /// Frames that have ended.
    frames: AtomicU64,
    /// The latest tick of real time at which the pools were visited, doubled; 1 more where frames count instead.
    moment: AtomicU64,
}

/// The part of a pool that says whether it is at rest.
#[derive(Debug, Default)]
pub(super) struct Rest {
    is_at_rest: bool,
    /// How many frames had ended when the pool counted the last.
    frames: u64,
}

impl ActivePools {
    /// Counts the end of a frame.
    pub(super) fn count_frame(&self) {
        self.frames.fetch_add(1, Relaxed);
    }

    /// Notes the time of a visit.
    pub(super) fn note_moment(&self, Moment { tick, in_frames }: Moment) {
        self.moment.store(tick << 1 | u64::from(in_frames), Relaxed);
    }

    fn moment(&self) -> Moment {
        let moment = self.moment.load(Relaxed);
        Moment { tick: moment >> 1, in_frames: moment & 1 != 0 }
    }

    /// Calls `visit` with the slot of each active pool, in their order, and no lock held.
    pub(super) fn each(&self, mut visit: impl FnMut(u32)) {
        let mut words = [0; WORDS];
        for first in (0..).step_by(WORDS) {
            let bits = locked(&self.bits);
            let Some(rest) = bits.get(first..) else { return };
            let count = rest.len().min(WORDS);
            words[..count].copy_from_slice(&rest[..count]);
            drop(bits);
            for (at, mut word) in (first..).zip(words[..count].iter().copied()) {
                while word != 0 {
                    visit(at as u32 * u64::BITS + word.trailing_zeros());
                    word &= word - 1;
                }
            }
        }
    }

    fn set(&self, slot: u32, active: bool) {
        let (word, bit) = ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS));
        let mut bits = locked(&self.bits);
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        if active { bits[word] |= bit } else { bits[word] &= !bit }
    }
}

impl<D: Device> PoolState<D> {
    /// Begins to be active, in the slot that the pool has just entered.
    pub(super) fn begin_active(&mut self) {
        self.rest.frames = self.active.frames.load(Relaxed);
        self.active.set(self.slot_index(), true);
    }

    /// Makes the pool active, if it is not, and its clock right. The caller is about to change it.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.rest.is_at_rest {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&mut self) {
        self.rest.is_at_rest = false;
        self.active.set(self.slot_index(), true);
        self.count_frames();
        let moment = self.active.moment();
        self.pass_time_quietly(moment);
    }

    /// Counts the frames that ended since this was called last.
    pub(super) fn count_frames(&mut self) {
        let frames = self.active.frames.load(Relaxed);
        let passed = frames - core::mem::replace(&mut self.rest.frames, frames);
        // Time begins with the first memory: a preview makes a pool's state as well, and must not change what the pool decides
        // later.
        if passed != 0 && self.reserved() != 0 {
            let used = self.used();
            self.clock.end_frames(passed, &self.rules.empty_blocks, used);
            self.on_tick(passed);
        }
    }

    /// Comes to rest where nothing is to be done before a call changes the pool. `unwanted` says that it may have a block that
    /// the empty-block policy does not keep.
    ///
    /// No pool does while its events are read: a replay of them reads its clock at other moments, and what it decides must
    /// not depend on which of its pools happen to rest.
    pub(super) fn rest_if_settled(&mut self, unwanted: bool) {
        if !unwanted && !self.events.is_read() && self.is_settled() {
            self.rest.is_at_rest = true;
            self.active.set(self.slot_index(), false);
        }
    }

    fn is_settled(&self) -> bool {
        let quiet =
            self.waiting == 0 && self.pending == 0 && !self.holds_reserve() && self.use_of_shard.is_seen();
        // The last block to become empty was unwanted by age, and was not freed: it is one of the minimum, or held.
        let oldest_age = u64::from(self.rules.empty_blocks.frames);
        let aged =
            |now: u64| self.sets.iter().all(|set| set.empty_for(now).is_none_or(|age| age > oldest_age));
        match self.rules.ahead {
            None => quiet && aged(self.clock.now),
            // What is empty there is room, of which less is wanted with time.
            Some(_) if self.reserved() != 0 => quiet && !self.has_empty_blocks() && !self.is_short_of_room(),
            // A pool that has nothing yet gets nothing ahead of demand.
            Some(_) => quiet,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use core::time::Duration;

    use crate::device::MemoryTypeIndex;
    use crate::device::simulated::{Profile, SimulatedGpu};
    use crate::memory::blocks::{BlockSize, EmptyBlockPolicy, ManualTime, TimeSource};
    use crate::{Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc, Requirements};

    const FRAMES: u32 = 10;

    struct World {
        allocator: Allocator<SimulatedGpu>,
        time: ManualTime,
    }

    impl World {
        fn new() -> Self {
            let time = ManualTime::new();
            let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
            let mut desc =
                AllocatorDesc { time: TimeSource::Manual(time.clone()), ..AllocatorDesc::default() };
            desc.empty_blocks = EmptyBlockPolicy { frames: FRAMES, kept_bytes: 1 << 30, ..desc.empty_blocks };
            Self { allocator: Allocator::new(device, desc).unwrap(), time }
        }

        fn pool(&self, min_blocks: u32) -> Pool {
            let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
            (desc.sizing, desc.min_blocks) = (Some(BlockSize::Fixed(1 << 20)), min_blocks);
            desc.empty_blocks = self.allocator.desc().empty_blocks;
            self.allocator.create_pool(desc).unwrap()
        }

        fn allocate(&self, pool: &Pool) -> crate::Allocation {
            let options = MemoryUsage::GpuOnly.with_pool(pool);
            self.allocator.allocate(&Requirements::new(700 << 10), &options).unwrap()
        }

        fn frames(&self, count: u32) {
            for _ in 0..count {
                self.time.advance(Duration::from_millis(17));
                self.allocator.end_frame();
            }
        }

        fn active(&self) -> usize {
            let mut count = 0;
            self.allocator.pools.active.each(|_| count += 1);
            count
        }
    }

    #[test]
    fn a_frame_end_visits_no_pool_in_which_nothing_is_to_be_done() {
        let world = World::new();
        let pools: Vec<_> = (0..50).map(|at| world.pool(at % 2)).collect();
        let mut held: Vec<_> = pools.iter().map(|pool| world.allocate(pool)).collect();
        assert!(world.active() >= 50);
        world.frames(FRAMES + 2);
        assert_eq!(world.active(), 0);
        world.allocator.free(held.swap_remove(7)).unwrap();
        let other = world.allocate(&pools[9]);
        assert_eq!(world.active(), 2, "those that were changed");
        world.allocator.check_invariants();
        world.frames(2 * FRAMES);
        assert_eq!(world.active(), 0);
        drop(world.allocator.free_many(held.into_iter().chain([other])));
    }

    #[test]
    fn a_pool_that_rested_for_long_takes_no_block_for_old_that_was_emptied_just_now() {
        let world = World::new();
        let pool = world.pool(0);
        let allocation = world.allocate(&pool);
        world.frames(100);
        assert_eq!(world.active(), 0);
        world.allocator.free(allocation).unwrap();
        for frame in 0..2 * FRAMES {
            let kept = world.allocator.statistics().blocks == 1;
            // It may go once it was empty for as many frames as the policy says, and is looked at once a frame.
            assert_eq!(kept, frame < FRAMES, "after {frame} frames");
            world.frames(1);
        }
        assert_eq!(world.active(), 0);
    }

    #[test]
    fn a_clock_that_catches_up_is_as_if_it_had_counted_each_frame() {
        let policy = EmptyBlockPolicy { frames: FRAMES, ..EmptyBlockPolicy::default() };
        for before in 0..2 * u64::from(FRAMES) + 2 {
            for frames in 1..4 * u64::from(FRAMES) {
                let mut one_by_one = super::super::Clock::default();
                one_by_one.used(500);
                (0..before).for_each(|_| one_by_one.end_frames(1, &policy, 100));
                let mut at_once = one_by_one;
                (0..frames).for_each(|_| one_by_one.end_frames(1, &policy, 70));
                at_once.end_frames(frames, &policy, 70);
                let all = |clock: super::super::Clock| (clock.now, clock.period(), clock.needed());
                assert_eq!(all(at_once), all(one_by_one), "{before} frames, then {frames}");
            }
        }
    }
}
