//! Builds a recording: texts once each, ids that are never used twice, everything counted against the limit.

use std::collections::HashMap;

use allotment::events::{AllocationKey, BlockId, Event, StackId, TextId};

use super::limits::{Budget, MAX_TEXT};
use super::{ImportErrorKind, Position};
use crate::recording::{Recording, StackFrame, StackNumbers, Unread, UnreadKind};

/// The memory of an event: vectors grow by doubling.
const EVENT_BYTES: usize = 2 * size_of::<Event>();
/// The memory of a text beside its bytes, in the recording and in the table.
const TEXT_BYTES: usize = 160;
/// The memory of a call of a stack, in the recording and in the table.
const CALL_BYTES: usize = 96;

/// The most sentences about what is not imported.
const MOST_UNREAD: usize = 100;

pub(crate) struct Builder<'a> {
    pub(crate) recording: Recording,
    pub(crate) budget: &'a Budget,
    by_text: HashMap<Box<str>, TextId>,
    unread: HashMap<(UnreadKind, Box<str>), usize>,
    by_call: StackNumbers,
    allocations: u64,
    blocks: u64,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(budget: &'a Budget) -> Self {
        Self {
            recording: Recording::default(),
            budget,
            by_text: HashMap::new(),
            unread: HashMap::new(),
            by_call: StackNumbers::default(),
            allocations: 0,
            blocks: 0,
        }
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

    /// Returns the stack of a call.
    pub(crate) fn stack(&mut self, frame: StackFrame) -> Result<StackId, ImportErrorKind> {
        self.budget.work(1)?;
        let count = self.recording.stacks.len();
        let stack = self.by_call.number(frame, &mut self.recording.stacks);
        self.budget.charge((self.recording.stacks.len() - count) * CALL_BYTES)?;
        Ok(stack)
    }

    /// Notes at this moment what the file says and a recording cannot follow.
    pub(crate) fn mark(&mut self, text: &str) -> Result<(), ImportErrorKind> {
        let text = self.text(text)?;
        self.push(Event::Mark { text })
    }

    /// Leaves out what contradicts the rest of the file: marks the place, and says so.
    pub(crate) fn leave_out(&mut self, what: &str) -> Result<(), ImportErrorKind> {
        self.mark(what)?;
        let what = what.strip_prefix("import: ").unwrap_or(what);
        self.unread(UnreadKind::Contradicts, 1, &format!("{what}, and is left out; marks show where"))
    }

    /// Tells a difference between a number that the file states of itself and what was read. `whose` it is, in a sentence:
    /// `of memory type 0`.
    pub(crate) fn differ(
        &mut self,
        key: &str,
        whose: &str,
        stated: u64,
        read: u64,
    ) -> Result<(), ImportErrorKind> {
        if stated == read {
            return Ok(());
        }
        let text = format!("the file states `{key}` {stated} {whose}, and {read} was read");
        self.unread(UnreadKind::Contradicts, 1, &text)
    }

    /// Notes that something of the file is not imported: one sentence that says what, and what to do. The same sentence
    /// is kept once, with the sum of the counts.
    pub(crate) fn unread(&mut self, kind: UnreadKind, count: u64, text: &str) -> Result<(), ImportErrorKind> {
        self.unread_at(kind, count, text, None)
    }

    /// As [`unread`](Self::unread), with the place of the first.
    pub(crate) fn unread_at(
        &mut self,
        kind: UnreadKind,
        count: u64,
        text: &str,
        at: Option<Position>,
    ) -> Result<(), ImportErrorKind> {
        let text = cut(text);
        self.budget.look_at(text)?;
        let all = &mut self.recording.unread;
        if let Some(&index) = self.unread.get(&(kind, Box::from(text))) {
            all[index].count = all[index].count.saturating_add(count);
            return Ok(());
        }
        if all.len() >= MOST_UNREAD {
            // One for each kind: what is accepted of one kind says nothing of another.
            match all[MOST_UNREAD..].iter_mut().find(|others| others.kind == kind) {
                Some(others) => others.count = others.count.saturating_add(count),
                None => all.push(Unread { kind, count: count.max(1), text: "and others".to_owned() }),
            }
            return Ok(());
        }
        self.budget.charge(3 * text.len() + TEXT_BYTES)?;
        self.unread.insert((kind, text.into()), all.len());
        let text = at.map_or_else(|| text.to_owned(), |at| format!("{text} (the first: {at})"));
        all.push(Unread { kind, count: count.max(1), text });
        Ok(())
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
