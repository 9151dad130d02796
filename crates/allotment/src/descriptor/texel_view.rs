//! Views of buffers as texels, with an owner.

use core::fmt;
use std::sync::Arc;

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::DescriptorError;
use super::shader_visible_heap::ShaderVisibleHeap;
use super::shown::check_owner;
use crate::device::{DescriptorDevice, DescriptorHeapType, TexelBufferDesc};
use crate::lifetime::Owned;
use crate::memory::{Allocator, Buffer, OwningAllocator, ShortName};

/// A view of a buffer as texels: a `VkBufferView`, a typed SRV or UAV. It keeps its buffer alive, and its descriptor in a CPU
/// heap. Dropping it, on any thread, retires all of it.
///
/// The buffer is pinned: these views do not follow moves.
///
/// ```
/// # use std::sync::Arc;
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::{TexelBufferDesc, TexelBufferUse};
///
/// // On Vulkan with `VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT`.
/// let grid = Arc::new(gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("grid"))?);
/// // On the simulated device a format is its bytes a texel.
/// let desc = TexelBufferDesc::new(0..4096, 16, TexelBufferUse::Uniform);
/// // SAFETY: buffers of the simulated device can be used for anything.
/// let texels = Arc::new(unsafe { gpu.create_texel_buffer_view(&grid, &desc) }?);
/// let slot = gpu.descriptors()?.resources().insert_texel_buffer(&texels)?;
/// println!("shaders load texels at index {}", slot.index());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TexelBufferView<D: DescriptorDevice> {
    made: Owned<Made<D>>,
    desc: TexelBufferDesc,
}

/// What is destroyed once the GPU has finished with it.
struct Made<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    /// `None` only while it is dropped, as the next one.
    raw: Option<D::TexelBufferView>,
    descriptor: Option<(Arc<CpuDescriptorHeap<D>>, CpuDescriptorRange)>,
    buffer: Arc<Buffer<D>>,
}

impl<D: DescriptorDevice> Drop for Made<D> {
    fn drop(&mut self) {
        if let Some((heap, range)) = self.descriptor.take() {
            // At once: it was retired with its view.
            let freed = heap.free(range);
            debug_assert!(freed.is_ok(), "the range belongs to this heap");
        }
        if let Some(raw) = self.raw.take() {
            // SAFETY: created by this device, and retired: no queue uses it.
            unsafe { self.allocator.device().destroy_texel_buffer_view(raw) };
        }
    }
}

impl<D: DescriptorDevice> Made<D> {
    fn raw(&self) -> &D::TexelBufferView {
        match &self.raw {
            Some(raw) => raw,
            None => unreachable!("taken only when dropped"),
        }
    }

