//! Small buffers that are pieces of larger ones.
//!
//! ```text
//!   pages    buffer 0 [ piece │ piece │ ▒▒ │ piece ]   buffer 1 [ piece │ ▒▒▒▒▒▒▒▒▒▒▒▒ ]      1 MiB each, or as large as a piece
//! ```
//!
//! Direct3D 12 places each buffer at a multiple of 64 KiB, unless the device has tight alignment: a buffer of 4 KiB takes 16
//! times its size. A piece takes its own bytes. On Vulkan a piece saves the driver's object, not memory. A small committed buffer, which
//! [dedicated memory](crate::memory::Dedicated::Always) makes, has 64 KiB as well by what the runtime says, and on a driver that gives
//! it less it is some bytes tighter than a placed one, never than a piece, and takes longer to create
//! (`docs/measurements/2026-11-30-small-d3d12-buffers.md`).
//!
//! A piece is no resource of its own, and only the caller can know whether that will do: barriers of a whole resource, its state and
//! its name are those of the page. So pieces have a type of their own, which says where they are, and nothing that takes a buffer
//! takes one for it.
//!
//! A request takes the lowest page that has room, so that the last ones become empty. A page that is empty is destroyed, unless it
//! is the only one that is empty: a piece that comes and goes would otherwise cost two driver calls each time.
//!
//! # Cost
//!
//! `create` reads a number for each page before the first that has room, eight bytes each and side by side: a nanosecond. A piece takes
//! 24 bytes of a page's table on the CPU, and what [`Owned`] takes.

use core::any::TypeId;
use core::fmt;
use std::sync::{Arc, Mutex};

use allotment_suballoc::{Algorithm, Alignment, Handle, Request, VirtualBlock};

use super::expandable::{AddressRange, LivePiece};
use super::{Buffer, OwningAllocator, ResourceError};
use crate::device::{BufferDesc, Device};
use crate::lifetime::Owned;
use crate::memory::{AccessError, AllocationError, AllocationOptions};
use crate::sync::locked;

/// Buffers that small ones are pieces of. A clone creates pieces of the same buffers.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::BufferPieces;
/// use allotment::Alignment;
///
/// // Buffers of 1 MiB, with the usage flags that all pieces need.
/// let options = MemoryUsage::GpuOnly.with_name("materials");
/// let materials = BufferPieces::new(gpu.memory(), BufferDesc::new(1 << 20), options);
///
/// let constants = Alignment::new(256)?; // as views of constants need
/// let metal = materials.create(100, constants)?;
/// let wood = materials.create(100, constants)?;
/// gpu.uploads().write_buffer(wood.buffer(), wood.offset(), &[7; 100])?;
/// assert_eq!((metal.offset(), wood.offset()), (0, 256));
/// drop(wood); // its bytes are free once the GPU is done with it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The pages are never moved. A piece keeps its page, and a page that loses its last piece is destroyed, unless it is the only
/// one that is empty.
pub struct BufferPieces<D: Device> {
    memory: OwningAllocator<D>,
    page: BufferDesc,
    options: AllocationOptions,
    pages: Arc<Mutex<Pages<D>>>,
}

/// A piece of a buffer: a small buffer for those who need no resource of its own. Dropping it, on any thread, retires it:
/// other pieces get its bytes once no open recording and no submission in flight can reference it.
///
/// What takes a buffer and an offset takes [`buffer`](Self::buffer) and [`offset`](Self::offset), and must keep to
/// [`size`](Self::size) bytes behind: what lies there belongs to other pieces. So does the state of the resource, of which
/// Direct3D 12's older barriers know one for a whole buffer.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("d3d12-tier-2").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::BufferPieces;
/// use allotment::Alignment;
///
/// let meshes = BufferPieces::new(gpu.memory(), BufferDesc::new(1 << 20), MemoryUsage::GpuOnly.with_name("meshes"));
/// let vertices = meshes.create(36 * 24, Alignment::new(4)?)?;
/// // As `IASetVertexBuffers` and `vkCmdBindVertexBuffers` take it: a buffer and where it begins.
/// let (buffer, first) = (vertices.buffer(), vertices.offset());
/// assert!(first + vertices.size() <= buffer.size());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a piece that is dropped is free for others"]
pub struct BufferPiece<D: Device> {
    buffer: Arc<Buffer<D>>,
    offset: u64,
    size: u64,
    /// Retired when the piece is dropped.
    _owner: PieceOwner<D>,
}

