//! What an allocator must be able to do to take part.

mod allotment;
mod empty;
mod gpu_allocator;
#[cfg(test)]
mod tests;
mod vk_mem;

use core::fmt;

pub(crate) use allotment::Allotment;
pub(crate) use empty::Empty;
pub(crate) use gpu_allocator::GpuAllocator;
pub(crate) use vk_mem::VkMem;

use crate::vulkan::Reading;

/// An allocator under test. Shared by the threads that use it.
pub(crate) trait Contender: Sync {
    /// What stands for an allocation, as the allocator's users keep it.
    type Token: Send;

    /// What tables call it.
    fn name(&self) -> &'static str;

    /// Allocates memory.
    fn allocate(&self, request: &Request) -> Result<Self::Token, Refusal>;

    /// Takes memory back.
    fn free(&self, token: Self::Token) -> Result<(), Refusal>;

    /// A frame has ended, for those who care.
    fn end_frame(&self) {}

    /// What it got from the driver so far.
    fn reading(&self) -> Reading;
}

/// An allocation that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes, a power of two.
    pub(crate) alignment: u64,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
}

/// What will stand in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Buffer,
    /// Of optimal tiling.
    Image,
}

/// What the memory is for. Each contender says it in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Only the device reads and writes it.
    Device,
    /// The CPU writes it, the device copies from it.
    Upload,
    /// The device copies to it, the CPU reads it.
    Readback,
    /// The CPU writes it often and the device reads it often.
    DeviceUpload,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// As the contender comes.
    Default,
    /// All of this many bytes, or as near to it as the contender can.
    Fixed(u64),
}

/// Why a contender did not do what it was asked for; in its words, for people.
#[derive(Debug)]
pub(crate) struct Refusal(Box<str>);

impl Refusal {
    #[cold]
    fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string().into_boxed_str())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
