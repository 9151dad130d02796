//! Which pools the end of a frame visits: those in which something is to be done with time.
//!
//! ```text
//!   each time   0001000000000…    pool 3 has a block to free: visited by each end of a frame, and each time that the clock is read
//!   when due    0100000001000…    pools 1 and 9 have an empty block, which is old enough for something at a tick that is known
//!   in turn     0000000100000…    pool 7 is in use: visited by one of 64
//!                                 all others are at rest: nothing would change but their clocks
//! ```
//!
//! A pool comes to rest when a visit finds nothing left to do in it: no range waits in the quick lists, and no block is empty
//! that could be freed some time. The clock of a pool stands still between two visits. Each call that changes the pool counts the time
//! that has passed, before anything else.
//!
//! While events are read all are visited each time, and none comes to rest: a replay of them reads its clock at other moments, and
//! what a pool decides must not depend on that.
//!
//! # Cost
//!
//! The end of a frame visits those of the pools with empty blocks that are due and one of 64 that are in use. It reads three words
//! for each 64, and the tick of each with an empty block. An allocation or free compares two numbers.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::Mutex;

use super::PoolState;
use super::clock::{LOOKS, TICKS_PER_LOOK};
use super::custom_pools::SLOTS_TOGETHER;
use crate::device::Device;
use crate::memory::time::Moment;
use crate::sync::locked;

/// The words of the list that are read at once, on the stack.
const WORDS: usize = 32;

/// The active pools of an allocator, and the time that the others catch up with. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct ActivePools {
    time: Passed,
    /// The ticks up to which turns were taken.
    turned: AtomicU64,
    /// Locked after the lock of a pool: a bit is changed together with what the pool says of itself.
    lists: Mutex<Lists>,
}

/// The time that has passed. Read by each allocation and free, so that it shares no cache line with what is written oftener.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Passed {
    /// Frames, and sixtieths of a second where no frames end. Written last, with release: who has read it finds what follows as new.
    ticks: AtomicU64,
    /// Frames that have ended.
    frames: AtomicU64,
    /// The latest tick of real time that was noted, doubled; 1 more where frames count instead.
    moment: AtomicU64,
}

/// Which pools a visit is for: all that are visited each time, those that are due, and those whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// A bit for each of the 64 slots of the first word.
    in_turn: u64,
    /// Those that are due at this tick, which are visited each time from then on, until a visit finds another tick for them.
    /// `None` for all, which stay due when they are.
    tick: Option<u64>,
}

/// A bit for each of 64 slots. A pool is in one of the sets at most.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    each_time: u64,
    in_turn: u64,
    when_due: u64,
}

/// The lowest bits of the tick at which each pool of a word is due: [`MOST_TICKS`] from now at most.
type Ticks = [u16; u64::BITS as usize];

/// The sets of pools. The end of a frame reads all words, and the ticks of those alone that have pools to wait for.
#[derive(Debug, Default)]
struct Lists {
    words: Vec<Word>,
    /// By word.
    ticks: Vec<Ticks>,
}

/// The ticks within which each pool that is not at rest is visited.
const MOST_TICKS: u64 = u64::BITS as u64;

/// Empty blocks of a set beyond which nobody looks for the tick at which one of them is old enough.
const FEW: u32 = 4;

impl Word {
    /// Returns a bit for each slot that is due, and has those visited each time from now on.
    fn take_due(&mut self, turn: Turn, ticks: &Ticks) -> u64 {
        let Some(now) = turn.tick else { return self.when_due };
        // So many ticks have passed that all are due; the lowest bits of a tick would not tell.
        let mut due = if turn.in_turn == u64::MAX { self.when_due } else { 0 };
        let mut left = self.when_due & !due;
        while left != 0 {
            let bit = left & left.wrapping_neg();
            let since = (now as u16).wrapping_sub(ticks[left.trailing_zeros() as usize]);
            due |= if since <= i16::MAX as u16 { bit } else { 0 };
            left ^= bit;
        }
        self.when_due &= !due;
        self.each_time |= due;
        due
    }
}

