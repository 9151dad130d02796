//! CPU descriptors: views of resources, created with the resource, from which shader-visible descriptors are
//! copied.
//!
//! ```text
//!   page 0  single slots  ▓▓▓▓▓▓░▓▓░░░░░░░     a bit each: see `free_slots`
//!   page 1  runs          ▓▓▓▓ ▓▓░░▓▓▓ ░░░     ranges of more than one: a `VirtualBlock`
//!   page 2  ─                                  destroyed when it was empty; its number is reused
//!   page 3  a large run   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  a page of its size, destroyed with it
//! ```
//!
//! A request is served by the first page with room for it; a counter per page tells whether it has room, so no
//! page is searched in vain. A page that stays empty for some tens of [`reclaim`](CpuDescriptorHeap::reclaim)s
//! is destroyed, except for [a reserve](CpuDescriptorHeapDesc::reserve). A request that is larger than a page
//! gets a page of its own size, which serves only such requests; the size of other pages does not change.
//!
//! # When a slot can be reused
//!
//! Mostly at once: the GPU never reads these heaps, and copies and render targets are read when the call is
//! made. So [`free`](CpuDescriptorHeap::free) a range after the last copy from it.
//! [`retire`](CpuDescriptorHeap::retire) is for engines that record commands of their own and translate them
//! later, and so do not know when the last copy is made. A range that is dropped is retired, on whatever thread.
//!
//! # Cost
//!
//! Allocating a slot takes one atomic operation and freeing it one, on memory that other threads seldom write
//! (`magazines`): 7 to 15 ns together. A run takes a lock, and a look at each page with runs and at each thread's free
//! slots. A new page is a heap of the driver. A range that is dropped takes two locks, one of them for all heaps of the
//! process.

mod events;
mod magazines;
mod pages;
mod retired;

use core::fmt;
use core::mem;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, RwLockReadGuard};

use self::events::PageEvents;
use self::magazines::Magazine;
use self::pages::{LARGEST_PAGE, Page, PageHeap, PageTable, TRIM_EVERY, Trim};
use self::retired::RetiredRanges;

use super::device_heap::DeviceHeap;
use super::error::{DescriptorError, check_range};
use super::fill::DescriptorFill;
use super::free_slots::{FreeSlots, WORD};
use super::heap_desc::CpuDescriptorHeapDesc;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::device::{DescriptorDevice, DescriptorHeapType};
use crate::lifetime::{Reclaimed, SubmissionTracker};
use crate::memory::{Allocator, DescriptorSites, HasDescriptors, LeakedDescriptors, ShortName};
use crate::sync::locked;
use crate::sync::shards::Shards;
use crate::table::StableTable;

/// An owned range of a CPU heap. Dropping it, on any thread, [retires](CpuDescriptorHeap::retire) it: it is reused once the
/// GPU has finished with what is recorded or submitted then. [`CpuDescriptorHeap::free`] makes it reusable at once, and costs
/// less.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::DescriptorHeapType;
///
/// let targets = gpu.descriptors()?.cpu_heap(DescriptorHeapType::RenderTarget);
/// let views = targets.allocate(3)?; // one for each image of a swapchain
/// assert_eq!(views.count(), 3);
/// targets.free(views)?; // moved: no view can be freed twice
/// drop(targets.allocate(1)?); // comes back with a later `reclaim`
/// assert_eq!(targets.statistics().retiring, 1);
/// gpu.reclaim();
/// assert_eq!(targets.statistics().used, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a range that is dropped is retired"]
pub struct CpuDescriptorRange {
    /// The number of its heap.
    heap: u64,
    range: PageRange,
    /// Whether its owner has written all of it. The previous contents may refer to destroyed resources.
    written: bool,
}

/// Descriptors of a page, which one owner has.
#[derive(Clone, Copy, Debug)]
struct PageRange {
    page: u32,
    first: u32,
    /// 1 for a single slot, which has a bit in `singles`; more for a run.
    count: u32,
}

impl CpuDescriptorRange {
    fn new(heap: u64, range: PageRange) -> Self {
        Self { heap, range, written: false }
    }

    /// Returns the number of descriptors.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.range.count
    }

    /// Returns the descriptors, which are not retired.
    #[inline]
    fn into_range(self) -> PageRange {
        let range = self.range;
        mem::forget(self);
        range
    }
}

