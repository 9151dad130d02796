//! How the texels of each format lie in a buffer.

use windows::Win32::Graphics::Direct3D12::{D3D12_RESOURCE_DESC, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL};
use windows::Win32::Graphics::Dxgi::Common::*;

use super::images::is_compressed;
use crate::device::{ImageAspect, TexelBlock, TexelLayout, TexelPlane};

/// Returns how the texels of an image lie in a buffer.
pub(super) fn texel_layout(desc: &D3D12_RESOURCE_DESC) -> TexelLayout {
    // A typeless format is one of depth where the texture is a depth buffer.
    if desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL) {
        match desc.Format {
            DXGI_FORMAT_R32_TYPELESS => return depth_stencil(4, None),
            DXGI_FORMAT_R16_TYPELESS => return depth_stencil(2, None),
            _ => {}
        }
    }
    layout_of_format(desc.Format)
}

pub(super) fn layout_of_format(format: DXGI_FORMAT) -> TexelLayout {
    let texel = |bytes| TexelBlock::new(bytes).into();
    let block = |bytes, width, height| TexelBlock { bytes, width, height }.into();
    let luma_and_chroma = |bytes: u8, subsampling| {
        let luma = TexelPlane { bytes, subsampling: [1; 2] };
        TexelLayout::Planar([Some(luma), Some(TexelPlane { bytes: 2 * bytes, subsampling }), None])
    };
    let three_of_a_byte = |subsampling| {
        let plane = |subsampling| Some(TexelPlane { bytes: 1, subsampling });
        TexelLayout::Planar([plane([1; 2]), plane(subsampling), plane(subsampling)])
    };
    match format.0 {
        1..=4 => texel(16),
        5..=8 => texel(12),
        9..=18 => texel(8),
        // `D32_FLOAT_S8X24` and `D24_UNORM_S8`, and what they are seen as in two planes. In a buffer the 24 bits of a depth
        // have 32.
        19..=22 | 44..=47 => depth_stencil(4, Some(1)),
        // `D32_FLOAT` and `D16_UNORM`.
        40 => depth_stencil(4, None),
        55 => depth_stencil(2, None),
        23..=39 | 41..=43 | 67 | 87..=93 | 100..=101 => texel(4),
        48..=54 | 56..=59 | 85..=86 | 114..=115 => texel(2),
        60..=65 | 111..=113 => texel(1),
        102 => texel(8),
        // Two texels in one block: `R8G8_B8G8`, `G8R8_G8B8` and `YUY2`, then `Y210` and `Y216`.
        68..=69 | 107 => block(4, 2, 1),
        108..=109 => block(8, 2, 1),
        // BC1 and BC4, then the other compressed formats.
        70..=72 | 79..=81 => block(8, 4, 4),
        _ if is_compressed(format) => block(16, 4, 4),
        // `NV12`, `P010` and `P016`, `NV11` and `P208`.
        103 => luma_and_chroma(1, [2, 2]),
        104..=105 => luma_and_chroma(2, [2, 2]),
        110 => luma_and_chroma(1, [4, 1]),
        130 => luma_and_chroma(1, [2, 1]),
        // `V208` and `V408`.
        131 => three_of_a_byte([1, 2]),
        132 => three_of_a_byte([1, 1]),
        // `420_OPAQUE`, whose layout only the driver knows.
        106 => TexelLayout::Planar([None; 3]),
        _ => TexelLayout::Unknown,
    }
}

fn depth_stencil(depth: u32, stencil: Option<u32>) -> TexelLayout {
    TexelLayout::DepthStencil { depth: Some(TexelBlock::new(depth)), stencil: stencil.map(TexelBlock::new) }
}

