//! A pool of command allocators (Vulkan: command pools) that are reset and reused once the GPU has finished with
//! them.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use super::recording::Recording;
use super::recycler::{Recycler, RecyclerStatistics};
use super::registry::RecordingId;
use super::tracker::SubmissionTracker;
use crate::device::{CommandAllocator, QueueIndex};

/// A pool of the command allocators of a queue. Each is handed to one recording at a time, and again only after the submission
/// of the previous recording has completed, or at once if that recording was discarded.
///
/// [`begin`](Self::begin) resets the allocator on the calling thread, with no lock held. The pool has as many
/// allocators as were ever in use at once; of the free ones it keeps at most the number given to
/// [`new`](Self::new).
///
/// ```
/// use std::sync::Mutex;
///
/// use allotment::device::{CommandAllocator, DeviceError, QueueIndex};
/// use allotment::lifetime::{CommandAllocatorPool, ManualTimelines, SubmissionTracker};
///
/// // On Vulkan this is `vulkan::CommandAllocator`, on Direct3D 12 `d3d12::CommandAllocator`.
/// struct Commands(Mutex<Vec<&'static str>>);
/// impl CommandAllocator for Commands {
///     fn reset(&mut self) -> Result<(), DeviceError> {
///         *self = Self(Mutex::default());
///         Ok(())
///     }
/// }
///
/// let tracker = SubmissionTracker::new(ManualTimelines::new(1))?;
/// let pool = CommandAllocatorPool::new(&tracker, QueueIndex(0), 4);
/// let recording = tracker.record("a frame");
/// let commands = pool.begin(&recording, || Ok::<_, DeviceError>(Commands(Mutex::default())))?;
/// commands.0.lock().unwrap().push("draw");
/// drop(commands); // recorded; it comes back when the recording is over
/// assert_eq!(pool.statistics().free, 0);
/// drop(recording);
/// pool.collect();
/// assert_eq!(pool.statistics().free, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CommandAllocatorPool<M: CommandAllocator> {
    inner: Arc<Inner<M>>,
}

#[derive(Debug)]
struct Inner<M: CommandAllocator> {
    queue: QueueIndex,
    recycler: Recycler<M>,
}

/// A command allocator that one recording uses, or that a [`Frame`](crate::gpu::Frame) lends. Dropping it says that nothing
/// more is recorded into it; it returns to its pool, and is reset for another recording once the submissions of this one
/// have completed, or it was discarded.
///
/// Submit what was recorded with the same recording, by [`Frame::submit`](crate::gpu::Frame::submit) of the same frame. What a
/// program submits by itself after that may be reset while the GPU still reads it.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let buffer = |name| gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name(name));
/// let (from, to) = (buffer("from")?, buffer("to")?);
/// let frame = gpu.begin_frame()?;
/// let (first, second) = (frame.command_allocator(QueueIndex(0))?, frame.command_allocator(QueueIndex(0))?);
/// std::thread::scope(|scope| {
///     scope.spawn(|| first.copy_buffer((&from.handle(), 0), (&to.handle(), 0), 128));
///     scope.spawn(|| second.copy_buffer((&from.handle(), 128), (&to.handle(), 128), 128));
/// });
/// frame.submit(first.queue(), |queue, waits| {
///     // SAFETY: the buffers are alive until the GPU has completed the frame, and the ranges lie in them.
///     unsafe { device.submit_commands(queue, waits, &[&first, &second]) }
/// })?;
/// drop((first, second)); // they return to their pool
/// frame.end()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A thread that records besides the frames has a pool of its own:
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::lifetime::CommandAllocatorPool;
///
/// let pool = CommandAllocatorPool::new(gpu.tracker(), QueueIndex(0), 4);
/// let recording = gpu.record("a loader thread");
/// let commands = pool.begin(&recording, || device.create_command_allocator(QueueIndex(0)))?;
/// gpu.submit(recording, commands.queue(), |queue, waits| {
///     // SAFETY: nothing is recorded.
///     unsafe { device.submit_commands(queue, waits, &[&commands]) }
/// })?;
/// drop(commands); // back to the pool, which resets it once the GPU has completed it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The allocators themselves stay where they are: one that is in flight cannot be exchanged for another, nor reset.
///
/// ```compile_fail,E0596
/// # use allotment::device::simulated::SimulatedGpu;
/// # use allotment::prelude::*;
/// fn exchange(one: &Frame<SimulatedGpu>, other: &Frame<SimulatedGpu>) {
///     let (mut first, mut second) =
///         (one.command_allocator(QueueIndex(0)).unwrap(), other.command_allocator(QueueIndex(0)).unwrap());
///     std::mem::swap(&mut *first, &mut *second);
/// }
/// ```
pub struct PooledCommandAllocator<M: CommandAllocator> {
    pool: Arc<Inner<M>>,
    recording: RecordingId,
    /// `None` only while being dropped.
    memory: Option<M>,
}

