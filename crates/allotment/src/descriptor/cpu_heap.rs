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

use core::fmt;
use core::mem;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use allotment_suballoc::{Algorithm, Handle, Request, VirtualBlock};

use super::error::{DescriptorError, check_range};
use super::heap::{DeviceHeap, Fill};
use super::slot_set::{SlotSet, WORD};
use super::statistics::{DescriptorHeapStatistics, Usage};
use crate::device::{DescriptorDevice, DescriptorHeapType, DescriptorHeapVisibility};
use crate::lifetime::{Reclaimed, ReleaseQueue, SubmissionTracker};
use crate::memory::Allocator;
use crate::sync::locked;
use crate::table::AppendTable;

/// A staging heap to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuDescriptorHeapDesc {
    /// What it is of.
    pub kind: DescriptorHeapType,
    /// Descriptors of a page: rounded up to a power of two, at least 64.
    pub page_size: u32,
    /// Pages that are kept though they are empty, of each sort.
    pub reserve: u32,
}

impl CpuDescriptorHeapDesc {
    /// A heap of a kind, with pages of a size that engines do well with: 8,192 resources, 1,024 of the others.
    #[must_use]
    pub fn new(kind: DescriptorHeapType) -> Self {
        let page_size = if kind == DescriptorHeapType::Resource { 8192 } else { 1024 };
        Self { kind, page_size, reserve: 1 }
    }

    /// The same with pages of another size.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    /// The same with so many empty pages kept.
    #[must_use]
    pub fn with_reserve(mut self, reserve: u32) -> Self {
        self.reserve = reserve;
        self
    }
}

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
/// use allotment::{AllocationOptions, Allocator, AllocatorDesc, MemoryUsage};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// let heap = CpuDescriptorHeap::new(&allocator, &tracker, CpuDescriptorHeapDesc::new(DescriptorHeapType::Resource))?;
///
/// let desc = AllocationOptions::new(MemoryUsage::Upload);
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
    kind: DescriptorHeapType,
    /// Pages of single slots have 2 to this many.
    page_shift: u32,
    reserve: u32,
    /// Free single slots. Slot `i` of page `p` has the number `(p << page_shift) + i`.
    singles: SlotSet,
    /// By page.
    heaps: AppendTable<PageHeap<D>>,
    pages: Mutex<Vec<Slot>>,
    reclaims: AtomicU32,
    counts: Counts,
    retired: ReleaseQueue<CpuDescriptorRange>,
}

/// The device's heap of a page, while there is one. Who has a range of the page can rely on it.
struct PageHeap<D: DescriptorDevice>(RwLock<Option<DeviceHeap<D>>>);

impl<D: DescriptorDevice> Default for PageHeap<D> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<D: DescriptorDevice> PageHeap<D> {
    fn read(&self) -> RwLockReadGuard<'_, Option<DeviceHeap<D>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, heap: Option<DeviceHeap<D>>) -> Option<DeviceHeap<D>> {
        mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), heap)
    }
}

/// A page, or room for one.
#[derive(Debug)]
struct Slot {
    page: Page,
    /// Of runs: it was empty when that was last looked at, and none was taken from it since.
    idle: bool,
}

/// Runs of a page.
#[derive(Debug)]
struct Runs {
    block: VirtualBlock<()>,
    /// What the block calls them, by their first descriptor.
    handles: HashMap<u32, Handle>,
}

/// Which pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trim {
    /// Those that were empty since the last time, beyond the reserve.
    Idle,
    /// All that are empty.
    Empty,
}

/// Calls of `reclaim` between two looks at which pages are empty: a page that is empty at two of them goes.
const TRIM_EVERY: u32 = 32;

