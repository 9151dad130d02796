//! A set of relocatable resources, and the steps that move them.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::error::{MovableError, MoveError};
use super::resource::{Cell, Member, Members, Movable, MovableBuffer, MovableClass, MovableImage};
use crate::device::{
    BufferCopy, Device, DeviceError, FullImageCopy, MemoryProperties, QueueIndex, QueueKind, Submission,
    TimelinePoint,
};
use crate::lifetime::Recording;
use crate::memory::defragmentation::{Found, Released, Run, Scope};
use crate::memory::owners::Memory;
use crate::memory::resource::{Buffers, Class, Images};
use crate::memory::statistics::Statistics;
use crate::memory::{
    AllocationDesc, DefragmentationDesc, DefragmentationStatistics, Movability, Move, Name, OwningAllocator,
    Pass, PassLimits, Place,
};
use crate::sync::locked;

/// Description of a [`MovableSet`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MovableSetDesc {
    /// Strategy, and what happens to emptied blocks. The limits are replaced by those of each step.
    pub defragmentation: DefragmentationDesc,
    /// The queue that copies. Defaults to the first graphics queue, or else the first queue. On Vulkan, the images must
    /// belong to its queue family.
    pub queue: Option<QueueIndex>,
}

impl MovableSetDesc {
    /// Describes a set by its defragmentation, with the defaults for everything else.
    #[must_use]
    pub fn new(defragmentation: DefragmentationDesc) -> Self {
        Self { defragmentation, queue: None }
    }

    /// Sets the queue that copies.
    #[must_use]
    pub const fn on_queue(mut self, queue: QueueIndex) -> Self {
        self.queue = Some(queue);
        self
    }
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// At least one resource was moved.
    Moved,
    /// The time was up, or the resources to be moved could not be; the next step continues.
    LimitReached,
    /// There is nothing to gain at present.
    Idle,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefragmentationStep {
    /// Whether resources were moved, and whether there is more to do.
    pub outcome: StepOutcome,
    /// Number of resources that were moved and have a new handle.
    pub moves: u32,
    /// Bytes that the queue copies for these moves.
    pub bytes: u64,
    /// The point at which the copies complete. Work on other queues than the set's that uses moved resources waits for
    /// it.
    pub copied_at: Option<TimelinePoint>,
}

impl DefragmentationStep {
    const fn without_moves(outcome: StepOutcome) -> Self {
        Self { outcome, moves: 0, bytes: 0, copied_at: None }
    }
}

/// Steps without a survey after one that found nothing to gain, unless much was freed since: a survey takes a microsecond
/// for every few allocations.
const IDLE_STEPS: u32 = 16;

/// Steps without a survey while the statistics of the pools are unchanged.
const IDLE_STEPS_UNCHANGED: u32 = 256;

/// Freed bytes count as much from this part of an average block on: an eighth.
const MUCH_OF_BLOCK: u64 = 8;

/// Buffers and images that defragmentation moves, so that the allocator's default pools stay in few blocks.
///
/// Call [`defragment_step`](Self::defragment_step) once a frame. Each step surveys, plans, or moves a few resources,
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
/// [`Movable::moves`](super::Movable::moves) shows when.
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
///     BlockSizes, DefragmentationDesc, DefragmentationStrategy, MovableSet, MovableSetDesc, OwningAllocator,
///     PassLimits, StepOutcome,
/// };
/// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes = BlockSizes::fixed(1 << 20);
/// let allocator = Arc::new(Allocator::new(device, desc)?);
/// let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker));
/// let strategy = DefragmentationDesc::new(DefragmentationStrategy::Full);
/// let set = MovableSet::new(&memory, MovableSetDesc::new(strategy))?;
///
/// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::GpuOnly).with_name("mesh");
/// let mut meshes = Vec::new();
/// for _ in 0..16 {
///     meshes.push(set.create_buffer(BufferDesc::new(256 << 10), &desc)?);
/// }
/// let mut index = 0;
/// meshes.retain(|_| (index % 4 == 0, index += 1).0); // one mesh of each block is left
/// for _frame in 0..100 {
///     set.defragment_step(PassLimits::default())?;
///     tracker.wait_idle(core::time::Duration::from_secs(1))?;
///     memory.deletion_queue().reclaim();
/// }
/// assert_eq!(allocator.statistics().blocks, 1);
/// assert_eq!(meshes.iter().map(|mesh| mesh.moves()).sum::<u32>(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MovableSet<D: Device> {
    memory: OwningAllocator<D>,
    queue: QueueIndex,
    desc: DefragmentationDesc,
    members: Arc<Members<D>>,
    /// `None` while a thread executes a step.
    state: Mutex<Option<State<D>>>,
    /// Sums of all completed steps.
    statistics: Mutex<DefragmentationStatistics>,
}

