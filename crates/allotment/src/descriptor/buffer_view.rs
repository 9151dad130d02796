//! Views of bytes of buffers, with an owner. How they are made and dropped: `owned_view.rs`.

use core::fmt;
use std::sync::Arc;

use super::cpu_heap::CpuDescriptorHeap;
use super::error::DescriptorError;
use super::owned_view::OwnedView;
use super::shown::Shown;
use crate::device::{BufferViewDesc, DescriptorDevice, DescriptorHeapType};
use crate::memory::{Buffer, OwningAllocator};

/// A view of a range of a buffer: a CBV, a raw or structured SRV or UAV; on Vulkan a uniform or a storage buffer. It keeps its
/// buffer alive, and its descriptor in a CPU heap. Dropping it, on any thread, retires all of it: it is destroyed once no open
/// recording and no submission in flight can use it. Put it in an [`Arc`] to share it.
///
/// Vulkan has no object for such a view: descriptor sets of the application's own name the buffer's
/// [handle](crate::memory::Resource::handle) and the [range](BufferViewDesc::range).
///
/// ```
/// # use std::sync::Arc;
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::{BufferUse, BufferViewDesc};
///
/// // On Vulkan with `VK_BUFFER_USAGE_STORAGE_BUFFER_BIT`.
/// let lights = Arc::new(gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("lights"))?);
/// let desc = BufferViewDesc::new(0..4096, BufferUse::ReadOnly).with_stride(64);
/// let view = Arc::new(gpu.create_buffer_view(&lights, &desc)?);
/// drop(lights); // the view has it
/// let slot = gpu.descriptors()?.resources().insert_buffer_view(&view)?;
/// println!("shaders find the lights at index {}", slot.index());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BufferView<D: DescriptorDevice>(OwnedView<D, BufferViewDesc>);

impl<D: DescriptorDevice> BufferView<D> {
    /// Creates a view, with a descriptor in a CPU heap of resources, if one is passed.
    /// [`Gpu::create_buffer_view`](crate::Gpu::create_buffer_view) does so with the heap of the `Gpu`.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::BufferUsage`] for a buffer that was not created for it, and [`DescriptorError::NoAddress`] where
    /// descriptors need its address; [`DescriptorError::BadRange`], [`DescriptorError::Misaligned`] where the range breaks a
    /// rule of its [use](crate::device::BufferUse), [`DescriptorError::BadStride`]; [`DescriptorError::WrongKind`] for a heap
    /// of another type; [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`]; or the device's error for a page
    /// of the heap.
    #[inline(never)]
    #[track_caller]
    pub fn new(
        memory: &OwningAllocator<D>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
        buffer: &Arc<Buffer<D>>,
        desc: &BufferViewDesc,
    ) -> Result<Self, DescriptorError> {
        let cpu_heap = cpu_heap.map(|heap| (heap, DescriptorHeapType::Resource));
        let shown = Shown::Buffer { buffer: Arc::clone(buffer), desc: desc.clone() };
        OwnedView::new(memory, cpu_heap, |_| Ok((shown, desc.clone()))).map(Self)
    }

    /// Returns what the view sees.
    #[must_use]
    pub fn desc(&self) -> &BufferViewDesc {
        &self.0.desc
    }

    /// Returns the buffer.
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer<D>> {
        self.0.shown().buffer()
    }

    /// Returns the address of the view's descriptor in its CPU heap (`D3D12_CPU_DESCRIPTOR_HANDLE`), to copy it from there. 0
    /// if the device has no such addresses. That of a relocatable buffer is valid as long as the buffer's
    /// [handle](crate::memory::Resource::handle).
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoDescriptor`]; or the buffer was moved, and its heap cannot add a page for another descriptor.
    pub fn cpu_descriptor(&self) -> Result<u64, DescriptorError> {
        self.0.cpu_descriptor()
    }

    pub(super) fn view(&self) -> &OwnedView<D, BufferViewDesc> {
        &self.0
    }
}

impl<D: DescriptorDevice> fmt::Debug for BufferView<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferView").field("desc", self.desc()).finish_non_exhaustive()
    }
}
