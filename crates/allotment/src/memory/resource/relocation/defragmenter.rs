//! The relocatable resources of an allocator, and the steps that move them.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use crate::device::{Device, QueueIndex, QueueKind};
use crate::lifetime::TimelinePoints;
use crate::memory::DefragmentationError;
use crate::memory::defragmentation::Run;
use crate::memory::mover::Mover;
use crate::memory::resource::relocation::accept::Reports;
use crate::memory::resource::relocation::cell::Members;
use crate::memory::resource::relocation::desc::{DefragmentationStep, DefragmenterDesc, StepOutcome};
use crate::memory::resource::relocation::follow::Follower;
use crate::memory::resource::relocation::new_resource::{NewResource, PendingCopy};
use crate::memory::resource::relocation::rest::Rest;
use crate::memory::{
    Allocator, DefragmentationDesc, DefragmentationStatistics, Move, OwningAllocator, PassLimits, Pool,
};
use crate::sync::locked;

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
/// ([`lifetime`](crate::lifetime)).
///
/// # Descriptors
///
/// Descriptors that the library writes of a relocatable resource follow its moves: those of
/// [`BindingSet::bind_buffer`](crate::descriptor::BindingSet::bind_buffer) and
/// [`bind_image`](crate::descriptor::BindingSet::bind_image), and the bindless slots of
/// [`ShaderVisibleHeap::insert_buffer`](crate::descriptor::ShaderVisibleHeap::insert_buffer) and
/// [`insert_image`](crate::descriptor::ShaderVisibleHeap::insert_image). A step rewrites them before it returns, for
/// recordings that begin afterwards; recordings that are open or in flight read the old descriptors, of the old place. The
/// application commits its sets in each frame and passes its indices to shaders, as without moves.
///
/// A resource stays where it is if a heap has no room for another range of a set that has it bound. A move of a resource
/// with a bindless slot replaces the descriptor heap: bind the heap of
/// [`TransientDescriptors::heap`](crate::descriptor::TransientDescriptors::heap) in each recording. While recordings use
/// the previous heap, steps move nothing.
///
/// Descriptors that the application writes itself, of a handle, are its own to rewrite:
/// [`BindingSet::bind`](crate::descriptor::BindingSet::bind), static bindings, ranges, CPU descriptor heaps.
/// [`Buffer::moves`](crate::memory::Buffer::moves) shows when. So are addresses that it keeps in buffers.
///
/// Resources in memory that queues cannot both read and write (upload and readback heaps of Direct3D 12) are not moved.
///
/// A program may have several, beside [passes](crate::memory::defragmentation::Defragmentation) of its own. Each moves its own
/// resources, and the first three of an allocator have [blocks of their
/// own](crate::memory::defragmentation::Defragmentation#beside-defragmenters).
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::BufferDesc;
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::lifetime::{DeletionQueue, SubmissionTracker};
/// use allotment::memory::OwningAllocator;
/// use allotment::memory::blocks::BlockSizes;
/// use allotment::memory::defragmentation::{
///     DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc, PassLimits,
///     StepOutcome,
/// };
/// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes = BlockSizes::fixed(1 << 20);
/// let allocator = Arc::new(Allocator::new(device, desc)?);
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker))?;
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
    pub(super) desc: DefragmentationDesc,
    pub(super) mover: Mover,
    pub(super) members: Arc<Members<D>>,
    /// `None` while a thread executes a step.
    between_steps: Mutex<Option<State<D>>>,
    pub(super) reports: Arc<Reports<D>>,
}

/// The callback for each resource that moved.
pub(super) type OnMoved<D> = Arc<dyn Fn(&Move<D>) + Send + Sync>;

