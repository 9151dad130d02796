//! Views of images, described for every API, and the check of a description against the image: drivers need not validate
//! either.

use core::error::Error;
use core::fmt;
use core::ops::Range;

use bitflags::bitflags;

use super::{DescriptorHeapType, ImageDesc, Tiling};

/// What a view of an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageViewUse {
    /// Shaders sample it or load from it: an SRV.
    Sampled,
    /// Shaders load from it and store to it: a UAV.
    Storage,
    /// It is rendered to: an RTV, a color attachment.
    RenderTarget,
    /// It has depth, stencil or both: a DSV, a depth-stencil attachment.
    DepthStencil,
    /// A pass reads what it has rendered. Vulkan only.
    InputAttachment,
}

impl ImageViewUse {
    /// All uses.
    pub const ALL: [Self; 5] =
        [Self::Sampled, Self::Storage, Self::RenderTarget, Self::DepthStencil, Self::InputAttachment];

    /// Returns the type of the heaps that have descriptors of such views. `None` for input attachments, which are bound by
    /// descriptor sets of the application's own.
    #[must_use]
    pub const fn heap_type(self) -> Option<DescriptorHeapType> {
        match self {
            Self::Sampled | Self::Storage => Some(DescriptorHeapType::Resource),
            Self::RenderTarget => Some(DescriptorHeapType::RenderTarget),
            Self::DepthStencil => Some(DescriptorHeapType::DepthStencil),
            Self::InputAttachment => None,
        }
    }

    pub(crate) const fn flag(self) -> ImageViewUses {
        match self {
            Self::Sampled => ImageViewUses::SAMPLED,
            Self::Storage => ImageViewUses::STORAGE,
            Self::RenderTarget => ImageViewUses::RENDER_TARGET,
            Self::DepthStencil => ImageViewUses::DEPTH_STENCIL,
            Self::InputAttachment => ImageViewUses::INPUT_ATTACHMENT,
        }
    }
}

impl fmt::Display for ImageViewUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sampled => "sampled image",
            Self::Storage => "storage image",
            Self::RenderTarget => "render target",
            Self::DepthStencil => "depth-stencil image",
            Self::InputAttachment => "input attachment",
        })
    }
}

bitflags! {
    /// What views of an image may be [for](ImageViewUse).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ImageViewUses: u8 {
        /// Sampled.
        const SAMPLED = 1;
        /// Storage.
        const STORAGE = 1 << 1;
        /// Render targets.
        const RENDER_TARGET = 1 << 2;
        /// Depth and stencil.
        const DEPTH_STENCIL = 1 << 3;
        /// Input attachments.
        const INPUT_ATTACHMENT = 1 << 4;
    }
}

/// The dimension of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageViewDimension {
    /// One dimension.
    D1,
    /// An array of such.
    D1Array,
    /// Two dimensions.
    D2,
    /// An array of such; of a three-dimensional image, its slices.
    D2Array,
    /// Six layers as a cube.
    Cube,
    /// An array of cubes.
    CubeArray,
    /// Three dimensions.
    D3,
}

impl ImageViewDimension {
    /// All dimensions.
    pub const ALL: [Self; 7] =
        [Self::D1, Self::D1Array, Self::D2, Self::D2Array, Self::Cube, Self::CubeArray, Self::D3];

    const fn is_array(self) -> bool {
        matches!(self, Self::D1Array | Self::D2Array | Self::CubeArray)
    }

    const fn is_cube(self) -> bool {
        matches!(self, Self::Cube | Self::CubeArray)
    }

    /// Returns the number of dimensions of an image that has such views.
    const fn of_image(self) -> u32 {
        match self {
            Self::D1 | Self::D1Array => 1,
            Self::D2 | Self::D2Array | Self::Cube | Self::CubeArray => 2,
            Self::D3 => 3,
        }
    }
}

