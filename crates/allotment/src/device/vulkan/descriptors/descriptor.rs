//! Descriptor values: handles and ranges, with one of Vulkan's descriptor types.

use core::marker::PhantomData;
use core::ops::Range;

use ash::vk;

use super::super::Device;
use crate::device::{BufferUse, DescriptorHeapType};

/// A Vulkan descriptor: a view of a resource, or a sampler.
///
/// Its type must be one of the [device's](super::super::DeviceDesc::with_descriptor_types). A descriptor of
/// another type is not written; tests and debug builds panic.
/// [`can_write`](crate::device::DescriptorDevice::can_write) checks it.
///
/// # What the creator promises
///
/// The objects that the descriptor names are of the device whose heaps it is written into. They live until no
/// heap contains the descriptor any more: until each slot, table or CPU descriptor range that it was written to
/// was overwritten or freed. Heaps are copied: from CPU heaps to shader-visible ones, and when they grow or are
/// compacted. With [sets](super::DescriptorModel::Sets), a copy passes the handles to the driver again. `'a` may
/// end long before.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    pub(super) what: What,
    named: PhantomData<&'a ()>,
}

/// A descriptor's value without its lifetime, as CPU descriptor heaps store it.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A null descriptor of a type.
    Null(vk::DescriptorType),
    /// A sampled image or a storage image.
    Image {
        ty: vk::DescriptorType,
        view: vk::ImageView,
        layout: vk::ImageLayout,
    },
    /// A uniform or a storage buffer. The address is 0 unless descriptors need it.
    Buffer {
        ty: vk::DescriptorType,
        buffer: vk::Buffer,
        address: u64,
        range: [u64; 2],
    },
    /// A uniform or a storage texel buffer: sets use the view, descriptor buffers the rest.
    Texels {
        ty: vk::DescriptorType,
        view: vk::BufferView,
        address: u64,
        size: u64,
        format: vk::Format,
    },
    Sampler(vk::Sampler),
    RenderTarget(vk::ImageView),
    DepthStencil(vk::ImageView),
}

impl What {
    /// Returns the type as which shaders read it; `None` for render targets and depth-stencil images.
    pub(super) fn ty(&self) -> Option<vk::DescriptorType> {
        match *self {
            Self::Null(ty) | Self::Image { ty, .. } | Self::Buffer { ty, .. } | Self::Texels { ty, .. } => {
                Some(ty)
            }
            Self::Sampler(_) => Some(vk::DescriptorType::SAMPLER),
            Self::RenderTarget(_) | Self::DepthStencil(_) => None,
        }
    }

    pub(super) fn kind(&self) -> DescriptorHeapType {
        match self {
            Self::Sampler(_) => DescriptorHeapType::Sampler,
            Self::RenderTarget(_) => DescriptorHeapType::RenderTarget,
            Self::DepthStencil(_) => DescriptorHeapType::DepthStencil,
            Self::Null(_) | Self::Image { .. } | Self::Buffer { .. } | Self::Texels { .. } => {
                DescriptorHeapType::Resource
            }
        }
    }

    /// Returns whether a device with these types of resource descriptors can write it.
    pub(super) fn is_one_of(&self, types: &[vk::DescriptorType]) -> bool {
        match (self.kind(), self.ty()) {
            (DescriptorHeapType::Resource, Some(ty)) => types.contains(&ty),
            _ => true,
        }
    }
}

/// A range of a buffer that shaders read as texels.
#[derive(Clone, Debug)]
pub struct TexelBuffer<'a> {
    /// The view, which descriptor sets use. May be null if the device uses [descriptor
    /// buffers](super::DescriptorModel::Buffer).
    pub view: vk::BufferView,
    /// The buffer of the view.
    pub buffer: &'a vk::Buffer,
    /// The range of the view in bytes.
    pub range: Range<u64>,
    /// The view's format.
    pub format: vk::Format,
}

impl<'a> Descriptor<'a> {
    pub(super) const fn of(what: What) -> Self {
        Self { what, named: PhantomData }
    }

    /// Creates a null descriptor of a resource type, for shaders that read through it as that type. Needs
    /// [`EnabledFeatures::NULL_DESCRIPTOR`](super::super::EnabledFeatures::NULL_DESCRIPTOR); without it nothing
    /// is written into sets, and zeros into descriptor buffers, and accesses through them are undefined.
    ///
    /// Returns `None` for any type but the six resource types of Vulkan 1.0; samplers have no null.
    #[must_use]
    pub fn null(ty: vk::DescriptorType) -> Option<Self> {
        super::ALL_TYPES.contains(&ty).then_some(Self::of(What::Null(ty)))
    }

    /// Creates the descriptor of an image that shaders sample or load from.
    ///
    /// # Safety
    ///
    /// The view is of an image with the usage for it, which is in the layout when shaders read it. The view and
    /// the image are the device's, and live until no heap contains the descriptor any more, as [described
    /// above](Self).
    #[must_use]
    pub const unsafe fn sampled_image(view: vk::ImageView, layout: vk::ImageLayout) -> Self {
        Self::of(What::Image { ty: vk::DescriptorType::SAMPLED_IMAGE, view, layout })
    }

