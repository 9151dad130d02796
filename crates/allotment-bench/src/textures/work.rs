//! Uploads of textures over the library's uploader.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use allotment::device::vulkan::{Device, EnabledFeatures};
use allotment::device::{ImageDesc, ImageDevice as _, ImagePart};
use allotment::lifetime::{DeletionQueue, SubmissionTracker};
use allotment::memory::OwningAllocator;
use allotment::upload::{ImageWrite, Uploader, UploaderDesc};
use allotment::{Allocator, AllocatorDesc, MemoryUsage};
use ash::vk;

use crate::failure::Failure;
use crate::rng::Rng;
use crate::vulkan::Gpu;

/// Staging memory into which all textures of a repetition fit: the thread never waits for room.
const STAGING: u64 = 512 << 20;

const PATIENCE: Duration = Duration::from_secs(30);

/// What all measurements share.
pub(super) struct Bench {
    gpu: Arc<Gpu>,
    tracker: SubmissionTracker,
    deletion_queue: DeletionQueue,
    memory: OwningAllocator<Device>,
    staging: Uploader<Device>,
    /// Copies into the images where it can.
    copying: Uploader<Device>,
}

/// The times of all textures of a repetition.
pub(super) struct Times {
    pub(super) write_us: f64,
    pub(super) there_us: f64,
}

fn failed(error: impl fmt::Display) -> Failure {
    Failure::Setup { contender: "allotment", error: error.to_string() }
}

impl Bench {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let device = gpu.library().clone();
        let tracker = SubmissionTracker::new(device.clone()).map_err(failed)?;
        let allocator = Arc::new(Allocator::new(device, AllocatorDesc::default()).map_err(failed)?);
        let deletion_queue = DeletionQueue::new(&tracker);
        let memory = OwningAllocator::new(&allocator, &deletion_queue).map_err(failed)?;
        let uploader = |copies_from_host| {
            let mut desc = UploaderDesc::default();
            (desc.staging, desc.copies_from_host) = (STAGING, copies_from_host);
            Uploader::new(&memory, desc).map_err(failed)
        };
        let (staging, copying) = (uploader(false)?, uploader(true)?);
        Ok(Self { gpu: Arc::clone(gpu), tracker, deletion_queue, memory, staging, copying })
    }

    /// Returns the bytes of such an image without padding; `None` where the device has none.
    pub(super) fn bytes(&self, desc: &ImageDesc) -> Option<u64> {
        let (device, info) = (self.gpu.library(), (*desc).into());
        device.image_requirements(&info).ok()?;
        device.image_shape(&info).part_bytes(&ImagePart::default()).ok()
    }

    pub(super) fn is_host_writable(&self, desc: &ImageDesc) -> bool {
        self.gpu.library().image_shape(&(*desc).into()).is_host_writable
    }

    /// Returns a description of images that the CPU can copy into, if the device has such.
    pub(super) fn with_host_usage(&self, desc: &ImageDesc) -> Option<ImageDesc> {
        if !self.gpu.library().enabled().contains(EnabledFeatures::HOST_IMAGE_COPY) {
            return None;
        }
        let desc = desc.with_usage(vk::ImageUsageFlags::HOST_TRANSFER_EXT.as_raw().into());
        self.bytes(&desc)?;
        self.is_host_writable(&desc).then_some(desc)
    }

    /// Returns random texels.
    pub(super) fn source(&self, bytes: u64) -> Vec<u8> {
        let mut rng = Rng::new(3);
        let mut source: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).collect();
        source.truncate(bytes as usize);
        source
    }

    /// Creates textures and writes all of them.
    pub(super) fn upload(
        &self,
        desc: &ImageDesc,
        textures: u64,
        source: &[u8],
        copies: bool,
    ) -> Result<Times, Failure> {
        let uploader = if copies { &self.copying } else { &self.staging };
        let options = MemoryUsage::GpuOnly.with_name("texture");
        let images = (0..textures).map(|_| self.memory.create_image(&(*desc).into(), &options));
        let images: Vec<_> = images.collect::<Result<_, _>>().map_err(failed)?;
        let before = uploader.statistics();
        let write = ImageWrite::default();
        let start = Instant::now();
        for image in &images {
            uploader.write_image(image, &write, source).map_err(failed)?;
        }
        let written = start.elapsed();
        let there = uploader.submit().map_err(failed)?;
        self.tracker.wait_all(&there, PATIENCE).map_err(failed)?;
        let arrived = start.elapsed();
        let copied = uploader.statistics().host_copied_bytes - before.host_copied_bytes;
        if copied != if copies { textures * source.len() as u64 } else { 0 } {
            return Err(failed("the texels came another way than the one that is measured"));
        }
        drop(images);
        self.tracker.wait_idle(PATIENCE).map_err(failed)?;
        self.deletion_queue.reclaim();
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Ok(Times { write_us: us(written), there_us: us(arrived) })
    }
}
