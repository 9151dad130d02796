//! The API of `gpu-allocator` 0.28 over Allotment.
//!
//! ```toml
//! [patch.crates-io]
//! gpu-allocator = { git = "…" } # or `path`
//! ```
//!
//! With this patch, a program that uses `gpu-allocator` 0.28, itself or through `wgpu`, runs on Allotment with no change.
//! New programs use [`allotment`] itself: it needs no lock around it, checks what is freed, and does much more.
//!
//! | module | what |
//! |---|---|
#![cfg_attr(
    all(windows, feature = "d3d12"),
    doc = "| [`d3d12`] | an allocator for a Direct3D 12 device of the application |"
)]
#![cfg_attr(feature = "vulkan", doc = "| [`vulkan`] | an allocator for a Vulkan device of the application |")]
#![doc = "| this one | locations, block sizes, debug settings, errors, reports |"]

#[cfg(not(any(feature = "std", feature = "hashbrown")))]
compile_error!("enable the feature `std` or `hashbrown`, as gpu-allocator wants it");

mod block_sizes;
#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
mod debug;
mod error;
mod location;
#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12")))]
mod memory;
mod report;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use block_sizes::AllocationSizes;
pub use debug::AllocatorDebugSettings;
pub use error::{AllocationError, Result};
pub use location::MemoryLocation;
#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12")))]
#[doc(hidden)]
pub use memory::allocators_created;
pub use report::{AllocationReport, AllocatorReport, MemoryBlockReport};
