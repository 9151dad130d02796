//! The upload memory of one recording: a list of pages, filled one after the other.
//!
//! ```text
//!   pages   [ full, 3 % left ][ one request, its own size ][ current ████████▌          ]
//!                                                                    head      page size
//! ```
//!
//! A request is placed at the head of the current page. If it does not fit, it is placed at the start of another
//! page; of the two pages, the one with more space left becomes the current page: a large request does not waste
//! the space that small ones can still use. A request larger than a page gets a buffer of exactly its size, and the
//! current page stays.
//!
//! Pages belong to the recording, not to a frame. When the arena is dropped they are retired with the recording,
//! whether it was submitted before, will be submitted ten frames later, or never.
//!
//! # Cost
//!
//! An addition and two comparisons, without a lock or an atomic access; two locks for another page. The next arena
//! reuses the list of pages.

use core::fmt;

use allotment_suballoc::Alignment;

use super::pool::UploadPool;
use super::ring::place;
use super::slice::UploadSlice;
use super::{UploadError, UploadPoolDesc};
use crate::device::Device;
use crate::lifetime::RecordingId;
use crate::memory::MappedBuffer;

/// The upload memory of one recording. `Send`; one thread at a time allocates.
///
/// Created by [`UploadPool::arena`]. No slice can be written after the arena is dropped, since its pages may belong
/// to another recording by then:
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
/// And no other thread allocates at the same time:
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
    /// In the order in which they were taken from the pool.
    pages: Vec<MappedBuffer<D>>,
    /// The index of the page that contains the head.
    current: u32,
    /// The offset at which the next request is tried; at most the limit.
    head: u64,
    /// Size of the current page; 0 if there is none.
    limit: u64,
    used: u64,
    /// Bytes used in all pages but the current one, including alignment.
    aligned_elsewhere: u64,
    allocated: u64,
}

/// Space statistics of an [`UploadArena`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let frame = gpu.begin_frame()?;
/// let mut arena = frame.upload_arena();
/// arena.allocate(100, Alignment::new(256)?)?;
/// arena.allocate(100, Alignment::new(256)?)?;
/// let now = arena.statistics();
/// assert_eq!((now.used, now.aligned, now.pages), (200, 356, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStatistics {
    /// Bytes requested.
    pub used: u64,
    /// Bytes requested, and padding for alignment.
    pub aligned: u64,
    /// Total size of the pages in bytes.
    pub allocated: u64,
    /// Number of pages.
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

    /// Allocates `size` bytes, at a multiple of `alignment` from the start of a page's buffer.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let frame = gpu.begin_frame()?;
    /// let mut arena = frame.upload_arena(); // this thread's own
    /// let mut constants = arena.allocate(64, Alignment::new(256)?)?;
    /// constants.write(0, &[7; 64])?;
    /// println!("bind {:?} at {}", constants.buffer(), constants.offset());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError`]; the arena is unchanged.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<UploadSlice<'_, D>, UploadError> {
        // Only this case is inlined: another page is needed once a megabyte by default.
        let Some(offset) = place(self.head, self.limit, size, alignment) else {
            return self.allocate_on_another(size);
        };
        self.head = offset + size;
        // All counted bytes lie in existing pages, so no sum overflows.
        self.used += size;
        Ok(self.slice(self.current, offset, size))
    }

    #[inline]
    fn slice(&self, page: u32, offset: u64, size: u64) -> UploadSlice<'_, D> {
        UploadSlice::new(&self.pages[page as usize], page, offset, size)
    }

    /// Allocates at the start of another page. Offset 0 satisfies every alignment.
    #[cold]
    #[inline(never)]
    fn allocate_on_another(&mut self, size: u64) -> Result<UploadSlice<'_, D>, UploadError> {
        if size == 0 {
            return Err(UploadError::ZeroSize);
        }
        // Before the arena changes, so that a refused page leaves it as it was.
        let taken = self.pool.take(size)?;
        // A list of a dropped arena has the capacity of a typical recording already.
        if self.pages.capacity() == 0 {
            self.pages = self.pool.list();
        }
        // Each page is a memory range of at least one byte, and their number fits 32 bits, as that of memory
        // objects does.
        let page = self.pages.len() as u32;
        let page_size = taken.size();
        self.pages.push(taken);
        self.used += size;
        self.allocated += page_size;
        // Keep the page with more space left as the current one: after a large request that is often the old page.
        if page_size - size > self.limit - self.head {
            self.aligned_elsewhere += self.head;
            (self.current, self.head, self.limit) = (page, size, page_size);
        } else {
            self.aligned_elsewhere += size;
        }
        Ok(self.slice(page, 0, size))
    }

    /// Returns the buffer of a page, for recording commands that use earlier allocations.
    #[must_use]
    pub fn buffer(&self, page: u32) -> Option<&D::Buffer> {
        self.pages.get(page as usize).map(MappedBuffer::handle_ref)
    }

    /// Returns the id of the recording that its pages are retired with.
    #[must_use]
    pub fn recording(&self) -> RecordingId {
        self.recording
    }

    /// Returns the description of the pool.
    #[must_use]
    pub fn desc(&self) -> &UploadPoolDesc {
        self.pool.desc()
    }

    /// Returns how well its pages are used.
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
    #[inline(never)]
    fn drop(&mut self) {
        let pages = core::mem::take(&mut self.pages);
        // An arena that was never used takes no lock.
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
