//! What a driver can be told about memory beside its type, size and priority.

#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::sync::Arc;

use ash::vk;

/// Who else may use memory, where it comes from, and what alone will stand in it.
///
/// ```
/// use allotment::device::vulkan::MemoryOptions;
/// use ash::vk::ExternalMemoryHandleTypeFlags;
///
/// let shared = MemoryOptions::new().exported_as(ExternalMemoryHandleTypeFlags::OPAQUE_FD);
/// assert_eq!(shared.export(), ExternalMemoryHandleTypeFlags::OPAQUE_FD);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    export: vk::ExternalMemoryHandleTypeFlags,
    #[cfg(unix)]
    pub(super) import: Option<Import>,
    pub(super) dedicated_to: DedicatedTo,
}

/// Memory that another allocation, device or process has.
#[cfg(unix)]
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) handle_type: vk::ExternalMemoryHandleTypeFlags,
    /// Duplicated for each allocation, since the driver takes what it is given.
    pub(super) fd: Arc<OwnedFd>,
}

/// The handle types that memory is shared as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) exported: vk::ExternalMemoryHandleTypeFlags,
    pub(super) imported: vk::ExternalMemoryHandleTypeFlags,
}

/// A resource that shall be alone in its memory (`VkMemoryDedicatedAllocateInfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DedicatedTo {
    /// None: any may stand there.
    #[default]
    Nothing,
    /// This buffer.
    Buffer(vk::Buffer),
    /// This image.
    Image(vk::Image),
}

impl MemoryOptions {
    /// Nothing beside type, size and priority.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with memory that can be exported (on Unix, `Device::export_memory_fd`) as handles of these
    /// types. Resources that stand there must have been described for it
    /// ([`BufferInfo::shared_as`](super::BufferInfo::shared_as),
    /// [`ImageInfo::shared_as`](super::ImageInfo::shared_as)); others are refused with
    /// [`DescriptionError::NotShared`](crate::device::DescriptionError::NotShared). The allocation is refused where the
    /// extension for a type is not enabled.
    #[must_use]
    pub fn exported_as(mut self, handle_types: vk::ExternalMemoryHandleTypeFlags) -> Self {
        self.export |= handle_types;
        self
    }

    /// What the memory can be exported as.
    #[must_use]
    pub fn export(&self) -> vk::ExternalMemoryHandleTypeFlags {
        self.export
    }

    /// As what memory is shared that is allocated so.
    pub(super) fn sharing(&self) -> Sharing {
        #[cfg(unix)]
        let imported = self.import.as_ref().map(|import| import.handle_type).unwrap_or_default();
        #[cfg(not(unix))]
        let imported = vk::ExternalMemoryHandleTypeFlags::empty();
        Sharing { exported: self.export, imported }
    }

    /// The same, with memory that `fd` names rather than new memory. The descriptor is duplicated; the
    /// caller's own stays open as long as these options live.
    ///
    /// # Safety
    ///
    /// `fd` is a handle of the one type `handle_type` that a driver of the same kind of device exported;
    /// memory that is allocated with these options has the size and type that Vulkan demands of an import.
    #[cfg(unix)]
    #[must_use]
    pub unsafe fn imported_from(
        mut self,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
        fd: OwnedFd,
    ) -> Self {
        self.import = Some(Import { handle_type, fd: Arc::new(fd) });
        self
    }

    /// The same for one resource alone. Says nothing where the memory is made together with its resource,
    /// which then is the one.
    ///
    /// # Safety
    ///
    /// The resource is live, of the device, not bound yet, and as large as the memory that is allocated
    /// with these options; nothing else is bound to that memory.
    #[must_use]
    pub unsafe fn dedicated_to(mut self, resource: DedicatedTo) -> Self {
        self.dedicated_to = resource;
        self
    }
}
