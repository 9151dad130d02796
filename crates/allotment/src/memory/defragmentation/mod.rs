//! Defragmentation: moves allocations so that whole blocks become empty and are freed to the driver.
//!
//! ```text
//!   before   [▓▓░▓▓▓░▓] [▓░░▓▓░▓▓] [░░▓░░░▓░] [░▓░░░░░░]
//!   after    [▓▓▓▓▓▓▓▓] [▓▓▓▓▓░▓▓]                           three allocations moved, two blocks freed
//! ```
//!
//! # How it works
//!
//! The idea, its sources, its figures and what was tried: `docs/design/moves.md`.
//!
//! `survey` reads the layout of the pools. `selection` picks the blocks that are worth emptying. `plan` finds a place
//! for each allocation in them, in the free ranges of the other blocks (`holes`). `run` executes the plan, one
//! `evacuation` of a block after the other: it reserves the places and hands out the moves. `pass` ends them. The pools
//! only reserve places and exchange them (`pool/reserve.rs`, `pool/moves.rs`).
//!
//! Each mover has blocks of its own (`memory/mover.rs`): the passes of the program, each `Defragmenter`, and the owners of
//! its mapped buffers, to whom places are offered (`offers`).
//!
//! A worked example, with sizes, is at the top of `run.rs`.
//!
//! The shards of a pool, one for each thread, are surveyed together. Those that are idle, or all where the caller says so
//! ([`JoinThreads`]), are one arena: an allocation may be moved into a block of another shard (`pool/shards.rs`).
//!
//! The protocol is that of D3D12MA and VMA. These plan move by move; when a block does not become empty in the end, the
//! bytes copied out of it were copied for nothing. Here whole blocks are planned, as in DXVK 2.5: no byte is copied for
//! a block that stays, and none twice.

mod allocator_ref;
mod desc;
mod ended_pass;
mod error;
mod evacuation;
mod for_request;
mod holes;
mod layout_plan;
mod offered_moves;
mod pace;
mod packing;
mod pass;
mod plan;
mod room;
mod run;
mod second_look;
mod selection;
mod stopwatch;
mod survey;

use core::fmt;
use core::sync::atomic::Ordering;

// For programs: a run, its passes, and what came of them.
pub use self::allocator_ref::AllocatorRef;
pub use self::desc::{DefragmentationDesc, DefragmentationStrategy, JoinThreads, PassLimits};
pub use self::ended_pass::EndedPass;
pub use self::error::{DefragmentationError, NotThisMove};
pub use self::for_request::RequestDefragmentation;
pub use self::pass::{Move, NextPass, Pass};
pub use self::plan::{DefragmentationPlan, PlannedBlock};
pub use self::room::RoomError;
pub use super::block_set::EmptiedBlocks;
pub use super::resource::{
    AcceptedMove, DefragmentationStep, Defragmenter, DefragmenterDesc, MakingRoom, StepOutcome,
};

/// Plans for blocks that no allocator has, such as those of a recording.
pub mod layout {
    pub use super::layout_plan::{BlockLayout, LayoutAllocation, LayoutArena, LayoutBlock, LayoutMove};
}

// Offers of moves, which an owner accepts at a time of its own.
pub(super) use self::offered_moves::{Offer, OfferEnded};

// A run that moves resources for a defragmenter, and the room that it makes for one request.
pub(super) use self::desc::Spent;
pub(super) use self::pass::Released;
pub(super) use self::room::Asked;
pub(super) use self::run::{Found, Run};
pub(super) use self::survey::Scope;

use self::pass::CallMoved;
use self::room::RoomRun;
use super::allocator::Allocator;
use super::mover::MoverId;
use super::pool::{Pool, PoolSlot};
use crate::device::Device;
use crate::memory::mover::Mover;
use allotment_suballoc::Algorithm;

/// The callback of a defragmentation, for each allocation that moved.
type OnMoved<'a, D> = Box<CallMoved<'a, D>>;

