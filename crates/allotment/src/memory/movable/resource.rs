//! A resource whose handle changes when it is moved.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::device::{Device, TimelinePoint};
use crate::lifetime::Owned;
use crate::memory::allocator::{Allocation, AllocationId};
use crate::memory::owners::{Kind, Unique};
use crate::memory::resource::{Buffers, Class, Images, RawResource};
use crate::memory::{AccessError, MemoryLocation, OwningAllocator};
use crate::sync::locked;

/// A buffer or an image that a [`MovableSet`](super::MovableSet) may move. A clone is another name for it; when the
/// last one is dropped, it is retired.
///
/// Its handle is another after each move, so ask for it for each recording, and look at [`moves`](Self::moves) where it
/// was written down somewhere: in a descriptor, in a table of addresses.
pub struct Movable<D: Device, C: MovableClass<D>> {
    cell: Arc<Cell<D, C>>,
}

/// A buffer that may be moved.
pub type MovableBuffer<D> = Movable<D, Buffers>;
/// An image that may be moved.
pub type MovableImage<D> = Movable<D, Images>;

/// What can be moved.
pub trait MovableClass<D: Device>:
    Class<D, Handle: 'static> + Kind<D, Token = RawResource<<Self as Class<D>>::Handle>> + 'static
{
    /// What must be known to copy it, beside its description: an image's state.
    type State: Copy + fmt::Debug + Send + Sync;

    /// How a set knows it.
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

/// One of a set.
pub enum Member<D: Device> {
    /// A buffer.
    Buffer(Weak<Cell<D, Buffers>>),
    /// An image.
    Image(Weak<Cell<D, Images>>),
}

/// All of a set, by their allocations, which stay the same.
pub(super) type Members<D> = Mutex<HashMap<AllocationId, Member<D>>>;

/// The resource as it is now, and how it is made again.
pub struct Cell<D: Device, C: MovableClass<D>> {
    pub(super) info: C::Info<'static>,
    pub(super) now: Mutex<Now<D, C>>,
    id: AllocationId,
    moves: AtomicU32,
    members: Weak<Members<D>>,
}

pub(super) struct Now<D: Device, C: MovableClass<D>> {
    pub(super) resource: Owned<Unique<D, C>>,
    /// `None` of an image that nobody has said anything about since it was made.
    pub(super) state: Option<C::State>,
    /// Where its bytes have arrived, while the CPU may come too early.
    pub(super) arrives: Option<TimelinePoint>,
}

impl<D: Device, C: MovableClass<D>> Movable<D, C> {
    pub(super) fn new(
        members: &Arc<Members<D>>,
        info: C::Info<'static>,
        resource: Owned<Unique<D, C>>,
        state: Option<C::State>,
    ) -> Self {
        let id = resource.allocation().id();
        let (now, moves) = (Mutex::new(Now { resource, state, arrives: None }), AtomicU32::new(0));
        let cell = Arc::new(Cell { info, now, id, moves, members: Arc::downgrade(members) });
        locked(members).insert(id, C::member(Arc::downgrade(&cell)));
        Self { cell }
    }

    /// The API's own handle as it is now: good for recordings that were open when this was called, and until the next
    /// [step](super::MovableSet::defragment_step) for others.
    #[must_use]
    pub fn handle(&self) -> C::Handle {
        self.with(|resource| resource.handle().clone())
    }

    /// Does something with the resource, which is not moved meanwhile: writes to it by its allocation, gives it to an
    /// [`Uploader`](crate::upload::Uploader). It holds the resource's own lock: a step waits for it, and asking this
    /// resource for anything else meanwhile never ends.
    pub fn with<T>(&self, work: impl FnOnce(&Owned<Unique<D, C>>) -> T) -> T {
        let mut now = locked(&self.cell.now);
        now.settle();
        work(&now.resource)
    }

    /// Names its allocation, whose place changes.
    #[must_use]
    pub fn id(&self) -> AllocationId {
        self.cell.id
    }

    /// Bytes: of a buffer, as it was described; of an image, of its memory.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.with(|resource| resource.size())
    }

    /// Where it is now.
    ///
    /// # Errors
    ///
    /// As for [`Allocator::location`](crate::Allocator::location).
    pub fn location(&self) -> Result<MemoryLocation<D>, AccessError> {
        self.with(|resource| resource.allocator().location(resource.allocation()))
    }

    /// How often it was moved: where that is what it was, the handle is the same.
    #[must_use]
    pub fn moves(&self) -> u32 {
        self.cell.moves.load(Ordering::Acquire)
    }
}

impl<D: Device> MovableImage<D> {
    /// What state all of the image is in between recordings, as its set was told last.
    #[must_use]
    pub fn state(&self) -> D::ImageState {
        locked(&self.cell.now).state.unwrap_or_default()
    }

    /// Says what state all of the image is in from now on, until a step.
    ///
    /// # Safety
    ///
    /// It is in this state when all that was submitted by the next step is done, and until that step nothing is
    /// recorded that leaves it in another.
    pub unsafe fn set_state(&self, state: D::ImageState) {
        locked(&self.cell.now).state = Some(state);
    }
}

impl<D: Device, C: MovableClass<D>> Cell<D, C> {
    /// Hands over the new resource. What it was is retired, with `old`, the place that it leaves.
    pub(super) fn arrive(
        &self,
        memory: &OwningAllocator<D>,
        handle: C::Handle,
        old: Allocation,
        arrives: Option<TimelinePoint>,
        copied: bool,
    ) {
        let mut now = locked(&self.now);
        now.arrives = arrives;
        if !copied {
            // It is as it was made.
            now.state = None;
        }
        let left = now.resource.value_mut().replace_handle(handle, old);
        self.moves.fetch_add(1, Ordering::Release);
        drop(now);
        memory.retire::<C>(left);
    }
}

impl<D: Device, C: MovableClass<D>> Now<D, C> {
    /// Lets the CPU at its bytes, if they have arrived. False where they have not.
    pub(super) fn settle(&mut self) -> bool {
        let Some(point) = self.arrives else { return true };
        if !self.resource.tracker().is_reached(point) {
            return false;
        }
        self.arrives = None;
        self.resource.allocator().note_arrived(self.resource.allocation().id());
        true
    }
}

impl<D: Device, C: MovableClass<D>> Drop for Cell<D, C> {
    fn drop(&mut self) {
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
