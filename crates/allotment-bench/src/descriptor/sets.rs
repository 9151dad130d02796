//! The peer: `gpu-descriptor` 0.3, which allocates descriptor sets from pools, one kind of pool for each layout.
//! Its device here costs nothing: a pool is empty, a set is 0.
//!
//! It takes `&mut self`, so it is behind a mutex, as in programs that use it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_descriptor::{
    CreatePoolError, DescriptorAllocator, DescriptorDevice, DescriptorPoolCreateFlags, DescriptorSet,
    DescriptorSetLayoutCreateFlags, DescriptorTotalCount, DeviceAllocationError,
};

/// A device without an effect.
struct Nothing;

impl DescriptorDevice<(), (), u64> for Nothing {
    unsafe fn create_descriptor_pool(
        &self,
        _: &DescriptorTotalCount,
        _: u32,
        _: DescriptorPoolCreateFlags,
    ) -> Result<(), CreatePoolError> {
        Ok(())
    }

    unsafe fn destroy_descriptor_pool(&self, (): ()) {}

    unsafe fn alloc_descriptor_sets<'a>(
        &self,
        (): &mut (),
        layouts: impl ExactSizeIterator<Item = &'a ()>,
        sets: &mut impl Extend<u64>,
    ) -> Result<(), DeviceAllocationError> {
        sets.extend(layouts.map(|()| 0));
        Ok(())
    }

    unsafe fn dealloc_descriptor_sets(&self, (): &mut (), sets: impl Iterator<Item = u64>) {
        sets.for_each(drop);
    }
}

pub(super) type Set = DescriptorSet<u64>;

pub(super) struct Sets(Mutex<DescriptorAllocator<(), u64>>);

impl Sets {
    pub(super) const NAME: &'static str = "gpu-descriptor 0.3";

    pub(super) fn new() -> Self {
        Self(Mutex::new(DescriptorAllocator::new(0)))
    }

    fn locked(&self) -> MutexGuard<'_, DescriptorAllocator<(), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a set of a number of images.
    #[inline]
    pub(super) fn allocate(&self, count: u32, into: &mut Vec<Set>) -> u64 {
        let counts = DescriptorTotalCount { sampled_image: count, ..DescriptorTotalCount::default() };
        let flags = DescriptorSetLayoutCreateFlags::empty();
        // SAFETY: there is one device, which has no effect.
        let sets = unsafe { self.locked().allocate(&Nothing, &(), flags, &counts, 1) };
        let Ok(sets) = sets else { unreachable!("the device never fails") };
        into.extend(sets);
        into.last().map_or(0, |set| *set.raw())
    }

    pub(super) fn free_all(&self, sets: &mut Vec<Set>) {
        // SAFETY: there is one device, which has no effect; no GPU uses the sets.
        unsafe { self.locked().free(&Nothing, sets.drain(..)) };
    }
}
