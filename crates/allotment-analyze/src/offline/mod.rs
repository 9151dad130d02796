//! Where the allocations of a recording could have been, had all lifetimes been known before.
//!
//! An allocator decides with each request, and never knows what comes. A plan made afterwards shows what that costs: each
//! allocation has the size, the alignment and the lifetime that were recorded, and a new offset in one range of memory for each
//! memory type. A program whose work repeats, such as the training of a network, could use such a plan.

mod picture;
mod planning;

use core::ops::Range;
use std::collections::BTreeMap;

use allotment::device::MemoryTypeIndex;
use allotment_suballoc::plan::{Item, Plan, Problem, ProblemError, Solver};

use crate::scope::Scope;
use crate::series::Peaks;
use crate::timeline::{AllocationIndex, Timeline};

pub use picture::{PlacedItem, PlanPicture};
pub use planning::{PlanLimits, plan_all, proved};

/// How often the greedy solver and then the search ask whether to stop, for all memory types: some seconds in all, of which most
/// recordings need a few milliseconds.
const GREEDY_CALLS: u64 = 20_000;
const ALL_CALLS: u64 = GREEDY_CALLS + 10_000;

/// The allocations of one memory type, to be placed anew.
#[derive(Debug)]
pub struct OfflineMemory {
    /// The memory type.
    pub memory_type: MemoryTypeIndex,
    /// The allocations, in the order of the problem's items.
    pub allocations: Vec<AllocationIndex>,
    /// Their sizes, alignments and lifetimes, in events.
    pub problem: Problem,
    /// Their lifetimes.
    pub lives: Vec<Range<u64>>,
    /// The most bytes of blocks that the program had at once.
    pub recorded_peak: u64,
}

/// Why the allocations of a recording cannot be placed anew.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfflineError {
    /// The memory type.
    pub memory_type: MemoryTypeIndex,
    /// What is wrong; items are counted within the memory type.
    pub reason: ProblemError,
}

impl core::fmt::Display for OfflineError {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "memory type {}: {}", self.memory_type.0, self.reason)
    }
}

impl core::error::Error for OfflineError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.reason)
    }
}

impl OfflineMemory {
    /// Returns the allocations of a recording, by memory type. One that was moved is of the type where it was first. What was not
    /// freed lives until the end.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment_analyze::{OfflineMemory, Timeline};
    /// use allotment_trace::Collector;
    ///
    /// let allocator = Allocator::new(device, AllocatorDesc::default())?;
    /// let collector = Collector::new(&allocator)?;
    /// for size in [1 << 20, 3 << 20, 1 << 20] {
    ///     let it = allocator.allocate(&Requirements::new(size), &MemoryUsage::GpuOnly.with_name("step"))?;
    ///     allocator.free(it)?;
    /// }
    /// let recording = collector.into_recording();
    /// let memory = OfflineMemory::of(&Timeline::new(&recording))?;
    /// let plan = memory[0].plan();
    /// assert_eq!(plan.peak(), 3 << 20, "one at a time");
    /// assert!(memory[0].recorded_peak >= plan.peak());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OfflineError`] where sizes exceed what a plan can have.
    pub fn of(timeline: &Timeline<'_>) -> Result<Vec<Self>, OfflineError> {
        let mut by_type: BTreeMap<u8, Vec<AllocationIndex>> = BTreeMap::new();
        for (allocation, lifetime) in timeline.lifetimes() {
            // What takes no bytes has no place.
            if timeline.requested(allocation) > 0 {
                let block = timeline.place_at(allocation, lifetime.allocated).block;
                by_type.entry(timeline.block_info(block).memory_type.0).or_default().push(allocation);
            }
        }
        let memory = by_type.into_iter().map(|(memory_type, allocations)| {
            let memory_type = MemoryTypeIndex(memory_type);
            let life = |&allocation| {
                let lifetime = timeline.lifetime(allocation);
                let end = lifetime.freed.unwrap_or_else(|| timeline.end() + 1).max(lifetime.allocated + 1);
                lifetime.allocated..end
            };
            let lives: Vec<_> = allocations.iter().map(life).collect();
            let items = allocations.iter().zip(&lives).map(|(&allocation, life)| {
                let live = timeline.allocation_at(allocation, life.start);
                let alignment = live.map(|live| live.is.alignment).unwrap_or_default();
                (Item::new(timeline.requested(allocation)).aligned(alignment), life.clone())
            });
            let problem =
                Problem::from_intervals(items).map_err(|reason| OfflineError { memory_type, reason })?;
            let recorded_peak = Peaks::of(timeline, Scope::MemoryType(memory_type)).blocks.bytes;
            Ok(Self { memory_type, allocations, problem, lives, recorded_peak })
        });
        memory.collect()
    }

    /// Returns a plan that is made in a time that is near-linear in the number of allocations.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::new();
        Solver::new().greedy(&self.problem, u64::MAX, &mut plan);
        plan
    }

    /// Returns a plan of each, as good as a few seconds allow; the same ones at each call.
    #[must_use]
    pub fn plan_all(memories: &[Self]) -> Vec<Plan> {
        Self::plan_all_until(memories, || false)
    }

    /// As [`plan_all`](Self::plan_all), and ends soon after `stop` returned true: for a thread whose plans may be wanted no more, or
    /// for a limit of seconds. Every allocation has a place then too, if not as good a one.
    #[must_use]
    pub fn plan_all_until(memories: &[Self], mut stop: impl FnMut() -> bool) -> Vec<Plan> {
        let problems: Vec<_> = memories.iter().map(|memory| &memory.problem).collect();
        let limits = PlanLimits { capacity: u64::MAX, greedy: GREEDY_CALLS, all: ALL_CALLS };
        let mut calls = 0;
        plan_all(&problems, &limits, || {
            // The end of all time is behind both limits.
            calls = if calls == u64::MAX || stop() { u64::MAX } else { calls + 1 };
            calls
        })
    }

    /// Draws a plan.
    #[must_use]
    pub fn picture(&self, plan: &Plan) -> PlanPicture {
        PlanPicture::new(&self.problem, plan, self.lives.iter().cloned())
    }
}
