//! Writes a recording.

use std::io::{self, Seek, SeekFrom, Write};

use allotment::events::{Event, StackId, TextId};

use super::bytes::{put_difference, put_number};
use super::chunk::{self, MAX_CHUNK_BYTES, Start};
use super::composer::{Chunk, ChunkSink, Composer};
use super::{MAGIC, VERSION, chunk_kind, header, unread};
use crate::recording::{Header, Recording, StackFrame};

/// Options of a [`RecordingWriter`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriterDesc {
    /// Bytes of events between two snapshots of the state, from which a reader can begin; 0 for no snapshots. A
    /// snapshot of a large state comes later: after events that have twice its bytes.
    pub snapshot_every: u64,
}

impl Default for WriterDesc {
    /// A snapshot every 2 MiB, about half a million events, so that any moment is reached in about 50 ms.
    fn default() -> Self {
        Self { snapshot_every: 2 << 20 }
    }
}

impl WriterDesc {
    /// Sets the bytes of events between two snapshots.
    #[must_use]
    pub const fn with_snapshot_every(mut self, bytes: u64) -> Self {
        self.snapshot_every = bytes;
        self
    }
}

/// Counts of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Distinct texts.
    pub texts: u64,
    /// Snapshots of the state.
    pub snapshots: u64,
    /// Bytes of the whole file.
    pub bytes: u64,
}

/// Writes a recording, event by event.
///
/// The file can be read up to the last [`flush`](Self::flush) if the program ends before
/// [`finish`](Self::finish). Wrap files in a [`BufWriter`](io::BufWriter) only if it is flushed: chunks have 4 to 128 KiB
/// and are written whole.
///
/// ```
/// use allotment_trace::recording::{AllocationKey, Event, Header, Recording, RecordingWriter, WriterDesc};
///
/// let mut writer = RecordingWriter::new(Vec::new(), &Header::default(), &WriterDesc::default())?;
/// let text = writer.text("the level is loaded");
/// writer.event(&Event::Mark { text })?;
/// writer.event(&Event::FrameEnd { number: 0 })?;
/// let (file, summary) = writer.finish()?;
/// assert_eq!(summary.events, 2);
///
/// let (recording, damage) = Recording::read(&*file)?;
/// assert_eq!(recording.text(text), Some("the level is loaded"));
/// assert_eq!((recording.events.len(), damage), (2, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RecordingWriter<W: Write> {
    composer: Composer<FileSink<W>>,
}

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording. Of a header, at most 256 heaps and memory types and 64 settings are written.
    ///
    /// # Errors
    ///
    /// If the header cannot be written.
    pub fn new(to: W, header: &Header, desc: &WriterDesc) -> io::Result<Self> {
        let sink = FileSink::new(to, header)?;
        Ok(Self { composer: Composer::new(sink, desc.snapshot_every) })
    }

    /// Returns the number of a text, which events name. Equal texts have equal numbers; an empty one has none. A text
    /// is cut after [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES).
    pub fn text(&mut self, text: &str) -> TextId {
        self.composer.text(text)
    }

    /// Returns the stack of a call, which events name: its texts are numbers of [`text`](Self::text), and its parent is
    /// a stack that was returned before. Equal calls are one. Where there is [no room](crate::recording::Stacks::push) for
    /// it, that of its parent.
    pub fn stack(&mut self, frame: StackFrame) -> StackId {
        self.composer.stack(frame)
    }

    /// Adds an event, whose texts are numbers of [`text`](Self::text). One that contradicts the events before it is
    /// written as well.
    ///
    /// # Errors
    ///
    /// If a chunk cannot be written. What comes after an error may be unreadable.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.composer.event(event)
    }

    /// Writes the events that have not been written, so that they survive the end of the program.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.composer.flush()?;
        self.composer.sink.to.flush()
    }

    /// Ends the recording: writes what is left, and the index. Returns where it was written to.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Summary)> {
        self.composer.flush()?;
        let (events, texts) = (self.composer.events(), self.composer.text_count());
        let (to, summary) = self.composer.sink.finish(events)?;
        Ok((to, Summary { texts, ..summary }))
    }
}

impl<W: Write + Seek> RecordingWriter<W> {
    /// Writes the events that have not been written, so that they survive the end of the program, as
    /// [`flush`](Self::flush) does. What is written later takes their place, so that the file does not become larger
    /// however often that is.
    ///
    /// # Errors
    ///
    /// If they cannot be written, or `W` cannot go back, as a pipe.
    pub fn flush_in_place(&mut self) -> io::Result<()> {
        let before = self.composer.sink.place();
        self.composer.sink.composed = Some(Vec::new());
        let made = self.composer.preview();
        let sink = &mut self.composer.sink;
        let bytes = sink.composed.take().unwrap_or_default();
        sink.return_to(before);
        made?;
        sink.write_ahead(bytes)
    }
}

impl Recording {
    /// Writes the recording. Texts keep their numbers only if they are distinct and not empty; reading gives events
    /// that name the same texts.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, to: impl Write) -> io::Result<Summary> {
        let mut writer = RecordingWriter::new(to, &self.header, &WriterDesc::default())?;
        if !self.unread.is_empty() {
            writer.composer.sink.put_beside(chunk_kind::UNREAD, &unread::payload(&self.unread))?;
        }
        let numbers: Vec<_> = self.texts.iter().map(|text| writer.text(text)).collect();
        let number = |text: TextId| {
            let index = (text.0 as usize).checked_sub(1);
            index.and_then(|index| numbers.get(index)).copied().unwrap_or_default()
        };
        let mut stacks = Vec::with_capacity(self.stacks.len());
        let stack = |stacks: &[StackId], stack: StackId| {
            let index = (stack.0 as usize).checked_sub(1);
            index.and_then(|index| stacks.get(index)).copied().unwrap_or_default()
        };
        for frame in self.stacks.frames() {
            let (parent, function) = (stack(&stacks, frame.parent), number(frame.function));
            stacks.push(writer.stack(StackFrame { parent, function, place: number(frame.place) }));
        }
        for event in &self.events {
            writer.event(&event.map_texts(number).map_stack(|of| stack(&stacks, of)))?;
        }
        writer.finish().map(|(_, summary)| summary)
    }
}

