//! Recordings: what the library did, event by event, with every offset. In contrast to a [trace](crate::Trace), which
//! has only what a program requested.

mod header;
mod history;
mod spans;
mod state;
mod usage;

pub use crate::file::{
    Damage, DamageKind, MAX_CHUNK_BYTES, MAX_TEXT_BYTES, ReadError, ReadOptions, RecordingReader,
    RecordingWriter, SnapshotInfo, Summary, VERSION, WriterDesc,
};
pub use allotment::events::{
    Allocated, AllocationKey, BlockId, BlockKind, DeletionQueueKind, DescriptorKind, Event, ObjectId,
    Placement, PoolId, RefusalReason, RingKind, StallKind, TextId,
};
pub use header::{Api, Header, Heap, MemoryType};
pub use spans::{Span, Spans};
pub(crate) use history::Step;
pub use state::{
    Block, Budget, DeletionQueue, DescriptorHeap, IdMap, Inconsistent, Live, Moment, Pool, Ring, State,
};
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
}

impl Recording {
    /// Returns a text. `None` for [`TextId::NONE`], and for a text that the recording lacks.
    #[must_use]
    pub fn text(&self, text: TextId) -> Option<&str> {
        let index = (text.0 as usize).checked_sub(1)?;
        self.texts.get(index).map(String::as_str)
    }
}