/// Sums of a defragmentation.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, DefragmentationStatistics};
///
/// let mut sums = DefragmentationStatistics::default(); // of all runs of a session
/// let run = Defragmentation::new(&allocator, None, DefragmentationDesc::default())?;
/// sums = sums + run.statistics();
/// println!("{} blocks emptied for {} bytes copied", sums.blocks_emptied, sums.bytes_moved);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaDefragmentationStats", "DEFRAGMENTATION_STATS"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefragmentationStatistics {
    /// Passes that had moves.
    pub passes: u32,
    /// Allocations that were moved.
    pub moves: u32,
    /// Bytes that were copied for these moves, counted by the requested sizes.
    pub bytes_moved: u64,
    /// Moves that were ignored or cancelled.
    pub ignored: u32,
    /// Allocations that their owners freed while they were being moved.
    pub freed: u32,
    /// Memory objects from which all allocations were moved. Each is freed or kept, as
    /// [`EmptiedBlocks`] says, once the last old place in it is free.
    pub blocks_emptied: u32,
    /// Bytes of these memory objects.
    pub bytes_emptied: u64,
    /// Blocks that the plan would have emptied, but that were kept because the pool changed meanwhile, or an owner did not
    /// accept a move.
    pub blocks_kept: u32,
    /// Blocks that were [left to other movers](DefragmentationPlan::left_to_others), for each run as of its last survey.
    pub blocks_left_to_others: u32,
}

impl core::ops::Add for DefragmentationStatistics {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passes: self.passes.saturating_add(other.passes),
            moves: self.moves.saturating_add(other.moves),
            bytes_moved: self.bytes_moved.saturating_add(other.bytes_moved),
            ignored: self.ignored.saturating_add(other.ignored),
            freed: self.freed.saturating_add(other.freed),
            blocks_emptied: self.blocks_emptied.saturating_add(other.blocks_emptied),
            bytes_emptied: self.bytes_emptied.saturating_add(other.bytes_emptied),
            blocks_kept: self.blocks_kept.saturating_add(other.blocks_kept),
            blocks_left_to_others: self.blocks_left_to_others.saturating_add(other.blocks_left_to_others),
        }
    }
}

impl core::ops::Sub for DefragmentationStatistics {
    type Output = Self;

    /// Returns the difference since `earlier`; a sum that is smaller than in `earlier` gives 0.
    fn sub(self, earlier: Self) -> Self {
        Self {
            passes: self.passes.saturating_sub(earlier.passes),
            moves: self.moves.saturating_sub(earlier.moves),
            bytes_moved: self.bytes_moved.saturating_sub(earlier.bytes_moved),
            ignored: self.ignored.saturating_sub(earlier.ignored),
            freed: self.freed.saturating_sub(earlier.freed),
            blocks_emptied: self.blocks_emptied.saturating_sub(earlier.blocks_emptied),
            bytes_emptied: self.bytes_emptied.saturating_sub(earlier.bytes_emptied),
            blocks_kept: self.blocks_kept.saturating_sub(earlier.blocks_kept),
            blocks_left_to_others: self.blocks_left_to_others.saturating_sub(earlier.blocks_left_to_others),
        }
    }
}

