//! How the texels of each format lie in a buffer.

use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::images::{has_planes, is_compressed};
use crate::device::{TexelBlock, TexelLayout};

/// Returns how the texels of a format lie in a buffer.
pub(super) fn texel_layout(format: DXGI_FORMAT) -> TexelLayout {
    let texel = |bytes| TexelBlock::new(bytes).into();
    let block = |bytes| TexelBlock { bytes, width: 4, height: 4 }.into();
    match format.0 {
        1..=4 => texel(16),
        5..=8 => texel(12),
        9..=18 => texel(8),
        // `D32_FLOAT_S8X24`, `D32_FLOAT`, `D24_UNORM_S8` and `D16_UNORM`, and what they are seen as in two planes.
        19..=22 | 40 | 44..=47 | 55 => TexelLayout::Other,
        23..=39 | 41..=43 | 67 | 87..=93 => texel(4),
        48..=54 | 56..=59 | 85..=86 | 115 => texel(2),
        60..=65 => texel(1),
        // Two texels in one block.
        68..=69 => TexelBlock { bytes: 4, width: 2, height: 1 }.into(),
        // BC1 and BC4.
        70..=72 | 79..=81 => block(8),
        _ if is_compressed(format) => block(16),
        _ if has_planes(format) => TexelLayout::Other,
        _ => TexelLayout::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use windows::Win32::Graphics::Dxgi::Common::*;

    use super::*;

    #[test]
    fn formats_lie_in_a_buffer_as_their_names_tell() {
        let of = |bytes| TexelLayout::Color(TexelBlock::new(bytes));
        let block = |bytes| TexelLayout::Color(TexelBlock { bytes, width: 4, height: 4 });
        let cases = [
            (DXGI_FORMAT_R32G32B32A32_SINT, of(16)),
            (DXGI_FORMAT_R32G32B32_FLOAT, of(12)),
            (DXGI_FORMAT_R16G16B16A16_FLOAT, of(8)),
            (DXGI_FORMAT_R32G32_SINT, of(8)),
            (DXGI_FORMAT_R32G8X24_TYPELESS, TexelLayout::Other),
            (DXGI_FORMAT_X32_TYPELESS_G8X24_UINT, TexelLayout::Other),
            (DXGI_FORMAT_R10G10B10A2_TYPELESS, of(4)),
            (DXGI_FORMAT_R8G8B8A8_UNORM, of(4)),
            (DXGI_FORMAT_R16G16_SINT, of(4)),
            (DXGI_FORMAT_D32_FLOAT, TexelLayout::Other),
            (DXGI_FORMAT_R32_SINT, of(4)),
            (DXGI_FORMAT_D24_UNORM_S8_UINT, TexelLayout::Other),
            (DXGI_FORMAT_R8G8_TYPELESS, of(2)),
            (DXGI_FORMAT_R16_FLOAT, of(2)),
            (DXGI_FORMAT_D16_UNORM, TexelLayout::Other),
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
            (DXGI_FORMAT_NV12, TexelLayout::Other),
            (DXGI_FORMAT_B4G4R4A4_UNORM, of(2)),
            (DXGI_FORMAT_UNKNOWN, TexelLayout::Unknown),
        ];
        for (format, layout) in cases {
            assert_eq!(texel_layout(format), layout, "{format:?}");
        }
    }
}