impl fmt::Display for ImageViewDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::D1 => "1D",
            Self::D1Array => "1D array",
            Self::D2 => "2D",
            Self::D2Array => "2D array",
            Self::Cube => "cube",
            Self::CubeArray => "cube array",
            Self::D3 => "3D",
        })
    }
}

/// Which values of a depth-stencil image shaders read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageViewAspect {
    /// Depth.
    Depth,
    /// Stencil.
    Stencil,
}

impl fmt::Display for ImageViewAspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Depth => "depth",
            Self::Stencil => "stencil",
        })
    }
}

/// A view of an image to create, the same for every API. What is `None` follows from the image.
///
/// ```
/// use allotment::device::{ImageViewDesc, ImageViewDimension};
///
/// let albedo = ImageViewDesc::sampled(); // all mip levels and array layers, in the image's own format
/// let mip = ImageViewDesc::storage().with_mip_levels(3..4);
/// let sky = ImageViewDesc::sampled().with_dimension(ImageViewDimension::Cube);
/// let cascade = ImageViewDesc::depth_stencil().with_array_layers(2..3);
/// assert_eq!(cascade.array_layers, Some(2..3));
/// # let _ = (albedo, mip, sky);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ImageViewDesc {
    /// What the view is for.
    pub usage: ImageViewUse,
    /// The dimension; by default the image's own, as an array where several layers are seen.
    pub dimension: Option<ImageViewDimension>,
    /// The mip levels; by default all where shaders sample, else the first. Only sampled views have several.
    pub mip_levels: Option<Range<u32>>,
    /// The array layers, or the slices of a 3D image that is rendered to; by default as many as the dimension can have.
    pub array_layers: Option<Range<u32>>,
    /// Which values of a depth-stencil image shaders read; by default depth, where there is any.
    pub aspect: Option<ImageViewAspect>,
    /// The graphics API's format number; by default the image's own. Another one needs an image that allows it:
    /// `VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT`, a typeless format.
    pub format: Option<u32>,
}

impl ImageViewDesc {
    /// Describes a view of the whole image, as far as its use allows.
    #[must_use]
    pub const fn new(usage: ImageViewUse) -> Self {
        Self { usage, dimension: None, mip_levels: None, array_layers: None, aspect: None, format: None }
    }

    /// Describes a view that shaders sample.
    #[must_use]
    pub const fn sampled() -> Self {
        Self::new(ImageViewUse::Sampled)
    }

    /// Describes a view of the first mip level that shaders load from and store to.
    #[must_use]
    pub const fn storage() -> Self {
        Self::new(ImageViewUse::Storage)
    }

    /// Describes a view of the first mip level that is rendered to.
    #[must_use]
    pub const fn render_target() -> Self {
        Self::new(ImageViewUse::RenderTarget)
    }

    /// Describes a view of the first mip level for depth and stencil.
    #[must_use]
    pub const fn depth_stencil() -> Self {
        Self::new(ImageViewUse::DepthStencil)
    }

    /// Describes a view of the first mip level that a pass reads as an input attachment.
    #[must_use]
    pub const fn input_attachment() -> Self {
        Self::new(ImageViewUse::InputAttachment)
    }

    /// Sets the dimension.
    #[must_use]
    pub fn with_dimension(self, dimension: ImageViewDimension) -> Self {
        Self { dimension: Some(dimension), ..self }
    }

    /// Sets the mip levels.
    #[must_use]
    pub fn with_mip_levels(self, mip_levels: Range<u32>) -> Self {
        Self { mip_levels: Some(mip_levels), ..self }
    }

    /// Sets the array layers.
    #[must_use]
    pub fn with_array_layers(self, array_layers: Range<u32>) -> Self {
        Self { array_layers: Some(array_layers), ..self }
    }

    /// Sets which values of a depth-stencil image shaders read.
    #[must_use]
    pub fn with_aspect(self, aspect: ImageViewAspect) -> Self {
        Self { aspect: Some(aspect), ..self }
    }

