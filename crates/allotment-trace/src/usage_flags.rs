//! The API's usage flags of a buffer or image, in words, as the category of an allocation: JSON dumps and captures have them,
//! and recordings have no number for them. The export of a dump makes numbers of the words again, so that VMA's viewer
//! colours both alike.

use allotment::ResourceKind;

use crate::recording::Api;

/// What stands before flags of a resource of which nothing is known.
const PREFIX: &str = "usage 0x";

/// Vulkan's usage of buffers: the names of the bits, by position; those without a meaning are empty.
const VULKAN_BUFFER: [&str; 27] = [
    "transfer source",
    "transfer destination",
    "uniform texel buffer",
    "storage texel buffer",
    "uniform buffer",
    "storage buffer",
    "index buffer",
    "vertex buffer",
    "indirect buffer",
    "conditional rendering",
    "shader binding table",
    "transform feedback buffer",
    "transform feedback counter",
    "video decode source",
    "video decode destination",
    "video encode destination",
    "video encode source",
    "device address",
    "",
    "acceleration structure input",
    "acceleration structure",
    "sampler descriptors",
    "resource descriptors",
    "micromap input",
    "micromap",
    "execution graph scratch",
    "push descriptors",
];

/// Vulkan's usage of images.
const VULKAN_IMAGE: [&str; 23] = [
    "transfer source",
    "transfer destination",
    "sampled",
    "storage",
    "color attachment",
    "depth-stencil attachment",
    "transient attachment",
    "input attachment",
    "shading rate attachment",
    "fragment density map",
    "video decode destination",
    "video decode source",
    "video decode pictures",
    "video encode destination",
    "video encode source",
    "video encode pictures",
    "",
    "",
    "invocation mask",
    "attachment feedback loop",
    "sample weights",
    "block matching",
    "host transfer",
];

/// `D3D12_RESOURCE_FLAGS`, of buffers and textures.
const D3D12_RESOURCE: [&str; 9] = [
    "render target",
    "depth-stencil",
    "unordered access",
    "no shader resource",
    "cross-adapter",
    "simultaneous access",
    "video decode reference only",
    "video encode reference only",
    "acceleration structure",
];

fn names(api: Api, kind: ResourceKind) -> &'static [&'static str] {
    match (api, kind) {
        (Api::Direct3D12, _) => &D3D12_RESOURCE,
        (Api::Vulkan, ResourceKind::Buffer) => &VULKAN_BUFFER,
        (Api::Vulkan, ResourceKind::LinearImage | ResourceKind::OptimalImage) => &VULKAN_IMAGE,
        _ => &[],
    }
}

/// Returns usage flags in words: `uniform buffer, transfer destination, 0x80000000`. Flags of which nothing is known are
/// `usage 0x22`.
pub(crate) fn to_text(api: Api, kind: ResourceKind, flags: u64) -> String {
    let names = names(api, kind);
    if names.is_empty() {
        return format!("{PREFIX}{flags:x}");
    }
    let mut rest = flags;
    let mut words = Vec::new();
    for (bit, name) in names.iter().enumerate().rev() {
        if flags >> bit & 1 == 1 && !name.is_empty() {
            // What it is for says more than that it is copied, whose bits are the lowest.
            words.push((*name).to_owned());
            rest &= !(1 << bit);
        }
    }
    if rest != 0 {
        words.push(format!("0x{rest:x}"));
    }
    words.join(", ")
}

/// Returns the usage flags that a category says, if it says any and nothing else.
pub(crate) fn from_text(api: Api, kind: ResourceKind, category: &str) -> Option<u64> {
    if let Some(digits) = category.strip_prefix(PREFIX) {
        return u64::from_str_radix(digits, 16).ok();
    }
    let names = names(api, kind);
    category.split(", ").try_fold(0, |flags, word| {
        let known = names.iter().position(|name| !name.is_empty() && *name == word).map(|bit| 1 << bit);
        let rest = || u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        Some(flags | known.or_else(rest)?)
    })
}

/// Returns the usage flags of a Vulkan buffer whose bits have Vulkan's names (`VK_BUFFER_USAGE_TRANSFER_SRC_BIT | …`) in
/// words. `None` for other texts.
pub(crate) fn of_vulkan_names(names: &str) -> Option<String> {
    let bit = |name: &str| {
        let name = name.trim().strip_prefix("VK_BUFFER_USAGE_")?;
        let name = name.split("_BIT").next().unwrap_or(name);
        VULKAN_NAMES.iter().position(|known| *known == name)
    };
    let flags = names.split('|').try_fold(0, |flags, name| Some(flags | 1 << bit(name)?))?;
    Some(to_text(Api::Vulkan, ResourceKind::Buffer, flags))
}

/// Vulkan's own names of the usage of buffers, which captures of some forms have.
const VULKAN_NAMES: [&str; 21] = [
    "TRANSFER_SRC",
    "TRANSFER_DST",
    "UNIFORM_TEXEL_BUFFER",
    "STORAGE_TEXEL_BUFFER",
    "UNIFORM_BUFFER",
    "STORAGE_BUFFER",
    "INDEX_BUFFER",
    "VERTEX_BUFFER",
    "INDIRECT_BUFFER",
    "CONDITIONAL_RENDERING",
    "SHADER_BINDING_TABLE",
    "TRANSFORM_FEEDBACK_BUFFER",
    "TRANSFORM_FEEDBACK_COUNTER_BUFFER",
    "VIDEO_DECODE_SRC",
    "VIDEO_DECODE_DST",
    "VIDEO_ENCODE_DST",
    "VIDEO_ENCODE_SRC",
    "SHADER_DEVICE_ADDRESS",
    "",
    "ACCELERATION_STRUCTURE_BUILD_INPUT_READ_ONLY",
    "ACCELERATION_STRUCTURE_STORAGE",
];

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ResourceKind; 4] =
        [ResourceKind::Unknown, ResourceKind::Buffer, ResourceKind::LinearImage, ResourceKind::OptimalImage];

    #[test]
    fn flags_are_told_in_the_words_of_their_api() {
        let text = |api, kind, flags| to_text(api, kind, flags);
        assert_eq!(text(Api::Vulkan, ResourceKind::Buffer, 0x12), "uniform buffer, transfer destination");
        assert_eq!(
            text(Api::Vulkan, ResourceKind::OptimalImage, 0x12),
            "color attachment, transfer destination"
        );
        assert_eq!(text(Api::Direct3D12, ResourceKind::OptimalImage, 0x2), "depth-stencil");
        assert_eq!(text(Api::Vulkan, ResourceKind::Unknown, 0x22), "usage 0x22");
        assert_eq!(text(Api::Vulkan, ResourceKind::Buffer, 0x8000_0040), "index buffer, 0x80000000");
        let names = "VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT";
        assert_eq!(of_vulkan_names(names).as_deref(), Some("conditional rendering, transfer destination"));
        assert_eq!(of_vulkan_names("VK_BUFFER_USAGE_NEWS_BIT"), None);
    }

    #[test]
    fn flags_come_back_and_other_categories_have_none() {
        for api in [Api::Other, Api::Vulkan, Api::Direct3D12] {
            for kind in KINDS {
                let bits = (0..64).map(|bit| 1 << bit);
                for flags in bits.chain([0x22, 0x1234_5678, u64::MAX]) {
                    assert_eq!(from_text(api, kind, &to_text(api, kind, flags)), Some(flags));
                }
                let others = ["", "usage", "usage 0x", "usage 0x-1", "textures", "uniform buffer, mine"];
                assert_eq!(others.map(|text| from_text(api, kind, text)), [None; 6]);
            }
        }
    }
}
