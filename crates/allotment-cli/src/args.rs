//! What can be asked for on the command line.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use allotment::device::simulated::Profile;
use allotment::memory::{
    BlockSizes, DefragmentationDesc, DefragmentationStrategy, EmptyBlockPolicy, ManualTime, PassLimits,
    TimeSource,
};
use allotment::{Algorithm, AllocatorDesc};
use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::Failure;
use crate::waste;

/// GPU memory, seen: replays recorded traffic through the Allotment library.
///
/// Without a command it replays a recorded race of SuperTuxKart on the simulated device, uploads and
/// verifies every byte, and writes allotment-report.html.
#[derive(Debug, Parser)]
#[command(name = "allotment", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replay a recorded trace, with every byte uploaded and verified
    Replay(ReplayArgs),
    /// Replay a trace under every algorithm and several block sizes
    Compare(CompareArgs),
    /// Replay a trace up to a frame, defragment what is there with real bytes in it, and show before, moves and after
    Defragment(DefragmentArgs),
    /// Show a device's heaps, memory types and limits, and what would be chosen for each memory usage and why
    Info(InfoArgs),
    /// List the machines that the simulated device can be
    Profiles(ProfilesArgs),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceKind {
    /// The simulated device that every machine has
    #[default]
    Host,
    /// A real driver through Vulkan, where there is one
    Vulkan,
    /// A real driver through Direct3D 12, on Windows
    D3d12,
}

/// Which device.
#[derive(Clone, Debug, Default, Parser)]
pub(crate) struct DeviceArgs {
    /// The device to run on
    #[arg(long, value_enum, default_value_t)]
    device: DeviceKind,
    /// The machine that the simulated device shall be (see `allotment profiles`) [default: discrete-large-bar]
    #[arg(long)]
    profile: Option<String>,
    /// The real device to take: part of its name [default: the first that is a GPU, else the first]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
}

/// A device that was chosen and not yet opened.
#[derive(Clone, Debug)]
pub(crate) enum Chosen {
    Host(Profile),
    Driver(Wanted),
}

/// Through what a real driver is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Vulkan,
    Direct3D12,
}

/// What is asked of a real driver.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(any(feature = "vulkan", all(feature = "d3d12", windows))),
    expect(dead_code, reason = "no driver is built in")
)]
pub(crate) struct Wanted {
    pub(crate) api: Api,
    /// Part of the device's name.
    pub(crate) gpu: Option<String>,
    /// Whether the API's own checks shall watch.
    pub(crate) validate: bool,
}

impl DeviceArgs {
    /// The device that is meant, or a failure where what is said of it makes no sense.
    pub(crate) fn chosen(&self, validate: bool) -> Result<Chosen, Failure> {
        let driver = |api| {
            only(self.profile.is_none(), "--profile", "--device host")?;
            Ok(Chosen::Driver(Wanted { api, gpu: self.gpu.clone(), validate }))
        };
        match self.device {
            DeviceKind::Host => {
                only(self.gpu.is_none(), "--gpu", DRIVERS)?;
                only(!validate, "--validate", DRIVERS)?;
                profile(self.profile.as_deref().unwrap_or(DEFAULT_PROFILE)).map(Chosen::Host)
            }
            DeviceKind::Vulkan => driver(Api::Vulkan),
            DeviceKind::D3d12 => driver(Api::Direct3D12),
        }
    }
}

const DRIVERS: &str = "--device vulkan and --device d3d12";

