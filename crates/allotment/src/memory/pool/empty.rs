//! Which empty blocks a pool frees, and which it keeps.

use super::PoolState;
use crate::device::{Device, MemoryHeapIndex, OwnedMemory};
use crate::memory::block_set::{Idle, Role};

/// An empty block that was not used for so many ticks is surplus, and goes before another one is got. What
/// resources of different sizes use by turns, every frame or every second one, is not stale.
const STALE_TICKS: u64 = 3;

impl<D: Device> PoolState<D> {
    /// Takes out an empty block that the rules do not want to keep.
    pub(in crate::memory) fn take_unwanted(&mut self) -> Option<OwnedMemory<D>> {
        if self.holds_reserve() {
            return None;
        }
        let ahead = self.room_to_keep();
        let needed = self.clock.needed();
        let idle = self.reserved().saturating_sub(needed).saturating_sub(ahead);
        let empty_blocks = self.rules.empty_blocks;
        let too_much = idle > empty_blocks.idle_bytes(needed);
        // Where frames are told, what this frame used is what the next one will.
        let stale = self.stale_ticks();
        let room = if ahead == 0 { u64::MAX } else { self.room_up_to(u64::MAX) };
        // What busier times got ahead and nobody has used for long: a block that is got now would be far smaller.
        let oversized = self.ahead_block_size(ahead, u64::MAX).saturating_mul(2);
        self.take_empty(None, |&Idle { size, age, role }| {
            let old = age >= u64::from(empty_blocks.ticks);
            let surplus = too_much && size <= idle && age >= stale;
            // Only shared blocks are room that is kept ahead of need.
            let spared =
                role != Role::Shared || room.saturating_sub(size) >= ahead || (old && size > oversized);
            (old || surplus) && spared
        })
    }

    /// Takes out an empty block that nobody has used for a while, where the pool is about to get memory
    /// beyond what it needed lately.
    pub(in crate::memory) fn take_stale(&mut self, wanted: u64) -> Option<OwnedMemory<D>> {
        if self.holds_reserve() || self.reserved() + wanted <= self.clock.needed() {
            return None;
        }
        let stale = self.stale_ticks();
        self.take_empty(None, |idle| idle.age >= stale)
    }

    /// Takes out an empty block, of one heap or of any, that `unwanted` says yes to, as long as
    /// enough are left.
    pub(in crate::memory) fn take_empty(
        &mut self,
        heap: Option<MemoryHeapIndex>,
        unwanted: impl Fn(&Idle) -> bool,
    ) -> Option<OwnedMemory<D>> {
        let now = self.clock.now;
        for (i, set) in self.sets.iter().enumerate() {
            if heap.is_some_and(|heap| set.heap != heap) {
                continue;
            }
            let keep_shared = i == 0 && set.statistics.blocks <= self.rules.min_blocks;
            if let Some(index) = set.find_empty(now, keep_shared, &unwanted) {
                // Ranges of it may be waiting.
                self.empty_quick_lists(i);
                return self.sets[i].remove(index);
            }
        }
        None
    }

    /// Bytes of a heap that can be taken out by [`take_empty`](Self::take_empty).
    pub(in crate::memory) fn empty_bytes(&self, heap: MemoryHeapIndex) -> u64 {
        let of_heap = self.sets.iter().enumerate().filter(|(_, set)| set.heap == heap);
        of_heap.map(|(i, set)| set.surrenderable(if i == 0 { self.rules.min_blocks } else { 0 })).sum()
    }

    pub(in crate::memory) fn has_empty_blocks(&self) -> bool {
        self.sets.iter().any(|set| set.empty_blocks != 0)
    }

    /// After how long an empty block may be surplus.
    pub(super) fn stale_ticks(&self) -> u64 {
        if self.clock.has_frames { STALE_TICKS } else { 0 }
    }

    /// Room that is kept ahead of need, whatever the empty-block policy says.
    pub(in crate::memory) fn room_to_keep(&self) -> u64 {
        // The heap's size bounds the next block; that of the largest block bounds it more.
        self.room_wanted(u64::MAX).unwrap_or(0)
    }

    /// True when block growth has something to do for the pool.
    pub(in crate::memory) fn needs_upkeep(&self, heap_size: u64) -> bool {
        let short = |wanted| {
            let asks = !self.sets[0].growing && self.refused_ahead != Some(self.clock.now);
            asks && self.room_up_to(wanted) < wanted
        };
        self.room_wanted(heap_size).is_some_and(short)
    }

    /// Whether somebody's reservation still holds.
    pub(in crate::memory) fn holds_reserve(&self) -> bool {
        self.clock.now < self.reserved_until
    }

    /// Makes sure that nothing of the pool is given back for a while, for somebody's reservation.
    pub(in crate::memory) fn hold_reserve(&mut self) {
        self.reserved_until = self.clock.now + u64::from(self.rules.empty_blocks.ticks.max(1));
    }
}
