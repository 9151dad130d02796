//! Views of buffers as texels, with an owner. How they are made and dropped: `owned_view.rs`.

use core::fmt;
use std::sync::Arc;

use super::cpu_heap::CpuDescriptorHeap;
use super::error::DescriptorError;
use super::owned_view::OwnedView;
use super::shown::Shown;
use crate::device::{DescriptorDevice, DescriptorHeapType, TexelBufferDesc};
use crate::memory::{Buffer, OwningAllocator};

/// A view of a buffer as texels: a `VkBufferView`, a typed SRV or UAV. It keeps its buffer alive, and its descriptor in a CPU
/// heap. Dropping it, on any thread, retires all of it.
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
/// let texels = Arc::new(gpu.create_texel_buffer_view(&grid, &desc)?);
/// let slot = gpu.descriptors()?.resources().insert_texel_buffer(&texels)?;
/// println!("shaders load texels at index {}", slot.index());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TexelBufferView<D: DescriptorDevice>(OwnedView<D, TexelBufferDesc>);

impl<D: DescriptorDevice> TexelBufferView<D> {
    /// Creates a view, with a descriptor in a CPU heap of resources, if one is passed.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::BufferUsage`] for a buffer that was not created for it, and [`DescriptorError::NoAddress`] where
    /// descriptors need its address; [`DescriptorError::TexelFormat`] where the device has no such texel buffers;
    /// [`DescriptorError::BadRange`], [`DescriptorError::Misaligned`]; [`DescriptorError::WrongKind`] for a heap of another
    /// type; [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`]; or the device refuses the view.
    #[inline(never)]
    #[track_caller]
    pub fn new(
        memory: &OwningAllocator<D>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
        buffer: &Arc<Buffer<D>>,
        desc: &TexelBufferDesc,
    ) -> Result<Self, DescriptorError> {
        let cpu_heap = cpu_heap.map(|heap| (heap, DescriptorHeapType::Resource));
        let shown = Shown::Texels { buffer: Arc::clone(buffer), desc: desc.clone() };
        OwnedView::new(memory, cpu_heap, |_| Ok((shown, desc.clone()))).map(Self)
    }

    /// Returns what the view sees.
    #[must_use]
    pub fn desc(&self) -> &TexelBufferDesc {
        &self.0.desc
    }

    /// Returns the buffer.
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer<D>> {
        self.0.shown().buffer()
    }

    /// Calls `work` with the device's view: on Vulkan it has the `VkBufferView`, for descriptor sets of the application's own.
    /// Never destroy it. That of a relocatable buffer is valid as long as the buffer's
    /// [handle](crate::memory::Resource::handle).
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`], where the buffer was moved and the device refuses another view. Never for a pinned buffer.
    pub fn with<R>(&self, work: impl FnOnce(&D::TexelBufferView) -> R) -> Result<R, DescriptorError> {
        self.0.with_view(|view| match view.texels() {
            Some(raw) => work(raw),
            None => unreachable!("texels have a view"),
        })
    }

    /// Returns the address of the view's descriptor in its CPU heap (`D3D12_CPU_DESCRIPTOR_HANDLE`). 0 if the device has no
    /// such addresses. That of a relocatable buffer is valid as long as the buffer's
    /// [handle](crate::memory::Resource::handle).
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoDescriptor`], and those of [`with`](Self::with).
    pub fn cpu_descriptor(&self) -> Result<u64, DescriptorError> {
        self.0.cpu_descriptor()
    }

    pub(super) fn view(&self) -> &OwnedView<D, TexelBufferDesc> {
        &self.0
    }
}

impl<D: DescriptorDevice> fmt::Debug for TexelBufferView<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TexelBufferView").field("desc", self.desc()).finish_non_exhaustive()
    }
}
