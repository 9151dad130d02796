//! Ten thousand draws a frame, each with tables of its own: the material's, which lives long, and the draw's, which is
//! copied to where the recording has room.
//!
//! ```sh
//! cargo run --release --example draw_tables -p allotment                 # on the simulated device
//! cargo run --release --example draw_tables -p allotment -- vulkan       # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example draw_tables -p allotment -- vulkan sets  # without descriptor buffers
//! cargo run --release --example draw_tables -p allotment -- d3d12        # on Windows
//! ```
//!
//! `frames.rs` is the same for all of them. What the GPU read through each descriptor of each draw comes back, and the
//! CPU compares every value with what was bound when the draw was recorded: materials change between draws, and while
//! earlier frames are in flight. A steady frame gets no memory from the driver and none from Rust's heap, or this fails.
//! `samplers.rs` gives samplers to ten thousand sets, which have room for all of them in eight slots.

#[path = "../common/cells.rs"]
mod cells;
#[path = "../common/cost.rs"]
mod cost;
#[path = "../../tests/common/counting.rs"]
mod counting;
#[path = "../common/device.rs"]
mod device;
mod frames;
#[path = "../common/reads.rs"]
mod reads;
mod samplers;

use core::error::Error;
use core::fmt::Debug;

use allotment::device::DescriptorDevice;
use allotment_readers::DescriptorReader;

use frames::Frames;

/// More than it takes everything to grow to the size that it keeps.
const FRAMES: u64 = if cfg!(debug_assertions) { 100 } else { 200 };

struct DrawTables;

impl device::Example for DrawTables {
    const NAME: &'static str = "draw_tables";

    fn run<D, R>(device: D, is_read: bool) -> Result<(), Box<dyn Error>>
    where
        D: DescriptorDevice + Clone + Debug,
        R: DescriptorReader<D>,
    {
        samplers::share(device.clone())?;
        let mut frames = Frames::<D, R>::new(device, is_read)?;
        for _ in 0..FRAMES {
            frames.frame()?;
        }
        frames.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    device::run::<DrawTables>()
}
