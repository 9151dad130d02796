//! Why a buffer has no device address.

use core::error::Error;
use core::fmt;

/// The reason why a buffer has no [device address](super::BufferDevice::device_address).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device, GpuDesc::default())?;
/// use allotment::device::AddressError;
/// use allotment::memory::AccessError;
///
/// // On Vulkan, a buffer without `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`.
/// let desc = BufferDesc::new(256).with_usage(SimulatedGpu::NO_DEVICE_ADDRESS);
/// let mesh = gpu.create_buffer(&desc, &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let refused = mesh.device_address().unwrap_err();
/// assert!(matches!(refused, AccessError::NoAddress { reason: AddressError::MissingUsage, .. }));
/// println!("{refused}"); // "mesh": the buffer has no device address: …
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressError {
    /// Buffers of this device have no addresses.
    Unsupported,
    /// The application did not enable Vulkan's `bufferDeviceAddress`: core since 1.2, from
    /// `VK_KHR_buffer_device_address` before. Enable it and pass `EnabledFeatures::BUFFER_DEVICE_ADDRESS`.
    NotEnabled,
    /// The buffer was created without `VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT`. Add it to the description.
    MissingUsage,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "buffers of this device have none, bind them by descriptors",
            Self::NotEnabled => {
                "the application did not enable bufferDeviceAddress (Vulkan 1.2 or VK_KHR_buffer_device_address): enable it and pass EnabledFeatures::BUFFER_DEVICE_ADDRESS"
            }
            Self::MissingUsage => {
                "it was created without VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, add the usage to its description"
            }
        })
    }
}

impl Error for AddressError {}