/// A defragmentation, from the survey to the last pass. Dropping it ends it: allocations that were moved stay in their
/// new places, all others in their old ones.
///
/// # The protocol
///
/// 1. [`Defragmentation::new`] begins one of all default pools, or of a custom pool. [`plan`](Defragmentation::plan)
///    returns the expected gain before anything is moved.
/// 2. [`next_pass`](Defragmentation::next_pass) returns some allocations, each with a place reserved for it.
///    [`PassLimits`] bounds their number, their bytes, and the time to find them.
/// 3. The owner of each resource recreates it in the new place and copies its bytes, or [ignores](Pass::ignore) the
///    move, or frees the allocation.
/// 4. [`end`](Pass::end): each [`Allocation`](super::Allocation) is in its new place from then on, and the old places are free; or
///    [`end_with`](Pass::end_with), which waits for no copy. The [`EndedPass`] lists what moved.
/// 5. A pass moves memory, not buffers and images. [`set_handle`](Allocator::set_handle) gives each
///    [`RawBuffer`](super::RawBuffer) and
///    [`RawImage`](super::RawImage) of the list the handle that was created in step 3. Until then safe calls on it are
///    refused with [`AccessError::Moved`](super::AccessError::Moved).
///
/// Passes move what [`allocate`](Allocator::allocate), [`create_buffer`](Allocator::create_buffer) and
/// [`create_image`](Allocator::create_image) made. What a [`Gpu`](crate::Gpu) or an
/// [`OwningAllocator`](super::OwningAllocator) made is pinned, or moved by steps.
///
/// A defragmentation borrows its allocator, or [shares](AllocatorRef) it: a struct can keep both, from frame to frame. End
/// each pass in the frame that got it.
///
/// A defragmentation that is forgotten (`mem::forget`) never ends, and no other with passes can begin in its pools.
///
/// Repeat steps 2 to 5 until there is nothing more to gain. Only allocations that were requested as
/// [movable](super::AllocationOptions::with_movability) are moved, within their pool and memory type. A pass that is
/// dropped is cancelled; each allocation is always in one place or in the other. [`Defragmenter`]
/// does all of this for buffers and images, with copies by a queue.
///
/// # Beside `Defragmenter`s
///
/// A defragmentation and any number of [`Defragmenter`]s work at the same time, in any order, on one
/// thread or on several. Each moves its own allocations only, and needs nothing of the others: in the default pools,
/// movable allocations, the resources of each of the first three `Defragmenter`s and their mapped buffers have blocks of
/// their own, as pinned allocations have. This costs a partly filled block for each of them that is used.
///
/// A block with allocations of several stays where it is, and no byte of it is copied. There are such blocks in custom pools,
/// where a fourth `Defragmenter` shares the blocks of the first, and where a request could get no block of its own. Of these
/// a run keeps those of its plan from the others until it ends: drop it, or [stop](super::Defragmenter::stop) it, before a
/// time without passes or steps. [`left_to_others`](DefragmentationPlan::left_to_others) counts the blocks that are another
/// mover's, whole or in part.
///
/// # Cost
///
/// Surveying and planning n allocations takes some 0.5 µs for each, spread over as many passes as the time limit needs;
/// reserving a place takes 0.3 µs, ending a move 0.2 µs. The allocator's locks are held for one batch at a time, some
/// tens of microseconds. A thread that reads or writes a movable allocation by its handle delays the pool's moves as
/// long. Host memory: 170 bytes an allocation while it is planned, and 100 for each that is to be moved.
///
/// # Example
///
/// ```
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::memory::Movability;
/// use allotment::memory::blocks::BlockSizes;
/// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, DefragmentationStrategy, NextPass};
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes = BlockSizes::fixed(1 << 20);
/// let allocator = Allocator::new(device, desc)?;
///
/// // Twelve meshes in three blocks; then all but one of each block are freed.
/// let mesh = Requirements::new(256 << 10);
/// let options = MemoryUsage::Upload.with_name("mesh").with_movability(Movability::Copied);
/// let mut meshes = Vec::new();
/// for _ in 0..12 {
///     meshes.push(allocator.allocate(&mesh, &options)?);
/// }
/// let mut kept = Vec::new();
/// for (i, mesh) in meshes.into_iter().enumerate() {
///     if i % 4 == 0 { kept.push(mesh) } else { allocator.free(mesh)? }
/// }
/// allocator.write(&kept[2], 0, b"mesh 8")?;
///
/// let strategy = DefragmentationStrategy::Full;
/// let mut defragmentation = Defragmentation::new(&allocator, None, DefragmentationDesc::new(strategy))?;
/// assert_eq!((defragmentation.plan().blocks, defragmentation.plan().blocks_freed()), (3, 2));
/// loop {
///     match defragmentation.next_pass() {
///         NextPass::Moves(pass) => {
///             for moved in pass.moves() {
///                 let (from, to) = (moved.from().mapped_ptr.unwrap(), moved.to().mapped_ptr.unwrap());
///                 // SAFETY: both places are mapped, and nothing else uses them.
///                 unsafe { to.copy_from_nonoverlapping(from, moved.size() as usize) };
///             }
///             pass.end();
///         }
///         NextPass::LimitReached => {}
///         NextPass::Done => break,
///     }
/// }
/// assert_eq!(defragmentation.statistics().bytes_moved, 2 * (256 << 10));
/// drop(defragmentation);
///
/// assert_eq!(allocator.statistics().blocks, 1);
/// let mut bytes = [0; 6];
/// allocator.read(&kept[2], 0, &mut bytes)?;
/// assert_eq!(&bytes, b"mesh 8");
/// # for mesh in kept { allocator.free(mesh)?; }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaDefragmentationContext", "DefragmentationContext", "vmaEndDefragmentation"))]
#[must_use = "a defragmentation moves nothing unless `next_pass` is called"]
pub struct Defragmentation<'a, D: Device> {
    allocator: AllocatorRef<'a, D>,
    /// A clone of the custom pool, which cannot be destroyed before it is dropped.
    _pool: Option<Pool>,
    run: Run,
    /// The moves of the open pass; or else of the pass before, which have ended.
    moves: Vec<Move<D>>,
    on_moved: Option<OnMoved<'a, D>>,
}

