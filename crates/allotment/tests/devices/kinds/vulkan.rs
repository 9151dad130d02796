//! Vulkan, with the validation layer watching: any message fails the test in which it came.
//!
//! On lavapipe where there is no GPU. `ALLOTMENT_VULKAN` names another device by a part of its name, and
//! `ALLOTMENT_VALIDATION=off` leaves the layer out, on machines without it.

use allotment::device::vulkan::{DescriptorModel, Device, EnabledFeatures};
use allotment::device::{
    BufferViewUses, DeviceError, ImageViewUse, MemoryDevice as _, MemoryHeapIndex, TexelBlock,
};
use allotment_headless::vulkan::{Descriptors, Headless, HeadlessDesc, OpenError};
use allotment_headless::{DeviceChoice, Message};
use allotment_readers::VulkanReader;
use ash::vk::{self, ImageLayout};

use super::simulated::SimulatedFixture;
use super::turns::{Turn, Turns};
use crate::fixture::{DescriptorFixture, Fixture, Format, FormatClass, Values};
use crate::runner::{Kind, Share};
use crate::suite;
use crate::vulkan_only;

/// The allowed messages: the rule (old layers put `UNASSIGNED-` before it), the subject, and why.
const ALLOWED: [(&str, &str, &str); 18] = [
    (
        "BestPractices-vkCreateInstance-specialuse-extension-debugging",
        "CreateInstance()",
        "the layer's own extensions, without which nothing would be heard of it",
    ),
    ("BestPractices-specialuse-extension", "vkCreateInstance()", "as above, in newer layers"),
    (
        "BestPractices-deprecated-extension",
        "VK_EXT_validation_features",
        "as above; older layers know no other",
    ),
    (
        "BestPractices-vkBindBufferMemory-requirements-not-retrieved",
        "",
        "they were asked of the description (maintenance4) or of another buffer made from it, and the layer \
         counts neither",
    ),
    ("BestPractices-vkBindImageMemory-requirements-not-retrieved", "", "as above, for images"),
    (
        "BestPractices-vkAllocateMemory-small-allocation",
        "",
        "tests of the device get memory of a few bytes on purpose; the allocator exists so that a program does not",
    ),
    ("BestPractices-vkBindMemory-small-dedicated-allocation", "", "as above, for resources"),
    ("BestPractices-vkBindBufferMemory-small-dedicated-allocation", "", "as above, in newer layers"),
    ("BestPractices-vkBindImageMemory-small-dedicated-allocation", "", "as above, in newer layers"),
    (
        "BestPractices-pipeline-stage-flags",
        "ALL_COMMANDS_BIT",
        "what a submission waits with of whose commands nothing is known; and what copies wait for, and are \
         waited for by: nobody says what else uses the bytes",
    ),
    ("BestPractices-pipeline-stage-flags-compute", "ALL_COMMANDS_BIT", "as above, in newer layers"),
    (
        "BestPractices-vkCreateDevice-specialuse-extension-d3demulation",
        "VK_EXT_mutable_descriptor_type",
        "as below, in older layers",
    ),
    (
        "BestPractices-specialuse-extension",
        "VK_EXT_mutable_descriptor_type",
        "without it, slots of a descriptor buffer would be of one type",
    ),
    (
        "BestPractices-vkCreateDevice-physical-device-features-not-retrieved",
        "vkGetPhysicalDeviceFeatures()",
        "the layer of Vulkan 1.4 overlooks that call, and notices the newer one, which Vulkan 1.0 does not have",
    ),
    (
        "BestPractices-SpirvDeprecated_WorkgroupSize",
        "vkCreateComputePipelines()",
        "the shader that reads through descriptors runs on Vulkan 1.1 as well",
    ),
    (
        "BestPractices-Error-Result",
        "vkAllocateMemory(): Returned error VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "how lavapipe 25 says that it can share no memory as a dma-buf on a machine without /dev/udmabuf",
    ),
    ("BestPractices-Error-Result", "VK_ERROR_FORMAT_NOT_SUPPORTED", "how a device says no when it is asked"),
    ("BestPractices-Failure-Result", "VK_ERROR_FORMAT_NOT_SUPPORTED", "as above, in newer layers"),
];

