//! Which bytes of a ring are whose: the oldest ones come back first.
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
//! A request goes to the head, or where it does not fit before the end, to 0; the gap that it leaves at
//! the end is charged to its frame. What was allocated since the last [`close`](Ring::close) is the open
//! frame. Closed frames come back in the order in which they were closed, when their point of a queue's
//! timeline is reached. A ring of which nothing is used begins at 0 again, so a request of the whole
//! capacity fits every idle ring.
//!
//! Head and tail are equal when nothing and when everything is used; whether the bytes in use pass the end
//! tells which.
//!
//! # Cost
//!
//! A request that fits at the head is an addition and two comparisons, about 3 ns, most of it the wait for
//! the head that the request before it wrote. `close` and each frame that comes back are
//! a push and a pop of 32 bytes. What a refused request has to wait for is found by walking the frames
//! that are pending. Once there have been as many pending frames as there will be, nothing allocates host
//! memory; rings over buffers take back what is over before their list grows, so that these are the frames in flight.

use std::collections::VecDeque;

use allotment_suballoc::Alignment;

use super::{RingError, WaitFor};
use crate::device::TimelinePoint;

/// Hands out offsets below a capacity, and takes them back frame by frame, oldest first.
///
/// It knows offsets only: [`UploadRing`](super::UploadRing) puts one over a buffer.
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
    /// Where the next request is tried; at most the capacity.
    head: u64,
    /// The first byte of the oldest frame; at most the capacity.
    tail: u64,
    /// Whether the bytes in use pass the end: then they are all but those from `head` to `tail`, else those
    /// from `tail` to `head`.
    wrapped: bool,
    /// Where the room at the head ends: the tail where the ring has wrapped, else the capacity. Never below
    /// the head.
    limit: u64,
    open: Open,
    /// Closed and not come back, oldest first. None is empty.
    frames: VecDeque<Frame>,
    /// Of all in `frames`.
    closed_padding: u64,
    /// Most bytes in use when some came back; they only grow in between.
    peak: u64,
    failures: u64,
}

/// What was allocated since the last close.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Where the head was then.
    start: u64,
    padding: u64,
    /// Whether the ring has wrapped since.
    wrapped: bool,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    point: TimelinePoint,
    /// Where the head was when it was closed. It begins where the frame before it ends.
    end: u64,
    padding: u64,
    /// Whether it passes the end of the ring. At most one frame does, the open one included.
    wrapped: bool,
}

/// How full a ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingStatistics {
    /// Bytes of the ring.
    pub capacity: u64,
    /// Bytes in use, those that alignment and the end of the ring skipped included.
    pub used: u64,
    /// Bytes of `used` that nobody asked for.
    pub padding: u64,
    /// The most bytes that were in use at once.
    pub peak: u64,
    /// Frames that were closed and have not come back.
    pub frames: usize,
    /// Requests refused since the ring was made.
    pub failures: u64,
}

/// Where `size` bytes at a multiple of an alignment begin that lie between `head` and `limit`. None where they
/// do not fit, or are no bytes.
#[inline]
pub(super) fn place(head: u64, limit: u64, size: u64, alignment: Alignment) -> Option<u64> {
    let mask = alignment.get() - 1;
    // Where the next multiple is 2^64, this is 0, and so below the head.
    let offset = head.wrapping_add(mask) & !mask;
    let room = limit.saturating_sub(offset);
    // A size of 0 turns into the largest number, which is below no room.
    (size.wrapping_sub(1) < room && offset >= head).then_some(offset)
}

impl Ring {
    /// A ring of `capacity` bytes, all free. One of 0 bytes refuses everything.
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

