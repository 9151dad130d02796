//! Transient resources of frames: real buffers and images, in memory that they share.
//!
//! ```text
//!   TransientHeap       the program's: plan, memory, resources, views
//!     Frame::transient   ──► TransientGraph       the passes of a frame and the resources that they use
//!     plan               ──► TransientResources   buffers, images, views; first uses and waits of each pass
//! ```
//!
//! What a plan has created stays as long as frames are described alike. Where one is not, resources that keep their description
//! and their place stay what they were, with their views; the others are created, and the old ones retired. Frames of up to
//! four kinds that come in turn keep the resources of each, in memory in which the largest fits.

mod error;
mod graph;
mod known;
mod made;
mod resources;
mod views;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

pub use error::TransientHeapError;
pub use graph::TransientGraph;
pub use resources::{FirstUse, TransientBuffer, TransientImage, TransientObject, TransientResources};

use known::Known;
use made::MadePlan;

use super::{Frame, Gpu};
use crate::device::{Device, QueueIndex, TimelinePoint};
use crate::lifetime::TimelinePoints;
use crate::memory::{Name, OwningAllocator};
use crate::transient::{HeapLimits, TransientPlan, TransientPlanner};

/// The next frame's number, which tells the handles of one from those of every other, also of another heap.
static NEXT_FRAME: AtomicU64 = AtomicU64::new(1);

/// The transient resources of frames: those that live for some passes of one, and share memory with others that do not at the same
/// time. Render targets of a frame graph, for example.
///
/// Each frame describes its passes and the buffers and images that they use, and gets real ones, which a
/// [plan](crate::transient) has placed. A frame that is described as the one before, or as another of late that has come back
/// before, costs no call of the driver. What no frame needs any more is retired as every buffer and image is.
///
/// ```
/// use allotment::device::simulated::{Profile, SimulatedGpu};
/// use allotment::lifetime::TimelinePoints;
/// use allotment::prelude::*;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let mut heap = gpu.transient_heap(Default::default());
/// let target = ImageDesc::new(1920, 1080, 4);
/// for _ in 0..3 {
///     let frame = gpu.begin_frame()?;
///     let mut graph = frame.transient(&mut heap)?;
///     let queue = QueueIndex(0);
///     let (geometry, lighting) = (graph.pass(queue, &[])?, graph.pass(queue, &[])?);
///     let (bloom, tonemap) = (graph.pass(queue, &[])?, graph.pass(queue, &[])?);
///     let albedo = graph.image("albedo", &target, &[geometry, lighting])?;
///     let lit = graph.image("lit", &target, &[lighting, bloom, tonemap])?;
///     let bright = graph.image("bright", &target, &[bloom, tonemap])?;
///     let transient = graph.plan()?;
///
///     for pass in [geometry, lighting, bloom, tonemap] {
///         for first in transient.first_uses(pass) {
///             // a barrier from `UNDEFINED`, or an aliasing barrier and a discard, of `first.object`
///         }
///         println!("pass {} renders to {:?}", pass.number(), transient.image(lit).handle());
///     }
///     let passes = [geometry, lighting, bloom, tonemap];
///     let mut room = TimelinePoints::ROOM;
///     let waits = transient.waits(&passes);
///     let point = frame.submit_after(queue, waits.as_slice(&mut room), |queue, waits| {
///         // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
///         unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
///     })?;
///     transient.submitted(&passes, point);
///     assert!(transient.plan().size() < transient.plan().total_size(), "`bright` has the bytes of `albedo`");
///     frame.end()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What the program does
///
/// Its commands are the only ones that use the bytes of a transient resource: uploads, reads and the other copies of the library
/// refuse it ([`AccessError::Transient`](crate::memory::AccessError::Transient)), unless it has memory of its own.
///
/// - Before the first pass that uses a resource, it records a barrier and overwrites, clears or discards the contents
///   ([`first_uses`](TransientResources::first_uses)).
/// - A submission waits for what [`waits`](TransientResources::waits) returns, and passes wait for those that it has
///   [named](TransientGraph::pass).
///
/// # Which share memory
///
/// Those of one memory type, and where the device keeps linear and optimal resources apart, of one kind. A resource that requires
/// dedicated memory has its own, as has an attachment where the device allocates memory lazily; a driver's mere preference for
/// dedicated memory is set aside. What the [limits](HeapLimits) leave no room for has its own memory too.
pub struct TransientHeap<D: Device> {
    memory: OwningAllocator<D>,
    /// Of its memory.
    name: Name,
    planner: TransientPlanner,
    known: Known<D>,
    made: MadePlan<D>,
    /// What was created for other frames, which come back in turn with this one.
    held: Vec<MadePlan<D>>,
    /// The highest number of a plan that was created.
    highest_number: u64,
    /// There was no memory for less memory, since the last plan.
    cannot_shrink: bool,
    /// Of each resource of the frame, where it is among those that are known.
    described: Vec<u32>,
    /// Of each pass of the frame.
    queues: Vec<QueueIndex>,
    /// The queues of this frame's passes, and of those before it that may not be through; one bit for each.
    used_queues: u16,
    points: Mutex<Noted>,
    /// The same of the frame before, and the number of its plan.
    points_before: Vec<Option<TimelinePoint>>,
    number_before: u64,
    /// The number of the last frame that was described.
    last_frame: u64,
}

