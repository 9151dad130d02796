//! Which device an example runs on that needs nothing but memory and queues, as its arguments say.

use core::error::Error;

use allotment::Device;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment_headless::DeviceChoice;
use allotment_headless::vulkan::{Headless, HeadlessDesc};

use super::trace;

/// An example that runs on any device.
pub(crate) trait Example {
    /// The name of the example.
    const NAME: &'static str;

    /// Runs it.
    fn run<D: Device + Clone>(device: D) -> Result<(), Box<dyn Error>>;
}

/// Writes the function `main`, which calls a function with the device that the arguments name. The caller has this module as
/// `device`.
macro_rules! main {
    ($name:literal, $run:ident) => {
        struct Main;

        impl device::Example for Main {
            const NAME: &'static str = $name;

            fn run<D: allotment::Device + Clone>(device: D) -> Result<(), Box<dyn core::error::Error>> {
                $run(device)
            }
        }

        fn main() -> Result<(), Box<dyn core::error::Error>> {
            device::run::<Main>()
        }
    };
}
pub(crate) use main;

pub(crate) fn run<E: Example>() -> Result<(), Box<dyn Error>> {
    let arguments = trace::other_arguments(&[]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    run_on::<E>(&arguments)?;
    trace::finish()
}

fn run_on<E: Example>(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match *arguments {
        [] | ["simulated"] => simulated::<E>("discrete-no-bar"),
        ["simulated", profile] => simulated::<E>(profile),
        ["vulkan"] => {
            let choice = std::env::var("ALLOTMENT_VULKAN").map_or(DeviceChoice::Best, DeviceChoice::Named);
            E::run(Headless::open(&HeadlessDesc::default().with_device(choice))?.device().clone())
        }
        ["d3d12"] => d3d12::<E>(),
        _ => Err(format!(
            "{} [simulated [PROFILE] | vulkan | d3d12] [--trace FILE | --live ADDRESS [--wait]]",
            E::NAME
        )
        .into()),
    }
}

fn simulated<E: Example>(profile: &str) -> Result<(), Box<dyn Error>> {
    let device = SimulatedGpu::new(Profile::named(profile).ok_or("there is no such profile")?);
    E::run(device.clone())?;
    // It watches as a validation layer does.
    if device.validation_errors().is_empty() {
        Ok(())
    } else {
        Err(device.validation_errors().join("\n").into())
    }
}

#[cfg(windows)]
fn d3d12<E: Example>() -> Result<(), Box<dyn Error>> {
    use allotment_headless::d3d12::{Headless, HeadlessDesc};
    E::run(Headless::open(&HeadlessDesc::default())?.device().clone())
}

#[cfg(not(windows))]
fn d3d12<E: Example>() -> Result<(), Box<dyn Error>> {
    Err("Direct3D 12 is for Windows".into())
}
