//! The state of a relocatable resource that its owner and the defragmenter share: the resource as it is now, and its
//! description.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::device::{Device, DeviceError, MemoryProperties, TimelinePoint};
use crate::hash::Seed;
use crate::lifetime::Owned;
use crate::memory::allocator::Allocator;
use crate::memory::mover::MoverId;
use crate::memory::request::Moves;
use crate::memory::resource::relocation::follow::{CellKey, Follower, Followers, key_of};
use crate::memory::resource::{BufferOrImage, Buffers, Images, RawResource, Unique};
use crate::memory::token::{Allocation, AllocationId};
use crate::memory::{AccessError, Movability, Pool};
use crate::sync::locked;

/// A resource of a defragmenter.
pub enum Member<D: Device> {
    /// A buffer.
    Buffer(Weak<Cell<D, Buffers>>),
    /// An image.
    Image(Weak<Cell<D, Images>>),
}

/// The resources of a defragmenter by their [keys](key_in_list), each with its custom pool, if it has one.
type List<D> = HashMap<u64, (Member<D>, Option<Pool>), Seed>;

/// Returns the key of an allocation, whose id never changes, in the list of its defragmenter. One word, since the others of the id
/// are the same for all that are in the list at one time: a resource leaves it before its record is another allocation's. Who
/// finds one by an id that may be older compares the ids.
pub(super) fn key_in_list(id: AllocationId) -> u64 {
    u64::from(id.pool) << 32 | u64::from(id.record)
}

/// The resources of a defragmenter. Lives as long as it or any of them, and so does the id of their mover.
pub(super) struct Members<D: Device> {
    allocator: Arc<Allocator<D>>,
    mover: MoverId,
    /// Weak references, so that a defragmenter does not keep its resources alive.
    list: Mutex<List<D>>,
}

impl<D: Device> Members<D> {
    /// Takes the id of another defragmenter. `None` where none is left.
    pub(super) fn new(allocator: &Arc<Allocator<D>>) -> Option<Arc<Self>> {
        let mover = allocator.movers.ids.take()?;
        Some(Arc::new(Self { allocator: Arc::clone(allocator), mover, list: Mutex::default() }))
    }

    pub(super) fn mover(&self) -> MoverId {
        self.mover
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, List<D>> {
        locked(&self.list)
    }
}

impl<D: Device> Drop for Members<D> {
    fn drop(&mut self) {
        self.allocator.movers.ids.give_back(self.mover);
    }
}

/// The shared part of a relocatable resource.
pub struct Cell<D: Device, C: BufferOrImage<D>> {
    pub(super) info: C::Info<'static>,
    pub(super) current: Mutex<CurrentResource<D, C>>,
    id: AllocationId,
    /// Wraps around. It is compared with what it was before, and each move is a submission or an owner's call: 2^32 of them
    /// between two looks take hours, in which nothing else may come to look.
    moves: AtomicU32,
    pub(super) followers: Followers<D>,
    /// Last, since it is dropped last: the id in the record of the allocation stays in use until that is released.
    members: Arc<Members<D>>,
    /// Whether it may move while all that its copy needs is known.
    movability: Movability,
}

/// A relocatable resource as it is now.
pub(in crate::memory::resource) struct CurrentResource<D: Device, C: BufferOrImage<D>> {
    resource: Owned<Unique<D, C>>,
    /// Of an image.
    states: C::States,
    /// Whether steps may move it at present, where that depends on its state.
    is_known: bool,
    /// The point at which the last copy to the current place or out of it completes, until it is known to have.
    copied_at: Option<TimelinePoint>,
    /// The CPU is kept from the bytes until then.
    blocks_cpu_access: bool,
    /// Something may have written bytes, or may do so by a handle: until then it has no contents that a move would keep.
    has_contents: bool,
}

impl<D: Device, C: BufferOrImage<D>> Cell<D, C> {
    /// Adds a resource to `members`, which defragmentation may move from now on.
    pub(super) fn new(
        members: &Arc<Members<D>>,
        info: C::Info<'static>,
        resource: Owned<Unique<D, C>>,
        moves: Moves,
        pool: Option<Pool>,
    ) -> Arc<Self> {
        let id = resource.allocation().id();
        let (memory_type, mover) = resource.type_and_mover();
        // A queue could not both read the old place and write the new one, which is in the same memory type.
        let one_way = MemoryProperties::DEVICE_READ_ONLY | MemoryProperties::DEVICE_WRITE_ONLY;
        let found = resource.allocator().device().properties().memory_type(memory_type);
        let is_one_way = found.is_none_or(|found| found.properties.intersects(one_way));
        let movability = if is_one_way { Movability::Pinned } else { moves.at_last };
        let states = C::initial_states(&resource);
        let current = CurrentResource {
            resource,
            states,
            is_known: false,
            copied_at: None,
            blocks_cpu_access: false,
            has_contents: false,
        };
        // Mostly it may be moved since it was allocated, as it is to be. Nobody else changes that: a step leaves what is not in
        // its list.
        let is_so =
            mover.is_some() && mover == moves.now() && moves.at_once == movability_now(movability, &current);
        let current = Mutex::new(current);
        let (followers, owner) = (Followers::new(), Arc::clone(members));
        let cell = Arc::new(Self {
            info,
            current,
            id,
            moves: AtomicU32::new(0),
            followers,
            members: owner,
            movability,
        });
        members.lock().insert(key_in_list(id), (C::member(Arc::downgrade(&cell)), pool));
        if !is_so {
            // Only now does a step find it.
            cell.with(|it| cell.allow_moves(it));
        }
        cell
    }

