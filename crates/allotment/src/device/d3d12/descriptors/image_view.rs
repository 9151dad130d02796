//! Views of images that the library describes itself, without naming the image.

use core::fmt;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::super::properties::query;
use super::descriptor::Descriptor;
use crate::device::{
    ImageViewAspect, ImageViewDimension, ImageViewError, ImageViewParameters, ImageViewSupport, ImageViewUse,
};

/// How an image is seen: a description of a view without its resource. `None` is a view of the whole resource in its own
/// format.
#[derive(Clone, Copy)]
pub enum ImageViewDesc {
    /// A shader resource view.
    ShaderResource(Option<D3D12_SHADER_RESOURCE_VIEW_DESC>),
    /// An unordered access view.
    UnorderedAccess(Option<D3D12_UNORDERED_ACCESS_VIEW_DESC>),
    /// A render target view.
    RenderTarget(Option<D3D12_RENDER_TARGET_VIEW_DESC>),
    /// A depth-stencil view.
    DepthStencil(Option<D3D12_DEPTH_STENCIL_VIEW_DESC>),
}

impl ImageViewDesc {
    /// Describes a view that was checked against what the image is, and checks its format.
    pub(super) fn of(
        device: &ID3D12Device,
        image: &ImageViewSupport,
        view: &ImageViewParameters,
    ) -> Result<Self, ImageViewError> {
        let format = view_format(image, view)?;
        if format.0.unsigned_abs() != image.format && !has_views(device, format, view.usage) {
            return Err(ImageViewError::IncompatibleFormat { format: view.format, own: image.format });
        }
        let part = Part { image, view };
        Ok(match view.usage {
            ImageViewUse::Sampled => Self::ShaderResource(Some(part.shader_resource(format))),
            ImageViewUse::Storage => Self::UnorderedAccess(Some(part.unordered_access(format))),
            ImageViewUse::RenderTarget => Self::RenderTarget(Some(part.render_target(format))),
            ImageViewUse::DepthStencil => Self::DepthStencil(Some(part.depth_stencil(format))),
            usage @ ImageViewUse::InputAttachment => return Err(ImageViewError::Use { usage }),
        })
    }

    /// # Safety
    ///
    /// The description is one that Direct3D 12 allows for the resource.
    pub(super) unsafe fn descriptor<'a>(&self, image: &'a ID3D12Resource) -> Descriptor<'a> {
        match *self {
            // SAFETY: the caller's promise.
            Self::ShaderResource(desc) => unsafe { Descriptor::shader_resource(Some(image), desc) },
            // SAFETY: the caller's promise.
            Self::UnorderedAccess(desc) => unsafe { Descriptor::unordered_access(Some(image), None, desc) },
            // SAFETY: the caller's promise.
            Self::RenderTarget(desc) => unsafe { Descriptor::render_target(Some(image), desc) },
            // SAFETY: the caller's promise.
            Self::DepthStencil(desc) => unsafe { Descriptor::depth_stencil(Some(image), desc) },
        }
    }
}

/// The typeless formats that others are cast from, each with the last format of its family, which are numbered one after the
/// other.
const FAMILIES: [(i32, i32); 18] = [
    (1, 4),
    (5, 8),
    (9, 14),
    (15, 18),
    (19, 22),
    (23, 25),
    (27, 32),
    (33, 38),
    (39, 43),
    (44, 47),
    (48, 52),
    (53, 59),
    (60, 64),
    (70, 72),
    (73, 75),
    (76, 78),
    (79, 81),
    (82, 84),
];

/// Families whose formats are not numbered one after the other, or that came later: the typeless format, and the others.
const OTHER_FAMILIES: [(i32, [i32; 2]); 4] = [(90, [87, 91]), (92, [88, 93]), (94, [95, 96]), (97, [98, 99])];

/// Returns true for a format whose views name another one.
pub(in crate::device::d3d12) fn is_typeless(format: DXGI_FORMAT) -> bool {
    FAMILIES.iter().any(|&(typeless, _)| format.0 == typeless)
        || OTHER_FAMILIES.iter().any(|&(typeless, _)| format.0 == typeless)
}

/// Returns true if the device has views of a format for a use: asked only where the format is not that of an image which the
/// runtime has accepted.
fn has_views(device: &ID3D12Device, format: DXGI_FORMAT, usage: ImageViewUse) -> bool {
    let wanted = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, ..Default::default() };
    let Some(found) = query(device, wanted) else { return false };
    let needed = match usage {
        ImageViewUse::Sampled => D3D12_FORMAT_SUPPORT1_SHADER_LOAD,
        ImageViewUse::Storage => D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW,
        ImageViewUse::RenderTarget => D3D12_FORMAT_SUPPORT1_RENDER_TARGET,
        ImageViewUse::DepthStencil => D3D12_FORMAT_SUPPORT1_DEPTH_STENCIL,
        ImageViewUse::InputAttachment => return false,
    };
    found.Support1.contains(needed)
}

