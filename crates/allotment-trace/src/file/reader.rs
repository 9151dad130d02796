//! Reads a whole recording into memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use allotment::events::{Event, TextId};

use super::bytes::{Input, Wrong};
use super::chunk::{self, Start};
use super::decode::{Decoder, Record};
use super::error::{Damage, DamageKind, ReadError};
use super::texts::TextLimit;
use super::{MAGIC, VERSION, chunk_kind, header, snapshot, stacks, unread};
use crate::recording::{Header, Recording, State, UnreadKind};

/// The memory that a reader may take, whatever a file says. Its stacks take no more than
/// [`Stacks::MAX_CALLS`](crate::recording::Stacks::MAX_CALLS) allow.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The most events of a recording that is read whole, 72 bytes each; and the most blocks and allocations of a
    /// snapshot, about 300 bytes each.
    pub max_events: usize,
    /// The most bytes of all texts, and of 24 more for each.
    pub max_text_bytes: u64,
}

impl Default for ReadOptions {
    /// 32 Mi events, 2.25 GiB, and 512 MiB of texts.
    fn default() -> Self {
        Self { max_events: 32 << 20, max_text_bytes: 512 << 20 }
    }
}

impl ReadOptions {
    /// Sets the most events.
    #[must_use]
    pub const fn with_max_events(mut self, events: usize) -> Self {
        self.max_events = events;
        self
    }

    /// Sets the most bytes of texts.
    #[must_use]
    pub const fn with_max_text_bytes(mut self, bytes: u64) -> Self {
        self.max_text_bytes = bytes;
        self
    }
}

impl Recording {
    /// Reads a file. Of a damaged one, everything before the [`Damage`], which is in [`unread`](Self::unread) as well.
    ///
    /// # Errors
    ///
    /// [`ReadError`], if the file cannot be opened or read, or not even its header can be understood.
    pub fn open(path: impl AsRef<Path>) -> Result<(Self, Option<Damage>), ReadError> {
        let mut file = File::open(path)?;
        let options = ReadOptions::default();
        let events = expected_events(&mut file)?.min(options.max_events);
        Whole::read(BufReader::new(file), &options, events)
    }

    /// Reads a recording, and to the end of the source. Of a damaged one, everything before the [`Damage`], which is in
    /// [`unread`](Self::unread) as well.
    ///
    /// A recording that a [ring](crate::Recorder::ring) kept begins in the middle. Events that lead to the state there
    /// come first ([`State::to_events`]), and a [`Mark`](Event::Mark) follows them.
    ///
    /// Cost: about 40 ns an event and the host memory of it, 72 bytes; what the system takes to provide new memory comes on
    /// top. [`open`](Self::open) knows how much it needs before it reads.
    ///
    /// # Errors
    ///
    /// [`ReadError`], if the source fails, or not even the header can be understood.
    pub fn read(from: impl Read) -> Result<(Self, Option<Damage>), ReadError> {
        Self::read_with(from, &ReadOptions::default())
    }

    /// Reads a recording, with other limits than the default ones.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn read_with(from: impl Read, options: &ReadOptions) -> Result<(Self, Option<Damage>), ReadError> {
        Whole::read(from, options, 0)
    }
}

