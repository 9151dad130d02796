//! Samplers, described independently of the API.

use core::error::Error;
use core::fmt;
use core::hash::{Hash, Hasher};

/// How texels are filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The nearest texel is sampled.
    Nearest,
    /// The surrounding texels are interpolated.
    #[default]
    Linear,
}

/// How texture coordinates outside of an image are resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressMode {
    /// The image repeats.
    #[default]
    Repeat,
    /// The image repeats, mirrored every other time.
    MirroredRepeat,
    /// The texel at the edge is used.
    ClampToEdge,
    /// The border color is used.
    ClampToBorder,
}

/// The color outside of an image with [`AddressMode::ClampToBorder`].
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

/// How a reference value is compared with the sampled value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Never true.
    Never,
    /// The reference value is less.
    Less,
    /// Both are equal.
    Equal,
    /// The reference value is less or equal.
    LessOrEqual,
    /// The reference value is greater.
    Greater,
    /// They are not equal.
    NotEqual,
    /// The reference value is greater or equal.
    GreaterOrEqual,
    /// Always true.
    Always,
}

/// The description of a sampler. Equal descriptions can share one sampler.
///
/// ```
/// use allotment::device::{AddressMode, SamplerDesc};
///
/// let shadows = SamplerDesc { address: [AddressMode::ClampToEdge; 3], ..SamplerDesc::default() };
/// assert_ne!(shadows, SamplerDesc::default());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SamplerDesc {
    /// The filter for magnification.
    pub mag_filter: Filter,
    /// The filter for minification.
    pub min_filter: Filter,
    /// The filter between mip levels.
    pub mip_filter: Filter,
    /// The address modes in u, v and w.
    pub address: [AddressMode; 3],
    /// Added to the level of detail; from −16 to 15.99.
    pub lod_bias: f32,
    /// The minimum level of detail.
    pub min_lod: f32,
    /// The maximum level of detail.
    pub max_lod: f32,
    /// Maximum anisotropy: 1 for no anisotropic filtering, at most 16.
    pub max_anisotropy: u8,
    /// The comparison of sampled values with a reference value, for shadow maps.
    pub compare: Option<Compare>,
    /// The border color for [`AddressMode::ClampToBorder`].
    pub border: BorderColor,
}

impl Default for SamplerDesc {
    /// Returns a sampler with linear filtering, repeat addressing and all mip levels.
    fn default() -> Self {
        Self {
            mag_filter: Filter::default(),
            min_filter: Filter::default(),
            mip_filter: Filter::default(),
            address: [AddressMode::default(); 3],
            lod_bias: 0.0,
            min_lod: 0.0,
            // Above the levels of any image, like `VK_LOD_CLAMP_NONE`.
            max_lod: 1000.0,
            max_anisotropy: 1,
            compare: None,
            border: BorderColor::default(),
        }
    }
}

impl SamplerDesc {
    /// Returns true if all numbers are finite and in the ranges that their fields document.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.check().is_ok()
    }

    /// Checks that all numbers are finite and in the ranges that their fields document.
    ///
    /// # Errors
    ///
    /// [`SamplerError`], of the first number that is not.
    pub fn check(&self) -> Result<(), SamplerError> {
        let wrong = |number, value: f32| Err(SamplerError { number, bits: value.to_bits() });
        // The end is exclusive: 15.99 is the largest bias of Direct3D 12 (`D3D12_MIP_LOD_BIAS_MAX`). A NaN is in
        // no range.
        if !(-16.0..16.0).contains(&self.lod_bias) {
            return wrong(SamplerNumber::LodBias, self.lod_bias);
        }
        if !(0.0..=f32::INFINITY).contains(&self.min_lod) {
            return wrong(SamplerNumber::MinLod, self.min_lod);
        }
        // An infinite maximum is left to no driver.
        if !(self.min_lod..f32::INFINITY).contains(&self.max_lod) {
            return wrong(SamplerNumber::MaxLod, self.max_lod);
        }
        if !(1..=16).contains(&self.max_anisotropy) {
            return wrong(SamplerNumber::MaxAnisotropy, self.max_anisotropy.into());
        }
        Ok(())
    }

    /// Returns all fields in a form that can be compared and hashed. In few words, since a hash of each field would
    /// cost more than the rest of a look-up.
    pub(crate) fn key(&self) -> [u64; 3] {
        // As bits, since `f32` has neither `Eq` nor `Hash`.
        // Adding 0.0 turns −0.0 into 0.0, which samples alike and so must compare equal.
        let bits = |value: f32| u64::from((value + 0.0).to_bits());
        let [u, v, w] = self.address;
        let modes = [
            self.mag_filter as u8,
            self.min_filter as u8,
            self.mip_filter as u8,
            u as u8,
            v as u8,
            w as u8,
            self.max_anisotropy,
            self.compare.map_or(0, |compare| compare as u8 + 1),
        ];
        let levels = bits(self.lod_bias) << 32 | bits(self.min_lod);
        [u64::from_le_bytes(modes), levels, bits(self.max_lod) << 32 | self.border as u64]
    }
}

