//! The command-line arguments.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Compares GPU memory allocators on the same Vulkan device.
#[derive(Debug, Parser)]
#[command(name = "allotment-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Time of an operation with warm blocks, on one thread and on two
    Device(DeviceArgs),
    /// Time to create and destroy a buffer with memory, by each contender's own calls
    Buffers(BuffersArgs),
    /// Memory reserved for recorded or generated traffic
    Traces(TracesArgs),
    /// Driver calls of a hundred identical frames
    Steady(SteadyArgs),
    /// Bandwidth into and out of each memory type
    Bandwidth(BandwidthArgs),
    /// Time that the frames of a streamed scene wait for the allocator
    Streaming(StreamingArgs),
    /// Time of the first upload of textures: staged, and copied by the CPU into the images
    Textures(TexturesArgs),
    /// What streamed textures cost frames, and their share of the queue's rate
    Uploads(UploadsArgs),
    /// Time to bind memory to a range of a sparse buffer, beside the time to allocate it
    Sparse(SparseArgs),
    /// The device, its budgets, and all of the above, as one text to keep
    Measure(MeasureArgs),
    /// Cost of deferred destruction and of ring allocation. Needs no Vulkan
    Lifetime(LifetimeArgs),
    /// Cost of allocating, copying and binding descriptors. Needs no Vulkan
    Descriptor(DescriptorArgs),
    /// Allocators of ranges side by side: time, latency, fragmentation, host memory, threads. Needs no Vulkan
    Ranges(RangesArgs),
    /// Throughput of threads that share an allocator. Needs no Vulkan
    Threads(ThreadsArgs),
    /// Blocks freed by defragmentation, bytes copied for it, and lock time
    Defrag(DefragArgs),
    /// Cost of calls with very many pools, blocks and ranges, and what another thread waits for reports. Needs no Vulkan
    Growth(GrowthArgs),
    /// Driver calls and memory types where a heap is full
    Pressure(PressureArgs),
    /// How tight plans of items with known lifetimes are, after how much time. Needs no Vulkan
    Plans(PlansArgs),
    /// Cost of an allocation and a free while a recorder writes them. Needs no Vulkan
    Recording(RecordingArgs),
}

/// Options of every command.
#[derive(Debug, Default, Parser)]
pub(crate) struct Common {
    /// Vulkan device to use: a part of its name [default: the first discrete GPU, if there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// Heap size in GiB to report to the contenders; 0 for the real size [default: 16 on a software device, whose
    /// own figure is arbitrary; otherwise 0]
    #[arg(long, value_name = "GIB")]
    pub(crate) heap_gib: Option<u32>,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
pub(crate) struct DeviceArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Timed laps of each contender; the median is printed
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Most laps of gpu-allocator, each of which takes seconds [default: as many]
    #[arg(long, value_name = "LAPS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpu_allocator_repetitions: Option<u32>,
    /// Pairs of a free and an allocation per lap
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pairs: u32,
    /// Numbers of live allocations
    #[arg(long, value_delimiter = ',', default_value = "1000,10000",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) live: Vec<u32>,
    /// Only the workloads with this in their name
    #[arg(long, value_name = "PART", default_value = "", hide_default_value = true)]
    pub(crate) only: String,
    /// Allocations that fill a new allocator; 0 for none
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub(crate) cold: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct BuffersArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Batches of 256 buffers for each way; the median is printed
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batches: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct TracesArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Traces to replay [default: the four built-in traces]
    #[arg(conflicts_with = "seeds")]
    pub(crate) traces: Vec<PathBuf>,
    /// Replay generated traffic instead: a trace of each kind for each of these seeds
    #[arg(long, value_name = "SEED", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
    /// Only the kinds of generated traffic with this in their name
    #[arg(long, value_name = "PART", default_value = "", hide_default_value = true, requires = "seeds")]
    pub(crate) only: String,
    /// Write the generated traces into this directory as well, for `allotment compare`
    #[arg(long, value_name = "DIR", requires = "seeds")]
    pub(crate) write: Option<PathBuf>,
}

#[derive(Debug, Parser)]
pub(crate) struct SteadyArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Number of frames
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) frames: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct BandwidthArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// MiB per transfer. Two sizes separate the fixed cost of a copy from the cost per byte
    #[arg(long, value_delimiter = ',', default_value = "128,512",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) mib: Vec<u32>,
    /// Repetitions of each transfer; the best is printed
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct SparseArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// MiB of the pages
    #[arg(long, value_delimiter = ',', default_value = "2,20,64",
        value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) mib: Vec<u64>,
    /// MiB of the buffers that are copied
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=16384))]
    pub(crate) copied_mib: u64,
    /// Repetitions of each row; the median is printed
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct StreamingArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Number of frames
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) frames: u32,
    /// MiB that stay resident; beyond, the oldest resources are freed [default: 2048, on a software device 512]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..))]
    pub(crate) resident_mib: Option<u32>,
    /// Milliseconds per frame
    #[arg(long, value_name = "MS", default_value_t = 8.0, value_parser = milliseconds)]
    pub(crate) frame_ms: f64,
}

#[derive(Debug, Parser)]
pub(crate) struct TexturesArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Repetitions of each measurement; the median is printed
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct UploadsArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Run only the part with this name: `frames`, which needs no Vulkan, or `streams`
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Repetitions of each measurement; the median is printed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// MiB of textures in each repetition [default: 1024, on a software device 64]
    #[arg(long, value_parser = clap::value_parser!(u32).range(16..=16384))]
    pub(crate) mib: Option<u32>,
    /// MiB of staging memory
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) staging_mib: u32,
    /// Numbers of threads that upload
    #[arg(long, value_delimiter = ',', default_value = "1,4",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Vec<u32>,
}

