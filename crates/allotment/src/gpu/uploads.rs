//! Writes to buffers and images from any thread, over the one uploader of a [`Gpu`](super::Gpu).

use core::error::Error;
use core::fmt;
use std::io;

use crate::device::{Device, QueueIndex};
use crate::lifetime::{SubmissionTracker, TimelinePoints};
use crate::memory::{Buffer, Image};
use crate::upload::{
    FillError, ImageRows, ImageWrite, UploadError, UploadHandle, Uploader, UploaderStatistics,
};

/// Writes to buffers and images, batched into few submissions. Returned by [`Gpu::uploads`](super::Gpu::uploads).
///
/// [`Frame::submit`](super::Frame::submit) and [`Gpu::submit`](super::Gpu::submit) submit what was written before and
/// make the commands wait for it, except for what is [streamed](UploadHandle::streamed). A program that submits by itself calls
/// [`submit`](Self::submit) and waits for the points that it returns.
///
/// All threads share one [`Uploader`] and its staging memory. A write that finds it full waits for the GPU; frames that
/// submit and small writes do not wait for that one.
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
/// gpu.uploads().write_buffer(&mesh, 0, &[1; 4096])?; // first contents
/// gpu.uploads().update_buffer(&mesh, 0, &[2; 16])?; // after everything that was submitted before
/// let there = gpu.uploads().submit()?;
/// gpu.wait(there)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Uploads<'a, D: Device> {
    uploader: &'a Uploader<D>,
    tracker: &'a SubmissionTracker,
    handle: Option<&'a UploadHandle>,
}

impl<'a, D: Device> Uploads<'a, D> {
    pub(super) fn new(uploader: &'a Uploader<D>, tracker: &'a SubmissionTracker) -> Self {
        Self { uploader, tracker, handle: None }
    }

    /// Returns the same with a handle, which knows of the writes that follow.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::UploadHandle;
    ///
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// let handle = UploadHandle::new();
    /// gpu.uploads().with_handle(&handle).write_buffer(&mesh, 0, &[7; 4096])?;
    /// gpu.wait(gpu.uploads().submit()?)?;
    /// gpu.reclaim(); // or the end of a frame
    /// assert!(handle.status().is_final());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_handle<'b>(&self, handle: &'b UploadHandle) -> Uploads<'b, D>
    where
        'a: 'b,
    {
        Uploads { uploader: self.uploader, tracker: self.tracker, handle: Some(handle) }
    }

    /// Refuses all writes until [`resume`](Self::resume), and wakes the threads that wait for staging memory: their writes
    /// return [`UploadError::Interrupted`]. Frames submit as before.
    pub fn stop(&self) {
        self.uploader.stop();
    }

    /// Accepts writes again after [`stop`](Self::stop).
    pub fn resume(&self) {
        self.uploader.resume();
    }

    /// Writes bytes of a buffer that no submitted work uses yet: the first contents of a mesh, say.
    ///
    /// The CPU writes them directly where it can reach the memory, and stages them elsewhere. Where submitted work
    /// uses the bytes nevertheless, that work reads old or new bytes: call [`update_buffer`](Self::update_buffer) then.
    ///
    /// On Vulkan an [exclusive](crate::device::SharingMode::Exclusive) buffer belongs to the family of the first graphics queue
    /// afterwards, whichever queue copies.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let indices = gpu.create_buffer(&BufferDesc::new(12), &MemoryUsage::GpuOnly.with_name("indices"))?;
    /// let bytes: Vec<u8> = [0_u32, 1, 2].iter().flat_map(|index| index.to_ne_bytes()).collect();
    /// gpu.uploads().write_buffer(&indices, 0, &bytes)?;
    /// # let mut back = [0; 12];
    /// # gpu.read_buffer(&indices, 0, &mut back)?;
    /// # assert_eq!(bytes, back);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError`]: the buffer belongs to another `Gpu`, the range exceeds it, staging memory stays full for longer
    /// than the uploader waits, or the device refuses. Some of the bytes may be written or staged then.
    #[inline(never)]
    pub fn write_buffer(&self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        self.uploader.initialize_as(self.handle, to, offset, bytes)
    }

