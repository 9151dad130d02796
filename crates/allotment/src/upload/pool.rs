//! The pool of upload pages, shared by the arenas of all recordings.
//!
//! ```text
//!   free ──► arena of a recording ──► retired with it ──► free again, or destroyed
//!     ▲ first page, or the last is full        submitted and completed, or discarded
//!     └── created if none is free
//! ```
//!
//! All pages have one size, so any page serves any arena. A request larger than a page gets a dedicated buffer,
//! which is destroyed when its recording has completed. Free pages are kept up to a total size; further ones are
//! destroyed.
//!
//! # Cost
//!
//! Taking and retiring a page costs a lock each: about 100 ns, once a megabyte. Retired pages are reclaimed when
//! none is free, or when the pages in use exceed the size that is kept: one more lock, and a driver call for each
//! queue with work in flight.

use core::fmt;
use std::sync::{Arc, Mutex};

use super::UploadError;
use super::arena::UploadArena;
use super::shared_arenas::ArenaShards;
use crate::device::{BufferDesc, Device, DeviceProperties, MemoryProperties};
use crate::lifetime::{Reclaimed, RecordingId, ReleaseQueue, SubmissionTracker, WrongDevice};
use crate::memory::{AllocationOptions, Allocator, ExpectedLifetime, MappedBuffer, MemoryUsage};
use crate::sync::locked;
use crate::sync::shards::Shards;

/// Each recording that uploads needs at least one page, so sixteen threads over three frames use 48 MiB at this
/// size. Taking a page costs about 100 ns, and filling it 60 µs and more, so larger pages gain nothing.
const DEFAULT_PAGE_SIZE: u64 = 1 << 20;

/// The memory in flight in the example of [`DEFAULT_PAGE_SIZE`], and a third more: a program like it neither
/// creates nor frees pages in steady state.
const DEFAULT_KEPT_BYTES: u64 = 64 << 20;

/// The description of an [`UploadPool`].
///
/// ```
/// use allotment::upload::UploadPoolDesc;
/// use ash::vk::BufferUsageFlags;
///
/// // On Vulkan, pages that shaders read constants from. Direct3D 12 needs no flags.
/// let usage = BufferUsageFlags::UNIFORM_BUFFER.as_raw().into();
/// let desc = UploadPoolDesc::default().with_page_size(256 << 10).with_usage(usage);
/// assert_eq!(desc.page_size, 256 << 10);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UploadPoolDesc {
    /// Size of a page in bytes. A larger request gets a dedicated buffer.
    pub page_size: u64,
    /// Total bytes of free pages that are kept. If that is less than what is usually in flight, each frame creates
    /// and frees pages.
    pub kept_bytes: u64,
    /// The graphics API's usage flags of the buffers, as in [`BufferDesc::usage`]. Copies from and to a page are always
    /// possible.
    pub usage: u64,
    /// Options of the buffers' memory, by default for [`MemoryUsage::Upload`]. The pool chooses the lifetime, and
    /// requires host-visible memory beside.
    pub memory: AllocationOptions,
    /// Whether pages for [`MemoryUsage::Upload`] are in device memory, where the GPU has more than 256 MiB that the CPU can
    /// map: what shaders read from there, they do not read over the bus. Pages beyond the budget of its heap are in memory of
    /// the host ([`MemoryUsage::DeviceMapped`]). Default: yes.
    pub device_memory: bool,
}

impl UploadPoolDesc {
    /// Sets the page size in bytes.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u64) -> Self {
        self.page_size = page_size;
        self
    }

    /// Sets the bytes of free pages that are kept at most.
    #[must_use]
    pub fn with_kept_bytes(mut self, kept_bytes: u64) -> Self {
        self.kept_bytes = kept_bytes;
        self
    }

    /// Sets the graphics API's usage flags.
    #[must_use]
    pub fn with_usage(mut self, usage: u64) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the memory usage.
    #[must_use]
    pub fn with_memory_usage(mut self, memory_usage: MemoryUsage) -> Self {
        self.memory.usage = memory_usage;
        self
    }

    /// Sets whether pages are in device memory that the CPU can map.
    #[must_use]
    pub fn with_device_memory(mut self, device_memory: bool) -> Self {
        self.device_memory = device_memory;
        self
    }

    /// Returns the memory options for a device.
    fn memory_on(&self, properties: &DeviceProperties) -> AllocationOptions {
        let mut memory = self.memory.clone();
        if self.device_memory && memory.usage == MemoryUsage::Upload && has_wide_window(properties) {
            memory.usage = MemoryUsage::DeviceMapped;
        }
        memory
    }

    /// Sets all memory options: properties, priority, budget policy, name.
    #[must_use]
    pub fn with_memory(mut self, memory: AllocationOptions) -> Self {
        self.memory = memory;
        self
    }
}

