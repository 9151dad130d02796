//! The simulated device: resources are memory of the recorded size and alignment, as the profile rounds them.

use allotment::device::ImageDesc;
use allotment::device::host::{HostDevice, Profile};
use allotment::{Alignment, Intent, Requirements, ResourceKind};
use allotment_trace::Resource;

use super::{Machine, Plan, Target};
use crate::failure::Failure;

/// The simulated device.
#[derive(Debug)]
pub(crate) struct Host {
    device: HostDevice,
    machine: Machine,
}

impl Host {
    pub(crate) fn new(profile: Profile) -> Self {
        let (name, about) = (profile.name, format!("the simulated device, as {}", profile.about));
        let device = HostDevice::new(profile);
        Self { machine: Machine::new(&device, "host", Some(name), |_| about), device }
    }
}

impl Target for Host {
    type Device = HostDevice;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn device(&self) -> HostDevice {
        self.device.clone()
    }

    fn plan(&self, device: &HostDevice, recorded: &Resource, kind: ResourceKind) -> Result<Plan, Failure> {
        let own = Requirements::new(recorded.size()).aligned(Alignment::new(recorded.alignment())?);
        Ok(Plan::Memory { requirements: device.requirements(kind, own), kind })
    }

    fn overlay_usage(&self) -> u64 {
        HostDevice::ANYWHERE
    }

    fn sample_image(&self, _: Intent) -> ImageDesc {
        // Here a format is its bytes a texel.
        ImageDesc::new(1024, 1024, 4)
    }

    fn close(self) -> Vec<String> {
        self.device.complaints()
    }
}
