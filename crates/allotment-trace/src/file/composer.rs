//! Events become chunks: what the writer of a file, the ring in memory and the server of viewers have in common.

use std::io;

use allotment::events::{Event, StackId, TextId};

use super::chunk::Start;
use super::chunk_kind;
use super::encode::Encoder;
use super::snapshot;
use super::stacks::WrittenStacks;
use super::texts::Texts;
use crate::recording::{StackFrame, State, Step};

/// How long the records of a chunk grow in memory, where no file is cut or damaged.
const CHUNK_BYTES: usize = 128 << 10;

/// How long they grow in a file: what damage of one byte costs, and what a cut takes beside the bytes that it cuts off.
/// Each chunk begins its differences and tables anew, which makes files 1 to 2 % larger than chunks of 128 KiB do.
const FILE_CHUNK_BYTES: usize = 4 << 10;

/// A file of more than 64 MiB has chunks of this part of it, so that a reader need not remember millions of them.
const PART_OF_FILE: u64 = 1 << 14;

/// A whole chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) kind: u8,
    pub(crate) payload: &'a [u8],
    /// Of events and snapshots.
    pub(crate) start: Start,
    /// It is the first part of a snapshot.
    pub(crate) begins_snapshot: bool,
}

/// Where chunks go.
pub(crate) trait ChunkSink {
    fn put(&mut self, chunk: Chunk<'_>) -> io::Result<()>;
}

/// What becomes of the chunks, and so of old texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// All stay, and so does each text.
    All,
    /// What is before a snapshot is forgotten some day. All texts that are still used are written in the end.
    Last,
    /// None stay: they are passed on. Texts that the state does not name are forgotten when the owner says so.
    None,
}

/// Numbers texts, encodes events, and adds snapshots of the state.
#[derive(Debug)]
pub(crate) struct Composer<S> {
    pub(crate) sink: S,
    kept: Kept,
    texts: Texts,
    stacks: WrittenStacks,
    encoder: Encoder,
    snapshots: Encoder,
    payload: Vec<u8>,
    state: State,
    /// Of the chunk that is being written.
    start: Start,
    /// Bytes of events between two snapshots; 0 for none.
    snapshot_every: u64,
    since_snapshot: u64,
    last_snapshot: u64,
    /// Bytes of all events that were passed on.
    written: u64,
}

impl<S: ChunkSink> Composer<S> {
    pub(crate) fn new(sink: S, snapshot_every: u64) -> Self {
        Self {
            sink,
            kept: Kept::All,
            texts: Texts::default(),
            stacks: WrittenStacks::default(),
            encoder: Encoder::new(),
            snapshots: Encoder::new(),
            payload: Vec::new(),
            state: State::default(),
            start: Start::default(),
            snapshot_every,
            since_snapshot: 0,
            last_snapshot: 0,
            written: 0,
        }
    }

    /// A composer for a sink that forgets what is before a snapshot.
    pub(crate) fn forgetful(sink: S, snapshot_every: u64) -> Self {
        Self { kept: Kept::Last, texts: Texts::forgetful(), ..Self::new(sink, snapshot_every) }
    }

    /// A composer for a sink that passes chunks on, to readers that begin with the [whole state](Self::whole_state).
    pub(crate) fn passing(sink: S) -> Self {
        Self { kept: Kept::None, texts: Texts::reusing(), ..Self::new(sink, 0) }
    }

    /// Returns how many events there are.
    pub(crate) const fn events(&self) -> u64 {
        self.state.now.event
    }

    /// Returns how many texts there are.
    pub(crate) fn text_count(&self) -> u64 {
        self.texts.len() as u64
    }

    /// Calls `emit` with payloads of all texts.
    pub(crate) fn all_texts(&self, emit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.texts.write_all(emit)
    }

    /// Calls `emit` with payloads of all stacks.
    pub(crate) fn all_stacks(&self, emit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.stacks.write_all(emit)
    }

    /// Forgets the texts that no segment from `oldest` on names.
    pub(crate) fn forget_texts_before(&mut self, oldest: u64) {
        self.texts.forget_before(oldest);
    }

    /// Forgets the texts that the state does not name. Their numbers are other texts' afterwards.
    pub(crate) fn forget_old_texts(&mut self) -> io::Result<()> {
        // What was composed until now names the old texts.
        self.flush()?;
        let segment = self.texts.begin_segment();
        self.state.for_each_step(|_, step| use_texts_of_step(&mut self.texts, &step));
        self.use_texts_of_stacks();
        self.texts.forget_before(segment);
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) -> TextId {
        self.texts.number(text)
    }

    /// Returns the stack of a call, whose texts are numbers of [`text`](Self::text).
    pub(crate) fn stack(&mut self, frame: StackFrame) -> StackId {
        self.texts.used(frame.function);
        self.texts.used(frame.place);
        self.stacks.number(frame)
    }

    /// Notes that the current segment names the texts of all stacks, which are never forgotten.
    fn use_texts_of_stacks(&mut self) {
        for frame in self.stacks.frames() {
            self.texts.used(frame.function);
            self.texts.used(frame.place);
        }
    }

    /// Takes an event into the state alone, where no reader would get its chunk.
    pub(crate) fn event_for_state(&mut self, event: &Event) {
        // As in `event`.
        let _ = self.state.apply(event);
    }

