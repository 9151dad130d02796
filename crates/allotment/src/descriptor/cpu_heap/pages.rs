//! The pages of a CPU descriptor heap: creation on demand, runs within a page, and destruction of empty pages.

use core::mem;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use allotment_suballoc::{Algorithm, Handle, Request, VirtualBlock};

use super::events::PageEvents;
use super::{CpuDescriptorHeap, CpuDescriptorRange, PageRange};
use crate::descriptor::device_heap::DeviceHeap;
use crate::descriptor::error::DescriptorError;
use crate::descriptor::free_slots::{FreeSlots, WORD};
use crate::device::{DescriptorDevice, DescriptorHeapVisibility};
use crate::events::ObjectId;
use crate::sync::locked;

/// The device's heap of a page, if there is one. It exists as long as there is a range of the page.
pub(super) struct PageHeap<D: DescriptorDevice>(RwLock<Option<DeviceHeap<D>>>);

impl<D: DescriptorDevice> Default for PageHeap<D> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<D: DescriptorDevice> PageHeap<D> {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Option<DeviceHeap<D>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replace(&self, heap: Option<DeviceHeap<D>>) -> Option<DeviceHeap<D>> {
        mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), heap)
    }
}

/// The pages, and where their events are written.
#[derive(Debug)]
pub(super) struct PageTable {
    pub(super) slots: Vec<Slot>,
    pub(super) events: PageEvents,
}

/// An entry of the page table.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) page: Page,
    /// What events know the page by.
    pub(super) id: ObjectId,
    /// For a page with runs: it was empty at the last trim, and nothing was allocated from it since.
    idle: bool,
}

/// The runs of a page.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) block: VirtualBlock<()>,
    /// The block's handles, by their first descriptor.
    handles: HashMap<u32, Handle>,
}

/// The use of a page.
#[derive(Debug)]
pub(super) enum Page {
    /// No page; its number is reused, the lowest first, as slots are. A [`Slab`](crate::slab::Slab) would reuse the
    /// last.
    Vacant,
    Singles {
        /// The slots that the reader of events knows to be in use, a bit each. Of no meaning without a reader.
        known: Box<[u64]>,
    },
    /// Ranges of more than one descriptor.
    Runs(Box<Runs>),
}

/// The pages to destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trim {
    /// Pages that have been empty since the last trim, beyond the reserve.
    Idle,
    /// All empty pages.
    Empty,
}

/// The number of calls of `reclaim` between two trims: a page that is empty at two of them is destroyed.
pub(super) const TRIM_EVERY: u32 = 32;

/// The size of the largest page, and of the largest run.
pub(super) const LARGEST_PAGE: u32 = 1 << 24;

impl<D: DescriptorDevice> CpuDescriptorHeap<D> {
    /// Adds pages of single slots until `take` succeeds.
    #[cold]
    pub(super) fn take_from_new_page<T>(
        &self,
        take: impl Fn(&FreeSlots) -> Option<T>,
    ) -> Result<T, DescriptorError> {
        loop {
            // No page is added for slots that are free: those that threads keep ready.
            self.slots.empty_magazines();
            if let Some(taken) = take(&self.slots.singles) {
                return Ok(taken);
            }
            // Nor for slots that the GPU has finished with since the last `reclaim`.
            if self.free_retired().count > 0 {
                continue;
            }
            let known = vec![0; (self.page_size() / WORD) as usize].into();
            if let Err(error) = self.add_page(self.page_size(), |page| {
                let first = page << self.slots.page_shift;
                self.slots.singles.add(first..first + self.page_size());
                Page::Singles { known }
            }) {
                self.slots.counts.failures.fetch_add(1, Relaxed);
                return Err(error);
            }
            // Other threads may have taken all of its slots by now; then the loop adds another page.
            if let Some(taken) = take(&self.slots.singles) {
                return Ok(taken);
            }
        }
    }

    /// Creates a page without a lock, and then initializes its entry by `make`.
    fn add_page(&self, size: u32, make: impl FnOnce(u32) -> Page) -> Result<u32, DescriptorError> {
        let heap = DeviceHeap::new(&self.allocator, DescriptorHeapVisibility::CpuOnly(self.heap_type), size)?;
        // A vacant entry is reused, so that the table does not grow as pages come and go.
        let id = self.allocator.events().parts().next_object().ok_or(DescriptorError::TooManyHeaps)?;
        let mut guard = locked(&self.slots.pages);
        let PageTable { slots: pages, events } = &mut *guard;
        let vacant = pages.iter().position(|slot| matches!(slot.page, Page::Vacant));
        let page = vacant.unwrap_or(pages.len()) as u32;
        // Slot numbers have 32 bits, and so has the number after the last slot of a page.
        let most = u32::MAX >> self.slots.page_shift;
        let cell = self.heaps.get_or_make(page).filter(|_| page < most);
        let cell = cell.ok_or(DescriptorError::NeverFits { requested: size, capacity: u32::MAX })?;
        // Before `make`, which publishes the slots: a thread that takes one finds its heap.
        cell.replace(Some(heap));
        let made = Slot { page: make(page), id, idle: false };
        // Threads may have taken slots of the page already. They write that with the lock, after this.
        events.created(&made, page, self.slots.page_size());
        match vacant {
            Some(vacant) => pages[vacant] = made,
            None => pages.push(made),
        }
        Ok(page)
    }

