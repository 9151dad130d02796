//! Allocations that one thread makes and another one frees, beside threads that free their own.
//!
//! ```text
//!   own         each thread   allocates ─► its own queue ─► frees
//!   handover    thread 2k     allocates ─► queue ─┐
//!               thread 2k+1                       └─► frees
//! ```
//!
//! The queues carry batches, as a frame hands over what it has finished with: what they cost is shared by the allocations of
//! a batch. They hold as many allocations as a thread has live otherwise, and both workloads move the same batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use allotment::device::simulated::SimulatedGpu;
use allotment::{Allocation, Allocator};

use super::crew::{Lap, Step, allocate, allocator, free};
use crate::args::ThreadsArgs;
use crate::contender::Refusal;
use crate::device::{Op, Sequence, request};
use crate::failure::Failure;
use crate::team::Team;

/// Allocations that are handed over together.
const BATCH: usize = 32;

/// Rounds of [`core::hint::spin_loop`] between two tries to send or to receive a batch, about as long as a batch takes.
const PAUSE: u32 = 64;

/// Tries, a millisecond, after which a thread lets others run.
const SPINS: u32 = 1_000;

type Batch = Vec<Allocation>;

/// What a thread does in a step.
type Work = Box<dyn FnMut(Step) -> Result<u64, Refusal> + Send>;

/// Pairs of threads that share an allocator.
pub(super) struct Pairs {
    allocator: Arc<Allocator<SimulatedGpu>>,
    team: Team<Step, Refusal>,
}

impl Pairs {
    /// Creates an allocator and pairs of threads, and runs a lap to warm up. `own` says that each thread frees its own.
    pub(super) fn new(args: &ThreadsArgs, threads: u32, live: u32, own: bool) -> Result<Self, Failure> {
        let allocator = allocator(args)?;
        let depth = (live as usize / BATCH).max(1);
        let mut works: Vec<Work> = Vec::new();
        for pair in 0..u64::from(threads / 2) {
            let maker = |seed: u64, pairs| Maker {
                allocator: Arc::clone(&allocator),
                sequence: Sequence::churn(seed + 1, 1, pairs),
            };
            if own {
                for thread in [2 * pair, 2 * pair + 1] {
                    let (maker, mut queue) = (maker(thread, args.pairs / 2), VecDeque::new());
                    works.push(Box::new(move |step| maker.free_own(step, &mut queue, depth)));
                }
            } else {
                let (send, receive) = sync_channel(depth);
                // Empty batches go back, so that no thread frees host memory that the other one allocated.
                let (give_back, empty) = sync_channel(depth + 2);
                let maker = maker(pair, args.pairs);
                let with = Arc::clone(&allocator);
                works.push(Box::new(move |step| maker.hand_over(step, &send, &empty)));
                works.push(Box::new(move |step| free_of_another(&with, step, &receive, &give_back)));
            }
        }
        let pairs = Self { allocator, team: Team::new(works) };
        pairs.lap()?;
        Ok(pairs)
    }

    pub(super) fn lap(&self) -> Result<Lap, Failure> {
        super::crew::step(&self.allocator, &self.team, Step::Lap)
    }

    pub(super) fn clear(&self) -> Result<(), Failure> {
        super::crew::step(&self.allocator, &self.team, Step::Clear).map(drop)
    }
}

/// What a thread that allocates has.
struct Maker {
    allocator: Arc<Allocator<SimulatedGpu>>,
    sequence: Sequence,
}

impl Maker {
    /// Returns the sizes of a lap, in batches.
    fn batches(&self) -> impl Iterator<Item = &[Op]> {
        self.sequence.ops().chunks(BATCH)
    }

    /// Fills a batch.
    fn fill(&self, ops: &[Op], batch: &mut Batch) -> Result<(), Refusal> {
        for op in ops {
            let Op::Replace(_, size) = *op else { unreachable!("a churn replaces") };
            batch.push(allocate(&self.allocator, request(size))?);
        }
        Ok(())
    }

    fn free_own(&self, step: Step, queue: &mut VecDeque<Batch>, depth: usize) -> Result<u64, Refusal> {
        let mut operations = 0;
        let free_all = |batch: &mut Batch| {
            let count = batch.len() as u64;
            batch.drain(..).try_for_each(|token| free(&self.allocator, token)).map(|()| count)
        };
        if let Step::Lap = step {
            for ops in self.batches() {
                let mut batch = Batch::new();
                if queue.len() >= depth {
                    batch = queue.pop_front().unwrap_or_default();
                    operations += free_all(&mut batch)?;
                }
                self.fill(ops, &mut batch)?;
                operations += ops.len() as u64;
                queue.push_back(batch);
            }
        }
        if let Step::Clear = step {
            for mut batch in queue.drain(..) {
                operations += free_all(&mut batch)?;
            }
        }
        Ok(operations)
    }

    fn hand_over(
        &self,
        step: Step,
        send: &SyncSender<Batch>,
        empty: &Receiver<Batch>,
    ) -> Result<u64, Refusal> {
        let mut operations = 0;
        if let Step::Lap = step {
            for ops in self.batches() {
                let mut batch = empty.try_recv().unwrap_or_default();
                self.fill(ops, &mut batch)?;
                operations += ops.len() as u64;
                put(send, batch)?;
            }
            // An empty one is the end of the lap.
            put(send, Batch::new())?;
        }
        Ok(operations)
    }
}

/// Sends a batch, as soon as there is room: a thread that sleeps would be woken for each batch.
fn put(send: &SyncSender<Batch>, mut batch: Batch) -> Result<(), Refusal> {
    let mut tries = 0;
    loop {
        match send.try_send(batch) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(back)) => batch = back,
            Err(TrySendError::Disconnected(_)) => return Err(Refusal::new("the other thread has ended")),
        }
        wait(&mut tries);
    }
}

/// Waits a little, for a thread that runs beside this one; and where none does after a while, lets another one run.
fn wait(tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(SPINS) {
        std::thread::yield_now();
    }
    // Each look takes the queue out of the cache of the thread that writes it.
    (0..PAUSE).for_each(|_| core::hint::spin_loop());
}

/// Frees what another thread allocates, up to the end of its lap.
fn free_of_another(
    allocator: &Allocator<SimulatedGpu>,
    step: Step,
    receive: &Receiver<Batch>,
    give_back: &SyncSender<Batch>,
) -> Result<u64, Refusal> {
    let (mut operations, mut tries) = (0, 0);
    while let Step::Lap = step {
        match receive.try_recv() {
            Ok(batch) if batch.is_empty() => break,
            Ok(mut batch) => {
                operations += batch.len() as u64;
                batch.drain(..).try_for_each(|token| free(allocator, token))?;
                let _ = give_back.try_send(batch);
            }
            Err(TryRecvError::Empty) => wait(&mut tries),
            Err(TryRecvError::Disconnected) => return Err(Refusal::new("the other thread has ended")),
        }
    }
    Ok(operations)
}