    /// Writes the whole state to `to`, with the texts that it names: the chunks from here on follow it.
    pub(crate) fn whole_state(&mut self, to: &mut impl ChunkSink) -> io::Result<()> {
        self.flush()?;
        // Events may have gone to the state alone since the last chunk.
        self.begin();
        let start = self.start;
        let (kind, begins_snapshot) = (chunk_kind::TEXTS, false);
        self.texts.write_all(|payload| to.put(Chunk { kind, payload, start, begins_snapshot }))?;
        let kind = chunk_kind::STACKS;
        self.stacks.write_all(|payload| to.put(Chunk { kind, payload, start, begins_snapshot }))?;
        let visit = |_: &Step| {};
        snapshot::write(&self.state, &mut self.snapshots, visit, |payload, begins_snapshot, start| {
            to.put(Chunk { kind: chunk_kind::SNAPSHOT, payload, start, begins_snapshot })
        })
    }

    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if !self.encoder.event(event) {
            // An event of a version of the library that is later than the format.
            return Ok(());
        }
        if self.kept == Kept::Last {
            use_texts(&mut self.texts, event);
        }
        self.start.events += 1;
        if self.snapshot_every != 0 || self.kept == Kept::None {
            // An event that contradicts the others is recorded all the same: the reader shall see it.
            let _ = self.state.apply(event);
        } else {
            self.state.now.event += 1;
        }
        if self.encoder.out.len() >= self.chunk_bytes() { self.flush() } else { Ok(()) }
    }

    /// Returns how long the records of a chunk grow.
    fn chunk_bytes(&self) -> usize {
        match self.kept {
            Kept::All => {
                let part = usize::try_from(self.written / PART_OF_FILE).unwrap_or(CHUNK_BYTES);
                part.clamp(FILE_CHUNK_BYTES, CHUNK_BYTES)
            }
            Kept::Last | Kept::None => CHUNK_BYTES,
        }
    }

    /// Passes on the chunk that has begun, and goes on with it: the next time, it has these events and more.
    pub(crate) fn preview(&mut self) -> io::Result<()> {
        let (kind, start) = (chunk_kind::TEXTS, Start { events: 0, ..self.start });
        let sink = &mut self.sink;
        let put = |payload: &[u8]| sink.put(Chunk { kind, payload, start, begins_snapshot: false });
        self.texts.write_unwritten(put)?;
        let (kind, sink) = (chunk_kind::STACKS, &mut self.sink);
        let put = |payload: &[u8]| sink.put(Chunk { kind, payload, start, begins_snapshot: false });
        self.stacks.write_unwritten(put)?;
        self.put_events()
    }

    fn put_events(&mut self) -> io::Result<()> {
        if self.start.events == 0 {
            return Ok(());
        }
        self.payload.clear();
        self.start.put(&mut self.payload);
        self.payload.extend_from_slice(&self.encoder.out);
        let (kind, payload, start) = (chunk_kind::EVENTS, &*self.payload, self.start);
        self.sink.put(Chunk { kind, payload, start, begins_snapshot: false })
    }

    /// Ends the chunk.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.flush_texts()?;
        if self.start.events == 0 {
            return Ok(());
        }
        self.put_events()?;
        self.since_snapshot += self.payload.len() as u64;
        self.written += self.payload.len() as u64;
        self.begin();
        // As much as twice the last snapshot: of a large state they would be most of the file. Where the past is
        // forgotten, snapshots bound what is kept.
        let least = if self.kept == Kept::Last { 0 } else { self.last_snapshot.saturating_mul(2) };
        let due = self.snapshot_every.max(least);
        if self.snapshot_every != 0 && self.since_snapshot >= due { self.snapshot() } else { Ok(()) }
    }

    fn begin(&mut self) {
        self.encoder.begin();
        self.start = Start { moment: self.state.now, events: 0 };
    }

    fn flush_texts(&mut self) -> io::Result<()> {
        if self.kept == Kept::Last {
            // All that are still used are written at once, when the recording is written.
            return Ok(());
        }
        let (kind, start) = (chunk_kind::TEXTS, Start { events: 0, ..self.start });
        let sink = &mut self.sink;
        self.texts.write_new(|payload| sink.put(Chunk { kind, payload, start, begins_snapshot: false }))?;
        let kind = chunk_kind::STACKS;
        self.stacks.write_new(|payload| sink.put(Chunk { kind, payload, start, begins_snapshot: false }))
    }

    fn snapshot(&mut self) -> io::Result<()> {
        self.texts.begin_segment();
        self.use_texts_of_stacks();
        let (sink, texts) = (&mut self.sink, &mut self.texts);
        let mut bytes = 0;
        let visit = |step: &Step| use_texts_of_step(texts, step);
        snapshot::write(&self.state, &mut self.snapshots, visit, |payload, begins_snapshot, start| {
            bytes += payload.len() as u64;
            sink.put(Chunk { kind: chunk_kind::SNAPSHOT, payload, start, begins_snapshot })
        })?;
        (self.since_snapshot, self.last_snapshot) = (0, bytes);
        Ok(())
    }
}

fn use_texts_of_step(texts: &mut Texts, step: &Step) {
    if let Step::Event(event) = step {
        use_texts(texts, event);
    }
}

fn use_texts(texts: &mut Texts, event: &Event) {
    let _ = event.map_texts(|text| {
        texts.used(text);
        text
    });
}
