//! Every refusal as a value that says what was asked, what there is, and what helps.

use core::error::Error;
use core::fmt;

use allotment_suballoc::MAX_SIZE;

use super::{Allocation, AllocationOptions, MemoryUsage, Pool};
use crate::device::{
    DeviceError, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask, ResourceKind,
    TransferUsage,
};

/// The name of what an error is about, as far as there is room for it: so errors need no host memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortName {
    /// UTF-8. Invariant: zeros from `len` on.
    bytes: [u8; Self::ROOM],
    len: u8,
}

impl ShortName {
    /// Where there is no name.
    pub const NONE: Self = Self { bytes: [0; Self::ROOM], len: 0 };

    const ROOM: usize = 47;

    /// As many characters of a name as there is room for.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut len = name.len().min(Self::ROOM);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; Self::ROOM];
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self { bytes, len: len as u8 }
    }

    /// The name as text; empty where there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It was cut between two characters.
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl Default for ShortName {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why an allocation was not made. Nothing has changed.
///
/// Where the request has a [name](AllocationOptions::with_name), the error that refuses it has it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationError {
    /// The size is 0. Ask for at least one byte.
    ZeroSize,
    /// The size is above 2^48 bytes, or above what one memory object of the device can have.
    TooLarge {
        /// Bytes asked for.
        size: u64,
        /// Bytes that can be had at most.
        limit: u64,
    },
    /// No memory type is allowed by the resource and can do what is asked. [`Allocator::explain`] says
    /// what each one lacks.
    ///
    /// [`Allocator::explain`]: super::Allocator::explain
    NoMemoryType {
        /// What the resource allows.
        allowed: MemoryTypeMask,
        /// What the memory was to be for.
        memory_usage: MemoryUsage,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// No memory type that the resource allows has the properties that the request requires beside its memory usage
    /// ([`AllocationOptions::required`](super::AllocationOptions::required)). Prefer them instead, or do without.
    NoTypeWithProperties {
        /// What the resource allows.
        allowed: MemoryTypeMask,
        /// What the request requires.
        required: MemoryProperties,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// The resource allows none of the pool's memory types. Allocate it elsewhere, or create the pool with another type.
    NotInPool {
        /// What the resource allows.
        allowed: MemoryTypeMask,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// It would take the heap beyond its budget, and the request asked to stay within. Free something, or
    /// do without.
    OverBudget {
        /// The heap.
        heap: MemoryHeapIndex,
        /// Bytes that the heap would have grown by.
        requested: u64,
        /// Bytes in use in the heap by this process.
        usage: u64,
        /// Bytes that the process should stay within.
        budget: u64,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// It would take the heap beyond the limit that the allocator was created with.
    HeapLimit {
        /// The heap.
        heap: MemoryHeapIndex,
        /// Bytes that the heap would have grown by.
        requested: u64,
        /// Bytes that the allocator has of the heap.
        reserved: u64,
        /// Bytes that it may have.
        limit: u64,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// The device can have no more memory objects. Share blocks: smaller resources, larger blocks.
    TooManyAllocations {
        /// How many it can have.
        limit: u32,
    },
    /// The driver has no more memory of this type to give.
    OutOfMemory {
        /// The memory type that was asked last.
        memory_type: MemoryTypeIndex,
        /// Bytes asked for.
        requested: u64,
        /// Bytes that the allocator has of the type's heap.
        reserved: u64,
        /// What the driver said.
        source: DeviceError,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// No room in the blocks that are there, and growing was forbidden.
    WouldGrow {
        /// Bytes asked for.
        requested: u64,
        /// Bytes that are free in the blocks that were looked at.
        free: u64,
        /// The largest range among them.
        largest_free: u64,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// The pool has as many blocks as it may have, and none has room.
    PoolFull {
        /// Bytes asked for.
        requested: u64,
        /// Blocks that the pool may have.
        max_blocks: u32,
        /// Bytes that are free in them.
        free: u64,
        /// The largest range among them.
        largest_free: u64,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// The request is larger than a block of the pool can be, and may not get memory of its own.
    TooLargeForBlock {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the largest block.
        block_size: u64,
        /// What was to be allocated, where the request has a name.
        name: ShortName,
    },
    /// The resource requires dedicated memory, and the request rules that out
    /// ([`Dedicated::Never`](super::Dedicated::Never)). Leave the choice to the allocator.
    DedicatedRequired,
    /// Memory of its own was asked for or is required, but the pool's blocks are of a fixed size.
    DedicatedInFixedPool,
    /// Buffers or images that the allocator created are in the pool. Destroy them before the pool is reset.
    ResourcesInPool {
        /// How many there are.
        count: u32,
    },
    /// [`Side::Upper`](crate::Side::Upper) was asked of a pool that is not linear.
    UpperSide,
    /// The pool belongs to another allocator.
    WrongPool,
    /// The driver refused for another reason than memory.
    Device(DeviceError),
}

impl AllocationError {
    /// What the error is about, where the request had a name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::NoMemoryType { name, .. }
            | Self::NoTypeWithProperties { name, .. }
            | Self::NotInPool { name, .. }
            | Self::OverBudget { name, .. }
            | Self::HeapLimit { name, .. }
            | Self::OutOfMemory { name, .. }
            | Self::WouldGrow { name, .. }
            | Self::PoolFull { name, .. }
            | Self::TooLargeForBlock { name, .. } => Some(name.as_str()).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// The same, about what a request wants.
    #[cold]
    pub(super) fn of(mut self, options: &AllocationOptions) -> Self {
        match &mut self {
            Self::NoMemoryType { name, .. }
            | Self::NoTypeWithProperties { name, .. }
            | Self::NotInPool { name, .. }
            | Self::OverBudget { name, .. }
            | Self::HeapLimit { name, .. }
            | Self::OutOfMemory { name, .. }
            | Self::WouldGrow { name, .. }
            | Self::PoolFull { name, .. }
            | Self::TooLargeForBlock { name, .. } => {
                *name = options.name.as_ref().map_or(ShortName::NONE, |name| ShortName::new(name.as_str()));
            }
            _ => {}
        }
        self
    }

    /// True where another memory type may still serve the request.
    pub(super) const fn falls_through(self) -> bool {
        matches!(
            self,
            Self::OverBudget { .. }
                | Self::HeapLimit { .. }
                | Self::OutOfMemory { .. }
                | Self::WouldGrow { .. }
                | Self::PoolFull { .. }
                | Self::TooLargeForBlock { .. }
        )
    }
}

impl fmt::Display for AllocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "{name:?}: ")?;
        }
        match self {
            Self::ZeroSize => write!(f, "an allocation of 0 bytes has no place"),
            Self::TooLarge { size, limit, .. } if *limit == MAX_SIZE => {
                write!(f, "{size} bytes are above the largest allocation of this library, {limit}")
            }
            Self::TooLarge { size, limit, .. } => {
                write!(f, "{size} bytes are above the device's limit maxMemoryAllocationSize of {limit}")
            }
            Self::NoMemoryType { allowed: MemoryTypeMask(0), .. } => {
                write!(f, "there is no memory type that both the resource and the request allow")
            }
            Self::NoTypeWithProperties { allowed, required, .. } => write!(
                f,
                "none of the memory types that the resource allows ({:#b}) is {required}, which the request requires",
                allowed.0
            ),
            Self::NotInPool { allowed, .. } => {
                write!(f, "the resource allows none of the pool's memory types, only these: {:#b}", allowed.0)
            }
            Self::NoMemoryType { allowed, memory_usage, .. } => write!(
                f,
                "none of the memory types that the resource allows ({:#b}) serves the memory usage \"{memory_usage}\"",
                allowed.0
            ),
            Self::OverBudget { heap, requested, usage, budget, .. } => write!(
                f,
                "{requested} bytes more would take heap {heap} beyond its budget: {usage} of {budget} are in use"
            ),
            Self::HeapLimit { heap, requested, reserved, limit, .. } => write!(
                f,
                "{requested} bytes more would take heap {heap} beyond the allocator's limit: {reserved} of {limit} are reserved"
            ),
            Self::TooManyAllocations { limit } => {
                write!(f, "the device can have no more than {limit} memory objects")
            }
            Self::OutOfMemory { memory_type, requested, reserved, .. } => write!(
                f,
                "the driver has no {requested} bytes of memory type {memory_type} left, {reserved} bytes of its heap are reserved"
            ),
            Self::WouldGrow { requested, free, largest_free, .. } => write!(
                f,
                "no room for {requested} bytes without growing: {free} are free, the largest range is {largest_free}"
            ),
            Self::PoolFull { requested, max_blocks, free, largest_free, .. } => write!(
                f,
                "no room for {requested} bytes in the pool's {max_blocks} blocks: {free} are free, the largest range is {largest_free}"
            ),
            Self::TooLargeForBlock { requested, block_size, .. } => {
                write!(
                    f,
                    "{requested} bytes do not fit a block of {block_size}, and memory of its own is ruled out"
                )
            }
            Self::DedicatedRequired => {
                write!(f, "the resource requires dedicated memory, which the request rules out")
            }
            Self::DedicatedInFixedPool => {
                write!(f, "a pool whose blocks have a fixed size gives no allocation memory of its own")
            }
            Self::ResourcesInPool { count } => {
                write!(f, "{count} buffers and images are in the pool, destroy them first")
            }
            Self::UpperSide => {
                write!(f, "the upper side exists only in a linear pool")
            }
            Self::WrongPool => write!(f, "the pool belongs to another allocator"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl Error for AllocationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::OutOfMemory { source, .. } => Some(source),
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

/// A token or a [`Buffer`](super::Buffer) that was given to an allocator that it is not from. It comes back
/// unharmed.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongAllocator<T = Allocation>(pub T);

impl<T> fmt::Display for WrongAllocator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the allocation belongs to another allocator")
    }
}

impl<T: fmt::Debug> Error for WrongAllocator<T> {}

/// Why memory was not read, written, mapped or looked at. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// The allocation belongs to another allocator.
    WrongAllocator,
    /// The allocation was freed since the id was taken.
    Stale,
    /// The CPU cannot reach this memory. Copy through memory that it can reach.
    NotHostVisible {
        /// The memory type.
        memory_type: MemoryTypeIndex,
    },
    /// The range does not lie in the allocation.
    OutOfRange {
        /// Where the range begins, in bytes.
        offset: u64,
        /// How long it is, in bytes.
        size: u64,
        /// Bytes of the allocation.
        available: u64,
    },
    /// Unmapped more often than mapped.
    NotMapped,
    /// The allocation is being moved, and what is written to it now would be lost; or its bytes are on their way to
    /// where it is. Write before the pass begins or after it ends, wait for
    /// [`copied_at`](super::DefragmentationStep::copied_at), or make the allocation pinned.
    Moving,
    /// The allocation was moved by a defragmentation pass, and the resource is still bound to its old place, which may be
    /// freed by now. Destroy the resource and create it again, or have its [`MovableSet`](super::MovableSet) move it.
    Moved,
    /// The buffer was not created to be copied from or to. Add the usage to its description
    /// (`VK_BUFFER_USAGE_TRANSFER_SRC_BIT`, `VK_BUFFER_USAGE_TRANSFER_DST_BIT`).
    MissingUsage {
        /// What its usage lacks.
        missing: TransferUsage,
    },
    /// A resource's place inside the allocation is not at a multiple of its alignment.
    Misaligned {
        /// The place in the memory object.
        offset: u64,
        /// The alignment in bytes.
        alignment: u64,
    },
    /// The memory was allocated for another kind of resource, and its neighbours may be too near for this
    /// one. Allocate it as [`ResourceKind::Unknown`](crate::ResourceKind::Unknown).
    WrongKind {
        /// What the memory was allocated for.
        allocated: ResourceKind,
        /// What was to stand there.
        wanted: ResourceKind,
    },
    /// The memory was made together with one resource and takes no other. Allocate memory by itself to
    /// place several resources in it.
    Exclusive,
    /// The device requires that the resource has dedicated memory, allocated for this resource alone, and this
    /// allocation is not. Create both together: [`create_buffer`](super::Allocator::create_buffer),
    /// [`create_image`](super::Allocator::create_image).
    DedicatedRequired,
    /// Other allocations are in the same memory object, and would be touched as well. Allocate with
    /// [`Dedicated::Always`](super::Dedicated::Always).
    NotAlone,
    /// A resource may not stand in memory of the allocation's type.
    WrongMemoryType {
        /// The memory type.
        memory_type: MemoryTypeIndex,
        /// What the resource allows.
        allowed: MemoryTypeMask,
    },
    /// The driver refused.
    Device(DeviceError),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongAllocator => write!(f, "the allocation belongs to another allocator"),
            Self::Stale => write!(f, "the allocation was freed before"),
            Self::NotHostVisible { memory_type } => {
                write!(f, "memory type {memory_type} cannot be mapped, copy through memory that can")
            }
            Self::OutOfRange { offset, size, available } => {
                write!(f, "{size} bytes at {offset} do not lie in the {available} bytes of the allocation")
            }
            Self::Moving => {
                write!(f, "the allocation is being moved by defragmentation, wait until that is over")
            }
            Self::Moved => write!(
                f,
                "defragmentation moved the allocation away from its resource, destroy the resource and create it again"
            ),
            Self::MissingUsage { missing } => {
                let direction = if missing.contains(TransferUsage::SRC) { "source" } else { "destination" };
                write!(f, "the buffer's usage lacks transfer {direction}, add it to the buffer's description")
            }
            Self::NotMapped => write!(f, "the allocation was unmapped more often than mapped"),
            Self::Misaligned { offset, alignment } => {
                write!(f, "offset {offset} of the memory is no multiple of {alignment}")
            }
            Self::WrongKind { allocated, wanted } => write!(
                f,
                "memory for {allocated:?} takes no {wanted:?} on this device, allocate it for ResourceKind::Unknown"
            ),
            Self::Exclusive => {
                write!(f, "the memory was made for one resource, allocate memory by itself to share it")
            }
            Self::DedicatedRequired => write!(
                f,
                "the resource requires memory that is dedicated to it, create both with create_buffer or create_image"
            ),
            Self::NotAlone => {
                write!(f, "other allocations are in the same memory, allocate it as Dedicated::Always")
            }
            Self::WrongMemoryType { memory_type, allowed } => {
                write!(
                    f,
                    "memory type {memory_type} is not among those that the resource allows ({:#b})",
                    allowed.0
                )
            }
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl Error for AccessError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DeviceError> for AccessError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// Why an allocator was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateAllocatorError {
    /// A block size is 0, no power of two, above 2^48, or the smallest is above the largest.
    BlockSizes {
        /// The smallest block size asked for, in bytes.
        smallest: u64,
        /// The largest.
        largest: u64,
    },
    /// The device has more than 32 memory types or 16 heaps, or a type names a heap that is not there.
    DeviceProperties,
    /// The process has created 2^32 - 1 allocators, and the number that tells their tokens apart is never used again.
    /// Keep an allocator for as long as its device.
    TooManyAllocators,
}

impl fmt::Display for CreateAllocatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockSizes { smallest, largest } => write!(
                f,
                "block sizes from {smallest} to {largest} are not an ascending pair of powers of two up to {MAX_SIZE}"
            ),
            Self::DeviceProperties => {
                write!(
                    f,
                    "the device describes more memory types or heaps than there can be, or a type without a heap"
                )
            }
            Self::TooManyAllocators => {
                write!(
                    f,
                    "the process has created as many allocators as 32 bits can number, keep one a device"
                )
            }
        }
    }
}

impl Error for CreateAllocatorError {}

/// Why a pool was not created. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreatePoolError {
    /// The pool names no memory type, or more than four.
    MemoryTypes {
        /// How many it names.
        count: usize,
    },
    /// The device has no such memory type, or the allocator was created without it
    /// ([`AllocatorDesc::memory_types`](super::AllocatorDesc::memory_types)).
    NoMemoryType {
        /// The memory type that the pool names.
        memory_type: MemoryTypeIndex,
    },
    /// The block size is 0 or above what one memory object can have.
    BlockSize {
        /// Bytes asked for.
        size: u64,
    },
    /// More blocks at least than at most.
    BlockCounts {
        /// Blocks at least.
        min: u32,
        /// Blocks at most.
        max: u32,
    },
    /// The blocks that the pool begins with could not be got.
    FirstBlocks(AllocationError),
}

impl fmt::Display for CreatePoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemoryTypes { count } => {
                write!(f, "a pool takes one to four of the device's memory types, not {count}")
            }
            Self::NoMemoryType { memory_type } => {
                write!(f, "the device has no memory type {memory_type} that the allocator may use")
            }
            Self::BlockSize { size } => write!(f, "a block cannot have {size} bytes"),
            Self::BlockCounts { min, max } => write!(f, "at least {min} blocks contradict at most {max}"),
            Self::FirstBlocks(error) => write!(f, "the pool's first blocks: {error}"),
        }
    }
}

impl Error for CreatePoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::FirstBlocks(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a pool was not destroyed. It comes back unharmed.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestroyPoolError {
    /// Allocations are still live in it. Free them, or [reset](super::Allocator::reset_pool) the pool.
    InUse {
        /// The pool.
        pool: Pool,
        /// How many allocations are live.
        allocations: u32,
    },
    /// The pool belongs to another allocator.
    WrongAllocator(Pool),
}

impl fmt::Display for DestroyPoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { allocations, .. } => {
                write!(f, "{allocations} allocations of the pool are live: free them or reset the pool")
            }
            Self::WrongAllocator(_) => f.write_str("the pool belongs to another allocator"),
        }
    }
}

impl Error for DestroyPoolError {}
