//! What is drawn to: the images of a swapchain, or of the program where there is no surface, and a depth image.

use std::sync::Arc;

use allotment::device::ImageDesc;
use allotment::device::vulkan::Device;
use allotment::lifetime::Owned;
use allotment::{Gpu, Image, MemoryUsage};
use ash::vk;

use crate::device::Vulkan;
use crate::{Outcome, QUEUE};

pub(crate) const DEPTH: vk::Format = vk::Format::D32_SFLOAT;

/// Dropped as a whole when the size changes: what the GPU still uses is destroyed when it has completed that.
pub(crate) struct Target {
    pub(crate) extent: vk::Extent2D,
    pub(crate) format: vk::Format,
    /// Those of the swapchain belong to it; the others, to `own`.
    pub(crate) images: Vec<vk::Image>,
    pub(crate) objects: Owned<Objects>,
    pub(crate) depth: Image<Device>,
    _own: Vec<Image<Device>>,
}

/// Objects that Allotment did not create. Its deletion queue drops them all the same, once the GPU is done with them.
pub(crate) struct Objects {
    device: ash::Device,
    pub(crate) views: Vec<vk::ImageView>,
    pub(crate) depth_view: vk::ImageView,
    swapchain: Option<Swapchain>,
}

struct Swapchain {
    functions: ash::khr::swapchain::Device,
    handle: vk::SwapchainKHR,
    /// For each image: signalled when it is drawn, and waited for by its presentation.
    drawn: Vec<vk::Semaphore>,
}

/// An image that the frame draws to.
pub(crate) struct Acquired {
    pub(crate) index: usize,
    /// Of a swapchain's image: what the drawing waits for, and what it signals.
    pub(crate) semaphores: Option<(vk::Semaphore, vk::Semaphore)>,
}

impl Target {
    /// Replaces everything by the same in another size. What frames in flight use is destroyed after them.
    pub(crate) fn resize(
        &mut self,
        gpu: &Gpu<Device>,
        vulkan: &Arc<Vulkan>,
        extent: vk::Extent2D,
    ) -> Outcome {
        self.finish_presenting(gpu.device())?;
        *self = Self::new(gpu, vulkan, extent, Some(self))?;
        Ok(())
    }

    /// Creates everything of a size. A swapchain replaces that of `old`, which is dropped afterwards.
    pub(crate) fn new(
        gpu: &Gpu<Device>,
        vulkan: &Arc<Vulkan>,
        extent: vk::Extent2D,
        old: Option<&Self>,
    ) -> Outcome<Self> {
        let raw = &vulkan.device;
        let image = |format: vk::Format, usage: vk::ImageUsageFlags, name| {
            let desc = ImageDesc::new(extent.width, extent.height, format.as_raw() as u32)
                .with_usage(usage.as_raw().into());
            gpu.create_image(&desc.into(), &MemoryUsage::GpuOnly.with_name(name))
        };
        let depth = image(DEPTH, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT, "depth")?;
        let old = old.and_then(|old| old.objects.swapchain.as_ref());
        let mut own = Vec::new();
        // SAFETY: the descriptions are valid for the device and the surface, and each handle is of the one before.
        // (A program that runs for longer would also give back what it made when something in between fails.)
        unsafe {
            let (swapchain, format, images) = if let Some(surface) = &vulkan.surface {
                let (swapchain, format) = swapchain(gpu, vulkan, surface, extent, old)?;
                let images = swapchain.functions.get_swapchain_images(swapchain.handle)?;
                (Some(swapchain), format, images)
            } else {
                for _ in 0..gpu.desc().frames_in_flight.get() {
                    own.push(image(
                        vk::Format::R8G8B8A8_UNORM,
                        vk::ImageUsageFlags::COLOR_ATTACHMENT,
                        "picture",
                    )?);
                }
                (None, vk::Format::R8G8B8A8_UNORM, own.iter().map(Image::handle).collect())
            };
            let view = |image, format, aspect| {
                let info = vk::ImageViewCreateInfo::default()
                    .image(image)
                    .view_type(vk::ImageViewType::TYPE_2D)
                    .format(format)
                    .subresource_range(whole(aspect));
                raw.create_image_view(&info, None)
            };
            let color = |&image: &vk::Image| view(image, format, vk::ImageAspectFlags::COLOR);
            let views = images.iter().map(color).collect::<Result<_, _>>()?;
            let depth_view = view(depth.handle(), DEPTH, vk::ImageAspectFlags::DEPTH)?;
            let objects = Objects { device: raw.clone(), views, depth_view, swapchain };
            let objects = gpu.deletion_queue().own(objects);
            Ok(Self { extent, format, images, objects, depth, _own: own })
        }
    }

    /// Waits for presentations, before the target is dropped or replaced. No timeline says when one is over.
    pub(crate) fn finish_presenting(&self, device: &Device) -> Outcome {
        if let (true, Some(queue)) = (self.is_presented(), device.lock_queue(QUEUE)) {
            // SAFETY: the queue is locked.
            unsafe { device.raw().queue_wait_idle(*queue) }?;
        }
        Ok(())
    }

