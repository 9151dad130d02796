//! The state of a relocatable resource that its owner and the defragmenter share: the resource as it is now, and its
//! description.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::follow::{CellKey, Follower, Followers, key_of};
use crate::device::{Device, DeviceError, MemoryProperties, TimelinePoint};
use crate::lifetime::Owned;
use crate::memory::allocator::{Allocation, AllocationId};
use crate::memory::defragmentation::movers::MoverId;
use crate::memory::resource::{BufferOrImage, Buffers, Images, RawResource, Unique};
use crate::memory::{AccessError, Movability, Pool};
use crate::sync::locked;

/// A resource of a defragmenter.
pub enum Member<D: Device> {
    /// A buffer.
    Buffer(Weak<Cell<D, Buffers>>),
    /// An image.
    Image(Weak<Cell<D, Images>>),
}

/// The resources of a defragmenter by their allocations, whose ids never change; each with its custom pool, if it has
/// one.
pub(super) type Members<D> = Mutex<HashMap<AllocationId, (Member<D>, Option<Pool>)>>;

/// The shared part of a relocatable resource.
pub struct Cell<D: Device, C: BufferOrImage<D>> {
    pub(super) info: C::Info<'static>,
    pub(super) current: Mutex<CurrentResource<D, C>>,
    id: AllocationId,
    moves: AtomicU32,
    pub(super) followers: Followers<D>,
    members: Weak<Members<D>>,
}

/// A relocatable resource as it is now.
pub(in crate::memory) struct CurrentResource<D: Device, C: BufferOrImage<D>> {
    resource: Owned<Unique<D, C>>,
    /// `None` for an image whose state was not set since it was created.
    pub(in crate::memory) state: Option<C::State>,
    /// The point at which the last copy to the current place or out of it completes, until it is known to have.
    copied_at: Option<TimelinePoint>,
    /// The CPU is kept from the bytes until then.
    blocks_cpu_access: bool,
}

impl<D: Device, C: BufferOrImage<D>> Cell<D, C> {
    /// Adds a resource to `members`, which defragmentation may move from now on.
    pub(super) fn new(
        members: &Arc<Members<D>>,
        info: C::Info<'static>,
        resource: Owned<Unique<D, C>>,
        movability: Movability,
        pool: Option<Pool>,
        mover: MoverId,
    ) -> Arc<Self> {
        let id = resource.allocation().id();
        let current = CurrentResource { resource, state: None, copied_at: None, blocks_cpu_access: false };
        let (current, moves) = (Mutex::new(current), AtomicU32::new(0));
        // The list holds weak references, so that a defragmenter does not keep its resources alive.
        let (followers, owner) = (Followers::new(), Arc::downgrade(members));
        let cell = Arc::new(Self { info, current, id, moves, followers, members: owner });
        locked(members).insert(id, (C::member(Arc::downgrade(&cell)), pool));
        // A queue could not both read the old place and write the new one, so a step would refuse to move it.
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        let movability = cell.with(|it| {
            let memory_type = it.resource.info().memory_type;
            let found = it.resource.allocator().device().properties().memory_type(memory_type);
            let is_one_way = found.is_none_or(|found| found.properties.intersects(one_way));
            if is_one_way { Movability::Pinned } else { movability }
        });
        // Only now does a step find it. Movable any earlier, a pass of another thread could move it.
        cell.with(|it| it.resource.allocator().allow_moves(it.resource.allocation(), movability, mover));
        cell
    }

    /// Calls `work` with the resource, whose handle stays valid meanwhile.
    pub(in crate::memory) fn with<T>(&self, work: impl FnOnce(&mut CurrentResource<D, C>) -> T) -> T {
        let mut current = locked(&self.current);
        // With each use, so that the owner gets its access back without waiting for the next step.
        current.finish_copy();
        work(&mut current)
    }

    /// Returns the id of the allocation, which a move does not change.
    pub(in crate::memory) fn id(&self) -> AllocationId {
        self.id
    }

    /// Returns how often the resource was moved.
    pub(in crate::memory) fn moves(&self) -> u32 {
        self.moves.load(Ordering::Acquire)
    }

    /// Lets a descriptor heap follow the moves of this resource.
    pub(in crate::memory) fn follow(&self, follower: &Arc<dyn Follower<D>>) {
        self.followers.add(follower);
    }

    /// Returns the name by which followers know the resource.
    pub(in crate::memory) fn key(self: &Arc<Self>) -> CellKey {
        key_of(self)
    }

    /// Replaces the resource by the new one. Returns the old one with `old`, its place, to be retired.
    pub(super) fn replace(
        &self,
        handle: C::Handle,
        old: Allocation,
        copied_at: Option<TimelinePoint>,
        blocks_cpu_access: bool,
    ) -> RawResource<C::Handle> {
        let mut current = locked(&self.current);
        current.blocks_cpu_access = blocks_cpu_access;
        if copied_at.is_none() {
            // A new image without a copy has the state in which images are created.
            current.state = None;
        }
        current.copied_at = copied_at;
        let left = current.resource.value_mut().replace_handle(handle, old);
        // After the handle: a thread that reads the new count, and then the handle for its descriptor, gets the new
        // handle.
        self.moves.fetch_add(1, Ordering::Release);
        left
    }

    /// Notes that a queue copies out of the current place until `copied_at`: bytes that an uploader writes come after
    /// that, also where the move is given up.
    pub(super) fn note_copy(&self, copied_at: TimelinePoint) {
        // The copies of one defragmenter are in one queue, so the last one completes last.
        locked(&self.current).copied_at = Some(copied_at);
    }
}

impl<D: Device, C: BufferOrImage<D>> CurrentResource<D, C> {
    /// Returns the resource.
    pub(in crate::memory) fn resource(&self) -> &Owned<Unique<D, C>> {
        &self.resource
    }

    /// Returns the point from which on the bytes are in place and may be written, unless it is known to be reached.
    pub(in crate::memory) fn copied_at(&self) -> Option<TimelinePoint> {
        self.copied_at
    }

    /// Allows CPU access once the copy has completed. Returns false while it has not.
    pub(super) fn finish_copy(&mut self) -> bool {
        let Some(point) = self.copied_at else { return true };
        if !self.resource.tracker().is_reached(point) {
            return false;
        }
        if self.blocks_cpu_access {
            let (allocator, allocation) = (self.resource.allocator(), self.resource.allocation());
            // The CPU's caches may hold what was in this place before, and a write flushes whole atoms: bytes of the copy
            // beside it would be lost.
            match allocator.invalidate(allocation, 0..self.resource.size()) {
                // Tried again at the next access. A lost device has no bytes to lose.
                Err(AccessError::Device(error)) if error != DeviceError::Lost => return false,
                _ => {}
            }
            allocator.note_arrived(allocation.id());
            self.blocks_cpu_access = false;
        }
        self.copied_at = None;
        true
    }
}

impl<D: Device, C: BufferOrImage<D>> Drop for Cell<D, C> {
    fn drop(&mut self) {
        let current = self.current.get_mut().unwrap_or_else(PoisonError::into_inner);
        current.resource.allocator().note_released(current.resource.allocation());
        // The defragmenter may have been dropped before its resources.
        if let Some(members) = self.members.upgrade() {
            // A statement of its own, so that the pool is dropped without the lock.
            let removed = locked(&members).remove(&self.id);
            drop(removed);
        }
    }
}

impl<D: Device, C: BufferOrImage<D>> fmt::Debug for Cell<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("id", &self.id).field("moves", &self.moves()).finish_non_exhaustive()
    }
}