pub(super) fn kind() -> Kind {
    if let Err(why) = Headless::open(&desc()) {
        let mut tests = suite::names::<SimulatedFixture>();
        tests.extend(vulkan_only::all().into_iter().map(|(name, _)| name));
        return Kind::missing("vulkan", &why.to_string(), &tests);
    }
    let mut kind = Kind::new("vulkan");
    kind.conformance("", Share::All, || VulkanFixture::new(&desc()));
    // What is core there comes from extensions here.
    let older = || desc().with_api_version(vk::API_VERSION_1_1);
    kind.conformance("1.1", Share::Drawn, move || VulkanFixture::new(&older()));
    // And as it is for an application that enables nothing.
    kind.conformance("bare 1.1", Share::Drawn, move || {
        VulkanFixture::new(&older().without_optional_extensions())
    });
    // Not every driver has both ways to descriptors, or any.
    let sets = || or_without(desc().with_descriptors(SETS));
    let buffer = || or_without(desc().with_descriptors(BUFFER));
    kind.descriptors("sets", Share::All, move || VulkanFixture::new(&sets()));
    kind.descriptors("buffer", Share::All, move || VulkanFixture::new(&buffer()));
    kind.descriptors("buffer 1.1", Share::Drawn, move || {
        VulkanFixture::new(&or_without(older().with_descriptors(BUFFER)))
    });
    for test in vulkan_only::of_descriptors() {
        kind.add("sets", test, move || VulkanFixture::new(&sets()));
        kind.add("buffer", test, move || VulkanFixture::new(&buffer()));
    }
    for test in vulkan_only::all() {
        kind.add("", test, || VulkanFixture::new(&desc()));
    }
    for test in vulkan_only::of_versions() {
        kind.add("1.0", test, || VulkanFixture::new(&desc().with_api_version(vk::API_VERSION_1_0)));
        kind.add("1.1", test, move || VulkanFixture::new(&older()));
        kind.add("1.2", test, || VulkanFixture::new(&desc().with_api_version(vk::API_VERSION_1_2)));
        kind.add("1.3", test, || VulkanFixture::new(&desc()));
    }
    kind
}

const SETS: Descriptors = Descriptors::Model(DescriptorModel::Sets);
const BUFFER: Descriptors = Descriptors::Model(DescriptorModel::Buffer);

/// Opens it without descriptors, where the device has none of the model.
fn or_without(desc: HeadlessDesc) -> HeadlessDesc {
    match Headless::open(&desc) {
        Err(OpenError::Device(DeviceError::Unsupported)) => desc.with_descriptors(Descriptors::Off),
        _ => desc,
    }
}

/// Reads the choice from the environment.
fn desc() -> HeadlessDesc {
    let choice = std::env::var("ALLOTMENT_VULKAN").map_or(DeviceChoice::Best, DeviceChoice::Named);
    let desc = HeadlessDesc::default().with_device(choice);
    if is_watched() { desc.with_validation() } else { desc }
}

/// Whether the validation layer watches.
fn is_watched() -> bool {
    std::env::var("ALLOTMENT_VALIDATION").as_deref() != Ok("off")
}

/// A Vulkan device of its own, whose messages are failures.
pub(crate) struct VulkanFixture {
    headless: Headless,
    /// Given up last.
    _turn: Turn,
}

/// One Vulkan test runs at a time. The loader looks for the instance of an object that is named without a
/// lock (seen in 1.4.309), so it crashes when another thread makes or destroys an instance then.
static TURNS: Turns = Turns::new();

impl VulkanFixture {
    pub(crate) fn new(desc: &HeadlessDesc) -> Self {
        let turn = TURNS.take();
        Self { headless: Headless::open(desc).unwrap(), _turn: turn }
    }

    pub(crate) fn headless(&self) -> &Headless {
        &self.headless
    }
}

/// True for what is not allowed.
fn is_wrong(message: &Message) -> bool {
    let id = message.id.trim_start_matches("UNASSIGNED-");
    !ALLOWED.iter().any(|(allowed, about, _)| id == *allowed && message.text.contains(about))
}

