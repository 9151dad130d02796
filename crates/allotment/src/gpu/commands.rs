//! Command allocators of frames: pooled per queue, reset when their submission has completed.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use super::Gpu;
use super::part::Layer;
use crate::device::{CommandDevice, DeviceError, QueueIndex};
use crate::lifetime::{CommandAllocatorPool, Reclaimed, RecordingId};

/// A pool for each queue of the device.
pub(super) struct CommandAllocators<D: CommandDevice> {
    /// Shared with the allocators that are in use, which return to their pool when they are dropped.
    queues: Arc<[CommandAllocatorPool<D::CommandAllocator>]>,
}

impl<D: CommandDevice> Layer for CommandAllocators<D> {
    fn reclaim(&self) -> Reclaimed {
        self.queues.iter().for_each(CommandAllocatorPool::collect);
        // Nothing is destroyed: the pools keep what came back.
        Reclaimed::default()
    }
}

impl<D: CommandDevice> Gpu<D> {
    pub(super) fn acquire_commands(
        &self,
        queue: QueueIndex,
        recording: RecordingId,
    ) -> Result<FrameCommandAllocator<D>, DeviceError> {
        let device = self.device();
        let Ok(pools) = self.shared.command_allocators.get_or_try_init(|| {
            // One pool for each queue: a Vulkan command pool serves one queue family, a Direct3D 12 command allocator
            // one type of command list, so an allocator of another queue could not be reused.
            let pool = || CommandAllocatorPool::new(self.tracker(), self.desc().free_command_allocators);
            let queues = device.properties().queues.iter().map(|_| pool()).collect();
            Ok::<_, core::convert::Infallible>(CommandAllocators::<D> { queues })
        });
        // Checked here: the device is never asked for an allocator of a queue that it does not have.
        let Some(pool) = pools.queues.get(usize::from(queue.0)) else {
            return Err(DeviceError::NoSuchQueue { queue });
        };
        let allocator = pool.acquire(|| device.create_command_allocator(queue))?;
        let pools = Arc::clone(&pools.queues);
        Ok(FrameCommandAllocator { pools, queue, recording, allocator: Some(allocator) })
    }
}

/// A command allocator that a [`Frame`](super::Frame) lends. Dropping it says that nothing more is recorded into it;
/// it returns to its pool, and is reset for another frame once the submissions of this frame have completed.
///
/// Submit what was recorded with [`Frame::submit`](super::Frame::submit) of the same frame. What a program submits by
/// itself after the frame has ended may be reset while the GPU still reads it.
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
pub struct FrameCommandAllocator<D: CommandDevice> {
    pools: Arc<[CommandAllocatorPool<D::CommandAllocator>]>,
    queue: QueueIndex,
    recording: RecordingId,
    /// Taken when dropped.
    allocator: Option<D::CommandAllocator>,
}

impl<D: CommandDevice> FrameCommandAllocator<D> {
    /// Returns the queue that the commands are for.
    #[must_use]
    pub fn queue(&self) -> QueueIndex {
        self.queue
    }
}

// No `DerefMut`: whoever has a `&mut` to a whole allocator can exchange it for that of a frame in flight, or reset it.
impl<D: CommandDevice> Deref for FrameCommandAllocator<D> {
    type Target = D::CommandAllocator;

    fn deref(&self) -> &D::CommandAllocator {
        match &self.allocator {
            Some(allocator) => allocator,
            None => unreachable!("taken only when dropped"),
        }
    }
}

impl<D: CommandDevice> Drop for FrameCommandAllocator<D> {
    #[inline(never)]
    fn drop(&mut self) {
        let pool = self.pools.get(usize::from(self.queue.0));
        if let (Some(pool), Some(allocator)) = (pool, self.allocator.take()) {
            // Tied to the frame's recording, which is all that uses it: other open recordings do not delay its reuse.
            pool.release_with(self.recording, allocator);
        }
    }
}

impl<D: CommandDevice> fmt::Debug for FrameCommandAllocator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameCommandAllocator").field("queue", &self.queue).finish_non_exhaustive()
    }
}
