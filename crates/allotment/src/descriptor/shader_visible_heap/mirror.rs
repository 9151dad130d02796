//! The mirror: the CPU's copy of slots and tables, and every write to it.
//!
//! Shader-visible heaps are write-combined or in video memory, which the CPU does not read. So each write goes
//! to the mirror first and is copied from there to the heaps that recordings use ([`Shared::publish`]); a
//! replacement of the heap copies the mirror.

use core::mem;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::panic::catch_unwind;
use std::sync::Arc;

use super::{Live, Shared};
use crate::descriptor::device_heap::DeviceHeap;
use crate::descriptor::error::DescriptorError;
use crate::descriptor::fill::DescriptorFill;
use crate::descriptor::generation::Generation;
use crate::device::{DescriptorDevice, DescriptorHeapVisibility};
use crate::memory::Allocator;

/// Clears the descriptors of a write that panics, after the locks are released.
struct Writing<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    target: WriteTarget,
    count: u32,
}

impl<D: DescriptorDevice> Drop for Writing<'_, D> {
    fn drop(&mut self) {
        self.shared.clear_after_failure(self.target, self.count);
    }
}

/// Marks the mirror as possibly holding descriptors of destroyed resources, unless it is forgotten.
pub(super) struct Clearing<'a>(pub(super) &'a AtomicBool);

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The target of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::descriptor) enum WriteTarget {
    Slot(u32),
    /// The `at`-th descriptor of a table.
    Table {
        entry: u32,
        at: u32,
    },
}

impl<D: DescriptorDevice> Shared<D> {
    /// Runs a write to a target. If the device panics meanwhile, the target is cleared: the caller assumes that
    /// nothing was written, and may destroy the descriptor's resource.
    fn writing(
        &self,
        (target, count): (WriteTarget, u32),
        write: impl FnOnce() -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let writing = Writing { shared: self, target, count };
        let written = write();
        // An error is returned before any byte is written, so only a panic leaves something to clear.
        mem::forget(writing);
        written
    }

