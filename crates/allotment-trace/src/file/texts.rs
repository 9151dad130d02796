//! The texts of a recording: each distinct text has one number.

use core::ops::Range;
use std::sync::Arc;

use allotment::events::TextId;

use super::bytes::{Input, Wrong, put_number, put_text};
use super::error::DamageKind;
use crate::recording::IdMap;

/// The most bytes of a text. A writer cuts longer ones at a character.
pub const MAX_TEXT_BYTES: usize = 4096;

/// Returns the beginning of a text, at most `most` bytes of whole characters.
pub(super) fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// Numbers texts while a recording is written.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    numbers: IdMap<Arc<str>, u32>,
    /// By number less one. Free numbers have `None`.
    texts: Vec<Option<Arc<str>>>,
    /// How many texts have been written out.
    written: usize,
    uses: Option<Uses>,
}

/// Which texts are still used, where old events are forgotten.
#[derive(Debug, Default)]
struct Uses {
    /// The segment that is being written.
    segment: u64,
    /// The last segment that names each text.
    last: Vec<u64>,
    free: Vec<u32>,
    /// The numbers of the texts that have not been written out, where they are written as they come.
    unwritten: Option<Vec<u32>>,
}

impl Texts {
    /// Texts of a recording that forgets its old segments.
    pub(super) fn forgetful() -> Self {
        Self { uses: Some(Uses::default()), ..Self::default() }
    }

    /// Texts of a live recording, which forgets them as well, and writes the new ones as they come.
    pub(super) fn reusing() -> Self {
        Self { uses: Some(Uses { unwritten: Some(Vec::new()), ..Uses::default() }), ..Self::default() }
    }

    pub(super) fn number(&mut self, text: &str) -> TextId {
        if text.is_empty() {
            return TextId::NONE;
        }
        let text = cut(text, MAX_TEXT_BYTES);
        if let Some(&number) = self.numbers.get(text) {
            return TextId(number);
        }
        let Some(number) = self.free_number() else { return TextId::NONE };
        let text: Arc<str> = text.into();
        self.texts[number as usize - 1] = Some(text.clone());
        self.numbers.insert(text, number);
        if let Some(unwritten) = self.uses.as_mut().and_then(|uses| uses.unwritten.as_mut()) {
            unwritten.push(number);
        }
        TextId(number)
    }

    /// Returns a number that has no text. `None` after 2^32 texts.
    fn free_number(&mut self) -> Option<u32> {
        if let Some(number) = self.uses.as_mut().and_then(|uses| uses.free.pop()) {
            self.used(TextId(number));
            return Some(number);
        }
        let number = u32::try_from(self.texts.len() + 1).ok()?;
        self.texts.push(None);
        if let Some(uses) = &mut self.uses {
            uses.last.push(uses.segment);
        }
        Some(number)
    }

    /// Notes that the current segment names a text.
    pub(super) fn used(&mut self, text: TextId) {
        if let Some(uses) = &mut self.uses {
            if let Some(last) = (text.0 as usize).checked_sub(1).and_then(|index| uses.last.get_mut(index)) {
                *last = uses.segment;
            }
        }
    }

    /// Begins the next segment. Returns its number.
    pub(super) fn begin_segment(&mut self) -> u64 {
        self.uses.as_mut().map_or(0, |uses| {
            uses.segment += 1;
            uses.segment
        })
    }

    /// Forgets the texts that no segment from `oldest` on names. The current state's are named by the last snapshot.
    pub(super) fn forget_before(&mut self, oldest: u64) {
        let Some(uses) = &mut self.uses else { return };
        for (index, text) in self.texts.iter_mut().enumerate() {
            if uses.last[index] < oldest {
                if let Some(text) = text.take() {
                    self.numbers.remove(&text);
                    // At most 2^32 numbers, as `free_number` says.
                    uses.free.push(index as u32 + 1);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Calls `emit` with payloads of all texts that have not been written out.
    pub(super) fn write_new<E>(&mut self, mut emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let Some(unwritten) = self.uses.as_mut().and_then(|uses| uses.unwritten.as_mut()) else {
            let from = core::mem::replace(&mut self.written, self.texts.len());
            return self.write(from..self.texts.len(), emit);
        };
        // Numbers that are used again are anywhere: those that follow each other share a payload.
        let mut numbers = core::mem::take(unwritten);
        numbers.sort_unstable();
        for run in numbers.chunk_by(|one, next| one + 1 == *next) {
            let first = run[0] as usize - 1;
            self.write(first..first + run.len(), &mut emit)?;
        }
        Ok(())
    }

    /// As [`write_new`](Self::write_new) of texts that are never forgotten, and they are new still.
    pub(super) fn write_unwritten<E>(&self, emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.write(self.written..self.texts.len(), emit)
    }

    /// Calls `emit` with payloads of all texts.
    pub(super) fn write_all<E>(&self, emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.write(0..self.texts.len(), emit)
    }

    /// Calls `emit` with payloads of some texts, by their number less one.
    fn write<E>(&self, which: Range<usize>, mut emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut payload = Vec::new();
        for (index, text) in which.clone().zip(&self.texts[which]) {
            if payload.is_empty() {
                put_number(&mut payload, index as u64 + 1);
            }
            put_text(&mut payload, text.as_deref().unwrap_or_default());
            if payload.len() >= 1 << 20 {
                emit(&payload)?;
                payload.clear();
            }
        }
        if payload.is_empty() { Ok(()) } else { emit(&payload) }
    }
}

/// The memory that the texts of a recording may take.
#[derive(Debug)]
pub(super) struct TextLimit {
    pub(super) limit: u64,
    taken: u64,
}

impl TextLimit {
    pub(super) const fn new(limit: u64) -> Self {
        Self { limit, taken: 0 }
    }

    /// Adds the texts of a chunk.
    pub(super) fn read(&mut self, payload: &[u8], texts: &mut Vec<String>) -> Result<(), DamageKind> {
        self.add(Input::new(payload), texts).map_err(DamageKind::Contents)?;
        if self.taken > self.limit {
            return Err(DamageKind::TooMuch { of: "bytes of texts", limit: self.limit });
        }
        Ok(())
    }

    fn add(&mut self, mut input: Input<'_>, texts: &mut Vec<String>) -> Result<(), Wrong> {
        if input.number()? != texts.len() as u64 + 1 {
            return Err("texts are missing before these");
        }
        while !input.is_empty() && self.taken <= self.limit {
            let text = input.text()?;
            self.taken += (text.len() + size_of::<String>()) as u64;
            texts.push(text.to_owned());
        }
        Ok(())
    }
}
