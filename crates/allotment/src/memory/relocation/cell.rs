//! A relocatable resource, whose handle changes when it is moved.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::device::{Device, TimelinePoint};
use crate::lifetime::Owned;
use crate::memory::allocator::{Allocation, AllocationId};
use crate::memory::resource::{Buffers, Class, Images, RawResource};
use crate::memory::resource::{Kind, Unique};
use crate::memory::{AccessError, MemoryLocation, OwningAllocator};
use crate::sync::locked;

/// A buffer or an image that a [`MovableSet`](super::MovableSet) may move. Clones share the resource; it is retired when
/// the last one is dropped.
///
/// The handle changes with each move. Get it anew for each recording, and compare [`moves`](Self::moves) where it is
/// stored: in a descriptor, or its address in a table.
pub struct Movable<D: Device, C: MovableClass<D>> {
    cell: Arc<Cell<D, C>>,
}

/// A buffer that a [`MovableSet`](super::MovableSet) may move.
pub type MovableBuffer<D> = Movable<D, Buffers>;
/// An image that a [`MovableSet`](super::MovableSet) may move.
pub type MovableImage<D> = Movable<D, Images>;

/// A kind of resource that can be moved: buffers or images.
pub trait MovableClass<D: Device>:
    Class<D, Handle: 'static> + Kind<D, Token = RawResource<<Self as Class<D>>::Handle>> + 'static
{
    /// Data that a copy needs beside the description: the state of an image.
    type State: Copy + fmt::Debug + Send + Sync;

    /// Wraps a resource for the list of its set.
    fn member(cell: Weak<Cell<D, Self>>) -> Member<D>
    where
        Self: Sized;
}

impl<D: Device> MovableClass<D> for Buffers {
    type State = ();

    fn member(cell: Weak<Cell<D, Self>>) -> Member<D> {
        Member::Buffer(cell)
    }
}

impl<D: Device> MovableClass<D> for Images {
    type State = D::ImageState;

    fn member(cell: Weak<Cell<D, Self>>) -> Member<D> {
        Member::Image(cell)
    }
}

/// A resource of a set.
pub enum Member<D: Device> {
    /// A buffer.
    Buffer(Weak<Cell<D, Buffers>>),
    /// An image.
    Image(Weak<Cell<D, Images>>),
}

/// The resources of a set by their allocations, whose ids never change.
pub(super) type Members<D> = Mutex<HashMap<AllocationId, Member<D>>>;

/// The shared part of a [`Movable`]: the resource as it is now, and the description to recreate it.
pub struct Cell<D: Device, C: MovableClass<D>> {
    pub(super) info: C::Info<'static>,
    pub(super) current: Mutex<CurrentResource<D, C>>,
    id: AllocationId,
    moves: AtomicU32,
    members: Weak<Members<D>>,
}

pub(super) struct CurrentResource<D: Device, C: MovableClass<D>> {
    pub(super) resource: Owned<Unique<D, C>>,
    /// `None` for an image whose state was not set since it was created.
    pub(super) state: Option<C::State>,
    /// The point at which the copy to the current place completes, until the CPU has been allowed to access it.
    pub(super) copied_at: Option<TimelinePoint>,
}

impl<D: Device, C: MovableClass<D>> Movable<D, C> {
    pub(super) fn new(
        members: &Arc<Members<D>>,
        info: C::Info<'static>,
        resource: Owned<Unique<D, C>>,
        state: Option<C::State>,
    ) -> Self {
        let id = resource.allocation().id();
        let (current, moves) =
            (Mutex::new(CurrentResource { resource, state, copied_at: None }), AtomicU32::new(0));
        // The list holds weak references, so that a set does not keep its resources alive.
        let cell = Arc::new(Cell { info, current, id, moves, members: Arc::downgrade(members) });
        locked(members).insert(id, C::member(Arc::downgrade(&cell)));
        Self { cell }
    }