    /// Sets the format.
    #[must_use]
    pub fn with_format(self, format: u32) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Checks the description against an image, and fills in what it leaves open.
    ///
    /// # Errors
    ///
    /// [`ImageViewError`], the first rule that it breaks.
    pub fn resolve(&self, image: &ImageViewSupport) -> Result<ImageViewParameters, ImageViewError> {
        let usage = self.usage;
        if !image.uses.contains(usage.flag()) {
            return Err(ImageViewError::Use { usage });
        }
        let all_levels = if usage == ImageViewUse::Sampled { image.mip_levels } else { 1 };
        let mip_levels = self.mip_levels.clone().unwrap_or(0..all_levels);
        if mip_levels.start >= mip_levels.end || mip_levels.end > image.mip_levels {
            let (first, end) = (mip_levels.start, mip_levels.end);
            return Err(ImageViewError::Levels { first, end, available: image.mip_levels });
        }
        if usage != ImageViewUse::Sampled && mip_levels.len() > 1 {
            return Err(ImageViewError::SeveralLevels { usage, count: mip_levels.end - mip_levels.start });
        }
        let (dimension, array_layers) = self.resolve_layers(image, mip_levels.start)?;
        let aspect = self.resolve_aspect(image)?;
        let format = self.format.unwrap_or(image.format);
        let listed =
            image.view_formats.iter().all(|listed| *listed == 0) || image.view_formats.contains(&format);
        if format != image.format && !(image.other_formats && listed) {
            return Err(ImageViewError::OtherFormat { format, own: image.format });
        }
        Ok(ImageViewParameters { usage, dimension, mip_levels, array_layers, aspect, format })
    }

    fn resolve_layers(
        &self,
        image: &ImageViewSupport,
        mip_level: u32,
    ) -> Result<(ImageViewDimension, Range<u32>), ImageViewError> {
        use ImageViewDimension::{Cube, D1, D1Array, D2, D2Array, D3};
        let usage = self.usage;
        // A slice of a 3D image is rendered to as a layer, in either API.
        let of_slices = image.dimensions == 3 && usage == ImageViewUse::RenderTarget;
        let available =
            if of_slices { (image.depth >> mip_level.min(31)).max(1) } else { image.array_layers };
        let seen =
            self.array_layers.as_ref().map_or(available, |layers| layers.end.saturating_sub(layers.start));
        let dimension = self.dimension.unwrap_or(match image.dimensions {
            1 if seen > 1 => D1Array,
            1 => D1,
            3 if !of_slices => D3,
            _ if seen > 1 => D2Array,
            _ => D2,
        });
        let is_sliced = of_slices && matches!(dimension, D2 | D2Array);
        if !is_sliced && (of_slices || dimension.of_image() != image.dimensions) {
            return Err(ImageViewError::Dimension { dimension, dimensions: image.dimensions, usage });
        }
        if is_sliced && !image.slices_as_layers {
            return Err(ImageViewError::Slices);
        }
        if dimension.is_cube() {
            if usage != ImageViewUse::Sampled {
                return Err(ImageViewError::CubeUse { usage });
            }
            if !image.cube_compatible {
                return Err(ImageViewError::NotCubeCompatible);
            }
            if dimension.is_array() && !image.cube_arrays {
                return Err(ImageViewError::NoCubeArrays);
            }
        }
        let array_layers = self.array_layers.clone().unwrap_or(match dimension {
            Cube => 0..6,
            _ if dimension.is_cube() => 0..available - available % 6,
            _ if dimension.is_array() => 0..available,
            _ => 0..1,
        });
        let (first, end) = (array_layers.start, array_layers.end);
        if first >= end || end > available {
            return Err(ImageViewError::Layers { first, end, available });
        }
        let count = end - first;
        let fits = match dimension {
            Cube => count == 6,
            _ if dimension.is_cube() => count % 6 == 0,
            _ => count == 1 || dimension.is_array(),
        };
        if fits {
            Ok((dimension, array_layers))
        } else {
            Err(ImageViewError::LayerCount { dimension, count })
        }
    }

