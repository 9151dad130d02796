//! Memory objects of the simulated GPU: real bytes, which the operating system commits on first access.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use memmap2::{MmapMut, MmapOptions};

use super::hazards::LastAccesses;
use super::names::{ByName, Name};
use super::reserved::{Located, RangeTable};
use super::{SimulatedGpu, SimulatedUsage, ValidationErrors};
use crate::device::{
    DescriptionLimit, DeviceError, DeviceProperties, MemoryDesc, MemoryDevice, MemoryHandle,
    MemoryHeapBudget, MemoryHeapIndex, MemoryProperties, MemoryType, MemoryTypeIndex, MemoryTypeMask,
    Priority, PrioritySupport, copy_bytes, read_bytes, write_bytes,
};
use crate::sync::locked;

/// A handle of a memory object of a [`SimulatedGpu`](super::SimulatedGpu). Handles are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimulatedMemory {
    slot: u32,
    generation: u32,
}

impl MemoryHandle for SimulatedMemory {
    fn to_raw(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation)
    }

    fn from_raw(raw: u64) -> Self {
        Self { slot: (raw >> 32) as u32, generation: raw as u32 }
    }
}

/// The bytes of a memory object or of a descriptor heap, initially zero: pages that the operating system commits
/// on first access. So a simulated GPU of 140 GiB costs only what is used of it.
#[derive(Debug)]
pub(super) struct Bytes {
    pages: MmapMut,
    first: NonNull<u8>,
}

impl Bytes {
    pub(super) fn new(size: u64) -> Option<Self> {
        // Anonymous pages are zero and cost nothing before the first access, so a profile may have 140 GiB.
        Self::of_pages(MmapMut::map_anon(usize::try_from(size).ok()?).ok()?)
    }

    /// Reserves addresses, which are never accessed.
    fn addresses(size: u64) -> Option<Self> {
        // Of which a process may have more than the system has memory.
        let mut options = MmapOptions::new();
        Self::of_pages(options.len(usize::try_from(size).ok()?).no_reserve_swap().map_anon().ok()?)
    }

    fn of_pages(mut pages: MmapMut) -> Option<Self> {
        let first = NonNull::new(pages.as_mut_ptr())?;
        Some(Self { pages, first })
    }

    pub(super) fn at(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(offset as usize <= self.pages.len());
        // SAFETY: callers stay within the object's size.
        unsafe { self.first.add(offset as usize) }
    }

    /// Reads bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        // A plain `assert`: these offsets come from descriptors and copies, and must not pass in a release build
        // either.
        assert!(self.has(offset, bytes.len()));
        // SAFETY: the range lies inside, and all accesses are atomic.
        unsafe { read_bytes(self.at(offset), bytes) };
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.has(offset, bytes.len()));
        // SAFETY: the range lies inside, and all accesses are atomic.
        unsafe { write_bytes(self.at(offset), bytes) };
    }

    /// Writes words at an offset that is a multiple of their size.
    #[inline]
    pub(super) fn write_words(&self, offset: u64, words: &[u64]) {
        assert!(self.has(offset, size_of_val(words)) && offset % 8 == 0);
        for (offset, &word) in (offset..).step_by(8).zip(words) {
            let at = self.at(offset).cast::<u64>();
            // SAFETY: the words lie inside, pages and offsets are multiples of eight, and all accesses are atomic.
            unsafe { AtomicU64::from_ptr(at.as_ptr()) }.store(word, Relaxed);
        }
    }

    fn has(&self, offset: u64, len: usize) -> bool {
        offset.checked_add(len as u64).is_some_and(|end| end <= self.pages.len() as u64)
    }
}

// SAFETY: the bytes are only accessed atomically, through `read_bytes` and `write_bytes`.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

