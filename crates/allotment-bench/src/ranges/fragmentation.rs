//! `fragmentation`: how much of a space is used before a request is refused, and how far ranges reach where there is
//! room.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::check::{Fault, Shadow, Verdict};
use super::contender::{EMPTY, Ranges, Space, Visit, visit_all};
use super::run::{Measure, Omitted, Run};
use super::workload::{Scale, Sizes, Workload};
use crate::failure::Failure;
use crate::rng::Rng;

/// Each figure of a full space is the mean of so many seeds.
const SEEDS: u64 = 3;

/// A contender in a workload. Shares are of 1.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) contender: &'static str,
    /// The share of the space that was in use when the first request was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<f64>,
    /// The mean share in use while each request is served, for which random ranges are freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    sustained: Option<f64>,
    /// The end of the highest range divided by the most live bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    high_water_over_live: Option<f64>,
    refused: u64,
    /// Refused requests for which there was a free range that was large enough, aligned.
    refused_that_fit: u64,
}

/// A space that is filled until requests are refused.
#[derive(Clone, Copy)]
pub(super) struct Full {
    pub(super) name: &'static str,
    size: u64,
    sizes: Sizes,
}

/// Returns the spaces to fill.
pub(super) fn full_spaces() -> [Full; 6] {
    let full = |name, size, sizes| Full { name, size, sizes };
    [
        full("full-buffers-1gib", 1 << 30, Sizes::BUFFERS),
        full("full-buffers-256mib", 256 << 20, Sizes::BUFFERS),
        full("full-textures-8gib", 8 << 30, Sizes::TEXTURES),
        full("full-small-8mib", 8 << 20, Sizes::SMALL),
        full("full-descriptors", 1 << 18, Sizes::DESCRIPTORS),
        full("full-mixed-1gib", 1 << 30, Sizes::MIXED),
    ]
}

/// Fills a space with each contender.
pub(super) fn fill(run: &mut Run<'_>, full: Full) -> Result<Vec<Row>, Failure> {
    // A space of at least thousands of ranges, even in a quick run.
    let size = match run.scale() {
        Scale::Full => full.size,
        Scale::Quick => full.size.min(full.sizes.mean() * 512).next_power_of_two(),
    };
    let mut filling = Filling { run, full: Full { size, ..full }, rows: Vec::new() };
    visit_all(&mut filling)?;
    Ok(filling.rows)
}

struct Filling<'r, 'a> {
    run: &'r mut Run<'a>,
    full: Full,
    rows: Vec<Row>,
}

impl Visit for Filling<'_, '_> {
    fn visit<C: Ranges>(&mut self) -> Result<(), Failure> {
        if C::NAME == EMPTY || C::IS_LINEAR || !self.run.has(C::NAME) {
            return Ok(());
        }
        let mut found = Vec::new();
        for seed in 1..=SEEDS {
            let end = Instant::now() + self.run.limit();
            match Filled::of::<C>(&self.full, seed, end) {
                Ok(filled) => found.push(filled),
                Err(Stop::Fault(fault)) => {
                    let (workload, fault) = (self.full.name.to_owned(), fault.to_string());
                    return Err(Failure::Unsound { contender: C::NAME, workload, fault });
                }
                Err(Stop::Omit(reason)) => {
                    let (workload, reason) = (self.full.name.to_owned(), reason.to_owned());
                    self.run.omitted.push(Omitted { workload, contender: C::NAME, reason });
                    return Ok(());
                }
            }
        }
        let mean = |of: fn(&Filled) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        self.rows.push(Row {
            workload: self.full.name.to_owned(),
            contender: C::NAME,
            first_failure: Some(mean(|filled| filled.first_failure)),
            sustained: Some(mean(|filled| filled.sustained)),
            high_water_over_live: None,
            refused: found.iter().map(|filled| filled.refused).sum(),
            refused_that_fit: found.iter().map(|filled| filled.refused_that_fit).sum(),
        });
        Ok(())
    }
}

