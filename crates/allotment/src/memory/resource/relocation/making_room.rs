//! [`MakingRoom`]: resources that get their room by moving others.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use crate::device::Device;
use crate::memory::defragmentation::{Asked, Found, Run, Spent};
use crate::memory::request::{AllocationRequest, Moves};
use crate::memory::resource::relocation::defragmenter::{Defragmenter, State};
use crate::memory::resource::{BufferOrImage, Buffers, Images, Resource};
use crate::memory::token::Allocation;
use crate::memory::{
    AllocationOptions, Buffer, DefragmentationDesc, Image, Movability, Pass, PassLimits, ResourceError,
    RoomError,
};

/// What a [`Gpu`](crate::Gpu) does for a request that was refused.
pub(crate) trait RoomOfGpu {
    /// Submits what is staged: an open recording of uploads would keep the old places of moved resources. Returns false
    /// where it cannot, and the request is refused as it was.
    fn submit_uploads(&self) -> bool;

    /// Reclaims what the GPU is done with.
    fn reclaim(&self);
}

/// Creates buffers and images for which room is made, where there is no memory for them: by moving relocatable
/// resources of their pool, or in a full heap of [any pool
/// there](crate::memory::defragmentation::RequestDefragmentation#how-it-works). Then a call waits for the GPU: the memory that
/// those leave is free only once no work uses it.
///
/// [`Gpu::making_room`](crate::Gpu::making_room) and [`Defragmenter::making_room`] return one. Call it between frames: while
/// a recording is open, a request is refused where it would have to move anything.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// # let best = gpu.allocator().explain(&Requirements::new(1), &MemoryUsage::GpuOnly.into())[0].memory_type;
/// use allotment::memory::blocks::BlockSize;
///
/// let mut desc = PoolDesc::new([best]);
/// (desc.sizing, desc.max_blocks) = (Some(BlockSize::Fixed(1 << 20)), 1);
/// let pool = gpu.allocator().create_pool(desc)?;
/// let options = MemoryUsage::GpuOnly.with_name("tile").with_pool(&pool).relocatable();
/// let mut tiles = Vec::new();
/// for _ in 0..16 {
///     tiles.push(gpu.create_buffer(&BufferDesc::new(64 << 10), &options)?);
/// }
/// (0..8).for_each(|at| drop(tiles.remove(at))); // every other one
/// gpu.wait_idle()?;
///
/// let large = BufferDesc::new(512 << 10); // all that is free
/// assert!(gpu.create_buffer(&large, &options).is_err());
/// let large = gpu.making_room().create_buffer(&large, &options)?;
/// assert!(large.is_relocatable());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is created yet"]
#[derive(Clone, Copy)]
pub struct MakingRoom<'a, D: Device> {
    defragmenter: &'a Defragmenter<D>,
    timeout: Duration,
    /// `None` for a `Defragmenter` that is used without a `Gpu`.
    gpu: Option<&'a dyn RoomOfGpu>,
}

impl<'a, D: Device> MakingRoom<'a, D> {
    pub(crate) fn of_gpu(
        defragmenter: &'a Defragmenter<D>,
        timeout: Duration,
        gpu: &'a dyn RoomOfGpu,
    ) -> Self {
        Self { defragmenter, timeout, gpu: Some(gpu) }
    }

    /// Creates a buffer as [`Gpu::create_buffer`](crate::Gpu::create_buffer), or a relocatable one as
    /// [`Defragmenter::create_buffer`] does; makes room for it where there is none.
    ///
    /// # Errors
    ///
    /// Those of that call, but [`ResourceError::Room`] for want of memory. What was moved until then stays in its new
    /// place.
    #[inline(never)]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &D::BufferInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Buffer<D>, ResourceError> {
        self.create::<Buffers>(info, options)
    }

    /// Creates an image, as [`create_buffer`](Self::create_buffer) creates a buffer.
    ///
    /// # Errors
    ///
    /// Those of [`Defragmenter::create_image`], but [`ResourceError::Room`] for want of memory.
    #[inline(never)]
    #[track_caller]
    pub fn create_image(
        &self,
        info: &D::ImageInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<Image<D>, ResourceError> {
        self.create::<Images>(info, options)
    }

    #[track_caller]
    fn create<C: BufferOrImage<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
    ) -> Result<Resource<D, C>, ResourceError> {
        let Self { defragmenter, timeout, gpu } = *self;
        let Some(gpu) = gpu else {
            let queue = defragmenter.memory.deletion_queue();
            return defragmenter.create_in_room::<C>(info, options, timeout, &|| _ = queue.reclaim());
        };
        let is_pinned = options.movability == Movability::Pinned;
        let created = match is_pinned {
            true => defragmenter.memory.create::<C>(info, options),
            false => defragmenter.create::<C>(info, options),
        };
        match created {
            Err(ResourceError::Allocation(refused)) if refused.falls_through() => {
                if !gpu.submit_uploads() {
                    return Err(ResourceError::Allocation(refused));
                }
                let reclaim = || gpu.reclaim();
                match is_pinned {
                    true => defragmenter.create_pinned_in_room::<C>(info, options, timeout, &reclaim),
                    false => defragmenter.create_in_room::<C>(info, options, timeout, &reclaim),
                }
            }
            created => created,
        }
    }
}

