//! What buffers and images have in common: made without memory, they are bound once, and destroyed where that
//! fails.

use core::ffi::c_void;

use ash::vk;

use super::{DedicatedTo, MemoryOptions, Shared, refused};
use crate::device::{DeviceError, MemoryDesc, Requirements, ResourceKind};

/// A driver object that memory is bound to.
pub(super) trait Bindable: Copy {
    /// How memory is told that it is the object's alone.
    fn alone(self) -> DedicatedTo;

    /// What memory the object needs. It is live, of the device, and no disjoint image.
    fn needs(self, device: &Shared) -> Requirements;

    /// # Safety
    ///
    /// The object is live, of the device and not bound; its needs hold at `offset`.
    unsafe fn bind(self, device: &Shared, memory: vk::DeviceMemory, offset: u64) -> Result<(), vk::Result>;

    /// # Safety
    ///
    /// The object is live, of the device, and no queue uses it.
    unsafe fn destroy(self, device: &Shared);
}

impl Bindable for vk::Buffer {
    fn alone(self) -> DedicatedTo {
        DedicatedTo::Buffer(self)
    }

    fn needs(self, device: &Shared) -> Requirements {
        // SAFETY: the buffer is live.
        device.asked(ResourceKind::Buffer, |answer| unsafe {
            device.requirements.buffer(&device.raw, self, answer);
        })
    }

    unsafe fn bind(self, device: &Shared, memory: vk::DeviceMemory, offset: u64) -> Result<(), vk::Result> {
        // SAFETY: the caller's promise.
        unsafe { device.raw.bind_buffer_memory(self, memory, offset) }
    }

    unsafe fn destroy(self, device: &Shared) {
        // SAFETY: the caller's promise.
        unsafe { device.raw.destroy_buffer(self, None) };
    }
}

impl Bindable for vk::Image {
    fn alone(self) -> DedicatedTo {
        DedicatedTo::Image(self)
    }

    fn needs(self, device: &Shared) -> Requirements {
        // SAFETY: the image is live, and not disjoint.
        device.asked(ResourceKind::Unknown, |answer| unsafe {
            device.requirements.image(&device.raw, self, answer);
        })
    }

    unsafe fn bind(self, device: &Shared, memory: vk::DeviceMemory, offset: u64) -> Result<(), vk::Result> {
        // SAFETY: the caller's promise.
        unsafe { device.raw.bind_image_memory(self, memory, offset) }
    }

    unsafe fn destroy(self, device: &Shared) {
        // SAFETY: the caller's promise.
        unsafe { device.raw.destroy_image(self, None) };
    }
}

impl Shared {
    /// What memory an object needs that was made to be asked, and that goes again.
    pub(super) fn needs_of_temporary(&self, object: impl Bindable) -> Requirements {
        let needs = object.needs(self);
        // SAFETY: made by the caller, and never used.
        unsafe { object.destroy(self) };
        needs
    }

    /// Binds a new object to existing memory, or destroys it.
    ///
    /// # Safety
    ///
    /// The object is new, the memory is live and suits it at `offset`.
    pub(super) unsafe fn bound<R: Bindable>(
        &self,
        object: R,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Result<R, DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { object.bind(self, memory, offset) }.map(|()| object).map_err(|error| {
            // SAFETY: the object is new, and was never used.
            unsafe { object.destroy(self) };
            refused(error)
        })
    }

    /// Binds a new object to new memory that is its alone, or destroys both.
    pub(super) fn bound_alone<R: Bindable>(
        &self,
        object: R,
        desc: &MemoryDesc<'_, MemoryOptions>,
    ) -> Result<(vk::DeviceMemory, R), DeviceError> {
        let needs = object.needs(self);
        let made = if needs.memory_types.contains(desc.memory_type) {
            self.allocate(&MemoryDesc { size: needs.size, ..*desc }, object.alone())
        } else {
            Err(DeviceError::Unsupported)
        };
        let memory = made.inspect_err(|_| {
            // SAFETY: the object is new, and was never used.
            unsafe { object.destroy(self) };
        })?;
        // SAFETY: both are new, and the memory was made for the object.
        match unsafe { self.bound(object, memory, 0) } {
            Ok(object) => Ok((memory, object)),
            Err(error) => {
                // SAFETY: made above, and known to nobody else; the object went first.
                unsafe { self.free(memory) };
                Err(error)
            }
        }
    }
}

/// The handle types that a chain says a resource is shared as.
///
/// # Safety
///
/// Each structure of the chain lives, and begins as all of Vulkan's do.
pub(super) unsafe fn shared_by_chain(chain: *const c_void) -> vk::ExternalMemoryHandleTypeFlags {
    let mut next = chain.cast::<vk::BaseInStructure<'_>>();
    let mut shared_as = vk::ExternalMemoryHandleTypeFlags::empty();
    // SAFETY: the caller's promise.
    while let Some(structure) = unsafe { next.as_ref() } {
        if structure.s_type == vk::StructureType::EXTERNAL_MEMORY_BUFFER_CREATE_INFO {
            let info = next.cast::<vk::ExternalMemoryBufferCreateInfo<'_>>();
            // SAFETY: it is of the type that it names.
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
