//! The copy of slots and tables that the CPU keeps, and what writes it.

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

/// Clears descriptors whose writing panics, once the locks are given back.
struct Writing<'a, D: DescriptorDevice> {
    shared: &'a Shared<D>,
    spot: Spot,
    count: u32,
}

impl<D: DescriptorDevice> Drop for Writing<'_, D> {
    fn drop(&mut self) {
        self.shared.clear_after_failure(self.spot, self.count);
    }
}

/// Notes that the mirror may hold descriptors of what is gone, unless it is forgotten.
struct Clearing<'a>(&'a AtomicBool);

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A place that is written.
#[derive(Clone, Copy)]
pub(in crate::descriptor) enum Spot {
    Slot(u32),
    /// The `at`-th descriptor of a table.
    Table {
        entry: u32,
        at: u32,
    },
}

impl<D: DescriptorDevice> Shared<D> {
    /// that nothing was written, and may destroy what the descriptor is of.
    fn writing(
        &self,
        (spot, count): (Spot, u32),
        write: impl FnOnce() -> Result<(), DescriptorError>,
    ) -> Result<(), DescriptorError> {
        let writing = Writing { shared: self, spot, count };
        let written = write();
        // What is refused is refused before a byte is written.
        mem::forget(writing);
        written
    }

    /// Writes a descriptor that nobody reads yet, wherever the spot is.
    pub(in crate::descriptor) fn write(
        &self,
        spot: Spot,
        descriptor: &D::Descriptor<'_>,
    ) -> Result<(), DescriptorError> {
        self.writing((spot, 1), || self.write_unguarded(spot, descriptor))
    }

    fn write_unguarded(&self, spot: Spot, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        let guard = self.live()?;
        let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
        let at = self.locate(spot, &live.current).ok_or(DescriptorError::Stale)?;
        // SAFETY: slots and tables are written by whoever has their only token, before anybody is told of them; the
        // heap is not replaced as long as the guard lives.
        unsafe { live.mirror.write(at, descriptor) }?;
        // SAFETY: as above.
        unsafe { self.publish(live, spot, 1) }
    }

    /// Copies staging descriptors to a spot.
    ///
    /// # Safety
    ///
    /// The spot's descriptors are the caller's, and nobody was told of them yet; those that are copied were written, and
    /// nobody writes them meanwhile.
    pub(in crate::descriptor) unsafe fn copy(
        &self,
        spot: Spot,
        from: &DeviceHeap<D>,
        from_at: u32,
        count: u32,
    ) -> Result<(), DescriptorError> {
        self.writing((spot, count), || {
            let guard = self.live()?;
            let live = guard.as_ref().ok_or(DescriptorError::HeapGone)?;
            let at = self.locate(spot, &live.current).ok_or(DescriptorError::Stale)?;
            // SAFETY: the caller's promise.
            unsafe { live.mirror.copy_from(from, from_at, at, count) }?;
            // SAFETY: the caller's promise.
            unsafe { self.publish(live, spot, count) }
        })
    }

    /// Copies a table to another one, which nobody was told of.
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
        // SAFETY: all of the mirror is written; both tables have their only owner here, who lends them.
        unsafe { live.mirror.copy_from(&live.mirror, from, at, count) }?;
        // SAFETY: as above.
        unsafe { self.publish(live, Spot::Table { entry: to, at: 0 }, count) }
    }

    /// Copies what the mirror has to the heaps that recordings see.
    ///
    /// # Safety
    ///
    /// The descriptors are the caller's, and nobody was told of them yet.
    pub(super) unsafe fn publish(
        &self,
        live: &Live<D>,
        spot: Spot,
        count: u32,
    ) -> Result<(), DescriptorError> {
        let from = self.locate(spot, &live.current).ok_or(DescriptorError::Stale)?;
        // SAFETY: the mirror is written, all of it; the rest is the caller's promise.
        unsafe { live.current.heap.copy_from(&live.mirror, from, from, count) }?;
        if let Some(previous) = live.previous.upgrade() {
            if let Some(to) = self.locate(spot, &previous) {
                // SAFETY: as above; this heap is live since it is held.
                unsafe { previous.heap.copy_from(&live.mirror, from, to, count) }?;
            }
        }
        Ok(())
    }

    /// Where a spot is in a generation that is alive. `None` where it came later.
    pub(super) fn locate(&self, spot: Spot, generation: &Generation<D>) -> Option<u32> {
        match spot {
            Spot::Slot(index) => (index < generation.regions.slots).then_some(index),
            Spot::Table { entry, at } => self.tables.place(entry, generation.number).map(|first| first + at),
        }
    }

    /// Makes a new table what the heap's description says.
    ///
    /// # Safety
    ///
    /// The table is the caller's, and nobody was told of it yet.
    pub(super) unsafe fn fill(&self, live: &Live<D>, entry: u32, count: u32) -> Result<(), DescriptorError> {
        let first = self.tables.place(entry, live.current.number).ok_or(DescriptorError::Stale)?;
        match live.desc.fill {
            DescriptorFill::Leave => return Ok(()),
            // As it is in the mirror.
            DescriptorFill::Null => {}
            DescriptorFill::Poison => {
                // SAFETY: the caller's promise.
                unsafe { live.mirror.fill(first..first + count, DescriptorFill::Poison) }?;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish(live, Spot::Table { entry, at: 0 }, count) }
    }

    /// Makes the mirror's descriptors of what came back those of nothing, before what they point at goes. Where the device
    /// panics, the mirror is not copied any more.
    pub(super) fn clear(&self, spot: Spot, count: u32) {
        let guard = self.read();
        let Some(live) = &*guard else { return };
        if let Some(first) = self.locate(spot, &live.current) {
            let clearing = Clearing(&self.unclear);
            // SAFETY: nobody has the slot or the table any more, and no GPU reads the mirror.
            let cleared = unsafe { live.mirror.fill(first..first + count, DescriptorFill::Null) };
            mem::forget(clearing);
            debug_assert!(cleared.is_ok(), "it lies in its region");
        }
    }

    /// The same after something else failed or panicked: a device that panics again here does not end the process.
    /// Returns whether the spot is cleared.
    pub(super) fn clear_after_failure(&self, spot: Spot, count: u32) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.clear(spot, count))).is_ok()
    }
}

/// A staging heap for what is in slots and tables, all of it written.
pub(super) fn new_mirror<D: DescriptorDevice>(
    allocator: &Arc<Allocator<D>>,
    generation: &Generation<D>,
) -> Result<DeviceHeap<D>, DescriptorError> {
    // A heap of nothing but chunks has nothing to mirror, and there are no heaps of nothing.
    let kept = generation.regions.kept().max(1);
    let mirror =
        DeviceHeap::new(allocator, DescriptorHeapVisibility::CpuOnly(generation.heap.heap_type()), kept)?;
    // SAFETY: nobody else knows of it.
    unsafe { mirror.fill(0..kept, DescriptorFill::Null) }?;
    Ok(mirror)
}

/// Copies the mirror to a heap that nobody else knows of.
pub(super) fn copy_all<D: DescriptorDevice>(
    mirror: &DeviceHeap<D>,
    generation: &Generation<D>,
) -> Result<(), DescriptorError> {
    if generation.regions.kept() == 0 {
        return Ok(());
    }
    // SAFETY: the mirror is written, all of it, and nobody writes there meanwhile; nobody reads the other.
    unsafe { generation.heap.copy_from(mirror, 0, 0, generation.regions.kept()) }
}