pub(super) struct State<D: Device> {
    /// The defragmentation in progress, and its custom pool, which is not destroyed meanwhile.
    pub(super) run: Option<(Run, Option<Pool>)>,
    /// The pools that come after it, the next one last; `None` for the default pools.
    pub(super) waiting: Vec<Option<Pool>>,
    /// The moves of a pass; kept to reuse its memory.
    pub(super) moves: Vec<Move<D>>,
    /// Those that have moved, and of which the callback has not heard.
    pub(super) moved: Vec<Move<D>>,
    pub(super) created: Vec<Option<NewResource<D>>>,
    /// Resources that the CPU must not access until their copies complete.
    pub(super) pending: Vec<PendingCopy<D>>,
    /// Descriptor heaps that followed the last moves, until they can follow others.
    pub(super) followers: Vec<Weak<dyn Follower<D>>>,
    /// When the pools are surveyed again.
    pub(super) rest: Rest,
}

impl<D: Device> Defragmenter<D> {
    /// Creates a defragmenter of resources that `memory` allocates.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::{
    ///     DefragmentationDesc, DefragmentationStrategy, Defragmenter, DefragmenterDesc,
    /// };
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
    /// [`DefragmentationError::NoSuchQueue`]; [`DefragmentationError::WrongDevice`] when the tracker by which `memory` retires
    /// its resources belongs to another device than its allocator; [`DefragmentationError::TooManyDefragmenters`] when the
    /// allocator has 32,767, counting those of which only resources are left.
    #[inline(never)]
    pub fn new(memory: &OwningAllocator<D>, desc: DefragmenterDesc) -> Result<Self, DefragmentationError> {
        // Copies go to the allocator's device. Another device's tracker would know none of them, and would free the old
        // resources while a queue still reads them.
        if !memory.deletion_queue().tracker().tracks(memory.allocator().device()) {
            return Err(DefragmentationError::WrongDevice);
        }
        let queues = &memory.allocator().device().properties().queues;
        // A graphics queue can copy every image; see `create_image`.
        let drawing = (0..).zip(queues).find(|(_, kind)| **kind == QueueKind::Graphics);
        let queue = desc.queue.or(drawing.map(|(index, _)| QueueIndex(index))).unwrap_or(QueueIndex(0));
        if usize::from(queue.0) >= queues.len() {
            return Err(DefragmentationError::NoSuchQueue { queue });
        }
        let allocator = memory.allocator();
        let members = Members::new(allocator).ok_or(DefragmentationError::TooManyDefragmenters)?;
        let mover = allocator.movers.with_key(members.mover());
        let state = State {
            run: None,
            waiting: Vec::new(),
            moves: Vec::new(),
            moved: Vec::new(),
            created: Vec::new(),
            pending: Vec::new(),
            followers: Vec::new(),
            rest: Rest::new(),
        };
        Ok(Self {
            memory: memory.clone(),
            queue,
            desc: desc.defragmentation,
            mover,
            members,
            between_steps: Mutex::new(Some(state)),
            reports: Reports::new(),
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

    /// Returns the sums of all steps, and of the moves of mapped buffers that their owners have accepted.
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
        *locked(&self.reports.statistics)
    }

    /// Returns the points at which every resource that a step has moved has its bytes: of all steps, also of one that
    /// another thread is about to end. A submission that reads relocatable resources on another queue waits for them, as
    /// those of a [`Gpu`](crate::gpu::Gpu) do.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mut room = allotment::lifetime::TimelinePoints::ROOM;
    /// let recording = gpu.tracker().record("compute"); // takes the handles that are there now
    /// let there = gpu.defragmenter().copied_at();
    /// let submission = Submission { waits: there.as_slice(&mut room), ..Submission::default() };
    /// // SAFETY: the submission is empty. A program submits its commands here.
    /// recording.submit(QueueIndex(1), |queue| unsafe { device.submit(queue, &submission) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn copied_at(&self) -> TimelinePoints {
        *locked(&self.reports.copied_at)
    }

    /// Sets a callback for each resource that moves: for the descriptors of resources that are found by their ids or
    /// their user data. Replaces a callback that was set before.
    ///
    /// For a mapped buffer, the thread that [accepts](crate::memory::MappedBuffer::accept_move) the move calls it, at any time.
    ///
    /// The thread that executes a step calls it at the end of it, once for each move and in no order, when all resources
    /// that the step moved have their new handles. No lock is held: the callback may create, use, write and drop
    /// resources, submit, and call the allocator and the [`Gpu`](crate::gpu::Gpu), also where the end of a
    /// [frame](crate::gpu::Frame::end) does the step. [`step`](Self::step) and [`stop`](Self::stop) do nothing in it, and no
    /// other thread executes a step meanwhile. If it panics, so does the step, whose moves hold nevertheless; the next step
    /// continues with the moves of which the callback has not heard.
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
    /// use allotment::memory::defragmentation::{PassLimits, StepOutcome};
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
        let before = locked(&self.reports.on_moved).replace(Arc::new(callback));
        // After the lock: what the old callback owns is the caller's code.
        drop(before);
    }