/// A memory object.
#[derive(Debug)]
pub(super) struct MemoryObject {
    size: u64,
    memory_type: MemoryTypeIndex,
    heap: MemoryHeapIndex,
    properties: MemoryProperties,
    /// The priority that was set last.
    priority: Mutex<Priority>,
    /// The bytes that queues access.
    device_view: Bytes,
    /// The bytes that the CPU accesses, if they differ until a flush or an invalidate.
    host_view: Option<Bytes>,
    mapped: AtomicBool,
    /// Set when freed: buffers and queues may keep the object alive for longer.
    freed: AtomicBool,
    /// The last accesses of the queues.
    pub(super) accesses: Mutex<LastAccesses>,
    /// What is bound where, if these are the addresses of a reserved buffer and no memory.
    pub(super) ranges: Option<RangeTable>,
    /// Pages that are bound to reserved buffers.
    pub(super) bound_pages: AtomicU32,
}

impl MemoryObject {
    /// Returns where the bytes that queues access are in the CPU's address space.
    pub(super) fn address(&self, offset: u64) -> u64 {
        self.device_view.at(offset).addr().get() as u64
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn memory_type(&self) -> MemoryTypeIndex {
        self.memory_type
    }

    pub(super) fn properties(&self) -> MemoryProperties {
        self.properties
    }

    pub(super) fn priority(&self) -> Priority {
        *locked(&self.priority)
    }

    pub(super) fn set_priority(&self, priority: Priority) {
        *locked(&self.priority) = priority;
    }

    pub(super) fn is_freed(&self) -> bool {
        self.freed.load(Relaxed)
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load(Relaxed)
    }

    /// Sets whether the memory is mapped, and returns whether it was before.
    pub(super) fn set_mapped(&self, mapped: bool) -> bool {
        self.mapped.swap(mapped, Relaxed)
    }

    /// Returns the address of the first byte for the CPU.
    pub(super) fn host_view(&self) -> NonNull<u8> {
        // Coherent memory has one view, so that CPU and queues see each other's bytes at once.
        self.host_view.as_ref().unwrap_or(&self.device_view).at(0)
    }

    pub(super) fn flush(&self, range: Range<u64>) {
        if let Some(host_view) = &self.host_view {
            copy(host_view, range.start, &self.device_view, range.start, self.clamp(&range));
        }
    }

    pub(super) fn invalidate(&self, range: Range<u64>) {
        if let Some(host_view) = &self.host_view {
            copy(&self.device_view, range.start, host_view, range.start, self.clamp(&range));
        }
        // Rounding to atoms may pass the end of the memory.
    }

    fn clamp(&self, range: &Range<u64>) -> u64 {
        range.end.min(self.size).saturating_sub(range.start)
    }

    /// Reads the bytes of the device's view from `offset` on.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        if self.ranges.is_none() {
            return self.device_view.read(offset, bytes);
        }
        let mut done = 0;
        while done < bytes.len() {
            let (located, size) = self.locate(offset + done as u64, (bytes.len() - done) as u64);
            let next = done + size as usize;
            if let Some((view, at)) = self.view(&located) {
                view.read(at, &mut bytes[done..next]);
            }
            done = next;
        }
    }

    /// Writes to the device's view, as a queue does.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        if self.ranges.is_none() {
            return self.device_view.write(offset, bytes);
        }
        let mut done = 0;
        while done < bytes.len() {
            let (located, size) = self.locate(offset + done as u64, (bytes.len() - done) as u64);
            let next = done + size as usize;
            if let Some((view, at)) = self.view(&located) {
                view.write(at, &bytes[done..next]);
            }
            done = next;
        }
    }

    /// Copies between device views, as a queue does. Both ranges lie inside, as `submit` checked.
    pub(super) fn copy_to(&self, offset: u64, to: &Self, to_offset: u64, size: u64) {
        if self.ranges.is_none() && to.ranges.is_none() {
            return copy(&self.device_view, offset, &to.device_view, to_offset, size);
        }
        // In parts that are together on both sides.
        let mut done = 0;
        while done < size {
            let (source, readable) = self.locate(offset + done, size - done);
            let (target, writable) = to.locate(to_offset + done, size - done);
            let part = readable.min(writable);
            if let (Some((from, from_at)), Some((into, into_at))) = (self.view(&source), to.view(&target)) {
                copy(from, from_at, into, into_at, part);
            }
            done += part;
        }
    }

    /// Returns where the bytes from `offset` on are, and how many of `size` are together.
    fn locate(&self, offset: u64, size: u64) -> (Located, u64) {
        match &self.ranges {
            Some(ranges) => ranges.locate(offset, size),
            None => (Located::Here(offset), size),
        }
    }

    /// Returns the bytes of the device's view, and where in them; nothing where no memory is bound: what is read there is
    /// undefined, and what is written is lost.
    fn view<'a>(&'a self, located: &'a Located) -> Option<(&'a Bytes, u64)> {
        match located {
            Located::Here(offset) => Some((&self.device_view, *offset)),
            Located::Bound(memory, offset) => Some((&memory.device_view, *offset)),
            Located::Nowhere => None,
        }
    }
}

