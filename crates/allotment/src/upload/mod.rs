//! Data transfer to the device and back: upload rings, upload pools, the uploader, readback.
//!
//! ```text
//!   Ring            ring-buffer arithmetic; integers only
//!   ├── UploadRing    a ring over a buffer that the CPU writes: one stream of frames, a fixed size
//!   └── ReadbackRing  a ring over a buffer that the device writes and the CPU reads later
//!   UploadPool      pages of one size, for any number of concurrent recordings
//!   └── UploadArena   the pages of one recording, filled from front to back
//!   Uploader        writes buffers and images from any thread: directly, or through staging memory and a queue, in batches
//!   ReadQueue       reads buffers and images from any thread: many in one copy, with a handle for each
//! ```
//!
//! # Which one?
//!
//! | you have | use |
//! |---|---|
//! | data for a buffer or an image | [`Uploader`]: write, submit, and wait on the device |
//! | one thread, one queue, known amounts | [`UploadRing`]: one buffer, and an error when it is full |
//! | several threads, recordings that cross frames, or unknown amounts | [`UploadPool`] |
//! | what is in a buffer or an image: screenshots, feedback | [`Gpu::reads`](crate::Gpu::reads) |
//! | results of commands of your own: queries | [`ReadbackRing`] |
//! | another kind of buffer, or another graphics API | [`Ring`] |
//!
//! A Vulkan buffer is created for particular usages: [`RingDesc`] and [`UploadPoolDesc`] set those beyond copies,
//! and the memory of the buffer. The staging buffer of an [`Uploader`] is only copied from.
//!
//! A ring that all threads share forces them into the same frame, and a ring per thread wastes what most threads do
//! not use: hence the pages of an [`UploadPool`].
//!
//! # Rules
//!
//! - An allocation is written through a slice that borrows its ring or arena, so it cannot be written after the
//!   frame is closed.
//! - Bytes are copied into mapped memory; no reference to it is handed out, and upload memory is never read.
//! - A full ring returns an error that names what to wait for. No call waits, except a write of an [`Uploader`]
//!   configured to do so, and the drop of a ring or a pool that a queue still uses.
//!
//! The ring is that of the article "Managing Resource Lifetimes" (Diligent Engine), to the byte; the pages are what
//! that engine uses today, with a limit on their number.

mod arena;
mod completion;
mod copied_part;
mod error;
mod handle;
mod host_writes;
mod image_room;
mod image_uploads;
mod image_write;
mod lane;
mod pool;
mod readback;
mod reads;
mod ring;
mod ring_desc;
mod shared_arenas;
mod slice;
mod staging_ranges;
mod tracked_buffer;
mod tracked_ring;
mod upload_ring;
mod uploader;
mod uploader_desc;

pub use crate::lifetime::WaitFor;
pub use arena::{ArenaStatistics, UploadArena};
pub use error::{FillError, Interruption, ReadbackError, RingError, UploadError};
pub use handle::{UploadHandle, UploadStatus};
pub use image_write::{ImageRows, ImageWrite};
pub(crate) use lane::Streamed;
pub use lane::WhenFull;
pub use pool::{UploadPool, UploadPoolDesc, UploadPoolStatistics};
pub use readback::{ReadbackRing, ReadbackTicket};
pub(crate) use reads::ReadQueue;
pub use reads::{ReadError, ReadHandle, ReadStatistics, ReadStatus};
pub use ring::{Ring, RingStatistics};
pub use ring_desc::RingDesc;
pub(crate) use shared_arenas::SharedArenas;
pub use slice::UploadSlice;
pub use upload_ring::UploadRing;
pub use uploader::{HandledWrites, Uploader, UploaderStatistics};
pub use uploader_desc::UploaderDesc;

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests;
