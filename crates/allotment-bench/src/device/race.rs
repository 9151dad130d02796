//! Contenders in turns: a lap each, and in the next round another goes first.
//!
//! Each contender has threads of its own, which live as long as it does, as those of a program would: they
//! fill their live sets, warm up, and run all laps. Between laps they sleep.

use core::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Release},
};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
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

/// A contender with its threads and what they have allocated, of whatever type that is.
pub(crate) trait Racer {
    fn name(&self) -> &'static str;
    /// How many laps it runs where others run so many.
    fn laps(&self, repetitions: u32) -> u32;
    /// All of its threads do this at once, each to its own.
    fn step(&mut self, step: Step) -> Result<Lap, Failure>;
    fn reading(&self) -> Reading;
}

/// What threads are told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Allocate what is live from now on.
    Fill,
    /// Run through the sequence once.
    Lap,
    /// Free everything.
    Clear,
}

/// Lets all of them run so many laps, after one to warm up. Those that run fewer sit out rounds, evenly.
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

/// True in so many of all rounds, evenly.
fn runs(round: usize, laps: usize, rounds: usize) -> bool {
    (round + 1) * laps / rounds > round * laps / rounds
}

/// A contender and its threads.
pub(crate) struct Runner<C: Contender> {
    contender: Arc<C>,
    workers: Vec<Worker>,
    /// Of a lap, of all threads.
    operations: usize,
    at_most: Option<u32>,
}

impl<C: Contender + Send + 'static> Runner<C> {
    /// A thread for each sequence.
    pub(crate) fn new(contender: C, sequences: &[Arc<Sequence>]) -> Self {
        let contender = Arc::new(contender);
        let operations = sequences.iter().map(|sequence| sequence.pairs().len() * 2).sum();
        let workers = sequences.iter().map(|sequence| Worker::spawn(&contender, sequence)).collect();
        Self { contender, workers, operations, at_most: None }
    }

    /// Never runs more laps than that.
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
        let gate = Arc::new(Gate::of(self.workers.len()));
        for (i, worker) in self.workers.iter().enumerate() {
            let order = Order { step, gate: Arc::clone(&gate), leads: i == 0 };
            if worker.orders.send(order).is_err() {
                gate.open();
                return Err(Failure::Thread);
            }
        }
        let mut spans = Vec::new();
        for worker in &self.workers {
            spans.push(worker.answers.recv().map_err(|_| Failure::Thread)?);
        }
        let contender = self.contender.name();
        let refused = |refusal| Failure::Refused { contender, refusal };
        let spans = spans.into_iter().collect::<Result<Vec<Span>, Refusal>>().map_err(refused)?;
        let cpu: Duration = spans.iter().map(|span| span.cpu).sum();
        let start = spans.iter().map(|span| span.start).min();
        let end = spans.iter().map(|span| span.end).max();
        let wall = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        let each = |time: Duration| time.as_nanos() as f64 / self.operations as f64;
        Ok(Lap { cpu: each(cpu), wall: each(wall) })
    }

    fn reading(&self) -> Reading {
        self.contender.reading()
    }
}

/// A thread of a contender, as who gives it orders sees it.
struct Worker {
    orders: SyncSender<Order>,
    answers: Receiver<Result<Span, Refusal>>,
    /// Taken when dropped.
    thread: Option<JoinHandle<()>>,
}

struct Order {
    step: Step,
    gate: Arc<Gate>,
    /// Which thread does at the gate.
    leads: bool,
}

impl Worker {
    fn spawn<C: Contender + Send + 'static>(contender: &Arc<C>, sequence: &Arc<Sequence>) -> Self {
        let (orders, ordered) = sync_channel::<Order>(1);
        let (answer, answers) = sync_channel(1);
        let (contender, sequence) = (Arc::clone(contender), Arc::clone(sequence));
        let thread = thread::spawn(move || {
            let mut lane = Lane::new(&*contender, &sequence);
            // Until there is nobody to order anything.
            while let Ok(order) = ordered.recv() {
                if answer.send(lane.run(&order)).is_err() {
                    break;
                }
            }
        });
        Self { orders, answers, thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without a sender, the thread ends.
        self.orders = sync_channel(0).0;
        if let Some(thread) = self.thread.take() {
            // If it panicked, whoever waited for its answer knows.
            let _ = thread.join();
        }
    }
}

