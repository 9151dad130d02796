//! Vulkan, on systems with a Vulkan loader.

mod images;

use std::sync::Arc;

use allotment::MemoryUsage;
use allotment::device::ImageDesc;
use allotment::device::vulkan::Device;
use allotment_headless::Messages;
use allotment_headless::vulkan::{Headless, HeadlessDesc, OpenError};
use ash::vk;

use super::driver::{self, Driver, Open};
use super::recorded::Uses;
use crate::args::Wanted;
use crate::failure::Failure;

/// Opens the requested device.
pub(super) fn open(wanted: &Wanted) -> Result<Driver<Headless>, Failure> {
    let gpu = wanted.gpu.as_deref();
    let desc = HeadlessDesc::default().with_device(driver::choice(gpu));
    let desc = if wanted.validate { desc.with_validation() } else { desc };
    Headless::open(&desc).map(Driver::new).map_err(|error| not_opened(error, gpu))
}

/// Returns the failure with advice.
fn not_opened(error: OpenError, gpu: Option<&str>) -> Failure {
    let help = match (&error, gpu) {
        (OpenError::NoDevice(names), Some(gpu)) if !names.is_empty() => {
            return driver::no_such("Vulkan", gpu, names);
        }
        (OpenError::NoDevice(_) | OpenError::Vulkan(vk::Result::ERROR_INCOMPATIBLE_DRIVER), _) => {
            NEEDS_DRIVER
        }
        (OpenError::NoLoader(_), _) => {
            "install it (libvulkan1, vulkan-loader or the Vulkan SDK) and a driver, or use --device simulated"
        }
        (OpenError::NoValidationLayer, _) => {
            "install it (vulkan-validationlayers or the Vulkan SDK), or leave out --validate"
        }
        _ => "use --device simulated to run without a driver",
    };
    Failure::NoDevice(format!("{error}: {help}"))
}

const NEEDS_DRIVER: &str =
    "install a driver (mesa-vulkan-drivers has one that needs no GPU), or use --device simulated";

impl Open for Headless {
    type Device = Device;

    const NAME: &'static str = "vulkan";
    const TITLE: &'static str = "Vulkan";
    const USES: Uses = Uses { buffer: buffer_usage, image: images::likely_uses };
    const ALLOWED: &'static [(&'static str, &'static str)] = &[
        (
            "UNASSIGNED-BestPractices-vkCreateInstance-specialuse-extension-debugging",
            "caused by the extension through which the layer reports messages",
        ),
        (
            "UNASSIGNED-BestPractices-vkBindBufferMemory-requirements-not-retrieved",
            "requirements were queried from the description (maintenance4), which the layer does not recognize",
        ),
        ("UNASSIGNED-BestPractices-vkBindImageMemory-requirements-not-retrieved", "as above"),
        (
            "UNASSIGNED-BestPractices-pipeline-stage-flags",
            "copies use full barriers, since the other users of the bytes are unknown",
        ),
    ];

    fn device(&self) -> &Device {
        self.device()
    }

    fn messages(&self) -> Option<&Arc<Messages>> {
        Some(self.messages())
    }

    fn sample_image(memory_usage: MemoryUsage) -> ImageDesc {
        let mut desc = ImageDesc::new(1024, 1024, vk::Format::R8G8B8A8_UNORM.as_raw() as u32);
        if memory_usage == MemoryUsage::Transient {
            let usage = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT | vk::ImageUsageFlags::COLOR_ATTACHMENT;
            desc.usage = usage.as_raw().into();
        }
        desc
    }
}

/// The buffer usages of Vulkan 1.0, which every device allows. Others need a feature, and memory requirements do
/// not depend on them.
const USAGES: u32 = 0x1ff;

/// The usage of a buffer of unknown usage: a storage buffer, the most general use.
const UNKNOWN: vk::BufferUsageFlags = vk::BufferUsageFlags::STORAGE_BUFFER;

/// Transfer usage is added by the device itself.
fn buffer_usage(recorded: Option<u32>) -> u64 {
    (recorded.unwrap_or(UNKNOWN.as_raw()) & USAGES).into()
}
