//! Handles of reads: whether the bytes are there, and the bytes.
//!
//! ```text
//!   Pending ──► Submitted(point) ──► Ready        the memory of the batch is kept until the last of its handles is dropped
//!      └───────────┴──────────────► Failed
//! ```

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ReadError;
use crate::device::{Device, DeviceError, TimelinePoint};
use crate::lifetime::SubmissionTracker;
use crate::memory::{AccessError, MappedBuffer};
use crate::sync::locked;
use crate::upload::completion::{Panics, Waiters};

/// How far a read is. Returned by [`ReadHandle::status`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::upload::ReadStatus;
///
/// let counters = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("counters"))?;
/// let read = gpu.reads().read_buffer(&counters, 0, 64)?;
/// assert_eq!(read.status(), ReadStatus::Pending);
/// let point = gpu.reads().submit()?.expect("there is a read");
/// assert!(matches!(read.status(), ReadStatus::Submitted(_) | ReadStatus::Ready));
/// gpu.wait(point)?;
/// assert_eq!(read.status(), ReadStatus::Ready);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadStatus {
    /// The copy is not submitted.
    Pending,
    /// The bytes are there when this point is reached.
    Submitted(TimelinePoint),
    /// The bytes are there.
    Ready,
    /// There will be no bytes.
    Failed(ReadError),
}

/// Memory that the GPU has written, for as long as a handle refers to it.
pub(super) trait ReadMemory: Send + Sync {
    /// Copies bytes out of it.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError>;
}

impl<D: Device> ReadMemory for MappedBuffer<D> {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessError> {
        Self::read(self, offset, bytes)
    }
}

/// Rows of equal size in the memory of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) offset: u64,
    /// Bytes of a row, and from one row to the next.
    pub(super) row: u64,
    pub(super) pitch: u64,
    pub(super) count: u64,
}

impl Rows {
    /// Calls `each` with the offset and the size of runs of bytes without padding between them.
    fn runs<E>(self, mut each: impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        if self.row == self.pitch {
            return each(self.offset, self.row * self.count);
        }
        (0..self.count).try_for_each(|row| each(self.offset + row * self.pitch, self.row))
    }
}

/// Bytes that are read from a buffer or an image. Returned by [`Reads`](crate::gpu::Reads). A clone is the same read.
///
/// It is a future of the bytes, without a runtime: tasks are woken, and [callbacks](Self::on_finish) are called, at the end
/// of each frame and by [`Gpu::reclaim`](crate::Gpu::reclaim). The GPU's copy is given up where all clones are dropped before
/// it is submitted.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let counters = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("counters"))?;
/// gpu.uploads().write_buffer(&counters, 0, &[7; 256])?;
/// let read = gpu.reads().read_buffer(&counters, 64, 16)?;
/// let mut frames = 0;
/// while !read.is_finished() {
///     gpu.begin_frame()?.end()?; // the first one submits the copy
///     frames += 1;
/// }
/// println!("there after {frames} frames");
/// assert_eq!(read.bytes()?, [7; 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReadHandle {
    shared: Arc<Shared>,
}

/// Shared by the handles of a read and the queue of reads, which uses it again for another read: a frame that reads as the one
/// before allocates nothing.
pub(super) struct Shared {
    size: u64,
    tracker: SubmissionTracker,
    /// The clones of its handle. With none, nothing of the program refers to it.
    handles: AtomicUsize,
    state: Mutex<State>,
    /// Where the bytes are, once they are submitted. Apart from `state`, so that whoever copies many bytes holds nobody up.
    rows: Mutex<Vec<Rows>>,
}

struct State {
    stage: Stage,
    waiters: Waiters<ReadHandle>,
}

enum Stage {
    Pending,
    Submitted {
        point: TimelinePoint,
        memory: Arc<dyn ReadMemory>,
    },
    Failed(ReadError),
    /// No handle is left.
    Over,
}

impl Shared {
    /// Describes a read of `size` bytes whose copy is not submitted.
    pub(super) fn new(tracker: &SubmissionTracker, size: u64) -> Arc<Self> {
        let state = State { stage: Stage::Pending, waiters: Waiters::default() };
        Arc::new(Self {
            size,
            tracker: tracker.clone(),
            handles: AtomicUsize::new(0),
            state: Mutex::new(state),
            rows: Mutex::default(),
        })
    }