    /// Creates the descriptor of an image that shaders load from and store to, in `VK_IMAGE_LAYOUT_GENERAL`.
    ///
    /// # Safety
    ///
    /// The conditions of [`sampled_image`](Self::sampled_image) apply.
    #[must_use]
    pub const unsafe fn storage_image(view: vk::ImageView) -> Self {
        let layout = vk::ImageLayout::GENERAL;
        Self::of(What::Image { ty: vk::DescriptorType::STORAGE_IMAGE, view, layout })
    }

    /// Creates the descriptor of a buffer range: a storage buffer, or a uniform buffer for
    /// [constants](BufferUse::Constants).
    ///
    /// # Safety
    ///
    /// The conditions of [`buffer_descriptor`](crate::device::DescriptorDevice::buffer_descriptor) apply.
    #[must_use]
    pub unsafe fn buffer(
        device: &Device,
        buffer: &'a vk::Buffer,
        range: Range<u64>,
        usage: BufferUse,
    ) -> Self {
        let ty = match usage {
            BufferUse::ReadOnly | BufferUse::ReadWrite => vk::DescriptorType::STORAGE_BUFFER,
            BufferUse::Constants => vk::DescriptorType::UNIFORM_BUFFER,
        };
        // SAFETY: the caller's promise.
        let address = unsafe { device.shared.address_for_descriptor(*buffer) };
        let range = [range.start, range.end - range.start];
        Self::of(What::Buffer { ty, buffer: *buffer, address, range })
    }

    /// Creates the descriptor of a buffer that shaders load texels from.
    ///
    /// # Safety
    ///
    /// The view is of that range and format, and was created for this use. If the device uses [descriptor
    /// buffers](super::DescriptorModel::Buffer), the buffer was created with
    /// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`. The view and the buffer are the device's, and live until no
    /// heap contains the descriptor any more, as [described above](Self).
    #[must_use]
    pub unsafe fn uniform_texel_buffer(device: &Device, texels: TexelBuffer<'a>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::texels(device, texels, vk::DescriptorType::UNIFORM_TEXEL_BUFFER) }
    }

    /// Creates the descriptor of a buffer that shaders load texels from and store them to.
    ///
    /// # Safety
    ///
    /// The conditions of [`uniform_texel_buffer`](Self::uniform_texel_buffer) apply.
    #[must_use]
    pub unsafe fn storage_texel_buffer(device: &Device, texels: TexelBuffer<'a>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::texels(device, texels, vk::DescriptorType::STORAGE_TEXEL_BUFFER) }
    }

    /// # Safety
    ///
    /// The conditions of [`uniform_texel_buffer`](Self::uniform_texel_buffer) apply.
    unsafe fn texels(device: &Device, texels: TexelBuffer<'a>, ty: vk::DescriptorType) -> Self {
        let TexelBuffer { view, buffer, range, format } = texels;
        // SAFETY: the caller's promise.
        let address = match unsafe { device.shared.address_for_descriptor(*buffer) } {
            // Without descriptor buffers no address is known, and a null view must not become an address of its
            // offset.
            0 => 0,
            first => first + range.start,
        };
        Self::of(What::Texels { ty, view, address, size: range.end - range.start, format })
    }

    /// Creates the descriptor of the application's own sampler.
    ///
    /// # Safety
    ///
    /// The sampler is the device's, and lives until no heap contains the descriptor any more, as [described
    /// above](Self).
    #[must_use]
    pub const unsafe fn sampler(sampler: vk::Sampler) -> Self {
        Self::of(What::Sampler(sampler))
    }

    /// Creates the descriptor of a render target.
    ///
    /// # Safety
    ///
    /// The view is the device's, and lives until no heap contains the descriptor any more, as [described
    /// above](Self).
    #[must_use]
    pub const unsafe fn render_target(view: vk::ImageView) -> Self {
        Self::of(What::RenderTarget(view))
    }

    /// Creates the descriptor of a depth-stencil image.
    ///
    /// # Safety
    ///
    /// The view is the device's, and lives until no heap contains the descriptor any more, as [described
    /// above](Self).
    #[must_use]
    pub const unsafe fn depth_stencil(view: vk::ImageView) -> Self {
        Self::of(What::DepthStencil(view))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ALL_TYPES;
    use super::*;

    #[test]
    fn only_resources_have_nulls() {
        for ty in ALL_TYPES {
            let null = Descriptor::null(ty).unwrap();
            assert_eq!((null.what.kind(), null.what.ty()), (DescriptorHeapType::Resource, Some(ty)));
        }
        for ty in [
            vk::DescriptorType::SAMPLER,
            vk::DescriptorType::COMBINED_IMAGE_SAMPLER,
            vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
            vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
            vk::DescriptorType::INPUT_ATTACHMENT,
            vk::DescriptorType::ACCELERATION_STRUCTURE_KHR,
        ] {
            assert!(Descriptor::null(ty).is_none(), "{ty:?}");
        }
    }

    #[test]
    fn resources_of_other_types_are_not_written() {
        let types = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::SAMPLED_IMAGE];
        for ty in ALL_TYPES {
            assert_eq!(What::Null(ty).is_one_of(&types), types.contains(&ty), "{ty:?}");
        }
        let (sampler, view) = (vk::Sampler::null(), vk::ImageView::null());
        for what in [What::Sampler(sampler), What::RenderTarget(view), What::DepthStencil(view)] {
            assert!(what.is_one_of(&types), "{what:?}");
        }
    }
}
