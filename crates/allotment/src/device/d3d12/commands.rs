//! What commands are recorded into: a command allocator, and the lists that record.

use windows::Win32::Graphics::Direct3D12::*;

use super::{Device, refused};
use crate::device::{CommandMemory as CommandMemoryApi, DeviceError, QueueIndex};

/// A command allocator and its command lists, for commands of the application's own: see
/// [`Device::command_memory`].
#[derive(Debug)]
pub struct CommandMemory {
    commands: Commands,
    device: Device,
}

impl CommandMemory {
    /// The next of the command lists, open: one that was used before the last
    /// [`reset`](CommandMemoryApi::reset), or a new one where there are no more.
    ///
    /// Close each list before the next one is taken: an allocator records one list at a time.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; nothing was taken then.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and may fail")]
    pub fn next(&mut self) -> Result<ID3D12GraphicsCommandList, DeviceError> {
        self.commands.next(self.device.raw())
    }
}

impl CommandMemoryApi for CommandMemory {
    fn reset(&mut self) -> Result<(), DeviceError> {
        self.commands.reset()
    }
}

impl Device {
    /// What commands for a queue are recorded into.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where there is no such queue, else what the runtime refuses with.
    pub fn command_memory(&self, queue: QueueIndex) -> Result<CommandMemory, DeviceError> {
        let kind = self.shared.queues.kind(queue)?;
        Ok(CommandMemory { commands: Commands::new(self.raw(), kind)?, device: self.clone() })
    }
}

/// A command allocator and its lists, without the device.
#[derive(Debug)]
pub(super) struct Commands {
    allocator: ID3D12CommandAllocator,
    kind: D3D12_COMMAND_LIST_TYPE,
    /// Lists that were handed out since the last reset.
    used: Vec<ID3D12GraphicsCommandList>,
    /// Closed ones to record again, the next one last.
    spare: Vec<ID3D12GraphicsCommandList>,
}

impl Commands {
    pub(super) fn new(device: &ID3D12Device, kind: D3D12_COMMAND_LIST_TYPE) -> Result<Self, DeviceError> {
        // SAFETY: the device is live.
        let allocator = unsafe { device.CreateCommandAllocator(kind) }.map_err(|error| refused(&error))?;
        Ok(Self { allocator, kind, used: Vec::new(), spare: Vec::new() })
    }

    /// The next list, open.
    pub(super) fn next(&mut self, device: &ID3D12Device) -> Result<ID3D12GraphicsCommandList, DeviceError> {
        let nothing = None::<&ID3D12PipelineState>;
        // Taken out: after a failure it is in no state to be used again.
        let list = match self.spare.pop() {
            Some(list) => {
                // SAFETY: the list is closed, and the allocator of its kind.
                unsafe { list.Reset(&self.allocator, nothing) }.map_err(|error| refused(&error))?;
                list
            }
            None => {
                // SAFETY: the device is live, and the allocator of this kind.
                unsafe { device.CreateCommandList(0, self.kind, &self.allocator, nothing) }
                    .map_err(|error| refused(&error))?
            }
        };
        self.used.push(list.clone());
        // For all that will be taken back: that may first happen in any later frame.
        self.spare.reserve(self.used.len());
        Ok(list)
    }

    /// Says that the lists that were handed out are closed and will be submitted, or never, before the next one
    /// is taken: the same ones record again, while the allocator goes on.
    pub(super) fn take_back(&mut self) {
        self.spare.extend(self.used.drain(..).rev());
    }

    /// Gives up the lists that were handed out: they were not closed.
    pub(super) fn forget(&mut self) {
        self.used.clear();
    }

    /// The queue is done with all that was recorded, as those promised who submitted it.
    pub(super) fn reset(&mut self) -> Result<(), DeviceError> {
        // SAFETY: the queue is done with it; a list that is still open is refused.
        unsafe { self.allocator.Reset() }.map_err(|error| refused(&error))?;
        self.take_back();
        Ok(())
    }
}
