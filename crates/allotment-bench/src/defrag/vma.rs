//! AMD's Vulkan Memory Allocator (C++), through the crate `vk-mem`.
//!
//! A custom pool with blocks of one size, on the device of all benchmarks. Nothing is bound to the memory, so each
//! move is ended as if it had been copied, which is VMA's default. VMA does not know whether an allocation is for a
//! buffer or an image, and keeps the granularity between any two.

use core::cell::Cell;
use core::time::Duration;
use std::sync::Arc;

use ash::prelude::VkResult;
use ash::vk::{Handle as _, MemoryPropertyFlags, MemoryRequirements};
use vk_mem::{
    Alloc as _, Allocation, AllocationCreateInfo, Allocator, AllocatorCreateInfo, AllocatorPool,
    DefragmentationContext, PoolCreateInfo, PoolHandle,
};

use super::contents::Contents;
use super::outcome::Outcome;
use super::state::{ALIGNMENT, BLOCK, State};
use crate::clock::thread_cpu_time;
use crate::failure::Failure;
use crate::vulkan::{API_VERSION, Gpu};

pub(super) const NAME: &str = "vma";

/// VMA's algorithms, by their flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Algorithm {
    Fast = 1,
    /// VMA's default.
    Balanced = 2,
    Full = 4,
}

impl Algorithm {
    pub(super) const ALL: [Self; 3] = [Self::Fast, Self::Balanced, Self::Full];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Balanced => "balanced",
            Self::Full => "full",
        }
    }

    /// Returns why it is not run on a state.
    pub(super) fn refuses(self, state: &State) -> Option<&'static str> {
        (self == Self::Balanced && state.wanted.is_empty()).then_some(
            "vma balanced is not run on blocks that are all empty: it divides by the number of allocations",
        )
    }
}

fn failed(error: ash::vk::Result) -> Failure {
    Failure::Setup { contender: NAME, error: error.to_string() }
}

/// A pool and its allocations.
struct Vma {
    live: Vec<Allocation>,
    /// Before its allocator.
    pool: AllocatorPool,
    allocator: Arc<Allocator>,
    /// Keeps the device alive.
    _gpu: Arc<Gpu>,
}

impl Vma {
    fn new(gpu: &Arc<Gpu>, state: &State) -> Result<Self, Failure> {
        let instance = gpu.instance_with_granularity(state.granularity);
        let mut info = AllocatorCreateInfo::new(&instance, &gpu.device, gpu.physical);
        info.vulkan_api_version = API_VERSION;
        // SAFETY: instance, device and physical device are valid, and the objects created from them keep them alive.
        let allocator = Arc::new(unsafe { Allocator::new(info) }.map_err(failed)?);
        let wish = AllocationCreateInfo {
            preferred_flags: MemoryPropertyFlags::DEVICE_LOCAL,
            ..AllocationCreateInfo::default()
        };
        // SAFETY: the mask names types of the device.
        let memory_type = unsafe { allocator.find_memory_type_index(u32::MAX, &wish) }.map_err(failed)?;
        let desc = PoolCreateInfo {
            memory_type_index: memory_type,
            block_size: BLOCK,
            min_block_count: state.min_blocks as usize,
            ..PoolCreateInfo::default()
        };
        let pool = allocator.create_pool(&desc).map_err(failed)?;
        let mut made = Self { live: Vec::new(), pool, allocator, _gpu: Arc::clone(gpu) };
        for wanted in &state.wanted {
            let requirements =
                MemoryRequirements { size: wanted.size, alignment: ALIGNMENT, memory_type_bits: u32::MAX };
            // SAFETY: the requirements are not empty, and their alignment is a power of two.
            let allocation = unsafe { made.pool.allocate_memory(&requirements, &wish) };
            made.live.push(allocation.map_err(failed)?);
        }
        let mut goes = vec![false; made.live.len()];
        state.gone.iter().for_each(|&gone| goes[gone] = true);
        let all = core::mem::take(&mut made.live).into_iter().zip(goes);
        for (mut allocation, goes) in all {
            if goes {
                // SAFETY: it belongs to this allocator, and is freed once.
                unsafe { made.allocator.free_memory(&mut allocation) };
            } else {
                made.live.push(allocation);
            }
        }
        Ok(made)
    }

    fn contents(&self) -> Result<Contents, Failure> {
        let places = self.live.iter().map(|allocation| {
            let info = self.allocator.get_allocation_info(allocation);
            (info.device_memory.as_raw(), info.size)
        });
        Ok(Contents::of(self.pool.get_statistics().map_err(failed)?.blockCount, places))
    }

    fn begin(
        &self,
        algorithm: Algorithm,
        moves_per_pass: Option<u32>,
    ) -> Result<DefragmentationContext<'_>, Failure> {
        // SAFETY: the type is a C struct of numbers and of pointers that may be null.
        let mut info = unsafe { nothing_of(Allocator::begin_defragmentation) };
        info.flags = algorithm as u32;
        info.pool = {
            // SAFETY: the handle is a struct with only this pointer.
            unsafe { core::mem::transmute::<PoolHandle, *mut _>(self.pool.pool()) }
        };
        info.maxAllocationsPerPass = moves_per_pass.unwrap_or(0);
        // SAFETY: the pool belongs to this allocator, and no other code defragments it.
        unsafe { self.allocator.begin_defragmentation(&info) }.map_err(failed)
    }
}

impl Drop for Vma {
    fn drop(&mut self) {
        for mut allocation in self.live.drain(..) {
            // SAFETY: it belongs to this allocator, and is freed once.
            unsafe { self.allocator.free_memory(&mut allocation) };
        }
    }
}

/// Returns a zeroed value of a function's argument type: the crate does not export the type's name.
///
/// # Safety
///
/// All zeros must be a valid value of the type.
unsafe fn nothing_of<T>(
    _of: for<'a, 'i> unsafe fn(&'a Allocator, &'i T) -> VkResult<DefragmentationContext<'a>>,
) -> T {
    // SAFETY: the caller guarantees it.
    unsafe { core::mem::zeroed() }
}

/// Creates a state and defragments it.
pub(super) fn run(
    gpu: &Arc<Gpu>,
    state: &State,
    algorithm: Algorithm,
    moves_per_pass: Option<u32>,
) -> Result<Outcome, Failure> {
    let vma = Vma::new(gpu, state)?;
    let mut outcome = Outcome { before: vma.contents()?, ..Outcome::default() };
    let context = vma.begin(algorithm, moves_per_pass)?;
    loop {
        let found = Cell::new(None::<Duration>);
        let start = thread_cpu_time();
        let more = context.begin_pass(|_| found.set(Some(thread_cpu_time())));
        let end = thread_cpu_time();
        outcome.found.push(found.get().unwrap_or(end) - start);
        if let Some(found) = found.get() {
            outcome.passes += 1;
            outcome.ended += end - found;
        }
        if !more {
            break;
        }
    }
    let done = context.end();
    (outcome.bytes_moved, outcome.moves) = (done.bytesMoved, done.allocationsMoved.into());
    outcome.after = vma.contents()?;
    Ok(outcome)
}
