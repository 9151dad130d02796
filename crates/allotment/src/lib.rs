//! Everything that stands between an engine and its GPU driver about memory.
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
//! Each knows only those above it:
//!
//! | layer | where | what it is |
//! |---|---|---|
//! | ranges | the crate [`allotment_suballoc`] | hands out ranges of an integer space |
//! | devices | [`device`] | the trait [`Device`] and its implementations: all that calls a driver |
//! | lifetime | [`lifetime`] | recordings and timelines: when may something be used again |
//! | memory | [`memory`] | the [`Allocator`]: pools, blocks, budgets, mapping, statistics |
//! | descriptors | [`descriptor`] | heaps of descriptors, binding sets, samplers |
//! | frame | [`upload`] | rings and arenas for bytes that go to the device and come back from it |
//!
//! # Rules that hold everywhere
//!
//! - Shared objects take `&self` and are `Send + Sync`. Locks are per pool; none is held while a driver
//!   or the user's code runs.
//! - A refusal is a value that says what was asked and what there is. What fails has changed nothing.
//! - Sizes are in bytes, at most 2^48, and checked once, where they come in.

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
    Allocation, AllocationError, AllocationOptions, Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc,
};

/// The example of the README, so that it cannot rot.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
