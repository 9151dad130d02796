//! Requests that are served by moving what is in their way.

use core::fmt;

use super::allocator_ref::AllocatorRef;
use super::cancel_forgotten;
use super::desc::Spent;
use super::room::{Asked, NoRoom, RoomError, RoomRun};
use super::run::{Found, Run};
use super::survey::Scope;
use super::{DefragmentationDesc, DefragmentationStatistics, Move, NextPass, Pass};
use crate::device::{Device, Requirements};
use crate::memory::AllocationOptions;
use crate::memory::allocator::Allocator;
use crate::memory::mover::Mover;
use crate::memory::request::{AllocationRequest, PoolShards};
use crate::memory::token::Allocation;

/// A defragmentation for one request: makes room for it by moving other allocations. Dropping it ends it: what was moved
/// stays in its new place, and the room is free again.
///
/// [`new`](Self::new) allocates the memory where the request fits as it is. Each pass is executed as that of a
/// [`Defragmentation`](super::Defragmentation); after the last one, [`finish`](Self::finish) returns the allocation.
/// [`run`](Self::run) does all of it in one call.
///
/// Only allocations that were requested as [movable](AllocationOptions::with_movability) are moved, each within its
/// pool and memory type, and none that belong to a [`Defragmenter`](crate::memory::Defragmenter). In a full heap they may be
/// those of [other pools](#how-it-works) than the request's: who executes a pass [ignores](Pass::ignore) a move that it
/// cannot execute, and the room is planned without it. The strategy
/// [`WithinBytes`](super::DefragmentationStrategy::WithinBytes) limits the bytes that are copied in all; the others
/// set no limit.
///
/// # A free range for later
///
/// A level that is about to be loaded wants a large free range. Ask for it without a new block, and free it: nothing
/// reserves it then, and where it is a whole block, the pool's [policy for empty
/// blocks](crate::memory::blocks::EmptyBlockPolicy) says whether that stays.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// # let best = allocator.explain(&Requirements::new(1024), &MemoryUsage::GpuOnly.into())[0].memory_type;
/// use allotment::memory::{Movability, NewBlocks};
/// use allotment::memory::blocks::BlockSize;
/// use allotment::memory::defragmentation::{DefragmentationDesc, RequestDefragmentation};
///
/// let mut desc = PoolDesc::new([best]);
/// desc.sizing = Some(BlockSize::Fixed(1 << 20));
/// let pool = allocator.create_pool(desc)?;
/// let options = MemoryUsage::GpuOnly.with_pool(&pool).with_movability(Movability::Recreated);
/// let mut tiles = allocator.allocate_many(&Requirements::new(64 << 10), &options, 16)?;
/// for at in 0..8 {
///     allocator.free(tiles.remove(at))?;
/// }
/// let large = Requirements::new(512 << 10);
/// let no_block = MemoryUsage::GpuOnly.with_pool(&pool).with_new_blocks(NewBlocks::NeverAllocate);
/// let room = RequestDefragmentation::new(&allocator, &large, &no_block, DefragmentationDesc::default())?;
/// // The tiles are made again, so nothing is copied.
/// allocator.free(room.run(|pass| _ = pass.end())?)?;
/// # drop(allocator.free_many(tiles));
/// # drop((options, no_block));
/// # allocator.destroy_pool(pool)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # How it works
///
/// The allocator looks for the place where the fewest bytes have to be copied: a part of a block whose allocations fit
/// into holes elsewhere, or allocations between holes that move together so that the holes become one. If neither is
/// enough, it places all movable allocations anew; and if no block could have the room, it empties blocks, dedicated ones
/// included, and frees them for a new block, within the same limits: first blocks of the request's own pool, and where these
/// are too few, blocks of all pools over the same heap, those that cost the fewest bytes for each that they give back. That
/// includes the default pools of other memory types of the heap, lifetimes and kinds of resources, and custom pools; it leaves
/// out linear ones and those in which another run of passes is open. A pool keeps its minimum of blocks, and nothing moves
/// where all of it would not be enough. An allocation whose new place overlaps its old one is moved twice;
/// where no hole holds it meanwhile, the allocator allocates a block of about its size, within the budget and for this
/// time only, also where the pool has `max_blocks` already. If another thread takes a place of the plan meanwhile, what is
/// in that block stays there, and the block is one of the pool's until it is empty.
///
/// # Cost
///
/// Planning n allocations takes n log n steps, some 0.5 µs for each, spread over as many passes as the time
/// limit needs; the other steps are those of a defragmentation. Where the request's own pools have no room, the allocations of
/// all pools over the heap are planned as well, also before a refusal. The blocks that take part are closed meanwhile: other
/// requests are placed there only if they find no room elsewhere, and then the room is planned anew, up to eight times.
#[must_use = "no room is made unless `next_pass` is called"]
pub struct RequestDefragmentation<'a, D: Device> {
    allocator: AllocatorRef<'a, D>,
    /// `None` where the request was served as it is.
    run: Option<Run>,
    served: Option<Allocation>,
    moves: Vec<Move<D>>,
}

