//! One object that owns the layers, and one loop that drives them.
//!
//! ```
//! use allotment::device::simulated::{Profile, SimulatedGpu};
//! use allotment::device::{BufferDesc, QueueDevice as _, QueueIndex, Submission};
//! use allotment::gpu::{Gpu, GpuDesc};
//! use allotment::{AllocationOptions, MemoryUsage, Requirements};
//!
//! const QUEUE: QueueIndex = QueueIndex(0);
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! let gpu = Gpu::new(device.clone(), GpuDesc::default())?; // cheap to clone, `Send` and `Sync`
//!
//! let options = MemoryUsage::GpuOnly.with_name("mesh");
//! let mesh = gpu.create_buffer(&BufferDesc::new(4096).into(), &options)?;
//! gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?;
//!
//! for number in 0..10_u32 {
//!     let frame = gpu.begin_frame()?; // waits while three frames are in flight
//!     let constants = frame.upload(number.to_ne_bytes())?; // transient memory of this frame
//!     println!("bind {:?} at {}", constants.buffer, constants.offset);
//!     let work = |queue, waits: &[_]| {
//!         // SAFETY: there is nothing in it. An engine submits its command buffers here.
//!         unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
//!     };
//!     frame.submit(QUEUE, work)?; // waits for the upload of the mesh
//!     frame.end()?; // reclaims, trims, defragments within its limits
//! }
//! drop(mesh); // destroyed once the GPU has completed the frames that may use it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What belongs to whom
//!
//! ```text
//!   Gpu ── Allocator, SubmissionTracker, DeletionQueue     at once
//!    │     Uploader, UploadPool, Defragmenter
//!    │     CommandAllocatorPool per queue                   on first use, as all below
//!    │     ShaderVisibleHeap ×2, SamplerCache, CpuDescriptorHeap ×4
//!    │     ReadbackRing (behind a lock)
//!    └─ Frame ── Recording, UploadArena                     ended by `end`, or dropped
//! ```
//!
//! A `Gpu` only saves wiring: it has no mechanism of its own, and every layer can be reached and used beside it.
//!
//! # When to use the layers directly
//!
//! | what the program does | what it uses |
//! |---|---|
//! | it has a frame loop that knows when the GPU has completed what | [`Allocator`], and [`DeletionQueue`] or a [`ReleaseQueue`](crate::lifetime::ReleaseQueue) |
//! | a thread streams gigabytes on a queue of its own, or with its own staging memory | an [`Uploader`] over [`Gpu::memory`] |
//! | commands are recorded over several frames | [`Gpu::record`] and [`Gpu::submit`]: a recording that belongs to no frame |
//! | it only computes | [`Gpu::record`], [`Gpu::submit`], and [`Gpu::reclaim`] now and then |
//! | uploads of one thread have a known maximum | an [`UploadRing`](crate::upload::UploadRing) |
//! | it frees memory by hand, and knows that the GPU has completed its use | tokens of [`Gpu::allocator`] |
//! | memory ranges of something that is no GPU | the crate [`allotment_suballoc`] |
//!
//! # The end
//!
//! When the last clone of a `Gpu` and the last frame are dropped, all layers together wait for the GPU for up to five
//! seconds, and for longer only as long as it completes something; what was retired is destroyed. What a GPU that hangs
//! may still use is leaked. Buffers and images that are still alive keep
//! the allocator and the device alive, and are destroyed when they are dropped. They are passed to the
//! [leak handler](crate::memory::reports::LeakHandler) at that moment, and descriptors that were not given back too, since
//! nothing else would ever tell of one that was forgotten: drop resources before the last `Gpu`. A program that wants to know
//! that the GPU has completed calls [`Gpu::wait_idle`] before.

mod commands;
mod desc;
mod descriptors;
mod error;
mod events;
mod frame;
mod part;
mod readback;
mod reads;
mod resources;
mod submit;
mod transient;
mod uploads;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub use desc::{GpuDesc, Maintenance};
pub use descriptors::Descriptors;
pub use error::{FrameError, GpuError, SubmitError};
pub use frame::{Frame, FrameReport, FrameUpload};
pub use readback::Readback;
pub use reads::Reads;
pub use transient::{
    FirstUse, TransientBuffer, TransientGraph, TransientHeap, TransientHeapError, TransientImage,
    TransientObject, TransientResources,
};
pub use uploads::Uploads;

use part::Part;

use crate::device::{Device, DeviceError, home_queue};
use crate::events::StallKind;
use crate::lifetime::{
    DeletionQueue, FramesInFlight, Reclaimed, SubmissionTracker, TimelinePoints, WrongDevice,
};
use crate::log::event;
use crate::memory::{
    Allocator, BlockGrowth, DefragmentationStep, Defragmenter, MaintenanceThread, OwningAllocator,
    report_left_by_gpu,
};
use crate::sync::locked;
use crate::upload::{ReadQueue, ReadbackRing, Streamed, UploadPool, Uploader};

