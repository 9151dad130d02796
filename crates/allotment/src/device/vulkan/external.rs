//! Memory shared with other devices and processes, as file descriptors.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use ash::vk;

use super::memory::FD_TYPES;
use super::{Device, refused};
use crate::device::{DeviceError, MemoryTypeMask};

impl Device {
    /// Exports memory as a new file descriptor.
    ///
    /// # Errors
    ///
    /// [`DeviceError::HandleType`] if `handle_type` is not exactly one file descriptor type,
    /// [`DeviceError::ExternalMemoryNotEnabled`] if `VK_KHR_external_memory_fd` is not enabled (or
    /// `VK_EXT_external_memory_dma_buf`, for that type), otherwise the driver's error.
    ///
    /// # Safety
    ///
    /// `memory` is live, from this device, and was allocated to be
    /// [exported](super::MemoryOptions::with_export_handle_types) as the one type `handle_type`.
    pub unsafe fn export_memory_fd(
        &self,
        memory: vk::DeviceMemory,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<OwnedFd, DeviceError> {
        // The handle type is checked first: `vkGetMemoryFdKHR` has undefined behaviour for several bits at once.
        let functions = self.external_functions(handle_type, FD_TYPES)?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(handle_type);
        // SAFETY: the caller's promise, and the extension is enabled.
        let fd = unsafe { functions.get_memory_fd(&info) }.map_err(refused)?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Returns the memory types as which the memory of `fd` can be imported. Not for opaque descriptors, which
    /// are imported as the type that they were exported from.
    ///
    /// # Errors
    ///
    /// The errors of [`export_memory_fd`](Self::export_memory_fd), and [`DeviceError::HandleType`] for opaque
    /// descriptors.
    pub fn memory_fd_types(
        &self,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
        fd: BorrowedFd<'_>,
    ) -> Result<MemoryTypeMask, DeviceError> {
        // `vkGetMemoryFdPropertiesKHR` forbids opaque descriptors: they fit the type that they were exported from,
        // and no other.
        let functions =
            self.external_functions(handle_type, vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT)?;
        let mut answer = vk::MemoryFdPropertiesKHR::default();
        // SAFETY: the descriptor is open, its type one that can be queried, the extension enabled.
        unsafe { functions.get_memory_fd_properties(handle_type, fd.as_raw_fd(), &mut answer) }
            .map_err(refused)?;
        // A type of a feature that is not enabled must not be allocated, even where the driver names it.
        Ok(MemoryTypeMask(answer.memory_type_bits & self.shared.usable_types))
    }

    fn external_functions(
        &self,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
        allowed: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<&ash::khr::external_memory_fd::Device, DeviceError> {
        self.shared.check_one_shareable(handle_type, allowed)?;
        let functions = self.shared.external_memory_fd.as_ref();
        functions.ok_or(DeviceError::ExternalMemoryNotEnabled)
    }
}
