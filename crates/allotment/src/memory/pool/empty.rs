//! Which empty blocks a pool frees, and which it keeps.
//!
//! A driver call that allocates a block takes up to some milliseconds, so a block is not freed when a later frame will
//! need it; and a block that no frame needs is not kept for ever. Worked example, with the default
//! [`EmptyBlockPolicy`](crate::memory::blocks::EmptyBlockPolicy) (120 ticks, 4 MiB and a 16th): a pool has needed 160 MiB at
//! once within the last 120 frames, and has 192 MiB in blocks, of which two are empty, 16 MiB each. It has 32 MiB more
//! than it needed, and may keep 4 + 160 / 16 = 14 MiB more: so [`take_unwanted`](PoolState::take_unwanted) takes one of
//! the two once it has been empty for 3 frames. Then 16 MiB are left, which is still above 14, so it takes the other.
//! Had the pool needed 184 MiB, its surplus of 8 MiB would be within 4 + 11.5, and both would stay until they have been
//! empty for 120 frames.
//!
//! When the pool allocates more, [`take_stale`](PoolState::take_stale) is stricter: nothing that is in the way stays. Say
//! the pool needed 160 MiB, has 160 MiB with empty dedicated blocks of 33 and 8 MiB, and allocates 20 MiB. It would have
//! 20 MiB more than it needed, so it frees the 33 MiB, which are enough alone: at once if no request of about 33 MiB came
//! since that size was freed first, as when a window was resized; else if they have been empty for three frames.

use super::{PoolSlot, PoolState};
use crate::choices::blocks::EmptyBlockPolicy;
use crate::device::{Device, MemoryHeapIndex, OwnedMemory};
use crate::memory::block_set::{EmptyBlock, Role};
use crate::sync::locked;

/// Ticks after which an unused empty block may be freed as surplus, and before the pool grows further.
///
/// Blocks that resources of different sizes use in turns, every frame or every second frame, are younger.
const STALE_TICKS: u64 = 3;

/// Blocks that a trim takes out at once: few enough that no thread waits for long, and that little memory is on its way to
/// the driver meanwhile.
const TOGETHER: usize = 256;

/// Dedicated memory whose size did not come back is freed before its time if it has at most this many times the bytes
/// that the pool would have too much: memory of a similar size takes its place.
const REPLACED_FACTOR: u64 = 4;

impl EmptyBlockPolicy {
    /// Returns the bytes that may lie idle in a pool whose peak usage is `needed` bytes.
    fn idle_bytes(&self, needed: u64) -> u64 {
        self.kept_bytes.saturating_add(needed.checked_div(self.kept_divisor).unwrap_or(0))
    }
}

/// Whether the end of a frame takes out a block that the policy does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakesUnwanted {
    Yes,
    No,
}

/// What the end of a frame found in a pool.
#[derive(Debug)]
pub(super) enum FrameEnd<D: Device> {
    NothingIsEmpty,
    /// A block is empty, and stays for now.
    HasEmpty,
    /// A block that is to be returned to the driver.
    Took(OwnedMemory<D>),
}

/// What is taken out is returned to the driver by the caller, without the lock: other threads allocate from the pool meanwhile.
impl<D: Device> PoolSlot<D> {
    /// Counts the end of a frame, and takes out a block that the policy does not keep where `takes` says so.
    pub(super) fn end_frame(&self, takes: TakesUnwanted) -> FrameEnd<D> {
        let mut guard = locked(&self.state);
        let Some(state) = guard.as_mut() else { return FrameEnd::NothingIsEmpty };
        state.count_frames();
        state.look_now();
        state.look_at_use();
        let has_empty = state.has_empty_blocks();
        if !has_empty || takes == TakesUnwanted::No {
            state.end_visit(has_empty);
            return if has_empty { FrameEnd::HasEmpty } else { FrameEnd::NothingIsEmpty };
        }
        let unwanted = state.take_unwanted();
        state.store_counters(self);
        state.end_visit(unwanted.is_some());
        unwanted.map_or(FrameEnd::HasEmpty, FrameEnd::Took)
    }