    fn resolve_aspect(&self, image: &ImageViewSupport) -> Result<Option<ImageViewAspect>, ImageViewError> {
        use ImageViewAspect::{Depth, Stencil};
        let wanted = self.aspect;
        let has = |aspect| match aspect {
            Depth => image.has_depth,
            Stencil => image.has_stencil,
        };
        if let Some(aspect) = wanted.filter(|&aspect| !has(aspect)) {
            return Err(ImageViewError::Aspect { aspect });
        }
        if self.usage == ImageViewUse::DepthStencil {
            // An attachment has all aspects of its format.
            return match wanted {
                Some(aspect) if image.has_depth && image.has_stencil => {
                    Err(ImageViewError::PartOfDepthStencil { aspect })
                }
                _ => Ok(None),
            };
        }
        let own = if image.has_depth { Some(Depth) } else { image.has_stencil.then_some(Stencil) };
        Ok(wanted.or(own))
    }
}

/// What descriptions of views of an image are [checked](ImageViewDesc::resolve) against. A device tells it of the image's
/// description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageViewSupport {
    /// What views may be for.
    pub uses: ImageViewUses,
    /// The number of dimensions: 1, 2 or 3.
    pub dimensions: u32,
    /// Slices of the first mip level.
    pub depth: u32,
    /// Mip levels.
    pub mip_levels: u32,
    /// Array layers.
    pub array_layers: u32,
    /// Samples per texel.
    pub samples: u32,
    /// The graphics API's format number.
    pub format: u32,
    /// How the texels are laid out in memory.
    pub tiling: Tiling,
    /// Views may have another format, which the device checks.
    pub other_formats: bool,
    /// The only other formats that they may have, where the image was created with a list of them; 0 for none.
    pub view_formats: [u32; ImageDesc::MAX_VIEW_FORMATS],
    /// Six layers may be a cube.
    pub cube_compatible: bool,
    /// The device has views of arrays of cubes.
    pub cube_arrays: bool,
    /// Slices of a 3D image may be rendered to as layers.
    pub slices_as_layers: bool,
    /// The format has depth.
    pub has_depth: bool,
    /// The format has stencil.
    pub has_stencil: bool,
}

impl ImageViewSupport {
    /// Describes a 2D image of one mip level, one array layer and one sample per texel, of which there are no views.
    #[must_use]
    pub const fn new(format: u32) -> Self {
        Self {
            uses: ImageViewUses::empty(),
            dimensions: 2,
            depth: 1,
            mip_levels: 1,
            array_layers: 1,
            samples: 1,
            format,
            tiling: Tiling::Optimal,
            other_formats: false,
            view_formats: [0; ImageDesc::MAX_VIEW_FORMATS],
            cube_compatible: false,
            cube_arrays: true,
            slices_as_layers: false,
            has_depth: false,
            has_stencil: false,
        }
    }
}

/// A view of an image with all that its description leaves open, within the image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ImageViewParameters {
    /// What the view is for.
    pub usage: ImageViewUse,
    /// The dimension.
    pub dimension: ImageViewDimension,
    /// The mip levels, at least one.
    pub mip_levels: Range<u32>,
    /// The array layers, or the slices of a 3D image, at least one.
    pub array_layers: Range<u32>,
    /// Which values of a depth-stencil image shaders read. `None` for an image of colors, and where the view is for depth and
    /// stencil.
    pub aspect: Option<ImageViewAspect>,
    /// The graphics API's format number.
    pub format: u32,
}

