//! Buffers whose memory grows and shrinks page by page, while their addresses stay.
//!
//! ```text
//!   addresses   [ piece │ piece │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒ │ piece │            ...            ]     as many as were asked for
//!   pages       │ 0       1      │ 2      3       │ 4     │ 5      6                        2 MiB each
//!   memory        a, 0    a, 1                      b, 0                                    dedicated allocations a, b
//! ```
//!
//! A block of memory is as large as it was when it was allocated: what is left at its end is lost to requests that are larger,
//! and it is freed when it is empty and not before. A [reserved
//! buffer](crate::device::BufferDevice::create_reserved_buffer) has addresses
//! without memory. A piece takes the lowest range of addresses that has room, and memory is bound to those of its pages that
//! have none:
//!
//! - memory of pages that no piece is in any more, from the end on, which is bound there instead;
//! - then new memory, as much as is missing, or a 64th of what there is if that is more: the pages behind get the rest.
//!
//! So no end of a block is lost, and a hole in the middle of the addresses gives its memory to whoever needs it.
//!
//! # Invariants
//!
//! Each page of memory is bound to one page of addresses. Memory is bound only to pages that no submission in flight uses: a
//! range is free once the deletion queue has found the GPU done with it.
//!
//! # Cost
//!
//! A piece whose pages have memory costs what one of [`BufferPieces`](super::BufferPieces) costs, and 16 bytes on the CPU for
//! each page. Where memory is missing, the driver is called, and the thread waits for the GPU to bind it, by a queue that may
//! have other work to finish first: some ten microseconds to milliseconds, as where a block is allocated.

mod pages;

use core::any::TypeId;
use core::fmt;
use std::sync::Arc;

use allotment_suballoc::{Algorithm, Alignment, FitStrategy, Request, VirtualBlock};

use super::pieces::PieceOwner;
use super::unique::Allocations;
use super::{
    BoundRanges, Buffer, BufferPiece, Buffers, OwningAllocator, RawResource, Resource, ResourceError, Unique,
};
use crate::device::{BufferDesc, Device, DeviceError, RangeBinding, Requirements};
use crate::memory::request::AllocationRequest;
use crate::memory::token::Allocation;
use crate::memory::{AllocationError, AllocationOptions, Dedicated};
use crate::sync::locked;

pub(super) use pages::{AddressRange, LivePiece};
use pages::{Chunk, Frame, PAGE, Place, Plan, Space, Taken, Turn, join};

/// A buffer with more addresses than memory: a clone creates pieces of the same buffer.
///
/// For large traffic of buffers that need no resource of their own, on devices that
/// [have such buffers](crate::device::BufferDevice::has_reserved_buffers). Pieces are alike those of [`BufferPieces`](super::BufferPieces), and
/// what is said there of barriers, states and names holds here.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::ExpandableBuffer;
/// use allotment::Alignment;
///
/// // A gibibyte of addresses, and memory for what is in use.
/// let options = MemoryUsage::GpuOnly.with_name("activations");
/// let tensors = ExpandableBuffer::new(gpu.memory(), BufferDesc::new(1 << 30), options)?;
///
/// let alignment = Alignment::new(256)?;
/// let first = tensors.create(100 << 20, alignment)?;
/// let second = tensors.create(50 << 20, alignment)?;
/// gpu.uploads().write_buffer(second.buffer(), second.offset(), &[7; 100])?;
/// assert_eq!(tensors.statistics().memory_bytes, 150 << 20);
///
/// drop(first);
/// gpu.wait_idle()?;
/// gpu.reclaim(); // the GPU is done with it
/// // 150 MiB do not fit in front of the second one. Two thirds of their memory come from there, but for the first page's, which
/// // stays.
/// let third = tensors.create(150 << 20, alignment)?;
/// assert_eq!((third.offset(), tensors.statistics().memory_bytes), (150 << 20, 202 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The buffer's other bytes are nobody's: uploads and reads of pages that no piece is in are refused
/// ([`AccessError::OfNoPiece`](crate::memory::AccessError::OfNoPiece)), and commands of the program use the bytes of pieces alone,
/// which they keep.
///
/// Creating and trimming may wait for a queue, and for all that was submitted to it before: a thread that holds the lock of a queue
/// (`vulkan::Device::lock_queue`), or has yet to submit what that queue waits for, must do neither.
///
/// Memory that no piece is in stays for the next ones, until [`trim`](Self::trim) frees it.
pub struct ExpandableBuffer<D: Device> {
    memory: OwningAllocator<D>,
    buffer: Arc<Buffer<D>>,
    options: AllocationOptions,
    space: Arc<Space<D>>,
}

