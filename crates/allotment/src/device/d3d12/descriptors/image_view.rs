//! Views of images that the library describes itself, without naming the image.

use core::fmt;

use windows::Win32::Graphics::Direct3D12::*;

use super::descriptor::Descriptor;

/// How shaders see an image: a description of a view without its resource. `None` is a view of the whole resource in its
/// own format.
#[derive(Clone, Copy)]
pub enum ImageViewDesc {
    /// A shader resource view.
    ShaderResource(Option<D3D12_SHADER_RESOURCE_VIEW_DESC>),
    /// An unordered access view.
    UnorderedAccess(Option<D3D12_UNORDERED_ACCESS_VIEW_DESC>),
}

impl ImageViewDesc {
    /// # Safety
    ///
    /// The description is one that Direct3D 12 allows for the resource.
    pub(super) unsafe fn descriptor<'a>(&self, image: &'a ID3D12Resource) -> Descriptor<'a> {
        match *self {
            // SAFETY: the caller's promise.
            Self::ShaderResource(desc) => unsafe { Descriptor::shader_resource(Some(image), desc) },
            // SAFETY: the caller's promise.
            Self::UnorderedAccess(desc) => unsafe { Descriptor::unordered_access(Some(image), None, desc) },
        }
    }
}

impl fmt::Debug for ImageViewDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, has_desc) = match self {
            Self::ShaderResource(desc) => ("ShaderResource", desc.is_some()),
            Self::UnorderedAccess(desc) => ("UnorderedAccess", desc.is_some()),
        };
        // Which member of the union is valid depends on the dimension.
        f.debug_tuple(name).field(&if has_desc { "a part" } else { "whole" }).finish()
    }
}
