//! `allotment compare`: replays one trace with every algorithm and several block sizes, one row each; or with
//! several block growth policies, of which the library's default is one.

use allotment::Algorithm;
use allotment::memory::blocks::{BlockSizes, EmptyBlockPolicy};
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

/// Fixed block sizes, compared with growing blocks.
const FIXED: [u64; 3] = [32 * MIB, 64 * MIB, 256 * MIB];

#[derive(Serialize)]
struct Comparison {
    trace: String,
    device: &'static str,
    /// The name that the device reports.
    device_name: String,
    /// The profile of the simulated GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    algorithm: String,
    /// `growing`, `fixed`, or the growth policy.
    sizing: String,
    /// Size of the largest block in bytes.
    block_size: u64,
    /// `kept` by the default policy, or `freed` at once.
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

/// A block size policy to compare.
#[derive(Clone)]
struct Way {
    sizing: String,
    block_sizes: BlockSizes,
    empty_blocks: EmptyBlockPolicy,
}

/// Returns the default policy; then, with empty blocks freed at once so that only packing is compared, growing and
/// fixed block sizes.
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

/// Returns policies that differ in growth per block and in the threshold for dedicated memory.
fn ways_to_grow() -> impl Iterator<Item = Way> {
    [16, 32, 64].into_iter().flat_map(|growth| {
        [1, 2, 4, 8].into_iter().map(move |dedicated| {
            let mut block_sizes = BlockSizes::default();
            (block_sizes.growth_divisor, block_sizes.dedicated_threshold_divisor) = (growth, dedicated);
            let sizing = format!("1/{growth}, dedicated above 1/{dedicated}");
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
    let mut progress = Progress::new(format!("comparing {}", source.title), work * ways.len() as u64);
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
            empty_blocks: if empty_blocks == EmptyBlockPolicy::NONE { "freed" } else { "kept" },
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

/// A replay with one policy and one algorithm, on a newly opened device.
struct Trial<'a, F> {
    source: &'a Source,
    setup: &'a Setup,
    /// Receives the finished work.
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
        // One column per figure of `Row`; widths fit the longest policy name.
        "  {:9} {:>36} {:>12} {:>10} {:>14} {:>8} {:>7} {:>7} {:>9} {:>9}",
        "algorithm",
        "blocks, largest",
        "empty blocks",
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
            "  {:9} {:>36} {:>12} {:>10} {:>14} {:>8} {:>7} {:>7} {:>9} {:>9}",
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
