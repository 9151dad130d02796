//! A ring buffer over an integer range, freed in frames, oldest first.
//!
//! ```text
//!   0                                                          capacity
//!   │   free    │ frame 3 │ frame 4 │  open  │      free       │
//!               tail                         head
//!
//!   │ open │      free      │ frame 3 │ frame 4 │ open, a gap  │   wrapped
//!          head             tail
//! ```
//!
//! A request is placed at the head, or, if it does not fit before the end, at 0; the gap at the end is charged to
//! its frame. The ranges allocated since the last [`close`](Ring::close) are the open frame. Closed frames are
//! freed in the order in which they were closed, when their timeline points are reached. An empty ring restarts at
//! 0, so a request of the whole capacity fits every idle ring.
//!
//! If head and tail are equal, the ring is either empty or full; the flag `wrapped` tells which.
//!
//! # Cost
//!
//! A request that fits at the head costs an addition and two comparisons, about 3 ns, most of it latency of the
//! head that the previous request wrote. `close` and each freed frame are a push and a pop of 32 bytes. For a
//! refused request, the point to wait for is found by walking the pending frames. Once the highest number of
//! pending frames was reached, nothing allocates host memory; rings over buffers free completed frames before their
//! list grows, so it holds only the frames in flight.

use std::collections::VecDeque;

use allotment_suballoc::Alignment;

use super::{RingError, WaitFor};
use crate::device::TimelinePoint;

/// Allocates offsets below a capacity and frees them frame by frame, oldest first.
///
/// It handles offsets only: [`UploadRing`](super::UploadRing) adds a buffer.
///
/// ```
/// use allotment::Alignment;
/// use allotment::device::{QueueIndex, TimelinePoint, TimelineValue};
/// use allotment::upload::{Ring, RingError, WaitFor};
///
/// let mut ring = Ring::new(1024);
/// assert_eq!(ring.allocate(700, Alignment::ONE)?, 0);
/// let point = TimelinePoint { queue: QueueIndex(0), value: TimelineValue(1) };
/// ring.close(point);
///
/// let refused = ring.allocate(400, Alignment::ONE);
/// let wait = WaitFor::Point(point);
/// assert_eq!(refused, Err(RingError::FullForNow { requested: 400, free: 324, largest: 324, wait }));
/// ring.reclaim(|point| point.value <= TimelineValue(1));
/// assert_eq!(ring.allocate(400, Alignment::ONE)?, 0);
/// # Ok::<(), RingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ring {
    capacity: u64,
    /// The offset at which the next request is tried; at most the capacity.
    head: u64,
    /// The first byte of the oldest frame; at most the capacity.
    tail: u64,
    /// Whether the used range passes the end: then everything is used but `head` to `tail`, else only `tail` to
    /// `head`.
    wrapped: bool,
    /// The end of the free range at the head: the tail if the ring has wrapped, else the capacity. Never below the
    /// head.
    limit: u64,
    open: Open,
    /// Closed frames, oldest first. None is empty.
    frames: VecDeque<Frame>,
    /// The padding of all `frames`.
    closed_padding: u64,
    /// The most bytes in use at the time of a reclaim; between two reclaims the number only grows.
    peak: u64,
    failures: u64,
}

/// The ranges allocated since the last close.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// The head at that time.
    start: u64,
    padding: u64,
    /// Whether the ring has wrapped since.
    wrapped: bool,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    point: TimelinePoint,
    /// The head at the time of the close. The frame begins at the end of the one before.
    end: u64,
    padding: u64,
    /// Whether it passes the end of the ring. At most one frame does, including the open one.
    wrapped: bool,
}

/// Statistics of a [`Ring`].
///
/// ```
/// use allotment::Alignment;
/// use allotment::upload::Ring;
///
/// let mut ring = Ring::new(1024);
/// ring.allocate(100, Alignment::new(256)?)?;
/// ring.allocate(100, Alignment::new(256)?)?;
/// let now = ring.statistics();
/// assert_eq!((now.used, now.padding), (356, 156));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingStatistics {
    /// Size of the ring in bytes.
    pub capacity: u64,
    /// Bytes in use, including padding.
    pub used: u64,
    /// Bytes of `used` that alignment and the end of the ring skipped.
    pub padding: u64,
    /// The most bytes that were in use at once.
    pub peak: u64,
    /// Closed frames that are not freed yet.
    pub frames: usize,
    /// Refused requests since the ring was created.
    pub failures: u64,
}

/// Returns the offset of `size` bytes between `head` and `limit` at a multiple of an alignment. `None` if they do
/// not fit or if `size` is 0.
#[inline]
pub(super) fn place(head: u64, limit: u64, size: u64, alignment: Alignment) -> Option<u64> {
    let mask = alignment.get() - 1;
    // If the next multiple is 2^64 this is 0, and so below the head.
    let offset = head.wrapping_add(mask) & !mask;
    let room = limit.saturating_sub(offset);
    // A size of 0 becomes the largest number, which exceeds every room: one comparison rejects both cases.
    (size.wrapping_sub(1) < room && offset >= head).then_some(offset)
}

