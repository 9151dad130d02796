//! Views of images with an owner: what a render pass binds, what a bindless slot shows, what an engine's own descriptor sets
//! name.
//!
//! ```text
//!   ImageView ──► what it shows: the image, and the API's description       shared with sets and slots (`shown.rs`)
//!             └─► what was made of it, dropped once the GPU is done:
//!                   the descriptor in a CPU heap ─► the view of the device ─► the image
//! ```
//!
//! A view of an image that moves is made anew, when it is used after the move; the old one waits for the GPU.

use core::fmt;
use std::sync::{Arc, Mutex};

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::DescriptorError;
use super::shader_visible_heap::ShaderVisibleHeap;
use super::shown::{Shown, View};
use crate::device::{DescriptorDevice, ImageViewDesc, ImageViewError, ImageViewParameters, ImageViewUse};
use crate::lifetime::Owned;
use crate::memory::{Allocator, Image, OwningAllocator, ShortName};
use crate::sync::locked;

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
pub struct ImageView<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    shown: Shown<D>,
    parameters: ImageViewParameters,
    /// The heap of its descriptors, if it has any.
    cpu_heap: Option<Arc<CpuDescriptorHeap<D>>>,
    made: MadeView<D>,
}

/// Two kinds, so that a view of a pinned image has no lock.
enum MadeView<D: DescriptorDevice> {
    Pinned(Owned<Made<D>>),
    /// Of the image as it was at the last use.
    Relocatable(Mutex<Arc<Owned<Made<D>>>>),
}

/// What is destroyed once the GPU has finished with it, in this order.
struct Made<D: DescriptorDevice> {
    descriptor: Option<Descriptor<D>>,
    view: View<D>,
    _image: Arc<Image<D>>,
}

/// A descriptor in a CPU heap.
struct Descriptor<D: DescriptorDevice> {
    heap: Arc<CpuDescriptorHeap<D>>,
    /// `None` only while it is dropped.
    range: Option<CpuDescriptorRange>,
}

impl<D: DescriptorDevice> Drop for Descriptor<D> {
    fn drop(&mut self) {
        if let Some(range) = self.range.take() {
            // At once: it was retired with its view.
            let freed = self.heap.free(range);
            debug_assert!(freed.is_ok(), "the range belongs to this heap");
        }
    }
}

impl<D: DescriptorDevice> Made<D> {
    /// Makes a view of the image as it is now, and its descriptor.
    #[track_caller]
    fn new(
        allocator: &Arc<Allocator<D>>,
        shown: &Shown<D>,
        image: &Arc<Image<D>>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
    ) -> Result<Self, DescriptorError> {
        loop {
            let view = shown.create_view(allocator)?;
            let mut descriptor = None;
            if let Some(heap) = cpu_heap {
                let mut range = heap.allocate(1)?;
                match shown.with_descriptor(&view, |it| heap.write(&mut range, 0, it)) {
                    Ok(Ok(())) => {
                        descriptor = Some(Descriptor { heap: Arc::clone(heap), range: Some(range) });
                    }
                    // The handle serves.
                    Ok(Err(DescriptorError::TypeNotListed)) => heap.free(range)?,
                    Ok(Err(error)) => {
                        heap.free(range)?;
                        return Err(error);
                    }
                    // Moved since the view was created.
                    Err(_) => {
                        heap.free(range)?;
                        continue;
                    }
                }
            }
            return Ok(Self { descriptor, view, _image: Arc::clone(image) });
        }
    }
}

impl<D: DescriptorDevice> ImageView<D> {
    /// Creates a view, with a descriptor in a CPU heap of its type. [`Gpu::create_image_view`](crate::Gpu::create_image_view)
    /// does so with the heaps of the `Gpu`; an engine without descriptor heaps passes none, and uses the handle.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InvalidView`], with the rule that the description breaks; [`DescriptorError::WrongKind`] for a heap of
    /// another type; [`DescriptorError::WrongDevice`], [`DescriptorError::WrongTracker`] for an image or a heap of another
    /// device or tracker; or the device refuses the view.
    #[inline(never)]
    #[track_caller]
    pub fn new(
        memory: &OwningAllocator<D>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
        image: &Arc<Image<D>>,
        desc: &ImageViewDesc,
    ) -> Result<Self, DescriptorError> {
        let allocator = memory.allocator();
        let device = allocator.device();
        if let Some(heap) = cpu_heap {
            if let Some(expected) = desc.usage.heap_type().filter(|&it| it != heap.heap_type()) {
                return Err(DescriptorError::WrongKind { expected: heap.heap_type(), found: expected });
            }
            if heap.device_id() != device.id() {
                return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
            }
        }
        let support = image.view_support();
        let invalid =
            |error: ImageViewError| DescriptorError::InvalidView { error, name: image.short_name() };
        let parameters = desc.resolve(&support).map_err(invalid)?;
        let info = device.image_view_info(&support, &parameters).map_err(invalid)?;
        let shown = Shown::Image { image: Arc::clone(image), info };
        shown.check_for(allocator, memory.deletion_queue().tracker())?;
        let cpu_heap = cpu_heap.filter(|_| desc.usage.heap_type().is_some());
        let made = memory.deletion_queue().own(Made::new(allocator, &shown, image, cpu_heap)?);
        let made = if image.is_relocatable() {
            MadeView::Relocatable(Mutex::new(Arc::new(made)))
        } else {
            MadeView::Pinned(made)
        };
        Ok(Self { allocator: Arc::clone(allocator), shown, parameters, cpu_heap: cpu_heap.cloned(), made })
    }