/// A device with everything that manages its memory: allocator, submission tracker, deletion queue, uploads, and,
/// created on first use, descriptor heaps, command allocators and readback. A clone is the same one. `Send + Sync`.
///
/// The [module](self) has an example and says when to use the layers directly.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let loader = gpu.clone(); // the same Gpu, for another thread
/// let mesh = std::thread::spawn(move || {
///     let mesh = loader.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
///     loader.uploads().write_buffer(&mesh, 0, &[1; 4096])?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(mesh)
/// });
/// let mesh = mesh.join().unwrap().map_err(|error| error.to_string())?;
/// assert_eq!(mesh.size(), 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gpu<D: Device> {
    shared: Arc<Shared<D>>,
}

/// Dropped from top to bottom: first what creates work, then what work uses, the deletion queue last.
struct Shared<D: Device> {
    desc: GpuDesc,
    maintenance: Option<MaintenanceThread<D>>,
    /// Never locked during a wait.
    frames: Mutex<FramesInFlight>,
    next_frame: AtomicU64,
    command_allocators: Part,
    descriptors: Part,
    readback: Mutex<Option<ReadbackRing<D>>>,
    reads: ReadQueue<D>,
    upload_pool: UploadPool<D>,
    uploader: Uploader<D>,
    defragmenter: Defragmenter<D>,
    memory: OwningAllocator<D>,
    /// What the reader of events was last told.
    levels: Mutex<events::Levels>,
    /// Last, since it is dropped last: after all that is the `Gpu`'s own.
    _ending: Ending<D>,
}

// Not derived, since a clone needs no clone of the device.
impl<D: Device> Clone for Gpu<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Device + Clone> Gpu<D> {
    /// Creates the layers over a device. Allocates no device memory.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// let desc = GpuDesc::default().with_frames_in_flight(2);
    /// let gpu = Gpu::new(device, desc)?;
    /// assert_eq!(gpu.allocator().statistics().block_bytes, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`GpuError`], which names the part of the configuration that is invalid.
    #[inline(never)]
    pub fn new(device: D, desc: GpuDesc) -> Result<Self, GpuError> {
        let tracker = SubmissionTracker::new(device.clone()).map_err(GpuError::Queues)?;
        let allocator = Allocator::new(device, desc.allocator.clone()).map_err(GpuError::Allocator)?;
        let allocator = Arc::new(allocator);
        // Made for this device just now.
        let wrong = |error: WrongDevice| GpuError::Uploader(error.into());
        let memory = OwningAllocator::new(&allocator, &DeletionQueue::new(&tracker)).map_err(wrong)?;
        let uploader = Uploader::new(&memory, desc.uploader).map_err(GpuError::Uploader)?;
        let pages = desc.pages_for(allocator.device());
        // Always created, since it allocates no device memory: `relocatable` resources can then be created whether or
        // not the frames move them.
        let defragmenter = Defragmenter::new(&memory, desc.defragmentation.unwrap_or_default());
        let maintenance = match desc.maintenance {
            Maintenance::EndOfFrame => None,
            Maintenance::Thread => Some(MaintenanceThread::spawn(Arc::clone(&allocator))),
        };
        let maintenance = maintenance.transpose();
        let shared = Shared {
            maintenance: maintenance.map_err(|error| GpuError::MaintenanceThread(error.kind()))?,
            frames: Mutex::new(FramesInFlight::new(&tracker, desc.frames_in_flight)),
            next_frame: AtomicU64::new(0),
            command_allocators: Part::default(),
            descriptors: Part::default(),
            readback: Mutex::new(None),
            reads: ReadQueue::new(&memory, home_queue(allocator.device())),
            upload_pool: UploadPool::new(&allocator, &tracker, pages).map_err(wrong)?,
            uploader,
            defragmenter: defragmenter.map_err(GpuError::Defragmentation)?,
            memory,
            levels: Mutex::default(),
            _ending: Ending(Arc::clone(&allocator)),
            desc,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl<D: Device> Gpu<D> {
    /// Returns the configuration.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// println!("{} frames in flight, {:?}", gpu.desc().frames_in_flight, gpu.desc().timeout);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn desc(&self) -> &GpuDesc {
        &self.shared.desc
    }

    /// Returns the device.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// for queue in &gpu.device().properties().queues {
    ///     println!("a {queue:?} queue");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> &D {
        self.allocator().device()
    }

    /// Returns the allocator: pools, statistics, budgets, tokens.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let used = gpu.allocator().statistics();
    /// println!("{} allocations in {} bytes of blocks", used.allocations, used.block_bytes);
    /// assert_eq!(used.allocation_bytes, 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn allocator(&self) -> &Arc<Allocator<D>> {
        self.shared.memory.allocator()
    }