impl<D: Device> fmt::Debug for MakingRoom<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakingRoom").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl<D: Device> Defragmenter<D> {
    /// Creates relocatable resources for which room is made; waits for the GPU for at most `timeout` for each. It is
    /// what [`Gpu::making_room`](crate::Gpu::making_room) is, for a program without a `Gpu`.
    pub fn making_room(&self, timeout: Duration) -> MakingRoom<'_, D> {
        MakingRoom { defragmenter: self, timeout, gpu: None }
    }

    /// Creates a relocatable resource so, where `reclaim` reclaims what the GPU is done with.
    #[track_caller]
    fn create_in_room<C: BufferOrImage<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        timeout: Duration,
        reclaim: &dyn Fn(),
    ) -> Result<Resource<D, C>, ResourceError> {
        let info = self.relocatable_info::<C>(info, options)?;
        match self.create_again::<C>(info.clone(), options) {
            Err(ResourceError::Allocation(refused)) if refused.falls_through() => {}
            created => return created,
        }
        let room = |request: &AllocationRequest<'_>| {
            self.make_room(request, timeout, reclaim).map_err(ResourceError::Room)
        };
        let moves = self.moves::<C>(options);
        let (resource, moves) = self.memory.create_in_room::<C>(&info, options, moves, room)?;
        Ok(self.adopt(info, resource, moves, options))
    }

    /// Creates a pinned resource, which was refused, where room is made for it.
    #[track_caller]
    fn create_pinned_in_room<C: BufferOrImage<D>>(
        &self,
        info: &C::Info<'_>,
        options: &AllocationOptions,
        timeout: Duration,
        reclaim: &dyn Fn(),
    ) -> Result<Resource<D, C>, ResourceError> {
        let room = |request: &AllocationRequest<'_>| {
            self.make_room(request, timeout, reclaim).map_err(ResourceError::Room)
        };
        let (resource, _) = self.memory.create_in_room::<C>(info, options, Moves::NONE, room)?;
        Ok(Resource::pinned(resource))
    }

    /// Moves resources until a request fits, and waits for the GPU to be done with their old places.
    fn make_room(
        &self,
        request: &AllocationRequest<'_>,
        timeout: Duration,
        reclaim: &dyn Fn(),
    ) -> Result<Allocation, RoomError> {
        let asked = Asked::of(request);
        // The old places wait for every recording that is open, whatever it does, and this thread may be the one to close
        // it.
        if !self.memory.deletion_queue().tracker().nothing_is_open() {
            return Err(asked.in_use());
        }
        // One deadline for all waits.
        let began = Instant::now();
        let mut guard = self.take_state(timeout).ok_or_else(|| asked.in_use())?;
        let Some(state) = guard.state() else { return Err(asked.in_use()) };
        let allocator = self.memory.allocator();
        // A run of the steps would keep this one from beginning, and places that are offered are room.
        state.end_run(allocator);
        self.withdraw_offers();
        let desc = DefragmentationDesc { limits: PassLimits::NONE, ..DefragmentationDesc::default() };
        let mut run = allocator.begin_room(request, desc, Some(self.mover))?;
        let done = self.execute(&mut run, state, asked, (began, timeout, reclaim));
        let room = done.and_then(|()| run.take_room());
        allocator.end_run(&mut run);
        self.reports.add(run.statistics);
        room
    }

    /// Executes all passes of a run, with the GPU idle after each.
    fn execute(
        &self,
        run: &mut Run,
        state: &mut State<D>,
        asked: Asked,
        (began, timeout, reclaim): (Instant, Duration, &dyn Fn()),
    ) -> Result<(), RoomError> {
        let (allocator, tracker) = (self.memory.allocator(), self.memory.deletion_queue().tracker());
        loop {
            // A descriptor heap that followed the last pass cannot follow another before its old copy is gone.
            let are_ready = state.followers_are_ready();
            // What a recording of another thread writes to an old place would be lost.
            let in_progress = tracker.begin_pass().ok_or_else(|| asked.in_use())?;
            self.keep_moved(state);
            let found = match are_ready {
                true => run.find(allocator, &mut state.moves, &mut Spent::default()),
                false => Found::LimitReached,
            };
            match found {
                Found::Moves => {
                    run.statistics.passes += 1;
                    let pass = Pass::new(allocator, run, &mut state.moves);
                    let State { created, pending, followers, .. } = state;
                    self.execute_pass(pass, created, pending, followers)?;
                }
                // Another thread opened a recording meanwhile, or keeps an old place otherwise.
                Found::LimitReached if began.elapsed() >= timeout => return Err(asked.in_use()),
                Found::LimitReached => std::thread::yield_now(),
                Found::Done => return Ok(()),
            }
            // Before the wait, and before what is reclaimed runs destructors.
            drop(in_progress);
            let left = timeout.saturating_sub(began.elapsed());
            tracker.wait_idle(left).map_err(|error| RoomError::from(error.within(timeout)))?;
            reclaim();
            self.report_moved(state);
            state.pending.retain(|resource| !resource.is_complete());
        }
    }
}