    fn with_descriptor<R>(&self, work: impl FnOnce(&D::Descriptor<'_>) -> R) -> R {
        let handle = self.buffer.handle();
        // SAFETY: the view was created from this buffer, which is pinned; both live as long as this, which heaps keep.
        work(&unsafe { self.allocator.device().texel_buffer_descriptor(&handle, self.raw()) })
    }
}

impl<D: DescriptorDevice> TexelBufferView<D> {
    /// Creates a view, with a descriptor in a CPU heap of resources, if one is passed.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Relocatable`]; [`DescriptorError::TexelFormat`] where the device has no such texel buffers;
    /// [`DescriptorError::BadRange`], [`DescriptorError::Misaligned`]; [`DescriptorError::WrongKind`] for a heap of another
    /// type; [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`]; or the device refuses the view.
    ///
    /// # Safety
    ///
    /// The buffer was created for this use: on Vulkan with `UNIFORM_TEXEL_BUFFER` or `STORAGE_TEXEL_BUFFER`, and
    /// `SHADER_DEVICE_ADDRESS` if descriptors are in buffers; on Direct3D 12 with unordered access for storage.
    #[inline(never)]
    #[track_caller]
    pub unsafe fn new(
        memory: &OwningAllocator<D>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
        buffer: &Arc<Buffer<D>>,
        desc: &TexelBufferDesc,
    ) -> Result<Self, DescriptorError> {
        let (allocator, queue) = (memory.allocator(), memory.deletion_queue());
        let device = allocator.device();
        if let Some(heap) = cpu_heap {
            let found = DescriptorHeapType::Resource;
            if heap.heap_type() != found {
                return Err(DescriptorError::WrongKind { expected: heap.heap_type(), found });
            }
            if heap.device_id() != device.id() {
                return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
            }
        }
        buffer
            .with_owned(|owned, _| {
                check_owner(allocator, queue.tracker(), owned.allocator(), owned.tracker())
            })
            .map_err(|error| error.of(buffer.short_name()))?;
        check(device, buffer, desc)?;
        let handle = buffer.handle();
        // SAFETY: the buffer is live and pinned, and the range and the format were checked; the rest is the caller's promise.
        let raw = unsafe { device.create_texel_buffer_view(&handle, desc) }?;
        let (allocator, buffer) = (Arc::clone(allocator), Arc::clone(buffer));
        let mut made = Made { allocator, raw: Some(raw), descriptor: None, buffer };
        if let Some(heap) = cpu_heap {
            let mut range = heap.allocate(1)?;
            match made.with_descriptor(|descriptor| heap.write(&mut range, 0, descriptor)) {
                Ok(()) => made.descriptor = Some((Arc::clone(heap), range)),
                // The handle serves.
                Err(DescriptorError::TypeNotListed) => heap.free(range)?,
                Err(error) => {
                    heap.free(range)?;
                    return Err(error);
                }
            }
        }
        Ok(Self { made: queue.own(made), desc: desc.clone() })
    }

    /// Returns what the view sees.
    #[must_use]
    pub fn desc(&self) -> &TexelBufferDesc {
        &self.desc
    }

    /// Returns the buffer.
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer<D>> {
        &self.made.buffer
    }

    /// Returns the device's view: on Vulkan it has the `VkBufferView`, for descriptor sets of the application's own.
    #[must_use]
    pub fn raw(&self) -> &D::TexelBufferView {
        self.made.raw()
    }

    /// Checks that a heap may have descriptors of the view.
    pub(super) fn check_for(&self, heap: &ShaderVisibleHeap<D>) -> Result<(), DescriptorError> {
        let buffer = self.buffer();
        let checked = buffer.with_owned(|owned, _| {
            check_owner(heap.allocator(), heap.tracker(), owned.allocator(), owned.tracker())
        });
        checked.map_err(|error| error.of(buffer.short_name()))
    }

    pub(super) fn with_descriptor<R>(&self, work: impl FnOnce(&D::Descriptor<'_>) -> R) -> R {
        self.made.with_descriptor(work)
    }
}

/// Checks a description against the buffer and the device.
fn check<D: DescriptorDevice>(
    device: &D,
    buffer: &Buffer<D>,
    desc: &TexelBufferDesc,
) -> Result<(), DescriptorError> {
    if buffer.is_relocatable() {
        return Err(DescriptorError::Relocatable { name: buffer.short_name() });
    }
    let &TexelBufferDesc { ref range, format, usage } = desc;
    let Some(limits) = device.texel_buffer_limits(format, usage) else {
        return Err(DescriptorError::TexelFormat { format, usage, name: buffer.short_name() });
    };
    let (start, end, available) = (range.start, range.end, buffer.size());
    let most = limits.max_texels.saturating_mul(limits.texel);
    if start >= end || end > available || end - start > most {
        return Err(DescriptorError::BadRange { start, end, available, most, name: buffer.short_name() });
    }
    if start % limits.alignment != 0 || (end - start) % limits.texel != 0 {
        return Err(DescriptorError::Misaligned {
            start,
            end,
            start_alignment: limits.alignment,
            end_alignment: limits.texel,
            name: buffer.short_name(),
        });
    }
    Ok(())
}

impl<D: DescriptorDevice> fmt::Debug for TexelBufferView<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TexelBufferView").field("desc", &self.desc).finish_non_exhaustive()
    }
}
