//! `allotment compare`: one trace under every algorithm and several block sizes, a row each; or under
//! several ways to grow blocks, which is how the library's defaults were chosen.

use allotment::Algorithm;
use allotment::memory::BlockSizes;
use serde::Serialize;

use crate::args::{Bytes, CompareArgs, Setup, profile};
use crate::failure::Failure;
use crate::replay::{Options, Percentiles, replay};
use crate::source::Source;
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
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    /// Allocations that were refused.
    failed: u64,
    device_calls: u64,
    ns_per_op: Percentiles,
}

/// A name for people, and the sizes.
type Sizing = (String, BlockSizes);

/// Blocks that grow as they do by default, and blocks that are all alike.
fn usual_sizings() -> impl Iterator<Item = Sizing> {
    let fixed = FIXED.map(|size| ("fixed".to_owned(), BlockSizes::fixed(size)));
    core::iter::once(("growing".to_owned(), BlockSizes::default())).chain(fixed)
}

/// Blocks that grow by different parts of what is in use, and leave different parts of it to themselves.
fn growing_sizings() -> impl Iterator<Item = Sizing> {
    [8, 16, 32].into_iter().flat_map(|growth| {
        [1, 2, 4, 8].into_iter().map(move |own| {
            let mut sizes = BlockSizes::default();
            (sizes.growth_divisor, sizes.own_memory_divisor) = (growth, own);
            (format!("1/{growth}, own above 1/{own}"), sizes)
        })
    })
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let profile = profile(&args.profile)?;
    let source = Source::open(Some(&args.trace))?;
    let setups: Vec<(Sizing, Algorithm)> = if args.growth {
        growing_sizings().map(|sizing| (sizing, Algorithm::Tlsf)).collect()
    } else {
        usual_sizings()
            .flat_map(|sizing| Algorithm::ALL.map(|algorithm| (sizing.clone(), algorithm)))
            .collect()
    };
    let mut rows = Vec::new();
    for ((sizing, block_sizes), algorithm) in setups {
        let setup = Setup { profile: profile.clone(), algorithm, block_sizes };
        let options = Options { bytes: Bytes::None, history: false, dump: false, stop_at_refusal: false };
        let outcome = replay(&source.trace, &setup, options, |_| ())?;
        rows.push(Row {
            algorithm: algorithm.to_string(),
            sizing,
            block_size: block_sizes.largest,
            peak_live_bytes: outcome.peak_live,
            peak_reserved_bytes: outcome.peak.block_bytes,
            failed: outcome.failed,
            device_calls: outcome.device_calls,
            ns_per_op: outcome.timing,
        });
    }
    if args.json {
        let comparison = Comparison { trace: source.title, profile: profile.name, rows };
        println!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_table(&source.title, profile.name, &rows);
    }
    Ok(())
}

fn print_table(title: &str, profile: &str, rows: &[Row]) {
    println!("{title} on {profile}");
    println!();
    println!(
        "  {:9} {:>26} {:>12} {:>14} {:>8} {:>7} {:>7} {:>9} {:>9}",
        "algorithm",
        "blocks, at most",
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
        println!(
            "  {:9} {:>26} {:>12} {:>14} {waste:>8} {:>7} {:>7} {:>9} {:>9}",
            row.algorithm,
            format!("{}, {}", row.sizing, bytes(row.block_size)),
            bytes(row.peak_live_bytes),
            bytes(row.peak_reserved_bytes),
            row.failed,
            row.device_calls,
            row.ns_per_op.p50,
            row.ns_per_op.p99,
        );
    }
}
