//! Pages for arenas: who has them, who had them, and how many wait for the next one.
//!
//! ```text
//!   free ──► arena of a recording ──► retired with it ──► free again, or given back
//!     ▲ first page, or the last is full        submitted and completed, or discarded
//!     └── made when none is free
//! ```
//!
//! All pages are of one size, so that any serves anybody and none is held up by what is too small for it. What
//! is larger than a page gets a buffer of its own, which goes when its recording is done. Free pages are kept
//! up to a number of bytes; what comes back beyond it is given back.
//!
//! # Cost
//!
//! A page is taken and retired under a lock each: some 100 ns, once a megabyte. Retired pages are looked for when none is
//! free, or when more bytes are out than are kept: a lock more, and a driver call for each queue that has work
//! in flight.

use core::fmt;
use std::sync::{Arc, Mutex};

use super::ArenaError;
use super::arena::UploadArena;
use crate::device::{BufferDesc, Device};
use crate::lifetime::{Reclaimed, RecordingId, ReleaseQueue, SubmissionTracker};
use crate::memory::{AllocationOptions, Allocator, Lifetime, MappedBuffer, MemoryUsage};
use crate::sync::locked;

/// Each recording that uploads has at least one page, so sixteen threads over three frames have 48 MiB at
/// this size. A page's exchange is some 100 ns, and to fill it takes 60 µs and more, so larger ones bring
/// nothing.
pub const DEFAULT_PAGE_SIZE: u64 = 1 << 20;

/// What the example of [`DEFAULT_PAGE_SIZE`] has in flight, and a third more: a program like it makes no page
/// and gives none back once it runs.
pub const DEFAULT_KEPT_BYTES: u64 = 64 << 20;

/// How pages are made.
///
/// ```
/// use allotment::upload::UploadPoolDesc;
/// use ash::vk::BufferUsageFlags;
///
/// // On Vulkan, pages that shaders read constants from. On Direct3D 12 no flags are needed.
/// let usage = BufferUsageFlags::UNIFORM_BUFFER.as_raw().into();
/// let desc = UploadPoolDesc::default().with_page_size(256 << 10).with_usage(usage);
/// assert_eq!(desc.page_size, 256 << 10);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UploadPoolDesc {
    /// Bytes of a page. What is larger gets a buffer of its own.
    pub page_size: u64,
    /// Bytes of free pages that are kept at most. With less than is in flight as a rule, each frame makes pages
    /// and gives them back.
    pub kept_bytes: u64,
    /// The graphics API's usage flags of the buffers, as in [`BufferDesc::usage`]. Copies from and to a page are always
    /// possible.
    pub usage: u64,
    /// Options of the buffers' memory, by default for [`MemoryUsage::Upload`]. The pool chooses the lifetime, and requires
    /// host-visible memory beside.
    pub memory: AllocationOptions,
}

impl UploadPoolDesc {
    /// The same with pages of another size in bytes.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u64) -> Self {
        self.page_size = page_size;
        self
    }

    /// The same with so many bytes of free pages kept at most.
    #[must_use]
    pub fn with_kept_bytes(mut self, kept_bytes: u64) -> Self {
        self.kept_bytes = kept_bytes;
        self
    }

    /// The same with usage flags of the graphics API.
    #[must_use]
    pub fn with_usage(mut self, usage: u64) -> Self {
        self.usage = usage;
        self
    }

    /// The same in memory for another memory usage.
    #[must_use]
    pub fn with_memory_usage(mut self, memory_usage: MemoryUsage) -> Self {
        self.memory.usage = memory_usage;
        self
    }

    /// The same with other wishes for the memory: its properties, its priority, its budget, its name.
    #[must_use]
    pub fn with_memory(mut self, memory: AllocationOptions) -> Self {
        self.memory = memory;
        self
    }
}

impl Default for UploadPoolDesc {
    fn default() -> Self {
        let memory = AllocationOptions::new(MemoryUsage::Upload);
        let memory = memory.with_name("upload page").with_category("upload");
        Self { page_size: DEFAULT_PAGE_SIZE, kept_bytes: DEFAULT_KEPT_BYTES, usage: 0, memory }
    }
}

