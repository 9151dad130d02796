//! The relocatable resources of an allocator, and the steps that move them.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::cell::{Cell, Members};
use super::desc::{DefragmentationStep, DefragmenterDesc, StepOutcome};
use super::error::MoveError;
use super::new_resource::{NewResource, PendingCopy};
use crate::device::{Device, QueueIndex, QueueKind};
use crate::log::event;
use crate::memory::defragmentation::{Found, Run, Scope};
use crate::memory::reports::statistics::Statistics;
use crate::memory::resource::{BufferOrImage, Buffers, Images, Resource};
use crate::memory::{
    AllocationOptions, Buffer, DefragmentationDesc, DefragmentationStatistics, Image, Movability, Move,
    OwningAllocator, Pass, PassLimits, Pool, ResourceError,
};
use crate::sync::locked;

/// Steps without a survey after one that found nothing to gain, unless much was freed since: a survey takes a
/// microsecond for every few allocations.
const IDLE_STEPS: u32 = 16;

/// Steps without a survey while the statistics of the pools are unchanged.
const IDLE_STEPS_UNCHANGED: u32 = 256;

/// Freed bytes count as much from this part of an average block on: an eighth.
const MUCH_OF_BLOCK: u64 = 8;

/// Creates buffers and images that it moves later, so that the allocator's default pools, and the custom pools that
/// they are in, stay in few blocks. A [`Gpu`](crate::gpu::Gpu) has one, and calls its steps.
///
/// Call [`step`](Self::step) once a frame. Each step surveys, plans, or moves a few resources,
/// within its limits; mostly there is nothing to do. `Send + Sync`: any thread may create and use resources.
///
/// ```text
///   frame n     recordings use the old buffer
///   step        new buffer in the reserved place ── copy ──► submitted; handle() is the new one
///   frame n+1   recordings use the new buffer
///   later       the GPU has completed frame n and the copy: the old buffer is destroyed, its place freed,
///               and with the last place of a block the block
/// ```
///
/// No thread waits: the copy is a submission like any other, and the old resource is retired like any other
/// ([`lifetime`](crate::lifetime)). The application rewrites the descriptors of a moved resource;
/// [`Buffer::moves`] shows when.
///
/// Resources in memory that queues cannot both read and write (upload and readback heaps of Direct3D 12) are not moved.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::BufferDesc;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::lifetime::{DeletionQueue, SubmissionTracker};
/// use allotment::memory::{
///     BlockSizes, DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, OwningAllocator,
///     PassLimits, StepOutcome,
/// };
/// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes = BlockSizes::fixed(1 << 20);
/// let allocator = Arc::new(Allocator::new(device, desc)?);
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
/// let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full);
/// let defragmenter = Defragmenter::new(&memory, DefragmenterDesc::new(strategy))?;
///
/// let desc = AllocationOptions::new(MemoryUsage::GpuOnly).with_name("mesh");
/// let mut meshes = Vec::new();
/// for _ in 0..16 {
///     meshes.push(defragmenter.create_buffer(&BufferDesc::new(256 << 10), &desc)?);
/// }
/// let mut index = 0;
/// meshes.retain(|_| (index % 4 == 0, index += 1).0); // one mesh of each block is left
/// for _frame in 0..100 {
///     defragmenter.step(PassLimits::default())?;
///     tracker.wait_idle(core::time::Duration::from_secs(1))?;
///     memory.deletion_queue().reclaim();
/// }
/// assert_eq!(allocator.statistics().blocks, 1);
/// assert_eq!(meshes.iter().map(|mesh| mesh.moves()).sum::<u32>(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Defragmenter<D: Device> {
    pub(super) memory: OwningAllocator<D>,
    pub(super) queue: QueueIndex,
    desc: DefragmentationDesc,
    pub(super) members: Arc<Members<D>>,
    /// `None` while a thread executes a step.
    state: Mutex<Option<State<D>>>,
    /// Sums of all completed steps.
    statistics: Mutex<DefragmentationStatistics>,
    on_moved: Mutex<Option<OnMoved<D>>>,
}

/// The callback for each resource that moved.
type OnMoved<D> = Arc<dyn Fn(&Move<D>) + Send + Sync>;

