//! Real drivers: how one is chosen, what the command does with it, and what is heard of its own checks.

use std::sync::Arc;

use allotment::device::{Device, ImageDesc};
use allotment::{MemoryUsage, ResourceKind};
use allotment_headless::{DeviceChoice, Message, Messages};
use allotment_trace::Resource;

use super::recorded::Uses;
use super::{Machine, Plan, Target};
use crate::failure::Failure;

/// An API's device while it is open.
pub(super) trait Open {
    type Device: Device + Clone;

    /// As it is chosen on the command line.
    const NAME: &'static str;
    /// As people know the API.
    const TITLE: &'static str;
    /// What recorded resources are used for, in the API's words.
    const USES: Uses;
    /// What its checks say of things that are as they should be, each with why they are.
    const ALLOWED: &'static [(&'static str, &'static str)];

    fn device(&self) -> &Self::Device;

    /// What its checks say, up to its end; `None` where nobody watches.
    fn messages(&self) -> Option<&Arc<Messages>>;

    /// An image as programs have them where the memory is for this.
    fn sample_image(memory_usage: MemoryUsage) -> ImageDesc;
}

/// A real driver: buffers are buffers of the recorded size and usage, images are images where their name says
/// which and the device can make them.
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
        // "Copied from and to" is what every device adds by itself.
        0
    }

    fn sample_image(&self, memory_usage: MemoryUsage) -> ImageDesc {
        O::sample_image(memory_usage)
    }

    fn close(self) -> Vec<String> {
        let Some(messages) = self.open.messages().map(Arc::clone) else { return Vec::new() };
        // Some things are only said at the end.
        drop(self);
        told_once(messages.take(), O::ALLOWED)
    }
}

/// The device whose name contains `gpu`, or the best one.
pub(super) fn choice(gpu: Option<&str>) -> DeviceChoice {
    gpu.map_or(DeviceChoice::Best, |name| DeviceChoice::Named(name.to_owned()))
}

/// There are devices of the API, and none has `gpu` in its name.
pub(super) fn no_such(api: &str, gpu: &str, names: &[String]) -> Failure {
    Failure::Usage(format!("there is no {api} device named \"{gpu}\", only {}", names.join(", ")))
}

/// Of each rule that was broken the first message, and how many there were; without those `allowed`.
fn told_once(messages: Vec<Message>, allowed: &[(&str, &str)]) -> Vec<String> {
    let mut rules: Vec<(Message, usize)> = Vec::new();
    let is_allowed = |message: &Message| allowed.iter().any(|(id, _)| *id == message.id);
    for message in messages.into_iter().filter(|message| !is_allowed(message)) {
        match rules.iter_mut().find(|(first, _)| first.id == message.id) {
            Some((_, times)) => *times += 1,
            None => rules.push((message, 1)),
        }
    }
    let told = |(message, times): (Message, usize)| match times {
        1 => message.to_string().trim().to_owned(),
        _ => format!("{times} times: {}", message.to_string().trim()),
    };
    rules.into_iter().map(told).collect()
}
