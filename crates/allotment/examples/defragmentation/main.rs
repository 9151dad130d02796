//! A town in which houses come and go for two thousand frames, all of different sizes: without defragmentation its
//! memory becomes a comb; with a step of it in each frame the blocks stay full.
//!
//! ```sh
//! cargo run --release --example defragmentation -p allotment             # on the simulated device
//! cargo run --release --example defragmentation -p allotment -- vulkan   # ALLOTMENT_VULKAN: a part of a device's name
//! cargo run --release --example defragmentation -p allotment -- d3d12    # on Windows
//! ```
//!
//! `town.rs` is the same for all three. Some houses are looked at in each frame, and every house before it goes: what
//! a queue copies out of it then is compared byte by byte, wherever it has been moved to meanwhile.

#[path = "../common/plain_device.rs"]
mod plain_device;
mod town;

use core::error::Error;
use core::fmt::Debug;

use allotment::Device;

use plain_device::Example;
use town::{Summary, Town};

const FRAMES: u64 = 2_000;

struct Houses;

impl Example for Houses {
    const NAME: &'static str = "defragmentation";

    fn run<D: Device + Clone + Debug>(device: D) -> Result<(), Box<dyn Error>> {
        both(device)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    plain_device::run::<Houses>()
}

/// Runs the same frames twice: without and with a step of defragmentation in each.
fn both<D: Device + Clone + Debug>(device: D) -> Result<(), Box<dyn Error>> {
    println!("device: {}", device.properties().name);
    let without = live_in(device.clone(), false)?;
    let with = live_in(device, true)?;
    let row = |what: &str, one: String, other: String| println!("{what:32}{one:>16}{other:>16}");
    row("", "without".into(), "with".into());
    row("frames", without.frames.to_string(), with.frames.to_string());
    row("houses built", without.built.to_string(), with.built.to_string());
    row("compared on the way back", mib(without.compared), mib(with.compared));
    row("corrupted bytes", without.corrupted.to_string(), with.corrupted.to_string());
    row("lives at the end", mib(without.live), mib(with.live));
    row("blocks at the end", without.blocks.to_string(), with.blocks.to_string());
    row("most blocks", without.most_blocks.to_string(), with.most_blocks.to_string());
    row("idle memory, at the end", percent(without.idle_at_end), percent(with.idle_at_end));
    row("idle memory, on average", percent(without.idle_on_average), percent(with.idle_on_average));
    row("idle memory, at most", percent(without.most_idle), percent(with.most_idle));
    row("moved", without.moves.to_string(), with.moves.to_string());
    row("copied for it", mib(without.bytes_moved), mib(with.bytes_moved));
    row("blocks emptied", without.blocks_emptied.to_string(), with.blocks_emptied.to_string());
    row(
        "longest end of a frame",
        format!("{:.1?}", without.longest_end),
        format!("{:.1?}", with.longest_end),
    );
    if without.corrupted + with.corrupted > 0 {
        return Err("bytes are not what they must be".into());
    }
    if with.most_idle >= 0.1 {
        return Err(format!("{} of the memory was idle at most", percent(with.most_idle)).into());
    }
    Ok(())
}

fn live_in<D: Device + Clone + Debug>(device: D, defragmented: bool) -> Result<Summary, Box<dyn Error>> {
    let mut town = Town::new(device, defragmented)?;
    for _ in 0..FRAMES {
        town.frame()?;
    }
    town.leave()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