struct State<D: Device> {
    /// The defragmentation in progress, and its custom pool, which is not destroyed meanwhile.
    run: Option<(Run, Option<Pool>)>,
    /// The pools that come after it, the next one last; `None` for the default pools.
    waiting: Vec<Option<Pool>>,
    /// The moves of a step, and then those of which the callback has not heard; kept to reuse its memory.
    moves: Vec<Move<D>>,
    created: Vec<Option<NewResource<D>>>,
    /// Resources that the CPU must not access until their copies complete.
    pending: Vec<PendingCopy<D>>,
    /// Steps until the next survey.
    idle_steps: u32,
    /// The statistics of the pools when there was nothing to gain.
    seen: Statistics,
}

impl<D: Device> Defragmenter<D> {
    /// Creates a defragmenter of resources that `memory` allocates.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::{DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc};
    ///
    /// // Beside that of the `Gpu`: for resources of a level, which nothing moves while it is played.
    /// let full = DefragmentationDesc::new(DefragmentationStrategy::Full);
    /// let level = Defragmenter::new(gpu.memory(), DefragmenterDesc::new(full))?;
    /// let mesh = level.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// assert!(mesh.is_relocatable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`MoveError::NoSuchQueue`]; [`MoveError::WrongDevice`] when the tracker by which `memory` retires its resources
    /// belongs to another device than its allocator.
    pub fn new(memory: &OwningAllocator<D>, desc: DefragmenterDesc) -> Result<Self, MoveError> {
        // Copies go to the allocator's device. Another device's tracker would know none of them, and would free the old
        // resources while a queue still reads them.
        if !memory.deletion_queue().tracker().tracks(memory.allocator().device()) {
            return Err(MoveError::WrongDevice);
        }
        let queues = &memory.allocator().device().properties().queues;
        // A graphics queue can copy every image; see `create_image`.
        let drawing = (0..).zip(queues).find(|(_, queue)| queue.kind == QueueKind::Graphics);
        let queue = desc.queue.or(drawing.map(|(index, _)| QueueIndex(index))).unwrap_or(QueueIndex(0));
        if usize::from(queue.0) >= queues.len() {
            return Err(MoveError::NoSuchQueue);
        }
        let state = State {
            run: None,
            waiting: Vec::new(),
            moves: Vec::new(),
            created: Vec::new(),
            pending: Vec::new(),
            idle_steps: 0,
            seen: Statistics::default(),
        };
        Ok(Self {
            memory: memory.clone(),
            queue,
            desc: desc.defragmentation,
            members: Arc::new(Mutex::new(HashMap::new())),
            state: Mutex::new(Some(state)),
            statistics: Mutex::default(),
            on_moved: Mutex::default(),
        })
    }

    /// Returns the allocator of the resources.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let memory = gpu.defragmenter().memory();
    /// let pinned = memory.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("pinned"))?;
    /// assert!(!pinned.is_relocatable()); // unlike the buffers that the defragmenter creates
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> &OwningAllocator<D> {
        &self.memory
    }

