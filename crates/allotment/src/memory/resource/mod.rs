//! Buffers and images together with their memory: both, or neither.
//!
//! | file | what it is |
//! |---|---|
//! | `class.rs` | the functions of the device that differ between buffers and images |
//! | `create.rs` | creation and destruction of tokens ([`RawBuffer`], [`RawImage`]) |
//! | `created_with_memory.rs` | resources that are created together with dedicated memory |
//! | `placed.rs` | [`Memory`] that resources are placed in, beside or over each other |
//! | `group.rs` | memory for several resources that do not overlap |
//! | `aliasing.rs` | the same with bare handles, for code that destroys them itself |
//! | `deferred.rs` | [`Buffer`] and [`Image`], which are destroyed once they are dropped and the GPU is done with them |
//! | `image_states.rs` | the states of an image's subresources, as far as they are known |
//! | `unique.rs` | owners that destroy at once when they are dropped |
//! | `owning_allocator.rs` | the allocator together with a deletion queue |
//! | `pieces.rs` | small buffers that are pieces of larger ones |
//! | `expandable.rs`, `expandable/pages.rs` | the same of a buffer whose memory grows and shrinks page by page; its pages |
//! | `mapped` | buffers that the CPU writes and reads by a pointer |
//! | `moved.rs` | new handles of resources whose memory a pass moved |
//! | `transfer.rs` | copies of bytes to and from buffers by a queue, at once |

mod aliasing;
mod class;
mod create;
mod created_with_memory;
mod deferred;
mod error;
#[cfg(any(feature = "vulkan", all(feature = "d3d12", windows)))]
mod existing;
mod expandable;
mod group;
mod image_states;
mod mapped;
mod moved;
mod owning_allocator;
mod pieces;
mod placed;
mod relocation;
mod transfer;
mod unique;

use core::fmt::Debug;
use core::ops::Range;
use std::sync::Arc;

use self::class::ImageFacts;
use super::AccessError;
use super::allocator::check_range;
use super::token::Allocation;
use crate::device::{
    AddressError, BufferDevice, BufferViewUses, Device, ImageDevice, ImageShape, ImageViewSupport,
    QueueIndex, TransferUsage, is_of_home_family,
};
use crate::memory::ShortName;

// For programs: buffers and images, what owns them, and copies to and from them.
pub use self::class::{BufferOrImage, Buffers, Images};
pub use self::created_with_memory::WithMemoryOptions;
pub use self::deferred::{Buffer, Image, Resource};
pub use self::error::ResourceError;
pub use self::expandable::{ExpandableBuffer, ExpandableStatistics};
pub use self::group::GroupError;
pub use self::mapped::MappedBuffer;
pub use self::owning_allocator::OwningAllocator;
pub use self::pieces::{BufferPiece, BufferPieces, PieceStatistics};
pub use self::placed::Memory;
pub use self::transfer::{Transfer, TransferError};
pub use self::unique::{Allocations, OwnedAllocation, Unique};

// For programs: resources that are moved, which `defragmentation` names.
pub use self::relocation::{
    AcceptedMove, DefragmentationStep, Defragmenter, DefragmenterDesc, MakingRoom, StepOutcome,
};

// Resources that a program created itself, by API.
#[cfg(all(feature = "d3d12", windows))]
pub(super) use self::existing::d3d12;
#[cfg(feature = "vulkan")]
pub(super) use self::existing::vulkan;

// For the layers above: descriptors that follow moves, and the room that a `Gpu` makes.
pub(crate) use self::image_states::{
    SharedStates, SubresourceState, Subresources, begin_copying, begin_staging,
};
pub(crate) use self::relocation::{CellKey, Follower, Following, NewHandle, NewPlace, RoomOfGpu};

use self::class::Class;
use self::unique::Kind;

