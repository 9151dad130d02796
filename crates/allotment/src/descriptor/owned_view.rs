//! What the views with an owner have in common: the view of the device and its descriptor in a CPU heap, which go together.
//!
//! ```text
//!   ImageView, BufferView, TexelBufferView
//!     └─ OwnedView ──► what it shows: the resource, and the API's description       shared with sets and slots (`shown.rs`)
//!                  └─► what was made of it, dropped once the GPU is done:
//!                        the descriptor in a CPU heap ─► the view of the device ─► the resource
//! ```
//!
//! A view of a resource that moves is made anew, when it is used after the move; the old one waits for the GPU.

use std::sync::{Arc, Mutex};

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::DescriptorError;
use super::shown::{Shown, View};
use super::slots::KeepAlive;
use crate::device::{DescriptorDevice, DescriptorHeapType};
use crate::lifetime::Owned;
use crate::memory::{Allocator, OwningAllocator, ShortName};
use crate::sync::locked;

/// A view and its descriptor. Dropping it retires both.
pub(super) struct OwnedView<D: DescriptorDevice, V> {
    /// What it sees, as its type describes it.
    pub(super) desc: V,
    allocator: Arc<Allocator<D>>,
    shown: Shown<D>,
    /// The heap of its descriptors, if it has any.
    cpu_heap: Option<Arc<CpuDescriptorHeap<D>>>,
    made: MadeView<D>,
}

/// Two kinds, so that a view of a pinned resource has no lock.
enum MadeView<D: DescriptorDevice> {
    Pinned(Owned<Made<D>>),
    /// Of the resource as it was at the last use.
    Relocatable(Mutex<Arc<Owned<Made<D>>>>),
}

/// What is destroyed once the GPU has finished with it, in this order.
struct Made<D: DescriptorDevice> {
    descriptor: Option<Descriptor<D>>,
    view: View<D>,
    _resource: KeepAlive,
}

/// A descriptor in a CPU heap.
struct Descriptor<D: DescriptorDevice> {
    heap: Arc<CpuDescriptorHeap<D>>,
    /// `None` only while it is dropped.
    range: Option<CpuDescriptorRange>,
}

impl<D: DescriptorDevice> Drop for Descriptor<D> {
    fn drop(&mut self) {
        if let Some(range) = self.range.take() {
            // At once: it was retired with its view.
            let freed = self.heap.free(range);
            debug_assert!(freed.is_ok(), "the range belongs to this heap");
        }
    }
}

impl<D: DescriptorDevice> Made<D> {
    /// Makes a view of the resource as it is now, and its descriptor.
    #[track_caller]
    fn new(
        allocator: &Arc<Allocator<D>>,
        shown: &Shown<D>,
        cpu_heap: Option<&Arc<CpuDescriptorHeap<D>>>,
    ) -> Result<Self, DescriptorError> {
        let mut descriptor = None;
        if let Some(heap) = cpu_heap {
            // Here and not in the closure, for the call site.
            descriptor = Some(Descriptor { heap: Arc::clone(heap), range: Some(heap.allocate(1)?) });
        }
        // In place, so that the handle which the driver is given is live until the descriptor is written.
        shown.kept_in_place(|| {
            let view = shown.create_view(allocator)?;
            if let Some(Descriptor { heap, range: Some(range) }) = &mut descriptor {
                let written = shown.with_descriptor(&view, |it| heap.write(range, 0, it));
                match written.unwrap_or(Err(DescriptorError::Stale)) {
                    Ok(()) => {}
                    // The handle serves.
                    Err(DescriptorError::TypeNotListed) => descriptor = None,
                    Err(error) => return Err(error),
                }
            }
            Ok(Self { descriptor, view, _resource: shown.keep() })
        })
    }
}

