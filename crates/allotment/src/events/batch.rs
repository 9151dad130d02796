//! Events and their texts, as a reader takes them out of the log.

use super::{Event, TextId};
use crate::memory::Name;

/// Events in their order, and the texts that they name.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    pub(super) events: Vec<Event>,
    pub(super) texts: Vec<Name>,
}

impl EventBatch {
    /// Creates an empty batch.
    #[must_use]
    pub const fn new() -> Self {
        Self { events: Vec::new(), texts: Vec::new() }
    }

    /// Returns the events, in the order in which the changes happened.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns a text that an event of this batch names. `None` for [`TextId::NONE`].
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<&str> {
        let index = (text.0 as usize).checked_sub(1)?;
        self.texts.get(index).map(Name::as_str)
    }

    /// Removes all events and texts. Their host memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.events.clear();
        self.texts.clear();
    }

    /// Adds a text. Nothing is compared: a text that is named twice is there twice.
    pub(crate) fn add_text(&mut self, text: Option<&Name>) -> TextId {
        // Not `len() + 1` in a u32 beyond its range: the log's limit of events is far below.
        text.map_or(TextId::NONE, |text| {
            self.texts.push(text.clone());
            TextId(self.texts.len() as u32)
        })
    }

    /// Adds a text that is part of the program.
    pub(crate) fn add_static(&mut self, text: &'static str) -> TextId {
        if text.is_empty() { TextId::NONE } else { self.add_text(Some(&Name::Static(text))) }
    }
}
