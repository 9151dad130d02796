//! The command-line arguments.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use allotment::device::simulated::Profile;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy, ManualTime, TimeSource};
use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
use allotment::memory::reports::CallSites;
use allotment::{Algorithm, AllocatorDesc};
use clap::{Parser, Subcommand, ValueEnum};

use crate::defragment::summary;
use crate::failure::Failure;
use crate::inspect::args::{
    AdviseArgs, AliasArgs, CallsArgs, CheckArgs, DiffArgs, ExportArgs, LeaksArgs, LifetimesArgs, MapArgs,
    ReportArgs, StatsArgs, WhatIfArgs,
};
use crate::waste;

/// Replays recorded GPU memory traffic through the Allotment library and shows where the memory went.
///
/// Without a command it replays a recorded race of SuperTuxKart on the simulated GPU, uploads and verifies every
/// byte, and writes allotment-report.html.
#[derive(Debug, Parser)]
#[command(name = "allotment", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replay a recorded trace; upload and verify every byte
    Replay(ReplayArgs),
    /// Replay a trace with every algorithm and several block sizes
    Compare(CompareArgs),
    /// Replay a trace up to a frame, then defragment real data: before, moves, after
    Defragment(DefragmentArgs),
    /// Show a device's heaps, memory types and limits, and rank the memory types for each memory usage
    Info(InfoArgs),
    /// Record a running program that serves its events
    Attach(AttachArgs),
    /// Show what there is at a moment of a recording: blocks, bytes, pools, heaps, descriptor heaps, peaks
    Stats(StatsArgs),
    /// Draw each block at a moment of a recording as a line of text
    Map(MapArgs),
    /// List allocations that were not released, by call site or name
    Leaks(LeaksArgs),
    /// Show which calls allocated what: at a moment, at the peak, in a span, or what was not released
    Calls(CallsArgs),
    /// List allocations by when they were made and freed: fourteen rules, with one to four moments
    Lifetimes(LifetimesArgs),
    /// Compare two moments of a recording, or two recordings
    Diff(DiffArgs),
    /// Write a recording as a file for another tool
    Export(ExportArgs),
    /// Say what could be better at a moment of a recording, with numbers
    Advise(AdviseArgs),
    /// Make the requests of a recording again with other settings, and compare
    Whatif(WhatIfArgs),
    /// Say how little memory would do if all lifetimes were known: of a recording, or of a planning benchmark
    Alias(AliasArgs),
    /// Write a recording as one HTML page, which any browser opens
    Report(ReportArgs),
    /// Check a recording against limits; the exit code is 1 if one does not hold
    Check(CheckArgs),
    /// List the profiles of the simulated GPU
    Profiles(ProfilesArgs),
    /// Print what a shell reads to complete this command's arguments
    Completions(CompletionsArgs),
    /// Print the manual page of this command, or of one of these commands, for `man -l -`
    Man(ManArgs),
}

#[derive(Debug, Parser)]
pub(crate) struct AttachArgs {
    /// The address that the program prints: allotment://HOST:PORT/TOKEN
    pub(crate) address: String,
    /// The recording to write; an older file is replaced
    #[arg(short, long, value_name = "FILE", default_value = "allotment-live.altr")]
    pub(crate) output: PathBuf,
    /// Record for so many seconds [default: until the program ends; Ctrl-C loses the last second]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Print a single JSON object about the written recording on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceKind {
    /// The simulated GPU, available on every machine
    #[default]
    Simulated,
    /// A real driver through Vulkan
    Vulkan,
    /// A real driver through Direct3D 12, on Windows
    D3d12,
}

/// The device to run on.
#[derive(Clone, Debug, Default, Parser)]
pub(crate) struct DeviceArgs {
    /// The device to run on
    #[arg(long, value_enum, default_value_t)]
    device: DeviceKind,
    /// Profile of the simulated GPU (see `allotment profiles`) [default: discrete-large-bar]
    #[arg(long)]
    profile: Option<String>,
    /// Real device to use: a part of its name [default: the first GPU, or else the first device]
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
}

/// A chosen device, not opened yet.
#[derive(Clone, Debug)]
pub(crate) enum Chosen {
    Simulated(Profile),
    Driver(Wanted),
}