/// Returns how many events a file says that it has, and goes to its beginning: 0 where it does not say. No more than its
/// bytes allow, at two an event.
fn expected_events(file: &mut File) -> io::Result<usize> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut events = 0;
    if let Some(end) = length.checked_sub(chunk::END_BYTES) {
        file.seek(SeekFrom::Start(end))?;
        let mut payload = Vec::new();
        if chunk::read(file, &mut payload)? == Ok(chunk_kind::END) {
            events = payload.last_chunk().map_or(0, |&events| u64::from_le_bytes(events));
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(usize::try_from(events.min(length / 2)).unwrap_or(0))
}

/// Reads what stands before the chunks, and the header. Returns the offset of the next chunk.
pub(super) fn read_header(from: &mut impl Read, payload: &mut Vec<u8>) -> Result<(Header, u64), ReadError> {
    let mut start = Vec::new();
    from.by_ref().take(12).read_to_end(&mut start)?;
    let Some((_, version)) = start.split_at_checked(MAGIC.len()).filter(|(magic, _)| *magic == MAGIC) else {
        return Err(ReadError::NotARecording);
    };
    let offset = start.len() as u64;
    let damaged = |what| ReadError::Header(Damage { offset, what });
    let version: [u8; 4] = version.try_into().map_err(|_| damaged(DamageKind::Truncated))?;
    let found = u32::from_le_bytes(version);
    if found != VERSION {
        return Err(ReadError::Version { found });
    }
    let kind = chunk::read(from, payload)?.map_err(damaged)?;
    if kind != chunk_kind::HEADER {
        return Err(damaged(DamageKind::Contents("the first chunk is not a header")));
    }
    let header = header::read(Input::new(payload)).map_err(|what| damaged(DamageKind::Contents(what)))?;
    Ok((header, offset + (chunk::HEAD_BYTES + payload.len()) as u64))
}

/// Adds the events of a chunk to `events`, of which there may be `max`. Returns which events of the whole recording they
/// are, and how many of them are of kinds that are not known, and so were skipped.
pub(super) fn read_events(
    payload: &[u8],
    events: &mut Vec<Event>,
    max: usize,
) -> Result<(Start, u64), DamageKind> {
    let mut input = Input::new(payload);
    let start = Start::read(&mut input).map_err(DamageKind::Contents)?;
    // As many as there can be: most events have more than two bytes. More come one by one.
    let expected = usize::try_from(start.events).unwrap_or(usize::MAX).min(payload.len() / 2);
    events.reserve(expected.min(max.saturating_sub(events.len())));
    let mut decoder = Decoder::new(input);
    let mut skipped = 0;
    let mut read = || -> Result<bool, Wrong> {
        while let Some(record) = decoder.next()? {
            match record {
                Record::Event(_) if events.len() >= max => return Ok(false),
                Record::Event(event) => events.push(event),
                Record::Other { .. } => skipped += 1,
            }
        }
        Ok(true)
    };
    match read() {
        Ok(true) => Ok((start, skipped)),
        Ok(false) => Err(DamageKind::TooMuch { of: "events", limit: max as u64 }),
        Err(wrong) => Err(DamageKind::Contents(wrong)),
    }
}

/// Something that was skipped: how often, and in which chunk first.
#[derive(Clone, Copy, Debug, Default)]
struct Skipped {
    count: u64,
    first: u64,
}

impl Skipped {
    fn note(&mut self, count: u64, offset: u64) {
        if self.count == 0 {
            self.first = offset;
        }
        self.count += count;
    }
}

/// A recording that is being read.
struct Whole {
    recording: Recording,
    texts: TextLimit,
    snapshot: snapshot::Reading,
    /// Which event marks the end of the state at the beginning.
    mark: Option<usize>,
    events_began: bool,
    /// How many events came before the next chunk of them.
    next_event: u64,
    max_events: usize,
    skipped_chunks: Skipped,
    skipped_events: Skipped,
}

impl Whole {
    /// Reads a recording, with room for `events` from the beginning.
    fn read(
        mut from: impl Read,
        options: &ReadOptions,
        events: usize,
    ) -> Result<(Recording, Option<Damage>), ReadError> {
        let mut payload = Vec::new();
        let (header, mut offset) = read_header(&mut from, &mut payload)?;
        let mut whole = Self {
            recording: Recording { header, events: Vec::with_capacity(events), ..Recording::default() },
            texts: TextLimit::new(options.max_text_bytes),
            snapshot: snapshot::Reading::default(),
            mark: None,
            events_began: false,
            next_event: 0,
            max_events: options.max_events,
            skipped_chunks: Skipped::default(),
            skipped_events: Skipped::default(),
        };
        let what = loop {
            match chunk::read(&mut from, &mut payload)? {
                Ok(chunk_kind::END) => break whole.end(&payload).err(),
                Ok(kind) => {
                    if let Err(what) = whole.chunk(kind, &payload, offset) {
                        break Some(what);
                    }
                }
                Err(what) => break Some(what),
            }
            offset += (chunk::HEAD_BYTES + payload.len()) as u64;
        };
        let damage = what.map(|what| Damage { offset, what });
        if damage.is_none() && from.read(&mut [0])? > 0 {
            let text =
                "bytes follow the end of the recording: another file was written behind it, and is not read";
            whole.recording.note_unread(UnreadKind::NotUnderstood, 1, text);
        }
        Ok((whole.finish(damage), damage))
    }

    fn chunk(&mut self, kind: u8, payload: &[u8], offset: u64) -> Result<(), DamageKind> {
        match kind {
            chunk_kind::TEXTS => self.texts.read(payload, &mut self.recording.texts),
            chunk_kind::STACKS => {
                let known = &mut self.recording.stacks;
                stacks::read(payload, known.len(), |frame| known.push(frame).is_some())
            }
            chunk_kind::EVENTS => {
                self.events_began = true;
                let before = self.recording.events.len();
                let (start, skipped) = read_events(payload, &mut self.recording.events, self.max_events)?;
                let count = (self.recording.events.len() - before) as u64 + skipped;
                if (start.first_event(), start.events) != (self.next_event, count) {
                    // Of those after a gap nothing is sure.
                    self.recording.events.truncate(before);
                    return Err(DamageKind::Contents("events are missing before it, or in it"));
                }
                self.next_event = start.end();
                self.skipped_events.note(skipped, offset);
                Ok(())
            }
            // A later snapshot says what the events have said.
            chunk_kind::SNAPSHOT if !self.events_began => {
                let state = self.snapshot.part(payload, self.max_events).map_err(DamageKind::Contents)?;
                state.map_or(Ok(()), |state| self.begin_with(&state))
            }
            chunk_kind::UNREAD => {
                unread::read(payload, &mut self.recording.unread).map_err(DamageKind::Contents)
            }
            chunk_kind::SNAPSHOT | chunk_kind::INDEX => Ok(()),
            _ => {
                self.skipped_chunks.note(1, offset);
                Ok(())
            }
        }
    }

    fn begin_with(&mut self, state: &State) -> Result<(), DamageKind> {
        self.recording.events = state.to_events();
        self.next_event = state.now.event;
        if self.recording.events.len() >= self.max_events {
            self.recording.events.truncate(self.max_events);
            return Err(DamageKind::TooMuch { of: "events", limit: self.max_events as u64 });
        }
        self.mark = Some(self.recording.events.len());
        self.recording.events.push(Event::Mark { text: TextId::NONE });
        Ok(())
    }

    /// Compares what the end says with what was read.
    fn end(&self, payload: &[u8]) -> Result<(), DamageKind> {
        let events = payload.last_chunk().map(|&events| u64::from_le_bytes(events));
        if events.is_some_and(|events| events == self.next_event) {
            Ok(())
        } else {
            Err(DamageKind::Contents("events are missing before the end"))
        }
    }

    fn finish(mut self, damage: Option<Damage>) -> Recording {
        if let Some(event) = self.mark.and_then(|mark| self.recording.events.get_mut(mark)) {
            // After all others: their numbers are the file's.
            self.recording.texts.push("here the recording begins: before, what still existed".to_owned());
            *event = Event::Mark { text: TextId(u32::try_from(self.recording.texts.len()).unwrap_or(0)) };
        }
        for (Skipped { count, first }, what) in
            [(self.skipped_chunks, "chunks"), (self.skipped_events, "records")]
        {
            if count > 0 {
                let text = format!(
                    "{what} of kinds that this version does not know, the first in the chunk at byte {first}; a later version \
                     of this program reads them"
                );
                self.recording.note_unread(UnreadKind::NotUnderstood, count, &text);
            }
        }
        if let Some(damage) = damage {
            let events = self.recording.events.len();
            let text =
                format!("{damage}; the {events} events before are used, record or copy the file again");
            self.recording.note_unread(UnreadKind::Damaged, 1, &text);
        }
        self.recording
    }
}