impl PageRange {
    /// Returns the key of its call site.
    fn site(self) -> u64 {
        u64::from(self.page) << 32 | u64::from(self.first)
    }
}

/// A heap of CPU descriptors of one type. Grows by pages.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::descriptor::{CpuDescriptorHeap, CpuDescriptorHeapDesc};
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferUse, DescriptorHeapType, DescriptorDevice};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::memory::MappedBuffer;
/// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// let heap = CpuDescriptorHeap::new(&allocator, &tracker, CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource))?;
///
/// let desc = AllocationOptions::new(MemoryUsage::Upload);
/// let buffer = MappedBuffer::new(&allocator, &allotment::device::BufferDesc::new(256).into(), &desc)?;
/// let mut view = heap.allocate(1)?;
/// let handle = buffer.handle();
/// // SAFETY: the buffer is live, and the range lies in it.
/// let descriptor = unsafe { device.buffer_descriptor(&handle, 0..256, BufferUse::ReadOnly) };
/// heap.write(&mut view, 0, &descriptor)?;
/// assert_eq!(heap.statistics().used, 1);
/// heap.free(view)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CpuDescriptorHeap<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    heap_type: DescriptorHeapType,
    reserve: u32,
    /// Shared with the list of what announces itself to a reader of events, which knows nothing of the device.
    slots: Arc<Slots>,
    /// The device's heaps, by page.
    heaps: StableTable<PageHeap<D>>,
    reclaims: AtomicU32,
    /// Found by ranges that are dropped.
    retired: Arc<RetiredRanges>,
}

/// Which descriptors are in use.
#[derive(Debug)]
struct Slots {
    /// The binary logarithm of the size of pages with single slots.
    page_shift: u32,
    /// A reader of events may know the slots. Written under the lock of the pages.
    is_observed: AtomicBool,
    /// Free single slots. Slot `i` of page `p` has the number `(p << page_shift) + i`.
    singles: FreeSlots,
    /// Further free slots, which threads keep ready.
    magazines: Shards<Magazine>,
    counts: Counts,
    pages: Mutex<PageTable>,
    heap_type: DescriptorHeapType,
    sites: DescriptorSites,
}

#[derive(Debug, Default)]
struct Counts {
    /// Includes the slots in magazines.
    used: AtomicU32,
    peak: AtomicU32,
    /// The maximum in use since pages were last trimmed.
    lately: AtomicU32,
    retiring: AtomicU32,
    failures: AtomicU32,
}

impl Counts {
    #[inline]
    fn take(&self, count: u32) {
        self.raise(self.used.fetch_add(count, Relaxed) + count);
    }

    /// Raises the maxima to what is in use.
    #[inline]
    fn raise(&self, used: u32) {
        // The recent maximum is at most the overall one, so one comparison decides about both.
        if used > self.lately.load(Relaxed) {
            self.lately.fetch_max(used, Relaxed);
            self.peak.fetch_max(used, Relaxed);
        }
    }
}

impl HasDescriptors for Slots {
    fn live(&self) -> Vec<LeakedDescriptors> {
        let heap = match self.heap_type {
            DescriptorHeapType::Resource => "CPU descriptors for resources",
            DescriptorHeapType::Sampler => "CPU descriptors for samplers",
            DescriptorHeapType::RenderTarget => "CPU descriptors for render targets",
            DescriptorHeapType::DepthStencil => "CPU descriptors for depth and stencil",
        };
        let ready = self.look_at_magazines();
        let counts = &self.counts;
        let others = ready + counts.retiring.load(Relaxed);
        self.sites.live(heap, counts.used.load(Relaxed).saturating_sub(others), ..)
    }
}