/// The rule that the description of a view breaks. The driver was not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageViewError {
    /// The device describes no views: each is created with the graphics API.
    Unsupported,
    /// The image was not created for such views, or the device has none. Add the usage to the image's description. Direct3D 12
    /// has no input attachments: sample the image there. A multi-planar image needs a conversion, with which the graphics API
    /// creates the view.
    Use {
        /// What the view is for.
        usage: ImageViewUse,
    },
    /// The mip levels are none, or exceed those of the image.
    Levels {
        /// The first mip level.
        first: u32,
        /// The end of the mip levels, exclusive.
        end: u32,
        /// Mip levels of the image.
        available: u32,
    },
    /// Only shaders that sample see several mip levels through one view.
    SeveralLevels {
        /// What the view is for.
        usage: ImageViewUse,
        /// Mip levels of the view.
        count: u32,
    },
    /// The image has no views of this dimension for this use.
    Dimension {
        /// The dimension of the view.
        dimension: ImageViewDimension,
        /// The number of dimensions of the image.
        dimensions: u32,
        /// What the view is for.
        usage: ImageViewUse,
    },
    /// Slices of the 3D image are not rendered to as layers. Create it with `VK_IMAGE_CREATE_2D_ARRAY_COMPATIBLE_BIT`.
    Slices,
    /// A cube is sampled, and nothing else. Use a 2D array of its faces.
    CubeUse {
        /// What the view is for.
        usage: ImageViewUse,
    },
    /// The image was not created for views of cubes: it is a 2D image of at least six layers and one sample per texel, on
    /// Vulkan with `VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT`.
    NotCubeCompatible,
    /// The application did not enable Vulkan's `imageCubeArray`. Enable it and pass `EnabledFeatures::IMAGE_CUBE_ARRAY`.
    NoCubeArrays,
    /// The array layers are none, or exceed those of the image, or the slices of its mip level.
    Layers {
        /// The first array layer.
        first: u32,
        /// The end of the array layers, exclusive.
        end: u32,
        /// Array layers of the image, or slices.
        available: u32,
    },
    /// A view of this dimension cannot have so many layers: cubes have six each, and only arrays have several.
    LayerCount {
        /// The dimension of the view.
        dimension: ImageViewDimension,
        /// Layers of the view.
        count: u32,
    },
    /// The image's format has no such aspect.
    Aspect {
        /// The aspect.
        aspect: ImageViewAspect,
    },
    /// A depth-stencil view has both aspects of the image. Leave the choice out.
    PartOfDepthStencil {
        /// The aspect.
        aspect: ImageViewAspect,
    },
    /// The format is not the image's own, and the image allows no other, or only those of its list. Create it with
    /// [`ImageDesc::with_view_formats`], with `VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT`, or with a typeless format.
    OtherFormat {
        /// The format of the view.
        format: u32,
        /// That of the image.
        own: u32,
    },
    /// The image allows other formats, and this is none of them: its texels are not as large, it is of another family, or the
    /// device has no such views of it.
    IncompatibleFormat {
        /// The format of the view.
        format: u32,
        /// That of the image.
        own: u32,
    },
    /// The image's format has no views of this use. Name one, and create the image with a typeless format for that.
    FormatNeeded {
        /// What the view is for.
        usage: ImageViewUse,
        /// The format of the image.
        own: u32,
    },
}