    /// Returns the allocator together with the deletion queue, for layers that create resources.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{Uploader, UploaderDesc};
    ///
    /// // A thread that streams a whole world has staging memory of its own.
    /// let streaming = Uploader::new(gpu.memory(), UploaderDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// streaming.initialize(&mesh, 0, &[7; 4096])?;
    /// gpu.wait(streaming.submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> &OwningAllocator<D> {
        &self.shared.memory
    }

    /// Returns the queue in which resources wait for the GPU before they are destroyed. It takes objects of any type.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let pipeline = String::from("a pipeline, or anything else that the GPU uses");
    /// let recording = gpu.record("a frame");
    /// drop(gpu.deletion_queue().own(pipeline)); // dropped once that recording is over
    /// assert_eq!(gpu.deletion_queue().statistics().pending, 1);
    /// drop(recording);
    /// assert_eq!(gpu.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deletion_queue(&self) -> &DeletionQueue {
        self.shared.memory.deletion_queue()
    }

    /// Returns the tracker of recordings and submissions.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// assert_eq!(gpu.tracker().statistics().open, 1);
    /// frame.end()?;
    /// assert_eq!(gpu.tracker().statistics().open, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        self.deletion_queue().tracker()
    }

    /// Returns the pages of [`Frame::upload`], for arenas of recordings that belong to no frame.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let recording = gpu.record("a lightmap");
    /// let mut arena = gpu.upload_pool().arena(recording.id());
    /// let mut lights = arena.allocate(1024, Alignment::new(256)?)?;
    /// lights.write(0, &[7; 1024])?;
    /// drop(arena);
    /// drop(recording); // discarded: the page is free at once
    /// gpu.reclaim();
    /// let pages = gpu.upload_pool().statistics();
    /// assert_eq!(pages.free_bytes, pages.bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn upload_pool(&self) -> &UploadPool<D> {
        &self.shared.upload_pool
    }

    /// Returns the defragmenter, which moves the relocatable buffers and images. [`Frame::end`] does its steps where
    /// [`GpuDesc::defragmentation`] asks for them.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::memory::defragmentation::{PassLimits, StepOutcome};
    ///
    /// // In a loading screen, without the limits of a frame.
    /// while gpu.defragmenter().step(PassLimits::NONE)?.outcome != StepOutcome::Idle {
    ///     gpu.wait_idle()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn defragmenter(&self) -> &Defragmenter<D> {
        &self.shared.defragmenter
    }

    /// Returns the uploads: writes to buffers and images from any thread.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?; // the next submission waits for it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn uploads(&self) -> Uploads<'_, D> {
        Uploads::new(&self.shared.uploader, self.tracker())
    }

    /// Begins a frame, once the GPU has completed enough of the frames before. With three [frames in
    /// flight](GpuDesc::frames_in_flight), frame N begins when the GPU has completed frame N − 3: it may still execute
    /// two, while the third is recorded.
    ///
    /// The next frame may begin before this one has ended: a program that records one frame while another thread
    /// submits the one before has one more in flight.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// for number in 0..10 {
    ///     let frame = gpu.begin_frame()?; // waits while three frames are in flight
    ///     assert_eq!(frame.number(), number);
    ///     frame.end()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FrameError::Wait`] after [`GpuDesc::timeout`], or where the device is lost. Nothing has changed.
    #[inline(never)]
    pub fn begin_frame(&self) -> Result<Frame<D>, FrameError> {
        let timeout = self.desc().timeout;
        // One deadline for all waits: other threads may end frames meanwhile, and each of them would begin the wait
        // anew.
        let began = Instant::now();
        let mut waited = false;
        loop {
            let oldest = locked(&self.shared.frames).oldest_to_wait_for();
            let Some(oldest) = oldest else { break };
            waited = true;
            event!(TRACE, "gpu", "all frames are in flight: waits for the oldest");
            // Without the lock, since a thread that ends a frame meanwhile needs it.
            let left = timeout.saturating_sub(began.elapsed());
            self.tracker()
                .wait_all(&oldest, left)
                .map_err(|error| FrameError::Wait(error.within(timeout)))?;
            locked(&self.shared.frames).forget_completed();
        }
        if waited {
            self.emit_wait(StallKind::FramesInFlight, began.elapsed());
        }
        // After the wait, so that a refused call leaves no gap: `Frame::slot` counts on consecutive numbers. Relaxed,
        // since nothing but the number is passed on.
        let number = self.shared.next_frame.fetch_add(1, Relaxed);
        Ok(Frame::new(self.clone(), number))
    }

    /// Submits pending uploads, waits until every queue has completed all submissions, and reclaims: also views that were in
    /// slots, and the images of views. Before a level is unloaded, a swapchain is resized or the program ends.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let level = gpu.create_buffer(&BufferDesc::new(1 << 20), &MemoryUsage::GpuOnly.with_name("level"))?;
    /// gpu.uploads().write_buffer(&level, 0, &[1; 1024])?;
    /// drop(level);
    /// gpu.wait_idle()?;
    /// assert_eq!(gpu.deletion_queue().statistics().pending, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FrameError::Uploads`], or [`FrameError::Wait`] after [`GpuDesc::timeout`] or where the device is lost.
    #[inline(never)]
    pub fn wait_idle(&self) -> Result<Reclaimed, FrameError> {
        // A copy that is only staged is on no queue, so the wait alone would not cover it.
        self.uploads().submit_all().map_err(FrameError::Uploads)?;
        // Where that fails, the handles say so.
        let _ = self.reads().submit();
        self.tracker().wait_idle(self.desc().timeout).map_err(FrameError::Wait)?;
        let mut reclaimed = Reclaimed::default();
        // What an object keeps is retired when the object is destroyed: a slot keeps a view, and the view its image. No more
        // often than for such a chain, since other threads may go on to retire objects.
        for _ in 0..4 {
            let now = self.reclaim();
            reclaimed += now;
            if now.count == 0 {
                break;
            }
        }
        Ok(reclaimed)
    }

    /// Waits for points, such as those that [`Uploads::submit`] returns, for at most [`GpuDesc::timeout`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?;
    /// gpu.wait(gpu.uploads().submit()?)?; // now any queue may read it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeviceError::TimedOut`] and [`DeviceError::Lost`].
    pub fn wait(&self, points: impl Into<TimelinePoints>) -> Result<(), DeviceError> {
        self.tracker().wait_all(&points.into(), self.desc().timeout)
    }

    /// Reclaims what the GPU has completed, in every layer. [`Frame::end`] does so; a program without frames calls this
    /// now and then. Waits for nothing; asks the driver how far the queues with work in flight are.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// drop(mesh); // no recording is open, and nothing is in flight
    /// assert_eq!(gpu.reclaim().count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn reclaim(&self) -> Reclaimed {
        let reclaimed = self.reclaim_of_frame();
        self.shared.uploader.poll();
        reclaimed
    }

    /// Reclaims as [`reclaim`](Self::reclaim) does, but waits for no thread that submits uploads.
    fn reclaim_of_frame(&self) -> Reclaimed {
        // Resources first: their destructors retire descriptors, which then come back one call earlier.
        let mut reclaimed = self.deletion_queue().reclaim();
        reclaimed += self.shared.upload_pool.reclaim();
        reclaimed += self.shared.descriptors.reclaim();
        reclaimed += self.shared.command_allocators.reclaim();
        self.reclaim_readback();
        self.shared.uploader.poll_of_frame();
        self.shared.reads.poll();
        reclaimed
    }

    /// Allocates blocks ahead of demand where that is asked for and no thread does it.
    fn maintain(&self) {
        let is_ahead = matches!(self.desc().allocator.block_growth, BlockGrowth::Ahead(_));
        if is_ahead && self.shared.maintenance.is_none() {
            // Only then: on demand, each request allocates its own block, and `Allocator::end_frame` frees one at most.
            // `maintain` would free all unwanted blocks in this one frame.
            self.allocator().maintain();
        }
    }

    /// Counts a frame as in flight.
    fn note_end_of_frame(&self) {
        // Uploads that nothing waits for are no part of it.
        let points = self.shared.uploader.without_streamed(self.tracker().submitted());
        locked(&self.shared.frames).end_at(points);
    }

    /// Does a step of defragmentation where that is asked for and nothing is recorded that may write to what would
    /// move.
    fn defragment_step(&self) -> Result<Option<DefragmentationStep>, FrameError> {
        let Some(desc) = &self.desc().defragmentation else { return Ok(None) };
        // Paused until all is moved: what another thread stages meanwhile would be an open recording, and so keep the step
        // from moving anything.
        let paused = self.shared.uploader.pause(Streamed::Submitted).map_err(FrameError::Uploads)?;
        // Resumed before the callback of what moved, which may upload, submit, and begin and end frames.
        let step = self.shared.defragmenter.step_and_then(desc.defragmentation.limits, || drop(paused));
        step.map(Some).map_err(FrameError::Defragmentation)
    }
}

/// Reports what is alive when the last `Gpu` is dropped: the allocator cannot, since that keeps it alive.
struct Ending<D: Device>(Arc<Allocator<D>>);

impl<D: Device> Drop for Ending<D> {
    fn drop(&mut self) {
        report_left_by_gpu(&self.0);
    }
}

impl<D: Device> fmt::Debug for Gpu<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("desc", self.desc())
            .field("allocator", &self.allocator().statistics())
            .field("deletion_queue", &self.deletion_queue().statistics())
            .finish_non_exhaustive()
    }
}
