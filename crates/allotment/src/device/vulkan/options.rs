//! Options of a memory object besides its type, size and priority.

#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::sync::Arc;

use ash::vk;

/// Options of a memory object: export, import, and dedication to one resource.
///
/// ```
/// use allotment::device::vulkan::MemoryOptions;
/// use ash::vk::ExternalMemoryHandleTypeFlags;
///
/// let shared = MemoryOptions::new().with_export_handle_types(ExternalMemoryHandleTypeFlags::OPAQUE_FD);
/// assert_eq!(shared.export(), ExternalMemoryHandleTypeFlags::OPAQUE_FD);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    export: vk::ExternalMemoryHandleTypeFlags,
    #[cfg(unix)]
    pub(super) import: Option<Import>,
    pub(super) dedicated_to: DedicatedTo,
}

/// Memory of another allocation, device or process.
#[cfg(unix)]
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) handle_type: vk::ExternalMemoryHandleTypeFlags,
    /// Duplicated for each allocation, since an import takes ownership of the descriptor.
    pub(super) fd: Arc<OwnedFd>,
}

/// The handle types that memory is shared as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) exported: vk::ExternalMemoryHandleTypeFlags,
    pub(super) imported: vk::ExternalMemoryHandleTypeFlags,
}

/// The only resource that will be bound to a memory object (`VkMemoryDedicatedAllocateInfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DedicatedTo {
    /// None: any resource may be bound.
    #[default]
    Nothing,
    /// This buffer.
    Buffer(vk::Buffer),
    /// This image.
    Image(vk::Image),
}

impl MemoryOptions {
    /// Creates options without export, import or dedication.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the memory exportable (on Unix, with `Device::export_memory_fd`) as handles of these types. Resources that
    /// are bound to it must have been described for that
    /// ([`BufferInfo::with_external_handle_types`](super::BufferInfo::with_external_handle_types),
    /// [`ImageInfo::with_external_handle_types`](super::ImageInfo::with_external_handle_types)); others are refused
    /// with [`DescriptionError::NotShared`](crate::device::DescriptionError::NotShared). The allocation is refused if
    /// the extension for a type is not enabled.
    #[must_use]
    pub fn with_export_handle_types(mut self, handle_types: vk::ExternalMemoryHandleTypeFlags) -> Self {
        self.export |= handle_types;
        self
    }

    /// Returns the handle types that the memory can be exported as.
    #[must_use]
    pub fn export(&self) -> vk::ExternalMemoryHandleTypeFlags {
        self.export
    }

    /// Returns the handle types as which memory with these options is shared.
    pub(super) fn sharing(&self) -> Sharing {
        #[cfg(unix)]
        let imported = self.import.as_ref().map(|import| import.handle_type).unwrap_or_default();
        #[cfg(not(unix))]
        let imported = vk::ExternalMemoryHandleTypeFlags::empty();
        Sharing { exported: self.export, imported }
    }

    /// Imports the memory of `fd` instead of allocating new memory. The descriptor is duplicated for each
    /// allocation; `fd` itself stays open as long as these options live.
    ///
    /// # Safety
    ///
    /// `fd` is a handle of the one type `handle_type` that a driver of the same kind of device exported; memory
    /// that is allocated with these options has the size and type that Vulkan requires of an import.
    #[cfg(unix)]
    #[must_use]
    pub unsafe fn with_imported_fd(
        mut self,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
        fd: OwnedFd,
    ) -> Self {
        self.import = Some(Import { handle_type, fd: Arc::new(fd) });
        self
    }

    /// Dedicates the memory to one buffer. Ignored if the memory is allocated together with its resource, to
    /// which it is dedicated then.
    ///
    /// # Safety
    ///
    /// The buffer is live, of the device, not bound yet, and as large as the memory that is allocated with
    /// these options; nothing else is bound to that memory.
    #[must_use]
    pub unsafe fn with_dedicated_buffer(self, buffer: vk::Buffer) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.dedicated_to(DedicatedTo::Buffer(buffer)) }
    }

    /// Dedicates the memory to one image, as [`with_dedicated_buffer`](Self::with_dedicated_buffer) does to a buffer.
    ///
    /// # Safety
    ///
    /// Those of that call, for the image.
    #[must_use]
    pub unsafe fn with_dedicated_image(self, image: vk::Image) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.dedicated_to(DedicatedTo::Image(image)) }
    }

    /// Dedicates the memory to one resource, or to none.
    ///
    /// # Safety
    ///
    /// Those of the two methods above.
    pub(crate) unsafe fn dedicated_to(mut self, resource: DedicatedTo) -> Self {
        self.dedicated_to = resource;
        self
    }
}