    /// Writes bytes of a buffer that submitted work may still use: the copy waits for everything that any queue was
    /// given before this call, except what is [streamed](UploadHandle::streamed) over other queues.
    ///
    /// A separate [`Uploader`] can wait for less: [`Uploader::wait_for`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let lights = gpu.create_buffer(&BufferDesc::new(256), &MemoryUsage::GpuOnly.with_name("lights"))?;
    /// gpu.uploads().write_buffer(&lights, 0, &[1; 256])?;
    /// gpu.begin_frame()?.end()?; // frames that read the lights
    /// gpu.uploads().update_buffer(&lights, 64, &[2; 16])?; // one light changed
    /// let mut bytes = [0; 256];
    /// gpu.read_buffer(&lights, 0, &mut bytes)?;
    /// assert_eq!((bytes[63], bytes[64], bytes[80]), (1, 2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`write_buffer`](Self::write_buffer), and [`UploadError::ReadOnly`] where queues cannot write to
    /// the buffer's memory.
    #[inline(never)]
    pub fn update_buffer(&self, to: &Buffer<D>, offset: u64, bytes: &[u8]) -> Result<(), UploadError> {
        // The queue that copies may be another one than those that read, and queues run side by side. In one call: a
        // submission by another thread would use up the waits of a call before, and the batch of this write would not have
        // them.
        let points = self.uploader.without_streamed(self.tracker.submitted());
        self.uploader.update_as(self.handle, to, offset, bytes, &points)
    }

    /// Writes a whole image: all mip levels, array layers and faces, depth and stencil, planes. Shaders can read it
    /// afterwards. Where submitted work may use the image, the copies wait for that work.
    ///
    /// `bytes` has each array layer with all its mip levels, as DDS files do; without padding, and of a compressed format in
    /// rows of blocks. [`write_image_part`](Self::write_image_part) writes less, or in another order of bytes.
    ///
    /// On Vulkan an [exclusive](crate::device::SharingMode::Exclusive) image belongs to the family of the first graphics queue
    /// afterwards, whichever queue copies.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// // Two layers with three mip levels of 4 × 4, 2 × 2 and 1 texels, of 4 bytes each.
    /// let desc = ImageDesc::new(4, 4, 4).with_mip_levels(3).with_array_layers(2);
    /// let albedo = gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("albedo"))?;
    /// gpu.uploads().write_image(&albedo, &[255; 2 * (16 + 4 + 1) * 4])?;
    /// // Commands of a frame that is submitted now sample it: they wait for the copies on the GPU.
    /// # gpu.wait(gpu.uploads().submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError`], as for [`Uploader::write_image`].
    #[inline(never)]
    pub fn write_image(&self, to: &Image<D>, bytes: &[u8]) -> Result<(), UploadError> {
        self.uploader.write_image_as(self.handle, to, &ImageWrite::default(), bytes)
    }

    /// Writes a part of an image: mip levels, array layers, an aspect or a box. The [`ImageWrite`] also says in which order
    /// the bytes are, and the state of the image afterwards.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::ImagePart;
    ///
    /// let atlas = gpu.create_image(&ImageDesc::new(256, 256, 4), &MemoryUsage::GpuOnly.with_name("atlas"))?;
    /// let glyph = ImagePart::default().with_region([32, 64, 0], [16, 16, 1]);
    /// gpu.uploads().write_image_part(&atlas, &glyph.into(), &[255; 16 * 16 * 4])?;
    /// # gpu.wait(gpu.uploads().submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError`], as for [`Uploader::write_image`].
    #[inline(never)]
    pub fn write_image_part(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        bytes: &[u8],
    ) -> Result<(), UploadError> {
        self.uploader.write_image_as(self.handle, to, write, bytes)
    }