/// Returns true for a format with a type of the family of a typeless one.
fn is_of_family(typeless: i32, format: i32) -> bool {
    FAMILIES.iter().any(|&(first, last)| first == typeless && (first + 1..=last).contains(&format))
        || OTHER_FAMILIES.iter().any(|&(first, others)| first == typeless && others.contains(&format))
}

/// Returns the format of a view: as described, or one that follows from the image's.
fn view_format(image: &ImageViewSupport, view: &ImageViewParameters) -> Result<DXGI_FORMAT, ImageViewError> {
    let number = |format: u32| DXGI_FORMAT(i32::try_from(format).unwrap_or(0));
    let (own, format) = (number(image.format), number(view.format));
    let needed = Err(ImageViewError::FormatNeeded { usage: view.usage, own: image.format });
    // Depth and stencil have formats of their own in views, and which one follows from the aspect.
    if image.has_depth {
        let depth = match own {
            DXGI_FORMAT_R32G8X24_TYPELESS | DXGI_FORMAT_D32_FLOAT_S8X24_UINT => [
                DXGI_FORMAT_D32_FLOAT_S8X24_UINT,
                DXGI_FORMAT_R32_FLOAT_X8X24_TYPELESS,
                DXGI_FORMAT_X32_TYPELESS_G8X24_UINT,
            ],
            DXGI_FORMAT_R24G8_TYPELESS | DXGI_FORMAT_D24_UNORM_S8_UINT => [
                DXGI_FORMAT_D24_UNORM_S8_UINT,
                DXGI_FORMAT_R24_UNORM_X8_TYPELESS,
                DXGI_FORMAT_X24_TYPELESS_G8_UINT,
            ],
            DXGI_FORMAT_R32_TYPELESS | DXGI_FORMAT_D32_FLOAT => {
                [DXGI_FORMAT_D32_FLOAT, DXGI_FORMAT_R32_FLOAT, DXGI_FORMAT_UNKNOWN]
            }
            _ => [DXGI_FORMAT_D16_UNORM, DXGI_FORMAT_R16_UNORM, DXGI_FORMAT_UNKNOWN],
        };
        let [attachment, of_depth, of_stencil] = depth;
        let of_view = match (view.usage, view.aspect) {
            (ImageViewUse::DepthStencil, _) => attachment,
            (_, Some(ImageViewAspect::Stencil)) => of_stencil,
            _ => of_depth,
        };
        if format != own && format != of_view {
            return Err(ImageViewError::IncompatibleFormat { format: view.format, own: image.format });
        }
        // Shaders see an image of a format for depth through no view.
        return if view.usage == ImageViewUse::DepthStencil || is_typeless(own) {
            Ok(of_view)
        } else {
            needed
        };
    }
    if is_typeless(format) {
        return needed;
    }
    if format != own && !is_of_family(own.0, format.0) {
        return Err(ImageViewError::IncompatibleFormat { format: view.format, own: image.format });
    }
    Ok(format)
}

/// A part of an image.
struct Part<'a> {
    image: &'a ImageViewSupport,
    view: &'a ImageViewParameters,
}

