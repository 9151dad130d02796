//! The readback ring of a [`Gpu`](super::Gpu), created on first use.

use core::fmt;
use core::ops::Deref;
use std::sync::{MutexGuard, TryLockError};

use allotment_suballoc::Alignment;

use super::Gpu;
use crate::device::{Device, TimelinePoint};
use crate::memory::ResourceError;
use crate::sync::locked;
use crate::upload::{ReadbackRing, ReadbackTicket, RingError};

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
    /// For copies that the program records itself, of queries say; [`reads`](Self::reads) copies buffers and images. Allocate
    /// a range, record a copy to it, submit, and [close](ReadbackRing::close) the ring with the point that the submission
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