/// What a piece has, to be retired when it is dropped.
pub(super) enum PieceOwner<D: Device> {
    Page(#[expect(dead_code, reason = "it is only dropped")] Owned<PieceRange<D>>),
    /// In this order: what is recorded after a piece was retired may not use its bytes.
    #[expect(dead_code, reason = "they are only dropped")]
    Addresses(LivePiece<D>, Owned<AddressRange<D>>),
}

/// What [pieces](BufferPieces) take.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("d3d12-tier-2").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::BufferPieces;
/// use allotment::Alignment;
///
/// let materials = BufferPieces::new(gpu.memory(), BufferDesc::new(1 << 20), MemoryUsage::GpuOnly.into());
/// let all: Vec<_> = (0..256).map(|_| materials.create(4096, Alignment::ONE)).collect::<Result<_, _>>()?;
/// let taken = materials.statistics();
/// // As buffers they would take 16 MiB: each is placed at a multiple of 64 KiB.
/// assert_eq!((taken.pieces, taken.pages, taken.page_bytes), (256, 1, 1 << 20));
/// # drop(all);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PieceStatistics {
    /// Pieces that are alive, or that the GPU may still use.
    pub pieces: u64,
    /// Their bytes, without what alignment takes; in whole atoms where the device has memory that is host-visible and not coherent.
    pub bytes: u64,
    /// Buffers that they are pieces of.
    pub pages: u32,
    /// The bytes of these.
    pub page_bytes: u64,
}

/// The pages, by their numbers. That of a page that is gone is used again.
struct Pages<D: Device> {
    list: Vec<Option<Page<D>>>,
    /// A size that no free range of the page exceeds; 0 where there is no page. So pages that are full are not read.
    room: Vec<u64>,
    /// Pages without a piece.
    empty: usize,
}

impl<D: Device> Default for Pages<D> {
    fn default() -> Self {
        Self { list: Vec::new(), room: Vec::new(), empty: 0 }
    }
}

impl<D: Device> Pages<D> {
    /// Takes a range of the lowest page that has one.
    fn cut(&mut self, request: &Request) -> Option<(usize, Arc<Buffer<D>>, allotment_suballoc::Allocation)> {
        let Self { list, room, empty } = self;
        list.iter_mut().zip(room).enumerate().find_map(|(at, (page, room))| {
            if *room < request.size {
                return None;
            }
            let page = page.as_mut()?;
            // An error says no more than that another page has to be found.
            let was_empty = page.block.is_empty();
            let taken = page.block.allocate_if_it_fits(*request, ()).ok().flatten()?;
            *empty -= usize::from(was_empty);
            *room = page.block.largest_free_at_most();
            Some((at, Arc::clone(&page.buffer), taken))
        })
    }

    /// Adds a page with a piece. Returns its number.
    fn add(&mut self, page: Page<D>) -> usize {
        let room = page.block.largest_free_at_most();
        match self.list.iter().position(Option::is_none) {
            Some(vacant) => {
                (self.list[vacant], self.room[vacant]) = (Some(page), room);
                vacant
            }
            None => {
                self.list.push(Some(page));
                self.room.push(room);
                self.list.len() - 1
            }
        }
    }

    /// Frees a range. Returns its page, where that is empty and another one is.
    fn free(&mut self, at: usize, handle: Handle) -> Option<Page<D>> {
        let Some(Some(page)) = self.list.get_mut(at) else { return None };
        let freed = page.block.free(handle);
        debug_assert!(freed.is_ok(), "a range is freed once");
        self.room[at] = page.block.largest_free_at_most();
        if !page.block.is_empty() {
            return None;
        }
        if self.empty == 0 {
            self.empty = 1;
            return None;
        }
        self.room[at] = 0;
        self.list[at].take()
    }
}

struct Page<D: Device> {
    buffer: Arc<Buffer<D>>,
    block: VirtualBlock<()>,
}

/// The bytes of a piece, which are free when this is dropped. It holds no allocator and no deletion queue: that queue, in which it
/// waits, would otherwise keep itself alive.
pub(super) struct PieceRange<D: Device> {
    pages: Arc<Mutex<Pages<D>>>,
    page: usize,
    handle: Handle,
}

impl<D: Device> Drop for PieceRange<D> {
    fn drop(&mut self) {
        let unwanted = locked(&self.pages).free(self.page, self.handle);
        // The buffer is retired without the lock.
        drop(unwanted);
    }
}

// Not derived, since it is cloned whether or not the device can be.
impl<D: Device> Clone for BufferPieces<D> {
    fn clone(&self) -> Self {
        let Self { memory, page, options, pages } = self;
        Self { memory: memory.clone(), page: *page, options: options.clone(), pages: Arc::clone(pages) }
    }
}

impl<D: Device> BufferPieces<D> {
    /// Describes the buffers that pieces are cut from: their usage, their size (1 MiB is good for pieces of some KiB), and where
    /// their memory is. Nothing is allocated yet.
    #[must_use]
    pub fn new(memory: &OwningAllocator<D>, page: BufferDesc, options: AllocationOptions) -> Self {
        Self { memory: memory.clone(), page, options, pages: Arc::default() }
    }

