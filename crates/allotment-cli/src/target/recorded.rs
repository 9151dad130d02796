//! Recorded resources on real drivers of any API.

use allotment::device::{BufferDesc, Device, DeviceError, ImageDesc};
use allotment_trace::{ImageShape, Resource, ResourceKind};

use super::Plan;
use crate::failure::Failure;

/// Number of texels from which a single image without mip levels is taken for a render target. Smaller ones are
/// mostly placeholders and lookup tables.
const DRAWN_TO: u64 = 128 * 128;

/// An API's usage flags of recorded resources.
pub(super) struct Uses {
    /// Returns the usage of a buffer from its recorded usage (`VkBufferUsageFlags`), if known.
    pub(super) buffer: fn(Option<u32>) -> u64,
    /// Returns the descriptions under which an image of this shape may have been created, the likeliest first.
    /// Empty if the format is unknown.
    pub(super) image: fn(&ImageShape<'_>) -> Vec<ImageDesc>,
}

impl Uses {
    /// Returns a buffer of the recorded size, or the first image that the device supports. A buffer as well if it
    /// supports none.
    pub(super) fn plan<D: Device>(&self, device: &D, recorded: &Resource) -> Result<Plan, Failure> {
        let buffer = |usage| BufferDesc::new(recorded.size()).with_usage((self.buffer)(usage));
        match recorded.kind() {
            ResourceKind::Buffer { usage } => Ok(Plan::Buffer(buffer(usage))),
            ResourceKind::Image => {
                for desc in recorded.image_shape().iter().flat_map(self.image) {
                    match device.image_requirements(&desc.into()) {
                        Ok(_) => return Ok(Plan::Image(desc)),
                        Err(DeviceError::Unsupported | DeviceError::InvalidDescription(_)) => {}
                        Err(error) => {
                            return Err(Failure::Unexpected(format!(
                                "cannot query the memory requirements of an image: {error}"
                            )));
                        }
                    }
                }
                Ok(Plan::BufferForImage(buffer(None)))
            }
        }
    }
}

/// An API's usage flags of render targets and depth buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachments {
    pub(super) color: u64,
    pub(super) depth: u64,
}

/// Returns the likely descriptions of an image, the likeliest first: as an attachment if its shape suggests one,
/// and as a sampled image, a usage that the device adds itself. `format` is the API's number.
pub(super) fn likely_uses(shape: &ImageShape<'_>, format: u32, attachments: Attachments) -> Vec<ImageDesc> {
    let mut sampled = ImageDesc::new(shape.extent[0], shape.extent[1], format);
    sampled.extent = shape.extent;
    sampled.mip_levels = shape.mip_levels;
    sampled.array_layers = shape.array_layers;
    let usage = if is_depth(shape.format) {
        attachments.depth
    } else if is_drawn_to(shape) {
        attachments.color
    } else {
        return vec![sampled];
    };
    let mut attachment = sampled;
    attachment.usage = usage;
    vec![attachment, sampled]
}

/// Returns whether a name such as `VK_FORMAT_D32_SFLOAT` is a depth format.
fn is_depth(format: &str) -> bool {
    let name = format.strip_prefix("VK_FORMAT_").unwrap_or(format);
    ["D16_", "D24_", "D32_", "X8_D24_", "S8_"].iter().any(|depth| name.starts_with(depth))
}

fn is_drawn_to(shape: &ImageShape<'_>) -> bool {
    let texels: u64 = shape.extent.into_iter().map(u64::from).product();
    let compressed = shape.format.contains("BLOCK") || shape.format.contains("PLANE");
    shape.mip_levels == 1 && shape.extent[2] == 1 && texels >= DRAWN_TO && !compressed
}

#[cfg(test)]
mod tests {
    use allotment::device::simulated::{Profile, SimulatedGpu};
    use allotment_trace::Trace;

    use super::*;

    const ATTACHMENTS: Attachments = Attachments { color: 16, depth: 32 };