fn copy(from: &Bytes, from_offset: u64, to: &Bytes, to_offset: u64, size: u64) {
    // SAFETY: the ranges lie inside both objects and do not overlap, and all accesses to them are atomic.
    unsafe { copy_bytes(from.at(from_offset), to.at(to_offset), size as usize) };
}

/// All memory objects of a device, and counters.
#[derive(Debug)]
pub(super) struct Memories {
    objects: ByName<Arc<MemoryObject>>,
    heap_usage: Vec<AtomicU64>,
    count: AtomicU32,
    buffers: AtomicI64,
    images: AtomicI64,
    descriptor_heaps: AtomicI64,
    samplers: AtomicU32,
    allocate_calls: AtomicU64,
    free_calls: AtomicU64,
    map_calls: AtomicU64,
    bind_calls: AtomicU64,
    /// Bytes that are mapped, and how many may be.
    mapped_bytes: AtomicU64,
    address_space: AtomicU64,
    descriptor_copies: AtomicU64,
    validation_errors: ValidationErrors,
}

impl Memories {
    pub(super) fn new(properties: &DeviceProperties, validation_errors: ValidationErrors) -> Self {
        Self {
            objects: ByName::default(),
            heap_usage: properties.heaps.iter().map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU32::new(0),
            buffers: AtomicI64::new(0),
            images: AtomicI64::new(0),
            descriptor_heaps: AtomicI64::new(0),
            samplers: AtomicU32::new(0),
            allocate_calls: AtomicU64::new(0),
            free_calls: AtomicU64::new(0),
            map_calls: AtomicU64::new(0),
            bind_calls: AtomicU64::new(0),
            mapped_bytes: AtomicU64::new(0),
            address_space: AtomicU64::new(u64::MAX),
            descriptor_copies: AtomicU64::new(0),
            validation_errors,
        }
    }