impl<D: Device> Allocator<D> {
    /// Begins a run of a `Defragmenter`, or one with passes.
    pub(super) fn begin_run(
        &self,
        desc: DefragmentationDesc,
        scope: Scope,
        defragmenter: Option<Mover>,
    ) -> Result<Run, DefragmentationError> {
        self.take_left_frees();
        let linear = match scope {
            Scope::DefaultPools => self.desc().algorithm == Algorithm::Linear,
            Scope::Pool(shards) => {
                let algorithm = self.pools.get(shards.first).and_then(PoolSlot::algorithm);
                algorithm.ok_or(DefragmentationError::WrongPool)? == Algorithm::Linear
            }
        };
        // A linear block takes new ranges at its ends only, so the holes that a plan counts on could not be filled.
        if linear {
            return Err(DefragmentationError::LinearPool);
        }
        if let Some(mover) = defragmenter {
            return Ok(Run::new(self, desc, scope, mover));
        }
        let mover = self.movers.with_key(MoverId::PASSES);
        if !self.begin_passes(scope, mover) {
            return Err(DefragmentationError::AlreadyRunning);
        }
        Ok(Run::new(self, desc, scope, mover))
    }

    /// Notes that a run with passes may move the allocations of some pools. Returns false where another one is open: either
    /// would move any allocation of the other.
    pub(super) fn begin_passes(&self, scope: Scope, mover: Mover) -> bool {
        match scope {
            Scope::DefaultPools => !self.defragmented.swap(true, Ordering::Acquire),
            // One mark for all shards, in the first.
            Scope::Pool(shards) => {
                self.pools.get(shards.first).is_some_and(|slot| slot.begin_passes(mover.key))
            }
        }
    }

    fn end_passes(&self, scope: Scope, mover: Mover) {
        match scope {
            // Pairs with the exchange in `begin_passes`: the next run sees all that this one has freed.
            Scope::DefaultPools => self.defragmented.store(false, Ordering::Release),
            Scope::Pool(shards) => {
                self.pools.get(shards.first).into_iter().for_each(|slot| slot.end_passes(mover.key));
            }
        }
    }

    pub(super) fn end_run(&self, run: &mut Run) {
        // Before the marks are cleared: the next run must find no reserved places of this one.
        run.cancel(self);
        let mover = run.mover;
        if mover.id.is_defragmenter() {
            return;
        }
        self.end_passes(run.scope(), mover);
        // Where room was made over a whole heap, it has marked other pools too.
        let others = run.room().into_iter().flat_map(RoomRun::take_other_scopes);
        others.for_each(|scope| self.end_passes(scope, mover));
    }
}