impl Part<'_> {
    fn level(&self) -> u32 {
        self.view.mip_levels.start
    }

    fn levels(&self) -> u32 {
        self.view.mip_levels.end - self.view.mip_levels.start
    }

    fn layer(&self) -> u32 {
        self.view.array_layers.start
    }

    fn layers(&self) -> u32 {
        self.view.array_layers.end - self.view.array_layers.start
    }

    /// Returns true if the view names its layers: where the image is an array, also one of them.
    fn is_array(&self) -> bool {
        self.image.array_layers > 1
    }

    fn is_multisampled(&self) -> bool {
        self.image.samples > 1
    }

    /// Of stencil, the second plane is seen.
    fn plane(&self) -> u32 {
        u32::from(self.view.aspect == Some(ImageViewAspect::Stencil) && self.image.has_depth)
    }

    fn shader_resource(&self, format: DXGI_FORMAT) -> D3D12_SHADER_RESOURCE_VIEW_DESC {
        use ImageViewDimension::{Cube, CubeArray, D1, D1Array, D2, D2Array, D3};
        let (first, levels) = (self.level(), self.levels());
        let (layer, layers, plane) = (self.layer(), self.layers(), self.plane());
        let (dimension, anonymous) = match self.view.dimension {
            D1 | D1Array if self.is_array() => (
                D3D12_SRV_DIMENSION_TEXTURE1DARRAY,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    Texture1DArray: D3D12_TEX1D_ARRAY_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
            D1 | D1Array => (
                D3D12_SRV_DIMENSION_TEXTURE1D,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    Texture1D: D3D12_TEX1D_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
            D2 | D2Array if self.is_multisampled() && self.is_array() => (
                D3D12_SRV_DIMENSION_TEXTURE2DMSARRAY,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    Texture2DMSArray: D3D12_TEX2DMS_ARRAY_SRV { FirstArraySlice: layer, ArraySize: layers },
                },
            ),
            D2 | D2Array if self.is_multisampled() => {
                (D3D12_SRV_DIMENSION_TEXTURE2DMS, D3D12_SHADER_RESOURCE_VIEW_DESC_0::default())
            }
            D2 | D2Array if self.is_array() => (
                D3D12_SRV_DIMENSION_TEXTURE2DARRAY,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    Texture2DArray: D3D12_TEX2D_ARRAY_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                        PlaneSlice: plane,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
            D2 | D2Array => (
                D3D12_SRV_DIMENSION_TEXTURE2D,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    Texture2D: D3D12_TEX2D_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        PlaneSlice: plane,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
            // A view of one cube names no layer, so that those of another than the first are an array of one.
            Cube | CubeArray => (
                D3D12_SRV_DIMENSION_TEXTURECUBEARRAY,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    TextureCubeArray: D3D12_TEXCUBE_ARRAY_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        First2DArrayFace: layer,
                        NumCubes: layers / 6,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
            D3 => (
                D3D12_SRV_DIMENSION_TEXTURE3D,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    Texture3D: D3D12_TEX3D_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
        };
        let (dimension, anonymous) = match self.view.dimension {
            Cube if layer == 0 => (
                D3D12_SRV_DIMENSION_TEXTURECUBE,
                D3D12_SHADER_RESOURCE_VIEW_DESC_0 {
                    TextureCube: D3D12_TEXCUBE_SRV {
                        MostDetailedMip: first,
                        MipLevels: levels,
                        ResourceMinLODClamp: 0.0,
                    },
                },
            ),
            _ => (dimension, anonymous),
        };
        D3D12_SHADER_RESOURCE_VIEW_DESC {
            Format: format,
            ViewDimension: dimension,
            Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
            Anonymous: anonymous,
        }
    }

    fn unordered_access(&self, format: DXGI_FORMAT) -> D3D12_UNORDERED_ACCESS_VIEW_DESC {
        use ImageViewDimension::{Cube, CubeArray, D1, D1Array, D2, D2Array, D3};
        let (level, layer, layers, plane) = (self.level(), self.layer(), self.layers(), self.plane());
        let (dimension, anonymous) = match self.view.dimension {
            D1 | D1Array if self.is_array() => (
                D3D12_UAV_DIMENSION_TEXTURE1DARRAY,
                D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
                    Texture1DArray: D3D12_TEX1D_ARRAY_UAV {
                        MipSlice: level,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                    },
                },
            ),
            D1 | D1Array => (
                D3D12_UAV_DIMENSION_TEXTURE1D,
                D3D12_UNORDERED_ACCESS_VIEW_DESC_0 { Texture1D: D3D12_TEX1D_UAV { MipSlice: level } },
            ),
            D2 | D2Array | Cube | CubeArray if self.is_array() => (
                D3D12_UAV_DIMENSION_TEXTURE2DARRAY,
                D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
                    Texture2DArray: D3D12_TEX2D_ARRAY_UAV {
                        MipSlice: level,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                        PlaneSlice: plane,
                    },
                },
            ),
            D2 | D2Array | Cube | CubeArray => (
                D3D12_UAV_DIMENSION_TEXTURE2D,
                D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
                    Texture2D: D3D12_TEX2D_UAV { MipSlice: level, PlaneSlice: plane },
                },
            ),
            D3 => (
                D3D12_UAV_DIMENSION_TEXTURE3D,
                D3D12_UNORDERED_ACCESS_VIEW_DESC_0 {
                    Texture3D: D3D12_TEX3D_UAV {
                        MipSlice: level,
                        FirstWSlice: 0,
                        // All slices of the level.
                        WSize: u32::MAX,
                    },
                },
            ),
        };
        D3D12_UNORDERED_ACCESS_VIEW_DESC { Format: format, ViewDimension: dimension, Anonymous: anonymous }
    }

    fn render_target(&self, format: DXGI_FORMAT) -> D3D12_RENDER_TARGET_VIEW_DESC {
        let (level, layer, layers) = (self.level(), self.layer(), self.layers());
        let (dimension, anonymous) = match self.image.dimensions {
            1 if self.is_array() => (
                D3D12_RTV_DIMENSION_TEXTURE1DARRAY,
                D3D12_RENDER_TARGET_VIEW_DESC_0 {
                    Texture1DArray: D3D12_TEX1D_ARRAY_RTV {
                        MipSlice: level,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                    },
                },
            ),
            1 => (
                D3D12_RTV_DIMENSION_TEXTURE1D,
                D3D12_RENDER_TARGET_VIEW_DESC_0 { Texture1D: D3D12_TEX1D_RTV { MipSlice: level } },
            ),
            3 => (
                D3D12_RTV_DIMENSION_TEXTURE3D,
                D3D12_RENDER_TARGET_VIEW_DESC_0 {
                    Texture3D: D3D12_TEX3D_RTV { MipSlice: level, FirstWSlice: layer, WSize: layers },
                },
            ),
            _ if self.is_multisampled() && self.is_array() => (
                D3D12_RTV_DIMENSION_TEXTURE2DMSARRAY,
                D3D12_RENDER_TARGET_VIEW_DESC_0 {
                    Texture2DMSArray: D3D12_TEX2DMS_ARRAY_RTV { FirstArraySlice: layer, ArraySize: layers },
                },
            ),
            _ if self.is_multisampled() => {
                (D3D12_RTV_DIMENSION_TEXTURE2DMS, D3D12_RENDER_TARGET_VIEW_DESC_0::default())
            }
            _ if self.is_array() => (
                D3D12_RTV_DIMENSION_TEXTURE2DARRAY,
                D3D12_RENDER_TARGET_VIEW_DESC_0 {
                    Texture2DArray: D3D12_TEX2D_ARRAY_RTV {
                        MipSlice: level,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                        PlaneSlice: 0,
                    },
                },
            ),
            _ => (
                D3D12_RTV_DIMENSION_TEXTURE2D,
                D3D12_RENDER_TARGET_VIEW_DESC_0 {
                    Texture2D: D3D12_TEX2D_RTV { MipSlice: level, PlaneSlice: 0 },
                },
            ),
        };
        D3D12_RENDER_TARGET_VIEW_DESC { Format: format, ViewDimension: dimension, Anonymous: anonymous }
    }

    fn depth_stencil(&self, format: DXGI_FORMAT) -> D3D12_DEPTH_STENCIL_VIEW_DESC {
        let (level, layer, layers) = (self.level(), self.layer(), self.layers());
        let (dimension, anonymous) = if self.image.dimensions == 1 {
            (
                D3D12_DSV_DIMENSION_TEXTURE1DARRAY,
                D3D12_DEPTH_STENCIL_VIEW_DESC_0 {
                    Texture1DArray: D3D12_TEX1D_ARRAY_DSV {
                        MipSlice: level,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                    },
                },
            )
        } else if self.is_multisampled() && self.is_array() {
            (
                D3D12_DSV_DIMENSION_TEXTURE2DMSARRAY,
                D3D12_DEPTH_STENCIL_VIEW_DESC_0 {
                    Texture2DMSArray: D3D12_TEX2DMS_ARRAY_DSV { FirstArraySlice: layer, ArraySize: layers },
                },
            )
        } else if self.is_multisampled() {
            (D3D12_DSV_DIMENSION_TEXTURE2DMS, D3D12_DEPTH_STENCIL_VIEW_DESC_0::default())
        } else if self.is_array() {
            (
                D3D12_DSV_DIMENSION_TEXTURE2DARRAY,
                D3D12_DEPTH_STENCIL_VIEW_DESC_0 {
                    Texture2DArray: D3D12_TEX2D_ARRAY_DSV {
                        MipSlice: level,
                        FirstArraySlice: layer,
                        ArraySize: layers,
                    },
                },
            )
        } else {
            (
                D3D12_DSV_DIMENSION_TEXTURE2D,
                D3D12_DEPTH_STENCIL_VIEW_DESC_0 { Texture2D: D3D12_TEX2D_DSV { MipSlice: level } },
            )
        };
        let flags = D3D12_DSV_FLAG_NONE;
        D3D12_DEPTH_STENCIL_VIEW_DESC {
            Format: format,
            ViewDimension: dimension,
            Flags: flags,
            Anonymous: anonymous,
        }
    }
}

impl fmt::Debug for ImageViewDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, has_desc) = match self {
            Self::ShaderResource(desc) => ("ShaderResource", desc.is_some()),
            Self::UnorderedAccess(desc) => ("UnorderedAccess", desc.is_some()),
            Self::RenderTarget(desc) => ("RenderTarget", desc.is_some()),
            Self::DepthStencil(desc) => ("DepthStencil", desc.is_some()),
        };
        // Which member of the union is valid depends on the dimension.
        f.debug_tuple(name).field(&if has_desc { "a part" } else { "whole" }).finish()
    }
}
