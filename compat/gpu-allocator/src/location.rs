//! Where memory lies, and what that means to Allotment.

use allotment::MemoryUsage;
use allotment::device::{DeviceProperties, MemoryProperties, MemoryTypeMask};

/// Where memory lies, and who reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryLocation {
    /// Anywhere that the resource allows.
    Unknown,
    /// Memory of the device.
    GpuOnly,
    /// Memory that the CPU writes; the device's, where the CPU can reach it.
    CpuToGpu,
    /// Memory that the CPU reads.
    GpuToCpu,
}

impl MemoryLocation {
    /// Returns what the memory is for.
    pub(crate) fn usage(self) -> MemoryUsage {
        match self {
            Self::Unknown | Self::GpuOnly => MemoryUsage::GpuOnly,
            // Whoever asks for it takes the pointer for granted, so memory that must be staged to will not do.
            Self::CpuToGpu => MemoryUsage::DeviceMapped,
            Self::GpuToCpu => MemoryUsage::Readback,
        }
    }
}

/// The memory types that each location may be in. They are worked out once: a mask keeps a request on the allocator's
/// short path, where required properties of its own would not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedTypes {
    all: MemoryTypeMask,
    device: MemoryTypeMask,
    /// Users of gpu-allocator neither flush nor invalidate.
    coherent: MemoryTypeMask,
}

impl AllowedTypes {
    pub(crate) fn new(properties: &DeviceProperties) -> Self {
        let with = |wanted: MemoryProperties| {
            let types = properties.indexed_types().filter(|(_, found)| found.properties.contains(wanted));
            MemoryTypeMask(types.fold(0, |mask, (index, _)| mask | 1 << index.get()))
        };
        Self {
            all: with(MemoryProperties::empty()),
            device: with(MemoryProperties::DEVICE_LOCAL),
            coherent: with(MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT),
        }
    }

    /// Returns which of the types that a resource allows are in a location.
    pub(crate) fn of(&self, location: MemoryLocation, allowed: MemoryTypeMask) -> MemoryTypeMask {
        let mask = match location {
            MemoryLocation::Unknown => self.all,
            MemoryLocation::GpuOnly => self.device,
            MemoryLocation::CpuToGpu | MemoryLocation::GpuToCpu => self.coherent,
        };
        MemoryTypeMask(allowed.0 & mask.0)
    }
}
