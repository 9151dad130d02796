//! A set of resources that are moved together, a few a frame.

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
use crate::memory::defragmentation::{Found, Left, Run, Scope};
use crate::memory::owners::Memory;
use crate::memory::resource::{Buffers, Class, Images};
use crate::memory::statistics::Statistics;
use crate::memory::{
    AllocationOptions, DefragmentationDesc, DefragmentationStatistics, MemoryLocation, Movability, Move,
    Name, OwningAllocator, Pass, PassLimits,
};
use crate::sync::locked;

/// How a [`MovableSet`] works.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MovableSetDesc {
    /// What is worth moving, and what becomes of emptied blocks. The limits are those of each step.
    pub defragmentation: DefragmentationDesc,
    /// The queue that copies; unless said otherwise the first that can draw, else the first. On Vulkan an image belongs
    /// to a queue family, and this must be one of it.
    pub queue: Option<QueueIndex>,
}

impl MovableSetDesc {
    /// By a strategy, with the defaults for everything else.
    #[must_use]
    pub fn new(defragmentation: DefragmentationDesc) -> Self {
        Self { defragmentation, queue: None }
    }

    /// The same over a queue.
    #[must_use]
    pub const fn on_queue(mut self, queue: QueueIndex) -> Self {
        self.queue = Some(queue);
        self
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Something was moved.
    Moved,
    /// Time was up, or what was to be moved could not be; the next step goes on.
    LimitReached,
    /// There is nothing to gain at present.
    Idle,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefragmentationStep {
    /// What it came to.
    pub outcome: StepOutcome,
    /// Resources that have another handle now.
    pub moves: u32,
    /// Bytes that the queue copies for it.
    pub bytes: u64,
    /// Where the copies are over. What uses moved resources on another queue than the set's waits for it.
    pub copied_at: Option<TimelinePoint>,
}

impl DefragmentationStep {
    const fn without_moves(outcome: StepOutcome) -> Self {
        Self { outcome, moves: 0, bytes: 0, copied_at: None }
    }
}

/// Steps without a look at the pools after there was nothing to gain, unless much was freed since: a survey takes a
/// microsecond for every few allocations.
const REST: u32 = 16;

/// The same where the sums are what they were.
const LONG_REST: u32 = 256;

/// What part of an average block is much.
const MUCH: u64 = 8;

/// Buffers and images that are moved for their owners, so that the allocator's default pools stay in few blocks.
///
/// [`defragment_step`](Self::defragment_step) is called once a frame. It looks around, or plans, or moves a few
/// resources, whatever is next, within its limits; mostly there is nothing to do. `Send + Sync`: resources are made and
/// used on any thread.
///
/// ```text
///   frame n     recordings use the old buffer
///   step        new buffer in the reserved place ── copy ──► submitted; handle() is the new one
///   frame n+1   recordings use the new buffer
///   later       the GPU is done with frame n and the copy: the old buffer and its place go, and
///               with the last one of a block the block
/// ```
///
/// Nothing waits: the copy is work like any other, and what was is retired like any other
/// ([`lifetime`](crate::lifetime)). Descriptors that name a moved resource are written again by whoever wrote them:
/// [`Movable::moves`](super::Movable::moves) says when.
///
/// Resources in memory that queues cannot both read and write (upload and readback heaps of Direct3D 12) stay.
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
/// use allotment::{Allocator, AllocatorDesc, MemoryUsage};
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
/// let options = MemoryUsage::GpuOnly.with_name("mesh");
/// let mut meshes = Vec::new();
/// for _ in 0..16 {
///     meshes.push(set.create_buffer(BufferDesc::new(256 << 10), &options)?);
/// }
/// let mut index = 0;
/// meshes.retain(|_| (index % 4 == 0, index += 1).0); // one of each block is left
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
    /// `None` while somebody does a step.
    state: Mutex<Option<State<D>>>,
    /// Of all that is over.
    statistics: Mutex<DefragmentationStatistics>,
}

struct State<D: Device> {
    /// While there is something to do.
    run: Option<Run>,
    /// Room for the moves of a step.
    moves: Vec<Move<D>>,
    arrivals: Vec<Option<Arrival<D>>>,
    /// What the CPU is kept from until its bytes are there.
    awaited: Vec<Awaited<D>>,
    /// Steps until the pools are looked at again.
    rest: u32,
    /// How the pools were when there was nothing to gain.
    seen: Statistics,
}

/// A resource that was made in its new place.
enum Arrival<D: Device> {
    Buffer(New<D, Buffers>),
    Image(New<D, Images>),
}

struct New<D: Device, C: MovableClass<D>> {
    cell: Arc<Cell<D, C>>,
    from: C::Handle,
    to: C::Handle,
    size: u64,
    state: Option<C::State>,
    copied: bool,
    /// The CPU reaches its bytes, and may come too early.
    reached: bool,
}

/// A resource whose bytes are on their way.
enum Awaited<D: Device> {
    Buffer(Weak<Cell<D, Buffers>>),
    Image(Weak<Cell<D, Images>>),
}

impl<D: Device> MovableSet<D> {
    /// A set of resources of `memory`.
    ///
    /// # Errors
    ///
    /// [`MoveError::NoSuchQueue`]; [`MoveError::WrongDevice`] where `memory` retires what it makes by a tracker that is not
    /// over the allocator's own device.
    pub fn new(memory: &OwningAllocator<D>, desc: MovableSetDesc) -> Result<Self, MoveError> {
        if !memory.deletion_queue().tracker().tracks(memory.allocator().device()) {
            return Err(MoveError::WrongDevice);
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
            arrivals: Vec::new(),
            awaited: Vec::new(),
            rest: 0,
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

    /// What the resources are from.
    #[must_use]
    pub fn memory(&self) -> &OwningAllocator<D> {
        &self.memory
    }

    /// What the steps did so far.
    #[must_use]
    pub fn statistics(&self) -> DefragmentationStatistics {
        *locked(&self.statistics)
    }

    /// As [`OwningAllocator::create_buffer`]; it may be moved. Of `options`, [`Movability::Recreated`] says that its bytes
    /// need not be copied; it moves either way.
    ///
    /// On Vulkan, a buffer that one queue family owns belongs to that of the set's queue.
    ///
    /// # Errors
    ///
    /// [`MovableError`].
    pub fn create_buffer(
        &self,
        info: D::BufferInfo<'static>,
        options: &AllocationOptions,
    ) -> Result<MovableBuffer<D>, MovableError> {
        if !self.memory.allocator().device().is_copyable_buffer(&info) {
            return Err(MovableError::NotCopyable);
        }
        self.create::<Buffers>(info, options)
    }

    /// As [`OwningAllocator::create_image`]; it may be moved, as [`create_buffer`](Self::create_buffer) says. Until its
    /// [state](MovableImage::set_state) is said nothing is copied, and the new one is as images are when they are made.
    ///
    /// # Errors
    ///
    /// [`MovableError`]; [`NotCopyable`](MovableError::NotCopyable), too, where the set's queue does not draw.
    ///
    /// # Safety
    ///
    /// Whenever a step is called, all of the image is in the state that was [said](MovableImage::set_state) last, or
    /// will be when all that was submitted is done; nothing that is recorded and not submitted by then uses it on
    /// another queue than the set's, nor leaves it in another state; and what uses it on another queue later waits for
    /// [`copied_at`](DefragmentationStep::copied_at). On Vulkan it belongs to the family of the set's queue.
    pub unsafe fn create_image(
        &self,
        info: D::ImageInfo<'static>,
        options: &AllocationOptions,
    ) -> Result<MovableImage<D>, MovableError> {
        let device = self.memory.allocator().device();
        let queue = device.properties().queues.get(usize::from(self.queue.0));
        // Others do not copy every image: those with several samples or depth, say.
        let draws = queue.is_some_and(|queue| queue.kind == QueueKind::Graphics);
        if !draws || !device.is_copyable_image(&info) {
            return Err(MovableError::NotCopyable);
        }
        self.create::<Images>(info, options)
    }

    fn create<C: MovableClass<D>>(
        &self,
        info: C::Info<'static>,
        options: &AllocationOptions,
    ) -> Result<Movable<D, C>, MovableError> {
        let (resource, movability) = self.memory.create_pinned::<C>(&info, &movable(options))?;
        let made = Movable::new(&self.members, info, resource, None);
        // Only now, when a step finds it among the members, and nobody else can take it for theirs.
        made.with(|it| self.memory.allocator().allow_moves(it.allocation(), movability, true));
        Ok(made)
    }

    /// Does a frame's part of defragmenting the default pools. The copies are submitted when it returns, after all that
    /// queues were given before, and the moved resources have other handles.
    ///
    /// Between the steps of one run places are reserved, and nobody else begins to defragment the default pools;
    /// [`stop`](Self::stop) ends it.
    ///
    /// Where the CPU reaches a moved resource, it is kept from its bytes until they are there:
    /// [`AccessError::Moving`](crate::memory::AccessError::Moving).
    ///
    /// Call it where nothing is recorded and not submitted that writes to resources of the set: such a write would go
    /// to where they were, and be lost. What reads them by their old handles may be open or in flight, on any queue.
    /// Uploads to them are [submitted](crate::upload::Uploader::submit) before.
    ///
    /// Allocations that are movable and not of this set stay. Where another thread is doing a step, this does nothing
    /// and says [`LimitReached`](StepOutcome::LimitReached).
    ///
    /// # Errors
    ///
    /// [`MoveError`]. Everything stays where it was.
    pub fn defragment_step(&self, limits: PassLimits) -> Result<DefragmentationStep, MoveError> {
        // Taken out, so that no lock is held while the driver works.
        let Some(state) = locked(&self.state).take() else {
            return Ok(DefragmentationStep::without_moves(StepOutcome::LimitReached));
        };
        let mut stepping = Stepping { set: self, state: Some(state) };
        match &mut stepping.state {
            Some(state) => self.step(state, limits),
            None => unreachable!("taken when it goes"),
        }
    }

    fn step(&self, state: &mut State<D>, limits: PassLimits) -> Result<DefragmentationStep, MoveError> {
        let allocator = self.memory.allocator();
        state.awaited.retain(|resource| !resource.has_arrived());
        if state.run.is_none() && state.is_at_rest(allocator.statistics()) {
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
                self.carry_out(pass, &mut state.arrivals, &mut state.awaited)
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
            (state.rest, state.seen) = (LONG_REST, allocator.statistics());
        }
        done
    }

    /// Ends what the steps are at: nothing is reserved any more, and others may defragment the default pools. The next
    /// step begins anew. For who does no step for a while. Does nothing while another thread does a step.
    pub fn stop(&self) {
        // The lock is let go of here.
        let state = locked(&self.state).take();
        if let Some(mut state) = state {
            state.run.take().into_iter().for_each(|mut run| self.memory.allocator().end_run(&mut run));
            *locked(&self.state) = Some(state);
        }
    }

    /// Makes everything in its new place, copies, and hands it over.
    fn carry_out(
        &self,
        pass: Pass<'_, D>,
        arrivals: &mut Vec<Option<Arrival<D>>>,
        awaited: &mut Vec<Awaited<D>>,
    ) -> Result<DefragmentationStep, MoveError> {
        debug_assert!(arrivals.is_empty(), "a step ends before the next begins");
        let device = self.memory.allocator().device();
        let mut open = OpenPass { memory: &self.memory, pass, arrivals };
        let OpenPass { pass, arrivals, .. } = &mut open;
        arrivals.extend(pass.moves().iter().map(|one| self.make(one)));
        // Named once the pass knows them: what panics before that is never destroyed.
        for (one, arrival) in pass.moves().iter().zip(arrivals.iter()) {
            arrival.iter().for_each(|arrival| self.name(one, arrival));
        }
        leave_with_their_blocks(device, pass, arrivals);
        let record = || self.memory.deletion_queue().tracker().record("defragmentation");
        let mut submitted = self.submit(record(), arrivals);
        if submitted == Err(DeviceError::Unsupported) && arrivals.iter().flatten().any(Arrival::is_image) {
            // One image that cannot be copied in its state must not keep everything else where it is.
            for arrival in arrivals.iter_mut() {
                arrival.take_if(|arrival| arrival.is_image()).into_iter().for_each(|it| it.unmake(device));
            }
            leave_with_their_blocks(device, pass, arrivals);
            submitted = self.submit(record(), arrivals);
        }
        let copied_at = match submitted {
            Ok(point) => point,
            Err(error) => {
                // No queue has seen them.
                arrivals.drain(..).flatten().for_each(|arrival| arrival.unmake(device));
                return Err(MoveError::Device(error));
            }
        };
        let mut step = DefragmentationStep { outcome: StepOutcome::Moved, moves: 0, bytes: 0, copied_at };
        let arriving: Vec<_> =
            arrivals.iter().map(|arrival| arrival.as_ref().is_some_and(Arrival::is_awaited)).collect();
        let mut ended = arrivals.drain(..);
        // They come in the same order.
        let leave = |left: Left, place| {
            // Freed by its owner meanwhile: a queue may be reading it.
            if matches!(left, Left::Freed) {
                return self.memory.retire::<Memory>(place);
            }
            match (left, ended.next().flatten()) {
                (Left::Old, Some(arrival)) => {
                    step.moves += 1;
                    step.bytes += arrival.bytes();
                    awaited.extend(arrival.hand_over(&self.memory, place, copied_at));
                }
                // As above; a queue may be writing to it.
                (_, Some(arrival)) => arrival.retire(&self.memory, place),
                (_, None) => self.memory.allocator().free_own(place),
            }
        };
        pass.finish(|index| arriving[index], leave);
        if step.moves == 0 {
            step.outcome = StepOutcome::LimitReached;
        }
        Ok(step)
    }

    /// Makes a resource of the set in its new place. `None` where it is none of the set's, or cannot be made there.
    fn make(&self, moved: &Move<D>) -> Option<Arrival<D>> {
        let device = self.memory.allocator().device();
        let found = device.properties().memory_type(moved.to().memory_type)?;
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        if found.properties.intersects(one_way) {
            return None;
        }
        let copied = moved.contents() == Movability::Copied;
        let reached = moved.to().mapped_ptr.is_some();
        let members = locked(&self.members);
        match members.get(&moved.id())? {
            Member::Buffer(cell) => {
                let cell = cell.upgrade()?;
                drop(members);
                New::make(device, cell, &moved.to(), [copied, reached]).map(Arrival::Buffer)
            }
            Member::Image(cell) => {
                let cell = cell.upgrade()?;
                drop(members);
                let new = New::make(device, cell, &moved.to(), [copied, reached])?;
                let copied = new.copied && new.state.is_some();
                Some(Arrival::Image(New { copied, ..new }))
            }
        }
    }

    /// Gives a resource in its new place the name that it has in the old one.
    fn name(&self, moved: &Move<D>, arrival: &Arrival<D>) {
        let allocator = self.memory.allocator();
        let name = allocator.info_of(moved.id()).ok().and_then(|info| info.name);
        let Some(name) = name.as_ref().map(Name::as_str) else { return };
        match arrival {
            // SAFETY: made just now.
            Arrival::Buffer(New { to, .. }) => unsafe {
                <Buffers as Class<D>>::name(allocator.device(), to, name);
            },
            // SAFETY: as above.
            Arrival::Image(New { to, .. }) => unsafe {
                <Images as Class<D>>::name(allocator.device(), to, name);
            },
        }
    }

    /// Submits the copies. `None` where there is nothing to copy.
    fn submit(
        &self,
        recording: Recording,
        arrivals: &[Option<Arrival<D>>],
    ) -> Result<Option<TimelinePoint>, DeviceError> {
        let (mut copies, mut full_images) = (Vec::new(), Vec::new());
        for arrival in arrivals.iter().flatten() {
            match arrival {
                Arrival::Buffer(New { from, to, size, copied: true, .. }) => {
                    copies.push(BufferCopy { from, from_offset: 0, to, to_offset: 0, size: *size });
                }
                Arrival::Image(New { cell, from, to, state: Some(state), copied: true, .. }) => {
                    full_images.push(FullImageCopy {
                        from,
                        to,
                        info: &cell.info,
                        before: *state,
                        after: *state,
                    });
                }
                Arrival::Buffer(_) | Arrival::Image(_) => {}
            }
        }
        if copies.is_empty() && full_images.is_empty() {
            return Ok(None);
        }
        // What other queues wrote by then is there.
        let waits: Vec<_> =
            recording.tracker().submitted().points().filter(|it| it.queue != self.queue).collect();
        let work =
            Submission { waits: &waits, copies: &copies, full_images: &full_images, ..Submission::default() };
        let device = self.memory.allocator().device();
        let submitted = recording.submit(self.queue, |queue| {
            // SAFETY: each new resource stands alone in its place and was made by the description of its old one, and
            // the device said that such can be copied; the old ones live at least until this recording is over, as they
            // are owners' or will be retired after it, and so do the new ones; what holds for images their maker
            // promised.
            unsafe { device.submit(queue, &work) }
        });
        submitted.map(Some).map_err(|refused| refused.error)
    }
}

/// A step that is being done. What it took out of its set is put back when it ends, however it ends.
struct Stepping<'a, D: Device> {
    set: &'a MovableSet<D>,
    state: Option<State<D>>,
}

impl<D: Device> Drop for Stepping<'_, D> {
    fn drop(&mut self) {
        *locked(&self.set.state) = self.state.take();
    }
}

/// A pass and what was made in its new places. Dropped before it ended, everything stays where it was.
struct OpenPass<'a, 'p, D: Device> {
    memory: &'a OwningAllocator<D>,
    pass: Pass<'p, D>,
    /// One for each move, as far as they were made. Empty once the pass ended.
    arrivals: &'a mut Vec<Option<Arrival<D>>>,
}

impl<D: Device> Drop for OpenPass<'_, '_, D> {
    fn drop(&mut self) {
        let memory = self.memory;
        let mut made = self.arrivals.drain(..);
        // Only where the device panicked is there still something. Whether a queue has its copies is not known then, so
        // it and its place stay until all queues have completed what they were given.
        self.pass.cancel(|left, place| match left {
            Left::Freed => memory.retire::<Memory>(place),
            Left::Old | Left::New => match made.next().flatten() {
                Some(arrival) => arrival.retire(memory, place),
                None => memory.retire::<Memory>(place),
            },
        });
    }
}

/// Leaves undone what leaves its block together with something that cannot be moved: the block stays anyway.
fn leave_with_their_blocks<D: Device>(
    device: &D,
    pass: &mut Pass<'_, D>,
    arrivals: &mut [Option<Arrival<D>>],
) {
    for stays in 0..arrivals.len() {
        if arrivals[stays].is_some() || pass.moves()[stays].is_ignored() {
            continue;
        }
        for (index, arrival) in arrivals.iter_mut().enumerate() {
            if pass.moves()[index].leaves_with(&pass.moves()[stays]) {
                pass.ignore(index);
                arrival.take().into_iter().for_each(|arrival| arrival.unmake(device));
            }
        }
    }
}

/// Whatever it says, it moves.
fn movable(options: &AllocationOptions) -> AllocationOptions {
    let options = options.clone();
    if options.movability == Movability::Pinned {
        options.with_movability(Movability::Copied)
    } else {
        options
    }
}

impl<D: Device> State<D> {
    /// Whether there is nothing to do in this step, since nothing changed or was looked at a moment ago.
    fn is_at_rest(&mut self, now: Statistics) -> bool {
        self.rest = self.rest.saturating_sub(1);
        let more_free = now.free().saturating_sub(self.seen.free());
        let block = now.block_bytes / u64::from(now.blocks + now.dedicated).max(1);
        let much_was_freed = more_free >= (block / MUCH).max(1);
        // Where nothing seems to have changed, other things of the same sizes may be there.
        let rested = if now == self.seen { self.rest == 0 } else { self.rest <= LONG_REST - REST };
        !much_was_freed && !rested
    }
}

impl<D: Device, C: MovableClass<D>> New<D, C> {
    fn make(
        device: &D,
        cell: Arc<Cell<D, C>>,
        to: &MemoryLocation<D>,
        [copied, reached]: [bool; 2],
    ) -> Option<Self> {
        let now = locked(&cell.now);
        let (from, size, state) = (now.resource.handle().clone(), now.resource.size(), now.state);
        drop(now);
        // SAFETY: the place is reserved for it, of the size and alignment that its description needs, in memory that
        // lives as long as the reservation.
        let to = unsafe { C::create(device, &cell.info, to.memory, to.offset) }.ok()?;
        Some(Self { cell, from, to, size, state, copied, reached })
    }
}

impl<D: Device> Arrival<D> {
    /// Bytes that are copied.
    fn bytes(&self) -> u64 {
        let (size, copied) = match self {
            Self::Buffer(New { size, copied, .. }) | Self::Image(New { size, copied, .. }) => {
                (*size, *copied)
            }
        };
        if copied { size } else { 0 }
    }

