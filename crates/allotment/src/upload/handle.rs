//! Handles of writes: whether the GPU has their bytes, and an end to them.
//!
//! ```text
//!   handle ──► shared ◄── open batch ──► batch in flight ──► completed
//!              │  writes that run, entries in batches, points
//!              └─ tasks and callbacks (`completion`): run once nothing of it is left, with no lock held
//! ```
//!
//! Each batch has a list of the handles whose bytes it has. A handle is finished when no write with it runs and no batch
//! has an entry of it. Nothing is counted for writes without a handle.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex};

use super::completion::{Panics, Waiters};
use crate::device::TimelinePoint;
use crate::lifetime::TimelinePoints;
use crate::sync::locked;

/// How far the writes of an [`UploadHandle`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadStatus {
    /// No write has begun, one is running, or some bytes are staged and not submitted.
    Pending,
    /// The GPU has all bytes when these points are reached. Work that reads them waits for these; of an
    /// [exclusive](crate::device::SharingMode::Exclusive) resource that a queue of another family wrote, for the points of
    /// [`Uploader::submit`](super::Uploader::submit), which has also handed it over.
    Submitted(TimelinePoints),
    /// All bytes of the writes so far have arrived; [`Pending`](Self::Pending) again where another write begins. An exclusive
    /// resource that a queue of another family wrote may be read by work that waits for the points of
    /// [`Uploader::submit`](super::Uploader::submit), as that of `Frame::submit` and `Gpu::submit` does.
    Arrived,
    /// A write was [cancelled](UploadHandle::cancel). What was staged before has arrived.
    Cancelled,
    /// A write failed, or staged bytes were [discarded](super::Uploader::discard), or the device was lost: write them again,
    /// with a new handle. This one stays lost.
    Lost,
}

impl UploadStatus {
    /// Returns whether nothing more happens, unless another write begins.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Arrived | Self::Cancelled | Self::Lost)
    }
}

/// One or several writes that are waited for, or cancelled, together: a mesh and its textures, say. A clone is the same
/// handle. Between two writes its status may be final: give it to who looks at it after the last one.
///
/// It is a future of its final [status](Self::status), without a runtime: tasks are woken, and
/// [callbacks](Self::on_finish) are called, by the threads that use the uploader, by
/// [`Uploader::poll`](super::Uploader::poll), and with a `Gpu` at the end of each frame.
///
/// It is about the copies. An [exclusive](crate::device::SharingMode::Exclusive) resource that a queue of another family wrote
/// is handed over by the next [`Uploader::submit`](super::Uploader::submit), and work that reads it waits for the points which
/// that returns. `Frame::submit` and `Gpu::submit` do both.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::upload::{UploadHandle, UploadStatus};
///
/// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let handle = UploadHandle::new();
/// gpu.uploads().with_handle(&handle).write_buffer(&mesh, 0, &[7; 4096])?;
/// handle.on_finish(|status| println!("the mesh can be drawn without a wait: {status:?}"));
/// assert_eq!(handle.status(), UploadStatus::Pending, "staged");
/// gpu.wait(gpu.uploads().submit()?)?;
/// gpu.begin_frame()?.end()?;
/// assert_eq!(handle.status(), UploadStatus::Arrived);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct UploadHandle {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_streamed: bool,
    is_cancelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Writes that run.
    writing: u32,
    /// Entries in open batches, and in those that were submitted.
    open: u32,
    in_flight: u32,
    /// Of the batches that were submitted.
    points: TimelinePoints,
    /// A write has begun.
    is_used: bool,
    was_cancelled: bool,
    is_lost: bool,
    waiters: Waiters<UploadStatus>,
}

impl State {
    fn status(&self) -> UploadStatus {
        if !self.is_used || self.writing > 0 || self.open > 0 {
            UploadStatus::Pending
        } else if self.in_flight > 0 {
            UploadStatus::Submitted(self.points)
        } else if self.is_lost {
            UploadStatus::Lost
        } else if self.was_cancelled {
            UploadStatus::Cancelled
        } else {
            UploadStatus::Arrived
        }
    }
}

