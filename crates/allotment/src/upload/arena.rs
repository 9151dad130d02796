//! What one recording uploads: bytes one behind the other, page by page.
//!
//! ```text
//!   pages   [ full, 3 % left ][ one request, its own size ][ current ████████▌          ]
//!                                                                    head      page size
//! ```
//!
//! A request goes to the head of the current page. One that does not fit there gets the start of another
//! page, and of the two the page with more room left is current from then on: a large request does not waste
//! what small ones can still have. What is larger than a page gets a buffer that is just its size, and the
//! current page stays.
//!
//! Pages belong to the recording, not to a frame. When the arena goes they are retired with the recording,
//! whether that was submitted before, will be in ten frames, or never is.
//!
//! # Cost
//!
//! An addition and two comparisons, without a lock or an atomic access; with another page, two locks. The
//! list of pages is used again by the next arena.

use core::fmt;

use allotment_suballoc::Alignment;

use super::pool::UploadPool;
use super::ring::place;
use super::slice::{UploadLocation, UploadSlice};
use super::{ArenaError, UploadPoolDesc};
use crate::device::Device;
use crate::lifetime::RecordingId;
use crate::memory::MappedBuffer;

/// What one recording uploads. `Send`; one thread at a time allocates.
///
/// Made by [`UploadPool::arena`]. Nothing is written when the arena has gone, since its pages may be somebody
/// else's by then:
///
/// ```compile_fail,E0505
/// # use allotment::device::Device;
/// # use allotment::upload::UploadArena;
/// # use allotment::Alignment;
/// fn late<D: Device>(mut arena: UploadArena<D>) {
///     let mut constants = arena.allocate(64, Alignment::ONE).unwrap();
///     drop(arena);
///     constants.write(0, &[1; 64]).unwrap();
/// }
/// ```
///
/// And nobody else allocates meanwhile:
///
/// ```compile_fail,E0596
/// # use allotment::device::Device;
/// # use allotment::upload::UploadArena;
/// # use allotment::Alignment;
/// fn shared<D: Device>(arena: &UploadArena<D>) {
///     arena.allocate(64, Alignment::ONE).unwrap();
/// }
/// ```
#[must_use = "an arena that is dropped gives its pages back with its recording"]
pub struct UploadArena<D: Device> {
    pool: UploadPool<D>,
    recording: RecordingId,
    /// In the order in which they were taken.
    pages: Vec<MappedBuffer<D>>,
    /// Which of them the head is in.
    current: u32,
    /// Where the next request is tried; at most the limit.
    head: u64,
    /// Bytes of the current page, 0 where there is none.
    limit: u64,
    used: u64,
    /// Of all pages but the current one, bytes before what would be their head.
    aligned_elsewhere: u64,
    allocated: u64,
}

/// How well an arena's pages are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStatistics {
    /// Bytes asked for.
    pub used: u64,
    /// These, and what alignment skipped between them.
    pub aligned: u64,
    /// Bytes of the pages.
    pub allocated: u64,
    /// Pages.
    pub pages: u32,
}

impl<D: Device> UploadArena<D> {
    pub(super) fn new(pool: UploadPool<D>, recording: RecordingId) -> Self {
        Self {
            pool,
            recording,
            pages: Vec::new(),
            current: 0,
            head: 0,
            limit: 0,
            used: 0,
            aligned_elsewhere: 0,
            allocated: 0,
        }
    }

    /// `size` bytes to write now, at a multiple of `alignment` from the start of a page's buffer.
    ///
    /// # Errors
    ///
    /// [`ArenaError`]; nothing has changed.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<UploadSlice<'_, D>, ArenaError> {
        let Some(offset) = place(self.head, self.limit, size, alignment) else {
            return self.allocate_on_another(size);
        };
        self.head = offset + size;
        // All that is counted lies in pages that exist, so no sum overflows.
        self.used += size;
        Ok(self.slice(UploadLocation { page: self.current, offset, size }))
    }

    #[inline]
    fn slice(&self, place: UploadLocation) -> UploadSlice<'_, D> {
        UploadSlice::new(&self.pages[place.page as usize], place)
    }

    /// At the start of another page, which is aligned to anything.
    #[cold]
    #[inline(never)]
    fn allocate_on_another(&mut self, size: u64) -> Result<UploadSlice<'_, D>, ArenaError> {
        if size == 0 {
            return Err(ArenaError::ZeroSize);
        }
        let taken = self.pool.take(size)?;
        if self.pages.capacity() == 0 {
            self.pages = self.pool.list();
        }
        // There are fewer than there could be memory objects, which 32 bits count.
        let page = self.pages.len() as u32;
        let page_size = taken.size();
        self.pages.push(taken);
        self.used += size;
        self.allocated += page_size;
        if page_size - size > self.limit - self.head {
            self.aligned_elsewhere += self.head;
            (self.current, self.head, self.limit) = (page, size, page_size);
        } else {
            self.aligned_elsewhere += size;
        }
        Ok(self.slice(UploadLocation { page, offset: 0, size }))
    }

    /// The buffer of one of its pages, for recording what was allocated before.
    #[must_use]
    pub fn buffer(&self, page: u32) -> Option<&D::Buffer> {
        self.pages.get(page as usize).map(MappedBuffer::handle)
    }

    /// The recording that its pages go with.
    #[must_use]
    pub fn recording(&self) -> RecordingId {
        self.recording
    }

    /// How large the pool's pages are, and the rest.
    #[must_use]
    pub fn desc(&self) -> &UploadPoolDesc {
        self.pool.desc()
    }

    /// How well its pages are used.
    #[must_use]
    pub fn statistics(&self) -> ArenaStatistics {
        ArenaStatistics {
            used: self.used,
            aligned: self.aligned_elsewhere + self.head,
            allocated: self.allocated,
            pages: self.pages.len() as u32,
        }
    }
}

impl<D: Device> Drop for UploadArena<D> {
    fn drop(&mut self) {
        let pages = core::mem::take(&mut self.pages);
        if !pages.is_empty() {
            self.pool.retire(self.recording, pages);
        }
    }
}

impl<D: Device> fmt::Debug for UploadArena<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadArena")
            .field("recording", &self.recording)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
