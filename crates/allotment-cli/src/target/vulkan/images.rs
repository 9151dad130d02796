//! Recorded images as Vulkan wants them.

use allotment::device::ImageDesc;
use allotment_trace::ImageShape;
use ash::vk;

/// Texels from which on a single image without mip levels is taken for something that is drawn to. Smaller
/// ones are mostly placeholders and lookup tables.
const DRAWN_TO: u64 = 128 * 128;

/// Numbers of formats: those of the core, and of the extensions that later versions took up.
const FORMATS: [core::ops::RangeInclusive<i32>; 4] = [
    1..=184,
    // VK_EXT_texture_compression_astc_hdr
    1_000_066_000..=1_000_066_013,
    // VK_KHR_sampler_ycbcr_conversion
    1_000_156_000..=1_000_156_033,
    // VK_EXT_4444_formats
    1_000_340_000..=1_000_340_001,
];

/// The ways in which an image of this shape may have been used, the likeliest first. Empty where the format
/// is not known.
pub(super) fn likely_uses(shape: &ImageShape<'_>) -> Vec<ImageDesc> {
    let Some(format) = format_named(shape.format) else { return Vec::new() };
    let mut desc = ImageDesc::new(shape.extent[0], shape.extent[1], format.as_raw().cast_unsigned());
    desc.extent = shape.extent;
    desc.mip_levels = shape.mip_levels;
    desc.array_layers = shape.array_layers;
    // The device adds "copied from and to, and sampled".
    let sampled = desc;
    let attachment = if is_depth(format) {
        vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT
    } else if is_drawn_to(shape) {
        vk::ImageUsageFlags::COLOR_ATTACHMENT
    } else {
        return vec![sampled];
    };
    desc.usage = attachment.as_raw().into();
    vec![desc, sampled]
}

/// The format of a name such as `VK_FORMAT_R8_UNORM`.
fn format_named(name: &str) -> Option<vk::Format> {
    let name = name.strip_prefix("VK_FORMAT_")?;
    let mut formats = FORMATS.into_iter().flatten().map(vk::Format::from_raw);
    // Some letters of ASTC formats are smaller in the specification than they are there.
    formats.find(|format| format!("{format:?}").eq_ignore_ascii_case(name))
}

fn is_depth(format: vk::Format) -> bool {
    (vk::Format::D16_UNORM..=vk::Format::D32_SFLOAT_S8_UINT).contains(&format)
}

fn is_drawn_to(shape: &ImageShape<'_>) -> bool {
    let texels: u64 = shape.extent.into_iter().map(u64::from).product();
    let compressed = shape.format.contains("BLOCK") || shape.format.contains("PLANE");
    shape.mip_levels == 1 && shape.extent[2] == 1 && texels >= DRAWN_TO && !compressed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(name: &str) -> Vec<ImageDesc> {
        likely_uses(&ImageShape::parse(name).unwrap())
    }

    #[test]
    fn formats_have_the_numbers_of_the_specification() {
        for (name, number) in [
            ("VK_FORMAT_R8_UNORM", 9),
            ("VK_FORMAT_D32_SFLOAT", 126),
            ("VK_FORMAT_BC3_UNORM_BLOCK", 137),
            ("VK_FORMAT_ASTC_12x12_SRGB_BLOCK", 184),
            ("VK_FORMAT_G8_B8R8_2PLANE_420_UNORM", 1_000_156_003),
        ] {
            assert_eq!(format_named(name).map(vk::Format::as_raw), Some(number), "{name}");
        }
        assert_eq!(format_named("VK_FORMAT_R8_UNORMAL"), None);
        assert_eq!(format_named("DXGI_FORMAT_R8_UNORM"), None);
    }

    #[test]
    fn textures_are_sampled_and_nothing_else() {
        let texture = uses("VK_FORMAT_BC3_UNORM_BLOCK 1024x512x1 mips=11 layers=6");
        assert_eq!(texture.len(), 1);
        let ImageDesc { extent, mip_levels, array_layers, format, usage, .. } = texture[0];
        assert_eq!((extent, mip_levels, array_layers, format, usage), ([1024, 512, 1], 11, 6, 137, 0));
        assert_eq!(uses("VK_FORMAT_R8G8B8A8_UNORM 2x2x1").len(), 1);
    }

    #[test]
    fn attachments_may_turn_out_to_be_sampled_only() {
        let depth = uses("VK_FORMAT_D32_SFLOAT 16x16x1");
        assert_eq!(depth[0].usage, u64::from(vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()));
        let color = uses("VK_FORMAT_R8G8B8A8_UNORM 1920x1080x1");
        assert_eq!(color[0].usage, u64::from(vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()));
        assert_eq!((depth[1].usage, color[1].usage), (0, 0));
    }

    #[test]
    fn an_unknown_format_has_no_uses() {
        assert_eq!(uses("VK_FORMAT_PAISLEY 16x16x1"), []);
    }
}
