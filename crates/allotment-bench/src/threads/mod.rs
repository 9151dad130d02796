//! `threads`: the throughput of one allocator that several threads share.
//!
//! On the simulated GPU, whose driver calls cost little: what is measured is the allocator. Each thread frees and
//! allocates at random among allocations of its own; or threads work in pairs, where one allocates and the other frees.
//!
//! ```text
//!   crew        an allocator, its threads and their live sets
//!   handover    pairs of threads, and threads that free their own in the same way
//!   report      medians, as a table and as JSON
//! ```

mod crew;
mod handover;
mod report;

use crate::args::ThreadsArgs;
use crate::failure::Failure;
use crew::{Crew, Lap};
use handover::Pairs;
use report::{Report, Row};

pub(crate) fn run(args: &ThreadsArgs) -> Result<(), Failure> {
    measure(args)?.print(args.json)
}

fn measure(args: &ThreadsArgs) -> Result<Report, Failure> {
    let mut report = Report::new(args);
    let wanted = |name: &str| args.workload.as_ref().is_none_or(|wanted| name.starts_with(wanted.as_str()));
    for &live in &args.live {
        if wanted("churn") {
            // First, since every other row is compared with it.
            let mut numbers = args.threads.clone();
            numbers.retain(|&threads| threads != 1);
            numbers.insert(0, 1);
            let crews = numbers.iter().map(|&threads| Crew::new(args, threads, live));
            let crews = crews.collect::<Result<Vec<_>, _>>()?;
            let laps = laps_in_turns(args, &crews, Crew::lap)?;
            let rows =
                numbers.iter().zip(&laps).map(|(&threads, laps)| Row::new("churn", live, threads, laps));
            report.add(rows.collect());
            crews.iter().try_for_each(Crew::clear)?;
        }
        if wanted("pairs") {
            for &threads in args.threads.iter().filter(|&threads| threads % 2 == 0) {
                let both = [("own", true), ("handover", false)];
                let pairs = both.map(|(_, own)| Pairs::new(args, threads, live, own));
                let pairs = pairs.into_iter().collect::<Result<Vec<_>, _>>()?;
                let laps = laps_in_turns(args, &pairs, Pairs::lap)?;
                let rows =
                    both.iter().zip(&laps).map(|((name, _), laps)| Row::new(name, live, threads, laps));
                report.add(rows.collect());
                pairs.iter().try_for_each(Pairs::clear)?;
            }
        }
    }
    Ok(report)
}

/// Runs laps in turns, each round beginning with another: what disturbs the machine for a while disturbs all alike.
fn laps_in_turns<C>(
    args: &ThreadsArgs,
    contenders: &[C],
    lap: impl Fn(&C) -> Result<Lap, Failure>,
) -> Result<Vec<Vec<Lap>>, Failure> {
    let mut laps = vec![Vec::new(); contenders.len()];
    for round in 0..args.repetitions as usize {
        for turn in 0..contenders.len() {
            let index = (round + turn) % contenders.len();
            laps[index].push(lap(&contenders[index])?);
        }
    }
    Ok(laps)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn more_threads_than_shards_are_measured_and_compared_with_one() {
        let short = ["threads", "--threads", "3", "--live", "50", "--pairs", "500", "--repetitions", "2"];
        let args = ThreadsArgs::parse_from(short.into_iter().chain(["--shards", "2", "--workload", "churn"]));
        let json = measure(&args).unwrap().json().unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = report["rows"].as_array().unwrap();
        let threads: Vec<_> = rows.iter().map(|row| row["threads"].as_u64().unwrap()).collect();
        assert_eq!(threads, [1, 3]);
        assert_eq!(rows[0]["ratio"], 1.0);
        assert!(rows.iter().all(|row| row["millions_per_second"].as_f64().unwrap() > 0.0));
        assert!(rows.iter().all(|row| row["reserved_over_live"].as_f64().unwrap() >= 1.0));
    }
    #[test]
    fn pairs_of_threads_free_what_was_handed_over_and_are_compared_with_threads_that_free_their_own() {
        let short = ["threads", "--threads", "1,2,4", "--live", "64", "--pairs", "500", "--repetitions", "2"];
        let args = ThreadsArgs::parse_from(short.into_iter().chain(["--workload", "pairs"]));
        let json = measure(&args).unwrap().json().unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = report["rows"].as_array().unwrap();
        let works: Vec<_> = rows.iter().map(|row| row["workload"].as_str().unwrap()).collect();
        assert_eq!(works, ["own", "handover", "own", "handover"]);
        assert!(rows.iter().all(|row| row["ratio"].as_f64().unwrap() > 0.0));
    }
}
