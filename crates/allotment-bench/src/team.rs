//! Threads that execute jobs, all at once.
//!
//! They live as long as their contender, like those of a program. Between jobs they sleep.

use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::clock::thread_cpu_time;
use crate::failure::Failure;
use crate::host_heap;
use crate::start_barrier::StartBarrier;

/// Threads with jobs of one type. A job can fail with an `E`.
pub(crate) struct Team<J, E> {
    members: Vec<Member<J, E>>,
}

/// The time span of a thread's job and its cost.
pub(crate) struct Span {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// Processor time.
    pub(crate) cpu: Duration,
    pub(crate) heap_allocations: u64,
    /// The number of operations that the job reports.
    pub(crate) operations: u64,
}

/// Returns the time from the first start to the last end.
pub(crate) fn wall(spans: &[Span]) -> Duration {
    let start = spans.iter().map(|span| span.start).min();
    let end = spans.iter().map(|span| span.end).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}

impl<J, E> Team<J, E>
where
    J: Copy + Send + 'static,
    E: Send + 'static,
{
    /// Creates a thread for each function; a function executes a job and returns the number of operations.
    pub(crate) fn new<W>(works: impl IntoIterator<Item = W>) -> Self
    where
        W: FnMut(J) -> Result<u64, E> + Send + 'static,
    {
        Self { members: works.into_iter().map(Member::spawn).collect() }
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// Executes a job on all threads, each with its part, started together.
    pub(crate) fn work(&self, job: J) -> Result<Result<Vec<Span>, E>, Failure> {
        let gate = Arc::new(StartBarrier::of(self.members.len()));
        for (i, member) in self.members.iter().enumerate() {
            let order = Order { job, gate: Arc::clone(&gate), leads: i == 0 };
            if member.orders.send(order).is_err() {
                gate.open();
                return Err(Failure::Thread);
            }
        }
        let mut spans = Vec::new();
        for member in &self.members {
            spans.push(member.answers.recv().map_err(|_| Failure::Thread)?);
        }
        Ok(spans.into_iter().collect())
    }
}

/// A thread of the team.
struct Member<J, E> {
    orders: SyncSender<Order<J>>,
    answers: Receiver<Result<Span, E>>,
    /// `None` only while being dropped.
    thread: Option<JoinHandle<()>>,
}

struct Order<J> {
    job: J,
    gate: Arc<StartBarrier>,
    /// Whether the thread leads at the barrier.
    leads: bool,
}

impl<J: Send + 'static, E: Send + 'static> Member<J, E> {
    fn spawn(mut work: impl FnMut(J) -> Result<u64, E> + Send + 'static) -> Self {
        let (orders, ordered) = sync_channel::<Order<J>>(1);
        let (answer, answers) = sync_channel(1);
        let thread = thread::spawn(move || {
            // Until the team is dropped.
            while let Ok(Order { job, gate, leads }) = ordered.recv() {
                gate.pass(leads);
                if answer.send(timed(|| work(job))).is_err() {
                    break;
                }
            }
        });
        Self { orders, answers, thread: Some(thread) }
    }
}

impl<J, E> Drop for Member<J, E> {
    fn drop(&mut self) {
        // The thread ends when its sender is dropped.
        self.orders = sync_channel(0).0;
        if let Some(thread) = self.thread.take() {
            // If it panicked, the caller that waited for its answer has already reported that.
            let _ = thread.join();
        }
    }
}

fn timed<E>(work: impl FnOnce() -> Result<u64, E>) -> Result<Span, E> {
    let heap_allocations = host_heap::allocations();
    let start = Instant::now();
    let cpu = thread_cpu_time();
    let operations = work()?;
    let cpu = thread_cpu_time() - cpu;
    let end = Instant::now();
    let heap_allocations = host_heap::allocations() - heap_allocations;
    Ok(Span { start, end, cpu, heap_allocations, operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_tells_its_own_operations_and_allocations() {
        let work = |i: u64| {
            move |times: u64| -> Result<u64, ()> {
                (0..i).for_each(|_| drop(core::hint::black_box(Box::new(times))));
                if times == 0 { Err(()) } else { Ok(i * times) }
            }
        };
        let team = Team::new((0..3).map(work));
        let spans = team.work(10).unwrap().unwrap();
        let told: Vec<_> = spans.iter().map(|span| (span.operations, span.heap_allocations)).collect();
        assert_eq!(told, [(0, 0), (10, 1), (20, 2)]);
        assert!(wall(&spans) >= spans[0].end - spans[0].start);
        assert!(team.work(0).unwrap().is_err());
    }

    #[test]
    fn a_thread_that_panics_is_a_failure_and_not_a_wait_without_end() {
        let team = Team::new((0..2).map(|i| {
            move |()| -> Result<u64, ()> {
                assert_ne!(i, 1, "the panic of this test");
                Ok(0)
            }
        }));
        assert!(matches!(team.work(()), Err(Failure::Thread)));
        assert!(matches!(team.work(()), Err(Failure::Thread)));
    }
}