    /// Takes out a block that the policy does not keep. Other threads may use an empty block or free one between two calls.
    pub(crate) fn take_unwanted(&self) -> Option<OwnedMemory<D>> {
        self.take(PoolState::take_unwanted)
    }

    /// Takes out a block that is in the way of one of `wanted` bytes. See [`PoolState::take_stale`].
    pub(crate) fn take_stale(&self, wanted: u64) -> Option<OwnedMemory<D>> {
        self.take(|state| state.take_stale(wanted))
    }

    fn take(&self, take: impl FnOnce(&mut PoolState<D>) -> Option<OwnedMemory<D>>) -> Option<OwnedMemory<D>> {
        let mut guard = locked(&self.state);
        let state = guard.as_mut()?;
        state.wake();
        let memory = take(state);
        state.store_counters(self);
        memory
    }

    /// Takes out some of the empty blocks of one heap, or of all: none when none is left.
    pub(crate) fn take_empty(&self, heap: Option<MemoryHeapIndex>) -> Vec<OwnedMemory<D>> {
        let mut guard = locked(&self.state);
        // Most pools have no empty block; for these a look is enough, and no counters are stored.
        let Some(state) = guard.as_mut().filter(|state| state.has_empty_blocks_in(heap)) else {
            return Vec::new();
        };
        let memory = state.take_all_empty(heap);
        state.store_counters(self);
        memory
    }

    /// Returns the bytes of its empty blocks of a heap.
    pub(crate) fn empty_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        locked(&self.state).as_ref().map_or(0, |state| state.empty_bytes(heap))
    }
}

impl<D: Device> PoolState<D> {
    /// Takes out an empty block that the empty-block policy does not keep.
    pub(super) fn take_unwanted(&mut self) -> Option<OwnedMemory<D>> {
        // The reserved blocks are empty until the level that they were reserved for is loaded.
        if self.holds_reserve() {
            return None;
        }
        let ahead = self.room_to_keep();
        let needed = self.needed();
        let idle = self.reserved().saturating_sub(needed).saturating_sub(ahead);
        let empty_blocks = self.rules.empty_blocks;
        let too_much = idle > empty_blocks.idle_bytes(needed);
        // Where the application counts frames, the next frame will need what this one needed.
        let stale = self.stale_ticks();
        let room = if ahead == 0 { u64::MAX } else { self.room_up_to(self.set_ahead(), u64::MAX) };
        // A block allocated ahead in busier times may exceed the watermark for ever. One that is more than twice as
        // large as the block that would be allocated now is freed all the same, once it is old.
        let oversized = self.ahead_block_size(0, ahead).saturating_mul(2);
        let least_age =
            if too_much { stale.min(u64::from(empty_blocks.frames)) } else { empty_blocks.frames.into() };
        self.take_empty_of_age(None, least_age, |&EmptyBlock { size, age, role, .. }| {
            let old = age >= u64::from(empty_blocks.frames);
            // A block larger than the excess would leave the pool with less than it needed lately.
            let surplus = too_much && size <= idle && age >= stale;
            // Only shared blocks count as room ahead of demand, so freeing a dedicated one takes none away.
            let spared =
                role != Role::Shared || room.saturating_sub(size) >= ahead || (old && size > oversized);
            (old || surplus) && spared
        })
    }

