//! Queues: a timeline semaphore each, and pools of command buffers.

use core::ops::Deref;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard};

use ash::vk;

use super::{Device, refused};
use crate::device::command_pools::{CommandPools, PoolMaker, RECORDINGS_A_POOL};
use crate::device::{BufferCopy, DeviceError, QueueIndex, Submission, TimelinePoint, TimelineValue, Wait};
use crate::sync::locked;

/// How long the end of a device waits for its queues. Whoever submitted work has waited for it already.
const LAST_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Queues {
    timelines: Timelines,
    queues: Vec<Queue>,
}

/// The functions of timeline semaphores: core in 1.2, else of an extension.
enum Timelines {
    Core,
    Extension(ash::khr::timeline_semaphore::Device),
}

struct Queue {
    family: u32,
    semaphore: vk::Semaphore,
    state: Mutex<State>,
}

struct State {
    handle: vk::Queue,
    submitted: u64,
    pools: CommandPools<Pool>,
    scratch: Scratch,
}

/// Lists that a submission needs, kept so that a steady frame allocates nothing.
#[derive(Default)]
struct Scratch {
    regions: Vec<vk::BufferCopy>,
    semaphores: Vec<vk::Semaphore>,
    values: Vec<u64>,
    stages: Vec<vk::PipelineStageFlags>,
}

/// A command pool and its buffers, [one a recording](RECORDINGS_A_POOL).
struct Pool {
    handle: vk::CommandPool,
    buffers: Vec<vk::CommandBuffer>,
}

/// What makes and resets the pools of a queue.
struct Maker<'a> {
    queues: &'a Queues,
    queue: &'a Queue,
    device: &'a ash::Device,
}

/// A queue that is the application's own for a while; see [`Device::lock_queue`].
#[must_use = "the queue is given back when this is dropped"]
pub struct QueueGuard<'a> {
    state: MutexGuard<'a, State>,
}

impl Deref for QueueGuard<'_> {
    type Target = vk::Queue;

    fn deref(&self) -> &vk::Queue {
        &self.state.handle
    }
}

impl core::fmt::Debug for QueueGuard<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("QueueGuard").field(&self.state.handle).finish()
    }
}

impl Queues {
    pub(super) fn new(
        instance: &ash::Instance,
        device: &ash::Device,
        version: u32,
        queues: &[(vk::Queue, u32)],
    ) -> Result<Self, DeviceError> {
        let timelines = if version >= vk::API_VERSION_1_2 {
            Timelines::Core
        } else {
            Timelines::Extension(ash::khr::timeline_semaphore::Device::new(instance, device))
        };
        let mut made = Self { timelines, queues: Vec::with_capacity(queues.len()) };
        for &(handle, family) in queues {
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
            // SAFETY: timeline semaphores are enabled, or there would be no queues here.
            match unsafe { device.create_semaphore(&info, None) } {
                Ok(semaphore) => {
                    let state = State {
                        handle,
                        submitted: 0,
                        pools: CommandPools::default(),
                        scratch: Scratch::default(),
                    };
                    made.queues.push(Queue { family, semaphore, state: Mutex::new(state) });
                }
                Err(error) => {
                    made.destroy(device);
                    return Err(refused(error));
                }
            }
        }
        Ok(made)
    }

    /// Gives all driver objects back. Called once, at the end.
    pub(super) fn destroy(&mut self, device: &ash::Device) {
        for (index, queue) in (0..).zip(&self.queues) {
            let submitted = locked(&queue.state).submitted;
            let point = TimelinePoint { queue: QueueIndex(index), value: TimelineValue(submitted) };
            match self.wait(device, point, LAST_WAIT) {
                Ok(Wait::Reached) | Err(DeviceError::Lost) => {}
                // Leaked rather than pulled from under a queue that waits for what never comes.
                Ok(Wait::TimedOut) | Err(_) => continue,
            }
            locked(&queue.state).pools.destroy(&Maker { queues: self, queue, device });
            // SAFETY: the queue has passed all that waits for it or signals it, or is lost.
            unsafe { device.destroy_semaphore(queue.semaphore, None) };
        }
        self.queues.clear();
    }