    /// Keeps the moves of the last pass for the callback, if there is one.
    pub(super) fn keep_moved(&self, state: &mut State<D>) {
        let is_heard = locked(&self.reports.on_moved).is_some();
        let State { moves, moved, .. } = state;
        moved.extend(moves.drain(..).filter(|one| is_heard && one.has_moved()));
    }

    /// Tells the callback of what moved. No lock is held.
    pub(super) fn report_moved(&self, state: &mut State<D>) {
        self.keep_moved(state);
        // One by one, so that those after a panic are left for the next step.
        while let Some(one) = state.moved.pop() {
            let callback = locked(&self.reports.on_moved).clone();
            callback.into_iter().for_each(|callback| callback(&one));
        }
    }

    /// Executes one frame's part of defragmenting the default pools and the custom pools with relocatable resources,
    /// one after the other: the passes of all of them have these limits together. When it returns, the copies are
    /// submitted, after all work that queues were given before, and the moved resources have new handles.
    ///
    /// Between the steps of one run, places are reserved, other defragmentations leave the blocks of its plan to it, and
    /// the custom pool that it defragments cannot be destroyed; [`stop`](Self::stop) ends the run.
    ///
    /// The CPU cannot access the mapped bytes of a moved resource until its copy completes: it gets
    /// [`AccessError::Moving`](crate::memory::AccessError::Moving). Uploads and a [`Transfer`](crate::memory::Transfer)
    /// wait for the copy by themselves.
    ///
    /// While a recording is open that may write to its resources, nothing is moved
    /// ([`RecordingIsOpen`](StepOutcome::RecordingIsOpen)): the write would go to the old place and be lost. A recording
    /// that [only reads](crate::lifetime::Recording::only_reads) may be open or in flight, on any queue; so its old
    /// handles stay valid. While the copies are submitted, a thread that opens a recording waits for the step. Staged uploads
    /// are an open recording until they are
    /// [submitted](crate::upload::Uploader::submit). Take the handle of a relocatable resource while the recording is
    /// open that uses it, not before.
    ///
    /// Movable allocations of others are not moved, and stay in
    /// [blocks of their own](crate::memory::defragmentation::Defragmentation#beside-defragmenters). While another thread
    /// executes a step, this returns [`LimitReached`](StepOutcome::LimitReached) at once.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::{PassLimits, StepOutcome};
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
    /// [`DefragmentationError`]. All resources stay in their places.
    #[inline(never)]
    pub fn step(&self, limits: PassLimits) -> Result<DefragmentationStep, DefragmentationError> {
        self.step_and_then(limits, || ())
    }

