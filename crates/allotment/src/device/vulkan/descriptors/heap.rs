//! Descriptor heaps of each kind.

use core::fmt;
use core::ops::Range;

use ash::vk;

use super::buffer::{self, ByteHeap};
use super::descriptor::What;
use super::records::Records;
use super::sets::SetHeap;
use crate::device::vulkan::{Device, Shared};
use crate::device::{
    DescriptionError, DescriptorHeapBacking, DescriptorHeapDesc, DescriptorHeapType,
    DescriptorHeapVisibility, DeviceError, ShaderVisibleHeapType,
};

/// A descriptor heap. Destroyed with
/// [`destroy_descriptor_heap`](crate::device::DescriptorDevice::destroy_descriptor_heap).
#[must_use]
pub struct DescriptorHeap {
    pub(super) usage: DescriptorHeapVisibility,
    pub(super) capacity: u32,
    pub(super) store: Store,
}

/// The storage of a heap.
pub(super) enum Store {
    Bytes(ByteHeap),
    Set(SetHeap),
    Records(Records),
}

impl DescriptorHeap {
    /// Returns whether shaders read the heap, and the type of its descriptors.
    #[must_use]
    pub fn usage(&self) -> DescriptorHeapVisibility {
        self.usage
    }

    /// Returns the number of descriptors.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the argument for `vkCmdBindDescriptorBuffersEXT`; `None` unless the heap is a descriptor buffer.
    #[must_use]
    pub fn binding_info(&self) -> Option<vk::DescriptorBufferBindingInfoEXT<'static>> {
        match &self.store {
            Store::Bytes(heap) => heap.bound().map(buffer::Bound::binding_info),
            Store::Set(_) | Store::Records(_) => None,
        }
    }

    /// Returns the offset for `vkCmdSetDescriptorBufferOffsetsEXT` of a table that starts at a slot, which is a
    /// multiple of [`table_alignment`](crate::device::ShaderVisibleHeapLimits::table_alignment). 0 if the heap is not
    /// in a buffer.
    #[must_use]
    pub fn table_offset(&self, first: u32) -> u64 {
        match &self.store {
            Store::Bytes(heap) => heap.bytes(first),
            Store::Set(_) | Store::Records(_) => 0,
        }
    }

    /// Returns the descriptor set of the heap; `None` unless the heap is a shader-visible descriptor set.
    #[must_use]
    pub fn set(&self) -> Option<vk::DescriptorSet> {
        match &self.store {
            Store::Set(heap) => Some(heap.set),
            Store::Bytes(_) | Store::Records(_) => None,
        }
    }

    /// Returns the [layout](super::DescriptorSetLayout) of a shader-visible heap. It belongs to the heap and is
    /// destroyed with it.
    #[must_use]
    pub fn layout(&self) -> Option<vk::DescriptorSetLayout> {
        match &self.store {
            Store::Bytes(heap) => heap.bound().map(|bound| bound.layout),
            Store::Set(heap) => Some(heap.layout),
            Store::Records(_) => None,
        }
    }

    /// Returns the image view in a slot of a CPU heap of render targets or depth-stencil images, for
    /// `VkRenderingAttachmentInfo` or a framebuffer. Null for a slot that was not written, and in other heaps.
    ///
    /// # Safety
    ///
    /// No other thread writes the slot during this call.
    ///
    /// # Panics
    ///
    /// Panics if the slot does not exist.
    #[must_use]
    pub unsafe fn image_view(&self, at: u32) -> vk::ImageView {
        assert!(at < self.capacity, "slot {at} is out of bounds for a heap of {}", self.capacity);
        let Store::Records(records) = &self.store else { return vk::ImageView::null() };
        // SAFETY: the caller's promise.
        match unsafe { records.read(at..at + 1) } {
            [Some(What::RenderTarget(view) | What::DepthStencil(view))] => *view,
            _ => vk::ImageView::null(),
        }
    }
}

