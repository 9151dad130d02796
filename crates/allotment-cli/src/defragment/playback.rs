//! Replays a trace through an allocator without data: resources are created and destroyed only, all of them movable.

use allotment::device::Device;
use allotment::memory::Movability;
use allotment::{AllocationOptions, Allocator};
use allotment_trace::{Event, Op, Resource, ResourceIndex, Trace};

use crate::args::Setup;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::replay::{Live, known, refused, roles};
use crate::target::{Plan, Target};

/// An allocator with the live resources of a trace.
pub(super) struct Playback<'a, T: Target> {
    trace: &'a Trace,
    pub(super) target: &'a T,
    pub(super) allocator: &'a Allocator<T::Device>,
    /// By resource index; `None` if not created yet, or destroyed.
    slots: Vec<Option<Slot<T::Device>>>,
}

/// The object that was created for a resource.
pub(super) struct Slot<D: Device> {
    pub(super) live: Live<D>,
    /// By which it is created again in another place.
    pub(super) plan: Plan,
}

/// A live resource.
pub(super) struct Living<'a, D: Device> {
    pub(super) index: ResourceIndex,
    pub(super) recorded: &'a Resource,
    pub(super) live: &'a Live<D>,
}

/// Calls `work` with a playback on the device, and destroys everything afterwards.
pub(super) fn with_playback<T: Target, R>(
    trace: &Trace,
    target: &T,
    setup: &Setup,
    work: impl FnOnce(&mut Playback<'_, T>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let allocator = Allocator::new(target.device(), setup.allocator())?;
    let slots = trace.resources().iter().map(|_| None).collect();
    let mut playback = Playback { trace, target, allocator: &allocator, slots };
    let outcome = work(&mut playback);
    // On every path, so that validation does not report leaked objects.
    let destroyed = playback.end();
    outcome.and_then(|outcome| destroyed.map(|()| outcome))
}

impl<T: Target> Playback<'_, T> {
    /// Replays the events up to a number and shows the progress; `then` is called after each.
    pub(super) fn play_until(
        &mut self,
        events: usize,
        what: &str,
        mut then: impl FnMut(&Allocator<T::Device>, &Event),
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
            Op::Allocate(resource) => self.create(event.line, resource),
            Op::Free(resource) => {
                self.slots[resource.as_usize()].take().map_or(Ok(()), |slot| self.destroy(slot))
            }
            Op::FrameEnd => {
                self.allocator.end_frame();
                Ok(())
            }
        }
    }

    fn create(&mut self, line: u64, index: ResourceIndex) -> Result<(), Failure> {
        let recorded = self.trace.resource(index);
        let (kind, memory_usage, category) = roles(recorded);
        let plan = self.target.plan(self.allocator.device(), recorded, kind)?;
        let options = AllocationOptions::new(memory_usage)
            .with_category(category)
            .with_movability(Movability::Copied)
            .with_user_data(index.as_usize() as u64);
        let live = Live::create(self.allocator, &plan, &options);
        let live = live.map_err(|error| refused(line, recorded, error))?;
        self.slots[index.as_usize()] = Some(Slot { live, plan });
        Ok(())
    }

    fn destroy(&self, slot: Slot<T::Device>) -> Result<(), Failure> {
        known(slot.live.destroy(self.allocator))
    }

    /// Returns the live resources, in the order of creation.
    pub(super) fn with_lifetime(&self) -> impl Iterator<Item = Living<'_, T::Device>> {
        let made = self.trace.events().iter().filter_map(|event| match event.op {
            Op::Allocate(index) => Some(index),
            _ => None,
        });
        made.filter_map(|index| {
            let Slot { live, .. } = self.slots[index.as_usize()].as_ref()?;
            Some(Living { index, recorded: self.trace.resource(index), live })
        })
    }

    /// Returns the live resource whose allocation has this user data.
    pub(super) fn slot_of(&mut self, user_data: u64) -> Option<&mut Slot<T::Device>> {
        self.slots.get_mut(usize::try_from(user_data).ok()?)?.as_mut()
    }

    fn end(&mut self) -> Result<(), Failure> {
        let left: Vec<_> = self.slots.iter_mut().filter_map(Option::take).collect();
        // All of them, even if one fails.
        left.into_iter().map(|slot| self.destroy(slot)).fold(Ok(()), Result::and)
    }
}
