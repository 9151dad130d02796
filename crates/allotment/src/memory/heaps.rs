//! The one gate to the driver's memory: whatever gets memory, for a block, for one resource alone, for a
//! pool's first blocks, comes through here, and so budgets and limits hold on every path.
//!
//! Bytes are charged before the driver is called and refunded if it refuses, so two threads cannot both
//! pass a limit that has room for one.
//!
//! What the driver says is in use is a figure of some moment. What this allocator charged and refunded
//! since is added to it, and for that one must know how much of its own the figure holds. That cannot be
//! known exactly while other threads get memory and give it back; it is known from below, and so this
//! allocator's part of the usage is sometimes taken to be more than it is, never less. What others in the
//! process took since is learned when the driver is asked next: every 30th time that memory is got, before
//! a request is refused for the budget's sake, and by `refresh_budgets`.
//!
//! ```text
//!   own bytes in the figure  >=  given, read before the figure  -  returned, read after it
//! ```

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::Mutex;

use super::{AllocationError, BudgetPolicy, ShortName};
use crate::device::{
    Device, DeviceError, MemoryDesc, MemoryHeapBudget, MemoryHeapIndex, MemoryTypeIndex, OwnedMemory,
};
use crate::sync::locked;

/// After so many passes through the gate the driver is asked for its figures anew. Asking can cost a
/// driver milliseconds; in between, the own bytes since then are added to what it said.
const PASSES_PER_REFRESH: u32 = 30;

/// What is known of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryHeapReport {
    /// Bytes of memory objects that this allocator has of the heap.
    pub reserved: u64,
    /// The most that `reserved` has been.
    pub peak_reserved: u64,
    /// Bytes in use by the process: as the driver said last, and what this allocator did since.
    pub usage: u64,
    /// Bytes that the process should stay within, as the driver said last.
    pub budget: u64,
    /// Bytes that this allocator may have of the heap, as it was created with.
    pub limit: u64,
}

/// Calls that were made to the driver, since the allocator was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCallStatistics {
    /// Memory allocations, refused ones among them.
    pub allocate: u64,
    /// Frees of memory.
    pub free: u64,
    /// Flushes and invalidates.
    pub make_visible: u64,
}

impl DriverCallStatistics {
    /// All calls that got memory or gave it back.
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
    /// Bytes that the driver ever gave; counted after it did.
    given: AtomicU64,
    /// Bytes that it ever got back; counted before it does.
    returned: AtomicU64,
    /// What the driver said, and how much of that at least is this allocator's own.
    told: Mutex<(MemoryHeapBudget, u64)>,
}

#[derive(Debug)]
pub(super) struct Heaps {
    heaps: Vec<Heap>,
    count: AtomicU32,
    passes: AtomicU32,
    pub(super) allocate_calls: AtomicU64,
    pub(super) free_calls: AtomicU64,
    pub(super) make_visible_calls: AtomicU64,
}

/// Bytes and a memory object that are accounted for. Refunds itself unless [kept](Self::keep).
#[derive(Debug)]
#[must_use]
pub(super) struct Charge<'a> {
    heaps: &'a Heaps,
    heap: MemoryHeapIndex,
    size: u64,
}

impl Charge<'_> {
    /// The memory was got: it stays accounted for until [`Heaps::free`].
    pub(super) fn keep(self) {
        let heap = &self.heaps.heaps[self.heap.get()];
        heap.given.fetch_add(self.size, AcqRel);
        heap.peak_reserved.fetch_max(heap.reserved.load(Relaxed), Relaxed);
        core::mem::forget(self);
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.heaps.refund(self.heap, self.size);
    }
}

impl Heaps {
    pub(super) fn new<D: Device>(device: &D, limits: &[(MemoryHeapIndex, u64)]) -> Self {
        let properties = device.properties();
        let heaps = properties.heaps.iter().enumerate().map(|(i, heap)| {
            let index = MemoryHeapIndex(i as u8);
            let limit = limits.iter().filter(|(heap, _)| *heap == index).map(|&(_, limit)| limit).min();
            Heap {
                size: heap.size,
                limit: limit.unwrap_or(u64::MAX),
                reserved: AtomicU64::new(0),
                peak_reserved: AtomicU64::new(0),
                given: AtomicU64::new(0),
                returned: AtomicU64::new(0),
                told: Mutex::new((device.heap_budget(index), 0)),
            }
        });
        Self {
            heaps: heaps.collect(),
            count: AtomicU32::new(0),
            passes: AtomicU32::new(0),
            allocate_calls: AtomicU64::new(0),
            free_calls: AtomicU64::new(0),
            make_visible_calls: AtomicU64::new(0),
        }
    }

