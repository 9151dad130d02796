//! Descriptors that the CPU keeps to copy from: views of resources, made when the resource is made.
//!
//! ```text
//!   page 0  single slots  ▓▓▓▓▓▓░▓▓░░░░░░░     a bit each: see `slot_set`
//!   page 1  runs          ▓▓▓▓ ▓▓░░▓▓▓ ░░░     ranges of more than one: a `VirtualBlock`
//!   page 2  ─                                  given back when it was empty; its number is used again
//!   page 3  a large run   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  of its own, and gone with it
//! ```
//!
//! A request goes to the first page that can serve it; whether one can is a number that is looked at, so no page is
//! tried in vain. A page that stays empty for some tens of [`reclaim`](CpuDescriptorHeap::reclaim)s is given back, but for
//! [a few](CpuDescriptorHeapDesc::reserve). A request that is larger than a page gets one of its own size, which is for such
//! requests alone, and the size of other pages stays what it is.
//!
//! # When may a slot be used again?
//!
//! At once, mostly: the GPU never reads here, and what is copied, or drawn to, is read when the call is made. So
//! [`free`](CpuDescriptorHeap::free) is for who has done all the copying that it wanted, and [`retire`](CpuDescriptorHeap::retire)
//! for who cannot know: for engines that record commands of their own first and translate them later.
//!
//! # Cost
//!
//! A slot is two atomic operations to take and two to give back, and some more where it comes back to a word that had
//! none: 35 to 90 ns together; through a [`CpuDescriptorCache`](super::CpuDescriptorCache), which a thread has for itself, 7 to
//! 20 ns. A run takes a lock, and the look at each
//! page with runs. A new page is a driver's heap.

mod pages;

use core::fmt;
use core::mem;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, RwLockReadGuard};

use self::pages::{LARGEST_PAGE, Page, PageHeap, Slot, TRIM_EVERY, Trim};

use super::device_heap::DeviceHeap;
use super::error::{DescriptorError, check_range};
use super::fill::DescriptorFill;
use super::free_slots::{FreeSlots, WORD};
use super::heap_desc::CpuDescriptorHeapDesc;
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::device::{DescriptorDevice, DescriptorHeapType};
use crate::lifetime::{Reclaimed, ReleaseQueue, SubmissionTracker};
use crate::memory::Allocator;
use crate::sync::locked;
use crate::table::AppendTable;

/// A range of a staging heap. Nobody else has it; it goes back to its heap by [`CpuDescriptorHeap::free`] or
/// [`CpuDescriptorHeap::retire`], and is missed there if it does not.
#[derive(Debug)]
#[must_use = "a range is given back to its heap"]
pub struct CpuDescriptorRange {
    /// Whose.
    heap: u64,
    page: u32,
    first: u32,
    /// 1 for a single slot, which has a bit; more for a run.
    count: u32,
    /// Whether all of it holds what its owner put there. What was there before may point at what is gone.
    written: bool,
}

impl CpuDescriptorRange {
    /// Descriptors.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Descriptors of one kind that the CPU copies from. Grows by pages.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::descriptor::{CpuDescriptorHeap, CpuDescriptorHeapDesc};
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{BufferUse, DescriptorHeapType, DescriptorDevice};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::memory::MappedBuffer;
/// use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// let heap = CpuDescriptorHeap::new(&allocator, &tracker, CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource))?;
///
/// let desc = AllocationDesc::new(Requirements::new(0), MemoryUsage::Upload);
/// let buffer = MappedBuffer::new(&allocator, &allotment::device::BufferDesc::new(256).into(), &desc)?;
/// let mut view = heap.allocate(1)?;
/// // SAFETY: the buffer is live, and the range lies in it.
/// let descriptor = unsafe { device.buffer_descriptor(buffer.handle(), 0..256, BufferUse::ReadOnly) };
/// heap.write(&mut view, 0, &descriptor)?;
/// assert_eq!(heap.statistics().used, 1);
/// heap.free(view)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CpuDescriptorHeap<D: DescriptorDevice> {
    allocator: Arc<Allocator<D>>,
    /// Other than that of any other heap.
    id: u64,
    heap_type: DescriptorHeapType,
    /// Pages of single slots have 2 to this many.
    page_shift: u32,
    reserve: u32,
    /// Free single slots. Slot `i` of page `p` has the number `(p << page_shift) + i`.
    singles: FreeSlots,
    /// By page.
    heaps: AppendTable<PageHeap<D>>,
    pages: Mutex<Vec<Slot>>,
    reclaims: AtomicU32,
    counts: Counts,
    retired: ReleaseQueue<CpuDescriptorRange>,
}

