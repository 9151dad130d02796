//! Builds a recording: texts once each, ids that are never used twice, everything counted against the limit.

use std::collections::HashMap;

use allotment::events::{AllocationKey, BlockId, Event, TextId};

use super::ImportErrorKind;
use super::limits::{Budget, MAX_TEXT};
use crate::recording::Recording;

/// The memory of an event: vectors grow by doubling.
const EVENT_BYTES: usize = 2 * size_of::<Event>();
/// The memory of a text beside its bytes, in the recording and in the table.
const TEXT_BYTES: usize = 160;

pub(crate) struct Builder<'a> {
    pub(crate) recording: Recording,
    pub(crate) budget: &'a Budget,
    by_text: HashMap<Box<str>, TextId>,
    allocations: u64,
    blocks: u64,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(budget: &'a Budget) -> Self {
        Self { recording: Recording::default(), budget, by_text: HashMap::new(), allocations: 0, blocks: 0 }
    }

    pub(crate) fn push(&mut self, event: Event) -> Result<(), ImportErrorKind> {
        self.budget.work(1)?;
        self.budget.charge(EVENT_BYTES)?;
        self.recording.events.push(event);
        Ok(())
    }

    /// Returns the id of a text; none of an empty one.
    pub(crate) fn text(&mut self, text: &str) -> Result<TextId, ImportErrorKind> {
        let text = cut(text);
        if text.is_empty() {
            return Ok(TextId::NONE);
        }
        self.budget.look_at(text)?;
        if let Some(&known) = self.by_text.get(text) {
            return Ok(known);
        }
        self.budget.charge(2 * text.len() + TEXT_BYTES)?;
        self.recording.texts.push(text.to_owned());
        // The memory allows far fewer than 2^32 texts.
        let id = TextId(u32::try_from(self.recording.texts.len()).unwrap_or(u32::MAX));
        self.by_text.insert(text.into(), id);
        Ok(id)
    }

    /// Notes at this moment what the file says and a recording cannot follow.
    pub(crate) fn mark(&mut self, text: &str) -> Result<(), ImportErrorKind> {
        let text = self.text(text)?;
        self.push(Event::Mark { text })
    }

    pub(crate) const fn new_allocation(&mut self) -> AllocationKey {
        self.allocations += 1;
        AllocationKey(self.allocations)
    }

    pub(crate) const fn new_block(&mut self) -> BlockId {
        self.blocks += 1;
        BlockId(self.blocks)
    }

    pub(crate) fn setting(&mut self, name: &str, value: impl Into<String>) {
        self.recording.header.settings.push((name.to_owned(), value.into()));
    }
}

/// Returns the first part of a text that is not longer than a text may be.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = usize::min(text.len(), MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
