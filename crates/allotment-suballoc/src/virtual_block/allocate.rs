//! Requests, and the ranges that they get.

use super::{Allocation, VirtualBlock};
use crate::algorithm::{Engine, Ranges, Taken, each};
use crate::algorithm::{NONE, State};
use crate::{Algorithm, AllocateError, Handle, MAX_SIZE, Refused, Request, StackSide};

impl<T> VirtualBlock<T> {
    /// Allocates a range and stores `data` with it.
    ///
    /// # Errors
    ///
    /// [`Refused`] contains the reason, an [`AllocateError`], and returns `data`. Nothing has changed.
    // Always, since a request and its result would go through memory, written in parts and read as a whole, which the
    // processor cannot pass on: a tenth of what TLSF takes, and more than all that a linear block does.
    #[doc(alias = "vmaVirtualAllocate")]
    #[inline(always)]
    pub fn allocate(&mut self, request: Request, data: T) -> Result<Allocation, Refused<T>> {
        // Only the two narrow engines are tried in the caller: each more would add its straight line to every call of
        // `allocate` in a program. The wide ones, and what is not common, are a call away.
        if let Engine::Tlsf(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(&request) {
                return Ok(self.store(taken, request.size, data));
            }
        } else if let Engine::Linear(ranges) = &mut self.engine {
            if let Some(taken) = ranges.allocate_quickly(&request) {
                return Ok(self.store(taken, request.size, data));
            }
        }
        self.allocate_any(&request, data)
    }

    #[inline(never)]
    fn allocate_any(&mut self, request: &Request, data: T) -> Result<Allocation, Refused<T>> {
        let quickly = match &mut self.engine {
            Engine::WideTlsf(ranges) => ranges.allocate_quickly(request),
            Engine::WideLinear(ranges) => ranges.allocate_quickly(request),
            // The others tried already, or have no quick way.
            _ => None,
        };
        match quickly {
            Some(taken) => Ok(self.store(taken, request.size, data)),
            None => self.allocate_further(request, data),
        }
    }

    #[inline(never)]
    fn allocate_further(&mut self, request: &Request, data: T) -> Result<Allocation, Refused<T>> {
        // The data goes back to the caller in each refusal: it may be all that holds a resource.
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
    // Never, since its callers have loops over blocks, beside which too few registers would be left for it.
    #[inline(never)]
    pub fn allocate_if_it_fits(
        &mut self,
        request: Request,
        data: T,
    ) -> Result<Option<Allocation>, AllocateError> {
        // A refusal is part of the plan here, so it must not pay for an error: `NoSpace` asks for the largest free region.
        match allocate_quickly(&mut self.engine, &request) {
            Some(taken) => Ok(Some(self.store(taken, request.size, data))),
            None => self.allocate_further_if_it_fits(&request, data),
        }
    }

    /// Allocates a range like [`allocate_if_it_fits`](Self::allocate_if_it_fits) where that takes a look at few free regions, or at no
    /// more than `regions` that no request has looked at yet. For a caller that tries other blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`allocate_if_it_fits`](Self::allocate_if_it_fits), which changed nothing; and
    /// [`Unprepared`](AllocateError::Unprepared) where more regions have to be looked at: the next call goes on from there, as
    /// [`prepare`](Self::prepare) does.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Alignment, Request, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 16, Algorithm::Tlsf)?;
    /// let request = Request::new(100).aligned(Alignment::new(256)?);
    /// assert!(block.allocate_if_found_soon(request, "texture", 1000)?.is_some());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(never)]
    pub fn allocate_if_found_soon(
        &mut self,
        request: Request,
        data: T,
        regions: usize,
    ) -> Result<Option<Allocation>, AllocateError> {
        match allocate_quickly(&mut self.engine, &request) {
            Some(taken) => Ok(Some(self.store(taken, request.size, data))),
            None if self.prepare(&request, regions) => self.allocate_further_if_it_fits(&request, data),
            None => Err(AllocateError::Unprepared),
        }
    }

    #[inline(never)]
    fn allocate_further_if_it_fits(
        &mut self,
        request: &Request,
        data: T,
    ) -> Result<Option<Allocation>, AllocateError> {
        let taken = self.take_a_range(request)?;
        Ok(taken.map(|taken| self.store(taken, request.size, data)))
    }

    /// Allocates a range that, with the padding behind it, ends at or below `limit`, at the lowest such offset.
    /// For moving ranges towards the start of the block.
    ///
    /// Ignores the request's strategy. Costs as much as [`FitStrategy::LowestOffset`](crate::FitStrategy::LowestOffset) with TLSF, and
    /// O(free regions) with the buddy algorithm.
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

    /// Does a part of what a request may have to do once in a block with very many free regions: looks at up to `regions` that no such
    /// request has looked at yet. Returns `true` if the next call of [`allocate`](Self::allocate) for this request looks at few. For a
    /// block behind a lock that must not be held for as long as a look at all regions takes.
    ///
    /// A look at 0 regions only tells. There is something to prepare for requests with [`FitStrategy::LowestOffset`](crate::FitStrategy::LowestOffset), and where most regions that are large
    /// enough for a request are aligned wrongly for it.
    ///
    /// ```
    /// use allotment_suballoc::{Algorithm, Request, FitStrategy, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1 << 20, Algorithm::Tlsf)?;
    /// let request = Request::new(16).with_strategy(FitStrategy::LowestOffset);
    /// while !block.prepare(&request, 1000) {
    ///     // Another thread may have the block here.
    /// }
    /// assert_eq!(block.allocate(request, "texture")?.offset, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare(&mut self, request: &Request, regions: usize) -> bool {
        // A request that is refused looks for nothing.
        self.check_request(request).is_err()
            || each!(&mut self.engine, ranges => ranges.prepare(request, regions))
    }

