//! Every allocation from the driver: for a block, for a dedicated allocation, for a pool's first blocks. Since all of
//! them pass through this file, budgets and limits hold on every path.
//!
//! Bytes are charged before the driver is called and refunded if it refuses, so two threads cannot both
//! pass a limit that has room for one.
//!
//! The driver reports the usage of some moment. The usage now is that figure, plus what this allocator allocated and
//! minus what it freed since; for that one must know how many of this allocator's bytes the figure contains. That
//! number cannot be known exactly while other threads allocate and free, but it has a lower bound. So the computed
//! usage is sometimes higher than the real one, never lower. What the rest of the process allocated since is learned at
//! the next query: at every 30th allocation from the driver, before a request is refused for being over budget, and in
//! `refresh_budgets`.
//!
//! ```text
//!   own bytes in the figure  >=  allocated, read before the figure  -  freed, read after it
//! ```
//!
//! What the driver or a budget refused is remembered (`refusals.rs`): the same request is refused again without a call
//! until something has changed.
//!
//! A worked example: the driver reports a usage of 900 MiB, of which at least 300 MiB are this allocator's. Since then
//! the allocator's total grew from 300 to 364 MiB. The usage now is taken as 900 + 364 - 300 = 964 MiB. With a budget
//! of 1000 MiB, a request for a block of 64 MiB within budget is over it; before the request is refused, the driver is
//! queried again.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::Mutex;

use crate::device::{
    Device, DeviceError, Mapping, MemoryHeapBudget, MemoryHeapIndex, MemoryTypeIndex, MemoryTypeMask,
    OwnedMemory,
};
use crate::events::{Event, EventLog};
use crate::log::event;
use crate::memory::driver::refusals::{Changes, Refusals, Refused, Terms};
use crate::memory::time::{Time, TimeSource};
use crate::memory::{AllocationError, BudgetPolicy, ShortName};
use crate::sync::locked;

/// Allocations after which the driver is queried for its budgets again. A query can take a driver milliseconds; between
/// two queries the allocator adds its own bytes to the driver's figure.
const PASSES_PER_REFRESH: u32 = 30;

/// Usage, budget and limits of a memory heap.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// for heap in gpu.allocator().reports().memory_heaps() {
///     println!("{} of {} bytes", heap.usage, heap.budget);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaBudget", "Budget"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryHeapReport {
    /// Bytes of the memory objects that this allocator has allocated from the heap.
    pub reserved: u64,
    /// The highest value of `reserved` so far.
    pub peak_reserved: u64,
    /// Bytes in use by the process: the driver's last figure, corrected by what this allocator did since.
    pub usage: u64,
    /// Bytes that the process should not exceed, as the driver last reported.
    pub budget: u64,
    /// Bytes that this allocator may allocate from the heap, as given at its creation.
    pub limit: u64,
}

/// Driver calls since the allocator was created.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mesh = allocator.allocate(&Requirements::new(1000), &MemoryUsage::GpuOnly.into())?;
/// let calls = allocator.reports().device_calls();
/// assert_eq!((calls.allocate, calls.free, calls.memory()), (1, 0, 1));
/// # allocator.free(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCallStatistics {
    /// Memory allocations, including refused ones.
    pub allocate: u64,
    /// Frees of memory.
    pub free: u64,
    /// Flushes and invalidates.
    pub make_visible: u64,
}

impl DriverCallStatistics {
    /// Returns the number of calls that allocated or freed memory.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        self.allocate + self.free
    }
}

