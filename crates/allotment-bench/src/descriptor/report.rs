//! Results and ratios, as tables and as JSON.

use serde::Serialize;

use super::{BATCH, Dimensions};
use crate::failure::Failure;
use crate::race::{Row, Rows};
use crate::start_barrier::processors;

/// All figures of a run.
#[derive(Serialize)]
pub(super) struct Report {
    /// Threads that can run at once.
    processors: usize,
    repetitions: u32,
    pub(super) dimensions: Dimensions,
    pub(super) rows: Rows,
}

/// All figures with the ratios derived from them.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// The time of the peers divided by the library's.
    ratios: Vec<Ratio>,
    /// The time with several threads divided by the time on one.
    beside_others: Vec<Ratio>,
    rates: Vec<Rate>,
}

/// The ratio of two times.
#[derive(Serialize)]
struct Ratio {
    workload: &'static str,
    threads: usize,
    /// The contender of the numerator, and of the denominator.
    contender: &'static str,
    by: &'static str,
    of_medians: f64,
    /// Of the fastest laps.
    of_best: f64,
    /// Of processor time, medians. A sleeping thread uses none.
    of_cpu: f64,
}

/// The rate of a copy.
#[derive(Serialize)]
struct Rate {
    workload: &'static str,
    contender: &'static str,
    /// 10^9 bytes per second.
    gb_per_s: f64,
    /// Of the fastest lap.
    gb_per_s_best: f64,
}

fn is_ours(row: &Row) -> bool {
    row.contender.starts_with("allotment")
}

fn ratio(row: &Row, by: &Row) -> Ratio {
    Ratio {
        workload: row.workload,
        threads: row.threads,
        contender: row.contender,
        by: by.contender,
        of_medians: row.ns_per_op / by.ns_per_op,
        of_best: row.ns_per_op_min / by.ns_per_op_min,
        of_cpu: row.cpu_ns_per_op / by.cpu_ns_per_op,
    }
}

impl Report {
    pub(super) fn new(repetitions: u32, dimensions: Dimensions) -> Self {
        Self { processors: processors(), repetitions, dimensions, rows: Rows::default() }
    }

    fn whole(&self) -> Whole<'_> {
        let pairs = |is_other: fn(&Row) -> bool, is_base: fn(&Row, &Row) -> bool| {
            let others = self.rows.iter().filter(move |row| is_other(row));
            others
                .flat_map(|row| {
                    let bases = self.rows.iter().filter(move |base| row.workload == base.workload);
                    bases.filter(move |base| is_base(base, row)).map(move |base| ratio(row, base))
                })
                .collect()
        };
        let ratios = pairs(|row| !is_ours(row), |base, row| is_ours(base) && base.threads == row.threads);
        let alone = |base: &Row, row: &Row| base.threads == 1 && base.contender == row.contender;
        let beside_others = pairs(|row| row.threads > 1, alone);
        let copies = self.rows.iter().filter(|row| row.workload.starts_with("copy"));
        let rate = |time: f64| f64::from(self.dimensions.stride) / time;
        let rates = copies.map(|row| Rate {
            workload: row.workload,
            contender: row.contender,
            gb_per_s: rate(row.ns_per_op),
            gb_per_s_best: rate(row.ns_per_op_min),
        });
        Whole { report: self, ratios, beside_others, rates: rates.collect() }
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(&self.whole())?)
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            say!("{}", self.json()?);
            return Ok(());
        }
        let Dimensions { batches, live, stride, transient_region, transient_chunk, staging_page, .. } =
            self.dimensions;
        say!("Medians of {} laps of {} operations per thread.", self.repetitions, u64::from(batches) * BATCH);
        say!(
            "Descriptors of {stride} bytes: {live} live, {staging_page} per CPU heap page; recordings share"
        );
        say!("{transient_region} in chunks of {transient_chunk}.");
        self.rows.print(self.processors);
        let Whole { ratios, beside_others, rates, .. } = self.whole();
        for (title, ratios) in
            [("time of peers / ours", ratios), ("time with other threads / alone", beside_others)]
        {
            say!();
            say!("{title:87} {:>8} {:>8} {:>8}", "medians", "best", "cpu");
            ratios.iter().for_each(Ratio::print);
        }
        say!();
        say!("{:87} {:>8} {:>8}", "GB/s", "median", "best");
        rates.iter().for_each(Rate::print);
        Ok(())
    }
}

impl Ratio {
    fn print(&self) {
        say!(
            "  {:16} {} threads  {:26} {:32} {:>8.2} {:>8.2} {:>8.2}",
            self.workload,
            self.threads,
            self.contender,
            self.by,
            self.of_medians,
            self.of_best,
            self.of_cpu
        );
    }
}

impl Rate {
    fn print(&self) {
        say!(
            "  {:16} {:68} {:>8.2} {:>8.2}",
            self.workload,
            self.contender,
            self.gb_per_s,
            self.gb_per_s_best
        );
    }
}
