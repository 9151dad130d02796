//! Runs contenders in turns, a lap each; each round begins with another contender.
//!
//! Each contender has threads of its own, which live as long as it does, like those of a program: they fill their
//! live sets, warm up, and run all laps. Between laps they sleep.

use core::time::Duration;
use std::sync::Arc;

use super::sequence::{Op, Sequence, request};
use crate::contender::{Contender, Refusal};
use crate::failure::Failure;
use crate::team::{self, Team};
use crate::vulkan::Reading;

/// The laps of a contender.
pub(crate) struct Outcome {
    pub(crate) contender: &'static str,
    pub(crate) laps: Vec<Lap>,
    /// The meter after the warm-up.
    pub(crate) reading: Reading,
}

/// Nanoseconds per operation; an operation is one allocation or one free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    /// Processor time of all threads per operation of all threads.
    pub(crate) cpu: f64,
    /// Time from the first thread's start to the last one's end, per operation of all threads.
    pub(crate) wall: f64,
}

/// A contender with its threads and their allocations, of any type.
pub(crate) trait Racer {
    fn name(&self) -> &'static str;
    /// Returns its number of laps if others run `repetitions`.
    fn laps(&self, repetitions: u32) -> u32;
    /// Runs a step on all of its threads at once.
    fn step(&mut self, step: Step) -> Result<Lap, Failure>;
    fn reading(&self) -> Reading;
}

/// A step of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Allocate the live set.
    Fill,
    /// Run the sequence once.
    Lap,
    /// Free everything.
    Clear,
}

/// Runs a number of laps of each racer, after one lap to warm up. Racers with fewer laps skip rounds, evenly.
pub(crate) fn race(racers: &mut [Box<dyn Racer>], repetitions: u32) -> Result<Vec<Outcome>, Failure> {
    let mut results = Vec::new();
    for racer in racers.iter_mut() {
        racer.step(Step::Fill)?;
        racer.step(Step::Lap)?;
        results.push(Outcome { contender: racer.name(), laps: Vec::new(), reading: racer.reading() });
    }
    let count = racers.len();
    for round in 0..repetitions as usize {
        for turn in 0..count {
            let index = (round + turn) % count;
            let racer = &mut racers[index];
            if runs(round, racer.laps(repetitions) as usize, repetitions as usize) {
                results[index].laps.push(racer.step(Step::Lap)?);
            }
        }
    }
    for (racer, result) in racers.iter_mut().zip(&mut results) {
        result.reading = racer.reading();
        racer.step(Step::Clear)?;
    }
    Ok(results)
}

/// Returns whether a racer with `laps` laps runs in this round.
fn runs(round: usize, laps: usize, rounds: usize) -> bool {
    (round + 1) * laps / rounds > round * laps / rounds
}

/// A contender and its threads.
pub(crate) struct Runner<C: Contender> {
    contender: Arc<C>,
    team: Team<Step, Refusal>,
    /// Per lap, of all threads.
    operations: usize,
    at_most: Option<u32>,
}

impl<C: Contender + Send + 'static> Runner<C> {
    /// Creates a thread for each sequence.
    pub(crate) fn new(contender: C, sequences: &[Arc<Sequence>]) -> Self {
        let contender = Arc::new(contender);
        let operations = sequences.iter().map(|sequence| sequence.operations()).sum();
        let team = Team::new(sequences.iter().map(|sequence| {
            let mut lane = Lane::new(&contender, sequence);
            move |step| lane.run(step)
        }));
        Self { contender, team, operations, at_most: None }
    }

    /// Limits the number of laps.
    pub(crate) fn at_most(self, laps: Option<u32>) -> Self {
        Self { at_most: laps, ..self }
    }
}

impl<C: Contender> Racer for Runner<C> {
    fn name(&self) -> &'static str {
        self.contender.name()
    }

    fn laps(&self, repetitions: u32) -> u32 {
        self.at_most.map_or(repetitions, |most| most.min(repetitions))
    }

    fn step(&mut self, step: Step) -> Result<Lap, Failure> {
        let contender = self.contender.name();
        let refused = |refusal| Failure::Refused { contender, refusal };
        let spans = self.team.work(step)?.map_err(refused)?;
        let cpu: Duration = spans.iter().map(|span| span.cpu).sum();
        let each = |time: Duration| time.as_nanos() as f64 / self.operations as f64;
        Ok(Lap { cpu: each(cpu), wall: each(team::wall(&spans)) })
    }

    fn reading(&self) -> Reading {
        self.contender.reading()
    }
}

