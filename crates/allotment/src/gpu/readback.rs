//! The readback ring of a [`Gpu`](super::Gpu), created on first use, and copies to it.

use core::fmt;
use core::ops::Deref;
use std::sync::{MutexGuard, TryLockError};

use allotment_suballoc::Alignment;

use super::{Frame, Gpu, ReadError, SubmitError};
use crate::device::{Device, QueueIndex, TimelinePoint};
use crate::memory::{Buffer, ResourceError};
use crate::sync::locked;
use crate::upload::{ReadbackRing, ReadbackSource, ReadbackTicket, RingError};

/// Where [`Frame::read_back`] puts bytes: copies between multiples of 16 are fast on every device.
const COPY_ALIGNMENT: Alignment = match Alignment::new(16) {
    Ok(alignment) => alignment,
    Err(_) => panic!("16 is a power of two"),
};

/// The readback ring, for as long as this is alive: other threads wait for it meanwhile. Returned by
/// [`Gpu::readback`]. It has the methods of a [`ReadbackRing`], of which those that read it come by way of [`Deref`].
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let mut ring = gpu.readback()?;
/// let ticket = ring.allocate(64, Alignment::new(16)?)?; // for a copy that a frame records
/// println!("the copy goes to byte {} of {:?}", ticket.offset(), ring.buffer());
/// drop(ring); // other threads wait until here
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The ring itself stays where it is: that of another device cannot be put in its place.
///
/// ```compile_fail,E0596
/// # use allotment::device::Device;
/// # use allotment::prelude::*;
/// fn exchange<D: Device + Clone>(one: &Gpu<D>, other: &Gpu<D>) {
///     std::mem::swap(&mut *one.readback().unwrap(), &mut *other.readback().unwrap());
/// }
/// ```
pub struct Readback<'a, D: Device> {
    /// Never `None`.
    ring: MutexGuard<'a, Option<ReadbackRing<D>>>,
}

impl<D: Device> Gpu<D> {
    /// Locks the ring of memory that the GPU writes and the CPU reads, which the first call creates as
    /// [`GpuDesc::readback`](super::GpuDesc::readback) says.
    ///
    /// [`Frame::read_back`] copies a buffer to the ring. For copies of your own, images or queries, allocate a range,
    /// record a copy to it, submit, and [close](ReadbackRing::close) the ring with the point that the submission
    /// returned, before the lock is released; some frames later, read the ticket. The end of each frame reclaims what
    /// was read.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let picture = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("picture"))?;
    /// gpu.uploads().write_buffer(&picture, 0, &[7; 256])?;
    ///
    /// let frame = gpu.begin_frame()?;
    /// let mut ring = gpu.readback()?;
    /// let ticket = ring.allocate(256, Alignment::new(16)?)?;
    /// let commands = frame.command_allocator(QueueIndex(0))?;
    /// commands.copy_buffer((&picture.handle(), 0), (ring.buffer(), ticket.offset()), 256);
    /// let copied = frame.submit(QueueIndex(0), |queue, waits| {
    ///     // SAFETY: the buffers are alive until the GPU has completed the frame, and the ranges lie in them.
    ///     unsafe { device.submit_commands(queue, waits, &[&commands]) }
    /// })?;
    /// ring.close(copied);
    /// drop((ring, commands));
    /// frame.end()?;
    ///
    /// gpu.wait(copied)?; // a program reads some frames later instead
    /// let mut bytes = [0; 256];
    /// gpu.readback()?.read(&ticket, &mut bytes)?;
    /// assert_eq!(bytes, [7; 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ResourceError`] where the ring's buffer cannot be created. The next call tries again.
    #[inline(never)]
    pub fn readback(&self) -> Result<Readback<'_, D>, ResourceError> {
        let mut ring = locked(&self.shared.readback);
        if ring.is_none() {
            *ring = Some(ReadbackRing::new(self.allocator(), self.tracker(), &self.desc().readback)?);
        }
        Ok(Readback { ring })
    }

    /// Reclaims what was read, unless a thread uses the ring at present.
    pub(super) fn reclaim_readback(&self) {
        // The thread that ends the frame may be the one that holds the lock.
        let mut ring = match self.shared.readback.try_lock() {
            Ok(ring) => ring,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // Nothing is lost: an allocation that finds the ring full reclaims as well, and so does the end of the next
            // frame.
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(ring) = &mut *ring {
            ring.reclaim();
        }
    }
}

