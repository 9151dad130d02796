//! The interface of the compared allocators.

mod allotment;
mod empty;
mod expandable;
mod gpu_allocator;
mod own_expandable;
#[cfg(test)]
mod tests;
mod vk_mem;

use core::fmt;

pub(crate) use allotment::Allotment;
pub(crate) use empty::Empty;
pub(crate) use expandable::ExpandableSegments;
pub(crate) use gpu_allocator::GpuAllocator;
pub(crate) use own_expandable::OwnExpandable;
pub(crate) use vk_mem::VkMem;

use crate::vulkan::Reading;

/// An allocator under test. Shared by the threads that use it.
pub(crate) trait Contender: Sync {
    /// The handle of an allocation, as users of the allocator keep it.
    type Token: Send;

    /// Returns its name in tables.
    fn name(&self) -> &'static str;

    /// Allocates memory.
    fn allocate(&self, request: &Request) -> Result<Self::Token, Refusal>;

    /// Frees memory.
    fn free(&self, token: Self::Token) -> Result<(), Refusal>;

    /// Ends a frame, for allocators with such a call.
    fn end_frame(&self) {}

    /// Returns its driver calls and bytes so far.
    fn reading(&self) -> Reading;
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Size in bytes.
    pub(crate) size: u64,
    /// Alignment in bytes, a power of two.
    pub(crate) alignment: u64,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
}

/// The kind of resource in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Buffer,
    /// Of optimal tiling.
    Image,
}

/// The memory usage. Each contender translates it to its own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read and written by the device only.
    Device,
    /// Written by the CPU, copied from by the device.
    Upload,
    /// Copied to by the device, read by the CPU.
    Readback,
    /// Written often by the CPU and read often by the device.
    DeviceUpload,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// The contender's default.
    Default,
    /// A fixed size in bytes, or the nearest one that the contender supports.
    Fixed(u64),
}

/// The error of a contender, in its own words.
#[derive(Debug)]
pub(crate) struct Refusal(Box<str>);

impl Refusal {
    #[cold]
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string().into_boxed_str())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