/// The graphics API of a real driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Vulkan,
    Direct3D12,
}

/// A request for a real driver.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(any(feature = "vulkan", all(feature = "d3d12", windows))),
    expect(dead_code, reason = "no driver is built in")
)]
pub(crate) struct Wanted {
    pub(crate) api: Api,
    /// Part of the device's name.
    pub(crate) gpu: Option<String>,
    /// Whether to enable the validation layer or the debug layer.
    pub(crate) validate: bool,
}

impl DeviceArgs {
    /// Returns the requested device, or a usage error if its options contradict each other.
    pub(crate) fn chosen(&self, validate: bool) -> Result<Chosen, Failure> {
        let driver = |api| {
            only(self.profile.is_none(), "--profile", "--device simulated")?;
            Ok(Chosen::Driver(Wanted { api, gpu: self.gpu.clone(), validate }))
        };
        match self.device {
            DeviceKind::Simulated => {
                only(self.gpu.is_none(), "--gpu", DRIVERS)?;
                only(!validate, "--validate", DRIVERS)?;
                profile_or_default(self.profile.as_deref()).map(Chosen::Simulated)
            }
            DeviceKind::Vulkan => driver(Api::Vulkan),
            DeviceKind::D3d12 => driver(Api::Direct3D12),
        }
    }
}

const DRIVERS: &str = "--device vulkan and --device d3d12";

/// Returns a usage error unless `right`: `option` is valid only with `device`.
fn only(right: bool, option: &str, device: &str) -> Result<(), Failure> {
    if right { Ok(()) } else { Err(Failure::Usage(format!("{option} is for {device} only"))) }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum AlgorithmArg {
    /// Two-level segregated fit
    #[default]
    Tlsf,
    /// Blocks of powers of two
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

/// The part of each resource that is filled and verified before it is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bytes {
    /// The whole resource
    #[default]
    All,
    /// Up to 64 KiB at its start and at its end: for traces of hundreds of gigabytes
    Ends,
    /// Nothing: the allocator alone runs
    None,
}

/// Options of the allocator.
#[derive(Clone, Debug, Default, Parser)]
pub(crate) struct BlockArgs {
    /// Suballocation algorithm of the blocks
    #[arg(long, value_enum, default_value_t)]
    algorithm: AlgorithmArg,
    /// Fixed block size, a power of two, with an optional K, M or G [default: blocks grow with use]
    #[arg(long, value_parser = parse_size)]
    block_size: Option<u64>,
}

impl BlockArgs {
    pub(crate) fn setup(&self) -> Setup {
        let block_sizes = self.block_size.map_or_else(BlockSizes::default, BlockSizes::fixed);
        Setup { algorithm: self.algorithm.into(), block_sizes, empty_blocks: EmptyBlockPolicy::default() }
    }
}

#[derive(Debug, Parser)]
#[command(after_help = waste::HELP)]
pub(crate) struct ReplayArgs {
    /// Trace to replay: CSV, plain or gzip-compressed [default: the built-in recorded race]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Run under Vulkan's validation layer or Direct3D 12's debug layer; fail on any warning or error
    #[arg(long)]
    pub(crate) validate: bool,
    #[command(flatten)]
    blocks: BlockArgs,
    /// Part of each resource that is filled and verified
    #[arg(long, value_enum, default_value_t)]
    pub(crate) bytes: Bytes,
    /// The page to write; an older file is replaced
    #[arg(short, long, visible_alias = "report", value_name = "FILE", default_value = DEFAULT_REPORT)]
    pub(crate) output: PathBuf,
    /// Also write the state at the peak as JSON, in the schema of VMA's viewers; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
    /// Also write a recording of what the allocator does, with the replay's own staging buffers unless --bytes is none;
    /// an older file is replaced
    #[arg(long = "trace", value_name = "FILE")]
    pub(crate) trace_file: Option<PathBuf>,
    /// Print a single JSON object on standard output
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
            output: DEFAULT_REPORT.into(),
            dump: None,
            trace_file: None,
            json: false,
        }
    }
}

