//! `plans`: how tight the plans of items with known lifetimes are, after how much time. Without a GPU.
//!
//! ```text
//!   instances   files, and generated ones: rectangles that were cut, frame graphs, growing sets
//!   unchanged   frames that are described as the one before, or as the one before that
//! ```
//!
//! Times are processor time of the thread. A plan is checked after each measurement, outside of it.

mod instances;
mod unchanged;

use core::time::Duration;

use allotment_suballoc::plan::{Plan, Problem, Solver};
use serde::Serialize;

use self::instances::Instance;
use self::unchanged::Unchanged;
use crate::args::PlansArgs;
use crate::clock::thread_cpu_time;
use crate::failure::Failure;

/// A frame must be planned within this.
const FRAME: Duration = Duration::from_millis(2);

#[derive(Serialize)]
struct Row {
    name: String,
    items: usize,
    lower_bound_bytes: u64,
    greedy_peak_bytes: u64,
    greedy_seconds: f64,
    /// After each of the times that were asked for.
    searches: Vec<Search>,
    capacity_bytes: Option<u64>,
    /// Until a plan was within the capacity.
    capacity_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Search {
    limit_seconds: f64,
    seconds: f64,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    proved: bool,
}

/// Many frames together.
#[derive(Serialize)]
struct Frames {
    frames: usize,
    at_bound: usize,
    at_bound_by_greedy: usize,
    highest_ratio: f64,
    mean_seconds: f64,
    highest_seconds: f64,
}

#[derive(Serialize)]
struct Report {
    instances: Vec<Row>,
    frames: Frames,
    growth: Vec<Row>,
    unchanged: Vec<Unchanged>,
}

pub(crate) fn run(args: &PlansArgs) -> Result<(), Failure> {
    let mut all = Vec::new();
    for path in &args.files {
        all.push(instances::read(path)?);
    }
    let count = if args.quick { 40 } else { 300 };
    for seed in 0..3 {
        all.push(instances::cut(seed, count));
        all.push(instances::pinwheels(seed, count));
    }
    let report = Report {
        instances: all.iter().map(|instance| row(instance, &args.ms)).collect::<Result<_, _>>()?,
        frames: frames(args.frames)?,
        growth: (3..=if args.quick { 3 } else { 5 })
            .map(|exponent| row(&instances::growing(10usize.pow(exponent)), &[]))
            .collect::<Result<_, _>>()?,
        unchanged: [40, 200, 1000].map(unchanged::measure).into_iter().collect::<Result<_, _>>()?,
    };
    if args.json {
        say!("{}", serde_json::to_string(&report).map_err(Failure::Json)?);
    } else {
        print(&report, &args.ms);
    }
    Ok(())
}

fn problem(instance: &Instance) -> Result<Problem, Failure> {
    Problem::new(instance.items.iter().cloned()).map_err(|error| Failure::Setup {
        contender: "allotment",
        error: format!("{}: {error}", instance.name),
    })
}

/// Runs what is measured. Returns the time.
fn timed(run: impl FnOnce()) -> Duration {
    let start = thread_cpu_time();
    run();
    thread_cpu_time() - start
}

fn checked(problem: &Problem, plan: &Plan, instance: &Instance) -> Result<(), Failure> {
    plan.check(problem).map_err(|error| Failure::Unsound {
        contender: "allotment",
        workload: instance.name.clone(),
        fault: error.to_string(),
    })
}

fn row(instance: &Instance, limits: &[f64]) -> Result<Row, Failure> {
    let problem = problem(instance)?;
    let (mut solver, mut plan) = (Solver::new(), Plan::new());
    // The second time, as in a frame: memory is there.
    solver.greedy(&problem, u64::MAX, &mut plan);
    let greedy = timed(|| solver.greedy(&problem, u64::MAX, &mut plan));
    checked(&problem, &plan, instance)?;
    let greedy_peak = plan.peak();
    let mut searches = Vec::new();
    for limit in limits {
        let limit = Duration::from_secs_f64(limit / 1e3);
        let start = thread_cpu_time();
        let time = timed(|| {
            solver.search(&problem, u64::MAX, || thread_cpu_time() - start > limit, &mut plan);
        });
        checked(&problem, &plan, instance)?;
        searches.push(Search {
            limit_seconds: limit.as_secs_f64(),
            seconds: time.as_secs_f64(),
            peak_bytes: plan.peak(),
            lower_bound_bytes: plan.lower_bound(),
            proved: plan.is_optimal(),
        });
    }
    let reached = instance.capacity.filter(|&capacity| {
        greedy_peak <= capacity || searches.iter().any(|search| search.peak_bytes <= capacity)
    });
    Ok(Row {
        name: instance.name.clone(),
        items: problem.len(),
        lower_bound_bytes: problem.lower_bound(),
        greedy_peak_bytes: greedy_peak,
        greedy_seconds: greedy.as_secs_f64(),
        searches,
        capacity_bytes: instance.capacity,
        capacity_seconds: reached.map(|capacity| until(&problem, capacity).as_secs_f64()),
    })
}

/// Returns the time until a plan is within a capacity that is reached at some time. A search depends on how often it asks whether to
/// stop, not on time, so the number of its questions is found first.
fn until(problem: &Problem, capacity: u64) -> Duration {
    let (mut solver, mut plan) = (Solver::new(), Plan::new());
    let mut after = |calls: u64| {
        let mut left = calls;
        let time = timed(|| {
            let stop = || {
                left = left.saturating_sub(1);
                left == 0
            };
            solver.search(problem, u64::MAX, stop, &mut plan);
        });
        (plan.peak() <= capacity, time)
    };
    let mut enough = 1;
    while !after(enough).0 {
        enough *= 2;
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if after(middle).0 {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    after(enough).1
}

fn frames(count: usize) -> Result<Frames, Failure> {
    let (mut solver, mut plan) = (Solver::new(), Plan::new());
    let mut frames = Frames {
        frames: count,
        at_bound: 0,
        at_bound_by_greedy: 0,
        highest_ratio: 1.0,
        mean_seconds: 0.0,
        highest_seconds: 0.0,
    };
    for seed in 0..count as u64 {
        let instance = instances::frame(seed);
        let problem = problem(&instance)?;
        solver.greedy(&problem, u64::MAX, &mut plan);
        frames.at_bound_by_greedy += usize::from(plan.is_optimal());
        let start = thread_cpu_time();
        let time =
            timed(|| solver.search(&problem, u64::MAX, || thread_cpu_time() - start > FRAME, &mut plan));
        checked(&problem, &plan, &instance)?;
        frames.at_bound += usize::from(plan.peak() == problem.lower_bound());
        frames.highest_ratio = frames.highest_ratio.max(ratio(plan.peak(), problem.lower_bound()));
        frames.highest_seconds = frames.highest_seconds.max(time.as_secs_f64());
        frames.mean_seconds += time.as_secs_f64() / count as f64;
    }
    Ok(frames)
}

fn ratio(peak: u64, bound: u64) -> f64 {
    peak as f64 / bound as f64
}

fn print(report: &Report, limits: &[f64]) {
    let mut head =
        format!("{:<24} {:>7} {:>12} {:>8} {:>9}", "peak over bound", "items", "bound", "greedy", "ms");
    for limit in limits {
        head += &format!(" {:>10}", format!("{limit} ms"));
    }
    say!("{head} {:>14}", "capacity ms");
    for row in report.instances.iter().chain(&report.growth) {
        let mut line = format!(
            "{:<24} {:>7} {:>12} {:>8.4} {:>9.3}",
            row.name,
            row.items,
            row.lower_bound_bytes,
            ratio(row.greedy_peak_bytes, row.lower_bound_bytes),
            row.greedy_seconds * 1e3
        );
        for search in &row.searches {
            let proved = if search.proved { "=" } else { " " };
            line += &format!(" {:>9.4}{proved}", ratio(search.peak_bytes, row.lower_bound_bytes));
        }
        if let Some(seconds) = row.capacity_seconds {
            line += &format!(" {:>14.1}", seconds * 1e3);
        }
        say!("{line}");
    }
    let frames = &report.frames;
    say!(
        "{} frames in {} ms each: {} at the bound ({} by the greedy solver), highest ratio {:.4}, {:.3} ms on average, {:.3} at most",
        frames.frames,
        FRAME.as_millis(),
        frames.at_bound,
        frames.at_bound_by_greedy,
        frames.highest_ratio,
        frames.mean_seconds * 1e3,
        frames.highest_seconds * 1e3
    );
    for row in &report.unchanged {
        say!(
            "a frame as the one before, {} resources: {:.0} ns for each to plan, {:.0} ns with names and descriptions; {:.0} ns \
             of two kinds in turn",
            row.resources,
            row.planner_ns,
            row.heap_ns,
            row.in_turn_ns
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn all_is_measured_where_there_is_little() {
        run(&PlansArgs::parse_from(["plans", "--quick", "--frames", "3", "--ms", "1"])).unwrap();
    }

    #[test]
    fn generated_instances_have_their_bounds() {
        for instance in [instances::cut(1, 60), instances::pinwheels(1, 60)] {
            let problem = problem(&instance).unwrap();
            assert_eq!(Some(problem.lower_bound()), instance.capacity);
        }
    }
}
