//! The allocator of a run.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use crate::device::Device;
use crate::memory::allocator::Allocator;

/// An allocator that a run borrows or shares.
///
/// `&allocator` is borrowed. `&arc` of an `Arc<Allocator>` is shared: a struct can keep the run beside the allocator, from
/// frame to frame. Both become one by themselves where a function takes `impl Into<AllocatorRef>`.
pub enum AllocatorRef<'a, D: Device> {
    /// The run ends before the allocator goes.
    Borrowed(&'a Allocator<D>),
    /// The run keeps the allocator alive.
    Shared(Arc<Allocator<D>>),
}

impl<D: Device> Deref for AllocatorRef<'_, D> {
    type Target = Allocator<D>;

    fn deref(&self) -> &Allocator<D> {
        match self {
            Self::Borrowed(allocator) => allocator,
            Self::Shared(allocator) => allocator,
        }
    }
}

impl<'a, D: Device> From<&'a Allocator<D>> for AllocatorRef<'a, D> {
    fn from(allocator: &'a Allocator<D>) -> Self {
        Self::Borrowed(allocator)
    }
}

impl<D: Device> From<&Arc<Allocator<D>>> for AllocatorRef<'_, D> {
    fn from(allocator: &Arc<Allocator<D>>) -> Self {
        Self::Shared(Arc::clone(allocator))
    }
}

impl<D: Device> fmt::Debug for AllocatorRef<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Borrowed(_) => "Borrowed(..)",
            Self::Shared(_) => "Shared(..)",
        })
    }
}
