//! Queues: a timeline semaphore each, and pools of command buffers.

use core::ops::Deref;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use ash::vk;

use super::commands::Pool;
use super::ownership::Half;
use super::{Device, copies, full_images, ownership, refused};
use crate::device::command_pools::{CommandPools, PoolMaker};
use crate::device::queue::check_waits;
use crate::device::{
    DeviceError, QueueDevice, QueueIndex, QueueKind, Submission, TimelinePoint, TimelineValue,
};
use crate::sync::locked;

/// How long a device that is dropped waits for its queues. Applications have normally waited for their
/// submissions before.
const LAST_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Queues {
    timelines: Timelines,
    queues: Vec<Queue>,
}

/// The functions of timeline semaphores: core in 1.2, from an extension before.
enum Timelines {
    Core,
    Extension(ash::khr::timeline_semaphore::Device),
}

struct Queue {
    family: u32,
    /// Any box of an image can be copied.
    any_box: bool,
    kind: QueueKind,
    semaphore: vk::Semaphore,
    /// The value of the last submission. Written under the lock of `state`, read without it.
    submitted: AtomicU64,
    state: Mutex<State>,
}

struct State {
    handle: vk::Queue,
    pools: CommandPools<Pool>,
    scratch: Scratch,
}

/// Lists that are reused by every submission, so that a steady frame allocates nothing.
#[derive(Default)]
struct Scratch {
    semaphores: Vec<vk::Semaphore>,
    values: Vec<u64>,
    stages: Vec<vk::PipelineStageFlags>,
    recording: copies::Scratch,
}

/// Creates, resets and destroys the command pools of a queue.
struct Maker<'a> {
    queues: &'a Queues,
    queue: &'a Queue,
    device: &'a ash::Device,
}

/// A queue that is locked for the application's own use; see [`Device::lock_queue`].
#[must_use = "the queue is unlocked when the guard is dropped"]
pub struct QueueGuard<'a> {
    queue: &'a Queue,
    state: MutexGuard<'a, State>,
}