impl Default for UploadPoolDesc {
    fn default() -> Self {
        let memory = AllocationOptions::new(MemoryUsage::Upload);
        let memory = memory.with_name("upload page").with_category(AllocationOptions::LIBRARY_CATEGORY);
        let (page_size, kept_bytes) = (DEFAULT_PAGE_SIZE, DEFAULT_KEPT_BYTES);
        Self { page_size, kept_bytes, usage: 0, memory, device_memory: true }
    }
}

/// The window into the memory of a graphics card without resizable BAR. It is left to those who ask for it.
const NARROW_WINDOW: u64 = 256 << 20;

/// Returns whether the CPU can map more of the device's memory than through the window of old graphics cards.
fn has_wide_window(properties: &DeviceProperties) -> bool {
    let wanted = MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE;
    let sizes = properties.memory_types.iter().filter(|it| it.properties.contains(wanted));
    sizes.filter_map(|it| properties.heaps.get(it.heap.get())).any(|heap| heap.size > NARROW_WINDOW)
}

/// Statistics of an [`UploadPool`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let frame = gpu.begin_frame()?;
/// frame.upload([7; 64])?;
/// frame.end()?;
/// let pages = gpu.upload_pool().statistics();
/// assert_eq!((pages.made, pages.free_bytes), (1, 1 << 20)); // one page, free for the next frame
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadPoolStatistics {
    /// Bytes of all buffers: free, used by arenas, and in flight.
    pub bytes: u64,
    /// The highest value of `bytes` so far.
    pub peak_bytes: u64,
    /// Bytes of free pages.
    pub free_bytes: u64,
    /// Bytes among `bytes` that are in [device memory](UploadPoolDesc::device_memory).
    pub device_bytes: u64,
    /// Buffers created since the pool was created.
    pub made: u64,
    /// Buffers among `made` that were created for one request larger than a page.
    pub made_oversize: u64,
    /// Buffers destroyed.
    pub given_back: u64,
    /// Buffers that could not be created.
    pub failures: u64,
}

/// A pool of upload pages for any number of concurrent recordings. A clone refers to the same pool. `Send + Sync`.
///
/// Dropping the last clone and the last arena waits for submitted work for at most five seconds; pages of a
/// recording that is still open are destroyed after it.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{QueueDevice as _, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::upload::{UploadPool, UploadPoolDesc};
/// use allotment::{Alignment, Allocator, AllocatorDesc};
/// use ash::vk::BufferUsageFlags;
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// // Vulkan needs a flag for shaders that read constants here. Direct3D 12 needs none.
/// let desc = UploadPoolDesc::default().with_usage(BufferUsageFlags::UNIFORM_BUFFER.as_raw().into());
/// let pool = UploadPool::new(&allocator, &tracker, desc)?;
///
/// let recording = tracker.record("shadows");
/// let mut arena = pool.arena(recording.id());
/// // Constant buffer ranges start at multiples of 256 bytes on every device.
/// let mut constants = arena.allocate(256, Alignment::new(256)?)?;
/// constants.write(0, &[1; 64])?;
/// println!("bind {:?} at {}", constants.buffer(), constants.offset());
/// drop(arena);
/// // … submitted now or ten frames later; the pages stay until that submission completes:
/// let work = Submission::default();
/// // SAFETY: the submission is empty.
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
    /// The options for this device.
    memory: AllocationOptions,
    /// Declared before `state`, so that it is drained first when the pool is dropped.
    retired: ReleaseQueue<MappedBuffer<D>>,
    state: Mutex<State<D>>,
}

struct State<D: Device> {
    /// All have the page size; their total is at most `kept_bytes`.
    free: Vec<MappedBuffer<D>>,
    /// Empty lists of dropped arenas, reused for their capacity.
    lists: Vec<Vec<MappedBuffer<D>>>,
    /// Shards of closed frames, without arenas, reused for their memory.
    shards: Vec<ArenaShards<D>>,
    statistics: UploadPoolStatistics,
}

