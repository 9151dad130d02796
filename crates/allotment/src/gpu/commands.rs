//! Command allocators of frames: pooled per queue, reset when their submission has completed.

use super::Gpu;
use super::part::Layer;
use crate::device::{CommandDevice, DeviceError, QueueIndex};
use crate::lifetime::{CommandAllocatorPool, PooledCommandAllocator, Reclaimed, RecordingId};

/// A pool for each queue of the device.
pub(super) struct CommandAllocators<D: CommandDevice> {
    queues: Box<[CommandAllocatorPool<D::CommandAllocator>]>,
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
    ) -> Result<PooledCommandAllocator<D::CommandAllocator>, DeviceError> {
        let device = self.device();
        let Ok(pools) = self.shared.command_allocators.get_or_try_init(|| {
            let most = self.desc().free_command_allocators;
            let pool = |(queue, _)| CommandAllocatorPool::new(self.tracker(), QueueIndex(queue), most);
            // A device has at most 256 queues.
            let queues = (0..=u8::MAX).zip(&device.properties().queues).map(pool).collect();
            Ok::<_, core::convert::Infallible>(CommandAllocators::<D> { queues })
        });
        // Checked here: the device is never asked for an allocator of a queue that it does not have.
        let Some(pool) = pools.queues.get(usize::from(queue.0)) else {
            return Err(DeviceError::NoSuchQueue { queue });
        };
        pool.begin_for(recording, || device.create_command_allocator(queue))
    }
}
