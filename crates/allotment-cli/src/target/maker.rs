//! A simulated GPU that creates resources, which the command's own target does not: for tests of what real drivers do.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::device::{BufferDesc, ImageDesc};
use allotment::{MemoryUsage, ResourceKind};
use allotment_trace::{Resource, ResourceKind as RecordedKind};

use super::{Machine, Plan, SimulatedTarget, Target};
use crate::failure::Failure;

/// The simulated GPU, with buffers and images.
pub(crate) struct Maker {
    pub(crate) simulated: SimulatedTarget,
    pub(crate) overlay_usage: u64,
    /// The validation messages that it reports when closed.
    pub(crate) messages: Vec<String>,
}

impl Maker {
    pub(crate) fn of(profile: &str) -> Self {
        let simulated = SimulatedTarget::new(Profile::named(profile).unwrap());
        let overlay_usage = simulated.overlay_usage();
        Self { simulated, overlay_usage, messages: Vec::new() }
    }
}

impl Target for Maker {
    type Device = SimulatedGpu;

    fn machine(&self) -> &Machine {
        self.simulated.machine()
    }

    fn device(&self) -> SimulatedGpu {
        self.simulated.device()
    }

    fn plan(&self, _: &SimulatedGpu, recorded: &Resource, _: ResourceKind) -> Result<Plan, Failure> {
        let buffer = BufferDesc::new(recorded.size());
        Ok(match recorded.kind() {
            RecordedKind::Buffer { .. } => Plan::Buffer(buffer),
            RecordedKind::Image => recorded.image_shape().map_or(Plan::BufferForImage(buffer), |shape| {
                Plan::Image(ImageDesc::new(shape.extent[0], shape.extent[1], 4))
            }),
        })
    }

    fn overlay_usage(&self) -> u64 {
        self.overlay_usage
    }

    fn sample_image(&self, memory_usage: MemoryUsage) -> ImageDesc {
        self.simulated.sample_image(memory_usage)
    }

    fn close(self) -> Vec<String> {
        [self.messages, self.simulated.close()].concat()
    }
}
