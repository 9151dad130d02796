//! `allotment replay`: replays a trace; prints a table or JSON, and writes the HTML report.

use allotment_trace::recording::Recording;
use serde::Serialize;

use crate::args::{ReplayArgs, Setup};
use crate::failure::Failure;
use crate::output_file::OutputFile;
use crate::progress::Progress;
use crate::replay::{Images, Options, Outcome, Percentiles, Record, replay, work};
use crate::report;
use crate::source::{self, Source};
use crate::target::{Machine, Target, Task, on_device};
use crate::units::{bytes, count, nanoseconds, percent};
use crate::waste::Waste;

pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let chosen = args.chosen()?;
    let report = OutputFile::new(&args.output)?;
    let dump = args.dump.as_deref().map(OutputFile::new).transpose()?;
    let recording = args.trace_file.as_deref().map(OutputFile::new).transpose()?;
    for (option, file, other, path) in [
        ("--report", Some(&report), "--dump", &args.dump),
        ("--report", Some(&report), "--trace", &args.trace_file),
        ("--dump", dump.as_ref(), "--trace", &args.trace_file),
    ] {
        if file.zip(path.as_ref()).is_some_and(|(file, path)| file.is(path)) {
            return Err(Failure::Usage(format!("{option} and {other} are the same file")));
        }
    }
    source::keep(args.trace.as_deref(), [Some(&report), dump.as_ref(), recording.as_ref()])?;
    on_device(chosen, Replay { args, report, dump })
}

/// A replay and its output files.
struct Replay<'a> {
    args: &'a ReplayArgs,
    report: OutputFile,
    dump: Option<OutputFile>,
}

impl Task for Replay<'_> {
    type Output = ();

    fn run(self, target: impl Target) -> Result<(), Failure> {
        run_on(target, self)
    }
}

fn run_on(target: impl Target, Replay { args, report, dump }: Replay<'_>) -> Result<(), Failure> {
    let (setup, machine) = (args.setup(), &target.machine().clone());
    let source = Source::open(args.trace.as_deref())?;
    let options = Options {
        bytes: args.bytes,
        dump: dump.is_some(),
        names: true,
        stop_at_refusal: true,
        record: args.trace_file.as_deref().map_or(Record::Memory, Record::File),
    };
    let work = work(&source.trace, args.bytes);
    let mut progress = Progress::new(format!("replaying {}", source.title), work);
    let outcome = replay(&source.trace, target, &setup, options, |done| progress.reach(done));
    drop(progress);
    let mut outcome = outcome?;
    let rows = rows(&source, &setup, &outcome);
    report.write(&page_of(&source, args, outcome.recording.take())?)?;
    if let (Some(file), Some(dump)) = (&dump, &outcome.dump) {
        file.write(dump.as_bytes())?;
    }
    if args.json {
        say!("{}", serde_json::to_string(&Summary::new(&source, machine, &setup, &outcome, args))?);
        return Ok(());
    }
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    say!("{} on {}", source.title, machine.about);
    say!();
    for (label, value) in &rows {
        say!("  {label:width$}  {value}");
    }
    say!();
    say!("Report: {} (open it in a browser)", args.output.display());
    if let Some(recording) = &args.trace_file {
        say!("Recording: {} (see it with allotment stats, map or leaks)", recording.display());
    }
    Ok(())
}

/// Returns the page of a replay: of what was recorded into memory, or else of the recording file.
fn page_of(source: &Source, args: &ReplayArgs, recorded: Option<Recording>) -> Result<Vec<u8>, Failure> {
    let recording = match (recorded, &args.trace_file) {
        (Some(recording), _) => recording,
        (None, Some(path)) => {
            let failure = |error| Failure::Input(format!("{}: {error}", path.display()));
            Recording::open(path).map_err(failure)?.0
        }
        (None, None) => Recording::default(),
    };
    report::page(&source.title, &recording)
}

