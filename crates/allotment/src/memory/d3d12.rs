//! Resources of Direct3D 12, which has one word for buffers and textures; and what may leave the device.

use windows::Win32::Graphics::Direct3D12::ID3D12Resource;

use super::allocator::{Allocation, Allocator};
use super::resource::{RawResource, ResourceError};
use super::{AccessError, AllocationOptions, WrongAllocator};
use crate::device::d3d12::{Device, Memory, MemoryOptions, ResourceInfo};
use crate::device::{QueueIndex, TimelinePoint};

impl Allocator<Device> {
    /// Makes a buffer or a texture with memory for it: placed in a block, in a heap of its own where it is
    /// large for a block, or committed where `desc` asks for [memory of its
    /// own](super::Dedicated::Always). Of `desc`, the requirements and the kind are replaced by
    /// the resource's own, save that memory types that they rule out stay ruled out.
    ///
    /// Before it is used, a render target or a depth buffer must be cleared, discarded or copied to as a
    /// whole: placed ones hold what was there before, and which are placed is the allocator's choice.
    ///
    /// # Errors
    ///
    /// [`ResourceError`]; neither a resource nor memory is left behind.
    pub fn create_resource(
        &self,
        info: &ResourceInfo<'_>,
        options: &AllocationOptions,
    ) -> Result<RawResource<ID3D12Resource>, ResourceError> {
        if info.is_buffer() { self.create_buffer(info, options) } else { self.create_image(info, options) }
    }

    /// As [`create_resource`](Self::create_resource), committed, with heap flags that the runtime is told
    /// beside: a resource that is shared, or shown.
    ///
    /// # Errors
    ///
    /// As for [`create_resource`](Self::create_resource).
    pub fn create_resource_with(
        &self,
        info: &ResourceInfo<'_>,
        options: &AllocationOptions,
        memory_options: &MemoryOptions,
    ) -> Result<RawResource<ID3D12Resource>, ResourceError> {
        if info.is_buffer() {
            self.create_buffer_with(info, options, memory_options)
        } else {
            self.create_image_with(info, options, memory_options)
        }
    }

    /// Makes a buffer or a texture over memory that other resources may stand in as well, `offset` bytes
    /// from its start. Release it before the allocation is freed. Which of them holds what, when, is the
    /// caller's business: say so with aliasing barriers. After each of them a render target or a depth buffer must be
    /// cleared, discarded or copied to as a whole.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] unless the resource may stand in this memory type and fits at `offset`: size and
    /// alignment. No resource was made.
    pub fn create_aliasing_resource(
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

    /// Releases a resource and frees its memory. No queue may use it any more.
    ///
    /// # Errors
    ///
    /// [`WrongAllocator`] when it is from another allocator; it comes back with the error.
    pub fn destroy_resource(
        &self,
        resource: RawResource<ID3D12Resource>,
    ) -> Result<(), WrongAllocator<RawResource<ID3D12Resource>>> {
        // Buffers and textures are released alike.
        self.destroy_image(resource)
    }

    /// Lets the system have the place of an allocation that no queue will use for a while, once it has
    /// passed `used_until`; its bytes are kept.
    ///
    /// # Errors
    ///
    /// [`AccessError::Device`] of [`DeviceError::TimedOut`](crate::device::DeviceError::TimedOut) while one of these points
    /// is not reached: ask again later.
    /// [`AccessError::NotAlone`] where other allocations are in the same heap, which would go as well:
    /// allocate it with [`Dedicated::Always`](super::Dedicated::Always). Nothing was evicted.
    ///
    /// # Safety
    ///
    /// No queue uses the allocation after the points, until it was [made resident](Self::make_resident)
    /// again. Nobody else evicts it or makes it resident meanwhile.
    pub unsafe fn evict(
        &self,
        allocation: &Allocation,
        used_until: &[TimelinePoint],
    ) -> Result<(), AccessError> {
        let memory = [self.memory_alone(allocation)?];
        // SAFETY: live while the token is borrowed; the caller's promise about queues.
        unsafe { self.device().evict(&memory, used_until) }.map_err(AccessError::Device)
    }

    /// Brings an allocation back that was [evicted](Self::evict), before what is submitted to `queue` from
    /// now on.
    ///
    /// # Errors
    ///
    /// As for [`evict`](Self::evict), and [`AccessError::Device`] where it does not fit any more: evict
    /// something else, or free.
    ///
    /// # Safety
    ///
    /// Other queues use the allocation only after what `queue` does next. Nobody else evicts it or makes it
    /// resident meanwhile.
    pub unsafe fn make_resident(
        &self,
        allocation: &Allocation,
        queue: QueueIndex,
    ) -> Result<(), AccessError> {
        let memory = [self.memory_alone(allocation)?];
        // SAFETY: live while the token is borrowed; the caller's promise about queues.
        unsafe { self.device().make_resident_for(queue, &memory) }.map_err(AccessError::Device)
    }

    /// The memory of an allocation that has it for itself.
    fn memory_alone(&self, allocation: &Allocation) -> Result<Memory, AccessError> {
        let info = self.info(allocation)?;
        if !info.dedicated {
            return Err(AccessError::NotAlone);
        }
        Ok(self.location(allocation)?.memory)
    }
}
