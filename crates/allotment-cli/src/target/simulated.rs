//! The simulated GPU: a resource is memory of the recorded size and alignment, rounded as the profile requires.

use allotment::device::ImageDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{Alignment, MemoryUsage, Requirements, ResourceKind};
use allotment_trace::Resource;

use super::{Machine, Plan, Target};
use crate::failure::Failure;

/// The simulated GPU.
#[derive(Debug)]
pub(crate) struct SimulatedTarget {
    device: SimulatedGpu,
    machine: Machine,
}

impl SimulatedTarget {
    pub(crate) fn new(profile: Profile) -> Self {
        let (name, about) = (profile.name, format!("the simulated GPU, as {}", profile.about));
        let device = SimulatedGpu::new(profile);
        Self { machine: Machine::new(&device, "simulated", Some(name), |_| about), device }
    }

    /// Returns the memory requirements of a recorded resource.
    fn needs(&self, recorded: &Resource, kind: ResourceKind) -> Result<Requirements, Failure> {
        let own = Requirements::new(recorded.size()).with_alignment(Alignment::new(recorded.alignment())?);
        Ok(self.device.requirements(kind, own))
    }
}

impl Target for SimulatedTarget {
    type Device = SimulatedGpu;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn device(&self) -> SimulatedGpu {
        self.device.clone()
    }

    fn plan(&self, _: &SimulatedGpu, recorded: &Resource, kind: ResourceKind) -> Result<Plan, Failure> {
        Ok(Plan::Memory { requirements: self.needs(recorded, kind)? })
    }

    fn overlay_usage(&self) -> u64 {
        SimulatedGpu::ANYWHERE
    }

    fn sample_image(&self, _: MemoryUsage) -> ImageDesc {
        // A format of the simulated GPU is its number of bytes per texel.
        ImageDesc::new(1024, 1024, 4)
    }

    fn close(self) -> Vec<String> {
        self.device.validation_errors()
    }
}
