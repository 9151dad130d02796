//! Runs contenders in turns, a lap each; each round begins with another contender.
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
        Self { contender, team: Team::new(works) }
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
            let index = (round + turn) % racers.len();
            outcomes[index].laps.push(racers[index].lap()?);
        }
    }
    Ok(outcomes)
}