    fn get(&self, queue: QueueIndex) -> Result<&Queue, DeviceError> {
        self.queues.get(usize::from(queue.0)).ok_or(DeviceError::Unsupported)
    }

    pub(super) fn semaphore(&self, queue: QueueIndex) -> Option<vk::Semaphore> {
        Some(self.get(queue).ok()?.semaphore)
    }

    pub(super) fn lock(&self, queue: QueueIndex) -> Option<QueueGuard<'_>> {
        Some(QueueGuard { state: locked(&self.get(queue).ok()?.state) })
    }

    pub(super) fn completed(
        &self,
        device: &ash::Device,
        queue: QueueIndex,
    ) -> Result<TimelineValue, DeviceError> {
        self.reached(device, self.get(queue)?).map(TimelineValue)
    }

    fn reached(&self, device: &ash::Device, queue: &Queue) -> Result<u64, DeviceError> {
        let value = match &self.timelines {
            // SAFETY: the semaphore is live and has a timeline.
            Timelines::Core => unsafe { device.get_semaphore_counter_value(queue.semaphore) },
            // SAFETY: as above.
            Timelines::Extension(functions) => unsafe {
                functions.get_semaphore_counter_value(queue.semaphore)
            },
        };
        match value.map_err(refused)? {
            // What some drivers say of a device that is lost.
            u64::MAX => Err(DeviceError::Lost),
            value => Ok(value),
        }
    }

    pub(super) fn wait(
        &self,
        device: &ash::Device,
        point: TimelinePoint,
        timeout: Duration,
    ) -> Result<Wait, DeviceError> {
        let queue = self.get(point.queue)?;
        if point.value.0 == 0 {
            return Ok(Wait::Reached);
        }
        let (semaphores, values) = ([queue.semaphore], [point.value.0]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let waited = match &self.timelines {
            // SAFETY: the semaphore is live and has a timeline.
            Timelines::Core => unsafe { device.wait_semaphores(&info, nanoseconds) },
            // SAFETY: as above.
            Timelines::Extension(functions) => unsafe { functions.wait_semaphores(&info, nanoseconds) },
        };
        match waited {
            Ok(()) => Ok(Wait::Reached),
            Err(vk::Result::TIMEOUT) => Ok(Wait::TimedOut),
            Err(error) => Err(refused(error)),
        }
    }

    /// # Safety
    ///
    /// As for [`submit`](crate::Device::submit).
    pub(super) unsafe fn submit(
        &self,
        device: &ash::Device,
        index: QueueIndex,
        submission: &Submission<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        let mut guard = locked(&queue.state);
        let state = &mut *guard;
        let value = state.submitted + 1;
        submission.check(index, value, self.queues.len())?;

        let mut scratch = core::mem::take(&mut state.scratch);
        scratch.semaphores.clear();
        scratch.values.clear();
        for point in submission.waits.iter().filter(|point| point.value.0 > 0) {
            scratch.semaphores.push(self.get(point.queue)?.semaphore);
            scratch.values.push(point.value.0);
        }
        scratch.stages.clear();
        // Without commands there is no transfer to hold back, only the signal: that comes after all stages.
        let waiting = if submission.has_copies() {
            vk::PipelineStageFlags::TRANSFER
        } else {
            vk::PipelineStageFlags::ALL_COMMANDS
        };
        scratch.stages.resize(scratch.semaphores.len(), waiting);
        let submitted =
            self.record(device, queue, state, submission, &mut scratch.regions).and_then(|commands| {
                let (signalled, signal_values) = ([queue.semaphore], [value]);
                let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
                    .wait_semaphore_values(&scratch.values)
                    .signal_semaphore_values(&signal_values);
                let mut info = vk::SubmitInfo::default()
                    .command_buffers(commands.as_slice())
                    .signal_semaphores(&signalled)
                    .push_next(&mut timeline);
                if !scratch.semaphores.is_empty() {
                    info = info.wait_semaphores(&scratch.semaphores).wait_dst_stage_mask(&scratch.stages);
                }
                // SAFETY: all handles are live and of this device, the lock serialises the queue, and the
                // value is above all that the timeline was told before.
                unsafe { device.queue_submit(state.handle, &[info], vk::Fence::null()) }.map_err(refused)?;
                Ok(commands.is_some())
            });
        state.scratch = scratch;
        let has_commands = submitted?;
        state.submitted = value;
        if has_commands {
            state.pools.submitted(value);
        }
        Ok(TimelineValue(value))
    }

    /// Records copies into the next command buffer, which counts as used only once it is submitted. `None`
    /// where there is nothing to copy.
    fn record(
        &self,
        device: &ash::Device,
        queue: &Queue,
        state: &mut State,
        submission: &Submission<'_, Device>,
        regions: &mut Vec<vk::BufferCopy>,
    ) -> Result<Option<vk::CommandBuffer>, DeviceError> {
        if !submission.has_copies() {
            return Ok(None);
        }
        let (pool, recording) = state.pools.next(&Maker { queues: self, queue, device })?;
        let commands = pool.buffers[recording as usize];
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer's pool was reset since it was last submitted.
        unsafe { device.begin_command_buffer(commands, &begin) }.map_err(refused)?;
        // What earlier copies wrote, on this queue or on those that were waited for, is there now; what
        // they read is not overwritten too early.
        let before = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE);
        let transfer = vk::PipelineStageFlags::TRANSFER;
        let none = vk::DependencyFlags::empty();
        // SAFETY: the buffer is being recorded.
        unsafe { device.cmd_pipeline_barrier(commands, transfer, transfer, none, &[before], &[], &[]) };
        let mut rest = submission.copies;
        while let Some(first) = rest.first() {
            // Copies between the same two buffers go in one command.
            let same = |copy: &BufferCopy<'_, Device>| copy.from == first.from && copy.to == first.to;
            let (group, others) = rest.split_at(rest.iter().take_while(|copy| same(copy)).count());
            rest = others;
            regions.clear();
            regions.extend(group.iter().filter(|copy| copy.size > 0).map(|copy| vk::BufferCopy {
                src_offset: copy.from_offset,
                dst_offset: copy.to_offset,
                size: copy.size,
            }));
            if !regions.is_empty() {
                // SAFETY: the buffers are live and the ranges lie in them, by the caller's promise.
                unsafe { device.cmd_copy_buffer(commands, *first.from, *first.to, regions) };
            }
        }
        // What was copied is seen by the CPU after its wait. Other queues see it by waiting for the timeline.
        let after = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ);
        let host = vk::PipelineStageFlags::HOST;
        // SAFETY: the buffer is being recorded.
        unsafe { device.cmd_pipeline_barrier(commands, transfer, host, none, &[after], &[], &[]) };
        // SAFETY: as above.
        unsafe { device.end_command_buffer(commands) }.map_err(refused)?;
        Ok(Some(commands))
    }
}

