//! Samplers, converted to Direct3D's structures.

use windows::Win32::Graphics::Direct3D12::*;

use super::Descriptor;
use crate::device::{
    AddressMode, BorderColor, Compare, DescriptionError, DescriptionLimit, DeviceError, Filter, SamplerDesc,
};

/// A sampler: not an object of the runtime, but a description for descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// A description that `CreateSampler` accepts.
    raw: D3D12_SAMPLER_DESC,
}

impl Sampler {
    /// Creates a sampler. `nearest_mip`: whether anisotropic filters can use the nearest mip level.
    pub(super) fn new(desc: &SamplerDesc, nearest_mip: bool) -> Result<Self, DeviceError> {
        let anisotropic = desc.max_anisotropy > 1;
        // The nearest mip level needs `AnisoFilterWithPointMipSupported` of options 19.
        let possible = !anisotropic || desc.mip_filter == Filter::Linear || nearest_mip;
        desc.check().map_err(DescriptionError::Sampler)?;
        if !possible {
            return Err(DeviceError::Unsupported);
        }
        Ok(Self { raw: describe(desc) })
    }

    /// Returns the description, which can also be used for static samplers of a root signature.
    #[must_use]
    pub fn raw(&self) -> &D3D12_SAMPLER_DESC {
        &self.raw
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        // SAFETY: the description was checked when the sampler was created.
        unsafe { Descriptor::sampler(self.raw) }
    }
}

/// The number of static samplers that a root signature can have at most: those of all samplers but the 16 of the runtime.
const MOST_STATIC: u64 = 2032;

/// The static samplers of a root signature: descriptions, since the runtime makes no objects of them.
#[derive(Clone, Debug)]
pub struct StaticSamplers {
    samplers: Box<[(Sampler, BorderColor)]>,
}

impl StaticSamplers {
    pub(super) fn new(descs: &[SamplerDesc], nearest_mip: bool) -> Result<Self, DeviceError> {
        DescriptionLimit::StaticSamplers.check(descs.len() as u64, MOST_STATIC)?;
        let of = |desc: &SamplerDesc| Ok((Sampler::new(desc, nearest_mip)?, desc.border));
        Ok(Self { samplers: descs.iter().map(of).collect::<Result<_, DeviceError>>()? })
    }

    /// Returns the descriptions for a root signature (`D3D12_ROOT_SIGNATURE_DESC::pStaticSamplers`): registers `s0`, `s1` and
    /// so on of a register space, for all stages.
    #[must_use]
    pub fn descs(&self, space: u32) -> Vec<D3D12_STATIC_SAMPLER_DESC> {
        let desc = |(register, (sampler, border)): (u32, &(Sampler, BorderColor))| {
            let raw = sampler.raw();
            D3D12_STATIC_SAMPLER_DESC {
                Filter: raw.Filter,
                AddressU: raw.AddressU,
                AddressV: raw.AddressV,
                AddressW: raw.AddressW,
                MipLODBias: raw.MipLODBias,
                MaxAnisotropy: raw.MaxAnisotropy,
                ComparisonFunc: raw.ComparisonFunc,
                BorderColor: match border {
                    BorderColor::TransparentBlack => D3D12_STATIC_BORDER_COLOR_TRANSPARENT_BLACK,
                    BorderColor::OpaqueBlack => D3D12_STATIC_BORDER_COLOR_OPAQUE_BLACK,
                    BorderColor::OpaqueWhite => D3D12_STATIC_BORDER_COLOR_OPAQUE_WHITE,
                },
                MinLOD: raw.MinLOD,
                MaxLOD: raw.MaxLOD,
                ShaderRegister: register,
                RegisterSpace: space,
                ShaderVisibility: D3D12_SHADER_VISIBILITY_ALL,
            }
        };
        (0..).zip(&*self.samplers).map(desc).collect()
    }
}

/// Returns the default sampler.
pub(super) fn default() -> D3D12_SAMPLER_DESC {
    describe(&SamplerDesc::default())
}

fn describe(desc: &SamplerDesc) -> D3D12_SAMPLER_DESC {
    let [u, v, w] = desc.address.map(address);
    D3D12_SAMPLER_DESC {
        Filter: filter(desc),
        AddressU: u,
        AddressV: v,
        AddressW: w,
        MipLODBias: desc.lod_bias,
        MaxAnisotropy: desc.max_anisotropy.into(),
        // Ignored without comparison; older runtimes do not know `…_NONE`.
        ComparisonFunc: desc.compare.map_or(D3D12_COMPARISON_FUNC_NEVER, comparison),
        // Colors have four channels here; the three that Vulkan knows are the portable ones.
        BorderColor: match desc.border {
            BorderColor::TransparentBlack => [0.0; 4],
            BorderColor::OpaqueBlack => [0.0, 0.0, 0.0, 1.0],
            BorderColor::OpaqueWhite => [1.0; 4],
        },
        MinLOD: desc.min_lod,
        MaxLOD: desc.max_lod,
    }
}