/// When a pool is visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Visits {
    #[default]
    EachTime,
    /// At a tick.
    WhenDue(u64),
    InTurn,
    AtRest,
}

/// The part of a pool that says when it is visited, and up to when it has counted the time.
#[derive(Debug, Default)]
pub(super) struct Rest {
    visits: Visits,
    ticks: u64,
    frames: u64,
    /// Ticks since a class of the quick lists was looked at.
    unlooked: u64,
}

impl Rest {
    /// That of a pool that begins now: no time has passed for it.
    pub(super) fn beginning(active: &ActivePools) -> Self {
        Self { ticks: active.ticks(), frames: active.frames(), ..Self::default() }
    }
}

impl ActivePools {
    /// Counts the end of a frame.
    pub(super) fn count_frame(&self) {
        self.time.frames.fetch_add(1, Relaxed);
        self.time.ticks.fetch_add(1, Release);
    }

    /// Notes the time. Ticks pass only where no frames count.
    pub(super) fn note_moment(&self, Moment { tick, in_frames }: Moment) {
        // Of two threads, the later time.
        let before = self.time.moment.fetch_max(tick << 1 | u64::from(in_frames), Relaxed) >> 1;
        let passed = if in_frames { 0 } else { tick.saturating_sub(before) };
        self.time.ticks.fetch_add(passed, Release);
    }

    /// Returns whose turn came since this was called last. The caller visits them.
    pub(super) fn take_turn(&self) -> Turn {
        let ticks = self.ticks();
        let turned = self.turned.swap(ticks, Relaxed);
        Turn::after(turned, ticks.saturating_sub(turned))
    }

    fn ticks(&self) -> u64 {
        self.time.ticks.load(Acquire)
    }

    fn frames(&self) -> u64 {
        self.time.frames.load(Relaxed)
    }

    fn moment(&self) -> Moment {
        let moment = self.time.moment.load(Relaxed);
        Moment { tick: moment >> 1, in_frames: moment & 1 != 0 }
    }

    /// Calls `visit` with the slot of each pool that a visit is for, in their order, and whether it is the pool's turn alone; with
    /// no lock held.
    pub(super) fn each(&self, turn: Turn, mut visit: impl FnMut(u32, bool)) {
        let mut words = [(0, 0, 0); WORDS];
        for first in (0..).step_by(WORDS) {
            let mut lists = locked(&self.lists);
            let Lists { words: all, ticks } = &mut *lists;
            let (Some(rest), Some(ticks)) = (all.get_mut(first..), ticks.get(first..)) else { return };
            let mut found = 0;
            for ((at, it), ticks) in (first..first + WORDS).zip(rest).zip(ticks) {
                let in_turn = it.in_turn & turn.in_turn.rotate_left(Turn::place(at as u32));
                let due = if it.when_due == 0 { 0 } else { it.take_due(turn, ticks) };
                let word = due | it.each_time | in_turn;
                // Most have none.
                words[found] = (at, word, in_turn);
                found += usize::from(word != 0);
            }
            drop(lists);
            for &(at, mut word, in_turn) in &words[..found] {
                while word != 0 {
                    let bit = word.trailing_zeros();
                    visit(at as u32 * u64::BITS + bit, in_turn >> bit & 1 != 0);
                    word &= word - 1;
                }
            }
        }
    }

    fn set(&self, slot: u32, visits: Visits) {
        let (word, bit) = ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS));
        let mut lists = locked(&self.lists);
        let Lists { words, ticks } = &mut *lists;
        if words.len() <= word {
            words.resize(word + 1, Word::default());
            ticks.resize(word + 1, [0; u64::BITS as usize]);
        }
        let (word, ticks) = (&mut words[word], &mut ticks[word]);
        word.each_time = word.each_time & !bit | if visits == Visits::EachTime { bit } else { 0 };
        word.in_turn = word.in_turn & !bit | if visits == Visits::InTurn { bit } else { 0 };
        word.when_due &= !bit;
        if let Visits::WhenDue(tick) = visits {
            word.when_due |= bit;
            ticks[(slot % u64::BITS) as usize] = tick as u16;
        }
    }
}