/// What a page is for.
#[derive(Debug)]
enum Page {
    /// There is no heap.
    Vacant,
    Singles,
    /// Ranges of more than one.
    Runs(Box<Runs>),
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
    /// [`DescriptorError::WrongDevice`] where the tracker is another device's.
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: CpuDescriptorHeapDesc,
    ) -> Result<Self, DescriptorError> {
        if !tracker.tracks(allocator.device()) {
            return Err(DescriptorError::WrongDevice);
        }
        Ok(Self {
            allocator: Arc::clone(allocator),
            id: NEXT.fetch_add(1, Relaxed),
            kind: desc.kind,
            page_shift: desc.page_size.clamp(WORD, LARGEST_PAGE).next_power_of_two().ilog2(),
            reserve: desc.reserve,
            singles: SlotSet::new(),
            heaps: AppendTable::new(),
            pages: Mutex::new(Vec::new()),
            reclaims: AtomicU32::new(0),
            counts: Counts::default(),
            retired: ReleaseQueue::new(tracker),
        })
    }

    /// What it is of.
    #[must_use]
    pub fn kind(&self) -> DescriptorHeapType {
        self.kind
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
                None => self.take_from_new_page(SlotSet::take)?,
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
                unfilled.run.iter_mut().try_for_each(|run| self.fill(run, Fill::Null))?;
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
            None => self.take_from_new_page(SlotSet::take_word)?,
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

    /// Gets pages of single slots until `take` finds something there.
    #[cold]
    fn take_from_new_page<T>(&self, take: impl Fn(&SlotSet) -> Option<T>) -> Result<T, DescriptorError> {
        loop {
            if let Err(error) = self.add_page(self.page_size(), |page| {
                let first = page << self.page_shift;
                self.singles.add(first..first + self.page_size());
                Page::Singles
            }) {
                self.counts.failures.fetch_add(1, Relaxed);
                return Err(error);
            }
            // Others may have been faster.
            if let Some(taken) = take(&self.singles) {
                return Ok(taken);
            }
        }
    }

    /// Gets a page from the driver, with no lock held, and makes it what `make` says.
    fn add_page(&self, size: u32, make: impl FnOnce(u32) -> Page) -> Result<u32, DescriptorError> {
        let heap = DeviceHeap::new(&self.allocator, DescriptorHeapVisibility::CpuOnly(self.kind), size)?;
        let mut pages = locked(&self.pages);
        let vacant = pages.iter().position(|slot| matches!(slot.page, Page::Vacant));
        let page = vacant.unwrap_or(pages.len()) as u32;
        let most = u32::MAX >> self.page_shift;
        let cell = self.heaps.get_or_make(page).filter(|_| page < most);
        let cell = cell.ok_or(DescriptorError::NeverFits { requested: size, capacity: u32::MAX })?;
        cell.replace(Some(heap));
        let made = Slot { page: make(page), idle: false };
        match vacant {
            Some(vacant) => pages[vacant] = made,
            None => pages.push(made),
        }
        Ok(page)
    }

    fn allocate_run(&self, count: u32) -> Result<CpuDescriptorRange, DescriptorError> {
        match count {
            0 => return Err(DescriptorError::Empty),
            1..=LARGEST_PAGE => {}
            requested => return Err(DescriptorError::NeverFits { requested, capacity: LARGEST_PAGE }),
        }
        loop {
            if let Some(range) = self.take_run(&mut locked(&self.pages), count) {
                return Ok(range);
            }
            let size = count.max(self.page_size());
            let block = VirtualBlock::new(u64::from(size), Algorithm::Tlsf);
            let block =
                block.map_err(|_| DescriptorError::NeverFits { requested: count, capacity: LARGEST_PAGE })?;
            let runs = Box::new(Runs { block, handles: HashMap::new() });
            self.add_page(size, |_| Page::Runs(runs))?;
        }
    }

    /// A run in the first page that has room for it.
    fn take_run(&self, pages: &mut [Slot], count: u32) -> Option<CpuDescriptorRange> {
        let size = u64::from(count);
        pages.iter_mut().enumerate().find_map(|(page, found)| {
            let Page::Runs(runs) = &mut found.page else { return None };
            let Runs { block, handles } = &mut **runs;
            // A large page is for large runs, so that it goes with them.
            let is_large = block.size() > u64::from(self.page_size());
            if !block.may_fit(size) || is_large && count <= self.page_size() {
                return None;
            }
            let run = block.allocate(Request::new(size), ()).ok()?;
            let (page, first) = (page as u32, run.offset as u32);
            handles.insert(first, run.handle);
            found.idle = false;
            Some(CpuDescriptorRange { heap: self.id, page, first, count, written: false })
        })
    }

    /// Gives a range back, to be used again at once: nobody copies from it any more. For a single slot no lock is
    /// taken.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`] for a range of another heap, which is lost then.
    #[inline]
    pub fn free(&self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        if range.count > 1 {
            return self.free_run(&range);
        }
        let slot = self.slot_of(&range).ok_or(DescriptorError::WrongHeap)?;
        self.counts.used.fetch_sub(1, Relaxed);
        let was_taken = self.singles.give_back(slot);
        debug_assert!(was_taken, "a range exists once");
        Ok(())
    }

    fn free_run(&self, range: &CpuDescriptorRange) -> Result<(), DescriptorError> {
        if range.heap != self.id {
            return Err(DescriptorError::WrongHeap);
        }
        let mut pages = locked(&self.pages);
        let Some(Page::Runs(runs)) = pages.get_mut(range.page as usize).map(|slot| &mut slot.page) else {
            return Err(DescriptorError::Stale);
        };
        let Runs { block, handles } = &mut **runs;
        let handle = handles.remove(&range.first).ok_or(DescriptorError::Stale)?;
        block.free(handle).map_err(|_| DescriptorError::Stale)?;
        self.counts.used.fetch_sub(range.count, Relaxed);
        Ok(())
    }

    /// Gives a range back when the recordings that are open now, and what they are submitted as, are over. See the
    /// [module](super) for who needs that.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`] for a range of another heap, which is lost then.
    pub fn retire(&self, range: CpuDescriptorRange) -> Result<(), DescriptorError> {
        if range.heap != self.id {
            return Err(DescriptorError::WrongHeap);
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

    fn trim_to(&self, which: Trim) {
        let mut taken = Vec::new();
        let mut kept = [0; 2];
        let mut pages = locked(&self.pages);
        // Pages of single slots that are not needed as long as no more is used than lately.
        let lately = self.counts.lately.swap(self.counts.used.load(Relaxed), Relaxed);
        let singles = pages.iter().filter(|slot| matches!(slot.page, Page::Singles)).count() as u32;
        let mut spare = singles.saturating_sub(lately.div_ceil(self.page_size()));
        for (at, slot) in pages.iter_mut().enumerate() {
            let first = (at as u32) << self.page_shift;
            let (sort, empty, is_large) = match &slot.page {
                Page::Vacant => continue,
                Page::Singles => (0, self.singles.free(first, self.page_size()) == self.page_size(), false),
                Page::Runs(runs) => {
                    (1, runs.block.is_empty(), runs.block.size() > u64::from(self.page_size()))
                }
            };
            // Empty now, and nothing was taken from it since the last time.
            let was_idle = mem::replace(&mut slot.idle, empty);
            let stays = match which {
                Trim::Empty => !empty,
                Trim::Idle => {
                    let unused = if sort == 0 { spare > 0 } else { was_idle };
                    !empty || !unused || !is_large && kept[sort] < self.reserve
                }
            };
            if stays || sort == 0 && !self.singles.take_out(first, self.page_size()) {
                kept[sort] += u32::from(empty && !is_large);
                continue;
            }
            spare = spare.saturating_sub(u32::from(sort == 0));
            slot.page = Page::Vacant;
            slot.idle = false;
            taken.extend(self.heaps.get(at as u32).and_then(|cell| cell.replace(None)));
        }
        drop(pages);
        // The driver's heaps go with no lock held.
        drop(taken);
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
    /// [`DescriptorError::WrongHeap`].
    pub fn fill(&self, range: &mut CpuDescriptorRange, fill: Fill) -> Result<(), DescriptorError> {
        self.change(range, fill != Fill::Leave, |heap, range| {
            // SAFETY: as in `write`.
            unsafe { heap.fill(range, fill) }
        })
    }

    /// Where the first descriptor of a range is, to the CPU: what an API's calls for render targets want. 0 where the
    /// device has no addresses.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongHeap`].
    pub fn address(&self, range: &CpuDescriptorRange) -> Result<u64, DescriptorError> {
        self.with(range, |heap, first| {
            let stride = heap.device().descriptor_limits().stride(self.kind);
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
    /// [`DescriptorError::WrongHeap`].
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
        cell.map(PageHeap::read).ok_or(DescriptorError::WrongHeap)
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

/// The largest page, and the largest run.
const LARGEST_PAGE: u32 = 1 << 24;

impl<D: DescriptorDevice> fmt::Debug for CpuDescriptorHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuDescriptorHeap")
            .field("kind", &self.kind)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
