//! Runs contenders in turns, a lap each. Each round begins with another contender, and every second one goes backwards,
//! so that no contender always follows the same one.
//!
//! ```text
//!   rows    medians of the laps, as a table and as JSON
//! ```

mod rows;

use core::convert::Infallible;
use core::time::Duration;

use crate::failure::Failure;
use crate::team::{self, Span, Team};

pub(crate) use rows::{Clock, Row, Rows};

/// A contender in one workload, with its threads.
pub(crate) struct Racer {
    contender: &'static str,
    team: Team<(), Infallible>,
    /// After this much time in laps the others go on without it.
    limit: Duration,
}

/// The laps of a contender.
pub(crate) struct Outcome {
    pub(crate) contender: &'static str,
    pub(crate) threads: usize,
    pub(crate) laps: Vec<Lap>,
}

/// The cost of a lap. Times are nanoseconds per operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    pub(crate) operations: u64,
    pub(crate) heap_allocations: u64,
    /// Processor time of all threads per operation of all threads.
    pub(crate) cpu: f64,
    /// The sum of each thread's wall time per operation of all threads: how long an operation takes its thread.
    pub(crate) own: f64,
    /// Time from the first start to the last end per operation of all threads.
    pub(crate) wall: f64,
}

impl Racer {
    /// Creates a racer with one thread. A lap returns its number of operations.
    pub(crate) fn alone(contender: &'static str, lap: impl FnMut() -> u64 + Send + 'static) -> Self {
        Self::together(contender, [lap])
    }

    /// Creates a racer with one thread for each of these.
    pub(crate) fn together<L>(contender: &'static str, laps: impl IntoIterator<Item = L>) -> Self
    where
        L: FnMut() -> u64 + Send + 'static,
    {
        let works = laps.into_iter().map(|mut lap| move |()| Ok(lap()));
        Self { contender, team: Team::new(works), limit: Duration::MAX }
    }

    /// Limits the time of all laps. There is one at least.
    pub(crate) fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    fn lap(&self) -> Result<Lap, Failure> {
        let Ok(spans) = self.team.work(())?;
        let operations = spans.iter().map(|span| span.operations).sum();
        let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
        Ok(Lap {
            operations,
            heap_allocations: spans.iter().map(|span| span.heap_allocations).sum(),
            cpu: each(spans.iter().map(|span| span.cpu).sum()),
            own: each(spans.iter().map(|Span { start, end, .. }| *end - *start).sum()),
            wall: each(team::wall(&spans)),
        })
    }
}

/// Runs a number of laps of each racer, after one lap to warm up.
pub(crate) fn race(racers: &[Racer], repetitions: u32) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::new();
    for racer in racers {
        racer.lap()?;
        let (contender, threads) = (racer.contender, racer.team.size());
        outcomes.push(Outcome { contender, threads, laps: Vec::new() });
    }
    for round in 0..repetitions as usize {
        for turn in 0..racers.len() {
            let index = turn_of(round, turn, racers.len());
            let (racer, laps) = (&racers[index], &mut outcomes[index].laps);
            let spent: f64 = laps.iter().map(|lap: &Lap| lap.wall * lap.operations as f64).sum();
            if laps.is_empty() || spent < racer.limit.as_nanos() as f64 {
                laps.push(racer.lap()?);
            }
        }
    }
    Ok(outcomes)
}

/// Returns the racer whose turn it is.
fn turn_of(round: usize, turn: usize, racers: usize) -> usize {
    let turn = if round.is_multiple_of(2) { turn } else { racers - 1 - turn };
    (round + turn) % racers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_racer_and_every_second_one_goes_backwards() {
        let orders: Vec<Vec<usize>> =
            (0..3).map(|round| (0..3).map(|turn| turn_of(round, turn, 3)).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [0, 2, 1], [2, 0, 1]]);
    }

    #[test]
    fn a_racer_without_time_has_one_lap() {
        let lap = || 1;
        let racers = [Racer::alone("short", lap).with_limit(Duration::ZERO), Racer::alone("long", lap)];
        let laps: Vec<_> = race(&racers, 3).unwrap().iter().map(|outcome| outcome.laps.len()).collect();
        assert_eq!(laps, [1, 3]);
    }
}