struct State<D: Device> {
    /// The defragmentation in progress.
    run: Option<Run>,
    /// The moves of a step; kept to reuse its memory.
    moves: Vec<Move<D>>,
    created: Vec<Option<NewResource<D>>>,
    /// Resources that the CPU must not access until their copies complete.
    pending: Vec<PendingCopy<D>>,
    /// Steps until the next survey.
    idle_steps: u32,
    /// The statistics of the pools when there was nothing to gain.
    seen: Statistics,
}

/// A resource that was created in its new place.
enum NewResource<D: Device> {
    Buffer(NewObject<D, Buffers>),
    Image(NewObject<D, Images>),
}

struct NewObject<D: Device, C: MovableClass<D>> {
    cell: Arc<Cell<D, C>>,
    from: C::Handle,
    to: C::Handle,
    size: u64,
    state: Option<C::State>,
    copied: bool,
    /// The CPU can access the memory, so it must be kept from doing so before the copy completes.
    host_visible: bool,
}

/// A resource whose copy has not completed.
enum PendingCopy<D: Device> {
    Buffer(Weak<Cell<D, Buffers>>),
    Image(Weak<Cell<D, Images>>),
}

impl<D: Device> MovableSet<D> {
    /// Creates a set of resources that `memory` allocates.
    ///
    /// # Errors
    ///
    /// [`MoveError::NoSuchQueue`]; [`MoveError::Foreign`] when the tracker by which `memory` retires its resources belongs
    /// to another device than its allocator.
    pub fn new(memory: &OwningAllocator<D>, desc: MovableSetDesc) -> Result<Self, MoveError> {
        if !memory.deletion_queue().tracker().tracks(memory.allocator().device()) {
            return Err(MoveError::Foreign);
        }
        let queues = &memory.allocator().device().properties().queues;
        let drawing = (0..).zip(queues).find(|(_, queue)| queue.kind == QueueKind::Graphics);
        let queue = desc.queue.or(drawing.map(|(index, _)| QueueIndex(index))).unwrap_or(QueueIndex(0));
        if usize::from(queue.0) >= queues.len() {
            return Err(MoveError::NoSuchQueue);
        }
        let state = State {
            run: None,
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
        })
    }

    /// Returns the allocator of the resources.
    #[must_use]
    pub fn memory(&self) -> &OwningAllocator<D> {
        &self.memory
    }

    /// Returns the sums of all steps.
    #[must_use]
    pub fn statistics(&self) -> DefragmentationStatistics {
        *locked(&self.statistics)
    }

    /// Creates a relocatable buffer; see [`OwningAllocator::create_buffer`]. It is always movable. With
    /// [`Movability::Recreated`] in `desc`, a move does not copy its bytes.
    ///
    /// On Vulkan, a buffer with exclusive sharing mode belongs to the family of the set's queue.
    ///
    /// # Errors
    ///
    /// [`MovableError`].
    pub fn create_buffer(
        &self,
        info: D::BufferInfo<'static>,
        desc: &AllocationDesc,
    ) -> Result<MovableBuffer<D>, MovableError> {
        if !self.memory.allocator().device().is_copyable_buffer(&info) {
            return Err(MovableError::NotCopyable);
        }
        self.create::<Buffers>(info, desc)
    }

    /// Creates a relocatable image; see [`OwningAllocator::create_image`]. It is always movable, like a
    /// [buffer](Self::create_buffer). Until its [state](MovableImage::set_state) is set, a move copies nothing, and the
    /// new image has the state of a newly created one.
    ///
    /// # Errors
    ///
    /// [`MovableError`]; [`NotCopyable`](MovableError::NotCopyable) also when the set's queue is not a graphics queue.
    ///
    /// # Safety
    ///
    /// Whenever a step is called, the whole image is in the state that was [set](MovableImage::set_state) last, or will be
    /// once all submitted work has completed. A recording that is not submitted by then neither uses the image on another
    /// queue than the set's, nor leaves it in another state. Later uses on another queue wait for
    /// [`copied_at`](DefragmentationStep::copied_at). On Vulkan the image belongs to the family of the set's queue.
    pub unsafe fn create_image(
        &self,
        info: D::ImageInfo<'static>,
        desc: &AllocationDesc,
    ) -> Result<MovableImage<D>, MovableError> {
        let device = self.memory.allocator().device();
        let queue = device.properties().queues.get(usize::from(self.queue.0));
        // Compute and transfer queues cannot copy every image: multisampled or depth images, for example.
        let draws = queue.is_some_and(|queue| queue.kind == QueueKind::Graphics);
        if !draws || !device.is_copyable_image(&info) {
            return Err(MovableError::NotCopyable);
        }
        self.create::<Images>(info, desc)
    }

    fn create<C: MovableClass<D>>(
        &self,
        info: C::Info<'static>,
        desc: &AllocationDesc,
    ) -> Result<Movable<D, C>, MovableError> {
        let (resource, movability) = self.memory.create_pinned::<C>(&info, &movable(desc))?;
        let made = Movable::new(&self.members, info, resource, None);
        // Only now is it a member that a step finds. Movable any earlier, a pass of another thread could move it.
        made.with(|it| self.memory.allocator().allow_moves(it.allocation(), movability, true));
        Ok(made)
    }

    /// Executes one frame's part of defragmenting the default pools. When it returns, the copies are submitted, after all
    /// work that queues were given before, and the moved resources have new handles.
    ///
    /// Between the steps of one run, places are reserved and no other defragmentation of the default pools can begin;
    /// [`stop`](Self::stop) ends the run.
    ///
    /// The CPU cannot access the bytes of a moved resource until its copy completes: it gets
    /// [`AccessError::Moving`](crate::memory::AccessError::Moving).
    ///
    /// Call it while no unsubmitted recording writes to resources of the set: such a write would go to the old place and
    /// be lost. Recordings that read them by their old handles may be open or in flight, on any queue. Uploads to them
    /// must be [submitted](crate::upload::Uploader::submit) before.
    ///
    /// Movable allocations outside this set are not moved. While another thread executes a step, this returns
    /// [`LimitReached`](StepOutcome::LimitReached) at once.
    ///
    /// # Errors
    ///
    /// [`MoveError`]. All resources stay in their places.
    pub fn defragment_step(&self, limits: PassLimits) -> Result<DefragmentationStep, MoveError> {
        // Taken out of the mutex, so that no lock is held during driver calls.
        let Some(state) = locked(&self.state).take() else {
            return Ok(DefragmentationStep::without_moves(StepOutcome::LimitReached));
        };
        let mut guard = StepGuard { set: self, state: Some(state) };
        match &mut guard.state {
            Some(state) => self.step(state, limits),
            None => unreachable!("the state is taken only when `StepGuard` is dropped"),
        }
    }

    fn step(&self, state: &mut State<D>, limits: PassLimits) -> Result<DefragmentationStep, MoveError> {
        let allocator = self.memory.allocator();
        // Before anything else: a resource whose copy has completed is pinned no longer, and can move again.
        state.pending.retain(|resource| !resource.is_complete());
        if state.run.is_none() && state.is_idle(allocator.statistics()) {
            return Ok(DefragmentationStep::without_moves(StepOutcome::Idle));
        }
        let run = match &mut state.run {
            Some(run) => run,
            none => {
                let run = allocator.begin_run(self.desc, Scope::DefaultPools, true);
                none.insert(run.map_err(MoveError::Defragmentation)?)
            }
        };
        run.limit(limits);
        let before = run.statistics;
        let found = run.find(allocator, &mut state.moves);
        let done = match found {
            Found::Moves => {
                run.statistics.passes += 1;
                let pass = Pass::new(allocator, run, &mut state.moves);
                self.execute_pass(pass, &mut state.created, &mut state.pending)
            }
            Found::LimitReached => Ok(DefragmentationStep::without_moves(StepOutcome::LimitReached)),
            Found::Done => Ok(DefragmentationStep::without_moves(StepOutcome::Idle)),
        };
        let mut all = locked(&self.statistics);
        *all = *all + run.statistics - before;
        drop(all);
        if found == Found::Done {
            allocator.end_run(run);
            state.run = None;
            (state.idle_steps, state.seen) = (IDLE_STEPS_UNCHANGED, allocator.statistics());
        }
        done
    }

    /// Ends the current run: frees all reserved places, and lets other defragmentations of the default pools begin. The
    /// next step begins a new run. Call it before a time without steps. Does nothing while another thread executes a step.
    pub fn stop(&self) {
        // A statement of its own releases the lock here, before `end_run` takes pools' locks.
        let state = locked(&self.state).take();
        if let Some(mut state) = state {
            state.run.take().into_iter().for_each(|mut run| self.memory.allocator().end_run(&mut run));
            *locked(&self.state) = Some(state);
        }
    }

    /// Creates all resources of a pass in their new places, submits the copies, and replaces the old resources.
    fn execute_pass(
        &self,
        pass: Pass<'_, D>,
        created: &mut Vec<Option<NewResource<D>>>,
        pending: &mut Vec<PendingCopy<D>>,
    ) -> Result<DefragmentationStep, MoveError> {
        debug_assert!(created.is_empty(), "each step clears the list at its end");
        let device = self.memory.allocator().device();
        let mut open = OpenPass { memory: &self.memory, pass, created };
        let OpenPass { pass, created, .. } = &mut open;
        created.extend(pass.moves().iter().map(|one| self.recreate(one)));
        // Named only now that `OpenPass` owns them: a panic of the device before that would leak them.
        for (one, new) in pass.moves().iter().zip(created.iter()) {
            new.iter().for_each(|new| self.name(one, new));
        }
        // Before the submission, so that no byte is copied for a block that stays.
        ignore_unmovable_blocks(device, pass, created);
        let record = || self.memory.deletion_queue().tracker().record("defragmentation");
        let mut submitted = self.submit(record(), created);
        if submitted == Err(DeviceError::Unsupported) && created.iter().flatten().any(NewResource::is_image) {
            // The device does not say which image it cannot copy in its state. Buffers can still move without images.
            for new in created.iter_mut() {
                new.take_if(|new| new.is_image()).into_iter().for_each(|it| it.destroy(device));
            }
            ignore_unmovable_blocks(device, pass, created);
            submitted = self.submit(record(), created);
        }
        let copied_at = match submitted {
            Ok(point) => point,
            Err(error) => {
                // The submission failed, so no queue uses the new resources.
                created.drain(..).flatten().for_each(|new| new.destroy(device));
                return Err(MoveError::Device(error));
            }
        };
        let mut step = DefragmentationStep { outcome: StepOutcome::Moved, moves: 0, bytes: 0, copied_at };
        let arriving: Vec<_> =
            created.iter().map(|new| new.as_ref().is_some_and(NewResource::blocks_cpu_access)).collect();
        let mut ended = created.drain(..);
        // The pass releases the places in the order of its moves, which is that of the new resources.
        let leave = |released: Released, place| {
            // The owner freed the allocation meanwhile. A queue may still read the old place.
            if matches!(released, Released::FreedSource) {
                return self.memory.retire::<Memory>(place);
            }
            match (released, ended.next().flatten()) {
                (Released::Source, Some(new)) => {
                    step.moves += 1;
                    step.bytes += new.bytes();
                    pending.extend(new.replace_old(&self.memory, place, copied_at));
                }
                // Not moved after all. A queue may still write to the new place.
                (_, Some(new)) => new.retire(&self.memory, place),
                (_, None) => self.memory.allocator().free_own(place),
            }
        };
        pass.finish(|index| arriving[index], leave);
        if step.moves == 0 {
            step.outcome = StepOutcome::LimitReached;
        }
        Ok(step)
    }

    /// Creates a resource of the set in its new place. `None` when it is not in the set, or cannot be created there.
    fn recreate(&self, moved: &Move<D>) -> Option<NewResource<D>> {
        let device = self.memory.allocator().device();
        let found = device.properties().memory_type(moved.to().memory_type)?;
        // A queue must read the old place and write the new one; both are in this memory type.
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        if found.properties.intersects(one_way) {
            return None;
        }
        let copied = moved.contents() == Movability::Copied;
        let host_visible = moved.to().address.is_some();
        let members = locked(&self.members);
        match members.get(&moved.id())? {
            Member::Buffer(cell) => {
                let cell = cell.upgrade()?;
                drop(members);
                NewObject::create(device, cell, &moved.to(), [copied, host_visible]).map(NewResource::Buffer)
            }
            Member::Image(cell) => {
                let cell = cell.upgrade()?;
                drop(members);
                let new = NewObject::create(device, cell, &moved.to(), [copied, host_visible])?;
                // An image of unknown state cannot be copied; its content is taken to be undefined.
                let copied = new.copied && new.state.is_some();
                Some(NewResource::Image(NewObject { copied, ..new }))
            }
        }
    }

    /// Gives the new resource the debug name of the old one.
    fn name(&self, moved: &Move<D>, new: &NewResource<D>) {
        let allocator = self.memory.allocator();
        let name = allocator.info(moved.id()).ok().and_then(|info| info.name);
        let Some(name) = name.as_ref().map(Name::as_str) else { return };
        match new {
            // SAFETY: created just now.
            NewResource::Buffer(NewObject { to, .. }) => unsafe {
                <Buffers as Class<D>>::name(allocator.device(), to, name);
            },
            // SAFETY: as above.
            NewResource::Image(NewObject { to, .. }) => unsafe {
                <Images as Class<D>>::name(allocator.device(), to, name);
            },
        }
    }

    /// Submits the copies. Returns `None` when there is nothing to copy.
    fn submit(
        &self,
        recording: Recording,
        created: &[Option<NewResource<D>>],
    ) -> Result<Option<TimelinePoint>, DeviceError> {
        let (mut copies, mut full_images) = (Vec::new(), Vec::new());
        for new in created.iter().flatten() {
            match new {
                NewResource::Buffer(NewObject { from, to, size, copied: true, .. }) => {
                    copies.push(BufferCopy { from, from_offset: 0, to, to_offset: 0, size: *size });
                }
                NewResource::Image(NewObject {
                    cell, from, to, state: Some(state), copied: true, ..
                }) => {
                    full_images.push(FullImageCopy {
                        from,
                        to,
                        info: &cell.info,
                        before: *state,
                        after: *state,
                    });
                }
                NewResource::Buffer(_) | NewResource::Image(_) => {}
            }
        }
        if copies.is_empty() && full_images.is_empty() {
            return Ok(None);
        }
        // The copies read what other queues wrote, so they wait for all work submitted before.
        let waits: Vec<_> =
            recording.tracker().submitted().points().filter(|it| it.queue != self.queue).collect();
        let work =
            Submission { waits: &waits, copies: &copies, full_images: &full_images, ..Submission::default() };
        let device = self.memory.allocator().device();
        let submitted = recording.submit(self.queue, |queue| {
            // SAFETY: each new resource is the only one in its place and was created by the description of its old one,
            // and the device said that resources of this description can be copied. The old ones live at least until
            // this recording has completed, since their owners hold them or they are retired after it; so do the new
            // ones. The conditions for images are the promise of the caller of `create_image`.
            unsafe { device.submit(queue, &work) }
        });
        submitted.map(Some).map_err(|refused| refused.error)
    }
}

