//! The arguments of the commands that inspect recordings.

use std::path::PathBuf;

use allotment_analyze::{Grouping, LifetimeRule, MostGrowth, SettingChanges};
use allotment_trace::recording::{StallKind, UnreadKind};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum};

use super::when::{self, When};
use crate::args::Setup;
use crate::args::{AlgorithmArg, BlockArgs, parse_bytes, parse_size, profile_or_default};
use crate::failure::Failure;
use allotment::Algorithm;
use allotment::device::simulated::Profile;

/// How a CSV trace is replayed, which has requests and no offsets.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayedArgs {
    /// For a CSV trace: the profile of the simulated GPU that it is replayed on [default: discrete-large-bar]
    #[arg(long)]
    profile: Option<String>,
    #[command(flatten)]
    blocks: BlockArgs,
}

impl ReplayedArgs {
    pub(super) fn profile(&self) -> Result<Profile, Failure> {
        profile_or_default(self.profile.as_deref())
    }

    pub(super) fn setup(&self) -> Setup {
        self.blocks.setup()
    }
}

/// The help of each command's file. Not a `#[doc = …]` of a macro, which clap shows as nothing.
const FILE_HELP: &str = "A recording; a JSON dump of VMA or D3D12MA; GFXReconstruct JSON lines; a PyTorch memory snapshot; a \
                         report of gpu-allocator or wgpu as JSON; or a CSV trace, which is replayed on the simulated GPU. \
                         `-` is standard input";

/// A file to inspect.
#[derive(Clone, Debug, Args)]
pub(crate) struct FileArgs {
    #[arg(id = "file", value_name = "FILE", help = FILE_HELP)]
    pub(super) path: PathBuf,
    #[command(flatten)]
    pub(super) replayed: ReplayedArgs,
}

/// A moment of a file, and how it is printed: what most commands take.
#[derive(Clone, Debug, Args)]
pub(crate) struct MomentArgs {
    /// The moment to show
    #[arg(long, value_name = "MOMENT", default_value_t)]
    pub(super) at: When,
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(super) shown: MomentArgs,
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct MapArgs {
    /// Columns of a line [default: those of COLUMNS or of the terminal, or else 100]
    #[arg(long, value_parser = clap::value_parser!(u16).range(60..=1000))]
    pub(super) width: Option<u16>,
    /// The order of the blocks
    #[arg(long, value_enum, default_value_t)]
    pub(super) sort: BlockOrder,
    /// Show so many blocks at most
    #[arg(long, value_name = "N")]
    pub(super) most: Option<usize>,
    #[command(flatten)]
    pub(super) shown: MomentArgs,
}

/// The order of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlockOrder {
    /// By memory type, and in it by their numbers
    #[default]
    Number,
    /// Most free bytes first
    Waste,
    /// The largest first
    Size,
    /// The oldest first
    Age,
}

/// What allocations are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The call site; of an allocation without one, what its name begins with
    #[default]
    CallSite,
    /// The whole name
    Name,
    /// What the name begins with, up to its first digit
    Prefix,
    /// The category
    Category,
}

impl By {
    pub(super) const fn grouping(self) -> Grouping {
        match self {
            Self::CallSite => Grouping::CallSite,
            Self::Name => Grouping::Name,
            Self::Prefix => Grouping::NamePrefix,
            Self::Category => Grouping::Category,
        }
    }

    /// The heading of the column of groups.
    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::CallSite => "Call site or name",
            Self::Name => "Whole name",
            Self::Prefix => "Name before digits",
            Self::Category => "Category",
        }
    }
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct LeaksArgs {
    /// Leave out what was allocated before this moment
    #[arg(long, value_name = "MOMENT")]
    pub(super) since: Option<When>,
    /// What allocations are grouped by
    #[arg(long, value_enum, default_value_t)]
    pub(super) by: By,
    #[command(flatten)]
    pub(super) shown: MomentArgs,
}