/// What [expandable buffers](ExpandableBuffer) take.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::memory::ExpandableBuffer;
/// use allotment::Alignment;
///
/// let whole = ExpandableBuffer::new(gpu.memory(), BufferDesc::new(1 << 30), MemoryUsage::GpuOnly.into())?;
/// let first = whole.create(3 << 20, Alignment::new(256)?)?;
/// // Two pages of 2 MiB, the first of which the buffer began with.
/// let statistics = whole.statistics();
/// assert_eq!((statistics.pieces, statistics.bytes, statistics.address_bytes), (1, 3 << 20, 1 << 30));
/// assert_eq!((statistics.memory_bytes, statistics.idle_bytes, statistics.allocations), (4 << 20, 0, 2));
///
/// drop(first);
/// gpu.wait_idle()?;
/// gpu.reclaim();
/// // Memory that no piece is in stays for the next ones.
/// assert_eq!((whole.statistics().memory_bytes, whole.statistics().idle_bytes), (4 << 20, 4 << 20));
/// assert_eq!((whole.trim()?, whole.statistics().idle_bytes), (2 << 20, 2 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpandableStatistics {
    /// Pieces that are alive, or that the GPU may still use.
    pub pieces: u64,
    /// Their bytes, without what alignment takes; in whole atoms where the device has memory that is host-visible and not coherent.
    pub bytes: u64,
    /// Bytes of addresses.
    pub address_bytes: u64,
    /// Bytes of memory that is bound.
    pub memory_bytes: u64,
    /// The part of it that no piece is in.
    pub idle_bytes: u64,
    /// Allocations that this memory has.
    pub allocations: u32,
}

/// When memory is needed.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Now,
    /// Perhaps later: only where it takes nothing from others.
    Ahead,
}

// Not derived, since it is cloned whether or not the device can be.
impl<D: Device> Clone for ExpandableBuffer<D> {
    fn clone(&self) -> Self {
        let Self { memory, buffer, options, space } = self;
        let (buffer, space) = (Arc::clone(buffer), Arc::clone(space));
        Self { memory: memory.clone(), buffer, options: options.clone(), space }
    }
}

