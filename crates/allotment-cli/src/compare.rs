//! `allotment compare`: one trace under every algorithm and several block sizes, a row each; or under
//! several ways to grow blocks, which is how the library's defaults were chosen.

use allotment::Algorithm;
use allotment::memory::{BlockSizes, EmptyBlockPolicy};
use serde::Serialize;

use crate::args::{Bytes, CompareArgs, Setup};
use crate::failure::Failure;
use crate::progress::{self, Progress};
use crate::replay::{Options, Outcome, Percentiles, replay};
use crate::source::Source;
use crate::target::{Machine, Target, Task, on_device};
use crate::units::bytes;
use crate::waste::Waste;

const MIB: u64 = 1 << 20;

/// Sizes for blocks that are all alike, beside blocks that grow with use.
const FIXED: [u64; 3] = [32 * MIB, 64 * MIB, 256 * MIB];

#[derive(Serialize)]
struct Comparison {
    trace: String,
    device: &'static str,
    /// What the device calls itself.
    device_name: String,
    /// Of the simulated device, as what it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    algorithm: String,
    /// `growing`, `fixed`, or in which way they grow.
    sizing: String,
    /// Bytes of the largest block that there may be.
    block_size: u64,
    /// `kept` by the default rules, or `given back` at once.
    empty_blocks: &'static str,
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    waste_bytes: u64,
    #[serde(skip)]
    waste: String,
    /// Allocations that were refused.
    failed: u64,
    device_calls: u64,
    ns_per_op: Percentiles,
}

/// Where the bytes of a trace are put.
#[derive(Clone)]
struct Way {
    sizing: String,
    block_sizes: BlockSizes,
    empty_blocks: EmptyBlockPolicy,
}

/// Blocks as they are by default; then, with empty blocks given back at once so that what is compared is
/// packing, blocks that grow and blocks that are all alike.
fn usual_ways() -> impl Iterator<Item = Way> {
    let growing =
        |empty_blocks| Way { sizing: "growing".to_owned(), block_sizes: BlockSizes::default(), empty_blocks };
    let fixed = FIXED.map(|size| Way {
        sizing: "fixed".to_owned(),
        block_sizes: BlockSizes::fixed(size),
        empty_blocks: EmptyBlockPolicy::NONE,
    });
    [growing(EmptyBlockPolicy::default()), growing(EmptyBlockPolicy::NONE)].into_iter().chain(fixed)
}

/// Blocks that grow by different parts of what is in use, and leave different parts of it to themselves.
fn ways_to_grow() -> impl Iterator<Item = Way> {
    [8, 16, 32].into_iter().flat_map(|growth| {
        [1, 2, 4, 8].into_iter().map(move |own| {
            let mut block_sizes = BlockSizes::default();
            (block_sizes.growth_divisor, block_sizes.dedicated_threshold_divisor) = (growth, own);
            let sizing = format!("1/{growth}, own above 1/{own}");
            Way { sizing, block_sizes, empty_blocks: EmptyBlockPolicy::default() }
        })
    })
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let chosen = args.device.chosen(false)?;
    let source = Source::open(args.trace.as_deref())?;
    let ways: Vec<(Way, Algorithm)> = if args.growth {
        ways_to_grow().map(|way| (way, Algorithm::Tlsf)).collect()
    } else {
        usual_ways().flat_map(|way| Algorithm::ALL.map(|algorithm| (way.clone(), algorithm))).collect()
    };
    let work = progress::work(&source.trace, |_| 0);
    let mut progress = Progress::new(format!("comparing with {}", source.title), work * ways.len() as u64);
    let mut before = 0;
    let (mut rows, mut machine) = (Vec::new(), None);
    for (Way { sizing, block_sizes, empty_blocks }, algorithm) in ways {
        let setup = Setup { algorithm, block_sizes, empty_blocks };
        let advance = |done| progress.reach(before + done);
        let (outcome, on) = on_device(chosen.clone(), Trial { source: &source, setup: &setup, advance })?;
        machine = Some(on);
        before += work;
        let waste = Waste::of(&outcome);
        rows.push(Row {
            algorithm: algorithm.to_string(),
            sizing,
            block_size: block_sizes.largest,
            empty_blocks: if empty_blocks == EmptyBlockPolicy::NONE { "given back" } else { "kept" },
            peak_live_bytes: outcome.peak_live,
            peak_reserved_bytes: outcome.peak.block_bytes,
            waste_bytes: waste.wasted,
            waste: waste.share(),
            failed: outcome.failed,
            device_calls: outcome.device_calls,
            ns_per_op: outcome.timing,
        });
    }
    drop(progress);
    let Some(machine) = machine else { return Ok(()) };
    if args.json {
        let comparison = Comparison {
            trace: source.title,
            device: machine.device,
            device_name: machine.properties.name,
            profile: machine.profile,
            rows,
        };
        say!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_table(&source.title, &machine.about, &rows);
    }
    Ok(())
}

/// One way and one algorithm, on a device that is opened for them.
struct Trial<'a, F> {
    source: &'a Source,
    setup: &'a Setup,
    /// Told how much of the work is done.
    advance: F,
}

impl<F: FnMut(u64)> Task for Trial<'_, F> {
    type Output = (Outcome, Machine);

    fn run(self, target: impl Target) -> Result<Self::Output, Failure> {
        let machine = target.machine().clone();
        let options = Options { bytes: Bytes::None, ..Options::default() };
        replay(&self.source.trace, target, self.setup, options, self.advance)
            .map(|outcome| (outcome, machine))
    }
}

fn print_table(title: &str, machine: &str, rows: &[Row]) {
    say!("{title} on {machine}");
    say!();
    say!(
        "  {:9} {:>26} {:>10} {:>10} {:>14} {:>8} {:>7} {:>7} {:>9} {:>9}",
        "algorithm",
        "blocks, at most",
        "empty ones",
        "peak live",
        "peak reserved",
        "waste",
        "failed",
        "calls",
        "p50 ns",
        "p99 ns"
    );
    for row in rows {
        say!(
            "  {:9} {:>26} {:>10} {:>10} {:>14} {:>8} {:>7} {:>7} {:>9} {:>9}",
            row.algorithm,
            format!("{}, {}", row.sizing, bytes(row.block_size)),
            row.empty_blocks,
            bytes(row.peak_live_bytes),
            bytes(row.peak_reserved_bytes),
            row.waste,
            row.failed,
            row.device_calls,
            row.ns_per_op.p50,
            row.ns_per_op.p99,
        );
    }
}
