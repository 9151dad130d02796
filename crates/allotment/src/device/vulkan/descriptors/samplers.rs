//! Samplers: driver objects, of which a device supports a few thousand.

use ash::vk;

use super::super::{EnabledFeatures, refused};
use crate::device::{
    AddressMode, BorderColor, Compare, DescriptionError, DescriptionLimit, DeviceError, Filter, SamplerDesc,
};

/// A sampler that the device created.
#[derive(Debug, PartialEq, Eq)]
pub struct Sampler(pub(super) vk::Sampler);

impl Sampler {
    /// Returns the Vulkan handle. It belongs to this sampler: do not destroy it.
    #[must_use]
    pub fn handle(&self) -> vk::Sampler {
        self.0
    }
}

/// The limits of samplers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplerLimits {
    max_lod_bias: f32,
    /// 1 if the feature is not enabled.
    max_anisotropy: f32,
}

impl SamplerLimits {
    pub(super) fn new(limits: &vk::PhysicalDeviceLimits, enabled: EnabledFeatures) -> Self {
        let anisotropy = enabled.contains(EnabledFeatures::SAMPLER_ANISOTROPY);
        Self {
            max_lod_bias: limits.max_sampler_lod_bias,
            // Without the feature `anisotropyEnable` must be false (VUID 01070).
            max_anisotropy: if anisotropy { limits.max_sampler_anisotropy } else { 1.0 },
        }
    }

    /// Creates a sampler, which the caller has to destroy.
    pub(super) fn create(self, raw: &ash::Device, desc: &SamplerDesc) -> Result<vk::Sampler, DeviceError> {
        // Drivers need not check these numbers: a bias above the limit is undefined behaviour (VUID 01069).
        desc.check().map_err(DescriptionError::Sampler)?;
        DescriptionLimit::SamplerAnisotropy.check(desc.max_anisotropy.into(), self.max_anisotropy as u64)?;
        // In whole levels the limit is rounded down and the bias up, so what is above the limit stays above it.
        if desc.lod_bias.abs() > self.max_lod_bias {
            DescriptionLimit::SamplerLodBias
                .check(desc.lod_bias.abs().ceil() as u64, self.max_lod_bias.floor() as u64)?;
        }
        // SAFETY: the description is valid: its numbers were checked.
        unsafe { raw.create_sampler(&info(desc), None) }.map_err(refused)
    }
}

fn info(desc: &SamplerDesc) -> vk::SamplerCreateInfo<'static> {
    let filter = |filter| match filter {
        Filter::Nearest => vk::Filter::NEAREST,
        Filter::Linear => vk::Filter::LINEAR,
    };
    let [u, v, w] = desc.address.map(|mode| match mode {
        AddressMode::Repeat => vk::SamplerAddressMode::REPEAT,
        AddressMode::MirroredRepeat => vk::SamplerAddressMode::MIRRORED_REPEAT,
        AddressMode::ClampToEdge => vk::SamplerAddressMode::CLAMP_TO_EDGE,
        AddressMode::ClampToBorder => vk::SamplerAddressMode::CLAMP_TO_BORDER,
    });
    vk::SamplerCreateInfo::default()
        .mag_filter(filter(desc.mag_filter))
        .min_filter(filter(desc.min_filter))
        .mipmap_mode(match desc.mip_filter {
            Filter::Nearest => vk::SamplerMipmapMode::NEAREST,
            Filter::Linear => vk::SamplerMipmapMode::LINEAR,
        })
        .address_mode_u(u)
        .address_mode_v(v)
        .address_mode_w(w)
        .mip_lod_bias(desc.lod_bias)
        .anisotropy_enable(desc.max_anisotropy > 1)
        .max_anisotropy(f32::from(desc.max_anisotropy))
        .compare_enable(desc.compare.is_some())
        .compare_op(desc.compare.map_or(vk::CompareOp::NEVER, compare))
        .min_lod(desc.min_lod)
        .max_lod(desc.max_lod)
        // Float colors: the description does not name the format of the images, and integer formats are the rare
        // case.
        .border_color(match desc.border {
            BorderColor::TransparentBlack => vk::BorderColor::FLOAT_TRANSPARENT_BLACK,
            BorderColor::OpaqueBlack => vk::BorderColor::FLOAT_OPAQUE_BLACK,
            BorderColor::OpaqueWhite => vk::BorderColor::FLOAT_OPAQUE_WHITE,
        })
}

fn compare(compare: Compare) -> vk::CompareOp {
    match compare {
        Compare::Never => vk::CompareOp::NEVER,
        Compare::Less => vk::CompareOp::LESS,
        Compare::Equal => vk::CompareOp::EQUAL,
        Compare::LessOrEqual => vk::CompareOp::LESS_OR_EQUAL,
        Compare::Greater => vk::CompareOp::GREATER,
        Compare::NotEqual => vk::CompareOp::NOT_EQUAL,
        Compare::GreaterOrEqual => vk::CompareOp::GREATER_OR_EQUAL,
        Compare::Always => vk::CompareOp::ALWAYS,
    }
}
