//! `threads`: one allocator behind a mutex, which several threads use. No contender's core can be shared otherwise.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::check::Verdict;
use super::contender::{Ranges, Space};
use super::run::{Measure, Run};
use super::workload::{Workload, lane};
use crate::failure::Failure;
use crate::race::{Racer, race};
use crate::start_barrier::processors;
use crate::units::median;

/// Numbers of threads.
const THREADS: [u32; 3] = [1, 2, 4];

/// A contender with a number of threads. Nothing is subtracted.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) contender: &'static str,
    threads: u32,
    processors: usize,
    /// Wall time per operation of all threads, and of the fastest lap.
    ns_per_op: f64,
    ns_per_op_min: f64,
    /// Processor time of all threads per operation of all threads.
    cpu_ns_per_op: f64,
}

/// Measures all numbers of threads.
pub(super) fn measure(run: &mut Run<'_>) -> Result<Vec<Row>, Failure> {
    // All threads have the same sequence, each its own slots. It is checked alone: the lock orders the calls.
    let workload = Arc::new(lane(run.scale()));
    let mut rows = Vec::new();
    for threads in THREADS {
        let mut entries = Entries { workload: &workload, threads, limit: run.limit(), racers: Vec::new() };
        run.each(&workload, &mut entries)?;
        let outcomes = race(&entries.racers, run.args.repetitions)?;
        rows.extend(outcomes.iter().map(|outcome| Row {
            workload: format!("mutex-{threads}"),
            contender: outcome.contender,
            threads,
            processors: processors(),
            ns_per_op: median(outcome.laps.iter().map(|lap| lap.wall)),
            ns_per_op_min: outcome.laps.iter().map(|lap| lap.wall).fold(f64::INFINITY, f64::min),
            cpu_ns_per_op: median(outcome.laps.iter().map(|lap| lap.cpu)),
        }));
    }
    Ok(rows)
}

struct Entries<'a> {
    workload: &'a Arc<Workload>,
    threads: u32,
    limit: Duration,
    racers: Vec<Racer>,
}

impl Measure for Entries<'_> {
    fn contender<C: Ranges>(&mut self, _: &Verdict) -> Result<(), Failure> {
        let Space { size, unit, peak } = self.workload.space;
        let (more, peak) = (u64::from(self.threads).next_power_of_two(), peak * self.threads);
        let Some(ranges) = C::new(&Space { size: size * more, unit, peak }) else {
            unreachable!("it manages a space of this kind")
        };
        let shared = Arc::new(Mutex::new(ranges));
        let lanes = (0..self.threads).map(|_| {
            let mut lane = Lane::new(&shared, self.workload);
            move || lane.lap()
        });
        self.racers.push(Racer::together(C::NAME, lanes).with_limit(self.limit));
        Ok(())
    }
}

/// A thread's part.
struct Lane<C: Ranges> {
    shared: Arc<Mutex<C>>,
    workload: Arc<Workload>,
    slots: Vec<Option<C::Handle>>,
    is_filled: bool,
}

impl<C: Ranges> Lane<C> {
    fn new(shared: &Arc<Mutex<C>>, workload: &Arc<Workload>) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(workload.slots as usize, || None);
        Self { shared: Arc::clone(shared), workload: Arc::clone(workload), slots, is_filled: false }
    }

    fn locked(&self) -> MutexGuard<'_, C> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lap(&mut self) -> u64 {
        let workload = Arc::clone(&self.workload);
        if !core::mem::replace(&mut self.is_filled, true) {
            workload.fill.iter().for_each(|op| self.step(op));
        }
        workload.lap.iter().for_each(|op| self.step(op));
        workload.lap.len() as u64
    }

    /// Executes an operation under the lock.
    #[inline]
    fn step(&mut self, op: &super::workload::Op) {
        let mut slot = self.slots[op.slot as usize].take();
        super::play::step(&mut *self.locked(), &mut slot, op);
        self.slots[op.slot as usize] = slot;
    }
}

impl<C: Ranges> Drop for Lane<C> {
    fn drop(&mut self) {
        let slots = core::mem::take(&mut self.slots);
        slots.into_iter().flatten().for_each(|handle| self.locked().free(handle));
    }
}

/// Prints all rows.
pub(super) fn print(rows: &[Row]) {
    let mut last = "";
    for row in rows {
        if row.workload != last {
            say!();
            say!("{}: {} threads on {} processors", row.workload, row.threads, row.processors);
            let name = "contender";
            say!("  {name:28} {:>9} {:>9} {:>9}", "wall/op", "fastest", "cpu/op");
            last = &row.workload;
        }
        say!(
            "  {:28} {:>9.2} {:>9.2} {:>9.2}",
            row.contender,
            row.ns_per_op,
            row.ns_per_op_min,
            row.cpu_ns_per_op
        );
    }
}
