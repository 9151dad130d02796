//! Opens graphics devices without a window: for tests, tools, examples and benchmarks.
//!
//! - [`vulkan`]: on every machine with a Vulkan loader.
//! - `d3d12`: on Windows.
//!
//! With [`Validation::On`], all messages of the validation layer are recorded.

#[cfg(windows)]
pub mod d3d12;
mod messages;
pub mod vulkan;

pub use messages::{Message, Messages, Severity};

/// Whether a validation layer is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// No validation layer.
    #[default]
    Off,
    /// On Vulkan `VK_LAYER_KHRONOS_validation`, with synchronization validation and best practices; on
    /// Direct3D 12 the debug layer.
    On,
}

/// Which physical device to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first that is a real GPU, otherwise the first device.
    #[default]
    Best,
    /// By its index in the system's order, from 0.
    Index(usize),
    /// The first whose name contains this text, ignoring case.
    Named(String),
}

impl DeviceChoice {
    /// Returns the index of the chosen device among `devices`, or `None`.
    pub(crate) fn among<T>(
        &self,
        devices: &[T],
        is_gpu: impl Fn(&T) -> bool,
        name: impl Fn(&T) -> String,
    ) -> Option<usize> {
        match self {
            Self::Best => devices.iter().position(is_gpu).or((!devices.is_empty()).then_some(0)),
            Self::Index(index) => (*index < devices.len()).then_some(*index),
            Self::Named(part) => {
                let part = part.to_lowercase();
                devices.iter().position(|device| name(device).to_lowercase().contains(&part))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_gpu_comes_before_others_and_a_name_is_found_in_any_case() {
        let devices = ["llvmpipe", "GeForce", "Radeon"];
        let chosen = |choice: DeviceChoice| {
            choice.among(&devices, |name| *name != "llvmpipe", |name| (*name).to_owned())
        };
        assert_eq!(chosen(DeviceChoice::Best), Some(1));
        assert_eq!(chosen(DeviceChoice::Index(2)), Some(2));
        assert_eq!(chosen(DeviceChoice::Index(3)), None);
        assert_eq!(chosen(DeviceChoice::Named("radeon".into())), Some(2));
        assert_eq!(chosen(DeviceChoice::Named("arc".into())), None);
        let none = DeviceChoice::Best.among(&[] as &[&str], |_| true, |name| (*name).to_owned());
        assert_eq!(none, None);
    }
}
