//! A live recording: the chunks of a recording over a stream of bytes.
//!
//! ```text
//!   magic, version │ header │ restart │ texts │ snapshot │ texts │ events │ events │ restart │ texts │ snapshot │ … │ end
//!                             └── the whole state ──┘                    └ events are missing before
//! ```
//!
//! Unlike in a file, texts may replace earlier ones: a program runs for days, and its server forgets old names. So the
//! reader numbers texts anew: each distinct text has one number for good.

use allotment::events::{Event, TextId};

use super::bytes::{Input, Wrong, put_number};
use super::chunk::{self, MAX_CHUNK_BYTES};
use super::error::{Damage, DamageKind, ReadError};
use super::reader::{ReadOptions, read_events, read_header};
use super::stacks::StreamStacks;
use super::writer::write_beginning;
use super::{MAGIC, VERSION, chunk_kind, snapshot};
use crate::recording::{Header, Stacks, State, TextNumbers};

/// The most bytes of a chunk's payload after the header. The composer's have little more than half of it; events can be
/// 36 times as large in memory.
const MAX_BYTES: u32 = 2 << 20;

/// Returns the bytes that a stream begins with.
pub(crate) fn beginning(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A `Vec` takes all, and a header fits a chunk.
    let _ = write_beginning(&mut bytes, header);
    bytes
}

/// Returns a chunk as bytes.
pub(crate) fn chunk_bytes(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(chunk::HEAD_BYTES + payload.len());
    // A `Vec` takes all, and composed chunks are far below the limit.
    let _ = chunk::write(&mut bytes, kind, payload);
    bytes
}

/// Returns the chunk before a whole state: after `dropped` events that the reader will not get.
pub(crate) fn restart_bytes(dropped: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    put_number(&mut payload, dropped);
    chunk_bytes(chunk_kind::RESTART, &payload)
}

/// Returns the last chunk. There is no index.
pub(crate) fn end_bytes(events: u64) -> Vec<u8> {
    let mut payload = [0; 16];
    payload[8..].copy_from_slice(&events.to_le_bytes());
    chunk_bytes(chunk_kind::END, &payload)
}

/// Something whole that a stream has brought.
#[derive(Debug)]
pub(crate) enum StreamItem {
    Header(Header),
    State { state: State, dropped: u64 },
    Events(Vec<Event>),
    End,
}

/// What a stream may bring next.
#[derive(Debug)]
enum Phase {
    Beginning,
    /// A restart, or chunks that are skipped.
    Restart,
    /// The texts and the snapshot after a restart.
    State {
        dropped: u64,
    },
    Events,
    End,
}

/// Reads a stream from pieces of any size. Keeps at most a chunk and a piece of it.
#[derive(Debug)]
pub(crate) struct StreamReader {
    /// What has come, from `used` on not read yet.
    buffer: Vec<u8>,
    used: usize,
    /// Of `buffer[used]` in the stream.
    offset: u64,
    phase: Phase,
    texts: StreamTexts,
    stacks: StreamStacks,
    snapshot: snapshot::Reading,
    max_events: usize,
}

impl StreamReader {
    pub(crate) fn new(options: &ReadOptions) -> Self {
        Self {
            buffer: Vec::new(),
            used: 0,
            offset: 0,
            phase: Phase::Beginning,
            texts: StreamTexts::new(options.max_text_bytes),
            stacks: StreamStacks::default(),
            snapshot: snapshot::Reading::default(),
            max_events: options.max_events,
        }
    }

    /// Returns the texts, by the numbers in states and events.
    pub(crate) fn texts(&self) -> &[String] {
        &self.texts.texts
    }

    /// Returns the stacks, by the numbers in states and events.
    pub(crate) fn stacks(&self) -> &Stacks {
        &self.stacks.stacks
    }

    /// Returns the number of a text, which is added if it is new.
    pub(crate) fn text(&mut self, text: &str) -> TextId {
        self.texts.numbers.number(text, &mut self.texts.texts)
    }