impl Ring {
    /// Creates a ring of `capacity` bytes, all free. A ring of 0 bytes refuses every request.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self {
            capacity,
            head: 0,
            tail: 0,
            wrapped: false,
            limit: capacity,
            open: Open { start: 0, padding: 0, wrapped: false },
            frames: VecDeque::new(),
            closed_padding: 0,
            peak: 0,
            failures: 0,
        }
    }

    /// Allocates `size` bytes of the open frame, at a multiple of `alignment`. Returns their offset.
    ///
    /// # Errors
    ///
    /// [`RingError`]; only the failure count has changed.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<u64, RingError> {
        match self.allocate_at_head(size, alignment) {
            Some(offset) => Ok(offset),
            None => self.allocate_at_start(size, alignment),
        }
    }

    /// Like `allocate`, but frees the frames whose point is `reached` before it refuses the request.
    #[inline]
    pub(super) fn allocate_reclaiming(
        &mut self,
        size: u64,
        alignment: Alignment,
        reached: impl FnMut(TimelinePoint) -> bool,
    ) -> Result<u64, RingError> {
        match self.allocate_at_head(size, alignment) {
            Some(offset) => Ok(offset),
            // Wrapping before reclaiming: it needs no driver call, while `reached` may make one for each frame.
            None => self.wrap(size).map_or_else(
                || {
                    self.reclaim(reached);
                    self.allocate(size, alignment)
                },
                Ok,
            ),
        }
    }

    #[inline]
    fn allocate_at_head(&mut self, size: u64, alignment: Alignment) -> Option<u64> {
        let offset = place(self.head, self.limit, size, alignment)?;
        // The gap belongs to the open frame, so that each frame begins where the one before it ends.
        self.open.padding += offset - self.head;
        self.head = offset + size;
        Some(offset)
    }

    /// The path of [`allocate`](Self::allocate) without room at the head: once per round.
    #[cold]
    #[inline(never)]
    fn allocate_at_start(&mut self, size: u64, alignment: Alignment) -> Result<u64, RingError> {
        self.wrap(size).ok_or_else(|| {
            // Counted here, off the hot path.
            self.failures += 1;
            self.refusal(size, alignment)
        })
    }

    /// Places a request at 0, and charges the rest before the end to the open frame.
    fn wrap(&mut self, size: u64) -> Option<u64> {
        // Offset 0 satisfies every alignment, so the size alone decides. Bytes from 0 to the tail are free unless
        // the ring has wrapped already.
        if self.wrapped || !(1..=self.tail).contains(&size) {
            return None;
        }
        self.open.padding += self.capacity - self.head;
        self.open.wrapped = true;
        self.wrapped = true;
        self.limit = self.tail;
        self.head = size;
        Some(0)
    }

    fn refusal(&self, size: u64, alignment: Alignment) -> RingError {
        if size == 0 {
            return RingError::ZeroSize;
        }
        if size > self.capacity {
            return RingError::NeverFits { requested: size, capacity: self.capacity };
        }
        let at_head = self.limit - self.head;
        // Unless wrapped there are two free ranges, at the head and at 0; a request must fit into one of them.
        RingError::FullForNow {
            requested: size,
            free: self.capacity - self.used(),
            largest: if self.wrapped { at_head } else { at_head.max(self.tail) },
            wait: self.first_useful_point(size, alignment),
        }
    }

    /// Returns the first frame that must be freed before a request fits, by trying them in turn.
    fn first_useful_point(&self, size: u64, alignment: Alignment) -> WaitFor {
        let fits_at_head = |limit: u64| place(self.head, limit, size, alignment).is_some();
        let mut wrapped = self.wrapped;
        let mut wait: Option<TimelinePoint> = None;
        // Whether all frames so far are of one queue. The order of points on different queues is unknown, so a
        // later point is named only on one queue.
        let mut one_queue = true;
        for (i, frame) in self.frames.iter().enumerate() {
            let last = wait.get_or_insert(frame.point);
            one_queue &= last.queue == frame.point.queue;
            if one_queue {
                last.value = last.value.max(frame.point.value);
            }
            // Frames are freed in order, so a request waits for the latest point among those before, too.
            wrapped &= !frame.wrapped;
            // If this was the last frame and nothing is open, the ring restarts at 0 and everything fits.
            let idle = i + 1 == self.frames.len() && self.is_open_empty();
            let fits = match wrapped {
                true => fits_at_head(frame.end),
                false => idle || size <= frame.end || fits_at_head(self.capacity),
            };
            if fits {
                return WaitFor::Point(*last);
            }
        }
        WaitFor::Submission
    }

    /// Reserves room for this number of pending frames.
    pub(super) fn expect_frames(&mut self, frames: usize) {
        self.frames.reserve(frames);
    }

    /// Returns whether the next frame makes the list of frames grow. Reclaiming first keeps the list as long as the
    /// number of frames in flight; otherwise it would grow to the number that fits the ring.
    pub(super) fn is_list_full(&self) -> bool {
        self.frames.len() == self.frames.capacity()
    }

    /// Closes the open frame: the device uses everything allocated since the last close until `point`. An empty
    /// frame is not recorded.
    pub fn close(&mut self, point: TimelinePoint) {
        if !self.is_open_empty() {
            let Open { padding, wrapped, .. } = self.open;
            self.frames.push_back(Frame { point, end: self.head, padding, wrapped });
            self.closed_padding += padding;
            self.begin_frame();
        }
    }

    /// Frees everything allocated since the last close.
    pub fn discard(&mut self) {
        self.peak = self.peak.max(self.used());
        self.head = self.open.start;
        // At most one frame passes the end. If it is the open one, the ring does not wrap without it.
        self.wrapped &= !self.open.wrapped;
        self.begin_frame();
        self.update_limit();
    }

    /// Frees closed frames, oldest first, up to the first whose point is not `reached`. Returns the number of freed
    /// bytes.
    pub fn reclaim(&mut self, mut reached: impl FnMut(TimelinePoint) -> bool) -> u64 {
        let before = self.used();
        self.peak = self.peak.max(before);
        // In order, even if later frames of another queue have completed: free ranges stay contiguous.
        while let Some(&Frame { point, end, padding, wrapped }) = self.frames.front() {
            if !reached(point) {
                break;
            }
            self.frames.pop_front();
            self.closed_padding -= padding;
            self.tail = end;
            self.wrapped &= !wrapped;
            // In each turn, so that the state is valid if `reached` panics in the next.
            self.update_limit();
        }
        before - self.used()
    }

    /// Returns how full the ring is.
    #[must_use]
    pub fn statistics(&self) -> RingStatistics {
        let used = self.used();
        RingStatistics {
            capacity: self.capacity,
            used,
            padding: self.closed_padding + self.open.padding,
            peak: self.peak.max(used),
            frames: self.frames.len(),
            failures: self.failures,
        }
    }

    /// Returns the bytes in use.
    fn used(&self) -> u64 {
        if self.wrapped { self.capacity - self.tail + self.head } else { self.head - self.tail }
    }

    /// Returns the points of the pending frames, oldest first.
    pub(super) fn points(&self) -> impl Iterator<Item = TimelinePoint> {
        self.frames.iter().map(|frame| frame.point)
    }

    /// Returns true if nothing was allocated since the last close.
    pub(super) fn is_open_empty(&self) -> bool {
        self.head == self.open.start && !self.open.wrapped
    }

    fn begin_frame(&mut self) {
        self.open = Open { start: self.head, padding: 0, wrapped: false };
    }

    /// Updates the limit after bytes were freed, and restarts an empty ring at 0.
    fn update_limit(&mut self) {
        if self.head == self.tail && !self.wrapped {
            // Head and tail would otherwise stay in the middle, and a request of the whole capacity would not fit.
            (self.head, self.tail) = (0, 0);
            self.begin_frame();
        }
        self.limit = if self.wrapped { self.tail } else { self.capacity };
    }

    /// For tests: checks that redundant state agrees.
    ///
    /// # Panics
    ///
    /// Panics if it does not, which is a bug of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        assert!(self.head <= self.limit && self.limit <= self.capacity && self.tail <= self.capacity);
        assert_eq!(self.limit, if self.wrapped { self.tail } else { self.capacity });
        let bytes = |start: u64, end: u64, wrapped: bool| {
            if wrapped { self.capacity - start + end } else { end - start }
        };
        let (mut at, mut used, mut padding, mut wraps) = (self.tail, 0, 0, 0);
        let Open { start, padding: open_padding, wrapped: open_wrapped } = self.open;
        for &Frame { end, padding: skipped, wrapped, .. } in &self.frames {
            let size = bytes(at, end, wrapped);
            assert!(skipped < size, "each frame has bytes that are not padding");
            (at, used, padding) = (end, used + size, padding + skipped);
            wraps += u32::from(wrapped);
        }
        assert_eq!(at, start, "each frame begins where the one before it ends");
        assert_eq!(padding, self.closed_padding);
        used += bytes(start, self.head, open_wrapped);
        wraps += u32::from(open_wrapped);
        assert_eq!((wraps, used), (u32::from(self.wrapped), self.used()), "one frame at most passes the end");
        assert!(used <= self.capacity && padding + open_padding <= used);
        assert!(used > 0 || self.head == 0, "an idle ring begins at 0");
    }
}

#[cfg(test)]
mod tests;
