//! [`VirtualBlock`]: argument checks, handles and user data. The algorithms deal with regions only.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::num::NonZeroU64;

use crate::algorithm::{Engine, Ranges, Taken, each};
use crate::chain::{NONE, State, Tally};
use crate::compaction::Moves;
use crate::growth;
use crate::handle::BlockId;
use crate::json::{self, Object};
use crate::{
    Algorithm, AllocateError, CreateError, DetailedStatistics, GrowError, Handle, HandleError, MAX_SIZE,
    Refused, Region, RegionKind, Regions, Request, ResizeError, Side, SizeRange, Statistics,
};

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
/// use allotment_suballoc::{Algorithm, AllocateError, Request, Side, VirtualBlock};
///
/// // A double stack of 100 units.
/// let mut block = VirtualBlock::new(100, Algorithm::Linear)?;
/// let low = block.allocate(Request::new(30), "low")?;
/// let high = block.allocate(Request::new(60).with_side(Side::Upper), "high")?;
/// assert_eq!((low.offset, high.offset), (0, 40));
///
/// let refused = block.allocate(Request::new(11), "too much").unwrap_err();
/// assert!(matches!(refused.error, AllocateError::NoSpace { largest_free: 10, .. }));
/// assert_eq!(refused.data, "too much", "what could not be stored comes back");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
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

    /// Allocates a range and stores `data` with it.
    ///
    /// # Errors
    ///
    /// [`Refused`] contains the reason, an [`AllocateError`], and returns `data`. Nothing has changed.
    // Always, since a request and its result would go through memory, written in parts and read as a whole, which the
    // processor cannot pass on: a tenth of what TLSF takes, and more than all that a linear block does.
    #[inline(always)]
    pub fn allocate(&mut self, request: Request, data: T) -> Result<Allocation, Refused<T>> {
        if let Engine::Tlsf(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(&request) {
                return Ok(self.store(taken, request.size, data));
            }
        } else if let Engine::Linear(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(&request) {
                return Ok(self.store(taken, request.size, data));
            }
        } else if let Engine::Deferred(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(&request) {
                return Ok(self.store(taken, request.size, data));
            }
        }
        self.allocate_any(&request, data)
    }

    #[inline(never)]
    fn allocate_any(&mut self, request: &Request, data: T) -> Result<Allocation, Refused<T>> {
        if let Engine::WideTlsf(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(request) {
                return Ok(self.store(taken, request.size, data));
            }
        } else if let Engine::WideLinear(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(request) {
                return Ok(self.store(taken, request.size, data));
            }
        } else if let Engine::WideDeferred(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(request) {
                return Ok(self.store(taken, request.size, data));
            }
        }
        self.allocate_further(request, data)
    }

    #[inline(never)]
    fn allocate_further(&mut self, request: &Request, data: T) -> Result<Allocation, Refused<T>> {
        match self.take_a_range(request) {
            Ok(Some(taken)) => Ok(self.store(taken, request.size, data)),
            Ok(None) => Err(Refused { error: self.no_space(request), data }),
            Err(error) => Err(Refused { error, data }),
        }
    }

    fn take_a_range(&mut self, request: &Request) -> Result<Option<Taken>, AllocateError> {
        self.check_request(request)?;
        self.engine.allocate(request)
    }

    /// Allocates a range like [`allocate`](Self::allocate) where one fits. Returns `None`, and drops `data`, where none
    /// does: a caller that tries one block after the other has no use for the numbers that an error contains.
    ///
    /// # Errors
    ///
    /// Those of [`allocate`](Self::allocate) without `NoSpace`. Nothing has changed.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, VirtualBlock};
    ///
    /// let mut blocks = [VirtualBlock::new(10, Algorithm::Tlsf)?, VirtualBlock::new(30, Algorithm::Tlsf)?];
    /// let mut places = blocks.iter_mut().map(|block| block.allocate_if_it_fits(Request::new(20), "texture"));
    /// assert!(places.next().unwrap()?.is_none());
    /// assert_eq!(places.next().unwrap()?.unwrap().offset, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn allocate_if_it_fits(
        &mut self,
        request: Request,
        data: T,
    ) -> Result<Option<Allocation>, AllocateError> {
        let taken = match allocate_quickly(&mut self.engine, &request) {
            Some(taken) => Some(taken),
            None => self.take_a_range(&request)?,
        };
        Ok(taken.map(|taken| self.store(taken, request.size, data)))
    }

    /// Allocates a range that, with the padding behind it, ends at or below `limit`, at the lowest such offset.
    /// For moving ranges towards the start of the block.
    ///
    /// Ignores the request's strategy. Searches every free region that is large enough. With
    /// [`Coalescing::Deferred`](crate::Coalescing::Deferred), merges all cached ranges first.
    ///
    /// # Errors
    ///
    /// Those of [`allocate`](Self::allocate), except that [`NoSpaceBelow`](AllocateError::NoSpaceBelow)
    /// replaces `NoSpace`; and [`InOrder`](AllocateError::InOrder) from a linear block, whose ranges have no
    /// choice of offsets.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, AllocateError, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(100, Algorithm::Tlsf)?;
    /// let low = block.allocate(Request::new(30), "low")?;
    /// let high = block.allocate(Request::new(40), "high")?;
    /// let refused = block.allocate_below(Request::new(10), high.offset, "none").unwrap_err();
    /// assert!(matches!(refused.error, AllocateError::NoSpaceBelow { limit: 30, .. }));
    ///
    /// block.free(low.handle)?;
    /// assert_eq!(block.allocate_below(Request::new(10), high.offset, "lower")?.offset, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn allocate_below(
        &mut self,
        request: Request,
        limit: u64,
        data: T,
    ) -> Result<Allocation, Refused<T>> {
        match self.allocate_region_below(&request, limit) {
            Ok(taken) => Ok(self.store(taken, request.size, data)),
            Err(error) => Err(Refused { error, data }),
        }
    }

    /// Allocates a range at an offset: in the free units directly behind the live range `after`, or at the start of the
    /// block where that is `None`. For moving ranges to places that were planned.
    ///
    /// Ignores the request's strategy. O(1) with TLSF: nothing is searched, so the range before the place must be named. With
    /// [`Coalescing::Deferred`](crate::Coalescing::Deferred), merges all cached ranges first.
    ///
    /// # Errors
    ///
    /// Those of [`allocate`](Self::allocate), except that [`NotFree`](AllocateError::NotFree) replaces `NoSpace`; and
    /// [`InOrder`](AllocateError::InOrder) from a linear block.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, AllocateError, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(100, Algorithm::Tlsf)?;
    /// let low = block.allocate(Request::new(30), "low")?;
    /// let there = block.allocate_at(Request::new(20), 60, Some(low.handle), "there")?;
    /// assert_eq!(there.offset, 60);
    /// // The free units behind `low` end at 60.
    /// let refused = block.allocate_at(Request::new(20), 50, Some(low.handle), "none").unwrap_err();
    /// assert_eq!(refused.error, AllocateError::NotFree { offset: 50, size: 20 });
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn allocate_at(
        &mut self,
        request: Request,
        offset: u64,
        after: Option<Handle>,
        data: T,
    ) -> Result<Allocation, Refused<T>> {
        match self.allocate_region_at(&request, offset, after) {
            Ok(taken) => Ok(self.store(taken, request.size, data)),
            Err(error) => Err(Refused { error, data }),
        }
    }

    /// Returns `true` if [`allocate`](Self::allocate) would succeed now. Costs as much as the search.
    #[must_use]
    pub fn would_fit(&self, request: &Request) -> bool {
        self.room_for(request).is_some()
    }

    /// Returns the size of the free region that [`allocate`](Self::allocate) would use now, or `None` if it
    /// would fail. Tells which of several blocks fits a request best. Costs as much as the search; O(regions) where only an
    /// index that a call of [`allocate`](Self::allocate) makes could tell, and that region may then be another one.
    ///
    /// With [`Coalescing::Deferred`](crate::Coalescing::Deferred), a cached range may serve the request instead, and the cost is
    /// O(regions) where no region fits that is merged already.
    #[must_use]
    pub fn room_for(&self, request: &Request) -> Option<u64> {
        // The checks of `allocate`, without the cost of an error.
        if request.size == 0 || request.size > MAX_SIZE || self.engine.is_full() {
            return None;
        }
        self.engine.room_for(request)
    }

    fn allocate_region_below(&mut self, request: &Request, limit: u64) -> Result<Taken, AllocateError> {
        let algorithm = self.engine.algorithm();
        if algorithm == Algorithm::Linear {
            return Err(AllocateError::InOrder);
        }
        self.check_request(request)?;
        if request.side == Side::Upper {
            return Err(AllocateError::OneSided { algorithm });
        }
        self.engine.merge_all();
        let Request { size, alignment, .. } = *request;
        match self.engine.find_below(request, limit) {
            Some(found) => Ok(self.engine.take(found, request)),
            None => Err(AllocateError::NoSpaceBelow { size, alignment, limit }),
        }
    }

    fn allocate_region_at(
        &mut self,
        request: &Request,
        offset: u64,
        after: Option<Handle>,
    ) -> Result<Taken, AllocateError> {
        let algorithm = self.engine.algorithm();
        if algorithm == Algorithm::Linear {
            return Err(AllocateError::InOrder);
        }
        self.check_request(request)?;
        if request.side == Side::Upper {
            return Err(AllocateError::OneSided { algorithm });
        }
        let size = request.size;
        let refused = AllocateError::NotFree { offset, size };
        let end = offset.checked_add(size).ok_or(refused)?;
        if !request.alignment.is_aligned(offset) {
            return Err(refused);
        }
        self.engine.merge_all();
        let mut index = match after {
            None => self.engine.first(),
            Some(handle) => {
                self.check(handle).map_err(|_| refused)?;
                self.engine.place(handle.index).after
            }
        };
        // One region with TLSF. With the buddy algorithm the range's own padding comes first, then a cell of each order
        // at most twice.
        while index != NONE {
            let place = self.engine.place(index);
            if place.end() > offset {
                let contains = place.state == State::Free && place.offset <= offset && end <= place.end();
                let taken = if contains { self.engine.take_at(index, offset, size) } else { None };
                return taken.ok_or(refused);
            }
            if place.state == State::Used {
                return Err(refused);
            }
            index = place.after;
        }
        Err(refused)
    }

    fn check_request(&self, request: &Request) -> Result<(), AllocateError> {
        check_request(&self.engine, request)
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
        match NonZeroU64::new(serial) {
            Some(serial) => Handle { serial, index, block: self.id },
            None => unreachable!("serial numbers count from 1"),
        }
    }

    #[cold]
    fn no_space(&self, request: &Request) -> AllocateError {
        AllocateError::NoSpace {
            size: request.size,
            alignment: request.alignment,
            free: self.available(),
            largest_free: self.largest_free(),
        }
    }

    /// Returns the number of units that requests can get: the free ones, and the padding that deferred coalescing takes back.
    pub(crate) fn available(&self) -> u64 {
        let Tally { free, padding, .. } = self.engine.tally();
        if self.algorithm() == Algorithm::Tlsf { free + padding } else { free }
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
        if let Engine::Deferred(ranges) = &mut self.engine {
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
    pub fn clear(&mut self) {
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
    pub fn get(&self, handle: Handle) -> Result<AllocationInfo<'_, T>, HandleError> {
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

    /// Returns the algorithm that the block was created with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.engine.algorithm()
    }

    /// Returns the size of the block, in units.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.engine.size()
    }

    /// Returns `true` if no range is allocated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.engine.tally().used_count == 0
    }

    /// Returns the largest size that a request at alignment 1 can get now. O(1); for TLSF with a look at up to 136 free
    /// ranges, and O(ranges) with [`Coalescing::Deferred`](crate::Coalescing::Deferred).
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.engine.largest_free()
    }

    /// Returns `false` if a request for `size` units is sure to fail. O(1).
    ///
    /// `true` is no guarantee: the test ignores the alignment, and compares with
    /// [`largest_free_at_most`](Self::largest_free_at_most).
    #[must_use]
    pub fn may_fit(&self, size: u64) -> bool {
        size <= self.largest_free_at_most()
    }

    /// Returns an upper bound of [`largest_free`](Self::largest_free) that is at most 3 % too large; with
    /// [`Coalescing::Deferred`](crate::Coalescing::Deferred), all that is free. O(1).
    #[must_use]
    pub fn largest_free_at_most(&self) -> u64 {
        self.engine.largest_free_at_most()
    }

    /// Returns the statistics that are always up to date. O(1).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let tally = self.engine.tally();
        Statistics {
            size: self.engine.size(),
            allocation_count: tally.used_count,
            allocated: tally.used,
            padding: tally.padding,
            free: tally.free,
            free_range_count: tally.free_count,
        }
    }

    /// Returns sums and extremes from a walk over all regions. O(regions).
    #[must_use]
    pub fn detailed_statistics(&self) -> DetailedStatistics {
        let mut detailed = DetailedStatistics {
            brief: self.statistics(),
            largest_free: self.largest_free(),
            ..DetailedStatistics::default()
        };
        // From the regions and not from counters: extremes cannot be kept up to date in O(1) when ranges are freed.
        for region in self.regions() {
            let range = match region.kind {
                RegionKind::Used { .. } => &mut detailed.allocation_size,
                RegionKind::Free => &mut detailed.free_size,
                RegionKind::Padding => continue,
            };
            *range = Some(SizeRange::including(*range, region.size));
        }
        detailed
    }

    /// Returns all regions in address order: live ranges, padding and free space, without a gap. Free regions touch only where
    /// one is a cached range of [`Coalescing::Deferred`](crate::Coalescing::Deferred).
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, RegionKind, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(16, Algorithm::Buddy)?;
    /// block.allocate(Request::new(5), 'a')?;
    /// let regions: Vec<_> = block.regions().map(|region| match region.kind {
    ///     RegionKind::Used { data, .. } => (*data, region.size),
    ///     RegionKind::Padding => ('-', region.size),
    ///     _ => (' ', region.size),
    /// }).collect();
    /// assert_eq!(regions, [('a', 5), ('-', 3), (' ', 8)]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn regions(&self) -> Regions<'_, T> {
        Regions::new(self)
    }

    /// Writes the block as one JSON object, in the format of the dumps of VMA and D3D12MA: `TotalBytes`,
    /// `UnusedBytes`, `Allocations`, `UnusedRanges`, and `Suballocations` with `Offset`, `Type` (`FREE`,
    /// `PADDING` or the one that `describe` writes) and `Size` of each region.
    ///
    /// `describe` writes the members of a live range from the data stored with it, `Type` among them.
    ///
    /// # Errors
    ///
    /// Errors of `out` only.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(64, Algorithm::Tlsf)?;
    /// block.allocate(Request::new(48), "mesh")?;
    /// let mut json = String::new();
    /// block.write_json(&mut json, |name, o| {
    ///     o.text("Type", "BUFFER")?;
    ///     o.text("Name", name)
    /// })?;
    /// assert!(json.contains(r#"{"Offset":0,"Size":48,"Type":"BUFFER","Name":"mesh"}"#));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn write_json<W: Write + ?Sized>(
        &self,
        out: &mut W,
        describe: impl FnMut(&T, &mut Object<'_, W>) -> fmt::Result,
    ) -> fmt::Result {
        json::object(out, |o| self.write_json_members(o, describe))
    }

    /// Writes the members of [`write_json`](Self::write_json) into an object that has other members as well.
    ///
    /// # Errors
    ///
    /// Errors of the output only.
    pub fn write_json_members<W: Write + ?Sized>(
        &self,
        object: &mut Object<'_, W>,
        mut describe: impl FnMut(&T, &mut Object<'_, W>) -> fmt::Result,
    ) -> fmt::Result {
        let statistics = self.statistics();
        object.number("TotalBytes", statistics.size)?;
        object.number("UnusedBytes", statistics.free)?;
        object.number("Allocations", statistics.allocation_count.into())?;
        object.number("UnusedRanges", statistics.free_range_count.into())?;
        object.array("Suballocations", |array| {
            self.regions().try_for_each(|Region { offset, size, kind }| {
                array.object(|o| {
                    o.number("Offset", offset)?;
                    o.number("Size", size)?;
                    match kind {
                        RegionKind::Used { data, .. } => describe(data, o),
                        RegionKind::Padding => o.text("Type", "PADDING"),
                        RegionKind::Free => o.text("Type", "FREE"),
                    }
                })
            })
        })
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

// For `allocate_if_it_fits`, whose callers are large: inlined there, but for the rarer algorithms.

#[inline(always)]
fn allocate_quickly(engine: &mut Engine, request: &Request) -> Option<Taken> {
    match engine {
        Engine::Tlsf(ranges) => ranges.allocate_quickly(request),
        Engine::Linear(ranges) => ranges.allocate_quickly(request),
        _ => allocate_in_other(engine, request),
    }
}

#[inline(never)]
fn allocate_in_other(engine: &mut Engine, request: &Request) -> Option<Taken> {
    each!(engine, ranges => ranges.allocate_quickly(request))
}

#[inline(always)]
fn check_request(ranges: &impl Ranges, request: &Request) -> Result<(), AllocateError> {
    // A size of 0 wraps round.
    if request.size.wrapping_sub(1) < MAX_SIZE && !ranges.is_full() {
        Ok(())
    } else {
        Err(bad_request(request))
    }
}

#[cold]
fn bad_request(request: &Request) -> AllocateError {
    match request.size {
        0 => AllocateError::ZeroSize,
        size if size > MAX_SIZE => AllocateError::TooLarge { size },
        // For every algorithm alike, even where this request would add no region: the bound stays simple.
        _ => AllocateError::TooManyRegions,
    }
}

#[inline(always)]
fn free_of<T>(ranges: &mut impl Ranges, data: &mut [Option<T>], handle: Handle) -> Result<T, HandleError> {
    if !ranges.used(handle.index, handle.serial.get()) {
        return Err(HandleError::Stale);
    }
    let data = data[handle.index as usize].take().ok_or(HandleError::Stale)?;
    ranges.free(handle.index);
    Ok(data)
}
