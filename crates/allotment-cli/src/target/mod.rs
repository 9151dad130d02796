//! The devices that the command supports, and all differences between them.
//!
//! - `simulated`: the simulated GPU. A recorded resource becomes memory of the recorded size.
//! - `vulkan`, `d3d12`: a real driver. A recorded resource becomes a real buffer or image; `recorded` and `driver`
//!   are shared by both.

#[cfg(any(all(feature = "d3d12", windows), test))]
mod d3d12;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod driver;
#[cfg(test)]
mod maker;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows), test))]
mod recorded;
mod simulated;
#[cfg(feature = "vulkan")]
mod vulkan;

use allotment::device::{BufferDesc, Device, DeviceProperties, ImageDesc, MemoryHeapBudget, MemoryHeapIndex};
use allotment::{MemoryUsage, Requirements, ResourceKind};
use allotment_trace::Resource;

use crate::args::{Api, Chosen};
use crate::failure::Failure;
#[cfg(test)]
pub(crate) use maker::Maker;
pub(crate) use simulated::SimulatedTarget;

/// An open device.
pub(crate) trait Target {
    /// The device type of the allocator.
    type Device: Device;

    /// Returns the device's description for text and JSON output.
    fn machine(&self) -> &Machine;

    /// Returns the device, for a new allocator.
    fn device(&self) -> Self::Device;

    /// Returns what is created for a recorded resource on this device.
    fn plan(&self, device: &Self::Device, recorded: &Resource, kind: ResourceKind) -> Result<Plan, Failure>;

    /// Returns the [usage](allotment::device::BufferDesc::usage) of a buffer that aliases the memory of another
    /// resource, to access its bytes.
    fn overlay_usage(&self) -> u64;

    /// Returns the description of an image that is typical for the memory usage.
    fn sample_image(&self, memory_usage: MemoryUsage) -> ImageDesc;

    /// Closes the device. Returns its validation messages up to its end; none if all is well.
    fn close(self) -> Vec<String>;
}

/// Closes the device after a task. Returns the task's outcome, or a failure if validation found errors.
///
/// Called after the allocator is dropped, so that its cleanup is validated too. A validation error is the likely
/// cause of the task's own failure, so both are reported.
pub(crate) fn close_after<T>(target: impl Target, outcome: Result<T, Failure>) -> Result<T, Failure> {
    let messages = target.close();
    match outcome {
        outcome if messages.is_empty() => outcome,
        Ok(_) => Err(Failure::Validation { messages, failure: None }),
        Err(failure) => Err(Failure::Validation { messages, failure: Some(failure.into()) }),
    }
}

/// A task to run on a device of any kind.
pub(crate) trait Task {
    /// The result of the task.
    type Output;

    fn run(self, target: impl Target) -> Result<Self::Output, Failure>;
}

/// Opens the chosen device and runs a task on it.
pub(crate) fn on_device<T: Task>(chosen: Chosen, task: T) -> Result<T::Output, Failure> {
    match chosen {
        Chosen::Simulated(profile) => task.run(SimulatedTarget::new(profile)),
        Chosen::Driver(wanted) => match wanted.api {
            #[cfg(feature = "vulkan")]
            Api::Vulkan => task.run(vulkan::open(&wanted)?),
            #[cfg(all(feature = "d3d12", windows))]
            Api::Direct3D12 => task.run(d3d12::open(&wanted)?),
            #[allow(unreachable_patterns, reason = "where all drivers are built in")]
            api => Err(Failure::NoDevice(not_built_in(api).to_owned())),
        },
    }
}

/// Returns why this build has no such driver, and what to do.
fn not_built_in(api: Api) -> &'static str {
    match api {
        Api::Direct3D12 if cfg!(not(windows)) => {
            "Direct3D 12 needs Windows: use --device vulkan or --device simulated"
        }
        Api::Direct3D12 => {
            "this command was built without Direct3D 12: build it with --features d3d12, or use --device simulated"
        }
        Api::Vulkan => {
            "this command was built without Vulkan: build it with --features vulkan, or use --device simulated"
        }
    }
}

/// What is created for a recorded resource.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "vulkan", all(feature = "d3d12", windows), test)),
    expect(dead_code, reason = "the simulated GPU creates memory only")
)]
pub(crate) enum Plan {
    /// Memory, with nothing in it that the device knows of.
    Memory { requirements: Requirements },
    /// A buffer.
    Buffer(BufferDesc),
    /// An image.
    Image(ImageDesc),
    /// A buffer instead of an image that the device does not support.
    BufferForImage(BufferDesc),
}

/// The description of a device for the output.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The value of `--device`.
    pub(crate) device: &'static str,
    /// The profile of the simulated GPU.
    pub(crate) profile: Option<&'static str>,
    /// A phrase that completes "on …".
    pub(crate) about: String,
    pub(crate) properties: DeviceProperties,
    /// One per heap, from when the device was opened.
    pub(crate) budgets: Vec<MemoryHeapBudget>,
}

impl Machine {
    fn new<D: Device>(
        device: &D,
        kind: &'static str,
        profile: Option<&'static str>,
        about: impl FnOnce(&DeviceProperties) -> String,
    ) -> Self {
        let properties = device.properties().clone();
        // At most 16 heaps, as documented at the field.
        let budgets = (0..properties.heaps.len() as u8).map(|heap| device.heap_budget(MemoryHeapIndex(heap)));
        Self { device: kind, profile, about: about(&properties), budgets: budgets.collect(), properties }
    }
}