    /// Allocates a range at an offset: in the free units directly behind the live range `after`, or at the start of the
    /// block where that is `None`. For moving ranges to places that were planned.
    ///
    /// Ignores the request's strategy. O(1) with TLSF: nothing is searched, so the range before the place must be named.
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
    /// index that a call of [`allocate`](Self::allocate) makes could tell.
    #[must_use]
    pub fn room_for(&self, request: &Request) -> Option<u64> {
        // The checks of `allocate`, without the cost of an error.
        if request.size == 0 || request.size > MAX_SIZE || self.engine.is_full() {
            return None;
        }
        self.engine.room_for(request)
    }

    /// Returns which sizes the free ranges have, of 64 classes from that of 2^`from_log2` units on: for an allocator over
    /// several blocks, which learns by it which of them need not be searched for the closest fit.
    ///
    /// Bit *i* stands for the class of [`SizeClasses<3>`](crate::SizeClasses) that is *i* behind that of 2^`from_log2`, the last bit
    /// for all larger ones as well. Where a bit is 0, no free range has such a size. O(1); in blocks of another algorithm than
    /// [`Algorithm::Tlsf`] all bits up to that of [`largest_free_at_most`](Self::largest_free_at_most).
    ///
    /// ```
    /// use allotment_suballoc::{Request, SizeClasses, VirtualBlock};
    ///
    /// let mut block = VirtualBlock::new(1000, Default::default())?;
    /// let hole = block.allocate(Request::new(100), ())?;
    /// block.allocate(Request::new(300), ())?;
    /// block.free(hole.handle)?;
    /// let class = |size| SizeClasses::<3>::class_of(size) - SizeClasses::<3>::class_of(64);
    /// assert_eq!(block.free_size_classes(6), 1 << class(100) | 1 << class(600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `from_log2` is below 5 or above 40.
    #[must_use]
    #[inline]
    pub fn free_size_classes(&self, from_log2: u32) -> u64 {
        assert!(
            (5..=40).contains(&from_log2),
            "classes of an eighth begin with 2^5 units, and none is beyond every size"
        );
        self.engine.free_size_classes(from_log2)
    }

    fn allocate_region_below(&mut self, request: &Request, limit: u64) -> Result<Taken, AllocateError> {
        self.check_placed_request(request)?;
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
        //   │ after │░░░░░░░░ free ░░░░░░░░│          the region behind `after` has to contain the place whole
        //                │ offset…end │
        self.check_placed_request(request)?;
        let size = request.size;
        let refused = AllocateError::NotFree { offset, size };
        let end = offset.checked_add(size).ok_or(refused)?;
        if !request.alignment.is_aligned(offset) {
            return Err(refused);
        }
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

    /// Checks a request that says where its range is to be.
    fn check_placed_request(&self, request: &Request) -> Result<(), AllocateError> {
        let algorithm = self.engine.algorithm();
        if algorithm == Algorithm::Linear {
            return Err(AllocateError::InOrder);
        }
        self.check_request(request)?;
        if request.side == StackSide::Upper { Err(AllocateError::OneSided { algorithm }) } else { Ok(()) }
    }

    #[inline(always)]
    fn check_request(&self, request: &Request) -> Result<(), AllocateError> {
        // A size of 0 wraps round.
        if request.size.wrapping_sub(1) < MAX_SIZE && !self.engine.is_full() {
            Ok(())
        } else {
            Err(bad_request(request))
        }
    }

    #[cold]
    fn no_space(&self, request: &Request) -> AllocateError {
        AllocateError::NoSpace {
            size: request.size,
            alignment: request.alignment,
            free: self.engine.tally().free,
            largest_free: self.largest_free(),
        }
    }
}

// For `allocate_if_it_fits`: inlined there, but for the rarer algorithms.

#[inline(always)]
fn allocate_quickly(engine: &mut Engine, request: &Request) -> Option<Taken> {
    match engine {
        Engine::Tlsf(ranges) => ranges.allocate_quickly(request),
        Engine::Linear(ranges) => ranges.allocate_quickly(request),
        _ => {
            // Taken apart, so that only this result is in memory.
            let taken = allocate_in_other(engine, request)?;
            Some(taken)
        }
    }
}

#[inline(never)]
fn allocate_in_other(engine: &mut Engine, request: &Request) -> Option<Taken> {
    each!(engine, ranges => ranges.allocate_quickly(request))
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