    /// Writes an image, or a part of it, from a reader, as [`Uploader::write_image_from`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::device::{ImageDataOrder, ImagePart};
    ///
    /// let desc = ImageDesc::new(64, 64, 4).with_mip_levels(2).with_array_layers(6);
    /// let sky = gpu.create_image(&desc, &MemoryUsage::GpuOnly.with_name("sky"))?;
    /// // All faces of the largest level, then those of the next: a `std::fs::File` behind its header, say.
    /// let file: &[u8] = &[7; 6 * (64 * 64 + 32 * 32) * 4];
    /// let part = ImagePart::default().with_order(ImageDataOrder::MipMajor);
    /// gpu.uploads().write_image_from(&sky, &part.into(), file)?;
    /// # gpu.wait(gpu.uploads().submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError`], and [`UploadError::Read`] where the reader fails or ends.
    #[inline(never)]
    pub fn write_image_from(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        reader: impl io::Read,
    ) -> Result<(), UploadError> {
        self.uploader.write_image_from_as(self.handle, to, write, reader)
    }

    /// Writes an image, or a part of it, by a closure that fills rows in staging memory, as [`Uploader::write_image_with`].
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// use allotment::upload::ImageWrite;
    ///
    /// let noise = gpu.create_image(&ImageDesc::new(64, 64, 4), &MemoryUsage::GpuOnly.with_name("noise"))?;
    /// let mut decoder = std::io::repeat(7);
    /// gpu.uploads().write_image_with(&noise, &ImageWrite::default(), |rows| {
    ///     for row in rows.rows_mut() {
    ///         std::io::Read::read_exact(&mut decoder, row)?; // an error of any type
    ///     }
    ///     Ok(())
    /// })?;
    /// # gpu.wait(gpu.uploads().submit()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FillError`].
    #[inline(never)]
    pub fn write_image_with(
        &self,
        to: &Image<D>,
        write: &ImageWrite<D::ImageState>,
        fill: impl FnMut(&mut ImageRows<'_>) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<(), FillError> {
        self.uploader.write_image_with_as(self.handle, to, write, fill)
    }

    /// Submits what was written and returns the points at which all of it has arrived, except what is
    /// [streamed](UploadHandle::streamed). Commands that read it wait for these. Submits nothing where nothing is staged.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?;
    /// let arrived = gpu.uploads().submit()?;
    /// for point in arrived.points() {
    ///     println!("submissions of other queues wait until {:?} has reached {:?}", point.queue, point.value);
    /// }
    /// assert!(gpu.uploads().submit()?.is_within(&arrived), "nothing new");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UploadError::Device`]. Staged bytes stay staged, and a later submission takes them; after
    /// [`DeviceError::Lost`](crate::device::DeviceError::Lost) they are gone.
    #[inline(never)]
    pub fn submit(&self) -> Result<TimelinePoints, UploadError> {
        self.uploader.submit()
    }

    /// Submits as [`submit`](Self::submit) does, before commands are submitted to `queue`.
    pub(super) fn submit_for(&self, queue: QueueIndex) -> Result<TimelinePoints, UploadError> {
        self.uploader.submit_for(Some(queue))
    }

    /// Submits what was written, also what is streamed, and hands over all exclusive resources.
    pub(super) fn submit_all(&self) -> Result<(), UploadError> {
        self.uploader.submit_all()
    }

    /// Ends a frame, for the limits of what is streamed.
    pub(super) fn next_frame(&self) {
        self.uploader.next_frame();
    }

    /// Discards what was staged and not submitted, by all threads.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?;
    /// gpu.uploads().discard(); // the level was left before it was loaded
    /// assert_eq!(gpu.uploads().statistics().open_bytes, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn discard(&self) {
        self.uploader.discard();
    }

    /// Returns what was uploaded so far, and what is in flight. Queries the progress of the queues.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    /// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
    /// let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh"))?;
    /// gpu.uploads().write_buffer(&mesh, 0, &[7; 4096])?;
    /// assert_eq!(gpu.uploads().statistics().open_bytes, 4096); // staged, and not submitted yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn statistics(&self) -> UploaderStatistics {
        self.uploader.statistics()
    }
}

impl<D: Device> fmt::Debug for Uploads<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploads").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
