//! The allocator of a run.

use core::ops::Deref;
use std::sync::Arc;

use crate::device::Device;
use crate::memory::allocator::Allocator;

/// An allocator that a run borrows, or shares: then a struct can keep the run beside the allocator.
pub(super) enum Owner<'a, D: Device> {
    Borrowed(&'a Allocator<D>),
    Shared(Arc<Allocator<D>>),
}

impl<D: Device> Deref for Owner<'_, D> {
    type Target = Allocator<D>;

    fn deref(&self) -> &Allocator<D> {
        match self {
            Self::Borrowed(allocator) => allocator,
            Self::Shared(allocator) => allocator,
        }
    }
}