impl<D: Device> Allocator<D> {
    /// Begins to make room for a request that was refused.
    pub(in crate::memory) fn begin_room(
        &self,
        request: &AllocationRequest<'_>,
        desc: DefragmentationDesc,
        defragmenter: Option<Mover>,
    ) -> Result<Run, RoomError> {
        let pool = request.options.pool.as_ref();
        let scope = pool.map_or(Scope::DefaultPools, |pool| Scope::Pool(pool.shards()));
        let run = self.begin_run(desc, scope, defragmenter);
        let run = run.map_err(|reason| Asked::of(request).not_begun(reason))?;
        let room = RoomRun::new(self, request, desc, (scope, run.mover()));
        Ok(run.for_room(room))
    }

    /// Returns the pools that may serve a request, those of the memory type that suits best first: their shards, and the
    /// set.
    pub(super) fn pools_for(&self, request: &AllocationRequest<'_>) -> Vec<(PoolShards, u8)> {
        let (allowed, required) = (request.requirements.memory_types, request.options.required);
        match &request.options.pool {
            Some(pool) if pool.allocator() != self.id() => Vec::new(),
            Some(pool) => {
                let has = |memory_type| {
                    let found = self.device().properties().memory_type(memory_type);
                    found.is_some_and(|found| found.properties.contains(required))
                };
                let types = pool.memory_types().enumerate();
                let suits =
                    types.filter(|&(_, memory_type)| allowed.contains(memory_type) && has(memory_type));
                let sets = suits.flat_map(|(position, _)| {
                    let own = pool.set_of(position, request.moves.mover.is_some());
                    // Where they have blocks of their own, a request shares those of the others at the last.
                    core::iter::once(own).chain(pool.other_set(own))
                });
                sets.map(|set| (pool.shards(), set as u8)).collect()
            }
            None => {
                let Ok(ranking) = self.ranking(request) else { return Vec::new() };
                let pools = ranking.types(allowed).flat_map(|memory_type| {
                    let own = self.pools.default_pool_for(memory_type, request);
                    let others = self.pools.default_pools_of_others(memory_type, request);
                    core::iter::once(own).chain(others).map(|pool| (pool, 0))
                });
                pools.collect()
            }
        }
    }
}

impl<'a, D: Device> RequestDefragmentation<'a, D> {
    /// Allocates memory for a request if it fits, or else begins to make room for it.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::defragmentation::{DefragmentationDesc, NextPass, RequestDefragmentation};
    ///
    /// let (level, desc) = (Requirements::new(1 << 20), DefragmentationDesc::default());
    /// let options = MemoryUsage::GpuOnly.with_name("level");
    /// let mut room = RequestDefragmentation::new(&allocator, &level, &options, desc)?;
    /// loop {
    ///     match room.next_pass() {
    ///         NextPass::Moves(pass) => _ = pass.end(), // once each resource has been copied
    ///         NextPass::LimitReached => {}         // goes on in the next frame
    ///         NextPass::Done => break,
    ///     }
    /// }
    /// let level = room.finish()?;
    /// # allocator.free(level)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RoomError::Refused`] when no move would help, since the request itself is wrong, for example;
    /// [`RoomError::NotBegun`].
    pub fn new(
        allocator: impl Into<AllocatorRef<'a, D>>,
        requirements: &Requirements,
        options: &AllocationOptions,
        desc: DefragmentationDesc,
    ) -> Result<Self, RoomError> {
        Self::begin(allocator.into(), (requirements, options), desc)
    }

    /// Begins one. Apart from `new`, so that it is [compiled once](crate::compiled).
    #[inline(never)]
    pub(crate) fn begin(
        allocator: AllocatorRef<'a, D>,
        (requirements, options): (&Requirements, &AllocationOptions),
        desc: DefragmentationDesc,
    ) -> Result<Self, RoomError> {
        let request = &AllocationRequest::new(requirements, options);
        let (run, served) = match allocator.allocate_for_request(request) {
            Ok(served) => (None, Some(served)),
            Err(refused) if refused.falls_through() => {
                (Some(allocator.begin_room(request, desc, None)?), None)
            }
            Err(refused) => return Err(RoomError::Refused(refused)),
        };
        Ok(Self { allocator, run, served, moves: Vec::new() })
    }