impl<D: DescriptorDevice, V> OwnedView<D, V> {
    /// Creates a view of what `show` returns with its description, with a descriptor in a heap, if one is passed, which has to
    /// be of this type.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::WrongKind`], [`DescriptorError::WrongDevice`] for the heap; then those of `show` and of
    /// [`Shown::checked`]; or the device refuses the view, or a page of the heap.
    #[track_caller]
    pub(super) fn new(
        memory: &OwningAllocator<D>,
        cpu_heap: Option<(&Arc<CpuDescriptorHeap<D>>, DescriptorHeapType)>,
        show: impl FnOnce(&Allocator<D>) -> Result<(Shown<D>, V), DescriptorError>,
    ) -> Result<Self, DescriptorError> {
        let (allocator, queue) = (memory.allocator(), memory.deletion_queue());
        if let Some((heap, heap_type)) = cpu_heap {
            check_cpu_heap(allocator, heap, heap_type)?;
        }
        let cpu_heap = cpu_heap.map(|(heap, _)| heap);
        let (shown, desc) = show(allocator)?;
        let shown = shown.checked(allocator, queue.tracker())?;
        let made = queue.own(Made::new(allocator, &shown, cpu_heap)?);
        let made = if shown.is_relocatable() {
            MadeView::Relocatable(Mutex::new(Arc::new(made)))
        } else {
            MadeView::Pinned(made)
        };
        Ok(Self { desc, allocator: Arc::clone(allocator), shown, cpu_heap: cpu_heap.cloned(), made })
    }

    pub(super) fn shown(&self) -> &Shown<D> {
        &self.shown
    }

    /// Calls `work` with the view of the resource as it is now.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Device`], where the resource was moved and the device refuses another view.
    pub(super) fn with_view<R>(&self, work: impl FnOnce(&View<D>) -> R) -> Result<R, DescriptorError> {
        self.with_made(|made| work(&made.view))
    }

    /// Returns the address of the descriptor in its CPU heap.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::NoDescriptor`], and those of [`with_view`](Self::with_view).
    pub(super) fn cpu_descriptor(&self) -> Result<u64, DescriptorError> {
        self.with_made(|made| match &made.descriptor {
            Some(Descriptor { heap, range: Some(range) }) => heap.address(range),
            _ => Err(DescriptorError::NoDescriptor { name: self.shown.short_name() }),
        })?
    }

    fn with_made<R>(&self, work: impl FnOnce(&Made<D>) -> R) -> Result<R, DescriptorError> {
        match &self.made {
            MadeView::Pinned(made) => Ok(work(made)),
            MadeView::Relocatable(current) => Ok(work(&*self.current(current)?)),
        }
    }

    /// Returns the view of a relocatable resource as it is now.
    fn current(&self, current: &Mutex<Arc<Owned<Made<D>>>>) -> Result<Arc<Owned<Made<D>>>, DescriptorError> {
        let before = Arc::clone(&locked(current));
        if self.shown.is_shown_by(&before.view) {
            return Ok(before);
        }
        // Without the lock, since it takes a driver call. Of two threads that make one, the later one's stays.
        let made = Made::new(&self.allocator, &self.shown, self.cpu_heap.as_ref())?;
        let made = Arc::new(before.own_beside(made));
        let before = core::mem::replace(&mut *locked(current), Arc::clone(&made));
        drop(before);
        Ok(made)
    }

    /// Calls `write` with the descriptor of the view; once more, where a move comes between.
    pub(super) fn with_descriptor<R>(
        &self,
        mut write: impl FnMut(&D::Descriptor<'_>) -> Result<R, DescriptorError>,
    ) -> Result<R, DescriptorError> {
        loop {
            let written = self.with_view(|view| self.shown.with_descriptor(view, &mut write).ok())?;
            if let Some(written) = written {
                return written;
            }
        }
    }
}

/// Checks that a heap can have descriptors of a type of a device.
fn check_cpu_heap<D: DescriptorDevice>(
    allocator: &Allocator<D>,
    heap: &CpuDescriptorHeap<D>,
    found: DescriptorHeapType,
) -> Result<(), DescriptorError> {
    let expected = heap.heap_type();
    if expected != found {
        return Err(DescriptorError::WrongKind { expected, found });
    }
    if heap.device_id() != allocator.device().id() {
        return Err(DescriptorError::WrongDevice { name: ShortName::NONE });
    }
    Ok(())
}
