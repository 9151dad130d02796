//! A real driver: buffers are buffers of the recorded size and usage, images are images where their name says
//! which and the device can make them.

mod images;
mod messages;

use std::sync::Arc;

use allotment::device::vulkan::{Device, ImageInfo};
use allotment::device::{BufferDesc, Device as _, DeviceError, ImageDesc};
use allotment::{Intent, ResourceKind};
use allotment_headless::Choice;
use allotment_headless::vulkan::{Headless, HeadlessDesc, OpenError};
use allotment_trace::{Resource, ResourceKind as RecordedKind};
use ash::vk;

use super::{Machine, Plan, Target};
use crate::failure::Failure;

/// A Vulkan device.
#[derive(Debug)]
pub(crate) struct Vulkan {
    headless: Headless,
    machine: Machine,
}

impl Vulkan {
    /// Opens the device whose name contains `gpu`, or the best one, under the validation layer if `validate`.
    pub(crate) fn open(gpu: Option<&str>, validate: bool) -> Result<Self, Failure> {
        let choice = gpu.map_or(Choice::Best, |name| Choice::Named(name.to_owned()));
        let desc = HeadlessDesc::default().on(choice);
        let desc = if validate { desc.validated() } else { desc };
        let headless = Headless::open(&desc).map_err(|error| not_opened(error, gpu))?;
        let about = |name: &str| format!("{name}, through Vulkan");
        let machine = Machine::new(headless.device(), "vulkan", None, |properties| about(&properties.name));
        Ok(Self { headless, machine })
    }
}

/// Why there is no device, and what helps.
fn not_opened(error: OpenError, gpu: Option<&str>) -> Failure {
    let help = match (&error, gpu) {
        (OpenError::NoDevice(names), Some(gpu)) if !names.is_empty() => {
            let names = names.join(", ");
            return Failure::Usage(format!("there is no Vulkan device named \"{gpu}\", only {names}"));
        }
        (
            OpenError::NoDevice(_)
            | OpenError::TooOld
            | OpenError::Vulkan(vk::Result::ERROR_INCOMPATIBLE_DRIVER),
            _,
        ) => NEEDS_DRIVER,
        (OpenError::NoLoader(_), _) => {
            "install it (libvulkan1, vulkan-loader or the Vulkan SDK) and a driver, or use --device host"
        }
        (OpenError::NoValidationLayer, _) => {
            "install it (vulkan-validationlayers or the Vulkan SDK), or leave out --validate"
        }
        _ => "use --device host to run without a driver",
    };
    Failure::NoDevice(format!("{error}: {help}"))
}

const NEEDS_DRIVER: &str =
    "install a driver (mesa-vulkan-drivers has one that needs no GPU), or use --device host";

impl Target for Vulkan {
    type Device = Device;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn device(&self) -> Device {
        self.headless.device().clone()
    }

    fn plan(&self, device: &Device, recorded: &Resource, _: ResourceKind) -> Result<Plan, Failure> {
        match recorded.kind() {
            RecordedKind::Buffer { usage } => Ok(Plan::Buffer(buffer(recorded, usage))),
            RecordedKind::Image => {
                for desc in recorded.image_shape().iter().flat_map(images::likely_uses) {
                    match device.image_requirements(&ImageInfo::from(desc)) {
                        Ok(_) => return Ok(Plan::Image(desc)),
                        Err(DeviceError::Unsupported) => {}
                        Err(error) => {
                            return Err(Failure::Unexpected(format!("what an image needs: {error}")));
                        }
                    }
                }
                Ok(Plan::BufferForImage(buffer(recorded, None)))
            }
        }
    }

    fn overlay_usage(&self) -> u64 {
        // "Copied from and to" is what the device adds by itself.
        0
    }

    fn sample_image(&self, intent: Intent) -> ImageDesc {
        let mut desc = ImageDesc::new(1024, 1024, vk::Format::R8G8B8A8_UNORM.as_raw().cast_unsigned());
        if intent == Intent::TransientAttachment {
            let usage = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT | vk::ImageUsageFlags::COLOR_ATTACHMENT;
            desc.usage = usage.as_raw().into();
        }
        desc
    }

    fn close(self) -> Vec<String> {
        let messages = Arc::clone(self.headless.messages());
        // Some things are only said at the end.
        drop(self);
        messages::told_once(messages.take())
    }
}

/// Usages that every device allows: those of Vulkan 1.0. Others need a feature, and memory does not depend on
/// them.
const USAGES: u32 = 0x1ff;

/// What a buffer is used for of which the trace does not know: what a program for computing would have.
const UNKNOWN: vk::BufferUsageFlags = vk::BufferUsageFlags::STORAGE_BUFFER;

/// A buffer that can be copied from and to as well, which the device adds by itself.
fn buffer(recorded: &Resource, usage: Option<u32>) -> BufferDesc {
    let usage = usage.unwrap_or(UNKNOWN.as_raw()) & USAGES;
    BufferDesc::new(recorded.size()).with_usage(usage.into())
}