/// A step in progress. Puts the state back into its set when dropped, also after a panic.
struct StepGuard<'a, D: Device> {
    set: &'a MovableSet<D>,
    state: Option<State<D>>,
}

impl<D: Device> Drop for StepGuard<'_, D> {
    fn drop(&mut self) {
        *locked(&self.set.state) = self.state.take();
    }
}

/// A pass, and the resources created in its new places. Dropped before the pass ended, all resources stay in their places.
struct OpenPass<'a, 'p, D: Device> {
    memory: &'a OwningAllocator<D>,
    pass: Pass<'p, D>,
    /// One entry for each move, as far as created. Empty once the pass has ended.
    created: &'a mut Vec<Option<NewResource<D>>>,
}

impl<D: Device> Drop for OpenPass<'_, '_, D> {
    fn drop(&mut self) {
        let memory = self.memory;
        let mut made = self.created.drain(..);
        // The list is not empty only after a panic of the device. Whether a queue got the copies is unknown then, so the
        // new resources and their places are kept until all queues have completed their work.
        self.pass.cancel(|released, place| match released {
            Released::FreedSource => memory.retire::<Memory>(place),
            Released::Source | Released::Destination => match made.next().flatten() {
                Some(new) => new.retire(memory, place),
                None => memory.retire::<Memory>(place),
            },
        });
    }
}