impl UploadHandle {
    /// Creates a handle without a write.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a handle whose writes are streamed: no frame waits for them, also none that is submitted later. The program
    /// uses what they write once the handle has [arrived](UploadStatus::Arrived), in work that it submits afterwards. Commands
    /// that use it before see old or new bytes; on Vulkan that is a race.
    ///
    /// Some do wait on the GPU: frames that wait for other uploads over the same queue, which come behind; reads of what is
    /// being streamed (`Gpu::reads`) and steps of defragmentation, with the frames behind them.
    ///
    /// For textures of a world that loads while one plays. Without it, the GPU does not begin a frame before all bytes are
    /// there that were written before the frame's submission. [`UploaderDesc`](super::UploaderDesc) can limit what is streamed
    /// in a frame.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{UploadHandle, UploadStatus};
    ///
    /// let rock = gpu.create_image(&ImageDesc::new(64, 64, 4).into(), &MemoryUsage::GpuOnly.with_name("rock"))?;
    /// let handle = UploadHandle::streamed();
    /// gpu.uploads().with_handle(&handle).write_image(&rock, &[7; 64 * 64 * 4])?; // by a thread that loads
    /// let draw = || {
    ///     let frame = gpu.begin_frame()?;
    ///     if handle.status() == UploadStatus::Arrived {
    ///         println!("with the rock");
    ///     }
    ///     frame.submit(QueueIndex(0), |queue, waits| {
    ///         // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///         unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    ///     })?;
    ///     frame.end()?;
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// };
    /// while !handle.status().is_final() {
    ///     draw()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn streamed() -> Self {
        Self { shared: Arc::new(Shared { is_streamed: true, ..Shared::default() }) }
    }

    /// Returns whether its writes are [streamed](Self::streamed).
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.shared.is_streamed
    }

    /// Returns how far the writes are, as far as the uploader knows: a batch counts as completed when the uploader was
    /// [polled](super::Uploader::poll) after it, or used.
    #[must_use]
    pub fn status(&self) -> UploadStatus {
        locked(&self.shared.state).status()
    }

    /// Ends the writes with this handle: one that waits returns
    /// [`UploadError::Interrupted`](super::UploadError::Interrupted) within some milliseconds, one that copies after its
    /// piece, and one that begins later at once. What is staged arrives.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::{UploadError, UploadHandle};
    ///
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let handle = UploadHandle::new();
    /// handle.cancel(); // by another thread: the player left the level
    /// match gpu.uploads().with_handle(&handle).write_buffer(&mesh, 0, &[7; 4096]) {
    ///     Err(UploadError::Interrupted { written, remaining, .. }) => assert_eq!((written, remaining), (0, 4096)),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) {
        self.shared.is_cancelled.store(true, Relaxed);
    }

    /// Returns whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Relaxed)
    }

    /// Calls `callback` with the final status: at once if it is final, else by the thread that sees it, with no lock held.
    /// It may upload. Where one panics, the others are called first. It is dropped without a call if all writes' uploaders are.
    pub fn on_finish(&self, callback: impl FnOnce(UploadStatus) + Send + 'static) {
        let status = {
            let mut state = locked(&self.shared.state);
            let status = state.status();
            if !status.is_final() {
                state.waiters.add_callback(callback);
                return;
            }
            status
        };
        callback(status);
    }

    pub(super) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(super) fn begin_write(&self) {
        let mut state = locked(&self.shared.state);
        state.writing += 1;
        state.is_used = true;
    }

    /// Ends a write. Finishes the handle where nothing else of it is left.
    pub(super) fn end_write(&self, failed: bool, cancelled: bool) {
        {
            let mut state = locked(&self.shared.state);
            state.writing -= 1;
            state.is_lost |= failed;
            state.was_cancelled |= cancelled;
        }
        self.finish(&mut Panics::default());
    }

    /// Adds an entry in an open batch.
    pub(super) fn staged(&self) {
        locked(&self.shared.state).open += 1;
    }

    /// Notes that the batch of an entry was submitted.
    pub(super) fn submitted(&self, point: TimelinePoint) {
        let mut state = locked(&self.shared.state);
        state.open -= 1;
        state.in_flight += 1;
        state.points.insert(point);
    }

    /// Removes an entry of a batch that has completed. The caller finishes the handle afterwards.
    pub(super) fn completed(&self, is_lost: bool) {
        let mut state = locked(&self.shared.state);
        state.in_flight -= 1;
        state.is_lost |= is_lost;
    }

    /// Removes an entry of an open batch that is dropped. The caller finishes the handle afterwards.
    pub(super) fn discarded(&self) {
        let mut state = locked(&self.shared.state);
        state.open -= 1;
        state.is_lost = true;
    }

    /// Wakes tasks and calls callbacks, if the status is final. No lock is held.
    pub(super) fn finish(&self, panics: &mut Panics) {
        let (waiters, status) = {
            let mut state = locked(&self.shared.state);
            let status = state.status();
            if !status.is_final() {
                return;
            }
            (state.waiters.take(), status)
        };
        waiters.run(|| status, panics);
    }
}

/// The final status. No runtime is needed: whoever drives the frames or the uploader wakes the task.
impl Future for UploadHandle {
    type Output = UploadStatus;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<UploadStatus> {
        let mut state = locked(&self.shared.state);
        let status = state.status();
        if status.is_final() {
            return Poll::Ready(status);
        }
        state.waiters.add_task(context);
        Poll::Pending
    }
}

impl fmt::Debug for UploadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadHandle")
            .field("status", &self.status())
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
