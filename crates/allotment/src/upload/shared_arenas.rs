//! The upload memory of one recording for any number of threads.
//!
//! ```text
//!   first    the arena of the thread that uploads first: without a lock
//!   shards   [ arena ][ none ][ none ] …      all other threads begin at the first shard, and move on
//!                                             when they find another thread in it
//! ```
//!
//! An arena has a page at least, so threads share one for as long as they do not meet there. Threads that upload at the same
//! time have an arena each, and copy side by side.
//!
//! # Cost
//!
//! Beside the [arena's](super::arena) addition and the copy: a few loads and stores for the first thread, an exchange for each
//! other one. The shards are reused by the next recording, so none allocates host memory.

use core::fmt;
use std::sync::OnceLock;

use allotment_suballoc::Alignment;

use super::{UploadArena, UploadError, UploadPool};
use crate::device::Device;
use crate::lifetime::RecordingId;
use crate::sync::first_thread::FirstThread;
use crate::sync::shards::Shards;

/// Arenas of one recording; none between two recordings.
pub(super) type ArenaShards<D> = Shards<Option<UploadArena<D>>>;

/// The upload memory of one recording. See the [module](self).
pub(crate) struct SharedArenas<D: Device> {
    first: FirstThread<Option<UploadArena<D>>>,
    /// Taken from the pool by the first upload of another thread: most recordings have none.
    shards: OnceLock<ArenaShards<D>>,
}

impl<D: Device> SharedArenas<D> {
    pub(crate) fn new() -> Self {
        Self { first: FirstThread::new(None), shards: OnceLock::new() }
    }

    /// Copies bytes to `size` bytes of transient memory of the recording, which may be more. `done` gets where they are.
    ///
    /// # Errors
    ///
    /// [`UploadError`], and nothing is allocated; or the driver's error when it flushes memory that is not host-coherent.
    #[inline]
    pub(crate) fn upload<R>(
        &self,
        of: (&UploadPool<D>, RecordingId),
        bytes: &[u8],
        place: (u64, Alignment),
        done: impl FnOnce(&D::Buffer, u64) -> R,
    ) -> Result<R, UploadError> {
        match self.first.lend() {
            Some(mut arena) => upload_in(&mut arena, of, bytes, place, done),
            None => self.upload_beside(of, bytes, place, done),
        }
    }

    #[inline(never)]
    fn upload_beside<R>(
        &self,
        of: (&UploadPool<D>, RecordingId),
        bytes: &[u8],
        place: (u64, Alignment),
        done: impl FnOnce(&D::Buffer, u64) -> R,
    ) -> Result<R, UploadError> {
        let shards = self.shards.get_or_init(|| of.0.arena_shards());
        upload_in(&mut shards.settled(), of, bytes, place, done)
    }

    /// Retires all pages with the recording.
    pub(crate) fn close(&mut self, pool: &UploadPool<D>) {
        *self.first.get_mut() = None;
        let Some(shards) = self.shards.take() else { return };
        shards.each().for_each(|mut arena| *arena = None);
        pool.keep_arena_shards(shards);
    }
}

// Always: else what is returned is copied from here to each caller.
#[inline(always)]
fn upload_in<D: Device, R>(
    arena: &mut Option<UploadArena<D>>,
    (pool, recording): (&UploadPool<D>, RecordingId),
    bytes: &[u8],
    (size, alignment): (u64, Alignment),
    done: impl FnOnce(&D::Buffer, u64) -> R,
) -> Result<R, UploadError> {
    // It takes its first page only now.
    let arena = arena.get_or_insert_with(|| pool.arena(recording));
    let mut slice = arena.allocate(size, alignment)?;
    slice.write(0, bytes)?;
    // By the caller, so that the handle is cloned to where it is returned and copied no further.
    Ok(done(slice.buffer(), slice.offset()))
}

impl<D: Device> fmt::Debug for SharedArenas<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedArenas").finish_non_exhaustive()
    }
}
