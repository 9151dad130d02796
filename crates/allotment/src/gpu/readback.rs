//! The readback ring of a [`Gpu`](super::Gpu), created on first use, and copies to it.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, TryLockError};

use allotment_suballoc::Alignment;

use super::{Frame, FrameReadbackError, Gpu};
use crate::device::{Device, QueueIndex};
use crate::lifetime::TimelinePoints;
use crate::memory::{Buffer, ResourceError};
use crate::sync::locked;
use crate::upload::{ReadbackRing, ReadbackSource, ReadbackTicket};

/// Where [`Frame::read_back`] puts bytes: copies between multiples of 16 are fast on every device.
const COPY_ALIGNMENT: Alignment = match Alignment::new(16) {
    Ok(alignment) => alignment,
    Err(_) => panic!("16 is a power of two"),
};

/// The readback ring, for as long as this is alive: other threads wait for it meanwhile. Returned by
/// [`Gpu::readback`].
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
    /// let mut commands = frame.command_allocator(QueueIndex(0))?;
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
    /// [`FrameReadbackError`]; nothing was submitted.
    pub fn read_back(
        &self,
        queue: QueueIndex,
        buffer: &Buffer<D>,
        offset: u64,
        size: u64,
    ) -> Result<ReadbackTicket, FrameReadbackError> {
        let gpu = self.gpu();
        let range = (offset, size);
        let source = ReadbackSource::new(gpu.allocator(), gpu.tracker(), self.recording(), buffer, range)?;
        let mut ring = gpu.readback().map_err(FrameReadbackError::Ring)?;
        // Where the submission fails, the dropped ticket gives the range back when the ring is closed next.
        let ticket = ring.allocate(size, COPY_ALIGNMENT).map_err(FrameReadbackError::Full)?;
        // The queue may be another one than those that write, and queues run side by side.
        let mut waits = gpu.tracker().submitted();
        source.moved_at.into_iter().for_each(|point| waits.insert(point));
        let mut room = TimelinePoints::ROOM;
        let copied = self.submit_after(queue, waits.as_slice(&mut room), |queue, waits| {
            ring.submit_copy(gpu.device(), (queue, waits), &source, &ticket)
        });
        ring.close(copied.map_err(FrameReadbackError::Submit)?);
        Ok(ticket)
    }
}

impl<D: Device> Deref for Readback<'_, D> {
    type Target = ReadbackRing<D>;

    fn deref(&self) -> &ReadbackRing<D> {
        match &*self.ring {
            Some(ring) => ring,
            None => unreachable!("created before the guard"),
        }
    }
}

impl<D: Device> DerefMut for Readback<'_, D> {
    fn deref_mut(&mut self) -> &mut ReadbackRing<D> {
        match &mut *self.ring {
            Some(ring) => ring,
            None => unreachable!("created before the guard"),
        }
    }
}

impl<D: Device> fmt::Debug for Readback<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readback").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