    /// Makes it that of another read, unless something refers to it.
    pub(super) fn reset(self: &mut Arc<Self>, size: u64) -> bool {
        let Some(this) = Arc::get_mut(self) else { return false };
        this.size = size;
        this.state.get_mut().unwrap_or_else(PoisonError::into_inner).stage = Stage::Pending;
        this.rows.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        true
    }

    /// Returns the rows, for whoever submits them.
    pub(super) fn rows(&self) -> MutexGuard<'_, Vec<Rows>> {
        locked(&self.rows)
    }

    /// Notes that the copy was submitted, to the rows.
    pub(super) fn submitted(&self, point: TimelinePoint, memory: Arc<dyn ReadMemory>) {
        locked(&self.state).stage = Stage::Submitted { point, memory };
        if self.handles.load(Acquire) == 0 {
            self.release();
        }
    }

    /// Notes that there will be no bytes, unless the copy was submitted. Returns whether there will be none: the caller
    /// finishes it then.
    pub(super) fn fail(&self, error: ReadError) -> bool {
        let mut state = locked(&self.state);
        if matches!(state.stage, Stage::Pending) {
            state.stage = Stage::Failed(error);
        }
        matches!(state.stage, Stage::Failed(_))
    }

    /// Notes that nobody will look any more whether the bytes are there. The caller finishes it afterwards.
    pub(super) fn abandon(&self) {
        locked(&self.state).stage = Stage::Failed(ReadError::GivenUp);
    }

    /// Returns the bytes of the read.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether anybody would get the bytes.
    pub(super) fn is_wanted(&self) -> bool {
        // A callback has no handle until it is called.
        self.handles.load(Acquire) > 0 || locked(&self.state).waiters.has_callbacks()
    }

    /// Gives the memory up, where nobody can ask for the bytes any more.
    fn release(&self) {
        let mut state = locked(&self.state);
        if self.handles.load(Acquire) > 0 || state.waiters.has_callbacks() {
            return;
        }
        if let Stage::Submitted { .. } = state.stage {
            let stage = core::mem::replace(&mut state.stage, Stage::Over);
            drop(state);
            drop(stage);
        }
    }

    fn status(&self, state: &State) -> ReadStatus {
        match &state.stage {
            Stage::Pending => ReadStatus::Pending,
            Stage::Failed(error) => ReadStatus::Failed(*error),
            Stage::Over => ReadStatus::Failed(ReadError::GivenUp),
            Stage::Submitted { point, .. } if !self.tracker.is_reached(*point) => {
                ReadStatus::Submitted(*point)
            }
            // On a lost device every point counts as reached, but not everything was written.
            Stage::Submitted { point, .. }
                if self.tracker.is_lost() && self.tracker.timeline(point.queue).completed < point.value =>
            {
                ReadStatus::Failed(ReadError::Device(DeviceError::Lost))
            }
            Stage::Submitted { .. } => ReadStatus::Ready,
        }
    }
}

/// Wakes tasks and calls callbacks of a read that is ready or has failed. No lock is held.
pub(super) fn finish(shared: &Arc<Shared>, panics: &mut Panics) {
    let (waiters, handle) = {
        let mut state = locked(&shared.state);
        // Under the lock: the last handle of the program may be dropped meanwhile, and the callbacks want the bytes.
        let handle = ReadHandle::of(shared);
        (state.waiters.take(), handle)
    };
    waiters.run(|| handle.clone(), panics);
}

impl Clone for ReadHandle {
    fn clone(&self) -> Self {
        Self::of(&self.shared)
    }
}

impl Drop for ReadHandle {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, AcqRel) == 1 {
            self.shared.release();
        }
    }
}