impl<D: Device> UploadPool<D> {
    /// Creates a pool without pages. Pages return to it when `tracker` finds that queues have completed their
    /// recordings.
    ///
    /// # Errors
    ///
    /// [`WrongDevice`] if the tracker tracks another device than the allocator's.
    #[inline(never)]
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: UploadPoolDesc,
    ) -> Result<Self, WrongDevice> {
        tracker.check_device(allocator.device())?;
        let statistics = UploadPoolStatistics::default();
        let state = State { free: Vec::new(), lists: Vec::new(), shards: Vec::new(), statistics };
        let shared = Shared {
            allocator: Arc::clone(allocator),
            memory: desc.memory_on(allocator.device().properties()),
            desc,
            retired: ReleaseQueue::new(tracker),
            state: Mutex::new(state),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Creates an arena for the uploads of one recording. It has no page yet.
    pub fn arena(&self, recording: RecordingId) -> UploadArena<D> {
        UploadArena::new(self.clone(), recording)
    }

    /// Returns the pool's description.
    #[must_use]
    pub fn desc(&self) -> &UploadPoolDesc {
        &self.shared.desc
    }

    /// Returns the tracker that decides when pages are free.
    #[must_use]
    pub fn tracker(&self) -> &SubmissionTracker {
        self.shared.retired.tracker()
    }

    /// Reclaims the pages of completed recordings, and destroys pages beyond `kept_bytes`. Arenas do so when they
    /// need pages; a call per frame keeps the pool small while no arena does.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.retired.reclaim_here(|page| self.keep(page))
    }

    /// Destroys all free pages.
    pub fn trim(&self) {
        // First, so that pages which the GPU has completed are destroyed as well.
        self.reclaim();
        let mut state = locked(&self.shared.state);
        let pages = core::mem::take(&mut state.free);
        let State { statistics, lists, shards, .. } = &mut *state;
        statistics.bytes -= statistics.free_bytes;
        statistics.device_bytes -= pages.iter().map(|page| self.device_bytes(page)).sum::<u64>();
        statistics.free_bytes = 0;
        statistics.given_back += pages.len() as u64;
        let (lists, shards) = (core::mem::take(lists), core::mem::take(shards));
        // Dropping a page calls the allocator, so not under the lock.
        drop(state);
        drop((pages, lists, shards));
    }

    /// Returns the pool's statistics.
    #[must_use]
    pub fn statistics(&self) -> UploadPoolStatistics {
        locked(&self.shared.state).statistics
    }

    /// Takes a free page, or creates one: of the page size, or of `size` bytes if that is larger.
    pub(super) fn take(&self, size: u64) -> Result<MappedBuffer<D>, UploadError> {
        let page_size = self.shared.desc.page_size;
        if self.may_reclaim() {
            // Reclaiming costs a lock and driver calls, so not on each request.
            self.reclaim();
        }
        if size > page_size {
            // Short-lived and never kept: a cache of odd sizes would hold memory that few requests fit.
            return self.create_page(size, ExpectedLifetime::Short);
        }
        let mut state = locked(&self.shared.state);
        let page = state.free.pop();
        if let Some(page) = page {
            state.statistics.free_bytes -= page_size;
            return Ok(page);
        }
        // Unlocked first: the allocator may call the driver.
        drop(state);
        self.create_page(page_size, ExpectedLifetime::Long)
    }

    /// Returns true if there is no free page, or if the pages in use exceed `kept_bytes`: some of them may have
    /// completed.
    fn may_reclaim(&self) -> bool {
        let state = locked(&self.shared.state);
        let UploadPoolStatistics { bytes, free_bytes, .. } = state.statistics;
        // Also where more is in flight than is ever kept: completed pages are then destroyed soon, even while one is
        // free.
        state.free.is_empty() || bytes - free_bytes > self.shared.desc.kept_bytes
    }

    fn create_page(&self, size: u64, lifetime: ExpectedLifetime) -> Result<MappedBuffer<D>, UploadError> {
        let Shared { allocator, desc, memory, state, .. } = &*self.shared;
        let info = BufferDesc::new(size).with_usage(desc.usage).into();
        let wanted = memory.clone().with_lifetime(lifetime);
        let made = MappedBuffer::new(allocator, &info, &wanted);
        // Created without the lock: the allocator may call the driver, and other arenas go on meanwhile.
        let State { free, statistics, .. } = &mut *locked(state);
        match made {
            Ok(page) => {
                statistics.made += 1;
                statistics.made_oversize += u64::from(size > desc.page_size);
                statistics.bytes += page.size();
                statistics.device_bytes += self.device_bytes(&page);
                statistics.peak_bytes = statistics.peak_bytes.max(statistics.bytes);
                if size == desc.page_size {
                    // All kept pages may be free at once later; the list must not grow then.
                    let most = statistics.bytes.min(desc.kept_bytes) / size;
                    free.reserve((most as usize).saturating_sub(free.len()));
                }
                Ok(page)
            }
            Err(error) => {
                statistics.failures += 1;
                Err(UploadError::Resource(error))
            }
        }
    }

    /// Returns the bytes of a page that are in device memory: all or none.
    fn device_bytes(&self, page: &MappedBuffer<D>) -> u64 {
        let found = self.shared.allocator.device().properties().memory_type(page.memory_type());
        let is_local = found.is_some_and(|it| it.properties.contains(MemoryProperties::DEVICE_LOCAL));
        if is_local { page.size() } else { 0 }
    }

    /// Adds a page to the free list, or destroys it if the list is full.
    fn keep(&self, page: MappedBuffer<D>) {
        let UploadPoolDesc { page_size, kept_bytes, .. } = self.shared.desc;
        let mut state = locked(&self.shared.state);
        let State { free, statistics, .. } = &mut *state;
        // Only pages of the usual size are kept, so that any free page fits any request.
        if page.size() == page_size && page_size <= kept_bytes - statistics.free_bytes {
            statistics.free_bytes += page_size;
            free.push(page);
        } else {
            statistics.bytes -= page.size();
            statistics.device_bytes -= self.device_bytes(&page);
            statistics.given_back += 1;
            // Dropping a page calls the allocator, so not under the lock.
            drop(state);
            drop(page);
        }
    }

    /// Retires the pages of one recording, which may be closed before or after.
    pub(super) fn retire(&self, recording: RecordingId, mut pages: Vec<MappedBuffer<D>>) {
        // Tied to the recording, not to the moment: other open recordings do not delay the pages.
        for page in pages.drain(..) {
            let size = page.size();
            self.shared.retired.retire_with_sized(recording, page, size);
        }
        if pages.capacity() > 0 {
            // Empty, but with its capacity: the next arena begins with it and allocates no host memory.
            locked(&self.shared.state).lists.push(pages);
        }
    }

    /// Returns an empty list, with the capacity of a dropped arena's list if there is one.
    pub(super) fn list(&self) -> Vec<MappedBuffer<D>> {
        locked(&self.shared.state).lists.pop().unwrap_or_default()
    }

    /// Returns shards without arenas, for a recording that several threads may use.
    pub(super) fn arena_shards(&self) -> ArenaShards<D> {
        let kept = locked(&self.shared.state).shards.pop();
        kept.unwrap_or_else(|| Shards::new(|| None))
    }

    /// Keeps shards for the next recording. They are without arenas.
    pub(super) fn keep_arena_shards(&self, shards: ArenaShards<D>) {
        locked(&self.shared.state).shards.push(shards);
    }

    /// For tests: checks that redundant state agrees.
    ///
    /// # Panics
    ///
    /// Panics if it does not, which is a bug of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let UploadPoolDesc { page_size, kept_bytes, .. } = self.shared.desc;
        let state = locked(&self.shared.state);
        let UploadPoolStatistics { bytes, peak_bytes, free_bytes, device_bytes, .. } = state.statistics;
        assert!(
            device_bytes <= bytes && state.free.iter().all(|page| self.device_bytes(page) <= device_bytes)
        );
        assert_eq!(free_bytes, state.free.iter().map(MappedBuffer::size).sum::<u64>());
        assert!(state.free.iter().all(|page| page.size() == page_size));
        assert!(free_bytes <= kept_bytes && free_bytes <= bytes && bytes <= peak_bytes);
        assert!(state.lists.iter().all(Vec::is_empty));
        assert!(state.shards.iter().flat_map(Shards::each).all(|arena| arena.is_none()));
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
