//! Views of images with an owner: what a render pass binds, what a bindless slot shows, what an engine's own descriptor sets
//! name. How they are made and dropped: `owned_view.rs`.

use core::fmt;
use std::sync::Arc;

use super::cpu_heap::CpuDescriptorHeap;
use super::error::DescriptorError;
use super::owned_view::OwnedView;
use super::shown::Shown;
use crate::device::{DescriptorDevice, ImageViewDesc, ImageViewError, ImageViewParameters, ImageViewUse};
use crate::memory::{Allocator, Image, OwningAllocator};

/// A view of an image: an RTV, a DSV, an SRV, a UAV, an input attachment. It keeps its image alive, and its descriptor in a CPU
/// heap. Dropping it, on any thread, retires all of it: it is destroyed once no open recording and no submission in flight can
/// use it. Put it in an [`Arc`] to share it.
///
/// ```
/// # use std::sync::Arc;
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::ImageViewDesc;
///
/// let desc = ImageDesc::new(1024, 1024, 4).with_mip_levels(11);
/// let image = Arc::new(gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("bloom"))?);
/// let target = gpu.create_image_view(&image, &ImageViewDesc::render_target().with_mip_levels(3..4))?;
/// println!("OMSetRenderTargets, {:#x}", target.cpu_descriptor()?); // on Vulkan: `target.with(|view| view.handle())`
///
/// let sampled = Arc::new(gpu.create_image_view(&image, &ImageViewDesc::sampled())?);
/// let slot = gpu.descriptors()?.resources().insert_view(&sampled)?;
/// println!("shaders sample it at index {}", slot.index());
/// drop((image, target)); // the image lives as long as a view of it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ImageView<D: DescriptorDevice>(OwnedView<D, ImageViewParameters>);

impl<D: DescriptorDevice> ImageView<D> {
    /// Creates a view, with a descriptor in a CPU heap of its type. [`Gpu::create_image_view`](crate::Gpu::create_image_view)
    /// does so with the heaps of the `Gpu`; an engine without descriptor heaps passes none, and uses the handle.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InvalidView`], with the rule that the description breaks; [`DescriptorError::WrongKind`] for a heap
    /// of another type; [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`] for an image or a heap of another
    /// device or tracker; or the device refuses the view.
    #[inline(never)]
    #[track_caller]
    pub fn new(
        memory: &OwningAllocator<D>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
        image: &Arc<Image<D>>,
        desc: &ImageViewDesc,
    ) -> Result<Self, DescriptorError> {
        let show = |allocator: &Allocator<D>| {
            let support = image.view_support();
            let invalid =
                |error: ImageViewError| DescriptorError::InvalidView { error, name: image.short_name() };
            let parameters = desc.resolve(&support).map_err(invalid)?;
            let info = allocator.device().image_view_info(&support, &parameters).map_err(invalid)?;
            Ok((Shown::Image { image: Arc::clone(image), info }, parameters))
        };
        OwnedView::new(memory, cpu_heap.zip(desc.usage.heap_type()), show).map(Self)
    }

    /// Returns what the view is for.
    #[must_use]
    pub fn usage(&self) -> ImageViewUse {
        self.parameters().usage
    }

    /// Returns what the view sees, with all that its description left open.
    #[must_use]
    pub fn parameters(&self) -> &ImageViewParameters {
        &self.0.desc
    }

    /// Returns the image.
    #[must_use]
    pub fn image(&self) -> &Arc<Image<D>> {
        self.0.shown().image()
    }

    /// Calls `work` with the device's view: on Vulkan it has the `VkImageView`, for framebuffers, rendering attachments and
    /// descriptor sets of the application's own. Never destroy it. That of a relocatable image is valid as long as the image's
    /// [handle](crate::memory::Resource::handle).
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`], where the image was moved and the device refuses another view. Never for a pinned image.
    pub fn with<R>(&self, work: impl FnOnce(&D::ImageView) -> R) -> Result<R, DescriptorError> {
        self.0.with_view(|view| match view.image() {
            Some(raw) => work(raw),
            None => unreachable!("an image has a view"),
        })
    }

    /// Returns the address of the view's descriptor in its CPU heap, as an API's calls for render targets take it
    /// (`D3D12_CPU_DESCRIPTOR_HANDLE`). 0 if the device has no such addresses. That of a relocatable image is valid as long as
    /// the image's [handle](crate::memory::Resource::handle).
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoDescriptor`], and those of [`with`](Self::with).
    pub fn cpu_descriptor(&self) -> Result<u64, DescriptorError> {
        self.0.cpu_descriptor()
    }

    /// Checks that shaders may see the view through a heap, or a table of it.
    pub(super) fn check_for_shaders(&self) -> Result<(), DescriptorError> {
        if !matches!(self.usage(), ImageViewUse::Sampled | ImageViewUse::Storage) {
            let (usage, name) = (self.usage(), self.image().short_name());
            return Err(DescriptorError::NotForShaders { usage, name });
        }
        Ok(())
    }

    pub(super) fn view(&self) -> &OwnedView<D, ImageViewParameters> {
        &self.0
    }
}

impl<D: DescriptorDevice> fmt::Debug for ImageView<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageView").field("parameters", self.parameters()).finish_non_exhaustive()
    }
}