    /// How many memory objects there are, relative to how many there can be: true above three quarters.
    pub(super) fn objects_are_scarce<D: Device>(&self, device: &D) -> bool {
        let limit = device.properties().limits.max_allocation_count;
        self.count.load(Relaxed) > limit / 4 * 3
    }

    /// Accounts for `size` bytes of a memory type, or says why they may not be had.
    pub(super) fn charge<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        size: u64,
        wish: BudgetPolicy,
    ) -> Result<Charge<'_>, AllocationError> {
        let index = heap_of(device, memory_type)?;
        let limits = &device.properties().limits;
        if size > limits.max_allocation_size {
            return Err(AllocationError::TooLarge { size, limit: limits.max_allocation_size });
        }
        if self.passes.fetch_add(1, Relaxed) % PASSES_PER_REFRESH == PASSES_PER_REFRESH - 1 {
            self.refresh(device);
        }
        let limit = limits.max_allocation_count;
        let counted = self.count.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1));
        counted.map_err(|_| AllocationError::TooManyAllocations { limit })?;

        let refused = self.reserve(index, size, wish).or_else(|refused| match refused {
            // The figure may be old; nobody is refused by hearsay.
            AllocationError::OverBudget { .. } => {
                self.refresh(device);
                self.reserve(index, size, wish)
            }
            refused => Err(refused),
        });
        match refused {
            Ok(()) => Ok(Charge { heaps: self, heap: index, size }),
            Err(refused) => {
                self.count.fetch_sub(1, Relaxed);
                Err(refused)
            }
        }
    }

    /// What [`charge`](Self::charge) would be refused with now; nothing is charged.
    pub(super) fn check<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        size: u64,
        wish: BudgetPolicy,
    ) -> Result<(), AllocationError> {
        let index = heap_of(device, memory_type)?;
        let limits = &device.properties().limits;
        if size > limits.max_allocation_size {
            return Err(AllocationError::TooLarge { size, limit: limits.max_allocation_size });
        }
        if self.count.load(Relaxed) >= limits.max_allocation_count {
            return Err(AllocationError::TooManyAllocations { limit: limits.max_allocation_count });
        }
        let refusal = || self.refusal(index, self.heaps[index.get()].reserved.load(Relaxed), size, wish);
        if let Some(AllocationError::OverBudget { .. }) = refusal() {
            self.refresh(device);
        }
        refusal().map_or(Ok(()), Err)
    }

    /// Why a heap of which `reserved` bytes are had may not give `size` more.
    fn refusal(
        &self,
        index: MemoryHeapIndex,
        reserved: u64,
        size: u64,
        wish: BudgetPolicy,
    ) -> Option<AllocationError> {
        let heap = &self.heaps[index.get()];
        let (told, own) = *locked(&heap.told);
        // The driver's figure may be any; what was reserved is a sum of sizes that passed the door.
        let usage = told.usage.saturating_add(reserved).saturating_sub(own);
        if reserved + size > heap.limit {
            let limit = heap.limit;
            Some(AllocationError::HeapLimit {
                heap: index,
                requested: size,
                reserved,
                limit,
                name: ShortName::NONE,
            })
        } else if wish == BudgetPolicy::WithinBudget && usage.saturating_add(size) > told.budget {
            let budget = told.budget;
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

    fn reserve(&self, index: MemoryHeapIndex, size: u64, wish: BudgetPolicy) -> Result<(), AllocationError> {
        let heap = &self.heaps[index.get()];
        let mut reserved = heap.reserved.load(Relaxed);
        loop {
            if let Some(refusal) = self.refusal(index, reserved, size, wish) {
                return Err(refusal);
            }
            match heap.reserved.compare_exchange_weak(reserved, reserved + size, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(changed) => reserved = changed,
            }
        }
    }

    fn refund(&self, heap: MemoryHeapIndex, size: u64) {
        self.heaps[heap.get()].reserved.fetch_sub(size, Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }

    /// Gets memory from the driver. Called with no lock held.
    pub(super) fn allocate<D: Device>(
        &self,
        device: &D,
        desc: &MemoryDesc<'_, D::MemoryOptions>,
        wish: BudgetPolicy,
    ) -> Result<OwnedMemory<D>, AllocationError> {
        let MemoryDesc { memory_type, size, .. } = *desc;
        let charge = self.charge(device, memory_type, size, wish)?;
        self.allocate_calls.fetch_add(1, Relaxed);
        match OwnedMemory::allocate(device, desc) {
            Ok(memory) => {
                charge.keep();
                Ok(memory)
            }
            Err(error) => Err(self.refused(device, memory_type, size, error)),
        }
    }

    /// A driver's refusal in our words.
    pub(super) fn refused<D: Device>(
        &self,
        device: &D,
        memory_type: MemoryTypeIndex,
        requested: u64,
        error: DeviceError,
    ) -> AllocationError {
        let reserved =
            heap_of(device, memory_type).map_or(0, |heap| self.heaps[heap.get()].reserved.load(Relaxed));
        match error {
            DeviceError::TooManyAllocations => {
                AllocationError::TooManyAllocations { limit: device.properties().limits.max_allocation_count }
            }
            source if source.is_out_of_memory() => AllocationError::OutOfMemory {
                memory_type,
                requested,
                reserved,
                source,
                name: ShortName::NONE,
            },
            error => AllocationError::Device(error),
        }
    }

    /// Gives memory back to the driver. Called with no lock held.
    pub(super) fn free<D: Device>(&self, device: &D, memory: OwnedMemory<D>) {
        let (heap, size) = (heap_of(device, memory.memory_type()), memory.size());
        self.free_calls.fetch_add(1, Relaxed);
        if let Ok(heap) = heap {
            self.heaps[heap.get()].returned.fetch_add(size, AcqRel);
        }
        memory.free(device);
        if let Ok(heap) = heap {
            self.refund(heap, size);
        }
    }

    /// Asks the driver for its figures.
    pub(super) fn refresh<D: Device>(&self, device: &D) {
        for (i, heap) in self.heaps.iter().enumerate() {
            let given = heap.given.load(Acquire);
            let told = device.heap_budget(MemoryHeapIndex(i as u8));
            let own = given.saturating_sub(heap.returned.load(Acquire));
            *locked(&heap.told) = (told, own);
        }
    }

    /// Bytes that a block of the heap may have without exceeding the budget or a limit.
    pub(super) fn room_for_block<D: Device>(&self, device: &D, heap: MemoryHeapIndex) -> u64 {
        let report = self.report(heap);
        let room =
            report.budget.saturating_sub(report.usage).min(report.limit.saturating_sub(report.reserved));
        room.min(device.properties().limits.max_allocation_size)
    }

    pub(super) fn heap_size(&self, heap: MemoryHeapIndex) -> u64 {
        let heap = &self.heaps[heap.get()];
        heap.size.min(heap.limit)
    }

    pub(super) fn report(&self, heap: MemoryHeapIndex) -> MemoryHeapReport {
        let heap = &self.heaps[heap.get()];
        let (told, own) = *locked(&heap.told);
        let reserved = heap.reserved.load(Relaxed);
        MemoryHeapReport {
            reserved,
            // What is being asked for now is in the one before it is in the other.
            peak_reserved: heap.peak_reserved.load(Relaxed).max(reserved),
            usage: told.usage.saturating_add(reserved).saturating_sub(own),
            budget: told.budget,
            limit: heap.limit,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.heaps.len()
    }

    pub(super) fn calls(&self) -> DriverCallStatistics {
        DriverCallStatistics {
            allocate: self.allocate_calls.load(Relaxed),
            free: self.free_calls.load(Relaxed),
            make_visible: self.make_visible_calls.load(Relaxed),
        }
    }
}

/// The heap of a memory type; a type that is not there was never chosen.
pub(super) fn heap_of<D: Device>(
    device: &D,
    memory_type: MemoryTypeIndex,
) -> Result<MemoryHeapIndex, AllocationError> {
    let found = device.properties().memory_type(memory_type);
    found.map(|found| found.heap).ok_or(AllocationError::Device(DeviceError::Unsupported))
}
