//! A ring that the device writes and the CPU reads later.
//!
//! ```text
//!   frames   [ point 7, tickets of A, B ][ point 8, ticket of C ][ open, ticket of D ]
//! ```
//!
//! A frame comes back when its point is reached *and* its tickets were dropped, in the order in which the
//! frames were closed. What makes a frame's tickets known is one count that they share, and that is used
//! again with the next frame.

use std::collections::VecDeque;
use std::sync::Arc;

use allotment_suballoc::Alignment;

use super::tracked_ring::{FRAMES, TrackedRing};
use super::{ReadbackError, RingDesc, RingError, RingStatistics, WaitFor};
use crate::device::{Device, DeviceError, TimelinePoint};
use crate::lifetime::SubmissionTracker;
use crate::memory::{AccessError, Allocator, MappedBuffer, ResourceError};

/// Room that the device writes and the CPU reads, which comes back frame by frame.
///
/// When it is dropped it waits, for five seconds at most, for what queues were given; where recordings are open that
/// may use it, its buffer goes when these are over.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{Device, QueueIndex, Submission};
/// use allotment::lifetime::SubmissionTracker;
/// use allotment::upload::{ReadbackError, ReadbackRing, RingDesc, WaitFor};
/// use allotment::{Alignment, Allocator, AllocatorDesc};
///
/// let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// let tracker = SubmissionTracker::new(device.clone())?;
/// let allocator = Arc::new(Allocator::new(device.clone(), AllocatorDesc::default())?);
/// let mut ring = ReadbackRing::new(&allocator, &tracker, &RingDesc::readback(1 << 20))?;
///
/// let recording = tracker.record("a query");
/// let ticket = ring.allocate(8, Alignment::new(8)?)?;
/// println!("record a copy to {:?} at {}", ring.buffer(), ticket.offset());
/// let mut result = [0; 8];
/// let wait = WaitFor::Submission;
/// assert_eq!(ring.read(&ticket, &mut result), Err(ReadbackError::NotYet { wait }));
///
/// let work = Submission::default();
/// // SAFETY: there is nothing in it.
/// let point = recording.submit(QueueIndex(0), |queue| unsafe { device.submit(queue, &work) })?;
/// ring.close(point);
/// tracker.wait(point, std::time::Duration::from_secs(1))?;
/// ring.read(&ticket, &mut result)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReadbackRing<D: Device> {
    inner: TrackedRing<D>,
    /// One for each frame of the ring.
    frames: VecDeque<Frame>,
    /// The number of the first of them. The open frame's is that of the last and one.
    first: u64,
    open: Arc<Tickets>,
    /// Of frames that came back; the ring's alone.
    spare: Vec<Arc<Tickets>>,
}

#[derive(Debug)]
struct Frame {
    point: TimelinePoint,
    tickets: Arc<Tickets>,
}

/// Shared by the ring and the tickets of one frame: who has it tells how many tickets there are.
#[derive(Debug, Default)]
struct Tickets;

/// Bytes that the device will write, to be [read](ReadbackRing::read) when it has. Dropping it gives them
/// back, read or not.
#[derive(Debug)]
#[must_use = "what is to be read back is given up when its ticket is dropped"]
pub struct ReadbackTicket {
    tickets: Arc<Tickets>,
    frame: u64,
    offset: u64,
    size: u64,
}

