//! Reads parts of a recording: from any snapshot on.

use std::io::{Read, Seek, SeekFrom};

use allotment::events::{Event, TextId};

use super::bytes::{Input, Wrong};
use super::chunk::{self, END_BYTES, HEAD_BYTES, Head, MAX_CHUNK_BYTES, Start};
use super::error::{Damage, DamageKind, ReadError};
use super::reader::{ReadOptions, read_events, read_header};
use super::texts::TextLimit;
use super::writer::Entry;
use super::{chunk_kind, snapshot, stacks};
use crate::recording::{Header, Moment, Stacks, State};

/// The most chunks of a file, about 64 GiB of events: a reader remembers up to 136 bytes of each, 68 MiB in all.
const MAX_CHUNKS: usize = 1 << 19;

/// A snapshot of the state in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// When it was taken: its count of events is that of the whole recording, whatever a ring forgot.
    pub moment: Moment,
    /// How many allocations it has.
    pub allocations: u64,
}

/// Reads a recording from any of its snapshots on, without reading what is before.
///
/// Only the header, the texts and the index are in memory, besides the chunk that is being read. A file without an
/// index, because the program that recorded it ended suddenly, is looked through once.
///
/// ```
/// # use allotment_trace::recording::{Event, Header, RecordingWriter, WriterDesc};
/// # let mut writer = RecordingWriter::new(Vec::new(), &Header::default(), &WriterDesc::default().with_snapshot_every(1))?;
/// # for number in 0..1000 {
/// #     writer.event(&Event::FrameEnd { number })?;
/// #     if number % 100 == 99 { writer.flush()?; }
/// # }
/// # let (file, _) = writer.finish()?;
/// use allotment_trace::recording::RecordingReader;
///
/// let mut reader = RecordingReader::new(std::io::Cursor::new(file))?;
/// let last = reader.snapshots().len() - 1;
/// let mut state = reader.begin_at(last)?;
/// let mut events = Vec::new();
/// while reader.read_events(&mut events)? {
///     for event in events.drain(..) {
///         state.apply(&event)?;
///     }
/// }
/// assert_eq!(state.now.frame, 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RecordingReader<R> {
    from: R,
    header: Header,
    texts: Vec<String>,
    stacks: Stacks,
    /// The chunks of events and the first parts of snapshots, in their order.
    chunks: Vec<Entry>,
    /// The snapshots, and where in `chunks` they are.
    snapshots: Vec<SnapshotInfo>,
    snapshot_chunks: Vec<usize>,
    damage: Option<Damage>,
    /// The next chunk that is read.
    next: usize,
    max_events: usize,
    payload: Vec<u8>,
}

impl<R: Read + Seek> RecordingReader<R> {
    /// Reads the header, the index and the texts. A [`BufReader`](std::io::BufReader) gains nothing.
    ///
    /// # Errors
    ///
    /// [`ReadError`], if the source fails, or not even the header can be understood.
    pub fn new(from: R) -> Result<Self, ReadError> {
        Self::with_options(from, &ReadOptions::default())
    }