impl ReadHandle {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Relaxed);
        Self { shared: Arc::clone(shared) }
    }

    /// Returns how many bytes are read: of an image, its rows of blocks without padding.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.size
    }

    /// Returns how far the read is. May ask the driver.
    #[must_use]
    pub fn status(&self) -> ReadStatus {
        self.shared.status(&locked(&self.shared.state))
    }

    /// Returns the point at which the bytes are there: work that overwrites what is read waits for it. `None` while the copy is
    /// not submitted, and where there will be no bytes.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # let picture = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("picture"))?;
    /// # gpu.uploads().write_buffer(&picture, 0, &[7; 256])?;
    /// let read = gpu.reads().read_buffer(&picture, 0, 256)?;
    /// gpu.begin_frame()?.end()?;
    /// let frame = gpu.begin_frame()?; // draws the next picture
    /// frame.submit_after(QueueIndex(0), read.point().as_slice(), |queue, waits| {
    ///     // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
    ///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn point(&self) -> Option<TimelinePoint> {
        match &locked(&self.shared.state).stage {
            Stage::Submitted { point, .. } => Some(*point),
            Stage::Pending | Stage::Failed(_) | Stage::Over => None,
        }
    }

    /// Returns whether the bytes are there, or will never be.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.status(), ReadStatus::Ready | ReadStatus::Failed(_))
    }

    /// Copies the bytes into a slice of as many bytes. Costs a copy out of memory that the CPU caches.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # let counters = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("counters"))?;
    /// # gpu.uploads().write_buffer(&counters, 0, &[7; 256])?;
    /// use allotment::upload::ReadError;
    ///
    /// let read = gpu.reads().read_buffer(&counters, 0, 4)?;
    /// let mut bytes = [0; 4];
    /// assert_eq!(read.read(&mut bytes), Err(ReadError::NotYet));
    /// gpu.begin_frame()?.end()?;
    /// gpu.wait_idle()?;
    /// read.read(&mut bytes)?;
    /// assert_eq!(bytes, [7; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError::NotYet`], [`ReadError::Size`] for a slice of another size, or why there are no bytes. `bytes` is
    /// unchanged, unless the driver refuses in the middle.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), ReadError> {
        let memory = self.memory()?;
        if bytes.len() as u64 != self.shared.size {
            return Err(ReadError::Size { wanted: self.shared.size, found: bytes.len() as u64 });
        }
        let mut rest = bytes;
        for rows in &*self.shared.rows() {
            rows.runs(|offset, size| {
                let (now, then) = core::mem::take(&mut rest).split_at_mut(size as usize);
                rest = then;
                memory.read(offset, now).map_err(ReadError::Access)
            })?;
        }
        Ok(())
    }

    /// Returns the bytes. Costs what [`read`](Self::read) does.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn bytes(&self) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; self.shared.size as usize];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Calls `callback` with the handle once the bytes are there, or will never be: at once if that is so, else by the thread
    /// that sees it, with no lock held. That may be the thread that ends a frame, and copying many bytes takes time: the
    /// callback may pass the handle on. Where one panics, the others are called first.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # let picture = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("picture"))?;
    /// # gpu.uploads().write_buffer(&picture, 0, &[7; 256])?;
    /// let (to_writer, written) = std::sync::mpsc::channel();
    /// gpu.reads().read_buffer(&picture, 0, 256)?.on_finish(move |read| to_writer.send(read).unwrap());
    /// gpu.begin_frame()?.end()?;
    /// gpu.wait_idle()?;
    /// assert_eq!(written.recv()?.bytes()?, [7; 256]); // on a thread that writes files, say
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_finish(self, callback: impl FnOnce(Self) + Send + 'static) {
        {
            let mut state = locked(&self.shared.state);
            if matches!(self.shared.status(&state), ReadStatus::Pending | ReadStatus::Submitted(_)) {
                state.waiters.add_callback(callback);
                return;
            }
        }
        callback(self);
    }

    /// Returns whether the read is one of the queues of a tracker.
    pub(crate) fn is_of(&self, tracker: &SubmissionTracker) -> bool {
        self.shared.tracker.ptr_eq(tracker)
    }

    fn memory(&self) -> Result<Arc<dyn ReadMemory>, ReadError> {
        let state = locked(&self.shared.state);
        match (self.shared.status(&state), &state.stage) {
            (ReadStatus::Ready, Stage::Submitted { memory, .. }) => Ok(Arc::clone(memory)),
            (ReadStatus::Failed(error), _) => Err(error),
            _ => Err(ReadError::NotYet),
        }
    }
}

/// The bytes. No runtime is needed: whoever drives the frames wakes the task.
impl Future for ReadHandle {
    type Output = Result<Vec<u8>, ReadError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut state = locked(&self.shared.state);
            if matches!(self.shared.status(&state), ReadStatus::Pending | ReadStatus::Submitted(_)) {
                state.waiters.add_task(context);
                return Poll::Pending;
            }
        }
        Poll::Ready(self.bytes())
    }
}

impl fmt::Debug for ReadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHandle")
            .field("size", &self.size())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