/// What is known of the submissions of a frame.
#[derive(Default)]
struct Noted {
    /// When each pass was submitted.
    points: Vec<Option<TimelinePoint>>,
    /// What the queues were given before the first of them, once anybody has asked.
    before: Option<TimelinePoints>,
}

impl<D: Device> fmt::Debug for TransientHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.planner.current();
        let mut heap = f.debug_struct("TransientHeap");
        heap.field("plan", &plan.number()).field("size", &plan.size()).finish_non_exhaustive()
    }
}

impl<D: Device> TransientHeap<D> {
    /// Sets the name of the memory that its resources share, as reports and recordings show it. Without it, it is
    /// "transient heap".
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mut heap = gpu.transient_heap(Default::default()).with_name("targets of the left eye");
    /// let frame = gpu.begin_frame()?;
    /// let mut graph = frame.transient(&mut heap)?;
    /// let pass = graph.pass(QueueIndex(0), &[])?;
    /// graph.buffer("counters", &BufferDesc::new(4096), &[pass])?;
    /// graph.plan()?;
    /// assert!(gpu.allocator().reports().dump_json().contains("targets of the left eye"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_name(self, name: impl Into<Name>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the last plan; an empty one before the first.
    #[must_use]
    pub fn plan(&self) -> &TransientPlan {
        self.planner.current()
    }

