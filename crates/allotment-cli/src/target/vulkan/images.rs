//! Recorded images for Vulkan.

use allotment::device::ImageDesc;
use allotment_trace::ImageShape;
use ash::vk;

use crate::target::recorded::{self, Attachments};

/// Numbers of formats: core formats, and those of extensions that later versions adopted.
const FORMATS: [core::ops::RangeInclusive<i32>; 4] = [
    1..=184,
    // VK_EXT_texture_compression_astc_hdr
    1_000_066_000..=1_000_066_013,
    // VK_KHR_sampler_ycbcr_conversion
    1_000_156_000..=1_000_156_033,
    // VK_EXT_4444_formats
    1_000_340_000..=1_000_340_001,
];

const ATTACHMENTS: Attachments = Attachments {
    color: vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw() as u64,
    depth: vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw() as u64,
};

/// Returns the likely descriptions of an image of this shape, the likeliest first. Empty if the format is unknown.
pub(super) fn likely_uses(shape: &ImageShape<'_>) -> Vec<ImageDesc> {
    let Some(format) = format_named(shape.format) else { return Vec::new() };
    recorded::likely_uses(shape, format.as_raw() as u32, ATTACHMENTS)
}

/// Returns the format of a name such as `VK_FORMAT_R8_UNORM`.
fn format_named(name: &str) -> Option<vk::Format> {
    let name = name.strip_prefix("VK_FORMAT_")?;
    let mut formats = FORMATS.into_iter().flatten().map(vk::Format::from_raw);
    // The specification writes some letters of ASTC formats in lower case.
    formats.find(|format| format!("{format:?}").eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn attachments_have_the_flags_of_the_api() {
        let usage = |name: &str| likely_uses(&ImageShape::parse(name).unwrap())[0].usage;
        let depth = vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT;
        assert_eq!(usage("VK_FORMAT_D32_SFLOAT 16x16x1"), u64::from(depth.as_raw()));
        let color = vk::ImageUsageFlags::COLOR_ATTACHMENT;
        assert_eq!(usage("VK_FORMAT_R8G8B8A8_UNORM 1920x1080x1"), u64::from(color.as_raw()));
    }

    #[test]
    fn an_unknown_format_has_no_uses() {
        assert_eq!(likely_uses(&ImageShape::parse("VK_FORMAT_PAISLEY 16x16x1").unwrap()), []);
    }
}
