//! Memory for buffers and images of Vulkan that the application created itself.

use ash::vk;

use super::Sealed;
use crate::device::vulkan::{DedicatedTo, Device, MemoryOptions};
use crate::device::{Requirements, ResourceKind};
use crate::memory::{Allocation, AllocationError, AllocationOptions, Allocator, ResourceError};

/// What an [`Allocator`] does on Vulkan only: memory for buffers and images that the
/// application created itself.
///
/// Only allocators implement it; the [prelude](crate::prelude) has its methods.
pub trait AllocatorExt: Sealed {
    /// Allocates memory for a buffer that is not bound yet: dedicated memory where the driver wants that for the
    /// buffer or `options` ask for it, else a part of a block. The memory is not bound; see
    /// [`bind_buffer`](Self::bind_buffer).
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::allocate`].
    ///
    /// # Safety
    ///
    /// `buffer` is live, of the allocator's device, not sparse, not bound, and not created for external
    /// memory; dedicated memory that it gets is bound to nothing else.
    #[doc(alias("vmaAllocateMemoryForBuffer", "allocate_memory_for_buffer", "DedicatedBuffer"))]
    #[track_caller]
    unsafe fn allocate_for_buffer(
        &self,
        buffer: vk::Buffer,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError>;

    /// Allocates memory for an image that is not bound yet: dedicated memory where the driver wants that for the
    /// image or `options` ask for it, else a part of a block. `kind` says how the image is tiled, which the image
    /// itself does not tell. The memory is not bound; see [`bind_image`](Self::bind_image).
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::allocate`].
    ///
    /// # Safety
    ///
    /// `image` is live, of the allocator's device, neither sparse nor disjoint, not bound, and not created for
    /// external memory; dedicated memory that it gets is bound to nothing else. It is of linear tiling only
    /// where `kind` is not [`OptimalImage`](ResourceKind::OptimalImage), and of optimal tiling only
    /// where `kind` is that or [`Unknown`](ResourceKind::Unknown).
    #[doc(alias("vmaAllocateMemoryForImage", "allocate_memory_for_image", "DedicatedImage"))]
    #[track_caller]
    unsafe fn allocate_for_image(
        &self,
        image: vk::Image,
        kind: ResourceKind,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError>;

    /// Binds a buffer `offset` bytes into an allocation. Any number of resources may be bound to the same bytes of
    /// memory that is not dedicated to one resource; the caller decides which of them is valid when.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] unless the buffer allows the memory type and fits at `offset`, or the error of the driver;
    /// [`AccessError::DedicatedRequired`](crate::memory::AccessError::DedicatedRequired) where the buffer requires
    /// dedicated memory and the allocation shares a block. The buffer is not bound then.
    ///
    /// # Safety
    ///
    /// `buffer` is live, of the allocator's device, not sparse and not bound. It is destroyed before the allocation is
    /// freed, moved by a defragmentation pass, or its pool reset: while the buffer lives, the allocation is
    /// [pinned](crate::memory::Movability::Pinned), or its owner leaves it out of every pass. Memory that is dedicated
    /// to a resource is bound to that resource alone, at offset 0; a buffer that requires dedicated memory is bound to
    /// no other memory than that which was [allocated for it](Self::allocate_for_buffer). Of memory that is [exported
    /// or imported](MemoryOptions::with_export_handle_types) the buffer was created for the handle types.
    ///
    /// `vkBindBufferMemory` itself may be called instead where the memory type is not host-visible, and elsewhere while no
    /// other thread uses the allocator: the library maps memory when the CPU first needs it, and Vulkan forbids a bind to
    /// the same memory meanwhile. This call waits.
    #[doc(alias("vmaBindBufferMemory", "vmaBindBufferMemory2", "bind_buffer_memory", "bind_buffer_memory2"))]
    unsafe fn bind_buffer(
        &self,
        allocation: &Allocation,
        offset: u64,
        buffer: vk::Buffer,
    ) -> Result<(), ResourceError>;

    /// Binds an image `offset` bytes into an allocation, as [`bind_buffer`](Self::bind_buffer) does a
    /// buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`bind_buffer`](Self::bind_buffer).
    ///
    /// # Safety
    ///
    /// The promises of [`bind_buffer`](Self::bind_buffer), and the image is not disjoint. The image, too, is destroyed
    /// before the allocation is moved.
    #[doc(alias("vmaBindImageMemory", "vmaBindImageMemory2", "bind_image_memory", "bind_image_memory2"))]
    unsafe fn bind_image(
        &self,
        allocation: &Allocation,
        offset: u64,
        image: vk::Image,
    ) -> Result<(), ResourceError>;
}

impl Sealed for Allocator<Device> {}

impl AllocatorExt for Allocator<Device> {
    unsafe fn allocate_for_buffer(
        &self,
        buffer: vk::Buffer,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_buffer(buffer) };
        // SAFETY: the caller's promise.
        unsafe { self.allocate_for(DedicatedTo::Buffer(buffer), &requirements, options) }
    }

    unsafe fn allocate_for_image(
        &self,
        image: vk::Image,
        kind: ResourceKind,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_image(image) };
        // SAFETY: the caller's promise.
        unsafe { self.allocate_for(DedicatedTo::Image(image), &requirements.with_kind(kind), options) }
    }

    unsafe fn bind_buffer(
        &self,
        allocation: &Allocation,
        offset: u64,
        buffer: vk::Buffer,
    ) -> Result<(), ResourceError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_buffer(buffer) };
        // The requirements are queried here although the allocation knows some: nothing says that the buffer is
        // the one it was made for.
        self.bind_existing(allocation, offset, &requirements, |memory, offset| {
            // SAFETY: the caller's promise, and the requirements hold there.
            unsafe { self.device().bind_existing_buffer(buffer, memory, offset) }
        })
    }

    unsafe fn bind_image(
        &self,
        allocation: &Allocation,
        offset: u64,
        image: vk::Image,
    ) -> Result<(), ResourceError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_image(image) };
        self.bind_existing(allocation, offset, &requirements, |memory, offset| {
            // SAFETY: the caller's promise, and the requirements hold there.
            unsafe { self.device().bind_existing_image(image, memory, offset) }
        })
    }
}

impl Allocator<Device> {
    /// # Safety
    ///
    /// The resource is live, of the device, not bound, and has these requirements.
    #[track_caller]
    unsafe fn allocate_for(
        &self,
        resource: DedicatedTo,
        requirements: &Requirements,
        options: &AllocationOptions,
    ) -> Result<Allocation, AllocationError> {
        // A dedicated allocation must have exactly the size of its resource, so it is not rounded up to a block
        // size.
        // SAFETY: the caller's promise; the memory is exactly as large as the requirements say.
        let memory_options = unsafe { MemoryOptions::new().dedicated_to(resource) };
        self.allocate_for_existing(requirements, options, &memory_options)
    }
}
