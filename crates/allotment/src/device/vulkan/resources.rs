//! The common parts of buffers and images: they are created unbound, bound to memory once, and destroyed if that
//! fails.

use core::ffi::c_void;

use ash::vk;

use super::{DedicatedTo, MemoryOptions, Shared, refused};
use crate::device::{DeviceError, MemoryDesc, Requirements, ResourceKind, TransferUsage};

/// A driver object that memory is bound to.
pub(super) trait Bindable: Copy {
    /// Returns the dedication of memory to this object.
    fn dedication(self) -> DedicatedTo;

    /// Returns the object's memory requirements. It is live, of the device, and no disjoint image.
    fn memory_requirements(self, device: &Shared) -> Requirements;

    /// # Safety
    ///
    /// The object is live, of the device and not bound; its memory requirements hold at `offset`.
    unsafe fn bind(self, device: &Shared, memory: vk::DeviceMemory, offset: u64) -> Result<(), vk::Result>;

    /// # Safety
    ///
    /// The object is live, of the device, and no queue uses it.
    unsafe fn destroy(self, device: &Shared);
}

impl Bindable for vk::Buffer {
    fn dedication(self) -> DedicatedTo {
        DedicatedTo::Buffer(self)
    }

    fn memory_requirements(self, device: &Shared) -> Requirements {
        // SAFETY: the buffer is live.
        device.query_requirements(ResourceKind::Buffer, |answer| unsafe {
            device.requirements.buffer(&device.raw, self, answer);
        })
    }

    unsafe fn bind(self, device: &Shared, memory: vk::DeviceMemory, offset: u64) -> Result<(), vk::Result> {
        let _shared = device.memory_shared();
        // SAFETY: the caller's promise.
        unsafe { device.raw.bind_buffer_memory(self, memory, offset) }
    }

    unsafe fn destroy(self, device: &Shared) {
        // SAFETY: the caller's promise.
        unsafe { device.raw.destroy_buffer(self, None) };
    }
}

impl Bindable for vk::Image {
    fn dedication(self) -> DedicatedTo {
        DedicatedTo::Image(self)
    }

    fn memory_requirements(self, device: &Shared) -> Requirements {
        // SAFETY: the image is live, and not disjoint.
        device.query_requirements(ResourceKind::Unknown, |answer| unsafe {
            device.requirements.image(&device.raw, self, answer);
        })
    }

    unsafe fn bind(self, device: &Shared, memory: vk::DeviceMemory, offset: u64) -> Result<(), vk::Result> {
        let _shared = device.memory_shared();
        // SAFETY: the caller's promise.
        unsafe { device.raw.bind_image_memory(self, memory, offset) }
    }

    unsafe fn destroy(self, device: &Shared) {
        // SAFETY: the caller's promise.
        unsafe { device.raw.destroy_image(self, None) };
    }
}

impl Shared {
    /// Returns the memory requirements of an object that was created for this query only, and destroys it.
    pub(super) fn temporary_requirements(&self, object: impl Bindable) -> Requirements {
        let requirements = object.memory_requirements(self);
        // SAFETY: the caller created it, and it was never used.
        unsafe { object.destroy(self) };
        requirements
    }

    /// Binds a new object to existing memory; destroys it if that fails.
    ///
    /// # Safety
    ///
    /// The object is new, the memory is live and satisfies its requirements at `offset`.
    pub(super) unsafe fn bind<R: Bindable>(
        &self,
        object: R,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<R, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { object.bind(self, memory, offset) }.map(|()| object).map_err(|error| {
            // Vulkan cannot bind an object twice, so one that failed to bind is of no use.
            // SAFETY: the object is new, and was never used.
            unsafe { object.destroy(self) };
            refused(error)
        })
    }

    /// Allocates dedicated memory for a new object and binds it; destroys both if that fails.
    pub(super) fn bind_dedicated<R: Bindable>(
        &self,
        object: R,
        desc: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, R), DeviceError> {
        let requirements = object.memory_requirements(self);
        // Drivers need not check the memory type: a wrong one would be undefined behaviour.
        let allocated = if requirements.memory_types.contains(desc.memory_type) {
            // A dedicated object's size must be its resource's (VUIDs 02964 and 02965 of
            // `VkMemoryDedicatedAllocateInfo`).
            self.allocate(&MemoryDesc { size: requirements.size, ..*desc }, object.dedication())
        } else {
            Err(self.properties.wrong_memory_type(desc.memory_type, requirements.memory_types))
        };
        let memory = allocated.inspect_err(|_| {
            // SAFETY: the object is new, and was never used.
            unsafe { object.destroy(self) };
        })?;
        // SAFETY: both are new, and the memory was allocated for the object.
        match unsafe { self.bind(object, memory, 0) } {
            Ok(object) => Ok((memory, object)),
            Err(error) => {
                // SAFETY: allocated above, and no other code has its handle; the object is destroyed already.
                unsafe { self.free(memory) };
                Err(error)
            }
        }
    }
}

/// Returns the handle types as which a `pNext` chain says a resource is shared.
///
/// # Safety
///
/// Each structure of the chain is live, and starts as a base structure.
pub(super) unsafe fn shared_by_chain(chain: *const c_void) -> vk::ExternalMemoryHandleTypeFlags {
    let mut next = chain.cast::<vk::BaseInStructure<'_>>();
    let mut shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
    // SAFETY: the caller's promise.
    while let Some(structure) = unsafe { next.as_ref() } {
        if structure.s_type == vk::StructureType::EXTERNAL_MEMORY_BUFFER_CREATE_INFO {
            let info = next.cast::<vk::ExternalMemoryBufferCreateInfo<'_>>();
            // SAFETY: `s_type` names its type.
            shared_as |= unsafe { (*info).handle_types };
        } else if structure.s_type == vk::StructureType::EXTERNAL_MEMORY_IMAGE_CREATE_INFO {
            let info = next.cast::<vk::ExternalMemoryImageCreateInfo<'_>>();
            // SAFETY: as above.
            shared_as |= unsafe { (*info).handle_types };
        }
        next = structure.p_next;
    }
    shared_as
}

/// Returns the copies of a resource that is a copy source, a copy destination, or both.
pub(super) fn transfer_usage(source: bool, destination: bool) -> TransferUsage {
    let mut usage = TransferUsage::empty();
    usage.set(TransferUsage::SRC, source);
    usage.set(TransferUsage::DST, destination);
    usage
}