    /// Executes a step, and calls `end` before the callback hears of what moved: it releases what the caller has locked.
    pub(crate) fn step_and_then(
        &self,
        limits: PassLimits,
        end: impl FnOnce(),
    ) -> Result<DefragmentationStep, DefragmentationError> {
        // Taken out of the mutex, so that no lock is held during driver calls.
        let Some(state) = locked(&self.between_steps).take() else {
            return Ok(DefragmentationStep::new(StepOutcome::LimitReached));
        };
        let mut guard = StepGuard { defragmenter: self, state: Some(state) };
        match &mut guard.state {
            Some(state) => {
                let step = self.execute_passes(state, limits);
                end();
                self.report_moved(state);
                step
            }
            None => unreachable!("the state is taken only when `StepGuard` is dropped"),
        }
    }

    /// Takes the state as a step does; waits for a step of another thread, for at most `timeout`.
    pub(super) fn take_state(&self, timeout: Duration) -> Option<StepGuard<'_, D>> {
        let began = Instant::now();
        loop {
            // A statement of its own, so that the lock is released before the thread yields.
            let state = locked(&self.between_steps).take();
            if state.is_some() || began.elapsed() >= timeout {
                return state.map(|state| StepGuard { defragmenter: self, state: Some(state) });
            }
            std::thread::yield_now();
        }
    }

    /// Withdraws the offers to the owners of mapped buffers: the places are room that others may need.
    pub(super) fn withdraw_offers(&self) {
        self.memory.allocator().withdraw_offers_by(self.mover);
    }

    /// Ends the current run: frees all reserved places, and opens the blocks that were not emptied yet. Until the next
    /// step, which begins a new run, its resources stay where they are. Call it before a time without steps. Does nothing
    /// while another thread executes a step.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::{Defragmentation, DefragmentationDesc};
    ///
    /// gpu.defragmenter().step(Default::default())?;
    /// gpu.defragmenter().stop(); // the program does no steps while it loads a level
    /// let mut by_hand = Defragmentation::new(gpu.allocator(), None, DefragmentationDesc::default())?;
    /// println!("{} blocks to free, without those of its resources", by_hand.plan().blocks_freed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn stop(&self) {
        // A statement of its own releases the lock here, before `end_run` takes pools' locks.
        let state = locked(&self.between_steps).take();
        if let Some(mut state) = state {
            state.end_run(self.memory.allocator());
            *locked(&self.between_steps) = Some(state);
            self.withdraw_offers();
        }
    }
}

/// A step in progress. Puts the state back when dropped, also after a panic.
pub(super) struct StepGuard<'a, D: Device> {
    defragmenter: &'a Defragmenter<D>,
    state: Option<State<D>>,
}

impl<D: Device> StepGuard<'_, D> {
    pub(super) fn state(&mut self) -> Option<&mut State<D>> {
        self.state.as_mut()
    }
}

impl<D: Device> Drop for StepGuard<'_, D> {
    fn drop(&mut self) {
        *locked(&self.defragmenter.between_steps) = self.state.take();
    }
}

impl<D: Device> State<D> {
    /// Returns whether all descriptor heaps that followed moves can follow others.
    pub(super) fn followers_are_ready(&mut self) -> bool {
        self.followers.retain(|it| it.upgrade().is_some_and(|it| !it.is_ready()));
        self.followers.is_empty()
    }

    /// Ends the current run.
    pub(super) fn end_run(&mut self, allocator: &Allocator<D>) {
        self.run.take().into_iter().for_each(|(mut run, _)| allocator.end_run(&mut run));
        self.waiting.clear();
    }
}

impl<D: Device> Drop for Defragmenter<D> {
    #[inline(never)]
    fn drop(&mut self) {
        let state = self.between_steps.get_mut().unwrap_or_else(PoisonError::into_inner);
        let runs = state.iter_mut().filter_map(|state| state.run.as_mut());
        runs.for_each(|(run, _)| self.memory.allocator().end_run(run));
        self.withdraw_offers();
        // Nobody asks for them any more.
        self.memory.allocator().offers.take_kept(self.mover);
    }
}

impl<D: Device> fmt::Debug for Defragmenter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Defragmenter")
            .field("members", &self.members.lock().len())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
