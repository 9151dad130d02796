//! The ladder: what is tried before a request for memory of the driver is refused, on every path. Its rungs have numbers
//! of their own, apart from the steps of a request (`allocator/allocate.rs`).
//!
//! ```text
//!   a request                                  memory of the driver by itself: a pool's first blocks, a reservation,
//!     │                                        blocks ahead of demand, memory created with its resource, memory for moves
//!     ▼                                          │
//!   1 free ranges of the thread's shard          │
//!   2 empty blocks of the other shards           │
//!   3 what the GPU has finished with is          │
//!     destroyed; then 1 again                    │
//!   4 a new block of the wanted size  ◄──────────┘  of its one size; refused: rung 3, then once more
//!   5 idle blocks of the heap are freed; then 4 again
//!   6 free ranges of the other shards
//!   7 smaller blocks, down to an eighth of the wanted size
//!   8 the pool of movable, or pinned, allocations
//!   9 the next memory type, from 1 on
//!  10 over the budget, and a memory object for a small request alone, rung 5 included: all types from 4 on
//!  11 where a remembered refusal was the answer: all types from 1 on, for which the driver is asked once more
//!  12 what has become free meanwhile, in any pool, is taken; if there was any, all from 1 on
//! ```
//!
//! | rung | where |
//! |---|---|
//! | 1 to 5, 7, 10, 11 | [`Allocator::allocate_from_shard`] (`allocator/allocate.rs`), `pool/requests.rs`, `new_block.rs` |
//! | 2, 6, 8 | `pool/shards.rs` |
//! | 9 to 12 | [`Allocator::serve`] (`allocator/allocate.rs`), [`Allocator::or_refuse`] |
//! | memory by itself | [`Allocator::memory_of_driver`] |
//!
//! Nothing waits for the GPU, and what the driver refused before is not asked for until something has changed
//! (`refusals.rs`), but for rung 11. Rung 3 is before rung 4, since destroying what is done with takes microseconds and a block
//! milliseconds. Rung 7 is before rung 9, since a block of at least an eighth of the wanted size costs each heap a handful
//! of memory objects; an object for each small request, which rung 10 allows, costs thousands, of which Vulkan guarantees
//! 4096 for all heaps. Without idle blocks being freed (5) for blocks ahead of demand: two pools would free each other's.
//!
//! A worked example: a heap of 256 MiB has 3 MiB left, another has 4 GiB. A request for 1 KiB suits the first best, and
//! its pool wants a block of 4 MiB. That is refused (4), and nothing is idle (5); 2 MiB are allocated (7). Later 1 MiB
//! more is. The next refusals are those of 4, 2, 1 and 0.5 MiB. From then on a request looks for room in the first
//! heap's blocks (1), knows without a call that no block can be had (4, 7), and is placed in a block of the second heap
//! (9), until memory of the first is freed.

use core::any::TypeId;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Mutex;

use crate::device::{Device, DeviceError, Mapping, MemoryDesc, MemoryTypeIndex, OwnedMemory};
use crate::lifetime::{DeletionQueue, WeakDeletionQueue};
use crate::memory::allocator::Allocator;
use crate::memory::driver::{Terms, heap_of};
use crate::memory::pool::PoolSlot;
use crate::memory::request::Remembered;
use crate::memory::{AllocationError, BudgetPolicy};
use crate::sync::locked;

/// The types that wait in a deletion queue for the memory and the resources of an allocator.
pub(crate) type TypesOfResources = [TypeId; 6];

/// The deletion queues in which resources of an allocator wait for the GPU.
#[derive(Debug, Default)]
pub(crate) struct Reclaimable {
    queues: Mutex<Vec<(WeakDeletionQueue, TypesOfResources)>>,
    /// There is a queue. Read without the lock, since an allocator that is used alone has none.
    any: AtomicBool,
}

impl Reclaimable {
    /// Adds a deletion queue, which is not kept alive, and the types of the resources in it.
    pub(crate) fn add(&self, queue: &DeletionQueue, types: TypesOfResources) {
        let queue = queue.downgrade();
        let mut queues = locked(&self.queues);
        queues.retain(|(queue, _)| queue.is_open());
        if !queues.iter().any(|(known, _)| known.ptr_eq(&queue)) {
            queues.push((queue, types));
        }
        self.any.store(true, Relaxed);
    }

    fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }
}

/// Which idle blocks are freed for memory of the driver.
#[derive(Debug)]
pub(crate) enum IdleBlocks<'a, D: Device> {
    /// None: what is allocated ahead of demand is no reason to take the room of others.
    Keep,
    /// Those of all pools.
    Free,
    /// Those of all pools but this one, whose own idle blocks are what is asked for.
    FreeBut(&'a PoolSlot<D>),
}

/// What may help against a refusal, beside the rungs that were tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::memory) enum MayHelp {
    Nothing,
    /// What is free but was not taken yet: it has room, or ends what was in use.
    Frees,
    /// And memory that waits to be returned to the driver: it is in no pool any more, so it has no room for a request, but makes
    /// room for memory of the driver. To return it takes milliseconds, which a request that may not have such memory must not wait for.
    FreesAndMemory,
}

impl MayHelp {
    pub(in crate::memory) const fn against(refused: AllocationError) -> Self {
        match refused {
            _ if refused.is_for_want_of_memory() || refused.is_of_mapping() => Self::FreesAndMemory,
            _ if refused.falls_through() => Self::Frees,
            _ => Self::Nothing,
        }
    }
}

impl<D: Device> Allocator<D> {
    /// Returns true if something may wait for the GPU that [`reclaim_finished`](Self::reclaim_finished) would destroy.
    pub(super) fn may_reclaim(&self) -> bool {
        !self.reclaimable.is_empty()
    }

    /// Destroys the resources of this allocator that the GPU has finished with, and frees what threads left. Never waits for the
    /// GPU. Returns true if there were any. Called with no lock held.
    ///
    /// Of the library's own types alone: their destructors call the device and free the memory, and nothing else. The
    /// caller of a create call may hold locks that a destructor of its own types takes.
    pub(super) fn reclaim_finished(&self) -> bool {
        let mut any = self.take_left_frees();
        if self.reclaimable.is_empty() {
            return any;
        }
        // One by one, without the lock: a destructor frees memory, which takes others.
        let queue = |at: usize| locked(&self.reclaimable.queues).get(at).cloned();
        for (queue, types) in (0..).map_while(queue) {
            let reclaim = || queue.reclaim_types(&types).is_some_and(|reclaimed| reclaimed.count != 0);
            // Twice, since the last piece of a buffer retires that buffer.
            if reclaim() {
                reclaim();
                any = true;
            }
        }
        // A destructor frees as any other code does, so it may have left the memory to a thread that has the lock.
        self.take_left_frees() || any
    }

    /// Does what a caller may be refused, as all code does that refuses memory, or the end of what is in use: what
    /// [may help](MayHelp) against the refusal is taken, and it is done once more. Called with no lock held.
    pub(in crate::memory) fn or_refuse<T, E>(
        &self,
        may_help: impl FnOnce(&E) -> MayHelp,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        match attempt() {
            Err(refused) if self.take_what_is_free(may_help(&refused)) => attempt(),
            done => done,
        }
    }

    /// Takes what is free but for a step that nobody has made yet: what threads left, what the GPU has finished with, memory that
    /// waits for the maintenance thread. Idle blocks are the last, and only where they help
    /// ([`free_idle_for`](Self::free_idle_for)). Returns true if there was any.
    fn take_what_is_free(&self, may_help: MayHelp) -> bool {
        if may_help == MayHelp::Nothing {
            return false;
        }
        let any = self.reclaim_finished();
        if may_help == MayHelp::Frees {
            return any;
        }
        let memory = self.pools.take_left_to_maintenance();
        if memory.is_empty() {
            return any;
        }
        self.waiting(|| self.free_all(memory));
        true
    }