    /// Returns what the view is for.
    #[must_use]
    pub fn usage(&self) -> ImageViewUse {
        self.parameters.usage
    }

    /// Returns what the view sees, with all that its description left open.
    #[must_use]
    pub fn parameters(&self) -> &ImageViewParameters {
        &self.parameters
    }

    /// Returns the image.
    #[must_use]
    pub fn image(&self) -> &Arc<Image<D>> {
        match &self.shown {
            Shown::Image { image, .. } => image,
            Shown::Buffer { .. } => unreachable!("made of an image"),
        }
    }

    /// Calls `work` with the device's view: on Vulkan it has the `VkImageView`, for framebuffers, rendering attachments and
    /// descriptor sets of the application's own. Never destroy it. That of a relocatable image is valid as long as the image's
    /// [handle](crate::memory::Resource::handle).
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`], where the image was moved and the device refuses another view. Never for a pinned image.
    pub fn with<R>(&self, work: impl FnOnce(&D::ImageView) -> R) -> Result<R, DescriptorError> {
        self.with_made(|made| match made.view.raw() {
            Some(raw) => Ok(work(raw)),
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
        self.with_made(|made| {
            let range = made.descriptor.as_ref().and_then(|it| Some((&it.heap, it.range.as_ref()?)));
            let (heap, range) = range.ok_or_else(|| DescriptorError::NoDescriptor {
                usage: self.usage(),
                name: self.image().short_name(),
            })?;
            heap.address(range)
        })
    }

    fn with_made<R>(
        &self,
        work: impl FnOnce(&Made<D>) -> Result<R, DescriptorError>,
    ) -> Result<R, DescriptorError> {
        match &self.made {
            MadeView::Pinned(made) => work(made),
            MadeView::Relocatable(current) => work(&*self.current(current)?),
        }
    }

    /// Returns the view of a relocatable image as it is now.
    fn current(&self, current: &Mutex<Arc<Owned<Made<D>>>>) -> Result<Arc<Owned<Made<D>>>, DescriptorError> {
        let before = Arc::clone(&locked(current));
        if self.shown.is_shown_by(&before.view) {
            return Ok(before);
        }
        // Without the lock, since it takes a driver call. Of two threads that make one, the later one's stays.
        let made = Made::new(&self.allocator, &self.shown, self.image(), self.cpu_heap.as_ref())?;
        let made = Arc::new(before.own_beside(made));
        let before = core::mem::replace(&mut *locked(current), Arc::clone(&made));
        drop(before);
        Ok(made)
    }

    /// Checks that shaders may see the view through a heap, or a table of it.
    pub(super) fn check_for(&self, heap: &ShaderVisibleHeap<D>) -> Result<(), DescriptorError> {
        if !matches!(self.usage(), ImageViewUse::Sampled | ImageViewUse::Storage) {
            let (usage, name) = (self.usage(), self.image().short_name());
            return Err(DescriptorError::NotForShaders { usage, name });
        }
        self.shown.check_for(heap.allocator(), heap.tracker())
    }

    pub(super) fn shown(&self) -> &Shown<D> {
        &self.shown
    }

    /// Calls `write` with the descriptor of the view; once more, where a move comes between.
    pub(super) fn with_descriptor<R>(
        &self,
        mut write: impl FnMut(&D::Descriptor<'_>) -> Result<R, DescriptorError>,
    ) -> Result<R, DescriptorError> {
        loop {
            let written =
                self.with_made(|made| Ok(self.shown.with_descriptor(&made.view, &mut write).ok()))?;
            if let Some(written) = written {
                return written;
            }
        }
    }
}

impl<D: DescriptorDevice> fmt::Debug for ImageView<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageView").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