    /// The offset of `size` bytes that nobody else has, at a multiple of `alignment`. They belong to the
    /// open frame.
    ///
    /// # Errors
    ///
    /// [`RingError`]; nothing but the count of failures has changed.
    #[inline]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<u64, RingError> {
        match self.allocate_at_head(size, alignment) {
            Some(offset) => Ok(offset),
            None => self.allocate_at_start(size, alignment),
        }
    }

    /// The same, where frames whose point is `reached` come back before the request is refused.
    #[inline]
    pub(super) fn allocate_reclaiming(
        &mut self,
        size: u64,
        alignment: Alignment,
        reached: impl FnMut(TimelinePoint) -> bool,
    ) -> Result<u64, RingError> {
        match self.allocate_at_head(size, alignment) {
            Some(offset) => Ok(offset),
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
        self.open.padding += offset - self.head;
        self.head = offset + size;
        Some(offset)
    }

    /// What [`allocate`](Self::allocate) does where there is no room at the head: once a round.
    #[cold]
    #[inline(never)]
    fn allocate_at_start(&mut self, size: u64, alignment: Alignment) -> Result<u64, RingError> {
        self.wrap(size).ok_or_else(|| {
            self.failures += 1;
            self.refusal(size, alignment)
        })
    }

    /// Takes a request at 0, and with it all that is left before the end.
    fn wrap(&mut self, size: u64) -> Option<u64> {
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
        RingError::FullForNow {
            requested: size,
            free: self.capacity - self.used(),
            largest: if self.wrapped { at_head } else { at_head.max(self.tail) },
            wait: self.what_helps(size, alignment),
        }
    }

    /// The first frame that must come back before a request fits, by trying them in turn.
    fn what_helps(&self, size: u64, alignment: Alignment) -> WaitFor {
        let fits_at_head = |limit: u64| place(self.head, limit, size, alignment).is_some();
        let mut wrapped = self.wrapped;
        let mut wait: Option<TimelinePoint> = None;
        // Whether all frames so far are of one queue. Of others nothing is known, so no later one is named.
        let mut one_queue = true;
        for (i, frame) in self.frames.iter().enumerate() {
            let last = wait.get_or_insert(frame.point);
            one_queue &= last.queue == frame.point.queue;
            if one_queue {
                last.value = last.value.max(frame.point.value);
            }
            wrapped &= !frame.wrapped;
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

    /// Gets room for that many pending frames.
    pub(super) fn expect_frames(&mut self, frames: usize) {
        self.frames.reserve(frames);
    }

    /// Whether the next frame makes the list of frames grow. Reclaiming first keeps it as long as there are frames in
    /// flight, where else it would hold all that fit into the ring.
    pub(super) fn is_list_full(&self) -> bool {
        self.frames.len() == self.frames.capacity()
    }

    /// Ends the open frame: the device uses what was allocated since the last close until `point`. A frame
    /// with nothing in it leaves nothing behind.
    pub fn close(&mut self, point: TimelinePoint) {
        if !self.is_open_empty() {
            let Open { padding, wrapped, .. } = self.open;
            self.frames.push_back(Frame { point, end: self.head, padding, wrapped });
            self.closed_padding += padding;
            self.begin_frame();
        }
    }

    /// Takes back what was allocated since the last close: it will not be used.
    pub fn discard(&mut self) {
        self.peak = self.peak.max(self.used());
        self.head = self.open.start;
        self.wrapped &= !self.open.wrapped;
        self.begin_frame();
        self.settle();
    }

    /// Takes back closed frames, oldest first, up to the first whose point is not `reached`. Returns how many
    /// bytes came back.
    pub fn reclaim(&mut self, mut reached: impl FnMut(TimelinePoint) -> bool) -> u64 {
        let before = self.used();
        self.peak = self.peak.max(before);
        while let Some(&Frame { point, end, padding, wrapped }) = self.frames.front() {
            if !reached(point) {
                break;
            }
            self.frames.pop_front();
            self.closed_padding -= padding;
            self.tail = end;
            self.wrapped &= !wrapped;
            // In each turn, so that all is well should `reached` panic in the next one.
            self.settle();
        }
        before - self.used()
    }

    /// How full the ring is.
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

    /// Bytes in use.
    fn used(&self) -> u64 {
        if self.wrapped { self.capacity - self.tail + self.head } else { self.head - self.tail }
    }

    /// The points of the frames that have not come back, oldest first.
    pub(super) fn points(&self) -> impl Iterator<Item = TimelinePoint> {
        self.frames.iter().map(|frame| frame.point)
    }

    /// True when nothing was allocated since the last close.
    pub(super) fn is_open_empty(&self) -> bool {
        self.head == self.open.start && !self.open.wrapped
    }

    fn begin_frame(&mut self) {
        self.open = Open { start: self.head, padding: 0, wrapped: false };
    }

    /// After bytes came back: where the room at the head ends now, and back to 0 when nothing is used.
    fn settle(&mut self) {
        if self.head == self.tail && !self.wrapped {
            (self.head, self.tail) = (0, 0);
            self.begin_frame();
        }
        self.limit = if self.wrapped { self.tail } else { self.capacity };
    }

    /// For tests: panics unless everything that is kept twice agrees.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
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
            assert!(skipped < size, "each frame has bytes that somebody asked for");
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
