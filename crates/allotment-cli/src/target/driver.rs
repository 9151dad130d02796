//! Real drivers: device selection, resources, and validation messages.

use std::sync::Arc;

use allotment::device::{Device, ImageDesc};
use allotment::{MemoryUsage, ResourceKind};
use allotment_headless::{DeviceChoice, Message, Messages};
use allotment_trace::Resource;

use super::recorded::Uses;
use super::{Machine, Plan, Target};
use crate::failure::Failure;

/// An open device of a graphics API.
pub(super) trait Open {
    type Device: Device + Clone;

    /// The value of `--device`.
    const NAME: &'static str;
    /// The API's name in messages.
    const TITLE: &'static str;
    /// The API's usage flags of recorded resources.
    const USES: Uses;
    /// Validation messages that are expected, each with the reason.
    const ALLOWED: &'static [(&'static str, &'static str)];

    fn device(&self) -> &Self::Device;

    /// Returns the validation messages up to the device's end; `None` if validation is off.
    fn messages(&self) -> Option<&Arc<Messages>>;

    /// Returns the description of an image that is typical for the memory usage.
    fn sample_image(memory_usage: MemoryUsage) -> ImageDesc;
}

/// A real driver: a recorded buffer becomes a buffer of the same size and usage; a recorded image becomes an image
/// if its name has a format and an extent and the device supports them.
#[derive(Debug)]
pub(super) struct Driver<O> {
    open: O,
    machine: Machine,
}

impl<O: Open> Driver<O> {
    pub(super) fn new(open: O) -> Self {
        let about = |name: &str| format!("{name}, through {}", O::TITLE);
        let machine = Machine::new(open.device(), O::NAME, None, |properties| about(&properties.name));
        Self { open, machine }
    }
}

impl<O: Open> Target for Driver<O> {
    type Device = O::Device;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn device(&self) -> O::Device {
        self.open.device().clone()
    }

    fn plan(&self, device: &O::Device, recorded: &Resource, _: ResourceKind) -> Result<Plan, Failure> {
        O::USES.plan(device, recorded)
    }

    fn overlay_usage(&self) -> u64 {
        // Transfer usage is added by every device itself.
        0
    }

    fn sample_image(&self, memory_usage: MemoryUsage) -> ImageDesc {
        O::sample_image(memory_usage)
    }

    fn close(self) -> Vec<String> {
        let Some(messages) = self.open.messages().map(Arc::clone) else { return Vec::new() };
        // Some messages are reported only when the device is destroyed.
        drop(self);
        summarize(messages.take(), O::ALLOWED)
    }
}

/// Returns the selection of a device: by a part of its name, or the best one.
pub(super) fn choice(gpu: Option<&str>) -> DeviceChoice {
    gpu.map_or(DeviceChoice::Best, |name| DeviceChoice::Named(name.to_owned()))
}

/// Returns the failure for a name that none of the API's devices has.
pub(super) fn no_such(api: &str, gpu: &str, names: &[String]) -> Failure {
    Failure::Usage(format!("no {api} device is named \"{gpu}\"; the devices are {}", names.join(", ")))
}

/// Returns the first message of each violated rule with the number of messages, except those of `allowed` rules.
fn summarize(messages: Vec<Message>, allowed: &[(&str, &str)]) -> Vec<String> {
    let mut rules: Vec<(Message, usize)> = Vec::new();
    let is_allowed = |message: &Message| allowed.iter().any(|(id, _)| *id == message.id);
    for message in messages.into_iter().filter(|message| !is_allowed(message)) {
        match rules.iter_mut().find(|(first, _)| first.id == message.id) {
            Some((_, times)) => *times += 1,
            None => rules.push((message, 1)),
        }
    }
    let text = |(message, times): (Message, usize)| match times {
        1 => message.to_string().trim().to_owned(),
        _ => format!("{times} times: {}", message.to_string().trim()),
    };
    rules.into_iter().map(text).collect()
}
