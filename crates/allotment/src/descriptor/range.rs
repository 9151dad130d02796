//! Owned long-lived tables of a shader-visible heap.

use core::fmt;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::{DescriptorError, check_range};
use super::shader_visible_heap::{Shared, WriteTarget};
use crate::device::DescriptorDevice;

/// Adjacent shader-visible descriptors, owned until this is dropped. Dropping it retires them: they are reused
/// once all recordings that are open then have completed.
///
/// Write it before a recording is given [its location](super::TransientDescriptors::place), and not after:
/// descriptors in flight must not change. [`renew`](Self::renew) turns it into another range with the same
/// descriptors, which can be written again.
///
/// It does not keep the resources of its descriptors alive; a [`BindingSet`](super::BindingSet) does.
///
/// ```compile_fail
/// # use allotment::descriptor::DescriptorRange;
/// # use allotment::device::simulated::SimulatedGpu;
/// fn twice(range: DescriptorRange<SimulatedGpu>) {
///     drop(range);
///     drop(range);
/// }
/// ```
///
/// ```compile_fail
/// # use allotment::descriptor::DescriptorRange;
/// # use allotment::device::simulated::SimulatedGpu;
/// fn copied(range: &DescriptorRange<SimulatedGpu>) -> DescriptorRange<SimulatedGpu> {
///     range.clone()
/// }
/// ```
pub struct DescriptorRange<D: DescriptorDevice> {
    shared: Arc<Shared<D>>,
    entry: u32,
    count: u32,
    /// A recording was given its location.
    exposed: AtomicBool,
}

impl<D: DescriptorDevice> DescriptorRange<D> {
    pub(super) fn new(shared: Arc<Shared<D>>, entry: u32, count: u32) -> Self {
        Self { shared, entry, count, exposed: AtomicBool::new(false) }
    }

    /// Returns the number of descriptors.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether a recording may use the range already, so that it cannot be written any more.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.exposed.load(Relaxed)
    }

    /// Writes the `at`-th descriptor.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InUse`], [`DescriptorError::OutOfRange`], or [`DescriptorError::WrongKind`] for a
    /// descriptor of another type.
    pub fn write(&mut self, at: u32, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        self.check_writable(at, 1)?;
        self.shared.write(WriteTarget::Table { entry: self.entry, at }, descriptor)
    }

    /// Copies CPU descriptors to this range, from its `at`-th descriptor on.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), and [`DescriptorError::WrongHeap`] if `range` does not belong to
    /// `cpu_heap`, [`DescriptorError::Unwritten`].
    pub fn copy_from(
        &mut self,
        at: u32,
        cpu_heap: &CpuDescriptorHeap<D>,
        range: &CpuDescriptorRange,
    ) -> Result<(), DescriptorError> {
        let count = range.count();
        self.check_writable(at, count)?;
        let target = WriteTarget::Table { entry: self.entry, at };
        cpu_heap.copied(range, |heap, first| {
            // SAFETY: the range is borrowed, so no thread writes it meanwhile; this table belongs to the caller
            // alone, and no recording was given its location.
            unsafe { self.shared.copy(target, heap, first, count) }
        })?
    }

    fn check_writable(&self, at: u32, count: u32) -> Result<(), DescriptorError> {
        check_range(at, count, self.count)?;
        // A recording has its location, so the GPU may read the descriptors at any time until the range is retired.
        if self.is_in_use() { Err(DescriptorError::InUse) } else { Ok(()) }
    }

    /// Turns this into another range with the same descriptors, which can be written. The old range is retired.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Exhausted`]; then the range is unchanged.
    pub fn renew(&mut self) -> Result<(), DescriptorError> {
        let new = self.reserve()?;
        self.renew_as(Some(new)).map(drop)
    }

    /// Takes another range of the same size. May reclaim.
    pub(super) fn reserve(&self) -> Result<Self, DescriptorError> {
        let entry = self.shared.take_table(self.count)?;
        Ok(Self::new(Arc::clone(&self.shared), entry, self.count))
    }

    /// Turns this into a range that was [reserved](Self::reserve), with the same descriptors. Returns the old range, which
    /// is retired when it is dropped. Does nothing without a range.
    pub(super) fn renew_as(&mut self, new: Option<Self>) -> Result<Option<Self>, DescriptorError> {
        let Some(new) = new else { return Ok(None) };
        // Owned by `new` already, so a failure retires the new table.
        self.shared.copy_table(self.entry, new.entry, self.count)?;
        self.shared.tables.swap(self.entry, new.entry);
        // Recordings that have the previous heap were given the old range there.
        self.shared.tables.leave_previous(self.entry);
        *self.exposed.get_mut() = false;
        Ok(Some(new))
    }

    /// Forgets the descriptors of an old range of a set that has relocatable resources.
    pub(super) fn forget(&self) {
        self.shared.forget(WriteTarget::Table { entry: self.entry, at: 0 }, self.count);
    }

    pub(super) fn entry(&self) -> u32 {
        self.entry
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Returns the first descriptor in a live generation, for a recording that may use the range from now on.
    pub(super) fn expose(&self, generation: u32) -> Option<u32> {
        let first = self.shared.tables.place(self.entry, generation)?;
        // Relaxed, since a write needs the range mutably: no thread can write while this one exposes it.
        self.exposed.store(true, Relaxed);
        Some(first)
    }
}

impl<D: DescriptorDevice> Drop for DescriptorRange<D> {
    #[inline(never)]
    fn drop(&mut self) {
        self.shared.retire_table(self.entry, self.count);
    }
}

impl<D: DescriptorDevice> fmt::Debug for DescriptorRange<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorRange").field("entry", &self.entry).field("count", &self.count).finish()
    }
}
