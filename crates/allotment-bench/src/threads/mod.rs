//! `threads`: the throughput of one allocator that several threads share.
//!
//! On the simulated GPU, whose driver calls cost little: what is measured is the allocator. Each thread frees and
//! allocates at random among allocations of its own.
//!
//! ```text
//!   crew      an allocator, its threads and their live sets
//!   report    medians, as a table and as JSON
//! ```

mod crew;
mod report;

use crate::args::ThreadsArgs;
use crate::failure::Failure;
use crew::Crew;
use report::{Report, Row};

pub(crate) fn run(args: &ThreadsArgs) -> Result<(), Failure> {
    measure(args)?.print(args.json)
}

fn measure(args: &ThreadsArgs) -> Result<Report, Failure> {
    let mut report = Report::new(args);
    for &live in &args.live {
        // First, since every other row is compared with it.
        let mut numbers = args.threads.clone();
        numbers.retain(|&threads| threads != 1);
        numbers.insert(0, 1);
        let crews = numbers.iter().map(|&threads| Crew::new(args, threads, live));
        let crews = crews.collect::<Result<Vec<_>, _>>()?;
        let mut laps = vec![Vec::new(); crews.len()];
        // In turns, each round beginning with another: what disturbs the machine for a while disturbs all alike.
        for round in 0..args.repetitions as usize {
            for turn in 0..crews.len() {
                let index = (round + turn) % crews.len();
                laps[index].push(crews[index].lap()?);
            }
        }
        let rows = crews.iter().zip(&laps).map(|(crew, laps)| Row::new(crew, laps));
        report.add(rows.collect());
        crews.iter().try_for_each(Crew::clear)?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn more_threads_than_shards_are_measured_and_compared_with_one() {
        let short = ["threads", "--threads", "3", "--live", "50", "--pairs", "500", "--repetitions", "2"];
        let args = ThreadsArgs::parse_from(short.into_iter().chain(["--shards", "2"]));
        let json = measure(&args).unwrap().json().unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = report["rows"].as_array().unwrap();
        let threads: Vec<_> = rows.iter().map(|row| row["threads"].as_u64().unwrap()).collect();
        assert_eq!(threads, [1, 3]);
        assert_eq!(rows[0]["ratio"], 1.0);
        assert!(rows.iter().all(|row| row["millions_per_second"].as_f64().unwrap() > 0.0));
        assert!(rows.iter().all(|row| row["reserved_over_live"].as_f64().unwrap() >= 1.0));
    }
}
