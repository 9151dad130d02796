//! Opens a Vulkan device without a window.
//!
//! Finds the loader at run time, selects a physical device, opens one queue of each kind that it has, and
//! enables all features that [`allotment`] can use.
//!
//! The first device also creates an instance that lives until the process ends, so that the drivers stay loaded
//! however often devices are opened and closed.
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

pub use descriptors::Descriptors;
pub use error::OpenError;

use std::sync::Arc;

use allotment::device::MemoryDevice as _;
use allotment::device::vulkan;
use ash::vk;

use context::Context;

use crate::{DeviceChoice, Messages, Validation};

/// How many of a device's features and extensions are enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extensions {
    /// All that `allotment` can use, except device-coherent memory, which is slow.
    #[default]
    All,
    /// Only the required one: timeline semaphores.
    Needed,
}

/// The device to open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeadlessDesc {
    /// Whether the validation layer is enabled.
    pub validation: Validation,
    /// Which physical device.
    pub device: DeviceChoice,
    /// The highest version of Vulkan to use. With 1.0 the device has no queues.
    pub api_version: u32,
    /// How many features and extensions are enabled.
    pub extensions: Extensions,
    /// How many of them for descriptors.
    pub descriptors: Descriptors,
}

impl Default for HeadlessDesc {
    /// Describes the best device, with Vulkan 1.3 if supported, all extensions and no validation.
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
    /// Enables the validation layer.
    #[must_use]
    pub fn with_validation(mut self) -> Self {
        self.validation = Validation::On;
        self
    }

    /// Selects the physical device.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = device;
        self
    }

    /// Sets the highest version of Vulkan to use. Features that are core only in a later version come from
    /// extensions.
    #[must_use]
    pub fn with_api_version(mut self, api_version: u32) -> Self {
        self.api_version = api_version;
        self
    }

    /// Enables only what is required: no optional extensions, and no descriptor features.
    #[must_use]
    pub fn without_optional_extensions(mut self) -> Self {
        self.extensions = Extensions::Needed;
        self.descriptors = Descriptors::Off;
        self
    }

    /// Sets which descriptor features are enabled.
    #[must_use]
    pub fn with_descriptors(mut self, descriptors: Descriptors) -> Self {
        self.descriptors = descriptors;
        self
    }
}

/// An open device. It is closed when this and all clones of its [`device`](Self::device) are dropped.
#[derive(Debug)]
pub struct Headless {
    // Dropped before the context, which lives until the last clone is dropped.
    device: vulkan::Device,
    context: Arc<Context>,
}

impl Headless {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`], which names what the machine lacks.
    pub fn open(desc: &HeadlessDesc) -> Result<Self, OpenError> {
        open::open(desc).map(|(device, context)| Self { device, context })
    }

    /// Returns the `allotment` device.
    #[must_use]
    pub fn device(&self) -> &vulkan::Device {
        &self.device
    }

    /// Returns the physical device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.properties().name
    }

    /// Returns the Vulkan loader.
    #[must_use]
    pub fn entry(&self) -> &ash::Entry {
        &self.context.entry
    }

    /// Returns the instance.
    #[must_use]
    pub fn instance(&self) -> &ash::Instance {
        &self.context.instance
    }

    /// Returns the physical device.
    #[must_use]
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.context.physical_device
    }

    /// Returns the Vulkan device.
    #[must_use]
    pub fn raw(&self) -> &ash::Device {
        &self.context.device
    }

    /// Returns the version of Vulkan that is used.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.context.api_version
    }

    /// Returns true if the feature `sparseBinding` is enabled.
    #[must_use]
    pub fn sparse_binding(&self) -> bool {
        self.context.sparse_binding
    }

    /// Returns true if the feature `sparseResidencyBuffer` is enabled too: parts of a sparse buffer may have no memory.
    #[must_use]
    pub fn sparse_residency_buffer(&self) -> bool {
        self.context.sparse_residency
    }

    /// Returns the families of the queues, in the order of [`QueueIndex`](allotment::device::QueueIndex).
    #[must_use]
    pub fn queue_families(&self) -> &[u32] {
        &self.context.families
    }

    /// Returns the messages of the validation layer. They outlive the device, so that those about its
    /// destruction can be read.
    #[must_use]
    pub fn messages(&self) -> &Arc<Messages> {
        &self.context.messages
    }
}
