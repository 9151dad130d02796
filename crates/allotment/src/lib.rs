//! GPU memory management for Vulkan and Direct3D 12, in Rust.
//!
//! Sub-allocation, budgets and defragmentation of memory; deferred destruction of everything that the GPU may still
//! use; descriptor heaps and binding sets; upload and readback. All of it also runs on a [simulated
//! GPU](device::simulated), so that tests need no hardware.
//!
//! ```
//! use allotment::device::simulated::{SimulatedGpu, Profile};
//! use allotment::{AllocationDesc, Allocator, AllocatorDesc, MemoryUsage, Requirements};
//!
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! let allocator = Allocator::new(device, AllocatorDesc::default())?;
//!
//! let desc = AllocationDesc::new(Requirements::new(64 << 10), MemoryUsage::Upload).with_name("particles");
//! let particles = allocator.allocate(&desc)?;
//! allocator.write(&particles, 0, &[1, 2, 3])?;
//! let place = allocator.place(&particles)?;
//! println!("memory {:?} at {}, type {}", place.memory, place.offset, place.memory_type);
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
pub mod lifetime;
pub mod memory;
mod sync;
mod table;
pub mod upload;

pub use allotment_suballoc::{Algorithm, Alignment, AlignmentError, Side, Strategy};
pub use device::{Device, Requirements, ResourceKind};
pub use memory::{
    Allocation, AllocationDesc, AllocationError, Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc,
};

/// The README's example, compiled and run as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
