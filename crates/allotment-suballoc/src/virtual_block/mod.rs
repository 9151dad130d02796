//! [`VirtualBlock`]: argument checks, handles and user data. The algorithms deal with regions only.

mod allocate;
mod look;

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::algorithm::State;
use crate::algorithm::{Engine, Ranges, Taken, each};
use crate::compaction::Moves;
use crate::growth;
use crate::handle::BlockId;
use crate::{Algorithm, CreateError, GrowError, Handle, HandleError, MAX_SIZE, RegionKind, ResizeError};

/// An allocator of ranges of the numbers `0..size`. A `T` is stored with each range.
///
/// The unit is the caller's choice: bytes, elements, descriptors, pages. If all sizes and alignments share a
/// factor, divide by it.
///
/// A block that has reached its peak hardly allocates host memory: TLSF does where a range of a size class is free for the
/// first time, where more than 136 free ranges of nearly one size come together, and where most are aligned wrongly for a
/// request.
///
/// ```
/// use allotment_suballoc::{Algorithm, AllocateError, Request, StackSide, VirtualBlock};
///
/// // A double stack of 100 units.
/// let mut block = VirtualBlock::new(100, Algorithm::Linear)?;
/// let low = block.allocate(Request::new(30), "low")?;
/// let high = block.allocate(Request::new(60).with_side(StackSide::Upper), "high")?;
/// assert_eq!((low.offset, high.offset), (0, 40));
///
/// let refused = block.allocate(Request::new(11), "too much").unwrap_err();
/// assert!(matches!(refused.error, AllocateError::NoSpace { largest_free: 10, .. }));
/// assert_eq!(refused.data, "too much", "what could not be stored comes back");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[doc(alias("VmaVirtualBlock", "vmaDestroyVirtualBlock"))]
#[derive(Debug)]
pub struct VirtualBlock<T> {
    pub(crate) engine: Engine,
    /// User data by the index of its region. Invariant: `Some` exactly if the region is used.
    pub(crate) data: Vec<Option<T>>,
    /// What compaction has to know of the ranges.
    pub(crate) moves: Moves,
    pub(crate) id: BlockId,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The handle of the range.
    pub handle: Handle,
    /// The offset, in units.
    pub offset: u64,
    /// The size, in units: as requested.
    pub size: u64,
}

/// Information about a live range.
#[doc(alias("VmaVirtualAllocationInfo", "VIRTUAL_ALLOCATION_INFO"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationInfo<'a, T> {
    /// The offset, in units.
    pub offset: u64,
    /// The size, in units.
    pub size: u64,
    /// The user data stored with the range.
    pub data: &'a T,
}

