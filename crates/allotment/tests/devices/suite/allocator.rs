//! The common part of the allocator's suites: an allocator over the device of the test, which must be
//! consistent and empty in the end.

#[path = "../../common/wanted.rs"]
mod requests;

use core::ops::Deref;

use allotment::device::{MemoryDevice as _, MemoryTypeIndex, QueueIndex};
use allotment::memory::Transfer;
use allotment::memory::blocks::BlockSize;
use allotment::memory::reports::LeakHandler;
use allotment::{Algorithm, Allocation, Allocator, AllocatorDesc, MemoryUsage, PoolDesc};

use crate::bytes::assert_same;
use crate::fixture::Fixture;
use crate::gpu::Gpu;

pub(super) use requests::{AllocateWanted, Wanted};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// An allocator that looks, when it goes, whether all is well.
pub(super) struct Rig<'g, F: Fixture> {
    pub(super) gpu: &'g Gpu<F>,
    allocator: Allocator<F::Device>,
}

impl<F: Fixture> Deref for Rig<'_, F> {
    type Target = Allocator<F::Device>;

    fn deref(&self) -> &Self::Target {
        &self.allocator
    }
}

impl<F: Fixture> Drop for Rig<'_, F> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.allocator.check_invariants();
            assert_eq!(self.allocator.statistics().allocation_bytes, 0, "the test gave everything back");
        }
    }
}

impl<'g, F: Fixture> Rig<'g, F> {
    pub(super) fn new(gpu: &'g Gpu<F>) -> Self {
        Self::with(gpu, |_| {})
    }

    pub(super) fn with(gpu: &'g Gpu<F>, change: impl FnOnce(&mut AllocatorDesc)) -> Self {
        let mut desc = AllocatorDesc::default();
        desc.on_leak = LeakHandler::Ignore;
        change(&mut desc);
        Self { gpu, allocator: Allocator::new(gpu.device().clone(), desc).unwrap() }
    }

    /// `size` bytes for a buffer.
    pub(super) fn wanted(&self, size: u64, memory_usage: MemoryUsage) -> Wanted {
        Wanted::new(self.gpu.requirements(size), memory_usage)
    }

    pub(super) fn transfer(&self) -> Transfer<'_, F::Device> {
        Transfer::new(&self.allocator, QueueIndex(0), 64 * KIB).unwrap()
    }

    /// Reads a whole allocation and compares.
    pub(super) fn assert_holds(
        &self,
        transfer: &mut Transfer<'_, F::Device>,
        allocation: &Allocation,
        expected: &[u8],
        what: impl core::fmt::Debug,
    ) {
        let mut found = vec![0; expected.len()];
        transfer.download(allocation, 0, &mut found).unwrap();
        assert_same(&found, expected, what);
    }

    /// A pool of blocks of 1 MiB, or one of this size.
    pub(super) fn pool(&self, memory_type: MemoryTypeIndex, algorithm: Algorithm) -> PoolDesc {
        let mut desc = PoolDesc::new([memory_type]);
        (desc.algorithm, desc.sizing) = (algorithm, Some(BlockSize::Fixed(MIB)));
        desc
    }

    pub(super) fn device_calls_now(&self) -> u64 {
        self.allocator.reports().device_calls().memory()
    }

    pub(super) fn heap_count(&self) -> u8 {
        self.allocator.device().properties().heaps.len() as u8
    }
}
