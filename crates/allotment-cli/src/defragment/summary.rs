//! The result of a defragmentation, as a table and as JSON.

use allotment_analyze::{DefragmentationVerdict, LeastBlocks};
use serde::Serialize;

use super::moment::Unit;
use super::{Moment, Outcome};
use crate::args::DefragmentArgs;
use crate::source::Source;
use crate::target::Machine;
use crate::units::{bytes, count, nanoseconds, percent};

/// The JSON output. Sizes in bytes.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    trace: &'a str,
    device: &'static str,
    device_name: &'a str,
    profile: Option<&'static str>,
    algorithm: String,
    /// The unit of `at` and `of`.
    unit: Unit,
    at: u64,
    of: u64,
    strategy: String,
    allocations: u64,
    live_bytes: u64,
    blocks_before: u64,
    blocks_after: u64,
    block_bytes_before: u64,
    block_bytes_after: u64,
    /// The least bytes of the blocks before that could hold the live allocations, if they were packed without gaps.
    ideal_block_bytes: u64,
    moves: u32,
    /// Moves that the device could not make.
    moves_ignored: u32,
    bytes_moved: u64,
    /// The least bytes to copy for the ideal.
    lower_bound_bytes: u64,
    /// Bytes moved per byte of the lower bound: below 1 if more than the least possible bytes of blocks remain. `None`
    /// if the bound is 0.
    ratio: Option<f64>,
    passes: u32,
    /// The longest planning time of a pass.
    longest_pass_us: f64,
    /// Time of planning everything at once.
    plan_us: f64,
    /// Blocks that were to be emptied and were not.
    blocks_kept: u32,
    /// Bytes that `full` would free, and bytes that it would copy.
    possible_bytes: u64,
    possible_bytes_moved: u64,
    bytes_verified: u64,
    /// Bytes of images over which no buffer can be created, in memory that the CPU cannot access.
    bytes_not_verified: u64,
    report: String,
    #[serde(skip)]
    verdict: DefragmentationVerdict,
}

/// The explanation of the least bytes, and of the lower bound, in the command's help.
pub(crate) const HELP: &str = "\
The least possible block bytes are, within each pool and memory type, the least bytes of the blocks that there are that
could hold all allocations, if these could be moved and packed without gaps. A block with an allocation that cannot be
moved stays. The lower bound is the least bytes that must be copied to leave only these blocks.";

impl<'a> Summary<'a> {
    pub(super) fn new(
        source: &'a Source,
        machine: &'a Machine,
        args: &DefragmentArgs,
        outcome: &Outcome,
    ) -> Self {
        let Outcome { moment: Moment { unit, at, of }, before, done, after, verified } = outcome;
        let (full, statistics) = (&done.full, &done.statistics);
        let ideal = LeastBlocks::of(&before.sizes());
        let ratio = statistics.bytes_moved as f64 / ideal.bytes_moved as f64;
        let (blocks_before, blocks_after) = (before.blocks.len() as u64, after.blocks.len() as u64);
        let given_back = before.block_bytes() - after.block_bytes();
        let freed = (blocks_before - blocks_after, given_back, statistics.bytes_moved);
        let verdict =
            DefragmentationVerdict::of(freed, args.desc().strategy, full, before.block_bytes(), ideal);
        let microseconds = |time: core::time::Duration| time.as_nanos() as f64 / 1e3;
        Self {
            trace: &source.title,
            device: machine.device,
            device_name: &machine.properties.name,
            profile: machine.profile,
            algorithm: args.setup().algorithm.to_string(),
            unit: *unit,
            at: *at,
            of: *of,
            strategy: args.strategy.to_string(),
            allocations: before.standing.len() as u64,
            live_bytes: before.live_bytes(),
            blocks_before,
            blocks_after,
            block_bytes_before: before.block_bytes(),
            block_bytes_after: after.block_bytes(),
            ideal_block_bytes: ideal.block_bytes,
            moves: statistics.moves,
            moves_ignored: statistics.ignored,
            bytes_moved: statistics.bytes_moved,
            lower_bound_bytes: ideal.bytes_moved,
            ratio: Some(ratio).filter(|ratio| ratio.is_finite()),
            passes: statistics.passes,
            longest_pass_us: microseconds(done.longest),
            plan_us: microseconds(done.planned_in),
            blocks_kept: statistics.blocks_kept,
            possible_bytes: full.bytes_freed(),
            possible_bytes_moved: full.bytes_moved(),
            bytes_verified: verified.bytes,
            bytes_not_verified: verified.bytes_not_verified,
            report: args.output.display().to_string(),
            verdict,
        }
    }

    /// Returns the figures of the table, also shown at the top of the report.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let row = |label: &str, value: String| (label.to_owned(), value);
        let from_to = |from: String, to: String| format!("{from} → {to}");
        let given_back = self.block_bytes_before - self.block_bytes_after;
        let mut rows = vec![
            row("Live", bytes(self.live_bytes)),
            row("Allocations", count(self.allocations)),
            row("Blocks", from_to(count(self.blocks_before), count(self.blocks_after))),
            row("Block bytes", from_to(bytes(self.block_bytes_before), bytes(self.block_bytes_after))),
            row("… freed", percent(given_back, self.block_bytes_before)),
            row("… least possible", bytes(self.ideal_block_bytes)),
            row("Allocations moved", count(self.moves.into())),
            row("Bytes moved", bytes(self.bytes_moved)),
            row("… of live bytes", percent(self.bytes_moved, self.live_bytes)),
            row("… lower bound for the least block bytes", bytes(self.lower_bound_bytes)),
            row("Passes", count(self.passes.into())),
            row("Longest planning of a pass", nanoseconds((self.longest_pass_us * 1e3) as u64)),
            row("Bytes verified", bytes(self.bytes_verified)),
            row("… of live bytes", percent(self.bytes_verified, self.live_bytes)),
        ];
        if self.bytes_not_verified != 0 {
            rows.push(row("Bytes not verified", bytes(self.bytes_not_verified)));
        }
        if self.moves_ignored != 0 {
            rows.push(row("Moves not possible on the device", count(self.moves_ignored.into())));
        }
        if self.blocks_kept != 0 {
            rows.push(row("Blocks not emptied", count(self.blocks_kept.into())));
        }
        rows
    }

    /// Returns the result as a sentence.
    pub(super) fn verdict(&self) -> String {
        match self.verdict {
            DefragmentationVerdict::NotWorth { possible, moved, .. } => format!(
                "Nothing gained: no block is worth emptying under the strategy {}. --strategy full would free {} for {} \
                 copied.",
                self.strategy,
                bytes(possible),
                bytes(moved)
            ),
            verdict => verdict.sentence(bytes),
        }
    }

    pub(super) fn print(&self, machine: &str) {
        let rows = self.rows();
        let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        let (unit, at, of) = (self.unit.name(), count(self.at), count(self.of));
        say!("{} after {unit} {at} of {of}, {}, on {machine}", self.trace, self.strategy);
        say!();
        for (label, value) in &rows {
            say!("  {label:width$}  {value}");
        }
        say!();
        say!("{}", self.verdict());
        say!("Report: {} (open it in a browser)", self.report);
    }
}
