//! The file of a recording: what is in it, how it is written, and how it is read.
//!
//! ```text
//!   magic, version │ header │ texts │ events │ events │ texts │ events │ snapshot │ … │ index │ end
//!                    └ each a chunk: length, kind, checksum, payload
//! ```
//!
//! `docs/recording-format.md` describes each byte.
//!
//! | what | how |
//! |---|---|
//! | a program crashes while it records | each chunk is whole by itself: the file reads up to the last one |
//! | a reader wants a moment in the middle | a snapshot of the state every few MiB; the index says where |
//! | a later version of this crate writes more | chunks and records of unknown kinds are skipped |
//! | the file is small | numbers have as many bytes as they need, and most are small differences |
//! | the file was changed on purpose | checksums, limits on everything that a file asks memory for, and no panic |

mod bytes;
mod chunk;
mod codes;
mod composer;
mod context;
mod decode;
mod encode;
mod error;
mod header;
mod reader;
mod seek;
mod sized;
mod snapshot;
mod stacks;
mod stream;
mod texts;
mod unread;
mod writer;

pub use chunk::MAX_CHUNK_BYTES;
pub(crate) use chunk::Start;
pub(crate) use composer::{Chunk, ChunkSink, Composer};
pub use error::{Damage, DamageKind, ReadError};
pub use reader::ReadOptions;
pub use seek::{RecordingReader, SnapshotInfo};
pub(crate) use stream::{StreamItem, StreamReader, beginning, chunk_bytes, end_bytes, restart_bytes};
pub use texts::MAX_TEXT_BYTES;
pub(crate) use writer::FileSink;
pub use writer::{RecordingWriter, Summary, WriterDesc};

/// The first bytes of a file. The line ends in it are changed by transfers in text mode, which therefore show.
pub(crate) const MAGIC: [u8; 8] = *b"\x89ALT\r\n\x1a\n";

/// The version of the format that this crate reads and writes.
pub const VERSION: u32 = 1;

/// The kinds of chunks.
pub(crate) mod chunk_kind {
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const TEXTS: u8 = 2;
    pub(crate) const EVENTS: u8 = 3;
    pub(crate) const SNAPSHOT: u8 = 4;
    pub(crate) const INDEX: u8 = 5;
    pub(crate) const END: u8 = 6;
    /// In live recordings only.
    pub(crate) const RESTART: u8 = 7;
    pub(crate) const UNREAD: u8 = 8;
    pub(crate) const STACKS: u8 = 9;
}

/// The kinds of records. A number never changes its meaning.
mod kind {
    pub(super) const TIME: u8 = 1;
    pub(super) const FRAME_END: u8 = 2;
    pub(super) const MARK: u8 = 3;
    pub(super) const LOST: u8 = 4;
    pub(super) const POOL_CREATED: u8 = 5;
    pub(super) const POOL_DESTROYED: u8 = 6;
    pub(super) const BLOCK_ALLOCATED: u8 = 7;
    pub(super) const BLOCK_FREED: u8 = 8;
    pub(super) const ALLOCATED: u8 = 9;
    pub(super) const CALL_SITE: u8 = 10;
    pub(super) const LABELLED: u8 = 11;
    pub(super) const FREE_REQUESTED: u8 = 12;
    pub(super) const FREED: u8 = 13;
    pub(super) const EXCHANGED: u8 = 14;
    pub(super) const RESERVED: u8 = 15;
    pub(super) const MAPPED: u8 = 16;
    pub(super) const BLOCK_SHARED: u8 = 17;
    pub(super) const BUDGET: u8 = 18;
    pub(super) const REFUSED: u8 = 19;
    pub(super) const STALLED: u8 = 20;
    pub(super) const SUBMITTED: u8 = 21;
    pub(super) const COMPLETED: u8 = 22;
    pub(super) const DESCRIPTOR_HEAP_CREATED: u8 = 23;
    pub(super) const DESCRIPTOR_HEAP_DESTROYED: u8 = 24;
    pub(super) const DESCRIPTORS_ALLOCATED: u8 = 25;
    pub(super) const DESCRIPTORS_FREED: u8 = 26;
    pub(super) const RING_CREATED: u8 = 27;
    pub(super) const RING_USED: u8 = 28;
    pub(super) const RING_DESTROYED: u8 = 29;
    pub(super) const DELETION_QUEUE: u8 = 30;
    pub(super) const MOVABLE: u8 = 31;
    pub(super) const BLOCK_RESIZED: u8 = 32;

    // From here on each record has its length, so that an earlier reader of this version skips it.
    pub(super) const POOL_SERVES: u8 = 33;
    pub(super) const POOL_SIZED: u8 = 34;
    pub(super) const POOL_RULES: u8 = 35;
    pub(super) const POOL_RESET: u8 = 36;
    pub(super) const JOINED: u8 = 37;
    pub(super) const TIME_PASSED: u8 = 38;
    pub(super) const TRIMMED: u8 = 39;
    pub(super) const MAINTAINED: u8 = 40;
    pub(super) const ROOM_RESERVED: u8 = 41;
    pub(super) const REQUESTED: u8 = 42;
    pub(super) const REFUSED_REQUEST: u8 = 43;
    pub(super) const BOUND: u8 = 44;
    pub(super) const UNBOUND: u8 = 45;
    pub(super) const DISPLACED: u8 = 46;
    pub(super) const ACTIVATED: u8 = 47;
    pub(super) const STACK: u8 = 48;

    /// In snapshots: the moment of the records that follow.
    pub(super) const MOMENT: u8 = 64;
    /// In snapshots: a block has been empty since the moment.
    pub(super) const EMPTY_SINCE: u8 = 65;

    /// Returns true for the kinds whose records have no length: the first events of version 1.
    pub(super) const fn has_no_length(kind: u8) -> bool {
        kind >= TIME && kind <= BLOCK_RESIZED
    }
}