/// The state of one thread.
struct Lane<C: Contender> {
    contender: Arc<C>,
    sequence: Arc<Sequence>,
    live: Vec<Option<C::Token>>,
}

impl<C: Contender> Lane<C> {
    fn new(contender: &Arc<C>, sequence: &Arc<Sequence>) -> Self {
        let mut live = Vec::new();
        live.resize_with(sequence.slots(), || None);
        Self { contender: Arc::clone(contender), sequence: Arc::clone(sequence), live }
    }

    fn run(&mut self, step: Step) -> Result<u64, Refusal> {
        match step {
            Step::Fill => self.fill(),
            Step::Lap => self.lap(),
            Step::Clear => self.clear(),
        }?;
        // Counted for all lanes at once.
        Ok(0)
    }

    fn fill(&mut self) -> Result<(), Refusal> {
        for (slot, request) in self.live.iter_mut().zip(self.sequence.fill()) {
            *slot = Some(self.contender.allocate(&request)?);
        }
        Ok(())
    }

    /// The timed part.
    fn lap(&mut self) -> Result<(), Refusal> {
        let contender = &*self.contender;
        for op in self.sequence.ops() {
            let (slot, size) = match *op {
                Op::Replace(slot, size) | Op::Put(slot, size) => (slot, Some(size)),
                Op::Take(slot) => (slot, None),
            };
            let slot = &mut self.live[slot as usize];
            if let Some(token) = slot.take() {
                contender.free(token)?;
            }
            if let Some(size) = size {
                *slot = Some(contender.allocate(&request(size))?);
            }
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Refusal> {
        self.live.iter_mut().filter_map(Option::take).try_for_each(|token| self.contender.free(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Request;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    #[test]
    fn fewer_laps_are_spread_over_the_rounds() {
        for (laps, rounds) in [(5, 9), (9, 9), (1, 9), (2, 3)] {
            assert_eq!((0..rounds).filter(|&round| runs(round, laps, rounds)).count(), laps);
        }
        let of_four: Vec<_> = (0..4).map(|round| runs(round, 2, 4)).collect();
        assert_eq!(of_four, [false, true, false, true]);
    }

    /// Accepts tokens only on the thread that allocated them.
    #[derive(Default)]
    struct Strict {
        live: AtomicUsize,
        threads: Arc<Mutex<HashSet<ThreadId>>>,
    }

    impl Contender for Strict {
        type Token = ThreadId;

        fn name(&self) -> &'static str {
            "strict"
        }

        fn allocate(&self, _: &Request) -> Result<ThreadId, Refusal> {
            self.live.fetch_add(1, Relaxed);
            let thread = thread::current().id();
            self.threads.lock().unwrap().insert(thread);
            Ok(thread)
        }

        fn free(&self, token: ThreadId) -> Result<(), Refusal> {
            self.live.fetch_sub(1, Relaxed);
            assert_eq!(token, thread::current().id());
            Ok(())
        }

        fn reading(&self) -> Reading {
            Reading { reserved_bytes: self.live.load(Relaxed) as u64, ..Reading::default() }
        }
    }

    #[test]
    fn threads_free_what_they_allocated_and_live_through_all_laps() {
        let lanes: Vec<_> = [1, 2].map(|seed| Arc::new(Sequence::churn(seed, 10, 100))).into();
        let threads = Arc::default();
        let strict = Strict { threads: Arc::clone(&threads), ..Strict::default() };
        let mut racers: Vec<Box<dyn Racer>> = vec![Box::new(Runner::new(strict, &lanes).at_most(Some(2)))];
        let outcomes = race(&mut racers, 3).unwrap();
        assert_eq!((outcomes[0].laps.len(), outcomes[0].reading.reserved_bytes), (2, 20));
        assert_eq!(racers[0].reading().reserved_bytes, 0);
        assert_eq!(threads.lock().unwrap().len(), 2);
        drop(racers);
        assert!(Arc::into_inner(threads).is_some());
    }
}
