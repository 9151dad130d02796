//! Command allocators and their command lists.

use std::sync::{Mutex, PoisonError};

use windows::Win32::Graphics::Direct3D12::*;

use super::{Device, refused};
use crate::device::{CommandAllocator as CommandAllocatorApi, CommandDevice, DeviceError, QueueIndex};
use crate::sync::locked;

/// A command allocator and its command lists, for the application's own commands; see
/// [`create_command_allocator`](CommandDevice::create_command_allocator).
#[derive(Debug)]
pub struct CommandAllocator {
    commands: Mutex<Commands>,
    device: Device,
}

impl CommandAllocator {
    /// Returns the next command list, open: one that was used before the last
    /// [`reset`](CommandAllocatorApi::reset), or a newly created one.
    ///
    /// Close each list before the next call: an allocator records one list at a time.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]; no list was taken in that case.
    pub fn next(&self) -> Result<ID3D12GraphicsCommandList, DeviceError> {
        locked(&self.commands).next(self.device.raw())
    }
}

impl CommandAllocatorApi for CommandAllocator {
    fn reset(&mut self) -> Result<(), DeviceError> {
        self.commands.get_mut().unwrap_or_else(PoisonError::into_inner).reset()
    }
}

impl CommandDevice for Device {
    type CommandAllocator = CommandAllocator;

    fn create_command_allocator(&self, queue: QueueIndex) -> Result<CommandAllocator, DeviceError> {
        let kind = self.shared.queues.kind(queue)?;
        let commands = Mutex::new(Commands::new(self.raw(), kind)?);
        Ok(CommandAllocator { commands, device: self.clone() })
    }
}

/// A command allocator and its lists, without the device.
#[derive(Debug)]
pub(super) struct Commands {
    allocator: ID3D12CommandAllocator,
    kind: D3D12_COMMAND_LIST_TYPE,
    /// Lists handed out since the last reset.
    used: Vec<ID3D12GraphicsCommandList>,
    /// Closed lists to record again, the next one last.
    spare: Vec<ID3D12GraphicsCommandList>,
}

impl Commands {
    pub(super) fn new(device: &ID3D12Device, kind: D3D12_COMMAND_LIST_TYPE) -> Result<Self, DeviceError> {
        // SAFETY: the device is live.
        let allocator = unsafe { device.CreateCommandAllocator(kind) }.map_err(|error| refused(&error))?;
        Ok(Self { allocator, kind, used: Vec::new(), spare: Vec::new() })
    }

    /// Returns the next list, open.
    pub(super) fn next(&mut self, device: &ID3D12Device) -> Result<ID3D12GraphicsCommandList, DeviceError> {
        // No pipeline: copies need none, and the application sets its own.
        let nothing = None::<&ID3D12PipelineState>;
        // Removed from `spare` first: after a failed `Reset` the list is not reusable.
        let list = match self.spare.pop() {
            Some(list) => {
                // SAFETY: the list is closed, and the allocator is of its type.
                unsafe { list.Reset(&self.allocator, nothing) }.map_err(|error| refused(&error))?;
                list
            }
            None => {
                // SAFETY: the device is live, and the allocator is of this type.
                unsafe { device.CreateCommandList(0, self.kind, &self.allocator, nothing) }
                    .map_err(|error| refused(&error))?
            }
        };
        self.used.push(list.clone());
        // For all that will be taken back: that may first happen in any later frame.
        self.spare.reserve(self.used.len());
        Ok(list)
    }

    /// Makes the lists that were handed out available again, before the allocator is reset. They are closed, and
    /// are submitted, or never, before the next one is taken.
    pub(super) fn make_available(&mut self) {
        // Reversed, since `pop` takes the last: each list is then recorded in the same order in each frame, with
        // memory of the same size.
        self.spare.extend(self.used.drain(..).rev());
    }

    /// Discards the lists that were handed out and could not be closed.
    pub(super) fn discard(&mut self) {
        self.used.clear();
    }

    /// Resets the allocator. The queue has executed everything recorded, as the code that submitted it promised.
    pub(super) fn reset(&mut self) -> Result<(), DeviceError> {
        // SAFETY: the queue has executed it; with a list that is still open, the call fails.
        unsafe { self.allocator.Reset() }.map_err(|error| refused(&error))?;
        self.make_available();
        Ok(())
    }
}