/// Which allocations are shown: those at a moment, unless another question is asked.
#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct CallsArgs {
    /// The moment whose allocations are shown
    #[arg(long, value_name = "MOMENT", default_value_t, conflicts_with_all = ["peak", "since", "leaked"])]
    pub(super) at: When,
    /// Show what exists where allocations first occupy the most bytes
    #[arg(long, conflicts_with_all = ["since", "leaked"])]
    pub(super) peak: bool,
    /// Show what was allocated from this moment on, and how much of it still exists
    #[arg(long, value_name = "MOMENT", conflicts_with = "leaked")]
    pub(super) since: Option<When>,
    /// The moment up to which allocations count
    #[arg(long, value_name = "MOMENT", default_value_t, requires = "since")]
    pub(super) until: When,
    /// Show what exists at the end and was not released
    #[arg(long)]
    pub(super) leaked: bool,
    /// Begin with the innermost calls, and show their callers below them
    #[arg(long)]
    pub(super) inverted: bool,
    /// Show all calls, also those of allocators, runtimes and dispatchers
    #[arg(long)]
    pub(super) all: bool,
    /// How many calls deep the tree is shown
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = depth)]
    pub(super) depth: usize,
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Print a line `call;call;call bytes` for each stack, as tools read it that draw flame graphs
    #[arg(long, conflicts_with_all = ["json", "depth"])]
    pub(super) folded: bool,
}

/// A deeper tree would have more brackets than parsers of JSON accept.
fn depth(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|depth| (1..=100).contains(depth))
        .ok_or("expected a number from 1 to 100".to_owned())
}

/// Without a rule, the rules are listed: no file is needed.
#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct LifetimesArgs {
    #[arg(id = "file", value_name = "FILE", help = FILE_HELP)]
    pub(super) path: Option<PathBuf>,
    /// The rule [default: list the rules]
    #[arg(long, value_name = "NAME", value_parser = lifetime_rule(), requires = "file", requires = "at")]
    pub(super) rule: Option<LifetimeRule>,
    /// The moment A of the rule
    #[arg(long, value_name = "MOMENT", requires = "rule")]
    pub(super) at: Option<When>,
    /// The moments B, C and D, in this order, as many as the rule needs: one with each `--and`
    #[arg(long, value_name = "MOMENT", requires = "at")]
    pub(super) and: Vec<When>,
    /// What allocations are grouped by
    #[arg(long, value_enum, default_value_t)]
    pub(super) by: By,
    #[command(flatten)]
    pub(super) replayed: ReplayedArgs,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// Parses the name of a rule. The help lists all, with what each asks.
