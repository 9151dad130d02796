//! GPU memory management for Vulkan and Direct3D 12, in Rust.
//!
//! Sub-allocation, budgets and defragmentation of memory; deferred destruction of everything that the GPU may still
//! use; descriptor heaps and binding sets; upload and readback. All of it also runs on a [simulated
//! GPU](device::simulated), so that tests need no hardware.
//!
//! ```
//! use allotment::device::simulated::{SimulatedGpu, Profile};
//! use allotment::{Allocator, AllocatorDesc, MemoryUsage, Requirements};
//!
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! let allocator = Allocator::new(device, AllocatorDesc::default())?;
//!
//! let options = MemoryUsage::Upload.with_name("particles");
//! let particles = allocator.allocate(&Requirements::new(64 << 10), &options)?;
//! allocator.write(&particles, 0, &[1, 2, 3])?;
//! let location = allocator.location(&particles)?;
//! println!("memory {:?} at {}, type {}", location.memory, location.offset, location.memory_type);
//! allocator.free(particles)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers
//!
//! Each layer depends only on those below it, listed here from the bottom up:
//!
//! | layer | where | what it is |
//! |---|---|---|
//! | ranges | the crate [`allotment_suballoc`] | suballocation algorithms over an integer range |
//! | devices | [`device`] | the trait [`Device`] and its implementations; the only code that calls a driver |
//! | lifetime | [`lifetime`] | recordings, timelines and deferred destruction |
//! | memory | [`memory`] | the [`Allocator`]: pools, blocks, budgets, mapping, statistics, defragmentation |
//! | descriptors | [`descriptor`] | descriptor heaps, binding sets, samplers |
//! | transfers | [`upload`] | upload rings, arenas, the uploader, readback |
//!
//! # Rules for all layers
//!
//! - Shared objects take `&self` and are `Send + Sync`. Locks are per pool; none is held while a driver or user
//!   code runs.
//! - Errors are values that name the request and the available resources. A call that fails has changed nothing.
//! - Sizes are in bytes, at most 2^48, and are checked once, where they enter the crate.

pub mod descriptor;
pub mod device;
pub mod gpu;
pub mod lifetime;
pub mod memory;
mod sync;
mod table;
pub mod upload;

pub use allotment_suballoc::{Algorithm, Alignment, AlignmentError, Side, Strategy};
pub use device::{Device, Requirements, ResourceKind};
pub use gpu::{Frame, Gpu, GpuDesc};
pub use memory::{
    Allocation, AllocationError, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc,
};

/// The code of the README and of the guide, compiled and run as doctests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/streaming-a-world.md")]
    struct StreamingAWorld;
    #[doc = include_str!("../../../docs/guide/bindless.md")]
    struct Bindless;
    #[doc = include_str!("../../../docs/guide/defragmenting.md")]
    struct Defragmenting;
    #[doc = include_str!("../../../docs/guide/coming-from-vma.md")]
    struct ComingFromVma;
    #[doc = include_str!("../../../docs/guide/coming-from-gpu-allocator.md")]
    struct ComingFromGpuAllocator;
    #[doc = include_str!("../../../docs/guide/when-a-heap-is-full.md")]
    struct WhenAHeapIsFull;
}