impl Fixture for VulkanFixture {
    type Device = Device;

    fn device(&self) -> &Device {
        self.headless.device()
    }

    fn budgets_are_exact(&self) -> bool {
        // Without the extension, the usage is what was allocated through the device.
        !self.device().enabled().contains(EnabledFeatures::MEMORY_BUDGET)
    }

    fn image_format(&self) -> u32 {
        vk::Format::R8G8B8A8_UNORM.as_raw().unsigned_abs()
    }

    fn address_usage(&self) -> u64 {
        vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw().into()
    }

    fn no_address_usage(&self) -> Option<u64> {
        Some(0)
    }

    fn image_for_views(&self, usage: ImageViewUse) -> Option<(u32, u64)> {
        use ash::vk::{Format, ImageUsageFlags as Usage};
        let (format, usage) = match usage {
            ImageViewUse::Sampled => (Format::R8G8B8A8_UNORM, Usage::empty()),
            ImageViewUse::Storage => (Format::R8G8B8A8_UNORM, Usage::STORAGE),
            ImageViewUse::RenderTarget => (Format::R8G8B8A8_UNORM, Usage::COLOR_ATTACHMENT),
            ImageViewUse::DepthStencil => (Format::D16_UNORM, Usage::DEPTH_STENCIL_ATTACHMENT),
            ImageViewUse::InputAttachment => {
                (Format::R8G8B8A8_UNORM, Usage::COLOR_ATTACHMENT | Usage::INPUT_ATTACHMENT)
            }
        };
        Some((format.as_raw().unsigned_abs(), usage.as_raw().into()))
    }

    fn texel_format(&self) -> (u32, u64) {
        (vk::Format::R32G32B32A32_SFLOAT.as_raw().unsigned_abs(), 16)
    }

    fn buffer_for_views(&self, uses: BufferViewUses) -> u64 {
        use ash::vk::BufferUsageFlags as Usage;
        let all = [
            (BufferViewUses::CONSTANTS, Usage::UNIFORM_BUFFER),
            (BufferViewUses::READ_ONLY | BufferViewUses::READ_WRITE, Usage::STORAGE_BUFFER),
            (BufferViewUses::UNIFORM_TEXELS, Usage::UNIFORM_TEXEL_BUFFER),
            (BufferViewUses::STORAGE_TEXELS, Usage::STORAGE_TEXEL_BUFFER),
        ];
        let wanted = all.into_iter().filter(|(flags, _)| uses.intersects(*flags));
        let usage = wanted.fold(Usage::empty(), |usage, (_, flag)| usage | flag);
        // Descriptor buffers have addresses of what they name.
        let with_address = self
            .device()
            .descriptor_buffer_functions()
            .map_or(usage, |_| usage | Usage::SHADER_DEVICE_ADDRESS);
        with_address.as_raw().into()
    }

    fn buffer_without_views(&self, _: BufferViewUses) -> Option<u64> {
        Some(0)
    }

