//! Errors of the allocator. Each says what was requested, what is available, and what helps.

use core::error::Error;
use core::fmt;

use allotment_suballoc::MAX_SIZE;

use crate::device::{
    AddressError, DeviceError, MemoryHeapIndex, MemoryProperties, MemoryTypeIndex, MemoryTypeMask,
    QueueIndex, ResourceKind, TransferUsage,
};
use crate::memory::name_in_error;
use crate::memory::{Allocation, MemoryUsage, OtherName, ShortName};

/// Why an allocation was not made. Nothing has changed.
///
/// Where the request has a [name](crate::AllocationOptions::with_name), the error has it too.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("integrated").unwrap());
/// use allotment::{AllocationError, memory::BudgetPolicy};
/// # device.set_budget(allotment::device::MemoryHeapIndex(0), 64 << 20);
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
///
/// let options = MemoryUsage::GpuOnly.with_name("sky").with_budget(BudgetPolicy::WithinBudget);
/// let sky = match allocator.allocate(&Requirements::new(96 << 20), &options) {
///     Err(AllocationError::OverBudget { requested, usage, budget, .. }) => {
///         println!("{requested} more than {usage} of {budget} bytes: the sky at half the size");
///         allocator.allocate(&Requirements::new(24 << 20), &options)?
///     }
///     other => other?,
/// };
/// assert_eq!(allocator.statistics().allocation_bytes, 24 << 20);
/// # allocator.free(sky)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationError {
    /// The size is 0. Ask for at least one byte.
    ZeroSize {
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The size is above 2^48 bytes, or above what one memory object of the device can have
    /// ([`Limits::max_allocation_size`](crate::device::Limits::max_allocation_size)).
    TooLarge {
        /// Bytes asked for.
        size: u64,
        /// The most bytes that can be requested.
        limit: u64,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// A piece of an [expandable buffer](crate::memory::ExpandableBuffer) would have more bytes than the largest heap that its memory
    /// may come from.
    TooLargeForHeap {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of that heap.
        heap_size: u64,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// No memory type that the resource allows serves the usage. [`Allocator::explain`] says what each one lacks.
    ///
    /// [`Allocator::explain`]: crate::memory::Allocator::explain
    NoMemoryType {
        /// Memory types that the resource allows.
        allowed: MemoryTypeMask,
        /// Usage of the request.
        memory_usage: MemoryUsage,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// No memory type that the resource allows has the properties that the request requires beside its memory usage
    /// ([`AllocationOptions::required`](crate::memory::AllocationOptions::required)). Prefer them instead, or do
    /// without.
    NoTypeWithProperties {
        /// Memory types that the resource allows.
        allowed: MemoryTypeMask,
        /// Properties that the request requires.
        required: MemoryProperties,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The resource allows none of the pool's memory types. Allocate it elsewhere, or create the pool with another
    /// type.
    NotInPool {
        /// Memory types that the resource allows.
        allowed: MemoryTypeMask,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The allocation would take the heap over its budget, and the request has
    /// [`BudgetPolicy::WithinBudget`](crate::memory::BudgetPolicy::WithinBudget). Free something, or do without.
    OverBudget {
        /// The heap.
        heap: MemoryHeapIndex,
        /// Bytes that the heap would have grown by.
        requested: u64,
        /// Bytes in use in the heap by this process.
        usage: u64,
        /// The process's budget of the heap, in bytes.
        budget: u64,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The allocation would take the heap beyond the limit that the allocator was created with.
    HeapLimit {
        /// The heap.
        heap: MemoryHeapIndex,
        /// Bytes that the heap would have grown by.
        requested: u64,
        /// Bytes of the heap that the allocator has reserved.
        reserved: u64,
        /// The limit in bytes.
        limit: u64,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The device can have no more memory objects. Share blocks: smaller resources, larger blocks.
    TooManyAllocations {
        /// How many it can have.
        limit: u32,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The driver refused memory of this type.
    OutOfMemory {
        /// The memory type that was tried last.
        memory_type: MemoryTypeIndex,
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the type's heap that the allocator has reserved.
        reserved: u64,
        /// The driver's error.
        source: DeviceError,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// Existing blocks have no room, and the request has
    /// [`NewBlocks::NeverAllocate`](crate::memory::NewBlocks::NeverAllocate).
    WouldGrow {
        /// Bytes asked for.
        requested: u64,
        /// Free bytes in the blocks that were searched.
        free: u64,
        /// Largest free range among them, in bytes.
        largest_free: u64,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The pool has its maximum of blocks, and none has room.
    PoolFull {
        /// Bytes asked for.
        requested: u64,
        /// The pool's maximum of blocks.
        max_blocks: u32,
        /// Free bytes in them.
        free: u64,
        /// Largest free range among them, in bytes.
        largest_free: u64,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// An [expandable buffer](crate::memory::ExpandableBuffer) has no range of addresses for the piece. Create it with more.
    NoAddresses {
        /// Bytes asked for.
        requested: u64,
        /// Free bytes of addresses.
        free: u64,
        /// Largest free range among them, in bytes.
        largest_free: u64,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// The request exceeds the block size, and dedicated memory is disabled for it.
    TooLargeForBlock {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the largest block.
        block_size: u64,
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The resource requires dedicated memory, and the request rules that out
    /// ([`Dedicated::Never`](crate::memory::Dedicated::Never)). Leave the choice to the allocator.
    DedicatedRequired {
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The allocation needs dedicated memory, but the pool's blocks have a fixed size. Allocate it outside the pool, or
    /// create the pool without a block size.
    DedicatedInFixedPool {
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// Buffers or images that the allocator created are in the pool. Destroy them before the pool is reset.
    ResourcesInPool {
        /// How many there are.
        count: u32,
        /// Name of the pool, if it has one.
        name: ShortName,
    },
    /// The request has [`StackSide::Upper`](crate::memory::StackSide::Upper), and the pool is not linear.
    UpperSide {
        /// Name of the request, if it has one.
        name: ShortName,
    },
    /// The pool belongs to another allocator. Create one with this allocator.
    WrongPool {
        /// Name of the request; where the call was about the pool alone, of the pool.
        name: ShortName,
    },
    /// The driver refused for another reason than memory.
    Device {
        /// The driver's error.
        source: DeviceError,
        /// Name of the request, if it has one.
        name: ShortName,
    },
}

name_in_error!(
    AllocationError,
    own: [
        ZeroSize, TooLarge, TooLargeForHeap, NoMemoryType, NoTypeWithProperties, NotInPool, OverBudget, HeapLimit, TooManyAllocations,
        OutOfMemory, WouldGrow, PoolFull, NoAddresses, TooLargeForBlock, DedicatedRequired, DedicatedInFixedPool, ResourcesInPool,
        UpperSide, WrongPool, Device
    ],
    inner: []
);

impl AllocationError {
    /// True when another memory type may still serve the request.
    pub(crate) const fn falls_through(self) -> bool {
        // What is left out holds for every memory type: a mistake in the request, a lost device. At the limit of memory
        // objects, which holds for all heaps together, the blocks of another type may have room; and where memory cannot
        // be mapped, that of another type may be, or need not be.
        self.is_for_want_of_memory()
            || self.is_of_mapping()
            || matches!(self, Self::WouldGrow { .. } | Self::PoolFull { .. } | Self::TooLargeForBlock { .. })
    }

    /// True when the driver could not map memory.
    pub(crate) const fn is_of_mapping(self) -> bool {
        matches!(self, Self::Device { source: DeviceError::MapFailed, .. })
    }

    /// Returns the size of the memory object that the driver, a limit or the budget has refused; `None` where no size
    /// would do.
    pub(in crate::memory) const fn refused_bytes(self, at_last: bool) -> Option<u64> {
        match self {
            Self::OverBudget { requested, .. }
            | Self::HeapLimit { requested, .. }
            | Self::OutOfMemory { requested, .. } => Some(requested),
            // Of what size it was, the remembered refusal knows. Smaller memory may be mapped, but that of another type
            // rather.
            Self::Device { source: DeviceError::MapFailed, .. } if at_last => Some(u64::MAX),
            _ => None,
        }
    }

    /// True when the driver, a limit or the budget has refused a memory object.
    pub(in crate::memory) const fn is_for_want_of_memory(self) -> bool {
        matches!(
            self,
            Self::OverBudget { .. }
                | Self::HeapLimit { .. }
                | Self::OutOfMemory { .. }
                | Self::TooManyAllocations { .. }
        )
    }
}

impl fmt::Display for AllocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "{name:?}: ")?;
        }
        match self {
            Self::ZeroSize { .. } => write!(f, "allocation size is 0 bytes, ask for at least 1"),
            Self::TooLarge { size, limit, .. } if *limit == MAX_SIZE => {
                write!(f, "{size} bytes exceed the largest allocation of this library, {limit} bytes")
            }
            Self::TooLarge { size, limit, .. } => {
                write!(
                    f,
                    "{size} bytes exceed what the device allows for one resource, {limit} bytes (`maxMemoryAllocationSize`), divide it"
                )
            }
            Self::TooLargeForHeap { requested, heap_size, .. } => {
                write!(
                    f,
                    "{requested} bytes exceed the largest heap that the buffer's memory may come from, {heap_size} bytes, divide it"
                )
            }
            Self::NoMemoryType { allowed: MemoryTypeMask(0), .. } => {
                write!(
                    f,
                    "no memory type is allowed by both the resource and the request, allow more in `memory_types`"
                )
            }
            Self::NoTypeWithProperties { allowed, required, .. } => write!(
                f,
                "none of the memory types that the resource allows ({:#b}) is {required}, which the request requires: prefer it instead, or do without",
                allowed.0
            ),
            Self::NotInPool { allowed, .. } => {
                write!(
                    f,
                    "the resource allows none of the pool's memory types, only these: {:#b}; create the pool with one of them, or allocate outside",
                    allowed.0
                )
            }
            Self::NoMemoryType { allowed, memory_usage, .. } => write!(
                f,
                "none of the memory types that the resource allows ({:#b}) serves the memory usage \"{memory_usage}\", choose another usage, or see `Allocator::explain`",
                allowed.0
            ),
            Self::OverBudget { heap, requested, usage, budget, .. } => write!(
                f,
                "{requested} more bytes would exceed the budget of heap {heap}: {usage} of {budget} bytes are in use; free something, or allow it with BudgetPolicy::AllowOverBudget"
            ),
            Self::HeapLimit { heap, requested, reserved, limit, .. } => write!(
                f,
                "{requested} more bytes would exceed the allocator's limit for heap {heap}: {reserved} of {limit} bytes are reserved; free something, or raise the limit"
            ),
            Self::TooManyAllocations { limit, .. } => write!(
                f,
                "the limit of {limit} memory objects or allocations is reached; free something, or share larger blocks"
            ),
            Self::OutOfMemory { memory_type, requested, reserved, .. } => write!(
                f,
                "out of device memory: the driver refused {requested} bytes of memory type {memory_type}, {reserved} bytes of its heap are reserved; free something"
            ),
            Self::WouldGrow { requested, free, largest_free, .. } => write!(
                f,
                "no room for {requested} bytes in existing blocks, and new blocks are disabled: {free} bytes are free, the largest range is {largest_free} bytes; free something, or allow new blocks"
            ),
            Self::PoolFull { requested, max_blocks, free, largest_free, .. } => write!(
                f,
                "no room for {requested} bytes in the pool, which has its maximum of {max_blocks} blocks: {free} bytes are free, the largest range is {largest_free} bytes; free something, or raise the maximum"
            ),
            Self::NoAddresses { requested, free, largest_free, .. } => write!(
                f,
                "no addresses for {requested} bytes in the buffer: {free} bytes are free, the largest range is {largest_free} bytes; create it with more, or drop pieces"
            ),
            Self::TooLargeForBlock { requested, block_size, .. } => {
                write!(
                    f,
                    "{requested} bytes exceed the block size of {block_size} bytes, and dedicated memory is disabled: choose larger blocks, or allocate elsewhere"
                )
            }
            Self::DedicatedRequired { .. } => write!(
                f,
                "the resource requires dedicated memory, and Dedicated::Never disables it: choose Dedicated::Automatic"
            ),
            Self::DedicatedInFixedPool { .. } => write!(
                f,
                "a pool with a fixed block size has no dedicated memory, allocate it outside the pool"
            ),
            Self::ResourcesInPool { count, .. } => {
                write!(
                    f,
                    "the pool cannot be reset with {count} live buffers or images in it, destroy them first"
                )
            }
            Self::UpperSide { .. } => {
                write!(f, "StackSide::Upper is for linear pools only, create one with Algorithm::Linear")
            }
            Self::WrongPool { .. } => {
                write!(f, "the pool belongs to another allocator, create one with this allocator")
            }
            Self::Device { source, .. } => source.fmt(f),
        }
    }
}

impl Error for AllocationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::OutOfMemory { source, .. } | Self::Device { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<DeviceError> for AllocationError {
    fn from(source: DeviceError) -> Self {
        Self::Device { source, name: ShortName::NONE }
    }
}

/// A token, such as an [`Allocation`] or a [`RawBuffer`](crate::memory::RawBuffer), was given to another allocator than
/// the one that made it. The error returns the token unchanged.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::WrongAllocator;
///
/// let other = Allocator::new(allocator.device().clone(), AllocatorDesc::default())?;
/// let mesh = other.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.into())?;
/// if let Err(WrongAllocator(mesh)) = allocator.destroy_buffer(mesh) {
///     other.destroy_buffer(mesh)?;
/// }
/// assert_eq!(other.statistics().allocations, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct WrongAllocator<T = Allocation>(pub T);

impl<T> fmt::Display for WrongAllocator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the allocation belongs to another allocator")
    }
}

impl<T: fmt::Debug> Error for WrongAllocator<T> {}

/// Why an allocation was not read, written, mapped or queried. Nothing has changed.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::{AccessError, Transfer};
///
/// let mesh = allocator.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// match allocator.write(mesh.allocation(), 0, &[7; 256]) {
///     // The CPU cannot map video memory here: a queue copies.
///     Err(AccessError::NotHostVisible { .. }) => {
///         Transfer::new(&allocator, QueueIndex(0), 4096)?.upload_to(&mesh, 0, &[7; 256])?;
///     }
///     other => other?,
/// }
/// # allocator.destroy_buffer(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// The allocation belongs to another allocator.
    WrongAllocator {
        /// Name of the resource, if it has one; tokens of another allocator have none here.
        name: ShortName,
    },
    /// The allocation was freed since the id was taken.
    Stale,
    /// The CPU cannot map memory of this type. Copy through memory that it can map.
    NotHostVisible {
        /// The memory type.
        memory_type: MemoryTypeIndex,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The range does not lie in the allocation.
    OutOfRange {
        /// Start of the range, in bytes.
        offset: u64,
        /// Size of the range, in bytes.
        size: u64,
        /// Size of the allocation, in bytes.
        available: u64,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// Some of the bytes are of no piece of the [expandable buffer](crate::memory::ExpandableBuffer): they may have no memory, or
    /// lose it at any time. Use the bytes of a piece.
    OfNoPiece {
        /// Start of the range, in bytes.
        offset: u64,
        /// Size of the range, in bytes.
        size: u64,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// The allocation was unmapped more often than mapped.
    NotMapped {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// Defragmentation is moving the allocation. Of a token, a pass is open, and bytes that are written now would be lost:
    /// write before the pass begins or after it ends. Of a [`Buffer`](crate::memory::Buffer), a queue has not yet copied
    /// its bytes to the new location: wait for
    /// [`Defragmenter::copied_at`](crate::memory::Defragmenter::copied_at), from which on the CPU can access them. Or make
    /// the allocation pinned.
    Moving {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// A defragmentation pass moved the allocation, and the resource is still bound to the old location, which may be
    /// freed already. Give it its [new handle](crate::Allocator::set_handle), destroy it and create it again, or
    /// have its [`Defragmenter`](crate::memory::Defragmenter) move it.
    Moved {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// A new handle came for a resource whose memory no pass has moved since it got its handle. Set it once, after the
    /// pass has ended.
    NotMoved {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The bytes of the resource, which is [placed](crate::memory::Memory), belong to another one that is placed there.
    /// [Activate](crate::memory::Resource::activate) it first, and record the barrier.
    Inactive {
        /// Name of the active one, if it has one; empty too where none is active.
        active: OtherName,
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The resource is [transient](crate::gpu::TransientHeap): within each frame its bytes belong to others as well, by the plan of
    /// the frame. Copy it with commands of a pass that uses it.
    Transient {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The resource was [activated](crate::memory::Resource::activate), and the GPU may still use its bytes for one to which they
    /// belonged before. The program's own commands may use it; the library writes to it once every recording that was open at the
    /// activation, and everything that was submitted by then, has completed: in a later frame.
    Unsettled {
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The resource cannot be activated: uploads to another one are on their way, to bytes of both. Submit the uploads first. For
    /// what is [streamed](crate::upload::UploadHandle::streamed), wait for its handle. An exclusive resource that a queue of another family wrote is also handed over first: by the next
    /// submission to a queue of the family that uses it, as a frame makes it.
    BeingWritten {
        /// Name of the other one, if it has one.
        other: OtherName,
        /// Name of the resource, if it has one.
        name: ShortName,
    },
    /// The buffer was not created to be copied from or to. Add the usage to its description
    /// (`VK_BUFFER_USAGE_TRANSFER_SRC_BIT`, `VK_BUFFER_USAGE_TRANSFER_DST_BIT`).
    MissingUsage {
        /// The usages that are missing.
        missing: TransferUsage,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The buffer has no [device address](crate::memory::Buffer::device_address).
    NoAddress {
        /// Why not, and what to do.
        reason: AddressError,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// The buffer is exclusive to one queue family at a time (`VK_SHARING_MODE_EXCLUSIVE`), which is taken to be that of the
    /// first graphics queue, and the copy would run on a queue of another one: its bytes would be undefined. Copy on a queue of
    /// that family, or share the buffer among all ([`SharingMode::Concurrent`](crate::device::SharingMode::Concurrent)).
    OtherFamily {
        /// The queue of the copy.
        queue: QueueIndex,
        /// Name of the buffer, if it has one.
        name: ShortName,
    },
    /// The offset of a resource inside the allocation is not a multiple of its alignment.
    Misaligned {
        /// The offset in the memory object.
        offset: u64,
        /// The alignment in bytes.
        alignment: u64,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The memory was allocated for another kind of resource, and its neighbours may be closer than the
    /// `bufferImageGranularity` of the device. Allocate it as [`ResourceKind::Unknown`](crate::ResourceKind::Unknown).
    WrongKind {
        /// The kind that the memory was allocated for.
        allocated: ResourceKind,
        /// The kind of the resource.
        wanted: ResourceKind,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The memory was allocated together with one resource, and no other can be bound to it. Allocate memory by
    /// itself to bind several resources to it.
    Exclusive {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The device requires dedicated memory for the resource, and this allocation was not made for the resource.
    /// Create both together: [`create_buffer`](crate::memory::Allocator::create_buffer),
    /// [`create_image`](crate::memory::Allocator::create_image).
    DedicatedRequired {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// Other allocations share the memory object, and the call would affect them. Allocate with
    /// [`Dedicated::Always`](crate::memory::Dedicated::Always).
    NotDedicated {
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The resource cannot be bound to memory of the allocation's type.
    WrongMemoryType {
        /// The memory type.
        memory_type: MemoryTypeIndex,
        /// Memory types that the resource allows.
        allowed: MemoryTypeMask,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
    /// The driver refused.
    Device {
        /// The driver's error.
        source: DeviceError,
        /// Name of the allocation, if it has one.
        name: ShortName,
    },
}

name_in_error!(
    AccessError,
    own: [
        WrongAllocator, OtherFamily, NotHostVisible, OutOfRange, OfNoPiece, NotMapped, Moving, Moved, NotMoved, Inactive, Transient,
        Unsettled, BeingWritten, MissingUsage, NoAddress, Misaligned, WrongKind, Exclusive,
        DedicatedRequired, NotDedicated, WrongMemoryType, Device
    ],
    inner: []
);

/// What is done before an activation.
const FIRST: &str = "submit them first; wait for the handle of what is streamed, and hand an exclusive resource over by a submission to the queue that uses it";

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "{name:?}: ")?;
        }
        match self {
            Self::WrongAllocator { .. } => {
                write!(f, "the allocation belongs to another allocator, call the one that made it")
            }
            Self::Stale => write!(f, "the allocation was freed before"),
            Self::NotHostVisible { memory_type, .. } => {
                write!(
                    f,
                    "the CPU cannot map memory type {memory_type}: upload the bytes, or choose MemoryUsage::Upload or Readback"
                )
            }
            Self::OutOfRange { offset, size, available, .. } => {
                write!(
                    f,
                    "{size} bytes at offset {offset} exceed its {available} bytes, use fewer, or a lower offset"
                )
            }
            Self::OfNoPiece { offset, size, .. } => {
                write!(
                    f,
                    "some of the {size} bytes at offset {offset} are of no piece of the buffer, use those of a piece"
                )
            }
            Self::Moving { .. } => {
                write!(f, "the allocation is being moved by defragmentation, wait until that is over")
            }
            Self::Moved { .. } => write!(
                f,
                "defragmentation moved the allocation away from its resource: set its new handle, or create it again"
            ),
            Self::NotMoved { .. } => {
                write!(
                    f,
                    "no pass has moved the allocation since its resource got its handle: set a new handle once, after the pass"
                )
            }
            Self::Inactive { active, .. } => match active.get() {
                Some(active) => write!(f, "its bytes belong to {active:?}, activate it first"),
                None => write!(f, "it is not active in the memory that it is placed in, activate it first"),
            },
            Self::Transient { .. } => write!(
                f,
                "it is transient, and shares its bytes within a frame: copy it with commands of a pass that uses it"
            ),
            Self::Unsettled { .. } => write!(
                f,
                "it was activated, and the GPU may still use its bytes for another resource: wait until the work that was recorded by then is complete"
            ),
            Self::BeingWritten { other, .. } => match other.get() {
                Some(other) => {
                    write!(f, "uploads to {other:?} are on their way to the same bytes, {FIRST}")
                }
                None => write!(f, "uploads are on their way to the same bytes, {FIRST}"),
            },
            Self::MissingUsage { missing, .. } => {
                write!(f, "the buffer was created without {missing}, add the usage to its description")
            }
            Self::NoAddress { reason, .. } => write!(f, "the buffer has no device address: {reason}"),
            Self::OtherFamily { queue, .. } => write!(
                f,
                "the buffer is exclusive to the family of the first graphics queue, and queue {} is of another one: copy on a graphics queue, or create the buffer with concurrent sharing",
                queue.0
            ),
            Self::NotMapped { .. } => write!(
                f,
                "the allocation was unmapped more often than mapped, call `map` before each `unmap`"
            ),
            Self::Misaligned { offset, alignment, .. } => {
                write!(
                    f,
                    "offset {offset} in the memory object is not a multiple of the alignment of {alignment} bytes"
                )
            }
            Self::WrongKind { allocated, wanted, .. } => write!(
                f,
                "memory for {allocated:?} cannot be bound to {wanted:?} on this device, allocate it for ResourceKind::Unknown"
            ),
            Self::Exclusive { .. } => {
                write!(f, "the memory was allocated for one resource, allocate memory by itself to share it")
            }
            Self::DedicatedRequired { .. } => write!(
                f,
                "the resource requires dedicated memory, create both with create_buffer or create_image"
            ),
            Self::NotDedicated { .. } => {
                write!(f, "other allocations share the memory object, allocate with Dedicated::Always")
            }
            Self::WrongMemoryType { memory_type, allowed, .. } => {
                write!(
                    f,
                    "memory type {memory_type} is not allowed by the resource's memory type bits ({:#b}), allocate in one of them",
                    allowed.0
                )
            }
            Self::Device { source, .. } => source.fmt(f),
        }
    }
}

impl Error for AccessError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device { source, .. } => Some(source),
            Self::NoAddress { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

impl From<DeviceError> for AccessError {
    fn from(source: DeviceError) -> Self {
        Self::Device { source, name: ShortName::NONE }
    }
}

/// Why an allocator was not created.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// use allotment::memory::CreateAllocatorError;
/// use allotment::memory::blocks::BlockSizes;
///
/// let mut desc = AllocatorDesc::default();
/// desc.block_sizes = BlockSizes::fixed(1000);
/// let refused = Allocator::new(device, desc).err();
/// assert_eq!(refused, Some(CreateAllocatorError::BlockSizes { smallest: 1000, largest: 1000 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateAllocatorError {
    /// [`AllocatorDesc::block_sizes_of_types`](crate::memory::AllocatorDesc::block_sizes_of_types) names a memory type
    /// that the device does not have.
    NoSuchMemoryType {
        /// The memory type.
        memory_type: MemoryTypeIndex,
    },
    /// A block size is 0, no power of two, above 2^48, or the smallest is above the largest.
    BlockSizes {
        /// The smallest block size asked for, in bytes.
        smallest: u64,
        /// The largest.
        largest: u64,
    },
    /// The device reports more than 32 memory types or 16 heaps, or a memory type of a heap that does not exist.
    DeviceProperties,
    /// The process has created 2^32 - 1 allocators, and their ids are never reused. Keep an allocator for as long as
    /// its device.
    TooManyAllocators,
}

impl fmt::Display for CreateAllocatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchMemoryType { memory_type } => {
                write!(
                    f,
                    "block sizes are given for memory type {memory_type}, which the device does not have"
                )
            }
            Self::BlockSizes { smallest, largest } => write!(
                f,
                "block sizes from {smallest} to {largest} bytes are not an ascending pair of powers of two up to {MAX_SIZE} bytes"
            ),
            Self::DeviceProperties => {
                write!(
                    f,
                    "the device reports too many memory types or heaps, or a memory type without a heap"
                )
            }
            Self::TooManyAllocators => {
                write!(f, "the process has created 2^32 - 1 allocators, keep one per device")
            }
        }
    }
}

impl Error for CreateAllocatorError {}