    /// Takes out an empty block that was not used for some frames, or whose size did not come back, where the pool is
    /// about to allocate `wanted` bytes and would then have more than it needed lately.
    ///
    /// The new block replaces the stale one: peak memory stays near what is needed. Without this, a new block comes on
    /// top of all that are kept.
    fn take_stale(&mut self, wanted: u64) -> Option<OwnedMemory<D>> {
        if self.holds_reserve() || self.reserved() + wanted <= self.needed() {
            return None;
        }
        let excess = self.reserved() + wanted - self.needed();
        let stale = self.stale_ticks();
        // Dedicated memory of a size that did not come back is in the way at once: the targets of a window that was
        // resized would otherwise lie beside the new ones. Not where the excess is small beside it: a small block is
        // no reason to give up much. Other blocks may be used in turns, every second frame.
        let in_the_way = |idle: &EmptyBlock| {
            let replaced = idle.size / REPLACED_FACTOR <= excess;
            idle.age >= stale || (idle.role != Role::Shared && !idle.came_back && replaced)
        };
        // The smallest that is enough alone, so that most stays; else the largest, so that few driver calls are made.
        self.take_empty_by(in_the_way, |idle| {
            if idle.size >= excess { (false, idle.size) } else { (true, u64::MAX - idle.size) }
        })
    }

    /// Takes out an empty block, of one heap or of any, for which `unwanted` returns true. The pool keeps its
    /// `min_blocks`.
    pub(super) fn take_empty(
        &mut self,
        heap: Option<MemoryHeapIndex>,
        unwanted: impl Fn(&EmptyBlock) -> bool,
    ) -> Option<OwnedMemory<D>> {
        self.take_empty_of_age(heap, 0, unwanted)
    }

    /// Does the same, and looks at no block that has been empty for less than `least_age` ticks.
    fn take_empty_of_age(
        &mut self,
        heap: Option<MemoryHeapIndex>,
        least_age: u64,
        unwanted: impl Fn(&EmptyBlock) -> bool,
    ) -> Option<OwnedMemory<D>> {
        // The one that is empty for longest: the caller takes all that are unwanted, one by one, and the search for each
        // must not pass over all the others.
        let now = self.clock.now;
        let (at, index) = self.sets_of(heap).find_map(|at| {
            let mut unwanted = self.sets[at].unwanted(now, least_age, self.is_minimum(at), &unwanted);
            Some((at, unwanted.next()?.0))
        })?;
        self.take_block(at, index)
    }

    /// Takes out up to [`TOGETHER`] empty blocks, of one heap or of any. The pool keeps its `min_blocks`.
    fn take_all_empty(&mut self, heap: Option<MemoryHeapIndex>) -> Vec<OwnedMemory<D>> {
        let now = self.clock.now;
        let Some(at) = self
            .sets_of(heap)
            .find(|&at| self.sets[at].unwanted(now, 0, self.is_minimum(at), |_| true).next().is_some())
        else {
            return Vec::new();
        };
        // As many shared blocks as are above the minimum.
        let mut may_go = self.blocks_of_type(at).saturating_sub(self.minimum(at));
        let goes = |(index, empty): (u32, EmptyBlock)| {
            if empty.role == Role::Shared {
                may_go = may_go.checked_sub(1)?;
            }
            Some(index)
        };
        let blocks: Vec<u32> =
            self.sets[at].unwanted(now, 0, false, |_| true).filter_map(goes).take(TOGETHER).collect();
        self.flush_quick_list(at);
        self.remove_blocks(at, &blocks)
    }

    /// Returns the sets whose memory is of one heap, or of any.
    fn sets_of(&self, heap: Option<MemoryHeapIndex>) -> impl Iterator<Item = usize> {
        let sets = self.sets.iter().enumerate();
        sets.filter(move |(_, set)| heap.is_none_or(|heap| set.heap == heap)).map(|(at, _)| at)
    }

    fn take_block(&mut self, set: usize, index: u32) -> Option<OwnedMemory<D>> {
        // An empty block may have ranges in the quick lists, which must not outlive it.
        self.flush_quick_list(set);
        self.remove_block(set, index)
    }