impl<T> VirtualBlock<T> {
    /// Creates a block of `size` units, all free.
    ///
    /// # Errors
    ///
    /// [`CreateError`] if `size` is 0 or above [`MAX_SIZE`], or if the process has created 2^32 - 1 blocks.
    #[doc(alias(
        "vmaCreateVirtualBlock",
        "CreateVirtualBlock",
        "VmaVirtualBlockCreateInfo",
        "VIRTUAL_BLOCK_DESC",
        "VirtualBlockCreateInfo"
    ))]
    pub fn new(size: u64, algorithm: Algorithm) -> Result<Self, CreateError> {
        Self::numbered(size, algorithm, || BlockId::unique().ok_or(CreateError::TooManyBlocks))
    }

    /// Creates a block as [`new`](Self::new) does, without using up one of the 2^32 - 1 block numbers of the
    /// process. Hidden: for allocators that create blocks as long as they live and store each handle beside its
    /// block. A handle of another such block may be mistaken for a handle of this block.
    ///
    /// # Errors
    ///
    /// [`CreateError`] if `size` is 0 or above [`MAX_SIZE`].
    #[doc(hidden)]
    pub fn unnumbered(size: u64, algorithm: Algorithm) -> Result<Self, CreateError> {
        Self::numbered(size, algorithm, || Ok(BlockId::UNNUMBERED))
    }

    fn numbered(
        size: u64,
        algorithm: Algorithm,
        id: impl FnOnce() -> Result<BlockId, CreateError>,
    ) -> Result<Self, CreateError> {
        let engine = Engine::new(algorithm, size)?;
        // Last, so that a refused size uses up no number.
        Ok(Self { engine, data: Vec::new(), moves: Moves::default(), id: id()? })
    }

    /// Stores `data` with a range of `size` units that was just allocated.
    #[inline]
    pub(crate) fn store(&mut self, taken: Taken, size: u64, data: T) -> Allocation {
        let Taken { index, serial, offset } = taken;
        let at = index as usize;
        match self.data.get_mut(at) {
            Some(place) => {
                debug_assert!(place.is_none(), "a region was freed together with its data");
                *place = Some(data);
            }
            None => self.store_further(at, data),
        }
        self.moves.allocated(index);
        Allocation { handle: self.handle(index, serial), offset, size }
    }

    #[cold]
    fn store_further(&mut self, at: usize, data: T) {
        // Mostly the next one: a region gets the lowest index that was never used, and few are those of free regions.
        while self.data.len() < at {
            growth::push(&mut self.data, None);
        }
        growth::push(&mut self.data, Some(data));
    }

    /// Returns the handle of the used region `index`.
    #[inline]
    pub(crate) fn handle_at(&self, index: u32) -> Handle {
        self.handle(index, self.engine.serial(index))
    }

    #[inline]
    fn handle(&self, index: u32, serial: u64) -> Handle {
        // Not 0, so that `Option<Handle>` is as small as a handle.
        match NonZeroU64::new(serial) {
            Some(serial) => Handle { serial, index, block: self.id },
            None => unreachable!("serial numbers count from 1"),
        }
    }

    #[inline]
    pub(crate) fn check(&self, handle: Handle) -> Result<(), HandleError> {
        // Before the index is used, which means nothing in another block.
        if handle.block != self.id {
            return Err(HandleError::WrongBlock);
        }
        if self.engine.used(handle.index, handle.serial.get()) { Ok(()) } else { Err(HandleError::Stale) }
    }

    /// Frees a range and returns the data stored with it.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle is stale or belongs to another block. Nothing has changed.
    // Always, as `allocate`.
    #[doc(alias("vmaVirtualFree", "FreeAllocation"))]
    #[inline(always)]
    pub fn free(&mut self, handle: Handle) -> Result<T, HandleError> {
        if handle.block != self.id {
            return Err(HandleError::WrongBlock);
        }
        if let Engine::Tlsf(ranges) = &mut self.engine {
            let data = free_of(ranges, &mut self.data, handle)?;
            self.moves.freed(handle.index);
            return Ok(data);
        }
        // A linear block has no open moves.
        if let Engine::Linear(ranges) = &mut self.engine {
            return free_of(ranges, &mut self.data, handle);
        }
        self.free_any(handle.index, handle.serial)
    }

    #[inline(never)]
    fn free_any(&mut self, index: u32, serial: NonZeroU64) -> Result<T, HandleError> {
        let handle = Handle { serial, index, block: self.id };
        // The data is returned and not dropped here: its destructor is the caller's and may panic.
        let data = each!(&mut self.engine, ranges => free_of(ranges, &mut self.data, handle))?;
        self.moves.freed(handle.index);
        Ok(data)
    }

    /// Grows or shrinks a range in place; its handle stays valid.
    ///
    /// A range grows into the free space directly after it. The units that a shorter range releases are free at
    /// once (in a linear block only usable once they touch the gap).
    ///
    /// # Errors
    ///
    /// [`ResizeError`]; nothing has changed then. `NoRoom` contains the largest possible size.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, ResizeError, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(100, Algorithm::Tlsf)?;
    /// let range = block.allocate(Request::new(10), ())?;
    /// block.resize(range.handle, 80)?;
    /// let refused = block.resize(range.handle, 101);
    /// assert_eq!(refused, Err(ResizeError::NoRoom { size: 101, largest: 100 }));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn resize(&mut self, handle: Handle, size: u64) -> Result<(), ResizeError> {
        self.check(handle)?;
        match size {
            0 => return Err(ResizeError::ZeroSize),
            size if size > MAX_SIZE => return Err(ResizeError::TooLarge { size }),
            _ if self.engine.is_full() => return Err(ResizeError::TooManyRegions),
            _ => {}
        }
        let resized = self.engine.resize(handle.index, size);
        resized.map_err(|largest| ResizeError::NoRoom { size, largest })
    }

    /// Grows the block to `size` units in all; the new units are free, at its end.
    ///
    /// # Errors
    ///
    /// [`GrowError`] if `size` is below the present size or above [`MAX_SIZE`], or if ranges on the upper side
    /// of a linear block occupy its end. Nothing has changed.
    pub fn grow(&mut self, size: u64) -> Result<(), GrowError> {
        // All checks come before the first change, as everywhere: a call that is refused has changed nothing.
        let current = self.engine.size();
        if size < current {
            return Err(GrowError::Smaller { size, current });
        }
        if size > MAX_SIZE {
            return Err(GrowError::TooLarge { size });
        }
        if self.engine.is_full() {
            return Err(GrowError::TooManyRegions);
        }
        // The algorithms add a region, and none may be empty.
        if size == current {
            return Ok(());
        }
        self.engine.grow(size - current)
    }

    /// Frees all ranges and drops the data stored with them. Their handles become stale.
    ///
    /// Takes the time of dropping the data, and a microsecond: none where `T` needs no drop. Keeps the host memory, which
    /// [`shrink_to_fit`](Self::shrink_to_fit) frees.
    #[doc(alias = "vmaClearVirtualBlock")]
    pub fn clear(&mut self) {
        // Only where TLSF has used up its epochs: then each range is freed, which leaves its handle stale by its generation.
        if !self.engine.clear() {
            for index in 0..self.engine.capacity() as u32 {
                if self.engine.place(index).state == State::Used {
                    self.engine.free(index);
                }
            }
        }
        self.moves.cleared();
        // After the ranges: should a destructor panic, the block is consistent, and the rest of the data is dropped.
        self.data.clear();
    }

    /// Returns information about a live range.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle is stale or belongs to another block.
    #[doc(alias("vmaGetVirtualAllocationInfo", "get_allocation_info"))]
    pub fn get(&self, handle: Handle) -> Result<AllocationInfo<'_, T>, HandleError> {
        // A handle that passed the check names a used region, which has its data. Should that ever be wrong, the caller gets an
        // error and no panic.
        self.check(handle)?;
        let place = self.engine.place(handle.index);
        let data = self.data_at(handle.index).ok_or(HandleError::Stale)?;
        Ok(AllocationInfo { offset: place.offset, size: place.size, data })
    }

    /// Returns the data stored with a live range, for modification.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle is stale or belongs to another block.
    #[doc(alias("vmaSetVirtualAllocationUserData", "set_allocation_user_data", "SetAllocationPrivateData"))]
    pub fn data_mut(&mut self, handle: Handle) -> Result<&mut T, HandleError> {
        self.check(handle)?;
        self.data[handle.index as usize].as_mut().ok_or(HandleError::Stale)
    }

    pub(crate) fn data_at(&self, index: u32) -> Option<&T> {
        self.data.get(index as usize)?.as_ref()
    }

    /// Allocates host memory for so many further ranges, used or free, so that operations do not until there are more, or
    /// until more than 136 free ranges of nearly one size come together in a TLSF block. With TLSF that is 25 bytes and the
    /// size of `T` each, and up to 72 bytes more for each of the first thousand, which may all be of different sizes.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
    /// block.reserve(101); // the free range behind the allocations is one as well
    /// for _ in 0..100 {
    ///     block.allocate(Request::new(1024), ())?; // gets no memory from the heap
    /// }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn reserve(&mut self, ranges: usize) {
        self.engine.reserve(ranges);
        // Indices go further than there are ranges that have or had data.
        let all = self.engine.capacity_with(ranges);
        self.data.reserve(all.saturating_sub(self.data.len()));
    }

    /// Panics unless all structures agree with each other. O(regions). Hidden, and no part of the stable
    /// interface: public because tests and fuzz targets, which are other crates, call it after each step.
    ///
    /// # Panics
    ///
    /// If this crate has a bug.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.engine.check_invariants();
        let mut used = 0;
        for region in self.regions() {
            if let RegionKind::Used { handle, .. } = region.kind {
                assert!(self.check(handle).is_ok(), "a live range can be named");
                used += 1;
            }
        }
        assert_eq!(used, self.engine.tally().used_count, "every live range has its data");
        assert_eq!(used as usize, self.data.iter().flatten().count(), "no data outlives its range");
        assert!(self.largest_free() <= self.engine.largest_free_at_most());
    }
}

#[inline(always)]
fn free_of<T>(ranges: &mut impl Ranges, data: &mut [Option<T>], handle: Handle) -> Result<T, HandleError> {
    // The number first: in a stale handle the index may be that of another range, whose data stays.
    if !ranges.used(handle.index, handle.serial.get()) {
        return Err(HandleError::Stale);
    }
    let data = data[handle.index as usize].take().ok_or(HandleError::Stale)?;
    ranges.free(handle.index);
    Ok(data)
}