/// A resource and the memory that it is bound to, as a token: dropping it leaks both. Destroy both together, by
/// [`destroy_buffer`](crate::Allocator::destroy_buffer) or [`destroy_image`](crate::Allocator::destroy_image).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// let mesh = allocator.create_buffer(&BufferDesc::new(1000), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// println!("{:?} of {} bytes", mesh.handle(), mesh.size());
/// println!("at byte {} of its block", allocator.location(mesh.allocation())?.offset);
/// allocator.destroy_buffer(mesh)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Resource")]
#[derive(Debug)]
#[must_use = "a resource and its memory are freed by giving it back to its allocator"]
pub struct RawResource<H> {
    // Not public: only resources of the allocator's own device may be destroyed by it, and only once.
    handle: H,
    size: u64,
    /// What copies of an image's texels and its views are checked against; none for a buffer.
    facts: Option<Arc<ImageFacts>>,
    /// Copies that safe calls may submit with the buffer; none for an image.
    transfer_usage: TransferUsage,
    /// What shaders may see a buffer as; nothing for an image.
    view_uses: BufferViewUses,
    /// All queues may use it without a transfer of ownership.
    shared: bool,
    /// Why it has no device address; `None` if it has one.
    no_address: Option<AddressError>,
    allocation: Allocation,
    /// What is bound to a reserved buffer, besides the allocation: kept until the buffer is destroyed. `None` for resources that
    /// are bound to the allocation alone.
    ranges: Option<Arc<Box<dyn BoundRanges>>>,
}

/// The memory of a reserved buffer. Boxed, so that tokens of all others have one word for it.
trait BoundRanges: Debug + Send + Sync {
    /// Returns whether somebody has a piece in each page that these bytes are in, and memory is bound to it.
    fn are_in_use(&self, bytes: Range<u64>) -> bool;
    /// Keeps memory bound to these bytes until the result is dropped; `None` if they are not in use. For copies that no recording
    /// keeps anything for.
    fn hold(&self, bytes: Range<u64>) -> Option<Box<dyn Send>>;
}

fn of_no_piece(offset: u64, size: u64) -> AccessError {
    AccessError::OfNoPiece { offset, size, name: ShortName::NONE }
}

impl<H: Clone> RawResource<H> {
    /// Returns another token of the resource, which is only lent: it frees nothing.
    fn borrowed(&self) -> Self {
        let Allocation { allocator, pool, record, generation } = self.allocation;
        let allocation = Allocation { allocator, pool, record, generation };
        let (handle, facts) = (self.handle.clone(), self.facts.clone());
        let &Self { size, transfer_usage, view_uses, shared, no_address, .. } = self;
        let ranges = self.ranges.clone();
        Self { handle, size, facts, transfer_usage, view_uses, shared, no_address, allocation, ranges }
    }
}

impl<H> RawResource<H> {
    /// Returns the API's handle. Never destroy it without its memory.
    #[doc(alias = "GetResource")]
    pub fn handle(&self) -> &H {
        &self.handle
    }

