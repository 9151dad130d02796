//! A ring that the device writes and the CPU reads later.
//!
//! ```text
//!   frames   [ point 7, tickets of A, B ][ point 8, ticket of C ][ open, ticket of D ]
//! ```
//!
//! A frame is freed when its point is reached *and* its tickets are dropped, in the order in which frames were
//! closed. The tickets of a frame share one reference count, which a later frame reuses.

use std::collections::VecDeque;
use std::sync::Arc;

use allotment_suballoc::Alignment;

use super::tracked_ring::{FRAMES, TrackedRing};
use super::{ReadbackError, RingDesc, RingError, RingStatistics, WaitFor};
use crate::device::{Device, DeviceError, TimelinePoint};
use crate::lifetime::{SubmissionTracker, WrongDevice};
use crate::memory::{AccessError, Allocator, MappedBuffer, ResourceError, ShortName};

/// A ring of readback memory that the device writes and the CPU reads, freed frame by frame.
///
/// Dropping it waits for submitted work for at most five seconds. If recordings that may use it are open, its
/// buffer is destroyed after them.
///
/// ```
/// use std::sync::Arc;
///
/// use allotment::device::simulated::{SimulatedGpu, Profile};
/// use allotment::device::{QueueDevice as _, QueueIndex, Submission};
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
/// // SAFETY: the submission is empty.
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
    /// The number of the first frame. The open frame has the number after the last.
    first: u64,
    open: Arc<Tickets>,
    /// Counts of freed frames; no ticket refers to them.
    spare: Vec<Arc<Tickets>>,
}

#[derive(Debug)]
struct Frame {
    point: TimelinePoint,
    tickets: Arc<Tickets>,
}

/// Shared by the ring and the tickets of one frame: the reference count is the number of tickets, plus one.
#[derive(Debug, Default)]
struct Tickets;

/// A range that the device will write, to be [read](ReadbackRing::read) afterwards. Dropping the ticket frees the
/// range, read or not.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let mut ring = gpu.readback()?;
/// let ticket = ring.allocate(1024, Alignment::new(16)?)?;
/// println!("record a copy of {} bytes to {} in {:?}", ticket.size(), ticket.offset(), ring.buffer());
/// drop(ticket); // given up: the ring reuses the range once the copy has completed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a ticket gives up its data"]
pub struct ReadbackTicket {
    tickets: Arc<Tickets>,
    frame: u64,
    offset: u64,
    size: u64,
}

impl ReadbackTicket {
    /// Returns the offset of the first byte in the ring's buffer, for recording commands.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl<D: Device> ReadbackRing<D> {
    /// Creates a ring with a buffer of this description.
    ///
    /// # Errors
    ///
    /// [`ResourceError`] if the buffer cannot be created, for example with a capacity of 0, or if the tracker tracks another
    /// device than the allocator's.
    #[inline(never)]
    pub fn new(
        allocator: &Arc<Allocator<D>>,
        tracker: &SubmissionTracker,
        desc: &RingDesc,
    ) -> Result<Self, ResourceError> {
        TrackedRing::new(allocator, tracker, desc).map(Self::with)
    }

    /// Creates a ring over a buffer of the caller, which [`RingDesc`] cannot describe.
    ///
    /// # Errors
    ///
    /// [`WrongDevice`] if the tracker tracks another device than that of the buffer, which is dropped then.
    pub fn over(tracker: &SubmissionTracker, buffer: MappedBuffer<D>) -> Result<Self, WrongDevice> {
        TrackedRing::over(tracker, buffer).map(Self::with)
    }

    fn with(inner: TrackedRing<D>) -> Self {
        // Without them, the first frame that finds no earlier frame completed would allocate.
        let spare = (0..FRAMES).map(|_| Arc::default()).collect();
        Self { inner, frames: VecDeque::with_capacity(FRAMES), first: 0, open: Arc::default(), spare }
    }

    /// Returns the buffer, for recording commands.
    #[must_use]
    pub fn buffer(&self) -> &D::Buffer {
        self.inner.buffer().handle_ref()
    }