/// Returns the figures of the table.
fn rows(source: &Source, setup: &Setup, outcome: &Outcome) -> Vec<(String, String)> {
    let trace = &source.trace;
    let peak = &outcome.peak;
    let at_peak = |part: u64| format!("{} ({})", bytes(part), percent(part, peak.block_bytes));
    let Percentiles { p50, p99, max } = outcome.timing;
    let row = |label: &str, value: String| (label.to_owned(), value);
    let mut rows = vec![
        row("Allocations", count(outcome.allocations)),
        row("Algorithm", setup.algorithm.to_string()),
        row("Peak live", bytes(outcome.peak_live)),
        row("Peak reserved", bytes(peak.block_bytes)),
        row("Waste", Waste::of(outcome).text()),
        row("Shared blocks at the peak", count(peak.blocks.into())),
        row("Dedicated blocks at the peak", count(peak.dedicated.into())),
        row("Padding at the peak", at_peak(peak.padding)),
        row("Rounding at the peak", at_peak(peak.rounding)),
        row("Free at the peak", at_peak(peak.free())),
        row("Driver calls", count(outcome.device_calls)),
    ];
    if trace.frames() != 0 {
        rows.insert(1, row("Frames", count(trace.frames() as u64)));
        rows.push(row("… per frame", format!("{:.3}", outcome.device_calls as f64 / trace.frames() as f64)));
        rows.push(row("… per steady frame, at most", count(outcome.max_calls_in_steady_frame)));
    }
    rows.extend([
        row("Time per operation, median", nanoseconds(p50)),
        row("Time per operation, p99", nanoseconds(p99)),
        row("Time per operation, max", nanoseconds(max)),
        row("Bytes uploaded", bytes(outcome.bytes_uploaded)),
        row("Bytes verified", bytes(outcome.bytes_verified)),
        row("… of bytes uploaded", percent(outcome.bytes_verified, outcome.bytes_uploaded)),
    ]);
    rows.extend(image_rows(&outcome.images));
    rows
}

/// Returns the figures about images, if the device created any.
fn image_rows(images: &Images) -> Vec<(String, String)> {
    let Images { made, as_buffers, verified, bytes_not_verified } = *images;
    let mut rows = Vec::new();
    let mut row = |label: &str, value: String| rows.push((label.to_owned(), value));
    if made != 0 {
        row("Images created", count(made));
        row("… and verified", count(verified));
    }
    if bytes_not_verified != 0 {
        row("… bytes not verified", bytes(bytes_not_verified));
    }
    if as_buffers != 0 {
        row("Images replaced by buffers", count(as_buffers));
    }
    rows
}

/// The JSON output.
#[derive(Serialize)]
struct Summary<'a> {
    trace: &'a str,
    device: &'static str,
    /// The name that the device reports.
    device_name: &'a str,
    /// The profile of the simulated GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    algorithm: String,
    frames: u64,
    allocations: u64,
    frees: u64,
    bytes_uploaded: u64,
    bytes_verified: u64,
    images: Images,
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    peak_blocks: Blocks,
    waste_bytes: u64,
    at_peak: AtPeak,
    device_calls: Calls,
    ns_per_op: Percentiles,
    report: String,
}

/// Memory objects at the peak.
#[derive(Serialize)]
struct Blocks {
    shared: u32,
    dedicated: u32,
}

/// Reserved bytes that are not live, when most bytes are reserved.
#[derive(Serialize)]
struct AtPeak {
    padding: u64,
    rounding: u64,
    free: u64,
}

/// Driver calls that allocate or free memory.
#[derive(Serialize)]
struct Calls {
    total: u64,
    max_in_a_steady_frame: u64,
}

impl<'a> Summary<'a> {
    fn new(
        source: &'a Source,
        machine: &'a Machine,
        setup: &Setup,
        outcome: &Outcome,
        args: &ReplayArgs,
    ) -> Self {
        Self {
            trace: &source.title,
            device: machine.device,
            device_name: &machine.properties.name,
            profile: machine.profile,
            algorithm: setup.algorithm.to_string(),
            frames: source.trace.frames() as u64,
            allocations: outcome.allocations,
            frees: outcome.frees,
            bytes_uploaded: outcome.bytes_uploaded,
            bytes_verified: outcome.bytes_verified,
            images: outcome.images,
            peak_live_bytes: outcome.peak_live,
            peak_reserved_bytes: outcome.peak.block_bytes,
            peak_blocks: Blocks { shared: outcome.peak.blocks, dedicated: outcome.peak.dedicated },
            waste_bytes: Waste::of(outcome).wasted,
            at_peak: AtPeak {
                padding: outcome.peak.padding,
                rounding: outcome.peak.rounding,
                free: outcome.peak.free(),
            },
            device_calls: Calls {
                total: outcome.device_calls,
                max_in_a_steady_frame: outcome.max_calls_in_steady_frame,
            },
            ns_per_op: outcome.timing,
            report: args.output.display().to_string(),
        }
    }
}