    /// Returns the API's current handle. Valid for recordings that are open now, and for others until the next
    /// [step](super::MovableSet::defragment_step).
    #[must_use]
    pub fn handle(&self) -> C::Handle {
        self.with(|resource| resource.handle().clone())
    }

    /// Calls `work` with the resource, which is not moved meanwhile: to write through its allocation, or to pass it to an
    /// [`Uploader`](crate::upload::Uploader). Holds the resource's lock: a step waits for it, and any other call on this
    /// resource inside `work` deadlocks.
    pub fn with<T>(&self, work: impl FnOnce(&Owned<Unique<D, C>>) -> T) -> T {
        let mut current = locked(&self.cell.current);
        current.finish_copy();
        work(&current.resource)
    }

    /// Returns the id of the allocation. It stays the same when the allocation is moved.
    #[must_use]
    pub fn id(&self) -> AllocationId {
        self.cell.id
    }

    /// Returns the size in bytes: of a buffer, as described; of an image, of its memory.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.with(|resource| resource.size())
    }

    /// Returns the current place.
    ///
    /// # Errors
    ///
    /// The errors of [`Allocator::location`](crate::Allocator::location).
    pub fn location(&self) -> Result<MemoryLocation<D>, AccessError> {
        self.with(|resource| resource.allocator().location(resource.allocation()))
    }

    /// Returns how often the resource was moved. While this number is unchanged, so is the handle.
    #[must_use]
    pub fn moves(&self) -> u32 {
        self.cell.moves.load(Ordering::Acquire)
    }
}

impl<D: Device> MovableImage<D> {
    /// Returns the state of the whole image between recordings, as set last.
    #[must_use]
    pub fn state(&self) -> D::ImageState {
        locked(&self.cell.current).state.unwrap_or_default()
    }

    /// Sets the state that the whole image has from now on, until a step.
    ///
    /// # Safety
    ///
    /// The image is in this state when all work submitted before the next step has completed, and until that step no
    /// recording leaves it in another state.
    pub unsafe fn set_state(&self, state: D::ImageState) {
        locked(&self.cell.current).state = Some(state);
    }
}

impl<D: Device, C: MovableClass<D>> Cell<D, C> {
    /// Replaces the resource by the new one. Retires the old one together with `old`, its place.
    pub(super) fn replace(
        &self,
        memory: &OwningAllocator<D>,
        handle: C::Handle,
        old: Allocation,
        copied_at: Option<TimelinePoint>,
        copied: bool,
    ) {
        let mut current = locked(&self.current);
        current.copied_at = copied_at;
        if !copied {
            // A new image without a copy has the state in which images are created.
            current.state = None;
        }
        let left = current.resource.value_mut().replace_handle(handle, old);
        self.moves.fetch_add(1, Ordering::Release);
        drop(current);
        memory.retire::<C>(left);
    }
}

impl<D: Device, C: MovableClass<D>> CurrentResource<D, C> {
    /// Allows CPU access once the copy has completed. Returns false while it has not.
    pub(super) fn finish_copy(&mut self) -> bool {
        let Some(point) = self.copied_at else { return true };
        if !self.resource.tracker().is_reached(point) {
            return false;
        }
        self.copied_at = None;
        self.resource.allocator().note_arrived(self.resource.allocation().id());
        true
    }
}

impl<D: Device, C: MovableClass<D>> Drop for Cell<D, C> {
    fn drop(&mut self) {
        // The set may have been dropped before its resources.
        if let Some(members) = self.members.upgrade() {
            locked(&members).remove(&self.id);
        }
    }
}

impl<D: Device, C: MovableClass<D>> Clone for Movable<D, C> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell) }
    }
}

impl<D: Device, C: MovableClass<D>> fmt::Debug for Movable<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Movable")
            .field("id", &self.cell.id)
            .field("moves", &self.moves())
            .finish_non_exhaustive()
    }
}