    pub(super) fn allocate(
        &self,
        properties: &DeviceProperties,
        memory_type: MemoryTypeIndex,
        size: u64,
    ) -> Result<SimulatedMemory, DeviceError> {
        let Some(&MemoryType { heap: heap_index, properties: own }) = properties.memory_type(memory_type)
        else {
            let wrong = properties.wrong_memory_type(memory_type, MemoryTypeMask::ALL);
            self.validation_errors.add(format!("allocate: {wrong}"));
            return Err(wrong);
        };
        if let Err(wrong) = DescriptionLimit::check_memory(size, properties.limits.max_allocation_size) {
            self.validation_errors.add(format!("allocate: {wrong}"));
            return Err(wrong.into());
        }
        let heap = heap_index.get();
        let capacity = properties.heaps[heap].size;
        let limit = properties.limits.max_allocation_count;
        // Counted before the allocation, so that threads that allocate at the same time cannot exceed the limit
        // together.
        // `Relaxed` here and below: the counters guard no data; the lock of the slots publishes the object.
        let counted = self.count.fetch_update(Relaxed, Relaxed, |n| (n < limit).then_some(n + 1));
        if counted.is_err() {
            return Err(DeviceError::TooManyAllocations);
        }
        // Charged before the pages exist, for the same reason as the count.
        let charged = self.heap_usage[heap]
            .fetch_update(Relaxed, Relaxed, |used| used.checked_add(size).filter(|&sum| sum <= capacity));
        let refund_count = || self.count.fetch_sub(1, Relaxed);
        // Taken back in reverse order, so that a failed allocation leaves both counters as they were.
        if charged.is_err() {
            refund_count();
            return Err(DeviceError::OutOfDeviceMemory);
        }
        let new_object = || Self::new_object((memory_type, heap_index, own), size, Bytes::new(size)?);
        let Some(object) = new_object() else {
            refund_count();
            self.heap_usage[heap].fetch_sub(size, Relaxed);
            return Err(DeviceError::OutOfHostMemory);
        };
        let Name(raw) = self.objects.add(Arc::new(object));
        Ok(SimulatedMemory::from_raw(raw))
    }

    fn new_object(
        (memory_type, heap, properties): (MemoryTypeIndex, MemoryHeapIndex, MemoryProperties),
        size: u64,
        device_view: Bytes,
    ) -> Option<MemoryObject> {
        // Two copies make a forgotten flush or invalidate visible as wrong bytes.
        let host_view = if properties.needs_flush() { Some(Bytes::new(size)?) } else { None };
        let [mapped, freed] = [false; 2].map(AtomicBool::new);
        let priority = Mutex::new(Priority::NORMAL);
        Some(MemoryObject {
            size,
            memory_type,
            heap,
            properties,
            priority,
            device_view,
            host_view,
            mapped,
            freed,
            accesses: Mutex::default(),
            ranges: None,
            bound_pages: AtomicU32::new(0),
        })
    }

    /// Makes the addresses of a reserved buffer, which are no memory. `None` where the address space of the process has no room.
    pub(super) fn addresses(size: u64, ranges: RangeTable) -> Option<MemoryObject> {
        // Of no type: what is bound may be of several.
        let (memory_type, heap) = (MemoryTypeIndex(0), MemoryHeapIndex(0));
        let of_type = (memory_type, heap, MemoryProperties::empty());
        let object = Self::new_object(of_type, size, Bytes::addresses(size)?)?;
        Some(MemoryObject { ranges: Some(ranges), ..object })
    }

    pub(super) fn get(&self, memory: SimulatedMemory) -> Option<Arc<MemoryObject>> {
        self.objects.get(Name(memory.to_raw()))
    }

    /// Removes a live object. A queue that still uses it keeps the bytes alive.
    pub(super) fn free(&self, memory: SimulatedMemory) -> Option<Arc<MemoryObject>> {
        self.free_calls.fetch_add(1, Relaxed);
        let object = self.objects.remove(Name(memory.to_raw()))?;
        object.freed.store(true, Relaxed);
        self.count.fetch_sub(1, Relaxed);
        self.heap_usage[object.heap.get()].fetch_sub(object.size, Relaxed);
        self.unmap(&object);
        Some(object)
    }

    /// Maps an object. Returns false where the address space has no room for it.
    fn map(&self, object: &MemoryObject) -> bool {
        let most = self.address_space.load(Relaxed);
        let sum = |bytes: u64| bytes.checked_add(object.size).filter(|&sum| sum <= most);
        self.mapped_bytes.fetch_update(Relaxed, Relaxed, sum).is_ok()
    }

    /// Ends the mapping of an object. Returns false if it has none.
    fn unmap(&self, object: &MemoryObject) -> bool {
        let was_mapped = object.set_mapped(false);
        if was_mapped {
            self.mapped_bytes.fetch_sub(object.size, Relaxed);
        }
        was_mapped
    }

    pub(super) fn set_address_space(&self, bytes: u64) {
        self.address_space.store(bytes, Relaxed);
    }

