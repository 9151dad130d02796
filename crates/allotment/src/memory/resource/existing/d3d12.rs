//! Direct3D 12: buffers and textures through the same calls, and residency.

use windows::Win32::Graphics::Direct3D12::ID3D12Resource;

use super::Sealed;
use crate::device::d3d12::{Device, Memory, ResourceInfo};
use crate::device::{QueueIndex, TimelinePoint};
use crate::memory::{
    AccessError, Allocation, AllocationOptions, Allocator, RawResource, ResourceError, WithMemoryOptions,
    WrongAllocator,
};

/// What an [`Allocator`] does on Direct3D 12 only: buffers and textures by
/// one call, and residency.
///
/// Only allocators implement it; the [prelude](crate::prelude) has its methods.
pub trait AllocatorExt: Sealed {
    /// Creates a buffer or a texture with memory for it: placed in a block, placed in a dedicated heap where it is
    /// large for a block, or committed where `options` ask for [dedicated memory](crate::memory::Dedicated::Always).
    ///
    /// Before it is used, a render target or a depth buffer must be cleared, discarded or copied to as a
    /// whole: a placed one has the bytes of earlier allocations, and the allocator decides which are placed.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a resource nor memory is left behind.
    #[doc(alias("CreateResource", "CreateResource2", "CreateResource3"))]
    #[track_caller]
    fn create_resource(
        &self,
        info: &ResourceInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawResource<ID3D12Resource>, ResourceError>;

    /// Creates a buffer or a texture `offset` bytes into an allocation, where other resources may be placed as well.
    /// Release it before the allocation is freed. The caller decides which of the resources is valid when, and
    /// records aliasing barriers; after each barrier a render target or a depth buffer must be cleared, discarded or
    /// copied to as a whole.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] unless the resource allows the memory type, and fits at `offset` with size and alignment. No
    /// resource is left behind.
    #[doc(alias("CreateAliasingResource", "CreateAliasingResource1", "CreateAliasingResource2"))]
    fn create_aliasing_resource(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &ResourceInfo<'_>,
    ) -> Result<ID3D12Resource, ResourceError>;

    /// Releases a resource and frees its memory. No queue may use it any more.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when the resource is from another allocator; the error returns it.
    #[doc(alias("Release", "free_resource"))]
    fn destroy_resource(
        &self,
        resource: RawResource<ID3D12Resource>,
    ) -> Result<(), WrongAllocator<RawResource<ID3D12Resource>>>;

    /// Evicts an allocation that no queue will use for a while, once the queues have reached `used_until`. The system
    /// keeps its bytes.
    ///
    /// # Errors
    ///
    /// [`AccessError::Device`] of [`DeviceError::TimedOut`](crate::device::DeviceError::TimedOut) while one of these
    /// points is not reached: try again later. [`AccessError::NotDedicated`] where other allocations are in the same
    /// heap, which would be evicted as well: allocate it with [`Dedicated::Always`](crate::memory::Dedicated::Always).
    /// Nothing was evicted.
    ///
    /// # Safety
    ///
    /// No queue uses the allocation after the points, until it was [made resident](Self::make_resident)
    /// again. No other code evicts it or makes it resident meanwhile.
    unsafe fn evict(&self, allocation: &Allocation, used_until: &[TimelinePoint]) -> Result<(), AccessError>;

    /// Makes an [evicted](Self::evict) allocation resident before the next work that is submitted to `queue`.
    ///
    /// # Errors
    ///
    /// The errors of [`evict`](Self::evict), and [`AccessError::Device`] where memory has no room for it any more:
    /// evict or free something else.
    ///
    /// # Safety
    ///
    /// Other queues use the allocation only after what `queue` does next. No other code evicts it or makes it
    /// resident meanwhile.
    unsafe fn make_resident(&self, allocation: &Allocation, queue: QueueIndex) -> Result<(), AccessError>;
}

impl Sealed for Allocator<Device> {}

impl AllocatorExt for Allocator<Device> {
    fn create_resource(
        &self,
        info: &ResourceInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawResource<ID3D12Resource>, ResourceError> {
        // The API has one creation call for both; here the two differ in validation and in the category of their
        // heap.
        if info.is_buffer() { self.create_buffer(info, options) } else { self.create_image(info, options) }
    }

    fn create_aliasing_resource(
        &self,
        allocation: &Allocation,
        offset: u64,
        info: &ResourceInfo<'_>,
    ) -> Result<ID3D12Resource, ResourceError> {
        if info.is_buffer() {
            self.create_aliasing_buffer(allocation, offset, info)
        } else {
            self.create_aliasing_image(allocation, offset, info)
        }
    }

    fn destroy_resource(
        &self,
        resource: RawResource<ID3D12Resource>,
    ) -> Result<(), WrongAllocator<RawResource<ID3D12Resource>>> {
        // Buffers and textures are released by the same call of the API.
        self.destroy_image(resource)
    }

    unsafe fn evict(&self, allocation: &Allocation, used_until: &[TimelinePoint]) -> Result<(), AccessError> {
        // The token is resolved first: another allocator's token must not reach the device.
        let memory = [self.dedicated_memory(allocation)?];
        // SAFETY: live while the token is borrowed; the caller's promise about queues.
        let done = unsafe { self.device().evict(&memory, used_until) };
        done.map_err(|error| AccessError::from(error).of(self.name_of(allocation)))
    }

    unsafe fn make_resident(&self, allocation: &Allocation, queue: QueueIndex) -> Result<(), AccessError> {
        let memory = [self.dedicated_memory(allocation)?];
        // SAFETY: live while the token is borrowed; the caller's promise about queues.
        let done = unsafe { self.device().make_resident_for(queue, &memory) };
        done.map_err(|error| AccessError::from(error).of(self.name_of(allocation)))
    }
}

impl Allocator<Device> {
    /// Returns the memory object of a dedicated allocation.
    fn dedicated_memory(&self, allocation: &Allocation) -> Result<Memory, AccessError> {
        let info = self.info(allocation)?;
        // The API evicts whole heaps: with a shared block it would evict the block's other allocations as well.
        if !info.dedicated {
            return Err(AccessError::NotDedicated { name: self.name_of(allocation) });
        }
        Ok(self.location(allocation)?.memory)
    }
}

impl WithMemoryOptions<'_, Device> {
    /// Creates a committed resource with additional heap flags, such as for shared or displayable resources.
    ///
    /// # Errors
    ///
    /// The errors of [`AllocatorExt::create_resource`].
    #[track_caller]
    pub fn create_resource(
        &self,
        info: &ResourceInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawResource<ID3D12Resource>, ResourceError> {
        if info.is_buffer() { self.create_buffer(info, options) } else { self.create_image(info, options) }
    }
}
