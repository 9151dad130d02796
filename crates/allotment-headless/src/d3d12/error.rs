//! Errors of opening a device.

use core::error::Error;
use core::fmt;

use allotment::device::DeviceError;

/// The reason why no device was opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// No adapter matches the choice. Contains the names of the available ones.
    NoDevice(Vec<String>),
    /// A Direct3D call failed.
    Direct3D(windows::core::Error),
    /// `allotment` could not create its device.
    Device(DeviceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice(found) if found.is_empty() => f.write_str("no Direct3D 12 device found"),
            Self::NoDevice(found) => write!(f, "no matching adapter among {}", found.join(", ")),
            Self::Direct3D(error) => write!(f, "Direct3D 12 call failed: {error}"),
            Self::Device(error) => write!(f, "could not create the device: {error}"),
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