    /// Reads the header, the index and the texts, with other limits than the default ones.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn with_options(mut from: R, options: &ReadOptions) -> Result<Self, ReadError> {
        let mut payload = Vec::new();
        from.seek(SeekFrom::Start(0))?;
        let (header, first) = read_header(&mut from, &mut payload)?;
        let (entries, damage) = match read_index(&mut from, &mut payload)? {
            Some(entries) => (entries, None),
            None => scan(&mut from, first)?,
        };
        let mut reader = Self {
            from,
            header,
            texts: Vec::new(),
            stacks: Stacks::default(),
            chunks: Vec::new(),
            snapshots: Vec::new(),
            snapshot_chunks: Vec::new(),
            damage,
            next: 0,
            max_events: options.max_events,
            payload,
        };
        let mut texts = TextLimit::new(options.max_text_bytes);
        for entry in entries {
            match entry.kind {
                chunk_kind::TEXTS => {
                    let read = reader.chunk(entry.offset, entry.kind)?;
                    let read = read.and_then(|()| texts.read(&reader.payload, &mut reader.texts));
                    if let Err(what) = read {
                        // What follows may name texts that are missing.
                        reader.note(entry.offset, what);
                        break;
                    }
                }
                chunk_kind::STACKS => {
                    let read = reader.chunk(entry.offset, entry.kind)?;
                    let (payload, known) = (&reader.payload, &mut reader.stacks);
                    let read = read.and_then(|()| {
                        stacks::read(payload, known.len(), |frame| known.push(frame).is_some())
                    });
                    if let Err(what) = read {
                        reader.note(entry.offset, what);
                        break;
                    }
                }
                chunk_kind::SNAPSHOT => {
                    let Start { moment, events: allocations } = entry.start;
                    reader.snapshots.push(SnapshotInfo { moment, allocations });
                    reader.snapshot_chunks.push(reader.chunks.len());
                    reader.chunks.push(entry);
                }
                chunk_kind::EVENTS => reader.chunks.push(entry),
                _ => {}
            }
        }
        Ok(reader)
    }

    /// Returns where the recording was made.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the texts: [`TextId`] `n` is `texts[n - 1]`.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns a text. `None` for [`TextId::NONE`], and for a text that the recording lacks.
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<&str> {
        self.texts.get((text.0 as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Returns the call stacks.
    #[must_use]
    pub const fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Returns the first damage that was found. Chunks are checked as they are read.
    #[must_use]
    pub const fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Returns the snapshots, in their order.
    #[must_use]
    pub fn snapshots(&self) -> &[SnapshotInfo] {
        &self.snapshots
    }

    /// Returns how many events were recorded, those before the beginning of a ring's recording too.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.chunks.last().map_or(0, |last| match last.kind {
            chunk_kind::EVENTS => last.start.end(),
            _ => last.start.moment.event,
        })
    }

    /// Goes to the beginning. Returns the state there: an empty one, or that of a ring's first snapshot.
    ///
    /// # Errors
    ///
    /// [`ReadError`], if the source fails.
    pub fn begin(&mut self) -> Result<State, ReadError> {
        if self.snapshot_chunks.first() == Some(&0) {
            return self.begin_at(0);
        }
        self.next = 0;
        Ok(State::default())
    }

    /// Goes to a snapshot, an index of [`snapshots`](Self::snapshots). Returns its state, an empty one if it is damaged:
    /// then no events follow either.
    ///
    /// # Errors
    ///
    /// [`ReadError::NoSnapshot`], or if the source fails.
    pub fn begin_at(&mut self, snapshot: usize) -> Result<State, ReadError> {
        let none = ReadError::NoSnapshot { snapshots: self.snapshots.len() };
        let chunk = *self.snapshot_chunks.get(snapshot).ok_or(none)?;
        let mut offset = self.chunks[chunk].offset;
        let mut reading = snapshot::Reading::default();
        loop {
            let part = match self.chunk(offset, chunk_kind::SNAPSHOT)? {
                Ok(()) => reading.part(&self.payload, self.max_events).map_err(DamageKind::Contents),
                Err(what) => Err(what),
            };
            match part {
                Ok(Some(state)) => {
                    self.next = chunk + 1;
                    return Ok(state);
                }
                Ok(None) => offset += (HEAD_BYTES + self.payload.len()) as u64,
                Err(what) => {
                    self.note(offset, what);
                    self.next = self.chunks.len();
                    return Ok(State::default());
                }
            }
        }
    }

    /// Returns the state after the first `event` events of the recording: from the last snapshot before, and the events
    /// since. For a moment before the beginning of a ring's recording, the state at its beginning; for one after the end,
    /// or after [damage](Self::damage), the last state there is. Afterwards the reader is at the end:
    /// [`begin`](Self::begin) again to read events.
    ///
    /// Cost: some 70 ns an event since the snapshot, about 50 ms in all with the default distance of snapshots.
    ///
    /// # Errors
    ///
    /// [`ReadError`], if the source fails.
    pub fn state_at(&mut self, event: u64) -> Result<State, ReadError> {
        let before = self.snapshots.partition_point(|snapshot| snapshot.moment.event <= event);
        let mut state = match before.checked_sub(1) {
            Some(last) => self.begin_at(last)?,
            None => self.begin()?,
        };
        let mut events = Vec::new();
        while state.now.event < event && self.read_events(&mut events)? {
            let missing = usize::try_from(event - state.now.event).unwrap_or(usize::MAX);
            for event in events.drain(..).take(missing) {
                // What contradicts the events before changes nothing, as when it was recorded.
                let _ = state.apply(&event);
            }
        }
        self.next = self.chunks.len();
        Ok(state)
    }

    /// Appends the events of the next chunk, some ten thousand. Returns false at the end, and where the recording is
    /// [damaged](Self::damage).
    ///
    /// # Errors
    ///
    /// [`ReadError`], if the source fails.
    pub fn read_events(&mut self, events: &mut Vec<Event>) -> Result<bool, ReadError> {
        loop {
            let Some(&Entry { kind, offset, .. }) = self.chunks.get(self.next) else { return Ok(false) };
            self.next += 1;
            if kind != chunk_kind::EVENTS {
                continue;
            }
            let read = match self.chunk(offset, kind)? {
                Ok(()) => read_events(&self.payload, events, events.len().saturating_add(self.max_events)),
                Err(what) => Err(what),
            };
            return Ok(match read {
                Ok(_) => true,
                Err(what) => {
                    self.note(offset, what);
                    self.next = self.chunks.len();
                    false
                }
            });
        }
    }

    /// Reads a chunk, which is of a kind.
    fn chunk(&mut self, offset: u64, kind: u8) -> Result<Result<(), DamageKind>, ReadError> {
        self.from.seek(SeekFrom::Start(offset))?;
        Ok(match chunk::read(&mut self.from, &mut self.payload)? {
            Ok(found) if found == kind => Ok(()),
            Ok(_) => Err(DamageKind::Contents("the chunk is of another kind than the index says")),
            Err(what) => Err(what),
        })
    }

    fn note(&mut self, offset: u64, what: DamageKind) {
        if self.damage.is_none_or(|known| offset < known.offset) {
            self.damage = Some(Damage { offset, what });
        }
    }
}