    pub(super) fn heap_usage(&self, heap: MemoryHeapIndex) -> u64 {
        self.heap_usage.get(heap.get()).map_or(0, |usage| usage.load(Relaxed))
    }

    pub(super) fn count_allocate_call(&self) {
        self.allocate_calls.fetch_add(1, Relaxed);
    }

    pub(super) fn count_map_call(&self) {
        self.map_calls.fetch_add(1, Relaxed);
    }

    pub(super) fn count_bind_call(&self) {
        self.bind_calls.fetch_add(1, Relaxed);
    }

    pub(super) fn count_buffer(&self, by: i64) {
        self.buffers.fetch_add(by, Relaxed);
    }

    pub(super) fn count_image(&self, by: i64) {
        self.images.fetch_add(by, Relaxed);
    }

    pub(super) fn count_descriptor_heap(&self, by: i64) {
        self.descriptor_heaps.fetch_add(by, Relaxed);
    }

    pub(super) fn count_descriptor_copy(&self) {
        self.descriptor_copies.fetch_add(1, Relaxed);
    }

    /// Counts a new sampler; returns false if the limit is reached.
    pub(super) fn count_sampler(&self, limit: u32) -> bool {
        self.samplers.fetch_update(Relaxed, Relaxed, |n| (n < limit).then_some(n + 1)).is_ok()
    }

    pub(super) fn uncount_sampler(&self) {
        self.samplers.fetch_sub(1, Relaxed);
    }

    pub(super) fn usage(&self) -> SimulatedUsage {
        SimulatedUsage {
            memory_objects: self.count.load(Relaxed),
            memory_bytes: self.heap_usage.iter().map(|usage| usage.load(Relaxed)).sum(),
            buffers: self.buffers.load(Relaxed).unsigned_abs(),
            images: self.images.load(Relaxed).unsigned_abs(),
            descriptor_heaps: self.descriptor_heaps.load(Relaxed).unsigned_abs(),
            samplers: self.samplers.load(Relaxed),
            allocate_calls: self.allocate_calls.load(Relaxed),
            free_calls: self.free_calls.load(Relaxed),
            map_calls: self.map_calls.load(Relaxed),
            bind_calls: self.bind_calls.load(Relaxed),
            mapped_bytes: self.mapped_bytes.load(Relaxed),
            descriptor_copies: self.descriptor_copies.load(Relaxed),
        }
    }
}

impl SimulatedGpu {
    pub(super) fn object(
        &self,
        memory: SimulatedMemory,
        call: &str,
    ) -> Result<Arc<MemoryObject>, DeviceError> {
        self.shared.memories.get(memory).ok_or_else(|| {
            self.report(format!("{call}: {memory:?} is not live"));
            DeviceError::Destroyed
        })
    }

    fn check_atoms(&self, object: &MemoryObject, range: &Range<u64>, call: &str) {
        let atom = self.shared.properties.limits.non_coherent_atom_size;
        // The end of the memory needs no alignment, as with `VkMappedMemoryRange`.
        let whole = |end: u64| atom.is_aligned(end) || end == object.size();
        // A range that passes the end is reported rather than refused: `clamp` keeps the copy inside.
        let inside = range.start <= range.end && range.end <= object.size();
        if !whole(range.start) || !whole(range.end) || !inside {
            self.report(format!(
                "{call}: {range:?} of {} bytes is not aligned to atoms of {atom} bytes",
                object.size()
            ));
        }
        if !object.is_mapped() {
            self.report(format!("{call}: the memory is not mapped"));
        }
    }
}

// SAFETY: memory is a live heap allocation until it is freed, its handle is unique by its generation, mapped
// addresses point to all of it, and the properties are never written.
unsafe impl MemoryDevice for SimulatedGpu {
    type Memory = SimulatedMemory;
    type MemoryOptions = ();

    fn properties(&self) -> &DeviceProperties {
        &self.shared.properties
    }