    fn image_states(&self) -> &'static [ImageLayout] {
        const STATES: [ImageLayout; 4] = [
            ImageLayout::SHADER_READ_ONLY_OPTIMAL,
            ImageLayout::GENERAL,
            ImageLayout::TRANSFER_SRC_OPTIMAL,
            ImageLayout::TRANSFER_DST_OPTIMAL,
        ];
        &STATES
    }

    fn compressed_format(&self) -> Option<(u32, TexelBlock)> {
        let bc1 = TexelBlock { bytes: 8, width: 4, height: 4 };
        Some((vk::Format::BC1_RGBA_UNORM_BLOCK.as_raw().unsigned_abs(), bc1))
    }

    fn formats(&self) -> Vec<Format> {
        use FormatClass::{Astc, Bc, Depth, DepthStencil, Etc2, Planes, Stencil, Texels};
        use Values::{Any, Float, Low24};
        [
            ("R8_UNORM", Texels, Any, vk::Format::R8_UNORM),
            ("R8G8_UINT", Texels, Any, vk::Format::R8G8_UINT),
            ("R8G8B8_UNORM", Texels, Any, vk::Format::R8G8B8_UNORM),
            ("R8G8B8A8_SRGB", Texels, Any, vk::Format::R8G8B8A8_SRGB),
            ("R16G16B16_UINT", Texels, Any, vk::Format::R16G16B16_UINT),
            ("R16G16B16A16_UINT", Texels, Any, vk::Format::R16G16B16A16_UINT),
            ("R32G32B32_UINT", Texels, Any, vk::Format::R32G32B32_UINT),
            ("R32G32B32A32_UINT", Texels, Any, vk::Format::R32G32B32A32_UINT),
            ("BC1_RGBA_UNORM", Bc, Any, vk::Format::BC1_RGBA_UNORM_BLOCK),
            ("BC7_UNORM", Bc, Any, vk::Format::BC7_UNORM_BLOCK),
            ("ETC2_R8G8B8_UNORM", Etc2, Any, vk::Format::ETC2_R8G8B8_UNORM_BLOCK),
            ("EAC_R11G11_UNORM", Etc2, Any, vk::Format::EAC_R11G11_UNORM_BLOCK),
            ("ASTC_4x4_UNORM", Astc, Any, vk::Format::ASTC_4X4_UNORM_BLOCK),
            ("ASTC_10x5_UNORM", Astc, Any, vk::Format::ASTC_10X5_UNORM_BLOCK),
            ("D16_UNORM", Depth, Any, vk::Format::D16_UNORM),
            ("X8_D24_UNORM", Depth, Low24, vk::Format::X8_D24_UNORM_PACK32),
            ("D32_SFLOAT", Depth, Float, vk::Format::D32_SFLOAT),
            ("S8_UINT", Stencil, Any, vk::Format::S8_UINT),
            ("D16_UNORM_S8_UINT", DepthStencil, Any, vk::Format::D16_UNORM_S8_UINT),
            ("D24_UNORM_S8_UINT", DepthStencil, Low24, vk::Format::D24_UNORM_S8_UINT),
            ("D32_SFLOAT_S8_UINT", DepthStencil, Float, vk::Format::D32_SFLOAT_S8_UINT),
            ("G8_B8R8_2PLANE_420", Planes, Any, vk::Format::G8_B8R8_2PLANE_420_UNORM),
            ("G8_B8_R8_3PLANE_420", Planes, Any, vk::Format::G8_B8_R8_3PLANE_420_UNORM),
            ("G16_B16R16_2PLANE_422", Planes, Any, vk::Format::G16_B16R16_2PLANE_422_UNORM),
        ]
        .map(|(name, class, values, format)| {
            let number = format.as_raw().unsigned_abs();
            Format { name, class, number, usage: 0, values }
        })
        .into()
    }

    fn host_write_usage(&self) -> u64 {
        let has = self.device().enabled().contains(EnabledFeatures::HOST_IMAGE_COPY);
        if has { vk::ImageUsageFlags::HOST_TRANSFER_EXT.as_raw().into() } else { 0 }
    }

    fn parts_of_blocks_are_understood(&self) -> bool {
        // Up to 1.4.309 the layer does not.
        !is_watched()
    }

    fn expect_complaints(&self, _: &'static str) {
        // What cannot be had is refused before a layer sees it.
    }

    fn finish(self) -> Result<(), String> {
        let messages = self.headless.messages().clone();
        for heap in (0..).map(MemoryHeapIndex).take(self.device().properties().heaps.len()) {
            let left = self.device().allocated_bytes(heap);
            if left != 0 {
                return Err(format!("{left} bytes of heap {heap} were left behind"));
            }
        }
        // The end of the device is watched too: the layer reports what was left behind.
        drop(self);
        let wrong: Vec<_> = messages.take().into_iter().filter(is_wrong).map(|m| m.to_string()).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("the validation layer said: {wrong:#?}")) }
    }
}

impl DescriptorFixture for VulkanFixture {
    type Reader = VulkanReader;

    fn null_reads_zeros(&self) -> bool {
        self.device().enabled().contains(EnabledFeatures::NULL_DESCRIPTOR)
    }
}
