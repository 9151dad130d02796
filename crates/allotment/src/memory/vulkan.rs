//! Memory for buffers and images of Vulkan that the application made itself.

use ash::vk;

use super::allocator::{Allocation, Allocator};
use super::resource::ResourceError;
use super::{AccessError, AllocationDesc, AllocationError, Dedicated, Lifetime, Movability, NewBlocks};
use crate::device::vulkan::{DedicatedTo, Device, MemoryOptions};
use crate::device::{DedicatedNeed, Requirements, ResourceKind};

impl Allocator<Device> {
    /// Allocates memory for a buffer that is not bound yet: memory of its own where the driver wants that
    /// for it or `desc` asks for it, else a part of a block. Of `desc`, the requirements and the kind are
    /// replaced by the buffer's own, save that memory types that they rule out stay ruled out, and that the place is a
    /// multiple of their alignment too. The memory is not bound; see [`bind_buffer`](Self::bind_buffer).
    ///
    /// # Errors
    ///
    /// As for [`allocate`](Self::allocate).
    ///
    /// # Safety
    ///
    /// `buffer` is live, of the allocator's device, not sparse, not bound, and not made for external
    /// memory; memory that it gets of its own goes to nothing else.
    pub unsafe fn allocate_for_buffer(
        &self,
        buffer: vk::Buffer,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_buffer(buffer) };
        let desc = desc.for_resource(requirements).with_kind(ResourceKind::Buffer);
        // SAFETY: the caller's promise.
        unsafe { self.allocate_for(DedicatedTo::Buffer(buffer), &desc) }
    }

    /// Allocates memory for an image that is not bound yet: memory of its own where the driver wants that
    /// for it or `desc` asks for it, else a part of a block. Of `desc`, the requirements are replaced by the
    /// image's own, save that memory types that they rule out stay ruled out, and that the place is a multiple of their
    /// alignment too; its kind must say how the image is tiled. The memory is not bound; see
    /// [`bind_image`](Self::bind_image).
    ///
    /// # Errors
    ///
    /// As for [`allocate`](Self::allocate).
    ///
    /// # Safety
    ///
    /// `image` is live, of the allocator's device, neither sparse nor disjoint, not bound, and not made for
    /// external memory; memory that it gets of its own goes to nothing else. It is of linear tiling only
    /// where `desc` does not say [`OptimalImage`](ResourceKind::OptimalImage), and of optimal tiling only
    /// where `desc` says that or [`Unknown`](ResourceKind::Unknown).
    pub unsafe fn allocate_for_image(
        &self,
        image: vk::Image,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_image(image) };
        let desc = desc.for_resource(requirements);
        // SAFETY: the caller's promise.
        unsafe { self.allocate_for(DedicatedTo::Image(image), &desc) }
    }

    /// # Safety
    ///
    /// The resource is live, of the device, not bound, and needs what `desc` says.
    unsafe fn allocate_for(
        &self,
        resource: DedicatedTo,
        desc: &AllocationDesc,
    ) -> Result<Allocation, AllocationError> {
        let alone = || {
            // SAFETY: the caller's promise; the memory is exactly as large as the requirements say.
            let options = unsafe { MemoryOptions::new().dedicated_to(resource) };
            // Its resource is the caller's, who alone knows how to make it again.
            let desc = AllocationDesc { movability: Movability::Pinned, ..desc.clone() };
            self.allocate_exclusive(&desc, &options)
        };
        match (desc.dedicated, desc.requirements.dedicated) {
            (Dedicated::Always, _) | (Dedicated::Automatic, DedicatedNeed::Required) => alone(),
            (Dedicated::Automatic, DedicatedNeed::Preferred)
                if desc.lifetime == Lifetime::Long
                    && desc.new_blocks == NewBlocks::Allowed
                    // Nobody gets memory of its own ahead of need.
                    && !self.is_kept_up()
                    && !self.heaps.objects_are_scarce(self.device()) =>
            {
                // The driver would have liked it better so; it works otherwise too.
                alone().or_else(|_| self.allocate(desc))
            }
            _ => self.allocate(desc),
        }
    }

    /// Binds a buffer `offset` bytes into an allocation. Any number of resources may be bound over the same
    /// bytes of memory that is not one resource's own; which of them holds what, when, is the caller's
    /// business.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] unless the buffer may stand in this memory type and fits at `offset`, or what the
    /// driver refuses with; [`AccessError::DedicatedRequired`] where the buffer requires dedicated memory and the
    /// allocation shares a block. The buffer is not bound then.
    ///
    /// # Safety
    ///
    /// `buffer` is live, of the allocator's device, not sparse and not bound. It is destroyed before the
    /// allocation is freed, moved by a defragmentation pass, or its pool reset: while the buffer lives, the
    /// allocation is [pinned](Movability::Pinned), or its owner leaves it out of every pass. Memory that was allocated
    /// for a resource of its own takes that resource alone, at offset 0; a buffer that requires dedicated memory takes
    /// no other than that which was [allocated for it](Self::allocate_for_buffer). Of memory that is
    /// [exported or imported](MemoryOptions::exported_as) the buffer was created for the handle types.
    pub unsafe fn bind_buffer(
        &self,
        allocation: &Allocation,
        offset: u64,
        buffer: vk::Buffer,
    ) -> Result<(), ResourceError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_buffer(buffer) };
        self.bind_in(allocation, offset, &requirements, |memory, offset| {
            // SAFETY: the caller's promise, and the requirements hold there.
            unsafe { self.device().raw().bind_buffer_memory(buffer, memory, offset) }
        })
    }

    /// Binds an image `offset` bytes into an allocation, as [`bind_buffer`](Self::bind_buffer) does a
    /// buffer.
    ///
    /// # Errors
    ///
    /// As for [`bind_buffer`](Self::bind_buffer).
    ///
    /// # Safety
    ///
    /// As for [`bind_buffer`](Self::bind_buffer), and the image is not disjoint. The image, too, is destroyed before the
    /// allocation is moved.
    pub unsafe fn bind_image(
        &self,
        allocation: &Allocation,
        offset: u64,
        image: vk::Image,
    ) -> Result<(), ResourceError> {
        // SAFETY: the caller's promise.
        let requirements = unsafe { self.device().requirements_of_image(image) };
        self.bind_in(allocation, offset, &requirements, |memory, offset| {
            // SAFETY: the caller's promise, and the requirements hold there.
            unsafe { self.device().raw().bind_image_memory(image, memory, offset) }
        })
    }

    fn bind_in(
        &self,
        allocation: &Allocation,
        offset: u64,
        requirements: &Requirements,
        bind: impl FnOnce(vk::DeviceMemory, u64) -> Result<(), vk::Result>,
    ) -> Result<(), ResourceError> {
        let _held = self.hold(allocation).map_err(ResourceError::Access)?;
        let mut requirements = *requirements;
        if requirements.dedicated == DedicatedNeed::Required
            && self.info(allocation.id()).map_err(ResourceError::Access)?.dedicated
        {
            // That the memory was allocated for this resource is the caller's promise.
            requirements.dedicated = DedicatedNeed::None;
        }
        let place: Result<_, AccessError> = self.place_inside(allocation, offset, &requirements);
        let place = place.map_err(ResourceError::Access)?;
        bind(place.memory, place.offset)
            .map_err(|error| ResourceError::Device(crate::device::vulkan::refused(error)))
    }
}
