//! Memory objects: allocation, import, sharing and mapping.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
#[cfg(unix)]
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::Arc;

use ash::vk::{self, Handle as _};

use super::buffers::{self, Dedication};
use super::options::Sharing;
use super::{DedicatedTo, Device, EnabledFeatures, MemoryOptions, Shared, refused};
use crate::device::{
    DescriptionError, DeviceError, DeviceProperties, MemoryDesc, MemoryDevice, MemoryHandle,
    MemoryHeapBudget, MemoryHeapIndex, MemoryTypeMask, Priority, PrioritySupport,
};

/// The handle types that are file descriptors.
#[cfg(unix)]
pub(super) const FD_TYPES: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::from_raw(
    vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD.as_raw()
        | vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT.as_raw(),
);

impl MemoryHandle for vk::DeviceMemory {
    fn to_raw(self) -> u64 {
        self.as_raw()
    }

    fn from_raw(raw: u64) -> Self {
        vk::Handle::from_raw(raw)
    }
}

impl Shared {
    /// Allocates memory. A `resource` that it is allocated for takes precedence over one in the options.
    pub(super) fn allocate(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        resource: DedicatedTo,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let sharing = desc.options.map(MemoryOptions::sharing).unwrap_or_default();
        if sharing != Sharing::default() {
            // Set before any code can have the handle, so that `check_memory_sharing` cannot miss it.
            self.shares_memory.store(true, Relaxed);
        }
        let ask = || self.allocate_from_driver(desc, resource).map(|memory| (memory, sharing, ()));
        let allocated = self.ledger.allocate(&self.properties, MemoryTypeMask(self.usable_types), desc, ask);
        allocated.map(|(memory, ())| memory)
    }

    fn allocate_from_driver(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        resource: DedicatedTo,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let mut priority = vk::MemoryPriorityAllocateInfoEXT::default().priority(desc.priority.get());
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default();
        let mut export = vk::ExportMemoryAllocateInfo::default();
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(desc.size)
            .memory_type_index(desc.memory_type.0.into());
        // Structures of extensions that are not enabled must not be in the chain.
        if self.enabled.contains(EnabledFeatures::MEMORY_PRIORITY) {
            info = info.push_next(&mut priority);
        }
        if self.enabled.contains(EnabledFeatures::BUFFER_DEVICE_ADDRESS) {
            // Any buffer with a device address may be bound later, and the flag has to be set when memory is
            // allocated.
            info = info.push_next(&mut flags);
        }
        // A request made for a resource that the library creates must not be dedicated to another one from its
        // options.
        let requested = desc.options.map_or(DedicatedTo::Nothing, |options| options.dedicated_to);
        let dedicated_to = if resource == DedicatedTo::Nothing { requested } else { resource };
        match dedicated_to {
            // Below Vulkan 1.1 without the extension, the structure does not exist.
            _ if !self.requirements.has_dedicated() => {}
            DedicatedTo::Nothing => {}
            DedicatedTo::Buffer(buffer) => {
                dedicated = dedicated.buffer(buffer);
                info = info.push_next(&mut dedicated);
            }
            DedicatedTo::Image(image) => {
                dedicated = dedicated.image(image);
                info = info.push_next(&mut dedicated);
            }
        }
        let exported = desc.options.map(MemoryOptions::export).unwrap_or_default();
        if !exported.is_empty() {
            self.check_shareable(exported)?;
            if dedicated_to == DedicatedTo::Nothing {
                // Any resource may be bound, so the types must not require dedicated memory.
                self.check_shared_buffer(&buffers::PLAIN, exported, Dedication::No)?;
                // Memory dedicated to a resource was checked when that resource was created.
            }
            export = export.handle_types(exported);
            info = info.push_next(&mut export);
        }
        self.allocate_or_import(info, desc.options)
    }

    #[cfg(not(unix))]
    fn allocate_or_import(
        &self,
        info: vk::MemoryAllocateInfo<'_>,
        _: Option<&MemoryOptions>,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        // SAFETY: type, size and chain are valid: checked by the ledger and `allocate_from_driver`.
        unsafe { self.raw.allocate_memory(&info, None) }.map_err(refused)
    }