fn lifetime_rule() -> impl TypedValueParser<Value = LifetimeRule> {
    let names = LifetimeRule::ALL.map(|rule| PossibleValue::new(rule.name()).help(rule.question()));
    PossibleValuesParser::new(names)
        .try_map(|name| LifetimeRule::ALL.into_iter().find(|rule| rule.name() == name).ok_or("no such rule"))
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct DiffArgs {
    #[arg(help = FILE_HELP)]
    pub(crate) a: PathBuf,
    /// The file to compare with [default: the same, at another moment]
    pub(crate) b: Option<PathBuf>,
    /// The moment of the first file [default: 0 in one file, end in two]
    #[arg(long, value_name = "MOMENT")]
    pub(crate) from: Option<When>,
    /// The moment of the second file
    #[arg(long, value_name = "MOMENT", default_value_t)]
    pub(crate) to: When,
    /// What allocations are grouped by
    #[arg(long, value_enum, default_value_t)]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) replayed: ReplayedArgs,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// A format of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The JSON dump of VMA and D3D12MA, for the GpuMemDumpVis viewer: the state at one moment
    Vma,
    /// Trace events, for Perfetto and the tracing page of Chrome
    Chrome,
    /// A profile for Firefox Profiler
    Firefox,
    /// A table with a row for each allocation
    Csv,
    /// A CSV trace: requests, frees and frames, for `allotment replay`
    Traffic,
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct ExportArgs {
    /// The format
    #[arg(long, value_enum)]
    pub(crate) format: ExportFormat,
    /// The file to write; an older file is replaced [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Export what happened up to this moment only; for vma, the moment itself
    #[arg(long, value_name = "MOMENT", default_value_t)]
    pub(crate) at: When,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Print a single JSON object about the written file on standard output; with --output only
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    pub(super) shown: MomentArgs,
}

/// The settings that differ from those of the recording. What is not given stays as it was.
#[derive(Debug, Parser)]
pub(crate) struct WhatIfArgs {
    #[arg(id = "file", value_name = "FILE", help = FILE_HELP)]
    path: PathBuf,
    /// For a CSV trace: the profile of the simulated GPU that it is replayed on [default: discrete-large-bar]
    #[arg(long)]
    profile: Option<String>,
    /// The algorithm in the blocks of the default pools
    #[arg(long, value_enum)]
    algorithm: Option<AlgorithmArg>,
    /// One size for all blocks, a power of two, with an optional K, M or G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["smallest_block", "largest_block"])]
    block_size: Option<u64>,
    /// The size of a pool's first block, a power of two
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    smallest_block: Option<u64>,
    /// The size that no block exceeds, a power of two
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    largest_block: Option<u64>,
    /// Requests above the next block's size divided by this get dedicated memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    dedicated_divisor: Option<u64>,
    /// Frames for which an empty block stays
    #[arg(long, value_name = "N")]
    empty_frames: Option<u32>,
    /// Also write what happens as a recording, for the other commands; an older file is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(super) json: bool,
}

impl WhatIfArgs {
    /// Returns the file, which is loaded as it is recorded.
    pub(super) fn file(&self) -> FileArgs {
        let replayed = ReplayedArgs { profile: self.profile.clone(), blocks: BlockArgs::default() };
        FileArgs { path: self.path.clone(), replayed }
    }

    /// Returns what is given.
    pub(super) fn changes(&self) -> SettingChanges {
        SettingChanges {
            algorithm: self.algorithm.map(Algorithm::from),
            smallest_block: self.smallest_block.or(self.block_size),
            largest_block: self.largest_block.or(self.block_size),
            dedicated_divisor: self.dedicated_divisor,
            empty_frames: self.empty_frames,
        }
    }
}

/// What is printed when help is asked for.
const ALIAS_HELP: &str = "A planning benchmark is a CSV file with the columns id, lower, upper and size in its first line: an item \
                          is alive from lower to before upper. Memory types share the time. The exit code is 1 if not all has a place within the capacity.";

#[derive(Debug, Parser)]
#[command(after_help = ALIAS_HELP)]
pub(crate) struct AliasArgs {
    /// Bytes that may be used of each memory, with an optional K, M or G [default: as few as are found]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) capacity: Option<u64>,
    /// How long to look for better plans, at most; the first ones may take a second even if this is less
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// Also write the items with their offsets as CSV; an older file is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Also draw the plan as SVG, time across and offsets up; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub(super) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(super) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    if (0.0..=1e6).contains(&seconds) { Ok(seconds) } else { Err("expected 0 to 1000000 seconds".to_owned()) }
}

#[derive(Debug, Parser)]
pub(crate) struct ReportArgs {
    /// The page to write; an older file is replaced
    #[arg(
        short,
        long,
        visible_alias = "report",
        value_name = "FILE",
        default_value = "allotment-report.html"
    )]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Print a single JSON object about the written page on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Parser)]
#[command(after_help = when::HELP)]
pub(crate) struct CheckArgs {
    /// What of the file may be unread: damaged, not-understood, contradicts, nothing, lost, encoding, or all. May be given
    /// several times. Without it the check fails if anything of the file was not read
    #[arg(long, value_name = "KIND", value_parser = parse_accepted)]
    pub(crate) accept: Vec<Accepted>,
    /// The most allocations that may exist at the end of the recording and are not released
    #[arg(long, value_name = "N")]
    pub(crate) max_leaks: Option<u64>,
    /// The most bytes that all blocks may have at once, with an optional K, M or G
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) max_peak: Option<u64>,
    /// The largest fragmentation, from 0 to 1: the share of the free bytes that are not in the largest hole of their
    /// block
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) max_fragmentation: Option<f64>,
    /// The most times that a thread may wait in the library: for the driver or for the GPU, but not for frames in
    /// flight, as every program does that the GPU limits. With KIND= (driver-call, frames-in-flight or gpu), the most
    /// waits of that kind; may be given once for each
    #[arg(long, value_name = "[KIND=]N", value_parser = parse_max_stalls)]
    pub(crate) max_stalls: Vec<MaxStalls>,
    #[command(flatten)]
    pub(crate) growth: GrowthArgs,
    #[command(flatten)]
    pub(crate) trend: TrendArgs,
    /// Also write what was found as Markdown, for a pull request; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// The moment whose fragmentation is measured
    #[arg(long, value_name = "MOMENT", default_value_t)]
    pub(crate) at: When,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Print a single JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a file is compared with, and how much more it may need.
