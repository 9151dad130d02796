//! Recorded buffers and images for Direct3D 12. Needs no driver.

use allotment::MemoryUsage;
use allotment::device::ImageDesc;
use allotment_trace::ImageShape;

use super::dxgi;
use crate::target::recorded::{self, Attachments, Uses};

/// `D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET` and `…_ALLOW_DEPTH_STENCIL`.
const ATTACHMENTS: Attachments = Attachments { color: 1, depth: 2 };

/// `D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS`: a buffer that shaders write.
const UNORDERED_ACCESS: u64 = 4;

/// `VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT` and `…_STORAGE_BUFFER_BIT`.
const STORAGE: u32 = 0x28;

/// `DXGI_FORMAT_R8G8B8A8_UNORM`.
const RGBA: u32 = 28;

pub(super) const USES: Uses = Uses { buffer: buffer_usage, image: likely_uses };

/// A buffer of unknown usage is treated as a storage buffer, the most general use.
fn buffer_usage(recorded: Option<u32>) -> u64 {
    if recorded.unwrap_or(STORAGE) & STORAGE == 0 { 0 } else { UNORDERED_ACCESS }
}

/// Returns the likely descriptions of an image of this shape, the likeliest first, in each format that can replace
/// its own.
fn likely_uses(shape: &ImageShape<'_>) -> Vec<ImageDesc> {
    let uses = |format| {
        let mut shape = *shape;
        let granularity = dxgi::granularity(format);
        // Direct3D 12 requires whole blocks, while Vulkan allows an image to end within one. The padded image needs
        // the same memory.
        for side in &mut shape.extent[..2] {
            *side = side.checked_next_multiple_of(granularity).unwrap_or(*side);
        }
        recorded::likely_uses(&shape, format, ATTACHMENTS)
    };
    dxgi::formats_for(shape.format).flat_map(uses).collect()
}

/// Returns the description of an image that is typical for the memory usage.
pub(super) fn sample_image(memory_usage: MemoryUsage) -> ImageDesc {
    let mut desc = ImageDesc::new(1024, 1024, RGBA);
    if memory_usage == MemoryUsage::Transient {
        desc.usage = ATTACHMENTS.color;
    }
    desc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(name: &str) -> Vec<([u32; 3], u32, u64)> {
        let uses = (USES.image)(&ImageShape::parse(name).unwrap());
        uses.into_iter().map(|desc| (desc.extent, desc.format, desc.usage)).collect()
    }

    #[test]
    fn images_have_the_formats_and_flags_of_the_api() {
        let texture = uses("VK_FORMAT_BC3_UNORM_BLOCK 1024x512x1 mips=11 layers=6");
        assert_eq!(texture, [([1024, 512, 1], 77, 0)]);
        let color = uses("VK_FORMAT_R8G8B8A8_UNORM 1920x1080x1");
        assert_eq!(color, [([1920, 1080, 1], 28, 1), ([1920, 1080, 1], 28, 0)]);
        assert_eq!(uses("VK_FORMAT_D32_SFLOAT 16x16x1")[0], ([16, 16, 1], 40, 2));
        assert_eq!(uses("VK_FORMAT_PAISLEY 16x16x1"), []);
    }

    #[test]
    fn where_blocks_are_compressed_they_are_whole() {
        assert_eq!(uses("VK_FORMAT_BC3_UNORM_BLOCK 256x89x1 mips=9")[0].0, [256, 92, 1]);
        assert_eq!(uses("VK_FORMAT_G8_B8R8_2PLANE_420_UNORM 1921x1079x1")[0].0, [1922, 1080, 1]);
        assert_eq!(uses("VK_FORMAT_R8_UNORM 33x33x33")[0].0, [33, 33, 33]);
    }

    #[test]
    fn buffers_that_shaders_write_to_say_so() {
        const TRANSFER: u32 = 0b11;
        assert_eq!((USES.buffer)(Some(TRANSFER)), 0);
        assert_eq!((USES.buffer)(Some(TRANSFER | 0x20)), UNORDERED_ACCESS);
        assert_eq!((USES.buffer)(Some(0x8)), UNORDERED_ACCESS);
        assert_eq!((USES.buffer)(Some(0x1ff & !0x28)), 0);
        assert_eq!((USES.buffer)(None), UNORDERED_ACCESS);
    }

    #[test]
    fn an_attachment_is_a_render_target() {
        assert_eq!(sample_image(MemoryUsage::GpuOnly).usage, 0);
        assert_eq!(sample_image(MemoryUsage::Transient).usage, 1);
    }
}
