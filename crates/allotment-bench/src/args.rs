//! What can be asked for on the command line.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// GPU memory allocators side by side, on the same Vulkan device.
#[derive(Debug, Parser)]
#[command(name = "allotment-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Time an operation, with warm blocks, on one thread and on two
    Device(DeviceArgs),
    /// Memory reserved for recorded traffic
    Traces(TracesArgs),
    /// Driver calls of a hundred frames that all do the same
    Steady(SteadyArgs),
    /// Bytes a second into and out of each memory type
    Bandwidth(BandwidthArgs),
    /// How long the frames of a streamed scene wait for the allocator
    Streaming(StreamingArgs),
    /// The device, its budgets, and all of the above, as one text to keep
    Measure(MeasureArgs),
    /// Time to keep a thing until the GPU is done with it, and to take bytes of a ring. Needs no Vulkan
    Lifetime(LifetimeArgs),
    /// Time to hand out descriptors, to copy them, and to bind them. Needs no Vulkan
    Descriptor(DescriptorArgs),
    /// Blocks given back by defragmentation, bytes copied for it, and how long it keeps others waiting
    Defrag(DefragArgs),
}

/// What every command takes.
#[derive(Debug, Default, Parser)]
pub(crate) struct Common {
    /// Which Vulkan device, by a part of its name [default: a discrete GPU where there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// GiB that the device shall say its heaps have; 0 for what they have [default: 16 on a software
    /// device, whose own figure is made up; else 0]
    #[arg(long, value_name = "GIB")]
    pub(crate) heap_gib: Option<u32>,
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
pub(crate) struct DeviceArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Timed laps of each contender; what is printed is their median
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// At most so many of them for gpu-allocator, whose laps take seconds [default: as many]
    #[arg(long, value_name = "LAPS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpu_allocator_repetitions: Option<u32>,
    /// Pairs of a free and an allocation in a lap
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pairs: u32,
    /// How many allocations are live
    #[arg(long, value_delimiter = ',', default_value = "1000,10000",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) live: Vec<u32>,
}

#[derive(Debug, Parser)]
pub(crate) struct TracesArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Traces to replay [default: the four that are built in]
    pub(crate) traces: Vec<PathBuf>,
}

#[derive(Debug, Parser)]
pub(crate) struct SteadyArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How many frames
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) frames: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct BandwidthArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// MiB that are moved at once. Two sizes tell what a copy costs by itself from what each byte costs
    #[arg(long, value_delimiter = ',', default_value = "128,512",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) mib: Vec<u32>,
    /// How often each way is taken; what is printed is the best
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct StreamingArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How many frames
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) frames: u32,
    /// MiB that stay in memory; beyond, the oldest resources go [default: 2048, on a software device 512]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..))]
    pub(crate) resident_mib: Option<u32>,
    /// Milliseconds from one frame to the next
    #[arg(long, value_name = "MS", default_value_t = 8.0, value_parser = milliseconds)]
    pub(crate) frame_ms: f64,
}

#[derive(Debug, Parser)]
pub(crate) struct MeasureArgs {
    /// Which Vulkan device, by a part of its name [default: a discrete GPU where there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// GiB that the device shall say its heaps have, as for the other commands
    #[arg(long, value_name = "GIB")]
    pub(crate) heap_gib: Option<u32>,
    /// GiB of allocations between two looks at the budgets [default: 32, or a quarter of what is left of
    /// the budget where that is less]
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget_gib: Option<u32>,
}

#[derive(Debug, Parser)]
pub(crate) struct LifetimeArgs {
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// How many threads retire at once
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16",
        value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Vec<u32>,
    /// Timed laps of each contender; what is printed is their median
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Batches of 1,000 operations in a lap, of each thread
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) batches: u64,
}

#[derive(Debug, Parser)]
pub(crate) struct DescriptorArgs {
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// How many threads take descriptors at once, where several do
    #[arg(long, value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u32).range(1..=6))]
    pub(crate) threads: Vec<u32>,
    /// Timed laps of each contender; what is printed is their median
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Batches of 1,000 operations in a lap, of each thread
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batches: u32,
    /// Only workloads whose name begins like this
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// Slots that each thread has while others come and go
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) live: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct DefragArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How often each state is made and defragmented; times are medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Allocations of the first state, half of which are freed. The others follow; `many` has ten times as many
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1000..=100_000))]
    pub(crate) allocations: u32,
    /// Only the states and parts whose name begins like this; parts are `planning` and `beside`
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// How many allocations are live while passes are looked for
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    pub(crate) live: u32,
    /// How often a pass is looked for, with each limit
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) calls: u32,
    /// For how many milliseconds another thread allocates meanwhile
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) beside_ms: u32,
}

impl StreamingArgs {
    pub(crate) fn pace(&self) -> Duration {
        Duration::from_secs_f64(self.frame_ms / 1e3)
    }
}

/// A frame of a second would be none.
fn milliseconds(text: &str) -> Result<f64, String> {
    let found: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1000.0).contains(&found) { Ok(found) } else { Err("not from 0 to 1000".to_owned()) }
}