    fn id(&self) -> u64 {
        Arc::as_ptr(&self.shared).addr() as u64
    }

    fn heap_budget(&self, heap: MemoryHeapIndex) -> MemoryHeapBudget {
        let budget = locked(&self.shared.budgets).get(heap.get()).copied().unwrap_or(0);
        MemoryHeapBudget { usage: self.shared.memories.heap_usage(heap), budget }
    }

    fn allocate_memory(&self, desc: &MemoryDesc<'_, ()>) -> Result<SimulatedMemory, DeviceError> {
        // Counted before an injected fault, so that tests can count attempts.
        self.shared.memories.count_allocate_call();
        self.shared.faults.check()?;
        let memory = self.shared.memories.allocate(&self.shared.properties, desc.memory_type, desc.size)?;
        // A device without support ignores the priority, as an application of Vulkan that chains nothing would.
        if desc.priority != Priority::NORMAL && self.priority_support() != PrioritySupport::Ignored {
            self.object(memory, "allocate")?.set_priority(desc.priority);
        }
        Ok(memory)
    }

    unsafe fn free_memory(&self, memory: SimulatedMemory) {
        if let Some(object) = self.shared.memories.free(memory) {
            // The queue keeps the bytes alive, so a use after free is reported and cannot read freed memory.
            if self.shared.queues.uses(&object) {
                self.report(format!("free: {memory:?} is still in use by a queue"));
            }
            if object.bound_pages.load(Relaxed) > 0 {
                self.report(format!("free: {memory:?} is still bound to a reserved buffer"));
            }
        } else {
            self.report(format!("free: {memory:?} is not live"));
        }
    }

    fn priority_support(&self) -> PrioritySupport {
        self.shared.profile.priorities
    }

    unsafe fn set_memory_priority(
        &self,
        memory: SimulatedMemory,
        priority: Priority,
    ) -> Result<(), DeviceError> {
        let object = self.object(memory, "set_memory_priority")?;
        if self.priority_support() != PrioritySupport::AnyTime {
            return Err(DeviceError::Unsupported);
        }
        object.set_priority(priority);
        Ok(())
    }

    unsafe fn map_memory(&self, memory: SimulatedMemory) -> Result<NonNull<u8>, DeviceError> {
        self.shared.memories.count_map_call();
        self.shared.faults.check()?;
        let object = self.object(memory, "map")?;
        if !object.properties().contains(MemoryProperties::HOST_VISIBLE) {
            self.report(format!("map: {memory:?} is not host-visible"));
            return Err(DeviceError::MapFailed);
        }
        if !self.shared.memories.map(&object) {
            return Err(DeviceError::MapFailed);
        }
        // Vulkan forbids mapping memory twice. The address is returned all the same: the report is enough.
        if object.set_mapped(true) {
            self.report(format!("map: {memory:?} is already mapped"));
        }
        Ok(object.host_view())
    }

    unsafe fn unmap_memory(&self, memory: SimulatedMemory) {
        if let Ok(object) = self.object(memory, "unmap") {
            if !self.shared.memories.unmap(&object) {
                self.report(format!("unmap: {memory:?} is not mapped"));
            }
        }
    }

    unsafe fn flush_memory(&self, memory: SimulatedMemory, range: Range<u64>) -> Result<(), DeviceError> {
        // A flush is fallible in Vulkan, so faults are injected here too.
        self.shared.faults.check()?;
        let object = self.object(memory, "flush")?;
        self.check_atoms(&object, &range, "flush");
        object.flush(range);
        Ok(())
    }

    unsafe fn invalidate_memory(
        &self,
        memory: SimulatedMemory,
        range: Range<u64>,
    ) -> Result<(), DeviceError> {
        self.shared.faults.check()?;
        let object = self.object(memory, "invalidate")?;
        self.check_atoms(&object, &range, "invalidate");
        object.invalidate(range);
        Ok(())
    }
}