/// What a pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadPoolStatistics {
    /// Bytes of all buffers: free, with arenas, and in flight.
    pub bytes: u64,
    /// The most that there were at once.
    pub peak_bytes: u64,
    /// Bytes of free pages.
    pub free_bytes: u64,
    /// Buffers made since the pool was made.
    pub made: u64,
    /// Of these, those made for one request that was larger than a page.
    pub made_oversize: u64,
    /// Buffers given back.
    pub given_back: u64,
    /// Buffers that could not be made.
    pub failures: u64,
}

/// Pages that recordings write and the device reads, for any number of recordings at a time. A clone is the
/// same pool. `Send + Sync`.
///
/// When the last clone and the last arena go, it waits, for five seconds at most, for what is in flight; pages of a
/// recording that is still open go when that is over.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{Device, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::upload::{UploadPool, UploadPoolDesc};
/// use allotment::{Alignment, Allocator, AllocatorDesc};
/// use ash::vk::BufferUsageFlags;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// // Vulkan wants to know that shaders will read constants here. On Direct3D 12 no flags are needed.
/// let desc = UploadPoolDesc::default().with_usage(BufferUsageFlags::UNIFORM_BUFFER.as_raw().into());
/// let pool = UploadPool::new(&allocator, &tracker, desc);
///
/// let recording = tracker.record("shadows");
/// let mut arena = pool.arena(recording.id());
/// // Ranges of constants begin and end at multiples of 256 bytes on every device.
/// let mut constants = arena.allocate(256, Alignment::new(256)?)?;
/// constants.write(0, &[1; 64])?;
/// println!("bind {:?} at {}", constants.buffer(), constants.offset());
/// drop(arena);
/// // … submitted now or ten frames later, its pages stay as long:
/// let work = Submission::default();
/// // SAFETY: there is nothing in it.
/// recording.submit(QueueIndex(0), |queue| unsafe { device.submit(queue, &work) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UploadPool<D: Device> {
    shared: Arc<Shared<D>>,
}

// Not derived, since a clone needs no clone of the device.
impl<D: Device> Clone for UploadPool<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<D: Device> {
    allocator: Arc<Allocator<D>>,
    desc: UploadPoolDesc,
    /// Before the state, so that it is emptied first when the pool goes.
    retired: ReleaseQueue<MappedBuffer<D>>,
    state: Mutex<State<D>>,
}

struct State<D: Device> {
    /// All of the page size, and together no more than is kept.
    free: Vec<MappedBuffer<D>>,
    /// Empty ones of arenas that have gone, for their room.
    lists: Vec<Vec<MappedBuffer<D>>>,
    statistics: UploadPoolStatistics,
}

impl<D: Device> UploadPool<D> {
    /// A pool without pages. They go back to the allocator as `tracker` knows queues to be done with them.
    #[must_use]
    pub fn new(allocator: &Arc<Allocator<D>>, tracker: &SubmissionTracker, desc: UploadPoolDesc) -> Self {
        let state =
            State { free: Vec::new(), lists: Vec::new(), statistics: UploadPoolStatistics::default() };
        let shared = Shared {
            allocator: Arc::clone(allocator),
            desc,
            retired: ReleaseQueue::new(tracker),
            state: Mutex::new(state),
        };
        Self { shared: Arc::new(shared) }
    }

    /// An arena for what one recording uploads. It has no page yet.
    pub fn arena(&self, recording: RecordingId) -> UploadArena<D> {
        UploadArena::new(self.clone(), recording)
    }

    /// How pages are made.
    #[must_use]
    pub fn desc(&self) -> &UploadPoolDesc {
        &self.shared.desc
    }