#[derive(Debug, Parser)]
pub(crate) struct MeasureArgs {
    /// Vulkan device to use: a part of its name [default: the first discrete GPU, if there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// Heap size in GiB to report, as for the other commands
    #[arg(long, value_name = "GIB")]
    pub(crate) heap_gib: Option<u32>,
    /// GiB of allocations between two budget queries [default: 32, or a quarter of the remaining budget if that is
    /// less]
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget_gib: Option<u32>,
}

#[derive(Debug, Parser)]
pub(crate) struct LifetimeArgs {
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Numbers of threads that retire concurrently
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16",
        value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Vec<u32>,
    /// Timed laps of each contender; the median is printed
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Batches of 1,000 operations per lap and thread
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) batches: u64,
    /// Run only workloads whose name begins with this
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
}

#[derive(Debug, Parser)]
pub(crate) struct DescriptorArgs {
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Numbers of threads in multithreaded workloads
    #[arg(long, value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u32).range(1..=6))]
    pub(crate) threads: Vec<u32>,
    /// Timed laps of each contender; the median is printed
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Batches of 1,000 operations per lap and thread
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batches: u32,
    /// Run only workloads whose name begins with this
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// Live slots of each thread while others are allocated and freed
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) live: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct ThreadsArgs {
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Numbers of threads; one is always measured
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,64",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Vec<u32>,
    /// Numbers of live allocations of each thread
    #[arg(long, value_delimiter = ',', default_value = "1000,10000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) live: Vec<u32>,
    /// Timed laps of each number of threads; the median is printed
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Pairs of a free and an allocation per lap and thread
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pairs: u32,
    /// Run only workloads whose name begins with this: `churn`, where each thread frees its own at random, or `pairs`, where
    /// threads 2 by 2 free what the other one allocated, beside threads that free their own in the same way
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// The most shards of a pool [default: the allocator's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shards: Option<u32>,
}

#[derive(Debug, Parser)]
pub(crate) struct GrowthArgs {
    /// Run only the part with this name: `calls`, `waits` or `pieces`
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Small buffers, and pieces of larger ones
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) small: u32,
    /// Pools, idle ones and such in use
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) pools: u32,
    /// Blocks of a pool
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) blocks: u32,
    /// Ranges of a block
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) ranges: u32,
    /// Live allocations during reports, before a quarter of them is freed
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) live: u32,
    /// Milliseconds for which another thread allocates beside each report
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) wait_ms: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct PressureArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Parser)]
pub(crate) struct DefragArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Repetitions of each state; times are medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Allocations of the first state, half of which are freed. The others follow; `many` has ten times as many
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1000..=100_000))]
    pub(crate) allocations: u32,
    /// Run only states and parts whose name begins with this; parts are `planning`, `beside`,
    /// `room`, `room-limit` and `slivers`
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Live allocations during planning
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    pub(crate) live: u32,
    /// Passes planned with each limit, and requests of each row of `room`
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) calls: u32,
    /// Milliseconds for which another thread allocates meanwhile
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) beside_ms: u32,
}

#[derive(Debug, Parser)]
pub(crate) struct RangesArgs {
    /// What to measure
    #[arg(value_enum, default_value = "time")]
    pub(crate) modes: Vec<RangesMode>,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Run only these workloads: names, or what names begin with
    #[arg(long, visible_alias = "filter", value_name = "NAME", value_delimiter = ',')]
    pub(crate) workload: Vec<String>,
    /// Run only these contenders: names, or what names begin with
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) contender: Vec<String>,
    /// Timed laps of each contender; the median is printed
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Seconds that the laps of a contender may take in a workload, and a fifth of what its check may take; one whose
    /// check takes longer is omitted
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0, value_parser = seconds)]
    pub(crate) limit: f64,
    /// Print the times of some workloads as a Markdown table; with a file, write it there, between the two lines that
    /// mark its place
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "modes", "workload", "contender"])]
    pub(crate) table: Option<Option<PathBuf>>,
    /// A hundredth of the ranges and operations: a test of the command, whose figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Options of `recording`.
#[derive(Debug, Parser)]
pub(crate) struct RecordingArgs {
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Timed laps of each contender; the median is printed
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Batches of 1,000 operations per lap of a thread
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) batches: u64,
    /// Numbers of threads that allocate at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Vec<u16>,
}

/// Options of `plans`.
#[derive(Debug, Parser)]
pub(crate) struct PlansArgs {
    /// Instances to plan beside the generated ones: CSV with the columns id, lower, upper and size. A number in the name, as in
    /// A.1048576.csv, is a capacity
    pub(crate) files: Vec<PathBuf>,
    /// Milliseconds that a search gets
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [5.0, 100.0, 5000.0])]
    pub(crate) ms: Vec<f64>,
    /// Generated frame graphs
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) frames: usize,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Small instances: a test of the command, whose figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
}

/// What `ranges` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum RangesMode {
    /// Nanoseconds of an operation
    Time,
    /// Quantiles of the time of single operations
    Latency,
    /// Use of a space when a request is refused, and of a roomy one
    Fragmentation,
    /// Host memory per live range, and time to clear
    Memory,
    /// Wall time with several threads and a mutex
    Threads,
}

impl StreamingArgs {
    pub(crate) fn pace(&self) -> Duration {
        Duration::from_secs_f64(self.frame_ms / 1e3)
    }
}

/// At most a second.
fn milliseconds(text: &str) -> Result<f64, String> {
    let found: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1000.0).contains(&found) { Ok(found) } else { Err("not from 0 to 1000".to_owned()) }
}

/// At most a day.
fn seconds(text: &str) -> Result<f64, String> {
    let found: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=86400.0).contains(&found) { Ok(found) } else { Err("not from 0 to 86400".to_owned()) }
}