impl Turn {
    /// All pools that are not at rest.
    pub(super) const ALL: Self = Self { in_turn: u64::MAX, tick: None };

    /// Returns the bit of a word whose turn comes with that of the lowest bit of the first word.
    fn place(word: u32) -> u32 {
        // The pools in use are the first of each so many slots, where they have so many shards: of each word another eighth.
        word.wrapping_mul(SLOTS_TOGETHER) % u64::BITS
    }

    /// Returns the ticks until the turn of a slot comes: 1 to [`MOST_TICKS`].
    fn ticks_to(slot: u32, now: u64) -> u64 {
        let turn = u64::from(slot % u64::BITS).wrapping_sub(Self::place(slot / u64::BITS).into());
        turn.wrapping_sub(now) % MOST_TICKS + 1
    }

    /// Returns whose turn it is when some ticks have passed after so many.
    fn after(before: u64, passed: u64) -> Self {
        let tick = Some(before + passed);
        if passed >= MOST_TICKS {
            return Self { in_turn: u64::MAX, tick };
        }
        let in_turn =
            (before..before + passed).fold(0, |turn, tick| turn | 1 << (tick % u64::from(u64::BITS)));
        Self { in_turn, tick }
    }
}

impl<D: Device> PoolState<D> {
    /// Begins to be active, in the slot that the pool has just entered.
    pub(super) fn begin_active(&mut self) {
        self.rest = Rest::beginning(&self.active);
        self.visit(Visits::EachTime);
    }

    /// Is about to leave its slot: no visit finds it.
    pub(super) fn end_active(&mut self) {
        self.visit(Visits::AtRest);
    }

    /// Sets when the pool is visited.
    fn visit(&mut self, visits: Visits) {
        self.rest.visits = visits;
        self.active.set(self.slot_index(), visits);
    }

