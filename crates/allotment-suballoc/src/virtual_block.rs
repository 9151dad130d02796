//! The front: checks at the door, handles and user data; the algorithms know nothing of either.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::num::NonZeroU64;

use crate::algorithm::{Engine, Policy};
use crate::chain::{Chain, Node, State};
use crate::handle::BlockId;
use crate::json::{self, Object};
use crate::{
    Algorithm, AllocateError, CreateError, DetailedStatistics, GrowError, Handle, HandleError, MAX_SIZE,
    Refused, Region, RegionKind, Regions, Request, ResizeError, Side, SizeRange, Statistics,
};

/// The numbers `0..size`, of which ranges are handed out and taken back. `T` is kept with each of them.
///
/// The unit is the caller's: bytes, elements, descriptors, pages. Where all sizes and alignments share a
/// factor, divide by it.
///
/// A block that has seen its peak allocates no more host memory.
///
/// ```
/// use allotment_suballoc::{Algorithm, AllocateError, Request, Side, VirtualBlock};
///
/// // A double stack of 100 units.
/// let mut block = VirtualBlock::new(100, Algorithm::Linear)?;
/// let low = block.allocate(Request::new(30), "low")?;
/// let high = block.allocate(Request::new(60).on(Side::Upper), "high")?;
/// assert_eq!((low.offset, high.offset), (0, 40));
///
/// let refused = block.allocate(Request::new(11), "too much").unwrap_err();
/// assert!(matches!(refused.error, AllocateError::NoSpace { largest_free: 10, .. }));
/// assert_eq!(refused.data, "too much", "what could not be stored comes back");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct VirtualBlock<T> {
    pub(crate) chain: Chain,
    pub(crate) engine: Engine,
    /// Beside the chain, by the same index. Invariant: `Some` exactly where the node is used.
    pub(crate) data: Vec<Option<T>>,
    pub(crate) id: BlockId,
}

/// A range that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Names it from now on.
    pub handle: Handle,
    /// Where it begins, in units.
    pub offset: u64,
    /// How long it is, in units: as asked.
    pub size: u64,
}

/// What is known of a live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationInfo<'a, T> {
    /// Where it begins, in units.
    pub offset: u64,
    /// How long it is, in units.
    pub size: u64,
    /// What its owner keeps with it.
    pub data: &'a T,
}

impl<T> VirtualBlock<T> {
    /// A block of `size` units, all free.
    ///
    /// # Errors
    ///
    /// [`CreateError`] when `size` is 0 or above [`MAX_SIZE`], or the process has created 2^32 - 1 blocks.
    pub fn new(size: u64, algorithm: Algorithm) -> Result<Self, CreateError> {
        Self::numbered(size, algorithm, || BlockId::unique().ok_or(CreateError::TooManyBlocks))
    }

    /// As [`new`](Self::new), but the block takes none of the 2^32 - 1 numbers that a process has. Hidden: for allocators
    /// that create blocks for as long as they live and keep each handle beside its block. A handle of another such block
    /// may be taken for one of this block's.
    ///
    /// # Errors
    ///
    /// [`CreateError`] when `size` is 0 or above [`MAX_SIZE`].
    #[doc(hidden)]
    pub fn unnumbered(size: u64, algorithm: Algorithm) -> Result<Self, CreateError> {
        Self::numbered(size, algorithm, || Ok(BlockId::UNNUMBERED))
    }

    fn numbered(
        size: u64,
        algorithm: Algorithm,
        id: impl FnOnce() -> Result<BlockId, CreateError>,
    ) -> Result<Self, CreateError> {
        match size {
            0 => Err(CreateError::ZeroSize),
            size if size > MAX_SIZE => Err(CreateError::TooLarge { size }),
            size => {
                let id = id()?;
                let mut chain = Chain::new(size);
                let engine = Engine::new(algorithm, &mut chain);
                Ok(Self { chain, engine, data: Vec::new(), id })
            }
        }
    }

    /// Hands out a range and keeps `data` with it.
    ///
    /// # Errors
    ///
    /// [`Refused`] holds the reason, an [`AllocateError`], and gives `data` back. Nothing has changed.
    pub fn allocate(&mut self, request: Request, data: T) -> Result<Allocation, Refused<T>> {
        match self.place(&request) {
            Ok(index) => Ok(self.keep(index, data)),
            Err(error) => Err(Refused { error, data }),
        }
    }

