//! Recordings: what the library did, event by event, with every offset. In contrast to a [trace](crate::Trace), which
//! has only what a program requested.
//!
//! A [`Recorder`](crate::Recorder) makes files of a running program, and a [`Collector`](crate::Collector) collects its
//! events in memory; a [`RecordingWriter`] makes files of anything else. A [`Recording`] has one in memory, a [`State`]
//! what existed at a moment of it; a [`RecordingReader`] reads parts of a file that is too large for that.
//!
//! ```
//! # use allotment_trace::recording::{Header, RecordingWriter, WriterDesc};
//! # let path = std::env::temp_dir().join(format!("allotment-doc-recording-{}.altr", std::process::id()));
//! # let file = std::fs::File::create(&path)?;
//! # RecordingWriter::new(file, &Header::default(), &WriterDesc::default())?.finish()?;
//! use allotment_trace::recording::{Event, Recording, State};
//!
//! let (recording, damage) = Recording::open(&path)?;
//! if let Some(damage) = damage {
//!     eprintln!("only a part could be read: {damage}");
//! }
//! let mut state = State::default();
//! let mut peak = 0;
//! for event in &recording.events {
//!     state.apply(event)?;
//!     peak = peak.max(state.blocks.values().map(|block| block.size).sum::<u64>());
//! }
//! println!("{peak} bytes at the peak, on {}", recording.header.device);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cost
//!
//! Measured on one core of a shared server, with the events of a game and of a training run: 3 to 5 bytes an event in the
//! file; 30 ns to encode an event, 45 with the snapshots; 40 ns to decode and 25 to 50 to apply one. Ten million events
//! are read in under 2 s. (`cargo run --release -p allotment-trace --example recording_cost`.)
//!
//! # Hostile files
//!
//! No file makes a reader panic, and none makes it take more memory than [`ReadOptions`] say, with 16 MiB for a chunk and
//! 68 MiB for an index on top. `docs/recording-format.md` describes each byte.

mod call_roles;
mod header;
mod history;
mod spans;
mod stacks;
mod state;
mod text_numbers;
mod unread;
mod usage;

pub use crate::file::{
    Damage, DamageKind, MAX_CHUNK_BYTES, MAX_TEXT_BYTES, ReadError, ReadOptions, RecordingReader,
    RecordingWriter, SnapshotInfo, Summary, VERSION, WriterDesc,
};
pub use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, BoundResource, DeletionQueueKind, DescriptorKind, Event,
    ObjectId, Placement, PoolId, RefusalReason, RefusedRequest, RequestedOptions, RingKind, StackId,
    StallKind, TextId,
};
pub use call_roles::{CallRole, short_function};
pub use header::{Api, Extent, Header, Heap, Library, MemoryType};
pub(crate) use history::Step;
pub use spans::{Span, Spans};
pub use stacks::{StackFrame, StackNumbers, Stacks};
pub use state::{
    Block, Bound, Budget, DeletionQueue, DescriptorHeap, IdMap, Inconsistent, Live, Moment, Pool, Ring, State,
};
pub use text_numbers::TextNumbers;
pub use unread::{Unread, UnreadKind};
pub use usage::{Usage, UsageTotals};

/// A recording in memory: where it was made, its texts, and its events in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Where and how it was made.
    pub header: Header,
    /// The texts that events name: [`TextId`] `n` is `texts[n - 1]`.
    pub texts: Vec<String>,
    /// The events, in their order.
    pub events: Vec<Event>,
    /// What of the file was not read; of a whole one, nothing.
    pub unread: Vec<Unread>,
    /// The call stacks that events name.
    pub stacks: Stacks,
}

impl Recording {
    /// Returns a text. `None` for [`TextId::NONE`], and for a text that the recording lacks.
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<&str> {
        let index = (text.0 as usize).checked_sub(1)?;
        self.texts.get(index).map(String::as_str)
    }

    /// Notes that something was not read. Of the same kind and text, the counts are added.
    pub(crate) fn note_unread(&mut self, kind: UnreadKind, count: u64, text: &str) {
        match self.unread.iter_mut().find(|known| known.kind == kind && known.text == text) {
            Some(known) => known.count = known.count.saturating_add(count),
            None => self.unread.push(Unread { kind, count, text: text.to_owned() }),
        }
    }
}