#[derive(Debug)]
struct Heap {
    size: u64,
    limit: u64,
    reserved: AtomicU64,
    peak_reserved: AtomicU64,
    /// Sum of all bytes that the driver allocated; counted after the call.
    allocated: AtomicU64,
    /// Sum of all bytes that were freed to the driver; counted before the call.
    freed: AtomicU64,
    /// The driver's last figures, and a lower bound of this allocator's own bytes in them.
    reported: Mutex<(MemoryHeapBudget, u64)>,
    /// How often the driver may have got memory that it did not have before: this allocator freed some, or the figures
    /// say so.
    gains: AtomicU64,
    /// How often `reserved` fell, or the budget rose: with each of `gains`, and with each refused charge.
    refunds: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Heaps {
    heaps: Vec<Heap>,
    count: AtomicU32,
    passes: AtomicU32,
    allocate_calls: AtomicU64,
    free_calls: AtomicU64,
    pub(crate) make_visible_calls: AtomicU64,
    /// What was refused, by memory type.
    refusals: Refusals,
    time: Time,
    events: EventLog,
}

/// Bytes and a memory object that are charged. Refunds itself when dropped unless [kept](Self::keep).
#[derive(Debug)]
#[must_use]
struct Charge<'a> {
    heaps: &'a Heaps,
    heap: MemoryHeapIndex,
    size: u64,
}

impl Charge<'_> {
    /// The driver allocated the memory: keeps the charge until [`Heaps::free`].
    fn keep(self) {
        let heap = &self.heaps.heaps[self.heap.get()];
        // After the driver's call: bytes that are counted here are in every figure that the driver reports from now on.
        // This keeps the lower bound at the top of this file.
        heap.allocated.fetch_add(self.size, AcqRel);
        heap.peak_reserved.fetch_max(heap.reserved.load(Relaxed), Relaxed);
        // Skips the refund of `drop`.
        core::mem::forget(self);
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.heaps.refund(self.heap, self.size);
    }
}

impl Heaps {
    pub(crate) fn new<D: Device>(
        device: &D,
        limits: &[(MemoryHeapIndex, u64)],
        time: TimeSource,
        events: EventLog,
    ) -> Self {
        let properties = device.properties();
        let heaps = properties.heaps.iter().enumerate().map(|(i, heap)| {
            let index = MemoryHeapIndex(i as u8);
            // The smallest of several limits for one heap applies.
            let limit = limits.iter().filter(|(heap, _)| *heap == index).map(|&(_, limit)| limit).min();
            Heap {
                size: heap.size,
                limit: limit.unwrap_or(u64::MAX),
                reserved: AtomicU64::new(0),
                peak_reserved: AtomicU64::new(0),
                allocated: AtomicU64::new(0),
                freed: AtomicU64::new(0),
                reported: Mutex::new((device.heap_budget(index), 0)),
                gains: AtomicU64::new(0),
                refunds: AtomicU64::new(0),
            }
        });
        Self {
            heaps: heaps.collect(),
            count: AtomicU32::new(0),
            passes: AtomicU32::new(0),
            allocate_calls: AtomicU64::new(0),
            free_calls: AtomicU64::new(0),
            make_visible_calls: AtomicU64::new(0),
            refusals: Refusals::new(properties.memory_types.len()),
            time: Time::new(time),
            events,
        }
    }

    /// Returns true when more than three quarters of the memory objects that the device allows exist.
    pub(crate) fn objects_are_scarce<D: Device>(&self, device: &D) -> bool {
        let limit = device.properties().limits.max_allocation_count;
        // Divided first: a device without a limit reports the largest number.
        self.count.load(Relaxed) > limit / 4 * 3
    }

    /// Returns true when all memory objects that the device allows exist.
    pub(crate) fn all_objects_exist<D: Device>(&self, device: &D) -> bool {
        self.count.load(Relaxed) >= device.properties().limits.max_allocation_count
    }

