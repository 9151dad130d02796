//! Frees that a thread leaves to another one, which has the lock of the shard.
//!
//! Where one thread allocates and another frees, both would take the lock of one shard for each operation, and all that it guards
//! would go from one cache to the other and back. So a thread that finds the lock taken does not wait for it: it leaves the free
//! in the shard's [`Inbox`], and so it does from then on, without a look at the lock.
//!
//! ```text
//!   thread A   allocates ─► quick list has no such range ─► takes the frees that wait, and then the range of one
//!                                                            ▲
//!   thread B   frees ─► the lock is taken ─► inbox [ 7 ][ 9 ][ 4 ]
//! ```
//!
//! The inbox has the record and the generation of each. The record itself is read and written by the thread that takes it, under
//! the lock, as if it were freed there and then: so a free of an allocation that a reset freed does nothing, here as there.
//!
//! # Who takes them
//!
//! - A request that finds no range in the quick lists of its shard, and each [`LOOK`]th that does, as far as they need no more than
//!   the quick path.
//! - A request that finds no place by the quick path: those of the shards of its pool, which are a few hundred for each at most.
//! - Whoever looks at all pools ([`Settled`](super::Settled)): statistics, reports, the end of a pool and of the allocator, a
//!   request for memory of the driver that was refused.
//! - All code that refuses something, before it does ([`Allocator::or_refuse`](crate::Allocator::or_refuse)).
//! - Calls that tell what is free in another way, first ([`Allocator::take_left_frees`](crate::Allocator::take_left_frees)): ends of
//!   frames, maintenance, previews, subscriptions, and runs that move allocations.
//! - The thread that leaves them, where [`MANY`] wait and the lock is not taken, or where there is no room for more. It waits for
//!   the lock then, as for any other.
//!
//! So a program sees no difference, but for the time at which a block that became empty is. What a thread takes is in its hands
//! for the moment between the lock and the end of the free, as with any other free that has not returned: its block may not be
//! with the driver yet. While events are read no free is left, as they are written in the order of the calls. Nor is that of a
//! large allocation where some have memory of their own ([`LARGE`]), or of one that the allocator made for itself.

use core::cell::Cell;
use core::hint::spin_loop;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::free::AfterFree;
use super::pools::Pools;
use super::quick_path::RecordInUse;
use super::{PoolSlot, PoolState};
use crate::device::Device;
use crate::memory::time::Moment;
use crate::sync::inbox::{Inbox, LARGEST};
use crate::sync::{locked, try_locked};

/// A request of so many in a shard takes the frees that wait, whatever the quick lists have.
const LOOK: u32 = 32;

/// Frees that wait, from which on the thread that leaves them looks whether the lock is taken: the thread that had it has no more
/// requests, or they would have been taken. Where it has, it is not disturbed: a thread that finds the lock taken stays away from
/// it for longer than all that wait here take.
const MANY: u32 = 4 * LOOK;

/// Then it looks again with each of so many.
const AGAIN: u32 = 16;

/// So many times that many waited, without a request since, the thread that leaves frees goes on doing so: the one that allocates may
/// have to wait until some are freed. After that it frees at once, where the lock is not taken.
const ALONE: u32 = 16;

/// Allocations of so many bytes are not left where some have memory of their own: nobody may ask again, and what the last
/// [`MANY`] hold would be kept for good. That of smaller ones is 32 MiB at most.
const LARGE: u64 = 256 << 10;

/// Rounds of [`spin_loop`], each of 10 to 50 ns, for which a request waits for a thread that takes frees: all that there is room
/// for take 10 µs.
const SPINS: u32 = 1000;

thread_local! {
    /// The slot at which this thread leaves its frees, by its address; 0 for none. A hint: a slot that is gone is compared only.
    static LEAVES_AT: Cell<usize> = const { Cell::new(0) };
}

/// A slot that is locked.
pub(crate) type PoolGuard<'a, D> = MutexGuard<'a, Option<PoolState<D>>>;