impl<D: Device> Frame<D> {
    /// Copies `size` bytes of a buffer, from byte `offset` on, to where the CPU reads them once the GPU has completed
    /// the copy: some frames later, without a wait. The copy waits for everything that any queue was given before this
    /// call, pending uploads included.
    ///
    /// The ticket is read through [`Gpu::readback`], and dropped to make room. The buffer may be dropped right after
    /// this call.
    ///
    /// Each call is a submission: a program that reads many buffers in a frame records its copies, as
    /// [`Gpu::readback`] shows. Locks the ring: do not call this with a [`Readback`] alive in the same thread.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let counters = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("counters"))?;
    /// gpu.uploads().write_buffer(&counters, 0, &[7; 256])?;
    ///
    /// let mut coming = std::collections::VecDeque::new();
    /// for _ in 0..10 {
    ///     let frame = gpu.begin_frame()?; // the GPU has completed the frame three frames ago
    ///     if coming.len() == gpu.desc().frames_in_flight.get() {
    ///         let (ticket, mut bytes) = (coming.pop_front().unwrap(), [0; 16]);
    ///         gpu.readback()?.read(&ticket, &mut bytes)?;
    ///         assert_eq!(bytes, [7; 16]);
    ///     }
    ///     coming.push_back(frame.read_back(QueueIndex(0), &counters, 64, 16)?);
    ///     frame.end()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError`]; nothing was submitted.
    #[inline(never)]
    pub fn read_back(
        &self,
        queue: QueueIndex,
        buffer: &Buffer<D>,
        offset: u64,
        size: u64,
    ) -> Result<ReadbackTicket, ReadError> {
        let gpu = self.gpu();
        let copy = (queue, offset, size);
        let source = ReadbackSource::new(gpu.allocator(), gpu.tracker(), self.recording(), buffer, copy)
            .map_err(|error| ReadError::from(error).of(buffer.short_name()))?;
        // The queue may be another one than those that write, also the copy of a move, and queues run side by side. Before
        // the ring is locked, since what is submitted may end other recordings, which runs destructors.
        let mut waits = gpu
            .submission_waits(queue, &[])
            .map_err(|error| ReadError::Submit(SubmitError::Uploads(error)))?;
        gpu.tracker().submitted().points().for_each(|point| waits.insert(point));
        let mut ring = gpu.readback().map_err(ReadError::Ring)?;
        // Where the submission fails, the dropped ticket gives the range back when the ring is closed next.
        let ticket = ring.allocate(size, COPY_ALIGNMENT).map_err(ReadError::Full)?;
        let copied = self.submit_with(queue, &waits, |queue, waits| {
            ring.submit_copy(gpu.device(), (queue, waits), &source, &ticket)
        });
        ring.close(copied.map_err(|error| ReadError::Submit(SubmitError::Commands(error)))?);
        Ok(ticket)
    }
}

// No `DerefMut`: whoever has a `&mut` to the whole ring can put that of another device in its place.
impl<D: Device> Deref for Readback<'_, D> {
    type Target = ReadbackRing<D>;

    fn deref(&self) -> &ReadbackRing<D> {
        match &*self.ring {
            Some(ring) => ring,
            None => unreachable!("created before the guard"),
        }
    }
}

impl<D: Device> Readback<'_, D> {
    fn ring(&mut self) -> &mut ReadbackRing<D> {
        match &mut *self.ring {
            Some(ring) => ring,
            None => unreachable!("created before the guard"),
        }
    }

    /// Allocates a range for a copy that the device is about to make, as [`ReadbackRing::allocate`].
    ///
    /// # Errors
    ///
    /// [`RingError`].
    pub fn allocate(&mut self, size: u64, alignment: Alignment) -> Result<ReadbackTicket, RingError> {
        self.ring().allocate(size, alignment)
    }

    /// Closes the open frame of the ring with the point at which its copies are complete, as [`ReadbackRing::close`].
    pub fn close(&mut self, point: TimelinePoint) {
        self.ring().close(point);
    }

    /// Gives the ranges of the open frame back, whose copies were not submitted, as [`ReadbackRing::discard`].
    pub fn discard(&mut self) {
        self.ring().discard();
    }

    /// Frees the frames that have completed and whose tickets are dropped, as [`ReadbackRing::reclaim`]. Returns how many
    /// bytes were freed.
    pub fn reclaim(&mut self) -> u64 {
        self.ring().reclaim()
    }
}

impl<D: Device> fmt::Debug for Readback<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readback").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
