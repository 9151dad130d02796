//! What is written into a slot: handles and ranges, of one of Vulkan's types of descriptors.

use core::marker::PhantomData;
use core::ops::Range;

use ash::vk;

use super::super::Device;
use crate::device::{BufferUse, DescriptorHeapType};

/// A descriptor of Vulkan's: a view of a resource, or a sampler.
///
/// Its type must be one of the [device's](super::super::DeviceDesc::with_descriptor_types); one of another type is
/// not written, and tests and debug builds panic. [`can_write`](crate::device::DescriptorDevice::can_write) says which.
///
/// # What who makes one promises
///
/// What it names is of the device whose heaps it is written into. It lives until no heap holds the descriptor any more:
/// until each slot, table or staging range that it was written to was overwritten or has come back. Heaps are copied,
/// from staging to where shaders see them, and when they grow or are compacted. With
/// [sets](super::DescriptorModel::Sets), a copy hands the handles to the driver again. `'a` may end long before.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    pub(super) what: What,
    named: PhantomData<&'a ()>,
}

/// The same without a word on how long it lives: what staging heaps remember.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Nothing, as a descriptor of a type.
    Null(vk::DescriptorType),
    /// A sampled image or a storage image.
    Image {
        ty: vk::DescriptorType,
        view: vk::ImageView,
        layout: vk::ImageLayout,
    },
    /// A uniform or a storage buffer. The address is 0 where nobody asks for it.
    Buffer {
        ty: vk::DescriptorType,
        buffer: vk::Buffer,
        address: u64,
        range: [u64; 2],
    },
    /// A uniform or a storage texel buffer: sets take the view, descriptor buffers the rest.
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
    /// The type that shaders read it as; none for what shaders do not see.
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

    /// Whether a device whose resources are of these types can write it.
    pub(super) fn is_one_of(&self, types: &[vk::DescriptorType]) -> bool {
        match (self.kind(), self.ty()) {
            (DescriptorHeapType::Resource, Some(ty)) => types.contains(&ty),
            _ => true,
        }
    }
}

/// A range of a buffer that is read as texels.
#[derive(Clone, Debug)]
pub struct TexelBuffer<'a> {
    /// The view, which descriptor sets take. May be null where the device has
    /// [descriptor buffers](super::DescriptorModel::Buffer).
    pub view: vk::BufferView,
    /// The buffer that the view is of.
    pub buffer: &'a vk::Buffer,
    /// The view's bytes.
    pub range: Range<u64>,
    /// The view's format.
    pub format: vk::Format,
}

impl<'a> Descriptor<'a> {
    pub(super) const fn of(what: What) -> Self {
        Self { what, named: PhantomData }
    }

    /// Nothing, as a resource of one type, for shaders that read through it as that type. Needs
    /// [`EnabledFeatures::NULL_DESCRIPTOR`](super::super::EnabledFeatures::NULL_DESCRIPTOR); without it nothing is written into sets,
    /// and zeros into descriptor buffers, which are undefined to read through.
    ///
    /// `None` for what is no type of a resource: only the six that Vulkan 1.0 has are. Samplers are none.
    #[must_use]
    pub fn null(ty: vk::DescriptorType) -> Option<Self> {
        super::ALL_TYPES.contains(&ty).then_some(Self::of(What::Null(ty)))
    }

    /// An image that shaders sample or load from.
    ///
    /// # Safety
    ///
    /// The view is of an image that may be used so, which is in the layout when shaders read it. The view and the image
    /// are the device's, and live until no heap holds the descriptor any more, as [said above](Self).
    #[must_use]
    pub const unsafe fn sampled_image(view: vk::ImageView, layout: vk::ImageLayout) -> Self {
        Self::of(What::Image { ty: vk::DescriptorType::SAMPLED_IMAGE, view, layout })
    }

    /// An image that shaders load from and store to, in `VK_IMAGE_LAYOUT_GENERAL`.
    ///
    /// # Safety
    ///
    /// As for [`sampled_image`](Self::sampled_image).
    #[must_use]
    pub const unsafe fn storage_image(view: vk::ImageView) -> Self {
        let layout = vk::ImageLayout::GENERAL;
        Self::of(What::Image { ty: vk::DescriptorType::STORAGE_IMAGE, view, layout })
    }

    /// A range of a buffer: of storage, or for [constants](BufferUse::Constants).
    ///
    /// # Safety
    ///
    /// As for [`buffer_descriptor`](crate::device::DescriptorDevice::buffer_descriptor).
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

    /// A buffer that shaders load texels from.
    ///
    /// # Safety
    ///
    /// The view is of that range and format, and was made for this use. Where the device has
    /// [descriptor buffers](super::DescriptorModel::Buffer), the buffer was made with
    /// `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`. The view and the buffer are the device's, and live until no heap
    /// holds the descriptor any more, as [said above](Self).
    #[must_use]
    pub unsafe fn uniform_texel_buffer(device: &Device, texels: TexelBuffer<'a>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::texels(device, texels, vk::DescriptorType::UNIFORM_TEXEL_BUFFER) }
    }

    /// A buffer that shaders load texels from and store them to.
    ///
    /// # Safety
    ///
    /// As for [`uniform_texel_buffer`](Self::uniform_texel_buffer).
    #[must_use]
    pub unsafe fn storage_texel_buffer(device: &Device, texels: TexelBuffer<'a>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::texels(device, texels, vk::DescriptorType::STORAGE_TEXEL_BUFFER) }
    }

    /// # Safety
    ///
    /// As for [`uniform_texel_buffer`](Self::uniform_texel_buffer).
    unsafe fn texels(device: &Device, texels: TexelBuffer<'a>, ty: vk::DescriptorType) -> Self {
        let TexelBuffer { view, buffer, range, format } = texels;
        // SAFETY: the caller's promise.
        let address = match unsafe { device.shared.address_for_descriptor(*buffer) } {
            0 => 0,
            first => first + range.start,
        };
        Self::of(What::Texels { ty, view, address, size: range.end - range.start, format })
    }

    /// A sampler of the application's own.
    ///
    /// # Safety
    ///
    /// It is the device's, and lives until no heap holds the descriptor any more, as [said above](Self).
    #[must_use]
    pub const unsafe fn sampler(sampler: vk::Sampler) -> Self {
        Self::of(What::Sampler(sampler))
    }

    /// An image that is drawn to.
    ///
    /// # Safety
    ///
    /// The view is the device's, and lives until no heap holds the descriptor any more, as [said above](Self).
    #[must_use]
    pub const unsafe fn render_target(view: vk::ImageView) -> Self {
        Self::of(What::RenderTarget(view))
    }

    /// An image that depth and stencil are written to.
    ///
    /// # Safety
    ///
    /// The view is the device's, and lives until no heap holds the descriptor any more, as [said above](Self).
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