    /// Allocates a run, from a new page if no page has room for it.
    pub(super) fn allocate_run(&self, count: u32) -> Result<CpuDescriptorRange, DescriptorError> {
        match count {
            0 => return Err(DescriptorError::Empty),
            1..=LARGEST_PAGE => {}
            requested => return Err(DescriptorError::NeverFits { requested, capacity: LARGEST_PAGE }),
        }
        loop {
            // The lock is released before a page is created, which takes a driver call.
            if let Some(range) = self.take_run(&mut locked(&self.slots.pages), count) {
                return Ok(range);
            }
            if self.free_retired().count > 0 {
                continue;
            }
            // A page of the normal size serves later runs as well; one of the run's own size could serve only
            // runs that large.
            let size = count.max(self.page_size());
            let block = VirtualBlock::new(u64::from(size), Algorithm::Tlsf);
            let block =
                block.map_err(|_| DescriptorError::NeverFits { requested: count, capacity: LARGEST_PAGE })?;
            let runs = Box::new(Runs { block, handles: HashMap::new() });
            self.add_page(size, |_| Page::Runs(runs))?;
        }
    }

    /// Allocates a run from the first page that has room for it.
    fn take_run(&self, pages: &mut PageTable, count: u32) -> Option<CpuDescriptorRange> {
        let size = u64::from(count);
        let PageTable { slots: pages, events } = pages;
        pages.iter_mut().enumerate().find_map(|(page, found)| {
            let Page::Runs(runs) = &mut found.page else { return None };
            let Runs { block, handles } = &mut **runs;
            // A large page serves large runs only, so that it can be destroyed with them.
            let is_large = block.size() > u64::from(self.page_size());
            // The O(1) bound first, so that a full page costs a comparison and no search.
            if !block.may_fit(size) || is_large && count <= self.page_size() {
                return None;
            }
            let run = block.allocate(Request::new(size), ()).ok()?;
            let (page, first) = (page as u32, run.offset as u32);
            let before = handles.insert(first, run.handle);
            debug_assert!(before.is_none(), "no two runs begin at one slot");
            found.idle = false;
            events.allocated(found.id, (first, count));
            Some(self.range(PageRange { page, first, count }))
        })
    }

    /// Frees a run.
    pub(super) fn free_run(&self, range: PageRange) -> Result<(), DescriptorError> {
        let mut guard = locked(&self.slots.pages);
        let PageTable { slots: pages, events } = &mut *guard;
        let found = pages.get_mut(range.page as usize);
        let Some(Slot { page: Page::Runs(runs), id, .. }) = found else { return Err(DescriptorError::Stale) };
        let Runs { block, handles } = &mut **runs;
        let handle = handles.remove(&range.first).ok_or(DescriptorError::Stale)?;
        block.free(handle).map_err(|_| DescriptorError::Stale)?;
        events.freed(*id, (range.first, range.count));
        // The maximum before there are fewer.
        self.slots.look_at_magazines();
        self.slots.counts.used.fetch_sub(range.count, Relaxed);
        Ok(())
    }

    /// Destroys empty pages.
    pub(super) fn trim_to(&self, which: Trim) {
        // Slots that are kept ready would keep their pages.
        self.slots.empty_magazines();
        let mut taken = Vec::new();
        let mut kept = [0; 2];
        let mut guard = locked(&self.slots.pages);
        let PageTable { slots: pages, events } = &mut *guard;
        // The number of pages with single slots beyond what the recent maximum needs.
        let lately = self.slots.counts.lately.swap(self.slots.counts.used.load(Relaxed), Relaxed);
        let singles = pages.iter().filter(|slot| matches!(slot.page, Page::Singles { .. })).count() as u32;
        let mut spare = singles.saturating_sub(lately.div_ceil(self.page_size()));
        for (at, slot) in pages.iter_mut().enumerate() {
            let first = (at as u32) << self.slots.page_shift;
            let (sort, empty, is_large) = match &slot.page {
                Page::Vacant => continue,
                // Counted and not stored: single slots are taken without the lock that guards `idle`.
                Page::Singles { .. } => {
                    (0, self.slots.singles.free(first, self.page_size()) == self.page_size(), false)
                }
                Page::Runs(runs) => {
                    (1, runs.block.is_empty(), runs.block.size() > u64::from(self.page_size()))
                }
            };
            // Empty now, and nothing was allocated from it since the last trim.
            let was_idle = mem::replace(&mut slot.idle, empty);
            let stays = match which {
                Trim::Empty => !empty,
                Trim::Idle => {
                    // Single slots are taken from the first pages, so the recent maximum says how many pages were needed;
                    // a page with runs records its own use.
                    let unused = if sort == 0 { spare > 0 } else { was_idle };
                    !empty || !unused || !is_large && kept[sort] < self.reserve
                }
            };
            // Taking the slots out fails if another thread has taken one since they were counted; then the page
            // stays.
            if stays || sort == 0 && !self.slots.singles.take_out(first, self.page_size()) {
                kept[sort] += u32::from(empty && !is_large);
                continue;
            }
            spare = spare.saturating_sub(u32::from(sort == 0));
            events.destroyed(slot.id);
            slot.page = Page::Vacant;
            slot.idle = false;
            taken.extend(self.heaps.get(at as u32).and_then(|cell| cell.replace(None)));
        }
        drop(guard);
        // The driver's heaps are destroyed without the lock, since that takes driver calls.
        drop(taken);
    }
}
