//! The common parts of buffers and images: the memory range that each is bound to, and who uses it.

use core::fmt::Debug;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

use super::SimulatedGpu;
use super::images::Shape;
use super::memory::{MemoryObject, SimulatedMemory};
use super::names::{Name, Named, NamedBytes};
use super::ownership::Owners;
use crate::device::{
    DedicatedNeed, DescriptionError, DeviceError, MemoryDesc, MemoryDevice as _, Requirements, SharingMode,
};
use crate::sync::locked;

/// The memory range that a resource is bound to.
#[derive(Clone, Debug)]
pub(super) struct ResourceRange {
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The name in descriptors.
    pub(super) name: Name,
    /// Shared by all clones of the resource, so that an early destruction is detected, and a use after it. The only count, so
    /// that a clone costs what one of a COM object does.
    pub(super) users: Arc<Users>,
    /// It belongs to one family of queues at a time.
    pub(super) is_exclusive: bool,
}

/// The users of a resource, and its memory.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// `None` while no resource has this.
    memory: Option<Arc<MemoryObject>>,
    /// Copies on queues; each end of a copy counts.
    copies: AtomicU32,
    /// Whether the resource was destroyed, although clones of it may exist.
    pub(super) destroyed: AtomicBool,
    /// The families that own its bytes, if it is exclusive.
    pub(super) owners: Owners,
}

/// A resource that a copy on a queue uses.
#[derive(Debug)]
pub(super) struct InUse(ResourceRange);

impl InUse {
    pub(super) fn new(range: &ResourceRange) -> Self {
        // `Relaxed`: the count is read for reports; the lock of the queues orders the work itself.
        range.users.copies.fetch_add(1, Relaxed);
        Self(range.clone())
    }
}

impl Deref for InUse {
    type Target = ResourceRange;

    fn deref(&self) -> &ResourceRange {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.users.copies.fetch_sub(1, Relaxed);
    }
}

impl ResourceRange {
    /// Returns the memory that the resource is bound to.
    pub(super) fn memory(&self) -> &Arc<MemoryObject> {
        match &self.users.memory {
            Some(memory) => memory,
            None => unreachable!("set before the resource exists, and taken from the last clone of it"),
        }
    }

    /// Returns an error for bytes that do not lie in the resource. A size of `None` is more than resources have.
    pub(super) fn check(&self, offset: u64, size: Option<u64>) -> Result<(), DeviceError> {
        let available = self.size;
        if size.and_then(|size| offset.checked_add(size)).is_some_and(|end| end <= available) {
            return Ok(());
        }
        Err(DeviceError::OutOfRange { offset, size: size.unwrap_or(u64::MAX), available })
    }

    /// Returns an error if the resource was destroyed.
    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        if self.users.destroyed.load(Relaxed) { Err(DeviceError::Destroyed) } else { Ok(()) }
    }
}

impl SimulatedGpu {
    /// Returns an error if the resource requires dedicated memory, for calls that bind it to existing memory.
    pub(super) fn check_not_dedicated(
        &self,
        call: &str,
        what: &impl Debug,
        requirements: &Requirements,
    ) -> Result<(), DeviceError> {
        if requirements.dedicated == DedicatedNeed::Required {
            self.report(format!("{call}: {what:?} requires dedicated memory"));
            return Err(DeviceError::DedicatedRequired);
        }
        Ok(())
    }

    /// Checks that a resource of `size` bytes can be bound at an offset, and binds it. An image has a shape.
    pub(super) fn bind(
        &self,
        call: &str,
        what: &impl Debug,
        size: u64,
        requirements: &Requirements,
        (memory, offset): (SimulatedMemory, u64),
        (shape, sharing_mode): (Option<Shape>, SharingMode),
    ) -> Result<ResourceRange, DeviceError> {
        self.shared.faults.check()?;
        let object = self.object(memory, call)?;
        // The requirement's size and not the resource's: drivers may write up to the end of it.
        // Drivers need not check alignment and memory type either, so a mistake would stay unseen on most of them.
        let &Requirements { size: required, alignment, memory_types, .. } = requirements;
        let (memory_type, available) = (object.memory_type(), object.size());
        let wrong = if size == 0 {
            Some(DescriptionError::ZeroSize.into())
        } else if offset.checked_add(required).is_none_or(|end| end > available) {
            Some(DeviceError::OutOfRange { offset, size: required, available })
        } else if !memory_types.contains(memory_type) {
            Some(self.shared.properties.wrong_memory_type(memory_type, memory_types))
        } else if !alignment.is_aligned(offset) {
            Some(DeviceError::Misaligned { offset, alignment: alignment.get() })
        } else {
            None
        };
        if let Some(wrong) = wrong {
            self.report(format!("{call}: {what:?} in {memory:?}: {wrong}"));
            return Err(wrong);
        }
        Ok(self.name_range(object, offset, size, (shape, sharing_mode)))
    }

    /// Makes the range of a resource in memory, with a name for descriptors.
    pub(super) fn name_range(
        &self,
        object: Arc<MemoryObject>,
        offset: u64,
        size: u64,
        (shape, sharing_mode): (Option<Shape>, SharingMode),
    ) -> ResourceRange {
        // User counts are reused, so that creating a resource in a steady program allocates nothing here.
        let mut users = locked(&self.shared.spare_users).pop().unwrap_or_default();
        let bytes = NamedBytes { memory: Arc::clone(&object), offset, size, shape };
        match Arc::get_mut(&mut users) {
            Some(users) => users.memory = Some(object),
            None => unreachable!("no resource has the spare ones"),
        }
        let name = self.shared.names.add(Named::Bytes(bytes));
        let is_exclusive = sharing_mode == SharingMode::Exclusive;
        ResourceRange { offset, size, name, users, is_exclusive }
    }

    /// Ends the binding of a resource that is destroyed.
    pub(super) fn unbind(&self, call: &str, mut range: ResourceRange) {
        // After a loss nothing is executing, and the application has to destroy everything.
        if range.users.copies.load(Relaxed) > 0 && !self.shared.queues.is_lost() {
            self.report(format!("{call}: {range:?} is still in use by a queue"));
        }
        // Before the name goes: work that still reads through a clone must find the flag.
        range.users.destroyed.store(true, Relaxed);
        self.shared.names.remove(range.name);
        // No clone of the resource is left, so the count can be reused.
        if let Some(users) = Arc::get_mut(&mut range.users) {
            *users.destroyed.get_mut() = false;
            users.memory = None;
            users.owners.clear();
            locked(&self.shared.spare_users).push(range.users);
        }
    }

    /// Allocates memory and creates a resource bound to it; frees the memory if that fails.
    pub(super) fn create_dedicated<R>(
        &self,
        requirements: &Requirements,
        memory: &MemoryDesc<'_, ()>,
        create: impl FnOnce(SimulatedMemory) -> Result<R, DeviceError>,
    ) -> Result<(SimulatedMemory, R), DeviceError> {
        // The size is the requirement's, as with `VkMemoryDedicatedAllocateInfo`.
        let memory = self.allocate_memory(&MemoryDesc { size: requirements.size, ..*memory })?;
        match create(memory) {
            Ok(resource) => Ok((memory, resource)),
            Err(error) => {
                // SAFETY: live, and no other code has its handle.
                unsafe { self.free_memory(memory) };
                Err(error)
            }
        }
    }
}

/// Returns whether a resource with this usage requires dedicated memory.
pub(super) fn dedicated_need(usage: u64) -> DedicatedNeed {
    if usage & SimulatedGpu::REQUIRES_DEDICATED == 0 { DedicatedNeed::None } else { DedicatedNeed::Required }
}