    /// Returns the bytes of memory that the resources have: what the plan needs, what was kept of a larger one, and memory of their
    /// own. Of frames that come in turn, the largest counts, and what has memory of its own in each. Once one has not come for 8
    /// frames, the next one gives back what it alone needed: placed resources are created anew then, and a history is not kept.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mut heap = gpu.transient_heap(Default::default());
    /// let frame = gpu.begin_frame()?;
    /// let mut graph = frame.transient(&mut heap)?;
    /// let [blur, mix] = [graph.pass(QueueIndex(0), &[])?, graph.pass(QueueIndex(0), &[])?];
    /// graph.buffer("rows", &BufferDesc::new(4096), &[blur])?;
    /// graph.buffer("columns", &BufferDesc::new(4096), &[mix])?;
    /// graph.plan()?;
    /// frame.end()?;
    /// assert_eq!(heap.size(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> u64 {
        let plans = core::iter::once(&self.made).chain(&self.held);
        let mut allocations: Vec<_> = plans.flat_map(MadePlan::allocations).collect();
        allocations.sort_unstable();
        allocations.dedup();
        allocations.iter().map(|(_, size)| size).sum()
    }

    /// Looks for a plan of fewer bytes for the last frame, until `stop` returns `true` or none is possible. A frame that is
    /// described as that one gets it. What it places elsewhere is created anew, and a history has lost its contents. See
    /// [`TransientPlanner::improve`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use std::time::{Duration, Instant};
    ///
    /// let mut heap = gpu.transient_heap(Default::default());
    /// // … at the end of loading, after a frame:
    /// let began = Instant::now();
    /// let plan = heap.improve(|| began.elapsed() > Duration::from_millis(20));
    /// println!("{} bytes, at least {}", plan.size(), plan.lower_bound());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn improve(&mut self, stop: impl FnMut() -> bool) -> &TransientPlan {
        self.planner.improve(stop)
    }

    /// Retires all resources and their memory. The next frame creates its own. The memory is free once the frame that is open has
    /// ended and the GPU is done with it: [`Gpu::wait_idle`], then [`Gpu::reclaim`].
    ///
    /// For a program that shows no scene for a while, and for one that has no room for the memory of two plans.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mut heap = gpu.transient_heap(Default::default());
    /// # {
    /// let frame = gpu.begin_frame()?;
    /// let mut graph = frame.transient(&mut heap)?;
    /// let pass = graph.pass(QueueIndex(0), &[])?;
    /// graph.buffer("counters", &BufferDesc::new(4096), &[pass])?;
    /// graph.plan()?;
    /// frame.end()?;
    /// # }
    /// heap.release();
    /// gpu.wait_idle()?;
    /// gpu.reclaim();
    /// assert_eq!(gpu.allocator().statistics().allocations, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&mut self) {
        self.made = MadePlan::default();
        self.held.clear();
        // What is created next has followed nothing.
        self.number_before = 0;
    }
}

impl<D: Device> Gpu<D> {
    /// Creates a heap for the transient resources of frames. Allocates no device memory.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::transient::HeapLimits;
    ///
    /// let heap = gpu.transient_heap(HeapLimits::default());
    /// assert_eq!(heap.plan().size(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn transient_heap(&self, limits: HeapLimits) -> TransientHeap<D> {
        let largest = self.device().properties().limits.max_allocation_size;
        let limits = HeapLimits { heap_size: limits.heap_size.min(largest), ..limits };
        TransientHeap {
            memory: self.memory().clone(),
            name: "transient heap".into(),
            planner: TransientPlanner::new(limits),
            known: Known::default(),
            made: MadePlan::default(),
            held: Vec::new(),
            highest_number: 0,
            cannot_shrink: false,
            described: Vec::new(),
            queues: Vec::new(),
            points: Mutex::default(),
            used_queues: 0,
            points_before: Vec::new(),
            number_before: 0,
            last_frame: 0,
        }
    }
}

impl<D: Device> Frame<D> {
    /// Begins to describe the transient resources of this frame. See [`TransientHeap`].
    ///
    /// One frame may use several heaps, and each once: a second description is that of another frame. Submit the passes of a frame
    /// before those of the next one.
    ///
    /// # Errors
    ///
    /// [`TransientHeapError::WrongGpu`].
    pub fn transient<'a>(
        &'a self,
        heap: &'a mut TransientHeap<D>,
    ) -> Result<TransientGraph<'a, D>, TransientHeapError> {
        let tracker = heap.memory.deletion_queue().tracker();
        if self.gpu().tracker().check_same(tracker).is_err() {
            return Err(TransientHeapError::WrongGpu);
        }
        heap.planner.begin();
        let plans = || core::iter::once(&heap.made).chain(&heap.held);
        let (planned, last) = (plans().map(|plan| plan.resources.len()).sum(), heap.last_frame);
        heap.known.forget(planned, |key, frame| frame >= last || plans().any(|plan| plan.has(key)));
        heap.described.clear();
        heap.queues.clear();
        let number = NEXT_FRAME.fetch_add(1, Relaxed);
        heap.last_frame = number;
        Ok(TransientGraph { frame: self, heap, number })
    }
}