    /// Returns the sums of all steps.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let before = gpu.defragmenter().statistics();
    /// gpu.defragmenter().step(Default::default())?;
    /// let since = gpu.defragmenter().statistics() - before;
    /// println!("{} moves of {} bytes, {} blocks emptied", since.moves, since.bytes_moved, since.blocks_emptied);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn statistics(&self) -> DefragmentationStatistics {
        *locked(&self.statistics)
    }

    /// Sets a callback for each resource that moves: for the descriptors of resources that are found by their ids or
    /// their user data. Replaces a callback that was set before.
    ///
    /// The thread that executes a step calls it at the end of the step, once for each move and in no order, when all
    /// moved resources have their new handles. No lock is held: the callback may create, use and drop resources and call
    /// the allocator. [`step`](Self::step) and [`stop`](Self::stop) do nothing in it, and no other thread executes a step
    /// meanwhile. If it panics, so does the step, whose moves hold nevertheless; the next step continues with the moves
    /// of which the callback has not heard.
    ///
    /// The GPU may still copy to the [new place](Move::to), and read the [old one](Move::from). A callback that owns a
    /// [`Gpu`](crate::gpu::Gpu) or the defragmenter itself keeps them alive for ever.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use std::sync::mpsc::channel;
    /// use allotment::memory::{PassLimits, StepOutcome};
    ///
    /// // A list of what moved, for the thread that writes descriptors.
    /// let (sender, moved) = channel();
    /// gpu.defragmenter().on_moved(move |one| {
    ///     let _ = sender.send((one.user_data(), one.id(), one.size()));
    /// });
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("tile").with_user_data(7).relocatable();
    /// let mut tiles = Vec::new();
    /// for _ in 0..5 {
    ///     tiles.push(gpu.create_buffer(&BufferDesc::new(1 << 20), &options)?);
    /// }
    /// drop(tiles.remove(0));
    /// gpu.reclaim(); // now four tiles of 1 MiB are in two blocks of 4 MiB
    /// while gpu.defragmenter().step(PassLimits::NONE)?.outcome != StepOutcome::Idle {
    ///     gpu.wait_idle()?;
    /// }
    /// assert_eq!(moved.try_iter().collect::<Vec<_>>(), [(7, tiles[3].id(), 1 << 20)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_moved(&self, callback: impl Fn(&Move<D>) + Send + Sync + 'static) {
        let before = locked(&self.on_moved).replace(Arc::new(callback));
        // After the lock: what the old callback owns is the caller's code.
        drop(before);
    }

    /// Tells the callback of the moves of a step.
    fn report_moved(&self, state: &mut State<D>) {
        let callback = locked(&self.on_moved).clone();
        let Some(callback) = callback else { return state.moves.clear() };
        state.moves.retain(Move::has_moved);
        // One by one, so that those after a panic are left for the next step.
        while let Some(one) = state.moves.pop() {
            callback(&one);
        }
    }

    /// Creates a relocatable buffer, as [`OwningAllocator::create_buffer`] creates a pinned one. It is movable whatever
    /// the options say; with [`Movability::Recreated`], a move does not copy its bytes.
    ///
    /// On Vulkan, a buffer with exclusive sharing mode belongs to the family of the defragmenter's queue.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::Movability;
    ///
    /// let defragmenter = gpu.defragmenter();
    /// let mesh = defragmenter.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let options = MemoryUsage::GpuOnly.with_name("histogram").with_movability(Movability::Recreated);
    /// let histogram = defragmenter.create_buffer(&BufferDesc::new(1024), &options)?; // written anew in each frame
    /// assert!(mesh.is_relocatable() && histogram.is_relocatable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError::NotRelocatable`], and the errors of any buffer.
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        let own = self.memory.allocator().device().relocatable_buffer_info(info);
        self.create::<Buffers>(own.ok_or(ResourceError::NotRelocatable)?, options)
    }

    /// Creates a relocatable image, as [`create_buffer`](Self::create_buffer) creates a buffer. Until its
    /// [state](Image::set_state) is set, a move copies nothing, and the new image has the state of a newly created one.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let options = MemoryUsage::GpuOnly.with_name("albedo");
    /// let albedo = gpu.defragmenter().create_image(&ImageDesc::new(64, 64, 4), &options)?;
    /// assert_eq!(albedo.state(), None, "its texels are copied only once a state is set");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`create_buffer`](Self::create_buffer); [`ResourceError::NotRelocatable`] also when the
    /// defragmenter's queue is not a graphics queue.
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        let device = self.memory.allocator().device();
        let queue = device.properties().queues.get(usize::from(self.queue.0));
        // Compute and transfer queues cannot copy every image: multisampled or depth images, for example.
        let draws = queue.is_some_and(|queue| queue.kind == QueueKind::Graphics);
        let own = device.relocatable_image_info(info).filter(|_| draws);
        self.create::<Images>(own.ok_or(ResourceError::NotRelocatable)?, options)
    }

    #[track_caller]
    fn create<C: BufferOrImage<D>>(
        &self,
        info: C::Info<'static>,
        options: &AllocationOptions,
    ) -> Result<Resource<D, C>, ResourceError> {
        let (resource, movability) = self.memory.create_pinned::<C>(&info, &movable(options))?;
        Ok(Resource::relocatable(Cell::new(&self.members, info, resource, movability, options.pool.clone())))
    }

    /// Executes one frame's part of defragmenting the default pools and the custom pools with relocatable resources,
    /// one after the other. When it returns, the copies are submitted, after all work that queues were given before,
    /// and the moved resources have new handles.
    ///
    /// Between the steps of one run, places are reserved, and no other defragmentation of the same pools can begin, nor
    /// can the pool be destroyed; [`stop`](Self::stop) ends the run.
    ///
    /// The CPU cannot access the mapped bytes of a moved resource until its copy completes: it gets
    /// [`AccessError::Moving`](crate::memory::AccessError::Moving). Uploads wait for the copy by themselves; a
    /// [`Transfer`](crate::memory::Transfer) on another queue needs [`copied_at`](DefragmentationStep::copied_at)
    /// reached.
    ///
    /// Call it while no unsubmitted recording writes to its resources: such a write would go to the old place and
    /// be lost. Recordings that read them by their old handles may be open or in flight, on any queue. Uploads to them
    /// must be [submitted](crate::upload::Uploader::submit) before.
    ///
    /// Movable allocations of others are not moved. While another thread executes a step, this returns
    /// [`LimitReached`](StepOutcome::LimitReached) at once.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::{PassLimits, StepOutcome};
    ///
    /// let options = MemoryUsage::GpuOnly.with_name("tile").relocatable();
    /// let mut tiles = Vec::new();
    /// for _ in 0..5 {
    ///     tiles.push(gpu.create_buffer(&BufferDesc::new(1 << 20), &options)?);
    /// }
    /// drop(tiles.remove(0));
    /// gpu.reclaim(); // now four tiles of 1 MiB are in two blocks of 4 MiB
    ///
    /// while gpu.defragmenter().step(PassLimits::NONE)?.outcome != StepOutcome::Idle {
    ///     gpu.wait_idle()?; // a program calls a step in each frame instead
    /// }
    /// assert_eq!((tiles[3].moves(), gpu.allocator().statistics().blocks), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`MoveError`]. All resources stay in their places.
    pub fn step(&self, limits: PassLimits) -> Result<DefragmentationStep, MoveError> {
        // Taken out of the mutex, so that no lock is held during driver calls.
        let Some(state) = locked(&self.state).take() else {
            return Ok(DefragmentationStep::new(StepOutcome::LimitReached));
        };
        let mut guard = StepGuard { defragmenter: self, state: Some(state) };
        match &mut guard.state {
            Some(state) => {
                // What is left after a panic in the step before.
                self.report_moved(state);
                let step = self.continue_run(state, limits);
                self.report_moved(state);
                step
            }
            None => unreachable!("the state is taken only when `StepGuard` is dropped"),
        }
    }

    fn continue_run(
        &self,
        state: &mut State<D>,
        limits: PassLimits,
    ) -> Result<DefragmentationStep, MoveError> {
        let allocator = self.memory.allocator();
        // Before anything else: a resource whose copy has completed is pinned no longer, and can move again.
        state.pending.retain(|resource| !resource.is_complete());
        let at_rest = state.run.is_none() && state.waiting.is_empty();
        if at_rest && state.is_idle(allocator.statistics()) {
            return Ok(DefragmentationStep::new(StepOutcome::Idle));
        }
        if state.run.is_none() {
            if at_rest {
                state.waiting = self.pools();
            }
            state.run = self.begin_next_run(&mut state.waiting)?;
        }
        let Some((run, _)) = &mut state.run else {
            // None of the pools that were left can be defragmented at present.
            (state.idle_steps, state.seen) = (IDLE_STEPS_UNCHANGED, allocator.statistics());
            return Ok(DefragmentationStep::new(StepOutcome::Idle));
        };
        // The run may have begun with the limits of an earlier step.
        run.limit(limits);
        // A run counts from its beginning, so only the difference belongs to this step.
        let before = run.statistics;
        let found = run.find(allocator, &mut state.moves);
        let mut done = match found {
            Found::Moves => {
                run.statistics.passes += 1;
                let pass = Pass::new(allocator, run, &mut state.moves);
                self.execute_pass(pass, &mut state.created, &mut state.pending)
            }
            Found::LimitReached => Ok(DefragmentationStep::new(StepOutcome::LimitReached)),
            Found::Done => Ok(DefragmentationStep::new(StepOutcome::Idle)),
        };
        let sums = run.statistics - before;
        let mut all = locked(&self.statistics);
        *all = *all + sums;
        drop(all);
        done.iter_mut().for_each(|step| step.statistics = sums);
        // Ended here, not with the defragmenter: an open run keeps others from defragmenting these pools.
        if found == Found::Done {
            allocator.end_run(run);
            state.run = None;
            if state.waiting.is_empty() {
                (state.idle_steps, state.seen) = (IDLE_STEPS_UNCHANGED, allocator.statistics());
            } else {
                done.iter_mut().for_each(|step| step.outcome = StepOutcome::LimitReached);
            }
        }
        if sums.moves != 0 {
            event!(DEBUG, "memory", step = ?done, "moved resources");
        }
        done
    }

    /// Returns the pools to defragment: the default pools, and each custom pool that has relocatable resources. The
    /// last one comes first.
    fn pools(&self) -> Vec<Option<Pool>> {
        let members = locked(&self.members);
        let mut pools: Vec<Option<Pool>> = Vec::new();
        for (_, pool) in members.values() {
            if pool.is_some() && !pools.contains(pool) {
                pools.push(pool.clone());
            }
        }
        pools.push(None);
        pools
    }

    /// Begins to defragment the next pool that can be defragmented. `None` where there is no other.
    fn begin_next_run(
        &self,
        waiting: &mut Vec<Option<Pool>>,
    ) -> Result<Option<(Run, Option<Pool>)>, MoveError> {
        while let Some(pool) = waiting.pop() {
            let scope = pool.as_ref().map_or(Scope::DefaultPools, |pool| Scope::Pool(pool.shards()));
            match self.memory.allocator().begin_run(self.desc, scope, true) {
                Ok(run) => return Ok(Some((run, pool))),
                Err(error) if pool.is_none() => {
                    // The next step begins with the default pools again.
                    waiting.clear();
                    return Err(MoveError::Defragmentation(error));
                }
                // A linear pool, or one that the program defragments itself, must not hold up the others.
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Ends the current run: frees all reserved places, and lets other defragmentations of the same pools begin. The
    /// next step begins a new run. Call it before a time without steps. Does nothing while another thread executes a
    /// step.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::DefragmentationDesc;
    ///
    /// gpu.defragmenter().step(Default::default())?;
    /// gpu.defragmenter().stop(); // only one defragmentation of a pool runs at a time
    /// let mut by_hand = gpu.allocator().defragmentation(DefragmentationDesc::default())?;
    /// println!("{} blocks to free", by_hand.plan().blocks_freed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        // A statement of its own releases the lock here, before `end_run` takes pools' locks.
        let state = locked(&self.state).take();
        if let Some(mut state) = state {
            state.run.take().into_iter().for_each(|(mut run, _)| self.memory.allocator().end_run(&mut run));
            state.waiting.clear();
            *locked(&self.state) = Some(state);
        }
    }
}

/// A step in progress. Puts the state back when dropped, also after a panic.
struct StepGuard<'a, D: Device> {
    defragmenter: &'a Defragmenter<D>,
    state: Option<State<D>>,
}

