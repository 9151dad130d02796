//! Memory for a resource that the application created itself, for backends whose API can do that.

#[cfg(feature = "vulkan")]
mod bind;
#[cfg(all(feature = "d3d12", windows))]
pub(crate) mod d3d12;
#[cfg(feature = "vulkan")]
pub(crate) mod vulkan;

/// Implemented by allocators only, so that a trait of theirs can get more methods.
pub trait Sealed {}
