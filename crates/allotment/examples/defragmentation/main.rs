//! A town in which everything comes and goes for two thousand frames: without defragmentation its memory becomes a comb;
//! with a step of it in each frame the blocks stay full.
//!
//! ```sh
//! cargo run --release --example defragmentation -p allotment-examples                 # on the simulated device
//! cargo run --release --example defragmentation -p allotment-examples -- vulkan       # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example defragmentation -p allotment-examples -- vulkan sets  # without descriptor buffers
//! cargo run --release --example defragmentation -p allotment-examples -- d3d12        # on Windows
//! ```
//!
//! | in the town | memory | moves |
//! |---|---|---|
//! | houses | buffers of the default pools | yes |
//! | warehouses | larger buffers of a custom pool, the harbour | yes |
//! | signs | images with mip levels, of another custom pool | yes |
//! | street lamps, cranes | buffers of the default pools, and of the harbour | pinned |
//! | letterboxes | mapped buffers, which the CPU writes in place | pinned |
//! | addresses | binding sets with houses, warehouses and signs | rewritten by moves |
//!
//! Some of each kind are looked at in every frame, and each of them before it goes: what a queue copies out of it then is
//! compared byte by byte, wherever it has been moved to meanwhile. What shaders read through the descriptors of some
//! addresses is compared in every frame as well, where the device has descriptors that shaders index.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod buildings;
mod idle;
mod pools;
mod signs;
mod things;
mod town;
mod works;

use core::time::Duration;

use allotment::device::DescriptorDevice;
use allotment_readers::DescriptorReader;

use common::report::row;
use common::{Outcome, device};
use town::Town;

const FRAMES: u64 = 2_000;

/// What was found, and how much of it.
type Figures = Vec<(&'static str, String)>;

struct Defragmentation;

impl device::Example for Defragmentation {
    const NAME: &'static str = "defragmentation";

    /// A frame has a dozen of submissions, which take the time of their copies.
    const LATENCY: Duration = Duration::ZERO;

    /// All the rest can be seen on any device.
    const NEEDS_DESCRIPTORS: bool = false;

    /// Runs the same frames twice: without and with a step of defragmentation in each.
    fn run<D, R>(device: D, is_read: bool) -> Outcome
    where
        D: DescriptorDevice + Clone,
        R: DescriptorReader<D>,
    {
        let without = live_in::<D, R>(device.clone(), is_read, false)?;
        let with = live_in::<D, R>(device, is_read, true)?;
        row("", format_args!("{:>16}{:>16}", "without", "with"));
        for ((what, without), (_, with)) in without.into_iter().zip(with) {
            row(what, format_args!("{without:>16}{with:>16}"));
        }
        Ok(())
    }
}

fn main() -> Outcome {
    device::run::<Defragmentation>()
}

fn live_in<D, R>(device: D, is_read: bool, defragmented: bool) -> Outcome<Figures>
where
    D: DescriptorDevice + Clone,
    R: DescriptorReader<D>,
{
    let mut town = Town::<D, R>::new(device, is_read, defragmented)?;
    for _ in 0..FRAMES {
        town.frame()?;
    }
    town.leave()
}