impl<D: Device> ExpandableBuffer<D> {
    /// Creates a buffer with as many bytes of addresses as the description's size says, rounded up to pages of 2 MiB, and memory
    /// for one page. Addresses cost nothing on the GPU; devices limit them: Vulkan those of all such buffers together
    /// (`sparseAddressSpaceSize`), Direct3D 12 those of each (`MaxGPUVirtualAddressBitsPerResource`). Where memory is, the options say. The CPU reaches none of it: bytes go through
    /// queues.
    ///
    /// # Errors
    ///
    /// [`ResourceError::Device`] with [`DeviceError::Unsupported`] where the device has no such buffers, or binds no pages of
    /// 2 MiB; with [`ReservedAddresses`](crate::device::DescriptionLimit::ReservedAddresses) where all of them together would
    /// have more addresses than the device allows, or another limit where this one alone would; or where the driver refused. [`ResourceError::Allocation`] for the first
    /// page. Neither a buffer nor memory is left behind.
    #[track_caller]
    pub fn new(
        memory: &OwningAllocator<D>,
        desc: BufferDesc,
        options: AllocationOptions,
    ) -> Result<Self, ResourceError> {
        let device = memory.allocator().device();
        let name = options.short_name();
        // A size that is none for this library is one for no device.
        let size = desc.size.checked_next_multiple_of(PAGE).unwrap_or(desc.size);
        let info = BufferDesc { size, ..desc }.into();
        let created = device.create_reserved_buffer(&info);
        let (handle, requirements) = created.map_err(|error| ResourceError::from(error).of(name))?;
        let requirements = Requirements { size: PAGE, ..requirements };
        // Memory that pieces are given and taken from is allocated and freed by itself.
        let options = options.with_dedicated(Dedicated::Always);
        let mut outlives = None;
        let mut begin = || {
            if requirements.alignment.get() > PAGE {
                return Err(ResourceError::from(DeviceError::Unsupported).of(name));
            }
            let too_large = |_| {
                let limit = allotment_suballoc::MAX_SIZE;
                ResourceError::Allocation(AllocationError::TooLarge { size, limit, name })
            };
            let block = VirtualBlock::unnumbered(size, Algorithm::Tlsf).map_err(too_large)?;
            let (first, place) = Self::allocate(memory, &requirements, &options, Wanted::Now)?;
            let bindings = [RangeBinding { offset: 0, size: PAGE, memory: Some(place) }];
            // SAFETY: both are new, and satisfy the buffer's requirements. The buffer's token will keep the memory.
            match unsafe { device.bind_ranges(&handle, &bindings) } {
                Ok(()) => Ok((block, first, place)),
                Err(error) => {
                    // It may be bound all the same, where the device is lost.
                    outlives = Some(first);
                    Err(ResourceError::from(error).of(name))
                }
            }
        };
        let (block, first, place) = match begin() {
            Ok(begun) => begun,
            Err(error) => {
                // SAFETY: created just now by this device; no queue uses it.
                unsafe { device.destroy_buffer(handle) };
                // After the buffer that it may be bound to.
                drop(outlives);
                return Err(error);
            }
        };
        let properties = device.properties();
        let allowed =
            properties.indexed_types().filter(|(index, _)| requirements.memory_types.contains(*index));
        let heaps = allowed.filter_map(|(_, of_type)| properties.heaps.get(of_type.heap.get()));
        let most = heaps.map(|heap| heap.size).max().unwrap_or(0);
        let space = Arc::new(Space::new(block, place, requirements, most));
        let request = AllocationRequest::new(&requirements, &options);
        let raw = memory.allocator().resource_of::<Buffers>(handle, first.into_inner(), &info, &request);
        let kept: Box<dyn BoundRanges> = Box::new(Arc::clone(&space));
        let raw = RawResource { ranges: Some(Arc::new(kept)), ..raw };
        let buffer = Arc::new(Resource::pinned(memory.own_new::<Buffers>(raw, PAGE)));
        Ok(Self { memory: memory.clone(), buffer, options, space })
    }

    /// Allocates memory for pages, and returns where it is.
    #[track_caller]
    fn allocate(
        memory: &OwningAllocator<D>,
        requirements: &Requirements,
        options: &AllocationOptions,
        wanted: Wanted,
    ) -> Result<(Unique<D, Allocations>, Place<D>), ResourceError> {
        let allocator = memory.allocator();
        let allocated = match wanted {
            Wanted::Now => allocator.allocate(requirements, options),
            Wanted::Ahead => allocator.allocate_ahead(requirements, options),
        };
        let allocation = allocated.map_err(ResourceError::Allocation)?;
        let owned = Unique::<D, Allocations>::of_own(allocator, allocation);
        let placed = Self::keep(memory, &owned, options);
        let (memory, offset) = placed.map_err(|error| error.of(options.short_name()))?;
        Ok((owned, (memory, offset)))
    }

    /// Keeps an allocation where it is, for as long as it lives.
    fn keep(
        memory: &OwningAllocator<D>,
        allocation: &Allocation,
        options: &AllocationOptions,
    ) -> Result<Place<D>, ResourceError> {
        let allocator = memory.allocator();
        allocator.pin(allocation);
        let held = allocator.hold(allocation).map_err(ResourceError::Access)?;
        if options.pool.is_some() {
            // A pool with resources is not reset.
            allocator.note_resource(allocation);
        }
        drop(held);
        let place = allocator.location(allocation).map_err(ResourceError::Access)?;
        Ok((place.memory, place.offset))
    }