#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    /// Compare with the file of an earlier run: what all and each group need at their peaks, and allocations a frame. It may be
    /// of another kind than FILE
    #[arg(long, value_name = "OLD")]
    pub(crate) against: Option<PathBuf>,
    /// How much more FILE may need than OLD, in percent (5%) or bytes with an optional K, M or G (64MiB): the peak of the blocks,
    /// the peak of all allocations, and that of each group. A group may always grow by --min. Percents bound the
    /// allocations a frame as well, in the second half of the frames: of all, and of each group; half an allocation is allowed
    #[arg(long, value_name = "GROWTH", value_parser = parse_growth, requires = "against")]
    pub(crate) max_growth: Option<MostGrowth>,
    /// The bytes that each group may grow by, however few it had [default: a tenth of what all together may grow by]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "max_growth")]
    pub(crate) min: Option<u64>,
    /// What allocations are grouped by. Call sites of one file are paired in the order of their lines; where not as many are in
    /// both, the file is one group
    #[arg(long, value_enum, default_value_t, requires = "against")]
    pub(crate) by: By,
}

/// The file that keeps a line of each run.
#[derive(Debug, Args)]
pub(crate) struct TrendArgs {
    /// Append a line with what was measured to a file of JSON lines, which is created where there is none
    #[arg(long = "trend", value_name = "FILE")]
    pub(crate) path: Option<PathBuf>,
    /// The commit that the line is about
    #[arg(long, value_name = "TEXT", requires = "path")]
    pub(crate) commit: Option<String>,
    /// What else the line is about: a machine, a scene
    #[arg(long, value_name = "TEXT", requires = "path")]
    pub(crate) label: Option<String>,
}

/// Parses a bound of growth: `5%` or `64MiB`.
fn parse_growth(text: &str) -> Result<MostGrowth, String> {
    let Some(percent) = text.strip_suffix('%') else { return parse_bytes(text).map(MostGrowth::Bytes) };
    let percent: f64 = percent.trim_end().parse().map_err(|_| format!("\"{percent}\" is not a number"))?;
    if (0.0..=1e6).contains(&percent) {
        Ok(MostGrowth::Share(percent / 100.0))
    } else {
        Err("expected 0 to 1000000 percent".to_owned())
    }
}

/// What of a file may be unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    All,
    Kind(UnreadKind),
}

impl Accepted {
    pub(crate) fn has(self, kind: UnreadKind) -> bool {
        match self {
            Self::All => true,
            Self::Kind(accepted) => accepted == kind,
        }
    }
}

fn parse_accepted(text: &str) -> Result<Accepted, String> {
    if text == "all" {
        return Ok(Accepted::All);
    }
    let names = || UnreadKind::ALL.map(UnreadKind::name).join(", ");
    UnreadKind::from_name(text).map(Accepted::Kind).ok_or_else(|| format!("not all, nor one of {}", names()))
}

/// A limit of stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxStalls {
    /// Those that count; `None` for all but waits for frames in flight.
    pub(crate) kind: Option<StallKind>,
    pub(crate) limit: u64,
}

impl MaxStalls {
    pub(crate) fn counts(self, kind: StallKind) -> bool {
        self.kind.map_or(kind != StallKind::FramesInFlight, |counted| counted == kind)
    }
}

/// Parses a limit of stalls: `3` or `driver-call=3`.
fn parse_max_stalls(text: &str) -> Result<MaxStalls, String> {
    let (kind, limit) = match text.split_once('=') {
        None => (None, text),
        Some(("driver-call", limit)) => (Some(StallKind::DriverCall), limit),
        Some(("frames-in-flight", limit)) => (Some(StallKind::FramesInFlight), limit),
        Some(("gpu", limit)) => (Some(StallKind::Gpu), limit),
        Some((kind, _)) => {
            return Err(format!("\"{kind}\" is none of driver-call, frames-in-flight, gpu"));
        }
    };
    let limit = limit.parse().map_err(|_| format!("\"{limit}\" is not a whole number"))?;
    Ok(MaxStalls { kind, limit })
}

/// Parses a number from 0 to 1.
fn parse_share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("expected a number from 0 to 1".to_owned()) }
}