/// Reads the index. `None` where there is none, or it is damaged.
fn read_index(from: &mut (impl Read + Seek), payload: &mut Vec<u8>) -> Result<Option<Vec<Entry>>, ReadError> {
    let length = from.seek(SeekFrom::End(0))?;
    let Some(end) = length.checked_sub(END_BYTES) else { return Ok(None) };
    from.seek(SeekFrom::Start(end))?;
    if chunk::read(from, payload)? != Ok(chunk_kind::END) {
        return Ok(None);
    }
    let Some(&offset) = payload.first_chunk::<8>() else { return Ok(None) };
    let offset = u64::from_le_bytes(offset);
    if offset == 0 || offset >= end {
        return Ok(None);
    }
    from.seek(SeekFrom::Start(offset))?;
    if chunk::read(from, payload)? != Ok(chunk_kind::INDEX) {
        return Ok(None);
    }
    Ok(entries(payload).ok())
}

fn entries(payload: &[u8]) -> Result<Vec<Entry>, Wrong> {
    let mut input = Input::new(payload);
    let mut entries = Vec::new();
    let mut offset = 0;
    let mut moment = Moment::default();
    while !input.is_empty() {
        let kind = input.byte()?;
        offset = input.difference(offset)?;
        moment = Moment {
            event: input.difference(moment.event)?,
            frame: input.difference(moment.frame)?,
            nanoseconds: input.difference(moment.nanoseconds)?,
        };
        let start = Start { moment, events: input.number()? };
        if entries.len() == MAX_CHUNKS {
            return Err("the index has too many entries");
        }
        entries.push(Entry { kind, offset, start });
    }
    Ok(entries)
}

/// Looks through all chunks of a file without an index. The payloads of most are skipped, so their checksums are not
/// compared yet.
fn scan(from: &mut (impl Read + Seek), first: u64) -> Result<(Vec<Entry>, Option<Damage>), ReadError> {
    let length = from.seek(SeekFrom::End(0))?;
    let mut entries = Vec::new();
    let mut offset = first;
    let what = loop {
        // The head, and what a payload of events or of a snapshot begins with.
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 1 + Start::MAX_BYTES);
        from.seek(SeekFrom::Start(offset))?;
        from.by_ref().take((HEAD_BYTES + 1 + Start::MAX_BYTES) as u64).read_to_end(&mut bytes)?;
        let Some((&head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            break Some(DamageKind::Truncated);
        };
        let head = Head::new(head);
        if head.length > MAX_CHUNK_BYTES {
            break Some(DamageKind::TooLong);
        }
        let end = offset + HEAD_BYTES as u64 + u64::from(head.length);
        if end > length {
            break Some(DamageKind::Truncated);
        }
        if entries.len() == MAX_CHUNKS {
            break Some(DamageKind::TooMuch { of: "chunks", limit: MAX_CHUNKS as u64 });
        }
        let mut input = Input::new(&rest[..rest.len().min(head.length as usize)]);
        let start = match head.kind {
            chunk_kind::END => break None,
            chunk_kind::EVENTS => Start::read(&mut input),
            chunk_kind::SNAPSHOT => match input.byte() {
                Ok(flags) if flags & snapshot::FIRST == 0 => {
                    offset = end;
                    continue;
                }
                Ok(_) => Start::read(&mut input),
                Err(wrong) => Err(wrong),
            },
            _ => Ok(Start::default()),
        };
        match start {
            Ok(start)
                if matches!(
                    head.kind,
                    chunk_kind::EVENTS | chunk_kind::SNAPSHOT | chunk_kind::TEXTS | chunk_kind::STACKS
                ) =>
            {
                entries.push(Entry { kind: head.kind, offset, start });
            }
            Ok(_) => {}
            Err(wrong) => break Some(DamageKind::Contents(wrong)),
        }
        offset = end;
    };
    Ok((entries, what.map(|what| Damage { offset, what })))
}
