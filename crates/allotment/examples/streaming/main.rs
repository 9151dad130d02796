//! A camera flies through a world that does not fit into memory: meshes come in before it and are dropped behind it.
//!
//! ```sh
//! cargo run --release --example streaming -p allotment               # on the simulated device
//! cargo run --release --example streaming -p allotment -- vulkan     # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example streaming -p allotment -- d3d12      # on Windows
//! ```
//!
//! `flight.rs` is the same for all three; nothing in it waits before it drops something, or remembers until when. What
//! each frame puts together on the device comes back, and the CPU compares every byte. Once the sizes of the meshes
//! have come round, a frame gets no memory from the driver and none from the heap, or this fails.

#[path = "../common/cost.rs"]
mod cost;
#[path = "../../tests/common/counting.rs"]
mod counting;
mod flight;
mod world;

use core::error::Error;
use core::fmt::Debug;

use allotment::Device;
use allotment::device::host::{HostDevice, Profile};
use allotment_headless::Choice;
use allotment_headless::vulkan::{Headless, HeadlessDesc};

use flight::Flight;

const FRAMES: u64 = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        [] | ["host"] => simulated("discrete-no-bar"),
        ["host", profile] => simulated(profile),
        ["vulkan"] => {
            let choice = std::env::var("ALLOTMENT_VULKAN").map_or(Choice::Best, Choice::Named);
            fly(Headless::open(&HeadlessDesc::default().on(choice))?.device().clone())
        }
        ["d3d12"] => d3d12(),
        _ => Err("streaming [host [PROFILE] | vulkan | d3d12]".into()),
    }
}

fn simulated(profile: &str) -> Result<(), Box<dyn Error>> {
    let device = HostDevice::new(Profile::named(profile).ok_or("there is no such profile")?);
    fly(device.clone())?;
    // It watches as a validation layer does.
    if device.complaints().is_empty() { Ok(()) } else { Err(device.complaints().join("\n").into()) }
}

#[cfg(windows)]
fn d3d12() -> Result<(), Box<dyn Error>> {
    use allotment_headless::d3d12::{Headless, HeadlessDesc};
    fly(Headless::open(&HeadlessDesc::default())?.device().clone())
}

#[cfg(not(windows))]
fn d3d12() -> Result<(), Box<dyn Error>> {
    Err("Direct3D 12 is for Windows".into())
}

fn fly<D: Device + Clone + Debug>(device: D) -> Result<(), Box<dyn Error>> {
    println!("device: {}", device.properties().name);
    let mut flight = Flight::new(device)?;
    for _ in 0..FRAMES {
        flight.frame()?;
    }
    flight.land()
}