    /// Creates a piece of `size` bytes at a multiple of `alignment`.
    ///
    /// # Errors
    ///
    /// [`AllocationError::ZeroSize`] for a piece without bytes, [`AllocationError::TooLargeForHeap`] for one that is larger
    /// than the largest heap, [`AllocationError::NoAddresses`] where the addresses have no range for it. Where memory is missing, those of
    /// [`Allocator::allocate`](crate::Allocator::allocate), and [`ResourceError::Device`] where the driver does not bind it. They
    /// have the buffer's name, and change nothing. Once the device was lost while it bound memory, pieces that need more are refused
    /// with [`DeviceError::Lost`].
    #[track_caller]
    pub fn create(&self, size: u64, alignment: Alignment) -> Result<BufferPiece<D>, ResourceError> {
        if size == 0 {
            let name = self.options.short_name();
            return Err(ResourceError::Allocation(AllocationError::ZeroSize { name }));
        }
        let limit = self.space.most;
        if size > limit {
            let name = self.options.short_name();
            let refused = AllocationError::TooLargeForHeap { requested: size, heap_size: limit, name };
            return Err(ResourceError::Allocation(refused));
        }
        // In whole atoms, as other pieces.
        let atom = self.memory.allocator().largest_flush_multiple();
        let too_large = || self.no_addresses(size);
        let bytes = size.checked_add(atom.get() - 1).map(|_| atom.align_up(size)).ok_or_else(too_large)?;
        let request = Request::new(bytes)
            .aligned(alignment.max(atom))
            // Keeps pieces together at the beginning, where pages have memory.
            .with_strategy(FitStrategy::LowestOffset);
        let found = self.space.take(&request, None);
        if let Some((taken, true)) = found {
            return Ok(self.piece(taken, size));
        }
        // Before the driver is asked for more, what the GPU has finished with.
        let retired = self.memory.deletion_queue().downgrade();
        let reclaimed = retired.reclaim_types(&[TypeId::of::<AddressRange<D>>()]);
        let found = if reclaimed.is_some_and(|reclaimed| reclaimed.count > 0) {
            self.space.take(&request, found.map(|(taken, _)| taken))
        } else {
            found
        };
        let (taken, complete) = found.ok_or_else(too_large)?;
        if !complete {
            if let Err(error) = self.grow(&taken) {
                self.space.give_back(&taken);
                return Err(error);
            }
        }
        Ok(self.piece(taken, size))
    }

    #[cold]
    fn no_addresses(&self, requested: u64) -> ResourceError {
        let state = locked(&self.space.state);
        let found = state.block.statistics();
        ResourceError::Allocation(AllocationError::NoAddresses {
            requested,
            free: found.free,
            largest_free: state.block.largest_free(),
            name: self.options.short_name(),
        })
    }

    fn piece(&self, taken: Taken, size: u64) -> BufferPiece<D> {
        let range = AddressRange::new(Arc::clone(&self.space), taken);
        let range = self.memory.deletion_queue().own_sized(range, size);
        let live = LivePiece::new(Arc::clone(&self.space), taken);
        let owner = PieceOwner::Addresses(live, range);
        BufferPiece::of_parts(Arc::clone(&self.buffer), taken.offset, size, owner)
    }

    /// Binds memory to all pages of a range.
    #[cold]
    #[track_caller]
    fn grow(&self, taken: &Taken) -> Result<(), ResourceError> {
        let space = &*self.space;
        // One thread at a time, since a piece may need a page that another one is binding. Who takes pages that have memory does
        // not come here.
        let mut turn = locked(&space.turn);
        turn.check(self.options.short_name())?;
        let mut plan = space.plan(taken);
        // Another thread has bound them meanwhile.
        if plan.missing == 0 {
            return Ok(());
        }
        let bound = self.bind_planned(&mut plan, &mut turn);
        if bound.is_err() && !turn.is_lost {
            space.undo(&plan.moved);
        }
        bound
    }

