//! Events and their texts, as a reader takes them out of the log.

use core::panic::Location;
use std::backtrace::Backtrace;
use std::borrow::Cow;
use std::sync::Arc;

use super::packed::PackedEvents;
use super::{Allocated, AllocationKey, Event, StackId, TextId};
use crate::choices::Name;
use crate::choices::call_site::CallSite;
use crate::chunks::Chunks;

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
    /// In chunks, as the packed events.
    texts: Chunks<Text>,
    /// As the threads captured them: the reader's thread finds the names of their functions.
    stacks: Vec<Arc<Backtrace>>,
    recent: RecentNames,
}

/// The names that were added last, by where their bytes are: most programs name thousands of allocations by a few
/// literals, and to find one here is cheaper than to store it again.
#[derive(Clone, Copy, Debug, Default)]
struct RecentNames([RecentName; 16]);

#[derive(Clone, Copy, Debug, Default)]
struct RecentName {
    address: usize,
    len: usize,
    text: TextId,
}

impl RecentNames {
    /// Returns the place of a name that is where `address` says.
    #[inline]
    fn place_of(&mut self, address: usize) -> &mut RecentName {
        // The upper bits of a product depend on all bits of the address; literals follow each other without alignment.
        let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.0[(mixed >> 60) as usize]
    }
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
        let recent = RecentNames([RecentName { address: 0, len: 0, text: TextId::NONE }; 16]);
        Self {
            events: Vec::new(),
            packed: PackedEvents::new(),
            texts: Chunks::new(),
            stacks: Vec::new(),
            recent,
        }
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

    /// Returns the calls that an event of this batch names. `None` for [`StackId::NONE`]. To format it takes some ten
    /// microseconds, since the names of functions are found then.
    #[must_use]
    pub fn backtrace(&self, stack: StackId) -> Option<&Backtrace> {
        self.stacks.get((stack.0 as usize).checked_sub(1)?).map(|backtrace| &**backtrace)
    }

    /// Removes all events and texts. Their host memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.events.clear();
        self.packed.clear();
        self.texts.clear();
        self.stacks.clear();
        // They name texts that are gone.
        self.recent = RecentNames::default();
    }

    /// Adds an event, packed.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        self.packed.push(event);
    }

    /// Adds an event that is made with texts of this batch.
    #[inline]
    pub(super) fn push_made(&mut self, event: impl FnOnce(&mut Self) -> Event) {
        let event = event(self);
        self.push(event);
    }

    /// Adds [`Event::Allocated`].
    #[inline]
    pub(crate) fn push_allocated(&mut self, allocated: &Allocated) {
        self.packed.push_allocated(allocated);
    }

    /// Adds [`Event::Freed`].
    #[inline]
    pub(crate) fn push_freed(&mut self, allocation: AllocationKey) {
        self.packed.push_freed(allocation);
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

    /// Adds a text. Bytes are not compared: a text may be there twice.
    #[inline]
    pub(crate) fn add_text(&mut self, text: Option<&Name>) -> TextId {
        let Some(name) = text else { return TextId::NONE };
        let (address, len) = (name.as_str().as_ptr() as usize, name.as_str().len());
        let recent = *self.recent.place_of(address);
        // The texts hold a clone of the name, so no other bytes are where its own are.
        if (recent.address, recent.len) == (address, len) {
            return recent.text;
        }
        self.add_name(name)
    }

    #[cold]
    fn add_name(&mut self, name: &Name) -> TextId {
        let text = self.add(Text::Name(name.clone()));
        let (address, len) = (name.as_str().as_ptr() as usize, name.as_str().len());
        *self.recent.place_of(address) = RecentName { address, len, text };
        text
    }

    /// Adds a call site as a text.
    pub(crate) fn add_call_site(&mut self, site: &CallSite) -> TextId {
        self.add(Text::CallSite(site.location()))
    }

    /// Adds the calls that led to a call site as a stack, where they are known.
    pub(crate) fn add_stack(&mut self, site: &CallSite) -> StackId {
        let Some(backtrace) = site.shared_backtrace() else { return StackId::NONE };
        self.stacks.push(backtrace.clone());
        StackId(self.stacks.len() as u32)
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

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_again_is_one_text() {
        let mut batch = EventBatch::new();
        let names: [Name; 2] = ["mesh".into(), String::from("texture").into()];
        for _ in 0..100 {
            let texts = names.each_ref().map(|name| batch.add_text(Some(name)));
            assert_eq!(
                texts.map(|text| batch.text(text).unwrap_or_default().into_owned()),
                ["mesh", "texture"]
            );
        }
        let one = batch.add_text(Some(&names[0]));
        assert_eq!(batch.add_text(Some(&names[0])), one);
        batch.clear();
        assert_eq!(batch.add_text(Some(&names[0])), TextId(1), "a text of the next batch");
    }

    #[test]
    fn a_name_that_is_gone_does_not_lend_its_text_to_the_next_one_there() {
        let mut batch = EventBatch::new();
        // Of one length, so that the host allocator gives each the memory of the one before if it may.
        let texts: Vec<_> = (0..1000).map(|i| batch.add_text(Some(&format!("{i:08}").into()))).collect();
        for (i, text) in texts.into_iter().enumerate() {
            assert_eq!(batch.text(text).as_deref(), Some(&*format!("{i:08}")));
        }
    }
}
