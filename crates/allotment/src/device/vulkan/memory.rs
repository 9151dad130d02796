//! Memory from the driver: what is asked of it, and a ledger of what was got.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::collections::HashMap;
#[cfg(unix)]
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::Mutex;

use ash::vk::{self, Handle as _};

use super::{DedicatedTo, Enabled, MemoryOptions, Shared, refused};
use crate::device::{
    DeviceError, DeviceProperties, HeapIndex, MemoryDesc, MemoryHandle, MemoryType, MemoryTypeIndex,
};
use crate::sync::locked;

impl MemoryHandle for vk::DeviceMemory {
    fn to_raw(self) -> u64 {
        self.as_raw()
    }

    fn from_raw(raw: u64) -> Self {
        vk::Handle::from_raw(raw)
    }
}

/// What memory there is: the driver does not say how much of a heap is ours, nor how large an object is.
#[derive(Debug)]
pub(super) struct Ledger {
    /// By handle.
    objects: Mutex<HashMap<u64, (HeapIndex, u64)>>,
    /// Bytes by heap: the sums of `objects`.
    heaps: Vec<AtomicU64>,
    /// Objects that are live or being made.
    count: AtomicU32,
    /// How often something was got or given back.
    changes: AtomicU64,
}

impl Ledger {
    pub(super) fn new(properties: &DeviceProperties) -> Self {
        let heaps = properties.heaps.iter().map(|_| AtomicU64::new(0)).collect();
        Self { objects: Mutex::default(), heaps, count: AtomicU32::new(0), changes: AtomicU64::new(0) }
    }

    /// Bytes that were got of a heap.
    pub(super) fn bytes(&self, heap: HeapIndex) -> u64 {
        self.heaps.get(heap.get()).map_or(0, |bytes| bytes.load(Relaxed))
    }

    /// Another number as soon as the driver says something else because of this device.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    fn enter(&self, memory: vk::DeviceMemory, heap: HeapIndex, size: u64) {
        self.heaps[heap.get()].fetch_add(size, Relaxed);
        locked(&self.objects).insert(memory.as_raw(), (heap, size));
        self.changes.fetch_add(1, Release);
    }

    /// Forgets an object; before it is freed, since its handle may be given out again right then.
    fn leave(&self, memory: vk::DeviceMemory) {
        let entry = locked(&self.objects).remove(&memory.as_raw());
        if let Some((heap, size)) = entry {
            self.heaps[heap.get()].fetch_sub(size, Relaxed);
        }
    }
}

impl Shared {
    /// What can be known to be refused without asking. The driver need not look at these things, and
    /// behaves as it likes where nobody did.
    fn check(&self, memory_type: MemoryTypeIndex, size: u64) -> Result<HeapIndex, DeviceError> {
        let found = self.properties.memory_type(memory_type);
        let &MemoryType { heap, .. } = found.ok_or(DeviceError::Unsupported)?;
        if self.usable_types >> memory_type.0 & 1 == 0 || size == 0 {
            return Err(DeviceError::Unsupported);
        }
        let most = self.properties.limits.max_allocation_size.min(self.properties.heaps[heap.get()].size);
        if size > most { Err(DeviceError::OutOfDeviceMemory) } else { Ok(heap) }
    }

