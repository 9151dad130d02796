//! A long-lived table of a shader-visible heap, with its owner.

use core::fmt;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::cpu_heap::{CpuDescriptorHeap, CpuDescriptorRange};
use super::error::{DescriptorError, check_range};
use super::shader_visible_heap::{Shared, Spot};
use crate::device::DescriptorDevice;

/// Descriptors in a row that shaders see, for as long as this lives. Dropping it retires them: they come back when all
/// recordings that are open then are over.
///
/// It is written before a recording is told [where it is](super::TransientDescriptors::place), and not after: what is in
/// flight must not change. [`renew`](Self::renew) makes it another range with the same descriptors, to be written again.
///
/// It does not keep what its descriptors point at; a [`BindingSet`](super::BindingSet) does.
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
    /// A recording was told where it is.
    exposed: AtomicBool,
}

impl<D: DescriptorDevice> DescriptorRange<D> {
    pub(super) fn new(shared: Arc<Shared<D>>, entry: u32, count: u32) -> Self {
        Self { shared, entry, count, exposed: AtomicBool::new(false) }
    }

    /// Descriptors.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether a recording may use it already, so that it cannot be written any more.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.exposed.load(Relaxed)
    }

    /// Writes its `at`-th descriptor.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::InUse`], [`DescriptorError::OutOfRange`], or the descriptor is of another kind.
    pub fn write(&mut self, at: u32, descriptor: &D::Descriptor<'_>) -> Result<(), DescriptorError> {
        self.check_writable(at, 1)?;
        self.shared.write(Spot::Table { entry: self.entry, at }, descriptor)
    }

    /// Copies a range of staging descriptors here, to its `at`-th on.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write), and [`DescriptorError::Foreign`] where `range` is not of `staging`,
    /// [`DescriptorError::Unwritten`].
    pub fn copy_from(
        &mut self,
        at: u32,
        cpu_heap: &CpuDescriptorHeap<D>,
        range: &CpuDescriptorRange,
    ) -> Result<(), DescriptorError> {
        let count = range.count();
        self.check_writable(at, count)?;
        let spot = Spot::Table { entry: self.entry, at };
        cpu_heap.copied(range, |heap, first| {
            // SAFETY: the range is borrowed, so nobody writes it meanwhile; and this one is the caller's alone, and was
            // not shown to anybody.
            unsafe { self.shared.copy(spot, heap, first, count) }
        })?
    }

    fn check_writable(&self, at: u32, count: u32) -> Result<(), DescriptorError> {
        check_range(at, count, self.count)?;
        if self.is_in_use() { Err(DescriptorError::InUse) } else { Ok(()) }
    }

    /// Becomes another range with the same descriptors, which can be written. The old one is retired.
    ///
    /// # Errors
    ///
    /// [`DescriptorError::Exhausted`]; it is what it was then.
    pub fn renew(&mut self) -> Result<(), DescriptorError> {
        let entry = self.shared.take_table(self.count)?;
        let new = Self::new(Arc::clone(&self.shared), entry, self.count);
        self.shared.copy_table(self.entry, entry, self.count)?;
        // The old one is retired by being dropped.
        *self = new;
        Ok(())
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Its first descriptor in a generation that is alive, for a recording that may use it from now on.
    pub(super) fn expose(&self, generation: u32) -> Option<u32> {
        let first = self.shared.tables.place(self.entry, generation)?;
        self.exposed.store(true, Relaxed);
        Some(first)
    }
}

impl<D: DescriptorDevice> Drop for DescriptorRange<D> {
    fn drop(&mut self) {
        self.shared.retire_table(self.entry, self.count);
    }
}

impl<D: DescriptorDevice> fmt::Debug for DescriptorRange<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorRange").field("entry", &self.entry).field("count", &self.count).finish()
    }
}
