//! Commands that are recorded before they are submitted, as on the APIs that this device stands in for.

use std::sync::{Mutex, PoisonError};

use super::{SimulatedBuffer, SimulatedGpu};
use crate::device::{
    BufferCopy, CommandAllocator as CommandAllocatorApi, CommandDevice, DeviceError, QueueDevice, QueueIndex,
    Submission, TimelinePoint, TimelineValue,
};
use crate::sync::locked;

/// Recorded copies between buffers, which [`SimulatedGpu::submit_commands`] submits.
///
/// To reset or drop it while a queue still executes it is a [validation error](SimulatedGpu::validation_errors).
#[derive(Debug)]
pub struct CommandAllocator {
    device: SimulatedGpu,
    copies: Mutex<Vec<RecordedCopy>>,
    /// The last submission.
    submitted: Mutex<Option<TimelinePoint>>,
}

#[derive(Clone, Debug)]
struct RecordedCopy {
    from: SimulatedBuffer,
    from_offset: u64,
    to: SimulatedBuffer,
    to_offset: u64,
    size: u64,
}

impl CommandAllocator {
    /// Records a copy of `size` bytes. The copies of one submission run in any order.
    pub fn copy_buffer(
        &self,
        (from, from_offset): (&SimulatedBuffer, u64),
        (to, to_offset): (&SimulatedBuffer, u64),
        size: u64,
    ) {
        // Clones, since the caller may drop its buffers before the submission; their use after destruction is
        // still detected.
        let (from, to) = (from.clone(), to.clone());
        locked(&self.copies).push(RecordedCopy { from, from_offset, to, to_offset, size });
    }

    /// Returns the number of copies that were recorded since the last reset.
    #[must_use]
    pub fn len(&self) -> usize {
        locked(&self.copies).len()
    }

    /// Returns true where nothing was recorded since the last reset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        locked(&self.copies).is_empty()
    }

    /// Reports a use of commands that a queue still executes.
    fn check(&self, call: &str) {
        let submitted = *locked(&self.submitted);
        let Some(TimelinePoint { queue, value }) = submitted else { return };
        // A lost device executes nothing, and answers nothing else.
        if self.device.shared.queues.completed_unseen(queue).is_ok_and(|completed| completed < value) {
            self.device.report(format!("{call}: queue {} still executes these commands", queue.0));
        }
    }
}

impl CommandAllocatorApi for CommandAllocator {
    fn reset(&mut self) -> Result<(), DeviceError> {
        self.check("reset_commands");
        self.copies.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}

impl Drop for CommandAllocator {
    fn drop(&mut self) {
        self.check("drop_commands");
    }
}

impl CommandDevice for SimulatedGpu {
    type CommandAllocator = CommandAllocator;

    fn create_command_allocator(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        self.shared.faults.check()?;
        if usize::from(queue.0) >= self.shared.properties.queues.len() {
            return Err(DeviceError::NoSuchQueue { queue });
        }
        Ok(CommandAllocator { device: self.clone(), copies: Mutex::default(), submitted: Mutex::new(None) })
    }
}

impl SimulatedGpu {
    /// Submits recorded copies, as one submission.
    ///
    /// # Errors
    ///
    /// The errors of [`submit`](QueueDevice::submit); nothing was submitted then.
    ///
    /// # Safety
    ///
    /// The conditions of [`submit`](QueueDevice::submit) hold for the recorded copies, and the commands are neither
    /// reset nor dropped before the returned value is reached.
    pub unsafe fn submit_commands(
        &self,
        queue: QueueIndex,
        waits: &[TimelinePoint],
        commands: &[&CommandAllocator],
    ) -> Result<TimelineValue, DeviceError> {
        // All commands become one submission, as `vkQueueSubmit` and `ExecuteCommandLists` do it.
        let mut recorded = Vec::new();
        commands.iter().for_each(|commands| recorded.extend(locked(&commands.copies).iter().cloned()));
        let copies: Vec<_> = recorded
            .iter()
            .map(|copy| BufferCopy {
                from: &copy.from,
                from_offset: copy.from_offset,
                to: &copy.to,
                to_offset: copy.to_offset,
                size: copy.size,
            })
            .collect();
        // SAFETY: as the caller promises.
        let value =
            unsafe { self.submit(queue, &Submission { waits, copies: &copies, ..Submission::default() })? };
        // Noted only after success: a refused submission leaves the commands free to be reset.
        for commands in commands {
            *locked(&commands.submitted) = Some(TimelinePoint { queue, value });
        }
        Ok(value)
    }
}
