//! The devices that the command runs on: what differs between them, and nothing else.
//!
//! - `host`: the simulated device. A recorded resource becomes memory of the recorded size.
//! - `vulkan`, `d3d12`: a real driver. A recorded resource becomes a real buffer or image; `recorded` and
//!   `driver` are what both have in common.

#[cfg(any(all(feature = "d3d12", windows), test))]
mod d3d12;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod driver;
mod host;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows), test))]
mod recorded;
#[cfg(feature = "vulkan")]
mod vulkan;

use allotment::device::{BufferDesc, Device, DeviceProperties, ImageDesc, MemoryHeapBudget, MemoryHeapIndex};
use allotment::{MemoryUsage, Requirements, ResourceKind};
use allotment_trace::Resource;

use crate::args::{Api, Chosen};
use crate::failure::Failure;
pub(crate) use host::Host;

/// A device, opened.
pub(crate) trait Target {
    /// What the allocator runs over.
    type Device: Device;

    /// What to tell people and machines of it.
    fn machine(&self) -> &Machine;

    /// The device, for an allocator of its own.
    fn device(&self) -> Self::Device;

    /// What a recorded resource becomes on this device.
    fn plan(&self, device: &Self::Device, recorded: &Resource, kind: ResourceKind) -> Result<Plan, Failure>;

    /// The [usage](allotment::device::BufferDesc::usage) of a buffer that is laid over memory to get at the
    /// bytes in it.
    fn overlay_usage(&self) -> u64;

    /// An image as programs have them where the memory is for this.
    fn sample_image(&self, memory_usage: MemoryUsage) -> ImageDesc;

    /// Closes the device. Returns what its own checks found wrong, up to its end; nothing, if all is well.
    fn close(self) -> Vec<String>;
}

/// What came of something that was done on a device, which is closed: a failure where its checks found anything.
///
/// To be asked when the allocator has gone, so that what it does at the end is looked at too; and what the device saw
/// is the likely reason of a failure.
pub(crate) fn close_after<T>(target: impl Target, outcome: Result<T, Failure>) -> Result<T, Failure> {
    let complaints = target.close();
    match outcome {
        outcome if complaints.is_empty() => outcome,
        Ok(_) => Err(Failure::Complaints { complaints, failure: None }),
        Err(failure) => Err(Failure::Complaints { complaints, failure: Some(failure.into()) }),
    }
}

/// Something to do on a device, whichever it is.
pub(crate) trait Task {
    /// What comes of it.
    type Output;

    fn run(self, target: impl Target) -> Result<Self::Output, Failure>;
}

/// Opens the chosen device and does something on it.
pub(crate) fn on_device<T: Task>(chosen: Chosen, task: T) -> Result<T::Output, Failure> {
    match chosen {
        Chosen::Host(profile) => task.run(Host::new(profile)),
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

/// Why the command has no such driver, and what helps.
fn not_built_in(api: Api) -> &'static str {
    match api {
        Api::Direct3D12 if cfg!(not(windows)) => {
            "Direct3D 12 needs Windows: use --device vulkan or --device host"
        }
        Api::Direct3D12 => {
            "this command was built without Direct3D 12: build it with --features d3d12, or use --device host"
        }
        Api::Vulkan => {
            "this command was built without Vulkan: build it with --features vulkan, or use --device host"
        }
    }
}

/// What a recorded resource becomes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "vulkan", all(feature = "d3d12", windows), test)),
    expect(dead_code, reason = "the simulated device has no need of the rest")
)]
pub(crate) enum Plan {
    /// Memory, with nothing in it that the device knows of.
    Memory { requirements: Requirements },
    /// A buffer.
    Buffer(BufferDesc),
    /// An image.
    Image(ImageDesc),
    /// A buffer in the place of an image that the device cannot make.
    BufferForImage(BufferDesc),
}

/// What there is to tell of a device.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// As it is chosen on the command line.
    pub(crate) device: &'static str,
    /// Of the simulated device, as what it was made.
    pub(crate) profile: Option<&'static str>,
    /// In a sentence: "on …".
    pub(crate) about: String,
    pub(crate) properties: DeviceProperties,
    /// By heap, when the device was opened.
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
        // At most 16, as said at the field.
        let budgets = (0..properties.heaps.len() as u8).map(|heap| device.heap_budget(MemoryHeapIndex(heap)));
        Self { device: kind, profile, about: about(&properties), budgets: budgets.collect(), properties }
    }
}