impl fmt::Display for ImageViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unsupported => {
                f.write_str("the device describes no views by itself, create them with the graphics API")
            }
            Self::Use { usage: usage @ ImageViewUse::InputAttachment } => write!(
                f,
                "the image was not created for a view as {usage}: add VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT to its description on Vulkan, and sample it elsewhere, where passes have no input attachments"
            ),
            Self::Use { usage } => write!(
                f,
                "the image was not created for a view as {usage}: add the usage to its description; one that needs a sampler conversion is viewed with the graphics API"
            ),
            Self::Levels { first, end, available } => write!(
                f,
                "mip levels {first}..{end} are none or exceed the {available} mip levels of the image, choose some of them"
            ),
            Self::SeveralLevels { usage, count } => write!(
                f,
                "{count} mip levels are too many for a view as {usage}, choose one"
            ),
            Self::Dimension { dimension, dimensions, usage } => write!(
                f,
                "an image of {dimensions} dimensions has no {dimension} view as {usage}, leave the dimension out or choose another"
            ),
            Self::Slices => f.write_str(
                "the slices of the 3D image cannot be rendered to, create it with VK_IMAGE_CREATE_2D_ARRAY_COMPATIBLE_BIT",
            ),
            Self::CubeUse { usage } => {
                write!(f, "a cube cannot be a {usage}, choose a 2D array of its faces")
            }
            Self::NotCubeCompatible => f.write_str(
                "the image was not created for cubes: it needs two dimensions, six layers, one sample per texel, and on Vulkan VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT",
            ),
            Self::NoCubeArrays => f.write_str(
                "the application did not enable imageCubeArray: enable it and pass EnabledFeatures::IMAGE_CUBE_ARRAY",
            ),
            Self::Layers { first, end, available } => write!(
                f,
                "array layers {first}..{end} are none or exceed the {available} layers of the image, choose some of them"
            ),
            Self::LayerCount { dimension, count } => write!(
                f,
                "a {dimension} view cannot have {count} layers, choose six for each cube and an array for several"
            ),
            Self::Aspect { aspect } => {
                write!(f, "the image's format has no {aspect}, leave the aspect out")
            }
            Self::PartOfDepthStencil { aspect } => write!(
                f,
                "a depth-stencil view has depth and stencil and not {aspect} alone, leave the aspect out"
            ),
            Self::OtherFormat { format, own } => write!(
                f,
                "format {format} is not the image's own ({own}) or one of its list, create the image with the formats of its views, with VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT or a typeless format"
            ),
            Self::IncompatibleFormat { format, own } => write!(
                f,
                "an image of format {own} has no such view of format {format}, choose one of the same family that the device supports"
            ),
            Self::FormatNeeded { usage, own } => write!(
                f,
                "format {own} has no view as {usage}, create the image with a typeless format and name the format of the view"
            ),
        }
    }
}

