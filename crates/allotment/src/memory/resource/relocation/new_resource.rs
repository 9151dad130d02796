//! Resources that a step created in their new places, until they replace the old ones.

use std::sync::{Arc, Weak};

use crate::device::{Device, DeviceError, TimelinePoint};
use crate::log::event;
use crate::memory::resource::relocation::cell::Cell;
use crate::memory::resource::{BufferOrImage, Buffers, Class, Images};
use crate::memory::{Allocator, MemoryLocation, Move, Name, OwningAllocator, RawBuffer, RawImage};
use crate::sync::locked;

/// A resource that was created in its new place.
pub(super) enum NewResource<D: Device> {
    Buffer(NewObject<D, Buffers>),
    Image(NewObject<D, Images>),
}

pub(super) struct NewObject<D: Device, C: BufferOrImage<D>> {
    pub(super) cell: Arc<Cell<D, C>>,
    pub(super) from: C::Handle,
    pub(super) to: C::Handle,
    pub(super) size: u64,
    pub(super) state: Option<C::State>,
    pub(super) copied: bool,
    /// The CPU can access the memory, so it must be kept from doing so before the copy completes.
    pub(super) host_visible: bool,
}

/// A resource that another one has replaced, with its place.
pub(super) enum OldResource<D: Device> {
    Buffer(RawBuffer<D>),
    Image(RawImage<D>),
}

impl<D: Device> OldResource<D> {
    /// Retires it: from now on, no recording begins that can use it.
    pub(super) fn retire(self, memory: &OwningAllocator<D>) {
        match self {
            Self::Buffer(old) => memory.retire::<Buffers>(old),
            Self::Image(old) => memory.retire::<Images>(old),
        }
    }
}

/// A resource whose copy has not completed.
pub(super) enum PendingCopy<D: Device> {
    Buffer(Weak<Cell<D, Buffers>>),
    Image(Weak<Cell<D, Images>>),
}

impl<D: Device, C: BufferOrImage<D>> NewObject<D, C> {
    pub(super) fn create(
        device: &D,
        cell: Arc<Cell<D, C>>,
        to: &MemoryLocation<D>,
        [copied, host_visible]: [bool; 2],
    ) -> Result<Self, DeviceError> {
        let now = locked(&cell.current);
        let (from, size, state) = (now.resource().handle().clone(), now.resource().size(), now.state());
        // Released before the driver call. `cell` keeps the resource alive, and only steps replace it, one at a time.
        drop(now);
        // SAFETY: the place is reserved for this resource, with the size and alignment that its description needs, in
        // memory that lives as long as the reservation.
        let to = unsafe { C::create(device, &cell.info, to.memory, to.offset) }?;
        Ok(Self { cell, from, to, size, state, copied, host_visible })
    }
}

impl<D: Device> NewResource<D> {
    /// Returns true when a queue copies the bytes of the old resource.
    pub(super) fn is_copied(&self) -> bool {
        match self {
            Self::Buffer(NewObject { copied, .. }) | Self::Image(NewObject { copied, .. }) => *copied,
        }
    }

    /// Looks at the contents once more while nothing can change them: leaves out the copy of a buffer that was never
    /// written, and takes the state that an image has by now. Returns false for an image that cannot be copied, since its
    /// state is not known any more.
    pub(super) fn note_contents(&mut self) -> bool {
        match self {
            Self::Buffer(NewObject { cell, copied, .. }) => {
                *copied &= cell.has_contents();
                true
            }
            // Of an image the state is known where it is copied, so something has been done with it.
            Self::Image(NewObject { cell, state, copied, .. }) => {
                *state = cell.state();
                !*copied || state.is_some()
            }
        }
    }

    pub(super) fn is_image(&self) -> bool {
        matches!(self, Self::Image(_))
    }

    /// Returns true when the CPU must not access the resource before the copy completes.
    pub(super) fn blocks_cpu_access(&self) -> bool {
        match self {
            Self::Buffer(NewObject { copied, host_visible, .. })
            | Self::Image(NewObject { copied, host_visible, .. }) => *copied && *host_visible,
        }
    }

