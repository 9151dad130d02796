//! Why there is no device.

use core::error::Error;
use core::fmt;

use allotment::device::DeviceError;
use ash::vk;

/// Why no device was opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no Vulkan loader on the machine.
    NoLoader(ash::LoadingError),
    /// There is no physical device that fits the choice. Those that there are, by name.
    NoDevice(Vec<String>),
    /// The validation layer is not installed.
    NoValidationLayer,
    /// The driver refused.
    Vulkan(vk::Result),
    /// The driver refused what `allotment` asked for.
    Device(DeviceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLoader(_) => f.write_str("there is no Vulkan loader on this machine"),
            Self::NoDevice(found) if found.is_empty() => {
                f.write_str("there is no Vulkan device on this machine")
            }
            Self::NoDevice(found) => write!(f, "there is no such Vulkan device among {}", found.join(", ")),
            Self::NoValidationLayer => f.write_str("VK_LAYER_KHRONOS_validation is not installed"),
            Self::Vulkan(result) => write!(f, "Vulkan refused: {result}"),
            Self::Device(error) => write!(f, "the device was refused: {error}"),
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