    /// As [`allocate`](Self::allocate), but only where the range, and the padding behind it, ends at or
    /// below `limit`: at the lowest such place. For moving ranges towards the start of the block.
    ///
    /// The request's strategy is ignored. Looks at every free region that is large enough.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate), but [`NoSpaceBelow`](AllocateError::NoSpaceBelow) where there is
    /// no such place, and [`InOrder`](AllocateError::InOrder) from a linear block, whose ranges have no
    /// choice of places.
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
        match self.place_below(&request, limit) {
            Ok(index) => Ok(self.keep(index, data)),
            Err(error) => Err(Refused { error, data }),
        }
    }

    /// True when [`allocate`](Self::allocate) would serve the request now. Costs what the search costs.
    #[must_use]
    pub fn would_fit(&self, request: &Request) -> bool {
        self.room_for(request).is_some()
    }

    /// The size of the free region that [`allocate`](Self::allocate) would cut the range out of now; `None`
    /// where it would refuse. Tells which of several blocks fits a request best. Costs what the search
    /// costs.
    #[must_use]
    pub fn room_for(&self, request: &Request) -> Option<u64> {
        if request.size == 0 || request.size > MAX_SIZE || self.chain.is_full() {
            return None;
        }
        let found = self.engine.find(&self.chain, request)?;
        Some(self.chain.node(found).size)
    }

    fn place(&mut self, request: &Request) -> Result<u32, AllocateError> {
        self.check_at_the_door(request)?;
        match self.engine.allocate(&mut self.chain, request)? {
            Some(index) => Ok(index),
            None => Err(self.no_space(request)),
        }
    }

    fn place_below(&mut self, request: &Request, limit: u64) -> Result<u32, AllocateError> {
        let algorithm = self.engine.algorithm();
        if algorithm == Algorithm::Linear {
            return Err(AllocateError::InOrder);
        }
        self.check_at_the_door(request)?;
        if request.side == Side::Upper {
            return Err(AllocateError::OneSided { algorithm });
        }
        let Request { size, alignment, .. } = *request;
        match self.engine.find_below(&self.chain, request, limit) {
            Some(place) => Ok(self.engine.take(&mut self.chain, place, request)),
            None => Err(AllocateError::NoSpaceBelow { size, alignment, limit }),
        }
    }

    fn check_at_the_door(&self, request: &Request) -> Result<(), AllocateError> {
        match request.size {
            0 => Err(AllocateError::ZeroSize),
            size if size > MAX_SIZE => Err(AllocateError::TooLarge { size }),
            _ if self.chain.is_full() => Err(AllocateError::TooManyRegions),
            _ => Ok(()),
        }
    }

    /// Keeps `data` with the node `index`, which was just marked used.
    pub(crate) fn keep(&mut self, index: u32, data: T) -> Allocation {
        if index as usize >= self.data.len() {
            self.data.resize_with(self.chain.capacity(), || None);
        }
        self.data[index as usize] = Some(data);
        let node = self.chain.node(index);
        Allocation { handle: self.handle_at(index), offset: node.offset, size: node.size }
    }

    /// The handle of the used node `index`.
    pub(crate) fn handle_at(&self, index: u32) -> Handle {
        match NonZeroU64::new(self.chain.node(index).serial()) {
            Some(serial) => Handle { serial, index, block: self.id },
            None => unreachable!("serial numbers count from 1"),
        }
    }

    #[cold]
    fn no_space(&self, request: &Request) -> AllocateError {
        AllocateError::NoSpace {
            size: request.size,
            alignment: request.alignment,
            free: self.chain.tally().free,
            largest_free: self.largest_free(),
        }
    }

    pub(crate) fn node(&self, handle: Handle) -> Result<&Node, HandleError> {
        if handle.block != self.id {
            return Err(HandleError::WrongBlock);
        }
        self.chain.used(handle.index, handle.serial.get()).ok_or(HandleError::Stale)
    }

    /// Takes a range back and returns what was kept with it.
    ///
    /// # Errors
    ///
    /// [`HandleError`] when the handle is stale or belongs to another block. Nothing has changed.
    pub fn free(&mut self, handle: Handle) -> Result<T, HandleError> {
        self.node(handle)?;
        let data = self.data[handle.index as usize].take().ok_or(HandleError::Stale)?;
        self.engine.free(&mut self.chain, handle.index);
        Ok(data)
    }

    /// Makes a range longer or shorter where it is; its handle stays good.
    ///
    /// A range grows into the free space right behind it. What a shorter range gives up is free at once
    /// (to a linear block only once it touches the gap).
    ///
    /// # Errors
    ///
    /// [`ResizeError`], in which case nothing has changed; `NoRoom` says the largest size that would do.
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
        self.node(handle)?;
        match size {
            0 => return Err(ResizeError::ZeroSize),
            size if size > MAX_SIZE => return Err(ResizeError::TooLarge { size }),
            _ if self.chain.is_full() => return Err(ResizeError::TooManyRegions),
            _ => {}
        }
        let resized = self.engine.resize(&mut self.chain, handle.index, size);
        resized.map_err(|largest| ResizeError::NoRoom { size, largest })
    }

    /// Makes the block larger: `size` units in all, the new ones free at its end.
    ///
    /// # Errors
    ///
    /// [`GrowError`] when `size` is below the present size or above [`MAX_SIZE`], or when ranges on the
    /// upper side of a linear block hold its end in place. Nothing has changed.
    pub fn grow(&mut self, size: u64) -> Result<(), GrowError> {
        let current = self.chain.size();
        if size < current {
            return Err(GrowError::Smaller { size, current });
        }
        if size > MAX_SIZE {
            return Err(GrowError::TooLarge { size });
        }
        if self.chain.is_full() {
            return Err(GrowError::TooManyRegions);
        }
        if size == current {
            return Ok(());
        }
        self.engine.grow(&mut self.chain, size - current)
    }

    /// Takes all ranges back at once and drops what was kept with them. Their handles become stale.
    pub fn clear(&mut self) {
        for index in 0..self.chain.capacity() as u32 {
            if self.chain.node(index).state() == State::Used {
                self.engine.free(&mut self.chain, index);
            }
        }
        self.data.iter_mut().for_each(|data| *data = None);
    }

    /// What is known of a live range.
    ///
    /// # Errors
    ///
    /// [`HandleError`] when the handle is stale or belongs to another block.
    pub fn get(&self, handle: Handle) -> Result<AllocationInfo<'_, T>, HandleError> {
        let node = self.node(handle)?;
        let data = self.data_at(handle.index).ok_or(HandleError::Stale)?;
        Ok(AllocationInfo { offset: node.offset, size: node.size, data })
    }

    /// What is kept with a live range, for changing it.
    ///
    /// # Errors
    ///
    /// [`HandleError`] when the handle is stale or belongs to another block.
    pub fn data_mut(&mut self, handle: Handle) -> Result<&mut T, HandleError> {
        self.node(handle)?;
        self.data[handle.index as usize].as_mut().ok_or(HandleError::Stale)
    }

    pub(crate) fn data_at(&self, index: u32) -> Option<&T> {
        self.data.get(index as usize)?.as_ref()
    }

    /// The algorithm that the block was created with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.engine.algorithm()
    }

    /// Units in the block.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.chain.size()
    }

    /// True when no range is handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.tally().used_count == 0
    }

    /// The largest size that a request at alignment 1 could get now. O(1) for buddy and linear; for TLSF
    /// a walk over the largest size class.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.engine.largest_free(&self.chain)
    }

    /// A quick no: false when a request for `size` units is sure to be refused. O(1).
    ///
    /// True is no promise; alignment and the last 3 % of the size are not looked at.
    #[must_use]
    pub fn may_fit(&self, size: u64) -> bool {
        size <= self.largest_free_at_most()
    }

    /// No less than [`largest_free`](Self::largest_free), and at most 3 % more. O(1).
    #[must_use]
    pub fn largest_free_at_most(&self) -> u64 {
        self.engine.largest_free_at_most(&self.chain)
    }

    /// Sums that are kept up to date anyway. O(1).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let tally = self.chain.tally();
        Statistics {
            size: self.chain.size(),
            allocation_count: tally.used_count,
            allocated: tally.used,
            padding: tally.padding,
            free: tally.free,
            free_range_count: tally.free_count,
        }
    }

    /// Sums and extremes from a walk over all regions. O(regions).
    #[must_use]
    pub fn detailed_statistics(&self) -> DetailedStatistics {
        let mut detailed = DetailedStatistics {
            brief: self.statistics(),
            largest_free: self.largest_free(),
            ..DetailedStatistics::default()
        };
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

    /// All regions in address order: live ranges, padding and free space, without a gap.
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

    /// Writes the block as one JSON object, in the form that VMA and D3D12MA dump theirs:
    /// `TotalBytes`, `UnusedBytes`, `Allocations`, `UnusedRanges`, and `Suballocations` with `Offset`,
    /// `Type` (`FREE`, `PADDING` or what `describe` says) and `Size` of each region.
    ///
    /// `describe` adds the members of a live range from what its owner keeps with it, `Type` among them.
    ///
    /// # Errors
    ///
    /// Only those of `out`.
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

    /// The members of [`write_json`](Self::write_json), for an object that has others as well.
    ///
    /// # Errors
    ///
    /// Only those of the output.
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

    /// Walks everything and panics unless every structure agrees with every other. O(regions). Hidden, and no part of the
    /// stable interface: it is public because tests and fuzz targets, which are other crates, call it after each step.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.chain.check_invariants();
        self.engine.check_invariants(&self.chain);
        let mut used = 0;
        for region in self.regions() {
            if let RegionKind::Used { handle, .. } = region.kind {
                assert!(self.node(handle).is_ok(), "a live range can be named");
                used += 1;
            }
        }
        assert_eq!(used, self.chain.tally().used_count, "every live range has its data");
        assert_eq!(used as usize, self.data.iter().flatten().count(), "no data outlives its range");
        assert!(self.largest_free() <= self.engine.largest_free_at_most(&self.chain));
    }
}
