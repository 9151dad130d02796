//! The descriptor features that a device is opened with.

use allotment::device::vulkan::{DescriptorModel, EnabledFeatures};

use super::{Extensions, HeadlessDesc};

/// Which descriptor features are enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// All supported ones: descriptor buffers if supported, otherwise descriptor sets.
    #[default]
    Best,
    /// All supported ones, with heaps of one model. Opening fails if it is not supported.
    Model(DescriptorModel),
    /// None.
    Off,
}

impl HeadlessDesc {
    /// Returns the features to enable if supported.
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
