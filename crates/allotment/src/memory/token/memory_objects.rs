//! The memory objects of all blocks of an allocator, readable without a lock.
//!
//! ```text
//!   records   [ object 1, offset 0 ][ object 1, offset 256 ][ object 0, offset 64 ] …
//!                      └──────────┬─────────────┘                   │
//!   objects   [ memory, size, address ][ memory, size, address ] ◄──┘                  as many as there were blocks at once
//! ```
//!
//! A record names its memory object by index: blocks are few, so what a reader needs to know of them is in the caches, and
//! a record takes half of the room. An entry takes 24 bytes, which are kept as long as the allocator lives.
//!
//! # An entry that changes
//!
//! The entry of a memory object that is freed is given to another. Before that, every record that named it was written
//! anew or retired under its pool's lock. So a reader who finds the new content finds the sequence of its record changed,
//! and reads again; or the generation, and its handle is stale ([`register`](MemoryObjects::register) has the fence for it).

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool as PlainBool, AtomicU32};
use std::sync::Arc;

use crate::sync::checked::{AtomicPtr, AtomicU64, Mutex, fence, locked};
use crate::table::StableTable;

/// The memory objects by index. See the [module](self).
#[derive(Debug)]
pub(crate) struct MemoryObjects {
    entries: StableTable<Entry>,
    vacant: Mutex<Vacant>,
    /// The number of empty blocks, by heap. Not an atomic of the model checker, since it orders nothing.
    idle: [AtomicU32; MAX_HEAPS],
    /// There was host-visible memory that was not mapped.
    any_unmapped: PlainBool,
}

/// The most heaps of a device, which the allocator checks.
const MAX_HEAPS: usize = 16;

#[derive(Debug)]
struct Entry {
    memory: AtomicU64,
    size: AtomicU64,
    /// Address of the first byte; null while the memory is not mapped.
    address: AtomicPtr<u8>,
}

impl Default for Entry {
    fn default() -> Self {
        Self { memory: AtomicU64::new(0), size: AtomicU64::new(0), address: AtomicPtr::new(ptr::null_mut()) }
    }
}

#[derive(Debug, Default)]
struct Vacant {
    indices: Vec<u32>,
    /// The lowest index that was never used.
    next: u32,
}

/// What a reader needs to know of a memory object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryObject {
    /// The driver's handle.
    pub(crate) memory: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Address of the first byte; `None` while the memory is not mapped.
    pub(crate) address: Option<NonNull<u8>>,
}

/// The index of a memory object, which is given to another one once this is dropped.
#[derive(Debug)]
pub(crate) struct RegisteredObject {
    objects: Arc<MemoryObjects>,
    index: u32,
}

impl MemoryObjects {
    pub(crate) fn new() -> Arc<Self> {
        let idle = core::array::from_fn(|_| AtomicU32::new(0));
        Arc::new(Self {
            entries: StableTable::new(),
            vacant: Mutex::new(Vacant::default()),
            idle,
            any_unmapped: PlainBool::new(false),
        })
    }

    /// Notes that there is host-visible memory that is not mapped.
    pub(crate) fn note_unmapped(&self) {
        self.any_unmapped.store(true, Relaxed);
    }

    /// Returns true if there may be host-visible memory that is not mapped. Where the GPU has memory of its own that the
    /// CPU cannot map, there is none.
    #[inline]
    pub(crate) fn has_unmapped(&self) -> bool {
        self.any_unmapped.load(Relaxed)
    }

    /// Counts empty blocks of a heap, by its index, that are new, or were emptied.
    pub(crate) fn add_idle(&self, heap: usize) {
        self.idle[heap % MAX_HEAPS].fetch_add(1, Relaxed);
    }

    /// Counts empty blocks of a heap that are freed, or in use again.
    pub(crate) fn remove_idle(&self, heap: usize, count: u32) {
        self.idle[heap % MAX_HEAPS].fetch_sub(count, Relaxed);
    }

    /// Returns the number of empty blocks of a heap.
    pub(crate) fn idle_in(&self, heap: usize) -> u32 {
        self.idle[heap % MAX_HEAPS].load(Relaxed)
    }

    /// Gives a memory object an index.
    pub(crate) fn register(self: &Arc<Self>, object: MemoryObject) -> RegisteredObject {
        let index = {
            let mut vacant = locked(&self.vacant);
            vacant.indices.pop().unwrap_or_else(|| {
                let index = vacant.next;
                vacant.next += 1;
                index
            })
        };
        let Some(entry) = self.entries.get_or_make(index) else {
            unreachable!("host memory ends before there are 2^32 memory objects")
        };
        // A thread that loads any of the values below, and has an acquire fence after that, also sees every change of the
        // records that named the memory object before this one: their pool's lock, and then the lock of the vacant indices,
        // ordered those changes before this fence.
        fence(Release);
        entry.memory.store(object.memory, Relaxed);
        entry.size.store(object.size, Relaxed);
        entry.address.store(object.address.map_or(ptr::null_mut(), NonNull::as_ptr), Relaxed);
        RegisteredObject { objects: Arc::clone(self), index }
    }

    /// Stores the address of a memory object that was mapped after it had been registered. The caller keeps it alive.
    pub(crate) fn note_mapped(&self, index: u32, first: NonNull<u8>) {
        if let Some(entry) = self.entries.get(index) {
            // Relaxed: what the address leads to is the driver's memory, to which no thread has written before.
            entry.address.store(first.as_ptr(), Relaxed);
        }
    }

    /// Reads an entry, for a reader that reads a record: the parts belong together only if the record did not change
    /// meanwhile.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> MemoryObject {
        match self.entries.get(index) {
            Some(entry) => MemoryObject {
                memory: entry.memory.load(Relaxed),
                size: entry.size.load(Relaxed),
                address: NonNull::new(entry.address.load(Relaxed)),
            },
            // A record that was never written names the first.
            None => MemoryObject { memory: 0, size: 0, address: None },
        }
    }
}

impl RegisteredObject {
    /// Returns the address of the first byte, if the memory object is mapped.
    pub(crate) fn address(&self) -> Option<NonNull<u8>> {
        self.objects.get(self.index).address
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for RegisteredObject {
    fn drop(&mut self) {
        locked(&self.objects.vacant).indices.push(self.index);
    }
}

#[cfg(test)]
#[cfg(not(allotment_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_memory_object_that_is_freed_is_given_to_the_next_one() {
        let objects = MemoryObjects::new();
        let mut bytes = [0; 4];
        let address = NonNull::new(bytes.as_mut_ptr());
        let object = |memory| MemoryObject { memory, size: 1 << 48, address };
        let (first, second) = (objects.register(object(7)), objects.register(object(8)));
        assert_ne!(first.index(), second.index());
        let index = first.index();
        drop(first);
        let third = objects.register(object(9));
        assert_eq!((third.index(), objects.get(index).memory), (index, 9));
        assert_eq!((objects.get(second.index()).memory, objects.get(index).size), (8, 1 << 48));
        assert_eq!(objects.get(index).address, address);
    }
}