impl<'a, D: Device> Defragmentation<'a, D> {
    /// Begins to defragment a custom pool, or with `None` all default pools, each memory type by itself. A custom pool
    /// cannot be destroyed until the defragmentation is dropped.
    ///
    /// The passes do not move resources of a [`Defragmenter`]: only it can create them again, and it
    /// moves them [by itself](Defragmentation#beside-defragmenters).
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// use allotment::memory::Movability;
    /// use allotment::memory::defragmentation::{
    ///     Defragmentation, DefragmentationDesc, NextPass, PassLimits,
    /// };
    ///
    /// // A cache, whose owner writes it again: its bytes need no copy.
    /// let options = MemoryUsage::GpuOnly.with_name("glyphs").with_movability(Movability::Recreated);
    /// let mut pages = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(pages.remove(0))?;
    ///
    /// let desc = DefragmentationDesc::default().with_limits(PassLimits::NONE);
    /// let mut run = Defragmentation::new(&allocator, None, desc)?;
    /// while let NextPass::Moves(pass) = run.next_pass() {
    ///     pass.end(); // and draw the glyphs again
    /// }
    /// drop(run);
    /// assert_eq!(allocator.statistics().blocks, 1);
    /// # drop(allocator.free_many(pages));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A struct that keeps its allocator in an `Arc`, and the defragmentation beside it, lends the `Arc`:
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use std::sync::Arc;
    ///
    /// use allotment::memory::defragmentation::{
    ///     Defragmentation, DefragmentationDesc, DefragmentationError, NextPass,
    /// };
    ///
    /// struct Renderer<D: Device> {
    ///     allocator: Arc<Allocator<D>>,
    ///     defragmentation: Option<Defragmentation<'static, D>>,
    /// }
    ///
    /// impl<D: Device> Renderer<D> {
    ///     fn frame(&mut self) -> Result<(), DefragmentationError> {
    ///         let desc = DefragmentationDesc::default();
    ///         let run = match &mut self.defragmentation {
    ///             Some(run) => run,
    ///             none => none.insert(Defragmentation::new(&self.allocator, None, desc)?),
    ///         };
    ///         let done = match run.next_pass() {
    ///             NextPass::Moves(pass) => {
    ///                 pass.end(); // once each resource has been copied
    ///                 false
    ///             }
    ///             other => matches!(other, NextPass::Done),
    ///         };
    ///         if done {
    ///             self.defragmentation = None; // the next frame looks again
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default())?);
    /// let mut renderer = Renderer { allocator, defragmentation: None };
    /// renderer.frame()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DefragmentationError`].
    #[doc(alias("vmaBeginDefragmentation", "begin_defragmentation", "BeginDefragmentation"))]
    pub fn new(
        allocator: impl Into<AllocatorRef<'a, D>>,
        pool: Option<&Pool>,
        desc: DefragmentationDesc,
    ) -> Result<Self, DefragmentationError> {
        Self::begin(allocator.into(), pool, desc)
    }

    /// Begins one. Apart from `new`, so that it is [compiled once](crate::compiled).
    #[inline(never)]
    pub(crate) fn begin(
        allocator: AllocatorRef<'a, D>,
        pool: Option<&Pool>,
        desc: DefragmentationDesc,
    ) -> Result<Self, DefragmentationError> {
        // The index of a pool of another allocator would name a wrong pool here.
        if pool.is_some_and(|pool| pool.allocator() != allocator.id()) {
            return Err(DefragmentationError::WrongPool);
        }
        let scope = pool.map_or(Scope::DefaultPools, |pool| Scope::Pool(pool.shards()));
        let run = allocator.begin_run(desc, scope, None)?;
        Ok(Self { allocator, _pool: pool.cloned(), run, moves: Vec::new(), on_moved: None })
    }

    /// Returns the plan with its expected gain. It is an estimate: changes of the pools until the last pass invalidate
    /// parts of it. Ignores the time limit. The passes use the same plan.
    ///
    /// The first call of this or of [`next_pass`](Self::next_pass) surveys the pools.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc};
    /// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default())?;
    /// let plan = run.plan();
    /// assert_eq!((plan.bytes_freed(), plan.bytes_moved()), (4 << 20, 1 << 20)); // worth it
    /// # drop(run);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(&mut self) -> &DefragmentationPlan {
        self.run.plan(&self.allocator)
    }

    /// Finds the next allocations to be moved, within the limits. Cancels a previous pass that was forgotten, as if it
    /// had been dropped.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass};
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default())?;
    /// for _frame in 0..100 {
    ///     match run.next_pass() {
    ///         NextPass::Moves(pass) => println!("{:?}", pass.end()), // once each resource has been copied
    ///         NextPass::LimitReached => {} // the time of this frame is used up; the next call continues
    ///         NextPass::Done => break,
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    #[doc(alias("vmaBeginDefragmentationPass", "begin_pass"))]
    pub fn next_pass(&mut self) -> NextPass<'_, D> {
        // A pass that was forgotten (`mem::forget`) never ended. Its moves are in the list, so it can be cancelled
        // here. (`a_pass_that_was_forgotten_is_cancelled_by_the_next`)
        cancel_forgotten(&self.allocator, &mut self.run, &mut self.moves);
        // Those of the pass before.
        self.moves.clear();
        match self.run.find(&self.allocator, &mut self.moves, &mut Spent::default()) {
            Found::Moves => {
                self.run.statistics.passes += 1;
                let on_moved = self.on_moved.as_deref_mut().map(|it| it as &mut CallMoved<'_, D>);
                let pass = Pass::new(&self.allocator, &mut self.run, &mut self.moves);
                NextPass::Moves(pass.with_on_moved(on_moved))
            }
            Found::LimitReached => NextPass::LimitReached,
            Found::Done => NextPass::Done,
        }
    }

    /// Sets a callback for each allocation that moves. It is called at the end of each pass, once the old places are
    /// released, for what [`EndedPass::moved`] lists. No lock is held: it may use the allocator. If it panics, the pass
    /// has ended nevertheless. Replaces a callback that was set before.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    /// let options = MemoryUsage::GpuOnly.with_name("tile").with_user_data(7).with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let mut moved = Vec::new();
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// run.on_moved(|one| moved.push(one.user_data()));
    /// while let NextPass::Moves(pass) = run.next_pass() {
    ///     pass.end();
    /// }
    /// drop(run);
    /// assert_eq!(moved, [7]);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_moved(&mut self, callback: impl FnMut(&Move<D>) + Send + 'a) {
        self.on_moved = Some(Box::new(callback));
    }

    /// Returns the sums so far.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// # use allotment::memory::Movability;
    /// # use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc, NextPass, PassLimits};
    /// # let options = MemoryUsage::GpuOnly.with_name("tile").with_movability(Movability::Copied);
    /// let mut tiles = allocator.allocate_many(&Requirements::new(1 << 20), &options, 5)?; // two blocks of 4 MiB
    /// allocator.free(tiles.remove(0))?;
    /// let mut run = Defragmentation::new(&allocator, None, DefragmentationDesc::default().with_limits(PassLimits::NONE))?;
    /// while let NextPass::Moves(pass) = run.next_pass() {
    ///     pass.end();
    /// }
    /// let sums = run.statistics();
    /// assert_eq!((sums.moves, sums.bytes_moved, sums.blocks_emptied), (1, 1 << 20, 1));
    /// # drop(run);
    /// # drop(allocator.free_many(tiles));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "GetStats")]
    #[must_use]
    pub fn statistics(&self) -> DefragmentationStatistics {
        self.run.statistics
    }
}

impl<D: Device> Drop for Defragmentation<'_, D> {
    #[inline(never)]
    fn drop(&mut self) {
        cancel_forgotten(&self.allocator, &mut self.run, &mut self.moves);
        self.allocator.end_run(&mut self.run);
    }
}

/// Cancels a pass that was forgotten rather than dropped: it leaves its moves in the list.
fn cancel_forgotten<D: Device>(allocator: &Allocator<D>, run: &mut Run, moves: &mut [Move<D>]) {
    if moves.iter().any(Move::is_open) {
        // The drop of another pass over the same list cancels them.
        drop(Pass::new(allocator, run, moves));
    }
}

impl<D: Device> fmt::Debug for Defragmentation<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Defragmentation").field("statistics", &self.run.statistics).finish_non_exhaustive()
    }
}
