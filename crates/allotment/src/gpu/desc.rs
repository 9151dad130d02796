//! Configuration of a [`Gpu`](super::Gpu): the configuration of each layer, and what only the front decides.

use core::num::NonZero;
use core::time::Duration;

use crate::descriptor::ShaderVisibleHeapDesc;
use crate::device::{Api, BufferDesc, DescriptionError, Device, DeviceError};
use crate::memory::{AllocatorDesc, DefragmenterDesc};
use crate::upload::{RingDesc, UploadPoolDesc, UploaderDesc};

/// Three frames: one that the CPU records, one that waits in the queue and one that the GPU executes.
const FRAMES_IN_FLIGHT: NonZero<usize> = NonZero::new(3).unwrap();

/// Longer than Windows lets a submission run before it resets the device (two seconds).
const TIMEOUT: Duration = Duration::from_secs(5);

/// More than an engine records at once on one queue, over three frames and a handful of threads.
const FREE_COMMAND_ALLOCATORS: usize = 32;

/// A screenshot of 1280 × 720 texels at four bytes, or thousands of query results.
const READBACK_BYTES: u64 = 4 << 20;

/// Usage of upload pages on Vulkan: uniform, storage, index, vertex and indirect buffer, all core flags of Vulkan 1.0,
/// and no driver known to us gives such a buffer other memory than a buffer with one of them. The last is the device
/// address, which a descriptor in a descriptor buffer consists of; a device that has not enabled it refuses the flag.
const VULKAN_PAGE_USAGE: u64 = 0x10 | 0x20 | 0x40 | 0x80 | 0x100 | 0x2_0000;

/// Which thread allocates blocks ahead of demand, where [`AllocatorDesc::block_growth`] asks for it.
///
/// ```
/// use allotment::gpu::{GpuDesc, Maintenance};
///
/// assert_eq!(GpuDesc::default().maintenance, Maintenance::EndOfFrame);
/// let desc = GpuDesc::default().with_maintenance(Maintenance::Thread); // no frame waits for the driver
/// assert_eq!(desc.maintenance, Maintenance::Thread);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maintenance {
    /// The thread that ends a frame, in [`Frame::end`](super::Frame::end).
    #[default]
    EndOfFrame,
    /// A [`MaintenanceThread`](crate::memory::MaintenanceThread) that lives as long as the [`Gpu`](super::Gpu), so
    /// that no frame waits for the driver.
    Thread,
}

/// How a [`Gpu`](super::Gpu) is configured. The default suits a program that draws three frames ahead.
///
/// ```
/// use core::time::Duration;
/// use allotment::gpu::GpuDesc;
/// use allotment::upload::{RingDesc, UploadPoolDesc};
///
/// let desc = GpuDesc::default()
///     .with_frames_in_flight(2)
///     .with_timeout(Duration::from_secs(1))
///     .with_upload_pages(UploadPoolDesc::default().with_page_size(1 << 20))
///     .with_readback(RingDesc::readback(64 << 20)); // bytes of screenshots and query results in flight
/// assert_eq!(desc.frames_in_flight.get(), 2);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GpuDesc {
    /// How the allocator works.
    pub allocator: AllocatorDesc,
    /// How many frames are in flight, with the one that is being recorded: 3 by default. Frame N begins once the GPU
    /// has completed frame N − 3.
    pub frames_in_flight: NonZero<usize>,
    /// How long [`begin_frame`](super::Gpu::begin_frame) and [`wait_idle`](super::Gpu::wait_idle) wait for the GPU at
    /// most: 5 seconds by default.
    pub timeout: Duration,
    /// Which queues copy uploads, and how much staging memory they use.
    pub uploader: UploaderDesc,
    /// The pages of [`Frame::upload`](super::Frame::upload). On Vulkan, a [usage](UploadPoolDesc::usage) of 0 is
    /// replaced by uniform, storage, index, vertex and indirect buffer, with a device address where that is enabled.
    pub upload_pages: UploadPoolDesc,
    /// The ring of [`Gpu::readback`](super::Gpu::readback): 4 MiB by default.
    pub readback: RingDesc,
    /// Free command allocators that are kept per queue at most: 32 by default.
    pub free_command_allocators: usize,
    /// The shader-visible heap of buffers and images. `None` by default: [`ShaderVisibleHeapDesc::resources`], made
    /// smaller where the device's limit is lower ([`ShaderVisibleHeapDesc::within`]).
    pub resource_descriptors: Option<ShaderVisibleHeapDesc>,
    /// The shader-visible heap of samplers. `None` by default: [`ShaderVisibleHeapDesc::samplers`], made smaller
    /// likewise.
    pub sampler_descriptors: Option<ShaderVisibleHeapDesc>,
    /// Whether [`Frame::end`](super::Frame::end) does a step of defragmentation, and within which limits. `None` by
    /// default: no step. Only [relocatable](crate::AllocationOptions::relocatable) buffers and images move.
    pub defragmentation: Option<DefragmenterDesc>,
    /// Which thread allocates blocks ahead of demand. The thread that ends a frame by default.
    pub maintenance: Maintenance,
}

impl Default for GpuDesc {
    fn default() -> Self {
        Self {
            allocator: AllocatorDesc::default(),
            frames_in_flight: FRAMES_IN_FLIGHT,
            timeout: TIMEOUT,
            uploader: UploaderDesc::default(),
            upload_pages: UploadPoolDesc::default(),
            readback: RingDesc::readback(READBACK_BYTES),
            free_command_allocators: FREE_COMMAND_ALLOCATORS,
            resource_descriptors: None,
            sampler_descriptors: None,
            defragmentation: None,
            maintenance: Maintenance::default(),
        }
    }
}

