//! GPU memory management for Vulkan and Direct3D 12, in Rust.
//!
//! Sub-allocation, budgets and defragmentation of memory; deferred destruction of everything that the GPU may still
//! use; descriptor heaps and binding sets; upload and readback. All of it also runs on a [simulated
//! GPU](device::simulated), so that tests need no hardware.
//!
//! [`Gpu`] is where to begin: it owns everything below it. A [`Frame`] hands out what a frame needs, submits, and at
//! its end reclaims what the GPU has completed. Two calls a frame, [`begin_frame`](Gpu::begin_frame) and
//! [`end`](Frame::end), are all that is needed.
//!
//! ```
//! use allotment::device::simulated::{SimulatedGpu, Profile};
//! use allotment::device::{BufferDesc, QueueDevice as _, QueueIndex, Submission};
//! use allotment::{Gpu, GpuDesc, MemoryUsage};
//!
//! let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
//! let gpu = Gpu::new(device, GpuDesc::default())?;
//!
//! let options = MemoryUsage::GpuOnly.with_name("particles");
//! let particles = gpu.create_buffer(&BufferDesc::new(65536).into(), &options)?;
//! gpu.uploads().write_buffer(&particles, 0, &[1, 2, 3])?;
//! println!("offset {} of memory {:?}", particles.info().offset, particles.info().memory);
//!
//! for _ in 0..3 {
//!     let frame = gpu.begin_frame()?;
//!     frame.submit(QueueIndex(0), |queue, waits| {
//!         // SAFETY: the submission is empty. A program submits its commands here, after `waits`.
//!         unsafe { gpu.device().submit(queue, &Submission { waits, ..Submission::default() }) }
//!     })?;
//!     frame.end()?;
//! }
//! drop(particles); // destroyed once the GPU has completed what may use it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`prelude`] has the names that most programs use, and the methods of devices.
//!
//! Each layer is public and usable alone: the [`Allocator`] by a program that has deferred destruction of its own,
//! [`lifetime`] by one that has its own allocator.
//!
//! # Layers
//!
//! From the program down to the driver. Each layer depends on those below it in this list, never on one above it
//! (`ARCHITECTURE.md` draws them, and says how far that is so):
//!
//! | layer | where | what it is |
//! |---|---|---|
//! | front | [`gpu`] | [`Gpu`] and [`Frame`]: one object that owns the layers, one loop that drives them |
//! | transfers | [`upload`] | upload rings, arenas, the uploader, readback |
//! | transient | [`transient`] | a planner for the resources of a frame that share memory |
//! | descriptors | [`descriptor`] | descriptor heaps, binding sets, samplers |
//! | memory | [`memory`] | the [`Allocator`]: pools, blocks, budgets, mapping, statistics, defragmentation |
//! | events | [`events`] | what happens inside, for a reader |
//! | lifetime | [`lifetime`] | recordings, timelines and deferred destruction |
//! | devices | [`device`] | the trait [`Device`] and its implementations; the only code that calls a driver |
//! | ranges | the crate [`allotment_suballoc`] | suballocation algorithms over an integer range |
//!
//! # What happens inside
//!
//! With the feature `tracing`, each layer emits events with its own target: `allotment::memory`, `allotment::lifetime`,
//! `allotment::upload`, `allotment::descriptor`, `allotment::gpu`. Leaks, device loss, memory that the driver refuses
//! and objects that outlive their deletion queue are warnings; driver calls, refused requests and moves are debug
//! messages. No event is emitted with a lock of a pool held, but some with the lock of a queue, a ring or the uploads:
//! a subscriber does not call the library.
//!
//! # Rules for all layers
//!
//! - Shared objects take `&self` and are `Send + Sync`. Locks are per pool; none is held while a driver or user
//!   code runs.
//! - Errors are values that name the request and the available resources. A call that fails has changed nothing.
//! - Sizes are in bytes, at most 2^48, and are checked once, where they enter the crate.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod choices;
mod chunks;
#[doc(hidden)]
pub mod compiled;
pub mod descriptor;
pub mod device;
pub mod events;
pub mod gpu;
mod hash;
pub mod lifetime;
mod log;
pub mod memory;
pub mod prelude;
mod slab;
mod sync;
mod table;
pub mod transient;
pub mod upload;

pub use allotment_suballoc::{Algorithm, Alignment, AlignmentError};
pub use device::{Device, Requirements, ResourceKind};
pub use gpu::{Frame, Gpu, GpuDesc};
pub use memory::{
    Allocation, AllocationError, AllocationOptions, Allocator, AllocatorDesc, Buffer, Image, MemoryUsage,
    Pool, PoolDesc,
};

/// The code of the README and of the guide, compiled and run as doctests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../README.md")]
    struct ReadmeOfTheCrate;
    #[doc = include_str!("../../../docs/guide/streaming-a-world.md")]
    struct StreamingAWorld;
    #[doc = include_str!("../../../docs/guide/bindless.md")]
    struct Bindless;
    #[doc = include_str!("../../../docs/guide/textures.md")]
    struct Textures;
    #[doc = include_str!("../../../docs/guide/defragmenting.md")]
    struct Defragmenting;
    #[doc = include_str!("../../../docs/guide/coming-from-vma.md")]
    struct ComingFromVma;
    #[doc = include_str!("../../../docs/guide/coming-from-d3d12ma.md")]
    struct ComingFromD3d12ma;
    #[doc = include_str!("../../../docs/guide/coming-from-gpu-allocator.md")]
    struct ComingFromGpuAllocator;
    #[doc = include_str!("../../../docs/guide/transient-resources.md")]
    struct TransientResources;
    #[doc = include_str!("../../../docs/guide/when-a-heap-is-full.md")]
    struct WhenAHeapIsFull;
}