impl ReadbackTicket {
    /// The first byte in the ring's buffer, for recording.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl<D: Device> ReadbackRing<D> {
    /// A ring over a buffer that is created as described.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] where there is no such buffer to be had, as for a capacity of 0.
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: &RingDesc,
    ) -> Result<Self, ResourceError> {
        TrackedRing::new(allocator, tracker, desc).map(Self::with)
    }

    /// A ring over a buffer of the caller's making: one that [`RingDesc`] cannot describe.
    #[must_use]
    pub fn over(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Self {
        Self::with(TrackedRing::over(tracker, buffer))
    }

    fn with(inner: TrackedRing<D>) -> Self {
        // Or a frame that finds none of those before it over, for the first time, would have to make another.
        let spare = (0..FRAMES).map(|_| Arc::default()).collect();
        Self { inner, frames: VecDeque::with_capacity(FRAMES), first: 0, open: Arc::default(), spare }
    }

    /// The buffer, for recording.
    #[must_use]
    pub fn buffer(&self) -> &D::Buffer {
        self.inner.buffer().handle()
    }

    /// Room for `size` bytes that the device writes, at a multiple of `alignment` from the start of the
    /// buffer. Where there is none, frames that are over come back first.
    ///
    /// # Errors
    ///
    /// [`RingError`], which says what to wait for; nothing but the count of failures has changed.
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<ReadbackTicket, RingError> {
        let Self { inner: TrackedRing { ring, tracker, .. }, frames, first, spare, .. } = self;
        let over = |point| come_back(frames, first, spare, point, tracker);
        match ring.allocate_reclaiming(size, alignment, over) {
            Ok(offset) => {
                let frame = self.first + self.frames.len() as u64;
                Ok(ReadbackTicket { tickets: Arc::clone(&self.open), frame, offset, size })
            }
            Err(RingError::FullForNow { requested, free, largest, wait: WaitFor::Point(point) }) => {
                // Frames that are over have come back, so the oldest one is held by one thing or the other; or it came
                // to its end just now, and to wait for its point helps, which takes no time.
                let held = self.frames.front().is_some_and(|oldest| {
                    Arc::strong_count(&oldest.tickets) > 1 && self.inner.tracker.is_reached(oldest.point)
                });
                let wait = if held { WaitFor::Tickets } else { WaitFor::Point(point) };
                Err(RingError::FullForNow { requested, free, largest, wait })
            }
            Err(error) => Err(error),
        }
    }

    /// Says that the device has written what was allocated since the last close when `point` is reached.
    pub fn close(&mut self, point: TimelinePoint) {
        if !self.inner.ring.is_open_empty() {
            let closing = Closing { ring: self, point };
            if closing.ring.spare.is_empty() || closing.ring.inner.ring.is_list_full() {
                closing.ring.reclaim();
            }
        }
    }

    /// Takes back what was allocated since the last close: nothing of it was, or will be, submitted. Its
    /// tickets are stale.
    pub fn discard(&mut self) {
        self.inner.ring.discard();
        if Arc::strong_count(&self.open) > 1 {
            self.open = Arc::default();
        }
    }

    /// Takes back the frames that queues are done with and that have no tickets, oldest first. Returns how many
    /// bytes came back. [`allocate`](Self::allocate) does so by itself when it has to.
    pub fn reclaim(&mut self) -> u64 {
        let Self { inner: TrackedRing { ring, tracker, .. }, frames, first, spare, .. } = self;
        ring.reclaim(|point| come_back(frames, first, spare, point, tracker))
    }

    /// Copies the first bytes of what a ticket is for to `bytes`.
    ///
    /// # Errors
    ///
    /// [`ReadbackError::NotYet`] with what to wait for, and the others. `bytes` is as before.
    pub fn read(&self, ticket: &ReadbackTicket, bytes: &mut [u8]) -> Result<(), ReadbackError> {
        self.read_at(ticket, 0, bytes)
    }

    /// The same, from byte `at` on.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_at(&self, ticket: &ReadbackTicket, at: u64, bytes: &mut [u8]) -> Result<(), ReadbackError> {
        self.check_written(ticket)?;
        let (size, available) = (bytes.len() as u64, ticket.size);
        if at > available || size > available - at {
            return Err(AccessError::OutOfRange { offset: at, size, available }.into());
        }
        Ok(self.inner.buffer().read(ticket.offset + at, bytes)?)
    }

    /// Until when a ticket's bytes are written; `None` where that is unknown, since the frame is open.
    ///
    /// # Errors
    ///
    /// [`ReadbackError::Stale`].
    pub fn point(&self, ticket: &ReadbackTicket) -> Result<Option<TimelinePoint>, ReadbackError> {
        let index = ticket.frame.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let index = index.ok_or(ReadbackError::Stale)?;
        let (tickets, point) = match self.frames.get(index) {
            Some(frame) => (&frame.tickets, Some(frame.point)),
            None => (&self.open, None),
        };
        // As long as a ticket has it, it is no other frame's.
        if Arc::ptr_eq(tickets, &ticket.tickets) { Ok(point) } else { Err(ReadbackError::Stale) }
    }

    fn check_written(&self, ticket: &ReadbackTicket) -> Result<(), ReadbackError> {
        let tracker = &self.inner.tracker;
        let Some(point) = self.point(ticket)? else {
            return Err(ReadbackError::NotYet { wait: WaitFor::Submission });
        };
        if !tracker.is_reached(point) {
            return Err(ReadbackError::NotYet { wait: WaitFor::Point(point) });
        }
        // On a lost device everything counts as reached, and not everything is written.
        if tracker.is_lost() && tracker.timeline(point.queue).completed < point.value {
            return Err(ReadbackError::Device(DeviceError::Lost));
        }
        Ok(())
    }

    /// How full the ring is.
    #[must_use]
    pub fn statistics(&self) -> RingStatistics {
        self.inner.ring.statistics()
    }

    /// For tests: panics unless everything that is kept twice agrees.
    ///
    /// # Panics
    ///
    /// When it finds a mistake of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.inner.ring.check_invariants();
        assert!(self.inner.ring.points().eq(self.frames.iter().map(|frame| frame.point)));
        assert!(self.spare.iter().all(|tickets| Arc::strong_count(tickets) == 1));
    }
}

/// Closes the open frame, in which there is something, when it is dropped: also where the device panics when it is asked
/// how far queues are.
struct Closing<'a, D: Device> {
    ring: &'a mut ReadbackRing<D>,
    point: TimelinePoint,
}

impl<D: Device> Drop for Closing<'_, D> {
    fn drop(&mut self) {
        let (ring, point) = (&mut *self.ring, self.point);
        let next = ring.spare.pop().unwrap_or_default();
        ring.frames.push_back(Frame { point, tickets: core::mem::replace(&mut ring.open, next) });
        ring.inner.ring.close(point);
    }
}

/// Whether the oldest frame, whose point this is, is over; it is taken out then.
fn come_back(
    frames: &mut VecDeque<Frame>,
    first: &mut u64,
    spare: &mut Vec<Arc<Tickets>>,
    point: TimelinePoint,
    tracker: &SubmissionTracker,
) -> bool {
    let held = |frame: &Frame| Arc::strong_count(&frame.tickets) > 1;
    if frames.front().is_none_or(held) || !tracker.is_reached(point) {
        return false;
    }
    spare.extend(frames.pop_front().map(|frame| frame.tickets));
    *first += 1;
    true
}