    #[cfg(unix)]
    fn allocate_or_import(
        &self,
        info: vk::MemoryAllocateInfo<'_>,
        options: Option<&MemoryOptions>,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let Some(import) = options.and_then(|options| options.import.as_ref()) else {
            // SAFETY: type, size and chain are valid: checked by the ledger and `allocate_from_driver`.
            return unsafe { self.raw.allocate_memory(&info, None) }.map_err(refused);
        };
        // An import takes one handle type; `check_shareable` would allow several.
        self.check_one_shareable(import.handle_type, FD_TYPES)?;
        // A successful import takes ownership of the descriptor, and the options may serve several allocations.
        let fd = import.fd.try_clone().map_err(|_| DeviceError::OutOfHostMemory)?.into_raw_fd();
        let mut from = vk::ImportMemoryFdInfoKHR::default().handle_type(import.handle_type).fd(fd);
        let info = info.push_next(&mut from);
        // SAFETY: as above; that the descriptor is valid was promised to `with_imported_fd`.
        let memory = unsafe { self.raw.allocate_memory(&info, None) };
        memory.map_err(|error| {
            // SAFETY: duplicated above, and a failed import leaves it to the caller.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            refused(error)
        })
    }

    /// Returns an error unless this is exactly one of the allowed handle types, as which memory may be shared.
    #[cfg(unix)]
    pub(super) fn check_one_shareable(
        &self,
        handle_type: vk::ExternalMemoryHandleTypeFlags,
        allowed: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        let (handle_types, allowed_types) = (handle_type.as_raw(), allowed.as_raw());
        if !handle_types.is_power_of_two() || !allowed.contains(handle_type) {
            return Err(DeviceError::HandleType { handle_types, allowed: allowed_types });
        }
        self.check_shareable(handle_type)
    }

    /// Returns an error for handle types as which memory may not be shared.
    pub(super) fn check_shareable(
        &self,
        handle_types: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        if self.shareable().contains(handle_types) {
            return Ok(());
        }
        Err(DeviceError::ExternalMemoryNotEnabled)
    }

    /// Returns true if the driver can share resources with these properties as all of the handle types.
    pub(super) fn shares(
        &self,
        properties: &vk::ExternalMemoryProperties,
        all: vk::ExternalMemoryHandleTypeFlags,
    ) -> bool {
        let both = vk::ExternalMemoryFeatureFlags::EXPORTABLE | vk::ExternalMemoryFeatureFlags::IMPORTABLE;
        properties.external_memory_features.intersects(both)
            && properties.compatible_handle_types.contains(all)
    }

    /// Returns an error for a resource that was not described for the handle types as which its memory is
    /// shared.
    pub(super) fn check_sharing(
        &self,
        sharing: Sharing,
        resource: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        let Sharing { exported, imported } = sharing;
        // A resource must name at least one of the exported types (VUID 02726 of `vkBindBufferMemory`), and every
        // imported one.
        if (exported.is_empty() || exported.intersects(resource)) && resource.contains(imported) {
            return Ok(());
        }
        let (memory, resource) = ((exported | imported).as_raw(), resource.as_raw());
        Err(DescriptionError::NotShared { memory, resource }.into())
    }

    /// Calls [`check_sharing`](Self::check_sharing) for existing memory.
    // The check needs the ledger, whose lock all threads share.
    pub(super) fn check_memory_sharing(
        &self,
        memory: vk::DeviceMemory,
        resource: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<(), DeviceError> {
        // Most programs share no memory, and skip the ledger's lock. A thread that has a handle of shared memory
        // also sees this flag.
        if !self.shares_memory.load(Relaxed) {
            return Ok(());
        }
        let sharing = self.ledger.with(memory, |sharing| *sharing).unwrap_or_default();
        self.check_sharing(sharing, resource)
    }

    /// Returns the handle types as which memory may be shared. Below Vulkan 1.1 there is no query for them.
    pub(super) fn shareable(&self) -> vk::ExternalMemoryHandleTypeFlags {
        let mut types = vk::ExternalMemoryHandleTypeFlags::empty();
        if self.version < vk::API_VERSION_1_1 {
            return types;
        }
        if self
            .enabled
            .intersects(EnabledFeatures::EXTERNAL_MEMORY_FD | EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF)
        {
            // A dma-buf is exported through the same `vkGetMemoryFdKHR`, so `VK_KHR_external_memory_fd` is enabled
            // then too.
            types |= vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
        }
        if self.enabled.contains(EnabledFeatures::EXTERNAL_MEMORY_DMA_BUF) {
            types |= vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
        }
        types
    }

    /// # Safety
    ///
    /// The conditions of [`free_memory`](crate::device::MemoryDevice::free_memory) apply.
    pub(super) unsafe fn free(&self, memory: vk::DeviceMemory) {
        // The ledger forgets the handle first: the driver may return the same handle to another thread at once.
        // SAFETY: the caller's promise.
        self.ledger.free(memory, |_| unsafe { self.raw.free_memory(memory, None) });
    }
}

/// Returns a range of mapped memory, for a flush or an invalidate.
fn mapped_range(memory: vk::DeviceMemory, range: &Range<u64>) -> vk::MappedMemoryRange<'static> {
    let size = range.end.saturating_sub(range.start);
    vk::MappedMemoryRange::default().memory(memory).offset(range.start).size(size)
}

