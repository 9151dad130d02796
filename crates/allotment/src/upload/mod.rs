//! Bytes on their way to the device, and back from it.
//!
//! ```text
//!   Ring            which bytes of a ring are whose; integers only
//!   ├── UploadRing    over a buffer that the CPU writes: one stream of frames, a fixed size
//!   └── ReadbackRing  over a buffer that the device writes and the CPU reads later
//!   UploadPool      pages of one size, for any number of recordings at a time
//!   └── UploadArena   the pages of one recording, used from front to back
//!   Uploader        writes buffers and images: directly, or through a ring and a queue, batch by batch
//! ```
//!
//! # Which one?
//!
//! | what you have | what you use |
//! |---|---|
//! | bytes that belong into a buffer or an image | [`Uploader`]: write, submit, wait on the device |
//! | one thread, one queue, amounts that are known | [`UploadRing`]: a buffer, and an error when it is too small |
//! | several threads, or recordings that cross frames, or amounts that nobody knows | [`UploadPool`] |
//! | results of the device: queries, screenshots, feedback | [`ReadbackRing`] |
//! | a buffer of another kind, or of an API that is none of ours | [`Ring`] |
//!
//! A buffer is created for what the GPU does with it: [`RingDesc`] and [`UploadPoolDesc`] say what that is beside
//! copies, and which memory the buffer is in. What an [`Uploader`] stages is only copied.
//!
//! A ring for all threads forces them into the same frame, and one for each wastes what most of them do not
//! use: that is why there are pages.
//!
//! # Rules
//!
//! - What was allocated is written through a slice that borrows what it is from, so not after it was closed.
//! - Bytes are copied into mapped memory, never read back, and no reference to it is handed out.
//! - What is full says so by a value that names what to wait for. Nothing here waits, but an [`Uploader`] that was
//!   told to, and the end of a ring or a pool that is dropped while a queue uses it.
//!
//! The ring is that of the article "Managing Resource Lifetimes" (Diligent Engine), to the byte; the pages are
//! what that engine has come to since, with an end to their number.

mod arena;
mod error;
mod lane;
mod pool;
mod readback;
mod ring;
mod ring_desc;
mod slice;
mod tracked_ring;
mod upload_ring;
mod uploader;

pub use crate::lifetime::WaitFor;
pub use arena::{ArenaStatistics, UploadArena};
pub use error::{ArenaError, ReadbackError, RingError, UploadError};
pub use lane::WhenFull;
pub use pool::{DEFAULT_KEPT_BYTES, DEFAULT_PAGE_SIZE, UploadPool, UploadPoolDesc, UploadPoolStatistics};
pub use readback::{ReadbackRing, ReadbackTicket};
pub use ring::{Ring, RingStatistics};
pub use ring_desc::RingDesc;
pub use slice::{UploadLocation, UploadSlice};
pub use upload_ring::UploadRing;
pub use uploader::{ImageWrite, Uploader, UploaderDesc, UploaderStatistics};

#[cfg(test)]
mod tests;