/// The inbox of a shard, where it has one.
#[derive(Debug, Default)]
pub(super) struct LeftFrees {
    inbox: OnceLock<Box<Inbox>>,
    /// A thread that leaves frees has the lock, to take those that wait: for microseconds, and not again before as many wait.
    is_taking: AtomicBool,
    /// Requests in the shard when such a thread had the lock last, and how often it found none since. Changed with the lock held.
    requests: AtomicU32,
    alone: AtomicU32,
    /// There is or was an allocation with memory of its own. Where there is none, a thread that leaves a free need not look at the
    /// record, which is in the cache of another one.
    has_dedicated: AtomicBool,
}

impl LeftFrees {
    /// Notes that an allocation has memory of its own.
    pub(super) fn note_dedicated(&self) {
        self.has_dedicated.store(true, Relaxed);
    }
}

/// A thread that leaves frees has the lock to take them; until this is dropped, or the thread panics.
#[derive(Debug)]
pub(crate) struct Taking<'a>(&'a AtomicBool);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// The shards that have an inbox.
#[derive(Debug, Default)]
pub(super) struct Inboxes {
    any: AtomicBool,
    slots: Mutex<Vec<u32>>,
}

/// What became of a free in a shard whose lock was taken.
#[derive(Debug)]
pub(crate) enum Leave<'a, D: Device> {
    /// It waits.
    Left,
    /// It waits among many, which the caller takes.
    Many(PoolGuard<'a, D>),
    /// It is the caller's, after those that wait.
    Locked(PoolGuard<'a, D>),
}

impl<D: Device> PoolSlot<D> {
    /// Locks the slot for a free; `None` where it is taken, or where the thread found that lately.
    #[inline]
    pub(crate) fn lock_to_free(&self) -> Option<PoolGuard<'_, D>> {
        let leaves = self.left.inbox.get().is_some() && LEAVES_AT.get() == self.address();
        if leaves { None } else { try_locked(&self.state) }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Returns what is dropped before the lock that [`Pools::leave`] returned is released.
    pub(crate) fn taking(&self) -> Taking<'_> {
        Taking(&self.left.is_taking)
    }

    /// Returns true if the free of an allocation is worth the lock.
    fn is_large(&self, in_use: RecordInUse) -> bool {
        // Of another allocation, if the token is stale: its free does nothing, here as there.
        let is_large = || self.records.get(in_use.record()).is_some_and(|entry| entry.size() >= LARGE);
        self.left.has_dedicated.load(Relaxed) && is_large()
    }

    /// Returns true if frees wait, as far as this thread knows: those that it has left itself, for one.
    #[inline]
    pub(crate) fn has_left_frees(&self) -> bool {
        self.left.inbox.get().is_some_and(|inbox| !inbox.is_empty())
    }

    /// Locks the slot for a request that found it taken, where that is for some microseconds, and by a thread that does not come
    /// again soon: to stay away from it, as from a thread that does, would take longer.
    pub(super) fn lock_behind_left_frees(&self) -> Option<PoolGuard<'_, D>> {
        (0..SPINS).take_while(|_| self.left.is_taking.load(Relaxed)).for_each(|_| spin_loop());
        self.left.inbox.get().and_then(|_| try_locked(&self.state))
    }

    /// Locks the slot if frees wait.
    pub(crate) fn lock_to_take_left(&self) -> Option<PoolGuard<'_, D>> {
        self.has_left_frees().then(|| locked(&self.state))
    }

    /// Frees what waits in a slot that is locked, up to a free that leaves its caller something to do, which is returned.
    pub(crate) fn take_left(
        &self,
        guard: &mut PoolGuard<'_, D>,
        now: impl Fn() -> Moment,
    ) -> Option<AfterFree<D>> {
        let inbox = self.left.inbox.get()?;
        let mut to_do = None;
        inbox.take(|word| {
            // The one before it leaves something to do: this one stays.
            if to_do.is_some() {
                return false;
            }
            match self.free(guard.as_mut(), RecordInUse::of_word(word), &now) {
                AfterFree::Nothing => {}
                after => to_do = Some(after),
            }
            true
        });
        to_do
    }
}

impl<D: Device> PoolState<D> {
    /// Returns true if the next request is to take the frees that wait, if there are any.
    #[inline]
    pub(super) fn looks_for_left_frees(&self, slot: &PoolSlot<D>) -> bool {
        self.use_of_shard.requests() % LOOK == 0 && slot.has_left_frees()
    }

