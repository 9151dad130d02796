//! How shaders sample images, in words that all APIs have.

use core::hash::{Hash, Hasher};

/// How texels are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The nearest one is taken.
    Nearest,
    /// Those around are weighed.
    #[default]
    Linear,
}

/// What is beyond the edge of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressMode {
    /// The image again.
    #[default]
    Repeat,
    /// The image again, mirrored each other time.
    MirroredRepeat,
    /// The texel at the edge.
    ClampToEdge,
    /// The border's colour.
    ClampToBorder,
}

/// The colour of what is beyond the edge with [`AddressMode::ClampToBorder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BorderColor {
    /// All zeros.
    #[default]
    TransparentBlack,
    /// Zeros, and an alpha of 1.
    OpaqueBlack,
    /// All ones.
    OpaqueWhite,
}

/// How a value is compared with what was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Never true.
    Never,
    /// The value is less.
    Less,
    /// Both are equal.
    Equal,
    /// The value is less or equal.
    LessOrEqual,
    /// The value is greater.
    Greater,
    /// They are not equal.
    NotEqual,
    /// The value is greater or equal.
    GreaterOrEqual,
    /// Always true.
    Always,
}

/// A sampler. Two of the same description are equal, and one of them is enough.
///
/// ```
/// use allotment::device::{AddressMode, SamplerDesc};
///
/// let shadows = SamplerDesc { address: [AddressMode::ClampToEdge; 3], ..SamplerDesc::default() };
/// assert_ne!(shadows, SamplerDesc::default());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SamplerDesc {
    /// Where an image is magnified.
    pub mag_filter: Filter,
    /// Where it is minified.
    pub min_filter: Filter,
    /// Between mip levels.
    pub mip_filter: Filter,
    /// Beyond the edges, in u, v and w.
    pub address: [AddressMode; 3],
    /// Added to the level of detail; from −16 to 15.99.
    pub lod_bias: f32,
    /// The least level of detail.
    pub min_lod: f32,
    /// The largest level of detail.
    pub max_lod: f32,
    /// Samples along the direction in which an image is most minified: 1 for none of this, at most 16.
    pub max_anisotropy: u8,
    /// What is sampled is compared with a value, for shadows.
    pub compare: Option<Compare>,
    /// With [`AddressMode::ClampToBorder`].
    pub border: BorderColor,
}

impl Default for SamplerDesc {
    /// Linear in all directions, repeated, all mip levels.
    fn default() -> Self {
        Self {
            mag_filter: Filter::default(),
            min_filter: Filter::default(),
            mip_filter: Filter::default(),
            address: [AddressMode::default(); 3],
            lod_bias: 0.0,
            min_lod: 0.0,
            max_lod: 1000.0,
            max_anisotropy: 1,
            compare: None,
            border: BorderColor::default(),
        }
    }
}

/// What a [`SamplerDesc`] is told apart by.
type Key = (([Filter; 3], [AddressMode; 3]), [u32; 3], (u8, Option<Compare>, BorderColor));

impl SamplerDesc {
    /// Whether it can be made at all: its numbers are numbers, and in the ranges that its fields say.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (-16.0..16.0).contains(&self.lod_bias)
            && self.min_lod >= 0.0
            && self.min_lod <= self.max_lod
            && self.max_lod.is_finite()
            && (1..=16).contains(&self.max_anisotropy)
    }

    fn key(&self) -> Key {
        // −0.0 is 0.0.
        let bits = |value: f32| (value + 0.0).to_bits();
        (
            ([self.mag_filter, self.min_filter, self.mip_filter], self.address),
            [bits(self.lod_bias), bits(self.min_lod), bits(self.max_lod)],
            (self.max_anisotropy, self.compare, self.border),
        )
    }
}

impl PartialEq for SamplerDesc {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SamplerDesc {}

impl Hash for SamplerDesc {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_equal_to_itself_whatever_its_numbers() {
        let desc = SamplerDesc { lod_bias: f32::NAN, ..SamplerDesc::default() };
        assert_eq!(desc, desc);
        assert!(!desc.is_valid());
        assert_eq!(SamplerDesc { lod_bias: -0.0, ..SamplerDesc::default() }, SamplerDesc::default());
    }

    #[test]
    fn numbers_out_of_range_are_not_valid() {
        let valid = SamplerDesc::default();
        assert!(valid.is_valid());
        for (wrong, what) in [
            (SamplerDesc { lod_bias: 16.0, ..valid }, "bias"),
            (SamplerDesc { min_lod: -1.0, ..valid }, "least level"),
            (SamplerDesc { min_lod: 2.0, max_lod: 1.0, ..valid }, "levels"),
            (SamplerDesc { max_lod: f32::INFINITY, ..valid }, "largest level"),
            (SamplerDesc { max_anisotropy: 0, ..valid }, "none"),
            (SamplerDesc { max_anisotropy: 17, ..valid }, "too many"),
        ] {
            assert!(!wrong.is_valid(), "{what}");
        }
    }
}