impl<M: CommandAllocator> CommandAllocatorPool<M> {
    /// Creates a pool for a queue, which keeps at most `most` free allocators. An allocator of another queue could not be
    /// used in its place: a Vulkan command pool serves one queue family, a Direct3D 12 command allocator one type of command
    /// list.
    #[must_use]
    pub fn new(tracker: &SubmissionTracker, queue: QueueIndex, most: usize) -> Self {
        Self { inner: Arc::new(Inner { queue, recycler: Recycler::new(tracker, most) }) }
    }

    /// Acquires a command allocator for a recording: a free one after a reset, or a new one from `make` if none is
    /// free. An allocator whose reset fails is dropped.
    ///
    /// # Errors
    ///
    /// Returns the error of `make`.
    pub fn begin<E>(
        &self,
        recording: &Recording,
        make: impl FnOnce() -> Result<M, E>,
    ) -> Result<PooledCommandAllocator<M>, E> {
        self.begin_for(recording.id(), make)
    }

    /// Acquires a command allocator as [`begin`](Self::begin) does. The recording may be closed before the allocator is
    /// dropped.
    pub(crate) fn begin_for<E>(
        &self,
        recording: RecordingId,
        make: impl FnOnce() -> Result<M, E>,
    ) -> Result<PooledCommandAllocator<M>, E> {
        // One that cannot be reset is dropped: the driver has nothing left to reuse in it.
        let free = self.inner.recycler.acquire();
        let memory = match free.and_then(|mut memory| memory.reset().is_ok().then_some(memory)) {
            Some(memory) => memory,
            None => make()?,
        };
        Ok(PooledCommandAllocator { pool: Arc::clone(&self.inner), recording, memory: Some(memory) })
    }

    /// Moves allocators that the GPU has finished with to the free list. [`begin`](Self::begin) does so itself when
    /// no allocator is free.
    pub fn collect(&self) {
        self.inner.recycler.collect();
    }

    /// Drops all free allocators.
    pub fn trim(&self) {
        self.inner.recycler.trim();
    }

    /// Returns the pool's statistics.
    #[must_use]
    pub fn statistics(&self) -> RecyclerStatistics {
        self.inner.recycler.statistics()
    }
}

impl<M: CommandAllocator> PooledCommandAllocator<M> {
    /// Returns the queue that the commands are for.
    #[must_use]
    pub fn queue(&self) -> QueueIndex {
        self.pool.queue
    }
}

// No `DerefMut`: whoever has a `&mut` to a whole allocator can exchange it for one that is in flight, or reset it.
impl<M: CommandAllocator> Deref for PooledCommandAllocator<M> {
    type Target = M;

    fn deref(&self) -> &M {
        match &self.memory {
            Some(memory) => memory,
            None => unreachable!("taken only when dropped"),
        }
    }
}

impl<M: CommandAllocator> Drop for PooledCommandAllocator<M> {
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // Tied to its recording, since no other one uses it: other open recordings do not delay its reuse.
            self.pool.recycler.release_with(self.recording, memory);
        }
    }
}

