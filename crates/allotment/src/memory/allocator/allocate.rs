//! The path of a request, from its description to the token.
//!
//! # The steps
//!
//! | step | function | where |
//! |---|---|---|
//! | 0. In the thread's shard, for the best memory type: reuse a range of about the size that was freed a moment ago, or search its shared blocks | [`Allocator::allocate_quickly`] | `pool/quick_path.rs`, `pool/place.rs` |
//! | 1. Rank the memory types that suit; the following steps are tried for each, the best first; in a custom pool, for each of its memory types | [`Allocator::serve`], [`Allocator::ranking`] | `candidates.rs` |
//! | 2. Lock the thread's shard of the pool and ask it for a place: steps 3, 4 and 6 | `lock_for`, `ask` | `allocator/from_pool.rs`, `pool/shards.rs`, `pool/requests.rs` |
//! | 3. Round the request, and decide whether it wants a shared or a dedicated block | `round_request` | `pool/round.rs`, `pool/dedicated.rs` |
//! | 4. Search the existing blocks, then empty blocks of the other shards | `place_in_existing`, `place_in_lent_block` | `pool/place.rs`, `pool/shards.rs` |
//! | 5. Destroy what the GPU has finished with, and search again | `reclaim_finished` | `allocator/ladder.rs` |
//! | 6. Choose the sizes of a new block, the wanted one first | `plan_block` | `pool/plan.rs` |
//! | 7. With the lock released: wait for a block that another thread is allocating; or allocate one | [`Allocator::allocate_from_shard`], `allocate_block_replacing_stale` | here, `allocator/new_block.rs` |
//! | 8. Add the block, place the request in it, wake the waiting threads | `insert` | `pool/requests.rs` |
//!
//! What follows where the driver, a limit or the budget refuses is the ladder (`allocator/ladder.rs`).
//!
//! # A worked example
//!
//! One thread, the default `BlockSizes`, a heap of 8 GiB without granularity. The pool has two shared blocks of 4 MiB:
//! A with 1 MiB free in ranges of 512 KiB, and B with one free range of 3 MiB at offset 1 MiB. The quick lists are
//! empty.
//!
//! - **700 KiB.** Step 0 finds no range that waits. The smallest block that the pool would allocate has 4 MiB, so the request
//!   shares one in any case, and step 0 searches those that there are: above 256 KiB, for the one in which it fits most
//!   closely. A is skipped without being touched, since its largest free range is known to have at most 512 KiB. B's range
//!   is split: 700 KiB at offset 1 MiB are allocated, the other 2,372 KiB stay free.
//! - **1.5 MiB.** B has 2,372 KiB free. Of these 836 KiB are left.
//! - **3.5 MiB.** Not above 4 MiB, so it shares a block (step 3), but neither A nor B has room (step 4); there is no empty block. Step 6
//!   plans 3.5 MiB: one whole request, since a second one would not fit 4 MiB. Step 7: the driver allocates it. Step 8:
//!   block C has the request at offset 0 and nothing free.
//! - **20 MiB.** More than the next block, so it wants a dedicated one. No spare block, and no room in the shared ones;
//!   step 6 plans exactly 20 MiB.
//! - **The 700 KiB are freed, and 690 KiB requested.** The freed range waits in the quick list of its size class. Step
//!   0 takes it as it is, with its record: one lock, no search.
//! - **The 20 MiB are freed, and 18 MiB requested.** The dedicated block is cached. Step 4 takes it, since no more than
//!   an eighth of 18 MiB would be idle.
//!
//! Once the pool has seen its peak, step 0 and the free take some 90 ns together where a waiting range serves the request,
//! and some 200 where a block is searched; no host memory is allocated
//! (`docs/measurements/2026-11-28-general-path.md`).

use core::cell::Cell;
use std::borrow::Cow;

use allotment_suballoc::MAX_SIZE;

use crate::device::{Device, Mapping, MemoryTypeIndex, Requirements};
use crate::log::event;
use crate::memory::allocator::Allocator;
use crate::memory::allocator::ladder::MayHelp;
use crate::memory::block_set::UsableBlocks;
use crate::memory::pool::{Answer, Asked, LockedShard, NeededBlock, PlanSizes, Pool, PoolSlot, QuickPlace};
use crate::memory::request::{
    AllocationRequest, LARGEST_WAITING, MemoryTypeCandidate, PoolShards, Ranking, Remembered, judge,
};
use crate::memory::token::Allocation;
use crate::memory::{AllocationError, AllocationOptions, BudgetPolicy, ShortName};

