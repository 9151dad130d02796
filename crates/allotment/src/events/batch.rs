//! Events and their texts, as a reader takes them out of the log.

use core::panic::Location;
use std::borrow::Cow;

use super::packed::PackedEvents;
use super::{Event, TextId};
use crate::memory::{CallSite, Name};

/// Events in their order, and the texts that they name.
///
/// A reader uses one batch again and again, so that reading allocates no host memory once the batch is large enough.
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
    /// The events that have not been unpacked. Empty in the hands of a reader.
    packed: PackedEvents,
    pub(super) texts: Vec<Text>,
}

/// A text as the thread that wrote the event had it at hand: nothing is copied or formatted before it is read.
#[derive(Clone, Debug)]
pub(super) enum Text {
    Name(Name),
    CallSite(&'static Location<'static>),
}

impl EventBatch {
    /// Creates an empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { events: Vec::new(), packed: PackedEvents::new(), texts: Vec::new() }
    }

    /// Returns the events, in the order in which the changes happened.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns a text that an event of this batch names. `None` for [`TextId::NONE`].
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<Cow<'_, str>> {
        let index = (text.0 as usize).checked_sub(1)?;
        Some(match self.texts.get(index)? {
            Text::Name(name) => Cow::Borrowed(name.as_str()),
            Text::CallSite(location) => Cow::Owned(location.to_string()),
        })
    }

    /// Returns the place in the program that a text is made of. `None` for other texts. A reader that keeps texts
    /// compares places by their address, and formats each once.
    #[must_use]
    pub fn call_site(&self, text: TextId) -> Option<&'static Location<'static>> {
        match self.texts.get((text.0 as usize).checked_sub(1)?)? {
            Text::CallSite(location) => Some(location),
            Text::Name(_) => None,
        }
    }

    /// Removes all events and texts. Their host memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.events.clear();
        self.packed.clear();
        self.texts.clear();
    }

    /// Adds an event, packed.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        self.packed.push(event);
    }

    /// Returns how many events were added and not unpacked.
    #[inline]
    pub(super) const fn packed_len(&self) -> usize {
        self.packed.len()
    }

    /// Unpacks the events that were added.
    pub(super) fn unpack(&mut self) {
        self.packed.unpack_into(&mut self.events);
    }

    /// Adds a text. Nothing is compared: a text that is named twice is there twice.
    pub(crate) fn add_text(&mut self, text: Option<&Name>) -> TextId {
        text.map_or(TextId::NONE, |name| self.add(Text::Name(name.clone())))
    }

    /// Adds a call site as a text.
    pub(crate) fn add_call_site(&mut self, site: &CallSite) -> TextId {
        self.add(Text::CallSite(site.location()))
    }

    fn add(&mut self, text: Text) -> TextId {
        self.texts.push(text);
        // The batch is full long before 2^32 texts: memory would be, too.
        TextId(self.texts.len() as u32)
    }

    /// Adds a text that is part of the program.
    pub(crate) fn add_static(&mut self, text: &'static str) -> TextId {
        if text.is_empty() { TextId::NONE } else { self.add_text(Some(&Name::Static(text))) }
    }
}
