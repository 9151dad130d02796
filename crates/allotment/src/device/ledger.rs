//! What memory was got of a driver: APIs say neither how much of a heap is ours, nor how large an object is.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::collections::{HashMap, hash_map};
use std::sync::Mutex;

use super::{
    DeviceError, DeviceProperties, MemoryDesc, MemoryHandle, MemoryHeapIndex, MemoryType, MemoryTypeMask,
};
use crate::sync::locked;

/// The memory objects of a device. `E` is what its API wants remembered of each beside.
#[derive(Debug)]
pub(crate) struct Ledger<E = ()> {
    /// By handle.
    objects: Mutex<HashMap<u64, Entry<E>>>,
    /// Bytes by heap: the sums of `objects`.
    heaps: Vec<AtomicU64>,
    /// Objects that are live or being made.
    count: AtomicU32,
    /// How often something was got or given back.
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
        let heaps = properties.heaps.iter().map(|_| AtomicU64::new(0)).collect();
        Self { objects: Mutex::default(), heaps, count: AtomicU32::new(0), changes: AtomicU64::new(0) }
    }

    /// Bytes that were got of a heap.
    pub(crate) fn bytes(&self, heap: MemoryHeapIndex) -> u64 {
        self.heaps.get(heap.get()).map_or(0, |bytes| bytes.load(Relaxed))
    }

    /// Another number as soon as the driver says something else because of this device.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Gets memory by `ask`, of a type in `usable`, and enters it. What can be known to be refused is
    /// refused here: drivers need not look at these things, and behave as they like where nobody did.
    pub(crate) fn allocate<M: MemoryHandle, R, O>(
        &self,
        properties: &DeviceProperties,
        usable: MemoryTypeMask,
        desc: &MemoryDesc<'_, O>,
        ask: impl FnOnce() -> Result<(M, E, R), DeviceError>,
    ) -> Result<(M, R), DeviceError> {
        let found = properties.memory_type(desc.memory_type).filter(|_| usable.contains(desc.memory_type));
        let &MemoryType { heap, .. } = found.filter(|_| desc.size > 0).ok_or(DeviceError::Unsupported)?;
        if desc.size > properties.limits.max_allocation_size.min(properties.heaps[heap.get()].size) {
            return Err(DeviceError::OutOfDeviceMemory);
        }
        let limit = properties.limits.max_allocation_count;
        let counted = self.count.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1));
        counted.map_err(|_| DeviceError::TooManyAllocations)?;
        let (memory, extra, rest) = ask().inspect_err(|_| {
            self.count.fetch_sub(1, Relaxed);
        })?;
        match locked(&self.objects).entry(memory.to_raw()) {
            hash_map::Entry::Vacant(vacant) => vacant.insert(Entry { heap, size: desc.size, extra }),
            // Memory that was imported and is here already: there would be two who free it.
            hash_map::Entry::Occupied(_) => {
                self.count.fetch_sub(1, Relaxed);
                return Err(DeviceError::Unsupported);
            }
        };
        self.heaps[heap.get()].fetch_add(desc.size, Relaxed);
        self.changes.fetch_add(1, Release);
        Ok((memory, rest))
    }

    /// Shows what is remembered of an object; `None` where there is no such object.
    pub(crate) fn with<R>(&self, memory: impl MemoryHandle, f: impl FnOnce(&mut E) -> R) -> Option<R> {
        locked(&self.objects).get_mut(&memory.to_raw()).map(|entry| f(&mut entry.extra))
    }

    /// Forgets an object and gives it back by `free`; in this order, since its handle may be given out again
    /// right then.
    pub(crate) fn free(&self, memory: impl MemoryHandle, free: impl FnOnce(Option<E>)) {
        let entry = locked(&self.objects).remove(&memory.to_raw());
        if let Some(entry) = &entry {
            self.heaps[entry.heap.get()].fetch_sub(entry.size, Relaxed);
        }
        free(entry.map(|entry| entry.extra));
        self.changes.fetch_add(1, Release);
        self.count.fetch_sub(1, Relaxed);
    }
}