/// Returns the bits of a filter, as `D3D12_ENCODE_BASIC_FILTER` and `D3D12_ENCODE_ANISOTROPIC_FILTER` in
/// `d3d12.h` do.
fn filter(desc: &SamplerDesc) -> D3D12_FILTER {
    let anisotropic = desc.max_anisotropy > 1;
    let bit = |filter, shift: u32| i32::from(filter == Filter::Linear) << shift;
    // The anisotropic filter bits require linear minification and magnification.
    let in_image = |filter| if anisotropic { Filter::Linear } else { filter };
    let compares = i32::from(desc.compare.is_some()) * D3D12_FILTER_REDUCTION_TYPE_COMPARISON.0;
    D3D12_FILTER(
        bit(in_image(desc.min_filter), D3D12_MIN_FILTER_SHIFT)
            | bit(in_image(desc.mag_filter), D3D12_MAG_FILTER_SHIFT)
            | bit(desc.mip_filter, D3D12_MIP_FILTER_SHIFT)
            | (compares << D3D12_FILTER_REDUCTION_TYPE_SHIFT)
            | (i32::from(anisotropic) * D3D12_ANISOTROPIC_FILTERING_BIT as i32),
    )
}

fn address(mode: AddressMode) -> D3D12_TEXTURE_ADDRESS_MODE {
    match mode {
        AddressMode::Repeat => D3D12_TEXTURE_ADDRESS_MODE_WRAP,
        AddressMode::MirroredRepeat => D3D12_TEXTURE_ADDRESS_MODE_MIRROR,
        AddressMode::ClampToEdge => D3D12_TEXTURE_ADDRESS_MODE_CLAMP,
        AddressMode::ClampToBorder => D3D12_TEXTURE_ADDRESS_MODE_BORDER,
    }
}

fn comparison(compare: Compare) -> D3D12_COMPARISON_FUNC {
    match compare {
        Compare::Never => D3D12_COMPARISON_FUNC_NEVER,
        Compare::Less => D3D12_COMPARISON_FUNC_LESS,
        Compare::Equal => D3D12_COMPARISON_FUNC_EQUAL,
        Compare::LessOrEqual => D3D12_COMPARISON_FUNC_LESS_EQUAL,
        Compare::Greater => D3D12_COMPARISON_FUNC_GREATER,
        Compare::NotEqual => D3D12_COMPARISON_FUNC_NOT_EQUAL,
        Compare::GreaterOrEqual => D3D12_COMPARISON_FUNC_GREATER_EQUAL,
        Compare::Always => D3D12_COMPARISON_FUNC_ALWAYS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Filter; 2] = [Filter::Nearest, Filter::Linear];

    #[test]
    fn filters_are_those_that_their_names_say() {
        let desc = SamplerDesc::default();
        let shadows = SamplerDesc { compare: Some(Compare::Less), ..desc };
        let [nearest, linear] = BOTH;
        for (desc, expected) in [
            (desc, D3D12_FILTER_MIN_MAG_MIP_LINEAR),
            (SamplerDesc { mip_filter: nearest, ..desc }, D3D12_FILTER_MIN_MAG_LINEAR_MIP_POINT),
            (SamplerDesc { mag_filter: nearest, ..desc }, D3D12_FILTER_MIN_LINEAR_MAG_POINT_MIP_LINEAR),
            (SamplerDesc { min_filter: nearest, ..desc }, D3D12_FILTER_MIN_POINT_MAG_MIP_LINEAR),
            (SamplerDesc { max_anisotropy: 2, ..desc }, D3D12_FILTER_ANISOTROPIC),
            (SamplerDesc { max_anisotropy: 16, min_filter: nearest, ..desc }, D3D12_FILTER_ANISOTROPIC),
            (
                SamplerDesc { max_anisotropy: 16, mip_filter: nearest, ..desc },
                D3D12_FILTER_MIN_MAG_ANISOTROPIC_MIP_POINT,
            ),
            (SamplerDesc { mip_filter: linear, ..shadows }, D3D12_FILTER_COMPARISON_MIN_MAG_MIP_LINEAR),
            (
                SamplerDesc { mip_filter: nearest, min_filter: nearest, mag_filter: nearest, ..shadows },
                D3D12_FILTER_COMPARISON_MIN_MAG_MIP_POINT,
            ),
            (SamplerDesc { max_anisotropy: 4, ..shadows }, D3D12_FILTER_COMPARISON_ANISOTROPIC),
        ] {
            assert_eq!(filter(&desc), expected, "{desc:?}");
        }
    }

    #[test]
    fn static_samplers_have_the_registers_of_their_places() {
        let white = SamplerDesc { border: BorderColor::OpaqueWhite, ..SamplerDesc::default() };
        let descs = StaticSamplers::new(&[SamplerDesc::default(), white], false).unwrap().descs(3);
        let found: Vec<_> = descs.iter().map(|it| (it.ShaderRegister, it.RegisterSpace)).collect();
        assert_eq!(found, [(0, 3), (1, 3)]);
        assert_eq!(descs[1].BorderColor, D3D12_STATIC_BORDER_COLOR_OPAQUE_WHITE);
        assert!(StaticSamplers::new(&[white; 2033], false).is_err());
    }

    #[test]
    fn what_is_not_valid_or_cannot_be_had_is_refused() {
        let anisotropic = SamplerDesc { max_anisotropy: 8, ..SamplerDesc::default() };
        let nearest = SamplerDesc { mip_filter: Filter::Nearest, ..anisotropic };
        let refused = |desc, nearest_mip| Sampler::new(&desc, nearest_mip).is_err();
        assert!(!refused(anisotropic, false));
        assert!(refused(nearest, false));
        assert!(!refused(nearest, true));
        assert!(refused(SamplerDesc { max_lod: f32::NAN, ..anisotropic }, true));
    }
}
