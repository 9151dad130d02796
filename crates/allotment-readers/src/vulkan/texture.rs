//! The view of a texture, which its descriptor names.

use allotment::device::DeviceError;
use allotment::device::vulkan::Device;
use ash::vk;

/// The format of textures.
pub(super) const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

/// An image view, destroyed when dropped.
#[derive(Debug)]
pub struct TextureView {
    handle: vk::ImageView,
    device: Device,
}

impl TextureView {
    /// # Safety
    ///
    /// The image is a live 2D image of the device in [`FORMAT`], and lives longer than the view.
    pub(super) unsafe fn new(device: &Device, image: vk::Image) -> Result<Self, DeviceError> {
        let range = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .level_count(1)
            .layer_count(1);
        let info = vk::ImageViewCreateInfo::default()
            .image(image)
            .view_type(vk::ImageViewType::TYPE_2D)
            .format(FORMAT)
            .subresource_range(range);
        // SAFETY: the description is valid for the image, by the caller's promise.
        let handle = unsafe { device.raw().create_image_view(&info, None) }?;
        Ok(Self { handle, device: device.clone() })
    }

    pub(super) fn handle(&self) -> vk::ImageView {
        self.handle
    }
}

impl Drop for TextureView {
    fn drop(&mut self) {
        // SAFETY: created above. A descriptor that names it is read no more, by the promise to `texture_descriptor`.
        unsafe { self.device.raw().destroy_image_view(self.handle, None) };
    }
}