    /// Charges `size` bytes of a memory type, or returns the limit that forbids it.
    fn charge<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        size: u64,
        terms: Terms,
    ) -> Result<Charge<'_>, AllocationError> {
        let policy = terms.budget;
        let index = heap_for(device, memory_type, size)?;
        if let Some(refused) = self.refused_before(device, memory_type, size, terms) {
            return Err(refused);
        }
        // Counted over all heaps, since a refresh queries all of them.
        if self.passes.fetch_add(1, Relaxed) % PASSES_PER_REFRESH == PASSES_PER_REFRESH - 1 {
            self.refresh(device);
        }
        let limit = device.properties().limits.max_allocation_count;
        // Checked before the call: Vulkan obliges the application to stay below `maxMemoryAllocationCount`.
        let counted = self.count.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1));
        counted.map_err(|_| AllocationError::TooManyAllocations { limit, name: ShortName::NONE })?;

        let refused = self.reserve(index, size, policy).or_else(|refused| match refused {
            // The figure may be old, so a request is refused only by a fresh one.
            AllocationError::OverBudget { .. } => {
                self.refresh(device);
                // Read before the figures: a change after this makes the refusal void.
                let seen = self.changes(index);
                self.reserve(index, size, policy)
                    .inspect_err(|refused| self.refusals.add(memory_type, size, refused, seen))
            }
            refused => Err(refused),
        });
        match refused {
            Ok(()) => Ok(Charge { heaps: self, heap: index, size }),
            Err(refused) => {
                // The object was charged before the bytes, so its charge is undone here.
                self.count.fetch_sub(1, Relaxed);
                Err(refused)
            }
        }
    }

    /// Returns the error that [`charge`](Self::charge) would return now for a limit or the budget; charges nothing. What
    /// the driver would say, only asking it tells.
    pub(crate) fn check<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        size: u64,
        policy: BudgetPolicy,
    ) -> Result<(), AllocationError> {
        let index = heap_for(device, memory_type, size)?;
        if self.all_objects_exist(device) {
            let limit = device.properties().limits.max_allocation_count;
            return Err(AllocationError::TooManyAllocations { limit, name: ShortName::NONE });
        }
        let refusal = || self.refusal(index, self.heaps[index.get()].reserved.load(Relaxed), size, policy);
        // As in `charge`: only a fresh figure may refuse.
        if let Some(AllocationError::OverBudget { .. }) = refusal() {
            self.refresh(device);
        }
        refusal().map_or(Ok(()), Err)
    }

    /// Returns why a heap with `reserved` allocated bytes may not allocate `size` more; `None` when it may.
    fn refusal(
        &self,
        index: MemoryHeapIndex,
        reserved: u64,
        size: u64,
        policy: BudgetPolicy,
    ) -> Option<AllocationError> {
        let heap = &self.heaps[index.get()];
        let (reported, own) = *locked(&heap.reported);
        // The driver's figure may be any number. `reserved` cannot overflow: it is a sum of sizes that were checked.
        let usage = reported.usage.saturating_add(reserved).saturating_sub(own);
        // The limit is checked first: it is the allocator's own, and no query can change it.
        if reserved + size > heap.limit {
            let limit = heap.limit;
            Some(AllocationError::HeapLimit {
                heap: index,
                requested: size,
                reserved,
                limit,
                name: ShortName::NONE,
            })
        } else if policy == BudgetPolicy::WithinBudget && usage.saturating_add(size) > reported.budget {
            let budget = reported.budget;
            Some(AllocationError::OverBudget {
                heap: index,
                requested: size,
                usage,
                budget,
                name: ShortName::NONE,
            })
        } else {
            None
        }
    }

    /// Returns true if limit and budget would allow `size` bytes once `freed` bytes of the heap are freed.
    pub(crate) fn would_allow(
        &self,
        heap: MemoryHeapIndex,
        (size, freed): (u64, u64),
        policy: BudgetPolicy,
    ) -> bool {
        let reserved = self.heaps[heap.get()].reserved.load(Relaxed).saturating_sub(freed);
        self.refusal(heap, reserved, size, policy).is_none()
    }

    fn reserve(
        &self,
        index: MemoryHeapIndex,
        size: u64,
        policy: BudgetPolicy,
    ) -> Result<(), AllocationError> {
        let heap = &self.heaps[index.get()];
        // Relaxed, as all accesses to these counters: they bound sums, and guard no other data.
        let mut reserved = heap.reserved.load(Relaxed);
        loop {
            if let Some(refusal) = self.refusal(index, reserved, size, policy) {
                return Err(refusal);
            }
            // The check and the charge are one atomic step, so concurrent requests cannot exceed the limit together.
            match heap.reserved.compare_exchange_weak(reserved, reserved + size, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(changed) => reserved = changed,
            }
        }
    }

    fn refund(&self, index: MemoryHeapIndex, size: u64) {
        let heap = &self.heaps[index.get()];
        heap.reserved.fetch_sub(size, Relaxed);
        self.count.fetch_sub(1, Relaxed);
        // After the figures: whoever finds this number unchanged was refused by figures that still hold.
        heap.refunds.fetch_add(1, Release);
    }

    /// Returns what makes a refusal of this heap void once it differs.
    fn changes(&self, heap: MemoryHeapIndex) -> Changes {
        let Heap { gains, refunds, .. } = &self.heaps[heap.get()];
        Changes {
            gains: gains.load(Acquire),
            refunds: refunds.load(Acquire),
            frees: self.free_calls.load(Acquire),
            tick: self.time.now().tick,
        }
    }

    /// Returns the refusal of a request that was refused before, while nothing has changed since. Looks at the driver's
    /// figures now and then.
    pub(crate) fn refused_before<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        size: u64,
        terms: impl Into<Terms>,
    ) -> Option<AllocationError> {
        let (heap, terms) = (heap_of(device, memory_type).ok()?, terms.into());
        if self.refusals.are_none(memory_type) {
            return None;
        }
        let find = || self.refusals.find(memory_type, size, terms, self.changes(heap));
        let mut found = find();
        if matches!(found, Refused::LookAgain) {
            // What other programs have freed, only the driver's figures tell.
            self.refresh(device);
            found = find();
        }
        let source = match found {
            Refused::No | Refused::LookAgain => return None,
            Refused::ForBudget => {
                return self.refusal(heap, self.heaps[heap.get()].reserved.load(Relaxed), size, terms.budget);
            }
            Refused::ByDriver(source) => source,
        };
        Some(self.error_of(device, memory_type, size, source))
    }

    /// Returns the bytes of the smallest memory of a type that the driver could not map, and could not map now.
    pub(crate) fn unmappable_from<D: Device>(&self, device: &D, memory_type: MemoryTypeIndex) -> Option<u64> {
        if self.refusals.are_none(memory_type) {
            return None;
        }
        self.refusals.unmappable_from(memory_type, self.changes(heap_of(device, memory_type).ok()?))
    }

    /// Maps memory that is known to other code already, by `map`. Remembers a refusal.
    pub(crate) fn map<D: Device, T>(
        &self,
        device: &D,
        (memory_type, size): (MemoryTypeIndex, u64),
        map: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let seen = heap_of(device, memory_type).map(|heap| self.changes(heap));
        let mapped = map().inspect_err(|error| {
            event!(WARN, "memory", %memory_type, bytes = size, %error, "the driver could not map memory");
            let refused = AllocationError::from(*error);
            seen.into_iter().for_each(|seen| self.refusals.add(memory_type, size, &refused, seen));
        })?;
        if !self.refusals.are_none(memory_type) {
            self.refusals.forget(memory_type, size, Mapping::Required);
        }
        Ok(mapped)
    }

    /// Returns true where no refusal of a memory type is remembered.
    pub(crate) fn refused_none(&self, memory_type: MemoryTypeIndex) -> bool {
        self.refusals.are_none(memory_type)
    }

    /// Allocates memory from the driver, by `make`. Called with no lock held.
    pub(crate) fn allocate<D: Device, T>(
        &self,
        device: &D,
        (memory_type, size): (MemoryTypeIndex, u64),
        terms: impl Into<Terms>,
        make: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, AllocationError> {
        let heap = heap_of(device, memory_type)?;
        let terms = terms.into();
        let charge = self.charge(device, memory_type, size, terms)?;
        // Read before the call: what is freed meanwhile makes a refusal void.
        let seen = self.changes(heap);
        self.allocate_calls.fetch_add(1, Relaxed);
        match make() {
            Ok(made) => {
                charge.keep();
                if !self.refusals.are_none(memory_type) {
                    self.refusals.forget(memory_type, size, terms.mapping);
                }
                event!(DEBUG, "memory", %memory_type, bytes = size, "allocated a memory object");
                Ok(made)
            }
            Err(error) => {
                // What others free from now on is a gain; what they freed before, the driver knew.
                let gained = self.refresh_figures(device) >> heap.get() & 1;
                let seen = Changes { gains: seen.gains + gained, ..seen };
                // Before the error is made: the bytes that were refused are not reserved.
                drop(charge);
                let refused = self.error_of(device, memory_type, size, error);
                event!(WARN, "memory", %memory_type, bytes = size, error = %refused, "the driver refused memory");
                self.refusals.add(memory_type, size, &refused, seen);
                Err(refused)
            }
        }
    }

    /// Converts a driver's refusal into an allocation error.
    fn error_of<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        requested: u64,
        error: DeviceError,
    ) -> AllocationError {
        let reserved =
            heap_of(device, memory_type).map_or(0, |heap| self.heaps[heap.get()].reserved.load(Relaxed));
        match error {
            // Memory objects that the application allocates itself count in the driver, but not here.
            DeviceError::TooManyAllocations => AllocationError::TooManyAllocations {
                limit: device.properties().limits.max_allocation_count,
                name: ShortName::NONE,
            },
            source if source.is_out_of_memory() => AllocationError::OutOfMemory {
                memory_type,
                requested,
                reserved,
                source,
                name: ShortName::NONE,
            },
            error => error.into(),
        }
    }

    /// Frees memory to the driver. Called with no lock held.
    pub(crate) fn free<D: Device>(&self, device: &D, memory: OwnedMemory<D>) {
        let (heap, size) = (heap_of(device, memory.memory_type()), memory.size());
        event!(DEBUG, "memory", memory_type = %memory.memory_type(), bytes = size, "frees a memory object");
        if let Ok(heap) = heap {
            // Before the driver's call, for the same bound: the driver's next figure may lack these bytes already.
            self.heaps[heap.get()].freed.fetch_add(size, AcqRel);
        }
        memory.free(device);
        // Refunded only after the driver has freed the bytes: before, another thread could exceed the heap.
        if let Ok(heap) = heap {
            self.refund(heap, size);
            self.heaps[heap.get()].gains.fetch_add(1, Release);
        }
        self.free_calls.fetch_add(1, Release);
    }

    /// Queries the driver's budgets.
    pub(crate) fn refresh<D: Device>(&self, device: &D) {
        self.refresh_figures(device);
    }

    /// Queries the driver's budgets. Returns a bit for each heap of which others have freed memory, or whose budget has
    /// risen.
    fn refresh_figures<D: Device>(&self, device: &D) -> u64 {
        let mut gained = 0;
        for (i, heap) in self.heaps.iter().enumerate() {
            // The order of these three reads makes `own` a lower bound; see the top of this file.
            let allocated = heap.allocated.load(Acquire);
            let reported = device.heap_budget(MemoryHeapIndex(i as u8));
            let own = allocated.saturating_sub(heap.freed.load(Acquire));
            let (before, own_before) = core::mem::replace(&mut *locked(&heap.reported), (reported, own));
            // What others have of the heap, as far as the figures tell.
            let others = |usage: u64, own| usage.saturating_sub(own);
            if reported.budget > before.budget
                || others(reported.usage, own) < others(before.usage, own_before)
            {
                gained |= 1 << i;
                heap.gains.fetch_add(1, Release);
                heap.refunds.fetch_add(1, Release);
            }
            self.emit_budget(MemoryHeapIndex(i as u8));
        }
        gained
    }

    /// Writes the usage and the budget of a heap, if there is a reader.
    pub(crate) fn emit_budget(&self, heap: MemoryHeapIndex) {
        if self.events.is_read() {
            let MemoryHeapReport { usage, budget, .. } = self.report(heap);
            self.events.push_always(|_| Event::Budget { heap, usage, budget });
        }
    }

    /// Returns the largest block that the heap's budget and limits allow now.
    pub(crate) fn room_for_block<D: Device>(&self, device: &D, heap: MemoryHeapIndex) -> u64 {
        // By the last figures, without a query: a block that is too large for the budget now is refused by `charge`.
        let report = self.report(heap);
        let room =
            report.budget.saturating_sub(report.usage).min(report.limit.saturating_sub(report.reserved));
        room.min(device.properties().limits.max_allocation_size)
    }

    /// Returns how many bytes of a heap have to be freed before `size` more can be allocated: by the limit, by the budget
    /// where the policy is strict, and by what is known of the driver.
    pub(crate) fn missing<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        size: u64,
        policy: BudgetPolicy,
    ) -> u64 {
        let Ok(heap) = heap_of(device, memory_type) else { return size };
        let MemoryHeapReport { reserved, usage, budget, limit, .. } = self.report(heap);
        let by_limit = (reserved + size).saturating_sub(limit);
        let by_budget = match policy {
            BudgetPolicy::WithinBudget => usage.saturating_add(size).saturating_sub(budget),
            BudgetPolicy::AllowOverBudget => 0,
        };
        let by_size = usage.saturating_add(size).saturating_sub(self.heaps[heap.get()].size);
        // A driver that refuses what its figures have room for does not say how much it lacks.
        let unexplained = by_limit.max(by_budget).max(by_size) == 0
            && self.refused_before(device, memory_type, size, policy).is_some();
        by_limit.max(by_budget).max(by_size).max(if unexplained { size } else { 0 })
    }

    pub(crate) fn heap_size(&self, heap: MemoryHeapIndex) -> u64 {
        let heap = &self.heaps[heap.get()];
        // Of a heap that the application limits, only that part counts: blocks are sized for what the allocator may
        // have.
        heap.size.min(heap.limit)
    }

    pub(crate) fn report(&self, heap: MemoryHeapIndex) -> MemoryHeapReport {
        let heap = &self.heaps[heap.get()];
        let (reported, own) = *locked(&heap.reported);
        let reserved = heap.reserved.load(Relaxed);
        MemoryHeapReport {
            reserved,
            // A charge is added to `reserved` before the call and to the peak after it.
            peak_reserved: heap.peak_reserved.load(Relaxed).max(reserved),
            usage: reported.usage.saturating_add(reserved).saturating_sub(own),
            budget: reported.budget,
            limit: heap.limit,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.heaps.len()
    }

    pub(crate) fn calls(&self) -> DriverCallStatistics {
        DriverCallStatistics {
            allocate: self.allocate_calls.load(Relaxed),
            free: self.free_calls.load(Relaxed),
            make_visible: self.make_visible_calls.load(Relaxed),
        }
    }
}

/// Returns the heap for a memory object, or an error where no object is as large on the device.
fn heap_for<D: Device>(
    device: &D,
    memory_type: MemoryTypeIndex,
    size: u64,
) -> Result<MemoryHeapIndex, AllocationError> {
    let heap = heap_of(device, memory_type)?;
    let limit = device.properties().limits.max_allocation_size;
    if size > limit {
        return Err(AllocationError::TooLarge { size, limit, name: ShortName::NONE });
    }
    Ok(heap)
}

/// Returns the heap of a memory type. The error is never seen: the ranking contains existing types only.
pub(crate) fn heap_of<D: Device>(
    device: &D,
    memory_type: MemoryTypeIndex,
) -> Result<MemoryHeapIndex, AllocationError> {
    let properties = device.properties();
    let wrong = || properties.wrong_memory_type(memory_type, MemoryTypeMask::ALL).into();
    properties.memory_type(memory_type).map(|found| found.heap).ok_or_else(wrong)
}