    /// Lets steps move the resource, or keeps them from it: an image whose contents are to be kept stays where it is as
    /// long as its state is not known, since its texels could not be copied.
    fn allow_moves(&self, now: &CurrentResource<D, C>) {
        let (resource, mover) = (&now.resource, self.members.mover());
        let movability = movability_now(self.movability, now);
        resource.allocator().allow_moves(resource.allocation(), movability, mover);
    }

    /// Calls `work` with the states of the image, which it may change.
    pub(in crate::memory::resource) fn with_states<T>(&self, work: impl FnOnce(&C::States) -> T) -> T {
        self.with(|now| {
            let done = work(&now.states);
            // Under the lock, so that the last of two threads decides both.
            let is_known = now.state().is_some();
            if core::mem::replace(&mut now.is_known, is_known) != is_known {
                self.allow_moves(now);
            }
            done
        })
    }

    /// Returns false for a resource that stays where it is.
    pub(super) fn is_movable(&self) -> bool {
        self.movability != Movability::Pinned
    }

    /// Returns the state of the whole image, if it is known.
    pub(super) fn state(&self) -> Option<C::State> {
        locked(&self.current).state()
    }

    /// Calls `work` with the resource, whose handle stays valid meanwhile.
    pub(in crate::memory::resource) fn with<T>(
        &self,
        work: impl FnOnce(&mut CurrentResource<D, C>) -> T,
    ) -> T {
        let mut current = locked(&self.current);
        // With each use, so that the owner gets its access back without waiting for the next step.
        current.finish_copy();
        work(&mut current)
    }

    /// Calls `work` with the resource, which may get contents by that.
    pub(in crate::memory::resource) fn with_contents<T>(
        &self,
        work: impl FnOnce(&mut CurrentResource<D, C>) -> T,
    ) -> T {
        self.with(|current| {
            current.has_contents = true;
            work(current)
        })
    }

    /// Returns false for a resource whose bytes were never written. Nothing writes them while no recording is open.
    pub(super) fn has_contents(&self) -> bool {
        locked(&self.current).has_contents
    }

    /// Returns the id of the allocation, which a move does not change.
    pub(in crate::memory::resource) fn id(&self) -> AllocationId {
        self.id
    }

    /// Returns how often the resource was moved.
    pub(in crate::memory::resource) fn moves(&self) -> u32 {
        self.moves.load(Ordering::Acquire)
    }

    /// Lets a descriptor heap follow the moves of this resource.
    pub(in crate::memory::resource) fn follow(&self, follower: &Arc<dyn Follower<D>>) {
        self.followers.add(follower);
    }

    /// Returns the name by which followers know the resource.
    pub(in crate::memory::resource) fn key(self: &Arc<Self>) -> CellKey {
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
        // Handle, place and point change under one lock, so that no thread reads the new handle without the point that
        // its use has to wait for.
        // (`a_submission_that_takes_a_new_handle_waits_for_its_copy_also_while_the_step_has_not_returned`)
        let mut current = locked(&self.current);
        current.blocks_cpu_access = blocks_cpu_access;
        if copied_at.is_none() {
            // A new image without a copy has the state in which images are created.
            C::reset_states(&current.states);
            current.is_known = false;
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

/// Returns how a resource may be moved at present that may be moved so while all that its copy needs is known.
fn movability_now<D: Device, C: BufferOrImage<D>>(
    movability: Movability,
    now: &CurrentResource<D, C>,
) -> Movability {
    // Pinned for as long as this is so, rather than refused by each step: a pinned one keeps its block out of the
    // plans, so that nothing is reserved or created for the others in it.
    let is_unknown = C::NEEDS_STATE && now.state().is_none() && movability == Movability::Copied;
    if is_unknown { Movability::Pinned } else { movability }
}

impl<D: Device, C: BufferOrImage<D>> CurrentResource<D, C> {
    /// Returns the resource.
    pub(in crate::memory::resource) fn resource(&self) -> &Owned<Unique<D, C>> {
        &self.resource
    }

    /// Returns the state of the whole image, if it is known.
    pub(super) fn state(&self) -> Option<C::State> {
        C::whole_state(&self.states)
    }

    /// Returns the point from which on the bytes are in place and may be written, unless it is known to be reached.
    pub(in crate::memory::resource) fn copied_at(&self) -> Option<TimelinePoint> {
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
                Err(AccessError::Device { source, .. }) if source != DeviceError::Lost => return false,
                _ => {}
            }
            allocator.note_reserved(allocation.id(), false);
            self.blocks_cpu_access = false;
        }
        self.copied_at = None;
        true
    }
}

impl<D: Device, C: BufferOrImage<D>> Drop for Cell<D, C> {
    #[inline(never)]
    fn drop(&mut self) {
        let current = self.current.get_mut().unwrap_or_else(PoisonError::into_inner);
        current.resource.allocator().note_released(current.resource.allocation().id());
        // A statement of its own, so that the pool is dropped without the lock.
        let removed = self.members.lock().remove(&key_in_list(self.id));
        drop(removed);
    }
}

impl<D: Device, C: BufferOrImage<D>> fmt::Debug for Cell<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("id", &self.id).field("moves", &self.moves()).finish_non_exhaustive()
    }
}