/// Ignores the moves of all blocks from which some allocation cannot be moved: such a block stays anyway.
fn ignore_unmovable_blocks<D: Device>(
    device: &D,
    pass: &mut Pass<'_, D>,
    created: &mut [Option<NewResource<D>>],
) {
    for stays in 0..created.len() {
        if created[stays].is_some() || pass.moves()[stays].is_ignored() {
            continue;
        }
        for (index, new) in created.iter_mut().enumerate() {
            if pass.moves()[index].leaves_with(&pass.moves()[stays]) {
                pass.ignore(index);
                new.take().into_iter().for_each(|new| new.destroy(device));
            }
        }
    }
}

/// Returns the description of a movable allocation, whatever `desc` says.
fn movable(desc: &AllocationDesc) -> AllocationDesc {
    let desc = desc.clone();
    if desc.movability == Movability::Pinned { desc.movable(Movability::Copied) } else { desc }
}

impl<D: Device> State<D> {
    /// Returns true when this step has nothing to do: nothing changed, or the last survey is recent.
    fn is_idle(&mut self, now: Statistics) -> bool {
        self.idle_steps = self.idle_steps.saturating_sub(1);
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

impl<D: Device, C: MovableClass<D>> NewObject<D, C> {
    fn create(
        device: &D,
        cell: Arc<Cell<D, C>>,
        to: &Place<D>,
        [copied, host_visible]: [bool; 2],
    ) -> Option<Self> {
        let now = locked(&cell.current);
        let (from, size, state) = (now.resource.handle().clone(), now.resource.size(), now.state);
        drop(now);
        // SAFETY: the place is reserved for this resource, with the size and alignment that its description needs, in
        // memory that lives as long as the reservation.
        let to = unsafe { C::create(device, &cell.info, to.memory, to.offset) }.ok()?;
        Some(Self { cell, from, to, size, state, copied, host_visible })
    }
}

impl<D: Device> NewResource<D> {
    /// Returns the bytes that are copied.
    fn bytes(&self) -> u64 {
        let (size, copied) = match self {
            Self::Buffer(NewObject { size, copied, .. }) | Self::Image(NewObject { size, copied, .. }) => {
                (*size, *copied)
            }
        };
        if copied { size } else { 0 }
    }

    fn is_image(&self) -> bool {
        matches!(self, Self::Image(_))
    }

    /// Returns true when the CPU must not access the resource before the copy completes.
    fn blocks_cpu_access(&self) -> bool {
        match self {
            Self::Buffer(NewObject { copied, host_visible, .. })
            | Self::Image(NewObject { copied, host_visible, .. }) => *copied && *host_visible,
        }
    }

    fn replace_old(
        self,
        memory: &OwningAllocator<D>,
        old: crate::Allocation,
        copied_at: Option<TimelinePoint>,
    ) -> Option<PendingCopy<D>> {
        let arrives = copied_at.filter(|_| self.blocks_cpu_access());
        let pending = match self {
            Self::Buffer(NewObject { cell, to, copied, .. }) => {
                cell.replace(memory, to, old, arrives, copied);
                PendingCopy::Buffer(Arc::downgrade(&cell))
            }
            Self::Image(NewObject { cell, to, copied, .. }) => {
                cell.replace(memory, to, old, arrives, copied);
                PendingCopy::Image(Arc::downgrade(&cell))
            }
        };
        arrives.map(|_| pending)
    }

    /// Retires the new resource together with its place.
    fn retire(self, memory: &OwningAllocator<D>, place: crate::Allocation) {
        match self {
            Self::Buffer(NewObject { to, size, .. }) => memory.retire_parts::<Buffers>(to, size, place),
            Self::Image(NewObject { to, size, .. }) => memory.retire_parts::<Images>(to, size, place),
        }
    }

    /// Destroys the new resource, which no queue has used.
    fn destroy(self, device: &D) {
        match self {
            // SAFETY: created just now, and not used by anything.
            Self::Buffer(NewObject { to, .. }) => unsafe { <Buffers as Class<D>>::destroy(device, to) },
            // SAFETY: as above.
            Self::Image(NewObject { to, .. }) => unsafe { <Images as Class<D>>::destroy(device, to) },
        }
    }
}

impl<D: Device> PendingCopy<D> {
    /// Returns true when the copy has completed, or the resource was dropped.
    fn is_complete(&self) -> bool {
        match self {
            Self::Buffer(cell) => cell.upgrade().is_none_or(|cell| locked(&cell.current).finish_copy()),
            Self::Image(cell) => cell.upgrade().is_none_or(|cell| locked(&cell.current).finish_copy()),
        }
    }
}

impl<D: Device> Drop for MovableSet<D> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let runs = state.iter_mut().filter_map(|state| state.run.as_mut());
        runs.for_each(|run| self.memory.allocator().end_run(run));
    }
}

impl<D: Device> fmt::Debug for MovableSet<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovableSet")
            .field("members", &locked(&self.members).len())
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