/// A number of a [`SamplerDesc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SamplerNumber {
    /// [`SamplerDesc::lod_bias`].
    LodBias,
    /// [`SamplerDesc::min_lod`].
    MinLod,
    /// [`SamplerDesc::max_lod`].
    MaxLod,
    /// [`SamplerDesc::max_anisotropy`].
    MaxAnisotropy,
}

/// A number of a [`SamplerDesc`] is out of its range, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SamplerError {
    /// Which number.
    pub number: SamplerNumber,
    /// As bits, since `f32` has neither `Eq` nor `Hash`.
    bits: u32,
}

impl SamplerError {
    /// Returns what the number was.
    #[must_use]
    pub const fn value(self) -> f32 {
        f32::from_bits(self.bits)
    }
}

impl fmt::Display for SamplerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, range) = match self.number {
            SamplerNumber::LodBias => ("lod_bias", "from -16 to 15.99"),
            SamplerNumber::MinLod => ("min_lod", "of at least 0"),
            SamplerNumber::MaxLod => ("max_lod", "of at least `min_lod` that is finite"),
            SamplerNumber::MaxAnisotropy => ("max_anisotropy", "from 1 to 16"),
        };
        write!(f, "`{name}` of the sampler is {}, choose a number {range}", self.value())
    }
}

impl Error for SamplerError {}

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
    fn descriptions_that_differ_in_one_field_are_not_equal() {
        let desc = SamplerDesc::default();
        let others = [
            SamplerDesc { mag_filter: Filter::Nearest, ..desc },
            SamplerDesc { min_filter: Filter::Nearest, ..desc },
            SamplerDesc { mip_filter: Filter::Nearest, ..desc },
            SamplerDesc { address: [AddressMode::ClampToEdge, desc.address[1], desc.address[2]], ..desc },
            SamplerDesc { address: [desc.address[0], AddressMode::ClampToEdge, desc.address[2]], ..desc },
            SamplerDesc { address: [desc.address[0], desc.address[1], AddressMode::ClampToEdge], ..desc },
            SamplerDesc { lod_bias: 1.0, ..desc },
            SamplerDesc { min_lod: 1.0, ..desc },
            SamplerDesc { max_lod: 1.0, ..desc },
            SamplerDesc { max_anisotropy: 16, ..desc },
            SamplerDesc { compare: Some(Compare::Never), ..desc },
            SamplerDesc { compare: Some(Compare::Less), ..desc },
            SamplerDesc { border: BorderColor::OpaqueWhite, ..desc },
            desc,
        ];
        for (at, one) in others.iter().enumerate() {
            assert_eq!(others.iter().position(|other| other == one), Some(at), "{one:?}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_named_with_its_value() {
        let valid = SamplerDesc::default();
        assert!(valid.is_valid());
        for (wrong, what) in [
            (SamplerDesc { lod_bias: 16.0, ..valid }, "`lod_bias` of the sampler is 16,"),
            (SamplerDesc { lod_bias: f32::NAN, ..valid }, "`lod_bias` of the sampler is NaN,"),
            (SamplerDesc { min_lod: -1.0, ..valid }, "`min_lod` of the sampler is -1,"),
            (SamplerDesc { min_lod: f32::NAN, ..valid }, "`min_lod` of the sampler is NaN,"),
            (SamplerDesc { min_lod: 2.0, max_lod: 1.0, ..valid }, "`max_lod` of the sampler is 1,"),
            (SamplerDesc { max_lod: f32::NAN, ..valid }, "`max_lod` of the sampler is NaN,"),
            (SamplerDesc { max_lod: f32::INFINITY, ..valid }, "`max_lod` of the sampler is inf,"),
            (SamplerDesc { max_anisotropy: 0, ..valid }, "`max_anisotropy` of the sampler is 0,"),
            (SamplerDesc { max_anisotropy: 17, ..valid }, "`max_anisotropy` of the sampler is 17,"),
        ] {
            let said = wrong.check().unwrap_err().to_string();
            assert!(said.starts_with(what) && !wrong.is_valid(), "{said}");
        }
    }
}