    /// Writes a descriptor that no shader reads yet.
    pub(in crate::descriptor) fn write(
        &self,
        target: WriteTarget,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(), DescriptorError> {
        self.writing((target, 1), || self.write_unguarded(target, descriptor))
    }

    /// Writes a descriptor that no shader reads yet. If the device panics meanwhile, the caller clears the target.
    pub(super) fn write_unguarded(
        &self,
        target: WriteTarget,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(), DescriptorError> {
        let guard = self.live()?;
        let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
        // The mirror has the layout of the current heap, so one index serves both.
        let at = self.locate(target, &live.current).ok_or(DescriptorError::Stale)?;
        // SAFETY: only the one owner of a slot or table writes it, before any recording is given its location; the
        // heap is not replaced as long as the guard lives.
        unsafe { live.mirror.write(at, descriptor) }?;
        // SAFETY: as above.
        unsafe { self.publish_from(live, target, at, 1) }
    }

    /// Copies CPU descriptors to a target.
    ///
    /// # Safety
    ///
    /// The target's descriptors belong to the caller, and no recording was given their location yet; those that
    /// are copied were written, and no thread writes them meanwhile.
    pub(in crate::descriptor) unsafe fn copy(
        &self,
        target: WriteTarget,
        from: &DeviceHeap<D>,
        from_at: u32,
        count: u32,
    ) -> Result<(), DescriptorError> {
        self.writing((target, count), || {
            let guard = self.live()?;
            let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
            let at = self.locate(target, &live.current).ok_or(DescriptorError::Stale)?;
            // SAFETY: the caller's promise.
            unsafe { live.mirror.copy_from(from, from_at, at, count) }?;
            // SAFETY: the caller's promise.
            unsafe { self.publish_from(live, target, at, count) }
        })
    }

    /// Copies a table to another one, whose location no recording was given.
    pub(in crate::descriptor) fn copy_table(
        &self,
        from: u32,
        to: u32,
        count: u32,
    ) -> Result<(), DescriptorError> {
        let guard = self.live()?;
        let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
        let place = |entry| self.tables.place(entry, live.current.number).ok_or(DescriptorError::Stale);
        let (from, at) = (place(from)?, place(to)?);
        // SAFETY: all of the mirror is written; the only owner of both tables borrows them for this call.
        unsafe { live.mirror.copy_from(&live.mirror, from, at, count) }?;
        // SAFETY: as above.
        unsafe { self.publish(live, WriteTarget::Table { entry: to, at: 0 }, count) }
    }

    /// Copies descriptors from the mirror to the heaps that recordings use.
    ///
    /// # Safety
    ///
    /// The descriptors belong to the caller, and no recording was given their location yet.
    pub(super) unsafe fn publish(
        &self,
        live: &Live<D>,
        target: WriteTarget,
        count: u32,
    ) -> Result<(), DescriptorError> {
        let from = self.locate(target, &live.current).ok_or(DescriptorError::Stale)?;
        // SAFETY: the caller's promise.
        unsafe { self.publish_from(live, target, from, count) }
    }

    /// Like [`publish`](Self::publish), with the index of the target in the present heap.
    ///
    /// # Safety
    ///
    /// That of [`publish`](Self::publish).
    #[inline]
    unsafe fn publish_from(
        &self,
        live: &Live<D>,
        target: WriteTarget,
        from: u32,
        count: u32,
    ) -> Result<(), DescriptorError> {
        // SAFETY: all of the mirror is written; the rest is the caller's promise.
        unsafe { live.current.heap.copy_from(&live.mirror, from, from, count) }?;
        // Recordings that are still open began with the previous heap, and may be given the location later.
        if let Some(previous) = live.previous.upgrade() {
            // A table allocated after the replacement has no location there; a recording
            // that asks for it gets `DescriptorError::Replaced`.
            if let Some(to) = self.locate(target, &previous) {
                // SAFETY: as above; the reference keeps this heap live.
                unsafe { previous.heap.copy_from(&live.mirror, from, to, count) }?;
            }
        }
        Ok(())
    }

    /// Returns the index of a target in a live generation. `None` if the target was allocated in a later one.
    pub(super) fn locate(&self, target: WriteTarget, generation: &Generation<D>) -> Option<u32> {
        match target {
            WriteTarget::Slot(index) => (index < generation.regions.slots).then_some(index),
            WriteTarget::Table { entry, at } => {
                self.tables.place(entry, generation.number).map(|first| first + at)
            }
        }
    }

    /// Fills a new table as the heap's description says.
    ///
    /// # Safety
    ///
    /// The table belongs to the caller, and no recording was given its location yet.
    pub(super) unsafe fn fill(&self, live: &Live<D>, entry: u32, count: u32) -> Result<(), DescriptorError> {
        let first = self.tables.place(entry, live.current.number).ok_or(DescriptorError::Stale)?;
        match live.desc.fill {
            DescriptorFill::Leave => return Ok(()),
            // The mirror already holds null descriptors there.
            DescriptorFill::Null => {}
            DescriptorFill::Poison => {
                // SAFETY: the caller's promise.
                unsafe { live.mirror.fill(first..first + count, DescriptorFill::Poison) }?;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish(live, WriteTarget::Table { entry, at: 0 }, count) }
    }

    /// Overwrites released descriptors of the mirror with null descriptors, before their resources are
    /// destroyed. If the device panics, the mirror is not copied any more.
    pub(super) fn clear(&self, target: WriteTarget, count: u32) {
        if let Some(live) = &*self.read() {
            self.clear_in(live, target, count);
        }
    }

    /// Like [`clear`](Self::clear), with the heap locked.
    pub(super) fn clear_in(&self, live: &Live<D>, target: WriteTarget, count: u32) {
        if let Some(first) = self.locate(target, &live.current) {
            // On a panic, the mirror may still name what is about to be destroyed. The flag keeps it from being
            // copied, and is set by the guard since the panic leaves this function.
            let clearing = Clearing(&self.poisoned);
            // SAFETY: no handle of the slot or the table exists any more, and no GPU reads the mirror.
            let cleared = unsafe { live.mirror.fill(first..first + count, DescriptorFill::Null) };
            mem::forget(clearing);
            debug_assert!(cleared.is_ok(), "the target lies in its region");
        }
    }

    /// Clears descriptors after something else failed or panicked: if the device panics again here, the process
    /// does not abort. Returns whether the target is cleared.
    pub(super) fn clear_after_failure(&self, target: WriteTarget, count: u32) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.clear(target, count))).is_ok()
    }
}

/// Creates the CPU heap that mirrors slots and tables, with all descriptors written.
pub(super) fn new_mirror<D: DescriptorDevice>(
    allocator: &Arc<Allocator<D>>,
    generation: &Generation<D>,
) -> Result<DeviceHeap<D>, DescriptorError> {
    // A heap with chunks only has nothing to mirror, and a heap has at least one descriptor.
    let kept = generation.regions.kept().max(1);
    let mirror =
        DeviceHeap::new(allocator, DescriptorHeapVisibility::CpuOnly(generation.heap.heap_type()), kept)?;
    // SAFETY: no other code has access to the new heap.
    unsafe { mirror.fill(0..kept, DescriptorFill::Null) }?;
    Ok(mirror)
}

/// Copies the mirror to a heap that no other code has access to.
pub(super) fn copy_all<D: DescriptorDevice>(
    mirror: &DeviceHeap<D>,
    generation: &Generation<D>,
) -> Result<(), DescriptorError> {
    if generation.regions.kept() == 0 {
        return Ok(());
    }
    // SAFETY: all of the mirror is written, and no thread writes it meanwhile; no work reads the other heap, which
    // no recording was given.
    unsafe { generation.heap.copy_from(mirror, 0, 0, generation.regions.kept()) }
}
