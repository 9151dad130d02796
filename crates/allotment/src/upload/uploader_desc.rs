//! Options of an uploader.

use core::time::Duration;

use super::lane::WhenFull;
use crate::device::QueueIndex;

/// The options of an [`Uploader`](super::Uploader).
///
/// ```
/// # use allotment::device::simulated::{Profile, SimulatedGpu};
/// # use allotment::prelude::*;
/// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
/// # let gpu = Gpu::new(device.clone(), GpuDesc::default())?;
/// use allotment::upload::{Uploader, UploaderDesc};
///
/// let mut desc = UploaderDesc::default();
/// desc.staging = 128 << 20; // bytes: a batch of 32 MiB
/// desc.queue = Some(QueueIndex(2)); // beside the frames
/// let streaming = Uploader::new(gpu.memory(), desc)?;
/// assert_eq!(streaming.queues()[0], QueueIndex(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UploaderDesc {
    /// Bytes of staging memory for each queue, for all threads together, allocated on first use. A batch is submitted
    /// when it reaches a quarter of them, and an eighth is left to small writes. Default: 32 MiB, so that the
    /// copy of a batch takes longer than its submission.
    pub staging: u64,
    /// The queue that copies to buffers. Default: the first transfer queue, or the first queue if there is none. What it writes
    /// of [exclusive](crate::device::SharingMode::Exclusive) ones is handed over to the family of the first graphics queue.
    pub queue: Option<QueueIndex>,
    /// The queue that copies to images. Default: the first graphics queue, or the first queue if there is none. A transfer
    /// queue copies beside rendering. What it writes of [exclusive](crate::device::SharingMode::Exclusive) images is handed
    /// over to the family of the first graphics queue, which copies boxes of them that keep other texels of a mip level.
    pub image_queue: Option<QueueIndex>,
    /// After so many bytes of [streamed](super::UploadHandle::streamed) writes, threads that stream wait for the next frame;
    /// others do not. For each queue, by all threads together. A piece of a write that has begun is staged, so a frame may
    /// have an eighth of the staging memory more for each thread. Default: `u64::MAX`, no limit.
    ///
    /// `Frame::end` ends a frame, or [`Uploader::next_frame`](super::Uploader::next_frame). Where 100 ms pass without either,
    /// there is no limit until the next. With [`WhenFull::Refuse`] there is no limit.
    pub streamed_bytes_per_frame: u64,
    /// After a queue has worked so long at streamed writes since the end of the last frame, threads that stream wait for the
    /// next one. As the CPU sees it: from the submission of a batch, or the end of the batch before, to its end. A batch that
    /// is submitted is executed, so a frame may have one or two more. For images on the queue that also draws. Default:
    /// `Duration::MAX`, no limit.
    pub streamed_time_per_frame: Duration,
    /// The policy if staging memory is full of pending bytes. Default: wait, at most a second for each batch.
    pub when_full: WhenFull,
    /// Whether the CPU copies texels into images that the GPU has not been given yet, without staging, where the device can:
    /// on Vulkan with [`HOST_IMAGE_COPY`], into images with the usage `VK_IMAGE_USAGE_HOST_TRANSFER_BIT`; on Direct3D 12 into
    /// textures of a device with `DeviceDesc::with_host_written_textures`. The bytes of a reader or of a closure are staged all
    /// the same. Default: yes.
    ///
    #[cfg_attr(
        feature = "vulkan",
        doc = "[`HOST_IMAGE_COPY`]: crate::device::vulkan::EnabledFeatures::HOST_IMAGE_COPY"
    )]
    #[cfg_attr(
        not(feature = "vulkan"),
        doc = "[`HOST_IMAGE_COPY`]: crate::device::ImageDevice::write_image_from_host"
    )]
    pub copies_from_host: bool,
}

impl Default for UploaderDesc {
    fn default() -> Self {
        Self {
            staging: 32 << 20,
            queue: None,
            image_queue: None,
            streamed_bytes_per_frame: u64::MAX,
            streamed_time_per_frame: Duration::MAX,
            when_full: WhenFull::Wait(Duration::from_secs(1)),
            copies_from_host: true,
        }
    }
}