impl QueueGuard<'_> {
    /// Returns the timeline value of the queue's next submission. The application's own submission signals the
    /// [timeline](Device::timeline) with it, and is then recorded with [`submitted`](Self::submitted).
    #[must_use]
    pub fn next_value(&self) -> TimelineValue {
        TimelineValue(self.queue.submitted().0 + 1)
    }

    /// Records a submission that the application made while it held the queue: the alternative to
    /// [`Device::submit_commands`] for submissions that do more, such as waiting for a swapchain image.
    ///
    /// # Safety
    ///
    /// The application submitted to this queue, while it held the guard, work that signals the queue's
    /// [timeline](Device::timeline) with [`next_value`](Self::next_value), once, when all of that work is
    /// complete.
    // Consumes the guard: a second call would count a submission that does not exist.
    pub unsafe fn submitted(self) -> TimelineValue {
        let value = self.next_value();
        // `Release`, so that a thread that sees the value also sees what was written before the submission.
        self.queue.submitted.store(value.0, Release);
        value
    }
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
        kinds: &[QueueKind],
        any_box: impl Fn(u32) -> bool,
    ) -> Result<Self, DeviceError> {
        let timelines = if version >= vk::API_VERSION_1_2 {
            Timelines::Core
        } else {
            Timelines::Extension(ash::khr::timeline_semaphore::Device::new(instance, device))
        };
        let mut created = Self { timelines, queues: Vec::with_capacity(queues.len()) };
        for (&(handle, family), &kind) in queues.iter().zip(kinds) {
            let mut timeline =
                vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut timeline);
            // SAFETY: timeline semaphores are enabled, since a device without them has no queues.
            match unsafe { device.create_semaphore(&info, None) } {
                Ok(semaphore) => {
                    let (pools, scratch) = (CommandPools::default(), Scratch::default());
                    let state = Mutex::new(State { handle, pools, scratch });
                    let submitted = AtomicU64::new(0);
                    let any_box = any_box(family);
                    created.queues.push(Queue { family, any_box, kind, semaphore, submitted, state });
                }
                Err(error) => {
                    // Semaphores that exist already are destroyed; no submission used them yet.
                    created.destroy(device);
                    return Err(refused(error));
                }
            }
        }
        Ok(created)
    }

    /// Destroys all driver objects. Called once, when the device is dropped.
    pub(super) fn destroy(&mut self, device: &ash::Device) {
        // All of them where one was used: the application may have submitted something that waits for its timeline to a queue
        // that this device never submitted to.
        let were_used = self.queues.iter().any(|queue| queue.submitted().0 != 0);
        let mut all_finished = true;
        let began = Instant::now();
        for (index, queue) in (0..).zip(&self.queues) {
            // One time for all queues: where one hangs, others may wait for it.
            let left = LAST_WAIT.saturating_sub(began.elapsed());
            let finished = if were_used { self.finish(device, QueueIndex(index), left) } else { Ok(()) };
            match finished {
                // A lost device is treated like an idle one: Vulkan allows destroying objects then.
                Ok(()) | Err(DeviceError::Lost) => {
                    locked(&queue.state).pools.destroy(&Maker { queues: self, queue, device });
                }
                Err(_) => all_finished = false,
            }
        }
        // After all queues, since each may wait for the timelines of the others. Leaked rather than destroyed while one
        // may still wait for a point that is never reached.
        if all_finished {
            for queue in &self.queues {
                // SAFETY: all work that waits for it or signals it is complete, or the device is lost.
                unsafe { device.destroy_semaphore(queue.semaphore, None) };
            }
        }
        self.queues.clear();
    }

    /// Waits until the queue no longer uses any timeline, for at most `timeout`.
    fn finish(&self, device: &ash::Device, index: QueueIndex, timeout: Duration) -> Result<(), DeviceError> {
        // The point of the last batch would be enough for Vulkan. But Mesa's emulation of timelines, which lavapipe has,
        // still touches the timelines that a batch waited for after it has signalled the batch's own: its thread crashes
        // where they are destroyed already. The thread takes batches in order, so an empty one comes after all of that.
        // SAFETY: it has no commands and waits for nothing. Other code uses the queue only under its lock, which needs the
        // device.
        let value = match unsafe { self.submit_commands(device, index, &[], &[]) } {
            Err(DeviceError::Lost) => return Err(DeviceError::Lost),
            // Where there is no memory for one batch more, what Vulkan asks for has to do.
            submitted => submitted.unwrap_or(self.submitted(index)),
        };
        self.wait(device, TimelinePoint { queue: index, value }, timeout)
    }

    fn get(&self, queue: QueueIndex) -> Result<&Queue, DeviceError> {
        self.queues.get(usize::from(queue.0)).ok_or(DeviceError::NoSuchQueue { queue })
    }

    pub(super) fn semaphore(&self, queue: QueueIndex) -> Option<vk::Semaphore> {
        Some(self.get(queue).ok()?.semaphore)
    }

    pub(super) fn lock(&self, queue: QueueIndex) -> Option<QueueGuard<'_>> {
        let queue = self.get(queue).ok()?;
        Some(QueueGuard { state: locked(&queue.state), queue })
    }

    pub(super) fn family(&self, queue: QueueIndex) -> Result<u32, DeviceError> {
        Ok(self.get(queue)?.family)
    }

    pub(super) fn copies_any_box(&self, queue: QueueIndex) -> bool {
        self.get(queue).is_ok_and(|queue| queue.any_box)
    }

    pub(super) fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.get(queue).map_or(TimelineValue(0), Queue::submitted)
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
            // SAFETY: the semaphore is live and a timeline semaphore.
            Timelines::Core => unsafe { device.get_semaphore_counter_value(queue.semaphore) },
            // SAFETY: as above.
            Timelines::Extension(functions) => unsafe {
                functions.get_semaphore_counter_value(queue.semaphore)
            },
        };
        match value.map_err(refused)? {
            // Some drivers report this value for a lost device.
            u64::MAX => Err(DeviceError::Lost),
            value => Ok(value),
        }
    }

    pub(super) fn wait(
        &self,
        device: &ash::Device,
        point: TimelinePoint,
        timeout: Duration,
    ) -> Result<(), DeviceError> {
        let queue = self.get(point.queue)?;
        if point.value.0 == 0 {
            // A timeline starts at 0: no driver call needed.
            return Ok(());
        }
        // The wait needs no lock: `vkWaitSemaphores` has no externally synchronised parameter.
        let (semaphores, values) = ([queue.semaphore], [point.value.0]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // Beyond 584 years the timeout is endless, as `u64::MAX` is in Vulkan.
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let waited = match &self.timelines {
            // SAFETY: the semaphore is live and a timeline semaphore.
            Timelines::Core => unsafe { device.wait_semaphores(&info, nanoseconds) },
            // SAFETY: as above.
            Timelines::Extension(functions) => unsafe { functions.wait_semaphores(&info, nanoseconds) },
        };
        match waited {
            Ok(()) => Ok(()),
            Err(vk::Result::TIMEOUT) => Err(DeviceError::TimedOut { point, timeout }),
            Err(error) => Err(refused(error)),
        }
    }

    /// # Safety
    ///
    /// The conditions of [`submit`](crate::device::QueueDevice::submit) apply.
    pub(super) unsafe fn submit(
        &self,
        device: &ash::Device,
        index: QueueIndex,
        submission: &Submission<'_, Device>,
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        let mut state = locked(&queue.state);
        // Checked under the lock: the value that this submission signals must not change in between.
        check_waits(submission.waits, index, queue.submitted().0 + 1, self.queues.len())?;
        let commands = self.record(device, queue, &mut state, submission)?;
        // SAFETY: the commands are recorded for this queue, and what they use stays alive, by the caller's
        // promise.
        let value =
            unsafe { self.queue_submit(device, queue, &mut state, submission.waits, commands.as_slice()) }?;
        if commands.is_some() {
            state.pools.submitted(value.0);
        }
        Ok(value)
    }

    /// # Safety
    ///
    /// The conditions of [`Device::submit_commands`] apply.
    pub(super) unsafe fn submit_commands(
        &self,
        device: &ash::Device,
        index: QueueIndex,
        waits: &[TimelinePoint],
        commands: &[vk::CommandBuffer],
    ) -> Result<TimelineValue, DeviceError> {
        let queue = self.get(index)?;
        let mut state = locked(&queue.state);
        check_waits(waits, index, queue.submitted().0 + 1, self.queues.len())?;
        // SAFETY: the caller's promise.
        unsafe { self.queue_submit(device, queue, &mut state, waits, commands) }
    }

    /// Calls `vkQueueSubmit`. The commands wait for the points, which were checked.
    ///
    /// # Safety
    ///
    /// The conditions of [`Device::submit_commands`] apply; `state` is the queue's.
    unsafe fn queue_submit(
        &self,
        device: &ash::Device,
        queue: &Queue,
        state: &mut State,
        waits: &[TimelinePoint],
        commands: &[vk::CommandBuffer],
    ) -> Result<TimelineValue, DeviceError> {
        // The lists of the last submission are reused: they grow in the first frames only.
        let State { handle, scratch, .. } = state;
        scratch.semaphores.clear();
        scratch.values.clear();
        // Value 0 is reached before the first submission.
        for point in waits.iter().filter(|point| point.value.0 > 0) {
            scratch.semaphores.push(self.get(point.queue)?.semaphore);
            scratch.values.push(point.value.0);
        }
        scratch.stages.clear();
        // All stages: those of the application's commands are not known, and the library's begin with a barrier that waits for
        // all of them and changes layouts, which belongs to no stage.
        scratch.stages.resize(scratch.semaphores.len(), vk::PipelineStageFlags::ALL_COMMANDS);
        // The next value is the last plus one: timelines must only grow (VUID 03242), and the lock keeps the
        // order.
        let value = queue.submitted().0 + 1;
        let (signalled, signal_values) = ([queue.semaphore], [value]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&scratch.values)
            .signal_semaphore_values(&signal_values);
        let mut info = vk::SubmitInfo::default()
            .command_buffers(commands)
            .signal_semaphores(&signalled)
            .push_next(&mut timeline);
        // Left null without waits, for which Vulkan reads neither list.
        if !scratch.semaphores.is_empty() {
            info = info.wait_semaphores(&scratch.semaphores).wait_dst_stage_mask(&scratch.stages);
        }
        // No fence: the timeline tells completion, so one object fewer is recycled.
        // SAFETY: all handles are live and of this device, the lock serialises the queue, and the value is above
        // all values that the timeline was signalled with before.
        unsafe { device.queue_submit(*handle, &[info], vk::Fence::null()) }.map_err(refused)?;
        queue.submitted.store(value, Release);
        // Stored after the driver call: a failed submission must not count.
        Ok(TimelineValue(value))
    }

    /// Records copies into the next command buffer of the pool. Returns `None` if there is nothing to copy.
    fn record(
        &self,
        device: &ash::Device,
        queue: &Queue,
        state: &mut State,
        submission: &Submission<'_, Device>,
    ) -> Result<Option<vk::CommandBuffer>, DeviceError> {
        let Submission { acquires, releases, .. } = *submission;
        if !submission.has_copies() && acquires.is_empty() && releases.is_empty() {
            return Ok(None);
        }
        // Checked before a command buffer is taken, so that a refused submission leaves the pools as they were.
        copies::check(submission.image_copies, queue.kind)?;
        full_images::check(submission.full_images, queue.kind)?;
        ownership::check(Half::Acquire, acquires, queue.family, |queue| self.family(queue))?;
        ownership::check(Half::Release, releases, queue.family, |queue| self.family(queue))?;
        let commands = state.pools.next(&Maker { queues: self, queue, device })?.next(device)?;
        // The driver may skip work that only a resubmission needs.
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer's pool was reset since the buffer was last submitted.
        unsafe { device.begin_command_buffer(commands, &begin) }.map_err(refused)?;
        let scratch = &mut state.scratch.recording;
        let family_of = |queue| self.family(queue).ok();
        let mut recording = copies::Recording { device, commands, kind: queue.kind, scratch };
        recording.transfer_ownership(Half::Acquire, acquires, family_of);
        if submission.has_copies() {
            recording.record(submission);
        }
        recording.transfer_ownership(Half::Release, releases, family_of);
        // SAFETY: the buffer is being recorded.
        unsafe { device.end_command_buffer(commands) }.map_err(refused)?;
        Ok(Some(commands))
    }
}