    /// Allocates memory of the driver by itself, with every rung of the [ladder](self) that such memory has. `make` calls
    /// the driver. Called with no lock held.
    pub(in crate::memory) fn memory_of_driver<T>(
        &self,
        of: (MemoryTypeIndex, u64),
        terms: impl Into<Terms>,
        idle: IdleBlocks<'_, D>,
        make: impl Fn() -> Result<T, DeviceError>,
    ) -> Result<T, AllocationError> {
        let terms = terms.into();
        let attempt = || self.heaps().allocate(self.device(), of, terms, &make);
        // Ahead of demand nobody waits for, so maintenance returns memory in its own time.
        let may_help = |refused: &AllocationError| match (MayHelp::against(*refused), &idle) {
            (MayHelp::FreesAndMemory, IdleBlocks::Keep) => MayHelp::Frees,
            (may_help, _) => may_help,
        };
        // Again after each step that has freed something.
        match self.or_refuse(may_help, &attempt) {
            Err(refused)
                if MayHelp::against(refused) == MayHelp::FreesAndMemory
                    && self.free_idle_for(&idle, (of.0, refused), terms.budget) =>
            {
                attempt()
            }
            done => done,
        }
    }

    /// Allocates a memory object of the driver, as [`memory_of_driver`](Self::memory_of_driver), for requests to come.
    pub(in crate::memory) fn object_of_driver(
        &self,
        desc: &MemoryDesc<'_, D::MemoryOptions>,
        (policy, mapping): (BudgetPolicy, Mapping),
        idle: IdleBlocks<'_, D>,
    ) -> Result<OwnedMemory<D>, AllocationError> {
        let make = || OwnedMemory::allocate(self.device(), desc, Mapping::OnDemand);
        let of = (desc.memory_type, desc.size);
        // Nothing else would serve the caller. Ahead of demand, within the budget, once in a frame.
        let terms = Terms { remembered: Remembered::AskAgain, ..policy.into() };
        let memory = self.memory_of_driver(of, terms, idle, make);
        // Now rather than for the first request; where it is not possible, requests of the GPU's alone can use the memory.
        memory.map(
            |memory| {
                if mapping == Mapping::Required { memory.map_if_possible(self.device()) } else { memory }
            },
        )
    }

    /// Frees idle blocks, and what threads left, where that may help against a refusal. Returns true if any was freed.
    pub(super) fn free_idle_for(
        &self,
        idle: &IdleBlocks<'_, D>,
        (memory_type, refused): (MemoryTypeIndex, AllocationError),
        policy: BudgetPolicy,
    ) -> bool {
        let but = match idle {
            IdleBlocks::Keep => return false,
            IdleBlocks::Free => None,
            IdleBlocks::FreeBut(slot) => Some(*slot),
        };
        // First, since a block may be idle by that. It may be too little, so the rest is looked at as well.
        let taken = self.take_left_frees();
        self.free_idle_blocks_for(but, (memory_type, refused), policy) || taken
    }

    /// Does what [`free_idle_for`](Self::free_idle_for) does, with the blocks of all pools but one.
    fn free_idle_blocks_for(
        &self,
        but: Option<&PoolSlot<D>>,
        (memory_type, refused): (MemoryTypeIndex, AllocationError),
        policy: BudgetPolicy,
    ) -> bool {
        let Ok(heap) = heap_of(self.device(), memory_type) else { return false };
        // Memory that waits for the maintenance thread is in no pool any more, but still counts against the limits.
        if self.return_memory() != 0 {
            return true;
        }
        let objects = self.pools.objects();
        // Blocks are freed only if that can help: else later requests would allocate them again, for nothing.
        let helps = match refused {
            // The limit of memory objects holds for all heaps together, and so does the space for addresses.
            AllocationError::TooManyAllocations { .. } => return self.release_empty(None, but),
            _ if refused.is_of_mapping() => return self.release_empty(None, but),
            // Most often a full heap has no idle block, and no pool has to be locked to find that.
            _ if objects.idle_in(heap.get()) == 0 => false,
            // The driver does not say how much is missing. But whoever refused, budget and limit must allow the request then:
            // an idle block of the next memory type may be all that serves it.
            AllocationError::OverBudget { requested, .. }
            | AllocationError::HeapLimit { requested, .. }
            | AllocationError::OutOfMemory { requested, .. } => {
                self.heaps().would_allow(heap, (requested, self.empty_bytes(heap, but)), policy)
            }
            _ => false,
        };
        helps && self.release_empty(Some(heap), but)
    }
}