    /// Allocates `size` bytes that the device will write, at a multiple of `alignment` from the start of the
    /// buffer. If the ring is full, completed frames without tickets are freed first.
    ///
    /// # Errors
    ///
    /// [`RingError`], which names what to wait for; only the failure count has changed.
    #[inline(never)]
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<ReadbackTicket, RingError> {
        let Self { inner, frames, first, spare, .. } = self;
        let (ring, _, tracker) = inner.split();
        let over = |point| free_frame(frames, first, spare, point, tracker);
        match ring.allocate_reclaiming(size, alignment, over) {
            Ok(offset) => {
                let frame = self.first + self.frames.len() as u64;
                Ok(ReadbackTicket { tickets: Arc::clone(&self.open), frame, offset, size })
            }
            Err(RingError::FullForNow { requested, free, largest, wait: WaitFor::Point(point) }) => {
                // Completed frames without tickets have just been freed, so the oldest frame is either not
                // completed or has tickets. If it completed just now, waiting for its point helps, and returns at
                // once.
                let held = self.frames.front_mut().is_some_and(|oldest| {
                    Arc::get_mut(&mut oldest.tickets).is_none()
                        && self.inner.tracker().is_reached(oldest.point)
                });
                let wait = if held { WaitFor::Tickets } else { WaitFor::Point(point) };
                Err(RingError::FullForNow { requested, free, largest, wait })
            }
            Err(error) => Err(error),
        }
    }

    /// Closes the open frame: the device has written everything allocated since the last close when `point` is
    /// reached.
    #[inline(never)]
    pub fn close(&mut self, point: TimelinePoint) {
        if !self.inner.ring.is_open_empty() {
            let closing = Closing { ring: self, point };
            // Reclaim before a list would grow: it then holds only frames in flight, and stops growing.
            if closing.ring.spare.is_empty() || closing.ring.inner.ring.is_list_full() {
                closing.ring.reclaim();
            }
        }
    }

