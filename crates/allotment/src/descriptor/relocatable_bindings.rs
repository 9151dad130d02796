//! The relocatable resources that a binding set has bound.
//!
//! Descriptors of the set's table are listed by the heap, which rewrites them when the resource moves
//! (`shader_visible_heap/following.rs`); the set knows only which they are. A dynamic binding is copied at each commit, so
//! the commit describes the resource anew, and no list is needed.

use std::sync::{Arc, Mutex};

use super::error::DescriptorError;
use super::shader_visible_heap::ShaderVisibleHeap;
use super::shown::{Shown, View};
use super::slots::KeepAlive;
use crate::device::DescriptorDevice;
use crate::memory::Allocator;
use crate::sync::locked;

/// The bindings of relocatable resources. Empty for most sets.
pub(super) struct RelocatableBindings<D: DescriptorDevice> {
    /// Their descriptors in the set's table.
    pub(super) in_table: Vec<u32>,
    pub(super) dynamic: Vec<DynamicFollow<D>>,
}

impl<D: DescriptorDevice> RelocatableBindings<D> {
    pub(super) fn new() -> Self {
        Self { in_table: Vec::new(), dynamic: Vec::new() }
    }

    /// Adds a dynamic binding. Returns the one before, to be retired.
    pub(super) fn insert_dynamic(&mut self, follow: DynamicFollow<D>) -> Option<KeepAlive> {
        let before = self.remove_dynamic(follow.place);
        self.dynamic.push(follow);
        before
    }

    /// Removes a dynamic binding. Returns it, to be retired.
    pub(super) fn remove_dynamic(&mut self, place: u32) -> Option<KeepAlive> {
        let at = self.dynamic.iter().position(|follow| follow.place == place)?;
        Some(Arc::new(self.dynamic.swap_remove(at)))
    }
}

/// A dynamic binding of a relocatable resource.
pub(super) struct DynamicFollow<D: DescriptorDevice> {
    place: u32,
    shown: Shown<D>,
    /// The view of the image as it was at the last commit.
    view: Mutex<Arc<View<D>>>,
}

impl<D: DescriptorDevice> DynamicFollow<D> {
    pub(super) fn new(
        place: u32,
        shown: Shown<D>,
        allocator: &Arc<Allocator<D>>,
    ) -> Result<Self, DescriptorError> {
        let view = Arc::new(shown.create_view(allocator)?);
        Ok(Self { place, shown, view: Mutex::new(view) })
    }

    /// Returns the index among the dynamic descriptors.
    pub(super) fn place(&self) -> u32 {
        self.place
    }

    pub(super) fn keep(&self) -> KeepAlive {
        self.shown.keep()
    }

    /// Calls `work` with the descriptor of the resource as it is now; once more, where a move comes between.
    pub(super) fn with_descriptor(
        &self,
        heap: &ShaderVisibleHeap<D>,
        mut work: impl FnMut(&D::Descriptor<'_>) -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        loop {
            let view = self.view(heap)?;
            // The image may have been moved since: then there is another view to create.
            if let Ok(written) = self.shown.with_descriptor(&view, &mut work) {
                return written;
            }
        }
    }

    /// Returns the view of the image as it is now.
    fn view(&self, heap: &ShaderVisibleHeap<D>) -> Result<Arc<View<D>>, DescriptorError> {
        {
            let view = locked(&self.view);
            if self.shown.is_shown_by(&view) {
                return Ok(Arc::clone(&view));
            }
        }
        // A driver call, so without the lock. Two threads that commit may both create a view; the later one stays.
        let view = Arc::new(self.shown.create_view(heap.allocator())?);
        let before = core::mem::replace(&mut *locked(&self.view), Arc::clone(&view));
        // Draws that were committed before may still read it.
        heap.shared.retire_keep(before);
        Ok(view)
    }
}