impl Error for ImageViewError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(dimensions: u32, mip_levels: u32, array_layers: u32) -> ImageViewSupport {
        ImageViewSupport {
            uses: ImageViewUses::all(),
            dimensions,
            mip_levels,
            array_layers,
            cube_compatible: array_layers >= 6,
            ..ImageViewSupport::new(37)
        }
    }

    #[test]
    fn what_is_left_out_follows_from_the_image() {
        use ImageViewDimension::{Cube, CubeArray, D1, D1Array, D2, D2Array, D3};
        let volume = ImageViewSupport { depth: 8, slices_as_layers: true, ..image(3, 4, 1) };
        let of = |image, desc: ImageViewDesc| {
            let view = desc.resolve(&image).unwrap();
            (view.dimension, view.mip_levels, view.array_layers)
        };
        let sampled = ImageViewDesc::sampled;
        let target = ImageViewDesc::render_target;
        assert_eq!(of(image(2, 4, 1), sampled()), (D2, 0..4, 0..1));
        assert_eq!(of(image(2, 4, 7), sampled()), (D2Array, 0..4, 0..7));
        assert_eq!(of(image(1, 4, 1), sampled()), (D1, 0..4, 0..1));
        assert_eq!(of(image(1, 4, 2), sampled()), (D1Array, 0..4, 0..2));
        assert_eq!(of(volume, sampled()), (D3, 0..4, 0..1));
        assert_eq!(of(volume, target()), (D2Array, 0..1, 0..8));
        assert_eq!(of(volume, target().with_mip_levels(2..3)), (D2Array, 2..3, 0..2));
        assert_eq!(of(volume, target().with_mip_levels(3..4)), (D2, 3..4, 0..1));
        assert_eq!(of(image(2, 4, 7), target()), (D2Array, 0..1, 0..7));
        assert_eq!(of(image(2, 4, 7), target().with_dimension(D2)), (D2, 0..1, 0..1));
        assert_eq!(of(image(2, 4, 7), sampled().with_dimension(Cube)), (Cube, 0..4, 0..6));
        assert_eq!(of(image(2, 1, 13), sampled().with_dimension(CubeArray)), (CubeArray, 0..1, 0..12));
        let depth = ImageViewSupport { has_depth: true, has_stencil: true, ..image(2, 1, 1) };
        assert_eq!(sampled().resolve(&depth).unwrap().aspect, Some(ImageViewAspect::Depth));
        assert_eq!(ImageViewDesc::depth_stencil().resolve(&depth).unwrap().aspect, None);
    }

    #[test]
    fn what_the_image_does_not_have_is_refused_with_the_reason() {
        use ImageViewDimension::{Cube, CubeArray, D1, D2, D3};
        use ImageViewError as E;
        let sampled = ImageViewDesc::sampled;
        let flat = image(2, 4, 7);
        let volume = ImageViewSupport { depth: 8, ..image(3, 4, 1) };
        let plain = ImageViewSupport { cube_compatible: false, ..flat };
        let old = ImageViewSupport { cube_arrays: false, ..flat };
        let depth = ImageViewSupport { has_depth: true, has_stencil: true, ..flat };
        let (storage, target) = (ImageViewUse::Storage, ImageViewUse::RenderTarget);
        let dimension = |dimension, dimensions, usage| E::Dimension { dimension, dimensions, usage };
        for (image, desc, error) in [
            (
                ImageViewSupport { uses: ImageViewUses::SAMPLED, ..flat },
                ImageViewDesc::storage(),
                E::Use { usage: storage },
            ),
            (flat, sampled().with_mip_levels(0..5), E::Levels { first: 0, end: 5, available: 4 }),
            (flat, sampled().with_mip_levels(2..2), E::Levels { first: 2, end: 2, available: 4 }),
            (
                flat,
                sampled().with_mip_levels(Range { start: u32::MAX, end: 1 }),
                E::Levels { first: u32::MAX, end: 1, available: 4 },
            ),
            (
                flat,
                ImageViewDesc::storage().with_mip_levels(0..2),
                E::SeveralLevels { usage: storage, count: 2 },
            ),
            (flat, sampled().with_dimension(D1), dimension(D1, 2, ImageViewUse::Sampled)),
            (flat, sampled().with_dimension(D3), dimension(D3, 2, ImageViewUse::Sampled)),
            (volume, sampled().with_dimension(D2), dimension(D2, 3, ImageViewUse::Sampled)),
            (volume, ImageViewDesc::render_target().with_dimension(D3), dimension(D3, 3, target)),
            (volume, ImageViewDesc::render_target(), E::Slices),
            (flat, ImageViewDesc::storage().with_dimension(Cube), E::CubeUse { usage: storage }),
            (plain, sampled().with_dimension(Cube), E::NotCubeCompatible),
            (old, sampled().with_dimension(CubeArray), E::NoCubeArrays),
            (flat, sampled().with_array_layers(6..8), E::Layers { first: 6, end: 8, available: 7 }),
            (
                flat,
                sampled().with_dimension(D2).with_array_layers(0..2),
                E::LayerCount { dimension: D2, count: 2 },
            ),
            (
                flat,
                sampled().with_dimension(Cube).with_array_layers(0..5),
                E::LayerCount { dimension: Cube, count: 5 },
            ),
            (
                flat,
                sampled().with_aspect(ImageViewAspect::Depth),
                E::Aspect { aspect: ImageViewAspect::Depth },
            ),
            (
                depth,
                ImageViewDesc::depth_stencil().with_aspect(ImageViewAspect::Stencil),
                E::PartOfDepthStencil { aspect: ImageViewAspect::Stencil },
            ),
            (flat, sampled().with_format(43), E::OtherFormat { format: 43, own: 37 }),
            (
                ImageViewSupport { other_formats: true, view_formats: [44, 0, 0, 0], ..flat },
                sampled().with_format(43),
                E::OtherFormat { format: 43, own: 37 },
            ),
        ] {
            assert_eq!(desc.resolve(&image), Err(error), "{desc:?}");
            assert!(!error.to_string().is_empty());
        }
    }
}