impl Queue {
    fn submitted(&self) -> TimelineValue {
        // Pairs with the `Release` of the submission.
        TimelineValue(self.submitted.load(Acquire))
    }
}

impl PoolMaker<Pool> for Maker<'_> {
    fn make(&self) -> Result<Pool, DeviceError> {
        Pool::new(self.device, self.queue.family)
    }

    fn reached(&self) -> Result<u64, DeviceError> {
        self.queues.reached(self.device, self.queue)
    }

    fn reset(&self, mut pool: Pool) -> Option<Pool> {
        // Resetting returns only out-of-memory errors; the pool remains valid to destroy.
        if pool.reset(self.device).is_err() {
            pool.destroy(self.device);
            // A pool that cannot be reset keeps the memory of its commands, so it is destroyed and replaced.
            return None;
        }
        Some(pool)
    }

    fn destroy(&self, mut pool: Pool) {
        pool.destroy(self.device);
    }
}

// SAFETY: the last value is stored before a submission returns, and the completed one is the semaphore's.
unsafe impl QueueDevice for Device {
    unsafe fn submit(
        &self,
        queue: QueueIndex,
        submission: &Submission<'_, Self>,
    ) -> Result<TimelineValue, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.queues.submit(&self.shared.raw, queue, submission) }
    }

    fn queue_family(&self, queue: QueueIndex) -> u32 {
        // One that does not exist is of no family.
        self.shared.queues.family(queue).unwrap_or(u32::MAX)
    }

    fn copies_any_box(&self, queue: QueueIndex) -> bool {
        self.shared.queues.copies_any_box(queue)
    }

    fn submitted(&self, queue: QueueIndex) -> TimelineValue {
        self.shared.queues.submitted(queue)
    }

    fn completed(&self, queue: QueueIndex) -> Result<TimelineValue, DeviceError> {
        self.shared.queues.completed(&self.shared.raw, queue)
    }

    fn wait(&self, point: TimelinePoint, timeout: Duration) -> Result<(), DeviceError> {
        self.shared.queues.wait(&self.shared.raw, point, timeout)
    }
}