    /// Gives the new resource the debug name of the old one.
    pub(super) fn name(&self, allocator: &Allocator<D>, moved: &Move<D>) {
        let name = allocator.info_of(moved.id()).ok().and_then(|info| info.name);
        let Some(name) = name.as_ref().map(Name::as_str) else { return };
        match self {
            // SAFETY: created just now.
            Self::Buffer(NewObject { to, .. }) => unsafe {
                <Buffers as Class<D>>::name(allocator.device(), to, name);
            },
            // SAFETY: as above.
            Self::Image(NewObject { to, .. }) => unsafe {
                <Images as Class<D>>::name(allocator.device(), to, name);
            },
        }
    }

    /// Replaces the old resource. Returns that one with its place, and the new one where its copy has to be waited for.
    pub(super) fn replace_old(
        self,
        old: crate::memory::Allocation,
        copied_at: Option<TimelinePoint>,
    ) -> (OldResource<D>, Option<PendingCopy<D>>) {
        // Only these have to be looked at again by a step: the allocator refuses access to them until the copy is known
        // to be complete.
        let blocks = self.blocks_cpu_access();
        let (old, pending) = match self {
            Self::Buffer(NewObject { cell, to, copied, .. }) => {
                // A resource that was not copied has its (undefined) bytes at once, so nothing waits for the point.
                let old = cell.replace(to, old, copied_at.filter(|_| copied), blocks);
                (OldResource::Buffer(old), PendingCopy::Buffer(Arc::downgrade(&cell)))
            }
            Self::Image(NewObject { cell, to, copied, .. }) => {
                let old = cell.replace(to, old, copied_at.filter(|_| copied), blocks);
                (OldResource::Image(old), PendingCopy::Image(Arc::downgrade(&cell)))
            }
        };
        (old, blocks.then_some(pending))
    }

    /// Notes that a queue copies the bytes of the old resource until `copied_at`, whether or not it is replaced.
    pub(super) fn note_copy(&self, copied_at: TimelinePoint) {
        match self {
            Self::Buffer(NewObject { cell, copied: true, .. }) => cell.note_copy(copied_at),
            Self::Image(NewObject { cell, copied: true, .. }) => cell.note_copy(copied_at),
            Self::Buffer(_) | Self::Image(_) => {}
        }
    }

    /// Retires the new resource together with its place.
    pub(super) fn retire(self, memory: &OwningAllocator<D>, place: crate::memory::Allocation) {
        match self {
            Self::Buffer(NewObject { to, size, .. }) => memory.retire_parts::<Buffers>(to, size, place),
            Self::Image(NewObject { to, size, .. }) => memory.retire_parts::<Images>(to, size, place),
        }
    }

    /// Destroys the new resource, which no queue has used.
    pub(super) fn destroy(self, device: &D) {
        match self {
            // SAFETY: created just now, and not used by anything.
            Self::Buffer(NewObject { to, .. }) => unsafe { <Buffers as Class<D>>::destroy(device, to) },
            // SAFETY: as above.
            Self::Image(NewObject { to, .. }) => unsafe { <Images as Class<D>>::destroy(device, to) },
        }
    }
}

/// Retires resources that others have replaced, where the descriptors that name them could be rewritten.
pub(super) fn retire_left<D: Device>(
    memory: &OwningAllocator<D>,
    left: Vec<OldResource<D>>,
    can_leave: bool,
) {
    if can_leave {
        left.into_iter().for_each(|old| old.retire(memory));
    } else {
        // A device that panicked has left a heap that cannot be copied, and whose shaders read the old places. They are
        // leaked, since nothing says when that ends.
        event!(WARN, "memory", resources = left.len(), "leaked moved resources that descriptors still name");
    }
}

impl<D: Device> PendingCopy<D> {
    /// Returns true when the copy has completed, or the resource was dropped.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Buffer(cell) => cell.upgrade().is_none_or(|cell| locked(&cell.current).finish_copy()),
            Self::Image(cell) => cell.upgrade().is_none_or(|cell| locked(&cell.current).finish_copy()),
        }
    }
}