    /// The tracker that says when pages come back.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        self.shared.retired.tracker()
    }

    /// Takes back what recordings are done with, and gives back what is too much. Arenas do so by themselves
    /// when they need pages; once a frame keeps the pool small when none does.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.retired.reclaim_here(|page| self.keep(page))
    }

    /// Gives back all free pages.
    pub fn trim(&self) {
        self.reclaim();
        let mut state = locked(&self.shared.state);
        let pages = core::mem::take(&mut state.free);
        let State { statistics, lists, .. } = &mut *state;
        statistics.bytes -= statistics.free_bytes;
        statistics.free_bytes = 0;
        statistics.given_back += pages.len() as u64;
        let lists = core::mem::take(lists);
        // Pages go to the allocator, so not under the lock.
        drop(state);
        drop((pages, lists));
    }

    /// What there is.
    #[must_use]
    pub fn statistics(&self) -> UploadPoolStatistics {
        locked(&self.shared.state).statistics
    }

    /// A page with room for `size` bytes: one of the page size, or where that is too small, one of just as many.
    pub(super) fn take(&self, size: u64) -> Result<MappedBuffer<D>, ArenaError> {
        let page_size = self.shared.desc.page_size;
        if self.is_time_to_reclaim() {
            self.reclaim();
        }
        if size > page_size {
            return self.make(size, Lifetime::Short);
        }
        let mut state = locked(&self.shared.state);
        let page = state.free.pop();
        if let Some(page) = page {
            state.statistics.free_bytes -= page_size;
            return Ok(page);
        }
        drop(state);
        self.make(page_size, Lifetime::Long)
    }

    /// True when there is no page, or more bytes are out than would be kept if they were free: some may be.
    fn is_time_to_reclaim(&self) -> bool {
        let state = locked(&self.shared.state);
        let UploadPoolStatistics { bytes, free_bytes, .. } = state.statistics;
        state.free.is_empty() || bytes - free_bytes > self.shared.desc.kept_bytes
    }

    fn make(&self, size: u64, lifetime: Lifetime) -> Result<MappedBuffer<D>, ArenaError> {
        let Shared { allocator, desc, state, .. } = &*self.shared;
        let info = BufferDesc::new(size).with_usage(desc.usage).into();
        let wanted = desc.memory.clone().with_lifetime(lifetime);
        let made = MappedBuffer::new(allocator, &info, &wanted);
        let State { free, statistics, .. } = &mut *locked(state);
        match made {
            Ok(page) => {
                statistics.made += 1;
                statistics.made_oversize += u64::from(size > desc.page_size);
                statistics.bytes += page.size();
                statistics.peak_bytes = statistics.peak_bytes.max(statistics.bytes);
                if size == desc.page_size {
                    // All that are kept may be free at once some day, when no list shall grow.
                    let most = statistics.bytes.min(desc.kept_bytes) / size;
                    free.reserve((most as usize).saturating_sub(free.len()));
                }
                Ok(page)
            }
            Err(error) => {
                statistics.failures += 1;
                Err(ArenaError::Page(error))
            }
        }
    }

    /// Keeps a page that nobody uses, or gives it back.
    fn keep(&self, page: MappedBuffer<D>) {
        let UploadPoolDesc { page_size, kept_bytes, .. } = self.shared.desc;
        let mut state = locked(&self.shared.state);
        let State { free, statistics, .. } = &mut *state;
        if page.size() == page_size && page_size <= kept_bytes - statistics.free_bytes {
            statistics.free_bytes += page_size;
            free.push(page);
        } else {
            statistics.bytes -= page.size();
            statistics.given_back += 1;
            // It goes to the allocator, so not under the lock.
            drop(state);
            drop(page);
        }
    }

    /// Takes pages back that one recording uses. Any order of this and its end will do.
    pub(super) fn retire(&self, recording: RecordingId, mut pages: Vec<MappedBuffer<D>>) {
        for page in pages.drain(..) {
            let size = page.size();
            self.shared.retired.retire_with_sized(recording, page, size);
        }
        if pages.capacity() > 0 {
            locked(&self.shared.state).lists.push(pages);
        }
    }

    /// An empty list, with room where an arena has left one.
    pub(super) fn list(&self) -> Vec<MappedBuffer<D>> {
        locked(&self.shared.state).lists.pop().unwrap_or_default()
    }

    /// For tests: panics unless everything that is kept twice agrees.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let UploadPoolDesc { page_size, kept_bytes, .. } = self.shared.desc;
        let state = locked(&self.shared.state);
        let UploadPoolStatistics { bytes, peak_bytes, free_bytes, .. } = state.statistics;
        assert_eq!(free_bytes, state.free.iter().map(MappedBuffer::size).sum::<u64>());
        assert!(state.free.iter().all(|page| page.size() == page_size));
        assert!(free_bytes <= kept_bytes && free_bytes <= bytes && bytes <= peak_bytes);
        assert!(state.lists.iter().all(Vec::is_empty));
    }
}

impl<D: Device> fmt::Debug for UploadPool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { desc, retired, .. } = &*self.shared;
        f.debug_struct("UploadPool")
            .field("desc", desc)
            .field("statistics", &self.statistics())
            .field("retired", retired)
            .finish_non_exhaustive()
    }
}
