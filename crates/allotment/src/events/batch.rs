//! Events and their texts, as a reader takes them out of the log.

use core::panic::Location;
use std::backtrace::Backtrace;
use std::borrow::Cow;

use super::lane::{EventLane, Text};
use super::{Event, StackId, TextId};

/// Events in their order, and the texts that they name.
///
/// A reader uses one batch again and again, so that reading allocates hardly any host memory once the batch is large enough.
/// Texts are of their batch only: the same number is another text in the next one.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::events::{Event, EventBatch, SubscriptionDesc};
///
/// let mut events = allocator.subscribe(&SubscriptionDesc::default())?;
/// let mut batch = EventBatch::new();
/// let mut names = Vec::new();
/// for name in ["mesh", "texture"] {
///     let allocation = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.with_name(name))?;
///     events.read(&mut batch); // clears what was in it
///     for event in batch.events() {
///         let Event::Allocated(allocated) = event else { continue };
///         names.extend(batch.text(allocated.name).map(String::from));
///     }
///     # allocator.free(allocation)?;
/// }
/// assert_eq!(names, ["mesh", "texture"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    events: Vec<Event>,
    /// The texts of the events, and the host memory of those that were unpacked.
    lanes: Vec<EventLane>,
}

impl EventBatch {
    /// Creates an empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { events: Vec::new(), lanes: Vec::new() }
    }

    /// Returns the events, in the order in which the changes happened: those of one thread, those of one pool, and those that
    /// concern several pools among all others. What threads did in different pools between two of the latter is in any order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns a text that an event of this batch names. `None` for [`TextId::NONE`].
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<Cow<'_, str>> {
        Some(match self.stored(text)? {
            Text::Name(name) => Cow::Borrowed(name.as_str()),
            Text::CallSite(location) => Cow::Owned(location.to_string()),
        })
    }

    /// Returns the place in the program that a text is made of. `None` for other texts. A reader that keeps texts
    /// compares places by their address, and formats each once.
    #[must_use]
    pub fn call_site(&self, text: TextId) -> Option<&'static Location<'static>> {
        match self.stored(text)? {
            Text::CallSite(location) => Some(location),
            Text::Name(_) => None,
        }
    }

    fn stored(&self, text: TextId) -> Option<&Text> {
        self.lanes.get(EventLane::index_of(text.0))?.text(text)
    }

    /// Returns the calls that an event of this batch names. `None` for [`StackId::NONE`]. To format it takes some ten
    /// microseconds, since the names of functions are found then.
    #[must_use]
    pub fn backtrace(&self, stack: StackId) -> Option<&Backtrace> {
        self.lanes.get(EventLane::index_of(stack.0))?.stack(stack)
    }

    /// Removes all events and texts. Their host memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.events.clear();
        self.lanes.iter_mut().for_each(EventLane::clear);
    }

    /// Takes the events of a lane, whose turn it is, and leaves it an empty one.
    pub(super) fn take(&mut self, lane: &mut EventLane) {
        for index in self.lanes.len()..=lane.index() {
            self.lanes.push(EventLane::new(index));
        }
        core::mem::swap(&mut self.lanes[lane.index()], lane);
    }

    /// Unpacks the events that were taken, in the order in which the changes happened.
    pub(super) fn unpack(&mut self) {
        let Self { events, lanes } = self;
        events.reserve(lanes.iter().map(EventLane::len).sum());
        let mut left: Vec<_> =
            lanes.iter().map(EventLane::unpacker).map(|mut lane| (lane.next_run(events), lane)).collect();
        // One lane has all events of most programs, and then this takes one round.
        while let Some((next, lane)) =
            left.iter_mut().filter(|(next, _)| next.is_some()).min_by_key(|(next, _)| *next)
        {
            *next = lane.next_run(events);
        }
        drop(left);
        lanes.iter_mut().for_each(EventLane::forget_events);
    }
}