    #[track_caller]
    fn bind_planned(&self, plan: &mut Plan, turn: &mut Turn) -> Result<(), ResourceError> {
        let space = &*self.space;
        let moved = plan.moved.len();
        let needed = plan.missing - moved;
        let ahead = (plan.targets.len() > plan.missing)
            .then(|| self.allocate_pages(plan.targets.len() - moved, Wanted::Ahead));
        let mut chunks = match ahead {
            Some(Ok(chunks)) => chunks,
            // Only what has to be.
            _ => {
                plan.targets.truncate(plan.missing);
                self.allocate_pages(needed, Wanted::Now)?
            }
        };
        let mut bindings = Vec::new();
        plan.moved.iter().for_each(|&(number, _)| join(&mut bindings, space.binding(number, None, 0)));
        let mut targets = plan.targets.iter().copied();
        {
            let mut state = locked(&space.state);
            for (&(_, frame), number) in plan.moved.iter().zip(&mut targets) {
                let place = state.chunk(frame.chunk).map(|chunk| chunk.place);
                join(&mut bindings, space.binding(number, place, frame.page));
            }
        }
        let of_chunks = |chunks: &[(Chunk<D>, u32)]| -> Vec<(usize, u32)> {
            let each = chunks.iter().enumerate();
            each.flat_map(|(at, (_, pages))| (0..*pages).map(move |page| (at, page))).collect()
        };
        for ((at, page), number) in of_chunks(&chunks).into_iter().zip(&mut targets) {
            join(&mut bindings, space.binding(number, Some(chunks[at].0.place), page));
        }
        if let Err(error) = self.bind(&bindings, turn) {
            if turn.is_lost {
                // It may be bound, so it lives as long as the buffer.
                let mut state = locked(&space.state);
                chunks.drain(..).for_each(|(chunk, _)| _ = state.add(chunk));
            }
            return Err(error);
        }

        let frames = of_chunks(&chunks);
        let mut state = locked(&space.state);
        let numbers: Vec<_> = chunks.drain(..).map(|(chunk, _)| state.add(chunk)).collect();
        let new = frames.into_iter().map(|(at, page)| Frame { chunk: numbers[at], page });
        let frames = plan.moved.iter().map(|&(_, frame)| frame).chain(new);
        plan.targets.iter().zip(frames).for_each(|(&number, frame)| state.put(number, frame));
        Ok(())
    }

    /// Allocates memory of so many pages: at once, unless the device limits its size.
    #[track_caller]
    fn allocate_pages(
        &self,
        mut pages: usize,
        wanted: Wanted,
    ) -> Result<Vec<(Chunk<D>, u32)>, ResourceError> {
        let device = self.memory.allocator().device();
        let most = (device.properties().limits.max_allocation_size / PAGE).max(1);
        let mut chunks = Vec::new();
        while pages > 0 {
            let next = (pages as u64).min(most);
            let requirements = Requirements { size: next * PAGE, ..self.space.requirements };
            let (memory, place) = Self::allocate(&self.memory, &requirements, &self.options, wanted)?;
            chunks.push((Chunk::new(Some(memory), place), next as u32));
            pages -= next as usize;
        }
        Ok(chunks)
    }

    fn bind(&self, bindings: &[RangeBinding<D::Memory>], turn: &mut Turn) -> Result<(), ResourceError> {
        let device = self.memory.allocator().device();
        // SAFETY: the buffer is live, and its token keeps what is bound. The caller has the turn, so that calls do not overlap.
        // Memory is taken from whole pages that no piece is in any more, and bound to pages that have none, each of them once: no queue
        // uses them, as safe calls refuse bytes of no piece, and other commands use only bytes of pieces that they keep.
        let bound = self.buffer.with_raw(|raw| unsafe { device.bind_ranges(raw.handle(), bindings) });
        turn.is_lost |= bound == Err(DeviceError::Lost);
        bound.map_err(|error| ResourceError::from(error).of(self.options.short_name()))
    }

    /// Frees the allocations that no piece is in, and returns their bytes: when a level ends, for example, or before memory of
    /// another kind is needed. Waits for the GPU to unbind them.
    ///
    /// # Errors
    ///
    /// [`ResourceError::Device`] where the driver does not unbind them; nothing was freed then, nor is it later where the device was
    /// lost.
    pub fn trim(&self) -> Result<u64, ResourceError> {
        let space = &*self.space;
        let mut turn = locked(&space.turn);
        turn.check(self.options.short_name())?;
        let moved = locked(&space.state).take_unused();
        if moved.is_empty() {
            return Ok(0);
        }
        let mut bindings = Vec::new();
        moved.iter().for_each(|&(number, _)| join(&mut bindings, space.binding(number, None, 0)));
        if let Err(error) = self.bind(&bindings, &mut turn) {
            if !turn.is_lost {
                space.undo(&moved);
            }
            return Err(error);
        }
        // Freed without the lock.
        let freed = locked(&space.state).remove(&moved);
        drop(freed);
        Ok(moved.len() as u64 * PAGE)
    }

    /// Returns the buffer that pieces are of. Only the bytes of its pieces may be used.
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer<D>> {
        &self.buffer
    }

    /// Returns what the buffer takes.
    #[must_use]
    pub fn statistics(&self) -> ExpandableStatistics {
        locked(&self.space.state).statistics()
    }
}

impl<D: Device> fmt::Debug for ExpandableBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.options.name;
        f.debug_struct("ExpandableBuffer").field("name", name).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "simulated"))]
mod tests;