    /// What the resources of a trace become where a format is bytes a texel, and there is none of 0.
    fn plans(trace: &str, image: fn(&ImageShape<'_>) -> Vec<ImageDesc>) -> Vec<Plan> {
        let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
        let trace = format!("op,id,size,alignment,kind,name\n{trace}");
        let trace = Trace::read(trace.as_bytes()).unwrap();
        let uses = Uses { buffer: |usage| usage.unwrap_or(7).into(), image };
        trace.resources().iter().map(|recorded| uses.plan(&device, recorded).unwrap()).collect()
    }

    #[test]
    fn a_buffer_has_the_recorded_size_and_usage() {
        let plans = plans("a,0,1000,16,buffer,17\na,1,2000,16,buffer,\n", |_| Vec::new());
        let [Plan::Buffer(known), Plan::Buffer(unknown)] = plans[..] else { panic!("{plans:?}") };
        assert_eq!((known.size, known.usage), (1000, 17));
        assert_eq!((unknown.size, unknown.usage), (2000, 7));
    }

    #[test]
    fn an_image_is_the_first_that_the_device_can_make() {
        let image = "a,0,70000,16,image,VK_FORMAT_R8G8B8A8_UNORM 128x128x1\n";
        let made = plans(image, |_| [0, 4, 1].map(|format| ImageDesc::new(128, 128, format)).to_vec());
        assert!(matches!(made[..], [Plan::Image(ImageDesc { format: 4, .. })]), "{made:?}");
    }

    #[test]
    fn an_image_that_the_device_cannot_make_is_a_buffer_of_the_recorded_size() {
        let images = "a,0,70000,16,image,VK_FORMAT_R8_UNORM 128x128x1\na,1,80000,16,image,shadows\n";
        let made = plans(images, |_| vec![ImageDesc::new(128, 128, 0)]);
        let [Plan::BufferForImage(unknown_format), Plan::BufferForImage(no_shape)] = made[..] else {
            panic!("{made:?}")
        };
        assert_eq!((unknown_format.size, no_shape.size), (70_000, 80_000));
    }

    fn usages(name: &str) -> Vec<u64> {
        let uses = likely_uses(&ImageShape::parse(name).unwrap(), 7, ATTACHMENTS);
        uses.iter().map(|desc| desc.usage).collect()
    }

    #[test]
    fn an_image_has_the_recorded_shape() {
        let shape = ImageShape::parse("VK_FORMAT_BC3_UNORM_BLOCK 1024x512x1 mips=11 layers=6").unwrap();
        let uses = likely_uses(&shape, 137, ATTACHMENTS);
        let [ImageDesc { extent, mip_levels, array_layers, format, .. }] = uses[..] else { panic!() };
        assert_eq!((extent, mip_levels, array_layers, format), ([1024, 512, 1], 11, 6, 137));
    }

    #[test]
    fn textures_are_sampled_and_nothing_else() {
        assert_eq!(usages("VK_FORMAT_BC3_UNORM_BLOCK 1024x512x1 mips=11 layers=6"), [0]);
        assert_eq!(usages("VK_FORMAT_BC3_UNORM_BLOCK 1024x512x1"), [0]);
        assert_eq!(usages("VK_FORMAT_R8G8B8A8_UNORM 2x2x1"), [0]);
        assert_eq!(usages("VK_FORMAT_R8G8B8A8_UNORM 512x512x1 mips=10"), [0]);
    }

    #[test]
    fn attachments_may_turn_out_to_be_sampled_only() {
        assert_eq!(usages("VK_FORMAT_R8G8B8A8_UNORM 1920x1080x1"), [16, 0]);
        for depth in ["D16_UNORM", "X8_D24_UNORM_PACK32", "D32_SFLOAT_S8_UINT", "S8_UINT"] {
            assert_eq!(usages(&format!("VK_FORMAT_{depth} 16x16x1")), [32, 0], "{depth}");
        }
    }
}