impl PoolMaker<Pool> for Maker<'_> {
    fn make(&self) -> Result<Pool, DeviceError> {
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::TRANSIENT)
            .queue_family_index(self.queue.family);
        // SAFETY: the family is one that the device has queues of.
        let handle = unsafe { self.device.create_command_pool(&info, None) }.map_err(refused)?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(handle)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(RECORDINGS_A_POOL);
        // SAFETY: the pool is new.
        match unsafe { self.device.allocate_command_buffers(&info) } {
            Ok(buffers) => Ok(Pool { handle, buffers }),
            Err(error) => {
                // SAFETY: new, and empty.
                unsafe { self.device.destroy_command_pool(handle, None) };
                Err(refused(error))
            }
        }
    }

    fn reached(&self) -> Result<u64, DeviceError> {
        self.queues.reached(self.device, self.queue)
    }

    fn reset(&self, pool: Pool) -> Option<Pool> {
        let flags = vk::CommandPoolResetFlags::empty();
        // SAFETY: the queue is done with all buffers of the pool.
        if unsafe { self.device.reset_command_pool(pool.handle, flags) }.is_err() {
            self.destroy(pool);
            return None;
        }
        Some(pool)
    }

    fn destroy(&self, pool: Pool) {
        // SAFETY: the queue is done with all buffers of the pool.
        unsafe { self.device.destroy_command_pool(pool.handle, None) };
    }
}
