//! Opens a Direct3D 12 device without a window.
//!
//! Selects an adapter, creates a device on it and one queue of each kind. The adapters are enumerated once per
//! process, since that takes a third of a second on some systems.
//!
//! ```no_run
//! use allotment::{Allocator, AllocatorDesc};
//! use allotment_headless::d3d12::{Headless, HeadlessDesc};
//!
//! let headless = Headless::open(&HeadlessDesc::default())?;
//! let allocator = Allocator::new(headless.device().clone(), AllocatorDesc::default())?;
//! println!("{}", headless.name());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapters;
mod debug_layer;
mod error;

pub use error::OpenError;

use std::sync::Arc;

use allotment::device::MemoryDevice as _;
use allotment::device::d3d12::{Device, DeviceDesc};
use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::IDXGIAdapter3;

use crate::{DeviceChoice, Messages, Validation};
use debug_layer::DebugLayer;

/// The device to open.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HeadlessDesc {
    /// Whether the debug layer is enabled, if the runtime has one. It is enabled for all devices of a process or
    /// for none: the first device decides.
    pub validation: Validation,
    /// Which adapter.
    pub device: DeviceChoice,
}

impl HeadlessDesc {
    /// Enables the debug layer, if the runtime has one.
    #[must_use]
    pub fn with_validation(mut self) -> Self {
        self.validation = Validation::On;
        self
    }

    /// Selects the adapter.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = device;
        self
    }
}

/// An open device. It is closed when this and all clones of its [`device`](Self::device) are dropped, together
/// with all others that the process has opened on the same adapter: for the runtime they are one device.
#[derive(Debug)]
pub struct Headless {
    device: Device,
    debug_layer: Option<DebugLayer>,
}

impl Headless {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`], which names what the machine lacks.
    pub fn open(desc: &HeadlessDesc) -> Result<Self, OpenError> {
        Self::open_as(desc, |desc| desc)
    }

    /// Opens a device with a description changed by `adapt`: with custom heaps, on a lower heap tier.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_as(
        desc: &HeadlessDesc,
        adapt: impl FnOnce(DeviceDesc) -> DeviceDesc,
    ) -> Result<Self, OpenError> {
        let adapter = adapters::choose(&desc.device)?;
        let watch = debug_layer::is_on(desc.validation) && desc.validation == Validation::On;
        let raw = make_device(&adapter)?;
        let debug_layer = watch.then(|| DebugLayer::of(&raw)).flatten();
        let mut described = DeviceDesc::new(raw.clone(), adapter);
        let kinds =
            [D3D12_COMMAND_LIST_TYPE_DIRECT, D3D12_COMMAND_LIST_TYPE_COMPUTE, D3D12_COMMAND_LIST_TYPE_COPY];
        for kind in kinds {
            let queue = D3D12_COMMAND_QUEUE_DESC { Type: kind, ..Default::default() };
            // SAFETY: the device is live.
            described = described.with_queue(unsafe { raw.CreateCommandQueue(&queue) }?);
        }
        let device = Device::new(adapt(described)).map_err(OpenError::Device)?;
        Ok(Self { device, debug_layer })
    }

    /// Returns the `allotment` device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the adapter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.properties().name
    }

    /// Returns the messages of the debug layer; `None` if this device or the first one of the process did not
    /// enable it, or if the runtime has none. They outlive the device. Devices on the same adapter share them.
    #[must_use]
    pub fn messages(&self) -> Option<&Arc<Messages>> {
        self.debug_layer.as_ref().map(DebugLayer::messages)
    }
}

fn make_device(adapter: &IDXGIAdapter3) -> Result<ID3D12Device, OpenError> {
    let mut device = None;
    // SAFETY: the adapter is live, and the runtime writes the interface to `device`.
    unsafe { D3D12CreateDevice(adapter, D3D_FEATURE_LEVEL_11_0, &mut device) }?;
    device.ok_or(OpenError::NoDevice(Vec::new()))
}