    /// Returns true if its images are a swapchain's.
    pub(crate) fn is_presented(&self) -> bool {
        self.objects.swapchain.is_some()
    }

    /// Returns the image of a frame; None where the surface has another size now.
    pub(crate) fn acquire(&self, frame: u64, free: vk::Semaphore) -> Outcome<Option<Acquired>> {
        let Some(swapchain) = &self.objects.swapchain else {
            let index = frame as usize % self.images.len();
            return Ok(Some(Acquired { index, semaphores: None }));
        };
        // SAFETY: nothing waits for the semaphore, since its last frame is completed.
        let acquired = unsafe {
            swapchain.functions.acquire_next_image(swapchain.handle, u64::MAX, free, vk::Fence::null())
        };
        match acquired {
            Ok((index, _)) => {
                let index = index as usize;
                Ok(Some(Acquired { index, semaphores: Some((free, swapchain.drawn[index])) }))
            }
            Err(vk::Result::ERROR_OUT_OF_DATE_KHR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Presents what was drawn. Returns false where the surface has another size now.
    pub(crate) fn present(&self, queue: vk::Queue, acquired: &Acquired) -> Outcome<bool> {
        let (Some(swapchain), Some((_, drawn))) = (&self.objects.swapchain, acquired.semaphores) else {
            return Ok(true);
        };
        let (drawn, swapchains, indices) = ([drawn], [swapchain.handle], [acquired.index as u32]);
        let info = vk::PresentInfoKHR::default()
            .wait_semaphores(&drawn)
            .swapchains(&swapchains)
            .image_indices(&indices);
        // SAFETY: the caller holds the queue, and the submission that was made signals the semaphore.
        match unsafe { swapchain.functions.queue_present(queue, &info) } {
            Ok(suboptimal) => Ok(!suboptimal),
            Err(vk::Result::ERROR_OUT_OF_DATE_KHR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) fn whole(aspect: vk::ImageAspectFlags) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange { aspect_mask: aspect, level_count: 1, layer_count: 1, ..Default::default() }
}

/// Creates a swapchain, in a format whose bytes are what shaders write.
///
/// # Safety
///
/// The surface is of the instance, and its extent is the one given or any.
unsafe fn swapchain(
    gpu: &Gpu<Device>,
    vulkan: &Vulkan,
    (functions, surface): &(ash::khr::surface::Instance, vk::SurfaceKHR),
    extent: vk::Extent2D,
    old: Option<&Swapchain>,
) -> Outcome<(Swapchain, vk::Format)> {
    let physical_device = gpu.device().physical_device();
    let usage = vk::ImageUsageFlags::COLOR_ATTACHMENT | vk::ImageUsageFlags::TRANSFER_SRC;
    // SAFETY: the caller's promise.
    unsafe {
        let formats = functions.get_physical_device_surface_formats(physical_device, *surface)?;
        let plain = [vk::Format::R8G8B8A8_UNORM, vk::Format::B8G8R8A8_UNORM];
        let format = formats.iter().find(|format| plain.contains(&format.format));
        let format = format.ok_or("the surface has no format of eight bits a channel")?;
        let can = functions.get_physical_device_surface_capabilities(physical_device, *surface)?;
        // 0 is no limit.
        let most = if can.max_image_count == 0 { u32::MAX } else { can.max_image_count };
        let info = vk::SwapchainCreateInfoKHR::default()
            .surface(*surface)
            .min_image_count((can.min_image_count + 1).min(most))
            .image_format(format.format)
            .image_color_space(format.color_space)
            .image_extent(extent)
            .image_array_layers(1)
            .image_usage(usage)
            .pre_transform(can.current_transform)
            .composite_alpha(vk::CompositeAlphaFlagsKHR::OPAQUE)
            .present_mode(vk::PresentModeKHR::FIFO)
            .clipped(true)
            .old_swapchain(old.map_or(vk::SwapchainKHR::null(), |old| old.handle));
        let functions = ash::khr::swapchain::Device::new(&vulkan.instance, &vulkan.device);
        let handle = functions.create_swapchain(&info, None)?;
        let count = functions.get_swapchain_images(handle)?.len();
        let drawn = (0..count).map(|_| vulkan.device.create_semaphore(&Default::default(), None));
        let drawn = drawn.collect::<Result<_, _>>()?;
        Ok((Swapchain { functions, handle, drawn }, format.format))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: the deletion queue drops this when the GPU has completed all that was submitted.
        unsafe {
            for view in self.views.iter().chain([&self.depth_view]) {
                self.device.destroy_image_view(*view, None);
            }
            if let Some(swapchain) = &self.swapchain {
                swapchain.functions.destroy_swapchain(swapchain.handle, None);
                swapchain.drawn.iter().for_each(|&drawn| self.device.destroy_semaphore(drawn, None));
            }
        }
    }
}