    fn is_image(&self) -> bool {
        matches!(self, Self::Image(_))
    }

    /// Whether the CPU is kept from its bytes until they are there.
    fn is_awaited(&self) -> bool {
        match self {
            Self::Buffer(New { copied, reached, .. }) | Self::Image(New { copied, reached, .. }) => {
                *copied && *reached
            }
        }
    }

    fn hand_over(
        self,
        memory: &OwningAllocator<D>,
        old: crate::Allocation,
        copied_at: Option<TimelinePoint>,
    ) -> Option<Awaited<D>> {
        let arrives = copied_at.filter(|_| self.is_awaited());
        let awaited = match self {
            Self::Buffer(New { cell, to, copied, .. }) => {
                cell.arrive(memory, to, old, arrives, copied);
                Awaited::Buffer(Arc::downgrade(&cell))
            }
            Self::Image(New { cell, to, copied, .. }) => {
                cell.arrive(memory, to, old, arrives, copied);
                Awaited::Image(Arc::downgrade(&cell))
            }
        };
        arrives.map(|_| awaited)
    }

    /// Retires it with the place that it was made in.
    fn retire(self, memory: &OwningAllocator<D>, place: crate::Allocation) {
        match self {
            Self::Buffer(New { to, size, .. }) => memory.retire_parts::<Buffers>(to, size, place),
            Self::Image(New { to, size, .. }) => memory.retire_parts::<Images>(to, size, place),
        }
    }

    /// Destroys it, whom no queue has seen.
    fn unmake(self, device: &D) {
        match self {
            // SAFETY: made just now, and used by nobody.
            Self::Buffer(New { to, .. }) => unsafe { <Buffers as Class<D>>::destroy(device, to) },
            // SAFETY: as above.
            Self::Image(New { to, .. }) => unsafe { <Images as Class<D>>::destroy(device, to) },
        }
    }
}

impl<D: Device> Awaited<D> {
    /// True as well where it is gone.
    fn has_arrived(&self) -> bool {
        match self {
            Self::Buffer(cell) => cell.upgrade().is_none_or(|cell| locked(&cell.now).settle()),
            Self::Image(cell) => cell.upgrade().is_none_or(|cell| locked(&cell.now).settle()),
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