    /// Gets memory. A resource that it is made for counts more than one that the options name.
    pub(super) fn allocate(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        made_for: DedicatedTo,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let heap = self.check(desc.memory_type, desc.size)?;
        let limit = self.properties.limits.max_allocation_count;
        let counted =
            self.ledger.count.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1));
        counted.map_err(|_| DeviceError::TooManyAllocations)?;
        match self.ask(desc, made_for) {
            Ok(memory) => {
                self.ledger.enter(memory, heap, desc.size);
                Ok(memory)
            }
            Err(error) => {
                self.ledger.count.fetch_sub(1, Relaxed);
                Err(error)
            }
        }
    }

    fn ask(
        &self,
        desc: &MemoryDesc<'_, MemoryOptions>,
        made_for: DedicatedTo,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let mut priority = vk::MemoryPriorityAllocateInfoEXT::default().priority(desc.priority.get());
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut alone = vk::MemoryDedicatedAllocateInfo::default();
        let mut export = vk::ExportMemoryAllocateInfo::default();
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(desc.size)
            .memory_type_index(desc.memory_type.0.into());
        if self.enabled.contains(Enabled::MEMORY_PRIORITY) {
            info = info.push_next(&mut priority);
        }
        if self.enabled.contains(Enabled::BUFFER_DEVICE_ADDRESS) {
            info = info.push_next(&mut flags);
        }
        let named = desc.options.map_or(DedicatedTo::Nothing, |options| options.dedicated_to);
        match if made_for == DedicatedTo::Nothing { named } else { made_for } {
            DedicatedTo::Nothing => {}
            DedicatedTo::Buffer(buffer) => {
                alone = alone.buffer(buffer);
                info = info.push_next(&mut alone);
            }
            DedicatedTo::Image(image) => {
                alone = alone.image(image);
                info = info.push_next(&mut alone);
            }
        }
        let exported = desc.options.map(MemoryOptions::export).unwrap_or_default();
        if !exported.is_empty() {
            if !self.shareable().contains(exported) {
                return Err(DeviceError::Unsupported);
            }
            export = export.handle_types(exported);
            info = info.push_next(&mut export);
        }
        self.ask_or_import(info, desc.options)
    }

    #[cfg(not(unix))]
    fn ask_or_import(
        &self,
        info: vk::MemoryAllocateInfo<'_>,
        _: Option<&MemoryOptions>,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        // SAFETY: type, size and chain are valid, as `check` and `ask` saw to.
        unsafe { self.raw.allocate_memory(&info, None) }.map_err(refused)
    }

    #[cfg(unix)]
    fn ask_or_import(
        &self,
        info: vk::MemoryAllocateInfo<'_>,
        options: Option<&MemoryOptions>,
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let Some(import) = options.and_then(|options| options.import.as_ref()) else {
            // SAFETY: type, size and chain are valid, as `check` and `ask` saw to.
            return unsafe { self.raw.allocate_memory(&info, None) }.map_err(refused);
        };
        if !self.is_one_shareable(import.handle_type) {
            return Err(DeviceError::Unsupported);
        }
        let fd = import.fd.try_clone().map_err(|_| DeviceError::OutOfHostMemory)?.into_raw_fd();
        let mut from = vk::ImportMemoryFdInfoKHR::default().handle_type(import.handle_type).fd(fd);
        let info = info.push_next(&mut from);
        // SAFETY: as above; that the descriptor fits is what `imported_from` was promised.
        let memory = unsafe { self.raw.allocate_memory(&info, None) };
        memory.map_err(|error| {
            // SAFETY: duplicated above, and a driver that refuses leaves it to the caller.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            refused(error)
        })
    }

    /// True for exactly one handle type, as which memory may be shared.
    #[cfg(unix)]
    pub(super) fn is_one_shareable(&self, handle_type: vk::ExternalMemoryHandleTypeFlags) -> bool {
        handle_type.as_raw().is_power_of_two() && self.shareable().contains(handle_type)
    }

    /// Handle types that memory may be shared as.
    pub(super) fn shareable(&self) -> vk::ExternalMemoryHandleTypeFlags {
        let mut types = vk::ExternalMemoryHandleTypeFlags::empty();
        if self.enabled.intersects(Enabled::EXTERNAL_MEMORY_FD | Enabled::EXTERNAL_MEMORY_DMA_BUF) {
            types |= vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
        }
        if self.enabled.contains(Enabled::EXTERNAL_MEMORY_DMA_BUF) {
            types |= vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
        }
        types
    }

    /// # Safety
    ///
    /// As for [`free_memory`](crate::Device::free_memory).
    pub(super) unsafe fn free(&self, memory: vk::DeviceMemory) {
        self.ledger.leave(memory);
        // SAFETY: the caller's promise.
        unsafe { self.raw.free_memory(memory, None) };
        self.ledger.changes.fetch_add(1, Release);
        self.ledger.count.fetch_sub(1, Relaxed);
    }

    /// # Safety
    ///
    /// As for [`map_memory`](crate::Device::map_memory).
    pub(super) unsafe fn map(&self, memory: vk::DeviceMemory) -> Result<NonNull<u8>, DeviceError> {
        let flags = vk::MemoryMapFlags::empty();
        // SAFETY: the caller's promise.
        let mapped = unsafe { self.raw.map_memory(memory, 0, vk::WHOLE_SIZE, flags) };
        NonNull::new(mapped.map_err(refused)?.cast()).ok_or(DeviceError::MapFailed)
    }
}

/// A range of mapped memory, for a flush or an invalidate.
pub(super) fn mapped_range(memory: vk::DeviceMemory, range: &Range<u64>) -> vk::MappedMemoryRange<'static> {
    let size = range.end.saturating_sub(range.start);
    vk::MappedMemoryRange::default().memory(memory).offset(range.start).size(size)
}
