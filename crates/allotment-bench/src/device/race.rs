//! Contenders in turns: a lap each, and in the next round another goes first.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use super::sequence::Sequence;
use crate::clock::thread_cpu_time;
use crate::contender::{Contender, Refusal};
use crate::failure::Failure;
use crate::vulkan::Reading;

/// What came of a contender.
pub(crate) struct Outcome {
    pub(crate) contender: &'static str,
    pub(crate) laps: Vec<Lap>,
    /// Once it was warm.
    pub(crate) reading: Reading,
}

/// Nanoseconds an operation; an operation is one allocation or one free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    /// Processor time of all threads, by the operations of all threads.
    pub(crate) cpu: f64,
    /// Time from the first thread's start to the last one's end, by the operations of all threads.
    pub(crate) wall: f64,
}

/// A contender with what it has allocated, of whatever type that is.
pub(crate) trait Racer {
    fn name(&self) -> &'static str;
    /// Allocates what is live from now on.
    fn fill(&mut self) -> Result<(), Failure>;
    /// Runs through the sequence once.
    fn lap(&mut self) -> Result<Lap, Failure>;
    fn reading(&self) -> Reading;
    /// Frees everything.
    fn clear(&mut self) -> Result<(), Failure>;
}

/// Lets all of them run so many laps, after one to warm up.
pub(crate) fn race(racers: &mut [Box<dyn Racer>], repetitions: u32) -> Result<Vec<Outcome>, Failure> {
    let mut results = Vec::new();
    for racer in racers.iter_mut() {
        racer.fill()?;
        racer.lap()?;
        results.push(Outcome { contender: racer.name(), laps: Vec::new(), reading: racer.reading() });
    }
    let count = racers.len();
    for round in 0..repetitions as usize {
        for turn in 0..count {
            let index = (round + turn) % count;
            results[index].laps.push(racers[index].lap()?);
        }
    }
    for (racer, result) in racers.iter_mut().zip(&mut results) {
        result.reading = racer.reading();
        racer.clear()?;
    }
    Ok(results)
}

/// A contender and its lanes.
pub(crate) struct Runner<C: Contender> {
    // Before the contender, so that tokens go first.
    lanes: Vec<Lane<C::Token>>,
    contender: C,
}

/// What one thread does, and what it has.
struct Lane<T> {
    sequence: Arc<Sequence>,
    live: Vec<Option<T>>,
}

impl<C: Contender> Runner<C> {
    pub(crate) fn new(contender: C, sequences: &[Arc<Sequence>]) -> Self {
        let lanes = sequences.iter().map(|sequence| {
            let mut live = Vec::new();
            live.resize_with(sequence.live(), || None);
            Lane { sequence: Arc::clone(sequence), live }
        });
        Self { lanes: lanes.collect(), contender }
    }

    fn refused(&self) -> impl Fn(Refusal) -> Failure + use<C> {
        let contender = self.contender.name();
        move |refusal| Failure::Refused { contender, refusal }
    }
}

impl<C: Contender> Racer for Runner<C> {
    fn name(&self) -> &'static str {
        self.contender.name()
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let refused = self.refused();
        for lane in &mut self.lanes {
            for (slot, request) in lane.live.iter_mut().zip(lane.sequence.fill()) {
                *slot = Some(self.contender.allocate(&request).map_err(&refused)?);
            }
        }
        Ok(())
    }

    fn lap(&mut self) -> Result<Lap, Failure> {
        let refused = self.refused();
        let (contender, count) = (&self.contender, self.lanes.len());
        let operations: usize = self.lanes.iter().map(|lane| lane.sequence.pairs().len() * 2).sum();
        let gate = Gate { missing: AtomicUsize::new(count) };
        let spans: Vec<_> = if let [lane] = &mut self.lanes[..] {
            vec![run(contender, lane, &gate)]
        } else {
            thread::scope(|scope| {
                let spawn = |lane| scope.spawn(|| run(contender, lane, &gate));
                let threads: Vec<_> = self.lanes.iter_mut().map(spawn).collect();
                let join = |thread: ScopedJoinHandle<'_, _>| thread.join().map_err(|_| Failure::Thread);
                threads.into_iter().map(join).collect::<Result<_, _>>()
            })?
        };
        let spans = spans.into_iter().collect::<Result<Vec<Span>, Refusal>>().map_err(refused)?;
        let cpu: Duration = spans.iter().map(|span| span.cpu).sum();
        let start = spans.iter().map(|span| span.start).min();
        let end = spans.iter().map(|span| span.end).max();
        let wall = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
        Ok(Lap { cpu: each(cpu), wall: each(wall) })
    }

    fn reading(&self) -> Reading {
        self.contender.reading()
    }

    fn clear(&mut self) -> Result<(), Failure> {
        let refused = self.refused();
        for token in self.lanes.iter_mut().flat_map(|lane| &mut lane.live).filter_map(Option::take) {
            self.contender.free(token).map_err(&refused)?;
        }
        Ok(())
    }
}

/// When a thread was at it, and how much of a processor it had.
struct Span {
    start: Instant,
    end: Instant,
    cpu: Duration,
}

/// Lets threads through when all of them are there. They wait awake: to be woken would take one of them
/// longer than the other.
struct Gate {
    missing: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.missing.fetch_sub(1, Relaxed);
        while self.missing.load(Relaxed) != 0 {
            core::hint::spin_loop();
        }
    }
}

/// The timed loop.
fn run<C: Contender>(contender: &C, lane: &mut Lane<C::Token>, gate: &Gate) -> Result<Span, Refusal> {
    gate.pass();
    let start = Instant::now();
    let cpu = thread_cpu_time();
    for pair in lane.sequence.pairs() {
        let slot = &mut lane.live[pair.slot as usize];
        if let Some(token) = slot.take() {
            contender.free(token)?;
        }
        *slot = Some(contender.allocate(&pair.request())?);
    }
    Ok(Span { cpu: thread_cpu_time() - cpu, end: Instant::now(), start })
}