    /// Makes the clock of the pool right, and the pool active, if it is at rest. The caller is about to change it.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.rest.visits == Visits::AtRest || self.rest.ticks != self.active.ticks() {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&mut self) {
        if self.rest.visits == Visits::AtRest {
            let at_once = self.has_empty_blocks() || self.rules.ahead.is_some();
            self.visit(if at_once { Visits::EachTime } else { Visits::InTurn });
        } else if self.rest.visits == Visits::EachTime && self.events.is_read() {
            // A call is on its way to it, and writes the time for the reader.
            return;
        }
        self.count_frames();
        let moment = self.active.moment();
        if self.reserved() != 0 {
            self.pass_time_quietly(moment);
        }
    }

    /// Has the pool visited each time from now on, since something is to be done in it soon.
    pub(super) fn watch(&mut self) {
        if self.rest.visits != Visits::EachTime {
            self.visit(Visits::EachTime);
        }
    }

    /// Has the pool visited when something may be to be done about the block that has just become empty, if not before.
    pub(super) fn watch_emptied(&mut self) {
        let policy = self.rules.empty_blocks;
        // With the block, more of what the pool has may be more than it needs, where it does not keep its peak.
        let may_be_surplus = !policy.keeps_peak || self.has_surplus();
        let frames = u64::from(policy.frames);
        let ticks = if may_be_surplus { frames.min(self.stale_ticks()) } else { frames };
        // In a pool whose block becomes empty in each frame, a visit is near enough already.
        let is_near = match self.rest.visits {
            Visits::EachTime => true,
            Visits::WhenDue(tick) => tick <= self.rest.ticks + ticks.max(1),
            Visits::InTurn => MOST_TICKS <= ticks,
            Visits::AtRest => false,
        };
        if !is_near {
            self.watch();
        }
    }

    /// Returns the ticks until something may be to be done about the empty blocks, if no thread changes the pool before.
    fn ticks_to_wait(&self) -> u64 {
        // What decides of an empty block, in `take_unwanted`: its age, what the pool needed lately, and a reservation.
        let now = self.clock.now;
        let frames = u64::from(self.rules.empty_blocks.frames);
        let period = (self.clock.period() + frames.max(1)).saturating_sub(now);
        let reserve = if self.holds_reserve() { self.reserved_until - now } else { MOST_TICKS };
        // If for nothing else in its turn, so that those which began together are not visited together.
        let mut ticks = Turn::ticks_to(self.slot_index(), self.rest.ticks).min(period).min(reserve);
        // What is no surplus becomes none by its age alone.
        let surplus = if self.has_surplus() { self.stale_ticks() } else { frames };
        for set in &self.sets {
            if set.empty_blocks > FEW {
                return 1;
            }
            for age in set.empty_ages(now) {
                let later = [surplus, frames].into_iter().filter(|&limit| limit > age);
                ticks = later.fold(ticks, |ticks, limit| ticks.min(limit - age));
            }
        }
        ticks.max(1)
    }

    /// Counts the frames that ended since this was called last.
    pub(super) fn count_frames(&mut self) {
        self.rest.ticks = self.active.ticks();
        let frames = self.active.frames();
        let passed = frames - core::mem::replace(&mut self.rest.frames, frames);
        // Time begins with the first memory: a preview makes a pool's state as well, and must not change what the pool decides
        // later.
        if passed != 0 && self.reserved() != 0 {
            let used = self.used();
            self.clock.end_frames(passed, &self.rules.empty_blocks, used);
            self.on_tick(passed);
        }
    }

    /// Notes that all time that has passed is counted.
    pub(super) fn note_counted(&mut self) {
        self.rest.ticks = self.active.ticks();
    }

    /// Notes whether requests came up to now.
    pub(super) fn look_at_use(&mut self) {
        self.use_of_shard.look(self.active.moment().tick);
    }

    /// Notes ticks for which classes of the quick lists are to be looked at. None is due for a time in which none had a range.
    pub(super) fn look_later(&mut self, ticks: u64) {
        let all = self.rest.unlooked.saturating_add(ticks).min(LOOKS * TICKS_PER_LOOK);
        self.rest.unlooked = if self.waiting == 0 { 0 } else { all };
    }

    /// Looks at the classes of the quick lists that are due.
    pub(super) fn look_now(&mut self) {
        let looks = self.rest.unlooked / TICKS_PER_LOOK;
        self.rest.unlooked %= TICKS_PER_LOOK;
        self.flush_idle_ranges(looks);
    }

    /// Decides when the pool is visited next. `unwanted` says that it may have a block that the empty-block policy does not keep.
    pub(super) fn end_visit(&mut self, unwanted: bool) {
        let visits = if self.events.is_read() || unwanted {
            Visits::EachTime
        } else if self.is_settled() {
            Visits::AtRest
        } else if self.rules.ahead.is_some() {
            Visits::EachTime
        } else if self.has_empty_blocks() || self.holds_reserve() {
            Visits::WhenDue(self.rest.ticks + self.ticks_to_wait())
        } else {
            Visits::InTurn
        };
        if visits != self.rest.visits {
            self.visit(visits);
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
    use crate::events::{Event, EventBatch, SubscriptionDesc};
    use crate::memory::blocks::{BlockSize, EmptyBlockPolicy, ManualTime, TimeSource};
    use crate::{Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc, Requirements};

    use super::{Turn, Visits};
    use crate::sync::locked;

    const FRAMES: u32 = 10;

    /// The frames in which the turn of each pool comes.
    const TURN: u32 = 64;

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
            self.allocator.pools.active.each(Turn::ALL, |_, _| count += 1);
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
        world.frames(TURN);
        assert_eq!(world.active(), 0);
        drop(world.allocator.free_many(held.into_iter().chain([other])));
    }

    #[test]
    fn the_turn_of_each_pool_comes_once_in_as_many_ticks_as_there_are_turns() {
        for first in [0, 1, 63, 1000] {
            let turns = (first..first + u64::from(TURN)).map(|tick| Turn::after(tick, 1).in_turn);
            let all = turns.fold(0, |all, turn| {
                assert_eq!((turn.count_ones(), all & turn), (1, 0));
                all | turn
            });
            assert_eq!(all, Turn::ALL.in_turn);
            for slot in (0..1000).step_by(13) {
                let turn = Turn::after(first + Turn::ticks_to(slot, first) - 1, 1).in_turn;
                assert_eq!(turn.rotate_left(Turn::place(slot / 64)), 1 << (slot % 64), "slot {slot}");
            }
            for passed in 0..2 * u64::from(TURN) {
                let one_by_one =
                    (first..first + passed).fold(0, |all, tick| all | Turn::after(tick, 1).in_turn);
                assert_eq!(Turn::after(first, passed).in_turn, one_by_one, "{passed} ticks at once");
            }
        }
    }

    #[test]
    fn a_pool_in_use_without_an_empty_block_is_visited_in_its_turn_alone() {
        let world = World::new();
        let pools: Vec<_> = (0..100).map(|_| world.pool(0)).collect();
        let visited = |at: u64| {
            let mut count = 0;
            world.allocator.pools.active.each(Turn::after(at, 1), |_, _| count += 1);
            count
        };
        let options = |pool| MemoryUsage::GpuOnly.with_pool(pool);
        let small = |pool| world.allocator.allocate(&Requirements::new(1000), &options(pool)).unwrap();
        let held: Vec<_> = pools.iter().map(small).collect();
        for frame in 0..u64::from(TURN) * 2 {
            // A range that waits keeps a pool from its rest.
            pools.iter().for_each(|pool| world.allocator.free(small(pool)).unwrap());
            world.frames(1);
            assert!(frame == 0 || visited(frame) <= 4, "{} pools in frame {frame}", visited(frame));
        }
        assert!(world.allocator.free_many(held).is_empty());
    }

    #[test]
    fn a_pool_with_an_empty_block_is_visited_when_the_block_is_old_enough_for_something() {
        let world = World::new();
        let (pool, beside) = (world.pool(0), world.pool(0));
        let index = pool.shards().first;
        let looks = |frame: u64| {
            let slot = world.allocator.pools.get(index).unwrap();
            let guard = locked(&slot.state);
            let rest = &guard.as_ref().unwrap().rest;
            if let Visits::WhenDue(tick) = rest.visits {
                assert!(tick > frame, "frame {frame}, due {tick}");
            }
            rest.ticks
        };
        let (kept, in_use) = (world.allocate(&beside), world.allocate(&pool));
        world.frames(FRAMES * 3);
        world.allocator.free(in_use).unwrap();
        let (began, mut seen, mut visits) = (u64::from(FRAMES) * 3, 0, 0);
        for frame in 1..=u64::from(FRAMES) {
            assert_eq!(world.allocator.statistics().blocks, 2, "after {frame} frames");
            world.frames(1);
            let last = looks(began + frame);
            visits += u32::from(last != core::mem::replace(&mut seen, last));
        }
        assert_eq!(world.allocator.statistics().blocks, 1, "it went when it was old enough, and not later");
        assert!(visits <= 4, "{visits} visits in {FRAMES} frames");
        world.allocator.free(kept).unwrap();
    }

    #[test]
    fn blocks_that_are_old_at_the_same_time_go_one_in_each_frame_and_the_other_pools_are_not_visited() {
        let world = World::new();
        let pools: Vec<_> = (0..100).map(|_| world.pool(0)).collect();
        let held: Vec<_> = pools.iter().map(|pool| world.allocate(pool)).collect();
        world.frames(FRAMES);
        assert!(world.allocator.free_many(held).is_empty());
        world.frames(FRAMES - 1);
        for left in (0..100).rev() {
            world.frames(1);
            assert_eq!(world.allocator.statistics().blocks, left);
        }
        world.allocator.check_invariants();
    }

    #[test]
    fn a_pool_that_nobody_used_for_long_takes_no_block_for_old_though_a_reader_came_meanwhile() {
        let world = World::new();
        let pool = world.pool(0);
        let options = MemoryUsage::GpuOnly.with_pool(&pool);
        let small = || world.allocator.allocate(&Requirements::new(1000), &options).unwrap();
        let (kept, other) = (small(), world.allocate(&pool));
        let in_another = world.allocate(&pool);
        world.frames(TURN);
        // In its turn, and not at rest: a range waits.
        world.allocator.free(small()).unwrap();
        world.frames(FRAMES * 4);
        let reader = world.allocator.subscribe(&SubscriptionDesc::default()).unwrap();
        world.allocator.free(in_another).unwrap();
        for frame in 0..FRAMES {
            assert_eq!(world.allocator.statistics().blocks, 2, "after {frame} frames");
            world.frames(1);
        }
        assert_eq!(world.allocator.statistics().blocks, 1);
        drop(reader);
        [kept, other].into_iter().for_each(|it| world.allocator.free(it).unwrap());
    }

    #[test]
    fn ranges_that_each_frame_frees_and_takes_again_go_on_waiting() {
        let world = World::new();
        let pool = world.pool(0);
        let options = MemoryUsage::GpuOnly.with_pool(&pool);
        let small = || world.allocator.allocate(&Requirements::new(1000), &options).unwrap();
        let kept = small();
        let waiting = || {
            let slot = world.allocator.pools.get(pool.shards().first).unwrap();
            locked(&slot.state).as_ref().unwrap().waiting
        };
        for frame in 0..4 * TURN {
            let held: Vec<_> = (0..6).map(|_| small()).collect();
            assert!(frame < 2 || waiting() == 0, "all six are used in frame {frame}");
            held.into_iter().for_each(|it| world.allocator.free(it).unwrap());
            assert_eq!(waiting(), 6);
            world.frames(1);
            assert_eq!(waiting(), 6, "after frame {frame}");
        }
        world.allocator.free(kept).unwrap();
    }

    #[test]
    fn a_pool_that_was_destroyed_is_visited_no_more() {
        let world = World::new();
        let pools: Vec<_> = (0..20).map(|_| world.pool(0)).collect();
        for pool in pools {
            world.allocator.free(world.allocate(&pool)).unwrap();
            world.allocator.destroy_pool(pool).unwrap();
        }
        assert_eq!(world.active(), 0);
    }

    #[test]
    fn maintenance_leaves_the_turns_of_pools_to_whoever_lets_them_rest() {
        let world = World::new();
        let pools: Vec<_> = (0..50).map(|_| world.pool(0)).collect();
        let held: Vec<_> = pools.iter().map(|pool| world.allocate(pool)).collect();
        let other = world.pool(0);
        for _ in 0..4 * TURN {
            world.time.advance(Duration::from_millis(17));
            world.allocator.maintain();
            // Each fourth free that empties a block reads the clock.
            (0..4).for_each(|_| world.allocator.free(world.allocate(&other)).unwrap());
        }
        assert!(world.active() <= 2, "{} of 51 pools", world.active());
        held.into_iter().for_each(|it| world.allocator.free(it).unwrap());
    }

    #[test]
    fn a_reader_hears_of_the_time_by_which_maintenance_finds_a_pool_in_its_turn() {
        let world = World::new();
        let (pool, other) = (world.pool(0), world.pool(0));
        let options = MemoryUsage::GpuOnly.with_pool(&pool);
        let small = || world.allocator.allocate(&Requirements::new(1000), &options).unwrap();
        let (kept, in_other) = (small(), world.allocate(&other));
        world.allocator.free(small()).unwrap();
        for _ in 0..2 * TURN {
            world.time.advance(Duration::from_millis(17));
            world.allocator.maintain();
            (0..4).for_each(|_| world.allocator.free(world.allocate(&other)).unwrap());
        }
        world.allocator.free(small()).unwrap();
        let mut reader = world.allocator.subscribe(&SubscriptionDesc::default()).unwrap();
        let mut batch = EventBatch::new();
        reader.read(&mut batch);
        world.time.advance(Duration::from_millis(17));
        world.allocator.free(kept).unwrap();
        world.allocator.maintain();
        reader.read(&mut batch);
        let tells = |event: &Event| matches!(event, Event::TimePassed { .. });
        assert!(batch.events().iter().any(tells), "{:?}", batch.events());
        world.allocator.free(in_other).unwrap();
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