// SAFETY: the driver keeps memory valid until it is freed and handles unique meanwhile, all of the memory is
// mapped, and the properties are never written.
unsafe impl MemoryDevice for Device {
    type Memory = vk::DeviceMemory;
    type MemoryOptions = MemoryOptions;

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn id(&self) -> u64 {
        Arc::as_ptr(&self.shared).addr() as u64
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        self.shared.heap_budget(heap)
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, MemoryOptions>) -> Result<vk::DeviceMemory, DeviceError> {
        self.shared.allocate(desc, DedicatedTo::Nothing)
    }

    unsafe fn free_memory(&self, memory: vk::DeviceMemory) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.free(memory) };
    }

    fn priority_support(&self) -> PrioritySupport {
        // With pageable memory the priority is changed later; without it only `VkMemoryPriorityAllocateInfoEXT`
        // counts.
        if self.shared.pageable.is_some() {
            PrioritySupport::AnyTime
        } else if self.shared.enabled.contains(EnabledFeatures::MEMORY_PRIORITY) {
            PrioritySupport::WhenAllocated
        } else {
            PrioritySupport::Ignored
        }
    }

    unsafe fn set_memory_priority(
        &self,
        memory: vk::DeviceMemory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let _alone = self.shared.memory_alone();
        // SAFETY: the caller's promise.
        unsafe { self.shared.set_priority(memory, priority) }
    }

    unsafe fn map_memory(&self, memory: vk::DeviceMemory) -> Result<NonNull<u8>, DeviceError> {
        // The whole object is mapped: Vulkan allows one mapping at a time, and all allocations in it share that.
        let flags = vk::MemoryMapFlags::empty();
        let _alone = self.shared.memory_alone();
        // SAFETY: the caller's promise.
        let mapped = unsafe { self.shared.raw.map_memory(memory, 0, vk::WHOLE_SIZE, flags) };
        NonNull::new(mapped.map_err(refused)?.cast()).ok_or(DeviceError::MapFailed)
    }

    unsafe fn unmap_memory(&self, memory: vk::DeviceMemory) {
        let _alone = self.shared.memory_alone();
        // SAFETY: the caller's promise.
        unsafe { self.shared.raw.unmap_memory(memory) };
    }

    unsafe fn flush_memory(&self, memory: vk::DeviceMemory, range: Range<u64>) -> Result<(), DeviceError> {
        // Vulkan forbids a range of size 0.
        if range.is_empty() {
            return Ok(());
        }
        let ranges = [mapped_range(memory, &range)];
        // SAFETY: the caller's promise: live, mapped, whole atoms.
        unsafe { self.shared.raw.flush_mapped_memory_ranges(&ranges) }.map_err(refused)
    }

    unsafe fn invalidate_memory(
        &self,
        memory: vk::DeviceMemory,
        range: Range<u64>,
    ) -> Result<(), DeviceError> {
        // Vulkan forbids a range of size 0.
        if range.is_empty() {
            return Ok(());
        }
        let ranges = [mapped_range(memory, &range)];
        // SAFETY: the caller's promise: live, mapped, whole atoms.
        unsafe { self.shared.raw.invalidate_mapped_memory_ranges(&ranges) }.map_err(refused)
    }

    unsafe fn name_memory(&self, memory: vk::DeviceMemory, name: &str) {
        self.shared.name(memory, name);
    }
}
