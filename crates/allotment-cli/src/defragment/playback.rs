//! Replays a trace through an allocator without data: allocations and frees only, all allocations movable.

use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::memory::Movability;
use allotment::{Allocation, AllocationOptions, Allocator};
use allotment_trace::{Event, Op, Resource, ResourceIndex, Trace};

use crate::args::Setup;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::replay::{roles, unexpected};
use crate::target::{SimulatedTarget, Target, close_after};

/// An allocator with the live allocations of a trace.
pub(super) struct Playback<'a> {
    trace: &'a Trace,
    simulated: &'a SimulatedTarget,
    pub(super) allocator: &'a Allocator<SimulatedGpu>,
    /// By resource index; `None` if not allocated yet, or freed.
    slots: Vec<Option<Allocation>>,
}

/// A live resource.
#[derive(Clone, Copy)]
pub(super) struct Living<'a> {
    pub(super) index: ResourceIndex,
    pub(super) recorded: &'a Resource,
    pub(super) allocation: &'a Allocation,
}

/// Calls `f` with a playback on a new simulated GPU, and frees everything afterwards.
pub(super) fn with_playback<T>(
    trace: &Trace,
    profile: &Profile,
    setup: &Setup,
    work: impl FnOnce(&mut Playback<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let simulated = SimulatedTarget::new(profile.clone());
    let allocator = Allocator::new(simulated.device(), setup.allocator())?;
    let slots = trace.resources().iter().map(|_| None).collect();
    let mut playback = Playback { trace, simulated: &simulated, allocator: &allocator, slots };
    let outcome = work(&mut playback);
    let freed = playback.end();
    // Freed before the device is closed, so that its validation reports no leaks of this playback.
    drop(allocator);
    close_after(simulated, outcome.and_then(|outcome| freed.map(|()| outcome)))
}

impl Playback<'_> {
    /// Replays the events up to a number and shows the progress; `then` is called after each.
    pub(super) fn play_until(
        &mut self,
        events: usize,
        what: &str,
        mut then: impl FnMut(&Allocator<SimulatedGpu>, &Event),
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(what.to_owned(), events as u64);
        for (index, event) in self.trace.events()[..events].iter().enumerate() {
            self.play(event)?;
            then(self.allocator, event);
            progress.reach(index as u64 + 1);
        }
        Ok(())
    }

    fn play(&mut self, event: &Event) -> Result<(), Failure> {
        match event.op {
            Op::Allocate(resource) => self.allocate(event.line, resource),
            Op::Free(resource) => {
                let freed = self.slots[resource.as_usize()].take().map(|it| self.allocator.free(it));
                freed.transpose().map_err(unexpected).map(|_| ())
            }
            Op::FrameEnd => {
                self.allocator.end_frame();
                Ok(())
            }
        }
    }

    fn allocate(&mut self, line: u64, index: ResourceIndex) -> Result<(), Failure> {
        let recorded = self.trace.resource(index);
        let (kind, memory_usage, category) = roles(recorded);
        let requirements = self.simulated.needs(recorded, kind)?;
        let options = AllocationOptions::new(memory_usage)
            .with_category(category)
            .with_movability(Movability::Copied)
            .with_user_data(index.as_usize() as u64);
        let refused = |error| Failure::Allocation { line, id: recorded.id(), error };
        self.slots[index.as_usize()] =
            Some(self.allocator.allocate(&requirements, &options).map_err(refused)?);
        Ok(())
    }

    /// Returns the live allocations, in the order of allocation.
    pub(super) fn with_lifetime(&self) -> impl Iterator<Item = Living<'_>> {
        let made = self.trace.events().iter().filter_map(|event| match event.op {
            Op::Allocate(index) => Some(index),
            _ => None,
        });
        made.filter_map(|index| {
            let allocation = self.slots[index.as_usize()].as_ref()?;
            Some(Living { index, recorded: self.trace.resource(index), allocation })
        })
    }

    fn end(&mut self) -> Result<(), Failure> {
        let mut left = self.slots.iter_mut().filter_map(Option::take);
        left.try_for_each(|allocation| self.allocator.free(allocation).map_err(unexpected))
    }
}