    /// Adds the next piece, after [`next`](Self::next) has returned `None`.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next item. `None` until more bytes come, and after the end.
    pub(crate) fn next(&mut self) -> Result<Option<StreamItem>, ReadError> {
        loop {
            if let Phase::End = self.phase {
                return Ok(None);
            }
            if let Phase::Beginning = self.phase {
                return self.beginning();
            }
            let bytes = &self.buffer[self.used..];
            let (kind, payload) = match chunk::first(bytes, MAX_BYTES) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(None),
                Err(what) => return Err(damaged(self.offset, what)),
            };
            let length = chunk::HEAD_BYTES + payload.len();
            let read = chunk_item(
                (kind, payload),
                &mut self.phase,
                (&mut self.texts, &mut self.stacks),
                &mut self.snapshot,
                self.max_events,
            );
            let item = read.map_err(|what| damaged(self.offset, what))?;
            self.used += length;
            self.offset += length as u64;
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    fn beginning(&mut self) -> Result<Option<StreamItem>, ReadError> {
        const BEFORE: usize = MAGIC.len() + size_of::<u32>();
        let bytes = &self.buffer[self.used..];
        let Some((before, rest)) = bytes.split_at_checked(BEFORE) else { return Ok(None) };
        // What is of no recording, or of another version, is an error at once.
        let is_ours = before.starts_with(&MAGIC) && before.ends_with(&VERSION.to_le_bytes());
        if is_ours && matches!(chunk::first(rest, MAX_CHUNK_BYTES), Ok(None)) {
            return Ok(None);
        }
        let mut from = bytes;
        let (header, length) = read_header(&mut from, &mut Vec::new())?;
        self.phase = Phase::Restart;
        // A header of at most a chunk.
        self.used += length as usize;
        self.offset += length;
        Ok(Some(StreamItem::Header(header)))
    }
}

fn damaged(offset: u64, what: DamageKind) -> ReadError {
    ReadError::Header(Damage { offset, what })
}

/// Reads a chunk after the header.
fn chunk_item(
    (kind, payload): (u8, &[u8]),
    phase: &mut Phase,
    (texts, stacks): (&mut StreamTexts, &mut StreamStacks),
    snapshot: &mut snapshot::Reading,
    max_events: usize,
) -> Result<Option<StreamItem>, DamageKind> {
    match (kind, &*phase) {
        (chunk_kind::RESTART, _) => {
            let dropped = Input::new(payload).number().map_err(DamageKind::Contents)?;
            *phase = Phase::State { dropped };
            texts.forget_numbers();
            stacks.forget_numbers();
        }
        (chunk_kind::TEXTS, Phase::State { .. } | Phase::Events) => texts.read(payload)?,
        (chunk_kind::STACKS, Phase::State { .. } | Phase::Events) => {
            stacks.read(payload, |text| texts.number(text))?;
        }
        (chunk_kind::SNAPSHOT, &Phase::State { dropped }) => {
            let part = snapshot.part_with(
                payload,
                max_events,
                |text| texts.number(text),
                |stack| stacks.number(stack),
            );
            if let Some(state) = part.map_err(DamageKind::Contents)? {
                *phase = Phase::Events;
                return Ok(Some(StreamItem::State { state, dropped }));
            }
        }
        (chunk_kind::EVENTS, Phase::Events) => {
            let mut events = Vec::new();
            read_events(payload, &mut events, max_events)?;
            for event in &mut events {
                *event = event.map_texts(|text| texts.number(text)).map_stack(|stack| stacks.number(stack));
            }
            return Ok(Some(StreamItem::Events(events)));
        }
        (chunk_kind::END, _) => {
            *phase = Phase::End;
            return Ok(Some(StreamItem::End));
        }
        (chunk_kind::TEXTS | chunk_kind::STACKS | chunk_kind::EVENTS, _) => {
            return Err(DamageKind::Contents("there is no whole state before it"));
        }
        // A snapshot between events says what they have said; others are of a later version.
        _ => {}
    }
    Ok(None)
}

/// The texts of a stream.
#[derive(Debug)]
struct StreamTexts {
    texts: Vec<String>,
    numbers: TextNumbers,
    /// The number here of each text of the stream, by its number there less one.
    numbers_here: Vec<TextId>,
    /// Bytes that the texts take, as [`ReadOptions`] count them.
    taken: u64,
    limit: u64,
}

impl StreamTexts {
    fn new(limit: u64) -> Self {
        let (texts, numbers, numbers_here) = (Vec::new(), TextNumbers::default(), Vec::new());
        Self { texts, numbers, numbers_here, taken: 0, limit }
    }

    /// Returns the number here of a text of the stream. Of one that it lacks, none.
    fn number(&self, text: TextId) -> TextId {
        let index = (text.0 as usize).checked_sub(1);
        index.and_then(|index| self.numbers_here.get(index)).copied().unwrap_or(TextId::NONE)
    }

    /// Forgets the numbers of the stream; its texts come again.
    fn forget_numbers(&mut self) {
        self.numbers_here.clear();
    }

    fn read(&mut self, payload: &[u8]) -> Result<(), DamageKind> {
        self.add(Input::new(payload)).map_err(DamageKind::Contents)?;
        if self.taken_in_all() > self.limit {
            return Err(DamageKind::TooMuch { of: "bytes of texts", limit: self.limit });
        }
        Ok(())
    }

    /// A text that is empty takes a number and nothing else.
    fn taken_in_all(&self) -> u64 {
        self.taken + (self.numbers_here.len() * size_of::<TextId>()) as u64
    }

    fn add(&mut self, mut input: Input<'_>) -> Result<(), Wrong> {
        let first = input.number()?.checked_sub(1).and_then(|first| usize::try_from(first).ok());
        let mut index = first.filter(|&first| first <= self.numbers_here.len());
        while let Some(at) = index.filter(|_| !input.is_empty() && self.taken_in_all() <= self.limit) {
            let text = input.text()?;
            let count = self.texts.len();
            let number = self.numbers.number(text, &mut self.texts);
            if self.texts.len() > count {
                self.taken += (text.len() + size_of::<String>()) as u64;
            }
            match self.numbers_here.get_mut(at) {
                Some(replaced) => *replaced = number,
                None => self.numbers_here.push(number),
            }
            index = Some(at + 1);
        }
        index.map(|_| ()).ok_or("texts are missing before these")
    }
}