    /// Returns the size in bytes: of a buffer, as described; of an image, of its memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the memory.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Returns whether memory is bound to ranges of the resource, which the CPU does not reach.
    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.is_some()
    }

    /// Refuses bytes that the resource, whose allocation has `allocated` bytes, does not have, or that have no memory.
    pub(crate) fn check_bytes(&self, offset: u64, size: u64, allocated: u64) -> Result<(), AccessError> {
        let Some(ranges) = &self.ranges else {
            // A buffer may be smaller than its allocation.
            return check_range(offset, size, self.size.min(allocated));
        };
        check_range(offset, size, self.size)?;
        let in_use = size == 0 || ranges.are_in_use(offset..offset + size);
        if in_use { Ok(()) } else { Err(of_no_piece(offset, size)) }
    }

    /// Does what [`check_bytes`](Self::check_bytes) does, and keeps memory that is bound to ranges where it is until the result is
    /// dropped.
    pub(crate) fn hold_bytes(
        &self,
        offset: u64,
        size: u64,
        allocated: u64,
    ) -> Result<Option<Box<dyn Send>>, AccessError> {
        let Some(ranges) = &self.ranges else {
            return self.check_bytes(offset, size, allocated).map(|()| None);
        };
        check_range(offset, size, self.size)?;
        if size == 0 {
            return Ok(None);
        }
        ranges.hold(offset..offset + size).map(Some).ok_or(of_no_piece(offset, size))
    }

    /// Returns what copies of the texels are checked against; `None` for a buffer.
    pub(crate) fn shape(&self) -> Option<&ImageShape> {
        self.facts.as_ref().map(|facts| &facts.shape)
    }

    /// Returns what views are checked against; `None` for a buffer.
    fn view_support(&self) -> Option<&ImageViewSupport> {
        self.facts.as_ref().map(|facts| &facts.views)
    }

    /// Refuses a copy that the resource was not created for.
    pub(crate) fn check_usage(&self, copy: TransferUsage) -> Result<(), AccessError> {
        check_usage(self.transfer_usage, copy)
    }

    /// Returns what shaders may see a buffer as.
    pub(crate) fn view_uses(&self) -> BufferViewUses {
        self.view_uses
    }

    /// Returns why the buffer has no device address; `None` if it has one.
    pub(crate) fn no_address(&self) -> Option<AddressError> {
        self.no_address
    }

    /// Refuses to ask for a device address where there is none.
    pub(super) fn check_address(&self) -> Result<(), AccessError> {
        let refused = |reason| Err(AccessError::NoAddress { reason, name: ShortName::NONE });
        self.no_address.map_or(Ok(()), refused)
    }

    /// Returns true if all queues may use the resource without a transfer of ownership. One that is exclusive to a queue
    /// family is taken to belong to that of the first graphics queue.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Refuses a copy on a queue of another family than the resource belongs to: its bytes would be undefined.
    pub(crate) fn check_queue<D: Device>(&self, device: &D, queue: QueueIndex) -> Result<(), AccessError> {
        // The device refuses a queue that does not exist.
        let exists = usize::from(queue.0) < device.properties().queues.len();
        let belongs = self.shared || !exists || is_of_home_family(device, queue);
        if belongs { Ok(()) } else { Err(AccessError::OtherFamily { queue, name: ShortName::NONE }) }
    }

    /// Makes a token of a resource and its memory that is only going to be destroyed.
    fn of_parts(handle: H, size: u64, allocation: Allocation) -> Self {
        let (transfer_usage, view_uses) = (TransferUsage::empty(), BufferViewUses::empty());
        let no_address = Some(AddressError::Unsupported);
        Self {
            handle,
            size,
            facts: None,
            transfer_usage,
            view_uses,
            shared: false,
            no_address,
            allocation,
            ranges: None,
        }
    }

    /// Replaces the handle. Returns the old handle with the old memory.
    fn replace_handle(&mut self, handle: H, old: Allocation) -> Self {
        // This token keeps its allocation, whose id the application knows: the move has exchanged the ranges, not the
        // tokens.
        Self::of_parts(core::mem::replace(&mut self.handle, handle), self.size, old)
    }
}

/// Refuses a copy by a buffer that has other usages.
fn check_usage(usage: TransferUsage, copy: TransferUsage) -> Result<(), AccessError> {
    let missing = copy.difference(usage);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(AccessError::MissingUsage { missing, name: ShortName::NONE })
    }
}

/// A buffer and its memory, as a token: dropping it leaks both. [`Buffer`](super::Buffer) is destroyed by being
/// dropped.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let allocator = Allocator::new(device, AllocatorDesc::default())?;
/// use allotment::memory::RawBuffer;
///
/// struct Mesh<D: Device> {
///     vertices: RawBuffer<D>, // the engine knows when the GPU is done with it
/// }
/// let vertices = allocator.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// let mesh = Mesh::<SimulatedGpu> { vertices };
/// allocator.destroy_buffer(mesh.vertices)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type RawBuffer<D> = RawResource<<D as BufferDevice>::Buffer>;

/// An image and its memory, as a token: dropping it leaks both. [`Image`](super::Image) is destroyed by being dropped.
pub type RawImage<D> = RawResource<<D as ImageDevice>::Image>;