#[derive(Debug, Default)]
struct Counts {
    used: AtomicU32,
    peak: AtomicU32,
    /// The most since pages were last given back.
    lately: AtomicU32,
    retiring: AtomicU32,
    failures: AtomicU32,
}

impl Counts {
    #[inline]
    fn take(&self, count: u32) {
        let used = self.used.fetch_add(count, Relaxed) + count;
        // What was used lately is at most what was used ever.
        if used > self.lately.load(Relaxed) {
            self.lately.fetch_max(used, Relaxed);
            self.peak.fetch_max(used, Relaxed);
        }
    }
}

/// Numbers heaps. With 64 bits there is no end to them.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl<D: DescriptorDevice> CpuDescriptorHeap<D> {
    /// A heap with no page yet.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`] where the tracker is another device's.
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: CpuDescriptorHeapDesc,
    ) -> Result<Self, DescriptorError> {
        if !tracker.tracks(allocator.device()) {
            return Err(DescriptorError::Foreign);
        }
        Ok(Self {
            allocator: Arc::clone(allocator),
            id: NEXT.fetch_add(1, Relaxed),
            heap_type: desc.heap_type,
            page_shift: desc.page_size.clamp(WORD, LARGEST_PAGE).next_power_of_two().ilog2(),
            reserve: desc.reserve,
            singles: FreeSlots::new(),
            heaps: AppendTable::new(),
            pages: Mutex::new(Vec::new()),
            reclaims: AtomicU32::new(0),
            counts: Counts::default(),
            retired: ReleaseQueue::new(tracker),
        })
    }

    /// What it is of.
    #[must_use]
    pub fn heap_type(&self) -> DescriptorHeapType {
        self.heap_type
    }

    pub(super) fn device_id(&self) -> u64 {
        self.allocator.device().id()
    }

    fn page_size(&self) -> u32 {
        1 << self.page_shift
    }

    /// `count` descriptors in a row: of nothing, but for a single one, which has to be written before it is copied. Grows
    /// where there is no room.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Empty`], [`DescriptorError::NeverFits`] beyond 2^24, or the device refuses a new page.
    #[inline]
    pub fn allocate(&self, count: u32) -> Result<CpuDescriptorRange, DescriptorError> {
        if count == 1 {
            let slot = match self.singles.take() {
                Some(slot) => slot,
                None => self.take_from_new_page(FreeSlots::take)?,
            };
            self.counts.take(1);
            return Ok(self.single(slot));
        }
        let run = self.allocate_run(count);
        match run {
            Ok(run) => {
                self.counts.take(count);
                let mut unfilled = Unfilled { heap: self, run: Some(run) };
                // Who writes some of a run copies all of it.
                unfilled.run.iter_mut().try_for_each(|run| self.fill(run, DescriptorFill::Null))?;
                unfilled.run.take().ok_or(DescriptorError::Stale)
            }
            Err(error) => {
                self.counts.failures.fetch_add(1, Relaxed);
                Err(error)
            }
        }
    }

    #[inline]
    pub(super) fn single(&self, slot: u32) -> CpuDescriptorRange {
        let (page, first) = (slot >> self.page_shift, slot & (self.page_size() - 1));
        CpuDescriptorRange { heap: self.id, page, first, count: 1, written: false }
    }

    /// The number of a range that is a single slot of this heap.
    #[inline]
    pub(super) fn slot_of(&self, range: &CpuDescriptorRange) -> Option<u32> {
        (range.count == 1 && range.heap == self.id).then_some((range.page << self.page_shift) + range.first)
    }

    /// For a cache: the free slots of one word, whose first slot has this number.
    pub(super) fn take_word(&self) -> Result<(u32, u64), DescriptorError> {
        let (first, bits) = match self.singles.take_word() {
            Some(word) => word,
            None => self.take_from_new_page(FreeSlots::take_word)?,
        };
        self.counts.take(bits.count_ones());
        Ok((first, bits))
    }

    /// Slots of one word come back from a cache.
    pub(super) fn give_back_some(&self, first: u32, bits: u64) {
        self.counts.used.fetch_sub(bits.count_ones(), Relaxed);
        let all_were_taken = self.singles.give_back_some(first, bits);
        debug_assert!(all_were_taken, "a cache has its slots for itself");
    }

    /// Gives a range back, to be used again at once: nobody copies from it any more. For a single slot no lock is
    /// taken.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`] for a range of another heap, which is lost then.
    #[inline]
    pub fn free(&self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        if range.count > 1 {
            return self.free_run(&range);
        }
        let slot = self.slot_of(&range).ok_or(DescriptorError::Foreign)?;
        self.counts.used.fetch_sub(1, Relaxed);
        let was_taken = self.singles.give_back(slot);
        debug_assert!(was_taken, "a range exists once");
        Ok(())
    }

    /// Gives a range back when the recordings that are open now, and what they are submitted as, are over. See the
    /// [module](super) for who needs that.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`] for a range of another heap, which is lost then.
    pub fn retire(&self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        if range.heap != self.id {
            return Err(DescriptorError::Foreign);
        }
        self.counts.retiring.fetch_add(range.count, Relaxed);
        self.retired.retire(range);
        Ok(())
    }

    /// Takes back what was retired and is done with, and now and then gives back pages that have been empty for long,
    /// but for the reserve. Once a frame, say.
    pub fn reclaim(&self) -> Reclaimed {
        let reclaimed = self.retired.reclaim_here(|range| {
            self.counts.retiring.fetch_sub(range.count, Relaxed);
            let freed = self.free(range);
            debug_assert!(freed.is_ok(), "only what is ours was retired");
        });
        // Not each time, so that what comes and goes with each frame stays.
        if self.reclaims.fetch_add(1, Relaxed) % TRIM_EVERY == TRIM_EVERY - 1 {
            self.trim_to(Trim::Idle);
        }
        reclaimed
    }

    /// Gives back all pages that are empty.
    pub fn trim(&self) {
        self.trim_to(Trim::Empty);
    }

    /// Writes the `at`-th descriptor of a range.
    ///
    /// # Errors
    ///
    /// [`DescriptorError`]: the range is another heap's, it has no such descriptor, or the descriptor is of another kind.
    pub fn write(
        &self,
        range: &mut CpuDescriptorRange,
        at: u32,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(), DescriptorError> {
        check_range(at, 1, range.count)?;
        let all = range.count == 1;
        self.change(range, all, |heap, range| {
            // SAFETY: the range is borrowed mutably, and there is only one of it; no GPU reads staging heaps.
            unsafe { heap.write(range.start + at, descriptor) }
        })
    }

    /// Does something that changes what a range holds, all of it perhaps. Should the device panic meanwhile, the range
    /// counts as not written, so that nothing is copied of which the caller thinks that it was not written.
    fn change(
        &self,
        range: &mut CpuDescriptorRange,
        all: bool,
        change: impl FnOnce(&DeviceHeap<D>, Range<u32>) -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let before = mem::replace(&mut range.written, false);
        let changed = self.heap_of(range).and_then(|heap| {
            let heap = heap.as_ref().ok_or(DescriptorError::Stale)?;
            change(heap, range.first..range.first + range.count)
        });
        range.written = before || all && changed.is_ok();
        changed
    }

    /// Makes all descriptors of a range what `fill` says.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`].
    pub fn fill(&self, range: &mut CpuDescriptorRange, fill: DescriptorFill) -> Result<(), DescriptorError> {
        self.change(range, fill != DescriptorFill::Leave, |heap, range| {
            // SAFETY: as in `write`.
            unsafe { heap.fill(range, fill) }
        })
    }

    /// Where the first descriptor of a range is, to the CPU: what an API's calls for render targets want. 0 where the
    /// device has no addresses.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`].
    pub fn address(&self, range: &CpuDescriptorRange) -> Result<u64, DescriptorError> {
        self.with(range, |heap, first| {
            let stride = heap.device().descriptor_limits().stride(self.heap_type);
            match heap.address().cpu {
                0 => 0,
                cpu => cpu + u64::from(first) * u64::from(stride),
            }
        })
    }

    /// The device's heap that a range is in, and its place there: for calls of the API itself.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Foreign`].
    pub fn with_heap<R>(
        &self,
        range: &CpuDescriptorRange,
        f: impl FnOnce(&D::DescriptorHeap, u32) -> R,
    ) -> Result<R, DescriptorError> {
        self.with(range, |heap, first| f(heap.raw(), first))
    }

    /// The same, for who copies from there: all of it is written.
    pub(super) fn copied<R>(
        &self,
        range: &CpuDescriptorRange,
        f: impl FnOnce(&DeviceHeap<D>, u32) -> R,
    ) -> Result<R, DescriptorError> {
        if range.written { self.with(range, f) } else { Err(DescriptorError::Unwritten) }
    }

    fn with<R>(
        &self,
        range: &CpuDescriptorRange,
        f: impl FnOnce(&DeviceHeap<D>, u32) -> R,
    ) -> Result<R, DescriptorError> {
        let heap = self.heap_of(range)?;
        heap.as_ref().map(|heap| f(heap, range.first)).ok_or(DescriptorError::Stale)
    }

    /// There as long as the range is.
    fn heap_of(
        &self,
        range: &CpuDescriptorRange,
    ) -> Result<RwLockReadGuard<'_, Option<DeviceHeap<D>>>, DescriptorError> {
        let cell = self.heaps.get(range.page).filter(|_| range.heap == self.id);
        cell.map(PageHeap::read).ok_or(DescriptorError::Foreign)
    }

    /// How full it is. Walks the pages.
    #[must_use]
    pub fn statistics(&self) -> DescriptorHeapStatistics {
        let (mut capacity, mut largest, mut count) = (0, 0, 0);
        let pages = locked(&self.pages);
        for (at, slot) in pages.iter().enumerate() {
            match &slot.page {
                Page::Vacant => continue,
                Page::Singles => {
                    capacity = u32::saturating_add(capacity, self.page_size());
                    let first = (at as u32) << self.page_shift;
                    largest = largest.max(u32::from(self.singles.free(first, self.page_size()) > 0));
                }
                Page::Runs(runs) => {
                    capacity = u32::saturating_add(capacity, runs.block.size() as u32);
                    largest = largest.max(runs.block.largest_free() as u32);
                }
            }
            count += 1;
        }
        let usage = Usage {
            used: self.counts.used.load(Relaxed).min(capacity),
            peak: self.counts.peak.load(Relaxed),
            retiring: self.counts.retiring.load(Relaxed),
            failures: self.counts.failures.load(Relaxed).into(),
        };
        usage.statistics(capacity, largest, count)
    }
}

/// A run that nobody has yet, which goes back where it cannot be filled.
struct Unfilled<'a, D: DescriptorDevice> {
    heap: &'a CpuDescriptorHeap<D>,
    /// Taken out once it is filled.
    run: Option<CpuDescriptorRange>,
}

impl<D: DescriptorDevice> Drop for Unfilled<'_, D> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            let freed = self.heap.free(run);
            debug_assert!(freed.is_ok(), "it is this heap's");
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
