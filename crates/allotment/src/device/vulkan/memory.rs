//! Memory from the driver: what is asked of it.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
#[cfg(unix)]
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};

use ash::vk::{self, Handle as _};

use super::buffers::{self, Alone};
use super::options::Sharing;
use super::{DedicatedTo, EnabledFeatures, MemoryOptions, Shared, refused};
use crate::device::{
    DescriptionError, DeviceError, MemoryDesc, MemoryHandle, MemoryTypeMask, MissingFeature,
};

impl MemoryHandle for vk::DeviceMemory {
    fn to_raw(self) -> u64 {
        self.as_raw()
    }

    fn from_raw(raw: u64) -> Self {
        vk::Handle::from_raw(raw)
    }
}

impl Shared {
    /// Gets memory. A resource that it is made for counts more than one that the options name.
    pub(super) fn allocate(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        made_for: DedicatedTo,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let sharing = desc.options.map(MemoryOptions::sharing).unwrap_or_default();
        if sharing != Sharing::default() {
            // Before anybody can know of the memory.
            self.shares_memory.store(true, Relaxed);
        }
        let ask = || self.ask(desc, made_for).map(|memory| (memory, sharing, ()));
        let made = self.ledger.allocate(&self.properties, MemoryTypeMask(self.usable_types), desc, ask);
        made.map(|(memory, ())| memory)
    }

