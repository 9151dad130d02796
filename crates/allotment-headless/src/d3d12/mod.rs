//! A Direct3D 12 device without a window.
//!
//! Takes an adapter, makes a device on it and one queue of each kind. The adapters are asked for once a
//! process, since some systems take a third of a second to name them.
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
mod reader;

pub use error::OpenError;
pub use reader::D3d12Reader;

use std::sync::Arc;

use allotment::Device as _;
use allotment::device::d3d12::{Device, DeviceDesc};
use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::IDXGIAdapter3;

use crate::{DeviceChoice, Messages, Validation};
use debug_layer::DebugLayer;

/// What is to be opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HeadlessDesc {
    /// Whether the debug layer watches, where the runtime has one. It does so for all devices of a process or
    /// for none: the first decides.
    pub validation: Validation,
    /// Which adapter.
    pub device: DeviceChoice,
}

impl HeadlessDesc {
    /// The same with a debug layer that watches, where the runtime has one.
    #[must_use]
    pub fn with_validation(mut self) -> Self {
        self.validation = Validation::On;
        self
    }

    /// The same on another adapter.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = device;
        self
    }
}

/// An open device. It is closed when this and all clones of its [`device`](Self::device) are gone, and with it
/// what else the process has opened on the same adapter: to the runtime they are one device.
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
    /// [`OpenError`] says what the machine lacks.
    pub fn open(desc: &HeadlessDesc) -> Result<Self, OpenError> {
        Self::open_as(desc, |desc| desc)
    }

    /// Opens a device as `adapt` has it: with custom heaps, on a lower heap tier.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
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

    /// The device as `allotment` sees it.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The adapter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.properties().name
    }

    /// What the debug layer says; `None` where it was not asked for, by the first device of the process too,
    /// or where the runtime has none. Outlives the device. Devices on the same adapter share what is said.
    #[must_use]
    pub fn messages(&self) -> Option<&Arc<Messages>> {
        self.debug_layer.as_ref().map(DebugLayer::messages)
    }
}

fn make_device(adapter: &IDXGIAdapter3) -> Result<ID3D12Device, OpenError> {
    let mut device = None;
    // SAFETY: the adapter is live, and the device is written where it is wanted.
    unsafe { D3D12CreateDevice(adapter, D3D_FEATURE_LEVEL_11_0, &mut device) }?;
    device.ok_or(OpenError::NoDevice(Vec::new()))
}