impl<D: DescriptorDevice> CpuDescriptorHeap<D> {
    /// Creates a heap without pages. A reader of the allocator's [events](Allocator::subscribe) sees each page, and what is
    /// in use in it.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongDevice`] if the tracker belongs to another device.
    #[inline(never)]
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: CpuDescriptorHeapDesc,
    ) -> Result<Self, DescriptorError> {
        if !tracker.tracks(allocator.device()) {
            return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
        }
        let log = allocator.events();
        let slots = Arc::new(Slots {
            // Whole words of the free slots, and a power of two: a slot number splits into page and index by a
            // shift and a mask.
            page_shift: desc.page_size.clamp(WORD, LARGEST_PAGE).next_power_of_two().ilog2(),
            is_observed: AtomicBool::new(false),
            singles: FreeSlots::new(),
            magazines: Shards::new(Magazine::new).all_used(),
            counts: Counts::default(),
            pages: Mutex::new(PageTable { slots: Vec::new(), events: PageEvents::new(log, desc.heap_type) }),
            heap_type: desc.heap_type,
            sites: DescriptorSites::new(allocator.desc().call_sites),
        });
        log.parts().add(&slots);
        allocator.descriptor_heaps().add(&slots);
        Ok(Self {
            allocator: Arc::clone(allocator),
            heap_type: desc.heap_type,
            reserve: desc.reserve,
            retired: RetiredRanges::new(&slots, tracker),
            slots,
            heaps: StableTable::new(),
            reclaims: AtomicU32::new(0),
        })
    }

    /// Returns the type of the heap.
    #[must_use]
    pub fn heap_type(&self) -> DescriptorHeapType {
        self.heap_type
    }

    pub(super) fn device_id(&self) -> u64 {
        self.allocator.device().id()
    }

    fn page_size(&self) -> u32 {
        self.slots.page_size()
    }

    /// Allocates `count` adjacent descriptors: null descriptors, except that a single one has to be written
    /// before it is copied. Adds a page if no page has room.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`], [`DescriptorError::NeverFits`] beyond 2^24, or the device's error for a new
    /// page.
    #[inline]
    #[track_caller]
    pub fn allocate(&self, count: u32) -> Result<CpuDescriptorRange, DescriptorError> {
        // Single slots, the common request, take no lock.
        if count == 1 {
            let slot = match self.slots.take_ready() {
                Some(slot) => slot,
                None => self.take_single()?,
            };
            let range = self.single(slot);
            self.slots.sites.note(range.range.site(), 1);
            return Ok(range);
        }
        let run = self.allocate_run(count);
        match run {
            Ok(run) => {
                self.slots.count_run(count);
                // Filled last, with the run owned by a guard: should the device panic, the run is freed.
                let mut unfilled = Unfilled { heap: self, run: Some(run) };
                // A caller that writes only a part of a run may copy all of it, so all of it is filled.
                unfilled.run.iter_mut().try_for_each(|run| self.fill(run, DescriptorFill::Null))?;
                let run = unfilled.run.take().ok_or(DescriptorError::Stale)?;
                self.slots.sites.note(run.range.site(), count);
                Ok(run)
            }
            Err(error) => {
                self.slots.counts.failures.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    /// Takes a slot where none is kept ready, and keeps the others of its word ready.
    #[cold]
    fn take_single(&self) -> Result<u32, DescriptorError> {
        let slots = &*self.slots;
        // A reader of events would be told of slots that are kept ready as of slots in use.
        if slots.is_observed.load(SeqCst) {
            let slot = match slots.singles.take() {
                Some(slot) => slot,
                None => self.take_from_new_page(FreeSlots::take)?,
            };
            slots.changed(slot);
            slots.counts.take(1);
            return Ok(slot);
        }
        let (first, bits) = match slots.singles.take_word() {
            Some(word) => word,
            None => self.take_from_new_page(FreeSlots::take_word)?,
        };
        slots.keep_rest(first, bits & (bits - 1));
        // For a reader that came meanwhile.
        slots.changed(first);
        Ok(first + bits.trailing_zeros())
    }

    #[inline]
    fn single(&self, slot: u32) -> CpuDescriptorRange {
        let (page, first) = self.slots.locate(slot);
        self.range(PageRange { page, first, count: 1 })
    }

    /// Returns the owner of descriptors that were taken.
    #[inline]
    fn range(&self, range: PageRange) -> CpuDescriptorRange {
        CpuDescriptorRange::new(self.retired.heap, range)
    }

    /// Returns the descriptors of a range of this heap, which are not retired. A range of another heap is dropped.
    #[inline]
    fn take(&self, range: CpuDescriptorRange) -> Result<PageRange, DescriptorError> {
        if range.heap == self.retired.heap { Ok(range.into_range()) } else { Err(DescriptorError::WrongHeap) }
    }

    /// Frees a range, to be reused at once: no copy from it may follow. Takes no lock for a single slot.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`] for a range of another heap, which that heap retires.
    #[inline]
    pub fn free(&self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        let range = self.take(range)?;
        self.slots.sites.forget(range.site());
        self.free_range(range)
    }

    #[inline]
    fn free_range(&self, range: PageRange) -> Result<(), DescriptorError> {
        if range.count > 1 {
            return self.free_run(range);
        }
        let slot = (range.page << self.slots.page_shift) + range.first;
        if !self.slots.keep_ready(slot) {
            // Counted down first: a thread that takes the slot would otherwise count it twice and raise the peak.
            self.slots.counts.used.fetch_sub(1, Relaxed);
            let was_taken = self.slots.give_back_some(slot / WORD * WORD, 1 << (slot % WORD));
            debug_assert!(was_taken, "the caller owns the slot");
        }
        Ok(())
    }

    /// Frees a range once all recordings that are open now, and their submissions, have completed, as dropping it does, at
    /// less cost. See the [module](super) for when that is needed.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`] for a range of another heap, which that heap retires.
    pub fn retire(&self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        self.retired.retire(self.take(range)?);
        Ok(())
    }

    /// Frees retired ranges that the GPU has finished with, and from time to time destroys pages that have long
    /// been empty, except for the reserve. Call it once per frame. Requests that find nothing free do the former too.
    pub fn reclaim(&self) -> Reclaimed {
        let reclaimed = self.free_retired();
        // Not in every call, so that pages which each frame fills and empties stay.
        if self.reclaims.fetch_add(1, Relaxed) % TRIM_EVERY == TRIM_EVERY - 1 {
            self.trim_to(Trim::Idle);
        }
        reclaimed
    }

    fn free_retired(&self) -> Reclaimed {
        // A driver call otherwise.
        if self.slots.counts.retiring.load(Relaxed) == 0 {
            return Reclaimed::default();
        }
        self.retired.queue.reclaim_here(|range| {
            self.slots.counts.retiring.fetch_sub(range.count, Relaxed);
            let freed = self.free_range(range);
            debug_assert!(freed.is_ok(), "only what is ours was retired");
        })
    }

    /// Destroys all empty pages.
    pub fn trim(&self) {
        self.trim_to(Trim::Empty);
    }

    /// Writes the `at`-th descriptor of a range.
    ///
    /// # Errors
    ///
    /// [`DescriptorError`] if the range belongs to another heap or has no such descriptor, or if the descriptor
    /// is of another type.
    pub fn write(
        &self,
        range: &mut CpuDescriptorRange,
        at: u32,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(), DescriptorError> {
        check_range(at, 1, range.count())?;
        let all = range.count() == 1;
        self.change(range, all, |heap, range| {
            // SAFETY: the range is borrowed mutably and exists once, so no other thread writes it; no GPU reads
            // CPU heaps.
            unsafe { heap.write(range.start + at, descriptor) }
        })
    }

    /// Runs a write to a range, to all of it if `all`. If the device panics meanwhile, the range counts as not
    /// written, so that no descriptor is copied that the caller believes was not written.
    fn change(
        &self,
        range: &mut CpuDescriptorRange,
        all: bool,
        change: impl FnOnce(&DeviceHeap<D>, Range<u32>) -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let before = mem::replace(&mut range.written, false);
        let changed = self.heap_of(range).and_then(|heap| {
            let heap = heap.as_ref().ok_or(DescriptorError::Stale)?;
            let PageRange { first, count, .. } = range.range;
            change(heap, first..first + count)
        });
        // A range that was all written stays so after a partial write.
        range.written = before || all && changed.is_ok();
        changed
    }

    /// Fills all descriptors of a range.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`].
    pub fn fill(&self, range: &mut CpuDescriptorRange, fill: DescriptorFill) -> Result<(), DescriptorError> {
        self.change(range, fill != DescriptorFill::Leave, |heap, range| {
            // SAFETY: as in `write`.
            unsafe { heap.fill(range, fill) }
        })
    }

    /// Overwrites the `at`-th descriptor of a range with a null descriptor.
    pub(super) fn clear(&self, range: &mut CpuDescriptorRange, at: u32) -> Result<(), DescriptorError> {
        check_range(at, 1, range.count())?;
        let all = range.count() == 1;
        self.change(range, all, |heap, range| {
            let one = range.start + at..range.start + at + 1;
            // SAFETY: as in `write`.
            unsafe { heap.fill(one, DescriptorFill::Null) }
        })
    }

    /// Returns the CPU address of the first descriptor of a range, as an API's calls for render targets take
    /// it. 0 if the device has no such addresses.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`].
    pub fn address(&self, range: &CpuDescriptorRange) -> Result<u64, DescriptorError> {
        self.with(range, |heap, first| {
            let stride = heap.device().descriptor_limits().stride(self.heap_type);
            match heap.address().cpu {
                0 => 0,
                cpu => cpu + u64::from(first) * u64::from(stride),
            }
        })
    }

    /// Calls `f` with the device's heap of a range and the index of its first descriptor in it, for calls of
    /// the API itself.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`].
    pub fn with_heap<R>(
        &self,
        range: &CpuDescriptorRange,
        f: impl FnOnce(&D::DescriptorHeap, u32) -> R,
    ) -> Result<R, DescriptorError> {
        self.with(range, |heap, first| f(heap.raw(), first))
    }

    /// Calls `f` with the heap and index of a range to copy from, all of which is written.
    pub(super) fn copied<R>(
        &self,
        range: &CpuDescriptorRange,
        f: impl FnOnce(&DeviceHeap<D>, u32) -> R,
    ) -> Result<R, DescriptorError> {
        // An unwritten descriptor may be that of a resource which is destroyed by now.
        if range.written { self.with(range, f) } else { Err(DescriptorError::Unwritten) }
    }

    fn with<R>(
        &self,
        range: &CpuDescriptorRange,
        f: impl FnOnce(&DeviceHeap<D>, u32) -> R,
    ) -> Result<R, DescriptorError> {
        let heap = self.heap_of(range)?;
        heap.as_ref().map(|heap| f(heap, range.range.first)).ok_or(DescriptorError::Stale)
    }

    /// Locks the device's heap of a range. The heap exists as long as the range does.
    fn heap_of(
        &self,
        range: &CpuDescriptorRange,
    ) -> Result<RwLockReadGuard<'_, Option<DeviceHeap<D>>>, DescriptorError> {
        let cell = self.heaps.get(range.range.page).filter(|_| range.heap == self.retired.heap);
        cell.map(PageHeap::read).ok_or(DescriptorError::WrongHeap)
    }

    /// Returns how full the heap is. Walks the pages.
    #[must_use]
    pub fn statistics(&self) -> DescriptorHeapStatistics {
        let ready = self.slots.look_at_magazines();
        let (mut capacity, mut largest, mut count) = (0, u32::from(ready > 0), 0);
        let pages = locked(&self.slots.pages);
        for (at, slot) in pages.slots.iter().enumerate() {
            match &slot.page {
                Page::Vacant => continue,
                Page::Singles { .. } => {
                    capacity = u32::saturating_add(capacity, self.page_size());
                    let first = (at as u32) << self.slots.page_shift;
                    largest = largest.max(u32::from(self.slots.singles.free(first, self.page_size()) > 0));
                }
                Page::Runs(runs) => {
                    capacity = u32::saturating_add(capacity, runs.block.size() as u32);
                    largest = largest.max(runs.block.largest_free() as u32);
                }
            }
            count += 1;
        }
        let usage = Usage {
            // Slots may be taken between the two reads.
            used: self.slots.counts.used.load(Relaxed).saturating_sub(ready).min(capacity),
            peak: self.slots.counts.peak.load(Relaxed),
            retiring: self.slots.counts.retiring.load(Relaxed),
            failures: self.slots.counts.failures.load(Relaxed).into(),
        };
        usage.statistics(capacity, largest, count)
    }
}

impl<D: DescriptorDevice> Drop for CpuDescriptorHeap<D> {
    #[inline(never)]
    fn drop(&mut self) {
        self.allocator.descriptor_heaps().note_left(self.slots.live());
        locked(&self.slots.pages).destroyed();
    }
}

/// A new run that is freed again if it cannot be filled.
struct Unfilled<'a, D: DescriptorDevice> {
    heap: &'a CpuDescriptorHeap<D>,
    /// `None` once the run is filled.
    run: Option<CpuDescriptorRange>,
}

impl<D: DescriptorDevice> Drop for Unfilled<'_, D> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            let freed = self.heap.free(run);
            debug_assert!(freed.is_ok(), "the run belongs to this heap");
        }
    }
}

impl<D: DescriptorDevice> fmt::Debug for CpuDescriptorHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuDescriptorHeap")
            .field("heap_type", &self.heap_type)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
