//! A Vulkan device without a window.
//!
//! Finds the loader at run time, takes a physical device, opens one queue of each kind that it has, and
//! enables whatever of the device [`allotment`] can use.
//!
//! The first device brings an instance along that stays until the process ends, so that the drivers stay
//! loaded however often devices are opened and closed.
//!
//! ```no_run
//! use allotment::{Allocator, AllocatorDesc};
//! use allotment_headless::vulkan::{Headless, HeadlessDesc};
//!
//! let headless = Headless::open(&HeadlessDesc::default())?;
//! let allocator = Allocator::new(headless.device().clone(), AllocatorDesc::default())?;
//! println!("{}", headless.name());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context;
mod descriptors;
mod error;
mod messenger;
mod open;
mod reader;

pub use descriptors::Descriptors;
pub use error::OpenError;
pub use reader::VulkanReader;

use std::sync::Arc;

use allotment::Device as _;
use allotment::device::vulkan;
use ash::vk;

use context::Context;

use crate::{DeviceChoice, Messages, Validation};

/// How much of what a device offers is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extensions {
    /// All that `allotment` can use, but memory that is coherent among devices: it is slow.
    #[default]
    All,
    /// What it cannot do without: timeline semaphores.
    Needed,
}

/// What is to be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeadlessDesc {
    /// Whether a validation layer watches.
    pub validation: Validation,
    /// Which physical device.
    pub device: DeviceChoice,
    /// The newest version of Vulkan to use. With 1.0 the device has no queues.
    pub api_version: u32,
    /// How much is enabled.
    pub extensions: Extensions,
    /// How much of that is for descriptors.
    pub descriptors: Descriptors,
}

impl Default for HeadlessDesc {
    /// The best device, Vulkan 1.3 where there is that, all extensions, no validation.
    fn default() -> Self {
        Self {
            validation: Validation::Off,
            device: DeviceChoice::Best,
            api_version: vk::API_VERSION_1_3,
            extensions: Extensions::All,
            descriptors: Descriptors::Best,
        }
    }
}

impl HeadlessDesc {
    /// The same with a validation layer that watches.
    #[must_use]
    pub fn with_validation(mut self) -> Self {
        self.validation = Validation::On;
        self
    }

    /// The same on another physical device.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = device;
        self
    }

    /// The same with a version of Vulkan, and with extensions for what is core only later.
    #[must_use]
    pub fn of_version(mut self, api_version: u32) -> Self {
        self.api_version = api_version;
        self
    }

    /// The same with little enabled: nothing for descriptors, either.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.extensions = Extensions::Needed;
        self.descriptors = Descriptors::Off;
        self
    }

    /// The same with so much for descriptors.
    #[must_use]
    pub fn with_descriptors(mut self, descriptors: Descriptors) -> Self {
        self.descriptors = descriptors;
        self
    }
}

/// An open device. It is closed when this and all clones of its [`device`](Self::device) are gone.
#[derive(Debug)]
pub struct Headless {
    // Before the context, which goes with the last clone.
    device: vulkan::Device,
    context: Arc<Context>,
}

impl Headless {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what the machine lacks.
    pub fn open(desc: &HeadlessDesc) -> Result<Self, OpenError> {
        open::open(desc).map(|(device, context)| Self { device, context })
    }

    /// The device as `allotment` sees it.
    #[must_use]
    pub fn device(&self) -> &vulkan::Device {
        &self.device
    }

    /// The physical device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.properties().name
    }

    /// The loader.
    #[must_use]
    pub fn entry(&self) -> &ash::Entry {
        &self.context.entry
    }

    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &ash::Instance {
        &self.context.instance
    }

    /// The physical device.
    #[must_use]
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.context.physical_device
    }

    /// The device.
    #[must_use]
    pub fn raw(&self) -> &ash::Device {
        &self.context.device
    }

    /// The version of Vulkan that is used.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.context.api_version
    }

    /// True where the feature `sparseBinding` is enabled.
    #[must_use]
    pub fn sparse_binding(&self) -> bool {
        self.context.sparse_binding
    }

    /// The families of the queues, in the order of [`QueueIndex`](allotment::device::QueueIndex).
    #[must_use]
    pub fn queue_families(&self) -> &[u32] {
        &self.context.families
    }

    /// What the validation layer says. Outlives the device, so that what is said of its end can be read.
    #[must_use]
    pub fn messages(&self) -> &Arc<Messages> {
        &self.context.messages
    }
}