impl<M: CommandAllocator> fmt::Debug for PooledCommandAllocator<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledCommandAllocator").field("queue", &self.pool.queue).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::device::DeviceError;
    use crate::lifetime::ManualTimelines;

    const QUEUE: QueueIndex = QueueIndex(0);

    /// Counts how many live, and notices a reset while a submission of its commands is not completed.
    struct Memory {
        live: Arc<AtomicU32>,
        pool: Arc<CommandAllocatorPool<Memory>>,
        in_flight: Arc<AtomicU32>,
        refuses: bool,
    }

    impl CommandAllocator for Memory {
        fn reset(&mut self) -> Result<(), DeviceError> {
            // Would wait for itself, if a lock were held.
            let _ = self.pool.statistics();
            assert_eq!(self.in_flight.load(Relaxed), 0, "reset while the queue uses it");
            self.in_flight = Arc::default();
            if self.refuses { Err(DeviceError::OutOfHostMemory) } else { Ok(()) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            assert_eq!(self.in_flight.load(Relaxed), 0, "dropped while the queue uses it");
            self.live.fetch_sub(1, Relaxed);
        }
    }

    struct Rig {
        timelines: ManualTimelines,
        tracker: SubmissionTracker,
        pool: Arc<CommandAllocatorPool<Memory>>,
        live: Arc<AtomicU32>,
    }

    impl Rig {
        fn new(most: usize) -> Self {
            let timelines = ManualTimelines::new(1);
            let tracker = SubmissionTracker::new(timelines.clone()).unwrap();
            let pool = Arc::new(CommandAllocatorPool::new(&tracker, QUEUE, most));
            Self { timelines, tracker, pool, live: Arc::default() }
        }

        /// Records something, and says how its memory is known to be in flight.
        fn record(&self, recording: &Recording, refuses: bool) -> Arc<AtomicU32> {
            let make = || {
                self.live.fetch_add(1, Relaxed);
                let (live, pool) = (Arc::clone(&self.live), Arc::clone(&self.pool));
                Ok::<_, DeviceError>(Memory { live, pool, in_flight: Arc::default(), refuses })
            };
            let memory = self.pool.begin(recording, make).unwrap();
            Arc::clone(&memory.in_flight)
        }

        fn submit(&self, recording: Recording, in_flight: &AtomicU32) {
            in_flight.store(1, Relaxed);
            recording.submit(QUEUE, |_| Ok::<_, DeviceError>(self.timelines.submit(QUEUE))).unwrap();
        }
    }

    #[test]
    fn command_memory_is_never_handed_out_before_its_submission_is_completed() {
        let rig = Rig::new(4);
        let mut submitted = Vec::new();
        for frame in 0..50 {
            let recording = rig.tracker.record("a frame");
            let in_flight = rig.record(&recording, false);
            rig.submit(recording, &in_flight);
            submitted.push(in_flight);
            if frame >= 2 {
                submitted[frame - 2].store(0, Relaxed);
                rig.timelines.complete(QUEUE, crate::device::TimelineValue(frame as u64 - 1));
            }
        }
        assert_eq!(rig.live.load(Relaxed), 3, "two in flight, and one that is recorded into");
        submitted.iter().for_each(|in_flight| in_flight.store(0, Relaxed));
        rig.timelines.complete_all(QUEUE);
        rig.pool.trim();
        assert_eq!(rig.live.load(Relaxed), 0);
    }

    #[test]
    fn what_a_burst_took_is_dropped_but_for_what_is_kept() {
        let rig = Rig::new(4);
        let recordings: Vec<_> = (0..20).map(|_| rig.tracker.record("a burst")).collect();
        recordings.iter().for_each(|recording| drop(rig.record(recording, false)));
        assert_eq!(rig.live.load(Relaxed), 20);
        drop(recordings);
        rig.pool.collect();
        assert_eq!(rig.live.load(Relaxed), 4);
        assert_eq!(rig.pool.statistics().dropped, 16);
        rig.pool.trim();
    }

    #[test]
    fn command_memory_that_cannot_be_reset_is_replaced() {
        let rig = Rig::new(4);
        for _ in 0..3 {
            let recording = rig.tracker.record("a frame");
            rig.record(&recording, true);
        }
        assert_eq!(rig.live.load(Relaxed), 1, "each is dropped when it is to be used again");
        rig.pool.trim();
    }

    #[test]
    fn a_recording_that_cannot_get_command_memory_is_told_why() {
        let rig = Rig::new(4);
        let recording = rig.tracker.record("a frame");
        let refused = rig.pool.begin(&recording, || Err(DeviceError::OutOfHostMemory));
        assert_eq!(refused.map(drop), Err(DeviceError::OutOfHostMemory));
    }
}
