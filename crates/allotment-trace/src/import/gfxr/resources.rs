//! Buffers and images of a capture, before and while they are bound.

use serde::Deserialize;

use allotment::events::AllocationKey;
use allotment::{Alignment, ResourceKind};

use super::json::{Flags, Num};
use crate::recording::Api;
use crate::usage_flags;

/// A buffer or an image, with its handle. Vulkan's handles of the two are distinct, and a capture numbers all objects
/// together; the kind is part of the key nevertheless, so that a damaged file cannot mix them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Handle {
    Buffer(u64),
    Image(u64),
}

/// A resource.
pub(super) struct Resource {
    pub(super) kind: ResourceKind,
    /// Its description: usage flags in words, or format and extent.
    pub(super) shape: String,
    /// The debug name.
    pub(super) name: Option<String>,
    /// Bytes, as the driver said, or else as the program asked.
    pub(super) size: Option<u64>,
    pub(super) alignment: Alignment,
    /// Where it is bound: one allocation, or one for each plane.
    pub(super) bound: Vec<(AllocationKey, u64)>,
}

/// The memory of a resource in the tables, about, beside its texts.
pub(super) const RESOURCE_BYTES: usize = 320;

impl Resource {
    pub(super) fn bytes(&self) -> usize {
        RESOURCE_BYTES + self.shape.len() + self.name.as_ref().map_or(0, String::len)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateBuffer {
    p_create_info: BufferInfo,
    pub(super) p_buffer: Num,
}

#[derive(Deserialize)]
struct BufferInfo {
    size: Num,
    #[serde(default)]
    usage: Flags,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateImage {
    p_create_info: ImageInfo,
    pub(super) p_image: Num,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageInfo {
    #[serde(default)]
    format: String,
    extent: Extent,
    #[serde(default)]
    mip_levels: Num,
    #[serde(default)]
    array_layers: Num,
    #[serde(default)]
    tiling: String,
}

#[derive(Deserialize)]
struct Extent {
    width: Num,
    height: Num,
    depth: Num,
}

impl CreateBuffer {
    pub(super) fn into_resource(self) -> Resource {
        Resource {
            kind: ResourceKind::Buffer,
            shape: match self.p_create_info.usage {
                Flags::Bits(bits) => usage_flags::to_text(Api::Vulkan, ResourceKind::Buffer, bits),
                Flags::Names(names) => usage_flags::of_vulkan_names(&names).unwrap_or(names),
            },
            name: None,
            size: Some(self.p_create_info.size.0),
            alignment: Alignment::ONE,
            bound: Vec::new(),
        }
    }
}

impl CreateImage {
    pub(super) fn into_resource(self) -> Resource {
        let info = self.p_create_info;
        let Extent { width, height, depth } = info.extent;
        let shape = format!(
            "{} {}x{}x{} mips={} layers={}",
            super::super::builder::cut(&info.format),
            width.0,
            height.0,
            depth.0,
            info.mip_levels.0,
            info.array_layers.0
        );
        let linear = info.tiling == "VK_IMAGE_TILING_LINEAR";
        Resource {
            kind: if linear { ResourceKind::LinearImage } else { ResourceKind::OptimalImage },
            shape,
            name: None,
            size: None,
            alignment: Alignment::ONE,
            bound: Vec::new(),
        }
    }
}

/// The arguments of `vkGet…MemoryRequirements` and `…2`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetRequirements {
    #[serde(default)]
    buffer: Num,
    #[serde(default)]
    image: Num,
    p_info: Option<Target>,
    p_memory_requirements: Option<Requirements2>,
}

/// Which resource.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Target {
    buffer: Num,
    image: Num,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Requirements2 {
    memory_requirements: Option<Requirements>,
    #[serde(default)]
    size: Num,
    #[serde(default)]
    alignment: Num,
}

/// The driver's requirements of a resource's memory.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirements {
    pub(super) size: Num,
    pub(super) alignment: Num,
}

impl GetRequirements {
    /// Returns the resource and its requirements.
    pub(super) fn found(self) -> Option<(Handle, Requirements)> {
        let target = self.p_info.unwrap_or(Target { buffer: self.buffer, image: self.image });
        let given = self.p_memory_requirements?;
        let direct = Requirements { size: given.size, alignment: given.alignment };
        let required = given.memory_requirements.unwrap_or(direct);
        let handle = match (target.buffer.0, target.image.0) {
            (0, image) => Handle::Image(image),
            (buffer, _) => Handle::Buffer(buffer),
        };
        Some((handle, required))
    }
}