    /// Takes out the empty block with the least `rank` among those for which `unwanted` returns true.
    fn take_empty_by<R: Ord>(
        &mut self,
        unwanted: impl Fn(&EmptyBlock) -> bool,
        rank: impl Fn(&EmptyBlock) -> R,
    ) -> Option<OwnedMemory<D>> {
        let now = self.clock.now;
        let (at, index) = (0..self.sets.len()).find_map(|at| {
            let unwanted = self.sets[at].unwanted(now, 0, self.is_minimum(at), &unwanted);
            let least = unwanted.map(|(index, empty)| (rank(&empty), index)).min();
            Some((at, least?.1))
        })?;
        self.take_block(at, index)
    }

    /// Returns the bytes of a heap that [`take_empty`](Self::take_empty) can take out.
    fn empty_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        let of_heap = self.sets.iter().enumerate().filter(|(_, set)| set.heap == heap);
        of_heap.map(|(i, set)| set.freeable_bytes(self.least_blocks(i))).sum()
    }

    /// Returns true if a block of one heap, or of any, is empty.
    fn has_empty_blocks_in(&self, heap: Option<MemoryHeapIndex>) -> bool {
        self.sets.iter().any(|set| set.empty_blocks != 0 && heap.is_none_or(|heap| set.heap == heap))
    }

    /// Returns true if a block is empty.
    pub(super) fn has_empty_blocks(&self) -> bool {
        self.has_empty_blocks_in(None)
    }

    /// Returns true if a block that becomes empty now is kept for a while, as all that are empty already.
    pub(super) fn keeps_emptied(&self) -> bool {
        let policy = &self.rules.empty_blocks;
        // What is older than that was looked at when it was due, and nothing that decides of it changes with this one.
        self.rules.ahead.is_none()
            && policy.frames != 0
            && policy.keeps_peak
            && (self.stale_ticks() != 0 || !self.has_surplus())
    }

    /// Returns true if the pool has more than it needs, by what the policy keeps.
    pub(super) fn has_surplus(&self) -> bool {
        let needed = self.needed();
        let idle = self.reserved().saturating_sub(needed).saturating_sub(self.room_to_keep());
        idle > self.rules.empty_blocks.idle_bytes(needed)
    }

    /// Returns the bytes that the pool keeps by its own usage, before the policy adds to them.
    fn needed(&self) -> u64 {
        if self.rules.empty_blocks.keeps_peak { self.clock.needed() } else { self.used() }
    }

    /// Returns the ticks after which an empty block may be surplus.
    pub(super) fn stale_ticks(&self) -> u64 {
        // Without frames a tick is no measure of reuse, so that a free may return a block at once.
        if self.clock.has_frames { STALE_TICKS } else { 0 }
    }

    /// Returns the bytes of room that the watermark keeps, whatever the empty-block policy says.
    pub(super) fn room_to_keep(&self) -> u64 {
        self.room_wanted().unwrap_or(0)
    }

    /// Returns true if the pool has less room than the watermark wants, may have another block, and no thread is
    /// already allocating one.
    pub(super) fn needs_maintenance(&self) -> bool {
        let short = |wanted| {
            // A heap that refused a block is not asked again in the same frame.
            let set = self.set_ahead();
            let may_ask = !self.sets[set].growing && self.refused_ahead != Some(self.clock.now);
            may_ask && !self.has_all_blocks() && self.room_up_to(set, wanted) < wanted
        };
        self.room_wanted().is_some_and(short)
    }

    /// Returns true if the pool has less room than the watermark wants, and may have another block.
    pub(super) fn is_short_of_room(&self) -> bool {
        let short = |wanted| !self.has_all_blocks() && self.room_up_to(self.set_ahead(), wanted) < wanted;
        self.room_wanted().is_some_and(short)
    }

    /// Returns true while a reservation holds.
    pub(super) fn holds_reserve(&self) -> bool {
        self.clock.now < self.reserved_until
    }

    /// Begins or extends a reservation: the pool frees no block for the ticks of its empty-block policy.
    pub(super) fn hold_reserve(&mut self) {
        self.wake();
        self.watch();
        self.reserved_until = self.clock.now + u64::from(self.rules.empty_blocks.frames.max(1));
    }
}