    /// Frees what waits, for a request: up to the first that needs more than the quick path. Returns false
    /// where there was nothing else.
    pub(super) fn take_left_quickly(&mut self, slot: &PoolSlot<D>) -> bool {
        let Some(inbox) = slot.left.inbox.get() else { return false };
        let mut any = false;
        inbox.take(|word| {
            let in_use = RecordInUse::of_word(word);
            let entry = slot.records.get(in_use.record());
            if let Some(entry) = entry.filter(|entry| entry.generation() == in_use.generation()) {
                let Some(labelled) = self.free_quickly(slot, entry, in_use.record()) else { return false };
                if labelled {
                    // With the lock held: a thread that leaves frees has seldom given them names.
                    drop(self.take_label(in_use.record()));
                }
            }
            any = true;
            true
        });
        // This thread has the lock, so it need not leave what it frees itself.
        LEAVES_AT.set(0);
        any
    }
}

impl<D: Device> Pools<D> {
    /// Leaves a free to the thread that has the lock, where that is allowed. `read` says that events are read.
    #[cold]
    pub(crate) fn leave<'a>(
        &self,
        (index, slot): (u32, &'a PoolSlot<D>),
        in_use: RecordInUse,
        read: bool,
    ) -> Leave<'a, D> {
        // Without a pool, it is the free of a placed resource, or of one that is gone.
        let inbox = slot.left.inbox.get().filter(|_| !read && slot.has_pool());
        let Some(inbox) = inbox else {
            let guard = locked(&slot.state);
            let may_leave = !read && guard.is_some();
            if may_leave {
                self.make_inbox(index, slot);
            }
            LEAVES_AT.set(if may_leave { slot.address() } else { 0 });
            return Leave::Locked(guard);
        };
        LEAVES_AT.set(slot.address());
        let waiting = if slot.is_large(in_use) { None } else { inbox.add(in_use.word()) };
        let Some(waiting) = waiting else {
            let guard = locked(&slot.state);
            slot.left.is_taking.store(true, Relaxed);
            return Leave::Locked(guard);
        };
        if waiting < MANY || waiting % AGAIN != 0 {
            return Leave::Left;
        }
        // Before the lock is taken, or a request could find that without knowing why.
        slot.left.is_taking.store(true, Relaxed);
        let Some(guard) = try_locked(&slot.state) else {
            drop(slot.taking());
            return Leave::Left;
        };
        let requests = guard.as_ref().map_or(0, |state| state.use_of_shard.requests());
        if slot.left.requests.swap(requests, Relaxed) != requests {
            slot.left.alone.store(0, Relaxed);
        } else if slot.left.alone.fetch_add(1, Relaxed) >= ALONE {
            LEAVES_AT.set(0);
        }
        Leave::Many(guard)
    }

    /// Makes the inbox of a slot, if it has none. The caller has the lock of the slot.
    fn make_inbox(&self, index: u32, slot: &PoolSlot<D>) {
        if slot.left.inbox.get().is_none() {
            // Last, since threads that do not have the lock leave frees as soon as there is an inbox, and look for them here.
            locked(&self.inboxes.slots).push(index);
            self.inboxes.any.store(true, Relaxed);
            _ = slot.left.inbox.set(Box::new(Inbox::new()));
        }
    }

    /// Returns true if there may be frees that wait.
    // Relaxed: a thread that has left one, or has heard of that, has seen the inbox, before which this was set.
    #[inline]
    pub(crate) fn may_have_left_frees(&self) -> bool {
        self.inboxes.any.load(Relaxed)
    }

    /// Iterates over the slots in which frees wait.
    pub(crate) fn with_left_frees(&self) -> impl Iterator<Item = &PoolSlot<D>> {
        let nth = |at: usize| locked(&self.inboxes.slots).get(at).copied();
        let slots = (0..).map_while(nth).filter_map(|index| self.slots.get(index));
        slots.filter(|slot| slot.has_left_frees())
    }
}

const _: () = assert!(RecordInUse::LARGEST_WORD <= LARGEST, "a record has a word");

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests;