/// Returns the typeless format of a format's family, with which views can have any format of the family; `None` for formats
/// without one.
pub(super) fn typeless(format: DXGI_FORMAT) -> Option<DXGI_FORMAT> {
    Some(match format.0 {
        1..=4 => DXGI_FORMAT_R32G32B32A32_TYPELESS,
        5..=8 => DXGI_FORMAT_R32G32B32_TYPELESS,
        9..=14 => DXGI_FORMAT_R16G16B16A16_TYPELESS,
        15..=18 => DXGI_FORMAT_R32G32_TYPELESS,
        19..=22 => DXGI_FORMAT_R32G8X24_TYPELESS,
        23..=25 => DXGI_FORMAT_R10G10B10A2_TYPELESS,
        27..=32 => DXGI_FORMAT_R8G8B8A8_TYPELESS,
        33..=38 => DXGI_FORMAT_R16G16_TYPELESS,
        39..=43 => DXGI_FORMAT_R32_TYPELESS,
        44..=47 => DXGI_FORMAT_R24G8_TYPELESS,
        48..=52 => DXGI_FORMAT_R8G8_TYPELESS,
        53..=59 => DXGI_FORMAT_R16_TYPELESS,
        60..=64 => DXGI_FORMAT_R8_TYPELESS,
        70..=72 => DXGI_FORMAT_BC1_TYPELESS,
        73..=75 => DXGI_FORMAT_BC2_TYPELESS,
        76..=78 => DXGI_FORMAT_BC3_TYPELESS,
        79..=81 => DXGI_FORMAT_BC4_TYPELESS,
        82..=84 => DXGI_FORMAT_BC5_TYPELESS,
        87 | 90..=91 => DXGI_FORMAT_B8G8R8A8_TYPELESS,
        88 | 92..=93 => DXGI_FORMAT_B8G8R8X8_TYPELESS,
        94..=96 => DXGI_FORMAT_BC6H_TYPELESS,
        97..=99 => DXGI_FORMAT_BC7_TYPELESS,
        _ => return None,
    })
}

/// Returns the plane slice of an aspect.
pub(super) const fn plane_slice(aspect: ImageAspect) -> u32 {
    match aspect {
        ImageAspect::Color | ImageAspect::Depth | ImageAspect::Plane0 => 0,
        ImageAspect::Stencil | ImageAspect::Plane1 => 1,
        ImageAspect::Plane2 => 2,
    }
}

/// Returns the number of plane slices of an image, each of which is a subresource for itself.
pub(super) fn plane_slices(texels: &TexelLayout) -> u32 {
    // No image has stencil alone, so the last aspect has the last slice.
    texels.aspects().map(plane_slice).max().map_or(1, |last| last + 1)
}