/// A failure unless `right`: `option` is for `device`.
fn only(right: bool, option: &str, device: &str) -> Result<(), Failure> {
    if right { Ok(()) } else { Err(Failure::Usage(format!("{option} is for {device} only"))) }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum AlgorithmArg {
    /// Two-level segregated fit
    #[default]
    Tlsf,
    /// Cells of powers of two
    Buddy,
    /// Stack or ring
    Linear,
}

impl From<AlgorithmArg> for Algorithm {
    fn from(algorithm: AlgorithmArg) -> Self {
        match algorithm {
            AlgorithmArg::Tlsf => Self::Tlsf,
            AlgorithmArg::Buddy => Self::Buddy,
            AlgorithmArg::Linear => Self::Linear,
        }
    }
}

/// How much of each resource is filled with bytes that are verified before it is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bytes {
    /// All of it
    #[default]
    All,
    /// Up to 64 KiB at its start and at its end: for traces that move hundreds of gigabytes
    Ends,
    /// Nothing: only the allocator runs
    None,
}

/// How the allocator works.
#[derive(Clone, Debug, Default, Parser)]
struct BlockArgs {
    /// How blocks find room
    #[arg(long, value_enum, default_value_t)]
    algorithm: AlgorithmArg,
    /// Bytes of every block, a power of two, with an optional K, M or G [default: blocks grow with use]
    #[arg(long, value_parser = parse_size)]
    block_size: Option<u64>,
}

impl BlockArgs {
    fn setup(&self) -> Setup {
        let block_sizes = self.block_size.map_or_else(BlockSizes::default, BlockSizes::fixed);
        Setup { algorithm: self.algorithm.into(), block_sizes, empty_blocks: EmptyBlockPolicy::default() }
    }
}

#[derive(Debug, Parser)]
#[command(after_help = waste::HELP)]
pub(crate) struct ReplayArgs {
    /// The trace: CSV, gzip-compressed or plain [default: the recorded race that is built in]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Run under Vulkan's validation layer or Direct3D 12's debug layer, and fail at any warning or error
    #[arg(long)]
    pub(crate) validate: bool,
    #[command(flatten)]
    blocks: BlockArgs,
    /// How much of each resource is filled and verified
    #[arg(long, value_enum, default_value_t)]
    pub(crate) bytes: Bytes,
    /// Where to write the report
    #[arg(long, default_value = DEFAULT_REPORT)]
    pub(crate) report: PathBuf,
    /// Also write the state at the peak as JSON in the schema that VMA's viewers read
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

const DEFAULT_PROFILE: &str = "discrete-large-bar";
const DEFAULT_REPORT: &str = "allotment-report.html";

impl Default for ReplayArgs {
    fn default() -> Self {
        Self {
            trace: None,
            device: DeviceArgs::default(),
            validate: false,
            blocks: BlockArgs::default(),
            bytes: Bytes::All,
            report: DEFAULT_REPORT.into(),
            dump: None,
            json: false,
        }
    }
}

#[derive(Debug, Parser)]
#[command(after_help = waste::HELP)]
pub(crate) struct CompareArgs {
    /// The trace: CSV, gzip-compressed or plain [default: the recorded race that is built in]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Compare ways to grow blocks instead, all with TLSF
    #[arg(long)]
    pub(crate) growth: bool,
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
pub(crate) struct DefragmentArgs {
    /// The trace: CSV, gzip-compressed or plain [default: the recorded race that is built in]
    pub(crate) trace: Option<PathBuf>,
    /// Replay so many frames first; of a trace without frames, so many events [default: those after which most memory
    /// lies idle]
    #[arg(long, value_name = "FRAME")]
    pub(crate) at: Option<u64>,
    /// What is worth moving: `fast` (blocks that give back two bytes for one that is copied), `full` (all that can be
    /// emptied), or `bytes=N` (the best for so many bytes)
    #[arg(long, default_value = "fast")]
    pub(crate) strategy: StrategyArg,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    blocks: BlockArgs,
    /// Bytes that a pass moves at most, with an optional K, M or G [default: 64M]
    #[arg(long, value_name = "N", value_parser = parse_bytes)]
    pass_bytes: Option<u64>,
    /// Allocations that a pass moves at most [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pass_moves: Option<u32>,
    /// Microseconds for which a pass is looked for at most [default: 500]
    #[arg(long, value_name = "N")]
    pass_time_us: Option<u64>,
    /// Where to write the report
    #[arg(long, default_value = "allotment-defragmentation.html")]
    pub(crate) report: PathBuf,
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

impl DefragmentArgs {
    /// The machine that the simulated device shall be.
    pub(crate) fn profile(&self) -> Result<Profile, Failure> {
        match self.device.chosen(false)? {
            Chosen::Host(profile) => Ok(profile),
            Chosen::Driver(_) => Err(Failure::Usage(
                "defragment runs on the simulated device only, as it moves memory without the buffers and images that \
                 a real driver would have in it: use --device host, or leave out --device"
                    .to_owned(),
            )),
        }
    }