#[derive(Debug, Parser)]
#[command(after_help = waste::HELP)]
pub(crate) struct CompareArgs {
    /// Trace to replay: CSV, plain or gzip-compressed [default: the built-in recorded race]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Compare block growth policies instead, all with TLSF
    #[arg(long)]
    pub(crate) growth: bool,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
#[command(after_help = summary::HELP)]
pub(crate) struct DefragmentArgs {
    /// Trace to replay: CSV, plain or gzip-compressed [default: the built-in recorded race]
    pub(crate) trace: Option<PathBuf>,
    /// Frames to replay first; events for a trace without frames [default: the frame with the most unused memory]
    #[arg(long, value_name = "FRAME")]
    pub(crate) at: Option<u64>,
    /// Which moves are worthwhile: `fast` (blocks that free two bytes per byte copied), `full` (every block that
    /// can be emptied), or `bytes=N` (the best moves within N copied bytes)
    #[arg(long, default_value = "fast")]
    pub(crate) strategy: StrategyArg,
    #[command(flatten)]
    device: DeviceArgs,
    /// Run under Vulkan's validation layer or Direct3D 12's debug layer; fail on any warning or error
    #[arg(long)]
    validate: bool,
    #[command(flatten)]
    blocks: BlockArgs,
    /// Most bytes moved per pass, with an optional K, M or G [default: 64M]
    #[arg(long, value_name = "N", value_parser = parse_bytes)]
    pass_bytes: Option<u64>,
    /// Most allocations moved per pass [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pass_moves: Option<u32>,
    /// Longest planning time per pass, in microseconds [default: 500]
    #[arg(long, value_name = "N")]
    pass_time_us: Option<u64>,
    /// The page to write; an older file is replaced
    #[arg(
        short,
        long,
        visible_alias = "report",
        value_name = "FILE",
        default_value = "allotment-defragmentation.html"
    )]
    pub(crate) output: PathBuf,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

impl DefragmentArgs {
    /// Returns the device to defragment on.
    pub(crate) fn chosen(&self) -> Result<Chosen, Failure> {
        self.device.chosen(self.validate)
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

/// A defragmentation strategy as written on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrategyArg(pub(crate) DefragmentationStrategy);

impl FromStr for StrategyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("bytes=")) {
            ("fast", _) => Ok(Self(DefragmentationStrategy::Fast)),
            ("full", _) => Ok(Self(DefragmentationStrategy::Full)),
            (_, Some(bytes)) => parse_bytes(bytes).map(DefragmentationStrategy::WithinBytes).map(Self),
            _ => Err("expected fast, full or bytes=N".to_owned()),
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
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
pub(crate) struct ProfilesArgs {
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Parser)]
pub(crate) struct ManArgs {
    /// The command that the page is about: all of `allotment`, unless given
    pub(crate) command: Option<String>,
}

/// The allocator's options for a replay.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) algorithm: Algorithm,
    pub(crate) block_sizes: BlockSizes,
    pub(crate) empty_blocks: EmptyBlockPolicy,
}

impl ReplayArgs {
    /// Returns the device to replay on.
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
        // Manual time: a replay gives the same result on fast and on slow machines.
        desc.time = TimeSource::Manual(ManualTime::new());
        desc.algorithm = self.algorithm;
        // All would be the one line of the replay that allocates.
        desc.call_sites = CallSites::None;
        (desc.block_sizes, desc.empty_blocks) = (self.block_sizes, self.empty_blocks);
        desc
    }
}

/// Returns the profile of this name or the default one, or a usage error that lists all names.
pub(crate) fn profile_or_default(name: Option<&str>) -> Result<Profile, Failure> {
    let name = name.unwrap_or(DEFAULT_PROFILE);
    Profile::named(name).ok_or_else(|| {
        let names: Vec<_> = Profile::all().iter().map(|profile| profile.name).collect();
        Failure::Usage(format!("unknown profile \"{name}\"; the profiles are {}", names.join(", ")))
    })
}

/// Parses a power of two, such as `33554432`, `32M` or `32MiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let size = parse_bytes(text)?;
    if size > 1 << 48 {
        return Err("a block can have at most 2^48 bytes".to_owned());
    }
    if size.is_power_of_two() { Ok(size) } else { Err(format!("{size} is not a power of two")) }
}

/// Parses a number of bytes, such as `1000`, `32M` or `32MiB`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        unit => return Err(format!("unknown unit \"{unit}\": expected K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("\"{digits}\" is not a whole number"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is out of range"))
}
