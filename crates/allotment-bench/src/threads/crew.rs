//! An allocator, its threads and their live sets.

use core::time::Duration;
use std::sync::Arc;

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{Alignment, Allocation, Allocator, AllocatorDesc, MemoryUsage, Requirements};

use crate::args::ThreadsArgs;
use crate::contender::{Refusal, Request};
use crate::device::{Op, Sequence, request};
use crate::failure::Failure;
use crate::team::{self, Team};

const NAME: &str = "allotment";

/// The machine that the simulated GPU resembles: 64 threads with 10,000 allocations each have 8 GiB.
const PROFILE: &str = "nvidia-h200";

/// Threads that share an allocator.
pub(super) struct Crew {
    allocator: Arc<Allocator<SimulatedGpu>>,
    team: Team<Step, Refusal>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Fill,
    Lap,
    Clear,
}

/// The cost of a lap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    /// Operations of all threads: allocations and frees.
    pub(super) operations: u64,
    /// From the first start to the last end.
    pub(super) wall: Duration,
    /// Processor time of all threads.
    pub(super) cpu: Duration,
    /// Bytes of all memory objects, and of all live allocations, at the end.
    pub(super) reserved: u64,
    pub(super) live: u64,
}

impl Crew {
    /// Creates an allocator and its threads, which allocate their live sets and run one lap to warm up.
    pub(super) fn new(args: &ThreadsArgs, threads: u32, live: u32) -> Result<Self, Failure> {
        let allocator = allocator(args)?;
        let team = Team::new((0..threads).map(|thread| {
            let sequence = Sequence::churn(u64::from(thread) + 1, live, args.pairs);
            let mut member = Member { allocator: Arc::clone(&allocator), sequence, slots: Vec::new() };
            move |step| member.run(step)
        }));
        let crew = Self { allocator, team };
        crew.step(Step::Fill)?;
        crew.step(Step::Lap)?;
        Ok(crew)
    }

    /// Runs a lap on all threads at once.
    pub(super) fn lap(&self) -> Result<Lap, Failure> {
        self.step(Step::Lap)
    }

    /// Frees everything.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        self.step(Step::Clear).map(drop)
    }

    fn step(&self, to: Step) -> Result<Lap, Failure> {
        step(&self.allocator, &self.team, to)
    }
}

/// Creates the allocator that threads share.
pub(super) fn allocator(args: &ThreadsArgs) -> Result<Arc<Allocator<SimulatedGpu>>, Failure> {
    let setup = |error: String| Failure::Setup { contender: NAME, error };
    let profile = Profile::named(PROFILE).ok_or_else(|| setup(format!("no profile {PROFILE}")))?;
    let mut desc = AllocatorDesc::default();
    args.shards.into_iter().for_each(|shards| desc.threads = shards);
    let allocator = Allocator::new(SimulatedGpu::new(profile), desc);
    Ok(Arc::new(allocator.map_err(|error| setup(error.to_string()))?))
}

/// Runs a step on all threads.
pub(super) fn step(
    allocator: &Allocator<SimulatedGpu>,
    team: &Team<Step, Refusal>,
    step: Step,
) -> Result<Lap, Failure> {
    let spans = team.work(step)?;
    let spans = spans.map_err(|refusal| Failure::Refused { contender: NAME, refusal })?;
    let statistics = allocator.statistics();
    Ok(Lap {
        operations: spans.iter().map(|span| span.operations).sum(),
        wall: team::wall(&spans),
        cpu: spans.iter().map(|span| span.cpu).sum(),
        reserved: statistics.block_bytes,
        live: statistics.allocation_bytes,
    })
}

/// Allocates what a request asks for.
pub(super) fn allocate(
    allocator: &Allocator<SimulatedGpu>,
    Request { size, alignment, .. }: Request,
) -> Result<Allocation, Refusal> {
    let mut requirements = Requirements::new(size);
    requirements.alignment = Alignment::new(alignment).unwrap_or(Alignment::ONE);
    allocator.allocate(&requirements, &MemoryUsage::GpuOnly.into()).map_err(Refusal::new)
}

/// Frees an allocation.
pub(super) fn free(allocator: &Allocator<SimulatedGpu>, token: Allocation) -> Result<(), Refusal> {
    allocator.free(token).map_err(Refusal::new)
}

/// What a thread has.
struct Member {
    allocator: Arc<Allocator<SimulatedGpu>>,
    sequence: Sequence,
    slots: Vec<Allocation>,
}

impl Member {
    /// Runs a step. Returns the number of operations.
    fn run(&mut self, step: Step) -> Result<u64, Refusal> {
        let options = MemoryUsage::GpuOnly.into();
        let allocate = |Request { size, alignment, .. }| {
            let mut requirements = Requirements::new(size);
            requirements.alignment = Alignment::new(alignment).unwrap_or(Alignment::ONE);
            self.allocator.allocate(&requirements, &options).map_err(Refusal::new)
        };
        let free = |token| self.allocator.free(token).map_err(Refusal::new);
        match step {
            Step::Fill => {
                self.slots = self.sequence.fill().map(allocate).collect::<Result<_, _>>()?;
                Ok(self.slots.len() as u64)
            }
            Step::Lap => {
                for op in self.sequence.ops() {
                    let Op::Replace(slot, size) = *op else { unreachable!("a churn replaces") };
                    free(self.slots.swap_remove(slot as usize))?;
                    self.slots.push(allocate(request(size))?);
                }
                Ok(self.sequence.operations() as u64)
            }
            Step::Clear => {
                let count = self.slots.len() as u64;
                self.slots.drain(..).try_for_each(free)?;
                Ok(count)
            }
        }
    }
}
