//! The results, as a table and as JSON.

use serde::Serialize;

use super::BATCH;
use crate::args::LifetimeArgs;
use crate::failure::Failure;
use crate::race::Rows;
use crate::start_barrier::processors;

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    /// Threads that can run at once.
    processors: usize,
    repetitions: u32,
    /// Of each thread. A reclaiming thread may do more with several threads.
    operations_per_lap: u64,
    pub(super) rows: Rows,
}

impl Report {
    pub(super) fn new(args: &LifetimeArgs) -> Self {
        Self {
            processors: processors(),
            repetitions: args.repetitions,
            operations_per_lap: args.batches * BATCH,
            rows: Rows::default(),
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
        say!("Medians of {} laps of {} operations per thread.", self.repetitions, self.operations_per_lap);
        self.rows.print(self.processors);
        Ok(())
    }
}