    /// Makes the room at once and returns the allocation. `execute` gets each pass: it copies the bytes of its moves and
    /// [ends](Pass::end) it. Old places that it [passes on](Pass::end_with) must be free when it returns, or the request is
    /// refused ([`RoomError::InUse`]): where the GPU still reads them, wait for it there, or call
    /// [`next_pass`](Self::next_pass) frame by frame.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # let upload = allocator.explain(&Requirements::new(1024), &MemoryUsage::Upload.into())[0].memory_type;
    /// use allotment::memory::Movability;
    /// use allotment::memory::blocks::BlockSize;
    /// use allotment::memory::defragmentation::{
    ///     DefragmentationDesc, Pass, PassLimits, RequestDefragmentation,
    /// };
    ///
    /// // A pool of one block of 1 MiB, of which every other 64 KiB are free.
    /// let mut desc = PoolDesc::new([upload]);
    /// (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(1 << 20)), 1);
    /// let pool = allocator.create_pool(desc)?;
    /// let options = MemoryUsage::Upload.with_name("tile").with_pool(&pool).with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(64 << 10), &options, 16)?;
    /// for at in 0..8 {
    ///     allocator.free(tiles.remove(at))?;
    /// }
    ///
    /// let large = Requirements::new(128 << 10);
    /// assert!(allocator.allocate(&large, &options).is_err());
    /// let copy = |pass: Pass<'_, _>| {
    ///     for one in pass.moves() {
    ///         let (from, to) = (one.from().mapped_ptr.unwrap(), one.to().mapped_ptr.unwrap());
    ///         // SAFETY: both places are mapped, and nothing else uses them.
    ///         unsafe { to.copy_from_nonoverlapping(from, one.size() as usize) };
    ///     }
    ///     pass.end();
    /// };
    /// let desc = DefragmentationDesc::default().with_limits(PassLimits::NONE);
    /// tiles.push(RequestDefragmentation::new(&allocator, &large, &options, desc)?.run(copy)?);
    /// # drop(allocator.free_many(tiles));
    /// # drop(options);
    /// # allocator.destroy_pool(pool)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RoomError`]. What was moved until then stays in its new place.
    #[track_caller]
    pub fn run(mut self, mut execute: impl FnMut(Pass<'_, D>)) -> Result<Allocation, RoomError> {
        loop {
            match self.next_pass() {
                NextPass::Moves(pass) => {
                    execute(pass);
                    continue;
                }
                NextPass::Done => break,
                NextPass::LimitReached => {}
            }
            if let Some(asked) = self.waits_for_old_places() {
                // Only `execute` could free what it passed on, and it has returned.
                return Err(asked.in_use());
            }
            // Nothing else to do meanwhile: the next call goes on where the time was up.
            std::thread::yield_now();
        }
        // The run allocates in whichever call finds the room; the program made the request here.
        let allocation = self.take()?;
        self.allocator.note_call_site(allocation.id());
        Ok(allocation)
    }

    /// Finds the next allocations to be moved, as
    /// [`Defragmentation::next_pass`](super::Defragmentation::next_pass) does.
    /// [`LimitReached`](NextPass::LimitReached) also while old places that
    /// [`Pass::end_with`] passed on are still in use: free them, and call this again.
    pub fn next_pass(&mut self) -> NextPass<'_, D> {
        let Some(run) = &mut self.run else { return NextPass::Done };
        cancel_forgotten(&self.allocator, run, &mut self.moves);
        // Those of the pass before.
        self.moves.clear();
        match run.find(&self.allocator, &mut self.moves, &mut Spent::default()) {
            Found::Moves => {
                run.statistics.passes += 1;
                NextPass::Moves(Pass::new(&self.allocator, run, &mut self.moves))
            }
            Found::LimitReached => NextPass::LimitReached,
            Found::Done => NextPass::Done,
        }
    }

    /// Returns what was asked for, where nothing moves until old places are freed that [`Pass::end_with`] passed on.
    fn waits_for_old_places(&self) -> Option<Asked> {
        let room = self.run.as_ref().and_then(Run::making_room)?;
        room.waits_for_old_places().then(|| room.asked())
    }

    /// Returns the sums so far.
    #[must_use]
    pub fn statistics(&self) -> DefragmentationStatistics {
        self.run.as_ref().map(|run| run.statistics).unwrap_or_default()
    }

    /// Returns the allocation, after [`next_pass`](Self::next_pass) has returned [`Done`](NextPass::Done).
    ///
    /// # Errors
    ///
    /// [`RoomError`]; [`RoomError::Unfinished`] before that.
    pub fn finish(mut self) -> Result<Allocation, RoomError> {
        self.take()
    }

    fn take(&mut self) -> Result<Allocation, RoomError> {
        if let Some(served) = self.served.take() {
            return Ok(served);
        }
        self.run.as_mut().map_or(Err(RoomError::Unfinished), Run::take_room)
    }
}

impl Run {
    /// Takes the room that was made, or the reason why there is none.
    pub(crate) fn take_room(&mut self) -> Result<Allocation, RoomError> {
        let Some(room) = self.room() else { return Err(RoomError::Unfinished) };
        let asked = room.asked();
        room.take_result().unwrap_or(Err(NoRoom::Unfinished)).map_err(|reason| asked.error(reason))
    }
}

impl<D: Device> Drop for RequestDefragmentation<'_, D> {
    fn drop(&mut self) {
        if let Some(run) = &mut self.run {
            // A pass that was forgotten rather than dropped.
            cancel_forgotten(&self.allocator, run, &mut self.moves);
            self.allocator.end_run(run);
        }
        self.served.take().into_iter().for_each(|served| self.allocator.free_own(served));
    }
}

impl<D: Device> fmt::Debug for RequestDefragmentation<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestDefragmentation")
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