impl fmt::Debug for DescriptorHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = match self.store {
            Store::Bytes(_) => "bytes",
            Store::Set(_) => "a set",
            Store::Records(_) => "records",
        };
        f.debug_struct("DescriptorHeap")
            .field("usage", &self.usage)
            .field("capacity", &self.capacity)
            .field("store", &store)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn create_heap(
        &self,
        desc: &DescriptorHeapDesc,
        memory: Option<DescriptorHeapBacking<'_, Device>>,
    ) -> Result<Store, DeviceError> {
        let descriptors = &self.descriptors;
        let capacity = desc.capacity;
        let kind = match desc.usage {
            _ if capacity == 0 => return Err(DescriptionError::ZeroDescriptors.into()),
            DescriptorHeapVisibility::ShaderVisible(kind) => kind,
            DescriptorHeapVisibility::CpuOnly(kind) => {
                let visible = match kind {
                    DescriptorHeapType::Resource => Some(ShaderVisibleHeapType::Resource),
                    DescriptorHeapType::Sampler => Some(ShaderVisibleHeapType::Sampler),
                    DescriptorHeapType::RenderTarget | DescriptorHeapType::DepthStencil => None,
                };
                return match (&descriptors.buffers, visible) {
                    // CPU heaps have the format of the heaps that they are copied to, so that a copy is one
                    // `memcpy`.
                    (Some(buffers), Some(kind)) => buffers.cpu_heap(kind, capacity).map(Store::Bytes),
                    _ => Ok(Store::Records(Records::new(capacity))),
                };
            }
        };
        // Drivers need not check counts: a heap above the limit has undefined behaviour.
        descriptors.check_capacity(kind, capacity)?;
        // The layout is created first: a set is allocated from it, and a buffer is bound with pipelines that name
        // it.
        let layout = self.set_layout(kind, capacity)?;
        let created = match (&descriptors.buffers, memory) {
            (Some(buffers), Some(memory)) => {
                // SAFETY: live and created with a device address, as the caller of `create_descriptor_heap`
                // promises.
                let address = unsafe { self.address_for_descriptor(*memory.buffer) };
                // SAFETY: mapped, by the same promise.
                Ok(Store::Bytes(unsafe { buffers.heap_in(&memory, address, kind, layout) }))
            }
            (None, None) => {
                let types = match kind {
                    ShaderVisibleHeapType::Resource => &*descriptors.types,
                    ShaderVisibleHeapType::Sampler => &[vk::DescriptorType::SAMPLER],
                };
                SetHeap::new(&self.raw, types, capacity, layout).map(Store::Set)
            }
            // The caller asked another device for the buffer of the heap, or none.
            (Some(_), None) | (None, Some(_)) => Err(DescriptionError::DescriptorHeapBuffer.into()),
        };
        created.inspect_err(|_| {
            // SAFETY: created above and used by no other code.
            unsafe { self.raw.destroy_descriptor_set_layout(layout, None) };
        })
    }

    /// # Safety
    ///
    /// The conditions of [`write_null_descriptors`](crate::device::DescriptorDevice::write_null_descriptors) apply.
    pub(super) unsafe fn write_nulls(&self, heap: &DescriptorHeap, at: Range<u32>) {
        let descriptors = &self.descriptors;
        let kind = heap.usage.kind();
        match &heap.store {
            Store::Bytes(bytes) => {
                let nulls = &descriptors.null_bytes[usize::from(kind == DescriptorHeapType::Sampler)];
                // SAFETY: the caller's promise.
                unsafe { bytes.fill(at, nulls) };
            }
            // SAFETY: as above.
            Store::Set(set) => unsafe {
                set.fill(&self.raw, descriptors, at, descriptors.null_descriptor(kind));
            },
            // SAFETY: as above.
            Store::Records(records) => unsafe { records.fill(at, descriptors.null_descriptor(kind)) },
        }
    }
}