impl<D: Device> Drop for StepGuard<'_, D> {
    fn drop(&mut self) {
        *locked(&self.defragmenter.state) = self.state.take();
    }
}

/// Returns the description of a movable allocation, whatever `desc` says.
fn movable(desc: &AllocationOptions) -> AllocationOptions {
    let desc = desc.clone();
    if desc.movability == Movability::Pinned { desc.with_movability(Movability::Copied) } else { desc }
}

impl<D: Device> State<D> {
    /// Returns true when this step has nothing to do: nothing changed, or the last survey is recent.
    fn is_idle(&mut self, now: Statistics) -> bool {
        self.idle_steps = self.idle_steps.saturating_sub(1);
        // Freed bytes mean holes; new allocations alone give nothing to gain.
        let more_free = now.free().saturating_sub(self.seen.free());
        let block = now.block_bytes / u64::from(now.blocks + now.dedicated).max(1);
        let much_was_freed = more_free >= (block / MUCH_OF_BLOCK).max(1);
        // The same statistics may hide a different layout, so the pools are surveyed again after a longer time.
        let idle_is_over = if now == self.seen {
            self.idle_steps == 0
        } else {
            self.idle_steps <= IDLE_STEPS_UNCHANGED - IDLE_STEPS
        };
        !much_was_freed && !idle_is_over
    }
}

impl<D: Device> Drop for Defragmenter<D> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let runs = state.iter_mut().filter_map(|state| state.run.as_mut());
        runs.for_each(|(run, _)| self.memory.allocator().end_run(run));
    }
}

impl<D: Device> fmt::Debug for Defragmenter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Defragmenter")
            .field("members", &locked(&self.members).len())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
