//! Accounting of driver memory: APIs report neither how much of a heap this device uses, nor how large a memory
//! object is.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::collections::{HashMap, hash_map};
use std::sync::Mutex;

use super::{
    DescriptionLimit, DeviceError, DeviceProperties, MemoryDesc, MemoryHandle, MemoryHeapIndex, MemoryType,
    MemoryTypeMask,
};
use crate::sync::locked;

/// The memory objects of a device. `E` is API-specific data per object.
#[derive(Debug)]
pub(crate) struct Ledger<E = ()> {
    /// By raw handle.
    objects: Mutex<HashMap<u64, Entry<E>>>,
    /// Bytes allocated per heap: the sums of `objects`.
    heaps: Vec<AtomicU64>,
    /// Objects that are live or being allocated.
    count: AtomicU32,
    /// Number of allocations and frees.
    changes: AtomicU64,
}

#[derive(Debug)]
struct Entry<E> {
    heap: MemoryHeapIndex,
    size: u64,
    extra: E,
}

impl<E> Ledger<E> {
    pub(crate) fn new(properties: &DeviceProperties) -> Self {
        // One counter for each heap of the device, so that reading a heap's usage takes no lock.
        let heaps = properties.heaps.iter().map(|_| AtomicU64::new(0)).collect();
        Self { objects: Mutex::default(), heaps, count: AtomicU32::new(0), changes: AtomicU64::new(0) }
    }

    /// Returns the bytes allocated from a heap.
    pub(crate) fn bytes(&self, heap: MemoryHeapIndex) -> u64 {
        // `Relaxed`: the number is a statistic, and orders no access to the memory.
        self.heaps.get(heap.get()).map_or(0, |bytes| bytes.load(Relaxed))
    }

    /// Returns a number that changes with each allocation and free, after which the driver's budget report
    /// differs.
    pub(crate) fn changes(&self) -> u64 {
        // `Acquire` pairs with the `Release` of each change: a thread that sees the number sees the bytes as well.
        self.changes.load(Acquire)
    }

    /// Allocates memory with `ask`, of a type in `usable`, and records it. Requests that break a limit are
    /// refused here: drivers need not validate them, and their behaviour is undefined for such values.
    pub(crate) fn allocate<M: MemoryHandle, R, O>(
        &self,
        properties: &DeviceProperties,
        usable: MemoryTypeMask,
        desc: &MemoryDesc<'_, O>,
        ask: impl FnOnce() -> Result<(M, E, R), DeviceError>,
    ) -> Result<(M, R), DeviceError> {
        // One answer for both: the type does not exist here, or must not be used.
        let found = properties.memory_type(desc.memory_type).filter(|_| usable.contains(desc.memory_type));
        let wrong_type = || properties.wrong_memory_type(desc.memory_type, usable);
        let &MemoryType { heap, .. } = found.ok_or_else(wrong_type)?;
        DescriptionLimit::check_memory(desc.size, properties.limits.max_allocation_size)?;
        // More than the heap has can never succeed, and Vulkan forbids asking for it.
        if desc.size > properties.heaps[heap.get()].size {
            return Err(DeviceError::OutOfDeviceMemory);
        }
        let limit = properties.limits.max_allocation_count;
        // Counted before the driver call, so that threads that allocate at the same time cannot exceed the limit
        // together.
        let counted = self.count.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1));
        counted.map_err(|_| DeviceError::TooManyAllocations)?;
        // No lock is held during the driver call, which may take milliseconds.
        let (memory, extra, rest) = ask().inspect_err(|_| {
            self.count.fetch_sub(1, Relaxed);
        })?;
        match locked(&self.objects).entry(memory.to_raw()) {
            hash_map::Entry::Vacant(vacant) => vacant.insert(Entry { heap, size: desc.size, extra }),
            // Memory that was imported and is known already. A second owner would free it twice.
            hash_map::Entry::Occupied(_) => {
                self.count.fetch_sub(1, Relaxed);
                return Err(DeviceError::AlreadyImported);
            }
        };
        // After the driver call: a failed allocation must not appear in a budget estimate.
        self.heaps[heap.get()].fetch_add(desc.size, Relaxed);
        self.changes.fetch_add(1, Release);
        Ok((memory, rest))
    }

    /// Calls `f` with the data of an object; returns `None` if there is no such object.
    pub(crate) fn with<R>(&self, memory: impl MemoryHandle, f: impl FnOnce(&mut E) -> R) -> Option<R> {
        locked(&self.objects).get_mut(&memory.to_raw()).map(|entry| f(&mut entry.extra))
    }

    /// Removes an object and frees it with `free`; in this order, since the driver may reuse the handle at once.
    pub(crate) fn free(&self, memory: impl MemoryHandle, free: impl FnOnce(Option<E>)) {
        let entry = locked(&self.objects).remove(&memory.to_raw());
        if let Some(entry) = &entry {
            // Before the driver call, as the entry is: both are gone when the handle may be reused.
            self.heaps[entry.heap.get()].fetch_sub(entry.size, Relaxed);
        }
        free(entry.map(|entry| entry.extra));
        self.changes.fetch_add(1, Release);
        // Changed after the driver call, so that a budget report from before it is not taken for a current one.
        self.count.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
#[cfg(feature = "simulated")]
mod tests {
    use super::*;
    use crate::device::simulated::{Profile, SimulatedGpu, SimulatedMemory};
    use crate::device::{MemoryDevice as _, MemoryTypeIndex};

    #[test]
    fn memory_that_is_imported_twice_has_one_owner() {
        let device = SimulatedGpu::new(Profile::named("lavapipe").unwrap());
        let properties = device.properties();
        let ledger = Ledger::<()>::new(properties);
        let desc = MemoryDesc::<()>::new(MemoryTypeIndex(0), 64);
        let same = SimulatedMemory::from_raw(7);
        let import = || ledger.allocate(properties, MemoryTypeMask::ALL, &desc, || Ok((same, (), ())));
        assert_eq!(import(), Ok((same, ())));
        let heap = properties.memory_types[0].heap;
        assert_eq!(import(), Err(DeviceError::AlreadyImported));
        assert_eq!(ledger.bytes(heap), 64, "counted once");
        ledger.free(same, drop);
        assert_eq!(import(), Ok((same, ())));
    }
}