/// What one thread does, and what it has. It stays in that thread.
struct Lane<'a, C: Contender> {
    contender: &'a C,
    sequence: &'a Sequence,
    live: Vec<Option<C::Token>>,
}

impl<'a, C: Contender> Lane<'a, C> {
    fn new(contender: &'a C, sequence: &'a Sequence) -> Self {
        let mut live = Vec::new();
        live.resize_with(sequence.live(), || None);
        Self { contender, sequence, live }
    }

    fn run(&mut self, Order { step, gate, leads }: &Order) -> Result<Span, Refusal> {
        gate.pass(*leads);
        let start = Instant::now();
        let cpu = thread_cpu_time();
        match step {
            Step::Fill => self.fill(),
            Step::Lap => self.lap(),
            Step::Clear => self.clear(),
        }?;
        Ok(Span { cpu: thread_cpu_time() - cpu, end: Instant::now(), start })
    }

    fn fill(&mut self) -> Result<(), Refusal> {
        for (slot, request) in self.live.iter_mut().zip(self.sequence.fill()) {
            *slot = Some(self.contender.allocate(&request)?);
        }
        Ok(())
    }

    /// What is timed.
    fn lap(&mut self) -> Result<(), Refusal> {
        for pair in self.sequence.pairs() {
            let slot = &mut self.live[pair.slot as usize];
            if let Some(token) = slot.take() {
                self.contender.free(token)?;
            }
            *slot = Some(self.contender.allocate(&pair.request())?);
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Refusal> {
        self.live.iter_mut().filter_map(Option::take).try_for_each(|token| self.contender.free(token))
    }
}

/// When a thread was at it, and how much of a processor it had.
struct Span {
    start: Instant,
    end: Instant,
    cpu: Duration,
}

/// Lets threads through when all of them are there, awake: to be woken would take one of them longer than the
/// other. They meet again and again until they do so quickly: then each has a processor of its own, and none
/// sits behind the other, which waits for it.
struct Gate {
    wanted: usize,
    /// Of all rounds.
    there: AtomicUsize,
    /// The round after which all go.
    last: AtomicUsize,
}

/// How often in a row threads meet, within what time, before they go; and when they go whatever happens, since
/// others may have the processors.
const MEETINGS: u32 = 64;
const QUICKLY: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_millis(50);

impl Gate {
    fn of(wanted: usize) -> Self {
        Self { wanted, there: AtomicUsize::new(0), last: AtomicUsize::new(usize::MAX) }
    }

    /// One of all threads leads, which is to say when they go.
    fn pass(&self, leads: bool) {
        let begin = Instant::now();
        let (mut since, mut meetings) = (begin, 0);
        for round in 1.. {
            if leads && meetings == MEETINGS {
                let now = Instant::now();
                if now - since < QUICKLY || now - begin > PATIENCE || self.wanted == 1 {
                    self.last.store(round, Release);
                }
                (since, meetings) = (now, 0);
            }
            meetings += 1;
            self.there.fetch_add(1, AcqRel);
            while self.there.load(Acquire) < self.wanted * round {
                core::hint::spin_loop();
            }
            if self.last.load(Acquire) <= round {
                return;
            }
        }
    }

    /// Lets everybody through: one of them will not come.
    fn open(&self) {
        self.last.store(0, Release);
        self.there.fetch_add(usize::MAX / 2, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Request;
    use core::sync::atomic::Ordering::Relaxed;
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread::ThreadId;

    #[test]
    fn fewer_laps_are_spread_over_the_rounds() {
        for (laps, rounds) in [(5, 9), (9, 9), (1, 9), (2, 3)] {
            assert_eq!((0..rounds).filter(|&round| runs(round, laps, rounds)).count(), laps);
        }
        let of_four: Vec<_> = (0..4).map(|round| runs(round, 2, 4)).collect();
        assert_eq!(of_four, [false, true, false, true]);
    }

    /// Wants tokens back from the thread that it gave them to, and refuses the others.
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
        assert_eq!(Arc::strong_count(&threads), 1);
    }
}
