//! Reads of buffers and images from any thread, which the end of a frame submits as one copy.

use core::fmt;

use super::Gpu;
use crate::device::{Device, ImagePart, TimelinePoint};
use crate::memory::{Buffer, Image, ShortName};
use crate::upload::{ReadError, ReadHandle, ReadQueue, ReadStatistics, ReadStatus};

/// Reads of buffers and images, batched into few submissions. Returned by [`Gpu::reads`](super::Gpu::reads).
///
/// The end of a frame submits the reads that are pending as one copy, which waits for all that any queue was given before,
/// pending uploads included, but not for what is [streamed](crate::upload::UploadHandle::streamed) to other resources; the
/// bytes are there some frames later, and no call waits for them. A program without frames calls
/// [`submit`](Self::submit). The resource may be dropped right after the call. Until it is submitted, a read is an open
/// recording: nothing is destroyed and nothing moves meanwhile.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::device::ImagePart;
///
/// let shadows = gpu.create_image(&ImageDesc::new(8, 8, 4).with_full_mips(), &MemoryUsage::GpuOnly.with_name("shadows"))?;
/// gpu.uploads().write_image(&shadows, &[7; (64 + 16 + 4 + 1) * 4])?;
/// let largest = gpu.reads().read_image(&shadows, &ImagePart::default().with_mip_levels(0..1))?;
/// let frame = gpu.begin_frame()?;
/// frame.end()?; // submits it
/// assert_eq!(gpu.reads().wait(&largest)?, [7; 64 * 4]); // a program looks some frames later instead, or awaits it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reads<'a, D: Device> {
    gpu: &'a Gpu<D>,
    queue: &'a ReadQueue<D>,
}

impl<'a, D: Device> Reads<'a, D> {
    pub(super) fn new(gpu: &'a Gpu<D>, queue: &'a ReadQueue<D>) -> Self {
        Self { gpu, queue }
    }

    /// Reads `size` bytes of a buffer that can be copied from, from byte `offset` on.
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
    ///         let read: allotment::upload::ReadHandle = coming.pop_front().unwrap();
    ///         assert_eq!(read.bytes()?, [7; 16]);
    ///     }
    ///     coming.push_back(gpu.reads().read_buffer(&counters, 64, 16)?);
    ///     frame.end()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError`]; nothing was added.
    #[inline(never)]
    pub fn read_buffer(&self, buffer: &Buffer<D>, offset: u64, size: u64) -> Result<ReadHandle, ReadError> {
        self.queue.read_buffer(buffer, offset, size)
    }

    /// Reads a part of an image, or all of it: mip levels, layers, faces, planes, depth or stencil, or a box. The bytes have
    /// the order of the [part](ImagePart), without padding. Each level stays in its state, which has to be known: the library
    /// knows it after a write of its own, and [`Image::set_state`] says it after the program's own barriers.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::ImagePart;
    ///
    /// let picture = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("picture"))?;
    /// // SAFETY: the image is in this state once the frame's commands, which draw it, have completed.
    /// unsafe { picture.set_state(Default::default()) };
    /// let read = gpu.reads().read_image(&picture, &ImagePart::default())?;
    /// assert_eq!(gpu.reads().wait(&read)?.len(), 64 * 64 * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError`]; nothing was added. Where the state is no longer known when the copy is submitted, the
    /// [handle](ReadHandle::status) says so.
    #[inline(never)]
    pub fn read_image(&self, image: &Image<D>, part: &ImagePart) -> Result<ReadHandle, ReadError> {
        self.queue.read_image(image, part)
    }

    /// Submits pending uploads and then the reads, as the end of a frame does. Returns the point at which all reads so far
    /// have their bytes; `None` where the GPU has none to do. A read for which there is no memory, or whose image is in a state
    /// that is not known, fails alone: its [handle](ReadHandle::status) says so.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # let sums = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("sums"))?;
    /// # gpu.uploads().write_buffer(&sums, 0, &[7; 256])?;
    /// let read = gpu.reads().read_buffer(&sums, 0, 256)?;
    /// if let Some(point) = gpu.reads().submit()? {
    ///     gpu.wait(point)?;
    /// }
    /// assert_eq!(read.bytes()?, [7; 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError`]; the reads have failed, and their handles say so.
    #[inline(never)]
    pub fn submit(&self) -> Result<Option<TimelinePoint>, ReadError> {
        self.queue.submit(&self.gpu.shared.uploader)
    }

    /// Submits reads that are pending, waits until this one is there, for at most
    /// [`GpuDesc::timeout`](super::GpuDesc::timeout), and returns its bytes: for tests and tools.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::ImagePart;
    ///
    /// let picture = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("picture"))?;
    /// gpu.uploads().write_image(&picture, &[7; 64 * 64 * 4])?;
    /// let corner = ImagePart::default().with_region([60, 60, 0], [4, 4, 1]);
    /// let read = gpu.reads().read_image(&picture, &corner)?;
    /// assert_eq!(gpu.reads().wait(&read)?, [7; 4 * 4 * 4]); // it also submitted the read, and the upload before
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ReadError`], [`WrongTracker`](ReadError::WrongTracker) for a read of another `Gpu`; the handle can be waited for
    /// again after [`DeviceError::TimedOut`](crate::device::DeviceError::TimedOut).
    #[inline(never)]
    pub fn wait(&self, read: &ReadHandle) -> Result<Vec<u8>, ReadError> {
        self.wait_for(read)?;
        read.bytes()
    }

    pub(super) fn wait_for(&self, read: &ReadHandle) -> Result<(), ReadError> {
        if !read.is_of(self.gpu.tracker()) {
            return Err(ReadError::WrongTracker { name: ShortName::NONE });
        }
        if read.status() == ReadStatus::Pending {
            // Its own error, if any, is in the handle.
            let _ = self.submit();
        }
        match read.status() {
            ReadStatus::Submitted(point) => self.gpu.wait(point).map_err(ReadError::Device),
            // Another thread is about to submit it.
            ReadStatus::Pending => Err(ReadError::NotYet),
            ReadStatus::Failed(error) => Err(error),
            ReadStatus::Ready => Ok(()),
        }
    }

    /// Returns counts of reads. Asks no driver.
    #[must_use]
    pub fn statistics(&self) -> ReadStatistics {
        self.queue.statistics()
    }
}

impl<D: Device> fmt::Debug for Reads<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

impl<D: Device> Gpu<D> {
    /// Returns the reads: bytes of buffers and images, from any thread.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// # let mesh = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// # gpu.uploads().write_buffer(&mesh, 0, &[7; 256])?;
    /// let read = gpu.reads().read_buffer(&mesh, 0, 256)?; // the end of the frame submits the copy
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reads(&self) -> Reads<'_, D> {
        Reads::new(self, &self.shared.reads)
    }
}
