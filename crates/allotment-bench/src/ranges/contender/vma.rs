//! `VirtualBlock` of AMD's Vulkan Memory Allocator (C++), through the crate `vk-mem`, with each strategy and with
//! its linear algorithm.

use core::marker::PhantomData;

use vk_mem::{
    VirtualAllocation, VirtualAllocationCreateFlags as Flags, VirtualAllocationCreateInfo, VirtualBlock,
    VirtualBlockCreateFlags, VirtualBlockCreateInfo,
};

use super::{Ranges, Space};
use crate::host_heap;

/// A strategy.
pub(in crate::ranges) trait Kind: Send + 'static {
    const NAME: &'static str;
    const STRATEGY: Flags = Flags::empty();
    const LINEAR: bool = false;
}

pub(in crate::ranges) enum Default {}
pub(in crate::ranges) enum MinTime {}
pub(in crate::ranges) enum MinMemory {}
pub(in crate::ranges) enum MinOffset {}
pub(in crate::ranges) enum Linear {}

impl Kind for Default {
    const NAME: &'static str = "vk-mem";
}

impl Kind for MinTime {
    const NAME: &'static str = "vk-mem-min-time";
    const STRATEGY: Flags = Flags::VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_TIME_BIT;
}

impl Kind for MinMemory {
    const NAME: &'static str = "vk-mem-min-memory";
    const STRATEGY: Flags = Flags::VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_MEMORY_BIT;
}

impl Kind for MinOffset {
    const NAME: &'static str = "vk-mem-min-offset";
    const STRATEGY: Flags = Flags::VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_OFFSET_BIT;
}

impl Kind for Linear {
    const NAME: &'static str = "vk-mem-linear";
    const LINEAR: bool = true;
}

/// A block in bytes.
pub(in crate::ranges) struct Vma<K> {
    block: VirtualBlock,
    kind: PhantomData<K>,
}

// SAFETY: the block is a pointer to an object that only this owns, and that is tied to no thread.
unsafe impl<K> Send for Vma<K> {}

impl<K: Kind> Ranges for Vma<K> {
    type Handle = VirtualAllocation;

    const NAME: &'static str = K::NAME;
    const IS_LINEAR: bool = K::LINEAR;

    fn new(space: &Space) -> Option<Self> {
        let flags = if K::LINEAR {
            VirtualBlockCreateFlags::VMA_VIRTUAL_BLOCK_CREATE_LINEAR_ALGORITHM_BIT
        } else {
            VirtualBlockCreateFlags::empty()
        };
        let info = VirtualBlockCreateInfo { size: space.size, flags, allocation_callbacks: None };
        Some(Self { block: VirtualBlock::new(info).ok()?, kind: PhantomData })
    }

    #[inline(always)]
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<(VirtualAllocation, u64)> {
        let info = VirtualAllocationCreateInfo { size, alignment, user_data: 0, flags: K::STRATEGY };
        // SAFETY: the size is not 0, and the alignment is a power of two.
        unsafe { self.block.allocate(info) }.ok()
    }

    #[inline(always)]
    fn free(&mut self, mut handle: VirtualAllocation) {
        // SAFETY: the handle is of this block, and is used up here, so that it is freed once.
        unsafe { self.block.free(&mut handle) };
    }

    fn clear(&mut self) -> bool {
        // SAFETY: by the contract of the trait no handle is used after this.
        unsafe { self.block.clear() };
        true
    }

    fn host_bytes() -> Option<u64> {
        host_heap::bytes_of_process()
    }
}

impl<K> Drop for Vma<K> {
    fn drop(&mut self) {
        // SAFETY: the block goes with this, and so no handle is used any more. VMA wants it empty.
        unsafe { self.block.clear() };
    }
}