enum Stop {
    Fault(Fault),
    Omit(&'static str),
}

/// The figures of one seed.
#[derive(Debug, Default)]
struct Filled {
    first_failure: f64,
    sustained: f64,
    refused: u64,
    refused_that_fit: u64,
}

impl Filled {
    fn of<C: Ranges>(full: &Full, seed: u64, end: Instant) -> Result<Self, Stop> {
        let count = full.size / full.sizes.mean();
        let space = Space { size: full.size, unit: full.sizes.unit.into(), peak: count as u32 * 2 };
        let Some(ranges) = C::new(&space) else {
            return Err(Stop::Omit("it cannot manage a space of this size"));
        };
        let mut state =
            State { ranges, shadow: Shadow::new(&space), live: Vec::new(), filled: Self::default() };
        let done = state.run(full, Rng::new(seed), count, end);
        let State { mut ranges, live, filled, .. } = state;
        live.into_iter().for_each(|(handle, _)| ranges.free(handle));
        done.map(|()| filled)
    }
}

struct State<C: Ranges> {
    ranges: C,
    shadow: Shadow,
    live: Vec<(C::Handle, u64)>,
    filled: Filled,
}

impl<C: Ranges> State<C> {
    fn run(&mut self, full: &Full, mut rng: Rng, count: u64, end: Instant) -> Result<(), Stop> {
        let share = |live_bytes: u64| live_bytes as f64 / full.size as f64;
        // Churn that grows: 55 allocations to 45 frees.
        loop {
            in_time(end)?;
            if rng.below(100) < 45 && !self.live.is_empty() {
                self.free_one(&mut rng);
            } else if !self.allocate(full.sizes.draw(&mut rng))? {
                break;
            }
        }
        self.filled.first_failure = share(self.shadow.live_bytes);
        // As many again as fit until the space looks as it stays, then as many that count.
        let mut sum = 0.0;
        for i in 0..2 * count {
            in_time(end)?;
            let request = full.sizes.draw(&mut rng);
            while !self.allocate(request)? {
                if self.live.is_empty() {
                    return Err(Stop::Omit("it refuses a request in an empty space"));
                }
                self.free_one(&mut rng);
            }
            if i >= count {
                sum += share(self.shadow.live_bytes);
            }
        }
        self.filled.sustained = sum / count as f64;
        Ok(())
    }

    /// Returns `false` if the request is refused.
    fn allocate(&mut self, (size, alignment): (u32, u32)) -> Result<bool, Stop> {
        let (size, alignment) = (size.into(), alignment.into());
        let Some((handle, offset)) = self.ranges.allocate(size, alignment) else {
            self.filled.refused += 1;
            self.filled.refused_that_fit += u64::from(self.shadow.would_fit(size, alignment));
            return Ok(false);
        };
        self.shadow.insert(offset, size, alignment).map_err(Stop::Fault)?;
        self.live.push((handle, offset));
        Ok(true)
    }

    fn free_one(&mut self, rng: &mut Rng) {
        let (handle, offset) = self.live.swap_remove(rng.below(self.live.len() as u32) as usize);
        self.shadow.remove(offset);
        self.ranges.free(handle);
    }
}

fn in_time(end: Instant) -> Result<(), Stop> {
    if Instant::now() > end { Err(Stop::Omit("it takes too long")) } else { Ok(()) }
}

/// Plays a workload, whose check has all figures.
pub(super) fn measure(run: &mut Run<'_>, workload: &Arc<Workload>) -> Result<Vec<Row>, Failure> {
    let mut rows = Verdicts { workload, rows: Vec::new() };
    run.each(workload, &mut rows)?;
    Ok(rows.rows)
}

struct Verdicts<'a> {
    workload: &'a Workload,
    rows: Vec<Row>,
}

impl Measure for Verdicts<'_> {
    fn contender<C: Ranges>(&mut self, verdict: &Verdict) -> Result<(), Failure> {
        if C::NAME != EMPTY {
            // In a space that is full or tight the end of the highest range says nothing.
            let is_roomy = !self.workload.may_refuse;
            self.rows.push(Row {
                workload: self.workload.name.clone(),
                contender: C::NAME,
                first_failure: None,
                sustained: None,
                high_water_over_live: is_roomy.then(|| verdict.high_water as f64 / verdict.peak_bytes as f64),
                refused: verdict.refused,
                refused_that_fit: verdict.refused_that_fit,
            });
        }
        Ok(())
    }
}

/// Prints the rows of one workload.
pub(super) fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    say!();
    say!("{}", first.workload);
    let [name, first, high] = ["contender", "first failure", "high-water/live"];
    say!("  {name:28} {first:>14} {:>11} {high:>16} {:>9} {:>9}", "sustained", "refused", "that fit");
    let percent =
        |share: Option<f64>| share.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0));
    for row in rows {
        say!(
            "  {:28} {:>14} {:>11} {:>16} {:>9} {:>9}",
            row.contender,
            percent(row.first_failure),
            percent(row.sustained),
            row.high_water_over_live.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
            row.refused,
            row.refused_that_fit
        );
    }
}