    /// Creates a piece of `size` bytes at a multiple of `alignment` in a buffer: 256 bytes where a view of constants is to begin, the
    /// device's limits (`minStorageBufferOffsetAlignment`, for example) for others. A piece that is larger than a page gets a page
    /// of its own.
    ///
    /// # Errors
    ///
    /// Those of [`OwningAllocator::create_buffer`] where a page is created; they have the pages' name.
    /// [`AllocationError::ZeroSize`] for a piece without bytes.
    #[track_caller]
    pub fn create(&self, size: u64, alignment: Alignment) -> Result<BufferPiece<D>, ResourceError> {
        if size == 0 {
            let name = self.options.short_name();
            return Err(ResourceError::Allocation(AllocationError::ZeroSize { name }));
        }
        // In whole atoms, as separate buffers: a flush of one piece writes back what the CPU's caches hold of an atom, and would undo
        // what a queue wrote to its neighbour.
        let atom = self.memory.allocator().largest_flush_multiple();
        let request = Request::new(atom.align_up(size)).aligned(alignment.max(atom));
        if let Some(piece) = self.cut(&request, size) {
            return Ok(piece);
        }
        // Before the driver is asked for more, what the GPU has finished with.
        let retired = self.memory.deletion_queue().downgrade();
        let reclaimed = retired.reclaim_types(&[TypeId::of::<PieceRange<D>>()]);
        if let Some(piece) =
            reclaimed.filter(|reclaimed| reclaimed.count > 0).and_then(|_| self.cut(&request, size))
        {
            return Ok(piece);
        }
        // Without the lock, which no driver call is made under. Two threads that get here at once create a page each.
        let page = BufferDesc { size: request.size.max(self.page.size), ..self.page };
        let buffer = Arc::new(self.memory.create_buffer(&page.into(), &self.options)?);
        // The device has refused sizes above that; and it fits at the start of an empty block.
        let too_large = || {
            let (limit, name) = (allotment_suballoc::MAX_SIZE, self.options.short_name());
            ResourceError::Allocation(AllocationError::TooLarge { size, limit, name })
        };
        let mut block = VirtualBlock::unnumbered(page.size, Algorithm::Tlsf).map_err(|_| too_large())?;
        let taken = block.allocate(request, ()).map_err(|_| too_large())?;
        let number = locked(&self.pages).add(Page { buffer: Arc::clone(&buffer), block });
        Ok(self.piece(buffer, number, taken, size))
    }

    /// Takes a piece of the first page that has room.
    fn cut(&self, request: &Request, size: u64) -> Option<BufferPiece<D>> {
        let (at, buffer, taken) = locked(&self.pages).cut(request)?;
        Some(self.piece(buffer, at, taken, size))
    }

    fn piece(
        &self,
        buffer: Arc<Buffer<D>>,
        page: usize,
        taken: allotment_suballoc::Allocation,
        size: u64,
    ) -> BufferPiece<D> {
        let allotment_suballoc::Allocation { handle, offset, .. } = taken;
        let range = PieceRange { pages: Arc::clone(&self.pages), page, handle };
        let range = self.memory.deletion_queue().own_sized(range, size);
        BufferPiece::of_parts(buffer, offset, size, PieceOwner::Page(range))
    }

    /// Returns what the pieces take.
    #[must_use]
    pub fn statistics(&self) -> PieceStatistics {
        let mut all = PieceStatistics::default();
        for page in locked(&self.pages).list.iter().flatten() {
            let of_page = page.block.statistics();
            all.pieces += u64::from(of_page.allocation_count);
            all.bytes += of_page.allocated;
            all.pages += 1;
            all.page_bytes += page.block.size();
        }
        all
    }
}

impl<D: Device> BufferPiece<D> {
    pub(super) fn of_parts(buffer: Arc<Buffer<D>>, offset: u64, size: u64, owner: PieceOwner<D>) -> Self {
        Self { buffer, offset, size, _owner: owner }
    }

    /// Returns the buffer that this is a piece of.
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer<D>> {
        &self.buffer
    }

    /// Returns where it begins in its buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns its size in bytes, as it was asked for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns its address on the device: the buffer's, and its offset.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::device_address`](super::Resource::device_address).
    pub fn device_address(&self) -> Result<u64, AccessError> {
        Ok(self.buffer.device_address()? + self.offset)
    }
}

impl<D: Device> fmt::Debug for BufferPieces<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.options.name;
        f.debug_struct("BufferPieces").field("name", name).field("page", &self.page).finish_non_exhaustive()
    }
}

impl<D: Device> fmt::Debug for BufferPiece<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, size, .. } = self;
        f.debug_struct("BufferPiece").field("offset", offset).field("size", size).finish_non_exhaustive()
    }
}