    /// Frees everything allocated since the last close. It must not have been submitted. Its tickets become stale.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mut ring = gpu.readback()?;
    /// let ticket = ring.allocate(64, Alignment::new(16)?)?;
    /// ring.discard(); // the submission failed
    /// assert_eq!(ring.statistics().used, 0);
    /// assert!(ring.read(&ticket, &mut [0; 64]).is_err(), "stale");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn discard(&mut self) {
        self.inner.ring.discard();
        if Arc::get_mut(&mut self.open).is_none() {
            // A ticket that outlives the discard must not match the next frame's count.
            self.open = Arc::default();
        }
    }

    /// Frees completed frames without tickets, oldest first. Returns the number of freed bytes.
    /// [`allocate`](Self::allocate) does so itself when needed.
    pub fn reclaim(&mut self) -> u64 {
        let Self { inner, frames, first, spare, .. } = self;
        let (ring, _, tracker) = inner.split();
        ring.reclaim(|point| free_frame(frames, first, spare, point, tracker))
    }

    /// Copies the first bytes of a ticket's range to `bytes`.
    ///
    /// # Errors
    ///
    /// [`ReadbackError::NotYet`] with what to wait for, and the other variants. `bytes` is unchanged.
    #[inline(never)]
    pub fn read(&self, ticket: &ReadbackTicket, bytes: &mut [u8]) -> Result<(), ReadbackError> {
        self.read_at(ticket, 0, bytes)
    }

    /// Copies bytes of a ticket's range, from offset `at` on, to `bytes`.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # let mut ring = gpu.readback()?;
    /// # let ticket = ring.allocate(64, Alignment::new(16)?)?;
    /// let copied = gpu.submit(gpu.record("64 counters"), QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the submission is empty. A program submits a copy to the ring's buffer here.
    ///     unsafe { device.submit(queue, &Submission { waits, ..Submission::default() }) }
    /// })?;
    /// ring.close(copied);
    /// gpu.wait(copied)?;
    /// let mut last = [0];
    /// ring.read_at(&ticket, 63, &mut last)?; // without the 63 before
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read) does.
    pub fn read_at(&self, ticket: &ReadbackTicket, at: u64, bytes: &mut [u8]) -> Result<(), ReadbackError> {
        self.check_written(ticket)?;
        let (size, available) = (bytes.len() as u64, ticket.size);
        if at > available || size > available - at {
            return Err(AccessError::OutOfRange { offset: at, size, available, name: ShortName::NONE }.into());
        }
        Ok(self.inner.buffer().read(ticket.offset + at, bytes)?)
    }

    /// Returns the point at which the device has written a ticket's range; `None` while its frame is open.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mut ring = gpu.readback()?;
    /// let ticket = ring.allocate(64, Alignment::new(16)?)?;
    /// assert_eq!(ring.point(&ticket)?, None, "its frame is open");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadbackError::Stale`].
    pub fn point(&self, ticket: &ReadbackTicket) -> Result<Option<TimelinePoint>, ReadbackError> {
        // A frame before the first one was freed, and its bytes may be another ticket's by now.
        let index = ticket.frame.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let index = index.ok_or(ReadbackError::Stale)?;
        // One past the last closed frame is the open one, whose point is unknown.
        let (tickets, point) = match self.frames.get(index) {
            Some(frame) => (&frame.tickets, Some(frame.point)),
            None => (&self.open, None),
        };
        // A ticket keeps its count from being reused by another frame, so equal pointers mean the same frame.
        if Arc::ptr_eq(tickets, &ticket.tickets) { Ok(point) } else { Err(ReadbackError::Stale) }
    }

    fn check_written(&self, ticket: &ReadbackTicket) -> Result<(), ReadbackError> {
        let tracker = self.inner.tracker();
        let Some(point) = self.point(ticket)? else {
            return Err(ReadbackError::NotYet { wait: WaitFor::Submission });
        };
        if !tracker.is_reached(point) {
            return Err(ReadbackError::NotYet { wait: WaitFor::Point(point) });
        }
        // On a lost device every point counts as reached, but not everything was written.
        if tracker.is_lost() && tracker.timeline(point.queue).completed < point.value {
            return Err(ReadbackError::Device(DeviceError::Lost));
        }
        Ok(())
    }

    /// Returns how full the ring is.
    #[must_use]
    pub fn statistics(&self) -> RingStatistics {
        self.inner.ring.statistics()
    }

    /// For tests: checks that redundant state agrees.
    ///
    /// # Panics
    ///
    /// Panics if it does not, which is a bug of this crate.
    // Hidden: public for tests alone, which are other crates, and no part of the stable interface.
    #[doc(hidden)]
    #[expect(clippy::disallowed_methods, reason = "nothing is used again after it")]
    pub fn check_invariants(&self) {
        self.inner.ring.check_invariants();
        assert!(self.inner.ring.points().eq(self.frames.iter().map(|frame| frame.point)));
        assert!(self.spare.iter().all(|tickets| Arc::strong_count(tickets) == 1));
    }
}

/// Closes the open, non-empty frame when dropped, even if the device panics when asked for its progress.
struct Closing<'a, D: Device> {
    ring: &'a mut ReadbackRing<D>,
    point: TimelinePoint,
}

impl<D: Device> Drop for Closing<'_, D> {
    fn drop(&mut self) {
        let (ring, point) = (&mut *self.ring, self.point);
        // A count of a freed frame is reused, so that steady frames do not allocate.
        let next = ring.spare.pop().unwrap_or_default();
        ring.frames.push_back(Frame { point, tickets: core::mem::replace(&mut ring.open, next) });
        ring.inner.ring.close(point);
    }
}

/// Removes the oldest frame, which has this point, if it is completed and has no tickets. Returns whether it was
/// removed.
fn free_frame(
    frames: &mut VecDeque<Frame>,
    first: &mut u64,
    spare: &mut Vec<Arc<Tickets>>,
    point: TimelinePoint,
    tracker: &SubmissionTracker,
) -> bool {
    let held = |frame: &mut Frame| Arc::get_mut(&mut frame.tickets).is_none();
    if frames.front_mut().is_none_or(held) || !tracker.is_reached(point) {
        return false;
    }
    spare.extend(frames.pop_front().map(|frame| frame.tickets));
    *first += 1;
    true
}