/// Writes what stands before the chunks, and the header. Returns its bytes.
pub(super) fn write_beginning(to: &mut impl Write, header: &Header) -> io::Result<u64> {
    to.write_all(&MAGIC)?;
    to.write_all(&VERSION.to_le_bytes())?;
    let mut payload = Vec::new();
    header::put(&mut payload, header);
    let bytes = chunk::write(to, chunk_kind::HEADER, &payload)?;
    Ok((MAGIC.len() + size_of::<u32>()) as u64 + bytes)
}

/// Writes chunks to a file, and remembers where they are.
#[derive(Debug)]
pub(crate) struct FileSink<W> {
    to: W,
    offset: u64,
    index: Vec<Entry>,
    summary: Summary,
    /// Where chunks go that are to be written in place, instead of to the file.
    composed: Option<Vec<u8>>,
    /// What stands behind the offset: chunks that were written in place, and will be written again with more events.
    ahead: Vec<u8>,
}

impl<W: Write + Seek> FileSink<W> {
    /// Writes chunks behind the offset, over those that were written there before.
    fn write_ahead(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let kept = self.ahead.len();
        if bytes == self.ahead {
            return Ok(());
        }
        let seek = |to: &mut W, by: usize, sign: i64| {
            let by = i64::try_from(by).map_err(io::Error::other)?;
            to.seek(SeekFrom::Current(sign * by)).map(drop)
        };
        // What is longer now first: where the disk is full, the chunks before are left whole.
        if let Some(rest) = bytes.get(kept..) {
            seek(&mut self.to, kept, 1)?;
            self.to.write_all(rest)?;
            seek(&mut self.to, bytes.len(), -1)?;
        }
        let front = &bytes[..kept.min(bytes.len())];
        self.to.write_all(front)?;
        seek(&mut self.to, front.len(), -1)?;
        self.to.flush()?;
        self.ahead = bytes;
        Ok(())
    }
}

/// Where a sink was.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    entries: usize,
    summary: Summary,
}

/// A chunk in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: u8,
    /// Where the chunk begins.
    pub(super) offset: u64,
    pub(super) start: Start,
}

impl<W: Write> FileSink<W> {
    pub(crate) fn new(mut to: W, header: &Header) -> io::Result<Self> {
        let offset = write_beginning(&mut to, header)?;
        Ok(Self {
            to,
            offset,
            index: Vec::new(),
            summary: Summary::default(),
            composed: None,
            ahead: Vec::new(),
        })
    }

    /// Forgets the chunks since a place.
    fn return_to(&mut self, Place { offset, entries, summary }: Place) {
        self.index.truncate(entries);
        (self.offset, self.summary) = (offset, summary);
    }

    fn place(&self) -> Place {
        Place { offset: self.offset, entries: self.index.len(), summary: self.summary }
    }

    /// Writes a chunk that is not in the index.
    fn put_beside(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        self.offset += chunk::write(&mut self.to, kind, payload)?;
        Ok(())
    }

    /// Writes the index and the end.
    pub(crate) fn finish(mut self, events: u64) -> io::Result<(W, Summary)> {
        let mut payload = Vec::new();
        let mut last = Entry { kind: 0, offset: 0, start: Start::default() };
        for entry in &self.index {
            payload.push(entry.kind);
            put_difference(&mut payload, last.offset, entry.offset);
            let (from, to) = (last.start.moment, entry.start.moment);
            put_difference(&mut payload, from.event, to.event);
            put_difference(&mut payload, from.frame, to.frame);
            put_difference(&mut payload, from.nanoseconds, to.nanoseconds);
            put_number(&mut payload, entry.start.events);
            last = *entry;
        }
        let mut end = Vec::with_capacity(16);
        // The index of a file of many hundreds of GiB is above the limit. Its reader looks at each chunk.
        if payload.len() <= MAX_CHUNK_BYTES as usize {
            end.extend(self.offset.to_le_bytes());
            self.offset += chunk::write(&mut self.to, chunk_kind::INDEX, &payload)?;
        } else {
            end.extend(0_u64.to_le_bytes());
        }
        end.extend(events.to_le_bytes());
        self.offset += chunk::write(&mut self.to, chunk_kind::END, &end)?;
        self.to.flush()?;
        Ok((self.to, Summary { events, bytes: self.offset, ..self.summary }))
    }
}

impl<W: Write> ChunkSink for FileSink<W> {
    fn put(&mut self, chunk: Chunk<'_>) -> io::Result<()> {
        let Chunk { kind, payload, start, begins_snapshot } = chunk;
        if kind != chunk_kind::SNAPSHOT || begins_snapshot {
            self.index.push(Entry { kind, offset: self.offset, start });
        }
        self.summary.snapshots += u64::from(begins_snapshot);
        self.offset += match &mut self.composed {
            Some(bytes) => chunk::write(bytes, kind, payload)?,
            None => {
                // It is written over what was ahead.
                self.ahead.clear();
                chunk::write(&mut self.to, kind, payload)?
            }
        };
        Ok(())
    }
}
