//! Opens a Direct3D 12 device.

use std::sync::Arc;

use allotment::MemoryUsage;
use allotment::device::ImageDesc;
use allotment::device::d3d12::Device;
use allotment_headless::Messages;
use allotment_headless::d3d12::{Headless, HeadlessDesc, OpenError};

use super::resources;
use crate::args::Wanted;
use crate::failure::Failure;
use crate::target::driver::{self, Driver, Open};
use crate::target::recorded::Uses;

/// Opens the requested device.
pub(in crate::target) fn open(wanted: &Wanted) -> Result<Driver<Headless>, Failure> {
    let gpu = wanted.gpu.as_deref();
    let desc = HeadlessDesc::default().with_device(driver::choice(gpu));
    let desc = if wanted.validate { desc.with_validation() } else { desc };
    let headless = Headless::open(&desc).map_err(|error| not_opened(&error, gpu))?;
    if wanted.validate && headless.messages().is_none() {
        return Err(Failure::NoDevice(NO_DEBUG_LAYER.to_owned()));
    }
    Ok(Driver::new(headless))
}

const NO_DEBUG_LAYER: &str = "the Direct3D 12 runtime of this machine has no debug layer: install Graphics Tools \
    (Windows settings, optional features), or leave out --validate";

const NEEDS_DRIVER: &str =
    "Direct3D 12 needs Windows 10 or later and a graphics driver that supports it; or use --device simulated";

/// Returns the failure with advice.
fn not_opened(error: &OpenError, gpu: Option<&str>) -> Failure {
    match (error, gpu) {
        (OpenError::NoDevice(names), Some(gpu)) if !names.is_empty() => {
            driver::no_such("Direct3D 12", gpu, names)
        }
        _ => Failure::NoDevice(format!("{error}: {NEEDS_DRIVER}")),
    }
}

impl Open for Headless {
    type Device = Device;

    const NAME: &'static str = "d3d12";
    const TITLE: &'static str = "Direct3D 12";
    const USES: Uses = resources::USES;
    const ALLOWED: &'static [(&'static str, &'static str)] = &[];

    fn device(&self) -> &Device {
        self.device()
    }

    fn messages(&self) -> Option<&Arc<Messages>> {
        self.messages()
    }

    fn sample_image(memory_usage: MemoryUsage) -> ImageDesc {
        resources::sample_image(memory_usage)
    }
}