/// Returns the format of an aspect's footprints in a buffer, as `GetCopyableFootprints` does.
pub(super) fn footprint_format(format: DXGI_FORMAT, aspect: ImageAspect, texel: TexelBlock) -> DXGI_FORMAT {
    match (aspect, texel.bytes) {
        (ImageAspect::Color, _) => format,
        (ImageAspect::Depth, 2) => DXGI_FORMAT_R16_TYPELESS,
        (ImageAspect::Depth, _) => DXGI_FORMAT_R32_TYPELESS,
        (ImageAspect::Stencil, _) | (_, 1) => DXGI_FORMAT_R8_TYPELESS,
        (ImageAspect::Plane0, _) => DXGI_FORMAT_R16_TYPELESS,
        // Both channels of chroma.
        (_, 2) => DXGI_FORMAT_R8G8_TYPELESS,
        _ => DXGI_FORMAT_R16G16_TYPELESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_lie_in_a_buffer_as_their_names_tell() {
        let of = |bytes| TexelLayout::Color(TexelBlock::new(bytes));
        let block = |bytes| TexelLayout::Color(TexelBlock { bytes, width: 4, height: 4 });
        let plane = |bytes, subsampling| Some(TexelPlane { bytes, subsampling });
        let planar = TexelLayout::Planar;
        let cases = [
            (DXGI_FORMAT_R32G32B32A32_SINT, of(16)),
            (DXGI_FORMAT_R32G32B32_FLOAT, of(12)),
            (DXGI_FORMAT_R16G16B16A16_FLOAT, of(8)),
            (DXGI_FORMAT_R32G32_SINT, of(8)),
            (DXGI_FORMAT_R32G8X24_TYPELESS, depth_stencil(4, Some(1))),
            (DXGI_FORMAT_X32_TYPELESS_G8X24_UINT, depth_stencil(4, Some(1))),
            (DXGI_FORMAT_R10G10B10A2_TYPELESS, of(4)),
            (DXGI_FORMAT_R8G8B8A8_UNORM, of(4)),
            (DXGI_FORMAT_R16G16_SINT, of(4)),
            (DXGI_FORMAT_D32_FLOAT, depth_stencil(4, None)),
            (DXGI_FORMAT_R32_SINT, of(4)),
            (DXGI_FORMAT_D24_UNORM_S8_UINT, depth_stencil(4, Some(1))),
            (DXGI_FORMAT_R8G8_TYPELESS, of(2)),
            (DXGI_FORMAT_R16_FLOAT, of(2)),
            (DXGI_FORMAT_D16_UNORM, depth_stencil(2, None)),
            (DXGI_FORMAT_R16_SINT, of(2)),
            (DXGI_FORMAT_R8_TYPELESS, of(1)),
            (DXGI_FORMAT_A8_UNORM, of(1)),
            (DXGI_FORMAT_R9G9B9E5_SHAREDEXP, of(4)),
            (DXGI_FORMAT_BC1_TYPELESS, block(8)),
            (DXGI_FORMAT_BC2_UNORM, block(16)),
            (DXGI_FORMAT_BC3_UNORM_SRGB, block(16)),
            (DXGI_FORMAT_BC4_SNORM, block(8)),
            (DXGI_FORMAT_BC5_TYPELESS, block(16)),
            (DXGI_FORMAT_B5G6R5_UNORM, of(2)),
            (DXGI_FORMAT_B8G8R8X8_UNORM_SRGB, of(4)),
            (DXGI_FORMAT_BC6H_TYPELESS, block(16)),
            (DXGI_FORMAT_BC7_UNORM_SRGB, block(16)),
            (DXGI_FORMAT_NV12, planar([plane(1, [1, 1]), plane(2, [2, 2]), None])),
            (DXGI_FORMAT_P010, planar([plane(2, [1, 1]), plane(4, [2, 2]), None])),
            (DXGI_FORMAT_NV11, planar([plane(1, [1, 1]), plane(2, [4, 1]), None])),
            (DXGI_FORMAT_P208, planar([plane(1, [1, 1]), plane(2, [2, 1]), None])),
            (DXGI_FORMAT_V208, planar([plane(1, [1, 1]), plane(1, [1, 2]), plane(1, [1, 2])])),
            (DXGI_FORMAT_V408, planar([plane(1, [1, 1]); 3])),
            (DXGI_FORMAT_420_OPAQUE, planar([None; 3])),
            (DXGI_FORMAT_YUY2, TexelLayout::Color(TexelBlock { bytes: 4, width: 2, height: 1 })),
            (DXGI_FORMAT_Y210, TexelLayout::Color(TexelBlock { bytes: 8, width: 2, height: 1 })),
            (DXGI_FORMAT_AYUV, of(4)),
            (DXGI_FORMAT_Y416, of(8)),
            (DXGI_FORMAT_B4G4R4A4_UNORM, of(2)),
            (DXGI_FORMAT_UNKNOWN, TexelLayout::Unknown),
        ];
        for (format, layout) in cases {
            let desc = D3D12_RESOURCE_DESC { Format: format, ..Default::default() };
            assert_eq!(texel_layout(&desc), layout, "{format:?}");
        }
    }

    #[test]
    fn a_family_has_the_channels_of_its_formats() {
        let of = |format| typeless(format).map(|family| family.0);
        assert_eq!(of(DXGI_FORMAT_R8G8B8A8_UNORM_SRGB), of(DXGI_FORMAT_R8G8B8A8_UINT));
        assert_eq!(of(DXGI_FORMAT_D32_FLOAT), of(DXGI_FORMAT_R32_FLOAT));
        assert_eq!(of(DXGI_FORMAT_D16_UNORM), of(DXGI_FORMAT_R16_UNORM));
        assert_eq!(of(DXGI_FORMAT_D24_UNORM_S8_UINT), of(DXGI_FORMAT_X24_TYPELESS_G8_UINT));
        assert_eq!(of(DXGI_FORMAT_B8G8R8A8_UNORM), of(DXGI_FORMAT_B8G8R8A8_UNORM_SRGB));
        assert_ne!(of(DXGI_FORMAT_R8G8B8A8_UNORM), of(DXGI_FORMAT_B8G8R8A8_UNORM));
        for format in
            [DXGI_FORMAT_R11G11B10_FLOAT, DXGI_FORMAT_A8_UNORM, DXGI_FORMAT_NV12, DXGI_FORMAT_UNKNOWN]
        {
            assert_eq!(of(format), None, "{format:?}");
        }
        // A family has one size.
        for format in (1..=99).map(DXGI_FORMAT) {
            if let Some(family) = typeless(format) {
                let bytes = |format| {
                    layout_of_format(format)
                        .aspects()
                        .next()
                        .map(|aspect| layout_of_format(format).block(aspect).map(|block| block.bytes))
                };
                assert_eq!(bytes(format), bytes(family), "{format:?}");
            }
        }
    }

    #[test]
    fn a_typeless_format_has_depth_in_a_depth_buffer() {
        for (format, bytes) in [(DXGI_FORMAT_R32_TYPELESS, 4), (DXGI_FORMAT_R16_TYPELESS, 2)] {
            let plain = D3D12_RESOURCE_DESC { Format: format, ..Default::default() };
            let depth = D3D12_RESOURCE_DESC { Flags: D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL, ..plain };
            assert_eq!(texel_layout(&plain), TexelBlock::new(bytes).into());
            assert_eq!(texel_layout(&depth), depth_stencil(bytes, None));
        }
    }

    #[test]
    fn footprints_have_the_formats_that_the_runtime_gives_them() {
        use ImageAspect::{Color, Depth, Plane0, Plane1, Plane2, Stencil};
        for (format, slices, aspects) in [
            (DXGI_FORMAT_R8G8B8A8_UNORM, 1, vec![(Color, DXGI_FORMAT_R8G8B8A8_UNORM)]),
            (DXGI_FORMAT_D16_UNORM, 1, vec![(Depth, DXGI_FORMAT_R16_TYPELESS)]),
            (
                DXGI_FORMAT_D24_UNORM_S8_UINT,
                2,
                vec![(Depth, DXGI_FORMAT_R32_TYPELESS), (Stencil, DXGI_FORMAT_R8_TYPELESS)],
            ),
            (
                DXGI_FORMAT_NV12,
                2,
                vec![(Plane0, DXGI_FORMAT_R8_TYPELESS), (Plane1, DXGI_FORMAT_R8G8_TYPELESS)],
            ),
            (
                DXGI_FORMAT_P010,
                2,
                vec![(Plane0, DXGI_FORMAT_R16_TYPELESS), (Plane1, DXGI_FORMAT_R16G16_TYPELESS)],
            ),
            (DXGI_FORMAT_V408, 3, [Plane0, Plane1, Plane2].map(|it| (it, DXGI_FORMAT_R8_TYPELESS)).into()),
        ] {
            let texels = layout_of_format(format);
            assert_eq!(plane_slices(&texels), slices, "{format:?}");
            assert!(texels.aspects().eq(aspects.iter().map(|(aspect, _)| *aspect)), "{format:?}");
            for (aspect, footprint) in aspects {
                let texel = texels.block(aspect).unwrap();
                assert_eq!(footprint_format(format, aspect, texel), footprint, "{format:?}, {aspect}");
            }
        }
    }
}