    pub(crate) fn setup(&self) -> Setup {
        self.blocks.setup()
    }

    pub(crate) fn desc(&self) -> DefragmentationDesc {
        let default = PassLimits::default();
        let limits = default
            .with_bytes(self.pass_bytes.unwrap_or(default.bytes))
            .with_moves(self.pass_moves.unwrap_or(default.moves))
            .with_time(self.pass_time_us.map_or(default.time, Duration::from_micros));
        DefragmentationDesc::new(self.strategy.0).with_limits(limits)
    }
}

/// A strategy as it is written on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrategyArg(pub(crate) DefragmentationStrategy);

impl FromStr for StrategyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("bytes=")) {
            ("fast", _) => Ok(Self(DefragmentationStrategy::Fast)),
            ("full", _) => Ok(Self(DefragmentationStrategy::Full)),
            (_, Some(bytes)) => parse_bytes(bytes).map(DefragmentationStrategy::WithinBytes).map(Self),
            _ => Err("there are fast, full and bytes=N".to_owned()),
        }
    }
}

impl fmt::Display for StrategyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DefragmentationStrategy::Fast => f.write_str("fast"),
            DefragmentationStrategy::Full => f.write_str("full"),
            DefragmentationStrategy::WithinBytes(bytes) => write!(f, "bytes={bytes}"),
        }
    }
}

#[derive(Debug, Parser)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
pub(crate) struct ProfilesArgs {
    /// Print one JSON object on standard output and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) algorithm: Algorithm,
    pub(crate) block_sizes: BlockSizes,
    pub(crate) empty_blocks: EmptyBlockPolicy,
}

impl ReplayArgs {
    /// The device to replay on.
    pub(crate) fn chosen(&self) -> Result<Chosen, Failure> {
        self.device.chosen(self.validate)
    }

    pub(crate) fn setup(&self) -> Setup {
        self.blocks.setup()
    }
}

impl Setup {
    pub(crate) fn allocator(&self) -> AllocatorDesc {
        let mut desc = AllocatorDesc::default();
        // A replay comes out the same on fast machines and on slow ones.
        desc.time = TimeSource::Manual(ManualTime::new());
        desc.algorithm = self.algorithm;
        (desc.block_sizes, desc.empty_blocks) = (self.block_sizes, self.empty_blocks);
        desc
    }
}

/// The profile of this name, or a failure that lists those that there are.
fn profile(name: &str) -> Result<Profile, Failure> {
    Profile::named(name).ok_or_else(|| {
        let names: Vec<_> = Profile::all().iter().map(|profile| profile.name).collect();
        Failure::Usage(format!("there is no profile \"{name}\", only {}", names.join(", ")))
    })
}

/// A power of two, as in `33554432`, `32M` or `32MiB`.
fn parse_size(text: &str) -> Result<u64, String> {
    let size = parse_bytes(text)?;
    if size > 1 << 48 {
        return Err("a block has at most 2^48 bytes".to_owned());
    }
    if size.is_power_of_two() { Ok(size) } else { Err(format!("{size} is no power of two")) }
}

/// A number of bytes, as in `1000`, `32M` or `32MiB`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        unit => return Err(format!("\"{unit}\" is none of K, M and G")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("\"{digits}\" is no whole number"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is more than there is"))
}
