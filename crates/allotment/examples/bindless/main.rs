//! A hundred thousand textures that shaders find by a number, while hundreds of them come, go and change in each frame.
//!
//! ```sh
//! cargo run --release --example bindless -p allotment                 # on the simulated device
//! cargo run --release --example bindless -p allotment -- vulkan       # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example bindless -p allotment -- vulkan sets  # without descriptor buffers
//! cargo run --release --example bindless -p allotment -- d3d12        # on Windows
//! ```
//!
//! `frames.rs` is the same for all of them; nothing in it waits before it changes something. What the GPU read through
//! each descriptor comes back, and the CPU compares every value with what that frame must have seen. In mid-flight the
//! heap is replaced by a larger one. A steady frame gets no memory from the driver and none from Rust's heap, or this
//! fails.

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

use core::error::Error;
use core::fmt::Debug;

use allotment::device::DescriptorDevice;
use allotment_readers::DescriptorReader;

use frames::Frames;

/// More than it takes everything to grow to the size that it keeps.
const FRAMES: u64 = if cfg!(debug_assertions) { 120 } else { 300 };

struct Bindless;

impl device::Example for Bindless {
    const NAME: &'static str = "bindless";

    fn run<D, R>(device: D, is_read: bool) -> Result<(), Box<dyn Error>>
    where
        D: DescriptorDevice + Clone + Debug,
        R: DescriptorReader<D>,
    {
        let mut frames = Frames::<D, R>::new(device, is_read)?;
        for _ in 0..FRAMES {
            frames.frame()?;
        }
        frames.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    device::run::<Bindless>()
}
