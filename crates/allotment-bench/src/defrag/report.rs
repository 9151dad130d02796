//! The results, as tables and as JSON.

use serde::Serialize;

use super::beside::BesideRow;
use super::outcome::Outcome;
use super::planning::PlanningRow;
use super::room::RoomRow;
use super::room_limit::RoomLimitRow;
use super::slivers::SliversRow;
use super::state::{BLOCK, State};
use crate::args::DefragArgs;
use crate::failure::Failure;
use crate::start_barrier::processors;
use crate::units::{bytes, median};

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    /// Threads that can run at once.
    processors: usize,
    pub(super) repetitions: u32,
    /// Of the first state.
    allocations: u32,
    block_bytes: u64,
    /// In `planning` and `beside`.
    live: u32,
    pub(super) notes: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) planning: Vec<PlanningRow>,
    pub(super) beside: Vec<BesideRow>,
    pub(super) room: Vec<RoomRow>,
    pub(super) room_limit: Vec<RoomLimitRow>,
    pub(super) slivers: Vec<SliversRow>,
}

/// The results of a contender for a state.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) state: &'static str,
    pub(super) strategy: &'static str,
    pub(super) contender: &'static str,
    /// The limit of a pass, if there is one.
    moves_per_pass: Option<u32>,
    /// Memory objects, including empty ones.
    blocks_before: u32,
    blocks_after: u32,
    /// Non-empty blocks.
    in_use_before: u32,
    in_use_after: u32,
    /// The fewest blocks that have room for the bytes.
    ideal_blocks: u32,
    bytes_moved: u64,
    /// Lower bound of copied bytes for the ideal number of blocks.
    lower_bound_bytes: u64,
    /// Lower bound of copied bytes for the blocks that were emptied.
    bound_of_emptied_bytes: u64,
    live_bytes: u64,
    /// `bytes_moved` divided by each bound; `None` if the bound is 0.
    ratio: Option<f64>,
    ratio_of_emptied: Option<f64>,
    moves: u64,
    passes: u32,
    /// Processor time of planning passes, in total and of the longest call; medians.
    plan_us_total: f64,
    longest_pass_us: f64,
    /// Processor time of ending passes.
    end_us_total: f64,
    /// The contender's own lower bound, and the value computed from its blocks.
    own_bound_bytes: Option<u64>,
    own_bound_counted_bytes: Option<u64>,
}

impl Row {
    /// Combines runs that differ only in their times.
    pub(super) fn new(
        state: &State,
        strategy: &'static str,
        contender: &'static str,
        moves_per_pass: Option<u32>,
        outcomes: &[Outcome],
    ) -> Self {
        let none = Outcome::default();
        let first = outcomes.first().unwrap_or(&none);
        let (before, after) = (&first.before, &first.after);
        let lower_bound_bytes = before.lower_bound();
        let bound_of_emptied_bytes = before.bound_of(before.in_use().saturating_sub(after.in_use()));
        let by = |bound: u64| (bound != 0).then(|| first.bytes_moved as f64 / bound as f64);
        Self {
            state: state.name,
            strategy,
            contender,
            moves_per_pass,
            blocks_before: before.blocks,
            blocks_after: after.blocks,
            in_use_before: before.in_use(),
            in_use_after: after.in_use(),
            ideal_blocks: before.ideal(),
            bytes_moved: first.bytes_moved,
            lower_bound_bytes,
            bound_of_emptied_bytes,
            live_bytes: before.live(),
            ratio: by(lower_bound_bytes),
            ratio_of_emptied: by(bound_of_emptied_bytes),
            moves: first.moves,
            passes: first.passes,
            plan_us_total: median(outcomes.iter().map(Outcome::plan_us)),
            longest_pass_us: median(outcomes.iter().map(Outcome::longest_us)),
            end_us_total: median(outcomes.iter().map(|outcome| outcome.ended.as_secs_f64() * 1e6)),
            own_bound_bytes: first.own_bound.map(|bound| bound.said),
            own_bound_counted_bytes: first.own_bound.map(|bound| bound.counted),
        }
    }

    fn print(&self) {
        let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        say!(
            "  {:14} {:9} {:>5} {:>9} {:>7} {:>5} {:>10} {:>10} {:>6} {:>8} {:>6} {:>6} {:>10.0} {:>9.0} {:>9.0}",
            self.strategy,
            self.contender,
            self.moves_per_pass.map_or("-".to_owned(), |moves| moves.to_string()),
            format!("{}→{}", self.blocks_before, self.blocks_after),
            format!("{}→{}", self.in_use_before, self.in_use_after),
            self.ideal_blocks,
            bytes(self.bytes_moved),
            bytes(self.lower_bound_bytes),
            ratio(self.ratio),
            ratio(self.ratio_of_emptied),
            self.moves,
            self.passes,
            self.plan_us_total,
            self.longest_pass_us,
            self.end_us_total
        );
    }
}

impl Report {
    pub(super) fn new(args: &DefragArgs) -> Self {
        Self {
            processors: processors(),
            repetitions: args.repetitions,
            allocations: args.allocations,
            block_bytes: BLOCK,
            live: args.live,
            notes: Vec::new(),
            rows: Vec::new(),
            planning: Vec::new(),
            beside: Vec::new(),
            room: Vec::new(),
            room_limit: Vec::new(),
            slivers: Vec::new(),
        }
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(self)?)
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", self.json()?);
            return Ok(());
        }
        say!("Blocks of {}. Processor time in µs, medians of {}.", bytes(self.block_bytes), self.repetitions);
        self.notes.iter().for_each(|note| say!("note: {note}"));
        let mut state = "";
        for row in &self.rows {
            if row.state != state {
                state = row.state;
                say!();
                say!("{state}, {} live", bytes(row.live_bytes));
                say!(
                    "  {:14} {:9} {:>5} {:>9} {:>7} {:>5} {:>10} {:>10} {:>6} {:>8} {:>6} {:>6} {:>10} {:>9} {:>9}",
                    "strategy",
                    "contender",
                    "limit",
                    "blocks",
                    "in use",
                    "ideal",
                    "moved",
                    "bound",
                    "ratio",
                    "emptied",
                    "moves",
                    "passes",
                    "planning",
                    "longest",
                    "ending"
                );
            }
            row.print();
        }
        if !self.planning.is_empty() {
            say!();
            say!("planning: planning passes of 64 moves among {} allocations, µs", self.live);
            PlanningRow::print_head();
            self.planning.iter().for_each(PlanningRow::print);
        }
        if !self.beside.is_empty() {
            say!();
            say!("beside: an allocation and its free beside another thread, µs");
            BesideRow::print_head();
            self.beside.iter().for_each(BesideRow::print);
        }
        if !self.room.is_empty() {
            say!();
            say!(
                "room: requests in a pool that is nearly full, which get their room by moves, µs without the copies"
            );
            RoomRow::print_head();
            self.room.iter().for_each(RoomRow::print);
        }
        if !self.room_limit.is_empty() {
            say!();
            say!("room-limit: room in a block of {} allocations, half of them freed, µs", self.live);
            RoomLimitRow::print_head();
            self.room_limit.iter().for_each(RoomLimitRow::print);
        }
        if !self.slivers.is_empty() {
            say!();
            say!(
                "slivers: requests among holes of 1,024 units, or of 1,000 at an alignment of 256, wall time"
            );
            SliversRow::print_head();
            self.slivers.iter().for_each(SliversRow::print);
        }
        Ok(())
    }
}
