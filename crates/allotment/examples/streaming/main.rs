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
#[path = "../common/plain_device.rs"]
mod plain_device;
mod world;

use core::error::Error;
use core::fmt::Debug;

use allotment::Device;

use flight::Flight;
use plain_device::Example;

const FRAMES: u64 = 300;

struct Streaming;

impl Example for Streaming {
    const NAME: &'static str = "streaming";

    fn run<D: Device + Clone + Debug>(device: D) -> Result<(), Box<dyn Error>> {
        fly(device)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    plain_device::run::<Streaming>()
}

fn fly<D: Device + Clone + Debug>(device: D) -> Result<(), Box<dyn Error>> {
    println!("device: {}", device.properties().name);
    let mut flight = Flight::new(device)?;
    for _ in 0..FRAMES {
        flight.frame()?;
    }
    flight.land()
}
