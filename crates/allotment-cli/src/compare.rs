//! `allotment compare`: one trace under every algorithm and several block sizes, a row each; or under
//! several ways to grow blocks, which is how the library's defaults were chosen.

use allotment::Algorithm;
use allotment::memory::{BlockSizes, Retention};
use serde::Serialize;

use crate::args::{Bytes, CompareArgs, Setup, profile};
use crate::failure::Failure;
use crate::replay::{Options, Percentiles, replay};
use crate::source::Source;
use crate::target::Host;
use crate::units::{bytes, percent};

const MIB: u64 = 1 << 20;

/// Sizes for blocks that are all alike, beside blocks that grow with use.
const FIXED: [u64; 3] = [32 * MIB, 64 * MIB, 256 * MIB];

#[derive(Serialize)]
struct Comparison {
    trace: String,
    profile: &'static str,
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
    retention: Retention,
}

/// Blocks as they are by default; then, with empty blocks given back at once so that what is compared is
/// packing, blocks that grow and blocks that are all alike.
fn usual_ways() -> impl Iterator<Item = Way> {
    let growing =
        |retention| Way { sizing: "growing".to_owned(), block_sizes: BlockSizes::default(), retention };
    let fixed = FIXED.map(|size| Way {
        sizing: "fixed".to_owned(),
        block_sizes: BlockSizes::fixed(size),
        retention: Retention::NONE,
    });
    [growing(Retention::default()), growing(Retention::NONE)].into_iter().chain(fixed)
}

/// Blocks that grow by different parts of what is in use, and leave different parts of it to themselves.
fn ways_to_grow() -> impl Iterator<Item = Way> {
    [8, 16, 32].into_iter().flat_map(|growth| {
        [1, 2, 4, 8].into_iter().map(move |own| {
            let mut block_sizes = BlockSizes::default();
            (block_sizes.growth_divisor, block_sizes.own_memory_divisor) = (growth, own);
            let sizing = format!("1/{growth}, own above 1/{own}");
            Way { sizing, block_sizes, retention: Retention::default() }
        })
    })
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let profile = profile(&args.profile)?;
    let source = Source::open(Some(&args.trace))?;
    let ways: Vec<(Way, Algorithm)> = if args.growth {
        ways_to_grow().map(|way| (way, Algorithm::Tlsf)).collect()
    } else {
        usual_ways().flat_map(|way| Algorithm::ALL.map(|algorithm| (way.clone(), algorithm))).collect()
    };
    let mut rows = Vec::new();
    for (Way { sizing, block_sizes, retention }, algorithm) in ways {
        let setup = Setup { algorithm, block_sizes, retention };
        let target = Host::new(profile.clone());
        let options = Options { bytes: Bytes::None, ..Options::default() };
        let outcome = replay(&source.trace, target, &setup, options, |_| ())?;
        rows.push(Row {
            algorithm: algorithm.to_string(),
            sizing,
            block_size: block_sizes.largest,
            empty_blocks: if retention == Retention::NONE { "given back" } else { "kept" },
            peak_live_bytes: outcome.peak_live,
            peak_reserved_bytes: outcome.peak.block_bytes,
            failed: outcome.failed,
            device_calls: outcome.device_calls,
            ns_per_op: outcome.timing,
        });
    }
    if args.json {
        let comparison = Comparison { trace: source.title, profile: profile.name, rows };
        say!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_table(&source.title, profile.name, &rows);
    }
    Ok(())
}

fn print_table(title: &str, profile: &str, rows: &[Row]) {
    say!("{title} on {profile}");
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
        let waste = percent(row.peak_reserved_bytes.saturating_sub(row.peak_live_bytes), row.peak_live_bytes);
        say!(
            "  {:9} {:>26} {:>10} {:>10} {:>14} {waste:>8} {:>7} {:>7} {:>9} {:>9}",
            row.algorithm,
            format!("{}, {}", row.sizing, bytes(row.block_size)),
            row.empty_blocks,
            bytes(row.peak_live_bytes),
            bytes(row.peak_reserved_bytes),
            row.failed,
            row.device_calls,
            row.ns_per_op.p50,
            row.ns_per_op.p99,
        );
    }
}