/// In which rounds the memory types are tried: whether last resorts are allowed, and what is done about remembered refusals.
const ROUNDS: [(bool, Remembered); 4] = [
    (false, Remembered::Holds),
    (true, Remembered::Holds),
    (false, Remembered::AskAgain),
    (true, Remembered::AskAgain),
];

/// A memory type of a pool, from which a request may be served.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct TypeInPool<'a> {
    /// The custom pool; `None` for a default one.
    pub(super) pool: Option<&'a Pool>,
    pub(in crate::memory) shards: PoolShards,
    pub(in crate::memory) set: usize,
    pub(super) memory_type: MemoryTypeIndex,
}

impl<D: Device> Allocator<D> {
    /// Allocates memory from the default pools, or from the custom pool that the options name.
    ///
    /// # Errors
    ///
    /// [`AllocationError`]; nothing has changed. Where several memory types were tried, the error is that of the first,
    /// which suits best.
    ///
    /// # Examples
    ///
    /// ```
    /// use allotment::device::simulated::{Profile, SimulatedGpu};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let requirements = Requirements::new(700 << 10);
    /// let allocation = allocator.allocate(&requirements, &MemoryUsage::GpuOnly.into())?;
    /// // It shares a block of 4 MiB.
    /// assert_eq!(allocator.statistics().block_bytes, 4 << 20);
    /// allocator.free(allocation)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A custom pool of one block of 1 MiB has room for one allocation of 600 KiB:
    ///
    /// ```
    /// use allotment::device::MemoryTypeIndex;
    /// use allotment::device::simulated::{Profile, SimulatedGpu};
    /// use allotment::memory::blocks::BlockSize;
    /// use allotment::{AllocationError, Allocator, AllocatorDesc, MemoryUsage, PoolDesc, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let mut desc = PoolDesc::new([MemoryTypeIndex(0)]);
    /// (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(1 << 20)), 1);
    /// let pool = allocator.create_pool(desc)?;
    ///
    /// let (half, options) = (Requirements::new(600 << 10), MemoryUsage::GpuOnly.with_pool(&pool));
    /// let first = allocator.allocate(&half, &options)?;
    /// let refused = allocator.allocate(&half, &options);
    /// assert!(matches!(refused, Err(AllocationError::PoolFull { max_blocks: 1, .. })));
    /// allocator.free(first)?;
    /// drop(options); // they hold a clone of the pool
    /// allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("vmaAllocateMemory", "allocate_memory"))]
    #[inline]
    #[track_caller]
    pub fn allocate(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError> {
        // Inlined, and not by `allocate_for_request`: its result would be written to memory in parts, and copied as a whole.
        let allocation = match self.allocate_small(requirements, options) {
            Some(place) => self.allocation(place),
            None => self.allocate_slowly(&AllocationRequest::new(requirements, options))?,
        };
        self.note_call_site(allocation.id());
        Ok(allocation)
    }

    /// Allocates memory that nobody needs yet, of the type that suits best: within the budget, and without freeing anything for it.
    #[inline(never)]
    #[track_caller]
    pub(in crate::memory) fn allocate_ahead(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError> {
        let mut options = options.clone();
        options.budget = BudgetPolicy::WithinBudget;
        let request = AllocationRequest::new(requirements, &options);
        let request = AllocationRequest { ahead: true, best_type_only: true, ..request };
        let allocation = self.allocate_for_request(&request)?;
        self.note_call_site(allocation.id());
        Ok(allocation)
    }

    /// Does what [`allocate_quickly`](Self::allocate_quickly) does, in one function for all callers.
    #[inline(never)]
    fn allocate_small(&self, requirements: &Requirements, options: &AllocationOptions) -> Option<QuickPlace> {
        self.allocate_quickly(&AllocationRequest::new(requirements, options))
    }

    pub(in crate::memory) fn allocate_for_request(
        &self,
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        match self.allocate_quickly(request) {
            Some(place) => Ok(self.allocation(place)),
            None => self.allocate_slowly(request),
        }
    }

    // Not compiled along with `allocate` in each crate that calls it.
    #[inline(never)]
    fn allocate_slowly(&self, request: &AllocationRequest<'_>) -> Result<Allocation, AllocationError> {
        self.serve(request, |of, request| {
            self.mapped_as_needed(request, |request| {
                let allocated = self.allocate_from_shards(of.shards, of.set, request);
                allocated.or_else(|refused| match of.pool {
                    None => self.place_among_others(of.memory_type, request, refused),
                    Some(pool) => self.place_in_other_set(pool, of.set, request, refused),
                })
            })
        })
    }

    /// Places a request as most requests are: in a range that was freed a moment ago, or else in an existing block, of
    /// the memory type that suits best, in the thread's own shard.
    #[inline]
    fn allocate_quickly(&self, request: &AllocationRequest<'_>) -> Option<QuickPlace> {
        let place = self.place_ordinary(request)?;
        let may_be_unmapped = self.pools.objects().has_unmapped() && request.mapping() == Mapping::Required;
        if may_be_unmapped { self.mapped_quickly(place, request) } else { Some(place) }
    }

    /// Maps the memory of a new allocation if its request needs that. Where it cannot, the slow path finds another place.
    #[inline(never)]
    fn mapped_quickly(&self, place: QuickPlace, request: &AllocationRequest<'_>) -> Option<QuickPlace> {
        let allocation = self.allocation(place);
        if self.map_new(&allocation, request) {
            return Some(place);
        }
        self.free_own(allocation);
        None
    }

    fn place_ordinary(&self, request: &AllocationRequest<'_>) -> Option<QuickPlace> {
        // Larger ones have dedicated memory, whatever the pool has.
        let most = LARGEST_WAITING.max(self.desc().block_sizes.most_shared());
        if request.requirements.size > most || !request.is_ordinary() {
            return None;
        }
        let allowed = request.requirements.memory_types;
        // The best type only: whether the next one may be used depends on why this one refuses, which the slow path
        // finds out. An ordinary request requires and prefers no properties, so the ranking of its memory usage is
        // made already, and the first type of a pool that it allows suits it.
        let (memory_type, shards, set) = match &request.options.pool {
            None => {
                let ranking = &self.rankings[request.options.usage as usize];
                let memory_type = ranking.types(allowed).next()?;
                (memory_type, self.pools.default_pool_for(memory_type, request), 0)
            }
            Some(pool) if pool.allocator() != self.id() => return None,
            Some(pool) => {
                let mut types = pool.memory_types().enumerate();
                let (position, memory_type) =
                    types.find(|&(_, memory_type)| allowed.contains(memory_type))?;
                (memory_type, pool.shards(), pool.set_of(position, request.moves.mover.is_some()))
            }
        };
        // Where the driver could not map, the slow path chooses among the blocks; a freed range may be in any.
        let in_any_block = self.pools.usable_blocks(memory_type, request) == UsableBlocks::ALL;
        if !in_any_block && !self.heaps().refused_none(memory_type) {
            return None;
        }
        let how = (set, in_any_block);
        let placed = self.pools.place_in_own_shard(shards, how, request);
        placed.or_else(|| self.place_behind_left_frees(shards, how, request))
    }

    /// Places a request once more in the thread's own shard, where it may have found frees that it could not take by the way.
    #[cold]
    #[inline(never)]
    fn place_behind_left_frees(
        &self,
        shards: PoolShards,
        how: (usize, bool),
        request: &AllocationRequest<'_>,
    ) -> Option<QuickPlace> {
        let took = self.take_left_frees_in(self.pools.get(shards.own())?);
        took.then(|| self.pools.place_in_own_shard(shards, how, request))?
    }

    /// Serves a request by the first memory type that can, in its pool or in the default ones; or refuses it, after all that
    /// [`or_refuse`](Self::or_refuse) does. Every request for memory goes this way: no other code tries the memory types.
    pub(in crate::memory) fn serve<T>(
        &self,
        request: &AllocationRequest<'_>,
        attempt: impl Fn(TypeInPool<'_>, &AllocationRequest<'_>) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        let may_help = |refused: &AllocationError| match MayHelp::against(*refused) {
            // Nobody waits for what is asked for ahead of demand.
            MayHelp::FreesAndMemory if request.ahead => MayHelp::Frees,
            may_help => may_help,
        };
        let served = self.or_refuse(may_help, || self.by_memory_types(request, &attempt));
        served.map_err(|error| self.refused(error, request))
    }

    /// Tells how a request would be served, as [`serve`](Self::serve) serves it. What is to be made free for it does not count.
    pub(super) fn would_serve<T>(
        &self,
        request: &AllocationRequest<'_>,
        attempt: impl Fn(TypeInPool<'_>, &AllocationRequest<'_>) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        self.take_left_frees();
        self.by_memory_types(request, attempt)
    }

    fn by_memory_types<T>(
        &self,
        request: &AllocationRequest<'_>,
        attempt: impl Fn(TypeInPool<'_>, &AllocationRequest<'_>) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        let attempt = |of: TypeInPool<'_>, request: &AllocationRequest<'_>| {
            // What threads have freed in the pool has room. What they left in others is taken where that can help: before another
            // memory type is tried, and not by each request, or one could have the frees of thousands of pools to make.
            self.take_left_frees_of_shards(of.shards);
            match attempt(of, request) {
                Err(refused) if refused.falls_through() && self.take_left_frees() => attempt(of, request),
                done => done,
            }
        };
        match &request.options.pool {
            None => self.by_ranking(request, |memory_type, request| {
                let shards = self.pools.default_pool_for(memory_type, request);
                attempt(TypeInPool { pool: None, shards, set: 0, memory_type }, request)
            }),
            Some(pool) => self.by_pool_types(pool, request, |set, memory_type, request| {
                attempt(TypeInPool { pool: Some(pool), shards: pool.shards(), set, memory_type }, request)
            }),
        }
    }

    /// Tries the memory types that suit a request, the best first, until an attempt succeeds or fails for a reason that
    /// no other memory type changes; and then once more, where a last resort may serve it. The error is that of the
    /// type that suits best, with the name of the request.
    fn by_ranking<T>(
        &self,
        request: &AllocationRequest<'_>,
        attempt: impl Fn(MemoryTypeIndex, &AllocationRequest<'_>) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        let ranking = self.ranking(request).map_err(|error| error.of(request.options.short_name()))?;
        let count = if request.best_type_only { 1 } else { usize::MAX };
        let types = || ranking.types(request.requirements.memory_types);
        let within_budget = within_budget_where_another_heap_suits(request.options);
        let heap = |memory_type| self.device().properties().memory_type(memory_type).map(|found| found.heap);
        let tried = self.by_types(
            request,
            within_budget.is_some(),
            || types().enumerate().take(count),
            |(position, memory_type), request| {
                // Another type of the same heap has the same budget: nothing is gained by a worse one.
                let another = |other| heap(other) != heap(memory_type);
                let strict = !request.at_last && types().skip(position + 1).any(another);
                let options = within_budget.as_ref().filter(|_| strict).unwrap_or(request.options);
                attempt(memory_type, &request.with_options(options))
            },
        );
        tried.map_err(|refused| {
            refused.unwrap_or_else(|| self.no_memory_type(request)).of(request.options.short_name())
        })
    }

    /// Tries memory types in turn, with their positions: each with what is usual; then each with the last resorts; then each
    /// with what the driver refused before, where that was an answer. `limited` says that the first attempts are within the
    /// budget, whatever the request allows. The error is `None` where there is no type.
    fn by_types<T, I: Iterator<Item = (usize, MemoryTypeIndex)>>(
        &self,
        request: &AllocationRequest<'_>,
        limited: bool,
        types: impl Fn() -> I,
        attempt: impl Fn((usize, MemoryTypeIndex), &AllocationRequest<'_>) -> Result<T, AllocationError>,
    ) -> Result<T, Option<AllocationError>> {
        let answered = Cell::new(false);
        let (mut refused, mut may_grow) = (None, true);
        for (at_last, remembered) in ROUNDS {
            let may_help = match remembered {
                Remembered::Holds => may_grow,
                // A request is not refused by what was so a moment ago: what other programs freed since, or whether the
                // driver was short of something else, only the driver knows.
                Remembered::AskAgain => answered.get() && (at_last || limited),
            };
            if !may_help {
                continue;
            }
            let mut first = None;
            may_grow = false;
            for memory_type in types() {
                let second_choice = first.is_some() || at_last;
                let answered = Some(&answered);
                let request = AllocationRequest { second_choice, at_last, answered, remembered, ..*request };
                match attempt(memory_type, &request) {
                    // The best type's refusal says what would help the request; the types after it are only tried in
                    // its place.
                    Err(error) if error.falls_through() => {
                        may_grow |= error.is_for_want_of_memory() || error.is_of_mapping();
                        first = first.or(Some(error));
                    }
                    result => return result.map_err(Some),
                }
            }
            // The last resort's reason is the one that no policy of the allocator's own explains.
            refused = first.or(refused);
        }
        Err(refused)
    }

    /// Returns the reason why no memory type suits a request.
    pub(super) fn no_memory_type(&self, request: &AllocationRequest<'_>) -> AllocationError {
        let (allowed, required) = (request.requirements.memory_types, request.options.required);
        let types = self.device().properties().indexed_types();
        let mut usable = types
            .filter(|(index, _)| allowed.contains(*index) && self.desc().memory_types.contains(*index))
            .peekable();
        // Required properties that no memory type has are the more useful reason.
        if usable.peek().is_some() && !usable.any(|(_, found)| found.properties.contains(required)) {
            return AllocationError::NoTypeWithProperties { allowed, required, name: ShortName::NONE };
        }
        AllocationError::NoMemoryType { allowed, memory_usage: request.options.usage, name: ShortName::NONE }
    }

    /// Tries those of a pool's memory types that the request allows, in the pool's order, each by its block set, until an
    /// attempt succeeds or fails for a reason that no other memory type changes; and then once more, where a last resort
    /// may serve it. The error is that of the first type, with the name of the request.
    fn by_pool_types<T>(
        &self,
        pool: &Pool,
        request: &AllocationRequest<'_>,
        attempt: impl Fn(usize, MemoryTypeIndex, &AllocationRequest<'_>) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        check_size(request).map_err(|error| error.of(request.options.short_name()))?;
        if pool.allocator() != self.id() {
            return Err(AllocationError::WrongPool { name: request.options.short_name() });
        }
        let (allowed, required) = (request.requirements.memory_types, request.options.required);
        let is_allowed = |&(_, memory_type): &(usize, MemoryTypeIndex)| allowed.contains(memory_type);
        let suits = |&(_, memory_type): &(usize, MemoryTypeIndex)| {
            let found = self.device().properties().memory_type(memory_type);
            found.is_some_and(|found| found.properties.contains(required))
        };
        let types = || pool.memory_types().enumerate().filter(is_allowed);
        let count = if request.best_type_only { 1 } else { usize::MAX };
        let tried = self.by_types(
            request,
            false,
            || types().filter(&suits).take(count),
            |(position, memory_type), request| {
                attempt(pool.set_of(position, request.moves.mover.is_some()), memory_type, request)
            },
        );
        let name = ShortName::NONE;
        tried.map_err(|refused| {
            let reason = match refused {
                Some(error) => error,
                // Tells a pool of the wrong types from one whose types lack the required properties: the remedies
                // differ.
                None if types().next().is_some() => {
                    AllocationError::NoTypeWithProperties { allowed, required, name }
                }
                None => AllocationError::NotInPool { allowed, name },
            };
            reason.of(request.options.short_name())
        })
    }

    /// Checks the size of a request and ranks the memory types that suit it.
    pub(in crate::memory) fn ranking(
        &self,
        request: &AllocationRequest<'_>,
    ) -> Result<Cow<'_, Ranking>, AllocationError> {
        check_size(request)?;
        let wishes = request.options.required | request.options.preferred | request.options.avoided;
        // Nearly all requests: no ranking is computed, and none is copied.
        if wishes.is_empty() {
            return Ok(Cow::Borrowed(&self.rankings[request.options.usage as usize]));
        }
        Ok(Cow::Owned(Ranking::new(self.device().properties(), request, self.desc().memory_types)))
    }

    /// Explains, for each memory type, why a request would or would not use it: first the candidates in the order in
    /// which they are tried, then the others with the reason. In a custom pool the position of a type in the pool is
    /// its cost.
    ///
    /// ```
    /// use allotment::device::simulated::{SimulatedGpu, Profile};
    /// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
    ///
    /// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let candidates = allocator.explain(&Requirements::new(256), &MemoryUsage::Readback.into());
    /// let reasons: Vec<String> = candidates.iter().map(|c| c.to_string()).collect();
    /// assert_eq!(
    ///     reasons[0],
    ///     "type 2 (host-visible, host-coherent, host-cached; heap 1): suitable"
    /// );
    /// assert_eq!(reasons[3], "type 0 (device-local; heap 0): lacks required host-visible");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaFindMemoryTypeIndex", "find_memory_type_index"))]
    #[must_use]
    pub fn explain(
        &self,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Vec<MemoryTypeCandidate> {
        let request = &AllocationRequest::new(requirements, options);
        let mut choices: Vec<_> =
            judge(self.device().properties(), request, self.desc().memory_types).collect();
        if let Some(pool) = options.pool.as_ref().filter(|pool| pool.allocator() == self.id()) {
            // Only for a pool of this allocator: the index of another allocator's pool would name a wrong pool here.
            // The request itself is refused then.
            choices.iter_mut().for_each(|choice| choice.judge_in_pool(pool, request));
        }
        // A stable sort, since types of equal cost are tried in the device's order.
        choices.sort_by_key(|choice| match choice.suitability {
            crate::memory::Suitability::Suitable { cost, .. } => cost,
            _ => u32::MAX,
        });
        choices
    }

    /// Allocates from one memory type of a shard that was asked [once](Asked::First): steps 3 to 8. `sizes` says which sizes
    /// of a new block the driver is asked for.
    ///
    /// Each time that the shard is asked again, the request begins at step 3: other threads may have freed memory, added a
    /// block or destroyed the pool.
    pub(super) fn allocate_from_shard<'a>(
        &'a self,
        (pool, slot): (u32, &'a PoolSlot<D>),
        mut answer: Answer<'a, D>,
        (set, sizes): (usize, PlanSizes),
        request: &AllocationRequest<'_>,
    ) -> Result<Allocation, AllocationError> {
        loop {
            match answer {
                Answer::Placed(placed) => return Ok(self.accept(pool, placed)),
                // Once: the smaller sizes come after the wanted one.
                Answer::Reclaim => _ = self.reclaim_finished(),
                Answer::Full(memory) => self.waiting(|| self.heaps().free(self.device(), memory)),
                Answer::Wait(awaited) => {
                    self.waiting(|| slot.wait_for_block(awaited));
                    // For milliseconds, in which threads may have freed much.
                    self.take_left_frees_in(slot);
                }
                Answer::NeedsBlock(needed) => {
                    // A driver call takes up to milliseconds; meanwhile other threads allocate from the blocks that there are.
                    let NeededBlock { pending, plan, rounded, source, now } = needed;
                    let memory =
                        self.allocate_block_replacing_stale(slot, now, &plan, (sizes, &rounded), &source);
                    return self.insert_block(pending, pool, memory, &rounded, request);
                }
            }
            answer = self.pools.ask(LockedShard::lock((pool, slot)), (set, sizes), request, Asked::Again)?;
        }
    }

    /// Says that a request was refused, in the log and in the events. Returns the error.
    fn refused(&self, error: AllocationError, request: &AllocationRequest<'_>) -> AllocationError {
        // What is asked for ahead of demand is nobody's request.
        if !request.ahead {
            event!(DEBUG, "memory", bytes = request.requirements.size, %error, "refused a request");
            self.emit_refused(&error, request);
        }
        error
    }

    /// Creates the token of an allocation that was placed quickly.
    #[inline]
    fn allocation(&self, place: QuickPlace) -> Allocation {
        self.pools.token_of(place.pool(), place.in_use())
    }
}

/// Returns the options with which memory types are tried while a later one is of another heap, where they differ.
///
/// Device memory that the CPU can map is scarce on many machines, and all programs share it. So an allocation that can
/// also be staged, or be read over the bus, does not push the memory of other programs out, as long as another heap
/// serves it.
fn within_budget_where_another_heap_suits(options: &AllocationOptions) -> Option<AllocationOptions> {
    let limited = options.usage.has_other_heaps() && options.budget == BudgetPolicy::AllowOverBudget;
    limited.then(|| options.clone().with_budget(BudgetPolicy::WithinBudget))
}

/// Checks the size of a request. After this check, no sum of sizes and offsets can overflow.
fn check_size(request: &AllocationRequest<'_>) -> Result<(), AllocationError> {
    match request.requirements.size {
        0 => Err(AllocationError::ZeroSize { name: ShortName::NONE }),
        size if size > MAX_SIZE => {
            Err(AllocationError::TooLarge { size, limit: MAX_SIZE, name: ShortName::NONE })
        }
        _ => Ok(()),
    }
}
