//! Errors of opening a device.

use core::error::Error;
use core::fmt;

use allotment::device::DeviceError;
use ash::vk;

/// The reason why no device was opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The machine has no Vulkan loader.
    NoLoader(ash::LoadingError),
    /// No physical device matches the choice. Contains the names of the available ones.
    NoDevice(Vec<String>),
    /// The validation layer is not installed.
    NoValidationLayer,
    /// A Vulkan call failed.
    Vulkan(vk::Result),
    /// `allotment` could not create its device.
    Device(DeviceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLoader(_) => f.write_str("no Vulkan loader found"),
            Self::NoDevice(found) if found.is_empty() => f.write_str("no Vulkan device found"),
            Self::NoDevice(found) => write!(f, "no matching Vulkan device among {}", found.join(", ")),
            Self::NoValidationLayer => f.write_str("VK_LAYER_KHRONOS_validation is not installed"),
            Self::Vulkan(result) => write!(f, "Vulkan call failed: {result}"),
            Self::Device(error) => write!(f, "could not create the device: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoLoader(error) => Some(error),
            Self::Vulkan(error) => Some(error),
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<vk::Result> for OpenError {
    fn from(result: vk::Result) -> Self {
        Self::Vulkan(result)
    }
}
