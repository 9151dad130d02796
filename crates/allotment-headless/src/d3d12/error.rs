//! Why there is no device.

use core::error::Error;
use core::fmt;

use allotment::device::DeviceError;

/// Why no device was opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no adapter that fits the choice. Those that there are, by name.
    NoDevice(Vec<String>),
    /// The runtime refused.
    Direct3D(windows::core::Error),
    /// The runtime refused what `allotment` asked for.
    Device(DeviceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice(found) if found.is_empty() => {
                f.write_str("there is no Direct3D 12 device on this machine")
            }
            Self::NoDevice(found) => write!(f, "there is no such adapter among {}", found.join(", ")),
            Self::Direct3D(error) => write!(f, "Direct3D 12 refused: {error}"),
            Self::Device(error) => write!(f, "the device was refused: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Direct3D(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::NoDevice(_) => None,
        }
    }
}

impl From<windows::core::Error> for OpenError {
    fn from(error: windows::core::Error) -> Self {
        Self::Direct3D(error)
    }
}
