//! Everything that stands between an engine and its GPU driver about memory.
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
//! | front | [`gpu`] | [`Gpu`] and [`Frame`]: one object that owns the layers, one loop that drives them |
//!
//! # Rules that hold everywhere
//!
//! - Shared objects take `&self` and are `Send + Sync`. Locks are per pool; none is held while a driver
//!   or the user's code runs.
//! - A refusal is a value that says what was asked and what there is. What fails has changed nothing.
//! - Sizes are in bytes, at most 2^48, and checked once, where they come in.

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
    Allocation, AllocationDesc, AllocationError, Allocator, AllocatorDesc, MemoryUsage, Pool, PoolDesc,
};

/// The example of the README, so that it cannot rot.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