impl GpuDesc {
    /// Returns the same configuration with another allocator.
    #[must_use]
    pub fn with_allocator(mut self, allocator: AllocatorDesc) -> Self {
        self.allocator = allocator;
        self
    }

    /// Returns the same configuration with another number of frames in flight; 0 is taken as 1.
    #[must_use]
    pub fn with_frames_in_flight(mut self, frames: usize) -> Self {
        self.frames_in_flight = NonZero::new(frames).unwrap_or(NonZero::<usize>::MIN);
        self
    }

    /// Returns the same configuration with another limit for waits.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the same configuration with another uploader.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::upload::{UploaderDesc, WhenFull};
    ///
    /// let mut uploader = UploaderDesc::default();
    /// uploader.staging = 128 << 20; // bytes: a batch of 32 MiB, while the next ones are staged
    /// uploader.when_full = WhenFull::Refuse; // a write never waits for the GPU
    /// let gpu = Gpu::new(device, GpuDesc::default().with_uploader(uploader))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_uploader(mut self, uploader: UploaderDesc) -> Self {
        self.uploader = uploader;
        self
    }

    /// Returns the same configuration with other upload pages.
    #[must_use]
    pub fn with_upload_pages(mut self, pages: UploadPoolDesc) -> Self {
        self.upload_pages = pages;
        self
    }

    /// Returns the same configuration with another readback ring.
    #[must_use]
    pub fn with_readback(mut self, ring: RingDesc) -> Self {
        self.readback = ring;
        self
    }

    /// Returns the same configuration with another shader-visible heap of buffers and images.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::descriptor::ShaderVisibleHeapDesc;
    ///
    /// // 4,096 bindless slots, 1,024 descriptors in tables, and 8,192 for tables of one recording.
    /// let heap = ShaderVisibleHeapDesc::resources().with_regions(4096, 1024, 8192);
    /// let gpu = Gpu::new(device, GpuDesc::default().with_resource_descriptors(heap))?;
    /// assert!(gpu.descriptors()?.resources().statistics().capacity >= 4096 + 1024 + 8192);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_resource_descriptors(mut self, heap: ShaderVisibleHeapDesc) -> Self {
        self.resource_descriptors = Some(heap);
        self
    }

    /// Returns the same configuration with another shader-visible heap of samplers.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::descriptor::ShaderVisibleHeapDesc;
    ///
    /// // A program with few samplers: 64 distinct ones, 32 descriptors in tables, and 32 for recordings.
    /// let heap = ShaderVisibleHeapDesc::samplers().with_regions(64, 32, 32);
    /// let gpu = Gpu::new(device, GpuDesc::default().with_sampler_descriptors(heap))?;
    /// assert_eq!(gpu.descriptors()?.samplers().heap().statistics().slots.capacity, 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_sampler_descriptors(mut self, heap: ShaderVisibleHeapDesc) -> Self {
        self.sampler_descriptors = Some(heap);
        self
    }

    /// Returns the same configuration with a step of defragmentation at the end of each frame.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use core::time::Duration;
    /// use allotment::memory::defragmentation::{DefragmentationDesc, DefragmentationStrategy, PassLimits};
    ///
    /// let limits = PassLimits::default().with_time(Duration::from_micros(200));
    /// let fast = DefragmentationDesc::new(DefragmentationStrategy::Fast).with_limits(limits);
    /// let desc = GpuDesc::default().with_defragmentation(fast);
    /// let gpu = Gpu::new(device, desc)?;
    /// assert!(gpu.begin_frame()?.end()?.defragmentation.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_defragmentation(mut self, desc: impl Into<DefragmenterDesc>) -> Self {
        self.defragmentation = Some(desc.into());
        self
    }

    /// Returns the same configuration with maintenance on another thread.
    ///
    /// ```
    /// # use allotment::device::simulated::{Profile, SimulatedGpu};
    /// # use allotment::prelude::*;
    /// # let device = SimulatedGpu::new(Profile::named("discrete-large-bar").unwrap());
    /// use allotment::gpu::Maintenance;
    /// use allotment::memory::blocks::{BlockGrowth, Watermark};
    ///
    /// let mut allocator = AllocatorDesc::default();
    /// allocator.block_growth = BlockGrowth::Ahead(Watermark::default());
    /// let desc = GpuDesc::default().with_allocator(allocator).with_maintenance(Maintenance::Thread);
    /// let gpu = Gpu::new(device, desc)?; // its thread allocates the next block before a frame needs it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_maintenance(mut self, maintenance: Maintenance) -> Self {
        self.maintenance = maintenance;
        self
    }

    /// Returns the upload pages' configuration for a device.
    pub(super) fn pages_for<D: Device>(&self, device: &D) -> UploadPoolDesc {
        let mut desc = self.upload_pages.clone();
        // Without usage flags Vulkan would refuse the descriptor that a first program writes for its constants; on
        // Direct3D 12 a buffer needs none.
        if device.properties().api == Api::Vulkan && desc.usage == 0 {
            desc.usage = VULKAN_PAGE_USAGE;
            let page = BufferDesc::new(desc.page_size).with_usage(desc.usage).into();
            let asked = device.buffer_requirements(&page);
            if let Err(DeviceError::InvalidDescription(DescriptionError::UnknownUsage { flags })) = asked {
                desc.usage &= !flags;
            }
        }
        desc
    }
}
