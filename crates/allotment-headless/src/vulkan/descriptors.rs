//! What of descriptors a device is opened with.

use allotment::device::vulkan::{DescriptorModel, EnabledFeatures};

use super::{Extensions, HeadlessDesc};

/// What is enabled for descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// All that there is: buffers where the device has them, else sets.
    #[default]
    Best,
    /// The same, and heaps are of one model, without which no device is opened.
    Model(DescriptorModel),
    /// Nothing.
    Off,
}

impl HeadlessDesc {
    /// What is to be enabled of all that is supported.
    pub(super) fn wanted(&self) -> EnabledFeatures {
        let mut wanted = match self.extensions {
            Extensions::All => EnabledFeatures::all(),
            Extensions::Needed => EnabledFeatures::TIMELINE_SEMAPHORE,
        };
        let sets = EnabledFeatures::DESCRIPTOR_INDEXING | EnabledFeatures::NULL_DESCRIPTOR;
        let buffers = EnabledFeatures::DESCRIPTOR_BUFFER | EnabledFeatures::MUTABLE_DESCRIPTOR_TYPE;
        match self.descriptors {
            Descriptors::Best | Descriptors::Model(DescriptorModel::Buffer) => {}
            Descriptors::Model(DescriptorModel::Sets) => wanted -= buffers,
            Descriptors::Off => wanted -= sets | buffers,
        }
        wanted
    }
}
