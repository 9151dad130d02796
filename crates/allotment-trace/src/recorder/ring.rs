//! The last events in memory: segments, each of which begins with a snapshot of the state.

use std::collections::VecDeque;
use std::io::{self, Write};

use crate::file::{Chunk, ChunkSink, Composer, FileSink, Start, chunk_kind};
use crate::recording::{Header, Summary};

/// Into how many segments the bytes of a ring are divided: what is forgotten at once.
const SEGMENTS: u64 = 8;

/// Events from a snapshot on.
#[derive(Debug)]
struct Segment {
    number: u64,
    chunks: Vec<Kept>,
    bytes: u64,
}

/// A chunk in memory.
#[derive(Debug)]
struct Kept {
    kind: u8,
    payload: Vec<u8>,
    start: Start,
    begins_snapshot: bool,
}

impl Kept {
    fn chunk(&self) -> Chunk<'_> {
        let Self { kind, ref payload, start, begins_snapshot } = *self;
        Chunk { kind, payload, start, begins_snapshot }
    }
}

/// Keeps chunks until there are too many bytes of them.
#[derive(Debug)]
pub(super) struct Segments {
    /// Never empty.
    kept: VecDeque<Segment>,
    bytes: u64,
    limit: u64,
}

impl Segments {
    fn oldest(&self) -> u64 {
        self.kept.front().map_or(0, |segment| segment.number)
    }
}

impl ChunkSink for Segments {
    fn put(&mut self, chunk: Chunk<'_>) -> io::Result<()> {
        let Chunk { kind, payload, start, begins_snapshot } = chunk;
        if begins_snapshot {
            let number = self.kept.back().map_or(0, |last| last.number + 1);
            self.kept.push_back(Segment { number, chunks: Vec::new(), bytes: 0 });
        }
        let payload = payload.to_vec();
        let bytes = payload.len() as u64;
        if let Some(last) = self.kept.back_mut() {
            last.chunks.push(Kept { kind, payload, start, begins_snapshot });
            last.bytes += bytes;
            self.bytes += bytes;
        }
        // The last one stays, or nothing would be known: a large state alone may have more bytes.
        while self.bytes > self.limit && self.kept.len() > 1 {
            self.bytes -= self.kept.pop_front().map_or(0, |oldest| oldest.bytes);
        }
        Ok(())
    }
}

/// A recording in memory that forgets its beginning.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) composer: Composer<Segments>,
    header: Header,
    /// The segment before which texts were forgotten.
    oldest: u64,
}

impl Ring {
    pub(super) fn new(header: Header, bytes: u64) -> Self {
        let first = Segment { number: 0, chunks: Vec::new(), bytes: 0 };
        let segments = Segments { kept: VecDeque::from([first]), bytes: 0, limit: bytes };
        // At least a byte: 0 would be no snapshots.
        let composer = Composer::forgetful(segments, (bytes / SEGMENTS).max(1));
        Self { composer, header, oldest: 0 }
    }

    /// Forgets texts that no event names any more. Returns true if there may be some.
    pub(super) fn forget(&mut self) -> bool {
        let oldest = self.composer.sink.oldest();
        let forgets = oldest != self.oldest;
        if forgets {
            self.oldest = oldest;
            self.composer.forget_texts_before(oldest);
        }
        forgets
    }

    /// Writes what is kept. The ring goes on as if nothing had been written.
    pub(super) fn write(&mut self, to: impl Write) -> io::Result<Summary> {
        self.composer.flush()?;
        self.forget();
        let mut sink = FileSink::new(to, &self.header)?;
        self.composer.all_texts(|payload| {
            sink.put(Chunk {
                kind: chunk_kind::TEXTS,
                payload,
                start: Start::default(),
                begins_snapshot: false,
            })
        })?;
        self.composer.all_stacks(|payload| {
            let (kind, start) = (chunk_kind::STACKS, Start::default());
            sink.put(Chunk { kind, payload, start, begins_snapshot: false })
        })?;
        for kept in self.composer.sink.kept.iter().flat_map(|segment| &segment.chunks) {
            sink.put(kept.chunk())?;
        }
        let (events, texts) = (self.composer.events(), self.composer.text_count());
        let (mut to, summary) = sink.finish(events)?;
        to.flush()?;
        Ok(Summary { texts, ..summary })
    }

    /// Returns what was recorded, of which only the last is kept.
    pub(super) fn summary(&self) -> Summary {
        let sink = &self.composer.sink;
        let mut summary = Summary::default();
        (summary.events, summary.texts) = (self.composer.events(), self.composer.text_count());
        (summary.snapshots, summary.bytes) = (sink.kept.back().map_or(0, |last| last.number), sink.bytes);
        summary
    }

    /// Returns the bytes that are kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.composer.sink.bytes
    }
}