    fn ask(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        made_for: DedicatedTo,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let mut priority = vk::MemoryPriorityAllocateInfoEXT::default().priority(desc.priority.get());
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut alone = vk::MemoryDedicatedAllocateInfo::default();
        let mut export = vk::ExportMemoryAllocateInfo::default();
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(desc.size)
            .memory_type_index(desc.memory_type.0.into());
        if self.enabled.contains(EnabledFeatures::MEMORY_PRIORITY) {
            info = info.push_next(&mut priority);
        }
        if self.enabled.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS) {
            info = info.push_next(&mut flags);
        }
        let named = desc.options.map_or(DedicatedTo::Nothing, |options| options.dedicated_to);
        let alone_in_it = if made_for == DedicatedTo::Nothing { named } else { made_for };
        match alone_in_it {
            // Below Vulkan 1.1 without the extension, there is no telling.
            _ if !self.requirements.has_dedicated() => {}
            DedicatedTo::Nothing => {}
            DedicatedTo::Buffer(buffer) => {
                alone = alone.buffer(buffer);
                info = info.push_next(&mut alone);
            }
            DedicatedTo::Image(image) => {
                alone = alone.image(image);
                info = info.push_next(&mut alone);
            }
        }
        let exported = desc.options.map(MemoryOptions::export).unwrap_or_default();
        if !exported.is_empty() {
            self.check_shareable(exported)?;
            if alone_in_it == DedicatedTo::Nothing {
                // Any resource may stand there, so the types must be ones for which none has to be alone.
                self.check_shared_buffer(&buffers::PLAIN, exported, Alone::No)?;
            }
            export = export.handle_types(exported);
            info = info.push_next(&mut export);
        }
        self.ask_or_import(info, desc.options)
    }

    #[cfg(not(unix))]
    fn ask_or_import(
        &self,
        info: vk::MemoryAllocateInfo<'_>,
        _: Option<&MemoryOptions>,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        // SAFETY: type, size and chain are valid, as the ledger and `ask` saw to.
        unsafe { self.raw.allocate_memory(&info, None) }.map_err(refused)
    }

    #[cfg(unix)]
    fn ask_or_import(
        &self,
        info: vk::MemoryAllocateInfo<'_>,
        options: Option<&MemoryOptions>,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let Some(import) = options.and_then(|options| options.import.as_ref()) else {
            // SAFETY: type, size and chain are valid, as the ledger and `ask` saw to.
            return unsafe { self.raw.allocate_memory(&info, None) }.map_err(refused);
        };
        self.check_shareable(import.handle_type)?;
        if !self.is_one_shareable(import.handle_type) {
            return Err(DeviceError::Unsupported);
        }
        let fd = import.fd.try_clone().map_err(|_| DeviceError::OutOfHostMemory)?.into_raw_fd();
        let mut from = vk::ImportMemoryFdInfoKHR::default().handle_type(import.handle_type).fd(fd);
        let info = info.push_next(&mut from);
        // SAFETY: as above; that the descriptor fits is what `imported_from` was promised.
        let memory = unsafe { self.raw.allocate_memory(&info, None) };
        memory.map_err(|error| {
            // SAFETY: duplicated above, and a driver that refuses leaves it to the caller.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            refused(error)
        })
    }

    /// True for exactly one handle type, as which memory may be shared.
    #[cfg(unix)]
    pub(super) fn is_one_shareable(&self, handle_type: vk::ExternalMemoryHandleTypeFlags) -> bool {
        handle_type.as_raw().is_power_of_two() && self.shareable().contains(handle_type)
    }

    /// Refuses handle types as which memory may not be shared.
    pub(super) fn check_shareable(
        &self,
        handle_types: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        if self.shareable().contains(handle_types) {
            return Ok(());
        }
        Err(DeviceError::NotEnabled(MissingFeature::ExternalMemory))
    }

    /// True where the driver shares resources of these properties as all of the handle types.
    pub(super) fn shares(
        &self,
        told: &vk::ExternalMemoryProperties,
        all: vk::ExternalMemoryHandleTypeFlags,
    ) -> bool {
        let both = vk::ExternalMemoryFeatureFlags::EXPORTABLE | vk::ExternalMemoryFeatureFlags::IMPORTABLE;
        told.external_memory_features.intersects(both) && told.compatible_handle_types.contains(all)
    }

    /// Refuses a resource for memory that is shared as handle types which the resource was not described for.
    pub(super) fn check_sharing(
        &self,
        sharing: Sharing,
        resource: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        let Sharing { exported, imported } = sharing;
        if (exported.is_empty() || exported.intersects(resource)) && resource.contains(imported) {
            return Ok(());
        }
        let (memory, resource) = ((exported | imported).as_raw(), resource.as_raw());
        Err(DescriptionError::NotShared { memory, resource }.into())
    }

    /// The same for memory that is there already.
    pub(super) fn check_placed(
        &self,
        memory: vk::DeviceMemory,
        resource: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        // Most programs share nothing, and need not ask. Who knows of memory that is shared sees this as well.
        if !self.shares_memory.load(Relaxed) {
            return Ok(());
        }
        let sharing = self.ledger.with(memory, |sharing| *sharing).unwrap_or_default();
        self.check_sharing(sharing, resource)
    }

    /// Handle types that memory may be shared as. Below Vulkan 1.1 nothing tells what can be.
    pub(super) fn shareable(&self) -> vk::ExternalMemoryHandleTypeFlags {
        let mut types = vk::ExternalMemoryHandleTypeFlags::empty();
        if self.version < vk::API_VERSION_1_1 {
            return types;
        }
        if self
            .enabled
            .intersects(EnabledFeatures::EXTERNAL_MEMORY_FD | EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF)
        {
            types |= vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
        }
        if self.enabled.contains(EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF) {
            types |= vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
        }
        types
    }

    /// # Safety
    ///
    /// As for [`free_memory`](crate::Device::free_memory).
    pub(super) unsafe fn free(&self, memory: vk::DeviceMemory) {
        // SAFETY: the caller's promise.
        self.ledger.free(memory, |_| unsafe { self.raw.free_memory(memory, None) });
    }

    /// # Safety
    ///
    /// As for [`map_memory`](crate::Device::map_memory).
    pub(super) unsafe fn map(&self, memory: vk::DeviceMemory) -> Result<NonNull<u8>, DeviceError> {
        let flags = vk::MemoryMapFlags::empty();
        // SAFETY: the caller's promise.
        let mapped = unsafe { self.raw.map_memory(memory, 0, vk::WHOLE_SIZE, flags) };
        NonNull::new(mapped.map_err(refused)?.cast()).ok_or(DeviceError::MapFailed)
    }
}

/// A range of mapped memory, for a flush or an invalidate.
pub(super) fn mapped_range(memory: vk::DeviceMemory, range: &Range<u64>) -> vk::MappedMemoryRange<'static> {
    let size = range.end.saturating_sub(range.start);
    vk::MappedMemoryRange::default().memory(memory).offset(range.start).size(size)
}
